//! `ETag` and `If-Match`: a change is made to what was read, or not at all.

use regent::model::ids::Kind;
use regent::model::server::{ServerDetail, ServerPhase};
use regent::store::{Batch, Write};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::servers::{furnished, key, path, seen};
use super::{AUTHORITIES, SECURITY_GROUPS, SERVERS, World, expect, expect_error, id_of, network_path};

fn tag(response: &Response) -> String {
    response.headers().get("etag").expect("a tag").to_str().expect("ascii").to_owned()
}

async fn put(world: &World, path: &str, tag: &str, body: &Value) -> Response {
    world.request(Method::PUT, path).header("if-match", tag).json(body).send().await.expect("an answer")
}

fn update(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"dnsNameservers": []}})
}

#[tokio::test]
async fn every_read_and_write_of_one_resource_says_its_tag_which_changes_with_the_intent_alone() {
    let (world, network, body) = furnished().await;
    let created = world.send(Method::POST, SERVERS, &body).await;
    let first = tag(&created);
    let server = expect(created, StatusCode::CREATED).await;
    assert_eq!(tag(&world.get(&path(&server)).await), first);
    seen(&world, &server, &ServerDetail { phase: ServerPhase::Running, ..ServerDetail::default() }).await;
    assert_eq!(tag(&world.get(&path(&server)).await), first, "what the cloud does is not what was asked for");
    let updated = world.send(Method::PUT, &network_path(&network), &update("other")).await;
    let after = tag(&updated);
    assert_eq!(tag(&world.get(&network_path(&network)).await), after);
    for collection in [SECURITY_GROUPS, AUTHORITIES] {
        let mut body = json!({"metadata": {"name": "x"}, "spec": {"networkId": id_of(&network), "rules": []}});
        if collection == AUTHORITIES {
            body = super::ssh_certificate_authorities::body(&world, "x");
        }
        let made = world.made(collection, &body).await;
        tag(&world.get(&format!("{collection}/{}", id_of(&made))).await);
    }
}

#[tokio::test]
async fn a_change_to_something_else_than_was_read_is_refused_on_every_store() {
    for (name, world) in World::on_each_store().await {
        let created = world.send(Method::POST, super::NETWORKS, &world.network_body("a")).await;
        let first = tag(&created);
        let path = network_path(&expect(created, StatusCode::CREATED).await);
        let updated = put(&world, &path, &first, &update("b")).await;
        let second = tag(&updated);
        assert_eq!(expect(updated, StatusCode::ACCEPTED).await["metadata"]["name"], "b", "{name}");
        let text =
            expect_error(put(&world, &path, &first, &update("c")).await, StatusCode::PRECONDITION_FAILED, "conflict");
        assert!(text.await.contains("If-Match"), "{name}");
        let weak = format!("W/{second}");
        expect_error(put(&world, &path, &weak, &update("c")).await, StatusCode::PRECONDITION_FAILED, "conflict").await;
        assert_eq!(expect(world.get(&path).await, StatusCode::OK).await["metadata"]["name"], "b", "{name}");
        let either = format!("{first}, {second}");
        expect(put(&world, &path, &either, &update("d")).await, StatusCode::ACCEPTED).await;
        expect(put(&world, &path, "*", &update("e")).await, StatusCode::ACCEPTED).await;
        let delete = async |tag: &str| {
            let request = world.request(Method::DELETE, &path).header("if-match", tag);
            request.send().await.expect("an answer")
        };
        expect_error(delete(&second).await, StatusCode::PRECONDITION_FAILED, "conflict").await;
        let latest = tag(&world.get(&path).await);
        assert_eq!(delete(&latest).await.status(), StatusCode::ACCEPTED, "{name}");
        assert_eq!(delete(&latest).await.status(), StatusCode::ACCEPTED, "{name}: asked already is fine");
    }
}

#[tokio::test]
async fn a_namesake_is_not_what_was_read() {
    let (world, _, body) = furnished().await;
    let created = world.send(Method::POST, SERVERS, &body).await;
    let first = tag(&created);
    let server = expect(created, StatusCode::CREATED).await;
    let record = world.store.get(key(&server, Kind::Server)).await.expect("reads").expect("there");
    let incarnation = record.metadata.incarnation;
    let writes = vec![Write::ReleaseReferences { holder: record.key }, Write::Remove { key: record.key, incarnation }];
    world.store.commit(Batch::of(writes)).await.expect("commits");
    let namesake = world.made(SERVERS, &body).await;
    assert_eq!(id_of(&namesake), id_of(&server));
    let request = world.request(Method::DELETE, &path(&server)).header("if-match", &first);
    expect_error(request.send().await.expect("an answer"), StatusCode::PRECONDITION_FAILED, "conflict").await;
}

#[tokio::test]
async fn what_is_hidden_stays_hidden_whatever_tag_is_sent() {
    let world = World::start().await;
    let network = world.create(&world.network_body("mine")).await;
    let stranger = world.stranger().await;
    let mut texts = Vec::new();
    for id in [id_of(&network).to_owned(), world.ambient.uuid().to_string()] {
        let request = world.anonymous(Method::DELETE, &format!("{}/{id}", super::NETWORKS)).bearer_auth(&stranger);
        let response = request.header("if-match", "\"x\"").send().await.expect("an answer");
        texts.push(expect_error(response, StatusCode::NOT_FOUND, "not_found").await);
    }
    assert_eq!(texts[0], texts[1]);
    let bad = put(&world, &network_path(&network), "unquoted", &update("x")).await;
    expect_error(bad, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn of_many_who_read_the_same_state_one_changes_it() {
    let world = World::start().await;
    let created = world.send(Method::POST, super::NETWORKS, &world.network_body("a")).await;
    let (first, network) = (tag(&created), expect(created, StatusCode::CREATED).await);
    let (path, bodies) =
        (network_path(&network), (0..8).map(|number| update(&format!("n{number}"))).collect::<Vec<_>>());
    let asks = bodies.iter().map(|body| put(&world, &path, &first, body));
    let codes = futures_util::future::join_all(asks).await.iter().map(Response::status).collect::<Vec<_>>();
    assert_eq!(codes.iter().filter(|code| **code == StatusCode::ACCEPTED).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == StatusCode::PRECONDITION_FAILED).count(), 7, "{codes:?}");
}

#[tokio::test]
async fn tenants_have_tags_too() {
    let world = World::start().await;
    let organization = format!("/api/v1/organizations/{}", world.start.organization_id);
    let project = format!("{organization}/projects/{}", world.start.project_id);
    let body = json!({"metadata": {"name": "renamed"}, "spec": {"groupIDs": []}});
    let first = tag(&world.get(&project).await);
    assert_eq!(put(&world, &project, &first, &body).await.status(), StatusCode::OK);
    expect_error(put(&world, &project, &first, &body).await, StatusCode::PRECONDITION_FAILED, "conflict").await;
    assert_ne!(tag(&world.get(&project).await), first);
    tag(&world.get(&organization).await);
}

#[tokio::test]
async fn a_wrong_method_and_a_missing_token_are_refused_before_a_malformed_precondition() {
    let world = World::start().await;
    let path = network_path(&world.create(&world.network_body("net")).await);
    let malformed = |request: reqwest::RequestBuilder| request.header("if-match", "no tag").send();
    let wrong = malformed(world.request(Method::POST, &path)).await.expect("an answer");
    assert!(wrong.headers().contains_key("allow"));
    expect_error(wrong, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed").await;
    let anonymous = malformed(world.anonymous(Method::DELETE, &path)).await.expect("an answer");
    expect_error(anonymous, StatusCode::UNAUTHORIZED, "access_denied").await;
    let known = malformed(world.request(Method::DELETE, &path)).await.expect("an answer");
    expect_error(known, StatusCode::BAD_REQUEST, "invalid_request").await;
    assert_eq!(world.get(&path).await.status(), StatusCode::OK);
}
