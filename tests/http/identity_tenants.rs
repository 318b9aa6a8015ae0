//! Organizations and projects over REST.

use regent::model::token::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::tenants::Tenant;
use super::{NETWORKS, World, expect, expect_error};

pub const ORGANIZATIONS: &str = "/api/v1/organizations";

pub fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"organizationType": "adhoc"}})
}

fn id(value: &Value) -> String {
    value["metadata"]["id"].as_str().expect("an id").to_owned()
}

fn projects(tenant: &Tenant) -> String {
    format!("{ORGANIZATIONS}/{}/projects", tenant.organization)
}

async fn status(world: &World, method: Method, path: &str, bearer: &str) -> StatusCode {
    world.anonymous(method, path).bearer_auth(bearer).send().await.expect("an answer").status()
}

#[tokio::test]
async fn an_organization_is_made_changed_and_marked_for_deletion() {
    let world = World::start().await;
    let body = json!({
        "metadata": {"name": "acme", "description": "Acme"},
        "spec": {"organizationType": "domain", "domain": "acme.example", "providerScope": "global", "providerID": "x"},
    });
    let made = expect(world.send(Method::POST, ORGANIZATIONS, &body).await, StatusCode::ACCEPTED).await;
    assert_eq!(made["spec"], body["spec"]);
    assert_eq!(made["metadata"]["provisioningStatus"], "provisioned");
    let path = format!("{ORGANIZATIONS}/{}", id(&made));
    assert_eq!(expect(world.get(&path).await, StatusCode::OK).await, made);
    let changed = world.send(Method::PUT, &path, &named("renamed")).await;
    assert_eq!((changed.status(), changed.text().await.expect("a body")), (StatusCode::OK, String::new()));
    let read = expect(world.get(&path).await, StatusCode::OK).await;
    assert_eq!((&read["metadata"]["name"], &read["spec"]), (&json!("renamed"), &json!({"organizationType": "adhoc"})));
    assert_eq!(read["metadata"].get("description"), None);
    for _ in 0..2 {
        let deleted = world.request(Method::DELETE, &path).send().await.expect("an answer");
        assert_eq!(deleted.status(), StatusCode::ACCEPTED);
    }
    let read = expect(world.get(&path).await, StatusCode::OK).await;
    assert_eq!(read["metadata"]["provisioningStatus"], "deprovisioning");
    assert!(read["metadata"]["deletionTime"].is_string());
    let project = json!({"metadata": {"name": "late"}, "spec": {"groupIDs": []}});
    for (method, path, body) in [
        (Method::PUT, path.clone(), named("late")),
        (Method::POST, format!("{path}/projects"), project.clone()),
        (Method::POST, format!("{path}/serviceaccounts"), project),
        (Method::PUT, format!("{path}/quotas"), json!({"quotas": []})),
    ] {
        let text =
            expect_error(world.send(method, &path, &body).await, StatusCode::BAD_REQUEST, "invalid_request").await;
        assert!(text.contains("being deleted"), "{text}");
    }
}

#[tokio::test]
async fn a_list_of_organizations_shows_ones_own_and_to_the_platform_all() {
    let world = World::start().await;
    let (one, other) = (world.full_tenant().await, world.full_tenant().await);
    let listed = async |bearer: &str, query: &str| {
        let request = world.anonymous(Method::GET, &format!("{ORGANIZATIONS}{query}")).bearer_auth(bearer);
        let list = expect(request.send().await.expect("an answer"), StatusCode::OK).await;
        list.as_array().expect("a list").iter().map(id).collect::<Vec<_>>()
    };
    for bearer in [&one.administrator, &one.user, &one.sibling] {
        assert_eq!(listed(bearer, "").await, [one.organization.to_string()]);
    }
    let reader = world.token_of("auditor", Role::PlatformReader).await;
    assert_eq!(listed(&reader, "").await.len(), 3, "the first one too");
    let member = "?email=administrator";
    let mut both = [one.organization.to_string(), other.organization.to_string()];
    both.sort();
    assert_eq!(listed(&reader, member).await, both);
    assert_eq!(listed(&reader, "?email=nobody").await, [] as [String; 0]);
    assert_eq!(
        status(&world, Method::GET, &format!("{ORGANIZATIONS}{member}"), &one.administrator).await,
        StatusCode::FORBIDDEN
    );
}

#[tokio::test]
async fn a_project_is_made_in_an_organization_and_linked_to_its_groups() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let all = projects(&tenant);
    let send = async |method: Method, path: &str, body: &Value| {
        let request = world.anonymous(method, path).bearer_auth(&tenant.administrator).json(body);
        request.send().await.expect("an answer")
    };
    let body = json!({"metadata": {"name": "new"}, "spec": {"groupIDs": [tenant.users_group]}});
    let made = expect(send(Method::POST, &all, &body).await, StatusCode::ACCEPTED).await;
    assert_eq!(made["spec"], body["spec"]);
    assert_eq!(made["metadata"]["organizationId"], tenant.organization.to_string());
    let path = format!("{all}/{}", id(&made));
    assert_eq!(status(&world, Method::GET, &path, &tenant.user).await, StatusCode::OK, "linked, at once");
    assert_eq!(status(&world, Method::GET, &path, &tenant.sibling).await, StatusCode::NOT_FOUND);
    let unlinked = json!({"metadata": {"name": "new"}, "spec": {"groupIDs": []}});
    let changed = send(Method::PUT, &path, &unlinked).await;
    assert_eq!((changed.status(), changed.text().await.expect("a body")), (StatusCode::OK, String::new()));
    assert_eq!(status(&world, Method::GET, &path, &tenant.user).await, StatusCode::NOT_FOUND, "unlinked, at once");
    let foreign = world.full_tenant().await;
    for groups in
        [json!([foreign.users_group]), json!([world.ambient.uuid()]), json!(["x"]), json!([tenant.group, tenant.group])]
    {
        let body = json!({"metadata": {"name": "bad"}, "spec": {"groupIDs": groups}});
        for (method, path) in [(Method::POST, &all), (Method::PUT, &path)] {
            expect_error(send(method, path, &body).await, StatusCode::BAD_REQUEST, "invalid_request").await;
        }
    }
}

#[tokio::test]
async fn a_list_of_projects_shows_those_that_one_may_read() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let listed = async |bearer: &str| {
        let request = world.anonymous(Method::GET, &projects(&tenant)).bearer_auth(bearer);
        let list = expect(request.send().await.expect("an answer"), StatusCode::OK).await;
        let mut ids = list.as_array().expect("a list").iter().map(id).collect::<Vec<_>>();
        ids.sort();
        ids
    };
    let mut both = [tenant.project.to_string(), tenant.other_project.to_string()];
    both.sort();
    assert_eq!(listed(&tenant.user).await, [tenant.project.to_string()]);
    assert_eq!(listed(&tenant.sibling).await, [tenant.other_project.to_string()]);
    assert_eq!(listed(&tenant.auditor).await, both);
}

#[tokio::test]
async fn a_deleted_project_stays_for_its_references_and_takes_nothing_new() {
    let world = World::start().await;
    let (start, all) = (&world.start, format!("{ORGANIZATIONS}/{}/projects", world.start.organization_id));
    let path = format!("{all}/{}", start.project_id);
    let reference = |number: u128| format!("{path}/references/a.b.c%2F{}", uuid::Uuid::from_u128(number));
    for _ in 0..2 {
        let added = world.request(Method::PUT, &reference(1)).send().await.expect("an answer");
        assert_eq!((added.status(), added.text().await.expect("a body")), (StatusCode::CREATED, String::new()));
    }
    for bad in ["unikorn", "a%2Fb", &format!("projects.identity.unikorn-cloud.org%2F{}", uuid::Uuid::nil())] {
        let refused = world.request(Method::PUT, &format!("{path}/references/{bad}")).send().await.expect("an answer");
        expect_error(refused, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    for _ in 0..2 {
        let deleted = world.request(Method::DELETE, &path).send().await.expect("an answer");
        assert_eq!(deleted.status(), StatusCode::ACCEPTED, "references do not refuse it");
    }
    let read = expect(world.get(&path).await, StatusCode::OK).await;
    assert_eq!(read["metadata"]["provisioningStatus"], "deprovisioning");
    let allocation = json!({
        "metadata": {"name": "undefined"},
        "spec": {"kind": "x", "id": "y", "allocations": [{"kind": "servers", "committed": 1, "reserved": 0}]},
    });
    let update = json!({"metadata": {"name": "late"}, "spec": {"groupIDs": []}});
    for (method, path, body) in [
        (Method::POST, NETWORKS.to_owned(), world.network_body("late")),
        (Method::PUT, reference(2), json!({})),
        (Method::POST, format!("{path}/allocations"), allocation),
        (Method::PUT, path.clone(), update),
    ] {
        let text =
            expect_error(world.send(method, &path, &body).await, StatusCode::BAD_REQUEST, "invalid_request").await;
        assert!(text.contains("the project is being deleted"), "{text}");
    }
    for _ in 0..2 {
        let removed = world.request(Method::DELETE, &reference(1)).send().await.expect("an answer");
        assert_eq!(removed.status(), StatusCode::NO_CONTENT);
    }
}

#[tokio::test]
async fn the_service_is_served_at_the_root_and_under_its_name() {
    let world = World::start().await;
    for prefix in ["", "/identity"] {
        let list = expect(world.get(&format!("{prefix}{ORGANIZATIONS}")).await, StatusCode::OK).await;
        assert_eq!(list.as_array().map(Vec::len), Some(1));
        expect(world.get(&format!("{prefix}/api/version")).await, StatusCode::OK).await;
    }
    let elsewhere = world.get(&format!("/region{ORGANIZATIONS}")).await;
    expect_error(elsewhere, StatusCode::NOT_FOUND, "not_found").await;
    let elsewhere = world.get(&format!("/identity{NETWORKS}")).await;
    expect_error(elsewhere, StatusCode::NOT_FOUND, "not_found").await;
}

#[tokio::test]
async fn bad_input_is_refused_with_its_rule_and_changes_nothing() {
    let world = World::start().await;
    let position = *world.store.latest().borrow();
    let one = format!("{ORGANIZATIONS}/{}", world.start.organization_id);
    let tries = [
        (
            Method::POST,
            ORGANIZATIONS.to_owned(),
            json!({"metadata": {"name": "<b>"}, "spec": {"organizationType": "adhoc"}}),
        ),
        (Method::POST, ORGANIZATIONS.to_owned(), json!({"metadata": {"name": "a"}, "spec": {}})),
        (
            Method::POST,
            ORGANIZATIONS.to_owned(),
            json!({"metadata": {"name": "a"}, "spec": {"organizationType": "club"}}),
        ),
        (
            Method::PUT,
            one.clone(),
            json!({"metadata": {"name": "a"}, "spec": {"organizationType": "adhoc", "domain": "a b"}}),
        ),
        (Method::PUT, one.clone(), json!([])),
        (Method::POST, format!("{one}/projects"), json!({"metadata": {"name": "a"}, "spec": {}})),
        (Method::POST, format!("{one}/users"), json!({"spec": {"subject": "a b", "state": "active", "groupIDs": []}})),
        (Method::POST, format!("{one}/users"), json!({"spec": {"subject": "a", "state": "asleep", "groupIDs": []}})),
        (
            Method::POST,
            format!("{one}/groups"),
            json!({"metadata": {"name": "a"}, "spec": {"roleIDs": ["x"], "serviceAccountIDs": []}}),
        ),
        (Method::POST, format!("{one}/groups"), json!({"metadata": {"name": "a"}, "spec": {"roleIDs": []}})),
        (Method::PUT, format!("{one}/quotas"), json!({"quotas": [{"kind": "floatingips", "quantity": 1}]})),
        (Method::PUT, format!("{one}/quotas"), json!({"quotas": [{"kind": "networks", "quantity": -1}]})),
        (Method::GET, format!("{ORGANIZATIONS}/not-a-uuid"), json!({})),
        (Method::GET, format!("{ORGANIZATIONS}?nonsense=1"), json!({})),
    ];
    for (method, path, body) in tries {
        let text =
            expect_error(world.send(method, &path, &body).await, StatusCode::BAD_REQUEST, "invalid_request").await;
        for sent in ["<b>", "club", "a b", "asleep", "floatingips", "not-a-uuid", "nonsense"] {
            assert!(!text.contains(sent), "{path} repeats what was sent: {text}");
        }
    }
    assert_eq!(*world.store.latest().borrow(), position, "nothing was committed");
}
