//! What each write means: the refusals, and the rows it changes.
//!
//! One function per write, pure but for what it reads. A write that finds its work done already changes nothing
//! and tells nobody: callers repeat themselves after a crash, and a repetition must not wake anyone.

use std::sync::Arc;

use jiff::Timestamp;

use crate::model::condition::{Conditions, Transition};
use crate::model::edge::Holder;
use crate::model::ids::{Incarnation, Key, OrganizationId};
use crate::model::metadata::Metadata;
use crate::model::quota::QuotaKind;
use crate::model::record::{Document, Record, Revision};
use crate::store::remembered::{REMEMBERED_MAX, Remembered, horizon};
use crate::store::{Former, Refusal, StoreError, Write};

use super::{Charge, Event, Plan, RowChange, Rows};

type Planned = Result<Plan, StoreError>;

pub(super) fn plan(rows: &mut dyn Rows, write: &Write) -> Planned {
    match write {
        Write::Insert(record) => insert(rows, record),
        Write::Intent { key, expected, metadata, spec } => intent(rows, *key, *expected, metadata, spec),
        Write::MarkDeleted { key, at } => mark_deleted(rows, *key, *at),
        Write::Status { key, incarnation, conditions, detail, transitions } => {
            status(rows, (*key, *incarnation), conditions, detail, transitions)
        }
        Write::Remove { key, incarnation } => remove(rows, *key, *incarnation),
        Write::AddReference { target, holder } => add_reference(rows, *target, holder),
        Write::RemoveReference { target, holder } => remove_reference(rows, *target, holder),
        Write::ReleaseReferences { holder } => release_references(rows, *holder),
        Write::Charge { organization, project, holder, incarnation, amounts } => {
            let mut amounts = amounts.clone();
            amounts.retain(|_, amount| amount.total() > 0);
            let after = Charge { organization: *organization, project: *project, incarnation: *incarnation, amounts };
            // Being charged nothing and not being charged are one state.
            charge(rows, *holder, Some(after).filter(|after| !after.amounts.is_empty()))
        }
        Write::Release { holder, incarnation } => release(rows, *holder, *incarnation),
        Write::Limit { organization, kind, limit: after } => limit(rows, *organization, *kind, *after),
        Write::Claim { pool, ranges, holder } => claim(rows, pool, ranges, *holder),
        Write::ReleaseClaims { holder } => release_claims(rows, *holder),
        Write::Remember(remembered) => remember(rows, remembered),
    }
}

fn insert(rows: &mut dyn Rows, record: &Record) -> Planned {
    if rows.record(record.key)?.is_some() {
        return Err(Refusal::Exists(record.key).into());
    }
    Ok(replaced(None, record.clone()))
}

fn intent(rows: &mut dyn Rows, key: Key, expected: Revision, metadata: &Metadata, spec: &Document) -> Planned {
    let before = rows.record(key)?.ok_or(Refusal::Missing(key))?;
    // Revisions begin anew with each incarnation, so that an equal revision alone does not show who was read.
    if before.revision != expected || before.metadata.incarnation != metadata.incarnation {
        return Err(Refusal::Conflict(key).into());
    }
    let mut after = Record::clone(&before);
    after.metadata = metadata.clone();
    after.metadata.deletion = before.metadata.deletion;
    after.spec = spec.clone();
    after.revision = expected.next();
    Ok(replaced(Some(before), after))
}

fn mark_deleted(rows: &mut dyn Rows, key: Key, at: Timestamp) -> Planned {
    let Some(before) = rows.record(key)?.filter(|record| !record.metadata.is_deleting()) else {
        return Ok(Plan::default());
    };
    let mut after = Record::clone(&before);
    after.metadata.deletion = Some(at);
    after.revision = before.revision.next();
    Ok(replaced(Some(before), after))
}

fn status(
    rows: &mut dyn Rows,
    (key, incarnation): (Key, Incarnation),
    conditions: &Conditions,
    detail: &Document,
    transitions: &[Transition],
) -> Planned {
    let Some(before) = rows.record(key)?.filter(|record| record.metadata.incarnation == incarnation) else {
        return Ok(Plan::default());
    };
    if before.conditions == *conditions && before.detail == *detail && transitions.is_empty() {
        return Ok(Plan::default());
    }
    let mut after = Record::clone(&before);
    after.conditions = conditions.clone();
    after.detail = detail.clone();
    after.status_revision = before.status_revision.next();
    let mut plan = replaced(Some(before), after);
    if !transitions.is_empty() {
        plan.changes.push(RowChange::History { key, appended: transitions.to_vec() });
    }
    Ok(plan)
}

fn remove(rows: &mut dyn Rows, key: Key, incarnation: Incarnation) -> Planned {
    let Some(before) = rows.record(key)?.filter(|record| record.metadata.incarnation == incarnation) else {
        return Ok(Plan::default());
    };
    let holders = rows.references(key)?;
    if !holders.is_empty() {
        return Err(Refusal::InUse { target: key, holders: holders.into_iter().collect() }.into());
    }
    if !rows.children(key)?.is_empty() {
        return Err(Refusal::HasChildren(key).into());
    }
    let mut plan = Plan::default();
    plan.events.push(Event::Removed(key, Former::of(&before.metadata)));
    plan.changes.push(RowChange::Record { key, before: Some(before), after: None });
    Ok(plan)
}

fn add_reference(rows: &mut dyn Rows, target: Key, holder: &Holder) -> Planned {
    if rows.is_referenced_by(target, holder)? {
        return Ok(Plan::default());
    }
    let record = rows.record(target)?.ok_or(Refusal::Missing(target))?;
    if record.metadata.is_deleting() {
        return Err(Refusal::Deleting(target).into());
    }
    Ok(referenced(target, holder.clone(), true))
}

fn remove_reference(rows: &mut dyn Rows, target: Key, holder: &Holder) -> Planned {
    if rows.is_referenced_by(target, holder)? {
        Ok(referenced(target, holder.clone(), false))
    } else {
        Ok(Plan::default())
    }
}

fn release_references(rows: &mut dyn Rows, holder: Key) -> Planned {
    let holder = Holder::Resource(holder);
    let mut plan = Plan::default();
    for target in rows.referred_by(&holder)? {
        plan.absorb(referenced(target, holder.clone(), false));
    }
    Ok(plan)
}

fn charge(rows: &mut dyn Rows, holder: Key, after: Option<Charge>) -> Planned {
    let before = rows.charge(holder)?;
    if before == after {
        return Ok(Plan::default());
    }
    if let Some(after) = &after {
        refuse_excess(rows, before.as_ref(), after)?;
    }
    Ok(changed(RowChange::Charge { holder, before, after }))
}

fn refuse_excess(rows: &mut dyn Rows, before: Option<&Charge>, after: &Charge) -> Result<(), StoreError> {
    let same_account = before.filter(|before| before.organization == after.organization);
    for (&kind, &amount) in &after.amounts {
        let replaced = same_account.and_then(|before| before.amounts.get(&kind)).copied().unwrap_or_default();
        let total = rows.used(after.organization, kind)?.minus(replaced).plus(amount).total();
        let limit = rows.limit(after.organization, kind)?.unwrap_or(kind.default_limit());
        // Whoever is above a limit that was lowered may still stay or shrink.
        if total > limit && amount.total() > replaced.total() {
            return Err(Refusal::QuotaExceeded { kind, total, limit }.into());
        }
    }
    Ok(())
}

fn release(rows: &mut dyn Rows, holder: Key, incarnation: Incarnation) -> Planned {
    let charge = rows.charge(holder)?.filter(|charge| charge.incarnation == incarnation);
    Ok(charge
        .map_or_else(Plan::default, |before| changed(RowChange::Charge { holder, before: Some(before), after: None })))
}

fn limit(rows: &mut dyn Rows, organization: OrganizationId, kind: QuotaKind, after: u64) -> Planned {
    let before = rows.limit(organization, kind)?;
    if before == Some(after) {
        return Ok(Plan::default());
    }
    Ok(changed(RowChange::Limit { organization, kind, before, after: Some(after) }))
}

fn claim(rows: &mut dyn Rows, pool: &str, ranges: &[(u16, u16)], holder: Key) -> Planned {
    let held = rows.claims_of(holder)?.into_iter().find(|(name, _)| name == pool);
    if let Some((_, number)) = held {
        return Ok(Plan { claimed: vec![number], ..Plan::default() });
    }
    let taken = rows.numbers_taken(pool)?;
    let lowest = ranges.iter().filter_map(|(first, last)| (*first..=*last).find(|number| !taken.contains(number)));
    let number = lowest.min().ok_or_else(|| Refusal::Exhausted(pool.to_owned()))?;
    let mut plan = changed(RowChange::Claim { pool: pool.to_owned(), number, holder, taken: true });
    plan.claimed.push(number);
    Ok(plan)
}

fn release_claims(rows: &mut dyn Rows, holder: Key) -> Planned {
    let mut plan = Plan::default();
    for (pool, number) in rows.claims_of(holder)? {
        plan.changes.push(RowChange::Claim { pool, number, holder, taken: false });
    }
    Ok(plan)
}

fn remember(rows: &mut dyn Rows, remembered: &Remembered) -> Planned {
    let before = rows.remembered(remembered.request)?;
    if before.as_ref().is_some_and(|before| !before.is_over(remembered.at)) {
        return Err(Refusal::Remembered.into());
    }
    if rows.remembered_after(remembered.organization, horizon(remembered.at))? >= REMEMBERED_MAX {
        return Err(Refusal::TooManyRemembered.into());
    }
    Ok(changed(RowChange::Remembered { before: before.map(Box::new), after: Box::new(remembered.clone()) }))
}

fn replaced(before: Option<Arc<Record>>, after: Record) -> Plan {
    let after = Arc::new(after);
    let mut plan = changed(RowChange::Record { key: after.key, before, after: Some(after.clone()) });
    plan.put(&after);
    plan
}

fn referenced(target: Key, holder: Holder, present: bool) -> Plan {
    let mut plan = changed(RowChange::Reference { target, holder, present });
    plan.events.push(Event::Referenced(target));
    plan
}

fn changed(change: RowChange) -> Plan {
    Plan { changes: vec![change], ..Plan::default() }
}
