//! What a test needs to speak of groups and servers, over the router and in the books of the cloud.

use axum::http::StatusCode;
use regent::model::ids::{ImageId, RegionId, ServerId};
use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_UBUNTU};
use regent::providers::simulated::engine::books::Inventory;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{create, eventually, provisioned};
use crate::support::world::{Life, World};

pub async fn create_group(life: &Life, network: Uuid, name: &str) -> Uuid {
    let body = json!({
        "metadata": {"name": name},
        "spec": {"networkId": network, "rules": [{"direction": "ingress", "protocol": "tcp", "port": 22}]},
    });
    let (status, answer) = life.request("POST", "/api/v2/securitygroups", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID")
}

pub fn server_body(network: Uuid, groups: &[Uuid], name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "networkId": network,
            "flavorId": FLAVOR_STANDARD,
            "imageId": IMAGE_UBUNTU,
            "networking": {"securityGroups": groups, "publicIP": true},
        },
    })
}

pub async fn create_server(life: &Life, network: Uuid, groups: &[Uuid], name: &str) -> ServerId {
    let (status, answer) = life.request("POST", "/api/v2/servers", Some(server_body(network, groups, name))).await;
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

pub async fn rebuild(life: &Life, server: ServerId, image: ImageId) -> (StatusCode, Value) {
    let (_, now) = get_server(life, server).await;
    let body = json!({
        "metadata": {"name": now["metadata"]["name"]},
        "spec": {"flavorId": FLAVOR_STANDARD, "imageId": image, "networking": now["spec"]["networking"]},
    });
    life.request("PUT", &format!("/api/v2/servers/{server}"), Some(body)).await
}

pub async fn inventory(life: &Life, region: RegionId) -> Inventory {
    life.clouds.handle(region).expect("simulated").inventory().await.expect("books")
}

/// A network with a group and a server that runs.
pub struct Estate {
    pub region: RegionId,
    pub network: Uuid,
    pub group: Uuid,
    pub server: ServerId,
}

pub async fn estate(world: &World, life: &Life) -> Estate {
    let region = world.regions()[0];
    let network = create(world, life, "estate", region).await;
    provisioned(life, network).await;
    let group = create_group(life, network, "doors").await;
    let server = create_server(life, network, &[group], "house").await;
    running(life, server).await;
    Estate { region, network, group, server }
}
