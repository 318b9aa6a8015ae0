//! Accepted creates, beside the disk and beside a bare loop.

use std::sync::Arc;
use std::time::Duration;

use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_UBUNTU};

use super::plane::Plane;
use super::{bare, folder, judge, load, milliseconds, runtime};

const CLIENTS: usize = 64;
const CREATES: usize = 20_000;

pub fn run() {
    println!("creates");
    let scratch = folder("bare");
    let syncs = bare::syncs(&scratch);
    println!(
        "  sync of 4 KiB:           p50 {:.2} ms  p99 {:.2} ms",
        milliseconds(syncs.percentile(50)),
        milliseconds(syncs.percentile(99))
    );

    let (before, after) = (scratch.join("before.db"), scratch.join("after.db"));
    let runtime = runtime();
    runtime.block_on(async {
        let plane = Plane::start(folder("template"), true).await;
        regent::store::embedded::backup_folder(&plane.folder, &before).unwrap();
        let mut client = load::Client::connect(&plane).await;
        client.send(&plane.create_request("template", plane.regions[0])).await;
        regent::store::embedded::backup_folder(&plane.folder, &after).unwrap();
        assert!(plane.regions.len() == 2);
    });
    let switched = rusqlite::Connection::open(&after).unwrap();
    switched.pragma_update(None, "journal_mode", "wal").unwrap();
    drop(switched);
    let loop_outcome = bare::group_commit(&before, &after, CLIENTS, CREATES);
    println!(
        "  bare loop, 64 writers:   {:.0}/s  p50 {:.2} ms  p99 {:.2} ms",
        loop_outcome.per_second,
        milliseconds(loop_outcome.latencies.percentile(50)),
        milliseconds(loop_outcome.latencies.percentile(99))
    );

    let paused = runtime.block_on(async {
        let plane = Arc::new(Plane::start(folder("paused"), true).await);
        let outcome = load::closed_loop(&plane, plane.regions[0], CLIENTS, CREATES).await;
        print("64 clients, actors paused:", &outcome);
        outcome
    });
    let open = runtime.block_on(async {
        let plane = Arc::new(Plane::start(folder("open"), false).await);
        load::open_loop(&plane, plane.regions[0], 200, 4000).await
    });
    print("200/s open loop, converging:", &open);
    let running = runtime.block_on(async {
        let plane = Arc::new(Plane::start(folder("running"), false).await);
        load::closed_loop(&plane, plane.regions[0], CLIENTS, CREATES / 4).await
    });
    print("64 clients, converging:   ", &running);
    let servers = runtime.block_on(async {
        let plane = Arc::new(Plane::start(folder("servers"), false).await);
        let networks = networks(&plane).await;
        let server = move |plane: &Plane, number| plane.post("/api/v2/servers", &server(number, &networks));
        load::open_loop_of(&plane, 100, 2000, server).await
    });
    print("servers, 100/s open loop: ", &servers);

    let ratio = paused.per_second() / loop_outcome.per_second;
    judge(&format!("creates/s are {:.0} % of the bare loop's (at least 50 %)", ratio * 100.0), ratio >= 0.5);
    let allowed = syncs.percentile(99) * 2 + Duration::from_millis(5);
    let p99 = open.latencies.percentile(99);
    let text = format!(
        "p99 at 200/s is {:.2} ms (at most 2 x sync p99 + 5 ms = {:.2} ms)",
        milliseconds(p99),
        milliseconds(allowed)
    );
    judge(&text, p99 <= allowed);
    let p99 = servers.latencies.percentile(99);
    let text = format!("servers: p99 at 100/s is {:.2} ms (at most the same)", milliseconds(p99));
    judge(&text, p99 <= allowed);
    runtime.shutdown_timeout(Duration::from_secs(1));
    let _ = std::fs::remove_dir_all(scratch);
}

/// As many networks as hold the servers of a run with room to spare, by their ids.
async fn networks(plane: &Plane) -> Vec<String> {
    let mut client = load::Client::connect(plane).await;
    let mut networks = Vec::new();
    for number in 0..10 {
        let answer = client.send(&plane.create_request(&format!("n{number}"), plane.regions[0])).await;
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        networks.push(answer["metadata"]["id"].as_str().unwrap().to_owned());
    }
    networks
}

fn server(number: u32, networks: &[String]) -> serde_json::Value {
    serde_json::json!({
        "metadata": {"name": format!("s{number}")},
        "spec": {
            "networkId": networks[number as usize % networks.len()],
            "flavorId": FLAVOR_STANDARD,
            "imageId": IMAGE_UBUNTU,
        },
    })
}

fn print(what: &str, outcome: &load::Outcome) {
    println!(
        "  {what} {:.0}/s  p50 {:.2} ms  p99 {:.2} ms",
        outcome.per_second(),
        milliseconds(outcome.latencies.percentile(50)),
        milliseconds(outcome.latencies.percentile(99))
    );
}
