//! What a test needs to speak of groups and servers, over the router and in the books of the cloud.

use axum::http::StatusCode;
use regent::model::ids::{ImageId, RegionId, ServerId};
use regent::providers::simulated::engine::books::Inventory;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{create, eventually, provisioned};
use crate::support::world::{Life, World};

/// A flavor and two images that go with it, as the region offers them.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub flavor: Uuid,
    pub image: ImageId,
    pub other_image: ImageId,
}

pub async fn offer(world: &World, life: &Life, region: RegionId) -> Offer {
    let organization = world.tenants[0].organization;
    let base = format!("/api/v1/organizations/{organization}/regions/{region}");
    let (status, flavors) = life.request("GET", &format!("{base}/flavors"), None).await;
    assert_eq!(status, StatusCode::OK, "{flavors}");
    let (status, images) = life.request("GET", &format!("{base}/images"), None).await;
    assert_eq!(status, StatusCode::OK, "{images}");
    let id = |of: &Value| of["metadata"]["id"].as_str().expect("an id").parse::<Uuid>().expect("a UUID");
    let plain = |flavor: &&Value| {
        flavor["spec"].get("baremetal").is_none_or(|value| value == false)
            && flavor["spec"].get("pinnedOnly").is_none_or(|value| value == false)
            && flavor["spec"].get("gpu").is_none()
            && flavor["spec"]["architecture"] == "x86_64"
    };
    let flavor = flavors.as_array().expect("a list").iter().find(plain).expect("a plain flavor");
    let fits = |image: &&Value| {
        image["spec"]["architecture"] == "x86_64" && image["spec"]["virtualization"] != "baremetal"
    };
    let fitting = images.as_array().expect("a list").iter().filter(fits).map(id).collect::<Vec<_>>();
    Offer { flavor: id(flavor), image: ImageId(fitting[0]), other_image: ImageId(fitting[1]) }
}

pub async fn create_group(life: &Life, network: Uuid, name: &str) -> Uuid {
    let body = json!({
        "metadata": {"name": name},
        "spec": {"networkId": network, "rules": [{"direction": "ingress", "protocol": "tcp", "port": 22}]},
    });
    let (status, answer) = life.request("POST", "/api/v2/securitygroups", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID")
}

pub fn server_body(offer: &Offer, network: Uuid, groups: &[Uuid], name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "networkId": network,
            "flavorId": offer.flavor,
            "imageId": offer.image,
            "networking": {"securityGroups": groups, "publicIP": true},
        },
    })
}

pub async fn create_server(life: &Life, offer: &Offer, network: Uuid, groups: &[Uuid], name: &str) -> ServerId {
    let (status, answer) =
        life.request("POST", "/api/v2/servers", Some(server_body(offer, network, groups, name))).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    ServerId(answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID"))
}

pub async fn get_server(life: &Life, server: ServerId) -> (StatusCode, Value) {
    life.request("GET", &format!("/api/v2/servers/{server}"), None).await
}

pub async fn power_state(life: &Life, server: ServerId) -> String {
    get_server(life, server).await.1["status"]["powerState"].as_str().unwrap_or("none").to_owned()
}

pub async fn server_status(life: &Life, server: ServerId) -> String {
    get_server(life, server).await.1["metadata"]["provisioningStatus"].as_str().unwrap_or("gone").to_owned()
}

pub async fn running(life: &Life, server: ServerId) {
    eventually("running and provisioned", async || {
        power_state(life, server).await == "Running" && server_status(life, server).await == "provisioned"
    })
    .await;
}

pub async fn rebuild(life: &Life, offer: &Offer, server: ServerId, image: ImageId) -> (StatusCode, Value) {
    let (_, now) = get_server(life, server).await;
    let body = json!({
        "metadata": {"name": now["metadata"]["name"]},
        "spec": {"flavorId": offer.flavor, "imageId": image, "networking": now["spec"]["networking"]},
    });
    life.request("PUT", &format!("/api/v2/servers/{server}"), Some(body)).await
}

pub async fn inventory(life: &Life, region: RegionId) -> Inventory {
    life.clouds.handle(region).expect("simulated").inventory().await.expect("books")
}

/// A network with a group and a server that runs.
pub struct Estate {
    pub region: RegionId,
    pub offer: Offer,
    pub network: Uuid,
    pub group: Uuid,
    pub server: ServerId,
}

pub async fn estate(world: &World, life: &Life) -> Estate {
    let region = world.regions()[0];
    let offer = offer(world, life, region).await;
    let network = create(world, life, "estate", region).await;
    provisioned(life, network).await;
    let group = create_group(life, network, "doors").await;
    let server = create_server(life, &offer, network, &[group], "house").await;
    running(life, server).await;
    Estate { region, offer, network, group, server }
}
