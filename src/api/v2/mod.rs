//! The current version of the region service.

pub mod images;
pub mod networks;
pub mod security_groups;
pub mod servers;
pub mod ssh_certificate_authorities;

use utoipa_axum::router::OpenApiRouter;

use super::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(networks::routes())
        .merge(security_groups::routes())
        .merge(ssh_certificate_authorities::routes())
        .merge(servers::routes())
        .merge(images::routes())
}
