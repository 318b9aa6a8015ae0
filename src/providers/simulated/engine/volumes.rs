//! The life of a volume: made, attached to one server at a time, enlarged, taken away.
//!
//! ```text
//!   create ─▶ building ─▶ active ◀──▶ active with a task: attaching, detaching, resizing
//!                └──▶ error ◀────────┘        delete, when no server has it ─▶ deleting ─▶ gone
//! ```
//!
//! As in real clouds, one thing at a time is done to a volume, and a server that goes leaves its volumes behind.

use jiff::Timestamp;

use super::super::call::{Answer, CloudError};
use super::super::catalogue;
use super::super::objects::{
    Becomes, Body, CloudObject, ObjectId, ObjectKind, ObjectState, VolumeAttachment, VolumeBody, VolumeTask,
};
use super::rules::{Outcome, World};
use super::servers::until;

/// The devices that a guest has for volumes: the first is its root disk.
const DEVICES: std::ops::RangeInclusive<char> = 'b'..='z';

impl World {
    pub(super) fn admit_volume(volume: &mut VolumeBody) -> Outcome<()> {
        if catalogue::volume_class(volume.class).is_none() {
            return Err(CloudError::rejected("there is no such volume class"));
        }
        if volume.size_gib == 0 {
            return Err(CloudError::rejected("a volume has a size"));
        }
        (volume.attachment, volume.task) = (None, None);
        Ok(())
    }

    /// The volume, if it is in one of these states and the cloud is not busy with it.
    fn idle_volume(&self, id: &ObjectId, states: &[ObjectState]) -> Outcome<(CloudObject, VolumeBody)> {
        let object = self.existing(ObjectKind::Volume, id)?;
        match &object.body {
            Body::Volume(volume) if states.contains(&object.state) && volume.task.is_none() => {
                Ok((object.clone(), VolumeBody::clone(volume)))
            }
            _ => Err(CloudError::conflict("the volume's state does not allow it")),
        }
    }

    /// Takes up an order: it is done after a while.
    fn begin(&mut self, now: Timestamp, mut object: CloudObject, volume: VolumeBody) -> CloudObject {
        object.pending = Some(until(now, self.settings.volume_delay, Becomes::Active));
        object.body = Body::Volume(Box::new(volume));
        self.table.put(now, object.clone());
        object
    }

    pub(super) fn attach_volume(&mut self, now: Timestamp, id: &ObjectId, server: &ObjectId) -> Outcome {
        let (object, volume) = self.idle_volume(id, &[ObjectState::Active])?;
        if volume.attachment.is_some() {
            return Err(CloudError::conflict("another server has the volume"));
        }
        if self.existing(ObjectKind::Server, server)?.state != ObjectState::Active {
            return Err(CloudError::conflict("the server's state does not allow it"));
        }
        let attachment = Some(VolumeAttachment { server: server.clone(), device: self.free_device(server)? });
        self.begin(now, object, VolumeBody { attachment, task: Some(VolumeTask::Attaching), ..volume });
        Ok(Answer::Done)
    }

    fn free_device(&self, server: &ObjectId) -> Outcome<String> {
        let others = self.table.users_of(server).into_iter().filter_map(|id| self.table.get(ObjectKind::Volume, &id));
        let taken = others.filter_map(CloudObject::attachment).map(|other| other.device.clone()).collect::<Vec<_>>();
        let mut devices = DEVICES.map(|letter| format!("/dev/vd{letter}"));
        devices.find(|device| !taken.contains(device)).ok_or(CloudError::Quota)
    }

    pub(super) fn detach_volume(&mut self, now: Timestamp, id: &ObjectId) -> Outcome {
        let (object, volume) = self.idle_volume(id, &[ObjectState::Active, ObjectState::Error])?;
        if volume.attachment.is_none() {
            return Err(CloudError::conflict("no server has the volume"));
        }
        self.begin(now, object, VolumeBody { task: Some(VolumeTask::Detaching), ..volume });
        Ok(Answer::Done)
    }

    pub(super) fn resize_volume(&mut self, now: Timestamp, id: &ObjectId, size_gib: u32) -> Outcome {
        let (object, volume) = self.idle_volume(id, &[ObjectState::Active])?;
        if size_gib <= volume.size_gib {
            return Err(CloudError::rejected("a volume only grows"));
        }
        let task = Some(VolumeTask::Resizing { size_gib });
        let object = self.begin(now, object, VolumeBody { task, ..volume });
        Ok(Answer::Object { object: Box::new(object) })
    }
}

/// Finishes what the cloud was doing.
pub(super) fn complete(volume: &mut VolumeBody) {
    match volume.task.take() {
        Some(VolumeTask::Detaching) => volume.attachment = None,
        Some(VolumeTask::Resizing { size_gib }) => volume.size_gib = size_gib,
        Some(VolumeTask::Attaching) | None => {}
    }
}

/// Its server is gone: nobody has it, and nobody is still giving it or taking it.
pub(super) fn bereave(object: &mut CloudObject) {
    let Body::Volume(volume) = &mut object.body else { return };
    volume.attachment = None;
    if matches!(volume.task, Some(VolumeTask::Attaching | VolumeTask::Detaching)) {
        volume.task = None;
        object.pending = None;
    }
}
