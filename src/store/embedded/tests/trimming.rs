//! The log on disk: read after a restart, and kept within its bounds by bounded work.

use std::time::Duration;

use super::open;
use crate::store::conformance::rig::{Folder, ManualClock, insert, network, remove};
use crate::store::embedded::EmbeddedStore;
use crate::store::{Batch, CHANGE_LOG_MAX, ChangeEvent, Changes, Position, RETENTION, Store};

async fn length(store: &EmbeddedStore) -> u64 {
    let count = |connection: &rusqlite::Connection| {
        let count = connection.query_row("SELECT count(*) FROM change", [], |row| row.get::<_, i64>(0));
        Ok(count.expect("readable").cast_unsigned())
    };
    store.readers.read(count).await.expect("readable")
}

#[tokio::test]
async fn after_a_restart_the_log_is_read_from_disk_with_the_records_as_they_are_now() {
    let folder = Folder::new();
    let store = open(folder.path());
    store.commit(Batch::of(vec![insert(network(1)), insert(network(2))])).await.expect("accepted");
    store.commit(Batch::of(vec![remove(network(2))])).await.expect("accepted");
    drop(store);
    let store = open(folder.path());
    let Changes::Next(changes) = store.changes(Position(0), 100).await.expect("readable") else { panic!("next") };
    assert_eq!(changes.iter().map(|change| change.position.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(matches!(&changes[0].event, ChangeEvent::Put(record) if record.key == network(1)));
    assert!(matches!(changes[1].event, ChangeEvent::Removed(_)), "what is gone cannot be shown");
    assert!(matches!(changes[2].event, ChangeEvent::Removed(_)));
    store.commit(Batch::of(vec![insert(network(3))])).await.expect("accepted");
    let Changes::Next(changes) = store.changes(Position(2), 100).await.expect("readable") else { panic!("next") };
    assert_eq!(changes.iter().map(|change| change.position.0).collect::<Vec<_>>(), [3, 4], "from disk across the ring");
}

#[tokio::test]
async fn old_entries_go_little_by_little_with_later_writes() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    let store = EmbeddedStore::open(folder.path(), clock.ambient()).expect("opens");
    store.commit(Batch::of((1..=500).map(|number| insert(network(number))).collect())).await.expect("accepted");
    clock.advance(RETENTION + Duration::from_secs(1));
    store.commit(Batch::of(vec![insert(network(1001))])).await.expect("accepted");
    let after_one = length(&store).await;
    assert!((400..501).contains(&after_one), "one write removes a bounded part, {after_one} are left");
    for number in 1002..=1010 {
        store.commit(Batch::of(vec![insert(network(number))])).await.expect("accepted");
    }
    assert_eq!(length(&store).await, 10);
}

#[tokio::test]
async fn a_log_that_is_too_long_is_cut_from_its_old_end() {
    let folder = Folder::new();
    drop(open(folder.path()));
    let database = rusqlite::Connection::open(folder.path().join("regent.db")).expect("opens");
    // As after a million writes; only the ends of the log matter here.
    let sql = "INSERT INTO change (position, kind, id, event, at_ms) VALUES (?1, 'network', zeroblob(16), 2, ?2)";
    let now = 1_000_000_000_i64;
    for position in (1..=50).chain([CHANGE_LOG_MAX.cast_signed() + 40]) {
        database.execute(sql, [position, now]).expect("inserted");
    }
    drop(database);
    let store = open(folder.path());
    store.commit(Batch::of(vec![insert(network(1))])).await.expect("accepted");
    let answer = store.changes(Position(40), 3).await.expect("readable");
    assert!(matches!(answer, Changes::Resync(_)), "41 is in excess: {answer:?}");
    let Changes::Next(changes) = store.changes(Position(41), 3).await.expect("readable") else { panic!("next") };
    assert_eq!(changes[0].position, Position(42));
}
