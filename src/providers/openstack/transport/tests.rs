//! What a misbehaving cloud does to a call. A well-behaved one is a real one: see the tests of the whole provider.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use openstack_sdk_compute::v2::server::get_20 as get_server;
use openstack_sdk_core::api::QueryAsync;
use openstack_sdk_network::v2::network::get as get_network;
use serde_json::{Value, json};

use super::*;
use crate::model::openstack::Interface;
use crate::providers::{ProviderError, ProviderResult};

#[derive(Default)]
struct Fake {
    address: Mutex<String>,
    log_ins: AtomicUsize,
    scopes: Mutex<Vec<Value>>,
    versions: Mutex<Vec<String>>,
}

async fn log_in(State(fake): State<Arc<Fake>>, body: String) -> Response {
    let asked: Value = serde_json::from_str(&body).expect("JSON");
    if asked["auth"]["identity"]["password"]["user"]["password"] == "wrong" {
        return (StatusCode::UNAUTHORIZED, "{}").into_response();
    }
    fake.scopes.lock().expect("lock").push(asked["auth"]["scope"].clone());
    let number = fake.log_ins.fetch_add(1, Ordering::Relaxed);
    let address = fake.address.lock().expect("lock").clone();
    let endpoint = |path: &str| json!([{ "interface": "public", "region_id": "one", "url": format!("{address}/{path}"), "id": "e" }]);
    let body = json!({ "token": {
        "issued_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2026-01-01T01:00:00.000000Z",
        "user": { "id": "u" }, "project": { "id": "p" },
        "catalog": [
            { "type": "network", "endpoints": endpoint("network") },
            { "type": "compute", "endpoints": endpoint("compute/v2.1/p") },
        ],
    }});
    (StatusCode::CREATED, [("x-subject-token", format!("token-{number}"))], body.to_string()).into_response()
}

async fn network(Path(id): Path<String>, headers: HeaderMap) -> Response {
    let service = [("x-openstack-request-id", "req-1")];
    let well = json!({ "network": { "id": id } }).to_string();
    match id.as_str() {
        "ended" if headers["x-auth-token"] == "token-0" => StatusCode::UNAUTHORIZED.into_response(),
        "forbidden" => (StatusCode::UNAUTHORIZED, service).into_response(),
        "gone" => (StatusCode::NOT_FOUND, service, "<html>").into_response(),
        "nowhere" => (StatusCode::NOT_FOUND, "<html>no such page</html>").into_response(),
        "down" => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        "busy" => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")]).into_response(),
        "elsewhere" => (StatusCode::FOUND, [("location", "http://127.0.0.1:1/")]).into_response(),
        "garbled" => "<html>".into_response(),
        "long" => vec![b' '; BODY_LEN_MAX + 1].into_response(),
        _ => well.into_response(),
    }
}

async fn server(State(fake): State<Arc<Fake>>, headers: HeaderMap) -> String {
    let said = headers.get("openstack-api-version").map(|version| version.to_str().expect("text").to_owned());
    fake.versions.lock().expect("lock").push(said.unwrap_or_default());
    json!({ "server": { "id": "s" } }).to_string()
}

async fn fake(version: &'static str) -> Arc<Fake> {
    let fake = Arc::new(Fake::default());
    let document = json!({ "version": { "id": "v2.1", "min_version": "2.1", "version": version } }).to_string();
    let router = Router::new()
        .route("/v3/auth/tokens", post(log_in))
        .route("/network/v2.0/networks/{id}", get(network))
        .route("/compute/v2.1/", get(move || async move { document }))
        .route("/compute/v2.1/servers/{id}", get(server))
        .with_state(Arc::clone(&fake));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    *fake.address.lock().expect("lock") = format!("http://{}", listener.local_addr().expect("an address"));
    crate::actors::tasks::spawn("a fake cloud", async move {
        axum::serve(listener, router).await.expect("serves");
    });
    fake
}

fn client(fake: &Fake, password: &str, region: &str) -> Client {
    let selection = Selection { region: Some(region.to_owned()), interface: Interface::Public };
    let cloud = Cloud::new(&fake.address.lock().expect("lock"), selection, None).expect("a way");
    let proof = Proof::Password { user: Reference::Id("u".to_owned()), password: Secret::new(password.to_owned()) };
    let login = Login { proof, scope: Scope::Project(Reference::Id("p".to_owned())) };
    Client::new(Arc::new(cloud), login)
}

async fn ask(client: &Client, id: &str) -> ProviderResult<Value> {
    let endpoint = get_network::Request::builder().id(id).build().expect("a request");
    endpoint.query_async(client).await.map_err(provider_error)
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_once_in_the_same_scope() {
    let fake = fake("2.104").await;
    let client = client(&fake, "right", "one");
    assert_eq!(ask(&client, "ended").await.expect("answered")["id"], "ended");
    assert_eq!(fake.log_ins.load(Ordering::Relaxed), 2);
    assert_eq!(ask(&client, "forbidden").await, Err(ProviderError::Unauthorized));
    assert_eq!(fake.log_ins.load(Ordering::Relaxed), 3, "who is refused with a new token is refused");
    ask(&client, "well").await.expect("answered");
    assert_eq!(fake.log_ins.load(Ordering::Relaxed), 3);
    let scopes = fake.scopes.lock().expect("lock").clone();
    assert!(scopes.iter().all(|scope| scope["project"]["id"] == "p"), "{scopes:?}");
}

#[tokio::test]
async fn what_is_gone_is_told_from_what_is_down_and_from_what_is_nowhere() {
    let fake = fake("2.104").await;
    let client = client(&fake, "right", "one");
    assert_eq!(ask(&client, "gone").await, Err(ProviderError::NotFound));
    for id in ["nowhere", "down", "elsewhere", "garbled", "long"] {
        let answer = ask(&client, id).await;
        assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "{id}: {answer:?}");
    }
    let throttled = ProviderError::Throttled { retry_after: Some(Duration::from_secs(7)) };
    assert_eq!(ask(&client, "busy").await, Err(throttled));
}

#[tokio::test]
async fn wrong_passwords_and_wrong_regions_are_said_without_secrets() {
    let fake = fake("2.104").await;
    assert_eq!(ask(&client(&fake, "wrong", "one"), "well").await, Err(ProviderError::Unauthorized));
    let Err(ProviderError::Unavailable(reason)) = ask(&client(&fake, "hunter2", "two"), "well").await else {
        panic!("there is no such region");
    };
    assert!(reason.contains("network") && reason.contains("two") && !reason.contains("hunter2"), "{reason}");
}

#[tokio::test]
async fn every_call_says_the_microversion_that_was_agreed() {
    for (newest, agreed) in [("2.104", "compute 2.90"), ("2.79", "compute 2.79")] {
        let fake = fake(newest).await;
        let client = client(&fake, "right", "one");
        for _ in 0..2 {
            let endpoint = get_server::Request::builder().id("s").build().expect("a request");
            let answer: Result<Value, _> = endpoint.query_async(&client).await;
            answer.expect("answered");
        }
        assert_eq!(*fake.versions.lock().expect("lock"), [agreed, agreed]);
    }
}
