//! The shapes that all resources share on the wire, and the rules for what clients may write into them.

use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::ApiError;
use crate::model::condition::{Condition, Reason, Truth};
use crate::model::metadata::{DESCRIPTION_LEN_MAX, Metadata, Tag, is_name};
use crate::model::network::Prefix;
use crate::model::projection::{HealthStatus, ProvisioningStatus, health_status, provisioning_status};
use crate::model::record::Record;

/// More tags than any scheme of labels needs; each filter by tag looks at all of them.
pub const TAGS_MAX: usize = 50;

/// As long as a DNS name, which is what tag names imitate.
pub const TAG_NAME_LEN_MAX: usize = 253;

/// Values carry ids, addresses and short texts.
pub const TAG_VALUE_LEN_MAX: usize = 1024;

/// A free-text pair.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = tag)]
pub struct WireTag {
    #[schema(min_length = 1, max_length = 253)]
    pub name: String,
    #[schema(max_length = 1024)]
    pub value: String,
}

/// What a client says of any resource.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = resourceMetadata)]
pub struct WriteMetadata {
    #[schema(pattern = "^[0-9A-Za-z](?:[0-9A-Za-z-_.]{0,61}[0-9A-Za-z])?$", max_length = 63)]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 50)]
    pub tags: Option<Vec<WireTag>>,
    /// While it is true, a request to delete the resource, or what owns it, is refused. Left out: as it was.
    #[serde(default, rename = "deletionProtection", skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,
}

/// What a client said, found to be within the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedMetadata {
    pub name: String,
    pub description: Option<String>,
    pub tags: Option<Vec<Tag>>,
    pub deletion_protection: Option<bool>,
}

impl AcceptedMetadata {
    /// What was said last, for a change that says nothing new of it.
    #[must_use]
    pub fn of(stored: &Metadata) -> Self {
        Self {
            name: stored.name.clone(),
            description: stored.description.clone(),
            tags: stored.tags.clone(),
            deletion_protection: None,
        }
    }
}

impl WriteMetadata {
    pub fn accept(self) -> Result<AcceptedMetadata, ApiError> {
        if !is_name(&self.name) {
            return Err(ApiError::invalid(
                "metadata.name must be 1 to 63 letters, digits, '-', '_' or '.', and begin and end with a letter or digit",
            ));
        }
        if self.description.as_ref().is_some_and(|text| text.len() > DESCRIPTION_LEN_MAX) {
            return Err(ApiError::invalid("metadata.description must be at most 4096 bytes"));
        }
        let tags = self.tags.map(accept_tags).transpose()?;
        Ok(AcceptedMetadata {
            name: self.name,
            description: self.description,
            tags,
            deletion_protection: self.deletion_protection,
        })
    }
}

fn accept_tags(tags: Vec<WireTag>) -> Result<Vec<Tag>, ApiError> {
    if tags.len() > TAGS_MAX {
        return Err(ApiError::invalid("metadata.tags must be at most 50"));
    }
    let good = |tag: &WireTag| (1..=TAG_NAME_LEN_MAX).contains(&tag.name.len()) && tag.value.len() <= TAG_VALUE_LEN_MAX;
    if !tags.iter().all(good) {
        let text = "metadata.tags must have names of 1 to 253 bytes and values of at most 1024 bytes";
        return Err(ApiError::invalid(text));
    }
    Ok(tags.into_iter().map(|tag| Tag { name: tag.name, value: tag.value }).collect())
}

/// Why a status is what it is.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = statusDetail)]
pub struct StatusDetail {
    #[schema(value_type = String)]
    pub reason: Reason,
    pub message: String,
}

impl StatusDetail {
    /// Only what is not as it should be needs explaining.
    fn of(condition: Option<&Condition>) -> Option<Self> {
        let condition = condition.filter(|condition| condition.status != Truth::True)?;
        Some(Self { reason: condition.reason, message: condition.message.clone() })
    }
}

/// What is said of any resource that is read.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = resourceReadMetadata)]
pub struct ReadMetadata {
    #[schema(format = "uuid")]
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<WireTag>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,
    #[schema(format = "date-time")]
    pub creation_time: String,
    pub created_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    pub modified_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    pub deletion_time: Option<String>,
    pub provisioning_status: ProvisioningStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_status_detail: Option<StatusDetail>,
    pub health_status: HealthStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_status_detail: Option<StatusDetail>,
}

impl ReadMetadata {
    /// Of a kind whose actor speaks of it.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        let conditions = &record.conditions;
        Self {
            provisioning_status: provisioning_status(record),
            provisioning_status_detail: StatusDetail::of(conditions.available.as_ref()),
            health_status: health_status(conditions.healthy.as_ref()),
            health_status_detail: StatusDetail::of(conditions.healthy.as_ref()),
            ..Self::of_static(record)
        }
    }

    /// Of a kind that simply is: nobody makes it, so nothing can be wrong with its making.
    #[must_use]
    pub fn of_static(record: &Record) -> Self {
        let metadata = &record.metadata;
        let tag = |tag: &Tag| WireTag { name: tag.name.clone(), value: tag.value.clone() };
        Self {
            id: record.key.id.to_string(),
            name: metadata.name.clone(),
            description: metadata.description.clone(),
            tags: metadata.tags.as_ref().map(|tags| tags.iter().map(tag).collect()),
            deletion_protection: metadata.deletion_protection,
            creation_time: wire_time(metadata.created),
            created_by: metadata.creator.clone(),
            modified_time: metadata.modified.map(wire_time),
            modified_by: metadata.modifier.clone(),
            deletion_time: metadata.deletion.map(wire_time),
            provisioning_status: if metadata.is_deleting() {
                ProvisioningStatus::Deprovisioning
            } else {
                ProvisioningStatus::Provisioned
            },
            provisioning_status_detail: None,
            health_status: HealthStatus::Healthy,
            health_status_detail: None,
        }
    }
}

/// What is said of a resource that simply is, in an organization.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = organizationScopedResourceReadMetadata)]
pub struct OrganizationScopedReadMetadata {
    #[serde(flatten)]
    pub resource: ReadMetadata,
    #[schema(format = "uuid")]
    pub organization_id: String,
}

impl OrganizationScopedReadMetadata {
    #[must_use]
    pub fn of_static(record: &Record) -> Self {
        let organization = record.metadata.placement.organization;
        let organization_id = organization.map(|id| id.to_string()).unwrap_or_default();
        Self { resource: ReadMetadata::of_static(record), organization_id }
    }
}

/// What is said of something that a cloud has and nobody here makes.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = staticResourceMetadata)]
pub struct StaticReadMetadata {
    #[schema(format = "uuid")]
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<WireTag>>,
    #[schema(format = "date-time")]
    pub creation_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    pub modified_time: Option<String>,
}

/// What is said of a resource that lives in a project.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = projectScopedResourceReadMetadata)]
pub struct ProjectScopedReadMetadata {
    #[serde(flatten)]
    pub resource: ReadMetadata,
    #[schema(format = "uuid")]
    pub organization_id: String,
    #[schema(format = "uuid")]
    pub project_id: String,
}

impl ProjectScopedReadMetadata {
    #[must_use]
    pub fn of(record: &Record) -> Self {
        Self::with(record, ReadMetadata::of(record))
    }

    /// Of a kind that exists by being stored.
    #[must_use]
    pub fn of_static(record: &Record) -> Self {
        Self::with(record, ReadMetadata::of_static(record))
    }

    fn with(record: &Record, resource: ReadMetadata) -> Self {
        let placement = &record.metadata.placement;
        Self {
            resource,
            organization_id: placement.organization.map(|id| id.to_string()).unwrap_or_default(),
            project_id: placement.project.map(|id| id.to_string()).unwrap_or_default(),
        }
    }
}

/// RFC 3339 in whole seconds of UTC, which is all that existing clients parse.
#[must_use]
pub fn wire_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An id in a body; anything but a UUID in its hyphenated form breaks the rule.
pub fn body_id<T: FromStr>(text: &str, rule: &'static str) -> Result<T, ApiError> {
    text.parse().map_err(|_| ApiError::invalid(rule))
}

pub fn accept_prefix(text: &str, rule: &'static str) -> Result<Prefix, ApiError> {
    Prefix::parse(text).map_err(|_| ApiError::invalid(rule))
}

/// A wanted tag, from `name=value`. The value may itself hold `=` (B45).
pub fn tag_filter(text: &str) -> Result<Tag, ApiError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok(Tag { name: name.to_owned(), value: value.to_owned() }),
        _ => Err(ApiError::invalid("invalid path/query element: a tag is written name=value")),
    }
}

/// Does the resource carry all of these?
#[must_use]
pub fn has_tags(record: &Record, wanted: &[Tag]) -> bool {
    let tags = record.metadata.tags.as_deref().unwrap_or_default();
    wanted.iter().all(|tag| tags.contains(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str) -> WriteMetadata {
        WriteMetadata { name: name.to_owned(), description: None, tags: None, deletion_protection: None }
    }

    fn tag(name: &str, value: &str) -> WireTag {
        WireTag { name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn omitted_tags_stay_omitted_and_an_empty_list_stays_empty() {
        assert_eq!(written("a").accept().expect("good").tags, None);
        let empty = WriteMetadata { tags: Some(vec![]), ..written("a") };
        assert_eq!(empty.accept().expect("good").tags, Some(vec![]));
    }

    #[test]
    fn every_limit_is_met_exactly() {
        let with_tags = |tags| WriteMetadata { tags: Some(tags), ..written("a") }.accept().is_ok();
        assert!(with_tags(vec![tag("n", "v"); TAGS_MAX]));
        assert!(!with_tags(vec![tag("n", "v"); TAGS_MAX + 1]));
        assert!(with_tags(vec![tag(&"n".repeat(TAG_NAME_LEN_MAX), &"v".repeat(TAG_VALUE_LEN_MAX))]));
        assert!(!with_tags(vec![tag(&"n".repeat(TAG_NAME_LEN_MAX + 1), "v")]));
        assert!(!with_tags(vec![tag("n", &"v".repeat(TAG_VALUE_LEN_MAX + 1))]));
        assert!(!with_tags(vec![tag("", "v")]));
        let described = |length| WriteMetadata { description: Some("d".repeat(length)), ..written("a") }.accept();
        assert!(described(DESCRIPTION_LEN_MAX).is_ok());
        assert!(described(DESCRIPTION_LEN_MAX + 1).is_err());
    }

    #[test]
    fn b45_a_tag_filter_splits_at_the_first_equals_sign() {
        assert_eq!(tag_filter("a=b=c").expect("good"), Tag { name: "a".to_owned(), value: "b=c".to_owned() });
        assert_eq!(tag_filter("a=").expect("good").value, "");
        assert!(tag_filter("a").is_err());
        assert!(tag_filter("=b").is_err());
    }

    #[test]
    fn times_are_whole_seconds_of_utc() {
        let time: Timestamp = "2026-01-02T03:04:05.678Z".parse().expect("a time");
        assert_eq!(wire_time(time), "2026-01-02T03:04:05Z");
    }
}
