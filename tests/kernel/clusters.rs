//! A cluster's life: its pools are kept at their number and on their terms, no more away at a time than may be.

use axum::http::StatusCode;
use regent::model::ids::{ClusterId, InstanceId, Kind};
use regent::model::instance::Instance;
use regent::model::quota::{Amount, QuotaKind};
use regent::model::record::Resource;
use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_GPU, IMAGE_UBUNTU};
use regent::store::memory::Mode;
use regent::store::{Batch, Filter, Page, Write};
use serde_json::{Value, json};
use uuid::Uuid;

use super::machines::{Estate, inventory};
use super::servers::cut_everywhere;
use super::{create, eventually, provisioned, world};
use crate::support::world::{Life, World};

fn pools(replicas: u32, image: &Value) -> Value {
    json!([{"name": "web", "replicas": replicas, "flavorId": FLAVOR_STANDARD, "imageId": image}])
}

async fn create_cluster(world: &World, life: &Life, network: Uuid, replicas: u32) -> (StatusCode, Value) {
    let tenant = world.tenants[0];
    let body = json!({
        "metadata": {"name": "pack"},
        "spec": {
            "organizationId": tenant.organization, "projectId": tenant.project, "networkId": network,
            "pools": pools(replicas, &json!(IMAGE_UBUNTU)),
        },
    });
    life.request("POST", "/api/v2/clusters", Some(body)).await
}

fn id_of(answer: &Value) -> ClusterId {
    ClusterId(answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID"))
}

async fn made(world: &World, life: &Life, network: Uuid, replicas: u32) -> ClusterId {
    let (status, answer) = create_cluster(world, life, network, replicas).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    id_of(&answer)
}

fn path(cluster: ClusterId) -> String {
    format!("/api/v2/clusters/{cluster}")
}

async fn update(life: &Life, cluster: ClusterId, spec: Value) {
    let body = json!({"metadata": {"name": "pack"}, "spec": spec});
    let (status, answer) = life.request("PUT", &path(cluster), Some(body)).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
}

async fn ready(life: &Life, cluster: ClusterId) {
    let status = async || life.request("GET", &path(cluster), None).await.1["metadata"]["provisioningStatus"].clone();
    eventually("the cluster is provisioned", async || status().await == "provisioned").await;
}

async fn members(life: &Life) -> Vec<Resource<Instance>> {
    let records = life.store.list(&Filter::of(Kind::Instance), Page::FIRST).await.expect("reads");
    let staying = records.iter().filter(|record| !record.metadata.is_deleting());
    staying.map(|record| record.open().expect("opens")).collect()
}

async fn used(world: &World, life: &Life, kind: QuotaKind) -> u64 {
    let usage = life.store.usage(world.tenants[0].organization).await.expect("reads");
    usage.iter().find(|usage| usage.kind == kind).map_or(0, |usage| usage.used.total())
}

/// Room for more than the default.
async fn roomy(world: &World, life: &Life) -> Uuid {
    let limit = Write::Limit { organization: world.tenants[0].organization, kind: QuotaKind::Servers, limit: 30 };
    life.store.commit(Batch::of(vec![limit])).await.expect("limits");
    let network = create(world, life, "estate", world.regions()[0]).await;
    provisioned(life, network).await;
    network
}

#[tokio::test(start_paused = true)]
async fn b42_twenty_scaled_to_five_lose_those_who_were_named() {
    let (world, life) = world().await;
    let network = roomy(&world, &life).await;
    let cluster = made(&world, &life, network, 20).await;
    assert_eq!(used(&world, &life, QuotaKind::Servers).await, 20, "all at once, before any is made");
    assert_eq!(used(&world, &life, QuotaKind::Clusters).await, 1);
    ready(&life, cluster).await;
    let before = members(&life).await;
    assert_eq!(before.len(), 20);
    let named = before.iter().step_by(7).map(|member| member.key.id).collect::<Vec<_>>();
    assert_eq!(named.len(), 3);
    let (_, shown) = life.request("GET", &path(cluster), None).await;
    assert_eq!(shown["status"]["pools"], json!([{"name": "web", "replicas": 20, "readyReplicas": 20}]));
    let direct = life.request("DELETE", &format!("/api/v2/instances/{}", InstanceId(named[0])), None).await;
    assert_eq!(direct.0, StatusCode::FORBIDDEN, "{}", direct.1);

    update(&life, cluster, json!({"pools": pools(5, &json!(IMAGE_UBUNTU)), "evict": named})).await;
    assert_eq!(used(&world, &life, QuotaKind::Servers).await, 20, "as long as they are there");
    ready(&life, cluster).await;
    let left = members(&life).await;
    assert_eq!(left.len(), 5);
    assert!(left.iter().all(|member| !named.contains(&member.key.id)), "those who were named are gone");
    assert!(left.iter().all(|member| before.iter().any(|old| old.key == member.key)), "and nobody new has come");
    assert_eq!(inventory(&life, world.regions()[0]).await.servers.len(), 5);
    assert_eq!(used(&world, &life, QuotaKind::Servers).await, 5);

    let body = json!({"machineIDs": [left[0].key.id]});
    let (status, answer) = life.request("POST", &format!("{}/evict", path(cluster)), Some(body)).await;
    assert_eq!((status, &answer["spec"]["pools"][0]["replicas"]), (StatusCode::ACCEPTED, &json!(4)), "{answer}");
    ready(&life, cluster).await;
    assert!(members(&life).await.iter().all(|member| member.key != left[0].key));
    assert_eq!(life.request("DELETE", &path(cluster), None).await.0, StatusCode::ACCEPTED);
    let gone = async || life.request("GET", &path(cluster), None).await.0 == StatusCode::NOT_FOUND;
    eventually("the cluster is gone", gone).await;
    assert!(inventory(&life, world.regions()[0]).await.servers.is_empty());
    let usage = life.store.usage(world.tenants[0].organization).await.expect("reads");
    let left = usage.iter().filter(|usage| usage.used != Amount::default()).map(|usage| usage.kind).collect::<Vec<_>>();
    assert_eq!(left, [QuotaKind::Networks]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_fit_into_the_quota_is_refused_whole() {
    let (world, life) = world().await;
    let network = create(&world, &life, "estate", world.regions()[0]).await;
    let (status, answer) = create_cluster(&world, &life, network, 11).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    assert_eq!(used(&world, &life, QuotaKind::Servers).await, 0);
    assert_eq!(used(&world, &life, QuotaKind::Clusters).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_rolling_change_never_has_more_away_than_may_be() {
    let (world, life) = world().await;
    let network = roomy(&world, &life).await;
    let cluster = made(&world, &life, network, 6).await;
    ready(&life, cluster).await;
    let before = members(&life).await;
    update(&life, cluster, json!({"pools": pools(6, &json!(IMAGE_GPU)), "maxUnavailable": 2})).await;
    let mut most = 0;
    for _ in 0..2000 {
        let members = members(&life).await;
        let is_away = |member: &&Resource<Instance>| {
            let said = member.conditions.available.as_ref();
            !member.conditions.is_available()
                || said.is_some_and(|said| said.observed_generation < member.metadata.generation)
        };
        most = most.max(members.iter().filter(is_away).count());
        assert!(most <= 2, "{most} are away");
        assert_eq!(members.len(), 6);
        if members.iter().all(|member| member.spec.machine.image == IMAGE_GPU && !is_away(&member)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    ready(&life, cluster).await;
    assert_eq!(most, 2, "and it uses what it is allowed");
    let after = members(&life).await;
    assert!(after.iter().all(|member| member.spec.machine.image == IMAGE_GPU));
    assert!(after.iter().all(|member| before.iter().any(|old| old.key == member.key)), "in place");
}

#[test]
fn a_cluster_cut_anywhere_has_as_many_as_asked_for_and_pays_for_them_once() {
    let ask = async |world: &World, life: &Life, estate: &Estate| {
        let cluster = made(world, life, estate.network, 3).await;
        ready(life, cluster).await;
        let named = members(life).await[0].key.id;
        update(life, cluster, json!({"pools": pools(2, &json!(IMAGE_GPU)), "evict": [named]})).await;
        ready(life, cluster).await;
    };
    cut_everywhere(&[Mode::Atomic, Mode::Saga], ask, async |world, life, estate| {
        let clusters = life.store.list(&Filter::of(Kind::Cluster), Page::FIRST).await.expect("reads");
        let mut wanted = 0;
        for record in &clusters {
            ready(life, ClusterId(record.key.id)).await;
            let spec = record.open::<regent::model::cluster::Cluster>().expect("opens").spec;
            wanted += spec.pools.iter().map(|pool| u64::from(pool.replicas)).sum::<u64>();
        }
        assert_eq!(members(life).await.len() as u64, wanted);
        assert_eq!(inventory(life, estate.region).await.servers.len() as u64, wanted + 1, "and the house");
        assert_eq!(used(world, life, QuotaKind::Servers).await, wanted);
        assert_eq!(used(world, life, QuotaKind::Clusters).await, clusters.len() as u64);
    });
}
