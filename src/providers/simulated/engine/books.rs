//! The cloud's own books: what exists, what was ever made, who called what.
//!
//! They are what a test compares the control plane's opinion with, so they are kept by the cloud and never by what
//! is being tested. They hold no secret.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::super::call::{CallRequest, CloudError};
use super::super::catalogue;
use super::super::objects::{CloudObject, ExternalNetworkEntry, Marks, ObjectId, ObjectKind, Segment};
use super::rules::World;
use super::table::Count;
use crate::model::ids::OrganizationId;
use crate::providers::image_schema::ImageEntry;
use crate::providers::types::{Flavor, VolumeClass};

/// How many calls the log remembers: a long simulated history whole, in some tens of megabytes.
pub const CALL_LOG_MAX: usize = 100_000;

/// How many calls one reading of the log returns.
pub const CALL_LOG_PAGE_MAX: usize = 1000;

/// Everything that exists now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// Projects, by the name that the rest of the system has for what they are made for.
    pub identities: Vec<CloudObject>,
    pub users: Vec<CloudObject>,
    pub credentials: Vec<CloudObject>,
    pub networks: Vec<CloudObject>,
    pub subnets: Vec<CloudObject>,
    pub routers: Vec<CloudObject>,
    pub vlans: Vec<UsedVlan>,
    #[serde(default)]
    pub key_pairs: Vec<CloudObject>,
    pub security_groups: Vec<CloudObject>,
    pub servers: Vec<CloudObject>,
    pub ports: Vec<CloudObject>,
    pub floating_ips: Vec<CloudObject>,
    /// Those that were made; what the cloud comes with is in the catalogue.
    #[serde(default)]
    pub images: Vec<CloudObject>,
    pub load_balancers: Vec<CloudObject>,
    pub volumes: Vec<CloudObject>,
    #[serde(default)]
    pub shares: Vec<CloudObject>,
    #[serde(default)]
    pub share_attachments: Vec<CloudObject>,
    pub catalogue: Catalogue,
}

/// What the cloud comes with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Catalogue {
    pub external_networks: Vec<ExternalNetworkEntry>,
    #[serde(default)]
    pub flavors: Vec<Flavor>,
    #[serde(default)]
    pub images: Vec<ImageEntry>,
    #[serde(default)]
    pub volume_classes: Vec<VolumeClass>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsedVlan {
    #[serde(flatten)]
    pub segment: Segment,
    pub network: ObjectId,
}

impl Inventory {
    pub fn of(world: &World) -> Self {
        let all = |kind| world.table.of_kind(kind).cloned().collect();
        let vlans = world.table.segments().iter();
        Self {
            identities: all(ObjectKind::Project),
            users: all(ObjectKind::User),
            credentials: all(ObjectKind::Credential),
            networks: all(ObjectKind::Network),
            subnets: all(ObjectKind::Subnet),
            routers: all(ObjectKind::Router),
            vlans: vlans
                .map(|(segment, network)| UsedVlan { segment: segment.clone(), network: network.clone() })
                .collect(),
            key_pairs: all(ObjectKind::KeyPair),
            security_groups: all(ObjectKind::SecurityGroup),
            servers: all(ObjectKind::Server),
            ports: all(ObjectKind::Port),
            floating_ips: all(ObjectKind::FloatingIp),
            images: all(ObjectKind::Image),
            volumes: all(ObjectKind::Volume),
            load_balancers: all(ObjectKind::LoadBalancer),
            shares: all(ObjectKind::Share),
            share_attachments: all(ObjectKind::ShareAttachment),
            catalogue: Catalogue {
                external_networks: world.external_networks.clone(),
                flavors: catalogue::flavors().to_vec(),
                images: world.public_images(),
                volume_classes: catalogue::volume_classes().to_vec(),
            },
        }
    }

    /// Is there nothing but the catalogue?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self { catalogue: self.catalogue.clone(), ..Self::default() }
    }
}

/// How often something was made for one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Creation {
    pub kind: ObjectKind,
    #[serde(flatten)]
    pub marks: Marks,
    #[serde(flatten)]
    pub count: Count,
}

/// Everything that was ever made and marked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Creations {
    pub creations: Vec<Creation>,
    /// False when the book was full and something is missing.
    pub complete: bool,
}

/// A call, as the cloud saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoggedCall {
    pub sequence: u64,
    pub time: Timestamp,
    pub operation: String,
    pub object: String,
    /// Our id, with which the object that the call names was marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<OrganizationId>,
    pub caller: String,
    pub epoch: u64,
    pub mutating: bool,
    /// `ok` or the word of the error that the caller was told.
    pub outcome: String,
    /// Did the cloud do it, whatever the caller was told?
    pub applied: bool,
}

/// How often each operation was called. Never reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    pub reads: u64,
    pub mutations: u64,
    pub operations: BTreeMap<String, u64>,
}

/// The last calls, and the counts of all.
#[derive(Default)]
pub struct CallLog {
    calls: VecDeque<LoggedCall>,
    counters: Counters,
    sequence: u64,
}

impl CallLog {
    pub fn record(
        &mut self,
        now: Timestamp,
        request: &CallRequest,
        marked: Option<Uuid>,
        error: Option<&CloudError>,
        applied: bool,
    ) -> &LoggedCall {
        self.sequence += 1;
        let mutating = request.call.is_mutating();
        let counter = if mutating { &mut self.counters.mutations } else { &mut self.counters.reads };
        *counter += 1;
        *self.counters.operations.entry(request.call.operation().to_owned()).or_default() += 1;
        self.push(LoggedCall {
            sequence: self.sequence,
            time: now,
            operation: request.call.operation().to_owned(),
            object: request.call.subject(),
            marked,
            tenant: request.tenant,
            caller: request.caller.name.clone(),
            epoch: request.caller.epoch,
            mutating,
            outcome: error.map_or("ok", CloudError::word).to_owned(),
            applied,
        })
    }

    fn push(&mut self, call: LoggedCall) -> &LoggedCall {
        if self.calls.len() == CALL_LOG_MAX {
            self.calls.pop_front();
        }
        let at = self.calls.len();
        self.calls.push_back(call);
        &self.calls[at]
    }

    /// Takes over a call of an earlier run. Numbers go on beyond any that the earlier run can have shown since.
    pub fn restore(&mut self, call: LoggedCall) {
        self.sequence = call.sequence + CALL_LOG_MAX as u64;
        self.push(call);
    }

    pub fn restore_counters(&mut self, counters: Counters) {
        self.counters = counters;
    }

    /// The calls after a sequence number, oldest first, a page of them.
    pub fn after(&self, sequence: u64) -> Vec<LoggedCall> {
        let start = self.calls.partition_point(|call| call.sequence <= sequence);
        self.calls.range(start..).take(CALL_LOG_PAGE_MAX).cloned().collect()
    }

    pub fn mutations(&self) -> impl Iterator<Item = &LoggedCall> {
        self.calls.iter().filter(|call| call.mutating)
    }

    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}
