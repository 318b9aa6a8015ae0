//! The latest changes, kept at hand.
//!
//! Readers of the change log follow it closely, so nearly all of them are served from here, with the very records
//! that were committed. Whoever lags further reads the log on disk.

use std::collections::VecDeque;

use crate::store::{Change, Position};

/// Some seconds of the busiest writing. Larger would hold more records in memory than a reader ever lags behind
/// (a record is a few kilobytes); smaller would send a reader that paused for a second to the disk.
const RING_MAX: usize = 16_384;

pub(super) struct Ring {
    changes: VecDeque<Change>,
    latest: Position,
}

/// Who can answer a reader.
pub(super) enum Served {
    Here(Vec<Change>),
    /// Further back than the ring reaches.
    Log,
    /// Ahead of everything: the position is of another database, or from before a restore.
    Nobody,
}

impl Ring {
    pub(super) const fn new(latest: Position) -> Self {
        Self { changes: VecDeque::new(), latest }
    }

    pub(super) const fn latest(&self) -> Position {
        self.latest
    }

    /// Positions follow each other without gaps.
    pub(super) fn extend(&mut self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            self.latest = change.position;
            if self.changes.len() == RING_MAX {
                self.changes.pop_front();
            }
            self.changes.push_back(change);
        }
    }

    pub(super) fn after(&self, after: Position, limit: usize) -> Served {
        if after > self.latest {
            return Served::Nobody;
        }
        let before_first = self.latest.0 - self.changes.len() as u64;
        let Some(skip) = after.0.checked_sub(before_first) else { return Served::Log };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        Served::Here(self.changes.iter().skip(skip).take(limit).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{Key, Kind};
    use crate::store::{ChangeEvent, Former};

    fn change(position: u64) -> Change {
        let key = Key::new(Kind::Network, uuid::Uuid::nil());
        Change { position: Position(position), key, event: ChangeEvent::Removed(Former::default()) }
    }

    #[test]
    fn a_reader_that_lags_behind_the_ring_is_sent_to_the_log() {
        let mut ring = Ring::new(Position(10));
        let last = 10 + RING_MAX as u64 + 5;
        ring.extend((11..=last).map(change));
        assert!(matches!(ring.after(Position(14), 5), Served::Log));
        let Served::Here(changes) = ring.after(Position(15), 2) else { panic!("the ring reaches back to 16") };
        assert_eq!(changes.iter().map(|change| change.position.0).collect::<Vec<_>>(), [16, 17]);
        assert!(matches!(ring.after(Position(last), 2), Served::Here(none) if none.is_empty()));
        assert!(matches!(ring.after(Position(last + 1), 2), Served::Nobody));
    }
}
