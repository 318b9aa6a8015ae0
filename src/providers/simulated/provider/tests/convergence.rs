//! What is made, what is found again, what is healed, what is taken away.

use super::super::super::call::{Answer, Call, CloudError};
use super::super::super::engine::faults::{Effect, PartialForm};
use super::super::super::objects::{NewObject, ObjectState, Segment};
use super::super::super::testing::unseal;
use super::*;
use crate::model::network::{AddressRange, VlanId};
use crate::providers::call::Fact;
use crate::providers::{Listed, ProviderError};

#[tokio::test(start_paused = true)]
async fn a_network_is_made_with_its_address_plan_and_reported_with_its_ids() {
    let rig = Rig::new();
    let fact = rig.make().await;
    rig.assert_exactly_what_was_asked_for("made").await;
    let inventory = rig.inventory().await;
    assert_eq!(fact.trouble, None);
    assert_eq!(fact.detail.vlan, Some(VlanId(1)));
    assert_eq!(fact.detail.network.map(|id| id.0), Some(inventory.networks[0].id.0.clone()));
    let range =
        |start: &str, end: &str| AddressRange { start: start.parse().expect("a"), end: end.parse().expect("a") };
    assert_eq!(fact.detail.storage_range, Some(range("192.168.0.16", "192.168.0.127")));
    let Body::Subnet { options, cidr, .. } = &inventory.subnets[0].body else { panic!("not a subnet") };
    assert_eq!((cidr.to_string(), options.gateway.to_string()), ("192.168.0.0/24".into(), "192.168.0.1".into()));
    assert_eq!(options.pool, Some(range("192.168.0.128", "192.168.0.254")));
    assert_eq!((options.dns_nameservers.len(), options.routes.len()), (1, 1));
    assert_eq!(inventory.networks[0].name, format!("network-{}", Uuid::from_u128(NETWORK)));
    assert_eq!(inventory.identities[0].name, format!("regent-identity-{}", Uuid::from_u128(IDENTITY)));
    assert_eq!(inventory.identities[0].tags["organization"], Uuid::from_u128(3).to_string());
}

#[tokio::test(start_paused = true)]
async fn a_plain_region_takes_no_vlan() {
    let rig = Rig::with(SimulatedSettings::default());
    assert_eq!(rig.make().await.detail.vlan, None);
    assert!(rig.written.lock().expect("lock").vlans.is_empty());
    rig.assert_exactly_what_was_asked_for("plain").await;
}

#[tokio::test(start_paused = true)]
async fn b36_a_second_convergence_changes_nothing_and_notes_nothing() {
    let rig = Rig::made().await;
    let (mutations, notes) = (rig.mutations().await, rig.written.lock().expect("lock").notes);
    let (before, fact) = (rig.inventory().await, rig.make().await);
    assert_eq!(fact.trouble, None);
    assert_eq!(rig.mutations().await, mutations);
    assert_eq!(rig.written.lock().expect("lock").notes, notes);
    assert_eq!(rig.inventory().await, before);
}

#[tokio::test(start_paused = true)]
async fn b13_name_servers_and_routes_are_changed_and_cleared_and_changed_back() {
    let mut rig = Rig::made().await;
    let before = rig.inventory().await;
    for (routes, mutations) in [(None, 1), (Some(vec![]), 0)] {
        let already = rig.mutations().await;
        rig.spec = NetworkSpec { dns_nameservers: vec![], routes, ..spec() };
        rig.make().await;
        assert_eq!(rig.mutations().await, already + mutations);
        let Body::Subnet { options, .. } = &rig.inventory().await.subnets[0].body else { panic!("not a subnet") };
        assert!(options.routes.is_empty() && options.dns_nameservers.is_empty());
    }
    rig.spec = spec();
    rig.make().await;
    assert_eq!(rig.inventory().await, before);
}

#[tokio::test(start_paused = true)]
async fn b14_a_region_without_an_external_network_says_so() {
    let rig = Rig::new();
    rig.behind_our_back(BackdoorChange::SetExternalNetworks { networks: vec![] }).await;
    rig.converge_identity().await.expect("alive").expect("converged");
    let error = rig.converge_network().await.expect("alive").expect_err("no way out");
    assert_eq!(error, ProviderError::Rejected("the region has no external network".to_owned()));
    rig.unmake_persistently().await;
    assert!(rig.inventory().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_changed_behind_our_back_is_put_right() {
    let rig = Rig::made().await;
    let before = rig.inventory().await;
    let (router, subnet) = (before.routers[0].id.clone(), before.subnets[0].id.clone());
    let changes = [
        BackdoorChange::SetSubnet { id: subnet.clone(), dns_nameservers: vec![], routes: vec![] },
        BackdoorChange::DropInterface { router: router.clone(), subnet },
        BackdoorChange::DropGateway { router },
    ];
    for change in changes {
        rig.behind_our_back(change.clone()).await;
        assert_ne!(rig.inventory().await, before, "{change:?}");
        rig.make().await;
        assert_eq!(rig.inventory().await, before, "{change:?}");
    }
    let ids = |inventory: &Inventory| {
        [&inventory.identities, &inventory.users, &inventory.credentials, &inventory.networks, &inventory.routers]
            .map(|list| list[0].id.clone())
    };
    for id in ids(&before) {
        // An earlier turn may have taken it along.
        if rig.handle().change_directly(BackdoorChange::Delete { id }).await.is_ok() {
            rig.make_persistently().await;
            rig.assert_exactly_what_was_asked_for("deleted behind our back").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_in_use_and_unwell_is_reported_and_left_alone() {
    let rig = Rig::made().await;
    let inventory = rig.inventory().await;
    for (object, said) in [(&inventory.networks[0], "network"), (&inventory.routers[0], "router")] {
        let set = |state| BackdoorChange::SetState { id: object.id.clone(), state };
        rig.behind_our_back(set(ObjectState::Error)).await;
        let mutations = rig.mutations().await;
        assert_eq!(rig.make().await.trouble, Some(format!("the {said} is in an error state")));
        assert_eq!(rig.mutations().await, mutations);
        rig.behind_our_back(set(ObjectState::Active)).await;
    }
}

/// Makes an object that only a defect of the cloud or of ours can have made.
async fn insert(rig: &Rig, mut copy: super::super::super::objects::CloudObject, change: impl FnOnce(&mut NewObject)) {
    if let Body::Network { segment, .. } = &mut copy.body {
        *segment = None;
    }
    if let Body::Router { interfaces, .. } = &mut copy.body {
        interfaces.clear();
    }
    let mut object = NewObject { name: copy.name, marks: copy.marks, tags: copy.tags, body: copy.body };
    change(&mut object);
    rig.behind_our_back(BackdoorChange::Insert { object }).await;
}

#[tokio::test(start_paused = true)]
async fn more_than_one_is_a_contradiction_that_stops_convergence_and_not_deletion() {
    for kind in 0..5 {
        let rig = Rig::made().await;
        let inventory = rig.inventory().await;
        let lists =
            [&inventory.identities, &inventory.users, &inventory.networks, &inventory.subnets, &inventory.routers];
        insert(&rig, lists[kind][0].clone(), |_| {}).await;
        let mutations = rig.mutations().await;
        let error = match kind {
            0 | 1 => rig.converge_identity().await.expect("alive").expect_err("two"),
            _ => rig.converge_network().await.expect("alive").expect_err("two"),
        };
        assert!(matches!(error, ProviderError::Inconsistent(_)), "{error}");
        assert_eq!(rig.mutations().await, mutations);
        rig.unmake_persistently().await;
        assert!(rig.inventory().await.is_empty(), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_incarnation_left_is_neither_adopted_nor_deleted() {
    let predecessor = Rig::made().await;
    let remains = predecessor.inventory().await;
    let mut successor = Rig::with(SimulatedSettings::default());
    successor.kept = Arc::clone(&predecessor.kept);
    successor.incarnation = Incarnation(Uuid::from_u128(2));
    successor.converge_identity().await.expect("alive").expect("converged");
    assert_eq!(successor.inventory().await.identities.len(), 2);
    successor.delete_network().await.expect("alive").expect("nothing to delete");
    successor.delete_identity().await.expect("alive").expect("deleted");
    assert_eq!(successor.inventory().await, remains);
}

#[tokio::test(start_paused = true)]
async fn a_vlan_that_the_cloud_knows_to_be_used_is_a_conflict_and_stays_claimed() {
    let rig = Rig::new();
    rig.converge_identity().await.expect("alive").expect("converged");
    let project = rig.inventory().await.identities[0].id.clone();
    let segment = Some(Segment { physical_network: "physical".to_owned(), vlan: VlanId(1) });
    let foreign = NewObject {
        name: "foreign".to_owned(),
        marks: None,
        tags: std::collections::BTreeMap::new(),
        body: Body::Network { project, segment },
    };
    rig.behind_our_back(BackdoorChange::Insert { object: foreign }).await;
    for _ in 0..2 {
        let error = rig.converge_network().await.expect("alive").expect_err("taken");
        assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    }
    assert_eq!(rig.written.lock().expect("lock").vlans.values().copied().collect::<Vec<_>>(), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_network_without_its_principal_waits_for_it() {
    let rig = Rig::new();
    let error = rig.converge_network().await.expect("alive").expect_err("no principal");
    assert!(matches!(error, ProviderError::PrincipalMissing), "{error}");
    assert_eq!(rig.mutations().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_secret_whose_record_was_lost_is_revoked_and_issued_anew() {
    let rig = Rig::made().await;
    let lost = rig.inventory().await.credentials[0].id.clone();
    rig.written.lock().expect("lock").identity.credential = None;
    rig.make().await;
    rig.assert_exactly_what_was_asked_for("reissued").await;
    assert_ne!(rig.inventory().await.credentials[0].id, lost);
    let recorded = rig.written.lock().expect("lock").identity.credential.clone().expect("recorded");
    assert_eq!(unseal(&recorded.secret).len(), 32);
}

#[tokio::test(start_paused = true)]
async fn b4_what_cannot_be_recorded_stops_the_pass_and_is_taken_up_later() {
    let rig = Rig::new();
    rig.written.lock().expect("lock").is_broken = true;
    for _ in 0..3 {
        let error = rig.converge_identity().await.expect("alive").expect_err("no record");
        assert!(matches!(error, ProviderError::Ledger(_)), "{error}");
        assert!(rig.inventory().await.users.is_empty(), "nothing further was done");
    }
    rig.written.lock().expect("lock").is_broken = false;
    rig.make().await;
    rig.assert_exactly_what_was_asked_for("recorded").await;
}

#[tokio::test(start_paused = true)]
async fn b3_b5_each_part_is_deleted_whether_or_not_the_others_are_there() {
    for missing in 0..6 {
        let rig = Rig::made().await;
        let inventory = rig.inventory().await;
        let lists = [
            &inventory.identities,
            &inventory.users,
            &inventory.credentials,
            &inventory.networks,
            &inventory.subnets,
            &inventory.routers,
        ];
        rig.behind_our_back(BackdoorChange::Delete { id: lists[missing][0].id.clone() }).await;
        // Nothing is on record: what there is has to be found.
        *rig.recorded.lock().expect("lock") = NetworkDetail::default();
        rig.written.lock().expect("lock").identity = IdentityDetail::default();
        rig.unmake_persistently().await;
        assert!(rig.inventory().await.is_empty(), "{missing}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_cloud_has_not_finished_is_under_way_and_not_asked_for_twice() {
    let rig = Rig::made().await;
    rig.faults(vec![Fault::once("delete-network", Effect::StuckDelete { for_ms: None })]).await;
    assert_eq!(rig.delete_network().await, Some(Ok(Deletion::Underway)));
    let mutations = rig.mutations().await;
    assert_eq!(rig.delete_network().await, Some(Ok(Deletion::Underway)));
    assert_eq!(rig.mutations().await, mutations);
    let error = rig.converge_network().await.expect("alive").expect_err("it is leaving");
    assert!(matches!(error, ProviderError::Conflict(_)));
    rig.behind_our_back(BackdoorChange::Release { id: None }).await;
    assert_eq!(rig.delete_network().await, Some(Ok(Deletion::Absent)));
    assert_eq!(rig.delete_network().await, Some(Ok(Deletion::Absent)), "again is fine");
}

#[tokio::test(start_paused = true)]
async fn a_failed_beginning_is_taken_away_and_made_again() {
    for operation in ["create-network", "create-subnet", "create-router", "create-project", "create-user"] {
        let rig = Rig::new();
        rig.faults(vec![Fault::once(operation, Effect::PartialCreate { form: PartialForm::Errored })]).await;
        rig.make_persistently().await;
        rig.assert_exactly_what_was_asked_for(operation).await;
        let creations = rig.handle().creations().await.expect("creations").creations;
        assert!(creations.iter().any(|creation| creation.count.created == 2), "{operation}: the fault was met");
    }
}

#[tokio::test(start_paused = true)]
async fn searches_that_lag_behind_make_no_doubles_and_hide_no_remains() {
    let rig = Rig::new();
    tokio::time::advance(std::time::Duration::from_hours(2)).await;
    rig.make().await;
    let mutations = rig.mutations().await;
    rig.faults(vec![Fault::always("find-*", Effect::Stale { age_ms: 3_600_000 })]).await;
    rig.make().await;
    assert_eq!(rig.mutations().await, mutations, "what is on record was asked for by its id");
    rig.unmake_persistently().await;
    assert!(rig.inventory().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_search_that_still_shows_what_is_gone_is_no_contradiction() {
    let rig = Rig::made().await;
    tokio::time::advance(std::time::Duration::from_mins(10)).await;
    let gone = rig.inventory().await.routers[0].id.clone();
    rig.behind_our_back(BackdoorChange::Delete { id: gone }).await;
    rig.make().await;
    let mutations = rig.mutations().await;
    rig.faults(vec![Fault::always("find-*", Effect::Stale { age_ms: 60_000 })]).await;
    rig.make().await;
    assert_eq!(rig.mutations().await, mutations);
}

#[tokio::test(start_paused = true)]
async fn the_bulk_list_has_our_networks_and_a_fingerprint_that_follows_the_object() {
    let rig = Rig::made().await;
    let list = async || {
        let listed = rig.run(async |provider, context| provider.list(context, Kind::Network, None, None).await).await;
        listed.expect("alive").expect("listed").fact
    };
    let project = rig.inventory().await.identities[0].id.clone();
    let unmarked = Body::Network { project, segment: None };
    let unmarked =
        NewObject { name: "foreign".to_owned(), marks: None, tags: std::collections::BTreeMap::new(), body: unmarked };
    rig.behind_our_back(BackdoorChange::Insert { object: unmarked }).await;
    let first = list().await;
    assert_eq!((first.items.len(), first.next.clone()), (1, None));
    let listed = &first.items[0];
    assert_eq!((listed.key.id, listed.incarnation), (Uuid::from_u128(NETWORK), rig.incarnation));
    let seen = |listed: &Listed| match &listed.fact {
        Fact::Network(seen) => seen.fact.clone(),
        other => panic!("not a network: {other:?}"),
    };
    let recorded = rig.recorded.lock().expect("lock").clone();
    assert_eq!(seen(listed).detail, NetworkDetail { storage_range: None, ..recorded });
    assert_eq!(seen(listed).trouble, None);
    assert_eq!(list().await.items[0].fingerprint, listed.fingerprint);
    let router = rig.inventory().await.routers[0].id.clone();
    rig.behind_our_back(BackdoorChange::DropGateway { router }).await;
    let changed = list().await.items.remove(0);
    assert_ne!(changed.fingerprint, listed.fingerprint);
    assert_eq!(seen(&changed).trouble.as_deref(), Some("the router is not connected to the outside"));
}

#[tokio::test(start_paused = true)]
async fn a_bulk_list_is_one_read_for_a_thousand_networks() {
    let rig = Rig::with(SimulatedSettings::default());
    rig.make().await;
    let network = rig.inventory().await.networks[0].clone();
    for other in 0..1000 {
        insert(&rig, network.clone(), |object| object.marks = Some(super::super::super::testing::marks(100 + other)))
            .await;
    }
    let reads = async || rig.handle().counters().await.expect("counters").operations["list-networks"];
    let (mut listed, mut after) = (0, None);
    loop {
        let from = after.clone();
        let page =
            rig.run(async |provider, context| provider.list(context, Kind::Network, None, from.as_deref()).await).await;
        let page = page.expect("alive").expect("listed").fact;
        listed += page.items.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((listed, reads().await), (1001, 2));
}

#[tokio::test(start_paused = true)]
async fn external_networks_are_named() {
    let rig = Rig::new();
    let networks = rig.run(async |provider, context| provider.external_networks(context).await).await;
    let names: Vec<String> =
        networks.expect("alive").expect("listed").into_iter().map(|network| network.name).collect();
    assert_eq!(names, ["sim-public", "sim-public-secondary"]);
}

#[tokio::test(start_paused = true)]
async fn an_older_epoch_makes_nothing() {
    let rig = Rig::made().await;
    let newer =
        super::super::super::call::CallRequest { caller: caller(2), tenant: None, call: Call::ListExternalNetworks };
    let answer = super::super::super::api::CloudApi::call(&face(&rig.kept, &rig.ambient, Cut::never()), newer).await;
    assert!(matches!(answer, Ok(Answer::ExternalNetworks { .. })));
    let before = rig.inventory().await;
    let error = rig.delete_network().await.expect("alive").expect_err("fenced");
    assert_eq!(error, ProviderError::from(CloudError::Fenced { newest_epoch: 2 }));
    assert_eq!(rig.inventory().await, before);
}
