//! Security groups on the wire, and the way in and out of the model.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::resources::Surface;
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata, accept_prefix, body_id};
use crate::identity::acl::Endpoint;
use crate::model::ids::NetworkId;
use crate::model::record::{CorruptRecord, Record};
use crate::model::security_group::{Direction, Protocol, Rule, SecurityGroup, SecurityGroupSpec};

/// Ten times what clouds allow a tenant by default. Each rule is an object in the cloud, compared in every pass.
pub const RULES_MAX: usize = 1000;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = securityGroupRuleV2)]
pub struct WireRule {
    pub direction: Direction,
    pub protocol: Protocol,
    /// For tcp and udp; all ports when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 65535)]
    pub port: Option<u16>,
    /// The last port of a range that begins with `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 65535)]
    pub port_max: Option<u16>,
    /// An IPv4 prefix in CIDR notation; everybody when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// What may be changed of a security group.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = securityGroupV2Spec)]
pub struct WireSpec {
    #[schema(max_items = 1000)]
    pub rules: Vec<WireRule>,
}

/// What is said once, when a security group is created.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = securityGroupV2CreateSpec)]
pub struct WireCreateSpec {
    #[schema(format = "uuid")]
    pub network_id: String,
    #[schema(max_items = 1000)]
    pub rules: Vec<WireRule>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = securityGroupV2Create)]
pub struct SecurityGroupCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = securityGroupV2Update)]
pub struct SecurityGroupUpdate {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = securityGroupV2Status)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub region_id: String,
    #[schema(format = "uuid")]
    pub network_id: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = securityGroupV2Read)]
pub struct SecurityGroupRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

/// A creation or an update that follows the rules.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub metadata: AcceptedMetadata,
    pub spec: SecurityGroupSpec,
}

impl SecurityGroupCreate {
    pub fn accept(self) -> Result<(NetworkId, Accepted), ApiError> {
        let network = body_id(&self.spec.network_id, "spec.networkId must be a UUID")?;
        let update = SecurityGroupUpdate { metadata: self.metadata, spec: WireSpec { rules: self.spec.rules } };
        Ok((network, update.accept()?))
    }
}

impl SecurityGroupUpdate {
    /// The contract has one code for all that can be wrong with a rule.
    pub fn accept(self) -> Result<Accepted, ApiError> {
        let metadata = self.metadata.accept()?;
        if self.spec.rules.len() > RULES_MAX {
            return Err(ApiError::invalid("spec.rules must be at most 1000"));
        }
        let rules = self.spec.rules.into_iter().map(accept_rule).collect::<Result<_, _>>()?;
        Ok(Accepted { metadata, spec: SecurityGroupSpec { rules } })
    }
}

fn accept_rule(wire: WireRule) -> Result<Rule, ApiError> {
    if wire.port == Some(0) || wire.port_max == Some(0) {
        return Err(ApiError::invalid("spec.rules must have ports of 1 to 65535"));
    }
    let prefix = |text: String| accept_prefix(&text, "spec.rules.prefix must be an IPv4 prefix in CIDR notation");
    let rule = Rule {
        direction: wire.direction,
        protocol: wire.protocol,
        port: wire.port,
        port_max: wire.port_max,
        prefix: wire.prefix.map(prefix).transpose()?,
    };
    rule.validate().map_err(|error| ApiError::invalid(format!("spec.rules: {error}")))?;
    Ok(rule)
}

impl Surface for SecurityGroupRead {
    type Kind = SecurityGroup;
    const ENDPOINT: Endpoint = Endpoint::SecurityGroupsV2;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let rule = |rule: Rule| WireRule {
            direction: rule.direction,
            protocol: rule.protocol,
            port: rule.port,
            port_max: rule.port_max,
            prefix: rule.prefix.map(|prefix| prefix.text().to_owned()),
        };
        let placement = &record.metadata.placement;
        Ok(Self {
            metadata: ProjectScopedReadMetadata::of(record),
            spec: WireSpec { rules: record.open::<SecurityGroup>()?.spec.rules.into_iter().map(rule).collect() },
            status: WireStatus {
                region_id: placement.region.map(|id| id.to_string()).unwrap_or_default(),
                network_id: placement.network.map(|id| id.to_string()).unwrap_or_default(),
            },
        })
    }
}
