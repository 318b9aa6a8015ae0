//! A start with 100,000 networks: until every actor is registered and answers, in a process of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regent::actors::{Environment, Options};
use regent::graph::message::Message;
use regent::model::ambient::Ambient;
use regent::model::condition::{Axis, Conditions, Reason, Statement, Truth};
use regent::model::identity::{HIDDEN_NAME, Identity, IdentitySpec};
use regent::model::ids::{IdentityId, Incarnation};
use regent::model::metadata::{Metadata, Placement};
use regent::model::network::{Network, NetworkDetail, NetworkSpec, Prefix};
use regent::model::record::{Document, Record};
use regent::model::sealed::EnvelopeKey;
use regent::store::{Batch, Write};
use regent::supervision::Supervision;
use regent::supervision::clouds::Clouds;

use super::plane::furnished;
use super::{folder, judge, runtime};

pub const CHILD: &str = "start-child";
const NETWORKS: usize = 100_000;

pub fn run() {
    println!("start with {NETWORKS} networks");
    let folder = folder("start");
    runtime().block_on(fill(&folder));
    let child = std::process::Command::new(std::env::current_exe().unwrap()).arg(CHILD).arg(&folder).output().unwrap();
    let output = String::from_utf8_lossy(&child.stdout).into_owned();
    print!("{output}");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let seconds =
        output.lines().find_map(|line| line.trim().strip_prefix("live after ")?.split(' ').next()?.parse::<f64>().ok());
    let changes = output.contains("0 changes in the cloud");
    judge(
        "every actor answers within 30 s, with no change in the cloud",
        seconds.is_some_and(|seconds| seconds <= 30.0) && changes,
    );
    let _ = std::fs::remove_dir_all(folder);
}

/// Settled networks with their principals, written straight to the store.
async fn fill(folder: &Path) {
    let ambient = Ambient::system();
    let (store, bootstrap, regions) = furnished(folder, &ambient).await;
    let mut settled = Conditions::default();
    let provisioned = Statement::new(Truth::True, Reason::Provisioned, "provisioned");
    settled.state(Axis::Available, provisioned, 1, ambient.now());
    let prefix = Prefix::parse("10.0.0.0/22").unwrap();
    let spec = NetworkSpec { prefix, reservations: None, dns_nameservers: vec![], routes: None };
    let placement = Placement {
        organization: Some(bootstrap.organization_id),
        project: Some(bootstrap.project_id),
        region: Some(regions[0]),
        ..Placement::default()
    };
    for batch in 0..NETWORKS / 500 {
        let mut writes = Vec::new();
        for number in 0..500 {
            let identity = IdentityId(ambient.uuid());
            let metadata = Metadata::new(Incarnation(ambient.uuid()), HIDDEN_NAME, placement, "bench", ambient.now());
            let mut record = Record::new::<Identity>(identity.0, metadata, &IdentitySpec { hidden: true });
            record.conditions = settled.clone();
            writes.push(Write::Insert(Box::new(record)));
            let name = format!("n{}", batch * 500 + number);
            let placement = Placement { identity: Some(identity), ..placement };
            let mut metadata = Metadata::new(Incarnation(ambient.uuid()), &name, placement, "bench", ambient.now());
            metadata.owner = Some(identity.key());
            let mut record = Record::new::<Network>(ambient.uuid(), metadata, &spec);
            record.conditions = settled.clone();
            record.detail = Document::of(&NetworkDetail::default());
            writes.push(Write::Insert(Box::new(record)));
        }
        store.commit(Batch::of(writes)).await.unwrap();
    }
}

/// The measured process.
pub fn child(folder: &Path) {
    runtime().block_on(async {
        let began = Instant::now();
        let ambient = Ambient::system();
        let (store, _, regions) = furnished(folder, &ambient).await;
        let opened = began.elapsed();
        let clouds = Arc::new(Clouds::in_memory(ambient.clone(), 1));
        let envelope = EnvelopeKey::from_bytes(&[1; 32]).unwrap();
        let environment = Environment::new(store, ambient, envelope, Options::default());
        let supervision = Supervision::start(Arc::clone(&environment), Arc::clone(&clouds) as _).await.unwrap();
        let placed = began.elapsed();
        let mut answered = 0_usize;
        for node in environment.graph.nodes() {
            let actor = node.actor().expect("every node has an actor");
            let snapshot = actor.call(Message::Inspect, Some(Duration::from_secs(5))).await.unwrap().unwrap();
            assert_eq!(snapshot.key, node.key());
            answered += 1;
        }
        println!(
            "  live after {:.1} s (store open {:.1} s, actors placed {:.1} s): {answered} resource actors answered",
            began.elapsed().as_secs_f64(),
            opened.as_secs_f64(),
            placed.as_secs_f64()
        );
        assert_eq!(answered, 2 * NETWORKS);
        let counters = clouds.handle(regions[0]).unwrap().counters().await.unwrap();
        println!("  {} changes in the cloud, resident memory {} MiB", counters.mutations, resident_mib());
        drop(supervision);
        std::process::exit(0);
    });
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}
