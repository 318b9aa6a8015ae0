//! Allocations: what resources of other services are charged, one per resource.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{edited, entered, made, of_organization, owned, project_of, visited, written};
use crate::api::access::{permitted, read_modify_write};
use crate::api::context::Trail;
use crate::api::error::{ApiError, ErrorBody, Failure};
use crate::api::etag::{EntityTag, Tagged};
use crate::api::extract::{Authenticated, JsonBody, PathElements};
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::resources::Shown;
use crate::api::wire::{AcceptedMetadata, ProjectScopedReadMetadata, WriteMetadata};
use crate::api::{Api, Shared, list};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::allocation::{Allocation, AllocationSpec, is_reference_part};
use crate::model::ids::{AllocationId, Kind, OrganizationId, ProjectId};
use crate::model::quota::{Amount, QuotaKind};
use crate::model::record::Record;
use crate::store::{Batch, Precondition, Refusal, StoreError, Write};

const ENDPOINT: Endpoint = Endpoint::Allocations;

/// What clients with signed numbers can read.
const AMOUNT_MAX: u64 = i64::MAX as u64;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_allocations)).routes(routes!(create_allocation)).routes(routes!(
        get_allocation,
        update_allocation,
        delete_allocation
    ))
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = resourceAllocation)]
struct WireAmount {
    kind: String,
    #[schema(maximum = 9_223_372_036_854_775_807_i64)]
    committed: u64,
    #[schema(maximum = 9_223_372_036_854_775_807_i64)]
    reserved: u64,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = allocationSpec)]
struct WireAllocationSpec {
    #[schema(pattern = "^[0-9A-Za-z._-]{1,253}$")]
    kind: String,
    #[schema(pattern = "^[0-9A-Za-z._-]{1,253}$")]
    id: String,
    allocations: Vec<WireAmount>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = allocationWrite)]
struct AllocationWrite {
    metadata: WriteMetadata,
    spec: WireAllocationSpec,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = allocationRead)]
struct AllocationRead {
    metadata: ProjectScopedReadMetadata,
    spec: WireAllocationSpec,
}

impl AllocationWrite {
    fn accept(self) -> Result<(AcceptedMetadata, AllocationSpec), ApiError> {
        let metadata = self.metadata.accept()?;
        let spec = self.spec;
        if !is_reference_part(&spec.kind) || !is_reference_part(&spec.id) {
            return Err(ApiError::invalid("spec.kind and spec.id must be 1 to 253 letters, digits, '-', '_' or '.'"));
        }
        let mut allocations = Vec::new();
        for amount in spec.allocations {
            let kind = QuotaKind::from_word(&amount.kind)
                .ok_or_else(|| ApiError::invalid("spec.allocations names a kind that does not exist"))?;
            let value = Amount { committed: amount.committed, reserved: amount.reserved };
            let is_repeated = allocations.iter().any(|(known, _)| *known == kind);
            if value.total() > AMOUNT_MAX || is_repeated {
                return Err(ApiError::invalid("spec.allocations must name each kind once, with amounts below 2^63"));
            }
            allocations.push((kind, value));
        }
        Ok((metadata, AllocationSpec { kind: spec.kind, id: spec.id, allocations }))
    }
}

impl AllocationRead {
    fn of(record: &Record) -> Result<Self, ApiError> {
        let spec = record.open::<Allocation>()?.spec;
        let amount = |(kind, amount): &(QuotaKind, Amount)| WireAmount {
            kind: kind.word().to_owned(),
            committed: amount.committed,
            reserved: amount.reserved,
        };
        let allocations = spec.allocations.iter().map(amount).collect();
        let spec = WireAllocationSpec { kind: spec.kind, id: spec.id, allocations };
        Ok(Self { metadata: ProjectScopedReadMetadata::of_static(record), spec })
    }
}

/// The project that is charged, if the caller may do this in it.
async fn charged(
    api: &Api,
    caller: &Caller,
    trail: &Trail,
    path: &PathElements,
    operation: Operation,
) -> Result<(OrganizationId, ProjectId), ApiError> {
    let organization = visited(api, caller, trail, path, (ENDPOINT, operation)).await?;
    let (project, _) = project_of(api, caller, trail, path, organization).await?;
    permitted(caller, ENDPOINT, operation, Scope::Project(organization, project))?;
    Ok((organization, project))
}

async fn allocation_of(
    api: &Api,
    path: &PathElements,
    (organization, project): (OrganizationId, ProjectId),
) -> Result<Arc<Record>, ApiError> {
    let allocation: AllocationId = path.id("allocationID")?;
    let record = owned(api, organization, allocation.key()).await?;
    if record.metadata.placement.project == Some(project) { Ok(record) } else { Err(ApiError::not_found()) }
}

fn charge(record: &Record, organization: OrganizationId, project: ProjectId, spec: &AllocationSpec) -> Write {
    Write::Charge {
        organization,
        project: Some(project),
        holder: record.key,
        incarnation: record.metadata.incarnation,
        amounts: spec.amounts(),
    }
}

/// List allocations of the organization.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/allocations", operation_id = "listAllocations",
    tag = "Allocations", params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = Vec<AllocationRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_allocations(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Response, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Read)).await?;
    let show = |record: &Record| AllocationRead::of(record).ok();
    list::streamed(Arc::clone(&api.store), of_organization(Kind::Allocation, organization), show).await
}

/// Create allocation. A resource has one: to ask again for the same is answered alike, for another amount refused.
#[utoipa::path(
    post, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/allocations",
    operation_id = "createAllocation", tag = "Allocations",
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path)), request_body = AllocationWrite,
    responses(
        (status = 201, body = AllocationRead), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
        CommonErrors, BodyErrors
    ),
    security(("bearer" = []))
)]
async fn create_allocation(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<AllocationWrite>,
) -> Result<Response, ApiError> {
    let (organization, project) = charged(&api, &caller, &trail, &path, Operation::Create).await?;
    let (accepted, spec) = request.accept()?;
    let allocation = AllocationId::of(organization, &spec.kind, &spec.id);
    trail.resource(allocation.key());
    let Write::Insert(mut record) = made::<Allocation>(&api, &caller, allocation.0, organization, accepted, &spec)
    else {
        return Err(ApiError::internal(&"what is made is inserted"));
    };
    record.metadata.placement.project = Some(project);
    record.metadata.principal.project = Some(project);
    record.metadata.owner = Some(project.key());
    record.metadata.charged = true;
    let charge = charge(&record, organization, project, &spec);
    let batch = Batch::of(vec![Write::Insert(record), charge]).provided(Precondition::Live(project.key()));
    let record = match api.store.commit(batch).await {
        Ok(committed) => written(&committed, allocation.key())?,
        Err(StoreError::Refused(Refusal::Exists(_))) => {
            let record = owned(&api, organization, allocation.key()).await?;
            // Its id says of which resource it is.
            let is_same = record.open::<Allocation>()?.spec.amounts() == spec.amounts();
            if !is_same || record.metadata.placement.project != Some(project) {
                return Err(ApiError::new(Failure::Conflict, "the resource has another allocation already"));
            }
            record
        }
        Err(error) => return Err(error.into()),
    };
    Ok((StatusCode::CREATED, Json(AllocationRead::of(&record)?)).into_response())
}

/// Get allocation.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/allocations/{allocationID}",
    operation_id = "getAllocation", tag = "Allocations",
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("allocationID" = uuid::Uuid, Path)),
    responses((status = 200, body = AllocationRead), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn get_allocation(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Shown<AllocationRead>, ApiError> {
    let place = charged(&api, &caller, &trail, &path, Operation::Read).await?;
    let record = allocation_of(&api, &path, place).await?;
    Ok(Tagged(EntityTag::of(&record), Json(AllocationRead::of(&record)?)))
}

/// Update allocation: other amounts for the same resource.
#[utoipa::path(
    put, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/allocations/{allocationID}",
    operation_id = "updateAllocation", tag = "Allocations",
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("allocationID" = uuid::Uuid, Path)),
    request_body = AllocationWrite,
    responses((status = 200, body = AllocationRead), (status = 404, body = ErrorBody), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn update_allocation(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<AllocationWrite>,
) -> Result<Json<AllocationRead>, ApiError> {
    let place = charged(&api, &caller, &trail, &path, Operation::Update).await?;
    let (accepted, spec) = request.accept()?;
    let planned = || async {
        let record = allocation_of(&api, &path, place).await?;
        trail.resource(record.key);
        let before = record.open::<Allocation>()?.spec;
        if (&before.kind, &before.id) != (&spec.kind, &spec.id) {
            return Err(ApiError::invalid("spec.kind and spec.id cannot be changed"));
        }
        let edited = edited(&api, &caller, &record, Some(&accepted), &spec)?;
        Ok(Batch::of(vec![edited, charge(&record, place.0, place.1, &spec)]))
    };
    let committed = read_modify_write(&api, planned).await?;
    let allocation: AllocationId = path.id("allocationID")?;
    Ok(Json(AllocationRead::of(&*written(&committed, allocation.key())?)?))
}

/// Delete allocation: what it held is free again.
#[utoipa::path(
    delete, path = "/api/v1/organizations/{organizationID}/projects/{projectID}/allocations/{allocationID}",
    operation_id = "deleteAllocation", tag = "Allocations",
    params(("organizationID" = uuid::Uuid, Path), ("projectID" = uuid::Uuid, Path), ("allocationID" = uuid::Uuid, Path)),
    responses((status = 202), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn delete_allocation(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<StatusCode, ApiError> {
    let place = charged(&api, &caller, &trail, &path, Operation::Delete).await?;
    let record = allocation_of(&api, &path, place).await?;
    trail.resource(record.key);
    let (key, incarnation) = (record.key, record.metadata.incarnation);
    let writes = vec![Write::Release { holder: key, incarnation }, Write::Remove { key, incarnation }];
    api.store.commit(Batch::of(writes).provided(Precondition::Unprotected(key))).await?;
    Ok(StatusCode::ACCEPTED)
}
