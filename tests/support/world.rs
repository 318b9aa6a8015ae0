//! What outlives a simulated process (its disk, its clouds, the time), and one life of the process on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use regent::actors::{Environment, Options};
use regent::api::rate::TenantRates;
use regent::api::{self, ApiSettings};
use regent::identity::embedded::EmbeddedIdentity;
use regent::model::ambient::{Ambient, Clock, Uninterrupted};
use regent::model::ids::{Incarnation, OrganizationId, ProjectId, RegionId, TokenId};
use regent::model::metadata::{Metadata, Placement};
use regent::model::organization::{Organization, OrganizationSpec, Project, ProjectSpec};
use regent::model::quota::QuotaKind;
use regent::model::record::Record;
use regent::model::region::{ProviderNetworks, ProviderSettings, Region, RegionSpec, SimulatedSettings};
use regent::model::sealed::EnvelopeKey;
use regent::model::token::{BearerToken, Role, Token};
use regent::providers::simulated::engine::SimulatedCloud;
use regent::providers::simulated::in_process::Kept;
use regent::serve::equipped;
use regent::store::memory::{MemoryDisk, MemoryStore, Mode};
use regent::store::{Batch, Store, Write};
use regent::supervision::Supervision;
use regent::supervision::clouds::Clouds;
use regent::supervision::regions::CloudFactory;
use serde_json::Value;
use tower::ServiceExt;
use uuid::Uuid;

use super::crash::CrashPoints;

/// The time of a world: it goes on from one life to the next.
pub struct WorldClock {
    state: Mutex<(Timestamp, Option<tokio::time::Instant>)>,
}

impl WorldClock {
    fn new() -> Arc<Self> {
        let start = Timestamp::from_second(1_800_000_000).expect("in range");
        Arc::new(Self { state: Mutex::new((start, None)) })
    }

    fn life_begins(&self) {
        self.state.lock().expect("not poisoned").1 = Some(tokio::time::Instant::now());
    }

    /// What passed in the life that ends is added up, before its runtime and its virtual time are gone.
    pub fn life_ends(&self) {
        let now = self.now();
        *self.state.lock().expect("not poisoned") = (now, None);
    }
}

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        let (base, began) = *self.state.lock().expect("not poisoned");
        began.map_or(base, |began| base + began.elapsed())
    }
}

/// How many gibibytes of volumes each tenant may have: so few that it is felt.
pub const VOLUMES_GIB_LIMIT: u64 = 200;

#[derive(Clone, Copy, Debug)]
pub struct Tenant {
    pub organization: OrganizationId,
    pub project: ProjectId,
}

/// What outlives a process.
pub struct World {
    pub seed: u64,
    pub mode: Mode,
    pub disk: Arc<MemoryDisk>,
    pub clouds: BTreeMap<RegionId, Arc<Mutex<Kept>>>,
    pub clock: Arc<WorldClock>,
    pub points: Arc<CrashPoints>,
    pub tenants: Vec<Tenant>,
    pub token: String,
    pub lives: u64,
    pub options: Options,
    /// How many networks each tenant may have.
    pub networks_limit: u64,
    /// What else each may have less of than by default, or more.
    pub limits: Vec<(QuotaKind, u64)>,
}

impl World {
    pub fn new(seed: u64, mode: Mode) -> Self {
        let id = |number: u128| Uuid::from_u128(0x5eed_0000_0000_4000_8000_0000_0000_0000 | number);
        let regions = [RegionId(id(1)), RegionId(id(2))];
        let cloud =
            |region: &RegionId| (*region, Kept::in_memory(SimulatedCloud::new(seed ^ region.0.as_u64_pair().1)));
        let tenants = (10..13)
            .map(|number| Tenant { organization: OrganizationId(id(number)), project: ProjectId(id(number + 10)) });
        Self {
            seed,
            mode,
            disk: MemoryDisk::new(),
            clouds: regions.iter().map(cloud).collect(),
            clock: WorldClock::new(),
            points: CrashPoints::new(),
            tenants: tenants.collect(),
            token: BearerToken::new(TokenId(id(30)), &[7; 32]).reveal(),
            lives: 0,
            options: Options { poll_settled: Duration::from_secs(20), ..Options::default() },
            // Room for the networks of one history and no more, so that the quota is felt.
            networks_limit: 8,
            limits: Vec::new(),
        }
    }

    pub fn regions(&self) -> Vec<RegionId> {
        self.clouds.keys().copied().collect()
    }

    /// What an operator set up before anything else happened.
    pub async fn furnish(&self) {
        let ambient = Ambient::seeded(Arc::clone(&self.clock) as Arc<dyn Clock>, self.seed);
        let store = MemoryStore::open(Arc::clone(&self.disk), ambient.clone(), Arc::new(Uninterrupted), Mode::Atomic);
        let metadata = |name: &str, placement: Placement| {
            Metadata::new(Incarnation(ambient.uuid()), name, placement, "operator", ambient.now())
        };
        let mut writes = Vec::new();
        for (number, region) in self.regions().into_iter().enumerate() {
            // The first region places networks on VLANs, few enough that they are felt to be scarce.
            let provider_networks = (number == 0)
                .then(|| ProviderNetworks { physical_network: "physnet1".to_owned(), vlan_segments: vec![] });
            let settings = SimulatedSettings { provider_networks, call_delay_ms: 5, ..SimulatedSettings::default() };
            let provider = ProviderSettings::Simulated(settings);
            let spec = RegionSpec { provider, organizations: None, withdrawn: false };
            writes.push(insert(Record::new::<Region>(region.0, metadata("region", Placement::default()), &spec)));
        }
        for tenant in &self.tenants {
            let placement = Placement { organization: Some(tenant.organization), ..Placement::default() };
            let organization = metadata("organization", placement);
            let project = metadata("project", Placement { project: Some(tenant.project), ..placement });
            let (organizations, projects) = (OrganizationSpec::default(), ProjectSpec::default());
            writes.push(insert(Record::new::<Organization>(tenant.organization.0, organization, &organizations)));
            writes.push(insert(Record::new::<Project>(tenant.project.0, project, &projects)));
            let (kind, limit) = (QuotaKind::Networks, self.networks_limit);
            writes.push(Write::Limit { organization: tenant.organization, kind, limit });
            let (kind, limit) = (QuotaKind::Volume, VOLUMES_GIB_LIMIT);
            writes.push(Write::Limit { organization: tenant.organization, kind, limit });
            let limit = |&(kind, limit)| Write::Limit { organization: tenant.organization, kind, limit };
            writes.extend(self.limits.iter().map(limit));
        }
        let bearer = BearerToken::parse(&self.token).expect("a token");
        let spec = bearer.spec("operator", Role::PlatformAdministrator, None);
        writes.push(insert(Record::new::<Token>(bearer.id.0, metadata("token", Placement::default()), &spec)));
        store.commit(Batch::of(writes)).await.expect("an empty world takes furniture");
    }

    /// Starts the process again on what the last one left.
    pub async fn begin_life(&mut self) -> Life {
        self.begin_life_with(|clouds| clouds).await
    }

    /// The same, with something between the control plane and its clouds.
    pub async fn begin_life_with(
        &mut self,
        around: impl FnOnce(Arc<dyn CloudFactory>) -> Arc<dyn CloudFactory>,
    ) -> Life {
        self.lives += 1;
        self.clock.life_begins();
        self.points.revive();
        let ambient = Ambient::seeded(Arc::clone(&self.clock) as Arc<dyn Clock>, self.seed ^ (self.lives << 40));
        let points = Arc::clone(&self.points);
        let store = MemoryStore::open(Arc::clone(&self.disk), ambient.clone(), points.clone(), self.mode);
        let store: Arc<dyn Store> = Arc::new(store);
        let kept = self.clouds.clone();
        let keeper = move |region: RegionId| Ok(Arc::clone(&kept[&region]));
        let clouds = Arc::new(Clouds::new(ambient.clone(), self.lives, Box::new(keeper)).interrupted_by(points));
        let envelope = EnvelopeKey::from_bytes(&[9; 32]).expect("a key");
        let environment = Environment::new(Arc::clone(&store), ambient.clone(), envelope, self.options);
        let supervision =
            Supervision::start(Arc::clone(&environment), around(Arc::clone(&clouds) as _)).await.expect("starts");
        let identity = Arc::new(EmbeddedIdentity::new(Arc::clone(&store), ambient));
        let api = equipped(&environment, identity, ApiSettings::default(), TenantRates::default());
        Life { store, clouds, supervision, router: api::router(&api), token: self.token.clone() }
    }
}

fn insert(record: Record) -> Write {
    Write::Insert(Box::new(record))
}

/// One life of the process.
pub struct Life {
    pub store: Arc<dyn Store>,
    pub clouds: Arc<Clouds>,
    pub supervision: Supervision,
    router: Router,
    token: String,
}

impl Life {
    /// A request, as a client would send it.
    pub async fn request(&self, method: &str, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let request =
            Request::builder().method(method).uri(path).header("authorization", format!("Bearer {}", self.token));
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(Body::from(body.to_string())),
            None => request.body(Body::empty()),
        };
        let answer = self.router.clone().oneshot(request.expect("a request")).await.expect("infallible");
        let status = answer.status();
        let bytes = answer.into_body().collect().await.expect("a body").to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}
