//! What the simulated storage system holds: shares, and their exports into networks.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::objects::ObjectId;
use crate::model::file_storage::{SnapshotPolicy, Usage};
use crate::model::ids::{FileStorageClassId, NetworkId};
use crate::model::network::AddressRange;

/// A share: what it was ordered with, and what the system made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShareBody {
    pub class: FileStorageClassId,
    #[serde(flatten)]
    pub options: ShareOptions,
    /// Given out by the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// Shown in lists alone: it is measured for all shares together, now and then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// What of a share can be changed after it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShareOptions {
    pub size_bytes: u64,
    pub root_squash: bool,
    pub policies: Vec<SnapshotPolicy>,
}

/// An export of a share into a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShareAttachmentBody {
    pub share: ObjectId,
    pub network: ObjectId,
    /// The network by the id that whoever ordered it has for it.
    pub label: NetworkId,
    pub addresses: AddressRange,
}

/// A share with everything that it can have.
#[cfg(test)]
pub fn full_share() -> ShareBody {
    ShareBody {
        class: super::catalogue::FILES_STANDARD,
        options: ShareOptions {
            size_bytes: 1 << 30,
            root_squash: true,
            policies: vec![crate::model::file_storage::system_policy()],
        },
        mount_path: Some("/exports/one".to_owned()),
        created: Some(Timestamp::UNIX_EPOCH),
        usage: Some(Usage { used_bytes: 7, at: Timestamp::UNIX_EPOCH }),
    }
}

#[cfg(test)]
pub fn full_attachment() -> ShareAttachmentBody {
    let address = std::net::Ipv4Addr::new(10, 0, 0, 16);
    ShareAttachmentBody {
        share: ObjectId("share".to_owned()),
        network: ObjectId("network".to_owned()),
        label: NetworkId(uuid::Uuid::from_u128(5)),
        addresses: AddressRange { start: address, end: address },
    }
}
