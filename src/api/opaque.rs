//! Places that clients hand back to us: cursors of lists, positions of event streams.
//!
//! They are sealed. A position in the order of all commits would tell a tenant how busy the others are, and a place
//! that a client could write itself would have to be checked like any other input.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Secrets;
use super::error::ApiError;
use crate::model::sealed::Sealed;

/// The longest text that is looked at. A cursor holds a name, an id and a digest.
const TEXT_LEN_MAX: usize = 512;

/// A place, as a word that fits into an address and a header.
pub fn sealed<T: Serialize>(secrets: &dyn Secrets, purpose: &str, place: &T) -> Result<String, ApiError> {
    let internal = |error: &dyn std::fmt::Display| ApiError::internal(error);
    let text = serde_json::to_string(&(purpose, place)).map_err(|error| internal(&error))?;
    let sealed = secrets.seal(&text).map_err(|error| internal(&error))?;
    let text = serde_json::to_value(sealed).map_err(|error| internal(&error))?;
    let text = text.as_str().unwrap_or_default().trim_end_matches('=');
    Ok(text.replace('+', "-").replace('/', "_"))
}

/// What such a word says, if it is one of ours for this purpose.
pub fn opened<T: DeserializeOwned>(secrets: &dyn Secrets, purpose: &str, text: &str) -> Option<T> {
    if text.len() > TEXT_LEN_MAX {
        return None;
    }
    let padding = "=".repeat(text.len().wrapping_neg() % 4);
    let text = text.replace('-', "+").replace('_', "/") + &padding;
    let sealed = serde_json::from_value::<Sealed<String>>(text.into()).ok()?;
    let (meant, place) = serde_json::from_str::<(String, T)>(&secrets.open(&sealed).ok()?).ok()?;
    (meant == purpose).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sealed::EnvelopeKey;

    #[test]
    fn a_place_reads_back_for_its_purpose_alone_and_not_when_anything_was_changed() {
        let key = EnvelopeKey::from_bytes(&[9; 32]).expect("a key");
        for place in 0..50_u64 {
            let text = sealed(&key, "cursor", &place).expect("sealed");
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{text}");
            assert_eq!(opened::<u64>(&key, "cursor", &text), Some(place));
            assert_eq!(opened::<u64>(&key, "event", &text), None);
            let changed = text.replacen(|_: char| true, if text.starts_with('A') { "B" } else { "A" }, 1);
            assert_eq!(opened::<u64>(&key, "cursor", &changed), None);
        }
        for bad in ["", "a", "not ours", &"A".repeat(TEXT_LEN_MAX + 1)] {
            assert_eq!(opened::<u64>(&key, "cursor", bad), None, "{bad}");
        }
    }
}
