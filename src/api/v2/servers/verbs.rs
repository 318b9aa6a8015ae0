//! What can be done to a server besides changing it: power, consoles, its key.
//!
//! ```text
//!   request ──▶ operation committed ──▶ the server's actor does it ──▶ its end is stored ──▶ answer
//!                                 └── not in time: power verbs are accepted all the same; they are durable
//! ```
//!
//! Power verbs need `update`; what lets people in (a console session, the private key) has a permission of its own (B9).

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::intent;
use super::wire::ServerRead;
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::CommonErrors;
use crate::api::resources::{Asked, Surface, secret};
use crate::api::{Api, Shared};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::identity::Identity;
use crate::model::ids::{IdentityId, Incarnation, Key, Kind, OperationId, ServerId};
use crate::model::operation::{OperationDetail, OperationFailure, Verb};
use crate::model::record::Resource;
use crate::model::server::{Server, SshInjection};
use crate::providers::ServerRequest;
use crate::store::{Filter, Page};

/// How long a request waits for its verb. Most clouds answer in one or two seconds; clients give up after thirty.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a power verb stays wanted. Later than this it would surprise whoever asked for it.
const POWER_EXPIRY: Duration = Duration::from_mins(10);

/// How many verbs may be under way on one server. They are done one after the other; a client that sends more is not
/// waiting for any of them.
const OPEN_MAX: usize = 16;

/// The most lines that can be asked for. Clouds keep fewer.
const CONSOLE_LINES_MAX: u32 = 10_000;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(start_server))
        .routes(routes!(stop_server))
        .routes(routes!(soft_reboot_server))
        .routes(routes!(hard_reboot_server))
        .routes(routes!(create_console_session))
        .routes(routes!(get_console_output))
        .routes(routes!(get_ssh_key))
}

/// Start server.
#[utoipa::path(
    post, path = "/api/v2/servers/{serverID}/start", operation_id = "startServer", tag = "Servers",
    params(("serverID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn start_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let server: ServerId = path.id("serverID")?;
    powered::<ServerRead>(Asked { api: &api, caller: &caller, trail: &trail }, server.key(), Verb::Start).await
}

/// Stop server.
#[utoipa::path(
    post, path = "/api/v2/servers/{serverID}/stop", operation_id = "stopServer", tag = "Servers",
    params(("serverID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn stop_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let server: ServerId = path.id("serverID")?;
    powered::<ServerRead>(Asked { api: &api, caller: &caller, trail: &trail }, server.key(), Verb::Stop).await
}

/// Reboot server, asking its guest.
#[utoipa::path(
    post, path = "/api/v2/servers/{serverID}/softreboot", operation_id = "softRebootServer", tag = "Servers",
    params(("serverID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn soft_reboot_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let server: ServerId = path.id("serverID")?;
    powered::<ServerRead>(Asked { api: &api, caller: &caller, trail: &trail }, server.key(), Verb::SoftReboot).await
}

/// Reboot server, without asking its guest.
#[utoipa::path(
    post, path = "/api/v2/servers/{serverID}/hardreboot", operation_id = "hardRebootServer", tag = "Servers",
    params(("serverID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn hard_reboot_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let server: ServerId = path.id("serverID")?;
    powered::<ServerRead>(Asked { api: &api, caller: &caller, trail: &trail }, server.key(), Verb::HardReboot).await
}

/// Whichever version of the surface the server is shown on.
pub async fn powered<R: Surface>(asked: Asked<'_>, server: Key, verb: Verb) -> Result<StatusCode, ApiError> {
    asked.trail.resource(server);
    asked.trail.operation(word(verb));
    let record = asked.resolved::<R>(server, (Endpoint::Servers, Operation::Update)).await?;
    power(asked, &record.open()?, verb).await
}

/// Switches a server that the caller has been found to have power over.
pub async fn power(asked: Asked<'_>, server: &Resource<Server>, verb: Verb) -> Result<StatusCode, ApiError> {
    let expires = asked.api.ambient.now() + POWER_EXPIRY;
    match performed(asked, server, verb, expires).await? {
        // What is still open is on record, and will be done.
        None | Some(OperationDetail::Succeeded { .. }) => Ok(StatusCode::ACCEPTED),
        Some(ended) => Err(unsuccessful(&ended, verb)),
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = consoleSession)]
pub struct ConsoleSession {
    url: String,
}

/// Open a console session. Whoever has its address is let in.
#[utoipa::path(
    get, path = "/api/v2/servers/{serverID}/consolesessions", operation_id = "createConsoleSession", tag = "Servers",
    params(("serverID" = uuid::Uuid, Path)),
    responses((status = 200, body = ConsoleSession), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn create_console_session(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let server: ServerId = path.id("serverID")?;
    console_session::<ServerRead>(Asked { api: &api, caller: &caller, trail: &trail }, server.key()).await
}

pub async fn console_session<R: Surface>(asked: Asked<'_>, server: Key) -> Result<Response, ApiError> {
    asked.trail.resource(server);
    asked.trail.hands_out(word(Verb::ConsoleSession));
    let record = asked.resolved::<R>(server, (Endpoint::ServerSecrets, Operation::Read)).await?;
    session(asked, &record.open()?).await
}

/// Opens a console session on a server that the caller has been found to be let into.
pub async fn session(asked: Asked<'_>, server: &Resource<Server>) -> Result<Response, ApiError> {
    let api = asked.api;
    let expires = api.ambient.now() + PATIENCE;
    match performed(asked, server, Verb::ConsoleSession, expires).await? {
        Some(OperationDetail::Succeeded { result: Some(sealed) }) => {
            let url = api.secrets.open(&sealed).map_err(|error| ApiError::internal(&error))?;
            Ok(secret(StatusCode::OK, ConsoleSession { url }))
        }
        None => Err(ApiError::unavailable()),
        Some(ended) => Err(unsuccessful(&ended, Verb::ConsoleSession)),
    }
}

/// Writes the verb down and waits for its end; `None` when it is still open after that.
async fn performed(
    asked: Asked<'_>,
    server: &Resource<Server>,
    verb: Verb,
    expires: Timestamp,
) -> Result<Option<OperationDetail>, ApiError> {
    let api = asked.api;
    if open_operations(api, server.key).await? >= OPEN_MAX {
        return Err(ApiError::invalid("the server has as many operations under way as it may have"));
    }
    let place = server.place()?;
    let author = Author::of(asked.caller, (place.organization, place.project), api.ambient.now());
    let id = OperationId(api.ambient.uuid());
    let batch = intent::operation(server, (verb, expires), &author, (id, Incarnation(api.ambient.uuid())));
    // Before the commit, so that an end which comes at once is not missed.
    let expected = api.completions.expect(id);
    api.store.commit(batch).await?;
    Ok(expected.within(PATIENCE).await)
}

async fn open_operations(api: &Api, server: Key) -> Result<usize, ApiError> {
    let filter = Filter { owner: Some(server), ..Filter::of(Kind::Operation) };
    let operations = api.store.list(&filter, Page::FIRST).await?;
    // One that cannot be read counts: it is there, and nobody has ended it.
    let is_open = |detail: Result<OperationDetail, _>| detail.map_or(true, |detail: OperationDetail| detail.is_open());
    Ok(operations.iter().filter(|operation| is_open(operation.detail.read())).count())
}

pub const fn word(verb: Verb) -> &'static str {
    match verb {
        Verb::Start => "start",
        Verb::Stop => "stop",
        Verb::SoftReboot => "softreboot",
        Verb::HardReboot => "hardreboot",
        Verb::ConsoleSession => "consolesession",
    }
}

/// What the end of an operation means to whoever asked for it.
fn unsuccessful(ended: &OperationDetail, verb: Verb) -> ApiError {
    let done = match verb {
        Verb::Start => "started",
        Verb::Stop => "stopped",
        Verb::SoftReboot | Verb::HardReboot => "rebooted",
        Verb::ConsoleSession => "watched",
    };
    match ended {
        OperationDetail::Failed { cause: OperationFailure::NotFound, .. } => ApiError::not_found(),
        OperationDetail::Failed { cause: OperationFailure::Conflict, .. } => {
            ApiError::invalid(format!("the server cannot be {done} in its current state"))
        }
        OperationDetail::Failed { cause: OperationFailure::Unavailable, .. } => ApiError::unavailable(),
        OperationDetail::Requested | OperationDetail::Started | OperationDetail::Succeeded { .. } => {
            ApiError::internal(&"an operation ended without a result")
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = consoleOutput)]
pub struct ConsoleOutput {
    contents: String,
}

/// Get what the console showed.
#[utoipa::path(
    get, path = "/api/v2/servers/{serverID}/consoleoutput", operation_id = "getConsoleOutput", tag = "Servers",
    params(
        ("serverID" = uuid::Uuid, Path),
        ("length" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Only so many of the last lines"),
    ),
    responses((status = 200, body = ConsoleOutput), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_console_output(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    query: QueryElements,
) -> Result<Json<ConsoleOutput>, ApiError> {
    let server: ServerId = path.id("serverID")?;
    console_output::<ServerRead>(Asked { api: &api, caller: &caller, trail: &trail }, server.key(), &query).await
}

pub async fn console_output<R: Surface>(
    asked: Asked<'_>,
    server: Key,
    query: &QueryElements,
) -> Result<Json<ConsoleOutput>, ApiError> {
    let lines = lines(query)?;
    let record = asked.resolved::<R>(server, (Endpoint::Servers, Operation::Read)).await?;
    output(asked.api, &record.open()?, lines).await
}

/// How many lines are asked for.
pub fn lines(query: &QueryElements) -> Result<Option<u32>, ApiError> {
    query.only(&["length"])?;
    let lines = query.value::<u32>("length")?;
    if lines.is_some_and(|lines| !(1..=CONSOLE_LINES_MAX).contains(&lines)) {
        return Err(ApiError::invalid("invalid path/query element: length must be 1 to 10000"));
    }
    Ok(lines)
}

/// What the console of a server showed, for whoever has been found to be allowed to see it.
pub async fn output(api: &Api, server: &Resource<Server>, lines: Option<u32>) -> Result<Json<ConsoleOutput>, ApiError> {
    if server.detail.server.is_none() {
        return Err(ApiError::not_found());
    }
    let region = server.place()?.region;
    let contents = api.catalogue.console_output(region, &ServerRequest::of(server, None)?, lines).await?;
    Ok(Json(ConsoleOutput { contents }))
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = sshKey)]
pub struct SshKey {
    private_key: String,
}

/// Get the private key that lets into the server, if it was made with one.
#[utoipa::path(
    get, path = "/api/v2/servers/{serverID}/sshkey", operation_id = "getServerSshKey", tag = "Servers",
    params(("serverID" = uuid::Uuid, Path)),
    responses((status = 200, body = SshKey), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_ssh_key(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let server: ServerId = path.id("serverID")?;
    trail.resource(server.key());
    trail.hands_out("sshkey");
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let record = asked.resolved::<ServerRead>(server.key(), (Endpoint::ServerSecrets, Operation::Read)).await?;
    ssh_key(&api, &record.open()?).await
}

/// The key of a server, for whoever has been found to be let into it.
pub async fn ssh_key(api: &Api, server: &Resource<Server>) -> Result<Response, ApiError> {
    if server.spec.resolved_ssh_injection() != SshInjection::IdentityKeypair {
        return Err(ApiError::not_found());
    }
    let identity: IdentityId = server.identity()?;
    let principal = api.store.get(identity.key()).await?.ok_or_else(ApiError::not_found)?;
    // Until the principal is made there is no key, and so no server that takes it.
    let key_pair = principal.open::<Identity>()?.detail.key_pair.ok_or_else(ApiError::not_found)?;
    let private_key = api.secrets.open(&key_pair.private_key).map_err(|error| ApiError::internal(&error))?;
    Ok(secret(StatusCode::OK, SshKey { private_key }))
}
