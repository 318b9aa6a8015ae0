//! The way to one cloud: one pool of connections, a token for each login, the SDK's endpoint types on top.
//!
//! The SDK's own session is not used: it forgets versions when a token ends (after which a 404 looks like "gone"), falls
//! back to its first project after a 401, and loses what a throttling cloud asked for. Here
//! - a [`Client`] is one login, with the scope it was made for, for as long as it lives;
//! - addresses come from the catalogue of that login's token, by region and interface, versions pinned ([`catalogue`]);
//! - microversions are agreed once for each service, and every call says the same one;
//! - a 401 is answered by one new log-in and one repetition, whatever the method: who was not let in has done nothing.
//!   So is what Nova says when those behind it no longer take the token;
//! - every refusal has its meaning ([`error`]), and nothing secret is printed ([`secret`]).
//!
//! How many calls there are at once, how long each may take and in which order they go is the region's pool's business.

mod catalogue;
mod error;
mod login;
mod secret;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::request::Builder;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use openstack_sdk_auth_core::types::Project;
use openstack_sdk_core::api::{ApiError, AsyncClient, RestClient};
use openstack_sdk_core::catalog::ServiceEndpoint;
use openstack_sdk_core::types::{ApiVersion, BoxedAsyncRead, ServiceType};
use reqwest::Url;
use tokio::time::Instant;
use tracing::Instrument;

use catalogue::VersionDocument;
use login::TokenAnswer;
use tokens::Tokens;

pub use catalogue::{CatalogueEntry, Selection, VersionRange, canonical};
pub(super) use error::provider_error;
pub use error::{CallError, Refusal};
pub use login::{Grant, Login, Proof, Reference, Scope};
pub use secret::Secret;
pub use tokens::Token;

/// How long a connection may take to be made. The pool's deadlines are for calls; a host that is away should not use
/// them up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// When a call is given up whatever the pool says: longer than any of its deadlines.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Connections that are kept open to a host: as many as the pool lets through to a service at most.
const IDLE_PER_HOST_MAX: usize = 64;

/// How much of an answer is read. A thousand servers with all their details are a few megabytes.
const BODY_LEN_MAX: usize = 64 << 20;

/// The way to one cloud, for everybody who goes there.
pub struct Cloud {
    http: reqwest::Client,
    keystone: Url,
    selection: Selection,
    tokens: Tokens,
    /// The microversion of each service that has those, once it is agreed.
    versions: Mutex<BTreeMap<&'static str, ApiVersion>>,
}

/// Why there is no way to a cloud.
#[derive(Debug, thiserror::Error)]
pub enum NoWay {
    #[error("the endpoint is not an address of http or https")]
    Endpoint,
    #[error("the file with the cloud's authority has no certificate that can be read")]
    Authority,
    #[error("no client can be made: {0}")]
    Client(reqwest::Error),
}

impl Cloud {
    /// `authority` is the content of a PEM file; with it only what it signed is trusted.
    pub fn new(endpoint: &str, selection: Selection, authority: Option<&[u8]>) -> Result<Self, NoWay> {
        let keystone = catalogue::pinned(endpoint, Some("v3")).ok_or(NoWay::Endpoint)?;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            // A token is for whom it was meant, and not for where somebody else points to.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("regent/", env!("CARGO_PKG_VERSION")));
        if let Some(pem) = authority {
            let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|_| NoWay::Authority)?;
            if certificates.is_empty() {
                return Err(NoWay::Authority);
            }
            builder = builder.tls_certs_only(certificates);
        }
        let http = builder.build().map_err(NoWay::Client)?;
        Ok(Self { http, keystone, selection, tokens: Tokens::default(), versions: Mutex::default() })
    }

    async fn token(&self, login: &Login, stale: Option<&Token>) -> Result<Arc<Token>, CallError> {
        self.tokens.get(login, stale, async || self.log_in(login).await).await
    }

    async fn log_in(&self, login: &Login) -> Result<Token, CallError> {
        let url = self.keystone.join("auth/tokens").map_err(|error| CallError::Unreachable(error.to_string()))?;
        let asked_at = Instant::now();
        let body = Bytes::from(login.body().to_string());
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let answer = self.send(Method::POST, url, headers, body).await?;
        match answer.status() {
            // 404 is what Keystone says of a credential that it does not have.
            StatusCode::UNAUTHORIZED => return Err(CallError::LoginRefused),
            status if !status.is_success() => {
                let refusal = Refusal::of(status, answer.headers(), answer.body());
                let is_missing = status == StatusCode::NOT_FOUND && refusal.is_of_service;
                return Err(if is_missing { CallError::LoginRefused } else { CallError::Refused(refusal) });
            }
            _ => {}
        }
        let unexpected = || CallError::Unreachable("the log-in was answered with something else".to_owned());
        let mut header = answer.headers().get("x-subject-token").cloned().ok_or_else(unexpected)?;
        header.set_sensitive(true);
        let said = serde_json::from_slice::<TokenAnswer>(answer.body()).map_err(|_| unexpected())?;
        Ok(Token::new(header, said.grant(&self.selection), asked_at))
    }

    /// One exchange, in a span of its own. The address goes into it without its query, and no header does.
    async fn send(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, CallError> {
        let name = format!("{method} {}", url.path());
        let span =
            tracing::info_span!("openstack", otel.name = name, otel.kind = "client", status = tracing::field::Empty);
        let exchange = async {
            let request = self.http.request(method, url).headers(headers).body(body);
            let mut answer = request.send().await.map_err(|error| unreachable(&error))?;
            tracing::Span::current().record("status", answer.status().as_u16());
            let mut whole = BytesMut::new();
            while let Some(part) = answer.chunk().await.map_err(|error| unreachable(&error))? {
                if whole.len() + part.len() > BODY_LEN_MAX {
                    return Err(CallError::Unreachable("the answer is too long".to_owned()));
                }
                whole.extend_from_slice(&part);
            }
            let mut response = Response::new(whole.freeze());
            *response.status_mut() = answer.status();
            *response.headers_mut() = std::mem::take(answer.headers_mut());
            Ok(response)
        };
        exchange.instrument(span).await
    }

    /// The microversion that is spoken with a service; `None` where it has none.
    async fn microversion(
        &self,
        service: &'static str,
        base: &Url,
        token: &Token,
    ) -> Result<Option<ApiVersion>, CallError> {
        let Some(wanted) = catalogue::wanted_microversion(service) else { return Ok(None) };
        let agreed = self.versions.lock().unwrap_or_else(PoisonError::into_inner).get(service).copied();
        if agreed.is_some() {
            return Ok(agreed);
        }
        let document = self.version_document(base, Some(token)).await?;
        let agreed = document.and_then(|document| document.negotiated(wanted.0, wanted));
        let none = || CallError::Unreachable(format!("{service} says nothing of its microversions"));
        let (major, minor) = agreed.ok_or_else(none)?;
        let version = ApiVersion::new(major, minor);
        tracing::debug!(service, %version, "a microversion was agreed");
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).insert(service, version);
        Ok(Some(version))
    }

    /// What a service says of its versions; `None` if it is something else.
    async fn version_document(&self, base: &Url, token: Option<&Token>) -> Result<Option<VersionDocument>, CallError> {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert("x-auth-token", token.header.clone());
        }
        let answer = self.send(Method::GET, base.clone(), headers, Bytes::new()).await?;
        if !answer.status().is_success() && answer.status() != StatusCode::MULTIPLE_CHOICES {
            return Err(CallError::Refused(Refusal::of(answer.status(), answer.headers(), answer.body())));
        }
        Ok(serde_json::from_slice(answer.body()).ok())
    }
}

/// The words of the library carry the whole address; who, where and what for is in the span already.
fn unreachable(error: &reqwest::Error) -> CallError {
    let what = match error {
        error if error.is_connect() => "no connection",
        error if error.is_timeout() => "no answer in time",
        error if error.is_body() || error.is_decode() => "the answer broke off",
        _ => "no answer",
    };
    tracing::debug!(reason = %chain(error), "a call to the cloud failed");
    CallError::Unreachable(what.to_owned())
}

fn chain(error: &reqwest::Error) -> String {
    let mut source = std::error::Error::source(error);
    let mut text = String::new();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// One login's way to a cloud. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    cloud: Arc<Cloud>,
    login: Arc<Login>,
}

impl Client {
    #[must_use]
    pub fn new(cloud: Arc<Cloud>, login: Login) -> Self {
        Self { cloud, login: Arc::new(login) }
    }

    /// What the cloud says of this login: who it is and where. Logs in if need be.
    pub async fn grant(&self) -> Result<Grant, CallError> {
        Ok(self.cloud.token(&self.login, None).await?.grant.clone())
    }

    /// Which version Keystone is. Needs no log-in.
    pub async fn greeting(&self) -> Result<String, CallError> {
        let document = self.cloud.version_document(&self.cloud.keystone, None).await?;
        let other = || CallError::Unreachable("what answers there is no Keystone of the third version".to_owned());
        document.and_then(|document| document.id(3)).ok_or_else(other)
    }

    /// The microversions that a service takes, from and to; `None` where we ask for none of it.
    pub async fn version_range(&self, service: &'static str) -> Result<Option<VersionRange>, CallError> {
        let Some((major, _)) = catalogue::wanted_microversion(service) else { return Ok(None) };
        let token = self.cloud.token(&self.login, None).await?;
        let missing =
            || CallError::NoEndpoint { service: service.to_owned(), region: self.cloud.selection.region.clone() };
        let base = token.grant.endpoints.get(service).ok_or_else(missing)?;
        let document = self.cloud.version_document(base, Some(&token)).await?;
        Ok(document.and_then(|document| document.range(major)))
    }

    /// Sends with a good token; when that is refused, once more with a new one.
    async fn exchange(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Response<Bytes>, CallError> {
        let mut stale: Option<Arc<Token>> = None;
        loop {
            let token = self.cloud.token(&self.login, stale.as_deref()).await?;
            let mut headers = headers.clone();
            headers.insert("x-auth-token", token.header.clone());
            let answer = self.cloud.send(method.clone(), url.clone(), headers, body.clone()).await?;
            if answer.status().is_success() {
                return Ok(answer);
            }
            let refusal = Refusal::of(answer.status(), answer.headers(), answer.body());
            if stale.is_some() || !refusal.blames_token() {
                return Err(CallError::Refused(refusal));
            }
            stale = Some(token);
        }
    }

    async fn endpoint(&self, service: &ServiceType) -> Result<ServiceEndpoint, CallError> {
        let missing =
            || CallError::NoEndpoint { service: service.to_string(), region: self.cloud.selection.region.clone() };
        let name = catalogue::name_of(service).ok_or_else(missing)?;
        let token = self.cloud.token(&self.login, None).await?;
        let url = token.grant.endpoints.get(name).cloned().ok_or_else(missing)?;
        let version = self.cloud.microversion(name, &url, &token).await?;
        let mut endpoint = ServiceEndpoint::new(url, ApiVersion::new(0, 0));
        // Both ends of the range: so that every call says this one, and none is made in the form of another.
        let version = version.map(|version| version.to_string());
        endpoint.set_min_version(version.as_ref()).set_max_version(version.as_ref());
        Ok(endpoint)
    }
}

impl RestClient for Client {
    type Error = CallError;

    /// The scope is in the token; no address of ours has the project in it.
    fn get_current_project(&self) -> Option<Project> {
        None
    }
}

#[async_trait]
impl AsyncClient for Client {
    async fn rest_async(&self, request: Builder, body: Vec<u8>) -> Result<Response<Bytes>, ApiError<CallError>> {
        let malformed = |error: String| ApiError::client(CallError::Unreachable(error));
        let request = request.body(()).map_err(|error| malformed(error.to_string()))?;
        let (parts, ()) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string()).map_err(|error| malformed(error.to_string()))?;
        self.exchange(&parts.method, &url, &parts.headers, &Bytes::from(body)).await.map_err(ApiError::client)
    }

    /// Nothing is uploaded through us: images are fetched by the cloud.
    async fn rest_read_body_async(
        &self,
        _: Builder,
        _: BoxedAsyncRead,
    ) -> Result<Response<Bytes>, ApiError<CallError>> {
        Err(ApiError::client(CallError::Unreachable("uploads do not pass here".to_owned())))
    }

    async fn download_async(&self, _: Builder, _: Vec<u8>) -> Result<(HeaderMap, BoxedAsyncRead), ApiError<CallError>> {
        Err(ApiError::client(CallError::Unreachable("downloads do not pass here".to_owned())))
    }

    async fn get_service_endpoint(
        &self,
        service: &ServiceType,
        _version: Option<&ApiVersion>,
    ) -> Result<ServiceEndpoint, ApiError<CallError>> {
        self.endpoint(service).await.map_err(ApiError::client)
    }
}
