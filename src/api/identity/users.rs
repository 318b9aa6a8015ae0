//! Users of an organization.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{edited, entered, ids, in_live, made, of_organization, owned, room, written};
use super::members::{Groups, Member};
use crate::api::access::read_modify_write;
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody, Failure};
use crate::api::extract::{Authenticated, JsonBody, PathElements};
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::wire::{AcceptedMetadata, OrganizationScopedReadMetadata, WriteMetadata};
use crate::api::{Api, Shared, list};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::{GroupId, Kind, UserId};
use crate::model::member::{User, UserSpec, UserState, is_subject};
use crate::model::record::Record;
use crate::store::{Batch, Precondition, Write};

const ENDPOINT: Endpoint = Endpoint::Users;

/// How many users an organization may have. They are never read all at once, but a list of them is one answer.
const USERS_MAX: usize = 10_000;

/// What a user is called whose creator gave no name: its subject need not be one.
const UNNAMED: &str = "undefined";

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_users, create_user)).routes(routes!(update_user, delete_user))
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = userSpec)]
struct WireUserSpec {
    #[schema(pattern = "^[!-~]{1,254}$")]
    subject: String,
    state: UserState,
    #[serde(rename = "groupIDs")]
    group_ids: Vec<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = userWrite)]
struct UserWrite {
    metadata: Option<WriteMetadata>,
    spec: WireUserSpec,
}

/// When a user was last seen is not kept.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = userStatus)]
struct UserStatus {}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = userRead)]
struct UserRead {
    metadata: OrganizationScopedReadMetadata,
    spec: WireUserSpec,
    status: UserStatus,
}

struct AcceptedUser {
    metadata: AcceptedMetadata,
    spec: UserSpec,
    groups: Vec<GroupId>,
}

impl UserWrite {
    fn accept(self) -> Result<AcceptedUser, ApiError> {
        let unnamed =
            || WriteMetadata { name: UNNAMED.to_owned(), description: None, tags: None, deletion_protection: None };
        let metadata = self.metadata.unwrap_or_else(unnamed).accept()?;
        if !is_subject(&self.spec.subject) {
            return Err(ApiError::invalid("spec.subject must be 1 to 254 visible ASCII characters"));
        }
        let groups = ids("spec.groupIDs", &self.spec.group_ids)?;
        Ok(AcceptedUser { metadata, spec: UserSpec { subject: self.spec.subject, state: self.spec.state }, groups })
    }
}

impl UserRead {
    fn of(record: &Record, groups: &Groups) -> Result<Self, ApiError> {
        let spec = record.open::<User>()?.spec;
        let member = Member::User(UserId(record.key.id), spec.subject.clone());
        let group_ids = groups.with(&member).iter().map(ToString::to_string).collect();
        let spec = WireUserSpec { subject: spec.subject, state: spec.state, group_ids };
        Ok(Self { metadata: OrganizationScopedReadMetadata::of_static(record), spec, status: UserStatus {} })
    }
}

/// List users.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/users", operation_id = "listUsers", tag = "Users",
    params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = Vec<UserRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_users(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Read)).await?;
    let groups = Groups::of(&api, organization).await?;
    let show = move |record: &Record| UserRead::of(record, &groups).ok();
    list::streamed(Arc::clone(&api.store), of_organization(Kind::User, organization), show).await
}

/// Create user.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/users", operation_id = "createUser", tag = "Users",
    params(("organizationID" = uuid::Uuid, Path)), request_body = UserWrite,
    responses((status = 201, body = UserRead), (status = 409, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn create_user(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<UserWrite>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::User);
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Create)).await?;
    let accepted = request.accept()?;
    room(&api, organization, Kind::User, USERS_MAX).await?;
    let user = UserId::of(organization, &accepted.spec.subject);
    trail.resource(user.key());
    let member = Member::User(user, accepted.spec.subject.clone());
    let planned = || async {
        let groups = Groups::of(&api, organization).await?;
        let mut writes =
            vec![made::<User>(&api, &caller, user.0, organization, accepted.metadata.clone(), &accepted.spec)];
        writes.extend(groups.moving(&api, &caller, organization, &member, &accepted.groups)?);
        Ok(in_live(organization, writes))
    };
    let committed = read_modify_write(&api, planned).await?;
    let groups = Groups::of(&api, organization).await?;
    let read = UserRead::of(&*written(&committed, user.key())?, &groups)?;
    Ok((StatusCode::CREATED, Json(read)).into_response())
}

/// Update user.
#[utoipa::path(
    put, path = "/api/v1/organizations/{organizationID}/users/{userID}", operation_id = "updateUser", tag = "Users",
    params(("organizationID" = uuid::Uuid, Path), ("userID" = uuid::Uuid, Path)), request_body = UserWrite,
    responses(
        (status = 200, body = UserRead), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
        CommonErrors, BodyErrors
    ),
    security(("bearer" = []))
)]
async fn update_user(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<UserWrite>,
) -> Result<Json<UserRead>, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Update)).await?;
    let user: UserId = path.id("userID")?;
    trail.resource(user.key());
    let accepted = request.accept()?;
    let planned = || async {
        let record = owned(&api, organization, user.key()).await?;
        if record.open::<User>()?.spec.subject != accepted.spec.subject {
            // The id follows from it, and so does whatever was made in its name.
            return Err(ApiError::new(Failure::Conflict, "the subject of a user cannot be changed"));
        }
        let groups = Groups::of(&api, organization).await?;
        let member = Member::User(user, accepted.spec.subject.clone());
        let mut writes = groups.moving(&api, &caller, organization, &member, &accepted.groups)?;
        writes.push(edited(&api, &caller, &record, Some(&accepted.metadata), &accepted.spec)?);
        Ok(Batch::of(writes))
    };
    let committed = read_modify_write(&api, planned).await?;
    let groups = Groups::of(&api, organization).await?;
    Ok(Json(UserRead::of(&*written(&committed, user.key())?, &groups)?))
}

/// Delete user.
#[utoipa::path(
    delete, path = "/api/v1/organizations/{organizationID}/users/{userID}", operation_id = "deleteUser",
    tag = "Users", params(("organizationID" = uuid::Uuid, Path), ("userID" = uuid::Uuid, Path)),
    responses((status = 200), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_user(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Delete)).await?;
    let user: UserId = path.id("userID")?;
    trail.resource(user.key());
    let planned = || async {
        let record = owned(&api, organization, user.key()).await?;
        let member = Member::User(user, record.open::<User>()?.spec.subject);
        let groups = Groups::of(&api, organization).await?;
        let mut writes = groups.moving(&api, &caller, organization, &member, &[])?;
        writes.extend(with_tokens(&api, &record).await?);
        Ok(Batch::of(writes).provided(Precondition::Unprotected(user.key())))
    };
    read_modify_write(&api, planned).await?;
    Ok(StatusCode::OK)
}

/// What removes a member, and before it every token that it owns.
pub(super) async fn with_tokens(api: &Api, record: &Record) -> Result<Vec<Write>, ApiError> {
    let mut writes = tokens_removed(api, record).await?;
    writes.push(Write::Remove { key: record.key, incarnation: record.metadata.incarnation });
    Ok(writes)
}

pub(super) async fn tokens_removed(api: &Api, record: &Record) -> Result<Vec<Write>, ApiError> {
    let mut writes = Vec::new();
    for key in api.store.children(record.key).await? {
        if let Some(token) = api.store.get(key).await? {
            writes.push(Write::Remove { key, incarnation: token.metadata.incarnation });
        }
    }
    Ok(writes)
}
