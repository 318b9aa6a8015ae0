//! What is on record of principals: what lets a call be made in a tenant's own name.
//!
//! Everything of a tenant lies in the project of its principal. Which project that is, and with what the principal logs
//! in, is in the principal's record, the secret sealed.

use std::sync::Arc;

use async_trait::async_trait;

use super::transport::{Login, Proof, Scope, Secret};
use crate::model::identity::Identity;
use crate::model::ids::{IdentityId, Key, ProviderProjectId, ProviderServerGroupId, ProviderUserId};
use crate::model::sealed::{EnvelopeKey, Sealed};
use crate::providers::{ProviderError, ProviderResult};
use crate::store::Store;

/// A principal that is complete: it can log in.
#[derive(Clone, Debug)]
pub struct Principal {
    pub project: ProviderProjectId,
    pub user: ProviderUserId,
    pub credential: String,
    pub secret: Secret,
    /// Servers are made in it, so that they lie apart where they can.
    pub server_group: Option<ProviderServerGroupId>,
}

impl Principal {
    pub(super) fn login(&self) -> Login {
        let proof = Proof::ApplicationCredential { id: self.credential.clone(), secret: self.secret.clone() };
        Login { proof, scope: Scope::OfCredential }
    }
}

/// Where principals are looked up.
#[async_trait]
pub trait Principals: Send + Sync {
    /// `PrincipalMissing` while it is not complete.
    async fn find(&self, id: IdentityId) -> ProviderResult<Arc<Principal>>;
    /// Whose a resource is, if there is such a resource.
    async fn of(&self, key: Key) -> ProviderResult<Option<IdentityId>>;
    /// What somebody sealed in a record of theirs, for the cloud alone.
    fn open(&self, sealed: &Sealed<String>) -> ProviderResult<String>;
}

/// Those that are stored.
pub struct StoredPrincipals {
    store: Arc<dyn Store>,
    envelope: Arc<EnvelopeKey>,
}

impl StoredPrincipals {
    #[must_use]
    pub const fn new(store: Arc<dyn Store>, envelope: Arc<EnvelopeKey>) -> Self {
        Self { store, envelope }
    }
}

#[async_trait]
impl Principals for StoredPrincipals {
    async fn find(&self, id: IdentityId) -> ProviderResult<Arc<Principal>> {
        let record = self.store.get(id.key()).await?.ok_or(ProviderError::PrincipalMissing)?;
        let corrupt = |error: crate::model::record::CorruptRecord| ProviderError::Unavailable(error.to_string());
        let detail = record.open::<Identity>().map_err(corrupt)?.detail;
        let (Some(project), Some(user), Some(credential)) = (detail.project, detail.user, detail.credential) else {
            return Err(ProviderError::PrincipalMissing);
        };
        let secret = Secret::new(self.envelope.open(&credential.secret)?);
        let server_group = detail.server_group;
        Ok(Arc::new(Principal { project, user, credential: credential.id, secret, server_group }))
    }

    async fn of(&self, key: Key) -> ProviderResult<Option<IdentityId>> {
        Ok(self.store.get(key).await?.and_then(|record| record.metadata.placement.identity))
    }

    fn open(&self, sealed: &Sealed<String>) -> ProviderResult<String> {
        Ok(self.envelope.open(sealed)?)
    }
}
