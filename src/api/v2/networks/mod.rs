//! Networks: one IPv4 prefix each, in a project and a region.

pub mod intent;
pub mod wire;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::put;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::{
    endpoint_of, existing_project, permitted, read_modify_write, readable, scope_of, visible_region,
};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody, deleting_text};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::wire::{has_tags, tag_filter};
use crate::api::{Api, Shared, list, reference};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::edge::Holder;
use crate::model::ids::{Kind, NetworkId, OrganizationId};
use crate::model::metadata::Placement;
use crate::model::network::Network;
use crate::model::record::Record;
use crate::store::{Committed, Filter, Refusal, StoreError};
use intent::NewIds;
use wire::{NetworkCreate, NetworkRead, NetworkUpdate};

const ENDPOINT: Endpoint = Endpoint::NetworksV2;

/// How many users of a network a refusal names: enough to know where to look, not a list to page through.
const HOLDERS_NAMED_MAX: usize = 3;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_networks, create_network))
        .routes(routes!(get_network, update_network, delete_network))
        .routes(routes!(add_reference, remove_reference))
        // The same, for clients that do not escape the slash inside a reference.
        .route("/api/v2/networks/{networkID}/references/{reference}/{id}", put(add_reference).delete(remove_reference))
}

/// List networks.
#[utoipa::path(
    get, path = "/api/v2/networks", operation_id = "listNetworks", tag = "Networks",
    params(
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
    ),
    responses((status = 200, body = Vec<NetworkRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_networks(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    query.only(&["tag", "organizationID", "projectID", "regionID"])?;
    let tags = query.texts("tag").map(tag_filter).collect::<Result<Vec<_>, _>>()?;
    let asked = query.values::<OrganizationId>("organizationID")?;
    let filter = Filter {
        organizations: within(asked, caller.acl().organizations_readable(ENDPOINT)),
        projects: query.values("projectID")?,
        regions: query.values("regionID")?,
        ..Filter::of(Kind::Network)
    };
    if filter.organizations.as_ref().is_some_and(Vec::is_empty) {
        return Ok(list::empty());
    }
    let show = move |record: &Record| {
        let scope = scope_of(&record.metadata.placement);
        let wanted = has_tags(record, &tags) && caller.allows(ENDPOINT, Operation::Read, scope);
        if !wanted {
            return None;
        }
        // One damaged record does not cost the others their list; the store reports it as quarantined.
        NetworkRead::of(record).inspect_err(|error| tracing::error!(%error, "left out of a list")).ok()
    };
    list::streamed(Arc::clone(&api.store), filter, show).await
}

/// What was asked for, within what may be read. `None` is everything.
fn within(asked: Option<Vec<OrganizationId>>, readable: Option<Vec<OrganizationId>>) -> Option<Vec<OrganizationId>> {
    match (asked, readable) {
        (Some(asked), Some(readable)) => Some(asked.into_iter().filter(|id| readable.contains(id)).collect()),
        (asked, readable) => asked.or(readable),
    }
}

/// Create network.
#[utoipa::path(
    post, path = "/api/v2/networks", operation_id = "createNetwork", tag = "Networks", request_body = NetworkCreate,
    responses((status = 201, body = NetworkRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn create_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<NetworkCreate>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::Network);
    let accepted = request.accept()?;
    let (organization, project, region) = (accepted.organization, accepted.project, accepted.region);
    let placement = Placement {
        organization: Some(organization),
        project: Some(project),
        region: Some(region),
        ..Placement::default()
    };
    trail.scope(placement);
    permitted(&caller, ENDPOINT, Operation::Create, scope_of(&placement))?;
    existing_project(&api, organization, project).await?;
    if visible_region(&api, &caller, organization, region).await?.spec.withdrawn {
        return Err(ApiError::not_found());
    }
    let ids = NewIds::draw(&api.ambient);
    let principal = caller.principal(organization, project);
    let batch = intent::creation(&accepted, &caller.subject, &principal, ids, api.ambient.now());
    let committed = api.store.commit(batch).await.map_err(|error| match error {
        // A region that is going is no longer there to be used.
        StoreError::Refused(Refusal::Deleting(key)) if key == region.key() => ApiError::not_found(),
        other => other.into(),
    })?;
    trail.resource(ids.network.key());
    Ok((StatusCode::CREATED, Json(shown(&committed, ids.network)?)).into_response())
}

/// The network as the commit left it: a read-your-writes answer without a read.
fn shown(committed: &Committed, network: NetworkId) -> Result<NetworkRead, ApiError> {
    let record = committed.records.iter().find(|record| record.key == network.key());
    let record = record.ok_or_else(|| ApiError::internal(&"a commit did not return what it wrote"))?;
    Ok(NetworkRead::of(record)?)
}

/// Get network.
#[utoipa::path(
    get, path = "/api/v2/networks/{networkID}", operation_id = "getNetwork", tag = "Networks",
    params(("networkID" = uuid::Uuid, Path)),
    responses((status = 200, body = NetworkRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Json<NetworkRead>, ApiError> {
    let network: NetworkId = path.id("networkID")?;
    let record = readable(&api, &caller, ENDPOINT, network.key()).await?;
    Ok(Json(NetworkRead::of(&record)?))
}

/// Update network.
#[utoipa::path(
    put, path = "/api/v2/networks/{networkID}", operation_id = "updateNetwork", tag = "Networks",
    params(("networkID" = uuid::Uuid, Path)), request_body = NetworkUpdate,
    responses((status = 202, body = NetworkRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn update_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<NetworkUpdate>,
) -> Result<Response, ApiError> {
    let network: NetworkId = path.id("networkID")?;
    trail.resource(network.key());
    let accepted = request.accept()?;
    let planned = || async {
        let record = resolved(&api, &caller, &trail, network, (ENDPOINT, Operation::Update)).await?;
        if record.metadata.is_deleting() {
            return Err(ApiError::invalid(deleting_text(Kind::Network)));
        }
        Ok(intent::update(&record.open::<Network>()?, &accepted, &caller.subject, api.ambient.now()))
    };
    let committed = read_modify_write(&api, planned).await?;
    Ok((StatusCode::ACCEPTED, Json(shown(&committed, network)?)).into_response())
}

/// The network that a change is about, audited with its scope, if the caller may read it and change it.
async fn resolved(
    api: &Api,
    caller: &Caller,
    trail: &Trail,
    network: NetworkId,
    (endpoint, operation): (Endpoint, Operation),
) -> Result<Arc<Record>, ApiError> {
    let record = readable(api, caller, ENDPOINT, network.key()).await?;
    trail.scope(record.metadata.placement);
    permitted(caller, endpoint, operation, scope_of(&record.metadata.placement))?;
    Ok(record)
}

/// Delete network.
#[utoipa::path(
    delete, path = "/api/v2/networks/{networkID}", operation_id = "deleteNetwork", tag = "Networks",
    params(("networkID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_network(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let network: NetworkId = path.id("networkID")?;
    trail.resource(network.key());
    let record = resolved(&api, &caller, &trail, network, (ENDPOINT, Operation::Delete)).await?;
    if record.metadata.is_deleting() {
        return Ok(StatusCode::ACCEPTED);
    }
    match api.store.commit(intent::deletion(network.key(), api.ambient.now())).await {
        // Gone in the meantime is what was asked for.
        Ok(_) | Err(StoreError::Refused(Refusal::Missing(_) | Refusal::Deleting(_))) => Ok(StatusCode::ACCEPTED),
        Err(StoreError::Refused(Refusal::InUse { holders, .. })) => {
            Err(in_use(&api, &caller, &record.metadata.placement, &holders).await)
        }
        Err(error) => Err(error.into()),
    }
}

/// Says who stands in the way, as far as the caller may know them.
async fn in_use(api: &Api, caller: &Caller, placement: &Placement, holders: &[Holder]) -> ApiError {
    let mut named = Vec::new();
    for holder in holders {
        if named.len() == HOLDERS_NAMED_MAX {
            break;
        }
        if may_know(api, caller, scope_of(placement), holder).await {
            named.push(holder.to_string());
        }
    }
    let by = if named.is_empty() { String::new() } else { format!(" by {}", named.join(", ")) };
    ApiError::forbidden(format!("the network is in use{by} and cannot be deleted"))
}

/// A resource of ours may be named to whoever may read it; one of another service to whoever may read references.
async fn may_know(api: &Api, caller: &Caller, scope: Scope, holder: &Holder) -> bool {
    match holder {
        Holder::External(_) => caller.allows(Endpoint::NetworksV2References, Operation::Read, scope),
        Holder::Resource(key) => match endpoint_of(key.kind) {
            Some(endpoint) => readable(api, caller, endpoint, *key).await.is_ok(),
            None => false,
        },
    }
}

/// Add a reference, which keeps the network from being deleted.
#[utoipa::path(
    put, path = "/api/v2/networks/{networkID}/references/{reference}", operation_id = "addNetworkReference",
    tag = "Networks", params(("networkID" = uuid::Uuid, Path), ("reference" = String, Path)),
    responses((status = 201), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn add_reference(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let (network, holder) = reference_of(&path)?;
    trail.resource(network.key());
    resolved(&api, &caller, &trail, network, (Endpoint::NetworksV2References, Operation::Create)).await?;
    reference::add(&api, network.key(), holder).await?;
    Ok(StatusCode::CREATED)
}

/// Remove a reference.
#[utoipa::path(
    delete, path = "/api/v2/networks/{networkID}/references/{reference}", operation_id = "removeNetworkReference",
    tag = "Networks", params(("networkID" = uuid::Uuid, Path), ("reference" = String, Path)),
    responses((status = 204), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn remove_reference(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let (network, holder) = reference_of(&path)?;
    trail.resource(network.key());
    resolved(&api, &caller, &trail, network, (Endpoint::NetworksV2References, Operation::Delete)).await?;
    reference::remove(&api, network.key(), holder).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn reference_of(path: &PathElements) -> Result<(NetworkId, Holder), ApiError> {
    Ok((path.id("networkID")?, reference::holder_of(path)?))
}
