//! What of a server is changed in place: its image by a rebuild, its flavor by a resize.
//!
//! One at a time, each from a quiet cloud. What the cloud has begun is ended first; then comes the image, then the
//! flavor. What is next is said by [`rebuild::next`] and [`resize::next`]; here it is carried out.

use std::time::Duration;

use super::super::decision::{Decision, dispose};
use super::{Decided, Making, conclude, note};
use crate::graph::outcome::Outcome;
use crate::model::condition::{Reason, Statement, Truth};
use crate::model::rebuild::{self, Rebuild, RebuildState, RebuildStep, RebuildView};
use crate::model::resize::{self, Resize, ResizeState, ResizeStep, ResizeView};
use crate::model::server::{CloudServerStatus, ServerDetail, ServerPhase, ServerSighting};
use crate::providers::call::{CallName, Fact, ProviderCall};
use crate::providers::{Deletion, ProviderError, ServerFact};

/// Which of the two is next, and how far it is.
enum Change {
    Rebuild(RebuildStep),
    Resize(ResizeStep),
}

impl Making<'_> {
    fn change(&self, fact: &ServerFact) -> Change {
        match self.rebuild_step(fact) {
            step if step != RebuildStep::Nothing && !self.is_being_resized(fact) => Change::Rebuild(step),
            _ => Change::Resize(self.resize_step(fact)),
        }
    }

    /// The cloud has begun a resize of ours, or may have: it takes no other order before that is over.
    fn is_being_resized(&self, fact: &ServerFact) -> bool {
        let begun = [CloudServerStatus::Resize, CloudServerStatus::VerifyResize];
        let shown = fact.server.as_ref().is_some_and(|server| begun.contains(&server.status));
        self.detail.resize.is_some_and(|resize| resize.state == ResizeState::Resizing || shown)
    }

    /// Is a monitor's word enough for what is next?
    pub(super) fn is_harmless(&self, fact: &ServerFact) -> bool {
        match self.change(fact) {
            Change::Resize(ResizeStep::Nothing) => !self.has_failed_to_boot(),
            Change::Rebuild(RebuildStep::Wait | RebuildStep::Settled(_)) => self.detail.rebuild.is_some(),
            // That it is done is not believed: a list that lags behind shows a flavor that it had before, and of what
            // is off the record nobody knows that it is still to be confirmed.
            Change::Resize(ResizeStep::Wait) => self.detail.resize.is_some(),
            Change::Rebuild(_) | Change::Resize(_) => false,
        }
    }

    pub(super) fn settle(&self, fact: &ServerFact) -> Decided {
        if let Some(sent) = self.result(CallName::RebuildServer) {
            return self.after_rebuild_order(sent);
        }
        if let Some(sent) = self.result(CallName::ResizeServer) {
            return self.after_resize_order(sent);
        }
        if let Some(sent) = self.result(CallName::ConfirmResize) {
            return after_confirmation(sent);
        }
        if let Some(taken) = self.result(CallName::RetireServer) {
            return after_retirement(taken);
        }
        match self.change(fact) {
            Change::Rebuild(step) => self.rebuild(step, fact),
            Change::Resize(step) => self.resize(step, fact),
        }
    }

    fn rebuild_step(&self, fact: &ServerFact) -> RebuildStep {
        let server = fact.server.as_ref();
        rebuild::next(&RebuildView {
            marker: self.detail.rebuild,
            desired: self.resource.spec.image,
            realised: self.detail.image,
            seen: server.and_then(|server| server.image),
            launched: self.detail.launched_at.is_some(),
            errored: has_failed(fact),
            busy: server.is_none_or(ServerSighting::is_busy),
        })
    }

    fn rebuild(&self, step: RebuildStep, fact: &ServerFact) -> Decided {
        match step {
            RebuildStep::Nothing => self.rest(fact),
            RebuildStep::Note(rebuild) => self.note_rebuild(rebuild),
            RebuildStep::Submit => self.call(|request| ProviderCall::RebuildServer(request, self.resource.spec.image)),
            RebuildStep::Wait if self.detail.launched_at.is_none() => self.rest(fact),
            RebuildStep::Wait => conclude(Outcome::on_cloud("the server is being rebuilt", Reason::Provisioning)),
            RebuildStep::Settled(image) => {
                let detail = ServerDetail { image: Some(image), rebuild: None, ..self.detail.clone() };
                Ok(Decision::Run(vec![note(&detail, None)]))
            }
            RebuildStep::Failed => conclude(Outcome::UserActionRequired {
                reason: Reason::ServerRebuildFailed,
                message: "the server could not be rebuilt with this image; ask for another one".to_owned(),
            }),
        }
    }

    /// The order is out: what was seen before it says nothing any more, so this pass ends here.
    fn after_rebuild_order(&self, sent: &Result<Fact, ProviderError>) -> Decided {
        let target = self.resource.spec.image;
        let accepted = Rebuild { target, state: RebuildState::Rebuilding };
        match sent {
            Ok(_) if self.detail.rebuild != Some(accepted) => self.note_rebuild(accepted),
            Ok(_) | Err(ProviderError::Conflict(_)) => {
                conclude(Outcome::on_cloud("the server is being rebuilt", Reason::Provisioning))
            }
            Err(error) => conclude(dispose(error)),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "reads as what it stands beside")]
    fn note_rebuild(&self, rebuild: Rebuild) -> Decided {
        let mut detail = ServerDetail { rebuild: Some(rebuild), ..self.detail.clone() };
        if rebuild.state == RebuildState::Rebuilding {
            detail.phase = ServerPhase::Rebuilding;
            detail.phase_seen = ServerPhase::Rebuilding;
        }
        let said = match rebuild.state {
            RebuildState::Initiated => Some("the server is about to be rebuilt with another image"),
            RebuildState::Rebuilding => Some("the server is being rebuilt"),
            RebuildState::Failed => None,
        };
        let statement = said.map(|message| Statement::new(Truth::False, Reason::Provisioning, message));
        Ok(Decision::Run(vec![note(&detail, statement)]))
    }

    fn resize_step(&self, fact: &ServerFact) -> ResizeStep {
        let server = fact.server.as_ref();
        resize::next(&ResizeView {
            marker: self.detail.resize,
            desired: self.resource.spec.flavor,
            realised: self.detail.flavor,
            seen: server.and_then(|server| server.flavor),
            launched: self.detail.launched_at.is_some(),
            errored: has_failed(fact),
            busy: server.is_none_or(ServerSighting::is_at_work),
            unconfirmed: server.is_some_and(|server| server.status == CloudServerStatus::VerifyResize),
        })
    }

    fn resize(&self, step: ResizeStep, fact: &ServerFact) -> Decided {
        match step {
            ResizeStep::Nothing => self.rest(fact),
            ResizeStep::Note(resize) => self.note_resize(resize),
            ResizeStep::Submit if self.resource.spec.replaces_machine() => {
                self.call(|request| ProviderCall::RetireServer(request, self.resource.spec.flavor))
            }
            ResizeStep::Submit => self.call(|request| ProviderCall::ResizeServer(request, self.resource.spec.flavor)),
            ResizeStep::Confirm => self.call(ProviderCall::ConfirmResize),
            ResizeStep::Wait if self.detail.launched_at.is_none() => self.rest(fact),
            ResizeStep::Wait if has_failed(fact) => conclude(Outcome::on_cloud(
                "the server has failed; it is resized when it runs again",
                Reason::Provisioning,
            )),
            ResizeStep::Wait => being_resized(),
            ResizeStep::Settled(flavor) => {
                let detail = ServerDetail { flavor: Some(flavor), resize: None, ..self.detail.clone() };
                Ok(Decision::Run(vec![note(&detail, None)]))
            }
            ResizeStep::Failed => could_not_be_resized(),
        }
    }

    /// The order is out: what was seen before it says nothing any more, so this pass ends here.
    fn after_resize_order(&self, sent: &Result<Fact, ProviderError>) -> Decided {
        // What was ordered is what is on record, whatever has been asked for meanwhile.
        let note_once = |state, then: fn() -> Decided| match self.detail.resize {
            Some(resize) if resize.state < state => self.note_resize(Resize { state, ..resize }),
            _ => then(),
        };
        match sent {
            Ok(_) => note_once(ResizeState::Resizing, being_resized),
            Err(ProviderError::Conflict(_)) => being_resized(),
            Err(ProviderError::Rejected(_) | ProviderError::Unsupported(_)) => {
                note_once(ResizeState::Failed, could_not_be_resized)
            }
            Err(error) => conclude(dispose(error)),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "reads as what it stands beside")]
    fn note_resize(&self, resize: Resize) -> Decided {
        let mut detail = ServerDetail { resize: Some(resize), ..self.detail.clone() };
        if resize.state == ResizeState::Resizing {
            detail.phase = ServerPhase::Resizing;
            detail.phase_seen = ServerPhase::Resizing;
        }
        let said = match resize.state {
            ResizeState::Initiated if self.resource.spec.replaces_machine() => {
                Some("the machine is about to be replaced by one with another flavor")
            }
            ResizeState::Initiated => Some("the server is about to be given another flavor"),
            ResizeState::Resizing => Some("the server is being resized"),
            ResizeState::Failed => None,
        };
        let statement = said.map(|message| Statement::new(Truth::False, Reason::Provisioning, message));
        Ok(Decision::Run(vec![note(&detail, statement)]))
    }
}

fn has_failed(fact: &ServerFact) -> bool {
    fact.server.as_ref().is_some_and(|server| server.status == CloudServerStatus::Error)
}

fn being_resized() -> Decided {
    conclude(Outcome::on_cloud("the server is being resized", Reason::Provisioning))
}

/// The machine goes; what is looked at next is made again with the flavor that is asked for.
fn after_retirement(taken: &Result<Fact, ProviderError>) -> Decided {
    let message = "the machine is being replaced by one with another flavor";
    match taken {
        Ok(Fact::Deletion(Deletion::Absent)) => {
            conclude(Outcome::Retry { message: message.to_owned(), after: Some(Duration::ZERO) })
        }
        Ok(_) => conclude(Outcome::on_cloud(message, Reason::Provisioning)),
        Err(error) => conclude(dispose(error)),
    }
}

fn could_not_be_resized() -> Decided {
    conclude(Outcome::UserActionRequired {
        reason: Reason::ServerResizeFailed,
        message: "the server could not be resized to this flavor; ask for another one".to_owned(),
    })
}

/// As after any order. Nobody can ask for anything that would make a cloud take a confirmation which it refuses, so that
/// is never parked: the next look shows what there is to be confirmed.
fn after_confirmation(sent: &Result<Fact, ProviderError>) -> Decided {
    match sent {
        Ok(_) => being_resized(),
        Err(ProviderError::Rejected(_) | ProviderError::Unsupported(_)) => conclude(Outcome::Retry {
            message: "the cloud does not complete the change of the flavor; trying again".to_owned(),
            after: None,
        }),
        Err(error) => conclude(dispose(error)),
    }
}
