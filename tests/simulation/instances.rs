//! Instances in a history: what is done to them, and what must then be true of them and of their servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use regent::graph::snapshot::Phase;
use regent::model::edge::Holder;
use regent::model::ids::{FlavorId, ImageId, InstanceId, Key, Kind, NetworkId, SecurityGroupId, ServerId};
use regent::model::instance::{Instance, MachineSpec};
use regent::model::record::{Record, Resource};
use regent::model::server::Server;
use regent::providers::simulated::catalogue::{FLAVOR_GPU, FLAVOR_LARGE, FLAVOR_STANDARD};
use regent::store::Store;
use serde_json::{Value, json};
use uuid::Uuid;

use super::history::{Ledger, id_of, pick};
use super::invariants::{Records, ensure};
use super::machines;
use crate::support::world::{Life, World};

/// What instances are resized between. From the one with the larger disk there is no way back but another machine.
const FLAVORS: [FlavorId; 4] = [FLAVOR_STANDARD, FLAVOR_STANDARD, FLAVOR_LARGE, FLAVOR_GPU];

/// So few names that some are used again: another instance has the id of its predecessor's server.
const NAMES: usize = 4;

/// What a machine was last asked to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub machine: machines::Asked,
    flavor: FlavorId,
}

impl Asked {
    pub async fn any(life: &Life, ledger: &Ledger, network: Uuid, random: &mut fastrand::Rng) -> Self {
        let machine = machines::asked(life, ledger, network, random).await;
        Self { machine, flavor: FLAVORS[random.usize(0..FLAVORS.len())] }
    }

    /// As it is stored.
    pub fn of(machine: &MachineSpec) -> Self {
        let networking = machine.networking.as_ref();
        let groups = networking.and_then(|networking| networking.security_groups.clone()).unwrap_or_default();
        let groups = groups.into_iter().map(|group: SecurityGroupId| group.0).collect();
        let asked = machines::Asked { groups, image: machine.image.0, public: machine.wants_public_ip() };
        Self { machine: asked, flavor: machine.flavor }
    }

    /// As it is said of an instance, and of a pool.
    pub fn spec(&self) -> Value {
        let networking = machines::networking(&self.machine);
        json!({"flavorId": self.flavor, "imageId": ImageId(self.machine.image), "networking": networking})
    }

    /// Nothing was written: there is no room for it, the catalogue could not be read, or an image cannot be booted from.
    pub fn is_not_accepted(&self, status: StatusCode, answer: &Value) -> bool {
        let text = answer["error_description"].as_str().unwrap_or_default();
        let is_over_quota = status == StatusCode::FORBIDDEN && text.contains("exceed quota");
        is_over_quota || machines::is_not_accepted(status, &self.machine)
    }
}

/// What the harness knows of one. `None` where a request died and its outcome is unknown.
#[derive(Clone, Debug)]
struct KnownInstance {
    network: Uuid,
    name: String,
    /// What does its work: the same for all of this name on the network.
    server: Uuid,
    authority: Option<Uuid>,
    asked: Option<Asked>,
    /// Every group and image that it was ever asked to use: it and its server give them back late.
    used: BTreeSet<Uuid>,
    deleted: Option<bool>,
}

impl KnownInstance {
    fn stays(&self) -> bool {
        self.deleted == Some(false)
    }
}

/// The harness' side of it.
#[derive(Default)]
pub struct Instances {
    known: BTreeMap<Uuid, KnownInstance>,
    /// Creations that died on the way, by the server that they would have.
    doubtful: BTreeMap<Uuid, KnownInstance>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceDeed {
    Create,
    Update,
    Delete,
    Verb,
}

pub async fn perform(deed: InstanceDeed, world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    match deed {
        InstanceDeed::Create => create(world, life, ledger, random).await,
        InstanceDeed::Update => update(life, ledger, random).await,
        InstanceDeed::Delete => {
            if let Some(id) = any_live(ledger, random) {
                delete(life, ledger, id).await;
            }
        }
        InstanceDeed::Verb => verb(life, ledger, random).await,
    }
}

fn any_live(ledger: &Ledger, random: &mut fastrand::Rng) -> Option<Uuid> {
    let live = ledger.instances.known.iter().filter(|(_, known)| known.stays()).map(|(id, _)| *id);
    pick(&live.collect::<Vec<_>>(), random)
}

async fn create(world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(network) = ledger.any_live(random) else { return };
    let name = format!("instance-{}", random.usize(0..NAMES));
    let server = ServerId::named(NetworkId(network), &name).0;
    let tenant = ledger.networks[&network].tenant;
    let authority = machines::any_authority(ledger, tenant, random);
    let asked = Asked::any(life, ledger, network, random).await;
    let mut spec = asked.spec();
    spec["organizationId"] = json!(world.tenants[tenant].organization);
    spec["projectId"] = json!(world.tenants[tenant].project);
    spec["networkId"] = json!(network);
    if let Some(authority) = authority {
        spec["sshCertificateAuthorityId"] = json!(authority);
    }
    if random.u8(0..4) == 0 {
        spec["policy"] = json!({"recovery": "report"});
    }
    let used = asked.machine.used().collect();
    let known = KnownInstance {
        network,
        name: name.clone(),
        server,
        authority,
        asked: Some(asked.clone()),
        used,
        deleted: None,
    };
    let before = ledger.instances.doubtful.remove(&server);
    // Of two that died on the way, the one or the other may be there.
    let doubt = before.clone().map_or_else(
        || known.clone(),
        |before| KnownInstance { asked: None, used: before.used.union(&known.used).copied().collect(), ..before },
    );
    ledger.instances.doubtful.insert(server, doubt);
    let body = json!({"metadata": {"name": name}, "spec": spec});
    let (status, answer) = life.request("POST", "/api/v2/instances", Some(body)).await;
    let may_be_taken = before.is_some() || ledger.instances.known.values().any(|known| known.server == server);
    ledger.instances.doubtful.remove(&server);
    match status {
        StatusCode::CREATED => {
            let is_taken = ledger.instances.known.values().any(|known| known.server == server && known.stays());
            assert!(!is_taken, "a second instance of the name {name} was accepted");
            assert_eq!(answer["status"]["serverId"], json!(server));
            ledger.instances.known.insert(id_of(&answer), KnownInstance { deleted: Some(false), ..known });
        }
        status => {
            let is_conflict = status == StatusCode::CONFLICT && may_be_taken;
            let is_expected = is_conflict || asked.is_not_accepted(status, &answer);
            assert!(is_expected, "a create was answered {status}: {answer}");
            ledger.instances.doubtful.extend(before.map(|before| (server, before)));
        }
    }
}

async fn update(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(id) = any_live(ledger, random) else { return };
    let asked = Asked::any(life, ledger, ledger.instances.known[&id].network, random).await;
    let known = ledger.instances.known.get_mut(&id).expect("picked from it");
    let before = known.asked.take();
    known.used.extend(asked.machine.used());
    let body = json!({"metadata": {"name": known.name}, "spec": asked.spec()});
    let (status, answer) = life.request("PUT", &format!("/api/v2/instances/{id}"), Some(body)).await;
    let known = ledger.instances.known.get_mut(&id).expect("still there");
    if asked.is_not_accepted(status, &answer) {
        known.asked = before;
        return;
    }
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(answer["spec"]["flavorId"], json!(asked.flavor), "an update is read back at once");
    known.asked = Some(asked);
}

async fn delete(life: &Life, ledger: &mut Ledger, id: Uuid) {
    let known = ledger.instances.known.get_mut(&id).expect("known");
    let (refused, may_be) = ledger.volumes.keep_server(known.server);
    let may_be = may_be || ledger.images.may_hold(known.server);
    known.deleted = if refused { Some(false) } else { None };
    let gone = machines::delete(life, &format!("/api/v2/instances/{id}"), refused, may_be).await;
    ledger.instances.known.get_mut(&id).expect("known").deleted = Some(gone);
}

pub async fn delete_all(life: &Life, ledger: &mut Ledger) {
    let known = ledger.instances.known.iter().filter(|(_, known)| known.stays()).map(|(id, _)| *id);
    for id in known.collect::<Vec<_>>() {
        delete(life, ledger, id).await;
    }
}

/// A verb may succeed, be refused by the state of the server, or fail with the cloud; it is never half done.
async fn verb(life: &Life, ledger: &Ledger, random: &mut fastrand::Rng) {
    let Some(id) = any_live(ledger, random) else { return };
    let words = ["start", "stop", "reboot", "reboot?hard=true"];
    let word = words[random.usize(0..words.len())];
    let (status, answer) = life.request("POST", &format!("/api/v2/instances/{id}/{word}"), None).await;
    let fine = [StatusCode::ACCEPTED, StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::SERVICE_UNAVAILABLE];
    assert!(fine.contains(&status), "{word}: {status} {answer}");
}

impl Instances {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &KnownInstance> {
        self.known.values().chain(self.doubtful.values())
    }

    fn staying(&self) -> impl Iterator<Item = &KnownInstance> {
        self.known.values().filter(|known| known.stays())
    }

    /// One that is certain to stay, its server and its network.
    pub fn any_source(&self, random: &mut fastrand::Rng) -> Option<(Uuid, Uuid, Uuid)> {
        let sources = self.known.iter().filter(|(_, known)| known.stays());
        let sources = sources.map(|(id, known)| (*id, known.server, known.network)).collect::<Vec<_>>();
        pick(&sources, random)
    }

    /// Servers of those of a network that are certain to stay.
    pub fn servers(&self, network: Uuid) -> impl Iterator<Item = Uuid> {
        self.staying().filter(move |known| known.network == network).map(|known| known.server)
    }

    /// Would a deletion of this network be refused, and may it be?
    pub fn keep_network(&self, network: Uuid) -> (bool, bool) {
        let kept = self.staying().any(|known| known.network == network);
        (kept, self.all().any(|known| known.network == network))
    }

    /// The same of a group or an image.
    pub fn keep_used(&self, id: Uuid) -> (bool, bool) {
        let asked = |known: &KnownInstance| known.asked.as_ref().is_some_and(|asked| asked.machine.uses(id));
        (self.staying().any(asked), self.all().any(|known| known.used.contains(&id)))
    }

    /// The same of an authority.
    pub fn keep_authority(&self, id: Uuid) -> (bool, bool) {
        let is_its = |known: &KnownInstance| known.authority == Some(id);
        (self.staying().any(is_its), self.all().any(is_its))
    }

    /// A tenant goes, or may go, with everything on these networks.
    pub fn networks_deleted(&mut self, networks: &BTreeSet<Uuid>, deleted: Option<bool>) {
        let lost = self.known.values_mut().filter(|known| networks.contains(&known.network));
        for known in lost.filter(|known| known.deleted != Some(true)) {
            known.deleted = deleted;
        }
    }
}

pub fn opened<R: regent::model::record::ResourceKind>(record: &Record) -> Result<Resource<R>, String> {
    record.open::<R>().map_err(|error| error.to_string())
}

/// The cluster that it is of.
pub fn cluster_of(record: &Record) -> Option<Key> {
    record.metadata.owner.filter(|owner| owner.kind == Kind::Cluster)
}

pub async fn held(life: &Life, key: Key) -> Result<BTreeSet<Key>, String> {
    let held = life.store.referred_by(&Holder::Resource(key)).await.map_err(|error| error.to_string())?;
    Ok(held.into_iter().collect())
}

pub fn phase(life: &Life, key: Key) -> Option<Phase> {
    life.supervision.environment().graph.node(key).map(|node| node.snapshot().phase.clone())
}

/// What is stored is what was accepted; what was in doubt is settled by what is stored. Those of clusters are theirs.
pub async fn accepted_is_durable(life: &Life, stored: &Records, ledger: &mut Ledger) -> Result<(), String> {
    let instances = &mut ledger.instances;
    for (id, record) in stored.iter().filter(|(_, record)| cluster_of(record).is_none()) {
        let spec = opened::<Instance>(record)?.spec;
        if !instances.known.contains_key(id) {
            let known = instances.doubtful.remove(&spec.server.0);
            let known = known.ok_or_else(|| format!("instance {id} is stored but nobody asked for it"))?;
            instances.known.insert(*id, known);
        }
        let known = instances.known.get_mut(id).expect("inserted");
        ensure!(known.server == spec.server.0, "instance {id} has another server than its name says");
        let asked = Asked::of(&spec.machine);
        if let Some(before) = &known.asked {
            ensure!(*before == asked, "an accepted update of instance {id} is lost: {before:?}, {asked:?}");
        }
        known.asked = Some(asked);
        known.authority = spec.machine.ssh_certificate_authority.map(|authority| authority.0);
        let both = held(life, record.key).await?.into_iter().chain(held(life, spec.server.key()).await?);
        known.used = both.map(|key| key.id).collect();
        let is_deleting = record.metadata.is_deleting();
        match known.deleted {
            Some(true) => ensure!(is_deleting, "the accepted deletion of instance {id} is lost"),
            Some(false) => ensure!(!is_deleting, "instance {id} is being deleted, and nobody asked for that"),
            None => known.deleted = Some(is_deleting),
        }
        ensure!(!is_deleting, "instance {id} is at rest, but its deletion was accepted");
    }
    instances.doubtful.clear();
    for (id, known) in &instances.known {
        ensure!(stored.contains_key(id) || !known.stays(), "instance {id} was accepted and is lost");
    }
    instances.known.retain(|id, _| stored.contains_key(id));
    Ok(())
}

/// Each has exactly one server of its own, and says what that one says; and no server is without its instance.
pub fn servers_are_as_said(life: &Life, instances: &Records, servers: &Records) -> Result<(), String> {
    for (id, record) in servers {
        let Some(governed) = opened::<Server>(record)?.spec.governed else { continue };
        let instance = instances.get(&governed.instance.0);
        let instance = instance.ok_or_else(|| format!("server {id} is {}'s, which is not there", governed.instance))?;
        let own = opened::<Instance>(instance)?.spec.server.0;
        ensure!(own == *id, "server {id} is {}'s, whose server is {own}", governed.instance);
    }
    for (id, record) in instances.iter().filter(|(_, record)| !record.metadata.is_deleting()) {
        let instance = opened::<Instance>(record)?;
        let server = servers.get(&instance.spec.server.0).ok_or_else(|| format!("instance {id} has no server"))?;
        let server = opened::<Server>(server)?;
        let is_own = server.spec.governed.is_some_and(|governed| governed.instance == InstanceId(*id));
        ensure!(is_own, "the server of instance {id} is somebody else's");
        let wanted = instance.spec.server_spec(InstanceId(*id), Some(&server));
        ensure!(wanted == server.spec, "instance {id} wants {wanted:?}, its server is to be {:?}", server.spec);
        let (says, is) = (&instance.detail, &server.detail);
        let told = (says.phase, says.private_ip, says.public_ip, &says.mac_address);
        let true_of_it = (is.phase, is.private_ip, is.public_ip, &is.mac_address);
        ensure!(told == true_of_it, "instance {id} says {told:?} of a server that is {true_of_it:?}");
        let settled = |key: Key| phase(life, key) == Some(Phase::Settled);
        let (follows, leads) = (settled(record.key), settled(server.key));
        ensure!(follows == leads, "instance {id} is settled: {follows}, its server: {leads}");
        let available = (instance.conditions.is_available(), server.conditions.is_available());
        ensure!(available.0 == available.1, "instance {id} and its server are available: {available:?}");
    }
    Ok(())
}

/// An instance is charged for what it is, unless its cluster is; and both refer to exactly what they use.
pub async fn books_are_even(life: &Life, stored: &Records) -> Result<(), String> {
    let allocations = life.store.allocations().await.map_err(|error| error.to_string())?;
    let paying = |kind: Kind| allocations.iter().filter(move |charge| charge.holder.kind == kind);
    ensure!(paying(Kind::Server).next().is_none(), "a server is charged, and not its instance");
    let charged = paying(Kind::Instance).map(|charge| (charge.holder.id, charge.amounts.clone()));
    let charged = charged.collect::<BTreeMap<_, _>>();
    let mut costs = BTreeMap::new();
    for (id, record) in stored.iter().filter(|(_, record)| cluster_of(record).is_none()) {
        let instance = opened::<Instance>(record)?;
        // What its machine may still have is paid for until it has followed.
        let has_followed = instance.detail.settled == instance.metadata.generation
            || (instance.conditions.is_available() && !instance.metadata.is_deleting());
        costs.insert(*id, if has_followed { instance.spec.machine.cost() } else { instance.spec.charged.clone() });
    }
    ensure!(charged == costs, "charges and instances differ: {charged:?}, not {costs:?}");
    for record in stored.values().filter(|record| !record.metadata.is_deleting()) {
        let network = record.metadata.placement.network.map(NetworkId::key);
        let uses = opened::<Instance>(record)?.spec.machine.uses();
        refers_evenly(life, record, network.into_iter().chain(uses).collect()).await?;
    }
    Ok(())
}

/// Once it is settled it holds exactly this; before, it may still hold what it is about to give back.
pub async fn refers_evenly(life: &Life, record: &Arc<Record>, wanted: BTreeSet<Key>) -> Result<(), String> {
    let held = held(life, record.key).await?;
    let settled = phase(life, record.key) == Some(Phase::Settled);
    let even = if settled { held == wanted } else { held.is_superset(&wanted) };
    ensure!(even, "{} refers to {held:?} and not to {wanted:?}", record.key);
    Ok(())
}

/// Whatever machine of an instance the cloud has, the instance is there, and it or its cluster pays.
pub async fn always(world: &World, store: &dyn Store) -> Result<(), String> {
    let charged = store.allocations().await.map_err(|error| error.to_string())?;
    let charged = charged.into_iter().map(|allocation| allocation.holder).collect::<BTreeSet<Key>>();
    for kept in world.clouds.values() {
        let servers = {
            let mut kept = kept.lock().unwrap();
            kept.cloud.inventory(regent::model::ambient::Clock::now(&*world.clock)).servers
        };
        for marks in servers.into_iter().filter_map(|object| object.marks) {
            let server = store.get(ServerId(marks.id).key()).await.map_err(|error| error.to_string())?;
            let Some(server) = server else { continue };
            let Some(governed) = opened::<Server>(&server)?.spec.governed else { continue };
            let instance = store.get(governed.instance.key()).await.map_err(|error| error.to_string())?;
            let instance = instance.ok_or_else(|| format!("the cloud has {} but not its instance", server.key))?;
            let payer = cluster_of(&instance).unwrap_or(instance.key);
            ensure!(charged.contains(&payer), "the cloud has {} but nobody is charged for it", server.key);
        }
    }
    Ok(())
}
