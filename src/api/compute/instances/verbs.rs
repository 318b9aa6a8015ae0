//! What can be done to an instance besides changing it. Each is done to its server, by that server's actor.
//!
//! Power verbs need `update`; what lets people in (a console session, the private key) has a permission of its own (B9).

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::wire::{InstanceRead, SnapshotCreate};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody, Failure};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::resources::{Asked, Shown};
use crate::api::v2::images::wire::ImageRead;
use crate::api::v2::servers::snapshot::saved;
use crate::api::v2::servers::verbs::{self as servers, ConsoleOutput, ConsoleSession, SshKey};
use crate::api::{Api, Shared};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::InstanceId;
use crate::model::instance::Instance;
use crate::model::metadata::Tag;
use crate::model::operation::Verb;
use crate::model::record::{Record, Resource};
use crate::model::server::Server;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(start_instance))
        .routes(routes!(stop_instance))
        .routes(routes!(reboot_instance))
        .routes(routes!(get_instance_ssh_key))
        .routes(routes!(open_instance_console))
        .routes(routes!(get_instance_console_output))
        .routes(routes!(snapshot_instance))
}

/// Tags of snapshots that begin like this are the service's to give.
const OWN_TAGS: &str = "compute.unikorn-cloud.org:";

/// The server of an instance, for whoever may do this to the instance.
async fn server_of(
    asked: Asked<'_>,
    instance: InstanceId,
    needed: (Endpoint, Operation),
) -> Result<Resource<Server>, ApiError> {
    let record = asked.resolved::<InstanceRead>(instance.key(), needed).await?;
    server_behind(asked.api, &record).await
}

/// The server that does the work of an instance.
pub async fn server_behind(api: &Api, instance: &Record) -> Result<Resource<Server>, ApiError> {
    let server = instance.open::<Instance>()?.spec.server;
    let server = api.store.get(server.key()).await?.map(|record| record.open::<Server>()).transpose()?;
    let is_own = |server: &Resource<Server>| {
        server.spec.governed.is_some_and(|governed| governed.instance.key() == instance.key)
    };
    // It is about to be made again, or is gone on the way down, and somebody else may have taken its name.
    server.filter(is_own).ok_or_else(|| ApiError::invalid("the instance has no server in its current state"))
}

async fn powered(asked: Asked<'_>, instance: InstanceId, verb: Verb) -> Result<StatusCode, ApiError> {
    asked.trail.resource(instance.key());
    asked.trail.operation(servers::word(verb));
    let server = server_of(asked, instance, (Endpoint::Instances, Operation::Update)).await?;
    servers::power(asked, &server, verb).await
}

/// Start instance.
#[utoipa::path(
    post, path = "/api/v2/instances/{instanceID}/start", operation_id = "startInstance", tag = "Instances",
    params(("instanceID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn start_instance(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let instance: InstanceId = path.id("instanceID")?;
    powered(Asked { api: &api, caller: &caller, trail: &trail }, instance, Verb::Start).await
}

/// Stop instance.
#[utoipa::path(
    post, path = "/api/v2/instances/{instanceID}/stop", operation_id = "stopInstance", tag = "Instances",
    params(("instanceID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn stop_instance(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let instance: InstanceId = path.id("instanceID")?;
    powered(Asked { api: &api, caller: &caller, trail: &trail }, instance, Verb::Stop).await
}

/// Reboot instance: asking its guest or, with hard=true, without.
#[utoipa::path(
    post, path = "/api/v2/instances/{instanceID}/reboot", operation_id = "rebootInstance", tag = "Instances",
    params(
        ("instanceID" = uuid::Uuid, Path),
        ("hard" = Option<bool>, Query, description = "Switch it off and on, without asking its guest"),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn reboot_instance(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    query: QueryElements,
) -> Result<StatusCode, ApiError> {
    let instance: InstanceId = path.id("instanceID")?;
    query.only(&["hard"])?;
    let verb = if query.value::<bool>("hard")?.unwrap_or(false) { Verb::HardReboot } else { Verb::SoftReboot };
    powered(Asked { api: &api, caller: &caller, trail: &trail }, instance, verb).await
}

/// Get the private key that lets into the instance, if it was made with one.
#[utoipa::path(
    get, path = "/api/v2/instances/{instanceID}/sshkey", operation_id = "getInstanceSshKey", tag = "Instances",
    params(("instanceID" = uuid::Uuid, Path)),
    responses((status = 200, body = SshKey), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_instance_ssh_key(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let instance: InstanceId = path.id("instanceID")?;
    trail.resource(instance.key());
    trail.hands_out("sshkey");
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let server = server_of(asked, instance, (Endpoint::InstanceSecrets, Operation::Read)).await?;
    servers::ssh_key(&api, &server).await
}

/// Open a console session. Whoever has its address is let in.
#[utoipa::path(
    get, path = "/api/v2/instances/{instanceID}/consolesession", operation_id = "openInstanceConsole",
    tag = "Instances", params(("instanceID" = uuid::Uuid, Path)),
    responses((status = 200, body = ConsoleSession), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn open_instance_console(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let instance: InstanceId = path.id("instanceID")?;
    trail.resource(instance.key());
    trail.hands_out(servers::word(Verb::ConsoleSession));
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let server = server_of(asked, instance, (Endpoint::InstanceSecrets, Operation::Read)).await?;
    servers::session(asked, &server).await
}

/// Get what the console showed.
#[utoipa::path(
    get, path = "/api/v2/instances/{instanceID}/consoleoutput", operation_id = "getInstanceConsoleOutput",
    tag = "Instances",
    params(
        ("instanceID" = uuid::Uuid, Path),
        ("length" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Only so many of the last lines"),
    ),
    responses((status = 200, body = ConsoleOutput), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_instance_console_output(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    query: QueryElements,
) -> Result<Json<ConsoleOutput>, ApiError> {
    let instance: InstanceId = path.id("instanceID")?;
    let lines = servers::lines(&query)?;
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let server = server_of(asked, instance, (Endpoint::Instances, Operation::Read)).await?;
    servers::output(&api, &server, lines).await
}

/// Save an instance's disk as an image.
#[utoipa::path(
    post, path = "/api/v2/instances/{instanceID}/snapshot", operation_id = "snapshotInstance", tag = "Instances",
    params(("instanceID" = uuid::Uuid, Path)), request_body = SnapshotCreate,
    responses((status = 201, body = ImageRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn snapshot_instance(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<SnapshotCreate>,
) -> Result<(StatusCode, Shown<ImageRead>), ApiError> {
    let instance: InstanceId = path.id("instanceID")?;
    trail.resource(instance.key());
    trail.operation("snapshot");
    let mut accepted = request.metadata.accept()?;
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let server = server_of(asked, instance, (Endpoint::Instances, Operation::Read)).await?;
    let given = accepted.tags.take().unwrap_or_default().into_iter().filter(|tag| !tag.name.starts_with(OWN_TAGS));
    let own = Tag { name: format!("{OWN_TAGS}instance-id"), value: instance.to_string() };
    accepted.tags = Some(given.chain([own]).collect());
    // The contract has no code for what makes sense and cannot be now.
    saved(&api, &caller, &server, &accepted).await.map_err(|error| match error.failure {
        Failure::Unprocessable => ApiError::invalid(error.description),
        _ => error,
    })
}
