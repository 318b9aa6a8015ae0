//! Networks: one IPv4 prefix each, in a project and a region.

pub mod intent;
pub mod wire;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::put;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::{existing_payer, existing_project, permitted, scope_of, visible_region};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Replacement, Shown, Surface, listed, shown};
use crate::api::{Shared, reference};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::edge::Holder;
use crate::model::ids::{Kind, NetworkId};
use crate::model::metadata::Placement;
use crate::model::network::Network;
use crate::model::record::Resource;
use crate::store::{Batch, Refusal, StoreError};
use intent::NewIds;
use wire::{AcceptedUpdate, NetworkCreate, NetworkRead, NetworkUpdate};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_networks, create_network))
        .routes(routes!(get_network, update_network, delete_network))
        .routes(routes!(add_reference, remove_reference))
        // The same, for clients that do not escape the slash inside a reference.
        .route("/api/v2/networks/{networkID}/references/{reference}/{id}", put(add_reference).delete(remove_reference))
}

/// List networks.
#[utoipa::path(
    get, path = "/api/v2/networks", operation_id = "listNetworks", tag = "Networks",
    params(
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
    ),
    responses((status = 200, body = Vec<NetworkRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_networks(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    listed::<NetworkRead>(&api, caller, &query, &["tag", "organizationID", "projectID", "regionID"]).await
}

/// Create network.
#[utoipa::path(
    post, path = "/api/v2/networks", operation_id = "createNetwork", tag = "Networks", request_body = NetworkCreate,
    responses((status = 201, body = NetworkRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn create_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<NetworkCreate>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::Network);
    let accepted = request.accept()?;
    let (organization, project, region) = (accepted.organization, accepted.project, accepted.region);
    let placement = Placement {
        organization: Some(organization),
        project: Some(project),
        region: Some(region),
        ..Placement::default()
    };
    trail.scope(placement);
    permitted(&caller, NetworkRead::ENDPOINT, Operation::Create, scope_of(&placement))?;
    existing_project(&api, organization, project).await?;
    if visible_region(&api, &caller, organization, region).await?.spec.withdrawn {
        return Err(ApiError::not_found());
    }
    let author = Author::of(&caller, (organization, project), api.ambient.now());
    if author.principal.organization != Some(organization) || author.principal.project != Some(project) {
        existing_payer(&api, &author.principal).await?;
    }
    let ids = NewIds::draw(&api.ambient);
    let batch = intent::creation(&accepted, &author, ids);
    let committed = api.store.commit(batch).await.map_err(|error| match error {
        // A region that is going is no longer there to be used.
        StoreError::Refused(Refusal::Deleting(key)) if key == region.key() => ApiError::not_found(),
        other => other.into(),
    })?;
    Asked { api: &api, caller: &caller, trail: &trail }.created::<NetworkRead>(&committed, ids.network.key())
}

/// Get network.
#[utoipa::path(
    get, path = "/api/v2/networks/{networkID}", operation_id = "getNetwork", tag = "Networks",
    params(("networkID" = uuid::Uuid, Path)),
    responses((status = 200, body = NetworkRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Shown<NetworkRead>, ApiError> {
    let network: NetworkId = path.id("networkID")?;
    shown(&api, &caller, network.key()).await
}

/// Update network.
#[utoipa::path(
    put, path = "/api/v2/networks/{networkID}", operation_id = "updateNetwork", tag = "Networks",
    params(("networkID" = uuid::Uuid, Path)), request_body = NetworkUpdate,
    responses((status = 202, body = NetworkRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn update_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<NetworkUpdate>,
) -> Result<Response, ApiError> {
    let network: NetworkId = path.id("networkID")?;
    trail.resource(network.key());
    let accepted = request.accept()?;
    Asked { api: &api, caller: &caller, trail: &trail }.updated(network.key(), &accepted).await
}

#[async_trait]
impl Replacement for AcceptedUpdate {
    type Surface = NetworkRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<Network>) -> Result<Batch, ApiError> {
        Ok(intent::update(stored, self, &asked.caller.subject, asked.api.ambient.now()))
    }
}

/// Delete network.
#[utoipa::path(
    delete, path = "/api/v2/networks/{networkID}", operation_id = "deleteNetwork", tag = "Networks",
    params(("networkID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let network: NetworkId = path.id("networkID")?;
    Asked { api: &api, caller: &caller, trail: &trail }.deleted::<NetworkRead>(network.key()).await
}

/// Add a reference, which keeps the network from being deleted.
#[utoipa::path(
    put, path = "/api/v2/networks/{networkID}/references/{reference}", operation_id = "addNetworkReference",
    tag = "Networks", params(("networkID" = uuid::Uuid, Path), ("reference" = String, Path)),
    responses((status = 201), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn add_reference(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let (network, holder) = reference_of(&path)?;
    trail.resource(network.key());
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    referable(asked, network, Operation::Create).await?;
    reference::add(&api, network.key(), holder).await?;
    Ok(StatusCode::CREATED)
}

/// Remove a reference.
#[utoipa::path(
    delete, path = "/api/v2/networks/{networkID}/references/{reference}", operation_id = "removeNetworkReference",
    tag = "Networks", params(("networkID" = uuid::Uuid, Path), ("reference" = String, Path)),
    responses((status = 204), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn remove_reference(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let (network, holder) = reference_of(&path)?;
    trail.resource(network.key());
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    referable(asked, network, Operation::Delete).await?;
    reference::remove(&api, network.key(), holder).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn reference_of(path: &PathElements) -> Result<(NetworkId, Holder), ApiError> {
    Ok((path.id("networkID")?, reference::holder_of(path)?))
}

/// A service that refers to a network need not be able to read it. Anybody else is told what whoever changes it is told.
async fn referable(asked: Asked<'_>, network: NetworkId, operation: Operation) -> Result<(), ApiError> {
    let right = (Endpoint::NetworksV2References, operation);
    let record = asked.api.store.get(network.key()).await?.ok_or_else(ApiError::not_found)?;
    let placement = record.metadata.placement;
    let is_shown = record.metadata.api_version == NetworkRead::VERSION;
    if is_shown && asked.caller.allows(right.0, right.1, scope_of(&placement)) {
        asked.trail.scope(placement);
        return Ok(());
    }
    asked.resolved::<NetworkRead>(network.key(), right).await.map(drop)
}
