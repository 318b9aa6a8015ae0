//! File storage and its classes as clients use them.

use regent::identity::acl::{Endpoint, Grants, Operation};
use regent::model::condition::{Axis, Reason, Statement, Truth};
use regent::model::edge::Holder;
use regent::model::file_storage::{AttachmentDetail, FileStorage, FileStorageDetail, PartState, SIZE_GIB_MAX, Usage};
use regent::model::ids::{Key, Kind, NetworkId, OrganizationId, ProjectId};
use regent::model::metadata::Placement;
use regent::model::network::{NetworkDetail, VlanId};
use regent::model::organization::{Project, ProjectSpec};
use regent::model::quota::QuotaKind;
use regent::model::record::Document;
use regent::providers::ProviderError;
use regent::providers::file_storage::FileStorageClass;
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::cloud::file_storage_class;
use super::{FILE_STORAGE, NETWORKS, World, expect, expect_error, id_of, may, network_path};

const CLASSES: &str = "/api/v2/filestorageclasses";

/// Says of a resource what an actor says when it is made.
async fn said(world: &World, key: Key, detail: &Document) {
    let record = world.store.get(key).await.expect("reads").expect("there");
    let mut conditions = record.conditions.clone();
    let statement = Statement::new(Truth::True, Reason::Provisioned, "provisioned");
    conditions.state(Axis::Available, statement, record.metadata.generation, world.ambient.now());
    let status = Write::Status {
        key,
        incarnation: record.metadata.incarnation,
        conditions: Box::new(conditions),
        detail: detail.clone(),
        transitions: vec![],
    };
    world.store.commit(Batch::of(vec![status])).await.expect("commits");
}

/// The network is made, as far as anybody can tell.
pub async fn available(world: &World, network: &str) {
    let key = Key::new(Kind::Network, network.parse().expect("an id"));
    let detail = NetworkDetail { vlan: Some(VlanId(7)), ..NetworkDetail::default() };
    said(world, key, &Document::of(&detail)).await;
}

/// A network that can be attached to.
async fn network(world: &World, name: &str) -> Value {
    let network = world.create(&world.network_body(name)).await;
    available(world, id_of(&network)).await;
    network
}

fn body(world: &World) -> Value {
    let start = &world.start;
    json!({
        "metadata": {"name": "files"},
        "spec": {
            "organizationId": start.organization_id, "projectId": start.project_id, "regionId": start.region_id,
            "storageClassId": file_storage_class(1, "").id, "sizeGiB": 10, "storageType": {},
        },
    })
}

fn with(mut body: Value, field: &str, value: Value) -> Value {
    body["spec"][field] = value;
    body
}

fn change(field: &str, value: Value) -> Value {
    with(json!({"metadata": {"name": "files"}, "spec": {"sizeGiB": 10, "storageType": {}}}), field, value)
}

fn attached(networks: &[&Value]) -> Value {
    json!({"networkIds": networks.iter().map(|network| id_of(network)).collect::<Vec<_>>()})
}

fn path(storage: &Value) -> String {
    format!("{FILE_STORAGE}/{}", id_of(storage))
}

fn key(storage: &Value) -> Key {
    Key::new(Kind::FileStorage, id_of(storage).parse().expect("an id"))
}

#[expect(clippy::needless_pass_by_value, reason = "every caller makes one")]
fn policy(name: &str, schedule: Value) -> Value {
    json!({"name": name, "schedule": schedule, "retention": {"keep": 3}})
}

async fn refused(world: &World, body: &Value, status: StatusCode) -> String {
    let code = if status == StatusCode::BAD_REQUEST { "invalid_request" } else { "unprocessable_content" };
    expect_error(world.send(Method::POST, FILE_STORAGE, body).await, status, code).await
}

async fn updated(world: &World, storage: &Value, body: &Value) -> Value {
    expect(world.send(Method::PUT, &path(storage), body).await, StatusCode::ACCEPTED).await
}

async fn used_bytes(world: &World) -> u64 {
    let usage = world.store.usage(world.start.organization_id).await.expect("reads");
    usage.iter().filter(|usage| usage.kind == QuotaKind::FileStorage).map(|usage| usage.used.total()).sum()
}

#[tokio::test]
async fn a_file_storage_reads_back_as_it_was_written_on_every_store() {
    for (store, world) in World::on_each_store().await {
        let networks = [network(&world, "one").await, network(&world, "two").await];
        let policies = json!([
            policy("hourly", json!({"interval": "hourly"})),
            policy("nightly", json!({"interval": "daily", "timeOfDay": "23:59Z"})),
            policy("weekly", json!({"interval": "weekly", "timeOfDay": "00:00Z", "dayOfWeek": "sunday"})),
            policy("monthly", json!({"interval": "monthly", "timeOfDay": "04:30Z", "dayOfMonth": 28})),
        ]);
        let mut body = body(&world);
        body["metadata"] = json!({"name": "files", "description": "d", "tags": [{"name": "a/b", "value": "c=d"}]});
        body["spec"]["storageType"] = json!({"NFS": {"rootSquash": false}});
        body["spec"]["attachments"] = attached(&[&networks[1], &networks[0]]);
        body["spec"]["snapshotPolicies"] = policies.clone();
        body["spec"]["defaultSnapshotProtectionEnabled"] = json!(false);
        let made = world.made(FILE_STORAGE, &body).await;
        let expected = json!({
            "sizeGiB": 10, "storageType": {"NFS": {"rootSquash": false}},
            "attachments": {"networkIds": [id_of(&networks[1]), id_of(&networks[0])]},
            "defaultSnapshotProtectionEnabled": false, "snapshotPolicies": policies,
        });
        assert_eq!(made["spec"], expected, "{store}");
        assert_eq!(made["metadata"]["provisioningStatus"], "pending", "{store}");
        assert_eq!(made["metadata"]["projectId"], json!(world.start.project_id), "{store}");
        assert_eq!(made["metadata"]["tags"], body["metadata"]["tags"], "{store}");
        let pending = |network: &Value| json!({"networkId": id_of(network), "provisioningStatus": "pending"});
        let waiting = ["hourly", "nightly", "weekly", "monthly"];
        let waiting = waiting.map(|name| json!({"name": name, "provisioningStatus": "pending"}));
        let status = json!({
            "regionId": world.start.region_id, "storageClassId": file_storage_class(1, "").id,
            "attachments": [pending(&networks[1]), pending(&networks[0])],
            "snapshotPolicies": waiting,
        });
        assert_eq!(made["status"], status, "{store}");
        assert_eq!(expect(world.get(&path(&made)).await, StatusCode::OK).await, made, "{store}");
        assert_eq!(expect(world.get(FILE_STORAGE).await, StatusCode::OK).await, json!([made]), "{store}");
        assert_eq!(used_bytes(&world).await, 10 << 30, "{store}");
        for _ in 0..2 {
            assert_eq!(world.delete(&path(&made)).await.status(), StatusCode::ACCEPTED, "{store}");
        }
        let going = expect(world.get(&path(&made)).await, StatusCode::OK).await;
        assert_eq!(going["metadata"]["provisioningStatus"], "deprovisioning", "{store}");
        assert_eq!(going["status"]["attachments"][0]["provisioningStatus"], "deprovisioning", "{store}");
        let late = world.send(Method::PUT, &path(&made), &change("sizeGiB", json!(20))).await;
        expect_error(late, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
}

#[tokio::test]
async fn what_is_left_out_stays_left_out_but_for_the_protection_that_applies() {
    let world = World::start().await;
    let made = world.made(FILE_STORAGE, &body(&world)).await;
    let expected = json!({"sizeGiB": 10, "storageType": {}, "defaultSnapshotProtectionEnabled": true});
    assert_eq!(made["spec"], expected);
    assert_eq!(made["status"]["snapshotPolicies"], json!([]), "the contract wants the list");
    assert_eq!(made["status"].get("attachments"), None);
    assert_eq!(made["status"].get("usage"), None);
    assert_eq!(made["metadata"].get("description"), None);
    let null = with(body(&world), "snapshotPolicies", Value::Null);
    assert_eq!(world.made(FILE_STORAGE, &null).await["spec"], expected, "clients write null for no policies");
    refused(&world, &with(body(&world), "attachments", Value::Null), StatusCode::BAD_REQUEST).await;
    let empty = with(body(&world), "attachments", json!({"networkIds": []}));
    let empty = world.made(FILE_STORAGE, &with(empty, "snapshotPolicies", json!([]))).await;
    assert_eq!(empty["spec"]["attachments"], json!({"networkIds": []}));
    assert_eq!(empty["spec"]["snapshotPolicies"], json!([]));
    assert_eq!(empty["status"].get("attachments"), None);
    // As in the contract's own example.
    let example = with(body(&world), "storageType", json!({"nfs": {"rootsquash": false}}));
    let example = world.made(FILE_STORAGE, &example).await;
    assert_eq!(example["spec"]["storageType"], json!({"NFS": {"rootSquash": false}}));
}

#[tokio::test]
async fn protection_is_never_null_and_is_kept_when_an_update_leaves_it_out() {
    let world = World::start().await;
    let null = with(body(&world), "defaultSnapshotProtectionEnabled", Value::Null);
    refused(&world, &null, StatusCode::BAD_REQUEST).await;
    let off = world.made(FILE_STORAGE, &with(body(&world), "defaultSnapshotProtectionEnabled", json!(false))).await;
    let null = change("defaultSnapshotProtectionEnabled", Value::Null);
    expect_error(world.send(Method::PUT, &path(&off), &null).await, StatusCode::BAD_REQUEST, "invalid_request").await;
    let kept = updated(&world, &off, &change("sizeGiB", json!(10))).await;
    assert_eq!(kept["spec"]["defaultSnapshotProtectionEnabled"], false);
    let on = updated(&world, &off, &change("defaultSnapshotProtectionEnabled", json!(true))).await;
    assert_eq!(on["spec"]["defaultSnapshotProtectionEnabled"], true);
    assert_eq!(on["status"]["snapshotPolicies"], json!([]), "the hidden policy is hidden");
}

#[tokio::test]
async fn policies_are_kept_cleared_or_replaced_by_an_update() {
    let world = World::start().await;
    let hourly = |name: &str| policy(name, json!({"interval": "hourly"}));
    let made = world.made(FILE_STORAGE, &with(body(&world), "snapshotPolicies", json!([hourly("a")]))).await;
    for unchanged in [change("sizeGiB", json!(10)), change("snapshotPolicies", Value::Null)] {
        assert_eq!(updated(&world, &made, &unchanged).await["spec"]["snapshotPolicies"], json!([hourly("a")]));
    }
    let replaced = updated(&world, &made, &change("snapshotPolicies", json!([hourly("b"), hourly("c")]))).await;
    assert_eq!(replaced["spec"]["snapshotPolicies"], json!([hourly("b"), hourly("c")]));
    let cleared = updated(&world, &made, &change("snapshotPolicies", json!([]))).await;
    assert_eq!(cleared["spec"]["snapshotPolicies"], json!([]));
    assert_eq!(cleared["status"]["snapshotPolicies"], json!([]));
}

#[tokio::test]
async fn a_malformed_body_is_400_and_one_that_contradicts_itself_422_and_nothing_is_stored() {
    let world = World::start().await;
    let hourly = json!({"interval": "hourly"});
    let policies = |all: &[Value]| with(body(&world), "snapshotPolicies", json!(all));
    let one = |schedule: Value| policies(&[policy("p", schedule)]);
    let keeping = |keep: Value| policies(&[json!({"name": "p", "schedule": hourly, "retention": {"keep": keep}})]);
    let networks = |all: Value| with(body(&world), "attachments", json!({"networkIds": all}));
    let named =
        |count: usize| (0..count).map(|number| policy(&format!("p{number}"), hourly.clone())).collect::<Vec<_>>();
    let malformed = [
        with(body(&world), "organizationId", json!("x")),
        with(body(&world), "projectId", json!("x")),
        with(body(&world), "regionId", json!("x")),
        with(body(&world), "storageClassId", json!("x")),
        with(body(&world), "sizeGiB", json!("10")),
        with(body(&world), "sizeGiB", json!(1.5)),
        with(body(&world), "storageType", Value::Null),
        with(body(&world), "storageType", json!({"NFS": {}})),
        with(body(&world), "attachments", json!({})),
        networks(json!(["hunter2"])),
        networks(json!((0..33).map(|_| world.ambient.uuid()).collect::<Vec<_>>())),
        policies(&named(5)),
        policies(&[policy("Hunter2", hourly.clone())]),
        policies(&[policy("a-name-of-20-letters", hourly.clone())]),
        keeping(json!(0)),
        keeping(json!(-1)),
        keeping(json!(8785)),
        one(json!({"interval": "yearly"})),
        one(json!({"interval": "daily", "timeOfDay": "4:00Z"})),
        one(json!({"interval": "weekly", "timeOfDay": "04:00Z", "dayOfWeek": "hunter2"})),
        one(json!({"interval": "monthly", "timeOfDay": "04:00Z", "dayOfMonth": 29})),
        json!({"metadata": {"name": "../x"}, "spec": body(&world)["spec"]}),
        json!({"metadata": {"name": "x"}}),
    ];
    for body in malformed {
        let text = refused(&world, &body, StatusCode::BAD_REQUEST).await;
        assert!(!text.to_lowercase().contains("hunter2"), "{text}");
    }
    let twice = world.ambient.uuid();
    let contradictions = [
        with(body(&world), "sizeGiB", json!(0)),
        with(body(&world), "sizeGiB", json!(-1)),
        with(body(&world), "sizeGiB", json!(SIZE_GIB_MAX + 1)),
        networks(json!([twice, twice])),
        policies(&[policy("p", hourly.clone()), policy("p", hourly.clone())]),
        policies(&[policy("system-default", hourly.clone())]),
        one(json!({"interval": "hourly", "timeOfDay": "04:00Z"})),
        one(json!({"interval": "daily"})),
        one(json!({"interval": "weekly", "timeOfDay": "04:00Z"})),
        one(json!({"interval": "monthly", "timeOfDay": "04:00Z", "dayOfWeek": "monday"})),
    ];
    for body in contradictions {
        refused(&world, &body, StatusCode::UNPROCESSABLE_ENTITY).await;
    }
    assert_eq!(expect(world.get(FILE_STORAGE).await, StatusCode::OK).await, json!([]));
    assert_eq!(used_bytes(&world).await, 0);
}

#[tokio::test]
async fn a_project_a_region_or_a_class_that_is_missing_or_foreign_is_the_same_422() {
    let world = World::start().await;
    let (other, other_project) = world.tenant().await;
    let private = world.region("private", Some(vec![other]), false).await;
    let withdrawn = world.region("withdrawn", None, true).await;
    let hidden = FileStorageClass { organizations: Some(vec![other]), ..file_storage_class(9, "hidden") };
    world.cloud.file_storage_classes.lock().expect("lock").as_mut().expect("offers").push(hidden.clone());
    let member = member(&world);
    let unknown = json!(world.ambient.uuid());
    for (field, values) in [
        ("projectId", vec![json!(other_project)]),
        ("regionId", vec![json!(private), json!(withdrawn)]),
        ("storageClassId", vec![json!(hidden.id)]),
    ] {
        let mut texts = Vec::new();
        for value in values.into_iter().chain([unknown.clone()]) {
            let body = with(body(&world), field, value);
            let response = world.send_as(&member, Method::POST, FILE_STORAGE, &body).await;
            texts.push(expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await);
        }
        assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    }
    // A region whose cloud has no files to offer has no class; one that does not answer may have.
    *world.cloud.file_storage_classes.lock().expect("lock") = Err(ProviderError::Unsupported("files"));
    let elsewhere = world.region("elsewhere", None, false).await;
    let body_in = |region| with(body(&world), "regionId", json!(region));
    let response = world.send_as(&member, Method::POST, FILE_STORAGE, &body_in(elsewhere)).await;
    expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    *world.cloud.file_storage_classes.lock().expect("lock") = Err(ProviderError::Unavailable("away".to_owned()));
    let away = world.region("away", None, false).await;
    let response = world.send_as(&member, Method::POST, FILE_STORAGE, &body_in(away)).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// Somebody of the first organization, who may do everything with file storage and read networks.
fn member(world: &World) -> String {
    let mut grants: Grants = may(Endpoint::FileStorageV2, &Operation::ALL);
    grants.extend(may(Endpoint::NetworksV2, &[Operation::Read]));
    grants.extend(may(Endpoint::FileStorageClassesV2, &[Operation::Read]));
    world.member("member", grants)
}

#[tokio::test]
async fn only_a_provisioned_network_of_the_same_project_and_region_that_keeps_addresses_can_be_attached() {
    let world = World::start().await;
    let start = &world.start;
    let place = Placement { organization: Some(start.organization_id), ..Placement::default() };
    let sibling = ProjectId(world.ambient.uuid());
    world.insert::<Project>(sibling.0, "sibling", place, &ProjectSpec::default()).await;
    let another_region = world.region("another", None, false).await;
    let made = async |field: &str, value: Value| {
        let mut body = world.network_body("net");
        body["spec"][field] = value;
        let network = world.create(&body).await;
        available(&world, id_of(&network)).await;
        network
    };
    let whole = json!({"prefixLength": 25, "providerReservedPrefixLength": 25});
    let pending = world.create(&world.network_body("pending")).await;
    let going = network(&world, "going").await;
    assert_eq!(world.delete(&network_path(&going)).await.status(), StatusCode::ACCEPTED);
    let wrong = [
        made("projectId", json!(sibling)).await,
        made("regionId", json!(another_region)).await,
        made("reservations", whole).await,
        pending,
        going,
    ];
    let stored = world.made(FILE_STORAGE, &body(&world)).await;
    for network in &wrong {
        let attachments = attached(&[network]);
        refused(&world, &with(body(&world), "attachments", attachments.clone()), StatusCode::UNPROCESSABLE_ENTITY)
            .await;
        let response = world.send(Method::PUT, &path(&stored), &change("attachments", attachments)).await;
        expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
        let holders = world.store.references(NetworkId(id_of(network).parse().expect("an id")).key()).await;
        assert_eq!(holders.expect("reads"), Vec::<Holder>::new());
    }
}

#[tokio::test]
async fn a_network_that_is_missing_and_one_that_is_foreign_get_the_same_answer() {
    let world = World::start().await;
    let (organization, project) = world.tenant().await;
    let mut foreign = world.network_body("foreign");
    foreign["spec"]["organizationId"] = json!(organization);
    foreign["spec"]["projectId"] = json!(project);
    let foreign = world.create(&foreign).await;
    available(&world, id_of(&foreign)).await;
    let member = member(&world);
    let mut texts = Vec::new();
    for id in [id_of(&foreign).to_owned(), world.ambient.uuid().to_string()] {
        let body = with(body(&world), "attachments", json!({"networkIds": [id]}));
        let response = world.send_as(&member, Method::POST, FILE_STORAGE, &body).await;
        texts.push(expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await);
    }
    assert_eq!(texts[0], texts[1]);
}

#[tokio::test]
async fn b30_an_attached_network_is_in_use_from_the_moment_it_is_accepted() {
    let world = World::start().await;
    let (first, second) = (network(&world, "first").await, network(&world, "second").await);
    let storage = world.made(FILE_STORAGE, &with(body(&world), "attachments", attached(&[&first]))).await;
    let in_use = async |network: &Value| {
        let text = expect_error(world.delete(&network_path(network)).await, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains("in use") && text.contains(id_of(&storage)), "{text}");
    };
    in_use(&first).await;
    let answer = updated(&world, &storage, &change("attachments", attached(&[&second]))).await;
    assert_eq!(answer["status"]["attachments"][0]["networkId"], id_of(&second));
    // The new one is held at once, the old one until the storage system has let go of it.
    in_use(&second).await;
    in_use(&first).await;
}

#[tokio::test]
async fn an_attachment_has_the_first_addresses_of_its_network_and_keeps_them() {
    let world = World::start().await;
    let network = network(&world, "net").await;
    let storage = world.made(FILE_STORAGE, &with(body(&world), "attachments", attached(&[&network]))).await;
    let spec = async || {
        let record = world.store.get(key(&storage)).await.expect("reads").expect("there");
        record.open::<FileStorage>().expect("opens").spec
    };
    let attachment = spec().await.attachments()[0];
    let (start, end) = ([10, 0, 0, 16].into(), [10, 0, 0, 19].into());
    assert_eq!((attachment.addresses.start, attachment.addresses.end), (start, end));
    assert_eq!(attachment.vlan, Some(VlanId(7)));
    // The class is changed, and then no longer offered: what was attached stays as it was.
    world.cloud.file_storage_classes.lock().expect("lock").as_mut().expect("offers").clear();
    updated(&world, &storage, &change("attachments", attached(&[&network]))).await;
    assert_eq!(spec().await.attachments(), [attachment]);
}

#[tokio::test]
async fn what_the_storage_system_made_is_shown_part_by_part() {
    let world = World::start().await;
    let (first, second) = (network(&world, "first").await, network(&world, "second").await);
    let body = with(body(&world), "attachments", attached(&[&first, &second]));
    let storage = world.made(FILE_STORAGE, &body).await;
    let record = world.store.get(key(&storage)).await.expect("reads").expect("there");
    let wanted = record.open::<FileStorage>().expect("opens").spec;
    let part = |at: usize, state| AttachmentDetail {
        network: wanted.attachments()[at].network,
        attachment: None,
        addresses: wanted.attachments()[at].addresses,
        state,
    };
    let detail = FileStorageDetail {
        mount_path: Some("/mnt/nfs".to_owned()),
        size_bytes: Some(10 << 30),
        attachments: vec![part(0, PartState::Active), part(1, PartState::Failed)],
        usage: Some(Usage { used_bytes: 5, at: "2026-01-02T03:04:05Z".parse().expect("a time") }),
        ..FileStorageDetail::default()
    };
    said(&world, key(&storage), &Document::of(&detail)).await;
    let read = expect(world.get(&path(&storage)).await, StatusCode::OK).await;
    let usage = json!({"capacityBytes": 10_737_418_240_u64, "usedBytes": 5, "updatedAt": "2026-01-02T03:04:05Z"});
    assert_eq!(read["status"]["usage"], usage);
    let mounted = json!({
        "networkId": id_of(&first), "provisioningStatus": "provisioned", "mountSource": "10.0.0.16:/mnt/nfs",
        "mountOptions": {"remoteports": "10.0.0.16-10.0.0.19"},
    });
    let failed = json!({"networkId": id_of(&second), "provisioningStatus": "error"});
    assert_eq!(read["status"]["attachments"], json!([mounted, failed]));
}

#[tokio::test]
async fn the_size_is_charged_in_bytes_grows_with_it_and_is_bounded_by_the_quota() {
    let world = World::start().await;
    let organization = world.start.organization_id;
    let limit = Write::Limit { organization, kind: QuotaKind::FileStorage, limit: 30 << 30 };
    world.store.commit(Batch::of(vec![limit])).await.expect("commits");
    let storage = world.made(FILE_STORAGE, &with(body(&world), "sizeGiB", json!(20))).await;
    let too_much = world.send(Method::POST, FILE_STORAGE, &with(body(&world), "sizeGiB", json!(11))).await;
    let text = expect_error(too_much, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("quota"), "{text}");
    let too_much = world.send(Method::PUT, &path(&storage), &change("sizeGiB", json!(31))).await;
    expect_error(too_much, StatusCode::FORBIDDEN, "forbidden").await;
    assert_eq!(used_bytes(&world).await, 20 << 30);
    let grown = updated(&world, &storage, &change("sizeGiB", json!(30))).await;
    assert_eq!(grown["spec"]["sizeGiB"], 30);
    assert_eq!(used_bytes(&world).await, 30 << 30);
}

#[tokio::test]
async fn b43_a_file_storage_does_not_shrink() {
    let world = World::start().await;
    let storage = world.made(FILE_STORAGE, &body(&world)).await;
    for size in [9, 1, 0, -1] {
        let response = world.send(Method::PUT, &path(&storage), &change("sizeGiB", json!(size))).await;
        expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    }
    assert_eq!(expect(world.get(&path(&storage)).await, StatusCode::OK).await, storage, "nothing was changed");
}

#[tokio::test]
async fn b10_an_update_replaces_everything_and_names_its_author_beside_the_creator() {
    let world = World::start().await;
    let network = network(&world, "net").await;
    let mut body = with(body(&world), "attachments", attached(&[&network]));
    body["metadata"] = json!({"name": "files", "description": "d", "tags": [{"name": "a", "value": "b"}]});
    body["spec"]["storageType"] = json!({"NFS": {"rootSquash": false}});
    let made = world.made(FILE_STORAGE, &body).await;
    let bearer = member(&world);
    let body = json!({"metadata": {"name": "renamed"}, "spec": {"sizeGiB": 10, "storageType": {}}});
    let after = world.send_as(&bearer, Method::PUT, &path(&made), &body).await;
    let after = expect(after, StatusCode::ACCEPTED).await;
    assert_eq!(after["metadata"]["name"], "renamed");
    assert_eq!((after["metadata"].get("description"), after["metadata"].get("tags")), (None, None));
    assert_eq!(after["spec"]["storageType"], json!({}));
    assert_eq!(after["spec"].get("attachments"), None);
    assert_eq!(after["metadata"]["createdBy"], made["metadata"]["createdBy"]);
    assert_eq!(after["metadata"]["modifiedBy"], "member");
}

#[tokio::test]
async fn a_list_is_filtered_by_tag_organization_project_and_region() {
    let world = World::start().await;
    let mut tagged = body(&world);
    tagged["metadata"]["tags"] = json!([{"name": "team", "value": "a=b"}]);
    let tagged = world.made(FILE_STORAGE, &tagged).await;
    let plain = world.made(FILE_STORAGE, &body(&world)).await;
    let listed = async |query: String| {
        let list = expect(world.get(&format!("{FILE_STORAGE}?{query}")).await, StatusCode::OK).await;
        list.as_array().expect("a list").iter().map(|item| id_of(item).to_owned()).collect::<Vec<_>>()
    };
    let mut all = vec![id_of(&tagged).to_owned(), id_of(&plain).to_owned()];
    all.sort();
    let start = &world.start;
    assert_eq!(listed("tag=team%3Da%3Db".to_owned()).await, [id_of(&tagged)]);
    for (name, good) in [
        ("organizationID", start.organization_id.to_string()),
        ("projectID", start.project_id.to_string()),
        ("regionID", start.region_id.expect("a region").to_string()),
    ] {
        assert_eq!(listed(format!("{name}={good}")).await, all);
        assert_eq!(listed(format!("{name}={}", world.ambient.uuid())).await, Vec::<String>::new());
        let malformed = world.get(&format!("{FILE_STORAGE}?{name}=x")).await;
        let text = expect_error(malformed, StatusCode::BAD_REQUEST, "invalid_request").await;
        assert!(text.contains("invalid path/query element"), "{text}");
    }
}

#[tokio::test]
async fn a_file_storage_is_hidden_from_strangers_and_kept_from_readers() {
    let world = World::start().await;
    let storage = world.made(FILE_STORAGE, &body(&world)).await;
    let stranger = world.stranger().await;
    let tries = [(Method::GET, ""), (Method::PUT, ""), (Method::DELETE, "")];
    let body = change("sizeGiB", json!(20));
    world.assert_hidden_from(&stranger, FILE_STORAGE, id_of(&storage), &tries, &body).await;
    let reader = world.member("reader", may(Endpoint::FileStorageV2, &[Operation::Read]));
    for method in [Method::PUT, Method::DELETE] {
        let refused = world.send_as(&reader, method, &path(&storage), &body).await;
        expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    }
}

#[tokio::test]
async fn classes_are_those_of_the_regions_that_the_caller_can_use_and_private_ones_are_private() {
    let world = World::start().await;
    let (other, _) = world.tenant().await;
    let theirs = world.region("theirs", Some(vec![other]), false).await;
    let withdrawn = world.region("withdrawn", None, true).await;
    let private = |number, name: &str, owner: OrganizationId| FileStorageClass {
        organizations: Some(vec![owner]),
        parallelism: 1,
        ..file_storage_class(number, name)
    };
    {
        let mut classes = world.cloud.file_storage_classes.lock().expect("lock");
        let classes = classes.as_mut().expect("offers");
        classes.push(private(3, "ours", world.start.organization_id));
        classes.push(private(4, "hidden", other));
    }
    let member = member(&world);
    let names = async |bearer: &str, query: &str| {
        let list = world.send_as(bearer, Method::GET, &format!("{CLASSES}{query}"), &json!(null)).await;
        let list = expect(list, StatusCode::OK).await;
        let name = |item: &Value| item["metadata"]["name"].as_str().expect("a name").to_owned();
        list.as_array().expect("a list").iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(&member, "").await, ["cheap", "fast", "ours"]);
    assert_eq!(
        names(&member, &format!("?regionID={}", world.start.region_id.expect("a region"))).await,
        ["cheap", "fast", "ours"]
    );
    for region in [theirs, withdrawn, regent::model::ids::RegionId(world.ambient.uuid())] {
        assert_eq!(names(&member, &format!("?regionID={region}")).await, Vec::<String>::new());
    }
    let blind = world.member("blind", may(Endpoint::FileStorageV2, &[Operation::Read]));
    assert_eq!(names(&blind, "").await, ["cheap", "fast"], "a private class needs the right to read classes");
    let nobody = world.bearer_of("nobody", regent::identity::acl::Acl::default());
    assert_eq!(names(&nobody, "").await, Vec::<String>::new());

    let list = world.send_as(&member, Method::GET, CLASSES, &json!(null)).await;
    let class = expect(list, StatusCode::OK).await[1].clone();
    assert_eq!(class["metadata"]["id"], json!(file_storage_class(1, "").id));
    assert_eq!(class["metadata"]["provisioningStatus"], "provisioned");
    assert_eq!(class["metadata"]["healthStatus"], "healthy");
    let spec = json!({"regionId": world.start.region_id, "protocols": ["nfsv3", "nfsv4"], "parallelism": 4});
    assert_eq!(class["spec"], spec);
    let unknown = world.get(&format!("{CLASSES}?organizationID={}", world.ambient.uuid())).await;
    expect_error(unknown, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn a_network_of_the_collection_is_not_a_file_storage() {
    let world = World::start().await;
    let network = network(&world, "net").await;
    let wrong = world.get(&format!("{FILE_STORAGE}/{}", id_of(&network))).await;
    expect_error(wrong, StatusCode::NOT_FOUND, "not_found").await;
    let malformed = world.get(&format!("{FILE_STORAGE}/x")).await;
    expect_error(malformed, StatusCode::BAD_REQUEST, "invalid_request").await;
    assert_eq!(world.get(NETWORKS).await.status(), StatusCode::OK);
}
