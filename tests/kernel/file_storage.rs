//! A file storage's life from the first request to the last, and what it keeps from being deleted.

use axum::http::StatusCode;
use regent::model::condition::Reason;
use regent::model::edge::Holder;
use regent::model::file_storage::SYSTEM_POLICY;
use regent::model::ids::{FileStorageId, Kind, NetworkId};
use regent::providers::simulated::catalogue::FILES_STANDARD;
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::providers::simulated::engine::faults::{Effect, Fault};
use regent::store::memory::Mode;
use regent::store::{Filter, Page};
use serde_json::{Value, json};
use uuid::Uuid;

use super::machines::inventory;
use super::{create, eventually, provisioned, world};
use crate::support::crash::Arm;
use crate::support::world::{Life, World};

const STORAGE: &str = "/api/v2/filestorage";
const GIB: u64 = 1 << 30;

fn spec(networks: &[Uuid]) -> Value {
    json!({"sizeGiB": 10, "storageType": {"NFS": {"rootSquash": false}}, "attachments": {"networkIds": networks}})
}

fn creation(world: &World, networks: &[Uuid]) -> Value {
    let mut spec = spec(networks);
    spec["organizationId"] = json!(world.tenants[0].organization);
    spec["projectId"] = json!(world.tenants[0].project);
    spec["regionId"] = json!(world.regions()[0]);
    spec["storageClassId"] = json!(FILES_STANDARD);
    json!({"metadata": {"name": "files"}, "spec": spec})
}

async fn create_storage(life: &Life, body: Value) -> (Uuid, Value) {
    let (status, answer) = life.request("POST", STORAGE, Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    (answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID"), answer)
}

async fn get(life: &Life, id: Uuid) -> (StatusCode, Value) {
    life.request("GET", &format!("{STORAGE}/{id}"), None).await
}

async fn update(life: &Life, id: Uuid, spec: Value) -> Value {
    let body = json!({"metadata": {"name": "files"}, "spec": spec});
    let (status, answer) = life.request("PUT", &format!("{STORAGE}/{id}"), Some(body)).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    answer
}

async fn settled(life: &Life, id: Uuid) -> Value {
    eventually("the storage is provisioned", async || {
        get(life, id).await.1["metadata"]["provisioningStatus"] == "provisioned"
    })
    .await;
    get(life, id).await.1
}

async fn delete_network(life: &Life, network: Uuid) -> (StatusCode, Value) {
    life.request("DELETE", &format!("/api/v2/networks/{network}"), None).await
}

async fn network(world: &World, life: &Life, name: &str) -> Uuid {
    let network = create(world, life, name, world.regions()[0]).await;
    provisioned(life, network).await;
    network
}

/// The names of the policies that the cloud has for its only share.
async fn policies(world: &World, life: &Life) -> Vec<String> {
    let held = inventory(life, world.regions()[0]).await;
    let share = held.shares[0].share().expect("a share");
    share.options.policies.iter().map(|policy| policy.name.text().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn b30_a_share_is_attached_mounted_detached_and_unmade_and_protects_its_network() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let network = network(&world, &life, "one").await;
    let (id, created) = create_storage(&life, creation(&world, &[network])).await;
    let pending = json!([{"networkId": network, "provisioningStatus": "pending"}]);
    assert_eq!(created["status"]["attachments"], pending, "it follows what is asked for at once");

    let read = settled(&life, id).await;
    let mounted = json!([{
        "networkId": network,
        "mountSource": format!("192.168.0.16:/exports/share-{id}"),
        "mountOptions": {"remoteports": "192.168.0.16-192.168.0.19"},
        "provisioningStatus": "provisioned",
    }]);
    assert_eq!(read["status"]["attachments"], mounted);
    assert_eq!(read["status"]["usage"]["capacityBytes"], 10 * GIB);
    assert_eq!(read["metadata"]["healthStatus"], "healthy");
    let held = inventory(&life, region).await;
    let share = held.shares[0].share().expect("a share");
    assert_eq!((share.options.size_bytes, share.options.root_squash), (10 * GIB, false));

    let (status, answer) = delete_network(&life, network).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    let text = answer["error_description"].as_str().expect("text");
    assert!(text.contains("in use") && text.contains(&format!("filestorages.region.unikorn-cloud.org/{id}")), "{text}");

    // Detached for the reader at once; the network is free when the storage system has let go of it, not before.
    let handle = life.clouds.handle(region).expect("simulated");
    let stuck = Fault::once("delete-share-attachment", Effect::StuckDelete { for_ms: Some(30_000) });
    handle.add_faults(vec![stuck]).await.expect("takes faults");
    let answer = update(&life, id, spec(&[])).await;
    assert_eq!(answer["spec"]["attachments"], json!({"networkIds": []}));
    assert_eq!(answer["status"].get("attachments"), None, "without attachments there is no such field");
    eventually("the order is out", async || handle.faults().await.expect("faults").is_empty()).await;
    assert_eq!(delete_network(&life, network).await.0, StatusCode::FORBIDDEN, "still attached");
    settled(&life, id).await;
    assert!(inventory(&life, region).await.share_attachments.is_empty());
    assert_eq!(delete_network(&life, network).await.0, StatusCode::ACCEPTED);

    assert_eq!(life.request("DELETE", &format!("{STORAGE}/{id}"), None).await.0, StatusCode::ACCEPTED);
    eventually("gone", async || get(&life, id).await.0 == StatusCode::NOT_FOUND).await;
    eventually("nothing is left", async || inventory(&life, region).await.is_empty()).await;
    assert!(life.store.allocations().await.expect("reads").is_empty(), "the quota is free again");
}

#[tokio::test(start_paused = true)]
async fn policies_are_cleared_by_an_empty_list_and_replaced_together_with_default_protection() {
    let (world, life) = world().await;
    let policy = |name: &str, keep: u32| json!({"name": name, "schedule": {"interval": "daily", "timeOfDay": "03:30Z"}, "retention": {"keep": keep}});
    let mut body = creation(&world, &[]);
    body["spec"]["snapshotPolicies"] = json!([policy("nightly", 3)]);
    let (id, created) = create_storage(&life, body).await;
    assert_eq!(created["spec"]["defaultSnapshotProtectionEnabled"], true);
    let waiting = json!([{"name": "nightly", "provisioningStatus": "pending"}]);
    assert_eq!(created["status"]["snapshotPolicies"], waiting, "the hidden policy is hidden");
    let read = settled(&life, id).await;
    assert_eq!(read["status"]["snapshotPolicies"], json!([{"name": "nightly", "provisioningStatus": "provisioned"}]));
    assert_eq!(policies(&world, &life).await, ["nightly", SYSTEM_POLICY]);

    // A policy of the same name with other terms is not there until it is.
    let mut changed = spec(&[]);
    changed["snapshotPolicies"] = json!([policy("nightly", 4), policy("spare", 1)]);
    changed["defaultSnapshotProtectionEnabled"] = json!(false);
    let answer = update(&life, id, changed).await;
    assert_eq!(answer["status"]["snapshotPolicies"][0]["provisioningStatus"], "provisioning");
    let read = settled(&life, id).await;
    assert_eq!(read["spec"]["defaultSnapshotProtectionEnabled"], false);
    assert_eq!(policies(&world, &life).await, ["nightly", "spare"]);

    let answer = update(&life, id, spec(&[])).await;
    assert_eq!(answer["spec"]["snapshotPolicies"].as_array().map(Vec::len), Some(2), "left out is unchanged");
    let mut cleared = spec(&[]);
    cleared["snapshotPolicies"] = json!([]);
    cleared["defaultSnapshotProtectionEnabled"] = json!(true);
    let answer = update(&life, id, cleared).await;
    assert_eq!(answer["spec"]["snapshotPolicies"], json!([]));
    settled(&life, id).await;
    assert_eq!(policies(&world, &life).await, [SYSTEM_POLICY]);
}

#[tokio::test(start_paused = true)]
async fn a_share_grows_where_it_is_and_its_usage_is_told_when_it_was_measured() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let (id, _) = create_storage(&life, creation(&world, &[])).await;
    settled(&life, id).await;
    let before = inventory(&life, region).await.shares[0].id.clone();
    let mut grown = spec(&[]);
    grown["sizeGiB"] = json!(11);
    update(&life, id, grown).await;
    let read = settled(&life, id).await;
    assert_eq!(read["status"]["usage"]["capacityBytes"], 11 * GIB);
    assert_eq!(inventory(&life, region).await.shares[0].id, before);

    let used = async || get(&life, id).await.1["status"]["usage"]["usedBytes"].as_u64();
    eventually("measured", async || used().await.is_some()).await;
    let first = get(&life, id).await.1["status"]["usage"].clone();
    tokio::time::sleep(std::time::Duration::from_mins(12)).await;
    let later = get(&life, id).await.1["status"]["usage"].clone();
    assert!(later["usedBytes"].as_u64() > first["usedBytes"].as_u64(), "{first} {later}");
    assert!(later["updatedAt"].as_str() > first["updatedAt"].as_str(), "{first} {later}");
    let counters = life.clouds.handle(region).expect("simulated").counters().await.expect("books");
    let looks = counters.operations.get("find-shares").copied().unwrap_or(0);
    assert!(looks < 12, "the usage comes by list: {looks} looks");
}

#[tokio::test(start_paused = true)]
async fn an_attachment_that_cannot_be_made_yet_does_not_keep_the_others_from_being_mounted() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let (good, bad) = (network(&world, &life, "good").await, network(&world, &life, "bad").await);
    let (id, _) = create_storage(&life, creation(&world, &[])).await;
    settled(&life, id).await;
    // The network is lost, and cannot be made again for a while.
    let handle = life.clouds.handle(region).expect("simulated");
    let held = inventory(&life, region).await;
    let lost = held.networks.iter().find(|object| object.marks.is_some_and(|marks| marks.id == bad)).expect("made");
    handle
        .add_faults(vec![Fault::always("create-network", Effect::Throttle { retry_after_ms: Some(500) })])
        .await
        .unwrap();
    handle.change_directly(BackdoorChange::Delete { id: lost.id.clone() }).await.expect("deletes");
    update(&life, id, spec(&[bad, good])).await;
    let status = async |at: usize| get(&life, id).await.1["status"]["attachments"][at]["provisioningStatus"].clone();
    eventually("the good one is mounted", async || status(1).await == "provisioned").await;
    assert_eq!(status(0).await, "provisioning");
    assert_eq!(get(&life, id).await.1["metadata"]["provisioningStatus"], "provisioning");
    handle.clear_faults().await.expect("clears");
    settled(&life, id).await;
    assert_eq!(status(0).await, "provisioned");
}

#[tokio::test(start_paused = true)]
async fn what_is_changed_behind_our_back_is_set_right_and_a_lost_share_is_reported_and_made_again() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let network = network(&world, &life, "one").await;
    let (id, _) = create_storage(&life, creation(&world, &[network])).await;
    settled(&life, id).await;
    let handle = life.clouds.handle(region).expect("simulated");
    for lost in ["share_attachments", "shares"] {
        let held = inventory(&life, region).await;
        let object = if lost == "shares" { &held.shares[0] } else { &held.share_attachments[0] };
        handle.change_directly(BackdoorChange::Delete { id: object.id.clone() }).await.expect("deletes");
        eventually("made again", async || {
            let held = inventory(&life, region).await;
            let made = if lost == "shares" { &held.shares } else { &held.share_attachments };
            made.first().is_some_and(|made| made.id != object.id) && !held.share_attachments.is_empty()
        })
        .await;
        let read = settled(&life, id).await;
        assert!(read["status"]["attachments"][0]["mountSource"].is_string(), "{read}");
    }
    let history = life.store.history(FileStorageId(id).key()).await.expect("reads");
    assert!(history.iter().any(|transition| transition.reason == Reason::Degraded), "that it was missing was said");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_project_takes_its_file_storage_along_before_the_networks_it_is_attached_to() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let network = network(&world, &life, "one").await;
    let (id, _) = create_storage(&life, creation(&world, &[network])).await;
    settled(&life, id).await;
    let tenant = world.tenants[0];
    let path = format!("/api/v1/organizations/{}/projects/{}", tenant.organization, tenant.project);
    assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED);
    eventually("the project is gone", async || life.store.get(tenant.project.key()).await.expect("reads").is_none())
        .await;
    assert!(inventory(&life, region).await.is_empty());
    let calls = life.clouds.handle(region).expect("simulated").calls(0).await.expect("books");
    let place = |word: &str| calls.iter().position(|call| call.operation == word && call.outcome == "ok");
    let (share, network) = (place("delete-share").expect("deleted"), place("delete-network").expect("deleted"));
    assert!(share < network, "the share goes first");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

/// The stored file storage, if there is one; never more.
async fn only(life: &Life) -> Option<Uuid> {
    let stored = life.store.list(&Filter::of(Kind::FileStorage), Page::FIRST).await.expect("reads");
    assert!(stored.len() <= 1);
    stored.first().map(|record| record.key.id)
}

#[test]
fn a_life_cut_anywhere_is_lived_to_its_end_without_doubles_or_remains() {
    // Every other point in each mode: what is called is called in both.
    for (mode, first) in [(Mode::Atomic, 1), (Mode::Saga, 2)] {
        for cut in (first..).step_by(2) {
            let mut world = World::new(cut, mode);
            let region = world.regions()[0];
            runtime().block_on(world.furnish());
            let died = runtime().block_on(async {
                let life = world.begin_life().await;
                let network = network(&world, &life, "one").await;
                let points = std::sync::Arc::clone(&world.points);
                points.arm(Arm { name: None, countdown: cut });
                let act = async {
                    let (id, _) = create_storage(&life, creation(&world, &[network])).await;
                    settled(&life, id).await;
                    update(&life, id, spec(&[])).await;
                    settled(&life, id).await;
                    life.request("DELETE", &format!("{STORAGE}/{id}"), None).await;
                    eventually("gone", async || get(&life, id).await.0 == StatusCode::NOT_FOUND).await;
                };
                let died = tokio::select! {
                    biased;
                    () = points.death() => true,
                    () = act => false,
                };
                world.points.disarm();
                world.clock.life_ends();
                died
            });
            runtime().block_on(async {
                let life = world.begin_life().await;
                let said = format!("{mode:?}, died at {cut}");
                if let Some(id) = only(&life).await {
                    eventually("settled or gone", async || {
                        let shown = get(&life, id).await.1["metadata"]["provisioningStatus"].clone();
                        shown == "provisioned" || shown.is_null()
                    })
                    .await;
                    life.request("DELETE", &format!("{STORAGE}/{id}"), None).await;
                    eventually("gone", async || get(&life, id).await.0 == StatusCode::NOT_FOUND).await;
                }
                let held = inventory(&life, region).await;
                assert!(held.shares.is_empty() && held.share_attachments.is_empty(), "{said}");
                let networks = life.store.list(&Filter::of(Kind::Network), Page::FIRST).await.expect("reads");
                let holders = life.store.references(NetworkId(networks[0].key.id).key()).await.expect("reads");
                assert_eq!(holders, Vec::<Holder>::new(), "{said}");
                assert_eq!(life.store.allocations().await.expect("reads").len(), 1, "{said}: the network's own");
                let books = life.clouds.handle(region).expect("simulated").creations().await.expect("books");
                assert!(books.creations.iter().all(|creation| creation.count.at_once_max <= 1), "{said}");
                world.clock.life_ends();
            });
            if !died {
                assert!(cut > 60, "only {cut} points were passed");
                break;
            }
        }
    }
}
