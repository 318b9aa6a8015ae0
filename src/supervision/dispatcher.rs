//! The dispatcher: turns what the store did into messages. The one path from accepted intent to an actor.
//!
//! It reads the change log from a position, so a dispatcher that failed goes on where it stood, and one that was
//! away too long reads everything again. It decides nothing: an actor is told, or given a place in the tree.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr};

use super::branch::Planting;
use super::regions::Regions;
use super::tree::Tree;
use crate::actors::resource::FirstPass;
use crate::actors::{Environment, kind, tasks};
use crate::graph::Service;
use crate::graph::message::Message;
use crate::model::ids::{Key, Kind, OperationId};
use crate::model::operation::{OperationDetail, OperationFailure};
use crate::model::record::Record;
use crate::store::{Change, ChangeEvent, Changes, Filter, Pages, Position, StoreError};

/// How many changes are read at once: enough to keep up with a full group commit, few enough to stay small.
const READ_MAX: usize = 1024;

/// How long to wait before reading again when the store did not answer.
const STORE_PATIENCE: std::time::Duration = std::time::Duration::from_millis(200);

/// The dispatcher, as its supervisor keeps it running.
pub struct DispatcherService {
    shared: Shared,
}

#[derive(Clone)]
pub struct Shared {
    environment: Arc<Environment>,
    tree: Tree,
    regions: Arc<Regions>,
    /// Outlives the actor: everything up to here has been told.
    position: Arc<AtomicU64>,
}

pub struct Dispatcher;

/// There may be something to read.
pub struct Pull;

impl Dispatcher {
    pub fn service(
        environment: Arc<Environment>,
        tree: Tree,
        regions: Arc<Regions>,
        position: Position,
    ) -> DispatcherService {
        let position = Arc::new(AtomicU64::new(position.0));
        DispatcherService { shared: Shared { environment, tree, regions, position } }
    }
}

impl Service for DispatcherService {
    fn name(&self) -> &'static str {
        "dispatcher"
    }

    fn spawn(&self, supervisor: ActorCell) -> BoxFuture<'_, Result<ActorCell, SpawnErr>> {
        let shared = self.shared.clone();
        async move {
            let (actor, _) = Actor::spawn_linked(None, Dispatcher, shared, supervisor).await?;
            Ok(actor.get_cell())
        }
        .boxed()
    }
}

impl Actor for Dispatcher {
    type Msg = Pull;
    type State = Shared;
    type Arguments = Shared;

    async fn pre_start(&self, myself: ActorRef<Pull>, shared: Shared) -> Result<Shared, ActorProcessingErr> {
        let _ = myself.cast(Pull);
        Ok(shared)
    }

    async fn handle(&self, myself: ActorRef<Pull>, _: Pull, shared: &mut Shared) -> Result<(), ActorProcessingErr> {
        // Subscribed before the read: what is committed in between wakes us again.
        let mut latest = shared.environment.store.latest();
        latest.mark_unchanged();
        let patience = match shared.read().await {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(%error, "the change log could not be read");
                Some(STORE_PATIENCE)
            }
        };
        let delay = shared.environment.options.dispatch_delay;
        tasks::spawn("wait for the next commit", async move {
            if let Some(patience) = patience {
                tokio::time::sleep(patience).await;
            } else if latest.changed().await.is_err() {
                return;
            }
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let _ = myself.cast(Pull);
        });
        Ok(())
    }
}

impl Shared {
    async fn read(&self) -> Result<(), StoreError> {
        loop {
            let after = Position(self.position.load(Ordering::Relaxed));
            match self.environment.store.changes(after, READ_MAX).await? {
                Changes::Next(changes) if changes.is_empty() => return Ok(()),
                Changes::Next(changes) => {
                    for change in changes {
                        let position = change.position;
                        self.apply(change);
                        self.position.store(position.0, Ordering::Relaxed);
                    }
                }
                Changes::Resync(position) => {
                    self.resync().await?;
                    self.position.store(position.0, Ordering::Relaxed);
                }
            }
        }
    }

    fn apply(&self, change: Change) {
        match change.event {
            ChangeEvent::Put(record) if record.key.kind == Kind::Region => self.regions.refresh(&record),
            ChangeEvent::Put(record) if record.key.kind == Kind::Operation => self.operation(&record),
            ChangeEvent::Put(record) => self.put(record),
            ChangeEvent::Referenced => {
                self.environment.graph.send(change.key, Message::Referenced);
            }
            ChangeEvent::Removed(_) => self.removed(change.key),
        }
    }

    fn put(&self, record: Arc<Record>) {
        let key = record.key;
        if kind::entry(key.kind).is_none() {
            return;
        }
        let graph = &self.environment.graph;
        let waiters = graph.node(key).map(|node| node.listeners(node.announces(&record)));
        if !graph.send(key, Message::Changed(Arc::clone(&record))) {
            self.tree.place(Planting { record, first_pass: FirstPass::Now });
        }
        for waiter in waiters.into_iter().flatten() {
            graph.send(waiter, Message::DependencyMoved(key));
        }
    }

    /// A verb was asked for, or has come further: its owner is told of the one, whoever waits of the other.
    fn operation(&self, record: &Record) {
        let graph = &self.environment.graph;
        let Ok(detail) = record.detail.read::<OperationDetail>() else { return };
        match (detail, record.metadata.owner) {
            (OperationDetail::Requested, Some(owner)) => {
                graph.send(owner, Message::OperationRequested);
            }
            (OperationDetail::Requested | OperationDetail::Started, _) => {}
            (ended, _) => graph.completions().complete(OperationId(record.key.id), ended),
        }
    }

    fn removed(&self, key: Key) {
        let graph = &self.environment.graph;
        if key.kind == Kind::Operation {
            // It went with its server, and whoever waits for it need not wait any longer.
            let (cause, message) = (OperationFailure::NotFound, "the server is gone".to_owned());
            graph.completions().complete(OperationId(key.id), OperationDetail::Failed { cause, message });
            return;
        }
        graph.send(key, Message::Removed);
        graph.remove(key);
    }

    /// Everything again: what is stored is told or placed, what is not stored any more is ended.
    async fn resync(&self) -> Result<(), StoreError> {
        tracing::warn!("the change log does not reach back far enough; reading everything again");
        let mut stored = BTreeSet::new();
        let store = &*self.environment.store;
        let mut pages = Pages::of(store, Filter::of(Kind::Region));
        while let Some(records) = pages.next().await? {
            for record in &records {
                self.regions.refresh(record);
            }
        }
        for entry in kind::all() {
            let mut pages = Pages::of(store, Filter::of(entry.kind));
            while let Some(records) = pages.next().await? {
                for record in records {
                    stored.insert(record.key);
                    self.put(record);
                }
            }
        }
        let mut pages = Pages::of(store, Filter::of(Kind::Operation));
        while let Some(records) = pages.next().await? {
            for record in &records {
                self.operation(record);
            }
        }
        for node in self.environment.graph.nodes() {
            if !stored.contains(&node.key()) {
                self.removed(node.key());
            }
        }
        Ok(())
    }
}
