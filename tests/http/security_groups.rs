//! Security groups as clients use them.

use regent::identity::acl::{Endpoint, Operation};
use regent::model::edge::Holder;
use regent::model::ids::{Key, Kind, ServerId};
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{NETWORKS, SECURITY_GROUPS, World, expect, expect_error, id_of, may, network_path};

fn body(network: &Value) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"networkId": id_of(network), "rules": []}})
}

fn path(group: &Value) -> String {
    format!("{SECURITY_GROUPS}/{}", id_of(group))
}

#[tokio::test]
async fn a_group_reads_back_as_it_was_written_in_the_place_of_its_network() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let mut body = body(&network);
    body["metadata"]["tags"] = json!([{"name": "a/b", "value": "c=d"}]);
    body["spec"]["rules"] = json!([
        {"direction": "ingress", "protocol": "tcp", "port": 80, "portMax": 443, "prefix": "10.0.0.7/8"},
        {"direction": "ingress", "protocol": "tcp", "port": 22},
        {"direction": "egress", "protocol": "any"},
        {"direction": "ingress", "protocol": "vrrp", "prefix": "0.0.0.0/0"},
        {"direction": "egress", "protocol": "any"},
    ]);
    let group = world.made(SECURITY_GROUPS, &body).await;
    assert_eq!(group["spec"]["rules"], body["spec"]["rules"], "in order, byte for byte, what was omitted omitted");
    assert_eq!(group["metadata"]["tags"], body["metadata"]["tags"]);
    assert_eq!(group["metadata"]["organizationId"], json!(world.start.organization_id));
    assert_eq!(group["metadata"]["projectId"], json!(world.start.project_id));
    assert_eq!(group["metadata"]["provisioningStatus"], "pending");
    assert_eq!(group["status"], json!({"regionId": world.start.region_id, "networkId": id_of(&network)}));
    assert_eq!(expect(world.get(&path(&group)).await, StatusCode::OK).await, group);
}

#[tokio::test]
async fn b8_b10_an_update_replaces_the_rules_and_needs_permission_to_update() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let group = world.made(SECURITY_GROUPS, &body(&network)).await;
    let change = json!({
        "metadata": {"name": "renamed"},
        "spec": {"rules": [{"direction": "ingress", "protocol": "udp", "port": 53}]},
    });
    let endpoint = Endpoint::SecurityGroupsV2;
    let deleter = world.member("deleter", may(endpoint, &[Operation::Read, Operation::Delete]));
    let refused = world.send_as(&deleter, Method::PUT, &path(&group), &change).await;
    let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("update") && text.contains("region:securitygroups:v2"), "{text}");
    let member = world.member("updater", may(endpoint, &[Operation::Read, Operation::Update]));
    let updated = world.send_as(&member, Method::PUT, &path(&group), &change).await;
    let updated = expect(updated, StatusCode::ACCEPTED).await;
    assert_eq!(updated["spec"], change["spec"]);
    assert_eq!(updated["metadata"]["name"], "renamed");
    assert_eq!(
        (&updated["metadata"]["createdBy"], &updated["metadata"]["modifiedBy"]),
        (&json!("bootstrap"), &json!("updater"))
    );
    assert_eq!(updated["status"], group["status"]);
    assert_eq!(expect(world.get(&path(&group)).await, StatusCode::OK).await, updated);
}

#[tokio::test]
async fn b44_what_a_rule_cannot_mean_is_400() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let group = world.made(SECURITY_GROUPS, &body(&network)).await;
    let rule = |change: Value| {
        let mut rule = json!({"direction": "ingress", "protocol": "tcp"});
        rule.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        rule
    };
    let bad = [
        rule(json!({"protocol": "icmp", "port": 1})),
        rule(json!({"protocol": "sctp"})),
        rule(json!({"direction": "sideways"})),
        rule(json!({"portMax": 5})),
        rule(json!({"port": 5, "portMax": 5})),
        rule(json!({"port": 0})),
        rule(json!({"port": 65536})),
        rule(json!({"prefix": "10.0.0.0"})),
        rule(json!({"prefix": "fd00::/8"})),
    ];
    let mut lists = bad.map(|rule| json!([rule])).to_vec();
    lists.push(json!(vec![rule(json!({})); 1001]));
    for rules in lists {
        let mut create = body(&network);
        create["spec"]["rules"] = rules.clone();
        let update = json!({"metadata": {"name": "web"}, "spec": {"rules": rules}});
        for response in [
            world.send(Method::POST, SECURITY_GROUPS, &create).await,
            world.send(Method::PUT, &path(&group), &update).await,
        ] {
            expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
        }
    }
    assert_eq!(expect(world.get(SECURITY_GROUPS).await, StatusCode::OK).await, json!([group]), "nothing changed");
}

#[tokio::test]
async fn a_group_needs_a_network_that_is_there_for_its_caller() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let stranger = world.stranger().await;
    let mut unknown = body(&network);
    unknown["spec"]["networkId"] = json!(world.ambient.uuid());
    let mut texts = Vec::new();
    for body in [&body(&network), &unknown] {
        let refused = world.send_as(&stranger, Method::POST, SECURITY_GROUPS, body).await;
        texts.push(expect_error(refused, StatusCode::BAD_REQUEST, "invalid_request").await);
    }
    assert_eq!(texts[0], texts[1]);
    let reader = world.member("reader", may(Endpoint::NetworksV2, &[Operation::Read]));
    let refused = world.send_as(&reader, Method::POST, SECURITY_GROUPS, &body(&network)).await;
    expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert_eq!(world.delete(&network_path(&network)).await.status(), StatusCode::ACCEPTED);
    let late = world.send(Method::POST, SECURITY_GROUPS, &body(&network)).await;
    let text = expect_error(late, StatusCode::BAD_REQUEST, "invalid_request").await;
    assert!(text.contains("being deleted"), "{text}");
}

#[tokio::test]
async fn a_foreign_group_and_an_unknown_one_answer_alike() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let group = world.made(SECURITY_GROUPS, &body(&network)).await;
    let stranger = world.stranger().await;
    let change = json!({"metadata": {"name": "x"}, "spec": {"rules": []}});
    let tries = [(Method::GET, ""), (Method::PUT, ""), (Method::DELETE, "")];
    world.assert_hidden_from(&stranger, SECURITY_GROUPS, id_of(&group), &tries, &change).await;
}

#[tokio::test]
async fn lists_filter_by_network_and_by_tag() {
    let world = World::start().await;
    let (one, other) = (world.create(&world.network_body("one")).await, world.create(&world.network_body("two")).await);
    let mut tagged = body(&one);
    tagged["metadata"]["tags"] = json!([{"name": "a", "value": "b"}]);
    let tagged = world.made(SECURITY_GROUPS, &tagged).await;
    let plain = world.made(SECURITY_GROUPS, &body(&other)).await;
    let list =
        async |query: String| expect(world.get(&format!("{SECURITY_GROUPS}?{query}")).await, StatusCode::OK).await;
    assert_eq!(list(format!("networkID={}", id_of(&one))).await, json!([tagged]));
    assert_eq!(list("tag=a%3Db".to_owned()).await, json!([tagged]));
    let both = list(format!("networkID={}&networkID={}", id_of(&one), id_of(&other))).await;
    assert_eq!(both.as_array().map(Vec::len), Some(2), "{both}");
    let region = world.start.region_id.expect("a region");
    assert_eq!(list(format!("regionID={region}&networkID={}", id_of(&other))).await, json!([plain]));
    assert_eq!(list(format!("organizationID={}", world.ambient.uuid())).await, json!([]));
    expect_error(
        world.get(&format!("{SECURITY_GROUPS}?networkID=x")).await,
        StatusCode::BAD_REQUEST,
        "invalid_request",
    )
    .await;
}

#[tokio::test]
async fn a_group_in_use_stays_and_its_readable_users_are_named() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let group = world.made(SECURITY_GROUPS, &body(&network)).await;
    let target = Key::new(Kind::SecurityGroup, id_of(&group).parse().expect("an id"));
    let holder = Holder::Resource(ServerId(world.ambient.uuid()).key());
    let refer = Write::AddReference { target, holder: holder.clone() };
    world.store.commit(Batch::of(vec![refer])).await.expect("commits");
    let text = expect_error(world.delete(&path(&group)).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use") && !text.contains("servers."), "a user that cannot be read is not named: {text}");
    world.store.commit(Batch::of(vec![Write::RemoveReference { target, holder }])).await.expect("commits");
    for _ in 0..2 {
        assert_eq!(world.delete(&path(&group)).await.status(), StatusCode::ACCEPTED);
    }
    let read = expect(world.get(&path(&group)).await, StatusCode::OK).await;
    assert_eq!(read["metadata"]["provisioningStatus"], "deprovisioning");
    let change = json!({"metadata": {"name": "late"}, "spec": {"rules": []}});
    let late = world.send(Method::PUT, &path(&group), &change).await;
    expect_error(late, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn a_network_with_groups_can_be_deleted_and_owns_them() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let group = world.made(SECURITY_GROUPS, &body(&network)).await;
    let owner = Key::new(Kind::Network, id_of(&network).parse().expect("an id"));
    let child = Key::new(Kind::SecurityGroup, id_of(&group).parse().expect("an id"));
    assert_eq!(world.store.children(owner).await.expect("reads"), [child]);
    let record = world.store.get(child).await.expect("reads").expect("there");
    assert!(record.metadata.placement.identity.is_some(), "it lies in its network's principal");
    assert_eq!(world.delete(&format!("{NETWORKS}/{}", id_of(&network))).await.status(), StatusCode::ACCEPTED);
}
