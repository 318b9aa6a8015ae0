//! What can be done to a server of the first version besides changing it: the verbs of the second, by another path.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::wire::ServerRead;
use crate::api::Shared;
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, PathElements, QueryElements};
use crate::api::openapi::CommonErrors;
use crate::api::resources::Asked;
use crate::api::v1::paths::located;
use crate::api::v2::servers::verbs::{ConsoleOutput, ConsoleSession, console_output, console_session, powered};
use crate::model::ids::{Key, ServerId};
use crate::model::operation::Verb;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(start_server))
        .routes(routes!(stop_server))
        .routes(routes!(soft_reboot_server))
        .routes(routes!(hard_reboot_server))
        .routes(routes!(create_console_session))
        .routes(routes!(get_console_output))
}

async fn server_of(asked: Asked<'_>, path: &PathElements) -> Result<Key, ApiError> {
    let server: ServerId = path.id("serverID")?;
    Ok(located::<ServerRead>(asked, path, server.key()).await?.key)
}

/// Start server.
#[utoipa::path(
    post,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers/{serverID}/start",
    operation_id = "startServerV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("serverID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn start_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    powered::<ServerRead>(asked, server_of(asked, &path).await?, Verb::Start).await
}

/// Stop server.
#[utoipa::path(
    post,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers/{serverID}/stop",
    operation_id = "stopServerV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("serverID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn stop_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    powered::<ServerRead>(asked, server_of(asked, &path).await?, Verb::Stop).await
}

/// Reboot server, asking its guest.
#[utoipa::path(
    post,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers/{serverID}/softreboot",
    operation_id = "softRebootServerV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("serverID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn soft_reboot_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    powered::<ServerRead>(asked, server_of(asked, &path).await?, Verb::SoftReboot).await
}

/// Reboot server, without asking its guest.
#[utoipa::path(
    post,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers/{serverID}/hardreboot",
    operation_id = "hardRebootServerV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("serverID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn hard_reboot_server(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    powered::<ServerRead>(asked, server_of(asked, &path).await?, Verb::HardReboot).await
}

/// Open a console session. Whoever has its address is let in.
#[utoipa::path(
    get,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers/{serverID}/consolesessions",
    operation_id = "createConsoleSessionV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
        ("serverID" = uuid::Uuid, Path),
    ),
    responses((status = 200, body = ConsoleSession), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn create_console_session(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    console_session::<ServerRead>(asked, server_of(asked, &path).await?).await
}

/// Get what the console showed.
#[utoipa::path(
    get,
    path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers/{serverID}/consoleoutput",
    operation_id = "getConsoleOutputV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
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
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    console_output::<ServerRead>(asked, server_of(asked, &path).await?, &query).await
}
