//! Whole-system tests, in one binary: a module for each capability.

mod conformance;
mod docs;
mod http;
mod kernel;
mod kill;
#[cfg(feature = "openstack")]
mod openstack;
mod scenarios;
#[cfg(feature = "sabotage")]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
mod simulation;
mod support;
