//! The roles that there are, as data.
//!
//! A role is a list of what may be done, per scope: everywhere, in an organization, in a project. The names and their
//! operations are those that existing installations know; what Regent adds to them is said beside it. A **protected**
//! role cannot be granted by anybody: only a token made on the host has one.
//!
//! Regent adds to the catalogue: the detail of regions, the secrets of principals and `regent:admin` for platform
//! administrators (`read` of the last for platform readers), and the secrets of servers and instances, which whoever may
//! only read does not see.

use uuid::Uuid;

use super::acl::{Acl, Endpoint as E, Grants, Operation as O, Permission};
use crate::model::ids::RoleId;
use crate::model::token;

/// What may be done, and to what.
type Entries = &'static [(&'static [O], &'static [E])];

pub struct Scopes {
    pub global: Entries,
    /// In the organization of the group that has the role.
    pub organization: Entries,
    /// In each project that the group is linked to.
    pub project: Entries,
}

pub struct Role {
    pub name: &'static str,
    pub description: &'static str,
    pub protected: bool,
    pub scopes: Scopes,
}

/// What the ids of roles are drawn from: a role has the same id in every installation.
const NAMESPACE: Uuid = Uuid::from_u128(0x4c1f_8a52_9d0b_4f0e_a6c3_7e21_58b4_d903);

impl Role {
    #[must_use]
    pub fn id(&self) -> RoleId {
        RoleId(Uuid::new_v5(&NAMESPACE, self.name.as_bytes()))
    }

    /// A role that may be granted, by its id. Protected ones are not found, so that nothing can be granted by them.
    #[must_use]
    pub fn grantable(id: RoleId) -> Option<&'static Self> {
        ROLES.iter().find(|role| !role.protected && role.id() == id)
    }

    /// The role that holds everywhere.
    #[must_use]
    pub fn everywhere(role: token::Role) -> Option<&'static Self> {
        ROLES.iter().find(|known| known.name == role.word())
    }
}

/// The entries, one by one.
#[must_use]
pub fn grants(entries: Entries) -> Grants {
    let of = |(operations, endpoints): &(&'static [O], &'static [E])| {
        let (operations, endpoints) = (*operations, *endpoints);
        endpoints.iter().flat_map(move |endpoint| {
            operations.iter().map(move |operation| Permission { endpoint: *endpoint, operation: *operation })
        })
    };
    entries.iter().flat_map(of).collect()
}

impl Acl {
    /// What a token that is bound to a role may do. A role that is not in the catalogue allows nothing.
    #[must_use]
    pub fn of_role(role: token::Role) -> Self {
        let global = Role::everywhere(role).map(|role| grants(role.scopes.global)).unwrap_or_default();
        Self { global, ..Self::default() }
    }
}

const ALLOW_CRUD: &[O] = &[O::Create, O::Read, O::Update, O::Delete];
const ALLOW_CRD: &[O] = &[O::Create, O::Read, O::Delete];
const ALLOW_CD: &[O] = &[O::Create, O::Delete];
const ALLOW_CR: &[O] = &[O::Create, O::Read];
const ALLOW_RU: &[O] = &[O::Read, O::Update];
const ALLOW_R: &[O] = &[O::Read];

pub const ROLES: &[Role] = &[
    Role {
        name: "platform-administrator",
        description: "Platform administrator",
        protected: true,
        scopes: Scopes {
            global: &[
                (
                    ALLOW_CRUD,
                    &[
                        E::Allocations,
                        E::Groups,
                        E::Oauth2Providers,
                        E::Organizations,
                        E::Projects,
                        E::ProjectReferences,
                        E::Quotas,
                        E::Roles,
                        E::ServiceAccounts,
                        E::Users,
                        E::ExternalNetworks,
                        E::FileStorageV2,
                        E::FileStorageClassesV2,
                        E::Flavors,
                        E::Identities,
                        E::IdentityReferences,
                        E::IdentitySecrets,
                        E::Images,
                        E::LoadBalancersV2,
                        E::NetworksV1,
                        E::NetworksV1References,
                        E::NetworksV2,
                        E::NetworksV2References,
                        E::Regions,
                        E::SecurityGroupsV1,
                        E::SecurityGroupsV2,
                        E::Servers,
                        E::ServerSecrets,
                        E::ServersV2,
                        E::VolumesV2,
                        E::ComputeClusters,
                        E::ComputeFlavors,
                        E::ComputeImages,
                        E::Instances,
                        E::InstanceSecrets,
                        E::ComputeRegions,
                        E::KubernetesClusterManagers,
                        E::KubernetesClusters,
                        E::KubernetesFlavors,
                        E::KubernetesImages,
                        E::KubernetesRegions,
                        E::KubernetesVirtualClusters,
                        E::ObjectStorageClasses,
                        E::ObjectStorageEndpoints,
                        E::ObjectStorageAccessKeys,
                        E::Admin,
                    ],
                ),
                (ALLOW_CRD, &[E::SshCertificateAuthoritiesV2]),
                (ALLOW_R, &[E::RegionDetail, E::VolumeClassesV2]),
            ],
            organization: &[],
            project: &[],
        },
    },
    Role {
        name: "platform-reader",
        description: "Platform reader",
        protected: true,
        scopes: Scopes {
            global: &[(
                ALLOW_R,
                &[
                    E::Allocations,
                    E::Groups,
                    E::Oauth2Providers,
                    E::Organizations,
                    E::Projects,
                    E::Quotas,
                    E::Roles,
                    E::ServiceAccounts,
                    E::Users,
                    E::ExternalNetworks,
                    E::FileStorageV2,
                    E::FileStorageClassesV2,
                    E::Flavors,
                    E::Images,
                    E::LoadBalancersV2,
                    E::NetworksV1,
                    E::NetworksV2,
                    E::Regions,
                    E::SecurityGroupsV1,
                    E::SecurityGroupsV2,
                    E::Servers,
                    E::SshCertificateAuthoritiesV2,
                    E::VolumeClassesV2,
                    E::ComputeFlavors,
                    E::ComputeImages,
                    E::ComputeRegions,
                    E::KubernetesClusterManagers,
                    E::KubernetesFlavors,
                    E::KubernetesImages,
                    E::KubernetesRegions,
                    E::ObjectStorageClasses,
                    E::ObjectStorageEndpoints,
                    E::Admin,
                ],
            )],
            organization: &[],
            project: &[],
        },
    },
    Role {
        name: "region-service",
        description: "Region service",
        protected: true,
        scopes: Scopes {
            global: &[(ALLOW_CRUD, &[E::Allocations]), (ALLOW_CD, &[E::ProjectReferences]), (ALLOW_R, &[E::Projects])],
            organization: &[],
            project: &[],
        },
    },
    Role {
        name: "kubernetes-service",
        description: "Kubernetes service",
        protected: true,
        scopes: Scopes {
            global: &[
                (ALLOW_CRUD, &[E::Allocations]),
                (ALLOW_CRD, &[E::Identities, E::NetworksV1]),
                (ALLOW_CD, &[E::ProjectReferences, E::IdentityReferences]),
                (ALLOW_R, &[E::Projects, E::ExternalNetworks, E::Flavors, E::Images, E::Regions, E::RegionDetail]),
            ],
            organization: &[],
            project: &[],
        },
    },
    Role {
        name: "compute-service",
        description: "Compute service",
        protected: true,
        scopes: Scopes {
            global: &[
                (ALLOW_CRUD, &[E::Allocations, E::SecurityGroupsV1, E::Servers, E::ServerSecrets, E::ServersV2]),
                (ALLOW_CRD, &[E::Identities, E::NetworksV1]),
                (ALLOW_CR, &[E::Images]),
                (
                    ALLOW_R,
                    &[
                        E::Projects,
                        E::Flavors,
                        E::NetworksV2,
                        E::Regions,
                        E::SecurityGroupsV2,
                        E::SshCertificateAuthoritiesV2,
                    ],
                ),
            ],
            organization: &[],
            project: &[],
        },
    },
    Role {
        name: "storage-service",
        description: "Storage service",
        protected: true,
        scopes: Scopes {
            global: &[
                (ALLOW_CRUD, &[E::Allocations, E::NetworksV2References]),
                (ALLOW_CD, &[E::ProjectReferences]),
                (ALLOW_R, &[E::Projects]),
            ],
            organization: &[],
            project: &[],
        },
    },
    Role {
        name: "administrator",
        description: "Organization administrator",
        protected: false,
        scopes: Scopes {
            global: &[],
            organization: &[
                (
                    ALLOW_CRUD,
                    &[
                        E::Groups,
                        E::Oauth2Providers,
                        E::Projects,
                        E::Roles,
                        E::ServiceAccounts,
                        E::Users,
                        E::FileStorageV2,
                        E::LoadBalancersV2,
                        E::NetworksV2,
                        E::SecurityGroupsV2,
                        E::VolumesV2,
                        E::ComputeClusters,
                        E::Instances,
                        E::InstanceSecrets,
                        E::KubernetesClusters,
                        E::KubernetesVirtualClusters,
                        E::ObjectStorageEndpoints,
                        E::ObjectStorageAccessKeys,
                    ],
                ),
                (ALLOW_CRD, &[E::Images, E::SshCertificateAuthoritiesV2]),
                (ALLOW_RU, &[E::Organizations]),
                (
                    ALLOW_R,
                    &[
                        E::Quotas,
                        E::FileStorageClassesV2,
                        E::Flavors,
                        E::Regions,
                        E::VolumeClassesV2,
                        E::ComputeFlavors,
                        E::ComputeImages,
                        E::ComputeRegions,
                        E::KubernetesFlavors,
                        E::KubernetesImages,
                        E::KubernetesRegions,
                        E::ObjectStorageClasses,
                    ],
                ),
            ],
            project: &[],
        },
    },
    Role {
        name: "auditor",
        description: "Organization auditor",
        protected: false,
        scopes: Scopes {
            global: &[],
            organization: &[(
                ALLOW_R,
                &[
                    E::Groups,
                    E::Oauth2Providers,
                    E::Organizations,
                    E::Projects,
                    E::Quotas,
                    E::Roles,
                    E::ServiceAccounts,
                    E::Users,
                    E::FileStorageV2,
                    E::FileStorageClassesV2,
                    E::Flavors,
                    E::Images,
                    E::LoadBalancersV2,
                    E::NetworksV2,
                    E::Regions,
                    E::SecurityGroupsV2,
                    E::SshCertificateAuthoritiesV2,
                    E::VolumeClassesV2,
                    E::VolumesV2,
                    E::ComputeClusters,
                    E::ComputeFlavors,
                    E::ComputeImages,
                    E::Instances,
                    E::ComputeRegions,
                    E::KubernetesClusters,
                    E::KubernetesFlavors,
                    E::KubernetesImages,
                    E::KubernetesRegions,
                    E::KubernetesVirtualClusters,
                    E::ObjectStorageClasses,
                    E::ObjectStorageEndpoints,
                    E::ObjectStorageAccessKeys,
                ],
            )],
            project: &[],
        },
    },
    Role {
        name: "user",
        description: "Project user",
        protected: false,
        scopes: Scopes {
            global: &[],
            organization: &[
                (ALLOW_CRD, &[E::Images]),
                (
                    ALLOW_R,
                    &[
                        E::Quotas,
                        E::FileStorageClassesV2,
                        E::Flavors,
                        E::Regions,
                        E::VolumeClassesV2,
                        E::ComputeFlavors,
                        E::ComputeImages,
                        E::ComputeRegions,
                        E::KubernetesFlavors,
                        E::KubernetesImages,
                        E::KubernetesRegions,
                        E::ObjectStorageClasses,
                    ],
                ),
            ],
            project: &[
                (
                    ALLOW_CRUD,
                    &[
                        E::FileStorageV2,
                        E::LoadBalancersV2,
                        E::NetworksV2,
                        E::SecurityGroupsV2,
                        E::VolumesV2,
                        E::ComputeClusters,
                        E::Instances,
                        E::InstanceSecrets,
                        E::KubernetesClusters,
                        E::KubernetesVirtualClusters,
                        E::ObjectStorageEndpoints,
                        E::ObjectStorageAccessKeys,
                    ],
                ),
                (ALLOW_CRD, &[E::SshCertificateAuthoritiesV2]),
                (ALLOW_R, &[E::Projects]),
            ],
        },
    },
    Role {
        name: "reader",
        description: "Project reader",
        protected: false,
        scopes: Scopes {
            global: &[],
            organization: &[(
                ALLOW_R,
                &[
                    E::Quotas,
                    E::FileStorageClassesV2,
                    E::Flavors,
                    E::Images,
                    E::Regions,
                    E::VolumeClassesV2,
                    E::ComputeFlavors,
                    E::ComputeImages,
                    E::ComputeRegions,
                    E::KubernetesFlavors,
                    E::KubernetesImages,
                    E::KubernetesRegions,
                    E::ObjectStorageClasses,
                ],
            )],
            project: &[(
                ALLOW_R,
                &[
                    E::Projects,
                    E::FileStorageV2,
                    E::LoadBalancersV2,
                    E::NetworksV2,
                    E::SecurityGroupsV2,
                    E::SshCertificateAuthoritiesV2,
                    E::VolumesV2,
                    E::ComputeClusters,
                    E::Instances,
                    E::KubernetesClusters,
                    E::KubernetesVirtualClusters,
                    E::ObjectStorageEndpoints,
                    E::ObjectStorageAccessKeys,
                ],
            )],
        },
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::identity::acl::Scope;

    fn named(name: &str) -> &'static Role {
        ROLES.iter().find(|role| role.name == name).expect("a role of the catalogue")
    }

    #[test]
    fn every_role_has_an_id_of_its_own_and_only_those_that_are_not_protected_can_be_granted() {
        let ids = ROLES.iter().map(Role::id).collect::<BTreeSet<_>>();
        assert_eq!(ids.len(), ROLES.len());
        let grantable = ROLES.iter().filter(|role| Role::grantable(role.id()).is_some()).map(|role| role.name);
        assert_eq!(grantable.collect::<Vec<_>>(), ["administrator", "auditor", "user", "reader"]);
    }

    #[test]
    fn only_protected_roles_reach_beyond_an_organization() {
        for role in ROLES {
            let scopes = &role.scopes;
            assert_eq!(role.protected, !scopes.global.is_empty(), "{}", role.name);
            assert_eq!(role.protected, scopes.organization.is_empty() && scopes.project.is_empty(), "{}", role.name);
        }
        for role in token::Role::ALL {
            assert!(Role::everywhere(role).is_some_and(|role| role.protected), "{role:?}");
        }
    }

    #[test]
    fn every_name_of_an_endpoint_is_its_own_and_is_granted_by_some_role() {
        let names = E::ALL.iter().map(|endpoint| endpoint.name()).collect::<BTreeSet<_>>();
        assert_eq!(names.len(), E::ALL.len());
        let mut granted = Grants::new();
        for role in ROLES {
            for entries in [role.scopes.global, role.scopes.organization, role.scopes.project] {
                granted.extend(grants(entries));
            }
        }
        for endpoint in E::ALL {
            assert!(granted.iter().any(|permission| permission.endpoint == *endpoint), "{}", endpoint.name());
        }
    }

    #[test]
    fn whoever_only_reads_changes_nothing_and_sees_no_secrets() {
        for name in ["platform-reader", "auditor", "reader"] {
            let scopes = &named(name).scopes;
            for permission in [scopes.global, scopes.organization, scopes.project].into_iter().flat_map(grants) {
                assert_eq!(permission.operation, O::Read, "{name}: {permission:?}");
                assert!(![E::InstanceSecrets, E::ServerSecrets].contains(&permission.endpoint), "{name}");
            }
        }
    }

    #[test]
    fn end_users_do_not_hold_servers() {
        for name in ["administrator", "user"] {
            let scopes = &named(name).scopes;
            let mut held = [scopes.organization, scopes.project].into_iter().flat_map(grants);
            assert!(
                !held.any(|permission| [E::Servers, E::ServersV2, E::ServerSecrets].contains(&permission.endpoint))
            );
        }
    }

    #[test]
    fn a_platform_reader_looks_at_the_tree_and_a_service_does_not() {
        let may = |role, operation| Acl::of_role(role).allows(E::Admin, operation, Scope::Global);
        assert!(may(token::Role::PlatformAdministrator, O::Update) && may(token::Role::PlatformReader, O::Read));
        assert!(!may(token::Role::PlatformReader, O::Update) && !may(token::Role::ComputeService, O::Read));
    }
}
