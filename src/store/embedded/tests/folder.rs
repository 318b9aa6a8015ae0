//! Opening a folder: locked, old, new, foreign.

use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;

use super::open;
use crate::model::ids::Kind;
use crate::model::quota::Amount;
use crate::store::conformance::rig::{Folder, ManualClock, insert, network, organization, record, status};
use crate::store::embedded::schema::{APPLICATION_ID, DATABASE_FILE, MIGRATIONS};
use crate::store::embedded::{EmbeddedStore, OpenError};
use crate::store::{Batch, Filter, Page, Position, Store};

fn refused(folder: &Folder) -> OpenError {
    match EmbeddedStore::open(folder.path(), ManualClock::new().ambient()) {
        Ok(_) => panic!("the folder must not open"),
        Err(error) => error,
    }
}

#[test]
fn a_folder_in_use_is_refused_and_free_again_when_its_store_is_gone() {
    let folder = Folder::new();
    let first = open(folder.path());
    let error = refused(&folder);
    assert!(matches!(error, OpenError::Locked(_)));
    let text = error.to_string();
    assert!(text.contains(&folder.path().display().to_string()) && text.contains("stop it first"), "{text}");
    drop(first);
    open(folder.path());
}

#[test]
fn a_folder_of_a_newer_release_is_refused_and_left_alone() {
    let folder = Folder::new();
    drop(open(folder.path()));
    let database = Connection::open(folder.path().join(DATABASE_FILE)).expect("opens");
    database.pragma_update(None, "user_version", 99).expect("written");
    drop(database);
    let before = std::fs::read(folder.path().join(DATABASE_FILE)).expect("readable");
    let error = refused(&folder);
    assert!(matches!(error, OpenError::Newer { found: 99, .. }));
    assert!(error.to_string().contains("newer version"), "{error}");
    assert_eq!(std::fs::read(folder.path().join(DATABASE_FILE)).expect("readable"), before);
}

#[test]
fn records_of_a_newer_writer_are_refused_though_the_tables_are_known() {
    let folder = Folder::new();
    drop(open(folder.path()));
    let database = Connection::open(folder.path().join(DATABASE_FILE)).expect("opens");
    database.execute("UPDATE setting SET value = 1000 WHERE name = 'writer_version'", []).expect("written");
    drop(database);
    assert!(matches!(refused(&folder), OpenError::Newer { found: 1000, .. }));
}

#[test]
fn a_database_of_another_program_is_refused() {
    let folder = Folder::new();
    let database = Connection::open(folder.path().join(DATABASE_FILE)).expect("opens");
    database.execute_batch("CREATE TABLE recipes (name TEXT); PRAGMA user_version = 1;").expect("written");
    drop(database);
    assert!(matches!(refused(&folder), OpenError::Foreign(_)));
}

#[tokio::test]
async fn a_folder_of_version_1_is_migrated_and_works() {
    let folder = Folder::new();
    let database = Connection::open(folder.path().join(DATABASE_FILE)).expect("opens");
    database.execute_batch(MIGRATIONS[0]).expect("the first release's tables");
    database.pragma_update(None, "application_id", APPLICATION_ID).expect("written");
    database.pragma_update(None, "user_version", 1).expect("written");
    let metadata = serde_json::to_string(&record(network(1)).metadata).expect("json");
    let sql = "INSERT INTO record (kind, id, name, deleting, revision, status_revision, writer_version, metadata, spec,
        conditions, detail) VALUES ('network', ?1, 'old', 0, 4, 2, 1, ?2, '{}', '{}', '{}')";
    database.execute(sql, rusqlite::params![network(1).id.as_bytes(), metadata]).expect("inserted");
    let sql = "INSERT INTO usage (organization, quota, used, ceiling) VALUES (?1, 'networks', 3, 9)";
    database.execute(sql, [organization(1).0.as_bytes()]).expect("inserted");
    drop(database);

    let store = open(folder.path());
    let usage = store.usage(organization(1)).await.expect("readable");
    assert_eq!((usage[0].used, usage[0].limit), (Amount::of(3), 9), "what was charged then was committed");
    let old = store.get(network(1)).await.expect("readable").expect("kept");
    assert_eq!((old.revision.0, old.status_revision.0), (4, 2));
    let committed = store.commit(Batch::of(vec![status(network(1), "made"), insert(network(2))])).await;
    assert_eq!(committed.expect("accepted").position, Position(2));
    assert_eq!(store.history(network(1)).await.expect("readable").len(), 1);
    assert_eq!(store.list(&Filter::of(Kind::Network), Page::FIRST).await.expect("readable").len(), 2);
}

#[test]
fn an_empty_file_is_a_new_database() {
    let folder = Folder::new();
    std::fs::write(folder.path().join(DATABASE_FILE), b"").expect("written");
    drop(open(folder.path()));
    let database = Connection::open(folder.path().join(DATABASE_FILE)).expect("opens");
    let pragma = |name| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).expect("readable");
    assert_eq!(pragma("user_version"), i64::try_from(MIGRATIONS.len()).expect("few"));
    assert_eq!(pragma("page_size"), 4 * 1024);
}

#[tokio::test]
async fn the_writer_syncs_a_write_ahead_log_at_every_commit() {
    let folder = Folder::new();
    let store = open(folder.path());
    store
        .meddle(|connection| {
            let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).expect("readable");
            let level: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).expect("readable");
            // 2 is FULL.
            assert_eq!((mode.as_str(), level), ("wal", 2));
        })
        .await;
}

#[tokio::test]
async fn a_store_that_was_closed_has_everything_in_its_one_file() {
    let folder = Folder::new();
    let store = open(folder.path());
    store.commit(Batch::of(vec![insert(network(1))])).await.expect("commits");
    // A reader is open beside the writer, as in a process that served requests.
    store.get(network(1)).await.expect("reads").expect("stored");
    drop(store);
    let alone = Folder::new();
    std::fs::copy(folder.path().join(DATABASE_FILE), alone.path().join(DATABASE_FILE)).expect("copies");
    assert!(open(alone.path()).get(network(1)).await.expect("reads").is_some());
}

#[test]
fn what_is_in_a_folder_is_its_owners_alone_whoever_made_it() {
    let folder = Folder::new();
    let modes = || {
        let entries = std::fs::read_dir(folder.path()).expect("readable").map(|entry| entry.expect("an entry").path());
        let database = entries.filter(|path| path.to_string_lossy().contains(DATABASE_FILE));
        let mode = |path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        database.map(mode).collect::<Vec<_>>()
    };
    let store = open(folder.path());
    assert_eq!(modes(), [0o600; 3], "the database, its log and the log's index");
    drop(store);
    let database = folder.path().join(DATABASE_FILE);
    std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o644)).expect("set");
    let _store = open(folder.path());
    assert_eq!(modes(), [0o600; 3]);
}
