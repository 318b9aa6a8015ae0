//! The process dies: what was acknowledged is there, and every batch is whole or absent.
//!
//! Two ways of dying. A child process is killed with SIGKILL while it writes, again and again on the same folder.
//! And the write-ahead log is cut at every page and within pages, as a power cut may leave it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use futures_util::future::join_all;

use super::open;
use crate::model::edge::Holder;
use crate::store::conformance::rig::{Folder, Snapshot, charge, claim, identity, insert, insert_owned, limit, network};
use crate::store::conformance::rig::{organization, refer};
use crate::store::{Batch, Store};

const CHILD_FOLDER: &str = "REGENT_TEST_CRASH_FOLDER";
const CHILD_FIRST: &str = "REGENT_TEST_CRASH_FIRST";
const THIS_TEST: &str = "store::embedded::tests::crash::every_acknowledged_batch_survives_a_kill";

/// Rounds of writing and killing. More find nothing new in a test run; a campaign raises the count.
const KILLS: u64 = 5;
const WRITERS: u128 = 16;
/// Above what a child commits before it is killed, so that rounds never share a number.
const NUMBERS_PER_ROUND: u128 = 1_000_000;

/// A batch that touches every table.
fn numbered(number: u128) -> Batch {
    Batch::of(vec![
        limit(u64::MAX),
        insert(identity(number)),
        insert_owned(network(number), identity(number)),
        refer(identity(number), network(number)),
        charge(network(number), 1),
        claim(network(number), &[(1, u16::MAX)]),
    ])
}

#[test]
fn every_acknowledged_batch_survives_a_kill() {
    if let Some(folder) = std::env::var_os(CHILD_FOLDER) {
        let first = std::env::var(CHILD_FIRST).expect("set with the folder").parse().expect("a number");
        return write_until_killed(Path::new(&folder), first);
    }
    let folder = Folder::new();
    let mut random = fastrand::Rng::with_seed(u64::from(std::process::id()));
    let mut acknowledged = BTreeSet::new();
    for round in 0..KILLS {
        let first = 1 + u128::from(round) * NUMBERS_PER_ROUND;
        let kill_after = random.usize(1..200);
        let before = acknowledged.len();
        run_and_kill(folder.path(), first, kill_after, &mut acknowledged);
        assert!(acknowledged.len() - before >= kill_after, "the child wrote before it was killed");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(check(folder.path(), &acknowledged));
    }
}

fn run_and_kill(folder: &Path, first: u128, kill_after: usize, acknowledged: &mut BTreeSet<u128>) {
    let mut child = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["--exact", THIS_TEST, "--nocapture"])
        .env(CHILD_FOLDER, folder)
        .env(CHILD_FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the child starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut seen = 0;
    for line in output.lines() {
        let line = line.expect("text");
        let Some((_, number)) = line.rsplit_once("acknowledged ") else { continue };
        acknowledged.insert(number.parse().expect("a whole line: it was written at once"));
        seen += 1;
        if seen == kill_after {
            // It goes on writing until the signal arrives; what it said meanwhile is still in the pipe and counts.
            child.kill().expect("SIGKILL");
        }
    }
    let status = child.wait().expect("reaped");
    assert!(!status.success(), "the child ended by itself: {status}");
}

fn write_until_killed(folder: &Path, first: u128) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let store = open(folder);
    let writer = async |offset: u128| {
        for number in (first + offset..first + NUMBERS_PER_ROUND / 100).step_by(WRITERS as usize) {
            store.commit(numbered(number)).await.expect("accepted");
            let line = format!("acknowledged {number}\n");
            std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent reads");
        }
    };
    runtime.block_on(join_all((0..WRITERS).map(writer)));
}

async fn check(folder: &Path, acknowledged: &BTreeSet<u128>) {
    let store = open(folder);
    let whole = check_whole(&store).await;
    let lost = acknowledged.difference(&whole).collect::<Vec<_>>();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}

/// Every batch is whole or absent, in every table; which are there?
async fn check_whole(store: &dyn Store) -> BTreeSet<u128> {
    let mut networks = BTreeSet::new();
    let mut page = crate::store::Page::FIRST;
    loop {
        let filter = crate::store::Filter::of(crate::model::ids::Kind::Network);
        let records = store.list(&filter, page).await.expect("readable");
        let Some(last) = records.last() else { break };
        page = crate::store::Page::after(last.key.id);
        networks.extend(records.iter().map(|record| record.key.id.as_u128()));
    }
    for &number in &networks {
        let key = identity(number);
        assert!(store.get(key).await.expect("readable").is_some(), "{key}");
        assert_eq!(store.children(key).await.expect("readable"), [network(number)]);
        assert_eq!(store.references(key).await.expect("readable"), [Holder::Resource(network(number))]);
    }
    let charged = store.allocations().await.expect("readable").iter().map(|one| one.holder.id.as_u128()).collect();
    let claimed = store.claims().await.expect("readable").iter().map(|one| one.holder.id.as_u128()).collect();
    assert_eq!((&networks, &networks), (&charged, &claimed));
    let usage = store.usage(organization(1)).await.expect("readable");
    assert_eq!(usage[0].used.total(), networks.len() as u64);
    // Two records and one reference each.
    assert_eq!(store.latest().borrow().0, 3 * networks.len() as u64);
    networks
}

#[tokio::test]
async fn a_write_ahead_log_cut_anywhere_opens_to_whole_batches() {
    const BATCHES: u128 = 4;
    let folder = Folder::new();
    let store = open(folder.path());
    for number in 1..=BATCHES {
        store.commit(numbered(number)).await.expect("accepted");
    }
    let file = |name: &str| std::fs::read(folder.path().join(name)).expect("readable while the store is idle");
    let (database, log) = (file("regent.db"), file("regent.db-wal"));
    drop(store);

    let header = 32;
    let frame = 24 + 4 * 1024;
    let mut seen = BTreeSet::new();
    for end in (header..=log.len()).step_by(frame).flat_map(|end| [end, end + frame / 2]) {
        let cut = Folder::new();
        std::fs::write(cut.path().join("regent.db"), &database).expect("written");
        std::fs::write(cut.path().join("regent.db-wal"), &log[..end.min(log.len())]).expect("written");
        let store = open(cut.path());
        let whole = check_whole(&store).await;
        let count = whole.len() as u128;
        assert_eq!(whole, (1..=count).collect(), "a prefix of the batches");
        seen.insert(count);
        store.commit(numbered(100)).await.expect("and it goes on");
        assert_eq!(Snapshot::of(&store).await.claims.len() as u128, count + 1);
    }
    assert_eq!(seen, (0..=BATCHES).collect(), "every commit was cut before and after");
}
