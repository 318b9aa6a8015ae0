//! How hard a region's cloud may be pressed, and for how long we wait.
//!
//! Every bound of the pool is here, with the reason why it is neither larger nor smaller. An operator may change
//! the settings per region; the defaults are for a cloud that is shared with others.

use std::time::Duration;

/// How long a read may take. A bulk list of a large region takes seconds; a read that takes longer than this has
/// lost its connection, and reading again costs nothing but the wait.
pub const READ_DEADLINE: Duration = Duration::from_secs(20);

/// How long a mutating call may take. Longer than a read: giving up means not knowing what happened, which costs a
/// look-up. Not longer than half a minute: a delete waits for it, and a replica may only begin a mutating call
/// while its lease outlives this.
pub const MUTATION_DEADLINE: Duration = Duration::from_secs(30);

/// How long a call may wait for its turn. Shorter would turn a burst that drains by itself into retries; longer
/// would keep decisions waiting that were taken on facts of a minute ago.
pub const QUEUE_WAIT_MAX: Duration = Duration::from_secs(30);

/// Calls in flight per service before anything is known of the cloud. What a handful of workers behind a load
/// balancer takes without noticing.
pub const CONCURRENCY_INITIAL: u32 = 16;

/// Calls in flight per service at the very least. One: a service that throttles us for ever is still asked.
pub const CONCURRENCY_MIN: u32 = 1;

/// Calls in flight per service at most. More would take a fair part of the API workers of a mid-sized cloud, which
/// its own users need too.
pub const CONCURRENCY_MAX: u32 = 64;

/// Calls of one tenant waiting for one service. At a few hundred calls a second these drain well within
/// [`QUEUE_WAIT_MAX`]; what does not fit could not be served in time and is better told so at once.
pub const QUEUED_PER_TENANT_MAX: usize = 2_048;

/// Calls of all tenants waiting for one service: eight tenants in full flood. A few megabytes at the worst.
pub const QUEUED_TOTAL_MAX: usize = 16_384;

/// Calls in a row without an answer that open the breaker. Fewer would open it on one lost connection and its
/// neighbours; more would leave that many callers waiting for their deadline.
pub const BREAKER_FAILURES_MAX: u32 = 5;

/// How long the breaker stays open at first: a restart of a cloud's API worker takes about this long.
pub const BREAKER_BACKOFF_FIRST: Duration = Duration::from_secs(1);

/// How long the breaker stays open at most. The time to notice that a cloud is back; longer would be felt by users,
/// shorter brings nothing to a cloud that has been away for minutes.
pub const BREAKER_BACKOFF_MAX: Duration = Duration::from_secs(30);

/// How long a service is left alone after a throttled call that names no time. Clouds count by the second or by the
/// minute; half a second keeps us from hammering without costing a user much if the limit has passed by then.
pub const THROTTLE_PAUSE_DEFAULT: Duration = Duration::from_millis(500);

/// The longest pause a cloud may impose with one answer. Rate windows are minutes; an answer that asks for more
/// comes from a wrong clock or a broken proxy and would take the region away for as long as it likes. One call
/// then asks again.
pub const THROTTLE_PAUSE_MAX: Duration = Duration::from_mins(10);

/// Recent calls kept to look at. Some minutes of a settled region and some seconds of a busy one, in about 200 KB.
pub const RECENT_MAX: usize = 1_024;

/// How many calls may be in flight at once to one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    pub min: u32,
    pub initial: u32,
    pub max: u32,
}

/// The settings of one region's pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    pub read_deadline: Duration,
    pub mutation_deadline: Duration,
    pub queue_wait_max: Duration,
    pub concurrency: Concurrency,
    pub queued_per_tenant_max: usize,
    pub queued_total_max: usize,
    pub breaker_failures_max: u32,
    pub breaker_backoff_first: Duration,
    pub breaker_backoff_max: Duration,
    pub recent_max: usize,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            read_deadline: READ_DEADLINE,
            mutation_deadline: MUTATION_DEADLINE,
            queue_wait_max: QUEUE_WAIT_MAX,
            concurrency: Concurrency { min: CONCURRENCY_MIN, initial: CONCURRENCY_INITIAL, max: CONCURRENCY_MAX },
            queued_per_tenant_max: QUEUED_PER_TENANT_MAX,
            queued_total_max: QUEUED_TOTAL_MAX,
            breaker_failures_max: BREAKER_FAILURES_MAX,
            breaker_backoff_first: BREAKER_BACKOFF_FIRST,
            breaker_backoff_max: BREAKER_BACKOFF_MAX,
            recent_max: RECENT_MAX,
        }
    }
}
