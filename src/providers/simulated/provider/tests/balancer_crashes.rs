//! The process dies before and after every call and every note about a load balancer.

use super::balancers::{Balancers, listener};
use super::machine_crashes::die_everywhere;

#[tokio::test(start_paused = true)]
async fn a_balancer_cut_short_anywhere_is_completed_without_doubles_and_deleted_without_remains() {
    die_everywhere(Balancers::new, Balancers::try_to_make, async |balancers, said| {
        balancers.make().await;
        balancers.assert_exactly_what_was_asked_for(said).await;
        let mutations = balancers.rig.mutations().await;
        balancers.make().await;
        assert_eq!(balancers.rig.mutations().await, mutations, "{said}");
        balancers.try_to_unmake().await.expect("alive");
        balancers.assert_nothing_left(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_balancer_cut_short_anywhere_can_be_deleted_at_once() {
    die_everywhere(Balancers::new, Balancers::try_to_make, async |balancers, said| {
        balancers.try_to_unmake().await.expect("alive");
        balancers.assert_nothing_left(said).await;
        balancers.rig.assert_no_doubles(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_balancer_cut_short_anywhere_is_completed() {
    let changed = async || {
        let mut balancers = Balancers::made().await;
        balancers.spec.public_ip = Some(false);
        balancers.spec.listeners = vec![listener("tls", 443), listener("plain", 80)];
        balancers.spec.listeners[0].pool.members.clear();
        balancers
    };
    die_everywhere(changed, Balancers::try_to_make, async |balancers, said| {
        balancers.make().await;
        balancers.assert_exactly_what_was_asked_for(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_balancer_cut_short_anywhere_is_completed() {
    die_everywhere(Balancers::made, Balancers::try_to_unmake, async |balancers, said| {
        balancers.try_to_unmake().await.expect("alive");
        balancers.assert_nothing_left(said).await;
    })
    .await;
}
