//! The provider of simulated regions: converge, adopt, confirm, as on a real cloud.
//!
//! It looks first, creates only where an answer has said that there is nothing, and adopts what a lost answer left
//! behind. Every call goes through the region's pool ([`session`]). [`identity`], [`network`], [`security_group`],
//! [`load_balancer`], [`server`], [`volume`], [`image`] and [`file_storage`] hold one kind each; what to do about networks and servers is decided
//! without calls in [`network_plan`] and [`server_plan`].

mod file_storage;
mod fingerprint;
mod identity;
mod image;
mod listing;
mod load_balancer;
mod network;
mod network_plan;
mod security_group;
mod server;
mod server_plan;
mod session;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use uuid::Uuid;

use super::api::CloudApi;
use super::call::{Caller, ServerAction};
use super::objects::TENANT_TAG;
use crate::model::identity::IdentityDetail;
use crate::model::ids::{
    FlavorId, ImageId, Kind, OrganizationId, ProjectId, ProviderExternalNetworkId, RegionId, ServerId,
};
use crate::model::region::SimulatedSettings;
use crate::providers::file_storage::FileStorageProvisioner;
use crate::providers::image_schema::Reported;
use crate::providers::pool::Pool;
use crate::providers::types::{ExternalNetwork, Flavor, Image, VolumeClass};
use crate::providers::{
    CallContext, Deletion, IdentityRequest, ImageFact, ImageRequest, Listed, Listing, LoadBalancerFact,
    LoadBalancerRequest, NetworkFact, NetworkRequest, Observed, PowerAction, Provider, ProviderResult, PublicAddress,
    SecurityGroupFact, SecurityGroupRequest, ServerFact, ServerRequest, VolumeFact, VolumeRequest,
};
use session::{Gate, Session};

/// Whose an object is, for people who look into the cloud.
fn tags(organization: OrganizationId, project: ProjectId) -> BTreeMap<String, String> {
    BTreeMap::from([(TENANT_TAG.to_owned(), organization.to_string()), ("project".to_owned(), project.to_string())])
}

/// One region on a simulated cloud.
pub struct SimulatedProvider {
    region: RegionId,
    gate: Gate,
    api: Arc<dyn CloudApi>,
    settings: SimulatedSettings,
    caller: Caller,
    /// Images of the catalogue that make no sense, and that somebody has been told of.
    unfit: Mutex<Reported>,
}

impl SimulatedProvider {
    #[must_use]
    pub fn new(
        region: RegionId,
        pool: Pool,
        api: Arc<dyn CloudApi>,
        settings: SimulatedSettings,
        caller: Caller,
    ) -> Self {
        Self { region, gate: Gate::Pool(pool), api, settings, caller, unfit: Mutex::default() }
    }

    const fn session<'a>(&'a self, context: &'a CallContext<'a>) -> Session<'a> {
        Session { gate: &self.gate, api: &self.api, caller: &self.caller, context }
    }
}

#[async_trait]
impl Provider for SimulatedProvider {
    fn region(&self) -> RegionId {
        self.region
    }

    async fn flavors(&self, context: &CallContext<'_>) -> ProviderResult<Vec<Flavor>> {
        self.session(context).flavors().await
    }

    async fn images(&self, context: &CallContext<'_>) -> ProviderResult<Vec<Image>> {
        let entries = self.session(context).images().await?;
        Ok(self.unfit.lock().unwrap_or_else(PoisonError::into_inner).offered(&entries, None))
    }

    async fn volume_classes(&self, context: &CallContext<'_>) -> ProviderResult<Vec<VolumeClass>> {
        self.session(context).volume_classes().await
    }

    async fn external_networks(&self, context: &CallContext<'_>) -> ProviderResult<Vec<ExternalNetwork>> {
        let networks = self.session(context).external_networks().await?;
        let named = networks.into_iter();
        Ok(named
            .map(|network| ExternalNetwork { id: ProviderExternalNetworkId(network.id.0), name: network.name })
            .collect())
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
        self.session(context).converge_network(request, self.settings.provider_networks.as_ref()).await
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
        self.session(context).act(request, ServerAction::Rebuild { image }).await
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
        self.session(context).act(request, ServerAction::Resize { flavor }).await
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
        self.session(context).act(request, ServerAction::ConfirmResize).await
    }

    async fn power_server(
        &self,
        context: &CallContext<'_>,
        request: &ServerRequest,
        action: PowerAction,
    ) -> ProviderResult<()> {
        self.session(context).act(request, action.into()).await
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

    /// The address is checked like any other, but there is nobody to fetch anything.
    fn fetches_images(&self) -> bool {
        false
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

    fn file_storage(&self) -> Option<&dyn FileStorageProvisioner> {
        Some(self)
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
}
