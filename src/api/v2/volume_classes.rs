//! Classes of volumes: what block storage a region's cloud offers. Nobody here stores them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::Shared;
use crate::api::access::{permitted_in_region, reachable_region};
use crate::api::catalogue::FRESH;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, PathElements};
use crate::api::openapi::CommonErrors;
use crate::api::wire::{StaticReadMetadata, wire_time};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::RegionId;
use crate::providers::types::{Media, Performance, VolumeClass};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_volume_classes))
}

#[derive(Serialize, ToSchema)]
#[schema(as = volumeClassPerformance)]
struct WirePerformance {
    #[serde(rename = "maxIOPS")]
    iops_max: u64,
    #[serde(rename = "maxThroughputMiBps")]
    throughput_mib_per_second_max: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = volumeClassSpec)]
struct WireSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    media: Option<Media>,
    #[serde(skip_serializing_if = "Option::is_none")]
    performance: Option<WirePerformance>,
    encrypted: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = volumeClass)]
struct VolumeClassRead {
    metadata: StaticReadMetadata,
    spec: WireSpec,
}

impl VolumeClassRead {
    /// Clouds do not say since when they offer a class; here it exists since its region does.
    fn of(class: &VolumeClass, creation_time: &str) -> Self {
        let performance = |performance: Performance| WirePerformance {
            iops_max: performance.iops_max,
            throughput_mib_per_second_max: performance.throughput_mib_per_second_max,
        };
        Self {
            metadata: StaticReadMetadata {
                id: class.id.to_string(),
                name: class.name.clone(),
                description: class.description.clone(),
                tags: None,
                creation_time: creation_time.to_owned(),
                created_by: None,
                modified_time: None,
            },
            spec: WireSpec {
                media: class.media,
                performance: class.performance.map(performance),
                encrypted: class.encrypted,
            },
        }
    }
}

/// List the classes of volumes that a region offers.
#[utoipa::path(
    get, path = "/api/v2/regions/{regionID}/volumeclasses", operation_id = "listVolumeClasses", tag = "Volumes",
    params(("regionID" = uuid::Uuid, Path)),
    responses((status = 200, body = Vec<VolumeClassRead>), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn list_volume_classes(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Json<Vec<VolumeClassRead>>, ApiError> {
    let region: RegionId = path.id("regionID")?;
    let resource = reachable_region(&api, &caller, region).await?;
    permitted_in_region(&caller, Endpoint::VolumeClassesV2, Operation::Read, &resource.spec)?;
    let known = api.catalogue.volume_classes(region, FRESH).await?;
    let mut classes = known.iter().collect::<Vec<_>>();
    classes.sort_by_key(|class| class.id);
    let created = wire_time(resource.metadata.created);
    Ok(Json(classes.into_iter().map(|class| VolumeClassRead::of(class, &created)).collect()))
}
