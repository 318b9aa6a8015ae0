//! What is known of a request whatever it asks for: its trace, its id, its host, and what the audit will say of it.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, Uri, header};

use crate::identity::Caller;
use crate::model::ambient::Ambient;
use crate::model::ids::{Key, Kind};
use crate::model::metadata::Placement;

pub const TRACEPARENT: &str = "traceparent";
pub const REQUEST_ID: &str = "x-request-id";

/// A client's own request id is echoed into headers and logs, so it must be short and plain.
const REQUEST_ID_LEN_MAX: usize = 128;

/// A host longer than a DNS name with a port is nobody's host.
const HOST_LEN_MAX: usize = 262;

/// Travels with the request as an extension.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// 32 lower-case hexadecimal digits.
    pub trace_id: String,
    pub request_id: String,
    /// As the client wrote it, when it is fit to be repeated.
    pub host: String,
    pub trail: Trail,
}

impl RequestContext {
    #[must_use]
    pub fn of(headers: &HeaderMap, uri: &Uri, ambient: &Ambient) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let trace_id = text(TRACEPARENT).and_then(trace_id_of).map(str::to_owned);
        let request_id = text(REQUEST_ID).filter(|id| is_plain_request_id(id)).map(str::to_owned);
        let host = uri.authority().map(axum::http::uri::Authority::as_str).or_else(|| text(header::HOST.as_str()));
        Self {
            trace_id: trace_id.unwrap_or_else(|| ambient.uuid().simple().to_string()),
            request_id: request_id.unwrap_or_else(|| ambient.uuid().to_string()),
            host: host.filter(|host| is_plain_host(host)).unwrap_or("localhost").to_owned(),
            trail: Trail::default(),
        }
    }
}

/// The trace id of a W3C `traceparent`; `None` when the header does not follow the standard.
fn trace_id_of(traceparent: &str) -> Option<&str> {
    let mut parts = traceparent.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let well_formed = is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    // Version 00 has exactly four parts; later versions may add more; ff is forbidden.
    let known = version != "ff" && (version != "00" || parts.next().is_none());
    let zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    (well_formed && known && !zero(trace) && !zero(parent)).then_some(trace)
}

fn is_plain_request_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=REQUEST_ID_LEN_MAX).contains(&id.len()) && id.bytes().all(plain)
}

/// The host is repeated inside a quoted header value, so nothing that could end the quotation may pass.
fn is_plain_host(host: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    (1..=HOST_LEN_MAX).contains(&host.len()) && host.bytes().all(plain)
}

/// What the audit line will say; filled in by the handler as it learns it, so that a request which failed half-way
/// is audited with what was known by then.
#[derive(Clone, Debug, Default)]
pub struct Trail(Arc<Mutex<TrailEntry>>);

#[derive(Clone, Debug, Default)]
pub struct TrailEntry {
    pub actor: Option<String>,
    /// Whom the actor speaks for, if it is a service that does.
    pub principal: Option<String>,
    pub scope: Placement,
    pub kind: Option<Kind>,
    pub id: Option<uuid::Uuid>,
    /// What was asked for, where the method does not say it.
    pub operation: Option<&'static str>,
    /// Is it asked for a secret? That is audited although nothing changes.
    pub hands_out: bool,
    /// Is it only asked what would happen?
    pub dry_run: bool,
}

impl Trail {
    pub fn actor(&self, caller: &Caller) {
        self.with(|entry| {
            entry.actor = Some(caller.subject.clone());
            entry.principal = caller.delegate().map(|delegate| delegate.actor.clone());
        });
    }

    /// Where the request acts, once it is resolved.
    pub fn scope(&self, placement: Placement) {
        self.with(|entry| entry.scope = placement);
    }

    /// The kind is known before the resource is, as when a creation is refused.
    pub fn kind(&self, kind: Kind) {
        self.with(|entry| entry.kind = Some(kind));
    }

    pub fn resource(&self, key: Key) {
        self.with(|entry| {
            entry.kind = Some(key.kind);
            entry.id = Some(key.id);
        });
    }

    /// The word of a verb, where several share a method.
    pub fn operation(&self, word: &'static str) {
        self.with(|entry| entry.operation = Some(word));
    }

    pub fn dry_run(&self) {
        self.with(|entry| entry.dry_run = true);
    }

    /// A secret is asked for, whether or not it is given.
    pub fn hands_out(&self, word: &'static str) {
        self.with(|entry| {
            entry.operation = Some(word);
            entry.hands_out = true;
        });
    }

    #[must_use]
    pub fn entry(&self) -> TrailEntry {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn with(&self, change: impl FnOnce(&mut TrailEntry)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_standard_traceparent_is_followed() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_id_of(&format!("00-{trace}-00f067aa0ba902b7-01")), Some(trace));
        assert_eq!(trace_id_of(&format!("01-{trace}-00f067aa0ba902b7-01-later")), Some(trace));
        for bad in [
            String::new(),
            "00-abc-00f067aa0ba902b7-01".to_owned(),
            format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{trace}-00f067aa0ba902b7-01-extra"),
        ] {
            assert_eq!(trace_id_of(&bad), None, "{bad}");
        }
    }

    #[test]
    fn what_a_client_names_itself_is_repeated_only_when_plain() {
        assert!(is_plain_request_id("a-b_c.1"));
        for bad in ["", "a b", "a\"b", "é", &"x".repeat(REQUEST_ID_LEN_MAX + 1)] {
            assert!(!is_plain_request_id(bad), "{bad}");
        }
        assert!(is_plain_host("[::1]:8080"));
        assert!(!is_plain_host("a\",evil=\""));
    }
}
