//! What a batch means, decided in one place for every store.
//!
//! ```text
//!   batch ──▶ plan(rows) ──▶ row changes + events      or a refusal, and then nothing was touched
//! ```
//!
//! A store only keeps rows: it answers [`Rows`] and carries out [`RowChange`]s. Everything that may refuse a write
//! is here, so that two stores cannot come to disagree. Within a batch later writes see earlier ones through an
//! [`overlay::Overlay`], which is why a batch can be judged whole before anything of it is written. A row change
//! carries what was there before, from which a store without transactions can undo it.

mod overlay;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::model::condition::Transition;
use crate::model::edge::Holder;
use crate::model::ids::{Incarnation, Key, Kind, OrganizationId, ProjectId};
use crate::model::quota::{Amount, Amounts, QuotaKind};
use crate::model::record::Record;

use super::remembered::{Remembered, RequestKey};
use super::{Batch, ChangeEvent, Former, Precondition, Refusal, StoreError, Write};
use overlay::Overlay;

/// What the rules ask of a store. Answers are as of this moment, under the store's own exclusion.
pub(super) trait Rows {
    fn record(&mut self, key: Key) -> Result<Option<Arc<Record>>, StoreError>;
    fn references(&mut self, target: Key) -> Result<BTreeSet<Holder>, StoreError>;
    fn is_referenced_by(&mut self, target: Key, holder: &Holder) -> Result<bool, StoreError>;
    fn referred_by(&mut self, holder: &Holder) -> Result<BTreeSet<Key>, StoreError>;
    fn children(&mut self, owner: Key) -> Result<BTreeSet<Key>, StoreError>;
    fn charge(&mut self, holder: Key) -> Result<Option<Charge>, StoreError>;
    fn used(&mut self, organization: OrganizationId, kind: QuotaKind) -> Result<Amount, StoreError>;
    /// The override, if there is one.
    fn limit(&mut self, organization: OrganizationId, kind: QuotaKind) -> Result<Option<u64>, StoreError>;
    fn numbers_taken(&mut self, pool: &str) -> Result<BTreeSet<u16>, StoreError>;
    fn claims_of(&mut self, holder: Key) -> Result<BTreeSet<(String, u16)>, StoreError>;
    fn remembered(&mut self, request: RequestKey) -> Result<Option<Remembered>, StoreError>;
    /// How many answers of the organization's were kept after this time.
    fn remembered_after(&mut self, organization: OrganizationId, time: Timestamp) -> Result<usize, StoreError>;
}

/// What one resource is charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    pub organization: OrganizationId,
    pub project: Option<ProjectId>,
    pub incarnation: Incarnation,
    /// Without zeroes.
    pub amounts: Amounts,
}

/// One row that a batch changes. Made only when something really changes.
#[derive(Clone, Debug)]
pub(super) enum RowChange {
    /// Appears, changes or goes; never `None` on both sides.
    Record {
        key: Key,
        before: Option<Arc<Record>>,
        after: Option<Arc<Record>>,
    },
    Reference {
        target: Key,
        holder: Holder,
        present: bool,
    },
    /// The usage of the organizations named follows from the difference.
    Charge {
        holder: Key,
        before: Option<Charge>,
        after: Option<Charge>,
    },
    Limit {
        organization: OrganizationId,
        kind: QuotaKind,
        before: Option<u64>,
        after: Option<u64>,
    },
    Claim {
        pool: String,
        number: u16,
        holder: Key,
        taken: bool,
    },
    History {
        key: Key,
        appended: Vec<Transition>,
    },
    Remembered {
        before: Option<Box<Remembered>>,
        after: Box<Remembered>,
    },
}

/// What the change log will say.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Put(Arc<Record>),
    Referenced(Key),
    Removed(Key, Former),
}

impl Event {
    pub(super) fn key(&self) -> Key {
        match self {
            Self::Put(record) => record.key,
            Self::Referenced(key) | Self::Removed(key, _) => *key,
        }
    }

    /// Where the resource is or was, as far as the event knows.
    pub(super) fn former(&self) -> Former {
        match self {
            Self::Put(record) => Former::of(&record.metadata),
            Self::Removed(_, former) => *former,
            Self::Referenced(_) => Former::default(),
        }
    }

    /// What readers of the log are told.
    pub(super) fn told(&self) -> ChangeEvent {
        match self {
            Self::Put(record) => ChangeEvent::Put(Arc::clone(record)),
            Self::Referenced(_) => ChangeEvent::Referenced,
            Self::Removed(_, former) => ChangeEvent::Removed(*former),
        }
    }
}

/// What a batch will do. Nothing has been done yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub changes: Vec<RowChange>,
    pub events: Vec<Event>,
    pub claimed: Vec<u16>,
    pub records: Vec<Arc<Record>>,
}

impl Plan {
    fn put(&mut self, record: &Arc<Record>) {
        self.events.push(Event::Put(record.clone()));
        self.records.push(record.clone());
    }

    /// Takes up a later step of the same batch.
    pub(super) fn absorb(&mut self, later: Self) {
        self.changes.extend(later.changes);
        self.events.extend(later.events);
        self.claimed.extend(later.claimed);
        self.records.extend(later.records);
    }
}

/// Judges a whole batch.
pub(super) fn plan(rows: &mut dyn Rows, batch: &Batch) -> Result<Plan, StoreError> {
    check(rows, &batch.preconditions)?;
    let mut overlay = Overlay::over(rows);
    let mut plan = Plan::default();
    for write in &batch.writes {
        let step = write::plan(&mut overlay, write)?;
        for change in &step.changes {
            overlay.note(change)?;
        }
        plan.absorb(step);
    }
    Ok(plan)
}

/// Judges one write on its own: a step of a saga.
pub(super) fn plan_step(rows: &mut dyn Rows, write: &Write) -> Result<Plan, StoreError> {
    write::plan(rows, write)
}

/// Do the preconditions hold?
pub(super) fn check(rows: &mut dyn Rows, preconditions: &[Precondition]) -> Result<(), StoreError> {
    for precondition in preconditions {
        match *precondition {
            Precondition::Live(key) => match rows.record(key)? {
                None => return Err(Refusal::Missing(key).into()),
                Some(record) if record.metadata.is_deleting() => return Err(Refusal::Deleting(key).into()),
                Some(_) => {}
            },
            Precondition::Unreferenced(target) => {
                let holders = rows.references(target)?;
                if !holders.is_empty() {
                    return Err(Refusal::InUse { target, holders: holders.into_iter().collect() }.into());
                }
            }
            Precondition::Unchanged { key, revision } => {
                if rows.record(key)?.is_none_or(|record| record.revision != revision) {
                    return Err(Refusal::Conflict(key).into());
                }
            }
            Precondition::Incarnation { key, incarnation } => {
                if rows.record(key)?.is_none_or(|record| record.metadata.incarnation != incarnation) {
                    return Err(Refusal::Conflict(key).into());
                }
            }
            Precondition::Unprotected(key) => refuse_protected(rows, key)?,
            Precondition::UsesAtMost { organization, kind, limit } => {
                let total = rows.used(organization, kind)?.total();
                if total > limit {
                    return Err(Refusal::QuotaExceeded { kind, total, limit }.into());
                }
            }
        }
    }
    Ok(())
}

/// Refuses when the resource, or anything that it owns, is protected. A tenant speaks for itself alone: it may own more
/// than can be looked through while everybody waits for the writer. Nothing owns itself, however far down: an owner is
/// named when a resource is made, and never changed.
fn refuse_protected(rows: &mut dyn Rows, key: Key) -> Result<(), StoreError> {
    let is_protected = |record: Arc<Record>| record.metadata.deletion_protection == Some(true);
    if rows.record(key)?.is_some_and(is_protected) {
        return Err(Refusal::Protected(key).into());
    }
    if matches!(key.kind, Kind::Organization | Kind::Project) {
        return Ok(());
    }
    rows.children(key)?.into_iter().try_for_each(|child| refuse_protected(rows, child))
}

/// A short and stable name for a batch, for crash points and metrics: made of kinds of writes only, so that there
/// are few of them. What is done again and again counts once.
pub(super) fn label(batch: &Batch) -> String {
    let mut words = Vec::new();
    for word in batch.writes.iter().map(write_label) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join("+")
}

pub(super) fn write_label(write: &Write) -> String {
    match write {
        Write::Insert(record) => format!("insert {}", record.key.kind),
        Write::Intent { key, .. } => format!("intent {}", key.kind),
        Write::MarkDeleted { key, .. } => format!("mark {}", key.kind),
        Write::Status { key, .. } => format!("status {}", key.kind),
        Write::Remove { key, .. } => format!("remove {}", key.kind),
        Write::AddReference { target, .. } => format!("refer {}", target.kind),
        Write::RemoveReference { target, .. } => format!("unrefer {}", target.kind),
        Write::ReleaseReferences { .. } => "release references".to_owned(),
        Write::Charge { .. } => "charge".to_owned(),
        Write::Release { .. } => "release".to_owned(),
        Write::Limit { .. } => "limit".to_owned(),
        Write::Claim { .. } => "claim".to_owned(),
        Write::ReleaseClaims { .. } => "release claims".to_owned(),
        Write::Remember(_) => "remember".to_owned(),
    }
}
