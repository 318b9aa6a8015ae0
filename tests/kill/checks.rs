//! What must be true once everything is quiet: the clouds have exactly what is stored, and the books agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use regent::model::ambient::Ambient;
use regent::model::edge::Holder;
use regent::model::ids::{Key, Kind, RegionId};
use regent::model::record::Record;
use regent::providers::simulated::SimulatedHandle;
use regent::providers::simulated::engine::books::Inventory;
use regent::providers::simulated::objects::{Body, CloudObject, ObjectState};
use regent::store::embedded::EmbeddedStore;
use regent::store::{Filter, Pages, Store};
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::shown;
use super::ledger::{Known, Shown};
use super::rig::{Life, Rig};

/// How long everything may take to come to rest. It takes seconds; what takes longer than this waits for something
/// that nobody will do, or for a safety net that hides it.
const CONVERGE_PATIENCE: Duration = Duration::from_secs(45);

/// A process of its own cannot be subscribed to: it is asked this often. Asking costs it little; a longer period
/// would be most of what is measured.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// What a page of actors holds at most.
const ACTORS_PAGE: usize = 500;

macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}

/// The server as it shows itself.
pub struct View {
    pub networks: BTreeMap<Uuid, Shown>,
    pub identities: BTreeSet<Uuid>,
    /// What is not at rest, in words.
    busy: Vec<String>,
}

async fn get(life: &Life, url: String) -> Result<Value, String> {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let answer = client.get(&url).bearer_auth(&life.start.token).send().await.map_err(|error| error.to_string())?;
    let status = answer.status();
    ensure!(status.is_success(), "{url} was answered {status}");
    answer.json().await.map_err(|error| error.to_string())
}

async fn actors(life: &Life, kind: &str, busy: &mut Vec<String>) -> Result<BTreeSet<Uuid>, String> {
    let mut all = BTreeSet::new();
    let mut after = String::new();
    loop {
        let url = format!("{}/admin/v1/actors?kind={kind}&limit={ACTORS_PAGE}{after}", life.start.admin_url);
        let page = get(life, url).await?;
        let page = page.as_array().ok_or("not a list")?;
        for actor in page {
            let id: Uuid = actor["id"].as_str().and_then(|id| id.parse().ok()).ok_or("no id")?;
            ensure!(actor["restarts"] == 0, "an actor failed: {actor}");
            if actor["state"] != "settled" {
                busy.push(format!("{kind} {id} is {}", actor["state"]));
            }
            after = format!("&after={kind}/{id}");
            all.insert(id);
        }
        if page.len() < ACTORS_PAGE {
            return Ok(all);
        }
    }
}

async fn look(life: &Life) -> Result<View, String> {
    let mut busy = Vec::new();
    let identities = actors(life, "identity", &mut busy).await?;
    let acting = actors(life, "network", &mut busy).await?;
    let list = get(life, format!("{}/api/v2/networks", life.start.api_url)).await?;
    let networks = shown(&list)?;
    let unfinished = networks.iter().filter(|(_, network)| network.status != "provisioned");
    busy.extend(unfinished.map(|(id, network)| format!("network {id} is {}", network.status)));
    if acting != networks.keys().copied().collect() || identities.len() != networks.len() {
        let (principals, acting) = (identities.len(), acting.len());
        busy.push(format!("{} networks, {acting} actors, {principals} principals", networks.len()));
    }
    Ok(View { networks, identities, busy })
}

/// Waits until nobody has anything to do. Nobody must be asking for anything meanwhile.
pub async fn converged(life: &Life) -> Result<View, String> {
    let began = Instant::now();
    let mut looks = tokio::time::interval(LOOK_PERIOD);
    loop {
        looks.tick().await;
        let view = look(life).await?;
        if view.busy.is_empty() {
            let quarantine = get(life, format!("{}/admin/v1/quarantine", life.start.admin_url)).await?;
            ensure!(quarantine == json!({"actors": [], "records": []}), "in quarantine: {quarantine}");
            return Ok(view);
        }
        if began.elapsed() > CONVERGE_PATIENCE {
            let examples = &view.busy[..view.busy.len().min(5)];
            return Err(format!("after {CONVERGE_PATIENCE:?}, {} are at work: {examples:?}", view.busy.len()));
        }
    }
}

/// Every cloud has exactly what its stored networks ask for.
pub async fn clouds_are_as_shown(rig: &Rig, view: &View) -> Result<(), String> {
    let mut identities = BTreeSet::new();
    for cloud in &rig.clouds {
        let inventory = cloud.room.inventory().await.map_err(|error| error.to_string())?;
        let here = view.networks.iter().filter(|(_, network)| network.region == cloud.region);
        let here = here.map(|(id, network)| (*id, network)).collect::<BTreeMap<_, _>>();
        cloud_is_as_shown(&inventory, &here, cloud.physical)
            .map_err(|text| format!("in region {}: {text}", cloud.region))?;
        identities.extend(inventory.identities.iter().filter_map(|object| Some(object.marks?.id)));
    }
    ensure!(identities == view.identities, "the clouds' principals are not those that are stored");
    Ok(())
}

/// The marks of objects of one kind, each of which may be there once.
fn once<'a>(what: &str, objects: &'a [CloudObject]) -> Result<BTreeMap<Uuid, &'a CloudObject>, String> {
    let mut all = BTreeMap::new();
    for object in objects {
        let id = object.marks.ok_or_else(|| format!("{what} {} is nobody's", object.id))?.id;
        ensure!(object.state == ObjectState::Active, "{what} {} of {id} is {:?}", object.id, object.state);
        ensure!(all.insert(id, object).is_none(), "there are two of {what} of {id}");
    }
    Ok(all)
}

fn cloud_is_as_shown(inventory: &Inventory, networks: &BTreeMap<Uuid, &Shown>, physical: bool) -> Result<(), String> {
    let wanted = networks.keys().copied().collect::<BTreeSet<_>>();
    let (made, subnets) = (once("network", &inventory.networks)?, once("subnet", &inventory.subnets)?);
    let routers = once("router", &inventory.routers)?;
    for (what, found) in [("network", &made), ("subnet", &subnets), ("router", &routers)] {
        let found = found.keys().copied().collect::<BTreeSet<_>>();
        ensure!(
            found == wanted,
            "{what}s leaked: {:?}, missing: {:?}",
            found.difference(&wanted).collect::<Vec<_>>(),
            wanted.difference(&found).collect::<Vec<_>>()
        );
    }
    let projects = once("principal", &inventory.identities)?;
    let (users, credentials) = (once("user", &inventory.users)?, once("credential", &inventory.credentials)?);
    ensure!(projects.len() == wanted.len(), "{} principals for {} networks", projects.len(), wanted.len());
    ensure!(projects.keys().eq(users.keys()) && users.keys().eq(credentials.keys()), "principals are incomplete");
    let homes = made.values().filter_map(|network| network.body.parent()).map(|(_, project)| project);
    let homes = homes.collect::<BTreeSet<_>>();
    ensure!(homes == projects.values().map(|project| &project.id).collect(), "networks and principals do not match");
    for (id, subnet) in &subnets {
        let Body::Subnet { options, .. } = &subnet.body else { return Err("a subnet is something else".to_owned()) };
        let found = options.dns_nameservers.iter().map(ToString::to_string).collect::<Vec<_>>();
        let asked = &networks[id].servers;
        ensure!(found == *asked, "subnet of {id} has {found:?}, not {asked:?}");
    }
    let on_wires = inventory.vlans.iter().map(|vlan| &vlan.network).collect::<BTreeSet<_>>();
    let expected = made.values().filter(|_| physical).map(|network| &network.id).collect::<BTreeSet<_>>();
    ensure!(on_wires == expected && inventory.vlans.len() == expected.len(), "VLANs: {:?}", inventory.vlans);
    Ok(())
}

/// Nothing was ever there twice, whatever became of it. Returns how many objects were ever made.
pub async fn nothing_was_doubled(rig: &Rig) -> Result<u64, String> {
    let mut total = 0;
    for cloud in &rig.clouds {
        let book = cloud.room.creations().await.map_err(|error| error.to_string())?;
        ensure!(book.complete, "the cloud's book of creations is full");
        total += book.creations.iter().map(|entry| entry.count.created).sum::<u64>();
        let double = book.creations.iter().find(|entry| entry.count.at_once_max > 1);
        ensure!(double.is_none(), "something was there twice: {double:?}");
    }
    Ok(total)
}

/// The store, after the server has ended: charges, numbers and references are those of the networks that are there.
pub async fn books_are_even(rig: &Rig, life: &Life, known: &BTreeMap<Uuid, Known>) -> Result<(), String> {
    let store = EmbeddedStore::open(&rig.data(), Ambient::system()).map_err(|error| error.to_string())?;
    let text = |error: regent::store::StoreError| error.to_string();
    let networks = stored(&store, Kind::Network).await?;
    let identities = stored(&store, Kind::Identity).await?;
    let ids = known.keys().copied().collect::<BTreeSet<_>>();
    ensure!(networks.keys().copied().collect::<BTreeSet<_>>() == ids, "the stored networks are not those known");
    let owners = networks.values().filter_map(|record| record.metadata.owner).collect::<BTreeSet<_>>();
    let keys = identities.keys().map(|id| Key::new(Kind::Identity, *id)).collect::<BTreeSet<_>>();
    ensure!(owners == keys && owners.len() == networks.len(), "networks and their principals do not match");
    let charged = store.allocations().await.map_err(text)?;
    let charged = charged.iter().map(|charge| charge.holder.id).collect::<Vec<_>>();
    ensure!(
        charged.len() == ids.len() && charged.iter().copied().collect::<BTreeSet<_>>() == ids,
        "charges: {charged:?}"
    );
    let usage = store.usage(life.start.organization_id).await.map_err(text)?;
    let used = usage.iter().map(|usage| usage.used.committed).sum::<u64>();
    ensure!(used == ids.len() as u64, "the quota says {used} for {} networks", ids.len());
    let mut holders = store.references(life.start.project_id.key()).await.map_err(text)?;
    holders.sort();
    ensure!(holders == keys.iter().map(|key| Holder::Resource(*key)).collect::<Vec<_>>(), "the project: {holders:?}");
    for (id, network) in known {
        let found = store.references(Key::new(Kind::Network, *id)).await.map_err(text)?;
        let found = found.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        ensure!(found == network.references, "{id} is referred to by {found:?}, not {:?}", network.references);
    }
    numbers_are_even(rig, &store).await?;
    let damaged = store.quarantined().await.map_err(text)?;
    ensure!(damaged.is_empty(), "damaged: {damaged:?}");
    Ok(())
}

/// A number is claimed for exactly the network that has it in the cloud.
async fn numbers_are_even(rig: &Rig, store: &dyn Store) -> Result<(), String> {
    let claims = store.claims().await.map_err(|error| error.to_string())?;
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

async fn stored(store: &dyn Store, kind: Kind) -> Result<BTreeMap<Uuid, std::sync::Arc<Record>>, String> {
    let mut all = BTreeMap::new();
    let mut pages = Pages::of(store, Filter::of(kind));
    while let Some(records) = pages.next().await.map_err(|error| error.to_string())? {
        all.extend(records.into_iter().map(|record| (record.key.id, record)));
    }
    Ok(all)
}

/// Nothing but the catalogue is left in any cloud.
pub async fn clouds_are_empty(rig: &Rig) -> Result<(), String> {
    for cloud in &rig.clouds {
        let inventory = cloud.room.inventory().await.map_err(|error| error.to_string())?;
        ensure!(inventory.is_empty(), "region {} is not empty: {inventory:?}", cloud.region);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use regent::model::ids::Incarnation;
    use regent::model::network::VlanId;
    use regent::providers::simulated::engine::books::UsedVlan;
    use regent::providers::simulated::objects::{Marks, ObjectId, Segment, SubnetOptions};

    const NETWORK: Uuid = Uuid::from_u128(1);
    const IDENTITY: Uuid = Uuid::from_u128(2);

    fn object(id: &str, of: Uuid, body: Body) -> CloudObject {
        let marks = Some(Marks { id: of, incarnation: Incarnation(of) });
        let (id, name) = (ObjectId(id.to_owned()), id.to_owned());
        CloudObject { id, name, marks, state: ObjectState::Active, pending: None, tags: BTreeMap::new(), body }
    }

    /// A cloud with one network and all that belongs to it.
    fn inventory() -> Inventory {
        let id = |text: &str| ObjectId(text.to_owned());
        let segment = Segment { physical_network: "physical".to_owned(), vlan: VlanId(100) };
        let options = SubnetOptions {
            gateway: "10.1.0.1".parse().unwrap(),
            pool: None,
            dns_nameservers: vec!["1.1.1.1".parse().unwrap()],
            routes: vec![],
        };
        let subnet = Body::Subnet { network: id("network"), cidr: "10.1.0.0/24".parse().unwrap(), options };
        let router =
            Body::Router { project: id("project"), external_network: None, interfaces: BTreeSet::from([id("subnet")]) };
        let network = Body::Network { project: id("project"), segment: Some(segment.clone()) };
        Inventory {
            identities: vec![object("project", IDENTITY, Body::Project)],
            users: vec![object("user", IDENTITY, Body::User)],
            credentials: vec![object("credential", IDENTITY, Body::Credential { user: id("user") })],
            networks: vec![object("network", NETWORK, network)],
            subnets: vec![object("subnet", NETWORK, subnet)],
            routers: vec![object("router", NETWORK, router)],
            vlans: vec![UsedVlan { segment, network: id("network") }],
            ..Inventory::default()
        }
    }

    fn check(change: impl FnOnce(&mut Inventory)) -> Result<(), String> {
        let mut inventory = inventory();
        change(&mut inventory);
        let shown = Shown {
            name: "a".to_owned(),
            region: RegionId(Uuid::nil()),
            servers: vec!["1.1.1.1".to_owned()],
            status: "provisioned".to_owned(),
            deleting: false,
        };
        cloud_is_as_shown(&inventory, &BTreeMap::from([(NETWORK, &shown)]), true)
    }

    /// What of the inventory is to be spoilt.
    type Part = fn(&mut Inventory) -> &mut Vec<CloudObject>;

    const PARTS: [Part; 6] = [
        |inventory| &mut inventory.identities,
        |inventory| &mut inventory.users,
        |inventory| &mut inventory.credentials,
        |inventory| &mut inventory.networks,
        |inventory| &mut inventory.subnets,
        |inventory| &mut inventory.routers,
    ];

    #[test]
    fn whatever_is_missing_leaked_doubled_or_nobodys_in_a_cloud_is_noticed() {
        check(|_| ()).unwrap();
        for (number, part) in PARTS.into_iter().enumerate() {
            let spoilt = |spoil: fn(&mut Vec<CloudObject>)| check(|inventory| spoil(part(inventory)));
            spoilt(Vec::clear).expect_err(&format!("{number} is missing"));
            let twice =
                |all: &mut Vec<CloudObject>| all.push(CloudObject { id: ObjectId("x".into()), ..all[0].clone() });
            assert!(spoilt(twice).unwrap_err().contains("two of"), "{number} is doubled");
            let leaked = |all: &mut Vec<CloudObject>| all.push(object("x", Uuid::from_u128(9), all[0].body.clone()));
            spoilt(leaked).expect_err(&format!("{number} is leaked"));
            spoilt(|all| all[0].marks = None).expect_err(&format!("{number} is nobody's"));
            spoilt(|all| all[0].state = ObjectState::Building).expect_err(&format!("{number} is unfinished"));
        }
    }

    #[test]
    fn numbers_and_settings_that_differ_are_noticed() {
        assert!(check(|inventory| inventory.vlans.clear()).unwrap_err().contains("VLAN"));
        let leaked = |inventory: &mut Inventory| {
            let mut vlan = inventory.vlans[0].clone();
            vlan.segment.vlan = VlanId(101);
            inventory.vlans.push(vlan);
        };
        assert!(check(leaked).unwrap_err().contains("VLAN"));
        let stale = |inventory: &mut Inventory| {
            let Body::Subnet { options, .. } = &mut inventory.subnets[0].body else { panic!("a subnet") };
            options.dns_nameservers.clear();
        };
        assert!(check(stale).unwrap_err().contains("not [\"1.1.1.1\"]"));
    }
}
