//! Known defects of systems of this kind that only show when everything runs. Which there are, and what else proves that
//! Regent has none of them, is in `docs/defects.md`.

use std::time::Duration;

use axum::http::StatusCode;
use regent::providers::simulated::engine::faults::{Effect, Fault};
use regent::store::memory::Mode;
use regent::store::{Batch, Write};

use super::{create, eventually, get, key, provisioned, provisioning_status, world};
use crate::support::world::World;

#[tokio::test(start_paused = true)]
async fn b23_a_network_that_nothing_is_charged_for_is_deleted_all_the_same() {
    let (world, life) = world().await;
    let id = create(&world, &life, "free", world.regions()[0]).await;
    provisioned(&life, id).await;
    let record = life.store.get(key(id)).await.expect("reads").expect("stored");
    let incarnation = record.metadata.incarnation;
    let given_back = Batch::of(vec![Write::Release { holder: key(id), incarnation }]);
    life.store.commit(given_back).await.expect("commits");
    assert!(life.store.allocations().await.expect("reads").is_empty());
    assert_eq!(life.request("DELETE", &format!("/api/v2/networks/{id}"), None).await.0, StatusCode::ACCEPTED);
    eventually("gone", async || get(&life, id).await.0 == StatusCode::NOT_FOUND).await;
}

#[tokio::test(start_paused = true)]
async fn b25_who_waits_for_another_is_told_and_does_not_poll() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let handle = life.clouds.handle(region).expect("simulated");
    // The principal takes so long that its network has found it unfinished and waits.
    let slow = Effect::Slow { delay_ms: 7_000 };
    handle.add_faults(vec![Fault::once("create-user", slow)]).await.expect("takes faults");
    let asked = tokio::time::Instant::now();
    let id = create(&world, &life, "waiting", region).await;
    provisioned(&life, id).await;
    let took = asked.elapsed();
    // Far less than the minute after which it would have looked by itself.
    assert!(took > Duration::from_secs(7) && took < Duration::from_secs(9), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn b40_a_region_that_cannot_be_reached_is_nobody_elses_trouble() {
    let mut world = World::new(1, Mode::Atomic);
    world.furnish().await;
    let [away, there] = world.regions()[..] else { panic!("two regions") };
    // Away before the process starts.
    let silent = vec![Fault::always("*", Effect::Hang)];
    world.clouds[&away].lock().expect("not poisoned").cloud.add_faults(silent).expect("takes faults");
    let life = world.begin_life().await;
    let waiting = create(&world, &life, "waiting", away).await;
    let asked = tokio::time::Instant::now();
    let made = create(&world, &life, "made", there).await;
    provisioned(&life, made).await;
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert_ne!(provisioning_status(&life, waiting).await, "provisioned");
}
