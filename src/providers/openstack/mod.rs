//! The provider of OpenStack regions: converge, adopt, confirm.
//!
//! It looks first, creates only where an answer has said that there is nothing, and adopts what a lost answer, or the
//! service before us, left behind ([`names`]). Every call goes through the region's pool ([`session`], which says how a
//! kind is written) over one way to the cloud ([`transport`]), which is made of the region's settings and of credentials
//! that are never stored ([`connection`], [`credentials`]).

mod connection;
mod credentials;
mod fingerprint;
mod identity;
mod listing;
pub mod names;
mod network;
mod network_plan;
mod offers;
mod principals;
mod security_group;
mod security_group_plan;
mod session;
pub mod transport;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use uuid::Uuid;

use crate::model::identity::IdentityDetail;
use crate::model::ids::{Kind, RegionId};
use crate::model::openstack::OpenstackSettings;
use crate::providers::image_schema::{Reported, SigningKey};
use crate::providers::pool::Pool;
use crate::providers::types::{ExternalNetwork, Flavor, Image, VolumeClass};
use crate::providers::{
    CallContext, Deletion, IdentityRequest, Listed, Listing, NetworkFact, NetworkRequest, Observed, Provider,
    ProviderResult, SecurityGroupFact, SecurityGroupRequest,
};
use connection::Connection;
use listing::Sweeps;

pub use connection::Acting;
pub use principals::{Principal, Principals, StoredPrincipals};
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
}
