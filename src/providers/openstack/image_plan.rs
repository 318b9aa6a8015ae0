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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::ids::OrganizationId;
    use crate::model::ids::ServerId;
    use crate::model::image::{ImageContents, ImageDetail, ImageSource, ImageSpec, OperatingSystem, Virtualization};
    use crate::providers::image_schema::image_of;

    fn request() -> ImageRequest {
        ImageRequest {
            id: ImageId(Uuid::from_u128(1)),
            incarnation: Incarnation(Uuid::from_u128(2)),
            organization: OrganizationId(Uuid::from_u128(3)),
            name: "golden".to_owned(),
            spec: ImageSpec {
                contents: ImageContents {
                    architecture: Architecture::X86_64,
                    virtualization: Virtualization::Virtualized,
                    os: OperatingSystem {
                        kernel: "linux".to_owned(),
                        family: "debian".to_owned(),
                        distro: "ubuntu".to_owned(),
                        variant: None,
                        codename: None,
                        version: "24.04".to_owned(),
                    },
                    gpu: None,
                    packages: BTreeMap::new(),
                },
                source: ImageSource::Snapshot {
                    server: ServerId(Uuid::from_u128(4)),
                    incarnation: Incarnation(Uuid::from_u128(5)),
                },
                size_gib: Some(3),
            },
            server: None,
            detail: ImageDetail::default(),
        }
    }

    fn body(status: &str, properties: &BTreeMap<String, String>) -> ImageBody {
        let mut body = json!(properties);
        body["id"] = json!("i");
        body["status"] = json!(status);
        body["min_disk"] = json!(0);
        body["virtual_size"] = json!(GIB + 1);
        serde_json::from_value(body).expect("an image")
    }

    #[test]
    fn an_image_says_which_of_ours_it_is_and_reads_as_what_was_declared() {
        let identity = IdentityId(Uuid::from_u128(6));
        let written = properties(&request(), Some(identity));
        let seen = body("active", &written);
        assert!(seen.is_of(request().id, request().incarnation));
        assert!(!seen.is_of(request().id, Incarnation(Uuid::from_u128(9))));
        assert!(!body("active", &BTreeMap::new()).is_of(request().id, request().incarnation));
        let entry = ImageEntry {
            id: request().id,
            name: "golden".to_owned(),
            status: "active".to_owned(),
            created: Timestamp::UNIX_EPOCH,
            modified: Timestamp::UNIX_EPOCH,
            min_disk_gib: 3,
            virtual_size_bytes: 0,
            properties: written,
        };
        let read = image_of(&entry, None).expect("it fits the schema");
        assert_eq!((read.organization, read.identity), (Some(request().organization), Some(identity)));
        assert_eq!(read.os, request().spec.contents.os);
    }

    #[test]
    fn b18_an_import_is_nobody_elses_and_lies_under_our_id() {
        let new = new_import(&request());
        assert_eq!((&new["id"], &new["visibility"]), (&json!(request().id.to_string()), &json!("shared")));
        assert_eq!((&new["disk_format"], &new["container_format"]), (&json!("raw"), &json!("bare")));
        assert_eq!((&new["hw_machine_type"], &new["min_disk"]), (&json!("q35"), &json!(3)));
    }

    #[test]
    fn an_import_is_ordered_once() {
        let tasks =
            |words: &[&str]| words.iter().map(|status| TaskBody { status: (*status).to_owned() }).collect::<Vec<_>>();
        assert_eq!(next_of_import(&tasks(&[])), ImportStep::Order);
        assert_eq!(next_of_import(&tasks(&["processing"])), ImportStep::Wait);
        assert_eq!(next_of_import(&tasks(&["success"])), ImportStep::Wait);
        assert_eq!(next_of_import(&tasks(&["failure"])), ImportStep::GiveUp);
        assert_eq!(next_of_import(&tasks(&["failure", "pending"])), ImportStep::Wait);
    }

    #[test]
    fn every_word_of_the_cloud_is_told_for_what_it_means() {
        let table = [
            ("queued", ImageStatus::Pending),
            ("saving", ImageStatus::Creating),
            ("importing", ImageStatus::Creating),
            ("active", ImageStatus::Ready),
            ("killed", ImageStatus::Failed),
            ("deactivated", ImageStatus::Failed),
        ];
        for (word, status) in table {
            let fact = body(word, &BTreeMap::new()).fact();
            assert_eq!((fact.status, fact.size_gib), (status, 2), "{word}");
            assert_eq!(fact.trouble.is_some(), status == ImageStatus::Failed);
        }
        let waiting = body("queued", &BTreeMap::new());
        assert_eq!(waiting.failed().status, ImageStatus::Failed);
        assert_eq!(waiting.failed().fingerprint, waiting.fact().fingerprint, "a list cannot tell them apart");
    }
}
