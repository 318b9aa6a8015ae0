//! Security groups: what may reach the servers of one network, and what they may reach.

pub mod intent;
pub mod wire;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::Shared;
use crate::api::access::{child_placement, permitted, readable, scope_of};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody, Failure};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::resources::{Asked, Replacement, Shown, Surface, listed, shown};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::{Incarnation, Kind, SecurityGroupId};
use crate::model::record::Resource;
use crate::model::security_group::SecurityGroup;
use crate::store::{Batch, Refusal, StoreError};
use wire::{Accepted, SecurityGroupCreate, SecurityGroupRead, SecurityGroupUpdate};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_security_groups, create_security_group)).routes(routes!(
        get_security_group,
        update_security_group,
        delete_security_group
    ))
}

/// List security groups.
#[utoipa::path(
    get, path = "/api/v2/securitygroups", operation_id = "listSecurityGroups", tag = "Security groups",
    params(
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
        ("networkID" = Option<Vec<String>>, Query, description = "Only those of these networks"),
    ),
    responses((status = 200, body = Vec<SecurityGroupRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_security_groups(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    let filters = ["tag", "organizationID", "projectID", "regionID", "networkID"];
    listed::<SecurityGroupRead>(&api, caller, &query, &filters).await
}

/// The contract has no 404 here: the network is a part of the request that does not hold.
const fn no_network() -> ApiError {
    ApiError {
        failure: Failure::InvalidRequest,
        description: std::borrow::Cow::Borrowed("spec.networkId names no network"),
    }
}

/// Create security group.
#[utoipa::path(
    post, path = "/api/v2/securitygroups", operation_id = "createSecurityGroup", tag = "Security groups",
    request_body = SecurityGroupCreate,
    responses((status = 201, body = SecurityGroupRead), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn create_security_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<SecurityGroupCreate>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::SecurityGroup);
    let (network, accepted) = request.accept()?;
    let owner = readable(&api, &caller, Endpoint::NetworksV2, network.key())
        .await
        .map_err(|error| if error.failure == Failure::NotFound { no_network() } else { error })?;
    let (place, placement) = child_placement(&owner, network)?;
    trail.scope(placement);
    permitted(&caller, SecurityGroupRead::ENDPOINT, Operation::Create, scope_of(&placement))?;
    let author = Author::of(&caller, (place.organization, place.project), api.ambient.now());
    let id = SecurityGroupId(api.ambient.uuid());
    let ids = (id, Incarnation(api.ambient.uuid()));
    let batch = intent::creation(&accepted, &author, (network.key(), placement), ids);
    let committed = api.store.commit(batch).await.map_err(|error| match error {
        StoreError::Refused(Refusal::Missing(_)) => no_network(),
        other => other.into(),
    })?;
    Asked { api: &api, caller: &caller, trail: &trail }.created::<SecurityGroupRead>(&committed, id.key())
}

/// Get security group.
#[utoipa::path(
    get, path = "/api/v2/securitygroups/{securityGroupID}", operation_id = "getSecurityGroup", tag = "Security groups",
    params(("securityGroupID" = uuid::Uuid, Path)),
    responses((status = 200, body = SecurityGroupRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_security_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Shown<SecurityGroupRead>, ApiError> {
    let group: SecurityGroupId = path.id("securityGroupID")?;
    shown(&api, &caller, group.key()).await
}

/// Update security group.
#[utoipa::path(
    put, path = "/api/v2/securitygroups/{securityGroupID}", operation_id = "updateSecurityGroup",
    tag = "Security groups",
    params(("securityGroupID" = uuid::Uuid, Path)), request_body = SecurityGroupUpdate,
    responses((status = 202, body = SecurityGroupRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn update_security_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<SecurityGroupUpdate>,
) -> Result<Response, ApiError> {
    let group: SecurityGroupId = path.id("securityGroupID")?;
    trail.resource(group.key());
    let accepted = request.accept()?;
    Asked { api: &api, caller: &caller, trail: &trail }.updated(group.key(), &accepted).await
}

#[async_trait]
impl Replacement for Accepted {
    type Surface = SecurityGroupRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<SecurityGroup>) -> Result<Batch, ApiError> {
        Ok(intent::update(stored, self, &asked.caller.subject, asked.api.ambient.now()))
    }
}

/// Delete security group.
#[utoipa::path(
    delete, path = "/api/v2/securitygroups/{securityGroupID}", operation_id = "deleteSecurityGroup",
    tag = "Security groups", params(("securityGroupID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_security_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let group: SecurityGroupId = path.id("securityGroupID")?;
    Asked { api: &api, caller: &caller, trail: &trail }.deleted::<SecurityGroupRead>(group.key()).await
}
