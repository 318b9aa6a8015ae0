//! What accepting a request about a cluster of the first version means for the store: what it means for one of the
//! second, and for the network and the groups that come with it. Pure: times and ids are handed in.

use std::net::Ipv4Addr;

use jiff::Timestamp;

use crate::api::compute::clusters::intent as clusters;
use crate::api::compute::clusters::wire::{AcceptedCreate, AcceptedSpec};
use crate::api::intent::Author;
use crate::api::v2::networks::intent as networks;
use crate::api::v2::networks::wire::{AcceptedCreate as NetworkCreate, AcceptedUpdate as NetworkUpdate};
use crate::api::v2::security_groups::intent as groups;
use crate::api::v2::security_groups::wire::Accepted as GroupSaid;
use crate::api::wire::AcceptedMetadata;
use crate::model::cluster::{CLUSTER_TAG, Cluster, ClusterSpec};
use crate::model::ids::{ClusterId, Incarnation, NetworkId, SecurityGroupId};
use crate::model::metadata::{ApiVersion, Placement, Tag};
use crate::model::network::{Network, NetworkSpec};
use crate::model::record::{Place, Resource};
use crate::model::security_group::{SecurityGroup, SecurityGroupSpec};
use crate::store::{Batch, Precondition, Write};

/// The ids that a creation will use.
#[derive(Clone, Copy, Debug)]
pub struct NewIds {
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
    pub network: networks::NewIds,
}

/// A group that a pool lacks.
#[derive(Clone, Debug)]
pub struct NewGroup {
    pub id: SecurityGroupId,
    pub incarnation: Incarnation,
    pub pool: String,
    pub spec: SecurityGroupSpec,
}

/// What becomes of the groups when the firewalls of the pools are something else than they were.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    pub made: Vec<NewGroup>,
    pub changed: Vec<(Resource<SecurityGroup>, SecurityGroupSpec)>,
}

/// What is said of something that is made for a cluster: whose it is, so that people who find it know.
fn said(name: &str, cluster: ClusterId) -> AcceptedMetadata {
    let tag = Tag { name: CLUSTER_TAG.to_owned(), value: cluster.to_string() };
    AcceptedMetadata { name: name.to_owned(), description: None, tags: Some(vec![tag]), deletion_protection: None }
}

/// A cluster with a network of its own, called as it is, and the groups of its pools. Network and groups are of the
/// second version, as the machines are: everything but the cluster can be seen there, and is charged as it is there.
#[must_use]
pub fn creation(
    metadata: &AcceptedMetadata,
    (spec, network): (&ClusterSpec, NetworkSpec),
    made: &[NewGroup],
    (author, place): (&Author, Place),
    ids: NewIds,
) -> Batch {
    let beside = Author { version: ApiVersion::V2, ..author.clone() };
    let network = NetworkCreate {
        metadata: said(&metadata.name, ids.cluster),
        organization: place.organization,
        project: place.project,
        region: place.region,
        spec: network,
    };
    let home = ids.network.network;
    let placement = Placement {
        organization: Some(place.organization),
        project: Some(place.project),
        region: Some(place.region),
        identity: Some(ids.network.identity),
        network: Some(home),
    };
    let accepted = AcceptedCreate {
        metadata: metadata.clone(),
        organization: place.organization,
        project: place.project,
        network: home,
        spec: AcceptedSpec { pools: Vec::new(), unavailable_max: None },
    };
    let cluster = clusters::creation(&accepted, spec, author, placement, (ids.cluster, ids.incarnation));
    let mut needed = vec![networks::creation(&network, &beside, ids.network)];
    needed.extend(made.iter().map(|group| group_creation(group, ids.cluster, &beside, (home, placement))));
    joined(cluster, needed)
}

fn group_creation(
    group: &NewGroup,
    cluster: ClusterId,
    author: &Author,
    (network, placement): (NetworkId, Placement),
) -> Batch {
    let accepted = GroupSaid { metadata: said(&group.pool, cluster), spec: group.spec.clone() };
    groups::creation(&accepted, author, (network.key(), placement), (group.id, group.incarnation))
}

/// A full replacement, with what follows from it for the groups and for the name servers of the network.
///
/// The groups of pools that are no more stay until the network goes: machines may still be connected with them, and
/// once none is, they let nobody in anywhere.
#[must_use]
pub fn update(
    stored: &Resource<Cluster>,
    (metadata, spec): (&AcceptedMetadata, &ClusterSpec),
    groups: &Groups,
    network: Option<(Resource<Network>, Vec<Ipv4Addr>)>,
    (author, now): (&Author, Timestamp),
) -> Batch {
    let subject = author.subject.as_str();
    let mut needed = Vec::new();
    if let Some((network, dns_nameservers)) = network {
        let routes = network.spec.routes.clone();
        let said = NetworkUpdate { metadata: AcceptedMetadata::of(&network.metadata), dns_nameservers, routes };
        needed.push(networks::update(&network, &said, subject, now));
    }
    for (group, spec) in &groups.changed {
        let said = GroupSaid { metadata: AcceptedMetadata::of(&group.metadata), spec: spec.clone() };
        needed.push(self::groups::update(group, &said, subject, now));
    }
    let placement = stored.metadata.placement;
    if let Some(home) = placement.network {
        let cluster = ClusterId(stored.key.id);
        needed.extend(groups.made.iter().map(|group| group_creation(group, cluster, author, (home, placement))));
    }
    joined(clusters::update(stored, metadata, spec, (subject, now)), needed)
}

/// One batch: what is charged for the cluster, which may be refused, then what it needs, then it. What the batch itself
/// makes need not be there before.
fn joined(cluster: Batch, needed: Vec<Batch>) -> Batch {
    let is_charge = |write: &Write| matches!(write, Write::Charge { .. });
    let (mut writes, last): (Vec<_>, Vec<_>) = cluster.writes.into_iter().partition(is_charge);
    let mut preconditions = cluster.preconditions;
    for batch in needed {
        writes.extend(batch.writes);
        preconditions.extend(batch.preconditions);
    }
    writes.extend(last);
    let is_made = |precondition: &Precondition| {
        let Precondition::Live(key) = precondition else { return false };
        writes.iter().any(|write| matches!(write, Write::Insert(record) if record.key == *key))
    };
    preconditions.retain(|precondition| !is_made(precondition));
    Batch { preconditions, writes }
}
