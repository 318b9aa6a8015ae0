//! Servers on the wire, and the way in and out of the model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::resources::Surface;
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata, accept_prefix, body_id};
use crate::identity::acl::Endpoint;
use crate::model::cloud_init::{InvalidUserData, USER_DATA_LEN_MAX};
use crate::model::ids::{FlavorId, ImageId, Key, NetworkId, SecurityGroupId, SshCertificateAuthorityId};
use crate::model::network::Prefix;
use crate::model::projection::{RegionPowerState, region_power_state, server_provisioning_status};
use crate::model::record::{CorruptRecord, Record};
use crate::model::server::{Networking, Server, ServerSpec, SshInjection, UserData};

/// More groups than a port of any cloud evaluates quickly. Each is a reference that a deletion looks at.
pub const SECURITY_GROUPS_MAX: usize = 32;

/// Each is an entry of the port's table in the cloud, looked at for every packet.
pub const ALLOWED_SOURCES_MAX: usize = 256;

/// As long as a DNS name, which is the longest that hosts are called.
pub const INFRASTRUCTURE_LEN_MAX: usize = 253;

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = serverV2Networking)]
pub struct WireNetworking {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32)]
    pub security_groups: Option<Vec<String>>,
    #[serde(rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<bool>,
    /// IPv4 prefixes that the server may send from, besides its own address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 256)]
    pub allowed_source_addresses: Option<Vec<String>>,
}

/// What may be said again of a server. The flavor must be what it was; another image replaces the root disk.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = serverV2Spec)]
pub struct WireSpec {
    #[schema(format = "uuid")]
    pub flavor_id: String,
    #[schema(format = "uuid")]
    pub image_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<WireNetworking>,
    /// Base64 of what cloud-init is started with. Takes effect when the server is next made or rebuilt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "byte", max_length = 65535)]
    pub user_data: Option<String>,
}

/// What is said when a server is created.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = serverV2CreateSpec)]
pub struct WireCreateSpec {
    #[schema(format = "uuid")]
    pub network_id: String,
    #[schema(format = "uuid")]
    pub flavor_id: String,
    #[schema(format = "uuid")]
    pub image_id: String,
    pub networking: Option<WireNetworking>,
    #[schema(format = "byte", max_length = 65535)]
    pub user_data: Option<String>,
    #[schema(format = "uuid")]
    pub ssh_certificate_authority_id: Option<String>,
    pub ssh_injection: Option<SshInjection>,
    /// The host that the server must be placed on.
    #[schema(max_length = 253)]
    pub infrastructure_ref: Option<String>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = serverV2Create)]
pub struct ServerCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = serverV2Update)]
pub struct ServerUpdate {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = serverV2Status)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub region_id: String,
    #[schema(format = "uuid")]
    pub network_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub ssh_certificate_authority_id: Option<String>,
    /// What applies, whether or not it was asked for.
    pub ssh_injection: SshInjection,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<String>,
    pub power_state: RegionPowerState,
    #[serde(rename = "privateIP", skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<String>,
    #[serde(rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = serverV2Read)]
pub struct ServerRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

/// A creation that follows the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedCreate {
    pub metadata: AcceptedMetadata,
    pub network: NetworkId,
    pub spec: ServerSpec,
}

/// An update that follows the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedUpdate {
    pub metadata: AcceptedMetadata,
    pub flavor: FlavorId,
    pub image: ImageId,
    pub networking: Option<Networking>,
    pub user_data: Option<UserData>,
}

impl ServerCreate {
    pub fn accept(self) -> Result<AcceptedCreate, ApiError> {
        let spec = self.spec;
        let authority = |text: &str| body_id(text, "spec.sshCertificateAuthorityId must be a UUID");
        if spec.infrastructure_ref.as_ref().is_some_and(|host| !is_infrastructure(host)) {
            return Err(ApiError::invalid("spec.infrastructureRef must be 1 to 253 printable characters"));
        }
        let network = body_id(&spec.network_id, "spec.networkId must be a UUID")?;
        let again = WireSpec {
            flavor_id: spec.flavor_id,
            image_id: spec.image_id,
            networking: spec.networking,
            user_data: spec.user_data,
        };
        let again = ServerUpdate { metadata: self.metadata, spec: again }.accept()?;
        let spec = ServerSpec {
            flavor: again.flavor,
            image: again.image,
            networking: again.networking,
            user_data: again.user_data,
            ssh_certificate_authority: spec.ssh_certificate_authority_id.as_deref().map(authority).transpose()?,
            ssh_injection: spec.ssh_injection,
            infrastructure: spec.infrastructure_ref,
            // Which of them have a record is found out when they are looked for.
            own_images: Vec::new(),
            governed: None,
        };
        Ok(AcceptedCreate { metadata: again.metadata, network, spec })
    }
}

impl ServerUpdate {
    pub fn accept(self) -> Result<AcceptedUpdate, ApiError> {
        let spec = self.spec;
        Ok(AcceptedUpdate {
            metadata: self.metadata.accept()?,
            flavor: body_id(&spec.flavor_id, "spec.flavorId must be a UUID")?,
            image: body_id(&spec.image_id, "spec.imageId must be a UUID")?,
            networking: spec.networking.as_ref().map(accept_networking).transpose()?,
            user_data: spec.user_data.map(accept_user_data).transpose()?,
        })
    }
}

/// Which hosts there are only the cloud knows; what no cloud would call a host is refused here.
fn is_infrastructure(host: &str) -> bool {
    (1..=INFRASTRUCTURE_LEN_MAX).contains(&host.len()) && host.bytes().all(|byte| byte.is_ascii_graphic())
}

pub fn accept_networking(wire: &WireNetworking) -> Result<Networking, ApiError> {
    Ok(Networking {
        security_groups: wire.security_groups.as_deref().map(accept_groups).transpose()?,
        public_ip: wire.public_ip,
        allowed_source_addresses: wire.allowed_source_addresses.as_deref().map(accept_sources).transpose()?,
        allowed_address_pairs: None,
    })
}

fn accept_groups(texts: &[String]) -> Result<Vec<SecurityGroupId>, ApiError> {
    if texts.len() > SECURITY_GROUPS_MAX {
        return Err(ApiError::invalid("spec.networking.securityGroups must be at most 32"));
    }
    texts.iter().map(|text| body_id(text, "spec.networking.securityGroups must be UUIDs")).collect()
}

fn accept_sources(texts: &[String]) -> Result<Vec<Prefix>, ApiError> {
    if texts.len() > ALLOWED_SOURCES_MAX {
        return Err(ApiError::invalid("spec.networking.allowedSourceAddresses must be at most 256"));
    }
    let rule = "spec.networking.allowedSourceAddresses must be IPv4 prefixes in CIDR notation";
    texts.iter().map(|text| accept_prefix(text, rule)).collect()
}

pub fn accept_user_data(text: String) -> Result<UserData, ApiError> {
    if text.len() > USER_DATA_LEN_MAX {
        return Err(ApiError::unprocessable(format!("spec.{}", InvalidUserData::TooLong)));
    }
    STANDARD.decode(&text).map_err(|_| ApiError::invalid("spec.userData must be base64"))?;
    Ok(UserData(text))
}

impl WireNetworking {
    #[must_use]
    pub fn of(networking: Networking) -> Self {
        let sources = networking.allowed_source_addresses;
        Self {
            security_groups: networking
                .security_groups
                .map(|groups| groups.iter().map(SecurityGroupId::to_string).collect()),
            public_ip: networking.public_ip,
            allowed_source_addresses: sources
                .map(|sources| sources.iter().map(|source| source.text().to_owned()).collect()),
        }
    }
}

impl WireSpec {
    fn of(spec: ServerSpec) -> Self {
        Self {
            flavor_id: spec.flavor.to_string(),
            image_id: spec.image.to_string(),
            networking: spec.networking.map(WireNetworking::of),
            user_data: spec.user_data.map(|data| data.0),
        }
    }
}

impl Surface for ServerRead {
    type Kind = Server;
    const ENDPOINT: Endpoint = Endpoint::Servers;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let server = record.open::<Server>()?;
        let (spec, detail, placement) = (server.spec, server.detail, &record.metadata.placement);
        let mut metadata = ProjectScopedReadMetadata::of(record);
        metadata.resource.provisioning_status = server_provisioning_status(record, &detail);
        Ok(Self {
            metadata,
            status: WireStatus {
                region_id: placement.region.map(|id| id.to_string()).unwrap_or_default(),
                network_id: placement.network.map(|id| id.to_string()).unwrap_or_default(),
                ssh_certificate_authority_id: spec
                    .ssh_certificate_authority
                    .as_ref()
                    .map(SshCertificateAuthorityId::to_string),
                ssh_injection: spec.resolved_ssh_injection(),
                infrastructure_ref: spec.infrastructure.clone(),
                power_state: region_power_state(detail.phase, detail.phase_seen),
                private_ip: detail.private_ip.map(|address| address.to_string()),
                public_ip: detail.public_ip.map(|address| address.to_string()),
                mac_address: detail.mac_address,
            },
            spec: WireSpec::of(spec),
        })
    }

    /// The instance that it works for: whoever wants it gone deletes that.
    fn held_by(record: &Record) -> Result<Option<Key>, CorruptRecord> {
        Ok(record.open::<Server>()?.spec.governed.map(|governed| governed.instance.key()))
    }
}
