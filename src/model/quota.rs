//! What is counted against an organization, and how much it may use when nobody has said otherwise.
//!
//! One closed catalogue: a kind that is not here cannot be charged, limited or asked for (B19). What an organization
//! uses is told in two parts: what is *committed* is always there; what is *reserved* may come, as when something
//! scales by itself. Both count against the limit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuotaKind {
    Networks,
    LoadBalancers,
    Clusters,
    Servers,
    Gpus,
    PublicIps,
    FileStorage,
    Volume,
}

/// How a quantity is best shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuotaFormat {
    Decimal,
    /// In powers of 1024.
    Binary,
}

const TEBIBYTE: u64 = 1 << 40;

impl QuotaKind {
    pub const ALL: [Self; 8] = [
        Self::Networks,
        Self::LoadBalancers,
        Self::Clusters,
        Self::Servers,
        Self::Gpus,
        Self::PublicIps,
        Self::FileStorage,
        Self::Volume,
    ];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Networks => "networks",
            Self::LoadBalancers => "loadbalancers",
            Self::Clusters => "clusters",
            Self::Servers => "servers",
            Self::Gpus => "gpus",
            Self::PublicIps => "publicips",
            Self::FileStorage => "filestorage",
            Self::Volume => "volume",
        }
    }

    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    #[must_use]
    pub const fn display_name(self) -> &'static str {
        match self {
            Self::Networks => "Networks",
            Self::LoadBalancers => "Load Balancers",
            Self::Clusters => "Clusters",
            Self::Servers => "Servers",
            Self::Gpus => "GPUs",
            Self::PublicIps => "Public IPs",
            Self::FileStorage => "File Storage",
            Self::Volume => "Volume Capacity",
        }
    }

    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Networks => "Layer 3 networks.",
            Self::LoadBalancers => "Layer 4 load balancers.",
            Self::Clusters => "All cluster types e.g. Kubernetes, compute, etc.",
            Self::Servers => "All physical and virtual machines.",
            Self::Gpus => "General purpose GPUs for AI workloads.",
            Self::PublicIps => "Public IP addresses.",
            Self::FileStorage => "Persistent network file storage.",
            Self::Volume => "Total requested block storage capacity in GiB.",
        }
    }

    /// What an organization may use when nobody has said otherwise.
    #[must_use]
    pub const fn default_limit(self) -> u64 {
        match self {
            Self::Networks | Self::LoadBalancers | Self::Clusters | Self::PublicIps => 5,
            Self::Servers => 10,
            Self::Gpus => 40,
            Self::FileStorage => TEBIBYTE,
            Self::Volume => 0,
        }
    }

    #[must_use]
    pub const fn format(self) -> QuotaFormat {
        match self {
            Self::FileStorage | Self::Volume => QuotaFormat::Binary,
            _ => QuotaFormat::Decimal,
        }
    }
}

/// How much of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Always in use.
    pub committed: u64,
    /// May come into use.
    pub reserved: u64,
}

impl Amount {
    #[must_use]
    pub const fn of(committed: u64) -> Self {
        Self { committed, reserved: 0 }
    }

    /// What counts against the limit.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.committed.saturating_add(self.reserved)
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            committed: self.committed.saturating_add(other.committed),
            reserved: self.reserved.saturating_add(other.reserved),
        }
    }

    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            committed: self.committed.saturating_sub(other.committed),
            reserved: self.reserved.saturating_sub(other.reserved),
        }
    }
}

/// How much of each kind.
pub type Amounts = BTreeMap<QuotaKind, Amount>;

/// The larger of each: what is held while one is exchanged for the other.
#[must_use]
pub fn larger(one: &Amounts, other: &Amounts) -> Amounts {
    let mut larger = one.clone();
    for (kind, amount) in other {
        let entry = larger.entry(*kind).or_default();
        if amount.total() > entry.total() {
            *entry = *amount;
        }
    }
    larger
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b19_there_is_one_catalogue_and_what_is_not_in_it_does_not_exist() {
        for kind in QuotaKind::ALL {
            assert_eq!(QuotaKind::from_word(kind.word()), Some(kind));
            let stored = serde_json::to_value(kind).expect("json");
            assert_eq!(stored, kind.word(), "the stored word is the word of the catalogue");
        }
        assert_eq!(QuotaKind::from_word("floatingips"), None);
    }
}
