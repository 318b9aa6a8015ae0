//! The change log and the histories on disk, and how they stay bounded.
//!
//! Old entries are removed in the transaction of the group that adds new ones, so that trimming costs no sync of its
//! own; each group removes at most twice what it adds, so that a log which is too long shrinks while the pause stays
//! in proportion. The newest entry is never removed: it remembers the position over a restart.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::model::ids::Key;
use crate::store::remembered::horizon;
use crate::store::rules::Event;
use crate::store::{CHANGE_LOG_MAX, Change, ChangeEvent, Changes, Former, Position, RETENTION};

use super::apply::json;
use super::rows::{self, SqlRows};

/// How much one group may remove beyond twice what it added: a store that writes little still forgets in time.
const TRIM_BASE: u64 = 64;

const PUT: i64 = 0;
const REFERENCED: i64 = 1;
const REMOVED: i64 = 2;

/// The newest position, or the beginning.
pub(super) fn latest(connection: &Connection) -> Result<Position, rusqlite::Error> {
    let sql = "SELECT coalesce(max(position), 0) FROM change";
    let position: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(Position(position.cast_unsigned()))
}

/// Writes one entry and gives what the ring will hold of it.
pub(super) fn append(
    connection: &Connection,
    position: Position,
    event: &Event,
    now: Timestamp,
) -> Result<Change, rusqlite::Error> {
    let key = event.key();
    let (code, former) = match event {
        Event::Put(_) => (PUT, None),
        Event::Referenced(_) => (REFERENCED, None),
        // Of anything else the record says where it is.
        Event::Removed(_, former) => (REMOVED, Some(json(former)?)),
    };
    let sql = "INSERT INTO change (position, kind, id, event, at_ms, former) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let at = now.as_millisecond();
    let parameters = params![position.0.cast_signed(), key.kind.word(), key.id.as_bytes(), code, at, former];
    connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(Change { position, key, event: event.told() })
}

/// Reads what the ring no longer holds.
pub(super) fn read(connection: &Connection, after: Position, limit: usize) -> Result<Changes, rusqlite::Error> {
    // One snapshot, so that entries and records belong together.
    let snapshot = connection.unchecked_transaction()?;
    let oldest: Option<i64> = snapshot.query_row("SELECT min(position) FROM change", [], |row| row.get(0))?;
    if oldest.is_none_or(|oldest| after.0 + 1 < oldest.cast_unsigned()) {
        return Ok(Changes::Resync(latest(&snapshot)?));
    }
    let sql = "SELECT position, kind, id, event, former FROM change WHERE position > ?1 ORDER BY position LIMIT ?2";
    let mut statement = snapshot.prepare_cached(sql)?;
    let mut entries = statement.query(params![after.0.cast_signed(), limit.cast_signed()])?;
    let mut changes = Vec::new();
    while let Some(entry) = entries.next()? {
        let position = Position(entry.get::<_, i64>(0)?.cast_unsigned());
        let key = rows::key(entry, 1, 2)?;
        let event = match entry.get::<_, i64>(3)? {
            PUT => put(&snapshot, key)?,
            REFERENCED => ChangeEvent::Referenced,
            _ => ChangeEvent::Removed(former(entry.get_ref(4)?.as_str_or_null()?)),
        };
        changes.push(Change { position, key, event });
    }
    Ok(Changes::Next(changes))
}

fn put(connection: &Connection, key: Key) -> Result<ChangeEvent, rusqlite::Error> {
    Ok(match SqlRows(connection).find(key)? {
        Some(Ok(record)) => ChangeEvent::Put(record),
        // The reader is told that there is something to look at, and finds out by looking.
        Some(Err(_)) => ChangeEvent::Referenced,
        // Removed since; the entry that says so follows, and saying it twice does no harm.
        None => ChangeEvent::Removed(Former::default()),
    })
}

/// Where something was. Entries of older releases do not say; what cannot be read is not known either.
fn former(text: Option<&str>) -> Former {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Removes what is too old or too much, in proportion to what a group has added.
pub(super) fn trim(
    connection: &Connection,
    latest: Position,
    added: u64,
    now: Timestamp,
) -> Result<(), rusqlite::Error> {
    let work_max = TRIM_BASE + 2 * added;
    let retention_ms = i64::try_from(RETENTION.as_millis()).unwrap_or(i64::MAX);
    let horizon_ms = now.as_millisecond().saturating_sub(retention_ms);
    trim_changes(connection, latest, horizon_ms, work_max)?;
    trim_history(connection, horizon_ms, work_max)?;
    trim_remembered(connection, horizon(now).as_millisecond(), work_max)
}

fn trim_remembered(connection: &Connection, horizon_ms: i64, work_max: u64) -> Result<(), rusqlite::Error> {
    let sql = "DELETE FROM remembered WHERE request IN
        (SELECT request FROM remembered WHERE at_ms <= ?1 ORDER BY at_ms LIMIT ?2)";
    connection.prepare_cached(sql)?.execute(params![horizon_ms, work_max.cast_signed()]).map(drop)
}

fn trim_changes(
    connection: &Connection,
    latest: Position,
    horizon_ms: i64,
    work_max: u64,
) -> Result<(), rusqlite::Error> {
    let sql = "SELECT position, at_ms FROM change ORDER BY position LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?));
    let Some((oldest, oldest_ms)) = connection.prepare_cached(sql)?.query_row([], read).optional()? else {
        return Ok(());
    };
    let newest_in_excess = latest.0.saturating_sub(CHANGE_LOG_MAX);
    if oldest > newest_in_excess && oldest_ms >= horizon_ms {
        return Ok(());
    }
    // Positions have no gaps, so a range of them is a number of entries. Only a prefix may go, also where a clock
    // that was set back has left older times after newer ones.
    let reach = (oldest + work_max).min(latest.0);
    let sql = "SELECT coalesce(min(position), ?1) FROM change WHERE position < ?1 AND position > ?2 AND at_ms >= ?3";
    let parameters = params![reach.cast_signed(), newest_in_excess.cast_signed(), horizon_ms];
    let keep_from: i64 = connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0))?;
    connection.prepare_cached("DELETE FROM change WHERE position < ?1")?.execute([keep_from]).map(drop)
}

fn trim_history(connection: &Connection, horizon_ms: i64, work_max: u64) -> Result<(), rusqlite::Error> {
    let sql = "SELECT kind, id FROM departed WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let departed = statement.query_map(params![horizon_ms, work_max.cast_signed()], |row| rows::key(row, 0, 1))?;
    for key in departed.collect::<Result<Vec<_>, _>>()? {
        for sql in
            ["DELETE FROM history WHERE kind = ?1 AND id = ?2", "DELETE FROM departed WHERE kind = ?1 AND id = ?2"]
        {
            connection.prepare_cached(sql)?.execute(params![key.kind.word(), key.id.as_bytes()])?;
        }
    }
    Ok(())
}
