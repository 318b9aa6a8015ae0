//! Services that speak for their users.
//!
//! A service that was asked by a user asks us in turn, with its own token, and says for whom: `X-Principal` is JSON in
//! base64url. With `X-Impersonate: true` it may then do only what it *and* the user may do; without, the header only
//! says who is charged and who is named.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::AuthenticationError;
use crate::model::ids::{OrganizationId, ProjectId};
use crate::model::member::is_subject;

/// What a request says about whom it speaks for, as it was sent. Anybody can say it.
#[derive(Clone, Debug, Default)]
pub struct SpeakingFor {
    pub principal: Option<String>,
    pub impersonate: bool,
}

/// Longer than any principal of ours: a handful of ids and a name.
const PRINCIPAL_LEN_MAX: usize = 8 * 1024;

/// Nobody acts in more organizations at once. Each costs a look when the user is impersonated.
const ORGANIZATIONS_MAX: usize = 16;

/// Whom a service speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegate {
    /// Where the user acts, and is charged.
    pub organization: Option<OrganizationId>,
    pub project: Option<ProjectId>,
    /// Everywhere that the user belongs to, in order.
    pub organizations: Vec<OrganizationId>,
    pub kind: ActorKind,
    pub actor: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActorKind {
    #[default]
    User,
    Service,
    System,
}

/// As it is written. An empty id is one that is not there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    organization_id: Option<String>,
    #[serde(default)]
    organization_ids: Option<Vec<String>>,
    #[serde(default)]
    project_id: Option<String>,
    #[serde(default, rename = "type")]
    kind: ActorKind,
    actor: String,
}

impl SpeakingFor {
    /// Something was said, and nobody can tell what.
    #[must_use]
    pub fn unreadable() -> Self {
        // No letter of base64.
        Self { principal: Some("?".to_owned()), impersonate: true }
    }

    /// Whom; `None` when the request speaks for itself.
    pub fn delegate(&self) -> Result<Option<Delegate>, AuthenticationError> {
        match &self.principal {
            Some(text) => Delegate::read(text).map(Some),
            // To act as somebody without saying as whom must not end in acting as oneself.
            None if self.impersonate => Err(AuthenticationError::Principal),
            None => Ok(None),
        }
    }
}

impl Delegate {
    fn read(text: &str) -> Result<Self, AuthenticationError> {
        let wire = Wire::read(text).ok_or(AuthenticationError::Principal)?;
        let listed = wire.organization_ids.unwrap_or_default();
        if !is_subject(&wire.actor) || listed.len() > ORGANIZATIONS_MAX {
            return Err(AuthenticationError::Principal);
        }
        let organization = given(wire.organization_id)?;
        let mut organizations = Vec::new();
        for id in listed {
            organizations.extend(given::<OrganizationId>(Some(id))?);
        }
        organizations.extend(organization);
        organizations.sort_unstable();
        organizations.dedup();
        let project = given(wire.project_id)?;
        Ok(Self { organization, project, organizations, kind: wire.kind, actor: wire.actor })
    }
}

impl Wire {
    fn read(text: &str) -> Option<Self> {
        if text.len() > PRINCIPAL_LEN_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// An id, or that there is none.
fn given<T: std::str::FromStr>(text: Option<String>) -> Result<Option<T>, AuthenticationError> {
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(|_| AuthenticationError::Principal)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn said(json: &str) -> Result<Option<Delegate>, AuthenticationError> {
        SpeakingFor { principal: Some(URL_SAFE_NO_PAD.encode(json)), impersonate: false }.delegate()
    }

    #[test]
    fn a_principal_is_read_and_what_is_empty_is_not_there() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let json = format!(
            r#"{{"organizationId": "{two}", "organizationIds": ["{two}", "{one}"], "projectId": "", "type": "user", "actor": "alice"}}"#
        );
        let delegate = said(&json).expect("reads").expect("somebody");
        assert_eq!(delegate.organization, Some(OrganizationId(two)));
        assert_eq!(delegate.organizations, [OrganizationId(one), OrganizationId(two)]);
        assert_eq!((delegate.project, delegate.actor.as_str()), (None, "alice"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_never_taken_for_nobody() {
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"actor": ""}"#,
            r#"{"actor": "a", "organizationId": "x"}"#,
            r#"{"actor": "a", "type": "god"}"#,
        ] {
            assert_eq!(said(bad), Err(AuthenticationError::Principal), "{bad}");
        }
        let garbage = SpeakingFor { principal: Some("%%%".to_owned()), impersonate: false };
        assert_eq!(garbage.delegate(), Err(AuthenticationError::Principal));
        assert_eq!(SpeakingFor::unreadable().delegate(), Err(AuthenticationError::Principal));
        let nobody = SpeakingFor { principal: None, impersonate: true };
        assert_eq!(nobody.delegate(), Err(AuthenticationError::Principal));
    }
}
