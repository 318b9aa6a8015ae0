//! An instance from its first request to its last, as users have it: every verb, a copy of its disk, and every change.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{FLAVORS, IMAGES, Installation, LOOK_PERIOD, NORTH, last};

const INSTANCES: &str = "/api/v2/instances";

/// Of the same disk as the first one, and larger otherwise.
const LARGE: &str = "eeeeeeee-eeee-4eee-8eee-eeeeeeeeeeee";

fn body(installation: &Installation, network: &str, name: &str, image: &Value) -> Value {
    let start = &installation.start;
    json!({
        "metadata": {"name": name},
        "spec": {
            "organizationId": start.organization_id, "projectId": start.project_id, "networkId": last(network),
            "flavorId": FLAVORS[0], "imageId": image, "networking": {"publicIP": true},
        },
    })
}

async fn until_power(installation: &Installation, instance: &str, word: &str) -> Value {
    installation.until(instance, |answer| answer.body["status"]["powerState"] == word).await
}

/// One that still reboots takes no other verb, and its power looks the same meanwhile.
async fn obeyed(installation: &Installation, verb: &str) {
    let mut tries = tokio::time::interval(LOOK_PERIOD);
    loop {
        tries.tick().await;
        let answer = installation.verb(verb).await;
        if answer.status == StatusCode::ACCEPTED {
            return;
        }
        answer.with(StatusCode::BAD_REQUEST);
    }
}

async fn changed(installation: &Installation, instance: &str, field: &str, value: &str) -> Value {
    let read = installation.get(instance).await.with(StatusCode::OK);
    let mut spec = read["spec"].clone();
    spec[field] = json!(value);
    let body = json!({"metadata": {"name": read["metadata"]["name"]}, "spec": spec});
    let answer = installation.put(instance, &body).await.with(StatusCode::ACCEPTED);
    assert_eq!(answer["metadata"]["provisioningStatus"], "provisioning");
    installation.until_provisioned(instance).await;
    let after = until_power(installation, instance, "Running").await;
    assert_eq!(after["spec"][field], value);
    for kept in ["privateIP", "publicIP", "macAddress", "serverId"] {
        assert_eq!(after["status"][kept], read["status"][kept], "{kept}");
    }
    after
}

#[tokio::test]
async fn an_instance_lives_through_everything_that_can_be_done_to_it() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    let instance = installation.provisioned(INSTANCES, &body(&installation, &network, "web", &json!(IMAGES[0]))).await;
    let read = until_power(&installation, &instance, "Running").await;
    assert!(read["status"]["privateIP"].is_string() && read["status"]["publicIP"].is_string(), "{read}");
    for (verb, word) in
        [("stop", "Stopped"), ("start", "Running"), ("reboot", "Running"), ("reboot?hard=true", "Running")]
    {
        obeyed(&installation, &format!("{instance}/{verb}")).await;
        until_power(&installation, &instance, word).await;
    }
    let output = installation.get(&format!("{instance}/consoleoutput")).await.with(StatusCode::OK);
    assert!(output["contents"].is_string(), "{output}");
    installation.until(&format!("{instance}/consolesession"), |answer| answer.status == StatusCode::OK).await;
    let key = installation.get(&format!("{instance}/sshkey")).await.with(StatusCode::OK);
    assert!(key["privateKey"].is_string(), "{key}");

    let own = json!({"name": "compute.unikorn-cloud.org:instance-id", "value": "pretended"});
    let named = json!({"metadata": {"name": "copy", "tags": [own, {"name": "kind", "value": "golden"}]}});
    let image = installation.post(&format!("{instance}/snapshot"), &named).await.with(StatusCode::CREATED);
    let tags = image["metadata"]["tags"].to_string();
    assert!(tags.contains(last(&instance)) && tags.contains("golden") && !tags.contains("pretended"), "{tags}");
    let organization = installation.start.organization_id;
    let images = format!("/api/v2/regions/{NORTH}/images?organizationID={organization}&scope=owned&status=ready");
    installation.until(&images, |answer| answer.body.as_array().is_some_and(|list| list.len() == 1)).await;
    let copy =
        installation.provisioned(INSTANCES, &body(&installation, &network, "twin", &image["metadata"]["id"])).await;
    until_power(&installation, &copy, "Running").await;
    installation.delete_until_gone(&copy).await;

    changed(&installation, &instance, "imageId", IMAGES[1]).await;
    changed(&installation, &instance, "flavorId", LARGE).await;
    let denied = installation.delete(&network).await.with(StatusCode::FORBIDDEN);
    assert!(denied["error_description"].as_str().is_some_and(|text| text.contains("in use")), "{denied}");
    installation.delete_until_gone(&instance).await;
    installation.delete_until_gone(&network).await;
    installation.end().await;
}
