//! The store, after the server has ended: charges, numbers, references and verbs are those of what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regent::model::ambient::Ambient;
use regent::model::edge::Holder;
use regent::model::ids::{Key, Kind, RegionId, ServerId};
use regent::model::operation::OperationDetail;
use regent::model::quota::{Amount, Amounts, QuotaKind};
use regent::model::record::Record;
use regent::providers::simulated::SimulatedHandle;
use regent::providers::simulated::catalogue::FLAVOR_GPU;
use regent::store::embedded::EmbeddedStore;
use regent::store::{Filter, Pages, Store, StoreError};
use uuid::Uuid;

use super::checks::ensure;
use super::ledger::Ledger;
use super::machines::KnownServer;
use super::rig::{Life, Rig};
use super::wares::{KnownWare, Ware};

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn text(error: StoreError) -> String {
    error.to_string()
}

pub async fn are_even(rig: &Rig, life: &Life, known: &Ledger) -> Result<(), String> {
    let store = EmbeddedStore::open(&rig.data(), Ambient::system()).map_err(|error| error.to_string())?;
    let networks = stored(&store, Kind::Network).await?;
    let machines = &known.machines;
    let kinds = [
        (Kind::Network, known.networks.keys().copied().collect::<BTreeSet<_>>()),
        (Kind::SecurityGroup, machines.groups.keys().copied().collect()),
        (Kind::SshCertificateAuthority, machines.authorities.keys().copied().collect()),
        (Kind::Server, machines.servers.keys().copied().chain(working(known).into_keys()).collect()),
    ];
    let wares = Ware::ALL.map(|ware| (ware.kind(), known.wares.of(ware).map(|(id, _)| id).collect()));
    for (kind, ids) in kinds.into_iter().chain(wares) {
        let found = stored(&store, kind).await?.into_keys().collect::<BTreeSet<_>>();
        ensure!(found == ids, "stored of kind {kind} are {found:?}, and known {ids:?}");
    }
    let identities = stored(&store, Kind::Identity).await?;
    let owners = networks.values().filter_map(|record| record.metadata.owner).collect::<BTreeSet<_>>();
    let keys = identities.keys().map(|id| Key::new(Kind::Identity, *id)).collect::<BTreeSet<_>>();
    ensure!(owners == keys && owners.len() == networks.len(), "networks and their principals do not match");
    let mut holders = store.references(life.start.project_id.key()).await.map_err(text)?;
    holders.sort();
    ensure!(holders == keys.iter().map(|key| Holder::Resource(*key)).collect::<Vec<_>>(), "the project: {holders:?}");
    charges_are_even(&store, life, known).await?;
    references_are_even(&store, known).await?;
    numbers_are_even(rig, life, &store, known).await?;
    nothing_is_asked_for(&store, known).await?;
    let damaged = store.quarantined().await.map_err(text)?;
    ensure!(damaged.is_empty(), "damaged: {damaged:?}");
    Ok(())
}

/// The servers that work for instances, and for which.
fn working(known: &Ledger) -> BTreeMap<Uuid, Uuid> {
    known.wares.of(Ware::Instance).filter_map(|(id, instance)| Some((instance.server()?, id))).collect()
}

const GIB: u64 = 1 << 30;

/// What one of them is charged for.
fn cost(ware: &KnownWare) -> Amounts {
    let asked = ware.settled();
    let costs = match ware.ware {
        Ware::Balancer => vec![(QuotaKind::LoadBalancers, 1), (QuotaKind::PublicIps, u64::from(asked.public))],
        Ware::Volume => vec![(QuotaKind::Volume, asked.size_gib)],
        Ware::Storage => vec![(QuotaKind::FileStorage, asked.size_gib * GIB)],
        Ware::Image => vec![],
        Ware::Instance => vec![
            (QuotaKind::Servers, 1),
            (QuotaKind::PublicIps, u64::from(asked.public)),
            (QuotaKind::Gpus, u64::from(asked.flavor == Some(FLAVOR_GPU.0))),
        ],
    };
    costs.into_iter().filter(|(_, amount)| *amount > 0).map(|(kind, amount)| (kind, Amount::of(amount))).collect()
}

/// Everybody is charged for what there is of them, once.
async fn charges_are_even(store: &dyn Store, life: &Life, known: &Ledger) -> Result<(), String> {
    let network = || Amounts::from([(QuotaKind::Networks, Amount::of(1))]);
    let networks = known.networks.keys().map(|id| (Key::new(Kind::Network, *id), network()));
    let wares = known.wares.known.iter().map(|(id, ware)| (Key::new(ware.ware.kind(), *id), cost(ware)));
    let costs = networks.chain(wares).filter(|(_, cost)| !cost.is_empty()).collect::<BTreeMap<_, _>>();
    let allocations = store.allocations().await.map_err(text)?;
    let count = allocations.len();
    let charged = allocations.into_iter().map(|charge| (charge.holder, charge.amounts)).collect::<BTreeMap<_, _>>();
    ensure!(charged == costs && count == costs.len(), "{count} charges: {charged:?}, not {costs:?}");
    for usage in store.usage(life.start.organization_id).await.map_err(text)? {
        let amounts = costs.values().filter_map(|cost| cost.get(&usage.kind));
        let expected = amounts.copied().fold(Amount::default(), Amount::plus);
        ensure!(usage.used == expected, "the quota says {usage:?}, for {expected:?}");
    }
    Ok(())
}

/// Everything is referred to by whoever uses it, and by nobody else.
async fn references_are_even(store: &dyn Store, known: &Ledger) -> Result<(), String> {
    let users = |uses: &dyn Fn(&KnownServer) -> bool| {
        let servers = known.machines.servers.iter().filter(|(_, server)| uses(server));
        servers.map(|(id, _)| Holder::Resource(ServerId(*id).key()).to_string()).collect::<BTreeSet<_>>()
    };
    let claimants = |id: &Uuid| {
        let wares = known.wares.known.iter().filter(|(_, ware)| ware.needs().contains(id));
        // What an instance needs, its server needs, too.
        let keys = wares.flat_map(|(id, ware)| {
            let server = ware.server().map(|server| ServerId(server).key());
            server.into_iter().chain([Key::new(ware.ware.kind(), *id)])
        });
        keys.map(|key| Holder::Resource(key).to_string()).collect::<BTreeSet<_>>()
    };
    let mut expected = BTreeMap::new();
    for (id, network) in &known.networks {
        let mut holders = users(&|server| server.network == *id);
        holders.extend(claimants(id));
        holders.extend(network.references.clone());
        expected.insert(Key::new(Kind::Network, *id), holders);
    }
    for id in known.machines.groups.keys() {
        let mut holders = users(&|server| server.uses(*id));
        holders.extend(claimants(id));
        expected.insert(Key::new(Kind::SecurityGroup, *id), holders);
    }
    for id in known.machines.authorities.keys() {
        let key = Key::new(Kind::SshCertificateAuthority, *id);
        expected.insert(key, users(&|server| server.authority == Some(*id)));
    }
    for (server, instance) in working(known) {
        expected.insert(ServerId(server).key(), BTreeSet::new());
        expected.insert(Key::new(Kind::Instance, instance), BTreeSet::new());
    }
    for id in known.machines.servers.keys() {
        expected.insert(ServerId(*id).key(), claimants(id));
    }
    for (id, _) in known.wares.of(Ware::Image) {
        let mut holders = users(&|server| server.uses(id));
        holders.extend(claimants(&id));
        expected.insert(Key::new(Kind::Image, id), holders);
    }
    for (key, expected) in expected {
        let found = store.references(key).await.map_err(text)?;
        let found = found.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        ensure!(found == expected, "{key} is referred to by {found:?}, not {expected:?}");
    }
    Ok(())
}

/// Every verb has ended, and none has outlived its server.
async fn nothing_is_asked_for(store: &dyn Store, known: &Ledger) -> Result<(), String> {
    let working = working(known);
    for (id, operation) in stored(store, Kind::Operation).await? {
        let detail = operation.detail.read::<OperationDetail>().map_err(|error| error.to_string())?;
        ensure!(!detail.is_open(), "operation {id} is open at rest: {detail:?}");
        let owner = operation.metadata.owner;
        let is_there = |id: &Uuid| known.machines.servers.contains_key(id) || working.contains_key(id);
        let lives = owner.is_some_and(|owner| is_there(&owner.id));
        ensure!(lives, "operation {id} has outlived {owner:?}");
    }
    Ok(())
}

/// A number is claimed for exactly the network that has it in the cloud, and a place for exactly every image.
async fn numbers_are_even(rig: &Rig, life: &Life, store: &dyn Store, known: &Ledger) -> Result<(), String> {
    let places = format!("image/{}", life.start.organization_id);
    let claims = store.claims().await.map_err(text)?;
    let (places, claims): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| claim.pool == places);
    let holders = places.iter().map(|claim| claim.holder.id).collect::<BTreeSet<_>>();
    let images = known.wares.of(Ware::Image).map(|(id, _)| id).collect::<BTreeSet<_>>();
    ensure!(holders == images && places.len() == images.len(), "places: {holders:?}, images: {images:?}");
    let claimed = claims.iter().map(|claim| (claim.pool.clone(), claim.number, claim.holder.id));
    let claimed = claimed.collect::<BTreeSet<_>>();
    let mut used = BTreeSet::new();
    for cloud in &rig.clouds {
        let inventory = cloud.room.inventory().await.map_err(|error| error.to_string())?;
        let networks = inventory.networks.iter();
        used.extend(
            networks.filter_map(|network| Some((pool(cloud.region), network.segment()?.vlan.0, network.marks?.id))),
        );
    }
    ensure!(claimed == used && claims.len() == used.len(), "VLANs claimed: {claimed:?}, used: {used:?}");
    Ok(())
}

fn pool(region: RegionId) -> String {
    format!("vlan/{region}")
}

async fn stored(store: &dyn Store, kind: Kind) -> Result<BTreeMap<Uuid, Arc<Record>>, String> {
    let mut all = BTreeMap::new();
    let mut pages = Pages::of(store, Filter::of(kind));
    while let Some(records) = pages.next().await.map_err(text)? {
        all.extend(records.into_iter().map(|record| (record.key.id, record)));
    }
    Ok(all)
}
