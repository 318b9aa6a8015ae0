//! The current version of the region service.

pub mod file_storage;
pub mod images;
pub mod load_balancers;
pub mod networks;
pub mod security_groups;
pub mod servers;
pub mod ssh_certificate_authorities;
pub mod volume_classes;
pub mod volumes;

use utoipa_axum::router::OpenApiRouter;

use super::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(networks::routes())
        .merge(security_groups::routes())
        .merge(load_balancers::routes())
        .merge(ssh_certificate_authorities::routes())
        .merge(servers::routes())
        .merge(images::routes())
        .merge(volumes::routes())
        .merge(volume_classes::routes())
        .merge(file_storage::routes())
}
