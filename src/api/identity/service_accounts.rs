//! Service accounts: programs of an organization, each with one token, shown once.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{edited, entered, ids, in_live, made, of_organization, owned, room, written};
use super::members::{Groups, Member};
use super::users::{tokens_removed, with_tokens};
use crate::api::access::read_modify_write;
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, JsonBody, PathElements};
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::resources::secret;
use crate::api::wire::{AcceptedMetadata, OrganizationScopedReadMetadata, WriteMetadata, wire_time};
use crate::api::{Api, Shared, list};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation};
use crate::identity::secret::random_secret;
use crate::model::ids::{GroupId, Incarnation, Kind, OrganizationId, ServiceAccountId, TokenId};
use crate::model::member::{ServiceAccount, ServiceAccountSpec};
use crate::model::metadata::{Metadata, Placement};
use crate::model::record::Record;
use crate::model::token::{BearerToken, Token};
use crate::store::{Batch, Precondition, Write};

const ENDPOINT: Endpoint = Endpoint::ServiceAccounts;

/// How long a token is good for. Long enough not to be renewed by hand every week; short enough that a forgotten one
/// does not work for ever.
const TOKEN_LIFETIME: Duration = Duration::from_hours(90 * 24);

const SERVICE_ACCOUNTS_MAX: usize = 1000;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_service_accounts, create_service_account))
        .routes(routes!(update_service_account, delete_service_account))
        .routes(routes!(rotate_service_account))
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = serviceAccountSpec)]
struct WireServiceAccountSpec {
    #[serde(rename = "groupIDs")]
    group_ids: Vec<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = serviceAccountWrite)]
struct ServiceAccountWrite {
    metadata: WriteMetadata,
    spec: WireServiceAccountSpec,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = serviceAccountStatus)]
struct ServiceAccountStatus {
    #[schema(format = "date-time")]
    expiry: String,
    /// Only in the answer to a creation or a rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    access_token: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = serviceAccountRead)]
struct ServiceAccountRead {
    metadata: OrganizationScopedReadMetadata,
    spec: WireServiceAccountSpec,
    status: ServiceAccountStatus,
}

impl ServiceAccountWrite {
    fn accept(self) -> Result<(AcceptedMetadata, Vec<GroupId>), ApiError> {
        Ok((self.metadata.accept()?, ids("spec.groupIDs", &self.spec.group_ids)?))
    }
}

impl ServiceAccountRead {
    fn of(record: &Record, groups: &Groups, token: Option<&BearerToken>) -> Result<Self, ApiError> {
        let expiry = record.open::<ServiceAccount>()?.spec.expiry;
        let member = Member::ServiceAccount(ServiceAccountId(record.key.id));
        let group_ids = groups.with(&member).iter().map(ToString::to_string).collect();
        Ok(Self {
            metadata: OrganizationScopedReadMetadata::of_static(record),
            spec: WireServiceAccountSpec { group_ids },
            status: ServiceAccountStatus { expiry: wire_time(expiry), access_token: token.map(BearerToken::reveal) },
        })
    }
}

/// A new token of the account's. Whoever uses it is named by the account's id.
struct NewToken {
    bearer: BearerToken,
    expiry: Timestamp,
}

impl NewToken {
    fn draw(api: &Api) -> Result<Self, ApiError> {
        let secret = random_secret().map_err(|error| ApiError::internal(&error))?;
        let bearer = BearerToken::new(TokenId(api.ambient.uuid()), &secret);
        // In whole seconds, as it is shown: what is shown is when it ends.
        let expiry = api.ambient.now() + TOKEN_LIFETIME;
        let expiry = Timestamp::from_second(expiry.as_second()).unwrap_or(expiry);
        Ok(Self { bearer, expiry })
    }

    fn insert(&self, api: &Api, caller: &Caller, organization: OrganizationId, account: ServiceAccountId) -> Write {
        let placement = Placement { organization: Some(organization), ..Placement::default() };
        let incarnation = Incarnation(api.ambient.uuid());
        let name = account.to_string();
        let new = Metadata::new(incarnation, &name, placement, &caller.subject, api.ambient.now());
        let metadata = Metadata { owner: Some(account.key()), ..new };
        let spec = self.bearer.spec(&name, account, Some(self.expiry));
        Write::Insert(Box::new(Record::new::<Token>(self.bearer.id.0, metadata, &spec)))
    }
}

/// List service accounts.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/serviceaccounts", operation_id = "listServiceAccounts",
    tag = "Service accounts", params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = Vec<ServiceAccountRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_service_accounts(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Read)).await?;
    let groups = Groups::of(&api, organization).await?;
    let show = move |record: &Record| ServiceAccountRead::of(record, &groups, None).ok();
    list::streamed(Arc::clone(&api.store), of_organization(Kind::ServiceAccount, organization), show).await
}

/// Create service account. Its token is in this answer and in no other.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/serviceaccounts", operation_id = "createServiceAccount",
    tag = "Service accounts", params(("organizationID" = uuid::Uuid, Path)), request_body = ServiceAccountWrite,
    responses((status = 201, body = ServiceAccountRead), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn create_service_account(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<ServiceAccountWrite>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::ServiceAccount);
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Create)).await?;
    let (accepted, wanted) = request.accept()?;
    room(&api, organization, Kind::ServiceAccount, SERVICE_ACCOUNTS_MAX).await?;
    let account = ServiceAccountId(api.ambient.uuid());
    trail.resource(account.key());
    let token = NewToken::draw(&api)?;
    let spec = ServiceAccountSpec { expiry: token.expiry };
    let planned = || async {
        let groups = Groups::of(&api, organization).await?;
        let new = made::<ServiceAccount>(&api, &caller, account.0, organization, accepted.clone(), &spec);
        let mut writes = vec![new, token.insert(&api, &caller, organization, account)];
        writes.extend(groups.moving(&api, &caller, organization, &Member::ServiceAccount(account), &wanted)?);
        Ok(in_live(organization, writes))
    };
    let committed = read_modify_write(&api, planned).await?;
    let groups = Groups::of(&api, organization).await?;
    let read = ServiceAccountRead::of(&*written(&committed, account.key())?, &groups, Some(&token.bearer))?;
    Ok(secret(StatusCode::CREATED, read))
}

/// Update service account.
#[utoipa::path(
    put, path = "/api/v1/organizations/{organizationID}/serviceaccounts/{serviceAccountID}",
    operation_id = "updateServiceAccount", tag = "Service accounts",
    params(("organizationID" = uuid::Uuid, Path), ("serviceAccountID" = uuid::Uuid, Path)),
    request_body = ServiceAccountWrite,
    responses((status = 200, body = ServiceAccountRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn update_service_account(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<ServiceAccountWrite>,
) -> Result<Json<ServiceAccountRead>, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Update)).await?;
    let account: ServiceAccountId = path.id("serviceAccountID")?;
    trail.resource(account.key());
    let (accepted, wanted) = request.accept()?;
    let planned = || async {
        let record = owned(&api, organization, account.key()).await?;
        let spec = record.open::<ServiceAccount>()?.spec;
        let groups = Groups::of(&api, organization).await?;
        let mut writes = groups.moving(&api, &caller, organization, &Member::ServiceAccount(account), &wanted)?;
        writes.push(edited(&api, &caller, &record, Some(&accepted), &spec)?);
        Ok(Batch::of(writes))
    };
    let committed = read_modify_write(&api, planned).await?;
    let groups = Groups::of(&api, organization).await?;
    Ok(Json(ServiceAccountRead::of(&*written(&committed, account.key())?, &groups, None)?))
}

/// Delete service account, and its token with it.
#[utoipa::path(
    delete, path = "/api/v1/organizations/{organizationID}/serviceaccounts/{serviceAccountID}",
    operation_id = "deleteServiceAccount", tag = "Service accounts",
    params(("organizationID" = uuid::Uuid, Path), ("serviceAccountID" = uuid::Uuid, Path)),
    responses((status = 200), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_service_account(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Delete)).await?;
    let account: ServiceAccountId = path.id("serviceAccountID")?;
    trail.resource(account.key());
    let planned = || async {
        let record = owned(&api, organization, account.key()).await?;
        let groups = Groups::of(&api, organization).await?;
        let mut writes = groups.moving(&api, &caller, organization, &Member::ServiceAccount(account), &[])?;
        writes.extend(with_tokens(&api, &record).await?);
        Ok(Batch::of(writes).provided(Precondition::Unprotected(account.key())))
    };
    read_modify_write(&api, planned).await?;
    Ok(StatusCode::OK)
}

/// Give the service account a new token. The old one stops working at once.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/serviceaccounts/{serviceAccountID}/rotate",
    operation_id = "rotateServiceAccount", tag = "Service accounts",
    params(("organizationID" = uuid::Uuid, Path), ("serviceAccountID" = uuid::Uuid, Path)),
    responses((status = 200, body = ServiceAccountRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn rotate_service_account(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    trail.operation("rotate");
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Update)).await?;
    let account: ServiceAccountId = path.id("serviceAccountID")?;
    trail.resource(account.key());
    let token = NewToken::draw(&api)?;
    let planned = || async {
        let record = owned(&api, organization, account.key()).await?;
        let mut writes = tokens_removed(&api, &record).await?;
        writes.push(token.insert(&api, &caller, organization, account));
        writes.push(edited(&api, &caller, &record, None, &ServiceAccountSpec { expiry: token.expiry })?);
        Ok(Batch::of(writes).provided(Precondition::Live(account.key())))
    };
    let committed = read_modify_write(&api, planned).await?;
    let groups = Groups::of(&api, organization).await?;
    let read = ServiceAccountRead::of(&*written(&committed, account.key())?, &groups, Some(&token.bearer))?;
    Ok(secret(StatusCode::OK, read))
}
