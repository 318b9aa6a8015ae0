//! Bearer tokens: shown once, kept only as a hash.
//!
//! A token reads `regent_<id>_<secret>`. The id finds the record in one read; the secret, 256 random bits, is
//! compared by its SHA-256 in constant time. A fast hash is enough because the secret cannot be guessed.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{Kind, ServiceAccountId, TokenId, UserId};
use super::organization::Nothing;
use super::record::ResourceKind;

const SCHEME: &str = "regent";
pub const SECRET_LEN: usize = 32;

#[derive(Clone, Debug)]
pub struct Token;

impl ResourceKind for Token {
    const KIND: Kind = Kind::Token;
    type Spec = TokenSpec;
    type Detail = Nothing;
}

/// What a token is for. Nothing here lets anyone in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenSpec {
    pub subject: String,
    #[serde(flatten)]
    pub bound_to: BoundTo,
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// Whose rights a token's holder has. What they are is looked up when the token is used, never stored with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BoundTo {
    /// A role that holds everywhere.
    Role(Role),
    User(UserId),
    ServiceAccount(ServiceAccountId),
}

/// The roles of the catalogue that hold everywhere. They cannot be granted in an organization; only a token made on
/// the host has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    PlatformAdministrator,
    PlatformReader,
    RegionService,
    KubernetesService,
    ComputeService,
    StorageService,
}

impl Role {
    pub const ALL: [Self; 6] = [
        Self::PlatformAdministrator,
        Self::PlatformReader,
        Self::RegionService,
        Self::KubernetesService,
        Self::ComputeService,
        Self::StorageService,
    ];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::PlatformAdministrator => "platform-administrator",
            Self::PlatformReader => "platform-reader",
            Self::RegionService => "region-service",
            Self::KubernetesService => "kubernetes-service",
            Self::ComputeService => "compute-service",
            Self::StorageService => "storage-service",
        }
    }

    /// Another service, which may speak for a user, rather than a person.
    #[must_use]
    pub const fn is_service(self) -> bool {
        !matches!(self, Self::PlatformAdministrator | Self::PlatformReader)
    }
}

impl From<Role> for BoundTo {
    fn from(role: Role) -> Self {
        Self::Role(role)
    }
}

impl From<UserId> for BoundTo {
    fn from(user: UserId) -> Self {
        Self::User(user)
    }
}

impl From<ServiceAccountId> for BoundTo {
    fn from(account: ServiceAccountId) -> Self {
        Self::ServiceAccount(account)
    }
}

/// A token in the clear, on its way to its owner or from one.
pub struct BearerToken {
    pub id: TokenId,
    secret: String,
}

impl BearerToken {
    #[must_use]
    pub fn new(id: TokenId, secret: &[u8; SECRET_LEN]) -> Self {
        Self { id, secret: URL_SAFE_NO_PAD.encode(secret) }
    }

    /// Reads a presented token; `None` for anything that is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(SCHEME)?.strip_prefix('_')?.split_once('_')?;
        let id = Uuid::try_parse(id).ok()?;
        Some(Self { id: TokenId(id), secret: secret.to_owned() })
    }

    /// The one place a token is shown.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{SCHEME}_{}_{}", self.id.0.simple(), self.secret)
    }

    #[must_use]
    pub fn spec(&self, subject: &str, bound_to: impl Into<BoundTo>, expires: Option<Timestamp>) -> TokenSpec {
        TokenSpec { subject: subject.to_owned(), bound_to: bound_to.into(), hash: self.hash(), expires }
    }

    fn hash(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.secret.as_bytes()))
    }
}

impl TokenSpec {
    /// Does the presented token open this record, now?
    #[must_use]
    pub fn admits(&self, presented: &BearerToken, now: Timestamp) -> bool {
        let same = aws_lc_rs::constant_time::verify_slices_are_equal(self.hash.as_bytes(), presented.hash().as_bytes());
        same.is_ok() && self.expires.is_none_or(|expires| now < expires)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(byte: u8) -> BearerToken {
        BearerToken::new(TokenId(Uuid::from_u128(5)), &[byte; SECRET_LEN])
    }

    #[test]
    fn a_token_is_admitted_by_its_own_record_only_and_until_it_expires() {
        let now = Timestamp::UNIX_EPOCH;
        let later = now + std::time::Duration::from_mins(1);
        let spec = token(1).spec("admin", Role::PlatformAdministrator, Some(later));
        let presented = BearerToken::parse(&token(1).reveal()).expect("parses");
        assert!(spec.admits(&presented, now));
        assert!(!spec.admits(&presented, later));
        assert!(!spec.admits(&token(2), now));
    }

    #[test]
    fn the_record_does_not_hold_the_secret() {
        let spec = token(1).spec("admin", Role::PlatformAdministrator, None);
        let stored = serde_json::to_string(&spec).expect("json");
        assert!(!stored.contains(&token(1).secret));
    }

    #[test]
    fn a_token_reads_back_whatever_it_is_bound_to_and_so_does_one_of_the_first_release() {
        let bound: [BoundTo; 3] = [
            Role::ComputeService.into(),
            UserId(Uuid::from_u128(1)).into(),
            ServiceAccountId(Uuid::from_u128(2)).into(),
        ];
        for bound in bound {
            let spec = token(1).spec("somebody", bound, Some(Timestamp::UNIX_EPOCH));
            let stored = serde_json::to_string(&spec).expect("json");
            assert_eq!(serde_json::from_str::<TokenSpec>(&stored).expect("reads"), spec, "{stored}");
        }
        let old = r#"{"subject": "admin", "role": "platform-administrator", "hash": "x"}"#;
        let read = serde_json::from_str::<TokenSpec>(old).expect("reads");
        assert_eq!(read.bound_to, Role::PlatformAdministrator.into());
        for role in Role::ALL {
            assert_eq!(serde_json::to_value(role).expect("json"), role.word());
        }
    }

    #[test]
    fn text_that_is_no_token_does_not_parse() {
        for text in ["", "regent", "regent_x_y", "bearer_00000000-0000-0000-0000-000000000005_abc"] {
            assert!(BearerToken::parse(text).is_none(), "{text}");
        }
    }
}
