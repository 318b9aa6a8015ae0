//! What a batch has decided so far, laid over what is stored.
//!
//! Small maps that live as long as one batch is judged. They let a refused batch cost nothing: there is no
//! savepoint to roll back, because nothing has been written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::model::edge::Holder;
use crate::model::ids::{Key, OrganizationId};
use crate::model::quota::{Amount, QuotaKind};
use crate::model::record::Record;
use crate::store::StoreError;
use crate::store::remembered::{Remembered, RequestKey};

use super::{Charge, RowChange, Rows};

pub(super) struct Overlay<'a> {
    base: &'a mut dyn Rows,
    records: BTreeMap<Key, Option<Arc<Record>>>,
    references: BTreeMap<(Key, Holder), bool>,
    charges: BTreeMap<Key, Option<Charge>>,
    used: BTreeMap<(OrganizationId, QuotaKind), Amount>,
    limits: BTreeMap<(OrganizationId, QuotaKind), Option<u64>>,
    claims: BTreeMap<(String, u16), (Key, bool)>,
}

impl<'a> Overlay<'a> {
    pub(super) fn over(base: &'a mut dyn Rows) -> Self {
        Self {
            base,
            records: BTreeMap::new(),
            references: BTreeMap::new(),
            charges: BTreeMap::new(),
            used: BTreeMap::new(),
            limits: BTreeMap::new(),
            claims: BTreeMap::new(),
        }
    }

    /// From now on reads see this change.
    pub(super) fn note(&mut self, change: &RowChange) -> Result<(), StoreError> {
        match change.clone() {
            RowChange::Record { key, after, .. } => {
                self.records.insert(key, after);
            }
            RowChange::Reference { target, holder, present } => {
                self.references.insert((target, holder), present);
            }
            RowChange::Charge { holder, before, after } => {
                self.count(before.as_ref(), Amount::minus)?;
                self.count(after.as_ref(), Amount::plus)?;
                self.charges.insert(holder, after);
            }
            RowChange::Limit { organization, kind, after, .. } => {
                self.limits.insert((organization, kind), after);
            }
            RowChange::Claim { pool, number, holder, taken } => {
                self.claims.insert((pool, number), (holder, taken));
            }
            // No rule reads history, and no batch remembers twice.
            RowChange::History { .. } | RowChange::Remembered { .. } => {}
        }
        Ok(())
    }

    fn count(&mut self, charge: Option<&Charge>, sum: impl Fn(Amount, Amount) -> Amount) -> Result<(), StoreError> {
        let Some(charge) = charge else { return Ok(()) };
        for (&kind, &amount) in &charge.amounts {
            let used = self.used(charge.organization, kind)?;
            self.used.insert((charge.organization, kind), sum(used, amount));
        }
        Ok(())
    }
}

impl Rows for Overlay<'_> {
    fn record(&mut self, key: Key) -> Result<Option<Arc<Record>>, StoreError> {
        match self.records.get(&key) {
            Some(pending) => Ok(pending.clone()),
            None => self.base.record(key),
        }
    }

    fn references(&mut self, target: Key) -> Result<BTreeSet<Holder>, StoreError> {
        let mut holders = self.base.references(target)?;
        for ((_, holder), present) in self.references.iter().filter(|((pending, _), _)| *pending == target) {
            if *present {
                holders.insert(holder.clone())
            } else {
                holders.remove(holder)
            };
        }
        Ok(holders)
    }

    fn is_referenced_by(&mut self, target: Key, holder: &Holder) -> Result<bool, StoreError> {
        match self.references.get(&(target, holder.clone())) {
            Some(present) => Ok(*present),
            None => self.base.is_referenced_by(target, holder),
        }
    }

    fn referred_by(&mut self, holder: &Holder) -> Result<BTreeSet<Key>, StoreError> {
        let mut targets = self.base.referred_by(holder)?;
        for ((target, _), present) in self.references.iter().filter(|((_, pending), _)| pending == holder) {
            if *present {
                targets.insert(*target)
            } else {
                targets.remove(target)
            };
        }
        Ok(targets)
    }

    fn children(&mut self, owner: Key) -> Result<BTreeSet<Key>, StoreError> {
        let mut children = self.base.children(owner)?;
        for (key, record) in &self.records {
            let is_child = record.as_ref().is_some_and(|record| record.metadata.owner == Some(owner));
            if is_child {
                children.insert(*key)
            } else {
                children.remove(key)
            };
        }
        Ok(children)
    }

    fn charge(&mut self, holder: Key) -> Result<Option<Charge>, StoreError> {
        match self.charges.get(&holder) {
            Some(pending) => Ok(pending.clone()),
            None => self.base.charge(holder),
        }
    }

    fn used(&mut self, organization: OrganizationId, kind: QuotaKind) -> Result<Amount, StoreError> {
        match self.used.get(&(organization, kind)) {
            Some(pending) => Ok(*pending),
            None => self.base.used(organization, kind),
        }
    }

    fn limit(&mut self, organization: OrganizationId, kind: QuotaKind) -> Result<Option<u64>, StoreError> {
        match self.limits.get(&(organization, kind)) {
            Some(pending) => Ok(*pending),
            None => self.base.limit(organization, kind),
        }
    }

    fn numbers_taken(&mut self, pool: &str) -> Result<BTreeSet<u16>, StoreError> {
        let mut numbers = self.base.numbers_taken(pool)?;
        for ((_, number), (_, taken)) in self.claims.iter().filter(|((pending, _), _)| pending == pool) {
            if *taken {
                numbers.insert(*number)
            } else {
                numbers.remove(number)
            };
        }
        Ok(numbers)
    }

    fn claims_of(&mut self, holder: Key) -> Result<BTreeSet<(String, u16)>, StoreError> {
        let mut claims = self.base.claims_of(holder)?;
        for (claim, (pending, taken)) in &self.claims {
            if *taken && *pending == holder {
                claims.insert(claim.clone())
            } else {
                claims.remove(claim)
            };
        }
        Ok(claims)
    }

    fn remembered(&mut self, request: RequestKey) -> Result<Option<Remembered>, StoreError> {
        self.base.remembered(request)
    }

    fn remembered_after(&mut self, organization: OrganizationId, time: Timestamp) -> Result<usize, StoreError> {
        self.base.remembered_after(organization, time)
    }
}
