//! The real tree behind the admin surface: reads what actors published, and passes operators' verbs on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

use super::branch::BranchMessage;
use super::inspection::{
    ActorDetail, ActorEvent, ActorPage, ActorSummary, EdgeType, EdgeView, Inspection, OperatorVerb, OrphanPage,
    OrphanView, QuarantinedActor, SimulatedAdmin, TreeNode, VerbError,
};
use super::regions::Regions;
use super::tree::Tree;
use crate::actors::{Environment, kind};
use crate::graph::Node;
use crate::graph::message::Message;
use crate::graph::snapshot::{Phase, Snapshot};
use crate::model::edge::Holder;
use crate::model::ids::{Key, Kind, RegionId};
use crate::model::metadata::Metadata;
use crate::model::orphan::{Orphan, Stray, Why};
use crate::store::{Batch, Refusal, StoreError, Write};

/// How many children of one node the tree shows. A person reads a screenful; the list of actors has the rest.
const TREE_CHILDREN_MAX: usize = 100;

/// How many edges one answer shows when no resource is named.
const EDGES_MAX: usize = 1000;

/// How often a change of metadata is tried again when somebody else was quicker.
const CHANGE_TRIES_MAX: usize = 16;

/// Looks at the running tree.
pub struct Inspector {
    environment: Arc<Environment>,
    tree: Tree,
    regions: Arc<Regions>,
}

impl Inspector {
    pub(super) const fn new(environment: Arc<Environment>, tree: Tree, regions: Arc<Regions>) -> Self {
        Self { environment, tree, regions }
    }

    async fn edges_of(&self, key: Key) -> Result<Vec<EdgeView>, StoreError> {
        let store = &self.environment.store;
        let mut edges = Vec::new();
        if let Some(record) = store.get(key).await? {
            if let Some(owner) = record.metadata.owner {
                edges.push(edge(EdgeType::Owner, &key, &owner, &format!("supervisor of {owner}")));
            }
            let follower = kind::entry(key.kind).and_then(|entry| (entry.followed_by)(&record).ok().flatten());
            if let Some(follower) = follower {
                let is_principal = follower.kind == Kind::Identity;
                let named = if is_principal { EdgeType::HiddenPrincipal } else { EdgeType::OwnNetwork };
                edges.push(edge(named, &key, &follower, &format!("supervisor of {follower}")));
            }
            if let (true, Some(organization)) = (record.metadata.charged, record.metadata.principal.organization) {
                let ledger = format!("ledger of {}", organization.key());
                edges.push(edge(EdgeType::Allocation, &key, &organization.key(), &ledger));
            }
        }
        let bridges = |to| kind::entry(key.kind).is_some_and(|entry| (entry.is_bridge_to)(to));
        for holder in store.references(key).await? {
            edges.push(edge(EdgeType::Reference, &holder, &key, &key.to_string()));
            if let Holder::Resource(holder) = &holder
                && bridges(holder.kind)
            {
                edges.push(edge(EdgeType::Bridge, &key, holder, &key.to_string()));
            }
        }
        for target in store.referred_by(&Holder::Resource(key)).await? {
            let responsible = if kind::entry(target.kind).is_some() { target.to_string() } else { "store".to_owned() };
            edges.push(edge(EdgeType::Reference, &key, &target, &responsible));
        }
        for child in store.children(key).await? {
            edges.push(edge(EdgeType::Owner, &child, &key, &format!("supervisor of {key}")));
        }
        for waiter in self.environment.graph.node(key).map(|node| node.dependants()).unwrap_or_default() {
            edges.push(edge(EdgeType::Subscription, &waiter, &key, &key.to_string()));
        }
        Ok(edges)
    }

    fn orphan(&self, region: RegionId, orphan: Orphan) -> OrphanView {
        let Stray { key, incarnation, why } = orphan.stray;
        // By its name alone, the command for another life's would reach the living one as well.
        let is_alone = why == Why::NoRecord;
        let removal = self.environment.clouds.get(region).filter(|_| is_alone).and_then(|cloud| cloud.removal(key));
        OrphanView {
            region,
            kind: key.kind,
            id: key.id,
            incarnation: incarnation.0,
            why: why.word().to_owned(),
            since: orphan.since,
            removal,
        }
    }

    /// Changes what operators may change of a resource, whoever else is writing.
    async fn change(&self, key: Key, change: impl Fn(&mut Metadata)) -> Result<(), VerbError> {
        for _ in 0..CHANGE_TRIES_MAX {
            let record = self.environment.store.get(key).await.map_err(|_| VerbError::Unavailable)?;
            let record = record.ok_or(VerbError::NotFound)?;
            let mut metadata = record.metadata.clone();
            change(&mut metadata);
            let (expected, spec) = (record.revision, record.spec.clone());
            let write = Write::Intent { key, expected, metadata: Box::new(metadata), spec };
            match self.environment.store.commit(Batch::of(vec![write])).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Refused(Refusal::Conflict(_))) => {}
                Err(_) => return Err(VerbError::Unavailable),
            }
        }
        Err(VerbError::Unavailable)
    }
}

fn edge(edge_type: EdgeType, from: &impl ToString, to: &impl ToString, responsible: &str) -> EdgeView {
    EdgeView { edge_type, from: from.to_string(), to: to.to_string(), responsible: responsible.to_owned() }
}

const fn word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Unborn => "unborn",
        Phase::Settled => "settled",
        Phase::Running => "running",
        Phase::Waiting => "waiting",
        Phase::Retrying => "retrying",
        Phase::Parked => "parked",
        Phase::Paused => "paused",
        Phase::Quarantined => "quarantined",
    }
}

fn summary(node: &Node, snapshot: &Snapshot) -> ActorSummary {
    ActorSummary {
        kind: snapshot.key.kind,
        id: snapshot.key.id,
        name: snapshot.name.as_deref().unwrap_or_default().to_owned(),
        state: word(&snapshot.phase).to_owned(),
        restarts: node.restarts(),
        next_wake: snapshot.next_wake,
    }
}

/// Lays nodes out below their owners, each list in order of key and cut at a screenful.
fn grow(name: String, key: Option<Key>, nodes: &BTreeMap<Option<Key>, Vec<Arc<Node>>>) -> TreeNode {
    let below = nodes.get(&key).map(Vec::as_slice).unwrap_or_default();
    let shown = below.iter().take(TREE_CHILDREN_MAX);
    let children = shown.map(|node| {
        let snapshot = node.snapshot();
        let label = snapshot.name.as_deref().map_or_else(|| node.key().to_string(), str::to_owned);
        let mut child = grow(label, Some(node.key()), nodes);
        word(&snapshot.phase).clone_into(&mut child.state);
        child.restarts = node.restarts();
        child
    });
    TreeNode {
        name,
        key,
        state: "supervising".to_owned(),
        restarts: 0,
        children: children.collect(),
        omitted: below.len().saturating_sub(TREE_CHILDREN_MAX),
    }
}

#[async_trait]
impl Inspection for Inspector {
    async fn actors(&self, kind: Option<Kind>, page: ActorPage) -> Vec<ActorSummary> {
        let nodes = self.environment.graph.nodes();
        let wanted = nodes.iter().filter(|node| {
            kind.is_none_or(|kind| node.key().kind == kind) && page.after.is_none_or(|after| node.key() > after)
        });
        wanted.take(page.limit).map(|node| summary(node, &node.snapshot())).collect()
    }

    async fn actor(&self, key: Key) -> Option<ActorDetail> {
        let node = self.environment.graph.node(key)?;
        let snapshot = node.snapshot();
        let waiting = snapshot.waits_for.iter().map(ToString::to_string).collect::<Vec<_>>();
        Some(ActorDetail {
            summary: summary(&node, &snapshot),
            generation: snapshot.generation,
            paused: snapshot.phase == Phase::Paused,
            conditions: snapshot.conditions.clone(),
            waiting_for: (!waiting.is_empty()).then(|| waiting.join(", ")),
            last_message: snapshot.last_message.map(str::to_owned),
            mailbox_depth: node.depth(),
            events: snapshot
                .events
                .iter()
                .map(|event| ActorEvent { at: event.at, what: event.text.to_string() })
                .collect(),
            history: self.environment.store.history(key).await.unwrap_or_default(),
        })
    }

    async fn tree(&self) -> TreeNode {
        let mut nodes: BTreeMap<Option<Key>, Vec<Arc<Node>>> = BTreeMap::new();
        for node in self.environment.graph.nodes() {
            let snapshot = node.snapshot();
            let above = snapshot.owner.or_else(|| snapshot.region.map(RegionId::key));
            nodes.entry(above).or_default().push(node);
        }
        let mut root = grow("root".to_owned(), None, &nodes);
        // Regions that are configured, and those that are not any more but still have resources.
        let populated = nodes.keys().flatten().filter(|key| key.kind == Kind::Region).copied();
        let regions = populated.chain(self.regions.running().into_iter().map(RegionId::key)).collect::<BTreeSet<_>>();
        root.children.extend(regions.into_iter().map(|region| grow(region.to_string(), Some(region), &nodes)));
        root
    }

    async fn edges(&self, of: Option<Key>) -> Vec<EdgeView> {
        let keys = match of {
            Some(key) => vec![key],
            None => self.environment.graph.nodes().iter().map(|node| node.key()).collect(),
        };
        let mut edges = Vec::new();
        for key in keys {
            let mut found = self.edges_of(key).await.unwrap_or_default();
            // In the list of all, each edge is shown once: where it begins, or where it comes in from outside.
            let beginning = key.to_string();
            found.retain(|edge| of.is_some() || edge.from == beginning || edge.edge_type == EdgeType::Reference);
            edges.extend(found);
            if of.is_none() && edges.len() >= EDGES_MAX {
                edges.truncate(EDGES_MAX);
                break;
            }
        }
        edges
    }

    async fn verb(&self, key: Key, verb: OperatorVerb) -> Result<(), VerbError> {
        self.environment.graph.node(key).ok_or(VerbError::NotFound)?;
        match verb {
            OperatorVerb::Reconcile => {
                if self.environment.graph.send(key, Message::Reconcile) {
                    Ok(())
                } else {
                    Err(VerbError::Unavailable)
                }
            }
            OperatorVerb::Restart => {
                self.tree.tell(key, |path| BranchMessage::Restart { path, key });
                Ok(())
            }
            OperatorVerb::Pause => self.change(key, |metadata| metadata.paused = true).await,
            OperatorVerb::Resume => self.change(key, |metadata| metadata.paused = false).await,
            OperatorVerb::Reset => self.change(key, |metadata| metadata.resets += 1).await,
        }
    }

    async fn quarantine(&self) -> Vec<QuarantinedActor> {
        let nodes = self.environment.graph.nodes();
        let quarantined =
            nodes.iter().map(|node| node.snapshot()).filter(|snapshot| snapshot.phase == Phase::Quarantined);
        quarantined
            .map(|snapshot| {
                let last = snapshot.events.last();
                QuarantinedActor {
                    kind: snapshot.key.kind,
                    id: snapshot.key.id,
                    since: last.map_or_else(|| self.environment.ambient.now(), |event| event.at),
                    reason: last.map_or_else(String::new, |event| event.text.to_string()),
                }
            })
            .collect()
    }

    async fn orphans(&self, page: OrphanPage) -> Vec<OrphanView> {
        let orphans = self.environment.graph.orphans(page.region);
        let is_later =
            |(region, orphan): &(RegionId, Orphan)| page.after.is_none_or(|after| (*region, orphan.stray.key) > after);
        let shown = orphans.into_iter().filter(is_later).take(page.limit);
        shown.map(|(region, orphan)| self.orphan(region, orphan)).collect()
    }

    async fn simulated(&self, region: RegionId) -> Option<Arc<dyn SimulatedAdmin>> {
        self.regions.simulated(region)
    }
}
