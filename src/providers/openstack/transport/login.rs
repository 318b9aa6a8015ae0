//! Who logs in, and for what: the body of a request for a token, and what its answer says.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::catalogue::{CatalogueEntry, Selection, endpoints};
use super::secret::Secret;
use crate::model::ids::ProviderProjectId;

/// A thing of Keystone that is known by its id, or by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    Id(String),
    Name(String),
    /// A name, and the domain that it is unique in.
    NameIn(String, Box<Self>),
}

impl Reference {
    fn body(&self) -> Value {
        match self {
            Self::Id(id) => json!({ "id": id }),
            Self::Name(name) => json!({ "name": name }),
            Self::NameIn(name, domain) => json!({ "name": name, "domain": domain.body() }),
        }
    }
}

/// What proves who we are.
#[derive(Clone, Debug)]
pub enum Proof {
    Password {
        user: Reference,
        password: Secret,
    },
    /// Bound to one project, which it cannot leave.
    ApplicationCredential {
        id: String,
        secret: Secret,
    },
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Domain(Reference),
    Project(Reference),
    /// That of the application credential.
    OfCredential,
}

impl Scope {
    #[must_use]
    pub fn project(id: &ProviderProjectId) -> Self {
        Self::Project(Reference::Id(id.0.clone()))
    }
}

/// Who asks, and in which scope. A token is for one of these, and never for another.
#[derive(Clone, Debug)]
pub struct Login {
    pub proof: Proof,
    pub scope: Scope,
}

/// Tells logins apart without holding a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LoginKey {
    scope: Scope,
    user: Reference,
    imprint: u64,
}

impl Login {
    pub(super) fn key(&self) -> LoginKey {
        let (user, secret) = match &self.proof {
            Proof::Password { user, password } => (user.clone(), password),
            Proof::ApplicationCredential { id, secret } => (Reference::Id(id.clone()), secret),
        };
        LoginKey { scope: self.scope.clone(), user, imprint: secret.imprint() }
    }

    pub(super) fn body(&self) -> Value {
        let identity = match &self.proof {
            Proof::Password { user, password } => {
                let mut user = user.body();
                user["password"] = json!(password.reveal());
                json!({ "methods": ["password"], "password": { "user": user } })
            }
            Proof::ApplicationCredential { id, secret } => json!({
                "methods": ["application_credential"],
                "application_credential": { "id": id, "secret": secret.reveal() },
            }),
        };
        let mut auth = json!({ "identity": identity });
        match &self.scope {
            Scope::Domain(domain) => auth["scope"] = json!({ "domain": domain.body() }),
            Scope::Project(project) => auth["scope"] = json!({ "project": project.body() }),
            Scope::OfCredential => {}
        }
        json!({ "auth": auth })
    }
}

#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    token: TokenBody,
}

#[derive(Deserialize)]
struct TokenBody {
    issued_at: Timestamp,
    expires_at: Option<Timestamp>,
    user: Named,
    project: Option<Named>,
    domain: Option<Named>,
    #[serde(default)]
    roles: Vec<RoleName>,
    #[serde(default)]
    catalog: Vec<CatalogueEntry>,
}

/// Something with an id, and the domain that it lies in.
#[derive(Deserialize)]
struct Named {
    id: String,
    domain: Option<Box<Self>>,
}

#[derive(Deserialize)]
struct RoleName {
    name: String,
}

/// What the cloud has said of a token, the token itself aside.
#[derive(Clone, Debug)]
pub struct Grant {
    pub user: String,
    pub project: Option<ProviderProjectId>,
    pub domain: Option<String>,
    /// The domain that the user itself lies in.
    pub home: Option<String>,
    /// What the user is there, by name.
    pub roles: Vec<String>,
    /// The addresses of the services, by their canonical names.
    pub(super) endpoints: BTreeMap<&'static str, reqwest::Url>,
    pub(super) lifetime: Duration,
}

impl Grant {
    /// Does the catalogue have this service for us?
    #[must_use]
    pub fn has(&self, service: &str) -> bool {
        self.endpoints.contains_key(service)
    }
}

/// How long a token that names no end is believed. Keystone's own default.
const LIFETIME_DEFAULT: Duration = Duration::from_hours(1);

impl TokenAnswer {
    /// The lifetime is the difference of two times of the cloud's own clock, so that ours may be wrong.
    pub(super) fn grant(self, selection: &Selection) -> Grant {
        let token = self.token;
        let lifetime = token.expires_at.map(|end| end.duration_since(token.issued_at));
        Grant {
            home: token.user.domain.map(|domain| domain.id),
            roles: token.roles.into_iter().map(|role| role.name).collect(),
            user: token.user.id,
            project: token.project.map(|project| ProviderProjectId(project.id)),
            domain: token.domain.map(|domain| domain.id),
            endpoints: endpoints(&token.catalog, selection),
            lifetime: lifetime.map_or(LIFETIME_DEFAULT, |life| life.try_into().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(text: &str) -> Login {
        let proof = Proof::Password { user: Reference::Id("u".to_owned()), password: Secret::new(text.to_owned()) };
        Login { proof, scope: Scope::project(&ProviderProjectId("p".to_owned())) }
    }

    #[test]
    fn another_secret_or_another_scope_is_another_token() {
        let mut elsewhere = password("one");
        elsewhere.scope = Scope::Domain(Reference::Id("d".to_owned()));
        assert_eq!(password("one").key(), password("one").key());
        assert_ne!(password("one").key(), password("two").key());
        assert_ne!(password("one").key(), elsewhere.key());
    }

    #[test]
    fn nothing_secret_is_printed() {
        let printed = format!("{:?} {:?}", password("hunter2"), password("hunter2").key());
        assert!(!printed.contains("hunter2"), "{printed}");
    }

    #[test]
    fn the_bodies_are_those_of_the_third_version() {
        let body = password("s").body();
        assert_eq!(body["auth"]["scope"]["project"]["id"], "p");
        assert_eq!(body["auth"]["identity"]["password"]["user"], json!({ "id": "u", "password": "s" }));
        let proof = Proof::ApplicationCredential { id: "c".to_owned(), secret: Secret::new("s".to_owned()) };
        let body = Login { proof, scope: Scope::OfCredential }.body();
        assert_eq!(body["auth"]["identity"]["application_credential"], json!({ "id": "c", "secret": "s" }));
        assert!(body["auth"].get("scope").is_none());
        let domain = Box::new(Reference::Name("Default".to_owned()));
        let named = Reference::NameIn("svc".to_owned(), domain).body();
        assert_eq!(named, json!({ "name": "svc", "domain": { "name": "Default" } }));
    }
}
