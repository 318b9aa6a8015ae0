//! Making and deleting an organization's own images. These operations exist under the old paths alone, and are current.

use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::{permitted, readable, visible_region};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody, Failure};
use crate::api::extract::{Authenticated, JsonBody, PathElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Shown, Surface};
use crate::api::v2::images::intent::{self, Where};
use crate::api::v2::images::made;
use crate::api::v2::images::wire::{ImageCreate, ImageRead, unprocessable};
use crate::api::{Api, Shared};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{ImageId, Incarnation, Kind};
use crate::model::image::{ImageSource, ImageSpec};
use crate::model::record::Resource;
use crate::model::region::Region;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(create_image)).routes(routes!(delete_image))
}

/// The organization and the region of the path, if the caller may do this there.
async fn entered(
    api: &Api,
    caller: &Caller,
    trail: &Trail,
    path: &PathElements,
    operation: Operation,
) -> Result<(Where, Resource<Region>), ApiError> {
    let place = Where { organization: path.id("organizationID")?, region: path.id("regionID")? };
    trail.scope(place.placement());
    permitted(caller, Endpoint::Images, operation, Scope::Organization(place.organization))?;
    let region = visible_region(api, caller, place.organization, place.region).await?;
    Ok((place, region))
}

/// Import an image: it is fetched from an address in the public internet.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/regions/{regionID}/images",
    operation_id = "createImage", tag = "Images",
    params(("organizationID" = uuid::Uuid, Path), ("regionID" = uuid::Uuid, Path)), request_body = ImageCreate,
    responses(
        (status = 200, body = ImageRead), (status = 404, body = ErrorBody),
        CommonErrors, BodyErrors, ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn create_image(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    body: Result<JsonBody<ImageCreate>, ApiError>,
) -> Result<Shown<ImageRead>, ApiError> {
    trail.kind(Kind::Image);
    // The contract has no code for what is malformed: a path that names nothing names something that is not there.
    let named = entered(&api, &caller, &trail, &path, Operation::Create).await;
    let (place, region) = named.map_err(|error| match error.failure {
        Failure::InvalidRequest => ApiError::not_found(),
        _ => error,
    })?;
    let JsonBody(request) = body.map_err(unprocessable)?;
    let accepted = request.accept()?;
    if region.spec.withdrawn {
        return Err(ApiError::not_found());
    }
    let probed = api.catalogue.probe_image(place.region, &accepted.url).await?;
    let uri = api.secrets.seal(accepted.url.as_url().as_str()).map_err(|error| ApiError::internal(&error))?;
    let spec =
        ImageSpec { contents: accepted.contents, source: ImageSource::Import { uri }, size_gib: probed.size_gib };
    let author = Author::of(&caller, (place.organization, None), api.ambient.now());
    let id = ImageId(api.ambient.uuid());
    let new = (id, Incarnation(api.ambient.uuid()));
    let batch = intent::creation((&accepted.metadata, &spec), &author, place, new);
    trail.resource(id.key());
    made(&api, batch, id).await
}

/// Delete an image that no server was made from.
#[utoipa::path(
    delete, path = "/api/v1/organizations/{organizationID}/regions/{regionID}/images/{imageID}",
    operation_id = "deleteImage", tag = "Images",
    params(("organizationID" = uuid::Uuid, Path), ("regionID" = uuid::Uuid, Path), ("imageID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_image(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let id: ImageId = path.id("imageID")?;
    let (place, _) = entered(&api, &caller, &trail, &path, Operation::Delete).await?;
    let record = readable(&api, &caller, ImageRead::ENDPOINT, id.key()).await?;
    if record.metadata.placement != place.placement() {
        return Err(ApiError::not_found());
    }
    Asked { api: &api, caller: &caller, trail: &trail }.deleted::<ImageRead>(id.key()).await
}
