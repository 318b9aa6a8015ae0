//! The region's pool: every call to the cloud passes here.
//!
//! ```text
//!   caller ──Ask──▶ pool actor ──permit──▶ caller ──call──▶ cloud
//!                        ▲                    │
//!                        └─────Finished───────┘ (the permit, dropped)
//! ```
//!
//! The actor decides who may call and when ([`gate`]: limiter, breaker, fair queue, all pure); the call itself runs
//! in its caller's task (a mutation) or in a task that its readers share (a read, [`flight`]). So a slow cloud never
//! blocks the actor, and an actor that dies takes no call with it.
//!
//! # Guarantees
//! - At most as many calls are in flight per service as the limit says, over restarts of the actor too.
//! - Tenants are served in turn; a tenant's single call waits for no more than the calls in flight and one call of
//!   each tenant that came before it.
//! - A permit comes back whatever becomes of its caller.
//! - A waiting caller gets an answer: a permit, a refusal, or `Unavailable` when the actor dies or the wait is over.
//!
//! # Assumptions
//! - The future that `make` returns does nothing before it is polled, and makes one call of its own, without passing
//!   through the pool again: a call that waits for a second permit while it holds one can starve itself.

mod actor;
mod breaker;
mod flight;
mod gate;
mod limiter;
mod meters;
mod permit;
mod queue;
mod record;
mod running;
mod settings;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use ractor::{Actor, ActorCell, ActorRef, SpawnErr};
use tokio::time::Instant;

use super::{CallContext, Observed, ProviderError, ProviderResult};
use crate::model::ambient::Ambient;
use crate::model::ids::RegionId;
use flight::Boarding;
use running::{Begun, RunningCall};
use shared::Shared;

pub use actor::PoolMessage;
pub use breaker::BreakerState;
pub use gate::ServiceStatus;
pub use record::{CallEnd, CallRecord, Outcome};
pub use settings::*;

/// Which service of the cloud a call goes to. Each has its own budget of concurrent calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    Identity,
    Network,
    Compute,
    Image,
    LoadBalancer,
    BlockStorage,
    FileStorage,
}

impl Service {
    pub const ALL: [Self; 7] = [
        Self::Identity,
        Self::Network,
        Self::Compute,
        Self::Image,
        Self::LoadBalancer,
        Self::BlockStorage,
        Self::FileStorage,
    ];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Network => "network",
            Self::Compute => "compute",
            Self::Image => "image",
            Self::LoadBalancer => "load-balancer",
            Self::BlockStorage => "block-storage",
            Self::FileStorage => "file-storage",
        }
    }
}

/// What a call does, for the record and for joining identical reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation {
    pub service: Service,
    pub name: &'static str,
    /// The object it is about, as the cloud or we name it. Whatever changes the answer of a read must be in here:
    /// reads of one tenant that are equal in all three share one call.
    pub subject: String,
}

/// The way to a region's cloud. Cheap to clone; outlives the lives of its actor.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

impl Pool {
    /// A pool without an actor: it answers `Unavailable` until [`Pool::spawn_linked`] was called.
    #[must_use]
    pub fn new(region: RegionId, settings: PoolSettings, ambient: Ambient) -> Self {
        Self { shared: Arc::new(Shared::new(region, settings, ambient)) }
    }

    /// Starts the actor, or starts it again. An earlier life that still runs is ended by this.
    pub async fn spawn_linked(&self, supervisor: ActorCell) -> Result<ActorRef<PoolMessage>, SpawnErr> {
        let shared = Arc::clone(&self.shared);
        let (actor, _task) = Actor::spawn_linked(None, actor::PoolActor, shared, supervisor).await?;
        Ok(actor)
    }

    /// Starts the actor with nobody above it, for a command that soon ends.
    pub async fn spawn(&self) -> Result<ActorRef<PoolMessage>, SpawnErr> {
        let (actor, _task) = Actor::spawn(None, actor::PoolActor, Arc::clone(&self.shared)).await?;
        Ok(actor)
    }

    /// Reads: joins an identical read of the same tenant that is under way, and stops at once when cancelled.
    pub async fn read<T, F>(
        &self,
        context: &CallContext<'_>,
        operation: Operation,
        make: F,
    ) -> ProviderResult<Observed<T>>
    where
        T: Clone + Send + Sync + 'static,
        F: FnOnce() -> BoxFuture<'static, ProviderResult<T>> + Send,
    {
        if context.cancelled.is_cancelled() {
            return Err(ProviderError::Cancelled);
        }
        let mut waiter = match flight::board(&self.shared, context.tenant, &operation) {
            Boarding::Joined(waiter) => waiter,
            Boarding::First(waiter, sender) => {
                waiter.launch(sender, make());
                waiter
            }
        };
        tokio::select! {
            biased;
            () = context.cancelled.cancelled() => Err(ProviderError::Cancelled),
            result = waiter.landed() => result,
        }
    }

    /// Reads what nobody else asks for. For a bulk list: to be shared it would have to be copied.
    pub async fn read_alone<T, F>(
        &self,
        context: &CallContext<'_>,
        operation: Operation,
        make: F,
    ) -> ProviderResult<Observed<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> BoxFuture<'static, ProviderResult<T>> + Send,
    {
        let (queued_at, tenant) = (Instant::now(), context.tenant);
        let reading = async {
            let permit = self.shared.permit(tenant, operation.service).await?;
            let begun = Begun { operation, tenant, mutation: false, queued_at };
            RunningCall::begin(&self.shared, permit, begun).run(self.shared.settings.read_deadline, make()).await
        };
        tokio::select! {
            biased;
            () = context.cancelled.cancelled() => Err(ProviderError::Cancelled),
            result = reading => result,
        }
    }

    /// Changes: gives up its place in the queue when cancelled, but once begun is awaited to its deadline.
    pub async fn mutate<T, F>(
        &self,
        context: &CallContext<'_>,
        operation: Operation,
        make: F,
    ) -> ProviderResult<Observed<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> BoxFuture<'static, ProviderResult<T>> + Send,
    {
        let (queued_at, tenant) = (Instant::now(), context.tenant);
        let permit = tokio::select! {
            biased;
            () = context.cancelled.cancelled() => return Err(ProviderError::Cancelled),
            permit = self.shared.permit(tenant, operation.service) => permit?,
        };
        let begun = Begun { operation, tenant, mutation: true, queued_at };
        RunningCall::begin(&self.shared, permit, begun).run(self.shared.settings.mutation_deadline, make()).await
    }

    /// The calls begun lately, oldest first, those under way too.
    #[must_use]
    pub fn recent(&self) -> Vec<CallRecord> {
        self.shared.recent.snapshot()
    }

    /// How each service stands, as the actor saw it last. Empty before its first life.
    #[must_use]
    pub fn status(&self) -> BTreeMap<Service, ServiceStatus> {
        self.shared.statuses()
    }
}
