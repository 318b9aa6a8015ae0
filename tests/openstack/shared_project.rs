//! A region whose tenants share one project: everything works, nothing of Keystone is made, nothing is left.

use std::collections::BTreeSet;
use std::time::Duration;

use regent::model::ambient::Ambient;
use regent::model::ids::{Kind, NetworkId};
use regent::model::network::NetworkDetail;
use regent::model::openstack::{CloudsYaml, CredentialSource, Isolation};
use regent::providers::openstack::check::check;
use regent::providers::openstack::names;
use regent::providers::{Provider, ProviderError};
use serde_json::{Value, json};
use uuid::Uuid;

use super::cloud::{Admin, Facts, id};
use super::machines::{Pages, Place};
use super::{World, random};

const PASSWORD: &str = "hunter2hunter2";

/// A project with a user who is a member of it and nothing else, as a cloud gives it to anybody.
struct Lodging {
    admin: Admin,
    project: String,
    user: String,
    credentials: String,
}

impl Lodging {
    async fn new() -> Self {
        let admin = Facts::read().admin().await;
        let name = format!("regent-lodging-{}", random());
        let body = json!({ "name": name, "domain_id": "default", "password": PASSWORD });
        let project = admin.make("identity", "projects", "project", json!({ "name": name, "domain_id": "default" }));
        let project = id(&project.await).to_owned();
        let user = id(&admin.make("identity", "users", "user", body).await).to_owned();
        for role in ["member", "load-balancer_member"] {
            let roles = admin.list("identity", &format!("roles?name={role}"), "roles").await;
            let path = format!("projects/{project}/users/{user}/roles/{}", id(&roles[0]));
            assert_eq!(admin.call("PUT", "identity", &path, None).await.0, 204);
        }
        let credentials = format!("user-id = \"{user}\"\npassword = \"{PASSWORD}\"\nproject-id = \"{project}\"\n");
        Self { admin, project, user, credentials }
    }

    /// A `clouds.yaml` with an application credential of the user: it is bound to the project, and to no password.
    async fn clouds_yaml(&self) -> CloudsYaml {
        let http = reqwest::Client::new();
        let keystone = Facts::read().text("authUrl").to_owned();
        let post = |path: String, body: Value| {
            http.post(path).header("content-type", "application/json").body(body.to_string())
        };
        let user = json!({ "id": self.user, "password": PASSWORD });
        let login = json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": user } },
            "scope": { "project": { "id": self.project } },
        }});
        let answer = post(format!("{keystone}/auth/tokens"), login).send().await.expect("a token");
        let token = answer.headers().get("x-subject-token").expect("a token").clone();
        let body = json!({ "application_credential": { "name": "regent" } });
        let path = format!("{keystone}/users/{}/application_credentials", self.user);
        let mut tries = 0;
        let body: Value = loop {
            let asked = post(path.clone(), body.clone()).header("x-auth-token", token.clone());
            let answer = asked.send().await.expect("an answer");
            // Keystone may refuse a role that it has given a moment ago.
            match answer.status().as_u16() {
                201 => break answer.json().await.expect("a body"),
                400 if tries < 10 => tries += 1,
                status => panic!("{status}: {:?}", answer.text().await),
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        };
        let text = |key: &str| body["application_credential"][key].as_str().expect("a text").to_owned();
        let (id, secret) = (text("id"), text("secret"));
        let auth = format!(
            "auth: {{ auth_url: \"{keystone}\", application_credential_id: \"{id}\", \
             application_credential_secret: \"{secret}\" }}"
        );
        let file = std::env::temp_dir().join(format!("regent-clouds-{}.yaml", random()));
        std::fs::write(&file, format!("clouds:\n  it:\n    {auth}\n")).expect("written");
        CloudsYaml { file: file.display().to_string(), cloud: "it".to_owned() }
    }

    /// A tenant of its own in the project.
    async fn tenant(&self) -> World {
        World::with(|settings| {
            std::fs::write(Facts::credentials_file(settings), &self.credentials).expect("written");
            settings.isolation = Isolation::Project;
        })
        .await
    }

    async fn place(&self) -> Place {
        Self::place_of(self.tenant().await).await
    }

    async fn place_of(world: World) -> Place {
        world.principal().await;
        let network = world.network_request(NetworkId(random()), NetworkDetail::default());
        let notes = world.notes();
        world.provider.converge_network(&world.context(&notes), &network).await.expect("a network");
        Place { world, network, pages: Pages::default() }
    }

    /// Everything that lies in the project, but for what Neutron makes for each.
    async fn contents(&self) -> Vec<Value> {
        let mut contents = Vec::new();
        for kind in ["networks", "subnets", "routers", "ports", "floatingips"] {
            contents.extend(self.admin.list("network", &format!("{kind}?project_id={}", self.project), kind).await);
        }
        let groups = format!("security-groups?project_id={}", self.project);
        let groups = self.admin.list("network", &groups, "security_groups").await;
        contents.extend(groups.into_iter().filter(|group| group["name"] != "default"));
        let servers = format!("servers?all_tenants=1&project_id={}", self.project);
        contents.extend(self.admin.list("compute", &servers, "servers").await);
        let groups = self.admin.list("compute", "os-server-groups?all_projects=true", "server_groups").await;
        contents.extend(groups.into_iter().filter(|group| group["project_id"] == self.project));
        contents.extend(self.admin.list("compute", &format!("os-keypairs?user_id={}", self.user), "keypairs").await);
        contents
    }

    async fn end(self) {
        assert_eq!(self.contents().await, [json!(null); 0], "nothing is left");
        let path = format!("projects/{}", self.project);
        assert_eq!(self.admin.call("GET", "identity", &path, None).await.0, 200, "the project is not ours to take");
        for path in [format!("users/{}", self.user), path] {
            assert_eq!(self.admin.call("DELETE", "identity", &path, None).await.0, 204);
        }
    }
}

/// What a list shows, to its end.
async fn listed(place: &Place, kind: Kind, only: Option<&[Uuid]>) -> BTreeSet<Uuid> {
    let (context, mut found, mut after) = (place.context(), BTreeSet::new(), None);
    loop {
        let page = place.world.provider.list(&context, kind, only, after.as_deref()).await.expect("a list").fact;
        found.extend(page.items.iter().map(|listed| listed.key.id));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

#[tokio::test]
async fn everything_of_two_tenants_is_made_in_one_project_and_unmade_again() {
    let lodging = Lodging::new().await;
    let (one, other) = (lodging.place().await, lodging.place().await);
    assert_eq!(one.project(), lodging.project);
    assert_eq!(one.project(), other.project());
    let mut requests = Vec::new();
    // Both call their server the same.
    for place in [&one, &other] {
        let group = place.group().await;
        let mut request = place.server_request("web");
        place.server(&mut request).await;
        let path = format!("servers/{}", request.detail.server.as_ref().expect("a server").0);
        let (_, body) = lodging.admin.call("GET", "compute", &path, None).await;
        assert_eq!(body["server"]["key_name"], names::shared_key_pair(place.world.identity));
        assert_eq!(body["server"]["tenant_id"], lodging.project);
        requests.push((group, request));
    }
    assert_ne!(requests[0].1.detail.server, requests[1].1.detail.server);
    let ids = |kind| match kind {
        Kind::Network => [one.network.id.0, other.network.id.0],
        Kind::SecurityGroup => [requests[0].0.0, requests[1].0.0],
        _ => [requests[0].1.id.0, requests[1].1.id.0],
    };
    for kind in [Kind::Network, Kind::SecurityGroup, Kind::Server] {
        let wanted = ids(kind).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(listed(&one, kind, None).await, wanted, "{kind}: all that is in the project");
        let mine = ids(kind)[0];
        assert_eq!(listed(&one, kind, Some(&[mine])).await, BTreeSet::from([mine]), "{kind}");
    }
    let calls = one.world.calls();
    one.world.principal().await;
    assert_eq!(one.world.changes_since(calls), [], "what is as it should be is left alone");
    let made = one.world.pool.recent().into_iter().chain(other.world.pool.recent());
    let of_keystone = made.filter(|call| call.mutation && call.service.word() == "identity").collect::<Vec<_>>();
    assert_eq!(of_keystone, [], "no project, no user, no role, no credential");

    // One goes, and the other does not notice.
    let (group, request) = &requests[0];
    one.no_server(request).await;
    one.no_group(*group).await;
    one.end().await;
    other.converge(&requests[1].1).await.expect("untouched");
    let (group, request) = &requests[1];
    other.no_server(request).await;
    other.no_group(*group).await;
    other.end().await;
    lodging.end().await;
}

#[tokio::test]
async fn an_application_credential_is_enough_for_one_project() {
    let lodging = Lodging::new().await;
    let clouds_yaml = lodging.clouds_yaml().await;
    let source = CredentialSource::CloudsYaml(clouds_yaml.clone());
    let world = World::with(|settings| {
        settings.credentials = source.clone();
        settings.isolation = Isolation::Project;
    });
    let place = Lodging::place_of(world.await).await;
    let mut request = place.server_request("web");
    place.server(&mut request).await;
    place.no_server(&request).await;
    place.end().await;

    // And not enough for more: nothing is looked for in the wrong project.
    let world = World::with(|settings| settings.credentials = source).await;
    let notes = world.notes();
    let refused = world.provider.converge_identity(&world.context(&notes), &world.identity_request()).await;
    assert!(matches!(&refused, Err(ProviderError::Unavailable(words)) if words.contains("bound")), "{refused:?}");
    let outcome = check(clouds_yaml, Ambient::system()).await.expect("asked");
    assert!(outcome.region.expect("a region").contains("isolation = \"project\""));
    lodging.end().await;
}

#[tokio::test]
async fn the_isolation_of_a_region_that_has_principals_cannot_be_changed() {
    // From a project each to one for all: nothing is looked for in the wrong place.
    let world = World::new().await;
    world.principal().await;
    let lodging = Lodging::new().await;
    let moved = lodging.tenant().await;
    let notes = moved.notes();
    let mut request = world.identity_request();
    request.id = moved.identity;
    let refused = moved.provider.converge_identity(&moved.context(&notes), &request).await;
    assert!(matches!(refused, Err(ProviderError::Inconsistent(_))), "{refused:?}");
    let refused = moved.provider.delete_identity(&moved.context(&notes), &request).await;
    assert!(matches!(refused, Err(ProviderError::Inconsistent(_))), "{refused:?}");
    world.no_principal().await;

    // And back.
    let region = Facts::read();
    let shared = World::with(|settings| settings.isolation = Isolation::Project).await;
    shared.principal().await;
    let request = shared.identity_request();
    assert_eq!(request.detail.project.as_ref().expect("a project").0, region.text("projectId"));
    let apart = World::new().await;
    let notes = apart.notes();
    let refused = apart.provider.converge_identity(&apart.context(&notes), &request).await;
    assert!(matches!(refused, Err(ProviderError::Inconsistent(_))), "{refused:?}");
    shared.no_principal().await;
    assert_eq!(lodging.contents().await, [json!(null); 0]);
    lodging.end().await;
}
