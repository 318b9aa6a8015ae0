//! The stream of changes: everything that its reader may read, in order, and nothing else.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use regent::identity::acl::{Acl, Endpoint, Operation};
use regent::model::ids::Kind;
use regent::store::{Batch, Filter, Page, Write};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::servers::key;
use super::{NETWORKS, SECURITY_GROUPS, World, expect, expect_error, id_of, may, network_path};

const EVENTS: &str = "/api/v2/events";

/// One event of a stream.
#[derive(Debug)]
struct Event {
    name: String,
    id: String,
    data: Value,
}

/// A stream that is being read.
struct Reader {
    response: Response,
    text: String,
    /// The id that a client would send to go on.
    last_id: String,
}

impl Reader {
    async fn open(world: &World, bearer: &str, query: &str, after: Option<&str>) -> Self {
        let mut request = world.anonymous(Method::GET, &format!("{EVENTS}{query}")).bearer_auth(bearer);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        let mut reader = Self { response, text: String::new(), last_id: String::new() };
        if after.is_none() {
            // The first heartbeat comes at once, and says where the stream begins.
            assert_eq!(reader.block().await.as_deref(), Some(":"));
        }
        reader
    }

    /// The next block of the stream without its id; `None` at its end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let (ids, others): (Vec<_>, Vec<_>) = block.lines().partition(|line| line.starts_with("id: "));
                ids.first().expect("an id")["id: ".len()..].clone_into(&mut self.last_id);
                return Some(others.join("\n"));
            }
            let chunk = self.response.chunk().await.expect("a stream")?;
            self.text.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
    }

    async fn event(&mut self) -> Event {
        loop {
            let block = self.block().await.expect("the stream goes on");
            if block == ":" {
                continue;
            }
            let field =
                |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).expect("a field").to_owned();
            let data = serde_json::from_str(&field("data: ")).expect("JSON");
            return Event { name: field("event: "), id: self.last_id.clone(), data };
        }
    }
}

fn networks_of(world: &World, name: &str) -> String {
    world.member(name, may(Endpoint::NetworksV2, &[Operation::Read]))
}

#[tokio::test]
async fn what_is_made_changed_used_and_removed_is_told_in_order_on_every_store() {
    for (name, world) in World::on_each_store().await {
        let mut reader = Reader::open(&world, &world.start.token, "?kind=network", None).await;
        let network = world.create(&world.network_body("net")).await;
        let told = reader.event().await;
        assert_eq!((told.name.as_str(), &told.data["kind"]), ("changed", &json!("network")), "{name}");
        assert_eq!(told.data["resource"], network, "{name}");
        assert_eq!(told.data["organizationId"], json!(world.start.organization_id), "{name}");
        let reference =
            format!("{}/references/instances.compute.example.org%2F{}", network_path(&network), world.ambient.uuid());
        for (method, name) in [(Method::PUT, "referenced"), (Method::DELETE, "referenced")] {
            world.request(method, &reference).send().await.expect("an answer");
            assert_eq!(reader.event().await.name, name);
        }
        let record = world.store.get(key(&network, Kind::Network)).await.expect("reads").expect("there");
        let removal = Write::Remove { key: record.key, incarnation: record.metadata.incarnation };
        world.store.commit(Batch::of(vec![removal])).await.expect("commits");
        let told = reader.event().await;
        assert_eq!(told.name, "removed", "{name}");
        assert_eq!(told.data["id"], network["metadata"]["id"], "{name}");
        assert_eq!(told.data.get("resource"), None, "{name}");
    }
}

#[tokio::test]
async fn nothing_of_anybody_else_is_told_and_ids_say_nothing_of_how_much_there_was() {
    let world = World::start().await;
    let stranger = world.stranger().await;
    let mut reader = Reader::open(&world, &networks_of(&world, "reader"), "", None).await;
    let mut foreign = Reader::open(&world, &stranger, "", None).await;
    let start = foreign.last_id.clone();
    let network = world.create(&world.network_body("ours")).await;
    let group = json!({"metadata": {"name": "g"}, "spec": {"networkId": id_of(&network), "rules": []}});
    world.made(SECURITY_GROUPS, &group).await;
    let record = world.store.get(key(&network, Kind::Network)).await.expect("reads").expect("there");
    let last = world.create(&world.network_body("last")).await;
    let (first, second) = (reader.event().await, reader.event().await);
    assert_eq!(first.data["id"], network["metadata"]["id"]);
    assert_eq!(second.data["id"], last["metadata"]["id"], "groups may not be read");
    assert_eq!(first.id.len(), second.id.len());
    assert_ne!(first.id, second.id);
    // The stranger's own change is the first that the stranger hears of.
    let (organization, project) = world.tenant().await;
    let mut acl = Acl::default();
    acl.organizations.entry(organization).or_default().everywhere = may(Endpoint::NetworksV2, &[Operation::Read]);
    world.bearer_of("stranger", acl);
    let mut theirs = (*record).clone();
    theirs.key.id = world.ambient.uuid();
    theirs.metadata.placement.organization = Some(organization);
    theirs.metadata.placement.project = Some(project);
    theirs.metadata.owner = None;
    let id = theirs.key.id.to_string();
    world.store.commit(Batch::of(vec![Write::Insert(Box::new(theirs))])).await.expect("commits");
    let told = foreign.event().await;
    assert_eq!(told.data["id"], json!(id));
    assert_eq!(told.id.len(), start.len());
    // Also what is removed is told to its readers alone.
    let filter = Filter::of(Kind::SecurityGroup);
    let group = world.store.list(&filter, Page::FIRST).await.expect("a list").remove(0);
    let removals =
        [group, record].map(|record| Write::Remove { key: record.key, incarnation: record.metadata.incarnation });
    world.store.commit(Batch::of(removals.to_vec())).await.expect("commits");
    let told = reader.event().await;
    assert_eq!((told.name.as_str(), &told.data["id"]), ("removed", &network["metadata"]["id"]));
}

#[tokio::test]
async fn rights_that_are_lost_are_lost_at_once_and_new_ones_count() {
    let world = World::start().await;
    let bearer = networks_of(&world, "changing");
    let mut reader = Reader::open(&world, &bearer, "", None).await;
    world.create(&world.network_body("one")).await;
    assert_eq!(reader.event().await.data["resource"]["metadata"]["name"], "one");
    world.member("changing", may(Endpoint::SecurityGroupsV2, &[Operation::Read]));
    let network = world.create(&world.network_body("two")).await;
    let group = json!({"metadata": {"name": "g"}, "spec": {"networkId": id_of(&network), "rules": []}});
    world.made(SECURITY_GROUPS, &group).await;
    assert_eq!(reader.event().await.data["kind"], "security-group");
}

#[tokio::test]
async fn whose_token_ends_is_hung_up_on() {
    let world = World::start().await;
    let path = format!("/api/v1/organizations/{}/serviceaccounts", world.start.organization_id);
    let body = json!({"metadata": {"name": "robot"}, "spec": {"groupIDs": []}});
    let account = world.made(&path, &body).await;
    let token = account["status"]["accessToken"].as_str().expect("a token");
    let mut reader = Reader::open(&world, token, "", None).await;
    assert_eq!(world.delete(&format!("{path}/{}", id_of(&account))).await.status(), StatusCode::OK);
    world.create(&world.network_body("news")).await;
    assert_eq!(reader.block().await, None);
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_and_filters_hold() {
    let world = World::start().await;
    let mut reader = Reader::open(&world, &world.start.token, "?kind=network", None).await;
    let begin = reader.last_id.clone();
    for name in ["a", "b", "c"] {
        world.create(&world.network_body(name)).await;
    }
    let first = reader.event().await;
    drop(reader);
    let mut again = Reader::open(&world, &world.start.token, "?kind=network", Some(&first.id)).await;
    for name in ["b", "c"] {
        assert_eq!(again.event().await.data["resource"]["metadata"]["name"], name);
    }
    let project = world.start.project_id;
    let mut whole =
        Reader::open(&world, &world.start.token, &format!("?projectID={project}&kind=network"), Some(&begin)).await;
    assert_eq!(whole.event().await.data["resource"]["metadata"]["name"], "a");
    let elsewhere = format!("?regionID={}", world.ambient.uuid());
    let mut nothing = Reader::open(&world, &world.start.token, &elsewhere, Some(&begin)).await;
    assert!(nothing.response.chunk().await.is_ok_and(|first| first.is_some()), "a heartbeat and nothing else");
}

#[tokio::test]
async fn what_is_no_event_or_no_filter_is_refused() {
    let world = World::start().await;
    for query in ["?kind=nothing", "?organizationID=x", "?name=x"] {
        expect_error(world.get(&format!("{EVENTS}{query}")).await, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    for id in ["1", "x", &"A".repeat(5000)] {
        let request = world.request(Method::GET, EVENTS).header("last-event-id", id);
        expect_error(request.send().await.expect("an answer"), StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    expect_error(
        world.anonymous(Method::GET, EVENTS).send().await.expect("an answer"),
        StatusCode::UNAUTHORIZED,
        "access_denied",
    )
    .await;
    let listed = expect(world.get(NETWORKS).await, StatusCode::OK).await;
    assert_eq!(listed, json!([]));
}

#[tokio::test]
async fn every_stream_ends_when_the_process_does() {
    let world = World::start().await;
    let mut reader = Reader::open(&world, &world.start.token, "", None).await;
    world.api.events.close();
    assert_eq!(reader.block().await, None);
    let mut late = world.get(EVENTS).await;
    assert_eq!(late.status(), StatusCode::OK);
    assert_eq!(late.chunk().await.expect("an end"), None);
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_by_heartbeats_and_a_reader_that_fell_behind_is_told() {
    let world = World::start().await;
    let router = regent::api::router(&world.api);
    let ask = async |after: Option<String>| {
        let mut request =
            Request::builder().uri(EVENTS).header("authorization", format!("Bearer {}", world.start.token));
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let answer = router.clone().oneshot(request.body(Body::empty()).expect("a request")).await.expect("infallible");
        answer.into_body()
    };
    let text = async |body: &mut Body| {
        let frame = body.frame().await.expect("a frame").expect("text");
        String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text")
    };
    let mut body = ask(None).await;
    assert!(text(&mut body).await.starts_with(":\nid: "));
    let before = tokio::time::Instant::now();
    assert!(text(&mut body).await.starts_with(":\nid: "));
    assert_eq!(before.elapsed().as_secs(), regent::api::events::HEARTBEAT.as_secs());
    assert!(before.elapsed() < regent::api::events::HEARTBEAT + Duration::from_secs(1));
    // A position that the store never gave out, as after a restore from a backup.
    let far = regent::api::opaque::sealed(&*world.api.secrets, "event", &format!("{:020}", u64::from(u32::MAX)));
    let mut body = ask(Some(far.expect("sealed"))).await;
    assert!(text(&mut body).await.starts_with("event: resync\nid: "));
}
