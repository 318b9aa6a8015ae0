//! One typed id per kind, and the untyped address that messages and tables use.
//!
//! A signature that takes a `NetworkId` cannot be handed a project's. Where code is about *any* resource (the
//! graph, the store, supervision) it speaks of a [`Key`]: the kind and the id together.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Every kind of stored thing, by its singular kebab-case word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Region,
    Organization,
    Project,
    Group,
    User,
    ServiceAccount,
    Allocation,
    Token,
    Identity,
    Network,
    SecurityGroup,
    SshCertificateAuthority,
    LoadBalancer,
    Server,
    Volume,
    FileStorage,
    Image,
    Instance,
    Cluster,
    Operation,
}

impl Kind {
    pub const ALL: [Self; 20] = [
        Self::Region,
        Self::Organization,
        Self::Project,
        Self::Group,
        Self::User,
        Self::ServiceAccount,
        Self::Allocation,
        Self::Token,
        Self::Identity,
        Self::Network,
        Self::SecurityGroup,
        Self::SshCertificateAuthority,
        Self::LoadBalancer,
        Self::Server,
        Self::Volume,
        Self::FileStorage,
        Self::Image,
        Self::Instance,
        Self::Cluster,
        Self::Operation,
    ];

    /// The word used in URLs of the admin surface, in logs and in the store.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Organization => "organization",
            Self::Project => "project",
            Self::Group => "group",
            Self::User => "user",
            Self::ServiceAccount => "service-account",
            Self::Allocation => "allocation",
            Self::Token => "token",
            Self::Identity => "identity",
            Self::Network => "network",
            Self::SecurityGroup => "security-group",
            Self::SshCertificateAuthority => "ssh-certificate-authority",
            Self::LoadBalancer => "load-balancer",
            Self::Server => "server",
            Self::Volume => "volume",
            Self::FileStorage => "file-storage",
            Self::Image => "image",
            Self::Instance => "instance",
            Self::Cluster => "cluster",
            Self::Operation => "operation",
        }
    }

    /// The word for people, as it stands in a condition's message.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Region => "Region",
            Self::Organization => "Organization",
            Self::Project => "Project",
            Self::Group => "Group",
            Self::User => "User",
            Self::ServiceAccount => "Service account",
            Self::Allocation => "Allocation",
            Self::Token => "Token",
            Self::Identity => "Identity",
            Self::Network => "Network",
            Self::SecurityGroup => "Security group",
            Self::SshCertificateAuthority => "SSH certificate authority",
            Self::LoadBalancer => "Load balancer",
            Self::Server => "Server",
            Self::Volume => "Volume",
            Self::FileStorage => "File storage",
            Self::Image => "Image",
            Self::Instance => "Instance",
            Self::Cluster => "Cluster",
            Self::Operation => "Operation",
        }
    }

    /// The word within a sentence.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::ServiceAccount => "service account",
            Self::SecurityGroup => "security group",
            Self::SshCertificateAuthority => "SSH certificate authority",
            Self::LoadBalancer => "load balancer",
            Self::FileStorage => "file storage",
            other => other.word(),
        }
    }

    /// May another installation's service have resources of this kind beside ours? Regions can be taken over before
    /// compute is: references are then taken by instances that nobody here knows.
    #[must_use]
    pub const fn may_be_elsewhere(self) -> bool {
        matches!(self, Self::Instance | Self::Cluster)
    }

    /// `<plural>.<group>`, the form in which existing clients name a referrer.
    #[must_use]
    pub const fn plural_group(self) -> &'static str {
        match self {
            Self::Region => "regions.region.unikorn-cloud.org",
            Self::Organization => "organizations.identity.unikorn-cloud.org",
            Self::Project => "projects.identity.unikorn-cloud.org",
            Self::Group => "groups.identity.unikorn-cloud.org",
            Self::User => "users.identity.unikorn-cloud.org",
            Self::ServiceAccount => "serviceaccounts.identity.unikorn-cloud.org",
            Self::Allocation => "allocations.identity.unikorn-cloud.org",
            Self::Token => "tokens.regent.dev",
            Self::Identity => "identities.region.unikorn-cloud.org",
            Self::Network => "networks.region.unikorn-cloud.org",
            Self::SecurityGroup => "securitygroups.region.unikorn-cloud.org",
            Self::SshCertificateAuthority => "sshcertificateauthorities.region.unikorn-cloud.org",
            Self::LoadBalancer => "loadbalancers.region.unikorn-cloud.org",
            Self::Server => "servers.region.unikorn-cloud.org",
            Self::Volume => "volumes.region.unikorn-cloud.org",
            Self::FileStorage => "filestorages.region.unikorn-cloud.org",
            Self::Image => "images.regent.dev",
            Self::Instance => "computeinstances.compute.unikorn-cloud.org",
            Self::Cluster => "computeclusters.compute.unikorn-cloud.org",
            Self::Operation => "operations.regent.dev",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// The text was not a kind's word.
#[derive(Debug, thiserror::Error)]
#[error("unknown kind; the kinds are named in the singular, as in security-group")]
pub struct UnknownKind;

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.word() == text).ok_or(UnknownKind)
    }
}

/// The address of one resource: what messages carry and what the registry is keyed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub kind: Kind,
    pub id: Uuid,
}

impl Key {
    #[must_use]
    pub const fn new(kind: Kind, id: Uuid) -> Self {
        Self { kind, id }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.kind, self.id)
    }
}

/// Tells a recreated id from its predecessor: ids may be deterministic, incarnations never repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub Uuid);

impl fmt::Display for Incarnation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

macro_rules! typed_ids {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            #[must_use]
            pub const fn key(self) -> Key {
                Key::new(Kind::$kind, self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                parse_uuid(text).map(Self)
            }
        }
    )*};
}

/// Only the hyphenated form is an id on the wire; braces, URNs and bare hex would give one resource many names.
pub fn parse_uuid(text: &str) -> Result<Uuid, uuid::Error> {
    if text.len() == 36 { Uuid::try_parse(text) } else { Uuid::try_parse("") }
}

typed_ids! {
    RegionId => Region;
    OrganizationId => Organization;
    ProjectId => Project;
    GroupId => Group;
    UserId => User;
    ServiceAccountId => ServiceAccount;
    AllocationId => Allocation;
    TokenId => Token;
    /// A service principal in a cloud; hidden behind each v2 network.
    IdentityId => Identity;
    NetworkId => Network;
    SecurityGroupId => SecurityGroup;
    SshCertificateAuthorityId => SshCertificateAuthority;
    LoadBalancerId => LoadBalancer;
    ServerId => Server;
    VolumeId => Volume;
    FileStorageId => FileStorage;
    /// What servers boot from. Those that a cloud offers to everybody have no record.
    ImageId => Image;
    /// What users see of a server.
    InstanceId => Instance;
    ClusterId => Cluster;
    OperationId => Operation;
}

macro_rules! provider_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    )*};
}

provider_ids! {
    /// A cloud's own id of the project that scopes one principal.
    ProviderProjectId;
    /// A cloud's own id of the user that acts for one principal.
    ProviderUserId;
    ProviderNetworkId;
    ProviderSubnetId;
    ProviderRouterId;
    ProviderExternalNetworkId;
    ProviderSecurityGroupId;
    ProviderPortId;
    ProviderFloatingIpId;
    ProviderServerId;
    ProviderServerGroupId;
    ProviderLoadBalancerId;
    ProviderVolumeId;
    ProviderFileStorageId;
    /// A storage system's own id of an export into one network.
    ProviderAttachmentId;
}

macro_rules! catalogue_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                parse_uuid(text).map(Self)
            }
        }
    )*};
}

// Ids of what a cloud offers and nobody here creates: they have no record and so no key.
catalogue_ids! {
    /// A machine type.
    FlavorId;
    /// A class of block storage.
    VolumeClassId;
    FileStorageClassId;
    /// A role of the catalogue.
    RoleId;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_from_its_word() {
        for kind in Kind::ALL {
            assert_eq!(kind.word().parse::<Kind>().ok(), Some(kind));
        }
        assert!("networks".parse::<Kind>().is_err());
    }

    #[test]
    fn only_the_hyphenated_form_is_an_id() {
        let id = Uuid::from_u128(7);
        assert_eq!(id.to_string().parse::<NetworkId>().ok(), Some(NetworkId(id)));
        assert!(id.simple().to_string().parse::<NetworkId>().is_err());
        assert!(id.urn().to_string().parse::<NetworkId>().is_err());
    }
}
