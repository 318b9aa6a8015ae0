//! What a caller gets to see of a stored resource: it, or the answer that it does not exist.

use std::sync::Arc;

use super::Api;
use super::error::ApiError;
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{Key, Kind, NetworkId, OrganizationId, ProjectId, RegionId};
use crate::model::metadata::{ApiVersion, Placement, Principal};
use crate::model::record::{CorruptRecord, Place, Record, Resource};
use crate::model::region::{Region, RegionSpec};
use crate::store::{Batch, Committed, Refusal, StoreError};

/// The narrowest scope that holds the resource.
#[must_use]
pub const fn scope_of(placement: &Placement) -> Scope {
    match (placement.organization, placement.project) {
        (Some(organization), Some(project)) => Scope::Project(organization, project),
        (Some(organization), None) => Scope::Organization(organization),
        (None, _) => Scope::Global,
    }
}

/// The resource, if it is there and the caller may read it. Foreign and unknown are the same answer.
pub async fn readable(api: &Api, caller: &Caller, endpoint: Endpoint, key: Key) -> Result<Arc<Record>, ApiError> {
    readable_in(api, caller, (endpoint, ApiVersion::V2), key).await
}

/// The same, on either version of the surface. What the other one made is not there.
pub async fn readable_in(
    api: &Api,
    caller: &Caller,
    (endpoint, version): (Endpoint, ApiVersion),
    key: Key,
) -> Result<Arc<Record>, ApiError> {
    let record = api.store.get(key).await?.ok_or_else(ApiError::not_found)?;
    let is_allowed = caller.allows(endpoint, Operation::Read, scope_of(&record.metadata.placement));
    if is_allowed && record.metadata.api_version == version { Ok(record) } else { Err(ApiError::not_found()) }
}

/// Refuses, by name, what the caller may not do to something that it may read.
pub fn permitted(caller: &Caller, endpoint: Endpoint, operation: Operation, scope: Scope) -> Result<(), ApiError> {
    if caller.allows(endpoint, operation, scope) { Ok(()) } else { Err(ApiError::not_permitted(endpoint, operation)) }
}

/// The project must be there, in the organization that was named with it.
pub async fn existing_project(api: &Api, organization: OrganizationId, project: ProjectId) -> Result<(), ApiError> {
    let record = api.store.get(project.key()).await?.ok_or_else(ApiError::not_found)?;
    if record.metadata.placement.organization == Some(organization) { Ok(()) } else { Err(ApiError::not_found()) }
}

/// Whoever pays must be there, and the project must be theirs.
pub async fn existing_payer(api: &Api, payer: &Principal) -> Result<(), ApiError> {
    let Some(organization) = payer.organization else { return Ok(()) };
    let record = api.store.get(organization.key()).await?.ok_or_else(ApiError::not_found)?;
    if record.metadata.is_deleting() {
        return Err(ApiError::not_found());
    }
    match payer.project {
        Some(project) => existing_project(api, organization, project).await,
        None => Ok(()),
    }
}

/// The region, if it exists for this organization, or for an operator who sees every region.
pub async fn visible_region(
    api: &Api,
    caller: &Caller,
    organization: OrganizationId,
    region: RegionId,
) -> Result<Resource<Region>, ApiError> {
    let record = api.store.get(region.key()).await?.ok_or_else(ApiError::not_found)?;
    let resource = record.open::<Region>()?;
    if sees(caller, organization, &resource.spec) { Ok(resource) } else { Err(ApiError::not_found()) }
}

/// The region, if it exists for any organization that the caller belongs to, or for an operator who sees every region.
/// Whoever may do nothing at all, as a user who is not active, reaches nothing.
pub async fn reachable_region(api: &Api, caller: &Caller, region: RegionId) -> Result<Resource<Region>, ApiError> {
    let record = api.store.get(region.key()).await?.ok_or_else(ApiError::not_found)?;
    let resource = record.open::<Region>()?;
    if is_reachable(caller, &resource.spec) { Ok(resource) } else { Err(ApiError::not_found()) }
}

/// Does the region exist for any organization that the caller belongs to?
#[must_use]
pub fn is_reachable(caller: &Caller, region: &RegionSpec) -> bool {
    let organizations = &caller.acl().organizations;
    let is_listed = || organizations.keys().any(|organization| region.is_visible_to(*organization));
    let is_reachable = region.organizations.is_none() || is_listed() || sees_every_region(caller);
    is_reachable && !caller.acl().is_empty()
}

/// Refuses, by name, who may not do this in any organization that the region is there for.
pub fn permitted_in_region(
    caller: &Caller,
    endpoint: Endpoint,
    operation: Operation,
    region: &RegionSpec,
) -> Result<(), ApiError> {
    let organizations = caller.acl().organizations.keys().filter(|organization| region.is_visible_to(**organization));
    let mut scopes = organizations.map(|organization| Scope::Organization(*organization)).chain([Scope::Global]);
    if scopes.any(|scope| caller.allows(endpoint, operation, scope)) {
        Ok(())
    } else {
        Err(ApiError::not_permitted(endpoint, operation))
    }
}

/// Where something that lies in a network lies.
pub fn child_placement(network: &Record, id: NetworkId) -> Result<(Place, Placement), CorruptRecord> {
    Ok((network.place()?, Placement { network: Some(id), ..network.metadata.placement }))
}

fn sees(caller: &Caller, organization: OrganizationId, region: &RegionSpec) -> bool {
    region.is_visible_to(organization) || sees_every_region(caller)
}

fn sees_every_region(caller: &Caller) -> bool {
    caller.allows(Endpoint::Regions, Operation::Read, Scope::Global)
}

/// How often a read-modify-write is tried against other writers. Each loss means that another writer won, so this
/// many losses in a row mean a storm on one resource; more tries would hold the request longer than its client waits.
pub const UPDATE_TRIES_MAX: usize = 16;

/// Commits what `planned` makes of the records as it finds them, again and again while others write in between: change
/// them, take one away, or give one a child. If what stood in the way stays, `planned` will find it and say so better.
pub async fn read_modify_write<F>(api: &Api, planned: impl Fn() -> F) -> Result<Committed, ApiError>
where
    F: Future<Output = Result<Batch, ApiError>>,
{
    let mut last = ApiError::unavailable();
    for _ in 0..UPDATE_TRIES_MAX {
        match api.store.commit(planned().await?).await {
            Ok(committed) => return Ok(committed),
            Err(StoreError::Refused(
                refusal @ (Refusal::Conflict(_) | Refusal::Missing(_) | Refusal::HasChildren(_)),
            )) => last = refusal.into(),
            Err(error) => return Err(error.into()),
        }
        tokio::task::yield_now().await;
    }
    Err(last)
}

/// The name by which permission on a kind is granted; `None` for kinds that have no surface of their own.
#[must_use]
pub const fn endpoint_of(kind: Kind) -> Option<Endpoint> {
    match kind {
        Kind::Region => Some(Endpoint::Regions),
        Kind::Organization => Some(Endpoint::Organizations),
        Kind::Project => Some(Endpoint::Projects),
        Kind::Group => Some(Endpoint::Groups),
        Kind::User => Some(Endpoint::Users),
        Kind::ServiceAccount => Some(Endpoint::ServiceAccounts),
        Kind::Allocation => Some(Endpoint::Allocations),
        Kind::Identity => Some(Endpoint::Identities),
        Kind::Network => Some(Endpoint::NetworksV2),
        Kind::SecurityGroup => Some(Endpoint::SecurityGroupsV2),
        Kind::SshCertificateAuthority => Some(Endpoint::SshCertificateAuthoritiesV2),
        Kind::LoadBalancer => Some(Endpoint::LoadBalancersV2),
        Kind::Server => Some(Endpoint::Servers),
        Kind::Volume => Some(Endpoint::VolumesV2),
        Kind::FileStorage => Some(Endpoint::FileStorageV2),
        Kind::Image => Some(Endpoint::Images),
        Kind::Instance => Some(Endpoint::Instances),
        Kind::Cluster => Some(Endpoint::ComputeClusters),
        Kind::Token | Kind::Operation => None,
    }
}

/// The same, of an object that this version made.
#[must_use]
pub const fn endpoint_in(kind: Kind, version: ApiVersion) -> Option<Endpoint> {
    match (kind, version) {
        (Kind::Network, ApiVersion::V1) => Some(Endpoint::NetworksV1),
        (Kind::SecurityGroup, ApiVersion::V1) => Some(Endpoint::SecurityGroupsV1),
        _ => endpoint_of(kind),
    }
}
