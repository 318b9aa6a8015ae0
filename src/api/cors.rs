//! What browsers need in order to call us from a page of another origin.
//!
//! The methods of a route are not listed a second time here: an `OPTIONS` request reaches the router, whose own
//! refusal says in `Allow` what the route can do.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::error::ApiError;

const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Content-Type, traceparent, tracestate, If-Match, Idempotency-Key, Last-Event-ID",
);

const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("Deprecation, ETag, Idempotency-Replayed, Link, Retry-After, x-request-id");

/// A day: the answer to a preflight changes only with a new release.
pub const MAX_AGE_S_DEFAULT: u32 = 86_400;

/// Which pages may read our answers. Requests carry bearer tokens, never cookies, so `*` gives nothing away.
#[derive(Clone, Debug)]
pub struct CorsPolicy {
    origins: Vec<HeaderValue>,
    max_age_s: u32,
}

impl Default for CorsPolicy {
    fn default() -> Self {
        Self { origins: vec![HeaderValue::from_static("*")], max_age_s: MAX_AGE_S_DEFAULT }
    }
}

/// An origin that cannot stand in a header.
#[derive(Debug, thiserror::Error)]
#[error("an allowed origin must be visible ASCII, such as https://console.example.org")]
pub struct InvalidOrigin;

impl CorsPolicy {
    /// No origins at all means any.
    pub fn new(origins: &[String], max_age_s: u32) -> Result<Self, InvalidOrigin> {
        if origins.is_empty() {
            return Ok(Self { max_age_s, ..Self::default() });
        }
        let parsed = origins.iter().map(|origin| origin.parse().map_err(|_| InvalidOrigin));
        Ok(Self { origins: parsed.collect::<Result<_, _>>()?, max_age_s })
    }

    /// The origin that may read the answer: the asking one when it is listed, else the first, which refuses it.
    fn allowed_for(&self, origin: Option<&HeaderValue>) -> Option<HeaderValue> {
        let listed = origin.and_then(|origin| self.origins.iter().find(|allowed| *allowed == origin));
        listed.or(self.origins.first()).cloned()
    }
}

pub async fn cors(State(api): State<Shared>, request: Request, next: Next) -> Response {
    let policy = &api.settings.cors;
    let allowed = policy.allowed_for(request.headers().get(header::ORIGIN));
    let asks = request.method() == Method::OPTIONS && request.headers().contains_key(header::ORIGIN);
    let names_method = request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = next.run(request).await;
    if asks && response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response = if names_method {
            preflight(response.headers(), policy)
        } else {
            ApiError::invalid("a preflight names its method in Access-Control-Request-Method").into_response()
        };
    }
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_name(header::ORIGIN));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    if let Some(allowed) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    }
    response
}

fn preflight(refused: &HeaderMap, policy: &CorsPolicy) -> Response {
    let methods = refused.get(header::ALLOW).and_then(|allow| allow.to_str().ok()).unwrap_or_default();
    let mut methods = methods.split(',').map(str::trim).filter(|method| !method.is_empty()).collect::<Vec<_>>();
    methods.push(Method::OPTIONS.as_str());
    let mut response = StatusCode::NO_CONTENT.into_response();
    let mut put = |name: HeaderName, value: HeaderValue| response.headers_mut().insert(name, value);
    if let Ok(methods) = HeaderValue::from_str(&methods.join(", ")) {
        put(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    put(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
    put(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(policy.max_age_s));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_origin_is_echoed_and_any_other_gets_the_first() {
        let origins = ["https://a.example".to_owned(), "https://b.example".to_owned()];
        let policy = CorsPolicy::new(&origins, 60).expect("valid");
        let allowed = |origin: &'static str| policy.allowed_for(Some(&HeaderValue::from_static(origin)));
        assert_eq!(allowed("https://b.example"), Some(HeaderValue::from_static("https://b.example")));
        assert_eq!(allowed("https://evil.example"), Some(HeaderValue::from_static("https://a.example")));
    }

    #[test]
    fn without_a_list_any_origin_may_read() {
        let policy = CorsPolicy::new(&[], 60).expect("valid");
        assert_eq!(policy.allowed_for(None), Some(HeaderValue::from_static("*")));
    }
}
