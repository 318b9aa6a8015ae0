//! The page that explains the API to people, served by the process itself.
//!
//! Three files of ours and nothing from anywhere else: the page works where there is no internet, and a policy forbids
//! it to load or call anything but this server. The reference on it is made in the browser from the OpenAPI document, so
//! that it cannot disagree with what is served; the walk-through is plain text, readable without a browser.

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Shared;

pub const PATH: &str = "/docs";

const HTML: &str = include_str!("index.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Tokens are typed into this page: nothing foreign may run in it, frame it, or be told anything by it.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Nobody needs a token to read about how to use one.
pub fn routes() -> Router<Shared> {
    Router::new()
        .route(PATH, get(|| std::future::ready(file("text/html; charset=utf-8", HTML))))
        .route("/docs/page.css", get(|| std::future::ready(file("text/css; charset=utf-8", STYLE))))
        .route("/docs/page.js", get(|| std::future::ready(file("text/javascript; charset=utf-8", SCRIPT))))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer")),
    ];
    (headers, text).into_response()
}
