//! One pass: gather a view, decide, run the effects, decide again, until there is an outcome to write down.
//!
//! A pass runs beside its actor's mailbox and owns the resource's status while it runs. It may die at any await;
//! whatever it had not written down is found again by the next one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Environment;
use super::decision::{Child, Decision, Effect, Gate, View};
use super::kind::KindEntry;
use crate::graph::message::{Message, Observation, Sighting};
use crate::graph::outcome::{Ending, Outcome};
use crate::model::condition::{Axis, Conditions, Reason, Statement, Transition, Truth};
use crate::model::edge::Holder;
use crate::model::ids::{Key, Kind};
use crate::model::network::VlanId;
use crate::model::record::{CorruptRecord, Document, Record};
use crate::model::sealed::{SealError, Sealed};
use crate::providers::call::{CallName, Fact, ProviderCall};
use crate::providers::{CallContext, Ledger, ProviderError, Sequence};
use crate::sabotage::{self, Defect};
use crate::store::{Batch, StoreError, Write};

/// How often one pass may decide. The longest honest pass runs each call of a kind once; a kind that needs more
/// than this goes in circles, and stopping it shows that.
const DECISIONS_MAX: usize = 64;

/// What a pass starts from.
pub struct Start {
    pub record: Arc<Record>,
    /// What a monitor said since the last pass.
    pub observation: Option<Observation>,
    pub cancelled: CancellationToken,
    /// Failed tries in a row before this one.
    pub attempt: u32,
    /// The cached record may be old: read it again first.
    pub reread: bool,
}

/// What a pass leaves behind beside its ending.
pub struct Finished {
    pub ending: Ending,
    /// The newest look at the cloud that is on record now.
    pub sequence: Option<Sequence>,
}

/// Why a pass could not come to an outcome of its own.
enum Interruption {
    Store(StoreError),
    Corrupt(CorruptRecord),
}

impl From<StoreError> for Interruption {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<CorruptRecord> for Interruption {
    fn from(error: CorruptRecord) -> Self {
        Self::Corrupt(error)
    }
}

/// Runs one pass to its end.
pub async fn run(environment: &Environment, entry: &KindEntry, start: Start) -> Finished {
    let mut pass = Pass {
        environment,
        entry,
        status: Mutex::new(Status::of(&start.record)),
        record: Arc::clone(&start.record),
        sequence: None,
        start,
    };
    let ending = match pass.work().await {
        Ok(ending) => ending,
        Err(Interruption::Store(error)) => {
            tracing::warn!(resource = %pass.record.key, %error, "a pass could not use the store");
            let message = "the store cannot be reached; trying again".to_owned();
            Ending::Concluded { outcome: Outcome::Retry { message, after: None }, record: pass.record }
        }
        Err(Interruption::Corrupt(error)) => {
            tracing::error!(resource = %pass.record.key, %error, "a record is corrupt; leaving the resource alone");
            let message = "the stored record is unreadable; an operator must look".to_owned();
            let outcome = Outcome::Terminal { reason: Reason::Errored, message };
            Ending::Concluded { outcome, record: pass.record }
        }
    };
    Finished { ending, sequence: pass.sequence }
}

/// What the status is to say; written when it differs from what is stored.
#[derive(Clone)]
struct Status {
    conditions: Conditions,
    detail: Document,
    transitions: Vec<Transition>,
    dirty: bool,
}

impl Status {
    fn of(record: &Record) -> Self {
        Self {
            conditions: record.conditions.clone(),
            detail: record.detail.clone(),
            transitions: Vec::new(),
            dirty: false,
        }
    }

    fn state(&mut self, axis: Axis, statement: Statement, record: &Record, now: jiff::Timestamp) {
        let generation = record.metadata.generation;
        let (status, reason, message) = (statement.status, statement.reason, statement.message.clone());
        if self.conditions.state(axis, statement, generation, now) {
            self.transitions.push(Transition {
                at: now,
                axis,
                status,
                reason,
                message,
                observed_generation: generation,
            });
            self.dirty = true;
        }
    }

    fn know(&mut self, detail: Document) {
        if self.detail != detail {
            self.detail = detail;
            self.dirty = true;
        }
    }
}

struct Pass<'a> {
    environment: &'a Environment,
    entry: &'a KindEntry,
    start: Start,
    record: Arc<Record>,
    status: Mutex<Status>,
    sequence: Option<Sequence>,
}

/// What is read once, at the beginning of a pass.
#[derive(Default)]
struct Surroundings {
    references: Vec<Holder>,
    children: Vec<Child>,
    gates: BTreeMap<Key, Gate>,
}

impl Pass<'_> {
    async fn work(&mut self) -> Result<Ending, Interruption> {
        if self.start.reread {
            let Some(record) = self.environment.store.get(self.record.key).await? else { return Ok(Ending::Removed) };
            self.status = Mutex::new(Status::of(&record));
            self.record = record;
        }
        self.report_sighting().await?;
        let surroundings = self.look_around().await?;
        self.release_early().await?;
        let mut results: BTreeMap<CallName, Result<Fact, ProviderError>> = BTreeMap::new();
        let mut children = surroundings.children;
        for _ in 0..DECISIONS_MAX {
            if self.start.cancelled.is_cancelled() {
                return Ok(Ending::Cancelled);
            }
            let sighting = self.start.observation.as_ref().map(|observation| &observation.sighting);
            let view = View {
                record: &self.record,
                references: &surroundings.references,
                children: &children,
                gates: &surroundings.gates,
                results: &results,
                sighting,
            };
            match (self.entry.decide)(&view)? {
                Decision::Conclude(outcome) => return self.conclude(outcome).await,
                Decision::Run(effects) => {
                    if self.run_effects(effects, &mut results, &mut children).await? {
                        return Ok(Ending::Removed);
                    }
                }
            }
        }
        Err(Interruption::Corrupt(CorruptRecord {
            key: self.record.key,
            part: "decision",
            cause: format!("did not come to an outcome within {DECISIONS_MAX} steps"),
        }))
    }

    /// A monitor missed it or found it changed: that is said before anything is done about it.
    async fn report_sighting(&mut self) -> Result<(), StoreError> {
        let Some(observation) = &self.start.observation else { return Ok(()) };
        if observation.sighting == Sighting::Absent && !self.record.metadata.is_deleting() {
            let message = format!("the {} is missing from its cloud", self.record.key.kind);
            let statement = Statement::new(Truth::False, Reason::Degraded, message);
            self.with_status(|status, record, now| status.state(Axis::Healthy, statement, record, now));
            self.write_status().await?;
        }
        Ok(())
    }

    async fn look_around(&self) -> Result<Surroundings, Interruption> {
        let store = &self.environment.store;
        let key = self.record.key;
        if self.record.metadata.is_deleting() {
            let mut children = Vec::new();
            for child in store.children(key).await? {
                let deleting = store.get(child).await?.is_none_or(|child| child.metadata.is_deleting());
                children.push(Child { key: child, deleting });
            }
            let references = store.references(key).await?;
            return Ok(Surroundings { references, children, gates: BTreeMap::new() });
        }
        let mut gates = BTreeMap::new();
        for target in (self.entry.gates)(&self.record)? {
            // Subscribed before it is read: what changes in between is told.
            self.environment.graph.subscribe(target, key);
            let gate = gate(store.get(target).await?.as_deref());
            if matches!(gate, Gate::Failed { .. }) && target.kind == Kind::Identity && self.is_new_intent() {
                // Its user has asked for something new, which is all they can do for a principal they cannot see.
                self.environment.graph.send(target, Message::Reconcile);
            }
            gates.insert(target, gate);
        }
        Ok(Surroundings { gates, ..Surroundings::default() })
    }

    /// No pass has spoken of what is asked for now.
    fn is_new_intent(&self) -> bool {
        let spoken_of = self.record.conditions.available.as_ref().map(|condition| condition.observed_generation);
        spoken_of.is_some_and(|generation| generation < self.record.metadata.generation)
    }

    /// Runs effects side by side; tells whether the resource is gone after them.
    async fn run_effects(
        &mut self,
        effects: Vec<Effect>,
        results: &mut BTreeMap<CallName, Result<Fact, ProviderError>>,
        children: &mut [Child],
    ) -> Result<bool, Interruption> {
        let mut calls = Vec::new();
        for effect in effects {
            match effect {
                Effect::Call(call) => calls.push(call),
                Effect::Cascade(keys) => {
                    self.cascade(&keys).await?;
                    for child in children.iter_mut().filter(|child| keys.contains(&child.key)) {
                        child.deleting = true;
                    }
                }
                Effect::Finish => {
                    self.finish().await?;
                    return Ok(true);
                }
            }
        }
        let answers = join_all(calls.iter().map(|call| self.call(call))).await;
        for (call, answer) in calls.iter().zip(answers) {
            if let Ok(fact) = &answer {
                self.absorb(fact)?;
            }
            results.insert(call.name(), answer);
        }
        Ok(false)
    }

    async fn call(&self, call: &ProviderCall) -> Result<Fact, ProviderError> {
        let place = self.record.place().map_err(|error| ProviderError::Rejected(error.to_string()))?;
        let Some(provider) = self.environment.clouds.get(place.region) else {
            return Err(ProviderError::Unavailable("the region is not configured".to_owned()));
        };
        let context = CallContext { tenant: place.organization, cancelled: self.start.cancelled.clone(), ledger: self };
        let answer = call.make(&*provider, &context).await;
        if let Err(error) = &answer {
            tracing::info!(resource = %self.record.key, call = ?call.name(), %error, "a provider call failed");
        }
        if let (Err(ProviderError::PrincipalMissing), Some(identity)) =
            (&answer, self.record.metadata.placement.identity)
        {
            // Nobody else may have noticed: its actor looks, and makes it again.
            self.environment.graph.send(identity.key(), Message::Reconcile);
        }
        answer
    }

    /// Takes what a call saw into the status. The same function as for a monitor's word.
    fn absorb(&mut self, fact: &Fact) -> Result<(), CorruptRecord> {
        let known = self.locked_status().detail.clone();
        let absorbed = (self.entry.absorb)(&self.record, &known, fact)?;
        self.sequence = self.sequence.max(fact.sequence());
        if !fact.is_sighting() {
            return Ok(());
        }
        let healthy = match absorbed.trouble {
            None => Statement::new(Truth::True, Reason::Healthy, "healthy"),
            Some(trouble) => Statement::new(Truth::False, Reason::Degraded, trouble),
        };
        self.with_status(|status, record, now| {
            status.know(absorbed.detail);
            status.state(Axis::Healthy, healthy, record, now);
        });
        Ok(())
    }

    async fn cascade(&self, keys: &[Key]) -> Result<(), StoreError> {
        let at = self.environment.ambient.now();
        let writes = keys.iter().map(|key| Write::MarkDeleted { key: *key, at }).collect();
        self.environment.store.commit(Batch::of(writes)).await.map(|_| ())
    }

    /// The end, in the order that a crash in its middle can bear: what is held is given back, then the record goes.
    async fn finish(&self) -> Result<(), Interruption> {
        let key = self.record.key;
        let incarnation = self.record.metadata.incarnation;
        let mut writes = vec![
            Write::ReleaseReferences { holder: key },
            Write::ReleaseClaims { holder: key },
            Write::Release { holder: key, incarnation },
        ];
        if let Some(follower) = (self.entry.followed_by)(&self.record)? {
            writes.push(Write::MarkDeleted { key: follower, at: self.environment.ambient.now() });
        }
        writes.push(Write::Remove { key, incarnation });
        self.environment.store.commit(Batch::of(writes)).await?;
        Ok(())
    }

    /// The defects that the simulation must notice; nothing without them.
    async fn release_early(&self) -> Result<(), StoreError> {
        let holder = self.record.key;
        if !self.record.metadata.is_deleting() {
            return Ok(());
        }
        let mut writes = Vec::new();
        if sabotage::is_on(Defect::ReleaseReferencesEarly) {
            writes.push(Write::ReleaseReferences { holder });
        }
        if sabotage::is_on(Defect::ReleaseQuotaEarly) {
            writes.push(Write::Release { holder, incarnation: self.record.metadata.incarnation });
        }
        if writes.is_empty() {
            return Ok(());
        }
        self.environment.store.commit(Batch::of(writes)).await.map(|_| ())
    }

    async fn conclude(&mut self, outcome: Outcome) -> Result<Ending, Interruption> {
        if self.start.cancelled.is_cancelled() {
            return Ok(Ending::Cancelled);
        }
        let exhausted = self.start.attempt >= self.environment.options.retry_budget;
        if let Some(statement) = outcome.available(self.record.metadata.is_deleting(), exhausted) {
            self.with_status(|status, record, now| status.state(Axis::Available, statement, record, now));
        }
        self.write_status().await?;
        Ok(Ending::Concluded { outcome, record: Arc::clone(&self.record) })
    }

    fn locked_status(&self) -> std::sync::MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_status(&self, change: impl FnOnce(&mut Status, &Record, jiff::Timestamp)) {
        change(&mut self.locked_status(), &self.record, self.environment.ambient.now());
    }

    async fn write_status(&mut self) -> Result<(), StoreError> {
        if let Some(record) = self.commit_status().await? {
            self.record = record;
        }
        Ok(())
    }

    /// Writes what is not written yet. A status of another incarnation's record is ignored by the store.
    async fn commit_status(&self) -> Result<Option<Arc<Record>>, StoreError> {
        let write = {
            let status = self.locked_status();
            if !status.dirty {
                return Ok(None);
            }
            Write::Status {
                key: self.record.key,
                incarnation: self.record.metadata.incarnation,
                conditions: Box::new(status.conditions.clone()),
                detail: status.detail.clone(),
                transitions: status.transitions.clone(),
            }
        };
        let committed = self.environment.store.commit(Batch::of(vec![write])).await?;
        let mut status = self.locked_status();
        status.dirty = false;
        for transition in status.transitions.drain(..) {
            log_transition(&self.record, &transition);
        }
        Ok(committed.records.into_iter().next())
    }
}

/// One structured line per change of an axis, after it is on record.
fn log_transition(record: &Record, transition: &Transition) {
    let placement = &record.metadata.placement;
    tracing::info!(
        kind = record.key.kind.word(),
        id = %record.key.id,
        organization = placement.organization.map(tracing::field::display),
        project = placement.project.map(tracing::field::display),
        axis = ?transition.axis,
        status = ?transition.status,
        reason = ?transition.reason,
        text = transition.message,
        observed_generation = transition.observed_generation,
        "provisioning"
    );
}

fn gate(record: Option<&Record>) -> Gate {
    let Some(record) = record else { return Gate::Missing };
    let name = record.metadata.name.clone();
    if record.metadata.is_deleting() {
        Gate::NotReady { name }
    } else if record.conditions.is_available() {
        Gate::Ready
    } else if record.conditions.has_failed() {
        Gate::Failed { name }
    } else {
        Gate::NotReady { name }
    }
}

#[async_trait]
impl Ledger for Pass<'_> {
    async fn note(&self, detail: Document) -> Result<(), StoreError> {
        self.locked_status().know(detail);
        self.commit_status().await.map(|_| ())
    }

    async fn claim_vlan(&self, ranges: &[(u16, u16)]) -> Result<VlanId, StoreError> {
        let region = self.record.place()?.region;
        let pool = format!("vlan/{region}");
        let claim = Write::Claim { pool: pool.clone(), ranges: ranges.to_vec(), holder: self.record.key };
        let committed = self.environment.store.commit(Batch::of(vec![claim])).await?;
        let number = committed.claimed.first().ok_or(crate::store::Refusal::Exhausted(pool))?;
        Ok(VlanId(*number))
    }

    fn seal(&self, secret: &str) -> Result<Sealed<String>, SealError> {
        self.environment.envelope.seal(&secret.to_owned())
    }
}
