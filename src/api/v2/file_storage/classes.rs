//! Classes of file storage: what the storage systems of the regions offer. They have no records.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::is_reachable;
use crate::api::catalogue::{FRESH, JUST_NOW};
use crate::api::error::{ApiError, Failure};
use crate::api::extract::{Authenticated, QueryElements};
use crate::api::openapi::CommonErrors;
use crate::api::wire::ReadMetadata;
use crate::api::{Api, Shared};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{FileStorageClassId, Kind, OrganizationId, RegionId};
use crate::model::record::{Place, Record};
use crate::model::region::Region;
use crate::providers::file_storage::{FileProtocol, FileStorageClass};
use crate::store::{Filter, Pages};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_classes))
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = storageClassV2Spec)]
struct WireClassSpec {
    #[schema(format = "uuid")]
    region_id: String,
    protocols: Vec<FileProtocol>,
    /// How many addresses of a network a share uses, if there are as many.
    #[schema(minimum = 1)]
    parallelism: u32,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = storageClassV2Read)]
struct ClassRead {
    metadata: ReadMetadata,
    spec: WireClassSpec,
}

impl ClassRead {
    /// Storage systems do not say since when they offer a class; here it exists since its region does.
    fn of(class: &FileStorageClass, region: &Record) -> Self {
        let metadata = ReadMetadata {
            id: class.id.to_string(),
            name: class.name.clone(),
            description: class.description.clone(),
            tags: None,
            modified_time: None,
            modified_by: None,
            ..ReadMetadata::of_static(region)
        };
        let spec = WireClassSpec {
            region_id: region.key.id.to_string(),
            protocols: class.protocols.clone(),
            parallelism: class.parallelism,
        };
        Self { metadata, spec }
    }
}

/// What is private is there for whoever may read classes in one of its organizations.
fn may_see(caller: &Caller, class: &FileStorageClass) -> bool {
    let reads = |organization: &OrganizationId| {
        caller.allows(Endpoint::FileStorageClassesV2, Operation::Read, Scope::Organization(*organization))
    };
    class.organizations.as_ref().is_none_or(|organizations| organizations.iter().any(reads))
}

/// The class, if the region offers it for the organization, and the caller may know it. What the last list lacks may
/// have come in the meantime.
pub async fn offered(
    api: &Api,
    caller: &Caller,
    place: Place,
    id: FileStorageClassId,
) -> Result<Option<FileStorageClass>, ApiError> {
    for age_max in [FRESH, JUST_NOW] {
        let known = match api.catalogue.file_storage_classes(place.region, age_max).await {
            Err(error) if error.failure == Failure::NotFound => return Ok(None),
            known => known?,
        };
        let is_offered = |class: &&FileStorageClass| {
            class.id == id && class.is_visible_to(place.organization) && may_see(caller, class)
        };
        if let Some(class) = known.iter().find(is_offered) {
            return Ok(Some(class.clone()));
        }
    }
    Ok(None)
}

/// List classes of file storage, of the regions that the caller can use.
#[utoipa::path(
    get, path = "/api/v2/filestorageclasses", operation_id = "listFileStorageClasses", tag = "File storage classes",
    params(("regionID" = Option<Vec<String>>, Query, description = "Only those of these regions")),
    responses((status = 200, body = Vec<ClassRead>), CommonErrors),
    security(("bearer" = []))
)]
async fn list_classes(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    query: QueryElements,
) -> Result<Json<Vec<ClassRead>>, ApiError> {
    query.only(&["regionID"])?;
    let asked = query.values::<RegionId>("regionID")?;
    let mut shown = Vec::new();
    let mut pages = Pages::of(api.store.as_ref(), Filter::of(Kind::Region));
    while let Some(regions) = pages.next().await? {
        for record in regions {
            let region = RegionId(record.key.id);
            let spec = record.open::<Region>()?.spec;
            let is_asked = asked.as_ref().is_none_or(|asked| asked.contains(&region));
            if !is_asked || spec.withdrawn || !is_reachable(&caller, &spec) {
                continue;
            }
            match api.catalogue.file_storage_classes(region, FRESH).await {
                // Not every region has files to offer.
                Err(error) if error.failure == Failure::NotFound => {}
                classes => {
                    let classes = classes?;
                    let visible = classes.iter().filter(|class| may_see(&caller, class));
                    shown.extend(visible.map(|class| ClassRead::of(class, &record)));
                }
            }
        }
    }
    shown.sort_by(|one, other| (&one.metadata.name, &one.metadata.id).cmp(&(&other.metadata.name, &other.metadata.id)));
    Ok(Json(shown))
}
