//! Instances: machines as users see them.
//!
//! A name is unique on its network, and never changes: it is half of the id of the server that does the work, which the
//! commit that accepts the instance takes. So whoever comes second is told so at once, whoever else is writing.

pub mod intent;
pub mod verbs;
pub mod wire;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::machines::{Wanting, flavors_of, missing};
use crate::api::access::{child_placement, existing_payer, existing_project, permitted, readable, scope_of};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody, Failure};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Replacement, Shown, Surface, listed, shown};
use crate::api::{Api, Shared};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::{Incarnation, InstanceId, Kind, NetworkId, OrganizationId, ProjectId};
use crate::model::instance::{Instance, MachineSpec};
use crate::model::metadata::Placement;
use crate::model::record::{Place, Resource};
use crate::store::{Batch, Refusal, StoreError};
use wire::{AcceptedUpdate, InstanceCreate, InstanceRead, InstanceUpdate};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_instances, create_instance))
        .routes(routes!(get_instance, update_instance, delete_instance))
        .merge(verbs::routes())
}

const NO_PROJECT: &str = "spec.projectId names no project of the organization";
const NO_NETWORK: &str = "spec.networkId names no network of the project";

/// List instances.
#[utoipa::path(
    get, path = "/api/v2/instances", operation_id = "listInstances", tag = "Instances",
    params(
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
        ("networkID" = Option<Vec<String>>, Query, description = "Only those of these networks"),
    ),
    responses((status = 200, body = Vec<InstanceRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_instances(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    let filters = ["tag", "organizationID", "projectID", "regionID", "networkID"];
    listed::<InstanceRead>(&api, caller, &query, &filters).await
}

/// Where something that works on a network is to be: the network of the project, if the caller may read it.
pub async fn settled(
    api: &Api,
    caller: &Caller,
    (organization, project): (OrganizationId, ProjectId),
    network: NetworkId,
) -> Result<(Place, Placement), ApiError> {
    existing_project(api, organization, project).await.map_err(missing(NO_PROJECT))?;
    let record = readable(api, caller, Endpoint::NetworksV2, network.key()).await.map_err(missing(NO_NETWORK))?;
    let (place, placement) = child_placement(&record, network)?;
    if (place.organization, place.project) != (organization, project) {
        return Err(ApiError::unprocessable(NO_NETWORK));
    }
    Ok((place, placement))
}

/// What went away between the check and the commit is a part of the request that does not hold.
pub fn gone(error: StoreError) -> ApiError {
    match error {
        StoreError::Refused(Refusal::Missing(key) | Refusal::Deleting(key)) => match key.kind {
            Kind::Network => ApiError::unprocessable(NO_NETWORK),
            Kind::Project => ApiError::unprocessable(NO_PROJECT),
            kind => ApiError::unprocessable(format!("a {} that the request names does not exist", kind.noun())),
        },
        StoreError::Refused(Refusal::Exists(_)) => {
            ApiError::new(Failure::Conflict, "the network has a machine of that name already")
        }
        error => error.into(),
    }
}

/// Create instance.
#[utoipa::path(
    post, path = "/api/v2/instances", operation_id = "createInstance", tag = "Instances",
    request_body = InstanceCreate,
    responses(
        (status = 201, body = InstanceRead), (status = 409, body = ErrorBody),
        CommonErrors, BodyErrors, ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn create_instance(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<InstanceCreate>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::Instance);
    let accepted = request.accept()?;
    let tenant = (accepted.organization, accepted.project);
    let asked_for = Placement { organization: Some(tenant.0), project: Some(tenant.1), ..Placement::default() };
    trail.scope(asked_for);
    permitted(&caller, InstanceRead::ENDPOINT, Operation::Create, scope_of(&asked_for))?;
    let (place, placement) = settled(&api, &caller, tenant, accepted.network).await?;
    trail.scope(placement);
    let wanting = Wanting { api: &api, caller: &caller, place, network: accepted.network };
    let machine = wanting.created(accepted.said.machine.clone()).await?;
    let author = Author::of(&caller, tenant, api.ambient.now());
    existing_payer(&api, &author.principal).await.map_err(missing("whoever pays for it does not exist"))?;
    let id = InstanceId(api.ambient.uuid());
    let ids = (id, Incarnation(api.ambient.uuid()));
    let batch = intent::creation(&accepted, machine, &author, placement, ids);
    let committed = api.store.commit(batch).await.map_err(gone)?;
    Asked { api: &api, caller: &caller, trail: &trail }.created::<InstanceRead>(&committed, id.key())
}

/// Get instance.
#[utoipa::path(
    get, path = "/api/v2/instances/{instanceID}", operation_id = "getInstance", tag = "Instances",
    params(("instanceID" = uuid::Uuid, Path)),
    responses((status = 200, body = InstanceRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_instance(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Shown<InstanceRead>, ApiError> {
    let instance: InstanceId = path.id("instanceID")?;
    shown(&api, &caller, instance.key()).await
}

/// Update instance. Another image replaces the root disk; another flavor resizes the instance or, where that cannot be,
/// replaces its machine. What `dryRun=true` answers says what would be lost.
#[utoipa::path(
    put, path = "/api/v2/instances/{instanceID}", operation_id = "updateInstance", tag = "Instances",
    params(("instanceID" = uuid::Uuid, Path)), request_body = InstanceUpdate,
    responses((status = 202, body = InstanceRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn update_instance(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<InstanceUpdate>,
) -> Result<Response, ApiError> {
    let instance: InstanceId = path.id("instanceID")?;
    trail.resource(instance.key());
    let accepted = request.accept()?;
    Asked { api: &api, caller: &caller, trail: &trail }.updated(instance.key(), &accepted).await
}

#[async_trait]
impl Replacement for AcceptedUpdate {
    type Surface = InstanceRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<Instance>) -> Result<Batch, ApiError> {
        let (api, caller, before) = (asked.api, asked.caller, &stored.spec.machine);
        if stored.metadata.owner.is_some_and(|owner| owner.kind == Kind::Cluster) {
            return Err(ApiError::unprocessable("the instance is of a cluster: change the cluster's pool"));
        }
        if self.metadata.name != stored.metadata.name {
            return Err(ApiError::unprocessable("metadata.name of an instance cannot be changed"));
        }
        let authority = self.said.machine.ssh_certificate_authority;
        if authority.is_some() && authority != before.ssh_certificate_authority {
            return Err(ApiError::unprocessable("spec.sshCertificateAuthorityId of an instance cannot be changed"));
        }
        let wanted =
            MachineSpec { ssh_certificate_authority: before.ssh_certificate_authority, ..self.said.machine.clone() };
        let policy = self.said.policy.or(stored.spec.policy).unwrap_or_default();
        let wanting = Wanting { api, caller, place: stored.place()?, network: stored.network()? };
        let flavors = flavors_of(api, stored.spec.server).await?;
        let machine = wanting.changed(wanted, (before, &flavors), policy).await?;
        Ok(intent::update(stored, self, machine, (&caller.subject, api.ambient.now())))
    }
}

/// Delete instance.
#[utoipa::path(
    delete, path = "/api/v2/instances/{instanceID}", operation_id = "deleteInstance", tag = "Instances",
    params(("instanceID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_instance(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let instance: InstanceId = path.id("instanceID")?;
    Asked { api: &api, caller: &caller, trail: &trail }.deleted::<InstanceRead>(instance.key()).await
}
