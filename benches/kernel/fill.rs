//! A store and a cloud that agree: what many settled resources leave behind.
//!
//! The objects are made by the region's provider, so that they are what it makes; what is written down of each is taken
//! from the cloud's own lists, as its actor would take it. Only the actors are missing: a hundred thousand lives take
//! much longer than their traces.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use regent::actors::{Environment, Options, kind};
use regent::model::ambient::Ambient;
use regent::model::condition::{Axis, Conditions, Reason, Statement, Transition, Truth};
use regent::model::edge::Holder;
use regent::model::identity::{HIDDEN_NAME, Identity, IdentitySpec};
use regent::model::ids::{
    IdentityId, Incarnation, Key, NetworkId, OrganizationId, ProjectId, SecurityGroupId, ServerId,
};
use regent::model::metadata::{Metadata, Placement};
use regent::model::network::{Network, NetworkSpec, Prefix, VlanId};
use regent::model::record::{Document, Record};
use regent::model::sealed::{EnvelopeKey, SealError, Sealed};
use regent::model::security_group::{Direction, Protocol, Rule, SecurityGroup, SecurityGroupSpec};
use regent::model::server::{Networking, Server, ServerSpec};
use regent::providers::call::{Fact, ProviderCall};
use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_UBUNTU};
use regent::providers::simulated::engine::SimulatedCloud;
use regent::providers::simulated::in_process::Kept;
use regent::providers::{
    CallContext, IdentityRequest, Ledger, NetworkRequest, Provider, SecurityGroupRequest, ServerRequest,
};
use regent::store::{Batch, Store, StoreError, Write};
use regent::supervision::Supervision;
use regent::supervision::clouds::Clouds;
use tokio_util::sync::CancellationToken;

use super::plane::furnished;

/// A network and its principal, and beside them as many groups and servers as make four fifths of everything.
const GROUPS_PER_NETWORK: usize = 4;
const SERVERS_PER_NETWORK: usize = 4;
pub const RESOURCES_PER_NETWORK: usize = 2 + GROUPS_PER_NETWORK + SERVERS_PER_NETWORK;

const PAST_EVENTS: usize = 20;

const RECORDS_PER_COMMIT: usize = 500;

/// Servers have booted by the time that they are looked at.
const CONFIGURATION: &str = r#"
[[regions]]
id = "11111111-1111-4111-8111-111111111111"
name = "north"
[regions.simulated]
bootDelayMs = 0
"#;

/// Fills an empty folder, and a file that `regent simulated-cloud` goes on from.
pub async fn fill(folder: &Path, cloud_file: &Path, networks: usize) {
    let ambient = Ambient::system();
    let (store, bootstrap, regions) = furnished(folder, &ambient, CONFIGURATION).await;
    let kept = Kept::in_memory(SimulatedCloud::new(1));
    let keeper = Arc::clone(&kept);
    let clouds = Arc::new(Clouds::new(ambient.clone(), 0, Box::new(move |_| Ok(Arc::clone(&keeper)))));
    let envelope = EnvelopeKey::from_bytes(&[1; 32]).unwrap();
    let environment = Environment::new(Arc::clone(&store), ambient.clone(), envelope, Options::default());
    let supervision = Supervision::start(Arc::clone(&environment), clouds).await.unwrap();
    let builder = Builder {
        provider: environment.clouds.get(regions[0]).unwrap(),
        notebook: Notebook(EnvelopeKey::from_bytes(&[1; 32]).unwrap()),
        placement: Placement {
            organization: Some(bootstrap.organization_id),
            project: Some(bootstrap.project_id),
            region: Some(regions[0]),
            ..Placement::default()
        },
        tenant: (bootstrap.organization_id, bootstrap.project_id),
        ambient,
    };
    let built = futures_util::stream::iter(0..networks).map(|number| builder.estate(number)).buffer_unordered(64);
    let mut records = built.concat().await;
    builder.look(&mut records).await;
    supervision.stop(Duration::from_secs(5)).await;
    let whole = kept.lock().unwrap_or_else(PoisonError::into_inner).cloud.whole();
    let mut line = serde_json::to_vec(&whole).unwrap();
    line.push(b'\n');
    std::fs::write(cloud_file, line).unwrap();
    builder.write(&*store, &records).await;
}

/// Seals what has to be sealed; the rest is written down at the end.
struct Notebook(EnvelopeKey);

#[async_trait]
impl Ledger for Notebook {
    async fn note(&self, _detail: Document) -> Result<(), StoreError> {
        Ok(())
    }
    async fn claim_vlan(&self, _ranges: &[(u16, u16)]) -> Result<VlanId, StoreError> {
        Err(StoreError::Unavailable("the region has no VLANs".to_owned()))
    }
    fn seal(&self, secret: &str) -> Result<Sealed<String>, SealError> {
        self.0.seal(&secret.to_owned())
    }
}

struct Builder {
    provider: Arc<dyn Provider>,
    notebook: Notebook,
    placement: Placement,
    tenant: (OrganizationId, ProjectId),
    ambient: Ambient,
}

impl Builder {
    fn context(&self) -> CallContext<'_> {
        CallContext { tenant: self.tenant.0, cancelled: CancellationToken::new(), ledger: &self.notebook }
    }

    fn metadata(&self, name: &str, placement: Placement, owner: Option<Key>) -> Metadata {
        let incarnation = Incarnation(self.ambient.uuid());
        Metadata { owner, ..Metadata::new(incarnation, name, placement, "bench", self.ambient.now()) }
    }

    /// Has the cloud make what a record asks for.
    async fn make(&self, record: &mut Record, call: ProviderCall) {
        let fact = call.make(&*self.provider, &self.context()).await.unwrap();
        absorb(record, &fact);
    }

    /// A network with everything that belongs to it, owners first.
    async fn estate(&self, number: usize) -> Vec<Record> {
        let (organization, project) = self.tenant;
        let id = IdentityId(self.ambient.uuid());
        let metadata = self.metadata(HIDDEN_NAME, self.placement, None);
        let mut identity = Record::new::<Identity>(id.0, metadata, &IdentitySpec { hidden: true });
        let incarnation = identity.metadata.incarnation;
        let detail = identity.detail.read().unwrap();
        let request = IdentityRequest { id, incarnation, organization, project, resets: 0, detail };
        self.make(&mut identity, ProviderCall::ConvergeIdentity(request)).await;
        let placement = Placement { identity: Some(id), ..self.placement };
        let network = self.network(number, placement).await;
        let placement = Placement { network: Some(NetworkId(network.key.id)), ..placement };
        let mut records = vec![identity, network];
        let mut groups = Vec::new();
        for group in 0..GROUPS_PER_NETWORK {
            records.push(self.group(&format!("g{number}-{group}"), placement).await);
            groups.push(SecurityGroupId(records[records.len() - 1].key.id));
        }
        for server in 0..SERVERS_PER_NETWORK {
            let group = groups[server % GROUPS_PER_NETWORK];
            records.push(self.server(&format!("s{number}-{server}"), placement, group).await);
        }
        records
    }

    async fn network(&self, number: usize, placement: Placement) -> Record {
        let identity = placement.identity.unwrap();
        let (organization, project) = self.tenant;
        let spec = NetworkSpec {
            prefix: Prefix::parse("10.0.0.0/22").unwrap(),
            reservations: None,
            dns_nameservers: vec!["1.1.1.1".parse().unwrap()],
            routes: None,
        };
        let metadata = self.metadata(&format!("n{number}"), placement, Some(identity.key()));
        let mut record = Record::new::<Network>(self.ambient.uuid(), metadata, &spec);
        let (id, incarnation) = (NetworkId(record.key.id), record.metadata.incarnation);
        let detail = record.detail.read().unwrap();
        let request = NetworkRequest { id, incarnation, identity, organization, project, spec, detail };
        self.make(&mut record, ProviderCall::ConvergeNetwork(request)).await;
        record
    }

    async fn group(&self, name: &str, placement: Placement) -> Record {
        let (organization, project) = self.tenant;
        let rule = |port| Rule {
            direction: Direction::Ingress,
            protocol: Protocol::Tcp,
            port: Some(port),
            port_max: None,
            prefix: None,
        };
        let spec = SecurityGroupSpec { rules: vec![rule(22), rule(443)] };
        let metadata = self.metadata(name, placement, placement.network.map(NetworkId::key));
        let mut record = Record::new::<SecurityGroup>(self.ambient.uuid(), metadata, &spec);
        let (id, incarnation) = (SecurityGroupId(record.key.id), record.metadata.incarnation);
        let (identity, detail) = (placement.identity.unwrap(), record.detail.read().unwrap());
        let request = SecurityGroupRequest { id, incarnation, identity, organization, project, spec, detail };
        self.make(&mut record, ProviderCall::ConvergeSecurityGroup(request)).await;
        record
    }

    async fn server(&self, name: &str, placement: Placement, group: SecurityGroupId) -> Record {
        let (organization, project) = self.tenant;
        let (identity, network) = (placement.identity.unwrap(), placement.network.unwrap());
        let spec = ServerSpec {
            flavor: FLAVOR_STANDARD,
            image: IMAGE_UBUNTU,
            networking: Some(Networking { security_groups: Some(vec![group]), ..Networking::default() }),
            user_data: None,
            ssh_certificate_authority: None,
            ssh_injection: None,
            infrastructure: None,
            own_images: Vec::new(),
            governed: None,
        };
        let metadata = self.metadata(name, placement, Some(network.key()));
        let mut record = Record::new::<Server>(ServerId::named(network, name).0, metadata, &spec);
        let request = ServerRequest {
            id: ServerId(record.key.id),
            incarnation: record.metadata.incarnation,
            generation: record.metadata.generation,
            identity,
            network,
            organization,
            project,
            name: name.to_owned(),
            tags: Vec::new(),
            spec,
            user_data: None,
            may_create: true,
            detail: record.detail.read().unwrap(),
        };
        self.make(&mut record, ProviderCall::ConvergeServer(request)).await;
        record
    }

    /// Takes what the lists say into the records: what is made may change by itself, as a server does when it boots.
    async fn look(&self, records: &mut [Record]) {
        let mut by_key = records.iter_mut().map(|record| (record.key, record)).collect::<BTreeMap<_, _>>();
        for entry in kind::all().filter(|entry| entry.is_monitored) {
            let mut after = None;
            loop {
                let page = self.provider.list(&self.context(), entry.kind, None, after.as_deref()).await.unwrap().fact;
                for listed in page.items {
                    absorb(by_key.get_mut(&listed.key).unwrap(), &listed.fact);
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
    }

    async fn write(&self, store: &dyn Store, records: &[Record]) {
        for records in records.chunks(RECORDS_PER_COMMIT) {
            let mut writes = Vec::new();
            for record in records {
                let stored = Record { detail: Document::default(), ..record.clone() };
                writes.push(Write::Insert(Box::new(stored)));
                let used = (entry(record.key).references)(record).unwrap().into_iter().flatten();
                let holder = Holder::Resource(record.key);
                writes.extend(used.map(|target| Write::AddReference { target, holder: holder.clone() }));
                writes.push(Write::Status {
                    key: record.key,
                    incarnation: record.metadata.incarnation,
                    conditions: Box::new(self.settled(record)),
                    detail: record.detail.clone(),
                    transitions: self.past(),
                });
            }
            store.commit(Batch::of(writes)).await.unwrap();
        }
    }

    fn settled(&self, record: &Record) -> Conditions {
        let entry = entry(record.key);
        let mut conditions = Conditions::default();
        let mut state = |axis, statement| conditions.state(axis, statement, 1, self.ambient.now());
        state(Axis::Available, Statement::new(Truth::True, Reason::Provisioned, "provisioned"));
        state(Axis::Healthy, kind::Health::Healthy.statement());
        if let Some(active) = (entry.active)(&record.detail) {
            state(Axis::Active, active);
        }
        conditions
    }

    /// Ups and downs.
    fn past(&self) -> Vec<Transition> {
        let turn = |number| {
            let (status, reason, message) = match number % 2 {
                0 => (Truth::False, Reason::Degraded, "differs from what was asked for"),
                _ => (Truth::True, Reason::Healthy, "healthy"),
            };
            let (at, message) = (self.ambient.now(), message.to_owned());
            Transition { at, axis: Axis::Healthy, status, reason, message, observed_generation: 1 }
        };
        (0..PAST_EVENTS).map(turn).collect()
    }
}

fn entry(key: Key) -> &'static kind::KindEntry {
    kind::entry(key.kind).unwrap()
}

fn absorb(record: &mut Record, fact: &Fact) {
    record.detail = (entry(record.key).absorb)(record.key, &record.detail, fact).unwrap().detail;
}
