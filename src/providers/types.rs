//! What every cloud has, in words that belong to none of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::ids::{FlavorId, IdentityId, ImageId, OrganizationId, ProviderExternalNetworkId, VolumeClassId};
pub use crate::model::image::{
    Architecture, GpuVendor, ImageContents, ImageGpu, ImageStatus, OperatingSystem, Virtualization,
};

/// A machine type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flavor {
    pub id: FlavorId,
    pub name: String,
    pub architecture: Architecture,
    pub cpus: u32,
    pub cpu_family: Option<String>,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    pub gpu: Option<FlavorGpu>,
    pub baremetal: bool,
    pub pinned_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlavorGpu {
    pub vendor: GpuVendor,
    pub model: String,
    pub memory_bytes: u64,
    pub physical_count: u32,
    pub logical_count: u32,
}

/// An image that servers boot from, as a cloud offers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    pub id: ImageId,
    pub name: String,
    pub tags: BTreeMap<String, String>,
    /// Absent: the image is everybody's.
    pub organization: Option<OrganizationId>,
    pub created: Timestamp,
    pub modified: Timestamp,
    pub architecture: Architecture,
    pub size_gib: u32,
    pub virtualization: Virtualization,
    pub gpu: Option<ImageGpu>,
    pub os: OperatingSystem,
    pub packages: BTreeMap<String, String>,
    pub status: ImageStatus,
    pub identity: Option<IdentityId>,
}

impl Image {
    /// What it holds: what a copy of it holds as well.
    #[must_use]
    pub fn contents(&self) -> ImageContents {
        ImageContents {
            architecture: self.architecture,
            virtualization: self.virtualization,
            os: self.os.clone(),
            gpu: self.gpu.clone(),
            packages: self.packages.clone(),
        }
    }
}

/// A class of block storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClass {
    pub id: VolumeClassId,
    pub name: String,
    pub description: Option<String>,
    pub media: Option<Media>,
    pub performance: Option<Performance>,
    pub encrypted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = volumeMedia)]
pub enum Media {
    Hdd,
    Ssd,
    Nvme,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Performance {
    pub iops_max: u64,
    pub throughput_mib_per_second_max: u64,
}

/// A network that leads outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalNetwork {
    pub id: ProviderExternalNetworkId,
    pub name: String,
}
