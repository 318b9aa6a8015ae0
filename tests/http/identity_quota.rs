//! Quotas and allocations, and that they hold under pressure.

use std::sync::Arc;

use regent::model::ambient::Ambient;
use regent::model::ids::{AllocationId, Kind};
use regent::model::quota::{Amount, QuotaKind};
use regent::store::embedded::EmbeddedStore;
use regent::store::{Filter, PAGE_MAX, Page};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::tenants::{Tenant, used};
use super::{Folder, NETWORKS, World, expect, expect_error};

fn quotas(tenant: &Tenant) -> String {
    format!("/api/v1/organizations/{}/quotas", tenant.organization)
}

fn allocations(tenant: &Tenant) -> String {
    format!("/api/v1/organizations/{}/projects/{}/allocations", tenant.organization, tenant.project)
}

fn allocation(id: &str, committed: u64, reserved: u64) -> Value {
    json!({
        "metadata": {"name": "undefined"},
        "spec": {
            "kind": "instances.compute.example.org", "id": id,
            "allocations": [{"kind": "servers", "committed": committed, "reserved": reserved}],
        },
    })
}

fn entry<'a>(answer: &'a Value, kind: &str) -> &'a Value {
    let mut all = answer["quotas"].as_array().expect("a list").iter();
    all.find(|quota| quota["kind"] == kind).expect("every kind")
}

#[tokio::test]
async fn an_organization_has_the_quotas_of_the_catalogue_until_somebody_says_otherwise() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let read = expect(world.get(&quotas(&tenant)).await, StatusCode::OK).await;
    let defaults = read["quotas"].as_array().expect("a list").iter();
    let defaults = defaults.map(|quota| (quota["kind"].as_str().expect("a kind"), quota["default"].as_u64()));
    let expected = [
        ("networks", 5),
        ("loadbalancers", 5),
        ("clusters", 5),
        ("servers", 10),
        ("gpus", 40),
        ("publicips", 5),
        ("filestorage", 1_099_511_627_776),
        ("volume", 0),
    ];
    assert_eq!(defaults.collect::<Vec<_>>(), expected.map(|(kind, limit)| (kind, Some(limit))));
    let clusters = json!({
        "kind": "clusters", "quantity": 5, "used": 1, "free": 4, "committed": 1, "reserved": 0,
        "displayName": "Clusters", "description": "All cluster types e.g. Kubernetes, compute, etc.", "default": 5,
        "format": "decimal",
    });
    assert_eq!(entry(&read, "clusters"), &clusters);
    assert_eq!(entry(&read, "filestorage")["format"], "binary");
}

#[tokio::test]
async fn a_quota_is_set_but_not_below_what_is_used_and_one_that_is_left_out_is_the_default_again() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let set = async |body: Value| world.send(Method::PUT, &quotas(&tenant), &json!({"quotas": body})).await;
    let both = json!([{"kind": "networks", "quantity": 7}, {"kind": "clusters", "quantity": 1}]);
    let answer = expect(set(both).await, StatusCode::OK).await;
    assert_eq!(entry(&answer, "networks")["quantity"], 7);
    assert_eq!(entry(&answer, "clusters")["free"], 0);
    assert_eq!(expect(world.get(&quotas(&tenant)).await, StatusCode::OK).await, answer);
    let lowered = set(json!([{"kind": "networks", "quantity": 1}, {"kind": "clusters", "quantity": 0}])).await;
    let text = expect_error(lowered, StatusCode::FORBIDDEN, "forbidden").await;
    assert_eq!(text, "total clusters allocation of 1 would exceed quota limit of 0");
    let read = expect(world.get(&quotas(&tenant)).await, StatusCode::OK).await;
    assert_eq!(entry(&read, "networks")["quantity"], 7, "all or nothing");
    let reset = expect(set(json!([])).await, StatusCode::OK).await;
    assert_eq!(
        (&entry(&reset, "networks")["quantity"], &entry(&reset, "clusters")["quantity"]),
        (&json!(5), &json!(5))
    );
    let twice = set(json!([{"kind": "networks", "quantity": 1}, {"kind": "networks", "quantity": 2}])).await;
    expect_error(twice, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn b39_a_resource_has_one_allocation_however_often_it_is_asked_for() {
    for (store, world) in World::on_each_store().await {
        let tenant = world.full_tenant().await;
        let all = allocations(&tenant);
        let made = expect(world.send(Method::POST, &all, &allocation("i1", 3, 2)).await, StatusCode::CREATED).await;
        assert_eq!(made["spec"], allocation("i1", 3, 2)["spec"], "{store}");
        assert_eq!(made["metadata"]["projectId"], tenant.project.to_string());
        let again = expect(world.send(Method::POST, &all, &allocation("i1", 3, 2)).await, StatusCode::CREATED).await;
        assert_eq!(again, made, "{store}");
        let other = world.send(Method::POST, &all, &allocation("i1", 4, 2)).await;
        expect_error(other, StatusCode::CONFLICT, "conflict").await;
        let servers = async || used(&world.store, tenant.organization, QuotaKind::Servers).await;
        assert_eq!(servers().await, Amount { committed: 3, reserved: 2 }, "{store}");
        let too_much = world.send(Method::POST, &all, &allocation("i2", 5, 1)).await;
        let text = expect_error(too_much, StatusCode::FORBIDDEN, "forbidden").await;
        assert_eq!(text, "total servers allocation of 11 would exceed quota limit of 10");
        let refused = AllocationId::of(tenant.organization, "instances.compute.example.org", "i2");
        assert!(world.store.get(refused.key()).await.expect("reads").is_none(), "{store}: refused whole");
        let path = format!("{all}/{}", made["metadata"]["id"].as_str().expect("an id"));
        let changed = expect(world.send(Method::PUT, &path, &allocation("i1", 10, 0)).await, StatusCode::OK).await;
        assert_eq!(expect(world.get(&path).await, StatusCode::OK).await, changed);
        assert_eq!(servers().await, Amount::of(10), "{store}");
        let more = world.send(Method::PUT, &path, &allocation("i1", 10, 1)).await;
        expect_error(more, StatusCode::FORBIDDEN, "forbidden").await;
        assert_eq!(expect(world.get(&path).await, StatusCode::OK).await, changed, "{store}");
        let renamed = world.send(Method::PUT, &path, &allocation("i9", 1, 0)).await;
        expect_error(renamed, StatusCode::BAD_REQUEST, "invalid_request").await;
        let deleted = world.request(Method::DELETE, &path).send().await.expect("an answer");
        assert_eq!(deleted.status(), StatusCode::ACCEPTED);
        let again = world.request(Method::DELETE, &path).send().await.expect("an answer");
        expect_error(again, StatusCode::NOT_FOUND, "not_found").await;
        assert_eq!(servers().await, Amount::default(), "{store}");
    }
}

#[tokio::test]
async fn amounts_read_in_the_order_they_were_sent_and_mean_the_same_in_any() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let amount = |kind: &str| json!({"kind": kind, "committed": 1, "reserved": 0});
    let mut body = allocation("i1", 1, 0);
    body["spec"]["allocations"] = json!([amount("servers"), amount("gpus"), amount("clusters")]);
    let made = expect(world.send(Method::POST, &allocations(&tenant), &body).await, StatusCode::CREATED).await;
    assert_eq!(made["spec"], body["spec"]);
    body["spec"]["allocations"] = json!([amount("clusters"), amount("servers"), amount("gpus")]);
    let again = expect(world.send(Method::POST, &allocations(&tenant), &body).await, StatusCode::CREATED).await;
    assert_eq!(again, made);
    body["spec"]["allocations"] = json!([amount("servers"), amount("servers")]);
    let twice = world.send(Method::POST, &allocations(&tenant), &body).await;
    expect_error(twice, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn b19_a_kind_that_is_not_in_the_catalogue_cannot_be_charged() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let mut body = allocation("i1", 1, 0);
    body["spec"]["allocations"][0]["kind"] = json!("floatingips");
    let refused = world.send(Method::POST, &allocations(&tenant), &body).await;
    let text = expect_error(refused, StatusCode::BAD_REQUEST, "invalid_request").await;
    assert!(!text.contains("floatingips"), "{text}");
}

#[tokio::test]
async fn of_two_hundred_creates_at_once_against_a_quota_of_a_hundred_exactly_a_hundred_are_accepted() {
    let (ambient, folder) = (Ambient::system(), Folder::new());
    let store = Arc::new(EmbeddedStore::open(&folder.0, ambient.clone()).expect("opens"));
    let world = World::over(store, ambient).await;
    let tenant = world.full_tenant().await;
    let limit = json!({"quotas": [{"kind": "networks", "quantity": 100}]});
    expect(world.send(Method::PUT, &quotas(&tenant), &limit).await, StatusCode::OK).await;
    let mut body = world.network_body("many");
    body["spec"]["organizationId"] = json!(tenant.organization);
    body["spec"]["projectId"] = json!(tenant.project);
    let create = || async {
        let request = world.anonymous(Method::POST, NETWORKS).bearer_auth(&tenant.user).json(&body);
        let response = request.send().await.expect("an answer");
        let status = response.status();
        (status, response.text().await.expect("a body"))
    };
    let answers = futures_util::future::join_all((0..200).map(|_| create())).await;
    let accepted = answers.iter().filter(|(status, _)| *status == StatusCode::CREATED).count();
    assert_eq!(accepted, 100);
    for (status, text) in answers.iter().filter(|(status, _)| *status != StatusCode::CREATED) {
        assert!(*status == StatusCode::FORBIDDEN && text.contains("exceed quota limit of 100"), "{status} {text}");
    }
    let filter = Filter { organizations: Some(vec![tenant.organization]), ..Filter::of(Kind::Network) };
    let networks = world.store.list(&filter, Page { after: None, limit: PAGE_MAX }).await.expect("reads");
    assert_eq!(networks.len(), 100);
    assert_eq!(used(&world.store, tenant.organization, QuotaKind::Networks).await, Amount::of(100));
}
