//! Projects: where an organization's resources lie, who may use them, and who refers to them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::put;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{edited, entered, ids, in_live, made, of_organization, project_of, room, visited, written};
use super::members::Groups;
use crate::api::access::{permitted, read_modify_write};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::etag::{EntityTag, Tagged};
use crate::api::extract::{Authenticated, JsonBody, PathElements};
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::resources::Shown;
use crate::api::wire::{AcceptedMetadata, OrganizationScopedReadMetadata, WriteMetadata};
use crate::api::{Api, Shared, list, reference};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{Kind, OrganizationId, ProjectId};
use crate::model::organization::{Project, ProjectSpec};
use crate::model::record::Record;
use crate::store::{Batch, Precondition, Write};

const ENDPOINT: Endpoint = Endpoint::Projects;

/// How many projects an organization may have: all of them are read when rights are worked out.
const PROJECTS_MAX: usize = 1000;

pub fn routes() -> OpenApiRouter<Shared> {
    let unescaped = "/api/v1/organizations/{organizationID}/projects/{projectID}/references/{reference}/{id}";
    OpenApiRouter::new()
        .routes(routes!(list_projects, create_project))
        .routes(routes!(get_project, update_project, delete_project))
        .routes(routes!(add_reference, remove_reference))
        // The same, for clients that do not escape the slash inside a reference.
        .route(unescaped, put(add_reference).delete(remove_reference))
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = projectSpec)]
struct WireProjectSpec {
    #[serde(rename = "groupIDs")]
    group_ids: Vec<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = projectWrite)]
struct ProjectWrite {
    metadata: WriteMetadata,
    spec: WireProjectSpec,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = projectRead)]
struct ProjectRead {
    metadata: OrganizationScopedReadMetadata,
    spec: WireProjectSpec,
}

impl ProjectWrite {
    fn accept(self) -> Result<(AcceptedMetadata, ProjectSpec), ApiError> {
        let groups = ids("spec.groupIDs", &self.spec.group_ids)?;
        Ok((self.metadata.accept()?, ProjectSpec { groups }))
    }
}

impl ProjectRead {
    fn of(record: &Record) -> Result<Self, ApiError> {
        let groups = record.open::<Project>()?.spec.groups;
        let spec = WireProjectSpec { group_ids: groups.iter().map(ToString::to_string).collect() };
        Ok(Self { metadata: OrganizationScopedReadMetadata::of_static(record), spec })
    }
}

/// List projects.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/projects", operation_id = "listProjects", tag = "Projects",
    params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = Vec<ProjectRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_projects(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let organization = visited(&api, &caller, &trail, &path, (ENDPOINT, Operation::Read)).await?;
    let show = move |record: &Record| {
        let scope = Scope::Project(organization, ProjectId(record.key.id));
        if caller.allows(ENDPOINT, Operation::Read, scope) { ProjectRead::of(record).ok() } else { None }
    };
    list::streamed(Arc::clone(&api.store), of_organization(Kind::Project, organization), show).await
}

/// Create project.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/projects", operation_id = "createProject", tag = "Projects",
    params(("organizationID" = uuid::Uuid, Path)), request_body = ProjectWrite,
    responses((status = 202, body = ProjectRead), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn create_project(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<ProjectWrite>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::Project);
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Create)).await?;
    let (accepted, spec) = request.accept()?;
    room(&api, organization, Kind::Project, PROJECTS_MAX).await?;
    Groups::of(&api, organization).await?.must_be_grantable(&caller, organization, &spec.groups)?;
    let project = ProjectId(api.ambient.uuid());
    trail.resource(project.key());
    let new = made::<Project>(&api, &caller, project.0, organization, accepted, &spec);
    let committed = api.store.commit(in_live(organization, vec![new])).await?;
    let read = ProjectRead::of(&*written(&committed, project.key())?)?;
    Ok((StatusCode::ACCEPTED, Json(read)).into_response())
}

/// Get project.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/projects/{projectID}", operation_id = "getProject",
    tag = "Projects", params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path)),
    responses((status = 200, body = ProjectRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_project(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Shown<ProjectRead>, ApiError> {
    let organization = visited(&api, &caller, &trail, &path, (ENDPOINT, Operation::Read)).await?;
    let (_, record) = project_of(&api, &caller, &trail, &path, organization).await?;
    Ok(Tagged(EntityTag::of(&record), Json(ProjectRead::of(&record)?)))
}

/// The project that a change is about, if the caller may read it and change it.
async fn resolved(
    api: &Api,
    caller: &Caller,
    trail: &Trail,
    path: &PathElements,
    (endpoint, operation): (Endpoint, Operation),
) -> Result<(OrganizationId, ProjectId, Arc<Record>), ApiError> {
    let organization = visited(api, caller, trail, path, (endpoint, operation)).await?;
    let (project, record) = project_of(api, caller, trail, path, organization).await?;
    permitted(caller, endpoint, operation, Scope::Project(organization, project))?;
    Ok((organization, project, record))
}

/// Update project.
#[utoipa::path(
    put, path = "/api/v1/organizations/{organizationID}/projects/{projectID}", operation_id = "updateProject",
    tag = "Projects", params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path)),
    request_body = ProjectWrite,
    responses((status = 200), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn update_project(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<ProjectWrite>,
) -> Result<StatusCode, ApiError> {
    let wanted = (ENDPOINT, Operation::Update);
    resolved(&api, &caller, &trail, &path, wanted).await?;
    let (accepted, spec) = request.accept()?;
    let planned = || async {
        let (organization, _, record) = resolved(&api, &caller, &trail, &path, wanted).await?;
        let before = record.open::<Project>()?.spec.groups;
        let groups = Groups::of(&api, organization).await?;
        groups.must_hold(&spec.groups)?;
        let added = spec.groups.iter().filter(|group| !before.contains(group)).copied().collect::<Vec<_>>();
        groups.must_be_grantable(&caller, organization, &added)?;
        Ok(Batch::of(vec![edited(&api, &caller, &record, Some(&accepted), &spec)?]))
    };
    read_modify_write(&api, planned).await?;
    Ok(StatusCode::OK)
}

/// Delete project, with everything in it. It stays, marked, until all of that is gone and nobody refers to it.
#[utoipa::path(
    delete, path = "/api/v1/organizations/{organizationID}/projects/{projectID}", operation_id = "deleteProject",
    tag = "Projects", params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_project(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let (_, project, _) = resolved(&api, &caller, &trail, &path, (ENDPOINT, Operation::Delete)).await?;
    let mark = Write::MarkDeleted { key: project.key(), at: api.ambient.now() };
    api.store.commit(Batch::of(vec![mark]).provided(Precondition::Unprotected(project.key()))).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Add a reference, which keeps the project while it is being deleted.
#[utoipa::path(
    put, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/references/{reference}",
    operation_id = "addProjectReference", tag = "Projects",
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("reference" = String, Path)),
    responses((status = 201), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn add_reference(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let holder = reference::holder_of(&path)?;
    let wanted = (Endpoint::ProjectReferences, Operation::Create);
    let (_, project, _) = resolved(&api, &caller, &trail, &path, wanted).await?;
    reference::add(&api, project.key(), holder).await?;
    Ok(StatusCode::CREATED)
}

/// Remove a reference.
#[utoipa::path(
    delete, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/references/{reference}",
    operation_id = "removeProjectReference", tag = "Projects",
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("reference" = String, Path)),
    responses((status = 204), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn remove_reference(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let holder = reference::holder_of(&path)?;
    let wanted = (Endpoint::ProjectReferences, Operation::Delete);
    let (_, project, _) = resolved(&api, &caller, &trail, &path, wanted).await?;
    reference::remove(&api, project.key(), holder).await?;
    Ok(StatusCode::NO_CONTENT)
}
