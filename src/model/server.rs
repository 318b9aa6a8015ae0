//! A server: one machine on one network.
//!
//! ```text
//!   phase   Pending ──▶ (Queued ──▶) Building ──▶ Running ◀──▶ Stopped, by way of Starting and Stopping
//!                                       └──▶ Error        └──▶ Rebuilding, Resizing ──▶ Running · Stopped · Error
//! ```
//!
//! The phase is as rich as what clouds tell; each surface shows its own part of it ([`super::projection`]).

use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{
    FlavorId, ImageId, Kind, NetworkId, ProviderFloatingIpId, ProviderPortId, ProviderServerId, SecurityGroupId,
    ServerId, SshCertificateAuthorityId,
};
use super::instance::{FlavorChange, Governed, Recovery};
use super::network::Prefix;
use super::rebuild::Rebuild;
use super::record::ResourceKind;
use super::resize::{Resize, ResizeState};

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

/// What the client asked for. SSH access and place never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerSpec {
    /// Changing it resizes the server in place.
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
    /// Those of the images that it was asked to boot from and may still be on that are its organization's own: they have
    /// a record, and are held. What the cloud offers to everybody has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_images: Vec<ImageId>,
    /// The instance that it works for, and what that one says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governed: Option<Governed>,
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
    /// The same, as the first version of the API says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_address_pairs: Option<Vec<AddressPair>>,
}

/// A prefix that the server may send from, perhaps with one hardware address only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressPair {
    pub cidr: Prefix,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<MacAddress>,
}

/// A hardware address as the client wrote it, and what it means: reads echo the text byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress(String);

/// The text is not a hardware address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not six octets of two hexadecimal digits, with colons between them")]
pub struct MalformedMacAddress;

impl MacAddress {
    pub fn parse(text: &str) -> Result<Self, MalformedMacAddress> {
        let is_octet = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_good = text.split(':').count() == 6 && text.split(':').all(is_octet);
        if is_good { Ok(Self(text.to_owned())) } else { Err(MalformedMacAddress) }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// In the one way of writing it that clouds compare by.
    #[must_use]
    pub fn normal(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl From<MacAddress> for String {
    fn from(address: MacAddress) -> Self {
        address.0
    }
}

impl TryFrom<String> for MacAddress {
    type Error = MalformedMacAddress;

    fn try_from(text: String) -> Result<Self, MalformedMacAddress> {
        Self::parse(&text)
    }
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

    /// The images with a record that the server is on, or will be: what it was asked for, what it was last made or rebuilt
    /// with, and what a rebuild is about to put there.
    #[must_use]
    pub fn images_held(&self, detail: &ServerDetail) -> Vec<ImageId> {
        let target = detail.rebuild.map(|rebuild| rebuild.target);
        let is_used = |image: &ImageId| *image == self.image || detail.image == Some(*image) || target == Some(*image);
        self.own_images.iter().copied().filter(is_used).collect()
    }

    /// Is a machine that has vanished to be shown and left alone? Not while it is being replaced, on our order.
    #[must_use]
    pub fn only_reports_loss(&self, detail: &ServerDetail) -> bool {
        let reports = self.governed.is_some_and(|governed| governed.recovery == Recovery::Report);
        let is_ordered = |resize: Resize| resize.state == ResizeState::Initiated && resize.target == self.flavor;
        let is_replaced = self.replaces_machine() && detail.resize.is_some_and(is_ordered);
        reports && detail.server.is_some() && detail.launched_at.is_some() && !is_replaced
    }

    /// Does another flavor mean another machine?
    #[must_use]
    pub fn replaces_machine(&self) -> bool {
        self.governed.is_some_and(|governed| governed.flavor_change == FlavorChange::Replace)
    }

    #[must_use]
    pub fn wants_public_ip(&self) -> bool {
        self.networking.as_ref().and_then(|networking| networking.public_ip).unwrap_or(false)
    }

    /// What it may send from besides its own address, and with which hardware address, if only with one.
    pub fn allowed_addresses(&self) -> impl Iterator<Item = (Ipv4Net, Option<String>)> {
        let sources =
            self.networking.iter().flat_map(|networking| networking.allowed_source_addresses.iter().flatten());
        let pairs = self.networking.iter().flat_map(|networking| networking.allowed_address_pairs.iter().flatten());
        let pair = |pair: &AddressPair| (pair.cidr.net(), pair.mac_address.as_ref().map(MacAddress::normal));
        sources.map(|source| (source.net(), None)).chain(pairs.map(pair))
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
    /// It is being given another flavor. Exits: `Running`, `Stopped`, `Error`.
    Resizing,
    /// Exits: `Running`.
    Starting,
    /// Exits: `Stopping`, `Stopped`, `Rebuilding`, `Resizing`, `Paused`, `Suspended`, `Crashed`, `Error`.
    Running,
    /// Exits: `Stopped`.
    Stopping,
    /// Exits: `Starting`, `Running`, `Rebuilding`, `Resizing`.
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
            Self::Resizing => "Resizing",
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
            Self::Pending
                | Self::Queued
                | Self::Building
                | Self::Rebuilding
                | Self::Resizing
                | Self::Starting
                | Self::Stopping
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
    /// The same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<FlavorId>,
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
    Resize,
    /// Resized: the cloud waits to be told to keep it so, and does nothing else before that.
    VerifyResize,
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
    Resizing,
    Other,
}

impl ServerSighting {
    /// The cloud would refuse most of what it could be told about it.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.is_at_work() || self.status == CloudServerStatus::VerifyResize
    }

    /// The cloud will be done by itself.
    #[must_use]
    pub const fn is_at_work(&self) -> bool {
        let Self { status, task, .. } = self;
        task.is_some()
            || matches!(status, CloudServerStatus::Build | CloudServerStatus::Rebuild | CloudServerStatus::Resize)
    }

    /// The phase that this means for a server that was last seen in `before` (B27: every power state and every task).
    #[must_use]
    pub const fn phase(&self, before: ServerPhase) -> ServerPhase {
        match (self.status, self.task, self.power) {
            (CloudServerStatus::Error, ..) => ServerPhase::Error,
            (CloudServerStatus::Build, ..) if self.queued => ServerPhase::Queued,
            (CloudServerStatus::Build, ..) => ServerPhase::Building,
            (CloudServerStatus::Rebuild, ..) | (_, Some(ServerTask::Rebuilding), _) => ServerPhase::Rebuilding,
            (CloudServerStatus::Resize | CloudServerStatus::VerifyResize, ..) | (_, Some(ServerTask::Resizing), _) => {
                ServerPhase::Resizing
            }
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
    /// What the last verb that was obeyed leads to: `Starting` or `Stopping`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_asked: Option<ServerPhase>,
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
    /// The flavor that the cloud's server was made or last resized with, on our order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor: Option<FlavorId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize: Option<Resize>,
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

impl ServerDetail {
    /// Does it rest in another power state than the one that was last asked for?
    #[must_use]
    pub fn contradicts_power(&self) -> bool {
        match self.power_asked {
            Some(ServerPhase::Stopping) => self.phase == ServerPhase::Running,
            Some(ServerPhase::Starting) => matches!(self.phase, ServerPhase::Stopped | ServerPhase::Crashed),
            _ => false,
        }
    }
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

impl CreationTries {
    /// Those that count: of this generation, since this reset.
    #[must_use]
    pub fn since(&self, generation: u64, resets: u64) -> Self {
        if (self.generation, self.resets) == (generation, resets) {
            self.clone()
        } else {
            Self { generation, resets, ..Self::default() }
        }
    }
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
            flavor: None,
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
            (S::Resize, P::Running, Some(T::Resizing), F::Resizing),
            (S::Active, P::Running, Some(T::Resizing), F::Resizing),
            (S::VerifyResize, P::Running, None, F::Resizing),
            (S::VerifyResize, P::Shutdown, None, F::Resizing),
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
    fn what_waits_for_an_answer_is_busy_and_not_at_work() {
        let waiting = sighting(CloudServerStatus::VerifyResize, PowerState::Running, None);
        assert!(waiting.is_busy() && !waiting.is_at_work());
        for status in [CloudServerStatus::Build, CloudServerStatus::Rebuild, CloudServerStatus::Resize] {
            let working = sighting(status, PowerState::Running, None);
            assert!(working.is_busy() && working.is_at_work(), "{status:?}");
        }
        assert!(!sighting(CloudServerStatus::Active, PowerState::Running, None).is_busy());
    }

    #[test]
    fn a_name_belongs_to_one_server_of_a_network() {
        let (one, other) = (NetworkId(Uuid::from_u128(1)), NetworkId(Uuid::from_u128(2)));
        assert_eq!(ServerId::named(one, "web"), ServerId::named(one, "web"));
        assert_ne!(ServerId::named(one, "web"), ServerId::named(other, "web"));
        assert_ne!(ServerId::named(one, "web"), ServerId::named(one, "db"));
    }

    #[test]
    fn a_hardware_address_is_six_octets_and_is_compared_in_lower_case() {
        assert_eq!(MacAddress::parse("FA:16:3e:00:00:01").expect("good").normal(), "fa:16:3e:00:00:01");
        for bad in [
            "",
            "fa:16:3e:00:00",
            "fa:16:3e:00:00:01:02",
            "fa-16-3e-00-00-01",
            "fa:16:3e:00:00:0g",
            "+a:16:3e:00:00:01",
        ] {
            assert_eq!(MacAddress::parse(bad), Err(MalformedMacAddress), "{bad}");
        }
    }

    #[test]
    fn user_data_is_never_printed() {
        assert!(!format!("{:?}", UserData("c2VjcmV0".to_owned())).contains("c2VjcmV0"));
    }
}
