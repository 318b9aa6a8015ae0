//! The kinds table: where a kind is registered, once, with everything the rest of the system needs of it.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::model::ids::{Key, Kind};
use crate::model::metadata::Metadata;
use crate::model::record::{CorruptRecord, Document, Record, Resource, ResourceKind};
use crate::providers::call::Fact;
use crate::store::{Store, StoreError};

use super::decision::{Decision, Step, View, decide};

/// What a kind brings. All of it is pure, but for what it may prepare before any actor starts.
pub trait Behaviour: ResourceKind + Sized {
    /// What must be ready before it can be made.
    fn gates(resource: &Resource<Self>) -> Vec<Key>;

    /// How it is made and unmade.
    fn step(resource: &Resource<Self>) -> Result<Step, CorruptRecord>;

    /// Takes a fact from the cloud into what is known. The same for the answer of a call and the word of a monitor.
    /// Returns what is wrong with it, in user-safe words, if anything is.
    fn absorb(detail: &mut Self::Detail, fact: &Fact) -> Option<String>;

    /// Has the cloud, as far as is known, anything of it?
    fn is_realised(detail: &Self::Detail) -> bool;

    /// What the cloud's objects looked like when they were last as asked for: a monitor that sees another one has news.
    fn fingerprint(_detail: &Self::Detail) -> Option<u64> {
        None
    }

    /// Does a monitor look at it in bulk?
    const IS_MONITORED: bool = false;

    /// A hidden owner that is to go once this resource has gone.
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

/// A kind without its types, for those who handle all alike.
pub struct KindEntry {
    pub kind: Kind,
    pub gates: fn(&Record) -> Result<Vec<Key>, CorruptRecord>,
    pub decide: fn(&View<'_>) -> Result<Decision, CorruptRecord>,
    pub absorb: fn(&Record, &Document, &Fact) -> Result<Absorbed, CorruptRecord>,
    pub is_realised: fn(&Record) -> bool,
    pub fingerprint: fn(&Record) -> Option<u64>,
    pub followed_by: fn(&Record) -> Result<Option<Key>, CorruptRecord>,
    pub is_monitored: bool,
    pub upgrade: fn(u32, &mut Metadata),
    pub initialise: for<'a> fn(&'a dyn Store) -> BoxFuture<'a, Result<(), StoreError>>,
}

/// What taking in a fact came to.
pub struct Absorbed {
    pub detail: Document,
    pub trouble: Option<String>,
}

impl KindEntry {
    const fn of<K: Behaviour>() -> Self {
        Self {
            kind: K::KIND,
            gates: |record| Ok(K::gates(&record.open::<K>()?)),
            decide: |view| Ok(decide(&K::step(&view.record.open::<K>()?)?, view)),
            absorb: |record, detail, fact| {
                let mut known = detail.read::<K::Detail>().map_err(|cause| CorruptRecord {
                    key: record.key,
                    part: "status detail",
                    cause: cause.to_string(),
                })?;
                let trouble = K::absorb(&mut known, fact);
                Ok(Absorbed { detail: Document::of(&known), trouble })
            },
            is_realised: |record| record.detail.read::<K::Detail>().is_ok_and(|detail| K::is_realised(&detail)),
            fingerprint: |record| record.detail.read::<K::Detail>().ok().and_then(|detail| K::fingerprint(&detail)),
            followed_by: |record| Ok(K::followed_by(&record.open::<K>()?)),
            is_monitored: K::IS_MONITORED,
            upgrade: K::upgrade,
            initialise: K::initialise,
        }
    }
}

/// Every kind that has actors. A kind that is not here is only a record.
static KINDS: [KindEntry; 2] =
    [KindEntry::of::<crate::model::identity::Identity>(), KindEntry::of::<crate::model::network::Network>()];

#[must_use]
pub fn entry(kind: Kind) -> Option<&'static KindEntry> {
    KINDS.iter().find(|entry| entry.kind == kind)
}

pub fn all() -> impl Iterator<Item = &'static KindEntry> {
    KINDS.iter()
}
