//! Making and unmaking a principal: a project, a user, and one credential whose secret is on record.
//!
//! ```text
//!   look ─▶ project ─▶ user ─▶ credentials: keep the one on record, revoke all others, issue if none is left
//!             │                └▶ key pair: generate if none is on record, then register what is on record
//!             └── each noted in the ledger before the next is begun ──┘
//! ```
//!
//! A project or user that a lost answer left behind is found by its marks and adopted. A credential cannot be: its
//! secret was in the answer. So it is revoked, and another one issued. A key pair is ours from the beginning: its
//! private half is on record, sealed, before the cloud hears of the public one.

use std::collections::BTreeMap;

use super::super::call::{Call, Change, Criteria};
use super::super::objects::{Body, CloudObject, Marks, NewObject, ObjectId, ObjectKind, ObjectState};
use super::session::{Session, at_most_one};
use crate::model::identity::{Credential, IdentityDetail, KeyPair};
use crate::model::ids::{IdentityId, ProviderProjectId, ProviderUserId};
use crate::model::record::Document;
use crate::providers::ssh_key_pair::SshKeyPair;
use crate::providers::{Deletion, IdentityRequest, Observed, ProviderError, ProviderResult, Sequence};

/// What the cloud holds of a principal.
struct View {
    sequence: Sequence,
    projects: Vec<CloudObject>,
    users: Vec<CloudObject>,
    credentials: Vec<CloudObject>,
    key_pairs: Vec<CloudObject>,
}

impl View {
    fn is_empty(&self) -> bool {
        self.projects.is_empty() && self.users.is_empty() && self.credentials.is_empty() && self.key_pairs.is_empty()
    }
}

const fn marks(request: &IdentityRequest) -> Marks {
    Marks { id: request.id.0, incarnation: request.incarnation }
}

/// The name of everything that belongs to the principal. For people to read: nothing is found by it.
fn name(id: IdentityId) -> String {
    format!("regent-identity-{id}")
}

fn tags(request: &IdentityRequest) -> BTreeMap<String, String> {
    super::tags(request.organization, request.project)
}

fn new_object(request: &IdentityRequest, body: Body) -> NewObject {
    NewObject { name: name(request.id), marks: Some(marks(request)), tags: tags(request), body }
}

fn is_recorded(request: &IdentityRequest, object: &CloudObject) -> bool {
    let (project, user) = (request.detail.project.as_ref(), request.detail.user.as_ref());
    [project.map(|id| &id.0), user.map(|id| &id.0)].contains(&Some(&object.id.0))
}

impl Session<'_> {
    pub async fn converge_identity(&self, request: &IdentityRequest) -> ProviderResult<Observed<IdentityDetail>> {
        let mut detail = request.detail.clone();
        let view = self.look_at_identity(request, &detail).await?;
        let (credentials, key_pairs) = (view.credentials, view.key_pairs);

        let project = self.converge_project(request, at_most_one(view.projects, "project")?).await?;
        let project = Some(ProviderProjectId(project.id.0));
        if detail.project != project {
            detail.project = project;
            self.context.ledger.note(Document::of(&detail)).await?;
        }

        let user = self.converge_user(request, at_most_one(view.users, "user")?).await?;
        let noted_user = Some(ProviderUserId(user.id.0.clone()));
        if detail.user != noted_user {
            detail.user = noted_user;
            self.context.ledger.note(Document::of(&detail)).await?;
        }

        self.converge_credential(request, &user.id, credentials, &mut detail).await?;
        self.converge_key_pair(request, &user.id, key_pairs, &mut detail).await?;
        Ok(Observed { sequence: view.sequence, fact: detail })
    }

    /// The sequence is that of the first read: all that is reported is at least as new.
    async fn look_at_identity(&self, request: &IdentityRequest, detail: &IdentityDetail) -> ProviderResult<View> {
        let marks = marks(request);
        let project = detail.project.as_ref().map(|id| ObjectId(id.0.clone()));
        let user = detail.user.as_ref().map(|id| ObjectId(id.0.clone()));
        let projects = self.find_own(ObjectKind::Project, marks, project.as_ref()).await?;
        let users = self.find_own(ObjectKind::User, marks, user.as_ref()).await?.fact;
        let (mut credentials, mut key_pairs) = (Vec::new(), Vec::new());
        for user in &users {
            let key_pair = ObjectId::of_key_pair(&user.id, &name(request.id));
            key_pairs.extend(self.get(ObjectKind::KeyPair, &key_pair).await?);
            credentials.extend(self.find(ObjectKind::Credential, Criteria::inside(user.id.clone())).await?.fact);
        }
        if let Some(recorded) = &detail.credential {
            self.add_known(ObjectKind::Credential, &ObjectId(recorded.id.clone()), marks, &mut credentials).await?;
        }
        Ok(View { sequence: projects.sequence, projects: projects.fact, users, credentials, key_pairs })
    }

    async fn converge_project(
        &self,
        request: &IdentityRequest,
        found: Option<CloudObject>,
    ) -> ProviderResult<CloudObject> {
        let create = || Call::Create { object: new_object(request, Body::Project) };
        let Some(project) = found else { return self.change(create()).await };
        match self.usable(request, project).await? {
            None => self.change(create()).await,
            Some(project) if project.tags == tags(request) => Ok(project),
            Some(project) => {
                let change = Change::Tags { tags: tags(request) };
                self.change(Call::Update { kind: ObjectKind::Project, id: project.id, change }).await
            }
        }
    }

    async fn converge_user(
        &self,
        request: &IdentityRequest,
        found: Option<CloudObject>,
    ) -> ProviderResult<CloudObject> {
        let create = || Call::Create { object: new_object(request, Body::User) };
        let Some(user) = found else { return self.change(create()).await };
        match self.usable(request, user).await? {
            None => self.change(create()).await,
            Some(user) => Ok(user),
        }
    }

    /// The object if it can be built on; nothing if it was a failed beginning, which is taken away.
    ///
    /// Only what never carried anything is taken away: while no credential is on record, or while it is not itself on
    /// record (it was to replace one that vanished), nobody can have used it.
    async fn usable(&self, request: &IdentityRequest, object: CloudObject) -> ProviderResult<Option<CloudObject>> {
        let kind = object.kind();
        match object.state {
            ObjectState::Active => Ok(Some(object)),
            ObjectState::Building => Err(ProviderError::Conflict("the principal is still being built".to_owned())),
            ObjectState::Deleting => Err(ProviderError::Conflict("the principal is being removed".to_owned())),
            ObjectState::Error if request.detail.credential.is_some() && is_recorded(request, &object) => {
                Err(ProviderError::Conflict("the principal is in an error state".to_owned()))
            }
            ObjectState::Error => {
                self.take_away(Call::Delete { kind, id: object.id.clone() }).await?;
                match self.get(kind, &object.id).await? {
                    None => Ok(None),
                    Some(_) => Err(ProviderError::Conflict("the principal is being removed".to_owned())),
                }
            }
        }
    }

    async fn converge_credential(
        &self,
        request: &IdentityRequest,
        user: &ObjectId,
        listed: Vec<CloudObject>,
        detail: &mut IdentityDetail,
    ) -> ProviderResult<()> {
        let recorded = detail.credential.as_ref().map(|credential| credential.id.clone());
        let is_kept = |credential: &CloudObject| {
            let alive = matches!(credential.state, ObjectState::Active | ObjectState::Building);
            Some(&credential.id.0) == recorded.as_ref()
                && alive
                && credential.body.parent().is_some_and(|p| p.1 == user)
        };
        let keeps = listed.iter().any(is_kept);
        let revoked = listed.iter().filter(|credential| !is_kept(credential) && !is_leaving(credential));
        for credential in revoked {
            self.take_away(Call::Delete { kind: ObjectKind::Credential, id: credential.id.clone() }).await?;
        }
        if keeps {
            return Ok(());
        }
        let body = Body::Credential { user: user.clone() };
        let (credential, secret) = self.issue(Call::Create { object: new_object(request, body) }).await?;
        let secret = self.context.ledger.seal(&secret)?;
        detail.credential = Some(Credential { id: credential.id.0, secret });
        self.context.ledger.note(Document::of(detail)).await?;
        Ok(())
    }

    /// A key that is registered and is not the one on record is somebody else's, or one whose record was lost: nobody
    /// is to get in with it.
    async fn converge_key_pair(
        &self,
        request: &IdentityRequest,
        user: &ObjectId,
        listed: Vec<CloudObject>,
        detail: &mut IdentityDetail,
    ) -> ProviderResult<()> {
        let public_key = match &detail.key_pair {
            Some(pair) => pair.public_key.clone(),
            None => {
                let unavailable = |_| ProviderError::Unavailable("no randomness for a key".to_owned());
                let pair = SshKeyPair::generate(&name(request.id)).map_err(unavailable)?;
                let private_key = self.context.ledger.seal(&pair.private_key)?;
                detail.key_pair = Some(KeyPair { public_key: pair.public_key.clone(), private_key });
                self.context.ledger.note(Document::of(detail)).await?;
                pair.public_key
            }
        };
        let wanted = Body::KeyPair { user: user.clone(), public_key };
        let is_kept = |key: &CloudObject| key.state != ObjectState::Error && key.body == wanted;
        for key in listed.iter().filter(|key| !is_kept(key)) {
            self.take_away(Call::Delete { kind: ObjectKind::KeyPair, id: key.id.clone() }).await?;
        }
        let kept = listed.into_iter().find(is_kept);
        match kept.map(|key| key.state) {
            Some(ObjectState::Active) => Ok(()),
            Some(_) => Err(ProviderError::Conflict("the key pair is changing".to_owned())),
            None => self.change(Call::Create { object: new_object(request, wanted) }).await.map(|_| ()),
        }
    }

    /// The name under which servers are given the principal's key.
    pub async fn key_name_of(&self, identity: IdentityId) -> ProviderResult<String> {
        let found = self.find(ObjectKind::KeyPair, Criteria::marked(identity.0)).await?.fact;
        found.into_iter().next().map(|key| key.name).ok_or(ProviderError::PrincipalMissing)
    }

    /// Takes away everything of this incarnation, doubles included, whatever is on record and whatever is missing (B3).
    pub async fn delete_identity(&self, request: &IdentityRequest) -> ProviderResult<Deletion> {
        let view = self.look_at_identity(request, &request.detail).await?;
        let all = view.credentials.iter().chain(&view.key_pairs).chain(&view.users).chain(&view.projects);
        let calls: Vec<Call> = all
            .filter(|object| !is_leaving(object))
            .map(|object| Call::Delete { kind: object.kind(), id: object.id.clone() })
            .collect();
        if !view.is_empty() {
            self.take_all_away(calls).await?;
            if !self.look_at_identity(request, &known(request, &view)).await?.is_empty() {
                return Ok(Deletion::Underway);
            }
        }
        Ok(Deletion::Absent)
    }
}

fn is_leaving(object: &CloudObject) -> bool {
    object.state == ObjectState::Deleting
}

/// What to ask for by id when confirming: what was on record or, failing that, what was found.
fn known(request: &IdentityRequest, view: &View) -> IdentityDetail {
    let first = |objects: &[CloudObject]| objects.first().map(|object| object.id.0.clone());
    let mut detail = request.detail.clone();
    detail.project = detail.project.or_else(|| first(&view.projects).map(ProviderProjectId));
    detail.user = detail.user.or_else(|| first(&view.users).map(ProviderUserId));
    detail
}
