//! What happens at the edges: too much, too long, too late, and when the inside fails.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::Request;
use futures_util::FutureExt;
use regent::api::extract::BODY_LEN_MAX;
use regent::api::middleware::IN_FLIGHT_MAX;
use regent::api::router;
use regent::model::ambient::Ambient;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

use super::moody_store::{Mood, MoodyStore, SECRET_WORDS};
use super::{NETWORKS, World, expect_error, memory_store, network_path};

async fn moody_world() -> (World, Arc<MoodyStore>) {
    let ambient = Ambient::system();
    let store = MoodyStore::over(memory_store(&ambient));
    let world = World::over(Arc::clone(&store) as _, ambient).await;
    (world, store)
}

#[tokio::test]
async fn a_body_may_be_as_large_as_the_limit_and_no_larger() {
    let world = World::start().await;
    let padded = |length: usize| {
        let body = world.network_body("padded").to_string();
        let padding = " ".repeat(length - body.len());
        world.request(Method::POST, NETWORKS).header("content-type", "application/json").body(body + &padding)
    };
    let fits = padded(BODY_LEN_MAX).send().await.expect("an answer");
    assert_eq!(fits.status(), StatusCode::CREATED);
    for length in [BODY_LEN_MAX + 1, 8 * BODY_LEN_MAX] {
        let response = padded(length).send().await.expect("an answer");
        expect_error(response, StatusCode::PAYLOAD_TOO_LARGE, "request_entity_too_large").await;
    }
}

#[tokio::test]
async fn a_refused_body_that_nobody_read_does_not_cost_the_next_request_its_connection() {
    let world = World::start().await;
    let body = "x".repeat(BODY_LEN_MAX);
    let mut connection = tokio::net::TcpStream::connect(world.address).await.expect("connects");
    for (method, path, status) in [("PUT", NETWORKS, 405), ("POST", "/nothing", 404), ("POST", NETWORKS, 401)] {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: regent\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.write_all(head.as_bytes()).await.expect("writes");
        connection.write_all(body.as_bytes()).await.expect("writes");
        let mut answer = [0; 12];
        connection.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(answer, format!("HTTP/1.1 {status}").as_bytes(), "{method} {path}");
        // The rest of the answer ends with the only object in it.
        while connection.read_u8().await.expect("reads") != b'}' {}
    }
}

#[tokio::test]
async fn a_store_that_is_away_is_a_503_that_says_nothing_of_it() {
    let (world, store) = moody_world().await;
    let path = network_path(&world.create(&world.network_body("net")).await);
    store.set(Mood::Away);
    let change = json!({"metadata": {"name": "x"}, "spec": {"dnsNameservers": []}});
    let body = world.network_body("new");
    for (method, path, body) in [
        (Method::GET, NETWORKS, &body),
        (Method::POST, NETWORKS, &body),
        (Method::GET, path.as_str(), &body),
        (Method::PUT, path.as_str(), &change),
        (Method::DELETE, path.as_str(), &body),
    ] {
        let response = world.send(method, path, body).await;
        assert!(response.headers().contains_key("retry-after"));
        let text = expect_error(response, StatusCode::SERVICE_UNAVAILABLE, "server_error").await;
        assert!(!text.contains(SECRET_WORDS), "{text}");
    }
    store.set(Mood::Good);
    assert_eq!(world.get(&path).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_panic_is_one_generic_500_and_the_server_goes_on() {
    let (world, store) = moody_world().await;
    let path = network_path(&world.create(&world.network_body("net")).await);
    store.set(Mood::Panicking);
    let text = expect_error(world.get(&path).await, StatusCode::INTERNAL_SERVER_ERROR, "server_error").await;
    assert!(!text.contains(SECRET_WORDS), "{text}");
    store.set(Mood::Good);
    assert_eq!(world.get(&path).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn an_update_that_always_loses_is_tried_a_bounded_number_of_times_and_never_a_conflict() {
    let (world, store) = moody_world().await;
    let path = network_path(&world.create(&world.network_body("net")).await);
    store.set(Mood::Contended);
    let before = store.commits.load(Ordering::SeqCst);
    let change = json!({"metadata": {"name": "x"}, "spec": {"dnsNameservers": []}});
    let response = world.send(Method::PUT, &path, &change).await;
    expect_error(response, StatusCode::SERVICE_UNAVAILABLE, "server_error").await;
    assert_eq!(store.commits.load(Ordering::SeqCst) - before, 16);
}

fn get(world: &World, path: &str) -> Request<Body> {
    let token = format!("Bearer {}", world.start.token);
    Request::get(path).header("authorization", token).body(Body::empty()).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_given_up() {
    let (world, store) = moody_world().await;
    store.set(Mood::Hanging);
    let began = tokio::time::Instant::now();
    let response = router(&world.api).oneshot(get(&world, NETWORKS)).await.expect("infallible");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn more_requests_at_once_than_there_are_places_are_turned_away() {
    let (world, store) = moody_world().await;
    store.set(Mood::Hanging);
    let router = router(&world.api);
    let mut waiting = Vec::new();
    for _ in 0..IN_FLIGHT_MAX {
        let mut request = Box::pin(router.clone().oneshot(get(&world, NETWORKS)));
        assert!((&mut request).now_or_never().is_none(), "it waits for the store");
        waiting.push(request);
    }
    assert_eq!(store.hanging.load(Ordering::SeqCst), IN_FLIGHT_MAX);
    let refused = router.clone().oneshot(get(&world, NETWORKS)).await.expect("infallible");
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers().get("retry-after").expect("a header"), "1");
    waiting.pop();
    store.set(Mood::Good);
    let admitted = router.oneshot(get(&world, NETWORKS)).await.expect("infallible");
    assert_eq!(admitted.status(), StatusCode::OK, "a place was given back");
}
