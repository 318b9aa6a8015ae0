//! A service principal: the project, the user and the credential that scope one tenant's things in a cloud.
//!
//! Every v2 network has one of its own, hidden from the API. It owns the network in the lifecycle graph and
//! follows it when it goes. The first version of the API shows principals: its users make them, and put as many networks
//! into each as they like.

use serde::{Deserialize, Serialize};

use super::ids::{Kind, ProviderProjectId, ProviderServerGroupId, ProviderUserId};
use super::record::ResourceKind;
use super::sealed::Sealed;

#[derive(Clone, Debug)]
pub struct Identity;

impl ResourceKind for Identity {
    const KIND: Kind = Kind::Identity;
    type Spec = IdentitySpec;
    type Detail = IdentityDetail;
}

/// The name that every hidden principal carries.
pub const HIDDEN_NAME: &str = "networkv2-service-principal";

/// What is desired of a principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentitySpec {
    /// Made for one network, unseen by users, deleted when its network is gone.
    pub hidden: bool,
}

/// What has been made, step by step. Each part is written before the next is begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<ProviderProjectId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<ProviderUserId>,
    /// Lost records of a secret are not guessed at: the secret is revoked and issued anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
    /// The key pair that servers without a certificate authority accept. On record before the cloud hears of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_pair: Option<KeyPair>,
    /// What a cloud that spreads servers calls those of this principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_group: Option<ProviderServerGroupId>,
    /// The operator's reset with which rights and quotas were last set.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resets: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An SSH key pair in OpenSSH's forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyPair {
    pub public_key: String,
    pub private_key: Sealed<String>,
}

/// A credential by its public id, with its secret sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    pub id: String,
    pub secret: Sealed<String>,
}
