//! How many requests an organization may send: a bucket each, so that one tenant's storm is not everybody's.
//!
//! Operators and other services are not counted: they serve many tenants at once. What is counted is the caller's own
//! organization, whatever the request is about.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::model::ids::OrganizationId;

/// Far above what a console and its scripts send, and below what keeps one process busy by itself.
pub const RATE_DEFAULT: u32 = 1_000;

/// Ten seconds of the rate at once: a plan with thousands of resources is sent in a burst.
pub const BURST_DEFAULT: u32 = 10_000;

/// How many organizations are counted at once: a megabyte or two. Buckets that are full again are forgotten first; if
/// none is, whoever comes new is let through, because to be wrong for a moment is better than to turn tenants away.
const BUCKETS_MAX: usize = 16_384;

/// What an operator may set. A rate of zero is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantRate {
    pub per_second: u32,
    pub burst: u32,
}

impl Default for TenantRate {
    fn default() -> Self {
        Self { per_second: RATE_DEFAULT, burst: BURST_DEFAULT }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// How many requests are left.
    left: f64,
    at: Timestamp,
}

/// Counts requests. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct TenantRates {
    rate: TenantRate,
    buckets: Arc<Mutex<BTreeMap<OrganizationId, Bucket>>>,
}

impl TenantRates {
    #[must_use]
    pub fn new(rate: TenantRate) -> Self {
        Self { rate, buckets: Arc::default() }
    }

    /// Takes one request of the organization's, or says in how many seconds it may come again.
    pub fn take(&self, organization: OrganizationId, now: Timestamp) -> Result<(), u32> {
        if self.rate.per_second == 0 {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(&organization) {
            buckets.retain(|_, bucket| self.refilled(*bucket, now) < self.full());
            if buckets.len() >= BUCKETS_MAX {
                return Ok(());
            }
        }
        let bucket = buckets.entry(organization).or_insert(Bucket { left: self.full(), at: now });
        let left = self.refilled(*bucket, now);
        // A clock that went back must not give more than there was.
        bucket.at = bucket.at.max(now);
        bucket.left = left;
        if left < 1.0 {
            return Err(self.seconds_until_one(left));
        }
        bucket.left = left - 1.0;
        Ok(())
    }

    fn full(&self) -> f64 {
        f64::from(self.rate.burst.max(1))
    }

    fn refilled(&self, bucket: Bucket, now: Timestamp) -> f64 {
        let passed = now.duration_since(bucket.at).as_secs_f64().max(0.0);
        passed.mul_add(f64::from(self.rate.per_second), bucket.left).min(self.full())
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between zero and one, rounded up")]
    fn seconds_until_one(&self, left: f64) -> u32 {
        (((1.0 - left) / f64::from(self.rate.per_second)).ceil() as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use uuid::Uuid;

    fn organization(number: u128) -> OrganizationId {
        OrganizationId(Uuid::from_u128(number))
    }

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_burst_is_taken_then_the_rate_and_nobody_pays_for_another() {
        let rates = TenantRates::new(TenantRate { per_second: 2, burst: 3 });
        for _ in 0..3 {
            assert_eq!(rates.take(organization(1), at(0)), Ok(()));
        }
        assert_eq!(rates.take(organization(1), at(0)), Err(1));
        assert_eq!(rates.take(organization(2), at(0)), Ok(()));
        assert_eq!(rates.take(organization(1), at(499)), Err(1));
        assert_eq!(rates.take(organization(1), at(500)), Ok(()));
        assert_eq!(rates.take(organization(1), at(400)), Err(1), "a clock that goes back gives nothing");
        for _ in 0..3 {
            assert_eq!(rates.take(organization(1), at(60_000)), Ok(()), "never more than the burst");
        }
        assert_eq!(rates.take(organization(1), at(60_000)), Err(1));
    }

    #[test]
    fn no_rate_is_no_limit() {
        let rates = TenantRates::new(TenantRate { per_second: 0, burst: 1 });
        for _ in 0..10 {
            assert_eq!(rates.take(organization(1), at(0)), Ok(()));
        }
    }

    #[test]
    fn the_number_of_buckets_is_bounded_and_full_ones_make_room() {
        let rates = TenantRates::new(TenantRate { per_second: 1, burst: 1 });
        let count = u128::try_from(BUCKETS_MAX).expect("small");
        for number in 0..count {
            assert_eq!(rates.take(organization(number), at(0)), Ok(()));
        }
        assert_eq!(rates.take(organization(count), at(0)), Ok(()), "let through, uncounted");
        assert_eq!(rates.take(organization(count), at(0)), Ok(()));
        assert_eq!(rates.buckets.lock().expect("not poisoned").len(), BUCKETS_MAX);
        assert_eq!(rates.take(organization(count), at(5_000)), Ok(()));
        assert_eq!(rates.take(organization(count), at(5_000)), Err(1), "counted now");
    }
}
