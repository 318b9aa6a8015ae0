//! Answers that are kept for a request with an idempotency key, and how they are given again.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};

use crate::api::access::{endpoint_in, endpoint_of, scope_of};
use crate::api::context::TrailEntry;
use crate::api::error::{ApiError, Failure};
use crate::identity::Caller;
use crate::identity::acl::Operation;
use crate::model::ids::Kind;
use crate::model::metadata::{ApiVersion, Placement};

/// Says that an answer is one of before.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The longest answer that is kept. A resource with every list full is about as long; all that may be kept of one
/// organization stays within some hundred megabytes.
const BODY_LEN_MAX: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptAnswer {
    status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    body: KeptBody,
    /// What the request was about, so that whoever has lost all rights to it gets nothing of it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    #[serde(flatten)]
    placement: Placement,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum KeptBody {
    Json(String),
    Empty,
    /// It carried a secret, which is shown once.
    Secret,
    TooLong,
}

/// An answer that was made, with what is kept of it.
pub async fn kept(response: Response, trail: &TrailEntry) -> Result<(Response, KeptAnswer), ApiError> {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(|error| ApiError::internal(&error))?.to_bytes();
    let carries_secret = parts.headers.get(header::CACHE_CONTROL).is_some_and(|value| value == "no-store");
    let body = match std::str::from_utf8(&bytes) {
        _ if carries_secret => KeptBody::Secret,
        Ok("") => KeptBody::Empty,
        Ok(text) if text.len() <= BODY_LEN_MAX => KeptBody::Json(text.to_owned()),
        Ok(_) | Err(_) => KeptBody::TooLong,
    };
    let tag = parts.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let answer = KeptAnswer { status: parts.status.as_u16(), tag, body, kind: trail.kind, placement: trail.scope };
    Ok((Response::from_parts(parts, Body::from(bytes)), answer))
}

impl KeptAnswer {
    /// The answer of then, for whoever may still do anything at all to what it is about.
    pub fn replayed(self, caller: &Caller) -> Result<Response, ApiError> {
        if !self.is_for(caller) {
            return Err(ApiError::of_status(StatusCode::FORBIDDEN));
        }
        let body = match self.body {
            KeptBody::Json(text) => text,
            KeptBody::Empty => String::new(),
            KeptBody::Secret => {
                let text = "the request was done already, and its answer carried a secret; rotate for a new one";
                return Err(ApiError::new(Failure::Conflict, text));
            }
            KeptBody::TooLong => {
                let text = "the request was done already, and its answer was too long to be kept; read the resource";
                return Err(ApiError::new(Failure::Conflict, text));
            }
        };
        let status = StatusCode::from_u16(self.status).map_err(|error| ApiError::internal(&error))?;
        let has_body = !body.is_empty();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_TYPE);
        if has_body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(tag) = self.tag.and_then(|tag| tag.parse().ok()) {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        Ok(response)
    }

    fn is_for(&self, caller: &Caller) -> bool {
        let scope = scope_of(&self.placement);
        let may = |endpoint| Operation::ALL.into_iter().any(|operation| caller.allows(endpoint, operation, scope));
        match self.kind.and_then(|kind| endpoint_of(kind).zip(endpoint_in(kind, ApiVersion::V1))) {
            Some((current, first)) => may(current) || may(first),
            None => self.placement.organization.is_none_or(|organization| caller.knows(organization)),
        }
    }
}
