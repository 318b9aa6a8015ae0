//! An instance's life: made with its server, followed, switched, rebuilt, lost and found, and gone with its project.

use axum::http::StatusCode;
use regent::model::ids::{InstanceId, Kind, NetworkId, ServerId};
use regent::model::instance::{Check, Instance};
use regent::model::quota::{Amount, QuotaKind};
use regent::providers::simulated::catalogue::{FLAVOR_GPU, FLAVOR_LARGE, FLAVOR_STANDARD, IMAGE_GPU, IMAGE_UBUNTU};
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::store::memory::Mode;
use regent::store::{Filter, Page, Write};
use serde_json::{Value, json};
use uuid::Uuid;

use super::machines::{Estate, create_group, estate, inventory};
use super::servers::cut_everywhere;
use super::{create, eventually, get, provisioned, world};
use crate::support::world::{Life, World};

pub fn instance_body(world: &World, network: Uuid, name: &str, networking: &Value) -> Value {
    let tenant = world.tenants[0];
    json!({
        "metadata": {"name": name},
        "spec": {
            "organizationId": tenant.organization, "projectId": tenant.project, "networkId": network,
            "flavorId": FLAVOR_STANDARD, "imageId": IMAGE_UBUNTU, "networking": networking,
        },
    })
}

pub async fn create_instance(world: &World, life: &Life, network: Uuid, name: &str) -> InstanceId {
    let body = instance_body(world, network, name, &json!({"publicIP": true}));
    let (status, answer) = life.request("POST", "/api/v2/instances", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    InstanceId(answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID"))
}

pub fn path(instance: InstanceId) -> String {
    format!("/api/v2/instances/{instance}")
}

pub async fn get_instance(life: &Life, instance: InstanceId) -> (StatusCode, Value) {
    life.request("GET", &path(instance), None).await
}

pub async fn status(life: &Life, instance: InstanceId) -> String {
    get_instance(life, instance).await.1["metadata"]["provisioningStatus"].as_str().unwrap_or("gone").to_owned()
}

async fn power(life: &Life, instance: InstanceId) -> String {
    get_instance(life, instance).await.1["status"]["powerState"].as_str().unwrap_or("none").to_owned()
}

pub async fn running(life: &Life, instance: InstanceId) {
    eventually("running and provisioned", async || {
        power(life, instance).await == "Running" && status(life, instance).await == "provisioned"
    })
    .await;
}

async fn verb(life: &Life, instance: InstanceId, verb: &str) -> StatusCode {
    life.request("POST", &format!("{}/{verb}", path(instance)), None).await.0
}

pub async fn gone(life: &Life, instance: InstanceId) {
    eventually("gone", async || get_instance(life, instance).await.0 == StatusCode::NOT_FOUND).await;
}

/// Asks for the same with something else in the specification.
async fn change(life: &Life, instance: InstanceId, field: &str, value: Value) -> (StatusCode, Value) {
    let (_, now) = get_instance(life, instance).await;
    let mut spec = now["spec"].clone();
    spec[field] = value;
    let body = json!({"metadata": {"name": now["metadata"]["name"]}, "spec": spec});
    life.request("PUT", &path(instance), Some(body)).await
}

async fn used(world: &World, life: &Life, kind: QuotaKind) -> u64 {
    let usage = life.store.usage(world.tenants[0].organization).await.expect("reads");
    usage.iter().find(|usage| usage.kind == kind).map_or(0, |usage| usage.used.total())
}

async fn network(world: &World, life: &Life) -> Uuid {
    let network = create(world, life, "estate", world.regions()[0]).await;
    provisioned(life, network).await;
    network
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_made_with_its_server_protects_what_it_uses_and_is_unmade() {
    let (world, life) = world().await;
    let (region, network) = (world.regions()[0], network(&world, &life).await);
    let instance = create_instance(&world, &life, network, "web").await;
    assert_eq!(used(&world, &life, QuotaKind::Servers).await, 1);
    assert_eq!(used(&world, &life, QuotaKind::PublicIps).await, 1);
    running(&life, instance).await;
    let (_, shown) = get_instance(&life, instance).await;
    for address in ["privateIP", "publicIP", "macAddress"] {
        assert!(shown["status"][address].is_string(), "{address} in {shown}");
    }
    assert_eq!(shown["metadata"]["healthStatus"], "healthy");
    let server = ServerId::named(NetworkId(network), "web");
    assert_eq!(shown["status"]["serverId"], json!(server));
    let (_, tagged) = life.request("GET", &format!("/api/v2/servers/{server}"), None).await;
    let tag = json!({"name": "compute.unikorn-cloud.org/instance-id", "value": instance});
    assert_eq!(tagged["metadata"]["tags"], json!([tag]));

    let body = instance_body(&world, network, "web", &json!({}));
    let (status, answer) = life.request("POST", "/api/v2/instances", Some(body)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    for path in [format!("/api/v2/networks/{network}"), format!("/api/v2/servers/{server}")] {
        let (status, answer) = life.request("DELETE", &path, None).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {answer}");
        let text = answer["error_description"].as_str().expect("text");
        assert!(text.contains("in use") && text.contains(&instance.to_string()), "{text}");
    }
    assert_eq!(life.request("DELETE", &path(instance), None).await.0, StatusCode::ACCEPTED);
    assert_eq!(used(&world, &life, QuotaKind::Servers).await, 1, "as long as the server is there");
    gone(&life, instance).await;
    assert_eq!(used(&world, &life, QuotaKind::Servers).await, 0);
    assert!(life.store.get(server.key()).await.expect("reads").is_none());
    assert!(life.supervision.environment().graph.node(server.key()).is_none(), "nobody keeps its place");
    let (status, answer) = life.request("DELETE", &format!("/api/v2/networks/{network}"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    eventually("nothing is left", async || inventory(&life, region).await.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn verbs_are_the_servers_and_its_phase_is_the_instances() {
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let instance = create_instance(&world, &life, network, "web").await;
    assert_eq!(verb(&life, instance, "stop").await, StatusCode::BAD_REQUEST, "it has not been made");
    running(&life, instance).await;
    assert_eq!(verb(&life, instance, "stop").await, StatusCode::ACCEPTED);
    eventually("stopped", async || power(&life, instance).await == "Stopped").await;
    assert_eq!(status(&life, instance).await, "provisioned");
    assert_eq!(verb(&life, instance, "reboot").await, StatusCode::BAD_REQUEST, "what is stopped is not asked nicely");
    assert_eq!(verb(&life, instance, "start").await, StatusCode::ACCEPTED);
    running(&life, instance).await;
    assert_eq!(verb(&life, instance, "reboot?hard=true").await, StatusCode::ACCEPTED);
    running(&life, instance).await;
    for (verb, field) in [("consolesession", "url"), ("consoleoutput?length=3", "contents"), ("sshkey", "privateKey")] {
        let (status, answer) = life.request("GET", &format!("{}/{verb}", path(instance)), None).await;
        assert_eq!(status, StatusCode::OK, "{verb}: {answer}");
        assert!(answer[field].is_string(), "{verb}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn b20_another_image_is_a_rebuild_in_place_that_is_seen() {
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let instance = create_instance(&world, &life, network, "web").await;
    running(&life, instance).await;
    let (_, before) = get_instance(&life, instance).await;
    let (code, answer) = change(&life, instance, "imageId", json!(IMAGE_GPU)).await;
    assert_eq!(code, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(status(&life, instance).await, "provisioning");
    running(&life, instance).await;
    let (_, after) = get_instance(&life, instance).await;
    assert_eq!(after["spec"]["imageId"], json!(IMAGE_GPU));
    for kept in ["privateIP", "publicIP", "macAddress", "serverId"] {
        assert_eq!(before["status"][kept], after["status"][kept], "{kept}");
    }
    let counters = life.clouds.handle(world.regions()[0]).expect("simulated").counters().await.expect("books");
    assert_eq!(counters.operations.get("rebuild-server"), Some(&1));
    let history = life.store.history(instance.key()).await.expect("reads");
    assert!(history.iter().any(|event| event.message.contains("rebuilt")), "{history:?}");

    let policy = json!({"imageChange": "forbid"});
    assert_eq!(change(&life, instance, "policy", policy.clone()).await.0, StatusCode::ACCEPTED);
    let (code, answer) = change(&life, instance, "imageId", json!(IMAGE_UBUNTU)).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    assert_eq!(get_instance(&life, instance).await.1["spec"]["policy"], policy);
}

#[tokio::test(start_paused = true)]
async fn groups_are_held_while_they_are_used_and_quota_follows_the_public_address() {
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let group = create_group(&life, network, "doors").await;
    let instance = create_instance(&world, &life, network, "web").await;
    running(&life, instance).await;
    let networking = json!({"securityGroups": [group], "publicIP": false});
    let (code, answer) = change(&life, instance, "networking", networking).await;
    assert_eq!(code, StatusCode::ACCEPTED, "{answer}");
    assert_eq!(used(&world, &life, QuotaKind::PublicIps).await, 1, "as long as it may be there");
    let delete_group = async || life.request("DELETE", &format!("/api/v2/securitygroups/{group}"), None).await.0;
    assert_eq!(delete_group().await, StatusCode::FORBIDDEN);
    running(&life, instance).await;
    assert!(get_instance(&life, instance).await.1["status"].get("publicIP").is_none());
    assert_eq!(used(&world, &life, QuotaKind::PublicIps).await, 0);
    assert_eq!(change(&life, instance, "networking", json!({})).await.0, StatusCode::ACCEPTED);
    running(&life, instance).await;
    eventually("the group is free", async || delete_group().await == StatusCode::ACCEPTED).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_somebody_takes_away_is_missed_and_made_again() {
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let instance = create_instance(&world, &life, network, "web").await;
    running(&life, instance).await;
    let server = ServerId::named(NetworkId(network), "web");
    let at = regent::model::ambient::Clock::now(&*world.clock);
    life.store
        .commit(regent::store::Batch::of(vec![Write::MarkDeleted { key: server.key(), at }]))
        .await
        .expect("marked");
    let remade = async || {
        let record = life.store.get(instance.key()).await.expect("reads").expect("stored");
        record.open::<Instance>().expect("opens").detail.remade
    };
    eventually("another one", async || remade().await == 1).await;
    running(&life, instance).await;
    let held = inventory(&life, world.regions()[0]).await;
    assert_eq!((held.servers.len(), held.ports.len(), held.floating_ips.len()), (1, 1, 1));
    let history = life.store.history(instance.key()).await.expect("reads");
    assert!(history.iter().any(|event| event.message == Check::WithoutServer.message()), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_somebody_changes_is_set_right_and_that_is_shown() {
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let instance = create_instance(&world, &life, network, "web").await;
    running(&life, instance).await;
    let key = ServerId::named(NetworkId(network), "web").key();
    let server = format!("/api/v2/servers/{}", key.id);
    let (_, now) = life.request("GET", &server, None).await;
    let body = json!({
        "metadata": {"name": "web"},
        "spec": {"flavorId": now["spec"]["flavorId"], "imageId": now["spec"]["imageId"], "networking": {}},
    });
    let (code, answer) = life.request("PUT", &server, Some(body)).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "over REST only its instance can: {answer}");
    let record = life.store.get(key).await.expect("reads").expect("stored");
    let mut spec = record.open::<regent::model::server::Server>().expect("opens").spec;
    spec.networking = None;
    let metadata = regent::model::metadata::Metadata {
        tags: None,
        generation: record.metadata.generation + 1,
        ..record.metadata.clone()
    };
    let change = Write::Intent {
        key,
        expected: record.revision,
        metadata: Box::new(metadata),
        spec: regent::model::record::Document::of(&spec),
    };
    life.store.commit(regent::store::Batch::of(vec![change])).await.expect("changed");
    eventually("set right", async || {
        let (_, now) = life.request("GET", &server, None).await;
        now["spec"]["networking"]["publicIP"] == json!(true) && now["metadata"]["tags"].is_array()
    })
    .await;
    running(&life, instance).await;
    let history = life.store.history(instance.key()).await.expect("reads");
    assert!(history.iter().any(|event| event.message == Check::ServerDiffers.message()), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_switched_behind_our_back_contradicts_the_last_verb() {
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let instance = create_instance(&world, &life, network, "web").await;
    running(&life, instance).await;
    assert_eq!(verb(&life, instance, "stop").await, StatusCode::ACCEPTED);
    eventually("stopped", async || power(&life, instance).await == "Stopped").await;
    let id = inventory(&life, world.regions()[0]).await.servers[0].id.clone();
    let handle = life.clouds.handle(world.regions()[0]).expect("simulated");
    let change = BackdoorChange::SetPower { server: id, power: regent::model::server::PowerState::Running };
    handle.change_directly(change).await.expect("changed");
    let health = async || get_instance(&life, instance).await.1["metadata"]["healthStatus"].clone();
    eventually("degraded", async || health().await == "degraded").await;
    let (_, shown) = get_instance(&life, instance).await;
    assert_eq!(shown["metadata"]["healthStatusDetail"]["message"], Check::PowerContradicts.message());
    assert_eq!(verb(&life, instance, "stop").await, StatusCode::ACCEPTED);
    eventually("well again", async || health().await == "healthy").await;
}

#[tokio::test(start_paused = true)]
async fn five_hundred_instances_converge_at_once_and_go_with_their_project() {
    let (world, life) = world().await;
    let tenant = world.tenants[0];
    let limit = |kind| Write::Limit { organization: tenant.organization, kind, limit: 1000 };
    let limits = vec![limit(QuotaKind::Servers), limit(QuotaKind::PublicIps)];
    life.store.commit(regent::store::Batch::of(limits)).await.expect("limits");
    let mut body = super::request(&world, "wide", world.regions()[0]);
    body["spec"]["prefix"] = json!("10.0.0.0/16");
    let (_, answer) = life.request("POST", "/api/v2/networks", Some(body)).await;
    let network: Uuid = answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID");
    let names = (0..500).map(|number| format!("web-{number}")).collect::<Vec<_>>();
    let made = names.iter().map(|name| create_instance(&world, &life, network, name));
    let made = futures_util::future::join_all(made).await;
    let filter = Filter { projects: Some(vec![tenant.project]), ..Filter::of(Kind::Instance) };
    let ready = async || {
        let records = life.store.list(&filter, Page::FIRST).await.expect("reads");
        records.iter().filter(|record| record.conditions.is_available()).count()
    };
    eventually("all are ready", async || ready().await == 500).await;
    assert_eq!(inventory(&life, world.regions()[0]).await.servers.len(), 500);
    assert_eq!(used(&world, &life, QuotaKind::Servers).await, 500);
    let project = format!("/api/v1/organizations/{}/projects/{}", tenant.organization, tenant.project);
    assert_eq!(life.request("DELETE", &project, None).await.0, StatusCode::ACCEPTED);
    eventually("the project is gone", async || life.store.get(tenant.project.key()).await.expect("reads").is_none())
        .await;
    assert_eq!(get_instance(&life, made[0]).await.0, StatusCode::NOT_FOUND);
    assert!(inventory(&life, world.regions()[0]).await.is_empty());
    let usage = life.store.usage(tenant.organization).await.expect("reads");
    assert!(usage.iter().all(|usage| usage.used == Amount::default()), "{usage:?}");
    assert!(life.store.allocations().await.expect("reads").is_empty());
    assert!(life.store.claims().await.expect("reads").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_taken_away_takes_its_instances_along() {
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let instance = create_instance(&world, &life, network, "web").await;
    running(&life, instance).await;
    let at = regent::model::ambient::Clock::now(&*world.clock);
    // As an operator's cascade would: REST refuses it.
    let mark = Write::MarkDeleted { key: NetworkId(network).key(), at };
    life.store.commit(regent::store::Batch::of(vec![mark])).await.expect("marked");
    gone(&life, instance).await;
    eventually("the network is gone", async || get(&life, network).await.0 == StatusCode::NOT_FOUND).await;
    eventually("nothing is left", async || inventory(&life, world.regions()[0]).await.is_empty()).await;
}

/// Nothing may be left over, wherever it was cut: no server without its instance, nothing charged twice.
async fn whole(world: &World, life: &Life, estate: &Estate) {
    let list = async |kind| life.store.list(&Filter::of(kind), Page::FIRST).await.expect("reads");
    let instances = list(Kind::Instance).await;
    for record in &instances {
        running(life, InstanceId(record.key.id)).await;
    }
    let servers = list(Kind::Server).await;
    let governed = servers.iter().filter_map(|record| {
        let server = record.open::<regent::model::server::Server>().expect("opens");
        server.spec.governed.map(|governed| (governed.instance.key(), record.key))
    });
    let governed = governed.collect::<Vec<_>>();
    assert_eq!(governed.len(), instances.len(), "each instance has one server, and each server its instance");
    for (instance, _) in &governed {
        assert!(
            instances.iter().any(|record| record.key == *instance),
            "a server works for {instance}, which is not there"
        );
    }
    let held = inventory(life, estate.region).await;
    assert_eq!(held.servers.len(), servers.len());
    let wants_address = |record: &std::sync::Arc<regent::model::record::Record>| {
        record.open::<Instance>().expect("opens").spec.machine.wants_public_ip()
    };
    assert_eq!(used(world, life, QuotaKind::Servers).await, instances.len() as u64);
    let addresses = instances.iter().filter(|record| wants_address(record)).count() as u64;
    assert_eq!(used(world, life, QuotaKind::PublicIps).await, addresses);
}

#[test]
fn a_creation_cut_anywhere_leaves_no_server_alone_and_charges_once() {
    let ask = async |world: &World, life: &Life, estate: &Estate| {
        let instance = create_instance(world, life, estate.network, "web").await;
        running(life, instance).await;
    };
    cut_everywhere(&[Mode::Atomic, Mode::Saga], ask, async |world, life, estate| whole(world, life, estate).await);
}

#[test]
fn updates_and_a_deletion_cut_anywhere_leave_everything_even() {
    let ask = async |world: &World, life: &Life, estate: &Estate| {
        let instance = create_instance(world, life, estate.network, "web").await;
        running(life, instance).await;
        let networking = json!({"securityGroups": [estate.group]});
        assert_eq!(change(life, instance, "networking", networking).await.0, StatusCode::ACCEPTED);
        running(life, instance).await;
        assert_eq!(change(life, instance, "imageId", json!(IMAGE_GPU)).await.0, StatusCode::ACCEPTED);
        running(life, instance).await;
        assert_eq!(life.request("DELETE", &path(instance), None).await.0, StatusCode::ACCEPTED);
        gone(life, instance).await;
    };
    cut_everywhere(&[Mode::Atomic, Mode::Saga], ask, async |world, life, estate| {
        let deleting = async || {
            let records = life.store.list(&Filter::of(Kind::Instance), Page::FIRST).await.expect("reads");
            records.iter().any(|record| record.metadata.is_deleting())
        };
        eventually("what was to go is gone", async || !deleting().await).await;
        whole(world, life, estate).await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_name_is_unique_on_its_network_whoever_comes_first() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let body = |name: &str| instance_body(&world, estate.network, name, &json!({}));
    let (status, answer) = life.request("POST", "/api/v2/instances", Some(body("house"))).await;
    assert_eq!(status, StatusCode::CONFLICT, "a server has the name: {answer}");
    let many = (0..20).map(|_| life.request("POST", "/api/v2/instances", Some(body("one"))));
    let answers = futures_util::future::join_all(many).await;
    assert_eq!(answers.iter().filter(|(status, _)| *status == StatusCode::CREATED).count(), 1);
    assert!(answers.iter().all(|(status, _)| [StatusCode::CREATED, StatusCode::CONFLICT].contains(status)));
    assert_eq!(used(&world, &life, QuotaKind::Servers).await, 1);
}

/// The only machine in the cloud.
async fn machine(life: &Life, world: &World) -> regent::providers::simulated::objects::CloudObject {
    let servers = inventory(life, world.regions()[0]).await.servers;
    assert_eq!(servers.len(), 1, "{servers:?}");
    servers.into_iter().next().expect("one")
}

#[tokio::test(start_paused = true)]
async fn b20_another_flavor_is_a_resize_where_the_disk_can_stay_and_the_quota_follows() {
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let instance = create_instance(&world, &life, network, "web").await;
    running(&life, instance).await;
    let before = machine(&life, &world).await;
    let (code, answer) = change(&life, instance, "flavorId", json!(FLAVOR_GPU)).await;
    assert_eq!(code, StatusCode::ACCEPTED, "{answer}");
    assert!(used(&world, &life, QuotaKind::Gpus).await > 0, "charged by the commit that accepts it");
    assert_eq!(status(&life, instance).await, "provisioning");
    running(&life, instance).await;
    let after = machine(&life, &world).await;
    assert_eq!((&before.id, after.server().expect("a server").flavor), (&after.id, FLAVOR_GPU));

    // Back to a smaller disk: only another machine can have it.
    let forbidden = json!({"flavorChange": "resize"});
    assert_eq!(change(&life, instance, "policy", forbidden).await.0, StatusCode::ACCEPTED);
    let (code, answer) = change(&life, instance, "flavorId", json!(FLAVOR_STANDARD)).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    assert_eq!(change(&life, instance, "policy", json!({"flavorChange": "auto"})).await.0, StatusCode::ACCEPTED);
    let (_, now) = get_instance(&life, instance).await;
    let mut spec = now["spec"].clone();
    spec["flavorId"] = json!(FLAVOR_STANDARD);
    let body = json!({"metadata": {"name": "web"}, "spec": spec});
    let (code, told) = life.request("PUT", &format!("{}?dryRun=true", path(instance)), Some(body.clone())).await;
    assert_eq!(code, StatusCode::OK, "{told}");
    assert!(told["losses"].to_string().contains("what is on its disk is lost"), "{told}");
    assert_eq!(life.request("PUT", &path(instance), Some(body)).await.0, StatusCode::ACCEPTED);
    running(&life, instance).await;
    let replaced = machine(&life, &world).await;
    assert_eq!(replaced.server().expect("a server").flavor, FLAVOR_STANDARD);
    assert_ne!(replaced.id, after.id, "another machine");
    let (_, shown) = get_instance(&life, instance).await;
    for kept in ["privateIP", "publicIP", "macAddress", "serverId"] {
        assert_eq!(now["status"][kept], shown["status"][kept], "{kept}");
    }
    assert_eq!(used(&world, &life, QuotaKind::Gpus).await, 0);
    let books = life.clouds.handle(world.regions()[0]).expect("simulated").creations().await.expect("books");
    assert!(books.creations.iter().all(|creation| creation.count.at_once_max <= 1), "never two at once");
}

#[tokio::test(start_paused = true)]
async fn a_flavor_is_judged_by_what_the_machine_is_on_and_not_by_what_was_last_asked_for() {
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let instance = create_instance(&world, &life, network, "web").await;
    running(&life, instance).await;
    assert_eq!(change(&life, instance, "flavorId", json!(FLAVOR_GPU)).await.0, StatusCode::ACCEPTED);
    running(&life, instance).await;
    // The second is accepted before the first is begun: the machine has the larger disk, whatever is asked for.
    for flavor in [FLAVOR_STANDARD, FLAVOR_LARGE] {
        let (code, answer) = change(&life, instance, "flavorId", json!(flavor)).await;
        assert_eq!(code, StatusCode::ACCEPTED, "{answer}");
    }
    running(&life, instance).await;
    assert_eq!(machine(&life, &world).await.server().expect("a server").flavor, FLAVOR_LARGE);
}

#[test]
fn a_machine_whose_replacement_is_cut_anywhere_is_replaced_once_and_never_doubled() {
    let ask = async |world: &World, life: &Life, estate: &Estate| {
        let mut body = instance_body(world, estate.network, "web", &json!({}));
        body["spec"]["flavorId"] = json!(FLAVOR_GPU);
        let (code, answer) = life.request("POST", "/api/v2/instances", Some(body)).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
        let instance = InstanceId(answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID"));
        running(life, instance).await;
        assert_eq!(change(life, instance, "flavorId", json!(FLAVOR_STANDARD)).await.0, StatusCode::ACCEPTED);
        running(life, instance).await;
    };
    cut_everywhere(&[Mode::Atomic], ask, async |world, life, estate| {
        whole(world, life, estate).await;
        let books = life.clouds.handle(estate.region).expect("simulated").creations().await.expect("books");
        assert!(books.creations.iter().all(|creation| creation.count.at_once_max <= 1), "never two at once");
        let records = life.store.list(&Filter::of(Kind::Instance), Page::FIRST).await.expect("reads");
        for record in records {
            let wanted = record.open::<Instance>().expect("opens").spec.machine.flavor;
            let servers = inventory(life, estate.region).await.servers;
            assert!(servers.iter().any(|server| server.server().expect("a server").flavor == wanted));
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_vanished_is_recovered_or_reported_as_the_policy_says() {
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let instance = create_instance(&world, &life, network, "web").await;
    running(&life, instance).await;
    let vanish = async || {
        let id = machine(&life, &world).await.id;
        let handle = life.clouds.handle(world.regions()[0]).expect("simulated");
        handle.change_directly(BackdoorChange::Delete { id: id.clone() }).await.expect("changed");
        id
    };
    let first = vanish().await;
    eventually("made again", async || {
        let servers = inventory(&life, world.regions()[0]).await.servers;
        servers.len() == 1 && servers[0].id != first
    })
    .await;
    running(&life, instance).await;
    assert_eq!(change(&life, instance, "policy", json!({"recovery": "report"})).await.0, StatusCode::ACCEPTED);
    running(&life, instance).await;
    vanish().await;
    eventually("reported", async || status(&life, instance).await == "error").await;
    let (_, shown) = get_instance(&life, instance).await;
    let told = shown["metadata"]["provisioningStatusDetail"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("vanished"), "{shown}");
    assert!(inventory(&life, world.regions()[0]).await.servers.is_empty(), "and left alone");
    assert_eq!(change(&life, instance, "policy", json!({"recovery": "recreate"})).await.0, StatusCode::ACCEPTED);
    running(&life, instance).await;
    machine(&life, &world).await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_cloud_cannot_be_looked_at_says_that_what_it_shows_may_be_old() {
    use regent::providers::simulated::engine::faults::{Effect, Fault};
    let (world, life) = world().await;
    let network = network(&world, &life).await;
    let instance = create_instance(&world, &life, network, "web").await;
    running(&life, instance).await;
    let handle = life.clouds.handle(world.regions()[0]).expect("simulated");
    handle
        .add_faults(vec![Fault::always(
            "list-servers",
            Effect::Error { error: regent::providers::simulated::call::CloudError::Unavailable },
        )])
        .await
        .expect("takes faults");
    let health = async || get_instance(&life, instance).await.1["metadata"]["healthStatus"].clone();
    eventually("unknown", async || health().await == "unknown").await;
    let (_, shown) = get_instance(&life, instance).await;
    assert_eq!(shown["metadata"]["healthStatusDetail"]["message"], Check::Unobserved.message());
    assert_eq!(
        (&shown["status"]["powerState"], &shown["metadata"]["provisioningStatus"]),
        (&json!("Running"), &json!("provisioned"))
    );
    handle.clear_faults().await.expect("clears");
    eventually("well again", async || health().await == "healthy").await;
}
