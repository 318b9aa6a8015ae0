//! Images: what servers boot from. A region's cloud has them; nobody here stores them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::Shared;
use crate::api::access::reachable_region;
use crate::api::catalogue::FRESH;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, PathElements, QueryElements};
use crate::api::openapi::CommonErrors;
use crate::api::wire::{StaticReadMetadata, WireTag, wire_time};
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{OrganizationId, RegionId};
use crate::providers::types::{Architecture, GpuVendor, Image, ImageGpu, ImageStatus, OperatingSystem, Virtualization};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_images))
}

#[derive(Serialize, ToSchema)]
#[schema(as = imageOS)]
struct WireOperatingSystem {
    kernel: String,
    family: String,
    distro: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    codename: Option<String>,
    version: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = imageGpu)]
struct WireGpu {
    vendor: &'static str,
    driver: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    models: Vec<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = imageSpec)]
struct WireImageSpec {
    architecture: &'static str,
    #[serde(rename = "sizeGiB")]
    size_gib: u32,
    virtualization: &'static str,
    os: WireOperatingSystem,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    software_versions: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<WireGpu>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = imageStatus)]
struct WireImageStatus {
    state: &'static str,
}

#[derive(Serialize, ToSchema)]
#[schema(as = image)]
pub struct ImageRead {
    metadata: StaticReadMetadata,
    spec: WireImageSpec,
    status: WireImageStatus,
}

#[must_use]
pub const fn architecture_word(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "x86_64",
        Architecture::Aarch64 => "aarch64",
    }
}

#[must_use]
pub const fn vendor_word(vendor: GpuVendor) -> &'static str {
    match vendor {
        GpuVendor::Nvidia => "NVIDIA",
        GpuVendor::Amd => "AMD",
    }
}

const fn virtualization_word(virtualization: Virtualization) -> &'static str {
    match virtualization {
        Virtualization::Virtualized => "virtualized",
        Virtualization::Baremetal => "baremetal",
        Virtualization::Any => "any",
    }
}

const fn status_word(status: ImageStatus) -> &'static str {
    match status {
        ImageStatus::Pending => "pending",
        ImageStatus::Creating => "creating",
        ImageStatus::Ready => "ready",
        ImageStatus::Failed => "failed",
    }
}

impl ImageRead {
    fn of(image: &Image) -> Self {
        let tag = |(name, value): (&String, &String)| WireTag { name: name.clone(), value: value.clone() };
        Self {
            metadata: StaticReadMetadata {
                id: image.id.to_string(),
                name: image.name.clone(),
                tags: (!image.tags.is_empty()).then(|| image.tags.iter().map(tag).collect()),
                creation_time: wire_time(image.created),
                modified_time: Some(wire_time(image.modified)),
            },
            spec: WireImageSpec {
                architecture: architecture_word(image.architecture),
                size_gib: image.size_gib,
                virtualization: virtualization_word(image.virtualization),
                os: WireOperatingSystem::of(&image.os),
                software_versions: image.packages.clone(),
                gpu: image.gpu.as_ref().map(WireGpu::of),
            },
            status: WireImageStatus { state: status_word(image.status) },
        }
    }
}

impl WireOperatingSystem {
    fn of(os: &OperatingSystem) -> Self {
        Self {
            kernel: os.kernel.clone(),
            family: os.family.clone(),
            distro: os.distro.clone(),
            variant: os.variant.clone(),
            codename: os.codename.clone(),
            version: os.version.clone(),
        }
    }
}

impl WireGpu {
    fn of(gpu: &ImageGpu) -> Self {
        Self { vendor: vendor_word(gpu.vendor), driver: gpu.driver.clone(), models: gpu.models.clone() }
    }
}

/// Those that are wanted, by name; of one name, by id.
#[must_use]
pub fn images_shown(images: &[Image], is_wanted: impl Fn(&Image) -> bool) -> Vec<ImageRead> {
    let mut images = images.iter().filter(|image| is_wanted(image)).collect::<Vec<_>>();
    images.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
    images.into_iter().map(ImageRead::of).collect()
}

/// List the images of a region.
#[utoipa::path(
    get, path = "/api/v2/regions/{regionID}/images", operation_id = "listImages", tag = "Images",
    params(
        ("regionID" = uuid::Uuid, Path),
        ("organizationID" = Option<Vec<String>>, Query, description = "Also, or only, those of these organizations"),
        ("scope" = Option<String>, Query, description = "owned: only those of the organizations; available: also everybody's"),
        ("status" = Option<Vec<String>>, Query, description = "Only those in these states"),
    ),
    responses((status = 200, body = Vec<ImageRead>), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn list_images(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    query: QueryElements,
) -> Result<Json<Vec<ImageRead>>, ApiError> {
    let region: RegionId = path.id("regionID")?;
    query.only(&["organizationID", "scope", "status"])?;
    let asked = query.values::<OrganizationId>("organizationID")?;
    let is_owned_only = match query.value::<String>("scope")?.as_deref() {
        None | Some("available") => false,
        Some("owned") => true,
        Some(_) => return Err(ApiError::invalid_element()),
    };
    let states = query.texts("status").collect::<Vec<_>>();
    if !states.iter().all(|state| ["pending", "creating", "ready", "failed"].contains(state)) {
        return Err(ApiError::invalid_element());
    }
    reachable_region(&api, &caller, region).await?;
    let may_read = |id: &OrganizationId| caller.allows(Endpoint::Images, Operation::Read, Scope::Organization(*id));
    // Without an organization there is nothing to own, and the scope means nothing.
    let everybodys = asked.is_none() || !is_owned_only;
    let organizations = asked.unwrap_or_default().into_iter().filter(may_read).collect::<Vec<_>>();
    let images = api.catalogue.images(region, FRESH).await?;
    Ok(Json(images_shown(&images, |image| {
        let is_state = states.is_empty() || states.contains(&status_word(image.status));
        is_state && image.organization.map_or(everybodys, |owner| organizations.contains(&owner))
    })))
}
