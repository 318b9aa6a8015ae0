//! Who waits for an operation to end: askers on one side, the dispatcher on the other.
//!
//! An asker registers before it commits, so that an end which comes at once is not missed. What is told is what is
//! stored; nobody waits for an actor.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::oneshot;

use crate::model::ids::OperationId;
use crate::model::operation::OperationDetail;

/// Cheap to clone; all clones are one. Bounded by the requests in flight: each waits for one operation at most.
#[derive(Clone, Default)]
pub struct Completions {
    waiting: Arc<DashMap<OperationId, oneshot::Sender<OperationDetail>>>,
    /// Nobody waits: what is expected is not on record yet, so that it cannot end.
    is_impatient: bool,
}

/// A place among those who wait; given up when it is dropped.
pub struct Expected {
    operation: OperationId,
    completions: Completions,
    ended: oneshot::Receiver<OperationDetail>,
}

impl Completions {
    /// For requests that are tried before they are committed: to wait would be to wait for nothing.
    #[must_use]
    pub fn impatient() -> Self {
        Self { is_impatient: true, ..Self::default() }
    }

    /// To be called before the operation is committed.
    #[must_use]
    pub fn expect(&self, operation: OperationId) -> Expected {
        let (sender, ended) = oneshot::channel();
        self.waiting.insert(operation, sender);
        Expected { operation, completions: self.clone(), ended }
    }

    /// The store holds the operation's end.
    pub fn complete(&self, operation: OperationId, detail: OperationDetail) {
        if let Some((_, waiting)) = self.waiting.remove(&operation) {
            // Whoever waited may have gone in the meantime.
            let _ = waiting.send(detail);
        }
    }
}

impl Expected {
    /// How the operation ended, if it did so in time.
    pub async fn within(mut self, patience: Duration) -> Option<OperationDetail> {
        if self.completions.is_impatient {
            return None;
        }
        tokio::time::timeout(patience, &mut self.ended).await.ok()?.ok()
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.completions.waiting.remove(&self.operation);
    }
}
