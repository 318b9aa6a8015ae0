//! Clusters, as the first version shows them: with a network of their own, firewalls for their pools, and machines.
//!
//! ```text
//!   first version                         what is stored, in one commit
//!   cluster ── network                    cluster ── network of the second version, which goes when the cluster has gone
//!          └── pool ─┬─ firewall                └── pool ── security group of that network
//!                    └─ machines                      └── instances, made by the cluster's actor
//! ```
//!
//! A thin translation: the kinds, their actors and their rules are those of the second version. The cluster alone is of
//! the first, and is shown there alone. It is deprecated as the first version of the region service is.

mod intent;
mod verbs;
pub mod wire;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::clusters::wire::Eviction;
use super::clusters::{eviction, flavors, members, server_unused};
use super::instances::gone;
use super::machines::{Wanting, missing};
use crate::api::access::{existing_payer, existing_project, visible_region};
use crate::api::catalogue::{FRESH, JUST_NOW};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Replacement, Shown};
use crate::api::v1::deprecation;
use crate::api::v1::paths::{creating, listed_in_organization, located, project, shown};
use crate::api::v2::networks::intent::NewIds as NewNetworkIds;
use crate::api::v2::servers::{find_flavor, rules};
use crate::api::{Api, Shared};
use crate::model::cluster::{Cluster, ClusterSpec, FirewallRule, FirstPool, ImageSelector, NodeNetwork, Pool};
use crate::model::edge::Holder;
use crate::model::ids::{ClusterId, FlavorId, ImageId, Incarnation, InstanceId, Key, Kind, NetworkId, SecurityGroupId};
use crate::model::instance::{FlavorChange, Instance, MachineSpec, Policy};
use crate::model::metadata::Placement;
use crate::model::network::Network;
use crate::model::quota::Amounts;
use crate::model::record::{Place, Resource};
use crate::model::security_group::SecurityGroupSpec;
use crate::providers::types::{Image, ImageStatus};
use crate::store::Batch;
use intent::{Groups, NewGroup, NewIds};
use wire::{Accepted, AcceptedImage, AcceptedPool, ClusterRead, ClusterWrite};

pub fn routes() -> OpenApiRouter<Shared> {
    deprecation::marked(
        OpenApiRouter::new()
            .routes(routes!(list_clusters))
            .routes(routes!(create_cluster))
            .routes(routes!(get_cluster, update_cluster, delete_cluster))
            .routes(routes!(evict))
            .merge(verbs::routes()),
    )
}

const NO_REGION: &str = "spec.regionId names no region";

/// List clusters.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/clusters", operation_id = "listClustersV1",
    tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path),
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
    ),
    responses((status = 200, body = Vec<ClusterRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_clusters(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    query: QueryElements,
) -> Result<Response, ApiError> {
    listed_in_organization::<ClusterRead>(&api, caller, &path, query, &["tag", "projectID", "regionID"]).await
}

/// Create cluster, with a network of its own. The quota of all of it is charged at once.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters",
    operation_id = "createClusterV1", tag = "Version 1", request_body = ClusterWrite,
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path)),
    responses(
        (status = 201, body = ClusterRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors,
        ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn create_cluster(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<ClusterWrite>,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let accepted = request.accept()?;
    let network = accepted.network_spec()?;
    let scope = creating::<ClusterRead>(asked, &path, Kind::Cluster)?;
    let (organization, project) = project(&path)?;
    existing_project(&api, organization, project).await?;
    let region = visible_region(&api, &caller, organization, accepted.region).await.map_err(missing(NO_REGION))?;
    if region.spec.withdrawn {
        return Err(ApiError::unprocessable(NO_REGION));
    }
    trail.scope(Placement { region: Some(accepted.region), ..scope });
    let place = Place { organization, project, region: accepted.region };
    let ids = NewIds {
        cluster: ClusterId(api.ambient.uuid()),
        incarnation: Incarnation(api.ambient.uuid()),
        network: NewNetworkIds::draw(&api.ambient),
    };
    let wanting = Wanting { api: &api, caller: &caller, place, network: ids.network.network };
    let (pools, groups) = pools(wanting, &accepted.pools, (&[], &[])).await?;
    let spec = ClusterSpec {
        pools,
        unavailable_max: None,
        evictions: Vec::new(),
        charged: Amounts::new(),
        own_network: true,
        node_network: accepted.network.clone(),
    };
    let author = Author::of_v1(&caller, (organization, project), api.ambient.now());
    existing_payer(&api, &author.principal).await.map_err(missing("whoever pays for it does not exist"))?;
    let batch = intent::creation(&accepted.metadata, (&spec, network), &groups.made, (&author, place), ids);
    let committed = api.store.commit(batch).await.map_err(gone)?;
    asked.created::<ClusterRead>(&committed, ids.cluster.key())
}

/// The pools as they may be, each checked as far as it is new, and what their firewalls mean for groups.
async fn pools(
    wanting: Wanting<'_>,
    accepted: &[AcceptedPool],
    (before, members): (&[Pool], &[Resource<Instance>]),
) -> Result<(Vec<Pool>, Groups), ApiError> {
    let (mut pools, mut groups) = (Vec::new(), Groups::default());
    for wanted in accepted {
        let known = before.iter().find(|known| known.name == wanted.name);
        let mut machine = machine(wanting, wanted, (known, members)).await?;
        let group = group(wanting.api, wanted, known, &mut groups).await?;
        if let Some(group) = group {
            machine.networking.get_or_insert_default().security_groups = Some(vec![group]);
        }
        let image_selector = match &wanted.image {
            AcceptedImage::Named(_) => None,
            AcceptedImage::Selected(selector) => Some(selector.clone()),
        };
        let first = FirstPool { firewall: wanted.firewall.clone(), group, image_selector };
        pools.push(Pool { name: wanted.name.clone(), replicas: wanted.replicas, machine, first: Some(first) });
    }
    Ok((pools, groups))
}

/// The machine of a pool without its group, which is ours: nobody has to be allowed to use it.
async fn machine(
    wanting: Wanting<'_>,
    wanted: &AcceptedPool,
    (known, members): (Option<&Pool>, &[Resource<Instance>]),
) -> Result<MachineSpec, ApiError> {
    let image = match &wanted.image {
        AcceptedImage::Named(image) => *image,
        AcceptedImage::Selected(selector) => match known.filter(|known| selector_of(known) == Some(selector)) {
            // It has chosen. Were it to choose again, an update of anything would cost every machine its disk whenever
            // a newer image has come.
            Some(known) => known.machine.image,
            None => chosen(wanting, selector, wanted.flavor).await?,
        },
    };
    let machine = MachineSpec {
        flavor: wanted.flavor,
        image,
        is_own_image: false,
        gpus: 0,
        networking: wanted.networking.clone(),
        user_data: wanted.user_data.clone(),
        ssh_certificate_authority: None,
        flavor_change: FlavorChange::default(),
    };
    match known {
        Some(known) => {
            let mut before = known.machine.clone();
            if let Some(networking) = &mut before.networking {
                networking.security_groups = None;
            }
            let flavors = flavors(wanting, members, known).await?;
            wanting.changed(machine, (&before, &flavors), Policy::default()).await
        }
        None => wanting.created(machine).await,
    }
}

fn selector_of(pool: &Pool) -> Option<&ImageSelector> {
    pool.first.as_ref()?.image_selector.as_ref()
}

/// The newest image that is ready, for machines in general, of this sort, and that the flavor can boot. Only of those
/// that are everybody's: the newest of an organization's own is as likely a snapshot of somebody's machine.
async fn chosen(wanting: Wanting<'_>, selector: &ImageSelector, flavor: FlavorId) -> Result<ImageId, ApiError> {
    let flavor = find_flavor(wanting.api, wanting.place, flavor).await?;
    let is_meant = |image: &&Image| {
        let is_variant = selector.variant.is_none() || selector.variant == image.os.variant;
        image.os.distro == selector.distro && image.os.version == selector.version && is_variant
    };
    let is_usable = |image: &&Image| {
        image.status == ImageStatus::Ready
            && image.organization.is_none()
            && image.packages.is_empty()
            && flavor.as_ref().is_none_or(|flavor| rules::fit(flavor, image).is_ok())
    };
    // What the last list lacks may have come in the meantime.
    for age_max in [FRESH, JUST_NOW] {
        let images = wanting.api.catalogue.images(wanting.place.region, age_max).await?;
        let fitting = images.iter().filter(is_meant).filter(is_usable);
        if let Some(image) = fitting.max_by_key(|image| (image.created, image.id)) {
            return Ok(image.id);
        }
    }
    Err(ApiError::unprocessable("spec.workloadPools.pools.imageSelector matches no image that can be used"))
}

/// The group that is a pool's firewall, if it has one or needs one, and what has to be done about it.
async fn group(
    api: &Api,
    wanted: &AcceptedPool,
    known: Option<&Pool>,
    groups: &mut Groups,
) -> Result<Option<SecurityGroupId>, ApiError> {
    let rules = wanted.firewall.iter().flatten().flat_map(FirewallRule::rules).collect::<Vec<_>>();
    let spec = SecurityGroupSpec { rules };
    let group = known.and_then(|known| known.first.as_ref()).and_then(|first| first.group);
    if let Some(group) = group {
        let record =
            api.store.get(group.key()).await?.ok_or_else(|| ApiError::internal(&"a group that is held is gone"))?;
        let stored = record.open()?;
        if stored.spec != spec {
            groups.changed.push((stored, spec));
        }
        return Ok(Some(group));
    }
    if spec.rules.is_empty() {
        return Ok(None);
    }
    let (id, incarnation) = (SecurityGroupId(api.ambient.uuid()), Incarnation(api.ambient.uuid()));
    groups.made.push(NewGroup { id, incarnation, pool: wanted.name.clone(), spec });
    Ok(Some(id))
}

/// Get cluster.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}",
    operation_id = "getClusterV1", tag = "Version 1",
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("clusterID" = uuid::Uuid, Path)),
    responses((status = 200, body = ClusterRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_cluster(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Shown<ClusterRead>, ApiError> {
    let cluster: ClusterId = path.id("clusterID")?;
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    shown(asked, &path, cluster.key()).await
}

/// Update cluster. Machines are changed one at a time.
#[utoipa::path(
    put, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}",
    operation_id = "updateClusterV1", tag = "Version 1", request_body = ClusterWrite,
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("clusterID" = uuid::Uuid, Path)),
    responses(
        (status = 202, body = ClusterRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors,
        ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn update_cluster(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<ClusterWrite>,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let cluster: ClusterId = path.id("clusterID")?;
    let accepted = request.accept()?;
    located::<ClusterRead>(asked, &path, cluster.key()).await?;
    asked.updated(cluster.key(), &accepted).await
}

#[async_trait]
impl Replacement for Accepted {
    type Surface = ClusterRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<Cluster>) -> Result<Batch, ApiError> {
        let (api, caller, place) = (asked.api, asked.caller, stored.place()?);
        if self.region != place.region {
            return Err(ApiError::unprocessable("spec.regionId of a cluster cannot be changed"));
        }
        let network = stored.network()?;
        let changed = renamed_servers(api, network, self.network.as_ref()).await?;
        let wanting = Wanting { api, caller, place, network };
        let present = members(api, stored.key).await?;
        let (pools, groups) = pools(wanting, &self.pools, (&stored.spec.pools, &present)).await?;
        let is_present = |id: &&InstanceId| present.iter().any(|member| member.key == id.key());
        let spec = ClusterSpec {
            pools,
            evictions: stored.spec.evictions.iter().filter(is_present).copied().collect(),
            node_network: self.network.clone().or_else(|| stored.spec.node_network.clone()),
            ..stored.spec.clone()
        };
        let now = api.ambient.now();
        let author = Author::of(caller, (place.organization, place.project), now);
        Ok(intent::update(stored, (&self.metadata, &spec), &groups, changed, (&author, now)))
    }
}

/// The network with other name servers, if others are asked for. Its prefix is what it was made with.
async fn renamed_servers(
    api: &Api,
    network: NetworkId,
    wanted: Option<&NodeNetwork>,
) -> Result<Option<(Resource<Network>, Vec<std::net::Ipv4Addr>)>, ApiError> {
    let Some(wanted) = wanted else { return Ok(None) };
    let record = api.store.get(network.key()).await?.ok_or_else(ApiError::not_found)?;
    let stored = record.open::<Network>()?;
    if wanted.prefix != stored.spec.prefix {
        return Err(ApiError::unprocessable("spec.network.nodeNetwork of a cluster cannot be changed"));
    }
    let is_news = wanted.dns_nameservers != stored.spec.dns_nameservers;
    Ok(is_news.then(|| (stored, wanted.dns_nameservers.clone())))
}

/// Who is to go, found to be well formed.
struct Evicted(Vec<InstanceId>);

#[async_trait]
impl Replacement for Evicted {
    type Surface = ClusterRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<Cluster>) -> Result<Batch, ApiError> {
        eviction(asked, stored, &self.0).await
    }
}

/// Evict machines: they go, and their pools become smaller by as many.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}/evict",
    operation_id = "evictFromClusterV1", tag = "Version 1", request_body = Eviction,
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("clusterID" = uuid::Uuid, Path)),
    responses(
        (status = 202, body = ClusterRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors,
        ContradictionErrors
    ),
    security(("bearer" = []))
)]
async fn evict(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<Eviction>,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let cluster: ClusterId = path.id("clusterID")?;
    trail.operation("evict");
    let accepted = Evicted(request.accept()?);
    located::<ClusterRead>(asked, &path, cluster.key()).await?;
    asked.updated(cluster.key(), &accepted).await
}

/// Delete cluster, with all of its machines, and its network.
#[utoipa::path(
    delete, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}",
    operation_id = "deleteClusterV1", tag = "Version 1",
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("clusterID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_cluster(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let cluster: ClusterId = path.id("clusterID")?;
    let record = located::<ClusterRead>(asked, &path, cluster.key()).await?;
    let is_shared = match record.metadata.placement.network {
        Some(network) if !record.metadata.is_deleting() => is_used_by_others(&api, cluster, network).await?,
        _ => false,
    };
    if is_shared {
        return Err(ApiError::forbidden("the cluster's network is in use by others and cannot be deleted with it"));
    }
    let unused = members(&api, cluster.key()).await?.iter().map(server_unused).collect();
    asked.deleted_provided::<ClusterRead>(cluster.key(), unused).await
}

/// Does anybody but the cluster use its network? It can be seen, and used, on the second version; whoever does that must
/// not lose a machine because a cluster goes.
async fn is_used_by_others(api: &Api, cluster: ClusterId, network: NetworkId) -> Result<bool, ApiError> {
    let members = members(api, cluster.key()).await?;
    let is_own = |key: Key| {
        key == cluster.key() || members.iter().any(|member| key == member.key || key == member.spec.server.key())
    };
    for holder in api.store.references(network.key()).await? {
        let is_own = match holder {
            Holder::External(_) => false,
            Holder::Resource(key) => is_own(key) || is_going(api, key).await?,
        };
        if !is_own {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Who is going gives its hold back by itself: a machine of before, that the cluster has let go.
async fn is_going(api: &Api, key: Key) -> Result<bool, ApiError> {
    Ok(api.store.get(key).await?.is_none_or(|record| record.metadata.is_deleting()))
}
