//! Deliberately wrong behaviour, for proving that the simulation notices it.
//!
//! Only with the feature `sabotage`, which no release is built with, and then only once it is switched on.

#[cfg(feature = "sabotage")]
mod switch {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Take a look-up that failed for "not found" (B1).
    pub static CREATE_ON_ANY_LOOKUP_ERROR: AtomicBool = AtomicBool::new(false);

    pub fn create_on_any_lookup_error() -> bool {
        CREATE_ON_ANY_LOOKUP_ERROR.load(Ordering::Relaxed)
    }
}

#[cfg(not(feature = "sabotage"))]
mod switch {
    pub const fn create_on_any_lookup_error() -> bool {
        false
    }
}

pub use switch::*;
