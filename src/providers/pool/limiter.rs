//! How many calls a service takes at once: additive increase, multiplicative decrease.
//!
//! The limit grows by about one for every round of calls that used it to the full, halves when the cloud throttles,
//! and gives way slowly when answers take much longer than they used to. One burst of bad news is one signal: calls
//! that were already under way when the limit was lowered do not lower it again.
//!
//! Latency is a weak witness, so it is heard with care: per operation (a boot is not slower than a look-up because
//! the cloud is busy), only well above the best that was seen, never for answers that are quick in themselves, and
//! never below half of what we started with. The limit is held in thousandths, so that it grows without floats.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::settings::{Concurrency, THROTTLE_PAUSE_DEFAULT, THROTTLE_PAUSE_MAX};

const THOUSANDTHS: u32 = 1_000;

/// How many times the best latency the average must be before the limit gives way. Clouds vary by two without
/// being overloaded; at ten, users have long noticed.
const SLOW_FACTOR: u32 = 4;

/// Answers faster than this on average are never too slow: nobody waits noticeably for them.
const SLOW_FLOOR: Duration = Duration::from_secs(2);

/// Answers of an operation before its latency is believed. Fewer are an anecdote; with many more a region would be
/// in trouble for minutes before we notice.
const SAMPLES_MIN: u32 = 20;

/// The average moves by one part in this many with each answer: about the last ten answers count.
const AVERAGE_SHARE: u32 = 8;

/// The best latency is forgotten by one part in this many with each answer, so that a cloud which has become slower
/// for good is accepted as it is: a factor of four after about 180 answers.
const FORGETTING_SHARE: u32 = 128;

pub struct Limiter {
    bounds: Concurrency,
    limit_thousandths: u32,
    paused_until: Option<Instant>,
    lowered_at: Option<Instant>,
    /// By operation name. Names are literals of our program, so their number is bounded by its text.
    latencies: BTreeMap<&'static str, Latency>,
}

#[derive(Clone, Copy)]
struct Latency {
    average: Duration,
    best: Duration,
    samples: u32,
}

impl Limiter {
    pub fn new(bounds: Concurrency) -> Self {
        let min = bounds.min.max(1);
        let max = bounds.max.max(min);
        let bounds = Concurrency { min, initial: bounds.initial.clamp(min, max), max };
        Self {
            bounds,
            limit_thousandths: bounds.initial * THOUSANDTHS,
            paused_until: None,
            lowered_at: None,
            latencies: BTreeMap::new(),
        }
    }

    pub const fn limit(&self) -> u32 {
        self.limit_thousandths / THOUSANDTHS
    }

    /// Until when no call may be begun, if that is in the future.
    pub fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| *until > now)
    }

    /// The cloud said that we ask too much.
    pub fn throttled(&mut self, now: Instant, issued_at: Instant, retry_after: Option<Duration>) {
        let pause = retry_after.unwrap_or(THROTTLE_PAUSE_DEFAULT).min(THROTTLE_PAUSE_MAX);
        self.paused_until = self.paused_until.max(Some(now + pause));
        if self.is_news(issued_at) {
            self.lower(now, self.limit_thousandths / 2, self.bounds.min);
        }
    }

    /// The cloud answered. `saturated` tells whether the limit was used to the full: one that is not used has not
    /// been tried, and must not grow.
    pub fn answered(&mut self, now: Instant, issued_at: Instant, operation: &'static str, saturated: bool) {
        if self.learn(operation, now.saturating_duration_since(issued_at)) {
            if self.is_news(issued_at) {
                let floor = (self.bounds.initial / 2).max(self.bounds.min);
                self.lower(now, self.limit_thousandths / 10 * 9, floor);
            }
        } else if saturated {
            let grown = self.limit_thousandths + THOUSANDTHS * THOUSANDTHS / self.limit_thousandths;
            self.limit_thousandths = grown.min(self.bounds.max * THOUSANDTHS);
        }
    }

    /// Takes the latency in; true when the operation has become too slow.
    fn learn(&mut self, operation: &'static str, latency: Duration) -> bool {
        let entry = self.latencies.entry(operation).or_insert(Latency { average: latency, best: latency, samples: 0 });
        entry.average = (entry.average * (AVERAGE_SHARE - 1) + latency) / AVERAGE_SHARE;
        entry.best = latency.min(entry.best + entry.best / FORGETTING_SHARE);
        entry.samples = entry.samples.saturating_add(1);
        entry.samples >= SAMPLES_MIN && entry.average > SLOW_FLOOR && entry.average > entry.best * SLOW_FACTOR
    }

    /// Strictly later: calls issued in the very instant of the lowering were let through by the old limit.
    fn is_news(&self, issued_at: Instant) -> bool {
        self.lowered_at.is_none_or(|lowered_at| issued_at > lowered_at)
    }

    /// Never raises: the floor of one reason may lie above what another reason has lowered the limit to.
    fn lower(&mut self, now: Instant, wanted_thousandths: u32, floor: u32) {
        self.limit_thousandths = wanted_thousandths.max(floor * THOUSANDTHS).min(self.limit_thousandths);
        self.lowered_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Concurrency = Concurrency { min: 1, initial: 8, max: 12 };
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_limit_used_to_the_full_grows_by_one_a_round_up_to_its_bound() {
        let (mut limiter, now) = (Limiter::new(BOUNDS), Instant::now());
        for _ in 0..9 {
            limiter.answered(now, now, "list", true);
        }
        assert_eq!(limiter.limit(), 9);
        for _ in 0..1_000 {
            limiter.answered(now, now, "list", true);
        }
        assert_eq!(limiter.limit(), 12);
    }

    #[test]
    fn a_limit_that_is_not_used_does_not_grow() {
        let (mut limiter, now) = (Limiter::new(BOUNDS), Instant::now());
        for _ in 0..100 {
            limiter.answered(now, now, "list", false);
        }
        assert_eq!(limiter.limit(), 8);
    }

    #[test]
    fn a_burst_of_throttled_calls_is_one_signal_but_every_pause_counts() {
        let (mut limiter, start) = (Limiter::new(BOUNDS), Instant::now());
        let later = start + SECOND;
        limiter.throttled(later, start, Some(SECOND));
        limiter.throttled(later, start, Some(3 * SECOND));
        limiter.throttled(later, start, Some(2 * SECOND));
        assert_eq!(limiter.limit(), 4);
        assert_eq!(limiter.paused_until(later), Some(later + 3 * SECOND));
        assert_eq!(limiter.paused_until(later + 3 * SECOND), None);
        limiter.throttled(later + SECOND, later + SECOND, None);
        assert_eq!(limiter.limit(), 2);
    }

    #[test]
    fn a_burst_that_is_throttled_in_the_instant_it_was_issued_is_one_signal_too() {
        let (mut limiter, now) = (Limiter::new(BOUNDS), Instant::now());
        for _ in 0..8 {
            limiter.throttled(now, now, None);
        }
        assert_eq!(limiter.limit(), 4);
    }

    #[test]
    fn the_limit_never_falls_below_its_bound_and_no_pause_is_endless() {
        let (mut limiter, mut now) = (Limiter::new(BOUNDS), Instant::now());
        for _ in 0..20 {
            now += SECOND;
            limiter.throttled(now, now, Some(Duration::from_hours(48)));
        }
        assert_eq!(limiter.limit(), 1);
        assert_eq!(limiter.paused_until(now), Some(now + THROTTLE_PAUSE_MAX));
    }

    #[test]
    fn answers_that_became_much_slower_lower_the_limit_to_half_of_the_start_and_no_further() {
        let (mut limiter, mut now) = (Limiter::new(BOUNDS), Instant::now());
        for _ in 0..SAMPLES_MIN {
            limiter.answered(now + SECOND, now, "boot", false);
            now += SECOND;
        }
        assert_eq!(limiter.limit(), 8);
        for _ in 0..30 {
            limiter.answered(now + 20 * SECOND, now, "boot", true);
            now += 20 * SECOND;
        }
        assert_eq!(limiter.limit(), 4);
    }

    #[test]
    fn a_slow_operation_is_not_measured_against_a_quick_one() {
        let (mut limiter, mut now) = (Limiter::new(BOUNDS), Instant::now());
        for _ in 0..100 {
            limiter.answered(now + Duration::from_millis(5), now, "show", false);
            limiter.answered(now + 20 * SECOND, now, "boot", false);
            now += 20 * SECOND;
        }
        assert_eq!(limiter.limit(), 8);
    }
}
