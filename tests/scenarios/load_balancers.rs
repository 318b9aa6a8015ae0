//! Load balancers.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Installation, last, lists};

const BALANCERS: &str = "/api/v2/loadbalancers";

fn listener(allowed: &str, member: &str) -> Value {
    json!({
        "name": "web", "protocol": "tcp", "port": 80, "allowedCidrs": [allowed],
        "pool": {"members": [{"address": member, "port": 8080}]},
    })
}

fn body(network: &str, public: bool, listeners: &Value) -> Value {
    json!({
        "metadata": {"name": "edge"},
        "spec": {"networkId": last(network), "publicIP": public, "listeners": listeners},
    })
}

#[tokio::test]
async fn a_balancer_is_pending_then_reachable_changed_withdrawn_and_deleted() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    let listeners = json!([listener("10.0.0.0/8", "10.0.1.5")]);
    let made = installation.post(BALANCERS, &body(&network, true, &listeners)).await.with(StatusCode::CREATED);
    assert_eq!(made["metadata"]["provisioningStatus"], "pending");
    assert!(made["status"].get("vipAddress").is_none() && made["status"].get("publicIP").is_none(), "{made}");
    let balancer = format!("{BALANCERS}/{}", made["metadata"]["id"].as_str().expect("an id"));
    assert!(lists(&installation.get(BALANCERS).await.with(StatusCode::OK), &balancer));
    let read = installation.until_provisioned(&balancer).await;
    let address = read["status"]["vipAddress"].clone();
    assert!(address.is_string() && read["status"]["publicIP"].is_string(), "{read}");

    let change = |public: bool| {
        let listeners = json!([listener("192.168.0.0/16", "10.0.1.6")]);
        json!({"metadata": {"name": "edge"}, "spec": {"publicIP": public, "listeners": listeners}})
    };
    installation.put(&balancer, &change(true)).await.with(StatusCode::ACCEPTED);
    let read = installation.until_provisioned(&balancer).await;
    assert_eq!(read["spec"]["listeners"][0]["allowedCidrs"], json!(["192.168.0.0/16"]));
    assert_eq!(read["spec"]["listeners"][0]["pool"]["members"], json!([{"address": "10.0.1.6", "port": 8080}]));

    installation.put(&balancer, &change(false)).await.with(StatusCode::ACCEPTED);
    let withdrawn = |answer: &super::Answer| answer.body["status"].get("publicIP").is_none();
    installation.until(&balancer, withdrawn).await;
    let read = installation.until_provisioned(&balancer).await;
    assert_eq!(read["status"]["vipAddress"], address);
    installation.delete_until_gone(&balancer).await;
    installation.end().await;
}

#[tokio::test]
async fn deleting_a_balancer_again_is_accepted_until_it_is_gone() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    let listeners = json!([listener("10.0.0.0/8", "10.0.1.5")]);
    let balancer = installation.provisioned(BALANCERS, &body(&network, false, &listeners)).await;
    let mut tries = tokio::time::interval(super::LOOK_PERIOD);
    installation.delete(&balancer).await.with(StatusCode::ACCEPTED);
    loop {
        tries.tick().await;
        let answer = installation.delete(&balancer).await;
        if answer.status == StatusCode::NOT_FOUND {
            break;
        }
        answer.with(StatusCode::ACCEPTED);
    }
    installation.end().await;
}

#[tokio::test]
async fn a_udp_listener_has_no_idle_time() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    let listeners = json!([{"name": "dns", "protocol": "udp", "port": 53, "pool": {"members": []}}]);
    let balancer = installation.provisioned(BALANCERS, &body(&network, false, &listeners)).await;
    let read = installation.get(&balancer).await.with(StatusCode::OK);
    assert!(read["spec"]["listeners"][0].get("idleTimeoutSeconds").is_none(), "{read}");
    installation.end().await;
}
