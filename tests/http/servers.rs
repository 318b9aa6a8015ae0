//! Servers as clients use them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regent::identity::acl::{Endpoint, Operation};
use regent::model::edge::Holder;
use regent::model::ids::{FlavorId, ImageId, Key, Kind, NetworkId, OrganizationId, ServerId};
use regent::model::metadata::Placement;
use regent::model::organization::{Project, ProjectSpec};
use regent::model::rebuild::{Rebuild, RebuildState};
use regent::model::record::Document;
use regent::model::resize::{Resize, ResizeState};
use regent::model::server::{Server, ServerDetail, ServerPhase};
use regent::providers::types::{Architecture, Flavor, Image, ImageStatus, Virtualization};
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::cloud::{flavor, image};
use super::ssh_certificate_authorities::body as authority_body;
use super::{AUTHORITIES, NETWORKS, SECURITY_GROUPS, SERVERS, World, expect, expect_error, id_of, may, network_path};

/// A world with a network in it, and the body of a server on that network.
pub async fn furnished() -> (World, Value, Value) {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let body = body(&network);
    (world, network, body)
}

pub fn body(network: &Value) -> Value {
    let (flavor, image) = (flavor(1, "").id, image(1, "").id);
    json!({
        "metadata": {"name": "web-1"},
        "spec": {"networkId": id_of(network), "flavorId": flavor, "imageId": image},
    })
}

/// What an update that changes nothing says.
fn unchanged(body: &Value) -> Value {
    let mut body = body.clone();
    let spec = body["spec"].as_object_mut().expect("an object");
    spec.retain(|name, _| ["flavorId", "imageId", "networking", "userData"].contains(&name.as_str()));
    body
}

pub fn path(server: &Value) -> String {
    format!("{SERVERS}/{}", id_of(server))
}

pub fn key(resource: &Value, kind: Kind) -> Key {
    Key::new(kind, id_of(resource).parse().expect("an id"))
}

async fn group(world: &World, network: &Value) -> Value {
    let body = json!({"metadata": {"name": "group"}, "spec": {"networkId": id_of(network), "rules": []}});
    world.made(SECURITY_GROUPS, &body).await
}

/// Says what an actor would say of a server.
pub async fn seen(world: &World, server: &Value, detail: &ServerDetail) {
    let record = world.store.get(key(server, Kind::Server)).await.expect("reads").expect("there");
    let status = Write::Status {
        key: record.key,
        incarnation: record.metadata.incarnation,
        conditions: Box::new(record.conditions.clone()),
        detail: Document::of(detail),
        transitions: vec![],
    };
    world.store.commit(Batch::of(vec![status])).await.expect("commits");
}

async fn refused(world: &World, body: &Value, status: StatusCode) -> String {
    let code = match status {
        StatusCode::BAD_REQUEST => "invalid_request",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::CONFLICT => "conflict",
        _ => "unprocessable_content",
    };
    expect_error(world.send(Method::POST, SERVERS, body).await, status, code).await
}

#[tokio::test]
async fn a_server_reads_back_as_it_was_written_and_refers_to_what_it_uses() {
    let (world, network, mut body) = furnished().await;
    let groups = [group(&world, &network).await, group(&world, &network).await];
    let authority = world.made(AUTHORITIES, &authority_body(&world, "ca")).await;
    body["metadata"]["tags"] = json!([{"name": "a", "value": "b"}]);
    body["spec"]["networking"] = json!({
        "securityGroups": [id_of(&groups[1]), id_of(&groups[0])], "publicIP": true,
        "allowedSourceAddresses": ["10.200.0.1/16", "10.1.0.0/24"],
    });
    body["spec"]["userData"] = json!("I2Nsb3VkLWNvbmZpZwo=");
    body["spec"]["sshCertificateAuthorityId"] = json!(id_of(&authority));
    body["spec"]["infrastructureRef"] = json!("host-7");
    let server = world.made(SERVERS, &body).await;
    assert_eq!(server["spec"], unchanged(&body)["spec"], "exactly, in order");
    assert_eq!(server["metadata"]["tags"], body["metadata"]["tags"]);
    assert_eq!(server["metadata"]["provisioningStatus"], "pending");
    let status = json!({
        "regionId": world.start.region_id, "networkId": id_of(&network), "powerState": "Pending",
        "sshCertificateAuthorityId": id_of(&authority), "sshInjection": "ca", "infrastructureRef": "host-7",
    });
    assert_eq!(server["status"], status);
    assert_eq!(expect(world.get(&path(&server)).await, StatusCode::OK).await, server);
    let own = key(&server, Kind::Server);
    let mut used = vec![key(&network, Kind::Network), key(&authority, Kind::SshCertificateAuthority)];
    used.extend(groups.iter().map(|group| key(group, Kind::SecurityGroup)));
    used.sort();
    assert_eq!(world.store.referred_by(&Holder::Resource(own)).await.expect("reads"), used);
    for held in [format!("{SECURITY_GROUPS}/{}", id_of(&groups[0])), format!("{AUTHORITIES}/{}", id_of(&authority))] {
        let text = expect_error(world.delete(&held).await, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains("in use") && text.contains(id_of(&server)), "{text}");
    }
}

#[tokio::test]
async fn what_was_omitted_stays_omitted() {
    let (world, network, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    assert_eq!(server["spec"], unchanged(&body)["spec"]);
    let status = json!({
        "regionId": world.start.region_id, "networkId": id_of(&network), "powerState": "Pending",
        "sshInjection": "identityKeypair",
    });
    assert_eq!(server["status"], status);
    let mut empty = body;
    empty["metadata"]["name"] = json!("web-2");
    empty["spec"]["networking"] = json!({});
    empty["spec"]["userData"] = json!("");
    assert_eq!(world.made(SERVERS, &empty).await["spec"], unchanged(&empty)["spec"]);
}

#[tokio::test]
async fn a_name_is_one_servers_on_its_network_on_every_store() {
    for (store, world) in World::on_each_store().await {
        let (one, other) =
            (world.create(&world.network_body("one")).await, world.create(&world.network_body("two")).await);
        let server = world.made(SERVERS, &body(&one)).await;
        let network = NetworkId(key(&one, Kind::Network).id);
        assert_eq!(key(&server, Kind::Server), ServerId::named(network, "web-1").key(), "{store}");
        refused(&world, &body(&one), StatusCode::CONFLICT).await;
        let held = world.store.references(network.key()).await.expect("reads");
        assert_eq!(held.len(), 1, "{store}: the first one's reference is still there");
        world.made(SERVERS, &body(&other)).await;
    }
}

#[tokio::test]
async fn of_many_who_ask_for_one_name_at_once_one_gets_it_and_b11_updates_all_succeed() {
    let (world, _, body) = furnished().await;
    let creates = (0..8).map(|_| async { world.send(Method::POST, SERVERS, &body).await.status() });
    let answers = futures_util::future::join_all(creates).await;
    let count = |status: StatusCode| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!((count(StatusCode::CREATED), count(StatusCode::CONFLICT)), (1, 7), "{answers:?}");
    let server = expect(world.get(SERVERS).await, StatusCode::OK).await[0].clone();
    let updates = (0..8).map(|number| {
        let mut change = unchanged(&body);
        change["metadata"]["description"] = json!(number.to_string());
        let (world, path) = (&world, path(&server));
        async move { world.send(Method::PUT, &path, &change).await.status() }
    });
    let answers = futures_util::future::join_all(updates).await;
    assert!(answers.iter().all(|status| *status == StatusCode::ACCEPTED), "{answers:?}");
}

/// Somebody who may make servers, and reads nothing else than networks, learns nothing of what else there is.
#[tokio::test]
async fn what_a_server_names_is_hidden_from_those_who_may_not_read_it() {
    let (world, network, body) = furnished().await;
    let authority = world.made(AUTHORITIES, &authority_body(&world, "ca")).await;
    let group = group(&world, &network).await;
    let mut grants = may(Endpoint::Servers, &Operation::ALL);
    grants.extend(may(Endpoint::NetworksV2, &[Operation::Read]));
    let member = world.member("member", grants);
    for pair in [
        [
            json!({"sshCertificateAuthorityId": id_of(&authority)}),
            json!({"sshCertificateAuthorityId": world.ambient.uuid()}),
        ],
        [
            json!({"networking": {"securityGroups": [id_of(&group)]}}),
            json!({"networking": {"securityGroups": [world.ambient.uuid()]}}),
        ],
    ] {
        let mut texts = Vec::new();
        for named in pair {
            let mut body = body.clone();
            body["spec"].as_object_mut().expect("an object").extend(named.as_object().expect("an object").clone());
            let refused = world.send_as(&member, Method::POST, SERVERS, &body).await;
            texts.push(expect_error(refused, StatusCode::NOT_FOUND, "not_found").await);
        }
        assert_eq!(texts[0], texts[1]);
    }
}

#[tokio::test]
async fn malformed_requests_are_400() {
    let (world, _, body) = furnished().await;
    for (field, value) in [
        ("networkId", json!("x")),
        ("flavorId", json!("x")),
        ("imageId", json!(7)),
        ("sshCertificateAuthorityId", json!("x")),
        ("sshInjection", json!("magic")),
        ("infrastructureRef", json!("")),
        ("infrastructureRef", json!("a b")),
        ("userData", json!("not base64!")),
        ("networking", json!({"securityGroups": ["x"]})),
        ("networking", json!({"securityGroups": vec![world.ambient.uuid(); 33]})),
        ("networking", json!({"allowedSourceAddresses": ["10.0.0.1"]})),
        ("networking", json!({"allowedSourceAddresses": vec!["10.0.0.0/8"; 257]})),
    ] {
        let mut bad = body.clone();
        bad["spec"][field] = value;
        refused(&world, &bad, StatusCode::BAD_REQUEST).await;
    }
    assert_eq!(expect(world.get(SERVERS).await, StatusCode::OK).await, json!([]));
}

#[tokio::test]
async fn ways_in_and_user_data_that_cannot_work_are_422() {
    let (world, _, body) = furnished().await;
    let authority = world.made(AUTHORITIES, &authority_body(&world, "ca")).await;
    let (ca, gzip) = (json!(id_of(&authority)), json!(STANDARD.encode([0x1f, 0x8b, 8])));
    let long = json!(STANDARD.encode(format!("#!{}", " ".repeat(49_152))));
    for spec in [
        json!({"sshInjection": "ca"}),
        json!({"sshInjection": "none", "sshCertificateAuthorityId": ca}),
        json!({"sshInjection": "identityKeypair", "sshCertificateAuthorityId": ca}),
        json!({"infrastructureRef": "host-1"}),
        json!({"userData": STANDARD.encode("hello")}),
        json!({"userData": gzip, "sshCertificateAuthorityId": ca}),
        json!({"userData": long}),
    ] {
        let mut bad = body.clone();
        bad["spec"].as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
        refused(&world, &bad, StatusCode::UNPROCESSABLE_ENTITY).await;
    }
    let mut compressed = body;
    compressed["spec"]["userData"] = gzip;
    world.made(SERVERS, &compressed).await;
}

#[tokio::test]
async fn what_a_server_names_must_be_there_and_belong_to_it() {
    let (world, network, body) = furnished().await;
    let other = world.create(&world.network_body("other")).await;
    let elsewhere = group(&world, &other).await;
    let project = world.ambient.uuid();
    let placement = Placement { organization: Some(world.start.organization_id), ..Placement::default() };
    world.insert::<Project>(project, "second", placement, &ProjectSpec::default()).await;
    let mut foreign = authority_body(&world, "ca");
    foreign["spec"]["projectId"] = json!(project);
    let foreign = world.made(AUTHORITIES, &foreign).await;
    let twice = group(&world, &network).await;
    let unknown = world.ambient.uuid();
    for (field, value, status) in [
        ("networkId", json!(unknown), StatusCode::NOT_FOUND),
        ("imageId", json!(unknown), StatusCode::NOT_FOUND),
        ("flavorId", json!(unknown), StatusCode::UNPROCESSABLE_ENTITY),
        ("sshCertificateAuthorityId", json!(unknown), StatusCode::NOT_FOUND),
        ("sshCertificateAuthorityId", json!(id_of(&foreign)), StatusCode::UNPROCESSABLE_ENTITY),
        ("networking", json!({"securityGroups": [unknown]}), StatusCode::NOT_FOUND),
        ("networking", json!({"securityGroups": [id_of(&elsewhere)]}), StatusCode::UNPROCESSABLE_ENTITY),
        ("networking", json!({"securityGroups": [id_of(&twice), id_of(&twice)]}), StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let mut bad = body.clone();
        bad["spec"][field] = value;
        refused(&world, &bad, status).await;
    }
    assert_eq!(expect(world.get(SERVERS).await, StatusCode::OK).await, json!([]), "nothing was left behind");
    assert_eq!(world.delete(&network_path(&network)).await.status(), StatusCode::ACCEPTED, "nothing refers to it");
    let text = refused(&world, &body, StatusCode::BAD_REQUEST).await;
    assert!(text.contains("being deleted"), "{text}");
}

#[tokio::test]
async fn a_flavor_and_an_image_must_go_together() {
    let (world, _, body) = furnished().await;
    let other = OrganizationId(world.ambient.uuid());
    let images = [
        (Image { status: ImageStatus::Creating, ..image(10, "young") }, StatusCode::UNPROCESSABLE_ENTITY),
        (Image { organization: Some(other), ..image(11, "foreign") }, StatusCode::NOT_FOUND),
        (Image { size_gib: 21, ..image(12, "large") }, StatusCode::UNPROCESSABLE_ENTITY),
        (Image { architecture: Architecture::Aarch64, ..image(13, "arm") }, StatusCode::UNPROCESSABLE_ENTITY),
        (Image { virtualization: Virtualization::Baremetal, ..image(14, "metal") }, StatusCode::UNPROCESSABLE_ENTITY),
    ];
    let flavors =
        [Flavor { baremetal: true, ..flavor(10, "metal") }, Flavor { pinned_only: true, ..flavor(11, "pinned") }];
    for (image, _) in &images {
        world.cloud.offer(image.clone());
    }
    for flavor in &flavors {
        world.cloud.offer_flavor(flavor.clone());
    }
    for (image, status) in images {
        let mut bad = body.clone();
        bad["spec"]["imageId"] = json!(image.id);
        refused(&world, &bad, status).await;
    }
    for flavor in flavors {
        let mut bad = body.clone();
        bad["spec"]["flavorId"] = json!(flavor.id);
        refused(&world, &bad, StatusCode::UNPROCESSABLE_ENTITY).await;
    }
    let mut pinned = body;
    pinned["spec"]["flavorId"] = json!(flavor(11, "").id);
    pinned["spec"]["sshInjection"] = json!("none");
    pinned["spec"]["infrastructureRef"] = json!("host-1");
    assert_eq!(world.made(SERVERS, &pinned).await["status"]["infrastructureRef"], "host-1");
}

#[tokio::test]
async fn a_burst_of_servers_asks_the_cloud_once_for_what_it_offers() {
    let (world, _, body) = furnished().await;
    for number in 0..5 {
        let mut body = body.clone();
        body["metadata"]["name"] = json!(format!("web-{number}"));
        world.made(SERVERS, &body).await;
    }
    assert_eq!(world.cloud.calls(), 2, "flavors once, images once");
}

#[tokio::test]
async fn b10_an_update_replaces_what_may_change_and_keeps_the_rest() {
    let (world, network, mut body) = furnished().await;
    let (old, new) = (group(&world, &network).await, group(&world, &network).await);
    body["metadata"]["description"] = json!("old");
    body["spec"]["networking"] = json!({"securityGroups": [id_of(&old)]});
    body["spec"]["userData"] = json!(STANDARD.encode("#!/bin/sh"));
    body["spec"]["sshInjection"] = json!("none");
    let server = world.made(SERVERS, &body).await;
    let mut change = unchanged(&body);
    change["metadata"] = json!({"name": "web-1", "tags": [{"name": "a", "value": "b"}]});
    change["spec"]["imageId"] = json!(image(2, "").id);
    change["spec"]["networking"] = json!({"securityGroups": [id_of(&new)], "publicIP": false});
    change["spec"].as_object_mut().expect("an object").remove("userData");
    let grants =
        [Endpoint::Servers, Endpoint::SecurityGroupsV2].into_iter().flat_map(|endpoint| may(endpoint, &Operation::ALL));
    let member = world.member("updater", grants.collect());
    let updated = world.send_as(&member, Method::PUT, &path(&server), &change).await;
    let updated = expect(updated, StatusCode::ACCEPTED).await;
    assert_eq!(updated["spec"], change["spec"], "user data that was left out is gone");
    assert_eq!(updated["metadata"].get("description"), None);
    assert_eq!(
        (&updated["metadata"]["createdBy"], &updated["metadata"]["modifiedBy"]),
        (&json!("bootstrap"), &json!("updater"))
    );
    assert_eq!(updated["status"], server["status"]);
    assert_eq!(expect(world.get(&path(&server)).await, StatusCode::OK).await, updated);
    let used = world.store.referred_by(&Holder::Resource(key(&server, Kind::Server))).await.expect("reads");
    assert!(used.contains(&key(&new, Kind::SecurityGroup)), "{used:?}");
    assert!(used.contains(&key(&old, Kind::SecurityGroup)), "the old one is still in use in the cloud: {used:?}");
}

#[tokio::test]
async fn b21_what_an_update_may_not_change_is_422_and_what_it_does_not_change_is_not_checked() {
    let (world, network, mut body) = furnished().await;
    let authority = world.made(AUTHORITIES, &authority_body(&world, "ca")).await;
    body["spec"]["sshCertificateAuthorityId"] = json!(id_of(&authority));
    let server = world.made(SERVERS, &body).await;
    let other = world.create(&world.network_body("other")).await;
    let elsewhere = group(&world, &other).await;
    let put = async |change: &Value, status: StatusCode, word: &str| {
        expect_error(world.send(Method::PUT, &path(&server), change).await, status, word).await
    };
    for (pointer, value) in [
        ("/metadata/name", json!("web-2")),
        ("/spec/flavorId", json!(flavor(2, "").id)),
        ("/spec/userData", json!(STANDARD.encode("hello"))),
        ("/spec/userData", json!(STANDARD.encode([0x1f, 0x8b]))),
        ("/spec/networking", json!({"securityGroups": [id_of(&elsewhere)]})),
    ] {
        let mut change = unchanged(&body);
        change["spec"]["userData"] = json!("");
        change["spec"]["networking"] = json!({});
        *change.pointer_mut(pointer).expect("a place") = value;
        put(&change, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    }
    let mut unknown = unchanged(&body);
    unknown["spec"]["imageId"] = json!(ImageId(world.ambient.uuid()));
    put(&unknown, StatusCode::NOT_FOUND, "not_found").await;
    assert_eq!(expect(world.get(&path(&server)).await, StatusCode::OK).await, server, "nothing changed");
    // The catalogue no longer has anything: the server can still be tagged, and its groups changed.
    world.cloud.flavors.lock().expect("not poisoned").clear();
    world.cloud.images.lock().expect("not poisoned").clear();
    let mut change = unchanged(&body);
    change["metadata"]["tags"] = json!([{"name": "a", "value": "b"}]);
    change["spec"]["networking"] = json!({"securityGroups": [id_of(&group(&world, &network).await)]});
    expect(world.send(Method::PUT, &path(&server), &change).await, StatusCode::ACCEPTED).await;
}

#[tokio::test]
async fn a_server_that_goes_takes_no_update_and_no_second_life() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    for _ in 0..2 {
        assert_eq!(world.delete(&path(&server)).await.status(), StatusCode::ACCEPTED);
    }
    let read = expect(world.get(&path(&server)).await, StatusCode::OK).await;
    assert_eq!(read["metadata"]["provisioningStatus"], "deprovisioning");
    let late = world.send(Method::PUT, &path(&server), &unchanged(&body)).await;
    expect_error(late, StatusCode::BAD_REQUEST, "invalid_request").await;
    refused(&world, &body, StatusCode::CONFLICT).await;
}

#[tokio::test]
async fn a_status_shows_what_was_seen() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let detail = ServerDetail {
        phase: ServerPhase::Unknown,
        phase_seen: ServerPhase::Running,
        private_ip: Some("10.0.2.5".parse().expect("an address")),
        public_ip: Some("192.0.2.7".parse().expect("an address")),
        mac_address: Some("fa:16:3e:00:00:01".to_owned()),
        ..ServerDetail::default()
    };
    seen(&world, &server, &detail).await;
    let status = expect(world.get(&path(&server)).await, StatusCode::OK).await["status"].clone();
    assert_eq!(status["powerState"], "Running");
    assert_eq!((&status["privateIP"], &status["publicIP"]), (&json!("10.0.2.5"), &json!("192.0.2.7")));
    assert_eq!(status["macAddress"], "fa:16:3e:00:00:01");
}

#[tokio::test]
async fn a_server_that_is_rebuilt_or_resized_is_being_provisioned() {
    use regent::model::condition::{Condition, Conditions, Reason, Truth};
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let record = world.store.get(key(&server, Kind::Server)).await.expect("reads").expect("there");
    for (state, resized, reason, word) in [
        (None, None, Reason::Provisioned, "provisioned"),
        (Some(RebuildState::Rebuilding), None, Reason::Provisioned, "provisioning"),
        (Some(RebuildState::Failed), None, Reason::Errored, "error"),
        (None, Some(ResizeState::Initiated), Reason::Provisioned, "provisioning"),
        (None, Some(ResizeState::Resizing), Reason::Provisioned, "provisioning"),
        (None, Some(ResizeState::Failed), Reason::ServerResizeFailed, "error"),
    ] {
        let available = Condition {
            status: Truth::True,
            reason,
            message: String::new(),
            last_transition: world.ambient.now(),
            observed_generation: record.metadata.generation,
        };
        let rebuild = state.map(|state| Rebuild { target: image(2, "").id, state });
        let resize = resized.map(|state| Resize { target: FlavorId(world.ambient.uuid()), state });
        let status = Write::Status {
            key: record.key,
            incarnation: record.metadata.incarnation,
            conditions: Box::new(Conditions { available: Some(available), ..Conditions::default() }),
            detail: Document::of(&ServerDetail { rebuild, resize, ..ServerDetail::default() }),
            transitions: vec![],
        };
        world.store.commit(Batch::of(vec![status])).await.expect("commits");
        let read = expect(world.get(&path(&server)).await, StatusCode::OK).await;
        assert_eq!(read["metadata"]["provisioningStatus"], word, "{state:?} {resized:?}");
    }
}

#[tokio::test]
async fn a_foreign_server_and_an_unknown_one_answer_alike() {
    let (world, network, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let stranger = world.stranger().await;
    let tries = [
        (Method::GET, ""),
        (Method::PUT, ""),
        (Method::DELETE, ""),
        (Method::POST, "/start"),
        (Method::POST, "/stop"),
        (Method::POST, "/softreboot"),
        (Method::POST, "/hardreboot"),
        (Method::GET, "/consolesessions"),
        (Method::GET, "/consoleoutput"),
        (Method::GET, "/sshkey"),
    ];
    world.assert_hidden_from(&stranger, SERVERS, id_of(&server), &tries, &unchanged(&body)).await;
    // What a body names is hidden the same way.
    let mut texts = Vec::new();
    for id in [id_of(&network), &world.ambient.uuid().to_string()] {
        let mut body = body.clone();
        body["spec"]["networkId"] = json!(id);
        let response = world.send_as(&stranger, Method::POST, SERVERS, &body).await;
        texts.push(expect_error(response, StatusCode::NOT_FOUND, "not_found").await);
    }
    assert_eq!(texts[0], texts[1]);
}

#[tokio::test]
async fn a_reader_may_not_change_what_it_reads() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let grants =
        [Endpoint::Servers, Endpoint::NetworksV2].into_iter().flat_map(|endpoint| may(endpoint, &[Operation::Read]));
    let reader = world.member("reader", grants.collect());
    let own = path(&server);
    for (method, path, operation) in [
        (Method::POST, SERVERS.to_owned(), "create on region:servers"),
        (Method::PUT, own.clone(), "update on region:servers"),
        (Method::DELETE, own, "delete on region:servers"),
    ] {
        let sent = if method == Method::POST { body.clone() } else { unchanged(&body) };
        let text =
            expect_error(world.send_as(&reader, method, &path, &sent).await, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains(operation), "{text}");
    }
}

#[tokio::test]
async fn a_network_with_servers_is_in_use_and_names_them() {
    let (world, network, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let refused = world.delete(&format!("{NETWORKS}/{}", id_of(&network))).await;
    let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use") && text.contains(id_of(&server)), "{text}");
    let record = world.store.get(key(&server, Kind::Server)).await.expect("reads").expect("there");
    assert!(record.open::<Server>().is_ok_and(|server| server.identity().is_ok()));
}
