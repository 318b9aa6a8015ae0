//! Clusters on the wire, and the way in and out of the model.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::compute::instances::wire::{AcceptedMachine, WireSpec as WireMachine};
use crate::api::error::ApiError;
use crate::api::resources::Surface;
use crate::api::v2::servers::wire::WireNetworking;
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata, body_id};
use crate::identity::acl::Endpoint;
use crate::model::cluster::{Cluster, Pool, PoolDetail, SUFFIX_LEN};
use crate::model::ids::{InstanceId, NetworkId, OrganizationId, ProjectId};
use crate::model::instance::MachineSpec;
use crate::model::metadata::{NAME_LEN_MAX, is_name};
use crate::model::record::{CorruptRecord, Record};

/// Kinds of machines, of which there are few in any cluster.
pub const POOLS_MAX: usize = 16;

/// How many instances a cluster may have in all: its actor looks at each of them whenever one of them changes.
pub const REPLICAS_MAX: u32 = 256;

/// As many as there may be instances.
pub const EVICTIONS_MAX: usize = 256;

/// Instances that are alike.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = clusterV2Pool)]
pub struct WirePool {
    /// Instances are called after it.
    #[schema(pattern = "^[0-9A-Za-z](?:[0-9A-Za-z-_.]{0,54}[0-9A-Za-z])?$", max_length = 56)]
    pub name: String,
    #[schema(maximum = 256)]
    pub replicas: u32,
    #[schema(format = "uuid")]
    pub flavor_id: String,
    #[schema(format = "uuid")]
    pub image_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<WireNetworking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub ssh_certificate_authority_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "byte", max_length = 65535)]
    pub user_data: Option<String>,
}

/// What may be said again of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = clusterV2Spec)]
pub struct WireSpec {
    #[schema(max_items = 16)]
    pub pools: Vec<WirePool>,
    /// How many of each pool may be away at a time while it is changed; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 256)]
    pub max_unavailable: Option<u32>,
}

/// The same, and who is to go when there are to be fewer.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = clusterV2UpdateSpec)]
pub struct WireUpdateSpec {
    #[serde(flatten)]
    pub spec: WireSpec,
    /// Instances that are to go, whoever else does.
    #[schema(max_items = 256)]
    pub evict: Option<Vec<String>>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = clusterV2CreateSpec)]
pub struct WireCreateSpec {
    #[schema(format = "uuid")]
    pub organization_id: String,
    #[schema(format = "uuid")]
    pub project_id: String,
    #[schema(format = "uuid")]
    pub network_id: String,
    #[serde(flatten)]
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = clusterV2Create)]
pub struct ClusterCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = clusterV2Update)]
pub struct ClusterUpdate {
    pub metadata: WriteMetadata,
    pub spec: WireUpdateSpec,
}

/// Who is to go. Their pools become smaller by as many.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = evictionWrite)]
pub struct Eviction {
    #[serde(rename = "machineIDs")]
    #[schema(min_items = 1, max_items = 256)]
    pub machine_ids: Vec<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = clusterV2PoolStatus)]
pub struct WirePoolStatus {
    pub name: String,
    /// How many there are.
    pub replicas: u32,
    /// How many of them are as asked for.
    pub ready_replicas: u32,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = clusterV2Status)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub region_id: String,
    #[schema(format = "uuid")]
    pub network_id: String,
    pub pools: Vec<WirePoolStatus>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = clusterV2Read)]
pub struct ClusterRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

/// A pool whose form is right, and of which nothing else is known.
#[derive(Clone, Debug)]
pub struct AcceptedPool {
    pub name: String,
    pub replicas: u32,
    pub machine: MachineSpec,
}

/// What follows the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedSpec {
    pub pools: Vec<AcceptedPool>,
    pub unavailable_max: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct AcceptedCreate {
    pub metadata: AcceptedMetadata,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub network: NetworkId,
    pub spec: AcceptedSpec,
}

#[derive(Clone, Debug)]
pub struct AcceptedUpdate {
    pub metadata: AcceptedMetadata,
    pub spec: AcceptedSpec,
    pub evictions: Vec<InstanceId>,
}

/// Ids of instances that are to go.
pub fn accept_evictions(texts: &[String]) -> Result<Vec<InstanceId>, ApiError> {
    if texts.len() > EVICTIONS_MAX {
        return Err(ApiError::invalid("at most 256 instances can be evicted at once"));
    }
    texts.iter().map(|text| body_id(text, "instances to evict must be named by UUIDs")).collect()
}

impl Eviction {
    pub fn accept(self) -> Result<Vec<InstanceId>, ApiError> {
        if self.machine_ids.is_empty() {
            return Err(ApiError::invalid("machineIDs must name at least one instance"));
        }
        accept_evictions(&self.machine_ids)
    }
}

/// The form of pools, by their names and how many they are to have: there are few enough, small enough, and instances can
/// be called after them.
pub fn bounded(field: &str, pools: &[(&str, u32)]) -> Result<(), ApiError> {
    if pools.len() > POOLS_MAX {
        return Err(ApiError::invalid(format!("{field} must be at most {POOLS_MAX}")));
    }
    if pools.iter().any(|(_, replicas)| *replicas > REPLICAS_MAX) {
        return Err(ApiError::invalid(format!("{field}.replicas must be at most {REPLICAS_MAX}")));
    }
    if pools.iter().any(|(name, _)| !is_name(name) || name.len() > NAME_LEN_MAX - SUFFIX_LEN) {
        return Err(ApiError::invalid(format!(
            "{field}.name must be 1 to 56 letters, digits, '-', '_' or '.', and begin and end with a letter or digit"
        )));
    }
    Ok(())
}

/// What pools of good form must still not be: called the same, or too many together.
pub fn distinct(field: &str, pools: &[(&str, u32)]) -> Result<(), ApiError> {
    let is_repeated = |number: usize| pools[..number].iter().any(|(name, _)| *name == pools[number].0);
    if (0..pools.len()).any(is_repeated) {
        return Err(ApiError::unprocessable(format!("{field} must have different names")));
    }
    if pools.iter().map(|(_, replicas)| replicas).sum::<u32>() > REPLICAS_MAX {
        return Err(ApiError::unprocessable(format!("{field} must have at most {REPLICAS_MAX} replicas in all")));
    }
    Ok(())
}

fn accept_pool(pool: WirePool) -> Result<AcceptedPool, ApiError> {
    let machine = WireMachine {
        flavor_id: pool.flavor_id,
        image_id: pool.image_id,
        networking: pool.networking,
        ssh_certificate_authority_id: pool.ssh_certificate_authority_id,
        user_data: pool.user_data,
        policy: None,
    };
    let AcceptedMachine { machine, .. } = machine.accept()?;
    Ok(AcceptedPool { name: pool.name, replicas: pool.replicas, machine })
}

impl WireSpec {
    pub fn accept(self) -> Result<AcceptedSpec, ApiError> {
        bounded("spec.pools", &self.pools.iter().map(|pool| (pool.name.as_str(), pool.replicas)).collect::<Vec<_>>())?;
        if self.max_unavailable.is_some_and(|bound| !(1..=REPLICAS_MAX).contains(&bound)) {
            return Err(ApiError::invalid("spec.maxUnavailable must be 1 to 256"));
        }
        let pools = self.pools.into_iter().map(accept_pool).collect::<Result<Vec<_>, _>>()?;
        distinct("spec.pools", &pools.iter().map(|pool| (pool.name.as_str(), pool.replicas)).collect::<Vec<_>>())?;
        Ok(AcceptedSpec { pools, unavailable_max: self.max_unavailable })
    }
}

impl ClusterCreate {
    pub fn accept(self) -> Result<AcceptedCreate, ApiError> {
        let spec = self.spec;
        Ok(AcceptedCreate {
            metadata: self.metadata.accept()?,
            organization: body_id(&spec.organization_id, "spec.organizationId must be a UUID")?,
            project: body_id(&spec.project_id, "spec.projectId must be a UUID")?,
            network: body_id(&spec.network_id, "spec.networkId must be a UUID")?,
            spec: spec.spec.accept()?,
        })
    }
}

impl ClusterUpdate {
    pub fn accept(self) -> Result<AcceptedUpdate, ApiError> {
        let evictions = accept_evictions(self.spec.evict.as_deref().unwrap_or_default())?;
        Ok(AcceptedUpdate { metadata: self.metadata.accept()?, spec: self.spec.spec.accept()?, evictions })
    }
}

impl WirePool {
    fn of(pool: &Pool) -> Self {
        let machine = WireMachine::of(&pool.machine, None);
        Self {
            name: pool.name.clone(),
            replicas: pool.replicas,
            flavor_id: machine.flavor_id,
            image_id: machine.image_id,
            networking: machine.networking,
            ssh_certificate_authority_id: machine.ssh_certificate_authority_id,
            user_data: machine.user_data,
        }
    }
}

impl Surface for ClusterRead {
    type Kind = Cluster;
    const ENDPOINT: Endpoint = Endpoint::ComputeClusters;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let cluster = record.open::<Cluster>()?;
        let placement = &record.metadata.placement;
        let standing = |pool: &Pool| {
            let seen = cluster.detail.pools.iter().find(|seen| seen.name == pool.name).cloned();
            let PoolDetail { replicas, ready, .. } = seen.unwrap_or_default();
            WirePoolStatus { name: pool.name.clone(), replicas, ready_replicas: ready }
        };
        Ok(Self {
            metadata: ProjectScopedReadMetadata::of(record),
            spec: WireSpec {
                pools: cluster.spec.pools.iter().map(WirePool::of).collect(),
                max_unavailable: cluster.spec.unavailable_max,
            },
            status: WireStatus {
                region_id: placement.region.map(|id| id.to_string()).unwrap_or_default(),
                network_id: placement.network.map(|id| id.to_string()).unwrap_or_default(),
                pools: cluster.spec.pools.iter().map(standing).collect(),
            },
        })
    }
}
