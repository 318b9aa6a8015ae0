//! What can be done to a machine of a cluster: the verbs of instances, by another path.
//!
//! Who may do it is asked of the cluster: power verbs need its `update`. What lets people in has a permission of its
//! own, as everywhere (B9).

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::wire::ClusterRead;
use crate::api::Shared;
use crate::api::access::{permitted, scope_of};
use crate::api::compute::instances::verbs::server_behind;
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, PathElements, QueryElements};
use crate::api::openapi::CommonErrors;
use crate::api::resources::{Asked, Surface};
use crate::api::v1::paths::located;
use crate::api::v2::servers::verbs::{self as servers, ConsoleOutput, ConsoleSession};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::{ClusterId, InstanceId};
use crate::model::operation::Verb;
use crate::model::record::Resource;
use crate::model::server::Server;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(start_machine))
        .routes(routes!(stop_machine))
        .routes(routes!(soft_reboot_machine))
        .routes(routes!(hard_reboot_machine))
        .routes(routes!(open_machine_console))
        .routes(routes!(get_machine_console_output))
}

/// The server of the machine that the path leads to, for whoever may do this to its cluster.
async fn server_of(
    asked: Asked<'_>,
    path: &PathElements,
    (endpoint, operation): (Endpoint, Operation),
) -> Result<Resource<Server>, ApiError> {
    let cluster: ClusterId = path.id("clusterID")?;
    let machine: InstanceId = path.id("machineID")?;
    let placement = located::<ClusterRead>(asked, path, cluster.key()).await?.metadata.placement;
    asked.trail.resource(machine.key());
    asked.trail.scope(placement);
    permitted(asked.caller, endpoint, operation, scope_of(&placement))?;
    let record = asked.api.store.get(machine.key()).await?;
    let record = record.filter(|record| record.metadata.owner == Some(cluster.key()));
    server_behind(asked.api, &*record.ok_or_else(ApiError::not_found)?).await
}

async fn powered(asked: Asked<'_>, path: &PathElements, verb: Verb) -> Result<StatusCode, ApiError> {
    asked.trail.operation(servers::word(verb));
    let server = server_of(asked, path, (ClusterRead::ENDPOINT, Operation::Update)).await?;
    servers::power(asked, &server, verb).await
}

/// Start machine.
#[utoipa::path(
    post,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/start",
    operation_id = "startMachineV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("clusterID" = uuid::Uuid, Path),
        ("machineID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn start_machine(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    powered(Asked { api: &api, caller: &caller, trail: &trail }, &path, Verb::Start).await
}

/// Stop machine.
#[utoipa::path(
    post,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/stop",
    operation_id = "stopMachineV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("clusterID" = uuid::Uuid, Path),
        ("machineID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn stop_machine(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    powered(Asked { api: &api, caller: &caller, trail: &trail }, &path, Verb::Stop).await
}

/// Reboot machine, asking its guest.
#[utoipa::path(
    post,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/softreboot",
    operation_id = "softRebootMachineV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("clusterID" = uuid::Uuid, Path),
        ("machineID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn soft_reboot_machine(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    powered(Asked { api: &api, caller: &caller, trail: &trail }, &path, Verb::SoftReboot).await
}

/// Reboot machine, without asking its guest.
#[utoipa::path(
    post,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/hardreboot",
    operation_id = "hardRebootMachineV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("clusterID" = uuid::Uuid, Path),
        ("machineID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn hard_reboot_machine(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    powered(Asked { api: &api, caller: &caller, trail: &trail }, &path, Verb::HardReboot).await
}

/// Open a console session. Whoever has its address is let in.
#[utoipa::path(
    get,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/consolesessions",
    operation_id = "openMachineConsoleV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("clusterID" = uuid::Uuid, Path),
        ("machineID" = uuid::Uuid, Path),
    ),
    responses((status = 200, body = ConsoleSession), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn open_machine_console(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    trail.hands_out(servers::word(Verb::ConsoleSession));
    let server = server_of(asked, &path, (Endpoint::InstanceSecrets, Operation::Read)).await?;
    servers::session(asked, &server).await
}

/// Get what the console showed.
#[utoipa::path(
    get,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}/machines/{machineID}/consoleoutput",
    operation_id = "getMachineConsoleOutputV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("clusterID" = uuid::Uuid, Path),
        ("machineID" = uuid::Uuid, Path),
        ("length" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Only so many of the last lines"),
    ),
    responses((status = 200, body = ConsoleOutput), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_machine_console_output(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    query: QueryElements,
) -> Result<Json<ConsoleOutput>, ApiError> {
    let lines = servers::lines(&query)?;
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let server = server_of(asked, &path, (ClusterRead::ENDPOINT, Operation::Read)).await?;
    servers::output(&api, &server, lines).await
}
