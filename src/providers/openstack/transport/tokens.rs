//! Tokens: one for each login, asked for once however many wait for it, renewed before it ends.
//!
//! A token never changes its scope: what is kept under a login was asked for with exactly that login. One that the cloud
//! no longer takes is replaced by naming it: of many callers that were refused with the same token one asks anew, and
//! the others find a token that is not the one they name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

use super::error::CallError;
use super::login::{Grant, Login, LoginKey};

/// How many tokens are kept. One or two for each principal that was busy within a token's life; beyond this the ones
/// that end first are forgotten and asked for again.
const TOKENS_MAX: usize = 20_000;

/// A token is renewed this long before it ends, at most: calls take up to half a minute and begin with a good one.
const RENEWED_BEFORE_MAX: Duration = Duration::from_mins(5);

/// A token, and what the cloud said of it.
#[derive(Debug)]
pub struct Token {
    /// Marked as sensitive: never printed.
    pub(super) header: HeaderValue,
    pub grant: Grant,
    renewed_at: Instant,
}

impl Token {
    pub(super) fn new(header: HeaderValue, grant: Grant, asked_at: Instant) -> Self {
        let before = (grant.lifetime / 10).min(RENEWED_BEFORE_MAX);
        let renewed_at = asked_at + grant.lifetime.saturating_sub(before);
        Self { header, grant, renewed_at }
    }
}

/// Where the token of one login is. Whoever asks for it holds the lock meanwhile.
#[derive(Default)]
struct Slot {
    place: tokio::sync::Mutex<Place>,
}

#[derive(Default)]
struct Place {
    token: Option<Arc<Token>>,
    /// When a log-in last failed, and how: those who waited for it meanwhile share the answer.
    failed: Option<(Instant, CallError)>,
}

/// The tokens of one cloud.
#[derive(Default)]
pub(super) struct Tokens {
    slots: Mutex<BTreeMap<LoginKey, (Instant, Arc<Slot>)>>,
}

impl Tokens {
    fn slot(&self, login: &Login) -> Arc<Slot> {
        let now = Instant::now();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= TOKENS_MAX {
            let used = slots.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            used.map(|key| slots.remove(&key));
        }
        let (used, slot) = slots.entry(login.key()).or_insert_with(|| (now, Arc::default()));
        *used = now;
        Arc::clone(slot)
    }

    /// A token for this login that is good for a while, and is not `stale`.
    pub(super) async fn get(
        &self,
        login: &Login,
        stale: Option<&Token>,
        ask: impl AsyncFnOnce() -> Result<Token, CallError>,
    ) -> Result<Arc<Token>, CallError> {
        let began = Instant::now();
        let slot = self.slot(login);
        let mut place = slot.place.lock().await;
        let is_good = |token: &&Arc<Token>| {
            Instant::now() < token.renewed_at && stale.is_none_or(|old| old.header != token.header)
        };
        if let Some(token) = place.token.as_ref().filter(is_good) {
            return Ok(Arc::clone(token));
        }
        if let Some((at, error)) = place.failed.as_ref().filter(|(at, _)| *at > began) {
            tracing::trace!(since = ?at.elapsed(), "a log-in that failed meanwhile is not repeated");
            return Err(error.clone());
        }
        place.token = None;
        match ask().await {
            Ok(token) => {
                let token = Arc::new(token);
                *place = Place { token: Some(Arc::clone(&token)), failed: None };
                Ok(token)
            }
            Err(error) => {
                place.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::login::{Proof, Reference, Scope};
    use super::super::secret::Secret;
    use super::*;

    fn login(project: &str) -> Login {
        let password = Secret::new("s".to_owned());
        let proof = Proof::Password { user: Reference::Id("u".to_owned()), password };
        Login { proof, scope: Scope::Project(Reference::Id(project.to_owned())) }
    }

    fn token(number: u32, lifetime: Duration) -> Token {
        let grant = Grant {
            user: "u".to_owned(),
            project: None,
            domain: None,
            home: None,
            roles: Vec::new(),
            endpoints: BTreeMap::new(),
            lifetime,
        };
        Token::new(HeaderValue::from(number), grant, Instant::now())
    }

    const HOUR: Duration = Duration::from_hours(1);

    #[tokio::test(start_paused = true)]
    async fn b35_many_who_wait_share_one_log_in_and_each_scope_has_its_own() {
        let (tokens, asked) = (Tokens::default(), AtomicU32::new(0));
        let get = async |project: &str| {
            let ask = async || {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(token(asked.fetch_add(1, Ordering::Relaxed), HOUR))
            };
            tokens.get(&login(project), None, ask).await.map(|token| token.header.clone())
        };
        let (first, second, other) = tokio::join!(get("a"), get("a"), get("b"));
        assert_eq!(first.expect("a token"), second.expect("a token"));
        other.expect("a token");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_before_it_ends_and_once_when_it_is_refused() {
        let (tokens, asked) = (Tokens::default(), AtomicU32::new(0));
        let get = async |stale: Option<Arc<Token>>| {
            let ask = async || Ok(token(asked.fetch_add(1, Ordering::Relaxed), HOUR));
            tokens.get(&login("a"), stale.as_deref(), ask).await.expect("a token")
        };
        let first = get(None).await;
        tokio::time::advance(Duration::from_mins(54)).await;
        assert_eq!(get(None).await.header, first.header);
        tokio::time::advance(Duration::from_mins(2)).await;
        let second = get(None).await;
        assert_ne!(second.header, first.header);
        let (third, again) = tokio::join!(get(Some(Arc::clone(&second))), get(Some(second)));
        assert_eq!(third.header, again.header);
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_in_that_fails_is_not_repeated_by_those_who_waited_for_it() {
        let (tokens, asked) = (Tokens::default(), AtomicU32::new(0));
        let get = async || {
            let ask = async || {
                tokio::time::sleep(Duration::from_secs(1)).await;
                asked.fetch_add(1, Ordering::Relaxed);
                Err(CallError::LoginRefused)
            };
            tokens.get(&login("a"), None, ask).await
        };
        let (first, second) = tokio::join!(get(), get());
        assert!(first.is_err() && second.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert!(get().await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 2, "whoever comes later tries again");
    }
}
