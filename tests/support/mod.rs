//! The rigs that tests run on.

pub mod crash;
pub mod world;
