//! Servers, as the first version shows them: on exactly one network, in a principal.
//!
//! They are checked, made and changed as those of the second version are. What differs: their ids are drawn, so that
//! names may repeat; an update keeps the image whatever it says, so that it never costs a disk; and the only way in is
//! the key pair of the principal.

mod verbs;
pub mod wire;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::paths::{creating, listed_in_organization, located, principal, shown};
use crate::api::Shared;
use crate::api::access::{child_placement, readable_in};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Replacement, Shown, Surface};
use crate::api::v1::networks::NetworkRead;
use crate::api::v2::servers::wire::AcceptedUpdate;
use crate::api::v2::servers::{GroupHome, admissible, intent, replacement};
use crate::model::ids::{Incarnation, Kind, NetworkId, ServerId};
use crate::model::record::Resource;
use crate::model::server::Server;
use crate::store::Batch;
use wire::{ServerRead, ServerWrite};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_servers))
        .routes(routes!(create_server))
        .routes(routes!(get_server, update_server, delete_server))
        .merge(verbs::routes())
}

/// List servers.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/servers", operation_id = "listServersV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path),
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
        ("networkID" = Option<Vec<String>>, Query, description = "Only those of these networks"),
    ),
    responses((status = 200, body = Vec<ServerRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_servers(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    query: QueryElements,
) -> Result<Response, ApiError> {
    let filters = ["tag", "projectID", "regionID", "networkID"];
    listed_in_organization::<ServerRead>(&api, caller, &path, query, &filters).await
}

/// Create server.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers",
    operation_id = "createServerV1", tag = "Version 1", request_body = ServerWrite,
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
    ),
    responses(
        (status = 201, body = ServerRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors,
        ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn create_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<ServerWrite>,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let mut accepted = request.accept()?;
    creating::<ServerRead>(asked, &path, Kind::Server)?;
    let (identity, _) = principal(&api, &path).await?;
    let network = accepted.network;
    let owner = readable_in(&api, &caller, (NetworkRead::ENDPOINT, NetworkRead::VERSION), network.key()).await?;
    if owner.metadata.placement.identity != Some(identity) {
        return Err(ApiError::unprocessable("spec.networks must be of the server's identity"));
    }
    let (place, placement) = child_placement(&owner, network)?;
    trail.scope(placement);
    accepted.spec.own_images = admissible(&api, &caller, place, &accepted.spec, GroupHome::Identity(identity)).await?;
    let author = Author::of_v1(&caller, (place.organization, place.project), api.ambient.now());
    let ids = (ServerId(api.ambient.uuid()), Incarnation(api.ambient.uuid()));
    let committed = api.store.commit(intent::creation(&accepted, &author, placement, ids)).await?;
    asked.created::<ServerRead>(&committed, ids.0.key())
}

/// Get server.
#[utoipa::path(
    get,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers/{serverID}",
    operation_id = "getServerV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("serverID" = uuid::Uuid, Path),
    ),
    responses((status = 200, body = ServerRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Shown<ServerRead>, ApiError> {
    let server: ServerId = path.id("serverID")?;
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    shown(asked, &path, server.key()).await
}

/// Update server. The image stays what it was.
#[utoipa::path(
    put,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers/{serverID}",
    operation_id = "updateServerV1", tag = "Version 1", request_body = ServerWrite,
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("serverID" = uuid::Uuid, Path),
    ),
    responses(
        (status = 202, body = ServerRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors,
        ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn update_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<ServerWrite>,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let server: ServerId = path.id("serverID")?;
    let (network, accepted) = request.accept_update()?;
    located::<ServerRead>(asked, &path, server.key()).await?;
    asked.updated(server.key(), &Replaced { network, accepted }).await
}

/// A replacement of a server of this version.
struct Replaced {
    network: NetworkId,
    accepted: AcceptedUpdate,
}

#[async_trait]
impl Replacement for Replaced {
    type Surface = ServerRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<Server>) -> Result<Batch, ApiError> {
        if self.network != stored.network()? {
            return Err(ApiError::unprocessable("spec.networks of a server cannot be changed"));
        }
        let accepted = AcceptedUpdate { image: stored.spec.image, ..self.accepted.clone() };
        replacement(asked, stored, &accepted, GroupHome::Identity(stored.identity()?)).await
    }
}

/// Delete server.
#[utoipa::path(
    delete,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers/{serverID}",
    operation_id = "deleteServerV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("serverID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let server: ServerId = path.id("serverID")?;
    located::<ServerRead>(asked, &path, server.key()).await?;
    asked.deleted::<ServerRead>(server.key()).await
}
