//! What storage systems can do: a trait of its own, because files often come from another system than machines do.
//!
//! A region's [`super::Provider`] hands out its provisioner, which may be part of its cloud (the simulated one is) or a
//! storage system beside it. What holds for providers holds here: converge-style, idempotent, adopting what a lost
//! answer left, absent only when the system has said so, and every call through the region's pool.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{CallContext, Deletion, Listed, Listing, Observed, Provider, ProviderError, ProviderResult};
use crate::model::file_storage::{
    AttachmentDetail, FileStorage, FileStorageDetail, FileStorageSpec, PartState, PolicyDetail, Usage,
};
use crate::model::ids::{
    FileStorageClassId, FileStorageId, Incarnation, NetworkId, OrganizationId, ProjectId, ProviderFileStorageId,
};
use crate::model::record::{CorruptRecord, Resource};

/// What shares are offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStorageClass {
    pub id: FileStorageClassId,
    pub name: String,
    pub description: Option<String>,
    /// Absent: everybody's. Present: there for these organizations alone.
    pub organizations: Option<Vec<OrganizationId>>,
    pub protocols: Vec<FileProtocol>,
    /// How many addresses of a network a share makes use of.
    pub parallelism: u32,
}

impl FileStorageClass {
    #[must_use]
    pub fn is_visible_to(&self, organization: OrganizationId) -> bool {
        self.organizations.as_ref().is_none_or(|allowed| allowed.contains(&organization))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = storageClassProtocolType)]
pub enum FileProtocol {
    Nfsv3,
    Nfsv4,
}

/// A share to make, to change or to unmake.
#[derive(Clone, Debug, PartialEq)]
pub struct FileStorageRequest {
    pub id: FileStorageId,
    pub incarnation: Incarnation,
    /// The generation that the specification is of.
    pub generation: u64,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub spec: FileStorageSpec,
    /// Those networks of the specification that can be attached to now. The others are left as they are.
    pub ready: Vec<NetworkId>,
    pub detail: FileStorageDetail,
}

impl FileStorageRequest {
    pub fn of(resource: &Resource<FileStorage>, ready: Vec<NetworkId>) -> Result<Self, CorruptRecord> {
        let place = resource.place()?;
        Ok(Self {
            id: FileStorageId(resource.key.id),
            incarnation: resource.metadata.incarnation,
            generation: resource.metadata.generation,
            organization: place.organization,
            project: place.project,
            spec: resource.spec.clone(),
            ready,
            detail: resource.detail.clone(),
        })
    }
}

/// How what is told of a share was learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// From a list, which may lag behind: what it lacks may be there all the same.
    Listed,
    /// By looking at each part, and there is more to do.
    Converging,
    /// The same, and nothing of another generation than this is left.
    Converged(u64),
}

/// What is there of a share.
#[derive(Clone, Debug, PartialEq)]
pub struct FileStorageFact {
    pub look: Look,
    pub share: ProviderFileStorageId,
    pub state: PartState,
    pub mount_path: Option<String>,
    pub size_bytes: u64,
    /// In the order of their networks.
    pub attachments: Vec<AttachmentDetail>,
    pub policies: Vec<PolicyDetail>,
    /// Lists have it, looks do not.
    pub usage: Option<Usage>,
    /// Of what a convergence sets right: changes when and only when some of it does.
    pub configuration: u64,
    /// Of everything but the usage.
    pub fingerprint: u64,
    /// What kept an attachment from being made or removed, when the rest went well.
    pub setback: Option<ProviderError>,
}

/// A storage system.
#[async_trait]
pub trait FileStorageProvisioner: Send + Sync {
    async fn classes(&self, context: &CallContext<'_>) -> ProviderResult<Vec<FileStorageClass>>;

    /// The share, its size and policies, then its attachments one by one; each keeps its progress whatever becomes of
    /// the others. Never makes a share smaller.
    async fn converge(
        &self,
        context: &CallContext<'_>,
        request: &FileStorageRequest,
    ) -> ProviderResult<Observed<FileStorageFact>>;

    /// The attachments first, confirmed absent; then the share.
    async fn delete(&self, context: &CallContext<'_>, request: &FileStorageRequest) -> ProviderResult<Deletion>;

    /// Every share that is ours, or `only` those asked for, with its attachments and its usage.
    async fn list(
        &self,
        context: &CallContext<'_>,
        only: Option<&[Uuid]>,
        after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>>;
}

/// The storage system of a region, or the answer that it has none.
pub fn provisioner(provider: &dyn Provider) -> ProviderResult<&dyn FileStorageProvisioner> {
    provider.file_storage().ok_or(ProviderError::Unsupported("file storage"))
}
