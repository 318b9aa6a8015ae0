//! Secrets that nobody can guess.

use crate::model::token::SECRET_LEN;

#[derive(Debug, thiserror::Error)]
#[error("no random numbers are to be had")]
pub struct NoRandomness;

/// 256 bits from the system. Not from the Ambient: a secret that can be replayed from a seed is none.
pub fn random_secret() -> Result<[u8; SECRET_LEN], NoRandomness> {
    let mut secret = [0; SECRET_LEN];
    aws_lc_rs::rand::fill(&mut secret).map_err(|_| NoRandomness)?;
    Ok(secret)
}
