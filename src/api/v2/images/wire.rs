//! Images on the wire, and the way in and out of the model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::{ApiError, Failure};
use crate::api::resources::Surface;
use crate::api::wire::{AcceptedMetadata, StaticReadMetadata, WireTag, WriteMetadata, wire_time};
use crate::identity::acl::Endpoint;
use crate::model::image::{
    Architecture, GpuVendor, Image, ImageContents, ImageGpu, ImageStatus, OperatingSystem, Virtualization,
};
use crate::model::image_url::{ImageUrl, is_public};
use crate::model::metadata::Tag;
use crate::model::record::{CorruptRecord, Record, Resource};
use crate::providers::image_schema::is_version;
use crate::providers::types;

/// Names of systems, their versions and their drivers are short; this is the longest that clouds keep beside an image.
pub const TEXT_LEN_MAX: usize = 255;

/// More than any one machine has, and than any one driver serves.
pub const GPU_MODELS_MAX: usize = 32;

/// Each is a property of the image in the cloud, which keeps a hundred or so.
pub const PACKAGES_MAX: usize = 64;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = imageOS)]
pub struct WireOperatingSystem {
    #[schema(pattern = "^linux$")]
    kernel: String,
    #[schema(min_length = 1, max_length = 255)]
    family: String,
    #[schema(min_length = 1, max_length = 255)]
    distro: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    variant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    codename: Option<String>,
    #[schema(min_length = 1, max_length = 255)]
    version: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = gpuVendor)]
pub enum WireVendor {
    Nvidia,
    Amd,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = imageGpu)]
pub struct WireGpu {
    vendor: WireVendor,
    #[schema(min_length = 1, max_length = 255)]
    driver: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 32)]
    models: Vec<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = imageSpec)]
struct WireImageSpec {
    architecture: Architecture,
    /// The disk that it needs; zero while that is not known.
    #[serde(rename = "sizeGiB")]
    size_gib: u32,
    virtualization: Virtualization,
    os: WireOperatingSystem,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    software_versions: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<WireGpu>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = imageStatus)]
struct WireImageStatus {
    state: ImageStatus,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = image)]
pub struct ImageRead {
    metadata: StaticReadMetadata,
    spec: WireImageSpec,
    status: WireImageStatus,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = imageCreateSpec)]
pub struct WireCreateSpec {
    /// Where the image is fetched from: a raw disk with a partition table.
    #[schema(format = "uri", max_length = 4096)]
    uri: String,
    architecture: Architecture,
    virtualization: Virtualization,
    os: WireOperatingSystem,
    software_versions: Option<BTreeMap<String, String>>,
    gpu: Option<WireGpu>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = imageCreate)]
pub struct ImageCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

/// What is said of a snapshot: only what it is to be called.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = snapshotCreate)]
pub struct SnapshotCreate {
    pub metadata: WriteMetadata,
    #[expect(dead_code, reason = "there is nothing to be said in it yet, but it must be there")]
    spec: WireSnapshotSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = snapshotCreateSpec)]
struct WireSnapshotSpec {}

/// An import that follows the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedImport {
    pub metadata: AcceptedMetadata,
    pub url: ImageUrl,
    pub contents: ImageContents,
}

impl ImageCreate {
    /// Whatever is wrong with it is 422: the contract has no other word for this operation.
    pub fn accept(self) -> Result<AcceptedImport, ApiError> {
        let spec = self.spec;
        let url = ImageUrl::parse(&spec.uri, is_public);
        Ok(AcceptedImport {
            metadata: self.metadata.accept().map_err(unprocessable)?,
            url: url.map_err(|error| ApiError::unprocessable(format!("spec.uri {error}")))?,
            contents: ImageContents {
                architecture: spec.architecture,
                virtualization: spec.virtualization,
                os: spec.os.accept()?,
                gpu: spec.gpu.map(WireGpu::accept).transpose()?,
                packages: accept_packages(spec.software_versions.unwrap_or_default())?,
            },
        })
    }
}

/// The same fault, under the only code that the contract has for it.
#[must_use]
pub fn unprocessable(error: ApiError) -> ApiError {
    match error.failure {
        Failure::InvalidRequest => ApiError { failure: Failure::Unprocessable, ..error },
        _ => error,
    }
}

fn is_text(text: &str) -> bool {
    (1..=TEXT_LEN_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

impl WireOperatingSystem {
    fn accept(self) -> Result<OperatingSystem, ApiError> {
        if self.kernel != "linux" {
            return Err(ApiError::unprocessable("spec.os.kernel must be linux"));
        }
        let optional = [&self.variant, &self.codename].into_iter().flatten();
        if ![&self.family, &self.distro, &self.version].into_iter().chain(optional).all(|text| is_text(text)) {
            return Err(ApiError::unprocessable("spec.os must have texts of 1 to 255 printable characters"));
        }
        Ok(OperatingSystem {
            kernel: self.kernel,
            family: self.family,
            distro: self.distro,
            variant: self.variant,
            codename: self.codename,
            version: self.version,
        })
    }

    fn of(os: OperatingSystem) -> Self {
        Self {
            kernel: os.kernel,
            family: os.family,
            distro: os.distro,
            variant: os.variant,
            codename: os.codename,
            version: os.version,
        }
    }
}

impl WireGpu {
    fn accept(self) -> Result<ImageGpu, ApiError> {
        if !is_text(&self.driver) {
            return Err(ApiError::unprocessable("spec.gpu.driver must be 1 to 255 printable characters"));
        }
        let is_model = |model: &String| is_text(model) && !model.contains(',');
        if self.models.len() > GPU_MODELS_MAX || !self.models.iter().all(is_model) {
            let text = "spec.gpu.models must be at most 32, of 1 to 255 printable characters without a comma";
            return Err(ApiError::unprocessable(text));
        }
        let vendor = match self.vendor {
            WireVendor::Nvidia => GpuVendor::Nvidia,
            WireVendor::Amd => GpuVendor::Amd,
        };
        Ok(ImageGpu { vendor, driver: self.driver, models: self.models })
    }

    fn of(gpu: ImageGpu) -> Self {
        let vendor = match gpu.vendor {
            GpuVendor::Nvidia => WireVendor::Nvidia,
            GpuVendor::Amd => WireVendor::Amd,
        };
        Self { vendor, driver: gpu.driver, models: gpu.models }
    }
}

fn accept_packages(packages: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ApiError> {
    if packages.len() > PACKAGES_MAX || !packages.keys().all(|name| is_text(name)) {
        return Err(ApiError::unprocessable(
            "spec.softwareVersions must be at most 64, with names of 1 to 255 characters",
        ));
    }
    if !packages.values().all(|version| is_version(version)) {
        return Err(ApiError::unprocessable("spec.softwareVersions must be versions of the form v1.2.3"));
    }
    Ok(packages)
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

/// The state that a word names.
#[must_use]
pub fn state_of(word: &str) -> Option<ImageStatus> {
    match word {
        "pending" => Some(ImageStatus::Pending),
        "creating" => Some(ImageStatus::Creating),
        "ready" => Some(ImageStatus::Ready),
        "failed" => Some(ImageStatus::Failed),
        _ => None,
    }
}

impl WireImageSpec {
    fn of(contents: ImageContents, size_gib: u32) -> Self {
        Self {
            architecture: contents.architecture,
            size_gib,
            virtualization: contents.virtualization,
            os: WireOperatingSystem::of(contents.os),
            software_versions: contents.packages,
            gpu: contents.gpu.map(WireGpu::of),
        }
    }
}

impl ImageRead {
    /// Made for no service in particular: nothing is installed on it that only one of them needs.
    #[must_use]
    pub fn is_general(&self) -> bool {
        self.spec.software_versions.is_empty()
    }

    /// What a cloud offers.
    #[must_use]
    pub fn offered(image: &types::Image) -> Self {
        let tag = |(name, value): (&String, &String)| WireTag { name: name.clone(), value: value.clone() };
        Self {
            metadata: StaticReadMetadata {
                id: image.id.to_string(),
                name: image.name.clone(),
                description: None,
                tags: (!image.tags.is_empty()).then(|| image.tags.iter().map(tag).collect()),
                creation_time: wire_time(image.created),
                created_by: None,
                modified_time: Some(wire_time(image.modified)),
            },
            spec: WireImageSpec::of(image.contents(), image.size_gib),
            status: WireImageStatus { state: image.status },
        }
    }

    /// Where it stands in a list.
    #[must_use]
    pub fn order(&self) -> (&str, &str) {
        (&self.metadata.name, &self.metadata.id)
    }
}

impl Surface for ImageRead {
    type Kind = Image;
    const ENDPOINT: Endpoint = Endpoint::Images;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let image: Resource<Image> = record.open()?;
        let metadata = &image.metadata;
        let tag = |tag: &Tag| WireTag { name: tag.name.clone(), value: tag.value.clone() };
        Ok(Self {
            metadata: StaticReadMetadata {
                id: image.key.id.to_string(),
                name: metadata.name.clone(),
                description: metadata.description.clone(),
                tags: metadata.tags.as_ref().map(|tags| tags.iter().map(tag).collect()),
                creation_time: wire_time(metadata.created),
                created_by: Some(metadata.creator.clone()),
                modified_time: metadata.modified.map(wire_time),
            },
            status: WireImageStatus { state: image.status() },
            spec: WireImageSpec::of(image.spec.contents.clone(), image.size_gib()),
        })
    }
}

/// An organization's own image, as if its cloud offered it.
#[must_use]
pub fn as_offered(image: &Resource<Image>) -> types::Image {
    let ImageContents { architecture, virtualization, os, gpu, packages } = image.spec.contents.clone();
    types::Image {
        id: crate::model::ids::ImageId(image.key.id),
        name: image.metadata.name.clone(),
        tags: BTreeMap::new(),
        organization: image.metadata.placement.organization,
        created: image.metadata.created,
        modified: image.metadata.modified.unwrap_or(image.metadata.created),
        architecture,
        size_gib: image.size_gib(),
        virtualization,
        gpu,
        os,
        packages,
        status: image.status(),
        identity: None,
    }
}
