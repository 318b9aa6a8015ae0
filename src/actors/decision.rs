//! Decisions: pure, from a view of everything that may matter to what is done next.
//!
//! A kind's way up and down is a tree of [`Step`]s. Evaluating it against a [`View`] says either what to run now or
//! where the pass ends; nothing is remembered between evaluations except the results in the view, so the same call
//! serves the actor, a dry run and a property test.
//!
//! Deletion is the same for every kind and lives here alone:
//!
//! ```text
//!   cascade to owned children ─▶ references drained ─▶ children gone ─▶ steps undone, each confirmed absent
//!                                                       ─▶ references, numbers, quota released, record removed
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use crate::graph::message::Sighting;
use crate::graph::outcome::Outcome;
use crate::model::condition::Reason;
use crate::model::edge::Holder;
use crate::model::ids::Key;
use crate::model::record::Record;
use crate::providers::call::{CallName, Fact, ProviderCall};
use crate::providers::{Deletion, ProviderError};
use crate::sabotage::{self, Defect};

/// Everything that a decision may look at.
pub struct View<'a> {
    pub record: &'a Record,
    /// Who refers to it. Filled when it is being deleted.
    pub references: &'a [Holder],
    /// What it owns. Filled when it is being deleted.
    pub children: &'a [Child],
    /// What it waits for. Filled when it is not.
    pub gates: &'a BTreeMap<Key, Gate>,
    /// What calls of this pass have answered.
    pub results: &'a BTreeMap<CallName, Result<Fact, ProviderError>>,
    /// What a monitor last said, if that is newer than what is on record.
    pub sighting: Option<&'a Sighting>,
}

/// A resource that this one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    pub key: Key,
    pub deleting: bool,
}

/// How something that is waited for stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    Ready,
    NotReady { name: String },
    Failed { name: String },
    Missing,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Run these, side by side, then decide again.
    Run(Vec<Effect>),
    Conclude(Outcome),
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Call(ProviderCall),
    /// Ask for the deletion of owned resources.
    Cascade(Vec<Key>),
    /// Give back what the resource holds and remove its record: the end.
    Finish,
}

/// One step of making a resource, with how to unmake it.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait until another resource is ready. Nothing to unmake.
    Gate(Key),
    Provider {
        make: ProviderCall,
        unmake: ProviderCall,
    },
    /// One after the other; undone in reverse; stops at the first that is not done.
    Serial(Vec<Step>),
    /// All at once; every one keeps its progress; the most severe outcome is reported once all have stopped.
    Concurrent(Vec<Step>),
    /// Not wanted means actively unmade until confirmed absent.
    Conditional {
        wanted: bool,
        step: Box<Step>,
    },
}

/// How far a step has come.
#[derive(Clone, Debug, PartialEq)]
enum Progress {
    Done,
    Run(Vec<Effect>),
    Stop(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Make,
    Unmake,
}

/// What happens next to a resource whose making is `step`.
#[must_use]
pub fn decide(step: &Step, view: &View<'_>) -> Decision {
    if view.record.metadata.is_deleting() {
        return unmake(step, view);
    }
    if view.record.metadata.paused {
        return Decision::Conclude(Outcome::Paused);
    }
    match evaluate(step, Direction::Make, view) {
        Progress::Done => Decision::Conclude(Outcome::Done),
        Progress::Run(effects) => Decision::Run(effects),
        Progress::Stop(outcome) => Decision::Conclude(outcome),
    }
}

fn unmake(step: &Step, view: &View<'_>) -> Decision {
    let unmarked = view.children.iter().filter(|child| !child.deleting).map(|child| child.key).collect::<Vec<_>>();
    if !unmarked.is_empty() {
        return Decision::Run(vec![Effect::Cascade(unmarked)]);
    }
    if !view.references.is_empty() {
        let waits_for = view.references.iter().filter_map(|holder| match holder {
            Holder::Resource(key) => Some(*key),
            Holder::External(_) => None,
        });
        let message = format!("waiting for {} resources that still use it", view.references.len());
        return waiting(message, waits_for.collect());
    }
    if !view.children.is_empty() {
        let message = format!("waiting for {} owned resources to go", view.children.len());
        return waiting(message, view.children.iter().map(|child| child.key).collect());
    }
    if sabotage::is_on(Defect::TrustObservations) && view.sighting == Some(&Sighting::Absent) {
        return Decision::Run(vec![Effect::Finish]);
    }
    match evaluate(step, Direction::Unmake, view) {
        Progress::Done => Decision::Run(vec![Effect::Finish]),
        Progress::Run(effects) => Decision::Run(effects),
        Progress::Stop(outcome) => Decision::Conclude(outcome),
    }
}

const fn waiting(message: String, waits_for: Vec<Key>) -> Decision {
    Decision::Conclude(Outcome::Yield { reason: Reason::Deprovisioning, message, waits_for, on_cloud: false })
}

fn evaluate(step: &Step, direction: Direction, view: &View<'_>) -> Progress {
    match (step, direction) {
        (Step::Gate(_), Direction::Unmake) => Progress::Done,
        (Step::Gate(key), Direction::Make) => gate(*key, view),
        (Step::Provider { make, .. }, Direction::Make) => call(make, view),
        (Step::Provider { unmake, .. }, Direction::Unmake) => call(unmake, view),
        (Step::Serial(steps), Direction::Make) => serial(steps.iter(), direction, view),
        (Step::Serial(steps), Direction::Unmake) => serial(steps.iter().rev(), direction, view),
        (Step::Concurrent(steps), _) => concurrent(steps, direction, view),
        (Step::Conditional { wanted: true, step }, _) => evaluate(step, direction, view),
        (Step::Conditional { wanted: false, step }, _) => evaluate(step, Direction::Unmake, view),
    }
}

fn serial<'a>(steps: impl Iterator<Item = &'a Step>, direction: Direction, view: &View<'_>) -> Progress {
    steps
        .map(|step| evaluate(step, direction, view))
        .find(|progress| *progress != Progress::Done)
        .unwrap_or(Progress::Done)
}

fn concurrent(steps: &[Step], direction: Direction, view: &View<'_>) -> Progress {
    let mut effects = Vec::new();
    let mut worst: Option<Outcome> = None;
    for step in steps {
        match evaluate(step, direction, view) {
            Progress::Done => {}
            Progress::Run(mut more) => effects.append(&mut more),
            Progress::Stop(outcome) => {
                if worst.as_ref().is_none_or(|worst| outcome.severity() > worst.severity()) {
                    worst = Some(outcome);
                }
            }
        }
    }
    match (effects.is_empty(), worst) {
        (false, _) => Progress::Run(effects),
        (true, Some(worst)) => Progress::Stop(worst),
        (true, None) => Progress::Done,
    }
}

fn gate(key: Key, view: &View<'_>) -> Progress {
    let title = key.kind.title();
    let id = key.id;
    let wait =
        |reason, message| Progress::Stop(Outcome::Yield { reason, message, waits_for: vec![key], on_cloud: false });
    match view.gates.get(&key) {
        Some(Gate::Ready) => Progress::Done,
        Some(Gate::NotReady { name }) => {
            wait(Reason::DependencyNotReady, format!("{title} \"{name}\" ({id}) is not ready"))
        }
        Some(Gate::Failed { name }) => wait(Reason::DependencyFailed, format!("{title} \"{name}\" ({id}) has failed")),
        Some(Gate::Missing) | None => Progress::Stop(Outcome::Terminal {
            reason: Reason::DependencyNotFound,
            message: format!("{title} ({id}) does not exist"),
        }),
    }
}

fn call(call: &ProviderCall, view: &View<'_>) -> Progress {
    match view.results.get(&call.name()) {
        None => Progress::Run(vec![Effect::Call(call.clone())]),
        Some(Ok(Fact::Deletion(Deletion::Underway))) => {
            Progress::Stop(Outcome::on_cloud("waiting for the cloud to finish the deletion", Reason::Deprovisioning))
        }
        Some(Ok(_)) => Progress::Done,
        Some(Err(error)) => Progress::Stop(dispose(error)),
    }
}

/// What an error means for the resource. Says nothing of the cloud's own words: those go to the operator's log.
#[must_use]
pub fn dispose(error: &ProviderError) -> Outcome {
    let retry = |message: &str, after: Option<Duration>| Outcome::Retry { message: message.to_owned(), after };
    match error {
        ProviderError::Throttled { retry_after } => retry("the cloud asks us to slow down", *retry_after),
        ProviderError::Unavailable(_) => retry("the cloud cannot be reached; trying again", None),
        ProviderError::Unauthorized => retry("the cloud does not accept our credentials; trying again", None),
        ProviderError::Quota => retry("the cloud has no capacity left; trying again", None),
        ProviderError::NotFound | ProviderError::Conflict(_) => retry("the cloud is changing; trying again", None),
        ProviderError::Ledger(_) => retry("progress could not be recorded; trying again", None),
        ProviderError::Cancelled => retry("interrupted", Some(Duration::ZERO)),
        ProviderError::Rejected(_) => Outcome::UserActionRequired {
            reason: Reason::Errored,
            message: "the cloud does not accept this specification".to_owned(),
        },
        ProviderError::Inconsistent(_) => Outcome::Terminal {
            reason: Reason::Errored,
            message: "the cloud holds more than one of this resource; an operator must look".to_owned(),
        },
        ProviderError::Unsupported(_) => Outcome::Terminal {
            reason: Reason::Errored,
            message: "the region cannot provide this kind of resource".to_owned(),
        },
    }
}
