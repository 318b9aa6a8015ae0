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

use super::ids::{Kind, TokenId};
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
    pub role: Role,
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// What a token's holder may do. The catalogue of roles replaces this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    PlatformAdministrator,
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
    pub fn spec(&self, subject: &str, role: Role, expires: Option<Timestamp>) -> TokenSpec {
        TokenSpec { subject: subject.to_owned(), role, hash: self.hash(), expires }
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
    fn text_that_is_no_token_does_not_parse() {
        for text in ["", "regent", "regent_x_y", "bearer_00000000-0000-0000-0000-000000000005_abc"] {
            assert!(BearerToken::parse(text).is_none(), "{text}");
        }
    }
}
