//! Load balancers, volumes, file storages and images in a cloud that is at rest: exactly those that are shown, each as
//! it is shown.

use std::collections::{BTreeMap, BTreeSet};

use regent::providers::simulated::engine::books::Inventory;
use regent::providers::simulated::objects::{Body, CloudObject, ObjectState};
use uuid::Uuid;

use super::checks::{ensure, exactly, once};
use super::machines;
use super::wares::{Shown, ShownWare, Ware};

const GIB: u64 = 1 << 30;

pub fn wares_are_as_shown(inventory: &Inventory, shown: &Shown) -> Result<(), String> {
    let all = [
        (Ware::Balancer, once("balancer", &inventory.load_balancers)?),
        (Ware::Volume, once("volume", &inventory.volumes)?),
        (Ware::Storage, once("share", &inventory.shares)?),
        (Ware::Image, once("image", &inventory.images)?),
    ];
    let attached = attachments(inventory)?;
    let strays = attached.keys().find(|id| !shown.contains_key(id));
    ensure!(strays.is_none(), "an attachment of {strays:?} leaked");
    for (ware, objects) in all {
        let own = shown.iter().filter(|(_, shown)| shown.ware == ware);
        exactly(&format!("{ware:?}"), &objects, &own.clone().map(|(id, _)| *id).collect())?;
        for (id, shown) in own {
            let object = objects[id];
            ensure!(object.pending.is_none(), "{ware:?} {id} is not at rest: {object:?}");
            let is_right = match ware {
                // Checked with the servers.
                Ware::Instance => true,
                Ware::Balancer => balancer_is_as_shown(inventory, *id, object, shown)?,
                Ware::Volume => volume_is_as_shown(inventory, object, shown)?,
                Ware::Storage => {
                    let size = object.share().map(|share| share.options.size_bytes);
                    size == Some(shown.asked.size_gib * GIB)
                        && attached.get(id).cloned().unwrap_or_default() == shown.asked.networks
                }
                Ware::Image => object.image().is_some_and(|image| image.owner.is_some()),
            };
            ensure!(
                is_right,
                "{ware:?} {id} is {object:?}, attached to {:?}, not as {:?}",
                attached.get(id),
                shown.asked
            );
        }
    }
    Ok(())
}

/// For each instance there is one server, and it is what the instance is to be.
pub fn instances_are_as_shown(inventory: &Inventory, shown: &machines::Shown, wares: &Shown) -> Result<(), String> {
    let working = shown.servers.iter().filter_map(|(id, server)| Some((*id, server.instance?)));
    let working = working.collect::<BTreeMap<_, _>>();
    let instances = wares.iter().filter_map(|(id, ware)| Some((ware.server()?, *id))).collect::<BTreeMap<_, _>>();
    ensure!(working == instances, "instances have the servers {working:?}, not {instances:?}");
    let servers = once("server", &inventory.servers)?;
    for (server, id) in &instances {
        let (is, asked) = (&shown.servers[server].asked, &wares[id].asked);
        let is_alike = (&is.groups, Some(is.image), is.public) == (&asked.groups, asked.image, asked.public);
        ensure!(is_alike, "instance {id} is to be {asked:?}, and its server {is:?}");
        let flavor = servers.get(server).and_then(|object| object.server()).map(|server| server.flavor.0);
        ensure!(flavor == asked.flavor, "instance {id} is a {flavor:?}, not a {:?}", asked.flavor);
    }
    Ok(())
}

/// The networks that each file storage is attached to.
fn attachments(inventory: &Inventory) -> Result<BTreeMap<Uuid, BTreeSet<Uuid>>, String> {
    let mut attached = BTreeMap::<_, BTreeSet<_>>::new();
    for object in &inventory.share_attachments {
        let id = object.marks.ok_or_else(|| format!("attachment {} is nobody's", object.id))?.id;
        let network = object.share_attachment().ok_or("not an attachment")?.label.0;
        ensure!(object.state == ObjectState::Active, "the attachment of {id} to {network} is {:?}", object.state);
        ensure!(attached.entry(id).or_default().insert(network), "there are two of attachment of {id} to {network}");
    }
    Ok(attached)
}

fn balancer_is_as_shown(
    inventory: &Inventory,
    id: Uuid,
    object: &CloudObject,
    shown: &ShownWare,
) -> Result<bool, String> {
    let Body::LoadBalancer { port, topology } = &object.body else { return Ok(false) };
    let ports = once("port", &inventory.ports)?;
    let networks = once("network", &inventory.networks)?;
    let home = shown.network.and_then(|network| networks.get(&network)).map(|network| &network.id);
    let is_home = ports.get(&id).is_some_and(|own| own.id == *port && own.body.parent().map(|(_, id)| id) == home);
    let doors = topology
        .pools
        .iter()
        .flat_map(|(name, pool)| pool.members.iter().map(move |member| (name.to_string(), member.port)));
    Ok(is_home && topology.listeners.keys().eq(topology.pools.keys()) && doors.eq(shown.asked.doors.clone()))
}

fn volume_is_as_shown(inventory: &Inventory, object: &CloudObject, shown: &ShownWare) -> Result<bool, String> {
    let Some(volume) = object.volume() else { return Ok(false) };
    let servers = once("server", &inventory.servers)?;
    let claimant = shown.asked.server.and_then(|server| servers.get(&server)).map(|server| &server.id);
    let is_held = volume.attachment.as_ref().map(|attachment| &attachment.server) == claimant;
    let is_claimed = claimant.is_some() == shown.asked.server.is_some();
    Ok(is_held && is_claimed && volume.task.is_none() && u64::from(volume.size_gib) == shown.asked.size_gib)
}

#[cfg(test)]
mod tests {
    use regent::model::ids::{NetworkId, OrganizationId};
    use regent::model::load_balancer::LoadBalancerSpec;
    use regent::model::network::AddressRange;
    use regent::providers::simulated::catalogue::{FILES_STANDARD, VOLUME_CLASS_STANDARD};
    use regent::providers::simulated::objects::{
        ImageBody, ObjectId, PortOptions, VolumeAttachment, VolumeBody, VolumeTask,
    };
    use regent::providers::simulated::shares::{ShareAttachmentBody, ShareBody, ShareOptions};
    use serde_json::json;

    use super::super::checks::tests::{NETWORK, REGION, SERVER, inventory, object};
    use super::super::wares::Asked;
    use super::super::wire::Head;
    use super::*;

    const IDS: [(Ware, Uuid); 4] = [
        (Ware::Balancer, Uuid::from_u128(11)),
        (Ware::Volume, Uuid::from_u128(12)),
        (Ware::Storage, Uuid::from_u128(13)),
        (Ware::Image, Uuid::from_u128(14)),
    ];

    fn asked(ware: Ware) -> Asked {
        match ware {
            Ware::Balancer => Asked { doors: BTreeMap::from([("web".to_owned(), 8080)]), ..Asked::default() },
            Ware::Volume => Asked { size_gib: 2, server: Some(SERVER), ..Asked::default() },
            Ware::Storage => Asked { size_gib: 3, networks: BTreeSet::from([NETWORK]), ..Asked::default() },
            Ware::Image | Ware::Instance => Asked::default(),
        }
    }

    fn shown() -> Shown {
        let head = Head { name: "w".to_owned(), status: "provisioned".to_owned(), deleting: false };
        let one = |ware| {
            let network = matches!(ware, Ware::Balancer | Ware::Volume).then_some(NETWORK);
            ShownWare { ware, head: head.clone(), region: REGION, network, asked: asked(ware), power: String::new() }
        };
        IDS.map(|(ware, id)| (id, one(ware))).into()
    }

    /// A cloud with one of each.
    fn whole() -> Inventory {
        let id = |text: &str| ObjectId(text.to_owned());
        let [(_, balancer), (_, volume), (_, storage), (_, image)] = IDS;
        let mut all = inventory();
        let port = Body::Port { network: id("network"), options: PortOptions::default(), address: None };
        all.ports.push(object("door", balancer, port));
        let spec = json!({"listeners": asked(Ware::Balancer).spec(Ware::Balancer)["listeners"]});
        let topology = serde_json::from_value::<LoadBalancerSpec>(spec).expect("a balancer").topology();
        all.load_balancers = vec![object("balancer", balancer, Body::LoadBalancer { port: id("door"), topology })];
        let body = VolumeBody {
            project: id("project"),
            class: VOLUME_CLASS_STANDARD,
            size_gib: 2,
            attachment: Some(VolumeAttachment { server: id("server"), device: "/dev/vdb".to_owned() }),
            task: None,
        };
        all.volumes = vec![object("volume", volume, Body::Volume(Box::new(body)))];
        let options = ShareOptions { size_bytes: 3 * GIB, root_squash: true, policies: vec![] };
        let share = ShareBody { class: FILES_STANDARD, options, mount_path: None, created: None, usage: None };
        all.shares = vec![object("share", storage, Body::Share { share: Box::new(share) })];
        let address = "10.1.0.16".parse().expect("an address");
        let export = ShareAttachmentBody {
            share: id("share"),
            network: id("network"),
            label: NetworkId(NETWORK),
            addresses: AddressRange { start: address, end: address },
        };
        all.share_attachments = vec![object("export", storage, Body::ShareAttachment { export })];
        let body = ImageBody { owner: Some(OrganizationId(Uuid::nil())), ..ImageBody::default() };
        all.images = vec![object("image", image, Body::Image(body))];
        all
    }

    fn check(change: impl FnOnce(&mut Inventory)) -> Result<(), String> {
        let mut inventory = whole();
        change(&mut inventory);
        wares_are_as_shown(&inventory, &shown())
    }

    type Part = fn(&mut Inventory) -> &mut Vec<CloudObject>;

    const PARTS: [Part; 5] = [
        |inventory| &mut inventory.load_balancers,
        |inventory| &mut inventory.volumes,
        |inventory| &mut inventory.shares,
        |inventory| &mut inventory.share_attachments,
        |inventory| &mut inventory.images,
    ];

    #[test]
    fn a_ware_that_is_missing_leaked_doubled_or_nobodys_in_a_cloud_is_noticed() {
        check(|_| ()).expect("everything is as it is shown");
        for (number, part) in PARTS.into_iter().enumerate() {
            let spoilt = |spoil: fn(&mut Vec<CloudObject>)| check(|inventory| spoil(part(inventory)));
            spoilt(Vec::clear).expect_err(&format!("{number} is missing"));
            let twice = |all: &mut Vec<CloudObject>| all.push(all[0].clone());
            assert!(spoilt(twice).expect_err("it is doubled").contains("two of"), "{number}");
            let leaked = |all: &mut Vec<CloudObject>| all.push(object("x", Uuid::from_u128(9), all[0].body.clone()));
            spoilt(leaked).expect_err(&format!("{number} is leaked"));
            spoilt(|all| all[0].marks = None).expect_err(&format!("{number} is nobody's"));
            spoilt(|all| all[0].state = ObjectState::Building).expect_err(&format!("{number} is unfinished"));
        }
    }

    #[test]
    fn a_ware_that_is_otherwise_than_asked_for_is_noticed() {
        let volume = |change: fn(&mut VolumeBody)| {
            check(|inventory| {
                let Body::Volume(volume) = &mut inventory.volumes[0].body else { panic!("a volume") };
                change(volume);
            })
        };
        volume(|volume| volume.size_gib = 1).expect_err("it is smaller");
        volume(|volume| volume.attachment = None).expect_err("nobody has it");
        volume(|volume| volume.task = Some(VolumeTask::Detaching)).expect_err("it is going");
        let shrunk = |inventory: &mut Inventory| {
            let Body::Share { share } = &mut inventory.shares[0].body else { panic!("a share") };
            share.options.size_bytes = GIB;
        };
        check(shrunk).expect_err("it is smaller");
        let moved = |inventory: &mut Inventory| {
            let Body::LoadBalancer { port, .. } = &mut inventory.load_balancers[0].body else { panic!("a balancer") };
            *port = ObjectId("port".to_owned());
        };
        check(moved).expect_err("it is on the port of another");
        let emptied = |inventory: &mut Inventory| {
            let Body::LoadBalancer { topology, .. } = &mut inventory.load_balancers[0].body else {
                panic!("a balancer")
            };
            topology.pools.values_mut().for_each(|pool| pool.members.clear());
        };
        check(emptied).expect_err("it leads nowhere");
        let shared = |inventory: &mut Inventory| {
            let Body::Image(image) = &mut inventory.images[0].body else { panic!("an image") };
            image.owner = None;
        };
        check(shared).expect_err("everybody has it");
    }
}
