//! What the simulated cloud holds: one shape of object, six kinds of body.
//!
//! All kinds share a head (the cloud's id, a name that need not be unique, our marks, a state), so that one table,
//! one set of faults and one set of books serve them all, and a new kind is one more body.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::ids::Incarnation;
use crate::model::network::{AddressRange, VlanId};

/// The cloud's own id of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ObjectId(pub String);

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
}

impl ObjectKind {
    pub const ALL: [Self; 6] = [Self::Project, Self::User, Self::Credential, Self::Network, Self::Subnet, Self::Router];
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
        }
    }

    /// What the object is inside of, and cannot be without.
    #[must_use]
    pub const fn parent(&self) -> Option<(ObjectKind, &ObjectId)> {
        match self {
            Self::Project | Self::User => None,
            Self::Credential { user } => Some((ObjectKind::User, user)),
            Self::Network { project, .. } | Self::Router { project, .. } => Some((ObjectKind::Project, project)),
            Self::Subnet { network, .. } => Some((ObjectKind::Network, network)),
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

/// An object as the cloud shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloudObject {
    pub id: ObjectId,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Marks>,
    pub state: ObjectState,
    #[serde(default)]
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
