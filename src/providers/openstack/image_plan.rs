//! What an image of an organization's own says of itself, and what it says of how far it is: no calls here.
//!
//! The properties are those of the service before us. Beside them each says which of our images it is, and in which life:
//! the cloud chooses the id of what it makes of a server's disk, so that one is found by what is written into it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::names::{self, Claim};
use super::ports::nothing_if_null;
use crate::model::ids::{IdentityId, ImageId, Incarnation};
use crate::model::image::{Architecture, ImageStatus};
use crate::providers::fingerprint::Fingerprint;
use crate::providers::image_schema::ImageEntry;
use crate::providers::types::Image;
use crate::providers::{ImageFact, ImageRequest};

/// Which of our images it is.
pub(super) const IMAGE_KEY: &str = "regent:image_id";
const INCARNATION_KEY: &str = "regent:incarnation";

/// What an imported disk is run with.
const HARDWARE: [(&str, &str); 3] =
    [("hw_disk_bus", "scsi"), ("hw_firmware_type", "uefi"), ("hw_scsi_model", "virtio-scsi")];

const GIB: u64 = 1 << 30;

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ImageBody {
    pub id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub status: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub visibility: String,
    /// The project that it lies in.
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub owner: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    min_disk: u32,
    #[serde(default, deserialize_with = "nothing_if_null")]
    virtual_size: u64,
    /// Beside Glance's own fields.
    #[serde(flatten)]
    properties: BTreeMap<String, Value>,
}

impl ImageBody {
    fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).and_then(Value::as_str)
    }

    /// Which of our images it says it is. A snapshot that somebody else made of a server says what that server's image
    /// said, and is nobody's.
    pub fn of(&self) -> Option<ImageId> {
        self.property(IMAGE_KEY)?.parse().ok()
    }

    pub fn incarnation(&self) -> Option<Incarnation> {
        names::incarnation_in(self.property(INCARNATION_KEY)?)
    }

    pub fn is_of(&self, id: ImageId, incarnation: Incarnation) -> bool {
        self.of() == Some(id) && Claim::of(self.incarnation(), incarnation) == Claim::Ours
    }

    pub fn is_leaving(&self) -> bool {
        matches!(self.status.as_str(), "deleted" | "pending_delete")
    }

    /// It waits to be told where to get its data, or has been told and has failed.
    pub fn is_empty(&self) -> bool {
        self.status == "queued"
    }

    fn status(&self) -> ImageStatus {
        match self.status.as_str() {
            "queued" => ImageStatus::Pending,
            "saving" | "importing" | "uploading" => ImageStatus::Creating,
            "active" => ImageStatus::Ready,
            _ => ImageStatus::Failed,
        }
    }

    fn size_gib(&self) -> u32 {
        match self.min_disk {
            0 => u32::try_from(self.virtual_size.div_ceil(GIB)).unwrap_or(u32::MAX),
            size => size,
        }
    }

    pub fn fact(&self) -> ImageFact {
        self.fact_as(self.status())
    }

    /// Its import has failed: the image itself does not say so.
    pub fn failed(&self) -> ImageFact {
        self.fact_as(ImageStatus::Failed)
    }

    fn fact_as(&self, status: ImageStatus) -> ImageFact {
        let trouble = match status {
            ImageStatus::Failed if self.is_leaving() => Some("the image is being removed"),
            ImageStatus::Failed => Some("the cloud could not make the image"),
            _ => None,
        };
        // Of what a list shows as well: an import that failed is still an empty image there.
        let mut digest = Fingerprint::new();
        digest.text(&self.id);
        digest.text(&self.status);
        digest.number(self.size_gib());
        let size_gib = self.size_gib();
        ImageFact { status, size_gib, trouble: trouble.map(str::to_owned), fingerprint: digest.value() }
    }
}

/// How an import is going.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct TaskBody {
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub status: String,
}

/// What to do about an image that has no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImportStep {
    Order,
    Wait,
    GiveUp,
}

/// It is ordered once: what lies behind an address later need not be what was asked for.
pub(super) fn next_of_import(tasks: &[TaskBody]) -> ImportStep {
    let has_failed = |task: &TaskBody| task.status == "failure";
    match tasks {
        [] => ImportStep::Order,
        tasks if tasks.iter().all(has_failed) => ImportStep::GiveUp,
        _ => ImportStep::Wait,
    }
}

/// What is written into it. `identity`: whose project it lies in, of a server's disk.
pub(super) fn properties(request: &ImageRequest, identity: Option<IdentityId>) -> BTreeMap<String, String> {
    let contents = &request.spec.contents;
    let described = Image {
        id: request.id,
        name: request.name.clone(),
        tags: BTreeMap::new(),
        organization: Some(request.organization),
        created: Timestamp::UNIX_EPOCH,
        modified: Timestamp::UNIX_EPOCH,
        architecture: contents.architecture,
        size_gib: request.spec.size_gib.unwrap_or_default(),
        virtualization: contents.virtualization,
        gpu: contents.gpu.clone(),
        os: contents.os.clone(),
        packages: contents.packages.clone(),
        status: ImageStatus::Pending,
        identity,
    };
    let mut properties = ImageEntry::of(&described).properties;
    properties.insert(IMAGE_KEY.to_owned(), request.id.to_string());
    properties.insert(INCARNATION_KEY.to_owned(), names::mark(request.incarnation));
    properties
}

/// An image to be imported: under our id, and nobody else's to see (B18).
pub(super) fn new_import(request: &ImageRequest) -> Value {
    let machine = match request.spec.contents.architecture {
        Architecture::X86_64 => "q35",
        Architecture::Aarch64 => "virt",
    };
    let mut body = json!(properties(request, None));
    for (name, value) in HARDWARE.into_iter().chain([("hw_machine_type", machine)]) {
        body[name] = json!(value);
    }
    body["id"] = json!(request.id.to_string());
    body["name"] = json!(request.name);
    // Whoever it is shared with, which is nobody yet.
    body["visibility"] = json!("shared");
    body["container_format"] = json!("bare");
    body["disk_format"] = json!("raw");
    if let Some(size_gib) = request.spec.size_gib {
        body["min_disk"] = json!(size_gib);
    }
    body
}
