//! An SSH certificate authority: a public key whose certificates servers accept.
//!
//! It exists by being stored. Servers that were made with it refer to it for as long as they live (B7).

use serde::{Deserialize, Serialize};

use super::ids::Kind;
use super::organization::Nothing;
use super::record::ResourceKind;

#[derive(Clone, Debug)]
pub struct SshCertificateAuthority;

impl ResourceKind for SshCertificateAuthority {
    const KIND: Kind = Kind::SshCertificateAuthority;
    type Spec = SshCertificateAuthoritySpec;
    type Detail = Nothing;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshCertificateAuthoritySpec {
    /// One line in OpenSSH's form, normalised.
    pub public_key: String,
}
