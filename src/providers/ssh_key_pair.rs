//! An Ed25519 key pair in the forms that OpenSSH reads and writes.
//!
//! Written out by hand, because it is a page: a public key is a line, and a private key that is not encrypted is the
//! public one, the seed and some padding in PEM (PROTOCOL.key of OpenSSH).

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const ALGORITHM: &str = "ssh-ed25519";
const SEED_LEN: usize = 32;
/// What the private part is padded to: the block of no cipher.
const BLOCK_LEN: usize = 8;
/// As OpenSSH breaks its lines.
const LINE_LEN: usize = 70;

/// Both halves, each as the text of its file. The private half is in plain: whoever makes one seals it at once.
pub struct SshKeyPair {
    pub public_key: String,
    pub private_key: String,
}

impl SshKeyPair {
    /// A new pair. Secrets are not drawn from an `Ambient`: nobody may be able to replay them.
    pub fn generate(comment: &str) -> Result<Self, Unspecified> {
        let (mut seed, mut check) = ([0; SEED_LEN], [0; 4]);
        rand::fill(&mut seed)?;
        rand::fill(&mut check)?;
        Self::of(&seed, check, comment)
    }

    fn of(seed: &[u8; SEED_LEN], check: [u8; 4], comment: &str) -> Result<Self, Unspecified> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| Unspecified)?;
        let public = pair.public_key().as_ref();
        let mut blob = Vec::new();
        put(&mut blob, ALGORITHM.as_bytes());
        put(&mut blob, public);
        let public_key = format!("{ALGORITHM} {} {comment}", STANDARD.encode(&blob));

        let mut secret = [check, check].concat();
        secret.extend(&blob);
        put(&mut secret, &[seed, public].concat());
        put(&mut secret, comment.as_bytes());
        secret.extend((1..).take(secret.len().next_multiple_of(BLOCK_LEN) - secret.len()));

        let mut file = b"openssh-key-v1\0".to_vec();
        // No cipher, no key derivation, no options of it, one key.
        put(&mut file, b"none");
        put(&mut file, b"none");
        put(&mut file, b"");
        file.extend(1_u32.to_be_bytes());
        put(&mut file, &blob);
        put(&mut file, &secret);
        Ok(Self { public_key, private_key: pem(&STANDARD.encode(file)) })
    }
}

/// A string of the SSH protocol: its length, then its bytes.
fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    to.extend(length.to_be_bytes());
    to.extend(bytes);
}

fn pem(text: &str) -> String {
    let mut pem = "-----BEGIN OPENSSH PRIVATE KEY-----\n".to_owned();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE_LEN));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END OPENSSH PRIVATE KEY-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first key of RFC 8032, as OpenSSH writes it.
    #[test]
    fn a_known_seed_gives_the_known_texts() {
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
            0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let pair = SshKeyPair::of(&seed, [1, 2, 3, 4], "regent").expect("a pair");
        assert_eq!(
            pair.public_key,
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea regent"
        );
        let lines: Vec<&str> = pair.private_key.lines().collect();
        assert_eq!(lines.first(), Some(&"-----BEGIN OPENSSH PRIVATE KEY-----"));
        assert_eq!(lines.last(), Some(&"-----END OPENSSH PRIVATE KEY-----"));
        let inner = &lines[1..lines.len() - 1];
        assert!(inner.iter().rev().skip(1).all(|line| line.len() == LINE_LEN));
        let bytes = STANDARD.decode(inner.concat()).expect("base64");
        assert!(bytes.starts_with(b"openssh-key-v1\0\0\0\0\x04none\0\0\0\x04none\0\0\0\0\0\0\0\x01"));
        // The private part: its length, the check twice, the blob, seed and public key, the comment, the padding.
        let secret = &bytes[bytes.len() - 144..];
        assert_eq!(secret[..8], [1, 2, 3, 4, 1, 2, 3, 4]);
        assert!(secret.windows(SEED_LEN).any(|window| window == seed));
        assert!(secret.ends_with(b"\0\0\0\x06regent\x01\x02\x03\x04\x05\x06\x07"), "{:?}", &secret[120..]);
    }

    #[test]
    fn two_pairs_are_never_the_same() {
        let (one, other) = (SshKeyPair::generate("a").expect("one"), SshKeyPair::generate("a").expect("other"));
        assert_ne!(one.public_key, other.public_key);
        assert_ne!(one.private_key, other.private_key);
    }
}
