//! What the caller may do, as other services ask for it.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::visited;
use crate::api::Shared;
use crate::api::context::Trail;
use crate::api::error::ApiError;
use crate::api::extract::{Authenticated, PathElements};
use crate::api::openapi::CommonErrors;
use crate::identity::acl::{Acl, Endpoint, Grants, Operation, OrganizationGrants};
use crate::model::ids::OrganizationId;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(get_acl)).routes(routes!(get_organization_acl))
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = aclEndpoint)]
struct AclEndpoint {
    name: &'static str,
    operations: Vec<&'static str>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = aclProject)]
struct AclProject {
    id: String,
    endpoints: Vec<AclEndpoint>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = aclOrganization)]
struct AclOrganization {
    id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    endpoints: Vec<AclEndpoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    projects: Vec<AclProject>,
}

#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = acl)]
struct AclRead {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    global: Vec<AclEndpoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    organizations: Vec<AclOrganization>,
    /// The organization that was asked for, for clients that know no other form.
    #[serde(skip_serializing_if = "Option::is_none")]
    organization: Option<AclOrganization>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    projects: Vec<AclProject>,
}

fn endpoints(grants: &Grants) -> Vec<AclEndpoint> {
    let named = |endpoint: &Endpoint| {
        let held = grants.iter().filter(|permission| permission.endpoint == *endpoint);
        let operations = held.map(|permission| permission.operation.word()).collect::<Vec<_>>();
        (!operations.is_empty()).then_some(AclEndpoint { name: endpoint.name(), operations })
    };
    Endpoint::ALL.iter().filter_map(named).collect()
}

fn organization(id: OrganizationId, grants: &OrganizationGrants) -> AclOrganization {
    let projects = grants.projects.iter();
    let projects = projects.map(|(id, grants)| AclProject { id: id.to_string(), endpoints: endpoints(grants) });
    AclOrganization { id: id.to_string(), endpoints: endpoints(&grants.everywhere), projects: projects.collect() }
}

impl AclRead {
    fn of(acl: &Acl) -> Self {
        let organizations = acl.organizations.iter().map(|(id, grants)| organization(*id, grants)).collect();
        Self { global: endpoints(&acl.global), organizations, ..Self::default() }
    }
}

/// What the caller may do.
#[utoipa::path(
    get, path = "/api/v1/acl", operation_id = "getAcl", tag = "ACL",
    responses((status = 200, body = AclRead), CommonErrors),
    security(("bearer" = []))
)]
async fn get_acl(Authenticated(caller): Authenticated) -> Json<AclRead> {
    Json(AclRead::of(caller.acl()))
}

/// What the caller may do in one organization.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/acl", operation_id = "getOrganizationAcl", tag = "ACL",
    params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = AclRead), CommonErrors),
    security(("bearer" = []))
)]
async fn get_organization_acl(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Json<AclRead>, ApiError> {
    let id = visited(&api, &caller, &trail, &path, (Endpoint::Organizations, Operation::Read)).await?;
    let here = caller.acl().organizations.get(&id).map(|grants| organization(id, grants));
    let global = endpoints(&caller.acl().global);
    let projects = here.as_ref().map(|here| here.projects.clone()).unwrap_or_default();
    Ok(Json(AclRead { global, organizations: here.iter().cloned().collect(), organization: here, projects }))
}
