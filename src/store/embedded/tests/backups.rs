//! Copies made while writes go on, and the way back.

use std::path::PathBuf;

use super::open;
use crate::store::conformance::rig::{Folder, Snapshot, charge, insert, insert_owned, limit, network, refer};
use crate::store::embedded::{BackupError, OpenError, backup_folder, restore};
use crate::store::{Batch, Store};

fn pair(number: u128) -> Batch {
    let (parent, child) = (network(2 * number), network(2 * number + 1));
    let writes = vec![limit(u64::MAX), insert(parent), insert_owned(child, parent), refer(parent, child)];
    Batch { writes, ..Batch::default() }
}

#[tokio::test]
async fn a_restored_backup_holds_what_the_original_held() {
    let (folder, target) = (Folder::new(), Folder::new());
    let store = open(folder.path());
    for number in 1..=20 {
        store.commit(pair(number)).await.expect("accepted");
    }
    store.commit(Batch::of(vec![charge(network(2), 3)])).await.expect("accepted");
    let before = Snapshot::of(&store).await;
    let file = target.path().join("copy.db");
    store.backup(&file).await.expect("copied");
    store.commit(pair(99)).await.expect("accepted after the copy");

    let restored = target.path().join("restored");
    restore(&file, &restored).expect("restored");
    let names = |folder: &std::path::Path| {
        let entries = std::fs::read_dir(folder).expect("readable");
        entries.map(|entry| entry.expect("readable").file_name()).collect::<Vec<_>>()
    };
    assert_eq!(names(&restored), ["regent.db"], "nothing else is copied");
    let copy = open(&restored);
    assert_eq!(Snapshot::of(&copy).await, before);
    assert_eq!(*copy.latest().borrow(), crate::store::Position(60));
    copy.commit(pair(50)).await.expect("the copy is a working store");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_taken_during_writes_holds_whole_batches_only() {
    let (folder, target) = (Folder::new(), Folder::new());
    let store = open(folder.path());
    let file = target.path().join("copy.db");
    let write = async {
        for number in 1..=150 {
            store.commit(pair(number)).await.expect("writes go on");
        }
    };
    // As `regent backup` does it: by the folder, without the lock that the store holds.
    let directory = folder.path().to_owned();
    let copies = (0..5).map(|number| target.path().join(format!("copy-{number}.db"))).collect::<Vec<PathBuf>>();
    let copy = {
        let copies = copies.clone();
        tokio::task::spawn_blocking(move || {
            for copy in &copies {
                backup_folder(&directory, copy).expect("copied");
            }
        })
    };
    let ((), ended) = tokio::join!(write, copy);
    ended.expect("every copy was made");
    store.backup(&file).await.expect("copied");
    for (number, copy) in copies.iter().chain([&file]).enumerate() {
        let restored = target.path().join(format!("restored-{number}"));
        restore(copy, &restored).expect("restored");
        let snapshot = Snapshot::of(&open(&restored)).await;
        let parents = snapshot.records.values().filter(|record| record.metadata.owner.is_none()).count();
        assert_eq!(snapshot.records.len(), 2 * parents, "copy {number}");
        assert_eq!(snapshot.references.values().map(Vec::len).sum::<usize>(), parents, "copy {number}");
    }
}

#[test]
fn a_backup_overwrites_nothing_and_a_restore_wants_an_empty_folder() {
    let (folder, target) = (Folder::new(), Folder::new());
    drop(open(folder.path()));
    let file = target.path().join("copy.db");
    backup_folder(folder.path(), &file).expect("copied");
    assert!(matches!(backup_folder(folder.path(), &file), Err(BackupError::Exists(_))));
    assert!(matches!(backup_folder(target.path(), &target.path().join("x")), Err(BackupError::NoDatabase(_))));
    assert!(matches!(restore(&file, folder.path()), Err(BackupError::NotEmpty(_))));
    assert!(matches!(
        restore(&target.path().join("absent"), &target.path().join("new")),
        Err(BackupError::NoDatabase(_))
    ));
}

#[test]
fn what_is_no_backup_of_ours_or_too_new_is_not_restored() {
    let target = Folder::new();
    let restored = |name: &str| restore(&target.path().join(name), &target.path().join(format!("{name}-restored")));
    std::fs::write(target.path().join("text"), "not a database, but long enough to look at ".repeat(50))
        .expect("written");
    assert!(matches!(restored("text"), Err(BackupError::Unusable(OpenError::Foreign(_)))));
    std::fs::write(target.path().join("empty"), "").expect("written");
    assert!(matches!(restored("empty"), Err(BackupError::Unusable(OpenError::Foreign(_)))));

    let foreign = rusqlite::Connection::open(target.path().join("foreign")).expect("opens");
    foreign.execute_batch("CREATE TABLE recipes (name TEXT)").expect("made");
    assert!(matches!(restored("foreign"), Err(BackupError::Unusable(OpenError::Foreign(_)))));

    let folder = Folder::new();
    drop(open(folder.path()));
    let newer = target.path().join("newer");
    backup_folder(folder.path(), &newer).expect("copied");
    rusqlite::Connection::open(&newer).expect("opens").pragma_update(None, "user_version", 99).expect("written");
    assert!(matches!(restored("newer"), Err(BackupError::Unusable(OpenError::Newer { found: 99, .. }))));
    let left = std::fs::read_dir(target.path().join("newer-restored")).expect("readable").count();
    assert_eq!(left, 0, "a refused restore leaves nothing behind");
}
