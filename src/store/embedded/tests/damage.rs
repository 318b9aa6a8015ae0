//! Records that cannot be read: set aside, reported, and nobody else's problem.

use super::open;
use crate::model::ids::Kind;
use crate::store::conformance::rig::{Folder, insert, insert_owned, intent, network, status};
use crate::store::{Batch, ChangeEvent, Changes, Filter, Page, Position, Store, StoreError};

/// Damages four of six records, each in another part.
async fn damaged(folder: &Folder) -> crate::store::embedded::EmbeddedStore {
    let store = open(folder.path());
    let writes = (1..=6).map(|number| insert(network(number))).collect();
    store.commit(Batch::of(writes)).await.expect("accepted");
    store
        .meddle(|connection| {
            let damages = [
                (2_u128, "metadata = '{\"name\": 7}'"),
                (3, "conditions = '[1'"),
                (4, "spec = 'nonsense'"),
                (5, "detail = CAST(x'22ff22' AS TEXT)"),
            ];
            for (number, damage) in damages {
                let sql = format!("UPDATE record SET {damage} WHERE id = ?1");
                let changed = connection.execute(&sql, [network(number).id.as_bytes()]).expect("damaged");
                assert_eq!(changed, 1);
            }
        })
        .await;
    store
}

#[tokio::test]
async fn unreadable_records_are_left_out_of_lists_and_reported() {
    let folder = Folder::new();
    let store = damaged(&folder).await;
    for page in [Page::FIRST, Page { after: None, limit: 2 }] {
        let listed = store.list(&Filter::of(Kind::Network), page).await.expect("readable");
        let keys = listed.iter().map(|record| record.key).collect::<Vec<_>>();
        assert_eq!(keys, [network(1), network(6)], "a page is filled over the gap");
    }
    let quarantined = store.quarantined().await.expect("readable");
    let parts = quarantined.iter().map(|corrupt| (corrupt.key, corrupt.part)).collect::<Vec<_>>();
    let expected = [
        (network(2), "metadata"),
        (network(3), "conditions"),
        (network(4), "specification"),
        (network(5), "status detail"),
    ];
    assert_eq!(parts, expected);
}

#[tokio::test]
async fn an_unreadable_record_answers_that_it_is_corrupt_and_its_neighbours_go_on() {
    let folder = Folder::new();
    drop(damaged(&folder).await);
    // Opened anew: what was committed lately is at hand, and is not read from the disk.
    let store = open(folder.path());
    for number in 2..=5 {
        let answer = store.get(network(number)).await;
        assert!(matches!(answer, Err(StoreError::Corrupt(corrupt)) if corrupt.key == network(number)));
    }
    let answer = store.commit(Batch::of(vec![insert(network(9)), intent(network(2), 1, "{}")])).await;
    assert!(matches!(answer, Err(StoreError::Corrupt(_))), "it is not overwritten blindly");
    assert!(store.get(network(9)).await.expect("readable").is_none());
    let child = insert_owned(network(7), network(4));
    store.commit(Batch::of(vec![status(network(1), "made"), child])).await.expect("accepted");
    assert_eq!(store.children(network(4)).await.expect("readable"), [network(7)]);
}

#[tokio::test]
async fn a_reader_of_the_log_is_told_of_an_unreadable_record_without_it() {
    let folder = Folder::new();
    drop(damaged(&folder).await);
    let store = open(folder.path());
    let Changes::Next(changes) = store.changes(Position(0), 100).await.expect("readable") else { panic!("next") };
    let with_record = changes.iter().map(|change| matches!(change.event, ChangeEvent::Put(_))).collect::<Vec<_>>();
    assert_eq!(with_record, [true, false, false, false, false, true]);
}
