//! How much and in which order: bounds, fairness, throttling, the breaker.

use futures_util::future::join_all;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_tenant_delays_another_by_no_more_than_the_calls_in_flight() {
    let rig = Rig::start(at_most(2)).await;
    let (flooder, other) = (Caller::of(1), Caller::of(2));
    let flood: Vec<_> =
        (0..100).map(|n| rig.mutate(&flooder, network("create", n), answer(10 * MILLISECOND, ()))).collect();
    rig.queued(Service::Network, 98).await;
    let single = rig.mutate(&other, network("create", "single"), answer(10 * MILLISECOND, ()));
    single.await.unwrap().unwrap();
    let calls = rig.pool.recent();
    let single = calls.iter().find(|call| call.tenant == other.tenant).unwrap();
    assert_eq!(single.issued_at - single.queued_at, 10 * MILLISECOND);
    assert_eq!(calls.iter().filter(|call| call.issued_at < single.issued_at).count(), 2);
    for call in flood {
        call.await.unwrap().unwrap();
    }
    rig.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_in_flight_than_the_limit_and_services_do_not_share_it() {
    let rig = Rig::start(at_most(3)).await;
    let caller = Caller::of(1);
    let mut calls: Vec<_> = (0..9).map(|n| rig.mutate(&caller, network("create", n), answer(SECOND, ()))).collect();
    calls.extend((0..3).map(|n| rig.mutate(&caller, compute("create", n), answer(SECOND, ()))));
    join_all(calls).await;
    let records = rig.pool.recent();
    let start = records[0].issued_at;
    let issued = |service, after: Duration| {
        records.iter().filter(|call| call.service == service && call.issued_at == start + after).count()
    };
    assert_eq!([0, 1, 2].map(|second| issued(Service::Network, SECOND * second)), [3, 3, 3]);
    assert_eq!(issued(Service::Compute, Duration::ZERO), 3);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_into_the_line_is_throttled_at_once_for_that_tenant_only() {
    let settings = PoolSettings { queued_per_tenant_max: 2, queued_total_max: 3, ..at_most(1) };
    let rig = Rig::start(settings).await;
    let (flooder, other, third) = (Caller::of(1), Caller::of(2), Caller::of(3));
    let begun = rig.mutate(&flooder, network("create", 0), answer(SECOND, ()));
    rig.begun(1).await;
    let waiting = [1, 2].map(|n| rig.mutate(&flooder, network("create", n), answer(SECOND, ())));
    rig.queued(Service::Network, 2).await;
    let start = Instant::now();
    let refused = rig.mutate(&flooder, network("create", 3), answer(SECOND, ())).await.unwrap();
    assert_eq!(refused, Err(ProviderError::Throttled { retry_after: None }));
    let fits = rig.mutate(&other, network("create", 4), answer(SECOND, ()));
    rig.queued(Service::Network, 3).await;
    let refused = rig.mutate(&third, network("create", 5), answer(SECOND, ())).await.unwrap();
    assert_eq!(refused, Err(ProviderError::Throttled { retry_after: None }));
    assert_eq!(Instant::now(), start);
    for call in waiting.into_iter().chain([begun, fits]) {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_too_long_is_throttled_and_leaves_the_line() {
    let rig = Rig::start(PoolSettings { queue_wait_max: 5 * SECOND, ..at_most(1) }).await;
    let caller = Caller::of(1);
    let begun = rig.mutate(&caller, network("create", 0), answer(20 * SECOND, ()));
    rig.begun(1).await;
    let start = Instant::now();
    let late = rig.mutate(&caller, network("create", 1), answer(SECOND, ())).await.unwrap();
    assert_eq!(late, Err(ProviderError::Throttled { retry_after: None }));
    assert_eq!(start.elapsed(), 5 * SECOND);
    rig.queued(Service::Network, 0).await;
    begun.await.unwrap().unwrap();
    assert_eq!(rig.pool.recent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_service_is_left_alone_until_the_cloud_allows_it_again() {
    let concurrency = Concurrency { min: 1, initial: 8, max: 8 };
    let rig = Rig::start(PoolSettings { concurrency, ..PoolSettings::default() }).await;
    let caller = Caller::of(1);
    let start = Instant::now();
    let too_much = async { Err::<(), _>(ProviderError::Throttled { retry_after: Some(5 * SECOND) }) };
    let refused = rig.mutate(&caller, network("create", 0), too_much).await.unwrap();
    assert_eq!(refused, Err(ProviderError::Throttled { retry_after: Some(5 * SECOND) }));
    until("the limit is halved", || rig.status(Service::Network).limit == 4).await;
    assert_eq!(rig.status(Service::Compute).limit, 8);

    rig.mutate(&caller, compute("create", 1), answer(MILLISECOND, ())).await.unwrap().unwrap();
    assert_eq!(start.elapsed(), MILLISECOND, "another service is not paused");

    let calls: Vec<_> = (0..200).map(|n| rig.mutate(&caller, network("list", n), answer(MILLISECOND, ()))).collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let records = rig.pool.recent();
    let after: Vec<_> = records.iter().filter(|call| call.operation == "list").collect();
    assert_eq!(after[0].issued_at, start + 5 * SECOND);
    assert_eq!(after.iter().filter(|call| call.issued_at == after[0].issued_at).count(), 4, "half as many as before");
    assert_eq!(rig.status(Service::Network).limit, 8, "recovered by being used");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_nobody_can_wait_out_is_told_at_once() {
    let rig = Rig::start(PoolSettings { queue_wait_max: 10 * SECOND, ..PoolSettings::default() }).await;
    let caller = Caller::of(1);
    let too_much = async { Err::<(), _>(ProviderError::Throttled { retry_after: Some(60 * SECOND) }) };
    rig.mutate(&caller, network("create", 0), too_much).await.unwrap().unwrap_err();
    tokio::time::advance(20 * SECOND).await;
    let start = Instant::now();
    let refused = rig.mutate(&caller, network("create", 1), answer(SECOND, ())).await.unwrap();
    assert_eq!(refused, Err(ProviderError::Throttled { retry_after: Some(40 * SECOND) }));
    assert_eq!(Instant::now(), start);
}

async fn open_breaker(rig: &Rig, caller: &Caller) {
    for n in 0..BREAKER_FAILURES_MAX {
        assert!(is_unavailable(&rig.mutate(caller, network("create", n), down()).await.unwrap()));
    }
    until("the breaker is open", || rig.status(Service::Network).breaker == BreakerState::Open).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_does_not_answer_is_not_asked_until_one_probe_was_answered() {
    let rig = Rig::start(PoolSettings::default()).await;
    let caller = Caller::of(1);
    open_breaker(&rig, &caller).await;
    let begun = rig.pool.recent().len();
    let open_until = rig.status(Service::Network).breaker_open_until.unwrap();
    assert!(open_until > Instant::now() && open_until <= Instant::now() + BREAKER_BACKOFF_FIRST * 5 / 4);

    let start = Instant::now();
    assert!(is_unavailable(&rig.read(&caller, network("show", 0), answer(SECOND, ())).await.unwrap()));
    assert_eq!(Instant::now(), start, "refused at once");
    assert_eq!(rig.pool.recent().len(), begun, "the cloud was not asked");
    rig.mutate(&caller, compute("create", 0), answer(SECOND, ())).await.unwrap().unwrap();

    tokio::time::advance(BREAKER_BACKOFF_FIRST * 5 / 4).await;
    let probe = rig.mutate(&caller, network("create", "probe"), answer(SECOND, ()));
    until("the probe is under way", || rig.status(Service::Network).breaker == BreakerState::HalfOpen).await;
    assert!(is_unavailable(&rig.mutate(&caller, network("create", 1), answer(SECOND, ())).await.unwrap()));
    probe.await.unwrap().unwrap();
    until("the breaker is closed", || rig.status(Service::Network).breaker == BreakerState::Closed).await;
    rig.mutate(&caller, network("create", 2), answer(SECOND, ())).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_cloud_closes_the_breaker_too() {
    let rig = Rig::start(PoolSettings::default()).await;
    let caller = Caller::of(1);
    open_breaker(&rig, &caller).await;
    tokio::time::advance(BREAKER_BACKOFF_FIRST * 5 / 4).await;
    let probe = rig.mutate(&caller, network("show", 0), async { Err::<(), _>(ProviderError::NotFound) });
    assert_eq!(probe.await.unwrap(), Err(ProviderError::NotFound));
    until("the breaker is closed", || rig.status(Service::Network).breaker == BreakerState::Closed).await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_in_line_when_the_breaker_opens_need_not_wait_for_the_same_silence() {
    let rig = Rig::start(PoolSettings { breaker_failures_max: 1, ..at_most(1) }).await;
    let caller = Caller::of(1);
    let first = rig.mutate(&caller, network("create", 0), silence::<()>());
    rig.begun(1).await;
    let waiting = rig.mutate(&caller, network("create", 1), answer(SECOND, ()));
    rig.queued(Service::Network, 1).await;
    tokio::time::advance(MUTATION_DEADLINE.saturating_sub(SECOND)).await;
    let start = Instant::now();
    let second_in_line = rig.read(&caller, network("show", 2), answer(SECOND, ()));
    assert!(is_unavailable(&first.await.unwrap()));
    assert!(is_unavailable(&second_in_line.await.unwrap()));
    assert_eq!(start.elapsed(), SECOND);
    waiting.await.unwrap().unwrap_err();
    assert_eq!(rig.pool.recent().len(), 1);
}
