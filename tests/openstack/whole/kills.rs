//! Killed in the middle of its work, again and again: nothing is leaked, nothing is doubled, and what was asked for comes.
//!
//! ```text
//!   script ── asks again until somebody answers ──▶ Regent ──▶ the cloud, which goes on
//!                                                     ✕ at any moment, and starts on what it left
//! ```

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::json;
use tokio::sync::watch;

use super::script::{
    BALANCERS, GROUPS, INSTANCES, NETWORKS, VOLUMES, of_balancer, of_group, of_network, of_public_server, of_server,
    of_volume,
};
use super::{Stage, configuration};
use crate::openstack::cloud::Facts;
use crate::scenarios::{Installation, last};

/// How often CI kills. A campaign kills more often: REGENT_KILLS.
const CI_KILLS: u64 = 3;

/// How long a life lasts: from amid its recovery to longer than most of the script's steps take.
const LIFE_MS: std::ops::Range<u64> = 200..6000;

/// Makes everything, looks, and takes everything away.
async fn act(stage: &Stage) {
    let network = stage.asked(NETWORKS, &stage.network("net")).await;
    let group = stage.asked(GROUPS, &stage.group(&network)).await;
    let image = stage.facts.within("images", "tiny");
    let mut public = stage.instance("public", &network, image);
    public["spec"]["networking"] = json!({ "publicIP": true, "securityGroups": [last(&group)] });
    let public = stage.asked(INSTANCES, &public).await;
    let private = stage.asked(INSTANCES, &stage.instance("private", &network, image)).await;
    let server = async |instance: &str| {
        let read = stage.regent.get(instance).await.with(StatusCode::OK);
        read["status"]["serverId"].as_str().expect("a server").to_owned()
    };
    let servers = [server(&public).await, server(&private).await];
    let volume = stage.asked(VOLUMES, &stage.volume(&network, Some(&servers[0]))).await;
    let balancer = stage.asked(BALANCERS, &stage.balancer(&network, "10.0.1.5")).await;
    for path in [&network, &group, &public, &private, &volume, &balancer] {
        stage.until_provisioned(path).await;
    }
    stage.until_power(&public, "Running").await;
    stage.until_power(&private, "Running").await;
    let expected = [
        of_network(&network),
        of_group(&group),
        of_public_server("public", &servers[0]),
        of_server("private", &servers[1]),
        of_volume(&volume),
        of_balancer(&balancer),
    ];
    stage.holds(&expected).await;
    stage.detached(&volume).await;
    for path in [&balancer, &volume] {
        stage.removed(path).await;
    }
    for path in [&public, &private, &group, &network] {
        stage.delete_when_free(path).await;
    }
    for path in [&public, &private, &group, &network] {
        stage.until_gone(path).await;
    }
    stage.holds(&[]).await;
}

/// REGENT_KILLS and REGENT_SEED make a campaign of it.
#[tokio::test]
async fn a_regent_that_is_killed_again_and_again_leaks_nothing_and_doubles_nothing() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (kills, seed) = (number("REGENT_KILLS").unwrap_or(CI_KILLS), number("REGENT_SEED").unwrap_or(1));
    let mut random = fastrand::Rng::with_seed(seed);
    let facts = Facts::read();
    let regent = Installation::mortal(&configuration(&facts, facts.text("authUrl"))).await;
    let stage = Stage::on(regent, facts).await;
    let (dying, mut is_over) = watch::channel(false);
    let (began, mut acts) = (Instant::now(), 0);
    let deaths = async {
        for _ in 0..kills {
            tokio::time::sleep(Duration::from_millis(random.u64(LIFE_MS))).await;
            stage.regent.die_and_return().await;
        }
        dying.send_replace(true);
    };
    let play = async {
        while !*is_over.borrow_and_update() {
            act(&stage).await;
            acts += 1;
        }
    };
    tokio::join!(deaths, play);
    let log = stage.regent.log();
    let panics = log.lines().filter(|line| line.contains("panicked at")).collect::<Vec<_>>();
    assert!(panics.is_empty(), "{panics:?}");
    println!(
        "kill test: OpenStack, {kills} SIGKILLs, {acts} times everything, {} s: passed",
        began.elapsed().as_secs()
    );
    stage.regent.end().await;
}
