//! A seeded history: what several tenants, operators, bad luck and the machine do, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::http::StatusCode;
use regent::graph::message::Message;
use regent::model::ids::{Key, Kind, NetworkId};
use regent::model::server::PowerState;
use regent::providers::simulated::call::CloudError;
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::providers::simulated::engine::faults::{CallPattern, Effect, Fault, PartialForm};
use regent::providers::simulated::objects::Body;
use regent::supervision::inspection::{Inspection, OperatorVerb};
use serde_json::{Value, json};
use uuid::Uuid;

use super::balancers::{self, BalancerDeed, Balancers};
use super::clusters::{self, ClusterDeed, Clusters};
use super::images::{self, ImageDeed, Images};
use super::instances::{self, InstanceDeed, Instances};
use super::machines::{self, MachineDeed, Machines};
use super::storage::{self, StorageDeed, Storages};
use super::volumes::{self, VolumeDeed, Volumes};
use crate::support::world::{Life, World};

/// What the harness knows of a network that it asked for. `None` where a request died with the process and its
/// outcome is unknown.
#[derive(Clone, Debug)]
pub struct Known {
    pub tenant: usize,
    pub name: String,
    /// The last accepted name servers; `None`: an update is in doubt.
    pub dns: Option<Vec<String>>,
    /// `Some(true)`: deletion was accepted; `None`: in doubt.
    pub deleted: Option<bool>,
    pub references: BTreeSet<String>,
    /// References whose outcome is in doubt.
    pub doubtful: BTreeSet<String>,
    pub paused: bool,
}

/// The one tenant whose project may be deleted in the middle of a history.
const MORTAL: usize = 2;

/// The harness' side of a history.
#[derive(Default)]
pub struct Ledger {
    pub networks: BTreeMap<Uuid, Known>,
    pub machines: Machines,
    pub balancers: Balancers,
    pub volumes: Volumes,
    pub images: Images,
    pub storage: Storages,
    pub instances: Instances,
    pub clusters: Clusters,
    /// What is being deleted and waits for a reference of another service, which may be there.
    pub waiting_for_ever: BTreeSet<Uuid>,
    /// Creations that died on the way: the network may or may not be there.
    /// With its tenant and the name servers it was to have.
    pub doubtful: BTreeMap<String, (usize, Vec<String>)>,
    /// Whether the last tenant's project is being deleted; `None`: in doubt.
    pub tenant_deleted: Option<bool>,
    pub operations: u64,
    pub faults: u64,
    named: u64,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Create,
    Update,
    Delete,
    AddReference,
    RemoveReference,
    Fault,
    Backdoor,
    Reconcile,
    PauseOrResume,
    DeleteTenant,
    Machine(MachineDeed),
    Storage(StorageDeed),
    Balancer(BalancerDeed),
    Volume(VolumeDeed),
    Image(ImageDeed),
    Instance(InstanceDeed),
    Cluster(ClusterDeed),
    Wait,
}

const WEIGHTS: &[(Deed, u32)] = &[
    (Deed::Create, 18),
    (Deed::Update, 8),
    (Deed::Delete, 12),
    (Deed::AddReference, 4),
    (Deed::RemoveReference, 5),
    (Deed::Fault, 8),
    (Deed::Backdoor, 5),
    (Deed::Reconcile, 4),
    (Deed::PauseOrResume, 3),
    (Deed::DeleteTenant, 1),
    (Deed::Machine(MachineDeed::CreateGroup), 10),
    (Deed::Machine(MachineDeed::UpdateGroup), 4),
    (Deed::Machine(MachineDeed::DeleteGroup), 5),
    (Deed::Machine(MachineDeed::CreateAuthority), 3),
    (Deed::Machine(MachineDeed::DeleteAuthority), 2),
    (Deed::Machine(MachineDeed::CreateServer), 18),
    (Deed::Machine(MachineDeed::UpdateServer), 8),
    (Deed::Machine(MachineDeed::DeleteServer), 9),
    (Deed::Machine(MachineDeed::Verb), 8),
    (Deed::Balancer(BalancerDeed::Create), 9),
    (Deed::Balancer(BalancerDeed::Update), 8),
    (Deed::Balancer(BalancerDeed::Delete), 4),
    (Deed::Balancer(BalancerDeed::Backdoor), 2),
    (Deed::Volume(VolumeDeed::Create), 12),
    (Deed::Volume(VolumeDeed::Update), 10),
    (Deed::Volume(VolumeDeed::Delete), 7),
    (Deed::Volume(VolumeDeed::Backdoor), 2),
    (Deed::Image(ImageDeed::Import), 6),
    (Deed::Image(ImageDeed::Snapshot), 6),
    (Deed::Image(ImageDeed::Delete), 5),
    (Deed::Storage(StorageDeed::Create), 7),
    (Deed::Storage(StorageDeed::Update), 8),
    (Deed::Storage(StorageDeed::Delete), 4),
    (Deed::Instance(InstanceDeed::Create), 15),
    (Deed::Instance(InstanceDeed::Update), 14),
    (Deed::Instance(InstanceDeed::Delete), 7),
    (Deed::Instance(InstanceDeed::Verb), 6),
    (Deed::Cluster(ClusterDeed::Create), 7),
    (Deed::Cluster(ClusterDeed::Scale), 5),
    (Deed::Cluster(ClusterDeed::Change), 5),
    (Deed::Cluster(ClusterDeed::Evict), 4),
    (Deed::Cluster(ClusterDeed::Delete), 3),
    (Deed::Wait, 18),
];

pub fn draw(random: &mut fastrand::Rng, has_compute: bool) -> Deed {
    let is_drawn = |(deed, _): &&(Deed, u32)| has_compute || !matches!(deed, Deed::Instance(_) | Deed::Cluster(_));
    let weights = WEIGHTS.iter().filter(is_drawn);
    let total = weights.clone().map(|(_, weight)| weight).sum();
    let mut at = random.u32(0..total);
    for &(deed, weight) in weights {
        if at < weight {
            return deed;
        }
        at -= weight;
    }
    Deed::Wait
}

/// Does one deed. What is in doubt is noted before the request is sent, and settled by its answer.
pub async fn perform(deed: Deed, world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    ledger.operations += 1;
    match deed {
        Deed::Create => create(world, life, ledger, random).await,
        Deed::Update => update(life, ledger, random).await,
        Deed::DeleteTenant => delete_tenant(world, life, ledger).await,
        Deed::Machine(deed) => machines::perform(deed, world, life, ledger, random).await,
        Deed::Balancer(deed) => balancers::perform(deed, world, life, ledger, random).await,
        Deed::Volume(deed) => volumes::perform(deed, world, life, ledger, random).await,
        Deed::Image(deed) => images::perform(deed, world, life, ledger, random).await,
        Deed::Storage(deed) => storage::perform(deed, world, life, ledger, random).await,
        Deed::Instance(deed) => instances::perform(deed, world, life, ledger, random).await,
        Deed::Cluster(deed) => clusters::perform(deed, world, life, ledger, random).await,
        Deed::Delete => {
            if let Some(id) = ledger.any_live(random) {
                delete(life, ledger, id).await;
            }
        }
        Deed::AddReference => {
            if let Some(id) = ledger.any_live(random) {
                let holder = format!("computeinstances.compute.example.org/{}", Uuid::from_u128(random.u128(..) | 1));
                refer(life, ledger, id, &holder, true).await;
            }
        }
        Deed::RemoveReference => {
            let held = ledger.networks.iter().filter_map(|(id, known)| Some((*id, known.references.first()?.clone())));
            let held = held.collect::<Vec<_>>();
            if let Some((id, holder)) = pick(&held, random) {
                refer(life, ledger, id, &holder, false).await;
            }
        }
        Deed::Fault => fault(world, life, ledger, random).await,
        Deed::Backdoor => backdoor(world, life, random).await,
        Deed::Reconcile => {
            if let Some(id) = ledger.any_live(random) {
                life.supervision.environment().graph.send(network(id), Message::Reconcile);
            }
        }
        Deed::PauseOrResume => {
            if let Some(id) = ledger.any_live(random) {
                pause_or_resume(life, ledger, id).await;
            }
        }
        Deed::Wait => tokio::time::sleep(Duration::from_millis(random.u64(0..8000))).await,
    }
    tokio::time::sleep(Duration::from_millis(random.u64(0..120))).await;
}

pub fn network(id: Uuid) -> Key {
    NetworkId(id).key()
}

pub fn pick<T: Clone>(from: &[T], random: &mut fastrand::Rng) -> Option<T> {
    if from.is_empty() { None } else { Some(from[random.usize(0..from.len())].clone()) }
}

/// What the one or the other keeps, or may keep.
pub fn either(one: (bool, bool), other: (bool, bool)) -> (bool, bool) {
    (one.0 || other.0, one.1 || other.1)
}

impl Ledger {
    /// Do instances or clusters keep this group or image from going, and may they?
    pub fn machines_keep(&self, id: Uuid) -> (bool, bool) {
        either(self.instances.keep_used(id), self.clusters.keep_used(id))
    }

    pub fn new() -> Self {
        Self { tenant_deleted: Some(false), ..Self::default() }
    }

    pub fn any_live(&self, random: &mut fastrand::Rng) -> Option<Uuid> {
        let live = self.networks.iter().filter(|(_, known)| known.deleted == Some(false)).map(|(id, _)| *id);
        pick(&live.collect::<Vec<_>>(), random)
    }

    /// A tenant whose project is certain to be there.
    pub fn any_tenant(&self, world: &World, random: &mut fastrand::Rng) -> Option<usize> {
        let tenant = random.usize(0..world.tenants.len());
        (tenant != MORTAL || self.tenant_deleted == Some(false)).then_some(tenant)
    }

    fn networks_of(&self, tenant: usize) -> BTreeSet<Uuid> {
        self.networks.iter().filter(|(_, known)| known.tenant == tenant).map(|(id, _)| *id).collect()
    }

    /// What became of the mortal tenant, for everything that it has.
    pub fn settle_tenant(&mut self, deleted: Option<bool>) {
        self.tenant_deleted = deleted;
        // It stays: what is in doubt because of it, or for a reason of its own, is settled by what is stored.
        if deleted == Some(false) {
            return;
        }
        let networks = self.networks_of(MORTAL);
        for id in &networks {
            let known = self.networks.get_mut(id).expect("of it");
            if known.deleted != Some(true) {
                known.deleted = deleted;
            }
        }
        self.machines.tenant_deleted(MORTAL, &networks, deleted);
        self.balancers.networks_deleted(&networks, deleted);
        self.volumes.networks_deleted(&networks, deleted);
        self.storage.tenant_deleted(MORTAL, deleted);
        self.instances.networks_deleted(&networks, deleted);
        self.clusters.networks_deleted(&networks, deleted);
    }
}

/// The project goes, and everything in it.
async fn delete_tenant(world: &World, life: &Life, ledger: &mut Ledger) {
    if ledger.tenant_deleted != Some(false) {
        return;
    }
    ledger.settle_tenant(None);
    let tenant = world.tenants[MORTAL];
    let path = format!("/api/v1/organizations/{}/projects/{}", tenant.organization, tenant.project);
    let (status, answer) = life.request("DELETE", &path, None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    ledger.settle_tenant(Some(true));
}

fn servers(random: &mut fastrand::Rng) -> Vec<String> {
    (0..random.usize(0..3)).map(|_| Ipv4Addr::from(random.u32(..)).to_string()).collect()
}

async fn create(world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    ledger.named += 1;
    let name = format!("network-{}", ledger.named);
    let Some(tenant) = ledger.any_tenant(world, random) else { return };
    let region = world.regions()[random.usize(0..world.regions().len())];
    let dns = servers(random);
    ledger.doubtful.insert(name.clone(), (tenant, dns.clone()));
    let body = json!({
        "metadata": {"name": name},
        "spec": {
            "organizationId": world.tenants[tenant].organization,
            "projectId": world.tenants[tenant].project,
            "regionId": region,
            "prefix": "10.1.0.0/24",
            "dnsNameservers": dns,
        },
    });
    let (status, answer) = life.request("POST", "/api/v2/networks", Some(body)).await;
    ledger.doubtful.remove(&name);
    match status {
        StatusCode::CREATED => {
            let id = id_of(&answer);
            ledger.networks.insert(
                id,
                Known {
                    tenant,
                    name,
                    dns: Some(dns),
                    deleted: Some(false),
                    references: BTreeSet::new(),
                    doubtful: BTreeSet::new(),
                    paused: false,
                },
            );
        }
        StatusCode::FORBIDDEN => {
            let text = answer["error_description"].as_str().unwrap_or_default();
            assert!(text.contains("exceed quota"), "a create was refused for another reason than quota: {answer}");
        }
        other => panic!("a create was answered {other}: {answer}"),
    }
}

pub fn id_of(answer: &Value) -> Uuid {
    answer["metadata"]["id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("no id in {answer}"))
}

async fn update(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(id) = ledger.any_live(random) else { return };
    let known = ledger.networks.get_mut(&id).expect("picked from it");
    let dns = servers(random);
    let before = known.dns.take();
    let body = json!({"metadata": {"name": known.name}, "spec": {"dnsNameservers": dns}});
    let (status, answer) = life.request("PUT", &format!("/api/v2/networks/{id}"), Some(body)).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(answer["spec"]["dnsNameservers"], json!(dns), "an update is read back at once (before: {before:?})");
    ledger.networks.get_mut(&id).expect("still there").dns = Some(dns);
}

pub async fn delete(life: &Life, ledger: &mut Ledger, id: Uuid) {
    let known = ledger.networks.get_mut(&id).expect("known");
    let (kept, may_be_kept) = ledger.machines.keep(id);
    let (kept_too, may_be_too) = ledger.volumes.keep_network(id);
    let (attached, may_be_attached) = ledger.storage.keep(id);
    let (worked_on, may_be_worked_on) = either(ledger.instances.keep_network(id), ledger.clusters.keep_network(id));
    let refused = !known.references.is_empty() || kept || kept_too || attached || worked_on;
    let in_doubt = !known.doubtful.is_empty() || may_be_kept || may_be_too || may_be_attached || may_be_worked_on;
    known.deleted = if refused { Some(false) } else { None };
    let groups = ledger.machines.groups.clone();
    let (networks, balancers) = (BTreeSet::from([id]), ledger.balancers.clone());
    if !refused {
        ledger.machines.network_deleted(id, None);
        ledger.balancers.networks_deleted(&networks, None);
    }
    let (status, answer) = life.request("DELETE", &format!("/api/v2/networks/{id}"), None).await;
    let known = ledger.networks.get_mut(&id).expect("known");
    match status {
        StatusCode::ACCEPTED => {
            assert!(!refused, "{id} was marked for deletion although it is referred to");
            known.deleted = Some(true);
            ledger.machines.network_deleted(id, Some(true));
            ledger.balancers.networks_deleted(&networks, Some(true));
        }
        StatusCode::FORBIDDEN => {
            assert!(answer["error_description"].as_str().is_some_and(|text| text.contains("in use")), "{answer}");
            assert!(refused || in_doubt, "{id} was refused deletion although nobody refers to it");
            known.deleted = Some(false);
            ledger.machines.groups = groups;
            ledger.balancers = balancers;
        }
        other => panic!("a delete was answered {other}: {answer}"),
    }
}

pub async fn refer(life: &Life, ledger: &mut Ledger, id: Uuid, holder: &str, add: bool) {
    let known = ledger.networks.get_mut(&id).expect("known");
    known.references.remove(holder);
    known.doubtful.insert(holder.to_owned());
    let path = format!("/api/v2/networks/{id}/references/{}", holder.replace('/', "%2F"));
    let (method, expected) = if add { ("PUT", StatusCode::CREATED) } else { ("DELETE", StatusCode::NO_CONTENT) };
    let (status, answer) = life.request(method, &path, None).await;
    assert_eq!(status, expected, "{method} {path}: {answer}");
    let known = ledger.networks.get_mut(&id).expect("known");
    known.doubtful.remove(holder);
    if add {
        known.references.insert(holder.to_owned());
    }
}

async fn pause_or_resume(life: &Life, ledger: &mut Ledger, id: Uuid) {
    let known = ledger.networks.get_mut(&id).expect("known");
    let verb = if known.paused { OperatorVerb::Resume } else { OperatorVerb::Pause };
    // An actor that has not started yet cannot be spoken to; the operator would try again.
    if life.supervision.inspector().verb(network(id), verb).await.is_ok() {
        known.paused = !known.paused;
    }
}

/// Nothing is paused any more: what lies on a paused network may try again and again what cannot be done.
pub async fn resume_all(life: &Life, ledger: &mut Ledger) {
    let paused = ledger.networks.iter().filter(|(_, known)| known.paused).map(|(id, _)| *id).collect::<Vec<_>>();
    for id in paused {
        pause_or_resume(life, ledger, id).await;
    }
}

async fn fault(world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    ledger.faults += 1;
    let regions = world.regions();
    let handle = life.clouds.handle(regions[random.usize(0..regions.len())]).expect("a simulated region");
    let everything = CallPattern::default();
    let changes = CallPattern { mutating: Some(true), ..CallPattern::default() };
    let (matching, effect) = match random.u32(0..19) {
        17 => (CallPattern::operation("create-image"), Effect::FailedImport),
        0 => (everything, Effect::Error { error: CloudError::Unavailable }),
        1 => (everything, Effect::TimeOut { after_ms: random.u64(100..20_000) }),
        2 => (everything, Effect::Hang),
        3 | 4 => (changes, Effect::LostAnswer { after_ms: random.u64(0..3000) }),
        5 => (changes, Effect::PartialCreate { form: PartialForm::Incomplete }),
        6 => (changes, Effect::PartialCreate { form: PartialForm::Errored }),
        7 => (CallPattern::operation("list-networks"), Effect::Stale { age_ms: random.u64(1000..60_000) }),
        8 => (everything, Effect::Slow { delay_ms: random.u64(10..5000) }),
        9 => (everything, Effect::Throttle { retry_after_ms: Some(random.u64(100..5000)) }),
        10 => (changes, Effect::StuckDelete { for_ms: Some(random.u64(1000..30_000)) }),
        13 => (CallPattern::operation("create-server"), Effect::FailedBoot),
        14 => (CallPattern::operation("rebuild-server"), Effect::FailedRebuild),
        18 => (CallPattern::operation("resize-server"), Effect::FailedResize),
        15 => (CallPattern::operation("list-servers"), Effect::Stale { age_ms: random.u64(1000..60_000) }),
        16 => (CallPattern::operation("list-shares"), Effect::Stale { age_ms: random.u64(1000..60_000) }),
        11 => (changes, Effect::StuckCreate { for_ms: Some(random.u64(1000..30_000)) }),
        _ => (CallPattern { mutating: Some(false), ..everything }, Effect::Error { error: CloudError::Unavailable }),
    };
    let fault = Fault { matching, effect, times: Some(random.u32(1..4)), probability: None };
    handle.add_faults(vec![fault]).await.expect("takes faults");
}

/// A point that only a fault leads to gets that fault: an object is updated when its creation left something out.
pub async fn lead_to(target: &str, world: &World, life: &Life) {
    let Some(part) = target.split(":update-").nth(1) else { return };
    for region in world.regions() {
        let effect = Effect::PartialCreate { form: PartialForm::Incomplete };
        let fault = Fault { times: Some(4), ..Fault::always(&format!("create-{part}"), effect) };
        life.clouds.handle(region).expect("a simulated region").add_faults(vec![fault]).await.expect("takes faults");
    }
}

/// Something is deleted or changed in the cloud without asking us.
async fn backdoor(world: &World, life: &Life, random: &mut fastrand::Rng) {
    let regions = world.regions();
    let handle = life.clouds.handle(regions[random.usize(0..regions.len())]).expect("a simulated region");
    let inventory = handle.inventory().await.expect("books");
    let change = match random.u32(0..12) {
        11 => pick(&inventory.images, random).map(|object| BackdoorChange::Delete { id: object.id }),
        0 | 1 => pick(&inventory.networks, random).map(|object| BackdoorChange::Delete { id: object.id }),
        2 => pick(&inventory.identities, random).map(|object| BackdoorChange::Delete { id: object.id }),
        9 => pick(&inventory.shares, random).map(|object| BackdoorChange::Delete { id: object.id }),
        10 => pick(&inventory.share_attachments, random).map(|object| BackdoorChange::Delete { id: object.id }),
        3 | 4 => pick(&inventory.servers, random).map(|object| BackdoorChange::Delete { id: object.id }),
        5 => pick(&inventory.servers, random)
            .map(|object| BackdoorChange::SetPower { server: object.id, power: PowerState::Shutdown }),
        6 => pick(&inventory.ports, random)
            .map(|object| BackdoorChange::SetPortGroups { port: object.id, security_groups: BTreeSet::new() }),
        7 => pick(&inventory.security_groups, random).and_then(|object| {
            let Body::SecurityGroup { rules, .. } = &object.body else { return None };
            let rule = rules.iter().find(|rule| rule.ports.is_some()).copied()?;
            Some(BackdoorChange::DropRule { group: object.id, rule })
        }),
        _ => pick(&inventory.subnets, random).map(|object| BackdoorChange::SetSubnet {
            id: object.id,
            dns_nameservers: vec![Ipv4Addr::new(6, 6, 6, 6)],
            routes: vec![],
        }),
    };
    if let Some(change) = change {
        let _ = handle.change_directly(change).await;
    }
}

/// Nothing goes wrong any more.
pub async fn calm(world: &World, life: &Life) {
    for region in world.regions() {
        let handle = life.clouds.handle(region).expect("a simulated region");
        handle.clear_faults().await.expect("clears");
        handle.change_directly(BackdoorChange::Release { id: None }).await.expect("releases");
    }
}

/// Kinds whose actors must be at rest at a quiet point.
pub const KINDS: &[Kind] = &[
    Kind::Organization,
    Kind::Project,
    Kind::Identity,
    Kind::Network,
    Kind::SecurityGroup,
    Kind::LoadBalancer,
    Kind::SshCertificateAuthority,
    Kind::Server,
    Kind::Volume,
    Kind::Image,
    Kind::FileStorage,
    Kind::Instance,
    Kind::Cluster,
];
