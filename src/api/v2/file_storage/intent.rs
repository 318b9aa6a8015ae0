//! What accepting a request about a file storage means for the store. Pure: times and ids are handed in.

use jiff::Timestamp;

use super::wire::{AcceptedCreate, AcceptedUpdate};
use crate::api::intent::{Author, Revision, charge, insert, payers};
use crate::model::edge::Holder;
use crate::model::file_storage::{FileStorage, FileStorageSpec};
use crate::model::ids::{FileStorageId, Incarnation, Key};
use crate::model::metadata::{Metadata, Placement};
use crate::model::quota::{Amount, Amounts, QuotaKind};
use crate::model::record::{Place, Resource};
use crate::store::{Batch, Precondition, Write};

/// What is asked for at first, but for the attachments, which follow from the networks. Protection is the default;
/// policies are not.
#[must_use]
pub fn first_spec(accepted: &AcceptedCreate) -> FileStorageSpec {
    let said = &accepted.said;
    FileStorageSpec {
        class: accepted.class,
        size_gib: said.size_gib,
        nfs: said.nfs,
        attachments: None,
        default_snapshot_protection: said.default_snapshot_protection.unwrap_or(true),
        snapshot_policies: said.snapshot_policies.clone(),
    }
}

/// What the file storage would be. What was fixed at creation is carried over, and so is what a client left out of
/// what it looks after by itself. The attachments follow from the networks.
#[must_use]
pub fn updated_spec(stored: &FileStorageSpec, accepted: &AcceptedUpdate) -> FileStorageSpec {
    FileStorageSpec {
        class: stored.class,
        size_gib: accepted.size_gib,
        nfs: accepted.nfs,
        attachments: None,
        default_snapshot_protection: accepted.default_snapshot_protection.unwrap_or(stored.default_snapshot_protection),
        snapshot_policies: accepted.snapshot_policies.clone().or_else(|| stored.snapshot_policies.clone()),
    }
}

fn amounts(spec: &FileStorageSpec) -> Amounts {
    Amounts::from([(QuotaKind::FileStorage, Amount::of(spec.size_bytes()))])
}

fn refer(target: Key, storage: Key) -> Write {
    Write::AddReference { target, holder: Holder::Resource(storage) }
}

/// A new file storage, owned by its project, which takes it along when it goes. It refers to every network that it is
/// attached to, so that none of them can be deleted under it (B30). The record comes last: where this is cut into
/// single writes, nothing is made that is not paid for and held.
#[must_use]
pub fn creation(
    accepted: &AcceptedCreate,
    spec: &FileStorageSpec,
    author: &Author,
    placement: Placement,
    (id, incarnation): (FileStorageId, Incarnation),
) -> Batch {
    let (organization, project) = (accepted.organization, accepted.project);
    let metadata = Metadata {
        owner: Some(project.key()),
        charged: true,
        ..author.metadata(&accepted.said.metadata, incarnation, placement)
    };
    let networks = spec.attachments().iter().map(|attachment| attachment.network.key()).collect::<Vec<_>>();
    let payers = payers(&metadata);
    let mut writes = vec![charge(id.key(), &metadata, organization, amounts(spec))];
    writes.extend(networks.iter().map(|network| refer(*network, id.key())));
    writes.push(insert::<FileStorage>(id.0, metadata, spec));
    [project.key(), accepted.region.key()]
        .into_iter()
        .chain(networks)
        .chain(payers)
        .fold(Batch::of(writes), |batch, key| batch.provided(Precondition::Live(key)))
}

/// Refers to what is newly attached before it is, and pays for what is asked for before it is there. References on
/// what is used no longer are the actor's to drop, when the storage system has let go of it.
#[must_use]
pub fn update(
    stored: &Resource<FileStorage>,
    place: Place,
    spec: &FileStorageSpec,
    accepted: &AcceptedUpdate,
    (subject, now): (&str, Timestamp),
) -> Batch {
    let added = spec.attachments().iter().filter(|attachment| stored.spec.attachment(attachment.network).is_none());
    let added = added.map(|attachment| attachment.network.key()).collect::<Vec<_>>();
    let mut writes = added.iter().map(|network| refer(*network, stored.key)).collect::<Vec<_>>();
    if spec.size_gib != stored.spec.size_gib {
        writes.push(charge(stored.key, &stored.metadata, place.organization, amounts(spec)));
    }
    let is_news = *spec != stored.spec;
    writes.push(Revision { metadata: &accepted.metadata, subject, now, is_news }.write(stored, spec));
    let batch = Batch::of(writes).provided(Precondition::Live(stored.key));
    added.into_iter().fold(batch, |batch, network| batch.provided(Precondition::Live(network)))
}
