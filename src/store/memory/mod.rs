//! A store in memory, for the simulation and for tests of what stands above a store.
//!
//! No threads, no I/O, no time of its own: a commit happens at one instant of the paused runtime, between two
//! [`Interrupt`] points at which the simulation may let the process die. The rows live on a [`MemoryDisk`] that
//! outlives the store, so that the next process opens what the last one left.
//!
//! In [`Mode::Saga`] a batch is broken into single-document writes (see [`saga`]); a batch of one write is a single
//! document anyway and goes the short way.

mod log;
mod saga;
mod tables;

#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;
use uuid::Uuid;

use crate::model::ambient::{Ambient, Interrupt};
use crate::model::condition::Transition;
use crate::model::edge::Holder;
use crate::model::ids::{Key, OrganizationId};
use crate::model::quota::QuotaKind;
use crate::model::record::{CorruptRecord, Record};

use super::remembered::{Remembered, RequestKey};
use super::rules::{self, Plan, Rows};
use super::{
    Allocation, Batch, Changes, ClaimedNumber, Committed, Filter, PAGE_MAX, Page, Position, Store, StoreError, Usage,
};

/// From this step of a saga on, a place is called the same.
const LATE_STEP: usize = 4;

/// How a batch is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At one instant, as in a transaction.
    Atomic,
    /// Write by write, as where there are no transactions.
    Saga,
}

/// What survives a crash.
#[derive(Default)]
pub struct MemoryDisk {
    // A std mutex, because it is never held over an await and the sections are short.
    disk: Mutex<Disk>,
}

#[derive(Default)]
struct Disk {
    tables: tables::Tables,
    log: log::ChangeLog,
    journal: saga::Journal,
}

impl MemoryDisk {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Makes one record unreadable, as a damaged disk would: the rest must not notice.
    pub fn corrupt(&self, key: Key) {
        let corrupt = CorruptRecord { key, part: "specification", cause: "damaged on purpose".to_owned() };
        self.lock().tables.corrupt.insert(key, corrupt);
    }

    /// How many batches are neither finished nor undone. Zero whenever no commit is under way.
    pub fn unfinished_batches(&self) -> usize {
        self.lock().journal.len()
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        // A panic while the lock is held can only come from a failed allocation or a bug that tests find.
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn commit(&mut self, batch: &Batch, now: Timestamp) -> Result<Plan, StoreError> {
        let plan = rules::plan(&mut self.tables, batch)?;
        for change in &plan.changes {
            self.tables.apply(change, now);
        }
        for event in &plan.events {
            self.log.push(event.key(), event.told(), now);
        }
        Ok(plan)
    }

    fn trim(&mut self, now: Timestamp) {
        self.log.trim(now);
        self.tables.trim(now);
    }
}

/// One process's view of a [`MemoryDisk`].
pub struct MemoryStore {
    disk: Arc<MemoryDisk>,
    ambient: Ambient,
    interrupt: Arc<dyn Interrupt>,
    mode: Mode,
    latest: watch::Sender<Position>,
}

impl MemoryStore {
    /// Opens a disk. Batches that a crash cut short are finished or undone first.
    #[must_use]
    pub fn open(disk: Arc<MemoryDisk>, ambient: Ambient, interrupt: Arc<dyn Interrupt>, mode: Mode) -> Self {
        let position = {
            let mut locked = disk.lock();
            locked.resolve(ambient.now());
            locked.log.latest()
        };
        Self { disk, ambient, interrupt, mode, latest: watch::Sender::new(position) }
    }

    fn commit_at_once(&self, batch: &Batch) -> Result<Committed, StoreError> {
        let now = self.ambient.now();
        let mut disk = self.disk.lock();
        let plan = disk.commit(batch, now)?;
        Ok(self.published(&mut disk, plan, now))
    }

    async fn commit_in_steps(&self, batch: Batch, label: &str) -> Result<Committed, StoreError> {
        let names = batch.writes.iter().map(rules::write_label).collect::<Vec<_>>();
        let id = self.disk.lock().begin(batch)?;
        self.interrupt.point(&format!("store:saga:journal {label}")).await;
        for (number, name) in names.iter().enumerate() {
            // Long batches are many of the same: what comes late in one is one place.
            let number = number.min(LATE_STEP);
            self.interrupt.point(&format!("store:saga:{number} before {name}")).await;
            let step = self.disk.lock().step(id, self.ambient.now());
            if let Err(refusal) = step {
                self.undo(id, label).await;
                return Err(refusal);
            }
            self.interrupt.point(&format!("store:saga:{number} after {name}")).await;
        }
        let now = self.ambient.now();
        let mut disk = self.disk.lock();
        let plan = disk.finish(id, now);
        Ok(self.published(&mut disk, plan, now))
    }

    async fn undo(&self, id: saga::SagaId, label: &str) {
        self.interrupt.point(&format!("store:saga:undo before {label}")).await;
        loop {
            let undone = self.disk.lock().unstep(id, self.ambient.now());
            if !undone {
                break;
            }
            self.interrupt.point(&format!("store:saga:undo step {label}")).await;
        }
        let now = self.ambient.now();
        let mut disk = self.disk.lock();
        let plan = disk.finish(id, now);
        self.published(&mut disk, plan, now);
    }

    fn published(&self, disk: &mut Disk, plan: Plan, now: Timestamp) -> Committed {
        disk.trim(now);
        let position = disk.log.latest();
        if !plan.events.is_empty() {
            self.latest.send_replace(position);
        }
        Committed { position, claimed: plan.claimed, records: plan.records }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: Key) -> Result<Option<Arc<Record>>, StoreError> {
        self.disk.lock().tables.record(key)
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<Arc<Record>>, StoreError> {
        let disk = self.disk.lock();
        let from = match page.after {
            Some(id) => Bound::Excluded(Key::new(filter.kind, id)),
            None => Bound::Included(Key::new(filter.kind, Uuid::nil())),
        };
        let of_kind = disk.tables.after(from).take_while(|record| record.key.kind == filter.kind);
        Ok(of_kind.filter(|record| filter.matches(record)).take(page.limit.min(PAGE_MAX)).cloned().collect())
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let label = rules::label(&batch);
        self.interrupt.point(&format!("store:before:{label}")).await;
        let committed = match self.mode {
            Mode::Saga if batch.writes.len() > 1 => self.commit_in_steps(batch, &label).await,
            Mode::Atomic | Mode::Saga => self.commit_at_once(&batch),
        };
        self.interrupt.point(&format!("store:after:{label}")).await;
        committed
    }

    async fn judge(&self, batch: &Batch) -> Result<Committed, StoreError> {
        let mut disk = self.disk.lock();
        let plan = rules::plan(&mut disk.tables, batch)?;
        Ok(Committed { position: disk.log.latest(), claimed: plan.claimed, records: plan.records })
    }

    async fn remembered(&self, request: RequestKey) -> Result<Option<Remembered>, StoreError> {
        let remembered = self.disk.lock().tables.remembered(request)?;
        Ok(remembered.filter(|remembered| !remembered.is_over(self.ambient.now())))
    }

    async fn references(&self, target: Key) -> Result<Vec<Holder>, StoreError> {
        Ok(self.disk.lock().tables.references(target)?.into_iter().collect())
    }

    async fn referred_by(&self, holder: &Holder) -> Result<Vec<Key>, StoreError> {
        Ok(self.disk.lock().tables.referred_by(holder)?.into_iter().collect())
    }

    async fn children(&self, owner: Key) -> Result<Vec<Key>, StoreError> {
        Ok(self.disk.lock().tables.children(owner)?.into_iter().collect())
    }

    async fn changes(&self, after: Position, limit: usize) -> Result<Changes, StoreError> {
        Ok(self.disk.lock().log.after(after, limit))
    }

    fn latest(&self) -> watch::Receiver<Position> {
        self.latest.subscribe()
    }

    async fn history(&self, key: Key) -> Result<Vec<Transition>, StoreError> {
        Ok(self.disk.lock().tables.transitions(key))
    }

    async fn usage(&self, organization: OrganizationId) -> Result<Vec<Usage>, StoreError> {
        let mut disk = self.disk.lock();
        let mut usage = Vec::with_capacity(QuotaKind::ALL.len());
        for kind in QuotaKind::ALL {
            let used = disk.tables.used(organization, kind)?;
            let limit = disk.tables.limit(organization, kind)?.unwrap_or(kind.default_limit());
            usage.push(Usage { kind, used, limit });
        }
        Ok(usage)
    }

    async fn allocations(&self) -> Result<Vec<Allocation>, StoreError> {
        Ok(self.disk.lock().tables.allocations())
    }

    async fn claims(&self) -> Result<Vec<ClaimedNumber>, StoreError> {
        Ok(self.disk.lock().tables.claims())
    }

    async fn quarantined(&self) -> Result<Vec<CorruptRecord>, StoreError> {
        Ok(self.disk.lock().tables.corrupt.values().cloned().collect())
    }
}
