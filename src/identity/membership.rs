//! What somebody may do in an organization, from the groups that they are in. Pure.
//!
//! ```text
//!   member ──▶ groups ──▶ roles ──▶ organization scopes     in the whole organization
//!                │          └─────▶ project scopes ─┐
//!                └──▶ projects that name the group ─┴────▶  in those projects
//! ```

use std::collections::BTreeMap;

use super::acl::{Acl, Grants, OrganizationGrants, Permission, Scope};
use super::catalogue::{self, Role};
use crate::model::ids::{GroupId, OrganizationId, ProjectId, RoleId};

/// The groups that somebody is in, with their roles.
pub type Roles = BTreeMap<GroupId, Vec<RoleId>>;

/// What those groups give. A role that is not known, or cannot be granted, gives nothing.
#[must_use]
pub fn granted<'a>(groups: &Roles, projects: impl Iterator<Item = (ProjectId, &'a [GroupId])>) -> OrganizationGrants {
    let mut grants = OrganizationGrants::default();
    for role in groups.values().flatten().copied().filter_map(Role::grantable) {
        grants.everywhere.extend(catalogue::grants(role.scopes.organization));
    }
    for (project, linked) in projects {
        let mut here = Grants::new();
        let roles = linked.iter().filter_map(|group| groups.get(group)).flatten().copied();
        for role in roles.filter_map(Role::grantable) {
            here.extend(catalogue::grants(role.scopes.project));
        }
        if !here.is_empty() {
            grants.projects.insert(project, here);
        }
    }
    grants
}

/// May somebody with these rights give the role to others in the organization? Only who holds all of it, in the whole
/// organization, since the role's group may be linked to any of its projects.
#[must_use]
pub fn may_grant(acl: &Acl, organization: OrganizationId, role: &Role) -> bool {
    let scope = Scope::Organization(organization);
    let holds = |permission: Permission| acl.allows(permission.endpoint, permission.operation, scope);
    let scopes = [role.scopes.organization, role.scopes.project];
    !role.protected && scopes.into_iter().flat_map(catalogue::grants).all(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::acl::{Endpoint, Operation};
    use crate::model::token;
    use uuid::Uuid;

    fn role(name: &str) -> &'static Role {
        catalogue::ROLES.iter().find(|role| role.name == name).expect("a role")
    }

    fn acl_of(name: &str) -> Acl {
        let groups = Roles::from([(group(1), vec![role(name).id()])]);
        let linked = [group(1)];
        let grants = granted(&groups, [(project(1), &linked[..]), (project(2), &[][..])].into_iter());
        Acl { organizations: BTreeMap::from([(organization(), grants)]), ..Acl::default() }
    }

    fn organization() -> OrganizationId {
        OrganizationId(Uuid::from_u128(1))
    }

    fn group(number: u128) -> GroupId {
        GroupId(Uuid::from_u128(number))
    }

    fn project(number: u128) -> ProjectId {
        ProjectId(Uuid::from_u128(number))
    }

    #[test]
    fn a_user_acts_in_the_projects_of_its_groups_and_in_no_other() {
        let acl = acl_of("user");
        let may = |number| {
            acl.allows(Endpoint::NetworksV2, Operation::Create, Scope::Project(organization(), project(number)))
        };
        assert!(may(1) && !may(2));
        assert!(acl.allows(Endpoint::Regions, Operation::Read, Scope::Organization(organization())));
        assert!(!acl.allows(Endpoint::NetworksV2, Operation::Create, Scope::Organization(organization())));
    }

    #[test]
    fn protected_and_unknown_roles_give_nothing() {
        let roles = vec![role("platform-administrator").id(), RoleId(Uuid::from_u128(77))];
        let grants = granted(&Roles::from([(group(1), roles)]), [(project(1), &[group(1)][..])].into_iter());
        assert!(grants.everywhere.is_empty() && grants.projects.is_empty());
    }

    #[test]
    fn one_grants_only_what_one_holds() {
        let grantable = |acl: &Acl| {
            let roles = catalogue::ROLES.iter().filter(|role| may_grant(acl, organization(), role));
            roles.map(|role| role.name).collect::<Vec<_>>()
        };
        let all = ["administrator", "auditor", "user", "reader"];
        assert_eq!(grantable(&acl_of("administrator")), all);
        assert_eq!(grantable(&Acl::of_role(token::Role::PlatformAdministrator)), all);
        assert_eq!(grantable(&acl_of("auditor")), ["auditor", "reader"]);
        for name in ["user", "reader"] {
            assert_eq!(grantable(&acl_of(name)), [] as [&str; 0], "{name} holds its rights in projects only");
        }
    }
}
