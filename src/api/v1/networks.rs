//! Networks, as the first version shows them: any number of them in a principal.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::paths::{creating, listed_in_organization, located, principal, shown};
use crate::api::Shared;
use crate::api::access::existing_payer;
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Shown, Surface};
use crate::api::v2::networks::intent::network_creation;
use crate::api::v2::networks::wire::{self, AcceptedCreate, WireReservations, WireRoute, accept_spec};
use crate::api::wire::{ProjectScopedReadMetadata, WriteMetadata};
use crate::identity::acl::Endpoint;
use crate::model::ids::{Incarnation, Kind, NetworkId};
use crate::model::metadata::ApiVersion;
use crate::model::network::Network;
use crate::model::record::{CorruptRecord, Record};
use crate::store::Precondition;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_networks))
        .routes(routes!(create_network))
        .routes(routes!(get_network, delete_network))
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = networkSpec)]
pub struct WireSpec {
    /// An IPv4 prefix of at least a /24.
    pub prefix: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservations: Option<WireReservations>,
    /// Empty: the platform's own, which lets hosts resolve each other.
    #[schema(max_items = 32)]
    pub dns_nameservers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 256)]
    pub routes: Option<Vec<WireRoute>>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = networkCreate)]
pub struct NetworkCreate {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = networkStatus)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub region_id: String,
    #[schema(format = "uuid")]
    pub identity_id: String,
    /// Those that apply, whether or not they were asked for.
    pub reservations: WireReservations,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = networkRead)]
pub struct NetworkRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

impl Surface for NetworkRead {
    type Kind = Network;
    const ENDPOINT: Endpoint = Endpoint::NetworksV1;
    const VERSION: ApiVersion = ApiVersion::V1;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let spec = record.open::<Network>()?.spec;
        let placement = &record.metadata.placement;
        let wire::WireSpec { dns_nameservers, routes } = wire::WireSpec::of(&spec);
        Ok(Self {
            metadata: ProjectScopedReadMetadata::of(record),
            status: WireStatus {
                region_id: placement.region.map(|id| id.to_string()).unwrap_or_default(),
                identity_id: placement.identity.map(|id| id.to_string()).unwrap_or_default(),
                reservations: spec.effective_reservations().into(),
            },
            spec: WireSpec {
                prefix: spec.prefix.text().to_owned(),
                reservations: spec.reservations.map(WireReservations::from),
                dns_nameservers,
                routes,
            },
        })
    }
}

/// List networks.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/networks", operation_id = "listNetworksV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path),
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
    ),
    responses((status = 200, body = Vec<NetworkRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_networks(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    query: QueryElements,
) -> Result<Response, ApiError> {
    listed_in_organization::<NetworkRead>(&api, caller, &path, query, &["tag", "projectID", "regionID"]).await
}

/// Create network.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/networks",
    operation_id = "createNetworkV1", tag = "Version 1", request_body = NetworkCreate,
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
    ),
    responses(
        (status = 201, body = NetworkRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors,
        ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn create_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<NetworkCreate>,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let WireSpec { prefix, reservations, dns_nameservers, routes } = request.spec;
    let metadata = request.metadata.accept()?;
    let spec = accept_spec(&prefix, reservations, wire::WireSpec { dns_nameservers, routes })?;
    creating::<NetworkRead>(asked, &path, Kind::Network)?;
    let (identity, owner) = principal(&api, &path).await?;
    let place = owner.place()?;
    trail.scope(owner.metadata.placement);
    let (organization, project, region) = (place.organization, place.project, place.region);
    let author = Author::of_v1(&caller, (organization, project), api.ambient.now());
    existing_payer(&api, &author.principal).await?;
    let accepted = AcceptedCreate { metadata, organization, project, region, spec };
    let ids = (NetworkId(api.ambient.uuid()), Incarnation(api.ambient.uuid()));
    let batch = [project.key(), region.key(), identity.key()]
        .into_iter()
        .fold(network_creation(&accepted, &author, identity, ids), |batch, needed| {
            batch.provided(Precondition::Live(needed))
        });
    let committed = api.store.commit(batch).await?;
    asked.created::<NetworkRead>(&committed, ids.0.key())
}

/// Get network.
#[utoipa::path(
    get,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/networks/{networkID}",
    operation_id = "getNetworkV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("networkID" = uuid::Uuid, Path),
    ),
    responses((status = 200, body = NetworkRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Shown<NetworkRead>, ApiError> {
    let network: NetworkId = path.id("networkID")?;
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    shown(asked, &path, network.key()).await
}

/// Delete network.
#[utoipa::path(
    delete,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/networks/{networkID}",
    operation_id = "deleteNetworkV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("networkID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let network: NetworkId = path.id("networkID")?;
    located::<NetworkRead>(asked, &path, network.key()).await?;
    asked.deleted::<NetworkRead>(network.key()).await
}
