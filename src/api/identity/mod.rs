//! The identity service: organizations and what they own, on the paths that existing clients know.
//!
//! Records of these kinds simply are: accepting a request is all there is to do. Projects and organizations are only
//! *marked* deleted here, since what lies in them has to go first; everything else goes at once. Every commit that
//! may change what somebody may do tells whoever recognizes callers (`access::commit`, `access::change`).
//!
//! An organization that is unknown and one that is somebody else's get the same 403: see [`access`].

mod access;
mod acl;
mod allocations;
mod groups;
mod members;
mod organizations;
mod projects;
mod quotas;
mod roles;
mod service_accounts;
mod users;

use utoipa_axum::router::OpenApiRouter;

use super::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(acl::routes())
        .merge(organizations::routes())
        .merge(roles::routes())
        .merge(groups::routes())
        .merge(users::routes())
        .merge(service_accounts::routes())
        .merge(projects::routes())
        .merge(quotas::routes())
        .merge(allocations::routes())
}
