//! Making and unmaking a principal: a project, a user in it, and what the user logs in with.
//!
//! ```text
//!   project ─▶ user ─▶ (let in? nothing to do) ─▶ roles ─▶ quotas ─▶ application credential ─▶ key pair ─▶ server group
//!      └────────┴── each noted in the ledger before the next is begun ──────────────┴──────────────┴────────────┘
//! ```
//!
//! Project and user are found by their names, which Keystone keeps unique, and failing that by the ids on record: what a
//! lost answer or the service before us left is adopted (B4). A secret cannot be read back. Without the record of one
//! the user gets a new password, which nobody keeps, and logs in with it to revoke the old credential and have another.
//!
//! Roles and quotas are set while nobody has logged in yet, and not again: what the cloud's own people change later is
//! theirs, until an operator resets the principal.
//!
//! Images outlive what they were made from, in the project that they were made in: while there are some, it stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openstack_sdk_block_storage::v3::quota_set::set as set_storage_quota;
use openstack_sdk_compute::v2::keypair::{create_210 as create_key, delete_20 as delete_key, get_20 as get_key};
use openstack_sdk_compute::v2::quota_set::set_257 as set_compute_quota;
use openstack_sdk_compute::v2::server_group::{
    create_264 as create_group, delete as delete_group, list_20 as list_groups,
};
use openstack_sdk_core::types::ServiceType;
use openstack_sdk_identity::v3::project::user::role::set as assign_role;
use openstack_sdk_identity::v3::project::{
    create as create_project, delete as delete_project, get as get_project, list as list_projects,
    tag::replace as replace_tags,
};
use openstack_sdk_identity::v3::role::list as list_roles;
use openstack_sdk_identity::v3::user::application_credential::{
    create as create_credential, delete as delete_credential, list as list_credentials,
};
use openstack_sdk_identity::v3::user::{
    create as create_user, delete as delete_user, get as get_user, list as list_users, set as set_user,
};
use openstack_sdk_network::v2::quota::set as set_network_quota;
use openstack_sdk_network::v2::security_group::{delete as delete_security_group, list as list_security_groups};
use serde::Deserialize;
use uuid::Uuid;

use super::asking::Ask;
use super::connection::Acting;
use super::names::{self, Claim};
use super::principals::{Access, Principal};
use super::session::{Removals, Session, at_most_one, flat, incomplete, on};
use super::shared_project::moved;
use super::transport::{Login, Proof, Reference, Scope, Secret};
use crate::model::identity::{Credential, IdentityDetail, KeyPair};
use crate::model::ids::{IdentityId, ProviderProjectId, ProviderServerGroupId, ProviderUserId};
use crate::model::openstack::{Isolation, ServerGroupPolicy};
use crate::model::record::Document;
use crate::providers::call::Fact;
use crate::providers::pool::Service;
use crate::providers::ssh_key_pair::SshKeyPair;
use crate::providers::{Deletion, IdentityRequest, Listed, Listing, Observed, ProviderError, ProviderResult, Sequence};

/// What the service account is in every principal's project.
pub(super) const STEWARD_ROLE: &str = "manager";

/// No limit: how much a tenant may have is decided here, and not by the cloud.
const UNLIMITED: i32 = -1;

/// How many projects are asked for at a time, and how often. More principals than that no region has.
const PROJECTS_MAX: usize = 1000;
const PROJECT_PAGES_MAX: usize = 1000;

/// Keystone takes every token as revoked that was issued up to the second in which a password changed: it is waited
/// until that second is over.
const REVOCATION_GRAIN: Duration = Duration::from_millis(1_100);

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ProjectBody {
    pub id: String,
    pub name: String,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct UserBody {
    id: String,
    name: String,
    #[serde(default)]
    description: Option<String>,
}

/// Something with an id and a name.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Named {
    pub id: String,
    pub name: String,
}

#[derive(Clone, Deserialize)]
struct ImageLine {
    #[serde(default)]
    owner: String,
}

#[derive(Clone, Debug, Deserialize)]
struct CredentialBody {
    id: String,
    secret: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct KeyBody {
    public_key: String,
}

/// What the cloud holds of a principal that can be told without being it.
struct View {
    sequence: Sequence,
    project: Option<ProjectBody>,
    user: Option<UserBody>,
}

/// The service account, as the cloud knows it.
struct Account {
    user: String,
    domain: String,
}

impl Session<'_> {
    pub async fn converge_identity(&self, request: &IdentityRequest) -> ProviderResult<Observed<IdentityDetail>> {
        if self.provider.settings.isolation == Isolation::Project {
            return self.converge_shared(request).await;
        }
        let mut detail = request.detail.clone();
        let account = self.account_of(request).await?;
        let view = self.look_at_identity(request, &account).await?;

        let project = self.converge_project(request, &account, view.project).await?;
        if detail.project.as_ref() != Some(&project) {
            // What was issued for another project is of no use in this one.
            detail = IdentityDetail { project: Some(project.clone()), credential: None, server_group: None, ..detail };
            self.note(&detail).await?;
        }
        let (user, password) = self.converge_user(request, &account, view.user).await?;
        if detail.user.as_ref() != Some(&user) {
            detail = IdentityDetail { user: Some(user.clone()), credential: None, ..detail };
            self.note(&detail).await?;
        }

        let principal = self.let_in(request, &account, password, &mut detail).await?;
        self.converge_key_pair(request, &principal, &mut detail).await?;
        self.converge_server_group(request, &principal, &mut detail).await?;
        Ok(Observed { sequence: view.sequence, fact: detail })
    }

    pub(super) async fn note(&self, detail: &IdentityDetail) -> ProviderResult<()> {
        Ok(self.context.ledger.note(Document::of(detail)).await?)
    }

    /// Who makes and unmakes a principal. One whose user is the account itself is none that was made.
    async fn account_of(&self, request: &IdentityRequest) -> ProviderResult<Account> {
        let grant = self.grant(&Acting::Manager).await?;
        let domain = grant.domain.ok_or(ProviderError::Unauthorized)?;
        if request.detail.user.as_ref().is_some_and(|user| user.0 == grant.user) {
            return Err(moved());
        }
        Ok(Account { user: grant.user, domain })
    }

    /// The sequence is that of the first read: all that is reported is at least as new.
    async fn look_at_identity(&self, request: &IdentityRequest, account: &Account) -> ProviderResult<View> {
        let name = names::principal(request.id);
        let (sequence, project) = self.look_at_project(request, account, &name).await?;
        let user = self.look_at_user(request, account, &name).await?;
        Ok(View { sequence, project, user })
    }

    async fn look_at_project(
        &self,
        request: &IdentityRequest,
        account: &Account,
        name: &str,
    ) -> ProviderResult<(Sequence, Option<ProjectBody>)> {
        // A record can be of another cloud than this one, as after a restore: the id alone proves nothing. Nor does
        // the name, if somebody else has taken it.
        let is_ours = |project: &ProjectBody| project.name == name && claim(project, request) != Claim::Another;
        let endpoint =
            list_projects::Request::builder().name(name.to_owned()).domain_id(account.domain.clone()).build();
        let operation = on(Service::Identity, "find-projects", name);
        let mut seen: Observed<Vec<ProjectBody>> = self.read(&Acting::Manager, operation, endpoint).await?;
        if let Some(id) = request.detail.project.as_ref().filter(|_| seen.fact.is_empty()) {
            let endpoint = get_project::Request::builder().id(id.0.clone()).build();
            let operation = on(Service::Identity, "get-project", id);
            seen.fact.extend(unless_forbidden(self.look(&Acting::Manager, operation, endpoint).await)?);
        }
        seen.fact.retain(is_ours);
        Ok((seen.sequence, at_most_one(seen.fact, "project")?))
    }

    async fn look_at_user(
        &self,
        request: &IdentityRequest,
        account: &Account,
        name: &str,
    ) -> ProviderResult<Option<UserBody>> {
        let is_ours = |user: &UserBody| {
            let marked = user.description.as_deref().and_then(names::incarnation_in);
            user.name == name && Claim::of(marked, request.incarnation) != Claim::Another
        };
        let endpoint = list_users::Request::builder().name(name.to_owned()).domain_id(account.domain.clone()).build();
        let operation = on(Service::Identity, "find-users", name);
        let mut users: Vec<UserBody> = self.read(&Acting::Manager, operation, endpoint).await?.fact;
        if let Some(id) = request.detail.user.as_ref().filter(|_| users.is_empty()) {
            let endpoint = get_user::Request::builder().id(id.0.clone()).build();
            let operation = on(Service::Identity, "get-user", id);
            users.extend(unless_forbidden(self.look(&Acting::Manager, operation, endpoint).await)?);
        }
        users.retain(is_ours);
        at_most_one(users, "user")
    }

    async fn converge_project(
        &self,
        request: &IdentityRequest,
        account: &Account,
        found: Option<ProjectBody>,
    ) -> ProviderResult<ProviderProjectId> {
        let name = names::principal(request.id);
        let tags = wanted_tags(request);
        let project = match found {
            None => {
                let project = create_project::ProjectBuilder::default()
                    .name(name.clone())
                    .domain_id(Some(account.domain.clone().into()))
                    .tags(tags.into_iter().map(Into::into).collect::<Vec<_>>())
                    .build();
                let endpoint = project.map(|project| create_project::Request::builder().project(project).build());
                let operation = on(Service::Identity, "create-project", &name);
                let made: ProjectBody = self.change(&Acting::Manager, operation, flat(endpoint)).await?;
                made
            }
            Some(project) => {
                if let Some(tags) = missing_tags(&project.tags, &tags) {
                    let endpoint = replace_tags::Request::builder()
                        .project_id(project.id.clone())
                        .tags(tags.into_iter().map(Into::into).collect::<Vec<_>>())
                        .build();
                    self.order(&Acting::Manager, on(Service::Identity, "tag-project", &project.id), endpoint).await?;
                }
                project
            }
        };
        Ok(ProviderProjectId(project.id))
    }

    /// The user, and the password of one that was made just now.
    async fn converge_user(
        &self,
        request: &IdentityRequest,
        account: &Account,
        found: Option<UserBody>,
    ) -> ProviderResult<(ProviderUserId, Option<Secret>)> {
        if let Some(user) = found {
            return Ok((ProviderUserId(user.id), None));
        }
        let (name, password) = (names::principal(request.id), new_password()?);
        let options = create_user::OptionsBuilder::default()
            .ignore_change_password_upon_first_use(true)
            .ignore_password_expiry(true)
            .build()
            .map_err(incomplete)?;
        let user = create_user::UserBuilder::default()
            .name(name.clone())
            .domain_id(account.domain.clone())
            .description(Some(names::mark(request.incarnation).into()))
            .password(Some(password.reveal().to_owned().into()))
            .options(options)
            .build();
        let endpoint = flat(user.map(|user| create_user::Request::builder().user(user).build()));
        let made: Named = self.change(&Acting::Manager, on(Service::Identity, "create-user", &name), endpoint).await?;
        Ok((ProviderUserId(made.id), Some(password)))
    }

    /// The principal, once it and the service account are let into the project.
    async fn let_in(
        &self,
        request: &IdentityRequest,
        account: &Account,
        password: Option<Secret>,
        detail: &mut IdentityDetail,
    ) -> ProviderResult<Arc<Principal>> {
        let (Some(project), Some(user)) = (detail.project.clone(), detail.user.clone()) else {
            return Err(ProviderError::Inconsistent("a part that should have been made is not known".to_owned()));
        };
        let steward = Acting::Steward(project.clone());
        let is_reset = request.resets > detail.resets;
        if !is_reset && let Some(principal) = self.is_inside(request, &steward, detail).await? {
            return Ok(principal);
        }
        let roles = self.roles().await?;
        self.assign(&roles, &project, &ProviderUserId(account.user.clone()), [STEWARD_ROLE]).await?;
        self.lift_quotas(&steward, &project).await?;
        let cluster_roles = &self.provider.settings.identity.cluster_roles;
        self.assign(&roles, &project, &user, cluster_roles.iter().map(String::as_str)).await?;
        if is_reset {
            detail.resets = request.resets;
            self.note(detail).await?;
            if let Some(principal) = self.is_inside(request, &steward, detail).await? {
                return Ok(principal);
            }
        }
        let acting = self.acting_as_user(&project, &user, password).await?;
        let credential = self.reissue_credential(request, &acting, &user).await?;
        let secret = Secret::new(credential.secret);
        let sealed = self.context.ledger.seal(secret.reveal())?;
        detail.credential = Some(Credential { id: credential.id.clone(), secret: sealed });
        self.note(detail).await?;
        let (access, server_group) = (Access::Credential { id: credential.id, secret }, detail.server_group.clone());
        Ok(Arc::new(Principal { project, user, access, server_group }))
    }

    /// The principal, if both it and the service account can log in.
    async fn is_inside(
        &self,
        request: &IdentityRequest,
        steward: &Acting,
        detail: &IdentityDetail,
    ) -> ProviderResult<Option<Arc<Principal>>> {
        if detail.credential.is_none() || !self.is_let_in(steward).await? {
            return Ok(None);
        }
        match self.principal(request.id).await {
            Ok(principal) => {
                let is_let_in = self.is_let_in(&Acting::Principal(Arc::clone(&principal))).await?;
                Ok(is_let_in.then_some(principal))
            }
            Err(ProviderError::PrincipalMissing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn roles(&self) -> ProviderResult<BTreeMap<String, String>> {
        let endpoint = list_roles::Request::builder().build();
        let listed: Vec<Named> =
            self.read(&Acting::Manager, on(Service::Identity, "list-roles", ""), endpoint).await?.fact;
        Ok(listed.into_iter().map(|role| (role.name, role.id)).collect())
    }

    pub(super) async fn assign(
        &self,
        roles: &BTreeMap<String, String>,
        project: &ProviderProjectId,
        user: &ProviderUserId,
        wanted: impl IntoIterator<Item = &str>,
    ) -> ProviderResult<()> {
        for name in wanted {
            let missing = || ProviderError::Rejected(format!("the cloud has no role {name}"));
            let role = roles.get(name).ok_or_else(missing)?;
            let endpoint = assign_role::Request::builder()
                .project_id(project.0.clone())
                .user_id(user.0.clone())
                .id(role.clone())
                .build();
            let operation = on(Service::Identity, "assign-role", format!("{name} of {user} in {project}"));
            self.order(&Acting::Manager, operation, endpoint).await?;
        }
        Ok(())
    }

    async fn lift_quotas(&self, steward: &Acting, project: &ProviderProjectId) -> ProviderResult<()> {
        self.lift_compute_quota(steward, project).await?;
        self.lift_network_quota(steward, project).await?;
        self.lift_storage_quota(steward, project).await
    }

    pub(super) async fn lift_compute_quota(&self, steward: &Acting, project: &ProviderProjectId) -> ProviderResult<()> {
        let quota = set_compute_quota::QuotaSetBuilder::default()
            .instances(UNLIMITED)
            .cores(UNLIMITED)
            .ram(UNLIMITED)
            .key_pairs(UNLIMITED)
            .metadata_items(UNLIMITED)
            .server_groups(UNLIMITED)
            .server_group_members(UNLIMITED)
            .build();
        let request = |quota| set_compute_quota::Request::builder().id(project.0.clone()).quota_set(quota).build();
        self.order(steward, on(Service::Compute, "set-quotas", project), flat(quota.map(request))).await
    }

    pub(super) async fn lift_network_quota(&self, steward: &Acting, project: &ProviderProjectId) -> ProviderResult<()> {
        let quota = set_network_quota::QuotaBuilder::default()
            .network(UNLIMITED)
            .subnet(UNLIMITED)
            .port(UNLIMITED)
            .router(UNLIMITED)
            .floatingip(UNLIMITED)
            .security_group(UNLIMITED)
            .security_group_rule(UNLIMITED)
            .rbac_policy(UNLIMITED)
            .subnetpool(UNLIMITED)
            .build();
        let request = |quota| set_network_quota::Request::builder().id(project.0.clone()).quota(quota).build();
        self.order(steward, on(Service::Network, "set-quotas", project), flat(quota.map(request))).await
    }

    pub(super) async fn lift_storage_quota(&self, steward: &Acting, project: &ProviderProjectId) -> ProviderResult<()> {
        let storage =
            ["volumes", "gigabytes", "snapshots", "backups", "backup_gigabytes", "per_volume_gigabytes", "groups"];
        let quota = storage.into_iter().map(|name| (name, serde_json::json!(UNLIMITED)));
        let endpoint = set_storage_quota::Request::builder().project_id(project.0.clone()).quota_set(quota).build();
        self.order(steward, on(Service::BlockStorage, "set-quotas", project), endpoint).await
    }

    /// Acting as the user by its password: the one it was made with, or a new one that nobody else ever knows.
    async fn acting_as_user(
        &self,
        project: &ProviderProjectId,
        user: &ProviderUserId,
        password: Option<Secret>,
    ) -> ProviderResult<Acting> {
        let password = match password {
            Some(password) => password,
            None => self.reset_password(user).await?,
        };
        let proof = Proof::Password { user: Reference::Id(user.0.clone()), password };
        Ok(Acting::User(Arc::new(Login { proof, scope: Scope::project(project) })))
    }

    async fn reset_password(&self, user: &ProviderUserId) -> ProviderResult<Secret> {
        let password = new_password()?;
        let body = set_user::UserBuilder::default().password(Some(password.reveal().to_owned().into())).build();
        let endpoint = flat(body.map(|body| set_user::Request::builder().id(user.0.clone()).user(body).build()));
        self.order(&Acting::Manager, on(Service::Identity, "reset-password", user), endpoint).await?;
        tokio::select! {
            biased;
            () = self.context.cancelled.cancelled() => Err(ProviderError::Cancelled),
            () = tokio::time::sleep(REVOCATION_GRAIN) => Ok(password),
        }
    }

    /// What stands under our name is revoked first: its secret was in an answer that is lost.
    async fn reissue_credential(
        &self,
        request: &IdentityRequest,
        acting: &Acting,
        user: &ProviderUserId,
    ) -> ProviderResult<CredentialBody> {
        let name = names::principal(request.id);
        let endpoint = list_credentials::Request::builder().user_id(user.0.clone()).name(name.clone()).build();
        let listed: Vec<Named> =
            self.read(acting, on(Service::Identity, "find-credentials", &name), endpoint).await?.fact;
        for old in listed.into_iter().filter(|credential| credential.name == name) {
            let endpoint = delete_credential::Request::builder().user_id(user.0.clone()).id(old.id.clone()).build();
            self.take_away(acting, on(Service::Identity, "delete-credential", &old.id), endpoint).await?;
        }
        let role = |name: &String| create_credential::RolesBuilder::default().name(name.clone()).build();
        let roles = self.provider.settings.identity.cluster_roles.iter().map(role).collect::<Result<Vec<_>, _>>();
        let body = create_credential::ApplicationCredentialBuilder::default()
            .name(name.clone())
            .description(Some(names::CREDENTIAL_DESCRIPTION.into()))
            .roles(roles.map_err(incomplete)?)
            .build();
        let request =
            |body| create_credential::Request::builder().user_id(user.0.clone()).application_credential(body).build();
        let made =
            self.change(acting, on(Service::Identity, "create-credential", &name), flat(body.map(request))).await;
        // Keystone remembers who has which role for a moment, and refuses roles that were given just now.
        made.map_err(|error| match error {
            ProviderError::Rejected(reason) => ProviderError::Conflict(reason),
            error => error,
        })
    }

    /// A key that is registered and is not the one on record is somebody else's, or one whose record was lost: nobody
    /// is to get in with it.
    pub(super) async fn converge_key_pair(
        &self,
        request: &IdentityRequest,
        principal: &Arc<Principal>,
        detail: &mut IdentityDetail,
    ) -> ProviderResult<()> {
        if detail.key_pair.is_none() {
            let unavailable = |_| ProviderError::Unavailable("no randomness for a key".to_owned());
            let SshKeyPair { public_key, private_key } =
                SshKeyPair::generate(&names::principal(request.id)).map_err(unavailable)?;
            let private_key = self.context.ledger.seal(&private_key)?;
            detail.key_pair = Some(KeyPair { public_key, private_key });
            self.note(detail).await?;
        }
        let wanted = detail.key_pair.as_ref().map(|pair| pair.public_key.clone()).unwrap_or_default();
        let acting = Acting::Principal(Arc::clone(principal));
        let registered = self.look_at_key_pair(&acting, request.id, principal).await?;
        if registered.as_ref().is_some_and(|key| is_same_key(&key.public_key, &wanted)) {
            return Ok(());
        }
        if registered.is_some() {
            self.take_key_pair_away(&acting, request.id, principal).await?;
        }
        let body = create_key::KeypairBuilder::default()
            .name(self.key_pair_name(request.id))
            .public_key(wanted)
            ._type(create_key::Type::Ssh)
            .build();
        let endpoint = flat(body.map(|body| create_key::Request::builder().keypair(body).build()));
        self.order(&acting, on(Service::Compute, "create-key-pair", &principal.user), endpoint).await
    }

    /// A user of its own has one key pair; where all share one, each has the principal's id behind it.
    pub(super) fn key_pair_name(&self, id: IdentityId) -> String {
        match self.provider.settings.isolation {
            Isolation::Principal => names::KEY_PAIR.to_owned(),
            Isolation::Project => names::shared_key_pair(id),
        }
    }

    pub(super) async fn look_at_key_pair(
        &self,
        acting: &Acting,
        id: IdentityId,
        principal: &Principal,
    ) -> ProviderResult<Option<KeyBody>> {
        let name = self.key_pair_name(id);
        let operation = on(Service::Compute, "get-key-pair", format!("{name} of {}", principal.user));
        let seen = self.look(acting, operation, get_key::Request::builder().id(name).build()).await?;
        Ok(seen.map(|seen| seen.fact))
    }

    pub(super) async fn take_key_pair_away(
        &self,
        acting: &Acting,
        id: IdentityId,
        principal: &Principal,
    ) -> ProviderResult<()> {
        let endpoint = delete_key::Request::builder().id(self.key_pair_name(id)).build();
        self.take_away(acting, on(Service::Compute, "delete-key-pair", &principal.user), endpoint).await
    }

    pub(super) async fn converge_server_group(
        &self,
        request: &IdentityRequest,
        principal: &Arc<Principal>,
        detail: &mut IdentityDetail,
    ) -> ProviderResult<()> {
        let acting = Acting::Principal(Arc::clone(principal));
        let found = self.server_groups(&acting, request, &principal.project).await?;
        let recorded = detail.server_group.as_ref().filter(|id| found.iter().any(|group| group.id == id.0));
        if recorded.is_some() {
            return Ok(());
        }
        let name = names::principal(request.id);
        let mut found = found.into_iter();
        let group = if let Some(group) = found.next() {
            for double in found {
                self.take_server_group_away(&acting, &double).await?;
            }
            group
        } else {
            let body = create_group::ServerGroupBuilder::default()
                .name(name.clone())
                .policy(policy(self.provider.settings.compute.server_group_policy))
                .build();
            let endpoint = flat(body.map(|body| create_group::Request::builder().server_group(body).build()));
            self.change(&acting, on(Service::Compute, "create-server-group", &name), endpoint).await?
        };
        detail.server_group = Some(ProviderServerGroupId(group.id));
        self.note(detail).await
    }

    pub(super) async fn take_server_group_away(&self, acting: &Acting, group: &Named) -> ProviderResult<()> {
        let endpoint = delete_group::Request::builder().id(group.id.clone()).build();
        self.take_away(acting, on(Service::Compute, "delete-server-group", &group.id), endpoint).await
    }

    /// In order, so that each pass finds the same one first.
    pub(super) async fn server_groups(
        &self,
        acting: &Acting,
        request: &IdentityRequest,
        project: &ProviderProjectId,
    ) -> ProviderResult<Vec<Named>> {
        let endpoint = list_groups::Request::builder().build();
        let operation = on(Service::Compute, "list-server-groups", project);
        let mut groups: Vec<Named> = self.read(acting, operation, endpoint).await?.fact;
        groups.retain(|group| group.name == names::principal(request.id));
        groups.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(groups)
    }

    /// All projects of the domain. Keystone shows a thousand at a time, and says nothing of the others; an older one shows
    /// the same ones again.
    pub(super) async fn projects_of_domain(&self) -> ProviderResult<Observed<Vec<ProjectBody>>> {
        let domain = self.grant(&Acting::Manager).await?.domain.ok_or(ProviderError::Unauthorized)?;
        let mut all = Observed { sequence: Sequence::default(), fact: Vec::<ProjectBody>::new() };
        for page in 0..PROJECT_PAGES_MAX {
            let mut ask = Ask::get(ServiceType::Identity, "projects".to_owned()).with("domain_id", &domain);
            ask = ask.with("limit", PROJECTS_MAX.to_string());
            let marker = all.fact.last().map(|last| last.id.clone()).unwrap_or_default();
            if page > 0 {
                ask = ask.with("marker", &marker);
            }
            let operation = on(Service::Identity, "list-projects", marker);
            let ask = ask.within("projects").build();
            let seen: Observed<Vec<ProjectBody>> = self.read_alone(&Acting::Manager, operation, ask).await?;
            if page == 0 {
                all.sequence = seen.sequence;
            }
            let known = all.fact.iter().map(|project| project.id.clone()).collect::<BTreeSet<_>>();
            let is_full = seen.fact.len() >= PROJECTS_MAX;
            all.fact.extend(seen.fact.into_iter().filter(|project| !known.contains(&project.id)));
            if !is_full || all.fact.len() == known.len() {
                return Ok(all);
            }
        }
        Err(ProviderError::Inconsistent("a list that does not end".to_owned()))
    }

    /// The projects of the domain that carry one of our names. What carries no mark is not ours yet.
    pub async fn list_identities(&self, only: Option<&[Uuid]>) -> ProviderResult<Observed<Listing<Listed>>> {
        if self.provider.settings.isolation == Isolation::Project {
            return Err(ProviderError::Unsupported("lists of principals that share a project"));
        }
        let seen = self.projects_of_domain().await?;
        let is_asked_for = |listed: &Listed| only.is_none_or(|only| only.contains(&listed.key.id));
        let items = seen.fact.iter().filter_map(|project| listed(project, seen.sequence)).filter(is_asked_for);
        let fact = Listing { items: items.collect(), next: None, unsure: Vec::new() };
        Ok(Observed { sequence: seen.sequence, fact })
    }

    /// Takes away everything, each part whether or not the others are there, whatever is on record (B3).
    pub async fn delete_identity(&self, request: &IdentityRequest) -> ProviderResult<Deletion> {
        if self.provider.settings.isolation == Isolation::Project {
            return self.delete_shared(request).await;
        }
        let account = self.account_of(request).await?;
        let view = self.look_at_identity(request, &account).await?;
        if view.project.is_none() && view.user.is_none() {
            return Ok(Deletion::Absent);
        }
        let mut removals = Removals::default();
        if let Some(project) = view.project.as_ref().map(|project| ProviderProjectId(project.id.clone())) {
            self.refuse_if_images_are_left(&project).await?;
            if let Some(user) = view.user.as_ref().map(|user| ProviderUserId(user.id.clone())) {
                removals.add(self.forget_key_pair(request, &account, &project, user).await)?;
            }
            self.clear_project(request, &project, &mut removals).await?;
        }
        if let Some(user) = &view.user {
            let endpoint = delete_user::Request::builder().id(user.id.clone()).build();
            let operation = on(Service::Identity, "delete-user", &user.id);
            removals.add(self.take_away(&Acting::Manager, operation, endpoint).await)?;
        }
        if let Some(project) = &view.project {
            let endpoint = delete_project::Request::builder().id(project.id.clone()).build();
            let operation = on(Service::Identity, "delete-project", &project.id);
            removals.add(self.take_away(&Acting::Manager, operation, endpoint).await)?;
        }
        removals.end()?;
        let left = self.look_at_identity(request, &account).await?;
        Ok(if left.project.is_none() && left.user.is_none() { Deletion::Absent } else { Deletion::Underway })
    }

    /// Glance does not hear of a project's end: its images would be left to nobody, and nobody could take them away.
    async fn refuse_if_images_are_left(&self, project: &ProviderProjectId) -> ProviderResult<()> {
        let steward = Acting::Steward(project.clone());
        if !self.is_let_in(&steward).await? {
            return Ok(());
        }
        let ask = Ask::get(ServiceType::Image, "images".to_owned()).with("owner", project.0.clone());
        let operation = on(Service::Image, "find-images-of-project", project);
        let images: Vec<ImageLine> = self.read(&steward, operation, ask.within("images").build()).await?.fact;
        match images.iter().filter(|image| image.owner == project.0).count() {
            0 => Ok(()),
            count => Err(ProviderError::Conflict(format!("the principal's project still owns {count} images"))),
        }
    }

    /// Key pairs outlive their user, and only the user can take them away: so it is let in once more if need be. One
    /// that never had anything on record never had a key.
    async fn forget_key_pair(
        &self,
        request: &IdentityRequest,
        account: &Account,
        project: &ProviderProjectId,
        user: ProviderUserId,
    ) -> ProviderResult<()> {
        if request.detail.credential.is_none() && request.detail.key_pair.is_none() {
            return Ok(());
        }
        let principal = match self.principal(request.id).await {
            Ok(principal) if self.is_let_in(&Acting::Principal(Arc::clone(&principal))).await? => principal,
            Ok(_) | Err(ProviderError::PrincipalMissing) => {
                let mut detail = IdentityDetail {
                    project: Some(project.clone()),
                    user: Some(user),
                    credential: None,
                    ..request.detail.clone()
                };
                self.let_in(request, account, None, &mut detail).await?
            }
            Err(error) => return Err(error),
        };
        let acting = Acting::Principal(Arc::clone(&principal));
        if self.look_at_key_pair(&acting, request.id, &principal).await?.is_none() {
            return Ok(());
        }
        self.take_key_pair_away(&acting, request.id, &principal).await
    }

    /// What a project leaves behind in other services, which do not hear of its end.
    async fn clear_project(
        &self,
        request: &IdentityRequest,
        project: &ProviderProjectId,
        removals: &mut Removals,
    ) -> ProviderResult<()> {
        let steward = Acting::Steward(project.clone());
        // Nobody was ever let in, so nobody left anything.
        if !self.is_let_in(&steward).await? {
            return Ok(());
        }
        for group in self.server_groups(&steward, request, project).await? {
            removals.add(self.take_server_group_away(&steward, &group).await)?;
        }
        let endpoint = list_security_groups::Request::builder().name("default").tenant_id(project.0.clone()).build();
        let operation = on(Service::Network, "find-default-group", project);
        let groups: Vec<Named> = self.read(&steward, operation, endpoint).await?.fact;
        for group in groups.into_iter().filter(|group| group.name == "default") {
            let endpoint = delete_security_group::Request::builder().id(group.id.clone()).build();
            let operation = on(Service::Network, "delete-default-group", &group.id);
            match self.take_away(&steward, operation, endpoint).await {
                // Neutron makes one for every project, and lets only its own administrators take it away.
                Err(ProviderError::Conflict(_) | ProviderError::Unauthorized) => {
                    tracing::debug!(%project, "the project's default security group is left to the cloud");
                }
                other => other?,
            }
        }
        Ok(())
    }
}

/// Keystone does not tell the manager of a domain that something is not there: it forbids to look. The list by name, which
/// comes first, has shown by then that looking is allowed.
fn unless_forbidden<T>(seen: ProviderResult<Option<Observed<T>>>) -> ProviderResult<Option<T>> {
    match seen {
        Ok(seen) => Ok(seen.map(|seen| seen.fact)),
        Err(ProviderError::Unauthorized) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A list shows of a principal only where it is.
fn listed(project: &ProjectBody, sequence: Sequence) -> Option<Listed> {
    let id = names::id_in(&project.name, names::PRINCIPAL_PREFIX)?;
    let incarnation = project.tags.iter().find_map(|tag| names::incarnation_in(tag))?;
    let detail = IdentityDetail { project: Some(ProviderProjectId(project.id.clone())), ..IdentityDetail::default() };
    let fact = Fact::Identity(Observed { sequence, fact: detail });
    Some(Listed { key: IdentityId(id).key(), incarnation, fingerprint: 0, fact })
}

fn claim(project: &ProjectBody, request: &IdentityRequest) -> Claim {
    Claim::of(project.tags.iter().find_map(|tag| names::incarnation_in(tag)), request.incarnation)
}

fn wanted_tags(request: &IdentityRequest) -> Vec<String> {
    let [organization, project] = names::project_tags(request.organization, request.project);
    vec![organization, project, names::mark(request.incarnation)]
}

/// All tags, where some of ours are missing. Those of others stay.
fn missing_tags(there: &[String], wanted: &[String]) -> Option<Vec<String>> {
    if wanted.iter().all(|tag| there.contains(tag)) {
        return None;
    }
    let others = there.iter().filter(|tag| !wanted.contains(tag));
    Some(others.chain(wanted).cloned().collect())
}

/// The comment behind a key may be anything.
fn is_same_key(one: &str, other: &str) -> bool {
    let parts = |key: &str| key.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
    parts(one) == parts(other)
}

/// Hard to guess, and with something of everything that a cloud may ask of passwords.
fn new_password() -> ProviderResult<Secret> {
    let mut bytes = [0_u8; 24];
    let unavailable = |_| ProviderError::Unavailable("no randomness for a password".to_owned());
    aws_lc_rs::rand::fill(&mut bytes).map_err(unavailable)?;
    let text = bytes.iter().fold(String::from("Rg1!"), |text, byte| format!("{text}{byte:02x}"));
    Ok(Secret::new(text))
}

const fn policy(policy: ServerGroupPolicy) -> create_group::Policy {
    match policy {
        ServerGroupPolicy::Affinity => create_group::Policy::Affinity,
        ServerGroupPolicy::AntiAffinity => create_group::Policy::AntiAffinity,
        ServerGroupPolicy::SoftAffinity => create_group::Policy::SoftAffinity,
        ServerGroupPolicy::SoftAntiAffinity => create_group::Policy::SoftAntiAffinity,
    }
}
