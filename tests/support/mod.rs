//! The rigs that tests run on.

pub mod crash;
pub mod process;
pub mod world;
