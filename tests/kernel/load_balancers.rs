//! A load balancer's life: made, changed one change at a time, healed, and gone by itself, with its network or its project.

use axum::http::StatusCode;
use regent::model::ids::{LoadBalancerId, RegionId};
use regent::model::load_balancer::Member;
use regent::model::load_balancer_topology::{BalancerChange, Topology};
use regent::model::quota::Amount;
use regent::providers::simulated::call::CloudError;
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::providers::simulated::engine::faults::{Effect, Fault};
use serde_json::{Value, json};
use uuid::Uuid;

use super::machines::inventory;
use super::{create, eventually, get, world};
use crate::support::world::{Life, World};

fn listener(name: &str, port: u16) -> Value {
    let members = json!([{"address": "192.168.0.200", "port": port}]);
    json!({"name": name, "protocol": "tcp", "port": port, "pool": {"members": members, "healthCheck": {}}})
}

fn spec(listeners: &[Value], public: bool) -> Value {
    json!({"listeners": listeners, "publicIP": public})
}

async fn read(life: &Life, balancer: LoadBalancerId) -> (StatusCode, Value) {
    life.request("GET", &format!("/api/v2/loadbalancers/{balancer}"), None).await
}

async fn status(life: &Life, balancer: LoadBalancerId) -> String {
    read(life, balancer).await.1["metadata"]["provisioningStatus"].as_str().unwrap_or("gone").to_owned()
}

pub async fn ready(life: &Life, balancer: LoadBalancerId) -> Value {
    eventually("provisioned", async || status(life, balancer).await == "provisioned").await;
    read(life, balancer).await.1
}

/// A public balancer with one listener.
pub async fn create_balancer(life: &Life, network: Uuid) -> LoadBalancerId {
    let mut spec = spec(&[listener("web", 80)], true);
    spec["networkId"] = json!(network);
    let body = json!({"metadata": {"name": "edge"}, "spec": spec});
    let (status, answer) = life.request("POST", "/api/v2/loadbalancers", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(answer["metadata"]["provisioningStatus"], "pending");
    assert!(answer["status"].get("vipAddress").is_none() && answer["status"].get("publicIP").is_none(), "{answer}");
    LoadBalancerId(answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID"))
}

/// Another listener, and no public address.
pub async fn change_balancer(life: &Life, balancer: LoadBalancerId) {
    put(life, balancer, spec(&[listener("web", 80), listener("tls", 443)], false)).await;
}

async fn put(life: &Life, balancer: LoadBalancerId, spec: Value) {
    let body = json!({"metadata": {"name": "edge"}, "spec": spec});
    let (status, answer) = life.request("PUT", &format!("/api/v2/loadbalancers/{balancer}"), Some(body)).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
}

async fn topology(life: &Life, region: RegionId) -> Topology {
    let balancers = inventory(life, region).await.load_balancers;
    balancers[0].topology().expect("a balancer").clone()
}

/// A network with a public balancer that is ready.
struct Edge {
    region: RegionId,
    network: Uuid,
    balancer: LoadBalancerId,
}

async fn balanced(world: &World, life: &Life) -> Edge {
    let region = world.regions()[0];
    let network = create(world, life, "net", region).await;
    let balancer = create_balancer(life, network).await;
    ready(life, balancer).await;
    Edge { region, network, balancer }
}

#[tokio::test(start_paused = true)]
async fn a_balancer_is_made_changed_and_unmade() {
    let (world, life) = world().await;
    let Edge { region, network, balancer } = balanced(&world, &life).await;
    let (_, shown) = read(&life, balancer).await;
    let vip = shown["status"]["vipAddress"].as_str().expect("a virtual address").to_owned();
    assert!(shown["status"]["publicIP"].is_string(), "{shown}");
    assert_eq!(shown["metadata"]["healthStatus"], "healthy");

    put(&life, balancer, spec(&[listener("tls", 443), listener("web", 80), listener("extra", 9000)], true)).await;
    assert_eq!(read(&life, balancer).await.1["spec"]["listeners"][0]["name"], "tls", "read at once");
    let shown = ready(&life, balancer).await;
    assert_eq!(topology(&life, region).await.listeners.len(), 3);
    assert_eq!(shown["status"]["vipAddress"], vip);

    put(&life, balancer, spec(&[listener("web", 80)], false)).await;
    let shown = ready(&life, balancer).await;
    assert_eq!(shown["status"]["vipAddress"], vip, "the virtual address stays");
    assert!(shown["status"].get("publicIP").is_none(), "the public one is cleared: {shown}");
    let held = inventory(&life, region).await;
    assert!(held.floating_ips.is_empty(), "{held:?}");
    let left = topology(&life, region).await;
    assert_eq!((left.listeners.len(), left.pools.len()), (1, 1), "no orphans");

    let path = format!("/api/v2/loadbalancers/{balancer}");
    for _ in 0..2 {
        assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED);
    }
    assert_eq!(status(&life, balancer).await, "deprovisioning");
    eventually("gone", async || read(&life, balancer).await.0 == StatusCode::NOT_FOUND).await;
    let held = inventory(&life, region).await;
    assert!(held.load_balancers.is_empty() && held.ports.is_empty(), "{held:?}");
    let allocations = life.store.allocations().await.expect("reads");
    assert!(allocations.iter().all(|allocation| allocation.holder.id == network), "{allocations:?}");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_network_takes_its_balancers_along() {
    let (world, life) = world().await;
    let Edge { region, network, balancer } = balanced(&world, &life).await;
    // In the middle of a change, which the cloud has to finish first.
    put(&life, balancer, spec(&[listener("web", 80), listener("tls", 443)], true)).await;
    assert_eq!(life.request("DELETE", &format!("/api/v2/networks/{network}"), None).await.0, StatusCode::ACCEPTED);
    eventually("gone", async || get(&life, network).await.0 == StatusCode::NOT_FOUND).await;
    assert_eq!(read(&life, balancer).await.0, StatusCode::NOT_FOUND, "what is owned goes first");
    eventually("nothing is left", async || inventory(&life, region).await.is_empty()).await;
    assert!(life.store.allocations().await.expect("reads").is_empty());
}

#[tokio::test(start_paused = true)]
async fn deleting_a_project_takes_its_balancers_along() {
    let (world, life) = world().await;
    let Edge { region, balancer, .. } = balanced(&world, &life).await;
    let tenant = world.tenants[0];
    let path = format!("/api/v1/organizations/{}/projects/{}", tenant.organization, tenant.project);
    assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED);
    eventually("the project is gone", async || life.store.get(tenant.project.key()).await.expect("reads").is_none())
        .await;
    assert_eq!(read(&life, balancer).await.0, StatusCode::NOT_FOUND);
    assert!(inventory(&life, region).await.is_empty());
    let usage = life.store.usage(tenant.organization).await.expect("reads");
    assert!(usage.iter().all(|usage| usage.used == Amount::default()), "{usage:?}");
}

#[tokio::test(start_paused = true)]
async fn what_somebody_changes_behind_our_back_is_put_right() {
    let (world, life) = world().await;
    let Edge { region, balancer, .. } = balanced(&world, &life).await;
    let handle = life.clouds.handle(region).expect("simulated");
    let (_, before) = read(&life, balancer).await;
    let wanted = topology(&life, region).await;
    let held = inventory(&life, region).await;
    let (object, floating_ip) = (held.load_balancers[0].id.clone(), held.floating_ips[0].id.clone());
    let name = wanted.listeners.keys().next().expect("one").clone();
    let members = std::collections::BTreeSet::from([Member { address: [6, 6, 6, 6].into(), port: 6 }]);
    let configure = |configured| BackdoorChange::Configure { balancer: object.clone(), configured };
    for drift in [
        configure(BalancerChange::ReplaceMembers { name: name.clone(), members }),
        configure(BalancerChange::RemoveListener { name }),
        BackdoorChange::Delete { id: floating_ip },
        BackdoorChange::Delete { id: object.clone() },
    ] {
        handle.change_directly(drift.clone()).await.expect("changes");
        eventually(&format!("healed {drift:?}"), async || {
            let held = inventory(&life, region).await;
            let is_right = |balancer: &regent::providers::simulated::objects::CloudObject| {
                balancer.topology() == Some(&wanted) && balancer.pending.is_none()
            };
            held.load_balancers.first().is_some_and(is_right) && held.floating_ips.len() == 1
        })
        .await;
        let shown = ready(&life, balancer).await;
        assert_eq!(shown["status"]["vipAddress"], before["status"]["vipAddress"], "{drift:?}");
        eventually("shown", async || {
            let address = read(&life, balancer).await.1["status"]["publicIP"].as_str().map(str::to_owned);
            let held = inventory(&life, region).await.floating_ips;
            let given = held.first().and_then(regent::providers::simulated::objects::CloudObject::floating_address);
            address == given.map(|address| address.to_string())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_with_the_listeners_does_not_hold_up_the_public_address_and_is_no_error() {
    let (world, life) = world().await;
    let Edge { region, balancer, .. } = balanced(&world, &life).await;
    let handle = life.clouds.handle(region).expect("simulated");
    let down = Effect::Error { error: CloudError::Unavailable };
    handle.add_faults(vec![Fault { times: Some(3), ..Fault::always("add-pool", down) }]).await.expect("takes faults");
    change_balancer(&life, balancer).await;
    let mut statuses = std::collections::BTreeSet::new();
    let mut freed_early = false;
    eventually("provisioned", async || {
        let (_, shown) = read(&life, balancer).await;
        let said = shown["metadata"]["provisioningStatus"].as_str().expect("a word").to_owned();
        freed_early |= said == "provisioning" && shown["status"].get("publicIP").is_none();
        statuses.insert(said.clone());
        said == "provisioned" && topology(&life, region).await.listeners.len() == 2
    })
    .await;
    assert!(freed_early, "{statuses:?}");
    assert!(!statuses.contains("error"), "{statuses:?}");
}
