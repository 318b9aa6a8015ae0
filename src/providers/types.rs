//! What every cloud has, in words that belong to none of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::ids::{FlavorId, IdentityId, ImageId, OrganizationId, ProviderExternalNetworkId};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    X86_64,
    Aarch64,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuVendor {
    Nvidia,
    Amd,
}

/// An image that servers boot from.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageStatus {
    Pending,
    Creating,
    Ready,
    Failed,
}

/// A class of block storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeClass {
    pub id: Uuid,
    pub name: String,
    pub description: Option<String>,
    pub media: Option<Media>,
    pub performance: Option<Performance>,
    pub encrypted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Hdd,
    Ssd,
    Nvme,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
