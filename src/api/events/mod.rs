//! `GET /api/v2/events`: what changes, as it changes, for whoever may read it.
//!
//! ```text
//!   store's log ──▶ wait for news ──▶ at most 64 changes ──▶ whose is the token now? ──▶ what it may read ──▶ client
//!                       ▲ └── nothing for 15 s: a heartbeat                                                    │
//!                       └────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A subscriber holds a position and nothing else. The next changes are read when its client has taken the last ones, so
//! that a slow client costs no memory; one that falls behind the log is told to read everything again. Rights are worked
//! out anew for every read of the log, and at every heartbeat: who loses them sees nothing more, and whose token ends is
//! hung up on.
//!
//! Positions are sealed. In plain, the gaps between them would tell a tenant how much the others do.

mod places;

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::scope_of;
use super::error::ApiError;
use super::extract::{Ambiguous, Authenticated, QueryElements, recognized, single};
use super::openapi::CommonErrors;
use super::surfaces::{KindSurface, surface_of};
use super::{Shared, opaque};
use crate::identity::Caller;
use crate::identity::acl::Operation;
use crate::model::ids::{Kind, OrganizationId, ProjectId, RegionId};
use crate::model::metadata::Placement;
use crate::store::{Change, ChangeEvent, Changes, Former, Position, StoreError};
use places::Place;

pub use places::Events;

/// How long a client hears nothing at most. Well within what proxies and our own idle limit allow a silent connection;
/// also the longest that a token which has ended keeps a stream open.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// How many changes are read at once. Each may carry a resource of tens of kilobytes; more would only let one slow client
/// hold more of them.
const CHANGES_MAX: usize = 64;

const PURPOSE: &str = "event";
const LAST_EVENT_ID: &str = "last-event-id";

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(stream_events))
}

/// What the data of one event says.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = event)]
struct Told {
    kind: &'static str,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    organization_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    region_id: Option<String>,
    /// As a read of it would answer. Only with `changed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<Value>,
}

/// Follow what changes, as server-sent events: `changed`, `referenced` (somebody began or ceased to use it), `removed`,
/// and `resync` when changes were missed and everything is to be read again. The id of each event is opaque.
#[utoipa::path(
    get, path = "/api/v2/events", operation_id = "streamEvents", tag = "Events",
    params(
        ("kind" = Option<Vec<String>>, Query, description = "Only these kinds, such as network or security-group"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
        ("Last-Event-ID" = Option<String>, Header, description = "Go on after this event"),
    ),
    responses((status = 200, content_type = "text/event-stream", body = String), CommonErrors),
    security(("bearer" = []))
)]
async fn stream_events(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wanted = Wanted::of(&query)?;
    let latest = api.store.latest();
    let not_ours = || ApiError::invalid("the header Last-Event-ID is not the id of an event");
    let position = match single(&headers, LAST_EVENT_ID) {
        Ok(None) => *latest.borrow(),
        Ok(Some(id)) => position_of(&api, id).ok_or_else(not_ours)?,
        Err(Ambiguous) => return Err(not_ours()),
    };
    let place = api.events.enter(caller.account())?;
    let subscription =
        Subscription { wanted, headers, position, latest, next: Instant::now(), _place: place, api: api.clone() };
    let body = Body::from_stream(stream::unfold(subscription, |subscription| async {
        subscription.advance().await.map(|(text, subscription)| (Ok::<_, Infallible>(text), subscription))
    }));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // What stands in front of us must pass each event on at once.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, body).into_response())
}

/// Of equal length whatever the position, so that its length tells nothing either.
fn event_id(api: &Shared, position: Position) -> Result<String, ApiError> {
    opaque::sealed(&*api.secrets, PURPOSE, &format!("{:020}", position.0))
}

fn position_of(api: &Shared, id: &str) -> Option<Position> {
    opaque::opened::<String>(&*api.secrets, PURPOSE, id)?.parse().ok().map(Position)
}

/// Which changes a client asked for.
struct Wanted {
    kinds: Option<Vec<Kind>>,
    organizations: Option<Vec<OrganizationId>>,
    projects: Option<Vec<ProjectId>>,
    regions: Option<Vec<RegionId>>,
}

impl Wanted {
    fn of(query: &QueryElements) -> Result<Self, ApiError> {
        query.only(&["kind", "organizationID", "projectID", "regionID"])?;
        Ok(Self {
            kinds: query.values("kind")?,
            organizations: query.values("organizationID")?,
            projects: query.values("projectID")?,
            regions: query.values("regionID")?,
        })
    }

    fn has(&self, kind: Kind, placement: &Placement) -> bool {
        fn within<T: PartialEq>(wanted: Option<&Vec<T>>, value: Option<&T>) -> bool {
            wanted.is_none_or(|wanted| value.is_some_and(|value| wanted.contains(value)))
        }
        within(self.kinds.as_ref(), Some(&kind))
            && within(self.organizations.as_ref(), placement.organization.as_ref())
            && within(self.projects.as_ref(), placement.project.as_ref())
            && within(self.regions.as_ref(), placement.region.as_ref())
    }
}

struct Subscription {
    api: Shared,
    wanted: Wanted,
    /// What says who the client is: asked again and again.
    headers: HeaderMap,
    position: Position,
    latest: watch::Receiver<Position>,
    /// When the client is to hear something at the latest.
    next: Instant,
    _place: Place,
}

/// Why a stream ends. Its client may come again and go on where it was.
struct Ended;

impl From<ApiError> for Ended {
    fn from(_: ApiError) -> Self {
        Self
    }
}

impl From<StoreError> for Ended {
    fn from(_: StoreError) -> Self {
        Self
    }
}

impl Subscription {
    /// The next text for the client, or the end.
    async fn advance(mut self) -> Option<(String, Self)> {
        let stopping = self.api.events.stopping();
        let text = tokio::select! {
            biased;
            () = stopping.cancelled() => return None,
            text = self.text() => text.ok()?,
        };
        self.next = Instant::now() + HEARTBEAT;
        Some((text, self))
    }

    async fn text(&mut self) -> Result<String, Ended> {
        loop {
            match self.api.store.changes(self.position, CHANGES_MAX).await? {
                Changes::Resync(position) => {
                    self.position = position;
                    let id = event_id(&self.api, position)?;
                    return Ok(format!("event: resync\nid: {id}\ndata: {{}}\n\n"));
                }
                Changes::Next(changes) if changes.is_empty() => {
                    let position = self.position;
                    let moved = self.latest.wait_for(|latest| *latest > position);
                    match tokio::time::timeout_at(self.next, moved).await.map(|moved| moved.map(drop)) {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return Err(Ended),
                        Err(_) => return self.heartbeat().await,
                    }
                }
                Changes::Next(changes) => {
                    let text = self.told(&changes).await?;
                    self.position = changes.last().map_or(self.position, |change| change.position);
                    if !text.is_empty() {
                        return Ok(text);
                    }
                    if Instant::now() >= self.next {
                        return self.heartbeat().await;
                    }
                    // Whoever has much to pass over lets others go on.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Keeps the line open, and tells where to go on: what was passed over need not be passed over again.
    async fn heartbeat(&self) -> Result<String, Ended> {
        recognized(&self.api, &self.headers).await?;
        Ok(format!(":\nid: {}\n\n", event_id(&self.api, self.position)?))
    }

    async fn told(&self, changes: &[Change]) -> Result<String, Ended> {
        let caller = recognized(&self.api, &self.headers).await?;
        let mut text = String::new();
        for change in changes {
            let Some(surface) = surface_of(change.key.kind) else { continue };
            if let Some((name, told)) = self.event(&caller, surface, change).await? {
                let data = serde_json::to_string(&told).map_err(|error| ApiError::internal(&error))?;
                let id = event_id(&self.api, change.position)?;
                text.extend(["event: ", name, "\nid: ", &id, "\ndata: ", &data, "\n\n"]);
            }
        }
        Ok(text)
    }

    /// What the caller may know of one change.
    async fn event(
        &self,
        caller: &Caller,
        surface: &KindSurface,
        change: &Change,
    ) -> Result<Option<(&'static str, Told)>, Ended> {
        let (name, Former { placement, api_version }, record) = match &change.event {
            ChangeEvent::Put(record) => ("changed", Former::of(&record.metadata), Some(record)),
            ChangeEvent::Removed(former) => ("removed", *former, None),
            // The change does not say whose it is. What is gone by now is told of by a later change.
            ChangeEvent::Referenced => match self.api.store.get(change.key).await {
                Ok(Some(record)) => ("referenced", Former::of(&record.metadata), None),
                Ok(None) | Err(StoreError::Corrupt(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        };
        let may_read = caller.allows(surface.endpoint, Operation::Read, scope_of(&placement));
        if !may_read || api_version != surface.version || !self.wanted.has(change.key.kind, &placement) {
            return Ok(None);
        }
        let told = Told {
            kind: change.key.kind.word(),
            id: change.key.id.to_string(),
            organization_id: placement.organization.map(|id| id.to_string()),
            project_id: placement.project.map(|id| id.to_string()),
            region_id: placement.region.map(|id| id.to_string()),
            // One damaged record does not cost the others their stream.
            resource: record.and_then(|record| (surface.show)(record).ok()),
        };
        Ok(Some((name, told)))
    }
}
