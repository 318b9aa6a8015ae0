//! A cloud that exists only in a process, believable enough to try everything on.
//!
//! One engine with two faces:
//!
//! ```text
//!   SimulatedProvider ──▶ CloudApi ─┬─ InProcess ───────────────▶ SimulatedCloud   (default; simulation)
//!                                   └─ Remote ──HTTP──▶ server ──▶ SimulatedCloud   (own process, own file)
//! ```
//!
//! The engine is pure and replays from a seed; it keeps its own books, which the provider cannot see, so that what
//! the control plane believes can be compared with what is. The provider treats it as it would a real cloud: names
//! are not unique, answers get lost, lists lag behind.

pub mod allowed_address;
pub mod api;
pub mod call;
pub mod catalogue;
pub mod engine;
mod flat;
pub mod in_process;
pub mod journal;
pub mod objects;
pub mod provider;
pub mod remote;
pub mod server;
pub mod shares;

pub use api::{CloudApi, Doors, SimulatedHandle};
pub use call::Caller;
pub use engine::SimulatedCloud;
pub use in_process::{InProcess, Kept};
pub use provider::SimulatedProvider;
pub use remote::Remote;

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod testing;
