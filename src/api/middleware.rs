//! What happens to every request around its handler, outermost first.
//!
//! ```text
//!   observe    trace id, request id, span, error bodies, audit, metrics      sees every answer
//!   cors       preflights, and the headers that let a browser read an answer
//!   discard    what is left of a body that nobody read (`unread`)
//!   routing    unknown paths and wrong methods end here
//!   announce   what is said of the first version
//!   admit      a bounded number at a time
//!   panics     one bad request is one 500
//!   deadline   a bounded time
//!   handler
//! ```
//!
//! Nothing asks for a token before routing: an unknown path is 404 and a wrong method 405 to anybody.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, Response as HttpResponse, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tracing::Instrument;

use super::Shared;
use super::audit;
use super::context::{REQUEST_ID, RequestContext};
use super::error::{ApiError, ErrorBody, Failure};

/// How long a request may take until its answer begins. Accepting intent takes milliseconds; what waits longer than
/// this waits for something that is not coming, and its client has usually given up.
pub const REQUEST_DURATION_MAX: Duration = Duration::from_secs(30);

/// How many requests are worked on at once. Each may hold a body of a mebibyte, so this also bounds memory; fewer
/// would let one slow store refuse clients that could have waited.
pub const IN_FLIGHT_MAX: usize = 1024;

const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");

/// The outermost layer. Nothing leaves without passing here.
pub async fn observe(State(api): State<Shared>, mut request: Request, next: Next) -> Response {
    let context = RequestContext::of(request.headers(), request.uri(), &api.ambient);
    let method = request.method().clone();
    request.extensions_mut().insert(context.clone());
    let began = tokio::time::Instant::now();
    let span = tracing::info_span!(
        "request", trace_id = %context.trace_id, request_id = %context.request_id, %method
    );
    let is_mutation = audit::is_mutation(&method);
    let (asked, of) = (method.clone(), context.clone());
    let seen = async move {
        let response = finish(next.run(request).await, &of);
        let status = response.status();
        if status.is_server_error() {
            tracing::warn!(status = status.as_u16(), "answered");
        } else if status.is_client_error() {
            tracing::info!(status = status.as_u16(), "answered");
        } else {
            tracing::debug!(status = status.as_u16(), "answered");
        }
        let routed = response.extensions().get::<MatchedPath>().is_some();
        if routed && (is_mutation || of.trail.entry().hands_out) {
            audit::record(&asked, &of, status);
        }
        response
    };
    let seen = seen.instrument(span);
    let response = if is_mutation {
        completed(seen).await.unwrap_or_else(|error| finish(error.into_response(), &context))
    } else {
        seen.await
    };
    let route = response.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    measure(&method, route, response.status().as_u16(), began.elapsed());
    response
}

/// Runs to its end what may change something, although its client may hang up: what was changed must be audited.
#[expect(clippy::disallowed_methods, reason = "awaited by its client; without one, a panic is still logged")]
async fn completed(seen: impl Future<Output = Response> + Send + 'static) -> Result<Response, ApiError> {
    let watched = AssertUnwindSafe(seen).catch_unwind().map(|ended| ended.map_err(|panic| of_panic(&*panic)));
    // The only other end of a task is that of the process.
    tokio::spawn(watched).await.unwrap_or_else(|_| Err(ApiError::unavailable()))
}

/// Labels are the route's pattern and a standard method, never what the client sent: a metric's labels are bounded.
fn measure(method: &Method, route: Option<String>, status: u16, took: Duration) {
    let standard = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS];
    let method = if standard.contains(method) { method.to_string() } else { "other".to_owned() };
    let route = route.unwrap_or_else(|| "unknown".to_owned());
    let labels = [("method", method), ("route", route), ("status", status.to_string())];
    metrics::counter!("regent_http_requests_total", &labels).increment(1);
    metrics::histogram!("regent_http_request_duration_seconds", &labels).record(took.as_secs_f64());
}

/// Writes the body of an error, and the headers that every answer has.
fn finish(response: Response, context: &RequestContext) -> Response {
    let status = response.status();
    let mut response =
        if status.is_client_error() || status.is_server_error() { explain(response, context) } else { response };
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(NO_CACHE);
    if let Ok(id) = HeaderValue::from_str(&context.request_id) {
        headers.insert(HeaderName::from_static(REQUEST_ID), id);
    }
    response
}

fn explain(response: Response, context: &RequestContext) -> Response {
    let (mut parts, _) = response.into_parts();
    let error = parts.extensions.remove::<ApiError>().unwrap_or_else(|| ApiError::of_status(parts.status));
    let headers = &mut parts.headers;
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CACHE_CONTROL, NO_CACHE);
    if let Some(seconds) = error.failure.retry_after_s() {
        headers.entry(header::RETRY_AFTER).or_insert(HeaderValue::from(seconds));
    }
    if error.failure == Failure::AccessDenied {
        let challenge = format!(
            "Bearer error=\"access_denied\",error_description=\"{}\",resource_metadata=\"https://{}{}\"",
            error.description,
            context.host,
            super::system::PROTECTED_RESOURCE_PATH,
        );
        if let Ok(challenge) = HeaderValue::from_str(&challenge) {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
    }
    let body = ErrorBody {
        error: error.failure.word(),
        error_description: error.description.into_owned(),
        trace_id: context.trace_id.clone(),
    };
    let (described, body) = Json(body).into_response().into_parts();
    parts.status = error.failure.status();
    parts.headers.extend(described.headers);
    Response::from_parts(parts, body)
}

/// Tells the layers outside the router which route was taken.
pub async fn note_route(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    if let Some(route) = route {
        response.extensions_mut().insert(route);
    }
    response
}

/// Turns away what cannot be worked on now. A place is held until the last byte of the answer is sent, because a
/// streamed list costs as long as it lasts.
pub async fn admit(State(places): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    let Ok(place) = places.try_acquire_owned() else {
        return ApiError::unavailable().into_response();
    };
    next.run(request).await.map(|body| {
        if body.size_hint().exact().is_some() {
            // It is all there already: wrapping it would only hide its length from the client.
            return body;
        }
        Body::new(body.map_frame(move |frame| {
            let _held = &place;
            frame
        }))
    })
}

/// Turns a panic into an answer; what it said goes to the log alone.
#[must_use]
#[expect(clippy::needless_pass_by_value, reason = "the signature that the panic layer calls")]
pub fn panicked(panic: Box<dyn Any + Send + 'static>) -> HttpResponse<Body> {
    of_panic(&*panic).into_response()
}

fn of_panic(panic: &(dyn Any + Send)) -> ApiError {
    let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    ApiError::internal(&format_args!("panic: {}", said.unwrap_or("without words")))
}

/// Ends a request that takes too long. What it has committed by then stays committed.
pub async fn deadline(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_DURATION_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::unavailable().into_response(),
    }
}
