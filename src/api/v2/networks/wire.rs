//! Networks on the wire, and the way in and out of the model.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::resources::Surface;
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata, accept_prefix, body_id};
use crate::identity::acl::Endpoint;
use crate::model::ids::{OrganizationId, ProjectId, RegionId};
use crate::model::network::{InvalidNetwork, Network, NetworkSpec, Reservations, Route};
use crate::model::record::{CorruptRecord, Record};

/// More name servers than any resolver asks; clouds refuse lists of this length long before we do.
pub const NAMESERVERS_MAX: usize = 32;

/// Routes travel in every DHCP answer, which is small; this is well beyond what fits there.
pub const ROUTES_MAX: usize = 256;

/// The longest reservation that still holds two addresses.
pub const RESERVATION_LENGTH_MAX: u8 = 30;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = route)]
pub struct WireRoute {
    pub prefix: String,
    pub nexthop: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = networkReservations)]
pub struct WireReservations {
    #[schema(minimum = 0, maximum = 30)]
    pub prefix_length: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 30)]
    pub provider_reserved_prefix_length: Option<u8>,
}

/// What may be changed of a network.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = networkV2Spec)]
pub struct WireSpec {
    /// Empty: the platform's own, which lets hosts resolve each other.
    #[schema(max_items = 32)]
    pub dns_nameservers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 256)]
    pub routes: Option<Vec<WireRoute>>,
}

/// What is said once, when a network is created.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = networkV2CreateSpec)]
pub struct WireCreateSpec {
    #[schema(format = "uuid")]
    pub organization_id: String,
    #[schema(format = "uuid")]
    pub project_id: String,
    #[schema(format = "uuid")]
    pub region_id: String,
    /// An IPv4 prefix of at least a /24.
    pub prefix: String,
    pub reservations: Option<WireReservations>,
    #[schema(max_items = 32)]
    pub dns_nameservers: Vec<String>,
    #[schema(max_items = 256)]
    pub routes: Option<Vec<WireRoute>>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = networkV2Create)]
pub struct NetworkCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = networkV2Update)]
pub struct NetworkUpdate {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = networkV2Status)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub region_id: String,
    pub prefix: String,
    /// Those that apply, whether or not they were asked for.
    pub reservations: WireReservations,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = networkV2Read)]
pub struct NetworkRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

/// A creation that follows the rules.
#[derive(Clone, Debug)]
pub struct AcceptedCreate {
    pub metadata: AcceptedMetadata,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub region: RegionId,
    pub spec: NetworkSpec,
}

/// An update that follows the rules.
#[derive(Clone, Debug)]
pub struct AcceptedUpdate {
    pub metadata: AcceptedMetadata,
    pub dns_nameservers: Vec<Ipv4Addr>,
    pub routes: Option<Vec<Route>>,
}

impl NetworkCreate {
    /// Form before meaning: what cannot be read is 400, what reads but contradicts itself is 422.
    pub fn accept(self) -> Result<AcceptedCreate, ApiError> {
        let spec = self.spec;
        Ok(AcceptedCreate {
            metadata: self.metadata.accept()?,
            organization: body_id(&spec.organization_id, "spec.organizationId must be a UUID")?,
            project: body_id(&spec.project_id, "spec.projectId must be a UUID")?,
            region: body_id(&spec.region_id, "spec.regionId must be a UUID")?,
            spec: accept_spec(
                &spec.prefix,
                spec.reservations,
                WireSpec { dns_nameservers: spec.dns_nameservers, routes: spec.routes },
            )?,
        })
    }
}

/// What a network is to be, in whatever body it was said.
pub fn accept_spec(
    prefix: &str,
    reservations: Option<WireReservations>,
    rest: WireSpec,
) -> Result<NetworkSpec, ApiError> {
    let spec = NetworkSpec {
        prefix: accept_prefix(prefix, "spec.prefix must be an IPv4 prefix in CIDR notation")?,
        reservations: reservations.map(accept_reservations).transpose()?,
        dns_nameservers: accept_nameservers(&rest.dns_nameservers)?,
        routes: rest.routes.map(accept_routes).transpose()?,
    };
    match spec.validate() {
        Ok(()) => Ok(spec),
        Err(error @ InvalidNetwork::PrefixTooLong) => Err(ApiError::invalid(error.to_string())),
        Err(error @ (InvalidNetwork::ReservationTooWide | InvalidNetwork::ProviderReservationTooWide)) => {
            Err(ApiError::unprocessable(error.to_string()))
        }
    }
}

impl NetworkUpdate {
    pub fn accept(self) -> Result<AcceptedUpdate, ApiError> {
        Ok(AcceptedUpdate {
            metadata: self.metadata.accept()?,
            dns_nameservers: accept_nameservers(&self.spec.dns_nameservers)?,
            routes: self.spec.routes.map(accept_routes).transpose()?,
        })
    }
}

fn accept_reservations(wire: WireReservations) -> Result<Reservations, ApiError> {
    let long = |length: u8| length > RESERVATION_LENGTH_MAX;
    if long(wire.prefix_length) || wire.provider_reserved_prefix_length.is_some_and(long) {
        return Err(ApiError::invalid("spec.reservations must have lengths of 0 to 30"));
    }
    Ok(Reservations {
        prefix_length: wire.prefix_length,
        provider_reserved_prefix_length: wire.provider_reserved_prefix_length,
    })
}

fn accept_nameservers(texts: &[String]) -> Result<Vec<Ipv4Addr>, ApiError> {
    if texts.len() > NAMESERVERS_MAX {
        return Err(ApiError::invalid("spec.dnsNameservers must be at most 32"));
    }
    let rule = || ApiError::invalid("spec.dnsNameservers must be IPv4 addresses");
    texts.iter().map(|text| text.parse().map_err(|_| rule())).collect()
}

fn accept_routes(routes: Vec<WireRoute>) -> Result<Vec<Route>, ApiError> {
    if routes.len() > ROUTES_MAX {
        return Err(ApiError::invalid("spec.routes must be at most 256"));
    }
    let accept = |route: WireRoute| {
        Ok(Route {
            prefix: accept_prefix(&route.prefix, "spec.routes.prefix must be an IPv4 prefix in CIDR notation")?,
            next_hop: route
                .nexthop
                .parse()
                .map_err(|_| ApiError::invalid("spec.routes.nexthop must be an IPv4 address"))?,
        })
    };
    routes.into_iter().map(accept).collect()
}

impl Surface for NetworkRead {
    type Kind = Network;
    const ENDPOINT: Endpoint = Endpoint::NetworksV2;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let spec = record.open::<Network>()?.spec;
        Ok(Self {
            metadata: ProjectScopedReadMetadata::of(record),
            status: WireStatus {
                region_id: record.metadata.placement.region.map(|id| id.to_string()).unwrap_or_default(),
                prefix: spec.prefix.text().to_owned(),
                reservations: spec.effective_reservations().into(),
            },
            spec: WireSpec::of(&spec),
        })
    }
}

impl WireSpec {
    #[must_use]
    pub fn of(spec: &NetworkSpec) -> Self {
        let route =
            |route: &Route| WireRoute { prefix: route.prefix.text().to_owned(), nexthop: route.next_hop.to_string() };
        Self {
            dns_nameservers: spec.dns_nameservers.iter().map(ToString::to_string).collect(),
            routes: spec.routes.as_ref().map(|routes| routes.iter().map(route).collect()),
        }
    }
}

impl From<Reservations> for WireReservations {
    fn from(reservations: Reservations) -> Self {
        Self {
            prefix_length: reservations.prefix_length,
            provider_reserved_prefix_length: reservations.provider_reserved_prefix_length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::error::Failure;
    use serde_json::{Value, json};

    fn request(change: impl FnOnce(&mut Value)) -> Result<AcceptedCreate, ApiError> {
        let id = "11111111-1111-4111-8111-111111111111";
        let mut body = json!({
            "metadata": {"name": "net"},
            "spec": {"organizationId": id, "projectId": id, "regionId": id, "prefix": "10.0.0.0/22", "dnsNameservers": []},
        });
        change(&mut body);
        serde_json::from_value::<NetworkCreate>(body).expect("the shape is right").accept()
    }

    fn failure(change: impl FnOnce(&mut Value)) -> Failure {
        request(change).expect_err("a fault").failure
    }

    #[test]
    fn a_plain_request_is_accepted() {
        let accepted = request(|_| ()).expect("good");
        assert_eq!(accepted.spec.prefix.text(), "10.0.0.0/22");
        assert_eq!(accepted.spec.routes, None);
    }

    #[test]
    fn what_cannot_be_read_is_invalid() {
        let faults: [(&str, Value); 7] = [
            ("/spec/prefix", json!("10.0.0.0")),
            ("/spec/prefix", json!("10.0.0.0/25")),
            ("/spec/prefix", json!("fd00::/16")),
            ("/spec/organizationId", json!("x")),
            ("/spec/dnsNameservers", json!(["::1"])),
            ("/spec/dnsNameservers", json!(vec!["1.1.1.1"; NAMESERVERS_MAX + 1])),
            ("/metadata/name", json!("a/b")),
        ];
        for (place, value) in faults {
            let put = |body: &mut Value| *body.pointer_mut(place).expect("a place") = value.clone();
            assert_eq!(failure(put), Failure::InvalidRequest, "{place} {value}");
        }
        for routes in [
            json!([{"prefix": "x", "nexthop": "10.0.0.1"}]),
            json!([{"prefix": "10.0.0.0/8", "nexthop": "x"}]),
            json!(vec![json!({"prefix": "10.0.0.0/8", "nexthop": "10.0.0.1"}); ROUTES_MAX + 1]),
        ] {
            assert_eq!(failure(|body| body["spec"]["routes"] = routes.clone()), Failure::InvalidRequest, "{routes}");
        }
        let long = json!({"prefixLength": 31});
        assert_eq!(failure(|body| body["spec"]["reservations"] = long), Failure::InvalidRequest);
    }

    #[test]
    fn what_contradicts_itself_is_unprocessable() {
        for reservations in
            [json!({"prefixLength": 22}), json!({"prefixLength": 26, "providerReservedPrefixLength": 25})]
        {
            let put = |body: &mut Value| body["spec"]["reservations"] = reservations.clone();
            assert_eq!(failure(put), Failure::Unprocessable, "{reservations}");
        }
    }
}
