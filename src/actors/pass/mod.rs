//! One pass: gather a view, decide, run the effects, decide again, until there is an outcome to write down.
//!
//! A pass runs beside its actor's mailbox and owns the resource's status while it runs. It may die at any await;
//! whatever it had not written down is found again by the next one.

mod ending;
mod governing;
mod status;
mod verbs;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::decision::{Child, Decision, Effect, Gate, OpenOperation, View};
use super::kind::{Health, KindEntry};
use super::{Environment, kind};
use crate::graph::Interest;
use crate::graph::message::{Message, Observation, Sighting};
use crate::graph::outcome::{Ending, Outcome};
use crate::model::condition::{Axis, Reason};
use crate::model::edge::Holder;
use crate::model::ids::{Key, Kind};
use crate::model::network::VlanId;
use crate::model::record::{CorruptRecord, Document, Record, Revision};
use crate::model::sealed::{SealError, Sealed};
use crate::providers::call::{CallName, Fact, ProviderCall};
use crate::providers::{CallContext, Ledger, ProviderError, Sequence};
use crate::store::{Batch, StoreError, Write};
pub(super) use governing::members;
use status::{Status, log_transition};
pub use verbs::OPERATION_RETENTION;

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
    /// Verbs may have been asked for.
    pub asked: bool,
    /// The intent whose references an earlier pass found even.
    pub even: Option<Revision>,
}

/// What a pass leaves behind beside its ending.
pub struct Finished {
    pub ending: Ending,
    /// The newest look at the cloud that is on record now.
    pub sequence: Option<Sequence>,
    /// Verbs that have not ended are left, or may be.
    pub operations_left: bool,
    /// There were more than one pass takes: another one is due at once.
    pub operations_cut: bool,
    /// The intent whose references were found even: what it uses is held, and nothing else.
    pub even: Option<Revision>,
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
        operations: Vec::new(),
        operations_left: start.asked,
        operations_cut: false,
        overtaken: false,
        even: start.even,
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
    tracing::debug!(?ending, sequence = ?pass.sequence, "a pass ended");
    let (operations_left, operations_cut) = (pass.operations_left, pass.operations_cut);
    Finished { ending, sequence: pass.sequence, operations_left, operations_cut, even: pass.even }
}

struct Pass<'a> {
    environment: &'a Environment,
    entry: &'a KindEntry,
    start: Start,
    record: Arc<Record>,
    status: Mutex<Status>,
    sequence: Option<Sequence>,
    operations: Vec<OpenOperation>,
    operations_left: bool,
    operations_cut: bool,
    /// Something newer is wanted than what this pass has looked at.
    overtaken: bool,
    even: Option<Revision>,
}

/// What is read once, at the beginning of a pass.
#[derive(Default)]
struct Surroundings {
    references: Vec<Holder>,
    children: Vec<Child>,
    gates: BTreeMap<Key, Gate>,
    dependencies: BTreeMap<Key, Arc<Record>>,
    members: Vec<Arc<Record>>,
}

/// What follows from effects that were run.
enum After {
    /// Decide again.
    Decide,
    /// Others were changed: look at them again, then decide.
    LookAgain,
    /// Others could not be changed as they are now.
    Refused,
    /// The resource is gone.
    Gone,
}

impl Pass<'_> {
    async fn work(&mut self) -> Result<Ending, Interruption> {
        if self.start.reread {
            let Some(record) = self.environment.store.get(self.record.key).await? else { return Ok(Ending::Removed) };
            self.status = Mutex::new(Status::of(&record));
            self.record = record;
        }
        self.take_sighting().await?;
        self.take_references().await?;
        let mut surroundings = self.look_around().await?;
        self.look_for_verbs().await?;
        self.release_early().await?;
        let mut results: BTreeMap<CallName, Result<Fact, ProviderError>> = BTreeMap::new();
        for _ in 0..DECISIONS_MAX {
            // A verb that this pass has begun is ended by it, or nobody would know whether it was done.
            let in_hand = self.operations.iter().any(|operation| operation.is_ours);
            if (self.start.cancelled.is_cancelled() || self.overtaken) && !in_hand {
                return Ok(Ending::Cancelled);
            }
            let region = self.record.metadata.placement.region;
            let sighting = self.start.observation.as_ref().map(|observation| &observation.sighting);
            let detail = self.locked_status().detail.clone();
            let view = View {
                record: &self.record,
                detail: &detail,
                references: &surroundings.references,
                children: &surroundings.children,
                gates: &surroundings.gates,
                dependencies: &surroundings.dependencies,
                members: &surroundings.members,
                operations: &self.operations,
                results: &results,
                sighting,
                is_unobserved: region.is_some_and(|region| self.environment.graph.is_unobserved(region)),
                now: self.environment.ambient.now(),
                creation_tries_max: self.environment.options.creation_tries_max,
            };
            match (self.entry.decide)(&view)? {
                Decision::Conclude(outcome) => return self.conclude(outcome).await,
                Decision::Follow { detail, healthy, outcome } => {
                    self.with_status(|status, record, now| {
                        status.know(self.entry, detail, record, now);
                        status.state(Axis::Healthy, healthy, record, now);
                    });
                    return self.conclude(outcome).await;
                }
                Decision::Run(effects) => {
                    match self.run_effects(effects, &mut results, &mut surroundings.children).await? {
                        After::Decide => {}
                        After::LookAgain => surroundings = self.look_around().await?,
                        After::Refused => {
                            let message = "what it needs is being changed; trying again".to_owned();
                            return self.conclude(Outcome::Retry { message, after: None }).await;
                        }
                        After::Gone => return Ok(Ending::Removed),
                    }
                }
            }
        }
        tracing::error!(resource = %self.record.key, "a pass did not come to an outcome within {DECISIONS_MAX} steps");
        let message = "there is more to do than fits into one go; going on".to_owned();
        self.conclude(Outcome::Retry { message, after: None }).await
    }

    /// A monitor missed it or found it changed: that is said before anything is done about it.
    async fn take_sighting(&mut self) -> Result<(), Interruption> {
        match self.start.observation.as_ref().map(|observation| observation.sighting.clone()) {
            Some(Sighting::Absent) if !self.record.metadata.is_deleting() => {
                let message = format!("the {} is missing from its cloud", self.record.key.kind.noun());
                let detail = (self.entry.vanished)(self.record.key, &self.locked_status().detail)?;
                self.with_status(|status, record, now| {
                    status.know(self.entry, detail, record, now);
                    status.state(Axis::Healthy, Health::Degraded(message).statement(), record, now);
                });
                self.write_status().await?;
            }
            Some(Sighting::Present(fact)) if self.entry.takes_sightings => self.absorb(&fact)?,
            _ => {}
        }
        Ok(())
    }

    async fn look_around(&self) -> Result<Surroundings, Interruption> {
        let mut surroundings = Surroundings::default();
        if self.record.metadata.is_deleting() {
            surroundings.references = self.living_references().await?;
            surroundings.children = self.goes_with_it(&surroundings.references).await?;
        }
        if !self.record.metadata.is_deleting() || self.entry.follows {
            self.look_at_gates(&mut surroundings).await?;
        }
        surroundings.members = self.members().await?;
        Ok(surroundings)
    }

    /// What it owns, and what it is bridged to.
    async fn goes_with_it(&self, references: &[Holder]) -> Result<Vec<Child>, StoreError> {
        let store = &self.environment.store;
        let bridged = references.iter().filter_map(|holder| match holder {
            Holder::Resource(key) if (self.entry.is_bridge_to)(key.kind) => Some(*key),
            Holder::Resource(_) | Holder::External(_) => None,
        });
        let mut children = Vec::new();
        for child in store.children(self.record.key).await?.into_iter().chain(bridged) {
            let deleting = store.get(child).await?.is_none_or(|child| child.metadata.is_deleting());
            children.push(Child { key: child, deleting });
        }
        Ok(children)
    }

    async fn look_at_gates(&self, surroundings: &mut Surroundings) -> Result<(), Interruption> {
        let (store, key) = (&self.environment.store, self.record.key);
        let is_ending = self.record.metadata.is_deleting();
        for target in (self.entry.gates)(&self.record)? {
            // Whoever is on the way out follows only whom there is: nobody comes to the place of one who is gone, and so
            // nobody would take it away.
            if is_ending && store.get(target).await?.is_none() {
                surroundings.gates.insert(target, gate(None));
                continue;
            }
            // Subscribed before it is read: what changes in between is told.
            self.environment.graph.subscribe(target, key, Interest::of(self.entry.follows));
            let record = store.get(target).await?;
            let gate = gate(record.as_deref());
            if matches!(gate, Gate::Failed { .. }) && target.kind == Kind::Identity && self.is_new_intent() {
                // Its user has asked for something new, which is all they can do for a principal they cannot see.
                self.environment.graph.send(target, Message::Reconcile);
            }
            surroundings.gates.insert(target, gate);
            surroundings.dependencies.extend(record.map(|record| (target, record)));
        }
        Ok(())
    }

    /// No pass has spoken of what is asked for now.
    fn is_new_intent(&self) -> bool {
        let spoken_of = self.record.conditions.available.as_ref().map(|condition| condition.observed_generation);
        spoken_of.is_some_and(|generation| generation < self.record.metadata.generation)
    }

    /// Runs effects side by side; tells what follows from them.
    async fn run_effects(
        &mut self,
        effects: Vec<Effect>,
        results: &mut BTreeMap<CallName, Result<Fact, ProviderError>>,
        children: &mut Vec<Child>,
    ) -> Result<After, Interruption> {
        let mut calls = Vec::new();
        let mut after = After::Decide;
        for effect in effects {
            match effect {
                Effect::Call(call) => calls.push(call),
                Effect::Cascade(keys) => {
                    self.cascade(&keys).await?;
                    // What is only a record is gone already.
                    children.retain(|child| !keys.contains(&child.key) || kind::entry(child.key.kind).is_some());
                    for child in children.iter_mut().filter(|child| keys.contains(&child.key)) {
                        child.deleting = true;
                    }
                }
                Effect::Note { detail, statement } => {
                    self.with_status(|status, record, now| {
                        status.know(self.entry, detail, record, now);
                        if let Some(statement) = statement {
                            status.state(Axis::Available, statement, record, now);
                        }
                    });
                    let looked_at = self.record.revision;
                    self.write_status().await?;
                    // Gates, holders and answers are those of the intent that was looked at: a newer one needs its own.
                    self.overtaken |= self.record.revision > looked_at;
                    if self.overtaken {
                        return Ok(After::Decide);
                    }
                }
                Effect::Operate { operation, progress } => self.operate(operation, progress).await?,
                Effect::Govern(order) => {
                    if !self.govern(order).await? {
                        return Ok(After::Refused);
                    }
                    after = After::LookAgain;
                }
                Effect::Charge(amounts) => {
                    if !self.charge(amounts).await? {
                        return Ok(After::Refused);
                    }
                }
                Effect::Finish => {
                    self.finish().await?;
                    return Ok(After::Gone);
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
        Ok(after)
    }

    async fn call(&self, call: &ProviderCall) -> Result<Fact, ProviderError> {
        let (tenant, region) = self.record.tenant().map_err(|error| ProviderError::Rejected(error.to_string()))?;
        let Some(provider) = self.environment.clouds.get(region) else {
            return Err(ProviderError::Unavailable("the region is not configured".to_owned()));
        };
        // A newer intent stops a look, but not a verb that is on record as begun.
        let cancelled = match call.name() {
            CallName::Operate(_) => self.environment.stopping.child_token(),
            _ => self.start.cancelled.clone(),
        };
        let context = CallContext { tenant, cancelled, ledger: self };
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
        if !fact.is_sighting() {
            return Ok(());
        }
        self.sequence = self.sequence.max(fact.sequence());
        let known = self.locked_status().detail.clone();
        let absorbed = (self.entry.absorb)(self.record.key, &known, fact)?;
        self.with_status(|status, record, now| {
            status.know(self.entry, absorbed.detail, record, now);
            status.state(Axis::Healthy, absorbed.health.statement(), record, now);
        });
        Ok(())
    }

    async fn conclude(&mut self, outcome: Outcome) -> Result<Ending, Interruption> {
        if self.start.cancelled.is_cancelled() || self.overtaken {
            return Ok(Ending::Cancelled);
        }
        let followed = (self.entry.has_followed)(&self.locked_status().detail, self.record.metadata.generation);
        if followed || matches!(outcome, Outcome::Done | Outcome::Watching { .. }) {
            self.give_back_references().await?;
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
                transitions: status.transitions.iter().map(|moved| moved.transition.clone()).collect(),
            }
        };
        let committed = self.environment.store.commit(Batch::of(vec![write])).await?;
        let mut status = self.locked_status();
        status.dirty = false;
        for moved in status.transitions.drain(..) {
            log_transition(&self.record, &moved);
        }
        Ok(committed.records.into_iter().next())
    }
}

/// How something stands for those who wait for it.
pub(super) fn gate(record: Option<&Record>) -> Gate {
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
        self.with_status(|status, record, now| status.know(self.entry, detail, record, now));
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
