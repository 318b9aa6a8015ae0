//! What a load balancer is made of in a cloud, and the way from one such state to another, one change at a time.
//!
//! ```text
//!   listeners that are not wanted, or are another's ─▶ their pools ─▶ for each that is wanted:
//!       its pool ─▶ its members ─▶ its monitor ─▶ the listener ─▶ what of the listener differs
//! ```
//!
//! A cloud takes one change of a balancer and is busy with it for a while, so the way must be walkable from wherever a
//! pass, a crash or somebody else's change left it. Nothing is planned ahead: [`Topology::next_change`] looks at what is
//! there. What is too much goes first, because what is missing may need its port. A listener comes last, so that
//! nobody is let in before there is somebody to answer.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::load_balancer::{BalancedProtocol, ListenerName, Member};

/// Listeners and pools. A pool is the one of the listener that has its name, whether or not that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    pub listeners: BTreeMap<ListenerName, CloudListener>,
    pub pools: BTreeMap<ListenerName, CloudPool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudListener {
    pub protocol: BalancedProtocol,
    pub port: u16,
    /// Empty: everybody.
    pub allowed: BTreeSet<Ipv4Net>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<u32>,
}

impl CloudListener {
    /// What never changes of one.
    const fn place(&self) -> (BalancedProtocol, u16) {
        (self.protocol, self.port)
    }
}

/// What is spoken with the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolProtocol {
    Tcp,
    ProxyV2,
    Udp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudPool {
    pub protocol: PoolProtocol,
    pub members: BTreeSet<Member>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<Monitor>,
}

/// How members are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Monitor {
    pub interval_seconds: u16,
    pub timeout_seconds: u16,
    pub healthy_threshold: u16,
    pub unhealthy_threshold: u16,
}

/// One change, as a cloud takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum BalancerChange {
    /// A pool without members and monitor.
    AddPool {
        name: ListenerName,
        protocol: PoolProtocol,
    },
    /// Takes its members and its monitor along.
    RemovePool {
        name: ListenerName,
    },
    /// All of them at once.
    ReplaceMembers {
        name: ListenerName,
        members: BTreeSet<Member>,
    },
    SetMonitor {
        name: ListenerName,
        monitor: Option<Monitor>,
    },
    AddListener {
        name: ListenerName,
        listener: CloudListener,
    },
    UpdateListener {
        name: ListenerName,
        listener: CloudListener,
    },
    RemoveListener {
        name: ListenerName,
    },
}

/// Why a change cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefused {
    #[error("there is no such part")]
    Missing,
    #[error("it is in the way of another part")]
    Conflict,
}

impl Topology {
    /// The next change on the way to what is wanted; none when everything is so.
    #[must_use]
    pub fn next_change(&self, wanted: &Self) -> Option<BalancerChange> {
        self.surplus(wanted).or_else(|| {
            wanted.listeners.iter().find_map(|(name, listener)| {
                let pool = wanted.pools.get(name)?;
                self.change_of_pool(name, pool).or_else(|| self.change_of_listener(name, listener))
            })
        })
    }

    /// Something that is not wanted, or cannot become what is.
    fn surplus(&self, wanted: &Self) -> Option<BalancerChange> {
        let is_wrong_pool = |name: &ListenerName| {
            let (is, should) = (self.pools.get(name), wanted.pools.get(name));
            is.is_some_and(|is| should.is_none_or(|should| is.protocol != should.protocol))
        };
        let is_wrong_listener = |(name, is): &(&ListenerName, &CloudListener)| {
            let should = wanted.listeners.get(name);
            should.is_none_or(|should| should.place() != is.place()) || is_wrong_pool(name)
        };
        let listener = self.listeners.iter().find(is_wrong_listener);
        let pool = || self.pools.keys().find(|name| is_wrong_pool(name));
        listener
            .map(|(name, _)| BalancerChange::RemoveListener { name: name.clone() })
            .or_else(|| pool().map(|name| BalancerChange::RemovePool { name: name.clone() }))
    }

    fn change_of_pool(&self, name: &ListenerName, wanted: &CloudPool) -> Option<BalancerChange> {
        let name = name.clone();
        match self.pools.get(&name) {
            None => Some(BalancerChange::AddPool { name, protocol: wanted.protocol }),
            Some(pool) if pool.members != wanted.members => {
                Some(BalancerChange::ReplaceMembers { name, members: wanted.members.clone() })
            }
            Some(pool) if pool.monitor != wanted.monitor => {
                Some(BalancerChange::SetMonitor { name, monitor: wanted.monitor })
            }
            Some(_) => None,
        }
    }

    fn change_of_listener(&self, name: &ListenerName, wanted: &CloudListener) -> Option<BalancerChange> {
        let (name, listener) = (name.clone(), wanted.clone());
        match self.listeners.get(&name) {
            None => Some(BalancerChange::AddListener { name, listener }),
            Some(is) if is != wanted => Some(BalancerChange::UpdateListener { name, listener }),
            Some(_) => None,
        }
    }

    /// Makes a change, if what is there allows it.
    pub fn apply(&mut self, change: &BalancerChange) -> Result<(), ChangeRefused> {
        match change {
            BalancerChange::AddPool { name, protocol } => {
                let pool = CloudPool { protocol: *protocol, members: BTreeSet::new(), monitor: None };
                vacant(&self.pools, name)?;
                self.pools.insert(name.clone(), pool);
            }
            BalancerChange::RemovePool { name } => {
                vacant(&self.listeners, name)?;
                self.pools.remove(name).ok_or(ChangeRefused::Missing)?;
            }
            BalancerChange::ReplaceMembers { name, members } => self.pool(name)?.members.clone_from(members),
            BalancerChange::SetMonitor { name, monitor } => self.pool(name)?.monitor = *monitor,
            BalancerChange::AddListener { name, listener } => {
                vacant(&self.listeners, name)?;
                self.pool(name)?;
                if self.listeners.values().any(|other| other.place() == listener.place()) {
                    return Err(ChangeRefused::Conflict);
                }
                self.listeners.insert(name.clone(), listener.clone());
            }
            BalancerChange::UpdateListener { name, listener } => {
                let is = self.listeners.get_mut(name).ok_or(ChangeRefused::Missing)?;
                if is.place() != listener.place() {
                    return Err(ChangeRefused::Conflict);
                }
                is.clone_from(listener);
            }
            BalancerChange::RemoveListener { name } => {
                self.listeners.remove(name).ok_or(ChangeRefused::Missing)?;
            }
        }
        Ok(())
    }

    fn pool(&mut self, name: &ListenerName) -> Result<&mut CloudPool, ChangeRefused> {
        self.pools.get_mut(name).ok_or(ChangeRefused::Missing)
    }

    /// Every listener has its pool, and no two share a port: what a cloud takes as a whole.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        let places = self.listeners.values().map(|listener| (listener.protocol, listener.port));
        places.collect::<BTreeSet<_>>().len() == self.listeners.len()
            && self.listeners.keys().all(|name| self.pools.contains_key(name))
    }

    /// How many parts there are.
    #[must_use]
    pub fn size(&self) -> usize {
        let members = self.pools.values().map(|pool| pool.members.len()).sum::<usize>();
        let allowed = self.listeners.values().map(|listener| listener.allowed.len()).sum::<usize>();
        self.listeners.len() + self.pools.len() + members + allowed
    }
}

fn vacant<T>(parts: &BTreeMap<ListenerName, T>, name: &ListenerName) -> Result<(), ChangeRefused> {
    if parts.contains_key(name) { Err(ChangeRefused::Conflict) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(number: u8) -> ListenerName {
        ListenerName::try_from(format!("l{number}")).expect("a name")
    }

    fn monitor(interval_seconds: u16) -> Monitor {
        Monitor { interval_seconds, timeout_seconds: 1, healthy_threshold: 2, unhealthy_threshold: 2 }
    }

    fn members() -> impl Strategy<Value = BTreeSet<Member>> {
        let member = (0..4_u8).prop_map(|last| Member { address: [10, 0, 0, last].into(), port: 80 });
        proptest::collection::btree_set(member, 0..4)
    }

    fn pool() -> impl Strategy<Value = CloudPool> {
        let protocol = prop_oneof![Just(PoolProtocol::Tcp), Just(PoolProtocol::ProxyV2), Just(PoolProtocol::Udp)];
        let monitor = proptest::option::of((2..4_u16).prop_map(monitor));
        (protocol, members(), monitor).prop_map(|(protocol, members, monitor)| CloudPool { protocol, members, monitor })
    }

    fn listener() -> impl Strategy<Value = CloudListener> {
        let protocol = prop_oneof![Just(BalancedProtocol::Tcp), Just(BalancedProtocol::Udp)];
        (protocol, 80..84_u16, proptest::option::of(1..3_u32)).prop_map(|(protocol, port, idle_timeout_seconds)| {
            CloudListener { protocol, port, allowed: BTreeSet::new(), idle_timeout_seconds }
        })
    }

    /// What a cloud can be in: pools without listeners too, as a way that was broken off leaves them.
    fn there() -> impl Strategy<Value = Topology> {
        let parts = proptest::collection::btree_map(0..5_u8, (proptest::option::of(listener()), pool()), 0..5);
        parts.prop_map(|parts| {
            let mut topology = Topology::default();
            for (number, (listener, pool)) in parts {
                topology.pools.insert(name(number), pool);
                let free = |new: &CloudListener| topology.listeners.values().all(|other| other.place() != new.place());
                if let Some(listener) = listener.filter(free) {
                    topology.listeners.insert(name(number), listener);
                }
            }
            topology
        })
    }

    /// What a specification can ask for: a pool for each listener and no other.
    fn wanted() -> impl Strategy<Value = Topology> {
        there().prop_map(|mut topology| {
            topology.pools.retain(|name, _| topology.listeners.contains_key(name));
            topology
        })
    }

    proptest! {
        /// From wherever it is left, each change is one that the cloud takes, nothing that is right is touched, and
        /// the way has an end.
        #[test]
        fn every_way_leads_to_what_is_wanted(from in there(), wanted in wanted()) {
            let mut topology = from.clone();
            let longest = from.listeners.len() + from.pools.len() + 5 * wanted.listeners.len();
            let right = |topology: &Topology, name: &ListenerName| {
                topology.listeners.get(name) == wanted.listeners.get(name)
                    && topology.pools.get(name) == wanted.pools.get(name)
                    && wanted.listeners.contains_key(name)
            };
            for _ in 0..=longest {
                let Some(change) = topology.next_change(&wanted) else {
                    prop_assert_eq!(&topology, &wanted);
                    return Ok(());
                };
                let already = wanted.listeners.keys().filter(|name| right(&topology, name)).collect::<Vec<_>>();
                prop_assert_eq!(topology.apply(&change), Ok(()), "{:?}", change);
                prop_assert!(topology.is_consistent());
                prop_assert!(already.into_iter().all(|name| right(&topology, name)), "{:?}", change);
            }
            prop_assert!(false, "the way to {wanted:?} from {from:?} has no end");
        }
    }

    #[test]
    fn a_listener_goes_live_with_its_members_and_its_check() {
        let members = BTreeSet::from([Member { address: [10, 0, 0, 1].into(), port: 80 }]);
        let pool = CloudPool { protocol: PoolProtocol::Tcp, members, monitor: Some(monitor(9)) };
        let listener = CloudListener {
            protocol: BalancedProtocol::Tcp,
            port: 80,
            allowed: BTreeSet::new(),
            idle_timeout_seconds: Some(60),
        };
        let wanted =
            Topology { listeners: BTreeMap::from([(name(1), listener)]), pools: BTreeMap::from([(name(1), pool)]) };
        let mut topology = Topology::default();
        let mut walked = Vec::new();
        while let Some(change) = topology.next_change(&wanted) {
            topology.apply(&change).expect("allowed");
            walked.push(change);
        }
        assert!(matches!(walked.last(), Some(BalancerChange::AddListener { .. })), "{walked:?}");
        assert_eq!(walked.len(), 4);
    }

    #[test]
    fn a_pool_in_use_and_a_taken_port_are_refused() {
        let listener = CloudListener {
            protocol: BalancedProtocol::Tcp,
            port: 80,
            allowed: BTreeSet::new(),
            idle_timeout_seconds: None,
        };
        let mut topology = Topology::default();
        let add = |number| BalancerChange::AddListener { name: name(number), listener: listener.clone() };
        assert_eq!(topology.apply(&add(1)), Err(ChangeRefused::Missing), "it has no pool");
        for number in [1, 2] {
            let pool = BalancerChange::AddPool { name: name(number), protocol: PoolProtocol::Tcp };
            assert_eq!(topology.apply(&pool), Ok(()));
            assert_eq!(topology.apply(&pool), Err(ChangeRefused::Conflict));
        }
        assert_eq!(topology.apply(&add(1)), Ok(()));
        assert_eq!(topology.apply(&add(2)), Err(ChangeRefused::Conflict), "the port is taken");
        let remove = BalancerChange::RemovePool { name: name(1) };
        assert_eq!(topology.apply(&remove), Err(ChangeRefused::Conflict));
        assert_eq!(topology.apply(&BalancerChange::RemoveListener { name: name(1) }), Ok(()));
        assert_eq!(topology.apply(&remove), Ok(()));
        assert_eq!(topology.apply(&remove), Err(ChangeRefused::Missing));
    }
}
