//! Servers: machines on a network.
//!
//! A server is checked in an order that clients know: what it lies in, whether the caller may, then what it says of
//! itself, then what it names, then what the region offers. An update checks only what it changes, so that a server
//! whose flavor or image is no longer offered can still be renamed, tagged and given other groups.

pub mod intent;
pub mod rules;
pub mod snapshot;
pub mod verbs;
pub mod wire;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::{child_placement, permitted, readable, readable_in, scope_of};
use crate::api::catalogue::{FRESH, JUST_NOW};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Replacement, Shown, Surface, listed, shown};
use crate::api::v2::images::own_image;
use crate::api::v2::images::wire::as_offered;
use crate::api::{Api, Shared};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::{
    FlavorId, IdentityId, ImageId, Incarnation, Kind, NetworkId, SecurityGroupId, ServerId, SshCertificateAuthorityId,
};
use crate::model::metadata::ApiVersion;
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
        .merge(snapshot::routes())
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
    let mut accepted = request.accept()?;
    let (spec, network) = (&accepted.spec, accepted.network);
    let owner = readable(&api, &caller, Endpoint::NetworksV2, network.key()).await?;
    let (place, placement) = child_placement(&owner, network)?;
    trail.scope(placement);
    permitted(&caller, ServerRead::ENDPOINT, Operation::Create, scope_of(&placement))?;
    accepted.spec.own_images = admissible(&api, &caller, place, spec, GroupHome::Network(network)).await?;
    let author = Author::of(&caller, (place.organization, place.project), api.ambient.now());
    let id = ServerId::named(network, &accepted.metadata.name);
    let batch = intent::creation(&accepted, &author, placement, (id, Incarnation(api.ambient.uuid())));
    let committed = api.store.commit(batch).await?;
    Asked { api: &api, caller: &caller, trail: &trail }.created::<ServerRead>(&committed, id.key())
}

/// Everything that must hold of a new server beyond its form. Tells which of its images are the organization's own.
pub async fn admissible(
    api: &Api,
    caller: &Caller,
    place: Place,
    spec: &ServerSpec,
    home: GroupHome,
) -> Result<Vec<ImageId>, ApiError> {
    rules::ssh_access(spec)?;
    // The key that is added is not known yet; that there will be one is.
    rules::user_data(spec.user_data.as_ref(), spec.ssh_certificate_authority.map(|_| ""))?;
    rules::security_groups(spec.networking.as_ref(), home.field())?;
    if let Some(authority) = spec.ssh_certificate_authority {
        let key = trusted_key(api, caller, authority, place).await?;
        rules::user_data(spec.user_data.as_ref(), Some(&key))?;
    }
    usable_groups(api, caller, &spec.security_groups(), home).await?;
    let is_own_image = offered(api, place, spec).await?;
    Ok(is_own_image.then_some(spec.image).into_iter().collect())
}

/// The public key of an authority that servers of this project may trust.
pub async fn trusted_key(
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

/// What groups are part of: they hold for the servers there, and for no others.
#[derive(Clone, Copy)]
pub enum GroupHome {
    Network(NetworkId),
    /// As the first version has it.
    Identity(IdentityId),
}

impl GroupHome {
    /// Where requests name the groups.
    const fn field(self) -> &'static str {
        match self {
            Self::Network(_) => "spec.networking.securityGroups",
            Self::Identity(_) => "spec.securityGroups",
        }
    }
}

pub async fn usable_groups(
    api: &Api,
    caller: &Caller,
    groups: &[SecurityGroupId],
    home: GroupHome,
) -> Result<(), ApiError> {
    let (endpoint, noun) = match home {
        GroupHome::Network(_) => ((Endpoint::SecurityGroupsV2, ApiVersion::V2), "network"),
        GroupHome::Identity(_) => ((Endpoint::SecurityGroupsV1, ApiVersion::V1), "identity"),
    };
    for group in groups {
        let placement = readable_in(api, caller, endpoint, group.key()).await?.metadata.placement;
        let is_there = match home {
            GroupHome::Network(network) => placement.network == Some(network),
            GroupHome::Identity(identity) => placement.identity == Some(identity),
        };
        if !is_there {
            return Err(ApiError::unprocessable(format!("{} must be of the server's {noun}", home.field())));
        }
    }
    Ok(())
}

/// Does the region offer the image and the flavor, and do they go together? Tells whether the image is the
/// organization's own.
async fn offered(api: &Api, place: Place, spec: &ServerSpec) -> Result<bool, ApiError> {
    let (image, is_own) = bootable(api, place, spec.image).await?;
    let flavor = find_flavor(api, place, spec.flavor).await?;
    let flavor =
        flavor.ok_or_else(|| ApiError::unprocessable("spec.flavorId names a flavor that is no longer offered"))?;
    rules::fit(&flavor, &image)?;
    rules::pinning(&flavor, spec)?;
    Ok(is_own)
}

/// The image, and whether it is the organization's own. What the last list lacks, or shows as not ready, may have come in
/// the meantime.
pub async fn bootable(api: &Api, place: Place, id: ImageId) -> Result<(Image, bool), ApiError> {
    if let Some(own) = own_image(api, place, id).await? {
        return Ok((rules::image(&[as_offered(&own)], id, place.organization)?.clone(), true));
    }
    let known = api.catalogue.images(place.region, FRESH).await?;
    if let Ok(image) = rules::image(&known, id, place.organization) {
        return Ok((image.clone(), false));
    }
    let known = api.catalogue.images(place.region, JUST_NOW).await?;
    Ok((rules::image(&known, id, place.organization)?.clone(), false))
}

/// The flavor, if the region offers it.
pub async fn find_flavor(api: &Api, place: Place, id: FlavorId) -> Result<Option<Flavor>, ApiError> {
    for age_max in [FRESH, JUST_NOW] {
        let known = api.catalogue.flavors(place.region, age_max).await?;
        if let Some(flavor) = known.iter().find(|flavor| flavor.id == id) {
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
) -> Result<Shown<ServerRead>, ApiError> {
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
        replacement(asked, stored, self, GroupHome::Network(stored.network()?)).await
    }
}

/// What a full replacement means, checked as far as it changes something.
pub async fn replacement(
    asked: Asked<'_>,
    stored: &Resource<Server>,
    accepted: &AcceptedUpdate,
    home: GroupHome,
) -> Result<Batch, ApiError> {
    let (api, caller) = (asked.api, asked.caller);
    if stored.spec.governed.is_some() {
        // Its instance would set it right again, and what a change of the image destroys would be destroyed twice.
        return Err(ApiError::unprocessable("the server works for an instance: change that"));
    }
    if accepted.metadata.name != stored.metadata.name {
        return Err(ApiError::unprocessable("metadata.name of a server cannot be changed"));
    }
    if accepted.flavor != stored.spec.flavor {
        return Err(ApiError::unprocessable("spec.flavorId of a server cannot be changed"));
    }
    let place = stored.place()?;
    if accepted.networking != stored.spec.networking {
        rules::security_groups(accepted.networking.as_ref(), home.field())?;
    }
    let is_other = accepted.image != stored.spec.image;
    let image = if is_other { Some(bootable(api, place, accepted.image).await?) } else { None };
    let spec = intent::updated_spec(stored, accepted, image.as_ref().is_some_and(|(_, is_own)| *is_own));
    let before = stored.spec.security_groups();
    let added = spec.security_groups().into_iter().filter(|group| !before.contains(group)).collect::<Vec<_>>();
    usable_groups(api, caller, &added, home).await?;
    if let Some((image, _)) = image {
        // A flavor that is no longer offered goes on serving those who have it.
        if let Some(flavor) = find_flavor(api, place, spec.flavor).await? {
            rules::fit(&flavor, &image)?;
        }
    }
    if accepted.user_data != stored.spec.user_data {
        let key = match spec.ssh_certificate_authority {
            Some(authority) => api.store.get(authority.key()).await?,
            None => None,
        };
        let key = key.map(|record| record.open::<SshCertificateAuthority>()).transpose()?;
        let key = key.map(|authority| authority.spec.public_key);
        rules::user_data(accepted.user_data.as_ref(), key.as_deref())?;
    }
    Ok(intent::update(stored, (accepted, &spec), &caller.subject, api.ambient.now()))
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
