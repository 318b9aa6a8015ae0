//! What accepting a request about a load balancer means for the store. Pure: times and ids are handed in.

use jiff::Timestamp;

use super::wire::Accepted;
use crate::api::intent::{Author, Revision, charge, insert, payers};
use crate::model::ids::{Incarnation, LoadBalancerId, NetworkId};
use crate::model::load_balancer::{LoadBalancer, LoadBalancerSpec};
use crate::model::metadata::{Metadata, Placement};
use crate::model::record::{CorruptRecord, Place, Resource};
use crate::store::{Batch, Precondition};

/// A new balancer in the place of its network, which owns it: it takes no reference on it, and goes with it. Paid for
/// before it is there, so that nobody makes what nobody pays for.
#[must_use]
pub fn creation(
    accepted: &Accepted,
    author: &Author,
    (network, place, placement): (NetworkId, Place, Placement),
    (id, incarnation): (LoadBalancerId, Incarnation),
) -> Batch {
    let metadata = Metadata {
        owner: Some(network.key()),
        charged: true,
        ..author.metadata(&accepted.metadata, incarnation, placement)
    };
    let payers = payers(&metadata);
    let batch = Batch::of(vec![
        charge(id.key(), &metadata, place.organization, accepted.spec.cost()),
        insert::<LoadBalancer>(id.0, metadata, &accepted.spec),
    ])
    .provided(Precondition::Live(network.key()));
    payers.into_iter().fold(batch, |batch, payer| batch.provided(Precondition::Live(payer)))
}

/// A full replacement of what may change, charged anew. The virtual address is carried over.
pub fn update(
    stored: &Resource<LoadBalancer>,
    accepted: &Accepted,
    subject: &str,
    now: Timestamp,
) -> Result<Batch, CorruptRecord> {
    let spec = LoadBalancerSpec { vip_address: stored.spec.vip_address, ..accepted.spec.clone() };
    let revision = Revision { metadata: &accepted.metadata, subject, now, is_news: spec != stored.spec };
    let organization = stored.place()?.organization;
    let charge = charge(stored.key, &stored.metadata, organization, spec.cost());
    Ok(Batch::of(vec![charge, revision.write(stored, &spec)]).provided(Precondition::Live(stored.key)))
}
