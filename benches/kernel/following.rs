//! How soon an instance says what its server says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use regent::model::ids::Kind;
use regent::model::instance::{Instance, InstanceDetail};
use regent::model::server::{ServerDetail, ServerPhase};
use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_UBUNTU};
use regent::store::{ChangeEvent, Changes, Store};
use tokio::time::Instant;
use uuid::Uuid;

use super::plane::Plane;
use super::{Sample, folder, judge, load, milliseconds, runtime};

const INSTANCES: u32 = 500;

/// When a commit first showed a machine in a phase, by its server and by its instance.
#[derive(Default)]
struct Seen {
    servers: BTreeMap<(Uuid, ServerPhase), Instant>,
    instances: BTreeMap<(Uuid, ServerPhase), Instant>,
    running: usize,
}

pub fn run() {
    println!("following ({INSTANCES} instances at 50/s, booting)");
    let runtime = runtime();
    let lag = runtime.block_on(async {
        let plane = Arc::new(Plane::start(folder("following"), false).await);
        let mut client = load::Client::connect(&plane).await;
        let body = client.send(&plane.create_request("wide", plane.regions[0])).await;
        let network: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let network = network["metadata"]["id"].as_str().unwrap().to_owned();
        let watching = watch(Arc::clone(&plane.store));
        let request = move |plane: &Plane, number: u32| {
            let tenant = plane.tenant();
            plane.post(
                "/api/v2/instances",
                &serde_json::json!({
                    "metadata": {"name": format!("i{number}")},
                    "spec": {
                        "organizationId": tenant.organization, "projectId": tenant.project, "networkId": network,
                        "flavorId": FLAVOR_STANDARD, "imageId": IMAGE_UBUNTU,
                    },
                }),
            )
        };
        let load = load::open_loop_of(&plane, 50, INSTANCES, request);
        let (seen, _) = tokio::join!(watching, load);
        let lags = seen.instances.iter().filter_map(|(moment, told)| {
            let happened = seen.servers.get(moment)?;
            Some(told.saturating_duration_since(*happened))
        });
        Sample::of(lags.collect())
    });
    let p99 = lag.percentile(99);
    println!(
        "  from the server's phase to the instance's: {} of them, p50 {:.3} ms  p99 {:.3} ms",
        lag.count(),
        milliseconds(lag.percentile(50)),
        milliseconds(p99)
    );
    let enough = lag.count() >= INSTANCES as usize;
    judge("an instance follows its server within 10 ms (p99)", p99 <= Duration::from_millis(10) && enough);
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// Follows the store until every instance is said to run.
async fn watch(store: Arc<dyn Store>) -> Seen {
    let mut seen = Seen::default();
    let mut latest = store.latest();
    let mut position = *latest.borrow();
    while seen.running < INSTANCES as usize {
        latest.changed().await.unwrap();
        let now = Instant::now();
        loop {
            let Changes::Next(changes) = store.changes(position, 1000).await.unwrap() else { panic!("lagging") };
            let Some(last) = changes.last() else { break };
            position = last.position;
            for change in changes {
                let ChangeEvent::Put(record) = change.event else { continue };
                match record.key.kind {
                    Kind::Server => {
                        let phase = record.detail.read::<ServerDetail>().unwrap().phase;
                        seen.servers.entry((record.key.id, phase)).or_insert(now);
                    }
                    Kind::Instance => {
                        let server = record.open::<Instance>().unwrap().spec.server;
                        let phase = record.detail.read::<InstanceDetail>().unwrap().phase;
                        if !seen.instances.contains_key(&(server.0, phase)) && phase == ServerPhase::Running {
                            seen.running += 1;
                        }
                        seen.instances.entry((server.0, phase)).or_insert(now);
                    }
                    _ => {}
                }
            }
        }
    }
    seen
}
