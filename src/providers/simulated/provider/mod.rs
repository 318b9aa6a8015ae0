//! The provider of simulated regions: converge, adopt, confirm, as on a real cloud.
//!
//! It looks first, creates only where an answer has said that there is nothing, and adopts what a lost answer left
//! behind. Every call goes through the region's pool ([`session`]). [`identity`], [`network`], [`security_group`] and
//! [`server`] hold one kind each; what to do about networks and servers is decided without calls in [`network_plan`]
//! and [`server_plan`].

mod fingerprint;
mod identity;
mod listing;
mod network;
mod network_plan;
mod security_group;
mod server;
mod server_plan;
mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::api::CloudApi;
use super::call::{Caller, ServerAction};
use crate::model::identity::IdentityDetail;
use crate::model::ids::{ImageId, Kind, OrganizationId, ProjectId, ProviderExternalNetworkId, RegionId};
use crate::model::region::SimulatedSettings;
use crate::providers::pool::Pool;
use crate::providers::types::{ExternalNetwork, Flavor, Image};
use crate::providers::{
    CallContext, Deletion, IdentityRequest, Listed, Listing, NetworkFact, NetworkRequest, Observed, PowerAction,
    Provider, ProviderResult, SecurityGroupFact, SecurityGroupRequest, ServerFact, ServerRequest,
};
use session::{Gate, Session};

/// Whose an object is, for people who look into the cloud.
fn tags(organization: OrganizationId, project: ProjectId) -> BTreeMap<String, String> {
    BTreeMap::from([("organization".to_owned(), organization.to_string()), ("project".to_owned(), project.to_string())])
}

/// One region on a simulated cloud.
pub struct SimulatedProvider {
    region: RegionId,
    gate: Gate,
    api: Arc<dyn CloudApi>,
    settings: SimulatedSettings,
    caller: Caller,
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
        Self { region, gate: Gate::Pool(pool), api, settings, caller }
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
        self.session(context).images().await
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
