//! What an operator may see of the running tree, and what they may ask of it.
//!
//! The admin surface speaks to this trait and never to an actor: answers come from published snapshots, so that
//! looking costs the actors nothing, and a test can put a fixed tree behind the surface.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::condition::{Conditions, Transition};
use crate::model::ids::{Key, Kind, RegionId};

/// The most actors that one answer lists: a page an operator can read, and a bounded answer whatever the tree holds.
pub const ACTORS_PAGE_MAX: usize = 500;

/// The most orphans that one answer lists.
pub const ORPHANS_PAGE_MAX: usize = 500;

/// A bounded piece of the list of orphans, in ascending order of region, kind and id.
#[derive(Clone, Copy, Debug)]
pub struct OrphanPage {
    pub region: Option<RegionId>,
    pub after: Option<(RegionId, Key)>,
    pub limit: usize,
}

/// An object of a cloud that carries our marks and that no record owns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrphanView {
    pub region: RegionId,
    pub kind: Kind,
    pub id: Uuid,
    pub incarnation: Uuid,
    /// `no-record`, or `another-life`: the record under this id was made later.
    pub why: String,
    /// When it was first seen so, since the process was started.
    pub since: Timestamp,
    /// What takes it away by hand, where the provider knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removal: Option<String>,
}

/// A bounded piece of the list of actors, in ascending order of kind and id.
#[derive(Clone, Copy, Debug)]
pub struct ActorPage {
    pub after: Option<Key>,
    pub limit: usize,
}

/// One line of the list of actors.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorSummary {
    pub kind: Kind,
    pub id: Uuid,
    pub name: String,
    /// What the actor is doing, in one word of its state machine.
    pub state: String,
    pub restarts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_wake: Option<Timestamp>,
}

/// One actor as its last published snapshot shows it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorDetail {
    #[serde(flatten)]
    pub summary: ActorSummary,
    pub generation: u64,
    pub paused: bool,
    pub conditions: Conditions,
    /// Why it waits, when it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
    pub mailbox_depth: u64,
    /// The last things that happened, oldest first.
    pub events: Vec<ActorEvent>,
    pub history: Vec<Transition>,
}

/// One thing that happened to an actor.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorEvent {
    pub at: Timestamp,
    pub what: String,
}

/// A supervisor or an actor, and those it watches.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeNode {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    pub state: String,
    pub restarts: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<TreeNode>,
    /// How many more children there are than are shown.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// One edge of the lifecycle graph and who answers for it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeView {
    #[serde(rename = "type")]
    pub edge_type: EdgeType,
    pub from: String,
    pub to: String,
    pub responsible: String,
}

/// The edges of the lifecycle graph, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeType {
    Owner,
    Reference,
    Allocation,
    HiddenPrincipal,
    OwnNetwork,
    Bridge,
    Subscription,
}

/// What an operator may ask of one actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperatorVerb {
    /// Wake it now.
    Reconcile,
    Pause,
    Resume,
    /// Stop and start the actor, not the resource.
    Restart,
    /// Forget a terminal failure.
    Reset,
}

impl OperatorVerb {
    pub const ALL: [Self; 5] = [Self::Reconcile, Self::Pause, Self::Resume, Self::Restart, Self::Reset];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reconcile => "reconcile",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Restart => "restart",
            Self::Reset => "reset",
        }
    }

    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }
}

/// Why a verb was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbError {
    #[error("no such actor")]
    NotFound,
    /// The text is safe to show.
    #[error("{0}")]
    Refused(String),
    #[error("the actor did not answer in time")]
    Unavailable,
}

/// An actor that was given up on until somebody looks at it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuarantinedActor {
    pub kind: Kind,
    pub id: Uuid,
    pub since: Timestamp,
    pub reason: String,
}

/// A fault description that the simulated cloud does not understand. The text is safe to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFault(pub String);

/// The operator's side of a simulated cloud: its books, its log of calls, its faults.
#[async_trait]
pub trait SimulatedAdmin: Send + Sync {
    async fn inventory(&self) -> serde_json::Value;
    /// The calls after a position of the cloud's own log.
    async fn calls(&self, after: u64) -> serde_json::Value;
    async fn inject(&self, fault: serde_json::Value) -> Result<(), InvalidFault>;
    async fn clear(&self);
}

/// The running tree as an operator sees it.
#[async_trait]
pub trait Inspection: Send + Sync {
    async fn actors(&self, kind: Option<Kind>, page: ActorPage) -> Vec<ActorSummary>;
    async fn actor(&self, key: Key) -> Option<ActorDetail>;
    async fn tree(&self) -> TreeNode;
    async fn edges(&self, of: Option<Key>) -> Vec<EdgeView>;
    async fn verb(&self, key: Key, verb: OperatorVerb) -> Result<(), VerbError>;
    async fn quarantine(&self) -> Vec<QuarantinedActor>;
    /// As the monitors saw it last; nothing of a region that could not be looked at twice yet.
    async fn orphans(&self, page: OrphanPage) -> Vec<OrphanView>;
    /// `None` for a region that is not simulated, or not there.
    async fn simulated(&self, region: RegionId) -> Option<Arc<dyn SimulatedAdmin>>;
}
