//! Servers of the first version on the wire, and the way in and out of the model.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::resources::Surface;
use crate::api::v2::servers::wire::{
    ALLOWED_SOURCES_MAX, AcceptedCreate, AcceptedUpdate, SECURITY_GROUPS_MAX, accept_user_data,
};
use crate::api::wire::{ProjectScopedReadMetadata, WriteMetadata, accept_prefix, body_id};
use crate::identity::acl::Endpoint;
use crate::model::ids::{NetworkId, SecurityGroupId};
use crate::model::metadata::ApiVersion;
use crate::model::projection::{RegionPowerState, region_power_state, server_provisioning_status};
use crate::model::record::{CorruptRecord, Record};
use crate::model::server::{AddressPair, MacAddress, Networking, Server, ServerSpec};

/// A prefix that the server may send from, besides its own address.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = serverAllowedAddressPair)]
pub struct WireAddressPair {
    /// An IPv4 prefix in CIDR notation.
    pub cidr: String,
    /// The only hardware address that it may be used with; the server's own when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$")]
    pub mac_address: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = serverNetwork)]
pub struct WireNetwork {
    #[schema(format = "uuid")]
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 256)]
    pub allowed_address_pairs: Option<Vec<WireAddressPair>>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = serverSecurityGroup)]
pub struct WireSecurityGroup {
    #[schema(format = "uuid")]
    pub id: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = serverPublicIPAllocation)]
pub struct WirePublicIp {
    pub enabled: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = serverSpec)]
pub struct WireSpec {
    #[schema(format = "uuid")]
    pub flavor_id: String,
    /// An update may say any: the server keeps the one that it was created with.
    #[schema(format = "uuid")]
    pub image_id: String,
    /// Exactly one.
    #[schema(min_items = 1, max_items = 1)]
    pub networks: Vec<WireNetwork>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32)]
    pub security_groups: Option<Vec<WireSecurityGroup>>,
    #[serde(rename = "publicIPAllocation", skip_serializing_if = "Option::is_none")]
    pub public_ip_allocation: Option<WirePublicIp>,
    /// Base64 of what cloud-init is started with. Takes effect when the server is next made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "byte", max_length = 65535)]
    pub user_data: Option<String>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = serverWrite)]
pub struct ServerWrite {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = serverStatus)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub region_id: String,
    #[schema(format = "uuid")]
    pub identity_id: String,
    pub power_state: RegionPowerState,
    #[serde(rename = "privateIP", skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<String>,
    #[serde(rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = serverRead)]
pub struct ServerRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

impl ServerWrite {
    pub fn accept(self) -> Result<AcceptedCreate, ApiError> {
        let (network, update) = self.accept_update()?;
        let spec = ServerSpec {
            flavor: update.flavor,
            image: update.image,
            networking: update.networking,
            user_data: update.user_data,
            ssh_certificate_authority: None,
            ssh_injection: None,
            infrastructure: None,
            own_images: Vec::new(),
            governed: None,
        };
        Ok(AcceptedCreate { metadata: update.metadata, network, spec })
    }

    pub fn accept_update(self) -> Result<(NetworkId, AcceptedUpdate), ApiError> {
        let spec = self.spec;
        let [network] = spec.networks.as_slice() else {
            return Err(ApiError::invalid("spec.networks must be exactly one"));
        };
        let networking = Networking {
            security_groups: spec.security_groups.as_deref().map(accept_groups).transpose()?,
            public_ip: spec.public_ip_allocation.map(|allocation| allocation.enabled),
            allowed_source_addresses: None,
            allowed_address_pairs: network.allowed_address_pairs.as_deref().map(accept_pairs).transpose()?,
        };
        let update = AcceptedUpdate {
            metadata: self.metadata.accept()?,
            flavor: body_id(&spec.flavor_id, "spec.flavorId must be a UUID")?,
            image: body_id(&spec.image_id, "spec.imageId must be a UUID")?,
            networking: Some(networking),
            user_data: spec.user_data.map(accept_user_data).transpose()?,
        };
        Ok((body_id(&network.id, "spec.networks.id must be a UUID")?, update))
    }
}

fn accept_groups(groups: &[WireSecurityGroup]) -> Result<Vec<SecurityGroupId>, ApiError> {
    if groups.len() > SECURITY_GROUPS_MAX {
        return Err(ApiError::invalid("spec.securityGroups must be at most 32"));
    }
    groups.iter().map(|group| body_id(&group.id, "spec.securityGroups.id must be a UUID")).collect()
}

/// One that cannot be read is refused: a server that may not send what was asked for fails in silence.
pub fn accept_pairs(pairs: &[WireAddressPair]) -> Result<Vec<AddressPair>, ApiError> {
    if pairs.len() > ALLOWED_SOURCES_MAX {
        return Err(ApiError::invalid("spec.networks.allowedAddressPairs must be at most 256"));
    }
    let mac = |text: &String| {
        let rule = "spec.networks.allowedAddressPairs.macAddress must be six octets with colons between them";
        MacAddress::parse(text).map_err(|_| ApiError::invalid(rule))
    };
    let cidr = "spec.networks.allowedAddressPairs.cidr must be an IPv4 prefix in CIDR notation";
    let pair = |wire: &WireAddressPair| {
        Ok(AddressPair {
            cidr: accept_prefix(&wire.cidr, cidr)?,
            mac_address: wire.mac_address.as_ref().map(mac).transpose()?,
        })
    };
    pairs.iter().map(pair).collect()
}

pub fn shown_pairs(pairs: &[AddressPair]) -> Vec<WireAddressPair> {
    let pair = |pair: &AddressPair| WireAddressPair {
        cidr: pair.cidr.text().to_owned(),
        mac_address: pair.mac_address.as_ref().map(|mac| mac.text().to_owned()),
    };
    pairs.iter().map(pair).collect()
}

impl WireSpec {
    fn of(spec: ServerSpec, network: String) -> Self {
        let networking = spec.networking.unwrap_or_default();
        let pairs = networking.allowed_address_pairs;
        let groups = networking.security_groups;
        Self {
            flavor_id: spec.flavor.to_string(),
            image_id: spec.image.to_string(),
            networks: vec![WireNetwork { id: network, allowed_address_pairs: pairs.as_deref().map(shown_pairs) }],
            security_groups: groups
                .map(|groups| groups.iter().map(|group| WireSecurityGroup { id: group.to_string() }).collect()),
            public_ip_allocation: networking.public_ip.map(|enabled| WirePublicIp { enabled }),
            user_data: spec.user_data.map(|data| data.0),
        }
    }
}

impl Surface for ServerRead {
    type Kind = Server;
    const ENDPOINT: Endpoint = Endpoint::Servers;
    const VERSION: ApiVersion = ApiVersion::V1;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let server = record.open::<Server>()?;
        let (network, detail, placement) = (server.network()?.to_string(), server.detail, &record.metadata.placement);
        let mut metadata = ProjectScopedReadMetadata::of(record);
        metadata.resource.provisioning_status = server_provisioning_status(record, &detail);
        Ok(Self {
            metadata,
            spec: WireSpec::of(server.spec, network),
            status: WireStatus {
                region_id: placement.region.map(|id| id.to_string()).unwrap_or_default(),
                identity_id: placement.identity.map(|id| id.to_string()).unwrap_or_default(),
                power_state: region_power_state(detail.phase, detail.phase_seen),
                private_ip: detail.private_ip.map(|address| address.to_string()),
                public_ip: detail.public_ip.map(|address| address.to_string()),
                mac_address: detail.mac_address,
            },
        })
    }
}
