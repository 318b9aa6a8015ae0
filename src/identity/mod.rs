//! Who may do what: the bearer of a token becomes a [`Caller`], and a caller carries its [`acl::Acl`].
//!
//! Everything that decides on permission asks the caller that it was handed as an argument; there is no ambient
//! "current user". A question that the list does not answer with yes is answered with no.

pub mod acl;
pub mod catalogue;
pub mod embedded;
pub mod membership;
pub mod secret;
pub mod speaking;

use std::sync::Arc;

use async_trait::async_trait;

use acl::{Acl, Endpoint, Operation, Scope};
use speaking::{Delegate, SpeakingFor};

use crate::model::ids::{OrganizationId, ProjectId};
use crate::model::metadata::Principal;

/// Who is asking, and what they may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name that goes into `createdBy` and into the audit log.
    pub subject: String,
    /// Shared, because whoever is remembered is handed out with each request.
    acl: Arc<Acl>,
    account: Account,
    delegate: Option<Delegate>,
}

/// What kind of caller it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// An operator of the platform.
    Platform,
    /// Another service, which may speak for its users.
    Service,
    /// A user or a service account of this organization.
    Member(OrganizationId),
}

impl Caller {
    /// Somebody who belongs to no organization.
    #[must_use]
    pub fn new(subject: String, acl: Acl) -> Self {
        Self::with_account(subject, acl, Account::Platform)
    }

    #[must_use]
    pub fn with_account(subject: String, acl: Acl, account: Account) -> Self {
        Self { subject, acl: Arc::new(acl), account, delegate: None }
    }

    /// A service that speaks for somebody. What it may do then is `acl`.
    #[must_use]
    pub fn speaking_for(self, delegate: Delegate, acl: Acl) -> Self {
        Self { acl: Arc::new(acl), delegate: Some(delegate), ..self }
    }

    #[must_use]
    pub fn allows(&self, endpoint: Endpoint, operation: Operation, scope: Scope) -> bool {
        self.acl.allows(endpoint, operation, scope)
    }

    /// On whose behalf something that is made in this project, or beside all projects, exists, and so who is charged for it: whoever a service
    /// speaks for, if it said where that one belongs; else whoever asks, in the place itself.
    #[must_use]
    pub fn principal(&self, organization: OrganizationId, project: impl Into<Option<ProjectId>>) -> Principal {
        let here = Principal { organization: Some(organization), project: project.into(), actor: self.subject.clone() };
        match &self.delegate {
            None => here,
            Some(delegate) => match delegate.organization {
                Some(home) => {
                    Principal { organization: Some(home), project: delegate.project, actor: delegate.actor.clone() }
                }
                None => Principal { actor: delegate.actor.clone(), ..here },
            },
        }
    }

    #[must_use]
    pub fn acl(&self) -> &Acl {
        &self.acl
    }

    /// Whom a service speaks for.
    #[must_use]
    pub const fn delegate(&self) -> Option<&Delegate> {
        self.delegate.as_ref()
    }

    #[must_use]
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Does it belong to the organization, or stand above all of them?
    #[must_use]
    pub fn knows(&self, organization: OrganizationId) -> bool {
        !self.acl.global.is_empty() || self.acl.organizations.contains_key(&organization)
    }
}

/// Why nobody was recognized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationError {
    /// Unknown, expired, revoked or malformed: which of these is nobody's business but the operator's.
    #[error("the bearer token is not valid")]
    Invalid,
    /// A service said that it speaks for somebody, in words that cannot be read.
    #[error("the principal that the service speaks for is malformed")]
    Principal,
    /// Nobody can be recognized at the moment; the token may be good.
    #[error("identities cannot be read: {0}")]
    Unavailable(String),
}

/// Recognizes callers.
#[async_trait]
pub trait IdentityService: Send + Sync {
    /// Whose token it is. What a request says about whom it speaks for is believed of services alone (B49); of anybody
    /// else it is not even looked at.
    async fn authenticate(&self, bearer: &str, speaking: &SpeakingFor) -> Result<Caller, AuthenticationError>;
}
