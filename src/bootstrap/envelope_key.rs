//! The key that seals every secret, kept beside the store and never in it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::files;
use crate::model::sealed::{ENVELOPE_KEY_LEN, EnvelopeKey};

const FILE_NAME: &str = "envelope.key";

/// Bits that would let anybody but the owner at the key.
const OTHERS: u32 = 0o077;

#[derive(Debug, thiserror::Error)]
pub enum EnvelopeKeyError {
    #[error("{path} cannot be read or written")]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path} may be read by others than its owner: run chmod 600 on it, and consider its secrets known")]
    Exposed { path: PathBuf },
    #[error("{path} does not hold a key of 32 bytes")]
    Malformed { path: PathBuf },
    #[error("no random numbers are to be had")]
    NoRandomness,
}

/// Where the key of a folder is.
#[must_use]
pub fn path(directory: &Path) -> PathBuf {
    directory.join(FILE_NAME)
}

/// The key of this folder, made on the first start.
pub fn load_or_create(directory: &Path) -> Result<EnvelopeKey, EnvelopeKeyError> {
    let path = path(directory);
    let at = |source| EnvelopeKeyError::File { path: path.clone(), source };
    let malformed = || EnvelopeKeyError::Malformed { path: path.clone() };
    let Some(bytes) = files::read_if_present(&path).map_err(at)? else {
        let mut fresh = [0; ENVELOPE_KEY_LEN];
        aws_lc_rs::rand::fill(&mut fresh).map_err(|_| EnvelopeKeyError::NoRandomness)?;
        files::replace_private(&path, &fresh).map_err(at)?;
        return EnvelopeKey::from_bytes(&fresh).map_err(|_| malformed());
    };
    if std::fs::metadata(&path).map_err(at)?.mode() & OTHERS != 0 {
        return Err(EnvelopeKeyError::Exposed { path });
    }
    let bytes = bytes.try_into().map_err(|_| malformed())?;
    EnvelopeKey::from_bytes(&bytes).map_err(|_| malformed())
}
