//! Answers that are kept for a while, so that a request which is sent again is answered and not done again.
//!
//! The store keeps them beside the records because an answer is written in the very commit that it speaks of: there is
//! no moment at which the one is there without the other. What an answer says is the business of whoever wrote it.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::ids::OrganizationId;
use crate::model::record::Document;

/// How long an answer is kept. Clients that repeat a request do so within minutes; a day also covers a job that is
/// looked after in the morning.
pub const REMEMBERED_FOR: Duration = Duration::from_hours(24);

/// How many answers are kept for one organization. Each is a row of a kilobyte or two; who sends more requests with keys
/// in a day than this sends them without keys, or waits.
pub const REMEMBERED_MAX: usize = 10_000;

/// Which request it was: a digest of everything that tells it from others. Nobody can read from it what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey(pub [u8; 32]);

/// A digest of what was asked, so that another question under the same key is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content(pub [u8; 32]);

/// What is kept of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    pub request: RequestKey,
    /// Whose answers it counts among.
    pub organization: OrganizationId,
    pub at: Timestamp,
    pub content: Content,
    pub answer: Document,
}

impl Remembered {
    /// Has it been kept for long enough?
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.at <= horizon(now)
    }
}

/// What was kept at this time, or before it, is no longer kept.
#[must_use]
pub fn horizon(now: Timestamp) -> Timestamp {
    now.checked_sub(REMEMBERED_FOR).unwrap_or(Timestamp::MIN)
}
