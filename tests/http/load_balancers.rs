//! Load balancers as clients use them.

use regent::identity::acl::{Endpoint, Operation};
use regent::model::ids::{Key, Kind};
use regent::model::load_balancer::LoadBalancerDetail;
use regent::model::quota::{Amount, QuotaKind};
use regent::model::record::Document;
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{LOAD_BALANCERS, NETWORKS, World, expect, expect_error, id_of, may, network_path};

fn listener(name: &str, protocol: &str, port: u16) -> Value {
    json!({"name": name, "protocol": protocol, "port": port, "pool": {"members": []}})
}

fn body(network: &Value) -> Value {
    json!({"metadata": {"name": "edge"}, "spec": {"networkId": id_of(network), "listeners": [listener("web", "tcp", 80)]}})
}

fn path(balancer: &Value) -> String {
    format!("{LOAD_BALANCERS}/{}", id_of(balancer))
}

fn key(balancer: &Value) -> Key {
    Key::new(Kind::LoadBalancer, id_of(balancer).parse().expect("an id"))
}

/// What a client sends to change one.
fn change(listeners: &Value) -> Value {
    json!({"metadata": {"name": "edge"}, "spec": {"listeners": listeners}})
}

/// How much of a kind is in use.
async fn used(world: &World, kind: QuotaKind) -> u64 {
    let usage = world.store.usage(world.start.organization_id).await.expect("reads");
    usage.iter().find(|usage| usage.kind == kind).map_or(0, |usage| usage.used.committed)
}

async fn limit(world: &World, kind: QuotaKind, limit: u64) {
    let write = Write::Limit { organization: world.start.organization_id, kind, limit };
    world.store.commit(Batch::of(vec![write])).await.expect("commits");
}

#[tokio::test]
async fn a_balancer_reads_back_as_it_was_written_with_the_defaults_that_apply() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let mut full = body(&network);
    full["metadata"]["tags"] = json!([{"name": "a/b", "value": "c=d"}]);
    full["spec"]["publicIP"] = json!(true);
    full["spec"]["vipAddress"] = json!("10.0.1.10");
    full["spec"]["listeners"] = json!([
        {
            "name": "https", "protocol": "tcp", "port": 443,
            "allowedCidrs": ["10.0.0.7/8", "0.0.0.0/0"], "idleTimeoutSeconds": 120,
            "pool": {
                "proxyProtocolV2": true,
                "members": [{"address": "10.0.2.5", "port": 8443}, {"address": "10.0.2.4", "port": 8443}],
                "healthCheck": {
                    "intervalSeconds": 30, "timeoutSeconds": 9, "healthyThreshold": 3, "unhealthyThreshold": 4,
                },
            },
        },
        {"name": "dns", "protocol": "udp", "port": 443, "allowedCidrs": [], "pool": {"members": []}},
    ]);
    let balancer = world.made(LOAD_BALANCERS, &full).await;
    assert_eq!(balancer["spec"]["listeners"], full["spec"]["listeners"], "in order, byte for byte");
    assert_eq!(balancer["spec"]["publicIP"], true);
    assert!(balancer["spec"].get("vipAddress").is_none(), "the contract shows it in the status alone");
    assert_eq!(balancer["metadata"]["tags"], full["metadata"]["tags"]);
    assert_eq!(balancer["metadata"]["provisioningStatus"], "pending");
    assert_eq!(
        balancer["status"],
        json!({"regionId": world.start.region_id, "networkId": id_of(&network)}),
        "neither address is there yet"
    );
    assert_eq!(expect(world.get(&path(&balancer)).await, StatusCode::OK).await, balancer);

    let mut sparse = body(&network);
    sparse["spec"]["listeners"][0]["pool"]["healthCheck"] = json!({"unhealthyThreshold": 7});
    sparse["spec"]["listeners"].as_array_mut().expect("a list").push(listener("dns", "udp", 53));
    let balancer = world.made(LOAD_BALANCERS, &sparse).await;
    assert!(balancer["spec"].get("publicIP").is_none(), "omitted stays omitted: {balancer}");
    let [web, dns] = balancer["spec"]["listeners"].as_array().expect("a list").as_slice() else { panic!("{balancer}") };
    let check = json!({"intervalSeconds": 10, "timeoutSeconds": 5, "healthyThreshold": 2, "unhealthyThreshold": 7});
    assert_eq!(
        *web,
        json!({
            "name": "web", "protocol": "tcp", "port": 80, "idleTimeoutSeconds": 60,
            "pool": {"members": [], "healthCheck": check},
        })
    );
    assert_eq!(*dns, listener("dns", "udp", 53), "UDP has no idle timeout, and nobody asked for a check");
    let record = world.store.get(key(&balancer)).await.expect("reads").expect("there");
    assert!(!record.spec.text().contains("idleTimeout"), "a default is shown and not stored");
}

#[tokio::test]
async fn an_update_replaces_everything_but_the_virtual_address() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let mut create = body(&network);
    create["spec"]["vipAddress"] = json!("10.0.1.10");
    let balancer = world.made(LOAD_BALANCERS, &create).await;
    let detail = LoadBalancerDetail {
        vip_address: "10.0.1.10".parse().ok(),
        public_ip: "198.18.0.1".parse().ok(),
        ..LoadBalancerDetail::default()
    };
    let record = world.store.get(key(&balancer)).await.expect("reads").expect("there");
    let seen = Write::Status {
        key: record.key,
        incarnation: record.metadata.incarnation,
        conditions: Box::default(),
        detail: Document::of(&detail),
        transitions: vec![],
    };
    world.store.commit(Batch::of(vec![seen])).await.expect("commits");

    let mut other = change(&json!([listener("web", "tcp", 80), listener("dns", "udp", 53)]));
    other["spec"]["listeners"][0]["idleTimeoutSeconds"] = json!(5);
    other["spec"]["listeners"][0]["pool"]["members"] = json!([{"address": "10.0.0.9", "port": 81}]);
    other["metadata"]["name"] = json!("renamed");
    let endpoint = Endpoint::LoadBalancersV2;
    let deleter = world.member("deleter", may(endpoint, &[Operation::Read, Operation::Delete]));
    let refused = world.send_as(&deleter, Method::PUT, &path(&balancer), &other).await;
    let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("update") && text.contains("region:loadbalancers:v2"), "{text}");
    let member = world.member("updater", may(endpoint, &[Operation::Read, Operation::Update]));
    let updated = world.send_as(&member, Method::PUT, &path(&balancer), &other).await;
    let updated = expect(updated, StatusCode::ACCEPTED).await;
    assert_eq!(updated["metadata"]["name"], "renamed");
    assert_eq!(
        (&updated["metadata"]["createdBy"], &updated["metadata"]["modifiedBy"]),
        (&json!("bootstrap"), &json!("updater")),
        "B10"
    );
    assert_eq!(updated["spec"]["listeners"][0]["pool"], other["spec"]["listeners"][0]["pool"]);
    assert_eq!(updated["spec"]["listeners"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&updated["status"]["vipAddress"], &updated["status"]["publicIP"]),
        (&json!("10.0.1.10"), &json!("198.18.0.1"))
    );
    let stored = world.store.get(key(&balancer)).await.expect("reads").expect("there");
    assert!(stored.spec.text().contains("10.0.1.10"), "the address that was asked for stays on record");
    assert_eq!(expect(world.get(&path(&balancer)).await, StatusCode::OK).await, updated);
}

/// What is wrong with a listener, as a change of one that is right.
fn faulty(change: &Value) -> Value {
    let mut listener = json!({
        "name": "other", "protocol": "tcp", "port": 8080,
        "pool": {"members": [{"address": "10.0.0.5", "port": 80}], "healthCheck": {}},
    });
    for (place, value) in change.as_object().expect("an object") {
        let (parent, field) = place.rsplit_once('/').unwrap_or(("", place));
        let parent = if parent.is_empty() { String::new() } else { format!("/{parent}") };
        listener.pointer_mut(&parent).expect("a place")[field] = value.clone();
    }
    listener
}

/// Both a creation and an update of this are refused so.
async fn assert_refused(
    world: &World,
    network: &Value,
    balancer: &Value,
    listeners: Value,
    failure: (StatusCode, &str),
) {
    let mut create = body(network);
    create["spec"]["listeners"] = listeners.clone();
    for (method, path, body) in
        [(Method::POST, LOAD_BALANCERS.to_owned(), create), (Method::PUT, path(balancer), change(&listeners))]
    {
        let response = world.send(method.clone(), &path, &body).await;
        let status = response.status();
        assert_eq!(status, failure.0, "{method} {listeners}: {}", response.text().await.expect("text"));
        let text = expect_error(world.send(method, &path, &body).await, failure.0, failure.1).await;
        assert!(!text.contains("8080") && !text.contains("zzz"), "what was sent is not repeated: {text}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_400_and_changes_nothing() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let balancer = world.made(LOAD_BALANCERS, &body(&network)).await;
    let bad = [
        json!({"name": "Zzz"}),
        json!({"name": "1zzz"}),
        json!({"name": "zzz-"}),
        json!({"name": ""}),
        json!({"name": "z".repeat(64)}),
        json!({"protocol": "sctp"}),
        json!({"port": 0}),
        json!({"port": 65536}),
        json!({"allowedCidrs": ["10.0.0.0"]}),
        json!({"allowedCidrs": ["fd00::/8"]}),
        json!({"allowedCidrs": vec!["10.0.0.0/8"; 257]}),
        json!({"idleTimeoutSeconds": 0}),
        json!({"idleTimeoutSeconds": 86401}),
        json!({"pool/members": [{"address": "zzz", "port": 80}]}),
        json!({"pool/members": [{"address": "fd00::1", "port": 80}]}),
        json!({"pool/members": [{"address": "10.0.0.5", "port": 0}]}),
        json!({"pool/members": vec![json!({"address": "10.0.0.5", "port": 80}); 257]}),
        json!({"pool/healthCheck/intervalSeconds": 0}),
        json!({"pool/healthCheck/intervalSeconds": 301}),
        json!({"pool/healthCheck/timeoutSeconds": 0}),
        json!({"pool/healthCheck/healthyThreshold": 11}),
        json!({"pool/healthCheck/unhealthyThreshold": 0}),
    ];
    let refused = (StatusCode::BAD_REQUEST, "invalid_request");
    for fault in bad {
        assert_refused(&world, &network, &balancer, json!([faulty(&fault)]), refused).await;
    }
    let many = (0..33).map(|number| listener(&format!("l{number}"), "tcp", 1000 + number)).collect::<Vec<_>>();
    for listeners in [json!([]), json!(many)] {
        assert_refused(&world, &network, &balancer, listeners, refused).await;
    }
    for vip in ["zzz", "fd00::1", "10.0.1"] {
        let mut create = body(&network);
        create["spec"]["vipAddress"] = json!(vip);
        let response = world.send(Method::POST, LOAD_BALANCERS, &create).await;
        expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    assert_eq!(expect(world.get(LOAD_BALANCERS).await, StatusCode::OK).await, json!([balancer]), "nothing changed");
}

#[tokio::test]
async fn b44_what_contradicts_itself_is_422_and_changes_nothing() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let balancer = world.made(LOAD_BALANCERS, &body(&network)).await;
    let member = json!({"address": "10.0.0.5", "port": 80});
    let refused = (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content");
    for fault in [
        json!({"protocol": "udp", "idleTimeoutSeconds": 5}),
        json!({"protocol": "udp", "pool/proxyProtocolV2": true}),
        json!({"pool/members": [member, member]}),
        json!({"pool/members": [{"address": "0.0.0.0", "port": 80}]}),
        json!({"pool/members": [{"address": "127.0.0.1", "port": 80}]}),
        json!({"pool/members": [{"address": "224.0.0.1", "port": 80}]}),
        json!({"pool/healthCheck/timeoutSeconds": 10}),
        json!({"pool/healthCheck/intervalSeconds": 5}),
    ] {
        assert_refused(&world, &network, &balancer, json!([faulty(&fault)]), refused).await;
    }
    let twice = json!([faulty(&json!({})), faulty(&json!({"port": 8081}))]);
    assert_refused(&world, &network, &balancer, twice, refused).await;
    let same_port = json!([faulty(&json!({})), faulty(&json!({"name": "third"}))]);
    assert_refused(&world, &network, &balancer, same_port, refused).await;
    for vip in ["10.0.4.1", "10.0.0.0", "10.0.0.1", "10.0.3.255", "192.168.0.9"] {
        let mut create = body(&network);
        create["spec"]["vipAddress"] = json!(vip);
        let response = world.send(Method::POST, LOAD_BALANCERS, &create).await;
        expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    }
    assert_eq!(expect(world.get(LOAD_BALANCERS).await, StatusCode::OK).await, json!([balancer]), "nothing changed");
    assert_eq!(used(&world, QuotaKind::LoadBalancers).await, 1);

    let outside = faulty(&json!({"pool/members": [{"address": "172.16.9.9", "port": 80}], "protocol": "udp"}));
    let response = world.send(Method::PUT, &path(&balancer), &change(&json!([outside]))).await;
    expect(response, StatusCode::ACCEPTED).await;
}

#[tokio::test]
async fn a_listener_that_stays_keeps_its_protocol_its_port_and_its_proxy_protocol() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let balancer = world.made(LOAD_BALANCERS, &body(&network)).await;
    let mut proxied = listener("web", "tcp", 80);
    proxied["pool"]["proxyProtocolV2"] = json!(true);
    for changed in [listener("web", "udp", 80), listener("web", "tcp", 81), proxied] {
        let response = world.send(Method::PUT, &path(&balancer), &change(&json!([changed]))).await;
        expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    }
    let mut same = listener("web", "tcp", 80);
    same["pool"]["proxyProtocolV2"] = json!(false);
    for listeners in [json!([same]), json!([listener("other", "tcp", 80)]), json!([listener("web", "udp", 99)])] {
        expect(world.send(Method::PUT, &path(&balancer), &change(&listeners)).await, StatusCode::ACCEPTED).await;
    }
}

#[tokio::test]
async fn b19_a_balancer_and_its_public_address_are_charged_charged_anew_and_limited() {
    for (store, world) in World::on_each_store().await {
        let network = world.create(&world.network_body("net")).await;
        let charged = async || (used(&world, QuotaKind::LoadBalancers).await, used(&world, QuotaKind::PublicIps).await);
        let balancer = world.made(LOAD_BALANCERS, &body(&network)).await;
        assert_eq!(charged().await, (1, 0), "{store}");
        let put = async |public: bool| {
            let mut change = change(&json!([listener("web", "tcp", 80)]));
            change["spec"]["publicIP"] = json!(public);
            world.send(Method::PUT, &path(&balancer), &change).await
        };
        expect(put(true).await, StatusCode::ACCEPTED).await;
        assert_eq!(charged().await, (1, 1), "{store}");
        expect(put(false).await, StatusCode::ACCEPTED).await;
        assert_eq!(charged().await, (1, 0), "{store}");

        limit(&world, QuotaKind::PublicIps, 0).await;
        let text = expect_error(put(true).await, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains("publicips"), "{store}: {text}");
        let read = expect(world.get(&path(&balancer)).await, StatusCode::OK).await;
        assert_eq!(read["spec"]["publicIP"], false, "{store}: a refused update changes nothing");
        let mut public = body(&network);
        public["spec"]["publicIP"] = json!(true);
        expect_error(world.send(Method::POST, LOAD_BALANCERS, &public).await, StatusCode::FORBIDDEN, "forbidden").await;
        limit(&world, QuotaKind::LoadBalancers, 1).await;
        let refused = world.send(Method::POST, LOAD_BALANCERS, &body(&network)).await;
        let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains("loadbalancers"), "{store}: {text}");
        assert_eq!(charged().await, (1, 0), "{store}");
        expect(put(false).await, StatusCode::ACCEPTED).await;
        let list = expect(world.get(LOAD_BALANCERS).await, StatusCode::OK).await;
        assert_eq!(list.as_array().map(Vec::len), Some(1), "{store}: {list}");
        let allocations = world.store.allocations().await.expect("reads");
        let own = allocations.iter().find(|allocation| allocation.holder == key(&balancer)).expect("charged");
        assert_eq!(own.amounts.get(&QuotaKind::LoadBalancers), Some(&Amount::of(1)), "{store}");
    }
}

#[tokio::test]
async fn a_balancer_needs_a_network_that_is_there_for_its_caller() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let stranger = world.stranger().await;
    let mut unknown = body(&network);
    unknown["spec"]["networkId"] = json!(world.ambient.uuid());
    let mut texts = Vec::new();
    for body in [&body(&network), &unknown] {
        let refused = world.send_as(&stranger, Method::POST, LOAD_BALANCERS, body).await;
        texts.push(expect_error(refused, StatusCode::NOT_FOUND, "not_found").await);
    }
    assert_eq!(texts[0], texts[1]);
    let mut malformed = body(&network);
    malformed["spec"]["networkId"] = json!("x");
    let refused = world.send(Method::POST, LOAD_BALANCERS, &malformed).await;
    expect_error(refused, StatusCode::BAD_REQUEST, "invalid_request").await;
    let reader = world.member("reader", may(Endpoint::NetworksV2, &[Operation::Read]));
    let refused = world.send_as(&reader, Method::POST, LOAD_BALANCERS, &body(&network)).await;
    expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert_eq!(world.delete(&network_path(&network)).await.status(), StatusCode::ACCEPTED);
    let late = world.send(Method::POST, LOAD_BALANCERS, &body(&network)).await;
    let text = expect_error(late, StatusCode::BAD_REQUEST, "invalid_request").await;
    assert!(text.contains("being deleted"), "{text}");
}

#[tokio::test]
async fn a_foreign_balancer_and_an_unknown_one_answer_alike() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let balancer = world.made(LOAD_BALANCERS, &body(&network)).await;
    let stranger = world.stranger().await;
    let tries = [(Method::GET, ""), (Method::PUT, ""), (Method::DELETE, "")];
    let change = change(&json!([listener("web", "tcp", 80)]));
    world.assert_hidden_from(&stranger, LOAD_BALANCERS, id_of(&balancer), &tries, &change).await;
}

#[tokio::test]
async fn lists_filter_by_network_and_by_tag() {
    let world = World::start().await;
    let (one, other) = (world.create(&world.network_body("one")).await, world.create(&world.network_body("two")).await);
    let mut tagged = body(&one);
    tagged["metadata"]["tags"] = json!([{"name": "a", "value": "b"}]);
    let tagged = world.made(LOAD_BALANCERS, &tagged).await;
    let plain = world.made(LOAD_BALANCERS, &body(&other)).await;
    let list =
        async |query: String| expect(world.get(&format!("{LOAD_BALANCERS}?{query}")).await, StatusCode::OK).await;
    assert_eq!(list(format!("networkID={}", id_of(&one))).await, json!([tagged]));
    assert_eq!(list("tag=a%3Db".to_owned()).await, json!([tagged]));
    let region = world.start.region_id.expect("a region");
    assert_eq!(list(format!("regionID={region}&networkID={}", id_of(&other))).await, json!([plain]));
    assert_eq!(list(format!("projectID={}", world.ambient.uuid())).await, json!([]));
    let malformed = world.get(&format!("{LOAD_BALANCERS}?networkID=x")).await;
    expect_error(malformed, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn a_balancer_that_is_being_deleted_takes_no_update_and_its_network_takes_it_along() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let balancer = world.made(LOAD_BALANCERS, &body(&network)).await;
    let kept = world.made(LOAD_BALANCERS, &body(&network)).await;
    for _ in 0..2 {
        assert_eq!(world.delete(&path(&balancer)).await.status(), StatusCode::ACCEPTED);
    }
    let read = expect(world.get(&path(&balancer)).await, StatusCode::OK).await;
    assert_eq!(read["metadata"]["provisioningStatus"], "deprovisioning");
    let late = change(&json!([listener("web", "tcp", 80)]));
    let late = world.send(Method::PUT, &path(&balancer), &late).await;
    let text = expect_error(late, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    assert!(text.contains("being deleted"), "{text}");
    let owner = Key::new(Kind::Network, id_of(&network).parse().expect("an id"));
    let children = world.store.children(owner).await.expect("reads");
    assert!(children.contains(&key(&balancer)) && children.contains(&key(&kept)), "{children:?}");
    let gone = world.delete(&format!("{NETWORKS}/{}", id_of(&network))).await;
    assert_eq!(gone.status(), StatusCode::ACCEPTED, "a balancer does not keep its network");
}
