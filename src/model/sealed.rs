//! Secrets at rest: encrypted with the envelope key, redacted wherever they might be printed.
//!
//! A [`Sealed`] value can be stored, cloned and compared without anyone seeing it. Opening it needs the
//! [`EnvelopeKey`], which lives outside the store, so that a stolen database gives no secret away.

use std::fmt;
use std::marker::PhantomData;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub const ENVELOPE_KEY_LEN: usize = 32;

/// The key that seals every secret of one installation.
pub struct EnvelopeKey(RandomizedNonceKey);

/// A secret could not be sealed or opened. Says nothing of why: the reason would help only an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sealed value could not be opened with this envelope key")]
pub struct SealError;

impl EnvelopeKey {
    pub fn from_bytes(bytes: &[u8; ENVELOPE_KEY_LEN]) -> Result<Self, SealError> {
        RandomizedNonceKey::new(&AES_256_GCM, bytes).map(Self).map_err(|_| SealError)
    }

    pub fn seal<T: Serialize>(&self, value: &T) -> Result<Sealed<T>, SealError> {
        let mut bytes = serde_json::to_vec(value).map_err(|_| SealError)?;
        let nonce = self.0.seal_in_place_append_tag(Aad::empty(), &mut bytes).map_err(|_| SealError)?;
        let mut sealed = nonce.as_ref().to_vec();
        sealed.append(&mut bytes);
        Ok(Sealed { text: STANDARD.encode(sealed), of: PhantomData })
    }

    pub fn open<T: DeserializeOwned>(&self, sealed: &Sealed<T>) -> Result<T, SealError> {
        let bytes = STANDARD.decode(&sealed.text).map_err(|_| SealError)?;
        let (nonce, body) = bytes.split_at_checked(NONCE_LEN).ok_or(SealError)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError)?;
        let mut body = body.to_vec();
        let plain = self.0.open_in_place(nonce, Aad::empty(), &mut body).map_err(|_| SealError)?;
        serde_json::from_slice(plain).map_err(|_| SealError)
    }
}

impl fmt::Debug for EnvelopeKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("EnvelopeKey(redacted)")
    }
}

/// A value that rests encrypted.
#[derive(Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub struct Sealed<T> {
    text: String,
    #[serde(skip)]
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Sealed<T> {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for Sealed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T> Eq for Sealed<T> {}

impl<T> fmt::Debug for Sealed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sealed(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> EnvelopeKey {
        EnvelopeKey::from_bytes(&[byte; ENVELOPE_KEY_LEN]).expect("a key")
    }

    #[test]
    fn a_secret_opens_with_its_key_and_with_no_other() {
        let sealed = key(1).seal(&"hunter2".to_owned()).expect("seals");
        assert_eq!(key(1).open(&sealed), Ok("hunter2".to_owned()));
        assert_eq!(key(2).open(&sealed), Err(SealError));
    }

    #[test]
    fn b34_neither_debug_nor_the_stored_form_shows_the_secret() {
        let sealed = key(1).seal(&"hunter2".to_owned()).expect("seals");
        assert_eq!(format!("{sealed:?}"), "Sealed(redacted)");
        assert!(!serde_json::to_string(&sealed).expect("json").contains("hunter2"));
    }

    #[test]
    fn a_changed_ciphertext_is_refused() {
        let sealed = key(1).seal(&7_u32).expect("seals");
        let mut text = sealed.text.into_bytes();
        text[20] = if text[20] == b'A' { b'B' } else { b'A' };
        let forged = Sealed { text: String::from_utf8(text).expect("ascii"), of: PhantomData };
        assert_eq!(key(1).open::<u32>(&forged), Err(SealError));
    }
}
