//! Reading while there is much: one project's part of fifty thousand resources, the stream of changes, and a list of
//! everything that nobody asked to be cut into pages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use regent::model::ambient::Ambient;
use regent::model::ids::{Incarnation, NetworkId, OrganizationId, ProjectId, RegionId, VolumeClassId};
use regent::model::metadata::{Metadata, Placement};
use regent::model::network::{Network, NetworkSpec, Prefix};
use regent::model::record::{Record, ResourceKind};
use regent::model::security_group::{Direction, Protocol, Rule, SecurityGroup, SecurityGroupSpec};
use regent::model::server::{Server, ServerSpec};
use regent::model::ssh_certificate_authority::{SshCertificateAuthority, SshCertificateAuthoritySpec};
use regent::model::volume::{Volume, VolumeSpec};
use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_UBUNTU};
use regent::store::{Batch, Store, Write};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::machines::memory;
use super::plane::Plane;
use super::{Sample, folder, judge, milliseconds, runtime};

const RESOURCES: usize = 50_000;
const PER_PROJECT: usize = 100;
const CLIENTS: usize = 16;
const LISTS_PER_CLIENT: usize = 125;
const EVENTS: usize = 500;

/// Where each kind is listed. A project has resources of one of them.
const COLLECTIONS: [&str; 5] = ["networks", "securitygroups", "servers", "sshcertificateauthorities", "volumes"];

/// Once in each resource of an answer.
const MARK: &[u8] = b"\"creationTime\"";

/// What a list of ten thousand may add to the memory: some pages of records and what is on its way to the client, and not
/// the list.
const LIST_MIB_MAX: f64 = 32.0;

pub fn run() {
    println!("lists ({RESOURCES} resources of {} kinds, {PER_PROJECT} in each project)", COLLECTIONS.len());
    let runtime = runtime();
    runtime.block_on(async {
        let plane = Arc::new(Plane::start(folder("lists"), true).await);
        let projects = fill(&*plane.store, plane.bootstrap.organization_id, plane.regions[0]).await;
        let sample = listed(&plane, &projects).await;
        let p99 = sample.percentile(99);
        println!(
            "  one project's {PER_PROJECT}, {CLIENTS} clients: {} lists, p50 {:.2} ms  p99 {:.2} ms",
            sample.count(),
            milliseconds(sample.percentile(50)),
            milliseconds(p99)
        );
        judge("a list of one project: p99 is at most 20 ms", p99 <= Duration::from_millis(20));
        everything(&plane).await;
        let lag = events(&plane).await;
        println!(
            "  from a create being sent to its event: {} of {EVENTS}, p50 {:.2} ms  p99 {:.2} ms",
            lag.count(),
            milliseconds(lag.percentile(50)),
            milliseconds(lag.percentile(99))
        );
        let is_soon = lag.percentile(99) <= Duration::from_millis(50) && lag.count() == EVENTS;
        judge("an event comes within 50 ms (p99) of its request", is_soon);
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
}

fn record<K: ResourceKind>(ambient: &Ambient, placement: Placement, spec: &K::Spec) -> Record {
    let metadata = Metadata::new(Incarnation(ambient.uuid()), "one-of-many", placement, "bench", ambient.now());
    Record::new::<K>(ambient.uuid(), metadata, spec)
}

fn of_kind(kind: usize, ambient: &Ambient, placement: Placement) -> Record {
    let rule =
        Rule { direction: Direction::Ingress, protocol: Protocol::Tcp, port: Some(22), port_max: None, prefix: None };
    match kind {
        0 => {
            let prefix = Prefix::parse("10.0.0.0/22").unwrap();
            let spec = NetworkSpec { prefix, reservations: None, dns_nameservers: Vec::new(), routes: None };
            record::<Network>(ambient, placement, &spec)
        }
        1 => record::<SecurityGroup>(ambient, placement, &SecurityGroupSpec { rules: vec![rule; 4] }),
        2 => {
            let spec = ServerSpec {
                flavor: FLAVOR_STANDARD,
                image: IMAGE_UBUNTU,
                networking: None,
                user_data: None,
                ssh_certificate_authority: None,
                ssh_injection: None,
                infrastructure: None,
                own_images: Vec::new(),
                governed: None,
            };
            record::<Server>(ambient, placement, &spec)
        }
        3 => {
            let spec = SshCertificateAuthoritySpec { public_key: format!("ssh-ed25519 {}", "A".repeat(68)) };
            record::<SshCertificateAuthority>(ambient, placement, &spec)
        }
        _ => {
            let spec = VolumeSpec { class: VolumeClassId(Uuid::from_u128(1)), size_gib: 1, server: None };
            record::<Volume>(ambient, placement, &spec)
        }
    }
}

/// Returns the projects, each of which has resources of the kind of its number.
async fn fill(store: &dyn Store, organization: OrganizationId, region: RegionId) -> Vec<ProjectId> {
    let ambient = Ambient::system();
    let projects = (0..RESOURCES / PER_PROJECT).map(|_| ProjectId(ambient.uuid())).collect::<Vec<_>>();
    for (number, project) in projects.iter().enumerate() {
        let placement = Placement {
            organization: Some(organization),
            project: Some(*project),
            region: Some(region),
            network: Some(NetworkId(Uuid::from_u128(7))),
            ..Placement::default()
        };
        let insert = |_| Write::Insert(Box::new(of_kind(number % COLLECTIONS.len(), &ambient, placement)));
        store.commit(Batch::of((0..PER_PROJECT).map(insert).collect())).await.unwrap();
    }
    projects
}

async fn listed(plane: &Arc<Plane>, projects: &[ProjectId]) -> Sample {
    let mut tasks = JoinSet::new();
    let http = reqwest::Client::new();
    for client in 0..CLIENTS {
        let (http, token, address) = (http.clone(), plane.bootstrap.token.clone(), plane.address);
        let projects = projects.to_vec();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            for turn in 0..LISTS_PER_CLIENT {
                let number = (client * LISTS_PER_CLIENT + turn) * 7 % projects.len();
                let collection = COLLECTIONS[number % COLLECTIONS.len()];
                let url = format!("http://{address}/api/v2/{collection}?projectID={}", projects[number]);
                let sent = Instant::now();
                let answer = http.get(url).bearer_auth(&token).send().await.unwrap();
                let body = answer.bytes().await.unwrap();
                latencies.push(sent.elapsed());
                // Counted and not read: what a client makes of it is not the server's time, and shares its cores here.
                let count = body.windows(MARK.len()).filter(|window| *window == MARK).count();
                assert_eq!(count, PER_PROJECT);
            }
            latencies
        });
    }
    Sample::of(tasks.join_all().await.concat())
}

async fn everything(plane: &Arc<Plane>) {
    let before = memory("VmRSS:");
    let url = format!("http://{}/api/v2/securitygroups", plane.address);
    let answer = reqwest::Client::new().get(url).bearer_auth(&plane.bootstrap.token).send().await.unwrap();
    let (mut bytes, mut most) = (0, before);
    let mut body = answer.bytes_stream();
    while let Some(piece) = body.next().await {
        bytes += piece.unwrap().len();
        most = most.max(memory("VmRSS:"));
    }
    let more = most - before;
    println!(
        "  a list of {} in one answer: {:.1} MiB, with {more:.1} MiB more memory",
        RESOURCES / 5,
        bytes as f64 / 1_048_576.0
    );
    judge("a list of everything takes at most 32 MiB", more <= LIST_MIB_MAX);
}

/// How long after its request was sent each create is told of by the stream.
async fn events(plane: &Arc<Plane>) -> Sample {
    let url = format!("http://{}/api/v2/events", plane.address);
    let answer = reqwest::Client::new().get(url).bearer_auth(&plane.bootstrap.token).send().await.unwrap();
    let mut stream = answer.bytes_stream();
    let mut client = super::load::Client::connect(plane).await;
    let mut latencies = Vec::new();
    for number in 0..EVENTS {
        let request = plane.create_request(&format!("told-{number}"), plane.regions[0]);
        let sent = Instant::now();
        let made: serde_json::Value = serde_json::from_slice(&client.send(&request).await).unwrap();
        let id = made["metadata"]["id"].as_str().unwrap().to_owned();
        let mut heard = String::new();
        while !heard.contains(&id) {
            let piece = tokio::time::timeout(Duration::from_secs(5), stream.next()).await.unwrap();
            heard.push_str(&String::from_utf8_lossy(&piece.unwrap().unwrap()));
        }
        latencies.push(sent.elapsed());
    }
    Sample::of(latencies)
}
