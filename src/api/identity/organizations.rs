//! Organizations: the tenants themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{edited, entered, written};
use crate::api::access::{permitted, read_modify_write};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::etag::{EntityTag, Tagged};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::resources::Shown;
use crate::api::wire::{AcceptedMetadata, ReadMetadata, WriteMetadata};
use crate::api::{Api, Shared, list};
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{Incarnation, Kind, OrganizationId};
use crate::model::member::User;
use crate::model::metadata::{Metadata, Placement};
use crate::model::organization::{Organization, OrganizationSpec, OrganizationType, ProviderScope};
use crate::model::record::Record;
use crate::store::{Batch, Filter, Pages, Precondition, Write};

const ENDPOINT: Endpoint = Endpoint::Organizations;

/// As long as a DNS name. The ids of other services are shorter.
const TEXT_LEN_MAX: usize = 253;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_organizations, create_organization)).routes(routes!(
        get_organization,
        update_organization,
        delete_organization
    ))
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = organizationSpec)]
struct WireOrganizationSpec {
    organization_type: OrganizationType,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9A-Za-z.-]{1,253}$")]
    domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_scope: Option<ProviderScope>,
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 253)]
    provider_id: Option<String>,
    #[serde(rename = "googleCustomerID", skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 253)]
    google_customer_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = organizationWrite)]
struct OrganizationWrite {
    metadata: WriteMetadata,
    spec: WireOrganizationSpec,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = organizationRead)]
struct OrganizationRead {
    metadata: ReadMetadata,
    spec: WireOrganizationSpec,
}

impl OrganizationWrite {
    fn accept(self) -> Result<(AcceptedMetadata, OrganizationSpec), ApiError> {
        let metadata = self.metadata.accept()?;
        let spec = self.spec;
        let short = |text: &Option<String>| text.as_ref().is_none_or(|text| (1..=TEXT_LEN_MAX).contains(&text.len()));
        if ![&spec.domain, &spec.provider_id, &spec.google_customer_id].into_iter().all(short) {
            return Err(ApiError::invalid("spec.domain, providerID and googleCustomerID must be 1 to 253 bytes"));
        }
        let hostname = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if spec.domain.as_ref().is_some_and(|domain| !domain.bytes().all(hostname)) {
            return Err(ApiError::invalid("spec.domain must be a host name"));
        }
        let spec = OrganizationSpec {
            organization_type: spec.organization_type,
            domain: spec.domain,
            provider_scope: spec.provider_scope,
            provider_id: spec.provider_id,
            google_customer_id: spec.google_customer_id,
        };
        Ok((metadata, spec))
    }
}

impl OrganizationRead {
    fn of(record: &Record) -> Result<Self, ApiError> {
        let spec = record.open::<Organization>()?.spec;
        let spec = WireOrganizationSpec {
            organization_type: spec.organization_type,
            domain: spec.domain,
            provider_scope: spec.provider_scope,
            provider_id: spec.provider_id,
            google_customer_id: spec.google_customer_id,
        };
        Ok(Self { metadata: ReadMetadata::of_static(record), spec })
    }
}

/// List the organizations that the caller belongs to; a platform role sees all of them.
#[utoipa::path(
    get, path = "/api/v1/organizations", operation_id = "listOrganizations", tag = "Organizations",
    params(("email" = Option<String>, Query, description = "Only those that this user belongs to; for platform roles")),
    responses((status = 200, body = Vec<OrganizationRead>), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn list_organizations(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    query.only(&["email"])?;
    let theirs = match query.value::<String>("email")? {
        Some(email) => {
            permitted(&caller, Endpoint::Users, Operation::Read, Scope::Global)?;
            homes_of(&api, &email).await?
        }
        None if caller.allows(ENDPOINT, Operation::Read, Scope::Global) => {
            let show = |record: &Record| OrganizationRead::of(record).ok();
            return list::streamed(Arc::clone(&api.store), Filter::of(Kind::Organization), show).await;
        }
        None => caller.acl().organizations.keys().copied().collect(),
    };
    let mut organizations = Vec::new();
    for organization in theirs {
        if let Some(record) = api.store.get(organization.key()).await? {
            organizations.push(OrganizationRead::of(&record)?);
        }
    }
    Ok(Json(organizations).into_response())
}

/// Where somebody is a user. Reads every user that there is: an operator's rare question.
async fn homes_of(api: &Api, subject: &str) -> Result<BTreeSet<OrganizationId>, ApiError> {
    let mut homes = BTreeSet::new();
    let mut pages = Pages::of(&*api.store, Filter::of(Kind::User));
    while let Some(users) = pages.next().await? {
        let named = |user: &&Arc<Record>| user.open::<User>().is_ok_and(|user| user.spec.subject == subject);
        homes.extend(users.iter().filter(named).filter_map(|user| user.metadata.placement.organization));
    }
    Ok(homes)
}

/// Create organization.
#[utoipa::path(
    post, path = "/api/v1/organizations", operation_id = "createOrganization", tag = "Organizations",
    request_body = OrganizationWrite,
    responses((status = 202, body = OrganizationRead), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn create_organization(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<OrganizationWrite>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::Organization);
    permitted(&caller, ENDPOINT, Operation::Create, Scope::Global)?;
    let (accepted, spec) = request.accept()?;
    let organization = OrganizationId(api.ambient.uuid());
    let placement = Placement { organization: Some(organization), ..Placement::default() };
    let incarnation = Incarnation(api.ambient.uuid());
    let new = Metadata::new(incarnation, &accepted.name, placement, &caller.subject, api.ambient.now());
    let metadata = Metadata { description: accepted.description, tags: accepted.tags, ..new };
    let record = Record::new::<Organization>(organization.0, metadata, &spec);
    trail.resource(organization.key());
    let committed = api.store.commit(Batch::of(vec![Write::Insert(Box::new(record))])).await?;
    let read = OrganizationRead::of(&*written(&committed, organization.key())?)?;
    Ok((StatusCode::ACCEPTED, Json(read)).into_response())
}

/// Get organization.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}", operation_id = "getOrganization", tag = "Organizations",
    params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = OrganizationRead), CommonErrors),
    security(("bearer" = []))
)]
async fn get_organization(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Shown<OrganizationRead>, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Read)).await?;
    let record = api.store.get(organization.key()).await?.ok_or_else(ApiError::not_found)?;
    Ok(Tagged(EntityTag::of(&record), Json(OrganizationRead::of(&record)?)))
}

/// Update organization.
#[utoipa::path(
    put, path = "/api/v1/organizations/{organizationID}", operation_id = "updateOrganization", tag = "Organizations",
    params(("organizationID" = uuid::Uuid, Path)), request_body = OrganizationWrite,
    responses((status = 200), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn update_organization(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<OrganizationWrite>,
) -> Result<StatusCode, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Update)).await?;
    trail.resource(organization.key());
    let (accepted, spec) = request.accept()?;
    let planned = || async {
        let record = api.store.get(organization.key()).await?.ok_or_else(ApiError::not_found)?;
        Ok(Batch::of(vec![edited(&api, &caller, &record, Some(&accepted), &spec)?]))
    };
    read_modify_write(&api, planned).await?;
    Ok(StatusCode::OK)
}

/// Delete organization, with everything in it.
#[utoipa::path(
    delete, path = "/api/v1/organizations/{organizationID}", operation_id = "deleteOrganization",
    tag = "Organizations", params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 202), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_organization(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Delete)).await?;
    trail.resource(organization.key());
    let mark = Write::MarkDeleted { key: organization.key(), at: api.ambient.now() };
    api.store.commit(Batch::of(vec![mark]).provided(Precondition::Unprotected(organization.key()))).await?;
    Ok(StatusCode::ACCEPTED)
}
