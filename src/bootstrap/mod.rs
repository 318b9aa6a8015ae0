//! The first start: from an empty folder to something that can be used, in one commit.
//!
//! ```text
//!   empty store           → commit organization, project, user, region, quota, tokens → write bootstrap.json
//!   bootstrapped, no file → commit new tokens in place of the old                     → write bootstrap.json
//!   bootstrapped, file    → nothing, but the addresses in it are kept true
//!   somebody else's store → nothing
//! ```
//!
//! A token is shown once, so a crash after the commit and before the file has lost it; the second line is for that.
//! It also means that the bootstrap token is whatever the file says: one that is to last is made with
//! `regent token new`.

pub mod envelope_key;
pub mod files;
pub mod token_requests;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::identity::catalogue::{ROLES, Role as CatalogueRole};
use crate::identity::secret::NoRandomness;
pub use crate::identity::secret::random_secret;
use crate::model::ambient::Ambient;
use crate::model::ids::{GroupId, Incarnation, Key, Kind, OrganizationId, ProjectId, RegionId, TokenId, UserId};
use crate::model::member::{Group, GroupSpec, User, UserSpec, UserState};
use crate::model::metadata::{Metadata, Placement};
use crate::model::organization::{Organization, OrganizationSpec, Project, ProjectSpec};
use crate::model::quota::QuotaKind;
use crate::model::record::{Record, ResourceKind};
use crate::model::region::{ProviderNetworks, ProviderSettings, Region, RegionSpec, SimulatedSettings};
use crate::model::token::{BearerToken, Role, Token};
use crate::store::{Batch, Filter, Page, Store, StoreError, Write};

/// What everything that the first start makes is called.
pub const NAME: &str = "default";
/// What the first start's token is called, so that it can be found and replaced.
pub const TOKEN_NAME: &str = "bootstrap";
pub const REGION_NAME: &str = "simulated";
/// Who is said to have made what nobody asked for over the API.
pub const CREATOR: &str = "regent";
const PHYSICAL_NETWORK: &str = "physnet1";
const FILE_NAME: &str = "bootstrap.json";

/// What the first start's user, its group and its token are called.
pub const USER_NAME: &str = "user";
pub const USER_TOKEN_NAME: &str = "bootstrap-user";

/// Ample: the first organization is for trying things out, and what is simulated costs nothing. It is still a limit, so
/// that a runaway script is stopped before the disk is full.
pub const COUNT_LIMIT: u64 = 100_000;
/// The same for file storage, in bytes: a pebibyte.
pub const BYTES_LIMIT: u64 = 1 << 50;
/// The same for volumes, in gibibytes: a pebibyte.
pub const GIBIBYTES_LIMIT: u64 = 1 << 20;

/// How much of each kind the first organization may use.
#[must_use]
pub const fn first_limit(kind: QuotaKind) -> u64 {
    match kind {
        QuotaKind::FileStorage => BYTES_LIMIT,
        QuotaKind::Volume => GIBIBYTES_LIMIT,
        _ => COUNT_LIMIT,
    }
}

/// What the first start leaves for whoever comes next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapFile {
    pub organization_id: OrganizationId,
    pub project_id: ProjectId,
    /// Absent when every configured region is private or withdrawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region_id: Option<RegionId>,
    /// A platform administrator's.
    pub token: String,
    /// A project user's. Absent when that user is no longer there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_token: Option<String>,
    pub api_url: String,
    pub admin_url: String,
}

/// Where it is.
#[must_use]
pub fn path(directory: &Path) -> PathBuf {
    directory.join(FILE_NAME)
}

/// Where the listeners can be reached.
#[derive(Clone, Debug)]
pub struct Urls {
    pub api: String,
    pub admin: String,
}

#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error("the store could not be prepared")]
    Store(#[from] StoreError),
    #[error("{path} could not be written")]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path} is not a bootstrap file: remove it to have it made again")]
    Unreadable { path: PathBuf, source: serde_json::Error },
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// What a start found to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A file was written, with a token that nobody has seen yet.
    Issued(BootstrapFile),
    Unchanged,
}

/// Leaves `directory` and the store in a state in which somebody can begin.
pub async fn bootstrap(
    store: &dyn Store,
    ambient: &Ambient,
    directory: &Path,
    urls: &Urls,
) -> Result<Outcome, BootstrapError> {
    let path = path(directory);
    let at = |source| BootstrapError::File { path: path.clone(), source };
    if let Some(text) = files::read_if_present(&path).map_err(at)? {
        let file: BootstrapFile = serde_json::from_slice(&text)
            .map_err(|source| BootstrapError::Unreadable { path: path.clone(), source })?;
        let current = BootstrapFile { api_url: urls.api.clone(), admin_url: urls.admin.clone(), ..file.clone() };
        if current != file {
            write(&path, &current)?;
        }
        // The file of another store, as when only it was kept, says nothing about this one: it is made again.
        if !store.list(&Filter::of(Kind::Organization), Page { after: None, limit: 1 }).await?.is_empty() {
            return Ok(Outcome::Unchanged);
        }
    }
    let found = Found::look(store).await?;
    let new_token = || Ok::<_, NoRandomness>(BearerToken::new(TokenId(ambient.uuid()), &random_secret()?));
    let (token, user_token) = (new_token()?, new_token()?);
    let Some(plan) = plan(&found, &token, &user_token, ambient) else { return Ok(Outcome::Unchanged) };
    store.commit(plan.batch).await?;
    let file = BootstrapFile {
        organization_id: plan.organization,
        project_id: plan.project,
        region_id: plan.region,
        token: token.reveal(),
        user_token: plan.user.map(|_| user_token.reveal()),
        api_url: urls.api.clone(),
        admin_url: urls.admin.clone(),
    };
    write(&path, &file)?;
    Ok(Outcome::Issued(file))
}

fn write(path: &Path, file: &BootstrapFile) -> Result<(), BootstrapError> {
    let text = serde_json::to_vec_pretty(file).expect("strings and ids always serialize");
    files::replace_private(path, &text).map_err(|source| BootstrapError::File { path: path.to_owned(), source })
}

/// What of a first start is there already.
#[derive(Debug, Default)]
struct Found {
    any_organization: bool,
    any_region: bool,
    organization: Option<OrganizationId>,
    project: Option<ProjectId>,
    region: Option<RegionId>,
    user: Option<UserId>,
    tokens: Vec<(Key, Incarnation)>,
}

impl Found {
    async fn look(store: &dyn Store) -> Result<Self, StoreError> {
        let named = |kind, name: &str| Filter { name: Some(name.to_owned()), ..Filter::of(kind) };
        // Names are anybody's: what somebody else has called alike is theirs.
        let first = |records: &[std::sync::Arc<Record>]| {
            records.iter().find(|record| record.metadata.creator == CREATOR).map(|record| record.key.id)
        };
        let any = store.list(&Filter::of(Kind::Organization), Page { after: None, limit: 1 }).await?;
        let organizations = store.list(&named(Kind::Organization, NAME), Page::FIRST).await?;
        let organization = first(&organizations).map(OrganizationId);
        let within = Filter { organizations: organization.map(|id| vec![id]), ..named(Kind::Project, NAME) };
        let projects = store.list(&within, Page::FIRST).await?;
        let regions = store.list(&Filter::of(Kind::Region), Page::FIRST).await?;
        let usable = |record: &&std::sync::Arc<Record>| {
            record.open::<Region>().is_ok_and(|region| !region.spec.withdrawn && region.spec.organizations.is_none())
        };
        let user = organization.map(|organization| UserId::of(organization, USER_NAME));
        let mut tokens = Vec::new();
        for (name, owner) in [(TOKEN_NAME, None), (USER_TOKEN_NAME, user.map(UserId::key))] {
            let alike = store.list(&named(Kind::Token, name), Page::FIRST).await?;
            tokens.extend(alike.into_iter().filter(|record| record.metadata.owner == owner));
        }
        let user_is_there = match user {
            Some(user) => store.get(user.key()).await?.is_some_and(|record| !record.metadata.is_deleting()),
            None => false,
        };
        Ok(Self {
            any_organization: !any.is_empty(),
            any_region: !regions.is_empty(),
            organization,
            project: first(&projects).map(ProjectId),
            region: regions.iter().find(usable).map(|record| RegionId(record.key.id)),
            user: user.filter(|_| user_is_there),
            tokens: tokens.iter().map(|record| (record.key, record.metadata.incarnation)).collect(),
        })
    }
}

struct Plan {
    organization: OrganizationId,
    project: ProjectId,
    region: Option<RegionId>,
    user: Option<UserId>,
    batch: Batch,
}

/// What to commit; `None` when the store belongs to somebody who began in another way.
fn plan(found: &Found, token: &BearerToken, user_token: &BearerToken, ambient: &Ambient) -> Option<Plan> {
    let now = ambient.now();
    let mut maker = Maker { ambient, now, writes: Vec::new() };
    let (organization, project, region, user) = match (found.any_organization, found.organization, found.project) {
        (_, Some(organization), Some(project)) => {
            for (key, incarnation) in &found.tokens {
                maker.writes.push(Write::Remove { key: *key, incarnation: *incarnation });
            }
            (organization, project, found.region, found.user)
        }
        (false, ..) => {
            let (organization, project, user) = maker.tenant();
            // A configuration that has regions is the operator's word, also when none of them is for everybody.
            let region = if found.any_region { found.region } else { Some(maker.simulated_region()) };
            (organization, project, region, Some(user))
        }
        (true, ..) => return None,
    };
    let spec = token.spec(TOKEN_NAME, Role::PlatformAdministrator, None);
    maker.insert::<Token>(token.id.0, TOKEN_NAME, Placement::default(), None, &spec);
    if let Some(user) = user {
        let placement = Placement { organization: Some(organization), ..Placement::default() };
        let spec = user_token.spec(USER_NAME, user, None);
        maker.insert::<Token>(user_token.id.0, USER_TOKEN_NAME, placement, Some(user.key()), &spec);
    }
    Some(Plan { organization, project, region, user, batch: Batch::of(maker.writes) })
}

struct Maker<'a> {
    ambient: &'a Ambient,
    now: Timestamp,
    writes: Vec<Write>,
}

impl Maker<'_> {
    fn insert<K: ResourceKind>(
        &mut self,
        id: Uuid,
        name: &str,
        placement: Placement,
        owner: Option<Key>,
        spec: &K::Spec,
    ) {
        let new = Metadata::new(Incarnation(self.ambient.uuid()), name, placement, CREATOR, self.now);
        let metadata = Metadata { owner, ..new };
        self.writes.push(Write::Insert(Box::new(Record::new::<K>(id, metadata, spec))));
    }

    /// An organization with one project, and one user who may use it.
    fn tenant(&mut self) -> (OrganizationId, ProjectId, UserId) {
        let organization = OrganizationId(self.ambient.uuid());
        let (project, group) = (ProjectId(self.ambient.uuid()), GroupId(self.ambient.uuid()));
        let user = UserId::of(organization, USER_NAME);
        let placement = Placement { organization: Some(organization), ..Placement::default() };
        let owner = Some(organization.key());
        self.insert::<Organization>(organization.0, NAME, placement, None, &OrganizationSpec::default());
        let spec = UserSpec { subject: USER_NAME.to_owned(), state: UserState::Active };
        self.insert::<User>(user.0, USER_NAME, placement, owner, &spec);
        let roles = ROLES.iter().filter(|role| role.name == USER_NAME).map(CatalogueRole::id).collect();
        let spec = GroupSpec { roles, users: Some(vec![user]), ..GroupSpec::default() };
        self.insert::<Group>(group.0, USER_NAME, placement, owner, &spec);
        self.insert::<Project>(project.0, NAME, placement, owner, &ProjectSpec { groups: vec![group] });
        for kind in QuotaKind::ALL {
            self.writes.push(Write::Limit { organization, kind, limit: first_limit(kind) });
        }
        (organization, project, user)
    }

    fn simulated_region(&mut self) -> RegionId {
        let region = RegionId(self.ambient.uuid());
        let provider_networks =
            Some(ProviderNetworks { physical_network: PHYSICAL_NETWORK.to_owned(), vlan_segments: vec![] });
        let provider = ProviderSettings::Simulated(SimulatedSettings { provider_networks, ..Default::default() });
        let spec = RegionSpec { provider, organizations: None, withdrawn: false };
        self.insert::<Region>(region.0, REGION_NAME, Placement::default(), None, &spec);
        region
    }
}

/// What to type next, in lines that work when pasted.
#[must_use]
pub fn next_steps(file: &BootstrapFile, directory: &Path) -> String {
    let path = path(directory);
    let region = file.region_id.map(|id| id.to_string()).unwrap_or_default();
    let user = match file.user_token {
        Some(_) => "\nThe token above may do everything; userToken in that file is a plain user's of the project.\n",
        None => "",
    };
    format!(
        r#"Regent is ready. Its tokens and ids are in {path}; next, try:

  export TOKEN={token}
  curl -H "Authorization: Bearer $TOKEN" {api}/api/v1/organizations/{organization}/regions
  curl -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' {api}/api/v2/networks -d '{{"metadata": {{"name": "first"}}, "spec": {{"organizationId": "{organization}", "projectId": "{project}", "regionId": "{region}", "prefix": "10.0.0.0/22", "dnsNameservers": []}}}}'
  curl -H "Authorization: Bearer $TOKEN" {api}/api/v2/networks
  curl -H "Authorization: Bearer $TOKEN" {admin}/admin/v1/tree
{user}"#,
        path = path.display(),
        token = file.token,
        api = file.api_url,
        admin = file.admin_url,
        organization = file.organization_id,
        project = file.project_id,
    )
}
