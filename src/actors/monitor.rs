//! A region's monitor: looks at the cloud in bulk and tells actors what differs from what they have on record.
//!
//! ```text
//!   poll ──▶ list, a thousand to a read ──▶ compare ──▶ Observed, only for differences
//!     ▲                                                    │
//!     └── settled: every minute · something pending: every second, and only what is pending
//! ```
//!
//! The monitor speeds things up and finds what changed behind our back. Nothing depends on it: with the monitor
//! stopped everything still converges.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr};
use uuid::Uuid;

use super::{Environment, kind, tasks};
use crate::graph::message::{Message, Observation, Sighting};
use crate::graph::snapshot::Snapshot;
use crate::model::condition::Condition;
use crate::model::ids::{Incarnation, Key, Kind, OrganizationId, RegionId};
use crate::model::instance::Check;
use crate::model::orphan::{Recorded, Stray, Strays};
use crate::providers::{CallContext, Listed, NothingToNote, ProviderError, Sequence};

/// How soon a look at everything that failed is tried again: much sooner than the next one is due, because nothing has
/// been seen, but not at once, because the cloud has just failed.
const TICKS_AFTER_FAILURE: u32 = 5;

/// After how many missed looks at everything what is on record is called old. One or two are a cloud that restarts.
const LOOKS_MISSED_MAX: u32 = 3;

/// How many ids are asked for in one read of pending objects.
const PENDING_MAX: usize = 1000;

/// How many objects of a kind that nobody knows are kept of one look. More are more than anybody removes by hand, and each
/// costs a read of the store.
const STRAYS_MAX: usize = 1000;

/// How many actors are told at once, and how long the others then wait. What depends on those that were told follows
/// in the meantime, and not behind hundreds of others; it is about as fast as the store can write down.
const TOLD_AT_ONCE: u32 = 8;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(4);

/// The monitor of a region, as its supervisor keeps it running.
pub struct MonitorService {
    environment: Arc<Environment>,
    region: RegionId,
}

impl MonitorService {
    #[must_use]
    pub const fn new(environment: Arc<Environment>, region: RegionId) -> Self {
        Self { environment, region }
    }
}

impl crate::graph::Service for MonitorService {
    fn name(&self) -> &'static str {
        "monitor"
    }

    fn spawn(&self, supervisor: ActorCell) -> BoxFuture<'_, Result<ActorCell, SpawnErr>> {
        let state = State::new(Arc::clone(&self.environment), self.region);
        async move {
            let (actor, _) = Actor::spawn_linked(None, Monitor, state, supervisor).await?;
            Ok(actor.get_cell())
        }
        .boxed()
    }
}

pub struct Monitor;

pub enum MonitorMessage {
    /// Time to look.
    Poll,
    /// A look has ended, beside the mailbox.
    Looked(Looked),
}

/// What became of a look.
pub struct Looked {
    at_everything: bool,
    failed: bool,
    strays: Found,
}

/// What is nobody's, of each kind of which everything was seen.
type Found = BTreeMap<Kind, BTreeSet<Stray>>;

/// How far a look reaches.
enum Scope {
    Everything,
    /// Of each kind, these.
    Only(BTreeMap<Kind, Vec<Uuid>>),
}

pub struct State {
    environment: Arc<Environment>,
    region: RegionId,
    /// Looks at pending objects since the last full one.
    since_full: u32,
    /// The last of the pending ones that was looked at.
    looked_at: Option<Key>,
    /// When everything was last seen, or the monitor began.
    observed: jiff::Timestamp,
    strays: Strays,
}

impl Actor for Monitor {
    type Msg = MonitorMessage;
    type State = State;
    type Arguments = State;

    async fn pre_start(&self, myself: ActorRef<MonitorMessage>, state: State) -> Result<State, ActorProcessingErr> {
        schedule(&myself, state.environment.options.poll_pending);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<MonitorMessage>,
        message: MonitorMessage,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            MonitorMessage::Poll => state.poll(&myself),
            MonitorMessage::Looked(looked) => {
                if looked.at_everything && !looked.failed {
                    state.observed = state.environment.ambient.now();
                }
                if looked.failed && looked.at_everything {
                    state.since_full = state.full_every().saturating_sub(TICKS_AFTER_FAILURE);
                }
                state.tell_orphans(looked.strays);
                schedule(&myself, state.environment.options.poll_pending);
            }
        }
        Ok(())
    }
}

fn schedule(myself: &ActorRef<MonitorMessage>, after: std::time::Duration) {
    let myself = myself.clone();
    tasks::spawn("the monitor's clock", async move {
        tokio::time::sleep(after).await;
        let _ = myself.cast(MonitorMessage::Poll);
    });
}

impl State {
    /// The first look at everything comes soon: much may have changed while nobody looked.
    fn new(environment: Arc<Environment>, region: RegionId) -> Self {
        let observed = environment.ambient.now();
        let strays = Strays::default();
        let mut state = Self { environment, region, since_full: 0, looked_at: None, observed, strays };
        state.since_full = state.full_every().saturating_sub(TICKS_AFTER_FAILURE);
        state
    }

    /// Looks at everything when it is time, otherwise at what is pending, otherwise not at all.
    fn poll(&mut self, myself: &ActorRef<MonitorMessage>) {
        self.since_full += 1;
        self.tell_age();
        let scope = if self.since_full >= self.full_every() {
            self.since_full = 0;
            Scope::Everything
        } else {
            let mut pending = BTreeMap::<Kind, Vec<Uuid>>::new();
            for key in self.environment.graph.awaiting_cloud(self.region, self.looked_at, PENDING_MAX) {
                self.looked_at = Some(key);
                pending.entry(key.kind).or_default().push(key.id);
            }
            pending.retain(|kind, _| kind::entry(*kind).is_some_and(|entry| entry.is_monitored));
            if pending.is_empty() {
                schedule(myself, self.environment.options.poll_pending);
                return;
            }
            Scope::Only(pending)
        };
        let (environment, region, myself) = (Arc::clone(&self.environment), self.region, myself.clone());
        tasks::spawn("a monitor's look", async move {
            let looked = AssertUnwindSafe(look(&environment, region, &scope)).catch_unwind().await;
            // The next look is scheduled by the end of this one, so it must have one.
            let (failed, strays) = looked.unwrap_or((true, Found::new()));
            let looked = Looked { at_everything: matches!(scope, Scope::Everything), failed, strays };
            let _ = myself.cast(MonitorMessage::Looked(looked));
        });
    }

    /// How old what is known of the region is. Those who show what they were told are told when that becomes old, and
    /// when it is fresh again.
    fn tell_age(&self) {
        let (graph, region) = (&self.environment.graph, self.region);
        let age = self.environment.ambient.now().duration_since(self.observed);
        metrics::gauge!("regent_observation_age_seconds", "region" => region.to_string()).set(age.as_secs_f64());
        let is_fresh = age
            <= jiff::SignedDuration::try_from(self.environment.options.poll_settled * LOOKS_MISSED_MAX)
                .unwrap_or(jiff::SignedDuration::MAX);
        if graph.note_observed(region, is_fresh) {
            for member in graph.of_region(region).into_iter().filter(|member| member.key.kind == Kind::Instance) {
                graph.send(member.key, Message::DependencyMoved(region.key()));
            }
        }
    }

    /// What two looks in a row found to be nobody's is counted, and shown to operators. A kind that could not be looked
    /// at stays as it was.
    fn tell_orphans(&mut self, found: Found) {
        let (region, now) = (self.region, self.environment.ambient.now());
        for (kind, found) in found {
            let orphans = self.strays.confirm(kind, found, now);
            let count = u32::try_from(orphans.len()).unwrap_or(u32::MAX);
            let labels = [("region", region.to_string()), ("kind", kind.word().to_owned())];
            metrics::gauge!("regent_orphans", &labels).set(f64::from(count));
            if self.environment.graph.note_orphans(region, kind, orphans) && count > 0 {
                tracing::warn!(%region, %kind, count, "the cloud holds objects of ours that no record owns");
            }
        }
    }

    /// How many ticks lie between two looks at everything.
    fn full_every(&self) -> u32 {
        let options = &self.environment.options;
        let ticks = options.poll_settled.as_nanos() / options.poll_pending.as_nanos().max(1);
        u32::try_from(ticks).unwrap_or(u32::MAX).max(1)
    }
}

/// Looks and tells actors what differs; returns whether anything could not be looked at, and what is nobody's. What could
/// not be looked at tells nothing: absence must be seen, not assumed.
async fn look(environment: &Environment, region: RegionId, scope: &Scope) -> (bool, Found) {
    // Taken before the look begins: what is made while it goes on is not missed by it.
    let expected = match scope {
        Scope::Only(ids) => {
            let mut expected = BTreeMap::<Kind, Vec<Key>>::new();
            for (kind, ids) in ids {
                expected.insert(*kind, ids.iter().map(|id| Key::new(*kind, *id)).collect());
            }
            expected
        }
        Scope::Everything => {
            let mut expected = kind::all().filter(|entry| entry.is_monitored).map(|entry| (entry.kind, Vec::new()));
            let mut expected = expected.by_ref().collect::<BTreeMap<Kind, Vec<Key>>>();
            let members = environment.graph.of_region(region);
            count_checks(region, &members);
            for member in members.into_iter().filter(|member| member.realised) {
                if let Some(keys) = expected.get_mut(&member.key.kind) {
                    keys.push(member.key);
                }
            }
            expected
        }
    };
    let (mut failed, mut found) = (false, Found::new());
    let mut telling = Telling { environment, told: 0 };
    for (kind, expected) in expected {
        let only = match scope {
            Scope::Everything => None,
            Scope::Only(ids) => ids.get(&kind).map(Vec::as_slice),
        };
        match look_at_kind(&mut telling, region, kind, only).await {
            // This cloud has nothing of the kind.
            Err(ProviderError::Unsupported(_)) => {}
            Err(error) => {
                failed = true;
                metrics::counter!("regent_monitor_failures_total", "region" => region.to_string()).increment(1);
                tracing::warn!(%region, %kind, %error, "the monitor could not look at the cloud");
            }
            Ok(Seen { sequence, spoken_of, unknown }) => {
                for key in expected.into_iter().filter(|key| !spoken_of.contains(&key.id)) {
                    telling.tell(key, Observation { sequence, sighting: Sighting::Absent }).await;
                }
                if matches!(scope, Scope::Everything) {
                    found.insert(kind, strays(environment, unknown).await);
                }
            }
        }
    }
    if matches!(scope, Scope::Everything) {
        found.extend(look_for_principals(&mut telling, region).await);
    }
    (failed, found)
}

/// Principals that are nobody's. Those that are somebody's are not monitored: that this cannot be looked at is no failure.
async fn look_for_principals(telling: &mut Telling<'_>, region: RegionId) -> Option<(Kind, BTreeSet<Stray>)> {
    match look_at_kind(telling, region, Kind::Identity, None).await {
        Ok(seen) => Some((Kind::Identity, strays(telling.environment, seen.unknown).await)),
        Err(error) => {
            tracing::debug!(%region, %error, "the monitor could not look for principals");
            None
        }
    }
}

/// What is nobody's among what no actor knows. The records are asked: one that cannot be read has no actor.
async fn strays(environment: &Environment, unknown: Vec<(Key, Incarnation)>) -> BTreeSet<Stray> {
    let mut strays = BTreeSet::new();
    for (key, incarnation) in unknown {
        let recorded = match environment.store.get(key).await {
            Ok(Some(record)) => Recorded::As(record.metadata.incarnation),
            Ok(None) => Recorded::Nothing,
            Err(_) => Recorded::Unreadable,
        };
        strays.extend(Stray::of(key, incarnation, recorded));
    }
    strays
}

/// How many instances fail each check now, by what they say of themselves.
fn count_checks(region: RegionId, members: &[Arc<Snapshot>]) {
    let instances = members.iter().filter(|member| member.key.kind == Kind::Instance).collect::<Vec<_>>();
    for check in Check::ALL {
        let says = |said: &Option<Condition>| said.as_ref().is_some_and(|said| said.message == check.message());
        let fails = |member: &&&Arc<Snapshot>| says(&member.conditions.healthy) || says(&member.conditions.available);
        let failing = instances.iter().filter(fails).count();
        let labels = [("region", region.to_string()), ("check", check.word().to_owned())];
        metrics::gauge!("regent_instance_checks_failing", &labels)
            .set(f64::from(u32::try_from(failing).unwrap_or(u32::MAX)));
    }
}

/// What a look at a kind has seen.
struct Seen {
    sequence: Sequence,
    /// What is there or may be: the rest is absent.
    spoken_of: BTreeSet<Uuid>,
    /// What no actor knows, or knows as another life's.
    unknown: Vec<(Key, Incarnation)>,
}

/// Reads everything of a kind, page by page; tells what differs, and returns what was seen.
async fn look_at_kind(
    telling: &mut Telling<'_>,
    region: RegionId,
    kind: Kind,
    only: Option<&[Uuid]>,
) -> Result<Seen, ProviderError> {
    let environment = telling.environment;
    let provider =
        environment.clouds.get(region).ok_or_else(|| ProviderError::Unavailable("not configured".to_owned()))?;
    let tenant = OrganizationId(Uuid::nil());
    let context = CallContext { tenant, cancelled: environment.stopping.child_token(), ledger: &NothingToNote };
    let (mut spoken_of, mut unknown) = (BTreeSet::new(), Vec::new());
    let mut first: Option<Sequence> = None;
    let mut after = None;
    loop {
        let page = match provider.file_storage() {
            Some(storage) if kind == Kind::FileStorage => storage.list(&context, only, after.as_deref()).await?,
            _ => provider.list(&context, kind, only, after.as_deref()).await?,
        };
        // The oldest page speaks for all: what was seen since then is newer.
        first = first.or(Some(page.sequence));
        spoken_of.extend(page.fact.unsure);
        for listed in page.fact.items {
            spoken_of.insert(listed.key.id);
            if telling.is_unknown(&listed) && unknown.len() < STRAYS_MAX {
                unknown.push((listed.key, listed.incarnation));
            }
            telling.compare(listed).await;
        }
        if page.fact.next.is_some() && page.fact.next == after {
            return Err(ProviderError::Inconsistent("a list that does not end".to_owned()));
        }
        after = page.fact.next;
        if after.is_none() {
            return Ok(Seen { sequence: first.unwrap_or_default(), spoken_of, unknown });
        }
    }
}

/// Tells actors what was seen, a few at a time.
struct Telling<'a> {
    environment: &'a Environment,
    told: u32,
}

impl Telling<'_> {
    fn is_unknown(&self, listed: &Listed) -> bool {
        let node = self.environment.graph.node(listed.key);
        node.is_none_or(|node| node.snapshot().incarnation.is_some_and(|known| known != listed.incarnation))
    }

    /// Compared with what its actor has on record, not with what was seen last: what changes away and back between two
    /// looks would seem not to have changed at all.
    async fn compare(&mut self, listed: Listed) {
        if kind::entry(listed.key.kind).is_none_or(|entry| !entry.is_monitored) {
            return;
        }
        let Some(node) = self.environment.graph.node(listed.key) else { return };
        let known = node.snapshot();
        let same = known.fingerprint == Some(listed.fingerprint);
        if known.incarnation == Some(listed.incarnation) && known.realised && !same {
            let sequence = listed.fact.sequence().unwrap_or_default();
            self.tell(listed.key, Observation { sequence, sighting: Sighting::Present(Box::new(listed.fact)) }).await;
        }
    }

    async fn tell(&mut self, key: Key, observation: Observation) {
        self.environment.graph.send(key, Message::Observed(observation));
        self.told += 1;
        if self.told.is_multiple_of(TOLD_AT_ONCE) {
            tokio::time::sleep(PAUSE).await;
        }
    }
}
