//! What is to be told of a volume, and what can be done with it now: no calls here.
//!
//! Cinder has a word for each thing that it does with a volume, and refuses every other order meanwhile. Who has one is
//! told only when it is attached: while it is being attached, that is for Nova to say.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::doubles::Marked;
use super::names::{self, Claim};
use super::ports::nothing_if_null;
use crate::model::ids::{Incarnation, ProviderVolumeId, ServerId, VolumeId};
use crate::model::volume::{Attachment, AttachmentState, CloudVolumeState, VolumeSighting};
use crate::providers::fingerprint::Fingerprint;
use crate::providers::{VolumeFact, VolumeRequest};

pub(super) const VOLUME_PREFIX: &str = "volume-";

const INCARNATION_KEY: &str = "region:incarnation";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct VolumeBody {
    pub id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub name: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub status: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub size: u32,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub metadata: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub attachments: Vec<AttachmentBody>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct AttachmentBody {
    /// The cloud's own id of it.
    pub server_id: String,
    #[serde(default)]
    pub device: Option<String>,
}

/// What a volume is called. The service before us had none.
pub(super) fn name(id: VolumeId) -> String {
    format!("{VOLUME_PREFIX}{id}")
}

impl Marked for VolumeBody {
    const WORD: &'static str = "volume";
    fn id(&self) -> &str {
        &self.id
    }
    fn incarnation(&self) -> Option<Incarnation> {
        Self::incarnation(self)
    }
}

impl VolumeBody {
    pub fn of(&self) -> Option<VolumeId> {
        names::id_in(&self.name, VOLUME_PREFIX).map(VolumeId)
    }

    pub fn incarnation(&self) -> Option<Incarnation> {
        names::incarnation_in(self.metadata.get(INCARNATION_KEY)?)
    }

    pub fn is_of(&self, id: VolumeId, incarnation: Incarnation) -> bool {
        self.of() == Some(id) && Claim::of(self.incarnation(), incarnation) != Claim::Another
    }

    /// Nothing is going on with it.
    pub fn is_idle(&self) -> bool {
        matches!(self.status.as_str(), "available" | "in-use")
    }

    /// Does the cloud take it away, if nobody has it?
    pub fn can_be_deleted(&self) -> bool {
        matches!(self.status.as_str(), "available" | "error" | "error_deleting" | "error_extending" | "error_restoring")
    }

    /// The cloud is attaching it, or is about to, and does not say to whom.
    pub fn is_promised(&self) -> bool {
        matches!(self.status.as_str(), "reserved" | "attaching") && self.attachments.is_empty()
    }

    fn state(&self) -> CloudVolumeState {
        match self.status.as_str() {
            "creating" | "downloading" => CloudVolumeState::Creating,
            "extending" => CloudVolumeState::Resizing,
            "deleting" => CloudVolumeState::Deleting,
            status if status.starts_with("error") => CloudVolumeState::Error,
            _ => CloudVolumeState::Ready,
        }
    }

    /// `server` is ours that has it, or is getting it.
    fn attachment(&self, server: Option<ServerId>) -> Option<Attachment> {
        if self.is_promised() {
            return Some(Attachment { server, device: None, state: AttachmentState::Attaching });
        }
        let attachment = self.attachments.first()?;
        let state = match self.status.as_str() {
            "reserved" | "attaching" => AttachmentState::Attaching,
            "detaching" => AttachmentState::Detaching,
            _ => AttachmentState::Attached,
        };
        Some(Attachment { server, device: attachment.device.clone(), state })
    }

    pub fn fact(&self, server: Option<ServerId>, converged: Option<u64>) -> VolumeFact {
        let sighting = VolumeSighting {
            id: ProviderVolumeId(self.id.clone()),
            state: self.state(),
            size_gib: self.size,
            attachment: self.attachment(server),
        };
        VolumeFact { volume: Some(sighting), converged, fingerprint: self.fingerprint() }
    }

    fn fingerprint(&self) -> u64 {
        let mut digest = Fingerprint::new();
        digest.text(&self.id);
        digest.text(&self.status);
        digest.number(self.size);
        for (name, value) in &self.metadata {
            digest.text(name);
            digest.text(value);
        }
        for attachment in &self.attachments {
            digest.text(&attachment.server_id);
            digest.text(attachment.device.as_deref().unwrap_or_default());
        }
        digest.value()
    }
}

/// What it says of itself, for people who look into the cloud.
pub(super) fn metadata(request: &VolumeRequest) -> BTreeMap<String, String> {
    let own = [
        ("region:volume_id", request.id.to_string()),
        ("identity:organization_id", request.organization.to_string()),
        ("identity:project_id", request.project.to_string()),
        (INCARNATION_KEY, names::mark(request.incarnation)),
    ];
    own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn new_volume(request: &VolumeRequest) -> Value {
    json!({"volume": {
        "name": name(request.id),
        "size": request.spec.size_gib,
        "volume_type": request.spec.class.to_string(),
        "metadata": metadata(request),
    }})
}

/// What is done next with a volume that nothing is going on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VolumeStep {
    UpdateMetadata(BTreeMap<String, String>),
    Grow,
}

pub(super) fn next(volume: &VolumeBody, request: &VolumeRequest) -> Option<VolumeStep> {
    if !volume.is_idle() {
        return None;
    }
    let own = metadata(request);
    let is_missing = |(name, value): (&String, &String)| volume.metadata.get(name) != Some(value);
    if own.iter().any(is_missing) {
        return Some(VolumeStep::UpdateMetadata(own));
    }
    (volume.size < request.spec.size_gib).then_some(VolumeStep::Grow)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::ids::{IdentityId, OrganizationId, ProjectId, VolumeClassId};
    use crate::model::volume::{VolumeDetail, VolumeSpec};

    fn request() -> VolumeRequest {
        VolumeRequest {
            id: VolumeId(Uuid::from_u128(1)),
            incarnation: Incarnation(Uuid::from_u128(2)),
            generation: 1,
            identity: IdentityId(Uuid::from_u128(3)),
            organization: OrganizationId(Uuid::from_u128(4)),
            project: ProjectId(Uuid::from_u128(5)),
            spec: VolumeSpec { class: VolumeClassId(Uuid::from_u128(6)), size_gib: 2, server: None },
            detail: VolumeDetail::default(),
        }
    }

    fn volume(status: &str) -> VolumeBody {
        VolumeBody {
            id: "v".to_owned(),
            name: name(request().id),
            status: status.to_owned(),
            size: 1,
            metadata: metadata(&request()),
            attachments: Vec::new(),
        }
    }

    #[test]
    fn a_volume_grows_when_nothing_is_going_on_with_it_and_is_marked_first() {
        assert_eq!(next(&volume("available"), &request()), Some(VolumeStep::Grow));
        assert_eq!(next(&volume("in-use"), &request()), Some(VolumeStep::Grow));
        for busy in ["creating", "extending", "attaching", "detaching", "reserved", "error", "deleting", "retyping"] {
            assert_eq!(next(&volume(busy), &request()), None, "{busy}");
        }
        let bare = VolumeBody { metadata: BTreeMap::new(), ..volume("available") };
        assert_eq!(next(&bare, &request()), Some(VolumeStep::UpdateMetadata(metadata(&request()))));
        assert_eq!(next(&VolumeBody { size: 3, ..volume("available") }, &request()), None, "none ever shrinks");
    }

    #[test]
    fn a_volume_of_another_life_is_not_ours_and_one_that_says_nothing_is() {
        let (ours, id) = (request().incarnation, request().id);
        assert!(volume("available").is_of(id, ours));
        assert!(!volume("available").is_of(id, Incarnation(Uuid::from_u128(9))));
        assert!(VolumeBody { metadata: BTreeMap::new(), ..volume("available") }.is_of(id, ours));
        assert!(!volume("available").is_of(VolumeId(Uuid::from_u128(9)), ours));
    }

    #[test]
    fn every_word_of_the_cloud_is_told_for_what_it_means() {
        use {AttachmentState as A, CloudVolumeState as S};
        let server = Some(ServerId(Uuid::from_u128(7)));
        let held = |status: &str| {
            let attachment = AttachmentBody { server_id: "s".to_owned(), device: Some("/dev/vdb".to_owned()) };
            VolumeBody { attachments: vec![attachment], ..volume(status) }
        };
        let seen = |body: &VolumeBody| {
            let sighting = body.fact(server, None).volume.expect("a volume");
            (sighting.state, sighting.attachment.map(|attachment| attachment.state))
        };
        assert_eq!(seen(&volume("creating")), (S::Creating, None));
        assert_eq!(seen(&volume("available")), (S::Ready, None));
        assert_eq!(seen(&volume("attaching")), (S::Ready, Some(A::Attaching)));
        assert_eq!(seen(&volume("reserved")), (S::Ready, Some(A::Attaching)));
        assert_eq!(seen(&held("in-use")), (S::Ready, Some(A::Attached)));
        assert_eq!(seen(&held("detaching")), (S::Ready, Some(A::Detaching)));
        assert_eq!(seen(&held("extending")), (S::Resizing, Some(A::Attached)));
        assert_eq!(seen(&volume("error_extending")), (S::Error, None));
        assert_eq!(seen(&volume("deleting")), (S::Deleting, None));
        assert_ne!(volume("available").fact(None, None).fingerprint, held("available").fact(None, None).fingerprint);
    }
}
