//! The bare program: the calls that have to be made, and nothing else.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use openstack_sdk_core::api::{BodyError, QueryAsync, RestEndpoint};
use openstack_sdk_core::types::{ApiVersion, ServiceType};
use regent::model::openstack::Interface;
use regent::providers::openstack::transport::{Client, Cloud, Login, Proof, Reference, Scope, Secret, Selection};
use serde_json::{Value, json};

use super::{Facts, SERVERS};

/// As often as Regent's monitor looks at what is pending.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

struct Call {
    method: http::Method,
    service: ServiceType,
    path: String,
    body: Option<Value>,
}

impl RestEndpoint for Call {
    fn method(&self) -> http::Method {
        self.method.clone()
    }
    fn endpoint(&self) -> Cow<'static, str> {
        self.path.clone().into()
    }
    fn service_type(&self) -> ServiceType {
        self.service.clone()
    }
    fn body(&self) -> Result<Option<(&'static str, Vec<u8>)>, BodyError> {
        let body = self.body.as_ref().map(serde_json::to_vec).transpose()?;
        Ok(body.map(|body| ("application/json", body)))
    }
    fn api_version(&self) -> Option<ApiVersion> {
        let (major, minor) = if self.service == ServiceType::Compute { (2, 1) } else { (2, 0) };
        Some(ApiVersion::new(major, minor))
    }
}

pub struct Program {
    client: Client,
    image: String,
    flavor: String,
    network: String,
}

impl Program {
    pub async fn start(facts: &Facts) -> Self {
        let region = Some(facts.text("/region").to_owned());
        let selection = Selection { region, interface: Interface::Public };
        let cloud = Cloud::new(facts.text("/authUrl"), selection, None).unwrap();
        let proof = Proof::Password {
            user: Reference::Id(facts.text("/userId").to_owned()),
            password: Secret::new(facts.text("/password").to_owned()),
        };
        let scope = Scope::Project(Reference::Id(facts.text("/projectId").to_owned()));
        let client = Client::new(Arc::new(cloud), Login { proof, scope });
        let (image, flavor) = (facts.text("/images/tiny").to_owned(), facts.text("/flavors/m1.tiny").to_owned());
        let mut program = Self { client, image, flavor, network: String::new() };
        let network = json!({ "network": { "name": "bench" } });
        let made = program.post(ServiceType::Network, "networks", network).await;
        program.network = made["network"]["id"].as_str().unwrap().to_owned();
        let subnet = json!({ "network_id": program.network, "ip_version": 4, "cidr": "10.0.0.0/22" });
        program.post(ServiceType::Network, "subnets", json!({ "subnet": subnet })).await;
        program
    }

    async fn call(&self, method: http::Method, service: ServiceType, path: &str, body: Option<Value>) -> Value {
        let call = Call { method, service, path: path.to_owned(), body };
        call.query_async(&self.client).await.unwrap()
    }

    async fn post(&self, service: ServiceType, path: &str, body: Value) -> Value {
        self.call(http::Method::POST, service, path, Some(body)).await
    }

    async fn delete(&self, service: ServiceType, path: String) {
        let call = Call { method: http::Method::DELETE, service, path, body: None };
        openstack_sdk_core::api::ignore(call).query_async(&self.client).await.unwrap();
    }

    /// A port and a server on it: their ids.
    async fn make(&self, name: String) -> (String, String) {
        let port = json!({ "port": { "name": name, "network_id": self.network } });
        let port = self.post(ServiceType::Network, "ports", port).await;
        let port = port["port"]["id"].as_str().unwrap().to_owned();
        let server = json!({ "server": {
            "name": name, "imageRef": self.image, "flavorRef": self.flavor, "networks": [{ "port": port }],
        }});
        let server = self.post(ServiceType::Compute, "servers", server).await;
        (port, server["server"]["id"].as_str().unwrap().to_owned())
    }

    async fn servers(&self, prefix: &str) -> Vec<Value> {
        let path = "servers/detail";
        let listed = self.call(http::Method::GET, ServiceType::Compute, path, None).await;
        let is_ours = |server: &&Value| server["name"].as_str().is_some_and(|name| name.starts_with(prefix));
        listed["servers"].as_array().unwrap().iter().filter(is_ours).cloned().collect()
    }

    pub async fn run(&self, run: usize) -> Duration {
        let prefix = format!("direct-{run}-");
        let began = Instant::now();
        let made = join_all((0..SERVERS).map(|number| self.make(format!("{prefix}{number}")))).await;
        let mut looks = tokio::time::interval(LOOK_PERIOD);
        loop {
            looks.tick().await;
            let servers = self.servers(&prefix).await;
            if servers.iter().filter(|server| server["status"] == "ACTIVE").count() == SERVERS {
                break;
            }
        }
        let took = began.elapsed();
        join_all(made.iter().map(|(_, server)| self.delete(ServiceType::Compute, format!("servers/{server}")))).await;
        while !self.servers(&prefix).await.is_empty() {
            looks.tick().await;
        }
        join_all(made.iter().map(|(port, _)| self.delete(ServiceType::Network, format!("ports/{port}")))).await;
        took
    }

    pub async fn end(&self) {
        self.delete(ServiceType::Network, format!("networks/{}", self.network)).await;
    }
}
