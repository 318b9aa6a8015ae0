//! 100,000 settled resources of all kinds and their cloud, each in a process of its own: how soon every actor answers,
//! how much memory they take, and what they cost while nothing happens.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use regent::actors::{Environment, Options};
use regent::graph::message::Message;
use regent::model::ambient::Ambient;
use regent::model::sealed::EnvelopeKey;
use regent::providers::simulated::api::SimulatedHandle;
use regent::providers::simulated::remote::Remote;
use regent::supervision::Supervision;
use regent::supervision::clouds::Clouds;

use super::fill::{RESOURCES_PER_NETWORK, fill};
use super::plane::furnished;
use super::{folder, judge, runtime};

pub const CHILD: &str = "machines-child";

/// What is measured; fewer are for trying things out.
const RESOURCES_DEFAULT: usize = 100_000;
const RESOURCES_VARIABLE: &str = "REGENT_BENCH_RESOURCES";

const LIVE_SECONDS_MAX: f64 = 15.0;
const RESIDENT_MIB_MAX: f64 = 1.8 * 1024.0;
const IDLE_PERCENT_MAX: f64 = 2.0;

/// Everything is looked at once a minute, the first time a minute after the start: each of the two windows that begin
/// half a minute after the start holds one such look.
const WINDOW: Duration = Duration::from_mins(1);
const WINDOWS: u32 = 2;

/// As Linux counts processor time for everybody to see, whatever it counts with itself.
const TICKS_PER_SECOND: f64 = 100.0;

pub fn run() {
    let resources = std::env::var(RESOURCES_VARIABLE).map_or(RESOURCES_DEFAULT, |text| text.parse().unwrap());
    println!("machines ({resources} resources, their cloud in a process of its own)");
    let folder = folder("machines");
    let (data, cloud_file) = (folder.join("data"), folder.join("cloud"));
    std::fs::create_dir(&data).unwrap();
    let runtime = runtime();
    runtime.block_on(fill(&data, &cloud_file, resources / RESOURCES_PER_NETWORK));
    let (cloud, endpoint) = CloudProcess::start(&cloud_file);
    let counters = || runtime.block_on(async { Remote::new(&endpoint).unwrap().counters().await.unwrap() });
    let before = counters();
    let output = Command::new(std::env::current_exe().unwrap()).arg(CHILD).arg(&data).arg(&endpoint).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{text}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let after = counters();
    drop(cloud);
    let changes = after.mutations - before.mutations;
    println!("  {} reads and {changes} changes in the cloud", after.reads - before.reads);
    let figures = |name: &str| {
        let of_line = |line: &str| line.trim().strip_prefix(name)?.split_whitespace().next()?.parse::<f64>().ok();
        text.lines().filter_map(of_line).collect::<Vec<_>>()
    };
    let all_within = |name: &str, most: f64| {
        let figures = figures(name);
        !figures.is_empty() && figures.iter().all(|figure| *figure <= most)
    };
    judge(
        "every actor answers within 15 s, with no change in the cloud",
        changes == 0 && all_within("live after", LIVE_SECONDS_MAX),
    );
    judge("resident memory is at most 1.8 GiB", all_within("resident memory at most", RESIDENT_MIB_MAX));
    judge("idling takes at most 2 % of a core", all_within("idle:", IDLE_PERCENT_MAX));
    let _ = std::fs::remove_dir_all(folder);
}

/// Ends with its value.
struct CloudProcess(Child);

impl CloudProcess {
    fn start(file: &Path) -> (Self, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_regent"))
            .args(["simulated-cloud", "--listen", "127.0.0.1:0", "--file"])
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Self(child), line.split_whitespace().last().unwrap().to_owned())
    }
}

impl Drop for CloudProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The measured process.
pub fn child(folder: &Path, endpoint: &str) {
    let configuration = format!(
        "[[regions]]\nid = \"11111111-1111-4111-8111-111111111111\"\nname = \"north\"\n\
         [regions.simulated]\nendpoint = \"{endpoint}\"\n"
    );
    runtime().block_on(async {
        let began = Instant::now();
        let ambient = Ambient::system();
        let (store, _, _) = furnished(folder, &ambient, &configuration).await;
        let opened = began.elapsed();
        let clouds = Arc::new(Clouds::in_memory(ambient.clone(), 1));
        let envelope = EnvelopeKey::from_bytes(&[1; 32]).unwrap();
        let environment = Environment::new(store, ambient, envelope, Options::default());
        let supervision = Supervision::start(Arc::clone(&environment), clouds).await.unwrap();
        let placed = began.elapsed();
        let answered = everybody_answers(&environment).await;
        println!(
            "  live after {:.1} s (store open {:.1} s, actors placed {:.1} s): {answered} actors answered",
            began.elapsed().as_secs_f64(),
            opened.as_secs_f64(),
            placed.as_secs_f64()
        );
        println!(
            "  at that moment {:.0} MiB resident, {:.1} s of processor time",
            memory("VmRSS:"),
            processor_seconds()
        );
        let mut from = began + WINDOW / 2;
        for _ in 0..WINDOWS {
            tokio::time::sleep_until(from.into()).await;
            let used = processor_seconds();
            from += WINDOW;
            tokio::time::sleep_until(from.into()).await;
            let used = processor_seconds() - used;
            println!("  idle: {:.2} % of a core ({used:.2} s in 60 s)", used / WINDOW.as_secs_f64() * 100.0);
        }
        let passes = environment.graph.nodes().iter().map(|node| node.snapshot().passes).sum::<u64>();
        assert_eq!(passes, 0, "nothing was news");
        println!("  resident memory at most {:.0} MiB (at the end {:.0} MiB)", memory("VmHWM:"), memory("VmRSS:"));
        drop(supervision);
        std::process::exit(0);
    });
}

/// Many are asked at once: one after the other would measure how fast two threads wake each other.
async fn everybody_answers(environment: &Environment) -> usize {
    let asked = environment.graph.nodes().into_iter().map(async |node| {
        let actor = node.actor().expect("every node has an actor");
        let snapshot = actor.call(Message::Inspect, Some(Duration::from_secs(5))).await.unwrap().unwrap();
        assert_eq!(snapshot.key, node.key());
    });
    futures_util::stream::iter(asked).buffer_unordered(256).count().await
}

/// A line of this process's status, in MiB.
pub fn memory(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap() / 1024.0
}

/// What this process has taken of all cores, in its own name and in the kernel's.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The second field is a name in parentheses, which may hold anything.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap());
    ticks.sum::<f64>() / TICKS_PER_SECOND
}
