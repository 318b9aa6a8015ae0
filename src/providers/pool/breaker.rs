//! When not to ask at all: the circuit breaker of one service.
//!
//! ```text
//!            N calls in a row without an answer
//!   Closed ─────────────────────────────────────▶ Open ◀──────────┐
//!     ▲                                            │ time passed   │ the probe got no answer:
//!     │            any answer                      ▼               │ twice the wait
//!     └──────────────────────────────────────── HalfOpen ──────────┘
//! ```
//!
//! Without it every caller of a dead cloud waits for its own deadline, and a cloud that comes back is met by all of
//! them at once. Any answer closes it, a refusal too, and also a late one of a call begun before it opened: what is
//! being judged is whether the service answers, not whether it agrees.

use std::time::Duration;

use tokio::time::Instant;

use super::permit::Ticket;

pub struct Breaker {
    state: State,
    failures_max: u32,
    backoff_first: Duration,
    backoff_max: Duration,
}

enum State {
    /// Lets everything through. Exits: `Open` after `failures_max` failures in a row.
    Closed { failures: u32 },
    /// Lets nothing through. Exits: `HalfOpen` for the first call after `until`, `Closed` on a late answer.
    Open { until: Instant, backoff: Duration },
    /// Lets nothing through but the probe. Exits: `Closed` on an answer, `Open` when the probe had none.
    HalfOpen { probe: Ticket, backoff: Duration },
}

/// What others may know of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BreakerState {
    Closed,
    Open,
    HalfOpen,
}

/// What a call that ended says about the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    Answered,
    NoAnswer,
    /// The caller went away, or it never came to a call.
    Nothing,
}

impl Breaker {
    pub fn new(failures_max: u32, backoff_first: Duration, backoff_max: Duration) -> Self {
        Self { state: State::Closed { failures: 0 }, failures_max: failures_max.max(1), backoff_first, backoff_max }
    }

    pub const fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Until when it lets nothing through, if that is in the future.
    pub fn open_until(&self, now: Instant) -> Option<Instant> {
        match self.state {
            State::Open { until, .. } if until > now => Some(until),
            State::Closed { .. } | State::Open { .. } | State::HalfOpen { .. } => None,
        }
    }

    /// May this call go on? If not: how long it should wait before it asks again.
    pub fn admit(&mut self, now: Instant, ticket: Ticket) -> Result<(), Duration> {
        match self.state {
            State::Closed { .. } => Ok(()),
            State::Open { until, .. } if now < until => Err(until - now),
            State::Open { backoff, .. } => {
                self.state = State::HalfOpen { probe: ticket, backoff };
                Ok(())
            }
            // The probe may end at any moment, well or badly; the first wait is a fair guess.
            State::HalfOpen { .. } => Err(self.backoff_first),
        }
    }

    /// Takes in how a call ended; true when the breaker opened by it. `jitter` keeps processes that lost the same
    /// cloud together from probing it together.
    pub fn heard(
        &mut self,
        now: Instant,
        ticket: Ticket,
        evidence: Evidence,
        jitter: impl FnOnce(Duration) -> Duration,
    ) -> bool {
        let backoff = match (&mut self.state, evidence) {
            (_, Evidence::Answered) => {
                self.state = State::Closed { failures: 0 };
                return false;
            }
            (State::Closed { failures }, Evidence::NoAnswer) => {
                *failures += 1;
                if *failures < self.failures_max {
                    return false;
                }
                self.backoff_first
            }
            (State::HalfOpen { probe, backoff }, Evidence::NoAnswer) if *probe == ticket => {
                (*backoff * 2).min(self.backoff_max)
            }
            (State::HalfOpen { probe, backoff }, Evidence::Nothing) if *probe == ticket => {
                // Nothing was learnt: the next caller may probe at once.
                self.state = State::Open { until: now, backoff: *backoff };
                return false;
            }
            // Calls begun before it opened: their silence is the reason why it is open, not news.
            (State::Open { .. } | State::HalfOpen { .. }, Evidence::NoAnswer) | (_, Evidence::Nothing) => return false,
        };
        self.state = State::Open { until: now + jitter(backoff).min(self.backoff_max), backoff };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SOMEBODY: Ticket = Ticket(1);
    const PROBE: Ticket = Ticket(2);

    fn breaker() -> Breaker {
        Breaker::new(3, SECOND, 30 * SECOND)
    }

    fn opened(now: Instant) -> Breaker {
        let mut breaker = breaker();
        for _ in 0..3 {
            breaker.heard(now, SOMEBODY, Evidence::NoAnswer, |wait| wait);
        }
        assert_eq!(breaker.state(), BreakerState::Open);
        breaker
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let (mut breaker, now) = (breaker(), Instant::now());
        for _ in 0..10 {
            assert!(!breaker.heard(now, SOMEBODY, Evidence::NoAnswer, |wait| wait));
            assert!(!breaker.heard(now, SOMEBODY, Evidence::NoAnswer, |wait| wait));
            assert!(!breaker.heard(now, SOMEBODY, Evidence::Answered, |wait| wait));
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn while_open_it_refuses_and_says_when_to_come_again() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(breaker.admit(now + SECOND / 4, PROBE), Err(SECOND * 3 / 4));
        assert_eq!(breaker.admit(now + SECOND, PROBE), Ok(()));
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(breaker.admit(now + SECOND, SOMEBODY).is_err());
    }

    #[test]
    fn failed_probes_double_the_wait_up_to_the_bound() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(breaker.admit(now, PROBE), Err(SECOND * wait));
            now += SECOND * wait;
            assert_eq!(breaker.admit(now, PROBE), Ok(()));
            assert!(breaker.heard(now, PROBE, Evidence::NoAnswer, |wait| wait));
        }
    }

    #[test]
    fn an_answered_probe_closes_it_and_the_wait_starts_anew() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.admit(now + SECOND, PROBE).unwrap();
        breaker.heard(now + SECOND, PROBE, Evidence::Answered, |wait| wait);
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.admit(now + SECOND, SOMEBODY).unwrap();
    }

    #[test]
    fn a_probe_that_went_away_lets_the_next_caller_probe_at_once() {
        let now = Instant::now() + SECOND;
        let mut breaker = opened(now - SECOND);
        breaker.admit(now, PROBE).unwrap();
        breaker.heard(now, PROBE, Evidence::Nothing, |wait| wait);
        assert_eq!(breaker.admit(now, SOMEBODY), Ok(()));
    }

    #[test]
    fn late_failures_of_calls_begun_before_do_not_lengthen_the_wait() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.heard(now + SECOND / 2, SOMEBODY, Evidence::NoAnswer, |wait| wait);
        assert_eq!(breaker.admit(now + SECOND, PROBE), Ok(()));
        breaker.heard(now + SECOND, SOMEBODY, Evidence::NoAnswer, |wait| wait);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
    }

    #[test]
    fn jitter_does_not_exceed_the_bound() {
        let now = Instant::now();
        let mut breaker = breaker();
        for _ in 0..3 {
            breaker.heard(now, SOMEBODY, Evidence::NoAnswer, |wait| wait * 100);
        }
        assert_eq!(breaker.admit(now, PROBE), Err(30 * SECOND));
    }
}
