//! Copies of the database, made while it is in use, and the way back.
//!
//! A copy is taken in one step from one snapshot: steps in between would begin anew with every write of the server
//! and never end on a busy one. In WAL mode the snapshot stops nobody. A copy gets its name only once it is whole and
//! synced, so that a file with the right name is a good backup.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::schema::{self, DATABASE_FILE, OpenError, PRIVATE_FILE};

/// Why a copy was not made.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is no database in {}", .0.display())]
    NoDatabase(PathBuf),
    #[error("{} exists already; choose another name", .0.display())]
    Exists(PathBuf),
    #[error("the folder {} is not empty; restore into a new one", .0.display())]
    NotEmpty(PathBuf),
    #[error(transparent)]
    Unusable(#[from] OpenError),
    #[error("{} is damaged: {report}", .path.display())]
    Damaged { path: PathBuf, report: String },
    #[error("the copy to {} failed", .path.display())]
    Copy { path: PathBuf, source: rusqlite::Error },
    #[error("the file {} cannot be written", .path.display())]
    File { path: PathBuf, source: std::io::Error },
}

/// Copies the database of a folder into one file, whether or not a server is using it. Blocks.
pub fn backup_folder(directory: &Path, to: &Path) -> Result<(), BackupError> {
    let from = directory.join(DATABASE_FILE);
    if !from.is_file() {
        return Err(BackupError::NoDatabase(directory.to_owned()));
    }
    if to.exists() {
        return Err(BackupError::Exists(to.to_owned()));
    }
    copy(&from, to)
}

/// Makes a data folder from a backup. The folder must be new or empty. Blocks.
pub fn restore(from: &Path, directory: &Path) -> Result<(), BackupError> {
    let file = |source| BackupError::File { path: directory.to_owned(), source };
    if !from.is_file() {
        return Err(BackupError::NoDatabase(from.to_owned()));
    }
    std::fs::create_dir_all(directory).map_err(file)?;
    if std::fs::read_dir(directory).map_err(file)?.next().is_some() {
        return Err(BackupError::NotEmpty(directory.to_owned()));
    }
    copy(from, &directory.join(DATABASE_FILE))
}

fn copy(from: &Path, to: &Path) -> Result<(), BackupError> {
    let partial = to.with_added_extension("partial");
    let file = |source| BackupError::File { path: to.to_owned(), source };
    // What an interrupted copy has left has no value.
    match std::fs::remove_file(&partial) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(file(cause)),
        Ok(()) | Err(_) => {}
    }
    let copied = copy_database(from, &partial);
    if copied.is_err() {
        // The error that stopped the copy is the one to report.
        let _ = std::fs::remove_file(&partial);
    }
    copied?;
    File::open(&partial).and_then(|partial| partial.sync_all()).map_err(file)?;
    std::fs::rename(&partial, to).map_err(file)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(file)
}

fn copy_database(from: &Path, to: &Path) -> Result<(), BackupError> {
    let failed = |source| BackupError::Copy { path: to.to_owned(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(from, flags).map_err(failed)?;
    check_is_ours(&source, from)?;
    // It holds hashes of tokens and sealed secrets: its owner's alone, wherever it is put.
    let private = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(to);
    private.map_err(|source| BackupError::File { path: to.to_owned(), source })?;
    let mut target = Connection::open(to).map_err(failed)?;
    let step = Backup::new(&source, &mut target).and_then(|backup| backup.step(-1)).map_err(failed)?;
    if step != StepResult::Done {
        let report = "another process is holding the database exclusively".to_owned();
        return Err(BackupError::Damaged { path: from.to_owned(), report });
    }
    // One file without companions: it can be copied, and opened where nothing may be written.
    target.pragma_update(None, "journal_mode", "delete").map_err(failed)?;
    let report: String = target.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if report != "ok" {
        return Err(BackupError::Damaged { path: from.to_owned(), report });
    }
    Ok(())
}

fn check_is_ours(source: &Connection, from: &Path) -> Result<(), BackupError> {
    let version = schema::format_version(source, from).map_err(|error| match error {
        // Not a database at all reads as one that is damaged; to the operator it is simply not ours.
        OpenError::Database { source: rusqlite::Error::SqliteFailure(code, _), .. }
            if code.code == rusqlite::ErrorCode::NotADatabase =>
        {
            OpenError::Foreign(from.to_owned())
        }
        other => other,
    })?;
    if version == 0 {
        return Err(OpenError::Foreign(from.to_owned()).into());
    }
    Ok(())
}
