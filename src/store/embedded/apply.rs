//! Row changes carried out in SQLite.
//!
//! No decisions here: the rules have judged the batch, and an error can only come from the engine, in which case
//! the whole group is rolled back.

use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::model::condition::Transition;
use crate::model::ids::{Key, OrganizationId};
use crate::model::quota::{Amount, QuotaKind};
use crate::model::record::Record;
use crate::store::HISTORY_MAX;
use crate::store::remembered::Remembered;
use crate::store::rules::{Charge, RowChange};

use super::rows::SqlRows;

type Applied = Result<(), rusqlite::Error>;

pub(super) fn apply(connection: &Connection, change: &RowChange, now: Timestamp) -> Applied {
    match change {
        RowChange::Record { after: Some(after), before: None, .. } => insert(connection, after),
        RowChange::Record { after: Some(after), before: Some(before), .. } => update(connection, before, after),
        RowChange::Record { key, after: None, .. } => remove(connection, *key, now),
        RowChange::Reference { target, holder, present } => {
            let sql = if *present {
                "INSERT OR IGNORE INTO reference (target_kind, target_id, holder) VALUES (?1, ?2, ?3)"
            } else {
                "DELETE FROM reference WHERE target_kind = ?1 AND target_id = ?2 AND holder = ?3"
            };
            let parameters = params![target.kind.word(), target.id.as_bytes(), holder.to_string()];
            connection.prepare_cached(sql)?.execute(parameters).map(drop)
        }
        RowChange::Charge { holder, before, after } => {
            if let Some(before) = before {
                discharge(connection, *holder, before)?;
            }
            after.as_ref().map_or(Ok(()), |after| charge(connection, *holder, after))
        }
        RowChange::Limit { organization, kind, after, .. } => {
            let sql = "INSERT INTO usage (organization, quota, used, ceiling) VALUES (?1, ?2, 0, ?3)
                ON CONFLICT DO UPDATE SET ceiling = excluded.ceiling";
            let ceiling = after.map(u64::cast_signed);
            connection.prepare_cached(sql)?.execute(params![organization.0.as_bytes(), kind.word(), ceiling]).map(drop)
        }
        RowChange::Claim { pool, number, holder, taken: true } => {
            let sql = "INSERT INTO claim (pool, number, holder_kind, holder_id) VALUES (?1, ?2, ?3, ?4)";
            let parameters = params![pool, number, holder.kind.word(), holder.id.as_bytes()];
            connection.prepare_cached(sql)?.execute(parameters).map(drop)
        }
        RowChange::Claim { pool, number, taken: false, .. } => {
            let sql = "DELETE FROM claim WHERE pool = ?1 AND number = ?2";
            connection.prepare_cached(sql)?.execute(params![pool, number]).map(drop)
        }
        RowChange::History { key, appended } => append_history(connection, *key, appended),
        RowChange::Remembered { after, .. } => remember(connection, after),
    }
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<String, rusqlite::Error> {
    serde_json::to_string(value).map_err(|cause| rusqlite::Error::ToSqlConversionFailure(Box::new(cause)))
}

fn insert(connection: &Connection, record: &Record) -> Applied {
    const SQL: &str = "INSERT INTO record (kind, id, organization, project, region, identity, network, owner_kind,
        owner_id, name, deleting, revision, writer_version, metadata, spec, status_revision, conditions, detail)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";
    let (metadata, placement, key) = (&record.metadata, &record.metadata.placement, record.key);
    connection.prepare_cached(SQL)?.execute(params![
        key.kind.word(),
        key.id.as_bytes(),
        placement.organization.as_ref().map(|id| id.0.as_bytes()),
        placement.project.as_ref().map(|id| id.0.as_bytes()),
        placement.region.as_ref().map(|id| id.0.as_bytes()),
        placement.identity.as_ref().map(|id| id.0.as_bytes()),
        placement.network.as_ref().map(|id| id.0.as_bytes()),
        metadata.owner.map(|owner| owner.kind.word()),
        metadata.owner.as_ref().map(|owner| owner.id.as_bytes()),
        metadata.name,
        metadata.is_deleting(),
        record.revision.0.cast_signed(),
        metadata.writer_version,
        json(metadata)?,
        record.spec.text(),
        record.status_revision.0.cast_signed(),
        json(&record.conditions)?,
        record.detail.text(),
    ])?;
    let sql = "DELETE FROM departed WHERE kind = ?1 AND id = ?2";
    connection.prepare_cached(sql)?.execute(params![key.kind.word(), key.id.as_bytes()]).map(drop)
}

/// Writes the half that changed: a status write touches no index.
fn update(connection: &Connection, before: &Record, after: &Record) -> Applied {
    if before.revision != after.revision {
        update_intent(connection, after)?;
    }
    if before.status_revision != after.status_revision {
        let sql = "UPDATE record SET status_revision = ?3, conditions = ?4, detail = ?5 WHERE kind = ?1 AND id = ?2";
        connection.prepare_cached(sql)?.execute(params![
            after.key.kind.word(),
            after.key.id.as_bytes(),
            after.status_revision.0.cast_signed(),
            json(&after.conditions)?,
            after.detail.text(),
        ])?;
    }
    Ok(())
}

fn update_intent(connection: &Connection, record: &Record) -> Applied {
    const SQL: &str = "UPDATE record SET organization = ?3, project = ?4, region = ?5, identity = ?6, network = ?7,
        owner_kind = ?8, owner_id = ?9, name = ?10, deleting = ?11, revision = ?12, writer_version = ?13,
        metadata = ?14, spec = ?15 WHERE kind = ?1 AND id = ?2";
    let (metadata, placement) = (&record.metadata, &record.metadata.placement);
    let parameters = params![
        record.key.kind.word(),
        record.key.id.as_bytes(),
        placement.organization.as_ref().map(|id| id.0.as_bytes()),
        placement.project.as_ref().map(|id| id.0.as_bytes()),
        placement.region.as_ref().map(|id| id.0.as_bytes()),
        placement.identity.as_ref().map(|id| id.0.as_bytes()),
        placement.network.as_ref().map(|id| id.0.as_bytes()),
        metadata.owner.map(|owner| owner.kind.word()),
        metadata.owner.as_ref().map(|owner| owner.id.as_bytes()),
        metadata.name,
        metadata.is_deleting(),
        record.revision.0.cast_signed(),
        metadata.writer_version,
        json(metadata)?,
        record.spec.text(),
    ];
    connection.prepare_cached(SQL)?.execute(parameters).map(drop)
}

fn remove(connection: &Connection, key: Key, now: Timestamp) -> Applied {
    let sql = "DELETE FROM record WHERE kind = ?1 AND id = ?2";
    connection.prepare_cached(sql)?.execute(params![key.kind.word(), key.id.as_bytes()])?;
    let sql = "INSERT OR REPLACE INTO departed (kind, id, at_ms) VALUES (?1, ?2, ?3)";
    let parameters = params![key.kind.word(), key.id.as_bytes(), now.as_millisecond()];
    connection.prepare_cached(sql)?.execute(parameters).map(drop)
}

fn charge(connection: &Connection, holder: Key, charge: &Charge) -> Applied {
    const SQL: &str = "INSERT INTO charge (holder_kind, holder_id, quota, organization, project, incarnation, amount,
        reserved) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    for (&kind, &amount) in &charge.amounts {
        connection.prepare_cached(SQL)?.execute(params![
            holder.kind.word(),
            holder.id.as_bytes(),
            kind.word(),
            charge.organization.0.as_bytes(),
            charge.project.as_ref().map(|project| project.0.as_bytes()),
            charge.incarnation.0.as_bytes(),
            amount.committed.cast_signed(),
            amount.reserved.cast_signed(),
        ])?;
        use_quota(connection, charge.organization, kind, |used| used.plus(amount))?;
    }
    Ok(())
}

fn discharge(connection: &Connection, holder: Key, charge: &Charge) -> Applied {
    let sql = "DELETE FROM charge WHERE holder_kind = ?1 AND holder_id = ?2";
    connection.prepare_cached(sql)?.execute(params![holder.kind.word(), holder.id.as_bytes()])?;
    for (&kind, &amount) in &charge.amounts {
        use_quota(connection, charge.organization, kind, |used| used.minus(amount))?;
    }
    Ok(())
}

/// Adds up here and not in SQL, whose integers turn into floating point when they overflow.
fn use_quota(
    connection: &Connection,
    organization: OrganizationId,
    kind: QuotaKind,
    change: impl FnOnce(Amount) -> Amount,
) -> Applied {
    let (used, _) = SqlRows(connection).account(organization, kind)?;
    let used = change(used);
    let sql = "INSERT INTO usage (organization, quota, used, reserved) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT DO UPDATE SET used = excluded.used, reserved = excluded.reserved";
    let (committed, reserved) = (used.committed.cast_signed(), used.reserved.cast_signed());
    let parameters = params![organization.0.as_bytes(), kind.word(), committed, reserved];
    connection.prepare_cached(sql)?.execute(parameters).map(drop)
}

fn remember(connection: &Connection, remembered: &Remembered) -> Applied {
    let sql = "INSERT OR REPLACE INTO remembered (request, organization, at_ms, content, answer)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let parameters = params![
        remembered.request.0,
        remembered.organization.0.as_bytes(),
        remembered.at.as_millisecond(),
        remembered.content.0,
        remembered.answer.text(),
    ];
    connection.prepare_cached(sql)?.execute(parameters).map(drop)
}

fn append_history(connection: &Connection, key: Key, appended: &[Transition]) -> Applied {
    let sql = "INSERT INTO history (kind, id, transition) VALUES (?1, ?2, ?3)";
    for transition in appended {
        connection.prepare_cached(sql)?.execute(params![key.kind.word(), key.id.as_bytes(), json(transition)?])?;
    }
    let sql = "DELETE FROM history WHERE kind = ?1 AND id = ?2 AND row <=
        (SELECT row FROM history WHERE kind = ?1 AND id = ?2 ORDER BY row DESC LIMIT 1 OFFSET ?3)";
    connection
        .prepare_cached(sql)?
        .execute(params![key.kind.word(), key.id.as_bytes(), HISTORY_MAX.cast_signed()])
        .map(drop)
}
