//! Everything that can be asked for, from its first request to its last.

use reqwest::StatusCode;
use serde_json::json;

use super::script::{
    AUTHORITIES, BALANCERS, GROUPS, INSTANCES, NETWORKS, VOLUMES, of_balancer, of_group, of_image, of_network,
    of_public_server, of_server, of_volume,
};
use super::{LOOK_PERIOD, Stage};
use crate::scenarios::{NORTH, last};

async fn obeyed(stage: &Stage, verb: &str) {
    let mut tries = tokio::time::interval(LOOK_PERIOD);
    loop {
        tries.tick().await;
        let answer = stage.regent.verb(verb).await;
        if answer.status == StatusCode::ACCEPTED {
            return;
        }
        // One that still reboots takes no other verb.
        answer.with(StatusCode::BAD_REQUEST);
    }
}

async fn changed(stage: &Stage, instance: &str, field: &str, value: &str) {
    let read = stage.regent.get(instance).await.with(StatusCode::OK);
    let mut spec = read["spec"].clone();
    spec[field] = json!(value);
    let body = json!({ "metadata": { "name": read["metadata"]["name"] }, "spec": spec });
    stage.regent.put(instance, &body).await.with(StatusCode::ACCEPTED);
    stage.until_provisioned(instance).await;
    let after = stage.until_power(instance, "Running").await;
    assert_eq!(after["spec"][field], value);
    for kept in ["privateIP", "publicIP", "macAddress", "serverId"] {
        assert_eq!(after["status"][kept], read["status"][kept], "{kept}");
    }
}

#[tokio::test]
async fn everything_is_made_changed_and_taken_away_and_the_cloud_holds_what_it_should_at_each_step() {
    let stage = Stage::open().await;
    let (regent, facts) = (&stage.regent, &stage.facts);
    stage.holds(&[]).await;
    let network = stage.made(NETWORKS, &stage.network("net")).await;
    let wires = of_network(&network);
    stage.holds(&[wires.clone()]).await;
    let group = stage.made(GROUPS, &stage.group(&network)).await;
    let authority = stage.asked(AUTHORITIES, &stage.authority()).await;
    let mut body = stage.instance("web", &network, facts.within("images", "tiny"));
    body["spec"]["sshCertificateAuthorityId"] = json!(last(&authority));
    body["spec"]["networking"] = json!({ "publicIP": true, "securityGroups": [last(&group)] });
    let instance = stage.made(INSTANCES, &body).await;
    let read = stage.until_power(&instance, "Running").await;
    assert!(read["status"]["privateIP"].is_string() && read["status"]["publicIP"].is_string(), "{read}");
    let server = read["status"]["serverId"].as_str().expect("a server");
    let rest = [wires, of_group(&group), of_public_server("web", server)].concat();
    stage.holds(&[rest.clone()]).await;
    for (verb, word) in
        [("stop", "Stopped"), ("start", "Running"), ("reboot", "Running"), ("reboot?hard=true", "Running")]
    {
        obeyed(&stage, &format!("{instance}/{verb}")).await;
        stage.until_power(&instance, word).await;
    }
    let output = regent.get(&format!("{instance}/consoleoutput")).await.with(StatusCode::OK);
    assert!(output["contents"].as_str().is_some_and(|text| text.contains("login:")), "{output}");
    stage.until(&format!("{instance}/consolesession"), |answer| answer.status == StatusCode::OK).await;
    changed(&stage, &instance, "imageId", facts.within("images", "tiny-next")).await;
    changed(&stage, &instance, "flavorId", facts.within("flavors", "m1.small")).await;
    stage.holds(&[rest.clone()]).await;

    let volume = stage.made(VOLUMES, &stage.volume(&network, Some(server))).await;
    let attached = regent.get(&volume).await.with(StatusCode::OK);
    assert!(attached["status"]["attachment"]["device"].is_string(), "{attached}");
    stage.holds(&[rest.clone(), of_volume(&volume)]).await;
    stage.detached(&volume).await;

    let address = read["status"]["privateIP"].as_str().expect("an address");
    let balancer = stage.made(BALANCERS, &stage.balancer(&network, address)).await;
    let reached = regent.get(&balancer).await.with(StatusCode::OK);
    assert!(reached["status"]["vipAddress"].is_string() && reached["status"]["publicIP"].is_string(), "{reached}");
    let rest = [rest, of_volume(&volume), of_balancer(&balancer)].concat();
    stage.holds(&[rest.clone()]).await;

    let named = json!({ "metadata": { "name": "copy" } });
    let image = regent.post(&format!("{instance}/snapshot"), &named).await.with(StatusCode::CREATED);
    let organization = regent.start.organization_id;
    let images = format!("/api/v2/regions/{NORTH}/images?organizationID={organization}&scope=owned&status=ready");
    stage.until(&images, |answer| answer.body.as_array().is_some_and(|list| list.len() == 1)).await;
    let image = crate::http::id_of(&image).to_owned();
    let second = stage.made(NETWORKS, &stage.network("second")).await;
    let copy = stage.made(INSTANCES, &stage.instance("twin", &second, &image)).await;
    let read = stage.until_power(&copy, "Running").await;
    let twin = of_server("twin", read["status"]["serverId"].as_str().expect("a server"));
    stage.holds(&[rest, of_image("copy"), of_network(&second), twin]).await;

    let denied = regent.delete(&network).await.with(StatusCode::FORBIDDEN);
    assert!(denied["error_description"].as_str().is_some_and(|text| text.contains("in use")), "{denied}");
    stage.removed(&volume).await;
    stage.removed(&balancer).await;
    stage.removed(&copy).await;
    stage.removed(&instance).await;
    stage.holds(&[of_network(&network), of_group(&group), of_image("copy"), of_network(&second)]).await;
    let image = format!("/api/v1/organizations/{organization}/regions/{NORTH}/images/{image}");
    regent.delete(&image).await.with(StatusCode::ACCEPTED);
    stage.until(&images, |answer| answer.body == json!([])).await;
    stage.removed(&group).await;
    stage.removed(&network).await;
    stage.removed(&second).await;
    stage.removed(&authority).await;
    stage.holds(&[]).await;
    stage.regent.end().await;
}
