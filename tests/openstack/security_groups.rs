//! Security groups: made, adopted, followed rule by rule, unmade.

use std::collections::BTreeSet;

use regent::model::ids::SecurityGroupId;
use regent::model::network::Prefix;
use regent::model::security_group::{Direction, Protocol, Rule, SecurityGroupDetail};
use regent::providers::openstack::names;
use regent::providers::{Deletion, Provider, SecurityGroupFact, SecurityGroupRequest};
use serde_json::{Value, json};

use super::cloud::{Admin, id};
use super::{World, random};

impl World {
    async fn group(&self, request: &SecurityGroupRequest) -> SecurityGroupFact {
        let notes = self.notes();
        let made = self.provider.converge_security_group(&self.context(&notes), request).await;
        made.expect("a security group").fact
    }

    async fn no_group(&self, request: &SecurityGroupRequest) {
        let notes = self.notes();
        let deleted = self.provider.delete_security_group(&self.context(&notes), request).await;
        assert_eq!(deleted, Ok(Deletion::Absent));
    }
}

async fn groups(admin: &Admin, id: SecurityGroupId) -> Vec<Value> {
    let name = names::security_group(id);
    admin.list("network", &format!("security-groups?name={name}"), "security_groups").await
}

/// What the rules say, in short.
async fn rules(admin: &Admin, id: SecurityGroupId) -> BTreeSet<String> {
    let groups = groups(admin, id).await;
    let rules = groups[0]["security_group_rules"].as_array().expect("rules").iter();
    let short = |rule: &Value| {
        ["direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix"]
            .map(|field| rule[field].to_string().replace('"', ""))
            .join(" ")
    };
    rules.map(short).collect()
}

fn rule(protocol: Protocol, port: Option<u16>, port_max: Option<u16>, prefix: Option<&str>) -> Rule {
    let prefix = prefix.map(|text| Prefix::parse(text).expect("a prefix"));
    Rule { direction: Direction::Ingress, protocol, port, port_max, prefix }
}

const OUT: [&str; 2] = ["egress IPv4 null null null null", "egress IPv6 null null null null"];

fn with(more: &[&str]) -> BTreeSet<String> {
    OUT.iter().chain(more).map(|rule| (*rule).to_owned()).collect()
}

#[tokio::test]
async fn b48_a_group_is_made_once_followed_rule_by_rule_and_unmade() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    world.principal().await;
    let mut request = world.group_request(SecurityGroupId(random()), SecurityGroupDetail::default());
    request.spec.rules = vec![
        rule(Protocol::Tcp, Some(80), None, None),
        rule(Protocol::Udp, Some(100), Some(200), Some("10.0.0.0/8")),
        rule(Protocol::Icmp, None, None, None),
        rule(Protocol::Vrrp, None, None, Some("192.168.0.0/24")),
        rule(Protocol::Any, None, None, Some("172.16.0.0/12")),
    ];
    let fact = world.group(&request).await;
    let all = with(&[
        "ingress IPv4 tcp 80 80 null",
        "ingress IPv4 udp 100 200 10.0.0.0/8",
        "ingress IPv4 icmp null null null",
        "ingress IPv4 vrrp null null 192.168.0.0/24",
        "ingress IPv4 null null null 172.16.0.0/12",
    ]);
    assert_eq!(rules(&admin, request.id).await, all);
    let calls = world.calls();
    for detail in [SecurityGroupDetail::default(), fact.detail.clone()] {
        request.detail = detail;
        assert_eq!(world.group(&request).await, fact);
    }
    assert_eq!(world.changes_since(calls), []);

    request.spec.rules.truncate(1);
    let fewer = world.group(&request).await;
    assert_ne!(fewer.detail.fingerprint, fact.detail.fingerprint);
    assert_eq!(rules(&admin, request.id).await, with(&["ingress IPv4 tcp 80 80 null"]));
    world.no_group(&request).await;
    assert_eq!(groups(&admin, request.id).await, [Value::Null; 0]);
    world.no_group(&request).await;
    world.no_principal().await;
}

#[tokio::test]
async fn a_group_made_by_hand_is_adopted_with_the_rules_that_are_right() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    let project = world.principal().await.project.expect("a project").0;
    let mut request = world.group_request(SecurityGroupId(random()), SecurityGroupDetail::default());
    request.spec.rules = vec![rule(Protocol::Tcp, Some(22), None, None)];
    let group = json!({ "name": names::security_group(request.id), "project_id": project });
    let group = admin.make("network", "security-groups", "security_group", group).await;
    for port in [22, 23] {
        let rule = json!({ "security_group_id": id(&group), "project_id": project, "direction": "ingress",
            "ethertype": "IPv4", "protocol": "tcp", "port_range_min": port, "port_range_max": port });
        admin.make("network", "security-group-rules", "security_group_rule", rule).await;
    }
    let calls = world.calls();
    let fact = world.group(&request).await;
    assert_eq!(fact.detail.group.expect("a group").0, id(&group));
    let changes = world.changes_since(calls).into_iter().map(|call| call.operation).collect::<Vec<_>>();
    assert_eq!(changes, ["mark-security-group", "delete-rule"]);
    assert_eq!(rules(&admin, request.id).await, with(&["ingress IPv4 tcp 22 22 null"]));
    world.no_group(&request).await;
    world.no_principal().await;
}
