//! A call in words of our own, where the SDK has none that fit.
//!
//! Its types are made for one microversion each, and refuse any other: what is sent in a form that all versions since
//! years understand would then work with a few of them only. Some are wrong (the pairs of a port have no hardware
//! address), and some cannot be used at all (the creation of a volume ends before it begins). Where they are right, which
//! is for almost all that is read and taken away, they are used.

use std::borrow::Cow;
use std::convert::Infallible;

use http::Method;
use openstack_sdk_core::api::{BodyError, QueryParams, RestEndpoint};
use openstack_sdk_core::types::{ApiVersion, ServiceType};
use serde_json::Value;

#[derive(Clone, Debug)]
pub(super) struct Ask {
    method: Method,
    service: ServiceType,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<(&'static str, Value)>,
    /// What the answer is wrapped in.
    key: Option<&'static str>,
}

const JSON: &str = "application/json";
const IMAGE_PATCH: &str = "application/openstack-images-v2.1-json-patch";

impl Ask {
    const fn new(method: Method, service: ServiceType, path: String) -> Self {
        Self { method, service, path, query: Vec::new(), body: None, key: None }
    }

    pub const fn get(service: ServiceType, path: String) -> Self {
        Self::new(Method::GET, service, path)
    }

    pub const fn delete(service: ServiceType, path: String) -> Self {
        Self::new(Method::DELETE, service, path)
    }

    pub fn post(service: ServiceType, path: String, body: Value) -> Self {
        Self { body: Some((JSON, body)), ..Self::new(Method::POST, service, path) }
    }

    pub fn put(service: ServiceType, path: String, body: Value) -> Self {
        Self { body: Some((JSON, body)), ..Self::new(Method::PUT, service, path) }
    }

    /// Changes of an image, in the one form that the service takes them.
    pub fn patch_image(path: String, body: Value) -> Self {
        Self { body: Some((IMAGE_PATCH, body)), ..Self::new(Method::PATCH, ServiceType::Image, path) }
    }

    pub fn within(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// There is nothing that could be forgotten.
    #[expect(clippy::unnecessary_wraps, reason = "the form in which the SDK's builders leave an endpoint")]
    pub const fn build(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

impl RestEndpoint for Ask {
    fn method(&self) -> Method {
        self.method.clone()
    }

    fn endpoint(&self) -> Cow<'static, str> {
        self.path.clone().into()
    }

    fn service_type(&self) -> ServiceType {
        self.service.clone()
    }

    fn parameters(&self) -> QueryParams<'_> {
        let mut parameters = QueryParams::default();
        for (name, value) in &self.query {
            parameters.push(*name, value);
        }
        parameters
    }

    fn body(&self) -> Result<Option<(&'static str, Vec<u8>)>, BodyError> {
        let written = |(kind, body): &(&'static str, Value)| Ok((*kind, serde_json::to_vec(body)?));
        self.body.as_ref().map(written).transpose()
    }

    fn response_key(&self) -> Option<Cow<'static, str>> {
        self.key.map(Cow::Borrowed)
    }

    /// The lowest there is: what was agreed with the service is what is said.
    fn api_version(&self) -> Option<ApiVersion> {
        Some(match self.service {
            ServiceType::BlockStorage => ApiVersion::new(3, 0),
            ServiceType::Placement => ApiVersion::new(1, 0),
            ServiceType::Compute => ApiVersion::new(2, 1),
            _ => ApiVersion::new(2, 0),
        })
    }
}
