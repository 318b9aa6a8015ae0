//! What accepting a request about an instance means for the store. Pure: times and ids are handed in.

use jiff::Timestamp;

use super::wire::{AcceptedCreate, AcceptedUpdate};
use crate::api::intent::{Author, Revision, charge, insert, payers};
use crate::model::edge::Holder;
use crate::model::ids::{Incarnation, InstanceId, Key, ServerId};
use crate::model::instance::{Instance, InstanceSpec, MachineSpec, server_record, server_uses};
use crate::model::metadata::{Metadata, Placement};
use crate::model::quota::larger;
use crate::model::record::Resource;
use crate::store::{Batch, Precondition, Write};

fn refer(target: Key, holder: Key) -> Write {
    Write::AddReference { target, holder: Holder::Resource(holder) }
}

/// A new instance, owned by its project, and its server, owned by the network. Both refer to all that they use.
///
/// What may be refused comes first, the name last of that: it is the server's id. Where this is cut into single writes,
/// nothing is made that is not paid for, and no server is without its instance for longer than the cut.
#[must_use]
pub fn creation(
    accepted: &AcceptedCreate,
    machine: MachineSpec,
    author: &Author,
    placement: Placement,
    (id, incarnation): (InstanceId, Incarnation),
) -> Batch {
    let charged = machine.cost();
    let spec = InstanceSpec {
        machine,
        policy: accepted.said.policy,
        server: ServerId::named(accepted.network, &accepted.metadata.name),
        pool: None,
        charged,
    };
    let metadata = Metadata {
        owner: Some(accepted.project.key()),
        charged: true,
        ..author.metadata(&accepted.metadata, incarnation, placement)
    };
    let (uses, payers) = (server_uses(&metadata, &spec), payers(&metadata));
    let mut writes = vec![charge(id.key(), &metadata, accepted.organization, spec.charged.clone())];
    for holder in [id.key(), spec.server.key()] {
        writes.extend(uses.iter().map(|target| refer(*target, holder)));
    }
    writes.push(Write::Insert(Box::new(server_record(id, &metadata, &spec, 0))));
    writes.push(insert::<Instance>(id.0, metadata, &spec));
    let live = uses.into_iter().chain(payers).chain([accepted.project.key()]);
    live.fold(Batch::of(writes), |batch, needed| batch.provided(Precondition::Live(needed)))
}

/// A full replacement of what may change, charged anew, which refers to what is newly used before that is used. The
/// server follows: its intent is the actor's to change.
#[must_use]
pub fn update(
    stored: &Resource<Instance>,
    accepted: &AcceptedUpdate,
    machine: MachineSpec,
    (subject, now): (&str, Timestamp),
) -> Batch {
    let before = stored.spec.machine.uses();
    let added = machine.uses().into_iter().filter(|target| !before.contains(target)).collect::<Vec<_>>();
    let policy = accepted.said.policy.or(stored.spec.policy);
    // What its machine may still have is paid for until it has followed; the actor gives the rest back.
    let is_settled = stored.detail.settled == stored.metadata.generation;
    let held = if is_settled { stored.spec.machine.cost() } else { stored.spec.charged.clone() };
    let charged = larger(&held, &machine.cost());
    let spec = InstanceSpec { machine, policy, charged, ..stored.spec.clone() };
    // Tags go to the cloud with the server.
    let is_news = spec != stored.spec || accepted.metadata.tags != stored.metadata.tags;
    let revision = Revision { metadata: &accepted.metadata, subject, now, is_news };
    let mut writes = Vec::new();
    if let Some(organization) = stored.metadata.placement.organization {
        writes.push(charge(stored.key, &stored.metadata, organization, spec.charged.clone()));
    }
    writes.extend(added.iter().map(|target| refer(*target, stored.key)));
    writes.push(revision.write(stored, &spec));
    let batch = Batch::of(writes).provided(Precondition::Live(stored.key));
    added.into_iter().fold(batch, |batch, target| batch.provided(Precondition::Live(target)))
}
