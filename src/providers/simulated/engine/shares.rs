//! The storage system: what it refuses, how it fills.

use jiff::{SignedDuration, Timestamp};

use super::super::call::{CloudError, Criteria};
use super::super::catalogue;
use super::super::objects::{Body, CloudObject, ObjectKind, ObjectState};
use super::super::shares::{ShareAttachmentBody, ShareBody, ShareOptions};
use super::rules::{Outcome, World};
use crate::model::file_storage::{GIB, Usage};

/// How often usage is measured, as real systems do. Each measure that differs is a row that somebody writes.
const MEASURED_EVERY: SignedDuration = SignedDuration::from_mins(10);

/// How much is written between two measures, until a share is full: slow enough that a small one lasts for hours.
const WRITTEN_BYTES: u64 = GIB / 16;

impl World {
    /// Checks an order for a share or an attachment, and gives it what only the system can. Anything else passes.
    pub(super) fn admit_storage(&self, now: Timestamp, name: &str, body: &mut Body) -> Outcome<()> {
        match body {
            Body::Share { share } => {
                if !catalogue::file_storage_classes().iter().any(|class| class.id == share.class) {
                    return Err(CloudError::rejected("there is no such class"));
                }
                if self.table.has_named(ObjectKind::Share, name) {
                    return Err(CloudError::conflict("there is a share at this path"));
                }
                share.mount_path = Some(format!("/exports/{name}"));
                share.created = Some(now);
                share.usage = None;
                Ok(())
            }
            Body::ShareAttachment { export } => self.admit_attachment(export),
            _ => Ok(()),
        }
    }

    fn admit_attachment(&self, wanted: &ShareAttachmentBody) -> Outcome<()> {
        if self.usable(ObjectKind::Share, &wanted.share)?.state == ObjectState::Building {
            return Err(CloudError::conflict("the share is being made"));
        }
        self.usable(ObjectKind::Network, &wanted.network)?;
        let there = self.table.find(ObjectKind::ShareAttachment, &Criteria::inside(wanted.share.clone()));
        let same = |object: &CloudObject| object.share_attachment().is_some_and(|had| had.network == wanted.network);
        if there.iter().any(same) {
            return Err(CloudError::conflict("the share is attached to the network already"));
        }
        let subnets = self.table.find(ObjectKind::Subnet, &Criteria::inside(wanted.network.clone()));
        let fits = |subnet: &CloudObject| match &subnet.body {
            Body::Subnet { cidr, .. } => cidr.contains(&wanted.addresses.start) && cidr.contains(&wanted.addresses.end),
            _ => false,
        };
        match subnets.iter().any(fits) {
            true => Ok(()),
            false if subnets.is_empty() => Err(CloudError::conflict("the network has no subnet")),
            false => Err(CloudError::rejected("the addresses are not of the network")),
        }
    }
}

pub(super) fn change(share: &mut ShareBody, wanted: &ShareOptions) -> Outcome<()> {
    if wanted.size_bytes < share.options.size_bytes {
        return Err(CloudError::rejected("a share does not shrink"));
    }
    share.options.clone_from(wanted);
    Ok(())
}

/// Says how full each share is, as of the last measure; nothing of what is not a share that is in use.
pub(super) fn measure(now: Timestamp, objects: &mut [CloudObject]) {
    for object in objects {
        measure_share(now, object);
    }
}

fn measure_share(now: Timestamp, object: &mut CloudObject) {
    let in_use = object.state == ObjectState::Active;
    let Body::Share { share } = &mut object.body else { return };
    let Some(created) = share.created.filter(|_| in_use) else { return };
    let measures = now.duration_since(created).as_secs() / MEASURED_EVERY.as_secs();
    let at = created.checked_add(MEASURED_EVERY * i32::try_from(measures).unwrap_or(i32::MAX)).unwrap_or(created);
    let written = WRITTEN_BYTES.saturating_mul(measures.max(0).unsigned_abs());
    share.usage = Some(Usage { used_bytes: written.min(share.options.size_bytes), at });
}
