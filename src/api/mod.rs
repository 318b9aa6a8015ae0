//! How it is asked: the REST surface.
//!
//! Handlers read the store and commit intent to it; none of them speaks to an actor. An accepted write is durable
//! before its answer is sent, and the store's watch wakes whoever has to act on it. Each handler takes its caller as
//! an argument and asks it for permission; nothing is permitted by having got this far.

pub mod about;
pub mod access;
pub mod admin;
pub mod audit;
pub mod catalogue;
pub mod compute;
pub mod context;
pub mod cors;
pub mod described;
mod document;
pub mod error;
pub mod etag;
pub mod events;
pub mod extract;
pub mod identity;
pub mod intent;
pub mod list;
pub mod listen;
pub mod middleware;
pub mod opaque;
pub mod openapi;
pub mod page;
pub mod paging;
pub mod rate;
pub mod reference;
pub mod resources;
pub mod staging;
mod strict_json;
pub mod surfaces;
pub mod system;
pub mod tls;
mod unread;
pub mod v1;
pub mod v2;
pub mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tokio::sync::Semaphore;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;

use crate::graph::completions::Completions;
use crate::identity::IdentityService;
use crate::model::ambient::Ambient;
use crate::model::ids::RegionId;
use crate::model::image_url::ImageUrl;
use crate::model::sealed::{EnvelopeKey, SealError, Sealed};
use crate::providers::file_storage::FileStorageClass;
use crate::providers::image_probe::{ProbeError, Probed, SIZE_LIMIT_GIB_DEFAULT};
use crate::providers::types::{ExternalNetwork, Flavor, Image, VolumeClass};
use crate::providers::{ProviderResult, ServerRequest};
use crate::store::Store;
use catalogue::Catalogue;
use cors::CorsPolicy;
use error::ApiError;
use events::Events;
use rate::TenantRates;
use v1::deprecation::Availability;

/// What this surface asks clouds directly, because nobody here keeps it: what they offer, and what a console showed.
#[async_trait]
pub trait CloudReads: Send + Sync {
    async fn external_networks(&self, region: RegionId) -> ProviderResult<Vec<ExternalNetwork>>;
    async fn flavors(&self, region: RegionId) -> ProviderResult<Vec<Flavor>>;
    async fn images(&self, region: RegionId) -> ProviderResult<Vec<Image>>;
    /// Can servers of the region get another flavor in place?
    fn resizes(&self, region: RegionId) -> bool;
    /// Looks at what is to be imported, where the region fetches it.
    async fn probe_image(&self, region: RegionId, url: &ImageUrl) -> Result<Probed, ProbeError>;
    async fn volume_classes(&self, region: RegionId) -> ProviderResult<Vec<VolumeClass>>;
    async fn file_storage_classes(&self, region: RegionId) -> ProviderResult<Vec<FileStorageClass>>;
    /// The last `lines` of it, or all that the cloud keeps.
    async fn console_output(
        &self,
        region: RegionId,
        server: &ServerRequest,
        lines: Option<u32>,
    ) -> ProviderResult<String>;
}

/// Opens what is handed to whoever has the permission, and seals what is handed out to be handed back. All that this surface may do with the envelope key.
pub trait Secrets: Send + Sync {
    fn open(&self, sealed: &Sealed<String>) -> Result<String, SealError>;
    fn seal(&self, text: &str) -> Result<Sealed<String>, SealError>;
}

impl Secrets for EnvelopeKey {
    fn seal(&self, text: &str) -> Result<Sealed<String>, SealError> {
        Self::seal(self, &text.to_owned())
    }

    fn open(&self, sealed: &Sealed<String>) -> Result<String, SealError> {
        Self::open(self, sealed)
    }
}

/// What an operator may set about the surface.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    pub cors: CorsPolicy,
    /// How long a client may keep what a cloud rarely changes.
    pub cache_max_age_s: u32,
    /// The largest image that may be imported.
    pub image_size_limit_gib: u32,
    /// Whether the first version is served.
    pub v1: Availability,
    /// Whether it hands out what principals get into their clouds with, to whoever has the permission.
    pub v1_identity_secrets: bool,
}

/// A day, as the services that clients know today say.
pub const CACHE_MAX_AGE_S_DEFAULT: u32 = 86_400;

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            cors: CorsPolicy::default(),
            cache_max_age_s: CACHE_MAX_AGE_S_DEFAULT,
            image_size_limit_gib: SIZE_LIMIT_GIB_DEFAULT,
            v1: Availability::default(),
            v1_identity_secrets: false,
        }
    }
}

/// Everything a handler may use. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    pub store: Arc<dyn Store>,
    pub identity: Arc<dyn IdentityService>,
    pub catalogue: Catalogue,
    pub secrets: Arc<dyn Secrets>,
    pub completions: Completions,
    pub ambient: Ambient,
    pub settings: ApiSettings,
    pub rates: TenantRates,
    pub events: Events,
}

pub type Shared = Arc<Api>;

/// The public listener.
pub fn router(api: &Shared) -> Router {
    let routes = with_refusals(routes());
    let staging = staging::Staging::of(routes.clone(), api);
    finished(routes.layer(from_fn_with_state(staging, staging::stage)), api)
}

/// Every service's paths at the root, each service's own under its name, and what belongs to none.
fn routes() -> Router<Shared> {
    let (all, document) = every_service().split_for_parts();
    let alone = |service: OpenApiRouter<Shared>| service.merge(system::routes()).split_for_parts().0;
    Router::new()
        .merge(all)
        .nest("/region", alone(region_service()))
        .nest("/compute", alone(compute::routes().merge(compute::discovery::routes())))
        .nest("/identity", alone(identity::routes()))
        .merge(system::unauthenticated())
        .merge(openapi::serve(&document))
        .merge(page::routes())
}

/// What the root serves, with its description.
pub(crate) fn every_service() -> OpenApiRouter<Shared> {
    openapi::described()
        .merge(region_service())
        .merge(compute::routes())
        .merge(identity::routes())
        .merge(system::routes())
}

/// The paths of the region service.
fn region_service() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().merge(v2::routes()).merge(events::routes()).merge(about::routes()).merge(v1::routes())
}

/// Puts around a set of routes what every request passes. Two routers, because a router adds `Allow` to its refusals
/// outside its own layers, and answering a preflight needs it.
pub(crate) fn finished(routes: Router<Shared>, api: &Shared) -> Router {
    let places = Arc::new(Semaphore::new(middleware::IN_FLIGHT_MAX));
    let inner = routes
        .layer(from_fn(middleware::deadline))
        .layer(CatchPanicLayer::custom(middleware::panicked))
        .layer(from_fn_with_state(places, middleware::admit))
        .layer(from_fn_with_state(Arc::clone(api), v1::deprecation::announce))
        .layer(from_fn(middleware::note_route))
        .with_state(Arc::clone(api));
    Router::new()
        .fallback_service(inner)
        .layer(from_fn(unread::discard))
        .layer(from_fn_with_state(Arc::clone(api), cors::cors))
        .layer(from_fn_with_state(Arc::clone(api), middleware::observe))
}

/// Says what becomes of everything else.
pub(crate) fn with_refusals(routes: Router<Shared>) -> Router<Shared> {
    routes.fallback(unknown_path).method_not_allowed_fallback(wrong_method)
}

async fn unknown_path() -> ApiError {
    ApiError::not_found()
}

async fn wrong_method() -> ApiError {
    ApiError::of_status(axum::http::StatusCode::METHOD_NOT_ALLOWED)
}
