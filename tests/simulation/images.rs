//! Images in a history: what is done to them, and what must then be true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use regent::graph::snapshot::Phase;
use regent::model::edge::Holder;
use regent::model::ids::{ImageId, RegionId};
use regent::model::record::Record;
use regent::providers::simulated::engine::books::Inventory;
use regent::providers::simulated::objects::ObjectKind;
use serde_json::json;
use uuid::Uuid;

use super::history::{Ledger, either, id_of, pick};
use super::invariants::ensure;
use super::machines::{any_server, delete, marked, region_of};
use crate::support::world::{Life, World};

/// What the harness knows of an image that it asked for.
#[derive(Clone, Debug)]
pub struct KnownImage {
    pub tenant: usize,
    pub region: RegionId,
    /// The server that it was to be made from, as long as it may still hold it.
    source: Option<Uuid>,
    /// `Some(true)`: deletion was accepted; `None`: in doubt.
    pub deleted: Option<bool>,
}

/// The harness' side of it.
#[derive(Default)]
pub struct Images {
    pub known: BTreeMap<Uuid, KnownImage>,
    /// Those whose creation died on the way, by name.
    doubtful: BTreeMap<String, KnownImage>,
    named: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageDeed {
    Import,
    Snapshot,
    Delete,
}

impl Images {
    /// May an image still hold on to this server?
    pub fn may_hold(&self, server: Uuid) -> bool {
        self.known.values().chain(self.doubtful.values()).any(|known| known.source == Some(server))
    }

    /// Images that servers of a tenant may ask for in a region, ready or not.
    pub fn of(&self, tenant: usize, region: RegionId) -> Vec<Uuid> {
        let live = self.known.iter().filter(|(_, known)| known.deleted == Some(false));
        live.filter(|(_, known)| (known.tenant, known.region) == (tenant, region)).map(|(id, _)| *id).collect()
    }
}

pub async fn perform(deed: ImageDeed, world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    match deed {
        ImageDeed::Import => import(world, life, ledger, random).await,
        ImageDeed::Snapshot => snapshot(life, ledger, random).await,
        ImageDeed::Delete => {
            let there = ledger.images.known.iter().filter(|(_, known)| known.deleted == Some(false));
            if let Some(id) = pick(&there.map(|(id, _)| *id).collect::<Vec<_>>(), random) {
                delete_image(world, life, ledger, id).await;
            }
        }
    }
}

fn doubt(ledger: &mut Ledger, known: KnownImage) -> String {
    ledger.images.named += 1;
    let name = format!("image-{}", ledger.images.named);
    ledger.images.doubtful.insert(name.clone(), known);
    name
}

fn path(world: &World, known: &KnownImage) -> String {
    format!("/api/v1/organizations/{}/regions/{}/images", world.tenants[known.tenant].organization, known.region)
}

async fn import(world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let (tenant, regions) = (random.usize(0..world.tenants.len()), world.regions());
    let region = regions[random.usize(0..regions.len())];
    let known = KnownImage { tenant, region, source: None, deleted: Some(false) };
    let name = doubt(ledger, known.clone());
    let body = json!({
        "metadata": {"name": name},
        "spec": {
            "uri": "https://images.example.org/disk.raw", "architecture": "x86_64", "virtualization": "any",
            "os": {"kernel": "linux", "family": "debian", "distro": "debian", "version": "13"},
        },
    });
    let (status, answer) = life.request("POST", &path(world, &known), Some(body)).await;
    ledger.images.doubtful.remove(&name);
    assert_eq!(status, StatusCode::OK, "{answer}");
    ledger.images.known.insert(id_of(&answer), known);
}

/// A server and its network, and where its disk is asked for: of itself, or of the instance that it works for.
fn any_source(ledger: &Ledger, random: &mut fastrand::Rng) -> Option<(Uuid, Uuid, String)> {
    if random.bool() {
        let (id, server, network) = ledger.instances.any_source(random)?;
        return Some((server, network, format!("/api/v2/instances/{id}/snapshot")));
    }
    let server = any_server(ledger, random)?;
    Some((server, ledger.machines.servers[&server].network, format!("/api/v2/servers/{server}/snapshot")))
}

async fn snapshot(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some((server, network, path)) = any_source(ledger, random) else { return };
    let Some(region) = region_of(life, network).await else { return };
    let tenant = ledger.networks[&network].tenant;
    let known = KnownImage { tenant, region, source: Some(server), deleted: Some(false) };
    let name = doubt(ledger, known.clone());
    let body = json!({"metadata": {"name": name}, "spec": {}});
    let (status, answer) = life.request("POST", &path, Some(body)).await;
    ledger.images.doubtful.remove(&name);
    match status {
        StatusCode::CREATED => drop(ledger.images.known.insert(id_of(&answer), known)),
        // It has not started yet, or what the cloud offers could not be read: nothing was accepted.
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST | StatusCode::SERVICE_UNAVAILABLE => {}
        other => panic!("a snapshot was answered {other}: {answer}"),
    }
}

pub async fn delete_image(world: &World, life: &Life, ledger: &mut Ledger, id: Uuid) {
    let (refused, may_be) = either(ledger.machines.keep_image(id), ledger.machines_keep(id));
    let known = ledger.images.known.get_mut(&id).expect("known");
    known.deleted = if refused { Some(false) } else { None };
    let path = format!("{}/{id}", path(world, known));
    let gone = delete(life, &path, refused, may_be).await;
    ledger.images.known.get_mut(&id).expect("known").deleted = Some(gone);
}

/// What is stored is what was accepted; what was in doubt is settled by what is stored.
pub fn accepted_is_durable(stored: &BTreeMap<Uuid, Arc<Record>>, ledger: &mut Ledger) -> Result<(), String> {
    let images = &mut ledger.images;
    for (id, record) in stored {
        if !images.known.contains_key(id) {
            let known = images.doubtful.remove(&record.metadata.name);
            let known = known.ok_or_else(|| format!("image {id} is stored but nobody asked for it"))?;
            images.known.insert(*id, KnownImage { deleted: None, ..known });
        }
    }
    images.doubtful.clear();
    for (id, known) in &mut images.known {
        match (known.deleted, stored.get(id)) {
            (Some(false), None) => return Err(format!("image {id} was accepted and is lost")),
            (Some(true), Some(_)) => return Err(format!("image {id} is at rest, but its deletion was accepted")),
            (None, Some(record)) => known.deleted = Some(record.metadata.is_deleting()),
            _ => {}
        }
        // Whatever came of it, at rest it holds nobody any more.
        known.source = None;
    }
    images.known.retain(|id, _| stored.contains_key(id));
    Ok(())
}

/// The cloud of a region has exactly the images that are stored.
pub fn cloud_is_as_stored(
    life: &Life,
    inventory: &Inventory,
    stored: &BTreeMap<Uuid, Arc<Record>>,
    here: impl Fn(&Arc<Record>) -> bool,
) -> Result<(), String> {
    let graph = &life.supervision.environment().graph;
    let objects = marked(&inventory.images)?;
    for (id, found) in &objects {
        ensure!(found.len() == 1, "the cloud has {} of image {id}", found.len());
        let record = stored.get(id).filter(|record| here(record));
        let record = record.ok_or_else(|| format!("the cloud leaked image {id}"))?;
        let owner = found[0].image().and_then(|image| image.owner);
        ensure!(owner == record.metadata.placement.organization, "image {id} is not its organization's alone");
    }
    for (id, record) in stored.iter().filter(|(_, record)| here(record)) {
        let parked = graph.node(record.key).is_some_and(|node| node.snapshot().phase == Phase::Parked);
        ensure!(parked || objects.contains_key(id), "the cloud lacks image {id}");
    }
    Ok(())
}

/// At rest an image holds nobody; every place for images is taken by one that is there; and none was ever doubled.
pub async fn books_are_even(world: &World, life: &Life, stored: &BTreeMap<Uuid, Arc<Record>>) -> Result<(), String> {
    for record in stored.values() {
        let held = life.store.referred_by(&Holder::Resource(record.key)).await.map_err(|error| error.to_string())?;
        ensure!(held.is_empty(), "{} is at rest and still refers to {held:?}", record.key);
    }
    let claims = life.store.claims().await.map_err(|error| error.to_string())?;
    let claims = claims.into_iter().filter(|claim| claim.pool.starts_with("image/"));
    let holders = claims.map(|claim| claim.holder.id).collect::<BTreeSet<_>>();
    ensure!(holders == stored.keys().copied().collect(), "places and images differ: {holders:?}");
    for region in world.regions() {
        let books =
            life.clouds.handle(region).expect("simulated").creations().await.map_err(|error| error.to_string())?;
        for creation in books.creations.into_iter().filter(|creation| creation.kind == ObjectKind::Image) {
            ensure!(creation.count.at_once_max <= 1, "there were doubles: {creation:?}");
        }
    }
    Ok(())
}

/// Whatever image the cloud has is on record.
pub async fn always(world: &World, store: &dyn regent::store::Store) -> Result<(), String> {
    for kept in world.clouds.values() {
        let images = {
            let mut kept = kept.lock().unwrap();
            kept.cloud.inventory(regent::model::ambient::Clock::now(&*world.clock)).images
        };
        for marks in images.into_iter().filter_map(|object| object.marks) {
            let record = store.get(ImageId(marks.id).key()).await.map_err(|error| error.to_string())?;
            ensure!(record.is_some(), "the cloud has image {} but it is not on record", marks.id);
        }
    }
    Ok(())
}
