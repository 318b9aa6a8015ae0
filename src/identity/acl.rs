//! What one caller may do, and where: grants that hold everywhere, in an organization, or in a project.
//!
//! ```text
//!   global ──▶ organization ──▶ project      the first that grants it decides; nothing denies
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ids::{OrganizationId, ProjectId};
use crate::model::token::Role;

/// What is protected, by the names that role catalogues use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    Organizations,
    Roles,
    Users,
    Groups,
    ServiceAccounts,
    Projects,
    ProjectReferences,
    Quotas,
    Allocations,
    Regions,
    RegionDetail,
    Flavors,
    Images,
    ExternalNetworks,
    Identities,
    NetworksV2,
    NetworksV2References,
    SecurityGroupsV2,
    SshCertificateAuthoritiesV2,
    Servers,
    /// Private keys and console sessions.
    ServerSecrets,
    /// The operator's surface.
    Admin,
}

impl Endpoint {
    pub const ALL: [Self; 22] = [
        Self::Organizations,
        Self::Roles,
        Self::Users,
        Self::Groups,
        Self::ServiceAccounts,
        Self::Projects,
        Self::ProjectReferences,
        Self::Quotas,
        Self::Allocations,
        Self::Regions,
        Self::RegionDetail,
        Self::Flavors,
        Self::Images,
        Self::ExternalNetworks,
        Self::Identities,
        Self::NetworksV2,
        Self::NetworksV2References,
        Self::SecurityGroupsV2,
        Self::SshCertificateAuthoritiesV2,
        Self::Servers,
        Self::ServerSecrets,
        Self::Admin,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Organizations => "identity:organizations",
            Self::Roles => "identity:roles",
            Self::Users => "identity:users",
            Self::Groups => "identity:groups",
            Self::ServiceAccounts => "identity:serviceaccounts",
            Self::Projects => "identity:projects",
            Self::ProjectReferences => "identity:projects/references",
            Self::Quotas => "identity:quotas",
            Self::Allocations => "identity:allocations",
            Self::Regions => "region:regions",
            Self::RegionDetail => "region:regions/detail",
            Self::Flavors => "region:flavors",
            Self::Images => "region:images",
            Self::ExternalNetworks => "region:externalnetworks",
            Self::Identities => "region:identities",
            Self::NetworksV2 => "region:networks:v2",
            Self::NetworksV2References => "region:networks:v2/references",
            Self::SecurityGroupsV2 => "region:securitygroups:v2",
            Self::SshCertificateAuthoritiesV2 => "region:sshcertificateauthorities:v2",
            Self::Servers => "region:servers",
            Self::ServerSecrets => "region:servers/secrets",
            Self::Admin => "regent:admin",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Create,
    Read,
    Update,
    Delete,
}

impl Operation {
    pub const ALL: [Self; 4] = [Self::Create, Self::Read, Self::Update, Self::Delete];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// One thing that may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permission {
    pub endpoint: Endpoint,
    pub operation: Operation,
}

/// Where something is to be done. A project cannot be named without its organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Global,
    Organization(OrganizationId),
    Project(OrganizationId, ProjectId),
}

pub type Grants = BTreeSet<Permission>;

/// What is granted within one organization.
#[derive(Clone, Debug, Default)]
pub struct OrganizationGrants {
    pub everywhere: Grants,
    pub projects: BTreeMap<ProjectId, Grants>,
}

/// Everything one caller may do. The empty list allows nothing.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    pub global: Grants,
    pub organizations: BTreeMap<OrganizationId, OrganizationGrants>,
}

impl Acl {
    #[must_use]
    pub fn of_role(role: Role) -> Self {
        match role {
            Role::PlatformAdministrator => Self { global: every_permission(), organizations: BTreeMap::new() },
        }
    }

    #[must_use]
    pub fn allows(&self, endpoint: Endpoint, operation: Operation, scope: Scope) -> bool {
        let wanted = Permission { endpoint, operation };
        if self.global.contains(&wanted) {
            return true;
        }
        let in_organization = |organization| self.organizations.get(&organization);
        match scope {
            Scope::Global => false,
            Scope::Organization(organization) => {
                in_organization(organization).is_some_and(|grants| grants.everywhere.contains(&wanted))
            }
            Scope::Project(organization, project) => in_organization(organization).is_some_and(|grants| {
                grants.everywhere.contains(&wanted)
                    || grants.projects.get(&project).is_some_and(|grants| grants.contains(&wanted))
            }),
        }
    }

    /// The organizations a list may look into: `None` when it may look into all of them.
    #[must_use]
    pub fn organizations_readable(&self, endpoint: Endpoint) -> Option<Vec<OrganizationId>> {
        let wanted = Permission { endpoint, operation: Operation::Read };
        if self.global.contains(&wanted) { None } else { Some(self.organizations.keys().copied().collect()) }
    }
}

fn every_permission() -> Grants {
    let of = |endpoint| Operation::ALL.into_iter().map(move |operation| Permission { endpoint, operation });
    Endpoint::ALL.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const READ: Permission = Permission { endpoint: Endpoint::NetworksV2, operation: Operation::Read };

    fn organization(number: u128) -> OrganizationId {
        OrganizationId(Uuid::from_u128(number))
    }

    fn project(number: u128) -> ProjectId {
        ProjectId(Uuid::from_u128(number))
    }

    fn may_read(acl: &Acl, scope: Scope) -> bool {
        acl.allows(READ.endpoint, READ.operation, scope)
    }

    #[test]
    fn the_empty_list_allows_nothing_anywhere() {
        let acl = Acl::default();
        for endpoint in Endpoint::ALL {
            for operation in Operation::ALL {
                for scope in
                    [Scope::Global, Scope::Organization(organization(1)), Scope::Project(organization(1), project(1))]
                {
                    assert!(!acl.allows(endpoint, operation, scope), "{endpoint:?} {operation:?} {scope:?}");
                }
            }
        }
    }

    #[test]
    fn a_platform_administrator_may_do_everything_everywhere() {
        let acl = Acl::of_role(Role::PlatformAdministrator);
        assert!(acl.allows(Endpoint::Admin, Operation::Delete, Scope::Global));
        assert!(may_read(&acl, Scope::Project(organization(7), project(8))));
        assert_eq!(acl.organizations_readable(Endpoint::NetworksV2), None);
    }

    #[test]
    fn a_grant_in_a_project_reaches_neither_its_siblings_nor_its_organization() {
        let mut acl = Acl::default();
        let grants = acl.organizations.entry(organization(1)).or_default();
        grants.projects.insert(project(1), Grants::from([READ]));
        assert!(may_read(&acl, Scope::Project(organization(1), project(1))));
        assert!(!may_read(&acl, Scope::Project(organization(1), project(2))));
        assert!(!may_read(&acl, Scope::Project(organization(2), project(1))));
        assert!(!may_read(&acl, Scope::Organization(organization(1))));
        assert!(!may_read(&acl, Scope::Global));
        assert_eq!(acl.organizations_readable(Endpoint::NetworksV2), Some(vec![organization(1)]));
    }

    #[test]
    fn a_grant_in_an_organization_reaches_its_projects_but_not_other_operations() {
        let mut acl = Acl::default();
        acl.organizations.entry(organization(1)).or_default().everywhere.insert(READ);
        assert!(may_read(&acl, Scope::Project(organization(1), project(9))));
        assert!(!acl.allows(Endpoint::NetworksV2, Operation::Update, Scope::Organization(organization(1))));
    }
}
