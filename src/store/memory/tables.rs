//! The rows of the memory store.
//!
//! Ordered maps only: whatever is listed comes out in the same order in every run. The two directions of references
//! and of ownership are kept as two maps and changed in one place each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::model::condition::Transition;
use crate::model::edge::Holder;
use crate::model::ids::{Key, OrganizationId};
use crate::model::quota::{Amount, QuotaKind};
use crate::model::record::{CorruptRecord, Record};
use crate::store::remembered::{Remembered, RequestKey};
use crate::store::rules::{Charge, RowChange, Rows};
use crate::store::{Allocation, ClaimedNumber, StoreError};

use super::log::History;

#[derive(Default)]
pub(super) struct Tables {
    records: BTreeMap<Key, Arc<Record>>,
    children: BTreeMap<Key, BTreeSet<Key>>,
    references: BTreeMap<Key, BTreeSet<Holder>>,
    referred_by: BTreeMap<Holder, BTreeSet<Key>>,
    charges: BTreeMap<Key, Charge>,
    used: BTreeMap<(OrganizationId, QuotaKind), Amount>,
    limits: BTreeMap<(OrganizationId, QuotaKind), u64>,
    claims: BTreeMap<(String, u16), Key>,
    history: History,
    remembered: BTreeMap<RequestKey, Remembered>,
    /// Records that a test has made unreadable.
    pub(super) corrupt: BTreeMap<Key, CorruptRecord>,
}

impl Tables {
    /// Carries out one change, assuming that it was planned on what is stored now.
    pub(super) fn apply(&mut self, change: &RowChange, now: Timestamp) {
        match change {
            RowChange::Record { key, after, .. } => self.set_record(*key, after.clone(), now),
            RowChange::Reference { target, holder, present } => self.set_reference(*target, holder, *present),
            RowChange::Charge { holder, after, .. } => self.set_charge(*holder, after.clone()),
            RowChange::Limit { organization, kind, after, .. } => self.set_limit((*organization, *kind), *after),
            RowChange::Claim { pool, number, holder, taken } => {
                self.set_claim(pool, *number, taken.then_some(*holder));
            }
            RowChange::History { key, appended } => self.history.append(*key, appended),
            RowChange::Remembered { after, .. } => {
                self.remembered.insert(after.request, Remembered::clone(after));
            }
        }
    }

    /// Takes back one change of a saga. Others may have written in between: what they wrote stays.
    pub(super) fn undo(&mut self, change: &RowChange, now: Timestamp) {
        match change {
            RowChange::Record { key, before, after } => {
                self.undo_record(*key, before.as_ref(), after.as_ref(), now);
            }
            RowChange::Reference { target, holder, present } => {
                // A target that has gone meanwhile cannot be referred to again.
                let wanted = !present && self.records.contains_key(target);
                self.set_reference(*target, holder, wanted);
            }
            RowChange::Charge { holder, before, after } => {
                if self.charges.get(holder) == after.as_ref() {
                    self.set_charge(*holder, before.clone());
                }
            }
            RowChange::Limit { organization, kind, before, after } => {
                let account = (*organization, *kind);
                if self.limits.get(&account) == after.as_ref() {
                    self.set_limit(account, *before);
                }
            }
            RowChange::Claim { pool, number, holder, taken: true } => {
                if self.claims.get(&(pool.clone(), *number)) == Some(holder) {
                    self.set_claim(pool, *number, None);
                }
            }
            RowChange::Claim { pool, number, holder, taken: false } => {
                // Unless the number was given to somebody else meanwhile: its former holder will claim another.
                if !self.claims.contains_key(&(pool.clone(), *number)) {
                    self.set_claim(pool, *number, Some(*holder));
                }
            }
            RowChange::History { key, appended } => self.history.take_back(*key, appended),
            RowChange::Remembered { before, after } => match before {
                Some(before) => drop(self.remembered.insert(before.request, Remembered::clone(before))),
                None => drop(self.remembered.remove(&after.request)),
            },
        }
    }

    fn undo_record(&mut self, key: Key, before: Option<&Arc<Record>>, after: Option<&Arc<Record>>, now: Timestamp) {
        let Some(current) = self.records.get(&key).cloned() else {
            // Gone: either this step removed it, or somebody else did, and then it stays gone.
            if after.is_none() {
                self.set_record(key, before.cloned(), now);
            }
            return;
        };
        let Some(after) = after.filter(|after| after.metadata.incarnation == current.metadata.incarnation) else {
            return;
        };
        let Some(before) = before else {
            // A record that was never accepted takes with it whatever came to point at it.
            for holder in self.references.get(&key).cloned().unwrap_or_default() {
                self.set_reference(key, &holder, false);
            }
            self.set_record(key, None, now);
            self.history.forget(key);
            return;
        };
        let mut restored = Record::clone(&current);
        if current.revision == after.revision && before.revision != after.revision {
            restored.metadata = before.metadata.clone();
            restored.spec = before.spec.clone();
            restored.revision = before.revision;
        }
        if current.status_revision == after.status_revision && before.status_revision != after.status_revision {
            restored.conditions = before.conditions.clone();
            restored.detail = before.detail.clone();
            restored.status_revision = before.status_revision;
        }
        self.set_record(key, Some(Arc::new(restored)), now);
    }

    fn set_record(&mut self, key: Key, record: Option<Arc<Record>>, now: Timestamp) {
        let owner = record.as_ref().and_then(|record| record.metadata.owner);
        let gone = record.is_none();
        let before = match record {
            Some(record) => self.records.insert(key, record),
            None => self.records.remove(&key),
        };
        if let Some(former) = before.and_then(|before| before.metadata.owner) {
            remove_from(&mut self.children, &former, &key);
        }
        if let Some(owner) = owner {
            self.children.entry(owner).or_default().insert(key);
        }
        if gone {
            self.history.removed(key, now);
        }
    }

    fn set_reference(&mut self, target: Key, holder: &Holder, present: bool) {
        if present {
            self.references.entry(target).or_default().insert(holder.clone());
            self.referred_by.entry(holder.clone()).or_default().insert(target);
        } else {
            remove_from(&mut self.references, &target, holder);
            remove_from(&mut self.referred_by, holder, &target);
        }
    }

    fn set_charge(&mut self, holder: Key, charge: Option<Charge>) {
        if let Some(former) = self.charges.remove(&holder) {
            for (kind, amount) in former.amounts {
                let used = self.used.entry((former.organization, kind)).or_default();
                *used = used.minus(amount);
            }
        }
        if let Some(charge) = charge {
            for (&kind, &amount) in &charge.amounts {
                let used = self.used.entry((charge.organization, kind)).or_default();
                *used = used.plus(amount);
            }
            self.charges.insert(holder, charge);
        }
    }

    fn set_limit(&mut self, account: (OrganizationId, QuotaKind), limit: Option<u64>) {
        match limit {
            Some(limit) => self.limits.insert(account, limit),
            None => self.limits.remove(&account),
        };
    }

    fn set_claim(&mut self, pool: &str, number: u16, holder: Option<Key>) {
        match holder {
            Some(holder) => self.claims.insert((pool.to_owned(), number), holder),
            None => self.claims.remove(&(pool.to_owned(), number)),
        };
    }

    /// Forgets histories whose resource has been gone for long enough, and answers that were kept for long enough.
    pub(super) fn trim(&mut self, now: Timestamp) {
        self.remembered.retain(|_, remembered| !remembered.is_over(now));
        let records = &self.records;
        self.history.trim(now, |key| records.contains_key(&key));
    }

    /// The records of one kind after an id, in order of id.
    pub(super) fn after(&self, from: std::ops::Bound<Key>) -> impl Iterator<Item = &Arc<Record>> {
        let readable = |(key, record)| (!self.corrupt.contains_key(key)).then_some(record);
        self.records.range((from, std::ops::Bound::Unbounded)).filter_map(readable)
    }

    pub(super) fn current(&self, key: Key) -> Option<Arc<Record>> {
        self.records.get(&key).cloned()
    }

    pub(super) fn transitions(&self, key: Key) -> Vec<Transition> {
        self.history.of(key)
    }

    pub(super) fn allocations(&self) -> Vec<Allocation> {
        let allocation = |(holder, charge): (&Key, &Charge)| Allocation {
            organization: charge.organization,
            holder: *holder,
            incarnation: charge.incarnation,
            amounts: charge.amounts.clone(),
        };
        self.charges.iter().map(allocation).collect()
    }

    pub(super) fn claims(&self) -> Vec<ClaimedNumber> {
        let claim = |((pool, number), holder): (&(String, u16), &Key)| ClaimedNumber {
            pool: pool.clone(),
            number: *number,
            holder: *holder,
        };
        self.claims.iter().map(claim).collect()
    }
}

fn remove_from<K: Ord, V: Ord>(map: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = map.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            map.remove(key);
        }
    }
}

impl Rows for Tables {
    fn record(&mut self, key: Key) -> Result<Option<Arc<Record>>, StoreError> {
        match self.corrupt.get(&key) {
            Some(corrupt) => Err(corrupt.clone().into()),
            None => Ok(self.current(key)),
        }
    }

    fn references(&mut self, target: Key) -> Result<BTreeSet<Holder>, StoreError> {
        Ok(self.references.get(&target).cloned().unwrap_or_default())
    }

    fn is_referenced_by(&mut self, target: Key, holder: &Holder) -> Result<bool, StoreError> {
        Ok(self.references.get(&target).is_some_and(|holders| holders.contains(holder)))
    }

    fn referred_by(&mut self, holder: &Holder) -> Result<BTreeSet<Key>, StoreError> {
        Ok(self.referred_by.get(holder).cloned().unwrap_or_default())
    }

    fn children(&mut self, owner: Key) -> Result<BTreeSet<Key>, StoreError> {
        Ok(self.children.get(&owner).cloned().unwrap_or_default())
    }

    fn charge(&mut self, holder: Key) -> Result<Option<Charge>, StoreError> {
        Ok(self.charges.get(&holder).cloned())
    }

    fn used(&mut self, organization: OrganizationId, kind: QuotaKind) -> Result<Amount, StoreError> {
        Ok(self.used.get(&(organization, kind)).copied().unwrap_or_default())
    }

    fn limit(&mut self, organization: OrganizationId, kind: QuotaKind) -> Result<Option<u64>, StoreError> {
        Ok(self.limits.get(&(organization, kind)).copied())
    }

    fn numbers_taken(&mut self, pool: &str) -> Result<BTreeSet<u16>, StoreError> {
        let of_pool = self.claims.range((pool.to_owned(), u16::MIN)..=(pool.to_owned(), u16::MAX));
        Ok(of_pool.map(|((_, number), _)| *number).collect())
    }

    fn claims_of(&mut self, holder: Key) -> Result<BTreeSet<(String, u16)>, StoreError> {
        let held = self.claims.iter().filter(|(_, key)| **key == holder);
        Ok(held.map(|(claim, _)| claim.clone()).collect())
    }

    fn remembered(&mut self, request: RequestKey) -> Result<Option<Remembered>, StoreError> {
        Ok(self.remembered.get(&request).cloned())
    }

    fn remembered_after(&mut self, organization: OrganizationId, time: Timestamp) -> Result<usize, StoreError> {
        let counts = |kept: &&Remembered| kept.organization == organization && kept.at > time;
        Ok(self.remembered.values().filter(counts).count())
    }
}
