//! The description of the surface, made from the code that serves it.

use std::sync::Arc;

use axum::routing::get;
use axum::{Json, Router};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use super::Shared;
use super::described;
use super::document;
use super::error::ErrorBody;
use super::staging::DryRun;

pub const PATH: &str = "/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(title = "Regent", description = "Governs cloud regions."),
    modifiers(&Bearer),
    components(schemas(ErrorBody, DryRun))
)]
struct Description;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        document.components.get_or_insert_default().add_security_scheme("bearer", scheme);
    }
}

/// An empty router that carries the head of the document.
pub fn described() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Description::openapi())
}

/// Serves the finished document.
pub fn serve(document: &utoipa::openapi::OpenApi) -> Router<Shared> {
    // Described by types that serialize; should they ever not, an empty document says so to every test.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    described::complete(&mut document);
    let document = Arc::new(document::refined(document));
    Router::new().route(PATH, get(move || std::future::ready(Json(Arc::clone(&document)))))
}

/// What any authenticated operation may answer besides its own codes.
#[derive(IntoResponses)]
pub enum CommonErrors {
    /// A malformed request.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// No valid token.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// Not permitted.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// The caller's organization sends more than it may.
    #[response(status = 429)]
    TooManyRequests(ErrorBody),
    /// A failure inside.
    #[response(status = 500)]
    Internal(ErrorBody),
    /// Overload, or the store is away.
    #[response(status = 503)]
    Unavailable(ErrorBody),
}

/// What any operation with a body may answer besides.
#[derive(IntoResponses)]
pub enum BodyErrors {
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// The body is not JSON.
    #[response(status = 415)]
    UnsupportedMediaType(ErrorBody),
}

/// What an operation may answer whose body can be well formed and still not be meant.
#[derive(IntoResponses)]
pub enum ContradictionErrors {
    /// The request contradicts itself, or what it names.
    #[response(status = 422)]
    Unprocessable(ErrorBody),
}
