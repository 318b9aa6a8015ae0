//! The default store: one SQLite database in a folder, one thread that writes it.
//!
//! SQLite because it survives `kill -9` without a repair at the next start, lists in order from an index, and keeps
//! everything in one file that can be backed up while it is written. A batch is one transaction and batches that
//! arrive together share one sync (see [`writer`]). Reads go to connections of their own (see [`readers`]).
//!
//! ```text
//!   regent.db     the database, with its -wal and -shm beside it
//!   regent.lock   held by the process that uses the folder
//! ```

mod apply;
mod backup;
mod log;
mod query;
mod readers;
mod ring;
mod rows;
mod schema;
mod writer;

#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::model::ambient::Ambient;
use crate::model::condition::Transition;
use crate::model::edge::Holder;
use crate::model::ids::{Key, OrganizationId};
use crate::model::quota::QuotaKind;
use crate::model::record::{CorruptRecord, Record};

use super::remembered::{Remembered, RequestKey};
use super::rules::{self, Rows};
use super::{
    Allocation, Batch, Change, ChangeEvent, Changes, ClaimedNumber, Committed, Filter, PAGE_MAX, Page, Position, Store,
    StoreError, Usage,
};
use ring::{Ring, Served};
use rows::{SqlRows, unavailable};
use writer::{QUEUE_MAX, Request, Writer};

pub use backup::{BackupError, backup_folder, restore};
pub use schema::OpenError;

const LOCK_FILE: &str = "regent.lock";

/// The store in a folder.
pub struct EmbeddedStore {
    directory: PathBuf,
    queue: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    readers: readers::Readers,
    shared: Arc<Shared>,
    ambient: Ambient,
}

/// What the writer tells everybody else.
struct Shared {
    // A std mutex, because it is held for moments and never over an await.
    ring: Mutex<Ring>,
    latest: watch::Sender<Position>,
}

impl Shared {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn position(&self) -> Position {
        self.ring().latest()
    }

    fn publish(&self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let position = {
            let mut ring = self.ring();
            ring.extend(changes);
            ring.latest()
        };
        self.latest.send_replace(position);
    }
}

impl EmbeddedStore {
    /// Opens a folder, creating it if need be, and holds its lock until the store is dropped. Blocks for a moment.
    pub fn open(directory: &Path, ambient: Ambient) -> Result<Self, OpenError> {
        let lock = lock(directory)?;
        let connection = schema::open_writer(directory)?;
        let failed = |source| OpenError::Database { directory: directory.to_owned(), source };
        let position = log::latest(&connection).map_err(failed)?;
        let shared = Arc::new(Shared { ring: Mutex::new(Ring::new(position)), latest: watch::Sender::new(position) });
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let writer = Writer { connection, queue, shared: shared.clone(), ambient: ambient.clone(), _lock: lock };
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || writer.run());
        let writer = thread.map_err(|source| OpenError::Folder { directory: directory.to_owned(), source })?;
        Ok(Self {
            directory: directory.to_owned(),
            queue: Some(sender),
            writer: Some(writer),
            readers: readers::Readers::new(directory.to_owned()),
            shared,
            ambient,
        })
    }

    /// Copies the database into one file while writes go on.
    pub async fn backup(&self, to: &Path) -> Result<(), BackupError> {
        let (directory, to) = (self.directory.clone(), to.to_owned());
        let target = to.clone();
        let work = tokio::task::spawn_blocking(move || backup_folder(&directory, &target));
        work.await.map_err(|failed| BackupError::File { path: to, source: std::io::Error::other(failed) })?
    }

    fn send(&self, request: Request) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.try_send(request).map_err(|refused| match refused {
            TrySendError::Full(_) => {
                metrics::counter!("regent_store_queue_refusals_total").increment(1);
                StoreError::Unavailable("too many writes are waiting".to_owned())
            }
            TrySendError::Closed(_) => stopped(),
        })
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the writer has stopped".to_owned())
}

/// Makes the folder ours, or says who has it.
fn lock(directory: &Path) -> Result<File, OpenError> {
    let failed = |source| OpenError::Folder { directory: directory.to_owned(), source };
    create_durably(directory).map_err(failed)?;
    let path = directory.join(LOCK_FILE);
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked(directory.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// What is acknowledged in a new folder must not vanish with the folder: its own entry is synced, too.
fn create_durably(directory: &Path) -> Result<(), std::io::Error> {
    if directory.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(directory)?;
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

impl Drop for EmbeddedStore {
    /// Waits for the group that is being written, so that whoever opens the folder next finds it unlocked.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            // The thread catches panics of its own.
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, key: Key) -> Result<Option<Arc<Record>>, StoreError> {
        let last_word = self.shared.ring().last_word(key).cloned();
        match last_word {
            Some(ChangeEvent::Put(record)) => Ok(Some(record)),
            Some(ChangeEvent::Removed(_)) => Ok(None),
            Some(ChangeEvent::Referenced) | None => {
                self.readers.read(move |connection| SqlRows(connection).record(key)).await
            }
        }
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<Arc<Record>>, StoreError> {
        let filter = filter.clone();
        self.readers.read(move |connection| query::list(connection, &filter, page).map_err(unavailable)).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let (answer, committed) = oneshot::channel();
        self.send(Request::Commit { batch, answer })?;
        committed.await.map_err(|_| stopped())?
    }

    async fn judge(&self, batch: &Batch) -> Result<Committed, StoreError> {
        let (batch, position) = (batch.clone(), self.shared.position());
        let judged = move |connection: &rusqlite::Connection| {
            // One snapshot, so that what is judged belongs together.
            let snapshot = connection.unchecked_transaction().map_err(unavailable)?;
            let plan = rules::plan(&mut SqlRows(&snapshot), &batch)?;
            Ok(Committed { position, claimed: plan.claimed, records: plan.records })
        };
        self.readers.read(judged).await
    }

    async fn remembered(&self, request: RequestKey) -> Result<Option<Remembered>, StoreError> {
        let now = self.ambient.now();
        let found = self.readers.read(move |connection| SqlRows(connection).remembered(request)).await?;
        Ok(found.filter(|remembered| !remembered.is_over(now)))
    }

    async fn references(&self, target: Key) -> Result<Vec<Holder>, StoreError> {
        self.readers.read(move |connection| Ok(SqlRows(connection).references(target)?.into_iter().collect())).await
    }

    async fn referred_by(&self, holder: &Holder) -> Result<Vec<Key>, StoreError> {
        let holder = holder.clone();
        self.readers.read(move |connection| Ok(SqlRows(connection).referred_by(&holder)?.into_iter().collect())).await
    }

    async fn children(&self, owner: Key) -> Result<Vec<Key>, StoreError> {
        self.readers.read(move |connection| Ok(SqlRows(connection).children(owner)?.into_iter().collect())).await
    }

    async fn changes(&self, after: Position, limit: usize) -> Result<Changes, StoreError> {
        let limit = limit.min(PAGE_MAX);
        let (served, latest) = {
            let ring = self.shared.ring();
            (ring.after(after, limit), ring.latest())
        };
        match served {
            Served::Here(changes) => Ok(Changes::Next(changes)),
            Served::Nobody => Ok(Changes::Resync(latest)),
            Served::Log => {
                self.readers.read(move |connection| log::read(connection, after, limit).map_err(unavailable)).await
            }
        }
    }

    fn latest(&self) -> watch::Receiver<Position> {
        self.shared.latest.subscribe()
    }

    async fn history(&self, key: Key) -> Result<Vec<Transition>, StoreError> {
        self.readers.read(move |connection| SqlRows(connection).history(key).map_err(unavailable)).await
    }

    async fn usage(&self, organization: OrganizationId) -> Result<Vec<Usage>, StoreError> {
        let read = move |connection: &rusqlite::Connection| {
            let usage = |kind: QuotaKind| {
                let (used, limit) = SqlRows(connection).account(organization, kind).map_err(unavailable)?;
                Ok(Usage { kind, used, limit: limit.unwrap_or(kind.default_limit()) })
            };
            QuotaKind::ALL.into_iter().map(usage).collect()
        };
        self.readers.read(read).await
    }

    async fn allocations(&self) -> Result<Vec<Allocation>, StoreError> {
        let charges = self.readers.read(|connection| SqlRows(connection).charges().map_err(unavailable)).await?;
        let allocation = |(holder, charge): (Key, rules::Charge)| Allocation {
            organization: charge.organization,
            holder,
            incarnation: charge.incarnation,
            amounts: charge.amounts,
        };
        Ok(charges.into_iter().map(allocation).collect())
    }

    async fn claims(&self) -> Result<Vec<ClaimedNumber>, StoreError> {
        self.readers.read(|connection| SqlRows(connection).claims().map_err(unavailable)).await
    }

    async fn quarantined(&self) -> Result<Vec<CorruptRecord>, StoreError> {
        self.readers.read(|connection| query::unreadable(connection).map_err(unavailable)).await
    }
}
