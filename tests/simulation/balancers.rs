//! Load balancers in a history: what is done to them, and what must then be true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use regent::graph::snapshot::Phase;
use regent::model::ids::{Key, Kind};
use regent::model::load_balancer::LoadBalancer;
use regent::model::load_balancer_topology::BalancerChange;
use regent::model::quota::{Amount, QuotaKind};
use regent::model::record::Record;
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::providers::simulated::engine::books::Inventory;
use regent::providers::simulated::objects::{CloudObject, ObjectKind, ObjectState};
use regent::store::Store;
use serde_json::{Value, json};
use uuid::Uuid;

use super::history::{Ledger, id_of, pick};
use super::invariants::{Records, ensure};
use crate::support::world::{Life, World};

/// What the harness knows of one. `None` where a request died and its outcome is unknown.
#[derive(Clone, Debug)]
pub struct KnownBalancer {
    network: Uuid,
    /// The last accepted specification, as it was sent.
    asked: Option<Value>,
    deleted: Option<bool>,
}

/// The harness' side of it.
#[derive(Clone, Debug, Default)]
pub struct Balancers {
    known: BTreeMap<Uuid, KnownBalancer>,
    /// Creations that died on the way, by name.
    doubtful: BTreeMap<String, (Uuid, Value)>,
    named: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalancerDeed {
    Create,
    Update,
    Delete,
    Backdoor,
}

pub async fn perform(deed: BalancerDeed, world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    match deed {
        BalancerDeed::Create => create(life, ledger, random).await,
        BalancerDeed::Update => update(life, ledger, random).await,
        BalancerDeed::Delete => delete(life, ledger, random).await,
        BalancerDeed::Backdoor => backdoor(world, life, random).await,
    }
}

/// A name has its port and its protocol for good, so that any two of these may follow each other.
fn asked(random: &mut fastrand::Rng) -> Value {
    let listener = |(name, protocol, port): (&str, &str, u16), random: &mut fastrand::Rng| {
        let members = (0..random.u8(0..3)).map(|last| json!({"address": format!("10.1.0.{}", 200 + last), "port": 80}));
        let mut listener = json!({"name": name, "protocol": protocol, "port": port, "pool": {"members": []}});
        listener["pool"]["members"] = members.collect();
        if random.bool() {
            listener["pool"]["healthCheck"] = json!({"intervalSeconds": random.u16(6..9)});
        }
        if random.bool() {
            listener["allowedCidrs"] = json!(["10.0.0.0/8"]);
        }
        listener
    };
    let all = [("web", "tcp", 80), ("tls", "tcp", 443), ("dns", "udp", 443)];
    let first = random.usize(0..all.len());
    let more = all.into_iter().enumerate().filter(|(at, _)| *at != first && random.u8(0..3) == 0).map(|(_, it)| it);
    let chosen = std::iter::once(all[first]).chain(more.collect::<Vec<_>>()).collect::<Vec<_>>();
    let listeners = chosen.into_iter().map(|one| listener(one, random)).collect::<Vec<_>>();
    json!({"publicIP": random.u8(0..3) == 0, "listeners": listeners})
}

fn is_over_quota(status: StatusCode, answer: &Value) -> bool {
    status == StatusCode::FORBIDDEN
        && answer["error_description"].as_str().is_some_and(|text| text.contains("exceed quota"))
}

async fn create(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(network) = ledger.any_live(random) else { return };
    ledger.balancers.named += 1;
    let number = ledger.balancers.named;
    let name = format!("balancer-{number}");
    let asked = asked(random);
    let mut spec = asked.clone();
    spec["networkId"] = json!(network);
    if random.u8(0..3) == 0 {
        // Nobody else asks for it, and the cloud gives out higher ones.
        spec["vipAddress"] = json!(format!("10.1.0.{}", 2 + number % 120));
    }
    ledger.balancers.doubtful.insert(name.clone(), (network, asked.clone()));
    let body = json!({"metadata": {"name": name}, "spec": spec});
    let (status, answer) = life.request("POST", "/api/v2/loadbalancers", Some(body)).await;
    ledger.balancers.doubtful.remove(&name);
    if is_over_quota(status, &answer) {
        return;
    }
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let known = KnownBalancer { network, asked: Some(asked), deleted: Some(false) };
    ledger.balancers.known.insert(id_of(&answer), known);
}

fn any_live(ledger: &Ledger, random: &mut fastrand::Rng) -> Option<Uuid> {
    let live = ledger.balancers.known.iter().filter(|(_, known)| known.deleted == Some(false)).map(|(id, _)| *id);
    pick(&live.collect::<Vec<_>>(), random)
}

async fn update(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(id) = any_live(ledger, random) else { return };
    let asked = asked(random);
    let known = ledger.balancers.known.get_mut(&id).expect("picked from it");
    let before = known.asked.take();
    let body = json!({"metadata": {"name": "changed"}, "spec": asked});
    let (status, answer) = life.request("PUT", &format!("/api/v2/loadbalancers/{id}"), Some(body)).await;
    if is_over_quota(status, &answer) {
        known.asked = before;
        return;
    }
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(answer["spec"]["publicIP"], asked["publicIP"], "an update is read back at once");
    known.asked = Some(asked);
}

async fn delete(life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(id) = any_live(ledger, random) else { return };
    let known = ledger.balancers.known.get_mut(&id).expect("picked from it");
    known.deleted = None;
    let (status, answer) = life.request("DELETE", &format!("/api/v2/loadbalancers/{id}"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    known.deleted = Some(true);
}

/// A balancer is deleted, changed, or cut off from outside without asking us.
async fn backdoor(world: &World, life: &Life, random: &mut fastrand::Rng) {
    let regions = world.regions();
    let handle = life.clouds.handle(regions[random.usize(0..regions.len())]).expect("a simulated region");
    let inventory = handle.inventory().await.expect("books");
    let Some(balancer) = pick(&inventory.load_balancers, random) else { return };
    let name = balancer.topology().and_then(|topology| topology.listeners.keys().next().cloned());
    let configure = |configured| BackdoorChange::Configure { balancer: balancer.id.clone(), configured };
    let change = match (random.u8(0..4), name) {
        (0, Some(name)) => configure(BalancerChange::RemoveListener { name }),
        (1, Some(name)) => configure(BalancerChange::ReplaceMembers { name, members: BTreeSet::new() }),
        (2, _) => {
            let address = inventory.floating_ips.iter().find(|address| address.marks == balancer.marks);
            let Some(address) = address else { return };
            BackdoorChange::Delete { id: address.id.clone() }
        }
        _ => BackdoorChange::Delete { id: balancer.id.clone() },
    };
    handle.change_directly(change).await.expect("changes");
}

impl Balancers {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The networks go, or may go: what they own goes with them.
    pub fn networks_deleted(&mut self, networks: &BTreeSet<Uuid>, deleted: Option<bool>) {
        let on_them = self.known.values_mut().filter(|known| networks.contains(&known.network));
        for known in on_them.filter(|known| known.deleted != Some(true)) {
            known.deleted = deleted;
        }
    }
}

/// What is stored is what was accepted; what was in doubt is settled by what is stored.
pub fn accepted_is_durable(stored: &Records, ledger: &mut Ledger) -> Result<(), String> {
    let balancers = &mut ledger.balancers;
    for (id, record) in stored {
        if !balancers.known.contains_key(id) {
            let doubtful = balancers.doubtful.remove(&record.metadata.name);
            let (network, asked) =
                doubtful.ok_or_else(|| format!("balancer {id} is stored but nobody asked for it"))?;
            balancers.known.insert(*id, KnownBalancer { network, asked: Some(asked), deleted: None });
        }
    }
    balancers.doubtful.clear();
    for (id, known) in &mut balancers.known {
        match (known.deleted, stored.get(id)) {
            (Some(false), None) => return Err(format!("balancer {id} was accepted and is lost")),
            (Some(true), Some(_)) => return Err(format!("balancer {id} is at rest, but its deletion was accepted")),
            (None, Some(record)) => known.deleted = Some(record.metadata.is_deleting()),
            _ => {}
        }
        let Some(record) = stored.get(id) else { continue };
        let spec = record.spec.read::<Value>().map_err(|error| error.to_string())?;
        let stored = json!({"publicIP": spec["publicIp"], "listeners": spec["listeners"]});
        let asked = known.asked.get_or_insert_with(|| stored.clone());
        ensure!(*asked == stored, "an accepted update of balancer {id} is lost: {asked}, not {stored}");
    }
    balancers.known.retain(|id, _| stored.contains_key(id));
    Ok(())
}

fn is_of(object: &CloudObject, records: &Records) -> bool {
    object.marks.is_some_and(|marks| records.contains_key(&marks.id))
}

/// Takes the ports and addresses of balancers out of what is compared with servers.
pub fn taken_from(mut inventory: Inventory, stored: &Records) -> Inventory {
    inventory.ports.retain(|port| !is_of(port, stored));
    inventory.floating_ips.retain(|address| !is_of(address, stored));
    inventory
}

/// The cloud of a region has exactly the balancers that are stored, each as it was asked for.
pub fn cloud_is_as_stored(
    life: &Life,
    inventory: &Inventory,
    stored: &Records,
    here: impl Fn(&Arc<Record>) -> bool,
    excused: impl Fn(&Arc<Record>) -> bool,
) -> Result<(), String> {
    let graph = &life.supervision.environment().graph;
    let parked = |key: Key| graph.node(key).is_some_and(|node| node.snapshot().phase == Phase::Parked);
    for object in &inventory.load_balancers {
        let marks = object.marks.ok_or("an unmarked balancer")?;
        ensure!(stored.get(&marks.id).is_some_and(&here), "the cloud leaked balancer {}", marks.id);
    }
    let of = |objects: &[CloudObject], id: Uuid| {
        let own = objects.iter().filter(|object| object.marks.is_some_and(|marks| marks.id == id));
        own.cloned().collect::<Vec<_>>()
    };
    let living = stored.values().filter(|record| here(record) && !excused(record) && !parked(record.key));
    for record in living.filter(|record| !record.metadata.is_deleting()) {
        let id = record.key.id;
        let resource = record.open::<LoadBalancer>().map_err(|error| error.to_string())?;
        let balancers = of(&inventory.load_balancers, id);
        let (ports, addresses) = (of(&inventory.ports, id), of(&inventory.floating_ips, id));
        let counts = (balancers.len(), ports.len(), addresses.len());
        let public = usize::from(resource.spec.wants_public_ip());
        ensure!(counts == (1, 1, public), "{counts:?} balancers, ports, addresses of {id}, {public} is public");
        let is_ready = balancers[0].state == ObjectState::Active && balancers[0].pending.is_none();
        ensure!(is_ready, "balancer {id} is not ready: {:?}", balancers[0]);
        let (is, should) = (balancers[0].topology(), resource.spec.topology());
        ensure!(is == Some(&should), "balancer {id} is not as asked: {is:?}, not {should:?}");
        let vip = ports[0].port_address().map(|address| address.ip);
        let (told, asked) = (resource.detail.vip_address, resource.spec.vip_address);
        ensure!(told == vip && asked.is_none_or(|asked| vip == Some(asked)), "{id} has {vip:?} and says {told:?}");
        let given = addresses.first().and_then(CloudObject::floating_address);
        ensure!(resource.detail.public_ip == given, "{id} has {given:?} and says {:?}", resource.detail.public_ip);
    }
    Ok(())
}

/// Everybody pays for exactly what is stored, and no balancer was ever doubled.
pub async fn books_are_even(world: &World, life: &Life, stored: &Records) -> Result<(), String> {
    let allocations = life.store.allocations().await.map_err(|error| error.to_string())?;
    let own = allocations.into_iter().filter(|allocation| allocation.holder.kind == Kind::LoadBalancer);
    let charged = own.map(|allocation| (allocation.holder.id, allocation.amounts)).collect::<BTreeMap<_, _>>();
    let mut costs = BTreeMap::new();
    for (id, record) in stored {
        costs.insert(*id, record.open::<LoadBalancer>().map_err(|error| error.to_string())?.spec.cost());
    }
    ensure!(charged == costs, "charges and balancers differ: {charged:?}, not {costs:?}");
    for tenant in &world.tenants {
        let usage = life.store.usage(tenant.organization).await.map_err(|error| error.to_string())?;
        let kind = QuotaKind::LoadBalancers;
        let mine = |id: &&Uuid| stored[*id].metadata.placement.organization == Some(tenant.organization);
        let expected = costs.keys().filter(mine).filter_map(|id| costs[id].get(&kind));
        let expected = expected.copied().fold(Amount::default(), Amount::plus);
        let used = usage.iter().find(|usage| usage.kind == kind).map_or(Amount::default(), |usage| usage.used);
        ensure!(used == expected, "{used:?} of {kind:?} are used, not {expected:?}");
    }
    for region in world.regions() {
        let handle = life.clouds.handle(region).expect("simulated");
        let books = handle.creations().await.map_err(|error| error.to_string())?;
        for creation in books.creations.into_iter().filter(|creation| creation.kind == ObjectKind::LoadBalancer) {
            ensure!(creation.count.at_once_max <= 1, "there were doubles: {creation:?}");
        }
    }
    Ok(())
}

/// Holds at every moment: whatever balancer the cloud has, somebody pays for it.
pub async fn always(world: &World, store: &dyn Store) -> Result<(), String> {
    let charged = store.allocations().await.map_err(|error| error.to_string())?;
    let charged = charged.into_iter().map(|allocation| allocation.holder).collect::<BTreeSet<Key>>();
    for kept in world.clouds.values() {
        let now = regent::model::ambient::Clock::now(&*world.clock);
        let balancers = kept.lock().unwrap().cloud.inventory(now).load_balancers;
        for marks in balancers.into_iter().filter_map(|object| object.marks) {
            let key = Key::new(Kind::LoadBalancer, marks.id);
            ensure!(charged.contains(&key), "the cloud has balancer {} but nobody is charged for it", marks.id);
        }
    }
    Ok(())
}
