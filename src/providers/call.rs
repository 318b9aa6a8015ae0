//! Provider methods as data: what a decision asks for, and what came of it.
//!
//! Decisions are pure, so they cannot call a provider; they name a call. The actor makes it and hands the answer to
//! the next decision. A new provider method is one variant and one arm here.

use serde::Serialize;

use super::file_storage::{FileStorageFact, FileStorageRequest, provisioner};
use super::{
    AddressSighting, CallContext, Deletion, IdentityRequest, ImageFact, ImageRequest, LoadBalancerFact,
    LoadBalancerRequest, NetworkFact, NetworkRequest, Observed, PowerAction, Provider, ProviderError,
    SecurityGroupFact, SecurityGroupRequest, Sequence, ServerFact, ServerRequest, VolumeFact, VolumeRequest,
};
use crate::model::identity::IdentityDetail;
use crate::model::ids::{FlavorId, ImageId, OperationId, ServerId};

/// A call that a decision asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderCall {
    ConvergeIdentity(IdentityRequest),
    DeleteIdentity(IdentityRequest),
    ConvergeNetwork(NetworkRequest),
    DeleteNetwork(NetworkRequest),
    ConvergeSecurityGroup(SecurityGroupRequest),
    DeleteSecurityGroup(SecurityGroupRequest),
    ConvergeLoadBalancer(LoadBalancerRequest),
    DeleteLoadBalancer(LoadBalancerRequest),
    ConvergeListeners(LoadBalancerRequest),
    ConvergePublicAddress(LoadBalancerRequest),
    ReleasePublicAddress(LoadBalancerRequest),
    ConvergeServer(ServerRequest),
    DeleteServer(ServerRequest),
    DiscardServer(ServerRequest),
    RebuildServer(ServerRequest, ImageId),
    ResizeServer(ServerRequest, FlavorId),
    ConfirmResize(ServerRequest),
    RetireServer(ServerRequest, FlavorId),
    PowerServer(OperationId, ServerRequest, PowerAction),
    ConsoleSession(OperationId, ServerRequest),
    ConvergeVolume(VolumeRequest),
    AttachVolume(VolumeRequest, ServerId),
    DetachVolume(VolumeRequest),
    DeleteVolume(VolumeRequest),
    ConvergeImage(ImageRequest),
    DeleteImage(ImageRequest),
    ConvergeFileStorage(FileStorageRequest),
    DeleteFileStorage(FileStorageRequest),
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
    ConvergeLoadBalancer,
    DeleteLoadBalancer,
    ConvergeListeners,
    ConvergePublicAddress,
    ReleasePublicAddress,
    ConvergeServer,
    DeleteServer,
    DiscardServer,
    RebuildServer,
    ResizeServer,
    ConfirmResize,
    RetireServer,
    ConvergeVolume,
    AttachVolume,
    DetachVolume,
    DeleteVolume,
    ConvergeFileStorage,
    DeleteFileStorage,
    /// A verb that somebody asked for: each is its own call.
    Operate(OperationId),
    ConvergeImage,
    DeleteImage,
}

/// What a call saw, if it went well.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    Identity(Observed<IdentityDetail>),
    Network(Observed<NetworkFact>),
    SecurityGroup(Observed<SecurityGroupFact>),
    LoadBalancer(Observed<LoadBalancerFact>),
    /// Of a load balancer.
    PublicAddress(Observed<AddressSighting>),
    Server(Observed<ServerFact>),
    Volume(Observed<VolumeFact>),
    Image(Observed<ImageFact>),
    FileStorage(Observed<FileStorageFact>),
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
            Self::LoadBalancer(seen) => Some(seen.sequence),
            Self::PublicAddress(seen) => Some(seen.sequence),
            Self::Server(seen) => Some(seen.sequence),
            Self::Volume(seen) => Some(seen.sequence),
            Self::Image(seen) => Some(seen.sequence),
            Self::FileStorage(seen) => Some(seen.sequence),
            Self::Deletion(_) | Self::Accepted | Self::Console(_) => None,
        }
    }

    /// Does it say how the object is?
    #[must_use]
    pub const fn is_sighting(&self) -> bool {
        self.sequence().is_some()
    }

    /// Is the cloud busy with what was asked for, so that the call is not over although it went well?
    #[must_use]
    pub const fn is_unfinished(&self) -> bool {
        match self {
            Self::LoadBalancer(seen) => seen.fact.unfinished,
            _ => false,
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
            Self::ConvergeSecurityGroup(_) => CallName::ConvergeSecurityGroup,
            Self::DeleteSecurityGroup(_) => CallName::DeleteSecurityGroup,
            Self::ConvergeLoadBalancer(_) => CallName::ConvergeLoadBalancer,
            Self::DeleteLoadBalancer(_) => CallName::DeleteLoadBalancer,
            Self::ConvergeListeners(_) => CallName::ConvergeListeners,
            Self::ConvergePublicAddress(_) => CallName::ConvergePublicAddress,
            Self::ReleasePublicAddress(_) => CallName::ReleasePublicAddress,
            Self::ConvergeServer(_) => CallName::ConvergeServer,
            Self::DeleteServer(_) => CallName::DeleteServer,
            Self::DiscardServer(_) => CallName::DiscardServer,
            Self::RebuildServer(..) => CallName::RebuildServer,
            Self::ResizeServer(..) => CallName::ResizeServer,
            Self::ConfirmResize(_) => CallName::ConfirmResize,
            Self::RetireServer(..) => CallName::RetireServer,
            Self::ConvergeVolume(_) => CallName::ConvergeVolume,
            Self::AttachVolume(..) => CallName::AttachVolume,
            Self::DetachVolume(_) => CallName::DetachVolume,
            Self::DeleteVolume(_) => CallName::DeleteVolume,
            Self::ConvergeFileStorage(_) => CallName::ConvergeFileStorage,
            Self::DeleteFileStorage(_) => CallName::DeleteFileStorage,
            Self::PowerServer(operation, ..) | Self::ConsoleSession(operation, _) => CallName::Operate(*operation),
            Self::ConvergeImage(_) => CallName::ConvergeImage,
            Self::DeleteImage(_) => CallName::DeleteImage,
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
            Self::ConvergeLoadBalancer(request) => {
                provider.converge_load_balancer(context, request).await.map(Fact::LoadBalancer)
            }
            Self::DeleteLoadBalancer(request) => {
                provider.delete_load_balancer(context, request).await.map(Fact::Deletion)
            }
            Self::ConvergeListeners(request) => {
                provider.converge_listeners(context, request).await.map(Fact::LoadBalancer)
            }
            Self::ConvergePublicAddress(request) => {
                let seen = provider.converge_public_address(context, request).await?;
                let fact = AddressSighting::Present(seen.fact);
                Ok(Fact::PublicAddress(Observed { sequence: seen.sequence, fact }))
            }
            Self::ReleasePublicAddress(request) => {
                let seen = provider.release_public_address(context, request).await?;
                Ok(match seen.fact {
                    // That there is none is a sighting, as that of one would be.
                    Deletion::Absent => {
                        Fact::PublicAddress(Observed { sequence: seen.sequence, fact: AddressSighting::Absent })
                    }
                    Deletion::Underway => Fact::Deletion(Deletion::Underway),
                })
            }
            Self::ConvergeServer(request) => provider.converge_server(context, request).await.map(Fact::Server),
            Self::DeleteServer(request) => provider.delete_server(context, request).await.map(Fact::Deletion),
            Self::DiscardServer(request) => provider.discard_server(context, request).await.map(Fact::Deletion),
            Self::RebuildServer(request, image) => {
                provider.rebuild_server(context, request, *image).await.map(|()| Fact::Accepted)
            }
            Self::ResizeServer(request, flavor) => {
                provider.resize_server(context, request, *flavor).await.map(|()| Fact::Accepted)
            }
            Self::RetireServer(request, flavor) => {
                provider.retire_server(context, request, *flavor).await.map(Fact::Deletion)
            }
            Self::ConfirmResize(request) => provider.confirm_resize(context, request).await.map(|()| Fact::Accepted),
            Self::ConvergeVolume(request) => provider.converge_volume(context, request).await.map(Fact::Volume),
            Self::AttachVolume(request, server) => {
                provider.attach_volume(context, request, *server).await.map(|()| Fact::Accepted)
            }
            Self::DetachVolume(request) => provider.detach_volume(context, request).await.map(|()| Fact::Accepted),
            Self::DeleteVolume(request) => provider.delete_volume(context, request).await.map(Fact::Deletion),
            Self::PowerServer(_, request, action) => {
                provider.power_server(context, request, *action).await.map(|()| Fact::Accepted)
            }
            Self::ConsoleSession(_, request) => {
                provider.console_session(context, request).await.map(|url| Fact::Console(ConsoleAddress(url)))
            }
            Self::ConvergeImage(request) => provider.converge_image(context, request).await.map(Fact::Image),
            Self::DeleteImage(request) => provider.delete_image(context, request).await.map(Fact::Deletion),
            Self::ConvergeFileStorage(request) => {
                provisioner(provider)?.converge(context, request).await.map(Fact::FileStorage)
            }
            Self::DeleteFileStorage(request) => {
                provisioner(provider)?.delete(context, request).await.map(Fact::Deletion)
            }
        }
    }
}
