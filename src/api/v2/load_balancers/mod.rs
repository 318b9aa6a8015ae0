//! Load balancers: one address of a network that spreads connections over others.

pub mod intent;
pub mod wire;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::Shared;
use crate::api::access::{child_placement, existing_payer, permitted, readable, scope_of};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Replacement, Shown, Surface, listed, shown};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::{Incarnation, Kind, LoadBalancerId};
use crate::model::load_balancer::LoadBalancer;
use crate::model::network::Network;
use crate::model::record::Resource;
use crate::store::Batch;
use wire::{Accepted, LoadBalancerCreate, LoadBalancerRead, LoadBalancerUpdate};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_load_balancers, create_load_balancer)).routes(routes!(
        get_load_balancer,
        update_load_balancer,
        delete_load_balancer
    ))
}

/// List load balancers.
#[utoipa::path(
    get, path = "/api/v2/loadbalancers", operation_id = "listLoadBalancers", tag = "Load balancers",
    params(
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
        ("networkID" = Option<Vec<String>>, Query, description = "Only those of these networks"),
    ),
    responses((status = 200, body = Vec<LoadBalancerRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_load_balancers(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    let filters = ["tag", "organizationID", "projectID", "regionID", "networkID"];
    listed::<LoadBalancerRead>(&api, caller, &query, &filters).await
}

/// Create load balancer.
#[utoipa::path(
    post, path = "/api/v2/loadbalancers", operation_id = "createLoadBalancer", tag = "Load balancers",
    request_body = LoadBalancerCreate,
    responses(
        (status = 201, body = LoadBalancerRead), (status = 404, body = ErrorBody),
        CommonErrors, BodyErrors, ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn create_load_balancer(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<LoadBalancerCreate>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::LoadBalancer);
    let (network, accepted) = request.accept()?;
    let owner = readable(&api, &caller, Endpoint::NetworksV2, network.key()).await?;
    let (place, placement) = child_placement(&owner, network)?;
    trail.scope(placement);
    permitted(&caller, LoadBalancerRead::ENDPOINT, Operation::Create, scope_of(&placement))?;
    if !accepted.spec.fits(owner.open::<Network>()?.spec.prefix.net()) {
        return Err(ApiError::unprocessable(
            "spec.vipAddress must be an address of a host within the network's prefix",
        ));
    }
    let author = Author::of(&caller, (place.organization, place.project), api.ambient.now());
    existing_payer(&api, &author.principal).await?;
    let id = LoadBalancerId(api.ambient.uuid());
    let ids = (id, Incarnation(api.ambient.uuid()));
    let batch = intent::creation(&accepted, &author, (network, place, placement), ids);
    let committed = api.store.commit(batch).await?;
    Asked { api: &api, caller: &caller, trail: &trail }.created::<LoadBalancerRead>(&committed, id.key())
}

/// Get load balancer.
#[utoipa::path(
    get, path = "/api/v2/loadbalancers/{loadBalancerID}", operation_id = "getLoadBalancer", tag = "Load balancers",
    params(("loadBalancerID" = uuid::Uuid, Path)),
    responses((status = 200, body = LoadBalancerRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_load_balancer(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Shown<LoadBalancerRead>, ApiError> {
    let balancer: LoadBalancerId = path.id("loadBalancerID")?;
    shown(&api, &caller, balancer.key()).await
}

/// Update load balancer.
#[utoipa::path(
    put, path = "/api/v2/loadbalancers/{loadBalancerID}", operation_id = "updateLoadBalancer", tag = "Load balancers",
    params(("loadBalancerID" = uuid::Uuid, Path)), request_body = LoadBalancerUpdate,
    responses(
        (status = 202, body = LoadBalancerRead), (status = 404, body = ErrorBody),
        CommonErrors, BodyErrors, ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn update_load_balancer(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<LoadBalancerUpdate>,
) -> Result<Response, ApiError> {
    let balancer: LoadBalancerId = path.id("loadBalancerID")?;
    trail.resource(balancer.key());
    let accepted = request.accept()?;
    Asked { api: &api, caller: &caller, trail: &trail }.updated(balancer.key(), &accepted).await
}

#[async_trait]
impl Replacement for Accepted {
    type Surface = LoadBalancerRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<LoadBalancer>) -> Result<Batch, ApiError> {
        self.spec.validate_against(&stored.spec)?;
        Ok(intent::update(stored, self, &asked.caller.subject, asked.api.ambient.now())?)
    }
}

/// Delete load balancer.
#[utoipa::path(
    delete, path = "/api/v2/loadbalancers/{loadBalancerID}", operation_id = "deleteLoadBalancer",
    tag = "Load balancers", params(("loadBalancerID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_load_balancer(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let balancer: LoadBalancerId = path.id("loadBalancerID")?;
    Asked { api: &api, caller: &caller, trail: &trail }.deleted::<LoadBalancerRead>(balancer.key()).await
}
