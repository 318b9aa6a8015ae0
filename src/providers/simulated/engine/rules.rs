//! What the cloud allows and refuses: its behaviour when nothing is wrong.
//!
//! Decided after what real clouds do:
//! - Names are not unique: two creates make two objects.
//! - A project is refused deletion while it has networks or routers. Users belong to the domain, so neither blocks
//!   the other.
//! - Deleting a user revokes its credentials; deleting a network takes its subnets along, unless a router has an
//!   interface to one, which refuses.
//! - A router is refused deletion while it has interfaces.
//! - What is being deleted takes no new parts, and asking again is fine until it is gone; then it is not found.

use std::collections::BTreeSet;

use jiff::Timestamp;
use uuid::Uuid;

use super::super::call::{Answer, Call, Change, CloudError, Criteria, PAGE_MAX, Row, Secret};
use super::super::objects::{Body, CloudObject, ExternalNetworkEntry, NewObject, ObjectId, ObjectKind, ObjectState};
use super::table::Table;

type Outcome<T = Answer> = Result<T, CloudError>;

/// The objects, the catalogue, and the chance that ids are drawn from.
pub struct World {
    pub table: Table,
    pub external_networks: Vec<ExternalNetworkEntry>,
    pub random: fastrand::Rng,
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
                let all = self.table.after(*kind, after.as_ref()).filter(|object| is_wanted(object, only.as_ref()));
                let objects: Vec<CloudObject> = all.take(PAGE_MAX + 1).cloned().collect();
                Ok(self.page(objects, None))
            }
            Call::ListExternalNetworks => Ok(Answer::ExternalNetworks { networks: self.external_networks.clone() }),
            Call::Create { object } => self.create(now, object),
            Call::Update { kind, id, change } => self.update(now, *kind, id, change),
            Call::Delete { kind, id } => self.delete(now, *kind, id),
            Call::AttachInterface { router, subnet } => self.attach(now, router, subnet),
            Call::DetachInterface { router, subnet } => self.detach(now, router, subnet),
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
                let objects = objects.take(PAGE_MAX + 1).collect();
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
        if object.kind() != ObjectKind::Network {
            return Vec::new();
        }
        let find = |kind, criteria: Criteria| match at {
            None => self.table.find(kind, &criteria),
            Some(at) => self.table.find_at(kind, &criteria, at),
        };
        let mut related = find(ObjectKind::Subnet, Criteria::inside(object.id.clone()));
        if let Some(marks) = object.marks {
            let routers = find(ObjectKind::Router, Criteria::marked(marks.id));
            related.extend(routers.into_iter().filter(|router| router.marks == Some(marks)));
        }
        related
    }

    pub fn existing(&self, kind: ObjectKind, id: &ObjectId) -> Outcome<&CloudObject> {
        self.table.get(kind, id).ok_or(CloudError::NotFound)
    }

    /// Existing, and not on its way out.
    fn usable(&self, kind: ObjectKind, id: &ObjectId) -> Outcome<&CloudObject> {
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
        match &new.body {
            Body::Network { segment: Some(segment), .. } if self.table.holder_of(segment).is_some() => {
                let vlan = segment.vlan.0;
                let reason = format!("VLAN {vlan} is in use on physical network {}", segment.physical_network);
                return Err(CloudError::conflict(reason));
            }
            Body::Router { external_network: Some(external), .. } => self.known_external(external)?,
            Body::Router { interfaces, .. } if !interfaces.is_empty() => {
                return Err(CloudError::rejected("interfaces are attached one by one"));
            }
            _ => {}
        }
        let object = CloudObject {
            id: self.draw_id(),
            name: new.name.clone(),
            marks: new.marks,
            state,
            tags: new.tags.clone(),
            body: new.body.clone(),
        };
        self.table.put(now, object.clone());
        Ok(object)
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
        match (change, &mut object.body) {
            (Change::Tags { tags }, _) => object.tags.clone_from(tags),
            (Change::Subnet { options: wanted }, Body::Subnet { options, .. }) => options.clone_from(wanted),
            (Change::Gateway { external_network: wanted }, Body::Router { external_network, .. }) => {
                self.known_external(wanted)?;
                *external_network = Some(wanted.clone());
            }
            (Change::Subnet { .. } | Change::Gateway { .. }, _) => {
                return Err(CloudError::rejected("this kind of object has no such part"));
            }
        }
        self.table.put(now, object.clone());
        Ok(Answer::Object { object: Box::new(object) })
    }

    fn delete(&mut self, now: Timestamp, kind: ObjectKind, id: &ObjectId) -> Outcome {
        let object = self.deletable(kind, id)?;
        if object.state != ObjectState::Deleting {
            self.remove_with_parts(now, kind, id);
        }
        Ok(Answer::Done)
    }

    /// The object, if nothing forbids its deletion now.
    pub fn deletable(&self, kind: ObjectKind, id: &ObjectId) -> Outcome<&CloudObject> {
        let object = self.existing(kind, id)?;
        let refused = match kind {
            ObjectKind::Project => {
                let inside = |kind| !self.table.find(kind, &Criteria::inside(id.clone())).is_empty();
                inside(ObjectKind::Network) || inside(ObjectKind::Router)
            }
            ObjectKind::Network => {
                let subnets = self.table.find(ObjectKind::Subnet, &Criteria::inside(id.clone()));
                subnets.iter().any(|subnet| !self.table.attached_to(&subnet.id).is_empty())
            }
            ObjectKind::Subnet => !self.table.attached_to(id).is_empty(),
            ObjectKind::Router => object.interfaces().next().is_some(),
            ObjectKind::User | ObjectKind::Credential => false,
        };
        if refused { Err(CloudError::conflict("it is in use")) } else { Ok(object) }
    }

    /// Removes an object and what cannot be without it.
    pub fn remove_with_parts(&mut self, now: Timestamp, kind: ObjectKind, id: &ObjectId) {
        let parts: &[ObjectKind] = match kind {
            ObjectKind::Project => &[ObjectKind::Router, ObjectKind::Network],
            ObjectKind::User => &[ObjectKind::Credential],
            ObjectKind::Network => &[ObjectKind::Subnet],
            ObjectKind::Subnet => {
                for router in self.table.attached_to(id) {
                    self.drop_interface(now, &router, id);
                }
                &[]
            }
            ObjectKind::Credential | ObjectKind::Router => &[],
        };
        for part in parts {
            for object in self.table.find(*part, &Criteria::inside(id.clone())) {
                self.remove_with_parts(now, *part, &object.id);
            }
        }
        self.table.remove(now, kind, id);
    }

    fn attach(&mut self, now: Timestamp, router: &ObjectId, subnet: &ObjectId) -> Outcome {
        self.existing(ObjectKind::Subnet, subnet)?;
        self.usable(ObjectKind::Subnet, subnet)?;
        let mut object = self.existing(ObjectKind::Router, router)?.clone();
        self.usable(ObjectKind::Router, router)?;
        if !self.table.attached_to(subnet).is_empty() {
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
        self.drop_interface(now, router, subnet);
        Ok(Answer::Done)
    }

    pub fn drop_interface(&mut self, now: Timestamp, router: &ObjectId, subnet: &ObjectId) {
        let Some(object) = self.table.get(ObjectKind::Router, router) else { return };
        let mut object = object.clone();
        if let Body::Router { interfaces, .. } = &mut object.body {
            interfaces.remove(subnet);
        }
        self.table.put(now, object);
    }
}

fn checked(criteria: &Criteria) -> Outcome<()> {
    if *criteria == Criteria::default() { Err(CloudError::rejected("nothing to search for was given")) } else { Ok(()) }
}
