//! Dying at every point of a batch: the next process finds it done or undone, never half.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tokio::sync::Notify;

use super::{MemoryDisk, MemoryStore, Mode};
use crate::model::ambient::{Interrupt, Uninterrupted};
use crate::model::edge::Holder;
use crate::store::conformance::rig::{ManualClock, Snapshot, charge, claim, identity, insert, insert_owned, intent};
use crate::store::conformance::rig::{limit, mark_deleted, network, refer, refusal, release, remove, status};
use crate::store::{Batch, ChangeEvent, Changes, Position, Refusal, Store, StoreError, Write};

/// Lets the process die at the n-th point.
struct DiesAt {
    remaining: AtomicUsize,
    last: Mutex<String>,
}

impl DiesAt {
    fn point_number(number: usize) -> Arc<Self> {
        Arc::new(Self { remaining: AtomicUsize::new(number), last: Mutex::default() })
    }
}

#[async_trait::async_trait]
impl Interrupt for DiesAt {
    async fn point(&self, name: &str) {
        name.clone_into(&mut self.last.lock().expect("not poisoned"));
        if self.remaining.fetch_sub(1, Ordering::Relaxed) == 0 {
            std::future::pending::<()>().await;
        }
    }
}

fn open(disk: &Arc<MemoryDisk>, interrupt: Arc<dyn Interrupt>, mode: Mode) -> MemoryStore {
    MemoryStore::open(disk.clone(), ManualClock::new().ambient(), interrupt, mode)
}

/// A disk with a bit of everything on it.
async fn prepared(mode: Mode) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::new();
    let store = open(&disk, Arc::new(Uninterrupted), mode);
    let writes = vec![
        insert(network(1)),
        insert(network(2)),
        insert(network(3)),
        refer(network(2), network(1)),
        charge(network(2), 2),
        claim(network(2), &[(1, 9)]),
        status(network(1), "made"),
    ];
    store.commit(Batch::of(writes)).await.expect("accepted");
    disk
}

/// Batches of every write; the last two are refused at their end.
fn batches() -> Vec<Batch> {
    let create = vec![insert(identity(10)), insert_owned(network(10), identity(10)), charge(network(10), 1)];
    let change = vec![
        intent(network(1), 1, r#"{"wanted":2}"#),
        refer(network(3), network(1)),
        Write::RemoveReference { target: network(2), holder: Holder::Resource(network(1)) },
        status(network(1), "changed"),
        claim(network(1), &[(1, 9)]),
        limit(7),
        charge(network(1), 3),
    ];
    let end = vec![
        Write::ReleaseReferences { holder: network(1) },
        release(network(2)),
        Write::ReleaseClaims { holder: network(2) },
        mark_deleted(network(2)),
        remove(network(2)),
    ];
    let refused = |mut writes: Vec<Write>, last| {
        writes.push(last);
        writes
    };
    let too_much = refused(change.clone(), charge(network(3), 99));
    let taken = refused(end.clone(), insert(network(3)));
    [create, change, end, too_much, taken].map(Batch::of).into()
}

async fn snapshot(disk: &Arc<MemoryDisk>, mode: Mode) -> Snapshot {
    Snapshot::of(&open(disk, Arc::new(Uninterrupted), mode)).await
}

/// Runs a batch that dies at point `number`; gives the name of the point, or `None` when it came to its end.
fn die(disk: &Arc<MemoryDisk>, mode: Mode, batch: Batch, number: usize) -> Option<String> {
    let interrupt = DiesAt::point_number(number);
    let store = open(disk, interrupt.clone(), mode);
    let answer = store.commit(batch).now_or_never();
    let name = interrupt.last.lock().expect("not poisoned").clone();
    answer.is_none().then_some(name)
}

async fn dies_at_every_point_of(batch: Batch, mode: Mode) -> Vec<String> {
    let disk = prepared(mode).await;
    let before = snapshot(&disk, mode).await;
    let accepted = open(&disk, Arc::new(Uninterrupted), mode).commit(batch.clone()).await.is_ok();
    let after = snapshot(&disk, mode).await;
    assert_eq!(accepted, before != after);
    let mut points = Vec::new();
    loop {
        let disk = prepared(mode).await;
        let Some(point) = die(&disk, mode, batch.clone(), points.len()) else { break };
        let found = snapshot(&disk, mode).await;
        assert_eq!(disk.unfinished_batches(), 0, "at {point}");
        // Nothing is known of a batch before its journal is written; after that, what can be finished is.
        let expected = if point.starts_with("store:before") { &before } else { &after };
        assert_eq!(&found, expected, "at {point}");
        assert_eq!(reconstructed(&disk, mode).await, found.records.into_keys().collect::<Vec<_>>(), "at {point}");
        points.push(point);
    }
    points
}

/// The keys that a reader of the change log believes in.
async fn reconstructed(disk: &Arc<MemoryDisk>, mode: Mode) -> Vec<crate::model::ids::Key> {
    let store = open(disk, Arc::new(Uninterrupted), mode);
    let Changes::Next(changes) = store.changes(Position(0), 1000).await.expect("readable") else { panic!("next") };
    let mut keys = std::collections::BTreeSet::new();
    for change in changes {
        match change.event {
            ChangeEvent::Put(record) => {
                assert_eq!(record.key, change.key);
                keys.insert(change.key);
            }
            ChangeEvent::Removed(_) => {
                keys.remove(&change.key);
            }
            ChangeEvent::Referenced => {}
        }
    }
    keys.into_iter().collect()
}

#[tokio::test]
async fn a_saga_that_dies_at_any_point_is_finished_or_undone_by_the_next_process() {
    for batch in batches() {
        let steps = batch.writes.len();
        let points = dies_at_every_point_of(batch, Mode::Saga).await;
        let steps_before = points.iter().filter(|point| point.contains(" before ") && !point.contains("undo")).count();
        assert_eq!(steps_before, steps, "a point before every step: {points:?}");
        assert!(points[1].starts_with("store:saga:journal "), "{points:?}");
    }
}

#[tokio::test]
async fn an_atomic_batch_has_happened_or_not() {
    let batch = batches().swap_remove(0);
    let points = dies_at_every_point_of(batch, Mode::Atomic).await;
    let label = "insert identity+insert network+charge";
    assert_eq!(points, [format!("store:before:{label}"), format!("store:after:{label}")]);
}

#[tokio::test]
async fn a_crash_while_undoing_is_undone_further() {
    let refused = batches().pop().expect("some");
    let points = dies_at_every_point_of(refused, Mode::Saga).await;
    assert!(points.iter().filter(|point| point.starts_with("store:saga:undo step")).count() >= 5, "{points:?}");
}

/// Waits at one named point until told to go on.
struct WaitsAt {
    name: &'static str,
    reached: Notify,
    go_on: Notify,
}

#[async_trait::async_trait]
impl Interrupt for WaitsAt {
    async fn point(&self, name: &str) {
        if name == self.name {
            self.reached.notify_one();
            self.go_on.notified().await;
        }
    }
}

#[tokio::test]
async fn undoing_a_saga_keeps_what_others_wrote_in_between() {
    let disk = prepared(Mode::Saga).await;
    let wait =
        Arc::new(WaitsAt { name: "store:saga:2 before refer network", reached: Notify::new(), go_on: Notify::new() });
    let store = open(&disk, wait.clone(), Mode::Saga);
    let batch = vec![insert(network(10)), intent(network(1), 1, r#"{"wanted":2}"#), refer(network(3), network(10))];
    let saga = store.commit(Batch::of(batch));
    let others = async {
        wait.reached.notified().await;
        assert!(store.get(network(10)).await.expect("readable").is_some(), "the middle can be seen");
        let Changes::Next(told) = store.changes(Position(4), 10).await.expect("readable") else { panic!("next") };
        assert!(told.iter().all(|change| change.key != network(10)), "but is not told");
        store.commit(Batch::of(vec![mark_deleted(network(3))])).await.expect("accepted");
        store.commit(Batch::of(vec![status(network(1), "by its actor")])).await.expect("accepted");
        wait.go_on.notify_one();
    };
    let (answer, ()) = tokio::join!(saga, others);
    assert!(matches!(refusal(answer), Refusal::Deleting(key) if key == network(3)));
    assert!(store.get(network(10)).await.expect("readable").is_none());
    let kept = store.get(network(1)).await.expect("readable").expect("there");
    assert_eq!((kept.revision.0, kept.spec.text()), (1, r#"{"wanted":1}"#), "the intent is taken back");
    assert_eq!(kept.conditions.available.as_ref().expect("stated").message, "by its actor");
    assert_eq!(disk.unfinished_batches(), 0);
}

#[tokio::test]
async fn a_corrupt_record_is_quarantined_and_the_rest_goes_on() {
    let disk = prepared(Mode::Atomic).await;
    disk.corrupt(network(1));
    let store = open(&disk, Arc::new(Uninterrupted), Mode::Atomic);
    assert!(matches!(store.get(network(1)).await, Err(StoreError::Corrupt(_))));
    assert_eq!(Snapshot::of(&store).await.records.into_keys().collect::<Vec<_>>(), [network(2), network(3)]);
    assert_eq!(store.quarantined().await.expect("readable").len(), 1);
}
