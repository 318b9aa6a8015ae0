//! What must be true once everything is quiet: the clouds have exactly what is stored, and the books agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use regent::model::ids::Kind;
use regent::model::server::PowerState;
use regent::providers::simulated::SimulatedHandle;
use regent::providers::simulated::engine::books::Inventory;
use regent::providers::simulated::objects::{Body, CloudObject, ObjectId, ObjectKind, ObjectState};
use serde_json::{Value, json};
use uuid::Uuid;

use super::ledger::Shown;
use super::machines::{self, Power};
use super::rig::{Cloud, Life, Rig};
use super::ware_checks::{instances_are_as_shown, wares_are_as_shown};
use super::wares::{self, Ware};
use super::wire;

/// How long everything may take to come to rest. It takes seconds; what takes longer than this waits for something
/// that nobody will do, or for a safety net that hides it.
const CONVERGE_PATIENCE: Duration = Duration::from_secs(45);

/// A process of its own cannot be subscribed to: it is asked this often. Asking costs it little; a longer period
/// would be most of what is measured.
pub const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// What a page of actors holds at most.
const ACTORS_PAGE: usize = 500;

macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}
pub(super) use ensure;

/// The server as it shows itself.
pub struct View {
    pub networks: BTreeMap<Uuid, Shown>,
    pub machines: machines::Shown,
    pub wares: wares::Shown,
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

async fn look(rig: &Rig, life: &Life) -> Result<View, String> {
    let mut busy = Vec::new();
    let identities = actors(life, Kind::Identity.word(), &mut busy).await?;
    let mut acting = Vec::new();
    let kinds = [Kind::Network, Kind::SecurityGroup, Kind::SshCertificateAuthority, Kind::Server];
    for kind in kinds.into_iter().chain(Ware::ALL.map(Ware::kind)) {
        acting.push(actors(life, kind.word(), &mut busy).await?);
    }
    let list = |plural| get(life, format!("{}/api/v2/{plural}", life.start.api_url));
    let networks = wire::networks(&list("networks").await?)?;
    let (groups, authorities) = (list("securitygroups").await?, list("sshcertificateauthorities").await?);
    let machines = wire::machines([&groups, &authorities, &list("servers").await?])?;
    let mut wares = wares::Shown::new();
    for list in Ware::lists(life.start.organization_id, &rig.regions()) {
        let answer = get(life, format!("{}{}", life.start.api_url, list.path)).await?;
        wares.extend(wire::wares(&list, &answer, None)?);
    }
    let (groups, authorities, servers) = (&machines.groups, &machines.authorities, &machines.servers);
    let statuses = networks.iter().map(|(id, network)| (id, &network.status));
    let statuses = statuses.chain(groups.iter().map(|(id, group)| (id, &group.head.status)));
    let statuses = statuses.chain(authorities.iter().map(|(id, head)| (id, &head.status)));
    let statuses = statuses.chain(servers.iter().map(|(id, server)| (id, &server.head.status)));
    let unfinished = statuses.filter(|(_, status)| *status != "provisioned");
    busy.extend(unfinished.map(|(id, status)| format!("{id} is {status}")));
    let unfinished = wares.iter().filter(|(_, ware)| !ware.is_whole());
    busy.extend(unfinished.map(|(id, ware)| format!("{:?} {id} is {}", ware.ware, ware.head.status)));
    let mut shown = vec![
        networks.keys().copied().collect::<BTreeSet<_>>(),
        groups.keys().copied().collect(),
        authorities.keys().copied().collect(),
        servers.keys().copied().collect(),
    ];
    let of = |ware| wares.iter().filter(move |(_, shown)| shown.ware == ware).map(|(id, _)| *id).collect();
    shown.extend(Ware::ALL.map(of));
    if acting != shown || identities.len() != networks.len() {
        let counts = |sets: &[BTreeSet<Uuid>]| sets.iter().map(BTreeSet::len).collect::<Vec<_>>();
        let (shown, acting) = (counts(&shown), counts(&acting));
        busy.push(format!("{shown:?} are shown, {acting:?} act, with {} principals", identities.len()));
    }
    Ok(View { networks, machines, wares, identities, busy })
}

/// Waits until nobody has anything to do, and everybody knows how the servers are. Nobody must be asking for anything
/// meanwhile.
pub async fn converged(rig: &Rig, life: &Life) -> Result<View, String> {
    let began = Instant::now();
    let mut looks = tokio::time::interval(LOOK_PERIOD);
    loop {
        looks.tick().await;
        let mut view = look(rig, life).await?;
        if view.busy.is_empty() {
            view.busy = restless_servers(rig, &view).await?;
            view.busy.extend(restless_instances(&view));
        }
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

/// Servers that their clouds are busy with, or that are shown otherwise than they are: that is heard of in time.
async fn restless_servers(rig: &Rig, view: &View) -> Result<Vec<String>, String> {
    let mut restless = Vec::new();
    for cloud in &rig.clouds {
        for object in inventory_of(cloud).await?.servers {
            let power = object.server().and_then(|server| power_of(server.life.power)).map(Power::word);
            let shown = object.marks.and_then(|marks| view.machines.servers.get(&marks.id));
            let shown = shown.map(|shown| shown.power.as_str());
            if object.pending.is_some() || power.is_none() || power != shown {
                restless.push(format!("server {:?} is {power:?} and shown as {shown:?}", object.marks));
            }
        }
    }
    Ok(restless)
}

/// Instances that have yet to hear how their server is.
fn restless_instances(view: &View) -> Vec<String> {
    let mut restless = Vec::new();
    for (id, instance) in view.wares.iter().filter(|(_, ware)| ware.ware == Ware::Instance) {
        let power = instance.server().and_then(|server| view.machines.servers.get(&server)).map(|server| &server.power);
        if power != Some(&instance.power) {
            restless.push(format!("instance {id} says {} of a server that is {power:?}", instance.power));
        }
    }
    restless
}

const fn power_of(power: PowerState) -> Option<Power> {
    match power {
        PowerState::Running => Some(Power::Running),
        PowerState::Shutdown => Some(Power::Stopped),
        _ => None,
    }
}

async fn inventory_of(cloud: &Cloud) -> Result<Inventory, String> {
    cloud.room.inventory().await.map_err(|error| error.to_string())
}

/// Every cloud has exactly what its stored networks ask for.
pub async fn clouds_are_as_shown(rig: &Rig, view: &View) -> Result<(), String> {
    let mut identities = BTreeSet::new();
    for cloud in &rig.clouds {
        let inventory = inventory_of(cloud).await?;
        let here = view.networks.iter().filter(|(_, network)| network.region == cloud.region);
        let here = here.map(|(id, network)| (*id, network)).collect::<BTreeMap<_, _>>();
        let machines = view.machines.within(cloud.region);
        let wares = view.wares.iter().filter(|(_, ware)| ware.region == cloud.region);
        let wares = wares.map(|(id, ware)| (*id, ware.clone())).collect::<wares::Shown>();
        cloud_is_as_shown(&inventory, &here, cloud.physical)
            .and_then(|()| machines_are_as_shown(&inventory, &machines, &wares))
            .and_then(|()| instances_are_as_shown(&inventory, &machines, &wares))
            .and_then(|()| wares_are_as_shown(&inventory, &wares))
            .map_err(|text| format!("in region {}: {text}", cloud.region))?;
        identities.extend(inventory.identities.iter().filter_map(|object| Some(object.marks?.id)));
    }
    ensure!(identities == view.identities, "the clouds' principals are not those that are stored");
    Ok(())
}

/// The marks of objects of one kind, each of which may be there once.
pub fn once<'a>(what: &str, objects: &'a [CloudObject]) -> Result<BTreeMap<Uuid, &'a CloudObject>, String> {
    let mut all = BTreeMap::new();
    for object in objects {
        let id = object.marks.ok_or_else(|| format!("{what} {} is nobody's", object.id))?.id;
        ensure!(object.state == ObjectState::Active, "{what} {} of {id} is {:?}", object.id, object.state);
        ensure!(all.insert(id, object).is_none(), "there are two of {what} of {id}");
    }
    Ok(all)
}

pub fn exactly(what: &str, found: &BTreeMap<Uuid, &CloudObject>, wanted: &BTreeSet<Uuid>) -> Result<(), String> {
    let found = found.keys().copied().collect::<BTreeSet<_>>();
    ensure!(
        found == *wanted,
        "{what}s leaked: {:?}, missing: {:?}",
        found.difference(wanted).collect::<Vec<_>>(),
        wanted.difference(&found).collect::<Vec<_>>()
    );
    Ok(())
}

fn cloud_is_as_shown(inventory: &Inventory, networks: &BTreeMap<Uuid, &Shown>, physical: bool) -> Result<(), String> {
    let wanted = networks.keys().copied().collect::<BTreeSet<_>>();
    let (made, subnets) = (once("network", &inventory.networks)?, once("subnet", &inventory.subnets)?);
    let routers = once("router", &inventory.routers)?;
    for (what, found) in [("network", &made), ("subnet", &subnets), ("router", &routers)] {
        exactly(what, found, &wanted)?;
    }
    let projects = once("principal", &inventory.identities)?;
    let (users, credentials) = (once("user", &inventory.users)?, once("credential", &inventory.credentials)?);
    ensure!(projects.len() == wanted.len(), "{} principals for {} networks", projects.len(), wanted.len());
    let key_pairs = once("key pair", &inventory.key_pairs)?;
    let complete = [&users, &credentials, &key_pairs].into_iter().all(|parts| parts.keys().eq(projects.keys()));
    ensure!(complete, "principals are incomplete");
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

/// Groups, ports, addresses and servers are exactly those that are shown, each as it is shown.
///
/// Load balancers have ports and addresses, too.
fn machines_are_as_shown(inventory: &Inventory, shown: &machines::Shown, wares: &wares::Shown) -> Result<(), String> {
    let (groups, ports) = (once("group", &inventory.security_groups)?, once("port", &inventory.ports)?);
    let (servers, addresses) = (once("server", &inventory.servers)?, once("address", &inventory.floating_ips)?);
    let wanted = shown.servers.keys().copied().collect();
    exactly("group", &groups, &shown.groups.keys().copied().collect())?;
    exactly("server", &servers, &wanted)?;
    let balancers = wares.iter().filter(|(_, shown)| shown.ware == Ware::Balancer);
    let with_ports = wanted.into_iter().chain(balancers.clone().map(|(id, _)| *id));
    exactly("port", &ports, &with_ports.collect())?;
    let public = shown.servers.iter().filter(|(_, server)| server.asked.public).map(|(id, _)| *id);
    let public = public.chain(balancers.filter(|(_, shown)| shown.asked.public).map(|(id, _)| *id));
    exactly("address", &addresses, &public.collect())?;
    for (id, group) in &shown.groups {
        let Body::SecurityGroup { rules, .. } = &groups[id].body else { return Err(format!("{id} is no group")) };
        let ports = rules.iter().filter_map(|rule| rule.ports).collect::<Vec<_>>();
        ensure!(ports == [(group.port, group.port)], "group {id} lets in {ports:?}, not {}", group.port);
    }
    let networks = once("network", &inventory.networks)?;
    for (id, server) in &shown.servers {
        let Body::Port { network, options, .. } = &ports[id].body else { return Err(format!("{id} has no port")) };
        let home = networks.get(&server.network).map(|network| &network.id);
        ensure!(Some(network) == home, "the port of server {id} is in {network}, not in {home:?}");
        let asked = server.asked.groups.iter().filter_map(|group| Some(groups.get(group)?.id.clone()));
        let asked = asked.collect::<BTreeSet<ObjectId>>();
        let found = &options.security_groups;
        ensure!(*found == asked, "server {id} has the groups {found:?}, not {asked:?}");
        let Body::Server(body) = &servers[id].body else { return Err(format!("{id} is no server")) };
        ensure!(body.port == ports[id].id, "server {id} is not on its port");
        ensure!(body.image.0 == server.asked.image, "server {id} runs on {}, not {}", body.image, server.asked.image);
        ensure!(servers[id].pending.is_none(), "server {id} is not at rest: {:?}", servers[id]);
        if let Some(address) = addresses.get(id) {
            ensure!(address.body.parent().is_some_and(|(_, port)| *port == ports[id].id), "the address of {id} strays");
        }
    }
    Ok(())
}

/// Nothing was ever there twice, whatever became of it. Returns how many objects were ever made.
pub async fn nothing_was_doubled(rig: &Rig) -> Result<u64, String> {
    let mut total = 0;
    for cloud in &rig.clouds {
        let book = cloud.room.creations().await.map_err(|error| error.to_string())?;
        ensure!(book.complete, "the cloud's book of creations is full");
        total += book.creations.iter().map(|entry| entry.count.created).sum::<u64>();
        // A file storage may be attached more than once, to different networks.
        let mut alone = book.creations.iter().filter(|entry| entry.kind != ObjectKind::ShareAttachment);
        let double = alone.find(|entry| entry.count.at_once_max > 1);
        ensure!(double.is_none(), "something was there twice: {double:?}");
    }
    Ok(total)
}

/// Nothing but the catalogue is left in any cloud.
pub async fn clouds_are_empty(rig: &Rig) -> Result<(), String> {
    for cloud in &rig.clouds {
        let inventory = inventory_of(cloud).await?;
        ensure!(inventory.is_empty(), "region {} is not empty: {inventory:?}", cloud.region);
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use regent::model::ids::{Incarnation, RegionId};
    use regent::model::network::VlanId;
    use regent::model::security_group::{Direction, EffectiveRule, Ethertype, Protocol};
    use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_GPU, IMAGE_UBUNTU};
    use regent::providers::simulated::engine::books::UsedVlan;
    use regent::providers::simulated::objects::{
        Marks, ObjectId, PortOptions, Segment, ServerBody, ServerLife, SubnetOptions,
    };

    use super::super::machines::{Asked, ShownGroup, ShownServer};
    use super::super::wire::Head;

    pub const NETWORK: Uuid = Uuid::from_u128(1);
    const IDENTITY: Uuid = Uuid::from_u128(2);
    const GROUP: Uuid = Uuid::from_u128(3);
    pub const SERVER: Uuid = Uuid::from_u128(4);
    pub const REGION: RegionId = RegionId(Uuid::nil());

    pub fn object(id: &str, of: Uuid, body: Body) -> CloudObject {
        let marks = Some(Marks { id: of, incarnation: Incarnation(of) });
        let (id, name) = (ObjectId(id.to_owned()), id.to_owned());
        CloudObject { id, name, marks, state: ObjectState::Active, pending: None, tags: BTreeMap::new(), body }
    }

    fn server_body() -> Body {
        let id = |text: &str| ObjectId(text.to_owned());
        Body::Server(Box::new(ServerBody {
            project: id("project"),
            flavor: FLAVOR_STANDARD,
            image: IMAGE_UBUNTU,
            port: id("port"),
            key_name: None,
            user_data: None,
            host: None,
            life: ServerLife::default(),
        }))
    }

    fn rule(port: u16) -> EffectiveRule {
        EffectiveRule {
            direction: Direction::Ingress,
            ethertype: Ethertype::Ipv4,
            protocol: Protocol::Tcp,
            ports: Some((port, port)),
            prefix: "0.0.0.0/0".parse().unwrap(),
        }
    }

    /// The machines of [`inventory`], as they are shown.
    fn machines() -> machines::Shown {
        let head = Head { name: "a".to_owned(), status: "provisioned".to_owned(), deleting: false };
        let group = ShownGroup { head: head.clone(), network: NETWORK, region: REGION, port: 22 };
        let server = ShownServer {
            head,
            network: NETWORK,
            region: REGION,
            authority: None,
            asked: Asked { groups: BTreeSet::from([GROUP]), image: IMAGE_UBUNTU.0, public: true },
            power: Power::Running.word().to_owned(),
            instance: None,
        };
        machines::Shown {
            groups: BTreeMap::from([(GROUP, group)]),
            authorities: BTreeMap::new(),
            servers: BTreeMap::from([(SERVER, server)]),
        }
    }

    /// A cloud with one network and all that belongs to it, a server among it.
    pub fn inventory() -> Inventory {
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
        let group = Body::SecurityGroup { project: id("project"), rules: BTreeSet::from([rule(22)]) };
        let options = PortOptions { security_groups: BTreeSet::from([id("group")]), ..PortOptions::default() };
        let port = Body::Port { network: id("network"), options, address: None };
        let address = Body::FloatingIp { port: id("port"), external_network: id("outside"), address: None };
        Inventory {
            identities: vec![object("project", IDENTITY, Body::Project)],
            users: vec![object("user", IDENTITY, Body::User)],
            credentials: vec![object("credential", IDENTITY, Body::Credential { user: id("user") })],
            key_pairs: vec![object("pair", IDENTITY, Body::KeyPair { user: id("user"), public_key: String::new() })],
            networks: vec![object("network", NETWORK, network)],
            subnets: vec![object("subnet", NETWORK, subnet)],
            routers: vec![object("router", NETWORK, router)],
            vlans: vec![UsedVlan { segment, network: id("network") }],
            security_groups: vec![object("group", GROUP, group)],
            ports: vec![object("port", SERVER, port)],
            floating_ips: vec![object("address", SERVER, address)],
            servers: vec![object("server", SERVER, server_body())],
            ..Inventory::default()
        }
    }

    fn check(change: impl FnOnce(&mut Inventory)) -> Result<(), String> {
        let mut inventory = inventory();
        change(&mut inventory);
        let shown = Shown {
            name: "a".to_owned(),
            region: REGION,
            servers: vec!["1.1.1.1".to_owned()],
            status: "provisioned".to_owned(),
            deleting: false,
        };
        cloud_is_as_shown(&inventory, &BTreeMap::from([(NETWORK, &shown)]), true)
            .and_then(|()| machines_are_as_shown(&inventory, &machines(), &wares::Shown::new()))
    }

    /// What of the inventory is to be spoilt.
    type Part = fn(&mut Inventory) -> &mut Vec<CloudObject>;

    const PARTS: [Part; 11] = [
        |inventory| &mut inventory.identities,
        |inventory| &mut inventory.users,
        |inventory| &mut inventory.credentials,
        |inventory| &mut inventory.key_pairs,
        |inventory| &mut inventory.networks,
        |inventory| &mut inventory.subnets,
        |inventory| &mut inventory.routers,
        |inventory| &mut inventory.security_groups,
        |inventory| &mut inventory.ports,
        |inventory| &mut inventory.floating_ips,
        |inventory| &mut inventory.servers,
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

    #[test]
    fn machines_that_are_otherwise_than_asked_for_are_noticed() {
        let regrouped = |inventory: &mut Inventory| {
            let Body::Port { options, .. } = &mut inventory.ports[0].body else { panic!("a port") };
            options.security_groups.clear();
        };
        assert!(check(regrouped).unwrap_err().contains("has the groups"));
        let rebuilt = |inventory: &mut Inventory| {
            let Body::Server(server) = &mut inventory.servers[0].body else { panic!("a server") };
            server.image = IMAGE_GPU;
        };
        assert!(check(rebuilt).unwrap_err().contains("runs on"));
        let opened = |inventory: &mut Inventory| {
            let Body::SecurityGroup { rules, .. } = &mut inventory.security_groups[0].body else { panic!("a group") };
            rules.insert(rule(23));
        };
        assert!(check(opened).unwrap_err().contains("lets in"));
    }
}
