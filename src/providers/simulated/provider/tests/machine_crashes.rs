//! The process dies before and after every call and every note about a group and a server.

use super::super::super::catalogue::IMAGE_GPU;
use super::machines::Machines;
use super::*;

/// Does the work in processes that die at ever later points, until one gets through. Each begins in a fresh world.
pub async fn die_everywhere<S, P, W>(prepare: P, work: W, then: impl AsyncFn(&S, &str))
where
    S: AsMut<Rig>,
    P: AsyncFn() -> S,
    W: AsyncFn(&S) -> Option<()>,
{
    for point in 1.. {
        let mut stage = prepare().await;
        stage.as_mut().dies_at(point);
        if work(&stage).await.is_some() {
            assert_eq!(points(stage.as_mut()), point - 1, "every point but the last was died at");
            assert!(point > 3, "there are points to die at");
            return;
        }
        stage.as_mut().cut = Cut::never();
        then(&stage, &format!("died at point {point}")).await;
    }
}

async fn make(machines: &Machines) -> Option<()> {
    machines.converge_group().await?.expect("converged");
    machines.converge_server().await?.expect("converged");
    Some(())
}

async fn unmake(machines: &Machines) -> Option<()> {
    while machines.delete_server().await?.expect("going") == Deletion::Underway {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    assert_eq!(machines.delete_group().await?, Ok(Deletion::Absent));
    Some(())
}

#[tokio::test(start_paused = true)]
async fn a_server_cut_short_anywhere_is_completed_without_doubles_and_deleted_without_remains() {
    die_everywhere(Machines::new, make, async |machines: &Machines, said: &str| {
        machines.make().await;
        machines.assert_exactly_what_was_asked_for(said).await;
        let mutations = machines.rig.mutations().await;
        machines.make().await;
        assert_eq!(machines.rig.mutations().await, mutations, "{said}");
        unmake(machines).await.expect("alive");
        machines.assert_nothing_left(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_cut_short_anywhere_can_be_deleted_at_once() {
    die_everywhere(Machines::new, make, async |machines: &Machines, said: &str| {
        unmake(machines).await.expect("alive");
        machines.assert_nothing_left(said).await;
        machines.rig.assert_no_doubles(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_server_cut_short_anywhere_is_completed() {
    die_everywhere(Machines::running, unmake, async |machines: &Machines, said: &str| {
        unmake(machines).await.expect("alive");
        machines.assert_nothing_left(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_rebuild_cut_short_anywhere_has_happened_once_or_not_at_all() {
    let order = async |machines: &Machines| machines.rebuild(IMAGE_GPU).await.map(|result| result.expect("ordered"));
    die_everywhere(Machines::running, order, async |machines: &Machines, said: &str| {
        let accepted = machines.task().await.is_some();
        assert_eq!(machines.server().await.server().expect("a server").image == IMAGE_GPU, accepted, "{said}");
        // What is under way refuses a second order.
        assert_eq!(machines.rebuild(IMAGE_GPU).await.expect("alive").is_err(), accepted, "{said}");
        machines.booted().await;
        machines.assert_exactly_what_was_asked_for(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dying_again_and_again_still_makes_one_server() {
    for first in 1..24 {
        for second in [1, 3, 8, 13, 21] {
            let mut machines = Machines::new().await;
            machines.rig.dies_at(first);
            make(&machines).await;
            machines.rig.dies_at(second);
            make(&machines).await;
            machines.rig.cut = Cut::never();
            machines.make().await;
            machines.assert_exactly_what_was_asked_for(&format!("died at points {first} and {second}")).await;
        }
    }
}
