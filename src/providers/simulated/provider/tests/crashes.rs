//! The process dies before and after every call and every note, one point after the other.

use super::*;

/// Does the work in processes that die at ever later points, until one gets through. Each begins in a fresh world.
async fn die_everywhere<P, W>(prepare: P, work: W, then: impl AsyncFn(&Rig, u64))
where
    P: AsyncFn() -> Rig,
    W: AsyncFn(&Rig) -> bool,
{
    for point in 1.. {
        let mut rig = prepare().await;
        rig.dies_at(point);
        let got_through = work(&rig).await;
        if got_through {
            assert_eq!(points(&rig), point - 1, "every point but the last was died at");
            assert!(point > 10, "there are points to die at");
            return;
        }
        rig.cut = Cut::never();
        then(&rig, point).await;
    }
}

async fn fresh() -> Rig {
    Rig::new()
}

async fn try_to_make(rig: &Rig) -> bool {
    match rig.converge_identity().await {
        None => false,
        Some(result) => {
            result.expect("converged");
            rig.converge_network().await.is_some_and(|result| result.is_ok())
        }
    }
}

async fn try_to_unmake(rig: &Rig) -> bool {
    match rig.delete_network().await {
        None => false,
        Some(result) => {
            assert_eq!(result, Ok(Deletion::Absent));
            rig.delete_identity().await.is_some_and(|result| result == Ok(Deletion::Absent))
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_creation_cut_short_anywhere_is_completed_without_doubles_and_deleted_without_remains() {
    die_everywhere(fresh, try_to_make, async |rig, point| {
        rig.make().await;
        rig.assert_exactly_what_was_asked_for(&format!("died at point {point}")).await;
        let mutations = rig.mutations().await;
        rig.make().await;
        assert_eq!(rig.mutations().await, mutations, "died at point {point}");
        assert!(try_to_unmake(rig).await);
        assert!(rig.inventory().await.is_empty(), "died at point {point}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_creation_cut_short_anywhere_can_be_deleted_at_once() {
    die_everywhere(fresh, try_to_make, async |rig, point| {
        assert!(try_to_unmake(rig).await);
        assert!(rig.inventory().await.is_empty(), "died at point {point}");
        rig.assert_no_doubles(&format!("died at point {point}")).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_cut_short_anywhere_is_completed() {
    die_everywhere(Rig::made, try_to_unmake, async |rig, point| {
        assert!(try_to_unmake(rig).await);
        assert!(rig.inventory().await.is_empty(), "died at point {point}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dying_again_and_again_still_makes_one_of_each() {
    for first in 1..40 {
        for second in [1, 2, 3, 5, 8, 13, 21] {
            let mut rig = Rig::new();
            rig.dies_at(first);
            try_to_make(&rig).await;
            rig.dies_at(second);
            try_to_make(&rig).await;
            rig.cut = Cut::never();
            rig.make().await;
            rig.assert_exactly_what_was_asked_for(&format!("died at points {first} and {second}")).await;
        }
    }
}
