//! Who watches whom: the tree, restart policy, start and stop, inspection.
//!
//! ```text
//!   root ─┬─ dispatcher                      the store's watch, turned into messages
//!         └─ region ─┬─ pool, monitor
//!                    └─ identity ─┬─ the identity's own actor
//!                                 └─ network …
//! ```
//!
//! Supervisors do no work. Every node of the tree that has children is a [`branch`]: it starts actors, restarts the
//! ones that fail, each on its own count, and stops them in order. A resource gets a branch when its first child
//! appears; its own actor then moves into that branch, beside its children, so that its failure is not theirs.

pub mod branch;
pub mod clouds;
pub mod dispatcher;
pub mod inspection;
pub mod inspector;
pub mod regions;
pub mod tree;

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, SpawnErr};

use crate::actors::pass::OPERATION_RETENTION;
use crate::actors::resource::FirstPass;
use crate::actors::{Environment, kind};
use crate::graph::message::Message;
use crate::model::WRITER_VERSION;
use crate::model::ids::Kind;
use crate::model::operation::OperationDetail;
use crate::store::{Batch, Filter, Pages, StoreError, Write};
use branch::{Branch, BranchMessage, Planting};
use dispatcher::Dispatcher;
use inspector::Inspector;
use regions::{CloudFactory, Regions};
use tree::Tree;

/// How many unsettled resources are looked at in the first second after a start, and in each one after. The pools
/// bound what reaches a cloud; this bounds what waits in front of them, so that new requests find room.
const RESTORED_PER_SECOND: u32 = 500;

/// How long a stop waits for changes that are on their way to a cloud. Longer than any honest call takes; shorter
/// than an orchestrator's patience, which is commonly half a minute.
pub const STOP_PATIENCE: Duration = Duration::from_secs(20);

/// A running control plane.
pub struct Supervision {
    environment: Arc<Environment>,
    root: ActorRef<BranchMessage>,
    regions: Arc<Regions>,
}

/// Why the control plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the root supervisor did not start: {0}")]
    Spawn(#[from] SpawnErr),
}

impl Supervision {
    /// Brings every stored resource to life: first the hooks of each kind, then the tree from its root, then the
    /// watch from the position at which the records were read.
    pub async fn start(environment: Arc<Environment>, factory: Arc<dyn CloudFactory>) -> Result<Self, StartError> {
        for entry in kind::all() {
            (entry.initialise)(&*environment.store).await?;
            upgrade(&environment, entry).await?;
        }
        let position = *environment.store.latest().borrow();
        let root = Branch::plant_root(&environment).await?;
        let tree = Tree::new(environment.graph.clone(), root.clone());
        let regions = Arc::new(Regions::new(Arc::clone(&environment), tree.clone(), factory));
        restore(&environment, &tree, &regions).await?;
        let dispatcher = Dispatcher::service(Arc::clone(&environment), tree, Arc::clone(&regions), position);
        let _ = root.cast(BranchMessage::Equip(vec![Arc::new(dispatcher)]));
        settle(&root, u8::MAX).await;
        ask_again(&environment).await?;
        Ok(Self { environment, root, regions })
    }

    #[must_use]
    pub const fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    #[must_use]
    pub const fn regions(&self) -> &Arc<Regions> {
        &self.regions
    }

    /// What the admin surface looks through.
    #[must_use]
    pub fn inspector(&self) -> Inspector {
        let tree = Tree::new(self.environment.graph.clone(), self.root.clone());
        Inspector::new(Arc::clone(&self.environment), tree, Arc::clone(&self.regions))
    }

    /// Stops in order: no new pass, reads cancelled, changes under way awaited within a bound, then the actors,
    /// leaves first, in the order of their keys.
    pub async fn stop(self, patience: Duration) {
        self.environment.stopping.cancel();
        if tokio::time::timeout(patience, self.environment.passes.drained()).await.is_err() {
            let left = self.environment.passes.now();
            tracing::warn!(
                passes = left,
                "stopping although calls have not answered; they are looked up at the next start"
            );
        }
        let _ = self.root.call(BranchMessage::Stop, Some(patience)).await;
        let _ = self.root.kill_and_wait(Some(patience)).await;
    }
}

/// Waits until the tree, down to `depth` levels below the root, has done what it was told so far.
async fn settle(root: &ActorRef<BranchMessage>, depth: u8) {
    let _ = root.call(|reply| BranchMessage::Ping { depth, reply }, None).await;
}

/// Brings metadata that an older version wrote up to date, before any actor sees it.
async fn upgrade(environment: &Environment, entry: &kind::KindEntry) -> Result<(), StoreError> {
    let mut pages = Pages::of(&*environment.store, Filter::of(entry.kind));
    while let Some(records) = pages.next().await? {
        for record in records.iter().filter(|record| record.metadata.writer_version < WRITER_VERSION) {
            let mut metadata = record.metadata.clone();
            (entry.upgrade)(metadata.writer_version, &mut metadata);
            metadata.writer_version = WRITER_VERSION;
            let write = Write::Intent {
                key: record.key,
                expected: record.revision,
                metadata: Box::new(metadata),
                spec: record.spec.clone(),
            };
            environment.store.commit(Batch::of(vec![write])).await?;
        }
    }
    Ok(())
}

/// Parents before children, page by page. What is settled starts idle; the rest takes turns.
async fn restore(environment: &Environment, tree: &Tree, regions: &Regions) -> Result<(), StoreError> {
    let mut pages = Pages::of(&*environment.store, Filter::of(Kind::Region));
    while let Some(records) = pages.next().await? {
        for record in records {
            regions.refresh(&record);
        }
    }
    let mut unsettled: u32 = 0;
    for entry in kind::all() {
        let mut pages = Pages::of(&*environment.store, Filter::of(entry.kind));
        while let Some(records) = pages.next().await? {
            for record in records {
                let turn = Duration::from_secs(1) * unsettled / RESTORED_PER_SECOND;
                let first_pass = FirstPass::restored(&record, turn);
                unsettled += u32::from(first_pass != FirstPass::WhenTold);
                tree.place(Planting { record, first_pass });
            }
            // So that the mailboxes of the root and the regions never hold more than a page.
            settle(tree.root(), 1).await;
        }
    }
    Ok(())
}

/// Verbs that had not ended when the last process did: their owners are told again, settled or not. So are those of
/// verbs that ended not long before, because what they led to may not have been seen any more.
async fn ask_again(environment: &Environment) -> Result<(), StoreError> {
    let mut pages = Pages::of(&*environment.store, Filter::of(Kind::Operation));
    while let Some(records) = pages.next().await? {
        for record in records {
            let open = record.detail.read::<OperationDetail>().is_ok_and(|detail| detail.is_open());
            let recent = environment.ambient.now().duration_since(record.metadata.created) <= OPERATION_RETENTION;
            if let (true, Some(owner)) = (open || recent, record.metadata.owner) {
                environment.graph.send(owner, Message::OperationRequested);
            }
        }
    }
    Ok(())
}
