//! The tables, and how a folder of an earlier release becomes one of this release.
//!
//! Migrations are an ordered list that only ever grows: what was released is never edited. `PRAGMA user_version`
//! says how many of them a database has been through. A database that has been through more than we know is refused
//! untouched.
//!
//! Choices that are for speed: `record` is a rowid table, so that the bulky JSON is appended and only slim index
//! entries land in random places; the slim tables are `WITHOUT ROWID`; an index covers only rows that have the
//! column; each ends with the id, so that a page of a list is read in order without sorting. Every index costs each
//! insert a page in a random place, so there is none by region (a region holds a large part of everything: reading
//! in order of id and passing over the others is as good) and none by name (names are looked for within an
//! organization or a project, whose index leads to few records). The two would have cost a quarter of an insert.

use std::fs::{OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::model::WRITER_VERSION;

pub(super) const PRIVATE_FILE: u32 = 0o600;

/// The database's name in its folder.
pub(super) const DATABASE_FILE: &str = "regent.db";

/// "RGNT": tells our databases from anybody else's.
pub(super) const APPLICATION_ID: i32 = 0x5247_4e54;

/// Every statement that this store prepares, with room for list statements of many shapes. Smaller would parse the
/// hot ones again and again; larger only holds memory.
const STATEMENTS_CACHED_MAX: usize = 256;

/// How many pages the log may hold before they are copied into the database: 64 MiB. Sooner would copy a page again
/// that the next group changes; later would make the copy a pause that writers feel, and a start after a crash slow.
const CHECKPOINT_PAGES: i64 = 16_384;

/// How long a connection waits for another one's lock. Only a checkpoint or the first open can hold one, both in
/// milliseconds; longer would hide a foreign writer.
const LOCK_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

pub(super) const MIGRATIONS: [&str; 4] = [WHAT_IS, WHAT_WAS, WHAT_MAY_COME, WHAT_WAS_ANSWERED];

/// Version 1: the state.
const WHAT_IS: &str = "
CREATE TABLE record (
    row INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    id BLOB NOT NULL,
    organization BLOB,
    project BLOB,
    region BLOB,
    identity BLOB,
    network BLOB,
    owner_kind TEXT,
    owner_id BLOB,
    name TEXT NOT NULL,
    deleting INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    status_revision INTEGER NOT NULL,
    writer_version INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    spec TEXT NOT NULL,
    conditions TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX record_by_key ON record (kind, id);
CREATE INDEX record_by_organization ON record (kind, organization, id) WHERE organization IS NOT NULL;
CREATE INDEX record_by_project ON record (kind, project, id) WHERE project IS NOT NULL;
CREATE INDEX record_by_identity ON record (kind, identity, id) WHERE identity IS NOT NULL;
CREATE INDEX record_by_network ON record (kind, network, id) WHERE network IS NOT NULL;
CREATE INDEX record_by_owner ON record (owner_id, owner_kind, kind, id) WHERE owner_id IS NOT NULL;
CREATE TABLE reference (
    target_kind TEXT NOT NULL,
    target_id BLOB NOT NULL,
    holder TEXT NOT NULL,
    PRIMARY KEY (target_kind, target_id, holder)
) STRICT, WITHOUT ROWID;
CREATE INDEX reference_by_holder ON reference (holder);
CREATE TABLE charge (
    holder_kind TEXT NOT NULL,
    holder_id BLOB NOT NULL,
    quota TEXT NOT NULL,
    organization BLOB NOT NULL,
    project BLOB,
    incarnation BLOB NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (holder_kind, holder_id, quota)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage (
    organization BLOB NOT NULL,
    quota TEXT NOT NULL,
    used INTEGER NOT NULL,
    ceiling INTEGER,
    PRIMARY KEY (organization, quota)
) STRICT, WITHOUT ROWID;
CREATE TABLE claim (
    pool TEXT NOT NULL,
    number INTEGER NOT NULL,
    holder_kind TEXT NOT NULL,
    holder_id BLOB NOT NULL,
    PRIMARY KEY (pool, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX claim_by_holder ON claim (holder_id, holder_kind);
CREATE TABLE setting (
    name TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Version 2: the past.
const WHAT_WAS: &str = "
CREATE TABLE change (
    position INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    id BLOB NOT NULL,
    event INTEGER NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE history (
    row INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    id BLOB NOT NULL,
    transition TEXT NOT NULL
) STRICT;
CREATE INDEX history_by_key ON history (kind, id);
CREATE TABLE departed (
    kind TEXT NOT NULL,
    id BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX departed_by_time ON departed (at_ms);
";

/// Version 3: the ledger tells what is committed (the columns that were there) from what is reserved.
const WHAT_MAY_COME: &str = "
ALTER TABLE charge ADD COLUMN reserved INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN reserved INTEGER NOT NULL DEFAULT 0;
";

/// Version 4: answers that are kept, and where a removed resource was.
const WHAT_WAS_ANSWERED: &str = "
CREATE TABLE remembered (
    request BLOB NOT NULL PRIMARY KEY,
    organization BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    content BLOB NOT NULL,
    answer TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX remembered_by_organization ON remembered (organization, at_ms);
CREATE INDEX remembered_by_time ON remembered (at_ms);
ALTER TABLE change ADD COLUMN former TEXT;
";

/// Why a folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "another process is using the data folder {}; stop it first, or choose another folder with --data-dir",
        .0.display()
    )]
    Locked(PathBuf),
    #[error(
        "the data folder {} was written by a newer version (format {found}; this program knows {known}); \
         run that version, or restore a backup made with this one",
        .directory.display()
    )]
    Newer { directory: PathBuf, found: u32, known: u32 },
    #[error("{} is not a database of this program", .0.display())]
    Foreign(PathBuf),
    #[error("the data folder {} cannot be used", .directory.display())]
    Folder { directory: PathBuf, source: std::io::Error },
    #[error("the database in {} cannot be used", .directory.display())]
    Database { directory: PathBuf, source: rusqlite::Error },
}

/// The connection that writes. Creates the database, or brings it up to date.
pub(super) fn open_writer(directory: &Path) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::Database { directory: directory.to_owned(), source };
    keep_private(directory).map_err(|source| OpenError::Folder { directory: directory.to_owned(), source })?;
    let mut connection = Connection::open(directory.join(DATABASE_FILE)).map_err(failed)?;
    let version = format_version(&connection, directory)?;
    prepare_writer(&connection).map_err(failed)?;
    migrate(&mut connection, version).map_err(failed)?;
    refuse_newer_records(&connection, directory)?;
    Ok(connection)
}

/// It holds hashes of tokens and sealed secrets: its owner's alone. SQLite gives the files beside the database the
/// database's own mode; those that an earlier version left may have another.
fn keep_private(directory: &Path) -> std::io::Result<()> {
    let database = directory.join(DATABASE_FILE);
    OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE_FILE).open(&database)?;
    for suffix in ["", "-wal", "-shm"] {
        let mut path = database.clone().into_os_string();
        path.push(suffix);
        match std::fs::set_permissions(path, Permissions::from_mode(PRIVATE_FILE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// A connection that only reads.
pub(super) fn open_reader(directory: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(directory.join(DATABASE_FILE), flags)?;
    connection.busy_timeout(LOCK_WAIT)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
    Ok(connection)
}

fn prepare_writer(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(LOCK_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
    // Takes effect only while the file is empty. A commit touches a dozen pages in random places and writes each of
    // them whole into the log: larger pages make lists faster, but every write, and the copying of the log, slower.
    connection.pragma_update(None, "page_size", 4 * 1024)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // An acknowledged commit survives a power cut: the log is synced before the answer.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "temp_store", "memory")?;
    // Negative: kibibytes. Holds the indexes of some hundred thousand records.
    connection.pragma_update(None, "cache_size", -64 * 1024)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    // A log that a long read has let grow is cut back at the next checkpoint.
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    Ok(())
}

/// How many migrations the database has been through. Refuses what is not ours or is from the future.
pub(super) fn format_version(connection: &Connection, directory: &Path) -> Result<u32, OpenError> {
    let failed = |source| OpenError::Database { directory: directory.to_owned(), source };
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if tables > 0 && application != APPLICATION_ID {
        return Err(OpenError::Foreign(directory.join(DATABASE_FILE)));
    }
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    if version > known {
        return Err(OpenError::Newer { directory: directory.to_owned(), found: version, known });
    }
    Ok(version)
}

fn migrate(connection: &mut Connection, version: u32) -> Result<(), rusqlite::Error> {
    for (done, migration) in (0_u32..).zip(MIGRATIONS).skip(version as usize) {
        // One transaction per migration: a crash leaves a version that the next start goes on from.
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", done + 1)?;
        transaction.commit()?;
    }
    Ok(())
}

/// The tables may be as we know them and the JSON inside them newer.
fn refuse_newer_records(connection: &Connection, directory: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Database { directory: directory.to_owned(), source };
    let sql = "INSERT INTO setting (name, value) VALUES ('writer_version', ?1)
        ON CONFLICT DO UPDATE SET value = max(value, excluded.value) RETURNING value";
    let found: u32 = connection.query_row(sql, [WRITER_VERSION], |row| row.get(0)).map_err(failed)?;
    if found > WRITER_VERSION {
        return Err(OpenError::Newer { directory: directory.to_owned(), found, known: WRITER_VERSION });
    }
    Ok(())
}
