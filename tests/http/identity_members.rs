//! Groups, users, service accounts and roles over REST.

use regent::identity::acl::{Acl, Endpoint, Operation, Permission};
use regent::model::ids::{Incarnation, Kind, UserId};
use regent::model::member::{Group, GroupSpec};
use regent::model::metadata::{Metadata, Placement};
use regent::model::record::Record;
use regent::store::{Batch, Filter, Page, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::tenants::{Tenant, role};
use super::{World, expect, expect_error};

fn below(tenant: &Tenant, tail: &str) -> String {
    format!("/api/v1/organizations/{}/{tail}", tenant.organization)
}

fn id(value: &Value) -> String {
    value["metadata"]["id"].as_str().expect("an id").to_owned()
}

async fn send(world: &World, bearer: &str, method: Method, path: &str, body: &Value) -> reqwest::Response {
    world.anonymous(method, path).bearer_auth(bearer).json(body).send().await.expect("an answer")
}

async fn listed(world: &World, bearer: &str, path: &str, id: &str) -> Option<Value> {
    let list = expect(send(world, bearer, Method::GET, path, &json!(null)).await, StatusCode::OK).await;
    list.as_array().expect("a list").iter().find(|item| item["metadata"]["id"] == id).cloned()
}

#[tokio::test]
async fn a_user_joins_and_leaves_groups_from_either_side() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let (admin, users) = (&tenant.administrator, below(&tenant, "users"));
    let body = |groups: Value| json!({"spec": {"subject": "bob@example.org", "state": "active", "groupIDs": groups}});
    let made =
        expect(send(&world, admin, Method::POST, &users, &body(json!([tenant.group]))).await, StatusCode::CREATED)
            .await;
    assert_eq!(made["spec"], body(json!([tenant.group]))["spec"]);
    assert_eq!(made["status"], json!({}));
    let bob = id(&made);
    let again = send(&world, admin, Method::POST, &users, &body(json!([]))).await;
    expect_error(again, StatusCode::CONFLICT, "conflict").await;
    let group = below(&tenant, &format!("groups/{}", tenant.group));
    let read = expect(send(&world, admin, Method::GET, &group, &json!(null)).await, StatusCode::OK).await;
    assert_eq!(read["spec"]["userIDs"], json!([bob]));
    let path = format!("{users}/{bob}");
    let changed = expect(send(&world, admin, Method::PUT, &path, &body(json!([]))).await, StatusCode::OK).await;
    assert_eq!(changed["spec"]["groupIDs"], json!([]));
    let spec = json!({"roleIDs": [role("reader")], "userIDs": [bob], "serviceAccountIDs": []});
    let joined = json!({"metadata": {"name": "g"}, "spec": spec});
    let answer = send(&world, admin, Method::PUT, &group, &joined).await;
    assert_eq!((answer.status(), answer.text().await.expect("a body")), (StatusCode::OK, String::new()));
    let shown = listed(&world, admin, &users, &bob).await.expect("bob");
    assert_eq!(shown["spec"]["groupIDs"], json!([tenant.group]));
    let renamed = json!({"spec": {"subject": "eve", "state": "active", "groupIDs": []}});
    expect_error(send(&world, admin, Method::PUT, &path, &renamed).await, StatusCode::CONFLICT, "conflict").await;
    let gone = send(&world, admin, Method::DELETE, &path, &json!(null)).await;
    assert_eq!((gone.status(), gone.text().await.expect("a body")), (StatusCode::OK, String::new()));
    expect_error(send(&world, admin, Method::DELETE, &path, &json!(null)).await, StatusCode::NOT_FOUND, "not_found")
        .await;
    let read = expect(send(&world, admin, Method::GET, &group, &json!(null)).await, StatusCode::OK).await;
    assert_eq!(read["spec"]["userIDs"], json!([]), "the group has forgotten it");
}

#[tokio::test]
async fn a_deleted_group_is_forgotten_by_its_projects_and_gives_nothing() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let path = below(&tenant, &format!("groups/{}", tenant.users_group));
    let project = below(&tenant, &format!("projects/{}", tenant.project));
    assert_eq!(send(&world, &tenant.user, Method::GET, &project, &json!(null)).await.status(), StatusCode::OK);
    let gone = send(&world, &tenant.administrator, Method::DELETE, &path, &json!(null)).await;
    assert_eq!(gone.status(), StatusCode::OK);
    let read = send(&world, &tenant.administrator, Method::GET, &project, &json!(null)).await;
    let groups = expect(read, StatusCode::OK).await["spec"]["groupIDs"].clone();
    assert!(!groups.as_array().expect("a list").contains(&json!(tenant.users_group)), "{groups}");
    let answer = send(&world, &tenant.user, Method::GET, &project, &json!(null)).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND, "at once");
}

#[tokio::test]
async fn groups_hold_only_members_and_roles_that_are_there() {
    let world = World::start().await;
    let (tenant, foreign) = (world.full_tenant().await, world.full_tenant().await);
    let groups = below(&tenant, "groups");
    let subjects = json!([{"id": "alice", "issuer": "https://issuer.example"}]);
    let whole = json!({
        "roleIDs": [role("user")], "subjects": subjects, "userIDs": [tenant.spare_user],
        "serviceAccountIDs": [tenant.service_account],
    });
    let body = |spec: &Value| json!({"metadata": {"name": "g"}, "spec": spec});
    let made = send(&world, &tenant.administrator, Method::POST, &groups, &body(&whole)).await;
    assert_eq!(expect(made, StatusCode::CREATED).await["spec"], whole);
    for (field, bad) in [
        ("roleIDs", json!([world.ambient.uuid()])),
        ("roleIDs", json!([role("platform-administrator")])),
        ("userIDs", json!([foreign.spare_user])),
        ("userIDs", json!([world.ambient.uuid()])),
        ("serviceAccountIDs", json!([foreign.service_account])),
        ("subjects", json!([{"id": "a b", "issuer": "x"}])),
        ("subjects", json!(vec![json!({"id": "a".repeat(254), "issuer": "x".repeat(254)}); 130])),
    ] {
        let mut spec = whole.clone();
        spec[field] = bad;
        let refused = send(&world, &tenant.administrator, Method::POST, &groups, &body(&spec)).await;
        expect_error(refused, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
}

#[tokio::test]
async fn one_may_only_grant_what_one_holds() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let mut acl = Acl::default();
    let grants = acl.organizations.entry(tenant.organization).or_default();
    for endpoint in [Endpoint::Groups, Endpoint::Users, Endpoint::ServiceAccounts, Endpoint::Projects, Endpoint::Roles]
    {
        grants.everywhere.extend(Operation::ALL.map(|operation| Permission { endpoint, operation }));
    }
    let clerk = world.bearer_of("clerk", acl);
    let position = *world.store.latest().borrow();
    let spec = |roles: Value, users: Value| json!({"roleIDs": roles, "userIDs": users, "serviceAccountIDs": []});
    let named = |spec: Value| json!({"metadata": {"name": "x"}, "spec": spec});
    let in_group = json!([tenant.group]);
    let tries = [
        (Method::POST, "groups".to_owned(), named(spec(json!([role("reader")]), json!([])))),
        (Method::PUT, format!("groups/{}", tenant.group), named(spec(json!([role("user")]), json!([])))),
        (
            Method::PUT,
            format!("groups/{}", tenant.group),
            named(spec(json!([role("reader")]), json!([tenant.spare_user]))),
        ),
        (Method::POST, "users".to_owned(), json!({"spec": {"subject": "x", "state": "active", "groupIDs": in_group}})),
        (Method::POST, "serviceaccounts".to_owned(), named(json!({"groupIDs": in_group}))),
        (Method::PUT, format!("serviceaccounts/{}", tenant.service_account), named(json!({"groupIDs": in_group}))),
        (Method::POST, "projects".to_owned(), named(json!({"groupIDs": in_group}))),
        (Method::PUT, format!("projects/{}", tenant.other_project), named(json!({"groupIDs": in_group}))),
    ];
    for (method, tail, body) in tries {
        let refused = send(&world, &clerk, method.clone(), &below(&tenant, &tail), &body).await;
        let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains("granted"), "{method} {tail}: {text}");
    }
    assert_eq!(*world.store.latest().borrow(), position, "nothing was committed");
    let harmless = named(spec(json!([]), json!([])));
    let path = below(&tenant, &format!("groups/{}", tenant.group));
    assert_eq!(
        send(&world, &clerk, Method::PUT, &path, &harmless).await.status(),
        StatusCode::OK,
        "to take is not to grant"
    );
    for (bearer, expected) in
        [(&clerk, vec![]), (&tenant.administrator, vec!["administrator", "auditor", "reader", "user"])]
    {
        let roles = send(&world, bearer, Method::GET, &below(&tenant, "roles"), &json!(null)).await;
        let roles = expect(roles, StatusCode::OK).await;
        let roles = roles.as_array().expect("a list").clone();
        assert_eq!(roles.len(), 4, "protected roles are not shown");
        let grantable = roles.iter().filter(|role| role["grantable"] == true);
        let mut shown = grantable.map(|role| role["metadata"]["name"].as_str().expect("a name")).collect::<Vec<_>>();
        shown.sort_unstable();
        assert_eq!(shown, expected);
    }
}

#[tokio::test]
async fn a_service_account_has_one_token_that_is_shown_once_and_ends_when_it_is_rotated() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let (admin, all) = (&tenant.administrator, below(&tenant, "serviceaccounts"));
    let body = json!({"metadata": {"name": "ci"}, "spec": {"groupIDs": [tenant.users_group]}});
    let made = expect(send(&world, admin, Method::POST, &all, &body).await, StatusCode::CREATED).await;
    let token = |answer: &Value| answer["status"]["accessToken"].as_str().expect("a token").to_owned();
    let first = token(&made);
    let project = below(&tenant, &format!("projects/{}", tenant.project));
    let may = async |bearer: &str| send(&world, bearer, Method::GET, &project, &json!(null)).await.status();
    assert_eq!(may(&first).await, StatusCode::OK);
    let (path, account) = (format!("{all}/{}", id(&made)), id(&made));
    let shown = listed(&world, admin, &all, &account).await.expect("it is listed");
    assert_eq!(shown["status"].get("accessToken"), None);
    assert_eq!((&shown["spec"], &shown["status"]["expiry"]), (&body["spec"], &made["status"]["expiry"]));
    let stored = world.store.list(&Filter::of(Kind::Token), Page::FIRST).await.expect("reads");
    let secret = first.rsplit('_').next().expect("a part");
    assert!(stored.iter().all(|record| !record.spec.text().contains(secret)), "the secret is not stored");
    let rotated = send(&world, admin, Method::POST, &format!("{path}/rotate"), &json!(null)).await;
    let second = token(&expect(rotated, StatusCode::OK).await);
    assert_eq!((may(&first).await, may(&second).await), (StatusCode::UNAUTHORIZED, StatusCode::OK), "at once");
    let left = json!({"metadata": {"name": "ci"}, "spec": {"groupIDs": []}});
    let changed = expect(send(&world, admin, Method::PUT, &path, &left).await, StatusCode::OK).await;
    assert_eq!((&changed["spec"]["groupIDs"], changed["status"].get("accessToken")), (&json!([]), None));
    assert_eq!(may(&second).await, StatusCode::NOT_FOUND, "without its group it sees no project, at once");
    assert_eq!(send(&world, admin, Method::DELETE, &path, &json!(null)).await.status(), StatusCode::OK);
    assert_eq!(may(&second).await, StatusCode::UNAUTHORIZED, "at once");
    let tokens = world.store.list(&Filter::of(Kind::Token), Page::FIRST).await.expect("reads");
    assert!(tokens.iter().all(|record| record.metadata.name != account), "its tokens went with it");
}

#[tokio::test]
async fn a_user_that_is_not_active_has_nothing_and_one_that_is_deleted_is_unknown() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let user = UserId::of(tenant.organization, "user");
    let (admin, path) = (&tenant.administrator, below(&tenant, &format!("users/{user}")));
    let project = below(&tenant, &format!("projects/{}", tenant.project));
    let get = async |path: &str| send(&world, &tenant.user, Method::GET, path, &json!(null)).await;
    for (state, expected) in [
        ("active", StatusCode::OK),
        ("suspended", StatusCode::FORBIDDEN),
        ("pending", StatusCode::FORBIDDEN),
        ("active", StatusCode::OK),
    ] {
        let body = json!({"spec": {"subject": "user", "state": state, "groupIDs": [tenant.users_group]}});
        expect(send(&world, admin, Method::PUT, &path, &body).await, StatusCode::OK).await;
        assert_eq!(get(&project).await.status(), expected, "{state}, at once");
        let organizations = expect(get("/api/v1/organizations").await, StatusCode::OK).await;
        let count = organizations.as_array().expect("a list").len();
        assert_eq!(count, usize::from(state == "active"), "{state}");
        let images = get(&format!("/api/v2/regions/{}/images", world.start.region_id.expect("a region"))).await;
        let seen = if state == "active" { StatusCode::OK } else { StatusCode::NOT_FOUND };
        assert_eq!(images.status(), seen, "{state}: what everybody sees is not for those who have nothing");
    }
    assert_eq!(send(&world, admin, Method::DELETE, &path, &json!(null)).await.status(), StatusCode::OK);
    expect_error(get(&project).await, StatusCode::UNAUTHORIZED, "access_denied").await;
    let children = world.store.children(user.key()).await.expect("reads");
    assert!(children.is_empty(), "its tokens went with it");
}

#[tokio::test]
async fn an_organization_has_only_so_many_groups() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let placement = Placement { organization: Some(tenant.organization), ..Placement::default() };
    let group = |_| {
        let incarnation = Incarnation(world.ambient.uuid());
        let metadata = Metadata::new(incarnation, "g", placement, "test", world.ambient.now());
        let metadata = Metadata { owner: Some(tenant.organization.key()), ..metadata };
        Write::Insert(Box::new(Record::new::<Group>(world.ambient.uuid(), metadata, &GroupSpec::default())))
    };
    let existing = world.store.children(tenant.organization.key()).await.expect("reads");
    let existing = existing.iter().filter(|key| key.kind == Kind::Group).count();
    let last = 1000 - existing - 1;
    world.store.commit(Batch::of((0..last).map(group).collect())).await.expect("commits");
    let body = json!({"metadata": {"name": "g"}, "spec": {"roleIDs": [], "serviceAccountIDs": []}});
    let made = async || send(&world, &tenant.administrator, Method::POST, &below(&tenant, "groups"), &body).await;
    assert_eq!(made().await.status(), StatusCode::CREATED);
    expect_error(made().await, StatusCode::FORBIDDEN, "forbidden").await;
}
