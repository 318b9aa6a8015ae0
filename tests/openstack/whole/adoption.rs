//! What was made before, by hand or by the service before us, is taken over as it is.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::script::{GROUPS, INSTANCES, NETWORKS, of_group, of_network, of_server};
use super::weather::{Mood, Weather};
use super::{Stage, configuration};
use crate::openstack::cloud::{Facts, id};
use crate::scenarios::{Installation, NORTH, last};

const PASSWORD: &str = "made-by-hand";

/// The kinds of which nothing may be made: how the paths end by which they would be.
const MADE_BY_HAND: [&str; 8] =
    ["/v3/projects", "/v3/users", "/networks", "/subnets", "/routers", "/security-groups", "/ports", "/servers"];

/// What was asked for, as it is called in the cloud.
struct Asked {
    principal: String,
    network: String,
    group: String,
    instance: String,
    server: String,
}

/// Everything that Regent would make for it, made by the cloud's own people. The id of the server in the cloud.
async fn make_by_hand(stage: &Stage, asked: &Asked) -> String {
    let (admin, facts) = (&stage.admin, &stage.facts);
    let domain = facts.text("domainId");
    let project = json!({ "name": asked.principal, "domain_id": domain });
    let project = admin.make("identity", "projects", "project", project).await;
    let user = json!({ "name": asked.principal, "domain_id": domain, "password": PASSWORD });
    let user = admin.make("identity", "users", "user", user).await;
    for role in ["member", "load-balancer_member"] {
        let role = admin.list("identity", &format!("roles?name={role}"), "roles").await.remove(0);
        let path = format!("projects/{}/users/{}/roles/{}", id(&project), id(&user), id(&role));
        assert_eq!(admin.call("PUT", "identity", &path, None).await.0, 204);
    }
    let name = format!("network-{}", last(&asked.network));
    let owned = |mut body: Value| {
        body["project_id"] = json!(id(&project));
        body
    };
    let network = admin.make("network", "networks", "network", owned(json!({ "name": name }))).await;
    let subnet = json!({ "name": name, "network_id": id(&network), "ip_version": 4, "cidr": "10.0.0.0/22",
        "dns_nameservers": ["1.1.1.1"] });
    let subnet = admin.make("network", "subnets", "subnet", owned(subnet)).await;
    let outside = json!({ "network_id": facts.text("externalNetworkId") });
    let router = owned(json!({ "name": name, "external_gateway_info": outside }));
    let router = admin.make("network", "routers", "router", router).await;
    let (path, body) = (format!("routers/{}/add_router_interface", id(&router)), json!({ "subnet_id": id(&subnet) }));
    assert_eq!(admin.call("PUT", "network", &path, Some(body)).await.0, 200);
    let group = owned(json!({ "name": format!("securitygroup-{}", last(&asked.group)) }));
    let group = admin.make("network", "security-groups", "security_group", group).await;
    let port = json!({ "name": format!("server-{}", asked.server), "network_id": id(&network),
        "security_groups": [id(&group)] });
    let port = admin.make("network", "ports", "port", owned(port)).await;
    let start = &stage.regent.start;
    let server = json!({
        "name": "web", "imageRef": facts.within("images", "tiny"), "flavorRef": facts.within("flavors", "m1.tiny"),
        "networks": [{ "port": id(&port) }],
        "metadata": {
            "serverID": asked.server, "organizationID": start.organization_id, "projectID": start.project_id,
            "regionID": NORTH,
        },
    });
    let owner = facts.log_in(id(&user), PASSWORD, id(&project)).await;
    let server = owner.make("compute", "servers", "server", server).await;
    id(&server).to_owned()
}

#[tokio::test]
async fn what_is_there_under_the_right_names_is_adopted_and_nothing_is_made_beside_it() {
    let facts = Facts::read();
    let weather = Weather::over(&facts.admin().await).await;
    let regent = Installation::on(&configuration(&facts, &weather.keystone())).await;
    let stage = Stage::on(regent, facts).await;
    // What is offered is known before the cloud goes away, and requests are judged by that.
    let organization = stage.regent.start.organization_id;
    for offer in ["flavors", "images"] {
        let path = format!("/api/v1/organizations/{organization}/regions/{NORTH}/{offer}");
        stage.regent.get(&path).await.with(StatusCode::OK);
    }
    weather.becomes_everywhere(Mood::Unable);
    let network = stage.asked(NETWORKS, &stage.network("net")).await;
    let group = stage.asked(GROUPS, &stage.group(&network)).await;
    let mut body = stage.instance("web", &network, stage.facts.within("images", "tiny"));
    body["spec"]["networking"] = json!({ "securityGroups": [last(&group)] });
    let instance = stage.asked(INSTANCES, &body).await;
    let read = stage.regent.get(&instance).await.with(StatusCode::OK);
    let server = read["status"]["serverId"].as_str().expect("a server").to_owned();
    let identities = stage.regent.admin("/admin/v1/actors?kind=identity").await;
    let identity = identities[0]["id"].as_str().unwrap_or_else(|| panic!("{identities}"));
    let principal = format!("unikorn-identity-{identity}");
    let asked = Asked { principal, network, group, instance, server };
    let machine = make_by_hand(&stage, &asked).await;
    weather.becomes_everywhere(Mood::Fair);

    for path in [&asked.network, &asked.group, &asked.instance] {
        stage.until_provisioned(path).await;
    }
    stage.until_power(&asked.instance, "Running").await;
    let made = weather.created();
    let doubled = made.iter().filter(|path| MADE_BY_HAND.iter().any(|kind| path.ends_with(kind))).collect::<Vec<_>>();
    assert!(doubled.is_empty(), "{doubled:?}");
    let wires = [of_network(&asked.network), of_group(&asked.group)].concat();
    stage.holds(&[wires, of_server("web", &asked.server)]).await;
    let (status, seen) = stage.admin.call("GET", "compute", &format!("servers/{machine}"), None).await;
    assert_eq!((status, &seen["server"]["status"]), (200, &json!("ACTIVE")));

    for path in [&asked.instance, &asked.group, &asked.network] {
        stage.removed(path).await;
    }
    stage.holds(&[]).await;
    stage.regent.end().await;
}
