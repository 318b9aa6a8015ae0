//! Volumes: block storage on a network, for one of its servers at a time.
//!
//! A claim names a server by its id alone: whoever may change the volume need not be able to read servers, which most
//! users reach through something else. What is not a server of the volume's own network is refused with one answer,
//! whether it is foreign, unknown or elsewhere.

pub mod intent;
pub mod wire;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::{child_placement, existing_payer, permitted, readable, scope_of};
use crate::api::catalogue::{FRESH, JUST_NOW};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Replacement, Shown, Surface, listed, shown};
use crate::api::{Api, Shared};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::{Incarnation, Kind, NetworkId, RegionId, ServerId, VolumeClassId, VolumeId};
use crate::model::record::Resource;
use crate::model::volume::Volume;
use crate::store::{Batch, Refusal, StoreError};
use wire::{AcceptedUpdate, VolumeCreate, VolumeRead, VolumeUpdate};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_volumes, create_volume)).routes(routes!(
        get_volume,
        update_volume,
        delete_volume
    ))
}

/// List volumes.
#[utoipa::path(
    get, path = "/api/v2/volumes", operation_id = "listVolumes", tag = "Volumes",
    params(
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
        ("networkID" = Option<Vec<String>>, Query, description = "Only those of these networks"),
    ),
    responses((status = 200, body = Vec<VolumeRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_volumes(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    let filters = ["tag", "organizationID", "projectID", "regionID", "networkID"];
    listed::<VolumeRead>(&api, caller, &query, &filters).await
}

/// Create volume. Its size counts against the quota of the organization.
#[utoipa::path(
    post, path = "/api/v2/volumes", operation_id = "createVolume", tag = "Volumes", request_body = VolumeCreate,
    responses(
        (status = 201, body = VolumeRead), (status = 404, body = ErrorBody),
        CommonErrors, BodyErrors, ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn create_volume(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<VolumeCreate>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::Volume);
    let accepted = request.accept()?;
    let (spec, network) = (&accepted.spec, accepted.network);
    let owner = readable(&api, &caller, Endpoint::NetworksV2, network.key()).await?;
    let (place, placement) = child_placement(&owner, network)?;
    trail.scope(placement);
    permitted(&caller, VolumeRead::ENDPOINT, Operation::Create, scope_of(&placement))?;
    if let Some(server) = spec.server {
        claimable(&api, server, network).await?;
    }
    offered(&api, place.region, spec.class).await?;
    let author = Author::of(&caller, (place.organization, place.project), api.ambient.now());
    existing_payer(&api, &author.principal).await?;
    let id = VolumeId(api.ambient.uuid());
    let ids = (id, Incarnation(api.ambient.uuid()));
    let batch = intent::creation(&accepted, &author, (place, placement), ids);
    let committed = api.store.commit(batch).await.map_err(|error| match error {
        StoreError::Refused(Refusal::Missing(key) | Refusal::Deleting(key)) if key.kind == Kind::Server => {
            not_claimable()
        }
        other => other.into(),
    })?;
    Asked { api: &api, caller: &caller, trail: &trail }.created::<VolumeRead>(&committed, id.key())
}

fn not_claimable() -> ApiError {
    ApiError::unprocessable("spec.serverId must name a server of the volume's network that is not being deleted")
}

/// Can this server have volumes of this network?
async fn claimable(api: &Api, server: ServerId, network: NetworkId) -> Result<(), ApiError> {
    let record = api.store.get(server.key()).await?.filter(|record| !record.metadata.is_deleting());
    let is_here = record.is_some_and(|record| record.metadata.placement.network == Some(network));
    if is_here { Ok(()) } else { Err(not_claimable()) }
}

/// Does the region offer the class? What the last list lacks may have come in the meantime.
async fn offered(api: &Api, region: RegionId, class: VolumeClassId) -> Result<(), ApiError> {
    for age_max in [FRESH, JUST_NOW] {
        if api.catalogue.volume_classes(region, age_max).await?.iter().any(|offered| offered.id == class) {
            return Ok(());
        }
    }
    Err(ApiError::unprocessable("spec.volumeClassId names a class that is not offered"))
}

/// Get volume.
#[utoipa::path(
    get, path = "/api/v2/volumes/{volumeID}", operation_id = "getVolume", tag = "Volumes",
    params(("volumeID" = uuid::Uuid, Path)),
    responses((status = 200, body = VolumeRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_volume(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Shown<VolumeRead>, ApiError> {
    let volume: VolumeId = path.id("volumeID")?;
    shown(&api, &caller, volume.key()).await
}

/// Update volume: enlarge it, attach it to a server, move it to another, or detach it.
#[utoipa::path(
    put, path = "/api/v2/volumes/{volumeID}", operation_id = "updateVolume", tag = "Volumes",
    params(("volumeID" = uuid::Uuid, Path)), request_body = VolumeUpdate,
    responses((status = 202, body = VolumeRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn update_volume(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<VolumeUpdate>,
) -> Result<Response, ApiError> {
    let volume: VolumeId = path.id("volumeID")?;
    trail.resource(volume.key());
    let accepted = request.accept()?;
    Asked { api: &api, caller: &caller, trail: &trail }.updated(volume.key(), &accepted).await
}

#[async_trait]
impl Replacement for AcceptedUpdate {
    type Surface = VolumeRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<Volume>) -> Result<Batch, ApiError> {
        if self.size_gib < stored.spec.size_gib {
            return Err(ApiError::unprocessable("spec.sizeGiB of a volume cannot be made smaller"));
        }
        if let Some(server) = self.server.filter(|server| stored.spec.server != Some(*server)) {
            claimable(asked.api, server, stored.network()?).await?;
        }
        Ok(intent::update(stored, self, &asked.caller.subject, asked.api.ambient.now())?)
    }
}

/// Delete volume. One that is attached has to be detached first.
#[utoipa::path(
    delete, path = "/api/v2/volumes/{volumeID}", operation_id = "deleteVolume", tag = "Volumes",
    params(("volumeID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_volume(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let volume: VolumeId = path.id("volumeID")?;
    Asked { api: &api, caller: &caller, trail: &trail }.deleted::<VolumeRead>(volume.key()).await
}
