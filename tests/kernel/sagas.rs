//! A store without transactions: every batch that a client or an actor commits is cut at each of its steps, and what is
//! left must agree. Nobody is charged for what is not there, nothing is there that nobody is charged for, and nobody
//! refers to or on behalf of something that does not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use regent::model::edge::Holder;
use regent::model::ids::{Key, Kind};
use regent::model::record::Record;
use regent::store::memory::Mode;
use regent::store::{Filter, Pages, Store};

use super::machines::{create_group, create_server, get_server, rebuild, running};
use super::volumes::{create_volume, ready, update};
use super::{create, eventually, get, load_balancers, provisioned};
use crate::support::crash::Arm;
use crate::support::world::{Life, World};
use regent::providers::simulated::catalogue::IMAGE_GPU;

/// Points inside a batch, as the store names them.
const INSIDE_A_BATCH: &str = "store:saga:";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

/// Something of every kind is made, changed and taken away again.
async fn everything(world: &World, life: &Life) {
    let region = world.regions()[0];
    let network = create(world, life, "whole", region).await;
    provisioned(life, network).await;
    let group = create_group(life, network, "doors").await;
    let server = create_server(life, network, &[group], "worker").await;
    running(life, server).await;
    rebuild(life, server, IMAGE_GPU).await;
    running(life, server).await;
    let balancer = load_balancers::create_balancer(life, network).await;
    load_balancers::ready(life, balancer).await;
    load_balancers::change_balancer(life, balancer).await;
    load_balancers::ready(life, balancer).await;
    let volume = create_volume(life, network, Some(server)).await;
    ready(life, volume).await;
    update(life, volume, 11, None).await;
    ready(life, volume).await;
    let volume = format!("/api/v2/volumes/{volume}");
    let balancer = format!("/api/v2/loadbalancers/{balancer}");
    for path in [balancer, volume, format!("/api/v2/servers/{server}"), format!("/api/v2/securitygroups/{group}")] {
        assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED, "{path}");
        eventually("gone", async || life.request("GET", &path, None).await.0 == StatusCode::NOT_FOUND).await;
    }
    assert_eq!(get_server(life, server).await.0, StatusCode::NOT_FOUND);
    let path = format!("/api/v2/networks/{network}");
    assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED);
    eventually("gone", async || get(life, network).await.0 == StatusCode::NOT_FOUND).await;
}

async fn all_records(store: &dyn Store) -> BTreeMap<Key, Arc<Record>> {
    let mut all = BTreeMap::new();
    for kind in Kind::ALL {
        let mut pages = Pages::of(store, Filter::of(kind));
        while let Some(records) = pages.next().await.expect("reads") {
            all.extend(records.into_iter().map(|record| (record.key, record)));
        }
    }
    all
}

/// Do ledger, references and records agree?
async fn agree(store: &dyn Store, after: &str) {
    let records = all_records(store).await;
    let mut charged = BTreeSet::new();
    for allocation in store.allocations().await.expect("reads") {
        let record = records.get(&allocation.holder);
        let record = record.unwrap_or_else(|| panic!("{after}: {} is charged and not there", allocation.holder));
        assert_eq!(record.metadata.incarnation, allocation.incarnation, "{after}: {}", allocation.holder);
        charged.insert(allocation.holder);
    }
    for (key, record) in &records {
        assert_eq!(record.metadata.charged, charged.contains(key), "{after}: {key} is there and not charged");
        for holder in store.references(*key).await.expect("reads") {
            if let Holder::Resource(holder) = holder {
                assert!(records.contains_key(&holder), "{after}: {key} is held by {holder}, which is not there");
            }
        }
        let owner = record.metadata.owner;
        assert!(owner.is_none_or(|owner| records.contains_key(&owner)), "{after}: {key} has lost its owner");
    }
    for claim in store.claims().await.expect("reads") {
        assert!(records.contains_key(&claim.holder), "{after}: {} has a number and is not there", claim.holder);
    }
}

/// Every point inside a batch that is passed when nothing goes wrong, and how often.
fn points(deeds: &impl AsyncFn(&World, &Life)) -> Vec<(String, u64)> {
    let mut world = World::new(1, Mode::Saga);
    runtime().block_on(async {
        world.furnish().await;
        let life = world.begin_life().await;
        deeds(&world, &life).await;
        world.clock.life_ends();
    });
    let passed = world.points.table().into_iter().map(|(name, visits)| (name, visits.passed));
    passed.filter(|(name, _)| name.starts_with(INSIDE_A_BATCH)).collect()
}

#[test]
fn b22_a_saga_that_is_cut_at_any_step_is_finished_or_undone_and_everything_agrees() {
    cut_everywhere(&everything, 40);
}

#[test]
fn a_saga_of_the_first_version_is_finished_or_undone_as_well() {
    cut_everywhere(&super::v1::everything, 30);
}

fn cut_everywhere(deeds: &impl AsyncFn(&World, &Life), steps_min: u64) {
    let points = points(deeds);
    let steps = points.iter().map(|(_, passed)| passed).sum::<u64>();
    assert!(steps > steps_min, "{points:?}");
    for (point, passed) in points {
        for visit in 1..=passed {
            cut_at(deeds, &point, visit);
        }
    }
}

/// One life that dies there, and one that finds what it left.
fn cut_at(deeds: &impl AsyncFn(&World, &Life), point: &str, visit: u64) {
    let mut world = World::new(1, Mode::Saga);
    runtime().block_on(async {
        world.furnish().await;
        let life = world.begin_life().await;
        world.points.arm(Arm { name: Some(point.to_owned()), countdown: visit });
        let points = Arc::clone(&world.points);
        tokio::select! {
            biased;
            () = points.death() => {}
            () = deeds(&world, &life) => panic!("{point} was not passed"),
        }
        world.clock.life_ends();
    });
    runtime().block_on(async {
        let life = world.begin_life().await;
        let after = format!("cut at {point}, visit {visit}");
        agree(&*life.store, &after).await;
        assert_eq!(world.disk.unfinished_batches(), 0, "{after}");
        crate::simulation::quiet(&life).await.expect("comes to rest");
        agree(&*life.store, &after).await;
        world.clock.life_ends();
    });
}
