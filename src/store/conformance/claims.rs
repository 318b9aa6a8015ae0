//! Numbers claimed from pools.

use super::conform;
use super::rig::{Rig, claim, network};
use crate::store::{ClaimedNumber, Refusal, Write};

conform!(
    the_lowest_free_number_is_taken_whatever_the_order_of_ranges,
    a_holder_keeps_the_number_it_has,
    an_exhausted_pool_refuses,
    released_numbers_are_taken_again,
    pools_do_not_know_each_other,
);

async fn the_lowest_free_number_is_taken_whatever_the_order_of_ranges(rig: Rig) {
    let ranges = [(20, 21), (5, 5)];
    let claims = (1..=3).map(|number| claim(network(number), &ranges)).collect();
    assert_eq!(rig.commit(claims).await.claimed, [5, 20, 21]);
}

async fn a_holder_keeps_the_number_it_has(rig: Rig) {
    assert_eq!(rig.commit(vec![claim(network(1), &[(5, 9)]), claim(network(1), &[(5, 9)])]).await.claimed, [5, 5]);
    assert_eq!(rig.commit(vec![claim(network(1), &[(100, 101)])]).await.claimed, [5]);
    let claims = rig.store().claims().await.expect("readable");
    assert_eq!(claims, [ClaimedNumber { pool: "vlan".to_owned(), number: 5, holder: network(1) }]);
}

async fn an_exhausted_pool_refuses(rig: Rig) {
    rig.commit(vec![claim(network(1), &[(u16::MAX, u16::MAX)])]).await;
    let refused = rig.refused(vec![claim(network(2), &[(u16::MAX, u16::MAX)])]).await;
    assert!(matches!(refused, Refusal::Exhausted(pool) if pool == "vlan"));
    assert!(matches!(rig.refused(vec![claim(network(2), &[])]).await, Refusal::Exhausted(_)));
}

async fn released_numbers_are_taken_again(rig: Rig) {
    rig.commit(vec![claim(network(1), &[(1, 9)]), claim(network(2), &[(1, 9)])]).await;
    let released = Write::ReleaseClaims { holder: network(1) };
    assert_eq!(rig.commit(vec![released.clone(), claim(network(3), &[(1, 9)])]).await.claimed, [1]);
    rig.commit(vec![released]).await;
    let holders = rig.store().claims().await.expect("readable").into_iter().map(|claim| claim.holder);
    assert_eq!(holders.collect::<Vec<_>>(), [network(3), network(2)]);
}

async fn pools_do_not_know_each_other(rig: Rig) {
    let elsewhere = Write::Claim { pool: "vlan2".to_owned(), ranges: vec![(1, 9)], holder: network(1) };
    assert_eq!(rig.commit(vec![claim(network(1), &[(1, 9)]), elsewhere]).await.claimed, [1, 1]);
    rig.commit(vec![Write::ReleaseClaims { holder: network(1) }]).await;
    assert!(rig.store().claims().await.expect("readable").is_empty());
}
