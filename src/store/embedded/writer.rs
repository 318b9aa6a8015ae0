//! The one thread that writes.
//!
//! ```text
//!   commit() ──▶ bounded queue ──▶ group: judge, write, judge, write, … ──▶ one COMMIT ──▶ ring, latest, answers
//! ```
//!
//! A sync of the disk costs as much as dozens of batches, so all that wait share one. Each batch is judged before
//! anything of it is written: a refused batch leaves no trace, and its neighbours do not pay for it. When the engine
//! fails (no space, I/O), nobody in the group is told anything but "unavailable": also a refusal was judged on
//! neighbours that are now not there. The thread goes on and succeeds again when there is room.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use crate::model::ambient::Ambient;
use crate::store::{Batch, Change, Committed, Position, StoreError, rules};

use super::rows::SqlRows;
use super::{Shared, apply, log};

/// How many batches may wait. Some groups' worth: at ten thousand batches a second a tenth of a second of work.
/// Longer would only make answers late; shorter would refuse bursts that are over in an instant.
pub(super) const QUEUE_MAX: usize = 1024;

/// How many batches share one sync. Larger would let the first of a group wait for hundreds of others; smaller would
/// sync more often than the disk likes.
const GROUP_MAX: usize = 256;

/// What the writer is asked.
pub(super) enum Request {
    Commit {
        batch: Batch,
        answer: oneshot::Sender<Result<Committed, StoreError>>,
    },
    /// Something that only a test asks of the writing connection, such as a limit to the size of the file.
    #[cfg(test)]
    Meddle(Box<dyn FnOnce(&Connection) + Send>),
}

pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) queue: mpsc::Receiver<Request>,
    pub(super) shared: Arc<Shared>,
    pub(super) ambient: Ambient,
    /// Held as long as this thread can write.
    pub(super) _lock: std::fs::File,
}

type Answer = Result<Committed, StoreError>;

/// What a group did, once it is on disk.
#[derive(Default)]
struct Written {
    answers: Vec<Answer>,
    changes: Vec<Change>,
    /// Whether there is anything to sync at all.
    any: bool,
}

impl Writer {
    /// Runs until the store is dropped and the queue is empty.
    pub(super) fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let mut batches = Vec::new();
            let mut answers = Vec::new();
            let mut next = Some(first);
            while let Some(request) = next {
                match request {
                    Request::Commit { batch, answer } => {
                        batches.push(batch);
                        answers.push(answer);
                    }
                    #[cfg(test)]
                    Request::Meddle(meddle) => meddle(&self.connection),
                }
                next = if batches.len() < GROUP_MAX { self.queue.try_recv().ok() } else { None };
            }
            #[expect(clippy::cast_precision_loss, reason = "a group is small")]
            metrics::histogram!("regent_store_group_batches").record(batches.len() as f64);
            let outcome = self.commit(&batches);
            for (answer, outcome) in answers.into_iter().zip(outcome) {
                // Nobody listens when the caller was cancelled; what was written stays written.
                let _ = answer.send(outcome);
            }
        }
        // So that a folder at rest has everything in its one file. Should it fail, the next open reads the log.
        if let Err(error) = self.connection.query_row("PRAGMA wal_checkpoint(truncate)", [], |_| Ok(())) {
            tracing::warn!(%error, "the log could not be folded into the database");
        }
    }

    fn commit(&mut self, batches: &[Batch]) -> Vec<Answer> {
        // A panic here is a bug; it costs its group, not the store. The transaction rolls back as it unwinds.
        let written = catch_unwind(AssertUnwindSafe(|| self.write(batches)));
        let cause = match written {
            Ok(Ok(written)) => {
                self.shared.publish(written.changes);
                return written.answers;
            }
            Ok(Err(cause)) => cause.to_string(),
            Err(_) => "the write panicked".to_owned(),
        };
        metrics::counter!("regent_store_group_failures_total").increment(1);
        tracing::error!(cause, batches = batches.len(), "a group of writes failed and was rolled back");
        batches.iter().map(|_| Err(StoreError::Unavailable(cause.clone()))).collect()
    }

    fn write(&mut self, batches: &[Batch]) -> Result<Written, rusqlite::Error> {
        let now = self.ambient.now();
        let mut position = self.shared.position();
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut written = Written::default();
        for batch in batches {
            let plan = match rules::plan(&mut SqlRows(&transaction), batch) {
                Ok(plan) => plan,
                Err(refusal) => {
                    written.answers.push(Err(refusal));
                    continue;
                }
            };
            for change in &plan.changes {
                apply::apply(&transaction, change, now)?;
            }
            for event in &plan.events {
                position = Position(position.0 + 1);
                written.changes.push(log::append(&transaction, position, event, now)?);
            }
            written.any |= !plan.changes.is_empty();
            written.answers.push(Ok(Committed { position, claimed: plan.claimed, records: plan.records }));
        }
        if written.any {
            log::trim(&transaction, position, written.changes.len() as u64, now)?;
            transaction.commit()?;
        }
        Ok(written)
    }
}
