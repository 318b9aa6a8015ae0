//! The kernel as a whole, on virtual time: one life of the process, asked over its router, watched in its cloud.

mod clusters;
mod defects;
mod failures;
mod file_storage;
mod images;
mod instances;
mod load_balancers;
mod machines;
mod monitors;
mod networks;
mod resizes;
mod sagas;
mod servers;
mod v1;
mod v1_clusters;
mod volumes;

use std::time::Duration;

use axum::http::StatusCode;
use regent::model::ids::{Key, NetworkId, RegionId};
use regent::store::memory::Mode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::world::{Life, World};

/// A furnished world in its first life.
async fn world() -> (World, Life) {
    let mut world = World::new(1, Mode::Atomic);
    world.networks_limit = 5000;
    world.furnish().await;
    let life = world.begin_life().await;
    (world, life)
}

/// What a client would send to create a network.
fn request(world: &World, name: &str, region: RegionId) -> Value {
    let tenant = world.tenants[0];
    json!({
        "metadata": {"name": name},
        "spec": {
            "organizationId": tenant.organization,
            "projectId": tenant.project,
            "regionId": region,
            "prefix": "192.168.0.0/24",
            "dnsNameservers": ["1.1.1.1"],
        },
    })
}

async fn create(world: &World, life: &Life, name: &str, region: RegionId) -> Uuid {
    let (status, answer) = life.request("POST", "/api/v2/networks", Some(request(world, name, region))).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID")
}

async fn get(life: &Life, id: Uuid) -> (StatusCode, Value) {
    life.request("GET", &format!("/api/v2/networks/{id}"), None).await
}

async fn provisioning_status(life: &Life, id: Uuid) -> String {
    get(life, id).await.1["metadata"]["provisioningStatus"].as_str().unwrap_or("gone").to_owned()
}

/// Waits, in virtual time, until something holds; panics when it never does.
async fn eventually<F: AsyncFnMut() -> bool>(what: &str, mut holds: F) {
    for _ in 0..6000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

async fn provisioned(life: &Life, id: Uuid) {
    eventually("provisioned", async || provisioning_status(life, id).await == "provisioned").await;
}

fn key(id: Uuid) -> Key {
    NetworkId(id).key()
}

/// The principal behind a network.
async fn identity_of(life: &Life, id: Uuid) -> Key {
    let record = life.store.get(key(id)).await.expect("reads").expect("stored");
    record.metadata.owner.expect("a network is owned by its principal")
}
