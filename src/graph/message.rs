//! What is said between actors, the store's watch, the monitors and operators.
//!
//! All of it is stimulus: a message makes its actor look again and never tells it what to do. So a message that is
//! lost, late or doubled costs time, not correctness.

use std::sync::Arc;

use ractor::RpcReplyPort;

use super::outcome::PassReport;
use super::snapshot::Snapshot;
use super::timers::TimerToken;
use crate::model::ids::Key;
use crate::model::record::Record;
use crate::providers::Sequence;
use crate::providers::call::Fact;

/// What an actor can be told.
pub enum Message {
    /// The store holds this now. A deletion that was asked for arrives like any other change.
    Changed(Arc<Record>),
    /// The record is gone.
    Removed,
    /// Who refers to this resource has changed.
    Referenced,
    /// A resource owned by this one is gone.
    ChildGone(Key),
    /// Something this resource waits for has become ready, has failed or is gone.
    DependencyMoved(Key),
    /// Somebody asked for a verb.
    OperationRequested,
    /// Somebody looked at the cloud.
    Observed(Observation),
    /// The pass that was running has ended.
    PassFinished(Box<PassReport>),
    TimerFired(TimerToken),
    Inspect(RpcReplyPort<Arc<Snapshot>>),
    /// An operator wants it to look again.
    Reconcile,
}

impl Message {
    /// Answers that somebody waits for, or that only come once, are never folded away.
    #[must_use]
    pub const fn is_answer(&self) -> bool {
        matches!(self, Self::PassFinished(_) | Self::Inspect(_) | Self::Removed)
    }

    /// For inspection: what the actor heard last.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Changed(_) => "changed",
            Self::Removed => "removed",
            Self::Referenced => "referenced",
            Self::ChildGone(_) => "child-gone",
            Self::DependencyMoved(_) => "dependency-moved",
            Self::OperationRequested => "operation-requested",
            Self::Observed(_) => "observed",
            Self::PassFinished(_) => "pass-finished",
            Self::TimerFired(_) => "timer-fired",
            Self::Inspect(_) => "inspect",
            Self::Reconcile => "reconcile",
        }
    }
}

/// What somebody saw in the cloud, and when they began to look.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    pub sequence: Sequence,
    pub sighting: Sighting,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Sighting {
    Present(Box<Fact>),
    /// A complete list did not have it.
    Absent,
}
