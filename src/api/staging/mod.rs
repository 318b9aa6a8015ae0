//! What a client may ask about a change beside the change itself: only to try it, to do it once, to do it to what it read.
//!
//! ```text
//!   Idempotency-Key    request ──▶ answered before? ──▶ handler, on a staged store ──▶ one commit: its batch, its answer
//!   If-Match                           │ yes                 │ refused                   │ somebody was faster: again
//!   ?dryRun=true                       ▼                     ▼                           ▼
//!                              the answer of then      its refusal            the answer, or what it would be
//! ```
//!
//! A request with none of these passes by. Any other is carried out by the very handler that serves it, with the very
//! checks, on a store that judges and does not write ([`StagedStore`]). So every route has all three, whoever wrote it;
//! the answer is known before the commit and is written in it; and nothing is written that was not asked for. What a
//! verb waits for cannot happen before it is committed: with one of these, it is answered once it is on record.

mod dry_run;
mod kept;
mod store;
mod wishes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use aws_lc_rs::digest::{Context, SHA256};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower::ServiceExt;

use super::context::RequestContext;
use super::error::{ApiError, Failure};
use super::etag::EntityTag;
use super::extract::{read_bounded, recognized};
use super::{Api, Shared, audit};
use crate::graph::completions::Completions;
use crate::identity::{Account, Caller};
use crate::model::ids::{Key, OrganizationId};
use crate::model::record::Document;
use crate::store::remembered::{Content, Remembered, RequestKey};
use crate::store::{Batch, Precondition, Refusal, StoreError, Write};
use kept::{KeptAnswer, kept};
use store::{Staged, StagedStore};
use wishes::{Expected, Wishes};

pub use dry_run::DryRun;
pub use wishes::{DRY_RUN, IDEMPOTENCY_KEY};

/// How often a change is tried against other writers: each loss means that another one won.
const TRIES_MAX: usize = 16;

/// What serves a request that is to be staged: the same handlers, without what is around them.
pub struct Staging {
    handlers: Router<Shared>,
    api: Shared,
    in_flight: InFlight,
}

impl Staging {
    #[must_use]
    pub fn of(handlers: Router<Shared>, api: &Shared) -> Arc<Self> {
        Arc::new(Self { handlers, api: Arc::clone(api), in_flight: InFlight::default() })
    }
}

/// The layer. Unknown paths are nobody's to stage.
pub async fn stage(State(staging): State<Arc<Staging>>, request: Request, next: Next) -> Response {
    let is_routed = request.extensions().get::<MatchedPath>().is_some();
    if !is_routed || !audit::is_mutation(request.method()) {
        return next.run(request).await;
    }
    match Wishes::of(&request) {
        Ok(None) => next.run(request).await,
        Ok(Some(wishes)) => staging.granted(&wishes, request).await.unwrap_or_else(IntoResponse::into_response),
        Err(refusal) => staging.earlier_refusal(request).await.unwrap_or_else(|| refusal.into_response()),
    }
}

/// A layer for handlers that do more than commit, and so cannot be tried: what they cannot do, they must not ignore.
pub async fn refuse(request: Request, next: Next) -> Response {
    let is_plain = !audit::is_mutation(request.method()) || matches!(Wishes::of(&request), Ok(None));
    if is_plain {
        return next.run(request).await;
    }
    ApiError::invalid("Idempotency-Key, If-Match and dryRun are not offered here").into_response()
}

/// A request, as often as it is needed.
struct Repeatable {
    parts: Parts,
    body: Bytes,
    context: RequestContext,
}

impl Repeatable {
    fn request(&self) -> Request {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = wishes::without_dry_run(&self.parts.uri);
        *request.version_mut() = self.parts.version;
        *request.headers_mut() = self.parts.headers.clone();
        request.extensions_mut().insert(self.context.clone());
        request
    }

    /// A digest of what is asked, the address apart.
    fn content(&self) -> Content {
        let query = wishes::without_dry_run(&self.parts.uri).query().unwrap_or_default().to_owned();
        Content(digest(&[query.as_bytes(), &self.body]))
    }

    /// A digest of who asks, where, under which key.
    fn key(&self, caller: &Caller, key: &str) -> RequestKey {
        let account = format!("{:?}", caller.account());
        let delegate = caller.delegate().map(|delegate| format!("{delegate:?}")).unwrap_or_default();
        let (method, path) = (self.parts.method.as_str(), self.parts.uri.path());
        RequestKey(digest(&[&caller.subject, &account, &delegate, method, path, key].map(str::as_bytes)))
    }
}

/// Each part is preceded by its length, so that no two lists of parts are one text.
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

impl Staging {
    async fn granted(&self, wishes: &Wishes, request: Request) -> Result<Response, ApiError> {
        let (parts, body) = request.into_parts();
        let context = parts.extensions.get::<RequestContext>().cloned();
        let context = context.ok_or_else(|| ApiError::internal(&"a request has no context"))?;
        let Ok(caller) = recognized(&self.api, &parts.headers).await else {
            // The handler has the words for it. It must not get further; should it, nothing is committed.
            let anonymous = Repeatable { parts, body: Bytes::new(), context };
            let (response, _) = self.tried(&anonymous).await;
            return if response.status().is_success() { Err(ApiError::unavailable()) } else { Ok(response) };
        };
        let repeatable = Repeatable { parts, body: read_bounded(body).await?, context };
        if wishes.dry_run {
            return self.dry(&repeatable).await;
        }
        let Some(key) = &wishes.key else { return self.done(&repeatable, wishes, &caller, None).await };
        let key = repeatable.key(&caller, key);
        // A duplicate in flight waits for its first: it is to be answered, not to fail for what the first has taken.
        let turn = self.in_flight.turn(key);
        let _turn = turn.lock().await;
        self.done(&repeatable, wishes, &caller, Some(key)).await
    }

    /// What is said before anybody looks at what else was asked: that the method is wrong, or the token missing.
    async fn earlier_refusal(&self, request: Request) -> Option<Response> {
        let (parts, _) = request.into_parts();
        let context = parts.extensions.get::<RequestContext>().cloned()?;
        let (response, _) = self.tried(&Repeatable { parts, body: Bytes::new(), context }).await;
        let is_earlier = matches!(response.status(), StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNAUTHORIZED);
        is_earlier.then_some(response)
    }

    /// The handler's answer on a store that does not write, with what it would have written.
    async fn tried(&self, repeatable: &Repeatable) -> (Response, Arc<StagedStore>) {
        let store = StagedStore::over(Arc::clone(&self.api.store));
        let api =
            Api { store: Arc::clone(&store) as _, completions: Completions::impatient(), ..Api::clone(&self.api) };
        let handlers = self.handlers.clone().with_state(Arc::new(api));
        let Ok(response) = handlers.oneshot(repeatable.request()).await;
        (response, store)
    }

    async fn dry(&self, repeatable: &Repeatable) -> Result<Response, ApiError> {
        repeatable.context.trail.dry_run();
        let (response, store) = self.tried(repeatable).await;
        if !response.status().is_success() {
            return Ok(response);
        }
        dry_run::answer(response, &store, &self.api.ambient).await
    }

    async fn done(
        &self,
        repeatable: &Repeatable,
        wishes: &Wishes,
        caller: &Caller,
        key: Option<RequestKey>,
    ) -> Result<Response, ApiError> {
        for _ in 0..TRIES_MAX {
            if let Some(answered) = self.answered(repeatable, caller, key).await? {
                return Ok(answered);
            }
            let (response, store) = self.tried(repeatable).await;
            let Staged { batch, .. } = store.staged();
            // Refused, or so that there was nothing to do: nothing is to be remembered either.
            if !response.status().is_success() || batch.writes.is_empty() {
                return Ok(response);
            }
            let batch = match &wishes.expected {
                Some(expected) => self.provided(batch, expected, repeatable).await?,
                None => batch,
            };
            let (response, answer) = kept(response, &repeatable.context.trail.entry()).await?;
            let batch = self.remembering(batch, repeatable, caller, key, &answer);
            match self.api.store.commit(batch).await {
                Ok(_) => return Ok(response),
                Err(StoreError::Refused(refusal @ Refusal::TooManyRemembered)) => return Err(refusal.into()),
                // Somebody has written since it was judged. The handler will find out what that means.
                Err(StoreError::Refused(_)) => tokio::task::yield_now().await,
                Err(error) => return Err(error.into()),
            }
        }
        Err(ApiError::unavailable())
    }

    /// The answer of then, if the same was asked before.
    async fn answered(
        &self,
        repeatable: &Repeatable,
        caller: &Caller,
        key: Option<RequestKey>,
    ) -> Result<Option<Response>, ApiError> {
        let Some(key) = key else { return Ok(None) };
        let Some(remembered) = self.api.store.remembered(key).await? else { return Ok(None) };
        if remembered.content != repeatable.content() {
            let text = "the idempotency key was used for a request with other content";
            return Err(ApiError::new(Failure::Unprocessable, text));
        }
        let answer = remembered.answer.read::<KeptAnswer>().map_err(|error| ApiError::internal(&error))?;
        repeatable.context.trail.actor(caller);
        metrics::counter!("regent_idempotent_replays_total").increment(1);
        answer.replayed(caller).map(Some)
    }

    /// Binds a batch to the state that the client expects, unless it is another one already.
    async fn provided(&self, batch: Batch, expected: &Expected, repeatable: &Repeatable) -> Result<Batch, ApiError> {
        let failed = || ApiError::of_status(StatusCode::PRECONDITION_FAILED);
        let entry = repeatable.context.trail.entry();
        let key = entry.kind.zip(entry.id).map(|(kind, id)| Key::new(kind, id)).ok_or_else(failed)?;
        let record = self.api.store.get(key).await?.ok_or_else(failed)?;
        if !expected.allows(&EntityTag::of(&record)) {
            return Err(failed());
        }
        Ok(batch
            .provided(Precondition::Unchanged { key, revision: record.revision })
            .provided(Precondition::Incarnation { key, incarnation: record.metadata.incarnation }))
    }

    /// Adds the answer to what it speaks of. It comes last: what is remembered has happened.
    fn remembering(
        &self,
        mut batch: Batch,
        repeatable: &Repeatable,
        caller: &Caller,
        key: Option<RequestKey>,
        answer: &KeptAnswer,
    ) -> Batch {
        let Some(request) = key else { return batch };
        let home = match caller.account() {
            Account::Member(organization) => Some(organization),
            Account::Platform | Account::Service => repeatable.context.trail.entry().scope.organization,
        };
        batch.writes.push(Write::Remember(Box::new(Remembered {
            request,
            organization: home.unwrap_or(OrganizationId(uuid::Uuid::nil())),
            at: self.api.ambient.now(),
            content: repeatable.content(),
            answer: Document::of(answer),
        })));
        batch
    }
}

/// The requests with a key that are under way. As many as there are requests in flight, which is bounded.
#[derive(Default)]
struct InFlight(Mutex<BTreeMap<RequestKey, Weak<tokio::sync::Mutex<()>>>>);

impl InFlight {
    /// Where those who ask the same wait for each other.
    fn turn(&self, key: RequestKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = turns.get(&key).and_then(Weak::upgrade).unwrap_or_default();
        turns.insert(key, Arc::downgrade(&turn));
        turn
    }
}
