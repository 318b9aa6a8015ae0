//! A volume: block storage that one server at a time can have, and that outlives it.
//!
//! ```text
//!   cloud        Creating ──▶ Ready ◀──▶ Resizing          Ready ──▶ Deleting ──▶ absent
//!                   └──▶ Error
//!   attachment   none ──▶ Attaching ──▶ Attached ──▶ Detaching ──▶ none
//! ```
//!
//! The claim is in the specification: at most one server, of the same network. What it holds is lost when it is: a volume
//! that was whole once is never made a second time.

use serde::{Deserialize, Serialize};

use super::ids::{Kind, ProviderVolumeId, ServerId, VolumeClassId};
use super::projection::ProvisioningStatus;
use super::record::ResourceKind;
use super::server::CreationTries;

/// Four times the largest volume of a common cloud. A larger number is a slip of the keyboard, and would be charged.
pub const SIZE_GIB_MAX: u32 = 65_536;

#[derive(Clone, Debug)]
pub struct Volume;

impl ResourceKind for Volume {
    const KIND: Kind = Kind::Volume;
    type Spec = VolumeSpec;
    type Detail = VolumeDetail;
}

/// What the client asked for. The class and the network never change, and the size only grows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSpec {
    pub class: VolumeClassId,
    pub size_gib: u32,
    /// The server that claims it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerId>,
}

/// What a cloud says of a volume, in words that belong to none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSighting {
    pub id: ProviderVolumeId,
    pub state: CloudVolumeState,
    pub size_gib: u32,
    pub attachment: Option<Attachment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudVolumeState {
    /// Exits: `Ready`, `Error`.
    Creating,
    /// It can be used, or is. Exits: `Resizing`, `Error`, `Deleting`.
    Ready,
    /// Exits: `Ready`, `Error`.
    Resizing,
    /// The cloud gave up on it.
    Error,
    /// Exits: absence.
    Deleting,
}

/// Where a volume is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// `None`: to a machine that is no server of ours, or that nobody looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerId>,
    /// As the guest sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    pub state: AttachmentState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachmentState {
    Attaching,
    Attached,
    Detaching,
}

/// What is known of it beyond the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<ProviderVolumeId>,
    /// How large it really is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_gib: Option<u32>,
    /// It could be used once, so there may be something on it. Never cleared, and on record before it is attached.
    pub was_whole: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Attachment>,
    /// The generation that the cloud was last brought to, as far as no server but the claimant has it.
    pub converged: u64,
    pub creation: CreationTries,
    /// The last failed beginning that was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<ProviderVolumeId>,
    /// Of everything that was last seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<u64>,
}

impl VolumeDetail {
    /// Does exactly the claimant have it?
    #[must_use]
    pub fn is_attached_as(&self, claimed: Option<ServerId>) -> bool {
        match &self.attachment {
            None => claimed.is_none(),
            Some(attachment) => {
                claimed.is_some() && attachment.server == claimed && attachment.state == AttachmentState::Attached
            }
        }
    }
}

/// What clients are shown of where a volume is and where it is going: a claim at once, and its end until it is over.
#[must_use]
pub fn shown_attachment(
    claimed: Option<ServerId>,
    seen: Option<&Attachment>,
) -> Option<(ServerId, Option<String>, ProvisioningStatus)> {
    let under_way = || claimed.map(|server| (server, None, ProvisioningStatus::Provisioning));
    let Some((attachment, server)) = seen.and_then(|seen| Some((seen, seen.server?))) else { return under_way() };
    let status = match attachment.state {
        _ if claimed != Some(server) => ProvisioningStatus::Deprovisioning,
        AttachmentState::Detaching => ProvisioningStatus::Deprovisioning,
        AttachmentState::Attaching => ProvisioningStatus::Provisioning,
        AttachmentState::Attached => ProvisioningStatus::Provisioned,
    };
    Some((server, attachment.device.clone(), status))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn every_claim_and_every_attachment_is_shown_for_what_it_is() {
        use AttachmentState::{Attached, Attaching, Detaching};
        use ProvisioningStatus::{Deprovisioning, Provisioned, Provisioning};
        let (one, two) = (ServerId(Uuid::from_u128(1)), ServerId(Uuid::from_u128(2)));
        let table = [
            (None, None, None),
            (Some(one), None, Some((one, Provisioning))),
            (Some(one), Some((one, Attaching)), Some((one, Provisioning))),
            (Some(one), Some((one, Attached)), Some((one, Provisioned))),
            (Some(one), Some((one, Detaching)), Some((one, Deprovisioning))),
            (None, Some((one, Attached)), Some((one, Deprovisioning))),
            (None, Some((one, Detaching)), Some((one, Deprovisioning))),
            (Some(two), Some((one, Attached)), Some((one, Deprovisioning))),
        ];
        for (claimed, seen, expected) in table {
            let attachment =
                seen.map(|(server, state)| Attachment { server: Some(server), device: Some("/dev/vdb".into()), state });
            let shown = shown_attachment(claimed, attachment.as_ref());
            assert_eq!(shown.as_ref().map(|(server, _, status)| (*server, *status)), expected, "{claimed:?} {seen:?}");
            let detail = VolumeDetail { attachment, ..VolumeDetail::default() };
            let settled = matches!(expected, None | Some((_, Provisioned)));
            assert_eq!(detail.is_attached_as(claimed), settled, "{claimed:?} {seen:?}");
        }
    }
}
