//! Tenants: an organization, the projects in it, and how much each organization may use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ids::Kind;
use super::record::ResourceKind;

#[derive(Clone, Debug)]
pub struct Organization;

impl ResourceKind for Organization {
    const KIND: Kind = Kind::Organization;
    type Spec = OrganizationSpec;
    type Detail = Nothing;
}

#[derive(Clone, Debug)]
pub struct Project;

impl ResourceKind for Project {
    const KIND: Kind = Kind::Project;
    type Spec = ProjectSpec;
    type Detail = Nothing;
}

/// A status detail that says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrganizationSpec {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectSpec {}

/// What is counted against an organization's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuotaKind {
    Networks,
}

impl QuotaKind {
    pub const ALL: [Self; 1] = [Self::Networks];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Networks => "networks",
        }
    }

    /// What an organization may use when nobody has said otherwise.
    #[must_use]
    pub const fn default_limit(self) -> u64 {
        match self {
            Self::Networks => 5,
        }
    }
}

/// How much of each kind.
pub type Amounts = BTreeMap<QuotaKind, u64>;
