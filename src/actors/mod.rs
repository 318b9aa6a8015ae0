//! What each kind does: the generic resource actor, and one file per kind with its steps.
//!
//! ```text
//!            message                     decide(view)
//!   mailbox ────────▶ ResourceActor ──▶ pass ──▶ effects ──▶ provider, store
//!      ▲                                  │  ▲       │
//!      │                                  │  └───────┘ results
//!      └────────── PassFinished ──────────┘
//! ```
//!
//! A kind is pure: it says what must be ready first, which steps make and unmake it, and how a fact from the cloud
//! is taken into its status. The actor does the rest, the same for all: one pass at a time, beside the mailbox.

pub mod cluster;
pub mod decision;
pub mod file_storage;
pub mod foresight;
pub mod identity;
pub mod image;
pub mod instance;
pub mod kind;
pub mod load_balancer;
pub mod monitor;
pub mod network;
pub mod pass;
pub mod resource;
pub mod security_group;
pub mod server;
pub mod tasks;
pub mod tenants;
pub mod volume;

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;

use crate::graph::Graph;
use crate::model::ambient::Ambient;
use crate::model::ids::RegionId;
use crate::model::sealed::EnvelopeKey;
use crate::providers::Provider;
use crate::store::Store;

/// What every actor of a process shares.
pub struct Environment {
    pub store: Arc<dyn Store>,
    pub graph: Graph,
    pub clouds: Clouds,
    pub ambient: Ambient,
    pub envelope: Arc<EnvelopeKey>,
    pub options: Options,
    pub stopping: tokio_util::sync::CancellationToken,
    pub passes: tasks::PassCount,
}

impl Environment {
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        ambient: Ambient,
        envelope: impl Into<Arc<EnvelopeKey>>,
        options: Options,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            graph: Graph::start(),
            clouds: Clouds::default(),
            ambient,
            envelope: envelope.into(),
            options,
            stopping: tokio_util::sync::CancellationToken::new(),
            passes: tasks::PassCount::default(),
        })
    }
}

/// One failure is often a bad host; more than a few are a bad request.
pub const CREATION_TRIES_MAX_DEFAULT: u32 = 3;

/// How patient actors are.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long an actor that waits for a message goes without looking by itself. Shorter hides lost messages and
    /// costs reads of the cloud; longer makes a lost message felt.
    pub safety_net: Duration,
    pub retry_first: Duration,
    /// Longer than this and a cloud that is back seems to be still away.
    pub retry_longest: Duration,
    /// How many tries in a row may fail before the resource is shown as failed. At the longest wait this is about
    /// twenty minutes: most outages are over by then, and a user who waits longer wants to be told. It goes on
    /// trying all the same.
    pub retry_budget: u32,
    /// How often a cloud may fail to bring something up before that is the end of it, until it is changed or reset.
    pub creation_tries_max: u32,
    pub poll_settled: Duration,
    pub poll_pending: Duration,
    /// How late actors hear of commits. Zero but in tests, which look for what depends on hearing at once.
    pub dispatch_delay: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            safety_net: Duration::from_mins(1),
            retry_first: Duration::from_millis(500),
            retry_longest: Duration::from_secs(10),
            retry_budget: 120,
            creation_tries_max: CREATION_TRIES_MAX_DEFAULT,
            poll_settled: Duration::from_mins(1),
            poll_pending: Duration::from_secs(1),
            dispatch_delay: Duration::ZERO,
        }
    }
}

/// The clouds that can be reached, by region.
#[derive(Clone, Default)]
pub struct Clouds {
    providers: Arc<DashMap<RegionId, Arc<dyn Provider>>>,
}

impl Clouds {
    pub fn insert(&self, provider: Arc<dyn Provider>) {
        self.providers.insert(provider.region(), provider);
    }

    /// The region is no longer configured: its resources are left as they are.
    pub fn remove(&self, region: RegionId) {
        self.providers.remove(&region);
    }

    #[must_use]
    pub fn get(&self, region: RegionId) -> Option<Arc<dyn Provider>> {
        self.providers.get(&region).map(|provider| Arc::clone(&provider))
    }
}
