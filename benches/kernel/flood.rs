//! One tenant's single creates while five thousand of another tenant's wait for the same cloud.

use std::sync::Arc;
use std::time::Duration;

use regent::model::ids::{NetworkId, OrganizationId, ProjectId};
use regent::model::quota::QuotaKind;
use regent::store::{Batch, Write};
use serde_json::json;
use tokio::time::Instant;

use super::plane::{Plane, Tenant};
use super::{Sample, folder, judge, load, milliseconds, runtime};

const FLOOD: usize = 5000;
/// Single creates, a quarter of a second apart: from the beginning of the flood until long after its last request.
const SINGLES: usize = 40;
const PAUSE: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(1);

/// A cloud that takes its time, so that there is something to wait for.
const CONFIGURATION: &str = r#"
[[regions]]
id = "11111111-1111-4111-8111-111111111111"
name = "north"
[regions.simulated]
callDelayMs = 20
"#;

pub fn run() {
    println!("flood ({FLOOD} creates by 64 clients, {SINGLES} single ones of another tenant, every call takes 20 ms)");
    let runtime = runtime();
    let waits = runtime.block_on(async {
        let plane = Arc::new(Plane::start_on(folder("flood"), false, CONFIGURATION).await);
        let quiet = tenant(&plane).await;
        let flood = load::closed_loop(&plane, plane.regions[0], 64, FLOOD);
        let (flood, singles) = tokio::join!(flood, singles(&plane, quiet));
        println!("  the flood was accepted within {:.1} s", flood.elapsed.as_secs_f64());
        first_calls(&plane, &singles).await
    });
    println!(
        "  from the request to the end of its first call: p50 {:.0} ms, longest {:.0} ms",
        milliseconds(waits.percentile(50)),
        milliseconds(waits.percentile(100))
    );
    judge("a single create's first call has ended within 1 s", waits.percentile(100) <= WAIT_MAX);
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// Another organization with a project, as soon as the API has accepted both.
async fn tenant(plane: &Plane) -> Tenant {
    let mut client = load::Client::connect(plane).await;
    let mut made = async |path: &str, spec: serde_json::Value| {
        let body = json!({"metadata": {"name": "quiet"}, "spec": spec});
        let answer = client.send(&plane.post(path, &body)).await;
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        answer["metadata"]["id"].as_str().unwrap().parse::<uuid::Uuid>().unwrap()
    };
    let organization = made("/api/v1/organizations", json!({"organizationType": "adhoc"})).await;
    let project = made(&format!("/api/v1/organizations/{organization}/projects"), json!({"groupIDs": []})).await;
    let organization = OrganizationId(organization);
    let limit = Write::Limit { organization, kind: QuotaKind::Networks, limit: SINGLES as u64 };
    plane.store.commit(Batch::of(vec![limit])).await.unwrap();
    Tenant { organization, project: ProjectId(project) }
}

/// When each was asked for, and what it became.
async fn singles(plane: &Plane, tenant: Tenant) -> Vec<(Instant, NetworkId)> {
    let mut client = load::Client::connect(plane).await;
    let mut singles = Vec::new();
    for number in 0..SINGLES {
        tokio::time::sleep(PAUSE).await;
        let sent = Instant::now();
        let answer = client.send(&plane.create_request_of(tenant, &format!("q{number}"), plane.regions[0])).await;
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        singles.push((sent, NetworkId(answer["metadata"]["id"].as_str().unwrap().parse().unwrap())));
    }
    singles
}

/// The first call is about the network's principal, which has its id in what the call is about.
async fn first_calls(plane: &Plane, singles: &[(Instant, NetworkId)]) -> Sample {
    // Longer than what is asked for, so that what comes too late is seen to come.
    tokio::time::sleep(2 * WAIT_MAX).await;
    let calls = plane.clouds.pool(plane.regions[0]).unwrap().recent();
    let mut waits = Vec::new();
    for (sent, network) in singles {
        let record = plane.store.get(network.key()).await.unwrap().unwrap();
        let principal = record.metadata.owner.unwrap().id.to_string();
        let first = calls.iter().find(|call| call.subject.split('/').any(|part| part == principal));
        let ended = first.and_then(|call| call.end).map(|end| end.finished_at.duration_since(*sent));
        waits.push(ended.unwrap_or(Duration::MAX));
    }
    Sample::of(waits)
}
