//! A cloud that fails in the middle of everything: it recovers alone, nothing is doubled, and other regions notice nothing.

use std::time::{Duration, Instant};

use serde_json::json;

use super::script::{
    BALANCERS, GROUPS, INSTANCES, NETWORKS, VOLUMES, of_balancer, of_group, of_network, of_public_server, of_volume,
};
use super::weather::{Mood, Weather};
use super::{Stage, configuration};
use crate::openstack::cloud::Facts;
use crate::scenarios::{Installation, PRIVATE, last};

/// How long Keystone is away. By hand it is two minutes: REGENT_OUTAGE.
const CI_OUTAGE_SECONDS: u64 = 8;

/// How long each of the others lasts: long enough that several passes meet it.
const SPELL: Duration = Duration::from_secs(4);

/// Within this the other region does its work, whatever the first one does.
const ELSEWHERE_MAX: Duration = Duration::from_secs(10);

/// A network in the other region comes and goes.
async fn elsewhere(stage: &Stage, name: &str) {
    let began = Instant::now();
    let mut body = stage.network(name);
    body["spec"]["regionId"] = json!(PRIVATE);
    let network = stage.made(NETWORKS, &body).await;
    stage.removed(&network).await;
    assert!(began.elapsed() < ELSEWHERE_MAX, "the other region took {:?}", began.elapsed());
}

async fn spell(weather: &Weather, service: &'static str, mood: Mood) {
    weather.becomes(service, mood);
    tokio::time::sleep(SPELL).await;
    weather.becomes(service, Mood::Fair);
}

/// Ends every token that Regent was seen to use.
async fn revoke(stage: &Stage, weather: &Weather) -> usize {
    let tokens = weather.tokens();
    for token in &tokens {
        stage.admin.revoke(token).await;
    }
    tokens.len()
}

#[tokio::test]
async fn whatever_fails_in_the_cloud_everything_comes_in_the_end_and_nothing_twice() {
    let outage = std::env::var("REGENT_OUTAGE").map_or(CI_OUTAGE_SECONDS, |text| text.parse().expect("seconds"));
    let facts = Facts::read();
    let weather = Weather::over(&facts.admin().await).await;
    let other = format!("\n[[regions]]\nid = \"{PRIVATE}\"\nname = \"south\"\n[regions.simulated]\n");
    let regent = Installation::on(&(configuration(&facts, &weather.keystone()) + &other)).await;
    let stage = Stage::on(regent, facts).await;

    // Nobody has logged in yet.
    weather.becomes("identity", Mood::Away);
    let network = stage.asked(NETWORKS, &stage.network("net")).await;
    elsewhere(&stage, "first").await;
    tokio::time::sleep(Duration::from_secs(outage)).await;
    weather.becomes("identity", Mood::Fair);

    weather.becomes("network", Mood::Mute);
    let group = stage.asked(GROUPS, &stage.group(&network)).await;
    stage.until_provisioned(&network).await;
    stage.until_provisioned(&group).await;
    weather.becomes("network", Mood::Fair);
    stage.holds(&[of_network(&network), of_group(&group)]).await;

    let mut body = stage.instance("web", &network, stage.facts.within("images", "tiny"));
    body["spec"]["networking"] = json!({ "publicIP": true, "securityGroups": [last(&group)] });
    let instance = stage.asked(INSTANCES, &body).await;
    spell(&weather, "compute", Mood::Unable).await;
    elsewhere(&stage, "second").await;
    spell(&weather, "network", Mood::Throttling).await;
    assert!(revoke(&stage, &weather).await > 0);
    weather.becomes_everywhere(Mood::Mute);
    let running = stage.until_power(&instance, "Running").await;
    let server = running["status"]["serverId"].as_str().expect("a server").to_owned();
    let volume = stage.asked(VOLUMES, &stage.volume(&network, Some(&server))).await;
    let balancer = stage.asked(BALANCERS, &stage.balancer(&network, "10.0.1.5")).await;
    for path in [&instance, &volume, &balancer] {
        stage.until_provisioned(path).await;
    }
    assert!(revoke(&stage, &weather).await > 0);
    let wires = [of_network(&network), of_group(&group), of_public_server("web", &server)];
    stage.holds(&[wires.concat(), of_volume(&volume), of_balancer(&balancer)]).await;

    stage.detached(&volume).await;
    for path in [&balancer, &volume, &instance, &group, &network] {
        stage.removed(path).await;
    }
    stage.holds(&[]).await;
    stage.regent.end().await;
}
