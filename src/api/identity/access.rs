//! What all paths below an organization share: who may enter it, and how its records are read and written.

use std::sync::Arc;

use crate::api::Api;
use crate::api::context::Trail;
use crate::api::error::{ApiError, deleting_text};
use crate::api::extract::PathElements;
use crate::api::wire::AcceptedMetadata;
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::WRITER_VERSION;
use crate::model::ids::{Incarnation, Key, Kind, OrganizationId, ProjectId};
use crate::model::metadata::{Metadata, Placement};
use crate::model::record::{Document, Record, ResourceKind};
use crate::store::{Batch, Committed, Filter, Pages, Precondition, Write};

/// How many ids one list of a request may hold. Each is looked up.
const IDS_MAX: usize = 1000;

/// One text for an organization that is not there and for one in which this is not allowed.
fn refused(endpoint: Endpoint, operation: Operation) -> ApiError {
    ApiError::forbidden(format!(
        "the organization does not exist, or permission {} on {} in it is required",
        operation.word(),
        endpoint.name()
    ))
}

/// The organization of the path, if the caller may do this in the whole of it.
pub async fn entered(
    api: &Api,
    caller: &Caller,
    trail: &Trail,
    path: &PathElements,
    (endpoint, operation): (Endpoint, Operation),
) -> Result<OrganizationId, ApiError> {
    let organization = named(trail, path)?;
    let allowed = caller.allows(endpoint, operation, Scope::Organization(organization));
    existing(api, allowed, organization, (endpoint, operation)).await
}

/// The organization of the path, if the caller belongs to it: what it may do there depends on the project.
pub async fn visited(
    api: &Api,
    caller: &Caller,
    trail: &Trail,
    path: &PathElements,
    wanted: (Endpoint, Operation),
) -> Result<OrganizationId, ApiError> {
    let organization = named(trail, path)?;
    existing(api, caller.knows(organization), organization, wanted).await
}

fn named(trail: &Trail, path: &PathElements) -> Result<OrganizationId, ApiError> {
    let organization: OrganizationId = path.id("organizationID")?;
    trail.scope(Placement { organization: Some(organization), ..Placement::default() });
    Ok(organization)
}

async fn existing(
    api: &Api,
    allowed: bool,
    organization: OrganizationId,
    (endpoint, operation): (Endpoint, Operation),
) -> Result<OrganizationId, ApiError> {
    let exists = allowed && api.store.get(organization.key()).await?.is_some();
    if exists { Ok(organization) } else { Err(refused(endpoint, operation)) }
}

/// The project of the path, if it is in this organization and the caller may read it.
pub async fn project_of(
    api: &Api,
    caller: &Caller,
    trail: &Trail,
    path: &PathElements,
    organization: OrganizationId,
) -> Result<(ProjectId, Arc<Record>), ApiError> {
    let project: ProjectId = path.id("projectID")?;
    trail.resource(project.key());
    trail.scope(Placement { organization: Some(organization), project: Some(project), ..Placement::default() });
    let scope = Scope::Project(organization, project);
    let record = owned(api, organization, project.key()).await?;
    if caller.allows(Endpoint::Projects, Operation::Read, scope) {
        Ok((project, record))
    } else {
        Err(ApiError::not_found())
    }
}

/// The record, if it belongs to the organization.
pub async fn owned(api: &Api, organization: OrganizationId, key: Key) -> Result<Arc<Record>, ApiError> {
    let record = api.store.get(key).await?.ok_or_else(ApiError::not_found)?;
    if record.metadata.placement.organization == Some(organization) { Ok(record) } else { Err(ApiError::not_found()) }
}

#[must_use]
pub fn of_organization(kind: Kind, organization: OrganizationId) -> Filter {
    Filter { organizations: Some(vec![organization]), ..Filter::of(kind) }
}

/// Every record of a kind in an organization, in order of id. Only for kinds whose number is bounded by [`room`].
pub async fn all_of(api: &Api, organization: OrganizationId, kind: Kind) -> Result<Vec<Arc<Record>>, ApiError> {
    let mut pages = Pages::of(&*api.store, of_organization(kind, organization));
    let mut all = Vec::new();
    while let Some(records) = pages.next().await? {
        all.extend(records);
    }
    Ok(all)
}

/// Refuses one more of a kind, whose owner is the organization, than it may have. Two that come together may both pass:
/// the bound is for the cost of reading them all, not a promise.
pub async fn room(api: &Api, organization: OrganizationId, kind: Kind, max: usize) -> Result<(), ApiError> {
    // Keys alone: counting must not cost what it is there to bound.
    let children = api.store.children(organization.key()).await?;
    if children.iter().filter(|child| child.kind == kind).count() < max {
        Ok(())
    } else {
        Err(ApiError::forbidden(format!("the organization has as many of kind {kind} as it may have")))
    }
}

/// Something new of an organization's, owned by it, so that it goes with it.
pub fn made<K: ResourceKind>(
    api: &Api,
    caller: &Caller,
    id: uuid::Uuid,
    organization: OrganizationId,
    accepted: AcceptedMetadata,
    spec: &K::Spec,
) -> Write {
    let placement = Placement { organization: Some(organization), ..Placement::default() };
    let incarnation = Incarnation(api.ambient.uuid());
    let new = Metadata::new(incarnation, &accepted.name, placement, &caller.subject, api.ambient.now());
    let metadata = Metadata {
        description: accepted.description,
        tags: accepted.tags,
        deletion_protection: accepted.deletion_protection,
        owner: Some(organization.key()),
        ..new
    };
    Write::Insert(Box::new(Record::new::<K>(id, metadata, spec)))
}

/// A full replacement of what a client may write. Who made it stays (B10).
pub fn edited<S: serde::Serialize>(
    api: &Api,
    caller: &Caller,
    record: &Record,
    accepted: Option<&AcceptedMetadata>,
    spec: &S,
) -> Result<Write, ApiError> {
    if record.metadata.is_deleting() {
        return Err(ApiError::invalid(deleting_text(record.key.kind)));
    }
    let spec = Document::of(spec);
    let mut metadata = Metadata {
        modifier: Some(caller.subject.clone()),
        modified: Some(api.ambient.now()),
        generation: record.metadata.generation + u64::from(spec != record.spec),
        writer_version: WRITER_VERSION,
        ..record.metadata.clone()
    };
    if let Some(accepted) = accepted {
        metadata.name.clone_from(&accepted.name);
        metadata.description.clone_from(&accepted.description);
        metadata.tags.clone_from(&accepted.tags);
        metadata.deletion_protection = accepted.deletion_protection.or(metadata.deletion_protection);
    }
    Ok(Write::Intent { key: record.key, expected: record.revision, metadata: Box::new(metadata), spec })
}

/// A new thing needs an organization that is staying.
#[must_use]
pub fn in_live(organization: OrganizationId, writes: Vec<Write>) -> Batch {
    Batch::of(writes).provided(Precondition::Live(organization.key()))
}

/// The record as the commit left it.
pub fn written(committed: &Committed, key: Key) -> Result<Arc<Record>, ApiError> {
    let record = committed.records.iter().rev().find(|record| record.key == key);
    record.cloned().ok_or_else(|| ApiError::internal(&"a commit did not return what it wrote"))
}

/// Ids that a client wrote: well formed, each once, and not too many.
pub fn ids<T: std::str::FromStr + Ord + Copy>(field: &str, texts: &[String]) -> Result<Vec<T>, ApiError> {
    if texts.len() > IDS_MAX {
        return Err(ApiError::invalid(format!("{field} must be at most {IDS_MAX}")));
    }
    let parsed = texts.iter().map(|text| text.parse::<T>()).collect::<Result<Vec<_>, _>>();
    let ids = parsed.map_err(|_| ApiError::invalid(format!("{field} must be UUIDs")))?;
    let distinct = ids.iter().collect::<std::collections::BTreeSet<_>>().len();
    if distinct == ids.len() { Ok(ids) } else { Err(ApiError::invalid(format!("{field} must not repeat"))) }
}
