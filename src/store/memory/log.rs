//! What the memory store remembers of the past: the change log and the histories, both bounded.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use crate::model::condition::Transition;
use crate::model::ids::Key;
use crate::store::{CHANGE_LOG_MAX, Change, ChangeEvent, Changes, HISTORY_MAX, Position, RETENTION};

/// The changes that readers can still ask for, oldest first.
#[derive(Default)]
pub(super) struct ChangeLog {
    entries: VecDeque<(Timestamp, Change)>,
    latest: Position,
}

impl ChangeLog {
    pub(super) fn push(&mut self, key: Key, event: ChangeEvent, now: Timestamp) {
        self.latest = Position(self.latest.0 + 1);
        self.entries.push_back((now, Change { position: self.latest, key, event }));
    }

    pub(super) const fn latest(&self) -> Position {
        self.latest
    }

    pub(super) fn after(&self, after: Position, limit: usize) -> Changes {
        let trimmed_through = self.latest.0 - self.entries.len() as u64;
        // A position that was never given out comes from another disk, or from before a restore.
        let Some(skip) = after.0.checked_sub(trimmed_through).filter(|_| after <= self.latest) else {
            return Changes::Resync(self.latest);
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        Changes::Next(self.entries.iter().skip(skip).take(limit).map(|(_, change)| change.clone()).collect())
    }

    pub(super) fn trim(&mut self, now: Timestamp) {
        while let Some((at, _)) = self.entries.front() {
            if self.entries.len() as u64 <= CHANGE_LOG_MAX && !is_over(*at, now) {
                break;
            }
            self.entries.pop_front();
        }
    }
}

/// The last transitions of each resource.
#[derive(Default)]
pub(super) struct History {
    transitions: BTreeMap<Key, VecDeque<Transition>>,
    /// Which resources went when, oldest first.
    gone: VecDeque<(Timestamp, Key)>,
}

impl History {
    pub(super) fn append(&mut self, key: Key, transitions: &[Transition]) {
        let kept = self.transitions.entry(key).or_default();
        kept.extend(transitions.iter().cloned());
        kept.drain(..kept.len().saturating_sub(HISTORY_MAX));
    }

    /// Removes the newest entries again, as far as they are still the newest.
    pub(super) fn take_back(&mut self, key: Key, transitions: &[Transition]) {
        let Some(kept) = self.transitions.get_mut(&key) else { return };
        for transition in transitions.iter().rev() {
            if kept.back() == Some(transition) {
                kept.pop_back();
            }
        }
    }

    pub(super) fn forget(&mut self, key: Key) {
        self.transitions.remove(&key);
    }

    pub(super) fn removed(&mut self, key: Key, now: Timestamp) {
        if self.transitions.contains_key(&key) {
            self.gone.push_back((now, key));
        }
    }

    pub(super) fn of(&self, key: Key) -> Vec<Transition> {
        self.transitions.get(&key).map(|kept| kept.iter().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn trim(&mut self, now: Timestamp, exists: impl Fn(Key) -> bool) {
        while let Some((_, key)) = self.gone.front().copied().filter(|(at, _)| is_over(*at, now)) {
            self.gone.pop_front();
            // Made and removed again meanwhile: the later removal counts.
            let removed_later = self.gone.iter().any(|(_, later)| *later == key);
            if !exists(key) && !removed_later {
                self.transitions.remove(&key);
            }
        }
    }
}

fn is_over(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at).unsigned_abs() > RETENTION && now > at
}
