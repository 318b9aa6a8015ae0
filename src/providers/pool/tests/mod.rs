//! The pool as its callers meet it: real actor, paused clock, a cloud made of closures.
//!
//! Nothing here sleeps to wait: a fake call takes virtual time because a cloud does, and [`until`] waits for the
//! thing itself.

mod calls;
mod flow;
mod lives;
mod stress;

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::*;
use crate::model::ambient::Clock;
use crate::model::ids::OrganizationId;
use crate::providers::NothingToNote;

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Turns of the scheduler after which a condition that depends on nothing but them will not come true any more.
const TURNS_MAX: usize = 10_000;

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

/// A region's supervisor that lets its children die.
struct Region;

impl Actor for Region {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<()>,
        _event: SupervisionEvent,
        _state: &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// A pool with a running actor.
struct Rig {
    pool: Pool,
    region: ActorCell,
    actor: ActorRef<PoolMessage>,
}

impl Rig {
    async fn start(settings: PoolSettings) -> Self {
        let (region, _task) = Actor::spawn(None, Region, ()).await.unwrap();
        let ambient = Ambient::seeded(Arc::new(StoppedClock), 1);
        let pool = Pool::new(RegionId(Uuid::from_u128(9)), settings, ambient);
        let region = region.get_cell();
        let actor = pool.spawn_linked(region.clone()).await.unwrap();
        Self { pool, region, actor }
    }

    fn status(&self, service: Service) -> ServiceStatus {
        self.pool.status()[&service]
    }

    /// Makes a change in a task of its own.
    fn mutate<T: Send + 'static>(
        &self,
        caller: &Caller,
        operation: Operation,
        call: impl Future<Output = ProviderResult<T>> + Send + 'static,
    ) -> JoinHandle<ProviderResult<Observed<T>>> {
        let (pool, caller) = (self.pool.clone(), caller.clone());
        spawn(async move { pool.mutate(&caller.context(), operation, || call.boxed()).await })
    }

    /// Reads in a task of its own.
    fn read<T: Clone + Send + Sync + 'static>(
        &self,
        caller: &Caller,
        operation: Operation,
        call: impl Future<Output = ProviderResult<T>> + Send + 'static,
    ) -> JoinHandle<ProviderResult<Observed<T>>> {
        let (pool, caller) = (self.pool.clone(), caller.clone());
        spawn(async move { pool.read(&caller.context(), operation, || call.boxed()).await })
    }

    async fn begun(&self, count: usize) {
        until("calls have begun", || self.pool.recent().len() >= count).await;
    }

    async fn queued(&self, service: Service, count: usize) {
        until("calls wait in line", || self.status(service).queued == count).await;
    }

    async fn quiet(&self) {
        until("every permit is back", || {
            Service::ALL.into_iter().all(|service| {
                let status = self.status(service);
                status.in_flight == 0 && status.queued == 0
            })
        })
        .await;
    }
}

/// Somebody who calls.
#[derive(Clone)]
struct Caller {
    tenant: OrganizationId,
    cancelled: CancellationToken,
}

impl Caller {
    fn of(tenant: u128) -> Self {
        Self { tenant: OrganizationId(Uuid::from_u128(tenant)), cancelled: CancellationToken::new() }
    }

    fn context(&self) -> CallContext<'static> {
        CallContext { tenant: self.tenant, cancelled: self.cancelled.clone(), ledger: &NothingToNote }
    }
}

fn at_most(concurrency: u32) -> PoolSettings {
    PoolSettings {
        concurrency: Concurrency { min: 1, initial: concurrency, max: concurrency },
        ..PoolSettings::default()
    }
}

fn network(name: &'static str, subject: impl Display) -> Operation {
    Operation { service: Service::Network, name, subject: format!("{subject}") }
}

fn compute(name: &'static str, subject: impl Display) -> Operation {
    Operation { service: Service::Compute, ..network(name, subject) }
}

/// A cloud that answers after a while.
async fn answer<T>(after: Duration, fact: T) -> ProviderResult<T> {
    tokio::time::sleep(after).await;
    Ok(fact)
}

/// A cloud that is down, and says so at once.
fn down() -> impl Future<Output = ProviderResult<()>> {
    std::future::ready(Err(ProviderError::Unavailable("connection refused".to_owned())))
}

/// A cloud that never answers.
fn silence<T: Send + 'static>() -> BoxFuture<'static, ProviderResult<T>> {
    std::future::pending().boxed()
}

#[expect(clippy::disallowed_methods, reason = "tests await what they spawn")]
fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(future)
}

/// Waits for something that needs no time, only that others get their turn.
async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..TURNS_MAX {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("waited in vain until {what}");
}

fn is_unavailable<T>(result: &ProviderResult<T>) -> bool {
    matches!(result, Err(ProviderError::Unavailable(_)))
}
