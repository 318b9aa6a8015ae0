//! One believable cloud, as a value: no task, no clock, no socket, and the same history from the same seed.
//!
//! ```text
//!   face ── admit(request) ──▶ Fate (how long to wait, what goes wrong)
//!        ── perform(now, request, fate) ──▶ Outcome (what to answer, and when)
//! ```
//!
//! A call is admitted and performed in two steps because a slow call must act on what is there when it acts, not
//! when it came. Waiting is left to the face, which has the runtime's clock. [`rules`] is the cloud in good health and
//! [`servers`], [`balancers`] and [`volumes`] the lives of machines, load balancers and volumes in it, [`images`] what
//! machines boot from, [`faults`] what goes wrong on order, [`backdoor`] what happens without a call, [`books`] what can
//! be compared.

pub mod backdoor;
mod balancers;
pub mod books;
pub mod faults;
mod images;
#[cfg(test)]
mod resize_tests;
mod rules;
#[cfg(test)]
mod server_tests;
mod servers;
pub mod settings;
mod shares;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod volume_tests;
mod volumes;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::call::{Answer, Call, CallRequest, Caller, CloudError, ServerAction};
use super::objects::{
    Becomes, Body, CloudObject, ExternalNetworkEntry, NewObject, ObjectId, ObjectState, Pending, PortOptions,
};
use crate::model::load_balancer_topology::Topology;
use crate::providers::image_schema::ImageEntry;
use backdoor::BackdoorChange;
use books::{CallLog, Counters, Creation, Creations, Inventory, LoggedCall};
use faults::{Effect, Fate, Fault, FaultBook, PartialForm};
use rules::World;
use settings::EngineSettings;
use table::Table;
pub use table::{Count, TableChange};

/// When the answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    AtOnce,
    After(Duration),
    /// Never; the caller's deadline ends it.
    Never,
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub result: Result<Answer, CloudError>,
    pub sending: Sending,
}

/// What one step changed, in the form that the journal keeps. Reading all lines back gives the cloud again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JournalLine {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<TableChange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<LoggedCall>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub creations: Vec<Creation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Vec<Fault>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remainder: Option<Remainder>,
}

/// The rest of the cloud: small, and written whole with every line. The chance of faults is not part of it: after a
/// restart it is drawn from the beginning, which harms nobody, whereas an id drawn twice would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remainder {
    epochs: BTreeMap<String, u64>,
    external_networks: Vec<ExternalNetworkEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    offered_images: Vec<ImageEntry>,
    counters: Counters,
    random_state: u64,
}

/// One cloud.
pub struct SimulatedCloud {
    world: World,
    faults: FaultBook,
    log: CallLog,
    /// The newest epoch that each caller was seen with.
    epochs: BTreeMap<String, u64>,
    /// Mutating calls that the journal has not had yet.
    unwritten: Vec<LoggedCall>,
}

/// The external networks that every simulated region has.
fn default_external_networks() -> Vec<ExternalNetworkEntry> {
    let entry = |id: &str, name: &str| ExternalNetworkEntry { id: ObjectId(id.to_owned()), name: name.to_owned() };
    vec![
        entry("55555555-5555-4555-8555-555555555555", "sim-public"),
        entry("66666666-6666-4666-8666-666666666666", "sim-public-secondary"),
    ]
}

/// Tells the chance of faults from the chance of ids, under one seed.
const FAULT_SEED: u64 = 0x5bd1_e995_9d1b_54a5;

impl SimulatedCloud {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            world: World {
                table: Table::new(),
                external_networks: default_external_networks(),
                offered_images: Vec::new(),
                random: fastrand::Rng::with_seed(seed),
                settings: EngineSettings::default(),
            },
            faults: FaultBook::new(fastrand::Rng::with_seed(seed ^ FAULT_SEED)),
            log: CallLog::default(),
            epochs: BTreeMap::new(),
            unwritten: Vec::new(),
        }
    }

    /// Behaves so from now on. Not part of the journal: whoever starts the cloud says how it is to be.
    pub const fn configure(&mut self, settings: EngineSettings) {
        self.world.settings = settings;
    }

    /// Does a call as the cloud in good health does it: no fault, no log, no delay.
    pub fn apply(&mut self, now: Timestamp, call: &Call) -> Result<Answer, CloudError> {
        self.world.settle(now);
        self.world.apply(now, call)
    }

    /// Draws what will happen to a call that has come in.
    pub fn admit(&mut self, request: &CallRequest) -> Fate {
        let marked = self.marked(&request.call).map(|id| id.to_string());
        self.faults.draw(request, marked.as_deref())
    }

    /// Our id, with which the object that a call names is marked.
    fn marked(&self, call: &Call) -> Option<Uuid> {
        self.world.table.by_id(call.named()?)?.marks.map(|marks| marks.id)
    }

    /// Does what a call asks, in the way that its fate has it.
    pub fn perform(&mut self, now: Timestamp, request: &CallRequest, effect: Option<&Effect>) -> Outcome {
        self.world.settle(now);
        let marked = self.marked(&request.call);
        let (outcome, applied) = match self.fence(&request.caller, request.call.is_mutating()) {
            Err(error) => (Outcome { result: Err(error), sending: Sending::AtOnce }, false),
            Ok(()) => self.perform_unfenced(now, &request.call, effect),
        };
        let logged = self.log.record(now, request, marked, outcome.result.as_ref().err(), applied);
        if logged.mutating {
            self.unwritten.push(logged.clone());
        }
        outcome
    }

    /// Sees who calls. A caller that was replaced may still look, but changes nothing.
    fn fence(&mut self, caller: &Caller, mutating: bool) -> Result<(), CloudError> {
        let newest = self.epochs.entry(caller.name.clone()).or_insert(caller.epoch);
        *newest = (*newest).max(caller.epoch);
        if mutating && caller.epoch < *newest {
            return Err(CloudError::Fenced { newest_epoch: *newest });
        }
        Ok(())
    }

    fn perform_unfenced(&mut self, now: Timestamp, call: &Call, effect: Option<&Effect>) -> (Outcome, bool) {
        let refuse = |error, sending| (Outcome { result: Err(error), sending }, false);
        match effect {
            None | Some(Effect::Slow { .. }) => at_once(self.world.apply(now, call)),
            Some(Effect::Error { error }) => refuse(error.clone(), Sending::AtOnce),
            Some(Effect::Throttle { retry_after_ms }) => {
                refuse(CloudError::Throttled { retry_after_ms: *retry_after_ms }, Sending::AtOnce)
            }
            Some(Effect::TimeOut { after_ms }) => {
                refuse(CloudError::TimedOut, Sending::After(Duration::from_millis(*after_ms)))
            }
            Some(Effect::Hang) => refuse(CloudError::TimedOut, Sending::Never),
            Some(Effect::LostAnswer { after_ms }) => {
                let applied = self.world.apply(now, call).is_ok();
                let sending = Sending::After(Duration::from_millis(*after_ms));
                (Outcome { result: Err(CloudError::Unavailable), sending }, applied)
            }
            Some(Effect::Stale { age_ms }) => {
                let age = SignedDuration::from_millis(i64::try_from(*age_ms).unwrap_or(i64::MAX));
                let at = now.checked_sub(age).unwrap_or(Timestamp::MIN);
                at_once(self.world.apply_stale(now, at, call))
            }
            Some(Effect::PartialCreate { form }) => {
                let applied = self.create_partially(now, call, *form).is_ok();
                (Outcome { result: Err(CloudError::Unavailable), sending: Sending::AtOnce }, applied)
            }
            Some(Effect::FailedBoot | Effect::FailedImport) => at_once(self.create_failing(now, call)),
            Some(Effect::FailedRebuild | Effect::FailedResize) => at_once(match call {
                Call::Act { server, action: action @ (ServerAction::Rebuild { .. } | ServerAction::Resize { .. }) } => {
                    self.world.act(now, server, *action, true)
                }
                other => self.world.apply(now, other),
            }),
            Some(Effect::StuckCreate { for_ms }) => at_once(self.create_stuck(now, call, *for_ms)),
            Some(Effect::StuckDelete { for_ms }) => at_once(self.delete_stuck(now, call, *for_ms)),
        }
    }

    fn create_partially(&mut self, now: Timestamp, call: &Call, form: PartialForm) -> Result<Answer, CloudError> {
        let Call::Create { object } = call else { return self.world.apply(now, call) };
        let object = match form {
            PartialForm::Unfinished => self.world.insert(now, object, ObjectState::Building)?,
            PartialForm::Errored => self.world.insert(now, object, ObjectState::Error)?,
            PartialForm::Incomplete => self.world.insert(now, &without_options(object), ObjectState::Active)?,
        };
        if form == PartialForm::Unfinished {
            self.stick(now, &object, Becomes::Active, None)?;
        }
        Ok(self.world.created(object))
    }

    fn create_stuck(&mut self, now: Timestamp, call: &Call, for_ms: Option<u64>) -> Result<Answer, CloudError> {
        let Call::Create { object } = call else { return self.world.apply(now, call) };
        let object = self.world.insert(now, object, ObjectState::Building)?;
        self.stick(now, &object, Becomes::Active, for_ms)?;
        Ok(self.world.created(object))
    }

    fn create_failing(&mut self, now: Timestamp, call: &Call) -> Result<Answer, CloudError> {
        let Call::Create { object } = call else { return self.world.apply(now, call) };
        let object = self.world.insert(now, object, ObjectState::Active)?;
        let settings = &self.world.settings;
        let delay = if object.image().is_some() { settings.image_delay } else { settings.boot_delay };
        self.stick(now, &object, Becomes::Error, u64::try_from(delay.as_millis()).ok())?;
        Ok(self.world.created(object))
    }

    fn delete_stuck(&mut self, now: Timestamp, call: &Call, for_ms: Option<u64>) -> Result<Answer, CloudError> {
        let Call::Delete { kind, id } = call else { return self.world.apply(now, call) };
        let object = self.world.deletable(*kind, id)?.clone();
        self.world.alter(now, id, |object| object.state = ObjectState::Deleting)?;
        self.stick(now, &object, Becomes::Gone, for_ms)?;
        Ok(Answer::Done)
    }

    /// Leaves an object as it is, for a while or until it is released. It waits for nothing else meanwhile.
    fn stick(
        &mut self,
        now: Timestamp,
        object: &CloudObject,
        becomes: Becomes,
        for_ms: Option<u64>,
    ) -> Result<(), CloudError> {
        let until = for_ms.map(|for_ms| later(now, Duration::from_millis(for_ms)));
        self.world.alter(now, &object.id, |object| {
            object.pending = Some(Pending { becomes, until });
            if let Body::Server(server) = &mut object.body {
                server.life.queued = false;
            }
        })
    }

    pub fn add_faults(&mut self, faults: Vec<Fault>) -> Result<(), CloudError> {
        self.faults.add(faults)
    }

    /// Nothing goes wrong any more. What is stuck stays so until it is due or released.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        self.faults.list()
    }

    /// Changes objects behind everybody's back.
    pub fn change_directly(&mut self, now: Timestamp, change: &BackdoorChange) -> Result<(), CloudError> {
        self.world.settle(now);
        self.world.change_directly(now, change)
    }

    /// What exists now.
    pub fn inventory(&mut self, now: Timestamp) -> Inventory {
        self.world.settle(now);
        Inventory::of(&self.world)
    }

    #[must_use]
    pub fn creations(&self) -> Creations {
        let (creations, complete) = self.world.table.creations();
        let creations =
            creations.iter().map(|((kind, marks), count)| Creation { kind: *kind, marks: *marks, count: *count });
        Creations { creations: creations.collect(), complete }
    }

    #[must_use]
    pub fn calls_after(&self, sequence: u64) -> Vec<LoggedCall> {
        self.log.after(sequence)
    }

    #[must_use]
    pub const fn counters(&self) -> &Counters {
        self.log.counters()
    }

    /// What has changed since this was last asked; nothing when nothing has.
    pub fn take_journal_line(&mut self) -> Option<JournalLine> {
        let changes = self.world.table.take_changes();
        let calls = std::mem::take(&mut self.unwritten);
        let faults = self.faults.take_changed();
        if changes.is_empty() && calls.is_empty() && faults.is_none() {
            return None;
        }
        let remainder = Some(self.remainder());
        Some(JournalLine { changes, calls, creations: Vec::new(), faults, remainder })
    }

    /// Drops what a journal would have had: without one it would pile up.
    pub fn discard_journal_line(&mut self) {
        self.world.table.take_changes();
        self.unwritten.clear();
        self.faults.take_changed();
    }

    /// The whole cloud in one line, for a journal that begins anew.
    #[must_use]
    pub fn whole(&self) -> JournalLine {
        let objects = super::objects::ObjectKind::ALL.into_iter().flat_map(|kind| self.world.table.of_kind(kind));
        JournalLine {
            changes: objects.cloned().map(|object| TableChange::Put(Box::new(object))).collect(),
            calls: self.log.mutations().cloned().collect(),
            creations: self.creations().creations,
            faults: Some(self.faults.list().to_vec()),
            remainder: Some(self.remainder()),
        }
    }

    fn remainder(&self) -> Remainder {
        Remainder {
            epochs: self.epochs.clone(),
            external_networks: self.world.external_networks.clone(),
            offered_images: self.world.offered_images.clone(),
            counters: self.log.counters().clone(),
            random_state: self.world.random.get_seed(),
        }
    }

    /// Takes over what a line says. `now` is only when the change is remembered to have been made.
    pub fn restore(&mut self, now: Timestamp, line: JournalLine) -> Result<(), CloudError> {
        for change in line.changes {
            match change {
                TableChange::Put(object) => self.world.table.put(now, *object),
                TableChange::Removed(kind, id) => self.world.table.remove(now, kind, &id),
            }
        }
        // After the objects, whose restoration counted them again.
        for creation in line.creations {
            self.world.table.restore_creations(creation.kind, creation.marks, creation.count);
        }
        for call in line.calls {
            self.log.restore(call);
        }
        if let Some(faults) = line.faults {
            self.faults.clear();
            self.faults.add(faults)?;
        }
        if let Some(remainder) = line.remainder {
            self.epochs = remainder.epochs;
            self.world.external_networks = remainder.external_networks;
            self.world.offered_images = remainder.offered_images;
            self.log.restore_counters(remainder.counters);
            self.world.random = fastrand::Rng::with_seed(remainder.random_state);
        }
        self.world.table.take_changes();
        self.faults.take_changed();
        Ok(())
    }
}

fn at_once(result: Result<Answer, CloudError>) -> (Outcome, bool) {
    let applied = result.is_ok();
    (Outcome { result, sending: Sending::AtOnce }, applied)
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn without_options(object: &NewObject) -> NewObject {
    let mut object = object.clone();
    object.tags.clear();
    match &mut object.body {
        Body::Network { segment, .. } => *segment = None,
        Body::Subnet { options, .. } => {
            options.pool = None;
            options.dns_nameservers.clear();
            options.routes.clear();
        }
        Body::Router { external_network, .. } => *external_network = None,
        Body::Port { options, .. } => *options = PortOptions::default(),
        Body::LoadBalancer { topology, .. } => *topology = Topology::default(),
        Body::Share { share } => share.options.policies.clear(),
        Body::Project
        | Body::User
        | Body::Credential { .. }
        | Body::KeyPair { .. }
        | Body::SecurityGroup { .. }
        | Body::FloatingIp { .. }
        | Body::Server(_)
        | Body::Volume(_)
        | Body::Image(_)
        | Body::ShareAttachment { .. } => {}
    }
    object
}
