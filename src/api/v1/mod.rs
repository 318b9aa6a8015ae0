//! The deprecated version of the region service, as far as it has no successor: regions, and what they offer.

pub mod catalogue;
pub mod regions;

use utoipa_axum::router::OpenApiRouter;

use super::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    regions::routes().merge(catalogue::routes())
}
