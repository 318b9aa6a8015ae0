//! The operator's surface, on a listener of its own.
//!
//! Everything is read from snapshots; only a verb or a fault changes anything, and is audited. Permission
//! `regent:admin` is needed for all of it: `read` to look, `update` to act.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;

use super::access::permitted;
use super::context::Trail;
use super::error::{ApiError, Failure};
use super::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use super::{Shared, finished, staging, system, with_refusals};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{Key, Kind, RegionId, parse_uuid};
use crate::model::record::CorruptRecord;
use crate::supervision::inspection::{
    ACTORS_PAGE_MAX, ActorPage, Inspection, ORPHANS_PAGE_MAX, OperatorVerb, OrphanPage, QuarantinedActor,
    SimulatedAdmin, VerbError,
};

type Tree = Extension<Arc<dyn Inspection>>;

/// The admin listener. Without a recorder there are no metrics to show, as in tests.
pub fn router(api: &Shared, inspection: Arc<dyn Inspection>, metrics: Option<PrometheusHandle>) -> Router {
    let mut routes = Router::new()
        .route("/admin/v1/actors", get(actors))
        .route("/admin/v1/actors/{kind}/{id}", get(actor))
        .route("/admin/v1/actors/{kind}/{id}/{verb}", post(verb))
        .route("/admin/v1/tree", get(tree))
        .route("/admin/v1/edges", get(edges))
        .route("/admin/v1/quarantine", get(quarantine))
        .route("/admin/v1/orphans", get(orphans))
        .route("/admin/v1/simulated/{regionId}/inventory", get(inventory))
        .route("/admin/v1/simulated/{regionId}/calls", get(calls))
        .route("/admin/v1/simulated/{regionId}/faults", post(inject).delete(clear))
        .layer(Extension(inspection))
        .merge(system::unauthenticated());
    if let Some(metrics) = metrics {
        let render =
            move || std::future::ready(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.render()));
        routes = routes.route("/metrics", get(render));
    }
    finished(with_refusals(routes).layer(axum::middleware::from_fn(staging::refuse)), api)
}

fn may(caller: &Caller, operation: Operation) -> Result<(), ApiError> {
    permitted(caller, Endpoint::Admin, operation, Scope::Global)
}

/// `kind/id`, as keys are written everywhere.
fn key_of(text: &str) -> Result<Key, ApiError> {
    let (kind, id) = text.split_once('/').ok_or_else(ApiError::invalid_element)?;
    key_from(kind, id)
}

fn key_from(kind: &str, id: &str) -> Result<Key, ApiError> {
    let kind: Kind = kind.parse().map_err(|_| ApiError::invalid_element())?;
    let id = parse_uuid(id).map_err(|_| ApiError::invalid_element())?;
    Ok(Key::new(kind, id))
}

/// `region/kind/id`.
fn placed_key_of(text: &str) -> Result<(RegionId, Key), ApiError> {
    let (region, key) = text.split_once('/').ok_or_else(ApiError::invalid_element)?;
    Ok((region.parse().map_err(|_| ApiError::invalid_element())?, key_of(key)?))
}

fn path_key(path: &PathElements) -> Result<Key, ApiError> {
    key_from(path.text("kind")?, path.text("id")?)
}

/// A page of actors; `?kind=network&after=network/<id>&limit=100`.
async fn actors(
    Authenticated(caller): Authenticated,
    Extension(inspection): Tree,
    query: QueryElements,
) -> Result<Response, ApiError> {
    may(&caller, Operation::Read)?;
    query.only(&["kind", "after", "limit"])?;
    let limit = query.value::<usize>("limit")?.unwrap_or(ACTORS_PAGE_MAX);
    if !(1..=ACTORS_PAGE_MAX).contains(&limit) {
        return Err(ApiError::invalid_element());
    }
    let after = query.value::<String>("after")?.map(|text| key_of(&text)).transpose()?;
    let found = inspection.actors(query.value("kind")?, ActorPage { after, limit }).await;
    Ok(Json(found).into_response())
}

async fn actor(
    Authenticated(caller): Authenticated,
    Extension(inspection): Tree,
    path: PathElements,
) -> Result<Response, ApiError> {
    may(&caller, Operation::Read)?;
    let found = inspection.actor(path_key(&path)?).await.ok_or_else(ApiError::not_found)?;
    Ok(Json(found).into_response())
}

async fn tree(Authenticated(caller): Authenticated, Extension(inspection): Tree) -> Result<Response, ApiError> {
    may(&caller, Operation::Read)?;
    Ok(Json(inspection.tree().await).into_response())
}

/// Every edge, or with `?of=network/<id>` those of one resource.
async fn edges(
    Authenticated(caller): Authenticated,
    Extension(inspection): Tree,
    query: QueryElements,
) -> Result<Response, ApiError> {
    may(&caller, Operation::Read)?;
    query.only(&["of"])?;
    let of = query.value::<String>("of")?.map(|text| key_of(&text)).transpose()?;
    Ok(Json(inspection.edges(of).await).into_response())
}

/// What was set aside: actors that were given up on, and records that cannot be read.
#[derive(Serialize)]
struct Quarantine {
    actors: Vec<QuarantinedActor>,
    records: Vec<UnreadableRecord>,
}

#[derive(Serialize)]
struct UnreadableRecord {
    kind: Kind,
    id: uuid::Uuid,
    part: &'static str,
    cause: String,
}

impl From<CorruptRecord> for UnreadableRecord {
    fn from(corrupt: CorruptRecord) -> Self {
        Self { kind: corrupt.key.kind, id: corrupt.key.id, part: corrupt.part, cause: corrupt.cause }
    }
}

async fn quarantine(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    Extension(inspection): Tree,
) -> Result<Response, ApiError> {
    may(&caller, Operation::Read)?;
    let records = api.store.quarantined().await?.into_iter().map(UnreadableRecord::from).collect();
    Ok(Json(Quarantine { actors: inspection.quarantine().await, records }).into_response())
}

/// What clouds hold of ours that no record owns; `?region=<id>&after=<region>/<kind>/<id>&limit=100`.
async fn orphans(
    Authenticated(caller): Authenticated,
    Extension(inspection): Tree,
    query: QueryElements,
) -> Result<Response, ApiError> {
    may(&caller, Operation::Read)?;
    query.only(&["region", "after", "limit"])?;
    let limit = query.value::<usize>("limit")?.unwrap_or(ORPHANS_PAGE_MAX);
    if !(1..=ORPHANS_PAGE_MAX).contains(&limit) {
        return Err(ApiError::invalid_element());
    }
    let after = query.value::<String>("after")?.map(|text| placed_key_of(&text)).transpose()?;
    let page = OrphanPage { region: query.value("region")?, after, limit };
    Ok(Json(inspection.orphans(page).await).into_response())
}

async fn verb(
    Authenticated(caller): Authenticated,
    Extension(inspection): Tree,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let key = path_key(&path)?;
    trail.resource(key);
    may(&caller, Operation::Update)?;
    let verb = OperatorVerb::from_word(path.text("verb")?).ok_or_else(ApiError::not_found)?;
    trail.operation(verb.word());
    match inspection.verb(key, verb).await {
        Ok(()) => Ok(StatusCode::ACCEPTED),
        Err(VerbError::NotFound) => Err(ApiError::not_found()),
        Err(VerbError::Refused(text)) => Err(ApiError::new(Failure::Conflict, text)),
        Err(VerbError::Unavailable) => Err(ApiError::unavailable()),
    }
}

async fn simulated(inspection: &dyn Inspection, path: &PathElements) -> Result<Arc<dyn SimulatedAdmin>, ApiError> {
    let region: RegionId = path.id("regionId")?;
    inspection.simulated(region).await.ok_or_else(ApiError::not_found)
}

async fn inventory(
    Authenticated(caller): Authenticated,
    Extension(inspection): Tree,
    path: PathElements,
) -> Result<Response, ApiError> {
    may(&caller, Operation::Read)?;
    let cloud = simulated(inspection.as_ref(), &path).await?;
    Ok(Json(cloud.inventory().await).into_response())
}

/// The cloud's log, from `?after=<sequence>`.
async fn calls(
    Authenticated(caller): Authenticated,
    Extension(inspection): Tree,
    path: PathElements,
    query: QueryElements,
) -> Result<Response, ApiError> {
    may(&caller, Operation::Read)?;
    query.only(&["after"])?;
    let cloud = simulated(inspection.as_ref(), &path).await?;
    Ok(Json(cloud.calls(query.value("after")?.unwrap_or(0)).await).into_response())
}

async fn inject(
    Authenticated(caller): Authenticated,
    Extension(inspection): Tree,
    trail: Trail,
    path: PathElements,
    JsonBody(fault): JsonBody<serde_json::Value>,
) -> Result<StatusCode, ApiError> {
    trail.resource(path.id::<RegionId>("regionId")?.key());
    may(&caller, Operation::Update)?;
    let cloud = simulated(inspection.as_ref(), &path).await?;
    cloud.inject(fault).await.map_err(|invalid| ApiError::invalid(invalid.to_string()))?;
    Ok(StatusCode::NO_CONTENT)
}

async fn clear(
    Authenticated(caller): Authenticated,
    Extension(inspection): Tree,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    trail.resource(path.id::<RegionId>("regionId")?.key());
    may(&caller, Operation::Update)?;
    simulated(inspection.as_ref(), &path).await?.clear().await;
    Ok(StatusCode::NO_CONTENT)
}
