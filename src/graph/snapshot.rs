//! What an actor shows of itself. Published on every transition, so that looking never disturbs it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::model::condition::Conditions;
use crate::model::ids::{Incarnation, Key, RegionId};

/// How many events an actor remembers of itself. The store keeps the history; this is for a glance.
pub const EVENTS_MAX: usize = 8;

/// Where an actor is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Phase {
    /// Known, but no actor has spoken yet.
    Unborn,
    /// Nothing to do until something changes. Exits: `Running`.
    Settled,
    /// A pass is under way. Exits: every other.
    Running,
    /// Waits for a message, with a timer as the safety net. Exits: `Running`.
    Waiting,
    /// Tries again later. Exits: `Running`.
    Retrying,
    /// Waits for the user or an operator. Exits: `Running`, once the intent changes or it is reset.
    Parked,
    /// An operator paused it. Exits: `Running`, once resumed or deleted.
    Paused,
    /// Failed too often in a row. Exits: `Running`, once an operator restarts it.
    Quarantined,
}

/// What an actor shows of itself.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub key: Key,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
    #[serde(flatten)]
    pub phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<RegionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Key>,
    pub generation: u64,
    pub deleting: bool,
    pub conditions: Conditions,
    /// The cloud has, or may have, something of it: the monitor looks out for it.
    pub realised: bool,
    /// Of what the cloud held when it was last as asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<u64>,
    pub passes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_wake: Option<Timestamp>,
    /// It waits for the cloud to finish something.
    pub on_cloud: bool,
    /// What it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<Key>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

/// Something that happened to an actor, in words for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    pub at: Timestamp,
    pub text: Arc<str>,
}

impl Snapshot {
    #[must_use]
    pub const fn unborn(key: Key) -> Self {
        Self {
            key,
            incarnation: None,
            phase: Phase::Unborn,
            name: None,
            region: None,
            owner: None,
            generation: 0,
            deleting: false,
            conditions: Conditions { available: None, healthy: None, active: None },
            realised: false,
            fingerprint: None,
            passes: 0,
            last_message: None,
            next_wake: None,
            on_cloud: false,
            waits_for: Vec::new(),
            events: Vec::new(),
        }
    }
}
