//! A network: one IPv4 prefix, routed to the outside, with part of it reserved for infrastructure.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::address_plan::AddressPlan;
use super::ids::{Kind, ProviderNetworkId, ProviderRouterId, ProviderSubnetId};
use super::record::ResourceKind;

/// Marks the kind in signatures.
#[derive(Clone, Debug)]
pub struct Network;

impl ResourceKind for Network {
    const KIND: Kind = Kind::Network;
    type Spec = NetworkSpec;
    type Detail = NetworkDetail;
}

/// A CIDR as the client wrote it, and what it means: reads echo the text byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    text: String,
    net: Ipv4Net,
}

/// The text is not an IPv4 prefix in CIDR notation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an IPv4 prefix in CIDR notation")]
pub struct MalformedPrefix;

impl Prefix {
    pub fn parse(text: &str) -> Result<Self, MalformedPrefix> {
        // The address by itself first: it must not have leading zeros, which some read as octal.
        let (address, _) = text.split_once('/').ok_or(MalformedPrefix)?;
        address.parse::<Ipv4Addr>().map_err(|_| MalformedPrefix)?;
        let net = text.parse().map_err(|_| MalformedPrefix)?;
        Ok(Self { text: text.to_owned(), net })
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The prefix with its host bits cleared.
    #[must_use]
    pub fn net(&self) -> Ipv4Net {
        self.net.trunc()
    }
}

impl Serialize for Prefix {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A static route handed out with the addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    pub prefix: Prefix,
    pub next_hop: Ipv4Addr,
}

/// How much of the start of the prefix is kept back, and how much of that for the provider alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservations {
    pub prefix_length: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_reserved_prefix_length: Option<u8>,
}

/// What applies when the client reserves nothing itself: half of a /24, with a /28 of it for the provider.
pub const DEFAULT_RESERVATIONS: Reservations =
    Reservations { prefix_length: 25, provider_reserved_prefix_length: Some(28) };

/// Shorter prefixes than this leave no room for the reservations and a pool of addresses.
pub const PREFIX_LENGTH_MAX: u8 = 24;

/// What the client asked for. The prefix and the reservations never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    pub prefix: Prefix,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservations: Option<Reservations>,
    pub dns_nameservers: Vec<Ipv4Addr>,
    /// `None` when the client sent none: an omitted list stays omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<Route>>,
}

/// Why a network's specification cannot stand.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNetwork {
    #[error("minimum network prefix size is /24")]
    PrefixTooLong,
    #[error("reservations.prefixLength must be greater than the network's prefix length")]
    ReservationTooWide,
    #[error("reservations.providerReservedPrefixLength must not be less than reservations.prefixLength")]
    ProviderReservationTooWide,
}

impl NetworkSpec {
    #[must_use]
    pub fn effective_reservations(&self) -> Reservations {
        self.reservations.unwrap_or(DEFAULT_RESERVATIONS)
    }

    #[must_use]
    pub fn address_plan(&self) -> AddressPlan {
        AddressPlan::of(self.prefix.net(), self.effective_reservations())
    }

    pub fn validate(&self) -> Result<(), InvalidNetwork> {
        let length = self.prefix.net().prefix_len();
        if length > PREFIX_LENGTH_MAX {
            return Err(InvalidNetwork::PrefixTooLong);
        }
        let reservations = self.effective_reservations();
        if reservations.prefix_length <= length {
            return Err(InvalidNetwork::ReservationTooWide);
        }
        match reservations.provider_reserved_prefix_length {
            Some(provider) if provider < reservations.prefix_length => Err(InvalidNetwork::ProviderReservationTooWide),
            _ => Ok(()),
        }
    }
}

/// A VLAN id, 1 to 4094.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VlanId(pub u16);

/// What is known of the network in its cloud, in words that no provider owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<ProviderNetworkId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<ProviderSubnetId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<ProviderRouterId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_range: Option<AddressRange>,
    /// Of everything the cloud holds of it, when it was last as asked for: another one means that somebody changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<u64>,
}

/// Both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressRange {
    pub start: Ipv4Addr,
    pub end: Ipv4Addr,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(prefix: &str, reservations: Option<Reservations>) -> NetworkSpec {
        let prefix = Prefix::parse(prefix).expect("a prefix");
        NetworkSpec { prefix, reservations, dns_nameservers: vec![], routes: None }
    }

    const fn reserving(prefix_length: u8, provider: Option<u8>) -> Reservations {
        Reservations { prefix_length, provider_reserved_prefix_length: provider }
    }

    #[test]
    fn prefixes_longer_than_24_are_refused() {
        assert_eq!(spec("10.0.0.0/24", None).validate(), Ok(()));
        assert_eq!(spec("10.0.0.0/25", None).validate(), Err(InvalidNetwork::PrefixTooLong));
    }

    #[test]
    fn reservations_lie_inside_the_prefix_and_the_providers_inside_them() {
        assert_eq!(spec("10.0.0.0/24", Some(reserving(24, None))).validate(), Err(InvalidNetwork::ReservationTooWide));
        assert_eq!(
            spec("10.0.0.0/24", Some(reserving(26, Some(25)))).validate(),
            Err(InvalidNetwork::ProviderReservationTooWide)
        );
        assert_eq!(spec("10.0.0.0/24", Some(reserving(26, Some(26)))).validate(), Ok(()));
    }

    #[test]
    fn a_prefix_is_echoed_as_it_was_written() {
        let prefix = Prefix::parse("10.0.0.7/22").expect("a prefix");
        assert_eq!(prefix.text(), "10.0.0.7/22");
        assert_eq!(prefix.net().to_string(), "10.0.0.0/22");
        assert_eq!(Prefix::parse("10.0.0.0"), Err(MalformedPrefix));
        assert_eq!(Prefix::parse("fd00::/64"), Err(MalformedPrefix));
        assert_eq!(Prefix::parse("010.0.0.0/22"), Err(MalformedPrefix));
    }
}
