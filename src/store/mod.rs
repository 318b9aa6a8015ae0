//! Where resources live: one trait, several homes.
//!
//! Intent is accepted by [`Store::commit`]: a batch of writes that all happen or none does, checked against what
//! is stored at that moment. The store, not its caller, enforces what must hold between documents: ids taken,
//! targets that still accept references, quota, claims. What a commit changed can be read back in order from a
//! position, and that is how actors learn of it: one path, whichever process took the request.
//!
//! # Guarantees
//! - A commit that answered `Ok` is on stable storage.
//! - Changes are numbered without gaps being visible: a reader at position *p* sees everything after *p*, once.
//! - A record that cannot be read is set aside and reported; reads of all others go on.
//!
//! # Assumptions a caller may not make
//! - That a batch is one transaction. In saga mode (and on Kubernetes) it is a journalled sequence of
//!   single-document writes, in the order given, and another reader can see its middle. A batch that a crash cut
//!   short is finished or undone before the store is handed out again.
//! - That a refused batch was never seen. Where its middle could be read, readers of the changes are told afterwards
//!   what the records are now; such a change may speak of a record that never came to be.

pub mod embedded;
pub mod memory;
pub mod remembered;
mod rules;

#[cfg(test)]
mod conformance;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;
use uuid::Uuid;

use crate::model::condition::{Conditions, Transition};
use crate::model::edge::Holder;
use crate::model::ids::{IdentityId, Incarnation, Key, Kind, NetworkId, OrganizationId, ProjectId, RegionId};
use crate::model::metadata::{ApiVersion, Metadata, Placement};
use crate::model::quota::{Amount, Amounts, QuotaKind};
use crate::model::record::{CorruptRecord, Document, Record, Revision};
use remembered::{Remembered, RequestKey};

/// How many transitions of one resource are kept. Enough to see a day of flapping; small enough that a resource
/// which flaps for ever costs a few kilobytes.
pub const HISTORY_MAX: usize = 64;

/// How long the history of a removed resource, and any entry of the change log, is kept.
pub const RETENTION: std::time::Duration = std::time::Duration::from_hours(24);

/// How many entries the change log holds at most: at a hundred writes a second this is under three hours, which
/// is longer than any reader is expected to be away; a reader that was away longer re-reads everything.
pub const CHANGE_LOG_MAX: u64 = 1_000_000;

/// One write of a batch.
#[derive(Clone, Debug)]
pub enum Write {
    /// Fails with `Exists` when the key is taken.
    Insert(Box<Record>),
    /// Replaces metadata and specification. Fails with `Conflict` unless the stored revision is `expected` and the
    /// incarnation is the metadata's.
    /// The store sets the new revision; status, references and deletion time survive.
    Intent {
        key: Key,
        expected: Revision,
        metadata: Box<Metadata>,
        spec: Document,
    },
    /// Asks for deletion. Already asked, or gone, is fine.
    MarkDeleted {
        key: Key,
        at: Timestamp,
    },
    /// What the owning actor says. Ignored when the stored incarnation is another one, or when it says nothing new.
    Status {
        key: Key,
        incarnation: Incarnation,
        conditions: Box<Conditions>,
        detail: Document,
        transitions: Vec<Transition>,
    },
    /// The end. Fails with `InUse` while anything refers to it and with `HasChildren` while it owns anything. A key
    /// that is gone, or of another incarnation, is fine.
    Remove {
        key: Key,
        incarnation: Incarnation,
    },
    /// Fails with `Missing` or `Deleting` when the target cannot be referred to. Already there is fine.
    AddReference {
        target: Key,
        holder: Holder,
    },
    RemoveReference {
        target: Key,
        holder: Holder,
    },
    /// Removes every reference that `holder` has on anything.
    ReleaseReferences {
        holder: Key,
    },
    /// Charges an organization in a resource's name, replacing an earlier charge of the same resource.
    /// Fails with `QuotaExceeded`.
    Charge {
        organization: OrganizationId,
        project: Option<ProjectId>,
        holder: Key,
        incarnation: Incarnation,
        amounts: Amounts,
    },
    /// Gives back what `holder` was charged. Nothing charged is fine (B23).
    Release {
        holder: Key,
        incarnation: Incarnation,
    },
    /// Overrides what an organization may use.
    Limit {
        organization: OrganizationId,
        kind: QuotaKind,
        limit: u64,
    },
    /// Takes the lowest free number of `pool` within `ranges` for `holder`, or keeps the one it has.
    /// Fails with `Exhausted`. The number is in [`Committed::claimed`].
    Claim {
        pool: String,
        ranges: Vec<(u16, u16)>,
        holder: Key,
    },
    /// Gives back every number that `holder` has claimed.
    ReleaseClaims {
        holder: Key,
    },
    /// Keeps the answer to a request, so that its repetition is answered and not done again. Fails with `Remembered`
    /// while an answer to the same request is kept, and with `TooManyRemembered` when its organization has as many
    /// as it may have. Comes last in its batch: what is remembered has happened.
    Remember(Box<Remembered>),
}

/// What must hold at the moment of the commit.
#[derive(Clone, Debug)]
pub enum Precondition {
    /// The resource exists and its deletion has not been asked for.
    Live(Key),
    /// Nothing refers to the resource. What it owns may be there: that goes with it.
    Unreferenced(Key),
    /// Nobody has written the resource's metadata or specification since this revision. Refused with `Conflict`.
    Unchanged { key: Key, revision: Revision },
    /// It is still the same resource, and not another one under its id. Refused with `Conflict`.
    Incarnation { key: Key, incarnation: Incarnation },
    /// Neither the resource nor anything that would go with it is protected from deletion. Refused with `Protected`.
    Unprotected(Key),
    /// The organization uses no more of the kind than this: so that a limit is not set below what is used.
    UsesAtMost { organization: OrganizationId, kind: QuotaKind, limit: u64 },
}

/// Writes that happen together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub preconditions: Vec<Precondition>,
    pub writes: Vec<Write>,
}

impl Batch {
    #[must_use]
    pub fn of(writes: Vec<Write>) -> Self {
        Self { preconditions: Vec::new(), writes }
    }

    /// What it writes, a few words for each write, naming kinds only.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.writes.iter().map(rules::write_label).collect()
    }

    #[must_use]
    pub fn provided(mut self, precondition: Precondition) -> Self {
        self.preconditions.push(precondition);
        self
    }
}

/// What a commit did.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// Reads at or after this position see the commit.
    pub position: Position,
    /// The numbers taken, in the order of the batch's claims.
    pub claimed: Vec<u16>,
    /// The records that the batch inserted or changed, as stored, in the batch's order.
    pub records: Vec<Arc<Record>>,
}

/// Why a batch was refused. Nothing of it has been written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{0} exists already")]
    Exists(Key),
    #[error("{0} does not exist")]
    Missing(Key),
    #[error("{0} is being deleted")]
    Deleting(Key),
    #[error("{0} was changed by somebody else")]
    Conflict(Key),
    #[error("{target} is in use by {} others", holders.len())]
    InUse { target: Key, holders: Vec<Holder> },
    #[error("{0} still owns other resources")]
    HasChildren(Key),
    #[error("total {} allocation of {total} would exceed quota limit of {limit}", kind.word())]
    QuotaExceeded { kind: QuotaKind, total: u64, limit: u64 },
    #[error("no number is free in {0}")]
    Exhausted(String),
    #[error("{0} is protected from deletion")]
    Protected(Key),
    #[error("the request has been answered before")]
    Remembered,
    #[error("as many answers are kept for the organization as may be")]
    TooManyRemembered,
}

/// Why the store did not answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The disk is full or the engine is away: nothing was written, try again later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    #[error(transparent)]
    Corrupt(#[from] CorruptRecord),
}

/// A place in the order of all commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Position(pub u64);

/// What happened to one resource in one commit.
#[derive(Clone, Debug)]
pub struct Change {
    pub position: Position,
    pub key: Key,
    pub event: ChangeEvent,
}

#[derive(Clone, Debug)]
pub enum ChangeEvent {
    /// Created, or its intent or status written. Carries the record as it was stored then, or a later one.
    Put(Arc<Record>),
    /// Somebody began or ceased to refer to it.
    Referenced,
    Removed(Former),
}

/// Where a resource was that is gone, as far as that is still known: for readers who tell only some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Former {
    #[serde(flatten)]
    pub placement: Placement,
    #[serde(default)]
    pub api_version: ApiVersion,
}

impl Former {
    #[must_use]
    pub const fn of(metadata: &Metadata) -> Self {
        Self { placement: metadata.placement, api_version: metadata.api_version }
    }
}

/// What lies after a position.
#[derive(Clone, Debug)]
pub enum Changes {
    /// In order; empty when the reader is up to date.
    Next(Vec<Change>),
    /// The log no longer reaches back that far: read everything again, then go on from here.
    Resync(Position),
}

/// Which records to list. All given fields must match.
#[derive(Clone, Debug)]
pub struct Filter {
    pub kind: Kind,
    pub organizations: Option<Vec<OrganizationId>>,
    pub projects: Option<Vec<ProjectId>>,
    pub regions: Option<Vec<RegionId>>,
    pub networks: Option<Vec<NetworkId>>,
    pub identity: Option<IdentityId>,
    pub owner: Option<Key>,
    pub name: Option<String>,
}

impl Filter {
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            organizations: None,
            projects: None,
            regions: None,
            networks: None,
            identity: None,
            owner: None,
            name: None,
        }
    }

    /// Does a record match? The one definition; a store's index may only narrow what it is asked of.
    #[must_use]
    pub fn matches(&self, record: &Record) -> bool {
        fn within<T: PartialEq>(wanted: Option<&Vec<T>>, value: Option<&T>) -> bool {
            wanted.is_none_or(|wanted| value.is_some_and(|value| wanted.contains(value)))
        }
        let placement = &record.metadata.placement;
        record.key.kind == self.kind
            && within(self.organizations.as_ref(), placement.organization.as_ref())
            && within(self.projects.as_ref(), placement.project.as_ref())
            && within(self.regions.as_ref(), placement.region.as_ref())
            && within(self.networks.as_ref(), placement.network.as_ref())
            && self.identity.is_none_or(|identity| placement.identity == Some(identity))
            && self.owner.is_none_or(|owner| record.metadata.owner == Some(owner))
            && self.name.as_ref().is_none_or(|name| record.metadata.name == *name)
    }
}

/// A bounded piece of a list, in ascending order of id.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub after: Option<Uuid>,
    pub limit: usize,
}

/// The most records that one read returns. Longer lists are read page by page, so that memory stays bounded.
pub const PAGE_MAX: usize = 1000;

impl Page {
    pub const FIRST: Self = Self { after: None, limit: PAGE_MAX };

    #[must_use]
    pub const fn after(id: Uuid) -> Self {
        Self { after: Some(id), limit: PAGE_MAX }
    }
}

/// Walks a list page by page, so that memory stays bounded however long the list is.
pub struct Pages<'a> {
    store: &'a dyn Store,
    filter: Filter,
    next: Option<Page>,
}

impl<'a> Pages<'a> {
    #[must_use]
    pub fn of(store: &'a dyn Store, filter: Filter) -> Self {
        Self { store, filter, next: Some(Page::FIRST) }
    }

    /// The next page; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<Arc<Record>>>, StoreError> {
        let Some(page) = self.next else { return Ok(None) };
        let records = self.store.list(&self.filter, page).await?;
        self.next = records.last().map(|record| Page::after(record.key.id));
        Ok(if records.is_empty() { None } else { Some(records) })
    }
}

/// How much of one kind an organization uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub kind: QuotaKind,
    pub used: Amount,
    pub limit: u64,
}

/// One charge in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub organization: OrganizationId,
    pub holder: Key,
    pub incarnation: Incarnation,
    pub amounts: Amounts,
}

/// One number taken from a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedNumber {
    pub pool: String,
    pub number: u16,
    pub holder: Key,
}

/// Where resources live.
#[async_trait]
pub trait Store: Send + Sync {
    async fn get(&self, key: Key) -> Result<Option<Arc<Record>>, StoreError>;

    /// One page, ordered by id. Records that cannot be read are left out and reported by `quarantined`.
    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<Arc<Record>>, StoreError>;

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError>;

    /// What a commit of this batch would answer now. Nothing is written, and nothing is promised.
    async fn judge(&self, batch: &Batch) -> Result<Committed, StoreError>;

    /// The answer that is kept for a request, unless it has been kept for long enough.
    async fn remembered(&self, request: RequestKey) -> Result<Option<Remembered>, StoreError>;

    /// Who refers to `target`, in a stable order.
    async fn references(&self, target: Key) -> Result<Vec<Holder>, StoreError>;

    /// Everything `holder` refers to, in a stable order.
    async fn referred_by(&self, holder: &Holder) -> Result<Vec<Key>, StoreError>;

    /// The keys that name `owner` as their owner, in a stable order.
    async fn children(&self, owner: Key) -> Result<Vec<Key>, StoreError>;

    /// At most `limit` changes after a position.
    async fn changes(&self, after: Position, limit: usize) -> Result<Changes, StoreError>;

    /// Moves whenever a commit has become visible to `changes`.
    fn latest(&self) -> watch::Receiver<Position>;

    /// The last transitions of a resource, oldest first, also for a while after it is gone.
    async fn history(&self, key: Key) -> Result<Vec<Transition>, StoreError>;

    async fn usage(&self, organization: OrganizationId) -> Result<Vec<Usage>, StoreError>;

    /// Every charge, in a stable order: for the invariant that each has a living holder.
    async fn allocations(&self) -> Result<Vec<Allocation>, StoreError>;

    /// Every claimed number, in a stable order.
    async fn claims(&self) -> Result<Vec<ClaimedNumber>, StoreError>;

    /// The records that could not be read.
    async fn quarantined(&self) -> Result<Vec<CorruptRecord>, StoreError>;
}
