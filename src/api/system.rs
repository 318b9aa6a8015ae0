//! What a listener says of itself: its version, its health, and where its tokens come from.

use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::context::RequestContext;
use super::error::ApiError;
use super::extract::Authenticated;
use super::openapi::CommonErrors;
use crate::model::ids::OrganizationId;

pub const PROTECTED_RESOURCE_PATH: &str = "/.well-known/openid-protected-resource";

/// A probe is asked every few seconds and must not pile up behind a store that hangs.
const PROBE_DURATION_MAX: Duration = Duration::from_secs(2);

/// The documented paths of every service.
pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(version)).routes(routes!(protected_resource))
}

/// What probes ask, on every listener.
pub fn unauthenticated() -> Router<Shared> {
    Router::new().route("/healthz", get(healthy)).route("/readyz", get(ready))
}

/// Which release answers.
#[derive(Serialize, ToSchema)]
#[schema(as = serviceVersionRead)]
pub struct ServiceVersion {
    name: &'static str,
    version: &'static str,
}

/// Which release is deployed.
#[utoipa::path(
    get, path = "/api/version", operation_id = "getVersion", tag = "Version",
    responses((status = 200, body = ServiceVersion), CommonErrors),
    security(("bearer" = []))
)]
async fn version(Authenticated(_caller): Authenticated) -> Json<ServiceVersion> {
    Json(ServiceVersion { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") })
}

/// How a client gets a token for this resource.
#[derive(Serialize, ToSchema)]
#[schema(as = protectedResourceMetadata)]
pub struct ProtectedResource {
    resource: String,
    authorization_servers: Vec<String>,
    scopes_supported: Vec<String>,
    bearer_methods_supported: Vec<&'static str>,
}

/// What a refused client reads next.
#[utoipa::path(
    get, path = "/.well-known/openid-protected-resource", operation_id = "getProtectedResourceMetadata",
    tag = "Discovery", responses((status = 200, body = ProtectedResource))
)]
async fn protected_resource(State(api): State<Shared>, Extension(context): Extension<RequestContext>) -> Response {
    let body = ProtectedResource {
        resource: format!("https://{}", context.host),
        authorization_servers: vec![],
        scopes_supported: vec![],
        bearer_methods_supported: vec!["header"],
    };
    let cache = format!("max-age={}, private", api.settings.cache_max_age_s);
    ([(header::CACHE_CONTROL, cache)], Json(body)).into_response()
}

/// The process runs.
async fn healthy() -> StatusCode {
    StatusCode::OK
}

/// The store answers, so requests can be taken.
async fn ready(State(api): State<Shared>) -> Result<StatusCode, ApiError> {
    let probe = api.store.get(OrganizationId(uuid::Uuid::nil()).key());
    match tokio::time::timeout(PROBE_DURATION_MAX, probe).await {
        Ok(Ok(_)) => Ok(StatusCode::OK),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(ApiError::unavailable()),
    }
}
