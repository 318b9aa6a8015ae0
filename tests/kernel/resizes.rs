//! Another flavor for a server. No client can ask for one here: what is asked for is written into the store, as the kind
//! does that servers belong to.

use axum::http::StatusCode;
use regent::model::condition::Reason;
use regent::model::ids::{FlavorId, NetworkId, ServerId};
use regent::model::record::Document;
use regent::model::server::{Server, ServerDetail, ServerSpec};
use regent::providers::simulated::catalogue::{FLAVOR_GPU, FLAVOR_LARGE, FLAVOR_METAL, FLAVOR_STANDARD, IMAGE_GPU};
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::providers::simulated::engine::faults::{Effect, Fault};
use regent::providers::simulated::objects::ServerBody;
use regent::store::memory::Mode;
use regent::store::{Batch, Write};

use super::machines::{Estate, create_server, estate, get_server, inventory, power_state, running, server_status};
use super::servers::{cut_everywhere, never_two, verb};
use super::{eventually, world};
use crate::support::world::{Life, World};

/// Changes what is asked for of a server, as something that has never been asked for.
async fn ask(life: &Life, server: ServerId, change: impl FnOnce(&mut ServerSpec)) {
    let record = life.store.get(server.key()).await.expect("reads").expect("stored");
    let mut resource = record.open::<Server>().expect("opens");
    change(&mut resource.spec);
    resource.metadata.generation += 1;
    let metadata = Box::new(resource.metadata);
    let spec = Document::of(&resource.spec);
    let write = Write::Intent { key: record.key, expected: record.revision, metadata, spec };
    life.store.commit(Batch::of(vec![write])).await.expect("commits");
}

async fn resize(life: &Life, server: ServerId, flavor: FlavorId) {
    ask(life, server, |spec| spec.flavor = flavor).await;
}

async fn detail(life: &Life, server: ServerId) -> ServerDetail {
    let record = life.store.get(server.key()).await.expect("reads").expect("stored");
    record.detail.read::<ServerDetail>().expect("reads")
}

async fn machine(life: &Life, estate: &Estate) -> ServerBody {
    let held = inventory(life, estate.region).await;
    let of_estate = |object: &&regent::providers::simulated::objects::CloudObject| {
        object.marks.is_some_and(|marks| marks.id == estate.server.0)
    };
    held.servers.iter().find(of_estate).and_then(|object| object.server()).expect("a server").clone()
}

/// The orders that the cloud has followed, in their order.
async fn orders(life: &Life, estate: &Estate) -> Vec<String> {
    let calls = life.clouds.handle(estate.region).expect("simulated").calls(0).await.expect("a log");
    let of_server = calls.into_iter().filter(|call| call.applied && call.marked == Some(estate.server.0));
    of_server.map(|call| call.operation).filter(|word| word.contains("resize") || word.contains("rebuild")).collect()
}

async fn add_fault(life: &Life, estate: &Estate, fault: Fault) {
    life.clouds.handle(estate.region).expect("simulated").add_faults(vec![fault]).await.expect("takes faults");
}

/// Why the server is not what was asked for.
async fn reason(life: &Life, server: ServerId) -> Option<Reason> {
    let record = life.store.get(server.key()).await.expect("reads").expect("stored");
    record.conditions.available.as_ref().map(|condition| condition.reason)
}

#[tokio::test(start_paused = true)]
async fn a_server_gets_the_flavor_that_is_asked_for_and_stays_itself() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let (before, shown) = (detail(&life, estate.server).await, get_server(&life, estate.server).await.1);
    resize(&life, estate.server, FLAVOR_LARGE).await;
    assert_eq!(server_status(&life, estate.server).await, "provisioning");
    eventually("at work", async || power_state(&life, estate.server).await == "Rebuilding").await;
    assert_eq!(server_status(&life, estate.server).await, "provisioning");
    let asked = tokio::time::Instant::now();
    running(&life, estate.server).await;
    assert!(asked.elapsed().as_secs() < 10, "{:?}: it did not take the look at everything", asked.elapsed());
    let after = detail(&life, estate.server).await;
    assert_eq!((after.server, after.image), (before.server, before.image));
    assert_eq!((after.flavor, after.resize), (Some(FLAVOR_LARGE), None));
    let again = get_server(&life, estate.server).await.1;
    for address in ["privateIP", "publicIP", "macAddress"] {
        assert_eq!(again["status"][address], shown["status"][address], "{address}");
    }
    assert_eq!(again["metadata"]["healthStatus"], "healthy");
    let machine = machine(&life, &estate).await;
    assert_eq!((machine.flavor, machine.life.awaits_confirmation), (FLAVOR_LARGE, false));
    assert_eq!(orders(&life, &estate).await, ["resize-server", "confirm-resize"]);
    never_two(&life, &estate).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_is_resized_and_stays_stopped() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    assert_eq!(verb(&life, &estate, "stop").await, StatusCode::ACCEPTED);
    eventually("stopped", async || power_state(&life, estate.server).await == "Stopped").await;
    resize(&life, estate.server, FLAVOR_LARGE).await;
    eventually("resized", async || server_status(&life, estate.server).await == "provisioned").await;
    assert_eq!(power_state(&life, estate.server).await, "Stopped");
    assert_eq!(machine(&life, &estate).await.flavor, FLAVOR_LARGE);
    assert_eq!(verb(&life, &estate, "start").await, StatusCode::ACCEPTED);
    running(&life, estate.server).await;
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_the_cloud_fails_is_told_and_another_flavor_is_asked_for() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    add_fault(&life, &estate, Fault::once("resize-server", Effect::FailedResize)).await;
    resize(&life, estate.server, FLAVOR_LARGE).await;
    eventually("parked", async || server_status(&life, estate.server).await == "error").await;
    assert_eq!(reason(&life, estate.server).await, Some(Reason::ServerResizeFailed));
    assert_eq!(power_state(&life, estate.server).await, "Error");
    tokio::time::sleep(std::time::Duration::from_mins(10)).await;
    assert_eq!(orders(&life, &estate).await, ["resize-server"], "it is not tried again by itself");

    // What has failed takes no such order: it is given once the server runs again.
    resize(&life, estate.server, FLAVOR_GPU).await;
    eventually("waiting", async || server_status(&life, estate.server).await == "provisioning").await;
    tokio::time::sleep(std::time::Duration::from_mins(2)).await;
    assert_eq!(orders(&life, &estate).await, ["resize-server"]);
    assert_eq!(verb(&life, &estate, "hardreboot").await, StatusCode::ACCEPTED);
    running(&life, estate.server).await;
    assert_eq!(machine(&life, &estate).await.flavor, FLAVOR_GPU);
    assert_eq!(detail(&life, estate.server).await.flavor, Some(FLAVOR_GPU));
    assert_eq!(orders(&life, &estate).await, ["resize-server", "resize-server", "confirm-resize"]);
}

#[tokio::test(start_paused = true)]
async fn a_flavor_that_the_cloud_refuses_is_told_and_the_old_one_settles_it() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    resize(&life, estate.server, FLAVOR_METAL).await;
    eventually("parked", async || server_status(&life, estate.server).await == "error").await;
    assert_eq!(reason(&life, estate.server).await, Some(Reason::ServerResizeFailed));
    assert_eq!(power_state(&life, estate.server).await, "Running", "nothing has happened to it");
    resize(&life, estate.server, FLAVOR_STANDARD).await;
    running(&life, estate.server).await;
    let after = detail(&life, estate.server).await;
    assert_eq!((after.flavor, after.resize), (Some(FLAVOR_STANDARD), None));
    assert!(orders(&life, &estate).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_user_who_changes_their_mind_half_way_gets_what_was_asked_for_last() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    resize(&life, estate.server, FLAVOR_LARGE).await;
    eventually("at work", async || machine(&life, &estate).await.flavor == FLAVOR_LARGE).await;
    resize(&life, estate.server, FLAVOR_STANDARD).await;
    running(&life, estate.server).await;
    assert_eq!(machine(&life, &estate).await.flavor, FLAVOR_STANDARD);
    let orders = orders(&life, &estate).await;
    assert_eq!(orders, ["resize-server", "confirm-resize", "resize-server", "confirm-resize"], "each is ended");
}

#[tokio::test(start_paused = true)]
async fn image_and_flavor_are_changed_one_after_the_other() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    ask(&life, estate.server, |spec| (spec.flavor, spec.image) = (FLAVOR_LARGE, IMAGE_GPU)).await;
    running(&life, estate.server).await;
    let machine = machine(&life, &estate).await;
    assert_eq!((machine.flavor, machine.image), (FLAVOR_LARGE, IMAGE_GPU));
    assert_eq!(orders(&life, &estate).await, ["rebuild-server", "resize-server", "confirm-resize"]);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_asked_for_during_a_resize_waits_for_its_end() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    resize(&life, estate.server, FLAVOR_LARGE).await;
    eventually("at work", async || machine(&life, &estate).await.flavor == FLAVOR_LARGE).await;
    ask(&life, estate.server, |spec| spec.image = IMAGE_GPU).await;
    running(&life, estate.server).await;
    assert_eq!(machine(&life, &estate).await.image, IMAGE_GPU);
    assert_eq!(orders(&life, &estate).await, ["resize-server", "confirm-resize", "rebuild-server"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_booting_is_resized_after_that_and_one_that_never_booted_is_made_with_it() {
    for fails in [false, true] {
        let (world, life) = world().await;
        let estate = estate(&world, &life).await;
        if fails {
            add_fault(&life, &estate, Fault::once("create-server", Effect::FailedBoot)).await;
        }
        let server = create_server(&life, estate.network, &[estate.group], "young").await;
        let young = Estate { server, ..estate };
        eventually("made", async || inventory(&life, young.region).await.servers.len() == 2).await;
        resize(&life, server, FLAVOR_LARGE).await;
        running(&life, server).await;
        assert_eq!(machine(&life, &young).await.flavor, FLAVOR_LARGE);
        assert_eq!(detail(&life, server).await.flavor, Some(FLAVOR_LARGE));
        let expected: &[&str] = if fails { &[] } else { &["resize-server", "confirm-resize"] };
        assert_eq!(orders(&life, &young).await, expected, "fails: {fails}");
        never_two(&life, &young).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_flavor_is_a_part_of_the_creation_as_long_as_there_is_no_machine() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    add_fault(&life, &estate, Fault { times: Some(2), ..Fault::always("create-port", Effect::Hang) }).await;
    let server = create_server(&life, estate.network, &[estate.group], "unborn").await;
    assert_eq!(server, ServerId::named(NetworkId(estate.network), "unborn"));
    resize(&life, server, FLAVOR_LARGE).await;
    running(&life, server).await;
    let unborn = Estate { server, ..estate };
    assert_eq!(machine(&life, &unborn).await.flavor, FLAVOR_LARGE);
    assert!(orders(&life, &unborn).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_flavor_changed_behind_our_back_is_shown_and_is_no_reason_for_an_order() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let object = inventory(&life, estate.region).await.servers.remove(0).id;
    let handle = life.clouds.handle(estate.region).expect("simulated");
    let set = |flavor| BackdoorChange::SetFlavor { server: object.clone(), flavor };
    handle.change_directly(set(FLAVOR_LARGE)).await.expect("changes");
    let health = async || get_server(&life, estate.server).await.1["metadata"]["healthStatus"].clone();
    eventually("degraded", async || health().await == "degraded").await;
    assert_eq!(server_status(&life, estate.server).await, "provisioned");
    tokio::time::sleep(std::time::Duration::from_mins(5)).await;
    assert!(orders(&life, &estate).await.is_empty());
    assert_eq!(machine(&life, &estate).await.flavor, FLAVOR_LARGE);
    handle.change_directly(set(FLAVOR_STANDARD)).await.expect("changes");
    eventually("healthy", async || health().await == "healthy").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_is_deleted_while_its_resize_waits_to_be_confirmed() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    add_fault(&life, &estate, Fault::always("confirm-resize", Effect::Hang)).await;
    resize(&life, estate.server, FLAVOR_LARGE).await;
    eventually("resized", async || machine(&life, &estate).await.life.awaits_confirmation).await;
    let path = format!("/api/v2/servers/{}", estate.server);
    assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED);
    eventually("gone", async || get_server(&life, estate.server).await.0 == StatusCode::NOT_FOUND).await;
    assert!(inventory(&life, estate.region).await.servers.is_empty());
}

#[test]
fn a_resize_cut_anywhere_is_finished_and_done_once() {
    let ask = async |_: &World, life: &Life, estate: &Estate| {
        resize(life, estate.server, FLAVOR_LARGE).await;
        running(life, estate.server).await;
    };
    cut_everywhere(&[Mode::Atomic, Mode::Saga], ask, async |_, life, estate| {
        // The intent may have died with the process: then nothing was asked for, and nothing may have been resized.
        let record = life.store.get(estate.server.key()).await.expect("reads").expect("stored");
        let asked = record.open::<Server>().expect("opens").spec.flavor;
        running(life, estate.server).await;
        assert_eq!(inventory(life, estate.region).await.servers.len(), 1);
        let machine = machine(life, estate).await;
        assert_eq!((machine.flavor, machine.life.awaits_confirmation), (asked, false));
        let counters = life.clouds.handle(estate.region).expect("simulated").counters().await.expect("books");
        for order in ["resize-server", "confirm-resize"] {
            let sent = counters.operations.get(order).copied().unwrap_or(0);
            assert_eq!(sent, u64::from(asked == FLAVOR_LARGE), "{order} is sent once, and when asked for");
        }
        never_two(life, estate).await;
    });
}
