//! File storage: a share of a storage system, which servers of the attached networks mount.
//!
//! ```text
//!   project ◀── owner ── file storage ── reference, gate ──▶ each attached network
//!                                     └─ addresses of the network's storage range
//! ```
//!
//! A schedule of snapshots is one of four forms, so that what contradicts itself cannot be stored. Default protection
//! is one more policy, which nobody sees: it is derived here and never stored beside those of the user.

use std::fmt;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{FileStorageClassId, Kind, NetworkId, ProviderAttachmentId, ProviderFileStorageId};
use super::network::{AddressRange, VlanId};
use super::record::ResourceKind;

#[derive(Clone, Debug)]
pub struct FileStorage;

impl ResourceKind for FileStorage {
    const KIND: Kind = Kind::FileStorage;
    type Spec = FileStorageSpec;
    type Detail = FileStorageDetail;
}

pub const GIB: u64 = 1 << 30;

/// What still can be said in bytes by a signed number of 64 bits, which is what clients read usage into.
pub const SIZE_GIB_MAX: u64 = i64::MAX.unsigned_abs() / GIB;

/// Each is a reference, an export of the storage system, and a row in every list of the region.
pub const ATTACHMENTS_MAX: usize = 32;

/// What the contract allows; with the hidden one there are five, which is what existing installations store.
pub const SNAPSHOT_POLICIES_MAX: usize = 4;

/// What existing installations store.
pub const POLICY_NAME_LEN_MAX: usize = 19;

/// Hourly snapshots of a leap year: more would outlive what they are kept for.
pub const KEEP_MAX: u32 = 8784;

/// The name of the policy behind default protection, which no user may take.
pub const SYSTEM_POLICY: &str = "system-default";

/// A letter, then letters, digits and hyphens, not ending in one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PolicyName(String);

impl PolicyName {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let good = (1..=POLICY_NAME_LEN_MAX).contains(&text.len())
            && text.bytes().all(inner)
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && !text.ends_with('-');
        good.then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// A minute of the day in UTC, written `HH:MMZ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay {
    hour: u8,
    minute: u8,
}

impl TimeOfDay {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| byte.is_ascii_digit().then(|| byte - b'0');
        let &[ten_hours, hours, b':', ten_minutes, minutes, b'Z'] = text.as_bytes() else { return None };
        let (hour, minute) = (digit(ten_hours)? * 10 + digit(hours)?, digit(ten_minutes)? * 10 + digit(minutes)?);
        (hour < 24 && minute < 60).then_some(Self { hour, minute })
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:02}:{:02}Z", self.hour, self.minute)
    }
}

impl Serialize for TimeOfDay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a time of the day"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = storageSnapshotScheduleIntervalV2)]
pub enum Interval {
    Hourly,
    Daily,
    Weekly,
    Monthly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = storageSnapshotDayOfWeekV2)]
pub enum DayOfWeek {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

/// A day that every month has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DayOfMonth(u8);

impl DayOfMonth {
    pub const MAX: u8 = 28;

    #[must_use]
    pub fn of(day: u8) -> Option<Self> {
        (1..=Self::MAX).contains(&day).then_some(Self(day))
    }

    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// When snapshots are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "interval", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Schedule {
    Hourly,
    Daily { time_of_day: TimeOfDay },
    Weekly { time_of_day: TimeOfDay, day_of_week: DayOfWeek },
    Monthly { time_of_day: TimeOfDay, day_of_month: DayOfMonth },
}

/// The parts of a schedule, as they stand side by side on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleParts {
    pub interval: Interval,
    pub time_of_day: Option<TimeOfDay>,
    pub day_of_week: Option<DayOfWeek>,
    pub day_of_month: Option<DayOfMonth>,
}

impl Schedule {
    /// Exactly the parts that an interval needs, and no other.
    pub const fn of(parts: ScheduleParts) -> Result<Self, InvalidFileStorage> {
        use Interval::{Daily, Hourly, Monthly, Weekly};
        match (parts.interval, parts.time_of_day, parts.day_of_week, parts.day_of_month) {
            (Hourly, None, None, None) => Ok(Self::Hourly),
            (Daily, Some(time_of_day), None, None) => Ok(Self::Daily { time_of_day }),
            (Weekly, Some(time_of_day), Some(day_of_week), None) => Ok(Self::Weekly { time_of_day, day_of_week }),
            (Monthly, Some(time_of_day), None, Some(day_of_month)) => Ok(Self::Monthly { time_of_day, day_of_month }),
            _ => Err(InvalidFileStorage::Schedule),
        }
    }

    #[must_use]
    pub const fn parts(self) -> ScheduleParts {
        let none =
            ScheduleParts { interval: Interval::Hourly, time_of_day: None, day_of_week: None, day_of_month: None };
        match self {
            Self::Hourly => none,
            Self::Daily { time_of_day } => {
                ScheduleParts { interval: Interval::Daily, time_of_day: Some(time_of_day), ..none }
            }
            Self::Weekly { time_of_day, day_of_week } => ScheduleParts {
                interval: Interval::Weekly,
                time_of_day: Some(time_of_day),
                day_of_week: Some(day_of_week),
                ..none
            },
            Self::Monthly { time_of_day, day_of_month } => ScheduleParts {
                interval: Interval::Monthly,
                time_of_day: Some(time_of_day),
                day_of_month: Some(day_of_month),
                ..none
            },
        }
    }
}

/// Snapshots that are taken by themselves, and how many of them are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotPolicy {
    pub name: PolicyName,
    pub schedule: Schedule,
    pub keep: u32,
}

/// A week of nights: what default protection means.
#[must_use]
pub fn system_policy() -> SnapshotPolicy {
    let schedule = Schedule::Daily { time_of_day: TimeOfDay { hour: 4, minute: 0 } };
    SnapshotPolicy { name: PolicyName(SYSTEM_POLICY.to_owned()), schedule, keep: 7 }
}

/// How NFS clients are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NfsOptions {
    pub root_squash: bool,
}

/// A network that the share can be mounted in. The addresses and the VLAN follow from the network, whose prefix never
/// changes, and are settled when it is attached: what a storage system was told does not move under its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    pub network: NetworkId,
    pub addresses: AddressRange,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanId>,
}

/// The first addresses of a network's storage range: as many as the class makes use of, or all that there are.
#[must_use]
pub fn attachment_addresses(storage_range: AddressRange, parallelism: u32) -> AddressRange {
    let last = u32::from(storage_range.start).saturating_add(parallelism.saturating_sub(1));
    AddressRange { start: storage_range.start, end: Ipv4Addr::from(last).min(storage_range.end) }
}

/// What the client asked for. The class never changes; the size never shrinks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStorageSpec {
    pub class: FileStorageClassId,
    pub size_gib: u64,
    /// `None` when the client sent none: what was omitted stays omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nfs: Option<NfsOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<Attachment>>,
    pub default_snapshot_protection: bool,
    /// The user's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_policies: Option<Vec<SnapshotPolicy>>,
}

/// Why a file storage's specification cannot stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFileStorage {
    #[error("sizeGiB must be at least 1 and at most {SIZE_GIB_MAX}")]
    Size,
    #[error("sizeGiB must not be less than it was: file storage does not shrink")]
    Shrinks,
    #[error("snapshotPolicies must have different names")]
    PolicyRepeated,
    #[error("snapshotPolicies must not be named {SYSTEM_POLICY}, which is reserved")]
    PolicyReserved,
    #[error(
        "snapshotPolicies.schedule must have no other parts than its interval needs: none if hourly, timeOfDay if daily, timeOfDay and dayOfWeek if weekly, timeOfDay and dayOfMonth if monthly"
    )]
    Schedule,
    #[error("attachments.networkIds must be different")]
    NetworkRepeated,
}

impl FileStorageSpec {
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_gib.saturating_mul(GIB)
    }

    /// Root is nobody unless somebody said otherwise.
    #[must_use]
    pub fn root_squash(&self) -> bool {
        self.nfs.is_none_or(|nfs| nfs.root_squash)
    }

    #[must_use]
    pub fn attachments(&self) -> &[Attachment] {
        self.attachments.as_deref().unwrap_or_default()
    }

    #[must_use]
    pub fn attachment(&self, network: NetworkId) -> Option<&Attachment> {
        self.attachments().iter().find(|attachment| attachment.network == network)
    }

    #[must_use]
    pub fn policies(&self) -> &[SnapshotPolicy] {
        self.snapshot_policies.as_deref().unwrap_or_default()
    }

    /// Everything that the storage system is to do: the user's policies, and default protection.
    #[must_use]
    pub fn effective_policies(&self) -> Vec<SnapshotPolicy> {
        let hidden = self.default_snapshot_protection.then(system_policy);
        self.policies().iter().cloned().chain(hidden).collect()
    }

    pub fn validate(&self) -> Result<(), InvalidFileStorage> {
        if !(1..=SIZE_GIB_MAX).contains(&self.size_gib) {
            return Err(InvalidFileStorage::Size);
        }
        let names = self.policies().iter().map(|policy| policy.name.text()).collect::<Vec<_>>();
        if names.contains(&SYSTEM_POLICY) {
            return Err(InvalidFileStorage::PolicyReserved);
        }
        if has_repeated(&names) {
            return Err(InvalidFileStorage::PolicyRepeated);
        }
        Ok(())
    }

    /// Can what is stored become this? What is on a share would not fit into a smaller one (B43).
    pub const fn validate_after(&self, stored: &Self) -> Result<(), InvalidFileStorage> {
        if self.size_gib < stored.size_gib { Err(InvalidFileStorage::Shrinks) } else { Ok(()) }
    }
}

/// Is one of these there twice?
#[must_use]
pub fn has_repeated<T: PartialEq>(items: &[T]) -> bool {
    (0..items.len()).any(|at| items[..at].contains(&items[at]))
}

/// How far a part of a share is in its storage system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartState {
    /// Being made, or to be made again. Exits: `Active`, `Failed`.
    Building,
    /// As asked for. Exits: any other.
    Active,
    /// Exits: absence.
    Removing,
    /// The storage system will not have it so. Exits: `Building`, when something else is asked for.
    Failed,
}

/// What is known of one attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentDetail {
    pub network: NetworkId,
    /// Absent: there is nothing of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment: Option<ProviderAttachmentId>,
    pub addresses: AddressRange,
    pub state: PartState,
}

/// A policy that the storage system has, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDetail {
    #[serde(flatten)]
    pub policy: SnapshotPolicy,
    pub state: PartState,
}

/// How full a share was when that was last measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub used_bytes: u64,
    pub at: Timestamp,
}

/// What is known of the share in its storage system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileStorageDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<ProviderFileStorageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PartState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Also those that are to go, until they have been seen to be gone.
    pub attachments: Vec<AttachmentDetail>,
    pub policies: Vec<PolicyDetail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The generation that the storage system has followed: nothing of an earlier one is left there.
    pub converged: u64,
    /// Of what a convergence sets right, when it last did; absent when it has drifted since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<u64>,
    /// Of everything that was last seen, but for the usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
}

impl FileStorageDetail {
    #[must_use]
    pub fn attachment(&self, network: NetworkId) -> Option<&AttachmentDetail> {
        self.attachments.iter().find(|attachment| attachment.network == network)
    }

    /// Is this attachment as asked for?
    #[must_use]
    pub fn has(&self, wanted: &Attachment) -> bool {
        let known = self.attachment(wanted.network);
        known.is_some_and(|known| known.state == PartState::Active && known.addresses == wanted.addresses)
    }

    #[must_use]
    pub fn fingerprint(&self) -> Option<u64> {
        self.seen.map(|seen| fingerprint(seen, self.usage.as_ref()))
    }
}

/// Of everything that was seen, the usage included. Its form is fixed, because it is compared with what is stored.
#[must_use]
pub fn fingerprint(seen: u64, usage: Option<&Usage>) -> u64 {
    let mix = |digest: u64, number: u64| (digest ^ number).wrapping_mul(0x0100_0000_01b3);
    let Some(usage) = usage else { return seen };
    mix(mix(seen, usage.used_bytes), usage.at.as_second().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn policy(name: &str) -> SnapshotPolicy {
        SnapshotPolicy { name: PolicyName::parse(name).expect("a name"), schedule: Schedule::Hourly, keep: 1 }
    }

    fn spec(size_gib: u64) -> FileStorageSpec {
        FileStorageSpec {
            class: FileStorageClassId(Uuid::from_u128(1)),
            size_gib,
            nfs: None,
            attachments: None,
            default_snapshot_protection: false,
            snapshot_policies: None,
        }
    }

    fn range(start: [u8; 4], end: [u8; 4]) -> AddressRange {
        AddressRange { start: start.into(), end: end.into() }
    }

    #[test]
    fn a_size_is_at_least_one_and_fits_into_the_bytes_that_clients_read() {
        for (size, good) in [(0, false), (1, true), (SIZE_GIB_MAX, true), (SIZE_GIB_MAX + 1, false)] {
            assert_eq!(spec(size).validate().is_ok(), good, "{size}");
        }
        assert!(i64::try_from(spec(SIZE_GIB_MAX).size_bytes()).is_ok());
    }

    #[test]
    fn b43_a_share_grows_and_stays_but_does_not_shrink() {
        assert_eq!(spec(10).validate_after(&spec(9)), Ok(()));
        assert_eq!(spec(10).validate_after(&spec(10)), Ok(()));
        assert_eq!(spec(9).validate_after(&spec(10)), Err(InvalidFileStorage::Shrinks));
    }

    #[test]
    fn policies_have_different_names_and_none_is_the_hidden_one() {
        let with = |names: &[&str]| {
            let policies = names.iter().map(|name| policy(name)).collect();
            FileStorageSpec { snapshot_policies: Some(policies), ..spec(1) }.validate()
        };
        assert_eq!(with(&["a", "b"]), Ok(()));
        assert_eq!(with(&["a", "b", "a"]), Err(InvalidFileStorage::PolicyRepeated));
        assert_eq!(with(&["a", SYSTEM_POLICY]), Err(InvalidFileStorage::PolicyReserved));
    }

    #[test]
    fn default_protection_is_a_week_of_nights_beside_the_users_own_policies() {
        let own = FileStorageSpec { snapshot_policies: Some(vec![policy("a")]), ..spec(1) };
        assert_eq!(own.effective_policies(), [policy("a")]);
        let protected = FileStorageSpec { default_snapshot_protection: true, ..own };
        assert_eq!(protected.policies(), [policy("a")], "the hidden one is not among the user's");
        let effective = protected.effective_policies();
        assert_eq!((effective.len(), &effective[1]), (2, &system_policy()));
        assert_eq!(serde_json::to_value(system_policy()).expect("json")["schedule"]["timeOfDay"], "04:00Z");
    }

    #[test]
    fn policy_names_follow_their_rule() {
        for good in ["a", "nightly", "a-1", "x2", &"a".repeat(19)] {
            assert!(PolicyName::parse(good).is_some(), "{good}");
        }
        for bad in ["", "-a", "a-", "1a", "A", "a_b", "a.b", "é", &"a".repeat(20)] {
            assert_eq!(PolicyName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_time_of_the_day_reads_back_as_it_was_written() {
        for good in ["00:00Z", "04:00Z", "19:59Z", "23:59Z"] {
            assert_eq!(TimeOfDay::parse(good).map(|time| time.to_string()).as_deref(), Some(good));
        }
        for bad in ["24:00Z", "04:60Z", "4:00Z", "04:00", "04:00z", "04-00Z", "+4:00Z", " 4:00Z", ""] {
            assert_eq!(TimeOfDay::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_interval_has_exactly_its_own_parts() {
        let (time, week, month) = (TimeOfDay::parse("01:02Z"), Some(DayOfWeek::Monday), DayOfMonth::of(28));
        assert!(time.is_some() && month.is_some() && DayOfMonth::of(29).is_none() && DayOfMonth::of(0).is_none());
        for interval in [Interval::Hourly, Interval::Daily, Interval::Weekly, Interval::Monthly] {
            for choice in 0..8 {
                let parts = ScheduleParts {
                    interval,
                    time_of_day: time.filter(|_| choice & 1 != 0),
                    day_of_week: week.filter(|_| choice & 2 != 0),
                    day_of_month: month.filter(|_| choice & 4 != 0),
                };
                let good = match interval {
                    Interval::Hourly => choice == 0,
                    Interval::Daily => choice == 1,
                    Interval::Weekly => choice == 3,
                    Interval::Monthly => choice == 5,
                };
                let schedule = Schedule::of(parts);
                assert_eq!(schedule.is_ok(), good, "{parts:?}");
                if let Ok(schedule) = schedule {
                    assert_eq!(schedule.parts(), parts);
                    let stored = serde_json::to_string(&schedule).expect("json");
                    assert_eq!(serde_json::from_str::<Schedule>(&stored).expect("reads"), schedule);
                }
            }
        }
    }

    #[test]
    fn an_attachment_has_as_many_addresses_as_its_class_uses_or_as_there_are() {
        let storage = range([10, 0, 0, 16], [10, 0, 0, 127]);
        assert_eq!(attachment_addresses(storage, 4), range([10, 0, 0, 16], [10, 0, 0, 19]));
        assert_eq!(attachment_addresses(storage, 1), range([10, 0, 0, 16], [10, 0, 0, 16]));
        assert_eq!(attachment_addresses(storage, 1000), storage);
    }

    proptest! {
        #[test]
        fn the_addresses_of_an_attachment_are_the_first_of_the_range_and_never_more_than_asked(
            start in any::<u32>(), size in 0_u32..1000, parallelism in 1_u32..2000,
        ) {
            let storage = AddressRange { start: start.into(), end: start.saturating_add(size).into() };
            let addresses = attachment_addresses(storage, parallelism);
            prop_assert_eq!(addresses.start, storage.start);
            prop_assert!(addresses.start <= addresses.end && addresses.end <= storage.end);
            let count = u32::from(addresses.end) - u32::from(addresses.start);
            let available = u32::from(storage.end) - u32::from(storage.start);
            prop_assert_eq!(count, (parallelism - 1).min(available));
        }
    }
}
