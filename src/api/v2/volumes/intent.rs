//! What accepting a request about a volume means for the store. Pure: times and ids are handed in.

use jiff::Timestamp;

use super::wire::{AcceptedCreate, AcceptedUpdate};
use crate::api::intent::{Author, Revision, charge, insert, payers};
use crate::model::edge::Holder;
use crate::model::ids::{Incarnation, Key, ServerId, VolumeId};
use crate::model::metadata::{Metadata, Placement};
use crate::model::quota::{Amount, Amounts, QuotaKind};
use crate::model::record::{CorruptRecord, Place, Resource};
use crate::model::volume::{Volume, VolumeSpec};
use crate::store::{Batch, Precondition, Write};

fn amounts(spec: &VolumeSpec) -> Amounts {
    Amounts::from([(QuotaKind::Volume, Amount::of(u64::from(spec.size_gib)))])
}

fn refer(target: Key, volume: Key) -> Write {
    Write::AddReference { target, holder: Holder::Resource(volume) }
}

/// A new volume in the place of its network, which owns it. It refers to the network and to the server that claims it,
/// so that neither can be deleted before it. The charge comes first: nothing is made that nobody pays for, not even by
/// whoever sees the middle of a saga.
#[must_use]
pub fn creation(
    accepted: &AcceptedCreate,
    author: &Author,
    (place, placement): (Place, Placement),
    (id, incarnation): (VolumeId, Incarnation),
) -> Batch {
    let network = accepted.network.key();
    let metadata = author.metadata(&accepted.metadata, incarnation, placement);
    let metadata = Metadata { owner: Some(network), charged: true, ..metadata };
    let payers = payers(&metadata);
    let mut batch = Batch::of(vec![
        charge(id.key(), &metadata, place.organization, amounts(&accepted.spec)),
        insert::<Volume>(id.0, metadata, &accepted.spec),
    ]);
    let used = std::iter::once(network).chain(accepted.spec.server.map(ServerId::key)).collect::<Vec<_>>();
    batch.writes.extend(used.iter().map(|target| refer(*target, id.key())));
    let needed = used.into_iter().chain(payers);
    needed.fold(batch, |batch, target| batch.provided(Precondition::Live(target)))
}

/// Refers to a new claimant before it is one, and pays before it grows. The reference on the server that had it is the
/// actor's to drop, when the cloud has taken the volume from it.
pub fn update(
    stored: &Resource<Volume>,
    accepted: &AcceptedUpdate,
    subject: &str,
    now: Timestamp,
) -> Result<Batch, CorruptRecord> {
    let spec = VolumeSpec { class: stored.spec.class, size_gib: accepted.size_gib, server: accepted.server };
    let claimant = spec.server.filter(|server| stored.spec.server != Some(*server)).map(ServerId::key);
    let mut writes = claimant.iter().map(|server| refer(*server, stored.key)).collect::<Vec<_>>();
    if spec.size_gib != stored.spec.size_gib {
        let organization = stored.place()?.organization;
        writes.push(charge(stored.key, &stored.metadata, organization, amounts(&spec)));
    }
    let is_news = spec != stored.spec;
    writes.push(Revision { metadata: &accepted.metadata, subject, now, is_news }.write(stored, &spec));
    let batch = Batch::of(writes).provided(Precondition::Live(stored.key));
    Ok(claimant.into_iter().fold(batch, |batch, server| batch.provided(Precondition::Live(server))))
}
