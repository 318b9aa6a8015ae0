//! The compute service: what users see of machines. Instances and clusters, over servers that nobody has to know of.
//!
//! Everything is checked with the rights of whoever asks: on the network, the flavor, the image, the groups and the SSH
//! authority, before anything is committed. What the layer below refuses keeps its code and its words.

pub mod clusters;
pub mod discovery;
pub mod instances;
pub mod machines;
pub mod v1;

use utoipa_axum::router::OpenApiRouter;

use super::Shared;

/// What no other service has a path for.
pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().merge(instances::routes()).merge(clusters::routes()).merge(v1::routes())
}
