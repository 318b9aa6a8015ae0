//! A whole control plane in this process, listening on loopback, on the embedded store.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regent::actors::{Environment, Options};
use regent::api::rate::TenantRates;
use regent::api::{ApiSettings, router};
use regent::bootstrap::{BootstrapFile, Urls, bootstrap};
use regent::config::Configuration;
use regent::config::regions::apply;
use regent::identity::embedded::EmbeddedIdentity;
use regent::model::ambient::Ambient;
use regent::model::ids::{OrganizationId, ProjectId, RegionId};
use regent::model::sealed::EnvelopeKey;
use regent::providers::pool::PoolSettings;
use regent::serve::equipped;
use regent::store::Store;
use regent::store::embedded::EmbeddedStore;
use regent::supervision::Supervision;
use regent::supervision::clouds::Clouds;

#[derive(Clone, Copy)]
pub struct Tenant {
    pub organization: OrganizationId,
    pub project: ProjectId,
}

pub struct Plane {
    pub folder: PathBuf,
    pub store: Arc<dyn Store>,
    pub clouds: Arc<Clouds>,
    /// Kept, because the actors end with it.
    _supervision: Supervision,
    pub regions: Vec<RegionId>,
    pub bootstrap: BootstrapFile,
    pub address: SocketAddr,
}

/// Regions without VLANs: there are only four thousand of those.
pub const CONFIGURATION: &str = r#"
[[regions]]
id = "11111111-1111-4111-8111-111111111111"
name = "north"
[regions.simulated]

[[regions]]
id = "22222222-2222-4222-8222-222222222222"
name = "south"
[regions.simulated]
"#;

/// Opens the folder with its regions and its first organization.
pub async fn furnished(
    folder: &Path,
    ambient: &Ambient,
    configuration: &str,
) -> (Arc<dyn Store>, BootstrapFile, Vec<RegionId>) {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(folder, ambient.clone()).unwrap());
    let configuration = Configuration::parse(configuration, Path::new("bench")).unwrap();
    apply(&*store, ambient, &configuration).await.unwrap();
    let urls = Urls { api: String::new(), admin: String::new() };
    bootstrap(&*store, ambient, folder, &urls).await.unwrap();
    let file = std::fs::read(folder.join("bootstrap.json")).unwrap();
    let regions = configuration.regions.iter().map(|region| region.id).collect();
    (store, serde_json::from_slice(&file).unwrap(), regions)
}

impl Plane {
    /// `paused`: actors are given places but do nothing.
    pub async fn start(folder: PathBuf, paused: bool) -> Self {
        Self::start_on(folder, paused, CONFIGURATION).await
    }

    pub async fn start_on(folder: PathBuf, paused: bool, configuration: &str) -> Self {
        let ambient = Ambient::system();
        let (store, bootstrap, regions) = furnished(&folder, &ambient, configuration).await;
        // Room for every call of a measurement: the pool's record is where they are read from.
        let pools = PoolSettings { recent_max: 200_000, ..PoolSettings::default() };
        let clouds = Arc::new(Clouds::in_memory(ambient.clone(), 1).with_pools(pools));
        let envelope = EnvelopeKey::from_bytes(&[1; 32]).unwrap();
        let environment = Environment::new(Arc::clone(&store), ambient.clone(), envelope, Options::default());
        if paused {
            environment.stopping.cancel();
        }
        let supervision = Supervision::start(Arc::clone(&environment), Arc::clone(&clouds) as _).await.unwrap();
        let identity = Arc::new(EmbeddedIdentity::new(Arc::clone(&store), ambient));
        let api = equipped(&environment, identity, ApiSettings::default(), TenantRates::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        #[expect(clippy::disallowed_methods, reason = "ends with the runtime")]
        tokio::spawn(async move { axum::serve(listener, router(&api)).await.unwrap() });
        Self { folder, store, clouds, _supervision: supervision, regions, bootstrap, address }
    }

    /// Whose what is created here is, unless somebody else's is asked for.
    pub const fn tenant(&self) -> Tenant {
        Tenant { organization: self.bootstrap.organization_id, project: self.bootstrap.project_id }
    }

    /// The bytes of a request that creates a network.
    pub fn create_request(&self, name: &str, region: RegionId) -> Vec<u8> {
        self.create_request_of(self.tenant(), name, region)
    }

    pub fn create_request_of(&self, tenant: Tenant, name: &str, region: RegionId) -> Vec<u8> {
        let body = serde_json::json!({
            "metadata": {"name": name},
            "spec": {
                "organizationId": tenant.organization,
                "projectId": tenant.project,
                "regionId": region,
                "prefix": "10.0.0.0/22",
                "dnsNameservers": ["1.1.1.1"],
            },
        });
        self.post("/api/v2/networks", &body)
    }

    /// The bytes of any request that creates something, in a platform administrator's name.
    pub fn post(&self, path: &str, body: &serde_json::Value) -> Vec<u8> {
        let (token, body) = (&self.bootstrap.token, body.to_string());
        format!(
            "POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
