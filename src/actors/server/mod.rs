//! A server's life.
//!
//! ```text
//!   ──▶ waits for network, groups, authority ──▶ port, address, server made ──▶ first boot ──▶ Done
//!                    ▲                                          │
//!                    └── taken away, three times at most ◀── never booted
//!
//!   another image asked for  ──▶ Initiated ──▶ order sent ──▶ Rebuilding ──▶ Done · Failed
//!   another flavor asked for ──▶ Initiated ──▶ order sent ──▶ Resizing ──▶ confirmed ──▶ Done · Failed
//!   a verb asked for         ──▶ Started  ──▶ sent        ──▶ Succeeded · Failed
//!   deleting ──▶ server confirmed absent ──▶ address, port ──▶ references given back ──▶ gone
//! ```
//!
//! What destroys something (taking a failed server away, a rebuild) or stops it (a resize) is written down first and done
//! only after a look of the same pass. A monitor's word alone can settle a server that has booted, so that a thousand boots cost one
//! list and not a thousand looks; it can never destroy one.

mod changes;
mod verbs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::decision::{Decision, Effect, Step, View, decide, dispose, first_shut};
use super::kind::{Behaviour, Health};
use crate::graph::message::Sighting;
use crate::graph::outcome::Outcome;
use crate::model::cloud_init;
use crate::model::condition::{Reason, Statement, Truth};
use crate::model::ids::{ImageId, Key, NetworkId, SecurityGroupId, SshCertificateAuthorityId};
use crate::model::record::{CorruptRecord, Document, Resource};
use crate::model::server::{CloudServerStatus, CreationTries, Server, ServerDetail, ServerPhase, ServerSighting};
use crate::providers::call::{CallName, Fact, ProviderCall};
use crate::providers::{Deletion, ProviderError, ServerFact, ServerRequest, UserDataBytes};

impl Behaviour for Server {
    const IS_MONITORED: bool = true;
    const HAS_VERBS: bool = true;
    const TAKES_SIGHTINGS: bool = true;

    fn gates(resource: &Resource<Self>) -> Vec<Key> {
        let network = resource.metadata.placement.network.map(NetworkId::key);
        let groups = resource.spec.security_groups().into_iter().map(SecurityGroupId::key);
        let authority = resource.spec.ssh_certificate_authority.map(SshCertificateAuthorityId::key);
        network.into_iter().chain(groups).chain(authority).collect()
    }

    /// Images are held and not waited for: what has booted does not need its image to be changed in other ways.
    fn references(resource: &Resource<Self>) -> Option<Vec<Key>> {
        let images = resource.spec.images_held(&resource.detail).into_iter().map(ImageId::key);
        Some(Self::gates(resource).into_iter().chain(images).collect())
    }

    /// Only the way down: the way up is [`Making`].
    fn step(resource: &Resource<Self>) -> Result<Step, CorruptRecord> {
        let request = ServerRequest::of(resource, None)?;
        Ok(Step::Provider {
            make: Box::new(ProviderCall::ConvergeServer(request.clone())),
            unmake: Box::new(ProviderCall::DeleteServer(request)),
        })
    }

    fn decide(resource: &Resource<Self>, view: &View<'_>) -> Result<Decision, CorruptRecord> {
        if resource.metadata.is_deleting() || resource.metadata.paused {
            return Ok(decide(&Self::step(resource)?, view));
        }
        Making { resource, detail: &resource.detail, view }.next()
    }

    fn absorb(detail: &mut ServerDetail, fact: &Fact) -> Health {
        let Fact::Server(seen) = fact else { return Health::Healthy };
        absorb(detail, &seen.fact)
    }

    fn vanished(detail: &mut ServerDetail) {
        detail.phase = ServerPhase::Vanished;
    }

    fn active(detail: &ServerDetail) -> Option<Statement> {
        Some(activity(detail.phase))
    }

    fn is_realised(detail: &ServerDetail) -> bool {
        detail.server.is_some()
    }

    fn has_followed(detail: &ServerDetail, generation: u64) -> bool {
        detail.converged == generation
    }

    fn fingerprint(detail: &ServerDetail) -> Option<u64> {
        detail.fingerprint
    }
}

/// What the Active axis says of a machine in this phase.
pub(super) fn activity(phase: ServerPhase) -> Statement {
    let truth = match phase {
        ServerPhase::Running => Truth::True,
        ServerPhase::Unknown => return Statement::new(Truth::Unknown, Reason::Unknown, "unknown"),
        _ => Truth::False,
    };
    Statement::new(truth, Reason::Phase(phase), phase.word().to_lowercase())
}

fn absorb(detail: &mut ServerDetail, fact: &ServerFact) -> Health {
    detail.port.clone_from(&fact.port);
    detail.private_ip = fact.private_ip;
    detail.floating_ip = fact.floating_ip.as_ref().map(|(id, _)| id.clone());
    detail.public_ip = fact.floating_ip.as_ref().map(|(_, address)| *address);
    detail.mac_address = fact.mac_address.clone().or_else(|| detail.mac_address.take());
    detail.fingerprint = Some(fact.fingerprint);
    if let Some(generation) = fact.converged {
        detail.converged = generation;
        detail.configuration = Some(fact.configuration);
    } else if detail.configuration != Some(fact.configuration) {
        // It has drifted: until it is set right, nothing says that it is as asked for.
        detail.configuration = None;
    }
    let Some(server) = &fact.server else { return Health::Degraded("the server is missing from its cloud".to_owned()) };
    if detail.server.as_ref() != Some(&server.id) {
        // Another machine than the one on record, if there was one: its own life begins.
        detail.server = Some(server.id.clone());
        detail.launched_at = None;
        (detail.image, detail.rebuild) = (server.image, None);
        (detail.flavor, detail.resize) = (server.flavor, None);
    }
    detail.image = detail.image.or(server.image);
    detail.flavor = detail.flavor.or(server.flavor);
    detail.scheduled_at = Some(server.created);
    detail.launched_at = server.launched.or(detail.launched_at);
    detail.provisioned_at = detail.provisioned_at.or(detail.launched_at);
    detail.phase = server.phase(detail.phase);
    if detail.phase != ServerPhase::Unknown {
        detail.phase_seen = detail.phase;
    }
    health(detail, server)
}

fn health(detail: &ServerDetail, server: &ServerSighting) -> Health {
    let other_image = detail.rebuild.is_none() && server.image.is_some() && server.image != detail.image;
    let other_flavor = detail.resize.is_none() && server.flavor.is_some() && server.flavor != detail.flavor;
    match server.status {
        CloudServerStatus::Error => Health::Errored("the cloud reports that the server has failed".to_owned()),
        CloudServerStatus::Unknown => Health::Unknown("the cloud does not know the state of the server".to_owned()),
        CloudServerStatus::Build | CloudServerStatus::Rebuild => {
            Health::Unknown("the server is being built".to_owned())
        }
        CloudServerStatus::Resize | CloudServerStatus::VerifyResize => {
            Health::Unknown("the server is being resized".to_owned())
        }
        CloudServerStatus::Other => Health::Degraded(format!("the server is {}", detail.phase.word().to_lowercase())),
        _ if other_image => Health::Degraded("the server runs on another image than was asked for".to_owned()),
        _ if other_flavor => Health::Degraded("the server runs with another flavor than was asked for".to_owned()),
        _ if detail.phase == ServerPhase::Crashed => Health::Degraded("the server has crashed".to_owned()),
        CloudServerStatus::Active | CloudServerStatus::Stopped => Health::Healthy,
    }
}

/// The way up, from a view: what is to be done next.
struct Making<'a> {
    resource: &'a Resource<Server>,
    detail: &'a ServerDetail,
    view: &'a View<'a>,
}

type Decided = Result<Decision, CorruptRecord>;

#[expect(clippy::unnecessary_wraps, reason = "reads as what it stands beside")]
fn conclude(outcome: Outcome) -> Decided {
    Ok(Decision::Conclude(outcome))
}

fn note(detail: &ServerDetail, statement: Option<Statement>) -> Effect {
    Effect::Note { detail: Document::of(detail), statement }
}

impl Making<'_> {
    fn next(&self) -> Decided {
        if let Some(effects) = self.operate()? {
            return Ok(Decision::Run(effects));
        }
        if self.detail.creation.retrying || self.result(CallName::DiscardServer).is_some() {
            return self.take_failed_away();
        }
        if let Some(outcome) = first_shut(&Server::gates(self.resource), self.view) {
            // What is made stays made while what it lies on is being changed, and is looked at again after that.
            let is_made = self.detail.converged == self.resource.metadata.generation
                && self.detail.configuration.is_some()
                && self.detail.launched_at.is_some();
            return conclude(match outcome {
                Outcome::Yield { message, waits_for, .. } if is_made => Outcome::Watching { message, waits_for },
                outcome => outcome,
            });
        }
        if let Some(fact) = self.sighting_enough() {
            return self.settle(fact);
        }
        match self.result(CallName::ConvergeServer) {
            None => self.call(ProviderCall::ConvergeServer),
            Some(Err(ProviderError::NotFound)) if self.resource.spec.only_reports_loss(self.detail) => self.lost(),
            Some(Err(error)) => conclude(dispose(error)),
            Some(Ok(Fact::Server(seen))) => self.after_look(&seen.fact),
            Some(Ok(_)) => conclude(dispose(&ProviderError::Unavailable("answered something else".to_owned()))),
        }
    }

    /// Its machine is gone, and whoever has it wants to decide what becomes of that.
    #[expect(clippy::unused_self, reason = "reads as what it stands beside")]
    fn lost(&self) -> Decided {
        conclude(Outcome::UserActionRequired {
            reason: Reason::Errored,
            message: "the machine has vanished from its cloud; allow it to be made again, or delete it".to_owned(),
        })
    }

    fn result(&self, name: CallName) -> Option<&Result<Fact, ProviderError>> {
        self.view.results.get(&name)
    }

    fn call(&self, call: impl FnOnce(ServerRequest) -> ProviderCall) -> Decided {
        let call = call(request(self.resource, self.authority_key()?.as_deref())?);
        Ok(Decision::Run(vec![Effect::Call(Box::new(call))]))
    }

    /// The public key that certificates are checked with.
    fn authority_key(&self) -> Result<Option<String>, CorruptRecord> {
        use crate::model::ssh_certificate_authority::SshCertificateAuthority;
        let authority = self.resource.spec.ssh_certificate_authority.map(SshCertificateAuthorityId::key);
        let record = authority.and_then(|key| self.view.dependencies.get(&key));
        record.map(|record| Ok(record.open::<SshCertificateAuthority>()?.spec.public_key)).transpose()
    }

    /// The monitor's word, where it is enough: what was converged is as it was, and nothing is to be destroyed.
    fn sighting_enough(&self) -> Option<&ServerFact> {
        let Some(Sighting::Present(fact)) = self.view.sighting else { return None };
        let Fact::Server(seen) = &**fact else { return None };
        let asked = self.view.operations.iter().any(|operation| operation.is_started);
        let converged = self.detail.converged == self.resource.metadata.generation
            && self.detail.configuration == Some(seen.fact.configuration)
            && seen.fact.server.is_some();
        // A list that lags behind shows what was before the last verb: only what can follow it is believed.
        let before = self.view.record.detail.read::<ServerDetail>().map(|detail| detail.phase).unwrap_or_default();
        let follows = match before {
            ServerPhase::Stopping => matches!(self.detail.phase, ServerPhase::Stopping | ServerPhase::Stopped),
            ServerPhase::Starting => matches!(self.detail.phase, ServerPhase::Starting | ServerPhase::Running),
            _ => true,
        };
        let harmless = self.is_harmless(&seen.fact);
        (converged && follows && harmless && !asked && self.result(CallName::ConvergeServer).is_none())
            .then_some(&seen.fact)
    }

    /// Everything here rests on a look of this pass.
    fn after_look(&self, fact: &ServerFact) -> Decided {
        if self.has_failed_to_boot() {
            return self.count_failure();
        }
        self.settle(fact)
    }

    fn has_failed_to_boot(&self) -> bool {
        self.detail.phase == ServerPhase::Error && self.detail.launched_at.is_none()
    }

    /// The tries that count: those of this generation, since the last reset.
    fn tries(&self) -> CreationTries {
        self.detail.creation.since(self.resource.metadata.generation, self.resource.metadata.resets)
    }

    fn count_failure(&self) -> Decided {
        let (mut tries, most) = (self.tries(), self.view.creation_tries_max.max(1));
        if tries.failures >= most {
            let message = format!("the cloud could not start the server, {most} times in a row");
            return conclude(Outcome::Terminal { reason: Reason::ProviderCreateFailed, message });
        }
        tries.failures += 1;
        tries.retrying = tries.failures < most;
        let statement = tries.retrying.then(|| {
            let next = tries.failures + 1;
            let message = format!("the cloud could not start the server; it is made again, attempt {next} of {most}");
            Statement::new(Truth::False, Reason::ProviderCreateRetrying, message)
        });
        let detail = ServerDetail { creation: tries, ..self.detail.clone() };
        Ok(Decision::Run(vec![note(&detail, statement)]))
    }

    /// What never booted goes, with its port and its address; once that is confirmed it is made again. The provider
    /// looks before it takes anything away: a server that has started after all stays.
    fn take_failed_away(&self) -> Decided {
        let reason = Reason::ProviderCreateRetrying;
        let retrying = self.detail.creation.retrying;
        let creation = CreationTries { retrying: false, ..self.detail.creation.clone() };
        match self.result(CallName::DiscardServer) {
            None => self.call(ProviderCall::DiscardServer),
            Some(Err(ProviderError::Conflict(_))) if retrying => {
                Ok(Decision::Run(vec![note(&ServerDetail { creation, ..self.detail.clone() }, None)]))
            }
            Some(Ok(Fact::Deletion(Deletion::Absent))) if retrying => {
                let detail = ServerDetail {
                    creation,
                    mac_address: self.detail.mac_address.clone(),
                    provisioned_at: self.detail.provisioned_at,
                    ..ServerDetail::default()
                };
                Ok(Decision::Run(vec![note(&detail, None)]))
            }
            Some(Ok(Fact::Deletion(Deletion::Absent)) | Err(ProviderError::Conflict(_))) => {
                conclude(Outcome::Retry { message: "the server is made again".to_owned(), after: None })
            }
            Some(Err(error)) => conclude(dispose(error)),
            Some(Ok(_)) => conclude(Outcome::on_cloud("a server that never started is being taken away", reason)),
        }
    }

    fn rest(&self, fact: &ServerFact) -> Decided {
        if self.detail.launched_at.is_none() {
            let message = match self.detail.phase {
                ServerPhase::Queued => "waiting for a physical machine",
                _ => "waiting for the first boot",
            };
            return conclude(Outcome::on_cloud(message, Reason::Provisioning));
        }
        // A reboot has no phase of its own, but what it leads to is another one when the server was stopped.
        let busy = fact.server.as_ref().is_some_and(ServerSighting::is_busy);
        if busy || self.detail.phase.is_passing() || !self.view.operations.is_empty() {
            let message = format!("the server is {}", self.detail.phase.word().to_lowercase());
            return conclude(Outcome::Watching { message, waits_for: Vec::new() });
        }
        conclude(Outcome::Done)
    }
}

fn request(resource: &Resource<Server>, authority_key: Option<&str>) -> Result<ServerRequest, CorruptRecord> {
    let given = resource.spec.user_data.as_ref().map(|data| STANDARD.decode(&data.0)).transpose();
    let given =
        given.map_err(|error| CorruptRecord { key: resource.key, part: "user data", cause: error.to_string() })?;
    let user_data = cloud_init::merged(given.as_deref(), authority_key).map(UserDataBytes);
    ServerRequest::of(resource, user_data)
}
