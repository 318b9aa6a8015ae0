//! Regions, as an organization can use them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::{permitted, visible_region};
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, PathElements};
use crate::api::openapi::CommonErrors;
use crate::api::wire::{ReadMetadata, StatusDetail};
use crate::api::{Shared, list};
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::condition::Reason;
use crate::model::ids::{Kind, OrganizationId, RegionId};
use crate::model::projection::HealthStatus;
use crate::model::record::Record;
use crate::model::region::{Region, RegionSpec, RegionType};
use crate::store::Filter;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_regions)).routes(routes!(get_region_detail))
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
pub struct RegionRead {
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

/// A region that is private to others is not there.
pub fn region_shown(record: &Record, organization: OrganizationId) -> Option<RegionRead> {
    let opened = record.open::<Region>().inspect_err(|error| tracing::error!(%error, "left out of a list"));
    let region = opened.ok()?;
    region.spec.is_visible_to(organization).then(|| RegionRead::of(record, &region.spec))
}

impl RegionRead {
    #[must_use]
    pub const fn region_type(&self) -> RegionType {
        self.spec.region_type
    }

    /// One that is no longer configured is shown as unavailable: its resources still name it.
    fn of(record: &Record, spec: &RegionSpec) -> Self {
        let mut metadata = ReadMetadata::of_static(record);
        if spec.withdrawn {
            metadata.health_status = HealthStatus::Error;
            metadata.health_status_detail =
                Some(StatusDetail { reason: Reason::Unknown, message: "the region is unavailable".to_owned() });
        }
        let features = WireFeatures { physical_networks: spec.has_physical_networks() };
        Self { metadata, spec: WireRegionSpec { region_type: spec.region_type(), features } }
    }
}

/// Get what is known of a region, whatever its type.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/regions/{regionID}/detail", operation_id = "getRegionDetail",
    tag = "Regions", params(("organizationID" = uuid::Uuid, Path), ("regionID" = uuid::Uuid, Path)),
    responses((status = 200, body = RegionRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_region_detail(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Json<RegionRead>, ApiError> {
    let organization: OrganizationId = path.id("organizationID")?;
    let region: RegionId = path.id("regionID")?;
    permitted(&caller, Endpoint::RegionDetail, Operation::Read, Scope::Organization(organization))?;
    let spec = visible_region(&api, &caller, organization, region).await?.spec;
    let record = api.store.get(region.key()).await?.ok_or_else(ApiError::not_found)?;
    Ok(Json(RegionRead::of(&record, &spec)))
}
