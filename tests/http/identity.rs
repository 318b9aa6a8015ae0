//! Who may see and do what.

use regent::identity::acl::{Acl, Endpoint, Operation};
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{NETWORKS, World, expect, expect_error, may, network_path};

#[tokio::test]
async fn a_foreign_network_and_an_unknown_one_answer_alike() {
    let world = World::start().await;
    let network = world.create(&world.network_body("theirs")).await;
    let (organization, _) = world.tenant().await;
    let mut acl = Acl::default();
    acl.organizations.entry(organization).or_default().everywhere = may(Endpoint::NetworksV2, &Operation::ALL);
    let stranger = world.bearer_of("stranger", acl);
    let unknown = format!("{NETWORKS}/{}", world.ambient.uuid());
    let change = json!({"metadata": {"name": "x"}, "spec": {"dnsNameservers": []}});
    let reference = format!("/references/a.b.c%2F{}", world.ambient.uuid());
    for (method, tail) in [
        (Method::GET, ""),
        (Method::PUT, ""),
        (Method::DELETE, ""),
        (Method::PUT, reference.as_str()),
        (Method::DELETE, reference.as_str()),
    ] {
        let mut texts = Vec::new();
        for path in [&network_path(&network), &unknown] {
            let request = world.anonymous(method.clone(), &format!("{path}{tail}")).bearer_auth(&stranger);
            let response = request.json(&change).send().await.expect("an answer");
            texts.push(expect_error(response, StatusCode::NOT_FOUND, "not_found").await);
        }
        assert_eq!(texts[0], texts[1]);
    }
    let list = world.anonymous(Method::GET, NETWORKS).bearer_auth(&stranger).send().await.expect("an answer");
    assert_eq!(expect(list, StatusCode::OK).await, json!([]));
    let asked = format!("{NETWORKS}?organizationID={}", world.start.organization_id);
    let list = world.anonymous(Method::GET, &asked).bearer_auth(&stranger).send().await.expect("an answer");
    assert_eq!(expect(list, StatusCode::OK).await, json!([]));
}

#[tokio::test]
async fn a_reader_may_not_change_what_it_reads() {
    let world = World::start().await;
    let network = world.create(&world.network_body("read-only")).await;
    let mut acl = Acl::default();
    let grants = acl.organizations.entry(world.start.organization_id).or_default();
    grants.projects.insert(world.start.project_id, may(Endpoint::NetworksV2, &[Operation::Read]));
    let reader = world.bearer_of("reader", acl);
    let path = network_path(&network);
    let read = world.anonymous(Method::GET, &path).bearer_auth(&reader).send().await.expect("an answer");
    assert_eq!(expect(read, StatusCode::OK).await, network);
    let change = json!({"metadata": {"name": "x"}, "spec": {"dnsNameservers": []}});
    let reference = format!("{path}/references/a.b.c%2F{}", world.ambient.uuid());
    let tries = [
        (Method::PUT, path.clone(), change.clone(), "update"),
        (Method::DELETE, path, change.clone(), "delete"),
        (Method::POST, NETWORKS.to_owned(), world.network_body("new"), "create"),
        (Method::PUT, reference, change, "create"),
    ];
    for (method, path, body, operation) in tries {
        let request = world.anonymous(method, &path).bearer_auth(&reader).json(&body);
        let response = request.send().await.expect("an answer");
        let text = expect_error(response, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains(operation) && text.contains("region:networks:v2"), "{text}");
    }
}

#[tokio::test]
async fn a_refusal_names_only_the_users_that_the_caller_may_know() {
    let world = World::start().await;
    let path = network_path(&world.create(&world.network_body("held")).await);
    let reference = format!("{path}/references/a.b.c%2F{}", world.ambient.uuid());
    let added = world.request(Method::PUT, &reference).send().await.expect("an answer");
    assert_eq!(added.status(), StatusCode::CREATED);
    let mut acl = Acl::default();
    let grants = acl.organizations.entry(world.start.organization_id).or_default();
    grants.everywhere = may(Endpoint::NetworksV2, &Operation::ALL);
    let owner = world.bearer_of("owner", acl);
    let refused = world.anonymous(Method::DELETE, &path).bearer_auth(&owner).send().await.expect("an answer");
    let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use") && !text.contains("a.b.c"), "{text}");
}

#[tokio::test]
async fn a_private_region_is_there_for_its_organizations_alone() {
    let world = World::start().await;
    let (other, _) = world.tenant().await;
    let private = world.region("private", Some(vec![other]), false).await;
    let mut acl = Acl::default();
    let grants = acl.organizations.entry(world.start.organization_id).or_default();
    grants.everywhere = may(Endpoint::NetworksV2, &Operation::ALL);
    grants.everywhere.extend(may(Endpoint::ExternalNetworks, &[Operation::Read]));
    let user = world.bearer_of("user", acl);
    let mut body = world.network_body("x");
    body["spec"]["regionId"] = json!(private);
    let created = world.anonymous(Method::POST, NETWORKS).bearer_auth(&user).json(&body).send().await;
    expect_error(created.expect("an answer"), StatusCode::NOT_FOUND, "not_found").await;
    let path = format!("/api/v1/organizations/{}/regions/{private}/externalnetworks", world.start.organization_id);
    let read = world.anonymous(Method::GET, &path).bearer_auth(&user).send().await.expect("an answer");
    expect_error(read, StatusCode::NOT_FOUND, "not_found").await;
}
