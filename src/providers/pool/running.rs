//! A call from the moment it is begun until somebody knows how it ended, or nobody is left to know.
//!
//! Everything that must happen at the end (the record, the meters, the way back of the permit, the retiring of older
//! reads) happens in `Drop`, so that it happens for callers that are aborted or panic too.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout};

use super::Operation;
use super::permit::{Permit, Report};
use super::record::{Beginning, CallEnd, Outcome};
use super::shared::Shared;
use crate::model::ids::OrganizationId;
use crate::providers::{Observed, ProviderError, ProviderResult, Sequence};

/// What is being called, for whom.
pub struct Begun {
    pub operation: Operation,
    pub tenant: OrganizationId,
    pub mutation: bool,
    pub queued_at: Instant,
}

pub struct RunningCall {
    shared: Arc<Shared>,
    permit: Permit,
    begun: Begun,
    sequence: Sequence,
    issued_at: Instant,
    outcome: Outcome,
    retry_after: Option<Duration>,
}

impl RunningCall {
    pub fn begin(shared: &Arc<Shared>, permit: Permit, begun: Begun) -> Self {
        let issued_at = Instant::now();
        let Begun { ref operation, tenant, mutation, queued_at } = begun;
        let sequence = shared.recent.begin(&Beginning { operation, tenant, mutation, queued_at, issued_at });
        let shared = Arc::clone(shared);
        Self { shared, permit, begun, sequence, issued_at, outcome: Outcome::Abandoned, retry_after: None }
    }

    /// Awaits the call to its deadline.
    pub async fn run<T>(
        mut self,
        deadline: Duration,
        call: BoxFuture<'static, ProviderResult<T>>,
    ) -> ProviderResult<Observed<T>> {
        let Ok(result) = timeout(deadline, call).await else {
            self.outcome = Outcome::TimedOut;
            return Err(ProviderError::Unavailable(if self.begun.mutation {
                "the call did not answer in time; its outcome is unknown".to_owned()
            } else {
                "the read did not answer in time".to_owned()
            }));
        };
        self.outcome = result.as_ref().map_or_else(Outcome::of_error, |_| Outcome::Succeeded);
        if let Err(ProviderError::Throttled { retry_after }) = &result {
            self.retry_after = *retry_after;
        }
        result.map(|fact| Observed { sequence: self.sequence, fact })
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let finished_at = Instant::now();
        self.shared.recent.end(self.sequence, CallEnd { finished_at, outcome: self.outcome });
        self.shared.meters.ended(&self.begun.operation, self.outcome, finished_at - self.issued_at);
        if self.begun.mutation {
            self.shared.flights.retire(self.begun.tenant);
        }
        self.permit.report = Some(Report {
            operation: self.begun.operation.name,
            issued_at: self.issued_at,
            signal: self.outcome.signal(self.retry_after),
        });
    }
}
