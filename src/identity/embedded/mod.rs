//! Identities that live in the Store: a token is looked up by its id and compared by its hash, and what its holder may
//! do is worked out from the groups of their organization.
//!
//! Recognized callers are remembered for a few seconds, because a client that polls would otherwise cost several store
//! reads per request. Tokens that were refused are not remembered: an attacker could fill the memory with them.
//!
//! ```text
//!   request ──▶ has the store moved? ──▶ did anything change that rights follow from? ──▶ a new generation
//!                      └── no ─────────────────── no ──┴──▶ remembered, of this generation? ──▶ believed
//! ```
//!
//! What is remembered is of a *generation*. Before anything remembered is believed, the changes since the last look are
//! read from the store's log, nearly always from memory; a change of an identity begins a new generation, whoever made
//! it. So nothing that was worked out before a commit is believed after its answer, not even what a slow reader
//! remembers late.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::digest::{Context, SHA256};
use dashmap::DashMap;
use jiff::Timestamp;
use tokio::sync::watch;

use super::acl::{Acl, OrganizationGrants};
use super::membership::{Roles, granted};
use super::speaking::{ActorKind, Delegate, SpeakingFor};
use super::{Account, AuthenticationError, Caller, IdentityService};
use crate::model::ambient::Ambient;
use crate::model::ids::{GroupId, Key, Kind, OrganizationId, ProjectId, ServiceAccountId, UserId};
use crate::model::member::{Group, GroupSpec, User, UserState};
use crate::model::organization::{Project, ProjectSpec};
use crate::model::record::{Record, ResourceKind};
use crate::model::token::{BearerToken, BoundTo, Token, TokenSpec};
use crate::store::{Change, ChangeEvent, Changes, Filter, Pages, Position, Store, StoreError};

/// How long a recognized caller is believed without looking again, when nothing changes. A net under the log: longer
/// would not spare the store anything that matters; shorter would not spare it a client that polls every second.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// How many callers are remembered at once: some tens of megabytes when all are users with many projects. Beyond it the
/// store is asked each time, which is slower but never wrong.
const REMEMBERED_MAX: usize = 16_384;

/// How many changes one look goes through. Whoever lags further has missed a burst, and is better off forgetting all.
const CHANGES_MAX: usize = 256;

/// No token of ours is longer; what is longer is not worth hashing.
const BEARER_LEN_MAX: usize = 512;

type Fingerprint = [u8; 32];

struct Remembered {
    caller: Caller,
    until: Timestamp,
    generation: u64,
}

/// Recognizes the tokens that the Store holds.
pub struct EmbeddedIdentity {
    store: Arc<dyn Store>,
    ambient: Ambient,
    remembered: DashMap<Fingerprint, Remembered>,
    generation: AtomicU64,
    latest: watch::Receiver<Position>,
    /// The position up to which changes have been looked at.
    seen: AtomicU64,
}

impl EmbeddedIdentity {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, ambient: Ambient) -> Self {
        let latest = store.latest();
        let seen = AtomicU64::new(latest.borrow().0);
        Self { store, ambient, remembered: DashMap::new(), generation: AtomicU64::new(0), latest, seen }
    }

    /// Begins a new generation if anything that rights follow from has changed since the last look. Several may look
    /// at once: the position moves only after the generation, so that nobody passes between the two.
    async fn catch_up(&self) {
        let latest = *self.latest.borrow();
        let seen = Position(self.seen.load(Ordering::SeqCst));
        if latest <= seen {
            return;
        }
        let changed = match self.store.changes(seen, CHANGES_MAX).await {
            Ok(Changes::Next(changes)) => changes.len() >= CHANGES_MAX || changes.iter().any(concerns_rights),
            Ok(Changes::Resync(_)) | Err(_) => true,
        };
        if changed {
            let generation = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
            // Nobody will believe the others again: each costs its removal once.
            self.remembered.retain(|_, entry| entry.generation >= generation);
        }
        self.seen.fetch_max(latest.0, Ordering::SeqCst);
    }

    fn recall(&self, fingerprint: &Fingerprint, now: Timestamp) -> Option<Caller> {
        let entry = self.remembered.get(fingerprint)?;
        let current = entry.generation == self.generation.load(Ordering::SeqCst);
        (current && now < entry.until).then(|| entry.caller.clone())
    }

    fn remember(&self, fingerprint: Fingerprint, entry: Remembered, now: Timestamp) {
        let generation = self.generation.load(Ordering::SeqCst);
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.retain(|_, entry| now < entry.until && entry.generation == generation);
            if self.remembered.len() >= REMEMBERED_MAX {
                return;
            }
        }
        self.remembered.insert(fingerprint, entry);
    }

    /// The token's record, if the presented token opens it now.
    async fn admitted(&self, presented: &BearerToken, now: Timestamp) -> Result<TokenSpec, AuthenticationError> {
        let record = self.live(presented.id.key()).await?.ok_or(AuthenticationError::Invalid)?;
        let token = opened::<Token>(&record)?;
        if token.admits(presented, now) { Ok(token) } else { Err(AuthenticationError::Invalid) }
    }

    async fn resolve(&self, token: &TokenSpec, speaking: &SpeakingFor) -> Result<Caller, AuthenticationError> {
        let subject = token.subject.clone();
        match token.bound_to {
            BoundTo::Role(role) => {
                let acl = Acl::of_role(role);
                if !role.is_service() {
                    return Ok(Caller::new(subject, acl));
                }
                let caller = Caller::with_account(subject, acl.clone(), Account::Service);
                let Some(delegate) = speaking.delegate()? else { return Ok(caller) };
                let acl = if speaking.impersonate { self.acl_of(&delegate).await?.and(&acl) } else { acl };
                Ok(caller.speaking_for(delegate, acl))
            }
            BoundTo::User(user) => {
                let record = self.live(user.key()).await?.ok_or(AuthenticationError::Invalid)?;
                let organization = home(&record)?;
                let acl = self.acl_of_user(organization, user).await?;
                Ok(Caller::with_account(subject, acl, Account::Member(organization)))
            }
            BoundTo::ServiceAccount(account) => {
                let record = self.live(account.key()).await?.ok_or(AuthenticationError::Invalid)?;
                let organization = home(&record)?;
                let acl = self.acl_of_account(organization, account).await?;
                Ok(Caller::with_account(subject, acl, Account::Member(organization)))
            }
        }
    }

    /// What somebody may do for whom a service speaks. Whoever is not found may do nothing.
    async fn acl_of(&self, delegate: &Delegate) -> Result<Acl, AuthenticationError> {
        let mut acl = Acl::default();
        for &organization in &delegate.organizations {
            let theirs = match delegate.kind {
                ActorKind::User => self.acl_of_user(organization, UserId::of(organization, &delegate.actor)).await?,
                ActorKind::Service => match delegate.actor.parse() {
                    Ok(account) => self.acl_of_account(organization, account).await?,
                    Err(_) => Acl::default(),
                },
                ActorKind::System => Acl::default(),
            };
            acl.organizations.extend(theirs.organizations);
        }
        Ok(acl)
    }

    /// Users that are not active have nothing, not even an organization.
    async fn acl_of_user(&self, organization: OrganizationId, user: UserId) -> Result<Acl, AuthenticationError> {
        let Some(record) = self.member(organization, user.key()).await? else { return Ok(Acl::default()) };
        let spec = opened::<User>(&record)?;
        if spec.state != UserState::Active {
            return Ok(Acl::default());
        }
        self.acl_in(organization, |group| group.has_user(user, &spec.subject)).await
    }

    async fn acl_of_account(
        &self,
        organization: OrganizationId,
        account: ServiceAccountId,
    ) -> Result<Acl, AuthenticationError> {
        if self.member(organization, account.key()).await?.is_none() {
            return Ok(Acl::default());
        }
        self.acl_in(organization, |group| group.service_accounts.contains(&account)).await
    }

    async fn acl_in(
        &self,
        organization: OrganizationId,
        has: impl Fn(&GroupSpec) -> bool,
    ) -> Result<Acl, AuthenticationError> {
        let mut roles = Roles::new();
        for (id, group) in self.all_of::<Group>(organization).await? {
            if has(&group) {
                roles.insert(GroupId(id), group.roles);
            }
        }
        let projects = if roles.is_empty() { BTreeMap::new() } else { self.all_of::<Project>(organization).await? };
        let linked = |(id, project): (&uuid::Uuid, &'_ ProjectSpec)| (ProjectId(*id), project.groups.clone());
        let projects = projects.iter().map(linked).collect::<Vec<_>>();
        let grants: OrganizationGrants =
            granted(&roles, projects.iter().map(|(project, groups)| (*project, groups.as_slice())));
        Ok(Acl { organizations: BTreeMap::from([(organization, grants)]), ..Acl::default() })
    }

    /// Every record of a kind in an organization. One that cannot be read gives nobody anything.
    async fn all_of<K: ResourceKind>(
        &self,
        organization: OrganizationId,
    ) -> Result<BTreeMap<uuid::Uuid, K::Spec>, AuthenticationError> {
        let filter = Filter { organizations: Some(vec![organization]), ..Filter::of(K::KIND) };
        let mut pages = Pages::of(&*self.store, filter);
        let mut all = BTreeMap::new();
        while let Some(records) = pages.next().await.map_err(|error| unreadable(&error))? {
            all.extend(records.iter().filter_map(|record| Some((record.key.id, opened::<K>(record).ok()?))));
        }
        Ok(all)
    }

    /// The record, unless it is gone or going.
    async fn live(&self, key: Key) -> Result<Option<Arc<Record>>, AuthenticationError> {
        let record = self.store.get(key).await.map_err(|error| unreadable(&error))?;
        Ok(record.filter(|record| !record.metadata.is_deleting()))
    }

    /// The record, if it belongs to this organization, which must be there itself.
    async fn member(&self, organization: OrganizationId, key: Key) -> Result<Option<Arc<Record>>, AuthenticationError> {
        let exists = self.store.get(organization.key()).await.map_err(|error| unreadable(&error))?.is_some();
        let record = self.live(key).await?;
        Ok(record.filter(|record| exists && record.metadata.placement.organization == Some(organization)))
    }
}

#[async_trait]
impl IdentityService for EmbeddedIdentity {
    async fn authenticate(&self, bearer: &str, speaking: &SpeakingFor) -> Result<Caller, AuthenticationError> {
        if bearer.len() > BEARER_LEN_MAX {
            return Err(AuthenticationError::Invalid);
        }
        let presented = BearerToken::parse(bearer).ok_or(AuthenticationError::Invalid)?;
        // What anybody but a service says of others changes nothing, and must not cost a place.
        let (alone, speaking_so) = (fingerprint(bearer, &SpeakingFor::default()), fingerprint(bearer, speaking));
        let is_service = |caller: &Caller| caller.account() == Account::Service;
        let now = self.ambient.now();
        self.catch_up().await;
        let known = self.recall(&speaking_so, now);
        if let Some(caller) = known.or_else(|| self.recall(&alone, now).filter(|caller| !is_service(caller))) {
            return Ok(caller);
        }
        // Before the first read: what changes from here on makes what is read here obsolete.
        let generation = self.generation.load(Ordering::SeqCst);
        let token = self.admitted(&presented, now).await?;
        let caller = self.resolve(&token, speaking).await?;
        let forget = now + REMEMBERED_FOR;
        let until = token.expires.map_or(forget, |expires| expires.min(forget));
        let fingerprint = if is_service(&caller) { speaking_so } else { alone };
        self.remember(fingerprint, Remembered { caller: caller.clone(), until, generation }, now);
        Ok(caller)
    }
}

/// Can what somebody may do follow from this? That somebody refers to a project gives nobody anything.
fn concerns_rights(change: &Change) -> bool {
    let told = !matches!(change.event, ChangeEvent::Referenced);
    let kinds = [Kind::Organization, Kind::Project, Kind::Group, Kind::User, Kind::ServiceAccount, Kind::Token];
    told && kinds.contains(&change.key.kind)
}

/// Tells requests apart that may be answered differently. A token has no byte of zero in it.
fn fingerprint(bearer: &str, speaking: &SpeakingFor) -> Fingerprint {
    let mut context = Context::new(&SHA256);
    context.update(bearer.as_bytes());
    context.update(if speaking.impersonate { b"\0as" } else { b"\0by" });
    context.update(speaking.principal.as_deref().unwrap_or_default().as_bytes());
    let mut fingerprint = Fingerprint::default();
    fingerprint.copy_from_slice(context.finish().as_ref());
    fingerprint
}

fn home(record: &Record) -> Result<OrganizationId, AuthenticationError> {
    record.metadata.placement.organization.ok_or(AuthenticationError::Invalid)
}

fn opened<K: ResourceKind>(record: &Record) -> Result<K::Spec, AuthenticationError> {
    record.open::<K>().map(|resource| resource.spec).map_err(|corrupt| unreadable(&corrupt.into()))
}

/// A record that is damaged lets nobody in; a store that is away says nothing about the token.
fn unreadable(error: &StoreError) -> AuthenticationError {
    match error {
        StoreError::Unavailable(cause) => AuthenticationError::Unavailable(cause.clone()),
        StoreError::Corrupt(_) | StoreError::Refused(_) => {
            tracing::error!(%error, "an identity's record cannot be used");
            AuthenticationError::Invalid
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ambient::Uninterrupted;
    use crate::model::ids::{Incarnation, TokenId};
    use crate::model::metadata::{Metadata, Placement};
    use crate::model::token::Role;
    use crate::store::memory::{MemoryDisk, MemoryStore, Mode};
    use crate::store::{Batch, Write};

    async fn bearer_of(identity: &EmbeddedIdentity, role: Role) -> String {
        let ambient = &identity.ambient;
        let token = BearerToken::new(TokenId(ambient.uuid()), &[7; 32]);
        let metadata = Metadata::new(Incarnation(ambient.uuid()), "x", Placement::default(), "test", ambient.now());
        let record = Record::new::<Token>(token.id.0, metadata, &token.spec("x", role, None));
        identity.store.commit(Batch::of(vec![Write::Insert(Box::new(record))])).await.expect("commits");
        token.reveal()
    }

    #[tokio::test]
    async fn only_what_a_service_says_takes_a_place_and_a_new_generation_gives_all_of_them_back() {
        let ambient = Ambient::system();
        let store = MemoryStore::open(MemoryDisk::new(), ambient.clone(), Arc::new(Uninterrupted), Mode::Atomic);
        let identity = EmbeddedIdentity::new(Arc::new(store), ambient);
        let operator = bearer_of(&identity, Role::PlatformAdministrator).await;
        let service = bearer_of(&identity, Role::ComputeService).await;
        // {"actor":"a"} and {"actor":"b"}
        for principal in [None, Some("eyJhY3RvciI6ImEifQ"), Some("eyJhY3RvciI6ImIifQ")] {
            let said = SpeakingFor { principal: principal.map(str::to_owned), impersonate: false };
            for bearer in [&operator, &service].into_iter().cycle().take(4) {
                let caller = identity.authenticate(bearer, &said).await.expect("recognized");
                let named = caller.delegate().map(|delegate| delegate.actor.as_str());
                let expected = principal.map(|text| if text.ends_with("EifQ") { "a" } else { "b" });
                assert_eq!(named, expected.filter(|_| bearer == &service), "{principal:?}");
            }
        }
        assert_eq!(identity.remembered.len(), 4);
        bearer_of(&identity, Role::PlatformReader).await;
        identity.authenticate(&operator, &SpeakingFor::default()).await.expect("recognized");
        assert_eq!(identity.remembered.len(), 1);
    }
}
