//! The current version of the region service.

pub mod networks;
