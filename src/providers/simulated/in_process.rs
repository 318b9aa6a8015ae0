//! The cloud in this process: the default, and what the simulation runs on.
//!
//! The engine is a value behind a lock that is never held across an await; all waiting (slow calls, hung calls) is
//! done here, on the runtime's clock. Before and after the engine acts a point is passed where the simulation can
//! end the calling process; the cloud itself, being shared, survives that.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::api::{CloudApi, SimulatedHandle};
use super::call::{Answer, CALL_DEADLINE, CallRequest, CloudError};
use super::engine::backdoor::BackdoorChange;
use super::engine::books::{Counters, Creations, Inventory, LoggedCall};
use super::engine::faults::Fault;
use super::engine::settings::EngineSettings;
use super::engine::{Sending, SimulatedCloud};
use super::journal::Journal;
use crate::model::ambient::{Ambient, Interrupt};

/// A cloud and, if it is to outlive the process, its journal. One lock for both keeps their orders equal.
pub struct Kept {
    pub cloud: SimulatedCloud,
    pub journal: Option<Journal>,
}

impl Kept {
    /// A cloud that lives as long as whoever holds it.
    #[must_use]
    pub fn in_memory(cloud: SimulatedCloud) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { cloud, journal: None }))
    }

    /// A cloud that is kept in a file, and begun with the seed if the file is new.
    pub fn in_file(path: &Path, seed: u64, now: Timestamp) -> io::Result<Arc<Mutex<Self>>> {
        let (cloud, journal) = Journal::open(path, seed, now)?;
        Ok(Arc::new(Mutex::new(Self { cloud, journal: Some(journal) })))
    }
}

/// A way to a cloud in this process. Any number of them can lead to one cloud.
#[derive(Clone)]
pub struct InProcess {
    kept: Arc<Mutex<Kept>>,
    ambient: Ambient,
    interrupt: Arc<dyn Interrupt>,
    call_delay: Duration,
}

impl InProcess {
    #[must_use]
    pub fn new(kept: Arc<Mutex<Kept>>, ambient: Ambient, interrupt: Arc<dyn Interrupt>, call_delay: Duration) -> Self {
        Self { kept, ambient, interrupt, call_delay }
    }

    /// Has the cloud behave as a region's settings say.
    pub fn configure(&self, settings: EngineSettings) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).cloud.configure(settings);
    }

    /// Works on the cloud, and has what changed written down before anybody can be told of it.
    fn with<T>(&self, work: impl FnOnce(&mut SimulatedCloud, Timestamp) -> T) -> Result<T, CloudError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { cloud, journal } = &mut *kept;
        let done = work(cloud, self.ambient.now());
        match journal {
            None => cloud.discard_journal_line(),
            Some(journal) => journal.write(cloud).map_err(|error| {
                tracing::error!(%error, "the simulated cloud cannot write its journal");
                CloudError::Unavailable
            })?,
        }
        Ok(done)
    }

    async fn attempt(&self, request: CallRequest) -> Result<Answer, CloudError> {
        let operation = request.call.operation();
        let fate = self.with(|cloud, _| cloud.admit(&request))?;
        let delay = self.call_delay + fate.delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        self.interrupt.point(&format!("cloud:before:{operation}")).await;
        let outcome = self.with(|cloud, now| cloud.perform(now, &request, fate.effect.as_ref()))?;
        self.interrupt.point(&format!("cloud:after:{operation}")).await;
        match outcome.sending {
            Sending::AtOnce => {}
            Sending::After(wait) => tokio::time::sleep(wait).await,
            Sending::Never => std::future::pending().await,
        }
        outcome.result
    }
}

#[async_trait]
impl CloudApi for InProcess {
    async fn call(&self, request: CallRequest) -> Result<Answer, CloudError> {
        tokio::time::timeout(CALL_DEADLINE, self.attempt(request)).await.unwrap_or(Err(CloudError::TimedOut))
    }
}

#[async_trait]
impl SimulatedHandle for InProcess {
    async fn inventory(&self) -> Result<Inventory, CloudError> {
        self.with(SimulatedCloud::inventory)
    }

    async fn calls(&self, after: u64) -> Result<Vec<LoggedCall>, CloudError> {
        self.with(|cloud, _| cloud.calls_after(after))
    }

    async fn creations(&self) -> Result<Creations, CloudError> {
        self.with(|cloud, _| cloud.creations())
    }

    async fn counters(&self) -> Result<Counters, CloudError> {
        self.with(|cloud, _| cloud.counters().clone())
    }

    async fn faults(&self) -> Result<Vec<Fault>, CloudError> {
        self.with(|cloud, _| cloud.faults().to_vec())
    }

    async fn add_faults(&self, faults: Vec<Fault>) -> Result<(), CloudError> {
        self.with(|cloud, _| cloud.add_faults(faults))?
    }

    async fn clear_faults(&self) -> Result<(), CloudError> {
        self.with(|cloud, _| cloud.clear_faults())
    }

    async fn change_directly(&self, change: BackdoorChange) -> Result<(), CloudError> {
        self.with(|cloud, now| cloud.change_directly(now, &change))?
    }
}
