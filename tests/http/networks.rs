//! Networks as clients use them.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{NETWORKS, World, expect, expect_error, network_path};

#[tokio::test]
async fn a_created_network_reads_back_as_it_was_written() {
    let world = World::start().await;
    let mut body = world.network_body("prod-net");
    body["metadata"]["description"] = json!("the first");
    body["metadata"]["tags"] = json!([{"name": "env/x.y:z+1", "value": "a=b"}]);
    body["spec"]["prefix"] = json!("10.0.0.7/22");
    body["spec"]["dnsNameservers"] = json!(["9.9.9.9", "1.1.1.1"]);
    body["spec"]["routes"] = json!([{"prefix": "10.9.0.1/16", "nexthop": "10.0.0.254"}]);
    body["spec"]["reservations"] = json!({"prefixLength": 26});
    let created = world.create(&body).await;
    let metadata = &created["metadata"];
    assert_eq!(metadata["name"], "prod-net");
    assert_eq!(metadata["description"], "the first");
    assert_eq!(metadata["tags"], body["metadata"]["tags"]);
    assert_eq!(metadata["createdBy"], "bootstrap");
    assert_eq!(metadata["organizationId"], body["spec"]["organizationId"]);
    assert_eq!(metadata["projectId"], body["spec"]["projectId"]);
    assert_eq!(metadata["provisioningStatus"], "pending");
    assert_eq!(metadata["healthStatus"], "unknown");
    assert_eq!(created["spec"]["dnsNameservers"], body["spec"]["dnsNameservers"]);
    assert_eq!(created["spec"]["routes"], body["spec"]["routes"]);
    assert_eq!(created["status"]["prefix"], "10.0.0.7/22");
    assert_eq!(created["status"]["regionId"], body["spec"]["regionId"]);
    assert_eq!(created["status"]["reservations"], json!({"prefixLength": 26}));
    assert_eq!(expect(world.get(&network_path(&created)).await, StatusCode::OK).await, created);
}

#[tokio::test]
async fn what_was_omitted_stays_omitted() {
    let world = World::start().await;
    let created = world.create(&world.network_body("plain")).await;
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        keys(&created["metadata"]),
        [
            "createdBy",
            "creationTime",
            "healthStatus",
            "id",
            "name",
            "organizationId",
            "projectId",
            "provisioningStatus"
        ]
    );
    assert_eq!(keys(&created["spec"]), ["dnsNameservers"]);
    let effective = json!({"prefixLength": 25, "providerReservedPrefixLength": 28});
    assert_eq!(created["status"]["reservations"], effective);
    let time = created["metadata"]["creationTime"].as_str().expect("a time");
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
}

#[tokio::test]
async fn an_update_replaces_what_may_change_and_keeps_the_rest() {
    let world = World::start().await;
    let mut body = world.network_body("before");
    body["metadata"]["description"] = json!("old");
    body["metadata"]["tags"] = json!([{"name": "a", "value": "b"}]);
    body["spec"]["routes"] = json!([{"prefix": "10.9.0.0/16", "nexthop": "10.0.0.254"}]);
    let created = world.create(&body).await;
    let path = network_path(&created);
    // Read-only fields that a client sends back unchanged are ignored.
    let change = json!({"metadata": {"name": "after", "id": "x"}, "spec": {"dnsNameservers": ["1.1.1.1"], "prefix": "1.0.0.0/8"}});
    let updated = expect(world.send(Method::PUT, &path, &change).await, StatusCode::ACCEPTED).await;
    assert_eq!(updated["metadata"]["name"], "after");
    assert_eq!(updated["metadata"].get("description"), None);
    assert_eq!(updated["metadata"].get("tags"), None);
    assert_eq!(updated["metadata"]["createdBy"], "bootstrap");
    assert_eq!(updated["metadata"]["creationTime"], created["metadata"]["creationTime"]);
    assert_eq!(updated["metadata"]["modifiedBy"], "bootstrap");
    assert!(updated["metadata"]["modifiedTime"].is_string());
    assert_eq!(updated["spec"], json!({"dnsNameservers": ["1.1.1.1"]}));
    assert_eq!(updated["status"], created["status"]);
    assert_eq!(expect(world.get(&path).await, StatusCode::OK).await, updated);
}

#[tokio::test]
async fn b11_concurrent_updates_all_succeed() {
    let world = World::start().await;
    let path = network_path(&world.create(&world.network_body("busy")).await);
    let updates = (0..12).map(|number| {
        let (world, path) = (&world, &path);
        async move {
            let change = json!({"metadata": {"name": format!("name-{number}")}, "spec": {"dnsNameservers": []}});
            world.send(Method::PUT, path, &change).await.status()
        }
    });
    let answers = futures_util::future::join_all(updates).await;
    assert!(answers.iter().all(|status| *status == StatusCode::ACCEPTED), "{answers:?}");
}

#[tokio::test]
async fn a_delete_is_accepted_again_while_it_is_under_way_and_updates_are_refused() {
    let world = World::start().await;
    let path = network_path(&world.create(&world.network_body("gone")).await);
    for _ in 0..2 {
        let deleted = world.request(Method::DELETE, &path).send().await.expect("an answer");
        assert_eq!(deleted.status(), StatusCode::ACCEPTED);
        assert_eq!(deleted.text().await.expect("a body"), "");
    }
    let read = expect(world.get(&path).await, StatusCode::OK).await;
    assert_eq!(read["metadata"]["provisioningStatus"], "deprovisioning");
    assert!(read["metadata"]["deletionTime"].is_string());
    let change = json!({"metadata": {"name": "late"}, "spec": {"dnsNameservers": []}});
    let refused = world.send(Method::PUT, &path, &change).await;
    let text = expect_error(refused, StatusCode::BAD_REQUEST, "invalid_request").await;
    assert!(text.contains("being deleted"), "{text}");
}

#[tokio::test]
async fn what_does_not_exist_is_not_found_whatever_is_asked_of_it() {
    let world = World::start().await;
    let path = format!("{NETWORKS}/{}", world.ambient.uuid());
    let change = json!({"metadata": {"name": "x"}, "spec": {"dnsNameservers": []}});
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let response = world.send(method, &path, &change).await;
        expect_error(response, StatusCode::NOT_FOUND, "not_found").await;
    }
}

#[tokio::test]
async fn a_network_needs_a_project_and_a_region_that_are_there_for_it() {
    let world = World::start().await;
    let (other, other_project) = world.tenant().await;
    let withdrawn = world.region("withdrawn", None, true).await;
    let wrong = [
        ("projectId", json!(world.ambient.uuid())),
        ("projectId", json!(other_project)),
        ("organizationId", json!(other)),
        ("regionId", json!(world.ambient.uuid())),
        ("regionId", json!(withdrawn)),
    ];
    for (field, value) in wrong {
        let mut body = world.network_body("x");
        body["spec"][field] = value;
        let response = world.send(Method::POST, NETWORKS, &body).await;
        expect_error(response, StatusCode::NOT_FOUND, "not_found").await;
    }
    assert_eq!(expect(world.get(NETWORKS).await, StatusCode::OK).await, json!([]), "nothing was left behind");
}

#[tokio::test]
async fn malformed_requests_are_400_and_contradictory_ones_422() {
    let world = World::start().await;
    let bad: [(&str, Value); 6] = [
        ("prefix", json!("10.0.0.0/33")),
        ("prefix", json!("10.0.0.0/25")),
        ("prefix", json!(7)),
        ("dnsNameservers", json!(["not-an-address"])),
        ("routes", json!([{"prefix": "10.0.0.0/8", "nexthop": "x"}])),
        ("regionId", json!("not-a-uuid")),
    ];
    for (field, value) in bad {
        let mut body = world.network_body("x");
        body["spec"][field] = value;
        let response = world.send(Method::POST, NETWORKS, &body).await;
        let text = expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
        assert!(!text.contains("not-a"), "the value is not repeated: {text}");
    }
    for name in ["", "<script>", "../x", "a\u{0}b", &"n".repeat(64)] {
        let response = world.send(Method::POST, NETWORKS, &world.network_body(name)).await;
        expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    for reservations in [json!({"prefixLength": 20}), json!({"prefixLength": 26, "providerReservedPrefixLength": 24})] {
        let mut body = world.network_body("x");
        body["spec"]["reservations"] = reservations;
        let response = world.send(Method::POST, NETWORKS, &body).await;
        expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
    }
}

#[tokio::test]
async fn lists_filter_by_scope_and_by_every_tag() {
    let world = World::start().await;
    let (other, other_project) = world.tenant().await;
    let second_region = world.region("second", None, false).await;
    let mut tagged = world.network_body("tagged");
    tagged["metadata"]["tags"] = json!([{"name": "a", "value": "x=y"}, {"name": "b", "value": ""}]);
    let mut foreign = world.network_body("foreign");
    foreign["spec"]["organizationId"] = json!(other);
    foreign["spec"]["projectId"] = json!(other_project);
    let mut elsewhere = world.network_body("elsewhere");
    elsewhere["spec"]["regionId"] = json!(second_region);
    for body in [&tagged, &foreign, &elsewhere] {
        world.create(body).await;
    }
    let names = async |query: String| {
        let list = expect(world.get(&format!("{NETWORKS}?{query}")).await, StatusCode::OK).await;
        let name = |network: &Value| network["metadata"]["name"].as_str().expect("a name").to_owned();
        let mut names = list.as_array().expect("a list").iter().map(name).collect::<Vec<_>>();
        names.sort();
        names
    };
    let start = &world.start;
    assert_eq!(names(String::new()).await, ["elsewhere", "foreign", "tagged"]);
    assert_eq!(names("tag=a%3Dx%3Dy".to_owned()).await, ["tagged"]);
    assert_eq!(names("tag=a%3Dx%3Dy&tag=b%3D".to_owned()).await, ["tagged"]);
    assert_eq!(names("tag=a%3Dx%3Dy&tag=b%3Dz".to_owned()).await, [""; 0]);
    assert_eq!(names(format!("organizationID={other}")).await, ["foreign"]);
    assert_eq!(names(format!("organizationID={other}&organizationID={}", start.organization_id)).await.len(), 3);
    assert_eq!(names(format!("projectID={}", start.project_id)).await, ["elsewhere", "tagged"]);
    assert_eq!(names(format!("regionID={second_region}&projectID={other_project}")).await, [""; 0]);
    assert_eq!(names(format!("regionID={second_region}")).await, ["elsewhere"]);
    for bad in ["tag=novalue", "tag=%3Dx", "organizationID=x", "projectID=", "regionID=..", "nonsense=1"] {
        let response = world.get(&format!("{NETWORKS}?{bad}")).await;
        let text = expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
        assert!(text.contains("invalid path/query element"), "{bad}: {text}");
    }
}

#[tokio::test]
async fn a_list_longer_than_a_page_is_complete_and_in_order() {
    use regent::model::ids::{Incarnation, Key, Kind};
    use regent::model::metadata::{Metadata, Placement};
    use regent::model::network::{Network, NetworkSpec, Prefix};
    use regent::model::record::Record;
    use regent::store::{Batch, PAGE_MAX, Write};

    let world = World::start().await;
    let placement = Placement {
        organization: Some(world.start.organization_id),
        project: Some(world.start.project_id),
        region: world.start.region_id,
        ..Placement::default()
    };
    let prefix = Prefix::parse("10.0.0.0/24").expect("a prefix");
    let spec = NetworkSpec { prefix, reservations: None, dns_nameservers: vec![], routes: None };
    let total = PAGE_MAX * 2;
    let record = |_| {
        let metadata = Metadata::new(Incarnation(world.ambient.uuid()), "many", placement, "test", world.ambient.now());
        let record = Record::new::<Network>(world.ambient.uuid(), metadata, &spec);
        assert_eq!(record.key, Key::new(Kind::Network, record.key.id));
        Write::Insert(Box::new(record))
    };
    world.store.commit(Batch::of((0..total).map(record).collect())).await.expect("commits");
    let list = expect(world.get(NETWORKS).await, StatusCode::OK).await;
    let ids = list.as_array().expect("a list").iter().map(|network| network["metadata"]["id"].as_str().expect("an id"));
    let ids = ids.collect::<Vec<_>>();
    assert_eq!(ids.len(), total);
    assert!(ids.is_sorted());
}

#[tokio::test]
async fn the_quota_is_kept_and_says_so_on_every_store() {
    for (store, world) in World::on_each_store().await {
        let (other, other_project) = world.tenant().await;
        let mut body = world.network_body("x");
        body["spec"]["organizationId"] = json!(other);
        body["spec"]["projectId"] = json!(other_project);
        for _ in 0..5 {
            world.create(&body).await;
        }
        let response = world.send(Method::POST, NETWORKS, &body).await;
        let text = expect_error(response, StatusCode::FORBIDDEN, "forbidden").await;
        assert_eq!(text, "total networks allocation of 6 would exceed quota limit of 5", "{store}");
        let list = expect(world.get(&format!("{NETWORKS}?organizationID={other}")).await, StatusCode::OK).await;
        assert_eq!(list.as_array().map(Vec::len), Some(5), "{store}");
        let held = world.store.references(other_project.key()).await.expect("reads");
        assert_eq!(held.len(), 5, "{store}: a refused network leaves no principal behind");
    }
}

#[tokio::test]
async fn a_life_of_a_network_reads_the_same_on_every_store() {
    for (store, world) in World::on_each_store().await {
        let created = world.create(&world.network_body("one")).await;
        let path = network_path(&created);
        assert_eq!(expect(world.get(&path).await, StatusCode::OK).await, created, "{store}");
        let change = json!({"metadata": {"name": "two"}, "spec": {"dnsNameservers": ["1.1.1.1"]}});
        let updated = expect(world.send(Method::PUT, &path, &change).await, StatusCode::ACCEPTED).await;
        assert_eq!(updated["spec"], change["spec"], "{store}");
        assert_eq!(expect(world.get(NETWORKS).await, StatusCode::OK).await, json!([updated]), "{store}");
        let reference = format!("{path}/references/a.b.c%2F{}", world.ambient.uuid());
        for (method, target, status) in [
            (Method::PUT, &reference, StatusCode::CREATED),
            (Method::DELETE, &path, StatusCode::FORBIDDEN),
            (Method::DELETE, &reference, StatusCode::NO_CONTENT),
            (Method::DELETE, &path, StatusCode::ACCEPTED),
            (Method::PUT, &reference, StatusCode::BAD_REQUEST),
        ] {
            let answer = world.request(method.clone(), target).send().await.expect("an answer");
            assert_eq!(answer.status(), status, "{store}: {method} {target}");
        }
        let gone = expect(world.get(&path).await, StatusCode::OK).await;
        assert_eq!(gone["metadata"]["provisioningStatus"], "deprovisioning", "{store}");
    }
}
