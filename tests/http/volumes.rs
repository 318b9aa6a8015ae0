//! Volumes and their classes as clients use them.

use regent::identity::acl::{Endpoint, Operation};
use regent::model::edge::Holder;
use regent::model::ids::{Kind, ProviderVolumeId, ServerId};
use regent::model::quota::QuotaKind;
use regent::model::record::Document;
use regent::model::volume::{Attachment, AttachmentState, VolumeDetail};
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::cloud::volume_class;
use super::servers::{body as server_body, key, path as server_path};
use super::{SERVERS, VOLUMES, World, expect, expect_error, id_of, may, network_path};

/// A world with a network and a server on it, and the body of a volume there.
async fn furnished(world: &World) -> (Value, Value, Value) {
    let network = world.create(&world.network_body("net")).await;
    let server = world.made(SERVERS, &server_body(&network)).await;
    let body = body(&network);
    (network, server, body)
}

fn body(network: &Value) -> Value {
    let class = volume_class(1, "").id;
    json!({
        "metadata": {"name": "data"},
        "spec": {"networkId": id_of(network), "volumeClassId": class, "sizeGiB": 10},
    })
}

fn change(size_gib: u32, server: Option<&Value>) -> Value {
    let mut body = json!({"metadata": {"name": "data"}, "spec": {"sizeGiB": size_gib}});
    if let Some(server) = server {
        body["spec"]["serverId"] = json!(id_of(server));
    }
    body
}

fn claimed(body: &Value, server: &str) -> Value {
    let mut body = body.clone();
    body["spec"]["serverId"] = json!(server);
    body
}

fn path(volume: &Value) -> String {
    format!("{VOLUMES}/{}", id_of(volume))
}

async fn used(world: &World) -> u64 {
    let usage = world.store.usage(world.start.organization_id).await.expect("reads");
    usage.iter().find(|usage| usage.kind == QuotaKind::Volume).map_or(0, |usage| usage.used.total())
}

async fn held(world: &World, volume: &Value) -> Vec<regent::model::ids::Key> {
    world.store.referred_by(&Holder::Resource(key(volume, Kind::Volume))).await.expect("reads")
}

/// Says what an actor would say of a volume.
async fn seen(world: &World, volume: &Value, detail: &VolumeDetail) {
    let record = world.store.get(key(volume, Kind::Volume)).await.expect("reads").expect("there");
    let status = Write::Status {
        key: record.key,
        incarnation: record.metadata.incarnation,
        conditions: Box::new(record.conditions.clone()),
        detail: Document::of(detail),
        transitions: vec![],
    };
    world.store.commit(Batch::of(vec![status])).await.expect("commits");
}

#[tokio::test]
async fn a_volume_reads_back_as_it_was_written_and_is_charged_on_every_store() {
    for (store, world) in World::on_each_store().await {
        let (network, server, body) = furnished(&world).await;
        let mut body = claimed(&body, id_of(&server));
        body["metadata"]["tags"] = json!([{"name": "a", "value": "b"}]);
        let volume = world.made(VOLUMES, &body).await;
        assert_eq!(volume["spec"], json!({"sizeGiB": 10, "serverId": id_of(&server)}), "{store}");
        assert_eq!(volume["metadata"]["tags"], body["metadata"]["tags"]);
        assert_eq!(volume["metadata"]["provisioningStatus"], "pending");
        let status = json!({
            "regionId": world.start.region_id, "networkId": id_of(&network),
            "volumeClassId": body["spec"]["volumeClassId"],
            "attachment": {"serverId": id_of(&server), "provisioningStatus": "provisioning"},
        });
        assert_eq!(volume["status"], status);
        assert_eq!(expect(world.get(&path(&volume)).await, StatusCode::OK).await, volume);
        assert_eq!(held(&world, &volume).await, [key(&network, Kind::Network), key(&server, Kind::Server)]);
        assert_eq!(used(&world).await, 10);
        let record = world.store.get(key(&volume, Kind::Volume)).await.expect("reads").expect("there");
        assert_eq!(record.metadata.owner, Some(key(&network, Kind::Network)));
        assert!(record.metadata.charged && record.metadata.placement.identity.is_some());
    }
}

#[tokio::test]
async fn what_was_omitted_stays_omitted_and_what_is_known_is_shown() {
    let world = World::start().await;
    let (network, server, body) = furnished(&world).await;
    let volume = world.made(VOLUMES, &body).await;
    assert_eq!(volume["spec"], json!({"sizeGiB": 10}));
    let bare = json!({
        "regionId": world.start.region_id, "networkId": id_of(&network),
        "volumeClassId": body["spec"]["volumeClassId"],
    });
    assert_eq!(volume["status"], bare);
    let attachment = Attachment {
        server: Some(ServerId(key(&server, Kind::Server).id)),
        device: Some("/dev/vdb".to_owned()),
        state: AttachmentState::Attached,
    };
    let detail = VolumeDetail {
        volume: Some(ProviderVolumeId("v".to_owned())),
        size_gib: Some(12),
        attachment: Some(attachment),
        ..VolumeDetail::default()
    };
    expect(world.send(Method::PUT, &path(&volume), &change(12, Some(&server))).await, StatusCode::ACCEPTED).await;
    seen(&world, &volume, &detail).await;
    let shown = expect(world.get(&path(&volume)).await, StatusCode::OK).await;
    let attachment = json!({"serverId": id_of(&server), "device": "/dev/vdb", "provisioningStatus": "provisioned"});
    assert_eq!(shown["status"]["sizeGiB"], 12);
    assert_eq!(shown["status"]["attachment"], attachment);
    let let_go = expect(world.send(Method::PUT, &path(&volume), &change(12, None)).await, StatusCode::ACCEPTED).await;
    assert_eq!(let_go["status"]["attachment"]["provisioningStatus"], "deprovisioning");
}

#[tokio::test]
async fn a_body_that_breaks_a_rule_is_refused_and_changes_nothing() {
    let world = World::start().await;
    let (_, _, good) = furnished(&world).await;
    let volume = world.made(VOLUMES, &good).await;
    let bad = [
        ("sizeGiB", json!(0)),
        ("sizeGiB", json!(65_537)),
        ("sizeGiB", json!(-1)),
        ("sizeGiB", json!(1.5)),
        ("sizeGiB", json!("10")),
        ("sizeGiB", Value::Null),
        ("serverId", json!("x")),
        ("serverId", json!(7)),
    ];
    for (field, value) in bad {
        let mut create = good.clone();
        create["spec"][field] = value.clone();
        let mut update = change(10, None);
        update["spec"][field] = value;
        for response in
            [world.send(Method::POST, VOLUMES, &create).await, world.send(Method::PUT, &path(&volume), &update).await]
        {
            expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
        }
    }
    for field in ["networkId", "volumeClassId"] {
        let mut create = good.clone();
        create["spec"][field] = json!("x");
        expect_error(world.send(Method::POST, VOLUMES, &create).await, StatusCode::BAD_REQUEST, "invalid_request")
            .await;
        create["spec"].as_object_mut().expect("an object").remove(field);
        expect_error(world.send(Method::POST, VOLUMES, &create).await, StatusCode::BAD_REQUEST, "invalid_request")
            .await;
    }
    let mut unknown = good;
    unknown["spec"]["volumeClassId"] = json!(world.ambient.uuid());
    let refused = world.send(Method::POST, VOLUMES, &unknown).await;
    expect_error(refused, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    assert_eq!(expect(world.get(VOLUMES).await, StatusCode::OK).await, json!([volume]), "nothing changed");
    assert_eq!(used(&world).await, 10);
}

#[tokio::test]
async fn a_claim_is_for_a_living_server_of_the_same_network_and_every_other_is_refused_alike() {
    let world = World::start().await;
    let (_, server, good) = furnished(&world).await;
    let other = world.create(&world.network_body("other")).await;
    let elsewhere = world.made(SERVERS, &server_body(&other)).await;
    let volume = world.made(VOLUMES, &good).await;
    assert_eq!(world.delete(&server_path(&server)).await.status(), StatusCode::ACCEPTED);
    let unknown = world.ambient.uuid().to_string();
    let mut texts = Vec::new();
    for bad in [id_of(&server), id_of(&elsewhere), &unknown, id_of(&volume)] {
        let update = claimed(&change(10, None), bad);
        for response in [
            world.send(Method::POST, VOLUMES, &claimed(&good, bad)).await,
            world.send(Method::PUT, &path(&volume), &update).await,
        ] {
            texts.push(expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await);
        }
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    assert_eq!(expect(world.get(VOLUMES).await, StatusCode::OK).await, json!([volume]), "nothing changed");
    assert_eq!(held(&world, &volume).await.len(), 1);
}

#[tokio::test]
async fn whoever_may_use_volumes_need_not_be_able_to_read_servers() {
    let world = World::start().await;
    let (network, server, body) = furnished(&world).await;
    let tail = [Operation::Create, Operation::Read, Operation::Update, Operation::Delete];
    let mut grants = may(Endpoint::VolumesV2, &tail);
    grants.extend(may(Endpoint::NetworksV2, &[Operation::Read, Operation::Delete]));
    let user = world.member("user", grants);
    let volume = world.send_as(&user, Method::POST, VOLUMES, &claimed(&body, id_of(&server))).await;
    let volume = expect(volume, StatusCode::CREATED).await;
    let refused = world.send_as(&user, Method::DELETE, &path(&volume), &json!(null)).await;
    let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use") && !text.contains("servers."), "what cannot be read is not named: {text}");
    let refused = world.send_as(&user, Method::DELETE, &network_path(&network), &json!(null)).await;
    let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains(id_of(&volume)) && !text.contains(id_of(&server)), "{text}");
}

#[tokio::test]
async fn what_is_attached_stays_and_is_let_go_of_before_it_goes() {
    let world = World::start().await;
    let (network, server, body) = furnished(&world).await;
    let volume = world.made(VOLUMES, &claimed(&body, id_of(&server))).await;
    for (kept, user) in [
        (path(&volume), format!("servers.region.unikorn-cloud.org/{}", id_of(&server))),
        (server_path(&server), format!("volumes.region.unikorn-cloud.org/{}", id_of(&volume))),
        (network_path(&network), format!("volumes.region.unikorn-cloud.org/{}", id_of(&volume))),
    ] {
        let text = expect_error(world.delete(&kept).await, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains("in use by ") && text.contains(&user), "{text}");
    }
    let let_go = expect(world.send(Method::PUT, &path(&volume), &change(10, None)).await, StatusCode::ACCEPTED).await;
    assert_eq!(let_go["spec"], json!({"sizeGiB": 10}));
    expect_error(world.delete(&server_path(&server)).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert_eq!(held(&world, &volume).await.len(), 2, "the server is given back once the cloud has followed");
    for _ in 0..2 {
        assert_eq!(world.delete(&path(&volume)).await.status(), StatusCode::ACCEPTED);
    }
    let shown = expect(world.get(&path(&volume)).await, StatusCode::OK).await;
    assert_eq!(shown["metadata"]["provisioningStatus"], "deprovisioning");
    let late = world.send(Method::PUT, &path(&volume), &change(10, Some(&server))).await;
    expect_error(late, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn a_claim_and_a_deletion_at_once_are_never_both_accepted_on_any_store() {
    for (store, world) in World::on_each_store().await {
        let (_, server, body) = furnished(&world).await;
        for _ in 0..10 {
            let volume = world.made(VOLUMES, &body).await;
            let (path, claim) = (path(&volume), change(10, Some(&server)));
            let (claimed, deleted) = tokio::join!(world.send(Method::PUT, &path, &claim), world.delete(&path));
            let record = world.store.get(key(&volume, Kind::Volume)).await.expect("reads").expect("there");
            let holds = held(&world, &volume).await.contains(&key(&server, Kind::Server));
            match (claimed.status(), deleted.status()) {
                (StatusCode::ACCEPTED, StatusCode::FORBIDDEN) => {
                    assert!(!record.metadata.is_deleting() && holds, "{store}");
                }
                (StatusCode::BAD_REQUEST, StatusCode::ACCEPTED) => {
                    assert!(record.metadata.is_deleting() && !holds, "{store}");
                }
                other => panic!("{store}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_volume_moves_from_one_server_to_another_and_holds_both_meanwhile() {
    let world = World::start().await;
    let (network, first, body) = furnished(&world).await;
    let mut second = server_body(&network);
    second["metadata"]["name"] = json!("web-2");
    let second = world.made(SERVERS, &second).await;
    let volume = world.made(VOLUMES, &claimed(&body, id_of(&first))).await;
    let moved = world.send(Method::PUT, &path(&volume), &change(10, Some(&second))).await;
    let moved = expect(moved, StatusCode::ACCEPTED).await;
    assert_eq!(moved["spec"]["serverId"], id_of(&second));
    let held = held(&world, &volume).await;
    for server in [&first, &second] {
        assert!(held.contains(&key(server, Kind::Server)));
        expect_error(world.delete(&server_path(server)).await, StatusCode::FORBIDDEN, "forbidden").await;
    }
}

#[tokio::test]
async fn a_volume_only_grows_and_its_charge_grows_with_it_on_every_store() {
    for (store, world) in World::on_each_store().await {
        let (_, _, body) = furnished(&world).await;
        let limit = Write::Limit { organization: world.start.organization_id, kind: QuotaKind::Volume, limit: 30 };
        world.store.commit(Batch::of(vec![limit])).await.expect("commits");
        let volume = world.made(VOLUMES, &body).await;
        let put = async |size_gib| world.send(Method::PUT, &path(&volume), &change(size_gib, None)).await;
        expect_error(put(9).await, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
        assert_eq!(expect(put(25).await, StatusCode::ACCEPTED).await["spec"]["sizeGiB"], 25, "{store}");
        assert_eq!(used(&world).await, 25);
        let text = expect_error(put(31).await, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains("exceed quota"), "{text}");
        expect_error(world.send(Method::POST, VOLUMES, &body).await, StatusCode::FORBIDDEN, "forbidden").await;
        assert_eq!(used(&world).await, 25);
        let shown = expect(world.get(VOLUMES).await, StatusCode::OK).await;
        assert_eq!((shown.as_array().map(Vec::len), &shown[0]["spec"]["sizeGiB"]), (Some(1), &json!(25)), "{store}");
    }
}

#[tokio::test]
async fn a_new_name_is_no_new_generation_and_keeps_the_creator() {
    let world = World::start().await;
    let (_, server, body) = furnished(&world).await;
    let volume = world.made(VOLUMES, &claimed(&body, id_of(&server))).await;
    let mut renamed = change(10, Some(&server));
    renamed["metadata"] = json!({"name": "other", "description": "d"});
    let renamed = expect(world.send(Method::PUT, &path(&volume), &renamed).await, StatusCode::ACCEPTED).await;
    assert_eq!((&renamed["metadata"]["name"], &renamed["metadata"]["description"]), (&json!("other"), &json!("d")));
    assert_eq!(renamed["metadata"]["createdBy"], volume["metadata"]["createdBy"]);
    let record = world.store.get(key(&volume, Kind::Volume)).await.expect("reads").expect("there");
    assert_eq!(record.metadata.generation, 1);
}

#[tokio::test]
async fn a_foreign_volume_and_an_unknown_one_answer_alike() {
    let world = World::start().await;
    let (network, _, body) = furnished(&world).await;
    let volume = world.made(VOLUMES, &body).await;
    let stranger = world.stranger().await;
    let tries = [(Method::GET, ""), (Method::PUT, ""), (Method::DELETE, "")];
    world.assert_hidden_from(&stranger, VOLUMES, id_of(&volume), &tries, &change(10, None)).await;
    let mut unknown = body.clone();
    unknown["spec"]["networkId"] = json!(world.ambient.uuid());
    let mut texts = Vec::new();
    for body in [&body, &unknown] {
        let refused = world.send_as(&stranger, Method::POST, VOLUMES, body).await;
        texts.push(expect_error(refused, StatusCode::NOT_FOUND, "not_found").await);
    }
    assert_eq!(texts[0], texts[1]);
    let empty = world.create(&world.network_body("empty")).await;
    assert_eq!(world.delete(&network_path(&empty)).await.status(), StatusCode::ACCEPTED);
    let late = world.send(Method::POST, VOLUMES, &self::body(&empty)).await;
    let text = expect_error(late, StatusCode::BAD_REQUEST, "invalid_request").await;
    assert!(text.contains("being deleted"), "{text}");
    assert_ne!(id_of(&network), id_of(&empty));
}

#[tokio::test]
async fn lists_filter_by_network_and_by_tag() {
    let world = World::start().await;
    let (one, _, mut tagged) = furnished(&world).await;
    let other = world.create(&world.network_body("two")).await;
    tagged["metadata"]["tags"] = json!([{"name": "a", "value": "b"}]);
    let tagged = world.made(VOLUMES, &tagged).await;
    let plain = world.made(VOLUMES, &body(&other)).await;
    let list = async |query: String| expect(world.get(&format!("{VOLUMES}?{query}")).await, StatusCode::OK).await;
    assert_eq!(list(format!("networkID={}", id_of(&one))).await, json!([tagged]));
    assert_eq!(list("tag=a%3Db".to_owned()).await, json!([tagged]));
    assert_eq!(list(format!("projectID={}&networkID={}", world.start.project_id, id_of(&other))).await, json!([plain]));
    assert_eq!(list(format!("organizationID={}", world.ambient.uuid())).await, json!([]));
    let malformed = world.get(&format!("{VOLUMES}?networkID=x")).await;
    expect_error(malformed, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn a_region_shows_its_classes_to_whom_it_is_there_for() {
    let world = World::start().await;
    let region = world.start.region_id.expect("a region");
    let classes = |region: &dyn std::fmt::Display| format!("/api/v2/regions/{region}/volumeclasses");
    let shown = expect(world.get(&classes(&region)).await, StatusCode::OK).await;
    let names = shown.as_array().expect("a list").iter().map(|class| class["metadata"]["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["slow", "fast"], "in the order of ids");
    assert_eq!(shown[0]["spec"], json!({"media": "hdd", "encrypted": false}));
    let fast = json!({
        "media": "nvme", "encrypted": true, "performance": {"maxIOPS": 9000, "maxThroughputMiBps": 200},
    });
    assert_eq!((&shown[1]["spec"], &shown[1]["metadata"]["description"]), (&fast, &json!("for databases")));
    assert!(shown[0]["metadata"].get("description").is_none() && shown[0]["metadata"]["creationTime"].is_string());

    let reader = world.member("reader", may(Endpoint::VolumeClassesV2, &[Operation::Read]));
    let ask = async |bearer: &str, path: &str| world.send_as(bearer, Method::GET, path, &json!(null)).await;
    assert_eq!(ask(&reader, &classes(&region)).await.status(), StatusCode::OK);
    let (other, _) = world.tenant().await;
    let private = world.region("private", Some(vec![other]), false).await;
    let mut texts = Vec::new();
    for hidden in [private.0, world.ambient.uuid()] {
        texts.push(expect_error(ask(&reader, &classes(&hidden)).await, StatusCode::NOT_FOUND, "not_found").await);
    }
    assert_eq!(texts[0], texts[1]);
    let nobody = world.member("nobody", may(Endpoint::Flavors, &[Operation::Read]));
    expect_error(ask(&nobody, &classes(&region)).await, StatusCode::FORBIDDEN, "forbidden").await;
    let malformed = world.get(&classes(&"x")).await;
    expect_error(malformed, StatusCode::BAD_REQUEST, "invalid_request").await;
}
