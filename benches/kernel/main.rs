//! What the kernel costs, in one run: `cargo bench`. Prints figures beside what they are to be compared with.
//!
//! Every claim of speed is a ratio of two figures of the same run, because machines differ and so do their disks.
//! `cargo bench -- reaction` runs only the sections whose names contain a word. Sections:
//!
//! - `creates`: accepted creates by 64 clients and at 200 a second, beside the disk's own sync and beside a bare loop
//!   that commits the same rows;
//! - `reaction`: from accepted to the first call, and from a dependency's readiness to its dependant's call;
//! - `outage`: creates in one region while another region's cloud is down;
//! - `following`: from what a server's actor says to what its instance says;
//! - `lists`: one project's part of 50,000 resources, the stream of changes, a list of everything;
//! - `flood`: one tenant's create while another one's five thousand wait;
//! - `machines`: 100,000 settled resources of all kinds: their start, their memory, and what idling costs.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a measurement that cannot go on should say where"
)]

mod bare;
mod creates;
mod fill;
mod flood;
mod following;
mod lists;
mod load;
mod machines;
mod outage;
mod plane;
mod reaction;

use std::time::Duration;

/// Sorted durations, for asking what most of them were.
pub struct Sample(Vec<Duration>);

impl Sample {
    pub fn of(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self(durations)
    }

    /// The duration that `percent` of all were no longer than.
    pub fn percentile(&self, percent: usize) -> Duration {
        let index = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(index).copied().unwrap_or_default()
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }
}

pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Prints whether a figure is what was asked for, and remembers if it is not.
pub fn judge(what: &str, holds: bool) {
    println!("  {} {what}", if holds { "ok  " } else { "MISS" });
    if !holds {
        MISSED.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

static MISSED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

fn main() {
    let arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect::<Vec<_>>();
    if let [role, folder, endpoint] = arguments.as_slice()
        && role == machines::CHILD
    {
        machines::child(std::path::Path::new(folder), endpoint);
        return;
    }
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|word| name.contains(word.as_str()));
    if wanted("creates") {
        creates::run();
    }
    if wanted("reaction") {
        reaction::run();
    }
    if wanted("following") {
        following::run();
    }
    if wanted("lists") {
        lists::run();
    }
    if wanted("outage") {
        outage::run();
    }
    if wanted("flood") {
        flood::run();
    }
    if wanted("machines") {
        machines::run();
    }
    std::process::exit(i32::from(MISSED.load(std::sync::atomic::Ordering::Relaxed)));
}

/// A multi-threaded runtime, as the binary runs on.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// An empty folder on the disk that is measured.
pub fn folder(name: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}
