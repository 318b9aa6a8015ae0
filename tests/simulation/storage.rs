//! File storage in a history: what is done to it, and what must then be true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use regent::graph::snapshot::Phase;
use regent::model::edge::Holder;
use regent::model::file_storage::{FileStorage, FileStorageSpec, GIB};
use regent::model::ids::{FileStorageId, Key, Kind, NetworkId, RegionId};
use regent::model::quota::QuotaKind;
use regent::model::record::Record;
use regent::providers::simulated::catalogue::FILES_STANDARD;
use regent::providers::simulated::engine::books::Inventory;
use regent::providers::simulated::objects::ObjectKind;
use regent::store::Store;
use serde_json::{Value, json};
use uuid::Uuid;

use super::history::{Ledger, id_of, network, pick};
use super::invariants::{ensure, usage};
use crate::support::world::{Life, World};

/// What a file storage was last asked to be.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    networks: Vec<Uuid>,
    size_gib: u64,
    protected: bool,
}

#[derive(Clone, Debug)]
pub struct KnownStorage {
    tenant: usize,
    region: RegionId,
    /// `None`: an update is in doubt.
    asked: Option<Asked>,
    /// Every network that it was ever asked to be attached to: it gives them back late.
    used: BTreeSet<Uuid>,
    /// `None`: a request died and its outcome is unknown.
    deleted: Option<bool>,
}

/// The harness' side of it.
#[derive(Default)]
pub struct Storages {
    pub known: BTreeMap<Uuid, KnownStorage>,
    /// Creations that died on the way, by name.
    doubtful: BTreeMap<String, KnownStorage>,
    named: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageDeed {
    Create,
    Update,
    Delete,
}

pub async fn perform(deed: StorageDeed, world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    match deed {
        StorageDeed::Create => create(world, life, ledger, random).await,
        StorageDeed::Update => update(life, ledger, random).await,
        StorageDeed::Delete => {
            if let Some(id) = any_live(ledger, random) {
                delete(life, ledger, id).await;
            }
        }
    }
}

fn any_live(ledger: &Ledger, random: &mut fastrand::Rng) -> Option<Uuid> {
    let live = ledger.storage.known.iter().filter(|(_, known)| known.deleted == Some(false)).map(|(id, _)| *id);
    pick(&live.collect::<Vec<_>>(), random)
}

/// Some of the networks that can be attached to now, as far as can be seen.
async fn asked(
    life: &Life,
    ledger: &Ledger,
    (tenant, region): (usize, RegionId),
    size_gib: u64,
    random: &mut fastrand::Rng,
) -> Asked {
    let mut networks = Vec::new();
    for (id, known) in &ledger.networks {
        let record = life.store.get(network(*id)).await.expect("reads");
        let is_good = record
            .is_some_and(|record| record.metadata.placement.region == Some(region) && record.conditions.is_available());
        if is_good && known.tenant == tenant && known.deleted == Some(false) && random.bool() {
            networks.push(*id);
        }
    }
    Asked { networks, size_gib, protected: random.bool() }
}

fn spec(asked: &Asked) -> Value {
    json!({
        "sizeGiB": asked.size_gib,
        "storageType": {},
        "attachments": {"networkIds": asked.networks},
        "defaultSnapshotProtectionEnabled": asked.protected,
    })
}

/// A request that was understood and refused: the quota is used up, a network is no longer ready, or what the cloud
/// offers cannot be read. Nothing was accepted.
fn is_refused(status: StatusCode, answer: &Value) -> bool {
    let text = answer["error_description"].as_str().unwrap_or_default();
    match status {
        StatusCode::FORBIDDEN => {
            assert!(text.contains("exceed quota"), "refused for another reason than quota: {answer}");
            true
        }
        StatusCode::UNPROCESSABLE_ENTITY => {
            assert!(text.contains("networkIds"), "refused for another reason than its networks: {answer}");
            true
        }
        StatusCode::SERVICE_UNAVAILABLE => true,
        _ => false,
    }
}

async fn create(world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(tenant) = ledger.any_tenant(world, random) else { return };
    let region = world.regions()[random.usize(0..world.regions().len())];
    // Large enough that the quota of a tebibyte is felt.
    let ask = asked(life, ledger, (tenant, region), random.u64(50..400), random).await;
    ledger.storage.named += 1;
    let name = format!("storage-{}", ledger.storage.named);
    let used = ask.networks.iter().copied().collect();
    let known = KnownStorage { tenant, region, asked: Some(ask.clone()), used, deleted: None };
    ledger.storage.doubtful.insert(name.clone(), known.clone());
    let mut spec = spec(&ask);
    spec["organizationId"] = json!(world.tenants[tenant].organization);
    spec["projectId"] = json!(world.tenants[tenant].project);
    spec["regionId"] = json!(region);
    spec["storageClassId"] = json!(FILES_STANDARD);
    let body = json!({"metadata": {"name": name}, "spec": spec});
    let (status, answer) = life.request("POST", "/api/v2/filestorage", Some(body)).await;
    ledger.storage.doubtful.remove(&name);
    if is_refused(status, &answer) {
        return;
    }
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    ledger.storage.known.insert(id_of(&answer), KnownStorage { deleted: Some(false), ..known });
}

async fn update(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(id) = any_live(ledger, random) else { return };
    let before = ledger.storage.known[&id].clone();
    let Some(last) = before.asked.clone() else { return };
    let size_gib = last.size_gib + if random.u8(0..3) == 0 { random.u64(1..100) } else { 0 };
    let mut ask = asked(life, ledger, (before.tenant, before.region), size_gib, random).await;
    // What is attached may stay so, whatever becomes of its network.
    ask.networks.retain(|network| !last.networks.contains(network));
    ask.networks.extend(last.networks.iter().filter(|_| random.bool()));
    let known = ledger.storage.known.get_mut(&id).expect("picked from it");
    known.asked = None;
    known.used.extend(&ask.networks);
    let body = json!({"metadata": {"name": "changed"}, "spec": spec(&ask)});
    let (status, answer) = life.request("PUT", &format!("/api/v2/filestorage/{id}"), Some(body)).await;
    let known = ledger.storage.known.get_mut(&id).expect("still there");
    if is_refused(status, &answer) {
        known.asked = before.asked;
        return;
    }
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(answer["spec"]["attachments"]["networkIds"], json!(ask.networks), "an update is read back at once");
    let shown = answer["status"]["attachments"].as_array().map_or(0, Vec::len);
    assert_eq!(shown, ask.networks.len(), "the attachments follow at once: {answer}");
    known.asked = Some(ask);
}

pub async fn delete(life: &Life, ledger: &mut Ledger, id: Uuid) {
    ledger.storage.known.get_mut(&id).expect("known").deleted = None;
    let (status, answer) = life.request("DELETE", &format!("/api/v2/filestorage/{id}"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    ledger.storage.known.get_mut(&id).expect("known").deleted = Some(true);
}

impl Storages {
    /// Would a deletion of this network be refused, and may it be?
    pub fn keep(&self, network: Uuid) -> (bool, bool) {
        let stays = |known: &KnownStorage| {
            let asked = known.asked.as_ref().is_some_and(|asked| asked.networks.contains(&network));
            known.deleted == Some(false) && asked
        };
        let mut all = self.known.values().chain(self.doubtful.values());
        (self.known.values().any(stays), all.any(|known| known.used.contains(&network)))
    }

    /// A tenant goes, or may go, with everything.
    pub fn tenant_deleted(&mut self, tenant: usize, deleted: Option<bool>) {
        for known in self.known.values_mut().filter(|known| known.tenant == tenant) {
            if known.deleted != Some(true) {
                known.deleted = deleted;
            }
        }
    }
}

fn opened(record: &Record) -> Result<FileStorageSpec, String> {
    record.open::<FileStorage>().map(|storage| storage.spec).map_err(|error| error.to_string())
}

fn networks_of(spec: &FileStorageSpec) -> Vec<Uuid> {
    spec.attachments().iter().map(|attachment| attachment.network.0).collect()
}

/// What is stored is what was accepted; what was in doubt is settled by what is stored.
pub fn accepted_is_durable(stored: &BTreeMap<Uuid, Arc<Record>>, ledger: &mut Ledger) -> Result<(), String> {
    let storage = &mut ledger.storage;
    for (id, record) in stored {
        if !storage.known.contains_key(id) {
            let known = storage.doubtful.remove(&record.metadata.name);
            storage.known.insert(*id, known.ok_or_else(|| format!("storage {id} is stored but nobody asked for it"))?);
        }
    }
    storage.doubtful.clear();
    for (id, known) in &mut storage.known {
        match (known.deleted, stored.get(id)) {
            (Some(false), None) => return Err(format!("storage {id} was accepted and is lost")),
            (Some(true), Some(_)) => return Err(format!("storage {id} is at rest, but its deletion was accepted")),
            (_, None) => {}
            (deleted, Some(record)) => {
                known.deleted = deleted.or(Some(record.metadata.is_deleting()));
                let spec = opened(record)?;
                let (networks, protected) = (networks_of(&spec), spec.default_snapshot_protection);
                known.used = networks.iter().copied().collect();
                let asked = Asked { networks, size_gib: spec.size_gib, protected };
                let before = known.asked.replace(asked.clone());
                ensure!(
                    before.as_ref().is_none_or(|before| *before == asked),
                    "an accepted update of storage {id} is lost: {before:?}, {asked:?}"
                );
            }
        }
    }
    storage.known.retain(|id, _| stored.contains_key(id));
    Ok(())
}

fn is_settled(life: &Life, key: Key) -> bool {
    life.supervision.environment().graph.node(key).is_some_and(|node| node.snapshot().phase == Phase::Settled)
}

/// The cloud of each region has exactly the shares that are stored, each attached to exactly its networks.
pub async fn cloud_is_as_stored(
    world: &World,
    life: &Life,
    stored: &BTreeMap<Uuid, Arc<Record>>,
) -> Result<(), String> {
    for region in world.regions() {
        let inventory =
            life.clouds.handle(region).expect("simulated").inventory().await.map_err(|error| error.to_string())?;
        shares_are_as_stored(life, region, &inventory, stored)?;
    }
    Ok(())
}

fn shares_are_as_stored(
    life: &Life,
    region: RegionId,
    inventory: &Inventory,
    stored: &BTreeMap<Uuid, Arc<Record>>,
) -> Result<(), String> {
    let here = |record: &Arc<Record>| record.metadata.placement.region == Some(region);
    let mut attached = BTreeMap::<Uuid, BTreeSet<Uuid>>::new();
    for object in &inventory.share_attachments {
        let id = object.marks.ok_or("an unmarked attachment")?.id;
        let label = object.share_attachment().ok_or("not an attachment")?.label.0;
        ensure!(stored.get(&id).is_some_and(here), "the cloud leaked an attachment of storage {id}");
        ensure!(attached.entry(id).or_default().insert(label), "storage {id} is attached twice to {label}");
    }
    let mut seen = BTreeSet::new();
    for object in &inventory.shares {
        let id = object.marks.ok_or("an unmarked share")?.id;
        ensure!(stored.get(&id).is_some_and(here), "the cloud leaked share {id} in {region}");
        ensure!(seen.insert(id), "the cloud has more than one of share {id} in {region}");
        let spec = opened(&stored[&id])?;
        let options = &object.share().ok_or("not a share")?.options;
        ensure!(options.size_bytes == spec.size_bytes(), "share {id} is not as large as asked");
        ensure!(options.policies == spec.effective_policies(), "share {id} is not protected as asked");
    }
    for (id, record) in stored.iter().filter(|(_, record)| here(record)) {
        ensure!(seen.contains(id), "the cloud lacks share {id} in {region}");
        let wanted = networks_of(&opened(record)?).into_iter().collect::<BTreeSet<_>>();
        let has = attached.remove(id).unwrap_or_default();
        // What is not settled waits for a network that is paused.
        let even = if is_settled(life, record.key) { has == wanted } else { has.is_subset(&wanted) };
        ensure!(even, "storage {id} is attached to {has:?} and not to {wanted:?}");
    }
    Ok(())
}

/// What is stored is paid for, in bytes, refers to exactly what it is attached to, and was never doubled.
pub async fn books_are_even(world: &World, life: &Life, stored: &BTreeMap<Uuid, Arc<Record>>) -> Result<(), String> {
    let allocations = life.store.allocations().await.map_err(|error| error.to_string())?;
    let charged = allocations.iter().map(|allocation| allocation.holder);
    let charged = charged.filter(|holder| holder.kind == Kind::FileStorage).map(|holder| holder.id);
    ensure!(charged.collect::<BTreeSet<_>>() == stored.keys().copied().collect(), "charges and storages differ");
    for tenant in &world.tenants {
        let mine = stored.values().filter(|one| one.metadata.placement.organization == Some(tenant.organization));
        let sizes = mine.map(|record| opened(record).map(|spec| spec.size_gib * GIB));
        let expected = sizes.sum::<Result<u64, String>>()?;
        let used = usage(life, tenant.organization, QuotaKind::FileStorage).await;
        ensure!(used == expected, "{used} bytes are paid for, and {expected} are stored");
    }
    for record in stored.values() {
        let wanted = networks_of(&opened(record)?).into_iter().map(network).collect::<BTreeSet<_>>();
        let held = life.store.referred_by(&Holder::Resource(record.key)).await.map_err(|error| error.to_string())?;
        let held = held.into_iter().collect::<BTreeSet<_>>();
        let settled = is_settled(life, record.key);
        let even = if settled { held == wanted } else { held.is_superset(&wanted) };
        ensure!(even, "{} refers to {held:?} and not to {wanted:?}", record.key);
    }
    for region in world.regions() {
        let books =
            life.clouds.handle(region).expect("simulated").creations().await.map_err(|error| error.to_string())?;
        for creation in books.creations.into_iter().filter(|creation| creation.kind == ObjectKind::Share) {
            ensure!(creation.count.at_once_max <= 1, "there were doubles: {creation:?}");
        }
    }
    Ok(())
}

/// Holds at every moment: a share is paid for, and what it is attached to is held (B30).
pub async fn always(world: &World, store: &dyn Store) -> Result<(), String> {
    let charged = store.allocations().await.map_err(|error| error.to_string())?;
    let charged = charged.into_iter().map(|allocation| allocation.holder).collect::<BTreeSet<Key>>();
    for kept in world.clouds.values() {
        let inventory = {
            let mut kept = kept.lock().unwrap();
            kept.cloud.inventory(regent::model::ambient::Clock::now(&*world.clock))
        };
        for object in &inventory.shares {
            let Some(marks) = object.marks else { continue };
            let key = FileStorageId(marks.id).key();
            ensure!(charged.contains(&key), "the cloud has share {} but nobody is charged for it", marks.id);
        }
        for object in &inventory.share_attachments {
            let (Some(marks), Some(attachment)) = (object.marks, object.share_attachment()) else { continue };
            let holder = Holder::Resource(FileStorageId(marks.id).key());
            let held = store.referred_by(&holder).await.map_err(|error| error.to_string())?;
            let NetworkId(id) = attachment.label;
            ensure!(held.contains(&network(id)), "share {} is attached to {id} without holding it", marks.id);
        }
    }
    Ok(())
}
