//! The three axes of a resource's status, each an independent condition.
//!
//! *Available* says whether what was asked for has been made, *Healthy* whether what was made is well, *Active*
//! whether it runs. The owning actor writes them; a write that changes nothing but the time is not a write.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::server::ServerPhase;

/// Is the axis' statement true?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Truth {
    True,
    False,
    Unknown,
}

/// Why the axis is where it is. One vocabulary for all axes; [`super::projection`] narrows it per surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    Provisioning,
    Provisioned,
    Errored,
    Deprovisioning,
    Deprovisioned,
    DependencyNotReady,
    DependencyFailed,
    DependencyNotFound,
    /// The cloud could not bring it up; it is made again.
    ProviderCreateRetrying,
    /// The cloud could not bring it up, as often as it was asked.
    ProviderCreateFailed,
    ServerRebuildFailed,
    ServerResizeFailed,
    /// What it held is gone with it: it is not made again.
    VolumeLost,
    Healthy,
    Degraded,
    Unknown,
    /// Where a machine is in its life: the Active axis. Written as the phase's own word.
    #[serde(untagged)]
    Phase(ServerPhase),
}

impl Reason {
    /// Somebody has to act before it can go on.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Errored
                | Self::DependencyNotFound
                | Self::ProviderCreateFailed
                | Self::ServerRebuildFailed
                | Self::ServerResizeFailed
                | Self::VolumeLost
        )
    }
}

/// One axis at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    pub status: Truth,
    pub reason: Reason,
    /// User-safe: no provider internals, no credentials, nothing the user sent.
    pub message: String,
    pub last_transition: Timestamp,
    pub observed_generation: u64,
}

/// Names an axis, in events and in history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Axis {
    Available,
    Healthy,
    Active,
}

/// What an axis should say from now on; the actor adds the time and the generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub status: Truth,
    pub reason: Reason,
    pub message: String,
}

impl Statement {
    pub fn new(status: Truth, reason: Reason, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into() }
    }
}

/// All axes of one resource. An axis that nobody has spoken of yet is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy: Option<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Condition>,
}

impl Conditions {
    #[must_use]
    pub const fn axis(&self, axis: Axis) -> Option<&Condition> {
        match axis {
            Axis::Available => self.available.as_ref(),
            Axis::Healthy => self.healthy.as_ref(),
            Axis::Active => self.active.as_ref(),
        }
    }

    /// States `axis`; tells whether the statement is news. The transition time moves only when the truth does.
    pub fn state(&mut self, axis: Axis, statement: Statement, generation: u64, now: Timestamp) -> bool {
        let slot = match axis {
            Axis::Available => &mut self.available,
            Axis::Healthy => &mut self.healthy,
            Axis::Active => &mut self.active,
        };
        let last_transition = match slot {
            Some(old) if old.status == statement.status => {
                let same = old.reason == statement.reason && old.message == statement.message;
                if same && old.observed_generation == generation {
                    return false;
                }
                old.last_transition
            }
            _ => now,
        };
        *slot = Some(Condition {
            status: statement.status,
            reason: statement.reason,
            message: statement.message,
            last_transition,
            observed_generation: generation,
        });
        true
    }

    /// The resource is made, for this generation or an earlier one.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.available.as_ref().is_some_and(|condition| condition.status == Truth::True)
    }

    /// The resource cannot be made without somebody acting.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.available.as_ref().is_some_and(|condition| condition.reason.is_failure())
    }
}

/// One entry of a resource's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    pub at: Timestamp,
    pub axis: Axis,
    pub status: Truth,
    pub reason: Reason,
    pub message: String,
    pub observed_generation: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn stating_the_same_again_is_not_news() {
        let mut conditions = Conditions::default();
        let statement = Statement::new(Truth::False, Reason::Provisioning, "provisioning");
        assert!(conditions.state(Axis::Available, statement.clone(), 1, at(10)));
        assert!(!conditions.state(Axis::Available, statement, 1, at(20)));
    }

    #[test]
    fn the_transition_time_moves_only_with_the_truth() {
        let mut conditions = Conditions::default();
        conditions.state(Axis::Available, Statement::new(Truth::False, Reason::Provisioning, "a"), 1, at(10));
        conditions.state(Axis::Available, Statement::new(Truth::False, Reason::Errored, "b"), 1, at(20));
        assert_eq!(conditions.available.as_ref().map(|condition| condition.last_transition), Some(at(10)));
        conditions.state(Axis::Available, Statement::new(Truth::True, Reason::Provisioned, "c"), 1, at(30));
        assert_eq!(conditions.available.as_ref().map(|condition| condition.last_transition), Some(at(30)));
    }
}
