//! A store on which a request can be tried: what it commits is judged and kept aside, and its own reads see it.
//!
//! # Caveats
//! - What follows from records is not laid over (references, children, usage): handlers read it before they commit.
//! - A list that what is staged has shortened may have a page that is not full before its last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::model::condition::Transition;
use crate::model::edge::Holder;
use crate::model::ids::{Key, OrganizationId};
use crate::model::record::{CorruptRecord, Record};
use crate::store::remembered::{Remembered, RequestKey};
use crate::store::{
    Allocation, Batch, Changes, ClaimedNumber, Committed, Filter, Page, Position, Store, StoreError, Usage, Write,
};

pub struct StagedStore {
    base: Arc<dyn Store>,
    staged: Mutex<Staged>,
}

/// What a request would have committed.
#[derive(Clone, Debug, Default)]
pub struct Staged {
    pub batch: Batch,
    /// Every record that it would have written, as it would be stored, in order.
    pub records: Vec<Arc<Record>>,
}

impl Staged {
    /// What each record that is written would be in the end; `None` for those that would be gone.
    pub fn last(&self) -> BTreeMap<Key, Option<Arc<Record>>> {
        let written = self.records.iter().map(|record| (record.key, Some(Arc::clone(record))));
        let removed = self.batch.writes.iter().filter_map(|write| match write {
            Write::Remove { key, .. } => Some((*key, None)),
            _ => None,
        });
        written.chain(removed).collect()
    }
}

impl StagedStore {
    pub fn over(base: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { base, staged: Mutex::default() })
    }

    pub fn staged(&self) -> Staged {
        self.lock().clone()
    }

    /// What is there now, whatever is staged.
    pub fn base(&self) -> &dyn Store {
        &*self.base
    }

    fn lock(&self) -> MutexGuard<'_, Staged> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for StagedStore {
    async fn get(&self, key: Key) -> Result<Option<Arc<Record>>, StoreError> {
        let staged = self.lock().last().remove(&key);
        match staged {
            Some(record) => Ok(record),
            None => self.base.get(key).await,
        }
    }

    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<Arc<Record>>, StoreError> {
        let mut found = self.base.list(filter, page).await?;
        let is_full = found.len() >= page.limit;
        let end = found.last().filter(|_| is_full).map(|record| record.key);
        for (key, record) in self.lock().last() {
            found.retain(|other| other.key != key);
            let is_here = page.after.is_none_or(|after| after < key.id) && end.is_none_or(|end| key < end);
            found.extend(record.filter(|record| is_here && filter.matches(record)));
        }
        found.sort_by_key(|record| record.key);
        found.truncate(page.limit);
        Ok(found)
    }

    /// Judges all that the request has committed so far as one, and answers for what is new.
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let mut staged = self.staged();
        staged.batch.preconditions.extend(batch.preconditions);
        staged.batch.writes.extend(batch.writes);
        let judged = self.base.judge(&staged.batch).await?;
        let known = staged.records.len();
        staged.records.clone_from(&judged.records);
        *self.lock() = staged;
        Ok(Committed { records: judged.records.into_iter().skip(known).collect(), ..judged })
    }

    async fn judge(&self, batch: &Batch) -> Result<Committed, StoreError> {
        self.base.judge(batch).await
    }

    async fn remembered(&self, request: RequestKey) -> Result<Option<Remembered>, StoreError> {
        self.base.remembered(request).await
    }

    async fn references(&self, target: Key) -> Result<Vec<Holder>, StoreError> {
        self.base.references(target).await
    }

    async fn referred_by(&self, holder: &Holder) -> Result<Vec<Key>, StoreError> {
        self.base.referred_by(holder).await
    }

    async fn children(&self, owner: Key) -> Result<Vec<Key>, StoreError> {
        self.base.children(owner).await
    }

    async fn changes(&self, after: Position, limit: usize) -> Result<Changes, StoreError> {
        self.base.changes(after, limit).await
    }

    fn latest(&self) -> watch::Receiver<Position> {
        self.base.latest()
    }

    async fn history(&self, key: Key) -> Result<Vec<Transition>, StoreError> {
        self.base.history(key).await
    }

    async fn usage(&self, organization: OrganizationId) -> Result<Vec<Usage>, StoreError> {
        self.base.usage(organization).await
    }

    async fn allocations(&self) -> Result<Vec<Allocation>, StoreError> {
        self.base.allocations().await
    }

    async fn claims(&self) -> Result<Vec<ClaimedNumber>, StoreError> {
        self.base.claims().await
    }

    async fn quarantined(&self) -> Result<Vec<CorruptRecord>, StoreError> {
        self.base.quarantined().await
    }
}
