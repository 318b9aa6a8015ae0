//! What accepting a request about a security group means for the store. Pure: times and ids are handed in.

use jiff::Timestamp;

use super::wire::Accepted;
use crate::api::intent::{Author, Revision, insert};
use crate::model::ids::{Incarnation, Key, SecurityGroupId};
use crate::model::metadata::{Metadata, Placement};
use crate::model::record::Resource;
use crate::model::security_group::SecurityGroup;
use crate::store::{Batch, Precondition};

/// A new group in the place of its network, or its principal, which owns it: it takes no reference on it, and goes with
/// it.
#[must_use]
pub fn creation(
    accepted: &Accepted,
    author: &Author,
    (owner, placement): (Key, Placement),
    (id, incarnation): (SecurityGroupId, Incarnation),
) -> Batch {
    let metadata = Metadata { owner: Some(owner), ..author.metadata(&accepted.metadata, incarnation, placement) };
    Batch::of(vec![insert::<SecurityGroup>(id.0, metadata, &accepted.spec)]).provided(Precondition::Live(owner))
}

#[must_use]
pub fn update(stored: &Resource<SecurityGroup>, accepted: &Accepted, subject: &str, now: Timestamp) -> Batch {
    let is_news = accepted.spec != stored.spec;
    let revision = Revision { metadata: &accepted.metadata, subject, now, is_news };
    Batch::of(vec![revision.write(stored, &accepted.spec)]).provided(Precondition::Live(stored.key))
}
