//! Who is where and who needs whom: the registry of live actors, their subscriptions and the shared timers.
//!
//! Nothing holds on to an actor's reference: an actor that failed has a new one. Everybody sends by [`Key`], through
//! the [`Graph`], which finds the actor of the moment. A message to nobody is not an error: every message is a
//! stimulus to look again, and an actor looks when it starts.
//!
//! # Guarantees
//! - A mailbox holds at most [`MAILBOX_MAX`] messages. Past that, messages are folded into one note that something
//!   was missed, which the actor treats as a reason to read everything again. So no wake is lost by being bounded.
//! - No lock of the registry is held across an await, and no decision iterates it: whoever needs a set of nodes
//!   takes a sorted copy.

pub mod completions;
pub mod message;
pub mod outcome;
pub mod snapshot;
pub mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dashmap::DashMap;
use futures_util::future::BoxFuture;
use ractor::{ActorCell, ActorRef, SpawnErr};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::model::ids::{Key, Kind, RegionId};
use crate::model::orphan::Orphan;
use crate::model::record::Record;
use completions::Completions;
use message::Message;
use snapshot::{Phase, Snapshot};
use timers::Timers;

/// How many messages may wait for one actor. A settled actor handles thousands a second, so a longer queue would
/// only hold stale news; a much shorter one would fold ordinary bursts (a poll beside a status write) together.
pub const MAILBOX_MAX: u64 = 256;

/// Something a supervisor keeps running that is not a resource: a pool, a monitor, the dispatcher.
pub trait Service: Send + Sync {
    fn name(&self) -> &'static str;
    /// Starts it, or starts it again.
    fn spawn(&self, supervisor: ActorCell) -> BoxFuture<'_, Result<ActorCell, SpawnErr>>;
}

/// What somebody wants to hear of another resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// That it became ready, has failed, or is gone.
    Standing,
    /// Whatever is stored of it.
    Everything,
}

impl Interest {
    #[must_use]
    pub const fn of(follows: bool) -> Self {
        if follows { Self::Everything } else { Self::Standing }
    }
}

/// How a resource stands, for those who wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Unknown,
    NotReady,
    Ready,
    Failed,
    Deleting,
}

impl Standing {
    fn of(record: &Record) -> Self {
        if record.metadata.is_deleting() {
            Self::Deleting
        } else if record.conditions.is_available() {
            Self::Ready
        } else if record.conditions.has_failed() {
            Self::Failed
        } else {
            Self::NotReady
        }
    }
}

/// Everything known of one place in the graph, whether its actor lives or is between two lives.
pub struct Node {
    key: Key,
    actor: Mutex<Option<ActorRef<Message>>>,
    /// Sent and not yet handled.
    depth: AtomicU64,
    /// A message was folded because the mailbox was full.
    missed: AtomicBool,
    /// Failures since the last pass that ended well.
    failures: AtomicU32,
    restarts: AtomicU64,
    /// The pass that is running. Held here and not by the actor, so that the supervisor can end it when the actor
    /// is no more.
    pass: Mutex<Option<JoinHandle<()>>>,
    snapshot: Mutex<Arc<Snapshot>>,
    /// Who wants to hear of this resource, and of what.
    dependants: Mutex<BTreeMap<Key, Interest>>,
    /// How it stood when they were last told.
    announced: Mutex<Standing>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    fn new(key: Key) -> Self {
        Self {
            key,
            actor: Mutex::new(None),
            depth: AtomicU64::new(0),
            missed: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            restarts: AtomicU64::new(0),
            pass: Mutex::new(None),
            snapshot: Mutex::new(Arc::new(Snapshot::unborn(key))),
            dependants: Mutex::new(BTreeMap::new()),
            announced: Mutex::new(Standing::Unknown),
        }
    }

    #[must_use]
    pub const fn key(&self) -> Key {
        self.key
    }

    /// A new life: the old mailbox and all that waited in it are gone.
    pub fn born(&self, actor: ActorRef<Message>) {
        self.depth.store(0, Ordering::Relaxed);
        *locked(&self.actor) = Some(actor);
    }

    pub fn dead(&self) {
        *locked(&self.actor) = None;
    }

    pub fn actor(&self) -> Option<ActorRef<Message>> {
        locked(&self.actor).clone()
    }

    /// Called by the actor as it takes a message; tells whether messages were folded since the last one.
    pub fn taken(&self) -> bool {
        let _ = self.depth.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |depth| Some(depth.saturating_sub(1)));
        self.missed.swap(false, Ordering::Relaxed)
    }

    pub fn depth(&self) -> u64 {
        self.depth.load(Ordering::Relaxed)
    }

    pub fn publish(&self, snapshot: Snapshot) {
        *locked(&self.snapshot) = Arc::new(snapshot);
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        locked(&self.snapshot).clone()
    }

    pub fn hold_pass(&self, pass: JoinHandle<()>) {
        *locked(&self.pass) = Some(pass);
    }

    pub fn take_pass(&self) -> Option<JoinHandle<()>> {
        locked(&self.pass).take()
    }

    /// One more failure in a row; returns how many.
    pub fn failed(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn recovered(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    pub fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    pub fn restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Does the record stand otherwise than those who wait for it were last told?
    pub fn announces(&self, record: &Record) -> bool {
        let standing = Standing::of(record);
        std::mem::replace(&mut *locked(&self.announced), standing) != standing
    }

    pub fn dependants(&self) -> Vec<Key> {
        locked(&self.dependants).keys().copied().collect()
    }

    /// Was nobody ever placed here, and does nobody wait for it? Whoever is placed has an owner, or a region.
    fn is_nobodys(&self) -> bool {
        let snapshot = self.snapshot();
        let is_placed = snapshot.owner.is_some() || snapshot.region.is_some() || snapshot.phase != Phase::Unborn;
        !is_placed && self.actor().is_none() && locked(&self.dependants).is_empty()
    }

    /// Those who want to hear of every change, or of all of them when it stands otherwise now.
    pub fn listeners(&self, stands_otherwise: bool) -> Vec<Key> {
        let dependants = locked(&self.dependants);
        let listens = |interest: &Interest| stands_otherwise || *interest == Interest::Everything;
        dependants.iter().filter(|(_, interest)| listens(interest)).map(|(key, _)| *key).collect()
    }

    fn send(&self, message: Message) -> bool {
        let Some(actor) = self.actor() else { return false };
        if !message.is_answer() && self.depth.load(Ordering::Relaxed) >= MAILBOX_MAX {
            self.missed.store(true, Ordering::SeqCst);
            // The actor may have emptied its mailbox in between, with nothing left in it to make it notice.
            if self.depth.load(Ordering::SeqCst) > 0 {
                return true;
            }
        }
        self.depth.fetch_add(1, Ordering::Relaxed);
        actor.send_message(message).is_ok()
    }
}

/// By region and kind, in the order of keys.
type Orphans = BTreeMap<(RegionId, Kind), Vec<Orphan>>;

/// The registry. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Graph {
    nodes: Arc<DashMap<Key, Arc<Node>>>,
    /// What waits for a cloud to finish something, by region: what a monitor looks at every second.
    on_cloud: Arc<Mutex<BTreeSet<(RegionId, Key)>>>,
    /// The regions that nobody has been able to look at for a while.
    unobserved: Arc<Mutex<BTreeSet<RegionId>>>,
    /// What the clouds hold of ours that no record owns, as the last look at everything of a kind saw it.
    orphans: Arc<Mutex<Orphans>>,
    timers: Timers,
    completions: Completions,
}

impl Graph {
    /// Starts the shared timers on the current runtime.
    #[must_use]
    pub fn start() -> Self {
        let nodes: Arc<DashMap<Key, Arc<Node>>> = Arc::new(DashMap::new());
        let targets = Arc::clone(&nodes);
        let timers = Timers::start(move |key, token| {
            if let Some(node) = targets.get(&key).map(|node| Arc::clone(&node)) {
                node.send(Message::TimerFired(token));
            }
        });
        Self {
            nodes,
            on_cloud: Arc::default(),
            unobserved: Arc::default(),
            orphans: Arc::default(),
            timers,
            completions: Completions::default(),
        }
    }

    #[must_use]
    pub const fn completions(&self) -> &Completions {
        &self.completions
    }

    #[must_use]
    pub fn timers(&self) -> &Timers {
        &self.timers
    }

    #[must_use]
    pub fn node(&self, key: Key) -> Option<Arc<Node>> {
        self.nodes.get(&key).map(|node| Arc::clone(&node))
    }

    /// The place of `key`, made if need be.
    #[must_use]
    pub fn ensure(&self, key: Key) -> Arc<Node> {
        Arc::clone(&self.nodes.entry(key).or_insert_with(|| Arc::new(Node::new(key))))
    }

    /// The resource is gone for good. Its owner and those who wait for it are told here, once, because it is not known
    /// who notices first: the dispatcher, which reads it in the change log, or the branch whose actor has ended.
    pub fn remove(&self, key: Key) {
        self.timers.cancel(key);
        let Some((_, node)) = self.nodes.remove(&key) else { return };
        let snapshot = node.snapshot();
        if let Some(region) = snapshot.region {
            self.await_cloud(region, key, false);
        }
        if let Some(owner) = snapshot.owner {
            self.send(owner, Message::ChildGone(key));
        }
        for waiter in node.dependants() {
            self.send(waiter, Message::DependencyMoved(key));
        }
    }

    /// Notes whether `key` waits for its cloud.
    pub fn await_cloud(&self, region: RegionId, key: Key, waits: bool) {
        let mut on_cloud = locked(&self.on_cloud);
        if waits {
            on_cloud.insert((region, key));
        } else {
            on_cloud.remove(&(region, key));
        }
    }

    /// Notes whether a region is looked at; tells whether that is news.
    pub fn note_observed(&self, region: RegionId, is_observed: bool) -> bool {
        let mut unobserved = locked(&self.unobserved);
        if is_observed { unobserved.remove(&region) } else { unobserved.insert(region) }
    }

    #[must_use]
    pub fn is_unobserved(&self, region: RegionId) -> bool {
        locked(&self.unobserved).contains(&region)
    }

    /// Notes what nobody owns of a kind in a region's cloud; tells whether that is news.
    pub fn note_orphans(&self, region: RegionId, kind: Kind, found: Vec<Orphan>) -> bool {
        let mut orphans = locked(&self.orphans);
        let before = orphans.entry((region, kind)).or_default();
        let is_news = *before != found;
        *before = found;
        is_news
    }

    /// What nobody owns, by region and key.
    #[must_use]
    pub fn orphans(&self, of: Option<RegionId>) -> Vec<(RegionId, Orphan)> {
        let orphans = locked(&self.orphans);
        let wanted = orphans.iter().filter(|((region, _), _)| of.is_none_or(|of| of == *region));
        wanted.flat_map(|((region, _), found)| found.iter().map(|orphan| (*region, *orphan))).collect()
    }

    /// At most `limit` of those that wait for a region's cloud, in the order of keys, from the first one after `after`
    /// and round to it again: of more than fit into one look, each has its turn.
    #[must_use]
    pub fn awaiting_cloud(&self, region: RegionId, after: Option<Key>, limit: usize) -> Vec<Key> {
        let first = Key::new(Kind::Region, Uuid::nil());
        let after = after.unwrap_or(first);
        let on_cloud = locked(&self.on_cloud);
        let of_region =
            |from| on_cloud.range((region, from)..).take_while(|(of, _)| *of == region).map(|(_, key)| *key);
        let later = of_region(after).filter(|key| *key > after);
        let earlier = of_region(first).take_while(|key| *key <= after);
        later.chain(earlier).take(limit).collect()
    }

    /// Delivers to the actor of the moment; tells whether there is one.
    pub fn send(&self, key: Key, message: Message) -> bool {
        self.node(key).is_some_and(|node| node.send(message))
    }

    /// `waiter` wants to hear of `target`; tells whether that is new.
    pub fn subscribe(&self, target: Key, waiter: Key, interest: Interest) -> bool {
        locked(&self.ensure(target).dependants).insert(waiter, interest) != Some(interest)
    }

    /// A place that was made for a waiter alone goes with the last of them: nobody else would ever take it away. Unless
    /// somebody has it in hand, who may be about to be born there.
    pub fn unsubscribe(&self, target: Key, waiter: Key) {
        if let Some(node) = self.node(target) {
            locked(&node.dependants).remove(&waiter);
        }
        self.nodes.remove_if(&target, |_, node| Arc::strong_count(node) == 1 && node.is_nobodys());
    }

    /// Every node, sorted: for inspection, monitors and the invariants.
    #[must_use]
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        let mut nodes = self.nodes.iter().map(|entry| Arc::clone(entry.value())).collect::<Vec<_>>();
        nodes.sort_by_key(|node| node.key);
        nodes
    }

    /// What a region should have, sorted, as its actors last published it.
    #[must_use]
    pub fn of_region(&self, region: RegionId) -> Vec<Arc<Snapshot>> {
        let mut members = self
            .nodes
            .iter()
            .map(|entry| entry.value().snapshot())
            .filter(|snapshot| snapshot.region == Some(region))
            .collect::<Vec<_>>();
        // Cached: a region may hold a hundred thousand, each of them somewhere else in memory.
        members.sort_by_cached_key(|snapshot| snapshot.key);
        members
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use ractor::{Actor, ActorProcessingErr};
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;

    /// Says what it hears.
    struct Echo;

    impl Actor for Echo {
        type Msg = Message;
        type State = UnboundedSender<&'static str>;
        type Arguments = UnboundedSender<&'static str>;

        async fn pre_start(
            &self,
            _: ActorRef<Message>,
            heard: Self::Arguments,
        ) -> Result<Self::State, ActorProcessingErr> {
            Ok(heard)
        }

        async fn handle(
            &self,
            _: ActorRef<Message>,
            message: Message,
            heard: &mut Self::State,
        ) -> Result<(), ActorProcessingErr> {
            heard.send(message.word())?;
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_place_that_only_waiters_knew_goes_with_the_last_of_them() {
        let graph = Graph::start();
        let key = |number| Key::new(Kind::Network, Uuid::from_u128(number));
        let (nobody, one, other) = (key(1), key(2), key(3));
        for waiter in [one, other] {
            graph.subscribe(nobody, waiter, Interest::Standing);
        }
        graph.unsubscribe(nobody, one);
        assert!(graph.node(nobody).is_some(), "somebody still waits");
        let in_hand = graph.node(nobody);
        graph.unsubscribe(nobody, other);
        assert!(graph.node(nobody).is_some(), "who has it in hand may be born there");
        drop(in_hand);
        graph.unsubscribe(nobody, other);
        assert!(graph.node(nobody).is_none());
        graph.ensure(one).publish(Snapshot { owner: Some(other), ..Snapshot::unborn(one) });
        graph.subscribe(one, other, Interest::Standing);
        graph.unsubscribe(one, other);
        assert!(graph.node(one).is_some(), "it is about to be born, whoever waits for it");
    }

    #[tokio::test]
    async fn whoever_removes_a_resource_first_its_owner_and_its_waiters_are_told_once() {
        let graph = Graph::start();
        let key = |number| Key::new(Kind::Network, Uuid::from_u128(number));
        let (child, owner, waiter) = (key(1), key(2), key(3));
        let (said, mut heard) = unbounded_channel();
        for listener in [owner, waiter] {
            let (actor, _) = Actor::spawn(None, Echo, said.clone()).await.unwrap();
            graph.ensure(listener).born(actor);
        }
        graph.ensure(child).publish(Snapshot { owner: Some(owner), ..Snapshot::unborn(child) });
        graph.subscribe(child, waiter, Interest::Standing);
        for _ in 0..2 {
            graph.remove(child);
        }
        graph.send(owner, Message::Reconcile);
        graph.send(waiter, Message::Reconcile);
        let mut words = Vec::new();
        for _ in 0..4 {
            words.push(heard.recv().await.unwrap());
        }
        words.sort_unstable();
        assert_eq!(words, ["child-gone", "dependency-moved", "reconcile", "reconcile"]);
    }
}
