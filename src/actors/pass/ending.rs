//! How a resource ends: who goes with it, who still holds it, and what it gives back.

use super::super::kind;
use super::{Interruption, Pass};
use crate::model::condition::{Condition, Truth};
use crate::model::edge::Holder;
use crate::model::ids::{Key, Kind};
use crate::sabotage::{self, Defect};
use crate::store::{Batch, Precondition, Refusal, StoreError, Write};

/// How many resources one commit of a cascade speaks of. Fewer would cost a large tenant many syncs; more would hold
/// up every other writer of the group.
const CASCADE_MAX: usize = 256;

impl Pass<'_> {
    /// Who refers to it. A holder of ours that is no more gives its reference back by being missed, unless it may be
    /// somebody else's.
    pub(super) async fn living_references(&self) -> Result<Vec<Holder>, StoreError> {
        let store = &self.environment.store;
        let mut living = Vec::new();
        for holder in store.references(self.record.key).await? {
            let gone = match &holder {
                Holder::Resource(key) => !key.kind.may_be_elsewhere() && store.get(*key).await?.is_none(),
                Holder::External(_) => false,
            };
            if gone {
                let write = Write::RemoveReference { target: self.record.key, holder };
                store.commit(Batch::of(vec![write])).await?;
            } else {
                living.push(holder);
            }
        }
        Ok(living)
    }

    /// What has an actor is marked; what is only a record is removed, with what it owns.
    pub(super) async fn cascade(&self, keys: &[Key]) -> Result<(), StoreError> {
        let at = self.environment.ambient.now();
        for keys in keys.chunks(CASCADE_MAX) {
            let mut writes = Vec::new();
            for key in keys {
                if kind::entry(key.kind).is_some() {
                    writes.push(Write::MarkDeleted { key: *key, at });
                } else {
                    self.removals(*key, &mut writes).await?;
                }
            }
            self.environment.store.commit(Batch::of(writes)).await?;
        }
        Ok(())
    }

    /// A record, after what it owns. Records are owned one level deep (a service account's tokens), so this ends.
    async fn removals(&self, key: Key, writes: &mut Vec<Write>) -> Result<(), StoreError> {
        let store = &self.environment.store;
        for key in store.children(key).await?.into_iter().chain([key]) {
            if let Some(record) = store.get(key).await? {
                let incarnation = record.metadata.incarnation;
                if key.kind == Kind::Allocation {
                    writes.push(Write::Release { holder: key, incarnation });
                }
                writes.push(Write::Remove { key, incarnation });
            }
        }
        Ok(())
    }

    /// Does the status say that the cloud has what is asked for now?
    fn is_realised(&self) -> bool {
        let generation = self.record.metadata.generation;
        let says = |said: &Condition| said.status == Truth::True && said.observed_generation == generation;
        self.record.conditions.available.as_ref().is_some_and(says)
    }

    /// What is used is held. Acceptance has seen to it; where that was cut into single writes, a pass that gave
    /// something back in their middle may have undone it.
    pub(super) async fn take_references(&mut self) -> Result<(), Interruption> {
        if self.is_realised() || self.is_even() || self.record.metadata.is_deleting() {
            return Ok(());
        }
        let Some(wanted) = (self.entry.references)(&self.record)? else { return Ok(()) };
        let (store, holder) = (&self.environment.store, Holder::Resource(self.record.key));
        let held = store.referred_by(&holder).await?;
        if held.len() == wanted.len() && wanted.iter().all(|target| held.contains(target)) {
            self.even = Some(self.record.revision);
        }
        for target in wanted.into_iter().filter(|target| !held.contains(target)) {
            let write = Write::AddReference { target, holder: holder.clone() };
            match store.commit(Batch::of(vec![write]).provided(Precondition::Live(self.record.key))).await {
                // What cannot be held any more is a gate that does not open: the decision says so.
                Ok(_) | Err(StoreError::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Was exactly what this intent uses found to be held? Nobody changes that but who changes the intent.
    fn is_even(&self) -> bool {
        self.even == Some(self.record.revision)
    }

    /// What is no longer used is given back, once the cloud has followed. Before the status says that it has: a crash
    /// in between would leave a reference that nobody looks at any more. Only if the intent is still the one that was
    /// realised: a newer one may use it again.
    pub(super) async fn give_back_references(&self) -> Result<(), Interruption> {
        if self.is_realised() || self.is_even() {
            return Ok(());
        }
        let Some(wanted) = (self.entry.references)(&self.record)? else { return Ok(()) };
        let holder = Holder::Resource(self.record.key);
        let held = self.environment.store.referred_by(&holder).await?;
        let unused = held.into_iter().filter(|target| !wanted.contains(target));
        let writes = unused.map(|target| Write::RemoveReference { target, holder: holder.clone() }).collect::<Vec<_>>();
        if writes.is_empty() {
            return Ok(());
        }
        for write in &writes {
            if let Write::RemoveReference { target, .. } = write {
                self.environment.graph.unsubscribe(*target, self.record.key);
            }
        }
        let unchanged = Precondition::Unchanged { key: self.record.key, revision: self.record.revision };
        match self.environment.store.commit(Batch::of(writes).provided(unchanged)).await {
            // Something newer is wanted: the pass that realises it looks again.
            Ok(_) | Err(StoreError::Refused(Refusal::Conflict(_))) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The end, in the order that a crash in its middle can bear: what is held is given back, then the record goes.
    pub(super) async fn finish(&self) -> Result<(), Interruption> {
        let key = self.record.key;
        let incarnation = self.record.metadata.incarnation;
        let mut writes = vec![
            Write::ReleaseReferences { holder: key },
            Write::ReleaseClaims { holder: key },
            Write::Release { holder: key, incarnation },
        ];
        if let Some(follower) = (self.entry.followed_by)(&self.record)? {
            writes.push(Write::MarkDeleted { key: follower, at: self.environment.ambient.now() });
        }
        writes.push(Write::Remove { key, incarnation });
        self.environment.store.commit(Batch::of(writes)).await?;
        for target in (self.entry.gates)(&self.record)? {
            self.environment.graph.unsubscribe(target, key);
        }
        Ok(())
    }

    /// The defects that the simulation must notice; nothing without them.
    pub(super) async fn release_early(&self) -> Result<(), StoreError> {
        let holder = self.record.key;
        if !self.record.metadata.is_deleting() {
            return Ok(());
        }
        let mut writes = Vec::new();
        if sabotage::is_on(Defect::ReleaseReferencesEarly) {
            writes.push(Write::ReleaseReferences { holder });
        }
        if sabotage::is_on(Defect::ReleaseQuotaEarly) {
            writes.push(Write::Release { holder, incarnation: self.record.metadata.incarnation });
        }
        if writes.is_empty() {
            return Ok(());
        }
        self.environment.store.commit(Batch::of(writes)).await.map(|_| ())
    }
}
