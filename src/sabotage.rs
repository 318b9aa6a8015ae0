//! Deliberate defects, for proving that the simulation notices them.
//!
//! A harness that has never failed proves nothing. Compiled in only with the feature `sabotage`, and then still off
//! until a test switches one on for its own thread: a simulated process runs on one thread.

/// What can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A look-up that failed is taken for "not found".
    CreateOnAnyLookupError,
    /// References are given back before the cloud has confirmed that nothing is left.
    ReleaseReferencesEarly,
    /// Quota is given back before the cloud has confirmed that nothing is left.
    ReleaseQuotaEarly,
    /// What a monitor said is acted on without looking again.
    TrustObservations,
    /// What arrives while a pass runs is forgotten.
    LoseWakesDuringPass,
}

#[cfg(feature = "sabotage")]
mod switch {
    use std::cell::Cell;

    use super::Defect;

    thread_local! {
        static ON: Cell<Option<Defect>> = const { Cell::new(None) };
    }

    pub fn set(defect: Option<Defect>) {
        ON.set(defect);
    }

    pub fn is_on(defect: Defect) -> bool {
        ON.get() == Some(defect)
    }
}

#[cfg(not(feature = "sabotage"))]
mod switch {
    use super::Defect;

    pub const fn is_on(_defect: Defect) -> bool {
        false
    }
}

pub use switch::*;
