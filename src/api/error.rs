//! The one shape of every error answer, and what each failure inside becomes outside.
//!
//! A handler returns an [`ApiError`]; turning it into a response only attaches it. The outermost middleware writes
//! the body, because only there are the trace id and the host known, and because answers that did not come from a
//! handler (unknown path, wrong method, panic) must read the same.

use std::borrow::Cow;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::identity::AuthenticationError;
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::Kind;
use crate::model::record::CorruptRecord;
use crate::store::{Refusal, StoreError};

/// When a client that was turned away may come back. The store's hiccups and the bursts behind an overload last
/// about this long; a larger number would leave an idle server waiting for its clients.
pub const RETRY_AFTER_S: u32 = 1;

/// The same, for an organization that has used as many idempotency keys as may be kept: they run out one by one over
/// a day, so that some minutes free some of them.
const REMEMBERED_RETRY_AFTER_S: u32 = 300;

/// The body of every error answer.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = error)]
pub struct ErrorBody {
    pub error: ErrorWord,
    pub error_description: String,
    pub trace_id: String,
}

/// The terse words of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = errorWord)]
pub enum ErrorWord {
    InvalidRequest,
    AccessDenied,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Conflict,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    UnprocessableContent,
    ServerError,
}

/// What a request can fail with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    InvalidRequest,
    AccessDenied,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Conflict,
    /// The resource is not the one that the client read.
    PreconditionFailed,
    TooLarge,
    UnsupportedMediaType,
    Unprocessable,
    /// The caller's organization sends more than it may; nothing was done.
    TooManyRequests {
        retry_after_s: u32,
    },
    /// Nothing was done, or it is not known what was done: come back.
    Unavailable,
    Internal,
}

impl Failure {
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest => StatusCode::BAD_REQUEST,
            Self::AccessDenied => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Conflict => StatusCode::CONFLICT,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    #[must_use]
    pub const fn word(self) -> ErrorWord {
        match self {
            Self::InvalidRequest => ErrorWord::InvalidRequest,
            Self::AccessDenied => ErrorWord::AccessDenied,
            Self::Forbidden => ErrorWord::Forbidden,
            Self::NotFound => ErrorWord::NotFound,
            Self::MethodNotAllowed => ErrorWord::MethodNotAllowed,
            // The contract's list of words has none for this; it is a conflict that the client has asked to be told of.
            Self::Conflict | Self::PreconditionFailed => ErrorWord::Conflict,
            Self::TooLarge => ErrorWord::RequestEntityTooLarge,
            Self::UnsupportedMediaType => ErrorWord::UnsupportedMediaType,
            Self::Unprocessable => ErrorWord::UnprocessableContent,
            // The contract's list of words has none for "come back later".
            Self::TooManyRequests { .. } | Self::Unavailable | Self::Internal => ErrorWord::ServerError,
        }
    }

    /// When whoever was turned away may come back.
    #[must_use]
    pub const fn retry_after_s(self) -> Option<u32> {
        match self {
            Self::TooManyRequests { retry_after_s } => Some(retry_after_s),
            Self::Unavailable => Some(RETRY_AFTER_S),
            _ => None,
        }
    }

    /// What an answer says when whoever made it said nothing.
    const fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::UNAUTHORIZED => Self::AccessDenied,
            StatusCode::FORBIDDEN => Self::Forbidden,
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => Self::MethodNotAllowed,
            StatusCode::CONFLICT => Self::Conflict,
            StatusCode::PRECONDITION_FAILED => Self::PreconditionFailed,
            StatusCode::PAYLOAD_TOO_LARGE => Self::TooLarge,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::UnsupportedMediaType,
            StatusCode::UNPROCESSABLE_ENTITY => Self::Unprocessable,
            StatusCode::TOO_MANY_REQUESTS => Self::TooManyRequests { retry_after_s: RETRY_AFTER_S },
            StatusCode::SERVICE_UNAVAILABLE => Self::Unavailable,
            status if status.as_u16() < 500 => Self::InvalidRequest,
            _ => Self::Internal,
        }
    }
}

/// A failure and the text that its user sees. The text never carries what the user sent or what a cloud said.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{description}")]
pub struct ApiError {
    pub failure: Failure,
    pub description: Cow<'static, str>,
}

impl ApiError {
    pub fn new(failure: Failure, description: impl Into<Cow<'static, str>>) -> Self {
        Self { failure, description: description.into() }
    }

    pub fn invalid(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Failure::InvalidRequest, description)
    }

    /// A malformed part of the URL.
    #[must_use]
    pub const fn invalid_element() -> Self {
        Self { failure: Failure::InvalidRequest, description: Cow::Borrowed("invalid path/query element") }
    }

    pub fn unprocessable(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Failure::Unprocessable, description)
    }

    pub fn forbidden(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Failure::Forbidden, description)
    }

    /// Names what was missing, which the caller's role decides and no foreign resource.
    #[must_use]
    pub fn not_permitted(endpoint: Endpoint, operation: Operation) -> Self {
        Self::forbidden(format!("permission {} on {} is required", operation.word(), endpoint.name()))
    }

    /// One text for what is unknown and for what is somebody else's.
    #[must_use]
    pub const fn not_found() -> Self {
        Self { failure: Failure::NotFound, description: Cow::Borrowed("the requested resource does not exist") }
    }

    #[must_use]
    pub const fn unavailable() -> Self {
        Self {
            failure: Failure::Unavailable,
            description: Cow::Borrowed("the service is temporarily unavailable, try again later"),
        }
    }

    #[must_use]
    pub const fn too_many_requests(retry_after_s: u32) -> Self {
        Self::unexplained(Failure::TooManyRequests { retry_after_s })
    }

    /// The cause is for the operator's log; the user learns the trace id that finds it there.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed inside");
        Self::unexplained(Failure::Internal)
    }

    /// For answers that nobody explained.
    #[must_use]
    pub const fn of_status(status: StatusCode) -> Self {
        Self::unexplained(Failure::of_status(status))
    }

    const fn unexplained(failure: Failure) -> Self {
        let text = match failure {
            Failure::AccessDenied => "authentication is required",
            Failure::Forbidden => "the operation is not permitted",
            Failure::NotFound => return Self::not_found(),
            Failure::MethodNotAllowed => "the method is not allowed for this path",
            Failure::Conflict => "the resource already exists",
            Failure::PreconditionFailed => "the resource is not as the If-Match header says; read it again",
            Failure::TooLarge => "the request body is too large",
            Failure::UnsupportedMediaType => "the request body must be application/json",
            Failure::Unprocessable => "the request cannot be carried out",
            Failure::TooManyRequests { .. } => "the organization sends more requests than it may",
            Failure::Unavailable => return Self::unavailable(),
            Failure::InvalidRequest => "the request is malformed",
            Failure::Internal => "an internal error occurred",
        };
        Self { failure, description: Cow::Borrowed(text) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.failure.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<AuthenticationError> for ApiError {
    fn from(error: AuthenticationError) -> Self {
        match error {
            AuthenticationError::Invalid => Self::new(Failure::AccessDenied, "the bearer token is not valid"),
            AuthenticationError::Principal => {
                Self::invalid("the header X-Principal or X-Impersonate is missing or malformed")
            }
            AuthenticationError::Unavailable(cause) => {
                tracing::warn!(%cause, "identities cannot be read");
                Self::unavailable()
            }
        }
    }
}

impl From<CorruptRecord> for ApiError {
    fn from(error: CorruptRecord) -> Self {
        Self::internal(&error)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => refusal.into(),
            StoreError::Unavailable(cause) => {
                tracing::warn!(%cause, "the store is away");
                Self::unavailable()
            }
            StoreError::Corrupt(corrupt) => corrupt.into(),
        }
    }
}

/// What a refusal means when the handler has nothing better to say. Keys stay inside: they may be foreign.
impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Exists(key) => Self::new(Failure::Conflict, format!("the {} already exists", key.kind)),
            Refusal::Missing(_) => Self::not_found(),
            Refusal::Deleting(key) => Self::invalid(deleting_text(key.kind)),
            // Clients never retry a 5xx by themselves, but one that lost every one of our own retries is in a storm.
            Refusal::Conflict(_) | Refusal::Exhausted(_) => Self::unavailable(),
            Refusal::InUse { target, .. } | Refusal::HasChildren(target) => {
                Self::forbidden(format!("the {} is in use and cannot be deleted", target.kind))
            }
            Refusal::QuotaExceeded { .. } => Self::forbidden(refusal.to_string()),
            Refusal::Protected(key) => Self::forbidden(format!(
                "the {} or something that goes with it is protected from deletion; set deletionProtection to false first",
                key.kind.noun()
            )),
            Refusal::Remembered => Self::new(Failure::Conflict, "the request has been answered before"),
            Refusal::TooManyRemembered => Self::too_many_requests(REMEMBERED_RETRY_AFTER_S),
        }
    }
}

#[must_use]
pub fn deleting_text(kind: Kind) -> String {
    format!("the {} is being deleted", kind.noun())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::Key;
    use crate::model::quota::QuotaKind;
    use uuid::Uuid;

    const EVERY: [Failure; 13] = [
        Failure::InvalidRequest,
        Failure::AccessDenied,
        Failure::Forbidden,
        Failure::NotFound,
        Failure::MethodNotAllowed,
        Failure::Conflict,
        Failure::PreconditionFailed,
        Failure::TooLarge,
        Failure::UnsupportedMediaType,
        Failure::Unprocessable,
        Failure::TooManyRequests { retry_after_s: RETRY_AFTER_S },
        Failure::Unavailable,
        Failure::Internal,
    ];

    #[test]
    fn an_answer_that_nobody_explained_keeps_its_status() {
        for failure in EVERY {
            assert_eq!(Failure::of_status(failure.status()), failure, "{failure:?}");
        }
        assert_eq!(Failure::of_status(StatusCode::IM_A_TEAPOT), Failure::InvalidRequest);
        assert_eq!(Failure::of_status(StatusCode::BAD_GATEWAY), Failure::Internal);
    }

    #[test]
    fn a_refusal_never_names_a_resource() {
        let id = Uuid::from_u128(0x00ab_cdef);
        let key = Key::new(Kind::Project, id);
        let refusals = [
            Refusal::Exists(key),
            Refusal::Missing(key),
            Refusal::Deleting(key),
            Refusal::Conflict(key),
            Refusal::InUse { target: key, holders: vec![] },
            Refusal::HasChildren(key),
        ];
        for refusal in refusals {
            let error = ApiError::from(refusal);
            assert!(!error.description.contains(&id.to_string()), "{error:?}");
        }
    }

    #[test]
    fn a_refused_quota_says_by_how_much() {
        let error = ApiError::from(Refusal::QuotaExceeded { kind: QuotaKind::Networks, total: 6, limit: 5 });
        assert_eq!(error.failure, Failure::Forbidden);
        assert_eq!(error.description, "total networks allocation of 6 would exceed quota limit of 5");
    }
}
