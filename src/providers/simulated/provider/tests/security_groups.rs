//! Security groups: their rules, their users, their list.

use super::machines::{GROUP, Machines, rule};
use super::*;
use crate::model::security_group::{Direction, Rule, SecurityGroupSpec, implicit_rules};
use crate::providers::call::Fact;
use crate::providers::{Listed, ProviderError};

async fn rules(machines: &Machines) -> usize {
    let Body::SecurityGroup { rules, .. } = &machines.rig.inventory().await.security_groups[0].body else {
        panic!("not a group")
    };
    rules.len()
}

#[tokio::test(start_paused = true)]
async fn rules_are_added_and_removed_and_changed_back() {
    let mut machines = Machines::made().await;
    let before = machines.rig.inventory().await;
    assert_eq!(rules(&machines).await, 4, "two asked for, two that every group has");
    let asked = machines.group.clone();
    for (spec, left) in [(vec![rule(80), rule(443)], 4), (vec![], 2)] {
        machines.group = SecurityGroupSpec { rules: spec };
        machines.converge_group().await.expect("alive").expect("converged");
        assert_eq!(rules(&machines).await, left);
    }
    machines.group = asked;
    machines.make().await;
    assert_eq!(machines.rig.inventory().await, before);
    let mutations = machines.rig.mutations().await;
    machines.make().await;
    assert_eq!(machines.rig.mutations().await, mutations, "a second convergence changes nothing");
}

#[tokio::test(start_paused = true)]
async fn b48_asking_for_what_every_group_has_keeps_both_address_families() {
    let mut machines = Machines::new().await;
    let out = Rule { direction: Direction::Egress, protocol: crate::model::security_group::Protocol::Any, ..rule(1) };
    machines.group = SecurityGroupSpec { rules: vec![Rule { port: None, ..out }] };
    machines.converge_group().await.expect("alive").expect("converged");
    assert_eq!(rules(&machines).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_was_dropped_behind_our_back_is_noticed_in_the_list_and_put_back() {
    let machines = Machines::made().await;
    let list = async || {
        let listed =
            machines.rig.run(async |provider, context| provider.list(context, Kind::SecurityGroup, None, None).await);
        listed.await.expect("alive").expect("listed").fact.items
    };
    let first: Listed = list().await.remove(0);
    assert_eq!(first.key.id, Uuid::from_u128(GROUP));
    let recorded = machines.group_recorded.lock().expect("lock").clone();
    let Fact::SecurityGroup(seen) = &first.fact else { panic!("not a group") };
    assert_eq!((&seen.fact.detail, recorded.fingerprint), (&recorded, Some(first.fingerprint)));
    let group = machines.rig.inventory().await.security_groups[0].id.clone();
    for dropped in [rule(22).effective(), implicit_rules()[1]] {
        machines.rig.behind_our_back(BackdoorChange::DropRule { group: group.clone(), rule: dropped }).await;
        assert_ne!(list().await[0].fingerprint, first.fingerprint);
        machines.make().await;
        assert_eq!(list().await[0].fingerprint, first.fingerprint);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_a_port_uses_is_not_deleted() {
    let machines = Machines::made().await;
    let error = machines.delete_group().await.expect("alive").expect_err("in use");
    assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    machines.unmake_persistently().await;
    machines.assert_nothing_left("deleted").await;
}

#[tokio::test(start_paused = true)]
async fn a_group_without_its_principal_waits_for_it_and_two_groups_are_a_contradiction() {
    let machines = Machines::new().await;
    let project = machines.rig.inventory().await.identities[0].id.clone();
    machines.rig.behind_our_back(BackdoorChange::Delete { id: project }).await;
    assert_eq!(machines.converge_group().await, Some(Err(ProviderError::PrincipalMissing)));

    let machines = Machines::made().await;
    let group = machines.rig.inventory().await.security_groups[0].clone();
    let double = super::super::super::objects::NewObject {
        name: group.name,
        marks: group.marks,
        tags: group.tags,
        body: group.body,
    };
    machines.rig.behind_our_back(BackdoorChange::Insert { object: double }).await;
    let error = machines.converge_group().await.expect("alive").expect_err("two");
    assert!(matches!(error, ProviderError::Inconsistent(_)), "{error}");
    machines.unmake_persistently().await;
    machines.assert_nothing_left("doubles go too").await;
}
