//! The deprecated version of the region service, as far as it has no successor: regions and external networks.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{permitted, visible_region};
use super::error::{ApiError, ErrorBody};
use super::extract::{Authenticated, PathElements};
use super::openapi::CommonErrors;
use super::wire::{ReadMetadata, StatusDetail};
use super::{Shared, list};
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::condition::Reason;
use crate::model::ids::{Kind, OrganizationId, RegionId};
use crate::model::projection::HealthStatus;
use crate::model::record::Record;
use crate::model::region::{Region, RegionType};
use crate::providers::ProviderError;
use crate::providers::types::ExternalNetwork;
use crate::store::Filter;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_regions)).routes(routes!(list_external_networks))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = regionFeatures)]
struct WireFeatures {
    physical_networks: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = regionSpec)]
struct WireRegionSpec {
    #[serde(rename = "type")]
    region_type: RegionType,
    features: WireFeatures,
}

#[derive(Serialize, ToSchema)]
#[schema(as = regionRead)]
struct RegionRead {
    metadata: ReadMetadata,
    spec: WireRegionSpec,
}

/// List regions.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/regions", operation_id = "listRegions", tag = "Regions",
    params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = Vec<RegionRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_regions(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Response, ApiError> {
    let organization: OrganizationId = path.id("organizationID")?;
    permitted(&caller, Endpoint::Regions, Operation::Read, Scope::Organization(organization))?;
    let show = move |record: &Record| region_shown(record, organization);
    list::streamed(Arc::clone(&api.store), Filter::of(Kind::Region), show).await
}

/// A region that is private to others is not there. One that is no longer configured is shown as unavailable: its
/// resources still name it.
fn region_shown(record: &Record, organization: OrganizationId) -> Option<RegionRead> {
    let opened = record.open::<Region>().inspect_err(|error| tracing::error!(%error, "left out of a list"));
    let spec = opened.ok()?.spec;
    if !spec.is_visible_to(organization) {
        return None;
    }
    let mut metadata = ReadMetadata::of_static(record);
    if spec.withdrawn {
        metadata.health_status = HealthStatus::Error;
        metadata.health_status_detail =
            Some(StatusDetail { reason: Reason::Unknown, message: "the region is unavailable".to_owned() });
    }
    let features = WireFeatures { physical_networks: spec.has_physical_networks() };
    let spec = WireRegionSpec { region_type: spec.region_type(), features };
    Some(RegionRead { metadata, spec })
}

#[derive(Serialize, ToSchema)]
#[schema(as = externalNetwork)]
struct WireExternalNetwork {
    id: String,
    name: String,
}

/// List external networks.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/regions/{regionID}/externalnetworks",
    operation_id = "listExternalNetworks", tag = "Regions",
    params(("organizationID" = uuid::Uuid, Path), ("regionID" = uuid::Uuid, Path)),
    responses((status = 200, body = Vec<WireExternalNetwork>), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn list_external_networks(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Response, ApiError> {
    let organization: OrganizationId = path.id("organizationID")?;
    let region: RegionId = path.id("regionID")?;
    permitted(&caller, Endpoint::ExternalNetworks, Operation::Read, Scope::Organization(organization))?;
    visible_region(&api, &caller, organization, region).await?;
    let mut networks = api.external_networks.external_networks(region).await.map_err(|error| refused(&error))?;
    networks.sort_by(|one, other| one.id.cmp(&other.id));
    let wire = |network: ExternalNetwork| WireExternalNetwork { id: network.id.to_string(), name: network.name };
    let body = networks.into_iter().map(wire).collect::<Vec<_>>();
    let cache = format!("max-age={}, private", api.settings.cache_max_age_s);
    Ok(([(header::CACHE_CONTROL, cache)], Json(body)).into_response())
}

/// What a cloud said stays in the log.
fn refused(error: &ProviderError) -> ApiError {
    tracing::warn!(%error, "external networks could not be read");
    match error {
        ProviderError::NotFound | ProviderError::Unsupported(_) => ApiError::not_found(),
        _ => ApiError::unavailable(),
    }
}
