//! A verb that somebody asked for, made durable before it is executed.
//!
//! ```text
//!   Requested ──▶ Started ──▶ Succeeded
//!                        └──▶ Failed
//! ```
//!
//! The owning actor executes it. `Started` is written before the call, so that after a crash a verb that must not
//! be repeated is known to have an unknown outcome and is reported as failed instead.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{Key, Kind};
use super::record::ResourceKind;
use super::sealed::Sealed;

#[derive(Clone, Debug)]
pub struct Operation;

impl ResourceKind for Operation {
    const KIND: Kind = Kind::Operation;
    type Spec = OperationSpec;
    type Detail = OperationDetail;
}

/// What was asked, of whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationSpec {
    pub target: Key,
    pub verb: Verb,
    /// Nobody waits any longer than this; an operation not started by then is dropped.
    pub expires: Timestamp,
}

/// The verbs of all kinds. A kind that does not know a verb answers that it is unsupported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    Start,
    Stop,
    SoftReboot,
    HardReboot,
    ConsoleSession,
}

impl Verb {
    /// May the verb be sent again when the first answer was lost? Starting twice is starting; rebooting is not.
    #[must_use]
    pub const fn is_repeatable(self) -> bool {
        matches!(self, Self::Start | Self::Stop | Self::ConsoleSession)
    }
}

/// How far it has come. States only move forward.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum OperationDetail {
    /// Exits: `Started`, or `Failed` when it expires first.
    #[default]
    Requested,
    /// Sent, or about to be. Exits: `Succeeded`, `Failed`.
    Started,
    Succeeded {
        /// What the verb was for, where it is a secret (the address of a console).
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Sealed<String>>,
    },
    Failed {
        cause: OperationFailure,
        /// User-safe.
        message: String,
    },
}

/// Why an operation failed, as far as its asker is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperationFailure {
    /// The cloud has nothing that it could be done to.
    NotFound,
    /// It cannot be done in the state that the resource is in.
    Conflict,
    /// The cloud did not do it, or it is not known whether it did.
    Unavailable,
}

impl OperationDetail {
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Requested | Self::Started)
    }
}
