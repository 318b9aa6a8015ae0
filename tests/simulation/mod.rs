//! The whole control plane in one paused, single-threaded runtime: seeded histories, crashes, faults, invariants.
//!
//! A process is a runtime. It is killed by dropping the runtime with everything in it, at a point before or after
//! something it does to its store or its cloud; the next process opens what it left. A seed that fails prints the
//! line that replays it.

mod balancers;
mod clusters;
mod history;
mod images;
mod instances;
mod invariants;
mod machines;
mod storage;
mod volumes;

pub use invariants::quiet;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use regent::model::quota::QuotaKind;
use regent::sabotage::{self, Defect};
use regent::store::memory::Mode;

use crate::support::crash::{Arm, Table, Visits};
use crate::support::world::{Life, World};
use history::Ledger;

/// How many histories CI runs. Every crash point is aimed at several times.
const CI_SEEDS: u64 = 500;
/// Those in which instances and clusters join in. Fewer, and their points are not on the list: each takes twice as long.
const COMPUTE_SEEDS: std::ops::Range<u64> = 10_000..10_060;
const OPERATIONS: u64 = 110;
const CRASHES: u64 = 5;
const FAULTS_MIN: u64 = 5;

/// Room for the machines of one history and hardly more, so that the quota is felt.
const LIMITS: [(QuotaKind, u64); 4] =
    [(QuotaKind::Servers, 5), (QuotaKind::PublicIps, 2), (QuotaKind::Clusters, 2), (QuotaKind::Gpus, 2)];

/// How many crashes of a history aim at a point.
const AIMS: usize = 5;

/// A point that all histories together pass more rarely than this is not on the list: whether it is reached at all, or
/// a process dies there, is chance.
const PASSED_RARELY: u64 = 100;

/// A point that is passed once in a history, on the whole, must be on the list, and a process must have died there.
const PASSED_OFTEN: u64 = CI_SEEDS;

/// How many histories aim at one point that the others have missed. Most die there at the first or the second try.
const AIMED_TRIES_MAX: usize = 24;

/// Every point at which a process may die and that is not passed rarely, as a sorted list. Written by the test that
/// checks it.
const GOLDEN: &str = "tests/simulation/crash-points.txt";

/// What a history did, for the totals.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    trace: u64,
    operations: u64,
    crashes: u64,
    faults: u64,
    table: Table,
}

/// How one life ended.
enum End {
    Crashed,
    Finished,
}

/// Do instances and clusters join in? Told by the seed, so that it alone replays a history.
const fn has_compute(seed: u64) -> bool {
    seed >= COMPUTE_SEEDS.start
}

/// Runs the history of one seed to its end.
fn run(seed: u64, targets: &[&str]) -> Result<Summary, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mode = if seed.is_multiple_of(2) { Mode::Atomic } else { Mode::Saga };
    let mut world = World::new(seed, mode);
    if has_compute(seed) {
        world.limits = LIMITS.to_vec();
    }
    // In two histories of three, actors hear late of what was committed.
    world.options.dispatch_delay = std::time::Duration::from_millis(seed % 3 * 15);
    let mut ledger = Ledger::new();
    let mut crashes = 0;
    // When each crash is armed, counted in operations.
    let mut arms = (0..CRASHES).map(|_| random.u64(1..OPERATIONS)).collect::<Vec<_>>();
    arms.sort_unstable();
    for target in targets {
        // Some crashes of each history aim at points of their own, half of them at the first time they are passed; the
        // others happen anywhere.
        let countdown = if random.bool() { 1 } else { random.u64(1..4) };
        world.points.arm(Arm { name: Some((*target).to_owned()), countdown });
        if target.contains(":undo") {
            // Only a refusal leads there, so refusals are made frequent.
            world.networks_limit = 2;
        }
    }
    runtime().block_on(world.furnish());
    loop {
        let runtime = runtime();
        let end = runtime.block_on(async {
            let points = std::sync::Arc::clone(&world.points);
            let clock = std::sync::Arc::clone(&world.clock);
            let end = tokio::select! {
                biased;
                () = points.death() => Ok(End::Crashed),
                end = live(&mut world, &mut ledger, &mut random, &mut arms, targets) => end.map(|()| End::Finished),
            };
            clock.life_ends();
            end
        })?;
        drop(runtime);
        match end {
            End::Crashed => crashes += 1,
            End::Finished => break,
        }
    }
    let (trace, table) = (world.points.trace(), world.points.table());
    Ok(Summary { trace, operations: ledger.operations, crashes, faults: ledger.faults, table })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

/// One life: goes on with the history where the last one left it, then brings everything to rest and checks it.
async fn live(
    world: &mut World,
    ledger: &mut Ledger,
    random: &mut fastrand::Rng,
    arms: &mut Vec<u64>,
    targets: &[&str],
) -> Result<(), String> {
    let life = world.begin_life().await;
    if world.lives == 1 {
        for target in targets {
            history::lead_to(target, world, &life).await;
        }
    }
    while ledger.operations < OPERATIONS || ledger.faults < FAULTS_MIN {
        if arms.first().is_some_and(|at| *at <= ledger.operations) {
            arms.remove(0);
            world.points.arm(Arm { name: None, countdown: random.u64(1..60) });
        }
        let deed = history::draw(random, has_compute(world.seed));
        history::perform(deed, world, &life, ledger, random).await;
        invariants::always(world, &*life.store).await?;
        if ledger.operations.is_multiple_of(40) && random.bool() {
            rest(world, &life, ledger).await?;
        }
    }
    // What was armed and not reached happens now, wherever the process stands.
    if world.lives <= CRASHES {
        world.points.kill();
        std::future::pending::<()>().await;
    }
    world.points.disarm();
    rest(world, &life, ledger).await?;
    history::resume_all(&life, ledger).await;
    rest(world, &life, ledger).await?;
    invariants::a_second_pass_changes_nothing(world, &life).await?;
    dismantle(world, &life, ledger).await?;
    life.supervision.stop(std::time::Duration::from_secs(20)).await;
    Ok(())
}

async fn rest(world: &World, life: &Life, ledger: &mut Ledger) -> Result<(), String> {
    history::calm(world, life).await;
    invariants::quiet(life).await?;
    invariants::at_rest(world, life, ledger).await
}

/// Everything is deleted; nothing may be left anywhere.
async fn dismantle(world: &World, life: &Life, ledger: &mut Ledger) -> Result<(), String> {
    volumes::delete_all(life, ledger).await;
    rest(world, life, ledger).await?;
    clusters::delete_all(life, ledger).await;
    instances::delete_all(life, ledger).await;
    for id in ledger.machines.servers.keys().copied().collect::<Vec<_>>() {
        machines::delete_server(life, ledger, id).await;
    }
    for id in ledger.storage.known.keys().copied().collect::<Vec<_>>() {
        storage::delete(life, ledger, id).await;
    }
    rest(world, life, ledger).await?;
    for id in ledger.images.known.keys().copied().collect::<Vec<_>>() {
        images::delete_image(world, life, ledger, id).await;
    }
    for id in ledger.machines.authorities.keys().copied().collect::<Vec<_>>() {
        machines::delete_authority(life, ledger, id).await;
    }
    let ids = ledger.networks.keys().copied().collect::<Vec<_>>();
    for id in ids {
        let holders = {
            let known = &ledger.networks[&id];
            known.references.iter().chain(&known.doubtful).cloned().collect::<Vec<_>>()
        };
        for holder in holders {
            history::refer(life, ledger, id, &holder, false).await;
        }
        history::delete(life, ledger, id).await;
    }
    rest(world, life, ledger).await?;
    let left = (ledger.networks.len(), ledger.machines.groups.len(), ledger.machines.authorities.len());
    let others = (ledger.images.known.len(), ledger.storage.known.len());
    let machines_left = !ledger.instances.is_empty() || !ledger.clusters.is_empty();
    let are_gone = ledger.balancers.is_empty() && ledger.volumes.is_empty() && !machines_left;
    if left == (0, 0, 0) && others == (0, 0) && are_gone {
        Ok(())
    } else {
        let balancers = &ledger.balancers;
        Err(format!("networks, groups, authorities {left:?}, images, storages {others:?} or {balancers:?} are left"))
    }
}

/// Runs a seed and turns a panic of the harness into a failure with the line that replays it.
fn run_caught(seed: u64, targets: &[&str], defect: Option<Defect>) -> Result<Summary, String> {
    sabotage::set(defect);
    let result = catch_unwind(AssertUnwindSafe(|| run(seed, targets)));
    sabotage::set(None);
    let result = result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    });
    let aim = if targets.is_empty() { String::new() } else { format!(" REGENT_TARGET='{}'", targets.join(";")) };
    result.map_err(|text| format!("seed {seed}: {text}\nreplay: REGENT_SEED={seed}{aim} tests/run simulation::replay"))
}

fn golden() -> Vec<String> {
    std::fs::read_to_string(GOLDEN).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The points that a history aims at: in turn, from those that its kind of store can pass.
fn aims(targets: &[String], seed: u64) -> Vec<&str> {
    let sagas = !seed.is_multiple_of(2);
    let passable = |target: &&String| !target.starts_with("store:") || target.starts_with("store:saga:") == sagas;
    let targets = targets.iter().filter(passable).map(String::as_str).collect::<Vec<_>>();
    let first = usize::try_from(seed / 2).expect("small") * AIMS;
    (first..first + AIMS).filter_map(|at| targets.get(at % targets.len().max(1)).copied()).collect()
}

/// Runs seeds on all cores until one fails.
fn run_all(seeds: std::ops::Range<u64>, defect: Option<Defect>) -> Result<Vec<Summary>, String> {
    let targets = golden();
    let next = AtomicU64::new(seeds.start);
    let summaries = Mutex::new(Vec::new());
    let failure = Mutex::new(None::<String>);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while failure.lock().unwrap().is_none() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match run_caught(seed, &aims(&targets, seed), defect) {
                        Ok(summary) => summaries.lock().unwrap().push(summary),
                        Err(text) => *failure.lock().unwrap() = Some(text),
                    }
                }
            });
        }
    });
    match failure.into_inner().unwrap() {
        Some(text) => Err(text),
        None => Ok(summaries.into_inner().unwrap()),
    }
}

fn add(table: &mut Table, summary: &Summary) {
    for (name, visits) in &summary.table {
        let total = table.entry(name.clone()).or_default();
        total.passed += visits.passed;
        total.died += visits.died;
    }
}

/// There are more points than chance finds: those that are passed often, and nobody died at, get histories of their own.
fn aim_at_what_was_missed(table: &mut Table) -> Result<(), String> {
    let missed = table.iter().filter(|(_, visits)| visits.died == 0 && visits.passed >= PASSED_OFTEN);
    let missed = missed.map(|(name, _)| name.clone()).collect::<Vec<_>>();
    for name in missed {
        // The kind of store that passes it follows from the seed.
        let seeds = (CI_SEEDS..).filter(|seed| !aims(std::slice::from_ref(&name), *seed).is_empty());
        for seed in seeds.take(AIMED_TRIES_MAX) {
            add(table, &run_caught(seed, &[&name], None)?);
            if table[&name].died > 0 {
                break;
            }
        }
    }
    Ok(())
}

#[test]
fn histories_with_crashes_and_faults_end_with_everything_in_order() {
    let began = std::time::Instant::now();
    let summaries = run_all(0..CI_SEEDS, None).unwrap_or_else(|text| panic!("{text}"));
    let mut table: Table = BTreeMap::new();
    for summary in &summaries {
        assert!(summary.operations >= 100 && summary.crashes >= CRASHES && summary.faults >= FAULTS_MIN, "{summary:?}");
        add(&mut table, summary);
    }
    aim_at_what_was_missed(&mut table).unwrap_or_else(|text| panic!("{text}"));
    let (operations, crashes) = summaries.iter().fold((0, 0), |(o, c), s| (o + s.operations, c + s.crashes));
    println!("{} histories, {operations} operations, {crashes} crashes in {:?}", summaries.len(), began.elapsed());
    for (name, visits) in &table {
        println!("{:>9} passed {:>5} died  {name}", visits.passed, visits.died);
    }
    let often = table.iter().filter(|(_, visits)| visits.passed >= PASSED_RARELY).map(|(name, _)| name.clone());
    let often = often.collect::<Vec<_>>();
    if std::env::var_os("REGENT_BLESS").is_some() {
        std::fs::write(GOLDEN, often.join("\n") + "\n").expect("writes");
    }
    let golden = golden();
    let unknown = table.iter().filter(|(name, visits)| visits.passed >= PASSED_OFTEN && !golden.contains(name));
    let unknown = unknown.map(|(name, _)| name).collect::<Vec<_>>();
    let unreached = golden.iter().filter(|name| !table.contains_key(*name)).collect::<Vec<_>>();
    let bless = "run with REGENT_BLESS=1 and read the difference";
    assert!(unknown.is_empty() && unreached.is_empty(), "new: {unknown:#?}, gone: {unreached:#?}; {bless}");
    let never = table.iter().filter(|(_, visits)| visits.died == 0 && visits.passed >= PASSED_OFTEN);
    let never = never.map(|(name, _)| name).collect::<Vec<_>>();
    assert!(never.is_empty(), "no process died at these points: {never:#?}");
}

#[test]
fn histories_with_instances_and_clusters_end_with_everything_in_order() {
    let began = std::time::Instant::now();
    let summaries = run_all(COMPUTE_SEEDS, None).unwrap_or_else(|text| panic!("{text}"));
    let (operations, crashes) = summaries.iter().fold((0, 0), |(o, c), s| (o + s.operations, c + s.crashes));
    println!("{} histories, {operations} operations, {crashes} crashes in {:?}", summaries.len(), began.elapsed());
    let mut table: Table = BTreeMap::new();
    for summary in &summaries {
        add(&mut table, summary);
    }
    for batch in ["insert instance", "insert cluster", "intent server", "status instance", "status cluster"] {
        let died = table.iter().filter(|(name, _)| name.contains(batch)).map(|(_, visits)| visits.died).sum::<u64>();
        assert!(died > 0, "no process died at {batch}");
    }
}

#[test]
fn what_chance_has_missed_is_died_at_in_a_history_of_its_own() {
    let names = [
        "store:after:intent volume",
        "store:after:remove operation",
        "store:before:charge+refer network+insert file-storage",
    ];
    let missed = Visits { passed: PASSED_OFTEN, died: 0 };
    let mut table = names.iter().map(|name| ((*name).to_owned(), missed)).collect::<Table>();
    aim_at_what_was_missed(&mut table).unwrap_or_else(|text| panic!("{text}"));
    for name in names {
        assert!(table[name].died > 0, "{name}");
    }
}

#[test]
fn a_seed_replays_to_the_same_history() {
    for seed in [3, 4] {
        let (first, second) = (run_caught(seed, &[], None), run_caught(seed, &[], None));
        assert_eq!(first, second);
        assert!(first.is_ok(), "{first:?}");
    }
}

/// The harness is itself checked: each of these must make it fail.
mod the_harness_catches {
    use super::*;

    fn caught(defect: Defect) {
        match run_all(0..CI_SEEDS, Some(defect)) {
            Err(text) => println!("{defect:?} was caught: {}", text.lines().next().unwrap_or_default()),
            Ok(_) => panic!("{defect:?} went unnoticed in {CI_SEEDS} histories"),
        }
    }

    #[test]
    fn creating_on_any_lookup_error() {
        caught(Defect::CreateOnAnyLookupError);
    }

    #[test]
    fn releasing_references_early() {
        caught(Defect::ReleaseReferencesEarly);
    }

    #[test]
    fn releasing_quota_early() {
        caught(Defect::ReleaseQuotaEarly);
    }

    #[test]
    fn trusting_observations() {
        caught(Defect::TrustObservations);
    }

    #[test]
    fn losing_wakes_during_a_pass() {
        caught(Defect::LoseWakesDuringPass);
    }
}

/// Replays the seed in REGENT_SEED; without one it replays the first. REGENT_LOG shows what the actors say.
#[test]
fn replay() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let targets = std::env::var("REGENT_TARGET").unwrap_or_default();
    let targets = targets.split(';').filter(|target| !target.is_empty()).collect::<Vec<_>>();
    if let Ok(filter) = std::env::var("REGENT_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).init();
    }
    let summary = run_caught(number("REGENT_SEED").unwrap_or(0), &targets, None);
    summary.unwrap_or_else(|text| panic!("{text}"));
}
