//! A branch: supervises one resource's own actor and everything below it.
//!
//! ```text
//!   child fails ──▶ its pass is ended ──▶ waits, doubling ──▶ record read again ──▶ new actor
//!        └── the fifth time in a row ──▶ Quarantined, until an operator restarts it
//! ```
//!
//! The count is each child's own, and a pass that ends well sets it back. The root and the regions are branches
//! too, without an actor of their own; a region's also keeps its services (pool, monitor) running.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, ActorStatus, RpcReplyPort, SpawnErr, SupervisionEvent,
};

use super::tree::Tree;
use crate::actors::resource::{self, Birth, FirstPass};
use crate::actors::{Environment, kind, tasks};
use crate::graph::Service;
use crate::graph::message::Message;
use crate::graph::snapshot::{Event, Phase, Snapshot};
use crate::model::ids::{Key, Kind, RegionId};
use crate::model::record::Record;
use crate::store::{Filter, Pages, StoreError};

/// How many failures in a row are taken for bad luck. A defect that fails every pass is quarantined within seconds;
/// one bad answer is not.
pub const FAILURES_MAX: u32 = 5;
const BACK_OFF_FIRST: Duration = Duration::from_millis(100);
const BACK_OFF_LONGEST: Duration = Duration::from_secs(10);

/// A resource to be given an actor.
#[derive(Clone)]
pub struct Planting {
    pub record: Arc<Record>,
    pub first_pass: FirstPass,
}

pub enum BranchMessage {
    /// Give the resource an actor in the branch at the end of `path` (its last element is nearest to here).
    Place {
        path: Vec<Key>,
        planting: Planting,
    },
    /// The actor that moves in: the branch's own resource.
    Own(ActorCell),
    /// Keep these running.
    Equip(Vec<Arc<dyn Service>>),
    /// The same, in the branch of `region`.
    EquipRegion {
        region: Key,
        services: Vec<Arc<dyn Service>>,
    },
    /// End the services of `region`: it is no longer configured.
    StripRegion {
        region: Key,
    },
    Strip,
    /// A failed child may live again, with what the store now holds of it and of what it owns.
    Reborn {
        key: Key,
        family: Option<Box<Family>>,
    },
    ServiceReborn(Arc<dyn Service>),
    /// An operator wants a fresh actor for `key`, quarantined or not.
    Restart {
        path: Vec<Key>,
        key: Key,
    },
    /// Answers once everything told before has been done, here and so many levels below.
    Ping {
        depth: u8,
        reply: RpcReplyPort<()>,
    },
    /// Ends everything below, leaves first.
    Stop(RpcReplyPort<()>),
}

/// A resource, and what would have to be planted again with it if its branch was lost.
pub struct Family {
    record: Arc<Record>,
    children: Vec<Arc<Record>>,
}

/// One child of a branch. Its actor lives here, or in its branch if it has one, never in both.
#[derive(Default)]
struct Slot {
    actor: Option<ActorCell>,
    /// The child has children of its own; its actor lives in there.
    branch: Option<ActorRef<BranchMessage>>,
    /// Somebody is bringing it back already.
    rebearing: bool,
    quarantined: bool,
    /// What was to be placed while it was between two lives: if it turns out to be gone, this is its successor.
    waiting: Option<Planting>,
    /// What a region's branch keeps running, for when it has to be grown again.
    services: Vec<Arc<dyn Service>>,
}

struct ServiceSlot {
    service: Arc<dyn Service>,
    actor: Option<ActorCell>,
    failures: u32,
}

/// What a branch is born with.
pub struct Seed {
    environment: Arc<Environment>,
    /// The resource whose branch this is; none for the root.
    key: Option<Key>,
}

pub struct Branch;

pub struct State {
    environment: Arc<Environment>,
    key: Option<Key>,
    slots: BTreeMap<Key, Slot>,
    services: Vec<ServiceSlot>,
    ids: BTreeMap<ActorId, Key>,
    stopping: bool,
}

impl Branch {
    pub async fn plant_root(environment: &Arc<Environment>) -> Result<ActorRef<BranchMessage>, SpawnErr> {
        let seed = Seed { environment: Arc::clone(environment), key: None };
        let (root, _) = Actor::spawn(None, Self, seed).await?;
        Ok(root)
    }
}

impl Actor for Branch {
    type Msg = BranchMessage;
    type State = State;
    type Arguments = Seed;

    async fn pre_start(&self, _myself: ActorRef<BranchMessage>, seed: Seed) -> Result<State, ActorProcessingErr> {
        Ok(State {
            environment: seed.environment,
            key: seed.key,
            slots: BTreeMap::new(),
            services: Vec::new(),
            ids: BTreeMap::new(),
            stopping: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<BranchMessage>,
        message: BranchMessage,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            _ if state.stopping => {}
            BranchMessage::Place { mut path, planting } => match path.pop() {
                None => state.place(&myself, planting).await,
                Some(next) => {
                    let below = state.branch(&myself, next).await?;
                    let _ = below.cast(BranchMessage::Place { path, planting });
                }
            },
            BranchMessage::Own(actor) => state.own(&myself, actor),
            BranchMessage::Equip(services) => {
                for service in services {
                    state.services.push(ServiceSlot { service, actor: None, failures: 0 });
                    state.start_service(&myself, state.services.len() - 1).await;
                }
            }
            BranchMessage::EquipRegion { region, services } => {
                let below = state.branch(&myself, region).await?;
                state.slots.entry(region).or_default().services.clone_from(&services);
                let _ = below.cast(BranchMessage::Strip);
                let _ = below.cast(BranchMessage::Equip(services));
            }
            BranchMessage::StripRegion { region } => {
                let below = state.branch(&myself, region).await?;
                state.slots.entry(region).or_default().services.clear();
                let _ = below.cast(BranchMessage::Strip);
            }
            BranchMessage::Strip => {
                for slot in state.services.drain(..) {
                    if let Some(actor) = slot.actor {
                        actor.stop(None);
                    }
                }
            }
            BranchMessage::Reborn { key, family } => state.reborn(&myself, key, family).await,
            BranchMessage::ServiceReborn(service) => {
                // It may have been taken away, or started anew, in the meantime.
                let same = |slot: &ServiceSlot| slot.actor.is_none() && Arc::ptr_eq(&slot.service, &service);
                if let Some(index) = state.services.iter().position(same) {
                    state.start_service(&myself, index).await;
                }
            }
            BranchMessage::Restart { mut path, key } => match path.pop() {
                None => state.restart(&myself, key),
                Some(next) => {
                    let below = state.branch(&myself, next).await?;
                    let _ = below.cast(BranchMessage::Restart { path, key });
                }
            },
            BranchMessage::Ping { depth, reply } => {
                if let Some(depth) = depth.checked_sub(1) {
                    for below in state.slots.values().filter_map(|slot| slot.branch.as_ref()) {
                        let _ = below.call(|reply| BranchMessage::Ping { depth, reply }, None).await;
                    }
                }
                let _ = reply.send(());
            }
            BranchMessage::Stop(reply) => {
                state.stop_below().await;
                let _ = reply.send(());
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<BranchMessage>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, failure) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell, Some(error.to_string())),
            SupervisionEvent::ActorTerminated(cell, _, _) => (cell, None),
            _ => return Ok(()),
        };
        if state.stopping {
            return Ok(());
        }
        if let Some(index) = state.services.iter().position(|slot| is_actor(slot.actor.as_ref(), &cell)) {
            state.service_ended(&myself, index, failure.as_deref());
        } else if let Some(key) = state.ids.remove(&cell.get_id()) {
            state.child_ended(&myself, key, &cell, failure.as_deref());
        }
        Ok(())
    }
}

/// A record and what it owns; of a region, everything in it, owners first.
async fn family(environment: &Environment, key: Key) -> Result<Option<Family>, StoreError> {
    let store = &*environment.store;
    let Some(record) = store.get(key).await? else { return Ok(None) };
    let mut children = Vec::new();
    if key.kind == Kind::Region {
        for entry in kind::all() {
            let filter = Filter { regions: Some(vec![RegionId(key.id)]), ..Filter::of(entry.kind) };
            let mut pages = Pages::of(store, filter);
            while let Some(records) = pages.next().await? {
                children.extend(records);
            }
        }
    } else {
        for child in store.children(key).await? {
            children.extend(store.get(child).await?);
        }
    }
    Ok(Some(Family { record, children }))
}

fn is_actor(slot: Option<&ActorCell>, cell: &ActorCell) -> bool {
    slot.is_some_and(|actor| actor.get_id() == cell.get_id())
}

impl State {
    /// Gives the resource an actor, or tells the one it has.
    async fn place(&mut self, myself: &ActorRef<BranchMessage>, planting: Planting) {
        let key = planting.record.key;
        let slot = self.slots.entry(key).or_default();
        if let Some(branch) = &slot.branch {
            let _ = branch.cast(BranchMessage::Place { path: Vec::new(), planting });
        } else if slot.actor.is_some() {
            self.environment.graph.send(key, Message::Changed(planting.record));
        } else if slot.rebearing || slot.quarantined {
            slot.waiting = Some(planting);
        } else {
            self.spawn(myself, planting).await;
        }
    }

    async fn spawn(&mut self, myself: &ActorRef<BranchMessage>, planting: Planting) {
        let key = planting.record.key;
        let Some(entry) = kind::entry(key.kind) else {
            self.slots.remove(&key);
            return;
        };
        let birth = Birth {
            environment: Arc::clone(&self.environment),
            entry,
            record: planting.record,
            first_pass: planting.first_pass,
        };
        match resource::spawn(birth, myself.get_cell()).await {
            Ok(actor) => {
                self.ids.insert(actor.get_id(), key);
                self.slots.entry(key).or_default().actor = Some(actor.get_cell());
            }
            Err(error) => self.actor_ended(myself, key, Some(&error.to_string())),
        }
    }

    /// The branch of a child, grown if it has none. Its actor, if it lives, moves in.
    async fn branch(
        &mut self,
        myself: &ActorRef<BranchMessage>,
        key: Key,
    ) -> Result<ActorRef<BranchMessage>, ActorProcessingErr> {
        let slot = self.slots.entry(key).or_default();
        if let Some(branch) = &slot.branch {
            return Ok(branch.clone());
        }
        let seed = Seed { environment: Arc::clone(&self.environment), key: Some(key) };
        let (branch, _) = Actor::spawn_linked(None, Branch, seed, myself.get_cell()).await?;
        self.ids.insert(branch.get_id(), key);
        slot.branch = Some(branch.clone());
        if let Some(actor) = slot.actor.take() {
            self.ids.remove(&actor.get_id());
            actor.unlink(myself.get_cell());
            actor.link(branch.get_cell());
            let _ = branch.cast(BranchMessage::Own(actor));
        }
        Ok(branch)
    }

    fn own(&mut self, myself: &ActorRef<BranchMessage>, actor: ActorCell) {
        let Some(key) = self.key else { return };
        // It may have ended on its way here, when nobody was told.
        if matches!(actor.get_status(), ActorStatus::Stopping | ActorStatus::Stopped) {
            self.actor_ended(myself, key, Some("ended while it moved into its branch"));
            return;
        }
        self.ids.insert(actor.get_id(), key);
        self.slots.entry(key).or_default().actor = Some(actor);
    }

    /// Somebody below ended: the child's actor, its branch, or one that has been replaced long since.
    fn child_ended(&mut self, myself: &ActorRef<BranchMessage>, key: Key, cell: &ActorCell, failure: Option<&str>) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        if is_actor(slot.actor.as_ref(), cell) {
            slot.actor = None;
            self.actor_ended(myself, key, failure);
        } else if slot.branch.as_ref().is_some_and(|branch| branch.get_id() == cell.get_id()) {
            slot.branch = None;
            if let Some(failure) = failure {
                tracing::error!(resource = %key, failure, "a supervisor failed; what it watched is started again");
            }
            self.rebear(myself, key, Duration::ZERO);
        }
    }

    /// An actor ended. One that ended well is gone from the store, which is checked; one that failed lives again.
    fn actor_ended(&mut self, myself: &ActorRef<BranchMessage>, key: Key, failure: Option<&str>) {
        // A resource that is gone has no node any more, and must not get one again.
        let node = self.environment.graph.node(key);
        if let Some(node) = &node {
            node.dead();
        }
        let wait = match failure {
            None => Duration::ZERO,
            Some(failure) => {
                let failures = node.map_or(1, |node| node.failed());
                metrics::counter!("regent_actor_failures_total", "kind" => key.kind.word()).increment(1);
                tracing::error!(resource = %key, failures, failure, "an actor failed");
                if failures >= FAILURES_MAX {
                    self.quarantine(key, failure);
                    return;
                }
                BACK_OFF_FIRST.saturating_mul(1 << (failures - 1).min(16)).min(BACK_OFF_LONGEST)
            }
        };
        self.rebear(myself, key, wait);
    }

    fn quarantine(&mut self, key: Key, failure: &str) {
        metrics::counter!("regent_actor_quarantines_total", "kind" => key.kind.word()).increment(1);
        tracing::error!(resource = %key, "an actor is quarantined; restart it once the cause is gone");
        self.slots.entry(key).or_default().quarantined = true;
        let node = self.environment.graph.ensure(key);
        if let Some(pass) = node.take_pass() {
            pass.abort();
        }
        let mut last = Snapshot::clone(&node.snapshot());
        last.events.push(Event { at: self.environment.ambient.now(), text: failure.into() });
        node.publish(Snapshot { phase: Phase::Quarantined, next_wake: None, ..last });
    }

    /// Beside the mailbox: ends the pass that the dead actor left, waits, reads the record, and comes back. The pass is
    /// taken here and now: later it could be the next actor's.
    fn rebear(&mut self, myself: &ActorRef<BranchMessage>, key: Key, wait: Duration) {
        let slot = self.slots.entry(key).or_default();
        if std::mem::replace(&mut slot.rebearing, true) {
            return;
        }
        let left = self.environment.graph.node(key).and_then(|node| node.take_pass());
        let (environment, myself) = (Arc::clone(&self.environment), myself.clone());
        tasks::spawn("rebirth of an actor", async move {
            if let Some(pass) = left {
                pass.abort();
                let _ = pass.await;
            }
            let mut wait = wait;
            loop {
                tokio::time::sleep(wait).await;
                match family(&environment, key).await {
                    Ok(family) => {
                        let _ = myself.cast(BranchMessage::Reborn { key, family: family.map(Box::new) });
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(resource = %key, %error, "a record could not be read for a restart");
                        wait = (wait * 2).clamp(BACK_OFF_FIRST, BACK_OFF_LONGEST);
                    }
                }
            }
        });
    }

    async fn reborn(&mut self, myself: &ActorRef<BranchMessage>, key: Key, family: Option<Box<Family>>) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.rebearing = false;
        let waiting = slot.waiting.take();
        if slot.actor.is_some() || slot.quarantined {
            return;
        }
        match (family, waiting) {
            (Some(family), _) => self.plant(myself, *family).await,
            (None, Some(successor)) => self.spawn(myself, successor).await,
            (None, None) => {
                // The branch of a resource that is gone has nothing left to watch, nor has one that is empty.
                self.slots.remove(&key);
                self.environment.graph.remove(key);
                let is_resource = self.key.is_some_and(|own| own.kind != Kind::Region);
                if is_resource && (self.key == Some(key) || self.slots.is_empty()) {
                    // Nobody will ask any more what became of those that have ended beside it.
                    let ended = self.slots.iter().filter(|(_, slot)| slot.actor.is_none() && slot.branch.is_none());
                    for (key, _) in ended {
                        self.environment.graph.remove(*key);
                    }
                    myself.stop(None);
                }
            }
        }
    }

    /// Plants a child again, and with it, if its branch was lost, everything that stood in it.
    async fn plant(&mut self, myself: &ActorRef<BranchMessage>, family: Family) {
        let key = family.record.key;
        let services = self.slots.get(&key).map(|slot| slot.services.clone()).unwrap_or_default();
        if !services.is_empty() {
            let _ = myself.cast(BranchMessage::EquipRegion { region: key, services });
        }
        let first_pass = FirstPass::Now;
        if kind::entry(key.kind).is_some() {
            self.environment.graph.ensure(key).restarted();
            let planting = Planting { record: family.record, first_pass };
            match self.slots.get(&key).and_then(|slot| slot.branch.as_ref()) {
                Some(branch) => {
                    let _ = branch.cast(BranchMessage::Place { path: Vec::new(), planting });
                }
                None => self.spawn(myself, planting).await,
            }
        }
        // Those that live are only told. Their ways lead through the branch that is grown again for them.
        let tree = Tree::new(self.environment.graph.clone(), myself.clone());
        for record in family.children.into_iter().filter(|_| self.key != Some(key)) {
            let mut path = tree.path(record.metadata.owner, record.metadata.placement.region);
            let here = path.iter().position(|step| *step == key).map_or(path.len(), |here| here + 1);
            path.truncate(here);
            let _ = myself.cast(BranchMessage::Place { path, planting: Planting { record, first_pass } });
        }
    }

    fn restart(&mut self, myself: &ActorRef<BranchMessage>, key: Key) {
        let key = if self.slots.contains_key(&key) { key } else { return };
        self.environment.graph.ensure(key).recovered();
        let Some(slot) = self.slots.get_mut(&key) else { return };
        if let Some(branch) = &slot.branch {
            let _ = branch.cast(BranchMessage::Restart { path: Vec::new(), key });
            return;
        }
        slot.quarantined = false;
        match &slot.actor {
            // Its end is heard like any other, and the record is still there: it lives again.
            Some(actor) => actor.stop(None),
            None => self.rebear(myself, key, Duration::ZERO),
        }
    }

    async fn start_service(&mut self, myself: &ActorRef<BranchMessage>, index: usize) {
        let Some(slot) = self.services.get_mut(index) else { return };
        match slot.service.spawn(myself.get_cell()).await {
            Ok(actor) => slot.actor = Some(actor),
            Err(error) => self.service_ended(myself, index, Some(&error.to_string())),
        }
    }

    fn service_ended(&mut self, myself: &ActorRef<BranchMessage>, index: usize, failure: Option<&str>) {
        let slot = &mut self.services[index];
        slot.actor = None;
        slot.failures = slot.failures.saturating_add(1);
        tracing::error!(
            service = slot.service.name(),
            failures = slot.failures,
            failure,
            "a service ended; restarting it"
        );
        let wait = BACK_OFF_FIRST.saturating_mul(1 << slot.failures.min(16)).min(BACK_OFF_LONGEST);
        let (myself, service) = (myself.clone(), Arc::clone(&slot.service));
        tasks::spawn("restart of a service", async move {
            tokio::time::sleep(wait).await;
            let _ = myself.cast(BranchMessage::ServiceReborn(service));
        });
    }

    /// Services first, so that nothing new begins; then what lies below, in order of key; the own actor last.
    async fn stop_below(&mut self) {
        self.stopping = true;
        for slot in self.services.drain(..) {
            if let Some(actor) = slot.actor {
                actor.stop(None);
            }
        }
        let own = self.key;
        for (_, slot) in self.slots.iter().filter(|(key, _)| Some(**key) != own) {
            if let Some(branch) = &slot.branch {
                let _ = branch.call(BranchMessage::Stop, None).await;
                branch.stop(None);
            }
            if let Some(actor) = &slot.actor {
                actor.stop(None);
            }
        }
        if let Some(actor) = own.and_then(|own| self.slots.get(&own)).and_then(|slot| slot.actor.as_ref()) {
            actor.stop(None);
        }
    }
}
