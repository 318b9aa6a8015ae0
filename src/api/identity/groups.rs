//! Groups: who is given which roles.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{all_of, edited, entered, ids, in_live, made, of_organization, owned, room, written};
use super::members::{GROUPS_MAX, fitting, grantable};
use crate::api::access::read_modify_write;
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::etag::{EntityTag, Tagged};
use crate::api::extract::{Authenticated, JsonBody, PathElements};
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::resources::Shown;
use crate::api::wire::{AcceptedMetadata, OrganizationScopedReadMetadata, WriteMetadata};
use crate::api::{Api, Shared, list};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::{GroupId, Key, Kind, OrganizationId, ServiceAccountId, UserId};
use crate::model::member::{Group, GroupSpec, GroupSubject, is_subject};
use crate::model::organization::{Project, ProjectSpec};
use crate::model::record::Record;
use crate::store::{Batch, Precondition, Write};

const ENDPOINT: Endpoint = Endpoint::Groups;

/// How many members by name a group may have; as many as ids.
const SUBJECTS_MAX: usize = 1000;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_groups, create_group)).routes(routes!(
        get_group,
        update_group,
        delete_group
    ))
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = groupSpec)]
struct WireGroupSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    subjects: Option<Vec<GroupSubject>>,
    #[serde(rename = "userIDs", skip_serializing_if = "Option::is_none")]
    user_ids: Option<Vec<String>>,
    #[serde(rename = "serviceAccountIDs")]
    service_account_ids: Vec<String>,
    #[serde(rename = "roleIDs")]
    role_ids: Vec<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = groupWrite)]
struct GroupWrite {
    metadata: WriteMetadata,
    spec: WireGroupSpec,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = groupRead)]
struct GroupRead {
    metadata: OrganizationScopedReadMetadata,
    spec: WireGroupSpec,
}

impl GroupWrite {
    fn accept(self) -> Result<(AcceptedMetadata, GroupSpec), ApiError> {
        let spec = self.spec;
        let subjects = spec.subjects.map(accept_subjects).transpose()?;
        let spec = GroupSpec {
            roles: ids("spec.roleIDs", &spec.role_ids)?,
            subjects,
            users: spec.user_ids.map(|users| ids("spec.userIDs", &users)).transpose()?,
            service_accounts: ids("spec.serviceAccountIDs", &spec.service_account_ids)?,
        };
        fitting(&spec)?;
        Ok((self.metadata.accept()?, spec))
    }
}

fn accept_subjects(subjects: Vec<GroupSubject>) -> Result<Vec<GroupSubject>, ApiError> {
    let good = |subject: &GroupSubject| {
        is_subject(&subject.id) && is_subject(&subject.issuer) && subject.email.as_deref().is_none_or(is_subject)
    };
    if subjects.len() <= SUBJECTS_MAX && subjects.iter().all(good) {
        Ok(subjects)
    } else {
        Err(ApiError::invalid("spec.subjects must be at most 1000, of 1 to 254 visible ASCII characters each"))
    }
}

impl GroupRead {
    fn of(record: &Record) -> Result<Self, ApiError> {
        fn texts<T: ToString>(ids: &[T]) -> Vec<String> {
            ids.iter().map(ToString::to_string).collect()
        }
        let spec = record.open::<Group>()?.spec;
        let spec = WireGroupSpec {
            subjects: spec.subjects,
            user_ids: spec.users.as_deref().map(texts),
            service_account_ids: texts(&spec.service_accounts),
            role_ids: texts(&spec.roles),
        };
        Ok(Self { metadata: OrganizationScopedReadMetadata::of_static(record), spec })
    }
}

/// Everybody that a group newly names must be of this organization.
async fn known_members(
    api: &Api,
    organization: OrganizationId,
    before: &GroupSpec,
    after: &GroupSpec,
) -> Result<(), ApiError> {
    let former = before.users.iter().flatten().copied().map(UserId::key);
    let former = former.chain(before.service_accounts.iter().copied().map(ServiceAccountId::key)).collect::<Vec<Key>>();
    let named = after.users.iter().flatten().copied().map(UserId::key);
    let named = named.chain(after.service_accounts.iter().copied().map(ServiceAccountId::key));
    for key in named.filter(|key| !former.contains(key)) {
        owned(api, organization, key).await.map_err(|error| match error.failure {
            crate::api::error::Failure::NotFound => {
                ApiError::invalid(format!("spec names a {} that does not exist in this organization", key.kind.word()))
            }
            _ => error,
        })?;
    }
    Ok(())
}

/// Does the new group give anybody anything that the old one did not?
fn grows(before: &GroupSpec, after: &GroupSpec) -> bool {
    fn more<T: PartialEq>(before: &[T], after: &[T]) -> bool {
        after.iter().any(|item| !before.contains(item))
    }
    more(&before.roles, &after.roles)
        || more(&before.service_accounts, &after.service_accounts)
        || more(before.users.as_deref().unwrap_or_default(), after.users.as_deref().unwrap_or_default())
        || more(before.subjects.as_deref().unwrap_or_default(), after.subjects.as_deref().unwrap_or_default())
}

/// List groups.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/groups", operation_id = "listGroups", tag = "Groups",
    params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = Vec<GroupRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_groups(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Read)).await?;
    let show = |record: &Record| GroupRead::of(record).ok();
    list::streamed(Arc::clone(&api.store), of_organization(Kind::Group, organization), show).await
}

/// Create group.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/groups", operation_id = "createGroup", tag = "Groups",
    params(("organizationID" = uuid::Uuid, Path)), request_body = GroupWrite,
    responses((status = 201, body = GroupRead), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn create_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<GroupWrite>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::Group);
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Create)).await?;
    let (accepted, spec) = request.accept()?;
    grantable(&caller, organization, &spec.roles)?;
    known_members(&api, organization, &GroupSpec::default(), &spec).await?;
    room(&api, organization, Kind::Group, GROUPS_MAX).await?;
    let group = GroupId(api.ambient.uuid());
    trail.resource(group.key());
    let new = made::<Group>(&api, &caller, group.0, organization, accepted, &spec);
    let committed = api.store.commit(in_live(organization, vec![new])).await?;
    Ok((StatusCode::CREATED, Json(GroupRead::of(&*written(&committed, group.key())?)?)).into_response())
}

/// Get group.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/groups/{groupid}", operation_id = "getGroup", tag = "Groups",
    params(("organizationID" = uuid::Uuid, Path), ("groupid" = uuid::Uuid, Path)),
    responses((status = 200, body = GroupRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Shown<GroupRead>, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Read)).await?;
    let group: GroupId = path.id("groupid")?;
    let record = owned(&api, organization, group.key()).await?;
    Ok(Tagged(EntityTag::of(&record), Json(GroupRead::of(&record)?)))
}

/// Update group.
#[utoipa::path(
    put, path = "/api/v1/organizations/{organizationID}/groups/{groupid}", operation_id = "updateGroup",
    tag = "Groups", params(("organizationID" = uuid::Uuid, Path), ("groupid" = uuid::Uuid, Path)),
    request_body = GroupWrite,
    responses((status = 200), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn update_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<GroupWrite>,
) -> Result<StatusCode, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Update)).await?;
    let group: GroupId = path.id("groupid")?;
    trail.resource(group.key());
    let (accepted, spec) = request.accept()?;
    let planned = || async {
        let record = owned(&api, organization, group.key()).await?;
        let before = record.open::<Group>()?.spec;
        if grows(&before, &spec) {
            grantable(&caller, organization, &spec.roles)?;
        }
        known_members(&api, organization, &before, &spec).await?;
        Ok(Batch::of(vec![edited(&api, &caller, &record, Some(&accepted), &spec)?]))
    };
    read_modify_write(&api, planned).await?;
    Ok(StatusCode::OK)
}

/// Delete group.
#[utoipa::path(
    delete, path = "/api/v1/organizations/{organizationID}/groups/{groupid}", operation_id = "deleteGroup",
    tag = "Groups", params(("organizationID" = uuid::Uuid, Path), ("groupid" = uuid::Uuid, Path)),
    responses((status = 200), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_group(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Delete)).await?;
    let group: GroupId = path.id("groupid")?;
    trail.resource(group.key());
    let planned = || async {
        let record = owned(&api, organization, group.key()).await?;
        let mut writes = Vec::new();
        // Projects forget it, so that what they show can be written back.
        for project in all_of(&api, organization, Kind::Project).await? {
            let mut groups = project.open::<Project>()?.spec.groups;
            if !project.metadata.is_deleting() && groups.contains(&group) {
                groups.retain(|other| *other != group);
                writes.push(edited(&api, &caller, &project, None, &ProjectSpec { groups })?);
            }
        }
        writes.push(Write::Remove { key: record.key, incarnation: record.metadata.incarnation });
        Ok(Batch::of(writes).provided(Precondition::Unprotected(group.key())))
    };
    read_modify_write(&api, planned).await?;
    Ok(StatusCode::OK)
}
