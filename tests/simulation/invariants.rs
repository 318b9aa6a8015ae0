//! What must be true: always, and once everything is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use regent::graph::Graph;
use regent::graph::message::Message;
use regent::graph::snapshot::{Phase, Snapshot};
use regent::model::condition::Reason;
use regent::model::edge::Holder;
use regent::model::ids::{Key, Kind, OrganizationId};
use regent::model::network::Network;
use regent::model::quota::{Amount, QuotaKind};
use regent::model::record::Record;
use regent::model::server::ServerPhase;
use regent::providers::simulated::objects::CloudObject;
use regent::store::{Filter, Pages, Store};
use uuid::Uuid;

use super::balancers;
use super::clusters;
use super::history::{KINDS, Ledger};
use super::images;
use super::instances;
use super::machines::{self, Stored};
use super::storage;
use super::volumes;
use crate::support::world::{Life, World};

/// How long, in virtual time, everything may take to come to rest once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_mins(15);

/// Waits until no actor has anything left to do.
pub async fn quiet(life: &Life) -> Result<(), String> {
    let graph = &life.supervision.environment().graph;
    let began = tokio::time::Instant::now();
    // Long enough for an open breaker to close and for the monitors to have looked since.
    tokio::time::sleep(Duration::from_secs(90)).await;
    loop {
        let busy = graph
            .nodes()
            .into_iter()
            .filter(|node| KINDS.contains(&node.key().kind) && !is_at_rest(graph, node.key(), 0));
        let busy = busy.map(|node| (node.key(), node.snapshot())).collect::<Vec<_>>();
        if busy.is_empty() && life.supervision.environment().passes.now() == 0 {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            let (key, snapshot) = &busy[0];
            let actor = graph.node(*key).and_then(|node| node.actor()).map(|actor| actor.get_status());
            let stored = life.store.get(*key).await.is_ok_and(|record| record.is_some());
            let count = busy.len();
            return Err(format!(
                "{count} actors never came to rest; {key} ({actor:?}, stored: {stored}): {snapshot:?}"
            ));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Has the actor nothing left to do? What waits is at rest when everything that it waits for is, and is not ready: a
/// paused or failed dependency, a user of another service that keeps something from being deleted.
fn is_at_rest(graph: &Graph, key: Key, depth: usize) -> bool {
    let Some(snapshot) = graph.node(key).map(|node| node.snapshot()) else { return false };
    match snapshot.phase {
        Phase::Settled | Phase::Paused | Phase::Parked => true,
        // What it lies on is paused, and may be missing.
        Phase::Retrying => {
            let lies_on_it =
                |node: &regent::graph::Node| snapshot.owner == Some(node.key()) || node.dependants().contains(&key);
            graph.nodes().iter().any(|node| node.snapshot().phase == Phase::Paused && lies_on_it(node))
        }
        Phase::Waiting if snapshot.on_cloud => has_failed(&snapshot),
        Phase::Waiting if depth > KINDS.len() => false,
        Phase::Waiting => {
            let held = snapshot.waits_for.iter().all(|other| {
                let ready = graph.node(*other).is_none_or(|node| node.snapshot().phase == Phase::Settled);
                !ready && is_at_rest(graph, *other, depth + 1)
            });
            held && (snapshot.deleting || !snapshot.waits_for.is_empty())
        }
        _ => false,
    }
}

/// A machine that has failed and is to get another flavor waits until somebody has it run again: nobody does, here.
fn has_failed(snapshot: &Snapshot) -> bool {
    let active = snapshot.conditions.active.as_ref();
    active.is_some_and(|active| active.reason == Reason::Phase(ServerPhase::Error))
}

/// Everything that is stored of a kind.
pub type Records = BTreeMap<Uuid, Arc<Record>>;

async fn stored(store: &dyn Store, kind: Kind) -> Records {
    let mut all = BTreeMap::new();
    let mut pages = Pages::of(store, Filter::of(kind));
    while let Some(records) = pages.next().await.expect("reads") {
        all.extend(records.into_iter().map(|record| (record.key.id, record)));
    }
    all
}

macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}
pub(super) use ensure;

/// Holds at every moment: whatever the cloud has of ours is referred to and paid for.
pub async fn always(world: &World, store: &dyn Store) -> Result<(), String> {
    let charged = store.allocations().await.map_err(|error| error.to_string())?;
    let charged = charged.into_iter().map(|allocation| allocation.holder).collect::<BTreeSet<Key>>();
    let mut held = BTreeSet::new();
    for tenant in &world.tenants {
        held.extend(store.references(tenant.project.key()).await.map_err(|error| error.to_string())?);
    }
    for kept in world.clouds.values() {
        let inventory = {
            let mut kept = kept.lock().unwrap();
            let now = regent::model::ambient::Clock::now(&*world.clock);
            kept.cloud.inventory(now)
        };
        for object in &inventory.identities {
            let Some(marks) = object.marks else { continue };
            let holder = Holder::Resource(Key::new(Kind::Identity, marks.id));
            ensure!(held.contains(&holder), "the cloud has principal {} but its project is not held", marks.id);
        }
        for object in &inventory.networks {
            let Some(marks) = object.marks else { continue };
            let key = Key::new(Kind::Network, marks.id);
            ensure!(charged.contains(&key), "the cloud has network {} but nobody is charged for it", marks.id);
        }
    }
    balancers::always(world, store).await?;
    volumes::always(world, store).await?;
    machines::always(world, store).await?;
    instances::always(world, store).await?;
    storage::always(world, store).await?;
    images::always(world, store).await
}

/// Holds once everything is quiet: the cloud has exactly what is stored, and what is stored is what was accepted.
pub async fn at_rest(world: &World, life: &Life, ledger: &mut Ledger) -> Result<(), String> {
    let networks = stored(&*life.store, Kind::Network).await;
    let identities = stored(&*life.store, Kind::Identity).await;
    let machines = Stored {
        groups: stored(&*life.store, Kind::SecurityGroup).await,
        authorities: stored(&*life.store, Kind::SshCertificateAuthority).await,
        servers: stored(&*life.store, Kind::Server).await,
    };
    let own_images = stored(&*life.store, Kind::Image).await;
    let balancers = stored(&*life.store, Kind::LoadBalancer).await;
    let volumes = stored(&*life.store, Kind::Volume).await;
    let storages = stored(&*life.store, Kind::FileStorage).await;
    let computing = stored(&*life.store, Kind::Instance).await;
    let clusters = stored(&*life.store, Kind::Cluster).await;
    tenant_is_settled(world, life, ledger).await?;
    // What waits for a user of another service may stay for ever, and so may whoever waits for it.
    let waiting =
        ledger.networks.iter().filter(|(_, known)| !known.doubtful.is_empty() || !known.references.is_empty());
    ledger.waiting_for_ever = waiting.map(|(id, _)| *id).collect();
    accepted_is_durable(&networks, ledger)?;
    machines::accepted_is_durable(&machines, ledger)?;
    images::accepted_is_durable(&own_images, ledger)?;
    balancers::accepted_is_durable(&balancers, ledger)?;
    volumes::accepted_is_durable(&volumes, ledger)?;
    storage::accepted_is_durable(&storages, ledger)?;
    instances::accepted_is_durable(life, &computing, ledger).await?;
    clusters::accepted_is_durable(life, &clusters, &computing, ledger).await?;
    instances::servers_are_as_said(life, &computing, &machines.servers)?;
    clusters::members_are_as_asked(life, &clusters, &computing)?;
    cloud_is_as_stored(world, life, &networks, &identities, (&machines, &balancers, &volumes)).await?;
    storage::cloud_is_as_stored(world, life, &storages).await?;
    books_are_even(world, life, &networks, &identities).await?;
    machines::books_are_even(world, life, &machines).await?;
    balancers::books_are_even(world, life, &balancers).await?;
    volumes::books_are_even(world, life, &volumes).await?;
    storage::books_are_even(world, life, &storages).await?;
    instances::books_are_even(life, &computing).await?;
    clusters::books_are_even(life, &clusters).await?;
    usage_is_what_was_charged(world, life).await?;
    images_are_in_order(world, life, &own_images).await?;
    actors_are_well(life).await?;
    always(world, &*life.store).await
}

async fn images_are_in_order(world: &World, life: &Life, stored: &BTreeMap<Uuid, Arc<Record>>) -> Result<(), String> {
    for region in world.regions() {
        let inventory =
            life.clouds.handle(region).expect("simulated").inventory().await.map_err(|error| error.to_string())?;
        let here = |record: &Arc<Record>| record.metadata.placement.region == Some(region);
        images::cloud_is_as_stored(life, &inventory, stored, here)?;
    }
    images::books_are_even(world, life, stored).await
}

/// A project whose deletion was accepted is gone, or waits for a user of another service.
async fn tenant_is_settled(world: &World, life: &Life, ledger: &mut Ledger) -> Result<(), String> {
    let project = world.tenants.last().expect("tenants").project;
    let record = life.store.get(project.key()).await.map_err(|error| error.to_string())?;
    let deleting = record.as_ref().is_none_or(|record| record.metadata.is_deleting());
    match ledger.tenant_deleted {
        Some(true) => ensure!(deleting, "the accepted deletion of a project is lost"),
        Some(false) => ensure!(!deleting, "a project is gone that nobody deleted"),
        None => ledger.settle_tenant(Some(deleting)),
    }
    if let (true, Some(_)) = (deleting, record) {
        let held = ledger.networks.values().any(|known| !known.references.is_empty() || !known.doubtful.is_empty());
        ensure!(held, "a project that nobody holds is at rest, but its deletion was accepted");
    }
    Ok(())
}

fn accepted_is_durable(networks: &BTreeMap<Uuid, Arc<Record>>, ledger: &mut Ledger) -> Result<(), String> {
    for (id, record) in networks {
        if ledger.networks.contains_key(id) {
            continue;
        }
        let name = &record.metadata.name;
        let Some((tenant, dns)) = ledger.doubtful.remove(name) else {
            return Err(format!("network {id} ({name}) is stored but nobody asked for it"));
        };
        let known = super::history::Known {
            tenant,
            name: name.clone(),
            dns: Some(dns),
            deleted: None,
            references: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            paused: false,
        };
        ledger.networks.insert(*id, known);
    }
    ledger.doubtful.clear();
    let mut gone = Vec::new();
    for (id, known) in &mut ledger.networks {
        let record = networks.get(id);
        match (known.deleted, record) {
            (Some(false), None) => return Err(format!("network {id} was accepted and is lost")),
            (Some(true), Some(record)) => {
                ensure!(record.metadata.is_deleting(), "the accepted deletion of {id} is lost");
                let held = !known.doubtful.is_empty() || !known.references.is_empty();
                ensure!(held, "{id} is at rest, but its deletion was accepted");
            }
            (_, None) => gone.push(*id),
            (Some(false), Some(record)) => {
                let spec = record.open::<Network>().map_err(|error| error.to_string())?.spec;
                let stored = spec.dns_nameservers.iter().map(ToString::to_string).collect::<Vec<_>>();
                match &known.dns {
                    Some(dns) => ensure!(*dns == stored, "an accepted update of {id} is lost: {dns:?}, not {stored:?}"),
                    None => known.dns = Some(stored),
                }
            }
            (None, Some(record)) => known.deleted = Some(record.metadata.is_deleting()),
        }
    }
    for id in gone {
        ledger.networks.remove(&id);
    }
    Ok(())
}

async fn cloud_is_as_stored(
    world: &World,
    life: &Life,
    networks: &BTreeMap<Uuid, Arc<Record>>,
    identities: &BTreeMap<Uuid, Arc<Record>>,
    (machines, balancers, volumes): (&Stored, &Records, &Records),
) -> Result<(), String> {
    let paused = networks.values().filter(|record| record.metadata.paused);
    let unmissed = paused.filter_map(|record| record.metadata.owner).collect::<BTreeSet<Key>>();
    for region in world.regions() {
        let inventory =
            life.clouds.handle(region).expect("simulated").inventory().await.map_err(|error| error.to_string())?;
        let here = |record: &Arc<Record>| record.metadata.placement.region == Some(region);
        let wanted = |records: &BTreeMap<Uuid, Arc<Record>>| {
            let here = records.values().filter(|record| here(record));
            // A paused resource may have been paused before it was made, and nobody misses its principal.
            // Nor is anything made again that is being deleted and waits for its users.
            let resting = |record: &Arc<Record>| {
                record.metadata.paused || record.metadata.is_deleting() || unmissed.contains(&record.key)
            };
            let (must, may): (Vec<_>, Vec<_>) = here.partition(|record| !resting(record));
            let ids = |records: Vec<&Arc<Record>>| records.iter().map(|record| record.key.id).collect::<BTreeSet<_>>();
            (ids(must), ids(may))
        };
        let checks = [
            ("principal", &inventory.identities, wanted(identities)),
            ("user", &inventory.users, wanted(identities)),
            ("network", &inventory.networks, wanted(networks)),
            ("subnet", &inventory.subnets, wanted(networks)),
            ("router", &inventory.routers, wanted(networks)),
        ];
        for (what, objects, (must, may)) in checks {
            let mut seen = BTreeMap::<Uuid, usize>::new();
            for object in objects {
                let id = object.marks.ok_or_else(|| format!("an unmarked {what} in {region}"))?.id;
                *seen.entry(id).or_default() += 1;
                ensure!(must.contains(&id) || may.contains(&id), "the cloud leaked {what} {id} in {region}");
            }
            for (id, count) in &seen {
                ensure!(*count == 1, "the cloud has {count} of {what} {id} in {region}");
            }
            for id in &must {
                ensure!(seen.contains_key(id), "the cloud lacks {what} {id} in {region}");
            }
        }
        let missed = |record: &&Arc<Record>| {
            let left_alone = record.metadata.paused || record.metadata.is_deleting();
            here(record) && !left_alone && !unmissed.contains(&record.key)
        };
        let wanted_count = identities.values().filter(missed).count();
        ensure!(
            inventory.credentials.len() >= wanted_count && inventory.credentials.len() <= inventory.users.len(),
            "{} credentials for {wanted_count} principals in {region}",
            inventory.credentials.len()
        );
        subnets_are_as_asked(&inventory.subnets, networks.values().filter(|record| here(record)))?;
        vlans_are_even(life, region, &inventory.vlans, networks).await?;
        // What hangs on a paused network waits for it.
        let excused = |record: &Arc<Record>| {
            let network = record.metadata.placement.network.and_then(|network| networks.get(&network.0));
            network.is_none_or(|network| network.metadata.paused)
        };
        balancers::cloud_is_as_stored(life, &inventory, balancers, here, excused)?;
        volumes::cloud_is_as_stored(life, &inventory, volumes, here, excused)?;
        let inventory = balancers::taken_from(inventory, balancers);
        machines::cloud_is_as_stored(life, &inventory, machines, here, excused)?;
    }
    Ok(())
}

fn subnets_are_as_asked<'a>(
    subnets: &[CloudObject],
    networks: impl Iterator<Item = &'a Arc<Record>>,
) -> Result<(), String> {
    for network in networks.filter(|record| !record.metadata.paused && !record.metadata.is_deleting()) {
        let spec = network.open::<Network>().map_err(|error| error.to_string())?.spec;
        let subnet = subnets.iter().find(|object| object.marks.is_some_and(|marks| marks.id == network.key.id));
        let subnet = serde_json::to_string(&subnet).expect("json");
        for server in &spec.dns_nameservers {
            ensure!(
                subnet.contains(&server.to_string()),
                "name server {server} of {} is not in the cloud",
                network.key
            );
        }
        ensure!(!subnet.contains("6.6.6.6"), "drift of {} was not healed", network.key);
    }
    Ok(())
}

async fn vlans_are_even(
    life: &Life,
    region: regent::model::ids::RegionId,
    used: &[regent::providers::simulated::engine::books::UsedVlan],
    networks: &BTreeMap<Uuid, Arc<Record>>,
) -> Result<(), String> {
    let pool = format!("vlan/{region}");
    let claims = life.store.claims().await.map_err(|error| error.to_string())?;
    let claims = claims.into_iter().filter(|claim| claim.pool == pool).collect::<Vec<_>>();
    for claim in &claims {
        ensure!(
            networks.contains_key(&claim.holder.id),
            "VLAN {} is held by {} which is gone",
            claim.number,
            claim.holder
        );
    }
    let claimed = claims.iter().map(|claim| claim.number).collect::<BTreeSet<_>>();
    for vlan in used {
        ensure!(claimed.contains(&vlan.segment.vlan.0), "the cloud uses VLAN {:?} that nobody claims", vlan.segment);
    }
    Ok(())
}

async fn books_are_even(
    world: &World,
    life: &Life,
    networks: &BTreeMap<Uuid, Arc<Record>>,
    identities: &BTreeMap<Uuid, Arc<Record>>,
) -> Result<(), String> {
    let allocations = life.store.allocations().await.map_err(|error| error.to_string())?;
    let charged = allocations.iter().map(|allocation| allocation.holder).filter(|holder| holder.kind == Kind::Network);
    let charged = charged.map(|holder| holder.id).collect::<BTreeSet<_>>();
    ensure!(charged == networks.keys().copied().collect(), "charges and networks differ: {charged:?}");
    ensure!(world.disk.unfinished_batches() == 0, "a batch is neither finished nor undone");
    for tenant in &world.tenants {
        let mine = |record: &&Arc<Record>| record.metadata.placement.organization == Some(tenant.organization);
        let expected = networks.values().filter(mine).count() as u64;
        let usage = usage(life, tenant.organization, QuotaKind::Networks).await;
        ensure!(usage == expected, "usage {usage} for {expected} networks");
        let holders = life.store.references(tenant.project.key()).await.map_err(|error| error.to_string())?;
        let expected =
            identities.values().filter(mine).map(|record| Holder::Resource(record.key)).collect::<BTreeSet<Holder>>();
        ensure!(holders.iter().cloned().collect::<BTreeSet<_>>() == expected, "holders of the project: {holders:?}");
    }
    Ok(())
}

/// What an organization is said to use is the sum of what was charged to it, whoever it was charged for.
async fn usage_is_what_was_charged(world: &World, life: &Life) -> Result<(), String> {
    let allocations = life.store.allocations().await.map_err(|error| error.to_string())?;
    for tenant in &world.tenants {
        let own = allocations.iter().filter(|charge| charge.organization == tenant.organization).collect::<Vec<_>>();
        for usage in life.store.usage(tenant.organization).await.map_err(|error| error.to_string())? {
            let charged = own.iter().filter_map(|charge| charge.amounts.get(&usage.kind));
            let charged = charged.copied().fold(Amount::default(), Amount::plus);
            ensure!(usage.used == charged, "{:?} of {:?} are used, {charged:?} charged", usage.used, usage.kind);
        }
    }
    Ok(())
}

pub async fn usage(life: &Life, organization: OrganizationId, kind: QuotaKind) -> u64 {
    let usage = life.store.usage(organization).await.expect("reads");
    usage.iter().filter(|usage| usage.kind == kind).map(|usage| usage.used.total()).sum()
}

async fn actors_are_well(life: &Life) -> Result<(), String> {
    let nodes = life.supervision.environment().graph.nodes();
    let acting = nodes.iter().filter(|node| node.actor().is_some()).map(|node| node.key()).collect::<BTreeSet<_>>();
    let mut all = BTreeSet::new();
    for kind in KINDS {
        all.extend(stored(&*life.store, *kind).await.values().map(|record| record.key));
    }
    ensure!(acting == all, "actors and records differ: {:?}", acting.symmetric_difference(&all).collect::<Vec<_>>());
    for node in &nodes {
        let snapshot = node.snapshot();
        let restless = matches!(snapshot.phase, Phase::Waiting | Phase::Retrying);
        ensure!(!restless || snapshot.next_wake.is_some(), "{} waits for nothing", node.key());
        ensure!(node.restarts() == 0, "the actor of {} failed", node.key());
    }
    Ok(())
}

async fn look_at_everything(life: &Life) -> Result<(), String> {
    let graph = &life.supervision.environment().graph;
    for node in graph.nodes() {
        graph.send(node.key(), Message::Reconcile);
    }
    quiet(life).await
}

/// Everything is looked at twice, and nothing is changed the second time.
pub async fn a_second_pass_changes_nothing(world: &World, life: &Life) -> Result<(), String> {
    look_at_everything(life).await?;
    let before = mutations(world, life).await;
    look_at_everything(life).await?;
    let after = mutations(world, life).await;
    ensure!(before == after, "a second pass made {} changes", after - before);
    Ok(())
}

/// What the clouds have done so far. What they refused changed nothing: a server whose image is lost is asked for again.
async fn mutations(world: &World, life: &Life) -> usize {
    let mut total = 0;
    for region in world.regions() {
        let (handle, mut after) = (life.clouds.handle(region).expect("simulated"), 0);
        loop {
            let calls = handle.calls(after).await.expect("books");
            let Some(last) = calls.last() else { break };
            after = last.sequence;
            total += calls.iter().filter(|call| call.mutating && call.applied).count();
        }
    }
    total
}
