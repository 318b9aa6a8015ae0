//! What can be asked about any one resource of the current version: what became of it, and who uses it.
//!
//! Both are there for whoever may read the resource, as long as it is there. What is gone has no history for anybody:
//! nothing is left that says whose it was, and who asks for somebody else's must get the answer of what never was.

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::path::{Operation as Described, ParameterBuilder, ParameterIn, PathItem, Paths};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{HttpMethod, RefOr, Required};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use super::Shared;
use super::access::readable_in;
use super::context::Trail;
use super::error::{ApiError, ErrorBody};
use super::extract::{Authenticated, PathElements};
use super::openapi::CommonErrors;
use super::resources::Asked;
use super::surfaces::{KindSurface, SURFACES};
use super::wire::wire_time;
use crate::model::condition::{Axis, Reason, Transition, Truth};
use crate::model::edge::Holder;
use crate::model::ids::{Key, Kind};

type Asks = Extension<&'static KindSurface>;

/// The same two paths below every kind.
pub fn routes() -> OpenApiRouter<Shared> {
    let of_kind = |router: OpenApiRouter<Shared>, surface: &'static KindSurface| {
        router.routes(below(surface, routes!(list_resource_events), "events")).routes(below(
            surface,
            routes!(list_resource_references),
            "references",
        ))
    };
    SURFACES.iter().fold(OpenApiRouter::new(), of_kind)
}

/// Puts a handler that serves any kind, and its description, below one of them.
fn below(
    surface: &'static KindSurface,
    (schemas, paths, handler): UtoipaMethodRouter<Shared>,
    tail: &str,
) -> UtoipaMethodRouter<Shared> {
    let path = format!("/api/v2/{}/{{{}}}/{tail}", surface.collection, surface.id);
    let described = paths.paths.into_values().find_map(|item| item.get);
    let mut operation = described.unwrap_or_else(Described::new);
    let name = surface.id.trim_end_matches("ID");
    let (head, rest) = name.split_at_checked(1).unwrap_or((name, ""));
    let what = if tail == "events" { "Events" } else { "References" };
    operation.operation_id = Some(format!("list{}{rest}{what}", head.to_uppercase()));
    operation.tags = Some(vec![surface.title.to_owned()]);
    let id = ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)));
    let id = ParameterBuilder::new()
        .name(surface.id)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(RefOr::T(id.build().into())));
    operation.parameters = Some(vec![id.build().into()]);
    let mut paths = Paths::new();
    paths.paths.insert(path, PathItem::new(HttpMethod::Get, operation));
    (schemas, paths, handler).layer(Extension(surface))
}

/// One change of how a resource stands.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = resourceEvent)]
struct ResourceEvent {
    #[schema(format = "date-time")]
    time: String,
    /// Which of its aspects: Available, Healthy or Active.
    #[schema(value_type = String)]
    condition: Axis,
    #[schema(value_type = String)]
    status: Truth,
    #[schema(value_type = String)]
    reason: Reason,
    message: String,
    /// Which of its changes it speaks of.
    observed_generation: u64,
}

impl ResourceEvent {
    fn of(transition: Transition) -> Self {
        Self {
            time: wire_time(transition.at),
            condition: transition.axis,
            status: transition.status,
            reason: transition.reason,
            message: transition.message,
            observed_generation: transition.observed_generation,
        }
    }
}

fn key_of(surface: &KindSurface, path: &PathElements) -> Result<Key, ApiError> {
    let text = path.text(surface.id)?;
    let id = crate::model::ids::parse_uuid(text).map_err(|_| ApiError::invalid_element())?;
    Ok(Key::new(surface.kind, id))
}

/// List what became of the resource: the last changes of its conditions, oldest first.
#[utoipa::path(
    get, path = "/events", tag = "",
    responses((status = 200, body = Vec<ResourceEvent>), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn list_resource_events(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    Extension(surface): Asks,
    path: PathElements,
) -> Result<Json<Vec<ResourceEvent>>, ApiError> {
    let key = key_of(surface, &path)?;
    readable_in(&api, &caller, (surface.endpoint, surface.version), key).await?;
    let history = api.store.history(key).await?;
    Ok(Json(history.into_iter().map(ResourceEvent::of).collect()))
}

/// Somebody who uses a resource, and so keeps it from being deleted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = resourceReference)]
struct ResourceReference {
    /// As references are written.
    reference: String,
    /// Of which kind it is, if it is one of this service's.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    id: Option<String>,
}

impl ResourceReference {
    fn of(holder: &Holder) -> Self {
        let key = match holder {
            Holder::Resource(key) => Some(*key),
            Holder::External(_) => None,
        };
        Self {
            reference: holder.to_string(),
            kind: key.map(|key| Kind::word(key.kind)),
            id: key.map(|key| key.id.to_string()),
        }
    }
}

/// List who uses the resource, as far as the caller may know them.
#[utoipa::path(
    get, path = "/references", tag = "",
    responses((status = 200, body = Vec<ResourceReference>), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn list_resource_references(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    Extension(surface): Asks,
    trail: Trail,
    path: PathElements,
) -> Result<Json<Vec<ResourceReference>>, ApiError> {
    let key = key_of(surface, &path)?;
    let record = readable_in(&api, &caller, (surface.endpoint, surface.version), key).await?;
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let mut known = Vec::new();
    for holder in api.store.references(key).await? {
        if asked.may_know(&record, &holder).await {
            known.push(ResourceReference::of(&holder));
        }
    }
    Ok(Json(known))
}
