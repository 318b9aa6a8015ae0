//! A network's life from the first request to the last.

use std::time::Duration;

use axum::http::StatusCode;
use regent::graph::message::Message;
use regent::providers::simulated::call::CloudError;
use regent::providers::simulated::engine::faults::{CallPattern, Effect, Fault};
use serde_json::json;

use super::{create, eventually, get, provisioned, provisioning_status, world};

#[tokio::test(start_paused = true)]
async fn a_network_is_made_changed_protected_and_unmade() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let id = create(&world, &life, "one", region).await;
    provisioned(&life, id).await;
    let inventory = life.clouds.handle(region).expect("simulated").inventory().await.expect("books");
    assert_eq!((inventory.identities.len(), inventory.networks.len(), inventory.vlans.len()), (1, 1, 1));

    let path = format!("/api/v2/networks/{id}");
    let update = json!({"metadata": {"name": "renamed"}, "spec": {"dnsNameservers": ["9.9.9.9"]}});
    let (status, answer) = life.request("PUT", &path, Some(update)).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    provisioned(&life, id).await;
    let inventory = life.clouds.handle(region).expect("simulated").inventory().await.expect("books");
    assert!(serde_json::to_string(&inventory.subnets).expect("json").contains("9.9.9.9"));

    let holder = "computeinstances.compute.example.org%2F00000000-0000-4000-8000-000000000001";
    let reference = format!("{path}/references/{holder}");
    assert_eq!(life.request("PUT", &reference, None).await.0, StatusCode::CREATED);
    let (status, answer) = life.request("DELETE", &path, None).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(answer["error_description"].as_str().expect("text").contains("in use"), "{answer}");
    assert_eq!(life.request("DELETE", &reference, None).await.0, StatusCode::NO_CONTENT);

    assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED);
    assert_eq!(provisioning_status(&life, id).await, "deprovisioning");
    eventually("gone", async || get(&life, id).await.0 == StatusCode::NOT_FOUND).await;
    eventually("the principal followed", async || {
        let inventory = life.clouds.handle(region).expect("simulated").inventory().await.expect("books");
        inventory.identities.is_empty() && inventory.users.is_empty() && inventory.networks.is_empty()
    })
    .await;
    assert!(life.store.claims().await.expect("reads").is_empty(), "the VLAN is free again");
    assert!(life.store.allocations().await.expect("reads").is_empty(), "the quota is free again");
}

#[tokio::test(start_paused = true)]
async fn a_delete_does_not_wait_for_reads_that_hang() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let handle = life.clouds.handle(region).expect("simulated");
    let reads = CallPattern { mutating: Some(false), ..CallPattern::default() };
    let hang = Fault { matching: reads, effect: Effect::Slow { delay_ms: 60_000 }, times: None, probability: None };
    handle.add_faults(vec![hang]).await.expect("takes faults");
    let id = create(&world, &life, "hung", region).await;
    let pool = life.clouds.pool(region).expect("a pool");
    eventually("a read hangs", async || !pool.recent().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(3)).await;

    let last = pool.recent().last().expect("a call").sequence;
    let asked = tokio::time::Instant::now();
    let (status, _) = life.request("DELETE", &format!("/api/v2/networks/{id}"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let mut first = None;
    eventually("the delete pass calls", async || {
        first = pool.recent().into_iter().find(|call| call.sequence > last);
        first.is_some()
    })
    .await;
    let waited = first.expect("found").issued_at.duration_since(asked);
    assert!(waited <= Duration::from_millis(100), "the first call of the delete came after {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn trouble_that_passes_is_never_shown_as_an_error() {
    let (world, life) = world().await;
    let region = world.regions()[1];
    let handle = life.clouds.handle(region).expect("simulated");
    let down = Effect::Error { error: CloudError::Unavailable };
    handle.add_faults(vec![Fault { times: Some(8), ..Fault::always("*", down) }]).await.expect("takes faults");
    let id = create(&world, &life, "patient", region).await;
    let mut words = Vec::new();
    eventually("provisioned", async || {
        let status = provisioning_status(&life, id).await;
        if words.last() != Some(&status) {
            words.push(status.clone());
        }
        status == "provisioned"
    })
    .await;
    assert!(
        words.iter().all(|status| ["pending", "provisioning", "provisioned"].contains(&status.as_str())),
        "{words:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn everything_converges_without_the_monitor() {
    let mut world = crate::support::world::World::new(1, regent::store::memory::Mode::Atomic);
    world.options.poll_settled = Duration::from_secs(1_000_000);
    world.options.poll_pending = Duration::from_secs(1_000_000);
    world.furnish().await;
    let life = world.begin_life().await;
    let region = world.regions()[0];
    let handle = life.clouds.handle(region).expect("simulated");
    let stuck = Effect::StuckDelete { for_ms: Some(20_000) };
    handle.add_faults(vec![Fault::once("delete-network", stuck)]).await.expect("takes faults");
    let id = create(&world, &life, "unwatched", region).await;
    provisioned(&life, id).await;
    assert_eq!(life.request("DELETE", &format!("/api/v2/networks/{id}"), None).await.0, StatusCode::ACCEPTED);
    eventually("gone", async || get(&life, id).await.0 == StatusCode::NOT_FOUND).await;
}

/// Makes a network, deletes it, and returns how many changes that took in the cloud.
async fn changes_for_one_life(repeat: bool) -> u64 {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let handle = life.clouds.handle(region).expect("simulated");
    let graph = life.supervision.environment().graph.clone();
    // Everything that can be said is said again and again, to everybody, while it happens.
    let nag = async || {
        for node in graph.nodes().into_iter().filter(|_| repeat) {
            if let Some(record) = life.store.get(node.key()).await.expect("reads") {
                graph.send(node.key(), Message::Changed(record));
            }
            for other in graph.nodes() {
                graph.send(node.key(), Message::DependencyMoved(other.key()));
                graph.send(node.key(), Message::ChildGone(other.key()));
            }
            graph.send(node.key(), Message::Referenced);
            graph.send(node.key(), Message::Reconcile);
        }
    };
    let id = create(&world, &life, "nagged", region).await;
    eventually("provisioned", async || {
        nag().await;
        provisioning_status(&life, id).await == "provisioned"
    })
    .await;
    assert_eq!(life.request("DELETE", &format!("/api/v2/networks/{id}"), None).await.0, StatusCode::ACCEPTED);
    eventually("gone", async || {
        nag().await;
        handle.inventory().await.expect("books").identities.is_empty()
    })
    .await;
    handle.counters().await.expect("books").mutations
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_repeated_change_nothing_more_in_the_cloud() {
    assert_eq!(changes_for_one_life(true).await, changes_for_one_life(false).await);
}
