//! The provider of OpenStack regions: converge, adopt, confirm.
//!
//! It looks first, creates only where an answer has said that there is nothing, and adopts what a lost answer, or the
//! service before us, left behind ([`names`]). Every call goes through the region's pool ([`session`], which says how a
//! kind is written) over one way to the cloud ([`transport`]), which is made of the region's settings and of credentials
//! that are never stored ([`connection`], [`credentials`]).

mod asking;
pub mod check;
mod connection;
mod credentials;
mod doubles;
mod identity;
mod image;
mod image_plan;
mod listing;
mod load_balancer;
mod load_balancer_plan;
pub mod names;
mod network;
mod network_plan;
mod offers;
mod ports;
mod principals;
mod security_group;
mod security_group_plan;
mod server;
mod server_plan;
mod session;
mod shared_project;
pub mod transport;
mod volume;
mod volume_plan;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use uuid::Uuid;

use crate::model::identity::IdentityDetail;
use crate::model::ids::{FlavorId, ImageId, Key, Kind, RegionId, ServerId};
use crate::model::openstack::{Isolation, OpenstackSettings};
use crate::providers::image_schema::{Reported, SigningKey};
use crate::providers::pool::Pool;
use crate::providers::types::{ExternalNetwork, Flavor, Image, VolumeClass};
use crate::providers::{
    CallContext, Deletion, IdentityRequest, ImageFact, ImageRequest, Listed, Listing, LoadBalancerFact,
    LoadBalancerRequest, NetworkFact, NetworkRequest, Observed, PowerAction, Provider, ProviderResult, PublicAddress,
    SecurityGroupFact, SecurityGroupRequest, ServerFact, ServerRequest, VolumeFact, VolumeRequest,
};
use connection::Connection;
use listing::Sweeps;

pub use connection::Acting;
pub use principals::{Access, Principal, Principals, StoredPrincipals};
use session::Session;

/// One region on an OpenStack cloud.
pub struct OpenstackProvider {
    region: RegionId,
    pool: Pool,
    connection: Connection,
    principals: Arc<dyn Principals>,
    settings: OpenstackSettings,
    signing_key: Option<SigningKey>,
    /// Images of the catalogue that make no sense, and that somebody has been told of.
    unfit: Mutex<Reported>,
    /// What one page of a bulk list leaves to the next.
    sweeps: Mutex<Sweeps>,
    /// What servers call their flavors by.
    flavors: Mutex<Option<server::KeptFlavors>>,
}

impl OpenstackProvider {
    /// Makes no call and reads no file. The error is an operator's: settings that make no sense.
    pub fn new(
        region: RegionId,
        pool: Pool,
        settings: OpenstackSettings,
        principals: Arc<dyn Principals>,
    ) -> Result<Self, String> {
        settings.validate().map_err(|error| error.to_string())?;
        let signing_key = settings.image.signing_key.as_deref().map(SigningKey::from_pem).transpose();
        let signing_key = signing_key.map_err(|error| error.to_string())?;
        if settings.isolation == Isolation::Project {
            tracing::warn!(%region, "all tenants of the region share one project of its cloud; nothing but names keeps them apart");
        }
        let connection = Connection::new(settings.clone());
        Ok(Self {
            region,
            pool,
            connection,
            principals,
            settings,
            signing_key,
            unfit: Mutex::default(),
            sweeps: Mutex::default(),
            flavors: Mutex::default(),
        })
    }

    const fn session<'a>(&'a self, context: &'a CallContext<'a>) -> Session<'a> {
        Session { provider: self, context }
    }
}

#[async_trait]
impl Provider for OpenstackProvider {
    fn region(&self) -> RegionId {
        self.region
    }

    async fn flavors(&self, context: &CallContext<'_>) -> ProviderResult<Vec<Flavor>> {
        self.session(context).flavors().await
    }

    async fn images(&self, context: &CallContext<'_>) -> ProviderResult<Vec<Image>> {
        self.session(context).images().await
    }

    async fn volume_classes(&self, context: &CallContext<'_>) -> ProviderResult<Vec<VolumeClass>> {
        self.session(context).volume_classes().await
    }

    async fn external_networks(&self, context: &CallContext<'_>) -> ProviderResult<Vec<ExternalNetwork>> {
        self.session(context).external_networks().await
    }

    async fn converge_identity(
        &self,
        context: &CallContext<'_>,
        request: &IdentityRequest,
    ) -> ProviderResult<Observed<IdentityDetail>> {
        self.session(context).converge_identity(request).await
    }

    async fn delete_identity(&self, context: &CallContext<'_>, request: &IdentityRequest) -> ProviderResult<Deletion> {
        self.session(context).delete_identity(request).await
    }

    async fn converge_network(
        &self,
        context: &CallContext<'_>,
        request: &NetworkRequest,
    ) -> ProviderResult<Observed<NetworkFact>> {
        self.session(context).converge_network(request).await
    }

    async fn delete_network(&self, context: &CallContext<'_>, request: &NetworkRequest) -> ProviderResult<Deletion> {
        self.session(context).delete_network(request).await
    }

    async fn converge_security_group(
        &self,
        context: &CallContext<'_>,
        request: &SecurityGroupRequest,
    ) -> ProviderResult<Observed<SecurityGroupFact>> {
        self.session(context).converge_security_group(request).await
    }

    async fn delete_security_group(
        &self,
        context: &CallContext<'_>,
        request: &SecurityGroupRequest,
    ) -> ProviderResult<Deletion> {
        self.session(context).delete_security_group(request).await
    }

    async fn list(
        &self,
        context: &CallContext<'_>,
        kind: Kind,
        only: Option<&[Uuid]>,
        after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>> {
        self.session(context).list(kind, only, after).await
    }

    fn removal(&self, key: Key) -> Option<String> {
        names::removal(key, self.settings.identity.domain.as_deref())
    }

    async fn converge_server(
        &self,
        context: &CallContext<'_>,
        request: &ServerRequest,
    ) -> ProviderResult<Observed<ServerFact>> {
        self.session(context).converge_server(request).await
    }

    async fn delete_server(&self, context: &CallContext<'_>, request: &ServerRequest) -> ProviderResult<Deletion> {
        self.session(context).delete_server(request).await
    }

    async fn discard_server(&self, context: &CallContext<'_>, request: &ServerRequest) -> ProviderResult<Deletion> {
        self.session(context).discard_server(request).await
    }

    async fn rebuild_server(
        &self,
        context: &CallContext<'_>,
        request: &ServerRequest,
        image: ImageId,
    ) -> ProviderResult<()> {
        self.session(context).rebuild_server(request, image).await
    }

    fn resizes(&self) -> bool {
        true
    }

    async fn resize_server(
        &self,
        context: &CallContext<'_>,
        request: &ServerRequest,
        flavor: FlavorId,
    ) -> ProviderResult<()> {
        self.session(context).resize_server(request, flavor).await
    }

    async fn retire_server(
        &self,
        context: &CallContext<'_>,
        request: &ServerRequest,
        flavor: FlavorId,
    ) -> ProviderResult<Deletion> {
        self.session(context).retire_server(request, flavor).await
    }

    async fn confirm_resize(&self, context: &CallContext<'_>, request: &ServerRequest) -> ProviderResult<()> {
        self.session(context).confirm_resize(request).await
    }

    async fn power_server(
        &self,
        context: &CallContext<'_>,
        request: &ServerRequest,
        action: PowerAction,
    ) -> ProviderResult<()> {
        self.session(context).power_server(request, action).await
    }

    async fn console_session(&self, context: &CallContext<'_>, request: &ServerRequest) -> ProviderResult<String> {
        self.session(context).console_session(request).await
    }

    async fn console_output(
        &self,
        context: &CallContext<'_>,
        request: &ServerRequest,
        lines: Option<u32>,
    ) -> ProviderResult<String> {
        self.session(context).console_output(request, lines).await
    }

    async fn converge_image(
        &self,
        context: &CallContext<'_>,
        request: &ImageRequest,
    ) -> ProviderResult<Observed<ImageFact>> {
        self.session(context).converge_image(request).await
    }

    async fn delete_image(&self, context: &CallContext<'_>, request: &ImageRequest) -> ProviderResult<Deletion> {
        self.session(context).delete_image(request).await
    }

    async fn converge_volume(
        &self,
        context: &CallContext<'_>,
        request: &VolumeRequest,
    ) -> ProviderResult<Observed<VolumeFact>> {
        self.session(context).converge_volume(request).await
    }

    async fn attach_volume(
        &self,
        context: &CallContext<'_>,
        request: &VolumeRequest,
        server: ServerId,
    ) -> ProviderResult<()> {
        self.session(context).attach_volume(request, server).await
    }

    async fn detach_volume(&self, context: &CallContext<'_>, request: &VolumeRequest) -> ProviderResult<()> {
        self.session(context).detach_volume(request).await
    }

    async fn delete_volume(&self, context: &CallContext<'_>, request: &VolumeRequest) -> ProviderResult<Deletion> {
        self.session(context).delete_volume(request).await
    }

    async fn converge_load_balancer(
        &self,
        context: &CallContext<'_>,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<LoadBalancerFact>> {
        self.session(context).converge_load_balancer(request).await
    }

    async fn delete_load_balancer(
        &self,
        context: &CallContext<'_>,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Deletion> {
        self.session(context).delete_load_balancer(request).await
    }

    async fn converge_listeners(
        &self,
        context: &CallContext<'_>,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<LoadBalancerFact>> {
        self.session(context).converge_listeners(request).await
    }

    async fn converge_public_address(
        &self,
        context: &CallContext<'_>,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<PublicAddress>> {
        self.session(context).converge_public_address(request).await
    }

    async fn release_public_address(
        &self,
        context: &CallContext<'_>,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<Deletion>> {
        self.session(context).release_public_address(request).await
    }
}
