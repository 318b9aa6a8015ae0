//! Who belongs to an organization: users, service accounts, and the groups that give both their roles.
//!
//! Membership is kept in one place, the group. A user's or an account's own list of groups is worked out from there,
//! so that the two sides cannot come to disagree.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{Kind, OrganizationId, RoleId, ServiceAccountId, UserId};
use super::organization::Nothing;
use super::record::ResourceKind;

/// As long as an e-mail address may be: subjects stand in every resource and every audit line.
pub const SUBJECT_LEN_MAX: usize = 254;

/// Who says that a group's subject is who it is. There is no other issuer yet, so that a subject of any other gives
/// nobody anything.
pub const ISSUER: &str = "regent";

/// Visible ASCII, so that it can stand in a header and in a log line.
#[must_use]
pub fn is_subject(text: &str) -> bool {
    (1..=SUBJECT_LEN_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[derive(Clone, Debug)]
pub struct Group;

impl ResourceKind for Group {
    const KIND: Kind = Kind::Group;
    type Spec = GroupSpec;
    type Detail = Nothing;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSpec {
    #[serde(rename = "roleIDs")]
    pub roles: Vec<RoleId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subjects: Option<Vec<GroupSubject>>,
    #[serde(default, rename = "userIDs", skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<UserId>>,
    #[serde(rename = "serviceAccountIDs")]
    pub service_accounts: Vec<ServiceAccountId>,
}

/// A member by the name that an issuer gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = subject)]
pub struct GroupSubject {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    pub issuer: String,
}

/// How many bytes a group's members may take: all groups of an organization are read when rights are worked out.
pub const MEMBERS_LEN_MAX: usize = 64 * 1024;

impl GroupSpec {
    /// How many bytes its members take, as text.
    #[must_use]
    pub fn members_len(&self) -> usize {
        let ids = self.users.as_ref().map_or(0, Vec::len) + self.service_accounts.len();
        let named = |subject: &GroupSubject| {
            subject.id.len() + subject.issuer.len() + subject.email.as_ref().map_or(0, String::len)
        };
        ids * uuid::fmt::Hyphenated::LENGTH + self.subjects.iter().flatten().map(named).sum::<usize>()
    }

    #[must_use]
    pub fn has_user(&self, user: UserId, subject: &str) -> bool {
        let by_id = self.users.as_ref().is_some_and(|users| users.contains(&user));
        let named = |member: &GroupSubject| member.issuer == ISSUER && member.id == subject;
        by_id || self.subjects.as_ref().is_some_and(|subjects| subjects.iter().any(named))
    }
}

#[derive(Clone, Debug)]
pub struct User;

impl ResourceKind for User {
    const KIND: Kind = Kind::User;
    type Spec = UserSpec;
    type Detail = Nothing;
}

/// A user of one organization. Somebody who belongs to two is two users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserSpec {
    pub subject: String,
    pub state: UserState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UserState {
    Active,
    /// Invited; may do nothing yet.
    Pending,
    /// May do nothing any more.
    Suspended,
}

impl UserId {
    /// One subject is one user of an organization: the id follows from the two.
    #[must_use]
    pub fn of(organization: OrganizationId, subject: &str) -> Self {
        Self(Uuid::new_v5(&organization.0, format!("user {subject}").as_bytes()))
    }
}

#[derive(Clone, Debug)]
pub struct ServiceAccount;

impl ResourceKind for ServiceAccount {
    const KIND: Kind = Kind::ServiceAccount;
    type Spec = ServiceAccountSpec;
    type Detail = Nothing;
}

/// A program's account. Its token is a record of its own, owned by the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceAccountSpec {
    /// When its token ends.
    pub expiry: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_of_another_issuer_is_nobody_here() {
        let user = UserId(Uuid::from_u128(1));
        let by = |issuer: &str| GroupSpec {
            subjects: Some(vec![GroupSubject { id: "alice".to_owned(), email: None, issuer: issuer.to_owned() }]),
            ..GroupSpec::default()
        };
        assert!(by(ISSUER).has_user(user, "alice"));
        assert!(!by(ISSUER).has_user(user, "bob"));
        assert!(!by("https://elsewhere.example").has_user(user, "alice"));
    }

    #[test]
    fn one_subject_is_one_user_of_an_organization_and_another_of_the_next() {
        let organization = |number| OrganizationId(Uuid::from_u128(number));
        assert_eq!(UserId::of(organization(1), "alice"), UserId::of(organization(1), "alice"));
        assert_ne!(UserId::of(organization(1), "alice"), UserId::of(organization(2), "alice"));
        assert_ne!(UserId::of(organization(1), "alice"), UserId::of(organization(1), "bob"));
    }

    #[test]
    fn subjects_are_short_visible_words() {
        for good in ["a", "alice@example.org", &"x".repeat(SUBJECT_LEN_MAX)] {
            assert!(is_subject(good), "{good}");
        }
        for bad in ["", "a b", "a\nb", "é", &"x".repeat(SUBJECT_LEN_MAX + 1)] {
            assert!(!is_subject(bad), "{bad}");
        }
    }
}
