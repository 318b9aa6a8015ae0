//! The store, after the server has ended: charges, numbers, references and verbs are those of what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regent::model::ambient::Ambient;
use regent::model::edge::Holder;
use regent::model::ids::{Key, Kind, RegionId, ServerId};
use regent::model::operation::OperationDetail;
use regent::model::quota::QuotaKind;
use regent::model::record::Record;
use regent::providers::simulated::SimulatedHandle;
use regent::store::embedded::EmbeddedStore;
use regent::store::{Filter, Pages, Store, StoreError};
use uuid::Uuid;

use super::checks::ensure;
use super::ledger::Ledger;
use super::machines::KnownServer;
use super::rig::{Life, Rig};

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
        (Kind::Server, machines.servers.keys().copied().collect()),
    ];
    for (kind, ids) in kinds {
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
    charges_are_even(&store, life, &networks).await?;
    references_are_even(&store, known).await?;
    numbers_are_even(rig, &store).await?;
    nothing_is_asked_for(&store, known).await?;
    let damaged = store.quarantined().await.map_err(text)?;
    ensure!(damaged.is_empty(), "damaged: {damaged:?}");
    Ok(())
}

/// Networks are what is charged for.
async fn charges_are_even(
    store: &dyn Store,
    life: &Life,
    networks: &BTreeMap<Uuid, Arc<Record>>,
) -> Result<(), String> {
    let charged = store.allocations().await.map_err(text)?;
    let charged = charged.iter().map(|charge| charge.holder.id).collect::<Vec<_>>();
    let holders = charged.iter().copied().collect::<BTreeSet<_>>();
    ensure!(charged.len() == networks.len() && holders.iter().eq(networks.keys()), "charges: {charged:?}");
    for usage in store.usage(life.start.organization_id).await.map_err(text)? {
        let count = if usage.kind == QuotaKind::Networks { networks.len() as u64 } else { 0 };
        ensure!(usage.used.total() == count, "the quota says {usage:?}, for {count}");
    }
    Ok(())
}

/// Everything is referred to by whoever uses it, and by nobody else.
async fn references_are_even(store: &dyn Store, known: &Ledger) -> Result<(), String> {
    let users = |uses: &dyn Fn(&KnownServer) -> bool| {
        let servers = known.machines.servers.iter().filter(|(_, server)| uses(server));
        servers.map(|(id, _)| Holder::Resource(ServerId(*id).key()).to_string()).collect::<BTreeSet<_>>()
    };
    let mut expected = BTreeMap::new();
    for (id, network) in &known.networks {
        let mut holders = users(&|server| server.network == *id);
        holders.extend(network.references.clone());
        expected.insert(Key::new(Kind::Network, *id), holders);
    }
    for id in known.machines.groups.keys() {
        expected.insert(Key::new(Kind::SecurityGroup, *id), users(&|server| server.uses(*id)));
    }
    for id in known.machines.authorities.keys() {
        let key = Key::new(Kind::SshCertificateAuthority, *id);
        expected.insert(key, users(&|server| server.authority == Some(*id)));
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
    for (id, operation) in stored(store, Kind::Operation).await? {
        let detail = operation.detail.read::<OperationDetail>().map_err(|error| error.to_string())?;
        ensure!(!detail.is_open(), "operation {id} is open at rest: {detail:?}");
        let owner = operation.metadata.owner;
        let lives = owner.is_some_and(|owner| known.machines.servers.contains_key(&owner.id));
        ensure!(lives, "operation {id} has outlived {owner:?}");
    }
    Ok(())
}

/// A number is claimed for exactly the network that has it in the cloud.
async fn numbers_are_even(rig: &Rig, store: &dyn Store) -> Result<(), String> {
    let claims = store.claims().await.map_err(text)?;
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
