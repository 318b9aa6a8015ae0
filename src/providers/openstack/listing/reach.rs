//! Who is shown what, and so where a list is read.
//!
//! An operator who lets the service account list everything from its own project saves a call for each principal. The
//! services answer who may not in ways of their own:
//!
//! - Nova refuses the list.
//! - Neutron does not refuse: it shows less. So it is asked for the security groups that every project has of itself: who is
//!   shown one of another project is shown everything.
//! - Octavia shows less as well, but refuses who asks for another project's by name; a project that is nobody's will do.
//! - Cinder shows everything to administrators alone, whatever its policy says.
//! - Glance shows the service account whatever lies in its project or was shared with it, which is all that is ours.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openstack_sdk_core::types::ServiceType;
use serde::Deserialize;
use tokio::time::Instant;
use uuid::Uuid;

use super::super::asking::Ask;
use super::super::connection::Acting;
use super::super::identity::ProjectBody;
use super::super::names;
use super::super::session::{Session, on};
use super::{Cursor, Line, Look, Page, SWEEP_MAX};
use crate::model::ids::{IdentityId, Key, Kind, ProviderProjectId};
use crate::model::openstack::Isolation;
use crate::providers::pool::Service;
use crate::providers::{Observed, ProviderError, ProviderResult};

/// How long it is believed what the service account may see. An operator who changes the cloud's policy waits this long.
const BELIEVED_FOR: Duration = Duration::from_mins(10);

/// The project of one of our principals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnProject {
    pub id: ProviderProjectId,
    pub identity: IdentityId,
}

/// Where the objects of a look can lie.
#[derive(Clone)]
pub(super) struct ProjectsOfLook {
    kind: Kind,
    only: Vec<Uuid>,
    projects: Arc<Vec<OwnProject>>,
}

impl ProjectsOfLook {
    fn is_of(&self, kind: Kind, only: &[Uuid]) -> bool {
        self.kind == kind && self.only == only
    }
}

/// Where a page is read, and after which object.
pub(super) struct Place {
    /// `None`: the project's principal is not whole, so that nobody can look there.
    pub acting: Option<Acting>,
    /// `None`: all of them at once.
    pub project: Option<ProviderProjectId>,
    pub marker: Option<String>,
}

impl Place {
    /// Is this the first page that is read there?
    pub const fn is_begun_here(&self) -> bool {
        self.marker.is_none()
    }
}

/// A line that only says whose it is.
#[derive(Clone, Deserialize)]
struct OwnedLine {
    #[serde(default)]
    project_id: String,
}

impl Line for OwnedLine {
    fn id(&self) -> &str {
        &self.project_id
    }
    fn of(&self) -> Option<Uuid> {
        None
    }
}

impl Session<'_> {
    /// Where the page is read; `None` where we are not shown everything, and have no project.
    pub(super) async fn place(&self, look: Look<'_>, service: Service) -> ProviderResult<Option<Place>> {
        let (project, marker) = match look.after.and_then(Cursor::parse) {
            Some(Cursor::Everything(marker)) => (None, Some(marker)),
            Some(Cursor::Project(project, marker)) => {
                (Some(ProviderProjectId(project)), Some(marker).filter(|marker| !marker.is_empty()))
            }
            None if self.sees_everything(service).await? => (None, None),
            None if look.only.is_none() => {
                // What is younger than the list would be taken for absent.
                self.sweeps().projects = None;
                match self.projects().await?.first() {
                    Some(first) => (Some(first.id.clone()), None),
                    None => return Ok(None),
                }
            }
            None => match self.projects_of(look).await?.first() {
                Some(first) => (Some(first.id.clone()), None),
                None => return Ok(None),
            },
        };
        let acting = match &project {
            None => Some(Acting::Observer),
            // To who is no tenant there, Octavia shows nothing.
            Some(project) if service == Service::LoadBalancer => self.tenant_of(project).await?,
            Some(project) => Some(Acting::Steward(project.clone())),
        };
        Ok(Some(Place { acting, project, marker }))
    }

    async fn tenant_of(&self, project: &ProviderProjectId) -> ProviderResult<Option<Acting>> {
        // Where all share one project, the account itself is the tenant.
        if self.provider.settings.isolation == Isolation::Project {
            return Ok(Some(Acting::Steward(project.clone())));
        }
        let projects = self.projects().await?;
        let Some(own) = projects.iter().find(|own| own.id == *project) else { return Ok(None) };
        match self.principal_of(own.identity).await {
            Ok(acting) => Ok(Some(acting)),
            Err(ProviderError::PrincipalMissing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn project_after(
        &self,
        look: Look<'_>,
        project: &ProviderProjectId,
    ) -> ProviderResult<Option<Cursor>> {
        let projects = self.projects_of(look).await?;
        let next = projects.iter().find(|other| other.id > *project);
        Ok(next.map(|next| Cursor::Project(next.id.0.clone(), String::new())))
    }

    /// The projects that what is looked for can lie in, in order.
    async fn projects_of(&self, look: Look<'_>) -> ProviderResult<Arc<Vec<OwnProject>>> {
        let all = self.projects().await?;
        let is_one = self.provider.settings.isolation == Isolation::Project;
        let Some(only) = look.only.filter(|_| !is_one) else { return Ok(all) };
        let held = self.sweeps().of_look.clone().filter(|held| look.after.is_some() && held.is_of(look.kind, only));
        if let Some(held) = held {
            return Ok(held.projects);
        }
        let mut principals = BTreeSet::new();
        for id in only {
            principals.extend(self.provider.principals.of(Key::new(look.kind, *id)).await?);
        }
        let of_theirs = |all: &[OwnProject]| {
            let is_theirs = |project: &&OwnProject| principals.contains(&project.identity);
            Arc::new(all.iter().filter(is_theirs).cloned().collect::<Vec<_>>())
        };
        let mut projects = of_theirs(&all);
        if projects.len() < principals.len() {
            // One may be younger than the list.
            self.sweeps().projects = None;
            projects = of_theirs(&self.projects().await?);
        }
        let held = ProjectsOfLook { kind: look.kind, only: only.to_vec(), projects: Arc::clone(&projects) };
        self.sweeps().of_look = Some(held);
        Ok(projects)
    }

    /// The projects of our principals, in order.
    pub(super) async fn projects(&self) -> ProviderResult<Arc<Vec<OwnProject>>> {
        if self.provider.settings.isolation == Isolation::Project {
            let id = self.grant(&Acting::Observer).await?.project.ok_or(ProviderError::Unauthorized)?;
            return Ok(Arc::new(vec![OwnProject { id, identity: IdentityId(Uuid::nil()) }]));
        }
        let held = self.sweeps().projects.clone();
        if let Some((_, projects)) = held.filter(|(at, _)| at.elapsed() < SWEEP_MAX) {
            return Ok(projects);
        }
        let listed = self.projects_of_domain().await?.fact;
        let own = |line: ProjectBody| {
            let identity = IdentityId(names::id_in(&line.name, names::PRINCIPAL_PREFIX)?);
            Some(OwnProject { id: ProviderProjectId(line.id), identity })
        };
        let mut projects = listed.into_iter().filter_map(own).collect::<Vec<_>>();
        projects.sort();
        let projects = Arc::new(projects);
        self.sweeps().projects = Some((Instant::now(), Arc::clone(&projects)));
        Ok(projects)
    }

    /// Does the service show the service account, in its own project, what is everybody's?
    pub(in crate::providers::openstack) async fn sees_everything(&self, service: Service) -> ProviderResult<bool> {
        // Where all share one project, that one is listed: what is others' in the cloud is nothing to us.
        if self.provider.settings.isolation == Isolation::Project {
            return Ok(service == Service::Image);
        }
        let held = self.sweeps().sights.get(&service).copied();
        if let Some((_, sees)) = held.filter(|(at, _)| at.elapsed() < BELIEVED_FOR) {
            return Ok(sees);
        }
        let sees = match service {
            Service::Image => true,
            Service::Compute => {
                let ask = Ask::get(ServiceType::Compute, "servers".to_owned()).with("all_tenants", "1");
                self.is_shown(service, ask.with("limit", "1")).await?
            }
            Service::LoadBalancer => {
                let ask = Ask::get(ServiceType::LoadBalancer, "lbaas/loadbalancers".to_owned());
                self.is_shown(service, ask.with("project_id", Uuid::nil().simple().to_string())).await?
            }
            Service::Network => self.is_shown_other_groups().await?,
            _ => false,
        };
        self.sweeps().sights.insert(service, (Instant::now(), sees));
        Ok(sees)
    }

    /// Is it answered, or refused?
    async fn is_shown(&self, service: Service, ask: Ask) -> ProviderResult<bool> {
        let operation = on(service, "see-everything", "");
        match self.read_alone::<_, _, Page<OwnedLine>>(&Acting::Observer, operation, ask.build()).await {
            Ok(_) => Ok(true),
            Err(ProviderError::Unauthorized) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn is_shown_other_groups(&self) -> ProviderResult<bool> {
        let ask = Ask::get(ServiceType::Network, "security-groups".to_owned()).with("name", "default");
        let operation = on(Service::Network, "see-everything", "");
        let page: Observed<Page<OwnedLine>> =
            self.read_alone(&Acting::Observer, operation, ask.with("limit", "2").build()).await?;
        let own = self.grant(&Acting::Observer).await?.project;
        let is_foreign = |line: &OwnedLine| own.as_ref().is_none_or(|own| own.0 != line.project_id);
        Ok(page.fact.items.iter().any(is_foreign))
    }
}
