//! The pool's actor: hands out permits and hears how the calls went.
//!
//! The calls run in their callers' tasks, never here, and no handler awaits, so the mailbox never blocks. It holds at
//! most one request and one withdrawal per calling task and one return per permit, which bounds it by its callers.
//!
//! What the actor has learnt (limits, breaker, pauses) dies with it: a new life starts careful and learns again. The
//! permits that are out do not: they are taken over from the ledger (see [`super::permit`]).
//!
//! There is no way around the actor for uncontended calls. The round trip costs some microseconds, a cloud answers in
//! milliseconds, and a second path would have to repeat breaker, pause and fairness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::Service;
use super::gate::{Gate, Refusal};
use super::meters::GateMeters;
use super::permit::{Life, Permit, Report, Ticket};
use super::shared::Shared;
use crate::model::ids::OrganizationId;
use crate::providers::{ProviderError, ProviderResult};

/// What the actor is told. Only the pool itself sends these.
pub enum PoolMessage {
    /// Somebody wants to make a call.
    Ask { ticket: Ticket, service: Service, tenant: OrganizationId, reply: Reply },
    /// He does not any more.
    Withdraw { ticket: Ticket, service: Service, tenant: OrganizationId },
    /// A permit came back.
    Finished { ticket: Ticket, service: Service, report: Option<Report> },
    /// A pause that the cloud asked for is over.
    PauseOver(Service),
}

pub type Reply = oneshot::Sender<ProviderResult<Permit>>;

pub struct PoolActor;

pub struct PoolState {
    shared: Arc<Shared>,
    life: Life,
    gates: BTreeMap<Service, Guarded>,
}

struct Guarded {
    gate: Gate<Reply>,
    meters: GateMeters,
    alarm: Option<Alarm>,
}

/// Wakes the actor at the end of a pause; at most one per service.
struct Alarm {
    at: Instant,
    _task: AbortOnDropHandle<()>,
}

impl Actor for PoolActor {
    type Msg = PoolMessage;
    type State = PoolState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<PoolMessage>,
        shared: Arc<Shared>,
    ) -> Result<PoolState, ActorProcessingErr> {
        let (life, out, before) = shared.slot.begin_life(myself);
        if let Some(before) = before {
            // Normally dead already. If not, it must not keep callers waiting whom it cannot serve any more.
            before.kill();
        }
        let gates = Service::ALL
            .into_iter()
            .map(|service| {
                let inherited: BTreeSet<Ticket> =
                    out.iter().filter(|(_, of)| **of == service).map(|(ticket, _)| *ticket).collect();
                let gate = Gate::new(&shared.settings, inherited);
                (service, Guarded { gate, meters: GateMeters::new(shared.region, service), alarm: None })
            })
            .collect();
        let state = PoolState { shared, life, gates };
        for (service, guarded) in &state.gates {
            state.shared.publish(*service, guarded.gate.status(Instant::now()));
        }
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<PoolMessage>,
        message: PoolMessage,
        state: &mut PoolState,
    ) -> Result<(), ActorProcessingErr> {
        let now = Instant::now();
        let service = match message {
            PoolMessage::Ask { ticket, service, tenant, reply } => {
                state.ask(now, ticket, service, tenant, reply);
                service
            }
            PoolMessage::Withdraw { ticket, service, tenant } => {
                state.guarded(service)?.gate.withdraw(now, tenant, ticket);
                service
            }
            PoolMessage::Finished { ticket, service, report } => {
                state.finished(now, ticket, service, report);
                service
            }
            PoolMessage::PauseOver(service) => service,
        };
        state.settle(now, service, &myself);
        Ok(())
    }
}

impl PoolState {
    fn guarded(&mut self, service: Service) -> Result<&mut Guarded, ActorProcessingErr> {
        self.gates.get_mut(&service).ok_or_else(|| "a service without a gate".into())
    }

    fn ask(&mut self, now: Instant, ticket: Ticket, service: Service, tenant: OrganizationId, reply: Reply) {
        let Some(guarded) = self.gates.get_mut(&service) else { return };
        if let Err((reply, refusal)) = guarded.gate.ask(now, tenant, ticket, reply) {
            guarded.meters.refused(refusal);
            // A caller that is gone has no use for a refusal.
            drop(reply.send(Err(refused(service, refusal))));
        }
    }

    fn finished(&mut self, now: Instant, ticket: Ticket, service: Service, report: Option<Report>) {
        let Some(guarded) = self.gates.get_mut(&service) else { return };
        let ambient = &self.shared.ambient;
        for reply in guarded.gate.finish(now, ticket, report, |wait| ambient.jittered(wait)) {
            drop(reply.send(Err(not_answering(service))));
        }
    }

    /// Lets through what may go, sets the alarm for what may go later, and shows the outcome.
    fn settle(&mut self, now: Instant, service: Service, myself: &ActorRef<PoolMessage>) {
        let Some(guarded) = self.gates.get_mut(&service) else { return };
        while let Some((ticket, reply)) = guarded.gate.grant(now) {
            let Some(permit) = Permit::issue(&self.shared, self.life, ticket, service) else {
                // A later life has begun: this one has nothing to give and is about to end.
                drop(reply);
                continue;
            };
            // If the caller is gone, the permit comes back to us by being dropped.
            drop(reply.send(Ok(permit)));
        }
        let wake_at = guarded.gate.wake_at(now);
        if guarded.alarm.as_ref().map(|alarm| alarm.at) != wake_at {
            guarded.alarm = wake_at.map(|at| Alarm { at, _task: wake(at, service, myself.clone()) });
        }
        let status = guarded.gate.status(now);
        guarded.meters.show(status);
        self.shared.publish(service, status);
    }
}

#[expect(clippy::disallowed_methods, reason = "one alarm per service at most, aborted with the actor's state")]
fn wake(at: Instant, service: Service, actor: ActorRef<PoolMessage>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::time::sleep_until(at).await;
        drop(actor.send_message(PoolMessage::PauseOver(service)));
    }))
}

fn refused(service: Service, refusal: Refusal) -> ProviderError {
    match refusal {
        Refusal::LineFull { paused } => ProviderError::Throttled { retry_after: paused },
        Refusal::Paused(pause) => ProviderError::Throttled { retry_after: Some(pause) },
        Refusal::BreakerOpen(wait) => ProviderError::Unavailable(format!(
            "the {} service does not answer; it is asked again in {} ms",
            service.word(),
            wait.as_millis()
        )),
    }
}

fn not_answering(service: Service) -> ProviderError {
    ProviderError::Unavailable(format!("the {} service does not answer", service.word()))
}
