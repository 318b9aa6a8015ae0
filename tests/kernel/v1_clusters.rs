//! Clusters of the first version: made with a network and groups of their own, and gone with them.

use axum::http::StatusCode;
use regent::model::edge::Holder;
use regent::model::ids::{Kind, SecurityGroupId};
use regent::model::quota::QuotaKind;
use regent::model::record::Record;
use regent::model::security_group::SecurityGroup;
use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_GPU, IMAGE_UBUNTU};
use regent::providers::simulated::objects::Body;
use regent::store::memory::Mode;
use regent::store::{Filter, Page};
use serde_json::{Value, json};
use std::sync::Arc;

use super::machines::{Estate, create_server, inventory};
use super::servers::cut_everywhere;
use super::{eventually, world};
use crate::support::world::{Life, World};

fn clusters(world: &World) -> String {
    let tenant = world.tenants[0];
    format!("/api/v1/organizations/{}/projects/{}/clusters", tenant.organization, tenant.project)
}

fn firewall(port: u16) -> Value {
    json!([{"direction": "ingress", "protocol": "tcp", "port": port, "prefixes": ["10.0.0.0/8", "192.168.0.0/16"]}])
}

fn web(replicas: u32, port: u16) -> Value {
    json!({
        "name": "web", "replicas": replicas, "flavorId": FLAVOR_STANDARD, "imageId": IMAGE_UBUNTU,
        "publicIpAllocation": {"enabled": true}, "firewall": firewall(port),
        "allowedAddressPairs": [{"cidr": "10.9.0.0/24"}],
    })
}

fn db() -> Value {
    let selector = json!({"distro": "ubuntu", "version": "24.04"});
    json!({"name": "db", "replicas": 1, "flavorId": FLAVOR_STANDARD, "imageSelector": selector})
}

fn body(world: &World, pools: &[Value]) -> Value {
    json!({
        "metadata": {"name": "pack"},
        "spec": {
            "regionId": world.regions()[0],
            "network": {"nodeNetwork": "10.20.0.0/24", "dnsNameservers": ["1.1.1.1"]},
            "workloadPools": {"pools": pools},
        },
    })
}

/// Makes a cluster and answers with its path.
async fn made(world: &World, life: &Life, pools: &[Value]) -> String {
    let (status, answer) = life.request("POST", &clusters(world), Some(body(world, pools))).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    format!("{}/{}", clusters(world), answer["metadata"]["id"].as_str().expect("an id"))
}

async fn update(world: &World, life: &Life, path: &str, pools: &[Value]) {
    let (status, answer) = life.request("PUT", path, Some(body(world, pools))).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
}

async fn ready(life: &Life, path: &str) {
    let status = async || life.request("GET", path, None).await.1["metadata"]["provisioningStatus"].clone();
    eventually("the cluster is provisioned", async || status().await == "provisioned").await;
}

/// The machines of a pool, as the cluster shows them.
async fn machines(life: &Life, path: &str, pool: usize) -> Vec<Value> {
    let shown = life.request("GET", path, None).await.1;
    shown["status"]["workloadPools"][pool]["machines"].as_array().expect("machines").clone()
}

async fn stored(life: &Life, kind: Kind) -> Vec<Arc<Record>> {
    life.store.list(&Filter::of(kind), Page::FIRST).await.expect("reads")
}

async fn used(world: &World, life: &Life) -> Vec<(QuotaKind, u64)> {
    let usage = life.store.usage(world.tenants[0].organization).await.expect("reads");
    usage.iter().map(|usage| (usage.kind, usage.used.total())).filter(|(_, used)| *used > 0).collect()
}

/// The network, its groups and its principal are gone, here and in the cloud, and so is what they cost.
async fn nothing_is_left(world: &World, life: &Life) {
    for kind in [Kind::Cluster, Kind::Instance, Kind::Server, Kind::SecurityGroup, Kind::Network, Kind::Identity] {
        eventually(kind.word(), async || stored(life, kind).await.is_empty()).await;
    }
    assert!(inventory(life, world.regions()[0]).await.is_empty());
    assert_eq!(used(world, life).await, [], "the quota is free again");
    assert!(life.store.claims().await.expect("reads").is_empty(), "the VLAN is free again");
    let references = life.store.references(world.tenants[0].project.key()).await.expect("reads");
    assert_eq!(references, Vec::<Holder>::new(), "the project is free again");
}

#[tokio::test(start_paused = true)]
async fn a_v1_cluster_is_made_with_its_network_runs_is_evicted_from_and_leaves_nothing() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let path = made(&world, &life, &[web(2, 22), db()]).await;
    let charged =
        [(QuotaKind::Networks, 1), (QuotaKind::Clusters, 1), (QuotaKind::Servers, 3), (QuotaKind::PublicIps, 2)];
    let sorted = |mut charged: Vec<(QuotaKind, u64)>| {
        charged.sort_unstable();
        charged
    };
    assert_eq!(sorted(used(&world, &life).await), sorted(charged.to_vec()), "all at once, before anything is made");
    ready(&life, &path).await;

    let held = inventory(&life, region).await;
    assert_eq!((held.networks.len(), held.security_groups.len(), held.servers.len()), (1, 1, 3));
    let in_group = held.ports.iter().filter(|port| {
        let Body::Port { options, .. } = &port.body else { return false };
        options.security_groups.contains(&held.security_groups[0].id) && !options.allowed_addresses.is_empty()
    });
    assert_eq!(in_group.count(), 2, "those of the pool with the firewall");
    let (webs, dbs) = (machines(&life, &path, 0).await, machines(&life, &path, 1).await);
    assert_eq!((webs.len(), dbs.len()), (2, 1));
    for machine in webs.iter().chain(&dbs) {
        assert_eq!(machine["status"], "Running", "{machine}");
        assert!(machine["privateIP"].as_str().expect("an address").starts_with("10.20.0."), "{machine}");
    }
    assert!(webs.iter().all(|machine| machine["publicIP"].is_string() && machine["imageID"] == json!(IMAGE_UBUNTU)));
    assert_eq!((&dbs[0]["publicIP"], &dbs[0]["imageID"]), (&json!(null), &json!(IMAGE_GPU)), "the newest that fits");

    let id = |machine: &Value| machine["id"].as_str().expect("an id").to_owned();
    let stop = format!("{path}/machines/{}/stop", id(&dbs[0]));
    assert_eq!(life.request("POST", &stop, None).await.0, StatusCode::ACCEPTED);
    eventually("stopped", async || machines(&life, &path, 1).await[0]["status"] == "Stopped").await;

    let evicted = id(&webs[0]);
    let (status, answer) = life.request("POST", &format!("{path}/evict"), Some(json!({"machineIDs": [evicted]}))).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(answer["spec"]["workloadPools"]["pools"][0]["replicas"], 1);
    ready(&life, &path).await;
    let left = machines(&life, &path, 0).await;
    assert_eq!(left.iter().map(id).collect::<Vec<_>>(), [id(&webs[1])], "the other one");
    assert!(used(&world, &life).await.contains(&(QuotaKind::Servers, 2)));

    assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED);
    eventually("gone", async || life.request("GET", &path, None).await.0 == StatusCode::NOT_FOUND).await;
    nothing_is_left(&world, &life).await;
}

#[tokio::test(start_paused = true)]
async fn another_firewall_changes_the_group_and_no_machine() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let path = made(&world, &life, &[web(1, 22)]).await;
    ready(&life, &path).await;
    let (before, servers) = (machines(&life, &path, 0).await, inventory(&life, region).await.servers);
    update(&world, &life, &path, &[web(1, 443), db()]).await;
    ready(&life, &path).await;
    assert_eq!(machines(&life, &path, 0).await, before);
    let held = inventory(&life, region).await;
    assert!(servers.iter().all(|server| held.servers.iter().any(|now| now.id == server.id)));
    let groups = stored(&life, Kind::SecurityGroup).await;
    assert_eq!(groups.len(), 1, "a pool without a firewall needs none");
    let group = SecurityGroupId(groups[0].key.id);
    let ports = groups[0].open::<SecurityGroup>().expect("opens").spec.rules;
    assert!(ports.len() == 2 && ports.iter().all(|rule| rule.port == Some(443)), "{ports:?}");
    eventually("the cloud has followed", async || {
        let shown = life.request("GET", &format!("/api/v2/securitygroups/{group}"), None).await.1;
        let rules = serde_json::to_string(&inventory(&life, region).await.security_groups).expect("json");
        shown["metadata"]["provisioningStatus"] == "provisioned" && rules.contains("443") && !rules.contains("22,")
    })
    .await;

    // Without rules the group stays, and lets nobody in.
    let mut closed = web(1, 443);
    closed.as_object_mut().expect("a pool").remove("firewall");
    update(&world, &life, &path, &[closed]).await;
    ready(&life, &path).await;
    assert_eq!(machines(&life, &path, 0).await, before);
    let groups = stored(&life, Kind::SecurityGroup).await;
    assert_eq!(groups[0].open::<SecurityGroup>().expect("opens").spec.rules, []);
    assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED);
    nothing_is_left(&world, &life).await;
}

#[tokio::test(start_paused = true)]
async fn a_v1_cluster_whose_network_others_use_stays_until_they_are_gone() {
    let (world, life) = world().await;
    let path = made(&world, &life, &[web(1, 22)]).await;
    ready(&life, &path).await;
    let network = stored(&life, Kind::Network).await[0].key.id;
    let guest = create_server(&life, network, &[], "guest").await;
    let (status, answer) = life.request("DELETE", &path, None).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    assert!(answer["error_description"].as_str().expect("a text").contains("in use"), "{answer}");
    let direct = life.request("DELETE", &format!("/api/v2/networks/{network}"), None).await;
    assert_eq!(direct.0, StatusCode::FORBIDDEN, "the cluster uses it: {}", direct.1);
    assert_eq!(life.request("DELETE", &format!("/api/v2/servers/{guest}"), None).await.0, StatusCode::ACCEPTED);
    assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED, "who is going is in nobody's way");
    nothing_is_left(&world, &life).await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_project_takes_its_v1_clusters_and_their_networks_along() {
    let (world, life) = world().await;
    let path = made(&world, &life, &[web(1, 22)]).await;
    ready(&life, &path).await;
    let project = clusters(&world).split("/clusters").next().expect("a path").to_owned();
    assert_eq!(life.request("DELETE", &project, None).await.0, StatusCode::ACCEPTED);
    let key = world.tenants[0].project.key();
    eventually("the project is gone", async || life.store.get(key).await.expect("reads").is_none()).await;
    nothing_is_left(&world, &life).await;
}

#[test]
fn a_v1_cluster_cut_anywhere_is_whole_or_not_there() {
    let ask = async |world: &World, life: &Life, _: &Estate| {
        let path = made(world, life, &[web(1, 22)]).await;
        ready(life, &path).await;
        assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED);
        eventually("gone", async || stored(life, Kind::Network).await.len() == 1).await;
    };
    // A saga has every cut that one commit has, and those between its steps.
    cut_everywhere(&[Mode::Saga], ask, async |world, life, estate| {
        eventually("the cluster is ready or gone, with all that is its own", async || {
            let records = stored(life, Kind::Cluster).await;
            let mut settled = true;
            for record in &records {
                let path = format!("{}/{}", clusters(world), record.key.id);
                let shown = life.request("GET", &path, None).await.1;
                settled &= shown["metadata"]["provisioningStatus"] == "provisioned";
            }
            let networks = stored(life, Kind::Network).await.len();
            let groups = stored(life, Kind::SecurityGroup).await.len();
            settled && (networks, groups) == (1 + records.len(), 1 + records.len())
        })
        .await;
        let clusters = stored(life, Kind::Cluster).await.len();
        eventually("the cloud is as stored", async || {
            let held = inventory(life, estate.region).await;
            (held.networks.len(), held.identities.len(), held.servers.len())
                == (1 + clusters, 1 + clusters, 1 + clusters)
        })
        .await;
        let cost = clusters as u64;
        let mut charged = used(world, life).await;
        charged.retain(|(kind, _)| *kind != QuotaKind::Networks);
        let expected = [(QuotaKind::Clusters, cost), (QuotaKind::Servers, cost), (QuotaKind::PublicIps, cost)];
        let expected = expected.into_iter().filter(|(_, cost)| *cost > 0).collect::<Vec<_>>();
        assert_eq!(charged, expected);
    });
}
