//! Texts that are never printed.

use aws_lc_rs::digest::{SHA256, digest};

/// A password, the secret half of a credential, or a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// For the one place that sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Tells one secret from the next without being one: for keys of maps that live in memory.
    #[must_use]
    pub fn imprint(&self) -> u64 {
        let digest = digest(&SHA256, self.0.as_bytes());
        digest.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(redacted)")
    }
}
