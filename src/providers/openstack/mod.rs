//! The provider of OpenStack regions.

pub mod transport;
