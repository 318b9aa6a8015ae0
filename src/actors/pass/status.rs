//! What a pass will say of its resource, and what the log says once it is said.

use super::super::kind::KindEntry;
use crate::model::condition::{Axis, Condition, Conditions, Statement, Transition};
use crate::model::ids::Kind;
use crate::model::record::{Document, Record};

/// What the status is to say; written when it differs from what is stored.
#[derive(Clone)]
pub(super) struct Status {
    pub conditions: Conditions,
    pub detail: Document,
    pub transitions: Vec<Moved>,
    pub dirty: bool,
}

/// A transition, and what the axis said before it.
#[derive(Clone)]
pub(super) struct Moved {
    pub transition: Transition,
    before: Option<Condition>,
}

impl Status {
    pub fn of(record: &Record) -> Self {
        Self {
            conditions: record.conditions.clone(),
            detail: record.detail.clone(),
            transitions: Vec::new(),
            dirty: false,
        }
    }

    pub fn state(&mut self, axis: Axis, statement: Statement, record: &Record, now: jiff::Timestamp) {
        let generation = record.metadata.generation;
        let (status, reason, message) = (statement.status, statement.reason, statement.message.clone());
        let before = self.conditions.axis(axis).cloned();
        if self.conditions.state(axis, statement, generation, now) {
            let transition = Transition { at: now, axis, status, reason, message, observed_generation: generation };
            self.transitions.push(Moved { transition, before });
            self.dirty = true;
        }
    }

    /// Takes over what is known now, and what follows from it for the Active axis.
    pub fn know(&mut self, entry: &KindEntry, detail: Document, record: &Record, now: jiff::Timestamp) {
        if self.detail == detail {
            return;
        }
        if let Some(statement) = (entry.active)(&detail) {
            self.state(Axis::Active, statement, record, now);
        }
        self.detail = detail;
        self.dirty = true;
    }
}

/// One structured line per change of an axis, after it is on record. The Active axis has a stream of its own.
pub(super) fn log_transition(record: &Record, moved: &Moved) {
    let (placement, transition) = (&record.metadata.placement, &moved.transition);
    let stream = if transition.axis == Axis::Active { "lifecycle" } else { "provisioning" };
    tracing::info!(
        kind = record.key.kind.word(),
        id = %record.key.id,
        organization = placement.organization.map(tracing::field::display),
        project = placement.project.map(tracing::field::display),
        axis = ?transition.axis,
        status = ?transition.status,
        reason = ?transition.reason,
        text = transition.message,
        observed_generation = transition.observed_generation,
        "{stream}"
    );
    if record.key.kind == Kind::Server {
        log_machine(record, moved);
    }
}

/// The two lines that dashboards of existing installations read.
fn log_machine(record: &Record, moved: &Moved) {
    let (placement, transition) = (&record.metadata.placement, &moved.transition);
    let milliseconds = |since: jiff::Timestamp| transition.at.duration_since(since).as_millis();
    let before = moved.before.as_ref();
    let (instance_id, org_id) = (record.key.id, placement.organization.map(tracing::field::display));
    let region_id = placement.region.map(tracing::field::display);
    match transition.axis {
        Axis::Active => tracing::info!(
            %instance_id,
            org_id,
            region_id,
            from_phase = before.map(|before| tracing::field::debug(before.reason)),
            to_phase = ?transition.reason,
            time_since_creation_ms = milliseconds(record.metadata.created),
            "instance phase transition"
        ),
        Axis::Healthy => tracing::info!(
            %instance_id,
            org_id,
            region_id,
            from_state = before.map(|before| tracing::field::debug(before.reason)),
            to_state = ?transition.reason,
            duration_ms = before.map(|before| milliseconds(before.last_transition)),
            "instance state transition"
        ),
        Axis::Available => {}
    }
}
