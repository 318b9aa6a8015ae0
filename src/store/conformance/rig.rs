//! A store to try things on, and short ways to say what to try.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use crate::model::ambient::{Ambient, Clock, Uninterrupted};
use crate::model::condition::{Axis, Conditions, Reason, Statement, Transition, Truth};
use crate::model::edge::Holder;
use crate::model::ids::{Incarnation, Key, Kind, OrganizationId, ProjectId};
use crate::model::metadata::{ApiVersion, Metadata, Placement, Principal};
use crate::model::quota::{Amount, Amounts, QuotaKind};
use crate::model::record::{Document, Record, Revision};
use crate::store::embedded::EmbeddedStore;
use crate::store::memory::{MemoryDisk, MemoryStore, Mode};
use crate::store::{
    Allocation, Batch, Change, ChangeEvent, Changes, ClaimedNumber, Committed, Filter, Page, Position, Refusal, Store,
    StoreError, Usage, Write,
};

/// A clock that moves when told to.
pub(in crate::store) struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    pub(in crate::store) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(at(1_000_000))))
    }

    pub(in crate::store) fn advance(&self, by: Duration) {
        let mut now = self.0.lock().expect("not poisoned");
        *now += by;
    }

    pub(in crate::store) fn ambient(self: &Arc<Self>) -> Ambient {
        Ambient::seeded(self.clone(), 7)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("not poisoned")
    }
}

/// A folder of its own, gone when dropped.
pub(in crate::store) struct Folder(PathBuf);

impl Folder {
    pub(in crate::store) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("regent-store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    pub(in crate::store) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where a rig's store keeps its things, so that it can be opened again.
enum Home {
    Memory(Arc<MemoryDisk>, Mode),
    Embedded(Folder),
}

pub(super) struct Rig {
    // Before the home: the store must let go of a folder before it is removed.
    store: Box<dyn Store>,
    home: Home,
    pub(super) clock: Arc<ManualClock>,
}

impl Rig {
    pub(super) fn memory_atomic() -> Self {
        Self::of(Home::Memory(MemoryDisk::new(), Mode::Atomic))
    }

    pub(super) fn memory_saga() -> Self {
        Self::of(Home::Memory(MemoryDisk::new(), Mode::Saga))
    }

    pub(super) fn embedded() -> Self {
        Self::of(Home::Embedded(Folder::new()))
    }

    fn of(home: Home) -> Self {
        let clock = ManualClock::new();
        Self { store: open(&home, &clock), home, clock }
    }

    /// Closes the store and opens it again.
    pub(super) fn restarted(self) -> Self {
        let Self { store, home, clock } = self;
        drop(store);
        Self { store: open(&home, &clock), home, clock }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(super) async fn commit(&self, writes: Vec<Write>) -> Committed {
        self.store.commit(Batch::of(writes)).await.expect("accepted")
    }

    pub(super) async fn refused(&self, writes: Vec<Write>) -> Refusal {
        refusal(self.store.commit(Batch::of(writes)).await)
    }

    pub(super) async fn get(&self, key: Key) -> Option<Arc<Record>> {
        self.store.get(key).await.expect("readable")
    }

    pub(super) async fn after(&self, position: Position) -> Vec<Change> {
        match self.store.changes(position, 100).await.expect("readable") {
            Changes::Next(changes) => changes,
            Changes::Resync(latest) => panic!("asked to resync at {latest:?}"),
        }
    }

    pub(super) fn position(&self) -> Position {
        *self.store.latest().borrow()
    }

    pub(super) async fn snapshot(&self) -> Snapshot {
        Snapshot::of(&*self.store).await
    }
}

fn open(home: &Home, clock: &Arc<ManualClock>) -> Box<dyn Store> {
    match home {
        Home::Memory(disk, mode) => {
            Box::new(MemoryStore::open(disk.clone(), clock.ambient(), Arc::new(Uninterrupted), *mode))
        }
        Home::Embedded(folder) => Box::new(EmbeddedStore::open(folder.path(), clock.ambient()).expect("opens")),
    }
}

pub(in crate::store) fn refusal(answer: Result<Committed, StoreError>) -> Refusal {
    match answer {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Everything that a store holds, for comparing.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store) struct Snapshot {
    pub(in crate::store) records: BTreeMap<Key, Record>,
    pub(in crate::store) references: BTreeMap<Key, Vec<Holder>>,
    children: BTreeMap<Key, Vec<Key>>,
    histories: BTreeMap<Key, Vec<Transition>>,
    pub(in crate::store) allocations: Vec<Allocation>,
    pub(in crate::store) claims: Vec<ClaimedNumber>,
    pub(in crate::store) usage: Vec<Usage>,
}

impl Snapshot {
    pub(in crate::store) async fn of(store: &dyn Store) -> Self {
        let mut snapshot = Self {
            records: BTreeMap::new(),
            references: BTreeMap::new(),
            children: BTreeMap::new(),
            histories: BTreeMap::new(),
            allocations: store.allocations().await.expect("readable"),
            claims: store.claims().await.expect("readable"),
            usage: store.usage(organization(1)).await.expect("readable"),
        };
        for kind in Kind::ALL {
            for record in store.list(&Filter::of(kind), Page::FIRST).await.expect("readable") {
                let key = record.key;
                snapshot.references.insert(key, store.references(key).await.expect("readable"));
                snapshot.children.insert(key, store.children(key).await.expect("readable"));
                snapshot.histories.insert(key, store.history(key).await.expect("readable"));
                snapshot.records.insert(key, Record::clone(&record));
            }
        }
        snapshot
    }
}

pub(in crate::store) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

pub(in crate::store) fn organization(number: u128) -> OrganizationId {
    OrganizationId(Uuid::from_u128(0x1000 + number))
}

pub(in crate::store) fn project(number: u128) -> ProjectId {
    ProjectId(Uuid::from_u128(0x2000 + number))
}

pub(in crate::store) fn network(number: u128) -> Key {
    Key::new(Kind::Network, Uuid::from_u128(number))
}

pub(in crate::store) fn identity(number: u128) -> Key {
    Key::new(Kind::Identity, Uuid::from_u128(number))
}

pub(in crate::store) fn incarnation(number: u128) -> Incarnation {
    Incarnation(Uuid::from_u128(0x9000 + number))
}

/// A record of the first organization and project, named after its key, in its first incarnation.
pub(in crate::store) fn record(key: Key) -> Record {
    Record {
        key,
        metadata: Metadata {
            incarnation: incarnation(1),
            name: key.to_string(),
            description: Some("for a test".to_owned()),
            tags: None,
            placement: Placement {
                organization: Some(organization(1)),
                project: Some(project(1)),
                ..Placement::default()
            },
            principal: Principal { organization: Some(organization(1)), project: None, actor: "tester".to_owned() },
            creator: "tester".to_owned(),
            modifier: None,
            created: at(1),
            modified: None,
            generation: 1,
            deletion: None,
            owner: None,
            charged: false,
            paused: false,
            resets: 0,
            api_version: ApiVersion::default(),
            deletion_protection: None,
            writer_version: 1,
        },
        spec: Document::from_text(r#"{"wanted":1}"#),
        conditions: Conditions::default(),
        detail: Document::default(),
        revision: Revision(1),
        status_revision: Revision(0),
    }
}

pub(in crate::store) fn insert(key: Key) -> Write {
    Write::Insert(Box::new(record(key)))
}

pub(in crate::store) fn insert_owned(key: Key, owner: Key) -> Write {
    let mut record = record(key);
    record.metadata.owner = Some(owner);
    Write::Insert(Box::new(record))
}

pub(in crate::store) fn intent(key: Key, expected: u64, spec: &str) -> Write {
    let mut metadata = record(key).metadata;
    metadata.generation += 1;
    metadata.modifier = Some("somebody else".to_owned());
    Write::Intent { key, expected: Revision(expected), metadata: Box::new(metadata), spec: Document::from_text(spec) }
}

pub(in crate::store) fn mark_deleted(key: Key) -> Write {
    Write::MarkDeleted { key, at: at(50) }
}

pub(in crate::store) fn remove(key: Key) -> Write {
    Write::Remove { key, incarnation: incarnation(1) }
}

/// A status whose only transition carries `message`.
pub(in crate::store) fn status(key: Key, message: &str) -> Write {
    let mut conditions = Conditions::default();
    conditions.state(Axis::Available, Statement::new(Truth::True, Reason::Provisioned, message), 1, at(60));
    let transition = Transition {
        at: at(60),
        axis: Axis::Available,
        status: Truth::True,
        reason: Reason::Provisioned,
        message: message.to_owned(),
        observed_generation: 1,
    };
    Write::Status {
        key,
        incarnation: incarnation(1),
        conditions: Box::new(conditions),
        detail: Document::from_text(r#"{"seen":true}"#),
        transitions: vec![transition],
    }
}

pub(in crate::store) fn refer(target: Key, holder: Key) -> Write {
    Write::AddReference { target, holder: Holder::Resource(holder) }
}

pub(in crate::store) fn charge(holder: Key, networks: u64) -> Write {
    charge_of(holder, Amount::of(networks))
}

pub(in crate::store) fn charge_of(holder: Key, networks: Amount) -> Write {
    Write::Charge {
        organization: organization(1),
        project: Some(project(1)),
        holder,
        incarnation: incarnation(1),
        amounts: Amounts::from([(QuotaKind::Networks, networks)]),
    }
}

pub(in crate::store) fn release(holder: Key) -> Write {
    Write::Release { holder, incarnation: incarnation(1) }
}

pub(in crate::store) fn limit(limit: u64) -> Write {
    Write::Limit { organization: organization(1), kind: QuotaKind::Networks, limit }
}

pub(in crate::store) fn claim(holder: Key, ranges: &[(u16, u16)]) -> Write {
    Write::Claim { pool: "vlan".to_owned(), ranges: ranges.to_vec(), holder }
}

/// What a change says, without the record.
pub(super) fn told(changes: &[Change]) -> Vec<(Key, &'static str)> {
    let word = |change: &Change| match change.event {
        ChangeEvent::Put(_) => "put",
        ChangeEvent::Referenced => "referenced",
        ChangeEvent::Removed(_) => "removed",
    };
    changes.iter().map(|change| (change.key, word(change))).collect()
}
