//! What a surface may say of a resource: total functions from the rich inside to each narrow outside.

use serde::Serialize;

use super::condition::{Condition, Reason, Truth};
use super::record::Record;
use super::resize::ResizeState;
use super::server::{ServerDetail, ServerPhase};

/// The words that clients poll for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ResourceProvisioningStatus)]
pub enum ProvisioningStatus {
    Pending,
    Provisioning,
    Provisioned,
    Deprovisioning,
    Error,
}

/// How what was made is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ResourceHealthStatus)]
pub enum HealthStatus {
    Unknown,
    Healthy,
    Degraded,
    Error,
}

/// The provisioning word of a record. A generation that nobody has acted on yet is under way, whatever was true
/// of the one before it.
#[must_use]
pub fn provisioning_status(record: &Record) -> ProvisioningStatus {
    if record.metadata.is_deleting() {
        return ProvisioningStatus::Deprovisioning;
    }
    match &record.conditions.available {
        None => ProvisioningStatus::Pending,
        Some(condition) if condition.observed_generation < record.metadata.generation => {
            ProvisioningStatus::Provisioning
        }
        Some(condition) => provisioning_word(condition.reason),
    }
}

const fn provisioning_word(reason: Reason) -> ProvisioningStatus {
    match reason {
        Reason::Provisioned => ProvisioningStatus::Provisioned,
        reason if reason.is_failure() => ProvisioningStatus::Error,
        Reason::Deprovisioning | Reason::Deprovisioned => ProvisioningStatus::Deprovisioning,
        _ => ProvisioningStatus::Provisioning,
    }
}

/// The health word of the Healthy axis.
#[must_use]
pub const fn health_status(healthy: Option<&Condition>) -> HealthStatus {
    let Some(condition) = healthy else { return HealthStatus::Unknown };
    match (condition.status, condition.reason) {
        (_, Reason::Errored) => HealthStatus::Error,
        (Truth::True, _) => HealthStatus::Healthy,
        (Truth::False, _) => HealthStatus::Degraded,
        (Truth::Unknown, _) => HealthStatus::Unknown,
    }
}

/// The words for a server's power that clients of region know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = instanceLifecyclePhase)]
pub enum RegionPowerState {
    Pending,
    Queued,
    Building,
    Rebuilding,
    Running,
    Stopping,
    Stopped,
    Error,
}

/// The power word of a server. What the cloud does not know now, it is said to be where it was last seen.
#[must_use]
pub const fn region_power_state(phase: ServerPhase, phase_seen: ServerPhase) -> RegionPowerState {
    let phase = match phase {
        ServerPhase::Vanished | ServerPhase::Unknown => phase_seen,
        phase => phase,
    };
    match phase {
        // A server that was never seen, or only vanished, is as one that is still to come.
        ServerPhase::Pending | ServerPhase::Starting | ServerPhase::Vanished | ServerPhase::Unknown => {
            RegionPowerState::Pending
        }
        ServerPhase::Queued => RegionPowerState::Queued,
        ServerPhase::Building => RegionPowerState::Building,
        // The words are fixed, and of those this is the one for a machine that is being made into another.
        ServerPhase::Rebuilding | ServerPhase::Resizing => RegionPowerState::Rebuilding,
        ServerPhase::Running => RegionPowerState::Running,
        ServerPhase::Stopping => RegionPowerState::Stopping,
        ServerPhase::Stopped | ServerPhase::Paused | ServerPhase::Suspended | ServerPhase::Crashed => {
            RegionPowerState::Stopped
        }
        ServerPhase::Error => RegionPowerState::Error,
    }
}

/// The words for an instance's power that clients of compute know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = computeLifecyclePhase)]
pub enum ComputePowerState {
    Pending,
    Queued,
    Building,
    Running,
    Stopping,
    Stopped,
}

/// The power word of an instance: fewer than a server's. A rebuild is a building. Of what has failed, and of what the
/// cloud does not know now, it is said where it was last; the health explains it.
#[must_use]
pub const fn compute_power_state(phase: ServerPhase, phase_seen: ServerPhase) -> ComputePowerState {
    let phase = match phase {
        ServerPhase::Error => phase_seen,
        phase => phase,
    };
    match region_power_state(phase, phase_seen) {
        // Never seen but in error: nothing of it ran.
        RegionPowerState::Pending | RegionPowerState::Error => ComputePowerState::Pending,
        RegionPowerState::Queued => ComputePowerState::Queued,
        RegionPowerState::Building | RegionPowerState::Rebuilding => ComputePowerState::Building,
        RegionPowerState::Running => ComputePowerState::Running,
        RegionPowerState::Stopping => ComputePowerState::Stopping,
        RegionPowerState::Stopped => ComputePowerState::Stopped,
    }
}

/// The provisioning word of a server: while its disk is replaced, or its flavor changed, it is not what was asked for.
#[must_use]
pub fn server_provisioning_status(record: &Record, detail: &ServerDetail) -> ProvisioningStatus {
    let is_resized = detail.resize.is_some_and(|resize| resize.state != ResizeState::Failed);
    match provisioning_status(record) {
        ProvisioningStatus::Provisioned if detail.rebuild.is_some() || is_resized => ProvisioningStatus::Provisioning,
        word => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b27_b28_every_phase_has_a_power_word() {
        use {RegionPowerState as W, ServerPhase as F};
        let table = [
            (F::Pending, W::Pending),
            (F::Queued, W::Queued),
            (F::Building, W::Building),
            (F::Rebuilding, W::Rebuilding),
            (F::Resizing, W::Rebuilding),
            (F::Starting, W::Pending),
            (F::Running, W::Running),
            (F::Stopping, W::Stopping),
            (F::Stopped, W::Stopped),
            (F::Paused, W::Stopped),
            (F::Suspended, W::Stopped),
            (F::Crashed, W::Stopped),
            (F::Error, W::Error),
        ];
        for (phase, word) in table {
            assert_eq!(region_power_state(phase, F::Queued), word, "{phase:?}");
            for lost in [F::Vanished, F::Unknown] {
                assert_eq!(region_power_state(lost, phase), word, "{lost:?} after {phase:?}");
            }
        }
        assert_eq!(region_power_state(F::Unknown, F::Vanished), W::Pending);
    }

    #[test]
    fn every_phase_has_a_power_word_for_clients_of_compute() {
        use {ComputePowerState as W, ServerPhase as F};
        let table = [
            (F::Pending, W::Pending),
            (F::Queued, W::Queued),
            (F::Building, W::Building),
            (F::Rebuilding, W::Building),
            (F::Resizing, W::Building),
            (F::Starting, W::Pending),
            (F::Running, W::Running),
            (F::Stopping, W::Stopping),
            (F::Stopped, W::Stopped),
            (F::Paused, W::Stopped),
            (F::Suspended, W::Stopped),
            (F::Crashed, W::Stopped),
        ];
        for (phase, word) in table {
            assert_eq!(compute_power_state(phase, F::Queued), word, "{phase:?}");
            for lost in [F::Vanished, F::Unknown, F::Error] {
                assert_eq!(compute_power_state(lost, phase), word, "{lost:?} after {phase:?}");
            }
        }
        assert_eq!(compute_power_state(F::Error, F::Error), W::Pending);
    }

    #[test]
    fn b38_every_reason_has_a_word_on_both_axes() {
        use {HealthStatus as H, ProvisioningStatus as P};
        let table = [
            (Reason::Provisioning, P::Provisioning),
            (Reason::Provisioned, P::Provisioned),
            (Reason::Errored, P::Error),
            (Reason::Deprovisioning, P::Deprovisioning),
            (Reason::Deprovisioned, P::Deprovisioning),
            (Reason::DependencyNotReady, P::Provisioning),
            (Reason::DependencyFailed, P::Provisioning),
            (Reason::DependencyNotFound, P::Error),
            (Reason::ProviderCreateRetrying, P::Provisioning),
            (Reason::ProviderCreateFailed, P::Error),
            (Reason::ServerRebuildFailed, P::Error),
            (Reason::ServerResizeFailed, P::Error),
            (Reason::VolumeLost, P::Error),
            (Reason::Phase(super::super::server::ServerPhase::Running), P::Provisioning),
            (Reason::Healthy, P::Provisioning),
            (Reason::Degraded, P::Provisioning),
            (Reason::Unknown, P::Provisioning),
        ];
        for (reason, word) in table {
            assert_eq!(provisioning_word(reason), word, "{reason:?}");
        }
        let condition = |status, reason| Condition {
            status,
            reason,
            message: String::new(),
            last_transition: jiff::Timestamp::UNIX_EPOCH,
            observed_generation: 1,
        };
        let health = [
            (Truth::True, Reason::Healthy, H::Healthy),
            (Truth::False, Reason::Degraded, H::Degraded),
            (Truth::Unknown, Reason::Unknown, H::Unknown),
            (Truth::False, Reason::Errored, H::Error),
            (Truth::False, Reason::Provisioning, H::Degraded),
        ];
        for (status, reason, word) in health {
            assert_eq!(health_status(Some(&condition(status, reason))), word, "{status:?} {reason:?}");
        }
        assert_eq!(health_status(None), H::Unknown);
    }
}
