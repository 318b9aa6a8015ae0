//! The kinds table: where a kind is registered, once, with everything the rest of the system needs of it.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::model::cluster::Cluster;
use crate::model::condition::{Reason, Statement, Truth};
use crate::model::file_storage::FileStorage;
use crate::model::identity::Identity;
use crate::model::ids::{Key, Kind};
use crate::model::image::Image;
use crate::model::instance::Instance;
use crate::model::load_balancer::LoadBalancer;
use crate::model::metadata::Metadata;
use crate::model::network::Network;
use crate::model::organization::{Organization, Project};
use crate::model::record::{CorruptRecord, Document, Record, Resource, ResourceKind};
use crate::model::security_group::SecurityGroup;
use crate::model::server::Server;
use crate::model::ssh_certificate_authority::SshCertificateAuthority;
use crate::model::volume::Volume;
use crate::providers::call::Fact;
use crate::store::{Store, StoreError};

use super::decision::{Decision, Step, View, decide};

/// What a kind brings. All of it is pure, but for what it may prepare before any actor starts.
pub trait Behaviour: ResourceKind + Sized {
    /// Does a monitor look at it in bulk?
    const IS_MONITORED: bool = false;

    /// Is it as what it waits for is? Then it is told of every change of that, and not only of whether it is ready.
    const FOLLOWS: bool = false;

    /// Which of those that it owns it answers for: it looks at them in every pass, and is told of their every change.
    const GOVERNS: Option<Kind> = None;

    /// Can verbs be asked of it?
    const HAS_VERBS: bool = false;

    /// Is a monitor's word taken into what is known, or only a reason to look?
    const TAKES_SIGHTINGS: bool = false;

    /// Does its deletion also reach those of this kind that refer to it? The bridge to what hangs elsewhere in the tree.
    fn is_bridge_to(_kind: Kind) -> bool {
        false
    }

    /// What must be ready before it can be made, or what it follows.
    fn gates(_resource: &Resource<Self>) -> Vec<Key> {
        Vec::new()
    }

    /// What it uses, so that this cannot be deleted under it. Taken when it is accepted; what is no longer in here is
    /// given back once the cloud has followed.
    fn references(_resource: &Resource<Self>) -> Option<Vec<Key>> {
        None
    }

    /// How it is made and unmade. What exists by being stored has no steps.
    fn step(_resource: &Resource<Self>) -> Result<Step, CorruptRecord> {
        Ok(Step::Serial(Vec::new()))
    }

    /// What happens next. A kind whose making is more than a tree of steps decides by itself.
    fn decide(resource: &Resource<Self>, view: &View<'_>) -> Result<Decision, CorruptRecord> {
        Ok(decide(&Self::step(resource)?, view))
    }

    /// Takes a fact from the cloud into what is known. The same for the answer of a call and the word of a monitor.
    fn absorb(_detail: &mut Self::Detail, _fact: &Fact) -> Health {
        Health::Healthy
    }

    /// A complete list did not have it.
    fn vanished(_detail: &mut Self::Detail) {}

    /// What the Active axis says, for kinds that run.
    fn active(_detail: &Self::Detail) -> Option<Statement> {
        None
    }

    /// Has the cloud, as far as is known, anything of it?
    fn is_realised(_detail: &Self::Detail) -> bool {
        false
    }

    /// What the cloud's objects looked like when they were last as asked for: a monitor that sees another one has news.
    fn fingerprint(_detail: &Self::Detail) -> Option<u64> {
        None
    }

    /// Has the cloud followed this generation, whatever else it is still waited for?
    fn has_followed(_detail: &Self::Detail, _generation: u64) -> bool {
        false
    }

    /// Who is to go once this resource has gone: a hidden owner, or what was made for it alone.
    fn followed_by(_resource: &Resource<Self>) -> Option<Key> {
        None
    }

    /// Runs after the store opens and before any actor.
    fn initialise(_store: &dyn Store) -> BoxFuture<'_, Result<(), StoreError>> {
        std::future::ready(Ok(())).boxed()
    }

    /// Brings metadata that an older version wrote up to date. Has no access to the specification.
    fn upgrade(_from_version: u32, _metadata: &mut Metadata) {}
}

/// How what was seen is doing, in user-safe words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Healthy,
    Degraded(String),
    Errored(String),
    Unknown(String),
}

impl Health {
    /// Of an object that is well unless something is the matter.
    #[must_use]
    pub fn unless(trouble: Option<String>) -> Self {
        trouble.map_or(Self::Healthy, Self::Degraded)
    }

    /// What the Healthy axis says of it.
    #[must_use]
    pub fn statement(self) -> Statement {
        match self {
            Self::Healthy => Statement::new(Truth::True, Reason::Healthy, "healthy"),
            Self::Degraded(trouble) => Statement::new(Truth::False, Reason::Degraded, trouble),
            Self::Errored(trouble) => Statement::new(Truth::False, Reason::Errored, trouble),
            Self::Unknown(trouble) => Statement::new(Truth::Unknown, Reason::Unknown, trouble),
        }
    }
}

/// A kind without its types, for those who handle all alike.
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub struct KindEntry {
    pub kind: Kind,
    pub is_monitored: bool,
    pub follows: bool,
    pub governs: Option<Kind>,
    pub is_bridge_to: fn(Kind) -> bool,
    pub has_verbs: bool,
    pub takes_sightings: bool,
    pub gates: fn(&Record) -> Result<Vec<Key>, CorruptRecord>,
    pub references: fn(&Record) -> Result<Option<Vec<Key>>, CorruptRecord>,
    pub decide: fn(&View<'_>) -> Result<Decision, CorruptRecord>,
    pub absorb: fn(Key, &Document, &Fact) -> Result<Absorbed, CorruptRecord>,
    pub vanished: fn(Key, &Document) -> Result<Document, CorruptRecord>,
    pub active: fn(&Document) -> Option<Statement>,
    pub is_realised: fn(&Record) -> bool,
    pub fingerprint: fn(&Record) -> Option<u64>,
    pub has_followed: fn(&Document, u64) -> bool,
    pub followed_by: fn(&Record) -> Result<Option<Key>, CorruptRecord>,
    pub upgrade: fn(u32, &mut Metadata),
    pub initialise: for<'a> fn(&'a dyn Store) -> BoxFuture<'a, Result<(), StoreError>>,
}

/// What taking in a fact came to.
pub struct Absorbed {
    pub detail: Document,
    pub health: Health,
}

fn opened<T: DeserializeOwned>(key: Key, detail: &Document) -> Result<T, CorruptRecord> {
    detail.read().map_err(|cause| CorruptRecord { key, part: "status detail", cause: cause.to_string() })
}

impl KindEntry {
    const fn of<K: Behaviour>() -> Self {
        Self {
            kind: K::KIND,
            is_monitored: K::IS_MONITORED,
            follows: K::FOLLOWS,
            governs: K::GOVERNS,
            is_bridge_to: K::is_bridge_to,
            has_verbs: K::HAS_VERBS,
            takes_sightings: K::TAKES_SIGHTINGS,
            gates: |record| Ok(K::gates(&record.open::<K>()?)),
            references: |record| Ok(K::references(&record.open::<K>()?)),
            decide: |view| {
                let mut resource = view.record.open::<K>()?;
                // What this pass has learnt is newer than what was stored when it began.
                resource.detail = opened(view.record.key, view.detail)?;
                K::decide(&resource, view)
            },
            absorb: |key, detail, fact| {
                let mut known = opened::<K::Detail>(key, detail)?;
                let health = K::absorb(&mut known, fact);
                Ok(Absorbed { detail: Document::of(&known), health })
            },
            vanished: |key, detail| {
                let mut known = opened::<K::Detail>(key, detail)?;
                K::vanished(&mut known);
                Ok(Document::of(&known))
            },
            active: |detail| detail.read::<K::Detail>().ok().and_then(|detail| K::active(&detail)),
            is_realised: |record| record.detail.read::<K::Detail>().is_ok_and(|detail| K::is_realised(&detail)),
            fingerprint: |record| record.detail.read::<K::Detail>().ok().and_then(|detail| K::fingerprint(&detail)),
            has_followed: |detail, generation| {
                detail.read::<K::Detail>().is_ok_and(|detail| K::has_followed(&detail, generation))
            },
            followed_by: |record| Ok(K::followed_by(&record.open::<K>()?)),
            upgrade: K::upgrade,
            initialise: K::initialise,
        }
    }
}

/// Every kind that has actors, owners before what they own. A kind that is not here is only a record.
static KINDS: &[KindEntry] = &[
    KindEntry::of::<Organization>(),
    KindEntry::of::<Project>(),
    KindEntry::of::<Identity>(),
    KindEntry::of::<Network>(),
    KindEntry::of::<SecurityGroup>(),
    KindEntry::of::<LoadBalancer>(),
    KindEntry::of::<SshCertificateAuthority>(),
    KindEntry::of::<Server>(),
    KindEntry::of::<Volume>(),
    KindEntry::of::<Image>(),
    KindEntry::of::<FileStorage>(),
    KindEntry::of::<Cluster>(),
    KindEntry::of::<Instance>(),
];

#[must_use]
pub fn entry(kind: Kind) -> Option<&'static KindEntry> {
    KINDS.iter().find(|entry| entry.kind == kind)
}

pub fn all() -> impl Iterator<Item = &'static KindEntry> {
    KINDS.iter()
}
