//! What a region offers: flavors, images and external networks.

use aws_lc_rs::digest::{SHA256, digest};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::{permitted, visible_region};
use crate::api::catalogue::FRESH;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, PathElements};
use crate::api::openapi::CommonErrors;
use crate::api::v2::images::wire::{ImageRead, architecture_word, vendor_word};
use crate::api::v2::images::{Wanted, images_shown};
use crate::api::wire::{StaticReadMetadata, wire_time};
use crate::api::{Api, Shared};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{OrganizationId, RegionId};
use crate::model::record::Resource;
use crate::model::region::Region;
use crate::providers::types::{ExternalNetwork, Flavor, FlavorGpu, ImageStatus};

/// The longest that clients may keep what decides whether a server can be made. They can ask again for nothing: an
/// unchanged answer has no body (B37).
const OFFER_MAX_AGE_S: u32 = 60;

const GIB: u64 = 1 << 30;
const GB: u64 = 1_000_000_000;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_flavors))
        .routes(routes!(list_ready_images))
        .routes(routes!(list_external_networks))
}

/// The organization and the region of the path, if the caller may look there.
pub async fn resolved(
    api: &Api,
    caller: &Caller,
    path: &PathElements,
    endpoint: Endpoint,
) -> Result<(OrganizationId, RegionId, Resource<Region>), ApiError> {
    let organization: OrganizationId = path.id("organizationID")?;
    let region: RegionId = path.id("regionID")?;
    permitted(caller, endpoint, Operation::Read, Scope::Organization(organization))?;
    let resource = visible_region(api, caller, organization, region).await?;
    Ok((organization, region, resource))
}

/// An answer that may be kept for a while, and asked for again without being sent again.
pub fn kept<T: Serialize>(api: &Api, headers: &HeaderMap, body: &T) -> Result<Response, ApiError> {
    let text = serde_json::to_vec(body).map_err(|error| ApiError::internal(&error))?;
    let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(digest(&SHA256, &text)));
    let cache = format!("max-age={}, private", api.settings.cache_max_age_s.min(OFFER_MAX_AGE_S));
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_known = known.split(',').map(str::trim).any(|known| known.trim_start_matches("W/") == tag);
    let head = [(header::CACHE_CONTROL, cache), (header::ETAG, tag)];
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, head).into_response());
    }
    Ok((head, [(header::CONTENT_TYPE, "application/json")], text).into_response())
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = gpuSpec)]
struct WireGpu {
    vendor: &'static str,
    model: String,
    /// In GiB.
    memory: u64,
    physical_count: u32,
    logical_count: u32,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = flavorSpec)]
struct WireFlavorSpec {
    cpus: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_family: Option<String>,
    /// In GiB.
    memory: u64,
    /// In GB.
    disk: u64,
    architecture: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    baremetal: Option<bool>,
    /// Servers must name the host that they are placed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<WireGpu>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = flavor)]
pub struct FlavorRead {
    metadata: StaticReadMetadata,
    spec: WireFlavorSpec,
}

impl FlavorRead {
    /// Clouds do not say since when they offer a flavor; here it exists since its region does.
    fn of(flavor: &Flavor, creation_time: &str) -> Self {
        let gpu = |gpu: &FlavorGpu| WireGpu {
            vendor: vendor_word(gpu.vendor),
            model: gpu.model.clone(),
            memory: gpu.memory_bytes / GIB,
            physical_count: gpu.physical_count,
            logical_count: gpu.logical_count,
        };
        Self {
            metadata: StaticReadMetadata {
                id: flavor.id.to_string(),
                name: flavor.name.clone(),
                description: None,
                tags: None,
                creation_time: creation_time.to_owned(),
                created_by: None,
                modified_time: None,
            },
            spec: WireFlavorSpec {
                cpus: flavor.cpus,
                cpu_family: flavor.cpu_family.clone(),
                memory: flavor.memory_bytes / GIB,
                disk: flavor.disk_bytes / GB,
                architecture: architecture_word(flavor.architecture),
                baremetal: flavor.baremetal.then_some(true),
                pinned_only: flavor.pinned_only.then_some(true),
                gpu: flavor.gpu.as_ref().map(gpu),
            },
        }
    }
}

/// List flavors.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/regions/{regionID}/flavors",
    operation_id = "listFlavors", tag = "Regions",
    params(("organizationID" = uuid::Uuid, Path), ("regionID" = uuid::Uuid, Path)),
    responses(
        (status = 200, body = Vec<FlavorRead>), (status = 304), (status = 404, body = ErrorBody), CommonErrors
    ),
    security(("bearer" = []))
)]
async fn list_flavors(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (_, region, resource) = resolved(&api, &caller, &path, Endpoint::Flavors).await?;
    kept(&api, &headers, &flavors_shown(&api, region, &resource).await?)
}

/// The flavors of a region, the smaller first.
pub async fn flavors_shown(
    api: &Api,
    region: RegionId,
    resource: &Resource<Region>,
) -> Result<Vec<FlavorRead>, ApiError> {
    let known = api.catalogue.flavors(region, FRESH).await?;
    let mut flavors = known.iter().collect::<Vec<_>>();
    let gpus = |flavor: &Flavor| flavor.gpu.as_ref().map_or(0, |gpu| gpu.logical_count);
    flavors.sort_by_key(|flavor| (gpus(flavor), flavor.cpus, flavor.memory_bytes, flavor.id));
    let created = wire_time(resource.metadata.created);
    Ok(flavors.into_iter().map(|flavor| FlavorRead::of(flavor, &created)).collect())
}

/// List the images that can be booted from: everybody's, and those of the organization.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/regions/{regionID}/images",
    operation_id = "listReadyImages", tag = "Images",
    params(("organizationID" = uuid::Uuid, Path), ("regionID" = uuid::Uuid, Path)),
    responses(
        (status = 200, body = Vec<ImageRead>), (status = 304), (status = 404, body = ErrorBody), CommonErrors
    ),
    security(("bearer" = []))
)]
async fn list_ready_images(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (organization, region, _) = resolved(&api, &caller, &path, Endpoint::Images).await?;
    let wanted = Wanted { organizations: vec![organization], everybodys: true, states: vec![ImageStatus::Ready] };
    let body = images_shown(&api, region, &wanted).await?;
    kept(&api, &headers, &body)
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
    let (_, region, _) = resolved(&api, &caller, &path, Endpoint::ExternalNetworks).await?;
    let mut networks = api.catalogue.external_networks(region).await?;
    networks.sort_by(|one, other| one.id.cmp(&other.id));
    let wire = |network: ExternalNetwork| WireExternalNetwork { id: network.id.to_string(), name: network.name };
    let body = networks.into_iter().map(wire).collect::<Vec<_>>();
    let cache = format!("max-age={}, private", api.settings.cache_max_age_s);
    Ok(([(header::CACHE_CONTROL, cache)], Json(body)).into_response())
}
