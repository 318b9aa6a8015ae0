//! The quota ledger.

use super::conform;
use super::rig::{Rig, charge, charge_of, incarnation, limit, network, organization, release};
use crate::model::quota::{Amount, Amounts, QuotaKind};
use crate::store::{Allocation, Batch, Precondition, Refusal, StoreError, Usage, Write};

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
    what_is_reserved_counts_like_what_is_committed_and_is_told_apart,
    a_limit_is_not_set_below_what_is_used_when_that_is_asked_for,
);

async fn usage(rig: &Rig, number: u128) -> (u64, u64) {
    let usage = networks(rig, number).await;
    (usage.used.total(), usage.limit)
}

async fn networks(rig: &Rig, number: u128) -> Usage {
    let usage = rig.store().usage(organization(number)).await.expect("readable");
    assert_eq!(usage.iter().map(|usage| usage.kind).collect::<Vec<_>>(), QuotaKind::ALL, "one entry per kind");
    usage[0]
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
        amounts: Amounts::from([(QuotaKind::Networks, Amount::of(1))]),
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

async fn what_is_reserved_counts_like_what_is_committed_and_is_told_apart(rig: Rig) {
    let both = Amount { committed: 2, reserved: 2 };
    rig.commit(vec![charge_of(network(1), both)]).await;
    assert_eq!(networks(&rig, 1).await.used, both);
    let refused = rig.refused(vec![charge_of(network(2), Amount { committed: 0, reserved: 2 })]).await;
    assert!(matches!(refused, Refusal::QuotaExceeded { total: 6, limit: 5, .. }), "{refused}");
    let came = Amount { committed: 3, reserved: 1 };
    rig.commit(vec![charge_of(network(1), came)]).await;
    assert_eq!(networks(&rig, 1).await.used, came);
    let amounts = rig.store().allocations().await.expect("readable").remove(0).amounts;
    assert_eq!(amounts, Amounts::from([(QuotaKind::Networks, came)]));
    rig.commit(vec![release(network(1))]).await;
    assert_eq!(networks(&rig, 1).await.used, Amount::default());
}

async fn a_limit_is_not_set_below_what_is_used_when_that_is_asked_for(rig: Rig) {
    rig.commit(vec![charge(network(1), 3)]).await;
    let lowered = |to: u64| {
        let precondition =
            Precondition::UsesAtMost { organization: organization(1), kind: QuotaKind::Networks, limit: to };
        Batch::of(vec![limit(to)]).provided(precondition)
    };
    let refused = rig.store().commit(lowered(2)).await.expect_err("below what is used");
    assert!(matches!(refused, StoreError::Refused(Refusal::QuotaExceeded { total: 3, limit: 2, .. })), "{refused}");
    assert_eq!(usage(&rig, 1).await, (3, 5));
    rig.store().commit(lowered(3)).await.expect("exactly what is used");
    assert_eq!(usage(&rig, 1).await, (3, 3));
}
