//! Everything at once: seeded histories that must replay, and real threads that must not lose a permit.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;

use super::*;

const CONCURRENCY: u32 = 4;

/// What is in flight now and was at most, of one service.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Crowd {
    fn enter(self: &Arc<Self>) -> Inside {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Inside(Arc::clone(self))
    }
}

struct Inside(Arc<Crowd>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A call that ends somehow, some time.
fn eventful(random: &mut fastrand::Rng, crowd: &Arc<Crowd>) -> BoxFuture<'static, ProviderResult<u64>> {
    let (what, latency, crowd) = (random.u8(0..60), MILLISECOND * random.u32(0..50), Arc::clone(crowd));
    async move {
        let _inside = crowd.enter();
        tokio::time::sleep(latency).await;
        match what {
            0 => Err(ProviderError::Throttled { retry_after: Some(10 * latency) }),
            1..=12 => Err(ProviderError::Unavailable("a blip".to_owned())),
            13..=16 => Err(ProviderError::NotFound),
            _ => Ok(1),
        }
    }
    .boxed()
}

/// Many callers who read, change, cancel and are aborted, while the actor is killed now and then. Returns what the
/// cloud saw, with times from the start.
async fn history(seed: u64) -> Vec<(u64, String, Duration, Duration, Outcome)> {
    let settings = PoolSettings { recent_max: 10_000, queued_per_tenant_max: 20, ..at_most(CONCURRENCY) };
    let mut rig = Rig::start(settings).await;
    let (mut random, crowd, start) = (fastrand::Rng::with_seed(seed), Arc::new(Crowd::default()), Instant::now());
    let mut tasks = Vec::new();
    let mut kills = 0;
    for _ in 0..600 {
        let caller = Caller::of(random.u128(0..5));
        let (subject, call) = (random.u8(0..6), eventful(&mut random, &crowd));
        let task = if random.bool() {
            rig.read(&caller, network("show", subject), call)
        } else {
            rig.mutate(&caller, network("create", subject), call)
        };
        match random.u8(0..10) {
            0 => task.abort(),
            1 => caller.cancelled.cancel(),
            _ => {}
        }
        tasks.push(task);
        tokio::time::sleep(MILLISECOND * random.u32(0..6)).await;
        if random.u8(0..100) == 0 {
            kills += 1;
            rig.actor.kill();
            rig.actor = rig.pool.spawn_linked(rig.region.clone()).await.unwrap();
        }
    }
    assert!(kills > 0, "the history has a restart in it");
    join_all(tasks).await;
    rig.quiet().await;
    assert_eq!(crowd.now.load(Ordering::SeqCst), 0);
    assert_eq!(crowd.most.load(Ordering::SeqCst), CONCURRENCY as usize, "used to the full, and never more");
    let calls = rig.pool.recent().into_iter().map(|call| {
        let end = call.end.unwrap();
        (call.sequence.0, call.subject, call.issued_at - start, end.finished_at - start, end.outcome)
    });
    calls.collect()
}

fn in_paused_runtime<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(future)
}

#[test]
fn eventful_histories_lose_no_permit_keep_the_limit_and_replay_exactly() {
    for seed in 0..10 {
        let (first, second) = (in_paused_runtime(history(seed)), in_paused_runtime(history(seed)));
        assert!(first.len() > 100, "seed {seed} made {} calls", first.len());
        assert_eq!(first, second, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn real_threads_that_join_cancel_and_abort_lose_no_permit() {
    let rig = Rig::start(PoolSettings { breaker_failures_max: 1_000_000, ..at_most(CONCURRENCY) }).await;
    let crowd = Arc::new(Crowd::default());
    let callers: Vec<_> = (0..8_u64)
        .map(|number| {
            let (pool, crowd) = (rig.pool.clone(), Arc::clone(&crowd));
            spawn(async move {
                let mut random = fastrand::Rng::with_seed(number);
                for _ in 0..500 {
                    one_call(&pool, &mut random, &crowd).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    while rig.status(Service::Network).in_flight > 0 || rig.status(Service::Network).queued > 0 {
        tokio::task::yield_now().await;
    }
    assert!(crowd.most.load(Ordering::SeqCst) <= CONCURRENCY as usize);
}

/// One read or change, of which every fourth is dropped or cancelled at a random moment.
async fn one_call(pool: &Pool, random: &mut fastrand::Rng, crowd: &Arc<Crowd>) {
    let (caller, turns, crowd) = (Caller::of(random.u128(0..2)), random.usize(0..8), Arc::clone(crowd));
    let call = async move {
        let _inside = crowd.enter();
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    let (context, operation) = (caller.context(), network("show", random.u8(0..2)));
    let (read, impatience) = (random.bool(), random.u8(0..8));
    let work = async {
        if read {
            pool.read(&context, operation, || call.boxed()).await
        } else {
            pool.mutate(&context, operation, || call.boxed()).await
        }
    };
    let patience = async {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        match impatience {
            0 => {}
            1 => {
                caller.cancelled.cancel();
                std::future::pending::<()>().await;
            }
            _ => std::future::pending::<()>().await,
        }
    };
    tokio::select! {
        biased;
        () = patience => {}
        result = work => match result {
            Ok(_) => {}
            Err(error) => assert_eq!(error, ProviderError::Cancelled),
        },
    }
}
