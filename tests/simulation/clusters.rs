//! Clusters in a history: what is done to them, and what must then be true of them and of their members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use regent::graph::snapshot::Phase;
use regent::model::cluster::Cluster;
use regent::model::ids::{ClusterId, Kind, NetworkId};
use regent::model::instance::Instance;
use regent::model::record::Record;
use regent::store::{Filter, Pages};
use serde_json::{Value, json};
use uuid::Uuid;

use super::history::{Ledger, id_of, pick};
use super::instances::{Asked, cluster_of, held, opened, phase, refers_evenly};
use super::invariants::{Records, ensure};
use super::machines;
use crate::support::world::{Life, World};

/// What the one pool of a cluster was last asked to be.
#[derive(Clone, Debug, PartialEq)]
struct AskedPool {
    replicas: u32,
    each: Asked,
}

/// What the harness knows of one. `None` where a request died and its outcome is unknown.
#[derive(Clone, Debug)]
struct KnownCluster {
    network: Uuid,
    authority: Option<Uuid>,
    asked: Option<AskedPool>,
    /// Every group and image that it was ever asked to use: it and its members give them back late.
    used: BTreeSet<Uuid>,
    deleted: Option<bool>,
}

impl KnownCluster {
    fn stays(&self) -> bool {
        self.deleted == Some(false)
    }
}

/// The harness' side of it.
#[derive(Default)]
pub struct Clusters {
    known: BTreeMap<Uuid, KnownCluster>,
    /// Creations that died on the way, by name.
    doubtful: BTreeMap<String, KnownCluster>,
    named: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterDeed {
    Create,
    /// There are to be more, or fewer.
    Scale,
    /// They are to be something else, one after the other or some at once.
    Change,
    Evict,
    Delete,
}

pub async fn perform(deed: ClusterDeed, world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    if deed == ClusterDeed::Create {
        return create(world, life, ledger, random).await;
    }
    let Some(id) = any_live(ledger, random) else { return };
    match deed {
        ClusterDeed::Create => {}
        ClusterDeed::Scale => {
            let Some(asked) = ledger.clusters.known[&id].asked.clone() else { return };
            update(life, ledger, id, AskedPool { replicas: random.u32(0..4), ..asked }, random).await;
        }
        ClusterDeed::Change => {
            let Some(asked) = ledger.clusters.known[&id].asked.clone() else { return };
            let each = Asked::any(life, ledger, ledger.clusters.known[&id].network, random).await;
            update(life, ledger, id, AskedPool { each, ..asked }, random).await;
        }
        ClusterDeed::Evict => evict(life, ledger, id, random).await,
        ClusterDeed::Delete => delete(life, ledger, id).await,
    }
}

fn any_live(ledger: &Ledger, random: &mut fastrand::Rng) -> Option<Uuid> {
    let live = ledger.clusters.known.iter().filter(|(_, known)| known.stays()).map(|(id, _)| *id);
    pick(&live.collect::<Vec<_>>(), random)
}

fn pools(asked: &AskedPool, authority: Option<Uuid>) -> Value {
    let mut pool = asked.each.spec();
    pool["name"] = json!("pool");
    pool["replicas"] = json!(asked.replicas);
    if let Some(authority) = authority {
        pool["sshCertificateAuthorityId"] = json!(authority);
    }
    json!([pool])
}

async fn create(world: &World, life: &Life, ledger: &mut Ledger, random: &mut fastrand::Rng) {
    let Some(network) = ledger.any_live(random) else { return };
    let tenant = ledger.networks[&network].tenant;
    let authority = machines::any_authority(ledger, tenant, random);
    let each = Asked::any(life, ledger, network, random).await;
    let asked = AskedPool { replicas: random.u32(1..4), each };
    ledger.clusters.named += 1;
    let name = format!("cluster-{}", ledger.clusters.named);
    let used = asked.each.machine.used().collect();
    let known = KnownCluster { network, authority, asked: Some(asked.clone()), used, deleted: None };
    ledger.clusters.doubtful.insert(name.clone(), known.clone());
    let place = &world.tenants[tenant];
    let body = json!({
        "metadata": {"name": name},
        "spec": {
            "organizationId": place.organization, "projectId": place.project, "networkId": network,
            "pools": pools(&asked, authority),
        },
    });
    let (status, answer) = life.request("POST", "/api/v2/clusters", Some(body)).await;
    ledger.clusters.doubtful.remove(&name);
    if status == StatusCode::CREATED {
        ledger.clusters.known.insert(id_of(&answer), KnownCluster { deleted: Some(false), ..known });
    } else {
        let is_expected = asked.each.is_not_accepted(status, &answer);
        assert!(is_expected, "a create was answered {status}: {answer}");
    }
}

async fn update(life: &Life, ledger: &mut Ledger, id: Uuid, asked: AskedPool, random: &mut fastrand::Rng) {
    let known = ledger.clusters.known.get_mut(&id).expect("known");
    let before = known.asked.take();
    known.used.extend(asked.each.machine.used());
    let mut spec = json!({"pools": pools(&asked, known.authority)});
    if random.bool() {
        spec["maxUnavailable"] = json!(random.u32(1..4));
    }
    let body = json!({"metadata": {"name": "changed"}, "spec": spec});
    let (status, answer) = life.request("PUT", &format!("/api/v2/clusters/{id}"), Some(body)).await;
    let known = ledger.clusters.known.get_mut(&id).expect("known");
    if asked.each.is_not_accepted(status, &answer) {
        known.asked = before;
        return;
    }
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(answer["spec"]["pools"][0]["replicas"], json!(asked.replicas), "an update is read back at once");
    known.asked = Some(asked);
}

/// The members of a cluster that are there and stay.
async fn members(life: &Life, cluster: Uuid) -> Vec<Uuid> {
    let filter = Filter { owner: Some(ClusterId(cluster).key()), ..Filter::of(Kind::Instance) };
    let mut pages = Pages::of(&*life.store, filter);
    let mut members = Vec::new();
    while let Some(records) = pages.next().await.expect("reads") {
        members.extend(records.iter().filter(|record| !record.metadata.is_deleting()).map(|record| record.key.id));
    }
    members
}

/// One goes, and its pool becomes smaller.
async fn evict(life: &Life, ledger: &mut Ledger, id: Uuid, random: &mut fastrand::Rng) {
    let Some(member) = pick(&members(life, id).await, random) else { return };
    let known = ledger.clusters.known.get_mut(&id).expect("known");
    let before = known.asked.take();
    let body = json!({"machineIDs": [member]});
    let (status, answer) = life.request("POST", &format!("/api/v2/clusters/{id}/evict"), Some(body)).await;
    let known = ledger.clusters.known.get_mut(&id).expect("known");
    known.asked = before;
    if status == StatusCode::UNPROCESSABLE_ENTITY {
        // The cluster took it away before the request came.
        assert!(!members(life, id).await.contains(&member), "{answer}");
        return;
    }
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    let replicas = answer["spec"]["pools"][0]["replicas"].as_u64().and_then(|count| u32::try_from(count).ok());
    known.asked = known.asked.take().map(|asked| AskedPool { replicas: replicas.expect("a number"), ..asked });
}

async fn delete(life: &Life, ledger: &mut Ledger, id: Uuid) {
    ledger.clusters.known.get_mut(&id).expect("known").deleted = None;
    let gone = machines::delete(life, &format!("/api/v2/clusters/{id}"), false, false).await;
    ledger.clusters.known.get_mut(&id).expect("known").deleted = Some(gone);
}

pub async fn delete_all(life: &Life, ledger: &mut Ledger) {
    let known = ledger.clusters.known.iter().filter(|(_, known)| known.stays()).map(|(id, _)| *id);
    for id in known.collect::<Vec<_>>() {
        delete(life, ledger, id).await;
    }
}

impl Clusters {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &KnownCluster> {
        self.known.values().chain(self.doubtful.values())
    }

    fn staying(&self) -> impl Iterator<Item = &KnownCluster> {
        self.known.values().filter(|known| known.stays())
    }

    /// Would a deletion of this network be refused, and may it be?
    pub fn keep_network(&self, network: Uuid) -> (bool, bool) {
        let kept = self.staying().any(|known| known.network == network);
        (kept, self.all().any(|known| known.network == network))
    }

    /// The same of a group or an image.
    pub fn keep_used(&self, id: Uuid) -> (bool, bool) {
        let asked = |known: &KnownCluster| known.asked.as_ref().is_some_and(|asked| asked.each.machine.uses(id));
        (self.staying().any(asked), self.all().any(|known| known.used.contains(&id)))
    }

    /// The same of an authority.
    pub fn keep_authority(&self, id: Uuid) -> (bool, bool) {
        let is_its = |known: &KnownCluster| known.authority == Some(id);
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

fn members_of<'a>(cluster: &'a Record, instances: &'a Records) -> impl Iterator<Item = &'a Arc<Record>> {
    instances.values().filter(|record| cluster_of(record) == Some(cluster.key))
}

/// What is stored is what was accepted; what was in doubt is settled by what is stored.
pub async fn accepted_is_durable(
    life: &Life,
    stored: &Records,
    instances: &Records,
    ledger: &mut Ledger,
) -> Result<(), String> {
    let clusters = &mut ledger.clusters;
    for (id, record) in stored {
        let spec = opened::<Cluster>(record)?.spec;
        if !clusters.known.contains_key(id) {
            let known = clusters.doubtful.remove(&record.metadata.name);
            let known = known.ok_or_else(|| format!("cluster {id} is stored but nobody asked for it"))?;
            clusters.known.insert(*id, known);
        }
        let known = clusters.known.get_mut(id).expect("inserted");
        let pool = &spec.pools[0];
        let asked = AskedPool { replicas: pool.replicas, each: Asked::of(&pool.machine) };
        if let Some(before) = &known.asked {
            ensure!(*before == asked, "an accepted update of cluster {id} is lost: {before:?}, {asked:?}");
        }
        known.asked = Some(asked);
        known.used = held(life, record.key).await?.into_iter().map(|key| key.id).collect();
        for member in members_of(record, instances) {
            let server = opened::<Instance>(member)?.spec.server.key();
            let both = held(life, member.key).await?.into_iter().chain(held(life, server).await?);
            known.used.extend(both.map(|key| key.id));
        }
        let is_deleting = record.metadata.is_deleting();
        match known.deleted {
            Some(true) => ensure!(is_deleting, "the accepted deletion of cluster {id} is lost"),
            Some(false) => ensure!(!is_deleting, "cluster {id} is being deleted, and nobody asked for that"),
            None => known.deleted = Some(is_deleting),
        }
        ensure!(!is_deleting, "cluster {id} is at rest, but its deletion was accepted");
    }
    clusters.doubtful.clear();
    for (id, known) in &clusters.known {
        ensure!(stored.contains_key(id) || !known.stays(), "cluster {id} was accepted and is lost");
    }
    clusters.known.retain(|id, _| stored.contains_key(id));
    Ok(())
}

/// Each has as many members as asked for; once it is settled they are all on its terms, and nobody is still going. No
/// member is without its cluster.
pub fn members_are_as_asked(life: &Life, stored: &Records, instances: &Records) -> Result<(), String> {
    for (id, record) in instances {
        let Some(cluster) = cluster_of(record) else { continue };
        ensure!(stored.contains_key(&cluster.id), "instance {id} is left of {cluster}, which is gone");
    }
    for (id, record) in stored.iter().filter(|(_, record)| !record.metadata.is_deleting()) {
        let cluster = opened::<Cluster>(record)?;
        let pool = &cluster.spec.pools[0];
        let (going, staying) =
            members_of(record, instances).partition::<Vec<_>, _>(|member| member.metadata.is_deleting());
        let is_settled = phase(life, record.key) == Some(Phase::Settled);
        let wanted = usize::try_from(pool.replicas).expect("few");
        ensure!(staying.len() == wanted, "cluster {id} has {} members, not {wanted}", staying.len());
        let evicted = staying.iter().find(|member| cluster.spec.evictions.iter().any(|id| id.key() == member.key));
        ensure!(evicted.is_none(), "cluster {id} keeps {evicted:?}, who was evicted");
        ensure!(!is_settled || going.is_empty(), "cluster {id} is settled, and {} are still going", going.len());
        for member in staying {
            let machine = opened::<Instance>(member)?.spec.machine;
            let is_on_terms = machine == pool.machine && member.conditions.is_available();
            ensure!(!is_settled || is_on_terms, "cluster {id} is settled, and {} is not as asked", member.key);
        }
    }
    Ok(())
}

/// Each is charged for all of its members and refers to what they use.
pub async fn books_are_even(life: &Life, stored: &Records) -> Result<(), String> {
    let allocations = life.store.allocations().await.map_err(|error| error.to_string())?;
    let own = allocations.into_iter().filter(|charge| charge.holder.kind == Kind::Cluster);
    let charged = own.map(|charge| (charge.holder.id, charge.amounts)).collect::<BTreeMap<_, _>>();
    let mut costs = BTreeMap::new();
    for (id, record) in stored {
        let cluster = opened::<Cluster>(record)?;
        // As long as somebody is there who should not be, he is paid for.
        let is_settled = cluster.detail.settled == record.metadata.generation;
        costs.insert(*id, if is_settled { cluster.spec.cost() } else { cluster.spec.charged.clone() });
        let may_be_more = phase(life, record.key) != Some(Phase::Settled);
        ensure!(is_settled || may_be_more, "cluster {id} is settled and pays for what is gone");
    }
    ensure!(charged == costs, "charges and clusters differ: {charged:?}, not {costs:?}");
    for record in stored.values().filter(|record| !record.metadata.is_deleting()) {
        let network = record.metadata.placement.network.map(NetworkId::key);
        let uses = opened::<Cluster>(record)?.spec.uses();
        refers_evenly(life, record, network.into_iter().chain(uses).collect()).await?;
    }
    Ok(())
}
