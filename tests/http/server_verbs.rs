//! What can be done to a server besides changing it.

use axum::body::Body;
use axum::http::Request;
use regent::identity::acl::{Endpoint, Operation};
use regent::model::identity::{IdentityDetail, KeyPair};
use regent::model::ids::{Key, Kind, OperationId, ProviderServerId};
use regent::model::operation::{Operation as ServerOperation, OperationDetail, OperationFailure, OperationSpec, Verb};
use regent::model::record::{Document, Record, Resource};
use regent::model::server::ServerDetail;
use regent::providers::ProviderError;
use regent::store::{Batch, Filter, Page, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::servers::{furnished, key, path, seen};
use super::{SERVERS, World, envelope, expect, expect_error, may};

/// Waits for the next open operation and ends it as an actor would: in the store, and then for who waits.
pub async fn ended(world: &World, detail: OperationDetail) -> Resource<ServerOperation> {
    let mut latest = world.store.latest();
    loop {
        let records = world.store.list(&Filter::of(Kind::Operation), Page::FIRST).await.expect("reads");
        let operations = records.iter().map(|record| record.open::<ServerOperation>().expect("opens"));
        if let Some(operation) = operations.into_iter().find(|operation| operation.detail.is_open()) {
            let status = Write::Status {
                key: operation.key,
                incarnation: operation.metadata.incarnation,
                conditions: Box::default(),
                detail: Document::of(&detail),
                transitions: vec![],
            };
            world.store.commit(Batch::of(vec![status])).await.expect("commits");
            world.api.completions.complete(OperationId(operation.key.id), detail);
            return operation;
        }
        latest.changed().await.expect("the store lives");
    }
}

fn failed(cause: OperationFailure) -> OperationDetail {
    OperationDetail::Failed { cause, message: "said by a cloud".to_owned() }
}

const SUCCEEDED: OperationDetail = OperationDetail::Succeeded { result: None };

#[tokio::test]
async fn a_power_verb_is_written_down_done_and_answered() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    for (word, verb) in [
        ("start", Verb::Start),
        ("stop", Verb::Stop),
        ("softreboot", Verb::SoftReboot),
        ("hardreboot", Verb::HardReboot),
    ] {
        let asked = world.request(Method::POST, &format!("{}/{word}", path(&server))).send();
        let (answer, operation) = tokio::join!(asked, ended(&world, SUCCEEDED));
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), StatusCode::ACCEPTED, "{word}");
        assert_eq!(answer.text().await.expect("a body"), "");
        let target = key(&server, Kind::Server);
        assert_eq!((operation.spec.verb, operation.spec.target), (verb, target));
        assert_eq!(operation.metadata.owner, Some(target));
        assert!(operation.metadata.placement.network.is_some(), "it lies where its server does");
    }
}

#[tokio::test]
async fn how_a_verb_failed_is_told_in_our_own_words() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    for (cause, status, word) in [
        (OperationFailure::NotFound, StatusCode::NOT_FOUND, "not_found"),
        (OperationFailure::Conflict, StatusCode::BAD_REQUEST, "invalid_request"),
        (OperationFailure::Unavailable, StatusCode::SERVICE_UNAVAILABLE, "server_error"),
    ] {
        for (method, tail) in [(Method::POST, "start"), (Method::GET, "consolesessions")] {
            let asked = world.request(method, &format!("{}/{tail}", path(&server))).send();
            let (answer, _) = tokio::join!(asked, ended(&world, failed(cause)));
            let text = expect_error(answer.expect("an answer"), status, word).await;
            assert!(!text.contains("said by a cloud"), "{text}");
            assert!(cause != OperationFailure::Conflict || text.contains("in its current state"), "{text}");
        }
    }
}

/// A request in the test's own runtime, whose time can be turned.
async fn asked(world: &World, method: &str, path: &str) -> StatusCode {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("authorization", format!("Bearer {}", world.start.token));
    let request = request.body(Body::empty()).expect("a request");
    regent::api::router(&world.api).oneshot(request).await.expect("infallible").status()
}

#[tokio::test(start_paused = true)]
async fn a_verb_that_takes_long_is_accepted_and_a_console_is_not_waited_for() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    assert_eq!(asked(&world, "POST", &format!("{}/stop", path(&server))).await, StatusCode::ACCEPTED);
    let console = asked(&world, "GET", &format!("{}/consolesessions", path(&server))).await;
    assert_eq!(console, StatusCode::SERVICE_UNAVAILABLE);
    let open = world.store.list(&Filter::of(Kind::Operation), Page::FIRST).await.expect("reads");
    let verbs = open.iter().map(|record| record.open::<ServerOperation>().expect("opens").spec.verb);
    assert!(verbs.clone().count() == 2 && verbs.into_iter().any(|verb| verb == Verb::Stop), "both are on record");
}

#[tokio::test]
async fn a_server_takes_so_many_verbs_and_no_more() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let target = key(&server, Kind::Server);
    let record = world.store.get(target).await.expect("reads").expect("there");
    let spec = OperationSpec { target, verb: Verb::Stop, expires: world.ambient.now() };
    let operation = |_| {
        let metadata = regent::model::metadata::Metadata { owner: Some(target), ..record.metadata.clone() };
        Write::Insert(Box::new(Record::new::<ServerOperation>(world.ambient.uuid(), metadata, &spec)))
    };
    world.store.commit(Batch::of((0..16).map(operation).collect())).await.expect("commits");
    let refused = world.request(Method::POST, &format!("{}/start", path(&server))).send().await.expect("an answer");
    expect_error(refused, StatusCode::BAD_REQUEST, "invalid_request").await;
    // One that has ended makes room for another.
    ended(&world, SUCCEEDED).await;
    let before = world.store.list(&Filter::of(Kind::Operation), Page::FIRST).await.expect("reads").len();
    let asked = world.request(Method::POST, &format!("{}/start", path(&server))).send();
    let all_end = async {
        for _ in 0..16 {
            ended(&world, SUCCEEDED).await;
        }
    };
    let (answer, ()) = tokio::join!(asked, all_end);
    assert_eq!(answer.expect("an answer").status(), StatusCode::ACCEPTED);
    let after = world.store.list(&Filter::of(Kind::Operation), Page::FIRST).await.expect("reads").len();
    assert_eq!(after, before + 1);
}

#[tokio::test]
async fn a_server_that_goes_takes_no_verb() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    assert_eq!(world.delete(&path(&server)).await.status(), StatusCode::ACCEPTED);
    let refused = world.request(Method::POST, &format!("{}/start", path(&server))).send().await.expect("an answer");
    let text = expect_error(refused, StatusCode::BAD_REQUEST, "invalid_request").await;
    assert!(text.contains("being deleted"), "{text}");
}

#[tokio::test]
async fn b9_power_needs_update_and_what_lets_people_in_needs_its_own_permission() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let reader = world.member("reader", may(Endpoint::Servers, &[Operation::Read]));
    let every = world.member("every", may(Endpoint::Servers, &Operation::ALL));
    for (bearer, method, tail, needed) in [
        (&reader, Method::POST, "start", "update on region:servers"),
        (&reader, Method::POST, "stop", "update on region:servers"),
        (&reader, Method::POST, "softreboot", "update on region:servers"),
        (&reader, Method::POST, "hardreboot", "update on region:servers"),
        (&every, Method::GET, "consolesessions", "read on region:servers/secrets"),
        (&every, Method::GET, "sshkey", "read on region:servers/secrets"),
    ] {
        let refused = world.send_as(bearer, method, &format!("{}/{tail}", path(&server)), &json!(null)).await;
        let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains(needed), "{text}");
    }
    assert!(world.store.list(&Filter::of(Kind::Operation), Page::FIRST).await.expect("reads").is_empty());
}

#[tokio::test]
async fn a_console_session_is_opened_for_its_asker_alone() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let address = "https://console.example.org/?token=hunter2".to_owned();
    let sealed = envelope().seal(&address).expect("seals");
    let asked = world.request(Method::GET, &format!("{}/consolesessions", path(&server))).send();
    let (answer, _) = tokio::join!(asked, ended(&world, OperationDetail::Succeeded { result: Some(sealed) }));
    let answer = answer.expect("an answer");
    assert_eq!(answer.headers().get("cache-control").expect("a header"), "no-store");
    assert_eq!(expect(answer, StatusCode::OK).await, json!({"url": address}));
}

#[tokio::test]
async fn what_the_console_showed_comes_from_the_cloud() {
    let (world, _, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let output = format!("{}/consoleoutput", path(&server));
    expect_error(world.get(&output).await, StatusCode::NOT_FOUND, "not_found").await;
    seen(&world, &server, &ServerDetail { server: Some(ProviderServerId("s".to_owned())), ..ServerDetail::default() })
        .await;
    assert_eq!(expect(world.get(&output).await, StatusCode::OK).await, json!({"contents": "booted\n"}));
    let last = expect(world.get(&format!("{output}?length=5")).await, StatusCode::OK).await;
    assert_eq!(last, json!({"contents": "the last 5 of booted\n"}));
    for bad in ["length=0", "length=-1", "length=10001", "length=x", "lines=1"] {
        let refused = world.get(&format!("{output}?{bad}")).await;
        let text = expect_error(refused, StatusCode::BAD_REQUEST, "invalid_request").await;
        assert!(text.contains("invalid path/query element"), "{text}");
    }
    *world.cloud.console.lock().expect("not poisoned") = Err(ProviderError::Unavailable("said by a cloud".to_owned()));
    let away = expect_error(world.get(&output).await, StatusCode::SERVICE_UNAVAILABLE, "server_error").await;
    assert!(!away.contains("said by a cloud"), "{away}");
}

/// Says of a server's principal that it has a key pair.
pub async fn given_key_pair(world: &World, server: &Value) -> Key {
    let record = world.store.get(key(server, Kind::Server)).await.expect("reads").expect("there");
    let identity = record.metadata.placement.identity.expect("a principal").key();
    let principal = world.store.get(identity).await.expect("reads").expect("there");
    let private_key = envelope().seal(&"hunter2".to_owned()).expect("seals");
    let key_pair = Some(KeyPair { public_key: "ssh-ed25519 x".to_owned(), private_key });
    let status = Write::Status {
        key: identity,
        incarnation: principal.metadata.incarnation,
        conditions: Box::default(),
        detail: Document::of(&IdentityDetail { key_pair, ..IdentityDetail::default() }),
        transitions: vec![],
    };
    world.store.commit(Batch::of(vec![status])).await.expect("commits");
    identity
}

#[tokio::test]
async fn b33_the_private_key_is_sealed_at_rest_and_there_only_for_servers_that_take_it() {
    let (world, _, mut body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let key_path = |server: &Value| format!("{}/sshkey", path(server));
    expect_error(world.get(&key_path(&server)).await, StatusCode::NOT_FOUND, "not_found").await;
    let identity = given_key_pair(&world, &server).await;
    let stored = world.store.get(identity).await.expect("reads").expect("there");
    assert!(!stored.detail.text().contains("hunter2"));
    let answer = world.get(&key_path(&server)).await;
    assert_eq!(answer.headers().get("cache-control").expect("a header"), "no-store");
    assert_eq!(expect(answer, StatusCode::OK).await, json!({"privateKey": "hunter2"}));
    body["metadata"]["name"] = json!("closed");
    body["spec"]["sshInjection"] = json!("none");
    let closed = world.made(SERVERS, &body).await;
    expect_error(world.get(&key_path(&closed)).await, StatusCode::NOT_FOUND, "not_found").await;
}
