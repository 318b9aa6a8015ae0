//! The change log and the histories.

use std::time::Duration;

use super::conform;
use super::rig::{Rig, charge, insert, intent, mark_deleted, network, refer, remove, status, told};
use crate::model::condition::Transition;
use crate::store::{ChangeEvent, Changes, HISTORY_MAX, Position, RETENTION, Write};

conform!(
    every_change_is_told_once_in_order_and_without_gaps,
    a_limit_cuts_the_answer_and_the_next_goes_on_from_there,
    what_changes_no_resource_is_not_told,
    the_latest_position_moves_with_each_visible_commit,
    a_position_from_the_future_asks_for_a_resync,
    a_position_older_than_the_log_asks_for_a_resync,
    positions_survive_a_restart_after_everything_was_forgotten,
    a_history_holds_the_last_transitions_only,
    a_history_outlives_its_resource_for_a_day,
);

async fn every_change_is_told_once_in_order_and_without_gaps(rig: Rig) {
    let start = rig.position();
    rig.commit(vec![insert(network(1)), insert(network(2)), refer(network(1), network(2))]).await;
    rig.commit(vec![intent(network(1), 1, "{}")]).await;
    rig.commit(vec![status(network(2), "made"), mark_deleted(network(2))]).await;
    let last = rig.commit(vec![Write::ReleaseReferences { holder: network(2) }, remove(network(2))]).await;
    let changes = rig.after(start).await;
    let (one, two) = (network(1), network(2));
    let expected = [
        (one, "put"),
        (two, "put"),
        (one, "referenced"),
        (one, "put"),
        (two, "put"),
        (two, "put"),
        (one, "referenced"),
        (two, "removed"),
    ];
    assert_eq!(told(&changes), expected);
    let positions = changes.iter().map(|change| change.position.0 - start.0).collect::<Vec<_>>();
    assert_eq!(positions, (1..=8).collect::<Vec<_>>());
    assert_eq!(changes[7].position, last.position);
    let ChangeEvent::Put(record) = &changes[3].event else { panic!("a put") };
    assert_eq!(record.spec.text(), "{}");
    assert!(rig.after(last.position).await.is_empty());
}

async fn a_limit_cuts_the_answer_and_the_next_goes_on_from_there(rig: Rig) {
    rig.commit((1..=5).map(|number| insert(network(number))).collect()).await;
    let mut position = Position(0);
    let mut keys = Vec::new();
    loop {
        let Changes::Next(changes) = rig.store().changes(position, 2).await.expect("readable") else { panic!("next") };
        assert!(changes.len() <= 2);
        let Some(last) = changes.last() else { break };
        position = last.position;
        keys.extend(changes.iter().map(|change| change.key));
    }
    assert_eq!(keys, (1..=5).map(network).collect::<Vec<_>>());
}

async fn what_changes_no_resource_is_not_told(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    let position = rig.position();
    let charged = rig.commit(vec![charge(network(1), 1)]).await;
    assert_eq!(charged.position, position);
    assert!(rig.after(position).await.is_empty());
}

async fn the_latest_position_moves_with_each_visible_commit(rig: Rig) {
    let mut latest = rig.store().latest();
    latest.mark_unchanged();
    let committed = rig.commit(vec![insert(network(1)), insert(network(2))]).await;
    latest.changed().await.expect("the store lives");
    assert_eq!(*latest.borrow_and_update(), committed.position);
    assert_eq!(told(&rig.after(Position(0)).await).len(), 2);
}

async fn a_position_from_the_future_asks_for_a_resync(rig: Rig) {
    let latest = rig.commit(vec![insert(network(1))]).await.position;
    let answer = rig.store().changes(Position(latest.0 + 1), 10).await.expect("readable");
    assert!(matches!(answer, Changes::Resync(position) if position == latest));
}

/// Lets everything so far grow older than the log reaches, and writes often enough for it to be forgotten.
async fn forget(rig: &Rig) {
    rig.clock.advance(RETENTION + Duration::from_secs(1));
    rig.commit(vec![insert(network(1000))]).await;
    rig.commit(vec![remove(network(1000))]).await;
}

async fn a_position_older_than_the_log_asks_for_a_resync(rig: Rig) {
    let old = rig.commit(vec![insert(network(1))]).await.position;
    rig.commit(vec![insert(network(2))]).await;
    forget(&rig).await;
    let rig = rig.restarted();
    let latest = rig.position();
    let answer = rig.store().changes(old, 10).await.expect("readable");
    assert!(matches!(answer, Changes::Resync(position) if position == latest), "{answer:?}");
    assert!(rig.get(network(1)).await.is_some(), "only the log forgets");
    assert_eq!(told(&rig.after(Position(latest.0 - 1)).await), [(network(1000), "removed")]);
}

async fn positions_survive_a_restart_after_everything_was_forgotten(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    forget(&rig).await;
    forget(&rig).await;
    let position = rig.position();
    let rig = rig.restarted();
    assert_eq!(rig.position(), position);
    assert_eq!(rig.commit(vec![insert(network(3))]).await.position, Position(position.0 + 1));
}

async fn a_history_holds_the_last_transitions_only(rig: Rig) {
    rig.commit(vec![insert(network(1)), insert(network(2)), status(network(2), "other")]).await;
    for number in 0..HISTORY_MAX + 3 {
        rig.commit(vec![status(network(1), &number.to_string())]).await;
    }
    let messages = |history: Vec<Transition>| history.into_iter().map(|entry| entry.message).collect::<Vec<_>>();
    let kept = messages(rig.store().history(network(1)).await.expect("readable"));
    assert_eq!(kept, (3..HISTORY_MAX + 3).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(messages(rig.store().history(network(2)).await.expect("readable")), ["other"]);
}

async fn a_history_outlives_its_resource_for_a_day(rig: Rig) {
    rig.commit(vec![insert(network(1)), status(network(1), "made")]).await;
    rig.commit(vec![insert(network(2)), status(network(2), "made")]).await;
    rig.commit(vec![remove(network(1))]).await;
    rig.clock.advance(RETENTION);
    rig.commit(vec![insert(network(3))]).await;
    assert_eq!(rig.store().history(network(1)).await.expect("readable").len(), 1);
    forget(&rig).await;
    assert!(rig.store().history(network(1)).await.expect("readable").is_empty());
    assert_eq!(rig.store().history(network(2)).await.expect("readable").len(), 1, "it still lives");
}
