//! Instances on the wire, and the way in and out of the model.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::resources::Surface;
use crate::api::v2::servers::wire::{WireNetworking, accept_networking, accept_user_data};
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata, body_id};
use crate::identity::acl::Endpoint;
use crate::model::ids::{Key, Kind, NetworkId, OrganizationId, ProjectId, SshCertificateAuthorityId};
use crate::model::instance::{FlavorChange, Instance, MachineSpec, Policy};
use crate::model::projection::{ComputePowerState, compute_power_state};
use crate::model::record::{CorruptRecord, Record};

/// What a machine is to be, and what may be said of it again.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = instanceSpec)]
pub struct WireSpec {
    /// Another one resizes the instance where its region can; elsewhere the machine is replaced, and its disk lost.
    #[schema(format = "uuid")]
    pub flavor_id: String,
    /// Another one replaces the root disk, and what was on it is lost.
    #[schema(format = "uuid")]
    pub image_id: String,
    /// Always there in what is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<WireNetworking>,
    /// Never changes. Left out of an update: as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub ssh_certificate_authority_id: Option<String>,
    /// Base64 of what cloud-init is started with. Takes effect when the machine is next made or rebuilt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "byte", max_length = 65535)]
    pub user_data: Option<String>,
    /// What may be done without asking again. Left out of an update: as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

/// What is said when an instance is created.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = instanceCreateSpec)]
pub struct WireCreateSpec {
    #[schema(format = "uuid")]
    pub organization_id: String,
    #[schema(format = "uuid")]
    pub project_id: String,
    #[schema(format = "uuid")]
    pub network_id: String,
    #[serde(flatten)]
    pub machine: WireSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = instanceCreate)]
pub struct InstanceCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = instanceUpdate)]
pub struct InstanceUpdate {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = instanceStatus)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub region_id: String,
    #[schema(format = "uuid")]
    pub network_id: String,
    /// The server that does the work: what volumes are attached to.
    #[schema(format = "uuid")]
    pub server_id: String,
    pub power_state: ComputePowerState,
    #[serde(rename = "privateIP", skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<String>,
    #[serde(rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = instanceRead)]
pub struct InstanceRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

/// What is said of a snapshot: only what it is to be called.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = instanceSnapshotCreate)]
pub struct SnapshotCreate {
    pub metadata: WriteMetadata,
}

/// A machine as somebody asked for it: its form is right, and nothing else is known of it.
#[derive(Clone, Debug)]
pub struct AcceptedMachine {
    pub machine: MachineSpec,
    pub policy: Option<Policy>,
}

/// A creation that follows the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedCreate {
    pub metadata: AcceptedMetadata,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub network: NetworkId,
    pub said: AcceptedMachine,
}

/// An update that follows the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedUpdate {
    pub metadata: AcceptedMetadata,
    pub said: AcceptedMachine,
}

impl WireSpec {
    pub fn accept(self) -> Result<AcceptedMachine, ApiError> {
        let authority = |text: &str| body_id(text, "spec.sshCertificateAuthorityId must be a UUID");
        let machine = MachineSpec {
            flavor: body_id(&self.flavor_id, "spec.flavorId must be a UUID")?,
            image: body_id(&self.image_id, "spec.imageId must be a UUID")?,
            is_own_image: false,
            gpus: 0,
            networking: self.networking.as_ref().map(accept_networking).transpose()?,
            user_data: self.user_data.map(accept_user_data).transpose()?,
            ssh_certificate_authority: self.ssh_certificate_authority_id.as_deref().map(authority).transpose()?,
            flavor_change: FlavorChange::default(),
        };
        Ok(AcceptedMachine { machine, policy: self.policy })
    }

    /// A machine as it was asked for.
    #[must_use]
    pub fn of(machine: &MachineSpec, policy: Option<Policy>) -> Self {
        let authority = machine.ssh_certificate_authority.as_ref();
        Self {
            flavor_id: machine.flavor.to_string(),
            image_id: machine.image.to_string(),
            networking: machine.networking.clone().map(WireNetworking::of),
            ssh_certificate_authority_id: authority.map(SshCertificateAuthorityId::to_string),
            user_data: machine.user_data.clone().map(|data| data.0),
            policy,
        }
    }
}

impl InstanceCreate {
    pub fn accept(self) -> Result<AcceptedCreate, ApiError> {
        let spec = self.spec;
        Ok(AcceptedCreate {
            metadata: self.metadata.accept()?,
            organization: body_id(&spec.organization_id, "spec.organizationId must be a UUID")?,
            project: body_id(&spec.project_id, "spec.projectId must be a UUID")?,
            network: body_id(&spec.network_id, "spec.networkId must be a UUID")?,
            said: spec.machine.accept()?,
        })
    }
}

impl InstanceUpdate {
    pub fn accept(self) -> Result<AcceptedUpdate, ApiError> {
        Ok(AcceptedUpdate { metadata: self.metadata.accept()?, said: self.spec.accept()? })
    }
}

impl Surface for InstanceRead {
    type Kind = Instance;
    const ENDPOINT: Endpoint = Endpoint::Instances;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let instance = record.open::<Instance>()?;
        let (spec, detail, placement) = (instance.spec, instance.detail, &record.metadata.placement);
        let mut shown = WireSpec::of(&spec.machine, spec.policy);
        shown.networking = shown.networking.or_else(|| Some(WireNetworking::default()));
        Ok(Self {
            metadata: ProjectScopedReadMetadata::of(record),
            spec: shown,
            status: WireStatus {
                region_id: placement.region.map(|id| id.to_string()).unwrap_or_default(),
                network_id: placement.network.map(|id| id.to_string()).unwrap_or_default(),
                server_id: spec.server.to_string(),
                power_state: compute_power_state(detail.phase, detail.phase_seen),
                private_ip: detail.private_ip.map(|address| address.to_string()),
                public_ip: detail.public_ip.map(|address| address.to_string()),
                mac_address: detail.mac_address,
            },
        })
    }

    /// Its cluster, which keeps its number: whoever wants it gone evicts it there.
    fn held_by(record: &Record) -> Result<Option<Key>, CorruptRecord> {
        Ok(record.metadata.owner.filter(|owner| owner.kind == Kind::Cluster))
    }

    /// Who uses its server uses it: a volume, or an image that is being made of it.
    fn also_unreferenced(record: &Record) -> Result<Option<Key>, CorruptRecord> {
        Ok(Some(record.open::<Instance>()?.spec.server.key()))
    }
}
