//! A volume's life.
//!
//! ```text
//!   ──▶ waits for its network ──▶ made, as large as asked for ──▶ claimed? waits for its server ──▶ attached ──▶ Done
//!                    ▲                    │
//!                    └── taken away, three times at most ◀── failed before it was whole
//!
//!   another server, or none ──▶ detached, confirmed ──▶ the old server's reference given back ──▶ on, as above
//!   gone after it was whole ──▶ lost: parked, never made again
//!   deleting ──▶ detached, confirmed ──▶ volume confirmed absent ──▶ references, quota given back ──▶ gone
//! ```
//!
//! A volume that was whole may hold what cannot be had again. So it is on record that it was before a server gets it,
//! and nothing takes it away but its deletion.

use super::decision::{Decision, Effect, Step, View, decide, dispose, first_shut};
use super::kind::{Behaviour, Health};
use crate::graph::outcome::Outcome;
use crate::model::condition::{Reason, Statement, Truth};
use crate::model::ids::{Key, NetworkId, ServerId};
use crate::model::record::{CorruptRecord, Document, Resource};
use crate::model::volume::{AttachmentState, CloudVolumeState, Volume, VolumeDetail, VolumeSighting};
use crate::providers::call::{CallName, Fact, ProviderCall};
use crate::providers::{ProviderError, VolumeFact, VolumeRequest};

impl Behaviour for Volume {
    const IS_MONITORED: bool = true;

    fn gates(resource: &Resource<Self>) -> Vec<Key> {
        Self::references(resource).unwrap_or_default()
    }

    fn references(resource: &Resource<Self>) -> Option<Vec<Key>> {
        let network = resource.metadata.placement.network.map(NetworkId::key);
        Some(network.into_iter().chain(resource.spec.server.map(ServerId::key)).collect())
    }

    /// Only the way down: the way up is [`Making`].
    fn step(resource: &Resource<Self>) -> Result<Step, CorruptRecord> {
        let request = VolumeRequest::of(resource)?;
        Ok(Step::Provider {
            make: Box::new(ProviderCall::ConvergeVolume(request.clone())),
            unmake: Box::new(ProviderCall::DeleteVolume(request)),
        })
    }

    fn decide(resource: &Resource<Self>, view: &View<'_>) -> Result<Decision, CorruptRecord> {
        if resource.metadata.is_deleting() || resource.metadata.paused {
            return Ok(decide(&Self::step(resource)?, view));
        }
        Making { resource, detail: &resource.detail, view }.next()
    }

    fn absorb(detail: &mut VolumeDetail, fact: &Fact) -> Health {
        let Fact::Volume(seen) = fact else { return Health::Healthy };
        absorb(detail, &seen.fact)
    }

    fn is_realised(detail: &VolumeDetail) -> bool {
        detail.volume.is_some()
    }

    fn has_followed(detail: &VolumeDetail, generation: u64) -> bool {
        detail.converged == generation
    }

    fn fingerprint(detail: &VolumeDetail) -> Option<u64> {
        detail.fingerprint
    }
}

fn absorb(detail: &mut VolumeDetail, fact: &VolumeFact) -> Health {
    detail.fingerprint = Some(fact.fingerprint);
    detail.converged = fact.converged.unwrap_or(detail.converged);
    let Some(volume) = &fact.volume else {
        // What is on record of it stays: it says what was lost, and finds it should it come back.
        detail.attachment = None;
        return Health::Errored("the volume is gone from its cloud, and with it what it held".to_owned());
    };
    detail.volume = Some(volume.id.clone());
    detail.size_gib = Some(volume.size_gib);
    detail.attachment.clone_from(&volume.attachment);
    match volume.state {
        CloudVolumeState::Creating => Health::Unknown("the volume is being made".to_owned()),
        CloudVolumeState::Error => Health::Errored("the cloud reports that the volume has failed".to_owned()),
        CloudVolumeState::Deleting => Health::Degraded("the cloud is removing the volume".to_owned()),
        CloudVolumeState::Ready | CloudVolumeState::Resizing => {
            detail.was_whole = true;
            Health::Healthy
        }
    }
}

/// The way up, from a view: what is to be done next.
struct Making<'a> {
    resource: &'a Resource<Volume>,
    detail: &'a VolumeDetail,
    view: &'a View<'a>,
}

type Decided = Result<Decision, CorruptRecord>;

#[expect(clippy::unnecessary_wraps, reason = "reads as what it stands beside")]
fn conclude(outcome: Outcome) -> Decided {
    Ok(Decision::Conclude(outcome))
}

fn on_cloud(message: &str) -> Decided {
    conclude(Outcome::on_cloud(message, Reason::Provisioning))
}

fn note(detail: &VolumeDetail, statement: Option<Statement>) -> Decision {
    Decision::Run(vec![Effect::Note { detail: Document::of(detail), statement }])
}

impl Making<'_> {
    fn next(&self) -> Decided {
        let network = self.resource.metadata.placement.network.map(NetworkId::key);
        if let Some(outcome) = first_shut(network.as_slice(), self.view) {
            return self.shut(outcome);
        }
        match self.result(CallName::ConvergeVolume) {
            None => self.call(ProviderCall::ConvergeVolume),
            Some(Err(error)) => conclude(dispose(error)),
            Some(Ok(Fact::Volume(seen))) => self.after_look(&seen.fact),
            Some(Ok(_)) => conclude(dispose(&ProviderError::Unavailable("answered something else".to_owned()))),
        }
    }

    fn result(&self, name: CallName) -> Option<&Result<Fact, ProviderError>> {
        self.view.results.get(&name)
    }

    fn call(&self, call: impl FnOnce(VolumeRequest) -> ProviderCall) -> Decided {
        Ok(Decision::Run(vec![Effect::Call(Box::new(call(VolumeRequest::of(self.resource)?)))]))
    }

    /// Gives an order once; after that, what was seen before it says nothing any more, so the pass ends.
    fn order(&self, name: CallName, call: impl FnOnce(VolumeRequest) -> ProviderCall, message: &str) -> Decided {
        match self.result(name) {
            None => self.call(call),
            Some(Err(error)) => conclude(dispose(error)),
            Some(Ok(_)) => on_cloud(message),
        }
    }

    /// What is made stays made while what it lies on is being changed, and is looked at again after that.
    fn shut(&self, outcome: Outcome) -> Decided {
        let is_made = self.detail.converged == self.resource.metadata.generation
            && self.detail.was_whole
            && self.detail.is_attached_as(self.resource.spec.server);
        conclude(match outcome {
            Outcome::Yield { message, waits_for, .. } if is_made => Outcome::Watching { message, waits_for },
            outcome => outcome,
        })
    }

    /// Everything here rests on a look of this pass.
    fn after_look(&self, fact: &VolumeFact) -> Decided {
        let Some(volume) = &fact.volume else {
            return conclude(Outcome::UserActionRequired {
                reason: Reason::VolumeLost,
                message: "the volume is gone from its cloud, and with it what it held; it can only be deleted"
                    .to_owned(),
            });
        };
        match volume.state {
            CloudVolumeState::Error if !self.detail.was_whole => self.make_again(volume),
            CloudVolumeState::Creating => on_cloud("the volume is being made"),
            CloudVolumeState::Resizing => on_cloud("the volume is being enlarged"),
            CloudVolumeState::Deleting => on_cloud("the cloud is removing the volume"),
            CloudVolumeState::Ready | CloudVolumeState::Error => self.attach(volume),
        }
    }

    /// A beginning that failed is counted once, then taken away; the next pass makes another.
    fn make_again(&self, volume: &VolumeSighting) -> Decided {
        let metadata = &self.resource.metadata;
        let (mut tries, most) =
            (self.detail.creation.since(metadata.generation, metadata.resets), self.view.creation_tries_max.max(1));
        let is_counted = self.detail.failed.as_ref() == Some(&volume.id);
        if is_counted && tries.failures >= most {
            let message = format!("the cloud could not make the volume, {most} times in a row");
            return conclude(Outcome::Terminal { reason: Reason::ProviderCreateFailed, message });
        }
        if !is_counted {
            tries.failures += 1;
            let statement = (tries.failures < most).then(|| {
                let next = tries.failures + 1;
                let message =
                    format!("the cloud could not make the volume; it is made again, attempt {next} of {most}");
                Statement::new(Truth::False, Reason::ProviderCreateRetrying, message)
            });
            let failed = Some(volume.id.clone());
            return Ok(note(&VolumeDetail { creation: tries, failed, ..self.detail.clone() }, statement));
        }
        match self.result(CallName::DeleteVolume) {
            None => self.call(ProviderCall::DeleteVolume),
            Some(Err(error)) => conclude(dispose(error)),
            Some(Ok(_)) => {
                let message = "a volume that could not be made is being taken away";
                conclude(Outcome::on_cloud(message, Reason::ProviderCreateRetrying))
            }
        }
    }

    fn attach(&self, volume: &VolumeSighting) -> Decided {
        match (&volume.attachment, self.resource.spec.server) {
            (None, None) => conclude(Outcome::Done),
            (None, Some(server)) => self.attach_to(server),
            (Some(attachment), claimed) if claimed.is_some() && attachment.server == claimed => {
                match attachment.state {
                    AttachmentState::Attached => conclude(Outcome::Done),
                    AttachmentState::Attaching => on_cloud("the volume is being attached"),
                    AttachmentState::Detaching => on_cloud("the volume is being detached"),
                }
            }
            (Some(attachment), _) => match attachment.state {
                AttachmentState::Detaching => on_cloud("the volume is being detached"),
                // The cloud takes one order at a time.
                AttachmentState::Attaching => on_cloud("the volume is still being attached"),
                AttachmentState::Attached => {
                    self.order(CallName::DetachVolume, ProviderCall::DetachVolume, "the volume is being detached")
                }
            },
        }
    }

    fn attach_to(&self, server: ServerId) -> Decided {
        if let Some(outcome) = first_shut(&[server.key()], self.view) {
            return conclude(outcome);
        }
        let is_noted = self.view.record.detail.read::<VolumeDetail>().is_ok_and(|stored| stored.was_whole);
        if !is_noted {
            return Ok(note(self.detail, None));
        }
        let call = |request| ProviderCall::AttachVolume(request, server);
        self.order(CallName::AttachVolume, call, "the volume is being attached")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use uuid::Uuid;

    use super::super::decision::Gate;
    use super::*;
    use crate::model::ids::{
        IdentityId, Incarnation, OrganizationId, ProjectId, ProviderVolumeId, RegionId, VolumeClassId,
    };
    use crate::model::metadata::{Metadata, Placement};
    use crate::model::record::Record;
    use crate::model::volume::{Attachment, VolumeSpec};
    use crate::providers::{Observed, Sequence};

    const ONE: ServerId = ServerId(Uuid::from_u128(1));
    const OTHER: ServerId = ServerId(Uuid::from_u128(2));

    fn record(server: Option<ServerId>, detail: &VolumeDetail) -> Record {
        let placement = Placement {
            organization: Some(OrganizationId(Uuid::from_u128(3))),
            project: Some(ProjectId(Uuid::from_u128(4))),
            region: Some(RegionId(Uuid::from_u128(5))),
            identity: Some(IdentityId(Uuid::from_u128(6))),
            network: Some(NetworkId(Uuid::from_u128(7))),
        };
        let incarnation = Incarnation(Uuid::from_u128(8));
        let metadata = Metadata::new(incarnation, "data", placement, "test", jiff::Timestamp::UNIX_EPOCH);
        let spec = VolumeSpec { class: VolumeClassId(Uuid::from_u128(9)), size_gib: 10, server };
        let mut record = Record::new::<Volume>(Uuid::from_u128(10), metadata, &spec);
        record.detail = Document::of(detail);
        record
    }

    fn seen(state: CloudVolumeState, attachment: Option<(ServerId, AttachmentState)>) -> VolumeFact {
        let attachment = attachment.map(|(server, state)| Attachment { server: Some(server), device: None, state });
        let volume = VolumeSighting { id: ProviderVolumeId("v".to_owned()), state, size_gib: 10, attachment };
        VolumeFact { volume: Some(volume), converged: Some(1), fingerprint: 1 }
    }

    /// What is decided after a look, in a word: the call, the note, or where it ends.
    fn decided(server: Option<ServerId>, stored: &VolumeDetail, fact: VolumeFact, gate: Gate) -> String {
        let record = record(server, stored);
        let mut resource = record.open::<Volume>().expect("opens");
        absorb(&mut resource.detail, &fact);
        let network = NetworkId(Uuid::from_u128(7)).key();
        let gates = BTreeMap::from([(network, Gate::Ready), (ONE.key(), gate)]);
        let looked = Fact::Volume(Observed { sequence: Sequence(1), fact });
        let view = View {
            record: &record,
            detail: &Document::of(&resource.detail),
            references: &[],
            children: &[],
            gates: &gates,
            dependencies: &BTreeMap::new(),
            members: &[],
            operations: &[],
            results: &BTreeMap::from([(CallName::ConvergeVolume, Ok(looked))]),
            sighting: None,
            is_unobserved: false,
            now: jiff::Timestamp::UNIX_EPOCH,
            creation_tries_max: 3,
        };
        match Volume::decide(&resource, &view).expect("decides") {
            Decision::Run(effects) => match effects.as_slice() {
                [Effect::Call(call)] => format!("{:?}", call.name()),
                [Effect::Note { .. }] => "Note".to_owned(),
                other => panic!("{other:?}"),
            },
            Decision::Conclude(Outcome::Yield { reason, on_cloud: false, .. }) => format!("{reason:?}"),
            Decision::Follow { .. } => panic!("a volume follows nobody"),
            Decision::Conclude(Outcome::Yield { message, .. }) => message,
            Decision::Conclude(Outcome::UserActionRequired { reason, .. } | Outcome::Terminal { reason, .. }) => {
                format!("{reason:?}")
            }
            Decision::Conclude(outcome) => format!("{outcome:?}"),
        }
    }

    #[test]
    fn every_state_and_every_claim_leads_where_it_should() {
        use AttachmentState::{Attached, Attaching, Detaching};
        use CloudVolumeState::{Creating, Deleting, Error, Ready, Resizing};
        let whole = VolumeDetail { was_whole: true, ..VolumeDetail::default() };
        let (attaching, detaching) = ("the volume is being attached", "the volume is being detached");
        let table = [
            (None, seen(Creating, None), "the volume is being made"),
            (None, seen(Resizing, None), "the volume is being enlarged"),
            (None, seen(Deleting, None), "the cloud is removing the volume"),
            (None, seen(Ready, None), "Done"),
            (None, seen(Error, None), "Done"),
            (None, seen(Ready, Some((ONE, Attached))), "DetachVolume"),
            (None, seen(Error, Some((ONE, Attached))), "DetachVolume"),
            (None, seen(Ready, Some((ONE, Attaching))), "the volume is still being attached"),
            (None, seen(Ready, Some((ONE, Detaching))), detaching),
            (Some(ONE), seen(Ready, None), "AttachVolume"),
            (Some(ONE), seen(Ready, Some((ONE, Attaching))), attaching),
            (Some(ONE), seen(Ready, Some((ONE, Attached))), "Done"),
            (Some(ONE), seen(Ready, Some((ONE, Detaching))), detaching),
            (Some(ONE), seen(Ready, Some((OTHER, Attached))), "DetachVolume"),
            (Some(ONE), seen(Ready, Some((OTHER, Detaching))), detaching),
            (None, VolumeFact { volume: None, converged: Some(1), fingerprint: 0 }, "VolumeLost"),
        ];
        for (server, fact, expected) in table {
            assert_eq!(decided(server, &whole, fact.clone(), Gate::Ready), expected, "{server:?} {fact:?}");
        }
    }

    #[test]
    fn a_volume_is_on_record_as_whole_before_a_server_gets_it_and_waits_for_one_that_is_not_ready() {
        let ready = || seen(CloudVolumeState::Ready, None);
        assert_eq!(decided(Some(ONE), &VolumeDetail::default(), ready(), Gate::Ready), "Note");
        let whole = VolumeDetail { was_whole: true, ..VolumeDetail::default() };
        let shut = Gate::NotReady { name: "web".to_owned() };
        assert_eq!(decided(Some(ONE), &whole, ready(), shut.clone()), "DependencyNotReady");
        // A server that has its volume may be rebuilt meanwhile.
        let attached = seen(CloudVolumeState::Ready, Some((ONE, AttachmentState::Attached)));
        assert_eq!(decided(Some(ONE), &whole, attached, shut), "Done");
    }

    #[test]
    fn a_failed_beginning_is_counted_once_then_taken_away_until_it_is_enough() {
        let failed = || seen(CloudVolumeState::Error, None);
        let mut detail = VolumeDetail::default();
        assert_eq!(decided(None, &detail, failed(), Gate::Ready), "Note");
        detail.failed = Some(ProviderVolumeId("v".to_owned()));
        detail.creation.generation = 1;
        detail.creation.failures = 2;
        assert_eq!(decided(None, &detail, failed(), Gate::Ready), "DeleteVolume");
        detail.creation.failures = 3;
        assert_eq!(decided(None, &detail, failed(), Gate::Ready), "ProviderCreateFailed");
    }
}
