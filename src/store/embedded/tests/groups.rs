//! Batches that share a transaction: independent when judged, together on disk.

use futures_util::future::join_all;

use super::open;
use crate::store::conformance::rig::{Folder, charge, insert, limit, network, refusal};
use crate::store::embedded::schema::DATABASE_FILE;
use crate::store::embedded::writer::QUEUE_MAX;
use crate::store::{Batch, Refusal, Store, StoreError};

#[tokio::test]
async fn a_refused_batch_costs_its_neighbours_of_the_group_nothing() {
    let folder = Folder::new();
    let store = open(folder.path());
    let release = store.hold_writer().await;
    let batches = (1..=60_u128).map(|number| {
        // Every third takes the key of the one before it, after having charged and inserted.
        let key = if number % 3 == 0 { network(number - 1) } else { network(number) };
        store.commit(Batch::of(vec![limit(1000), charge(network(number), 1), insert(key)]))
    });
    let answers = {
        let answers = join_all(batches);
        tokio::pin!(answers);
        assert!(futures_util::poll!(&mut answers).is_pending(), "the writer is held");
        release.send(()).expect("the writer waits");
        answers.await
    };
    for (number, answer) in (1_u128..).zip(answers) {
        if number % 3 == 0 {
            assert!(matches!(refusal(answer), Refusal::Exists(key) if key == network(number - 1)));
            assert!(store.get(network(number)).await.expect("readable").is_none());
        } else {
            assert_eq!(answer.expect("accepted").records.len(), 1);
            assert!(store.get(network(number)).await.expect("readable").is_some());
        }
    }
    assert_eq!(store.allocations().await.expect("readable").len(), 40);
}

#[tokio::test]
async fn when_the_queue_is_full_writes_are_refused_at_once_and_the_others_go_through() {
    let folder = Folder::new();
    let store = open(folder.path());
    let release = store.hold_writer().await;
    let extra = 5;
    let batches =
        (1..=(QUEUE_MAX + extra) as u128).map(|number| store.commit(Batch::of(vec![insert(network(number))])));
    let answers = join_all(batches);
    tokio::pin!(answers);
    assert!(futures_util::poll!(&mut answers).is_pending());
    release.send(()).expect("the writer waits");
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.await.into_iter().partition(Result::is_ok);
    assert_eq!((accepted.len(), refused.len()), (QUEUE_MAX, extra));
    assert!(refused.iter().all(|answer| matches!(answer, Err(StoreError::Unavailable(_)))));
    store.commit(Batch::of(vec![insert(network(1 << 40))])).await.expect("there is room again");
}

#[tokio::test]
async fn a_full_disk_is_reported_and_the_store_recovers_when_there_is_room() {
    let folder = Folder::new();
    let store = open(folder.path());
    store.commit(Batch::of(vec![insert(network(1))])).await.expect("accepted");
    store
        .meddle(|connection| {
            let pages: u32 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).expect("readable");
            let set = connection.query_row(&format!("PRAGMA max_page_count = {}", pages + 2), [], |row| row.get(0));
            assert_eq!(set, Ok(pages + 2));
        })
        .await;
    let batch = |from: u128| Batch::of((from..from + 200).map(|number| insert(network(number))).collect());
    let full = store.commit(batch(1000)).await;
    assert!(matches!(&full, Err(StoreError::Unavailable(cause)) if cause.contains("full")), "{full:?}");
    assert!(store.get(network(1000)).await.expect("reads go on").is_none(), "nothing of it was written");
    let position = *store.latest().borrow();

    store.meddle(|connection| connection.execute_batch("PRAGMA max_page_count = 1000000").expect("raised")).await;
    let committed = store.commit(batch(1000)).await.expect("accepted by the same store");
    assert_eq!(committed.position.0, position.0 + 200, "the failed group has used up no position");
    assert!(store.get(network(1)).await.expect("readable").is_some());
}

#[tokio::test]
async fn a_group_that_cannot_be_written_takes_back_all_its_batches() {
    let folder = Folder::new();
    let store = open(folder.path());
    store.meddle(|connection| connection.execute_batch(
        "CREATE TRIGGER obstacle BEFORE INSERT ON record WHEN NEW.name LIKE '%0000000000aa' BEGIN SELECT RAISE(FAIL, 'obstacle'); END",
    ).expect("made")).await;
    let release = store.hold_writer().await;
    let good = store.commit(Batch::of(vec![charge(network(1), 1), insert(network(1))]));
    let refused = store.commit(Batch::of(vec![insert(network(1))]));
    let failing = store.commit(Batch::of(vec![insert(network(2)), insert(network(0xaa))]));
    let all = futures_util::future::join3(good, refused, failing);
    tokio::pin!(all);
    assert!(futures_util::poll!(&mut all).is_pending());
    release.send(()).expect("the writer waits");
    let (good, refused, failing) = all.await;
    for answer in [good, refused, failing] {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    assert!(store.get(network(1)).await.expect("readable").is_none());
    assert!(store.allocations().await.expect("readable").is_empty());
    store.meddle(|connection| connection.execute_batch("DROP TRIGGER obstacle").expect("dropped")).await;
    let committed = store.commit(Batch::of(vec![insert(network(0xaa))])).await.expect("accepted");
    assert_eq!(committed.position.0, 1);
    assert!(folder.path().join(DATABASE_FILE).is_file());
}
