//! Deliberately wrong behaviour, for proving that the tests notice it.
//!
//! Only with the feature `sabotage`, which no release is built with, and then only for the thread that switched it on:
//! a simulated process runs on one.

#[cfg(feature = "sabotage")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        static CREATE_ON_ANY_LOOKUP_ERROR: Cell<bool> = const { Cell::new(false) };
    }

    /// Take a look-up that failed for "not found" (B1).
    pub fn set_create_on_any_lookup_error(on: bool) {
        CREATE_ON_ANY_LOOKUP_ERROR.set(on);
    }

    pub fn create_on_any_lookup_error() -> bool {
        CREATE_ON_ANY_LOOKUP_ERROR.get()
    }
}

#[cfg(not(feature = "sabotage"))]
mod switch {
    pub const fn create_on_any_lookup_error() -> bool {
        false
    }
}

pub use switch::*;
