//! What the simulated cloud holds: one shape of object, a body for each kind.
//!
//! All kinds share a head (the cloud's id, a name that need not be unique, our marks, a state, what it is about to
//! become), so that one table, one clock, one set of faults and one set of books serve them all, and a new kind is one
//! more body.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::allowed_address::AllowedAddress;
use super::flat::FlatObject;
use super::shares::{ShareAttachmentBody, ShareBody};
use crate::model::ids::{FlavorId, ImageId, Incarnation, OrganizationId, VolumeClassId};
use crate::model::load_balancer_topology::Topology;
use crate::model::network::{AddressRange, VlanId};
use crate::model::security_group::EffectiveRule;
use crate::model::server::{PowerState, ServerTask};

/// The tag of a project that says whose it is.
pub const TENANT_TAG: &str = "organization";

/// The cloud's own id of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectId(pub String);

impl ObjectId {
    /// Key pairs alone are known by their user and their name, as in real clouds.
    #[must_use]
    pub fn of_key_pair(user: &Self, name: &str) -> Self {
        Self(format!("{user}:{name}"))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectKind {
    Project,
    User,
    Credential,
    Network,
    Subnet,
    Router,
    KeyPair,
    SecurityGroup,
    Port,
    FloatingIp,
    Server,
    Volume,
    LoadBalancer,
    Image,
    Share,
    ShareAttachment,
}

impl ObjectKind {
    pub const ALL: [Self; 16] = [
        Self::Project,
        Self::User,
        Self::Credential,
        Self::Network,
        Self::Subnet,
        Self::Router,
        Self::KeyPair,
        Self::SecurityGroup,
        Self::Port,
        Self::FloatingIp,
        Self::Server,
        Self::Volume,
        Self::LoadBalancer,
        Self::Image,
        Self::Share,
        Self::ShareAttachment,
    ];
}

/// Whose object it is, in our terms. The cloud keeps them as it got them and can be searched by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Marks {
    /// The id of the resource that the object was made for.
    pub id: Uuid,
    pub incarnation: Incarnation,
}

/// How far an object is. `Building` ends in `Active` or `Error`; `Deleting` ends in the object's absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectState {
    Building,
    Active,
    Error,
    Deleting,
}

/// What an object is about to become, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    pub becomes: Becomes,
    /// Absent: not before it is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Becomes {
    /// Finished: built, or done with its task.
    Active,
    Error,
    Gone,
}

/// What a kind has beyond the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Body {
    Project,
    /// Belongs to the cloud's domain, not to a project: either can be deleted before the other.
    User,
    /// Dies with its user. Its secret was shown once and is not kept, not even here.
    Credential {
        user: ObjectId,
    },
    Network {
        project: ObjectId,
        #[serde(skip_serializing_if = "Option::is_none")]
        segment: Option<Segment>,
    },
    Subnet {
        network: ObjectId,
        cidr: Ipv4Net,
        #[serde(flatten)]
        options: SubnetOptions,
    },
    Router {
        project: ObjectId,
        #[serde(skip_serializing_if = "Option::is_none")]
        external_network: Option<ObjectId>,
        /// The subnets it has an interface to.
        interfaces: BTreeSet<ObjectId>,
    },
    /// Dies with its user. The cloud has the public half alone.
    KeyPair {
        user: ObjectId,
        public_key: String,
    },
    /// Made with the rules that let everything out; all others are added one by one.
    SecurityGroup {
        project: ObjectId,
        #[serde(default)]
        rules: BTreeSet<EffectiveRule>,
    },
    Port {
        network: ObjectId,
        #[serde(flatten)]
        options: PortOptions,
        /// Given out by the cloud. Of an address that is given when it is made, the cloud keeps the IP.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<PortAddress>,
    },
    /// Dies with its port.
    FloatingIp {
        port: ObjectId,
        external_network: ObjectId,
        /// Given out by the cloud.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<Ipv4Addr>,
    },
    Server(Box<ServerBody>),
    Volume(Box<VolumeBody>),
    /// Has the address of its port, and dies with it.
    LoadBalancer {
        port: ObjectId,
        #[serde(flatten)]
        topology: Topology,
    },
    /// Made by us. What the cloud comes with is its catalogue.
    Image(ImageBody),
    /// Belongs to nobody's project: the storage system is a system of its own.
    Share {
        share: Box<ShareBody>,
    },
    /// Dies with its share, and with its network.
    ShareAttachment {
        export: ShareAttachmentBody,
    },
}

impl Body {
    #[must_use]
    pub const fn kind(&self) -> ObjectKind {
        match self {
            Self::Project => ObjectKind::Project,
            Self::User => ObjectKind::User,
            Self::Credential { .. } => ObjectKind::Credential,
            Self::Network { .. } => ObjectKind::Network,
            Self::Subnet { .. } => ObjectKind::Subnet,
            Self::Router { .. } => ObjectKind::Router,
            Self::KeyPair { .. } => ObjectKind::KeyPair,
            Self::SecurityGroup { .. } => ObjectKind::SecurityGroup,
            Self::Port { .. } => ObjectKind::Port,
            Self::FloatingIp { .. } => ObjectKind::FloatingIp,
            Self::Server(_) => ObjectKind::Server,
            Self::Volume(_) => ObjectKind::Volume,
            Self::LoadBalancer { .. } => ObjectKind::LoadBalancer,
            Self::Image(_) => ObjectKind::Image,
            Self::Share { .. } => ObjectKind::Share,
            Self::ShareAttachment { .. } => ObjectKind::ShareAttachment,
        }
    }

    /// What the object is inside of, and cannot be without.
    #[must_use]
    pub fn parent(&self) -> Option<(ObjectKind, &ObjectId)> {
        match self {
            Self::Project | Self::User | Self::Image(_) | Self::Share { .. } => None,
            Self::ShareAttachment { export } => Some((ObjectKind::Share, &export.share)),
            Self::Credential { user } | Self::KeyPair { user, .. } => Some((ObjectKind::User, user)),
            Self::Network { project, .. } | Self::Router { project, .. } | Self::SecurityGroup { project, .. } => {
                Some((ObjectKind::Project, project))
            }
            Self::Server(server) => Some((ObjectKind::Project, &server.project)),
            Self::Volume(volume) => Some((ObjectKind::Project, &volume.project)),
            Self::Subnet { network, .. } | Self::Port { network, .. } => Some((ObjectKind::Network, network)),
            Self::FloatingIp { port, .. } | Self::LoadBalancer { port, .. } => Some((ObjectKind::Port, port)),
        }
    }
}

/// A network's place on the wire: no two networks share one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Segment {
    pub physical_network: String,
    pub vlan: VlanId,
}

/// What of a subnet can be changed after it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetOptions {
    pub gateway: Ipv4Addr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<AddressRange>,
    pub dns_nameservers: Vec<Ipv4Addr>,
    pub routes: Vec<SubnetRoute>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetRoute {
    pub destination: Ipv4Net,
    pub next_hop: Ipv4Addr,
}

/// What of a port can be changed after it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortOptions {
    pub security_groups: BTreeSet<ObjectId>,
    /// Other addresses that its server may speak for.
    pub allowed_addresses: BTreeSet<AllowedAddress>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortAddress {
    pub ip: Ipv4Addr,
    pub mac: String,
}

/// A server: what it was ordered with, and how it is. Its metadata are the tags of the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerBody {
    pub project: ObjectId,
    pub flavor: FlavorId,
    pub image: ImageId,
    pub port: ObjectId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserDataDigest>,
    /// The physical machine that it has for itself: asked for, or given to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default)]
    pub life: ServerLife,
}

/// An image that somebody made. Its id is its maker's choice: the one that it is marked with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageBody {
    /// Whose servers alone may boot from it; absent: everybody's may (B18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OrganizationId>,
    /// The server whose disk it is a copy of; absent: it is fetched from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ObjectId>,
    /// Given out by the cloud.
    #[serde(default)]
    pub size_gib: u32,
}

/// What the cloud remembers of a server's user data, which may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserDataDigest {
    pub length: usize,
    pub sha256: String,
}

/// How a server is, beyond the state of its object. The cloud alone decides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerLife {
    pub created: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launched: Option<Timestamp>,
    pub power: PowerState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<ServerTask>,
    /// Waits for a physical machine.
    #[serde(default)]
    pub queued: bool,
    /// It was resized, and waits to be told that this is good.
    #[serde(default)]
    pub awaits_confirmation: bool,
}

impl Default for ServerLife {
    fn default() -> Self {
        Self {
            created: Timestamp::UNIX_EPOCH,
            launched: None,
            power: PowerState::None,
            task: None,
            queued: false,
            awaits_confirmation: false,
        }
    }
}

/// Block storage. Who has it, and what is being done to it, only the cloud decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeBody {
    pub project: ObjectId,
    pub class: VolumeClassId,
    pub size_gib: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<VolumeAttachment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<VolumeTask>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeAttachment {
    pub server: ObjectId,
    /// As the guest sees it.
    pub device: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum VolumeTask {
    Attaching,
    Detaching,
    Resizing { size_gib: u32 },
}

/// An object to make: what the cloud does not decide itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewObject {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    #[serde(flatten)]
    pub body: Body,
}

/// An object as the cloud shows it. It is read by way of [`FlatObject`], which is much faster than what is derived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "FlatObject")]
pub struct CloudObject {
    pub id: ObjectId,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
    pub state: ObjectState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    pub tags: BTreeMap<String, String>,
    #[serde(flatten)]
    pub body: Body,
}

impl CloudObject {
    #[must_use]
    pub const fn kind(&self) -> ObjectKind {
        self.body.kind()
    }

    /// Subnets that a router has interfaces to; none for anything else.
    pub fn interfaces(&self) -> impl Iterator<Item = &ObjectId> {
        match &self.body {
            Body::Router { interfaces, .. } => Some(interfaces),
            _ => None,
        }
        .into_iter()
        .flatten()
    }

    /// What this object hangs on, although it is not inside of it: most of it cannot be deleted meanwhile.
    pub fn uses(&self) -> impl Iterator<Item = &ObjectId> {
        let groups = match &self.body {
            Body::Port { options, .. } => Some(&options.security_groups),
            _ => None,
        };
        let port = self.server().map(|server| &server.port);
        let network = self.share_attachment().map(|attachment| &attachment.network);
        let server = self.attachment().map(|attachment| &attachment.server);
        self.interfaces().chain(groups.into_iter().flatten()).chain(port).chain(server).chain(network)
    }

    #[must_use]
    pub fn volume(&self) -> Option<&VolumeBody> {
        match &self.body {
            Body::Volume(volume) => Some(volume),
            _ => None,
        }
    }

    /// The server that has this volume.
    #[must_use]
    pub fn attachment(&self) -> Option<&VolumeAttachment> {
        self.volume().and_then(|volume| volume.attachment.as_ref())
    }

    #[must_use]
    pub fn server(&self) -> Option<&ServerBody> {
        match &self.body {
            Body::Server(server) => Some(server),
            _ => None,
        }
    }

    #[must_use]
    pub const fn image(&self) -> Option<&ImageBody> {
        match &self.body {
            Body::Image(image) => Some(image),
            _ => None,
        }
    }

    #[must_use]
    pub const fn topology(&self) -> Option<&Topology> {
        match &self.body {
            Body::LoadBalancer { topology, .. } => Some(topology),
            _ => None,
        }
    }

    #[must_use]
    pub fn share(&self) -> Option<&ShareBody> {
        match &self.body {
            Body::Share { share } => Some(share),
            _ => None,
        }
    }

    #[must_use]
    pub const fn share_attachment(&self) -> Option<&ShareAttachmentBody> {
        match &self.body {
            Body::ShareAttachment { export } => Some(export),
            _ => None,
        }
    }

    #[must_use]
    pub const fn port_address(&self) -> Option<&PortAddress> {
        match &self.body {
            Body::Port { address, .. } => address.as_ref(),
            _ => None,
        }
    }

    #[must_use]
    pub const fn floating_address(&self) -> Option<Ipv4Addr> {
        match &self.body {
            Body::FloatingIp { address, .. } => *address,
            _ => None,
        }
    }

    #[must_use]
    pub const fn segment(&self) -> Option<&Segment> {
        match &self.body {
            Body::Network { segment, .. } => segment.as_ref(),
            _ => None,
        }
    }
}

/// A network that leads outside. Part of the cloud's catalogue: nobody creates or deletes one through the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalNetworkEntry {
    pub id: ObjectId,
    pub name: String,
}
