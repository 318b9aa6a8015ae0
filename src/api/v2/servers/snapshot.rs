//! Saving a server's disk as an image of its organization.
//!
//! The image is a record like any other: accepted here, made by its own actor. The answer is the image, in the making.

use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::wire::ServerRead;
use crate::api::access::{permitted, readable};
use crate::api::catalogue::{FRESH, JUST_NOW};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Shown, Surface};
use crate::api::v2::images::intent::{self, Where};
use crate::api::v2::images::wire::{ImageRead, SnapshotCreate, as_offered};
use crate::api::v2::images::{made, own_image};
use crate::api::wire::AcceptedMetadata;
use crate::api::{Api, Shared};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{ImageId, Incarnation, ServerId};
use crate::model::image::{ImageSource, ImageSpec};
use crate::model::record::{Place, Resource};
use crate::model::server::Server;
use crate::providers::types::Image;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(snapshot_server))
}

/// Save a server's disk as an image.
#[utoipa::path(
    post, path = "/api/v2/servers/{serverID}/snapshot", operation_id = "snapshotServer", tag = "Servers",
    params(("serverID" = uuid::Uuid, Path)), request_body = SnapshotCreate,
    responses(
        (status = 201, body = ImageRead), (status = 404, body = ErrorBody),
        CommonErrors, BodyErrors, ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn snapshot_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<SnapshotCreate>,
) -> Result<(StatusCode, Shown<ImageRead>), ApiError> {
    let server: ServerId = path.id("serverID")?;
    trail.resource(server.key());
    trail.operation("snapshot");
    let accepted = request.metadata.accept()?;
    let record = readable(&api, &caller, ServerRead::ENDPOINT, server.key()).await?;
    trail.scope(record.metadata.placement);
    saved(&api, &caller, &record.open()?, &accepted).await
}

/// Saves the disk of a server that the caller has been found to be allowed to read.
pub async fn saved(
    api: &Api,
    caller: &Caller,
    resource: &Resource<Server>,
    accepted: &AcceptedMetadata,
) -> Result<(StatusCode, Shown<ImageRead>), ApiError> {
    let place = resource.place()?;
    permitted(caller, Endpoint::Images, Operation::Create, Scope::Organization(place.organization))?;
    let image = source(api, place, resource.detail.image.unwrap_or(resource.spec.image)).await?;
    if resource.detail.launched_at.is_none() {
        return Err(ApiError::unprocessable("the server has not been started yet"));
    }
    let server = ServerId(resource.key.id);
    let spec = ImageSpec {
        contents: image.contents(),
        source: ImageSource::Snapshot { server, incarnation: resource.metadata.incarnation },
        size_gib: Some(image.size_gib),
    };
    let author = Author::of(caller, (place.organization, place.project), api.ambient.now());
    let id = ImageId(api.ambient.uuid());
    let (place, new) =
        (Where { organization: place.organization, region: place.region }, (id, Incarnation(api.ambient.uuid())));
    let batch = intent::creation((accepted, &spec), &author, place, new);
    Ok((StatusCode::CREATED, made(api, batch, id).await?))
}

/// The image that the server is on: what it holds, the copy of the disk holds as well.
async fn source(api: &Api, place: Place, id: ImageId) -> Result<Image, ApiError> {
    if let Some(own) = own_image(api, place, id).await? {
        return Ok(as_offered(&own));
    }
    for age_max in [FRESH, JUST_NOW] {
        let known = api.catalogue.images(place.region, age_max).await?;
        let is_ours =
            |image: &&Image| image.id == id && image.organization.is_none_or(|owner| owner == place.organization);
        if let Some(image) = known.iter().find(is_ours) {
            return Ok(image.clone());
        }
    }
    Err(ApiError::not_found())
}
