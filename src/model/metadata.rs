//! What is said of every resource, whatever its kind.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{IdentityId, Incarnation, Key, NetworkId, OrganizationId, ProjectId, RegionId};

/// A name is also a Kubernetes label value, whose length this is.
pub const NAME_LEN_MAX: usize = 63;

/// Room for a paragraph or two. Every list repeats it for every resource, so it is not a place for documents.
pub const DESCRIPTION_LEN_MAX: usize = 4096;

/// Letters and digits, with `-`, `_` and `.` between them.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let bytes = text.as_bytes();
    bytes.len() <= NAME_LEN_MAX && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
}

/// A free-text pair that clients attach and filter by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    pub name: String,
    pub value: String,
}

/// On whose behalf the resource exists, and so who is charged for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Principal {
    pub organization: Option<OrganizationId>,
    pub project: Option<ProjectId>,
    pub actor: String,
}

/// Where the resource belongs. What is listed, filtered and authorized by scope reads these typed fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<OrganizationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<RegionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkId>,
}

/// Which surface made a resource, and so which one shows it: each version answers for the objects of the other as for
/// what does not exist. Kinds that only one version makes are of the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApiVersion {
    #[serde(rename = "1")]
    V1,
    #[default]
    #[serde(rename = "2")]
    V2,
}

impl ApiVersion {
    #[must_use]
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    const fn is_current(&self) -> bool {
        matches!(self, Self::V2)
    }
}

/// What is said of every resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    pub incarnation: Incarnation,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `None` when the client sent none: what was omitted stays omitted in every read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<Tag>>,
    #[serde(flatten)]
    pub placement: Placement,
    pub principal: Principal,
    /// Set once, at creation; an update names its author in `modifier` instead.
    pub creator: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modifier: Option<String>,
    pub created: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<Timestamp>,
    /// Counts changes of what is desired. A status says which generation it speaks of.
    pub generation: u64,
    /// When deletion was asked for; from then on no new reference is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Key>,
    /// Whether the ledger holds an allocation in this resource's name.
    #[serde(default)]
    pub charged: bool,
    /// An operator or the client has asked that nothing be done to it, deletion apart.
    #[serde(default)]
    pub paused: bool,
    /// Counts operators' resets; a terminal failure of an earlier reset no longer parks the resource.
    #[serde(default)]
    pub resets: u64,
    #[serde(default, skip_serializing_if = "ApiVersion::is_current")]
    pub api_version: ApiVersion,
    /// Whether whoever asks for its deletion is refused. `None` when no client ever said so: what was omitted stays
    /// omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,
    pub writer_version: u32,
}

impl Metadata {
    /// Of something new: `creator` made it, for the organization and project that it lies in.
    #[must_use]
    pub fn new(incarnation: Incarnation, name: &str, placement: Placement, creator: &str, created: Timestamp) -> Self {
        let (organization, project) = (placement.organization, placement.project);
        Self {
            incarnation,
            name: name.to_owned(),
            description: None,
            tags: None,
            placement,
            principal: Principal { organization, project, actor: creator.to_owned() },
            creator: creator.to_owned(),
            modifier: None,
            created,
            modified: None,
            generation: 1,
            deletion: None,
            owner: None,
            charged: false,
            paused: false,
            resets: 0,
            api_version: ApiVersion::default(),
            deletion_protection: None,
            writer_version: super::WRITER_VERSION,
        }
    }

    #[must_use]
    pub const fn is_deleting(&self) -> bool {
        self.deletion.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule_for_label_values() {
        for good in ["a", "0", "prod-net", "a.b_c-d", &"x".repeat(63)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", ".", "a b", "<b>", "../etc", "a\0b", "é", &"x".repeat(64)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
