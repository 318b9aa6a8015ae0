//! The resource actor: one for every resource of every kind.
//!
//! ```text
//!                 ┌────────────── wake ──────────────┐
//!                 ▼                                  │
//!   born ──▶ Running ──▶ Settled · Waiting · Retrying · Parked · Paused
//!                 │
//!                 └──▶ gone (the record is removed)
//! ```
//!
//! # Guarantees
//! - The mailbox never waits: work is a pass beside it, one at a time.
//! - A wake that arrives during a pass causes another pass.
//! - A change of intent, deletion above all, stops the reads and waits of the pass that is running; a change that
//!   the pass has already sent to the cloud is awaited, then looked up.
//! - What is older than what is known, by revision or by sequence, changes nothing.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr};
use tokio_util::sync::CancellationToken;

use super::kind::{Health, KindEntry};
use super::pass::{self, Finished, Start};
use super::tasks::spawn_pass;
use super::{Environment, Options};
use crate::graph::Node;
use crate::graph::message::{Message, Observation, Sighting};
use crate::graph::outcome::{Ending, Outcome, PassReport};
use crate::graph::snapshot::{EVENTS_MAX, Event, Phase, Snapshot};
use crate::graph::timers::TimerToken;
use crate::model::condition::{Reason, Truth};
use crate::model::ids::Key;
use crate::model::record::{Record, Revision};
use crate::providers::Sequence;
use crate::sabotage::{self, Defect};

/// The longest that a cloud can make one resource wait. A cloud that asks for more is taken at its word again later;
/// believing it at once would let one bad header park a resource for months.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

/// What an actor is born with.
pub struct Birth {
    pub environment: Arc<Environment>,
    pub entry: &'static KindEntry,
    pub record: Arc<Record>,
    pub first_pass: FirstPass,
}

/// When a new actor first looks at its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstPass {
    /// At once, beginning with its record: what it was born with may be old by now. The watch may lag behind a
    /// resource that is gone already, and what was said to an actor between two lives is lost.
    Now,
    /// Restored work is spread out, so that a start is not a stampede.
    After(Duration),
    /// The record says that all is done: it waits to be told otherwise.
    WhenTold,
}

impl FirstPass {
    /// For a resource found in the store at start-up: settled ones wait, the others take their turn.
    #[must_use]
    pub fn restored(record: &Record, turn: Duration) -> Self {
        let available = record.conditions.available.as_ref();
        let settled = available.is_some_and(|condition| {
            condition.status == Truth::True && condition.observed_generation == record.metadata.generation
        });
        let active = record.conditions.active.as_ref().map(|condition| condition.reason);
        let moving = matches!(active, Some(Reason::Phase(phase)) if phase.is_passing());
        // What follows others may have missed what became of them.
        let follows = super::kind::entry(record.key.kind).is_some_and(|entry| entry.follows || entry.governs.is_some());
        let is_idle = settled && !moving && !follows && !record.metadata.is_deleting();
        if is_idle { Self::WhenTold } else { Self::After(turn) }
    }
}

/// Starts an actor under `supervisor`.
pub async fn spawn(birth: Birth, supervisor: ActorCell) -> Result<ActorRef<Message>, SpawnErr> {
    let (actor, _) = Actor::spawn_linked(None, ResourceActor, birth, supervisor).await?;
    Ok(actor)
}

pub struct ResourceActor;

/// The pass that is running.
struct Running {
    cancelled: CancellationToken,
    /// The intent it works on.
    revision: Revision,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a note to the next pass")]
pub struct State {
    environment: Arc<Environment>,
    entry: &'static KindEntry,
    node: Arc<Node>,
    record: Arc<Record>,
    running: Option<Running>,
    /// Something arrived during the pass: look again after it.
    dirty: bool,
    /// Messages were folded: what is cached may be old.
    reread: bool,
    /// Verbs may have been asked for: the next pass looks for them.
    asked: bool,
    /// The intent whose references a pass found even: the next one need not look.
    even: Option<Revision>,
    /// What a monitor said that no pass has seen yet.
    observation: Option<Observation>,
    sequence: Sequence,
    /// Failed tries in a row.
    attempt: u32,
    /// The timer that is set.
    timer: Option<TimerToken>,
    timers: u64,
    passes: u64,
    phase: Phase,
    waits_for: Vec<Key>,
    on_cloud: bool,
    next_wake: Option<jiff::Timestamp>,
    last_message: Option<&'static str>,
    events: Vec<Event>,
}

impl Actor for ResourceActor {
    type Msg = Message;
    type State = State;
    type Arguments = Birth;

    async fn pre_start(&self, myself: ActorRef<Message>, birth: Birth) -> Result<State, ActorProcessingErr> {
        let node = birth.environment.graph.ensure(birth.record.key);
        if let Some(region) = birth.record.metadata.placement.region {
            // An earlier life may have waited for the cloud.
            birth.environment.graph.await_cloud(region, birth.record.key, false);
        }
        node.born(myself);
        let mut state = State {
            environment: birth.environment,
            entry: birth.entry,
            node,
            record: birth.record,
            running: None,
            dirty: false,
            reread: birth.first_pass == FirstPass::Now,
            asked: birth.first_pass != FirstPass::WhenTold,
            even: None,
            observation: None,
            sequence: Sequence::default(),
            attempt: 0,
            timer: None,
            timers: 0,
            passes: 0,
            phase: Phase::Settled,
            waits_for: Vec::new(),
            on_cloud: false,
            next_wake: None,
            last_message: None,
            events: Vec::new(),
        };
        match birth.first_pass {
            FirstPass::WhenTold => {}
            FirstPass::Now => state.set_timer(Phase::Waiting, Duration::ZERO),
            FirstPass::After(turn) => state.set_timer(Phase::Waiting, turn),
        }
        state.publish();
        Ok(state)
    }

    async fn post_start(&self, _myself: ActorRef<Message>, state: &mut State) -> Result<(), ActorProcessingErr> {
        if state.next_wake.is_some_and(|wake| wake <= state.environment.ambient.now()) {
            state.start_pass();
        }
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if state.node.taken() {
            state.reread = true;
            state.wake();
        }
        let word = message.word();
        match message {
            Message::Inspect(reply) => {
                let _ = reply.send(state.node.snapshot());
                return Ok(());
            }
            Message::PassFinished(report) => return state.pass_finished(&myself, *report),
            Message::Removed => {
                state.cancel_pass();
                myself.stop(None);
                return Ok(());
            }
            _ if state.running.is_some() && sabotage::is_on(Defect::LoseWakesDuringPass) => {}
            Message::Changed(record) => state.changed(&record),
            Message::Referenced | Message::ChildGone(_)
                if !state.record.metadata.is_deleting() && state.entry.governs.is_none() => {}
            Message::Referenced | Message::ChildGone(_) | Message::DependencyMoved(_) => {
                state.attempt = 0;
                state.wake();
            }
            Message::OperationRequested => {
                state.asked = true;
                // A failure that waits for somebody is no reason to leave a machine running that is to be stopped.
                state.unpark();
                state.wake();
            }
            Message::Observed(observation) => state.observed(observation),
            Message::TimerFired(token) => {
                if state.timer == Some(token) {
                    state.timer = None;
                    if state.asked {
                        state.unpark();
                    }
                    state.wake();
                }
            }
            Message::Reconcile => {
                state.attempt = 0;
                state.reread = true;
                state.unpark();
                state.wake();
            }
        }
        state.last_message = Some(word);
        Ok(())
    }
}

impl State {
    /// The store holds this now.
    fn changed(&mut self, record: &Arc<Record>) {
        if record.metadata.incarnation == self.record.metadata.incarnation {
            let news = record.revision > self.record.revision;
            self.record = newest(&self.record, record);
            if !news {
                return;
            }
        } else {
            // A successor took the id: everything known is of its predecessor.
            self.record = Arc::clone(record);
            self.sequence = Sequence::default();
            self.observation = None;
            self.even = None;
        }
        self.attempt = 0;
        self.unpark();
        if self.running.as_ref().is_some_and(|running| running.revision < self.record.revision) {
            self.cancel_pass();
        }
        self.wake();
    }

    /// Somebody looked at the cloud. What differs from the record is a reason to look afresh; only if the look began
    /// after the newest one on record is it also reported, because a slow look can be both begun earlier and older.
    fn observed(&mut self, observation: Observation) {
        let newer = observation.sequence > self.sequence;
        self.sequence = self.sequence.max(observation.sequence);
        let news = match &observation.sighting {
            // Who waits for the cloud may never have had its object on record: a deletion can find what nobody noted.
            Sighting::Absent => self.on_cloud || (self.entry.is_realised)(&self.record),
            Sighting::Present(fact) => match (self.entry.absorb)(self.record.key, &self.record.detail, fact) {
                Ok(absorbed) => absorbed.detail != self.record.detail || absorbed.health != Health::Healthy,
                Err(_) => true,
            },
        };
        // What is parked is left alone, but what it is doing meanwhile is shown.
        if news && (self.phase != Phase::Parked || self.entry.takes_sightings) {
            self.unpark();
            if newer {
                self.observation = Some(observation);
            }
            self.attempt = 0;
            self.wake();
        }
    }

    /// Look at the resource: now, or after the pass that is running.
    fn wake(&mut self) {
        if self.running.is_some() {
            self.dirty = true;
        } else if self.phase != Phase::Parked {
            self.start_pass();
        }
    }

    fn unpark(&mut self) {
        if self.phase == Phase::Parked {
            self.phase = Phase::Waiting;
        }
    }

    fn cancel_pass(&mut self) {
        if let Some(running) = &self.running {
            running.cancelled.cancel();
        }
    }

    fn start_pass(&mut self) {
        if self.environment.stopping.is_cancelled() {
            return;
        }
        self.passes += 1;
        self.dirty = false;
        let cancelled = self.environment.stopping.child_token();
        let start = Start {
            record: Arc::clone(&self.record),
            observation: self.observation.take(),
            cancelled: cancelled.clone(),
            attempt: self.attempt,
            reread: std::mem::take(&mut self.reread),
            asked: std::mem::take(&mut self.asked),
            even: self.even,
        };
        self.running = Some(Running { cancelled, revision: self.record.revision });
        let (environment, entry) = (Arc::clone(&self.environment), self.entry);
        let (key, number) = (self.record.key, self.passes);
        let (graph, panicked) = (self.environment.graph.clone(), self.environment.graph.clone());
        let work = async move {
            let Finished { ending, sequence, operations_left, operations_cut, even } =
                pass::run(&environment, entry, start).await;
            let report = PassReport { pass: number, ending, sequence, operations_left, operations_cut, even };
            graph.send(key, Message::PassFinished(Box::new(report)));
        };
        let on_panic = move |text| {
            let ending = Ending::Panicked(text);
            let report = PassReport {
                pass: number,
                ending,
                sequence: None,
                operations_left: true,
                operations_cut: false,
                even: None,
            };
            panicked.send(key, Message::PassFinished(Box::new(report)));
        };
        self.node.hold_pass(spawn_pass(&self.environment.passes, work, on_panic));
        self.enter(Phase::Running);
    }

    fn pass_finished(&mut self, myself: &ActorRef<Message>, report: PassReport) -> Result<(), ActorProcessingErr> {
        if report.pass != self.passes {
            return Ok(());
        }
        let Some(running) = self.running.take() else { return Ok(()) };
        self.sequence = self.sequence.max(report.sequence.unwrap_or_default());
        self.asked |= report.operations_left;
        self.dirty |= report.operations_cut;
        self.even = report.even;
        // What was seen before this pass looked for itself says nothing any more; that it came is reason to look again.
        if self.observation.as_ref().is_some_and(|seen| Some(seen.sequence) <= report.sequence) {
            self.observation = None;
        }
        match report.ending {
            Ending::Panicked(text) => return Err(format!("a pass panicked: {text}").into()),
            Ending::Removed => {
                self.node.recovered();
                myself.stop(None);
                return Ok(());
            }
            Ending::Cancelled => {
                self.dirty = true;
                // The watch's word of what overtook it may still be on its way.
                self.reread = true;
            }
            Ending::Concluded { outcome, record } => {
                self.node.recovered();
                self.record = newest(&self.record, &record);
                // What a pass wrote comes back with an intent that it may never have seen. Once that is taken over,
                // the watch's word of it is no news any more: so it is noticed here.
                self.dirty |= self.record.revision > running.revision;
                self.follow(outcome);
            }
        }
        if self.dirty {
            self.unpark();
            self.start_pass();
        }
        Ok(())
    }

    /// What an outcome leads to.
    fn follow(&mut self, outcome: Outcome) {
        let options = &self.environment.options;
        self.waits_for.clear();
        let on_cloud = match &outcome {
            Outcome::Yield { on_cloud, .. } => *on_cloud,
            Outcome::Watching { waits_for, .. } => waits_for.is_empty(),
            _ => false,
        };
        if let (true, Some(region)) = (on_cloud != self.on_cloud, self.record.metadata.placement.region) {
            self.environment.graph.await_cloud(region, self.record.key, on_cloud);
        }
        self.on_cloud = on_cloud;
        if !matches!(outcome, Outcome::Retry { .. }) {
            self.attempt = 0;
        }
        match outcome {
            Outcome::Done => {
                self.clear_timer();
                self.events.drain(..self.events.len().saturating_sub(2));
                self.note("done");
                self.enter(Phase::Settled);
            }
            Outcome::Paused => {
                self.clear_timer();
                self.note("paused");
                self.enter(Phase::Paused);
            }
            Outcome::Watching { message, waits_for } => {
                let wait = if on_cloud { on_cloud_wait(options, self.entry) } else { options.safety_net };
                self.waits_for = waits_for;
                self.note(&message);
                self.set_timer(Phase::Waiting, wait);
            }
            Outcome::Yield { message, waits_for, on_cloud, .. } => {
                let wait = if on_cloud { on_cloud_wait(options, self.entry) } else { options.safety_net };
                self.waits_for = waits_for;
                self.note(&message);
                self.set_timer(Phase::Waiting, wait);
            }
            Outcome::Retry { message, after } => {
                let backed_off = options.retry_first.saturating_mul(1 << self.attempt.min(8));
                let wait = self.environment.ambient.jittered(backed_off.min(options.retry_longest));
                self.attempt = self.attempt.saturating_add(1);
                self.note(&message);
                self.set_timer(Phase::Retrying, wait.max(after.unwrap_or_default().min(RETRY_AFTER_MAX)));
            }
            Outcome::UserActionRequired { message, .. } | Outcome::Terminal { message, .. } => {
                let patience = options.retry_longest;
                self.note(&message);
                if self.asked {
                    // Verbs are not parked with it.
                    self.set_timer(Phase::Parked, patience);
                } else {
                    self.clear_timer();
                    self.enter(Phase::Parked);
                }
            }
        }
    }

    fn set_timer(&mut self, phase: Phase, after: Duration) {
        self.timers += 1;
        let token = TimerToken(self.timers);
        self.timer = Some(token);
        self.next_wake = Some(self.environment.ambient.now() + after);
        if !after.is_zero() {
            self.environment.graph.timers().set(self.record.key, token, after);
        }
        self.enter(phase);
    }

    fn clear_timer(&mut self) {
        if self.timer.take().is_some() {
            self.environment.graph.timers().cancel(self.record.key);
        }
        self.next_wake = None;
    }

    fn note(&mut self, text: &str) {
        if self.events.last().is_some_and(|last| &*last.text == text) {
            return;
        }
        if self.events.len() >= EVENTS_MAX {
            self.events.remove(0);
        }
        self.events.push(Event { at: self.environment.ambient.now(), text: text.into() });
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.publish();
    }

    fn publish(&self) {
        let metadata = &self.record.metadata;
        self.node.publish(Snapshot {
            key: self.record.key,
            incarnation: Some(metadata.incarnation),
            phase: self.phase.clone(),
            name: Some(metadata.name.as_str().into()),
            region: metadata.placement.region,
            owner: metadata.owner,
            generation: metadata.generation,
            deleting: metadata.is_deleting(),
            conditions: self.record.conditions.clone(),
            realised: (self.entry.is_realised)(&self.record),
            fingerprint: (self.entry.fingerprint)(&self.record),
            passes: self.passes,
            last_message: self.last_message,
            next_wake: self.next_wake,
            on_cloud: self.on_cloud,
            waits_for: self.waits_for.clone(),
            events: self.events.clone(),
        });
    }
}

/// What the cloud is busy with is looked at by the monitor, many at once; what no monitor looks at looks for itself.
fn on_cloud_wait(options: &Options, entry: &KindEntry) -> Duration {
    if entry.is_monitored { options.safety_net } else { (options.poll_pending * 5).min(options.safety_net) }
}

/// The newer half of each: intent and status are written by different hands and arrive by different ways.
fn newest(one: &Arc<Record>, other: &Arc<Record>) -> Arc<Record> {
    let (intent, status) = (
        if other.revision > one.revision { other } else { one },
        if other.status_revision > one.status_revision { other } else { one },
    );
    if Arc::ptr_eq(intent, status) {
        return Arc::clone(intent);
    }
    let mut merged = Record::clone(intent);
    merged.conditions = status.conditions.clone();
    merged.detail = status.detail.clone();
    merged.status_revision = status.status_revision;
    Arc::new(merged)
}
