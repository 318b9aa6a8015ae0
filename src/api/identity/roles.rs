//! The roles that groups of an organization may have.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::entered;
use crate::api::Shared;
use crate::api::context::Trail;
use crate::api::error::ApiError;
use crate::api::extract::{Authenticated, PathElements};
use crate::api::openapi::CommonErrors;
use crate::api::wire::{ReadMetadata, wire_time};
use crate::identity::acl::{Endpoint, Operation};
use crate::identity::catalogue::{ROLES, Role};
use crate::identity::membership::may_grant;
use crate::model::projection::{HealthStatus, ProvisioningStatus};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_roles))
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = roleRead)]
struct RoleRead {
    metadata: ReadMetadata,
    /// May the caller grant it? One may only grant what one holds.
    grantable: bool,
}

/// List roles. Protected ones are not shown: nobody can grant them.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/roles", operation_id = "listRoles", tag = "Roles",
    params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = Vec<RoleRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_roles(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Json<Vec<RoleRead>>, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (Endpoint::Roles, Operation::Read)).await?;
    let shown = ROLES.iter().filter(|role| !role.protected);
    let read =
        |role: &Role| RoleRead { metadata: metadata_of(role), grantable: may_grant(caller.acl(), organization, role) };
    let mut roles = shown.map(read).collect::<Vec<_>>();
    roles.sort_by(|one, other| one.metadata.id.cmp(&other.metadata.id));
    Ok(Json(roles))
}

/// A role has always been there, and nobody in particular has made it.
fn metadata_of(role: &Role) -> ReadMetadata {
    ReadMetadata {
        id: role.id().to_string(),
        name: role.name.to_owned(),
        description: Some(role.description.to_owned()),
        tags: None,
        deletion_protection: None,
        creation_time: wire_time(Timestamp::UNIX_EPOCH),
        created_by: "regent".to_owned(),
        modified_time: None,
        modified_by: None,
        deletion_time: None,
        provisioning_status: ProvisioningStatus::Provisioned,
        provisioning_status_detail: None,
        health_status: HealthStatus::Healthy,
        health_status_detail: None,
    }
}
