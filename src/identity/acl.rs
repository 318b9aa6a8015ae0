//! What one caller may do, and where: grants that hold everywhere, in an organization, or in a project.
//!
//! ```text
//!   global ──▶ organization ──▶ project      the first that grants it decides; nothing denies
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ids::{OrganizationId, ProjectId};

macro_rules! endpoints {
    ($($(#[$doc:meta])* $endpoint:ident => $name:literal,)*) => {
        /// What is protected, by the names that role catalogues use.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Endpoint {$(
            $(#[$doc])*
            $endpoint,
        )*}

        impl Endpoint {
            pub const ALL: &'static [Self] = &[$(Self::$endpoint,)*];

            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {$(Self::$endpoint => $name,)*}
            }
        }
    };
}

// Also the names of services that are not here yet: roles grant them, and clients read them.
endpoints! {
    Allocations => "identity:allocations",
    Groups => "identity:groups",
    Oauth2Providers => "identity:oauth2providers",
    Organizations => "identity:organizations",
    Projects => "identity:projects",
    ProjectReferences => "identity:projects/references",
    Quotas => "identity:quotas",
    Roles => "identity:roles",
    ServiceAccounts => "identity:serviceaccounts",
    Users => "identity:users",
    ExternalNetworks => "region:externalnetworks",
    FileStorageV2 => "region:filestorage:v2",
    FileStorageClassesV2 => "region:filestorageclass:v2",
    Flavors => "region:flavors",
    Identities => "region:identities",
    IdentityReferences => "region:identities/references",
    /// What lets into the cloud as a principal.
    IdentitySecrets => "region:identities/secrets",
    Images => "region:images",
    LoadBalancersV2 => "region:loadbalancers:v2",
    NetworksV1 => "region:networks",
    NetworksV1References => "region:networks/references",
    NetworksV2 => "region:networks:v2",
    NetworksV2References => "region:networks:v2/references",
    Regions => "region:regions",
    RegionDetail => "region:regions/detail",
    SecurityGroupsV1 => "region:securitygroups",
    SecurityGroupsV2 => "region:securitygroups:v2",
    Servers => "region:servers",
    /// Private keys and console sessions.
    ServerSecrets => "region:servers/secrets",
    ServersV2 => "region:servers:v2",
    SshCertificateAuthoritiesV2 => "region:sshcertificateauthorities:v2",
    VolumeClassesV2 => "region:volumeclasses:v2",
    VolumesV2 => "region:volumes:v2",
    ComputeClusters => "compute:clusters",
    ComputeFlavors => "compute:flavors",
    ComputeImages => "compute:images",
    Instances => "compute:instances",
    /// The same, of instances.
    InstanceSecrets => "compute:instances/secrets",
    ComputeRegions => "compute:regions",
    KubernetesClusterManagers => "kubernetes:clustermanagers",
    KubernetesClusters => "kubernetes:clusters",
    KubernetesFlavors => "kubernetes:flavors",
    KubernetesImages => "kubernetes:images",
    KubernetesRegions => "kubernetes:regions",
    KubernetesVirtualClusters => "kubernetes:virtualclusters",
    ObjectStorageClasses => "storage:objectstorageclasses",
    ObjectStorageEndpoints => "storage:objectstorageendpoints",
    ObjectStorageAccessKeys => "storage:objectstorageendpoints/accesskeys",
    /// The operator's surface.
    Admin => "regent:admin",
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

impl OrganizationGrants {
    fn in_project(&self, project: ProjectId) -> Grants {
        let here = self.projects.get(&project);
        self.everywhere.iter().chain(here.into_iter().flatten()).copied().collect()
    }
}

/// Everything one caller may do. The empty list allows nothing.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    pub global: Grants,
    pub organizations: BTreeMap<OrganizationId, OrganizationGrants>,
}

impl Acl {
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

    /// Does it allow nothing, anywhere?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let nothing = |grants: &OrganizationGrants| {
            grants.everywhere.is_empty() && grants.projects.values().all(BTreeSet::is_empty)
        };
        self.global.is_empty() && self.organizations.values().all(nothing)
    }

    /// What both allow: the rights of a service that acts as somebody.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let both = |one: &Grants, other: &Grants| one.intersection(other).copied().collect::<Grants>();
        let mut acl = Self { global: both(&self.global, &other.global), ..Self::default() };
        let named = self.organizations.keys().chain(other.organizations.keys()).copied().collect::<BTreeSet<_>>();
        for organization in named {
            let (mine, theirs) = (self.within(organization), other.within(organization));
            let projects = mine.projects.keys().chain(theirs.projects.keys()).copied().collect::<BTreeSet<_>>();
            let in_project = |project: &ProjectId| both(&mine.in_project(*project), &theirs.in_project(*project));
            let projects = projects.iter().map(|project| (*project, in_project(project))).collect();
            let everywhere = both(&mine.everywhere, &theirs.everywhere);
            acl.organizations.insert(organization, OrganizationGrants { everywhere, projects });
        }
        acl
    }

    /// What holds in one organization, with what holds everywhere.
    fn within(&self, organization: OrganizationId) -> OrganizationGrants {
        let mut grants = self.organizations.get(&organization).cloned().unwrap_or_default();
        grants.everywhere.extend(&self.global);
        grants
    }

    /// The organizations a list may look into: `None` when it may look into all of them.
    #[must_use]
    pub fn organizations_readable(&self, endpoint: Endpoint) -> Option<Vec<OrganizationId>> {
        let wanted = Permission { endpoint, operation: Operation::Read };
        if self.global.contains(&wanted) { None } else { Some(self.organizations.keys().copied().collect()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::token::Role;
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
        let mut acl = Acl::default();
        acl.organizations.entry(organization(1)).or_default().projects.insert(project(1), Grants::new());
        assert!(acl.is_empty());
        for &endpoint in Endpoint::ALL {
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
    fn a_platform_administrator_is_held_up_by_no_organization() {
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
        assert!(!acl.is_empty());
        assert!(may_read(&acl, Scope::Project(organization(1), project(9))));
        assert!(!acl.allows(Endpoint::NetworksV2, Operation::Update, Scope::Organization(organization(1))));
    }

    #[test]
    fn what_two_lists_allow_together_is_what_each_of_them_allows() {
        let mut user = Acl::default();
        let grants = user.organizations.entry(organization(1)).or_default();
        grants.everywhere.insert(Permission { endpoint: Endpoint::Flavors, operation: Operation::Read });
        grants.projects.insert(project(1), Grants::from([READ, Permission { operation: Operation::Create, ..READ }]));
        let service = Acl::of_role(Role::ComputeService);
        let both = user.and(&service);
        let scopes = [
            Scope::Global,
            Scope::Organization(organization(1)),
            Scope::Organization(organization(2)),
            Scope::Project(organization(1), project(1)),
            Scope::Project(organization(1), project(2)),
            Scope::Project(organization(2), project(1)),
        ];
        for &endpoint in Endpoint::ALL {
            for operation in Operation::ALL {
                for scope in scopes {
                    let expected =
                        user.allows(endpoint, operation, scope) && service.allows(endpoint, operation, scope);
                    assert_eq!(
                        both.allows(endpoint, operation, scope),
                        expected,
                        "{endpoint:?} {operation:?} {scope:?}"
                    );
                }
            }
        }
        assert!(may_read(&both, Scope::Project(organization(1), project(1))));
    }
}
