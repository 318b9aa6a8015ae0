//! The provider of simulated regions: converge, adopt, confirm, as on a real cloud.
//!
//! It looks first, creates only where an answer has said that there is nothing, and adopts what a lost answer left
//! behind. Every call goes through the region's pool ([`session`]). [`identity`] and [`network`] hold one kind each;
//! what to do about a network is decided without calls in [`network_plan`].

mod identity;
mod listing;
mod network;
mod network_plan;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::api::CloudApi;
use super::call::Caller;
use crate::model::identity::IdentityDetail;
use crate::model::ids::{Kind, ProviderExternalNetworkId, RegionId};
use crate::model::region::SimulatedSettings;
use crate::providers::pool::Pool;
use crate::providers::types::ExternalNetwork;
use crate::providers::{
    CallContext, Deletion, IdentityRequest, Listed, Listing, NetworkFact, NetworkRequest, Observed, Provider,
    ProviderResult,
};
use session::{Gate, Session};

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
