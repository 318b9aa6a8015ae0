//! File storage on the wire, and the way in and out of the model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::resources::Surface;
use crate::api::strict_json::nullable;
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata, body_id, wire_time};
use crate::identity::acl::Endpoint;
use crate::model::file_storage::{
    ATTACHMENTS_MAX, Attachment, DayOfMonth, DayOfWeek, FileStorage, FileStorageDetail, FileStorageSpec, Interval,
    InvalidFileStorage, KEEP_MAX, NfsOptions, PartState, PolicyName, SNAPSHOT_POLICIES_MAX, Schedule, ScheduleParts,
    SnapshotPolicy, TimeOfDay, has_repeated,
};
use crate::model::ids::{FileStorageClassId, NetworkId, OrganizationId, ProjectId, RegionId};
use crate::model::projection::ProvisioningStatus;
use crate::model::record::{CorruptRecord, Record};

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NFSV2Spec)]
pub struct WireNfs {
    // The contract's own example has no capitals, and clients were written after it.
    #[serde(alias = "rootsquash")]
    pub root_squash: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = storageTypeV2Spec)]
pub struct WireStorageType {
    /// Without it, root is squashed.
    #[serde(rename = "NFS", alias = "nfs", skip_serializing_if = "Option::is_none")]
    pub nfs: Option<WireNfs>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = storageAttachmentV2Spec)]
pub struct WireAttachments {
    #[schema(max_items = 32)]
    pub network_ids: Vec<String>,
}

/// Hourly: none of the others. Daily: timeOfDay. Weekly: also dayOfWeek. Monthly: also dayOfMonth.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = storageSnapshotScheduleV2Spec)]
pub struct WireSchedule {
    pub interval: Interval,
    /// In UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]Z$")]
    pub time_of_day: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day_of_week: Option<DayOfWeek>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 28)]
    pub day_of_month: Option<u8>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = storageSnapshotRetentionV2Spec)]
pub struct WireRetention {
    /// How many snapshots are kept.
    #[schema(minimum = 1, maximum = 8784)]
    pub keep: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = storageSnapshotPolicyV2Spec)]
pub struct WirePolicy {
    #[schema(max_length = 19, pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$")]
    pub name: String,
    pub schedule: WireSchedule,
    pub retention: WireRetention,
}

/// What may be said again of a file storage.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = storageV2Spec)]
pub struct WireSpec {
    /// May grow, and never shrinks.
    #[serde(rename = "sizeGiB")]
    #[schema(minimum = 1)]
    pub size_gib: i64,
    pub storage_type: WireStorageType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<WireAttachments>,
    /// Nightly snapshots that the platform looks after. Left out: true at first, and unchanged later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_snapshot_protection_enabled: Option<bool>,
    /// Left out: none at first, and unchanged later. Empty: none.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 4)]
    pub snapshot_policies: Option<Vec<WirePolicy>>,
}

/// What is said when a file storage is created.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = storageV2CreateSpec)]
pub struct WireCreateSpec {
    #[schema(format = "uuid")]
    pub organization_id: String,
    #[schema(format = "uuid")]
    pub project_id: String,
    #[schema(format = "uuid")]
    pub region_id: String,
    #[schema(format = "uuid")]
    pub storage_class_id: String,
    #[serde(rename = "sizeGiB")]
    #[schema(minimum = 1)]
    pub size_gib: i64,
    pub storage_type: WireStorageType,
    pub attachments: Option<WireAttachments>,
    /// Nightly snapshots that the platform looks after; true if it is left out.
    pub default_snapshot_protection_enabled: Option<bool>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(max_items = 4)]
    pub snapshot_policies: Option<Vec<WirePolicy>>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = storageV2Create)]
pub struct FileStorageCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = storageV2Update)]
pub struct FileStorageUpdate {
    pub metadata: WriteMetadata,
    pub spec: WireSpec,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = storageUsageV2Status)]
pub struct WireUsage {
    pub capacity_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    pub updated_at: Option<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = storageAttachmentV2Status)]
pub struct WireAttachmentStatus {
    #[schema(format = "uuid")]
    pub network_id: String,
    /// What to mount, as host and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<BTreeMap<&'static str, String>>,
    pub provisioning_status: ProvisioningStatus,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = storageSnapshotPolicyV2Status)]
pub struct WirePolicyStatus {
    pub name: String,
    pub provisioning_status: ProvisioningStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = storageV2Status)]
pub struct WireStatus {
    #[schema(format = "uuid")]
    pub storage_class_id: String,
    #[schema(format = "uuid")]
    pub region_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<WireUsage>,
    /// Follows what is asked for at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<WireAttachmentStatus>,
    pub snapshot_policies: Vec<WirePolicyStatus>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = storageV2Read)]
pub struct FileStorageRead {
    pub metadata: ProjectScopedReadMetadata,
    pub spec: WireSpec,
    pub status: WireStatus,
}

/// A creation that follows the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedCreate {
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub region: RegionId,
    pub class: FileStorageClassId,
    pub said: AcceptedUpdate,
}

/// What is said of a file storage, at first and later, found to follow the rules of its form.
#[derive(Clone, Debug)]
pub struct AcceptedUpdate {
    pub metadata: AcceptedMetadata,
    pub size_gib: u64,
    pub nfs: Option<NfsOptions>,
    pub networks: Option<Vec<NetworkId>>,
    pub default_snapshot_protection: Option<bool>,
    pub snapshot_policies: Option<Vec<SnapshotPolicy>>,
}

impl FileStorageCreate {
    /// Form before meaning: what cannot be read is 400, what contradicts itself 422.
    pub fn accept(self) -> Result<AcceptedCreate, ApiError> {
        let spec = self.spec;
        let (organization, project) = (
            body_id(&spec.organization_id, "spec.organizationId must be a UUID")?,
            body_id(&spec.project_id, "spec.projectId must be a UUID")?,
        );
        let region = body_id(&spec.region_id, "spec.regionId must be a UUID")?;
        let class = body_id(&spec.storage_class_id, "spec.storageClassId must be a UUID")?;
        let said = WireSpec {
            size_gib: spec.size_gib,
            storage_type: spec.storage_type,
            attachments: spec.attachments,
            default_snapshot_protection_enabled: spec.default_snapshot_protection_enabled,
            snapshot_policies: spec.snapshot_policies,
        };
        let said = FileStorageUpdate { metadata: self.metadata, spec: said }.accept()?;
        Ok(AcceptedCreate { organization, project, region, class, said })
    }
}

impl FileStorageUpdate {
    pub fn accept(self) -> Result<AcceptedUpdate, ApiError> {
        let (metadata, spec) = (self.metadata.accept()?, self.spec);
        let networks = spec.attachments.as_ref().map(accept_networks).transpose()?;
        let policies = spec.snapshot_policies.map(|policies| accept_policies(&policies)).transpose()?;
        let size_gib = u64::try_from(spec.size_gib).map_err(|_| unprocessable(InvalidFileStorage::Size))?;
        if has_repeated(networks.as_deref().unwrap_or_default()) {
            return Err(unprocessable(InvalidFileStorage::NetworkRepeated));
        }
        Ok(AcceptedUpdate {
            metadata,
            size_gib,
            nfs: spec.storage_type.nfs.map(|nfs| NfsOptions { root_squash: nfs.root_squash }),
            networks,
            default_snapshot_protection: spec.default_snapshot_protection_enabled,
            snapshot_policies: policies,
        })
    }
}

/// A specification that contradicts itself, or what is stored.
pub fn unprocessable(error: InvalidFileStorage) -> ApiError {
    ApiError::unprocessable(format!("spec.{error}"))
}

fn accept_networks(wire: &WireAttachments) -> Result<Vec<NetworkId>, ApiError> {
    if wire.network_ids.len() > ATTACHMENTS_MAX {
        return Err(ApiError::invalid("spec.attachments.networkIds must be at most 32"));
    }
    let rule = "spec.attachments.networkIds must be UUIDs";
    wire.network_ids.iter().map(|text| body_id(text, rule)).collect()
}

/// Every form first, then every meaning.
fn accept_policies(wire: &[WirePolicy]) -> Result<Vec<SnapshotPolicy>, ApiError> {
    if wire.len() > SNAPSHOT_POLICIES_MAX {
        return Err(ApiError::invalid("spec.snapshotPolicies must be at most 4"));
    }
    let read = wire.iter().map(accept_policy).collect::<Result<Vec<_>, ApiError>>()?;
    let policy = |(name, parts, keep)| Ok(SnapshotPolicy { name, schedule: Schedule::of(parts)?, keep });
    read.into_iter().map(policy).collect::<Result<_, InvalidFileStorage>>().map_err(unprocessable)
}

fn accept_policy(wire: &WirePolicy) -> Result<(PolicyName, ScheduleParts, u32), ApiError> {
    let name_rule = "spec.snapshotPolicies.name must be 1 to 19 lower-case letters, digits or '-', beginning with a letter and not ending with '-'";
    let name = PolicyName::parse(&wire.name).ok_or_else(|| ApiError::invalid(name_rule))?;
    let schedule = &wire.schedule;
    let time = |text: &String| {
        let rule = "spec.snapshotPolicies.schedule.timeOfDay must be written HH:MMZ";
        TimeOfDay::parse(text).ok_or_else(|| ApiError::invalid(rule))
    };
    let day = |day| {
        let rule = "spec.snapshotPolicies.schedule.dayOfMonth must be between 1 and 28";
        DayOfMonth::of(day).ok_or_else(|| ApiError::invalid(rule))
    };
    let parts = ScheduleParts {
        interval: schedule.interval,
        time_of_day: schedule.time_of_day.as_ref().map(time).transpose()?,
        day_of_week: schedule.day_of_week,
        day_of_month: schedule.day_of_month.map(day).transpose()?,
    };
    if !(1..=KEEP_MAX).contains(&wire.retention.keep) {
        return Err(ApiError::invalid("spec.snapshotPolicies.retention.keep must be between 1 and 8784"));
    }
    Ok((name, parts, wire.retention.keep))
}

impl WirePolicy {
    fn of(policy: &SnapshotPolicy) -> Self {
        let parts = policy.schedule.parts();
        Self {
            name: policy.name.text().to_owned(),
            schedule: WireSchedule {
                interval: parts.interval,
                time_of_day: parts.time_of_day.map(|time| time.to_string()),
                day_of_week: parts.day_of_week,
                day_of_month: parts.day_of_month.map(DayOfMonth::number),
            },
            retention: WireRetention { keep: policy.keep },
        }
    }
}

impl WireSpec {
    fn of(spec: &FileStorageSpec) -> Self {
        let attachments = |attachments: &Vec<Attachment>| WireAttachments {
            network_ids: attachments.iter().map(|attachment| attachment.network.to_string()).collect(),
        };
        Self {
            size_gib: i64::try_from(spec.size_gib).unwrap_or(i64::MAX),
            storage_type: WireStorageType { nfs: spec.nfs.map(|nfs| WireNfs { root_squash: nfs.root_squash }) },
            attachments: spec.attachments.as_ref().map(attachments),
            default_snapshot_protection_enabled: Some(spec.default_snapshot_protection),
            snapshot_policies: spec.snapshot_policies.as_ref().map(|all| all.iter().map(WirePolicy::of).collect()),
        }
    }
}

/// The word for a part of something whose own word is `whole`.
const fn part_word(whole: ProvisioningStatus, part: Option<PartState>) -> ProvisioningStatus {
    match (whole, part) {
        (ProvisioningStatus::Deprovisioning, _) => ProvisioningStatus::Deprovisioning,
        (_, Some(PartState::Active)) => ProvisioningStatus::Provisioned,
        (_, Some(PartState::Failed)) => ProvisioningStatus::Error,
        (ProvisioningStatus::Pending, None) => ProvisioningStatus::Pending,
        (_, Some(PartState::Building | PartState::Removing) | None) => ProvisioningStatus::Provisioning,
    }
}

fn attachment_status(
    wanted: &Attachment,
    detail: &FileStorageDetail,
    whole: ProvisioningStatus,
) -> WireAttachmentStatus {
    let known = detail.attachment(wanted.network).filter(|known| known.addresses == wanted.addresses);
    let ready = known.filter(|known| known.state == PartState::Active);
    let (start, end) = (wanted.addresses.start, wanted.addresses.end);
    let ports = if start == end { start.to_string() } else { format!("{start}-{end}") };
    let path = ready.and(detail.mount_path.as_ref());
    WireAttachmentStatus {
        network_id: wanted.network.to_string(),
        mount_source: path.map(|path| format!("{start}:{path}")),
        mount_options: path.map(|_| BTreeMap::from([("remoteports", ports)])),
        provisioning_status: part_word(whole, known.map(|known| known.state)),
    }
}

/// A policy that was asked for is there once the storage system has exactly that one.
fn policy_status(wanted: &SnapshotPolicy, detail: &FileStorageDetail, whole: ProvisioningStatus) -> WirePolicyStatus {
    let known = detail.policies.iter().find(|known| known.policy == *wanted);
    let provisioning_status = part_word(whole, known.map(|known| known.state));
    WirePolicyStatus { name: wanted.name.text().to_owned(), provisioning_status, message: None }
}

impl Surface for FileStorageRead {
    type Kind = FileStorage;
    const ENDPOINT: Endpoint = Endpoint::FileStorageV2;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let storage = record.open::<FileStorage>()?;
        let (spec, detail) = (&storage.spec, &storage.detail);
        let metadata = ProjectScopedReadMetadata::of(record);
        let whole = metadata.resource.provisioning_status;
        let usage = |capacity_bytes| WireUsage {
            capacity_bytes,
            used_bytes: detail.usage.map(|usage| usage.used_bytes),
            updated_at: detail.usage.map(|usage| wire_time(usage.at)),
        };
        Ok(Self {
            metadata,
            spec: WireSpec::of(spec),
            status: WireStatus {
                storage_class_id: spec.class.to_string(),
                region_id: record.metadata.placement.region.map(|id| id.to_string()).unwrap_or_default(),
                usage: detail.size_bytes.map(usage),
                attachments: spec.attachments().iter().map(|one| attachment_status(one, detail, whole)).collect(),
                snapshot_policies: spec.policies().iter().map(|one| policy_status(one, detail, whole)).collect(),
            },
        })
    }
}
