//! A batch as a journalled sequence of single-document writes, for stores that have no transactions.
//!
//! ```text
//!   journal written ──▶ step 0 ──▶ … ──▶ step n ──▶ published, journal removed
//!                          │  a step is refused
//!                          ▼
//!                       undoing, in reverse ──▶ told, journal removed ──▶ the refusal
//! ```
//!
//! The simulation runs on this to show that nothing above the store needs more. A step and the note that it was
//! taken are one write, as they are where a step stamps the document it changes with the journal's id; so what a
//! crash leaves is always a prefix of steps (or a suffix of undoing), and resolving it never repeats a step.
//!
//! # Caveats
//! - Others write between the steps. Undoing takes back only what is still as the step left it.
//! - Whoever read the middle of a saga that was undone is told: the log then gets what the records are *now*. A
//!   refused batch may so move the position, but it never shows a record that does not exist.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::store::rules::{self, Plan};
use crate::store::{Batch, ChangeEvent, StoreError};

use super::Disk;

/// The sagas that are under way, or were when the process died.
#[derive(Default)]
pub(super) struct Journal {
    entries: BTreeMap<SagaId, Entry>,
    next: u64,
}

/// In the order in which sagas began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SagaId(u64);

struct Entry {
    batch: Batch,
    /// What has been done, step by step.
    done: Vec<Plan>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Exits: the entry is removed, or `Undoing`.
    Forward,
    /// Exits: the entry is removed.
    Undoing { remaining: usize },
}

impl Journal {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Disk {
    /// Checks the preconditions and writes the journal entry.
    pub(super) fn begin(&mut self, batch: Batch) -> Result<SagaId, StoreError> {
        rules::check(&mut self.tables, &batch.preconditions)?;
        let id = SagaId(self.journal.next);
        self.journal.next += 1;
        self.journal.entries.insert(id, Entry { batch, done: Vec::new(), phase: Phase::Forward });
        Ok(id)
    }

    /// Takes the next step; false when there is none left.
    pub(super) fn step(&mut self, id: SagaId, now: Timestamp) -> Result<bool, StoreError> {
        let Some(entry) = self.journal.entries.get_mut(&id) else { return Ok(false) };
        let Some(write) = entry.batch.writes.get(entry.done.len()) else { return Ok(false) };
        let plan = rules::plan_step(&mut self.tables, write)?;
        for change in &plan.changes {
            self.tables.apply(change, now);
        }
        entry.done.push(plan);
        Ok(true)
    }

    /// Takes back the last step not yet taken back; false when there is none left.
    pub(super) fn unstep(&mut self, id: SagaId, now: Timestamp) -> bool {
        let Some(entry) = self.journal.entries.get_mut(&id) else { return false };
        let remaining = match entry.phase {
            Phase::Forward => entry.done.len(),
            Phase::Undoing { remaining } => remaining,
        };
        let Some(last) = remaining.checked_sub(1) else { return false };
        for change in entry.done[last].changes.iter().rev() {
            self.tables.undo(change, now);
        }
        entry.phase = Phase::Undoing { remaining: last };
        true
    }

    /// Ends a saga either way: what it touched is published as it is now, and the journal forgets it.
    pub(super) fn finish(&mut self, id: SagaId, now: Timestamp) -> Plan {
        let mut whole = Plan::default();
        let Some(entry) = self.journal.entries.remove(&id) else { return whole };
        for step in entry.done {
            whole.absorb(step);
        }
        for event in &whole.events {
            let key = event.key();
            let told = match (event, self.tables.current(key)) {
                (event, None) => ChangeEvent::Removed(event.former()),
                (rules::Event::Referenced(_), Some(_)) => ChangeEvent::Referenced,
                (_, Some(record)) => ChangeEvent::Put(record),
            };
            self.log.push(key, told, now);
        }
        whole
    }

    /// Finishes or undoes what a crash has left. Called before the store is handed out.
    pub(super) fn resolve(&mut self, now: Timestamp) {
        let left = self.journal.entries.keys().copied().collect::<Vec<_>>();
        for id in left {
            let forward = self.journal.entries.get(&id).is_some_and(|entry| entry.phase == Phase::Forward);
            let finished = forward
                && loop {
                    match self.step(id, now) {
                        Ok(true) => {}
                        Ok(false) => break true,
                        Err(_) => break false,
                    }
                };
            if !finished {
                while self.unstep(id, now) {}
            }
            self.finish(id, now);
        }
    }
}
