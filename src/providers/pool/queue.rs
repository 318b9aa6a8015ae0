//! Who is next: a fair queue between tenants.
//!
//! Round-robin over the tenants that wait, by virtual time (start-time fair queueing with equal weights) rather than
//! by a rotating list. A list has to put a newcomer somewhere: at its end, he waits behind a flood once more than
//! needed; at its front, two tenants that take turns with single calls starve a third. With tags neither happens:
//! a newcomer is served at the *present* round, ahead of a flooding tenant's next call, but a tenant that has had
//! its call of this round gets the next round's tag even if it was away in between.

use std::collections::{BTreeMap, BTreeSet};

use super::permit::Ticket;
use crate::model::ids::OrganizationId;

/// The calls that wait for one service. `W` is whatever is to be told when its turn comes.
pub struct FairQueue<W> {
    tenants: BTreeMap<OrganizationId, Tenant<W>>,
    /// The next call of every tenant that waits, in the order in which they will be served.
    heads: BTreeSet<Head>,
    /// The round of the call served last.
    round: u64,
    arrivals: u64,
    queued: usize,
    per_tenant_max: usize,
    total_max: usize,
}

struct Tenant<W> {
    /// Tickets grow, so their order is the order of arrival.
    waiting: BTreeMap<Ticket, W>,
    /// The round in which this tenant may be served next.
    next_round: u64,
    head: Option<Head>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    round: u64,
    /// Ties within a round go to who has stood at the head longest.
    arrival: u64,
    tenant: OrganizationId,
}

impl<W> FairQueue<W> {
    pub fn new(per_tenant_max: usize, total_max: usize) -> Self {
        Self {
            tenants: BTreeMap::new(),
            heads: BTreeSet::new(),
            round: 0,
            arrivals: 0,
            queued: 0,
            per_tenant_max,
            total_max,
        }
    }

    pub const fn len(&self) -> usize {
        self.queued
    }

    pub const fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// Waits in line, or gets the waiter back when the tenant's or the whole line is full.
    pub fn push(&mut self, tenant: OrganizationId, ticket: Ticket, waiter: W) -> Result<(), W> {
        if self.queued >= self.total_max {
            return Err(waiter);
        }
        let round = self.round;
        let entry = self.tenants.entry(tenant).or_insert_with(|| Tenant {
            waiting: BTreeMap::new(),
            next_round: 0,
            head: None,
        });
        if entry.waiting.len() >= self.per_tenant_max {
            return Err(waiter);
        }
        entry.waiting.insert(ticket, waiter);
        self.queued += 1;
        if entry.head.is_none() {
            entry.next_round = entry.next_round.max(round);
            self.place(tenant);
        }
        Ok(())
    }

    /// Takes the call whose turn it is.
    pub fn pop(&mut self) -> Option<(Ticket, W)> {
        let head = self.heads.pop_first()?;
        let tenant = self.tenants.get_mut(&head.tenant)?;
        let (ticket, waiter) = tenant.waiting.pop_first()?;
        self.queued -= 1;
        tenant.head = None;
        tenant.next_round = head.round + 1;
        if !tenant.waiting.is_empty() {
            self.place(head.tenant);
        }
        self.advance(head.round);
        Some((ticket, waiter))
    }

    /// Leaves the line before its turn. The tenant's place in the round is not lost by that.
    pub fn remove(&mut self, tenant: OrganizationId, ticket: Ticket) -> Option<W> {
        let entry = self.tenants.get_mut(&tenant)?;
        let waiter = entry.waiting.remove(&ticket)?;
        self.queued -= 1;
        if entry.waiting.is_empty() {
            if let Some(head) = entry.head.take() {
                self.heads.remove(&head);
            }
            if entry.next_round <= self.round {
                self.tenants.remove(&tenant);
            }
        }
        Some(waiter)
    }

    /// Empties the line, in the order in which the calls would have been served.
    pub fn drain(&mut self) -> Vec<(Ticket, W)> {
        std::iter::from_fn(|| self.pop()).collect()
    }

    fn place(&mut self, tenant: OrganizationId) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        if let Some(entry) = self.tenants.get_mut(&tenant) {
            let head = Head { round: entry.next_round, arrival, tenant };
            entry.head = Some(head);
            self.heads.insert(head);
        }
    }

    /// A tenant that neither waits nor is ahead of the round would come back as a newcomer anyway: forget it.
    fn advance(&mut self, round: u64) {
        if round > self.round {
            self.round = round;
            self.tenants.retain(|_, tenant| !tenant.waiting.is_empty() || tenant.next_round > round);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn tenant(number: u128) -> OrganizationId {
        OrganizationId(Uuid::from_u128(number))
    }

    fn served(queue: &mut FairQueue<u128>, count: usize) -> Vec<u128> {
        (0..count).filter_map(|_| queue.pop()).map(|(_, waiter)| waiter).collect()
    }

    #[test]
    fn a_newcomer_is_served_before_the_next_call_of_a_flood() {
        let mut queue = FairQueue::new(100, 100);
        for ticket in 0..50 {
            queue.push(tenant(1), Ticket(ticket), 1).unwrap();
        }
        assert_eq!(served(&mut queue, 7), [1; 7]);
        queue.push(tenant(2), Ticket(50), 2).unwrap();
        assert_eq!(served(&mut queue, 2), [2, 1]);
    }

    #[test]
    fn two_tenants_that_take_turns_do_not_starve_a_third() {
        let mut queue = FairQueue::new(100, 100);
        for ticket in 0..50 {
            queue.push(tenant(1), Ticket(ticket), 1).unwrap();
        }
        let mut flood_served = 0;
        for turn in 0..30 {
            queue.push(tenant(2 + turn % 2), Ticket(50 + u64::try_from(turn).unwrap()), 2).unwrap();
            flood_served += served(&mut queue, 1).iter().filter(|waiter| **waiter == 1).count();
        }
        assert!(flood_served >= 10, "a third of the turns, got {flood_served}");
    }

    #[test]
    fn both_bounds_refuse_and_hand_the_waiter_back() {
        let mut queue = FairQueue::new(2, 3);
        queue.push(tenant(1), Ticket(1), 'a').unwrap();
        queue.push(tenant(1), Ticket(2), 'b').unwrap();
        assert_eq!(queue.push(tenant(1), Ticket(3), 'c'), Err('c'));
        queue.push(tenant(2), Ticket(4), 'd').unwrap();
        assert_eq!(queue.push(tenant(3), Ticket(5), 'e'), Err('e'));
        assert_eq!(queue.remove(tenant(1), Ticket(1)), Some('a'));
        queue.push(tenant(3), Ticket(6), 'f').unwrap();
        assert_eq!(queue.len(), 3);
    }

    #[test]
    fn tenants_that_went_away_are_forgotten() {
        let mut queue = FairQueue::new(10, 10);
        for number in 0..1_000_u64 {
            queue.push(tenant(number.into()), Ticket(number), 0).unwrap();
            queue.pop().unwrap();
        }
        for ticket in 1_000..1_002 {
            queue.push(tenant(1), Ticket(ticket), 0).unwrap();
            queue.pop().unwrap();
        }
        assert!(queue.tenants.len() <= 2, "{} remembered", queue.tenants.len());
    }

    proptest! {
        #[test]
        fn tenants_that_wait_all_along_are_served_alike(
            lengths in proptest::collection::vec(1_usize..40, 2..6),
            steps in 1_usize..60,
        ) {
            let mut queue = FairQueue::new(100, 1_000);
            let mut ticket = 0;
            for (number, length) in lengths.iter().enumerate() {
                for _ in 0..*length {
                    queue.push(tenant(number as u128), Ticket(ticket), number).unwrap();
                    ticket += 1;
                }
            }
            let mut counts = vec![0_usize; lengths.len()];
            for _ in 0..steps {
                if let Some((_, number)) = queue.pop() {
                    counts[number] += 1;
                }
            }
            let waiting = counts.iter().zip(&lengths).filter(|(count, length)| count < length).map(|(count, _)| *count);
            let (least, most) = waiting.fold((usize::MAX, 0), |(least, most), count| (least.min(count), most.max(count)));
            prop_assert!(least == usize::MAX || most - least <= 1, "{counts:?} of {lengths:?}");
        }

        #[test]
        fn nothing_is_lost_or_served_twice(operations in proptest::collection::vec((0_u128..4, 0_u8..3), 1..200)) {
            let mut queue = FairQueue::new(8, 20);
            let mut inside = BTreeMap::new();
            for (ticket, (number, what)) in operations.into_iter().enumerate() {
                let ticket = Ticket(ticket as u64);
                match what {
                    0 | 1 => if queue.push(tenant(number), ticket, ()).is_ok() { inside.insert(ticket, number); },
                    _ if number < 2 => if let Some((served, ())) = queue.pop() {
                        prop_assert!(inside.remove(&served).is_some());
                    } else {
                        prop_assert!(inside.is_empty());
                    },
                    _ => if let Some((left, owner)) = inside.pop_first() {
                        prop_assert!(queue.remove(tenant(owner), left).is_some());
                    },
                }
                prop_assert_eq!(queue.len(), inside.len());
            }
            prop_assert_eq!(queue.drain().len(), inside.len());
        }
    }
}
