//! What a cloud's refusals mean.
//!
//! Services say the same thing with different numbers: a used-up quota is 403 of Nova and Octavia, 409 of Neutron, 413 of
//! Cinder. And the same number means different things: a 404 of a service says that something is gone, a 404 of the proxy
//! before it says nothing at all. Who answered is told by the request id that every service puts into its answers.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use openstack_sdk_core::api::ApiError;
use serde_json::Value;

use crate::providers::ProviderError;

/// How much of a cloud's words is kept. They are for operators; some services answer with a page.
const MESSAGE_LEN_MAX: usize = 300;

/// What went wrong with a call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// Keystone gave no token for these credentials and this scope.
    #[error("the log-in was refused")]
    LoginRefused,
    #[error("{0}")]
    Unreachable(String),
    #[error("the catalogue has no endpoint for {service} {}", .region.as_ref().map_or_else(String::new, |name| format!("in region {name}")))]
    NoEndpoint { service: String, region: Option<String> },
    #[error("the credentials cannot be read: {0}")]
    Credentials(String),
}

/// An answer that is not a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    /// Neutron's word for it.
    pub kind: Option<String>,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// It came from a service, and not from something in front of it.
    pub is_of_service: bool,
}

impl Refusal {
    pub(super) fn of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let parsed = serde_json::from_slice::<Value>(body).ok();
        let (kind, message) = parsed.as_ref().map(words).unwrap_or_default();
        let named = ["x-openstack-request-id", "openstack-request-id", "x-compute-request-id"];
        let is_of_service = named.iter().any(|name| headers.contains_key(*name)) || message.is_some();
        let message = message.unwrap_or_else(|| "no reason was given".to_owned());
        let message = message.chars().take(MESSAGE_LEN_MAX).collect();
        Self { status, kind, message, retry_after: retry_after(headers), is_of_service }
    }

    /// Could a new token help? Nova hands on the one that it got: it may believe in it for minutes after its end, while
    /// Glance does not, and then only quotes what that says.
    pub(super) fn blames_token(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
            || (self.status == StatusCode::BAD_REQUEST && self.message.starts_with("Not authorized for image"))
    }
}

/// Neutron's and everybody else's word, and the message. Each service wraps it differently: one object inside another,
/// Octavia's flat one, Placement's list.
fn words(body: &Value) -> (Option<String>, Option<String>) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(fault) = body.get("faultstring") {
        return (None, text(fault));
    }
    if let Some(first) = body.get("errors").and_then(|errors| errors.get(0)) {
        return (None, first.get("detail").or_else(|| first.get("title")).and_then(text));
    }
    let Some(inner) = body.as_object().and_then(|object| object.values().next()) else { return (None, None) };
    let message = inner.get("message").or_else(|| inner.get("error_message")).or_else(|| inner.get("faultstring"));
    (inner.get("type").and_then(text), message.and_then(text))
}

/// Seconds, or a date by the answerer's own clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let wait = text("retry-after")?.trim();
    if let Ok(seconds) = wait.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp());
    at(wait)?.duration_since(at(text("date")?)?).try_into().ok()
}

impl From<CallError> for ProviderError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => refusal.into(),
            CallError::LoginRefused => Self::Unauthorized,
            CallError::Unreachable(_) | CallError::NoEndpoint { .. } | CallError::Credentials(_) => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}

impl From<Refusal> for ProviderError {
    fn from(refusal: Refusal) -> Self {
        let Refusal { status, kind, message, retry_after, is_of_service } = refusal;
        let is_over_quota = kind.as_deref() == Some("OverQuota");
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE if is_of_service => Self::NotFound,
            StatusCode::FORBIDDEN if is_about_quota(&message) => Self::Quota,
            StatusCode::CONFLICT if is_over_quota => Self::Quota,
            StatusCode::PAYLOAD_TOO_LARGE => Self::Quota,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Self::Unauthorized,
            StatusCode::CONFLICT => Self::Conflict(message),
            StatusCode::TOO_MANY_REQUESTS => Self::Throttled { retry_after },
            StatusCode::REQUEST_TIMEOUT => Self::Unavailable("timed out".to_owned()),
            status if status.is_client_error() && is_of_service => Self::Rejected(message),
            status => Self::Unavailable(format!("{} was answered", status.as_u16())),
        }
    }
}

/// Is it that a quota is used up, and not that we may not change one?
fn is_about_quota(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("quota") && (message.contains("exceeded") || message.contains("has been met"))
}

/// What the SDK makes of a call.
pub(in crate::providers::openstack) fn provider_error(error: ApiError<CallError>) -> ProviderError {
    match error {
        ApiError::Client { source } => source.into(),
        ApiError::MicroversionIncompatible { .. } => {
            ProviderError::Unsupported("this with so old a version of the service")
        }
        ApiError::ResourceNotFound => ProviderError::NotFound,
        // Neither is the cloud's refusal, nor will it be better by waiting: but it may be a proxy that answered.
        error => ProviderError::Unavailable(shortened(&error.to_string())),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MESSAGE_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, headers: &[(&'static str, &str)], body: &str) -> ProviderError {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a value"));
        }
        Refusal::of(StatusCode::from_u16(status).expect("a status"), &map, body.as_bytes()).into()
    }

    const OF_SERVICE: (&str, &str) = ("x-openstack-request-id", "req-1");

    #[test]
    fn a_used_up_quota_is_known_in_the_words_of_every_service() {
        let nova = r#"{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but..."}}"#;
        let octavia = r#"{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer"}"#;
        let neutron =
            r#"{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for ['port']", "detail": ""}}"#;
        let cinder = r#"{"overLimit": {"code": 413, "message": "VolumeLimitExceeded: ...", "retryAfter": "0"}}"#;
        for (status, body) in [(403, nova), (403, octavia), (409, neutron), (413, cinder)] {
            assert_eq!(refusal(status, &[OF_SERVICE], body), ProviderError::Quota, "{body}");
        }
    }

    #[test]
    fn what_is_gone_is_told_from_an_answer_of_whoever_stands_in_front() {
        let nova = r#"{"itemNotFound": {"code": 404, "message": "Instance x could not be found."}}"#;
        assert_eq!(refusal(404, &[], nova), ProviderError::NotFound);
        let glance = "<html><head><title>404 Not Found</title></head></html>";
        assert_eq!(refusal(404, &[OF_SERVICE], glance), ProviderError::NotFound);
        assert!(matches!(refusal(404, &[], glance), ProviderError::Unavailable(_)));
        for status in [500, 502, 503, 504, 408, 301] {
            assert!(matches!(refusal(status, &[], ""), ProviderError::Unavailable(_)), "{status}");
        }
    }

    #[test]
    fn everything_else_has_its_meaning() {
        let policy = r#"{"error": {"code": 403, "message": "You are not authorized", "title": "Forbidden"}}"#;
        assert_eq!(refusal(403, &[], policy), ProviderError::Unauthorized);
        let quotas = r#"{"forbidden": {"code": 403, "message": "Policy doesn't allow os-quota-sets:update"}}"#;
        assert_eq!(refusal(403, &[], quotas), ProviderError::Unauthorized);
        assert_eq!(refusal(401, &[], ""), ProviderError::Unauthorized);
        let in_use = r#"{"NeutronError": {"type": "NetworkInUse", "message": "in use", "detail": ""}}"#;
        assert_eq!(refusal(409, &[], in_use), ProviderError::Conflict("in use".to_owned()));
        let bad = r#"{"badRequest": {"code": 400, "message": "no"}}"#;
        assert_eq!(refusal(400, &[], bad), ProviderError::Rejected("no".to_owned()));
        let placement = r#"{"errors": [{"status": 400, "title": "Bad", "detail": "no"}]}"#;
        assert_eq!(refusal(400, &[], placement), ProviderError::Rejected("no".to_owned()));
    }

    #[test]
    fn the_wait_that_a_cloud_asks_for_is_kept() {
        let seconds = |headers: &[(&'static str, &str)]| refusal(429, headers, "");
        let wait = |seconds| ProviderError::Throttled { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(seconds(&[("retry-after", "7")]), wait(7));
        let by_date = [("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"), ("date", "Wed, 21 Oct 2026 07:28:00 GMT")];
        assert_eq!(seconds(&by_date), wait(30));
        assert_eq!(seconds(&[]), ProviderError::Throttled { retry_after: None });
    }
}
