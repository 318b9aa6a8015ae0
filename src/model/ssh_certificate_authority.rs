//! An SSH certificate authority: a public key whose certificates servers accept.
//!
//! It exists by being stored. Servers that were made with it refer to it for as long as they live (B7).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
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

/// The longest line: the largest RSA key that OpenSSH takes is a third of it, and the rest is comment.
pub const PUBLIC_KEY_LEN_MAX: usize = 8192;

/// What OpenSSH takes of RSA, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 1024..=16_384;

/// The text is not one OpenSSH public key of a type that may sign certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "publicKey must be one OpenSSH public key without options, of type ssh-ed25519, ssh-rsa or ecdsa-sha2-nistp256/384/521"
)]
pub struct InvalidPublicKey;

impl SshCertificateAuthoritySpec {
    /// One line, without what surrounds it. The bytes of the key must be what its type says: a key that no guest can
    /// read would lock everybody out, and only after the guest has booted.
    pub fn normalised(text: &str) -> Result<Self, InvalidPublicKey> {
        let text = text.trim();
        // A break of any kind would be a second line in the file that guests read; what YAML does not print would
        // make the configuration that carries it unreadable.
        let is_bad = |letter: char| {
            letter.is_control() && letter != '\t' || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
        };
        if text.len() > PUBLIC_KEY_LEN_MAX || text.contains(is_bad) {
            return Err(InvalidPublicKey);
        }
        let mut words = text.split_ascii_whitespace();
        let (Some(kind), Some(blob)) = (words.next(), words.next()) else { return Err(InvalidPublicKey) };
        let bytes = STANDARD.decode(blob).map_err(|_| InvalidPublicKey)?;
        if !is_key(kind, &bytes).unwrap_or(false) {
            return Err(InvalidPublicKey);
        }
        let public_key = if words.next().is_some() { text.to_owned() } else { format!("{kind} {blob}") };
        Ok(Self { public_key })
    }
}

/// Are these the bytes of a key of this type? `None` when they end too early.
fn is_key(kind: &str, bytes: &[u8]) -> Option<bool> {
    let mut fields = Fields(bytes);
    if fields.next()? != kind.as_bytes() {
        return Some(false);
    }
    let good = match kind {
        "ssh-ed25519" => fields.next()?.len() == 32,
        "ssh-rsa" => {
            let (exponent, modulus) = (fields.positive()?, fields.positive()?);
            let bits = modulus.len() * 8 - modulus.first()?.leading_zeros() as usize;
            exponent.last()? % 2 == 1 && exponent != [1] && RSA_BITS.contains(&bits)
        }
        "ecdsa-sha2-nistp256" => fields.next()? == b"nistp256" && is_point(fields.next()?, 32),
        "ecdsa-sha2-nistp384" => fields.next()? == b"nistp384" && is_point(fields.next()?, 48),
        "ecdsa-sha2-nistp521" => fields.next()? == b"nistp521" && is_point(fields.next()?, 66),
        _ => false,
    };
    Some(good && fields.0.is_empty())
}

/// An uncompressed point, the only form that OpenSSH writes.
fn is_point(bytes: &[u8], coordinate_len: usize) -> bool {
    bytes.first() == Some(&4) && bytes.len() == 1 + 2 * coordinate_len
}

/// The fields of SSH's wire form: each is its length in four bytes, then itself.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (field, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.0 = rest;
        Some(field)
    }

    /// A number above zero, without the zero that keeps its sign.
    fn positive(&mut self) -> Option<&'a [u8]> {
        match self.next()? {
            [0, number @ ..] if number.first().is_some_and(|byte| *byte >= 0x80) => Some(number),
            [first, ..] if *first == 0 || *first >= 0x80 => None,
            number => (!number.is_empty()).then_some(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(bytes: &[u8]) -> Vec<u8> {
        [&u32::try_from(bytes.len()).expect("short").to_be_bytes(), bytes].concat()
    }

    fn line(kind: &str, fields: &[&[u8]]) -> String {
        let blob = std::iter::once(kind.as_bytes()).chain(fields.iter().copied()).flat_map(field).collect::<Vec<_>>();
        format!("{kind} {}", STANDARD.encode(blob))
    }

    fn point(coordinate_len: usize) -> Vec<u8> {
        let mut point = vec![7; 1 + 2 * coordinate_len];
        point[0] = 4;
        point
    }

    fn modulus(length: usize) -> Vec<u8> {
        let mut modulus = vec![0xc5; length + 1];
        modulus[0] = 0;
        modulus
    }

    fn good() -> [String; 5] {
        [
            line("ssh-ed25519", &[&[7; 32]]),
            line("ssh-rsa", &[&[1, 0, 1], &modulus(256)]),
            line("ecdsa-sha2-nistp256", &[b"nistp256", &point(32)]),
            line("ecdsa-sha2-nistp384", &[b"nistp384", &point(48)]),
            line("ecdsa-sha2-nistp521", &[b"nistp521", &point(66)]),
        ]
    }

    fn normalised(text: &str) -> Option<String> {
        SshCertificateAuthoritySpec::normalised(text).ok().map(|spec| spec.public_key)
    }

    #[test]
    fn the_five_types_are_taken_with_and_without_a_comment() {
        for key in good() {
            let loose = format!("  {}\n", key.replace(' ', " \t "));
            assert_eq!(normalised(&loose).as_deref(), Some(key.as_str()), "without a comment it is written anew");
            let commented = format!("{key} ca of  müller@example");
            assert_eq!(normalised(&format!("{commented}\n")), Some(commented), "with one it is kept");
        }
    }

    #[test]
    fn a_key_as_openssh_writes_it_is_taken() {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
        assert_eq!(normalised(key).as_deref(), Some(key));
    }

    #[test]
    fn anything_else_is_refused() {
        let [ed25519, rsa, p256, ..] = good();
        let bad = [
            String::new(),
            "ssh-ed25519".to_owned(),
            format!("{ed25519}\n{rsa}"),
            format!("{ed25519} comment\r{rsa}"),
            format!("{ed25519} comment\u{2028}{rsa}"),
            format!("{ed25519} \u{fffe}"),
            format!("{ed25519} \u{ffff}"),
            format!("{ed25519} \u{7}"),
            format!("no-pty {ed25519}"),
            format!("command=\"x\" {ed25519}"),
            ed25519.replace("ssh-ed25519", "ssh-rsa"),
            p256.replace("nistp256", "nistp384"),
            line("ssh-dss", &[&[1], &[1], &[1], &[1]]),
            line("ssh-ed25519", &[&[7; 31]]),
            line("ssh-ed25519", &[&[7; 32], &[7]]),
            line("ssh-ed25519", &[]),
            line("ssh-rsa", &[&[1, 0, 1], &modulus(127)]),
            line("ssh-rsa", &[&[1, 0, 0], &modulus(256)]),
            line("ssh-rsa", &[&[1, 0, 1], &[0xc5; 256]]),
            line("ecdsa-sha2-nistp256", &[b"nistp384", &point(32)]),
            line("ecdsa-sha2-nistp256", &[b"nistp256", &point(48)]),
            "ssh-ed25519 not-base64".to_owned(),
            format!("{ed25519} {}", "x".repeat(PUBLIC_KEY_LEN_MAX)),
        ];
        for text in bad {
            assert_eq!(normalised(&text), None, "{text}");
        }
    }
}
