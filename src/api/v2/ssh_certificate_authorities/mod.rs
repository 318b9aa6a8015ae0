//! SSH certificate authorities: public keys whose certificates servers accept. They never change: servers that were
//! made with one keep trusting what it was.

pub mod wire;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::Shared;
use crate::api::access::{existing_project, permitted, scope_of};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody, Failure};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::{Author, insert};
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Shown, Surface, listed, shown};
use crate::identity::acl::Operation;
use crate::model::ids::{Incarnation, Kind, SshCertificateAuthorityId};
use crate::model::metadata::{Metadata, Placement};
use crate::model::ssh_certificate_authority::SshCertificateAuthority;
use crate::store::{Batch, Precondition};
use wire::{AcceptedCreate, SshCertificateAuthorityCreate, SshCertificateAuthorityRead};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_authorities, create_authority))
        .routes(routes!(get_authority, delete_authority))
}

/// List SSH certificate authorities.
#[utoipa::path(
    get, path = "/api/v2/sshcertificateauthorities", operation_id = "listSshCertificateAuthorities",
    tag = "SSH certificate authorities",
    params(
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
    ),
    responses((status = 200, body = Vec<SshCertificateAuthorityRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_authorities(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    let filters = ["tag", "organizationID", "projectID"];
    listed::<SshCertificateAuthorityRead>(&api, caller, &query, &filters).await
}

/// Create SSH certificate authority.
#[utoipa::path(
    post, path = "/api/v2/sshcertificateauthorities", operation_id = "createSshCertificateAuthority",
    tag = "SSH certificate authorities", request_body = SshCertificateAuthorityCreate,
    responses((status = 201, body = SshCertificateAuthorityRead), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn create_authority(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<SshCertificateAuthorityCreate>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::SshCertificateAuthority);
    let accepted = request.accept()?;
    let (organization, project) = (accepted.organization, accepted.project);
    let placement = Placement { organization: Some(organization), project: Some(project), ..Placement::default() };
    trail.scope(placement);
    permitted(&caller, SshCertificateAuthorityRead::ENDPOINT, Operation::Create, scope_of(&placement))?;
    existing_project(&api, organization, project).await.map_err(no_project)?;
    let author = Author::of(&caller, (organization, project), api.ambient.now());
    let id = SshCertificateAuthorityId(api.ambient.uuid());
    let batch = creation(&accepted, &author, placement, (id, Incarnation(api.ambient.uuid())));
    let committed = api.store.commit(batch).await.map_err(|error| no_project(error.into()))?;
    Asked { api: &api, caller: &caller, trail: &trail }.created::<SshCertificateAuthorityRead>(&committed, id.key())
}

/// The contract has no 404 here: the project is a part of the request that does not hold.
fn no_project(error: ApiError) -> ApiError {
    match error.failure {
        Failure::NotFound => ApiError::unprocessable("spec.projectId names no project of the organization"),
        _ => error,
    }
}

/// Owned by its project, which takes it along when it goes.
fn creation(
    accepted: &AcceptedCreate,
    author: &Author,
    placement: Placement,
    (id, incarnation): (SshCertificateAuthorityId, Incarnation),
) -> Batch {
    let project = accepted.project.key();
    let metadata = Metadata { owner: Some(project), ..author.metadata(&accepted.metadata, incarnation, placement) };
    let insert = insert::<SshCertificateAuthority>(id.0, metadata, &accepted.spec);
    Batch::of(vec![insert]).provided(Precondition::Live(project))
}

/// Get SSH certificate authority.
#[utoipa::path(
    get, path = "/api/v2/sshcertificateauthorities/{sshCertificateAuthorityID}",
    operation_id = "getSshCertificateAuthority", tag = "SSH certificate authorities",
    params(("sshCertificateAuthorityID" = uuid::Uuid, Path)),
    responses((status = 200, body = SshCertificateAuthorityRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_authority(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Shown<SshCertificateAuthorityRead>, ApiError> {
    let authority: SshCertificateAuthorityId = path.id("sshCertificateAuthorityID")?;
    shown(&api, &caller, authority.key()).await
}

/// Delete SSH certificate authority.
#[utoipa::path(
    delete, path = "/api/v2/sshcertificateauthorities/{sshCertificateAuthorityID}",
    operation_id = "deleteSshCertificateAuthority", tag = "SSH certificate authorities",
    params(("sshCertificateAuthorityID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_authority(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let authority: SshCertificateAuthorityId = path.id("sshCertificateAuthorityID")?;
    Asked { api: &api, caller: &caller, trail: &trail }.deleted::<SshCertificateAuthorityRead>(authority.key()).await
}
