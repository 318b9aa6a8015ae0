//! A cluster: pools of instances that are alike, kept at their number.
//!
//! ```text
//!   too few ──▶ made, all at once          named for eviction ──▶ taken away
//!   too many ──▶ taken away: those named, those not ready, those on old terms, the youngest
//!   on old terms ──▶ changed, no more at a time than may be away
//! ```
//!
//! What is to be done next is a function of what is asked for and of what is there ([`ClusterSpec::plan`]).

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{
    ClusterId, FlavorId, ImageId, Incarnation, InstanceId, Key, Kind, NetworkId, SecurityGroupId, ServerId,
};
use super::instance::{Instance, InstanceSpec, MachineSpec};
use super::metadata::{Metadata, Tag};
use super::network::Prefix;
use super::quota::{Amount, Amounts, QuotaKind};
use super::record::{Resource, ResourceKind};
use super::security_group::{Direction, Protocol, Rule};
use super::server::ServerPhase;

/// The tag that says which cluster an instance is of.
pub const CLUSTER_TAG: &str = "compute.unikorn-cloud.org/cluster-id";

/// How many characters an instance's name has beyond its pool's, the hyphen included.
pub const SUFFIX_LEN: usize = 7;

/// How many of a pool may be away for a change when nobody has said otherwise.
pub const UNAVAILABLE_MAX_DEFAULT: u32 = 1;

#[derive(Clone, Debug)]
pub struct Cluster;

impl ResourceKind for Cluster {
    const KIND: Kind = Kind::Cluster;
    type Spec = ClusterSpec;
    type Detail = ClusterDetail;
}

/// What the client asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    pub pools: Vec<Pool>,
    /// How many of each pool may be away at a time while it is changed. `None` when the client did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_max: Option<u32>,
    /// Those that are to go, whoever else does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evictions: Vec<InstanceId>,
    /// What the ledger was told: as much as is asked for, and as was there before, until that is gone.
    #[serde(default)]
    pub charged: Amounts,
    /// Its network was made with it, for it alone, and goes when it has gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_network: bool,
    /// What the client said of that network. `None` when it left that to us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_network: Option<NodeNetwork>,
}

/// Instances that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    pub name: String,
    pub replicas: u32,
    pub machine: MachineSpec,
    /// What only the first version of the API says of a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstPool>,
}

/// The network of a cluster of the first version, as its client asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetwork {
    pub prefix: Prefix,
    pub dns_nameservers: Vec<Ipv4Addr>,
}

/// What a client of the first version said of a pool beyond its machines, kept to be read back as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FirstPool {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firewall: Option<Vec<FirewallRule>>,
    /// The group that the firewall is. It stays when all rules go: machines keep what they are connected with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<SecurityGroupId>,
    /// What the image was chosen by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_selector: Option<ImageSelector>,
}

/// A rule of the first version: as many rules of a security group as it has prefixes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FirewallRule {
    pub direction: Direction,
    pub protocol: Protocol,
    pub port: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_max: Option<u16>,
    pub prefixes: Vec<Prefix>,
}

/// What an image must hold to be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSelector {
    pub distro: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    pub version: String,
}

/// What is known of it beyond the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterDetail {
    /// How many instances were ever made for it. Counted before each is made: no two have one number.
    pub made: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolDetail>,
    /// The generation of which nothing but what is asked for is left, and charged.
    pub settled: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolDetail {
    pub name: String,
    /// How many there are, those that are going apart.
    pub replicas: u32,
    /// How many of them are as asked for.
    pub ready: u32,
    /// Who they are: for clusters of the first version, which shows each of them with its cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineDetail>,
}

/// An instance, as its cluster last heard of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineDetail {
    pub id: InstanceId,
    pub hostname: String,
    pub flavor: FlavorId,
    pub image: ImageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<Ipv4Addr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<Ipv4Addr>,
    pub phase: ServerPhase,
    pub phase_seen: ServerPhase,
}

impl MachineDetail {
    #[must_use]
    pub fn of(instance: &Resource<Instance>) -> Self {
        Self {
            id: InstanceId(instance.key.id),
            hostname: instance.metadata.name.clone(),
            flavor: instance.spec.machine.flavor,
            image: instance.spec.machine.image,
            private_ip: instance.detail.private_ip,
            public_ip: instance.detail.public_ip,
            phase: instance.detail.phase,
            phase_seen: instance.detail.phase_seen,
        }
    }
}

impl FirewallRule {
    /// What it means in the words of a security group. A range that ends where it begins is one port.
    pub fn rules(&self) -> impl Iterator<Item = Rule> + '_ {
        self.prefixes.iter().map(|prefix| Rule {
            direction: self.direction,
            protocol: self.protocol,
            port: Some(self.port),
            port_max: self.port_max.filter(|port_max| *port_max != self.port),
            prefix: Some(prefix.clone()),
        })
    }
}

/// An instance of a cluster, as far as the plan looks at it.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    pub id: InstanceId,
    pub pool: Option<&'a str>,
    pub machine: &'a MachineSpec,
    pub is_ready: bool,
    pub is_deleting: bool,
    pub created: Timestamp,
}

impl<'a> Member<'a> {
    #[must_use]
    pub fn of(instance: &'a Resource<Instance>) -> Self {
        let generation = instance.metadata.generation;
        let said = instance.conditions.available.as_ref();
        Self {
            id: InstanceId(instance.key.id),
            pool: instance.spec.pool.as_deref(),
            machine: &instance.spec.machine,
            is_ready: instance.conditions.is_available()
                && said.is_some_and(|said| said.observed_generation == generation),
            is_deleting: instance.metadata.is_deleting(),
            created: instance.metadata.created,
        }
    }
}

/// What is to be done next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub delete: Vec<InstanceId>,
    /// The pools, by their place, that lack one each time they are named.
    pub make: Vec<usize>,
    /// Who is to be what, by the place of the pool.
    pub change: Vec<(InstanceId, usize)>,
    /// How many are not there, not as asked for, or still going.
    pub unsettled: usize,
}

impl ClusterSpec {
    #[must_use]
    pub fn unavailable_max(&self) -> u32 {
        self.unavailable_max.unwrap_or(UNAVAILABLE_MAX_DEFAULT)
    }

    /// What all that is asked for costs, as one sum.
    #[must_use]
    pub fn cost(&self) -> Amounts {
        let mut sum = Amounts::from([(QuotaKind::Clusters, Amount::of(1))]);
        for pool in self.pools.iter().filter(|pool| pool.replicas > 0) {
            for (kind, amount) in pool.machine.cost() {
                let all = Amount::of(amount.committed.saturating_mul(u64::from(pool.replicas)));
                let entry = sum.entry(kind).or_default();
                *entry = entry.plus(all);
            }
        }
        sum
    }

    /// What it needs to be there, beside its network, each once.
    #[must_use]
    pub fn uses(&self) -> Vec<Key> {
        let mut all = self.pools.iter().flat_map(|pool| pool.machine.uses()).collect::<Vec<_>>();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// What is to be done next about these, in the order of pools.
    #[must_use]
    pub fn plan(&self, members: &[Member<'_>]) -> Plan {
        let mut plan =
            Plan { unsettled: members.iter().filter(|member| member.is_deleting).count(), ..Plan::default() };
        let is_known = |member: &Member<'_>| self.pools.iter().any(|pool| Some(pool.name.as_str()) == member.pool);
        let strays = members.iter().filter(|member| !member.is_deleting && !is_known(member));
        plan.delete.extend(strays.map(|member| member.id));
        for (place, pool) in self.pools.iter().enumerate() {
            let of_pool = |member: &&Member<'_>| member.pool == Some(pool.name.as_str()) && !member.is_deleting;
            self.plan_pool((place, pool), members.iter().filter(of_pool).collect(), &mut plan);
        }
        plan.unsettled += plan.delete.len();
        self.keep_within(members, &mut plan);
        plan
    }

    /// Those that are going still cost: no more are made than what is charged has room for. The others are made when
    /// they are gone.
    fn keep_within(&self, members: &[Member<'_>], plan: &mut Plan) {
        let mut used = Amounts::new();
        let mut fits = |machine: &MachineSpec, is_bound: bool| {
            let more = machine.cost().into_iter().map(|(kind, amount)| {
                let total = used.get(&kind).copied().unwrap_or_default().plus(amount);
                (kind, total)
            });
            let more = more.collect::<Amounts>();
            let room = |kind: &QuotaKind| self.charged.get(kind).copied().unwrap_or_default().total();
            let is_within = more.iter().all(|(kind, total)| total.total() <= room(kind));
            if is_within || !is_bound {
                used.extend(more);
            }
            is_within
        };
        for member in members {
            fits(member.machine, false);
        }
        plan.make.retain(|place| fits(&self.pools[*place].machine, true));
    }

    fn plan_pool(&self, (place, pool): (usize, &Pool), mut live: Vec<&Member<'_>>, plan: &mut Plan) {
        let is_evicted = |member: &Member<'_>| self.evictions.contains(&member.id);
        let is_old = |member: &Member<'_>| *member.machine != pool.machine;
        // Who goes first comes last.
        live.sort_by_key(|member| (is_evicted(member), !member.is_ready, is_old(member), member.created, member.id));
        let evicted = live.iter().filter(|member| is_evicted(member)).count();
        let wanted = usize::try_from(pool.replicas).unwrap_or(usize::MAX);
        let stay = wanted.min(live.len() - evicted);
        plan.delete.extend(live.drain(stay..).map(|member| member.id));
        plan.make.extend(std::iter::repeat_n(place, wanted - stay));
        let ready = live.iter().filter(|member| member.is_ready && !is_old(member)).count();
        plan.unsettled += wanted - ready;
        let away = wanted - live.iter().filter(|member| member.is_ready).count();
        let mut budget = usize::try_from(self.unavailable_max()).unwrap_or(usize::MAX).saturating_sub(away);
        for member in live.into_iter().filter(|member| is_old(member)) {
            // Who is away already costs nobody anything.
            if member.is_ready {
                if budget == 0 {
                    continue;
                }
                budget -= 1;
            }
            plan.change.push((member.id, place));
        }
    }

    /// How the pools stand, in their order.
    #[must_use]
    pub fn standing(&self, members: &[Member<'_>]) -> Vec<PoolDetail> {
        let count = |pool: &Pool, wanted: &dyn Fn(&Member<'_>) -> bool| {
            let live = members.iter().filter(|member| member.pool == Some(pool.name.as_str()) && !member.is_deleting);
            u32::try_from(live.filter(|member| wanted(member)).count()).unwrap_or(u32::MAX)
        };
        let detail = |pool: &Pool| PoolDetail {
            name: pool.name.clone(),
            replicas: count(pool, &|_| true),
            ready: count(pool, &|member| member.is_ready && *member.machine == pool.machine),
            machines: Vec::new(),
        };
        self.pools.iter().map(detail).collect()
    }
}

/// The instance with this number: its id and its life are functions of it, so that making it again makes the same one.
#[must_use]
pub fn member(
    cluster: &Resource<Cluster>,
    pool: &Pool,
    number: u64,
    now: Timestamp,
) -> (InstanceId, Metadata, InstanceSpec) {
    let seed = cluster.metadata.incarnation.0;
    let drawn = |what: &str| Uuid::new_v5(&seed, format!("{what} {number}").as_bytes());
    let id = InstanceId(drawn("instance"));
    let name = format!("{}-{}", pool.name, suffix(id.0));
    let tag = Tag { name: CLUSTER_TAG.to_owned(), value: ClusterId(cluster.key.id).to_string() };
    let placement = cluster.metadata.placement;
    let created = Metadata::new(Incarnation(drawn("life")), &name, placement, &cluster.metadata.creator, now);
    let metadata = Metadata {
        tags: Some(vec![tag]),
        principal: cluster.metadata.principal.clone(),
        owner: Some(cluster.key),
        ..created
    };
    let network = placement.network.unwrap_or(NetworkId(Uuid::nil()));
    let spec = InstanceSpec {
        machine: pool.machine.clone(),
        policy: None,
        server: ServerId::named(network, &name),
        pool: Some(pool.name.clone()),
        charged: Amounts::new(),
    };
    (id, metadata, spec)
}

/// Six characters that a DNS label may have.
fn suffix(id: Uuid) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    id.as_bytes()[..SUFFIX_LEN - 1].iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ids::{FlavorId, ImageId};
    use crate::model::instance::FlavorChange;
    use crate::model::server::Networking;

    fn machine(image: u128) -> MachineSpec {
        MachineSpec {
            flavor: FlavorId(Uuid::from_u128(1)),
            image: ImageId(Uuid::from_u128(image)),
            is_own_image: false,
            gpus: 2,
            networking: None,
            user_data: None,
            ssh_certificate_authority: None,
            flavor_change: FlavorChange::Resize,
        }
    }

    fn spec(replicas: u32, image: u128) -> ClusterSpec {
        let pool = Pool { name: "web".to_owned(), replicas, machine: machine(image), first: None };
        // Room for whatever these tests ask for.
        let charged = QuotaKind::ALL.into_iter().map(|kind| (kind, Amount::of(1000))).collect();
        ClusterSpec {
            pools: vec![pool],
            unavailable_max: None,
            evictions: Vec::new(),
            charged,
            own_network: false,
            node_network: None,
        }
    }

    fn id(number: usize) -> InstanceId {
        InstanceId(Uuid::from_u128(number as u128))
    }

    fn members(count: usize, machine: &MachineSpec) -> Vec<Member<'_>> {
        let member = |number: usize| Member {
            id: id(number),
            pool: Some("web"),
            machine,
            is_ready: true,
            is_deleting: false,
            created: Timestamp::from_second(i64::try_from(number).expect("small")).expect("in range"),
        };
        (0..count).map(member).collect()
    }

    #[test]
    fn what_is_missing_is_made_and_what_is_too_much_goes_the_youngest_first() {
        let old = machine(1);
        assert_eq!(spec(3, 1).plan(&members(1, &old)).make, [0, 0]);
        assert_eq!(spec(1, 1).plan(&members(3, &old)).delete, [id(1), id(2)]);
        assert_eq!(spec(2, 1).plan(&members(2, &old)), Plan::default());
    }

    #[test]
    fn twenty_scaled_to_five_with_three_named_loses_those_three() {
        let old = machine(1);
        let named = [id(0), id(3), id(4)];
        let spec = ClusterSpec { evictions: named.to_vec(), ..spec(5, 1) };
        let plan = spec.plan(&members(20, &old));
        assert_eq!(plan.delete.len(), 15);
        assert!(named.iter().all(|named| plan.delete.contains(named)), "{plan:?}");
        assert!(plan.make.is_empty());
    }

    #[test]
    fn who_is_named_goes_although_the_number_stays_and_another_comes() {
        let old = machine(1);
        let spec = ClusterSpec { evictions: vec![id(1)], ..spec(3, 1) };
        let plan = spec.plan(&members(3, &old));
        assert_eq!((plan.delete, plan.make), (vec![id(1)], vec![0]));
    }

    #[test]
    fn no_more_are_made_than_is_paid_for_while_others_are_still_going() {
        let old = machine(1);
        let mut there = members(3, &old);
        for member in &mut there[..2] {
            member.is_deleting = true;
        }
        let mut spec = spec(3, 1);
        spec.charged = spec.cost();
        let plan = spec.plan(&there);
        assert_eq!((plan.make.len(), plan.unsettled), (0, 4), "two are going, and two are missing");
        assert_eq!(spec.plan(&there[1..]).make.len(), 1, "one has gone");
        assert_eq!(spec.plan(&there[2..]).make.len(), 2);
    }

    #[test]
    fn those_of_a_pool_that_is_no_more_go() {
        let old = machine(1);
        let mut left = members(2, &old);
        left[1].pool = Some("db");
        let plan = spec(1, 1).plan(&left);
        assert_eq!((plan.delete, plan.make), (vec![id(1)], Vec::<usize>::new()));
    }

    #[test]
    fn a_firewall_rule_is_a_rule_for_each_prefix_and_a_range_of_one_is_a_port() {
        let prefixes = ["10.0.0.0/8", "192.168.0.0/16"].map(|text| Prefix::parse(text).expect("a prefix"));
        let rule = FirewallRule {
            direction: Direction::Ingress,
            protocol: Protocol::Tcp,
            port: 22,
            port_max: Some(22),
            prefixes: prefixes.to_vec(),
        };
        let rules = rule.rules().collect::<Vec<_>>();
        assert_eq!(rules.iter().filter_map(|rule| rule.prefix.clone()).collect::<Vec<_>>(), prefixes);
        assert!(rules.iter().all(|rule| rule.port_max.is_none() && rule.validate().is_ok()), "{rules:?}");
        let range = FirewallRule { port_max: Some(23), ..rule };
        assert!(range.rules().all(|rule| rule.port_max == Some(23)));
    }

    #[test]
    fn a_record_of_before_the_first_version_had_clusters_still_opens() {
        let old = serde_json::json!({"pools": [{"name": "web", "replicas": 1, "machine": machine(1)}]});
        let opened: ClusterSpec = serde_json::from_value(old).expect("opens");
        assert!(!opened.own_network && opened.node_network.is_none() && opened.pools[0].first.is_none());
        let written = serde_json::to_value(&opened).expect("json");
        assert!(written.get("ownNetwork").is_none(), "{written}");
    }

    #[test]
    fn the_sum_counts_every_replica() {
        let mut spec = spec(3, 1);
        spec.pools[0].machine.networking = Some(Networking { public_ip: Some(true), ..Networking::default() });
        let expected =
            [(QuotaKind::Clusters, 1), (QuotaKind::Servers, 3), (QuotaKind::Gpus, 6), (QuotaKind::PublicIps, 3)];
        assert_eq!(spec.cost(), expected.into_iter().map(|(kind, amount)| (kind, Amount::of(amount))).collect());
        spec.pools[0].replicas = 0;
        assert_eq!(spec.cost(), Amounts::from([(QuotaKind::Clusters, Amount::of(1))]));
    }

    proptest! {
        /// Whatever is there: after the plan there are as many as asked for, nobody who is ready is taken while somebody
        /// who is not could be, and no more are away than may be, unless they were before.
        #[test]
        fn a_plan_keeps_the_number_and_the_bound(
            replicas in 0_u32..8, bound in 0_u32..4,
            there in proptest::collection::vec((any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()), 0..10),
        ) {
            let (old, new) = (machine(1), machine(2));
            let mut members = members(there.len(), &new);
            let mut evictions = Vec::new();
            for (member, (is_ready, is_deleting, is_old, is_evicted)) in members.iter_mut().zip(&there) {
                (member.is_ready, member.is_deleting) = (*is_ready, *is_deleting);
                member.machine = if *is_old { &old } else { &new };
                evictions.extend(is_evicted.then_some(member.id));
            }
            let spec = ClusterSpec { evictions, unavailable_max: Some(bound), ..spec(replicas, 2) };
            let plan = spec.plan(&members);
            let live = members.iter().filter(|member| !member.is_deleting).collect::<Vec<_>>();
            prop_assert_eq!(live.len() - plan.delete.len() + plan.make.len(), replicas as usize);
            let stays = |member: &&&Member<'_>| !plan.delete.contains(&member.id);
            let ready = live.iter().filter(stays).filter(|member| member.is_ready).count();
            let changed = plan.change.iter().filter(|(id, _)| {
                live.iter().any(|member| member.id == *id && member.is_ready)
            }).count();
            let away_before = replicas as usize - ready;
            prop_assert!(away_before + changed <= away_before.max(bound as usize));
            let settled = plan.delete.is_empty() && plan.make.is_empty() && plan.change.is_empty()
                && live.len() == members.len() && ready == replicas as usize;
            if plan.unsettled == 0 {
                prop_assert!(settled);
            }
        }
    }
}
