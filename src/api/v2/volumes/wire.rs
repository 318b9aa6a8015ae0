//! Volumes on the wire, and the way in and out of the model.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::resources::Surface;
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata, body_id};
use crate::identity::acl::Endpoint;
use crate::model::ids::{Key, NetworkId, ServerId};
use crate::model::projection::ProvisioningStatus;
use crate::model::record::{CorruptRecord, Record};
use crate::model::volume::{SIZE_GIB_MAX, Volume, VolumeSpec, shown_attachment};

/// What may be said again of a volume.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = volumeV2Spec)]
pub struct WireSpec {
    /// Never less than it was.
    #[serde(rename = "sizeGiB")]
    #[schema(minimum = 1, maximum = 65536)]
    pub size_gib: u32,
    /// The server, of the same network, that the volume is attached to; left out: to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub server_id: Option<String>,
}

/// What is said when a volume is created.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = volumeV2CreateSpec)]
pub struct WireCreateSpec {
    #[schema(format = "uuid")]
    pub network_id: String,
    /// One of those that the network's region offers.
    #[schema(format = "uuid")]
    pub volume_class_id: String,
    #[serde(rename = "sizeGiB")]
    #[schema(minimum = 1, maximum = 65536)]
    pub size_gib: u32,
    #[schema(format = "uuid")]
    pub server_id: Option<String>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = volumeV2Create)]
pub struct VolumeCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = volumeV2Update)]
pub struct VolumeUpdate {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = volumeV2Attachment)]
pub struct WireAttachment {
    #[schema(format = "uuid")]
    pub server_id: String,
    /// As the guest sees it, once the cloud has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    pub provisioning_status: ProvisioningStatus,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = volumeV2Status)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub region_id: String,
    #[schema(format = "uuid")]
    pub network_id: String,
    #[schema(format = "uuid")]
    pub volume_class_id: String,
    /// How large it really is, once it is there.
    #[serde(rename = "sizeGiB", skip_serializing_if = "Option::is_none")]
    pub size_gib: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment: Option<WireAttachment>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = volumeV2Read)]
pub struct VolumeRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

/// A creation that follows the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedCreate {
    pub metadata: AcceptedMetadata,
    pub network: NetworkId,
    pub spec: VolumeSpec,
}

/// An update that follows the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedUpdate {
    pub metadata: AcceptedMetadata,
    pub size_gib: u32,
    pub server: Option<ServerId>,
}

impl VolumeCreate {
    pub fn accept(self) -> Result<AcceptedCreate, ApiError> {
        let spec = self.spec;
        let network = body_id(&spec.network_id, "spec.networkId must be a UUID")?;
        let class = body_id(&spec.volume_class_id, "spec.volumeClassId must be a UUID")?;
        let again = WireSpec { size_gib: spec.size_gib, server_id: spec.server_id };
        let again = VolumeUpdate { metadata: self.metadata, spec: again }.accept()?;
        let spec = VolumeSpec { class, size_gib: again.size_gib, server: again.server };
        Ok(AcceptedCreate { metadata: again.metadata, network, spec })
    }
}

impl VolumeUpdate {
    pub fn accept(self) -> Result<AcceptedUpdate, ApiError> {
        let metadata = self.metadata.accept()?;
        if !(1..=SIZE_GIB_MAX).contains(&self.spec.size_gib) {
            return Err(ApiError::invalid("spec.sizeGiB must be 1 to 65536"));
        }
        let server = |text: &str| body_id(text, "spec.serverId must be a UUID");
        let server = self.spec.server_id.as_deref().map(server).transpose()?;
        Ok(AcceptedUpdate { metadata, size_gib: self.spec.size_gib, server })
    }
}

impl Surface for VolumeRead {
    type Kind = Volume;
    const ENDPOINT: Endpoint = Endpoint::VolumesV2;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let volume = record.open::<Volume>()?;
        let (spec, detail, placement) = (volume.spec, volume.detail, &record.metadata.placement);
        let attachment = shown_attachment(spec.server, detail.attachment.as_ref());
        Ok(Self {
            metadata: ProjectScopedReadMetadata::of(record),
            status: WireStatus {
                region_id: placement.region.map(|id| id.to_string()).unwrap_or_default(),
                network_id: placement.network.map(|id| id.to_string()).unwrap_or_default(),
                volume_class_id: spec.class.to_string(),
                size_gib: detail.size_gib,
                attachment: attachment.map(|(server, device, provisioning_status)| WireAttachment {
                    server_id: server.to_string(),
                    device,
                    provisioning_status,
                }),
            },
            spec: WireSpec { size_gib: spec.size_gib, server_id: spec.server.map(|server| server.to_string()) },
        })
    }

    /// Whoever claims it. One that has been let go of is taken from its server before it is deleted.
    fn held_by(record: &Record) -> Result<Option<Key>, CorruptRecord> {
        Ok(record.open::<Volume>()?.spec.server.map(ServerId::key))
    }
}
