//! A server: one machine on one network.
//!
//! ```text
//!   phase   Pending ──▶ (Queued ──▶) Building ──▶ Running ◀──▶ Stopped, by way of Starting and Stopping
//!                                       └──▶ Error        └──▶ Rebuilding ──▶ Running · Stopped · Error
//! ```
//!
//! The phase is as rich as what clouds tell; each surface shows its own part of it ([`super::projection`]).

use std::fmt;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{
    FlavorId, ImageId, Kind, NetworkId, ProviderFloatingIpId, ProviderPortId, ProviderServerId, SecurityGroupId,
    ServerId, SshCertificateAuthorityId,
};
use super::network::Prefix;
use super::rebuild::Rebuild;
use super::record::ResourceKind;

#[derive(Clone, Debug)]
pub struct Server;

impl ResourceKind for Server {
    const KIND: Kind = Kind::Server;
    type Spec = ServerSpec;
    type Detail = ServerDetail;
}

impl ServerId {
    /// A network has one server of each name: the id follows from the two, so that the store's uniqueness is the
    /// name's.
    #[must_use]
    pub fn named(network: NetworkId, name: &str) -> Self {
        Self(Uuid::new_v5(&network.0, name.as_bytes()))
    }
}

/// What the client asked for. Flavor, SSH access and place never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerSpec {
    pub flavor: FlavorId,
    /// Changing it rebuilds the server in place.
    pub image: ImageId,
    /// `None` when the client sent none: what was omitted stays omitted in every read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_certificate_authority: Option<SshCertificateAuthorityId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_injection: Option<SshInjection>,
    /// The host that it must be placed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Networking {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<SecurityGroupId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_source_addresses: Option<Vec<Prefix>>,
}

/// Base64 as the client wrote it, so that reads are byte for byte what was sent. Never printed: it often holds
/// secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserData(pub String);

impl fmt::Debug for UserData {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "UserData({} bytes)", self.0.len())
    }
}

/// How people get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = sshInjection)]
pub enum SshInjection {
    /// With certificates of the authority.
    Ca,
    /// With the key pair of the service principal.
    IdentityKeypair,
    None,
}

impl ServerSpec {
    #[must_use]
    pub fn resolved_ssh_injection(&self) -> SshInjection {
        let derived =
            if self.ssh_certificate_authority.is_some() { SshInjection::Ca } else { SshInjection::IdentityKeypair };
        self.ssh_injection.unwrap_or(derived)
    }

    /// The groups that apply, each once, in the order asked for.
    #[must_use]
    pub fn security_groups(&self) -> Vec<SecurityGroupId> {
        let mut groups = Vec::new();
        for group in self.networking.iter().flat_map(|networking| networking.security_groups.iter().flatten()) {
            if !groups.contains(group) {
                groups.push(*group);
            }
        }
        groups
    }

    #[must_use]
    pub fn wants_public_ip(&self) -> bool {
        self.networking.as_ref().and_then(|networking| networking.public_ip).unwrap_or(false)
    }

    #[must_use]
    pub fn allowed_source_addresses(&self) -> &[Prefix] {
        let given = self.networking.as_ref().and_then(|networking| networking.allowed_source_addresses.as_ref());
        given.map(Vec::as_slice).unwrap_or_default()
    }
}

/// Where a server is in its life, as finely as clouds can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ServerPhase {
    /// Nothing of it runs yet. Exits: `Queued`, `Building`.
    #[default]
    Pending,
    /// Waits for a physical machine. Exits: `Building`, `Error`.
    Queued,
    /// Exits: `Running`, `Error`.
    Building,
    /// Its root disk is being replaced. Exits: `Running`, `Stopped`, `Error`.
    Rebuilding,
    /// Exits: `Running`.
    Starting,
    /// Exits: `Stopping`, `Stopped`, `Rebuilding`, `Paused`, `Suspended`, `Crashed`, `Error`.
    Running,
    /// Exits: `Stopped`.
    Stopping,
    /// Exits: `Starting`, `Running`, `Rebuilding`.
    Stopped,
    Paused,
    Suspended,
    /// The guest died by itself.
    Crashed,
    /// The cloud gave up on it.
    Error,
    /// A complete list did not have it.
    Vanished,
    /// The cloud does not know.
    Unknown,
}

impl ServerPhase {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Queued => "Queued",
            Self::Building => "Building",
            Self::Rebuilding => "Rebuilding",
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Stopping => "Stopping",
            Self::Stopped => "Stopped",
            Self::Paused => "Paused",
            Self::Suspended => "Suspended",
            Self::Crashed => "Crashed",
            Self::Error => "Error",
            Self::Vanished => "Vanished",
            Self::Unknown => "Unknown",
        }
    }

    /// The cloud is at work on it: what is seen now will change by itself.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::Pending | Self::Queued | Self::Building | Self::Rebuilding | Self::Starting | Self::Stopping
        )
    }
}

/// What a cloud says of a server, in words that belong to none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerSighting {
    pub id: ProviderServerId,
    pub status: CloudServerStatus,
    pub power: PowerState,
    /// What the cloud is doing to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<ServerTask>,
    /// `None` when the cloud cannot tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageId>,
    pub created: Timestamp,
    /// Its first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launched: Option<Timestamp>,
    /// A physical machine has not been assigned yet.
    #[serde(default)]
    pub queued: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloudServerStatus {
    Build,
    Active,
    Stopped,
    Rebuild,
    Error,
    Unknown,
    /// Any other: it is there, and not well.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PowerState {
    None,
    Running,
    Paused,
    Shutdown,
    Crashed,
    Suspended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerTask {
    PoweringOn,
    PoweringOff,
    Rebooting,
    Rebuilding,
    Other,
}

impl ServerSighting {
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.task.is_some() || matches!(self.status, CloudServerStatus::Build | CloudServerStatus::Rebuild)
    }

    /// The phase that this means for a server that was last seen in `before` (B27: every power state and every task).
    #[must_use]
    pub const fn phase(&self, before: ServerPhase) -> ServerPhase {
        match (self.status, self.task, self.power) {
            (CloudServerStatus::Error, ..) => ServerPhase::Error,
            (CloudServerStatus::Build, ..) if self.queued => ServerPhase::Queued,
            (CloudServerStatus::Build, ..) => ServerPhase::Building,
            (CloudServerStatus::Rebuild, ..) | (_, Some(ServerTask::Rebuilding), _) => ServerPhase::Rebuilding,
            (CloudServerStatus::Unknown, ..) => ServerPhase::Unknown,
            (_, Some(ServerTask::PoweringOn), _) => ServerPhase::Starting,
            (_, Some(ServerTask::PoweringOff), _) => ServerPhase::Stopping,
            (_, _, PowerState::Running) => ServerPhase::Running,
            (_, _, PowerState::Shutdown) => ServerPhase::Stopped,
            (_, _, PowerState::Paused) => ServerPhase::Paused,
            (_, _, PowerState::Suspended) => ServerPhase::Suspended,
            (_, _, PowerState::Crashed) => ServerPhase::Crashed,
            (_, _, PowerState::None) => before,
        }
    }
}

/// What is known of it beyond the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ProviderServerId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<ProviderPortId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floating_ip: Option<ProviderFloatingIpId>,
    pub phase: ServerPhase,
    /// The last phase in which the cloud knew where it is.
    pub phase_seen: ServerPhase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<Ipv4Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<Ipv4Addr>,
    /// Never cleared: it is what inventories know a physical machine by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launched_at: Option<Timestamp>,
    /// Its first boot of all. Never cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned_at: Option<Timestamp>,
    /// The image that the cloud's server was made or last rebuilt with, on our order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Rebuild>,
    pub creation: CreationTries,
    /// The generation that the cloud was last brought to.
    pub converged: u64,
    /// Of port and addresses when they were last as asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<u64>,
    /// Of everything that was last seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<u64>,
}

/// How often the cloud failed to boot what was asked for, in one generation and since one reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CreationTries {
    pub failures: u32,
    /// A failed server is being taken away. Written before it is touched.
    pub retrying: bool,
    pub generation: u64,
    pub resets: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(status: CloudServerStatus, power: PowerState, task: Option<ServerTask>) -> ServerSighting {
        ServerSighting {
            id: ProviderServerId("s".to_owned()),
            status,
            power,
            task,
            image: None,
            created: Timestamp::UNIX_EPOCH,
            launched: None,
            queued: false,
        }
    }

    #[test]
    fn b27_every_power_state_and_task_has_a_phase() {
        use {CloudServerStatus as S, PowerState as P, ServerPhase as F, ServerTask as T};
        let table = [
            (S::Build, P::None, None, F::Building),
            (S::Active, P::Running, None, F::Running),
            (S::Active, P::Running, Some(T::PoweringOff), F::Stopping),
            (S::Stopped, P::Shutdown, None, F::Stopped),
            (S::Stopped, P::Shutdown, Some(T::PoweringOn), F::Starting),
            (S::Active, P::Running, Some(T::Rebooting), F::Running),
            (S::Rebuild, P::Running, Some(T::Rebuilding), F::Rebuilding),
            (S::Active, P::Crashed, None, F::Crashed),
            (S::Other, P::Paused, None, F::Paused),
            (S::Other, P::Suspended, None, F::Suspended),
            (S::Error, P::Running, None, F::Error),
            (S::Unknown, P::Running, None, F::Unknown),
            (S::Active, P::None, None, F::Stopped),
        ];
        for (status, power, task, phase) in table {
            assert_eq!(sighting(status, power, task).phase(F::Stopped), phase, "{status:?} {power:?} {task:?}");
        }
        let queued = ServerSighting { queued: true, ..sighting(S::Build, P::None, None) };
        assert_eq!(queued.phase(F::Pending), F::Queued);
    }

    #[test]
    fn a_name_belongs_to_one_server_of_a_network() {
        let (one, other) = (NetworkId(Uuid::from_u128(1)), NetworkId(Uuid::from_u128(2)));
        assert_eq!(ServerId::named(one, "web"), ServerId::named(one, "web"));
        assert_ne!(ServerId::named(one, "web"), ServerId::named(other, "web"));
        assert_ne!(ServerId::named(one, "web"), ServerId::named(one, "db"));
    }

    #[test]
    fn user_data_is_never_printed() {
        assert!(!format!("{:?}", UserData("c2VjcmV0".to_owned())).contains("c2VjcmV0"));
    }
}
