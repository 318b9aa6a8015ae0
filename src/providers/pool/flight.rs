//! Identical reads of one tenant share one call.
//!
//! A read is a *flight*: a task of its own, which any number of waiters share. It ends early when the last of them
//! has gone, and from that moment nobody can join it: the count of waiters and the table of flights change under one
//! lock, so "the last one left" and "one more joined" cannot both happen.
//!
//! # What a joiner may rely on
//! He joined before the flight had finished, and gets its fact with *its* sequence, which says when the call was
//! begun: possibly before he asked. That is as good as having asked then, with one exception: after a change of his
//! own he must not be shown what was there before it. So when a mutation of a tenant ends, well, badly or unknown,
//! its flights that are already on their way are *retired*: those who wait still get their fact, nobody joins any
//! more. A flight that still queues for its permit stays open, since its call will be begun after the change.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Operation;
use super::running::{Begun, RunningCall};
use super::shared::Shared;
use crate::model::ids::OrganizationId;
use crate::providers::{Observed, ProviderError, ProviderResult};

type Landed<T> = Option<ProviderResult<Observed<T>>>;

/// The same question; the type keeps apart two readers that ask alike but expect different answers.
type Question = (Operation, TypeId);

/// The flights that may be joined.
#[derive(Default)]
pub struct Flights(Mutex<BTreeMap<OrganizationId, BTreeMap<Question, Entry>>>);

struct Entry {
    flight: Arc<Flight>,
    /// A `watch::Receiver<Landed<T>>` of the question's type.
    landed: Box<dyn Any + Send>,
}

/// One read under way. The counts are changed and read under the lock of [`Flights`] only.
pub struct Flight {
    tenant: OrganizationId,
    question: Question,
    waiters: AtomicUsize,
    begun: AtomicBool,
    abandoned: CancellationToken,
}

/// Somebody who waits for a flight. Dropping it is leaving.
pub struct Waiter<T> {
    shared: Arc<Shared>,
    flight: Arc<Flight>,
    landed: watch::Receiver<Landed<T>>,
}

/// How a reader gets to its flight.
pub enum Boarding<T> {
    Joined(Waiter<T>),
    /// The first one has to start it.
    First(Waiter<T>, watch::Sender<Landed<T>>),
}

/// Joins the flight that asks the same, or enters a new one into the table.
pub fn board<T>(shared: &Arc<Shared>, tenant: OrganizationId, operation: &Operation) -> Boarding<T>
where
    T: Clone + Send + Sync + 'static,
{
    let question = (operation.clone(), TypeId::of::<T>());
    let mut table = shared.flights.lock();
    let flights = table.entry(tenant).or_default();
    if let Some(entry) = flights.get(&question)
        && let Some(landed) = entry.landed.downcast_ref::<watch::Receiver<Landed<T>>>()
    {
        entry.flight.waiters.fetch_add(1, Ordering::Relaxed);
        let flight = Arc::clone(&entry.flight);
        return Boarding::Joined(Waiter { shared: Arc::clone(shared), flight, landed: landed.clone() });
    }
    let (sender, landed) = watch::channel(None);
    let flight = Arc::new(Flight {
        tenant,
        question: question.clone(),
        waiters: AtomicUsize::new(1),
        begun: AtomicBool::new(false),
        abandoned: CancellationToken::new(),
    });
    flights.insert(question, Entry { flight: Arc::clone(&flight), landed: Box::new(landed.clone()) });
    Boarding::First(Waiter { shared: Arc::clone(shared), flight, landed }, sender)
}

impl Flights {
    /// Lets nobody join any more what was begun before now: the tenant has changed something.
    pub fn retire(&self, tenant: OrganizationId) {
        let mut table = self.lock();
        if let Some(flights) = table.get_mut(&tenant) {
            flights.retain(|_, entry| !entry.flight.begun.load(Ordering::Relaxed));
            if flights.is_empty() {
                table.remove(&tenant);
            }
        }
    }

    fn mark_begun(&self, flight: &Flight) {
        let _table = self.lock();
        flight.begun.store(true, Ordering::Relaxed);
    }

    fn close(&self, flight: &Arc<Flight>) {
        remove(&mut self.lock(), flight);
    }

    fn leave(&self, flight: &Arc<Flight>) {
        let mut table = self.lock();
        if flight.waiters.fetch_sub(1, Ordering::Relaxed) == 1 {
            remove(&mut table, flight);
            flight.abandoned.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OrganizationId, BTreeMap<Question, Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes this flight, not a later one that asks the same.
fn remove(table: &mut BTreeMap<OrganizationId, BTreeMap<Question, Entry>>, flight: &Arc<Flight>) {
    let Some(flights) = table.get_mut(&flight.tenant) else { return };
    if flights.get(&flight.question).is_some_and(|entry| Arc::ptr_eq(&entry.flight, flight)) {
        flights.remove(&flight.question);
    }
    if flights.is_empty() {
        table.remove(&flight.tenant);
    }
}

impl<T: Clone> Waiter<T> {
    /// Starts the flight. It outlives this call, but not its waiters.
    #[expect(
        clippy::disallowed_methods,
        reason = "watched by its waiters: if it panics, they are told; it ends with them"
    )]
    pub fn launch(&self, sender: watch::Sender<Landed<T>>, call: BoxFuture<'static, ProviderResult<T>>)
    where
        T: Send + Sync + 'static,
    {
        let (shared, flight) = (Arc::clone(&self.shared), Arc::clone(&self.flight));
        tokio::spawn(fly(shared, flight, sender, call).in_current_span());
    }

    pub async fn landed(&mut self) -> ProviderResult<Observed<T>> {
        let landed = self.landed.wait_for(Option::is_some).await;
        let result = landed.ok().and_then(|landed| landed.clone());
        result.unwrap_or_else(|| Err(ProviderError::Unavailable("the read broke off".to_owned())))
    }
}

impl<T> Drop for Waiter<T> {
    fn drop(&mut self) {
        self.shared.flights.leave(&self.flight);
    }
}

/// Closes the flight however its task ends, before its waiters hear of it.
struct Closing<'a> {
    shared: &'a Shared,
    flight: &'a Arc<Flight>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.shared.flights.close(self.flight);
    }
}

async fn fly<T>(
    shared: Arc<Shared>,
    flight: Arc<Flight>,
    sender: watch::Sender<Landed<T>>,
    call: BoxFuture<'static, ProviderResult<T>>,
) {
    let closing = Closing { shared: &shared, flight: &flight };
    let result = tokio::select! {
        biased;
        () = flight.abandoned.cancelled() => Err(ProviderError::Cancelled),
        result = read(&shared, &flight, call) => result,
    };
    drop(closing);
    sender.send_replace(Some(result));
}

async fn read<T>(
    shared: &Arc<Shared>,
    flight: &Flight,
    call: BoxFuture<'static, ProviderResult<T>>,
) -> ProviderResult<Observed<T>> {
    let (queued_at, tenant, operation) = (Instant::now(), flight.tenant, &flight.question.0);
    let permit = shared.permit(tenant, operation.service).await?;
    shared.flights.mark_begun(flight);
    let begun = Begun { operation: operation.clone(), tenant, mutation: false, queued_at };
    RunningCall::begin(shared, permit, begun).run(shared.settings.read_deadline, call).await
}
