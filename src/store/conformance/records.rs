//! Records: made, changed, marked, reported on and removed.

use super::conform;
use super::rig::{Rig, at, identity, incarnation, insert, insert_owned, intent, mark_deleted, network};
use super::rig::{record, refer, remove, status, told};
use crate::model::metadata::Tag;
use crate::model::record::{Document, Revision};
use crate::store::{Refusal, Write};

conform!(
    an_inserted_record_reads_back_as_it_was_written,
    an_intent_replaces_what_is_desired_and_keeps_what_was_observed,
    an_intent_keeps_the_deletion_that_was_asked_for_meanwhile,
    an_intent_for_an_old_revision_or_another_incarnation_is_a_conflict,
    marking_deleted_again_or_what_is_gone_changes_nothing,
    a_status_is_kept_apart_from_the_intent,
    a_status_for_another_incarnation_is_ignored,
    a_status_that_says_nothing_new_is_not_a_write,
    removing_what_is_gone_or_of_another_incarnation_is_fine,
    a_removal_waits_for_references_and_children,
    a_batch_sees_its_own_earlier_writes,
    a_removed_key_can_be_taken_again,
    everything_survives_a_restart,
);

async fn an_inserted_record_reads_back_as_it_was_written(rig: Rig) {
    let mut whole = record(network(1));
    whole.metadata.tags = Some(vec![Tag { name: "a".to_owned(), value: "\u{1F600}\"\\\0".to_owned() }]);
    whole.metadata.owner = Some(identity(2));
    whole.spec = Document::from_text(r#"{ "text" : "kept byte for byte" }"#);
    let committed = rig.commit(vec![Write::Insert(Box::new(whole.clone()))]).await;
    assert_eq!(*committed.records[0], whole);
    assert_eq!(*rig.get(network(1)).await.expect("there"), whole);
    assert!(rig.get(identity(1)).await.is_none(), "a key is a kind and an id");
}

async fn an_intent_replaces_what_is_desired_and_keeps_what_was_observed(rig: Rig) {
    rig.commit(vec![insert(network(1)), status(network(1), "made"), refer(network(1), network(9))]).await;
    let before = rig.get(network(1)).await.expect("there");
    let committed = rig.commit(vec![intent(network(1), 1, r#"{"wanted":2}"#)]).await;
    let after = rig.get(network(1)).await.expect("there");
    assert_eq!(after, committed.records[0]);
    assert_eq!((after.revision, after.status_revision), (Revision(2), Revision(1)));
    assert_eq!(after.spec.text(), r#"{"wanted":2}"#);
    assert_eq!(after.metadata.modifier.as_deref(), Some("somebody else"));
    assert_eq!((&after.conditions, &after.detail), (&before.conditions, &before.detail));
    assert_eq!(rig.store().references(network(1)).await.expect("readable").len(), 1);
}

async fn an_intent_keeps_the_deletion_that_was_asked_for_meanwhile(rig: Rig) {
    rig.commit(vec![insert(network(1)), mark_deleted(network(1))]).await;
    rig.commit(vec![intent(network(1), 2, "{}")]).await;
    assert_eq!(rig.get(network(1)).await.expect("there").metadata.deletion, Some(at(50)));
}

async fn an_intent_for_an_old_revision_or_another_incarnation_is_a_conflict(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    rig.commit(vec![intent(network(1), 1, "{}")]).await;
    let stale = rig.refused(vec![intent(network(1), 1, "{}")]).await;
    assert!(matches!(stale, Refusal::Conflict(key) if key == network(1)), "{stale}");
    let mut other = intent(network(1), 2, "{}");
    if let Write::Intent { metadata, .. } = &mut other {
        metadata.incarnation = incarnation(2);
    }
    assert!(matches!(rig.refused(vec![other]).await, Refusal::Conflict(_)));
    assert!(matches!(rig.refused(vec![intent(network(2), 1, "{}")]).await, Refusal::Missing(_)));
}

async fn marking_deleted_again_or_what_is_gone_changes_nothing(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    let first = rig.commit(vec![mark_deleted(network(1))]).await;
    assert_eq!(first.records[0].revision, Revision(2), "the ETag must show it");
    let again = rig.commit(vec![Write::MarkDeleted { key: network(1), at: at(99) }]).await;
    assert_eq!((again.position, again.records.len()), (first.position, 0));
    assert_eq!(rig.get(network(1)).await.expect("there").metadata.deletion, Some(at(50)));
    let gone = rig.commit(vec![mark_deleted(network(2))]).await;
    assert_eq!(gone.position, first.position);
}

async fn a_status_is_kept_apart_from_the_intent(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    let committed = rig.commit(vec![status(network(1), "made")]).await;
    let after = rig.get(network(1)).await.expect("there");
    assert_eq!(after, committed.records[0]);
    assert_eq!((after.revision, after.status_revision), (Revision(1), Revision(1)));
    assert!(after.conditions.is_available());
    assert_eq!(after.detail.text(), r#"{"seen":true}"#);
    assert_eq!(after.metadata, record(network(1)).metadata);
}

async fn a_status_for_another_incarnation_is_ignored(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    let before = rig.snapshot().await;
    let mut late = status(network(1), "of a predecessor");
    if let Write::Status { incarnation: of, .. } = &mut late {
        *of = incarnation(2);
    }
    let ignored = rig.commit(vec![late]).await;
    assert!(ignored.records.is_empty());
    rig.commit(vec![status(network(2), "of nothing")]).await;
    assert_eq!(rig.snapshot().await, before);
}

async fn a_status_that_says_nothing_new_is_not_a_write(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    let first = rig.commit(vec![status(network(1), "made")]).await;
    let mut same = status(network(1), "made");
    if let Write::Status { transitions, .. } = &mut same {
        transitions.clear();
    }
    let again = rig.commit(vec![same]).await;
    assert_eq!(again.position, first.position);
    assert_eq!(rig.get(network(1)).await.expect("there").status_revision, Revision(1));
}

async fn removing_what_is_gone_or_of_another_incarnation_is_fine(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    rig.commit(vec![Write::Remove { key: network(1), incarnation: incarnation(2) }]).await;
    assert!(rig.get(network(1)).await.is_some());
    let removed = rig.commit(vec![remove(network(1))]).await;
    assert!(rig.get(network(1)).await.is_none());
    let again = rig.commit(vec![remove(network(1))]).await;
    assert_eq!(again.position, removed.position, "nobody is told twice");
}

async fn a_removal_waits_for_references_and_children(rig: Rig) {
    rig.commit(vec![insert(identity(1)), insert_owned(network(1), identity(1))]).await;
    rig.commit(vec![refer(identity(1), network(9))]).await;
    let in_use = rig.refused(vec![remove(identity(1))]).await;
    assert!(matches!(&in_use, Refusal::InUse { target, holders } if *target == identity(1) && holders.len() == 1));
    rig.commit(vec![Write::ReleaseReferences { holder: network(9) }]).await;
    let owning = rig.refused(vec![remove(identity(1))]).await;
    assert!(matches!(owning, Refusal::HasChildren(key) if key == identity(1)));
    rig.commit(vec![remove(network(1)), remove(identity(1))]).await;
    assert!(rig.snapshot().await.records.is_empty());
}

async fn a_batch_sees_its_own_earlier_writes(rig: Rig) {
    rig.commit(vec![
        insert(identity(1)),
        insert_owned(network(1), identity(1)),
        refer(identity(1), network(1)),
        intent(identity(1), 1, r#"{"wanted":2}"#),
        status(network(1), "made"),
        mark_deleted(identity(1)),
    ])
    .await;
    let refused = rig.refused(vec![insert(network(2)), insert(network(2))]).await;
    assert!(matches!(refused, Refusal::Exists(key) if key == network(2)));
    let refused = rig.refused(vec![insert(network(3)), mark_deleted(network(3)), refer(network(3), network(1))]).await;
    assert!(matches!(refused, Refusal::Deleting(key) if key == network(3)));
    assert_eq!(rig.get(identity(1)).await.expect("there").revision, Revision(3));
    assert_eq!(rig.get(network(1)).await.expect("there").status_revision, Revision(1));
    assert!(rig.get(network(2)).await.is_none() && rig.get(network(3)).await.is_none());
    assert_eq!(rig.store().children(identity(1)).await.expect("readable"), [network(1)]);
    // Children and references that the batch itself takes away no longer stand in its way.
    rig.commit(vec![Write::ReleaseReferences { holder: network(1) }, remove(network(1)), remove(identity(1))]).await;
    assert!(rig.snapshot().await.records.is_empty());
}

async fn a_removed_key_can_be_taken_again(rig: Rig) {
    rig.commit(vec![insert(network(1)), status(network(1), "made")]).await;
    rig.commit(vec![remove(network(1))]).await;
    let mut successor = record(network(1));
    successor.metadata.incarnation = incarnation(2);
    rig.commit(vec![Write::Insert(Box::new(successor.clone()))]).await;
    rig.commit(vec![remove(network(1)), status(network(1), "late news of the predecessor")]).await;
    assert_eq!(*rig.get(network(1)).await.expect("the successor stays"), successor);
}

async fn everything_survives_a_restart(rig: Rig) {
    use super::rig::{charge, claim, limit};
    rig.commit(vec![insert(identity(1)), insert_owned(network(1), identity(1)), status(network(1), "made")]).await;
    rig.commit(vec![refer(identity(1), network(1)), limit(9), charge(network(1), 2), claim(network(1), &[(5, 9)])])
        .await;
    let (before, position) = (rig.snapshot().await, rig.position());
    let rig = rig.restarted();
    assert_eq!(rig.snapshot().await, before);
    assert_eq!(rig.position(), position);
    let next = rig.commit(vec![insert(network(2))]).await;
    assert!(next.position > position);
    assert_eq!(told(&rig.after(position).await), [(network(2), "put")]);
}
