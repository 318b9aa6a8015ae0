//! A load balancer: listeners on one virtual address of a network, each with a pool of members behind it.
//!
//! The specification keeps what was sent. What applies where nothing was sent is said by pure functions
//! ([`Listener::resolved`], [`LoadBalancerSpec::topology`]), so that a default can be shown without ever being stored.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::ids::{Kind, ProviderFloatingIpId, ProviderLoadBalancerId, ProviderPortId};
use super::load_balancer_topology::{CloudListener, CloudPool, Monitor, PoolProtocol, Topology};
use super::network::Prefix;
use super::quota::{Amount, Amounts, QuotaKind};
use super::record::ResourceKind;

#[derive(Clone, Debug)]
pub struct LoadBalancer;

impl ResourceKind for LoadBalancer {
    const KIND: Kind = Kind::LoadBalancer;
    type Spec = LoadBalancerSpec;
    type Detail = LoadBalancerDetail;
}

/// What the client asked for, in the order in which it was written. The virtual address never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerSpec {
    /// `None`: any that is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vip_address: Option<Ipv4Addr>,
    /// `None` when the client sent none: what was omitted stays omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<bool>,
    pub listeners: Vec<Listener>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = loadBalancerListenerProtocolV2)]
pub enum BalancedProtocol {
    Tcp,
    Udp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    pub name: ListenerName,
    pub protocol: BalancedProtocol,
    pub port: u16,
    /// Who may connect; everybody when it is left out or empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_cidrs: Option<Vec<Prefix>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<u32>,
    pub pool: Pool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol_v2: Option<bool>,
    pub members: Vec<Member>,
    /// `None`: members are not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    pub address: Ipv4Addr,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_threshold: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_threshold: Option<u16>,
}

/// What applies where a health check says nothing.
const HEALTH_CHECK_DEFAULT: Monitor =
    Monitor { interval_seconds: 10, timeout_seconds: 5, healthy_threshold: 2, unhealthy_threshold: 2 };

/// What applies where a TCP listener says nothing.
const IDLE_TIMEOUT_SECONDS_DEFAULT: u32 = 60;

/// A day: whoever is silent for longer has gone.
pub const IDLE_TIMEOUT_SECONDS_MAX: u32 = 86_400;

/// Five minutes: a check that is rarer tells nothing.
pub const HEALTH_CHECK_SECONDS_MAX: u16 = 300;

/// What clouds count to.
pub const HEALTH_CHECK_THRESHOLD_MAX: u16 = 10;

/// As long as a DNS label.
pub const LISTENER_NAME_LEN_MAX: usize = 63;

/// A listener's name: a DNS label that begins with a letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ListenerName(String);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a listener's name is a DNS label that begins with a lower-case letter")]
pub struct MalformedListenerName;

impl TryFrom<String> for ListenerName {
    type Error = MalformedListenerName;

    fn try_from(text: String) -> Result<Self, MalformedListenerName> {
        let letters = text.as_bytes();
        let is_inner = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let is_label = letters.len() <= LISTENER_NAME_LEN_MAX
            && letters.first().is_some_and(u8::is_ascii_lowercase)
            && letters.last() != Some(&b'-')
            && letters.iter().all(is_inner);
        if is_label { Ok(Self(text)) } else { Err(MalformedListenerName) }
    }
}

impl From<ListenerName> for String {
    fn from(name: ListenerName) -> Self {
        name.0
    }
}

impl fmt::Display for ListenerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Why a load balancer's specification cannot stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLoadBalancer {
    #[error("port must be 1 to 65535")]
    Port,
    #[error("idleTimeoutSeconds must be 1 to 86400")]
    IdleTimeout,
    #[error("healthCheck must have seconds of 1 to 300 and thresholds of 1 to 10")]
    HealthCheck,
    #[error("names must be unique")]
    NameTwice,
    #[error("combinations of protocol and port must be unique")]
    PortTwice,
    #[error("members must be unique by address and port")]
    MemberTwice,
    #[error("members must have addresses that a host can have")]
    MemberUnreachable,
    #[error("idleTimeoutSeconds is only for tcp")]
    IdleTimeoutOfUdp,
    #[error("proxyProtocolV2 is only for tcp")]
    ProxyProtocolOfUdp,
    #[error("healthCheck.timeoutSeconds must be less than healthCheck.intervalSeconds")]
    TimeoutOfHealthCheck,
    #[error("protocol, port and pool.proxyProtocolV2 of a listener cannot be changed")]
    Changed,
}

impl InvalidLoadBalancer {
    /// Is a value out of its range, rather than at odds with others?
    #[must_use]
    pub const fn is_form(self) -> bool {
        matches!(self, Self::Port | Self::IdleTimeout | Self::HealthCheck)
    }
}

impl HealthCheck {
    #[must_use]
    pub fn effective(&self) -> Monitor {
        let default = HEALTH_CHECK_DEFAULT;
        Monitor {
            interval_seconds: self.interval_seconds.unwrap_or(default.interval_seconds),
            timeout_seconds: self.timeout_seconds.unwrap_or(default.timeout_seconds),
            healthy_threshold: self.healthy_threshold.unwrap_or(default.healthy_threshold),
            unhealthy_threshold: self.unhealthy_threshold.unwrap_or(default.unhealthy_threshold),
        }
    }

    fn validate(&self) -> Result<(), InvalidLoadBalancer> {
        let check = self.effective();
        let seconds = 1..=HEALTH_CHECK_SECONDS_MAX;
        let thresholds = 1..=HEALTH_CHECK_THRESHOLD_MAX;
        let in_range = seconds.contains(&check.interval_seconds)
            && seconds.contains(&check.timeout_seconds)
            && thresholds.contains(&check.healthy_threshold)
            && thresholds.contains(&check.unhealthy_threshold);
        match in_range {
            false => Err(InvalidLoadBalancer::HealthCheck),
            true if check.timeout_seconds >= check.interval_seconds => Err(InvalidLoadBalancer::TimeoutOfHealthCheck),
            true => Ok(()),
        }
    }
}

impl Member {
    /// A member may lie behind a route of the network, so that its prefix proves nothing. What no host anywhere has as
    /// its address can never be reached (B44).
    #[must_use]
    pub const fn can_be_a_host(&self) -> bool {
        let address = self.address;
        let [first, ..] = address.octets();
        !(first == 0 || address.is_loopback() || address.is_link_local() || first >= 224)
    }
}

impl Listener {
    const fn uses_proxy_protocol(&self) -> bool {
        matches!(self.pool.proxy_protocol_v2, Some(true))
    }

    fn validate(&self) -> Result<(), InvalidLoadBalancer> {
        if self.port == 0 || self.pool.members.iter().any(|member| member.port == 0) {
            return Err(InvalidLoadBalancer::Port);
        }
        if self.idle_timeout_seconds.is_some_and(|seconds| !(1..=IDLE_TIMEOUT_SECONDS_MAX).contains(&seconds)) {
            return Err(InvalidLoadBalancer::IdleTimeout);
        }
        self.pool.health_check.as_ref().map_or(Ok(()), HealthCheck::validate)?;
        if self.protocol == BalancedProtocol::Udp && self.idle_timeout_seconds.is_some() {
            return Err(InvalidLoadBalancer::IdleTimeoutOfUdp);
        }
        if self.protocol == BalancedProtocol::Udp && self.uses_proxy_protocol() {
            return Err(InvalidLoadBalancer::ProxyProtocolOfUdp);
        }
        if !self.pool.members.iter().all(Member::can_be_a_host) {
            return Err(InvalidLoadBalancer::MemberUnreachable);
        }
        unique(&self.pool.members, |member| *member, InvalidLoadBalancer::MemberTwice)
    }

    /// The idle timeout that applies: none for UDP, which has no connections.
    const fn effective_idle_timeout_seconds(&self) -> Option<u32> {
        match (self.protocol, self.idle_timeout_seconds) {
            (BalancedProtocol::Udp, _) => None,
            (BalancedProtocol::Tcp, None) => Some(IDLE_TIMEOUT_SECONDS_DEFAULT),
            (BalancedProtocol::Tcp, seconds) => seconds,
        }
    }

    /// With what applies where the client said nothing, as the contract wants it read.
    #[must_use]
    pub fn resolved(&self) -> Self {
        let check = self.pool.health_check.as_ref().map(HealthCheck::effective).map(|check| HealthCheck {
            interval_seconds: Some(check.interval_seconds),
            timeout_seconds: Some(check.timeout_seconds),
            healthy_threshold: Some(check.healthy_threshold),
            unhealthy_threshold: Some(check.unhealthy_threshold),
        });
        Self {
            idle_timeout_seconds: self.effective_idle_timeout_seconds(),
            pool: Pool { health_check: check, ..self.pool.clone() },
            ..self.clone()
        }
    }

    fn in_cloud(&self) -> CloudListener {
        let allowed = self.allowed_cidrs.iter().flatten().map(Prefix::net).collect();
        let idle_timeout_seconds = self.effective_idle_timeout_seconds();
        CloudListener { protocol: self.protocol, port: self.port, allowed, idle_timeout_seconds }
    }

    fn pool_in_cloud(&self) -> CloudPool {
        let protocol = match self.protocol {
            BalancedProtocol::Udp => PoolProtocol::Udp,
            BalancedProtocol::Tcp if self.uses_proxy_protocol() => PoolProtocol::ProxyV2,
            BalancedProtocol::Tcp => PoolProtocol::Tcp,
        };
        let monitor = self.pool.health_check.as_ref().map(HealthCheck::effective);
        CloudPool { protocol, members: self.pool.members.iter().copied().collect(), monitor }
    }
}

fn unique<'a, T, K: Ord>(
    items: &'a [T],
    key: impl Fn(&'a T) -> K,
    fault: InvalidLoadBalancer,
) -> Result<(), InvalidLoadBalancer> {
    let mut seen = BTreeSet::new();
    if items.iter().all(|item| seen.insert(key(item))) { Ok(()) } else { Err(fault) }
}

impl LoadBalancerSpec {
    #[must_use]
    pub fn wants_public_ip(&self) -> bool {
        self.public_ip.unwrap_or(false)
    }

    pub fn validate(&self) -> Result<(), InvalidLoadBalancer> {
        self.listeners.iter().try_for_each(Listener::validate)?;
        unique(&self.listeners, |listener| &listener.name, InvalidLoadBalancer::NameTwice)?;
        unique(&self.listeners, |listener| (listener.protocol, listener.port), InvalidLoadBalancer::PortTwice)
    }

    /// A listener that stays is what it was; whoever wants another one gives it another name.
    pub fn validate_against(&self, before: &Self) -> Result<(), InvalidLoadBalancer> {
        let fixed = |listener: &Listener| (listener.protocol, listener.port, listener.uses_proxy_protocol());
        let stays = |listener: &Listener| {
            let old = before.listeners.iter().find(|old| old.name == listener.name);
            old.is_none_or(|old| fixed(old) == fixed(listener))
        };
        if self.listeners.iter().all(stays) { Ok(()) } else { Err(InvalidLoadBalancer::Changed) }
    }

    /// Could the address that was asked for be one of this network's? Its first is the network's own, its second the
    /// gateway's, its last everybody's.
    #[must_use]
    pub fn fits(&self, network: Ipv4Net) -> bool {
        let first_host = u32::from(network.network()).saturating_add(2);
        self.vip_address
            .is_none_or(|vip| network.contains(&vip) && u32::from(vip) >= first_host && vip != network.broadcast())
    }

    /// What it is in the cloud, with everything spelled out.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let named = |listener: &Listener| listener.name.clone();
        Topology {
            listeners: self.listeners.iter().map(|listener| (named(listener), listener.in_cloud())).collect(),
            pools: self.listeners.iter().map(|listener| (named(listener), listener.pool_in_cloud())).collect(),
        }
    }

    #[must_use]
    pub fn cost(&self) -> Amounts {
        let public = self.wants_public_ip().then_some((QuotaKind::PublicIps, Amount::of(1)));
        std::iter::once((QuotaKind::LoadBalancers, Amount::of(1))).chain(public).collect()
    }
}

/// What is known of it in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balancer: Option<ProviderLoadBalancerId>,
    /// What holds the virtual address, and keeps it when the balancer is made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<ProviderPortId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vip_address: Option<Ipv4Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floating_ip: Option<ProviderFloatingIpId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<Ipv4Addr>,
    /// The cloud has finished building this balancer, once. One that it never finished can be thrown away.
    #[serde(default)]
    pub built: bool,
    /// What is the matter with it, in user-safe words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Of the balancer and of its public address, when they were last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balancer_fingerprint: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_fingerprint: Option<u64>,
}

/// One number for both. They are looked at by different calls, and seen together in a list.
#[must_use]
pub const fn joint_fingerprint(balancer: u64, address: Option<u64>) -> u64 {
    match address {
        Some(address) => balancer.rotate_left(1) ^ address,
        None => balancer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ListenerName {
        ListenerName::try_from(text.to_owned()).expect("a name")
    }

    fn member(address: &str, port: u16) -> Member {
        Member { address: address.parse().expect("an address"), port }
    }

    fn listener(text: &str, protocol: BalancedProtocol, port: u16) -> Listener {
        let pool = Pool { proxy_protocol_v2: None, members: vec![member("10.0.0.5", 80)], health_check: None };
        Listener { name: name(text), protocol, port, allowed_cidrs: None, idle_timeout_seconds: None, pool }
    }

    fn spec(listeners: Vec<Listener>) -> LoadBalancerSpec {
        LoadBalancerSpec { vip_address: None, public_ip: None, listeners }
    }

    fn tcp() -> Listener {
        listener("a", BalancedProtocol::Tcp, 80)
    }

    fn udp() -> Listener {
        listener("b", BalancedProtocol::Udp, 80)
    }

    fn fault(change: impl FnOnce(&mut Listener), of: Listener) -> Option<InvalidLoadBalancer> {
        let mut listener = of;
        change(&mut listener);
        spec(vec![listener]).validate().err()
    }

    #[test]
    fn a_name_is_a_label_that_begins_with_a_letter() {
        for good in ["a", "a-b", "a1", &"a".repeat(63)] {
            assert!(ListenerName::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", "1a", "-a", "a-", "A", "a_b", "a.b", &"a".repeat(64)] {
            assert!(ListenerName::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_contradiction_is_found() {
        use InvalidLoadBalancer as Invalid;
        assert_eq!(spec(vec![tcp(), udp()]).validate(), Ok(()), "one port, two protocols");
        let check = |interval: u16, timeout: Option<u16>| {
            Some(HealthCheck { interval_seconds: Some(interval), timeout_seconds: timeout, ..HealthCheck::default() })
        };
        assert_eq!(fault(|it| it.port = 0, tcp()), Some(Invalid::Port));
        assert_eq!(fault(|it| it.pool.members[0].port = 0, tcp()), Some(Invalid::Port));
        assert_eq!(fault(|it| it.idle_timeout_seconds = Some(0), tcp()), Some(Invalid::IdleTimeout));
        assert_eq!(fault(|it| it.idle_timeout_seconds = Some(86_401), tcp()), Some(Invalid::IdleTimeout));
        assert_eq!(fault(|it| it.idle_timeout_seconds = Some(86_400), tcp()), None);
        assert_eq!(fault(|it| it.idle_timeout_seconds = Some(5), udp()), Some(Invalid::IdleTimeoutOfUdp));
        assert_eq!(fault(|it| it.pool.proxy_protocol_v2 = Some(true), udp()), Some(Invalid::ProxyProtocolOfUdp));
        assert_eq!(fault(|it| it.pool.proxy_protocol_v2 = Some(false), udp()), None);
        assert_eq!(fault(|it| it.pool.health_check = check(301, None), tcp()), Some(Invalid::HealthCheck));
        assert_eq!(fault(|it| it.pool.health_check = check(5, None), tcp()), Some(Invalid::TimeoutOfHealthCheck));
        assert_eq!(fault(|it| it.pool.health_check = check(5, Some(4)), tcp()), None);
        assert_eq!(fault(|it| it.pool.members.push(member("10.0.0.5", 80)), tcp()), Some(Invalid::MemberTwice));
        assert_eq!(fault(|it| it.pool.members.push(member("10.0.0.5", 81)), tcp()), None);
        assert_eq!(spec(vec![tcp(), listener("a", BalancedProtocol::Tcp, 81)]).validate(), Err(Invalid::NameTwice));
        assert_eq!(spec(vec![tcp(), listener("b", BalancedProtocol::Tcp, 80)]).validate(), Err(Invalid::PortTwice));
    }

    #[test]
    fn b44_only_members_that_no_host_can_be_are_refused() {
        for good in ["10.0.0.5", "192.168.7.1", "8.8.8.8", "100.64.0.1"] {
            assert!(member(good, 1).can_be_a_host(), "{good}");
        }
        for bad in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "169.254.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"] {
            assert!(!member(bad, 1).can_be_a_host(), "{bad}");
        }
    }

    #[test]
    fn what_a_listener_is_stays_as_long_as_its_name_does() {
        let before = spec(vec![tcp()]);
        let after = |change: fn(&mut Listener)| {
            let mut listener = tcp();
            change(&mut listener);
            spec(vec![listener]).validate_against(&before)
        };
        assert_eq!(after(|it| it.idle_timeout_seconds = Some(5)), Ok(()));
        assert_eq!(after(|it| it.pool.proxy_protocol_v2 = Some(false)), Ok(()), "what applied already");
        assert_eq!(after(|it| it.pool.members.clear()), Ok(()));
        assert_eq!(after(|it| it.name = name("other")), Ok(()));
        let changes: [fn(&mut Listener); 3] =
            [|it| it.port = 81, |it| it.protocol = BalancedProtocol::Udp, |it| it.pool.proxy_protocol_v2 = Some(true)];
        for change in changes {
            assert_eq!(after(change), Err(InvalidLoadBalancer::Changed));
        }
    }

    #[test]
    fn defaults_are_shown_where_they_apply_and_nowhere_else() {
        assert_eq!(tcp().resolved().idle_timeout_seconds, Some(60));
        assert_eq!(udp().resolved().idle_timeout_seconds, None);
        assert_eq!(tcp().resolved().pool.health_check, None, "nobody asked for a check");
        let mut checked = tcp();
        checked.pool.health_check = Some(HealthCheck { interval_seconds: Some(30), ..HealthCheck::default() });
        let shown = checked.resolved().pool.health_check.expect("a check");
        assert_eq!((shown.interval_seconds, shown.timeout_seconds), (Some(30), Some(5)));
        assert_eq!((shown.healthy_threshold, shown.unhealthy_threshold), (Some(2), Some(2)));
    }

    #[test]
    fn a_virtual_address_is_one_that_a_host_of_the_network_can_have() {
        let network = "10.0.0.0/22".parse().expect("a prefix");
        let fits = |text: &str| LoadBalancerSpec { vip_address: text.parse().ok(), ..spec(vec![]) }.fits(network);
        assert!(spec(vec![]).fits(network));
        for (address, expected) in [
            ("10.0.0.2", true),
            ("10.0.0.255", true),
            ("10.0.3.254", true),
            ("10.0.0.0", false),
            ("10.0.0.1", false),
            ("10.0.3.255", false),
            ("10.0.4.2", false),
        ] {
            assert_eq!(fits(address), expected, "{address}");
        }
    }

    #[test]
    fn b19_a_public_address_costs_one_more() {
        let private = spec(vec![tcp()]);
        assert_eq!(private.cost(), Amounts::from([(QuotaKind::LoadBalancers, Amount::of(1))]));
        let public = LoadBalancerSpec { public_ip: Some(true), ..private };
        assert_eq!(public.cost().get(&QuotaKind::PublicIps), Some(&Amount::of(1)));
    }
}
