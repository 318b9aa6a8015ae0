//! What a cloud will not do: users are told in safe words, operators why; it is not tried for ever, and goes cleanly.

use serde_json::{Value, json};

use super::script::{INSTANCES, NETWORKS, VOLUMES, of_network};
use super::weather::Weather;
use super::{Stage, configuration};
use crate::openstack::cloud::{Facts, id};
use crate::scenarios::{Answer, Installation};

/// More servers than this are not made of one that does not boot.
const TRIES_MAX: usize = 4;

/// Words of the cloud that users have no business with.
const INTERNAL: [&str; 6] = ["valid host", "NoValidHost", "Quota exceeded", "OverQuota", "Traceback", "unikorn-"];

fn message(answer: &Answer) -> &str {
    answer.body["metadata"]["provisioningStatusDetail"]["message"].as_str().unwrap_or_default()
}

/// Looks until the user is told this, in nothing but safe words.
async fn until_told(stage: &Stage, path: &str, words: &str) -> Value {
    stage
        .until(path, |answer| {
            let told = answer.body["metadata"].to_string();
            assert!(INTERNAL.iter().all(|word| !told.contains(word)), "{told}");
            message(answer).contains(words)
        })
        .await
}

/// An image that every flavor's memory is too small for.
async fn demanding_image(stage: &Stage) -> String {
    let image = json!({
        "name": "demanding", "disk_format": "raw", "container_format": "bare", "visibility": "public",
        "min_ram": 1_048_576, "architecture": "x86_64", "unikorn:os:kernel": "linux", "unikorn:os:family": "debian",
        "unikorn:os:distro": "debian", "unikorn:os:version": "12", "unikorn:os:codename": "bookworm",
        "unikorn:virtualization": "virtualized",
    });
    let (status, made) = stage.admin.call("POST", "image", "v2/images", Some(image)).await;
    assert_eq!(status, 201, "{made}");
    stage.admin.upload(&format!("v2/images/{}/file", id(&made)), vec![0; 1 << 20]).await;
    id(&made).to_owned()
}

/// The cloud's people lower a quota; what needs it is told, and comes when they raise it again.
///
/// `used` is what there is already: Neutron does not take less.
async fn over_quota(
    stage: &Stage,
    (service, key, quota, used): (&str, &str, &str, i64),
    collection: &str,
    body: &Value,
) {
    let project = stage.project().await;
    let path = if service == "network" { format!("quotas/{project}") } else { format!("os-quota-sets/{project}") };
    let set = async |value: i64| {
        let (status, answer) = stage.admin.call("PUT", service, &path, Some(json!({ key: { quota: value } }))).await;
        assert_eq!(status, 200, "{answer}");
    };
    set(used).await;
    let path = stage.asked(collection, body).await;
    until_told(stage, &path, "no capacity").await;
    set(-1).await;
    stage.until_provisioned(&path).await;
    stage.removed(&path).await;
}

#[tokio::test]
async fn what_the_cloud_refuses_is_told_safely_tried_a_few_times_and_goes_cleanly() {
    let facts = Facts::read();
    let weather = Weather::over(&facts.admin().await).await;
    let admin = facts.admin().await;
    let before = admin.list("image", "v2/images?name=demanding", "images").await;
    for image in before {
        admin.call("DELETE", "image", &format!("v2/images/{}", id(&image)), None).await;
    }
    let regent = Installation::on(&configuration(&facts, &weather.keystone())).await;
    let stage = Stage::on(regent, facts).await;
    let image = demanding_image(&stage).await;
    let network = stage.made(NETWORKS, &stage.network("net")).await;
    stage.holds(&[of_network(&network)]).await;

    let mut body = stage.instance("large", &network, stage.facts.within("images", "tiny"));
    body["spec"]["flavorId"] = json!(stage.facts.within("flavors", "m1.impossible"));
    let impossible = stage.asked(INSTANCES, &body).await;
    let told = until_told(&stage, &impossible, "times in a row").await;
    assert_eq!(told["metadata"]["provisioningStatus"], "error");
    let tries = weather.created().iter().filter(|path| path.ends_with("/servers")).count();
    assert!((1..=TRIES_MAX).contains(&tries), "{tries} servers were made");
    assert!(stage.regent.log().contains("No valid host"), "an operator is told why");
    stage.removed(&impossible).await;

    let refused = stage.asked(INSTANCES, &stage.instance("picky", &network, &image)).await;
    let told = until_told(&stage, &refused, "does not accept").await;
    assert_eq!(told["metadata"]["provisioningStatus"], "error");
    assert!(stage.regent.log().contains("memory is too small"), "an operator is told why");
    stage.removed(&refused).await;
    let (status, _) = stage.admin.call("DELETE", "image", &format!("v2/images/{image}"), None).await;
    assert_eq!(status, 204);
    stage.holds(&[of_network(&network)]).await;

    let small = stage.instance("small", &network, stage.facts.within("images", "tiny"));
    over_quota(&stage, ("compute", "quota_set", "instances", 0), INSTANCES, &small).await;
    over_quota(&stage, ("network", "quota", "port", 1), INSTANCES, &small).await;
    over_quota(&stage, ("block-storage", "quota_set", "volumes", 0), VOLUMES, &stage.volume(&network, None)).await;
    stage.holds(&[of_network(&network)]).await;
    stage.removed(&network).await;
    stage.holds(&[]).await;
    stage.regent.end().await;
}
