//! What an operator says of a region that is an OpenStack cloud.
//!
//! It says where credentials come from and never what they are: this is stored with the region, in plain.

use serde::{Deserialize, Serialize};

use super::ids::{FlavorId, ProviderExternalNetworkId, VolumeClassId};
use super::image::{Architecture, GpuVendor};
use super::region::ProviderNetworks;

/// An OpenStack cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenstackSettings {
    /// Keystone's address. May be left out where a `clouds.yaml` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    pub credentials: CredentialSource,
    /// Which of the catalogue's regions this one is (B46). May be left out where there is one, or a `clouds.yaml` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region_name: Option<String>,
    /// Which of the catalogue's addresses are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// A PEM file with the authority that signed the cloud's certificates. Without it those of the system are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    #[serde(default)]
    pub isolation: Isolation,
    #[serde(default)]
    pub identity: OpenstackIdentitySettings,
    #[serde(default)]
    pub compute: OpenstackComputeSettings,
    #[serde(default)]
    pub image: OpenstackImageSettings,
    #[serde(default)]
    pub network: OpenstackNetworkSettings,
    #[serde(default)]
    pub block_storage: OpenstackBlockStorageSettings,
}

/// Where the service account's credentials are read from, again whenever they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum CredentialSource {
    /// A TOML file with `domain-id`, `user-id`, `password` and `project-id`, or a folder with a file for each.
    File(String),
    /// The variables `<prefix>DOMAIN_ID`, `<prefix>USER_ID`, `<prefix>PASSWORD` and `<prefix>PROJECT_ID`.
    Environment(String),
    CloudsYaml(CloudsYaml),
}

/// What keeps tenants apart in the cloud. It cannot be changed while the region has principals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// A project and a user of the cloud for each principal: the cloud itself keeps them apart.
    #[default]
    Principal,
    /// Nothing but names: everything lies in the one project of the credentials. Weaker, for clouds that give us no
    /// domain.
    Project,
}

impl Isolation {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Principal => "principal",
            Self::Project => "project",
        }
    }
}

/// An entry of a `clouds.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloudsYaml {
    pub file: String,
    pub cloud: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    #[default]
    Public,
    Internal,
    Admin,
}

impl Interface {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenstackIdentitySettings {
    /// The id of the domain that principals are made in, where the credentials do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The roles that every principal has in its project.
    #[serde(default = "default_cluster_roles")]
    pub cluster_roles: Vec<String>,
}

impl Default for OpenstackIdentitySettings {
    fn default() -> Self {
        Self { domain: None, cluster_roles: default_cluster_roles() }
    }
}

fn default_cluster_roles() -> Vec<String> {
    vec!["member".to_owned(), "load-balancer_member".to_owned()]
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenstackComputeSettings {
    #[serde(default)]
    pub server_group_policy: ServerGroupPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_preflight: Option<PlacementPreflight>,
    #[serde(default)]
    pub flavors: FlavorSettings,
}

/// How servers of one principal are spread over hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerGroupPolicy {
    Affinity,
    AntiAffinity,
    SoftAffinity,
    #[default]
    SoftAntiAffinity,
}

/// Whether it is asked, before a pinned server is made, if its host could take it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementPreflight {
    pub enabled: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_traits: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlavorSettings {
    /// Present: only these are offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<FlavorSelector>,
    /// What the cloud does not say of its flavors, or says otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<FlavorMetadata>,
}

/// Flavors by the cloud's own ids, which need not be UUIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlavorSelector {
    pub ids: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlavorMetadata {
    /// The cloud's own id.
    pub id: String,
    #[serde(default)]
    pub baremetal: bool,
    #[serde(default)]
    pub pinned_only: bool,
    #[serde(default)]
    pub cpu: CpuMetadata,
    /// Instead of what the cloud says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuMetadata>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CpuMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// Instead of what the cloud says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuMetadata {
    pub vendor: GpuVendor,
    pub model: String,
    pub physical_count: u32,
    pub logical_count: u32,
    pub memory_gib: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenstackImageSettings {
    /// Whose signature an image must carry to be offered to everybody: a PEM block with an elliptic curve's public key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenstackNetworkSettings {
    #[serde(default)]
    pub external_networks: ExternalNetworkSelector,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_networks: Option<ProviderNetworks>,
}

/// Which of the cloud's external networks are used; all of them if nothing is said. The first of `ids` that is there
/// leads outside; without `ids`, the first by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalNetworkSelector {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<ProviderExternalNetworkId>,
    /// All must be on a network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenstackBlockStorageSettings {
    #[serde(default)]
    pub volume_classes: VolumeClassSettings,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeClassSettings {
    /// Only these are offered. None are, if none are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<VolumeClassId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<VolumeClassMetadata>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeClassMetadata {
    pub id: VolumeClassId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaWord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance: Option<PerformanceMetadata>,
    #[serde(default)]
    pub encrypted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaWord {
    Hdd,
    Ssd,
    Nvme,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PerformanceMetadata {
    pub iops_max: u64,
    pub throughput_mib_per_second_max: u64,
}

/// Ids of flavors that are no UUIDs get one of this family, the same each time.
const FLAVOR_NAMESPACE: uuid::Uuid = uuid::uuid!("6f4c2a1e-52b7-4c55-9f0b-0a4b8f6a7d31");

/// A flavor under the id that clients know it by: the cloud's own if that is a UUID, and one made of it otherwise.
#[must_use]
pub fn flavor_id(own: &str) -> FlavorId {
    own.parse().unwrap_or_else(|_| FlavorId(uuid::Uuid::new_v5(&FLAVOR_NAMESPACE, own.as_bytes())))
}

/// Why settings cannot stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOpenstackSettings {
    #[error("an endpoint is needed, the address of Keystone, unless the credentials are an entry of a clouds.yaml")]
    NoEndpoint,
    #[error("the endpoint must begin with http:// or https://")]
    Endpoint,
    #[error("identity.clusterRoles names no role: principals could do nothing")]
    NoRoles,
    #[error("a flavor, a volume class or a network is named twice")]
    Doubled,
    #[error("a measure of performance must be at least 1")]
    Performance,
}

impl OpenstackSettings {
    /// A cloud of which nothing is said but how to get in.
    #[must_use]
    pub fn with_credentials(credentials: CredentialSource) -> Self {
        Self {
            endpoint: None,
            credentials,
            region_name: None,
            interface: None,
            ca_file: None,
            isolation: Isolation::default(),
            identity: OpenstackIdentitySettings::default(),
            compute: OpenstackComputeSettings::default(),
            image: OpenstackImageSettings::default(),
            network: OpenstackNetworkSettings::default(),
            block_storage: OpenstackBlockStorageSettings::default(),
        }
    }

    pub fn validate(&self) -> Result<(), InvalidOpenstackSettings> {
        match (&self.endpoint, &self.credentials) {
            (None, CredentialSource::CloudsYaml(_)) => {}
            (None, _) => return Err(InvalidOpenstackSettings::NoEndpoint),
            (Some(url), _) if url.starts_with("http://") || url.starts_with("https://") => {}
            (Some(_), _) => return Err(InvalidOpenstackSettings::Endpoint),
        }
        if self.identity.cluster_roles.is_empty() {
            return Err(InvalidOpenstackSettings::NoRoles);
        }
        let flavors = &self.compute.flavors.metadata;
        let classes = &self.block_storage.volume_classes;
        let doubled = is_doubled(flavors.iter().map(|flavor| &flavor.id))
            || is_doubled(classes.metadata.iter().map(|class| &class.id))
            || is_doubled(self.network.external_networks.ids.iter());
        if doubled {
            return Err(InvalidOpenstackSettings::Doubled);
        }
        let is_nothing = |performance: &PerformanceMetadata| {
            performance.iops_max == 0 || performance.throughput_mib_per_second_max == 0
        };
        if classes.metadata.iter().filter_map(|class| class.performance.as_ref()).any(is_nothing) {
            return Err(InvalidOpenstackSettings::Performance);
        }
        Ok(())
    }
}

fn is_doubled<T: Ord>(items: impl Iterator<Item = T>) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    items.into_iter().any(|item| !seen.insert(item))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<OpenstackSettings, String> {
        let settings: OpenstackSettings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.validate().map_err(|error| error.to_string()).map(|()| settings)
    }

    const SMALL: &str = "endpoint = \"https://keystone.example/v3\"\ncredentials = { file = \"f\" }\n";

    #[test]
    fn what_is_left_out_has_the_defaults_of_the_service_before() {
        let settings = settings(SMALL).expect("good");
        assert_eq!(settings.identity.cluster_roles, ["member", "load-balancer_member"]);
        assert_eq!(settings.compute.server_group_policy, ServerGroupPolicy::SoftAntiAffinity);
        assert!(settings.block_storage.volume_classes.ids.is_empty(), "nothing is offered unless it is named");
        assert_eq!(settings.interface.unwrap_or_default(), Interface::Public);
        assert_eq!(settings.isolation, Isolation::Principal);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_with_the_rule() {
        assert!(settings("credentials = { file = \"f\" }").expect_err("no endpoint").contains("endpoint"));
        assert!(settings("credentials = { cloudsYaml = { file = \"f\", cloud = \"c\" } }").is_ok());
        assert!(settings(&SMALL.replace("https", "gopher")).expect_err("scheme").contains("http"));
        let roles = format!("{SMALL}[identity]\nclusterRoles = []\n");
        assert!(settings(&roles).expect_err("no role").contains("role"));
        let twice =
            format!("{SMALL}[[compute.flavors.metadata]]\nid = \"1\"\n[[compute.flavors.metadata]]\nid = \"1\"\n");
        assert!(settings(&twice).expect_err("twice").contains("twice"));
        assert!(settings(&format!("{SMALL}password = \"x\"\n")).expect_err("unknown").contains("unknown field"));
    }

    #[test]
    fn a_flavor_keeps_its_id_if_it_is_a_uuid_and_gets_the_same_one_each_time_otherwise() {
        let own = "11111111-1111-4111-8111-111111111111";
        assert_eq!(flavor_id(own).to_string(), own);
        assert_eq!(flavor_id("m1.tiny"), flavor_id("m1.tiny"));
        assert_ne!(flavor_id("1"), flavor_id("2"));
    }
}
