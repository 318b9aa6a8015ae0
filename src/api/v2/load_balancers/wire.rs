//! Load balancers on the wire, and the way in and out of the model.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::{ApiError, Failure};
use crate::api::resources::Surface;
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata, accept_prefix, body_id};
use crate::identity::acl::Endpoint;
use crate::model::ids::NetworkId;
use crate::model::load_balancer::{
    BalancedProtocol, HealthCheck, InvalidLoadBalancer, Listener, ListenerName, LoadBalancer, LoadBalancerSpec, Member,
    Pool,
};
use crate::model::record::{CorruptRecord, Record};

/// More than any service has doors. Each is changed by calls of its own, for which the cloud takes seconds; and all of
/// them together, with all that they may have, fit into one call.
pub const LISTENERS_MAX: usize = 32;

/// Far beyond what one balancer spreads its connections over. All of them are sent and compared at once.
pub const MEMBERS_MAX: usize = 256;

/// Each is a rule that the cloud looks at for every connection.
pub const ALLOWED_CIDRS_MAX: usize = 256;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = loadBalancerMemberV2)]
pub struct WireMember {
    #[schema(format = "ipv4")]
    pub address: String,
    #[schema(minimum = 1, maximum = 65535)]
    pub port: u16,
}

/// How members are checked. What is left out is 10 and 5 seconds and 2 times.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = loadBalancerHealthCheckV2)]
pub struct WireHealthCheck {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 300)]
    pub interval_seconds: Option<u16>,
    /// Less than the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 300)]
    pub timeout_seconds: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10)]
    pub healthy_threshold: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10)]
    pub unhealthy_threshold: Option<u16>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = loadBalancerPoolV2)]
pub struct WirePool {
    /// Only for tcp. Cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol_v2: Option<bool>,
    #[schema(max_items = 256)]
    pub members: Vec<WireMember>,
    /// Members are not checked when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<WireHealthCheck>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = loadBalancerListenerV2)]
pub struct WireListener {
    /// A DNS label that begins with a lower-case letter.
    #[schema(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length = 63)]
    pub name: String,
    /// Cannot be changed.
    pub protocol: BalancedProtocol,
    /// Cannot be changed.
    #[schema(minimum = 1, maximum = 65535)]
    pub port: u16,
    /// IPv4 prefixes that may connect; everybody when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 256)]
    pub allowed_cidrs: Option<Vec<String>>,
    /// Only for tcp; 60 when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86400)]
    pub idle_timeout_seconds: Option<u32>,
    pub pool: WirePool,
}

/// What may be changed of a load balancer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = loadBalancerV2Spec)]
pub struct WireSpec {
    /// Whether it is reached from outside. Counts against the quota of public addresses.
    #[serde(rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<bool>,
    #[schema(min_items = 1, max_items = 32)]
    pub listeners: Vec<WireListener>,
}

/// What is said once, when a load balancer is created.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = loadBalancerV2CreateSpec)]
pub struct WireCreateSpec {
    #[schema(format = "uuid")]
    pub network_id: String,
    /// An address of the network; any free one when it is left out.
    #[schema(format = "ipv4")]
    pub vip_address: Option<String>,
    #[serde(rename = "publicIP")]
    pub public_ip: Option<bool>,
    #[schema(min_items = 1, max_items = 32)]
    pub listeners: Vec<WireListener>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = loadBalancerV2Create)]
pub struct LoadBalancerCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = loadBalancerV2Update)]
pub struct LoadBalancerUpdate {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = loadBalancerV2Status)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub region_id: String,
    #[schema(format = "uuid")]
    pub network_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "ipv4")]
    pub vip_address: Option<String>,
    #[serde(rename = "publicIP", skip_serializing_if = "Option::is_none")]
    #[schema(format = "ipv4")]
    pub public_ip: Option<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = loadBalancerV2Read)]
pub struct LoadBalancerRead {
    pub metadata: ProjectScopedReadMetadata,
    /// With the defaults that apply.
    pub spec: WireSpec,
    pub status: WireStatus,
}

/// A creation or an update that follows the rules. An update has no virtual address: that stays what it was.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub metadata: AcceptedMetadata,
    pub spec: LoadBalancerSpec,
}

impl LoadBalancerCreate {
    pub fn accept(self) -> Result<(NetworkId, Accepted), ApiError> {
        let network = body_id(&self.spec.network_id, "spec.networkId must be a UUID")?;
        let vip = |text: String| accept_address(&text, "spec.vipAddress must be an IPv4 address");
        let vip_address = self.spec.vip_address.map(vip).transpose()?;
        let spec = WireSpec { public_ip: self.spec.public_ip, listeners: self.spec.listeners };
        let Accepted { metadata, spec } = LoadBalancerUpdate { metadata: self.metadata, spec }.accept()?;
        Ok((network, Accepted { metadata, spec: LoadBalancerSpec { vip_address, ..spec } }))
    }
}

impl LoadBalancerUpdate {
    /// Form before meaning: what cannot be read is 400, what reads but contradicts itself is 422.
    pub fn accept(self) -> Result<Accepted, ApiError> {
        let metadata = self.metadata.accept()?;
        if !(1..=LISTENERS_MAX).contains(&self.spec.listeners.len()) {
            return Err(ApiError::invalid("spec.listeners must be 1 to 32"));
        }
        let listeners = self.spec.listeners.into_iter().map(accept_listener).collect::<Result<_, _>>()?;
        let spec = LoadBalancerSpec { vip_address: None, public_ip: self.spec.public_ip, listeners };
        spec.validate().map_err(ApiError::from)?;
        Ok(Accepted { metadata, spec })
    }
}

impl From<InvalidLoadBalancer> for ApiError {
    fn from(error: InvalidLoadBalancer) -> Self {
        let failure = if error.is_form() { Failure::InvalidRequest } else { Failure::Unprocessable };
        Self::new(failure, format!("spec.listeners: {error}"))
    }
}

fn accept_address(text: &str, rule: &'static str) -> Result<Ipv4Addr, ApiError> {
    text.parse().map_err(|_| ApiError::invalid(rule))
}

fn accept_listener(wire: WireListener) -> Result<Listener, ApiError> {
    if wire.pool.members.len() > MEMBERS_MAX
        || wire.allowed_cidrs.as_ref().is_some_and(|it| it.len() > ALLOWED_CIDRS_MAX)
    {
        return Err(ApiError::invalid("spec.listeners must have at most 256 members and 256 allowedCidrs each"));
    }
    let name = ListenerName::try_from(wire.name).map_err(|_| {
        ApiError::invalid("spec.listeners.name must be a DNS label that begins with a lower-case letter")
    })?;
    let prefix =
        |text: &String| accept_prefix(text, "spec.listeners.allowedCidrs must be IPv4 prefixes in CIDR notation");
    let member = |wire: &WireMember| {
        let rule = "spec.listeners.pool.members.address must be an IPv4 address";
        Ok(Member { address: accept_address(&wire.address, rule)?, port: wire.port })
    };
    Ok(Listener {
        name,
        protocol: wire.protocol,
        port: wire.port,
        allowed_cidrs: wire.allowed_cidrs.map(|texts| texts.iter().map(prefix).collect()).transpose()?,
        idle_timeout_seconds: wire.idle_timeout_seconds,
        pool: Pool {
            proxy_protocol_v2: wire.pool.proxy_protocol_v2,
            members: wire.pool.members.iter().map(member).collect::<Result<_, ApiError>>()?,
            health_check: wire.pool.health_check.map(|check| HealthCheck {
                interval_seconds: check.interval_seconds,
                timeout_seconds: check.timeout_seconds,
                healthy_threshold: check.healthy_threshold,
                unhealthy_threshold: check.unhealthy_threshold,
            }),
        },
    })
}

impl WireListener {
    fn of(listener: &Listener) -> Self {
        let listener = listener.resolved();
        let member = |member: &Member| WireMember { address: member.address.to_string(), port: member.port };
        Self {
            name: listener.name.into(),
            protocol: listener.protocol,
            port: listener.port,
            allowed_cidrs: listener
                .allowed_cidrs
                .map(|prefixes| prefixes.iter().map(|prefix| prefix.text().to_owned()).collect()),
            idle_timeout_seconds: listener.idle_timeout_seconds,
            pool: WirePool {
                proxy_protocol_v2: listener.pool.proxy_protocol_v2,
                members: listener.pool.members.iter().map(member).collect(),
                health_check: listener.pool.health_check.map(|check| WireHealthCheck {
                    interval_seconds: check.interval_seconds,
                    timeout_seconds: check.timeout_seconds,
                    healthy_threshold: check.healthy_threshold,
                    unhealthy_threshold: check.unhealthy_threshold,
                }),
            },
        }
    }
}

impl Surface for LoadBalancerRead {
    type Kind = LoadBalancer;
    const ENDPOINT: Endpoint = Endpoint::LoadBalancersV2;
    const LATE_UPDATE: Failure = Failure::Unprocessable;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let balancer = record.open::<LoadBalancer>()?;
        let (spec, detail, placement) = (balancer.spec, balancer.detail, &record.metadata.placement);
        Ok(Self {
            metadata: ProjectScopedReadMetadata::of(record),
            spec: WireSpec {
                public_ip: spec.public_ip,
                listeners: spec.listeners.iter().map(WireListener::of).collect(),
            },
            status: WireStatus {
                region_id: placement.region.map(|id| id.to_string()).unwrap_or_default(),
                network_id: placement.network.map(|id| id.to_string()).unwrap_or_default(),
                vip_address: detail.vip_address.map(|address| address.to_string()),
                public_ip: detail.public_ip.map(|address| address.to_string()),
            },
        })
    }
}
