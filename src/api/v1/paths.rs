//! What a path of the first version names: everything that the thing lies in, and it. All of it must be true; a path
//! that is wrong anywhere is the path of nothing.

use std::sync::Arc;

use axum::Json;
use axum::response::Response;

use crate::api::access::{permitted, readable_in};
use crate::api::error::ApiError;
use crate::api::etag::{EntityTag, Tagged};
use crate::api::extract::{PathElements, QueryElements};
use crate::api::resources::{Asked, Shown, Surface, listed};
use crate::api::{Api, paging};
use crate::identity::Caller;
use crate::identity::acl::{Operation, Scope};
use crate::model::ids::{IdentityId, Key, Kind, OrganizationId, ProjectId};
use crate::model::metadata::{ApiVersion, Placement};
use crate::model::record::Record;

pub fn project(path: &PathElements) -> Result<(OrganizationId, ProjectId), ApiError> {
    Ok((path.id("organizationID")?, path.id("projectID")?))
}

/// Everything of an organization that may be read.
pub async fn listed_in_organization<R: Surface>(
    api: &Api,
    caller: Caller,
    path: &PathElements,
    query: QueryElements,
    filters: &[&str],
) -> Result<Response, ApiError> {
    let organization: OrganizationId = path.id("organizationID")?;
    query.only(&[filters, &paging::PARAMETERS].concat())?;
    let query = query.with("organizationID", organization.to_string());
    listed::<R>(api, caller, &query, &[filters, &["organizationID"]].concat()).await
}

/// The project of the path, in which the caller may create things of this kind.
pub fn creating<R: Surface>(asked: Asked<'_>, path: &PathElements, kind: Kind) -> Result<Placement, ApiError> {
    asked.trail.kind(kind);
    let (organization, project) = project(path)?;
    let placement = Placement { organization: Some(organization), project: Some(project), ..Placement::default() };
    asked.trail.scope(placement);
    permitted(asked.caller, R::ENDPOINT, Operation::Create, Scope::Project(organization, project))?;
    Ok(placement)
}

/// The principal of the path, for whoever may create something in its project, which need not mean reading it.
pub async fn principal(api: &Api, path: &PathElements) -> Result<(IdentityId, Arc<Record>), ApiError> {
    let identity: IdentityId = path.id("identityID")?;
    let record = api.store.get(identity.key()).await?.ok_or_else(ApiError::not_found)?;
    let is_shown = record.metadata.api_version == ApiVersion::V1;
    if is_shown && lies_on(&record, path)? { Ok((identity, record)) } else { Err(ApiError::not_found()) }
}

/// The resource that the path leads to, if the caller may read it.
pub async fn located<R: Surface>(asked: Asked<'_>, path: &PathElements, key: Key) -> Result<Arc<Record>, ApiError> {
    asked.trail.resource(key);
    let record = readable_in(asked.api, asked.caller, (R::ENDPOINT, R::VERSION), key).await?;
    if lies_on(&record, path)? { Ok(record) } else { Err(ApiError::not_found()) }
}

/// The same, as it is shown.
pub async fn shown<R: Surface>(asked: Asked<'_>, path: &PathElements, key: Key) -> Result<Shown<R>, ApiError> {
    let record = located::<R>(asked, path, key).await?;
    Ok(Tagged(EntityTag::of(&record), Json(R::of(&record)?)))
}

fn lies_on(record: &Record, path: &PathElements) -> Result<bool, ApiError> {
    let placement = &record.metadata.placement;
    let (organization, project) = project(path)?;
    let is_there = (placement.organization, placement.project) == (Some(organization), Some(project));
    let is_of_principal = match record.key.kind {
        // The principal behind a cluster is hidden, and so on no path.
        Kind::Identity | Kind::Cluster => true,
        _ => placement.identity == Some(path.id::<IdentityId>("identityID")?),
    };
    Ok(is_there && is_of_principal)
}
