//! Clusters: pools of instances, kept at their number.
//!
//! The quota of all instances is charged by the commit that accepts them. Instances are made, changed and taken away by
//! the cluster's actor; they are listed with all others, by the tag that names their cluster.

pub mod intent;
pub mod wire;

use std::collections::BTreeSet;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::instances::{gone, settled};
use super::machines::{Wanting, flavors_of, missing};
use crate::api::access::{existing_payer, permitted, scope_of};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Replacement, Shown, Surface, listed, shown};
use crate::api::wire::AcceptedMetadata;
use crate::api::{Api, Shared};
use crate::identity::acl::Operation;
use crate::model::cluster::{Cluster, ClusterSpec, Pool};
use crate::model::ids::{ClusterId, FlavorId, Incarnation, InstanceId, Key, Kind};
use crate::model::instance::{Instance, Policy};
use crate::model::metadata::Placement;
use crate::model::quota::Amounts;
use crate::model::record::Resource;
use crate::store::{Batch, Filter, Pages, Precondition};
use wire::{AcceptedPool, AcceptedUpdate, ClusterCreate, ClusterRead, ClusterUpdate, Eviction};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_clusters, create_cluster))
        .routes(routes!(get_cluster, update_cluster, delete_cluster))
        .routes(routes!(evict))
}

/// List clusters.
#[utoipa::path(
    get, path = "/api/v2/clusters", operation_id = "listClusters", tag = "Clusters",
    params(
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
        ("networkID" = Option<Vec<String>>, Query, description = "Only those of these networks"),
    ),
    responses((status = 200, body = Vec<ClusterRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_clusters(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    let filters = ["tag", "organizationID", "projectID", "regionID", "networkID"];
    listed::<ClusterRead>(&api, caller, &query, &filters).await
}

/// What the machines of a pool may still be on.
pub async fn flavors(
    wanting: Wanting<'_>,
    members: &[Resource<Instance>],
    pool: &Pool,
) -> Result<Vec<FlavorId>, ApiError> {
    let mut flavors = BTreeSet::new();
    for member in members.iter().filter(|member| member.spec.pool.as_ref() == Some(&pool.name)) {
        flavors.insert(member.spec.machine.flavor);
        flavors.extend(flavors_of(wanting.api, member.spec.server).await?);
    }
    Ok(flavors.into_iter().collect())
}

/// The pools as they may be, each checked as far as it is new.
async fn pools(
    wanting: Wanting<'_>,
    accepted: &[AcceptedPool],
    (before, members): (&[Pool], &[Resource<Instance>]),
) -> Result<Vec<Pool>, ApiError> {
    let mut pools = Vec::new();
    for AcceptedPool { name, replicas, machine } in accepted {
        let machine = match before.iter().find(|known| known.name == *name) {
            Some(known) => {
                if machine.ssh_certificate_authority != known.machine.ssh_certificate_authority {
                    let rule = "spec.pools.sshCertificateAuthorityId of a pool cannot be changed";
                    return Err(ApiError::unprocessable(rule));
                }
                let flavors = if machine.flavor == known.machine.flavor {
                    Vec::new()
                } else {
                    flavors(wanting, members, known).await?
                };
                wanting.changed(machine.clone(), (&known.machine, &flavors), Policy::default()).await?
            }
            None => wanting.created(machine.clone()).await?,
        };
        pools.push(Pool { name: name.clone(), replicas: *replicas, machine, first: None });
    }
    Ok(pools)
}

/// Create cluster. The quota of all of its instances is charged at once.
#[utoipa::path(
    post, path = "/api/v2/clusters", operation_id = "createCluster", tag = "Clusters", request_body = ClusterCreate,
    responses((status = 201, body = ClusterRead), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn create_cluster(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<ClusterCreate>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::Cluster);
    let accepted = request.accept()?;
    let tenant = (accepted.organization, accepted.project);
    let asked_for = Placement { organization: Some(tenant.0), project: Some(tenant.1), ..Placement::default() };
    trail.scope(asked_for);
    permitted(&caller, ClusterRead::ENDPOINT, Operation::Create, scope_of(&asked_for))?;
    let (place, placement) = settled(&api, &caller, tenant, accepted.network).await?;
    trail.scope(placement);
    let wanting = Wanting { api: &api, caller: &caller, place, network: accepted.network };
    let spec = ClusterSpec {
        pools: pools(wanting, &accepted.spec.pools, (&[], &[])).await?,
        unavailable_max: accepted.spec.unavailable_max,
        evictions: Vec::new(),
        charged: Amounts::new(),
        own_network: false,
        node_network: None,
    };
    let author = Author::of(&caller, tenant, api.ambient.now());
    existing_payer(&api, &author.principal).await.map_err(missing("whoever pays for it does not exist"))?;
    let id = ClusterId(api.ambient.uuid());
    let batch = intent::creation(&accepted, &spec, &author, placement, (id, Incarnation(api.ambient.uuid())));
    let committed = api.store.commit(batch).await.map_err(gone)?;
    Asked { api: &api, caller: &caller, trail: &trail }.created::<ClusterRead>(&committed, id.key())
}

/// Get cluster.
#[utoipa::path(
    get, path = "/api/v2/clusters/{clusterID}", operation_id = "getCluster", tag = "Clusters",
    params(("clusterID" = uuid::Uuid, Path)),
    responses((status = 200, body = ClusterRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_cluster(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Shown<ClusterRead>, ApiError> {
    let cluster: ClusterId = path.id("clusterID")?;
    shown(&api, &caller, cluster.key()).await
}

/// Update cluster. Instances are changed a few at a time, as `maxUnavailable` says.
#[utoipa::path(
    put, path = "/api/v2/clusters/{clusterID}", operation_id = "updateCluster", tag = "Clusters",
    params(("clusterID" = uuid::Uuid, Path)), request_body = ClusterUpdate,
    responses((status = 202, body = ClusterRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn update_cluster(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<ClusterUpdate>,
) -> Result<Response, ApiError> {
    let cluster: ClusterId = path.id("clusterID")?;
    trail.resource(cluster.key());
    let accepted = request.accept()?;
    Asked { api: &api, caller: &caller, trail: &trail }.updated(cluster.key(), &accepted).await
}

/// The instances of a cluster that are there and stay.
pub async fn members(api: &Api, cluster: Key) -> Result<Vec<Resource<Instance>>, ApiError> {
    let filter = Filter { owner: Some(cluster), ..Filter::of(Kind::Instance) };
    let mut pages = Pages::of(&*api.store, filter);
    let mut members = Vec::new();
    while let Some(records) = pages.next().await? {
        for record in records.iter().filter(|record| !record.metadata.is_deleting()) {
            members.push(record.open()?);
        }
    }
    Ok(members)
}

/// Those of before that are still there, and these. Whoever is not of the cluster cannot be evicted from it.
fn evictions(
    members: Vec<Resource<Instance>>,
    stored: &Resource<Cluster>,
    named: &[InstanceId],
) -> Result<Vec<Resource<Instance>>, ApiError> {
    // One that was named before may be gone by now: it is not refused for having been obeyed.
    let is_member =
        |id: &InstanceId| stored.spec.evictions.contains(id) || members.iter().any(|member| member.key == id.key());
    if !named.iter().all(is_member) {
        return Err(ApiError::unprocessable("instances to evict must be of the cluster"));
    }
    let is_named = |member: &Resource<Instance>| {
        let id = InstanceId(member.key.id);
        named.contains(&id) || stored.spec.evictions.contains(&id)
    };
    Ok(members.into_iter().filter(is_named).collect())
}

fn ids(instances: &[Resource<Instance>]) -> Vec<InstanceId> {
    instances.iter().map(|instance| InstanceId(instance.key.id)).collect()
}

#[async_trait]
impl Replacement for AcceptedUpdate {
    type Surface = ClusterRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<Cluster>) -> Result<Batch, ApiError> {
        let (api, caller) = (asked.api, asked.caller);
        let wanting = Wanting { api, caller, place: stored.place()?, network: stored.network()? };
        let members = members(api, stored.key).await?;
        let spec = ClusterSpec {
            pools: pools(wanting, &self.spec.pools, (&stored.spec.pools, &members)).await?,
            unavailable_max: self.spec.unavailable_max,
            evictions: ids(&evictions(members, stored, &self.evictions)?),
            ..stored.spec.clone()
        };
        Ok(intent::update(stored, &self.metadata, &spec, (&caller.subject, api.ambient.now())))
    }
}

/// Who is to go, found to be well formed.
struct AcceptedEviction(Vec<InstanceId>);

#[async_trait]
impl Replacement for AcceptedEviction {
    type Surface = ClusterRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<Cluster>) -> Result<Batch, ApiError> {
        eviction(asked, stored, &self.0).await
    }
}

/// What it means that these are to go: their pools are to be smaller by as many.
pub async fn eviction(asked: Asked<'_>, stored: &Resource<Cluster>, named: &[InstanceId]) -> Result<Batch, ApiError> {
    let going = evictions(members(asked.api, stored.key).await?, stored, named)?;
    let is_new = |member: &&Resource<Instance>| !stored.spec.evictions.contains(&InstanceId(member.key.id));
    let mut pools = stored.spec.pools.clone();
    for member in going.iter().filter(is_new) {
        for pool in pools.iter_mut().filter(|pool| Some(&pool.name) == member.spec.pool.as_ref()) {
            pool.replicas = pool.replicas.saturating_sub(1);
        }
    }
    let used = going.iter().filter(is_new).map(server_unused).collect::<Vec<_>>();
    let spec = ClusterSpec { pools, evictions: ids(&going), ..stored.spec.clone() };
    let metadata = AcceptedMetadata::of(&stored.metadata);
    let batch = intent::update(stored, &metadata, &spec, (&asked.caller.subject, asked.api.ambient.now()));
    Ok(used.into_iter().fold(batch, Batch::provided))
}

/// Whoever uses the server of an instance uses the instance, and keeps it from going.
pub fn server_unused(member: &Resource<Instance>) -> Precondition {
    Precondition::Unreferenced(member.spec.server.key())
}

/// Evict instances: they go, and their pools become smaller by as many.
#[utoipa::path(
    post, path = "/api/v2/clusters/{clusterID}/evict", operation_id = "evictFromCluster", tag = "Clusters",
    params(("clusterID" = uuid::Uuid, Path)), request_body = Eviction,
    responses((status = 202, body = ClusterRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn evict(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<Eviction>,
) -> Result<Response, ApiError> {
    let cluster: ClusterId = path.id("clusterID")?;
    trail.resource(cluster.key());
    trail.operation("evict");
    let accepted = AcceptedEviction(request.accept()?);
    Asked { api: &api, caller: &caller, trail: &trail }.updated(cluster.key(), &accepted).await
}

/// Delete cluster, with all of its instances.
#[utoipa::path(
    delete, path = "/api/v2/clusters/{clusterID}", operation_id = "deleteCluster", tag = "Clusters",
    params(("clusterID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_cluster(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let cluster: ClusterId = path.id("clusterID")?;
    let unused = members(&api, cluster.key()).await?.iter().map(server_unused).collect();
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    asked.deleted_provided::<ClusterRead>(cluster.key(), unused).await
}
