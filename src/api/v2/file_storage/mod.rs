//! File storage: shares that servers of the attached networks mount, and the classes that they come in.
//!
//! The contract has no 404 for what a body names: a project, a region, a class or a network that is not there, or not
//! there for the caller, is a part of the request that does not hold, and the two are told in the same words. An update
//! checks only what it changes.

pub mod classes;
pub mod intent;
pub mod wire;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::{existing_payer, existing_project, permitted, readable, scope_of, visible_region};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody, Failure};
use crate::api::extract::{Authenticated, JsonBody, PathElements, QueryElements};
use crate::api::intent::Author;
use crate::api::openapi::{BodyErrors, CommonErrors, ContradictionErrors};
use crate::api::resources::{Asked, Replacement, Shown, Surface, listed, shown};
use crate::api::{Api, Shared};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation};
use crate::model::file_storage::{Attachment, FileStorage, FileStorageSpec, attachment_addresses};
use crate::model::ids::{FileStorageClassId, FileStorageId, Incarnation, Kind, NetworkId, ProjectId};
use crate::model::metadata::Placement;
use crate::model::network::Network;
use crate::model::record::{Place, Resource};
use crate::store::{Batch, Refusal, StoreError};
use wire::{AcceptedCreate, AcceptedUpdate, FileStorageCreate, FileStorageRead, FileStorageUpdate, unprocessable};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_file_storage, create_file_storage))
        .routes(routes!(get_file_storage, update_file_storage, delete_file_storage))
        .merge(classes::routes())
}

const NO_PROJECT: &str = "spec.projectId names no project of the organization";
const NO_REGION: &str = "spec.regionId names no region that can be used";
const NO_NETWORK: &str = "spec.attachments.networkIds must be networks that exist";

/// What is not there is a part of the request that does not hold.
fn missing(rule: &'static str) -> impl Fn(ApiError) -> ApiError {
    move |error| match error.failure {
        Failure::NotFound => ApiError::unprocessable(rule),
        _ => error,
    }
}

/// The same, of what went away between the check and the commit.
fn gone(error: StoreError, project: ProjectId) -> ApiError {
    match error {
        StoreError::Refused(Refusal::Missing(key) | Refusal::Deleting(key)) => match key.kind {
            Kind::Network => ApiError::unprocessable(NO_NETWORK),
            Kind::Region => ApiError::unprocessable(NO_REGION),
            _ if key == project.key() => ApiError::unprocessable(NO_PROJECT),
            _ => ApiError::unprocessable("whoever pays for it does not exist"),
        },
        error => error.into(),
    }
}

/// List file storage.
#[utoipa::path(
    get, path = "/api/v2/filestorage", operation_id = "listFileStorage", tag = "File storage",
    params(
        ("tag" = Option<Vec<String>>, Query, description = "Only those with this tag, as name=value; all must match"),
        ("organizationID" = Option<Vec<String>>, Query, description = "Only those of these organizations"),
        ("projectID" = Option<Vec<String>>, Query, description = "Only those of these projects"),
        ("regionID" = Option<Vec<String>>, Query, description = "Only those in these regions"),
    ),
    responses((status = 200, body = Vec<FileStorageRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_file_storage(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Response, ApiError> {
    listed::<FileStorageRead>(&api, caller, &query, &["tag", "organizationID", "projectID", "regionID"]).await
}

/// Create file storage.
#[utoipa::path(
    post, path = "/api/v2/filestorage", operation_id = "createFileStorage", tag = "File storage",
    request_body = FileStorageCreate,
    responses((status = 201, body = FileStorageRead), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn create_file_storage(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    JsonBody(request): JsonBody<FileStorageCreate>,
) -> Result<Response, ApiError> {
    trail.kind(Kind::FileStorage);
    let accepted = request.accept()?;
    let AcceptedCreate { organization, project, region, .. } = accepted;
    let placement = Placement {
        organization: Some(organization),
        project: Some(project),
        region: Some(region),
        ..Placement::default()
    };
    trail.scope(placement);
    permitted(&caller, FileStorageRead::ENDPOINT, Operation::Create, scope_of(&placement))?;
    let spec = intent::first_spec(&accepted);
    spec.validate().map_err(unprocessable)?;
    existing_project(&api, organization, project).await.map_err(missing(NO_PROJECT))?;
    if visible_region(&api, &caller, organization, region).await.map_err(missing(NO_REGION))?.spec.withdrawn {
        return Err(ApiError::unprocessable(NO_REGION));
    }
    let place = Place { organization, project, region };
    let author = Author::of(&caller, (organization, project), api.ambient.now());
    if author.principal.organization != Some(organization) || author.principal.project != Some(project) {
        existing_payer(&api, &author.principal).await.map_err(missing("whoever pays for it does not exist"))?;
    }
    let attaching = Attaching { api: &api, caller: &caller, place, class: accepted.class };
    attaching.parallelism().await?;
    let attachments = attaching.attachments(accepted.said.networks.as_deref(), &[]).await?;
    let spec = FileStorageSpec { attachments, ..spec };
    let id = FileStorageId(api.ambient.uuid());
    let batch = intent::creation(&accepted, &spec, &author, placement, (id, Incarnation(api.ambient.uuid())));
    let committed = api.store.commit(batch).await.map_err(|error| gone(error, project))?;
    Asked { api: &api, caller: &caller, trail: &trail }.created::<FileStorageRead>(&committed, id.key())
}

/// Whoever attaches networks to a file storage.
struct Attaching<'a> {
    api: &'a Api,
    caller: &'a Caller,
    place: Place,
    class: FileStorageClassId,
}

impl Attaching<'_> {
    /// How many addresses a share of the class uses, if the region offers it.
    async fn parallelism(&self) -> Result<u32, ApiError> {
        let class = classes::offered(self.api, self.caller, self.place, self.class).await?;
        let missing = || ApiError::unprocessable("spec.storageClassId names no class of the region");
        Ok(class.ok_or_else(missing)?.parallelism)
    }

    /// What is to be attached, in the order in which it was said. What was attached before stays as it was.
    async fn attachments(
        &self,
        networks: Option<&[NetworkId]>,
        before: &[Attachment],
    ) -> Result<Option<Vec<Attachment>>, ApiError> {
        let Some(networks) = networks else { return Ok(None) };
        let mut attachments = Vec::new();
        for network in networks {
            attachments.push(match before.iter().find(|attachment| attachment.network == *network) {
                Some(known) => *known,
                None => self.attachment(*network).await?,
            });
        }
        Ok(Some(attachments))
    }

    /// A network of the same project and region that is made, and that keeps addresses for storage.
    async fn attachment(&self, network: NetworkId) -> Result<Attachment, ApiError> {
        let record = readable(self.api, self.caller, Endpoint::NetworksV2, network.key()).await;
        let record = record.map_err(missing(NO_NETWORK))?;
        let refused = |rule| Err(ApiError::unprocessable(rule));
        let place = record.place()?;
        if (place.organization, place.project) != (self.place.organization, self.place.project) {
            return refused("spec.attachments.networkIds must be of the file storage's project");
        }
        if place.region != self.place.region {
            return refused("spec.attachments.networkIds must be of the file storage's region");
        }
        if record.metadata.is_deleting() || !record.conditions.is_available() {
            return refused("spec.attachments.networkIds must be networks that are provisioned");
        }
        let resource = record.open::<Network>()?;
        let Some(range) = resource.spec.address_plan().storage else {
            return refused("spec.attachments.networkIds must be networks that reserve addresses for storage");
        };
        let addresses = attachment_addresses(range, self.parallelism().await?);
        Ok(Attachment { network, addresses, vlan: resource.detail.vlan })
    }
}

/// Get file storage.
#[utoipa::path(
    get, path = "/api/v2/filestorage/{filestorageID}", operation_id = "getFileStorage", tag = "File storage",
    params(("filestorageID" = uuid::Uuid, Path)),
    responses((status = 200, body = FileStorageRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_file_storage(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
) -> Result<Shown<FileStorageRead>, ApiError> {
    let storage: FileStorageId = path.id("filestorageID")?;
    shown(&api, &caller, storage.key()).await
}

/// Update file storage.
#[utoipa::path(
    put, path = "/api/v2/filestorage/{filestorageID}", operation_id = "updateFileStorage", tag = "File storage",
    params(("filestorageID" = uuid::Uuid, Path)), request_body = FileStorageUpdate,
    responses((status = 202, body = FileStorageRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors, ContradictionErrors),
    security(("bearer" = []))
)]
async fn update_file_storage(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<FileStorageUpdate>,
) -> Result<Response, ApiError> {
    let storage: FileStorageId = path.id("filestorageID")?;
    trail.resource(storage.key());
    let accepted = request.accept()?;
    Asked { api: &api, caller: &caller, trail: &trail }.updated(storage.key(), &accepted).await
}

#[async_trait]
impl Replacement for AcceptedUpdate {
    type Surface = FileStorageRead;

    async fn batch(&self, asked: Asked<'_>, stored: &Resource<FileStorage>) -> Result<Batch, ApiError> {
        let (api, caller, place) = (asked.api, asked.caller, stored.place()?);
        let attaching = Attaching { api, caller, place, class: stored.spec.class };
        let spec = intent::updated_spec(&stored.spec, self);
        spec.validate().and_then(|()| spec.validate_after(&stored.spec)).map_err(unprocessable)?;
        let attachments = attaching.attachments(self.networks.as_deref(), stored.spec.attachments()).await?;
        let spec = FileStorageSpec { attachments, ..spec };
        Ok(intent::update(stored, place, &spec, self, (&caller.subject, api.ambient.now())))
    }
}

/// Delete file storage.
#[utoipa::path(
    delete, path = "/api/v2/filestorage/{filestorageID}", operation_id = "deleteFileStorage", tag = "File storage",
    params(("filestorageID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_file_storage(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let storage: FileStorageId = path.id("filestorageID")?;
    Asked { api: &api, caller: &caller, trail: &trail }.deleted::<FileStorageRead>(storage.key()).await
}
