//! How a region's settings become a provider: the factory that a real process runs on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dashmap::DashMap;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::{ActorCell, SpawnErr};

use super::inspection::{InvalidFault, SimulatedAdmin};
use super::regions::{CloudFactory, Equipment};
use crate::bootstrap::files;
use crate::graph::Service;
use crate::model::ambient::{Ambient, Interrupt, Uninterrupted};
use crate::model::ids::RegionId;
use crate::model::region::{OpenstackSettings, ProviderSettings, RegionSpec, SimulatedSettings};
use crate::model::sealed::EnvelopeKey;
use crate::providers::Provider;
use crate::providers::pool::{Pool, PoolSettings};
use crate::providers::simulated::api::{CloudApi, SimulatedHandle};
use crate::providers::simulated::call::{Caller, CloudError};
use crate::providers::simulated::engine::SimulatedCloud;
use crate::providers::simulated::engine::faults::Fault;
use crate::providers::simulated::in_process::{InProcess, Kept};
use crate::providers::simulated::journal::Journal;
use crate::providers::simulated::provider::SimulatedProvider;
use crate::providers::simulated::remote::Remote;
use crate::store::Store;

/// A cloud in this process keeps what it holds for as long as the process lives, whatever becomes of its region's
/// actors, and across a change of the region's settings.
type KeptClouds = DashMap<RegionId, Arc<Mutex<Kept>>>;

/// Makes the clouds that this binary knows.
pub struct Clouds {
    ambient: Ambient,
    caller: Caller,
    interrupt: Arc<dyn Interrupt>,
    pool_settings: PoolSettings,
    kept: KeptClouds,
    pools: DashMap<RegionId, Pool>,
    admins: DashMap<RegionId, Arc<dyn SimulatedHandle>>,
    keeper: Box<Keeper>,
    records: Option<Records>,
}

/// What a cloud with principals of its own reads them from.
#[cfg_attr(not(feature = "openstack"), expect(dead_code, reason = "simulated clouds need no records"))]
struct Records {
    store: Arc<dyn Store>,
    envelope: Arc<EnvelopeKey>,
}

/// Finds or makes the cloud of a region that lives in this process.
type Keeper = dyn Fn(RegionId) -> Result<Arc<Mutex<Kept>>, String> + Send + Sync;

impl Clouds {
    /// `epoch` grows with every start of a process on one store: a cloud that has heard a newer one refuses changes
    /// that an older process sent.
    #[must_use]
    pub fn new(ambient: Ambient, epoch: u64, keeper: Box<Keeper>) -> Self {
        Self {
            ambient,
            caller: Caller { name: "regent".to_owned(), epoch },
            interrupt: Arc::new(Uninterrupted),
            pool_settings: PoolSettings::default(),
            kept: DashMap::new(),
            pools: DashMap::new(),
            admins: DashMap::new(),
            keeper,
            records: None,
        }
    }

    /// Where principals are on record. Without this there are simulated regions only.
    #[must_use]
    pub fn with_records(mut self, store: Arc<dyn Store>, envelope: Arc<EnvelopeKey>) -> Self {
        self.records = Some(Records { store, envelope });
        self
    }

    /// Clouds that a file each in `folder` keeps from one process to the next.
    #[must_use]
    pub fn in_folder(ambient: Ambient, epoch: u64, folder: std::path::PathBuf) -> Self {
        let clock = ambient.clone();
        let keeper = move |region: RegionId| {
            files::ensure_directory(&folder).map_err(|error| error.to_string())?;
            // Drawn anew for a new cloud: one that handed out the ids of a lost one again would be taken for it.
            let (_, seed) = clock.uuid().as_u64_pair();
            let path = folder.join(format!("{region}.journal"));
            let (cloud, journal) = Journal::open(&path, seed, clock.now()).map_err(|error| error.to_string())?;
            Ok(Arc::new(Mutex::new(Kept { cloud, journal: Some(journal) })))
        };
        Self::new(ambient, epoch, Box::new(keeper))
    }

    /// Clouds that are gone with the process.
    #[must_use]
    pub fn in_memory(ambient: Ambient, epoch: u64) -> Self {
        let seeds = ambient.clone();
        let keeper = move |_region| {
            let (_, seed) = seeds.uuid().as_u64_pair();
            Ok(Kept::in_memory(SimulatedCloud::new(seed)))
        };
        Self::new(ambient, epoch, Box::new(keeper))
    }

    #[must_use]
    pub fn interrupted_by(mut self, interrupt: Arc<dyn Interrupt>) -> Self {
        self.interrupt = interrupt;
        self
    }

    #[must_use]
    pub fn with_pools(mut self, settings: PoolSettings) -> Self {
        self.pool_settings = settings;
        self
    }

    /// The pool of a region, for looking at its record.
    #[must_use]
    pub fn pool(&self, region: RegionId) -> Option<Pool> {
        self.pools.get(&region).map(|pool| pool.clone())
    }

    /// The machine room of a simulated region.
    #[must_use]
    pub fn handle(&self, region: RegionId) -> Option<Arc<dyn SimulatedHandle>> {
        self.admins.get(&region).map(|handle| Arc::clone(&handle))
    }

    fn simulated_face(&self, region: RegionId, settings: &SimulatedSettings) -> Result<Arc<dyn CloudApi>, String> {
        if let Some(endpoint) = &settings.endpoint {
            let remote = Arc::new(Remote::new(endpoint).map_err(|error| error.to_string())?);
            self.admins.insert(region, Arc::clone(&remote) as Arc<dyn SimulatedHandle>);
            return Ok(remote);
        }
        let kept = match self.kept.get(&region).map(|kept| Arc::clone(&kept)) {
            Some(kept) => kept,
            None => (self.keeper)(region)?,
        };
        self.kept.insert(region, Arc::clone(&kept));
        let delay = Duration::from_millis(settings.call_delay_ms);
        let face = Arc::new(InProcess::new(kept, self.ambient.clone(), Arc::clone(&self.interrupt), delay));
        face.configure(settings.into());
        self.admins.insert(region, Arc::clone(&face) as Arc<dyn SimulatedHandle>);
        Ok(face)
    }
}

fn not_built_in(feature: &str) -> String {
    format!("this binary was built without the feature `{feature}`; build it with --features {feature}")
}

#[cfg(feature = "openstack")]
impl Clouds {
    fn openstack(
        &self,
        region: RegionId,
        pool: &Pool,
        settings: &OpenstackSettings,
    ) -> Result<Arc<dyn Provider>, String> {
        use crate::providers::openstack::{OpenstackProvider, StoredPrincipals};
        let records = self.records.as_ref().ok_or("there are no records to read principals from")?;
        let principals = StoredPrincipals::new(Arc::clone(&records.store), Arc::clone(&records.envelope));
        let provider = OpenstackProvider::new(region, pool.clone(), settings.clone(), Arc::new(principals))?;
        Ok(Arc::new(provider))
    }
}

#[cfg(not(feature = "openstack"))]
impl Clouds {
    #[expect(clippy::unused_self, reason = "as with the feature")]
    fn openstack(&self, _: RegionId, _: &Pool, _: &OpenstackSettings) -> Result<Arc<dyn Provider>, String> {
        Err(not_built_in("openstack"))
    }
}

impl CloudFactory for Clouds {
    fn equip(&self, region: RegionId, spec: &RegionSpec) -> Result<Equipment, String> {
        let pool = Pool::new(region, self.pool_settings.clone(), self.ambient.clone());
        let provider: Arc<dyn Provider> = match &spec.provider {
            ProviderSettings::Simulated(settings) => {
                let api = self.simulated_face(region, settings)?;
                Arc::new(SimulatedProvider::new(region, pool.clone(), api, settings.clone(), self.caller.clone()))
            }
            ProviderSettings::Openstack(settings) => self.openstack(region, &pool, settings)?,
            ProviderSettings::Kubernetes(_) => return Err(not_built_in("kubernetes")),
        };
        self.pools.insert(region, pool.clone());
        Ok(Equipment { provider, services: vec![Arc::new(PoolService(pool))] })
    }

    fn simulated(&self, region: RegionId) -> Option<Arc<dyn SimulatedAdmin>> {
        self.handle(region).map(|handle| Arc::new(Admin(handle)) as Arc<dyn SimulatedAdmin>)
    }
}

/// A pool, as its region keeps it running.
struct PoolService(Pool);

impl Service for PoolService {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn spawn(&self, supervisor: ActorCell) -> BoxFuture<'_, Result<ActorCell, SpawnErr>> {
        async move { Ok(self.0.spawn_linked(supervisor).await?.get_cell()) }.boxed()
    }
}

/// A simulated cloud's machine room, in the words of the admin surface.
struct Admin(Arc<dyn SimulatedHandle>);

fn shown<T: serde::Serialize>(answer: Result<T, CloudError>) -> serde_json::Value {
    match answer.map(serde_json::to_value) {
        Ok(Ok(value)) => value,
        Ok(Err(_)) | Err(_) => serde_json::json!({ "error": "the simulated cloud does not answer" }),
    }
}

#[async_trait]
impl SimulatedAdmin for Admin {
    async fn inventory(&self) -> serde_json::Value {
        shown(self.0.inventory().await)
    }

    async fn calls(&self, after: u64) -> serde_json::Value {
        shown(self.0.calls(after).await)
    }

    async fn inject(&self, fault: serde_json::Value) -> Result<(), InvalidFault> {
        let fault: Fault = serde_json::from_value(fault).map_err(|error| InvalidFault(error.to_string()))?;
        self.0.add_faults(vec![fault]).await.map_err(|error| InvalidFault(error.to_string()))
    }

    async fn clear(&self) {
        if let Err(error) = self.0.clear_faults().await {
            tracing::warn!(%error, "the simulated cloud's faults could not be cleared");
        }
    }
}
