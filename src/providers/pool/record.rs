//! What was asked of the cloud lately: a bounded ring, readable without disturbing anybody.
//!
//! The ring also numbers the calls: a sequence is drawn under the same lock under which the record is entered, so the
//! ring is in the order of sequences and a call that ends finds its record by binary search.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::permit::Signal;
use super::{Operation, Service};
use crate::model::ids::OrganizationId;
use crate::providers::{ProviderError, Sequence};

/// One call that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    pub sequence: Sequence,
    pub service: Service,
    pub operation: &'static str,
    pub subject: String,
    pub tenant: OrganizationId,
    pub mutation: bool,
    pub queued_at: Instant,
    pub issued_at: Instant,
    /// Absent while the call is under way.
    pub end: Option<CallEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEnd {
    pub finished_at: Instant,
    pub outcome: Outcome,
}

/// How a call ended, without the words of the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Succeeded,
    NotFound,
    Conflict,
    Throttled,
    Quota,
    Unauthorized,
    Unavailable,
    TimedOut,
    Rejected,
    Inconsistent,
    Unsupported,
    /// The record could not be written: nothing about the cloud.
    Ledger,
    /// Nobody waited for the end: cancelled, aborted or panicked.
    Abandoned,
}

impl Outcome {
    pub const fn of_error(error: &ProviderError) -> Self {
        match error {
            ProviderError::NotFound | ProviderError::PrincipalMissing => Self::NotFound,
            ProviderError::Conflict(_) => Self::Conflict,
            ProviderError::Throttled { .. } => Self::Throttled,
            ProviderError::Quota => Self::Quota,
            ProviderError::Unauthorized => Self::Unauthorized,
            ProviderError::Unavailable(_) => Self::Unavailable,
            ProviderError::Rejected(_) => Self::Rejected,
            ProviderError::Inconsistent(_) => Self::Inconsistent,
            ProviderError::Unsupported(_) => Self::Unsupported,
            ProviderError::Cancelled => Self::Abandoned,
            ProviderError::Ledger(_) => Self::Ledger,
        }
    }

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::NotFound => "not-found",
            Self::Conflict => "conflict",
            Self::Throttled => "throttled",
            Self::Quota => "quota",
            Self::Unauthorized => "unauthorized",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed-out",
            Self::Rejected => "rejected",
            Self::Inconsistent => "inconsistent",
            Self::Unsupported => "unsupported",
            Self::Ledger => "ledger",
            Self::Abandoned => "abandoned",
        }
    }

    /// What it says about the service. Only silence counts against it; what never reached it says nothing.
    pub const fn signal(self, retry_after: Option<std::time::Duration>) -> Signal {
        match self {
            Self::Throttled => Signal::Throttled { retry_after },
            Self::Unavailable | Self::TimedOut => Signal::NoAnswer,
            Self::Unsupported | Self::Ledger | Self::Abandoned => Signal::Nothing,
            Self::Succeeded
            | Self::NotFound
            | Self::Conflict
            | Self::Quota
            | Self::Unauthorized
            | Self::Rejected
            | Self::Inconsistent => Signal::Answered,
        }
    }
}

/// What is known of a call when it is begun.
pub struct Beginning<'a> {
    pub operation: &'a Operation,
    pub tenant: OrganizationId,
    pub mutation: bool,
    pub queued_at: Instant,
    pub issued_at: Instant,
}

pub struct Recent {
    ring: Mutex<Ring>,
    max: usize,
}

struct Ring {
    /// Sequences start at one, so that the default, zero, is older than every call.
    next: u64,
    calls: VecDeque<CallRecord>,
}

impl Recent {
    pub fn new(max: usize) -> Self {
        Self { ring: Mutex::new(Ring { next: 1, calls: VecDeque::new() }), max: max.max(1) }
    }

    pub fn begin(&self, beginning: &Beginning<'_>) -> Sequence {
        let mut ring = self.lock();
        let sequence = Sequence(ring.next);
        ring.next += 1;
        if ring.calls.len() >= self.max {
            ring.calls.pop_front();
        }
        ring.calls.push_back(CallRecord {
            sequence,
            service: beginning.operation.service,
            operation: beginning.operation.name,
            subject: beginning.operation.subject.clone(),
            tenant: beginning.tenant,
            mutation: beginning.mutation,
            queued_at: beginning.queued_at,
            issued_at: beginning.issued_at,
            end: None,
        });
        sequence
    }

    /// A call whose record has left the ring meanwhile is not missed.
    pub fn end(&self, sequence: Sequence, end: CallEnd) {
        let mut ring = self.lock();
        if let Ok(index) = ring.calls.binary_search_by_key(&sequence, |call| call.sequence) {
            ring.calls[index].end = Some(end);
        }
    }

    /// Oldest first.
    pub fn snapshot(&self) -> Vec<CallRecord> {
        self.lock().calls.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
