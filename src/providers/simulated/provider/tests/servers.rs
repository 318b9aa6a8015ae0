//! Servers: what is made, what is found again, what can be told to them, what a list of them costs.

use std::time::Duration;

use super::super::super::catalogue::{FLAVOR_METAL, FLAVOR_PINNED, IMAGE_GPU, host};
use super::super::super::engine::settings::EngineSettings;
use super::super::super::objects::{NewObject, ObjectState, PortOptions};
use super::super::super::testing::unseal;
use super::machines::{Machines, SERVER, pass};
use super::*;
use crate::model::metadata::Tag;
use crate::model::server::{CloudServerStatus, PowerState, ServerDetail, ServerPhase, SshInjection};
use crate::providers::call::Fact;
use crate::providers::image_schema::ImageEntry;
use crate::providers::{Listed, PowerAction, ProviderError, ServerFact};

#[tokio::test(start_paused = true)]
async fn a_server_is_made_on_a_port_with_its_addresses_and_boots() {
    let machines = Machines::new().await;
    let fact = machines.make().await;
    machines.assert_exactly_what_was_asked_for("made").await;
    let sighting = fact.server.clone().expect("a server");
    assert_eq!(
        (sighting.status, sighting.power, sighting.launched),
        (CloudServerStatus::Build, PowerState::None, None)
    );
    assert_eq!(sighting.phase(ServerPhase::Pending), ServerPhase::Building);
    assert_eq!(fact.private_ip, Some("192.168.0.128".parse().expect("the first of the pool")));
    assert_eq!(fact.floating_ip.as_ref().map(|(_, address)| address.to_string()), Some("198.18.0.1".to_owned()));
    assert_eq!(fact.converged, Some(7));
    let mac = fact.mac_address.clone().expect("a MAC address");
    assert!(mac.len() == 17 && mac.starts_with("02:"), "{mac}");

    pass(Duration::from_secs(2)).await;
    let booted = machines.make().await;
    let running = booted.server.clone().expect("a server");
    assert_eq!((running.status, running.power, running.task), (CloudServerStatus::Active, PowerState::Running, None));
    assert!(running.launched > Some(running.created));
    assert_eq!(booted.configuration, fact.configuration, "booting changes no address");
    assert_ne!(booted.fingerprint, fact.fingerprint);

    let object = machines.server().await;
    assert_eq!(object.name, "web");
    assert_eq!(object.tags["compute:instance_id"], "i");
    assert_eq!(object.tags["region:server_id"], Uuid::from_u128(SERVER).to_string());
    let text = serde_json::to_string(&machines.rig.inventory().await).expect("json");
    assert!(!text.contains("hunter2"), "user data is kept as a digest");
    assert_eq!(object.server().expect("a server").user_data.as_ref().expect("some").length, 32);
}

#[tokio::test(start_paused = true)]
async fn b36_a_second_convergence_of_a_server_changes_nothing_and_notes_nothing() {
    let machines = Machines::running().await;
    let (mutations, notes) = (machines.rig.mutations().await, machines.rig.written.lock().expect("lock").notes);
    let before = machines.rig.inventory().await;
    machines.make().await;
    assert_eq!(machines.rig.mutations().await, mutations);
    assert_eq!(machines.rig.written.lock().expect("lock").notes, notes);
    assert_eq!(machines.rig.inventory().await, before);
}

#[tokio::test(start_paused = true)]
async fn the_port_is_on_record_before_a_server_is_made_on_it() {
    let machines = Machines::new().await;
    machines.converge_group().await.expect("alive").expect("converged");
    machines.rig.written.lock().expect("lock").is_broken = true;
    for _ in 0..2 {
        let error = machines.converge_server().await.expect("alive").expect_err("no record");
        assert!(matches!(error, ProviderError::Ledger(_)), "{error}");
    }
    let inventory = machines.rig.inventory().await;
    assert_eq!((inventory.ports.len(), inventory.servers.len()), (1, 0));
    machines.rig.written.lock().expect("lock").is_broken = false;
    machines.make().await;
    machines.assert_exactly_what_was_asked_for("recorded").await;
}

#[tokio::test(start_paused = true)]
async fn networking_and_tags_are_changed_and_cleared_and_changed_back() {
    let mut machines = Machines::running().await;
    let (before, spec, tags) = (machines.make().await, machines.spec.clone(), machines.tags.clone());
    machines.spec.networking = None;
    machines.tags = vec![Tag { name: "free text".to_owned(), value: "x".to_owned() }];
    let bare = machines.make().await;
    assert_eq!((bare.floating_ip, bare.private_ip), (None, before.private_ip));
    assert_ne!(bare.configuration, before.configuration);
    let inventory = machines.rig.inventory().await;
    assert!(inventory.floating_ips.is_empty());
    assert_eq!(inventory.ports[0].uses().count(), 0);
    assert!(!inventory.servers[0].tags.contains_key("compute:instance_id"));
    (machines.spec, machines.tags) = (spec, tags);
    let after = machines.make().await;
    assert_eq!((after.private_ip, after.mac_address), (before.private_ip, before.mac_address));
    machines.assert_exactly_what_was_asked_for("changed back").await;
}

#[tokio::test(start_paused = true)]
async fn what_was_changed_behind_our_back_is_noticed_and_put_right_but_for_the_image() {
    let machines = Machines::running().await;
    let first = machines.make().await;
    let inventory = machines.rig.inventory().await;
    let (server, port) = (inventory.servers[0].id.clone(), inventory.ports[0].id.clone());
    let groups = std::collections::BTreeSet::new();
    machines.rig.behind_our_back(BackdoorChange::SetPortGroups { port: port.clone(), security_groups: groups }).await;
    assert_ne!(listed(&machines).await.fingerprint, first.fingerprint);
    assert_eq!(machines.make().await, first);
    machines.rig.behind_our_back(BackdoorChange::Delete { id: inventory.floating_ips[0].id.clone() }).await;
    machines.make().await;
    machines.assert_exactly_what_was_asked_for("floating address").await;
    machines.rig.behind_our_back(BackdoorChange::Delete { id: port }).await;
    machines.make().await;
    machines.assert_exactly_what_was_asked_for("the port").await;

    let set = BackdoorChange::SetPower { server: server.clone(), power: PowerState::Crashed };
    machines.rig.behind_our_back(set).await;
    let crashed = machines.make().await.server.expect("a server");
    assert_eq!(crashed.phase(ServerPhase::Running), ServerPhase::Crashed);
    let mutations = machines.rig.mutations().await;
    machines.rig.behind_our_back(BackdoorChange::SetImage { server: server.clone(), image: IMAGE_GPU }).await;
    assert_eq!(machines.make().await.server.expect("a server").image, Some(IMAGE_GPU));
    assert_eq!(machines.rig.mutations().await, mutations, "no disk is destroyed by a convergence");

    machines.rig.behind_our_back(BackdoorChange::Delete { id: server }).await;
    machines.make().await;
    machines.assert_exactly_what_was_asked_for("made again").await;
}

#[tokio::test(start_paused = true)]
async fn b2_names_are_not_looked_at_and_doubles_stop_convergence_but_not_deletion() {
    let machines = Machines::running().await;
    let server = machines.server().await;
    machines.rig.behind_our_back(BackdoorChange::Rename { id: server.id.clone(), name: "other".to_owned() }).await;
    let mutations = machines.rig.mutations().await;
    machines.make().await;
    assert_eq!(machines.rig.mutations().await, mutations);
    // A second server of the same marks, on a port of nobody's.
    let mut port = machines.rig.inventory().await.ports[0].clone();
    if let Body::Port { address, .. } = &mut port.body {
        *address = None;
    }
    let copy = |object: super::super::super::objects::CloudObject| NewObject {
        name: object.name,
        marks: object.marks,
        tags: object.tags,
        body: object.body,
    };
    machines.rig.behind_our_back(BackdoorChange::Insert { object: NewObject { marks: None, ..copy(port) } }).await;
    let ports = machines.rig.inventory().await.ports;
    let free = ports.iter().find(|port| port.marks.is_none()).expect("inserted").id.clone();
    let mut double = copy(server);
    if let Body::Server(body) = &mut double.body {
        body.port = free.clone();
    }
    machines.rig.behind_our_back(BackdoorChange::Insert { object: double }).await;
    let error = machines.converge_server().await.expect("alive").expect_err("two");
    assert!(matches!(error, ProviderError::Inconsistent(_)), "{error}");
    machines.unmake_server_persistently().await;
    machines.rig.behind_our_back(BackdoorChange::Delete { id: free }).await;
    machines.unmake_persistently().await;
    machines.assert_nothing_left("doubles go too").await;
}

#[tokio::test(start_paused = true)]
async fn b6_the_port_outlives_the_server_until_the_cloud_has_confirmed_its_end() {
    let machines = Machines::running().await;
    assert_eq!(machines.delete_server().await, Some(Ok(Deletion::Underway)));
    let inventory = machines.rig.inventory().await;
    assert_eq!((inventory.servers.len(), inventory.ports.len(), inventory.floating_ips.len()), (1, 1, 1));
    assert_eq!(inventory.servers[0].state, ObjectState::Deleting);
    let mutations = machines.rig.mutations().await;
    assert_eq!(machines.delete_server().await, Some(Ok(Deletion::Underway)));
    assert_eq!(machines.rig.mutations().await, mutations, "it is not asked for twice");
    let error = machines.converge_server().await.expect("alive").expect_err("it is leaving");
    assert!(matches!(error, ProviderError::Conflict(_)));
    // As a refusal shows: a network with a port, a principal with a server.
    assert!(machines.rig.delete_network().await.expect("alive").is_err());
    assert!(machines.rig.delete_identity().await.expect("alive").is_err());
    machines.rig.make().await;
    pass(Duration::from_millis(300)).await;
    assert_eq!(machines.delete_server().await, Some(Ok(Deletion::Absent)));
    assert_eq!(machines.delete_server().await, Some(Ok(Deletion::Absent)), "again is fine");
}

#[tokio::test(start_paused = true)]
async fn each_part_of_a_server_is_deleted_whether_or_not_the_others_are_there_or_on_record() {
    for missing in 0..3 {
        let machines = Machines::made().await;
        let inventory = machines.rig.inventory().await;
        let lists = [&inventory.servers, &inventory.ports, &inventory.floating_ips];
        machines.rig.behind_our_back(BackdoorChange::Delete { id: lists[missing][0].id.clone() }).await;
        machines.rig.written.lock().expect("lock").server = ServerDetail::default();
        machines.unmake_persistently().await;
        machines.assert_nothing_left("parts").await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_of_another_incarnation_left_is_neither_adopted_nor_deleted() {
    let mut machines = Machines::running().await;
    let remains = machines.rig.inventory().await.servers;
    machines.rig.written.lock().expect("lock").server = ServerDetail::default();
    let own = machines.rig.incarnation;
    machines.rig.incarnation = Incarnation(Uuid::from_u128(2));
    let fact = machines.converge_server().await.expect("alive").expect("converged");
    assert_ne!(fact.server.expect("a server").id.0, remains[0].id.0);
    machines.unmake_server_persistently().await;
    machines.rig.incarnation = own;
    assert_eq!(machines.rig.inventory().await.servers, remains);
}

#[tokio::test(start_paused = true)]
async fn physical_machines_are_few_and_those_who_come_later_wait_their_turn() {
    let mut machines = Machines::new().await;
    machines.spec.flavor = FLAVOR_METAL;
    machines.spec.networking = None;
    let converge = async |id: u128| {
        let request =
            crate::providers::ServerRequest { detail: ServerDetail::default(), ..machines.server_request(id) };
        machines.converge(&request).await.expect("alive").expect("converged").server.expect("a server")
    };
    let mut queued = Vec::new();
    for id in 41..=44 {
        queued.push(converge(id).await.queued);
        pass(Duration::from_millis(1)).await;
    }
    assert_eq!(queued, [false, false, true, true]);
    pass(Duration::from_mins(10)).await;
    assert_eq!(converge(43).await.phase(ServerPhase::Pending), ServerPhase::Queued, "however long it takes");
    let delete = async |id: u128| {
        let request =
            crate::providers::ServerRequest { detail: ServerDetail::default(), ..machines.server_request(id) };
        let work = async || {
            let deleted = machines.rig.run(async |provider, context| provider.delete_server(context, &request).await);
            deleted.await.expect("alive") == Ok(Deletion::Absent)
        };
        retry(work).await;
    };
    delete(41).await;
    assert!(!converge(43).await.queued, "the one that has waited longest");
    assert!(converge(44).await.queued);
    pass(Duration::from_secs(2)).await;
    assert_eq!(converge(43).await.status, CloudServerStatus::Active);
    // One that waits can go, too, and holds nobody up.
    delete(44).await;
    for id in [42, 43] {
        delete(id).await;
    }
    assert!(machines.rig.inventory().await.servers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pinned_server_goes_to_its_host_or_waits_outside() {
    let mut machines = Machines::new().await;
    machines.spec.flavor = FLAVOR_PINNED;
    machines.converge_group().await.expect("alive").expect("converged");
    let error = machines.converge_server().await.expect("alive").expect_err("no host");
    assert!(matches!(error, ProviderError::Rejected(_)), "{error}");
    machines.spec.infrastructure = Some("nowhere".to_owned());
    let error = machines.converge_server().await.expect("alive").expect_err("unknown host");
    assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    machines.spec.infrastructure = Some(host(2));
    machines.make().await;
    assert_eq!(machines.server().await.server().expect("a server").host, Some(host(2)));
    let other = crate::providers::ServerRequest { detail: ServerDetail::default(), ..machines.server_request(41) };
    let error = machines.converge(&other).await.expect("alive").expect_err("occupied");
    assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    machines.unmake_server_persistently().await;
    machines.converge(&other).await.expect("alive").expect("the host is free again");
    assert_eq!(machines.rig.inventory().await.servers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_clouds_own_quotas_are_told_and_room_is_used_when_there_is_some() {
    for (servers_max, ports_max) in [(Some(1), None), (None, Some(1))] {
        let machines = Machines::made().await;
        machines.configure(EngineSettings { servers_max, ports_max, ..EngineSettings::default() });
        let other = crate::providers::ServerRequest { detail: ServerDetail::default(), ..machines.server_request(41) };
        assert_eq!(machines.converge(&other).await, Some(Err(ProviderError::Quota)));
        machines.unmake_server_persistently().await;
        // What the refused order left behind of itself may be all there is room for.
        machines.converge(&other).await.expect("alive").expect("there is room");
    }
}

#[tokio::test(start_paused = true)]
async fn only_servers_that_ask_for_it_get_the_key_of_the_principal() {
    for injection in [SshInjection::Ca, SshInjection::None] {
        let mut machines = Machines::new().await;
        machines.spec.ssh_injection = Some(injection);
        machines.make().await;
        assert_eq!(machines.server().await.server().expect("a server").key_name, None);
    }
    let machines = Machines::new().await;
    let key = machines.rig.inventory().await.key_pairs[0].id.clone();
    machines.rig.behind_our_back(BackdoorChange::Delete { id: key }).await;
    machines.converge_group().await.expect("alive").expect("converged");
    assert_eq!(machines.converge_server().await, Some(Err(ProviderError::PrincipalMissing)));
    machines.rig.make().await;
    machines.make().await;
    machines.assert_exactly_what_was_asked_for("with its key").await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_the_one_on_record_is_replaced() {
    let rig = Rig::made().await;
    let first = rig.written.lock().expect("lock").identity.key_pair.clone().expect("a pair");
    assert!(unseal(&first.private_key).starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
    rig.written.lock().expect("lock").identity.key_pair = None;
    rig.make().await;
    let second = rig.written.lock().expect("lock").identity.key_pair.clone().expect("a pair");
    assert_ne!(first.public_key, second.public_key);
    rig.assert_exactly_what_was_asked_for("the other key").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_its_network_or_its_group_waits_for_it() {
    let machines = Machines::new().await;
    let error = machines.converge_server().await.expect("alive").expect_err("no group");
    assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    machines.converge_group().await.expect("alive").expect("converged");
    let network = machines.rig.inventory().await.networks[0].id.clone();
    machines.rig.behind_our_back(BackdoorChange::Delete { id: network }).await;
    let error = machines.converge_server().await.expect("alive").expect_err("no network");
    assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    machines.rig.make_persistently().await;
    machines.make().await;
}

#[tokio::test(start_paused = true)]
async fn b14_a_public_address_without_an_external_network_is_said_to_be_impossible() {
    let machines = Machines::new().await;
    machines.rig.behind_our_back(BackdoorChange::SetExternalNetworks { networks: vec![] }).await;
    machines.converge_group().await.expect("alive").expect("converged");
    let error = machines.converge_server().await.expect("alive").expect_err("no way out");
    assert_eq!(error, ProviderError::Rejected("the region has no external network".to_owned()));
    machines.unmake_persistently().await;
    machines.assert_nothing_left("refused").await;
}

async fn listed(machines: &Machines) -> Listed {
    let work = async |provider: &SimulatedProvider, context: &CallContext<'_>| {
        provider.list(context, Kind::Server, Some(&[Uuid::from_u128(SERVER)]), None).await
    };
    machines.rig.run(work).await.expect("alive").expect("listed").fact.items.remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_list_says_of_a_server_what_a_convergence_says() {
    let machines = Machines::running().await;
    let fact = machines.make().await;
    let line = listed(&machines).await;
    assert_eq!((line.key.id, line.incarnation), (Uuid::from_u128(SERVER), machines.rig.incarnation));
    let Fact::Server(seen) = &line.fact else { panic!("not a server") };
    assert_eq!(seen.fact, ServerFact { converged: None, ..fact.clone() });
    assert_eq!(line.fingerprint, fact.fingerprint);
    machines.act(PowerAction::Stop).await.expect("accepted");
    assert_ne!(listed(&machines).await.fingerprint, fact.fingerprint);
}

#[tokio::test(start_paused = true)]
async fn a_bulk_list_is_one_read_for_a_thousand_servers_with_their_ports() {
    let mut machines = Machines::new().await;
    machines.spec.networking = None;
    machines.make().await;
    let inventory = machines.rig.inventory().await;
    let (server, network) = (inventory.servers[0].clone(), inventory.networks[0].id.clone());
    let subnet = inventory.subnets[0].clone();
    // Room for a thousand: the pool of a /24 is too small.
    let mut wide = NewObject { name: subnet.name, marks: None, tags: subnet.tags, body: Body::Project };
    wide.body = Body::Network { project: inventory.identities[0].id.clone(), segment: None };
    machines.rig.behind_our_back(BackdoorChange::Insert { object: wide.clone() }).await;
    let networks = machines.rig.inventory().await.networks;
    let other = networks.iter().find(|object| object.id != network).expect("inserted").id.clone();
    if let Body::Subnet { options, .. } = subnet.body {
        let options = super::super::super::objects::SubnetOptions { pool: None, ..options };
        let cidr = "192.168.0.0/16".parse().expect("a prefix");
        wide.body = Body::Subnet { network: other.clone(), cidr, options };
    }
    machines.rig.behind_our_back(BackdoorChange::Insert { object: wide.clone() }).await;
    let call = async |call| {
        let face = face(&machines.rig.kept, &machines.rig.ambient, Cut::never());
        super::super::super::testing::object(CloudApi::call(&face, super::super::super::testing::request(call)).await)
    };
    for number in 0..1000 {
        let port = Body::Port { network: other.clone(), options: PortOptions::default(), address: None };
        let port = call(super::super::super::testing::new_object(100 + number, port)).await;
        let mut body = server.body.clone();
        if let Body::Server(body) = &mut body {
            body.port = port.id.clone();
        }
        call(super::super::super::testing::new_object(100 + number, body)).await;
    }
    let (mut lines, mut after) = (Vec::new(), None);
    loop {
        let from: Option<String> = after.clone();
        let work = async |provider: &SimulatedProvider, context: &CallContext<'_>| {
            provider.list(context, Kind::Server, None, from.as_deref()).await
        };
        let page = machines.rig.run(work).await.expect("alive").expect("listed").fact;
        lines.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let reads = machines.rig.handle().counters().await.expect("counters").operations["list-servers"];
    assert_eq!((lines.len(), reads), (1001, 2));
    let addresses: std::collections::BTreeSet<_> = lines
        .iter()
        .map(|line| match &line.fact {
            Fact::Server(seen) => seen.fact.mac_address.clone().expect("every line has its port"),
            other => panic!("not a server: {other:?}"),
        })
        .collect();
    assert_eq!(addresses.len(), 1001);
}

#[tokio::test(start_paused = true)]
async fn the_catalogue_has_something_of_everything() {
    let rig = Rig::new();
    let flavors =
        rig.run(async |provider, context| provider.flavors(context).await).await.expect("alive").expect("some");
    let images = rig.run(async |provider, context| provider.images(context).await).await.expect("alive").expect("some");
    let names: Vec<&str> = flavors.iter().map(|flavor| flavor.name.as_str()).collect();
    assert_eq!(names, ["sim-standard-4", "sim-gpu-8", "sim-metal-16", "sim-pinned-16", "sim-standard-8"]);
    assert!(flavors.iter().any(|flavor| flavor.baremetal) && flavors.iter().any(|flavor| flavor.pinned_only));
    assert_eq!(flavors[0].id.to_string(), "11111111-1111-4111-8111-111111111111");
    assert_eq!(images[0].id.to_string(), "33333333-3333-4333-8333-333333333333");
    assert_eq!(images[0].packages["kubernetes"], "v1.31.0");
    assert!(images.is_sorted_by_key(|image| image.created));
    let catalogue = rig.inventory().await.catalogue;
    assert_eq!(catalogue.flavors, flavors);
    assert_eq!(catalogue.images, images.iter().map(ImageEntry::of).collect::<Vec<_>>());
}
