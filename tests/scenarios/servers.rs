//! Servers, and the authorities that let people into them.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{FLAVORS, IMAGES, Installation, last, lists};

const SERVERS: &str = "/api/v2/servers";
const AUTHORITIES: &str = "/api/v2/sshcertificateauthorities";
const PUBLIC_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

fn server_body(network: &str, more: &Value) -> Value {
    let mut spec = json!({"networkId": last(network), "flavorId": FLAVORS[0], "imageId": IMAGES[0]});
    spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({"metadata": {"name": "server"}, "spec": spec})
}

async fn until_power(installation: &Installation, server: &str, word: &str) -> Value {
    installation.until(server, |answer| answer.body["status"]["powerState"] == word).await
}

/// A server that still reboots takes no other verb, and its power looks the same meanwhile.
async fn obeyed(installation: &Installation, verb: &str) {
    let mut tries = tokio::time::interval(super::LOOK_PERIOD);
    loop {
        tries.tick().await;
        let answer = installation.verb(verb).await;
        if answer.status == StatusCode::ACCEPTED {
            return;
        }
        answer.with(StatusCode::BAD_REQUEST);
    }
}

#[tokio::test]
async fn a_server_runs_obeys_verbs_and_shows_its_console() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    let body = server_body(&network, &json!({"networking": {"publicIP": true}}));
    let server = installation.provisioned(SERVERS, &body).await;
    let read = until_power(&installation, &server, "Running").await;
    assert!(read["status"]["privateIP"].is_string() && read["status"]["publicIP"].is_string(), "{read}");
    for (verb, word) in
        [("stop", "Stopped"), ("start", "Running"), ("softreboot", "Running"), ("hardreboot", "Running")]
    {
        obeyed(&installation, &format!("{server}/{verb}")).await;
        until_power(&installation, &server, word).await;
    }
    let output = installation.get(&format!("{server}/consoleoutput")).await.with(StatusCode::OK);
    assert!(output["contents"].is_string(), "{output}");
    let session =
        installation.until(&format!("{server}/consolesessions"), |answer| answer.status == StatusCode::OK).await;
    assert!(session["url"].is_string(), "{session}");
    installation.delete_until_gone(&server).await;
    installation.delete_until_gone(&network).await;
    installation.end().await;
}

#[tokio::test]
async fn another_image_rebuilds_a_server_that_stays_itself() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    let body = server_body(&network, &json!({"networking": {"publicIP": true}}));
    let server = installation.provisioned(SERVERS, &body).await;
    let before = until_power(&installation, &server, "Running").await;
    let change = json!({
        "metadata": {"name": "server"},
        "spec": {"flavorId": FLAVORS[0], "imageId": IMAGES[1], "networking": {"publicIP": true}},
    });
    let changed = installation.put(&server, &change).await.with(StatusCode::ACCEPTED);
    assert_eq!(changed["metadata"]["provisioningStatus"], "provisioning");
    installation.until_provisioned(&server).await;
    let after = until_power(&installation, &server, "Running").await;
    assert_eq!(after["spec"]["imageId"], IMAGES[1]);
    assert_eq!(after["metadata"]["id"], before["metadata"]["id"]);
    for address in ["privateIP", "publicIP", "macAddress"] {
        assert_eq!(after["status"][address], before["status"][address], "{address}");
    }
    installation.end().await;
}

#[tokio::test]
async fn a_server_that_is_told_its_host_says_so() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    let more = json!({"flavorId": FLAVORS[1], "infrastructureRef": "sim-host-1", "sshInjection": "none"});
    let server = installation.provisioned(SERVERS, &server_body(&network, &more)).await;
    let read = until_power(&installation, &server, "Running").await;
    assert_eq!(read["status"]["infrastructureRef"], "sim-host-1");
    installation.end().await;
}

#[tokio::test]
async fn there_is_no_key_to_a_server_that_certificates_or_nothing_open() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    let start = &installation.start;
    let spec = json!({"organizationId": start.organization_id, "projectId": start.project_id, "publicKey": PUBLIC_KEY});
    let body = json!({"metadata": {"name": "people"}, "spec": spec});
    let authority = installation.post(AUTHORITIES, &body).await.with(StatusCode::CREATED);
    let with_authority = json!({"sshInjection": "ca", "sshCertificateAuthorityId": authority["metadata"]["id"]});
    for (name, more) in [("ca", with_authority), ("none", json!({"sshInjection": "none"}))] {
        let mut body = server_body(&network, &more);
        body["metadata"]["name"] = json!(name);
        let server = installation.provisioned(SERVERS, &body).await;
        installation.get(&format!("{server}/sshkey")).await.with(StatusCode::NOT_FOUND);
    }
    installation.end().await;
}

#[tokio::test]
async fn an_ssh_authority_is_made_read_listed_and_deleted_and_a_bad_key_is_refused() {
    let installation = Installation::start().await;
    let start = &installation.start;
    let body = |key: &str| {
        let spec = json!({"organizationId": start.organization_id, "projectId": start.project_id, "publicKey": key});
        json!({"metadata": {"name": "people"}, "spec": spec})
    };
    let made = installation.post(AUTHORITIES, &body(PUBLIC_KEY)).await.with(StatusCode::CREATED);
    assert_eq!(made["metadata"]["provisioningStatus"], "provisioned");
    let authority = format!("{AUTHORITIES}/{}", made["metadata"]["id"].as_str().expect("an id"));
    assert_eq!(installation.get(&authority).await.with(StatusCode::OK)["spec"]["publicKey"], PUBLIC_KEY);
    assert!(lists(&installation.get(AUTHORITIES).await.with(StatusCode::OK), &authority));
    installation.post(AUTHORITIES, &body("no key")).await.with(StatusCode::UNPROCESSABLE_ENTITY);
    installation.delete(&authority).await.with(StatusCode::ACCEPTED);
    installation.until(&authority, |answer| answer.status == StatusCode::NOT_FOUND).await;
    installation.end().await;
}
