//! The first start: from an empty folder to something that can be used, in one commit.
//!
//! ```text
//!   empty store           → commit organization, project, region, quota, token → write bootstrap.json
//!   bootstrapped, no file → commit a new token in place of the old             → write bootstrap.json
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

use crate::model::ambient::Ambient;
use crate::model::ids::{Incarnation, Key, Kind, OrganizationId, ProjectId, RegionId, TokenId};
use crate::model::metadata::{Metadata, Placement};
use crate::model::organization::{Organization, OrganizationSpec, Project, ProjectSpec, QuotaKind};
use crate::model::record::{Record, ResourceKind};
use crate::model::region::{ProviderNetworks, ProviderSettings, Region, RegionSpec, SimulatedSettings};
use crate::model::token::{BearerToken, Role, SECRET_LEN, Token};
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

/// Ample: the first organization is for trying things out, and a simulated network costs nothing. It is still a
/// limit, so that a runaway script is stopped before the disk is full.
pub const NETWORKS_LIMIT: u64 = 100_000;

/// What the first start leaves for whoever comes next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapFile {
    pub organization_id: OrganizationId,
    pub project_id: ProjectId,
    /// Absent when every configured region is private or withdrawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region_id: Option<RegionId>,
    pub token: String,
    pub api_url: String,
    pub admin_url: String,
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
    #[error("no random numbers are to be had")]
    NoRandomness,
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
    let path = directory.join(FILE_NAME);
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
    let secret = random_secret()?;
    let token = BearerToken::new(TokenId(ambient.uuid()), &secret);
    let Some(plan) = plan(&found, &token, ambient) else { return Ok(Outcome::Unchanged) };
    store.commit(plan.batch).await?;
    let file = BootstrapFile {
        organization_id: plan.organization,
        project_id: plan.project,
        region_id: plan.region,
        token: token.reveal(),
        api_url: urls.api.clone(),
        admin_url: urls.admin.clone(),
    };
    write(&path, &file)?;
    Ok(Outcome::Issued(file))
}

/// 256 bits that nobody can guess. Not from the Ambient: a secret that can be replayed from a seed is none.
pub fn random_secret() -> Result<[u8; SECRET_LEN], BootstrapError> {
    let mut secret = [0; SECRET_LEN];
    aws_lc_rs::rand::fill(&mut secret).map_err(|_| BootstrapError::NoRandomness)?;
    Ok(secret)
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
    tokens: Vec<(Key, Incarnation)>,
}

impl Found {
    async fn look(store: &dyn Store) -> Result<Self, StoreError> {
        let named = |kind, name: &str| Filter { name: Some(name.to_owned()), ..Filter::of(kind) };
        let first = |records: &[std::sync::Arc<Record>]| records.first().map(|record| record.key.id);
        let any = store.list(&Filter::of(Kind::Organization), Page { after: None, limit: 1 }).await?;
        let organizations = store.list(&named(Kind::Organization, NAME), Page::FIRST).await?;
        let organization = first(&organizations).map(OrganizationId);
        let within = Filter { organizations: organization.map(|id| vec![id]), ..named(Kind::Project, NAME) };
        let projects = store.list(&within, Page::FIRST).await?;
        let regions = store.list(&Filter::of(Kind::Region), Page::FIRST).await?;
        let usable = |record: &&std::sync::Arc<Record>| {
            record.open::<Region>().is_ok_and(|region| !region.spec.withdrawn && region.spec.organizations.is_none())
        };
        let tokens = store.list(&named(Kind::Token, TOKEN_NAME), Page::FIRST).await?;
        Ok(Self {
            any_organization: !any.is_empty(),
            any_region: !regions.is_empty(),
            organization,
            project: first(&projects).map(ProjectId),
            region: regions.iter().find(usable).map(|record| RegionId(record.key.id)),
            tokens: tokens.iter().map(|record| (record.key, record.metadata.incarnation)).collect(),
        })
    }
}

struct Plan {
    organization: OrganizationId,
    project: ProjectId,
    region: Option<RegionId>,
    batch: Batch,
}

/// What to commit; `None` when the store belongs to somebody who began in another way.
fn plan(found: &Found, token: &BearerToken, ambient: &Ambient) -> Option<Plan> {
    let now = ambient.now();
    let mut maker = Maker { ambient, now, writes: Vec::new() };
    let (organization, project, region) = match (found.any_organization, found.organization, found.project) {
        (_, Some(organization), Some(project)) => {
            for (key, incarnation) in &found.tokens {
                maker.writes.push(Write::Remove { key: *key, incarnation: *incarnation });
            }
            (organization, project, found.region)
        }
        (false, ..) => {
            let organization = OrganizationId(ambient.uuid());
            let project = ProjectId(ambient.uuid());
            maker.insert::<Organization>(organization.0, NAME, Placement::default(), &OrganizationSpec {});
            let placement = Placement { organization: Some(organization), ..Placement::default() };
            maker.insert::<Project>(project.0, NAME, placement, &ProjectSpec {});
            maker.writes.push(Write::Limit { organization, kind: QuotaKind::Networks, limit: NETWORKS_LIMIT });
            // A configuration that has regions is the operator's word, also when none of them is for everybody.
            let region = if found.any_region { found.region } else { Some(maker.simulated_region()) };
            (organization, project, region)
        }
        (true, ..) => return None,
    };
    let spec = token.spec(TOKEN_NAME, Role::PlatformAdministrator, None);
    maker.insert::<Token>(token.id.0, TOKEN_NAME, Placement::default(), &spec);
    Some(Plan { organization, project, region, batch: Batch::of(maker.writes) })
}

struct Maker<'a> {
    ambient: &'a Ambient,
    now: Timestamp,
    writes: Vec<Write>,
}

impl Maker<'_> {
    fn insert<K: ResourceKind>(&mut self, id: Uuid, name: &str, placement: Placement, spec: &K::Spec) {
        let metadata = Metadata::new(Incarnation(self.ambient.uuid()), name, placement, CREATOR, self.now);
        self.writes.push(Write::Insert(Box::new(Record::new::<K>(id, metadata, spec))));
    }

    fn simulated_region(&mut self) -> RegionId {
        let region = RegionId(self.ambient.uuid());
        let provider_networks =
            Some(ProviderNetworks { physical_network: PHYSICAL_NETWORK.to_owned(), vlan_segments: vec![] });
        let provider = ProviderSettings::Simulated(SimulatedSettings { provider_networks, ..Default::default() });
        let spec = RegionSpec { provider, organizations: None, withdrawn: false };
        self.insert::<Region>(region.0, REGION_NAME, Placement::default(), &spec);
        region
    }
}

/// What to type next, in lines that work when pasted.
#[must_use]
pub fn next_steps(file: &BootstrapFile, directory: &Path) -> String {
    let path = directory.join(FILE_NAME);
    let region = file.region_id.map(|id| id.to_string()).unwrap_or_default();
    format!(
        r#"Regent is ready. Its token and ids are in {path}; next, try:

  export TOKEN={token}
  curl -H "Authorization: Bearer $TOKEN" {api}/api/v1/organizations/{organization}/regions
  curl -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' {api}/api/v2/networks -d '{{"metadata": {{"name": "first"}}, "spec": {{"organizationId": "{organization}", "projectId": "{project}", "regionId": "{region}", "prefix": "10.0.0.0/22", "dnsNameservers": []}}}}'
  curl -H "Authorization: Bearer $TOKEN" {api}/api/v2/networks
  curl -H "Authorization: Bearer $TOKEN" {admin}/admin/v1/tree
"#,
        path = path.display(),
        token = file.token,
        api = file.api_url,
        admin = file.admin_url,
        organization = file.organization_id,
        project = file.project_id,
    )
}
