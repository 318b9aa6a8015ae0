//! Regions, as an organization can use them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::permitted;
use crate::api::error::ApiError;
use crate::api::extract::{Authenticated, PathElements};
use crate::api::openapi::CommonErrors;
use crate::api::wire::{ReadMetadata, StatusDetail};
use crate::api::{Shared, list};
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::condition::Reason;
use crate::model::ids::{Kind, OrganizationId};
use crate::model::projection::HealthStatus;
use crate::model::record::Record;
use crate::model::region::{Region, RegionType};
use crate::store::Filter;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_regions))
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
