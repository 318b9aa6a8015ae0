//! Provider methods as data: what a decision asks for, and what came of it.
//!
//! Decisions are pure, so they cannot call a provider; they name a call. The actor makes it and hands the answer to
//! the next decision. A new provider method is one variant and one arm here.

use serde::Serialize;

use super::{
    CallContext, Deletion, IdentityRequest, NetworkFact, NetworkRequest, Observed, Provider, ProviderError, Sequence,
};
use crate::model::identity::IdentityDetail;

/// A call that a decision asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderCall {
    ConvergeIdentity(IdentityRequest),
    DeleteIdentity(IdentityRequest),
    ConvergeNetwork(NetworkRequest),
    DeleteNetwork(NetworkRequest),
}

/// Names a call among the effects of one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallName {
    ConvergeIdentity,
    DeleteIdentity,
    ConvergeNetwork,
    DeleteNetwork,
}

/// What a call saw, if it went well.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    Identity(Observed<IdentityDetail>),
    Network(Observed<NetworkFact>),
    Deletion(Deletion),
}

impl Fact {
    /// When the look at the cloud that this came from was begun.
    #[must_use]
    pub const fn sequence(&self) -> Option<Sequence> {
        match self {
            Self::Identity(seen) => Some(seen.sequence),
            Self::Network(seen) => Some(seen.sequence),
            Self::Deletion(_) => None,
        }
    }
}

impl ProviderCall {
    #[must_use]
    pub const fn name(&self) -> CallName {
        match self {
            Self::ConvergeIdentity(_) => CallName::ConvergeIdentity,
            Self::DeleteIdentity(_) => CallName::DeleteIdentity,
            Self::ConvergeNetwork(_) => CallName::ConvergeNetwork,
            Self::DeleteNetwork(_) => CallName::DeleteNetwork,
        }
    }

    pub async fn make(&self, provider: &dyn Provider, context: &CallContext<'_>) -> Result<Fact, ProviderError> {
        match self {
            Self::ConvergeIdentity(request) => provider.converge_identity(context, request).await.map(Fact::Identity),
            Self::DeleteIdentity(request) => provider.delete_identity(context, request).await.map(Fact::Deletion),
            Self::ConvergeNetwork(request) => provider.converge_network(context, request).await.map(Fact::Network),
            Self::DeleteNetwork(request) => provider.delete_network(context, request).await.map(Fact::Deletion),
        }
    }
}
