//! An organization's own images: imported, saved from a server, booted from, deleted.

use regent::identity::acl::{Endpoint, Operation};
use regent::model::condition::{Axis, Conditions, Reason, Statement, Truth};
use regent::model::edge::Holder;
use regent::model::ids::{ImageId, Key, Kind, ProviderServerId};
use regent::model::image::{IMAGES_MAX, Image, ImageDetail, ImageSource, ImageStatus};
use regent::model::record::Document;
use regent::model::server::ServerDetail;
use regent::providers::image_probe::{ProbeError, Probed};
use regent::providers::types;
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::cloud::{flavor, image};
use super::servers::{furnished, key, path as server_path, seen};
use super::{SERVERS, World, envelope, expect, expect_error, id_of, may};

pub fn body(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "description": "ours", "tags": [{"name": "a", "value": "b"}]},
        "spec": {
            "uri": "https://images.example.org/golden.raw?signature=hunter2",
            "architecture": "x86_64",
            "virtualization": "any",
            "os": {"kernel": "linux", "family": "debian", "distro": "ubuntu", "version": "24.04", "codename": "noble"},
            "softwareVersions": {"kubernetes": "v1.33.0"},
            "gpu": {"vendor": "NVIDIA", "driver": "570.1", "models": ["H100"]},
        },
    })
}

fn images(world: &World) -> String {
    let region = world.start.region_id.expect("a region");
    format!("/api/v1/organizations/{}/regions/{region}/images", world.start.organization_id)
}

async fn imported(world: &World, name: &str) -> Value {
    expect(world.send(Method::POST, &images(world), &body(name)).await, StatusCode::OK).await
}

/// Says what an actor would say of an image.
async fn said(world: &World, image: &Value, status: ImageStatus, reason: Reason) {
    let record = world.store.get(key(image, Kind::Image)).await.expect("reads").expect("there");
    let mut conditions = Conditions::default();
    let truth = if reason == Reason::Provisioned { Truth::True } else { Truth::False };
    conditions.state(Axis::Available, Statement::new(truth, reason, "said"), 1, world.ambient.now());
    let detail = ImageDetail { status: Some(status), size_gib: Some(7), ..ImageDetail::default() };
    let status = Write::Status {
        key: record.key,
        incarnation: record.metadata.incarnation,
        conditions: Box::new(conditions),
        detail: Document::of(&detail),
        transitions: vec![],
    };
    world.store.commit(Batch::of(vec![status])).await.expect("commits");
}

async fn ready(world: &World, image: &Value) {
    said(world, image, ImageStatus::Ready, Reason::Provisioned).await;
}

async fn states(world: &World, query: &str) -> Vec<(String, String)> {
    let region = world.start.region_id.expect("a region");
    let list = expect(world.get(&format!("/api/v2/regions/{region}/images{query}")).await, StatusCode::OK).await;
    let list = list.as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    list.map(|image| (text(&image["metadata"]["name"]), text(&image["status"]["state"]))).collect()
}

async fn owned(world: &World) -> Vec<(String, String)> {
    states(world, &format!("?scope=owned&organizationID={}", world.start.organization_id)).await
}

async fn refused(world: &World, body: &Value) -> String {
    let response = world.send(Method::POST, &images(world), body).await;
    expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await
}

#[tokio::test]
async fn an_import_reads_back_as_it_was_written_on_every_store() {
    for (store, world) in World::on_each_store().await {
        let made = imported(&world, "golden").await;
        let mut spec = body("golden")["spec"].clone();
        spec.as_object_mut().expect("an object").remove("uri");
        spec["sizeGiB"] = json!(0);
        assert_eq!(made["spec"], spec, "{store}");
        assert_eq!(made["status"], json!({"state": "pending"}));
        assert_eq!(made["metadata"]["description"], "ours");
        let tags = json!([
            {"name": "a", "value": "b"},
            {"name": "images.unikorn-cloud.org:source", "value": "import"},
            {"name": "images.unikorn-cloud.org:organization-id", "value": world.start.organization_id},
        ]);
        assert_eq!(made["metadata"]["tags"], tags);
        let pair = |state: &str| vec![("golden".to_owned(), state.to_owned())];
        assert_eq!(owned(&world).await, pair("pending"));
        said(&world, &made, ImageStatus::Creating, Reason::Provisioning).await;
        assert_eq!(owned(&world).await, pair("creating"));
        ready(&world, &made).await;
        assert_eq!(owned(&world).await, pair("ready"));
        let list = expect(world.get(&images(&world)).await, StatusCode::OK).await;
        let own = list.as_array().expect("a list").iter().find(|image| id_of(image) == id_of(&made)).expect("listed");
        assert_eq!(own["spec"]["sizeGiB"], 7);
        said(&world, &made, ImageStatus::Failed, Reason::ProviderCreateFailed).await;
        assert_eq!(owned(&world).await, pair("failed"));
    }
}

#[tokio::test]
async fn lists_hold_what_the_cloud_offers_and_what_is_on_record_each_once() {
    let world = World::start().await;
    let ours = world.start.organization_id;
    let (one, other) = (imported(&world, "b-own").await, imported(&world, "z-own").await);
    ready(&world, &one).await;
    // The cloud shows an image that has a record, and says otherwise: the record is the truth.
    let id = ImageId(id_of(&one).parse().expect("an id"));
    world.cloud.offer(types::Image { id, organization: Some(ours), ..image(3, "from-the-cloud") });
    let all = states(&world, &format!("?organizationID={ours}")).await;
    let names = all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["b-own", "debian", "ubuntu", "z-own"]);
    assert_eq!(states(&world, "").await.len(), 2, "without an organization there is only what is everybody's");
    let pending = states(&world, &format!("?organizationID={ours}&status=pending")).await;
    assert_eq!(pending, [("z-own".to_owned(), "pending".to_owned())]);
    let v1 = expect(world.get(&images(&world)).await, StatusCode::OK).await;
    let ids = v1.as_array().expect("a list").iter().map(id_of).collect::<Vec<_>>();
    assert!(ids.contains(&id_of(&one)) && !ids.contains(&id_of(&other)), "only what is ready: {ids:?}");
    let elsewhere = world.region("elsewhere", None, false).await;
    let list =
        expect(world.get(&format!("/api/v2/regions/{elsewhere}/images?organizationID={ours}")).await, StatusCode::OK);
    assert_eq!(list.await.as_array().expect("a list").len(), 3, "an image is of one region; the stub offers the rest");
}

#[tokio::test]
async fn b17_the_address_is_checked_sealed_and_never_repeated() {
    let world = World::start().await;
    for (uri, rule) in [
        ("ftp://example.org/x", "http"),
        ("https://user:hunter2@example.org/x", "user name"),
        ("http://127.0.0.1/hunter2", "public internet"),
        ("http://169.254.169.254/latest", "public internet"),
        ("http://[::ffff:10.0.0.1]/", "public internet"),
        ("http://metadata.google.internal/", "public internet"),
        ("http://example.org:22/", "port"),
        ("hunter2", "URL"),
    ] {
        let mut bad = body("x");
        bad["spec"]["uri"] = json!(uri);
        let text = refused(&world, &bad).await;
        assert!(text.starts_with("spec.uri") && text.contains(rule) && !text.contains("hunter2"), "{uri}: {text}");
    }
    let made = imported(&world, "golden").await;
    let record = world.store.get(key(&made, Kind::Image)).await.expect("reads").expect("there");
    assert!(!record.spec.text().contains("example.org"), "{}", record.spec.text());
    let ImageSource::Import { uri } = record.open::<Image>().expect("opens").spec.source else { panic!("no import") };
    let opened = envelope().open(&uri).expect("opens");
    assert_eq!(opened, body("x")["spec"]["uri"].as_str().expect("an address"));
    assert!(owned(&world).await.len() == 1, "what was refused left nothing");
}

#[tokio::test]
async fn b17_what_a_look_finds_decides_before_anything_is_stored() {
    let world = World::start().await;
    let say = |probed| *world.cloud.probed.lock().expect("not poisoned") = probed;
    say(Err(ProbeError::Format("qcow2; convert it first")));
    assert!(refused(&world, &body("x")).await.contains("qcow2"));
    say(Err(ProbeError::TooLarge(30)));
    assert!(refused(&world, &body("x")).await.contains("30 GiB"));
    assert!(owned(&world).await.is_empty());
    say(Ok(Probed { size_gib: Some(4) }));
    assert_eq!(imported(&world, "x").await["spec"]["sizeGiB"], 4);
}

#[tokio::test]
async fn whatever_is_wrong_with_a_body_is_422_and_with_the_path_404() {
    let world = World::start().await;
    let changed = |pointer: &str, value: Value| {
        let mut body = body("x");
        *body.pointer_mut(pointer).expect("there") = value;
        body
    };
    for (pointer, value) in [
        ("/metadata/name", json!("../etc")),
        ("/spec/architecture", json!("z80")),
        ("/spec/virtualization", json!("maybe")),
        ("/spec/os/kernel", json!("hurd")),
        ("/spec/os/family", json!("")),
        ("/spec/os/distro", json!("x".repeat(256))),
        ("/spec/os/version", json!(24)),
        ("/spec/softwareVersions", json!({"kubernetes": "1.33"})),
        ("/spec/softwareVersions", json!({"": "v1.33.0"})),
        ("/spec/gpu/vendor", json!("Matrox")),
        ("/spec/gpu/driver", json!("")),
        ("/spec/gpu/models", json!(["a,b"])),
        ("/spec", json!({})),
    ] {
        refused(&world, &changed(pointer, value)).await;
    }
    let empty = world.request(Method::POST, &images(&world)).send().await.expect("an answer");
    expect_error(empty, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    let (organization, region) = (world.start.organization_id, world.start.region_id.expect("a region"));
    for path in [
        format!("/api/v1/organizations/x/regions/{region}/images"),
        format!("/api/v1/organizations/{organization}/regions/x/images"),
        format!("/api/v1/organizations/{organization}/regions/{}/images", world.ambient.uuid()),
    ] {
        let response = world.send(Method::POST, &path, &body("x")).await;
        expect_error(response, StatusCode::NOT_FOUND, "not_found").await;
    }
    let withdrawn = world.region("old", None, true).await;
    let path = format!("/api/v1/organizations/{organization}/regions/{withdrawn}/images");
    expect_error(world.send(Method::POST, &path, &body("x")).await, StatusCode::NOT_FOUND, "not_found").await;
    let minimal = json!({
        "metadata": {"name": "small"},
        "spec": {
            "uri": "http://example.org/x", "architecture": "aarch64", "virtualization": "baremetal",
            "os": {"kernel": "linux", "family": "f", "distro": "d", "version": "1"},
        },
    });
    let made = expect(world.send(Method::POST, &images(&world), &minimal).await, StatusCode::OK).await;
    assert_eq!(made["spec"]["os"], minimal["spec"]["os"], "what was omitted stays omitted");
    assert!(made["spec"].get("gpu").is_none() && made["spec"].get("softwareVersions").is_none());
}

#[tokio::test]
async fn only_we_say_where_an_image_comes_from() {
    let world = World::start().await;
    let mut forged = body("x");
    forged["metadata"]["tags"] = json!([{"name": "images.unikorn-cloud.org:source", "value": "heaven"}]);
    let made = expect(world.send(Method::POST, &images(&world), &forged).await, StatusCode::OK).await;
    let text = made["metadata"]["tags"].to_string();
    assert!(!text.contains("heaven") && text.contains("import"), "{text}");
}

#[tokio::test]
async fn an_organization_has_a_bounded_number_of_images() {
    let world = World::start().await;
    for _ in 0..IMAGES_MAX {
        imported(&world, "one-of-many").await;
    }
    let response = world.send(Method::POST, &images(&world), &body("one-too-many")).await;
    let text = expect_error(response, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("as many images"), "{text}");
    assert_eq!(owned(&world).await.len(), usize::from(IMAGES_MAX));
}

#[tokio::test]
async fn deleting_is_accepted_until_it_is_gone_and_is_for_its_own_organization_and_region() {
    let world = World::start().await;
    let made = imported(&world, "golden").await;
    let one = format!("{}/{}", images(&world), id_of(&made));
    let (other, _) = world.tenant().await;
    let region = world.start.region_id.expect("a region");
    let elsewhere = world.region("elsewhere", None, false).await;
    for path in [
        format!("/api/v1/organizations/{other}/regions/{region}/images/{}", id_of(&made)),
        format!("/api/v1/organizations/{}/regions/{elsewhere}/images/{}", world.start.organization_id, id_of(&made)),
        format!("{}/{}", images(&world), world.ambient.uuid()),
        format!("{}/{}", images(&world), image(1, "").id),
    ] {
        expect_error(world.delete(&path).await, StatusCode::NOT_FOUND, "not_found").await;
    }
    let malformed = world.delete(&format!("{}/x", images(&world))).await;
    expect_error(malformed, StatusCode::BAD_REQUEST, "invalid_request").await;
    for _ in 0..2 {
        assert_eq!(world.delete(&one).await.status(), StatusCode::ACCEPTED);
    }
    assert_eq!(owned(&world).await, [("golden".to_owned(), "failed".to_owned())], "nothing boots from it any more");
    let record = world.store.get(key(&made, Kind::Image)).await.expect("reads").expect("there");
    let gone = Write::Remove { key: record.key, incarnation: record.metadata.incarnation };
    world.store.commit(Batch::of(vec![gone])).await.expect("commits");
    expect_error(world.delete(&one).await, StatusCode::NOT_FOUND, "not_found").await;
}

#[tokio::test]
async fn a_server_boots_from_an_own_image_when_it_is_ready_and_keeps_it_from_being_deleted() {
    let (world, _, mut server) = furnished().await;
    let made = imported(&world, "golden").await;
    let one = format!("{}/{}", images(&world), id_of(&made));
    server["spec"]["imageId"] = json!(id_of(&made));
    let early = world.send(Method::POST, SERVERS, &server).await;
    expect_error(early, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    ready(&world, &made).await;
    let booted = world.made(SERVERS, &server).await;
    let text = expect_error(world.delete(&one).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use") && text.contains(id_of(&booted)), "{text}");
    let holders = world.store.references(key(&made, Kind::Image)).await.expect("reads");
    assert_eq!(holders, [Holder::Resource(key(&booted, Kind::Server))]);
    let mut other = server;
    other["metadata"]["name"] = json!("other");
    other["spec"]["imageId"] = json!(image(1, "").id);
    let unmade = world.made(SERVERS, &other).await;
    let rebuilt = json!({
        "metadata": {"name": "other"}, "spec": {"flavorId": flavor(1, "").id, "imageId": id_of(&made)},
    });
    let accepted = world.send(Method::PUT, &server_path(&unmade), &rebuilt).await;
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    assert_eq!(
        world.store.references(key(&made, Kind::Image)).await.expect("reads").len(),
        2,
        "a rebuild holds it too"
    );
}

#[tokio::test]
async fn an_own_image_that_a_server_was_on_is_held_until_the_server_is_on_another() {
    let (world, _, mut body) = furnished().await;
    let (first, second) = (imported(&world, "first").await, imported(&world, "second").await);
    for image in [&first, &second] {
        ready(&world, image).await;
    }
    let id = |image: &Value| ImageId(id_of(image).parse().expect("an id"));
    body["spec"]["imageId"] = json!(id_of(&first));
    let server = world.made(SERVERS, &body).await;
    seen(&world, &server, &ServerDetail { image: Some(id(&first)), ..ServerDetail::default() }).await;
    let change = |image: &Value| json!({"metadata": {"name": "web-1"}, "spec": {"flavorId": flavor(1, "").id, "imageId": id_of(image)}});
    assert_eq!(world.send(Method::PUT, &server_path(&server), &change(&second)).await.status(), StatusCode::ACCEPTED);
    let spec = async || {
        let record = world.store.get(key(&server, Kind::Server)).await.expect("reads").expect("there");
        record.open::<regent::model::server::Server>().expect("opens").spec
    };
    let detail = |image| ServerDetail { image: Some(image), ..ServerDetail::default() };
    assert_eq!(spec().await.images_held(&detail(id(&first))), [id(&first), id(&second)]);
    assert_eq!(spec().await.images_held(&detail(id(&second))), [id(&second)], "the first is let go");
    // A change of something else changes nothing about it.
    let mut renamed = change(&second);
    renamed["metadata"]["description"] = json!("other words");
    let before = spec().await;
    assert_eq!(world.send(Method::PUT, &server_path(&server), &renamed).await.status(), StatusCode::ACCEPTED);
    assert_eq!(spec().await, before);
}

#[tokio::test]
async fn b18_an_image_of_another_organization_is_as_if_it_were_not_there() {
    let (world, _, mut server) = furnished().await;
    let (other, _) = world.tenant().await;
    let region = world.start.region_id.expect("a region");
    let path = format!("/api/v1/organizations/{other}/regions/{region}/images");
    let theirs = expect(world.send(Method::POST, &path, &body("theirs")).await, StatusCode::OK).await;
    ready(&world, &theirs).await;
    let mut texts = Vec::new();
    for id in [id_of(&theirs).to_owned(), world.ambient.uuid().to_string()] {
        server["spec"]["imageId"] = json!(id);
        let response = world.send(Method::POST, SERVERS, &server).await;
        texts.push(expect_error(response, StatusCode::NOT_FOUND, "not_found").await);
    }
    assert_eq!(texts[0], texts[1]);
    let member = world.member("member", may(Endpoint::Images, &Operation::ALL));
    let mut texts = Vec::new();
    for id in [id_of(&theirs).to_owned(), world.ambient.uuid().to_string()] {
        let path = format!("{}/{id}", images(&world));
        let response = world.send_as(&member, Method::DELETE, &path, &json!(null)).await;
        texts.push(expect_error(response, StatusCode::NOT_FOUND, "not_found").await);
    }
    assert_eq!(texts[0], texts[1]);
    assert!(owned(&world).await.is_empty());
}

fn snapshot(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {}})
}

async fn launched(world: &World, server: &Value) {
    let detail = ServerDetail {
        server: Some(ProviderServerId("s".to_owned())),
        launched_at: Some(world.ambient.now()),
        ..ServerDetail::default()
    };
    seen(world, server, &detail).await;
}

#[tokio::test]
async fn a_snapshot_is_an_image_with_what_its_source_holds_and_holds_on_to_its_server() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let verb = format!("{}/snapshot", server_path(&server));
    let early = world.send(Method::POST, &verb, &snapshot("saved")).await;
    expect_error(early, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    launched(&world, &server).await;
    let made = expect(world.send(Method::POST, &verb, &snapshot("saved")).await, StatusCode::CREATED).await;
    assert_eq!(made["status"], json!({"state": "creating"}));
    let list = expect(world.get(&images(&world)).await, StatusCode::OK).await;
    let debian = list.as_array().expect("a list").iter().find(|image| image["metadata"]["name"] == "debian");
    assert_eq!(made["spec"], debian.expect("offered")["spec"]);
    assert!(made["metadata"]["tags"].to_string().contains("snapshot"), "{made}");
    let held = world.store.referred_by(&Holder::Resource(key(&made, Kind::Image))).await.expect("reads");
    assert_eq!(held, [key(&server, Kind::Server)]);
    let text = expect_error(world.delete(&server_path(&server)).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use"), "{text}");
    for bad in [json!({"metadata": {"name": "saved"}}), json!({"metadata": {"name": "-"}, "spec": {}})] {
        let response = world.send(Method::POST, &verb, &bad).await;
        expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    // A snapshot of what runs on a snapshot says the same of itself.
    ready(&world, &made).await;
    let mut second = body;
    second["metadata"]["name"] = json!("second");
    second["spec"]["imageId"] = json!(id_of(&made));
    let second = world.made(SERVERS, &second).await;
    launched(&world, &second).await;
    let verb = format!("{}/snapshot", server_path(&second));
    let again = expect(world.send(Method::POST, &verb, &snapshot("again")).await, StatusCode::CREATED).await;
    assert_eq!(again["spec"]["os"], made["spec"]["os"]);
}

#[tokio::test]
async fn a_snapshot_needs_to_see_the_server_and_to_make_images() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    launched(&world, &server).await;
    let verb = format!("{}/snapshot", server_path(&server));
    let blind = world.member("blind", may(Endpoint::Images, &Operation::ALL));
    let response = world.send_as(&blind, Method::POST, &verb, &snapshot("x")).await;
    expect_error(response, StatusCode::NOT_FOUND, "not_found").await;
    let lame = world.member("lame", may(Endpoint::Servers, &Operation::ALL));
    let response = world.send_as(&lame, Method::POST, &verb, &snapshot("x")).await;
    expect_error(response, StatusCode::FORBIDDEN, "forbidden").await;
    let mut grants = may(Endpoint::Servers, &[Operation::Read]);
    grants.extend(may(Endpoint::Images, &[Operation::Create]));
    let able = world.member("able", grants);
    let response = world.send_as(&able, Method::POST, &verb, &snapshot("x")).await;
    let made = expect(response, StatusCode::CREATED).await;
    let record = world.store.get(key(&made, Kind::Image)).await.expect("reads").expect("there");
    assert_eq!(record.metadata.owner, Some(Key::new(Kind::Organization, world.start.organization_id.0)));
}
