//! Rows read back from SQLite: what the rules ask for, and what readers see.
//!
//! One set of functions over a connection, used by the writer inside its transaction and by readers outside. The
//! store looks into metadata and conditions; of specification and detail it checks only that they are JSON, since
//! only their kind can say more. A record that fails is [`CorruptRecord`], never a failed read of its neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::types::FromSqlError;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::{DeserializeOwned, IgnoredAny};
use uuid::Uuid;

use crate::model::condition::Transition;
use crate::model::edge::Holder;
use crate::model::ids::{Incarnation, Key, Kind, OrganizationId, ProjectId};
use crate::model::quota::{Amount, Amounts, QuotaKind};
use crate::model::record::{CorruptRecord, Document, Record, Revision};
use crate::store::remembered::{Content, Remembered, RequestKey};
use crate::store::rules::{Charge, Rows};
use crate::store::{ClaimedNumber, HISTORY_MAX, StoreError};

/// In the order in which [`record`] reads them.
pub(super) const RECORD_COLUMNS: &str = "kind, id, revision, status_revision, metadata, spec, conditions, detail";

/// The rows behind one connection, in whatever transaction it is in.
pub(super) struct SqlRows<'a>(pub(super) &'a Connection);

/// Whatever the engine complains of, the caller can only try again later.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
pub(super) fn unavailable(cause: rusqlite::Error) -> StoreError {
    StoreError::Unavailable(cause.to_string())
}

pub(super) fn key(row: &Row<'_>, kind: usize, id: usize) -> Result<Key, rusqlite::Error> {
    let word = row.get_ref(kind)?.as_str()?;
    let kind = word.parse::<Kind>().map_err(|unknown| FromSqlError::Other(Box::new(unknown)))?;
    Ok(Key::new(kind, uuid(row, id)?))
}

fn uuid(row: &Row<'_>, column: usize) -> Result<Uuid, rusqlite::Error> {
    let bytes = row.get_ref(column)?.as_blob()?;
    Ok(Uuid::from_slice(bytes).map_err(|malformed| FromSqlError::Other(Box::new(malformed)))?)
}

fn holder(row: &Row<'_>) -> Result<Holder, rusqlite::Error> {
    let text = row.get_ref(0)?.as_str()?;
    Ok(text.parse().map_err(|malformed| FromSqlError::Other(Box::new(malformed)))?)
}

fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    // SQLite has signed integers only; the bits are what we keep.
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

fn amount(row: &Row<'_>, committed: usize, reserved: usize) -> Result<Amount, rusqlite::Error> {
    Ok(Amount { committed: unsigned(row, committed)?, reserved: unsigned(row, reserved)? })
}

fn quota(row: &Row<'_>, column: usize) -> Result<Option<QuotaKind>, rusqlite::Error> {
    Ok(QuotaKind::from_word(row.get_ref(column)?.as_str()?))
}

/// Reads the columns of [`RECORD_COLUMNS`].
pub(super) fn record(row: &Row<'_>) -> Result<Result<Arc<Record>, CorruptRecord>, rusqlite::Error> {
    let key = key(row, 0, 1)?;
    let (revision, status_revision) = (Revision(unsigned(row, 2)?), Revision(unsigned(row, 3)?));
    let text = |column: usize| row.get_ref(column)?.as_bytes().map_err(rusqlite::Error::from);
    let (metadata, spec, conditions, detail) = (text(4)?, text(5)?, text(6)?, text(7)?);
    let read = || {
        Ok(Arc::new(Record {
            key,
            metadata: parsed(key, "metadata", metadata)?,
            spec: document(key, "specification", spec)?,
            conditions: parsed(key, "conditions", conditions)?,
            detail: document(key, "status detail", detail)?,
            revision,
            status_revision,
        }))
    };
    Ok(read())
}

fn parsed<T: DeserializeOwned>(key: Key, part: &'static str, bytes: &[u8]) -> Result<T, CorruptRecord> {
    serde_json::from_slice(bytes).map_err(|cause| CorruptRecord { key, part, cause: cause.to_string() })
}

fn document(key: Key, part: &'static str, bytes: &[u8]) -> Result<Document, CorruptRecord> {
    parsed::<IgnoredAny>(key, part, bytes)?;
    let text = std::str::from_utf8(bytes);
    text.map(Document::from_text).map_err(|cause| CorruptRecord { key, part, cause: cause.to_string() })
}

impl SqlRows<'_> {
    /// `Err` of the inner result: it is there and cannot be read.
    pub(super) fn find(&self, key: Key) -> Result<Option<Result<Arc<Record>, CorruptRecord>>, rusqlite::Error> {
        const SQL: &str = "SELECT kind, id, revision, status_revision, metadata, spec, conditions, detail
            FROM record WHERE kind = ?1 AND id = ?2";
        self.0.prepare_cached(SQL)?.query_row(params![key.kind.word(), key.id.as_bytes()], record).optional()
    }

    pub(super) fn history(&self, key: Key) -> Result<Vec<Transition>, rusqlite::Error> {
        let sql = "SELECT transition FROM history WHERE kind = ?1 AND id = ?2 ORDER BY row DESC LIMIT ?3";
        let mut statement = self.0.prepare_cached(sql)?;
        let read = |row: &Row<'_>| Ok(serde_json::from_slice(row.get_ref(0)?.as_bytes()?).ok());
        let rows = statement.query_map(params![key.kind.word(), key.id.as_bytes(), HISTORY_MAX.cast_signed()], read)?;
        // An entry that cannot be read is left out: history informs, nothing is decided by it.
        let mut newest_first = rows.filter_map(Result::transpose).collect::<Result<Vec<Transition>, _>>()?;
        newest_first.reverse();
        Ok(newest_first)
    }

    pub(super) fn charges(&self) -> Result<BTreeMap<Key, Charge>, rusqlite::Error> {
        let sql = "SELECT holder_kind, holder_id, quota, organization, project, incarnation, amount, reserved
            FROM charge";
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut charges = BTreeMap::new();
        while let Some(row) = rows.next()? {
            add_charge_row(charges.entry(key(row, 0, 1)?).or_insert(None), row)?;
        }
        Ok(charges.into_iter().filter_map(|(holder, charge)| charge.map(|charge| (holder, charge))).collect())
    }

    pub(super) fn claims(&self) -> Result<Vec<ClaimedNumber>, rusqlite::Error> {
        let sql = "SELECT holder_kind, holder_id, pool, number FROM claim ORDER BY pool, number";
        let mut statement = self.0.prepare_cached(sql)?;
        let read =
            |row: &Row<'_>| Ok(ClaimedNumber { pool: row.get(2)?, number: row.get(3)?, holder: key(row, 0, 1)? });
        statement.query_map([], read)?.collect()
    }

    fn find_charge(&self, holder: Key) -> Result<Option<Charge>, rusqlite::Error> {
        let sql = "SELECT holder_kind, holder_id, quota, organization, project, incarnation, amount, reserved
            FROM charge WHERE holder_kind = ?1 AND holder_id = ?2";
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query(params![holder.kind.word(), holder.id.as_bytes()])?;
        let mut charge = None;
        while let Some(row) = rows.next()? {
            add_charge_row(&mut charge, row)?;
        }
        Ok(charge)
    }

    /// What is used, and the override of the limit.
    pub(super) fn account(
        &self,
        organization: OrganizationId,
        kind: QuotaKind,
    ) -> Result<(Amount, Option<u64>), rusqlite::Error> {
        let sql = "SELECT used, reserved, ceiling FROM usage WHERE organization = ?1 AND quota = ?2";
        let read = |row: &Row<'_>| Ok((amount(row, 0, 1)?, row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned)));
        let found = self.0.prepare_cached(sql)?.query_row(params![organization.0.as_bytes(), kind.word()], read);
        Ok(found.optional()?.unwrap_or((Amount::default(), None)))
    }

    fn find_remembered(&self, request: RequestKey) -> Result<Option<Remembered>, rusqlite::Error> {
        let sql = "SELECT organization, at_ms, content, answer FROM remembered WHERE request = ?1";
        let read = |row: &Row<'_>| {
            let at = Timestamp::from_millisecond(row.get(1)?);
            Ok(Remembered {
                request,
                organization: OrganizationId(uuid(row, 0)?),
                at: at.map_err(|malformed| FromSqlError::Other(Box::new(malformed)))?,
                content: Content(row.get(2)?),
                answer: Document::from_text(row.get_ref(3)?.as_str()?),
            })
        };
        self.0.prepare_cached(sql)?.query_row([request.0], read).optional()
    }

    fn keys(&self, sql: &str, parameters: impl rusqlite::Params) -> Result<BTreeSet<Key>, StoreError> {
        let mut statement = self.0.prepare_cached(sql).map_err(unavailable)?;
        let rows = statement.query_map(parameters, |row| key(row, 0, 1)).map_err(unavailable)?;
        rows.collect::<Result<_, _>>().map_err(unavailable)
    }
}

/// One resource's charge is one row per quota kind. A kind that we do not know belongs to a later release's quota.
fn add_charge_row(charge: &mut Option<Charge>, row: &Row<'_>) -> Result<(), rusqlite::Error> {
    let Some(kind) = quota(row, 2)? else { return Ok(()) };
    if charge.is_none() {
        let project = match row.get_ref(4)?.as_blob_or_null()? {
            Some(_) => Some(ProjectId(uuid(row, 4)?)),
            None => None,
        };
        *charge = Some(Charge {
            organization: OrganizationId(uuid(row, 3)?),
            project,
            incarnation: Incarnation(uuid(row, 5)?),
            amounts: Amounts::new(),
        });
    }
    if let Some(charge) = charge {
        charge.amounts.insert(kind, amount(row, 6, 7)?);
    }
    Ok(())
}

impl Rows for SqlRows<'_> {
    fn record(&mut self, key: Key) -> Result<Option<Arc<Record>>, StoreError> {
        Ok(self.find(key).map_err(unavailable)?.transpose()?)
    }

    fn references(&mut self, target: Key) -> Result<BTreeSet<Holder>, StoreError> {
        let sql = "SELECT holder FROM reference WHERE target_kind = ?1 AND target_id = ?2";
        let mut statement = self.0.prepare_cached(sql).map_err(unavailable)?;
        let rows =
            statement.query_map(params![target.kind.word(), target.id.as_bytes()], holder).map_err(unavailable)?;
        rows.collect::<Result<_, _>>().map_err(unavailable)
    }

    fn is_referenced_by(&mut self, target: Key, holder: &Holder) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM reference WHERE target_kind = ?1 AND target_id = ?2 AND holder = ?3";
        let mut statement = self.0.prepare_cached(sql).map_err(unavailable)?;
        let parameters = params![target.kind.word(), target.id.as_bytes(), holder.to_string()];
        statement.exists(parameters).map_err(unavailable)
    }

    fn referred_by(&mut self, holder: &Holder) -> Result<BTreeSet<Key>, StoreError> {
        self.keys("SELECT target_kind, target_id FROM reference WHERE holder = ?1", [holder.to_string()])
    }

    fn children(&mut self, owner: Key) -> Result<BTreeSet<Key>, StoreError> {
        let sql = "SELECT kind, id FROM record WHERE owner_id = ?1 AND owner_kind = ?2";
        self.keys(sql, params![owner.id.as_bytes(), owner.kind.word()])
    }

    fn charge(&mut self, holder: Key) -> Result<Option<Charge>, StoreError> {
        self.find_charge(holder).map_err(unavailable)
    }

    fn used(&mut self, organization: OrganizationId, kind: QuotaKind) -> Result<Amount, StoreError> {
        self.account(organization, kind).map(|(used, _)| used).map_err(unavailable)
    }

    fn limit(&mut self, organization: OrganizationId, kind: QuotaKind) -> Result<Option<u64>, StoreError> {
        self.account(organization, kind).map(|(_, limit)| limit).map_err(unavailable)
    }

    fn numbers_taken(&mut self, pool: &str) -> Result<BTreeSet<u16>, StoreError> {
        let sql = "SELECT number FROM claim WHERE pool = ?1 ORDER BY number";
        let mut statement = self.0.prepare_cached(sql).map_err(unavailable)?;
        let rows = statement.query_map([pool], |row| row.get(0)).map_err(unavailable)?;
        rows.collect::<Result<_, _>>().map_err(unavailable)
    }

    fn claims_of(&mut self, holder: Key) -> Result<BTreeSet<(String, u16)>, StoreError> {
        let sql = "SELECT pool, number FROM claim WHERE holder_id = ?1 AND holder_kind = ?2";
        let mut statement = self.0.prepare_cached(sql).map_err(unavailable)?;
        let parameters = params![holder.id.as_bytes(), holder.kind.word()];
        let rows = statement.query_map(parameters, |row| Ok((row.get(0)?, row.get(1)?))).map_err(unavailable)?;
        rows.collect::<Result<_, _>>().map_err(unavailable)
    }

    fn remembered(&mut self, request: RequestKey) -> Result<Option<Remembered>, StoreError> {
        self.find_remembered(request).map_err(unavailable)
    }

    fn remembered_after(&mut self, organization: OrganizationId, time: Timestamp) -> Result<usize, StoreError> {
        let sql = "SELECT count(*) FROM remembered WHERE organization = ?1 AND at_ms > ?2";
        let parameters = params![organization.0.as_bytes(), time.as_millisecond()];
        let count = |row: &Row<'_>| row.get::<_, i64>(0);
        let counted = self.0.prepare_cached(sql).and_then(|mut statement| statement.query_row(parameters, count));
        Ok(usize::try_from(counted.map_err(unavailable)?).unwrap_or(usize::MAX))
    }
}
