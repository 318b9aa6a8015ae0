//! What one caller meets: joining, cancelling, deadlines, the record.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test(start_paused = true)]
async fn identical_reads_of_one_tenant_share_one_call_and_its_sequence() {
    let rig = Rig::start(PoolSettings::default()).await;
    let caller = Caller::of(1);
    let first = rig.read(&caller, network("show", 1), answer(SECOND, "first"));
    rig.begun(1).await;
    let second = rig.read(&caller, network("show", 1), answer(SECOND, "second"));
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!((first.fact, first.sequence), ("first", second.sequence));
    assert_eq!(second.fact, "first");
    assert_eq!(rig.pool.recent().len(), 1);
    let third = rig.read(&caller, network("show", 1), answer(SECOND, "third")).await.unwrap().unwrap();
    assert_eq!(third.fact, "third", "what has landed is not joined");
    assert!(third.sequence > second.sequence);
}

#[tokio::test(start_paused = true)]
async fn reads_of_other_tenants_subjects_or_types_are_not_joined() {
    let rig = Rig::start(PoolSettings::default()).await;
    let (caller, foreigner) = (Caller::of(1), Caller::of(2));
    let text = rig.read(&caller, network("show", 1), answer(SECOND, "text"));
    let number = rig.read(&caller, network("show", 1), answer(SECOND, 7));
    let subject = rig.read(&caller, network("show", 2), answer(SECOND, "other"));
    let foreign = rig.read(&foreigner, network("show", 1), answer(SECOND, "foreign"));
    assert_eq!(text.await.unwrap().unwrap().fact, "text");
    assert_eq!(number.await.unwrap().unwrap().fact, 7);
    assert_eq!(subject.await.unwrap().unwrap().fact, "other");
    assert_eq!(foreign.await.unwrap().unwrap().fact, "foreign");
    assert_eq!(rig.pool.recent().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_read_whose_waiters_are_gone_is_stopped_and_never_joined() {
    let rig = Rig::start(at_most(1)).await;
    let (caller, impatient) = (Caller::of(1), Caller::of(1));
    let start = Instant::now();
    let cancelled = rig.read(&impatient, network("show", 1), silence::<&str>());
    rig.begun(1).await;
    impatient.cancelled.cancel();
    let fresh = rig.read(&caller, network("show", 1), answer(MILLISECOND, "fresh"));
    assert_eq!(fresh.await.unwrap().unwrap().fact, "fresh");
    assert_eq!(cancelled.await.unwrap(), Err(ProviderError::Cancelled));
    assert_eq!(start.elapsed(), MILLISECOND, "its permit came back at once");
    let outcomes: Vec<_> = rig.pool.recent().iter().map(|call| call.end.unwrap().outcome).collect();
    assert_eq!(outcomes, [Outcome::Abandoned, Outcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn a_shared_read_goes_on_while_anybody_waits_for_it() {
    let rig = Rig::start(PoolSettings::default()).await;
    let (patient, impatient) = (Caller::of(1), Caller::of(1));
    let first = rig.read(&impatient, network("show", 1), answer(SECOND, "shared"));
    rig.begun(1).await;
    let second = rig.read(&patient, network("show", 1), answer(SECOND, "not made"));
    tokio::task::yield_now().await;
    impatient.cancelled.cancel();
    assert_eq!(first.await.unwrap(), Err(ProviderError::Cancelled));
    assert_eq!(second.await.unwrap().unwrap().fact, "shared");
}

#[tokio::test(start_paused = true)]
async fn after_a_change_nobody_joins_a_read_that_was_begun_before_it() {
    let rig = Rig::start(PoolSettings::default()).await;
    let caller = Caller::of(1);
    let before = rig.read(&caller, network("show", 1), answer(SECOND, "before"));
    rig.begun(1).await;
    let change = rig.mutate(&caller, network("create", 1), answer(MILLISECOND, ())).await.unwrap().unwrap();
    let after = rig.read(&caller, network("show", 1), answer(SECOND, "after")).await.unwrap().unwrap();
    assert_eq!(after.fact, "after");
    let before = before.await.unwrap().unwrap();
    assert_eq!(before.fact, "before");
    assert!(before.sequence < change.sequence && change.sequence < after.sequence);
}

#[tokio::test(start_paused = true)]
async fn after_a_change_a_read_that_still_waits_in_line_is_joined_all_the_same() {
    let rig = Rig::start(at_most(1)).await;
    let caller = Caller::of(1);
    let change = rig.mutate(&caller, network("create", 1), answer(SECOND, ()));
    rig.begun(1).await;
    let hold = rig.mutate(&caller, network("create", 2), answer(SECOND, ()));
    rig.queued(Service::Network, 1).await;
    let first = rig.read(&caller, network("show", 1), answer(SECOND, "first"));
    rig.queued(Service::Network, 2).await;
    change.await.unwrap().unwrap();
    let second = rig.read(&caller, network("show", 1), answer(SECOND, "second"));
    assert_eq!(second.await.unwrap().unwrap().fact, "first");
    assert_eq!(first.await.unwrap().unwrap().fact, "first");
    hold.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_cancelled_already_does_not_even_make_its_read() {
    let rig = Rig::start(PoolSettings::default()).await;
    let caller = Caller::of(1);
    caller.cancelled.cancel();
    let make = || -> BoxFuture<'static, ProviderResult<()>> { panic!("it was made") };
    assert_eq!(rig.pool.read(&caller.context(), network("show", 1), make).await, Err(ProviderError::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_panics_fails_its_waiters_and_nobody_else() {
    let rig = Rig::start(at_most(1)).await;
    let caller = Caller::of(1);
    let broken = rig.read(&caller, network("show", 1), async { panic!("a bug in a provider") as ProviderResult<()> });
    assert!(is_unavailable(&broken.await.unwrap()));
    rig.read(&caller, network("show", 1), answer(SECOND, ())).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_cancelled_in_line_is_never_made() {
    let rig = Rig::start(at_most(1)).await;
    let (caller, impatient) = (Caller::of(1), Caller::of(1));
    let begun = rig.mutate(&caller, network("create", 0), answer(SECOND, ()));
    rig.begun(1).await;
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let waiting = rig.mutate(&impatient, network("create", 1), async move {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    rig.queued(Service::Network, 1).await;
    let start = Instant::now();
    impatient.cancelled.cancel();
    assert_eq!(waiting.await.unwrap(), Err(ProviderError::Cancelled));
    rig.queued(Service::Network, 0).await;
    assert_eq!(Instant::now(), start);
    begun.await.unwrap().unwrap();
    rig.quiet().await;
    assert_eq!(made.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_begun_is_awaited_although_it_is_cancelled() {
    let rig = Rig::start(PoolSettings::default()).await;
    let caller = Caller::of(1);
    let change = rig.mutate(&caller, network("create", 1), answer(SECOND, "made"));
    rig.begun(1).await;
    caller.cancelled.cancel();
    assert_eq!(change.await.unwrap().unwrap().fact, "made");
    let refused = rig.mutate(&caller, network("create", 2), answer(SECOND, ())).await.unwrap();
    assert_eq!(refused, Err(ProviderError::Cancelled), "but it begins nothing more");
    let refused = rig.read(&caller, network("show", 2), answer(SECOND, ())).await.unwrap();
    assert_eq!(refused, Err(ProviderError::Cancelled));
    assert_eq!(rig.pool.recent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_its_deadline() {
    let rig = Rig::start(PoolSettings::default()).await;
    let caller = Caller::of(1);
    let start = Instant::now();
    let change = rig.mutate(&caller, network("create", 1), silence::<()>());
    assert!(is_unavailable(&rig.read(&caller, network("show", 1), silence::<()>()).await.unwrap()));
    assert_eq!(start.elapsed(), READ_DEADLINE);
    caller.cancelled.cancel();
    let Err(ProviderError::Unavailable(text)) = change.await.unwrap() else { panic!("it had no answer") };
    assert_eq!(text, "the call did not answer in time; its outcome is unknown");
    assert_eq!(start.elapsed(), MUTATION_DEADLINE);
    assert!(rig.pool.recent().iter().all(|call| call.end.unwrap().outcome == Outcome::TimedOut));
    rig.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn the_permit_of_a_caller_that_was_aborted_comes_back() {
    let rig = Rig::start(at_most(1)).await;
    let caller = Caller::of(1);
    let aborted = rig.mutate(&caller, network("create", 1), silence::<()>());
    rig.begun(1).await;
    let waiting = rig.mutate(&caller, network("create", 2), answer(SECOND, ()));
    let waiting_and_aborted = rig.mutate(&caller, network("create", 3), answer(SECOND, ()));
    rig.queued(Service::Network, 2).await;
    let start = Instant::now();
    waiting_and_aborted.abort();
    aborted.abort();
    waiting.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), SECOND);
    rig.quiet().await;
    let outcomes: Vec<_> = rig.pool.recent().iter().map(|call| call.end.unwrap().outcome).collect();
    assert_eq!(outcomes, [Outcome::Abandoned, Outcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn the_record_shows_the_latest_calls_and_when_they_were_made() {
    let rig = Rig::start(PoolSettings { recent_max: 3, ..at_most(1) }).await;
    let caller = Caller::of(1);
    let calls: Vec<_> = (0..5).map(|n| rig.mutate(&caller, network("create", n), answer(SECOND, ()))).collect();
    let start = Instant::now();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let records = rig.pool.recent();
    assert_eq!(records.iter().map(|call| call.sequence.0).collect::<Vec<_>>(), [3, 4, 5]);
    let last = records.last().unwrap();
    assert_eq!((last.subject.as_str(), last.operation, last.mutation), ("4", "create", true));
    assert_eq!((last.queued_at, last.issued_at), (start, start + 4 * SECOND));
    assert_eq!(last.end, Some(CallEnd { finished_at: start + 5 * SECOND, outcome: Outcome::Succeeded }));
}

#[tokio::test(start_paused = true)]
async fn the_meters_show_calls_refusals_and_the_state_of_a_service() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let rig = Rig::start(PoolSettings { queued_per_tenant_max: 0, ..at_most(2) }).await;
    let caller = Caller::of(1);
    let refused = rig.mutate(&caller, network("create", 1), answer(SECOND, ())).await.unwrap();
    assert!(matches!(refused, Err(ProviderError::Throttled { .. })));
    let rig = Rig::start(at_most(2)).await;
    let call = rig.mutate(&caller, network("create", 1), answer(SECOND, ()));
    rig.begun(1).await;
    let labels = format!(r#"region="{}",service="network""#, Uuid::from_u128(9));
    let shows = |line: String| assert!(handle.render().contains(&line), "{line} in\n{}", handle.render());
    shows(format!(r"regent_provider_in_flight{{{labels}}} 1"));
    call.await.unwrap().unwrap();
    rig.quiet().await;
    shows(format!(r#"regent_provider_calls_total{{{labels},operation="create",outcome="succeeded"}} 1"#));
    shows(format!(r#"regent_provider_call_seconds_sum{{{labels},operation="create"}} 1"#));
    shows(format!(r#"regent_provider_refused_total{{{labels},reason="line-full"}} 1"#));
    shows(format!(r"regent_provider_in_flight{{{labels}}} 0"));
    shows(format!(r"regent_provider_queued{{{labels}}} 0"));
    shows(format!(r"regent_provider_concurrency_limit{{{labels}}} 2"));
    shows(format!(r"regent_provider_breaker{{{labels}}} 0"));
}
