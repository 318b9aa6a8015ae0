//! Changing others on behalf of this resource: what it answers for, and what is charged for it.
//!
//! An order is one commit, on the condition that whoever gives it is still there, and still wants the same. One that is refused is not an error:
//! something that it needs is being changed or deleted, and the next look finds out what.

use std::sync::Arc;

use super::super::decision::{Made, Order};
use super::super::kind::KindEntry;
use super::{Interest, Pass};
use crate::model::edge::Holder;
use crate::model::ids::Key;
use crate::model::quota::Amounts;
use crate::model::record::Record;
use crate::store::{Batch, Filter, Pages, Precondition, Store, StoreError, Write};

/// The records of what a resource owns and answers for, in the order of ids.
pub(in super::super) async fn members(
    store: &dyn Store,
    entry: &KindEntry,
    owner: Key,
) -> Result<Vec<Arc<Record>>, StoreError> {
    let Some(kind) = entry.governs else { return Ok(Vec::new()) };
    let mut pages = Pages::of(store, Filter { owner: Some(owner), ..Filter::of(kind) });
    let mut members = Vec::new();
    while let Some(mut records) = pages.next().await? {
        members.append(&mut records);
    }
    Ok(members)
}

impl Pass<'_> {
    pub(super) async fn members(&self) -> Result<Vec<Arc<Record>>, StoreError> {
        let (environment, key) = (self.environment, self.record.key);
        let members = members(&*environment.store, self.entry, key).await?;
        let mut is_new = false;
        for member in &members {
            is_new |= environment.graph.subscribe(member.key, key, Interest::Everything);
        }
        // What changed between the read and the subscription was told to nobody.
        if is_new { self::members(&*environment.store, self.entry, key).await } else { Ok(members) }
    }

    /// Carries out an order; tells whether it was possible.
    pub(super) async fn govern(&self, order: Order) -> Result<bool, StoreError> {
        let refer = |holder: Key, target: Key| Write::AddReference { target, holder: Holder::Resource(holder) };
        let writes = match order {
            Order::Make(made) => {
                // What may be refused comes first: where this is cut into single writes, nothing is there before what
                // it refers to is held.
                let references =
                    made.iter().flat_map(|made| made.uses.iter().map(|uses| refer(made.record.key, *uses)));
                let mut writes = references.collect::<Vec<_>>();
                writes.extend(made.into_iter().map(|Made { record, .. }| Write::Insert(Box::new(record))));
                writes
            }
            Order::Change { key, expected, metadata, spec, uses } => {
                let mut writes = uses.into_iter().map(|target| refer(key, target)).collect::<Vec<_>>();
                writes.push(Write::Intent { key, expected, metadata, spec });
                writes
            }
            Order::Delete(keys) => {
                let at = self.environment.ambient.now();
                let writes = keys.into_iter().map(|key| Write::MarkDeleted { key, at }).collect();
                return self.commit_order(Batch::of(writes)).await;
            }
        };
        let (key, revision) = (self.record.key, self.record.revision);
        // What was decided for an intent that is no more is not to be done.
        let batch = Batch::of(writes).provided(Precondition::Live(key));
        self.commit_order(batch.provided(Precondition::Unchanged { key, revision })).await
    }

    /// Brings what is charged to what is asked for now. Only if nobody asks for something else in the meantime.
    pub(super) async fn charge(&self, amounts: Amounts) -> Result<bool, StoreError> {
        let metadata = &self.record.metadata;
        let Some(organization) = metadata.principal.organization.or(metadata.placement.organization) else {
            return Ok(true);
        };
        let write = Write::Charge {
            organization,
            project: metadata.principal.project,
            holder: self.record.key,
            incarnation: metadata.incarnation,
            amounts,
        };
        let unchanged = Precondition::Unchanged { key: self.record.key, revision: self.record.revision };
        self.commit_order(Batch::of(vec![write]).provided(unchanged)).await
    }

    async fn commit_order(&self, batch: Batch) -> Result<bool, StoreError> {
        match self.environment.store.commit(batch).await {
            Ok(_) => Ok(true),
            Err(StoreError::Refused(refusal)) => {
                tracing::info!(resource = %self.record.key, %refusal, "an order was refused");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
