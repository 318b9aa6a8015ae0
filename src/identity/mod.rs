//! Who may do what: the bearer of a token becomes a [`Caller`], and a caller carries its [`acl::Acl`].
//!
//! Everything that decides on permission asks the caller that it was handed as an argument; there is no ambient
//! "current user". A question that the list does not answer with yes is answered with no.

pub mod acl;
pub mod embedded;

use async_trait::async_trait;

use acl::{Acl, Endpoint, Operation, Scope};

use crate::model::ids::{OrganizationId, ProjectId};
use crate::model::metadata::Principal;

/// Who is asking, and what they may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name that goes into `createdBy` and into the audit log.
    pub subject: String,
    acl: Acl,
}

impl Caller {
    #[must_use]
    pub const fn new(subject: String, acl: Acl) -> Self {
        Self { subject, acl }
    }

    #[must_use]
    pub fn allows(&self, endpoint: Endpoint, operation: Operation, scope: Scope) -> bool {
        self.acl.allows(endpoint, operation, scope)
    }

    /// On whose behalf something that is made in this project exists, and so who is charged for it.
    #[must_use]
    pub fn principal(&self, organization: OrganizationId, project: ProjectId) -> Principal {
        Principal { organization: Some(organization), project: Some(project), actor: self.subject.clone() }
    }

    #[must_use]
    pub const fn acl(&self) -> &Acl {
        &self.acl
    }
}

/// Why nobody was recognized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationError {
    /// Unknown, expired, revoked or malformed: which of these is nobody's business but the operator's.
    #[error("the bearer token is not valid")]
    Invalid,
    /// Nobody can be recognized at the moment; the token may be good.
    #[error("identities cannot be read: {0}")]
    Unavailable(String),
}

/// Recognizes callers.
#[async_trait]
pub trait IdentityService: Send + Sync {
    async fn authenticate(&self, bearer: &str) -> Result<Caller, AuthenticationError>;
}
