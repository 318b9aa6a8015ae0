//! The lives of the actor: before the first, between two, and what passes from one to the next.

use super::permit::{Life, Permit, Ticket};
use super::*;

#[tokio::test(start_paused = true)]
async fn a_life_that_is_over_cannot_hand_out_permits() {
    let rig = Rig::start(PoolSettings::default()).await;
    assert!(Permit::issue(&rig.pool.shared, Life::default(), Ticket(1_000), Service::Network).is_none());
    rig.pool.spawn_linked(rig.region.clone()).await.unwrap();
    assert_eq!(rig.status(Service::Network).in_flight, 0, "and leaves no trace in the ledger");
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_actor_was_never_started_is_unavailable_at_once() {
    let ambient = Ambient::seeded(Arc::new(StoppedClock), 1);
    let pool = Pool::new(RegionId(Uuid::from_u128(9)), PoolSettings::default(), ambient);
    let context = Caller::of(1).context();
    let start = Instant::now();
    assert!(is_unavailable(&pool.mutate(&context, network("create", 1), || answer(SECOND, ()).boxed()).await));
    assert!(is_unavailable(&pool.read(&context, network("show", 1), || answer(SECOND, ()).boxed()).await));
    assert_eq!(Instant::now(), start);
    assert!(pool.status().is_empty());
}

#[tokio::test(start_paused = true)]
async fn when_the_actor_dies_waiting_callers_are_told_and_begun_calls_go_on() {
    let rig = Rig::start(at_most(2)).await;
    let caller = Caller::of(1);
    let begun = [0, 1].map(|n| rig.mutate(&caller, network("create", n), answer(10 * SECOND, n)));
    rig.begun(2).await;
    let waiting = rig.mutate(&caller, network("create", 2), answer(SECOND, 2));
    let reading = rig.read(&caller, network("show", 2), answer(SECOND, 2));
    rig.queued(Service::Network, 2).await;
    let start = Instant::now();
    rig.actor.kill();
    assert!(is_unavailable(&waiting.await.unwrap()));
    assert!(is_unavailable(&reading.await.unwrap()));
    assert!(is_unavailable(&rig.mutate(&caller, network("create", 3), answer(SECOND, ())).await.unwrap()));
    assert_eq!(Instant::now(), start);

    rig.pool.spawn_linked(rig.region.clone()).await.unwrap();
    assert_eq!(rig.status(Service::Network).in_flight, 2, "taken over from the life before");
    let next = rig.mutate(&caller, network("create", 4), answer(SECOND, 4));
    for call in begun {
        call.await.unwrap().unwrap();
    }
    next.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), 11 * SECOND, "the limit held over the restart");
    rig.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn permits_that_came_back_between_two_lives_are_not_missed_by_the_next() {
    let rig = Rig::start(at_most(1)).await;
    let caller = Caller::of(1);
    let begun = rig.mutate(&caller, network("create", 0), answer(SECOND, ()));
    rig.begun(1).await;
    rig.actor.kill();
    begun.await.unwrap().unwrap();
    rig.pool.spawn_linked(rig.region.clone()).await.unwrap();
    assert_eq!(rig.status(Service::Network).in_flight, 0);
    rig.mutate(&caller, network("create", 1), answer(SECOND, ())).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_second_start_replaces_a_life_that_still_runs() {
    let rig = Rig::start(at_most(1)).await;
    let caller = Caller::of(1);
    let begun = rig.mutate(&caller, network("create", 0), answer(SECOND, ()));
    rig.begun(1).await;
    let waiting = rig.mutate(&caller, network("create", 1), answer(SECOND, ()));
    rig.queued(Service::Network, 1).await;
    rig.pool.spawn_linked(rig.region.clone()).await.unwrap();
    assert!(is_unavailable(&waiting.await.unwrap()));
    let next = rig.mutate(&caller, network("create", 2), answer(SECOND, ()));
    begun.await.unwrap().unwrap();
    next.await.unwrap().unwrap();
    rig.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn sequences_go_on_over_a_restart() {
    let rig = Rig::start(PoolSettings::default()).await;
    let caller = Caller::of(1);
    let before = rig.read(&caller, network("show", 1), answer(SECOND, ())).await.unwrap().unwrap();
    rig.actor.kill();
    rig.pool.spawn_linked(rig.region.clone()).await.unwrap();
    let after = rig.read(&caller, network("show", 1), answer(SECOND, ())).await.unwrap().unwrap();
    assert!(after.sequence > before.sequence);
}
