//! Random batches: all stores must answer alike and hold the same.

use proptest::prelude::*;

use super::rig::{Rig, charge_of, claim, identity, insert, insert_owned, intent, limit, mark_deleted, network};
use super::rig::{refer, release, remove, status};
use crate::model::ids::Key;
use crate::model::quota::Amount;
use crate::store::{Batch, Precondition, StoreError, Write};

fn key() -> impl Strategy<Value = Key> {
    // Few keys, so that batches meet.
    prop_oneof![(1_u128..5).prop_map(network), (1_u128..3).prop_map(identity)]
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => key().prop_map(insert),
        2 => (key(), key()).prop_map(|(key, owner)| insert_owned(key, owner)),
        2 => (key(), 1_u64..4).prop_map(|(key, expected)| intent(key, expected, r#"{"wanted":3}"#)),
        1 => key().prop_map(mark_deleted),
        2 => (key(), "[a-c]").prop_map(|(key, message)| status(key, &message)),
        3 => key().prop_map(remove),
        3 => (key(), key()).prop_map(|(target, holder)| refer(target, holder)),
        2 => key().prop_map(|holder| Write::ReleaseReferences { holder }),
        3 => (key(), 0_u64..4, 0_u64..2)
            .prop_map(|(holder, committed, reserved)| charge_of(holder, Amount { committed, reserved })),
        1 => key().prop_map(release),
        1 => (0_u64..9).prop_map(limit),
        2 => key().prop_map(|holder| claim(holder, &[(7, 8), (2, 3)])),
        1 => key().prop_map(|holder| Write::ReleaseClaims { holder }),
    ]
}

fn batch() -> impl Strategy<Value = Batch> {
    let precondition = prop_oneof![key().prop_map(Precondition::Live), key().prop_map(Precondition::Unreferenced)];
    (prop::collection::vec(precondition, 0..2), prop::collection::vec(write(), 1..6))
        .prop_map(|(preconditions, writes)| Batch { preconditions, writes })
}

/// What a caller learns, in words; positions apart, which a saga may move when it undoes.
async fn answer(rig: &Rig, batch: Batch) -> String {
    match rig.store().commit(batch).await {
        Ok(committed) => format!("{:?} {:?}", committed.claimed, committed.records),
        Err(StoreError::Refused(refusal)) => format!("{refusal:?}"),
        Err(other) => panic!("{other}"),
    }
}

async fn compare(batches: Vec<Batch>) -> Result<(), TestCaseError> {
    let (atomic, saga, embedded) = (Rig::memory_atomic(), Rig::memory_saga(), Rig::embedded());
    for batch in batches {
        let expected = answer(&atomic, batch.clone()).await;
        prop_assert_eq!(&answer(&saga, batch.clone()).await, &expected);
        prop_assert_eq!(&answer(&embedded, batch).await, &expected);
        let snapshot = atomic.snapshot().await;
        prop_assert_eq!(&saga.snapshot().await, &snapshot);
        prop_assert_eq!(&embedded.snapshot().await, &snapshot);
    }
    prop_assert_eq!(atomic.position(), embedded.position());
    let embedded = embedded.restarted();
    prop_assert_eq!(&embedded.snapshot().await, &atomic.snapshot().await);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn all_stores_agree_on_random_batches(batches in prop::collection::vec(batch(), 1..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(compare(batches))?;
    }
}
