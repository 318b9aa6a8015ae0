//! Can a cloud be a region? What is asked of it, what is said about it, and the region that it would be.
//!
//! ```text
//!   an entry of a clouds.yaml ──asking──▶ facts ──report──▶ lines: ok, weaker, missing, and what mends it
//!                                           └────region──▶ what to paste into the configuration file
//! ```
//!
//! Reads, wherever a read can tell. Whether projects can be made, roles be given and quotas be lifted no read can tell:
//! for that a project and a user are made in the domain, and taken away again. What could not be taken away is reported
//! with the command that does it.

mod asking;
mod facts;
mod region;
mod report;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{OpenstackProvider, Principal, Principals};
use crate::model::ambient::Ambient;
use crate::model::ids::{IdentityId, Key, OrganizationId, RegionId};
use crate::model::openstack::{CloudsYaml, CredentialSource, OpenstackSettings};
use crate::model::sealed::Sealed;
use crate::providers::pool::{Pool, PoolSettings};
use crate::providers::{CallContext, NothingToNote, ProviderError, ProviderResult};

pub use facts::{Answer, Facts, Offers, ServiceFact, Sights, Standing, Trial};
pub use region::written as region_text;
pub use report::{Grade, Line, isolation, lines};

/// What was found, for people and for the shell.
pub struct Outcome {
    pub lines: Vec<Line>,
    /// The region as the configuration file takes it; nothing where the cloud cannot be one.
    pub region: Option<String>,
}

impl Outcome {
    fn of(facts: &Facts, id: RegionId) -> Self {
        let lines = lines(facts);
        let is_usable = lines.iter().all(|line| line.grade != Grade::Missing);
        Self { region: is_usable.then(|| region_text(facts, id)), lines }
    }
}

/// Why nothing could be asked.
#[derive(Debug, thiserror::Error)]
#[error("the cloud could not be asked: {0}")]
pub struct NotAsked(String);

/// Asks a cloud, as the entry says.
pub async fn check(entry: CloudsYaml, ambient: Ambient) -> Result<Outcome, NotAsked> {
    let id = RegionId(ambient.uuid());
    let pool = Pool::new(id, PoolSettings::default(), ambient.clone());
    let actor = pool.spawn().await.map_err(|error| NotAsked(error.to_string()))?;
    let settings = OpenstackSettings::with_credentials(CredentialSource::CloudsYaml(entry));
    let provider = OpenstackProvider::new(id, pool, settings, Arc::new(Nobody)).map_err(NotAsked)?;
    let tenant = OrganizationId(Uuid::nil());
    let context = CallContext { tenant, cancelled: CancellationToken::new(), ledger: &NothingToNote };
    let facts = asking::gather(provider, &context, id.0).await;
    actor.stop(None);
    facts.map(|facts| Outcome::of(&facts, id)).map_err(|error| NotAsked(error.to_string()))
}

/// A check has no principals.
struct Nobody;

#[async_trait]
impl Principals for Nobody {
    async fn find(&self, _: IdentityId) -> ProviderResult<Arc<Principal>> {
        Err(ProviderError::PrincipalMissing)
    }

    async fn of(&self, _: Key) -> ProviderResult<Option<IdentityId>> {
        Ok(None)
    }

    fn open(&self, _: &Sealed<String>) -> ProviderResult<String> {
        Err(ProviderError::PrincipalMissing)
    }
}
