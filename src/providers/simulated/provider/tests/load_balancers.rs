//! Load balancers: one change at a time, addresses that stay, what drifts, what is in the way.

use super::super::super::call::{Call, CloudError};
use super::super::super::objects::ObjectState;
use super::super::super::testing::request;
use super::balancers::{BALANCER, Balancers, listener, name};
use super::*;
use crate::actors::kind::Behaviour;
use crate::model::load_balancer::{LoadBalancer, Member};
use crate::model::load_balancer_topology::BalancerChange;
use crate::providers::call::{Fact, ProviderCall};
use crate::providers::{Listed, ProviderError};

async fn listed(balancers: &Balancers) -> Vec<Listed> {
    let list = async |provider: &SimulatedProvider, context: &CallContext<'_>| {
        provider.list(context, Kind::LoadBalancer, None, None).await
    };
    balancers.rig.run(list).await.expect("alive").expect("listed").fact.items
}

#[tokio::test(start_paused = true)]
async fn a_balancer_is_made_whole_in_one_call_and_a_second_pass_changes_nothing() {
    let balancers = Balancers::new().await;
    let before = balancers.rig.mutations().await;
    assert_eq!(balancers.pass().await, Some(Ok(false)), "the cloud is busy with it");
    let recorded = balancers.recorded();
    assert!(recorded.vip_address.is_some() && recorded.public_ip.is_some(), "its addresses are there already");
    balancers.make().await;
    assert_eq!(balancers.rig.mutations().await, before + 3, "a port, a balancer, a public address");
    balancers.assert_exactly_what_was_asked_for("made").await;
    balancers.make().await;
    assert_eq!(balancers.rig.mutations().await, before + 3);
}

#[tokio::test(start_paused = true)]
async fn a_busy_balancer_is_never_changed_and_refuses_every_change() {
    let mut balancers = Balancers::made().await;
    balancers.spec.listeners[0].pool.members.clear();
    balancers.spec.listeners[1].idle_timeout_seconds = Some(7);
    assert_eq!(balancers.pass().await, Some(Ok(false)));
    let mutations = balancers.rig.mutations().await;
    assert_eq!(balancers.pass().await, Some(Ok(false)), "still busy with the first change");
    assert_eq!(balancers.rig.mutations().await, mutations);
    let id = balancers.balancer().await.id;
    let remove = BalancerChange::RemoveListener { name: name("web") };
    let tags = super::super::super::call::Change::Tags { tags: std::collections::BTreeMap::new() };
    let kind = ObjectKind::LoadBalancer;
    for call in [
        Call::Configure { balancer: id.clone(), change: remove },
        Call::Update { kind, id: id.clone(), change: tags },
        Call::Delete { kind, id },
    ] {
        let cloud = face(&balancers.rig.kept, &balancers.rig.ambient, Cut::never());
        let refused = cloud.call(request(call.clone())).await;
        assert!(matches!(refused, Err(CloudError::Conflict { .. })), "{call:?}: {refused:?}");
    }
    balancers.make().await;
    balancers.assert_exactly_what_was_asked_for("changed").await;
}

#[tokio::test(start_paused = true)]
async fn listeners_come_and_go_and_what_nobody_asked_for_is_removed() {
    let mut balancers = Balancers::made().await;
    let vip = balancers.recorded().vip_address;
    // A broken-off way: a pool without a listener, which is not wanted.
    let id = balancers.balancer().await.id;
    let protocol = crate::model::load_balancer_topology::PoolProtocol::Udp;
    let orphan = BalancerChange::AddPool { name: name("orphan"), protocol };
    balancers.rig.behind_our_back(BackdoorChange::Configure { balancer: id, configured: orphan }).await;
    // One goes, and its port is taken by another; a third comes.
    balancers.spec.listeners = vec![listener("tls", 443), listener("plain", 80), listener("extra", 9000)];
    balancers.make().await;
    balancers.assert_exactly_what_was_asked_for("changed").await;
    assert_eq!(balancers.recorded().vip_address, vip);
    // The same name for something else, as two updates in a row can have it.
    balancers.spec.listeners[2].protocol = crate::model::load_balancer::BalancedProtocol::Udp;
    balancers.spec.listeners[1].pool.proxy_protocol_v2 = Some(true);
    balancers.make().await;
    balancers.assert_exactly_what_was_asked_for("changed again").await;
    let before = balancers.topology().await;
    balancers.spec.listeners.reverse();
    let mutations = balancers.rig.mutations().await;
    balancers.make().await;
    assert_eq!(
        (balancers.topology().await, balancers.rig.mutations().await),
        (before, mutations),
        "order means nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn without_its_public_address_a_balancer_keeps_its_virtual_one() {
    let mut balancers = Balancers::made().await;
    let before = balancers.recorded();
    balancers.spec.public_ip = None;
    balancers.make().await;
    balancers.assert_exactly_what_was_asked_for("private").await;
    let after = balancers.recorded();
    assert_eq!((after.vip_address, after.public_ip, after.floating_ip), (before.vip_address, None, None));
    balancers.spec.public_ip = Some(true);
    balancers.make().await;
    balancers.assert_exactly_what_was_asked_for("public again").await;
}

#[tokio::test(start_paused = true)]
async fn the_virtual_address_is_the_one_that_was_asked_for_and_nobody_elses() {
    let mut balancers = Balancers::new().await;
    // Outside of the pool that other addresses come from.
    balancers.spec.vip_address = "192.168.0.77".parse().ok();
    balancers.make().await;
    assert_eq!(balancers.recorded().vip_address, balancers.spec.vip_address);
    let second = Balancers::on(Rig { incarnation: Incarnation(Uuid::from_u128(2)), ..balancers.rig });
    *second.rig.written.lock().expect("lock") = super::super::super::testing::Written::default();
    let second = Balancers { spec: balancers.spec.clone(), ..second };
    let error = second.pass().await.expect("alive").expect_err("taken");
    assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    for never in ["192.168.0.0", "192.168.0.1", "192.168.0.255", "10.0.0.9"] {
        let mut spec = balancers.spec.clone();
        spec.vip_address = never.parse().ok();
        let wrong = Balancers { rig: Rig::made().await, spec };
        let error = wrong.pass().await.expect("alive").expect_err("no such address");
        assert!(matches!(error, ProviderError::Rejected(_)), "{never}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_drifts_is_noticed_in_the_list_and_put_right() {
    let balancers = Balancers::made().await;
    let first = listed(&balancers).await.remove(0);
    assert_eq!(first.key.id, Uuid::from_u128(BALANCER));
    assert_eq!(LoadBalancer::fingerprint(&balancers.recorded()), Some(first.fingerprint), "no news");
    let inventory = balancers.rig.inventory().await;
    let (balancer, floating_ip) = (inventory.load_balancers[0].id.clone(), inventory.floating_ips[0].id.clone());
    let members = std::collections::BTreeSet::from([Member { address: [6, 6, 6, 6].into(), port: 6 }]);
    let configure = |configured| BackdoorChange::Configure { balancer: balancer.clone(), configured };
    let drifts = [
        configure(BalancerChange::ReplaceMembers { name: name("web"), members }),
        configure(BalancerChange::SetMonitor { name: name("tls"), monitor: None }),
        configure(BalancerChange::RemoveListener { name: name("web") }),
        BackdoorChange::Delete { id: floating_ip },
        BackdoorChange::Delete { id: balancer.clone() },
    ];
    for drift in drifts {
        balancers.rig.behind_our_back(drift.clone()).await;
        let seen = listed(&balancers).await;
        assert_ne!(seen.first().map(|seen| seen.fingerprint), Some(first.fingerprint), "{drift:?}");
        let vip = balancers.recorded().vip_address;
        balancers.make().await;
        balancers.assert_exactly_what_was_asked_for(&format!("{drift:?}")).await;
        assert_eq!(balancers.recorded().vip_address, vip, "{drift:?}: the virtual address stays");
        let told = LoadBalancer::fingerprint(&balancers.recorded());
        assert_eq!(listed(&balancers).await.first().map(|seen| seen.fingerprint), told, "{drift:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_balancer_that_was_never_built_is_made_again_and_one_that_has_worked_is_left_alone() {
    let balancers = Balancers::new().await;
    let failing = super::super::super::engine::faults::Effect::FailedBoot;
    balancers.rig.faults(vec![Fault::once("create-load-balancer", failing)]).await;
    assert_eq!(balancers.pass().await, Some(Ok(false)));
    let vip = balancers.recorded().vip_address;
    balancers.make_persistently().await;
    balancers.assert_exactly_what_was_asked_for("made again").await;
    assert_eq!(balancers.recorded().vip_address, vip);

    let id = balancers.balancer().await.id;
    balancers.rig.behind_our_back(BackdoorChange::SetState { id: id.clone(), state: ObjectState::Error }).await;
    let mutations = balancers.rig.mutations().await;
    assert_eq!(balancers.pass().await, Some(Ok(true)));
    assert!(balancers.recorded().trouble.is_some(), "it is told");
    assert_eq!(balancers.rig.mutations().await, mutations, "and not touched");
    balancers.rig.behind_our_back(BackdoorChange::SetState { id, state: ObjectState::Active }).await;
    balancers.make().await;
    assert_eq!(balancers.recorded().trouble, None);
}

#[tokio::test(start_paused = true)]
async fn a_network_with_a_balancer_stays_and_a_busy_balancer_is_waited_for_before_it_goes() {
    let mut balancers = Balancers::made().await;
    let error = balancers.rig.delete_network().await.expect("alive").expect_err("in use");
    assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    balancers.rig.converge_network().await.expect("alive").expect("converged");
    balancers.spec.listeners.pop();
    assert_eq!(balancers.pass().await, Some(Ok(false)), "busy");
    let asked = balancers.rig.handle().counters().await.expect("counters");
    assert_eq!(balancers.unpass().await, Some(Ok(false)));
    let after = balancers.rig.handle().counters().await.expect("counters");
    let deletes =
        |operations: &std::collections::BTreeMap<String, u64>| operations.get("delete-load-balancer").copied();
    assert_eq!(deletes(&asked.operations), deletes(&after.operations), "the cloud would only refuse");
    balancers.unmake_persistently().await;
    balancers.assert_nothing_left("deleted").await;
    assert_eq!(balancers.call(ProviderCall::DeleteLoadBalancer).await, Some(Ok(Fact::Deletion(Deletion::Absent))));
}

#[tokio::test(start_paused = true)]
async fn two_balancers_are_a_contradiction_and_both_go() {
    let balancers = Balancers::made().await;
    let inventory = balancers.rig.inventory().await;
    let (balancer, mut port) = (inventory.load_balancers[0].clone(), inventory.ports[0].clone());
    if let Body::Port { address, .. } = &mut port.body {
        *address = None;
    }
    let double = |object: super::super::super::objects::CloudObject, body| super::super::super::objects::NewObject {
        name: object.name,
        marks: object.marks,
        tags: object.tags,
        body,
    };
    let body = port.body.clone();
    balancers.rig.behind_our_back(BackdoorChange::Insert { object: double(port.clone(), body) }).await;
    let ports = balancers.rig.inventory().await.ports;
    let second = ports.into_iter().find(|other| other.id != port.id).expect("two ports").id;
    let body = Body::LoadBalancer { port: second, topology: balancers.topology().await };
    balancers.rig.behind_our_back(BackdoorChange::Insert { object: double(balancer, body) }).await;
    let error = balancers.pass().await.expect("alive").expect_err("two");
    assert!(matches!(error, ProviderError::Inconsistent(_)), "{error}");
    balancers.unmake_persistently().await;
    balancers.assert_nothing_left("doubles go too").await;
}

#[tokio::test(start_paused = true)]
async fn searches_that_lag_behind_make_no_second_balancer() {
    use super::super::super::engine::faults::Effect;
    let balancers = Balancers::new().await;
    tokio::time::advance(std::time::Duration::from_hours(2)).await;
    balancers.rig.faults(vec![Fault::once("create-load-balancer", Effect::LostAnswer { after_ms: 0 })]).await;
    balancers.pass().await.expect("alive").expect_err("the answer was lost");
    // The port is on record, the balancer is not, and the search does not show it yet: its port refuses a second.
    balancers.rig.faults(vec![Fault::always("find-load-balancers", Effect::Stale { age_ms: 3_600_000 })]).await;
    for _ in 0..3 {
        let error = balancers.pass().await.expect("alive").expect_err("refused");
        assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    }
    balancers.rig.handle().clear_faults().await.expect("cleared");
    balancers.make().await;
    balancers.assert_exactly_what_was_asked_for("adopted").await;
}
