//! Images: what servers boot from.
//!
//! A region's cloud offers some to everybody; nobody here stores those. An organization's own have a record, and the
//! record is the truth about them: what the cloud shows under an id that has one is not looked at.

pub mod intent;
pub mod wire;

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::access::reachable_region;
use crate::api::catalogue::FRESH;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::extract::{Authenticated, PathElements, QueryElements};
use crate::api::openapi::CommonErrors;
use crate::api::resources::{Shown, Surface, written};
use crate::api::{Api, Shared};
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{ImageId, Kind, OrganizationId, RegionId};
use crate::model::image::{Image, ImageStatus};
use crate::model::record::{Place, Resource};
use crate::store::{Batch, Filter, Pages, Refusal, StoreError};
use wire::{ImageRead, state_of};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list_images))
}

/// Which images are asked for.
pub struct Wanted {
    /// Those of these organizations, whose images the caller may read.
    pub organizations: Vec<OrganizationId>,
    /// Those that are everybody's as well?
    pub everybodys: bool,
    /// Only those in these states; empty: in any.
    pub states: Vec<ImageStatus>,
}

/// Those that are wanted, by name; of one name, by id.
pub async fn images_shown(api: &Api, region: RegionId, wanted: &Wanted) -> Result<Vec<ImageRead>, ApiError> {
    let is_state = |status: ImageStatus| wanted.states.is_empty() || wanted.states.contains(&status);
    let mut own = Vec::new();
    if !wanted.organizations.is_empty() {
        let filter = Filter {
            organizations: Some(wanted.organizations.clone()),
            regions: Some(vec![region]),
            ..Filter::of(Kind::Image)
        };
        let mut pages = Pages::of(&*api.store, filter);
        while let Some(records) = pages.next().await? {
            own.extend(records);
        }
    }
    let offered = api.catalogue.images(region, FRESH).await?;
    let has_record = |id: ImageId| own.iter().any(|record| record.key == id.key());
    let is_wanted = |owner: Option<OrganizationId>| match owner {
        Some(owner) => wanted.organizations.contains(&owner),
        None => wanted.everybodys,
    };
    let offered = offered.iter().filter(|image| is_wanted(image.organization) && !has_record(image.id));
    let mut shown = offered.filter(|image| is_state(image.status)).map(ImageRead::offered).collect::<Vec<_>>();
    for record in &own {
        // One damaged record does not cost the others their list; the store reports it as quarantined.
        match record.open::<Image>().and_then(|image| Ok((image.status(), ImageRead::of(record)?))) {
            Ok((status, read)) if is_state(status) => shown.push(read),
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "left out of a list"),
        }
    }
    shown.sort_by(|one, other| one.order().cmp(&other.order()));
    Ok(shown)
}

/// The image of this id that is the organization's own; `None` when the id has no record. What is another's, or in
/// another region, is as if it were not there.
pub async fn own_image(api: &Api, place: Place, id: ImageId) -> Result<Option<Resource<Image>>, ApiError> {
    let Some(record) = api.store.get(id.key()).await? else { return Ok(None) };
    let placement = &record.metadata.placement;
    if (placement.organization, placement.region) != (Some(place.organization), Some(place.region)) {
        return Err(ApiError::not_found());
    }
    Ok(Some(record.open()?))
}

/// Commits what makes an image.
pub async fn made(api: &Api, batch: Batch, id: ImageId) -> Result<Shown<ImageRead>, ApiError> {
    match api.store.commit(batch).await {
        Ok(committed) => written(&committed, id.key()),
        Err(StoreError::Refused(Refusal::Exhausted(_))) => {
            Err(ApiError::forbidden("the organization has as many images as it may have"))
        }
        // What is going is no longer there to be used.
        Err(StoreError::Refused(Refusal::Deleting(key))) if key.kind != Kind::Server => Err(ApiError::not_found()),
        Err(error) => Err(error.into()),
    }
}

/// List the images of a region.
#[utoipa::path(
    get, path = "/api/v2/regions/{regionID}/images", operation_id = "listImages", tag = "Images",
    params(
        ("regionID" = uuid::Uuid, Path),
        ("organizationID" = Option<Vec<String>>, Query, description = "Also, or only, those of these organizations"),
        ("scope" = Option<String>, Query, description = "owned: only those of the organizations; available: also everybody's"),
        ("status" = Option<Vec<String>>, Query, description = "Only those in these states"),
    ),
    responses((status = 200, body = Vec<ImageRead>), (status = 404, body = ErrorBody), CommonErrors),
    security(("bearer" = []))
)]
async fn list_images(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    path: PathElements,
    query: QueryElements,
) -> Result<Json<Vec<ImageRead>>, ApiError> {
    let region: RegionId = path.id("regionID")?;
    query.only(&["organizationID", "scope", "status"])?;
    let asked = query.values::<OrganizationId>("organizationID")?;
    let is_owned_only = match query.value::<String>("scope")?.as_deref() {
        None | Some("available") => false,
        Some("owned") => true,
        Some(_) => return Err(ApiError::invalid_element()),
    };
    let states = query.texts("status").map(|word| state_of(word).ok_or_else(ApiError::invalid_element));
    let states = states.collect::<Result<Vec<_>, _>>()?;
    reachable_region(&api, &caller, region).await?;
    let may_read = |id: &OrganizationId| caller.allows(Endpoint::Images, Operation::Read, Scope::Organization(*id));
    // Without an organization there is nothing to own, and the scope means nothing.
    let everybodys = asked.is_none() || !is_owned_only;
    let organizations = asked.unwrap_or_default().into_iter().filter(may_read).collect();
    Ok(Json(images_shown(&api, region, &Wanted { organizations, everybodys, states }).await?))
}
