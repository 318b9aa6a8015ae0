//! What Regent costs on a real OpenStack: `cargo bench --features openstack --bench openstack`, with the development cloud up.
//!
//! Twenty servers at once through Regent, beside a program that makes the same calls for ports and servers over the same
//! way to the cloud, and waits by one bulk list at the period of Regent's monitor. What both stand on (principal, network)
//! is made before. Runs alternate; the ratio is that of the medians.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on should say where")]

mod direct;
mod through;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

/// How many servers there are in a run, and how many runs of each.
pub const SERVERS: usize = 20;
const RUNS: usize = 3;

/// What Regent may take, as a multiple of what the bare program takes.
const RATIO_MAX: f64 = 1.2;

/// What `up` wrote down of the cloud.
pub struct Facts(Value);

impl Facts {
    fn read() -> Self {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let home = || variable("HOME").map(|home| home.join(".cache"));
        let cache = || variable("XDG_CACHE_HOME").or_else(home).map(|cache| cache.join("regent"));
        let folder = variable("REGENT_OPENSTACK_DIR")
            .or_else(|| variable("REGENT_CACHE").or_else(cache).map(|cache| cache.join("openstack")));
        let path = folder.unwrap().join("facts.json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}\nstart the development cloud with deploy/dev/openstack/up", path.display())
        });
        Self(serde_json::from_str(&text).unwrap())
    }

    pub fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("the facts have no {pointer}"))
    }
}

fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations[durations.len() / 2]
}

fn shown(durations: &[Duration]) -> String {
    durations.iter().map(|one| format!("{:.1}", one.as_secs_f64())).collect::<Vec<_>>().join(", ")
}

#[tokio::main]
async fn main() {
    let facts = Facts::read();
    println!("openstack ({SERVERS} servers at once, {RUNS} runs of each, alternating)");
    let direct = direct::Program::start(&facts).await;
    let through = through::Regent::start(&facts).await;
    let (mut of_direct, mut of_regent) = (Vec::new(), Vec::new());
    for run in 1..=RUNS {
        of_direct.push(direct.run(run).await);
        of_regent.push(through.run(run).await);
    }
    println!("  the bare program:  {} s", shown(&of_direct));
    println!("  through Regent:    {} s", shown(&of_regent));
    direct.end().await;
    through.end().await;
    let ratio = median(of_regent).as_secs_f64() / median(of_direct).as_secs_f64();
    let holds = ratio <= RATIO_MAX;
    println!("  {} Regent takes {ratio:.2} times as long (at most {RATIO_MAX})", if holds { "ok  " } else { "MISS" });
    std::process::exit(i32::from(!holds));
}
