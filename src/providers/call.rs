//! Provider methods as data: what a decision asks for, and what came of it.
//!
//! Decisions are pure, so they cannot call a provider; they name a call. The actor makes it and hands the answer to
//! the next decision. A new provider method is one variant and one arm here.

use serde::Serialize;

use super::{
    CallContext, Deletion, IdentityRequest, NetworkFact, NetworkRequest, Observed, PowerAction, Provider,
    ProviderError, SecurityGroupFact, SecurityGroupRequest, Sequence, ServerFact, ServerRequest,
};
use crate::model::identity::IdentityDetail;
use crate::model::ids::{ImageId, OperationId};

/// A call that a decision asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderCall {
    ConvergeIdentity(IdentityRequest),
    DeleteIdentity(IdentityRequest),
    ConvergeNetwork(NetworkRequest),
    DeleteNetwork(NetworkRequest),
    ConvergeSecurityGroup(SecurityGroupRequest),
    DeleteSecurityGroup(SecurityGroupRequest),
    ConvergeServer(ServerRequest),
    DeleteServer(ServerRequest),
    DiscardServer(ServerRequest),
    RebuildServer(ServerRequest, ImageId),
    PowerServer(OperationId, ServerRequest, PowerAction),
    ConsoleSession(OperationId, ServerRequest),
}

/// Names a call among the effects of one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallName {
    ConvergeIdentity,
    DeleteIdentity,
    ConvergeNetwork,
    DeleteNetwork,
    ConvergeSecurityGroup,
    DeleteSecurityGroup,
    ConvergeServer,
    DeleteServer,
    DiscardServer,
    RebuildServer,
    /// A verb that somebody asked for: each is its own call.
    Operate(OperationId),
}

/// What a call saw, if it went well.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    Identity(Observed<IdentityDetail>),
    Network(Observed<NetworkFact>),
    SecurityGroup(Observed<SecurityGroupFact>),
    Server(Observed<ServerFact>),
    Deletion(Deletion),
    /// The cloud has accepted an order.
    Accepted,
    Console(ConsoleAddress),
}

/// Lets in whoever has it, and so is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ConsoleAddress(pub String);

impl std::fmt::Debug for ConsoleAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ConsoleAddress(redacted)")
    }
}

impl Fact {
    /// When the look at the cloud that this came from was begun.
    #[must_use]
    pub const fn sequence(&self) -> Option<Sequence> {
        match self {
            Self::Identity(seen) => Some(seen.sequence),
            Self::Network(seen) => Some(seen.sequence),
            Self::SecurityGroup(seen) => Some(seen.sequence),
            Self::Server(seen) => Some(seen.sequence),
            Self::Deletion(_) | Self::Accepted | Self::Console(_) => None,
        }
    }

    /// Does it say how the object is?
    #[must_use]
    pub const fn is_sighting(&self) -> bool {
        self.sequence().is_some()
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
            Self::ConvergeSecurityGroup(_) => CallName::ConvergeSecurityGroup,
            Self::DeleteSecurityGroup(_) => CallName::DeleteSecurityGroup,
            Self::ConvergeServer(_) => CallName::ConvergeServer,
            Self::DeleteServer(_) => CallName::DeleteServer,
            Self::DiscardServer(_) => CallName::DiscardServer,
            Self::RebuildServer(..) => CallName::RebuildServer,
            Self::PowerServer(operation, ..) | Self::ConsoleSession(operation, _) => CallName::Operate(*operation),
        }
    }

    pub async fn make(&self, provider: &dyn Provider, context: &CallContext<'_>) -> Result<Fact, ProviderError> {
        match self {
            Self::ConvergeIdentity(request) => provider.converge_identity(context, request).await.map(Fact::Identity),
            Self::DeleteIdentity(request) => provider.delete_identity(context, request).await.map(Fact::Deletion),
            Self::ConvergeNetwork(request) => provider.converge_network(context, request).await.map(Fact::Network),
            Self::DeleteNetwork(request) => provider.delete_network(context, request).await.map(Fact::Deletion),
            Self::ConvergeSecurityGroup(request) => {
                provider.converge_security_group(context, request).await.map(Fact::SecurityGroup)
            }
            Self::DeleteSecurityGroup(request) => {
                provider.delete_security_group(context, request).await.map(Fact::Deletion)
            }
            Self::ConvergeServer(request) => provider.converge_server(context, request).await.map(Fact::Server),
            Self::DeleteServer(request) => provider.delete_server(context, request).await.map(Fact::Deletion),
            Self::DiscardServer(request) => provider.discard_server(context, request).await.map(Fact::Deletion),
            Self::RebuildServer(request, image) => {
                provider.rebuild_server(context, request, *image).await.map(|()| Fact::Accepted)
            }
            Self::PowerServer(_, request, action) => {
                provider.power_server(context, request, *action).await.map(|()| Fact::Accepted)
            }
            Self::ConsoleSession(_, request) => {
                provider.console_session(context, request).await.map(|url| Fact::Console(ConsoleAddress(url)))
            }
        }
    }
}
