//! A store that can be told to misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use regent::model::condition::Transition;
use regent::model::edge::Holder;
use regent::model::ids::{Key, Kind, OrganizationId};
use regent::model::record::{CorruptRecord, Record};
use regent::store::remembered::{Remembered, RequestKey};
use regent::store::{
    Allocation, Batch, Changes, ClaimedNumber, Committed, Filter, Page, Position, Refusal, Store, StoreError, Usage,
};
use tokio::sync::watch;

/// How the next reads of networks and commits go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Good,
    /// Says that it is away, with words that must not get out.
    Away,
    /// Does not answer while the mood lasts.
    Hanging,
    Panicking,
    /// Lets every commit lose against another writer.
    Contended,
}

pub const SECRET_WORDS: &str = "disk 7 of host ten is full";

pub struct MoodyStore {
    inner: Arc<dyn Store>,
    mood: watch::Sender<Mood>,
    pub hanging: AtomicUsize,
    pub commits: AtomicUsize,
}

impl MoodyStore {
    pub fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            mood: watch::Sender::new(Mood::Good),
            hanging: AtomicUsize::new(0),
            commits: AtomicUsize::new(0),
        })
    }

    pub fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    async fn suffer(&self) -> Result<(), StoreError> {
        let mood = *self.mood.borrow();
        match mood {
            Mood::Good | Mood::Contended => Ok(()),
            Mood::Away => Err(StoreError::Unavailable(SECRET_WORDS.to_owned())),
            Mood::Hanging => {
                self.hanging.fetch_add(1, Ordering::SeqCst);
                let mut mood = self.mood.subscribe();
                mood.wait_for(|mood| *mood != Mood::Hanging).await.expect("the sender is in the store");
                Ok(())
            }
            Mood::Panicking => panic!("{SECRET_WORDS}"),
        }
    }
}

#[async_trait]
impl Store for MoodyStore {
    async fn get(&self, key: Key) -> Result<Option<Arc<Record>>, StoreError> {
        if key.kind == Kind::Network {
            self.suffer().await?;
        }
        self.inner.get(key).await
    }
    async fn list(&self, filter: &Filter, page: Page) -> Result<Vec<Arc<Record>>, StoreError> {
        self.suffer().await?;
        self.inner.list(filter, page).await
    }
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.suffer().await?;
        if *self.mood.borrow() == Mood::Contended {
            return Err(Refusal::Conflict(OrganizationId(uuid::Uuid::nil()).key()).into());
        }
        self.inner.commit(batch).await
    }
    async fn judge(&self, batch: &Batch) -> Result<Committed, StoreError> {
        self.suffer().await?;
        self.inner.judge(batch).await
    }
    async fn remembered(&self, request: RequestKey) -> Result<Option<Remembered>, StoreError> {
        self.inner.remembered(request).await
    }
    async fn references(&self, target: Key) -> Result<Vec<Holder>, StoreError> {
        self.inner.references(target).await
    }
    async fn referred_by(&self, holder: &Holder) -> Result<Vec<Key>, StoreError> {
        self.inner.referred_by(holder).await
    }
    async fn children(&self, owner: Key) -> Result<Vec<Key>, StoreError> {
        self.inner.children(owner).await
    }
    async fn changes(&self, after: Position, limit: usize) -> Result<Changes, StoreError> {
        self.inner.changes(after, limit).await
    }
    fn latest(&self) -> watch::Receiver<Position> {
        self.inner.latest()
    }
    async fn history(&self, key: Key) -> Result<Vec<Transition>, StoreError> {
        self.inner.history(key).await
    }
    async fn usage(&self, organization: OrganizationId) -> Result<Vec<Usage>, StoreError> {
        self.inner.usage(organization).await
    }
    async fn allocations(&self) -> Result<Vec<Allocation>, StoreError> {
        self.inner.allocations().await
    }
    async fn claims(&self) -> Result<Vec<ClaimedNumber>, StoreError> {
        self.inner.claims().await
    }
    async fn quarantined(&self) -> Result<Vec<CorruptRecord>, StoreError> {
        self.inner.quarantined().await
    }
}
