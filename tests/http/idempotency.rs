//! `Idempotency-Key`: a request that is sent again is answered, and not done again.

use std::sync::Arc;

use regent::identity::acl::{Acl, Endpoint, Operation};
use regent::model::ambient::Ambient;
use regent::model::ids::Kind;
use regent::store::embedded::EmbeddedStore;
use regent::store::{Filter, Page, Store};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::moody_store::{Mood, MoodyStore};
use super::servers::{furnished, path};
use super::{Folder, NETWORKS, SERVERS, World, expect, expect_error, id_of, may, memory_store, network_path};

async fn keyed(world: &World, key: &str, method: Method, path: &str, body: &Value) -> Response {
    let request = world.request(method, path).header("idempotency-key", key);
    let request = if body.is_null() { request } else { request.json(body) };
    request.send().await.expect("an answer")
}

fn is_replayed(response: &Response) -> bool {
    response.headers().get("idempotency-replayed").is_some_and(|value| value == "true")
}

async fn networks(world: &World) -> usize {
    world.store.list(&Filter::of(Kind::Network), Page::FIRST).await.expect("a list").len()
}

#[tokio::test]
async fn the_same_request_is_done_once_and_answered_alike_on_every_store() {
    for (name, world) in World::on_each_store().await {
        let body = world.network_body("once");
        let first = keyed(&world, "k-1", Method::POST, NETWORKS, &body).await;
        assert!(!is_replayed(&first), "{name}");
        let tag = first.headers().get("etag").cloned();
        assert!(tag.is_some(), "{name}");
        let first = expect(first, StatusCode::CREATED).await;
        let again = keyed(&world, "k-1", Method::POST, NETWORKS, &body).await;
        assert!(is_replayed(&again), "{name}");
        assert_eq!(again.headers().get("etag").cloned(), tag, "{name}");
        assert_eq!(again.headers()["content-type"], "application/json", "{name}");
        assert_eq!(expect(again, StatusCode::CREATED).await, first, "{name}");
        assert_eq!(networks(&world).await, 1, "{name}");
        let other_key = keyed(&world, "k-2", Method::POST, NETWORKS, &body).await;
        assert_ne!(expect(other_key, StatusCode::CREATED).await["metadata"]["id"], first["metadata"]["id"], "{name}");
        let without = world.send(Method::POST, NETWORKS, &body).await;
        assert_eq!(without.status(), StatusCode::CREATED, "{name}");
        assert_eq!(networks(&world).await, 3, "{name}");
    }
}

#[tokio::test]
async fn another_question_under_the_same_key_is_refused() {
    let world = World::start().await;
    let first = keyed(&world, "k", Method::POST, NETWORKS, &world.network_body("a")).await;
    let network = expect(first, StatusCode::CREATED).await;
    let other = keyed(&world, "k", Method::POST, NETWORKS, &world.network_body("b")).await;
    expect_error(other, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    assert_eq!(networks(&world).await, 1);
    // Another path is another request, and so is another method on the same path.
    let path = network_path(&network);
    let update = json!({"metadata": {"name": "c"}, "spec": {"dnsNameservers": []}});
    expect(keyed(&world, "k", Method::PUT, &path, &update).await, StatusCode::ACCEPTED).await;
    let deleted = keyed(&world, "k", Method::DELETE, &path, &Value::Null).await;
    assert_eq!((deleted.status(), is_replayed(&deleted)), (StatusCode::ACCEPTED, false));
    let again = keyed(&world, "k", Method::DELETE, &path, &Value::Null).await;
    assert_eq!((again.status(), is_replayed(&again)), (StatusCode::ACCEPTED, true));
    assert_eq!(again.text().await.expect("a body"), "");
}

#[tokio::test]
async fn a_key_belongs_to_whoever_sent_it() {
    let world = World::start().await;
    let body = world.network_body("mine");
    let first = expect(keyed(&world, "k", Method::POST, NETWORKS, &body).await, StatusCode::CREATED).await;
    let colleague = world.member("colleague", may(Endpoint::NetworksV2, &Operation::ALL));
    let request = world.anonymous(Method::POST, NETWORKS).bearer_auth(&colleague).header("idempotency-key", "k");
    let second = request.json(&body).send().await.expect("an answer");
    assert!(!is_replayed(&second));
    assert_ne!(id_of(&expect(second, StatusCode::CREATED).await), id_of(&first));
}

#[tokio::test]
async fn an_answer_is_not_given_again_to_whoever_has_lost_every_right_to_it() {
    let world = World::start().await;
    let body = world.network_body("lost");
    let ask = async || {
        let request = world.anonymous(Method::POST, NETWORKS).bearer_auth("leaver").header("idempotency-key", "k");
        request.json(&body).send().await.expect("an answer")
    };
    world.member("leaver", may(Endpoint::NetworksV2, &[Operation::Create]));
    expect(ask().await, StatusCode::CREATED).await;
    expect(ask().await, StatusCode::CREATED).await;
    world.bearer_of("leaver", Acl::default());
    expect_error(ask().await, StatusCode::FORBIDDEN, "forbidden").await;
    assert_eq!(networks(&world).await, 1);
}

#[tokio::test]
async fn what_was_refused_is_not_remembered() {
    let world = World::start().await;
    let mut body = world.network_body("late");
    let project = body["spec"]["projectId"].take();
    body["spec"]["projectId"] = json!(world.ambient.uuid());
    expect_error(keyed(&world, "k", Method::POST, NETWORKS, &body).await, StatusCode::NOT_FOUND, "not_found").await;
    body["spec"]["projectId"] = project;
    expect(keyed(&world, "k", Method::POST, NETWORKS, &body).await, StatusCode::CREATED).await;
}

#[tokio::test]
async fn a_key_that_is_no_key_is_refused_and_nothing_is_done() {
    let world = World::start().await;
    for bad in ["", "a b", &"x".repeat(256)] {
        let response = keyed(&world, bad, Method::POST, NETWORKS, &world.network_body("x")).await;
        expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    assert_eq!(networks(&world).await, 0);
    let request = world.anonymous(Method::POST, NETWORKS).header("idempotency-key", "k");
    let response = request.json(&world.network_body("x")).send().await.expect("an answer");
    expect_error(response, StatusCode::UNAUTHORIZED, "access_denied").await;
    let wrong = keyed(&world, "k", Method::DELETE, NETWORKS, &Value::Null).await;
    assert!(wrong.headers().contains_key("allow"));
    expect_error(wrong, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed").await;
}

#[tokio::test]
async fn a_secret_is_never_given_twice() {
    let world = World::start().await;
    let path = format!("/api/v1/organizations/{}/serviceaccounts", world.start.organization_id);
    let body = json!({"metadata": {"name": "robot"}, "spec": {"groupIDs": []}});
    let first = keyed(&world, "k", Method::POST, &path, &body).await;
    assert_eq!(first.headers()["cache-control"], "no-store");
    let first = expect(first, StatusCode::CREATED).await;
    let token = first["status"]["accessToken"].as_str().expect("a token").to_owned();
    let again = keyed(&world, "k", Method::POST, &path, &body).await;
    let text = expect_error(again, StatusCode::CONFLICT, "conflict").await;
    assert!(text.contains("rotate") && !text.contains(&token), "{text}");
    let listed = expect(world.get(&path).await, StatusCode::OK).await;
    assert_eq!(listed.as_array().expect("a list").len(), 1);
    let with_token = world.anonymous(Method::GET, "/api/version").bearer_auth(&token);
    assert_eq!(with_token.send().await.expect("an answer").status(), StatusCode::OK, "what was shown is what counts");
}

#[tokio::test]
async fn a_member_that_is_made_with_a_key_shows_the_groups_it_was_put_into() {
    let world = World::start().await;
    let organization = format!("/api/v1/organizations/{}", world.start.organization_id);
    let group = json!({"metadata": {"name": "g"}, "spec": {"roleIDs": [], "serviceAccountIDs": []}});
    let group = world.made(&format!("{organization}/groups"), &group).await;
    let body = json!({"metadata": {"name": "robot"}, "spec": {"groupIDs": [id_of(&group)]}});
    let path = format!("{organization}/serviceaccounts");
    let made = expect(keyed(&world, "k", Method::POST, &path, &body).await, StatusCode::CREATED).await;
    assert_eq!(made["spec"]["groupIDs"], json!([id_of(&group)]));
    let listed = expect(world.get(&path).await, StatusCode::OK).await;
    assert_eq!(listed[0]["spec"]["groupIDs"], json!([id_of(&group)]));
}

#[tokio::test]
async fn duplicates_in_flight_wait_and_all_get_the_first_answer() {
    let ambient = Ambient::system();
    let store = MoodyStore::over(memory_store(&ambient));
    let world = World::over(Arc::clone(&store) as _, ambient).await;
    let body = world.network_body("storm");
    store.set(Mood::Hanging);
    let asked = async {
        let asks = (0..8).map(|_| keyed(&world, "k", Method::POST, NETWORKS, &body));
        futures_util::future::join_all(asks).await
    };
    let released = async {
        while store.hanging.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        store.set(Mood::Good);
    };
    let (answers, ()) = tokio::join!(asked, released);
    let replays = answers.iter().filter(|answer| is_replayed(answer)).count();
    assert_eq!(replays, 7);
    let mut ids = std::collections::BTreeSet::new();
    for answer in answers {
        ids.insert(id_of(&expect(answer, StatusCode::CREATED).await).to_owned());
    }
    assert_eq!((ids.len(), networks(&world).await), (1, 1));
}

/// A runtime of its own for each life: what the first one served goes with it, and lets go of the folder.
fn life<T>(life: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(life)
}

#[test]
fn an_answer_survives_a_restart() {
    let (folder, ambient) = (Folder::new(), Ambient::system());
    let open = || -> Arc<dyn Store> { Arc::new(EmbeddedStore::open(&folder.0, ambient.clone()).expect("opens")) };
    let (first, start, body) = life(async {
        let world = World::over(open(), ambient.clone()).await;
        let body = world.network_body("durable");
        let first = expect(keyed(&world, "k", Method::POST, NETWORKS, &body).await, StatusCode::CREATED).await;
        (first, world.start.clone(), body)
    });
    life(async {
        let world = World::again(open(), ambient.clone(), start).await;
        let again = keyed(&world, "k", Method::POST, NETWORKS, &body).await;
        assert!(is_replayed(&again));
        assert_eq!(expect(again, StatusCode::CREATED).await, first);
        assert_eq!(networks(&world).await, 1);
    });
}

#[tokio::test]
async fn a_verb_with_a_key_is_written_down_once() {
    let (world, _, body) = furnished().await;
    let path = format!("{}/stop", path(&world.made(SERVERS, &body).await));
    for replayed in [false, true] {
        let response = keyed(&world, "k", Method::POST, &path, &Value::Null).await;
        assert_eq!((response.status(), is_replayed(&response)), (StatusCode::ACCEPTED, replayed));
    }
    let operations = world.store.list(&Filter::of(Kind::Operation), Page::FIRST).await.expect("a list");
    assert_eq!(operations.len(), 1);
}
