//! The way to a resource's place in the tree.

use ractor::ActorRef;

use super::branch::{BranchMessage, Planting};
use crate::graph::Graph;
use crate::graph::snapshot::{Phase, Snapshot};
use crate::model::ids::{Key, Kind, RegionId};

/// How deep owners may lie. The deepest honest chain is identity, network, server, volume; a longer one is a cycle
/// in corrupt data.
const DEPTH_MAX: usize = 8;

/// Knows the root and follows owners. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    graph: Graph,
    root: ActorRef<BranchMessage>,
}

impl Tree {
    #[must_use]
    pub const fn new(graph: Graph, root: ActorRef<BranchMessage>) -> Self {
        Self { graph, root }
    }

    #[must_use]
    pub const fn root(&self) -> &ActorRef<BranchMessage> {
        &self.root
    }

    /// Sees to it that the record has an actor, in the branch where it belongs. One that lives is told of the record.
    pub fn place(&self, planting: Planting) {
        let record = &planting.record;
        let node = self.graph.ensure(record.key);
        if node.snapshot().phase == Phase::Unborn {
            node.publish(Snapshot {
                owner: record.metadata.owner,
                region: record.metadata.placement.region,
                ..Snapshot::unborn(record.key)
            });
        }
        let path = self.path(record.metadata.owner, record.metadata.placement.region);
        let _ = self.root.cast(BranchMessage::Place { path, planting });
    }

    /// The branches between the root and a resource, nearest to the resource first.
    #[must_use]
    pub fn path(&self, owner: Option<Key>, region: Option<RegionId>) -> Vec<Key> {
        let mut path = Vec::new();
        let mut above = owner;
        while let Some(key) = above {
            if path.len() >= DEPTH_MAX {
                break;
            }
            path.push(key);
            above = self.graph.node(key).and_then(|node| node.snapshot().owner);
        }
        // What a tenant owns hangs under the tenant, wherever it lies.
        let is_tenants = path.last().is_some_and(|top| matches!(top.kind, Kind::Organization | Kind::Project));
        path.extend(region.filter(|_| !is_tenants).map(RegionId::key));
        path
    }

    /// Passes a message to the branch that `key` lives in.
    pub fn tell(&self, key: Key, message: impl FnOnce(Vec<Key>) -> BranchMessage) {
        let Some(node) = self.graph.node(key) else { return };
        let snapshot = node.snapshot();
        let _ = self.root.cast(message(self.path(snapshot.owner, snapshot.region)));
    }
}
