//! What to do about a security group, from what was seen of it: no calls here.
//!
//! Rules are compared by what they mean, the address family included (B48). A rule that cannot be said in our words
//! (another group instead of a prefix, a protocol that we do not have) was put there by somebody else, and goes.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::Ipv4Net;
use serde::Deserialize;

use super::doubles::Marked;
use super::names;
use super::network_plan::Part;
use crate::model::ids::{Incarnation, ProviderSecurityGroupId};
use crate::model::security_group::{Direction, EffectiveRule, Ethertype, Protocol, SecurityGroupDetail};
use crate::providers::SecurityGroupFact;
use crate::providers::fingerprint::Fingerprint;

/// A Neutron security group. Lists show the rules too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct GroupBody {
    pub id: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub security_group_rules: Vec<RuleBody>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct RuleBody {
    pub id: String,
    #[serde(default)]
    pub direction: String,
    #[serde(default)]
    pub ethertype: Option<String>,
    #[serde(default)]
    pub protocol: Option<String>,
    #[serde(default)]
    pub port_range_min: Option<i64>,
    #[serde(default)]
    pub port_range_max: Option<i64>,
    #[serde(default)]
    pub remote_ip_prefix: Option<String>,
    #[serde(default)]
    pub remote_group_id: Option<String>,
    #[serde(default)]
    pub remote_address_group_id: Option<String>,
}

impl Marked for GroupBody {
    const WORD: &'static str = "security group";
    fn id(&self) -> &str {
        &self.id
    }
    fn incarnation(&self) -> Option<Incarnation> {
        self.description.as_deref().and_then(names::incarnation_in)
    }
}

impl Part for GroupBody {
    fn name(&self) -> &str {
        &self.name
    }
}

impl RuleBody {
    /// The rule in our words, if they are enough for it.
    pub fn meaning(&self) -> Option<EffectiveRule> {
        if self.remote_group_id.is_some() || self.remote_address_group_id.is_some() {
            return None;
        }
        let direction = match self.direction.as_str() {
            "ingress" => Direction::Ingress,
            "egress" => Direction::Egress,
            _ => return None,
        };
        let ethertype = match self.ethertype.as_deref() {
            Some("IPv4") => Ethertype::Ipv4,
            Some("IPv6") => Ethertype::Ipv6,
            _ => return None,
        };
        // Neutron keeps a protocol as it was written: by name or by number.
        let protocol = match self.protocol.as_deref() {
            None | Some("any") => Protocol::Any,
            Some("icmp" | "1") => Protocol::Icmp,
            Some("tcp" | "6") => Protocol::Tcp,
            Some("udp" | "17") => Protocol::Udp,
            Some("vrrp" | "112") => Protocol::Vrrp,
            Some(_) => return None,
        };
        let ports = match (self.port_range_min, self.port_range_max) {
            (None, None) => None,
            (Some(first), Some(last)) if protocol.has_ports() => {
                Some((u16::try_from(first).ok()?, u16::try_from(last).ok()?))
            }
            // The type and the code of a message.
            _ => return None,
        };
        let prefix = match (ethertype, self.remote_ip_prefix.as_deref()) {
            (_, None) | (Ethertype::Ipv6, Some("::/0")) => Ipv4Net::default(),
            (Ethertype::Ipv4, Some(prefix)) => prefix.parse().ok()?,
            (Ethertype::Ipv6, Some(_)) => return None,
        };
        Some(EffectiveRule { direction, ethertype, protocol, ports, prefix })
    }
}

/// What to do about the rules of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleChanges {
    pub add: Vec<EffectiveRule>,
    /// By their ids.
    pub remove: Vec<String>,
}

/// The changes from what is to what is wanted. A rule that is there twice stays once.
pub(super) fn changes(there: &[RuleBody], wanted: &BTreeSet<EffectiveRule>) -> RuleChanges {
    let mut kept = BTreeMap::<EffectiveRule, &str>::new();
    let mut remove = Vec::new();
    for rule in there {
        match rule.meaning().filter(|meaning| wanted.contains(meaning)) {
            Some(meaning) if !kept.contains_key(&meaning) => {
                kept.insert(meaning, &rule.id);
            }
            _ => remove.push(rule.id.clone()),
        }
    }
    let add = wanted.iter().filter(|rule| !kept.contains_key(rule)).copied().collect();
    RuleChanges { add, remove }
}

pub(super) fn fact(group: &GroupBody) -> SecurityGroupFact {
    let detail = SecurityGroupDetail {
        group: Some(ProviderSecurityGroupId(group.id.clone())),
        fingerprint: Some(fingerprint(group)),
    };
    SecurityGroupFact { detail, trouble: None }
}

fn fingerprint(group: &GroupBody) -> u64 {
    let mut digest = Fingerprint::new();
    digest.text(&group.id);
    digest.number(group.description.as_deref().and_then(names::incarnation_in).is_some());
    let mut rules = group.security_group_rules.iter().collect::<Vec<_>>();
    rules.sort_by(|one, other| one.id.cmp(&other.id));
    for rule in rules {
        digest.text(&rule.id);
    }
    digest.value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::security_group::implicit_rules;

    fn rule(id: &str, ethertype: &str) -> RuleBody {
        let (id, ethertype) = (id.to_owned(), Some(ethertype.to_owned()));
        RuleBody { id, direction: "egress".to_owned(), ethertype, ..RuleBody::default() }
    }

    fn tcp(id: &str, port: i64, prefix: Option<&str>) -> RuleBody {
        RuleBody {
            direction: "ingress".to_owned(),
            protocol: Some("tcp".to_owned()),
            port_range_min: Some(port),
            port_range_max: Some(port),
            remote_ip_prefix: prefix.map(str::to_owned),
            ..rule(id, "IPv4")
        }
    }

    fn wanted(more: &[EffectiveRule]) -> BTreeSet<EffectiveRule> {
        implicit_rules().into_iter().chain(more.iter().copied()).collect()
    }

    #[test]
    fn b48_the_rules_that_let_everything_out_are_two_and_both_stay() {
        let there = [rule("4", "IPv4"), rule("6", "IPv6")];
        assert_eq!(changes(&there, &wanted(&[])), RuleChanges::default());
        let lacking = changes(&there[..1], &wanted(&[]));
        assert_eq!(lacking.add.iter().map(|rule| rule.ethertype).collect::<Vec<_>>(), [Ethertype::Ipv6]);
    }

    #[test]
    fn what_is_missing_is_added_and_what_is_too_much_or_doubled_goes() {
        let web = tcp("web", 80, None).meaning().expect("in our words");
        let there = [
            rule("4", "IPv4"),
            rule("6", "IPv6"),
            tcp("web", 80, None),
            tcp("double", 80, Some("0.0.0.0/0")),
            tcp("old", 22, Some("10.0.0.0/8")),
            RuleBody { remote_group_id: Some("g".to_owned()), ..tcp("group", 80, None) },
            RuleBody { protocol: Some("sctp".to_owned()), ..tcp("other", 80, None) },
        ];
        let secure = EffectiveRule { ports: Some((443, 443)), ..web };
        let changes = changes(&there, &wanted(&[web, secure]));
        assert_eq!(changes.add, [secure]);
        assert_eq!(changes.remove, ["double", "old", "group", "other"]);
    }

    #[test]
    fn a_protocol_is_known_by_name_and_by_number() {
        let by = |protocol: &str| RuleBody { protocol: Some(protocol.to_owned()), ..rule("x", "IPv4") }.meaning();
        assert_eq!(by("vrrp"), by("112"));
        assert_eq!(by("tcp"), by("6"));
        assert_eq!(by("icmp"), by("1"));
        let echo = RuleBody { port_range_min: Some(8), protocol: Some("icmp".to_owned()), ..rule("x", "IPv4") };
        assert_eq!(echo.meaning(), None);
    }

    #[test]
    fn the_fingerprint_is_of_the_rules_in_any_order() {
        let group = |rules: &[RuleBody]| GroupBody {
            id: "g".to_owned(),
            security_group_rules: rules.to_vec(),
            ..GroupBody::default()
        };
        let (one, other) = (rule("4", "IPv4"), rule("6", "IPv6"));
        assert_eq!(fingerprint(&group(&[one.clone(), other.clone()])), fingerprint(&group(&[other.clone(), one])));
        assert_ne!(fingerprint(&group(&[other])), fingerprint(&group(&[])));
    }
}
