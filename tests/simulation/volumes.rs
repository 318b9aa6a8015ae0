//! Volumes in a history: what is done to them, and what must then be true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use regent::graph::snapshot::Phase;
use regent::model::edge::Holder;
use regent::model::ids::{Key, Kind, NetworkId, ServerId, VolumeId};
use regent::model::quota::QuotaKind;
use regent::model::record::Record;
use regent::model::volume::Volume;
use regent::providers::simulated::catalogue::VOLUME_CLASS_STANDARD;
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::providers::simulated::engine::books::Inventory;
use regent::providers::simulated::objects::ObjectKind;
use regent::store::Store;
use serde_json::{Value, json};
use uuid::Uuid;

use super::history::{Ledger, id_of, pick};
use super::invariants::ensure;
use super::machines;
use crate::support::world::{Life, World};

type Records = BTreeMap<Uuid, Arc<Record>>;

/// What a volume was last asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    size_gib: u32,
    server: Option<Uuid>,
}

/// What the harness knows of one. `None` where a request died and its outcome is unknown.
#[derive(Clone, Debug)]
struct KnownVolume {
    network: Uuid,
    asked: Option<Asked>,
    /// The most that was ever asked for: it may be as large.
    size_gib_max: u32,
    /// Every server that it was asked to go to: it gives them back late.
    used: BTreeSet<Uuid>,
    deleted: Option<bool>,
}

impl KnownVolume {
    fn new(network: Uuid, asked: Asked, deleted: Option<bool>) -> Self {
        let used = asked.server.into_iter().collect();
        Self { network, asked: Some(asked), size_gib_max: asked.size_gib, used, deleted }
    }

    /// Does it surely keep this server from going?
    fn claims(&self, server: Uuid) -> bool {
        self.deleted == Some(false) && self.asked.is_some_and(|asked| asked.server == Some(server))
    }
}

/// The harness' side of it.
#[derive(Default)]
pub struct Volumes {
    known: BTreeMap<Uuid, KnownVolume>,
    /// Creations that died on the way, by name.
    doubtful: BTreeMap<String, KnownVolume>,
    named: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeDeed {
    Create,
    Update,
    Delete,
    Backdoor,
}

pub async fn perform(deed: VolumeDeed, world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    match deed {
        VolumeDeed::Create => create(life, ledger, random).await,
        VolumeDeed::Update => {
            if let Some(id) = any_live(ledger, random) {
                let size_gib = ledger.volumes.known[&id].size_gib_max + random.u32(0..6);
                let server = any_claimant(ledger, ledger.volumes.known[&id].network, random);
                update(life, ledger, id, Asked { size_gib, server }).await;
            }
        }
        VolumeDeed::Delete => {
            if let Some(id) = any_live(ledger, random) {
                delete(life, ledger, id).await;
            }
        }
        VolumeDeed::Backdoor => backdoor(world, life, random).await,
    }
}

fn any_live(ledger: &Ledger, random: &mut fastrand::Rng) -> Option<Uuid> {
    let live = ledger.volumes.known.iter().filter(|(_, known)| known.deleted == Some(false)).map(|(id, _)| *id);
    pick(&live.collect::<Vec<_>>(), random)
}

/// A server of the network, mostly, if there is one.
fn any_claimant(ledger: &Ledger, network: Uuid, random: &mut fastrand::Rng) -> Option<Uuid> {
    let servers = machines::live_servers(ledger, network);
    pick(&servers, random).filter(|_| random.u8(0..4) > 0)
}

fn spec(asked: Asked) -> Value {
    let mut spec = json!({"sizeGiB": asked.size_gib});
    if let Some(server) = asked.server {
        spec["serverId"] = json!(server);
    }
    spec
}

fn is_over_quota(status: StatusCode, answer: &Value) -> bool {
    let text = answer["error_description"].as_str().unwrap_or_default();
    status == StatusCode::FORBIDDEN && text.contains("exceed quota")
}

async fn create(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(network) = ledger.any_live(random) else { return };
    let asked = Asked { size_gib: random.u32(1..40), server: any_claimant(ledger, network, random) };
    ledger.volumes.named += 1;
    let name = format!("volume-{}", ledger.volumes.named);
    ledger.volumes.doubtful.insert(name.clone(), KnownVolume::new(network, asked, None));
    let mut spec = spec(asked);
    spec["networkId"] = json!(network);
    spec["volumeClassId"] = json!(VOLUME_CLASS_STANDARD);
    let body = json!({"metadata": {"name": name}, "spec": spec});
    let (status, answer) = life.request("POST", "/api/v2/volumes", Some(body)).await;
    ledger.volumes.doubtful.remove(&name);
    match status {
        StatusCode::CREATED => {
            let known = KnownVolume::new(network, asked, Some(false));
            ledger.volumes.known.insert(id_of(&answer), known);
        }
        // What the cloud offers could not be read: nothing was accepted.
        StatusCode::SERVICE_UNAVAILABLE => {}
        status => assert!(is_over_quota(status, &answer), "a create was answered {status}: {answer}"),
    }
}

async fn update(life: &Life, ledger: &mut Ledger, id: Uuid, asked: Asked) {
    let known = ledger.volumes.known.get_mut(&id).expect("known");
    let before = known.asked.take();
    known.size_gib_max = known.size_gib_max.max(asked.size_gib);
    known.used.extend(asked.server);
    let body = json!({"metadata": {"name": "changed"}, "spec": spec(asked)});
    let (status, answer) = life.request("PUT", &format!("/api/v2/volumes/{id}"), Some(body)).await;
    let known = ledger.volumes.known.get_mut(&id).expect("known");
    if is_over_quota(status, &answer) {
        known.asked = before;
        return;
    }
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(answer["spec"], spec(asked), "an update is read back at once (before: {before:?})");
    known.asked = Some(asked);
}

async fn delete(life: &Life, ledger: &mut Ledger, id: Uuid) {
    let known = ledger.volumes.known.get_mut(&id).expect("known");
    let (refused, may_be) = (known.asked.is_some_and(|asked| asked.server.is_some()), known.asked.is_none());
    known.deleted = if refused { Some(false) } else { None };
    let gone = machines::delete(life, &format!("/api/v2/volumes/{id}"), refused, may_be).await;
    ledger.volumes.known.get_mut(&id).expect("known").deleted = Some(gone);
}

/// Lets go of every server, and then of everything.
pub async fn delete_all(life: &Life, ledger: &mut Ledger) {
    for id in ledger.volumes.known.keys().copied().collect::<Vec<_>>() {
        let size_gib = ledger.volumes.known[&id].asked.expect("settled").size_gib;
        update(life, ledger, id, Asked { size_gib, server: None }).await;
        delete(life, ledger, id).await;
    }
}

/// A volume is pulled out of its server, or is gone with what it held.
async fn backdoor(world: &World, life: &Life, random: &mut fastrand::Rng) {
    let regions = world.regions();
    let handle = life.clouds.handle(regions[random.usize(0..regions.len())]).expect("a simulated region");
    let Some(object) = pick(&handle.inventory().await.expect("books").volumes, random) else { return };
    let change = match random.u8(0..4) {
        0 => BackdoorChange::Delete { id: object.id },
        _ => BackdoorChange::DropAttachment { volume: object.id },
    };
    let _ = handle.change_directly(change).await;
}

impl Volumes {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &KnownVolume> {
        self.known.values().chain(self.doubtful.values())
    }

    /// Would a deletion of this network be refused, and may it be?
    pub fn keep_network(&self, network: Uuid) -> (bool, bool) {
        let stays = |known: &&KnownVolume| known.network == network && known.deleted == Some(false);
        (self.known.values().any(|known| stays(&known)), self.all().any(|known| known.network == network))
    }

    /// The same of a server.
    pub fn keep_server(&self, server: Uuid) -> (bool, bool) {
        let claimed = self.known.values().any(|known| known.claims(server));
        (claimed, self.all().any(|known| known.used.contains(&server)))
    }

    /// What lies in these networks goes, or may go, with them.
    pub fn networks_deleted(&mut self, networks: &BTreeSet<Uuid>, deleted: Option<bool>) {
        let lost = self.known.values_mut().filter(|known| networks.contains(&known.network));
        for known in lost.filter(|known| known.deleted != Some(true)) {
            known.deleted = deleted;
        }
    }
}

fn opened(record: &Record) -> Result<Asked, String> {
    let spec = record.open::<Volume>().map_err(|error| error.to_string())?.spec;
    Ok(Asked { size_gib: spec.size_gib, server: spec.server.map(|server| server.0) })
}

/// What is stored is what was accepted; what was in doubt is settled by what is stored.
pub fn accepted_is_durable(stored: &Records, ledger: &mut Ledger) -> Result<(), String> {
    let volumes = &mut ledger.volumes;
    for (id, record) in stored {
        if !volumes.known.contains_key(id) {
            let known = volumes.doubtful.remove(&record.metadata.name);
            let known = known.ok_or_else(|| format!("volume {id} is stored but nobody asked for it"))?;
            volumes.known.insert(*id, known);
        }
    }
    volumes.doubtful.clear();
    for (id, known) in &mut volumes.known {
        let Some(record) = stored.get(id) else {
            ensure!(known.deleted != Some(false), "volume {id} was accepted and is lost");
            continue;
        };
        // Nobody uses a volume, so that nothing holds up its end.
        ensure!(!record.metadata.is_deleting(), "volume {id} is at rest, but is being deleted");
        ensure!(known.deleted != Some(true), "the accepted deletion of volume {id} is lost");
        known.deleted = Some(false);
        let asked = opened(record)?;
        if let Some(before) = known.asked {
            ensure!(before == asked, "an accepted update of volume {id} is lost: {before:?}, {asked:?}");
        }
        known.asked = Some(asked);
        known.size_gib_max = asked.size_gib;
        // What waits for something that is paused has not let go yet of what it was asked to.
        if record.conditions.is_available() {
            known.used.clear();
        }
        known.used.extend(asked.server);
    }
    volumes.known.retain(|id, _| stored.contains_key(id));
    Ok(())
}

fn phase(life: &Life, key: Key) -> Option<Phase> {
    life.supervision.environment().graph.node(key).map(|node| node.snapshot().phase.clone())
}

/// The cloud of a region has exactly the volumes that are stored, as large as asked for, and each with its claimant.
pub fn cloud_is_as_stored(
    life: &Life,
    inventory: &Inventory,
    stored: &Records,
    here: impl Fn(&Arc<Record>) -> bool,
    excused: impl Fn(&Arc<Record>) -> bool,
) -> Result<(), String> {
    let volumes = machines::marked(&inventory.volumes)?;
    for (id, found) in &volumes {
        ensure!(found.len() == 1, "the cloud has {} of volume {id}", found.len());
        ensure!(stored.get(id).is_some_and(&here), "the cloud leaked volume {id}");
    }
    let settled = stored.iter().filter(|(_, record)| here(record) && !excused(record));
    for (id, record) in settled.filter(|(_, record)| !record.metadata.is_deleting()) {
        let asked = opened(record)?;
        let is_parked = phase(life, record.key) == Some(Phase::Parked);
        let Some(volume) = volumes.get(id).map(|found| found[0]) else {
            // Only what was lost, or could not be made, is missing.
            ensure!(is_parked, "the cloud lacks volume {id}");
            continue;
        };
        let holder = volume.attachment().and_then(|at| inventory.servers.iter().find(|other| other.id == at.server));
        let holder = holder.and_then(|server| server.marks).map(|marks| marks.id);
        ensure!(volume.attachment().is_some() == holder.is_some(), "volume {id} is with a server of nobody");
        // It waits for a server that was given up on, or that waits itself.
        let waits = |server: Uuid| phase(life, ServerId(server).key()) != Some(Phase::Settled);
        let may_wait = holder.is_none() && (is_parked || asked.server.is_some_and(waits));
        ensure!(holder == asked.server || may_wait, "volume {id} is with {holder:?}, not with {:?}", asked.server);
        let size_gib = volume.volume().map_or(0, |body| body.size_gib);
        ensure!(is_parked || size_gib == asked.size_gib, "volume {id} has {size_gib}, not {} GiB", asked.size_gib);
    }
    Ok(())
}

/// Each is charged for what it is, refers to exactly what it uses, and was never doubled.
pub async fn books_are_even(world: &World, life: &Life, stored: &Records) -> Result<(), String> {
    let allocations = life.store.allocations().await.map_err(|error| error.to_string())?;
    let own = allocations.into_iter().filter(|allocation| allocation.holder.kind == Kind::Volume);
    let charged = own.map(|charge| {
        let amount = charge.amounts.get(&QuotaKind::Volume).map_or(0, |amount| amount.total());
        (charge.holder.id, amount)
    });
    let mut expected = BTreeMap::new();
    for (id, record) in stored {
        expected.insert(*id, u64::from(opened(record)?.size_gib));
    }
    ensure!(charged.collect::<BTreeMap<_, _>>() == expected, "charges and volumes differ: {expected:?}");
    for tenant in &world.tenants {
        let mine = stored.values().filter(|record| record.metadata.placement.organization == Some(tenant.organization));
        let expected = mine.map(|record| expected[&record.key.id]).sum::<u64>();
        let usage = life.store.usage(tenant.organization).await.map_err(|error| error.to_string())?;
        let used = usage.iter().find(|usage| usage.kind == QuotaKind::Volume).map_or(0, |usage| usage.used.total());
        ensure!(used == expected, "usage {used} for {expected} GiB of volumes");
    }
    for record in stored.values().filter(|record| !record.metadata.is_deleting()) {
        let network = record.metadata.placement.network.map(NetworkId::key);
        let server = opened(record)?.server.map(|server| ServerId(server).key());
        let wanted = network.into_iter().chain(server).collect::<BTreeSet<_>>();
        let held = life.store.referred_by(&Holder::Resource(record.key)).await.map_err(|error| error.to_string())?;
        let held = held.into_iter().collect::<BTreeSet<_>>();
        let settled = phase(life, record.key) == Some(Phase::Settled);
        let even = if settled { held == wanted } else { held.is_superset(&wanted) };
        ensure!(even, "{} refers to {held:?} and not to {wanted:?}", record.key);
    }
    for region in world.regions() {
        let books =
            life.clouds.handle(region).expect("simulated").creations().await.map_err(|error| error.to_string())?;
        for creation in books.creations.into_iter().filter(|creation| creation.kind == ObjectKind::Volume) {
            ensure!(creation.count.at_once_max <= 1, "there were doubles: {creation:?}");
        }
    }
    Ok(())
}

/// Whatever the cloud has is paid for, and holds on to what it uses.
pub async fn always(world: &World, store: &dyn Store) -> Result<(), String> {
    let charged = store.allocations().await.map_err(|error| error.to_string())?;
    let charged = charged.into_iter().map(|allocation| allocation.holder).collect::<BTreeSet<Key>>();
    for kept in world.clouds.values() {
        let inventory = {
            let mut kept = kept.lock().unwrap();
            kept.cloud.inventory(regent::model::ambient::Clock::now(&*world.clock))
        };
        for object in inventory.volumes {
            let Some(key) = object.marks.map(|marks| VolumeId(marks.id).key()) else { continue };
            ensure!(charged.contains(&key), "the cloud has {key} but nobody is charged for it");
            let held = store.referred_by(&Holder::Resource(key)).await.map_err(|error| error.to_string())?;
            ensure!(!held.is_empty(), "the cloud has {key} but it refers to nothing");
            let Some(attachment) = object.attachment() else { continue };
            let server = inventory.servers.iter().find(|server| server.id == attachment.server);
            let server = server.and_then(|server| server.marks).map(|marks| ServerId(marks.id).key());
            ensure!(
                server.is_some_and(|server| held.contains(&server)),
                "{key} is with {server:?} but does not hold it"
            );
        }
    }
    Ok(())
}
