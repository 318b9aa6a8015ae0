//! What the outside lends to decisions: the time and chance.
//!
//! Every clock read and every random id of the control plane goes through an [`Ambient`], so that the simulation
//! can replay a history from its seed. Wall-clock reads elsewhere are banned by lint.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

/// Where the time comes from.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The time and chance that one process runs on.
#[derive(Clone)]
pub struct Ambient {
    clock: Arc<dyn Clock>,
    random: Arc<Mutex<fastrand::Rng>>,
}

impl Ambient {
    /// The machine's clock and unpredictable ids.
    #[must_use]
    pub fn system() -> Self {
        Self { clock: Arc::new(SystemClock), random: Arc::new(Mutex::new(fastrand::Rng::new())) }
    }

    /// A given clock and a seeded sequence: the same seed draws the same ids in the same order.
    #[must_use]
    pub fn seeded(clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self { clock, random: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))) }
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A version 4 UUID. Ids are not secrets: nothing is protected by their being hard to guess.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        let bits = self.draw(|random| random.u128(..));
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }

    /// `base` lengthened or shortened by up to a quarter, so that equal waits do not end together.
    #[must_use]
    pub fn jittered(&self, base: Duration) -> Duration {
        base.mul_f64(0.75 + self.draw(fastrand::Rng::f64) / 2.0)
    }

    fn draw<T>(&self, take: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        take(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where a process may be cut short. The memory store and the in-process simulated cloud pass a point before and
/// after everything they do; the simulation decides there whether the process dies.
#[async_trait::async_trait]
pub trait Interrupt: Send + Sync {
    /// Returns at once, or never: a process that died at this point does nothing more.
    async fn point(&self, name: &str);
}

/// The process that is never interrupted.
pub struct Uninterrupted;

#[async_trait::async_trait]
impl Interrupt for Uninterrupted {
    async fn point(&self, _name: &str) {}
}
