//! One pass's way to the cloud: through the region's pool, acting as somebody, with typed answers.
//!
//! # How a kind is written on it
//!
//! A kind is an `impl Session<'_>` in a file of its own (calls) and a file `…_plan.rs` beside it (what to do about what
//! was seen: pure, and tested without a cloud). A call is an endpoint type of the SDK, a name for the pool's records, and
//! who acts:
//!
//! ```ignore
//! use openstack_sdk_network::v2::port::{delete, get, list};
//!
//! let acting = self.steward_of(request.identity).await?;            // or principal_of, OBSERVER, MANAGER
//! let ports: Observed<Vec<PortBody>> = self
//!     .read(&acting, on(Service::Network, "find-ports", &name), list::Request::builder().name(name.clone()).build())
//!     .await?;
//! let port: Option<Observed<PortBody>> = self
//!     .look(&acting, on(Service::Network, "get-port", &id), get::Request::builder().id(id.clone()).build())
//!     .await?;                                                        // None: the cloud has said that it is not there
//! let port: PortBody = self.change(&acting, on(Service::Network, "create-port", &name), create).await?;
//! self.take_away(&acting, on(Service::Network, "delete-port", &id), delete::Request::builder().id(id).build()).await?;
//! ```
//!
//! - Answers are small structs of our own (`#[derive(Clone, Deserialize)]`) with the fields that we look at, and
//!   `#[serde(default)]` wherever a cloud may leave something out or say `null`.
//! - Endpoints are given as their builder left them, errors included; they own their texts (`String`, not `&str`).
//! - The operation's name is unique to the type of its answer and the query; its subject has all that changes the answer.
//!   (Who acts is added to it.) Reads of one tenant with the same operation share a call.
//! - [`Session::read`] fails with `NotFound` on a 404 and [`Session::look`] turns that into `None`. Nothing else does: an
//!   error is an error, and only an answer can say that there is nothing (B1).
//! - [`Session::read_alone`] is for pages of bulk lists. [`Whole`] around a list keeps the links to the next page.
//! - Lists by name are filtered again for equality ([`super::names`]), because some services search by pattern.
//! - A principal that has vanished shows as `PrincipalMissing`, whatever was asked for in its project.
//! - Whose an object is: [`super::names::Claim`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use openstack_sdk_core::api::{ApiError, BodyError, QueryAsync, QueryParams, RestEndpoint, ignore};
use openstack_sdk_core::types::{ApiVersion, ServiceType};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::OpenstackProvider;
use super::connection::Acting;
use super::principals::{Access, Principal};
use super::shared_project::moved;
use super::transport::{CallError, Client, Grant, provider_error};
use crate::model::ids::IdentityId;
use crate::model::openstack::Isolation;
use crate::providers::pool::{Operation, Service};
use crate::providers::{CallContext, Observed, ProviderError, ProviderResult};

/// The calls of one pass.
pub(super) struct Session<'a> {
    pub provider: &'a OpenstackProvider,
    pub context: &'a CallContext<'a>,
}

/// An operation, for the pool's records and for joining identical reads.
pub(super) fn on(service: Service, name: &'static str, subject: impl Display) -> Operation {
    Operation { service, name, subject: subject.to_string() }
}

/// What an endpoint's builder leaves: it can only fail where something that must be there was forgotten.
pub(super) type Built<E, F> = Result<E, F>;

impl Session<'_> {
    /// The principal that something belongs to; everything of it lies in its project. One that has no credential yet is
    /// not whole, unless all act as the service account.
    pub async fn principal(&self, identity: IdentityId) -> ProviderResult<Arc<Principal>> {
        let principal = self.provider.principals.find(identity).await?;
        match (self.provider.settings.isolation, &principal.access) {
            (Isolation::Principal, Access::Account) => Err(ProviderError::PrincipalMissing),
            (Isolation::Principal, Access::Credential { .. }) => Ok(principal),
            (Isolation::Project, _) => self.shared(principal).await,
        }
    }

    /// A principal in the one project that all of them share.
    async fn shared(&self, principal: Arc<Principal>) -> ProviderResult<Arc<Principal>> {
        let own = self.grant(&Acting::Observer).await?.project;
        if own.as_ref() == Some(&principal.project) { Ok(principal) } else { Err(moved()) }
    }

    /// Acting as the principal itself.
    pub async fn principal_of(&self, identity: IdentityId) -> ProviderResult<Acting> {
        Ok(Acting::Principal(self.principal(identity).await?))
    }

    /// Acting as the service account in the principal's project.
    pub async fn steward_of(&self, identity: IdentityId) -> ProviderResult<Acting> {
        Ok(Acting::Steward(self.principal(identity).await?.project.clone()))
    }

    /// Reads: joins an identical read that is under way.
    pub async fn read<E, F, T>(
        &self,
        acting: &Acting,
        operation: Operation,
        endpoint: Built<E, F>,
    ) -> ProviderResult<Observed<T>>
    where
        E: RestEndpoint + Send + Sync + 'static,
        F: Display,
        T: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let making = self.querying(acting, built(endpoint)?);
        self.provider.pool.read(self.context, placed(acting, operation), move || making).await
    }

    /// Reads what may not be there.
    pub async fn look<E, F, T>(
        &self,
        acting: &Acting,
        operation: Operation,
        endpoint: Built<E, F>,
    ) -> ProviderResult<Option<Observed<T>>>
    where
        E: RestEndpoint + Send + Sync + 'static,
        F: Display,
        T: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        match self.read(acting, operation, endpoint).await {
            Ok(seen) => Ok(Some(seen)),
            Err(ProviderError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a long answer, which only the monitor asks for.
    pub async fn read_alone<E, F, T>(
        &self,
        acting: &Acting,
        operation: Operation,
        endpoint: Built<E, F>,
    ) -> ProviderResult<Observed<T>>
    where
        E: RestEndpoint + Send + Sync + 'static,
        F: Display,
        T: DeserializeOwned + Send + 'static,
    {
        let making = self.querying(acting, built(endpoint)?);
        self.provider.pool.read_alone(self.context, placed(acting, operation), move || making).await
    }

    /// Makes a change whose answer is read.
    pub async fn change<E, F, T>(
        &self,
        acting: &Acting,
        operation: Operation,
        endpoint: Built<E, F>,
    ) -> ProviderResult<T>
    where
        E: RestEndpoint + Send + Sync + 'static,
        F: Display,
        T: DeserializeOwned + Send + 'static,
    {
        let making = self.querying(acting, built(endpoint)?);
        let seen = self.provider.pool.mutate(self.context, placed(acting, operation), move || making).await?;
        Ok(seen.fact)
    }

    /// Gives an order: whatever is answered, as long as it is a yes.
    pub async fn order<E, F>(&self, acting: &Acting, operation: Operation, endpoint: Built<E, F>) -> ProviderResult<()>
    where
        E: RestEndpoint + Send + Sync + 'static,
        F: Display,
    {
        let (client, endpoint) = (self.client(acting), ignore(built(endpoint)?));
        let is_of_principal = acting.is_of_principal();
        let making =
            async move { endpoint.query_async(&client?).await.map_err(|error| meaning(error, is_of_principal)) };
        let making: BoxFuture<'static, ProviderResult<()>> = making.boxed();
        self.provider.pool.mutate(self.context, placed(acting, operation), move || making).await?;
        Ok(())
    }

    /// Takes something away; that it is gone already is as good.
    pub async fn take_away<E, F>(
        &self,
        acting: &Acting,
        operation: Operation,
        endpoint: Built<E, F>,
    ) -> ProviderResult<()>
    where
        E: RestEndpoint + Send + Sync + 'static,
        F: Display,
    {
        match self.order(acting, operation, endpoint).await {
            Ok(()) | Err(ProviderError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What the cloud says of somebody who acts: logs in, if that has not been done.
    pub async fn grant(&self, acting: &Acting) -> ProviderResult<Grant> {
        Ok(self.observed_grant(acting).await?.fact)
    }

    pub async fn observed_grant(&self, acting: &Acting) -> ProviderResult<Observed<Grant>> {
        let (client, is_of_principal) = (self.client(acting), acting.is_of_principal());
        let grant =
            async move { client?.grant().await.map_err(|error| meaning(ApiError::client(error), is_of_principal)) };
        let operation = on(Service::Identity, "log-in", acting.place());
        self.provider.pool.read(self.context, operation, move || grant.boxed()).await
    }

    /// Is somebody let in?
    pub async fn is_let_in(&self, acting: &Acting) -> ProviderResult<bool> {
        match self.grant(acting).await {
            Ok(_) => Ok(true),
            Err(ProviderError::PrincipalMissing) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn client(&self, acting: &Acting) -> ProviderResult<Client> {
        self.provider.connection.client(acting).map_err(ProviderError::from)
    }

    fn querying<E, T>(&self, acting: &Acting, endpoint: E) -> BoxFuture<'static, ProviderResult<T>>
    where
        E: RestEndpoint + Send + Sync + 'static,
        T: DeserializeOwned + Send + 'static,
    {
        let (client, is_of_principal) = (self.client(acting), acting.is_of_principal());
        let query =
            async move { endpoint.query_async(&client?).await.map_err(|error| meaning(error, is_of_principal)) };
        query.boxed()
    }
}

fn placed(acting: &Acting, mut operation: Operation) -> Operation {
    operation.subject = format!("{} in {}", operation.subject, acting.place());
    operation
}

fn built<E, F: Display>(endpoint: Built<E, F>) -> ProviderResult<E> {
    endpoint.map_err(incomplete)
}

/// A body and the call around it, each as its builder left it.
pub(super) fn flat<E, F: Display, G: Display>(endpoint: Result<Built<E, F>, G>) -> Result<E, String> {
    endpoint.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// A part of a body that cannot be put together.
pub(super) fn incomplete(error: impl Display) -> ProviderError {
    ProviderError::Rejected(format!("a call cannot be put together: {error}"))
}

/// Whoever cannot log in to a principal's project any more finds out by that that it is gone.
fn meaning(error: ApiError<CallError>, is_of_principal: bool) -> ProviderError {
    match error {
        ApiError::Client { source: CallError::LoginRefused } if is_of_principal => ProviderError::PrincipalMissing,
        error => provider_error(error),
    }
}

/// Several removals, each made independently of what became of the others: the first failure is reported at the end. A
/// cloud that does not answer at all is not asked again for each of them.
#[derive(Default)]
pub(super) struct Removals(Option<ProviderError>);

impl Removals {
    pub fn add(&mut self, result: ProviderResult<()>) -> ProviderResult<()> {
        match result {
            Ok(()) => {}
            Err(error @ (ProviderError::Conflict(_) | ProviderError::Rejected(_))) => {
                self.0.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub fn end(self) -> ProviderResult<()> {
        self.0.map_or(Ok(()), Err)
    }
}

/// The only one, none, or a contradiction.
pub(super) fn at_most_one<T>(mut objects: Vec<T>, what: &'static str) -> ProviderResult<Option<T>> {
    if objects.len() > 1 {
        return Err(ProviderError::Inconsistent(format!("{} {what}s where there can be one", objects.len())));
    }
    Ok(objects.pop())
}

/// The same call with the answer as it is, links to the next page included.
pub(super) struct Whole<E>(pub E);

impl<E: RestEndpoint> RestEndpoint for Whole<E> {
    fn method(&self) -> http::Method {
        self.0.method()
    }
    fn endpoint(&self) -> Cow<'static, str> {
        self.0.endpoint()
    }
    fn service_type(&self) -> ServiceType {
        self.0.service_type()
    }
    fn parameters(&self) -> QueryParams<'_> {
        self.0.parameters()
    }
    fn body(&self) -> Result<Option<(&'static str, Vec<u8>)>, BodyError> {
        self.0.body()
    }
    fn response_key(&self) -> Option<Cow<'static, str>> {
        None
    }
    fn response_headers(&self) -> HashMap<&str, &str> {
        self.0.response_headers()
    }
    fn request_headers(&self) -> Option<&HeaderMap> {
        self.0.request_headers()
    }
    fn api_version(&self) -> Option<ApiVersion> {
        self.0.api_version()
    }
    fn min_version(&self) -> Option<ApiVersion> {
        self.0.min_version()
    }
    fn max_version(&self) -> Option<ApiVersion> {
        self.0.max_version()
    }
}

/// A link behind a page.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Link {
    pub rel: String,
}

/// Is there another page behind these links?
pub(super) fn has_next(links: &[Link]) -> bool {
    links.iter().any(|link| link.rel == "next")
}
