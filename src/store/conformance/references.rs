//! References: who blocks whose deletion.

use super::conform;
use super::rig::{Rig, identity, insert, insert_owned, mark_deleted, network, refer, refusal, remove};
use crate::model::edge::Holder;
use crate::store::{Batch, Precondition, Refusal, Write};

conform!(
    a_reference_is_seen_from_both_ends,
    a_reference_of_another_service_counts_like_ours,
    a_reference_taken_or_released_twice_is_one,
    a_target_that_is_missing_or_being_deleted_takes_no_new_reference,
    deletion_keeps_references_readable,
    releasing_touches_only_the_holders_own,
    the_live_precondition_wants_a_resource_that_is_not_being_deleted,
    the_unreferenced_precondition_looks_at_references_and_not_at_owned_children,
    the_unchanged_precondition_wants_the_revision_that_was_read,
);

fn external() -> Holder {
    "computeinstances.compute.example.org/00000000-0000-0000-0000-000000000009".parse().expect("well formed")
}

async fn a_reference_is_seen_from_both_ends(rig: Rig) {
    rig.commit(vec![insert(network(1)), insert(network(2)), insert(identity(1))]).await;
    rig.commit(vec![refer(network(2), identity(1)), refer(network(1), identity(1)), refer(network(1), network(2))])
        .await;
    let holders = rig.store().references(network(1)).await.expect("readable");
    assert_eq!(holders, [Holder::Resource(identity(1)), Holder::Resource(network(2))]);
    let targets = rig.store().referred_by(&Holder::Resource(identity(1))).await.expect("readable");
    assert_eq!(targets, [network(1), network(2)]);
}

async fn a_reference_of_another_service_counts_like_ours(rig: Rig) {
    rig.commit(vec![insert(network(1)), Write::AddReference { target: network(1), holder: external() }]).await;
    assert_eq!(rig.store().references(network(1)).await.expect("readable"), [external()]);
    assert_eq!(rig.store().referred_by(&external()).await.expect("readable"), [network(1)]);
    assert!(matches!(rig.refused(vec![remove(network(1))]).await, Refusal::InUse { .. }));
    rig.commit(vec![Write::RemoveReference { target: network(1), holder: external() }, remove(network(1))]).await;
    assert!(rig.get(network(1)).await.is_none());
}

async fn a_reference_taken_or_released_twice_is_one(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    let first = rig.commit(vec![refer(network(1), network(2))]).await;
    let again = rig.commit(vec![refer(network(1), network(2))]).await;
    assert_eq!(again.position, first.position);
    let released = rig.commit(vec![Write::ReleaseReferences { holder: network(2) }]).await;
    assert!(released.position > first.position);
    let removal = Write::RemoveReference { target: network(1), holder: Holder::Resource(network(2)) };
    let again = rig.commit(vec![removal, Write::ReleaseReferences { holder: network(2) }]).await;
    assert_eq!(again.position, released.position);
}

async fn a_target_that_is_missing_or_being_deleted_takes_no_new_reference(rig: Rig) {
    rig.commit(vec![insert(network(1)), refer(network(1), network(2)), mark_deleted(network(1))]).await;
    let missing = rig.refused(vec![refer(network(9), network(2))]).await;
    assert!(matches!(missing, Refusal::Missing(key) if key == network(9)));
    let deleting = rig.refused(vec![refer(network(1), network(3))]).await;
    assert!(matches!(deleting, Refusal::Deleting(key) if key == network(1)));
    rig.commit(vec![refer(network(1), network(2))]).await;
}

async fn deletion_keeps_references_readable(rig: Rig) {
    rig.commit(vec![insert(network(1)), refer(network(1), network(2))]).await;
    rig.commit(vec![mark_deleted(network(1))]).await;
    assert_eq!(rig.store().references(network(1)).await.expect("readable"), [Holder::Resource(network(2))]);
}

async fn releasing_touches_only_the_holders_own(rig: Rig) {
    rig.commit(vec![insert(network(1)), insert(network(2))]).await;
    rig.commit(vec![refer(network(1), network(8)), refer(network(2), network(8)), refer(network(1), network(9))]).await;
    rig.commit(vec![Write::ReleaseReferences { holder: network(8) }]).await;
    assert_eq!(rig.store().references(network(1)).await.expect("readable"), [Holder::Resource(network(9))]);
    assert!(rig.store().references(network(2)).await.expect("readable").is_empty());
}

async fn the_live_precondition_wants_a_resource_that_is_not_being_deleted(rig: Rig) {
    let provided = |number| Batch::of(vec![insert(network(number))]).provided(Precondition::Live(identity(1)));
    let answer = rig.store().commit(provided(1)).await;
    assert!(matches!(refusal(answer), Refusal::Missing(key) if key == identity(1)));
    rig.commit(vec![insert(identity(1))]).await;
    rig.store().commit(provided(2)).await.expect("accepted");
    rig.commit(vec![mark_deleted(identity(1))]).await;
    let answer = rig.store().commit(provided(3)).await;
    assert!(matches!(refusal(answer), Refusal::Deleting(key) if key == identity(1)));
    assert!(rig.get(network(1)).await.is_none() && rig.get(network(3)).await.is_none());
}

async fn the_unreferenced_precondition_looks_at_references_and_not_at_owned_children(rig: Rig) {
    rig.commit(vec![insert(identity(1)), insert_owned(network(1), identity(1)), refer(identity(1), network(1))]).await;
    let mark = || Batch::of(vec![mark_deleted(identity(1))]).provided(Precondition::Unreferenced(identity(1)));
    let answer = rig.store().commit(mark()).await;
    let holder = [Holder::Resource(network(1))];
    assert!(
        matches!(refusal(answer), Refusal::InUse { holders, .. } if holders == holder),
        "a child that refers blocks"
    );
    assert!(!rig.get(identity(1)).await.expect("there").metadata.is_deleting());
    rig.commit(vec![Write::ReleaseReferences { holder: network(1) }]).await;
    rig.store().commit(mark()).await.expect("only a child that does not refer is left");
    assert!(rig.get(identity(1)).await.expect("there").metadata.is_deleting());
}

async fn the_unchanged_precondition_wants_the_revision_that_was_read(rig: Rig) {
    rig.commit(vec![insert(identity(1)), insert(network(1)), refer(identity(1), network(1))]).await;
    let read = rig.get(network(1)).await.expect("there").revision;
    let unrefer = Write::RemoveReference { target: identity(1), holder: Holder::Resource(network(1)) };
    let batch =
        || Batch::of(vec![unrefer.clone()]).provided(Precondition::Unchanged { key: network(1), revision: read });
    rig.commit(vec![mark_deleted(network(1))]).await;
    let answer = rig.store().commit(batch()).await;
    assert!(matches!(refusal(answer), Refusal::Conflict(key) if key == network(1)));
    assert_eq!(rig.store().references(identity(1)).await.expect("readable").len(), 1, "nothing was done");
    let read = rig.get(network(1)).await.expect("there").revision;
    let batch = Batch::of(vec![unrefer]).provided(Precondition::Unchanged { key: network(1), revision: read });
    rig.store().commit(batch).await.expect("nobody wrote in between");
    assert!(rig.store().references(identity(1)).await.expect("readable").is_empty());
}
