//! Making and unmaking a volume, and giving it to a server.
//!
//! A volume that was whole once is never made a second time: an empty one in its place would hide that what it held is
//! gone. It is taken away only when the cloud has said that nobody has it any more.

use super::super::call::{Call, Change, Criteria};
use super::super::objects::{
    Body, CloudObject, Marks, NewObject, ObjectId, ObjectKind, ObjectState, VolumeBody, VolumeTask,
};
use super::fingerprint::Fingerprint;
use super::security_group::removals;
use super::session::{Session, at_most_one};
use super::tags;
use crate::model::ids::{ProviderVolumeId, ServerId};
use crate::model::volume::{Attachment, AttachmentState, CloudVolumeState, VolumeSighting};
use crate::providers::{Deletion, Observed, ProviderError, ProviderResult, VolumeFact, VolumeRequest};

const fn marks(request: &VolumeRequest) -> Marks {
    Marks { id: request.id.0, incarnation: request.incarnation }
}

fn known(request: &VolumeRequest) -> Option<ObjectId> {
    request.detail.volume.as_ref().map(|id| ObjectId(id.0.clone()))
}

impl Session<'_> {
    pub async fn converge_volume(&self, request: &VolumeRequest) -> ProviderResult<Observed<VolumeFact>> {
        let seen = self.look_at_volume(request).await?;
        let observed = |fact| Ok(Observed { sequence: seen.sequence, fact });
        let mut volume = match at_most_one(seen.fact, "volume")? {
            Some(volume) => volume,
            None if request.detail.was_whole => {
                let (converged, fingerprint) = (Some(request.generation), Fingerprint::new().value());
                return observed(VolumeFact { volume: None, converged, fingerprint });
            }
            None => self.create_volume(request).await?,
        };
        let is_idle = |volume: &CloudObject| {
            volume.state == ObjectState::Active && volume.volume().is_some_and(|body| body.task.is_none())
        };
        let update =
            |id: &ObjectId, change| self.change(Call::Update { kind: ObjectKind::Volume, id: id.clone(), change });
        let tags = tags(request.organization, request.project);
        if is_idle(&volume) && volume.tags != tags {
            volume = update(&volume.id, Change::Tags { tags }).await?;
        }
        let is_smaller = |body: &VolumeBody| body.size_gib < request.spec.size_gib;
        if is_idle(&volume) && volume.volume().is_some_and(is_smaller) {
            volume = update(&volume.id, Change::Size { size_gib: request.spec.size_gib }).await?;
        }
        let holder = match volume.attachment() {
            Some(attachment) => self.get(ObjectKind::Server, &attachment.server).await?,
            None => None,
        };
        let server = holder.and_then(|server| server.marks).map(|marks| ServerId(marks.id));
        // What is still with another server has not followed.
        let is_as_claimed = volume.attachment().is_none() || (server.is_some() && server == request.spec.server);
        observed(fact(&volume, server, is_as_claimed.then_some(request.generation)))
    }

    async fn look_at_volume(&self, request: &VolumeRequest) -> ProviderResult<Observed<Vec<CloudObject>>> {
        self.find_own(ObjectKind::Volume, marks(request), known(request).as_ref()).await
    }

    async fn create_volume(&self, request: &VolumeRequest) -> ProviderResult<CloudObject> {
        let project = self.project_of(request.identity).await?;
        let body = Body::Volume(Box::new(VolumeBody {
            project,
            class: request.spec.class,
            size_gib: request.spec.size_gib,
            attachment: None,
            task: None,
        }));
        let (name, tags) = (format!("volume-{}", request.id), tags(request.organization, request.project));
        self.change(Call::Create { object: NewObject { name, marks: Some(marks(request)), tags, body } }).await
    }

    /// The volume that an order is about.
    async fn own_volume(&self, request: &VolumeRequest) -> ProviderResult<ObjectId> {
        let found = at_most_one(self.look_at_volume(request).await?.fact, "volume")?;
        found.map(|volume| volume.id).ok_or(ProviderError::NotFound)
    }

    pub async fn attach_volume(&self, request: &VolumeRequest, server: ServerId) -> ProviderResult<()> {
        let volume = self.own_volume(request).await?;
        let found = self.find(ObjectKind::Server, Criteria::marked(server.0)).await?.fact;
        let missing = || ProviderError::Conflict("the server is not there".to_owned());
        let server = at_most_one(found, "server")?.ok_or_else(missing)?.id;
        self.order(Call::AttachVolume { volume, server }).await
    }

    pub async fn detach_volume(&self, request: &VolumeRequest) -> ProviderResult<()> {
        let volume = self.own_volume(request).await?;
        self.order(Call::DetachVolume { volume }).await
    }

    /// Takes away every volume of this incarnation, doubles included, once nobody has one of them.
    pub async fn delete_volume(&self, request: &VolumeRequest) -> ProviderResult<Deletion> {
        let seen = self.look_at_volume(request).await?.fact;
        if seen.is_empty() {
            return Ok(Deletion::Absent);
        }
        let held = seen.iter().filter(|volume| volume.attachment().is_some()).collect::<Vec<_>>();
        if !held.is_empty() {
            let is_idle = |volume: &&&CloudObject| volume.volume().is_some_and(|body| body.task.is_none());
            for volume in held.iter().filter(is_idle) {
                self.order(Call::DetachVolume { volume: volume.id.clone() }).await?;
            }
            return Ok(Deletion::Underway);
        }
        self.take_all_away(removals(&seen)).await?;
        let first = known(request).unwrap_or_else(|| seen[0].id.clone());
        let left = self.find_own(ObjectKind::Volume, marks(request), Some(&first)).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }
}

/// What is to be told of what was seen. `server` is ours that has it.
pub(super) fn fact(object: &CloudObject, server: Option<ServerId>, converged: Option<u64>) -> VolumeFact {
    let sighting = object.volume().map(|volume| {
        let state = match (object.state, volume.task) {
            (ObjectState::Building, _) => CloudVolumeState::Creating,
            (ObjectState::Error, _) => CloudVolumeState::Error,
            (ObjectState::Deleting, _) => CloudVolumeState::Deleting,
            (ObjectState::Active, Some(VolumeTask::Resizing { .. })) => CloudVolumeState::Resizing,
            (ObjectState::Active, _) => CloudVolumeState::Ready,
        };
        let attachment = volume.attachment.as_ref().map(|attachment| Attachment {
            server,
            device: Some(attachment.device.clone()),
            state: match volume.task {
                Some(VolumeTask::Attaching) => AttachmentState::Attaching,
                Some(VolumeTask::Detaching) => AttachmentState::Detaching,
                Some(VolumeTask::Resizing { .. }) | None => AttachmentState::Attached,
            },
        });
        let id = ProviderVolumeId(object.id.0.clone());
        VolumeSighting { id, state, size_gib: volume.size_gib, attachment }
    });
    VolumeFact { volume: sighting, converged, fingerprint: fingerprint(object) }
}

fn fingerprint(object: &CloudObject) -> u64 {
    let mut digest = Fingerprint::new();
    digest.head(object);
    if let Some(volume) = object.volume() {
        digest.number(volume.size_gib);
        digest.number(match volume.task {
            None => 0_u8,
            Some(VolumeTask::Attaching) => 1,
            Some(VolumeTask::Detaching) => 2,
            Some(VolumeTask::Resizing { .. }) => 3,
        });
        digest.number(volume.attachment.is_some());
        if let Some(attachment) = &volume.attachment {
            digest.text(&attachment.server.0);
            digest.text(&attachment.device);
        }
    }
    digest.value()
}
