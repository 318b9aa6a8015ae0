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
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::graph::message::Sighting;
use crate::graph::outcome::Outcome;
use crate::model::condition::{Reason, Statement};
use crate::model::edge::Holder;
use crate::model::ids::{Incarnation, Key, Kind, OperationId};
use crate::model::metadata::Metadata;
use crate::model::operation::{OperationFailure, Verb};
use crate::model::quota::Amounts;
use crate::model::record::{Document, Record, Revision};
use crate::providers::call::{CallName, ConsoleAddress, Fact, ProviderCall};
use crate::providers::{Deletion, ProviderError};
use crate::sabotage::{self, Defect};

/// Everything that a decision may look at.
pub struct View<'a> {
    /// As it was stored when the pass began, or when the pass last wrote it down.
    pub record: &'a Record,
    /// What is known of it by now, whether or not it is written down.
    pub detail: &'a Document,
    /// Who refers to it. Filled when it is being deleted.
    pub references: &'a [Holder],
    /// What it owns. Filled when it is being deleted.
    pub children: &'a [Child],
    /// What it waits for. Filled when it is not.
    pub gates: &'a BTreeMap<Key, Gate>,
    /// The records of what it waits for, or follows.
    pub dependencies: &'a BTreeMap<Key, Arc<Record>>,
    /// The records of what it owns and answers for. Filled for kinds that do, in the order of ids.
    pub members: &'a [Arc<Record>],
    /// The verbs that somebody asked for and that have not ended, oldest first.
    pub operations: &'a [OpenOperation],
    /// What calls of this pass have answered.
    pub results: &'a BTreeMap<CallName, Result<Fact, ProviderError>>,
    /// What a monitor last said, if that is newer than what is on record.
    pub sighting: Option<&'a Sighting>,
    /// Nobody has been able to look at its region for a while.
    pub is_unobserved: bool,
    pub now: Timestamp,
    /// How often a cloud may fail to bring something up before that is the end of it.
    pub creation_tries_max: u32,
}

/// A verb that is to be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenOperation {
    pub id: OperationId,
    pub incarnation: Incarnation,
    pub verb: Verb,
    pub expires: Timestamp,
    pub is_started: bool,
    /// Started by this very pass, so that nothing has been sent before it.
    pub is_ours: bool,
}

/// A resource that goes with this one: it is owned by it, or bridged to it.
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
    /// The same, of a resource that is as another one is: this is known of it, and this is how it is doing.
    Follow {
        detail: Document,
        healthy: Statement,
        outcome: Outcome,
    },
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Call(Box<ProviderCall>),
    /// Ask for the deletion of what goes with it.
    Cascade(Vec<Key>),
    /// Write down what is known, and say it of the Available axis, before anything else is done.
    Note {
        detail: Document,
        statement: Option<Statement>,
    },
    /// Write down how far a verb has come.
    Operate {
        operation: OperationId,
        progress: OperationProgress,
    },
    /// Change what another resource is to be.
    Govern(Order),
    /// Bring what is charged for it to this.
    Charge(Amounts),
    /// Give back what the resource holds and remove its record: the end.
    Finish,
}

/// A change of other resources' records, for which this one answers. Refused as a whole, as every commit is; what
/// stood in the way is found by the next look.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Makes them, in this order.
    Make(Vec<Made>),
    /// Replaces what is asked of one, unless somebody else has.
    Change {
        key: Key,
        expected: Revision,
        metadata: Box<Metadata>,
        spec: Document,
        /// What it newly uses.
        uses: Vec<Key>,
    },
    Delete(Vec<Key>),
}

/// A record that is to be, and what it refers to from the beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub record: Record,
    pub uses: Vec<Key>,
}

/// What a verb has come to.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationProgress {
    Started,
    Succeeded(Option<ConsoleAddress>),
    Failed { cause: OperationFailure, message: &'static str },
}

/// One step of making a resource, with how to unmake it.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait until another resource is ready. Nothing to unmake.
    Gate(Key),
    Provider {
        make: Box<ProviderCall>,
        unmake: Box<ProviderCall>,
    },
    /// Converges something inside of what an earlier step has made. It goes with that.
    Within(Box<ProviderCall>),
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
    if let Some(decision) = still_held(view) {
        return decision;
    }
    if sabotage::is_on(Defect::TrustObservations) && view.sighting == Some(&Sighting::Absent) {
        return Decision::Run(vec![Effect::Finish]);
    }
    match evaluate(step, Direction::Unmake, view) {
        Progress::Done => Decision::Run(vec![Effect::Finish]),
        Progress::Run(effects) => Decision::Run(effects),
        // Nobody can change what is being deleted, so nobody could ever free it from being parked.
        Progress::Stop(Outcome::UserActionRequired { .. }) => {
            let message = "the cloud refuses the deletion; trying again".to_owned();
            Decision::Conclude(Outcome::Retry { message, after: None })
        }
        Progress::Stop(outcome) => Decision::Conclude(outcome),
    }
}

/// What has to happen before anything of a resource may be unmade: what it owns is marked, nobody refers to it, and
/// what it owned is gone. `None` when all of that is so.
#[must_use]
pub fn still_held(view: &View<'_>) -> Option<Decision> {
    let unmarked = view.children.iter().filter(|child| !child.deleting).map(|child| child.key).collect::<Vec<_>>();
    if !unmarked.is_empty() {
        return Some(Decision::Run(vec![Effect::Cascade(unmarked)]));
    }
    if !view.references.is_empty() {
        let waits_for = view.references.iter().filter_map(|holder| match holder {
            Holder::Resource(key) => Some(*key),
            Holder::External(_) => None,
        });
        let message = format!("waiting for {} resources that still use it", view.references.len());
        return Some(waiting(message, waits_for.collect()));
    }
    if !view.children.is_empty() {
        let message = format!("waiting for {} owned resources to go", view.children.len());
        return Some(waiting(message, view.children.iter().map(|child| child.key).collect()));
    }
    None
}

/// Waits, on the way down.
#[must_use]
pub const fn waiting(message: String, waits_for: Vec<Key>) -> Decision {
    Decision::Conclude(Outcome::Yield { reason: Reason::Deprovisioning, message, waits_for, on_cloud: false })
}

fn evaluate(step: &Step, direction: Direction, view: &View<'_>) -> Progress {
    match (step, direction) {
        (Step::Gate(_) | Step::Within(_), Direction::Unmake) => Progress::Done,
        (Step::Gate(key), Direction::Make) => gate(*key, view),
        (Step::Provider { make, .. } | Step::Within(make), Direction::Make) => call(make, view),
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

/// Where the first gate that is not open leaves the resource; `None` when all are open.
#[must_use]
pub fn first_shut(gates: &[Key], view: &View<'_>) -> Option<Outcome> {
    gates.iter().find_map(|key| match gate(*key, view) {
        Progress::Stop(outcome) => Some(outcome),
        Progress::Done | Progress::Run(_) => None,
    })
}

fn gate(key: Key, view: &View<'_>) -> Progress {
    let who = |name: &str| match key.kind {
        // Hidden from users: they have never heard of it under its name.
        Kind::Identity => "its service principal".to_owned(),
        kind => format!("{} \"{name}\" ({})", kind.title(), key.id),
    };
    let wait =
        |reason, message| Progress::Stop(Outcome::Yield { reason, message, waits_for: vec![key], on_cloud: false });
    match view.gates.get(&key) {
        Some(Gate::Ready) => Progress::Done,
        Some(Gate::NotReady { name }) => wait(Reason::DependencyNotReady, format!("{} is not ready", who(name))),
        // A user can neither see nor mend a hidden principal: for them it is this resource that has failed.
        Some(Gate::Failed { name }) if key.kind == Kind::Identity => {
            wait(Reason::Errored, format!("{} has failed", who(name)))
        }
        Some(Gate::Failed { name }) => wait(Reason::DependencyFailed, format!("{} has failed", who(name))),
        Some(Gate::Missing) | None => Progress::Stop(Outcome::Terminal {
            reason: Reason::DependencyNotFound,
            message: format!("{} ({}) does not exist", key.kind.title(), key.id),
        }),
    }
}

fn call(call: &ProviderCall, view: &View<'_>) -> Progress {
    match view.results.get(&call.name()) {
        None => Progress::Run(vec![Effect::Call(Box::new(call.clone()))]),
        Some(Ok(Fact::Deletion(Deletion::Underway))) => {
            Progress::Stop(Outcome::on_cloud("waiting for the cloud to finish the deletion", Reason::Deprovisioning))
        }
        Some(Ok(fact)) if fact.is_unfinished() => {
            Progress::Stop(Outcome::on_cloud("waiting for the cloud to finish a change", Reason::Provisioning))
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
        ProviderError::PrincipalMissing => retry("its service principal is missing from the cloud", None),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::model::identity::{Identity, IdentityDetail, IdentitySpec};
    use crate::model::ids::{IdentityId, Incarnation, OrganizationId, ProjectId};
    use crate::model::metadata::{ApiVersion, Metadata, Placement, Principal};
    use crate::providers::{IdentityRequest, Observed, Sequence};

    type Results = BTreeMap<CallName, Result<Fact, ProviderError>>;

    fn record(deleting: bool) -> Record {
        let metadata = Metadata {
            incarnation: Incarnation(Uuid::from_u128(1)),
            name: "one".to_owned(),
            description: None,
            tags: None,
            placement: Placement::default(),
            principal: Principal { organization: None, project: None, actor: String::new() },
            creator: String::new(),
            modifier: None,
            created: jiff::Timestamp::UNIX_EPOCH,
            modified: None,
            generation: 1,
            deletion: deleting.then_some(jiff::Timestamp::UNIX_EPOCH),
            owner: None,
            charged: false,
            paused: false,
            resets: 0,
            api_version: ApiVersion::default(),
            deletion_protection: None,
            writer_version: 1,
        };
        Record::new::<Identity>(Uuid::from_u128(2), metadata, &IdentitySpec { hidden: true })
    }

    fn request() -> IdentityRequest {
        IdentityRequest {
            id: IdentityId(Uuid::from_u128(2)),
            incarnation: Incarnation(Uuid::from_u128(1)),
            organization: OrganizationId(Uuid::from_u128(3)),
            project: ProjectId(Uuid::from_u128(4)),
            resets: 0,
            detail: IdentityDetail::default(),
        }
    }

    fn making() -> Step {
        Step::Provider {
            make: Box::new(ProviderCall::ConvergeIdentity(request())),
            unmake: Box::new(ProviderCall::DeleteIdentity(request())),
        }
    }

    fn made() -> Fact {
        Fact::Identity(Observed { sequence: Sequence(1), fact: IdentityDetail::default() })
    }

    fn key(number: u128) -> Key {
        Key::new(Kind::Network, Uuid::from_u128(number))
    }

    /// Decides with everything spelled out.
    fn decided(step: &Step, record: &Record, results: &Results, around: (&[Holder], &[Child])) -> Decision {
        let gates = BTreeMap::from([
            (key(10), Gate::Ready),
            (key(11), Gate::NotReady { name: "slow".to_owned() }),
            (key(12), Gate::Failed { name: "broken".to_owned() }),
        ]);
        let (references, children) = around;
        let view = View {
            record,
            detail: &record.detail,
            references,
            children,
            gates: &gates,
            dependencies: &BTreeMap::new(),
            members: &[],
            operations: &[],
            results,
            sighting: None,
            is_unobserved: false,
            now: Timestamp::UNIX_EPOCH,
            creation_tries_max: 3,
        };
        decide(step, &view)
    }

    fn runs(decision: &Decision) -> Vec<CallName> {
        let Decision::Run(effects) = decision else { return Vec::new() };
        effects
            .iter()
            .filter_map(|effect| if let Effect::Call(call) = effect { Some(call.name()) } else { None })
            .collect()
    }

    #[test]
    fn a_serial_step_is_reached_only_when_those_before_it_are_done() {
        let nothing = Results::new();
        let open = Step::Serial(vec![Step::Gate(key(10)), making()]);
        assert_eq!(runs(&decided(&open, &record(false), &nothing, (&[], &[]))), [CallName::ConvergeIdentity]);
        let shut = Step::Serial(vec![Step::Gate(key(11)), making()]);
        let Decision::Conclude(Outcome::Yield { reason, waits_for, message, .. }) =
            decided(&shut, &record(false), &nothing, (&[], &[]))
        else {
            panic!("a shut gate yields");
        };
        assert_eq!((reason, waits_for), (Reason::DependencyNotReady, vec![key(11)]));
        assert_eq!(message, "Network \"slow\" (00000000-0000-0000-0000-00000000000b) is not ready");
    }

    #[test]
    fn b32_a_gate_that_leads_nowhere_is_not_retried_for_ever() {
        let lost = decided(&Step::Gate(key(99)), &record(false), &Results::new(), (&[], &[]));
        assert!(matches!(lost, Decision::Conclude(Outcome::Terminal { reason: Reason::DependencyNotFound, .. })));
        let failed = decided(&Step::Gate(key(12)), &record(false), &Results::new(), (&[], &[]));
        assert!(matches!(failed, Decision::Conclude(Outcome::Yield { reason: Reason::DependencyFailed, .. })));
    }

    #[test]
    fn concurrent_steps_keep_their_progress_and_report_the_most_severe_outcome() {
        let both = Step::Concurrent(vec![Step::Gate(key(11)), making()]);
        // One is stuck; the other is started all the same.
        assert_eq!(runs(&decided(&both, &record(false), &Results::new(), (&[], &[]))), [CallName::ConvergeIdentity]);
        let failed = Results::from([(CallName::ConvergeIdentity, Err(ProviderError::Rejected(String::new())))]);
        let worst = decided(&both, &record(false), &failed, (&[], &[]));
        assert!(matches!(worst, Decision::Conclude(Outcome::UserActionRequired { .. })), "{worst:?}");
    }

    #[test]
    fn what_is_not_wanted_is_unmade_until_it_is_confirmed_absent() {
        let unwanted = Step::Conditional { wanted: false, step: Box::new(making()) };
        assert_eq!(runs(&decided(&unwanted, &record(false), &Results::new(), (&[], &[]))), [CallName::DeleteIdentity]);
        let underway = Results::from([(CallName::DeleteIdentity, Ok(Fact::Deletion(Deletion::Underway)))]);
        let waiting = decided(&unwanted, &record(false), &underway, (&[], &[]));
        assert!(matches!(waiting, Decision::Conclude(Outcome::Yield { on_cloud: true, .. })));
        let absent = Results::from([(CallName::DeleteIdentity, Ok(Fact::Deletion(Deletion::Absent)))]);
        assert_eq!(decided(&unwanted, &record(false), &absent, (&[], &[])), Decision::Conclude(Outcome::Done));
    }

    #[test]
    fn deletion_goes_children_references_cloud_record_in_that_order() {
        let deleting = record(true);
        let nothing = Results::new();
        let child = |deleting| [Child { key: key(20), deleting }];
        let holder = [Holder::Resource(key(30))];
        let cascade = decided(&making(), &deleting, &nothing, (&holder, &child(false)));
        assert_eq!(cascade, Decision::Run(vec![Effect::Cascade(vec![key(20)])]));
        for around in [(&holder[..], &child(true)[..]), (&[], &child(true)[..])] {
            let waiting = decided(&making(), &deleting, &nothing, around);
            assert!(matches!(waiting, Decision::Conclude(Outcome::Yield { .. })), "{waiting:?}");
        }
        assert_eq!(runs(&decided(&making(), &deleting, &nothing, (&[], &[]))), [CallName::DeleteIdentity]);
        let underway = Results::from([(CallName::DeleteIdentity, Ok(Fact::Deletion(Deletion::Underway)))]);
        assert!(matches!(decided(&making(), &deleting, &underway, (&[], &[])), Decision::Conclude(_)));
        let absent = Results::from([(CallName::DeleteIdentity, Ok(Fact::Deletion(Deletion::Absent)))]);
        assert_eq!(decided(&making(), &deleting, &absent, (&[], &[])), Decision::Run(vec![Effect::Finish]));
    }

    #[test]
    fn b24_a_deletion_that_the_cloud_refuses_is_tried_again_and_never_parked() {
        let refused = Results::from([(CallName::DeleteIdentity, Err(ProviderError::Rejected(String::new())))]);
        let next = decided(&making(), &record(true), &refused, (&[], &[]));
        assert!(matches!(next, Decision::Conclude(Outcome::Retry { .. })), "{next:?}");
    }

    #[test]
    fn a_paused_resource_is_left_alone_unless_it_is_being_deleted() {
        let mut paused = record(false);
        paused.metadata.paused = true;
        assert_eq!(decided(&making(), &paused, &Results::new(), (&[], &[])), Decision::Conclude(Outcome::Paused));
        paused.metadata.deletion = Some(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(runs(&decided(&making(), &paused, &Results::new(), (&[], &[]))), [CallName::DeleteIdentity]);
    }

    #[test]
    fn nothing_of_the_clouds_own_words_reaches_a_user() {
        let secret = "tenant 7 password hunter2".to_owned();
        let errors = [
            ProviderError::Conflict(secret.clone()),
            ProviderError::Unavailable(secret.clone()),
            ProviderError::Rejected(secret.clone()),
            ProviderError::Inconsistent(secret.clone()),
        ];
        for error in errors {
            let said = dispose(&error).available(false, true).expect("says something").message;
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    fn steps() -> impl Strategy<Value = Step> {
        let leaf = prop_oneof![(10_u128..13).prop_map(|number| Step::Gate(key(number))), Just(making())];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Step::Serial),
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Step::Concurrent),
                (any::<bool>(), inner).prop_map(|(wanted, step)| Step::Conditional { wanted, step: Box::new(step) }),
            ]
        })
    }

    proptest! {
        /// Whatever the tree of steps: once every call has answered well, deciding again ends, and it ends with the
        /// record's removal exactly when the resource is being deleted.
        #[test]
        fn every_tree_of_steps_comes_to_an_end(step in steps(), deleting in any::<bool>()) {
            let record = record(deleting);
            let mut results = Results::new();
            for _ in 0..4 {
                match decided(&step, &record, &results, (&[], &[])) {
                    Decision::Conclude(outcome) => {
                        prop_assert!(!deleting, "a deletion whose calls went well concluded with {outcome:?}");
                        return Ok(());
                    }
                    Decision::Follow { .. } => prop_assert!(false, "steps follow nobody"),
                    Decision::Run(effects) if effects.contains(&Effect::Finish) => {
                        prop_assert!(deleting);
                        return Ok(());
                    }
                    Decision::Run(effects) => {
                        for effect in effects {
                            let Effect::Call(call) = effect else { continue };
                            let answer = match call.name() {
                                CallName::DeleteIdentity => Ok(Fact::Deletion(Deletion::Absent)),
                                _ => Ok(made()),
                            };
                            results.insert(call.name(), answer);
                        }
                    }
                }
            }
            prop_assert!(false, "did not end");
        }
    }
}
