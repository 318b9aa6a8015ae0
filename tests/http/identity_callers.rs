//! What callers may do, for whom they speak, and how much they may send.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use regent::api::rate::TenantRate;
use regent::identity::acl::Acl;
use regent::identity::speaking::{ActorKind, Delegate};
use regent::identity::{Account, Caller};
use regent::model::ambient::Ambient;
use regent::model::ids::NetworkId;
use regent::model::quota::QuotaKind;
use regent::model::token::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::tenants::{Tenant, used};
use super::{NETWORKS, World, expect, expect_error, memory_store, network_path};

pub fn principal(tenant: &Tenant, actor: &str) -> String {
    let text = json!({
        "organizationId": tenant.organization, "organizationIds": [tenant.organization], "projectId": tenant.project,
        "type": "user", "actor": actor,
    });
    URL_SAFE_NO_PAD.encode(text.to_string())
}

fn network_in(world: &World, tenant: &Tenant) -> Value {
    let mut body = world.network_body("theirs");
    body["spec"]["organizationId"] = json!(tenant.organization);
    body["spec"]["projectId"] = json!(tenant.project);
    body
}

#[tokio::test]
async fn a_service_that_acts_as_a_user_may_do_what_both_may() {
    let world = World::start().await;
    let (tenant, foreign) = (world.full_tenant().await, world.full_tenant().await);
    let path = network_path(&world.create(&network_in(&world, &tenant)).await);
    let service = world.token_of("compute", Role::ComputeService).await;
    let read = async |principal: Option<String>, impersonate: bool| {
        let mut request = world.anonymous(Method::GET, &path).bearer_auth(&service);
        if let Some(principal) = principal {
            request = request.header("X-Principal", principal);
        }
        if impersonate {
            request = request.header("X-Impersonate", "true");
        }
        request.send().await.expect("an answer").status()
    };
    assert_eq!(read(None, false).await, StatusCode::OK, "by itself");
    assert_eq!(read(Some(principal(&tenant, "user")), false).await, StatusCode::OK, "named, not acted as");
    assert_eq!(read(Some(principal(&tenant, "user")), true).await, StatusCode::OK);
    assert_eq!(read(Some(principal(&tenant, "sibling")), true).await, StatusCode::NOT_FOUND);
    assert_eq!(read(Some(principal(&tenant, "nobody")), true).await, StatusCode::NOT_FOUND);
    assert_eq!(read(Some(principal(&foreign, "administrator")), true).await, StatusCode::NOT_FOUND);
    assert_eq!(read(None, true).await, StatusCode::BAD_REQUEST, "as nobody is not as itself");
    assert_eq!(read(Some("%%%".to_owned()), false).await, StatusCode::BAD_REQUEST);
    let said = async |bearer: &str, headers: &[(&str, &str)]| {
        let request = world.anonymous(Method::GET, &path).bearer_auth(bearer);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.expect("an answer").status()
    };
    let (user, nobody) = (&*principal(&tenant, "user"), &*principal(&tenant, "nobody"));
    assert_eq!(said(&service, &[("X-Principal", nobody), ("X-Impersonate", "false")]).await, StatusCode::OK);
    let unclear: [&[(&str, &str)]; 6] = [
        &[("X-Principal", user), ("X-Impersonate", "1")],
        &[("X-Principal", user), ("X-Impersonate", "True")],
        &[("X-Principal", user), ("X-Impersonate", "")],
        &[("X-Principal", user), ("X-Impersonate", "true"), ("X-Impersonate", "false")],
        &[("X-Principal", user), ("X-Principal", nobody), ("X-Impersonate", "true")],
        &[("X-Impersonate", "yes")],
    ];
    for headers in unclear {
        assert_eq!(said(&service, headers).await, StatusCode::BAD_REQUEST, "{headers:?}");
        assert_eq!(said(&tenant.user, headers).await, StatusCode::OK, "nobody looks at it: {headers:?}");
    }
    let update = json!({"metadata": {"name": "x"}, "spec": {"dnsNameservers": []}});
    let request = world.anonymous(Method::PUT, &path).bearer_auth(&service).json(&update);
    let request = request.header("X-Principal", principal(&tenant, "user")).header("X-Impersonate", "true");
    let refused = request.send().await.expect("an answer");
    expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
}

#[tokio::test]
async fn b49_nobody_but_a_service_can_speak_for_another() {
    let world = World::start().await;
    let (tenant, foreign) = (world.full_tenant().await, world.full_tenant().await);
    let mine = network_in(&world, &tenant);
    for (bearer, actor) in [(&tenant.user, "user"), (&world.start.token, "bootstrap")] {
        for header in [principal(&foreign, "administrator"), "%%%".to_owned()] {
            let request = world.anonymous(Method::POST, NETWORKS).bearer_auth(bearer).json(&mine);
            let request = request.header("X-Principal", header).header("X-Impersonate", "true");
            let made = expect(request.send().await.expect("an answer"), StatusCode::CREATED).await;
            let id = made["metadata"]["id"].as_str().expect("an id").parse::<NetworkId>().expect("an id");
            let record = world.store.get(id.key()).await.expect("reads").expect("it is there");
            let principal = &record.metadata.principal;
            assert_eq!(principal.organization, Some(tenant.organization));
            assert_eq!((principal.actor.as_str(), record.metadata.creator.as_str()), (actor, actor));
        }
    }
    let request = world.anonymous(Method::GET, &format!("/api/v1/organizations/{}/quotas", foreign.organization));
    let request = request.bearer_auth(&tenant.user).header("X-Principal", principal(&foreign, "administrator"));
    let refused = request.header("X-Impersonate", "true").send().await.expect("an answer");
    expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert_eq!(used(&world.store, foreign.organization, QuotaKind::Networks).await.total(), 0);
}

#[tokio::test]
async fn what_a_service_makes_for_somebody_is_charged_to_them() {
    let world = World::start().await;
    let (here, payer) = (world.full_tenant().await, world.full_tenant().await);
    let acl = Acl::of_role(Role::PlatformAdministrator);
    let speaking = |project| {
        let delegate = Delegate {
            organization: Some(payer.organization),
            project: Some(project),
            organizations: vec![payer.organization],
            kind: ActorKind::User,
            actor: "user".to_owned(),
        };
        Caller::with_account("service".to_owned(), acl.clone(), Account::Service).speaking_for(delegate, acl.clone())
    };
    let bearer = world.bearer_for("service", speaking(payer.project));
    let request = world.anonymous(Method::POST, NETWORKS).bearer_auth(&bearer).json(&network_in(&world, &here));
    let made = expect(request.send().await.expect("an answer"), StatusCode::CREATED).await;
    assert_eq!(made["metadata"]["organizationId"], here.organization.to_string());
    assert_eq!(made["metadata"]["createdBy"], "service");
    assert_eq!(used(&world.store, payer.organization, QuotaKind::Networks).await.total(), 1);
    assert_eq!(used(&world.store, here.organization, QuotaKind::Networks).await.total(), 0);
    let not_theirs = [regent::model::ids::ProjectId(world.ambient.uuid()), here.project];
    for project in not_theirs {
        let nowhere = world.bearer_for("nowhere", speaking(project));
        let request = world.anonymous(Method::POST, NETWORKS).bearer_auth(&nowhere).json(&network_in(&world, &here));
        expect_error(request.send().await.expect("an answer"), StatusCode::NOT_FOUND, "not_found").await;
    }
    let going = format!("/api/v1/organizations/{}", payer.organization);
    assert_eq!(world.delete(&going).await.status(), StatusCode::ACCEPTED);
    let request = world.anonymous(Method::POST, NETWORKS).bearer_auth(&bearer).json(&network_in(&world, &here));
    expect_error(request.send().await.expect("an answer"), StatusCode::NOT_FOUND, "not_found").await;
}

#[tokio::test]
async fn a_caller_can_read_what_it_may_do() {
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let read = async |path: &str, bearer: &str| {
        expect(world.anonymous(Method::GET, path).bearer_auth(bearer).send().await.expect("an answer"), StatusCode::OK)
            .await
    };
    let acl = read("/api/v1/acl", &tenant.user).await;
    assert_eq!(acl.get("global"), None);
    let here = &acl["organizations"][0];
    assert_eq!(here["id"], tenant.organization.to_string());
    let endpoint = |list: &Value, name: &str| {
        let found = list.as_array().expect("a list").iter().find(|endpoint| endpoint["name"] == name);
        found.map(|endpoint| endpoint["operations"].clone())
    };
    assert_eq!(endpoint(&here["endpoints"], "region:images"), Some(json!(["create", "read", "delete"])));
    assert_eq!(here["projects"].as_array().map(Vec::len), Some(1));
    assert_eq!(here["projects"][0]["id"], tenant.project.to_string());
    let networks = endpoint(&here["projects"][0]["endpoints"], "region:networks:v2");
    assert_eq!(networks, Some(json!(["create", "read", "update", "delete"])));
    assert_eq!(endpoint(&here["projects"][0]["endpoints"], "region:servers"), None);
    let scoped = read(&format!("/api/v1/organizations/{}/acl", tenant.organization), &tenant.user).await;
    assert_eq!(scoped["organizations"], acl["organizations"]);
    assert_eq!((&scoped["organization"], &scoped["projects"]), (here, &here["projects"]));
    let platform = read("/api/v1/acl", &world.start.token).await;
    assert_eq!(endpoint(&platform["global"], "regent:admin"), Some(json!(["create", "read", "update", "delete"])));
    assert_eq!(platform.get("organizations"), None);
}

#[tokio::test]
async fn a_tenant_that_sends_too_much_is_told_when_to_come_back_and_no_other_is() {
    let ambient = Ambient::system();
    let rate = TenantRate { per_second: 1, burst: 3 };
    let world = World::limited(memory_store(&ambient), ambient, rate).await;
    let (busy, calm) = (world.full_tenant().await, world.full_tenant().await);
    let send = async |bearer: &str| {
        world.anonymous(Method::GET, NETWORKS).bearer_auth(bearer).send().await.expect("an answer")
    };
    let mut refused = None;
    // All users of the organization together; within the second that this takes, one more may be let through.
    for bearer in [&busy.user, &busy.administrator, &busy.reader].into_iter().cycle().take(12) {
        let answer = send(bearer).await;
        if answer.status() != StatusCode::OK {
            refused = Some(answer);
        }
    }
    let refused = refused.expect("twelve are more than three");
    assert_eq!(refused.headers().get("retry-after").expect("a header"), "1");
    let text = expect_error(refused, StatusCode::TOO_MANY_REQUESTS, "server_error").await;
    assert!(text.contains("more requests"), "{text}");
    assert_eq!(send(&calm.user).await.status(), StatusCode::OK);
    for _ in 0..12 {
        assert_eq!(send(&world.start.token).await.status(), StatusCode::OK, "operators are not counted");
    }
}
