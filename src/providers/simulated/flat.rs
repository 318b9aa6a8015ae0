//! How an object is read: all that any kind can have, side by side, as it stands in the text.
//!
//! An object's head and body share one level of JSON. Read by the derived code, everything is first kept aside, twice,
//! until the kind is known; over the lists of a large region that is most of what idling costs. Here every field goes
//! where it belongs as it comes, and the kind says at the end which of them are the body.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::Deserialize;

use super::allowed_address::AllowedAddress;
use super::objects::{
    Body, CloudObject, ImageBody, Marks, ObjectId, ObjectKind, ObjectState, Pending, PortAddress, PortOptions, Segment,
    ServerBody, ServerLife, SubnetOptions, SubnetRoute, UserDataDigest, VolumeAttachment, VolumeBody, VolumeTask,
};
use super::shares::{ShareAttachmentBody, ShareBody};
use crate::model::ids::{FlavorId, ImageId, OrganizationId, VolumeClassId};
use crate::model::load_balancer::ListenerName;
use crate::model::load_balancer_topology::{CloudListener, CloudPool, Topology};
use crate::model::network::AddressRange;
use crate::model::security_group::EffectiveRule;

/// A text that lacks what its kind cannot be without.
#[derive(Debug, thiserror::Error)]
#[error("an object of the cloud lacks its {0}")]
pub struct Lacking(&'static str);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlatObject {
    id: ObjectId,
    name: String,
    marks: Option<Marks>,
    state: ObjectState,
    pending: Option<Pending>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    kind: ObjectKind,
    project: Option<ObjectId>,
    user: Option<ObjectId>,
    network: Option<ObjectId>,
    port: Option<ObjectId>,
    external_network: Option<ObjectId>,
    segment: Option<Segment>,
    cidr: Option<Ipv4Net>,
    gateway: Option<Ipv4Addr>,
    pool: Option<AddressRange>,
    dns_nameservers: Option<Vec<Ipv4Addr>>,
    routes: Option<Vec<SubnetRoute>>,
    interfaces: Option<BTreeSet<ObjectId>>,
    public_key: Option<String>,
    #[serde(default)]
    rules: BTreeSet<EffectiveRule>,
    security_groups: Option<BTreeSet<ObjectId>>,
    allowed_addresses: Option<BTreeSet<AllowedAddress>>,
    address: Option<Address>,
    flavor: Option<FlavorId>,
    image: Option<ImageId>,
    key_name: Option<String>,
    user_data: Option<UserDataDigest>,
    host: Option<String>,
    #[serde(default)]
    life: ServerLife,
    class: Option<VolumeClassId>,
    size_gib: Option<u32>,
    attachment: Option<VolumeAttachment>,
    task: Option<VolumeTask>,
    listeners: Option<BTreeMap<ListenerName, CloudListener>>,
    pools: Option<BTreeMap<ListenerName, CloudPool>>,
    owner: Option<OrganizationId>,
    source: Option<ObjectId>,
    share: Option<Box<ShareBody>>,
    export: Option<ShareAttachmentBody>,
}

/// A port has an address in two parts, a floating one is an address.
#[derive(Deserialize)]
#[serde(untagged)]
enum Address {
    Port(PortAddress),
    Floating(Ipv4Addr),
}

impl Address {
    fn of_port(self) -> Option<PortAddress> {
        match self {
            Self::Port(address) => Some(address),
            Self::Floating(_) => None,
        }
    }

    fn floating(self) -> Option<Ipv4Addr> {
        match self {
            Self::Floating(address) => Some(address),
            Self::Port(_) => None,
        }
    }
}

fn given<T>(field: Option<T>, name: &'static str) -> Result<T, Lacking> {
    field.ok_or(Lacking(name))
}

impl TryFrom<FlatObject> for CloudObject {
    type Error = Lacking;

    fn try_from(flat: FlatObject) -> Result<Self, Lacking> {
        let (project, user) = (|| given(flat.project.clone(), "project"), || given(flat.user.clone(), "user"));
        let size_gib = || given(flat.size_gib, "size");
        let body = match flat.kind {
            ObjectKind::Project => Body::Project,
            ObjectKind::User => Body::User,
            ObjectKind::Credential => Body::Credential { user: user()? },
            ObjectKind::Network => Body::Network { project: project()?, segment: flat.segment },
            ObjectKind::Subnet => Body::Subnet {
                network: given(flat.network, "network")?,
                cidr: given(flat.cidr, "prefix")?,
                options: SubnetOptions {
                    gateway: given(flat.gateway, "gateway")?,
                    pool: flat.pool,
                    dns_nameservers: given(flat.dns_nameservers, "nameservers")?,
                    routes: given(flat.routes, "routes")?,
                },
            },
            ObjectKind::Router => Body::Router {
                project: project()?,
                external_network: flat.external_network,
                interfaces: given(flat.interfaces, "interfaces")?,
            },
            ObjectKind::KeyPair => Body::KeyPair { user: user()?, public_key: given(flat.public_key, "public key")? },
            ObjectKind::SecurityGroup => Body::SecurityGroup { project: project()?, rules: flat.rules },
            ObjectKind::Port => Body::Port {
                network: given(flat.network, "network")?,
                options: PortOptions {
                    security_groups: given(flat.security_groups, "security groups")?,
                    allowed_addresses: given(flat.allowed_addresses, "allowed addresses")?,
                },
                address: flat.address.and_then(Address::of_port),
            },
            ObjectKind::FloatingIp => Body::FloatingIp {
                port: given(flat.port, "port")?,
                external_network: given(flat.external_network, "external network")?,
                address: flat.address.and_then(Address::floating),
            },
            ObjectKind::Server => Body::Server(Box::new(ServerBody {
                project: project()?,
                flavor: given(flat.flavor, "flavor")?,
                image: given(flat.image, "image")?,
                port: given(flat.port, "port")?,
                key_name: flat.key_name,
                user_data: flat.user_data,
                host: flat.host,
                life: flat.life,
            })),
            ObjectKind::Volume => Body::Volume(Box::new(VolumeBody {
                project: project()?,
                class: given(flat.class, "class")?,
                size_gib: size_gib()?,
                attachment: flat.attachment,
                task: flat.task,
            })),
            ObjectKind::LoadBalancer => Body::LoadBalancer {
                port: given(flat.port, "port")?,
                topology: Topology {
                    listeners: given(flat.listeners, "listeners")?,
                    pools: given(flat.pools, "pools")?,
                },
            },
            ObjectKind::Image => {
                Body::Image(ImageBody { owner: flat.owner, source: flat.source, size_gib: size_gib()? })
            }
            ObjectKind::Share => Body::Share { share: given(flat.share, "share")? },
            ObjectKind::ShareAttachment => Body::ShareAttachment { export: given(flat.export, "export")? },
        };
        let (id, name, marks) = (flat.id, flat.name, flat.marks);
        Ok(Self { id, name, marks, state: flat.state, pending: flat.pending, tags: flat.tags, body })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::super::catalogue::{FLAVOR_STANDARD, IMAGE_UBUNTU, VOLUME_CLASS_FAST};
    use super::super::objects::Becomes;
    use super::*;
    use crate::model::ids::Incarnation;
    use crate::model::load_balancer::{BalancedProtocol, HealthCheck, Listener, LoadBalancerSpec, Member, Pool};
    use crate::model::network::{Prefix, VlanId};
    use crate::model::security_group::implicit_rules;
    use crate::model::server::{PowerState, ServerTask};

    fn id(text: &str) -> ObjectId {
        ObjectId(text.to_owned())
    }

    fn topology() -> Topology {
        let address = Ipv4Addr::new(10, 0, 0, 9);
        let spec = LoadBalancerSpec {
            vip_address: None,
            public_ip: None,
            listeners: vec![Listener {
                name: "web".to_owned().try_into().expect("a name"),
                protocol: BalancedProtocol::Tcp,
                port: 80,
                allowed_cidrs: Some(vec![Prefix::parse("10.0.0.0/24").expect("a prefix")]),
                idle_timeout_seconds: None,
                pool: Pool {
                    proxy_protocol_v2: Some(true),
                    members: vec![Member { address, port: 80 }],
                    health_check: Some(HealthCheck::default()),
                },
            }],
        };
        spec.topology()
    }

    /// One of each kind, with everything that it can have.
    fn full() -> Vec<Body> {
        let (network, project, user, port) = (id("network"), id("project"), id("user"), id("port"));
        let address = Ipv4Addr::new(10, 0, 0, 9);
        let net = "10.0.0.0/24".parse::<Ipv4Net>().expect("a prefix");
        let segment = Segment { physical_network: "physical".to_owned(), vlan: VlanId(7) };
        let life = ServerLife {
            created: Timestamp::UNIX_EPOCH,
            launched: Some(Timestamp::UNIX_EPOCH),
            power: PowerState::Running,
            task: Some(ServerTask::Rebooting),
            queued: true,
            awaits_confirmation: true,
        };
        vec![
            Body::Project,
            Body::User,
            Body::Credential { user: user.clone() },
            Body::Network { project: project.clone(), segment: Some(segment) },
            Body::Subnet {
                network: network.clone(),
                cidr: net,
                options: SubnetOptions {
                    gateway: address,
                    pool: Some(AddressRange { start: address, end: address }),
                    dns_nameservers: vec![address],
                    routes: vec![SubnetRoute { destination: net, next_hop: address }],
                },
            },
            Body::Router {
                project: project.clone(),
                external_network: Some(id("outside")),
                interfaces: BTreeSet::from([id("subnet")]),
            },
            Body::KeyPair { user, public_key: "ssh-ed25519 x".to_owned() },
            Body::SecurityGroup { project: project.clone(), rules: implicit_rules().into() },
            Body::Port {
                network,
                options: PortOptions {
                    security_groups: BTreeSet::from([id("group")]),
                    allowed_addresses: BTreeSet::from([net.into()]),
                },
                address: Some(PortAddress { ip: address, mac: "fa:16:3e:00:00:01".to_owned() }),
            },
            Body::FloatingIp { port: port.clone(), external_network: id("outside"), address: Some(address) },
            Body::Server(Box::new(ServerBody {
                project: project.clone(),
                flavor: FLAVOR_STANDARD,
                image: IMAGE_UBUNTU,
                port: port.clone(),
                key_name: Some("key".to_owned()),
                user_data: Some(UserDataDigest { length: 1, sha256: "00".to_owned() }),
                host: Some("sim-host-1".to_owned()),
                life,
            })),
            Body::Volume(Box::new(VolumeBody {
                project,
                class: VOLUME_CLASS_FAST,
                size_gib: 7,
                attachment: Some(VolumeAttachment { server: id("server"), device: "/dev/vdb".to_owned() }),
                task: Some(VolumeTask::Resizing { size_gib: 9 }),
            })),
            Body::LoadBalancer { port, topology: topology() },
            Body::Image(ImageBody {
                owner: Some(OrganizationId(uuid::Uuid::from_u128(3))),
                source: Some(id("server")),
                size_gib: 9,
            }),
            Body::Share { share: Box::new(super::super::shares::full_share()) },
            Body::ShareAttachment { export: super::super::shares::full_attachment() },
        ]
    }

    fn object(body: Body) -> CloudObject {
        CloudObject {
            id: id("own"),
            name: "name".to_owned(),
            marks: Some(Marks { id: uuid::Uuid::from_u128(1), incarnation: Incarnation(uuid::Uuid::from_u128(2)) }),
            state: ObjectState::Building,
            pending: Some(Pending { becomes: Becomes::Error, until: Some(Timestamp::UNIX_EPOCH) }),
            tags: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            body,
        }
    }

    #[test]
    fn an_object_of_every_kind_is_read_back_as_it_was_written() {
        let kinds = full().iter().map(Body::kind).collect::<Vec<_>>();
        assert_eq!(kinds, ObjectKind::ALL);
        for written in full().into_iter().map(object) {
            let text = serde_json::to_string(&written).expect("json");
            let read = serde_json::from_str::<CloudObject>(&text).expect("read back");
            assert_eq!(read, written, "{text}");
        }
    }

    #[test]
    fn an_object_that_lacks_what_its_kind_cannot_be_without_is_refused() {
        for written in full().into_iter().map(object) {
            let whole = serde_json::to_value(&written).expect("json");
            for field in whole.as_object().expect("an object").keys() {
                let mut cut = whole.clone();
                cut.as_object_mut().expect("an object").remove(field);
                // Either it may be left out, and then everything else is as it was, or nothing is read at all.
                if let Ok(read) = serde_json::from_value::<CloudObject>(cut.clone()) {
                    let mut again = serde_json::to_value(&read).expect("json");
                    let empty = [json!({}), json!([]), serde_json::to_value(ServerLife::default()).expect("json")];
                    if again.get(field).is_some_and(|value| empty.contains(value)) {
                        again.as_object_mut().expect("an object").remove(field);
                    }
                    assert_eq!(again, cut);
                }
            }
            let bare: Value = json!({"id": "x", "name": "x", "state": "active", "kind": whole["kind"]});
            let alone = [ObjectKind::Project, ObjectKind::User].contains(&written.kind());
            assert_eq!(serde_json::from_value::<CloudObject>(bare).is_ok(), alone, "{}", whole["kind"]);
        }
    }
}
