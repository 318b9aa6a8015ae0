//! Security groups, as the first version shows them: part of a principal, for the servers of all its networks.

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::paths::{creating, listed_in_organization, located, principal, shown};
use crate::api::Shared;
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::resources::{Asked, Replacement, Shown, Surface};
use crate::api::v2::security_groups::intent;
use crate::api::v2::security_groups::wire::{Accepted, RULES_MAX};
use crate::api::wire::{ProjectScopedReadMetadata, WriteMetadata, accept_prefix};
use crate::identity::acl::Endpoint;
use crate::model::ids::{Incarnation, Kind, SecurityGroupId};
use crate::model::metadata::{ApiVersion, Placement};
use crate::model::record::{CorruptRecord, Record, Resource};
use crate::model::security_group::{Direction, Protocol, Rule, SecurityGroup, SecurityGroupSpec};
use crate::store::Batch;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_security_groups)).routes(routes!(create_security_group)).routes(routes!(
        get_security_group,
        update_security_group,
        delete_security_group
    ))
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = securityGroupRulePortRange)]
pub struct WirePortRange {
    #[schema(minimum = 1, maximum = 65535)]
    pub start: u16,
    #[schema(minimum = 1, maximum = 65535)]
    pub end: u16,
}

/// One port, or a range of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = securityGroupRulePort)]
pub struct WirePort {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 65535)]
    pub number: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<WirePortRange>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = securityGroupRule)]
pub struct WireRule {
    pub direction: Direction,
    pub protocol: Protocol,
    /// For tcp and udp; all ports when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<WirePort>,
    /// An IPv4 prefix in CIDR notation; everybody when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = securityGroupSpec)]
pub struct WireSpec {
    #[schema(max_items = 1000)]
    pub rules: Vec<WireRule>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = securityGroupWrite)]
pub struct SecurityGroupWrite {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = securityGroupStatus)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub region_id: String,
    #[schema(format = "uuid")]
    pub identity_id: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = securityGroupRead)]
pub struct SecurityGroupRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

/// A replacement of a group of this version.
struct Replaced(Accepted);

impl SecurityGroupWrite {
    fn accept(self) -> Result<Accepted, ApiError> {
        let metadata = self.metadata.accept()?;
        if self.spec.rules.len() > RULES_MAX {
            return Err(ApiError::invalid("spec.rules must be at most 1000"));
        }
        let rules = self.spec.rules.iter().map(accept_rule).collect::<Result<_, _>>()?;
        Ok(Accepted { metadata, spec: SecurityGroupSpec { rules } })
    }
}

fn accept_rule(wire: &WireRule) -> Result<Rule, ApiError> {
    let (port, port_max) = match wire.port {
        None => (None, None),
        Some(WirePort { number: Some(number), range: None }) => (Some(number), None),
        Some(WirePort { number: None, range: Some(range) }) => (Some(range.start), Some(range.end)),
        Some(_) => return Err(ApiError::invalid("spec.rules.port must have a number or a range, and not both")),
    };
    if port == Some(0) || port_max == Some(0) {
        return Err(ApiError::invalid("spec.rules must have ports of 1 to 65535"));
    }
    let prefix = |text: &String| accept_prefix(text, "spec.rules.cidr must be an IPv4 prefix in CIDR notation");
    let rule = Rule {
        direction: wire.direction,
        protocol: wire.protocol,
        port,
        port_max,
        prefix: wire.cidr.as_ref().map(prefix).transpose()?,
    };
    rule.validate().map_err(|_| {
        ApiError::invalid("spec.rules.port must be of tcp or udp, and a range must start before it ends")
    })?;
    Ok(rule)
}

impl WireRule {
    fn of(rule: &Rule) -> Self {
        let port = rule.port.map(|start| match rule.port_max {
            Some(end) => WirePort { number: None, range: Some(WirePortRange { start, end }) },
            None => WirePort { number: Some(start), range: None },
        });
        let cidr = rule.prefix.as_ref().map(|prefix| prefix.text().to_owned());
        Self { direction: rule.direction, protocol: rule.protocol, port, cidr }
    }
}

impl Surface for SecurityGroupRead {
    type Kind = SecurityGroup;
    const ENDPOINT: Endpoint = Endpoint::SecurityGroupsV1;
    const VERSION: ApiVersion = ApiVersion::V1;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let placement = &record.metadata.placement;
        Ok(Self {
            metadata: ProjectScopedReadMetadata::of(record),
            spec: WireSpec { rules: record.open::<SecurityGroup>()?.spec.rules.iter().map(WireRule::of).collect() },
            status: WireStatus {
                region_id: placement.region.map(|id| id.to_string()).unwrap_or_default(),
                identity_id: placement.identity.map(|id| id.to_string()).unwrap_or_default(),
            },
        })
    }
}

/// List security groups.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/securitygroups", operation_id = "listSecurityGroupsV1",
    tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path),
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
    ),
    responses((status = 200, body = Vec<SecurityGroupRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_security_groups(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    query: QueryElements,
) -> Result<Response, ApiError> {
    listed_in_organization::<SecurityGroupRead>(&api, caller, &path, query, &["tag", "projectID", "regionID"]).await
}

/// Create security group.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/securitygroups",
    operation_id = "createSecurityGroupV1", tag = "Version 1", request_body = SecurityGroupWrite,
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
    ),
    responses((status = 201, body = SecurityGroupRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn create_security_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<SecurityGroupWrite>,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let accepted = request.accept()?;
    creating::<SecurityGroupRead>(asked, &path, Kind::SecurityGroup)?;
    let (identity, owner) = principal(&api, &path).await?;
    let place = owner.place()?;
    let placement = Placement { identity: Some(identity), ..owner.metadata.placement };
    trail.scope(placement);
    let author = Author::of_v1(&caller, (place.organization, place.project), api.ambient.now());
    let ids = (SecurityGroupId(api.ambient.uuid()), Incarnation(api.ambient.uuid()));
    let committed = api.store.commit(intent::creation(&accepted, &author, (identity.key(), placement), ids)).await?;
    asked.created::<SecurityGroupRead>(&committed, ids.0.key())
}

/// Get security group.
#[utoipa::path(
    get,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/securitygroups/{securityGroupID}",
    operation_id = "getSecurityGroupV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("securityGroupID" = uuid::Uuid, Path),
    ),
    responses((status = 200, body = SecurityGroupRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_security_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Shown<SecurityGroupRead>, ApiError> {
    let group: SecurityGroupId = path.id("securityGroupID")?;
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    shown(asked, &path, group.key()).await
}

/// Update security group.
#[utoipa::path(
    put,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/securitygroups/{securityGroupID}",
    operation_id = "updateSecurityGroupV1", tag = "Version 1", request_body = SecurityGroupWrite,
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("securityGroupID" = uuid::Uuid, Path),
    ),
    responses((status = 202, body = SecurityGroupRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn update_security_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<SecurityGroupWrite>,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let group: SecurityGroupId = path.id("securityGroupID")?;
    let accepted = request.accept()?;
    located::<SecurityGroupRead>(asked, &path, group.key()).await?;
    asked.updated(group.key(), &Replaced(accepted)).await
}

#[async_trait]
impl Replacement for Replaced {
    type Surface = SecurityGroupRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<SecurityGroup>) -> Result<Batch, ApiError> {
        Ok(intent::update(stored, &self.0, &asked.caller.subject, asked.api.ambient.now()))
    }
}

/// Delete security group.
#[utoipa::path(
    delete,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/securitygroups/{securityGroupID}",
    operation_id = "deleteSecurityGroupV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("securityGroupID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_security_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let group: SecurityGroupId = path.id("securityGroupID")?;
    located::<SecurityGroupRead>(asked, &path, group.key()).await?;
    asked.deleted::<SecurityGroupRead>(group.key()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(port: Option<WirePort>, cidr: Option<&str>) -> WireRule {
        let cidr = cidr.map(str::to_owned);
        WireRule { direction: Direction::Ingress, protocol: Protocol::Tcp, port, cidr }
    }

    #[test]
    fn a_rule_reads_back_as_it_was_written() {
        let range = |start, end| Some(WirePort { number: None, range: Some(WirePortRange { start, end }) });
        let number = |number| Some(WirePort { number: Some(number), range: None });
        for (port, cidr) in [(None, None), (number(22), Some("10.1.2.3/8")), (range(80, 90), Some("0.0.0.0/0"))] {
            let wire = rule(port, cidr);
            let again = WireRule::of(&accept_rule(&wire).expect("good"));
            assert_eq!(serde_json::to_value(&again).expect("json"), serde_json::to_value(&wire).expect("json"));
        }
        let both = WirePort { number: Some(1), range: Some(WirePortRange { start: 1, end: 2 }) };
        let neither = WirePort { number: None, range: None };
        let pings = |mut wire: WireRule| {
            wire.protocol = Protocol::Icmp;
            wire
        };
        let bad = [
            rule(Some(both), None),
            rule(Some(neither), None),
            rule(number(0), None),
            rule(range(9, 8), None),
            rule(None, Some("10.0.0.0")),
            pings(rule(number(1), None)),
        ];
        for wire in bad {
            assert!(accept_rule(&wire).is_err(), "{wire:?}");
        }
    }
}
