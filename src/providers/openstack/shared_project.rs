//! Principals of a region whose tenants share one project of the cloud (`isolation = "project"`).
//!
//! For clouds that give us no domain. A principal is then a key pair and a server group, each with its id in the name;
//! whoever acts for it acts as the service account, and nothing in the cloud keeps it from what is another's. No project,
//! user, role, credential or quota is made, changed or taken away.

use std::sync::Arc;

use super::connection::Acting;
use super::principals::{Access, Principal};
use super::session::{Removals, Session};
use crate::model::identity::IdentityDetail;
use crate::model::ids::{ProviderProjectId, ProviderUserId};
use crate::providers::{Deletion, IdentityRequest, Observed, ProviderError, ProviderResult};

/// What is said when a principal's place is not where the region's settings say: nothing of it would be found, all of it
/// would seem to be gone, and it would be made again beside what is there.
pub(super) fn moved() -> ProviderError {
    let words = "the principal was made with another isolation: a region's isolation or project cannot be changed";
    ProviderError::Inconsistent(words.to_owned())
}

impl Session<'_> {
    pub(super) async fn converge_shared(&self, request: &IdentityRequest) -> ProviderResult<Observed<IdentityDetail>> {
        let Observed { sequence, fact: principal } = self.shared_principal(request).await?;
        let mut detail = request.detail.clone();
        if (detail.project.as_ref(), detail.user.as_ref()) != (Some(&principal.project), Some(&principal.user)) {
            detail.project = Some(principal.project.clone());
            detail.user = Some(principal.user.clone());
            self.note(&detail).await?;
        }
        self.converge_key_pair(request, &principal, &mut detail).await?;
        self.converge_server_group(request, &principal, &mut detail).await?;
        Ok(Observed { sequence, fact: detail })
    }

    /// Takes away what is the principal's alone.
    pub(super) async fn delete_shared(&self, request: &IdentityRequest) -> ProviderResult<Deletion> {
        let principal = self.shared_principal(request).await?.fact;
        let acting = Acting::Principal(Arc::clone(&principal));
        let mut removals = Removals::default();
        let key_pair = self.look_at_key_pair(&acting, request.id, &principal).await?;
        if key_pair.is_some() {
            removals.add(self.take_key_pair_away(&acting, request.id, &principal).await)?;
        }
        for group in self.server_groups(&acting, request, &principal.project).await? {
            removals.add(self.take_server_group_away(&acting, &group).await)?;
        }
        removals.end()?;
        let left = self.server_groups(&acting, request, &principal.project).await?;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }

    /// The principal as it must be: in the account's own project.
    async fn shared_principal(&self, request: &IdentityRequest) -> ProviderResult<Observed<Arc<Principal>>> {
        let Observed { sequence, fact: grant } = self.observed_grant(&Acting::Observer).await?;
        let project: ProviderProjectId = grant.project.ok_or(ProviderError::Unauthorized)?;
        if request.detail.project.as_ref().is_some_and(|recorded| *recorded != project) {
            return Err(moved());
        }
        let (user, server_group) = (ProviderUserId(grant.user), request.detail.server_group.clone());
        let principal = Principal { project, user, access: Access::Account, server_group };
        Ok(Observed { sequence, fact: Arc::new(principal) })
    }
}
