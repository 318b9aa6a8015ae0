//! What Octavia's parts of a load balancer are in our terms, and what ours are in its: no calls here.
//!
//! Parts are known by their names, which are those of the service before us. What has no such name is somebody else's and
//! is left alone. Which change is next is said by [`Topology::next_change`]; here it becomes a body.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::Deserialize;
use serde_json::{Value, json};

use super::doubles::Marked;
use super::names::{self, Claim};
use super::ports::nothing_if_null;
use crate::model::ids::{Incarnation, LoadBalancerId, ProviderLoadBalancerId, ProviderPortId};
use crate::model::load_balancer::{BalancedProtocol, ListenerName, Member};
use crate::model::load_balancer_topology::{
    BalancerChange as Change, CloudListener, CloudPool, Monitor, PoolProtocol, Topology,
};
use crate::providers::fingerprint::Fingerprint;
use crate::providers::{AddressSighting, LoadBalancerFact, LoadBalancerRequest};

/// What Octavia counts time-outs in.
const MILLISECONDS: u32 = 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct BalancerBody {
    pub id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub name: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub tags: Vec<String>,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub provisioning_status: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub vip_address: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub vip_port_id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    listeners: Vec<PartId>,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pools: Vec<PartId>,
    /// Moves with every change of a part.
    #[serde(default, deserialize_with = "nothing_if_null")]
    updated_at: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct PartId {
    pub id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct ListenerBody {
    pub id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    name: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    protocol: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    protocol_port: u16,
    #[serde(default, deserialize_with = "nothing_if_null")]
    allowed_cidrs: Vec<String>,
    #[serde(default, deserialize_with = "nothing_if_null")]
    default_pool_id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    timeout_client_data: u32,
    #[serde(default, deserialize_with = "nothing_if_null")]
    timeout_member_data: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct PoolBody {
    pub id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    name: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    protocol: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct MemberBody {
    address: String,
    protocol_port: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct MonitorBody {
    pub id: String,
    delay: u16,
    timeout: u16,
    max_retries: u16,
    #[serde(default, deserialize_with = "nothing_if_null")]
    max_retries_down: u16,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pools: Vec<PartId>,
}

/// How far the cloud is with a balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BalancerState {
    Building,
    Active,
    /// It is whole, and the cloud is busy with a change.
    Changing,
    Error,
    Leaving,
}

impl Marked for BalancerBody {
    const WORD: &'static str = "load balancer";
    fn id(&self) -> &str {
        &self.id
    }
    fn incarnation(&self) -> Option<Incarnation> {
        Self::incarnation(self)
    }
}

impl BalancerBody {
    pub fn state(&self) -> BalancerState {
        match self.provisioning_status.as_str() {
            "PENDING_CREATE" => BalancerState::Building,
            "ACTIVE" => BalancerState::Active,
            "PENDING_UPDATE" => BalancerState::Changing,
            "PENDING_DELETE" | "DELETED" => BalancerState::Leaving,
            _ => BalancerState::Error,
        }
    }

    pub fn of(&self) -> Option<LoadBalancerId> {
        names::id_in(&self.name, names::LOAD_BALANCER_PREFIX).map(LoadBalancerId)
    }

    pub fn incarnation(&self) -> Option<Incarnation> {
        self.tags.iter().find_map(|tag| names::incarnation_in(tag))
    }

    pub fn claim(&self, incarnation: Incarnation) -> Claim {
        Claim::of(self.incarnation(), incarnation)
    }

    pub fn is_of(&self, id: LoadBalancerId, incarnation: Incarnation) -> bool {
        self.of() == Some(id) && self.claim(incarnation) != Claim::Another
    }

    pub fn vip(&self) -> Option<Ipv4Addr> {
        self.vip_address.parse().ok()
    }

    /// What was seen of it, without its public address.
    pub fn fact(&self) -> LoadBalancerFact {
        let state = self.state();
        LoadBalancerFact {
            balancer: ProviderLoadBalancerId(self.id.clone()),
            port: ProviderPortId(self.vip_port_id.clone()),
            vip_address: self.vip(),
            built: matches!(state, BalancerState::Active | BalancerState::Changing),
            unfinished: matches!(state, BalancerState::Building | BalancerState::Changing),
            trouble: match state {
                BalancerState::Active | BalancerState::Building | BalancerState::Changing => None,
                BalancerState::Error => Some("the load balancer is in an error state".to_owned()),
                BalancerState::Leaving => Some("the load balancer is being removed".to_owned()),
            },
            fingerprint: self.fingerprint(),
            address: AddressSighting::NotLookedAt,
        }
    }

    /// Of what a list of balancers shows. Their parts are behind one call each, but not without a trace: each change of
    /// one moves the balancer's own time.
    fn fingerprint(&self) -> u64 {
        let mut digest = Fingerprint::new();
        for text in [&self.id, &self.provisioning_status, &self.vip_address, &self.vip_port_id, &self.updated_at] {
            digest.text(text);
        }
        for parts in [&self.listeners, &self.pools] {
            let parts = parts.iter().collect::<BTreeSet<_>>();
            digest.number(parts.len() as u64);
            for part in parts {
                digest.text(&part.id);
            }
        }
        for tag in &self.tags {
            digest.text(tag);
        }
        digest.value()
    }
}

/// The parts of a balancer as the cloud has them, by the listener that they belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub topology: Topology,
    pub listeners: BTreeMap<ListenerName, String>,
    pub pools: BTreeMap<ListenerName, String>,
    pub monitors: BTreeMap<ListenerName, String>,
}

/// The listener that a part is for.
fn listener_of(id: LoadBalancerId, name: &str, part: &str) -> Option<ListenerName> {
    let rest = name.strip_prefix(names::load_balancer(id).as_str())?.strip_prefix('-')?;
    let listener = rest.strip_suffix(part)?.strip_suffix('-')?;
    ListenerName::try_from(listener.to_owned()).ok()
}

/// The pools of a balancer that are ours, for whoever asks for their members.
pub(super) fn own_pools(id: LoadBalancerId, pools: &[PoolBody]) -> Vec<(ListenerName, String)> {
    pools.iter().filter_map(|pool| Some((listener_of(id, &pool.name, "pool")?, pool.id.clone()))).collect()
}

impl Parts {
    pub fn of(
        id: LoadBalancerId,
        listeners: Vec<ListenerBody>,
        pools: &[PoolBody],
        members: &BTreeMap<String, Vec<MemberBody>>,
        monitors: &[MonitorBody],
    ) -> Self {
        let mut parts = Self::default();
        for pool in pools {
            let Some(name) = listener_of(id, &pool.name, "pool") else { continue };
            let Some(protocol) = pool_protocol(&pool.protocol) else { continue };
            let monitor = monitors.iter().find(|monitor| monitor.pools.iter().any(|of| of.id == pool.id));
            if let Some(monitor) = monitor {
                parts.monitors.insert(name.clone(), monitor.id.clone());
            }
            let members = members.get(&pool.id).into_iter().flatten().filter_map(member).collect();
            let known = CloudPool { protocol, members, monitor: monitor.map(monitor_of) };
            parts.topology.pools.insert(name.clone(), known);
            parts.pools.insert(name, pool.id.clone());
        }
        for listener in listeners {
            let Some(name) = listener_of(id, &listener.name, "listener") else { continue };
            let Some(known) = cloud_listener(&listener, parts.pools.get(&name)) else { continue };
            parts.topology.listeners.insert(name.clone(), known);
            parts.listeners.insert(name, listener.id);
        }
        parts
    }
}

fn pool_protocol(word: &str) -> Option<PoolProtocol> {
    match word {
        "TCP" => Some(PoolProtocol::Tcp),
        "PROXYV2" => Some(PoolProtocol::ProxyV2),
        "UDP" => Some(PoolProtocol::Udp),
        _ => None,
    }
}

const fn pool_word(protocol: PoolProtocol) -> &'static str {
    match protocol {
        PoolProtocol::Tcp => "TCP",
        PoolProtocol::ProxyV2 => "PROXYV2",
        PoolProtocol::Udp => "UDP",
    }
}

const fn listener_word(protocol: BalancedProtocol) -> &'static str {
    match protocol {
        BalancedProtocol::Tcp => "TCP",
        BalancedProtocol::Udp => "UDP",
    }
}

fn member(body: &MemberBody) -> Option<Member> {
    Some(Member { address: body.address.parse().ok()?, port: body.protocol_port })
}

const fn monitor_of(body: &MonitorBody) -> Monitor {
    Monitor {
        interval_seconds: body.delay,
        timeout_seconds: body.timeout,
        healthy_threshold: body.max_retries,
        unhealthy_threshold: body.max_retries_down,
    }
}

/// A listener that leads elsewhere than to its pool, or that waits for its members longer than for its clients, is shown
/// with a time-out that nobody asks for: so it is set right.
fn cloud_listener(body: &ListenerBody, pool: Option<&String>) -> Option<CloudListener> {
    let protocol = match body.protocol.as_str() {
        "TCP" => BalancedProtocol::Tcp,
        "UDP" => BalancedProtocol::Udp,
        _ => return None,
    };
    let is_well = pool == Some(&body.default_pool_id)
        && (protocol == BalancedProtocol::Udp || body.timeout_client_data == body.timeout_member_data);
    let idle_timeout_seconds = match protocol {
        _ if !is_well => Some(0),
        BalancedProtocol::Tcp => Some(body.timeout_client_data / MILLISECONDS),
        BalancedProtocol::Udp => None,
    };
    let allowed = body.allowed_cidrs.iter().filter_map(|cidr| cidr.parse::<Ipv4Net>().ok()).collect();
    Some(CloudListener { protocol, port: body.protocol_port, allowed, idle_timeout_seconds })
}

/// A balancer to be made, with everything in it.
pub(super) fn new_balancer(request: &LoadBalancerRequest, port: &str) -> Value {
    let topology = request.spec.topology();
    let whole = topology.listeners.iter().filter_map(|(name, listener)| {
        let pool = topology.pools.get(name)?;
        let mut body = listener_fields(request.id, name, listener);
        let mut pool_body = pool_fields(request.id, name, pool.protocol);
        pool_body["members"] = members(&pool.members);
        if let Some(monitor) = &pool.monitor {
            pool_body["healthmonitor"] = monitor_fields(request.id, name, *monitor, pool.protocol);
        }
        body["default_pool"] = pool_body;
        Some(body)
    });
    let mut balancer = json!({
        "name": names::load_balancer(request.id),
        "tags": [names::mark(request.incarnation)],
        "vip_port_id": port,
    });
    let whole = whole.collect::<Vec<_>>();
    if !whole.is_empty() {
        balancer["listeners"] = Value::Array(whole);
    }
    json!({"loadbalancer": balancer})
}

fn listener_fields(id: LoadBalancerId, name: &ListenerName, listener: &CloudListener) -> Value {
    let mut body = listener_update(listener);
    body["name"] = json!(names::of_listener(id, &name.to_string(), "listener"));
    body["protocol"] = json!(listener_word(listener.protocol));
    body["protocol_port"] = json!(listener.port);
    body
}

/// What can be changed of a listener that is there.
fn listener_update(listener: &CloudListener) -> Value {
    let mut body = json!({"allowed_cidrs": listener.allowed});
    if let Some(seconds) = listener.idle_timeout_seconds {
        let milliseconds = seconds.saturating_mul(MILLISECONDS);
        body["timeout_client_data"] = json!(milliseconds);
        body["timeout_member_data"] = json!(milliseconds);
    }
    body
}

fn pool_fields(id: LoadBalancerId, name: &ListenerName, protocol: PoolProtocol) -> Value {
    json!({
        "name": names::of_listener(id, &name.to_string(), "pool"),
        "protocol": pool_word(protocol),
        "lb_algorithm": "ROUND_ROBIN",
    })
}

fn members(members: &BTreeSet<Member>) -> Value {
    members.iter().map(|member| json!({"address": member.address, "protocol_port": member.port})).collect()
}

fn monitor_fields(id: LoadBalancerId, name: &ListenerName, monitor: Monitor, protocol: PoolProtocol) -> Value {
    let kind = if protocol == PoolProtocol::Udp { "UDP-CONNECT" } else { "TCP" };
    let mut body = monitor_update(monitor);
    body["name"] = json!(names::of_listener(id, &name.to_string(), "monitor"));
    body["type"] = json!(kind);
    body
}

fn monitor_update(monitor: Monitor) -> Value {
    json!({
        "delay": monitor.interval_seconds,
        "timeout": monitor.timeout_seconds,
        "max_retries": monitor.healthy_threshold,
        "max_retries_down": monitor.unhealthy_threshold,
    })
}

/// A change as a call: what is done to which path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    Post { path: String, body: Value },
    Put { path: String, body: Value },
    Delete { path: String },
}

/// The call that makes a change; `None` when what it is about is not there, which a fresh look will show.
pub(super) fn order(id: LoadBalancerId, balancer: &str, parts: &Parts, change: &Change) -> Option<Order> {
    Some(match change {
        Change::AddPool { name, protocol } => {
            let mut pool = pool_fields(id, name, *protocol);
            pool["loadbalancer_id"] = json!(balancer);
            Order::Post { path: "lbaas/pools".to_owned(), body: json!({"pool": pool}) }
        }
        Change::RemovePool { name } => Order::Delete { path: format!("lbaas/pools/{}", parts.pools.get(name)?) },
        Change::ReplaceMembers { name, members: wanted } => Order::Put {
            path: format!("lbaas/pools/{}/members", parts.pools.get(name)?),
            body: json!({"members": members(wanted)}),
        },
        Change::SetMonitor { name, monitor } => match (parts.monitors.get(name), monitor) {
            (Some(id), Some(monitor)) => Order::Put {
                path: format!("lbaas/healthmonitors/{id}"),
                body: json!({"healthmonitor": monitor_update(*monitor)}),
            },
            (Some(id), None) => Order::Delete { path: format!("lbaas/healthmonitors/{id}") },
            (None, Some(monitor)) => {
                let protocol = parts.topology.pools.get(name)?.protocol;
                let mut body = monitor_fields(id, name, *monitor, protocol);
                body["pool_id"] = json!(parts.pools.get(name)?);
                Order::Post { path: "lbaas/healthmonitors".to_owned(), body: json!({"healthmonitor": body}) }
            }
            (None, None) => return None,
        },
        Change::AddListener { name, listener } => {
            let mut body = listener_fields(id, name, listener);
            body["loadbalancer_id"] = json!(balancer);
            body["default_pool_id"] = json!(parts.pools.get(name)?);
            Order::Post { path: "lbaas/listeners".to_owned(), body: json!({"listener": body}) }
        }
        Change::UpdateListener { name, listener } => {
            let mut body = listener_update(listener);
            body["default_pool_id"] = json!(parts.pools.get(name)?);
            let path = format!("lbaas/listeners/{}", parts.listeners.get(name)?);
            Order::Put { path, body: json!({"listener": body}) }
        }
        Change::RemoveListener { name } => {
            Order::Delete { path: format!("lbaas/listeners/{}", parts.listeners.get(name)?) }
        }
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const ID: LoadBalancerId = LoadBalancerId(Uuid::from_u128(1));

    fn name(text: &str) -> ListenerName {
        ListenerName::try_from(text.to_owned()).expect("a name")
    }

    fn listener(timeout: u32, pool: &str) -> ListenerBody {
        serde_json::from_value(json!({
            "id": "l", "name": format!("lb-{ID}-web-1-listener"), "protocol": "TCP", "protocol_port": 80,
            "allowed_cidrs": ["10.0.0.0/8"], "default_pool_id": pool,
            "timeout_client_data": timeout, "timeout_member_data": 60_000,
        }))
        .expect("a listener")
    }

    fn parts(listeners: Vec<ListenerBody>) -> Parts {
        let pools: Vec<PoolBody> = serde_json::from_value(json!([
            {"id": "p", "name": format!("lb-{ID}-web-1-pool"), "protocol": "PROXYV2"},
            {"id": "q", "name": "by hand", "protocol": "TCP"},
        ]))
        .expect("pools");
        let members = [("p".to_owned(), vec![MemberBody { address: "10.0.0.5".to_owned(), protocol_port: 8080 }])];
        let monitors: Vec<MonitorBody> = serde_json::from_value(json!([
            {"id": "m", "delay": 10, "timeout": 5, "max_retries": 2, "max_retries_down": 3, "pools": [{"id": "p"}]},
        ]))
        .expect("monitors");
        Parts::of(ID, listeners, &pools, &members.into(), &monitors)
    }

    #[test]
    fn parts_are_known_by_their_names_and_read_in_our_terms() {
        let parts = parts(vec![listener(60_000, "p")]);
        assert_eq!(parts.pools.keys().collect::<Vec<_>>(), [&name("web-1")], "what was made by hand is left alone");
        let pool = &parts.topology.pools[&name("web-1")];
        assert_eq!(pool.protocol, PoolProtocol::ProxyV2);
        assert_eq!(pool.members, [Member { address: [10, 0, 0, 5].into(), port: 8080 }].into());
        let monitor =
            Monitor { interval_seconds: 10, timeout_seconds: 5, healthy_threshold: 2, unhealthy_threshold: 3 };
        assert_eq!(pool.monitor, Some(monitor));
        let listener = &parts.topology.listeners[&name("web-1")];
        assert_eq!((listener.port, listener.idle_timeout_seconds), (80, Some(60)));
        assert_eq!(listener.allowed.len(), 1);
    }

    #[test]
    fn a_listener_that_leads_elsewhere_or_waits_unevenly_is_set_right() {
        for odd in [listener(50_000, "p"), listener(60_000, "q")] {
            let parts = parts(vec![odd]);
            let mut wanted = parts.topology.clone();
            wanted.listeners.get_mut(&name("web-1")).expect("a listener").idle_timeout_seconds = Some(60);
            let change = parts.topology.next_change(&wanted).expect("a change");
            let Some(Order::Put { path, body }) = order(ID, "b", &parts, &change) else { panic!("{change:?}") };
            assert_eq!(path, "lbaas/listeners/l");
            assert_eq!(body["listener"]["default_pool_id"], "p");
            assert_eq!(body["listener"]["timeout_client_data"], 60_000);
        }
    }

    #[test]
    fn every_change_is_a_call_on_the_part_that_it_is_about() {
        let seen = parts(vec![listener(60_000, "p")]);
        let web = name("web-1");
        let delete = |path: &str| Some(Order::Delete { path: path.to_owned() });
        let made = |change: Change| order(ID, "b", &seen, &change);
        assert_eq!(made(Change::RemoveListener { name: web.clone() }), delete("lbaas/listeners/l"));
        assert_eq!(made(Change::RemovePool { name: web.clone() }), delete("lbaas/pools/p"));
        let none = Change::SetMonitor { name: web.clone(), monitor: None };
        assert_eq!(made(none), delete("lbaas/healthmonitors/m"));
        let members = Change::ReplaceMembers { name: web, members: BTreeSet::new() };
        let cleared = Order::Put { path: "lbaas/pools/p/members".to_owned(), body: json!({"members": []}) };
        assert_eq!(made(members), Some(cleared));
        let add = Change::AddPool { name: name("dns"), protocol: PoolProtocol::Udp };
        let Some(Order::Post { path, body }) = made(add) else { panic!("a pool is posted") };
        assert_eq!(path, "lbaas/pools");
        assert_eq!(body["pool"]["name"], format!("lb-{ID}-dns-pool"));
        assert_eq!((&body["pool"]["loadbalancer_id"], &body["pool"]["protocol"]), (&json!("b"), &json!("UDP")));
        assert_eq!(made(Change::RemoveListener { name: name("gone") }), None);
    }

    #[test]
    fn every_word_of_the_cloud_is_told_for_what_it_means() {
        let table = [
            ("PENDING_CREATE", false, true, false),
            ("ACTIVE", true, false, false),
            ("PENDING_UPDATE", true, true, false),
            ("ERROR", false, false, true),
            ("PENDING_DELETE", false, false, true),
        ];
        for (word, built, unfinished, troubled) in table {
            let balancer = BalancerBody { provisioning_status: word.to_owned(), ..BalancerBody::default() };
            let fact = balancer.fact();
            assert_eq!((fact.built, fact.unfinished, fact.trouble.is_some()), (built, unfinished, troubled), "{word}");
        }
    }
}
