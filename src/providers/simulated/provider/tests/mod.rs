//! The provider against the engine, without a pool: what it asks, what it leaves behind, what it survives.

mod balancer_crashes;
mod balancer_faults;
mod balancers;
mod convergence;
mod crashes;
mod faults;
mod file_storage;
mod images;
mod load_balancers;
mod machine_crashes;
mod machine_faults;
mod machine_resizes;
mod machine_verbs;
mod machines;
mod remote;
mod security_groups;
mod servers;
mod volumes;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::api::{CloudApi, SimulatedHandle};
use super::super::engine::backdoor::BackdoorChange;
use super::super::engine::books::Inventory;
use super::super::engine::faults::Fault;
use super::super::in_process::Kept;
use super::super::objects::{Body, ObjectKind};
use super::super::testing::{Cut, MemoryLedger, Written, ambient, caller, cloud, face};
use super::SimulatedProvider;
use super::session::Gate;
use crate::model::ambient::Ambient;
use crate::model::identity::IdentityDetail;
use crate::model::ids::{IdentityId, Incarnation, Kind, NetworkId, OrganizationId, ProjectId, RegionId};
use crate::model::network::{NetworkDetail, NetworkSpec, Prefix, Route};
use crate::model::region::{ProviderNetworks, SimulatedSettings};
use crate::providers::{
    CallContext, Deletion, IdentityRequest, NetworkFact, NetworkRequest, Observed, Provider, ProviderResult,
};

const IDENTITY: u128 = 10;
const NETWORK: u128 = 20;

/// A region with one network and its principal, and what is on record of them. It outlives the processes in it.
struct Rig {
    kept: Arc<Mutex<Kept>>,
    written: Arc<Mutex<Written>>,
    ambient: Ambient,
    cut: Arc<Cut>,
    settings: SimulatedSettings,
    spec: NetworkSpec,
    recorded: Mutex<NetworkDetail>,
    incarnation: Incarnation,
    /// Present: the cloud is not `kept`, it is there.
    remote: Option<Arc<dyn CloudApi>>,
}

fn spec() -> NetworkSpec {
    NetworkSpec {
        prefix: Prefix::parse("192.168.0.0/24").expect("a prefix"),
        reservations: None,
        dns_nameservers: vec!["8.8.8.8".parse().expect("address")],
        routes: Some(vec![Route {
            prefix: Prefix::parse("10.0.0.0/8").expect("a prefix"),
            next_hop: "192.168.0.9".parse().expect("address"),
        }]),
    }
}

fn on_physical_network() -> SimulatedSettings {
    let provider_networks = ProviderNetworks { physical_network: "physical".to_owned(), vlan_segments: vec![] };
    SimulatedSettings { provider_networks: Some(provider_networks), ..SimulatedSettings::default() }
}

impl Rig {
    fn new() -> Self {
        Self::with(on_physical_network())
    }

    fn with(settings: SimulatedSettings) -> Self {
        let written = Written { network: Uuid::from_u128(NETWORK), ..Written::default() };
        Self {
            kept: cloud(),
            written: Arc::new(Mutex::new(written)),
            ambient: ambient(),
            cut: Cut::never(),
            settings,
            spec: spec(),
            recorded: Mutex::default(),
            incarnation: Incarnation(Uuid::from_u128(1)),
            remote: None,
        }
    }

    /// The next process: it dies at the given point.
    fn dies_at(&mut self, point: u64) {
        self.cut = Cut::at(point);
    }

    fn provider(&self) -> SimulatedProvider {
        SimulatedProvider {
            region: RegionId(Uuid::nil()),
            gate: Gate::Open(AtomicU64::new(0)),
            api: self
                .remote
                .clone()
                .unwrap_or_else(|| Arc::new(face(&self.kept, &self.ambient, Arc::clone(&self.cut)))),
            settings: self.settings.clone(),
            caller: caller(1),
            unfit: Mutex::default(),
        }
    }

    async fn run<T>(&self, work: impl AsyncFnOnce(&SimulatedProvider, &CallContext<'_>) -> T) -> Option<T> {
        self.run_about(Kind::Identity, work).await
    }

    async fn run_about<T>(
        &self,
        about: Kind,
        work: impl AsyncFnOnce(&SimulatedProvider, &CallContext<'_>) -> T,
    ) -> Option<T> {
        let (interrupt, written) = (Arc::clone(&self.cut), Arc::clone(&self.written));
        let ledger = MemoryLedger { about, interrupt, written };
        let tenant = OrganizationId(Uuid::from_u128(3));
        let context = CallContext { tenant, cancelled: CancellationToken::new(), ledger: &ledger };
        let provider = self.provider();
        self.cut.run(work(&provider, &context)).await
    }

    fn identity(&self) -> IdentityRequest {
        IdentityRequest {
            id: IdentityId(Uuid::from_u128(IDENTITY)),
            incarnation: self.incarnation,
            organization: OrganizationId(Uuid::from_u128(3)),
            project: ProjectId(Uuid::from_u128(4)),
            resets: 0,
            detail: self.written.lock().expect("lock").identity.clone(),
        }
    }

    fn network(&self) -> NetworkRequest {
        NetworkRequest {
            id: NetworkId(Uuid::from_u128(NETWORK)),
            incarnation: self.incarnation,
            identity: IdentityId(Uuid::from_u128(IDENTITY)),
            organization: OrganizationId(Uuid::from_u128(3)),
            project: ProjectId(Uuid::from_u128(4)),
            spec: self.spec.clone(),
            detail: self.recorded.lock().expect("lock").clone(),
        }
    }

    async fn converge_identity(&self) -> Option<ProviderResult<Observed<IdentityDetail>>> {
        let request = self.identity();
        self.run(async |provider, context| provider.converge_identity(context, &request).await).await
    }

    async fn converge_network(&self) -> Option<ProviderResult<Observed<NetworkFact>>> {
        let request = self.network();
        let result = self.run(async |provider, context| provider.converge_network(context, &request).await).await;
        if let Some(Ok(observed)) = &result {
            *self.recorded.lock().expect("lock") = observed.fact.detail.clone();
        }
        result
    }

    async fn delete_network(&self) -> Option<ProviderResult<Deletion>> {
        let request = self.network();
        self.run(async |provider, context| provider.delete_network(context, &request).await).await
    }

    async fn delete_identity(&self) -> Option<ProviderResult<Deletion>> {
        let request = self.identity();
        self.run(async |provider, context| provider.delete_identity(context, &request).await).await
    }

    /// Makes everything, in one go, without trouble.
    async fn made() -> Self {
        let rig = Self::new();
        rig.make().await;
        rig
    }

    async fn make(&self) -> NetworkFact {
        self.converge_identity().await.expect("alive").expect("converged");
        self.converge_network().await.expect("alive").expect("converged").fact
    }

    /// As an actor does it: again until it is so, with a pause in between.
    async fn make_persistently(&self) {
        retry(async || self.converge_identity().await.expect("alive").is_ok()).await;
        retry(async || self.converge_network().await.expect("alive").is_ok()).await;
    }

    async fn unmake_persistently(&self) {
        retry(async || self.delete_network().await.expect("alive") == Ok(Deletion::Absent)).await;
        retry(async || self.delete_identity().await.expect("alive") == Ok(Deletion::Absent)).await;
    }

    fn handle(&self) -> impl SimulatedHandle {
        face(&self.kept, &self.ambient, Cut::never())
    }

    async fn inventory(&self) -> Inventory {
        self.handle().inventory().await.expect("inventory")
    }

    async fn faults(&self, faults: Vec<Fault>) {
        self.handle().add_faults(faults).await.expect("added");
    }

    async fn behind_our_back(&self, change: BackdoorChange) {
        self.handle().change_directly(change).await.expect("changed");
    }

    async fn mutations(&self) -> u64 {
        self.handle().counters().await.expect("counters").mutations
    }

    /// One of each, complete, in good health, the credential on record, and never two of anything but credentials.
    async fn assert_exactly_what_was_asked_for(&self, said: &str) {
        let inventory = self.inventory().await;
        let lists = [
            &inventory.identities,
            &inventory.users,
            &inventory.key_pairs,
            &inventory.networks,
            &inventory.subnets,
            &inventory.routers,
        ];
        for list in lists {
            assert_eq!(list.len(), 1, "{said}: {list:?}");
        }
        assert_eq!(inventory.credentials.len(), 1, "{said}");
        let IdentityDetail { credential: recorded, key_pair, .. } = self.written.lock().expect("lock").identity.clone();
        let Body::KeyPair { public_key, .. } = &inventory.key_pairs[0].body else { panic!("not a key pair") };
        assert_eq!(key_pair.map(|pair| pair.public_key).as_ref(), Some(public_key), "{said}");
        assert_eq!(recorded.map(|credential| credential.id), Some(inventory.credentials[0].id.0.clone()), "{said}");
        assert_eq!(inventory.routers[0].interfaces().count(), 1, "{said}");
        assert_eq!(inventory.vlans.len(), usize::from(self.settings.provider_networks.is_some()), "{said}");
        self.assert_no_doubles(said).await;
    }

    async fn assert_no_doubles(&self, said: &str) {
        let creations = self.handle().creations().await.expect("creations");
        assert!(creations.complete);
        for creation in creations.creations.iter().filter(|creation| creation.kind != ObjectKind::Credential) {
            assert_eq!(creation.count.at_once_max, 1, "{said}: {creation:?}");
        }
    }
}

/// How often the tests try. A fault that is gone after one call needs two tries, or a few where each try gets further.
const TRIES_MAX: usize = 12;

async fn retry(mut attempt: impl AsyncFnMut() -> bool) {
    for _ in 0..TRIES_MAX {
        if attempt().await {
            return;
        }
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    panic!("did not come to an end in {TRIES_MAX} tries");
}

/// The points that a piece of work passes when nothing stops it.
fn points(rig: &Rig) -> u64 {
    rig.cut.passed().load(Ordering::Relaxed)
}
