//! What a resource of another service is charged: one record per reference, whose amounts stand in the ledger.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{AllocationId, Kind, OrganizationId};
use super::organization::Nothing;
use super::quota::{Amount, Amounts, QuotaKind};
use super::record::ResourceKind;

#[derive(Clone, Debug)]
pub struct Allocation;

impl ResourceKind for Allocation {
    const KIND: Kind = Kind::Allocation;
    type Spec = AllocationSpec;
    type Detail = Nothing;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationSpec {
    /// The kind of the resource that is charged, in its own service's words.
    pub kind: String,
    /// Its id there.
    pub id: String,
    /// Each kind once, in the order in which they were sent: a client compares what it reads with what it wrote.
    pub allocations: Vec<(QuotaKind, Amount)>,
}

impl AllocationSpec {
    /// What is charged, whatever the order it was written in.
    #[must_use]
    pub fn amounts(&self) -> Amounts {
        self.allocations.iter().copied().collect()
    }
}

/// No kind or id of any service is longer: the first is a DNS name, the second a UUID.
pub const REFERENCE_LEN_MAX: usize = 253;

/// Letters, digits, dots and hyphens: enough for `<plural>.<group>` and for any id, and nothing that needs escaping.
#[must_use]
pub fn is_reference_part(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=REFERENCE_LEN_MAX).contains(&text.len()) && text.bytes().all(plain)
}

impl AllocationId {
    /// One reference has one allocation (B39): the id follows from it. Within an organization, so that nobody can take
    /// another's.
    #[must_use]
    pub fn of(organization: OrganizationId, kind: &str, id: &str) -> Self {
        // A slash is in neither part, so that two different references never read alike.
        Self(Uuid::new_v5(&organization.0, format!("allocation {kind}/{id}").as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b39_one_reference_has_one_allocation() {
        let organization = |number| OrganizationId(Uuid::from_u128(number));
        let first = AllocationId::of(organization(1), "a", "b");
        assert_eq!(first, AllocationId::of(organization(1), "a", "b"));
        for other in [
            AllocationId::of(organization(2), "a", "b"),
            AllocationId::of(organization(1), "b", "b"),
            AllocationId::of(organization(1), "a", "c"),
        ] {
            assert_ne!(first, other);
        }
        assert!(is_reference_part("networks.region.unikorn-cloud.org"));
        for bad in ["", "a/b", "a b", "é", &"x".repeat(REFERENCE_LEN_MAX + 1)] {
            assert!(!is_reference_part(bad), "{bad}");
        }
    }
}
