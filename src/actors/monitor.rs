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

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Environment, tasks};
use crate::graph::message::{Message, Observation, Sighting};
use crate::model::identity::IdentityDetail;
use crate::model::ids::{Key, Kind, NetworkId, OrganizationId, RegionId};
use crate::model::network::VlanId;
use crate::model::sealed::{SealError, Sealed};
use crate::providers::call::Fact;
use crate::providers::{CallContext, Ledger, ListedNetwork, Observed, ProviderError, Sequence};
use crate::store::StoreError;

/// How soon a look at everything that failed is tried again: much sooner than the next one is due, because nothing has
/// been seen, but not at once, because the cloud has just failed.
const TICKS_AFTER_FAILURE: u32 = 5;

/// How many ids are asked for in one read of pending objects.
const PENDING_MAX: usize = 1000;

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
        let state = State { environment: Arc::clone(&self.environment), region: self.region, since_full: 0 };
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
    Looked(Box<Looked>),
}

/// What a look saw.
pub struct Looked {
    scope: Scope,
    listing: Result<(Sequence, Vec<ListedNetwork>), ProviderError>,
}

/// How far a look reached.
enum Scope {
    Everything,
    Only(Vec<NetworkId>),
}

pub struct State {
    environment: Arc<Environment>,
    region: RegionId,
    /// Looks at pending objects since the last full one.
    since_full: u32,
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
                state.tell(&looked);
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
    /// Looks at everything when it is time, otherwise at what is pending, otherwise not at all.
    fn poll(&mut self, myself: &ActorRef<MonitorMessage>) {
        let options = &self.environment.options;
        self.since_full += 1;
        let scope = if self.since_full >= self.full_every() {
            self.since_full = 0;
            Scope::Everything
        } else {
            let pending = self.environment.graph.awaiting_cloud(self.region, PENDING_MAX);
            let networks = pending.into_iter().filter(|key| key.kind == Kind::Network);
            let pending = networks.map(|key| NetworkId(key.id)).collect::<Vec<_>>();
            if pending.is_empty() {
                schedule(myself, options.poll_pending);
                return;
            }
            Scope::Only(pending)
        };
        let (environment, region, myself) = (Arc::clone(&self.environment), self.region, myself.clone());
        tasks::spawn("a monitor's look", async move {
            let looked = AssertUnwindSafe(look(&environment, region, &scope)).catch_unwind().await;
            // The next look is scheduled by the end of this one, so it must have one.
            let panicked = || Err(ProviderError::Unavailable("the look panicked".to_owned()));
            let listing = looked.unwrap_or_else(|_| panicked());
            let _ = myself.cast(MonitorMessage::Looked(Box::new(Looked { scope, listing })));
        });
    }

    /// How many ticks lie between two looks at everything.
    fn full_every(&self) -> u32 {
        let options = &self.environment.options;
        let ticks = options.poll_settled.as_nanos() / options.poll_pending.as_nanos().max(1);
        u32::try_from(ticks).unwrap_or(u32::MAX).max(1)
    }

    /// Tells actors what differs. A look that failed tells nothing: absence must be seen, not assumed.
    fn tell(&mut self, looked: &Looked) {
        let (sequence, listed) = match &looked.listing {
            Ok(listing) => listing,
            Err(error) => {
                metrics::counter!("regent_monitor_failures_total", "region" => self.region.to_string()).increment(1);
                tracing::warn!(region = %self.region, %error, "the monitor could not look at the cloud");
                if matches!(looked.scope, Scope::Everything) {
                    self.since_full = self.full_every().saturating_sub(TICKS_AFTER_FAILURE);
                }
                return;
            }
        };
        let graph = &self.environment.graph;
        let mut present = BTreeSet::new();
        for network in listed {
            present.insert(network.id);
            let Some(node) = graph.node(network.id.key()) else { continue };
            let known = node.snapshot();
            // Compared with what its actor has on record, not with what was seen last: what changes away and back
            // between two looks would seem not to have changed at all.
            let same = known.fingerprint == network.fact.detail.fingerprint && network.fact.trouble.is_none();
            if known.incarnation == Some(network.incarnation) && known.realised && !same {
                let fact = Fact::Network(Observed { sequence: *sequence, fact: network.fact.clone() });
                let observation = Observation { sequence: *sequence, sighting: Sighting::Present(fact) };
                graph.send(network.id.key(), Message::Observed(observation));
            }
        }
        let expected: Vec<Key> = match &looked.scope {
            Scope::Only(ids) => ids.iter().map(|id| id.key()).collect(),
            Scope::Everything => {
                let members = graph.of_region(self.region);
                let networks = members.iter().filter(|member| member.key.kind == Kind::Network && member.realised);
                networks.map(|member| member.key).collect()
            }
        };
        for key in expected.into_iter().filter(|key| !present.contains(&NetworkId(key.id))) {
            let observation = Observation { sequence: *sequence, sighting: Sighting::Absent };
            graph.send(key, Message::Observed(observation));
        }
    }
}

async fn look(
    environment: &Environment,
    region: RegionId,
    scope: &Scope,
) -> Result<(Sequence, Vec<ListedNetwork>), ProviderError> {
    let provider =
        environment.clouds.get(region).ok_or_else(|| ProviderError::Unavailable("not configured".to_owned()))?;
    let context =
        CallContext { tenant: OrganizationId(Uuid::nil()), cancelled: CancellationToken::new(), ledger: &NoLedger };
    let only = match scope {
        Scope::Everything => None,
        Scope::Only(ids) => Some(ids.as_slice()),
    };
    let mut all = Vec::new();
    let mut first: Option<Sequence> = None;
    let mut after = None;
    loop {
        let page = provider.list_networks(&context, only, after.as_deref()).await?;
        // The oldest page speaks for all: what was seen since then is newer.
        first = first.or(Some(page.sequence));
        all.extend(page.fact.items);
        after = page.fact.next;
        if after.is_none() {
            return Ok((first.unwrap_or_default(), all));
        }
    }
}

/// A monitor changes nothing and so has nothing to note.
struct NoLedger;

fn read_only() -> StoreError {
    StoreError::Unavailable("a monitor notes nothing".to_owned())
}

#[async_trait]
impl Ledger for NoLedger {
    async fn note_identity(&self, _detail: &IdentityDetail) -> Result<(), StoreError> {
        Err(read_only())
    }

    async fn claim_vlan(&self, _ranges: &[(u16, u16)]) -> Result<VlanId, StoreError> {
        Err(read_only())
    }

    fn seal(&self, _secret: &str) -> Result<Sealed<String>, SealError> {
        Err(SealError)
    }
}
