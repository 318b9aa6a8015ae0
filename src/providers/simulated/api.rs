//! How the cloud is reached: the calls that a provider makes, and the handle that an operator has.
//!
//! Two traits, because the provider must not be able to look at the books: what it knows, it knows from calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::call::{Answer, CallRequest, CloudError};
use super::engine::backdoor::BackdoorChange;
use super::engine::books::{Counters, Creations, Inventory, LoggedCall};
use super::engine::faults::Fault;
use super::in_process::{InProcess, Kept};
use super::remote::Remote;
use crate::model::ambient::{Ambient, Interrupt};
use crate::model::region::SimulatedSettings;

/// The cloud's front door.
#[async_trait]
pub trait CloudApi: Send + Sync {
    /// Makes one call. Ends within [`super::call::CALL_DEADLINE`], with `TimedOut` if nothing else.
    async fn call(&self, request: CallRequest) -> Result<Answer, CloudError>;
}

/// The cloud's machine room: its books, its faults, its back door.
#[async_trait]
pub trait SimulatedHandle: Send + Sync {
    async fn inventory(&self) -> Result<Inventory, CloudError>;
    /// A page of the log after a sequence number, oldest first; empty at the end.
    async fn calls(&self, after: u64) -> Result<Vec<LoggedCall>, CloudError>;
    async fn creations(&self) -> Result<Creations, CloudError>;
    async fn counters(&self) -> Result<Counters, CloudError>;
    async fn faults(&self) -> Result<Vec<Fault>, CloudError>;
    async fn add_faults(&self, faults: Vec<Fault>) -> Result<(), CloudError>;
    async fn clear_faults(&self) -> Result<(), CloudError>;
    async fn change_directly(&self, change: BackdoorChange) -> Result<(), CloudError>;
}

/// Both doors of a region's cloud.
#[derive(Clone)]
pub struct Doors {
    pub api: Arc<dyn CloudApi>,
    pub handle: Arc<dyn SimulatedHandle>,
}

impl Doors {
    /// The cloud that a region's settings name: at an endpoint or, without one, this one.
    pub fn of(
        settings: &SimulatedSettings,
        local: &Arc<Mutex<Kept>>,
        ambient: &Ambient,
        interrupt: &Arc<dyn Interrupt>,
    ) -> Result<Self, CloudError> {
        if let Some(endpoint) = &settings.endpoint {
            let remote = Arc::new(Remote::new(endpoint)?);
            return Ok(Self { api: Arc::clone(&remote) as _, handle: remote });
        }
        let call_delay = Duration::from_millis(settings.call_delay_ms);
        let face = InProcess::new(Arc::clone(local), ambient.clone(), Arc::clone(interrupt), call_delay);
        face.configure(settings.into());
        let face = Arc::new(face);
        Ok(Self { api: Arc::clone(&face) as _, handle: face })
    }
}
