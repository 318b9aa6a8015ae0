//! The suite on a simulated cloud.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use regent::model::ambient::{Ambient, Clock, Uninterrupted};
use regent::model::identity::IdentityDetail;
use regent::model::ids::{IdentityId, Incarnation, NetworkId, OrganizationId, ProjectId, RegionId};
use regent::model::network::{NetworkDetail, NetworkSpec, Prefix, VlanId};
use regent::model::record::Document;
use regent::model::region::SimulatedSettings;
use regent::model::sealed::{EnvelopeKey, SealError, Sealed};
use regent::providers::pool::{Pool, PoolSettings};
use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_UBUNTU, VOLUME_CLASS_STANDARD};
use regent::providers::simulated::{Caller, InProcess, Kept, SimulatedCloud, SimulatedProvider};
use regent::providers::{IdentityRequest, Ledger, NetworkRequest, Provider};
use regent::store::StoreError;

use super::{Subject, random};

/// A ledger that nobody reads.
struct Unread(EnvelopeKey);

#[async_trait]
impl Ledger for Unread {
    async fn note(&self, _: Document) -> Result<(), StoreError> {
        Ok(())
    }
    async fn claim_vlan(&self, _: &[(u16, u16)]) -> Result<VlanId, StoreError> {
        Err(StoreError::Unavailable("nobody asks".to_owned()))
    }
    fn seal(&self, secret: &str) -> Result<Sealed<String>, SealError> {
        self.0.seal(&secret.to_owned())
    }
}

/// Somebody for the pool to belong to.
struct Supervisor;

impl Actor for Supervisor {
    type Msg = ();
    type State = ();
    type Arguments = ();
    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Goes with the runtime's clock, which a paused test moves by itself.
struct VirtualClock(tokio::time::Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(self.0.elapsed()).expect("a time")
    }
}

async fn provider() -> SimulatedProvider {
    let clock = Arc::new(VirtualClock(tokio::time::Instant::now()));
    let (region, ambient) = (RegionId(random()), Ambient::seeded(clock, 1));
    let pool = Pool::new(region, PoolSettings::default(), ambient.clone());
    let (supervisor, _) = Actor::spawn(None, Supervisor, ()).await.expect("a supervisor");
    pool.spawn_linked(supervisor.get_cell()).await.expect("a pool");
    let kept = Kept::in_memory(SimulatedCloud::new(1));
    let api = InProcess::new(kept, ambient, Arc::new(Uninterrupted), Duration::ZERO);
    let caller = Caller { name: "conformance".to_owned(), epoch: 1 };
    SimulatedProvider::new(region, pool, Arc::new(api), SimulatedSettings::default(), caller)
}

#[tokio::test(start_paused = true)]
async fn a_simulated_cloud_conforms() {
    let (provider, ledger) = (provider().await, Unread(EnvelopeKey::from_bytes(&[7; 32]).expect("a key")));
    let subject = Subject {
        provider: &provider,
        ledger: &ledger,
        organization: OrganizationId(random()),
        project: ProjectId(random()),
        identity: IdentityId(random()),
        incarnation: Incarnation(random()),
        network: NetworkId(random()),
        flavor: FLAVOR_STANDARD,
        image: IMAGE_UBUNTU,
        class: VOLUME_CLASS_STANDARD,
    };
    let Subject { organization, project, identity, incarnation, network, .. } = subject;
    let principal = IdentityRequest {
        id: identity,
        incarnation,
        organization,
        project,
        resets: 0,
        detail: IdentityDetail::default(),
    };
    provider.converge_identity(&subject.context(), &principal).await.expect("a principal");
    let prefix = Prefix::parse("192.168.0.0/24").expect("a prefix");
    let spec = NetworkSpec { prefix, reservations: None, dns_nameservers: vec![], routes: None };
    let detail = NetworkDetail::default();
    let request = NetworkRequest { id: network, incarnation, identity, organization, project, spec, detail };
    provider.converge_network(&subject.context(), &request).await.expect("a network");
    subject.conforms().await;
}
