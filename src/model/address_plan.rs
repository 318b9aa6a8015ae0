//! Who gets which addresses of a network's prefix.
//!
//! ```text
//!   .0 network  .1 gateway
//!   ├──────────── reserved: 2^(32 − prefixLength) ────────────┤├──── DHCP pool ────┤ broadcast
//!   ├─ provider: 2^(32 − providerReserved) ─┤├─── storage ────┤
//! ```
//!
//! Storage is absent when the provider's part is the whole reservation. Without a provider's part it begins at .2.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::network::{AddressRange, Reservations};

/// The parts of one prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPlan {
    pub gateway: Ipv4Addr,
    pub dhcp: AddressRange,
    pub storage: Option<AddressRange>,
}

impl AddressPlan {
    /// Divides `net`. Assumes that the reservations have been validated against it.
    #[must_use]
    pub fn of(net: Ipv4Net, reservations: Reservations) -> Self {
        let base = u64::from(u32::from(net.network()));
        let at = |offset: u64| Ipv4Addr::from(u32::try_from(base + offset).unwrap_or(u32::MAX));
        let size = |length: u8| 1_u64 << (32 - u64::from(length.min(32)));

        let reserved = size(reservations.prefix_length);
        let carve_out = reservations.provider_reserved_prefix_length.map(size);
        let storage_start = carve_out.unwrap_or(2);
        let storage = (carve_out != Some(reserved) && storage_start < reserved)
            .then(|| AddressRange { start: at(storage_start), end: at(reserved - 1) });
        Self {
            gateway: at(1),
            dhcp: AddressRange { start: at(reserved), end: at(size(net.prefix_len()) - 2) },
            storage,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::network::DEFAULT_RESERVATIONS;

    fn plan(net: &str, reservations: Reservations) -> AddressPlan {
        AddressPlan::of(net.parse().expect("a prefix"), reservations)
    }

    fn range(start: &str, end: &str) -> AddressRange {
        AddressRange { start: start.parse().expect("address"), end: end.parse().expect("address") }
    }

    #[test]
    fn a_slash_24_with_the_defaults_is_divided_as_documented() {
        let plan = plan("192.168.0.0/24", DEFAULT_RESERVATIONS);
        assert_eq!(plan.gateway, Ipv4Addr::new(192, 168, 0, 1));
        assert_eq!(plan.storage, Some(range("192.168.0.16", "192.168.0.127")));
        assert_eq!(plan.dhcp, range("192.168.0.128", "192.168.0.254"));
    }

    #[test]
    fn the_provider_may_take_the_whole_reservation() {
        let all = Reservations { prefix_length: 25, provider_reserved_prefix_length: Some(25) };
        assert_eq!(plan("10.0.0.0/24", all).storage, None);
    }

    #[test]
    fn without_a_providers_part_storage_begins_after_the_gateway() {
        let none = Reservations { prefix_length: 25, provider_reserved_prefix_length: None };
        assert_eq!(plan("10.0.0.0/24", none).storage, Some(range("10.0.0.2", "10.0.0.127")));
    }

    proptest! {
        #[test]
        fn the_parts_never_overlap_and_stay_inside(
            base in any::<u32>(), length in 0_u8..=24, wider in 1_u8..=6, provider in proptest::option::of(0_u8..=4),
        ) {
            let net = Ipv4Net::new(Ipv4Addr::from(base), length).expect("length in range").trunc();
            let prefix_length = (length + wider).min(30);
            let provider_reserved_prefix_length = provider.map(|extra| (prefix_length + extra).min(30));
            let plan = AddressPlan::of(net, Reservations { prefix_length, provider_reserved_prefix_length });
            prop_assert!(plan.dhcp.start <= plan.dhcp.end);
            prop_assert!(net.contains(&plan.dhcp.start) && net.contains(&plan.dhcp.end));
            prop_assert!(plan.dhcp.end < net.broadcast());
            if let Some(storage) = plan.storage {
                prop_assert!(plan.gateway < storage.start && storage.start <= storage.end);
                prop_assert!(storage.end < plan.dhcp.start);
            }
        }
    }
}
