//! What is on record of principals: what lets a call be made in a tenant's own name.
//!
//! Everything of a tenant lies in the project of its principal. Which project that is, and with what the principal logs
//! in, is in the principal's record, the secret sealed.

use std::sync::Arc;

use async_trait::async_trait;

use super::transport::{Login, Proof, Scope, Secret};
use crate::model::identity::{Identity, IdentityDetail};
use crate::model::ids::{IdentityId, Key, ProviderProjectId, ProviderServerGroupId, ProviderUserId};
use crate::model::sealed::{EnvelopeKey, Sealed};
use crate::providers::{ProviderError, ProviderResult};
use crate::store::Store;

/// A principal that has a place in the cloud.
#[derive(Clone, Debug)]
pub struct Principal {
    pub project: ProviderProjectId,
    pub user: ProviderUserId,
    pub access: Access,
    /// Servers are made in it, so that they lie apart where they can.
    pub server_group: Option<ProviderServerGroupId>,
}

/// As whom a principal logs in.
#[derive(Clone, Debug)]
pub enum Access {
    /// As itself, with an application credential.
    Credential { id: String, secret: Secret },
    /// As the service account: it has no credential of its own, or not yet.
    Account,
}

impl Principal {
    /// What is on record of it; `PrincipalMissing` while it has no place.
    pub fn on_record(detail: IdentityDetail, envelope: &EnvelopeKey) -> ProviderResult<Self> {
        let (Some(project), Some(user)) = (detail.project, detail.user) else {
            return Err(ProviderError::PrincipalMissing);
        };
        let access = match detail.credential {
            Some(credential) => {
                let secret = Secret::new(envelope.open(&credential.secret)?);
                Access::Credential { id: credential.id, secret }
            }
            None => Access::Account,
        };
        Ok(Self { project, user, access, server_group: detail.server_group })
    }

    /// With its own credential, if it has one.
    pub(super) fn login(&self) -> Option<Login> {
        match &self.access {
            Access::Credential { id, secret } => {
                let proof = Proof::ApplicationCredential { id: id.clone(), secret: secret.clone() };
                Some(Login { proof, scope: Scope::OfCredential })
            }
            Access::Account => None,
        }
    }
}

/// Where principals are looked up.
#[async_trait]
pub trait Principals: Send + Sync {
    /// `PrincipalMissing` while it has no place in the cloud.
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
        Ok(Arc::new(Principal::on_record(detail, &self.envelope)?))
    }

    async fn of(&self, key: Key) -> ProviderResult<Option<IdentityId>> {
        Ok(self.store.get(key).await?.and_then(|record| record.metadata.placement.identity))
    }

    fn open(&self, sealed: &Sealed<String>) -> ProviderResult<String> {
        Ok(self.envelope.open(sealed)?)
    }
}
