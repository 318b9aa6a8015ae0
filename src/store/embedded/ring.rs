//! The latest changes, kept at hand.
//!
//! Readers of the change log follow it closely, so nearly all of them are served from here, with the very records
//! that were committed. Whoever lags further reads the log on disk. A record that has changed lately is the one that
//! is asked for by its key, too: a pass looks at what has just moved, and spares itself the way to the disk.

use std::collections::{BTreeMap, VecDeque};

use crate::model::ids::Key;
use crate::store::{Change, ChangeEvent, Position};

/// Some seconds of the busiest writing. Larger would hold more records in memory than a reader ever lags behind
/// (a record is a few kilobytes); smaller would send a reader that paused for a second to the disk.
const RING_MAX: usize = 16_384;

pub(super) struct Ring {
    changes: VecDeque<Change>,
    latest: Position,
    /// Where the last word on a record stands.
    newest: BTreeMap<Key, Position>,
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
        Self { changes: VecDeque::new(), latest, newest: BTreeMap::new() }
    }

    pub(super) const fn latest(&self) -> Position {
        self.latest
    }

    /// Positions follow each other without gaps.
    pub(super) fn extend(&mut self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            if self.changes.len() == RING_MAX {
                self.forget_oldest();
            }
            if !matches!(change.event, ChangeEvent::Referenced) {
                self.newest.insert(change.key, change.position);
            }
            self.latest = change.position;
            self.changes.push_back(change);
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.changes.pop_front() else { return };
        if self.newest.get(&oldest.key) == Some(&oldest.position) {
            self.newest.remove(&oldest.key);
        }
    }

    /// How a record was last committed, or that it was removed; `None` when it has not changed lately.
    pub(super) fn last_word(&self, key: Key) -> Option<&ChangeEvent> {
        let position = self.newest.get(&key)?;
        let at = usize::try_from(position.0 - self.before_first() - 1).ok()?;
        self.changes.get(at).map(|change| &change.event)
    }

    fn before_first(&self) -> u64 {
        self.latest.0 - self.changes.len() as u64
    }

    pub(super) fn after(&self, after: Position, limit: usize) -> Served {
        if after > self.latest {
            return Served::Nobody;
        }
        let Some(skip) = after.0.checked_sub(self.before_first()) else { return Served::Log };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        Served::Here(self.changes.iter().skip(skip).take(limit).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::Kind;
    use crate::store::Former;

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

    #[test]
    fn the_last_word_on_a_record_is_at_hand_until_the_ring_has_moved_on() {
        let mut ring = Ring::new(Position(10));
        let key = |number: u64| Key::new(Kind::Network, uuid::Uuid::from_u64_pair(0, number));
        let change = |position: u64, number: u64, event: ChangeEvent| Change {
            position: Position(position),
            key: key(number),
            event,
        };
        ring.extend([change(11, 1, ChangeEvent::Removed(Former::default())), change(12, 1, ChangeEvent::Referenced)]);
        assert!(
            matches!(ring.last_word(key(1)), Some(ChangeEvent::Removed(_))),
            "who refers to it is no word on the record itself"
        );
        assert!(ring.last_word(key(2)).is_none());
        let last = 12 + RING_MAX as u64;
        ring.extend((13..=last).map(|position| change(position, position, ChangeEvent::Removed(Former::default()))));
        assert!(ring.last_word(key(1)).is_none(), "it has fallen out of the ring");
        assert!(matches!(ring.last_word(key(13)), Some(ChangeEvent::Removed(_))));
        assert_eq!(ring.newest.len(), RING_MAX);
    }
}
