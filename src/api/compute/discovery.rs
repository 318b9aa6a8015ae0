//! What regions offer for instances: the compute service's own view of paths that the region service has too.
//!
//! It is narrower. A region that runs no machines is not one for instances, and an image that was made for another
//! service, which its preinstalled software tells, is not shown although it can be booted from. Only under the compute
//! service's own name: at the root these paths show what the region service does.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::permitted;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, PathElements};
use crate::api::openapi::CommonErrors;
use crate::api::v1::catalogue::{FlavorRead, flavors_shown, kept, resolved};
use crate::api::v1::regions::{RegionRead, region_shown};
use crate::api::v2::images::wire::ImageRead;
use crate::api::v2::images::{Wanted, images_shown};
use crate::api::{Shared, list};
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{Kind, OrganizationId};
use crate::model::image::ImageStatus;
use crate::model::record::Record;
use crate::model::region::RegionType;
use crate::store::Filter;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_compute_regions))
        .routes(routes!(list_compute_flavors))
        .routes(routes!(list_compute_images))
}

/// List the regions that run machines.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/regions", operation_id = "listComputeRegions",
    tag = "Regions", params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = Vec<RegionRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_compute_regions(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Response, ApiError> {
    let organization: OrganizationId = path.id("organizationID")?;
    permitted(&caller, Endpoint::ComputeRegions, Operation::Read, Scope::Organization(organization))?;
    let show = move |record: &Record| {
        region_shown(record, organization).filter(|region| region.region_type() != RegionType::Kubernetes)
    };
    list::streamed(Arc::clone(&api.store), Filter::of(Kind::Region), show).await
}

/// List flavors.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/regions/{regionID}/flavors",
    operation_id = "listComputeFlavors", tag = "Regions",
    params(("organizationID" = uuid::Uuid, Path), ("regionID" = uuid::Uuid, Path)),
    responses(
        (status = 200, body = Vec<FlavorRead>), (status = 304), (status = 404, body = ErrorBody), CommonErrors
    ),
    security(("bearer" = []))
)]
async fn list_compute_flavors(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (_, region, resource) = resolved(&api, &caller, &path, Endpoint::ComputeFlavors).await?;
    kept(&api, &headers, &flavors_shown(&api, region, &resource).await?)
}

/// List the images that are for machines in general.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/regions/{regionID}/images",
    operation_id = "listComputeImages", tag = "Images",
    params(("organizationID" = uuid::Uuid, Path), ("regionID" = uuid::Uuid, Path)),
    responses(
        (status = 200, body = Vec<ImageRead>), (status = 304), (status = 404, body = ErrorBody), CommonErrors
    ),
    security(("bearer" = []))
)]
async fn list_compute_images(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (organization, region, _) = resolved(&api, &caller, &path, Endpoint::ComputeImages).await?;
    let wanted = Wanted { organizations: vec![organization], everybodys: true, states: vec![ImageStatus::Ready] };
    let mut images = images_shown(&api, region, &wanted).await?;
    images.retain(ImageRead::is_general);
    kept(&api, &headers, &images)
}
