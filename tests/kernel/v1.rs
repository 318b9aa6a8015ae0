//! The first version: a principal with many networks, made and unmade in order, beside one of the second.

use axum::http::StatusCode;
use regent::model::ids::IdentityId;
use regent::providers::simulated::call::CloudError;
use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_UBUNTU};
use regent::providers::simulated::engine::faults::{Effect, Fault};
use regent::providers::simulated::objects::Body;
use serde_json::{Value, json};

use super::machines::inventory;
use super::{create, eventually, provisioned, world};
use crate::support::world::{Life, World};

fn identities(world: &World) -> String {
    let tenant = world.tenants[0];
    format!("/api/v1/organizations/{}/projects/{}/identities", tenant.organization, tenant.project)
}

/// Makes something and answers with its path.
async fn made(life: &Life, collection: &str, spec: Value) -> String {
    let body = json!({"metadata": {"name": "thing"}, "spec": spec});
    let (status, answer) = life.request("POST", collection, Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    format!("{collection}/{}", answer["metadata"]["id"].as_str().expect("an id"))
}

fn id(path: &str) -> &str {
    path.rsplit('/').next().expect("an id")
}

async fn settled(life: &Life, path: &str) {
    eventually("provisioned", async || {
        let (status, answer) = life.request("GET", path, None).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer["metadata"]["provisioningStatus"] == "provisioned"
    })
    .await;
}

async fn gone(life: &Life, path: &str) {
    eventually("gone", async || life.request("GET", path, None).await.0 == StatusCode::NOT_FOUND).await;
}

struct Estate {
    identity: String,
    networks: [String; 2],
    group: String,
    server: String,
}

/// A principal with two networks, a group, and a server on the first network.
async fn estate(world: &World, life: &Life) -> Estate {
    let identity = made(life, &identities(world), json!({"regionId": world.regions()[0]})).await;
    let network = json!({"prefix": "192.168.0.0/24", "dnsNameservers": []});
    let networks = [
        made(life, &format!("{identity}/networks"), network.clone()).await,
        made(life, &format!("{identity}/networks"), network).await,
    ];
    let rules = json!([{"direction": "ingress", "protocol": "tcp", "port": {"number": 22}}]);
    let group = made(life, &format!("{identity}/securitygroups"), json!({"rules": rules})).await;
    let pair = json!({"cidr": "10.9.0.0/24", "macAddress": "FA:16:3E:00:00:01"});
    let server = json!({
        "flavorId": FLAVOR_STANDARD, "imageId": IMAGE_UBUNTU,
        "networks": [{"id": id(&networks[0]), "allowedAddressPairs": [pair]}],
        "securityGroups": [{"id": id(&group)}], "publicIPAllocation": {"enabled": true},
    });
    let server = made(life, &format!("{identity}/servers"), server).await;
    for path in [&identity, &networks[0], &networks[1], &group, &server] {
        settled(life, path).await;
    }
    Estate { identity, networks, group, server }
}

/// Something of everything is made and taken away again, in part by itself and in part with its principal.
pub async fn everything(world: &World, life: &Life) {
    let Estate { identity, server, .. } = estate(world, life).await;
    for path in [&server, &identity] {
        assert_eq!(life.request("DELETE", path, None).await.0, StatusCode::ACCEPTED, "{path}");
        gone(life, path).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_v1_identity_with_networks_a_group_and_a_server_is_made_and_unmade_in_order() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let Estate { identity, networks, group, server } = estate(&world, &life).await;
    let held = inventory(&life, region).await;
    assert_eq!((held.identities.len(), held.networks.len(), held.servers.len()), (1, 2, 1), "one principal for both");
    let Body::Port { options, .. } = &held.ports[0].body else { panic!("not a port") };
    let allowed = options.allowed_addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(allowed, ["10.9.0.0/24 fa:16:3e:00:00:01"]);
    assert_eq!(options.security_groups.iter().collect::<Vec<_>>(), [&held.security_groups[0].id]);
    assert_eq!(life.request("POST", &format!("{server}/stop"), None).await.0, StatusCode::ACCEPTED);
    eventually("stopped", async || life.request("GET", &server, None).await.1["status"]["powerState"] == "Stopped")
        .await;

    for used in [&networks[0], &group] {
        assert_eq!(life.request("DELETE", used, None).await.0, StatusCode::FORBIDDEN, "{used}");
    }
    for path in [&server, &group, &networks[0]] {
        assert_eq!(life.request("DELETE", path, None).await.0, StatusCode::ACCEPTED, "{path}");
        gone(&life, path).await;
    }
    // The principal does not follow the network, as a hidden one would: the other network is still in it.
    settled(&life, &networks[1]).await;
    settled(&life, &identity).await;
    let held = inventory(&life, region).await;
    assert_eq!((held.identities.len(), held.networks.len()), (1, 1));
    for path in [&networks[1], &identity] {
        assert_eq!(life.request("DELETE", path, None).await.0, StatusCode::ACCEPTED, "{path}");
        gone(&life, path).await;
    }
    assert!(inventory(&life, region).await.is_empty());
    assert!(life.store.claims().await.expect("reads").is_empty(), "the VLANs are free again");
    assert!(life.store.allocations().await.expect("reads").is_empty(), "the quota is free again");
    let project = world.tenants[0].project.key();
    assert!(life.store.references(project).await.expect("reads").is_empty(), "the project is free again");
}

#[tokio::test(start_paused = true)]
async fn a_v1_identity_takes_everything_in_it_along_and_nothing_else() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let Estate { identity, server, .. } = estate(&world, &life).await;
    let beside = create(&world, &life, "beside", region).await;
    provisioned(&life, beside).await;
    assert_eq!(life.request("DELETE", &identity, None).await.0, StatusCode::ACCEPTED);
    gone(&life, &identity).await;
    assert_eq!(life.request("GET", &server, None).await.0, StatusCode::NOT_FOUND);
    let held = inventory(&life, region).await;
    assert_eq!((held.identities.len(), held.networks.len(), held.servers.len()), (1, 1, 0), "only what lay beside it");
    provisioned(&life, beside).await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_project_takes_its_v1_identities_along() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let Estate { identity, .. } = estate(&world, &life).await;
    let project = identity.split("/identities").next().expect("a path").to_owned();
    assert_eq!(life.request("DELETE", &project, None).await.0, StatusCode::ACCEPTED);
    let key = world.tenants[0].project.key();
    eventually("the project is gone", async || life.store.get(key).await.expect("reads").is_none()).await;
    assert!(inventory(&life, region).await.is_empty());
    let principal = IdentityId(id(&identity).parse().expect("an id")).key();
    assert!(life.store.get(principal).await.expect("reads").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_v1_group_waits_for_its_identity() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let handle = life.clouds.handle(region).expect("simulated");
    let down = Effect::Error { error: CloudError::Unavailable };
    handle.add_faults(vec![Fault { times: Some(3), ..Fault::always("create-project", down) }]).await.expect("takes");
    let identity = made(&life, &identities(&world), json!({"regionId": region})).await;
    let group = made(&life, &format!("{identity}/securitygroups"), json!({"rules": []})).await;
    eventually("it says what it waits for", async || {
        let shown = life.request("GET", &group, None).await.1;
        let text = shown["metadata"]["provisioningStatusDetail"]["message"].as_str().unwrap_or_default().to_owned();
        text.contains("service principal is not ready")
    })
    .await;
    settled(&life, &group).await;
}
