//! A region: the configuration root that an operator writes.
//!
//! Regions come from the configuration file. One that has left the file while it still has resources is kept and
//! marked withdrawn: it is shown as unavailable, takes nothing new, and its resources are left alone.

use serde::{Deserialize, Serialize};

use super::ids::{Kind, OrganizationId};
pub use super::openstack::OpenstackSettings;
use super::organization::Nothing;
use super::record::ResourceKind;

#[derive(Clone, Debug)]
pub struct Region;

impl ResourceKind for Region {
    const KIND: Kind = Kind::Region;
    type Spec = RegionSpec;
    type Detail = Nothing;
}

/// What an operator says of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegionSpec {
    pub provider: ProviderSettings,
    /// Present: the region is private to these organizations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organizations: Option<Vec<OrganizationId>>,
    /// The region is no longer configured.
    #[serde(default)]
    pub withdrawn: bool,
}

/// Which cloud the region is, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ProviderSettings {
    Simulated(SimulatedSettings),
    Openstack(Box<OpenstackSettings>),
    Kubernetes(KubernetesSettings),
}

/// The word clients know a provider by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegionType {
    Openstack,
    Kubernetes,
    Simulated,
}

impl RegionSpec {
    #[must_use]
    pub const fn region_type(&self) -> RegionType {
        match self.provider {
            ProviderSettings::Simulated(_) => RegionType::Simulated,
            ProviderSettings::Openstack(_) => RegionType::Openstack,
            ProviderSettings::Kubernetes(_) => RegionType::Kubernetes,
        }
    }

    /// Does the region place networks on a physical network, each with a VLAN of its own?
    #[must_use]
    pub fn has_physical_networks(&self) -> bool {
        match &self.provider {
            ProviderSettings::Simulated(settings) => settings.provider_networks.is_some(),
            ProviderSettings::Openstack(settings) => settings.network.provider_networks.is_some(),
            ProviderSettings::Kubernetes(_) => false,
        }
    }

    /// Is the region there for this organization at all?
    #[must_use]
    pub fn is_visible_to(&self, organization: OrganizationId) -> bool {
        self.organizations.as_ref().is_none_or(|allowed| allowed.contains(&organization))
    }
}

/// A cloud that exists only in a process: this one, or one that `regent simulated-cloud` serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SimulatedSettings {
    /// Where `regent simulated-cloud` listens; absent: the cloud is in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// How long every call takes, in milliseconds.
    #[serde(default)]
    pub call_delay_ms: u64,
    /// How long a server takes to boot, in milliseconds; about two seconds if it is not given. This and what follows
    /// is for a cloud in this process: one at an endpoint is told when it is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_delay_ms: Option<u64>,
    /// How long a server takes to be gone, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_delay_ms: Option<u64>,
    /// How long an image takes to be made, in milliseconds; a second if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_delay_ms: Option<u64>,
    /// How many physical machines there are; two if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare_metal_hosts: Option<u32>,
    /// The cloud's own quotas; without them it takes as many as come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports_max: Option<u32>,
    /// Who is offered the private class of file storage; nobody if they are not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_storage_organizations: Vec<OrganizationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_networks: Option<ProviderNetworks>,
}

/// Networks get VLANs on this physical network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderNetworks {
    pub physical_network: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vlan_segments: Vec<VlanSegment>,
}

/// Both ends included. Checked when the configuration is read: a reversed segment is an error, never "all".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VlanSegment {
    pub start: u16,
    pub end: u16,
}

pub const VLAN_MIN: u16 = 1;
pub const VLAN_MAX: u16 = 4094;

/// A segment that cannot be allocated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a VLAN segment runs from a lower to a higher id within 1..4094")]
pub struct InvalidVlanSegment;

impl ProviderNetworks {
    /// The ids that may be allocated: the segments, or everything when none are given.
    #[must_use]
    pub fn allocatable(&self) -> Vec<VlanSegment> {
        if self.vlan_segments.is_empty() {
            vec![VlanSegment { start: VLAN_MIN, end: VLAN_MAX }]
        } else {
            self.vlan_segments.clone()
        }
    }

    pub fn validate(&self) -> Result<(), InvalidVlanSegment> {
        let good = |segment: &VlanSegment| {
            VLAN_MIN <= segment.start && segment.start <= segment.end && segment.end <= VLAN_MAX
        };
        if self.vlan_segments.iter().all(good) { Ok(()) } else { Err(InvalidVlanSegment) }
    }
}

/// A Kubernetes cluster as a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubernetesSettings {
    pub kubeconfig_file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_name: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b15_a_reversed_or_invalid_segment_is_refused_instead_of_opening_everything() {
        let with = |start, end| ProviderNetworks {
            physical_network: "physnet".to_owned(),
            vlan_segments: vec![VlanSegment { start, end }],
        };
        assert_eq!(with(100, 200).validate(), Ok(()));
        for (start, end) in [(200, 100), (0, 5), (4000, 4095)] {
            assert_eq!(with(start, end).validate(), Err(InvalidVlanSegment), "{start}-{end}");
        }
    }
}
