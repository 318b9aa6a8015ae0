//! Making and unmaking a security group: the group, then its rules, one by one.
//!
//! What is missing is added before what is too much is removed: a group that is being changed lets through at least
//! what it lets through before and after.

use std::collections::BTreeSet;

use openstack_sdk_network::v2::security_group::{
    create as create_group, delete as delete_group, get as get_group, list as list_groups, set as set_group,
};
use openstack_sdk_network::v2::security_group_rule::{create as create_rule, delete as delete_rule};

use super::connection::Acting;
use super::doubles::{Marked as _, choose, taken_away};
use super::names;
use super::network_plan::Part;
use super::security_group_plan::{self as planning, GroupBody, RuleBody};
use super::session::{Removals, Session, flat, on};
use crate::model::ids::{ProviderSecurityGroupId, SecurityGroupId};
use crate::model::security_group::{Direction, EffectiveRule, Ethertype, Protocol};
use crate::providers::pool::Service;
use crate::providers::{Deletion, Observed, ProviderError, ProviderResult, SecurityGroupFact, SecurityGroupRequest};

impl Session<'_> {
    pub async fn converge_security_group(
        &self,
        request: &SecurityGroupRequest,
    ) -> ProviderResult<Observed<SecurityGroupFact>> {
        let acting = self.steward_of(request.identity).await?;
        let known = request.detail.group.as_ref().map(|id| id.0.clone());
        let seen = self.look_at_groups(&acting, request, known.as_deref()).await?;
        let groups = choose(seen.fact, known.as_deref(), |_| false)?;
        if !groups.doubles.is_empty() {
            self.take_groups_away(&acting, &groups.doubles).await?;
            return Err(taken_away(&request.id));
        }
        let mut group = match groups.first {
            None => self.create_group(&acting, request).await?,
            Some(group) if group.incarnation().is_none() => self.mark_group(&acting, request, group).await?,
            Some(group) => group,
        };
        let changes = planning::changes(&group.security_group_rules, &request.spec.effective_rules());
        for rule in &changes.add {
            let made = self.add_rule(&acting, &group.id, rule).await?;
            group.security_group_rules.push(made);
        }
        for id in &changes.remove {
            let endpoint = delete_rule::Request::builder().id(id.clone()).build();
            self.take_away(&acting, on(Service::Network, "delete-rule", id), endpoint).await?;
            group.security_group_rules.retain(|rule| rule.id != *id);
        }
        Ok(Observed { sequence: seen.sequence, fact: planning::fact(&group) })
    }

    /// Those of this name and incarnation, and the one on record if the search did not show it.
    async fn look_at_groups(
        &self,
        acting: &Acting,
        request: &SecurityGroupRequest,
        known: Option<&str>,
    ) -> ProviderResult<Observed<Vec<GroupBody>>> {
        let name = names::security_group(request.id);
        let mut seen = self.groups_of_name(acting, &name).await?;
        if let Some(id) = known.filter(|id| seen.fact.iter().all(|group| group.id != *id)) {
            let endpoint = get_group::Request::builder().id(id.to_owned()).build();
            let group = self.look(acting, on(Service::Network, "get-security-group", id), endpoint).await?;
            seen.fact.extend(group.map(|group| group.fact));
        }
        seen.fact.retain(|group| group.is_for(&name, request.incarnation));
        Ok(seen)
    }

    async fn groups_of_name(&self, acting: &Acting, name: &str) -> ProviderResult<Observed<Vec<GroupBody>>> {
        let endpoint = list_groups::Request::builder().name(name.to_owned()).build();
        self.read(acting, on(Service::Network, "find-security-groups", name), endpoint).await
    }

    async fn create_group(&self, acting: &Acting, request: &SecurityGroupRequest) -> ProviderResult<GroupBody> {
        let name = names::security_group(request.id);
        let body = create_group::SecurityGroupBuilder::default()
            .name(name.clone())
            .description(names::mark(request.incarnation))
            .build();
        let endpoint = flat(body.map(|body| create_group::Request::builder().security_group(body).build()));
        self.change(acting, on(Service::Network, "create-security-group", &name), endpoint).await
    }

    async fn mark_group(
        &self,
        acting: &Acting,
        request: &SecurityGroupRequest,
        group: GroupBody,
    ) -> ProviderResult<GroupBody> {
        let body = set_group::SecurityGroupBuilder::default().description(names::mark(request.incarnation)).build();
        let around = |body| set_group::Request::builder().id(group.id.clone()).security_group(body).build();
        self.change(acting, on(Service::Network, "mark-security-group", &group.id), flat(body.map(around))).await
    }

    async fn add_rule(&self, acting: &Acting, group: &str, rule: &EffectiveRule) -> ProviderResult<RuleBody> {
        let mut body = create_rule::SecurityGroupRuleBuilder::default();
        body.security_group_id(group.to_owned()).description(names::RULE_DESCRIPTION);
        body.direction(match rule.direction {
            Direction::Ingress => create_rule::Direction::Ingress,
            Direction::Egress => create_rule::Direction::Egress,
        });
        body.ethertype(match rule.ethertype {
            Ethertype::Ipv4 => create_rule::Ethertype::Ipv4,
            Ethertype::Ipv6 => create_rule::Ethertype::Ipv6,
        });
        let protocol = match rule.protocol {
            Protocol::Any => None,
            Protocol::Icmp => Some("icmp"),
            Protocol::Tcp => Some("tcp"),
            Protocol::Udp => Some("udp"),
            Protocol::Vrrp => Some("vrrp"),
        };
        if let Some(word) = protocol {
            body.protocol(word);
        }
        if let Some((first, last)) = rule.ports {
            body.port_range_min(Some(i32::from(first))).port_range_max(Some(i32::from(last)));
        }
        // Everybody is said by saying nobody.
        if rule.prefix.prefix_len() > 0 {
            body.remote_ip_prefix(rule.prefix.to_string());
        }
        let endpoint = flat(body.build().map(|body| create_rule::Request::builder().security_group_rule(body).build()));
        self.change(acting, on(Service::Network, "create-rule", group), endpoint).await
    }

    /// The cloud's groups of ours, all of them: a port with some of its groups would let through what it should not.
    pub async fn security_groups(
        &self,
        acting: &Acting,
        ids: &[SecurityGroupId],
    ) -> ProviderResult<BTreeSet<ProviderSecurityGroupId>> {
        let mut groups = BTreeSet::new();
        for id in ids {
            let name = names::security_group(*id);
            let mut found = self.groups_of_name(acting, &name).await?.fact;
            found.retain(|group| group.name == name);
            // That there are two is for its own pass to mend.
            let [group] = found.as_slice() else {
                return Err(ProviderError::Conflict("a security group is not there, or twice".to_owned()));
            };
            groups.insert(ProviderSecurityGroupId(group.id.clone()));
        }
        Ok(groups)
    }

    async fn take_groups_away(&self, acting: &Acting, groups: &[GroupBody]) -> ProviderResult<()> {
        let mut removals = Removals::default();
        for group in groups {
            let endpoint = delete_group::Request::builder().id(group.id.clone()).build();
            let operation = on(Service::Network, "delete-security-group", &group.id);
            removals.add(self.take_away(acting, operation, endpoint).await)?;
        }
        removals.end()
    }

    /// Takes away every group of this incarnation, doubles included.
    pub async fn delete_security_group(&self, request: &SecurityGroupRequest) -> ProviderResult<Deletion> {
        let known = request.detail.group.as_ref().map(|id| id.0.clone());
        let Some(acting) = self.remover(request.identity, known.is_some()).await? else {
            return Ok(Deletion::Absent);
        };
        let seen = self.look_at_groups(&acting, request, known.as_deref()).await?.fact;
        let Some(first) = seen.first().map(|group| group.id.clone()) else { return Ok(Deletion::Absent) };
        self.take_groups_away(&acting, &seen).await?;
        let known = known.unwrap_or(first);
        let left = self.look_at_groups(&acting, request, Some(&known)).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }
}
