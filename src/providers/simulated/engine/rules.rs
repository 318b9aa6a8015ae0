//! What the cloud allows and refuses: its behaviour when nothing is wrong.
//!
//! Decided after what real clouds do:
//! - Names are not unique: two creates make two objects. Only a user's key pairs are told apart by them.
//! - A project is refused deletion while there is anything in it. Users belong to the domain, so neither blocks
//!   the other.
//! - Deleting a user revokes its credentials; deleting a network takes its subnets along, unless a router has an
//!   interface to one, which refuses.
//! - A router is refused deletion while it has interfaces, a network while it has ports, a security group while a port
//!   uses it, a port while it has a server or a load balancer. A port has one of these and one floating address at most.
//! - Deleting a server or a load balancer takes a while and leaves its port; a floating address goes with its port.
//! - A load balancer that is busy with a change takes no other and is not deleted.
//! - A volume is refused deletion while a server has it; a server that goes leaves its volumes, which nobody has then.
//! - An image has the id that its maker gives it, so that making it twice is refused; one that a server was made from is
//!   refused deletion, and what is one tenant's is to every other as if it were not there.
//! - A share's path is its name's, so names of shares are unique; one with attachments is refused deletion, and so is a
//!   network that a share is attached to. A share is attached to a network once.
//! - What is being deleted takes no new parts, and asking again is fine until it is gone; then it is not found.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use jiff::Timestamp;
use uuid::Uuid;

use super::super::call::{Answer, Call, Change, CloudError, Criteria, PAGE_MAX, Row, Secret};
use super::super::catalogue;
use super::super::objects::{
    Becomes, Body, CloudObject, ExternalNetworkEntry, NewObject, ObjectId, ObjectKind, ObjectState, PortAddress,
    PortOptions, SubnetOptions,
};
use super::balancers::changeable;
use super::servers::until;
use super::settings::EngineSettings;
use super::table::Table;
use super::volumes::bereave;
use crate::model::security_group::{EffectiveRule, implicit_rules};
use crate::providers::image_schema::ImageEntry;

pub type Outcome<T = Answer> = Result<T, CloudError>;

/// Rules of one group, and groups or allowed addresses of one port, at most: more than any client may ask for.
const PARTS_MAX: usize = 1000;

/// Where floating addresses come from: a range that nobody routes, and large enough for any region we measure.
const FLOATING: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 19, 255, 254));

/// The objects, the catalogue, and the chance that ids are drawn from.
pub struct World {
    pub table: Table,
    pub external_networks: Vec<ExternalNetworkEntry>,
    /// Offered beside the catalogue that every cloud comes with.
    pub offered_images: Vec<ImageEntry>,
    pub random: fastrand::Rng,
    pub settings: EngineSettings,
}

fn is_wanted(object: &CloudObject, only: Option<&BTreeSet<Uuid>>) -> bool {
    only.is_none_or(|only| object.marks.as_ref().is_some_and(|marks| only.contains(&marks.id)))
}

impl World {
    /// Does what a call asks, at once and completely, or not at all.
    pub fn apply(&mut self, now: Timestamp, call: &Call) -> Outcome {
        match call {
            Call::Find { kind, criteria } => {
                checked(criteria)?;
                Ok(Answer::Objects { objects: self.table.find(*kind, criteria) })
            }
            Call::Get { kind, id } => Ok(Answer::Object { object: Box::new(self.existing(*kind, id)?.clone()) }),
            Call::List { kind, only, after } => {
                let mut objects: Vec<CloudObject> = match only {
                    None => self.table.after(*kind, after.as_ref()).take(PAGE_MAX + 1).cloned().collect(),
                    Some(only) => {
                        let marked = self.table.marked(*kind, only).into_iter();
                        let later = marked.filter(|object| after.as_ref().is_none_or(|after| object.id > *after));
                        later.take(PAGE_MAX + 1).cloned().collect()
                    }
                };
                super::shares::measure(now, &mut objects);
                Ok(self.page(objects, None))
            }
            Call::ListFlavors => Ok(Answer::Flavors { flavors: catalogue::flavors().to_vec() }),
            Call::ListImages => Ok(Answer::Images { images: self.public_images() }),
            Call::ListVolumeClasses => Ok(Answer::VolumeClasses { classes: catalogue::volume_classes().to_vec() }),
            Call::ListShareClasses => Ok(Answer::ShareClasses { classes: catalogue::file_storage_classes().to_vec() }),
            Call::ListExternalNetworks => Ok(Answer::ExternalNetworks { networks: self.external_networks.clone() }),
            Call::Create { object } => self.create(now, object),
            Call::Update { kind, id, change } => self.update(now, *kind, id, change),
            Call::Delete { kind, id } => self.delete(now, *kind, id),
            Call::AttachInterface { router, subnet } => self.attach(now, router, subnet),
            Call::DetachInterface { router, subnet } => self.detach(now, router, subnet),
            Call::AddRule { group, rule } => self.add_rule(now, group, rule),
            Call::RemoveRule { group, rule } => self.remove_rule(now, group, rule),
            Call::AttachVolume { volume, server } => self.attach_volume(now, volume, server),
            Call::DetachVolume { volume } => self.detach_volume(now, volume),
            Call::Configure { balancer, change } => self.configure(now, balancer, change),
            Call::Act { server, action } => self.act(now, server, *action, false),
            Call::OpenConsole { server } => self.open_console(server),
            Call::ReadConsole { server, lines } => self.read_console(server, *lines),
        }
    }

    /// Answers a find or a list as of an earlier moment; anything else as of now.
    pub fn apply_stale(&mut self, now: Timestamp, at: Timestamp, call: &Call) -> Outcome {
        match call {
            Call::Find { kind, criteria } => {
                checked(criteria)?;
                Ok(Answer::Objects { objects: self.table.find_at(*kind, criteria, at) })
            }
            Call::List { kind, only, after } => {
                let all = self.table.of_kind_at(*kind, at).into_iter();
                let later = all.filter(|object| after.as_ref().is_none_or(|after| object.id > *after));
                let objects = later.filter(|object| is_wanted(object, only.as_ref()));
                let mut objects = objects.take(PAGE_MAX + 1).collect::<Vec<_>>();
                super::shares::measure(at, &mut objects);
                Ok(self.page(objects, Some(at)))
            }
            other => self.apply(now, other),
        }
    }

    /// Up to one object more than a page holds is handed in, to know whether another page follows.
    fn page(&self, mut objects: Vec<CloudObject>, at: Option<Timestamp>) -> Answer {
        let more = objects.len() > PAGE_MAX;
        objects.truncate(PAGE_MAX);
        let next = if more { objects.last().map(|object| object.id.clone()) } else { None };
        let rows = objects.into_iter().map(|object| Row { related: self.related(&object, at), object }).collect();
        Answer::Page { rows, next }
    }

    fn related(&self, object: &CloudObject, at: Option<Timestamp>) -> Vec<CloudObject> {
        let find = |kind, criteria: Criteria| match at {
            None => self.table.find(kind, &criteria),
            Some(at) => self.table.find_at(kind, &criteria, at),
        };
        let of_same_marks = |kind| {
            let marked = object.marks.map(|marks| find(kind, Criteria::marked(marks.id)));
            marked.into_iter().flatten().filter(|other: &CloudObject| other.marks == object.marks)
        };
        match object.kind() {
            ObjectKind::Network => {
                let mut related = find(ObjectKind::Subnet, Criteria::inside(object.id.clone()));
                related.extend(of_same_marks(ObjectKind::Router));
                related
            }
            ObjectKind::Server | ObjectKind::LoadBalancer => {
                of_same_marks(ObjectKind::Port).chain(of_same_marks(ObjectKind::FloatingIp)).collect()
            }
            ObjectKind::Share => find(ObjectKind::ShareAttachment, Criteria::inside(object.id.clone())),
            _ => Vec::new(),
        }
    }

    pub fn existing(&self, kind: ObjectKind, id: &ObjectId) -> Outcome<&CloudObject> {
        self.table.get(kind, id).ok_or(CloudError::NotFound)
    }

    /// Existing, and not on its way out.
    pub fn usable(&self, kind: ObjectKind, id: &ObjectId) -> Outcome<&CloudObject> {
        let object =
            self.table.get(kind, id).ok_or_else(|| CloudError::conflict("what it belongs to does not exist"))?;
        match object.state {
            ObjectState::Deleting => Err(CloudError::conflict("what it belongs to is being deleted")),
            ObjectState::Building | ObjectState::Active | ObjectState::Error => Ok(object),
        }
    }

    fn create(&mut self, now: Timestamp, new: &NewObject) -> Outcome {
        let object = self.insert(now, new, ObjectState::Active)?;
        Ok(self.created(object))
    }

    /// What the creator of an object is told.
    pub fn created(&mut self, object: CloudObject) -> Answer {
        let object = Box::new(object);
        match object.kind() {
            ObjectKind::Credential => {
                let secret = Secret(format!("{:032x}", self.random.u128(..)));
                Answer::Issued { credential: object, secret }
            }
            _ => Answer::Object { object },
        }
    }

    pub fn insert(&mut self, now: Timestamp, new: &NewObject, state: ObjectState) -> Outcome<CloudObject> {
        if let Some((kind, parent)) = new.body.parent() {
            self.usable(kind, parent)?;
        }
        let mut body = new.body.clone();
        let id = match &body {
            Body::KeyPair { user, .. } => ObjectId::of_key_pair(user, &new.name),
            Body::Image(_) if new.marks.is_some() => {
                ObjectId(new.marks.map(|marks| marks.id.to_string()).unwrap_or_default())
            }
            _ => self.draw_id(),
        };
        self.admit_storage(now, &new.name, &mut body)?;
        self.admit_body(now, &id, &mut body)?;
        let mut object = CloudObject {
            id,
            name: new.name.clone(),
            marks: new.marks,
            state,
            pending: None,
            tags: new.tags.clone(),
            body,
        };
        if state == ObjectState::Active {
            self.begin_life(now, &mut object);
        }
        if (object.kind(), state) == (ObjectKind::LoadBalancer, ObjectState::Active) {
            object.pending = Some(self.busy(now));
            object.state = ObjectState::Building;
        }
        if let (Some(_), ObjectState::Active) = (object.image(), state) {
            object.pending = Some(self.import(now));
            object.state = ObjectState::Building;
        }
        self.table.put(now, object.clone());
        Ok(object)
    }

    /// Some things take a while to become what they are.
    fn begin_life(&self, now: Timestamp, object: &mut CloudObject) {
        let pending = match &object.body {
            Body::Server(server) => (!server.life.queued).then(|| self.boot(now)),
            Body::Volume(_) => Some(until(now, self.settings.volume_delay, Becomes::Active)),
            Body::Share { .. } | Body::ShareAttachment { .. } => {
                Some(until(now, self.settings.storage_delay, Becomes::Active))
            }
            _ => return,
        };
        object.pending = pending;
        object.state = ObjectState::Building;
    }

    /// Refuses what cannot be, and fills in what the cloud decides.
    fn admit_body(&self, now: Timestamp, id: &ObjectId, body: &mut Body) -> Outcome<()> {
        match body {
            Body::KeyPair { .. } if self.table.get(ObjectKind::KeyPair, id).is_some() => {
                Err(CloudError::conflict("the user has a key pair of this name"))
            }
            Body::Network { segment: Some(segment), .. } if self.table.holder_of(segment).is_some() => {
                let vlan = segment.vlan.0;
                let reason = format!("VLAN {vlan} is in use on physical network {}", segment.physical_network);
                Err(CloudError::conflict(reason))
            }
            Body::Router { external_network: Some(external), .. } => self.known_external(external),
            Body::Router { interfaces, .. } if !interfaces.is_empty() => {
                Err(CloudError::rejected("interfaces are attached one by one"))
            }
            Body::SecurityGroup { rules, .. } => {
                *rules = BTreeSet::from(implicit_rules());
                Ok(())
            }
            Body::Port { network, options, address } => {
                self.within_quota(ObjectKind::Port, self.settings.ports_max)?;
                self.known_groups(options)?;
                let ip = match address {
                    Some(asked) => self.free_at(network, asked.ip)?,
                    None => self.free_in(network)?,
                };
                *address = Some(PortAddress { ip, mac: mac_of(id) });
                Ok(())
            }
            Body::FloatingIp { port, external_network, address } => {
                self.known_external(external_network)?;
                if self.table.has_inside(ObjectKind::FloatingIp, port) {
                    return Err(CloudError::conflict("the port has a floating address already"));
                }
                *address = self.table.free_address(&None, FLOATING.0, FLOATING.1);
                address.map(|_| ()).ok_or_else(|| CloudError::conflict("no address is left"))
            }
            Body::Server(server) => {
                self.within_quota(ObjectKind::Server, self.settings.servers_max)?;
                self.admit_server(now, server)
            }
            Body::Volume(volume) => {
                self.within_quota(ObjectKind::Volume, self.settings.volumes_max)?;
                Self::admit_volume(volume)
            }
            Body::LoadBalancer { port, topology } => self.admit_balancer(port, topology),
            Body::Image(image) => {
                self.within_quota(ObjectKind::Image, self.settings.images_max)?;
                self.admit_image(id, image)
            }
            _ => Ok(()),
        }
    }

    fn within_quota(&self, kind: ObjectKind, max: Option<u32>) -> Outcome<()> {
        let full = max.is_some_and(|max| self.table.count(kind) >= usize::try_from(max).unwrap_or(usize::MAX));
        if full { Err(CloudError::Quota) } else { Ok(()) }
    }

    fn known_groups(&self, options: &PortOptions) -> Outcome<()> {
        if options.security_groups.len().max(options.allowed_addresses.len()) > PARTS_MAX {
            return Err(CloudError::rejected("too many parts"));
        }
        options.security_groups.iter().try_for_each(|id| self.usable(ObjectKind::SecurityGroup, id).map(|_| ()))
    }

    fn subnet_of(&self, network: &ObjectId) -> Outcome<(Ipv4Net, SubnetOptions)> {
        let subnets = self.table.find(ObjectKind::Subnet, &Criteria::inside(network.clone()));
        match subnets.into_iter().next().map(|subnet| subnet.body) {
            Some(Body::Subnet { cidr, options, .. }) => Ok((cidr, options)),
            _ => Err(CloudError::conflict("the network has no subnet")),
        }
    }

    /// The address that was asked for: anywhere in the subnet, whatever its pool is.
    fn free_at(&self, network: &ObjectId, asked: Ipv4Addr) -> Outcome<Ipv4Addr> {
        let (cidr, options) = self.subnet_of(network)?;
        let reserved = [cidr.network(), cidr.broadcast(), options.gateway];
        if !cidr.contains(&asked) || reserved.contains(&asked) {
            return Err(CloudError::rejected("the subnet has no such address for a port"));
        }
        let free = self.table.free_address(&Some(network.clone()), asked, asked);
        free.ok_or_else(|| CloudError::conflict("the address is taken"))
    }

    /// An address of the network's subnet: from its pool or, without one, from what lies behind its gateway.
    fn free_in(&self, network: &ObjectId) -> Outcome<Ipv4Addr> {
        let (cidr, options) = self.subnet_of(network)?;
        let (first, last) = match options.pool {
            Some(pool) => (pool.start, pool.end),
            None => (
                Ipv4Addr::from(u32::from(options.gateway).saturating_add(1)),
                Ipv4Addr::from(u32::from(cidr.broadcast()).saturating_sub(1)),
            ),
        };
        let free = self.table.free_address(&Some(network.clone()), first, last);
        free.ok_or_else(|| CloudError::conflict("no address is left"))
    }

    fn draw_id(&mut self) -> ObjectId {
        let bits = self.random.u128(..);
        ObjectId(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string())
    }

    fn known_external(&self, id: &ObjectId) -> Outcome<()> {
        if self.external_networks.iter().any(|network| network.id == *id) {
            Ok(())
        } else {
            Err(CloudError::rejected("no such external network"))
        }
    }

    fn update(&mut self, now: Timestamp, kind: ObjectKind, id: &ObjectId, change: &Change) -> Outcome {
        let mut object = self.existing(kind, id)?.clone();
        if object.state == ObjectState::Deleting {
            return Err(CloudError::conflict("it is being deleted"));
        }
        if kind == ObjectKind::LoadBalancer {
            changeable(&object)?;
        }
        match (change, &mut object.body) {
            (Change::Tags { tags }, _) => object.tags.clone_from(tags),
            (Change::Subnet { options: wanted }, Body::Subnet { options, .. }) => options.clone_from(wanted),
            (Change::Gateway { external_network: wanted }, Body::Router { external_network, .. }) => {
                self.known_external(wanted)?;
                *external_network = Some(wanted.clone());
            }
            (Change::Port { options: wanted }, Body::Port { options, .. }) => {
                self.known_groups(wanted)?;
                options.clone_from(wanted);
            }
            (Change::Connection { port }, Body::Server(server)) => {
                self.free_port(port)?;
                server.port.clone_from(port);
            }
            (Change::Share { options }, Body::Share { share }) => super::shares::change(share, options)?,
            (Change::Size { size_gib }, Body::Volume(_)) => return self.resize_volume(now, id, *size_gib),
            _ => return Err(CloudError::rejected("this kind of object has no such part")),
        }
        self.table.put(now, object.clone());
        Ok(Answer::Object { object: Box::new(object) })
    }

    fn delete(&mut self, now: Timestamp, kind: ObjectKind, id: &ObjectId) -> Outcome {
        let object = self.deletable(kind, id)?;
        match (object.state, kind) {
            (ObjectState::Deleting, _) => {}
            (
                _,
                ObjectKind::Server
                | ObjectKind::LoadBalancer
                | ObjectKind::Volume
                | ObjectKind::Share
                | ObjectKind::ShareAttachment,
            ) => self.begin_deletion(now, id)?,
            _ => self.remove_with_parts(now, kind, id),
        }
        Ok(Answer::Done)
    }

    /// The object, if nothing forbids its deletion now.
    pub fn deletable(&self, kind: ObjectKind, id: &ObjectId) -> Outcome<&CloudObject> {
        let object = self.existing(kind, id)?;
        let has_inside = |kind| self.table.has_inside(kind, id);
        let is_used = |id| !self.table.users_of(id).is_empty();
        let refused = match kind {
            ObjectKind::Project => PARTS_OF_PROJECT.into_iter().any(has_inside),
            ObjectKind::Network => {
                let subnets = self.table.find(ObjectKind::Subnet, &Criteria::inside(id.clone()));
                has_inside(ObjectKind::Port) || is_used(id) || subnets.iter().any(|subnet| is_used(&subnet.id))
            }
            ObjectKind::Subnet => {
                let has_ports = |(_, network): (_, &ObjectId)| self.table.has_inside(ObjectKind::Port, network);
                is_used(id) || object.body.parent().is_some_and(has_ports)
            }
            ObjectKind::SecurityGroup => is_used(id),
            ObjectKind::Port => is_used(id) || has_inside(ObjectKind::LoadBalancer),
            ObjectKind::LoadBalancer => object.state != ObjectState::Deleting && object.pending.is_some(),
            ObjectKind::Router => object.interfaces().next().is_some(),
            ObjectKind::Volume => object.attachment().is_some(),
            ObjectKind::Image => self.is_booted_from(id),
            ObjectKind::Share => has_inside(ObjectKind::ShareAttachment),
            ObjectKind::User
            | ObjectKind::Credential
            | ObjectKind::KeyPair
            | ObjectKind::FloatingIp
            | ObjectKind::Server
            | ObjectKind::ShareAttachment => false,
        };
        if refused { Err(CloudError::conflict("it is in use")) } else { Ok(object) }
    }

    /// Removes an object and what cannot be without it, and takes it from those who use it.
    pub fn remove_with_parts(&mut self, now: Timestamp, kind: ObjectKind, id: &ObjectId) {
        let parts: &[ObjectKind] = match kind {
            ObjectKind::Project => &PARTS_OF_PROJECT,
            ObjectKind::User => &[ObjectKind::Credential, ObjectKind::KeyPair],
            ObjectKind::Network => &[ObjectKind::Port, ObjectKind::Subnet],
            ObjectKind::Port => &[ObjectKind::FloatingIp, ObjectKind::LoadBalancer],
            ObjectKind::Share => &[ObjectKind::ShareAttachment],
            _ => &[],
        };
        for part in parts {
            // A find is bounded; what is inside may be more.
            while self.table.has_inside(*part, id) {
                for object in self.table.find(*part, &Criteria::inside(id.clone())) {
                    self.remove_with_parts(now, *part, &object.id);
                }
            }
        }
        for user in self.table.users_of(id) {
            self.take_from(now, &user, id);
        }
        self.table.remove(now, kind, id);
        if kind == ObjectKind::Server {
            self.serve_queue(now);
        }
    }

    /// A server keeps the id of a port that is gone, as a machine keeps a socket without a cable.
    pub fn take_from(&mut self, now: Timestamp, holder: &ObjectId, part: &ObjectId) {
        let Some(object) = self.table.by_id(holder) else { return };
        let mut object = object.clone();
        match &mut object.body {
            Body::Router { interfaces, .. } => drop(interfaces.remove(part)),
            Body::Port { options, .. } => drop(options.security_groups.remove(part)),
            Body::Volume(_) => bereave(&mut object),
            Body::ShareAttachment { .. } => return self.table.remove(now, ObjectKind::ShareAttachment, holder),
            _ => return,
        }
        self.table.put(now, object);
    }

    fn add_rule(&mut self, now: Timestamp, group: &ObjectId, rule: &EffectiveRule) -> Outcome {
        self.existing(ObjectKind::SecurityGroup, group)?;
        let mut object = self.usable(ObjectKind::SecurityGroup, group)?.clone();
        if let Body::SecurityGroup { rules, .. } = &mut object.body {
            if rules.len() >= PARTS_MAX {
                return Err(CloudError::Quota);
            }
            if !rules.insert(*rule) {
                return Err(CloudError::conflict("the rule is there already"));
            }
        }
        self.table.put(now, object.clone());
        Ok(Answer::Object { object: Box::new(object) })
    }

    pub fn remove_rule(&mut self, now: Timestamp, group: &ObjectId, rule: &EffectiveRule) -> Outcome {
        let mut object = self.existing(ObjectKind::SecurityGroup, group)?.clone();
        let removed = match &mut object.body {
            Body::SecurityGroup { rules, .. } => rules.remove(rule),
            _ => false,
        };
        if !removed {
            return Err(CloudError::NotFound);
        }
        self.table.put(now, object);
        Ok(Answer::Done)
    }

    fn attach(&mut self, now: Timestamp, router: &ObjectId, subnet: &ObjectId) -> Outcome {
        self.existing(ObjectKind::Subnet, subnet)?;
        self.usable(ObjectKind::Subnet, subnet)?;
        let mut object = self.existing(ObjectKind::Router, router)?.clone();
        self.usable(ObjectKind::Router, router)?;
        if !self.table.users_of(subnet).is_empty() {
            return Err(CloudError::conflict("the subnet's gateway address is taken"));
        }
        if let Body::Router { interfaces, .. } = &mut object.body {
            interfaces.insert(subnet.clone());
        }
        self.table.put(now, object);
        Ok(Answer::Done)
    }

    fn detach(&mut self, now: Timestamp, router: &ObjectId, subnet: &ObjectId) -> Outcome {
        let object = self.existing(ObjectKind::Router, router)?;
        if !object.interfaces().any(|attached| attached == subnet) {
            return Err(CloudError::NotFound);
        }
        self.take_from(now, router, subnet);
        Ok(Answer::Done)
    }
}

/// What is inside of a project, users before what they use.
const PARTS_OF_PROJECT: [ObjectKind; 5] =
    [ObjectKind::Volume, ObjectKind::Server, ObjectKind::Router, ObjectKind::Network, ObjectKind::SecurityGroup];

/// From the id, which nobody else has, in the range that is nobody's.
fn mac_of(id: &ObjectId) -> String {
    let digits: Vec<char> = id.0.chars().filter(char::is_ascii_hexdigit).take(10).collect();
    digits.chunks(2).fold("02".to_owned(), |mut mac, pair| {
        mac.push(':');
        mac.extend(pair);
        mac
    })
}

fn checked(criteria: &Criteria) -> Outcome<()> {
    if *criteria == Criteria::default() { Err(CloudError::rejected("nothing to search for was given")) } else { Ok(()) }
}
