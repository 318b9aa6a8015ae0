//! Who may call one service now: the limiter, the breaker and the fair queue put together.
//!
//! Pure: it is told the time and what happened and says what follows, so every rule can be tried without a runtime.
//! Every call goes through the line, an uncontended one too (it is first in it at once), so that there is one path
//! and the rounds of the fair queue are right when contention begins.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::breaker::{Breaker, BreakerState, Evidence};
use super::limiter::Limiter;
use super::permit::{Report, Signal, Ticket};
use super::queue::FairQueue;
use super::settings::PoolSettings;
use crate::model::ids::OrganizationId;

pub struct Gate<W> {
    limiter: Limiter,
    breaker: Breaker,
    queue: FairQueue<W>,
    in_flight: BTreeSet<Ticket>,
    queue_wait_max: Duration,
}

/// Why a call may not even wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    LineFull {
        paused: Option<Duration>,
    },
    /// The cloud's own pause is longer than anybody may wait, so waiting could not succeed.
    Paused(Duration),
    BreakerOpen(Duration),
}

/// What there is to know of a service from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceStatus {
    pub limit: u32,
    pub in_flight: usize,
    pub queued: usize,
    pub breaker: BreakerState,
    /// The breaker lets nothing through until then: asking earlier is of no use.
    pub breaker_open_until: Option<Instant>,
    /// The cloud asked for a pause that lasts until then.
    pub paused_until: Option<Instant>,
}

impl<W> Gate<W> {
    /// `inherited` are calls that an earlier life of the pool let through and that are still under way: they count
    /// against the limit until they end.
    pub fn new(settings: &PoolSettings, inherited: BTreeSet<Ticket>) -> Self {
        Self {
            limiter: Limiter::new(settings.concurrency),
            breaker: Breaker::new(
                settings.breaker_failures_max,
                settings.breaker_backoff_first,
                settings.breaker_backoff_max,
            ),
            queue: FairQueue::new(settings.queued_per_tenant_max, settings.queued_total_max),
            in_flight: inherited,
            queue_wait_max: settings.queue_wait_max,
        }
    }

    /// Stands in line, or is refused at once and gets the waiter back.
    pub fn ask(&mut self, now: Instant, tenant: OrganizationId, ticket: Ticket, waiter: W) -> Result<(), (W, Refusal)> {
        let paused = self.limiter.paused_until(now).map(|until| until - now);
        if let Some(pause) = paused.filter(|pause| *pause > self.queue_wait_max) {
            return Err((waiter, Refusal::Paused(pause)));
        }
        if let Err(wait) = self.breaker.admit(now, ticket) {
            return Err((waiter, Refusal::BreakerOpen(wait)));
        }
        self.queue.push(tenant, ticket, waiter).map_err(|waiter| {
            self.breaker.heard(now, ticket, Evidence::Nothing, |wait| wait);
            (waiter, Refusal::LineFull { paused })
        })
    }

    /// Leaves the line. A call that has its permit already is not in it, and nothing happens.
    pub fn withdraw(&mut self, now: Instant, tenant: OrganizationId, ticket: Ticket) {
        if self.queue.remove(tenant, ticket).is_some() {
            self.breaker.heard(now, ticket, Evidence::Nothing, |wait| wait);
        }
    }

    /// The next call to begin, if one may.
    pub fn grant(&mut self, now: Instant) -> Option<(Ticket, W)> {
        let limit = usize::try_from(self.limiter.limit()).unwrap_or(usize::MAX);
        if self.in_flight.len() >= limit || self.limiter.paused_until(now).is_some() {
            return None;
        }
        let (ticket, waiter) = self.queue.pop()?;
        self.in_flight.insert(ticket);
        Some((ticket, waiter))
    }

    /// A permit came back. Returns those who need not wait any longer because the breaker opened: their calls would
    /// meet the same silence. A ticket of which nothing is known (of a life before, told twice) changes nothing.
    pub fn finish(
        &mut self,
        now: Instant,
        ticket: Ticket,
        report: Option<Report>,
        jitter: impl FnOnce(Duration) -> Duration,
    ) -> Vec<W> {
        let limit = usize::try_from(self.limiter.limit()).unwrap_or(usize::MAX);
        let saturated = self.in_flight.len() >= limit;
        if !self.in_flight.remove(&ticket) {
            return Vec::new();
        }
        let evidence = match report {
            Some(Report { signal: Signal::Answered, issued_at, operation }) => {
                self.limiter.answered(now, issued_at, operation, saturated);
                Evidence::Answered
            }
            Some(Report { signal: Signal::Throttled { retry_after }, issued_at, .. }) => {
                self.limiter.throttled(now, issued_at, retry_after);
                Evidence::Answered
            }
            Some(Report { signal: Signal::NoAnswer, .. }) => Evidence::NoAnswer,
            Some(Report { signal: Signal::Nothing, .. }) | None => Evidence::Nothing,
        };
        if self.breaker.heard(now, ticket, evidence, jitter) {
            self.queue.drain().into_iter().map(|(_, waiter)| waiter).collect()
        } else {
            Vec::new()
        }
    }

    /// When to look again although nothing happens: somebody waits and only the pause holds him back.
    pub fn wake_at(&self, now: Instant) -> Option<Instant> {
        self.limiter.paused_until(now).filter(|_| !self.queue.is_empty())
    }

    pub fn status(&self, now: Instant) -> ServiceStatus {
        ServiceStatus {
            limit: self.limiter.limit(),
            in_flight: self.in_flight.len(),
            queued: self.queue.len(),
            breaker: self.breaker.state(),
            breaker_open_until: self.breaker.open_until(now),
            paused_until: self.limiter.paused_until(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::settings::Concurrency;
    use super::*;

    const TENANT: OrganizationId = OrganizationId(Uuid::from_u128(1));
    const SECOND: Duration = Duration::from_secs(1);
    const NOBODY: [u64; 0] = [];

    fn gate(initial: u32, inherited: &[u64]) -> Gate<()> {
        let settings = PoolSettings {
            concurrency: Concurrency { min: 1, initial, max: 100 },
            breaker_failures_max: 1,
            ..PoolSettings::default()
        };
        Gate::new(&settings, inherited.iter().map(|number| Ticket(*number)).collect())
    }

    fn report(now: Instant, signal: Signal) -> Report {
        Report { operation: "show", issued_at: now, signal }
    }

    fn granted(gate: &mut Gate<()>, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| gate.grant(now)).map(|(ticket, ())| ticket.0).collect()
    }

    #[test]
    fn calls_of_an_earlier_life_count_until_they_end() {
        let (mut gate, now) = (gate(2, &[1, 2]), Instant::now());
        gate.ask(now, TENANT, Ticket(3), ()).unwrap();
        assert_eq!(granted(&mut gate, now), NOBODY);
        gate.finish(now, Ticket(1), None, |wait| wait);
        assert_eq!(granted(&mut gate, now), [3]);
    }

    #[test]
    fn a_ticket_told_twice_or_unknown_changes_nothing() {
        let (mut gate, now) = (gate(2, &[1, 2]), Instant::now());
        gate.finish(now, Ticket(1), Some(report(now, Signal::Answered)), |wait| wait);
        let before = gate.status(now);
        gate.finish(now, Ticket(1), Some(report(now, Signal::NoAnswer)), |wait| wait);
        gate.finish(now, Ticket(9), Some(report(now, Signal::Throttled { retry_after: None })), |wait| wait);
        assert_eq!(gate.status(now), before);
    }

    #[test]
    fn only_a_limit_that_is_used_to_the_full_grows() {
        let (mut gate, now) = (gate(2, &[]), Instant::now());
        for number in 0..40 {
            gate.ask(now, TENANT, Ticket(number), ()).unwrap();
            assert_eq!(granted(&mut gate, now), [number]);
            gate.finish(now, Ticket(number), Some(report(now, Signal::Answered)), |wait| wait);
        }
        assert_eq!(gate.status(now).limit, 2);
        for number in 40..80 {
            gate.ask(now, TENANT, Ticket(number), ()).unwrap();
        }
        while let Some((ticket, ())) = gate.grant(now) {
            granted(&mut gate, now);
            gate.finish(now, ticket, Some(report(now, Signal::Answered)), |wait| wait);
        }
        assert!(gate.status(now).limit > 2);
    }

    #[test]
    fn a_probe_that_leaves_the_line_lets_the_next_caller_probe() {
        let (mut gate, now) = (gate(1, &[1]), Instant::now());
        gate.in_flight.insert(Ticket(2));
        gate.finish(now, Ticket(1), Some(report(now, Signal::NoAnswer)), |wait| wait);
        let later = now + SECOND;
        gate.ask(later, TENANT, Ticket(3), ()).unwrap();
        assert_eq!(granted(&mut gate, later), NOBODY, "a call of before still hangs");
        assert!(matches!(gate.ask(later, TENANT, Ticket(4), ()), Err(((), Refusal::BreakerOpen(_)))));
        gate.withdraw(later, TENANT, Ticket(3));
        assert_eq!(gate.ask(later, TENANT, Ticket(5), ()), Ok(()));
    }
}
