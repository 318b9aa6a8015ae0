//! A volume's life: made, given to a server, taken from it, enlarged, lost, and gone with its project.

use axum::http::StatusCode;
use regent::model::condition::Reason;
use regent::model::ids::{Key, ServerId, VolumeId};
use regent::model::quota::Amount;
use regent::providers::simulated::catalogue::{IMAGE_GPU, VOLUME_CLASS_STANDARD};
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::providers::simulated::engine::faults::{Effect, Fault};
use regent::providers::simulated::objects::CloudObject;
use regent::store::memory::Mode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::machines::{Estate, create_server, estate, get_server, inventory, rebuild, running, server_status};
use super::servers::cut_everywhere;
use super::{eventually, get, world};
use crate::support::world::{Life, World};

pub async fn create_volume(life: &Life, network: Uuid, server: Option<ServerId>) -> VolumeId {
    let mut body = json!({
        "metadata": {"name": "data"},
        "spec": {"networkId": network, "volumeClassId": VOLUME_CLASS_STANDARD, "sizeGiB": 10},
    });
    if let Some(server) = server {
        body["spec"]["serverId"] = json!(server);
    }
    let (status, answer) = life.request("POST", "/api/v2/volumes", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    VolumeId(answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID"))
}

async fn get_volume(life: &Life, volume: VolumeId) -> (StatusCode, Value) {
    life.request("GET", &format!("/api/v2/volumes/{volume}"), None).await
}

async fn volume_status(life: &Life, volume: VolumeId) -> String {
    get_volume(life, volume).await.1["metadata"]["provisioningStatus"].as_str().unwrap_or("gone").to_owned()
}

pub async fn ready(life: &Life, volume: VolumeId) {
    eventually("the volume is provisioned", async || volume_status(life, volume).await == "provisioned").await;
}

pub async fn update(life: &Life, volume: VolumeId, size_gib: u32, server: Option<ServerId>) {
    let mut body = json!({"metadata": {"name": "data"}, "spec": {"sizeGiB": size_gib}});
    if let Some(server) = server {
        body["spec"]["serverId"] = json!(server);
    }
    let (status, answer) = life.request("PUT", &format!("/api/v2/volumes/{volume}"), Some(body)).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
}

async fn delete(life: &Life, path: &str) -> StatusCode {
    life.request("DELETE", path, None).await.0
}

/// The only volume in the cloud.
async fn object(life: &Life, estate: &Estate) -> CloudObject {
    let volumes = inventory(life, estate.region).await.volumes;
    assert_eq!(volumes.len(), 1, "{volumes:?}");
    volumes.into_iter().next().expect("one")
}

/// Our id of the server that has the only volume, according to the cloud.
async fn holder(life: &Life, estate: &Estate) -> Option<Uuid> {
    let attached = object(life, estate).await.attachment().cloned()?;
    let servers = inventory(life, estate.region).await.servers;
    servers.into_iter().find(|server| server.id == attached.server)?.marks.map(|marks| marks.id)
}

async fn behind_our_back(life: &Life, estate: &Estate, change: BackdoorChange) {
    life.clouds.handle(estate.region).expect("simulated").change_directly(change).await.expect("changed");
}

async fn holders(life: &Life, key: Key) -> usize {
    life.store.references(key).await.expect("reads").len()
}

#[tokio::test(start_paused = true)]
async fn b42_a_volume_is_made_attached_enlarged_moved_detached_and_unmade() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let volume = create_volume(&life, estate.network, Some(estate.server)).await;
    ready(&life, volume).await;
    let (_, shown) = get_volume(&life, volume).await;
    let attached = json!({"serverId": estate.server, "device": "/dev/vdb", "provisioningStatus": "provisioned"});
    assert_eq!(shown["status"]["attachment"], attached);
    assert_eq!((&shown["status"]["sizeGiB"], &shown["metadata"]["healthStatus"]), (&json!(10), &json!("healthy")));
    assert_eq!(holder(&life, &estate).await, Some(estate.server.0));
    for path in [
        format!("/api/v2/volumes/{volume}"),
        format!("/api/v2/servers/{}", estate.server),
        format!("/api/v2/networks/{}", estate.network),
    ] {
        assert_eq!(delete(&life, &path).await, StatusCode::FORBIDDEN, "{path}");
    }

    update(&life, volume, 20, Some(estate.server)).await;
    assert_eq!(volume_status(&life, volume).await, "provisioning");
    ready(&life, volume).await;
    assert_eq!(object(&life, &estate).await.volume().expect("a volume").size_gib, 20);
    assert_eq!(holder(&life, &estate).await, Some(estate.server.0), "it grew where it was");

    let other = create_server(&life, estate.network, &[], "annex").await;
    running(&life, other).await;
    update(&life, volume, 20, Some(other)).await;
    ready(&life, volume).await;
    assert_eq!(holder(&life, &estate).await, Some(other.0));
    assert_eq!(holders(&life, estate.server.key()).await, 0, "the server that had it is free to go");
    assert_eq!(delete(&life, &format!("/api/v2/servers/{}", estate.server)).await, StatusCode::ACCEPTED);

    update(&life, volume, 20, None).await;
    ready(&life, volume).await;
    assert_eq!(holder(&life, &estate).await, None);
    assert_eq!(holders(&life, other.key()).await, 0);
    assert_eq!(delete(&life, &format!("/api/v2/volumes/{volume}")).await, StatusCode::ACCEPTED);
    eventually("gone", async || get_volume(&life, volume).await.0 == StatusCode::NOT_FOUND).await;
    assert!(inventory(&life, estate.region).await.volumes.is_empty());
    let tenant = world.tenants[0];
    let usage = life.store.usage(tenant.organization).await.expect("reads");
    let used = usage.iter().filter(|usage| usage.used != Amount::default()).collect::<Vec<_>>();
    assert_eq!(used.len(), 1, "only the network is still charged: {used:?}");
}

#[tokio::test(start_paused = true)]
async fn a_volume_waits_for_its_server_to_boot() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let server = create_server(&life, estate.network, &[], "slow").await;
    let volume = create_volume(&life, estate.network, Some(server)).await;
    let mut waited = false;
    eventually("attached", async || {
        let (_, shown) = get_volume(&life, volume).await;
        waited |= shown["metadata"]["provisioningStatusDetail"]["reason"] == "DependencyNotReady";
        shown["metadata"]["provisioningStatus"] == "provisioned"
    })
    .await;
    assert!(waited, "that it waits was said");
    assert_eq!(server_status(&life, server).await, "provisioned");
}

#[tokio::test(start_paused = true)]
async fn a_server_given_up_on_lets_go_of_its_volume_when_it_is_moved_away() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let volume = create_volume(&life, estate.network, Some(estate.server)).await;
    ready(&life, volume).await;
    // The new claimant never starts: the volume waits for it, but the server that had it is free.
    let handle = life.clouds.handle(estate.region).expect("simulated");
    handle.add_faults(vec![Fault::always("create-server", Effect::FailedBoot)]).await.expect("takes faults");
    let doomed = create_server(&life, estate.network, &[], "doomed").await;
    update(&life, volume, 10, Some(doomed)).await;
    eventually("let go of", async || holders(&life, estate.server.key()).await == 0).await;
    assert_eq!(holder(&life, &estate).await, None);
    eventually("given up on", async || server_status(&life, doomed).await == "error").await;
    let reason = async || get_volume(&life, volume).await.1["metadata"]["provisioningStatusDetail"]["reason"].clone();
    eventually("said", async || reason().await == "DependencyFailed").await;
    update(&life, volume, 10, Some(estate.server)).await;
    ready(&life, volume).await;
    assert_eq!(holder(&life, &estate).await, Some(estate.server.0));
}

#[tokio::test(start_paused = true)]
async fn a_rebuild_keeps_the_volume_and_a_server_that_vanished_gets_it_back() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let volume = create_volume(&life, estate.network, Some(estate.server)).await;
    ready(&life, volume).await;
    let before = object(&life, &estate).await;
    assert_eq!(rebuild(&life, estate.server, IMAGE_GPU).await.0, StatusCode::ACCEPTED);
    running(&life, estate.server).await;
    assert_eq!(object(&life, &estate).await, before);
    assert_eq!(volume_status(&life, volume).await, "provisioned");

    let machine = inventory(&life, estate.region).await.servers.remove(0).id;
    behind_our_back(&life, &estate, BackdoorChange::Delete { id: machine.clone() }).await;
    eventually("given to the new machine", async || {
        let attached = object(&life, &estate).await.attachment().cloned();
        attached.is_some_and(|attachment| attachment.server != machine)
    })
    .await;
    ready(&life, volume).await;
    running(&life, estate.server).await;
    assert_eq!(holder(&life, &estate).await, Some(estate.server.0));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_was_pulled_out_is_put_back() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let volume = create_volume(&life, estate.network, Some(estate.server)).await;
    ready(&life, volume).await;
    let id = object(&life, &estate).await.id;
    behind_our_back(&life, &estate, BackdoorChange::DropAttachment { volume: id }).await;
    assert_eq!(holder(&life, &estate).await, None);
    eventually("put back", async || holder(&life, &estate).await == Some(estate.server.0)).await;
    ready(&life, volume).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_volume_is_said_to_be_lost_is_not_replaced_and_can_be_deleted() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let volume = create_volume(&life, estate.network, Some(estate.server)).await;
    ready(&life, volume).await;
    let id = object(&life, &estate).await.id;
    behind_our_back(&life, &estate, BackdoorChange::Delete { id }).await;
    eventually("said", async || volume_status(&life, volume).await == "error").await;
    let (_, shown) = get_volume(&life, volume).await;
    assert_eq!(shown["metadata"]["provisioningStatusDetail"]["reason"], "VolumeLost", "{shown}");
    assert_eq!(shown["metadata"]["healthStatus"], "error");
    assert!(inventory(&life, estate.region).await.volumes.is_empty());
    assert_eq!(delete(&life, &format!("/api/v2/volumes/{volume}")).await, StatusCode::FORBIDDEN, "still claimed");
    update(&life, volume, 10, None).await;
    eventually("the server is let go of", async || holders(&life, estate.server.key()).await == 0).await;
    assert!(inventory(&life, estate.region).await.volumes.is_empty(), "a new intent does not make another either");
    assert_eq!(volume_status(&life, volume).await, "error");
    assert_eq!(delete(&life, &format!("/api/v2/volumes/{volume}")).await, StatusCode::ACCEPTED);
    eventually("gone", async || get_volume(&life, volume).await.0 == StatusCode::NOT_FOUND).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_made_is_given_up_on_after_three_tries_and_tried_again_when_reset() {
    use regent::supervision::inspection::{Inspection, OperatorVerb};
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let handle = life.clouds.handle(estate.region).expect("simulated");
    handle.add_faults(vec![Fault::always("create-volume", Effect::FailedBoot)]).await.expect("takes faults");
    let volume = create_volume(&life, estate.network, None).await;
    eventually("given up on", async || volume_status(&life, volume).await == "error").await;
    let creations = async || {
        let books = handle.creations().await.expect("books");
        let own = books.creations.into_iter().find(|creation| creation.marks.id == volume.0).expect("made");
        (own.count.created, own.count.at_once_max)
    };
    assert_eq!(creations().await, (3, 1));
    let history = life.store.history(volume.key()).await.expect("reads");
    assert!(history.iter().any(|transition| transition.reason == Reason::ProviderCreateRetrying), "{history:?}");
    handle.clear_faults().await.expect("clears");
    life.supervision.inspector().verb(volume.key(), OperatorVerb::Reset).await.expect("resets");
    ready(&life, volume).await;
    assert_eq!(creations().await, (4, 1));
}

/// Everything of the project goes: the volume before the server that has it, both before their network.
#[tokio::test(start_paused = true)]
async fn deleting_a_project_takes_the_volume_from_its_server_first() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let volume = create_volume(&life, estate.network, Some(estate.server)).await;
    let loose = create_volume(&life, estate.network, None).await;
    ready(&life, volume).await;
    ready(&life, loose).await;
    let handle = life.clouds.handle(estate.region).expect("simulated");
    let last = handle.calls(0).await.expect("books").len();
    let tenant = world.tenants[0];
    let path = format!("/api/v1/organizations/{}/projects/{}", tenant.organization, tenant.project);
    assert_eq!(delete(&life, &path).await, StatusCode::ACCEPTED);
    eventually("the project is gone", async || life.store.get(tenant.project.key()).await.expect("reads").is_none())
        .await;
    assert_eq!(get_volume(&life, volume).await.0, StatusCode::NOT_FOUND);
    assert_eq!(get_server(&life, estate.server).await.0, StatusCode::NOT_FOUND);
    assert_eq!(get(&life, estate.network).await.0, StatusCode::NOT_FOUND);
    assert!(inventory(&life, estate.region).await.is_empty());
    assert!(life.store.allocations().await.expect("reads").is_empty());
    let mut ended = Vec::new();
    for call in handle.calls(0).await.expect("books").into_iter().skip(last) {
        let about = ["detach-volume", "delete-volume", "delete-server", "delete-network"];
        let is_own = call.marked == Some(volume.0) || !call.operation.contains("volume");
        if call.applied && is_own && about.contains(&call.operation.as_str()) && !ended.contains(&call.operation) {
            ended.push(call.operation);
        }
    }
    assert_eq!(ended, ["detach-volume", "delete-volume", "delete-server", "delete-network"]);
}

#[test]
fn a_volume_cut_anywhere_in_its_life_ends_with_exactly_its_claimant_and_its_charge() {
    let ask = async |_: &World, life: &Life, estate: &Estate| {
        let volume = create_volume(life, estate.network, Some(estate.server)).await;
        ready(life, volume).await;
        update(life, volume, 15, None).await;
        ready(life, volume).await;
        assert_eq!(delete(life, &format!("/api/v2/volumes/{volume}")).await, StatusCode::ACCEPTED);
        eventually("gone", async || get_volume(life, volume).await.0 == StatusCode::NOT_FOUND).await;
    };
    // Each step of a batch is cut elsewhere.
    cut_everywhere(&[Mode::Atomic], ask, async |_, life, estate| {
        let (status, all) = life.request("GET", "/api/v2/volumes", None).await;
        assert_eq!(status, StatusCode::OK);
        let books = life.clouds.handle(estate.region).expect("simulated").creations().await.expect("books");
        assert!(books.creations.iter().all(|creation| creation.count.at_once_max <= 1), "{books:?}");
        // The request may have died with the process: what is stored is what must be.
        let Some(shown) = all.as_array().and_then(|all| all.first()).cloned() else {
            assert!(inventory(life, estate.region).await.volumes.is_empty());
            assert!(
                life.store.allocations().await.expect("reads").iter().all(|charge| charge.holder.id == estate.network)
            );
            return;
        };
        let volume = VolumeId(shown["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID"));
        if shown["metadata"]["deletionTime"].is_string() {
            eventually("gone", async || get_volume(life, volume).await.0 == StatusCode::NOT_FOUND).await;
            assert!(inventory(life, estate.region).await.volumes.is_empty());
            return;
        }
        ready(life, volume).await;
        let claimed = shown["spec"]["serverId"].as_str().map(|id| id.parse::<Uuid>().expect("a UUID"));
        assert_eq!(holder(life, estate).await, claimed);
        let held = life.store.referred_by(&regent::model::edge::Holder::Resource(volume.key())).await.expect("reads");
        let servers = held.iter().filter(|key| **key != super::key(estate.network)).map(|key| key.id);
        assert_eq!(servers.collect::<Vec<_>>(), claimed.into_iter().collect::<Vec<_>>());
        let charged = life.store.allocations().await.expect("reads");
        let charge = charged.iter().find(|charge| charge.holder == volume.key()).expect("it is charged");
        let amounts = charge.amounts.values().map(|amount| json!(amount.total())).collect::<Vec<_>>();
        assert_eq!(amounts, [shown["spec"]["sizeGiB"].clone()]);
    });
}
