//! Verbs: found in the store, carried out by the pass, written down before and after.

use super::super::decision::{OpenOperation, OperationProgress};
use super::{Interruption, Pass};
use crate::model::ids::{Kind, OperationId};
use crate::model::operation::{Operation, OperationDetail};
use crate::model::record::{Document, Resource};
use crate::store::{Batch, Filter, Page, StoreError, Write};

/// How long a verb that has ended is remembered: long enough to be looked at, short enough to pile up nowhere.
pub const OPERATION_RETENTION: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

/// How many verbs one pass carries out. Each costs three decisions; more would not fit into one pass.
const OPERATIONS_AT_ONCE_MAX: usize = 16;

/// How many of them are remembered: somebody who switches a machine on and off in a loop fills no store.
const OPERATIONS_KEPT_MAX: usize = 16;

impl Pass<'_> {
    /// The verbs that have not ended, oldest first.
    pub(super) async fn look_for_verbs(&mut self) -> Result<(), Interruption> {
        // What has none is not woken for them: a failure that waits for somebody would be looked at again and again.
        self.operations_left &= self.entry.has_verbs;
        if !self.entry.has_verbs || !self.start.asked || self.record.metadata.is_deleting() {
            return Ok(());
        }
        let filter = Filter { owner: Some(self.record.key), ..Filter::of(Kind::Operation) };
        let (mut found, mut ended) = (Vec::new(), Vec::new());
        for record in self.environment.store.list(&filter, Page::FIRST).await? {
            let operation = record.open::<Operation>()?;
            let when = (operation.metadata.created, operation.key);
            if operation.detail.is_open() { found.push((when, operation)) } else { ended.push((when, operation)) }
        }
        found.sort_by_key(|(when, _)| *when);
        ended.sort_by_key(|(when, _)| *when);
        self.forget(ended.into_iter().map(|(_, operation)| operation).collect()).await?;
        let open = found.into_iter().map(|(_, operation)| OpenOperation {
            id: OperationId(operation.key.id),
            incarnation: operation.metadata.incarnation,
            verb: operation.spec.verb,
            expires: operation.spec.expires,
            is_started: operation.detail == OperationDetail::Started,
            is_ours: false,
        });
        self.operations = open.collect();
        self.operations_cut = self.operations.len() > OPERATIONS_AT_ONCE_MAX;
        self.operations.truncate(OPERATIONS_AT_ONCE_MAX);
        self.operations_left = !self.operations.is_empty();
        Ok(())
    }

    /// A few verbs that have ended are kept for a while, for whoever asks how they went. Oldest first.
    async fn forget(&self, ended: Vec<Resource<Operation>>) -> Result<(), StoreError> {
        let (now, surplus) = (self.environment.ambient.now(), ended.len().saturating_sub(OPERATIONS_KEPT_MAX));
        let old = |at: usize, operation: &Resource<Operation>| {
            at < surplus || now.duration_since(operation.metadata.created) > OPERATION_RETENTION
        };
        let old = ended.into_iter().enumerate().filter(|(at, operation)| old(*at, operation));
        let removal = |(_, operation): (usize, Resource<Operation>)| Write::Remove {
            key: operation.key,
            incarnation: operation.metadata.incarnation,
        };
        let writes = old.map(removal).collect::<Vec<_>>();
        if !writes.is_empty() {
            self.environment.store.commit(Batch::of(writes)).await?;
        }
        Ok(())
    }

    /// Writes down how far a verb has come.
    pub(super) async fn operate(&mut self, id: OperationId, progress: OperationProgress) -> Result<(), Interruption> {
        let Some(at) = self.operations.iter().position(|operation| operation.id == id) else { return Ok(()) };
        let detail = match &progress {
            OperationProgress::Started => OperationDetail::Started,
            OperationProgress::Succeeded(address) => {
                let sealed = address.as_ref().map(|address| self.environment.envelope.seal(&address.0));
                // A result that cannot be sealed is not worth more than the secret in it.
                OperationDetail::Succeeded { result: sealed.and_then(Result::ok) }
            }
            OperationProgress::Failed { cause, message } => {
                OperationDetail::Failed { cause: *cause, message: (*message).to_owned() }
            }
        };
        let write = Write::Status {
            key: id.key(),
            incarnation: self.operations[at].incarnation,
            conditions: Box::default(),
            detail: Document::of(&detail),
            transitions: Vec::new(),
        };
        self.environment.store.commit(Batch::of(vec![write])).await?;
        if progress == OperationProgress::Started {
            self.operations[at].is_started = true;
            self.operations[at].is_ours = true;
        } else {
            self.operations.remove(at);
            self.operations_left = !self.operations.is_empty();
        }
        Ok(())
    }
}
