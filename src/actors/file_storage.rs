//! A file storage's life.
//!
//! ```text
//!   ──▶ share made, sized, protected ──▶ each network: waits for it ──▶ attached ──▶ Done
//!   changed  ──▶ attached to what is new, detached from what is not wanted, confirmed ──▶ references given back
//!   deleting ──▶ attachments confirmed absent ──▶ share confirmed absent ──▶ references, quota released ──▶ gone
//! ```
//!
//! The share does not wait for its networks, and no attachment waits for another: what can be used can be used. A
//! monitor's word brings the usage, and settles what was being built; that something is gone is believed only of a look
//! of this pass, because a network may be deleted on the strength of it.

use super::decision::{Decision, Effect, Gate, Step, View, decide, dispose, first_shut};
use super::kind::{Behaviour, Health};
use crate::graph::message::Sighting;
use crate::graph::outcome::Outcome;
use crate::model::condition::Reason;
use crate::model::file_storage::{Attachment, AttachmentDetail, FileStorage, FileStorageDetail, PartState};
use crate::model::ids::{Key, NetworkId};
use crate::model::record::{CorruptRecord, Resource};
use crate::providers::ProviderError;
use crate::providers::call::{CallName, Fact, ProviderCall};
use crate::providers::file_storage::{FileStorageFact, FileStorageRequest, Look};

impl Behaviour for FileStorage {
    const IS_MONITORED: bool = true;
    const TAKES_SIGHTINGS: bool = true;

    fn gates(resource: &Resource<Self>) -> Vec<Key> {
        resource.spec.attachments().iter().map(|attachment| attachment.network.key()).collect()
    }

    fn references(resource: &Resource<Self>) -> Option<Vec<Key>> {
        Some(Self::gates(resource))
    }

    /// Only the way down: the way up is [`Making`].
    fn step(resource: &Resource<Self>) -> Result<Step, CorruptRecord> {
        let request = FileStorageRequest::of(resource, Vec::new())?;
        Ok(Step::Provider {
            make: Box::new(ProviderCall::ConvergeFileStorage(request.clone())),
            unmake: Box::new(ProviderCall::DeleteFileStorage(request)),
        })
    }

    fn decide(resource: &Resource<Self>, view: &View<'_>) -> Result<Decision, CorruptRecord> {
        if resource.metadata.is_deleting() || resource.metadata.paused {
            return Ok(decide(&Self::step(resource)?, view));
        }
        Making { resource, view }.next()
    }

    fn absorb(detail: &mut FileStorageDetail, fact: &Fact) -> Health {
        let Fact::FileStorage(seen) = fact else { return Health::Healthy };
        absorb(detail, &seen.fact);
        health(detail)
    }

    fn vanished(detail: &mut FileStorageDetail) {
        detail.configuration = None;
    }

    fn is_realised(detail: &FileStorageDetail) -> bool {
        detail.share.is_some()
    }

    fn fingerprint(detail: &FileStorageDetail) -> Option<u64> {
        detail.fingerprint()
    }

    fn has_followed(detail: &FileStorageDetail, generation: u64) -> bool {
        detail.converged == generation
    }
}

fn absorb(detail: &mut FileStorageDetail, fact: &FileStorageFact) {
    if detail.share.as_ref() != Some(&fact.share) {
        // Another share than the one on record, if there was one: its own life begins.
        *detail = FileStorageDetail { share: Some(fact.share.clone()), ..FileStorageDetail::default() };
    }
    detail.state = Some(fact.state);
    detail.mount_path.clone_from(&fact.mount_path);
    detail.size_bytes = Some(fact.size_bytes);
    detail.policies.clone_from(&fact.policies);
    detail.usage = fact.usage.or(detail.usage);
    detail.seen = Some(fact.fingerprint);
    let unseen = std::mem::replace(&mut detail.attachments, fact.attachments.clone());
    match fact.look {
        Look::Listed => {
            let listed = |known: &AttachmentDetail| fact.attachments.iter().any(|seen| seen.network == known.network);
            detail.attachments.extend(unseen.into_iter().filter(|known| !listed(known)));
            detail.attachments.sort_by_key(|attachment| attachment.network);
            // It has drifted: until it is set right, nothing says that it is as asked for.
            detail.configuration = detail.configuration.filter(|known| *known == fact.configuration);
        }
        Look::Converging => detail.configuration = None,
        Look::Converged(generation) => {
            detail.converged = generation;
            detail.configuration = Some(fact.configuration);
        }
    }
}

fn health(detail: &FileStorageDetail) -> Health {
    let has_failed = |attachment: &AttachmentDetail| attachment.state == PartState::Failed;
    match detail.state {
        Some(PartState::Failed) => Health::Errored("the storage system reports that the share has failed".to_owned()),
        Some(PartState::Building) => Health::Unknown("the share is being made".to_owned()),
        Some(PartState::Removing) => Health::Degraded("the share is being removed".to_owned()),
        _ if detail.attachments.iter().any(has_failed) => {
            Health::Degraded("a network could not be attached".to_owned())
        }
        _ => Health::Healthy,
    }
}

/// The way up, from a view: what is to be done next.
struct Making<'a> {
    resource: &'a Resource<FileStorage>,
    view: &'a View<'a>,
}

impl Making<'_> {
    fn next(&self) -> Result<Decision, CorruptRecord> {
        let conclude = |outcome| Ok(Decision::Conclude(outcome));
        if self.sighting_is_enough() {
            return conclude(self.settled());
        }
        match self.view.results.get(&CallName::ConvergeFileStorage) {
            None => {
                let ready = self.wanted().filter(|wanted| self.is_open(wanted.network)).map(|wanted| wanted.network);
                let request = FileStorageRequest::of(self.resource, ready.collect())?;
                Ok(Decision::Run(vec![Effect::Call(Box::new(ProviderCall::ConvergeFileStorage(request)))]))
            }
            Some(Err(error)) => conclude(dispose(error)),
            Some(Ok(Fact::FileStorage(seen))) => {
                conclude(seen.fact.setback.as_ref().map_or_else(|| self.settled(), dispose))
            }
            Some(Ok(_)) => conclude(dispose(&ProviderError::Unavailable("answered something else".to_owned()))),
        }
    }

    fn wanted(&self) -> impl Iterator<Item = &Attachment> {
        self.resource.spec.attachments().iter()
    }

    fn is_open(&self, network: NetworkId) -> bool {
        self.view.gates.get(&network.key()) == Some(&Gate::Ready)
    }

    /// The monitor's word, where it is enough: what was converged is as it was, complete, and nothing is to go.
    fn sighting_is_enough(&self) -> bool {
        let detail = &self.resource.detail;
        matches!(self.view.sighting, Some(Sighting::Present(_)))
            && self.view.results.is_empty()
            && detail.converged == self.resource.metadata.generation
            && detail.configuration.is_some()
            && self.settled() == Outcome::Done
    }

    /// Where the parts that are known leave the whole.
    fn settled(&self) -> Outcome {
        let detail = &self.resource.detail;
        let waiting = |message| Outcome::on_cloud(message, Reason::Provisioning);
        let is_wanted = |known: &AttachmentDetail| self.resource.spec.attachment(known.network).is_some();
        match detail.state {
            None | Some(PartState::Building) => return waiting("the share is being made"),
            Some(PartState::Removing) => return waiting("a share that is not wanted is being removed"),
            Some(PartState::Active | PartState::Failed) => {}
        }
        if !detail.attachments.iter().all(is_wanted) {
            return waiting("a network is being detached");
        }
        let missing = self.wanted().filter(|wanted| !detail.has(wanted)).map(|wanted| wanted.network);
        let missing = missing.collect::<Vec<_>>();
        if missing.iter().any(|network| detail.attachment(*network).is_some()) {
            return waiting("a network is being attached");
        }
        // What is not there and not being made waits for its network.
        let gates = missing.into_iter().map(NetworkId::key).collect::<Vec<_>>();
        first_shut(&gates, self.view)
            .unwrap_or_else(|| if gates.is_empty() { Outcome::Done } else { waiting("a network is being attached") })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use uuid::Uuid;

    use super::*;
    use crate::model::file_storage::FileStorageSpec;
    use crate::model::ids::{
        FileStorageClassId, Incarnation, OrganizationId, ProjectId, ProviderFileStorageId, RegionId,
    };
    use crate::model::metadata::{Metadata, Placement};
    use crate::model::network::AddressRange;
    use crate::model::record::{Document, Record};
    use crate::providers::{Observed, Sequence};

    type Results = BTreeMap<CallName, Result<Fact, ProviderError>>;

    const NETWORK: NetworkId = NetworkId(Uuid::from_u128(7));

    fn range() -> AddressRange {
        AddressRange { start: [10, 0, 0, 16].into(), end: [10, 0, 0, 19].into() }
    }

    fn record(attached: bool) -> Record {
        let placement = Placement {
            organization: Some(OrganizationId(Uuid::from_u128(1))),
            project: Some(ProjectId(Uuid::from_u128(2))),
            region: Some(RegionId(Uuid::from_u128(3))),
            ..Placement::default()
        };
        let metadata =
            Metadata::new(Incarnation(Uuid::from_u128(4)), "files", placement, "", jiff::Timestamp::UNIX_EPOCH);
        let spec = FileStorageSpec {
            class: FileStorageClassId(Uuid::from_u128(5)),
            size_gib: 1,
            nfs: None,
            attachments: attached.then(|| vec![Attachment { network: NETWORK, addresses: range(), vlan: None }]),
            default_snapshot_protection: true,
            snapshot_policies: None,
        };
        Record::new::<FileStorage>(Uuid::from_u128(6), metadata, &spec)
    }

    fn part(state: PartState) -> AttachmentDetail {
        AttachmentDetail { network: NETWORK, attachment: None, addresses: range(), state }
    }

    fn fact(look: Look, attachments: Vec<AttachmentDetail>) -> FileStorageFact {
        FileStorageFact {
            look,
            share: ProviderFileStorageId("share".to_owned()),
            state: PartState::Active,
            mount_path: None,
            size_bytes: 1,
            attachments,
            policies: Vec::new(),
            usage: None,
            configuration: 1,
            fingerprint: 1,
            setback: None,
        }
    }

    fn wrapped(fact: &FileStorageFact) -> Fact {
        Fact::FileStorage(Observed { sequence: Sequence(1), fact: fact.clone() })
    }

    /// What follows from this fact, told by a call or by a monitor, when the network stands like this.
    fn decided(record: &Record, detail: &FileStorageDetail, network: Gate, told: &FileStorageFact) -> Decision {
        let mut detail = detail.clone();
        absorb(&mut detail, told);
        let document = Document::of(&detail);
        let is_listed = told.look == Look::Listed;
        let sighting = Sighting::Present(Box::new(wrapped(told)));
        let answer = [(CallName::ConvergeFileStorage, Ok(wrapped(told)))];
        let results = if is_listed { Results::new() } else { Results::from(answer) };
        let view = View {
            record,
            detail: &document,
            references: &[],
            children: &[],
            gates: &BTreeMap::from([(NETWORK.key(), network)]),
            dependencies: &BTreeMap::new(),
            members: &[],
            operations: &[],
            results: &results,
            sighting: is_listed.then_some(&sighting),
            is_unobserved: false,
            now: jiff::Timestamp::UNIX_EPOCH,
            creation_tries_max: 3,
        };
        let resource = Resource { detail, ..record.open::<FileStorage>().expect("opens") };
        FileStorage::decide(&resource, &view).expect("decides")
    }

    fn outcome(decision: Decision) -> Outcome {
        match decision {
            Decision::Conclude(outcome) | Decision::Follow { outcome, .. } => outcome,
            Decision::Run(effects) => panic!("still at work: {effects:?}"),
        }
    }

    fn shut() -> Gate {
        Gate::NotReady { name: "net".to_owned() }
    }

    fn known(look: Look, attachments: Vec<AttachmentDetail>) -> FileStorageDetail {
        let mut detail = FileStorageDetail::default();
        absorb(&mut detail, &fact(look, attachments));
        detail
    }

    #[test]
    fn what_is_attached_is_done_and_what_is_missing_waits_for_its_network() {
        let empty = FileStorageDetail::default();
        let attached = fact(Look::Converged(1), vec![part(PartState::Active)]);
        assert_eq!(outcome(decided(&record(true), &empty, shut(), &attached)), Outcome::Done, "it stays attached");
        let missing = fact(Look::Converged(1), vec![]);
        let waits = outcome(decided(&record(true), &empty, shut(), &missing));
        assert!(matches!(&waits, Outcome::Yield { waits_for, on_cloud: false, .. } if *waits_for == [NETWORK.key()]));
        let gone = outcome(decided(&record(true), &empty, Gate::Missing, &missing));
        assert!(matches!(gone, Outcome::Terminal { reason: Reason::DependencyNotFound, .. }));
        let building = fact(Look::Converged(1), vec![part(PartState::Building)]);
        let waits = outcome(decided(&record(true), &empty, Gate::Ready, &building));
        assert!(matches!(waits, Outcome::Yield { on_cloud: true, .. }));
    }

    #[test]
    fn a_setback_of_one_attachment_decides_what_becomes_of_the_whole() {
        let attached = fact(Look::Converging, vec![part(PartState::Active)]);
        for (error, parked) in
            [(ProviderError::Conflict("so".to_owned()), false), (ProviderError::Rejected("so".to_owned()), true)]
        {
            let told = FileStorageFact { setback: Some(error), ..attached.clone() };
            let came = outcome(decided(&record(true), &FileStorageDetail::default(), Gate::Ready, &told));
            assert_eq!(matches!(came, Outcome::UserActionRequired { .. }), parked, "{came:?}");
            assert_ne!(came, Outcome::Done);
        }
    }

    #[test]
    fn a_list_settles_what_became_ready_but_never_what_is_to_go() {
        let before = known(Look::Converged(1), vec![part(PartState::Building)]);
        let ready = fact(Look::Listed, vec![part(PartState::Active)]);
        assert_eq!(outcome(decided(&record(true), &before, Gate::Ready, &ready)), Outcome::Done);

        // The list does not show it any more; that it is gone only a look at its id can say.
        let going = known(Look::Converging, vec![part(PartState::Removing)]);
        let unseen = fact(Look::Listed, vec![]);
        assert!(matches!(decided(&record(false), &going, Gate::Ready, &unseen), Decision::Run(_)));
        let looked = fact(Look::Converged(1), vec![]);
        assert_eq!(outcome(decided(&record(false), &going, Gate::Ready, &looked)), Outcome::Done);
    }

    #[test]
    fn what_has_drifted_is_looked_at_and_a_new_share_begins_anew() {
        let made = known(Look::Converged(1), vec![part(PartState::Active)]);
        let drifted = FileStorageFact { configuration: 2, ..fact(Look::Listed, vec![part(PartState::Active)]) };
        assert!(matches!(decided(&record(true), &made, Gate::Ready, &drifted), Decision::Run(_)));
        let mut detail = FileStorageDetail { usage: None, ..made };
        let another = ProviderFileStorageId("another".to_owned());
        absorb(&mut detail, &FileStorageFact { share: another.clone(), ..fact(Look::Converging, vec![]) });
        assert_eq!((detail.share, detail.converged, detail.configuration), (Some(another), 0, None));
        assert!(detail.attachments.is_empty());
    }
}
