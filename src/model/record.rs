//! A resource as it is stored, and as its kind sees it.
//!
//! The store, the graph and supervision handle every kind alike, so they hold a [`Record`], whose specification
//! and status detail are unread JSON. A kind opens it into a typed [`Resource`]; a record that does not open is
//! corrupt, and only that one resource suffers.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::condition::Conditions;
use super::ids::{IdentityId, Key, Kind, NetworkId, OrganizationId, ProjectId, RegionId};
use super::metadata::Metadata;

/// Names the types behind a kind's JSON.
pub trait ResourceKind: Send + Sync + 'static {
    const KIND: Kind;
    /// What is desired. Written by the API alone.
    type Spec: Serialize + DeserializeOwned + Clone + std::fmt::Debug + PartialEq + Send + Sync;
    /// What is known beyond the conditions. Written by the owning actor alone.
    type Detail: Serialize + DeserializeOwned + Clone + std::fmt::Debug + PartialEq + Default + Send + Sync;
}

/// JSON text that nobody has looked into yet. Cheap to clone, small at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document(Arc<str>);

impl Document {
    #[must_use]
    pub fn of<T: Serialize>(value: &T) -> Self {
        let text = serde_json::to_string(value).expect("model types have string keys and no failing serializers");
        Self(text.into())
    }

    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl Default for Document {
    fn default() -> Self {
        Self::from_text("{}")
    }
}

/// Grows by one with each write of its half of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A resource as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub key: Key,
    pub metadata: Metadata,
    pub spec: Document,
    pub conditions: Conditions,
    pub detail: Document,
    /// Of metadata and specification: the ETag.
    pub revision: Revision,
    /// Of conditions and detail.
    pub status_revision: Revision,
}

/// The stored JSON of one record could not be read as its kind.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the stored {part} of {key} is unreadable: {cause}")]
pub struct CorruptRecord {
    pub key: Key,
    pub part: &'static str,
    pub cause: String,
}

impl Record {
    /// A new resource: nothing said about it yet, nothing written before.
    #[must_use]
    pub fn new<K: ResourceKind>(id: uuid::Uuid, metadata: Metadata, spec: &K::Spec) -> Self {
        Self {
            key: Key::new(K::KIND, id),
            metadata,
            spec: Document::of(spec),
            conditions: Conditions::default(),
            detail: Document::of(&K::Detail::default()),
            revision: Revision(1),
            status_revision: Revision(0),
        }
    }

    pub fn open<K: ResourceKind>(&self) -> Result<Resource<K>, CorruptRecord> {
        let corrupt = |part, cause: serde_json::Error| CorruptRecord { key: self.key, part, cause: cause.to_string() };
        Ok(Resource {
            key: self.key,
            metadata: self.metadata.clone(),
            spec: self.spec.read().map_err(|cause| corrupt("specification", cause))?,
            conditions: self.conditions.clone(),
            detail: self.detail.read().map_err(|cause| corrupt("status detail", cause))?,
            revision: self.revision,
        })
    }
}

/// A resource as its kind sees it.
#[derive(Clone, Debug)]
pub struct Resource<K: ResourceKind> {
    pub key: Key,
    pub metadata: Metadata,
    pub spec: K::Spec,
    pub conditions: Conditions,
    pub detail: K::Detail,
    pub revision: Revision,
}

/// Where a tenant's resource lies, with nothing missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub region: RegionId,
}

impl Record {
    /// Scope that is missing is an error and never a default.
    pub fn place(&self) -> Result<Place, CorruptRecord> {
        place(self.key, &self.metadata)
    }

    /// Whose it is and where it is made: all that a call to a cloud needs. What is an organization's own lies in no
    /// project.
    pub fn tenant(&self) -> Result<(OrganizationId, RegionId), CorruptRecord> {
        let placement = &self.metadata.placement;
        placement.organization.zip(placement.region).ok_or_else(|| unplaced(self.key))
    }
}

impl<K: ResourceKind> Resource<K> {
    /// Scope that is missing is an error and never a default.
    pub fn place(&self) -> Result<Place, CorruptRecord> {
        place(self.key, &self.metadata)
    }

    /// The principal that scopes it in its cloud.
    pub fn identity(&self) -> Result<IdentityId, CorruptRecord> {
        self.metadata.placement.identity.ok_or_else(|| unplaced(self.key))
    }

    /// The network that it lies in.
    pub fn network(&self) -> Result<NetworkId, CorruptRecord> {
        self.metadata.placement.network.ok_or_else(|| unplaced(self.key))
    }
}

fn place(key: Key, metadata: &Metadata) -> Result<Place, CorruptRecord> {
    let placement = &metadata.placement;
    match (placement.organization, placement.project, placement.region) {
        (Some(organization), Some(project), Some(region)) => Ok(Place { organization, project, region }),
        _ => Err(unplaced(key)),
    }
}

fn unplaced(key: Key) -> CorruptRecord {
    CorruptRecord {
        key,
        part: "placement",
        cause: "organization, project, region, identity or network is missing".to_owned(),
    }
}
