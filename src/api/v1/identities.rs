//! Principals, as the first version shows them: made by their users, roots of what lies in a cloud.
//!
//! Who reads one learns where it is. What it gets into its cloud with (a credential, a private key) was part of every
//! read once. Here it takes a permission of its own *and* an operator who has switched it on; without either of them
//! the fields are not there, and nothing tells which of the two is missing.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::paths::{creating, listed_in_organization, located, project};
use crate::api::access::{existing_project, scope_of, visible_region};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::etag::{EntityTag, Tagged};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::resources::{Asked, Surface, secret};
use crate::api::v2::networks::intent::principal_creation;
use crate::api::wire::{ProjectScopedReadMetadata, WriteMetadata, body_id};
use crate::api::{Api, Shared};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::identity::{Credential, Identity, IdentitySpec};
use crate::model::ids::{IdentityId, Incarnation, Kind, RegionId};
use crate::model::metadata::ApiVersion;
use crate::model::record::{CorruptRecord, Record};
use crate::model::region::{ProviderSettings, Region, RegionSpec, RegionType};
use crate::model::sealed::Sealed;
use crate::store::{Refusal, StoreError};

/// What the configuration calls the one cloud that it describes.
const CLOUD: &str = "cloud";

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_identities))
        .routes(routes!(create_identity))
        .routes(routes!(get_identity, delete_identity))
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = identityCreateSpec)]
pub struct WireCreateSpec {
    #[schema(format = "uuid")]
    pub region_id: String,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = identityCreate)]
pub struct IdentityCreate {
    pub metadata: WriteMetadata,
    pub spec: WireCreateSpec,
}

/// What gets into a cloud as the principal. Never printed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = identityOpenstack)]
pub struct WireAccess {
    /// The name of the cloud in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    cloud: Option<&'static str>,
    /// A `clouds.yaml` in base64url.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "byte")]
    cloud_config: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    application_credential_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    application_credential_secret: Option<String>,
    /// In OpenSSH's form.
    #[serde(skip_serializing_if = "Option::is_none")]
    ssh_private_key: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = identitySpec)]
pub struct WireSpec {
    #[schema(format = "uuid")]
    region_id: String,
    /// Of the region, where one is read by itself.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    region_type: Option<RegionType>,
    /// For whoever may read secrets, where the operator allows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    openstack: Option<WireAccess>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = identityRead)]
pub struct IdentityRead {
    metadata: ProjectScopedReadMetadata,
    spec: WireSpec,
}

impl Surface for IdentityRead {
    type Kind = Identity;
    const ENDPOINT: Endpoint = Endpoint::Identities;
    const VERSION: ApiVersion = ApiVersion::V1;

    fn of(record: &Record) -> Result<Self, CorruptRecord> {
        let region_id = record.metadata.placement.region.map(|id| id.to_string()).unwrap_or_default();
        let spec = WireSpec { region_id, region_type: None, openstack: None };
        Ok(Self { metadata: ProjectScopedReadMetadata::of(record), spec })
    }
}

/// List identities.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/identities", operation_id = "listIdentitiesV1",
    tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path),
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
    ),
    responses((status = 200, body = Vec<IdentityRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_identities(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    query: QueryElements,
) -> Result<Response, ApiError> {
    listed_in_organization::<IdentityRead>(&api, caller, &path, query, &["tag", "projectID", "regionID"]).await
}

/// Create identity.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities",
    operation_id = "createIdentityV1", tag = "Version 1", request_body = IdentityCreate,
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path)),
    responses((status = 201, body = IdentityRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn create_identity(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<IdentityCreate>,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let metadata = request.metadata.accept()?;
    let region: RegionId = body_id(&request.spec.region_id, "spec.regionId must be a UUID")?;
    creating::<IdentityRead>(asked, &path, Kind::Identity)?;
    let (organization, project) = project(&path)?;
    existing_project(&api, organization, project).await?;
    if visible_region(&api, &caller, organization, region).await?.spec.withdrawn {
        return Err(ApiError::not_found());
    }
    let author = Author::of_v1(&caller, (organization, project), api.ambient.now());
    let ids = (IdentityId(api.ambient.uuid()), Incarnation(api.ambient.uuid()));
    let place = (organization, project, region);
    let batch = principal_creation(&metadata, &IdentitySpec { hidden: false }, &author, place, ids);
    let committed = api.store.commit(batch).await.map_err(|error| match error {
        // A region that is going is no longer there to be used.
        StoreError::Refused(Refusal::Deleting(key)) if key == region.key() => ApiError::not_found(),
        other => other.into(),
    })?;
    asked.created::<IdentityRead>(&committed, ids.0.key())
}

/// Get identity.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}",
    operation_id = "getIdentityV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
    ),
    responses((status = 200, body = IdentityRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_identity(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let identity: IdentityId = path.id("identityID")?;
    let record = located::<IdentityRead>(asked, &path, identity.key()).await?;
    let region = api.store.get(record.place()?.region.key()).await?;
    let region = region.map(|record| record.open::<Region>()).transpose()?.map(|region| region.spec);
    let mut read = IdentityRead::of(&record)?;
    read.spec.region_type = region.as_ref().map(RegionSpec::region_type);
    let scope = scope_of(&record.metadata.placement);
    if !api.settings.v1_identity_secrets || !caller.allows(Endpoint::IdentitySecrets, Operation::Read, scope) {
        return Ok(Tagged(EntityTag::of(&record), Json(read)).into_response());
    }
    trail.scope(record.metadata.placement);
    trail.hands_out("identitysecrets");
    read.spec.openstack = Some(access(&api, &record, region.as_ref())?);
    Ok(Tagged(EntityTag::of(&record), secret(StatusCode::OK, read)).into_response())
}

/// As much as has been made by now.
fn access(api: &Api, record: &Record, region: Option<&RegionSpec>) -> Result<WireAccess, ApiError> {
    let detail = record.open::<Identity>()?.detail;
    let open = |sealed: &Sealed<String>| api.secrets.open(sealed).map_err(|error| ApiError::internal(&error));
    let opened = |credential: &Credential| Ok::<_, ApiError>((credential.id.clone(), open(&credential.secret)?));
    let credential = detail.credential.as_ref().map(opened).transpose()?;
    let (id, secret) = credential.unzip();
    let configuration = id.as_deref().zip(secret.as_deref()).map(|credential| configuration(region, credential));
    Ok(WireAccess {
        cloud: configuration.is_some().then_some(CLOUD),
        cloud_config: configuration.map(|text| URL_SAFE.encode(text)),
        user_id: detail.user.map(|id| id.0),
        project_id: detail.project.map(|id| id.0),
        application_credential_id: id,
        application_credential_secret: secret,
        ssh_private_key: detail.key_pair.as_ref().map(|pair| open(&pair.private_key)).transpose()?,
    })
}

/// A `clouds.yaml`, written as JSON, which is YAML too and in which nothing has to be escaped by hand.
fn configuration(region: Option<&RegionSpec>, (id, secret): (&str, &str)) -> String {
    let endpoint = region.and_then(|region| match &region.provider {
        ProviderSettings::Openstack(settings) => settings.endpoint.as_deref(),
        // A cloud inside this process has no address.
        ProviderSettings::Simulated(settings) => settings.endpoint.as_deref(),
        ProviderSettings::Kubernetes(_) => None,
    });
    let mut auth = json!({"application_credential_id": id, "application_credential_secret": secret});
    if let Some(endpoint) = endpoint {
        auth["auth_url"] = json!(endpoint);
    }
    let cloud = json!({"auth_type": "v3applicationcredential", "auth": auth});
    json!({"clouds": {CLOUD: cloud}}).to_string()
}

/// Delete identity, with everything that lies in it.
#[utoipa::path(
    delete, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}",
    operation_id = "deleteIdentityV1", tag = "Version 1",
    params(
        ("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("identityID" = uuid::Uuid, Path),
    ),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_identity(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let asked = Asked { api: &api, caller: &caller, trail: &trail };
    let identity: IdentityId = path.id("identityID")?;
    located::<IdentityRead>(asked, &path, identity.key()).await?;
    asked.deleted::<IdentityRead>(identity.key()).await
}
