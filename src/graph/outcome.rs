//! What a pass came to, and what follows from it.

use std::sync::Arc;
use std::time::Duration;

use crate::model::condition::{Reason, Statement, Truth};
use crate::model::ids::Key;
use crate::model::record::{Record, Revision};
use crate::providers::Sequence;

/// Where a pass ended. Ordered by severity: of several at once, the greatest is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The cloud holds what is asked for.
    Done,
    /// The cloud holds what is asked for, and is still busy with it, or with what it lies on (`waits_for`).
    Watching { message: String, waits_for: Vec<Key> },
    /// An operator or the client paused it.
    Paused,
    /// Nothing to do until something happens; looked at again after the safety net all the same.
    Yield { reason: Reason, message: String, waits_for: Vec<Key>, on_cloud: bool },
    /// Something failed that may not fail again.
    Retry { message: String, after: Option<Duration> },
    /// Parked until what is asked for changes.
    UserActionRequired { reason: Reason, message: String },
    /// Parked until an operator resets it.
    Terminal { reason: Reason, message: String },
}

impl Outcome {
    #[must_use]
    pub const fn severity(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Watching { .. } => 1,
            Self::Paused => 2,
            Self::Yield { .. } => 3,
            Self::Retry { .. } => 4,
            Self::UserActionRequired { .. } => 5,
            Self::Terminal { .. } => 6,
        }
    }

    /// Waits for the cloud to finish something it has accepted.
    #[must_use]
    pub fn on_cloud(message: impl Into<String>, reason: Reason) -> Self {
        Self::Yield { reason, message: message.into(), waits_for: Vec::new(), on_cloud: true }
    }

    /// What the Available axis says of it; `None` leaves the axis as it is. A retry keeps the resource under way:
    /// only `exhausted` tries and what is parked are errors.
    #[must_use]
    pub fn available(&self, deleting: bool, exhausted: bool) -> Option<Statement> {
        let under_way = if deleting { Reason::Deprovisioning } else { Reason::Provisioning };
        match self {
            Self::Paused => None,
            Self::Done | Self::Watching { .. } => Some(Statement::new(Truth::True, Reason::Provisioned, "provisioned")),
            Self::Yield { reason, message, .. } => Some(Statement::new(Truth::False, *reason, message.clone())),
            Self::Retry { message, .. } => {
                let reason = if exhausted { Reason::Errored } else { under_way };
                Some(Statement::new(Truth::False, reason, message.clone()))
            }
            Self::UserActionRequired { reason, message } | Self::Terminal { reason, message } => {
                Some(Statement::new(Truth::False, *reason, message.clone()))
            }
        }
    }
}

/// How a pass ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// The record as the pass left it.
    Concluded { outcome: Outcome, record: Arc<Record> },
    /// The resource is gone from the store.
    Removed,
    /// The pass was told to stop because something newer is wanted.
    Cancelled,
    /// The pass panicked: its actor fails with it.
    Panicked(String),
}

/// Sent by a pass to its actor.
#[derive(Clone, Debug)]
pub struct PassReport {
    pub pass: u64,
    pub ending: Ending,
    /// The newest look at the cloud that the pass had.
    pub sequence: Option<Sequence>,
    /// Verbs that have not ended are left.
    pub operations_left: bool,
    /// Some of them have not been looked at.
    pub operations_cut: bool,
    /// The intent whose references were found even.
    pub even: Option<Revision>,
}
