//! An image of an organization's own: what its servers can boot from, beside what the region offers to everybody.
//!
//! ```text
//!   status   Pending ──▶ Creating ──▶ Ready ──▶ Failed (lost)
//!                └──────────┴──▶ Failed
//! ```
//!
//! Its id is ours and the cloud's as well, so that a creation whose answer was lost is found again and not repeated.
//! What failed stays so: what lies behind an address today need not be what was asked for then. Whoever wants it after
//! all deletes the image and makes another one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ids::{Incarnation, Kind, ServerId};
use super::record::{Resource, ResourceKind};
use super::sealed::Sealed;

/// How many images an organization may have, in all regions together. They are charged to no quota; without a bound one
/// tenant could fill a cloud's store of images, and every list of images would read them all.
pub const IMAGES_MAX: u16 = 200;

#[derive(Clone, Debug)]
pub struct Image;

impl ResourceKind for Image {
    const KIND: Kind = Kind::Image;
    type Spec = ImageSpec;
    type Detail = ImageDetail;
}

/// What was declared of it, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    pub contents: ImageContents,
    pub source: ImageSource,
    /// The disk that it needs, as far as that is known before the cloud has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_gib: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum ImageSource {
    /// The cloud fetches it from there. Sealed: such an address often lets in whoever has it.
    Import { uri: Sealed<String> },
    /// The root disk of a server, as it was when it was asked for.
    Snapshot { server: ServerId, incarnation: Incarnation },
}

/// What an image holds, as its maker says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageContents {
    pub architecture: Architecture,
    pub virtualization: Virtualization,
    pub os: OperatingSystem,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<ImageGpu>,
    /// Software that is installed already, with its version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = architecture)]
pub enum Architecture {
    X86_64,
    Aarch64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuVendor {
    Nvidia,
    Amd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = imageVirtualization)]
pub enum Virtualization {
    Virtualized,
    Baremetal,
    Any,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageGpu {
    pub vendor: GpuVendor,
    pub driver: String,
    pub models: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatingSystem {
    pub kernel: String,
    pub family: String,
    pub distro: String,
    pub variant: Option<String>,
    pub codename: Option<String>,
    pub version: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = imageState)]
pub enum ImageStatus {
    Pending,
    Creating,
    Ready,
    Failed,
}

impl ImageStatus {
    /// Nothing will change by itself any more.
    #[must_use]
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Ready | Self::Failed)
    }
}

/// Why there is no image, and will not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageFailure {
    /// The cloud tried, and gave up.
    NotMade,
    /// The cloud will not have it.
    Refused,
    /// The server went, or failed, before its disk was saved.
    SourceGone,
    /// It was there, and is not any more.
    Lost,
}

impl ImageFailure {
    /// In user-safe words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotMade => "the cloud could not make the image; delete it and try again",
            Self::Refused => "the cloud does not accept this image",
            Self::SourceGone => "the server was gone, or had failed, before its disk was saved",
            Self::Lost => "the image is missing from its cloud; delete it and make it again",
        }
    }
}

/// What is known of it beyond the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageDetail {
    /// As the cloud last had it; `None` before it had anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ImageStatus>,
    /// Set with the status `Failed`, and never cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<ImageFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_gib: Option<u32>,
    /// Of everything that was last seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<u64>,
}

impl ImageDetail {
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.status.is_some_and(ImageStatus::is_settled)
    }
}

impl Resource<Image> {
    /// What clients are told. There is no word for an image that is going: nothing boots from it, like one that failed.
    #[must_use]
    pub fn status(&self) -> ImageStatus {
        let at_first = match self.spec.source {
            ImageSource::Import { .. } => ImageStatus::Pending,
            ImageSource::Snapshot { .. } => ImageStatus::Creating,
        };
        match self.detail.status {
            _ if self.metadata.is_deleting() => ImageStatus::Failed,
            Some(ImageStatus::Ready) => ImageStatus::Ready,
            _ if self.conditions.has_failed() => ImageStatus::Failed,
            status => status.unwrap_or(at_first),
        }
    }

    /// The disk that it needs; zero while nobody knows.
    #[must_use]
    pub fn size_gib(&self) -> u32 {
        self.detail.size_gib.or(self.spec.size_gib).unwrap_or_default()
    }
}
