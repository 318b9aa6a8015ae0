//! The provider of OpenStack regions against a real OpenStack.
//!
//! The cloud is the development cloud (`deploy/dev/openstack/up`): these tests use what runs, and fail if nothing does.
//! They share it, with each other and with whatever is in it already: each makes things under ids of its own, and looks
//! only for those.

mod cloud;
mod conformance;
mod identities;
mod images;
mod limits;
mod lists;
mod load_balancers;
mod machines;
mod networks;
mod region_check;
mod security_groups;
mod servers;
mod shared_project;
mod transport;
mod volumes;
mod whole;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use regent::model::ambient::Ambient;
use regent::model::identity::IdentityDetail;
use regent::model::ids::{
    IdentityId, Incarnation, Key, NetworkId, OrganizationId, ProjectId, RegionId, SecurityGroupId,
};
use regent::model::network::{NetworkDetail, NetworkSpec, Prefix, VlanId};
use regent::model::openstack::OpenstackSettings;
use regent::model::record::Document;
use regent::model::sealed::{EnvelopeKey, SealError, Sealed};
use regent::model::security_group::{SecurityGroupDetail, SecurityGroupSpec};
use regent::providers::openstack::{OpenstackProvider, Principal, Principals};
use regent::providers::pool::{CallRecord, Pool, PoolSettings};
use regent::providers::{
    CallContext, IdentityRequest, Ledger, NetworkRequest, Provider, ProviderError, ProviderResult, SecurityGroupRequest,
};
use regent::store::StoreError;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use cloud::Facts;

/// What the records of one test hold, and where its passes note what they do.
struct Records {
    envelope: EnvelopeKey,
    identities: Mutex<BTreeMap<IdentityId, IdentityDetail>>,
    vlan: Mutex<Option<VlanId>>,
    /// How many notes are taken before one is lost, as a process that is killed loses them.
    notes_left: AtomicUsize,
}

#[async_trait]
impl Principals for Records {
    async fn find(&self, id: IdentityId) -> ProviderResult<Arc<Principal>> {
        Ok(Arc::new(Principal::on_record(self.identity(id), &self.envelope)?))
    }

    async fn of(&self, _: Key) -> ProviderResult<Option<IdentityId>> {
        // A test has one principal, and everything is its.
        Ok(self.identities.lock().expect("lock").keys().next().copied())
    }

    fn open(&self, sealed: &Sealed<String>) -> ProviderResult<String> {
        Ok(self.envelope.open(sealed)?)
    }
}

impl Records {
    fn identity(&self, id: IdentityId) -> IdentityDetail {
        self.identities.lock().expect("lock").get(&id).cloned().unwrap_or_default()
    }
}

/// The ledger of one principal's pass; of a network's it only hands out VLANs.
struct Notes<'a> {
    records: &'a Records,
    identity: IdentityId,
}

#[async_trait]
impl Ledger for Notes<'_> {
    async fn note(&self, detail: Document) -> Result<(), StoreError> {
        let is_taken = |left: usize| left.checked_sub(1);
        if self.records.notes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_taken).is_err() {
            return Err(StoreError::Unavailable("the process was killed".to_owned()));
        }
        let detail = detail.read().expect("a principal's detail");
        self.records.identities.lock().expect("lock").insert(self.identity, detail);
        Ok(())
    }

    async fn claim_vlan(&self, ranges: &[(u16, u16)]) -> Result<VlanId, StoreError> {
        let mut claimed = self.records.vlan.lock().expect("lock");
        // Tests run beside each other in one cloud, each with a ledger of its own: somewhere in the range is as good.
        let (first, last) = ranges[0];
        Ok(*claimed.get_or_insert_with(|| VlanId(fastrand::u16(first..=last))))
    }

    fn seal(&self, secret: &str) -> Result<Sealed<String>, SealError> {
        self.envelope().seal(&secret.to_owned())
    }
}

impl Notes<'_> {
    const fn envelope(&self) -> &EnvelopeKey {
        &self.records.envelope
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
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        _: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// A region on the development cloud, for one test.
struct World {
    facts: Facts,
    provider: OpenstackProvider,
    pool: Pool,
    records: Arc<Records>,
    organization: OrganizationId,
    project: ProjectId,
    identity: IdentityId,
    incarnation: Incarnation,
}

/// Whose everything of a test is.
struct Ids {
    organization: OrganizationId,
    project: ProjectId,
    identity: IdentityId,
    incarnation: Incarnation,
}

fn random() -> Uuid {
    uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid()
}

impl World {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A region with other settings than the usual ones.
    async fn with(change: impl FnOnce(&mut OpenstackSettings)) -> Self {
        let records = Records {
            envelope: EnvelopeKey::from_bytes(&[7; 32]).expect("a key"),
            identities: Mutex::default(),
            vlan: Mutex::default(),
            notes_left: AtomicUsize::new(usize::MAX),
        };
        let ids = Ids {
            organization: OrganizationId(random()),
            project: ProjectId(random()),
            identity: IdentityId(random()),
            incarnation: Incarnation(random()),
        };
        Self::on(Arc::new(records), ids, change).await
    }

    /// Another process on the same records: it has no token and knows no id but those.
    async fn restarted(&self) -> Self {
        let ids = Ids {
            organization: self.organization,
            project: self.project,
            identity: self.identity,
            incarnation: self.incarnation,
        };
        Self::on(Arc::clone(&self.records), ids, |_| {}).await
    }

    async fn on(records: Arc<Records>, ids: Ids, change: impl FnOnce(&mut OpenstackSettings)) -> Self {
        let facts = Facts::read();
        let region = RegionId(random());
        let pool = Pool::new(region, PoolSettings::default(), Ambient::system());
        let (supervisor, _) = Actor::spawn(None, Supervisor, ()).await.expect("a supervisor");
        pool.spawn_linked(supervisor.get_cell()).await.expect("a pool");
        let mut settings = facts.settings();
        change(&mut settings);
        let principals = Arc::clone(&records) as Arc<dyn Principals>;
        let provider = OpenstackProvider::new(region, pool.clone(), settings, principals).expect("settings");
        let Ids { organization, project, identity, incarnation } = ids;
        Self { facts, provider, pool, records, organization, project, identity, incarnation }
    }

    fn notes(&self) -> Notes<'_> {
        Notes { records: &self.records, identity: self.identity }
    }

    fn context<'a>(&self, notes: &'a Notes<'a>) -> CallContext<'a> {
        CallContext { tenant: self.organization, cancelled: CancellationToken::new(), ledger: notes }
    }

    fn identity_request(&self) -> IdentityRequest {
        IdentityRequest {
            id: self.identity,
            incarnation: self.incarnation,
            organization: self.organization,
            project: self.project,
            resets: 0,
            detail: self.records.identity(self.identity),
        }
    }

    fn network_request(&self, id: NetworkId, detail: NetworkDetail) -> NetworkRequest {
        let prefix = Prefix::parse("192.168.0.0/24").expect("a prefix");
        NetworkRequest {
            id,
            incarnation: self.incarnation,
            identity: self.identity,
            organization: self.organization,
            project: self.project,
            spec: NetworkSpec { prefix, reservations: None, dns_nameservers: vec![[9, 9, 9, 9].into()], routes: None },
            detail,
        }
    }

    fn group_request(&self, id: SecurityGroupId, detail: SecurityGroupDetail) -> SecurityGroupRequest {
        SecurityGroupRequest {
            id,
            incarnation: self.incarnation,
            identity: self.identity,
            organization: self.organization,
            project: self.project,
            spec: SecurityGroupSpec { rules: vec![] },
            detail,
        }
    }

    /// A principal, whole.
    async fn principal(&self) -> IdentityDetail {
        let notes = self.notes();
        let context = self.context(&notes);
        // As an actor would: Keystone may refuse a role that it has given a moment ago.
        let mut tries = 0;
        let detail = loop {
            match self.provider.converge_identity(&context, &self.identity_request()).await {
                Ok(made) => break made.fact,
                Err(ProviderError::Conflict(_) | ProviderError::Unauthorized) if tries < 5 => tries += 1,
                Err(error) => panic!("no principal: {error}"),
            }
        };
        assert_eq!(detail, self.records.identity(self.identity), "what is told is on record");
        detail
    }

    /// Takes the principal away, until nothing is left.
    async fn no_principal(&self) {
        let notes = self.notes();
        let context = self.context(&notes);
        let deleted = self.provider.delete_identity(&context, &self.identity_request()).await.expect("deleted");
        assert_eq!(deleted, regent::providers::Deletion::Absent);
    }

    /// The changes that were made since so many calls.
    fn changes_since(&self, calls: usize) -> Vec<CallRecord> {
        self.pool.recent().into_iter().skip(calls).filter(|call| call.mutation).collect()
    }

    fn calls(&self) -> usize {
        self.pool.recent().len()
    }
}
