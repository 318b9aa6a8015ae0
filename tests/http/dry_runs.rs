//! `?dryRun=true`: everything is checked and told, and nothing is written.

use regent::identity::acl::{Endpoint, Operation};
use regent::model::ids::Kind;
use regent::model::quota::QuotaKind;
use regent::store::{Batch, Filter, Page, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::servers::{furnished, path};
use super::{NETWORKS, SERVERS, World, expect, expect_error, id_of, may, network_path};

async fn dry(world: &World, method: Method, path: &str, body: &Value) -> Value {
    expect(world.send(method, &format!("{path}?dryRun=true"), body).await, StatusCode::OK).await
}

#[tokio::test]
async fn a_creation_that_is_only_tried_tells_everything_and_writes_nothing_on_every_store() {
    for (name, world) in World::on_each_store().await {
        let before = *world.store.latest().borrow();
        let told = dry(&world, Method::POST, NETWORKS, &world.network_body("perhaps")).await;
        assert_eq!(told["dryRun"], true, "{name}");
        assert_eq!(told["wouldAnswer"]["status"], 201, "{name}");
        assert_eq!(told["wouldAnswer"]["body"]["metadata"]["name"], "perhaps", "{name}");
        let writes = told["writes"].as_array().expect("a list");
        assert!(writes.contains(&json!("insert network")) && writes.contains(&json!("charge")), "{name}: {told}");
        let effects = told["effects"].as_array().expect("a list");
        let of = |kind: &str| effects.iter().find(|effect| effect["kind"] == kind).unwrap_or_else(|| panic!("{told}"));
        assert_eq!(of("identity")["first"], json!(["ask the cloud to converge identity"]), "{name}");
        assert_eq!(of("identity").get("id"), None, "{name}: what users never see has no name");
        assert_eq!(of("network")["first"], json!(["wait: its service principal is not ready"]), "{name}");
        assert_eq!(*world.store.latest().borrow(), before, "{name}");
        let left = world.store.list(&Filter::of(Kind::Network), Page::FIRST).await.expect("a list");
        assert!(left.is_empty(), "{name}");
        let used = world.store.usage(world.start.organization_id).await.expect("usage");
        assert!(used.iter().all(|usage| usage.used.total() == 0), "{name}");
    }
}

#[tokio::test]
async fn what_would_be_refused_is_refused_in_the_same_words() {
    let world = World::start().await;
    let ask = async |bearer: &str, body: &Value| {
        let mut answers = Vec::new();
        for path in [NETWORKS.to_owned(), format!("{NETWORKS}?dryRun=true")] {
            let response = world.send_as(bearer, Method::POST, &path, body).await;
            let status = response.status();
            let mut body = expect(response, status).await;
            body["trace_id"] = Value::Null;
            answers.push((status, body));
        }
        assert_eq!(answers[0], answers[1]);
        answers.remove(0).0
    };
    let body = world.network_body("x");
    let mut malformed = body.clone();
    malformed["spec"]["prefix"] = json!("10.0.0.0");
    assert_eq!(ask(&world.start.token, &malformed).await, StatusCode::BAD_REQUEST);
    assert_eq!(ask("nobody", &body).await, StatusCode::UNAUTHORIZED);
    let reader = world.member("reader", may(Endpoint::NetworksV2, &[Operation::Read]));
    assert_eq!(ask(&reader, &body).await, StatusCode::FORBIDDEN);
    let mut elsewhere = body.clone();
    elsewhere["spec"]["projectId"] = json!(world.ambient.uuid());
    assert_eq!(ask(&world.start.token, &elsewhere).await, StatusCode::NOT_FOUND);
    let limit = Write::Limit { organization: world.start.organization_id, kind: QuotaKind::Networks, limit: 0 };
    world.store.commit(Batch::of(vec![limit])).await.expect("commits");
    assert_eq!(ask(&world.start.token, &body).await, StatusCode::FORBIDDEN, "the quota counts");
}

#[tokio::test]
async fn changes_deletions_and_verbs_can_be_tried() {
    let (world, network, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let before = expect(world.get(&path(&server)).await, StatusCode::OK).await;
    let update = json!({"metadata": {"name": "other"}, "spec": {"dnsNameservers": ["1.1.1.1"]}});
    let told = dry(&world, Method::PUT, &network_path(&network), &update).await;
    assert_eq!(told["wouldAnswer"]["body"]["metadata"]["name"], "other");
    let told = dry(&world, Method::DELETE, &path(&server), &Value::Null).await;
    assert_eq!(told["wouldAnswer"], json!({"status": 202}));
    assert_eq!(told["effects"][0]["kind"], "server");
    let told = dry(&world, Method::POST, &format!("{}/stop", path(&server)), &Value::Null).await;
    assert_eq!(told["writes"], json!(["insert operation"]));
    let refused = world.delete(&format!("{}?dryRun=true", network_path(&network))).await;
    let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use"), "{text}");
    assert_eq!(expect(world.get(&path(&server)).await, StatusCode::OK).await, before);
    let shown = expect(world.get(&network_path(&network)).await, StatusCode::OK).await;
    assert_eq!(id_of(&shown), id_of(&network));
    assert_eq!(shown["metadata"]["name"], "net");
    let operations = world.store.list(&Filter::of(Kind::Operation), Page::FIRST).await.expect("a list");
    assert!(operations.is_empty());
}

#[tokio::test]
async fn a_slip_in_the_name_is_not_taken_for_a_real_request() {
    let world = World::start().await;
    for slip in ["dryrun=true", "dry_run=true", "dryRun=1", "dryRun=true&dryRun=true"] {
        let path = format!("{NETWORKS}?{slip}");
        let response = world.send(Method::POST, &path, &world.network_body("x")).await;
        expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    let for_real = world.send(Method::POST, &format!("{NETWORKS}?dryRun=false"), &world.network_body("x")).await;
    expect(for_real, StatusCode::CREATED).await;
    let listed = world.get(&format!("{NETWORKS}?dryRun=true")).await;
    expect_error(listed, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn a_token_that_would_be_made_is_not_shown() {
    let world = World::start().await;
    let path = format!("/api/v1/organizations/{}/serviceaccounts", world.start.organization_id);
    let body = json!({"metadata": {"name": "robot"}, "spec": {"groupIDs": []}});
    let told = dry(&world, Method::POST, &path, &body).await;
    assert_eq!(told["wouldAnswer"], json!({"status": 201}));
    assert_eq!(expect(world.get(&path).await, StatusCode::OK).await, json!([]));
}
