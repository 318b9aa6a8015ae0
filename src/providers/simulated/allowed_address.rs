//! An address that a port may speak for besides its own, as networks of clouds take them: a prefix, and perhaps the only
//! hardware address that may be used with it.
//!
//! It is written as one word, or two, so that what was kept before hardware addresses were heard of reads as it did.

use std::fmt;
use std::str::FromStr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedAddress {
    pub net: Ipv4Net,
    pub mac: Option<String>,
}

impl From<Ipv4Net> for AllowedAddress {
    fn from(net: Ipv4Net) -> Self {
        Self { net, mac: None }
    }
}

impl fmt::Display for AllowedAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mac {
            Some(mac) => write!(formatter, "{} {mac}", self.net),
            None => self.net.fmt(formatter),
        }
    }
}

impl From<AllowedAddress> for String {
    fn from(address: AllowedAddress) -> Self {
        address.to_string()
    }
}

impl FromStr for AllowedAddress {
    type Err = ipnet::AddrParseError;

    fn from_str(text: &str) -> Result<Self, ipnet::AddrParseError> {
        let (net, mac) = match text.split_once(' ') {
            Some((net, mac)) => (net, Some(mac.to_owned())),
            None => (text, None),
        };
        Ok(Self { net: net.parse()?, mac })
    }
}

impl TryFrom<String> for AllowedAddress {
    type Error = ipnet::AddrParseError;

    fn try_from(text: String) -> Result<Self, ipnet::AddrParseError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_address_reads_back_with_and_without_its_hardware_address() {
        for text in ["\"10.0.0.0/8\"", "\"10.0.0.0/8 fa:16:3e:00:00:01\""] {
            let address: AllowedAddress = serde_json::from_str(text).expect("reads");
            assert_eq!(serde_json::to_string(&address).expect("writes"), text);
        }
        assert!("nowhere".parse::<AllowedAddress>().is_err());
    }
}
