//! What acceptance means for the store, as far as it is the same for every kind. Pure: times and ids are handed in.

use jiff::Timestamp;
use uuid::Uuid;

use super::wire::AcceptedMetadata;
use crate::identity::Caller;
use crate::model::WRITER_VERSION;
use crate::model::ids::{Incarnation, Key, OrganizationId, ProjectId};
use crate::model::metadata::{ApiVersion, Metadata, Placement, Principal};
use crate::model::quota::Amounts;
use crate::model::record::{Document, Record, Resource, ResourceKind};
use crate::store::{Batch, Precondition, Write};

/// Who makes something, on whose behalf, and when.
#[derive(Clone, Debug)]
pub struct Author {
    pub subject: String,
    pub principal: Principal,
    pub now: Timestamp,
    /// The surface that was asked.
    pub version: ApiVersion,
}

impl Author {
    #[must_use]
    pub fn of(
        caller: &Caller,
        (organization, project): (OrganizationId, impl Into<Option<ProjectId>>),
        now: Timestamp,
    ) -> Self {
        let principal = caller.principal(organization, project);
        Self { subject: caller.subject.clone(), principal, now, version: ApiVersion::V2 }
    }

    /// The same, asking the first version.
    #[must_use]
    pub fn of_v1(caller: &Caller, place: (OrganizationId, ProjectId), now: Timestamp) -> Self {
        Self { version: ApiVersion::V1, ..Self::of(caller, place, now) }
    }

    /// What is said of something new.
    #[must_use]
    pub fn metadata(&self, accepted: &AcceptedMetadata, incarnation: Incarnation, placement: Placement) -> Metadata {
        Metadata {
            description: accepted.description.clone(),
            tags: accepted.tags.clone(),
            deletion_protection: accepted.deletion_protection,
            principal: self.principal.clone(),
            api_version: self.version,
            ..Metadata::new(incarnation, &accepted.name, placement, &self.subject, self.now)
        }
    }
}

#[must_use]
pub fn insert<K: ResourceKind>(id: Uuid, metadata: Metadata, spec: &K::Spec) -> Write {
    Write::Insert(Box::new(Record::new::<K>(id, metadata, spec)))
}

/// Charges what something costs to whom it exists for, who need not be where it lies.
#[must_use]
pub fn charge(holder: Key, metadata: &Metadata, organization: OrganizationId, amounts: Amounts) -> Write {
    Write::Charge {
        organization: metadata.principal.organization.unwrap_or(organization),
        project: metadata.principal.project,
        holder,
        incarnation: metadata.incarnation,
        amounts,
    }
}

/// Whoever pays for something and lies elsewhere than it: they must be there too. The place's own organization is, as
/// long as its project is.
#[must_use]
pub fn payers(metadata: &Metadata) -> Vec<Key> {
    let (principal, placement) = (&metadata.principal, &metadata.placement);
    let organization = principal.organization.filter(|payer| Some(*payer) != placement.organization);
    let project = principal.project.filter(|payer| Some(*payer) != placement.project);
    organization.map(OrganizationId::key).into_iter().chain(project.map(ProjectId::key)).collect()
}

/// What a full replacement says of itself: what clients may change, and who did. The creator stays (B10).
#[derive(Clone, Copy, Debug)]
pub struct Revision<'a> {
    pub metadata: &'a AcceptedMetadata,
    pub subject: &'a str,
    pub now: Timestamp,
    /// Something is to be realised anew. A name, or a tag that no cloud hears of, is realised by being stored.
    pub is_news: bool,
}

impl Revision<'_> {
    /// The write that replaces what is stored, if nobody else has in the meantime.
    #[must_use]
    pub fn write<K: ResourceKind>(&self, stored: &Resource<K>, spec: &K::Spec) -> Write {
        let old = &stored.metadata;
        let metadata = Metadata {
            name: self.metadata.name.clone(),
            description: self.metadata.description.clone(),
            tags: self.metadata.tags.clone(),
            deletion_protection: self.metadata.deletion_protection.or(old.deletion_protection),
            modifier: Some(self.subject.to_owned()),
            modified: Some(self.now),
            generation: old.generation + u64::from(self.is_news),
            writer_version: WRITER_VERSION,
            ..old.clone()
        };
        Write::Intent {
            key: stored.key,
            expected: stored.revision,
            metadata: Box::new(metadata),
            spec: Document::of(spec),
        }
    }
}

/// Asks for the end of something that nobody uses.
#[must_use]
pub fn deletion(key: Key, now: Timestamp) -> Batch {
    Batch::of(vec![Write::MarkDeleted { key, at: now }])
        .provided(Precondition::Unreferenced(key))
        .provided(Precondition::Unprotected(key))
}
