//! The real router on a loopback port, with the memory store behind it and no actors: what is accepted stays pending.

mod about;
mod admin;
mod audit;
mod bootstrap;
mod cloud;
mod compute_matrix;
mod cross_cutting;
mod document;
mod dry_runs;
mod events;
mod file_storage;
mod flavors_images;
mod idempotency;
mod identity;
mod identity_callers;
mod identity_members;
mod identity_quota;
mod identity_tenants;
mod images;
mod instances;
mod limits;
mod load_balancers;
mod matrix;
mod moody_store;
mod networks;
mod page;
mod paging;
mod preconditions;
mod process;
mod protection;
mod references;
mod regions;
mod security_groups;
mod server_verbs;
mod servers;
mod ssh_certificate_authorities;
mod tenants;
mod tls;
mod v1_announced;
mod v1_cluster_matrix;
mod v1_clusters;
mod v1_matrix;
mod v1_resources;
mod v1_secrets;
mod volumes;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use regent::api::catalogue::Catalogue;
use regent::api::events::Events;
use regent::api::rate::{TenantRate, TenantRates};
use regent::api::{Api, ApiSettings, router};
use regent::bootstrap::{BootstrapFile, Outcome, Urls, bootstrap};
use regent::graph::completions::Completions;
use regent::identity::acl::{Acl, Endpoint, Grants, Operation, Permission};
use regent::identity::embedded::EmbeddedIdentity;
use regent::identity::speaking::SpeakingFor;
use regent::identity::{AuthenticationError, Caller, IdentityService};
use regent::model::ambient::{Ambient, Uninterrupted};
use regent::model::ids::{Incarnation, OrganizationId, ProjectId, RegionId};
use regent::model::metadata::{Metadata, Placement};
use regent::model::organization::{Organization, OrganizationSpec, Project, ProjectSpec};
use regent::model::record::{Record, ResourceKind};
use regent::model::region::{ProviderSettings, Region, RegionSpec, SimulatedSettings};
use regent::model::sealed::EnvelopeKey;
use regent::store::embedded::EmbeddedStore;
use regent::store::memory::{MemoryDisk, MemoryStore, Mode};
use regent::store::{Batch, Store, Write};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use cloud::StubCloud;

/// A folder that goes when the test has passed, and stays to be looked at when it has not.
pub struct Folder(pub std::path::PathBuf);

impl Folder {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("regent-test-{}", Ambient::system().uuid()));
        regent::bootstrap::files::ensure_directory(&path).expect("a temporary directory");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Callers by the bearer that a test made up for them; everybody else as in production.
struct TestIdentity {
    made_up: Mutex<BTreeMap<String, Caller>>,
    embedded: EmbeddedIdentity,
}

#[async_trait]
impl IdentityService for TestIdentity {
    async fn authenticate(&self, bearer: &str, speaking: &SpeakingFor) -> Result<Caller, AuthenticationError> {
        let made_up = self.made_up.lock().expect("not poisoned").get(bearer).cloned();
        match made_up {
            Some(caller) => Ok(caller),
            None => self.embedded.authenticate(bearer, speaking).await,
        }
    }
}

pub fn memory_store(ambient: &Ambient) -> Arc<dyn Store> {
    memory_store_in(ambient, Mode::Atomic)
}

fn memory_store_in(ambient: &Ambient, mode: Mode) -> Arc<dyn Store> {
    Arc::new(MemoryStore::open(MemoryDisk::new(), ambient.clone(), Arc::new(Uninterrupted), mode))
}

/// The key that a test's secrets are sealed with.
pub fn envelope() -> EnvelopeKey {
    EnvelopeKey::from_bytes(&[9; 32]).expect("a key")
}

/// Permission to do these things.
pub fn may(endpoint: Endpoint, operations: &[Operation]) -> Grants {
    operations.iter().map(|operation| Permission { endpoint, operation: *operation }).collect()
}

/// One server and everything a test needs to speak to it.
pub struct World {
    pub address: SocketAddr,
    pub client: reqwest::Client,
    pub store: Arc<dyn Store>,
    pub ambient: Ambient,
    pub start: BootstrapFile,
    pub api: Arc<Api>,
    pub cloud: Arc<StubCloud>,
    identity: Arc<TestIdentity>,
    folders: Vec<Folder>,
}

impl World {
    pub async fn start() -> Self {
        let ambient = Ambient::system();
        Self::over(memory_store(&ambient), ambient).await
    }

    /// A world on every store that there is: what clients see must not depend on it.
    pub async fn on_each_store() -> Vec<(&'static str, Self)> {
        let ambient = Ambient::system();
        let folder = Folder::new();
        let embedded = EmbeddedStore::open(&folder.0, ambient.clone()).expect("opens");
        let stores: [(_, Arc<dyn Store>); 3] = [
            ("memory", memory_store_in(&ambient, Mode::Atomic)),
            ("saga", memory_store_in(&ambient, Mode::Saga)),
            ("embedded", Arc::new(embedded)),
        ];
        let mut worlds = Vec::new();
        for (name, store) in stores {
            worlds.push((name, Self::over(store, ambient.clone()).await));
        }
        // The store's folder lives as long as the worlds do.
        worlds[2].1.folders.push(folder);
        worlds
    }

    pub async fn over(store: Arc<dyn Store>, ambient: Ambient) -> Self {
        Self::limited(store, ambient, TenantRate::default()).await
    }

    /// A world whose operator has set something.
    pub async fn set(settings: ApiSettings) -> Self {
        let ambient = Ambient::system();
        Self::equipped(memory_store(&ambient), ambient, TenantRate::default(), settings).await
    }

    pub async fn limited(store: Arc<dyn Store>, ambient: Ambient, rate: TenantRate) -> Self {
        Self::equipped(store, ambient, rate, ApiSettings::default()).await
    }

    async fn equipped(store: Arc<dyn Store>, ambient: Ambient, rate: TenantRate, settings: ApiSettings) -> Self {
        let folder = Folder::new();
        let urls = Urls { api: String::new(), admin: String::new() };
        let outcome = bootstrap(store.as_ref(), &ambient, &folder.0, &urls).await.expect("bootstraps");
        let Outcome::Issued(start) = outcome else { panic!("the store was not empty: {outcome:?}") };
        Self::serving(store, ambient, (rate, settings), start, vec![folder]).await
    }

    /// Another process on the store of an earlier one.
    pub async fn again(store: Arc<dyn Store>, ambient: Ambient, start: BootstrapFile) -> Self {
        let usual = (TenantRate::default(), ApiSettings::default());
        Self::serving(store, ambient, usual, start, Vec::new()).await
    }

    async fn serving(
        store: Arc<dyn Store>,
        ambient: Ambient,
        (rate, settings): (TenantRate, ApiSettings),
        start: BootstrapFile,
        folders: Vec<Folder>,
    ) -> Self {
        let embedded = EmbeddedIdentity::new(Arc::clone(&store), ambient.clone());
        let identity = Arc::new(TestIdentity { made_up: Mutex::default(), embedded });
        let cloud = Arc::new(StubCloud::default());
        let api = Arc::new(Api {
            store: Arc::clone(&store),
            identity: Arc::clone(&identity) as _,
            catalogue: Catalogue::of(Arc::clone(&cloud) as _),
            secrets: Arc::new(envelope()),
            completions: Completions::default(),
            ambient: ambient.clone(),
            settings,
            rates: TenantRates::new(rate),
            events: Events::default(),
        });
        let address = serve(router(&api)).await;
        Self { address, client: reqwest::Client::new(), store, ambient, start, api, cloud, identity, folders }
    }

    /// A request with the administrator's token.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.anonymous(method, path).bearer_auth(&self.start.token)
    }

    pub fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    pub async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.expect("an answer")
    }

    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Response {
        self.request(method, path).json(body).send().await.expect("an answer")
    }

    /// A bearer for somebody who may do exactly this.
    pub fn bearer_of(&self, name: &str, acl: Acl) -> String {
        self.bearer_for(name, Caller::new(name.to_owned(), acl))
    }

    /// A bearer for exactly this caller.
    pub fn bearer_for(&self, name: &str, caller: Caller) -> String {
        self.identity.made_up.lock().expect("not poisoned").insert(name.to_owned(), caller);
        name.to_owned()
    }

    /// Somebody of another organization, who may do everything there.
    pub async fn stranger(&self) -> String {
        let (organization, _) = self.tenant().await;
        let mut acl = Acl::default();
        let everything = Endpoint::ALL.iter().flat_map(|endpoint| may(*endpoint, &Operation::ALL)).collect();
        acl.organizations.entry(organization).or_default().everywhere = everything;
        self.bearer_of("stranger", acl)
    }

    /// Somebody of the first organization, who may do exactly this there.
    pub fn member(&self, name: &str, grants: Grants) -> String {
        let mut acl = Acl::default();
        acl.organizations.entry(self.start.organization_id).or_default().everywhere = grants;
        self.bearer_of(name, acl)
    }

    pub async fn send_as(&self, bearer: &str, method: Method, path: &str, body: &Value) -> Response {
        self.anonymous(method, path).bearer_auth(bearer).json(body).send().await.expect("an answer")
    }

    /// Asserts that whoever may not read a resource gets the answers of one that does not exist.
    pub async fn assert_hidden_from(
        &self,
        bearer: &str,
        collection: &str,
        id: &str,
        tries: &[(Method, &str)],
        body: &Value,
    ) {
        for (method, tail) in tries {
            let mut texts = Vec::new();
            for id in [id, &self.ambient.uuid().to_string()] {
                let path = format!("{collection}/{id}{tail}");
                let response = self.send_as(bearer, method.clone(), &path, body).await;
                texts.push(expect_error(response, StatusCode::NOT_FOUND, "not_found").await);
            }
            assert_eq!(texts[0], texts[1], "{method} {tail}");
        }
        let list = self.send_as(bearer, Method::GET, collection, &json!(null)).await;
        assert_eq!(expect(list, StatusCode::OK).await, json!([]), "B12: an empty list is a list");
    }

    /// Creates what a body describes.
    pub async fn made(&self, collection: &str, body: &Value) -> Value {
        expect(self.send(Method::POST, collection, body).await, StatusCode::CREATED).await
    }

    pub async fn delete(&self, path: &str) -> Response {
        self.request(Method::DELETE, path).send().await.expect("an answer")
    }

    /// The body of a network's creation, in the first project and region.
    pub fn network_body(&self, name: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "spec": {
                "organizationId": self.start.organization_id, "projectId": self.start.project_id,
                "regionId": self.start.region_id, "prefix": "10.0.0.0/22", "dnsNameservers": [],
            },
        })
    }

    pub async fn create(&self, body: &Value) -> Value {
        expect(self.send(Method::POST, NETWORKS, body).await, StatusCode::CREATED).await
    }

    pub async fn insert<K: ResourceKind>(&self, id: Uuid, name: &str, placement: Placement, spec: &K::Spec) {
        let incarnation = Incarnation(self.ambient.uuid());
        let metadata = Metadata::new(incarnation, name, placement, "test", self.ambient.now());
        let record = Record::new::<K>(id, metadata, spec);
        self.store.commit(Batch::of(vec![Write::Insert(Box::new(record))])).await.expect("commits");
    }

    /// Another organization, with a project.
    pub async fn tenant(&self) -> (OrganizationId, ProjectId) {
        let (organization, project) = (OrganizationId(self.ambient.uuid()), ProjectId(self.ambient.uuid()));
        let placement = Placement { organization: Some(organization), ..Placement::default() };
        self.insert::<Organization>(organization.0, "other", placement, &OrganizationSpec::default()).await;
        self.insert::<Project>(project.0, "other", placement, &ProjectSpec::default()).await;
        (organization, project)
    }

    pub async fn region(&self, name: &str, organizations: Option<Vec<OrganizationId>>, withdrawn: bool) -> RegionId {
        let region = RegionId(self.ambient.uuid());
        let provider = ProviderSettings::Simulated(SimulatedSettings::default());
        let spec = RegionSpec { provider, organizations, withdrawn };
        self.insert::<Region>(region.0, name, Placement::default(), &spec).await;
        region
    }
}

pub const NETWORKS: &str = "/api/v2/networks";
pub const SECURITY_GROUPS: &str = "/api/v2/securitygroups";
pub const LOAD_BALANCERS: &str = "/api/v2/loadbalancers";
pub const AUTHORITIES: &str = "/api/v2/sshcertificateauthorities";
pub const SERVERS: &str = "/api/v2/servers";
pub const VOLUMES: &str = "/api/v2/volumes";
pub const FILE_STORAGE: &str = "/api/v2/filestorage";

/// The id of something that was read.
pub fn id_of(resource: &Value) -> &str {
    resource["metadata"]["id"].as_str().expect("an id")
}

pub fn network_path(network: &Value) -> String {
    format!("{NETWORKS}/{}", id_of(network))
}

#[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
pub async fn serve(router: axum::Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// The JSON of an answer that must have this status.
pub async fn expect(response: Response, status: StatusCode) -> Value {
    let got = response.status();
    let text = response.text().await.expect("a body");
    assert_eq!(got, status, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The description of an error answer, whose every other part is checked here.
pub async fn expect_error(response: Response, status: StatusCode, word: &str) -> String {
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().expect("ascii").to_owned());
    assert_eq!(header("cache-control").as_deref(), Some("no-cache"));
    assert_eq!(header("content-type").as_deref(), Some("application/json"));
    let body = expect(response, status).await;
    let fields = body.as_object().expect("an object").keys().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(fields, ["error", "error_description", "trace_id"]);
    assert_eq!(body["error"], word, "{body}");
    let trace = body["trace_id"].as_str().expect("a trace id");
    assert!(trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()), "{trace}");
    body["error_description"].as_str().expect("a description").to_owned()
}
