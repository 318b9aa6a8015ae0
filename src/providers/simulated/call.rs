//! The language that is spoken with the simulated cloud: calls, answers, errors.
//!
//! Reads are uniform over all kinds (`Find`, `Get`, `List`) and writes are few, as in a real cloud's API. As there,
//! a find or a list may be answered from a replica that lags behind; a `Get` by id never is. Every call has one word
//! (`create-network`), by which faults, the log and crash points know it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::objects::{CloudObject, ExternalNetworkEntry, NewObject, ObjectId, ObjectKind, PortOptions, SubnetOptions};
use super::shares::ShareOptions;
use crate::model::ids::{FlavorId, ImageId, OrganizationId};
use crate::model::load_balancer_topology::BalancerChange;
use crate::model::security_group::EffectiveRule;
use crate::providers::PowerAction;
use crate::providers::file_storage::FileStorageClass;
use crate::providers::image_schema::ImageEntry;
use crate::providers::types::{Flavor, VolumeClass};

/// How long a caller waits for an answer. Longer than any answer that is merely slow (faults delay by seconds);
/// short enough that a hung call does not hold up a shard's hand-over, which must outlive it.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// How many rows one page of a list holds, and how many objects a find returns at most: what real clouds allow.
pub const PAGE_MAX: usize = 1000;

/// Who calls. Of two callers with one name, the one with the newer epoch has taken over from the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Caller {
    pub name: String,
    pub epoch: u64,
}

/// A call, with who makes it and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRequest {
    pub caller: Caller,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<OrganizationId>,
    pub call: Call,
}

/// What to look for: everything given must be equal. At least one must be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Criteria {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The id in the object's marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ObjectId>,
}

impl Criteria {
    #[must_use]
    pub fn marked(id: Uuid) -> Self {
        Self { marked: Some(id), ..Self::default() }
    }

    #[must_use]
    pub fn inside(parent: ObjectId) -> Self {
        Self { parent: Some(parent), ..Self::default() }
    }

    #[must_use]
    pub fn matches(&self, object: &CloudObject) -> bool {
        self.name.as_ref().is_none_or(|name| object.name == *name)
            && self.marked.is_none_or(|id| object.marks.is_some_and(|marks| marks.id == id))
            && self.parent.as_ref().is_none_or(|parent| object.body.parent().is_some_and(|(_, own)| own == parent))
    }
}

/// A change of an existing object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Change {
    Tags {
        tags: BTreeMap<String, String>,
    },
    /// Replaces all options of a subnet: what is left out is cleared.
    Subnet {
        #[serde(flatten)]
        options: SubnetOptions,
    },
    /// Connects a router to an external network.
    Gateway {
        external_network: ObjectId,
    },
    /// Gives a server another port.
    Connection {
        port: ObjectId,
    },
    /// Replaces all options of a port.
    Port {
        #[serde(flatten)]
        options: PortOptions,
    },
    /// Enlarges a volume.
    Size {
        size_gib: u32,
    },
    /// Replaces all options of a share. None becomes smaller.
    Share {
        #[serde(flatten)]
        options: ShareOptions,
    },
}

/// What a server can be told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum ServerAction {
    Start,
    Stop,
    SoftReboot,
    HardReboot,
    /// Replaces the root disk.
    Rebuild {
        image: ImageId,
    },
    /// Gives it another flavor. It then waits for `ConfirmResize`.
    Resize {
        flavor: FlavorId,
    },
    /// Keeps it as it was resized.
    ConfirmResize,
}

impl From<PowerAction> for ServerAction {
    fn from(action: PowerAction) -> Self {
        match action {
            PowerAction::Start => Self::Start,
            PowerAction::Stop => Self::Stop,
            PowerAction::SoftReboot => Self::SoftReboot,
            PowerAction::HardReboot => Self::HardReboot,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Call {
    Find {
        kind: ObjectKind,
        criteria: Criteria,
    },
    Get {
        kind: ObjectKind,
        id: ObjectId,
    },
    /// A page of everything of a kind, in the order of ids. Networks come with their subnets and routers, servers and
    /// load balancers with their ports and floating addresses, shares with their attachments.
    List {
        kind: ObjectKind,
        /// Only those that are marked with one of these ids of ours.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<BTreeSet<Uuid>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<ObjectId>,
    },
    ListExternalNetworks,
    ListFlavors,
    ListImages,
    ListVolumeClasses,
    ListShareClasses,
    Create {
        object: NewObject,
    },
    Update {
        kind: ObjectKind,
        id: ObjectId,
        change: Change,
    },
    Delete {
        kind: ObjectKind,
        id: ObjectId,
    },
    AttachInterface {
        router: ObjectId,
        subnet: ObjectId,
    },
    DetachInterface {
        router: ObjectId,
        subnet: ObjectId,
    },
    AddRule {
        group: ObjectId,
        rule: EffectiveRule,
    },
    RemoveRule {
        group: ObjectId,
        rule: EffectiveRule,
    },
    AttachVolume {
        volume: ObjectId,
        server: ObjectId,
    },
    DetachVolume {
        volume: ObjectId,
    },
    /// Changes a part of a load balancer, which is then busy for a while.
    Configure {
        balancer: ObjectId,
        #[serde(flatten)]
        change: BalancerChange,
    },
    Act {
        server: ObjectId,
        #[serde(flatten)]
        action: ServerAction,
    },
    /// Begins a session: each has an address of its own.
    OpenConsole {
        server: ObjectId,
    },
    ReadConsole {
        server: ObjectId,
        /// The last so many; absent: all that the cloud keeps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lines: Option<u32>,
    },
}

/// The words of one kind's operations.
struct Words {
    find: &'static str,
    get: &'static str,
    list: &'static str,
    create: &'static str,
    update: &'static str,
    delete: &'static str,
}

macro_rules! words {
    ($one:literal, $many:literal) => {
        &Words {
            find: concat!("find-", $many),
            get: concat!("get-", $one),
            list: concat!("list-", $many),
            create: concat!("create-", $one),
            update: concat!("update-", $one),
            delete: concat!("delete-", $one),
        }
    };
}

const fn words(kind: ObjectKind) -> &'static Words {
    match kind {
        ObjectKind::Project => words!("project", "projects"),
        ObjectKind::User => words!("user", "users"),
        ObjectKind::Credential => words!("credential", "credentials"),
        ObjectKind::Network => words!("network", "networks"),
        ObjectKind::Subnet => words!("subnet", "subnets"),
        ObjectKind::Router => words!("router", "routers"),
        ObjectKind::KeyPair => words!("key-pair", "key-pairs"),
        ObjectKind::SecurityGroup => words!("security-group", "security-groups"),
        ObjectKind::Port => words!("port", "ports"),
        ObjectKind::FloatingIp => words!("floating-ip", "floating-ips"),
        ObjectKind::Server => words!("server", "servers"),
        ObjectKind::Volume => words!("volume", "volumes"),
        ObjectKind::LoadBalancer => words!("load-balancer", "load-balancers"),
        // What the cloud comes with has the plain word.
        ObjectKind::Image => words!("image", "own-images"),
        ObjectKind::Share => words!("share", "shares"),
        ObjectKind::ShareAttachment => words!("share-attachment", "share-attachments"),
    }
}

impl Call {
    /// The word that the log, the faults and the crash points know the call by.
    #[must_use]
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::Find { kind, .. } => words(*kind).find,
            Self::Get { kind, .. } => words(*kind).get,
            Self::List { kind, .. } => words(*kind).list,
            Self::ListExternalNetworks => "list-external-networks",
            Self::ListFlavors => "list-flavors",
            Self::ListImages => "list-images",
            Self::ListVolumeClasses => "list-volume-classes",
            Self::ListShareClasses => "list-share-classes",
            Self::Create { object } => words(object.body.kind()).create,
            Self::Update { kind, .. } => words(*kind).update,
            Self::Delete { kind, .. } => words(*kind).delete,
            Self::AttachInterface { .. } => "attach-interface",
            Self::DetachInterface { .. } => "detach-interface",
            Self::AddRule { .. } => "add-rule",
            Self::RemoveRule { .. } => "remove-rule",
            Self::AttachVolume { .. } => "attach-volume",
            Self::DetachVolume { .. } => "detach-volume",
            Self::Configure { change, .. } => match change {
                BalancerChange::AddPool { .. } => "add-pool",
                BalancerChange::RemovePool { .. } => "remove-pool",
                BalancerChange::ReplaceMembers { .. } => "replace-members",
                BalancerChange::SetMonitor { .. } => "set-monitor",
                BalancerChange::AddListener { .. } => "add-listener",
                BalancerChange::UpdateListener { .. } => "update-listener",
                BalancerChange::RemoveListener { .. } => "remove-listener",
            },
            Self::Act { action, .. } => match action {
                ServerAction::Start => "start-server",
                ServerAction::Stop => "stop-server",
                ServerAction::SoftReboot | ServerAction::HardReboot => "reboot-server",
                ServerAction::Rebuild { .. } => "rebuild-server",
                ServerAction::Resize { .. } => "resize-server",
                ServerAction::ConfirmResize => "confirm-resize",
            },
            Self::OpenConsole { .. } => "open-console",
            Self::ReadConsole { .. } => "read-console",
        }
    }

    #[must_use]
    pub const fn is_mutating(&self) -> bool {
        match self {
            Self::Find { .. }
            | Self::Get { .. }
            | Self::List { .. }
            | Self::ListExternalNetworks
            | Self::ListFlavors
            | Self::ListImages
            | Self::ListVolumeClasses
            | Self::ListShareClasses
            | Self::ReadConsole { .. } => false,
            Self::Create { .. }
            | Self::Update { .. }
            | Self::Delete { .. }
            | Self::AttachInterface { .. }
            | Self::DetachInterface { .. }
            | Self::AddRule { .. }
            | Self::RemoveRule { .. }
            | Self::AttachVolume { .. }
            | Self::DetachVolume { .. }
            | Self::Configure { .. }
            | Self::Act { .. }
            | Self::OpenConsole { .. } => true,
        }
    }

    /// What the call is about: the cloud's id where there is one, else our id. Two reads of one operation with the
    /// same subject are the same read.
    #[must_use]
    pub fn subject(&self) -> String {
        let named = || self.named().map(|id| id.0.clone()).unwrap_or_default();
        match self {
            Self::Find { criteria, .. } => criteria.subject(),
            Self::List { only, after, .. } => {
                let after = after.as_ref().map(|id| id.0.as_str()).unwrap_or_default();
                let only = only.as_ref().map(digest_of).unwrap_or_default();
                format!("{after}{only}")
            }
            Self::Create { object } => object.marks.map_or_else(|| object.name.clone(), |marks| marks.id.to_string()),
            Self::ReadConsole { lines: Some(lines), .. } => format!("{}/{lines}", named()),
            _ => named(),
        }
    }

    /// The object that the call names by the cloud's id, if it names one.
    #[must_use]
    pub const fn named(&self) -> Option<&ObjectId> {
        match self {
            Self::Get { id, .. }
            | Self::Update { id, .. }
            | Self::Delete { id, .. }
            | Self::AttachInterface { router: id, .. }
            | Self::DetachInterface { router: id, .. }
            | Self::AddRule { group: id, .. }
            | Self::RemoveRule { group: id, .. }
            | Self::AttachVolume { volume: id, .. }
            | Self::DetachVolume { volume: id }
            | Self::Configure { balancer: id, .. }
            | Self::Act { server: id, .. }
            | Self::OpenConsole { server: id }
            | Self::ReadConsole { server: id, .. } => Some(id),
            Self::Find { .. }
            | Self::List { .. }
            | Self::ListExternalNetworks
            | Self::ListFlavors
            | Self::ListImages
            | Self::ListVolumeClasses
            | Self::ListShareClasses
            | Self::Create { .. } => None,
        }
    }
}

/// A thousand ids would make a subject, which is kept with every call, as long as a page of text.
fn digest_of(ids: &BTreeSet<Uuid>) -> String {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for id in ids {
        context.update(id.as_bytes());
    }
    let digest = context.finish();
    digest.as_ref().iter().take(16).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

impl Criteria {
    fn subject(&self) -> String {
        let marked = self.marked.map(|id| id.to_string());
        let parent = self.parent.as_ref().map(|id| id.0.clone());
        let given: Vec<String> = [marked, parent, self.name.clone()].into_iter().flatten().collect();
        given.join("/")
    }
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub object: CloudObject,
    /// A network's subnets and routers, a server's or a load balancer's ports and floating addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<CloudObject>,
}

/// What the cloud says when all is well. Its name stands around it and not in it, so that a long page is read as it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Answer {
    Object {
        object: Box<CloudObject>,
    },
    Objects {
        objects: Vec<CloudObject>,
    },
    Page {
        rows: Vec<Row>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<ObjectId>,
    },
    ExternalNetworks {
        networks: Vec<ExternalNetworkEntry>,
    },
    Flavors {
        flavors: Vec<Flavor>,
    },
    Images {
        images: Vec<ImageEntry>,
    },
    VolumeClasses {
        classes: Vec<VolumeClass>,
    },
    ShareClasses {
        classes: Vec<FileStorageClass>,
    },
    /// Where a console session is found, by whoever has the address.
    Console {
        address: Secret,
    },
    /// What a console showed, which may hold anything.
    Shown {
        text: Secret,
    },
    /// A new credential and its secret, which is never shown again.
    Issued {
        credential: Box<CloudObject>,
        secret: Secret,
    },
    /// Accepted; a deletion may still be under way.
    Done,
}

/// A secret on its way to whom it was issued: serialised, but never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(redacted)")
    }
}

/// What the cloud says when not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum CloudError {
    #[error("not found")]
    NotFound,
    #[error("conflict: {reason}")]
    Conflict { reason: String },
    #[error("throttled")]
    Throttled {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    #[error("quota exceeded")]
    Quota,
    #[error("unauthorized")]
    Unauthorized,
    /// Down, or the connection broke. A mutating call may or may not have happened.
    #[error("unavailable")]
    Unavailable,
    /// No answer in time. A mutating call may or may not have happened.
    #[error("timed out")]
    TimedOut,
    #[error("rejected: {reason}")]
    Rejected { reason: String },
    /// A newer epoch of the same caller has been seen.
    #[error("fenced: epoch {newest_epoch} has taken over")]
    Fenced { newest_epoch: u64 },
}

impl CloudError {
    pub(crate) fn conflict(reason: impl Into<String>) -> Self {
        Self::Conflict { reason: reason.into() }
    }

    pub(crate) fn rejected(reason: impl Into<String>) -> Self {
        Self::Rejected { reason: reason.into() }
    }

    /// The word for the log.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::Conflict { .. } => "conflict",
            Self::Throttled { .. } => "throttled",
            Self::Quota => "quota",
            Self::Unauthorized => "unauthorized",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed-out",
            Self::Rejected { .. } => "rejected",
            Self::Fenced { .. } => "fenced",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::security_group::implicit_rules;

    fn over_the_wire(call: &Call) -> Call {
        serde_json::from_str(&serde_json::to_string(call).expect("json")).expect("a call")
    }

    #[test]
    fn calls_about_machines_are_understood_at_the_other_end() {
        let (id, rule) = (ObjectId("some".to_owned()), implicit_rules()[1]);
        let options = PortOptions {
            security_groups: BTreeSet::from([id.clone()]),
            allowed_addresses: BTreeSet::from(["10.0.0.0/8".parse().expect("a prefix")]),
        };
        let update = |kind, change| Call::Update { kind, id: id.clone(), change };
        let mut calls = vec![
            Call::AddRule { group: id.clone(), rule },
            Call::RemoveRule { group: id.clone(), rule },
            Call::OpenConsole { server: id.clone() },
            Call::ReadConsole { server: id.clone(), lines: Some(7) },
            Call::ListFlavors,
            Call::ListImages,
            Call::ListVolumeClasses,
            Call::AttachVolume { volume: id.clone(), server: id.clone() },
            Call::DetachVolume { volume: id.clone() },
            update(ObjectKind::Volume, Change::Size { size_gib: 7 }),
            Call::ListShareClasses,
            update(ObjectKind::Share, Change::Share { options: super::super::shares::full_share().options }),
            update(ObjectKind::Port, Change::Port { options }),
            update(ObjectKind::Server, Change::Connection { port: id.clone() }),
        ];
        let image = ImageId(Uuid::from_u128(3));
        let actions = [ServerAction::Start, ServerAction::Stop, ServerAction::SoftReboot, ServerAction::HardReboot];
        let flavor = FlavorId(Uuid::from_u128(4));
        let changes = [ServerAction::Rebuild { image }, ServerAction::Resize { flavor }, ServerAction::ConfirmResize];
        for action in actions.into_iter().chain(changes) {
            calls.push(Call::Act { server: id.clone(), action });
        }
        for call in calls {
            assert_eq!(over_the_wire(&call), call);
        }
    }

    #[test]
    fn changes_of_load_balancers_are_understood_at_the_other_end() {
        use crate::model::load_balancer::{BalancedProtocol, ListenerName, Member};
        use crate::model::load_balancer_topology::{CloudListener, Monitor, PoolProtocol};
        let name = ListenerName::try_from("web".to_owned()).expect("a name");
        let listener = CloudListener {
            protocol: BalancedProtocol::Udp,
            port: 53,
            allowed: BTreeSet::from(["10.0.0.0/8".parse().expect("a prefix")]),
            idle_timeout_seconds: Some(9),
        };
        let members = BTreeSet::from([Member { address: [10, 0, 0, 1].into(), port: 80 }]);
        let monitor = Monitor { interval_seconds: 4, timeout_seconds: 3, healthy_threshold: 2, unhealthy_threshold: 1 };
        let changes = [
            BalancerChange::AddPool { name: name.clone(), protocol: PoolProtocol::ProxyV2 },
            BalancerChange::RemovePool { name: name.clone() },
            BalancerChange::ReplaceMembers { name: name.clone(), members },
            BalancerChange::SetMonitor { name: name.clone(), monitor: Some(monitor) },
            BalancerChange::SetMonitor { name: name.clone(), monitor: None },
            BalancerChange::AddListener { name: name.clone(), listener: listener.clone() },
            BalancerChange::UpdateListener { name: name.clone(), listener },
            BalancerChange::RemoveListener { name },
        ];
        for change in changes {
            let call = Call::Configure { balancer: ObjectId("some".to_owned()), change };
            assert_eq!(over_the_wire(&call), call);
        }
    }

    #[test]
    fn a_list_of_many_has_a_short_subject_of_its_own() {
        let list = |ids: std::ops::Range<u128>| {
            let only = Some(ids.map(Uuid::from_u128).collect());
            Call::List { kind: ObjectKind::Server, only, after: None }.subject()
        };
        assert_eq!(list(0..1000), list(0..1000));
        assert_ne!(list(0..1000), list(0..999));
        assert_eq!(list(0..1000).len(), 32);
    }
}
