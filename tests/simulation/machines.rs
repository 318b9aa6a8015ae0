//! Groups, authorities and servers in a history: what is done to them, and what must then be true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use regent::graph::snapshot::Phase;
use regent::model::edge::Holder;
use regent::model::ids::{ImageId, Key, NetworkId, RegionId, SecurityGroupId, ServerId, SshCertificateAuthorityId};
use regent::model::record::Record;
use regent::model::server::Server;
use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_GPU, IMAGE_UBUNTU};
use regent::providers::simulated::engine::books::Inventory;
use regent::providers::simulated::objects::{Body, CloudObject, ObjectKind};
use serde_json::{Value, json};
use uuid::Uuid;

use super::history::{Ledger, either, id_of, pick};
use super::invariants::ensure;
use crate::support::world::{Life, World};

/// A public key that nobody has the private part of.
const AUTHORITY_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

/// What servers are rebuilt between.
const IMAGES: [ImageId; 2] = [IMAGE_UBUNTU, IMAGE_GPU];

/// So few names that some are used again: a recreated server has its predecessor's id.
const SERVER_NAMES: usize = 5;

/// What is the matter with something that was asked for. `None`: a request died and its outcome is unknown.
#[derive(Clone, Debug)]
pub struct KnownGroup {
    pub network: Uuid,
    pub deleted: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct KnownAuthority {
    pub tenant: usize,
    pub deleted: Option<bool>,
}

/// What a server was last asked to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub groups: Vec<Uuid>,
    pub image: Uuid,
    pub public: bool,
}

impl Asked {
    /// What is held for it, as far as it has a record.
    pub fn used(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.groups.iter().copied().chain([self.image])
    }

    pub fn uses(&self, id: Uuid) -> bool {
        self.used().any(|used| used == id)
    }
}

#[derive(Clone, Debug)]
pub struct KnownServer {
    pub network: Uuid,
    name: String,
    authority: Option<Uuid>,
    /// `None`: an update is in doubt.
    asked: Option<Asked>,
    /// Every group and image that it was ever asked to use: it gives them back late.
    used: BTreeSet<Uuid>,
    /// The creation was answered.
    certain: bool,
    pub deleted: Option<bool>,
}

impl KnownServer {
    /// It is there, without a doubt, and is to stay.
    fn stays(&self) -> bool {
        self.certain && self.deleted == Some(false)
    }
}

/// The harness' side of it.
#[derive(Default)]
pub struct Machines {
    pub groups: BTreeMap<Uuid, KnownGroup>,
    pub authorities: BTreeMap<Uuid, KnownAuthority>,
    pub servers: BTreeMap<Uuid, KnownServer>,
    /// Groups and authorities whose creation died on the way, by name: the network or the tenant.
    doubtful_groups: BTreeMap<String, Uuid>,
    doubtful_authorities: BTreeMap<String, usize>,
    named: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineDeed {
    CreateGroup,
    UpdateGroup,
    DeleteGroup,
    CreateAuthority,
    DeleteAuthority,
    CreateServer,
    UpdateServer,
    DeleteServer,
    Verb,
}

pub async fn perform(deed: MachineDeed, world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    match deed {
        MachineDeed::CreateGroup => create_group(life, ledger, random).await,
        MachineDeed::UpdateGroup => update_group(life, ledger, random).await,
        MachineDeed::DeleteGroup => {
            if let Some(id) = pick(&live_groups(ledger, None), random) {
                delete_group(life, ledger, id).await;
            }
        }
        MachineDeed::CreateAuthority => create_authority(world, life, ledger, random).await,
        MachineDeed::DeleteAuthority => {
            if let Some(id) = pick(&live_authorities(ledger, None), random) {
                delete_authority(life, ledger, id).await;
            }
        }
        MachineDeed::CreateServer => create_server(life, ledger, random).await,
        MachineDeed::UpdateServer => update_server(life, ledger, random).await,
        MachineDeed::DeleteServer => {
            if let Some(id) = any_server(ledger, random) {
                delete_server(life, ledger, id).await;
            }
        }
        MachineDeed::Verb => verb(life, ledger, random).await,
    }
}

fn live_groups(ledger: &Ledger, network: Option<Uuid>) -> Vec<Uuid> {
    let live = ledger.machines.groups.iter().filter(|(_, known)| known.deleted == Some(false));
    live.filter(|(_, known)| network.is_none_or(|network| known.network == network)).map(|(id, _)| *id).collect()
}

fn live_authorities(ledger: &Ledger, tenant: Option<usize>) -> Vec<Uuid> {
    let live = ledger.machines.authorities.iter().filter(|(_, known)| known.deleted == Some(false));
    live.filter(|(_, known)| tenant.is_none_or(|tenant| known.tenant == tenant)).map(|(id, _)| *id).collect()
}

/// One of a tenant's authorities, sometimes.
pub fn any_authority(ledger: &Ledger, tenant: usize, random: &mut fastrand::Rng) -> Option<Uuid> {
    if random.u8(0..3) == 0 { pick(&live_authorities(ledger, Some(tenant)), random) } else { None }
}

/// Those of a network that are certain to be there and to stay, whoever they work for.
pub fn live_servers(ledger: &Ledger, network: Uuid) -> Vec<Uuid> {
    let live = ledger.machines.servers.iter().filter(|(_, known)| known.stays() && known.network == network);
    live.map(|(id, _)| *id).chain(ledger.instances.servers(network)).collect()
}

pub fn any_server(ledger: &Ledger, random: &mut fastrand::Rng) -> Option<Uuid> {
    let live = ledger.machines.servers.iter().filter(|(_, known)| known.stays()).map(|(id, _)| *id);
    pick(&live.collect::<Vec<_>>(), random)
}

fn rules(random: &mut fastrand::Rng) -> Value {
    json!([{"direction": "ingress", "protocol": "tcp", "port": random.u16(1..1000)}])
}

async fn create_group(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(network) = ledger.any_live(random) else { return };
    ledger.machines.named += 1;
    let name = format!("group-{}", ledger.machines.named);
    ledger.machines.doubtful_groups.insert(name.clone(), network);
    let body = json!({"metadata": {"name": name}, "spec": {"networkId": network, "rules": rules(random)}});
    let (status, answer) = life.request("POST", "/api/v2/securitygroups", Some(body)).await;
    ledger.machines.doubtful_groups.remove(&name);
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    ledger.machines.groups.insert(id_of(&answer), KnownGroup { network, deleted: Some(false) });
}

async fn update_group(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(id) = pick(&live_groups(ledger, None), random) else { return };
    let rules = rules(random);
    let body = json!({"metadata": {"name": "changed"}, "spec": {"rules": rules}});
    let (status, answer) = life.request("PUT", &format!("/api/v2/securitygroups/{id}"), Some(body)).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(answer["spec"]["rules"], rules, "an update is read back at once");
}

/// Sends a deletion. `refused`: it must be; `may_be`: it may be, because of something in doubt.
pub async fn delete(life: &Life, path: &str, refused: bool, may_be: bool) -> bool {
    let (status, answer) = life.request("DELETE", path, None).await;
    match status {
        StatusCode::ACCEPTED => {
            assert!(!refused, "{path} was marked for deletion although it is in use");
            true
        }
        StatusCode::FORBIDDEN => {
            assert!(answer["error_description"].as_str().is_some_and(|text| text.contains("in use")), "{answer}");
            assert!(refused || may_be, "{path} was refused deletion although nobody uses it: {answer}");
            false
        }
        StatusCode::NOT_FOUND if may_be => true,
        other => panic!("DELETE {path} was answered {other}: {answer}"),
    }
}

pub async fn delete_group(life: &Life, ledger: &mut Ledger, id: Uuid) {
    let uses = |known: &&KnownServer| known.asked.as_ref().is_some_and(|asked| asked.groups.contains(&id));
    let refused = ledger.machines.servers.values().filter(|known| known.stays()).any(|known| uses(&known));
    let may_be = ledger.machines.servers.values().any(|known| known.used.contains(&id));
    let (refused, may_be) = either((refused, may_be), ledger.machines_keep(id));
    let known = ledger.machines.groups.get_mut(&id).expect("known");
    known.deleted = if refused { Some(false) } else { None };
    let gone = delete(life, &format!("/api/v2/securitygroups/{id}"), refused, may_be).await;
    ledger.machines.groups.get_mut(&id).expect("known").deleted = Some(gone);
}

async fn create_authority(world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(tenant) = ledger.any_tenant(world, random) else { return };
    ledger.machines.named += 1;
    let name = format!("authority-{}", ledger.machines.named);
    ledger.machines.doubtful_authorities.insert(name.clone(), tenant);
    let place = &world.tenants[tenant];
    let body = json!({
        "metadata": {"name": name},
        "spec": {"organizationId": place.organization, "projectId": place.project, "publicKey": AUTHORITY_KEY},
    });
    let (status, answer) = life.request("POST", "/api/v2/sshcertificateauthorities", Some(body)).await;
    ledger.machines.doubtful_authorities.remove(&name);
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(answer["metadata"]["provisioningStatus"], "provisioned");
    ledger.machines.authorities.insert(id_of(&answer), KnownAuthority { tenant, deleted: Some(false) });
}

pub async fn delete_authority(life: &Life, ledger: &mut Ledger, id: Uuid) {
    let using = ledger.machines.servers.values().filter(|known| known.authority == Some(id)).collect::<Vec<_>>();
    let kept = (using.iter().any(|known| known.stays()), !using.is_empty());
    let kept = either(kept, ledger.instances.keep_authority(id));
    let (refused, may_be) = either(kept, ledger.clusters.keep_authority(id));
    let known = ledger.machines.authorities.get_mut(&id).expect("known");
    known.deleted = if refused { Some(false) } else { None };
    let gone = delete(life, &format!("/api/v2/sshcertificateauthorities/{id}"), refused, may_be).await;
    ledger.machines.authorities.get_mut(&id).expect("known").deleted = Some(gone);
}

/// Where a network is made; `None` when it is gone.
pub async fn region_of(life: &Life, network: Uuid) -> Option<RegionId> {
    life.store.get(NetworkId(network).key()).await.expect("reads")?.metadata.placement.region
}

/// One that the cloud offers or, sometimes, one of the tenant's own, ready or not.
async fn any_image(life: &Life, ledger: &Ledger, network: Uuid, random: &mut fastrand::Rng) -> Uuid {
    let region = region_of(life, network).await;
    let own = region.map(|region| ledger.images.of(ledger.networks[&network].tenant, region)).unwrap_or_default();
    let own = if random.u8(0..3) == 0 { pick(&own, random) } else { None };
    own.unwrap_or_else(|| IMAGES[random.usize(0..IMAGES.len())].0)
}

pub async fn asked(life: &Life, ledger: &Ledger, network: Uuid, random: &mut fastrand::Rng) -> Asked {
    let groups = live_groups(ledger, Some(network)).into_iter().filter(|_| random.bool()).collect();
    let image = any_image(life, ledger, network, random).await;
    Asked { groups, image, public: random.u8(0..4) == 0 }
}

pub fn networking(asked: &Asked) -> Value {
    json!({"securityGroups": asked.groups, "publicIP": asked.public})
}

async fn create_server(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(network) = ledger.any_live(random) else { return };
    let name = format!("server-{}", random.usize(0..SERVER_NAMES));
    let id = ServerId::named(NetworkId(network), &name).0;
    let tenant = ledger.networks[&network].tenant;
    let authority = any_authority(ledger, tenant, random);
    let ask = asked(life, ledger, network, random).await;
    let before = ledger.machines.servers.get(&id).cloned();
    if before.is_none() {
        let known = KnownServer {
            network,
            name: name.clone(),
            authority,
            asked: Some(ask.clone()),
            used: ask.used().collect(),
            certain: false,
            deleted: Some(false),
        };
        ledger.machines.servers.insert(id, known);
    } else if let Some(known) = ledger.machines.servers.get_mut(&id).filter(|known| !known.stays()) {
        // Whatever becomes of this, somebody of that id may be there afterwards.
        *known = KnownServer { certain: false, asked: None, deleted: None, authority, ..known.clone() };
        known.used.extend(ask.used());
    }
    let mut body = json!({
        "metadata": {"name": name},
        "spec": {"networkId": network, "flavorId": FLAVOR_STANDARD, "imageId": ask.image, "networking": networking(&ask)},
    });
    if let Some(authority) = authority {
        body["spec"]["sshCertificateAuthorityId"] = json!(authority);
    }
    let (status, answer) = life.request("POST", "/api/v2/servers", Some(body)).await;
    match status {
        StatusCode::CREATED => {
            assert_eq!(id_of(&answer), id);
            let known = ledger.machines.servers.get_mut(&id).expect("noted");
            assert!(!known.stays(), "a second server of the name {name} was accepted");
            known.used.extend(ask.used());
            *known = KnownServer { authority, asked: Some(ask), certain: true, deleted: Some(false), ..known.clone() };
        }
        StatusCode::CONFLICT => {
            let before = before.unwrap_or_else(|| panic!("{name} is taken, but nobody asked for it: {answer}"));
            let known = ledger.machines.servers.get_mut(&id).expect("noted");
            *known = KnownServer { used: std::mem::take(&mut known.used), ..before };
        }
        // What the cloud offers could not be read, or the image is not ready: nothing was accepted.
        status if is_not_accepted(status, &ask) => match before {
            Some(before) => drop(ledger.machines.servers.insert(id, before)),
            None => drop(ledger.machines.servers.remove(&id)),
        },
        other => panic!("a create was answered {other}: {answer}"),
    }
}

async fn update_server(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(id) = any_server(ledger, random) else { return };
    let ask = asked(life, ledger, ledger.machines.servers[&id].network, random).await;
    let known = ledger.machines.servers.get_mut(&id).expect("picked from it");
    let before = known.asked.take();
    known.used.extend(ask.used());
    let body = json!({
        "metadata": {"name": known.name},
        "spec": {"flavorId": FLAVOR_STANDARD, "imageId": ask.image, "networking": networking(&ask)},
    });
    let (status, answer) = life.request("PUT", &format!("/api/v2/servers/{id}"), Some(body)).await;
    let known = ledger.machines.servers.get_mut(&id).expect("still there");
    if is_not_accepted(status, &ask) {
        known.asked = before;
        return;
    }
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(answer["spec"]["imageId"], json!(ask.image), "an update is read back at once");
    known.asked = Some(ask);
}

pub async fn delete_server(life: &Life, ledger: &mut Ledger, id: Uuid) {
    let (refused, may_be) = ledger.volumes.keep_server(id);
    let known = ledger.machines.servers.get_mut(&id).expect("known");
    // Its disk may be being saved; or it may never have been made.
    let may_be = may_be || ledger.images.may_hold(id) || !known.certain;
    known.deleted = if refused { Some(false) } else { None };
    let gone = delete(life, &format!("/api/v2/servers/{id}"), refused, may_be).await;
    ledger.machines.servers.get_mut(&id).expect("known").deleted = Some(gone);
}

/// A verb may succeed, be refused by the state of the server, or fail with the cloud; it is never half done.
async fn verb(life: &Life, ledger: &Ledger, random: &mut fastrand::Rng) {
    let Some(id) = any_server(ledger, random) else { return };
    let words = ["start", "stop", "softreboot", "hardreboot"];
    let word = words[random.usize(0..words.len())];
    let (status, answer) = life.request("POST", &format!("/api/v2/servers/{id}/{word}"), None).await;
    let fine = [StatusCode::ACCEPTED, StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::SERVICE_UNAVAILABLE];
    assert!(fine.contains(&status), "{word}: {status} {answer}");
}

/// Nothing was written: the catalogue could not be read, or one of the tenant's own images cannot be booted from.
pub fn is_not_accepted(status: StatusCode, asked: &Asked) -> bool {
    let is_own = !IMAGES.contains(&ImageId(asked.image));
    status == StatusCode::SERVICE_UNAVAILABLE || (is_own && status == StatusCode::UNPROCESSABLE_ENTITY)
}

impl Machines {
    /// Would a deletion of this image be refused, and may it be?
    pub fn keep_image(&self, image: Uuid) -> (bool, bool) {
        let is_on = |known: &&KnownServer| known.asked.as_ref().is_some_and(|asked| asked.image == image);
        let kept = self.servers.values().filter(|known| known.stays()).any(|known| is_on(&known));
        (kept, self.servers.values().any(|known| known.used.contains(&image)))
    }

    /// Would a deletion of this network be refused, and may it be?
    pub fn keep(&self, network: Uuid) -> (bool, bool) {
        let on_it = self.servers.values().filter(|known| known.network == network).collect::<Vec<_>>();
        (on_it.iter().any(|known| known.stays()), !on_it.is_empty())
    }

    /// The network goes, or may go: what it owns goes with it.
    pub fn network_deleted(&mut self, network: Uuid, deleted: Option<bool>) {
        for known in self.groups.values_mut().filter(|known| known.network == network) {
            if known.deleted != Some(true) {
                known.deleted = deleted;
            }
        }
    }

    /// A tenant goes, or may go, with everything.
    pub fn tenant_deleted(&mut self, tenant: usize, networks: &BTreeSet<Uuid>, deleted: Option<bool>) {
        for network in networks {
            self.network_deleted(*network, deleted);
        }
        let servers = self.servers.values_mut().filter(|known| networks.contains(&known.network));
        for known in servers.filter(|known| known.deleted != Some(true)) {
            known.deleted = deleted;
        }
        for known in self.authorities.values_mut().filter(|known| known.tenant == tenant) {
            if known.deleted != Some(true) {
                known.deleted = deleted;
            }
        }
    }
}

/// What is stored is what was accepted; what was in doubt is settled by what is stored.
pub fn accepted_is_durable(stored: &Stored, ledger: &mut Ledger) -> Result<(), String> {
    let machines = &mut ledger.machines;
    for (id, record) in &stored.groups {
        if !machines.groups.contains_key(id) {
            let network = machines.doubtful_groups.remove(&record.metadata.name);
            let network = network.ok_or_else(|| format!("group {id} is stored but nobody asked for it"))?;
            machines.groups.insert(*id, KnownGroup { network, deleted: None });
        }
    }
    for (id, record) in &stored.authorities {
        if !machines.authorities.contains_key(id) {
            let tenant = machines.doubtful_authorities.remove(&record.metadata.name);
            let tenant = tenant.ok_or_else(|| format!("authority {id} is stored but nobody asked for it"))?;
            machines.authorities.insert(*id, KnownAuthority { tenant, deleted: None });
        }
    }
    machines.doubtful_groups.clear();
    machines.doubtful_authorities.clear();
    let doubts = &ledger.waiting_for_ever;
    let mut failure = None;
    let mut settle = |what: &str, id: &Uuid, deleted: &mut Option<bool>, record: Option<&Arc<Record>>| {
        match (*deleted, record) {
            (Some(false), None) => failure = Some(format!("{what} {id} was accepted and is lost")),
            (Some(true), Some(record)) if !record.metadata.is_deleting() => {
                failure = Some(format!("the accepted deletion of {what} {id} is lost"));
            }
            (Some(true), Some(_)) if !doubts.contains(id) => {
                failure = Some(format!("{what} {id} is at rest, but its deletion was accepted"));
            }
            (None, Some(record)) => *deleted = Some(record.metadata.is_deleting()),
            _ => {}
        }
        record.is_some()
    };
    machines.groups.retain(|id, known| settle("group", id, &mut known.deleted, stored.groups.get(id)));
    machines.authorities.retain(|id, known| settle("authority", id, &mut known.deleted, stored.authorities.get(id)));
    machines.servers.retain(|id, known| {
        let record = stored.servers.get(id);
        if !known.certain && known.deleted == Some(false) {
            known.deleted = None;
        }
        known.certain = true;
        settle("server", id, &mut known.deleted, record)
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    for (id, record) in &stored.servers {
        let spec = record.open::<Server>().map_err(|error| error.to_string())?.spec;
        if spec.governed.is_some() {
            continue;
        }
        let known = machines.servers.get_mut(id);
        let known = known.ok_or_else(|| format!("server {id} is stored but nobody asked for it"))?;
        let groups = spec.security_groups().iter().map(|group| group.0).collect::<Vec<_>>();
        let asked = Asked { groups: groups.clone(), image: spec.image.0, public: spec.wants_public_ip() };
        known.authority = spec.ssh_certificate_authority.map(|authority| authority.0);
        match &known.asked {
            Some(before) => {
                ensure!(*before == asked, "an accepted update of server {id} is lost: {before:?}, {asked:?}");
            }
            None => known.asked = Some(asked),
        }
        let detail = record.open::<Server>().map_err(|error| error.to_string())?.detail;
        known.used = groups.into_iter().chain(spec.images_held(&detail).iter().map(|image| image.0)).collect();
    }
    Ok(())
}

/// Everything of these kinds that is stored.
pub struct Stored {
    pub groups: BTreeMap<Uuid, Arc<Record>>,
    pub authorities: BTreeMap<Uuid, Arc<Record>>,
    pub servers: BTreeMap<Uuid, Arc<Record>>,
}

pub fn marked(objects: &[CloudObject]) -> Result<BTreeMap<Uuid, Vec<&CloudObject>>, String> {
    let mut marked = BTreeMap::<Uuid, Vec<&CloudObject>>::new();
    for object in objects {
        let marks = object.marks.ok_or_else(|| format!("an unmarked {:?}", object.kind()))?;
        marked.entry(marks.id).or_default().push(object);
    }
    Ok(marked)
}

/// The cloud of a region has exactly the groups, ports, addresses and servers that are stored.
pub fn cloud_is_as_stored(
    life: &Life,
    inventory: &Inventory,
    stored: &Stored,
    here: impl Fn(&Arc<Record>) -> bool,
    excused: impl Fn(&Arc<Record>) -> bool,
) -> Result<(), String> {
    let graph = &life.supervision.environment().graph;
    let parked = |key: Key| graph.node(key).is_some_and(|node| node.snapshot().phase == Phase::Parked);
    let (groups, ports) = (marked(&inventory.security_groups)?, marked(&inventory.ports)?);
    let (servers, addresses) = (marked(&inventory.servers)?, marked(&inventory.floating_ips)?);
    let checks =
        [("group", &groups, &stored.groups), ("port", &ports, &stored.servers), ("server", &servers, &stored.servers)];
    for (what, objects, records) in checks {
        for (id, found) in objects {
            ensure!(found.len() == 1, "the cloud has {} of {what} {id}", found.len());
            ensure!(records.get(id).is_some_and(&here), "the cloud leaked {what} {id}");
        }
        for (id, record) in records.iter().filter(|(_, record)| here(record)) {
            let excused = excused(record) || parked(record.key) || record.metadata.is_deleting();
            ensure!(excused || objects.contains_key(id), "the cloud lacks {what} {id}");
        }
    }
    for id in addresses.keys() {
        ensure!(stored.servers.get(id).is_some_and(&here), "the cloud leaked the address of server {id}");
    }
    for (id, record) in stored.servers.iter().filter(|(_, record)| here(record)) {
        if excused(record) || parked(record.key) || record.metadata.is_deleting() {
            continue;
        }
        let spec = record.open::<Server>().map_err(|error| error.to_string())?.spec;
        ensure!(
            addresses.contains_key(id) == spec.wants_public_ip(),
            "the public address of server {id} is not as asked"
        );
        let Body::Server(body) = &servers[id][0].body else { return Err(format!("{id} is no server")) };
        ensure!(body.image == spec.image, "server {id} runs on {}, not on {}", body.image, spec.image);
        // What has failed is resized when it runs again.
        let waits = graph.node(record.key).is_some_and(|node| node.snapshot().on_cloud);
        ensure!(waits || body.flavor == spec.flavor, "server {id} is a {}, not a {}", body.flavor, spec.flavor);
        let Body::Port { options, .. } = &ports[id][0].body else { return Err(format!("{id} has no port")) };
        let asked = spec.security_groups();
        let wanted = asked.iter().filter_map(|group| groups.get(&group.0)).map(|found| found[0].id.clone());
        ensure!(options.security_groups == wanted.collect(), "the groups of server {id} are not as asked");
    }
    Ok(())
}

/// Servers refer to exactly what they use, and no server was ever doubled.
pub async fn books_are_even(world: &World, life: &Life, stored: &Stored) -> Result<(), String> {
    for record in stored.servers.values().filter(|record| !record.metadata.is_deleting()) {
        let server = record.open::<Server>().map_err(|error| error.to_string())?;
        let spec = &server.spec;
        let images = spec.images_held(&server.detail).into_iter().map(ImageId::key);
        let network = record.metadata.placement.network.map(NetworkId::key);
        let groups = spec.security_groups().into_iter().map(SecurityGroupId::key);
        let authority = spec.ssh_certificate_authority.map(SshCertificateAuthorityId::key);
        let wanted = network.into_iter().chain(groups).chain(authority).chain(images).collect::<BTreeSet<_>>();
        let held = life.store.referred_by(&Holder::Resource(record.key)).await.map_err(|error| error.to_string())?;
        let held = held.into_iter().collect::<BTreeSet<_>>();
        let graph = &life.supervision.environment().graph;
        let settled = graph.node(record.key).is_some_and(|node| node.snapshot().phase == Phase::Settled);
        let even = if settled { held == wanted } else { held.is_superset(&wanted) };
        ensure!(even, "{} refers to {held:?} and not to {wanted:?}", record.key);
    }
    for region in world.regions() {
        let books =
            life.clouds.handle(region).expect("simulated").creations().await.map_err(|error| error.to_string())?;
        // A credential is doubled on purpose: its secret may be lost.
        let single = [ObjectKind::SecurityGroup, ObjectKind::Port, ObjectKind::Server];
        for creation in books.creations.into_iter().filter(|creation| single.contains(&creation.kind)) {
            ensure!(creation.count.at_once_max <= 1, "there were doubles: {creation:?}");
        }
    }
    Ok(())
}

/// The servers that may be paid for by nobody must at least hold on to their network.
pub async fn always(world: &World, store: &dyn regent::store::Store) -> Result<(), String> {
    for kept in world.clouds.values() {
        let servers = {
            let mut kept = kept.lock().unwrap();
            kept.cloud.inventory(regent::model::ambient::Clock::now(&*world.clock)).servers
        };
        for object in servers {
            let Some(marks) = object.marks else { continue };
            let holder = Holder::Resource(ServerId(marks.id).key());
            let held = store.referred_by(&holder).await.map_err(|error| error.to_string())?;
            ensure!(!held.is_empty(), "the cloud has server {} but it refers to nothing", marks.id);
        }
    }
    Ok(())
}
