//! SSH certificate authorities on the wire, and the way in and out of the model.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::resources::Surface;
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata, body_id};
use crate::identity::acl::Endpoint;
use crate::model::ids::{OrganizationId, ProjectId};
use crate::model::record::{CorruptRecord, Record};
use crate::model::ssh_certificate_authority::{SshCertificateAuthority, SshCertificateAuthoritySpec};

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = sshCertificateAuthorityV2CreateSpec)]
pub struct WireCreateSpec {
    #[schema(format = "uuid")]
    pub organization_id: String,
    #[schema(format = "uuid")]
    pub project_id: String,
    /// One OpenSSH public key, without options.
    #[schema(max_length = 8192)]
    pub public_key: String,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = sshCertificateAuthorityV2Create)]
pub struct SshCertificateAuthorityCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = sshCertificateAuthorityV2Spec)]
pub struct WireSpec {
    pub public_key: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = sshCertificateAuthorityV2Read)]
pub struct SshCertificateAuthorityRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
}

/// A creation that follows the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedCreate {
    pub metadata: AcceptedMetadata,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub spec: SshCertificateAuthoritySpec,
}

impl SshCertificateAuthorityCreate {
    /// Form before meaning: what cannot be read is 400, a key that is none is 422.
    pub fn accept(self) -> Result<AcceptedCreate, ApiError> {
        Ok(AcceptedCreate {
            metadata: self.metadata.accept()?,
            organization: body_id(&self.spec.organization_id, "spec.organizationId must be a UUID")?,
            project: body_id(&self.spec.project_id, "spec.projectId must be a UUID")?,
            spec: SshCertificateAuthoritySpec::normalised(&self.spec.public_key)
                .map_err(|error| ApiError::unprocessable(format!("spec.{error}")))?,
        })
    }
}

impl Surface for SshCertificateAuthorityRead {
    type Kind = SshCertificateAuthority;
    const ENDPOINT: Endpoint = Endpoint::SshCertificateAuthoritiesV2;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        Ok(Self {
            metadata: ProjectScopedReadMetadata::of_static(record),
            spec: WireSpec { public_key: record.open::<SshCertificateAuthority>()?.spec.public_key },
        })
    }
}
