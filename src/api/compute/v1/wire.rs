//! Clusters of the first version on the wire, and the way in and out of the model.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::compute::clusters::wire::{bounded, distinct};
use crate::api::error::ApiError;
use crate::api::resources::Surface;
use crate::api::v1::servers::wire::{WireAddressPair, WirePublicIp, accept_pairs, shown_pairs};
use crate::api::v2::networks::wire::{WireSpec as WireNetworkSpec, accept_spec};
use crate::api::v2::security_groups::wire::RULES_MAX;
use crate::api::v2::servers::wire::accept_user_data;
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata, accept_prefix, body_id};
use crate::identity::acl::Endpoint;
use crate::model::cluster::{Cluster, FirewallRule, ImageSelector, MachineDetail, NodeNetwork, Pool, PoolDetail};
use crate::model::ids::{FlavorId, ImageId, Key, NetworkId, RegionId};
use crate::model::metadata::ApiVersion;
use crate::model::network::NetworkSpec;
use crate::model::projection::{ComputePowerState, compute_power_state};
use crate::model::record::{CorruptRecord, Record};
use crate::model::security_group::{Direction, Protocol};
use crate::model::server::{Networking, UserData};

/// Where requests name the pools.
const POOLS: &str = "spec.workloadPools.pools";

/// What a network is that nobody asked anything of: what clusters of this version have always had.
const NODE_NETWORK_DEFAULT: &str = "192.168.0.0/24";

/// As long as the words of an operating system are anywhere.
const SELECTOR_LEN_MAX: usize = 63;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = computeClusterNetwork)]
pub struct WireNetwork {
    /// An IPv4 prefix of at least a /24.
    pub node_network: String,
    /// Empty: the platform's own, which lets hosts resolve each other.
    #[schema(max_items = 32)]
    pub dns_nameservers: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = firewallRule)]
pub struct WireFirewallRule {
    pub direction: Direction,
    /// tcp or udp.
    pub protocol: Protocol,
    #[schema(minimum = 1, maximum = 65535)]
    pub port: u16,
    /// The last port of a range that begins with `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 65535)]
    pub port_max: Option<u16>,
    /// IPv4 prefixes in CIDR notation.
    #[schema(min_items = 1, max_items = 1000)]
    pub prefixes: Vec<String>,
}

/// The newest image for everybody that is of this sort, and that the flavor can boot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = imageSelector)]
pub struct WireImageSelector {
    #[schema(max_length = 63)]
    pub distro: String,
    /// Any when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 63)]
    pub variant: Option<String>,
    #[schema(max_length = 63)]
    pub version: String,
}

/// Machines that are alike.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = computeClusterWorkloadPool)]
pub struct WirePool {
    /// Machines are called after it.
    #[schema(pattern = "^[0-9A-Za-z](?:[0-9A-Za-z-_.]{0,54}[0-9A-Za-z])?$", max_length = 56)]
    pub name: String,
    #[schema(maximum = 256)]
    pub replicas: u32,
    #[schema(format = "uuid")]
    pub flavor_id: String,
    /// This, or a selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub image_id: Option<String>,
    /// Chooses when it is first said, and again when it is changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_selector: Option<WireImageSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_ip_allocation: Option<WirePublicIp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub firewall: Option<Vec<WireFirewallRule>>,
    /// Base64 of what cloud-init is started with. Takes effect when a machine is next made or rebuilt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "byte", max_length = 65535)]
    pub user_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 256)]
    pub allowed_address_pairs: Option<Vec<WireAddressPair>>,
    /// Not supported: a disk is as large as its flavor says.
    #[serde(skip_serializing)]
    #[schema(value_type = Option<String>)]
    pub disk_size: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = computeClusterWorkloadPools)]
pub struct WirePools {
    #[schema(max_items = 16)]
    pub pools: Vec<WirePool>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = computeClusterSpec)]
pub struct WireSpec {
    /// Never changes.
    #[schema(format = "uuid")]
    pub region_id: String,
    /// Its prefix never changes. Left out of an update: as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<WireNetwork>,
    pub workload_pools: WirePools,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = computeClusterWrite)]
pub struct ClusterWrite {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

/// A machine as it was last heard of. It is an instance of the second version, by the same id.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = computeClusterMachineStatus)]
pub struct WireMachine {
    #[schema(format = "uuid")]
    pub id: String,
    pub hostname: String,
    #[serde(rename = "flavorID")]
    #[schema(format = "uuid")]
    pub flavor_id: String,
    #[serde(rename = "imageID")]
    #[schema(format = "uuid")]
    pub image_id: String,
    #[serde(rename = "privateIP", skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<String>,
    #[serde(rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<String>,
    pub status: ComputePowerState,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = computeClusterWorkloadPoolStatus)]
pub struct WirePoolStatus {
    pub name: String,
    /// How many there are.
    pub replicas: u32,
    pub machines: Vec<WireMachine>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = computeClusterStatus)]
pub struct WireStatus {
    pub workload_pools: Vec<WirePoolStatus>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = computeClusterRead)]
pub struct ClusterRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

/// How a pool's image was named.
#[derive(Clone, Debug)]
pub enum AcceptedImage {
    Named(ImageId),
    Selected(ImageSelector),
}

/// A pool whose form is right, and of which nothing else is known.
#[derive(Clone, Debug)]
pub struct AcceptedPool {
    pub name: String,
    pub replicas: u32,
    pub flavor: FlavorId,
    pub image: AcceptedImage,
    /// Without the group that its firewall will be.
    pub networking: Option<Networking>,
    pub user_data: Option<UserData>,
    pub firewall: Option<Vec<FirewallRule>>,
}

/// A creation or an update that follows the rules of its form.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub metadata: AcceptedMetadata,
    pub region: RegionId,
    pub network: Option<NodeNetwork>,
    pub pools: Vec<AcceptedPool>,
}

impl ClusterWrite {
    pub fn accept(self) -> Result<Accepted, ApiError> {
        let (metadata, spec) = (self.metadata.accept()?, self.spec);
        let pools = spec.workload_pools.pools;
        bounded(POOLS, &pools.iter().map(|pool| (pool.name.as_str(), pool.replicas)).collect::<Vec<_>>())?;
        let pools = pools.into_iter().map(accept_pool).collect::<Result<Vec<_>, _>>()?;
        distinct(POOLS, &pools.iter().map(|pool| (pool.name.as_str(), pool.replicas)).collect::<Vec<_>>())?;
        Ok(Accepted {
            metadata,
            region: body_id(&spec.region_id, "spec.regionId must be a UUID")?,
            network: spec.network.map(accept_network).transpose()?,
            pools,
        })
    }
}

impl Accepted {
    /// What the network of a new cluster is to be.
    pub fn network_spec(&self) -> Result<NetworkSpec, ApiError> {
        let nothing = WireNetworkSpec { dns_nameservers: Vec::new(), routes: None };
        let usual = accept_spec(NODE_NETWORK_DEFAULT, None, nothing)?;
        Ok(match self.network.clone() {
            Some(NodeNetwork { prefix, dns_nameservers }) => NetworkSpec { prefix, dns_nameservers, ..usual },
            None => usual,
        })
    }
}

/// The rules are those of any network; the words are those of this body.
fn accept_network(wire: WireNetwork) -> Result<NodeNetwork, ApiError> {
    let rest = WireNetworkSpec { dns_nameservers: wire.dns_nameservers, routes: None };
    let rule = "spec.network must have an IPv4 prefix of at least a /24 as nodeNetwork, and at most 32 IPv4 addresses as dnsNameservers";
    let spec = accept_spec(&wire.node_network, None, rest).map_err(|error| ApiError::new(error.failure, rule))?;
    Ok(NodeNetwork { prefix: spec.prefix, dns_nameservers: spec.dns_nameservers })
}

fn accept_pool(pool: WirePool) -> Result<AcceptedPool, ApiError> {
    if pool.disk_size.is_some() {
        let rule = "spec.workloadPools.pools.diskSize is not supported: choose a flavor with such a disk";
        return Err(ApiError::unprocessable(rule));
    }
    let pairs = pool.allowed_address_pairs.as_deref().map(accept_pairs).transpose().map_err(|_| {
        ApiError::invalid(
            "spec.workloadPools.pools.allowedAddressPairs must be at most 256 IPv4 prefixes in CIDR notation, with hardware addresses of six octets",
        )
    })?;
    let networking = Networking {
        public_ip: pool.public_ip_allocation.map(|allocation| allocation.enabled),
        allowed_address_pairs: pairs,
        ..Networking::default()
    };
    Ok(AcceptedPool {
        name: pool.name,
        replicas: pool.replicas,
        flavor: body_id(&pool.flavor_id, "spec.workloadPools.pools.flavorId must be a UUID")?,
        image: accept_image(pool.image_id.as_deref(), pool.image_selector)?,
        networking: Some(networking).filter(|networking| *networking != Networking::default()),
        user_data: pool.user_data.map(accept_user_data).transpose()?,
        firewall: pool.firewall.as_deref().map(accept_firewall).transpose()?,
    })
}

fn accept_image(id: Option<&str>, selector: Option<WireImageSelector>) -> Result<AcceptedImage, ApiError> {
    match (id, selector) {
        (Some(id), None) => Ok(AcceptedImage::Named(body_id(id, "spec.workloadPools.pools.imageId must be a UUID")?)),
        (None, Some(WireImageSelector { distro, variant, version })) => {
            let is_word = |word: &str| (1..=SELECTOR_LEN_MAX).contains(&word.len());
            if !is_word(&distro) || !is_word(&version) || variant.as_deref().is_some_and(|variant| !is_word(variant)) {
                let rule = "spec.workloadPools.pools.imageSelector must have words of 1 to 63 bytes";
                return Err(ApiError::invalid(rule));
            }
            Ok(AcceptedImage::Selected(ImageSelector { distro, variant, version }))
        }
        (Some(_), Some(_)) | (None, None) => {
            Err(ApiError::invalid("spec.workloadPools.pools must have an imageId or an imageSelector, and not both"))
        }
    }
}

/// What it comes to in a security group is what is bounded: a rule for each prefix.
fn accept_firewall(rules: &[WireFirewallRule]) -> Result<Vec<FirewallRule>, ApiError> {
    if rules.len() > RULES_MAX || rules.iter().map(|rule| rule.prefixes.len()).sum::<usize>() > RULES_MAX {
        return Err(ApiError::invalid("spec.workloadPools.pools.firewall must have at most 1000 prefixes in all"));
    }
    rules.iter().map(accept_rule).collect()
}

fn accept_rule(wire: &WireFirewallRule) -> Result<FirewallRule, ApiError> {
    if wire.port == 0 || wire.port_max == Some(0) {
        return Err(ApiError::invalid("spec.workloadPools.pools.firewall must have ports of 1 to 65535"));
    }
    // Nobody, or everybody? Whoever means either can say so.
    if wire.prefixes.is_empty() {
        return Err(ApiError::invalid("spec.workloadPools.pools.firewall.prefixes must be at least one"));
    }
    let form = "spec.workloadPools.pools.firewall.prefixes must be IPv4 prefixes in CIDR notation";
    let prefixes = wire.prefixes.iter().map(|text| accept_prefix(text, form)).collect::<Result<Vec<_>, _>>()?;
    let rule = FirewallRule {
        direction: wire.direction,
        protocol: wire.protocol,
        port: wire.port,
        port_max: wire.port_max,
        prefixes,
    };
    let sound = rule.rules().try_for_each(|rule| rule.validate());
    sound.map_err(|error| ApiError::invalid(format!("spec.workloadPools.pools.firewall: {error}")))?;
    Ok(rule)
}

impl WirePool {
    fn of(pool: &Pool) -> Self {
        let (machine, first) = (&pool.machine, pool.first.clone().unwrap_or_default());
        let rule = |rule: FirewallRule| WireFirewallRule {
            direction: rule.direction,
            protocol: rule.protocol,
            port: rule.port,
            port_max: rule.port_max,
            prefixes: rule.prefixes.iter().map(|prefix| prefix.text().to_owned()).collect(),
        };
        let selector = |ImageSelector { distro, variant, version }| WireImageSelector { distro, variant, version };
        let networking = machine.networking.as_ref();
        Self {
            name: pool.name.clone(),
            replicas: pool.replicas,
            flavor_id: machine.flavor.to_string(),
            image_id: first.image_selector.is_none().then(|| machine.image.to_string()),
            image_selector: first.image_selector.map(selector),
            public_ip_allocation: networking
                .and_then(|networking| networking.public_ip)
                .map(|enabled| WirePublicIp { enabled }),
            firewall: first.firewall.map(|rules| rules.into_iter().map(rule).collect()),
            user_data: machine.user_data.clone().map(|data| data.0),
            allowed_address_pairs: networking
                .and_then(|networking| networking.allowed_address_pairs.as_deref())
                .map(shown_pairs),
            disk_size: None,
        }
    }
}

impl WireNetwork {
    fn of(network: &NodeNetwork) -> Self {
        Self {
            node_network: network.prefix.text().to_owned(),
            dns_nameservers: network.dns_nameservers.iter().map(ToString::to_string).collect(),
        }
    }
}

impl WireMachine {
    fn of(machine: &MachineDetail) -> Self {
        Self {
            id: machine.id.to_string(),
            hostname: machine.hostname.clone(),
            flavor_id: machine.flavor.to_string(),
            image_id: machine.image.to_string(),
            private_ip: machine.private_ip.map(|address| address.to_string()),
            public_ip: machine.public_ip.map(|address| address.to_string()),
            status: compute_power_state(machine.phase, machine.phase_seen),
        }
    }
}

impl Surface for ClusterRead {
    type Kind = Cluster;
    const ENDPOINT: Endpoint = Endpoint::ComputeClusters;
    const VERSION: ApiVersion = ApiVersion::V1;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let cluster = record.open::<Cluster>()?;
        let standing = |pool: &Pool| {
            let seen = cluster.detail.pools.iter().find(|seen| seen.name == pool.name).cloned();
            let PoolDetail { replicas, machines, .. } = seen.unwrap_or_default();
            WirePoolStatus {
                name: pool.name.clone(),
                replicas,
                machines: machines.iter().map(WireMachine::of).collect(),
            }
        };
        Ok(Self {
            metadata: ProjectScopedReadMetadata::of(record),
            spec: WireSpec {
                region_id: record.metadata.placement.region.map(|id| id.to_string()).unwrap_or_default(),
                network: cluster.spec.node_network.as_ref().map(WireNetwork::of),
                workload_pools: WirePools { pools: cluster.spec.pools.iter().map(WirePool::of).collect() },
            },
            status: WireStatus { workload_pools: cluster.spec.pools.iter().map(standing).collect() },
        })
    }

    /// Its own network, and what others have put into it.
    fn goes_along(record: &Record) -> Result<Option<Key>, CorruptRecord> {
        let owns = record.open::<Cluster>()?.spec.own_network;
        Ok(record.metadata.placement.network.filter(|_| owns).map(NetworkId::key))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::error::Failure;

    fn write(pool: &Value) -> Result<Accepted, ApiError> {
        let mut whole =
            json!({"name": "web", "replicas": 1, "flavorId": uuid::Uuid::nil(), "imageId": uuid::Uuid::nil()});
        for (name, value) in pool.as_object().expect("an object") {
            whole[name] = value.clone();
        }
        // What is said to be nothing is left out.
        whole.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        let spec = json!({"regionId": uuid::Uuid::nil(), "workloadPools": {"pools": [whole]}});
        let body = json!({"metadata": {"name": "pack"}, "spec": spec});
        serde_json::from_value::<ClusterWrite>(body).expect("reads").accept()
    }

    fn rule(changes: &Value) -> Value {
        let mut rule = json!({"direction": "ingress", "protocol": "tcp", "port": 22, "prefixes": ["10.0.0.0/8"]});
        for (name, value) in changes.as_object().expect("an object") {
            rule[name] = value.clone();
        }
        json!({"firewall": [rule]})
    }

    #[test]
    fn an_image_is_named_or_selected_and_not_both() {
        let selector = json!({"distro": "ubuntu", "version": "24.04"});
        assert!(write(&json!({})).is_ok());
        assert!(write(&json!({"imageId": null, "imageSelector": selector})).is_ok());
        for bad in [
            json!({"imageSelector": selector}),
            json!({"imageId": null}),
            json!({"imageId": "ubuntu"}),
            json!({"imageId": null, "imageSelector": {"distro": "", "version": "24.04"}}),
            json!({"imageId": null, "imageSelector": {"distro": "ubuntu", "version": "4".repeat(64)}}),
        ] {
            assert_eq!(write(&bad).expect_err("refused").failure, Failure::InvalidRequest, "{bad}");
        }
    }

    #[test]
    fn a_firewall_has_ports_and_prefixes_and_no_more_of_them_than_a_group_has_rules() {
        for good in [json!({}), json!({"portMax": 22}), json!({"portMax": 80}), json!({"protocol": "udp"})] {
            assert!(write(&rule(&good)).is_ok(), "{good}");
        }
        let (many, most) = (vec!["10.0.0.0/8"; RULES_MAX + 1], vec!["10.0.0.0/8"; RULES_MAX]);
        assert!(write(&rule(&json!({"prefixes": most}))).is_ok());
        for bad in [
            json!({"port": 0}),
            json!({"portMax": 21}),
            json!({"protocol": "icmp"}),
            json!({"protocol": "any"}),
            json!({"prefixes": []}),
            json!({"prefixes": ["10.0.0.0"]}),
            json!({"prefixes": ["2001:db8::/32"]}),
            json!({"prefixes": many}),
        ] {
            assert_eq!(write(&rule(&bad)).expect_err("refused").failure, Failure::InvalidRequest, "{bad}");
        }
    }

    #[test]
    fn a_disk_of_another_size_is_refused_and_not_forgotten() {
        for size in [json!(50), json!("50Gi"), json!({"size": 50})] {
            let error = write(&json!({"diskSize": size})).expect_err("refused");
            assert_eq!(error.failure, Failure::Unprocessable, "{size}");
        }
    }
}
