//! What machines boot from: the catalogue that is everybody's, and images that a tenant made.

use jiff::Timestamp;

use super::super::call::CloudError;
use super::super::catalogue;
use super::super::objects::{Becomes, ImageBody, ObjectId, ObjectKind, ObjectState, Pending, TENANT_TAG};
use super::rules::{Outcome, World};
use super::servers::until;
use crate::model::ids::ImageId;
use crate::providers::image_schema::{ImageEntry, image_of};
use crate::providers::types::ImageStatus;

/// How large an image is that was fetched from nowhere: it fits onto every flavor's disk.
const IMPORT_SIZE_GIB: u32 = 10;

pub(super) const GIB: u64 = 1 << 30;

impl World {
    /// What is listed to everybody. What is one tenant's is not (B18).
    pub(super) fn public_images(&self) -> Vec<ImageEntry> {
        catalogue::images().iter().map(ImageEntry::of).chain(self.offered_images.iter().cloned()).collect()
    }

    pub(super) fn import(&self, from: Timestamp) -> Pending {
        until(from, self.settings.image_delay, Becomes::Active)
    }

    /// Checks an order for an image, and gives it its size.
    pub(super) fn admit_image(&self, id: &ObjectId, image: &mut ImageBody) -> Outcome<()> {
        if self.table.get(ObjectKind::Image, id).is_some() {
            return Err(CloudError::conflict("there is an image of this id"));
        }
        let Some(source) = &image.source else {
            image.size_gib = IMPORT_SIZE_GIB;
            return Ok(());
        };
        let object = self.existing(ObjectKind::Server, source)?;
        let server = object.server().filter(|server| server.life.launched.is_some() && server.life.task.is_none());
        let server = server.filter(|server| object.state == ObjectState::Active && !server.life.awaits_confirmation);
        let server = server.ok_or_else(|| CloudError::conflict("the server's state does not allow it"))?;
        let disk_bytes = catalogue::flavor(server.flavor).map_or(0, |flavor| flavor.disk_bytes);
        image.size_gib = u32::try_from(disk_bytes.div_ceil(GIB)).unwrap_or(u32::MAX);
        Ok(())
    }

    /// May a server of this project boot from it? What is another tenant's is as if it were not there.
    pub(super) fn bootable(&self, image: ImageId, project: &ObjectId) -> Outcome<()> {
        let unknown = || CloudError::rejected("there is no such image");
        let is_ready = if let Some(object) = self.table.get(ObjectKind::Image, &ObjectId(image.to_string())) {
            let owner = object.image().and_then(|image| image.owner).map(|owner| owner.to_string());
            let tenant = self.table.get(ObjectKind::Project, project).and_then(|project| project.tags.get(TENANT_TAG));
            if owner.is_some() && owner.as_ref() != tenant {
                return Err(unknown());
            }
            object.state == ObjectState::Active
        } else {
            let offered = || self.offered_images.iter().find(|entry| entry.id == image);
            let added = || offered().and_then(|entry| image_of(entry, None).ok());
            let image = catalogue::image(image).cloned().or_else(added).ok_or_else(unknown)?;
            image.status == ImageStatus::Ready
        };
        if is_ready { Ok(()) } else { Err(CloudError::rejected("the image is not ready")) }
    }

    /// How large a disk must be for it; `None` when it is gone.
    pub(super) fn size_gib(&self, image: ImageId) -> Option<u32> {
        let own = self.table.get(ObjectKind::Image, &ObjectId(image.to_string())).and_then(|object| object.image());
        let offered = || self.offered_images.iter().find(|entry| entry.id == image);
        let added = || offered().and_then(|entry| image_of(entry, None).ok()).map(|image| image.size_gib);
        own.map(|image| image.size_gib).or_else(|| catalogue::image(image).map(|image| image.size_gib)).or_else(added)
    }

    /// Does a server run on it?
    pub(super) fn is_booted_from(&self, image: &ObjectId) -> bool {
        let mut servers = self.table.of_kind(ObjectKind::Server).filter_map(|object| object.server());
        servers.any(|server| server.image.to_string() == image.0)
    }
}
