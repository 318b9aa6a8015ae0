//! The first version of the region service.
//!
//! ```text
//!   organization ─ project ─ identity ─┬─ network ─ server
//!                                      └─ security group
//! ```
//!
//! A thin translation: the kinds, their actors and their rules are those of the second version, under which principals
//! are hidden behind networks. Here they are made by their users, own any number of networks, and own security groups,
//! which hold for all of them. Each version shows what was made through it, and no more.
//!
//! It is deprecated ([`deprecation`]), but for what has no successor: regions and what they offer, and images.

pub mod catalogue;
pub mod deprecation;
pub mod identities;
pub mod images;
pub mod networks;
pub(in crate::api) mod paths;
pub mod regions;
pub mod security_groups;
pub mod servers;

use utoipa_axum::router::OpenApiRouter;

use super::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    deprecation::marked(
        regions::routes()
            .merge(catalogue::routes())
            .merge(images::routes())
            .merge(identities::routes())
            .merge(networks::routes())
            .merge(security_groups::routes())
            .merge(servers::routes()),
    )
}
