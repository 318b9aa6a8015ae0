//! What accepting a request about a cluster means for the store. Pure: times and ids are handed in.

use jiff::Timestamp;

use super::wire::AcceptedCreate;
use crate::api::intent::{Author, Revision, charge, insert, payers};
use crate::api::wire::AcceptedMetadata;
use crate::model::cluster::{Cluster, ClusterSpec};
use crate::model::edge::Holder;
use crate::model::ids::{ClusterId, Incarnation, Key, NetworkId};
use crate::model::metadata::{Metadata, Placement};
use crate::model::quota::{Amounts, larger};
use crate::model::record::Resource;
use crate::store::{Batch, Precondition, Write};

fn refer(target: Key, cluster: Key) -> Write {
    Write::AddReference { target, holder: Holder::Resource(cluster) }
}

/// A new cluster, owned by its project and charged for all of its instances at once: either there is room for all of
/// them or for none. Its instances are its actor's to make.
#[must_use]
pub fn creation(
    accepted: &AcceptedCreate,
    spec: &ClusterSpec,
    author: &Author,
    placement: Placement,
    (id, incarnation): (ClusterId, Incarnation),
) -> Batch {
    let spec = ClusterSpec { charged: spec.cost(), ..spec.clone() };
    let metadata = Metadata {
        owner: Some(accepted.project.key()),
        charged: true,
        ..author.metadata(&accepted.metadata, incarnation, placement)
    };
    let payers = payers(&metadata);
    let uses = std::iter::once(NetworkId::key(accepted.network)).chain(spec.uses()).collect::<Vec<_>>();
    let mut writes = vec![charge(id.key(), &metadata, accepted.organization, spec.charged.clone())];
    writes.extend(uses.iter().map(|target| refer(*target, id.key())));
    writes.push(insert::<Cluster>(id.0, metadata, &spec));
    let live = uses.into_iter().chain(payers).chain([accepted.project.key()]);
    live.fold(Batch::of(writes), |batch, needed| batch.provided(Precondition::Live(needed)))
}

/// What is held while what there was becomes what is asked for: of each the larger. Once nothing but what is asked for
/// is left, the actor gives the rest back.
fn held(stored: &Resource<Cluster>, asked: &Amounts) -> Amounts {
    let is_settled = stored.detail.settled == stored.metadata.generation;
    let before = if is_settled { stored.spec.cost() } else { stored.spec.charged.clone() };
    larger(&before, asked)
}

/// A full replacement, or an eviction.
#[must_use]
pub fn update(
    stored: &Resource<Cluster>,
    metadata: &AcceptedMetadata,
    spec: &ClusterSpec,
    (subject, now): (&str, Timestamp),
) -> Batch {
    let charged = held(stored, &spec.cost());
    let spec = ClusterSpec { charged: charged.clone(), ..spec.clone() };
    let before = stored.spec.uses();
    let added = spec.uses().into_iter().filter(|target| !before.contains(target)).collect::<Vec<_>>();
    let revision = Revision { metadata, subject, now, is_news: spec != stored.spec };
    let mut writes = Vec::new();
    if let Some(organization) = stored.metadata.placement.organization {
        writes.push(charge(stored.key, &stored.metadata, organization, charged));
    }
    writes.extend(added.iter().map(|target| refer(*target, stored.key)));
    writes.push(revision.write(stored, &spec));
    let batch = Batch::of(writes).provided(Precondition::Live(stored.key));
    added.into_iter().fold(batch, |batch, target| batch.provided(Precondition::Live(target)))
}
