//! Servers: machines on a network.
//!
//! A server is checked in an order that clients know: what it lies in, whether the caller may, then what it says of
//! itself, then what it names, then what the region offers. An update checks only what it changes, so that a server
//! whose flavor or image is no longer offered can still be renamed, tagged and given other groups.

pub mod intent;
pub mod rules;
pub mod verbs;
pub mod wire;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::{child_placement, permitted, readable, scope_of};
use crate::api::catalogue::{FRESH, JUST_NOW};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Replacement, Surface, listed, shown};
use crate::api::{Api, Shared};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::{Incarnation, Kind, NetworkId, SecurityGroupId, ServerId, SshCertificateAuthorityId};
use crate::model::record::{Place, Resource};
use crate::model::server::{Server, ServerSpec};
use crate::model::ssh_certificate_authority::SshCertificateAuthority;
use crate::providers::types::{Flavor, Image};
use crate::store::Batch;
use wire::{AcceptedUpdate, ServerCreate, ServerRead, ServerUpdate};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_servers, create_server))
        .routes(routes!(get_server, update_server, delete_server))
        .merge(verbs::routes())
}

/// List servers.
#[utoipa::path(
    get, path = "/api/v2/servers", operation_id = "listServers", tag = "Servers",
    params(
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
        ("networkID" = Option<Vec<String>>, Query, description = "Only those of these networks"),
    ),
    responses((status = 200, body = Vec<ServerRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_servers(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    let filters = ["tag", "organizationID", "projectID", "regionID", "networkID"];
    listed::<ServerRead>(&api, caller, &query, &filters).await
}

/// Create server.
#[utoipa::path(
    post, path = "/api/v2/servers", operation_id = "createServer", tag = "Servers", request_body = ServerCreate,
    responses(
        (status = 201, body = ServerRead), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
        CommonErrors, BodyErrors, ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn create_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<ServerCreate>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::Server);
    let accepted = request.accept()?;
    let (spec, network) = (&accepted.spec, accepted.network);
    let owner = readable(&api, &caller, Endpoint::NetworksV2, network.key()).await?;
    let (place, placement) = child_placement(&owner, network)?;
    trail.scope(placement);
    permitted(&caller, ServerRead::ENDPOINT, Operation::Create, scope_of(&placement))?;
    rules::ssh_access(spec)?;
    // The key that is added is not known yet; that there will be one is.
    rules::user_data(spec.user_data.as_ref(), spec.ssh_certificate_authority.map(|_| ""))?;
    rules::security_groups(spec.networking.as_ref())?;
    if let Some(authority) = spec.ssh_certificate_authority {
        let key = trusted_key(&api, &caller, authority, place).await?;
        rules::user_data(spec.user_data.as_ref(), Some(&key))?;
    }
    usable_groups(&api, &caller, &spec.security_groups(), network).await?;
    offered(&api, place, spec).await?;
    let author = Author::of(&caller, (place.organization, place.project), api.ambient.now());
    let id = ServerId::named(network, &accepted.metadata.name);
    let batch = intent::creation(&accepted, &author, placement, (id, Incarnation(api.ambient.uuid())));
    let committed = api.store.commit(batch).await?;
    Asked { api: &api, caller: &caller, trail: &trail }.created::<ServerRead>(&committed, id.key())
}

/// The public key of an authority that servers of this project may trust.
async fn trusted_key(
    api: &Api,
    caller: &Caller,
    authority: SshCertificateAuthorityId,
    place: Place,
) -> Result<String, ApiError> {
    let record = readable(api, caller, Endpoint::SshCertificateAuthoritiesV2, authority.key()).await?;
    let placement = &record.metadata.placement;
    if (placement.organization, placement.project) != (Some(place.organization), Some(place.project)) {
        return Err(ApiError::unprocessable("spec.sshCertificateAuthorityId must be of the network's project"));
    }
    Ok(record.open::<SshCertificateAuthority>()?.spec.public_key)
}

/// Groups are part of a network, and hold for its servers alone.
async fn usable_groups(
    api: &Api,
    caller: &Caller,
    groups: &[SecurityGroupId],
    network: NetworkId,
) -> Result<(), ApiError> {
    for group in groups {
        let record = readable(api, caller, Endpoint::SecurityGroupsV2, group.key()).await?;
        if record.metadata.placement.network != Some(network) {
            return Err(ApiError::unprocessable("spec.networking.securityGroups must be of the server's network"));
        }
    }
    Ok(())
}

/// Does the region offer the image and the flavor, and do they go together?
async fn offered(api: &Api, place: Place, spec: &ServerSpec) -> Result<(), ApiError> {
    let image = bootable(api, place, spec).await?;
    let flavor = find_flavor(api, place, spec).await?;
    let flavor =
        flavor.ok_or_else(|| ApiError::unprocessable("spec.flavorId names a flavor that is no longer offered"))?;
    rules::fit(&flavor, &image)?;
    rules::pinning(&flavor, spec)
}

/// The image. What the last list lacks, or shows as not ready, may have come in the meantime.
async fn bootable(api: &Api, place: Place, spec: &ServerSpec) -> Result<Image, ApiError> {
    let known = api.catalogue.images(place.region, FRESH).await?;
    if let Ok(image) = rules::image(&known, spec.image, place.organization) {
        return Ok(image.clone());
    }
    let known = api.catalogue.images(place.region, JUST_NOW).await?;
    rules::image(&known, spec.image, place.organization).cloned()
}

/// The flavor, if the region offers it.
async fn find_flavor(api: &Api, place: Place, spec: &ServerSpec) -> Result<Option<Flavor>, ApiError> {
    for age_max in [FRESH, JUST_NOW] {
        let known = api.catalogue.flavors(place.region, age_max).await?;
        if let Some(flavor) = known.iter().find(|flavor| flavor.id == spec.flavor) {
            return Ok(Some(flavor.clone()));
        }
    }
    Ok(None)
}

/// Get server.
#[utoipa::path(
    get, path = "/api/v2/servers/{serverID}", operation_id = "getServer", tag = "Servers",
    params(("serverID" = uuid::Uuid, Path)),
    responses((status = 200, body = ServerRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Json<ServerRead>, ApiError> {
    let server: ServerId = path.id("serverID")?;
    shown(&api, &caller, server.key()).await
}

/// Update server. Another image replaces the root disk, and what was on it is lost.
#[utoipa::path(
    put, path = "/api/v2/servers/{serverID}", operation_id = "updateServer", tag = "Servers",
    params(("serverID" = uuid::Uuid, Path)), request_body = ServerUpdate,
    responses((status = 202, body = ServerRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn update_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<ServerUpdate>,
) -> Result<Response, ApiError> {
    let server: ServerId = path.id("serverID")?;
    trail.resource(server.key());
    let accepted = request.accept()?;
    Asked { api: &api, caller: &caller, trail: &trail }.updated(server.key(), &accepted).await
}

#[async_trait]
impl Replacement for AcceptedUpdate {
    type Surface = ServerRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<Server>) -> Result<Batch, ApiError> {
        let (api, caller) = (asked.api, asked.caller);
        if self.metadata.name != stored.metadata.name {
            return Err(ApiError::unprocessable("metadata.name of a server cannot be changed"));
        }
        if self.flavor != stored.spec.flavor {
            return Err(ApiError::unprocessable("spec.flavorId of a server cannot be changed"));
        }
        let place = stored.place()?;
        if self.networking != stored.spec.networking {
            rules::security_groups(self.networking.as_ref())?;
        }
        let spec = intent::updated_spec(&stored.spec, self);
        let before = stored.spec.security_groups();
        let added = spec.security_groups().into_iter().filter(|group| !before.contains(group)).collect::<Vec<_>>();
        usable_groups(api, caller, &added, stored.network()?).await?;
        if self.image != stored.spec.image {
            let image = bootable(api, place, &spec).await?;
            // A flavor that is no longer offered goes on serving those who have it.
            if let Some(flavor) = find_flavor(api, place, &spec).await? {
                rules::fit(&flavor, &image)?;
            }
        }
        if self.user_data != stored.spec.user_data {
            let key = match spec.ssh_certificate_authority {
                Some(authority) => api.store.get(authority.key()).await?,
                None => None,
            };
            let key = key.map(|record| record.open::<SshCertificateAuthority>()).transpose()?;
            let key = key.map(|authority| authority.spec.public_key);
            rules::user_data(self.user_data.as_ref(), key.as_deref())?;
        }
        Ok(intent::update(stored, self, &caller.subject, api.ambient.now()))
    }
}

/// Delete server.
#[utoipa::path(
    delete, path = "/api/v2/servers/{serverID}", operation_id = "deleteServer", tag = "Servers",
    params(("serverID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let server: ServerId = path.id("serverID")?;
    Asked { api: &api, caller: &caller, trail: &trail }.deleted::<ServerRead>(server.key()).await
}
