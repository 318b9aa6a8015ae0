//! How a handler gets its arguments: the caller, the ids of its path, its query and its body.
//!
//! axum's own extractors answer with texts that repeat what was sent; these say only where and which rule.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, OriginalUri, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::context::{RequestContext, Trail};
use super::error::{ApiError, Failure};
use super::strict_json;
use super::{Api, Shared};
use crate::identity::speaking::SpeakingFor;
use crate::identity::{Account, Caller};

/// The largest body that is read. The largest legitimate one, a network with every list full, is a tenth of it.
pub const BODY_LEN_MAX: usize = 1024 * 1024;

const PRINCIPAL: &str = "x-principal";
const IMPERSONATE: &str = "x-impersonate";

/// The caller, recognized by its bearer token.
pub struct Authenticated(pub Caller);

impl FromRequestParts<Shared> for Authenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, ApiError> {
        let caller = recognized(api, &parts.headers).await?;
        if let Some(context) = parts.extensions.get::<RequestContext>() {
            context.trail.actor(&caller);
        }
        if let Account::Member(organization) = caller.account()
            && let Err(retry_after_s) = api.rates.take(organization, api.ambient.now())
        {
            metrics::counter!("regent_tenant_requests_refused_total").increment(1);
            return Err(ApiError::too_many_requests(retry_after_s));
        }
        Ok(Self(caller))
    }
}

/// Whose request it is, without counting it.
pub(super) async fn recognized(api: &Api, headers: &HeaderMap) -> Result<Caller, ApiError> {
    Ok(api.identity.authenticate(bearer(headers)?, &speaking_for(headers)).await?)
}

/// What the request says about whom it speaks for. What can be read in two ways, or in none, is kept as something that
/// cannot be read: it must not be taken for nothing.
fn speaking_for(headers: &HeaderMap) -> SpeakingFor {
    let impersonate = match single(headers, IMPERSONATE) {
        Ok(None | Some("false")) => Some(false),
        Ok(Some("true")) => Some(true),
        Ok(Some(_)) | Err(Ambiguous) => None,
    };
    match (single(headers, PRINCIPAL), impersonate) {
        (Ok(principal), Some(impersonate)) => SpeakingFor { principal: principal.map(str::to_owned), impersonate },
        (Err(Ambiguous), _) | (_, None) => SpeakingFor::unreadable(),
    }
}

/// A header that is there more than once, or is no text.
pub(super) struct Ambiguous;

pub(super) fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Ambiguous> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Ambiguous),
        (Some(_), Some(_)) => Err(Ambiguous),
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let denied = |text| ApiError::new(Failure::AccessDenied, text);
    let header = headers.get(header::AUTHORIZATION).ok_or_else(|| denied("a bearer token is required"))?;
    let text = header.to_str().map_err(|_| denied("the authorization header is malformed"))?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim()),
        _ => Err(denied("the authorization scheme must be Bearer")),
    }
}

impl FromRequestParts<Shared> for Trail {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _api: &Shared) -> Result<Self, ApiError> {
        Ok(parts.extensions.get::<RequestContext>().map(|context| context.trail.clone()).unwrap_or_default())
    }
}

/// The variable parts of the path.
pub struct PathElements(BTreeMap<String, String>);

impl PathElements {
    /// The id called `name`; anything but a UUID in its hyphenated form is malformed.
    pub fn id<T: FromStr>(&self, name: &str) -> Result<T, ApiError> {
        self.text(name)?.parse().map_err(|_| ApiError::invalid_element())
    }

    pub fn text(&self, name: &str) -> Result<&str, ApiError> {
        self.0.get(name).map(String::as_str).ok_or_else(ApiError::invalid_element)
    }
}

impl FromRequestParts<Shared> for PathElements {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, ApiError> {
        let elements = RawPathParams::from_request_parts(parts, api).await.map_err(|_| ApiError::invalid_element())?;
        Ok(Self(elements.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }
}

/// The query as it was written: names may repeat.
pub struct QueryElements {
    pairs: Vec<(String, String)>,
    address: Uri,
}

impl QueryElements {
    pub fn pairs(&self) -> impl Iterator<Item = &(String, String)> {
        self.pairs.iter()
    }

    /// The address that was asked, with `value` for `name`, which must be plain.
    #[must_use]
    pub fn address_with(&self, name: &str, value: &str) -> String {
        let is_other = |pair: &&str| !pair.is_empty() && pair.split_once('=').map_or(*pair, |(name, _)| name) != name;
        let mut query = self.address.query().unwrap_or_default().split('&').filter(is_other).collect::<Vec<_>>();
        let given = format!("{name}={value}");
        query.push(&given);
        format!("{}?{}", self.address.path(), query.join("&"))
    }

    /// Refuses names that mean nothing here: a filter that is silently ignored answers a question nobody asked.
    pub fn only(&self, known: &[&str]) -> Result<(), ApiError> {
        let good = self.pairs.iter().all(|(name, _)| known.contains(&name.as_str()));
        if good { Ok(()) } else { Err(ApiError::invalid("invalid path/query element: unknown query parameter")) }
    }

    /// The same query, with one more that its path said.
    #[must_use]
    pub fn with(mut self, name: &str, value: String) -> Self {
        self.pairs.push((name.to_owned(), value));
        self
    }

    pub fn texts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Every value of `name`; `None` when it was not given at all.
    pub fn values<T: FromStr>(&self, name: &str) -> Result<Option<Vec<T>>, ApiError> {
        let parsed = self.texts(name).map(|text| text.parse().map_err(|_| ApiError::invalid_element()));
        let values = parsed.collect::<Result<Vec<T>, ApiError>>()?;
        Ok(if values.is_empty() { None } else { Some(values) })
    }

    /// The one value of `name`, if it was given.
    pub fn value<T: FromStr>(&self, name: &str) -> Result<Option<T>, ApiError> {
        let mut values = self.values(name)?.unwrap_or_default();
        match values.len() {
            0 | 1 => Ok(values.pop()),
            _ => Err(ApiError::invalid_element()),
        }
    }
}

impl FromRequestParts<Shared> for QueryElements {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _api: &Shared) -> Result<Self, ApiError> {
        let query = Query::try_from_uri(&parts.uri).map_err(|_| ApiError::invalid_element())?;
        // Below the name of a service the path has lost its head, but a client must be told the whole of it.
        let address = parts.extensions.get::<OriginalUri>().map_or_else(|| parts.uri.clone(), |uri| uri.0.clone());
        Ok(Self { pairs: query.0, address })
    }
}

/// A JSON body.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Shared> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _api: &Shared) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read_bounded(body).await?;
        if bytes.is_empty() {
            return Err(ApiError::invalid("a request body is required"));
        }
        if !is_json(&parts.headers) {
            return Err(ApiError::new(Failure::UnsupportedMediaType, "the request body must be application/json"));
        }
        if parts.headers.contains_key(header::CONTENT_ENCODING) {
            let text = "the request body must not be encoded";
            return Err(ApiError::new(Failure::UnsupportedMediaType, text));
        }
        strict_json::read(&bytes).map(Self).map_err(|error| ApiError::invalid(json_text(&error)))
    }
}

/// What is left of a body that is too large is thrown away by [`super::unread`].
pub(super) async fn read_bounded(mut body: Body) -> Result<Bytes, ApiError> {
    let mut kept = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::invalid("the request body could not be read"))?;
        let Ok(data) = frame.into_data() else { continue };
        if kept.len() + data.len() > BODY_LEN_MAX {
            return Err(ApiError::new(Failure::TooLarge, "the request body is larger than 1 MiB"));
        }
        kept.extend_from_slice(&data);
    }
    Ok(kept.into())
}

fn is_json(headers: &HeaderMap) -> bool {
    let essence = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = essence.and_then(|text| text.split(';').next()).map(str::trim);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
}

/// Where and what kind of fault, without the value: the body may hold a secret, and the text ends in logs.
fn json_text(error: &serde_json::Error) -> String {
    let place = format!("at line {} column {}", error.line(), error.column());
    if !error.is_data() {
        return format!("the request body is not valid JSON {place}");
    }
    let text = error.to_string();
    // The one fault whose text holds only our own words: the name of the field that is missing.
    match text.strip_prefix("missing field `").and_then(|rest| rest.split_once('`')) {
        Some((field, _)) => format!("the request body lacks the field {field} {place}"),
        None => format!("the request body has a value of the wrong type or form {place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only the failure to read it matters")]
    struct Sample {
        number: u8,
        needed: String,
    }

    fn fault(body: &str) -> String {
        json_text(&serde_json::from_str::<Sample>(body).expect_err("a fault"))
    }

    #[test]
    fn a_fault_in_a_body_is_placed_but_never_repeated() {
        let wrong = fault(r#"{"number": "hunter2", "needed": ""}"#);
        assert!(!wrong.contains("hunter2") && wrong.contains("line 1"), "{wrong}");
        let missing = fault(r#"{"number": 1}"#);
        assert!(missing.contains("field needed"), "{missing}");
        let broken = fault(r#"{"number": hunter2"#);
        assert!(!broken.contains("hunter2") && broken.contains("not valid JSON"), "{broken}");
    }

    #[test]
    fn a_media_type_may_have_parameters_but_no_other_name() {
        let of = |text: &'static str| HeaderMap::from_iter([(header::CONTENT_TYPE, text.parse().expect("a value"))]);
        assert!(is_json(&of("application/json")));
        assert!(is_json(&of("Application/JSON; charset=utf-8")));
        assert!(!is_json(&of("text/plain")));
        assert!(!is_json(&of("application/json-patch+json")));
        assert!(!is_json(&HeaderMap::new()));
    }
}
