//! Where an image may be fetched from (B17).
//!
//! Whoever names an address has a machine inside our network visit it. So it may lead to the public internet alone: not
//! to this machine, not to its neighbours, not to the address where clouds hand out credentials. A name is checked again
//! when it is resolved ([`crate::providers::image_probe`]); here is everything that the text alone can say.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Longer than the longest signed address of the common stores of objects.
pub const URL_LEN_MAX: usize = 4096;

/// Below this, ports belong to known services; of those only the web's own are visited.
const UNPRIVILEGED_PORT_MIN: u16 = 1024;

/// An address that images may be fetched from. Never printed: it may let in whoever has it.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageUrl(Url);

impl fmt::Debug for ImageUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ImageUrl(redacted)")
    }
}

/// Why an address is not visited. Says which rule, and nothing of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidImageUrl {
    #[error("must be a URL of at most 4096 characters")]
    Malformed,
    #[error("must begin with http:// or https://")]
    Scheme,
    #[error("must not hold a user name or a password")]
    Credentials,
    #[error("must use port 80, 443 or one from 1024 up")]
    Port,
    #[error("must lead to the public internet")]
    Address,
}

/// Which addresses may be visited.
pub type AddressRule = fn(IpAddr) -> bool;

impl ImageUrl {
    /// The address, if everything that it says of itself is within the rules.
    pub fn parse(text: &str, is_allowed: AddressRule) -> Result<Self, InvalidImageUrl> {
        if text.len() > URL_LEN_MAX {
            return Err(InvalidImageUrl::Malformed);
        }
        // The standard's reading: what looks like a number, in any notation, is an address and comes out as one.
        Self::accept(Url::parse(text).map_err(|_| InvalidImageUrl::Malformed)?, is_allowed)
    }

    /// Where an answer sends its reader on to, checked like the first address.
    pub fn redirected(&self, location: &str, is_allowed: AddressRule) -> Result<Self, InvalidImageUrl> {
        if location.len() > URL_LEN_MAX {
            return Err(InvalidImageUrl::Malformed);
        }
        Self::accept(self.0.join(location).map_err(|_| InvalidImageUrl::Malformed)?, is_allowed)
    }

    fn accept(url: Url, is_allowed: AddressRule) -> Result<Self, InvalidImageUrl> {
        if !["http", "https"].contains(&url.scheme()) {
            return Err(InvalidImageUrl::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidImageUrl::Credentials);
        }
        let port = url.port_or_known_default().ok_or(InvalidImageUrl::Port)?;
        if ![80, 443].contains(&port) && port < UNPRIVILEGED_PORT_MIN {
            return Err(InvalidImageUrl::Port);
        }
        let url = Self(url);
        let is_good = match url.literal() {
            Some(address) => is_allowed(address),
            None => is_public_name(url.host()),
        };
        if is_good { Ok(url) } else { Err(InvalidImageUrl::Address) }
    }

    #[must_use]
    pub const fn as_url(&self) -> &Url {
        &self.0
    }

    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// The address, where the host is one and not a name.
    #[must_use]
    pub fn literal(&self) -> Option<IpAddr> {
        let host = self.host();
        host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).parse().ok()
    }
}

/// Names that mean something only inside a network, or only on one machine.
fn is_public_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let inside = ["localhost", "local", "internal", "localdomain", "home.arpa", "lan", "intranet", "corp"];
    let is_inside = |name: &&str| host.strip_suffix(*name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    host.contains('.') && !inside.iter().any(is_inside)
}

/// Is this an address of the public internet? What is not known to be is not.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The ranges that are set aside, RFC 6890 and after.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let set_aside: [([u8; 4], u8); 16] = [
        ([0, 0, 0, 0], 8),
        ([10, 0, 0, 0], 8),
        ([100, 64, 0, 0], 10),
        ([127, 0, 0, 0], 8),
        // Where clouds tell a machine its credentials.
        ([169, 254, 0, 0], 16),
        ([168, 63, 129, 16], 32),
        ([172, 16, 0, 0], 12),
        ([192, 0, 0, 0], 24),
        ([192, 0, 2, 0], 24),
        ([192, 88, 99, 0], 24),
        ([192, 168, 0, 0], 16),
        ([198, 18, 0, 0], 15),
        ([198, 51, 100, 0], 24),
        ([203, 0, 113, 0], 24),
        ([224, 0, 0, 0], 4),
        ([240, 0, 0, 0], 4),
    ];
    let number = u32::from(address);
    !set_aside.iter().any(|(base, length)| (number ^ u32::from(Ipv4Addr::from(*base))) >> (32 - length) == 0)
}

/// Only what is routed at all (2000::/3), without the parts of it that stand for something else.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // An IPv4 address in another form is what it stands for.
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let inner = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => is_public_v4(inner(high, low)),
        // Tunnels, benchmarks, documentation, identifiers that are not addresses.
        [0x2001, second, ..] if second < 0x0200 || second == 0x0db8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<InvalidImageUrl> {
        ImageUrl::parse(text, is_public).err()
    }

    #[test]
    fn b17_public_addresses_are_visited() {
        for good in [
            "https://example.org/image.raw",
            "http://images.example.org:8080/a/b.raw?signature=abc",
            "https://1.1.1.1/x",
            "https://[2606:4700::1111]/x",
            "https://example.org./x",
        ] {
            assert_eq!(refused(good), None, "{good}");
        }
    }

    #[test]
    fn b17_every_rule_is_said_by_name() {
        let long = format!("https://example.org/{}", "x".repeat(URL_LEN_MAX));
        for (bad, rule) in [
            ("", InvalidImageUrl::Malformed),
            ("image.raw", InvalidImageUrl::Malformed),
            ("https://", InvalidImageUrl::Malformed),
            (&long, InvalidImageUrl::Malformed),
            ("file:///etc/passwd", InvalidImageUrl::Scheme),
            ("ftp://example.org/x", InvalidImageUrl::Scheme),
            ("gopher://example.org/x", InvalidImageUrl::Scheme),
            ("https://user@example.org/x", InvalidImageUrl::Credentials),
            ("https://user:secret@example.org/x", InvalidImageUrl::Credentials),
            ("http://example.org:22/x", InvalidImageUrl::Port),
            ("http://example.org:0/x", InvalidImageUrl::Port),
        ] {
            assert_eq!(refused(bad), Some(rule), "{bad}");
        }
    }

    #[test]
    fn b17_nothing_inside_is_visited_however_it_is_written() {
        for inside in [
            "127.0.0.1",
            "127.1",
            "0x7f.0.0.1",
            "2130706433",
            "017700000001",
            "0.0.0.0",
            "10.1.2.3",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "168.63.129.16",
            "100.100.100.200",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "[::]",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:a9fe:a9fe]",
            "[::7f00:1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[2001:db8::1]",
            "[2001::1]",
            "[fd00:ec2::254]",
            "[fe80::1]",
            "[ff02::1]",
            "localhost",
            "LOCALHOST",
            "a.localhost",
            "metadata.google.internal",
            "printer.local",
            "intranet",
        ] {
            assert_eq!(refused(&format!("http://{inside}/x")), Some(InvalidImageUrl::Address), "{inside}");
        }
        assert_eq!(refused("http://mylocalhost.org/x"), None);
    }

    #[test]
    fn b17_a_redirection_is_held_to_the_same_rules() {
        let url = ImageUrl::parse("https://example.org/a/b", is_public).expect("good");
        assert_eq!(
            url.redirected("c", is_public).map(|next| next.0.to_string()),
            Ok("https://example.org/a/c".to_owned())
        );
        assert_eq!(url.redirected("//169.254.169.254/", is_public), Err(InvalidImageUrl::Address));
        assert_eq!(url.redirected("file:///etc/passwd", is_public), Err(InvalidImageUrl::Scheme));
    }

    #[test]
    fn an_address_is_never_printed() {
        let url = ImageUrl::parse("https://example.org/?signature=hunter2", is_public).expect("good");
        assert!(!format!("{url:?}").contains("hunter2"));
    }
}
