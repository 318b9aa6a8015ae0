//! Answers that are kept, batches that are only judged, and what a deletion must spare.

use std::time::Duration;

use super::conform;
use super::rig::{
    Rig, at, charge, incarnation, insert, insert_owned, limit, mark_deleted, network, organization, record, remove,
};
use crate::model::ids::{Key, Kind, OrganizationId};
use crate::model::record::{Document, Revision};
use crate::store::remembered::{Content, REMEMBERED_FOR, REMEMBERED_MAX, Remembered, RequestKey};
use crate::store::{Batch, ChangeEvent, Former, Precondition, Refusal, Write};

conform!(
    an_answer_is_kept_with_what_it_speaks_of_or_not_at_all,
    an_answer_is_kept_once_and_for_a_day_and_over_a_restart,
    so_many_answers_are_kept_of_one_organization,
    judging_answers_as_committing_would_and_writes_nothing,
    what_is_protected_keeps_itself_and_its_owner,
    a_precondition_can_name_the_incarnation,
    what_is_removed_says_where_it_was,
);

/// The rig's clock begins here.
fn now() -> jiff::Timestamp {
    at(1_000_000)
}

fn answer(number: u64, of: OrganizationId, kept: jiff::Timestamp) -> Remembered {
    let mut request = [0; 32];
    request[..8].copy_from_slice(&number.to_be_bytes());
    let answer = Document::from_text(r#"{"status":201}"#);
    Remembered { request: RequestKey(request), organization: of, at: kept, content: Content([7; 32]), answer }
}

fn remember(number: u64) -> Write {
    Write::Remember(Box::new(answer(number, organization(1), now())))
}

async fn kept(rig: &Rig, number: u64) -> Option<Remembered> {
    rig.store().remembered(answer(number, organization(1), now()).request).await.expect("readable")
}

async fn an_answer_is_kept_with_what_it_speaks_of_or_not_at_all(rig: Rig) {
    rig.commit(vec![insert(network(1)), remember(1)]).await;
    assert_eq!(kept(&rig, 1).await, Some(answer(1, organization(1), now())));
    assert_eq!(kept(&rig, 2).await, None);
    let refusal = rig.refused(vec![insert(network(2)), remember(2), insert(network(1))]).await;
    assert!(matches!(refusal, Refusal::Exists(key) if key == network(1)), "{refusal:?}");
    assert_eq!(kept(&rig, 2).await, None, "what did not happen is not remembered");
    let refusal = rig.refused(vec![insert(network(3)), remember(1)]).await;
    assert!(matches!(refusal, Refusal::Remembered), "{refusal:?}");
    assert!(rig.get(network(3)).await.is_none(), "what was answered before is not done again");
}

async fn an_answer_is_kept_once_and_for_a_day_and_over_a_restart(rig: Rig) {
    rig.commit(vec![insert(network(1)), remember(1)]).await;
    let rig = rig.restarted();
    assert!(kept(&rig, 1).await.is_some());
    let second = Duration::from_secs(1);
    rig.clock.advance(REMEMBERED_FOR.saturating_sub(second));
    assert!(kept(&rig, 1).await.is_some());
    rig.clock.advance(second);
    assert_eq!(kept(&rig, 1).await, None);
    let later = answer(1, organization(1), now() + REMEMBERED_FOR);
    rig.commit(vec![insert(network(2)), Write::Remember(Box::new(later.clone()))]).await;
    assert_eq!(kept(&rig, 1).await, Some(later), "an old answer makes room for a new one");
}

async fn so_many_answers_are_kept_of_one_organization(rig: Rig) {
    let many = (1..=REMEMBERED_MAX as u64).map(remember).collect::<Vec<_>>();
    for some in many.chunks(1000) {
        rig.commit(some.to_vec()).await;
    }
    let one_more = REMEMBERED_MAX as u64 + 1;
    let refusal = rig.refused(vec![insert(network(1)), remember(one_more)]).await;
    assert!(matches!(refusal, Refusal::TooManyRemembered), "{refusal:?}");
    assert!(rig.get(network(1)).await.is_none());
    let others = Write::Remember(Box::new(answer(one_more, organization(2), now())));
    rig.commit(vec![insert(network(1)), others]).await;
    rig.clock.advance(REMEMBERED_FOR);
    let tomorrow = Write::Remember(Box::new(answer(one_more + 1, organization(1), now() + REMEMBERED_FOR)));
    rig.commit(vec![insert(network(2)), tomorrow]).await;
}

async fn judging_answers_as_committing_would_and_writes_nothing(rig: Rig) {
    rig.commit(vec![insert(network(1)), limit(1)]).await;
    let (before, position) = (rig.snapshot().await, rig.position());
    let batch = Batch::of(vec![insert(network(2)), charge(network(2), 1), remember(1)]);
    let judged = rig.store().judge(&batch).await.expect("would be accepted");
    assert_eq!(judged.records.iter().map(|record| record.key).collect::<Vec<_>>(), [network(2)]);
    for refused in [
        Batch::of(vec![insert(network(1))]),
        Batch::of(vec![insert(network(2)), charge(network(2), 2)]),
        Batch::of(vec![insert(network(2))]).provided(Precondition::Live(network(9))),
    ] {
        let judged = rig.store().judge(&refused).await.expect_err("would be refused");
        let committed = rig.store().commit(refused).await.expect_err("is refused");
        assert_eq!(judged.to_string(), committed.to_string());
    }
    assert_eq!(rig.snapshot().await, before);
    assert_eq!(kept(&rig, 1).await, None);
    let told = rig.after(position).await;
    assert!(told.iter().all(|change| !matches!(change.event, ChangeEvent::Put(_))), "{told:?}");
    let committed = rig.store().commit(batch).await.expect("accepted");
    assert_eq!(committed.records, judged.records);
}

async fn what_is_protected_keeps_itself_and_its_owner(rig: Rig) {
    let group = Key::new(Kind::SecurityGroup, network(5).id);
    let Write::Insert(mut protected) = insert_owned(group, network(1)) else { panic!("an insert") };
    protected.metadata.deletion_protection = Some(true);
    rig.commit(vec![insert(network(1)), insert(network(2)), Write::Insert(protected)]).await;
    let delete = |key| Batch::of(vec![mark_deleted(key)]).provided(Precondition::Unprotected(key));
    for (key, by) in [(group, group), (network(1), group)] {
        let refusal = super::rig::refusal(rig.store().commit(delete(key)).await);
        assert!(matches!(refusal, Refusal::Protected(named) if named == by), "{refusal:?}");
        assert!(!rig.get(key).await.expect("there").metadata.is_deleting());
    }
    rig.store().commit(delete(network(2))).await.expect("nothing protects it");
    rig.store().commit(delete(network(9))).await.expect("gone is fine");
    // A cascade does not ask.
    rig.commit(vec![mark_deleted(group)]).await;
    assert!(rig.get(group).await.expect("there").metadata.is_deleting());
}

async fn a_precondition_can_name_the_incarnation(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    let delete = |number| {
        let is = Precondition::Incarnation { key: network(1), incarnation: incarnation(number) };
        Batch::of(vec![mark_deleted(network(1))]).provided(is)
    };
    let refusal = super::rig::refusal(rig.store().commit(delete(2)).await);
    assert!(matches!(refusal, Refusal::Conflict(key) if key == network(1)), "{refusal:?}");
    rig.store().commit(delete(1)).await.expect("it is the one");
    assert_eq!(rig.get(network(1)).await.expect("there").revision, Revision(2));
    rig.commit(vec![remove(network(1))]).await;
    assert!(matches!(super::rig::refusal(rig.store().commit(delete(1)).await), Refusal::Conflict(_)));
}

async fn what_is_removed_says_where_it_was(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    let position = rig.position();
    rig.commit(vec![remove(network(1))]).await;
    let expected = Former::of(&record(network(1)).metadata);
    assert!(expected.placement.organization.is_some());
    let said = async |rig: &Rig| match rig.after(position).await.last().expect("a change").event {
        ChangeEvent::Removed(former) => former,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(said(&rig).await, expected);
    assert_eq!(said(&rig.restarted()).await, expected, "also from the disk");
}
