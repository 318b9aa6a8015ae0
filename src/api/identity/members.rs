//! Groups, and who is in them: read for the lists that members show, and changed with them.

use std::sync::Arc;

use super::access::{all_of, edited};
use crate::api::Api;
use crate::api::error::ApiError;
use crate::identity::Caller;
use crate::identity::catalogue::Role;
use crate::identity::membership::may_grant;
use crate::model::ids::{GroupId, Kind, OrganizationId, RoleId, ServiceAccountId, UserId};
use crate::model::member::{Group, GroupSpec, MEMBERS_LEN_MAX};
use crate::model::record::Record;
use crate::store::Write;

/// How many groups an organization may have: all of them are read when rights are worked out.
pub const GROUPS_MAX: usize = 1000;

/// Somebody who can be in a group.
#[derive(Clone, Debug)]
pub enum Member {
    User(UserId, String),
    ServiceAccount(ServiceAccountId),
}

impl Member {
    fn is_in(&self, group: &GroupSpec) -> bool {
        match self {
            Self::User(user, subject) => group.has_user(*user, subject),
            Self::ServiceAccount(account) => group.service_accounts.contains(account),
        }
    }

    fn join(&self, group: &mut GroupSpec) {
        match self {
            Self::User(user, _) => group.users.get_or_insert_default().push(*user),
            Self::ServiceAccount(account) => group.service_accounts.push(*account),
        }
    }

    fn leave(&self, group: &mut GroupSpec) {
        match self {
            Self::User(user, subject) => {
                group.users.iter_mut().for_each(|users| users.retain(|other| other != user));
                group.subjects.iter_mut().for_each(|subjects| subjects.retain(|other| other.id != *subject));
            }
            Self::ServiceAccount(account) => group.service_accounts.retain(|other| other != account),
        }
    }
}

/// The groups of an organization, as they are now.
pub struct Groups(Vec<(Arc<Record>, GroupSpec)>);

impl Groups {
    pub async fn of(api: &Api, organization: OrganizationId) -> Result<Self, ApiError> {
        let records = all_of(api, organization, Kind::Group).await?;
        let open = |record: Arc<Record>| {
            let spec = record.open::<Group>().map(|group| group.spec);
            // One damaged group does not keep anybody from managing the others.
            spec.inspect_err(|error| tracing::error!(%error, "a group is left out")).ok().map(|spec| (record, spec))
        };
        Ok(Self(records.into_iter().filter_map(open).collect()))
    }

    /// Where somebody is a member, in order of id.
    #[must_use]
    pub fn with(&self, member: &Member) -> Vec<GroupId> {
        self.0.iter().filter(|(_, group)| member.is_in(group)).map(|(record, _)| GroupId(record.key.id)).collect()
    }

    /// What has to be written so that somebody is in exactly these groups. To join one is to be granted its roles.
    pub fn moving(
        &self,
        api: &Api,
        caller: &Caller,
        organization: OrganizationId,
        member: &Member,
        wanted: &[GroupId],
    ) -> Result<Vec<Write>, ApiError> {
        self.must_hold(wanted)?;
        let mut writes = Vec::new();
        for (record, group) in &self.0 {
            let (is, shall_be) = (member.is_in(group), wanted.contains(&GroupId(record.key.id)));
            if is == shall_be {
                continue;
            }
            let mut changed = group.clone();
            if shall_be {
                grantable(caller, organization, &group.roles)?;
                member.join(&mut changed);
                fitting(&changed)?;
            } else {
                member.leave(&mut changed);
            }
            writes.push(edited(api, caller, record, None, &changed)?);
        }
        Ok(writes)
    }

    /// May the caller hand out what these groups give, as when a project names them?
    pub fn must_be_grantable(
        &self,
        caller: &Caller,
        organization: OrganizationId,
        groups: &[GroupId],
    ) -> Result<(), ApiError> {
        self.must_hold(groups)?;
        let mut named = self.0.iter().filter(|(record, _)| groups.contains(&GroupId(record.key.id)));
        named.try_for_each(|(_, group)| grantable(caller, organization, &group.roles))
    }

    pub fn must_hold(&self, groups: &[GroupId]) -> Result<(), ApiError> {
        let known = |id: &GroupId| self.0.iter().any(|(record, _)| record.key.id == id.0);
        if groups.iter().all(known) {
            Ok(())
        } else {
            Err(ApiError::invalid("spec.groupIDs names a group that does not exist in this organization"))
        }
    }
}

/// Counts alone do not bound what a group costs to read.
pub fn fitting(group: &GroupSpec) -> Result<(), ApiError> {
    if group.members_len() <= MEMBERS_LEN_MAX {
        Ok(())
    } else {
        Err(ApiError::invalid("the members of a group must take at most 64 KiB together"))
    }
}

/// One may only grant a role whose permissions one holds.
pub fn grantable(caller: &Caller, organization: OrganizationId, roles: &[RoleId]) -> Result<(), ApiError> {
    for role in roles {
        let Some(role) = Role::grantable(*role) else {
            return Err(ApiError::invalid("spec.roleIDs names a role that does not exist or cannot be granted"));
        };
        if !may_grant(caller.acl(), organization, role) {
            return Err(ApiError::forbidden("a role can only be granted by somebody who holds all of its permissions"));
        }
    }
    Ok(())
}
