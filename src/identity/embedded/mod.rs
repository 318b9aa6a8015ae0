//! Identities that live in the Store: a token is looked up by its id and compared by its hash.
//!
//! Recognized tokens are remembered for a few seconds, because a client that polls would otherwise cost a store
//! read per request. Tokens that were refused are not remembered: an attacker could fill the memory with them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use dashmap::DashMap;
use jiff::Timestamp;

use super::acl::Acl;
use super::{AuthenticationError, Caller, IdentityService};
use crate::model::ambient::Ambient;
use crate::model::token::{BearerToken, Token};
use crate::store::{Store, StoreError};

/// How long a recognized token is believed without looking again, and so how long a revoked one still works.
/// Longer would make revocation feel broken; shorter would not spare the store a client that polls every second.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// How many tokens are remembered at once: a few megabytes. Beyond it the store is asked each time, which is
/// slower but never wrong.
const REMEMBERED_MAX: usize = 16_384;

/// No token of ours is longer; what is longer is not worth hashing.
const BEARER_LEN_MAX: usize = 512;

type Fingerprint = [u8; 32];

struct Remembered {
    caller: Caller,
    until: Timestamp,
}

/// Recognizes the tokens that the Store holds.
pub struct EmbeddedIdentity {
    store: Arc<dyn Store>,
    ambient: Ambient,
    remembered: DashMap<Fingerprint, Remembered>,
}

impl EmbeddedIdentity {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, ambient: Ambient) -> Self {
        Self { store, ambient, remembered: DashMap::new() }
    }

    fn recall(&self, fingerprint: &Fingerprint, now: Timestamp) -> Option<Caller> {
        let entry = self.remembered.get(fingerprint)?;
        (now < entry.until).then(|| entry.caller.clone())
    }

    fn remember(&self, fingerprint: Fingerprint, caller: &Caller, expires: Option<Timestamp>, now: Timestamp) {
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.retain(|_, entry| now < entry.until);
            if self.remembered.len() >= REMEMBERED_MAX {
                return;
            }
        }
        let forget = now + REMEMBERED_FOR;
        let until = expires.map_or(forget, |expires| expires.min(forget));
        self.remembered.insert(fingerprint, Remembered { caller: caller.clone(), until });
    }
}

#[async_trait]
impl IdentityService for EmbeddedIdentity {
    async fn authenticate(&self, bearer: &str) -> Result<Caller, AuthenticationError> {
        if bearer.len() > BEARER_LEN_MAX {
            return Err(AuthenticationError::Invalid);
        }
        let presented = BearerToken::parse(bearer).ok_or(AuthenticationError::Invalid)?;
        let mut fingerprint = Fingerprint::default();
        fingerprint.copy_from_slice(digest(&SHA256, bearer.as_bytes()).as_ref());
        let now = self.ambient.now();
        if let Some(caller) = self.recall(&fingerprint, now) {
            return Ok(caller);
        }
        let record = match self.store.get(presented.id.key()).await {
            Ok(Some(record)) if !record.metadata.is_deleting() => record,
            Ok(_) => return Err(AuthenticationError::Invalid),
            Err(error) => return Err(unreadable(&error)),
        };
        let token = record.open::<Token>().map_err(|corrupt| unreadable(&corrupt.into()))?.spec;
        if !token.admits(&presented, now) {
            return Err(AuthenticationError::Invalid);
        }
        let caller = Caller::new(token.subject.clone(), Acl::of_role(token.role));
        self.remember(fingerprint, &caller, token.expires, now);
        Ok(caller)
    }
}

/// A token whose record is damaged lets nobody in; a store that is away says nothing about the token.
fn unreadable(error: &StoreError) -> AuthenticationError {
    match error {
        StoreError::Unavailable(cause) => AuthenticationError::Unavailable(cause.clone()),
        StoreError::Corrupt(_) | StoreError::Refused(_) => {
            tracing::error!(%error, "a token's record cannot be used");
            AuthenticationError::Invalid
        }
    }
}
