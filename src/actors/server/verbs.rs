//! The verbs that somebody asked of a server: in the order in which they were asked for, each sent once.

use super::super::decision::{Effect, OpenOperation, OperationProgress};
use super::{Making, note};
use crate::model::operation::{OperationFailure, Verb};
use crate::model::record::CorruptRecord;
use crate::model::server::{ServerDetail, ServerPhase};
use crate::providers::call::{CallName, Fact, ProviderCall};
use crate::providers::{PowerAction, ProviderError, ServerRequest};

impl Making<'_> {
    /// The next thing to do about verbs, in the order in which they were asked for; `None` when there is nothing, or
    /// nothing now.
    pub(super) fn operate(&self) -> Result<Option<Vec<Effect>>, CorruptRecord> {
        self.view.operations.first().map_or(Ok(None), |operation| self.carry_out(operation))
    }

    fn carry_out(&self, operation: &OpenOperation) -> Result<Option<Vec<Effect>>, CorruptRecord> {
        let progress = |progress| vec![Effect::Operate { operation: operation.id, progress }];
        let failed = |cause, message| Ok(Some(progress(OperationProgress::Failed { cause, message })));
        let answer = self.result(CallName::Operate(operation.id));
        match answer {
            Some(Ok(fact)) => return Ok(Some(self.carried_out(operation, fact))),
            Some(Err(ProviderError::NotFound)) => {
                return failed(OperationFailure::NotFound, "the server is not there");
            }
            Some(Err(ProviderError::Conflict(_) | ProviderError::Rejected(_))) => {
                return failed(OperationFailure::Conflict, "the state of the server does not allow it");
            }
            // Doing it twice is doing it: the next pass tries again, until nobody waits for it any more.
            Some(Err(_)) if operation.verb.is_repeatable() => return Ok(None),
            Some(Err(_)) => return failed(OperationFailure::Unavailable, "it is not known whether it was done"),
            None => {}
        }
        if operation.expires <= self.view.now {
            return failed(OperationFailure::Unavailable, "it could not be done in time");
        }
        if self.detail.server.is_none() {
            return failed(OperationFailure::Conflict, "the server has not been made yet");
        }
        if !operation.is_started {
            return Ok(Some(progress(OperationProgress::Started)));
        }
        // Begun by a pass that did not live to tell: whether it was sent is not known.
        if !operation.is_ours && !operation.verb.is_repeatable() {
            return failed(OperationFailure::Unavailable, "it is not known whether it was done");
        }
        let request = ServerRequest::of(self.resource, None)?;
        let power = |action| ProviderCall::PowerServer(operation.id, request.clone(), action);
        let call = match operation.verb {
            Verb::Start => power(PowerAction::Start),
            Verb::Stop => power(PowerAction::Stop),
            Verb::SoftReboot => power(PowerAction::SoftReboot),
            Verb::HardReboot => power(PowerAction::HardReboot),
            Verb::ConsoleSession => ProviderCall::ConsoleSession(operation.id, request),
        };
        Ok(Some(vec![Effect::Call(Box::new(call))]))
    }

    fn carried_out(&self, operation: &OpenOperation, fact: &Fact) -> Vec<Effect> {
        let result = match fact {
            Fact::Console(address) => Some(address.clone()),
            _ => None,
        };
        let succeeded = Effect::Operate { operation: operation.id, progress: OperationProgress::Succeeded(result) };
        let phase = match operation.verb {
            Verb::Start => ServerPhase::Starting,
            Verb::Stop => ServerPhase::Stopping,
            // What is rebooted is to run, whatever was asked for before.
            Verb::HardReboot | Verb::SoftReboot if self.detail.power_asked == Some(ServerPhase::Stopping) => {
                let detail = ServerDetail { power_asked: None, ..self.detail.clone() };
                return vec![note(&detail, None), succeeded];
            }
            _ => return vec![succeeded],
        };
        let detail = ServerDetail { phase, phase_seen: phase, power_asked: Some(phase), ..self.detail.clone() };
        vec![note(&detail, None), succeeded]
    }
}
