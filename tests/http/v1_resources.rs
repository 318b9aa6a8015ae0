//! The first version as its clients use it, and what of each version the other shows: nothing.

use regent::identity::acl::{Endpoint, Operation};
use regent::model::edge::Holder;
use regent::model::ids::{IdentityId, Key, Kind, ServerId};
use regent::model::quota::QuotaKind;
use regent::model::record::Record;
use regent::model::server::Server;
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

use super::cloud::{flavor, image};
use super::{NETWORKS, SECURITY_GROUPS, SERVERS, World, expect, expect_error, id_of, may, network_path};

/// Where identities of the first project are made.
pub fn identities(world: &World) -> String {
    let (organization, project) = (world.start.organization_id, world.start.project_id);
    format!("/api/v1/organizations/{organization}/projects/{project}/identities")
}

fn everywhere(world: &World, plural: &str) -> String {
    format!("/api/v1/organizations/{}/{plural}", world.start.organization_id)
}

pub fn identity_body(world: &World, name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"regionId": world.start.region_id}})
}

fn network_body(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"prefix": "10.0.0.0/22", "dnsNameservers": ["1.1.1.1"]}})
}

fn group_body(name: &str) -> Value {
    let rules = json!([
        {"direction": "ingress", "protocol": "tcp", "port": {"number": 22}, "cidr": "10.1.2.3/8"},
        {"direction": "ingress", "protocol": "udp", "port": {"range": {"start": 80, "end": 90}}},
        {"direction": "egress", "protocol": "any"},
    ]);
    json!({"metadata": {"name": name}, "spec": {"rules": rules}})
}

fn server_body(network: &Value, group: &Value) -> Value {
    let (flavor, image) = (flavor(1, "").id, image(1, "").id);
    let pairs = json!([{"cidr": "10.9.0.1/24", "macAddress": "FA:16:3e:00:00:01"}, {"cidr": "10.8.0.0/24"}]);
    json!({
        "metadata": {"name": "web", "tags": [{"name": "a", "value": "b"}]},
        "spec": {
            "flavorId": flavor, "imageId": image, "userData": "I2Nsb3VkLWNvbmZpZwo=",
            "networks": [{"id": id_of(network), "allowedAddressPairs": pairs}],
            "securityGroups": [{"id": id_of(group)}], "publicIPAllocation": {"enabled": true},
        },
    })
}

/// An identity with a network, a group and a server.
struct Estate {
    /// The identity's own path.
    path: String,
    identity: Value,
    network: Value,
    group: Value,
    server: Value,
}

impl Estate {
    async fn of(world: &World) -> Self {
        let identity = world.made(&identities(world), &identity_body(world, "id")).await;
        let path = format!("{}/{}", identities(world), id_of(&identity));
        let network = world.made(&format!("{path}/networks"), &network_body("net")).await;
        let group = world.made(&format!("{path}/securitygroups"), &group_body("doors")).await;
        let server = world.made(&format!("{path}/servers"), &server_body(&network, &group)).await;
        Self { path, identity, network, group, server }
    }

    fn parts(&self) -> [(&'static str, &Value); 3] {
        [("networks", &self.network), ("securitygroups", &self.group), ("servers", &self.server)]
    }
}

async fn stored(world: &World, kind: Kind, value: &Value) -> Arc<Record> {
    let key = Key::new(kind, id_of(value).parse().expect("an id"));
    world.store.get(key).await.expect("reads").expect("there")
}

#[tokio::test]
async fn everything_reads_back_as_it_was_written_and_lies_in_its_identity() {
    let world = World::start().await;
    let estate = Estate::of(&world).await;
    assert_eq!(estate.identity["spec"], json!({"regionId": world.start.region_id}));
    assert_eq!(estate.identity["metadata"]["projectId"], json!(world.start.project_id));
    assert_eq!(estate.network["spec"], network_body("net")["spec"]);
    assert_eq!(estate.group["spec"], group_body("doors")["spec"], "in order, and what was left out stays out");
    let body = server_body(&estate.network, &estate.group);
    assert_eq!(estate.server["spec"], body["spec"]);
    assert_eq!(estate.server["metadata"]["tags"], body["metadata"]["tags"]);
    for (plural, made) in estate.parts() {
        let one = expect(world.get(&format!("{}/{plural}/{}", estate.path, id_of(made))).await, StatusCode::OK).await;
        assert_eq!(&one, made);
        assert_eq!(one["status"]["identityId"], id_of(&estate.identity), "{one}");
        assert_eq!(one["metadata"]["provisioningStatus"], "pending", "{one}");
        let all = expect(world.get(&everywhere(&world, plural)).await, StatusCode::OK).await;
        assert_eq!(all, json!([made]));
    }
    let all = expect(world.get(&everywhere(&world, "identities")).await, StatusCode::OK).await;
    assert_eq!(all, json!([estate.identity]));
    let identity = Key::new(Kind::Identity, id_of(&estate.identity).parse().expect("an id"));
    let (network, group) = (Kind::Network, Kind::SecurityGroup);
    assert_eq!(stored(&world, network, &estate.network).await.metadata.owner, Some(identity));
    assert_eq!(stored(&world, group, &estate.group).await.metadata.owner, Some(identity));
    let project = world.start.project_id.key();
    assert_eq!(world.store.references(project).await.expect("reads"), [Holder::Resource(identity)]);
    let usage = world.store.usage(world.start.organization_id).await.expect("reads");
    let networks = usage.iter().find(|usage| usage.kind == QuotaKind::Networks).expect("counted");
    assert_eq!(networks.used.committed, 1, "it is no way around the quota");
}

#[tokio::test]
async fn an_update_keeps_the_image_and_the_network_and_replaces_the_rest() {
    let world = World::start().await;
    let estate = Estate::of(&world).await;
    let path = format!("{}/servers/{}", estate.path, id_of(&estate.server));
    let mut body = server_body(&estate.network, &estate.group);
    body["spec"]["imageId"] = json!(image(2, "").id);
    body["spec"]["securityGroups"] = json!([]);
    body["spec"]["networks"] = json!([{"id": id_of(&estate.network)}]);
    let updated = expect(world.send(Method::PUT, &path, &body).await, StatusCode::ACCEPTED).await;
    assert_eq!(updated["spec"]["imageId"], estate.server["spec"]["imageId"], "another image costs a disk");
    assert_eq!(updated["spec"]["networks"], body["spec"]["networks"]);
    assert_eq!(updated["spec"]["securityGroups"], json!([]));
    assert_eq!(expect(world.get(&path).await, StatusCode::OK).await, updated);
    let other = world.made(&format!("{}/networks", estate.path), &network_body("other")).await;
    for (place, value) in [
        ("/spec/networks/0/id", json!(id_of(&other))),
        ("/spec/flavorId", json!(flavor(2, "").id)),
        ("/metadata/name", json!("renamed")),
    ] {
        let mut bad = body.clone();
        *bad.pointer_mut(place).expect("a place") = value;
        expect_error(
            world.send(Method::PUT, &path, &bad).await,
            StatusCode::UNPROCESSABLE_ENTITY,
            "unprocessable_content",
        )
        .await;
    }
    let group = format!("{}/securitygroups/{}", estate.path, id_of(&estate.group));
    let change = json!({"metadata": {"name": "other"}, "spec": {"rules": []}});
    let updated = expect(world.send(Method::PUT, &group, &change).await, StatusCode::ACCEPTED).await;
    assert_eq!((&updated["metadata"]["name"], &updated["spec"]), (&json!("other"), &change["spec"]));
}

#[tokio::test]
async fn a_server_that_cannot_be_is_refused_and_changes_nothing() {
    let world = World::start().await;
    let estate = Estate::of(&world).await;
    let elsewhere = Estate::of(&world).await;
    let v2_network = world.create(&world.network_body("v2")).await;
    let body = server_body(&estate.network, &estate.group);
    let (bad, missing, unfit) = (StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::UNPROCESSABLE_ENTITY);
    let pair = |pair: Value| json!([{"id": id_of(&estate.network), "allowedAddressPairs": [pair]}]);
    let one = json!({"id": id_of(&estate.network)});
    let faults = [
        ("/spec/networks", json!([]), bad),
        ("/spec/networks", json!([one, one]), bad),
        ("/spec/networks/0/id", json!("x"), bad),
        ("/spec/networks", pair(json!({"cidr": "10.0.0.0"})), bad),
        ("/spec/networks", pair(json!({"cidr": "nowhere"})), bad),
        ("/spec/networks", pair(json!({"cidr": "10.0.0.0/8", "macAddress": "x"})), bad),
        ("/spec/networks/0/id", json!(world.ambient.uuid()), missing),
        ("/spec/networks/0/id", json!(id_of(&v2_network)), missing),
        ("/spec/networks/0/id", json!(id_of(&elsewhere.network)), unfit),
        ("/spec/securityGroups", json!([{"id": id_of(&elsewhere.group)}]), unfit),
        ("/spec/securityGroups", json!([{"id": id_of(&estate.group)}, {"id": id_of(&estate.group)}]), unfit),
        ("/spec/securityGroups", json!([{"id": world.ambient.uuid()}]), missing),
        ("/spec/imageId", json!(world.ambient.uuid()), missing),
        ("/spec/flavorId", json!(world.ambient.uuid()), unfit),
        ("/spec/userData", json!("bm90aGluZw=="), unfit),
    ];
    for (place, value, status) in faults {
        let mut body = body.clone();
        *body.pointer_mut(place).expect("a place") = value.clone();
        let response = world.send(Method::POST, &format!("{}/servers", estate.path), &body).await;
        let got = response.status();
        assert_eq!(got, status, "{place} {value}: {}", response.text().await.expect("a body"));
    }
    let all = expect(world.get(&everywhere(&world, "servers")).await, StatusCode::OK).await;
    assert_eq!(all.as_array().map(Vec::len), Some(2), "only those of the two estates");
}

#[tokio::test]
async fn two_servers_of_one_network_may_have_one_name() {
    let world = World::start().await;
    let estate = Estate::of(&world).await;
    let body = server_body(&estate.network, &estate.group);
    let again = world.made(&format!("{}/servers", estate.path), &body).await;
    assert_ne!(id_of(&again), id_of(&estate.server));
}

#[tokio::test]
async fn what_is_in_use_is_not_deleted_and_an_identity_takes_everything_along() {
    let world = World::start().await;
    let estate = Estate::of(&world).await;
    let paths = estate.parts().map(|(plural, made)| format!("{}/{plural}/{}", estate.path, id_of(made)));
    for held in &paths[..2] {
        let text = expect_error(world.delete(held).await, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains("in use") && text.contains(id_of(&estate.server)), "{text}");
    }
    assert_eq!(world.delete(&estate.path).await.status(), StatusCode::ACCEPTED);
    assert_eq!(world.delete(&estate.path).await.status(), StatusCode::ACCEPTED, "asked already");
    let late = world.send(Method::POST, &format!("{}/networks", estate.path), &network_body("late")).await;
    let text = expect_error(late, StatusCode::BAD_REQUEST, "invalid_request").await;
    assert!(text.contains("being deleted"), "{text}");
    let gone = expect(world.get(&estate.path).await, StatusCode::OK).await;
    assert_eq!(gone["metadata"]["provisioningStatus"], "deprovisioning");
}

#[tokio::test]
async fn neither_version_shows_what_the_other_has_made() {
    let world = World::start().await;
    let estate = Estate::of(&world).await;
    let v2_network = world.create(&world.network_body("v2")).await;
    let group = json!({"metadata": {"name": "v2"}, "spec": {"networkId": id_of(&v2_network), "rules": []}});
    let v2_group = world.made(SECURITY_GROUPS, &group).await;
    let server = json!({
        "metadata": {"name": "v2"},
        "spec": {"networkId": id_of(&v2_network), "flavorId": flavor(1, "").id, "imageId": image(1, "").id},
    });
    let v2_server = world.made(SERVERS, &server).await;
    let hidden = stored(&world, Kind::Network, &v2_network).await.metadata.owner.expect("a principal");

    // The first version: only its own, by list and by id, whatever identity the path names.
    for (plural, made) in [("networks", &v2_network), ("securitygroups", &v2_group), ("servers", &v2_server)] {
        let all = expect(world.get(&everywhere(&world, plural)).await, StatusCode::OK).await;
        assert_eq!(all.as_array().map(Vec::len), Some(1), "{plural}: {all}");
        assert!(!all.to_string().contains(id_of(made)), "{plural}: {all}");
        for identity in [id_of(&estate.identity).to_owned(), hidden.id.to_string()] {
            for method in [Method::GET, Method::DELETE] {
                let path = format!("{}/{identity}/{plural}/{}", identities(&world), id_of(made));
                let answer = world.request(method, &path).send().await.expect("an answer");
                expect_error(answer, StatusCode::NOT_FOUND, "not_found").await;
            }
        }
    }
    let all = expect(world.get(&everywhere(&world, "identities")).await, StatusCode::OK).await;
    assert_eq!(all, json!([estate.identity]), "hidden principals never appear");
    let principal = format!("{}/{}", identities(&world), hidden.id);
    expect_error(world.get(&principal).await, StatusCode::NOT_FOUND, "not_found").await;
    expect_error(world.delete(&principal).await, StatusCode::NOT_FOUND, "not_found").await;
    let into = world.send(Method::POST, &format!("{principal}/networks"), &network_body("in")).await;
    expect_error(into, StatusCode::NOT_FOUND, "not_found").await;

    // The second: the same, the other way round, for everything that an object can be asked for or used in.
    for (collection, made) in [(NETWORKS, &estate.network), (SECURITY_GROUPS, &estate.group), (SERVERS, &estate.server)]
    {
        let all = expect(world.get(collection).await, StatusCode::OK).await;
        assert_eq!(all.as_array().map(Vec::len), Some(1), "{collection}: {all}");
        assert!(!all.to_string().contains(id_of(made)), "{collection}: {all}");
        for method in [Method::GET, Method::DELETE] {
            let path = format!("{collection}/{}", id_of(made));
            let answer = world.request(method, &path).send().await.expect("an answer");
            expect_error(answer, StatusCode::NOT_FOUND, "not_found").await;
        }
    }
    for tail in ["start", "consolesessions", "consoleoutput", "sshkey"] {
        let method = if tail == "start" { Method::POST } else { Method::GET };
        let path = format!("{SERVERS}/{}/{tail}", id_of(&estate.server));
        let answer = world.request(method, &path).send().await.expect("an answer");
        expect_error(answer, StatusCode::NOT_FOUND, "not_found").await;
    }
    let reference = format!("{}/references/a.b.c%2F{}", network_path(&estate.network), world.ambient.uuid());
    let answer = world.request(Method::PUT, &reference).send().await.expect("an answer");
    expect_error(answer, StatusCode::NOT_FOUND, "not_found").await;
    let mut on_v1 = server.clone();
    on_v1["spec"]["networkId"] = json!(id_of(&estate.network));
    expect_error(world.send(Method::POST, SERVERS, &on_v1).await, StatusCode::NOT_FOUND, "not_found").await;
    let mut with_v1 = server;
    with_v1["metadata"]["name"] = json!("v2-2");
    with_v1["spec"]["networking"] = json!({"securityGroups": [id_of(&estate.group)]});
    expect_error(world.send(Method::POST, SERVERS, &with_v1).await, StatusCode::NOT_FOUND, "not_found").await;
}

#[tokio::test]
async fn a_path_that_is_wrong_anywhere_is_the_path_of_nothing() {
    let world = World::start().await;
    let (one, other) = (Estate::of(&world).await, Estate::of(&world).await);
    let (organization, project) = world.tenant().await;
    let of_another = format!("/api/v1/organizations/{organization}/projects/{project}/identities");
    for (plural, made) in one.parts() {
        let tail = format!("{plural}/{}", id_of(made));
        for wrong in [
            format!("{}/{tail}", other.path),
            format!("{}/{}/{tail}", identities(&world), world.ambient.uuid()),
            format!("{of_another}/{}/{tail}", id_of(&one.identity)),
        ] {
            for method in [Method::GET, Method::DELETE] {
                let answer = world.request(method, &wrong).send().await.expect("an answer");
                expect_error(answer, StatusCode::NOT_FOUND, "not_found").await;
            }
        }
        let malformed = world.get(&format!("{}/x/{tail}", identities(&world))).await;
        let text = expect_error(malformed, StatusCode::BAD_REQUEST, "invalid_request").await;
        assert!(text.contains("invalid path/query element"), "{text}");
    }
    let elsewhere = format!("{of_another}/{}/networks", id_of(&one.identity));
    expect_error(world.send(Method::POST, &elsewhere, &network_body("n")).await, StatusCode::NOT_FOUND, "not_found")
        .await;
    let nowhere = format!("/api/v1/organizations/{organization}/projects/{}/identities", world.ambient.uuid());
    let nowhere = world.send(Method::POST, &nowhere, &identity_body(&world, "i")).await;
    expect_error(nowhere, StatusCode::NOT_FOUND, "not_found").await;
}

#[tokio::test]
async fn lists_are_filtered_and_show_what_may_be_read() {
    let world = World::start().await;
    let estate = Estate::of(&world).await;
    let servers = everywhere(&world, "servers");
    let count = async |query: &str| {
        let list = expect(world.get(&format!("{servers}?{query}")).await, StatusCode::OK).await;
        list.as_array().map(Vec::len).expect("a list")
    };
    assert_eq!(count("tag=a%3Db").await, 1);
    assert_eq!(count("tag=a%3Dc").await, 0);
    assert_eq!(count(&format!("networkID={}", id_of(&estate.network))).await, 1);
    assert_eq!(count(&format!("projectID={}", world.ambient.uuid())).await, 0);
    for bad in [format!("organizationID={}", world.start.organization_id), "x=y".to_owned()] {
        expect_error(world.get(&format!("{servers}?{bad}")).await, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    let stranger = world.stranger().await;
    let list = world.send_as(&stranger, Method::GET, &servers, &json!(null)).await;
    assert_eq!(expect(list, StatusCode::OK).await, json!([]));
    let reader = world.member("reader", may(Endpoint::NetworksV1, &[Operation::Read]));
    let list = world.send_as(&reader, Method::GET, &everywhere(&world, "networks"), &json!(null)).await;
    assert_eq!(expect(list, StatusCode::OK).await, json!([estate.network]));
    let list = world.send_as(&reader, Method::GET, &servers, &json!(null)).await;
    assert_eq!(expect(list, StatusCode::OK).await, json!([]));
    // One permission is not the other version's.
    let path = network_path(&world.create(&world.network_body("v2")).await);
    let hidden = world.send_as(&reader, Method::GET, &path, &json!(null)).await;
    expect_error(hidden, StatusCode::NOT_FOUND, "not_found").await;
}

#[tokio::test]
async fn records_of_before_there_were_versions_are_of_the_second() {
    let world = World::start().await;
    let network = world.create(&world.network_body("old")).await;
    let record = stored(&world, Kind::Network, &network).await;
    let text = serde_json::to_string(&record.metadata).expect("json");
    assert!(!text.contains("apiVersion"), "{text}");
    let estate = Estate::of(&world).await;
    let record = stored(&world, Kind::Server, &estate.server).await;
    assert!(serde_json::to_string(&record.metadata).expect("json").contains("\"apiVersion\":\"1\""));
    let server = record.open::<Server>().expect("opens");
    assert_eq!(server.identity().ok(), Some(IdentityId(id_of(&estate.identity).parse().expect("an id"))));
    assert_ne!(ServerId(server.key.id), ServerId::named(server.network().expect("a network"), "web"));
    // What an actor writes does not change whose it is.
    let status = Write::Status {
        key: record.key,
        incarnation: record.metadata.incarnation,
        conditions: Box::default(),
        detail: record.detail.clone(),
        transitions: vec![],
    };
    world.store.commit(Batch::of(vec![status])).await.expect("commits");
    let path = format!("{}/servers/{}", estate.path, id_of(&estate.server));
    expect(world.get(&path).await, StatusCode::OK).await;
}

#[tokio::test]
async fn changes_can_be_tried_done_once_or_done_to_what_was_read_and_lists_come_in_pieces() {
    let world = World::start().await;
    let estate = Estate::of(&world).await;
    let networks = format!("{}/networks", estate.path);
    let tried = world.send(Method::POST, &format!("{networks}?dryRun=true"), &network_body("tried")).await;
    assert_eq!(tried.status(), StatusCode::OK, "nothing was created");
    for _ in 0..2 {
        let request = world.request(Method::POST, &networks).header("idempotency-key", "once");
        let made = request.json(&network_body("once")).send().await.expect("an answer");
        assert_eq!(made.status(), StatusCode::CREATED);
    }
    let list = everywhere(&world, "networks");
    let all = expect(world.get(&list).await, StatusCode::OK).await;
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
    let page = world.get(&format!("{list}?limit=1")).await;
    let links = page.headers().get_all("link").iter().map(|link| link.to_str().expect("ascii").to_owned());
    let links = links.collect::<Vec<_>>();
    let next = links.iter().find_map(|link| link.strip_suffix(">; rel=\"next\"")).expect("there is more");
    assert!(links.iter().any(|link| link.contains("successor-version")), "{links:?}");
    let (first, second) = (
        expect(page, StatusCode::OK).await,
        expect(world.get(next.strip_prefix('<').expect("an address")).await, StatusCode::OK).await,
    );
    assert_eq!(json!([first[0], second[0]]), all);

    let server = format!("{}/servers/{}", estate.path, id_of(&estate.server));
    for path in [&estate.path, &server] {
        let read = world.get(path).await;
        let tag = read.headers().get("etag").expect("a tag").clone();
        let stale = world.request(Method::DELETE, path).header("if-match", "\"other\"").send().await;
        assert_eq!(stale.expect("an answer").status(), StatusCode::PRECONDITION_FAILED, "{path}");
        let matching =
            world.request(Method::DELETE, &format!("{path}?dryRun=true")).header("if-match", tag).send().await;
        assert!(matching.expect("an answer").status().is_success(), "{path}");
    }
    assert_eq!(expect(world.get(&server).await, StatusCode::OK).await, estate.server);
}
