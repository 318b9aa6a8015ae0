//! The right to make one call, which always comes back.
//!
//! A permit is a value: whoever drops it, by finishing, by being cancelled, by panicking or by being aborted, gives
//! it back. The ledger of permits that are out lies beside the actor, under the same lock as the actor's address, so
//! that a new life of the actor takes over exactly the calls that are still under way: none is forgotten (the cloud
//! would get more calls at once than it may) and none is counted twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ractor::ActorRef;
use tokio::time::Instant;

use super::Service;
use super::actor::PoolMessage;
use super::shared::Shared;

/// Names one request for a permit. Grows within a pool, over all lives of its actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// One life of the pool's actor. Only the present one may hand out permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life(u64);

/// Where the actor is, and which permits are out.
#[derive(Default)]
pub struct Slot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    life: Life,
    actor: Option<ActorRef<PoolMessage>>,
    out: BTreeMap<Ticket, Service>,
}

impl Slot {
    /// Begins a new life: from now on `actor` is told of every permit that comes back. Returns the permits that are
    /// out, and the actor of the life before.
    pub fn begin_life(
        &self,
        actor: ActorRef<PoolMessage>,
    ) -> (Life, BTreeMap<Ticket, Service>, Option<ActorRef<PoolMessage>>) {
        let mut state = self.lock();
        state.life = Life(state.life.0 + 1);
        let before = state.actor.replace(actor);
        (state.life, state.out.clone(), before)
    }

    pub fn actor(&self) -> Option<ActorRef<PoolMessage>> {
        self.lock().actor.clone()
    }

    /// Notes that a permit goes out; false when a later life has begun.
    fn let_out(&self, life: Life, ticket: Ticket, service: Service) -> bool {
        let mut state = self.lock();
        if state.life != life {
            return false;
        }
        state.out.insert(ticket, service);
        true
    }

    fn come_back(&self, ticket: Ticket) -> Option<ActorRef<PoolMessage>> {
        let mut state = self.lock();
        state.out.remove(&ticket);
        state.actor.clone()
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a call ended, as far as the gate is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Answered,
    Throttled { retry_after: Option<Duration> },
    NoAnswer,
    Nothing,
}

/// What a call that was begun tells the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub operation: &'static str,
    pub issued_at: Instant,
    pub signal: Signal,
}

/// The right to make one call.
pub struct Permit {
    shared: Arc<Shared>,
    ticket: Ticket,
    service: Service,
    /// Stays empty when no call was begun with it.
    pub report: Option<Report>,
}

impl Permit {
    /// `None` when a later life of the actor has begun.
    pub fn issue(shared: &Arc<Shared>, life: Life, ticket: Ticket, service: Service) -> Option<Self> {
        shared.slot.let_out(life, ticket, service).then(|| Self {
            shared: Arc::clone(shared),
            ticket,
            service,
            report: None,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(actor) = self.shared.slot.come_back(self.ticket) else { return };
        let (ticket, service, report) = (self.ticket, self.service, self.report);
        // An actor that is dead by now need not be told: its successor reads the ledger.
        drop(actor.send_message(PoolMessage::Finished { ticket, service, report }));
    }
}
