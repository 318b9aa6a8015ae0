//! The quota ledger.

use super::conform;
use super::rig::{Rig, charge, incarnation, limit, network, organization, release};
use crate::model::organization::{Amounts, QuotaKind};
use crate::store::{Allocation, Refusal, Usage, Write};

conform!(
    nobody_has_used_anything_at_first,
    a_charge_counts_until_it_is_released_and_only_once,
    a_second_charge_of_the_same_resource_replaces_the_first,
    a_charge_above_the_limit_is_refused_with_the_figures,
    a_lowered_limit_stops_growth_but_not_shrinking,
    a_charge_may_move_between_organizations,
    a_release_by_another_incarnation_gives_nothing_back,
    a_charge_of_nothing_is_a_release,
    charges_of_one_batch_add_up,
    amounts_beyond_the_range_of_a_signed_integer_are_exact,
);

async fn usage(rig: &Rig, number: u128) -> (u64, u64) {
    let usage = rig.store().usage(organization(number)).await.expect("readable");
    let [Usage { kind: QuotaKind::Networks, used, limit }] = usage[..] else { panic!("one entry per kind: {usage:?}") };
    (used, limit)
}

async fn nobody_has_used_anything_at_first(rig: Rig) {
    assert_eq!(usage(&rig, 1).await, (0, QuotaKind::Networks.default_limit()));
    assert!(rig.store().allocations().await.expect("readable").is_empty());
}

async fn a_charge_counts_until_it_is_released_and_only_once(rig: Rig) {
    rig.commit(vec![charge(network(1), 2), charge(network(2), 1)]).await;
    rig.commit(vec![charge(network(1), 2)]).await;
    assert_eq!(usage(&rig, 1).await.0, 3);
    rig.commit(vec![release(network(1))]).await;
    rig.commit(vec![release(network(1)), release(network(9))]).await;
    assert_eq!(usage(&rig, 1).await.0, 1);
    let left = Allocation {
        organization: organization(1),
        holder: network(2),
        incarnation: incarnation(1),
        amounts: Amounts::from([(QuotaKind::Networks, 1)]),
    };
    assert_eq!(rig.store().allocations().await.expect("readable"), [left]);
}

async fn a_second_charge_of_the_same_resource_replaces_the_first(rig: Rig) {
    rig.commit(vec![charge(network(1), 4)]).await;
    rig.commit(vec![charge(network(1), 5)]).await;
    assert_eq!(usage(&rig, 1).await, (5, 5), "4 + 5 would have been refused");
    rig.commit(vec![charge(network(1), 1)]).await;
    assert_eq!(usage(&rig, 1).await.0, 1);
}

async fn a_charge_above_the_limit_is_refused_with_the_figures(rig: Rig) {
    rig.commit(vec![charge(network(1), 3)]).await;
    let refused = rig.refused(vec![charge(network(2), 3)]).await;
    assert!(matches!(refused, Refusal::QuotaExceeded { kind: QuotaKind::Networks, total: 6, limit: 5 }), "{refused}");
    assert_eq!(usage(&rig, 1).await.0, 3);
    rig.commit(vec![limit(6), charge(network(2), 3)]).await;
    assert_eq!(usage(&rig, 1).await, (6, 6));
}

async fn a_lowered_limit_stops_growth_but_not_shrinking(rig: Rig) {
    rig.commit(vec![charge(network(1), 5)]).await;
    rig.commit(vec![limit(2)]).await;
    assert_eq!(usage(&rig, 1).await, (5, 2));
    assert!(matches!(
        rig.refused(vec![charge(network(1), 6)]).await,
        Refusal::QuotaExceeded { total: 6, limit: 2, .. }
    ));
    rig.commit(vec![charge(network(1), 5)]).await;
    rig.commit(vec![charge(network(1), 3)]).await;
    assert_eq!(usage(&rig, 1).await, (3, 2));
}

async fn a_charge_may_move_between_organizations(rig: Rig) {
    rig.commit(vec![charge(network(1), 5)]).await;
    let mut moved = charge(network(1), 5);
    if let Write::Charge { organization: of, .. } = &mut moved {
        *of = organization(2);
    }
    rig.commit(vec![moved]).await;
    assert_eq!((usage(&rig, 1).await.0, usage(&rig, 2).await.0), (0, 5));
}

async fn a_release_by_another_incarnation_gives_nothing_back(rig: Rig) {
    rig.commit(vec![charge(network(1), 1)]).await;
    rig.commit(vec![Write::Release { holder: network(1), incarnation: incarnation(2) }]).await;
    assert_eq!(usage(&rig, 1).await.0, 1);
}

async fn a_charge_of_nothing_is_a_release(rig: Rig) {
    rig.commit(vec![charge(network(1), 3)]).await;
    rig.commit(vec![charge(network(1), 0)]).await;
    assert_eq!(usage(&rig, 1).await.0, 0);
    assert!(rig.store().allocations().await.expect("readable").is_empty());
}

async fn charges_of_one_batch_add_up(rig: Rig) {
    let refused = rig.refused(vec![charge(network(1), 3), charge(network(2), 3)]).await;
    assert!(matches!(refused, Refusal::QuotaExceeded { total: 6, .. }));
    rig.commit(vec![charge(network(1), 3), release(network(1)), charge(network(2), 3)]).await;
    assert_eq!(usage(&rig, 1).await.0, 3);
}

async fn amounts_beyond_the_range_of_a_signed_integer_are_exact(rig: Rig) {
    rig.commit(vec![limit(u64::MAX), charge(network(1), u64::MAX - 1)]).await;
    assert_eq!(usage(&rig, 1).await, (u64::MAX - 1, u64::MAX));
    rig.commit(vec![release(network(1))]).await;
    assert_eq!(usage(&rig, 1).await, (0, u64::MAX));
}
