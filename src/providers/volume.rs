//! What is asked of a cloud about a volume, and what it says.

use crate::model::ids::{IdentityId, Incarnation, OrganizationId, ProjectId, VolumeId};
use crate::model::record::{CorruptRecord, Resource};
use crate::model::volume::{Volume, VolumeDetail, VolumeSighting, VolumeSpec};

/// A volume to make, to change or to unmake.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeRequest {
    pub id: VolumeId,
    pub incarnation: Incarnation,
    /// The generation that the specification is of; a convergence says that this is what it reached.
    pub generation: u64,
    pub identity: IdentityId,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub spec: VolumeSpec,
    pub detail: VolumeDetail,
}

impl VolumeRequest {
    /// What is on record of a volume.
    pub fn of(volume: &Resource<Volume>) -> Result<Self, CorruptRecord> {
        let place = volume.place()?;
        Ok(Self {
            id: VolumeId(volume.key.id),
            incarnation: volume.metadata.incarnation,
            generation: volume.metadata.generation,
            identity: volume.identity()?,
            organization: place.organization,
            project: place.project,
            spec: volume.spec.clone(),
            detail: volume.detail.clone(),
        })
    }
}

/// What is there of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeFact {
    /// `None`: nothing is there, although there once was.
    pub volume: Option<VolumeSighting>,
    /// The generation that a convergence reached: no server but the claimant has the volume. `None` otherwise, and of a
    /// mere look.
    pub converged: Option<u64>,
    /// Of everything.
    pub fingerprint: u64,
}
