//! How soon something happens: from accepted to the first call, and from ready to the dependant's call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use regent::model::ids::Kind;
use regent::store::{ChangeEvent, Changes, Store};
use tokio::time::Instant;
use uuid::Uuid;

use super::plane::Plane;
use super::{Sample, folder, judge, load, milliseconds, runtime};

const CREATES: u32 = 1000;

/// When a commit first showed something of a resource.
#[derive(Default)]
struct Seen {
    accepted: HashMap<Uuid, Instant>,
    ready: HashMap<Uuid, Instant>,
    networks: HashMap<Uuid, Uuid>,
}

pub fn run() {
    println!("reaction ({CREATES} creates at 100/s, converging)");
    let runtime = runtime();
    let (first_call, dependant) = runtime.block_on(async {
        let plane = Arc::new(Plane::start(folder("reaction"), false).await);
        let watching = watch(Arc::clone(&plane.store));
        let load = load::open_loop(&plane, plane.regions[0], 100, CREATES);
        let (seen, _) = tokio::join!(watching, load);
        let pool = plane.clouds.pool(plane.regions[0]).unwrap();
        let mut issued: HashMap<String, Instant> = HashMap::new();
        for call in pool.recent() {
            for part in call.subject.split('/') {
                issued.entry(part.to_owned()).or_insert(call.issued_at);
            }
        }
        let mut first_call = Vec::new();
        let mut dependant = Vec::new();
        for (network, identity) in &seen.networks {
            if let (Some(accepted), Some(call)) = (seen.accepted.get(identity), issued.get(&identity.to_string())) {
                first_call.push(call.saturating_duration_since(*accepted));
            }
            if let (Some(ready), Some(call)) = (seen.ready.get(identity), issued.get(&network.to_string())) {
                dependant.push(call.saturating_duration_since(*ready));
            }
        }
        (Sample::of(first_call), Sample::of(dependant))
    });
    for (what, sample) in [("accepted to first call", &first_call), ("ready to the dependant's call", &dependant)] {
        let (p50, p99) = (sample.percentile(50), sample.percentile(99));
        println!(
            "  {what}: {} of {CREATES}, p50 {:.3} ms  p99 {:.3} ms",
            sample.count(),
            milliseconds(p50),
            milliseconds(p99)
        );
        judge(&format!("{what}: p99 is at most 5 ms"), p99 <= Duration::from_millis(5) && sample.count() > 500);
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// Follows the store until every network is there and its principal ready.
async fn watch(store: Arc<dyn Store>) -> Seen {
    let mut seen = Seen::default();
    let mut latest = store.latest();
    let mut position = *latest.borrow();
    while seen.ready.len() < CREATES as usize {
        latest.changed().await.unwrap();
        let now = Instant::now();
        loop {
            let Changes::Next(changes) = store.changes(position, 1000).await.unwrap() else { panic!("lagging") };
            let Some(last) = changes.last() else { break };
            position = last.position;
            for change in changes {
                let ChangeEvent::Put(record) = change.event else { continue };
                match record.key.kind {
                    Kind::Network => {
                        seen.networks.insert(record.key.id, record.metadata.owner.unwrap().id);
                    }
                    Kind::Identity => {
                        seen.accepted.entry(record.key.id).or_insert(now);
                        if record.conditions.is_available() {
                            seen.ready.entry(record.key.id).or_insert(now);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    seen
}
