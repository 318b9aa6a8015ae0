//! The objects, with indices that keep every look-up short, and a memory of the recent past.
//!
//! `put` and `remove` are the only ways to change anything, so that the indices, the past, the books of what was ever
//! created and the journal cannot be forgotten by a rule. The past is kept as what each change replaced: a stale
//! answer is today's answer with the changes since then undone, and costs nothing while nobody asks for one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::super::call::{Criteria, PAGE_MAX};
use super::super::objects::{Body, CloudObject, Marks, ObjectId, ObjectKind, ObjectState, Segment};

/// How many changes back a stale answer can reach. More than a minute of the busiest simulation; beyond that the
/// oldest known state is shown, which is staleness enough.
const PAST_MAX: usize = 20_000;

/// How many different (kind, marks) the book of creations tells apart: ten times the largest region we measure.
/// When it is full it says so instead of growing.
const CREATIONS_MAX: usize = 1_000_000;

pub type ObjectKey = (ObjectKind, ObjectId);

/// Where an address means something: inside a network or, without one, everywhere.
pub type AddressScope = Option<ObjectId>;

/// One change of the table, in the form that the journal keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableChange {
    Put(Box<CloudObject>),
    Removed(ObjectKind, ObjectId),
}

/// How often something was made for one resource's incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// Ever, deleted ones included.
    pub created: u64,
    /// At the same time. More than one is a double, whatever became of it.
    pub at_once_max: u64,
}

struct Past {
    at: Timestamp,
    key: ObjectKey,
    before: Option<CloudObject>,
}

#[derive(Default)]
pub struct Table {
    objects: BTreeMap<ObjectKey, CloudObject>,
    by_name: BTreeSet<(ObjectKind, String, ObjectId)>,
    by_mark: BTreeSet<(ObjectKind, Uuid, ObjectId)>,
    by_parent: BTreeSet<(ObjectKind, ObjectId, ObjectId)>,
    /// (what is used, who uses it): subnets and routers, security groups and ports, ports and servers, servers and
    /// volumes.
    by_use: BTreeSet<(ObjectId, ObjectId)>,
    segments: BTreeMap<Segment, ObjectId>,
    addresses: BTreeSet<(AddressScope, Ipv4Addr)>,
    /// Physical machines that a server has.
    hosts: BTreeSet<String>,
    /// Servers that wait for a physical machine, by since when.
    queue: BTreeSet<(Timestamp, ObjectId)>,
    /// Objects that wait for something, by when it is due: never, for what has to be released.
    due: BTreeSet<(Timestamp, ObjectId)>,
    counts: BTreeMap<ObjectKind, usize>,
    past: VecDeque<Past>,
    creations: BTreeMap<(ObjectKind, Marks), Count>,
    creations_complete: bool,
    changes: Vec<TableChange>,
}

impl Table {
    pub fn new() -> Self {
        Self { creations_complete: true, ..Self::default() }
    }

    pub fn get(&self, kind: ObjectKind, id: &ObjectId) -> Option<&CloudObject> {
        self.objects.get(&(kind, id.clone()))
    }

    /// The object with this id, whatever its kind: ids are never shared.
    pub fn by_id(&self, id: &ObjectId) -> Option<&CloudObject> {
        ObjectKind::ALL.into_iter().find_map(|kind| self.get(kind, id))
    }

    pub fn of_kind(&self, kind: ObjectKind) -> impl Iterator<Item = &CloudObject> {
        self.objects.range((kind, ObjectId(String::new()))..).take_while(move |(key, _)| key.0 == kind).map(|(_, o)| o)
    }

    /// The objects of a kind after an id, in the order of ids.
    pub fn after<'a>(&'a self, kind: ObjectKind, after: Option<&ObjectId>) -> impl Iterator<Item = &'a CloudObject> {
        let start = after.cloned().unwrap_or_else(|| ObjectId(String::new()));
        self.objects
            .range((std::ops::Bound::Excluded((kind, start)), std::ops::Bound::Unbounded))
            .take_while(move |(key, _)| key.0 == kind)
            .map(|(_, object)| object)
    }

    pub fn find(&self, kind: ObjectKind, criteria: &Criteria) -> Vec<CloudObject> {
        let ids = self.candidates(kind, criteria);
        ids.filter_map(|id| self.objects.get(&(kind, id.clone())))
            .filter(|object| criteria.matches(object))
            .take(PAGE_MAX)
            .cloned()
            .collect()
    }

    fn candidates<'a>(&'a self, kind: ObjectKind, criteria: &Criteria) -> Box<dyn Iterator<Item = &'a ObjectId> + 'a> {
        let lowest = || ObjectId(String::new());
        if let Some(mark) = criteria.marked {
            let range = self.by_mark.range((kind, mark, lowest())..);
            return Box::new(range.take_while(move |entry| entry.0 == kind && entry.1 == mark).map(|entry| &entry.2));
        }
        if let Some(parent) = criteria.parent.clone() {
            let range = self.by_parent.range((kind, parent.clone(), lowest())..);
            return Box::new(range.take_while(move |entry| entry.0 == kind && entry.1 == parent).map(|e| &e.2));
        }
        let name = criteria.name.clone().unwrap_or_default();
        let range = self.by_name.range((kind, name.clone(), lowest())..);
        Box::new(range.take_while(move |entry| entry.0 == kind && entry.1 == name).map(|entry| &entry.2))
    }

    /// What a find would have answered at an earlier moment.
    pub fn find_at(&self, kind: ObjectKind, criteria: &Criteria, at: Timestamp) -> Vec<CloudObject> {
        let undone = self.undone_since(at);
        let mut found: BTreeMap<ObjectId, CloudObject> = self
            .find(kind, criteria)
            .into_iter()
            .filter(|object| !undone.contains_key(&(kind, object.id.clone())))
            .map(|object| (object.id.clone(), object))
            .collect();
        for ((_, id), object) in undone.into_iter().filter(|((of, _), _)| *of == kind) {
            if let Some(object) = object.filter(|object| criteria.matches(object)) {
                found.insert(id, object.clone());
            }
        }
        found.into_values().take(PAGE_MAX).collect()
    }

    /// Everything of a kind as it was at an earlier moment.
    pub fn of_kind_at(&self, kind: ObjectKind, at: Timestamp) -> Vec<CloudObject> {
        let undone = self.undone_since(at);
        let mut all: BTreeMap<ObjectId, CloudObject> =
            self.of_kind(kind).map(|object| (object.id.clone(), object.clone())).collect();
        for ((_, id), object) in undone.into_iter().filter(|((of, _), _)| *of == kind) {
            match object {
                Some(object) => all.insert(id, object.clone()),
                None => all.remove(&id),
            };
        }
        all.into_values().collect()
    }

    /// What each object changed since then was at that time.
    fn undone_since(&self, at: Timestamp) -> BTreeMap<ObjectKey, Option<&CloudObject>> {
        let mut undone = BTreeMap::new();
        for past in self.past.iter().rev().take_while(|past| past.at > at) {
            undone.insert(past.key.clone(), past.before.as_ref());
        }
        undone
    }

    /// Those of a kind that are marked with one of these ids, in the order of the cloud's.
    pub fn marked(&self, kind: ObjectKind, marks: &BTreeSet<Uuid>) -> Vec<&CloudObject> {
        let ids = marks.iter().flat_map(|mark| self.candidates(kind, &Criteria::marked(*mark)));
        let mut found: Vec<&CloudObject> = ids.filter_map(|id| self.get(kind, id)).collect();
        found.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        found
    }

    pub fn has_inside(&self, kind: ObjectKind, parent: &ObjectId) -> bool {
        self.candidates(kind, &Criteria::inside(parent.clone())).next().is_some()
    }

    pub fn has_named(&self, kind: ObjectKind, name: &str) -> bool {
        self.candidates(kind, &Criteria { name: Some(name.to_owned()), ..Criteria::default() }).next().is_some()
    }

    pub fn count(&self, kind: ObjectKind) -> usize {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// Those who use an object without being inside of it.
    pub fn users_of(&self, used: &ObjectId) -> Vec<ObjectId> {
        self.by_use
            .range((used.clone(), ObjectId(String::new()))..)
            .take_while(|entry| entry.0 == *used)
            .map(|entry| entry.1.clone())
            .collect()
    }

    pub fn is_occupied(&self, host: &str) -> bool {
        self.hosts.contains(host)
    }

    pub fn first_queued(&self) -> Option<&ObjectId> {
        self.queue.first().map(|(_, id)| id)
    }

    pub fn first_due(&self, now: Timestamp) -> Option<&ObjectId> {
        self.due.first().filter(|(due, _)| *due <= now && *due != Timestamp::MAX).map(|(_, id)| id)
    }

    /// Everything that waits for something.
    pub fn waiting(&self) -> Vec<ObjectId> {
        self.due.iter().map(|(_, id)| id.clone()).collect()
    }

    /// An address that nobody has: the one after the highest that somebody has or, at the end, the first in a gap.
    pub fn free_address(&self, scope: &AddressScope, first: Ipv4Addr, last: Ipv4Addr) -> Option<Ipv4Addr> {
        let mut taken = self.addresses.range((scope.clone(), first)..=(scope.clone(), last)).map(|(_, taken)| *taken);
        let next = |address: Ipv4Addr| Ipv4Addr::from(u32::from(address).saturating_add(1));
        match taken.next_back() {
            None => Some(first).filter(|first| *first <= last),
            Some(highest) if highest < last => Some(next(highest)),
            Some(_) => {
                let mut candidate = first;
                for address in taken {
                    if address != candidate {
                        break;
                    }
                    candidate = next(candidate);
                }
                Some(candidate).filter(|candidate| *candidate < last)
            }
        }
    }

    pub fn holder_of(&self, segment: &Segment) -> Option<&ObjectId> {
        self.segments.get(segment)
    }

    pub fn segments(&self) -> &BTreeMap<Segment, ObjectId> {
        &self.segments
    }

    /// Adds an object, or replaces the one with its id.
    pub fn put(&mut self, now: Timestamp, object: CloudObject) {
        let key = (object.kind(), object.id.clone());
        let before = self.objects.remove(&key);
        if let Some(before) = &before {
            self.unindex(before);
        }
        self.index(&object);
        let marks = object.marks;
        self.changes.push(TableChange::Put(Box::new(object.clone())));
        self.objects.insert(key.clone(), object);
        if let (None, Some(marks)) = (&before, marks) {
            self.count_creation(key.0, marks);
        }
        self.remember(Past { at: now, key, before });
    }

    pub fn remove(&mut self, now: Timestamp, kind: ObjectKind, id: &ObjectId) {
        let key = (kind, id.clone());
        let Some(before) = self.objects.remove(&key) else { return };
        self.unindex(&before);
        self.changes.push(TableChange::Removed(kind, id.clone()));
        self.remember(Past { at: now, key, before: Some(before) });
    }

    /// What has changed since this was last asked.
    pub fn take_changes(&mut self) -> Vec<TableChange> {
        std::mem::take(&mut self.changes)
    }

    pub fn creations(&self) -> (&BTreeMap<(ObjectKind, Marks), Count>, bool) {
        (&self.creations, self.creations_complete)
    }

    /// Takes over the book of creations of an earlier run.
    pub fn restore_creations(&mut self, kind: ObjectKind, marks: Marks, count: Count) {
        self.creations.insert((kind, marks), count);
    }

    fn remember(&mut self, past: Past) {
        if self.past.len() == PAST_MAX {
            self.past.pop_front();
        }
        self.past.push_back(past);
    }

    fn count_creation(&mut self, kind: ObjectKind, marks: Marks) {
        if self.creations.len() >= CREATIONS_MAX && !self.creations.contains_key(&(kind, marks)) {
            self.creations_complete = false;
            return;
        }
        let same = self.find(kind, &Criteria::marked(marks.id));
        let at_once = same.iter().filter(|other| other.marks == Some(marks)).count() as u64;
        let count = self.creations.entry((kind, marks)).or_default();
        count.created += 1;
        count.at_once_max = count.at_once_max.max(at_once);
    }

    fn index(&mut self, object: &CloudObject) {
        let (kind, id) = (object.kind(), &object.id);
        self.by_name.insert((kind, object.name.clone(), id.clone()));
        if let Some(marks) = object.marks {
            self.by_mark.insert((kind, marks.id, id.clone()));
        }
        if let Some((_, parent)) = object.body.parent() {
            self.by_parent.insert((kind, parent.clone(), id.clone()));
        }
        for used in object.uses() {
            self.by_use.insert((used.clone(), id.clone()));
        }
        if let Some(segment) = object.segment() {
            self.segments.insert(segment.clone(), id.clone());
        }
        self.addresses.extend(address(object));
        self.hosts.extend(object.server().and_then(|server| server.host.clone()));
        self.queue.extend(place_in_queue(object));
        self.due.extend(due(object));
        *self.counts.entry(kind).or_default() += 1;
    }

    fn unindex(&mut self, object: &CloudObject) {
        let (kind, id) = (object.kind(), &object.id);
        self.by_name.remove(&(kind, object.name.clone(), id.clone()));
        if let Some(marks) = object.marks {
            self.by_mark.remove(&(kind, marks.id, id.clone()));
        }
        if let Some((_, parent)) = object.body.parent() {
            self.by_parent.remove(&(kind, parent.clone(), id.clone()));
        }
        for used in object.uses() {
            self.by_use.remove(&(used.clone(), id.clone()));
        }
        if let Some(segment) = object.segment() {
            self.segments.remove(segment);
        }
        if let Some(address) = address(object) {
            self.addresses.remove(&address);
        }
        if let Some(host) = object.server().and_then(|server| server.host.as_ref()) {
            self.hosts.remove(host);
        }
        if let Some(place) = place_in_queue(object) {
            self.queue.remove(&place);
        }
        if let Some(due) = due(object) {
            self.due.remove(&due);
        }
        if let Some(count) = self.counts.get_mut(&kind) {
            *count -= 1;
        }
    }
}

fn address(object: &CloudObject) -> Option<(AddressScope, Ipv4Addr)> {
    match &object.body {
        Body::Port { network, address: Some(address), .. } => Some((Some(network.clone()), address.ip)),
        Body::FloatingIp { address: Some(address), .. } => Some((None, *address)),
        _ => None,
    }
}

fn place_in_queue(object: &CloudObject) -> Option<(Timestamp, ObjectId)> {
    // One that is leaving, or has been given up, waits for nothing.
    let building = object.state == ObjectState::Building;
    let server = object.server().filter(|server| server.life.queued && building)?;
    Some((server.life.created, object.id.clone()))
}

fn due(object: &CloudObject) -> Option<(Timestamp, ObjectId)> {
    let pending = object.pending?;
    Some((pending.until.unwrap_or(Timestamp::MAX), object.id.clone()))
}
