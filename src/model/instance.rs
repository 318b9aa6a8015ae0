//! An instance: what users see of a machine. A hidden server on the same network does the work.
//!
//! ```text
//!   instance ── its server's id, which follows from network and name ──▶ server ──▶ the cloud's machine
//!       ▲                                                                  │
//!       └───────────── phase, addresses, health: told, never asked ────────┘
//! ```
//!
//! The two are made by one commit, so that a name that is taken is refused at once. What the server is to be follows
//! from the instance, and is said here, once, for the commit that makes both and for the actor that keeps them alike.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{
    FlavorId, ImageId, Incarnation, InstanceId, Key, Kind, NetworkId, SecurityGroupId, ServerId,
    SshCertificateAuthorityId,
};
use super::metadata::{Metadata, Tag};
use super::quota::{Amount, Amounts, QuotaKind};
use super::record::{Record, Resource, ResourceKind};
use super::server::{Networking, Server, ServerDetail, ServerPhase, ServerSpec, UserData};

/// The tag by which existing clients find the server of an instance.
pub const INSTANCE_TAG: &str = "compute.unikorn-cloud.org/instance-id";

#[derive(Clone, Debug)]
pub struct Instance;

impl ResourceKind for Instance {
    const KIND: Kind = Kind::Instance;
    type Spec = InstanceSpec;
    type Detail = InstanceDetail;
}

/// What a machine is to be, whoever wants it: an instance, or a pool of many that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    pub flavor: FlavorId,
    pub image: ImageId,
    /// The image is the organization's own, and so has a record that is held.
    #[serde(default)]
    pub is_own_image: bool,
    /// How many physical GPUs the flavor has: what is charged, whatever becomes of the flavor later.
    #[serde(default)]
    pub gpus: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserData>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_certificate_authority: Option<SshCertificateAuthorityId>,
    /// How a machine with another flavor becomes this one. Decided when the flavor was accepted, because it says what
    /// would be lost.
    #[serde(default)]
    pub flavor_change: FlavorChange,
}

/// How a machine gets another flavor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FlavorChange {
    /// In place: its disk stays.
    #[default]
    Resize,
    /// Its machine is taken away and made again on the same port: its addresses stay, its disk does not.
    Replace,
}

/// What may be done to an instance without asking again. What is left out is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schema(as = instancePolicy)]
pub struct Policy {
    /// Whether another image may be asked for, which replaces the root disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_change: Option<ImageChangePolicy>,
    /// Whether another flavor may be asked for, and at what cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor_change: Option<FlavorChangePolicy>,
    /// What becomes of an instance whose machine has vanished from its cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = instanceImageChange)]
pub enum ImageChangePolicy {
    /// The root disk is replaced in place: id and addresses stay, what was on the disk is lost.
    Rebuild,
    /// Refused.
    Forbid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = instanceFlavorChange)]
pub enum FlavorChangePolicy {
    /// Resized where the region can; elsewhere the machine is replaced, and what was on its disk is lost.
    Auto,
    /// Resized where the region can; elsewhere refused.
    Resize,
    /// Refused.
    Forbid,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = instanceRecovery)]
pub enum Recovery {
    /// Made again, with the same name and on the same network.
    #[default]
    Recreate,
    /// Shown, and left to its user.
    Report,
}

/// What the client asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSpec {
    #[serde(flatten)]
    pub machine: MachineSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The server that does the work.
    pub server: ServerId,
    /// The pool of the cluster that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// What the ledger was told: as much as is asked for, and as its machine may still have. Nothing for one of a
    /// cluster, which pays for all of its own.
    #[serde(default)]
    pub charged: Amounts,
}

/// What an instance says of its server that no user of servers could.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Governed {
    pub instance: InstanceId,
    #[serde(default)]
    pub flavor_change: FlavorChange,
    #[serde(default)]
    pub recovery: Recovery,
}

/// Something about an instance that an operator should know, whatever the cloud says of its health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Check {
    /// There is no server, or it is going.
    WithoutServer,
    /// The server is to be something else than the instance says.
    ServerDiffers,
    /// The machine runs although it was stopped, or the other way round.
    PowerContradicts,
    /// Nobody has been able to look at its cloud for a while.
    Unobserved,
}

impl Check {
    pub const ALL: [Self; 4] = [Self::WithoutServer, Self::ServerDiffers, Self::PowerContradicts, Self::Unobserved];

    /// As metrics name it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::WithoutServer => "without_server",
            Self::ServerDiffers => "server_differs",
            Self::PowerContradicts => "power_contradicts",
            Self::Unobserved => "unobserved",
        }
    }

    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::WithoutServer => "the server of the instance is not there",
            Self::ServerDiffers => "the server is being brought to what the instance asks for",
            Self::PowerContradicts => "the power state is not the one that was last asked for",
            Self::Unobserved => "its cloud cannot be looked at: what is shown may be old",
        }
    }
}

/// What is known of it beyond the conditions: what its server was last heard to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceDetail {
    pub phase: ServerPhase,
    /// The last phase in which it was neither lost nor failed.
    pub phase_seen: ServerPhase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<Ipv4Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<Ipv4Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// How many servers were made for it after the first. Counted before each is made.
    pub remade: u32,
    /// The last generation of which nothing but what was asked for is left, and charged.
    pub settled: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

impl InstanceDetail {
    /// Takes over what its server is known to be.
    #[must_use]
    pub fn following(&self, server: &ServerDetail) -> Self {
        let is_lost = matches!(server.phase, ServerPhase::Error | ServerPhase::Vanished | ServerPhase::Unknown);
        Self {
            phase: server.phase,
            phase_seen: if is_lost { self.phase_seen } else { server.phase },
            private_ip: server.private_ip,
            public_ip: server.public_ip,
            mac_address: server.mac_address.clone(),
            remade: self.remade,
            settled: self.settled,
            checks: Vec::new(),
        }
    }
}

impl MachineSpec {
    #[must_use]
    pub fn wants_public_ip(&self) -> bool {
        self.networking.as_ref().and_then(|networking| networking.public_ip).unwrap_or(false)
    }

    /// What one of it costs.
    #[must_use]
    pub fn cost(&self) -> Amounts {
        let amounts = [
            (QuotaKind::Servers, 1),
            (QuotaKind::Gpus, u64::from(self.gpus)),
            (QuotaKind::PublicIps, u64::from(self.wants_public_ip())),
        ];
        amounts.into_iter().filter(|(_, amount)| *amount > 0).map(|(kind, amount)| (kind, Amount::of(amount))).collect()
    }

    /// What it needs to be there, beside its network.
    #[must_use]
    pub fn uses(&self) -> Vec<Key> {
        let networking = self.networking.as_ref();
        let groups = networking.and_then(|networking| networking.security_groups.as_deref()).unwrap_or_default();
        let groups = groups.iter().copied().map(SecurityGroupId::key);
        let authority = self.ssh_certificate_authority.map(SshCertificateAuthorityId::key);
        let image = Some(self.image).filter(|_| self.is_own_image).map(ImageId::key);
        groups.chain(authority).chain(image).collect()
    }
}

impl MachineSpec {
    /// What is lost, in words for its user, when a machine that is as `before` says is brought to this.
    #[must_use]
    pub fn losses(&self, before: &Self) -> Vec<&'static str> {
        let mut losses = Vec::new();
        if self.flavor != before.flavor {
            losses.push(match self.flavor_change {
                FlavorChange::Resize => "the machine is restarted to be resized; its disk stays",
                FlavorChange::Replace => "the machine is replaced to get the flavor: what is on its disk is lost",
            });
        }
        if self.image != before.image {
            losses.push("the root disk is replaced by the image: what is on it is lost");
        }
        losses
    }
}

impl InstanceSpec {
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.policy.and_then(|policy| policy.recovery).unwrap_or_default()
    }

    /// What its server is to be. What that may still be on (`before`) stays held.
    #[must_use]
    pub fn server_spec(&self, instance: InstanceId, before: Option<&Resource<Server>>) -> ServerSpec {
        let machine = &self.machine;
        let mut own_images = match before {
            Some(server) if server.spec.image == machine.image => server.spec.own_images.clone(),
            Some(server) => server.spec.images_held(&server.detail),
            None => Vec::new(),
        };
        if machine.is_own_image && !own_images.contains(&machine.image) {
            own_images.push(machine.image);
        }
        ServerSpec {
            flavor: machine.flavor,
            image: machine.image,
            networking: machine.networking.clone(),
            user_data: machine.user_data.clone(),
            ssh_certificate_authority: machine.ssh_certificate_authority,
            ssh_injection: None,
            infrastructure: None,
            own_images,
            governed: Some(Governed { instance, flavor_change: machine.flavor_change, recovery: self.recovery() }),
        }
    }
}

/// The life that a server of an instance has: a function of the instance's own and of how many there were, so that
/// making it again after a lost answer makes the same one.
#[must_use]
pub fn server_incarnation(instance: Incarnation, remade: u32) -> Incarnation {
    Incarnation(Uuid::new_v5(&instance.0, &remade.to_be_bytes()))
}

/// The tags of the server: those of the instance, and which instance it is, which no tag can pretend.
#[must_use]
pub fn server_tags(instance: InstanceId, metadata: &Metadata) -> Vec<Tag> {
    let given = metadata.tags.iter().flatten().filter(|tag| tag.name != INSTANCE_TAG).cloned();
    given.chain([Tag { name: INSTANCE_TAG.to_owned(), value: instance.to_string() }]).collect()
}

/// The server of an instance, as it is first stored. It is paid for by the instance.
#[must_use]
pub fn server_record(instance: InstanceId, metadata: &Metadata, spec: &InstanceSpec, remade: u32) -> Record {
    let metadata = Metadata {
        incarnation: server_incarnation(metadata.incarnation, remade),
        tags: Some(server_tags(instance, metadata)),
        owner: metadata.placement.network.map(NetworkId::key),
        generation: 1,
        deletion: None,
        charged: false,
        paused: false,
        resets: 0,
        deletion_protection: None,
        ..metadata.clone()
    };
    Record::new::<Server>(spec.server.0, metadata, &spec.server_spec(instance, None))
}

/// What the server of an instance refers to: the network that it lies in, and what its machine needs.
#[must_use]
pub fn server_uses(metadata: &Metadata, spec: &InstanceSpec) -> Vec<Key> {
    metadata.placement.network.map(NetworkId::key).into_iter().chain(spec.machine.uses()).collect()
}
