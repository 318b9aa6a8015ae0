//! What became of a resource, and who uses it.

use regent::identity::acl::{Endpoint, Operation};
use regent::model::condition::{Axis, Reason, Transition, Truth};
use regent::model::ids::Kind;
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::servers::{furnished, key};
use super::{NETWORKS, SERVERS, World, expect, expect_error, id_of, may, network_path};

#[tokio::test]
async fn the_history_of_a_resource_is_there_for_its_readers_as_long_as_it_is_on_every_store() {
    for (name, world) in World::on_each_store().await {
        let network = world.create(&world.network_body("net")).await;
        let path = format!("{}/events", network_path(&network));
        assert_eq!(expect(world.get(&path).await, StatusCode::OK).await, json!([]), "{name}");
        let record = world.store.get(key(&network, Kind::Network)).await.expect("reads").expect("there");
        let incarnation = record.metadata.incarnation;
        let transition = |status, reason, message: &str| Transition {
            at: "2026-01-02T03:04:05Z".parse().expect("a time"),
            axis: Axis::Available,
            status,
            reason,
            message: message.to_owned(),
            observed_generation: 1,
        };
        let status = Write::Status {
            key: record.key,
            incarnation,
            conditions: Box::default(),
            detail: record.detail.clone(),
            transitions: vec![
                transition(Truth::False, Reason::Provisioning, "provisioning"),
                transition(Truth::True, Reason::Provisioned, "provisioned"),
            ],
        };
        world.store.commit(Batch::of(vec![status])).await.expect("commits");
        let events = expect(world.get(&path).await, StatusCode::OK).await;
        let first = json!({
            "time": "2026-01-02T03:04:05Z", "condition": "Available", "status": "False", "reason": "Provisioning",
            "message": "provisioning", "observedGeneration": 1,
        });
        assert_eq!(events[0], first, "{name}");
        assert_eq!(events[1]["reason"], "Provisioned", "{name}");
        let stranger = world.stranger().await;
        let tries = [(Method::GET, "/events"), (Method::GET, "/references")];
        world.assert_hidden_from(&stranger, NETWORKS, id_of(&network), &tries, &Value::Null).await;
        let removal = Write::Remove { key: record.key, incarnation };
        world.store.commit(Batch::of(vec![removal])).await.expect("commits");
        expect_error(world.get(&path).await, StatusCode::NOT_FOUND, "not_found").await;
    }
}

#[tokio::test]
async fn who_uses_a_resource_is_told_as_far_as_the_asker_may_know() {
    let (world, network, body) = furnished().await;
    let server = world.made(SERVERS, &body).await;
    let outside = format!("instances.compute.example.org/{}", world.ambient.uuid());
    let reference = format!("{}/references/{}", network_path(&network), outside.replace('/', "%2F"));
    let added = world.request(Method::PUT, &reference).send().await.expect("an answer");
    assert_eq!(added.status(), StatusCode::CREATED);
    let path = format!("{}/references", network_path(&network));
    let told = expect(world.get(&path).await, StatusCode::OK).await;
    let told = told.as_array().expect("a list");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.contains(&json!({"reference": outside})), "{told:?}");
    let ours = told.iter().find(|reference| reference["kind"] == "server").expect("the server");
    assert_eq!(ours["id"], server["metadata"]["id"]);
    let reader = world.member("reader", may(Endpoint::NetworksV2, &[Operation::Read]));
    let told = expect(world.send_as(&reader, Method::GET, &path, &Value::Null).await, StatusCode::OK).await;
    assert_eq!(told, json!([]), "neither servers nor references may be read");
    let malformed = world.get(&format!("{NETWORKS}/x/references")).await;
    expect_error(malformed, StatusCode::BAD_REQUEST, "invalid_request").await;
}
