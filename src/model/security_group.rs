//! A security group: what may reach the servers of one network, and what they may reach.

use std::collections::BTreeSet;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::ids::{Kind, ProviderSecurityGroupId};
use super::network::Prefix;
use super::record::ResourceKind;

#[derive(Clone, Debug)]
pub struct SecurityGroup;

impl ResourceKind for SecurityGroup {
    const KIND: Kind = Kind::SecurityGroup;
    type Spec = SecurityGroupSpec;
    type Detail = SecurityGroupDetail;
}

/// What the client asked for, in the order in which it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupSpec {
    pub rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = networkDirection)]
pub enum Direction {
    Ingress,
    Egress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = networkProtocol)]
pub enum Protocol {
    Any,
    Icmp,
    Tcp,
    Udp,
    Vrrp,
}

impl Protocol {
    #[must_use]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp)
    }
}

/// One rule as the client wrote it. What was left out stays left out; [`Rule::effective`] says what it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    pub direction: Direction,
    pub protocol: Protocol,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_max: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Prefix>,
}

/// Why a rule cannot stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    #[error("ports can only be given for tcp and udp")]
    PortWithoutPorts,
    #[error("portMax needs port")]
    PortMaxAlone,
    #[error("port must be less than portMax")]
    PortOrder,
}

impl Rule {
    pub fn validate(&self) -> Result<(), InvalidRule> {
        match (self.port, self.port_max) {
            (None, None) => Ok(()),
            _ if !self.protocol.has_ports() => Err(InvalidRule::PortWithoutPorts),
            (None, Some(_)) => Err(InvalidRule::PortMaxAlone),
            (Some(port), Some(port_max)) if port >= port_max => Err(InvalidRule::PortOrder),
            (Some(_), _) => Ok(()),
        }
    }

    /// The rule with everything spelled out: what two rules must share to be the same rule.
    #[must_use]
    pub fn effective(&self) -> EffectiveRule {
        EffectiveRule {
            direction: self.direction,
            ethertype: Ethertype::Ipv4,
            protocol: self.protocol,
            ports: self.port.map(|port| (port, self.port_max.unwrap_or(port))),
            prefix: self.prefix.as_ref().map_or_else(Ipv4Net::default, Prefix::net),
        }
    }
}

/// The address family is part of a rule: the rules that let everything out over IPv4 and IPv6 are two (B48).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Ethertype {
    #[serde(rename = "IPv4")]
    Ipv4,
    #[serde(rename = "IPv6")]
    Ipv6,
}

/// A rule as a cloud knows it. Without ports it means all of them; the widest prefix means everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveRule {
    pub direction: Direction,
    pub ethertype: Ethertype,
    pub protocol: Protocol,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
    pub prefix: Ipv4Net,
}

/// Every cloud lets a new group's servers out; nobody asked for that to end.
#[must_use]
pub fn implicit_rules() -> [EffectiveRule; 2] {
    let out = |ethertype| EffectiveRule {
        direction: Direction::Egress,
        ethertype,
        protocol: Protocol::Any,
        ports: None,
        prefix: Ipv4Net::default(),
    };
    [out(Ethertype::Ipv4), out(Ethertype::Ipv6)]
}

impl SecurityGroupSpec {
    /// Everything that the cloud's group should hold: what was asked for, once each, and what every group has.
    #[must_use]
    pub fn effective_rules(&self) -> BTreeSet<EffectiveRule> {
        self.rules.iter().map(Rule::effective).chain(implicit_rules()).collect()
    }
}

/// What is known of it in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<ProviderSecurityGroupId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(protocol: Protocol, port: Option<u16>, port_max: Option<u16>) -> Rule {
        Rule { direction: Direction::Ingress, protocol, port, port_max, prefix: None }
    }

    #[test]
    fn b44_ports_that_mean_nothing_are_refused() {
        assert_eq!(rule(Protocol::Tcp, Some(22), None).validate(), Ok(()));
        assert_eq!(rule(Protocol::Udp, Some(1), Some(2)).validate(), Ok(()));
        assert_eq!(rule(Protocol::Any, None, None).validate(), Ok(()));
        assert_eq!(rule(Protocol::Icmp, Some(1), None).validate(), Err(InvalidRule::PortWithoutPorts));
        assert_eq!(rule(Protocol::Tcp, None, Some(5)).validate(), Err(InvalidRule::PortMaxAlone));
        assert_eq!(rule(Protocol::Tcp, Some(5), Some(5)).validate(), Err(InvalidRule::PortOrder));
    }

    #[test]
    fn what_is_left_out_means_everything() {
        let open = rule(Protocol::Tcp, None, None).effective();
        assert_eq!((open.ports, open.prefix.to_string()), (None, "0.0.0.0/0".to_owned()));
        assert_eq!(rule(Protocol::Tcp, Some(22), None).effective().ports, Some((22, 22)));
    }

    #[test]
    fn b48_what_leaves_over_ipv4_and_over_ipv6_are_two_rules() {
        let empty = SecurityGroupSpec { rules: vec![] };
        assert_eq!(empty.effective_rules().len(), 2);
        let asked = Rule { direction: Direction::Egress, ..rule(Protocol::Any, None, None) };
        let spec = SecurityGroupSpec { rules: vec![asked.clone(), asked] };
        assert_eq!(spec.effective_rules().len(), 2, "asking for what every group has adds nothing");
    }
}
