//! What a page of the cloud's lists says of what is ours.
//!
//! ```text
//!   may the service account see everything? ──yes──▶ one list of all projects, a thousand to a read
//!          (asked now and then, of each service)  └─no─▶ the projects of our principals, one after the other
//! ```
//!
//! An operator who lets the service account list everything from its own project saves a call for each principal.
//! Neutron does not refuse who may not: it shows less. So it is asked for the security groups that every project has of
//! itself: who is shown one of another project is shown everything.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use openstack_sdk_core::api::{QueryParams, RestEndpoint};
use openstack_sdk_core::types::{ApiVersion, ServiceType};
use openstack_sdk_identity::v3::project::list as list_projects;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use uuid::Uuid;

use super::connection::Acting;
use super::names;
use super::network_plan::{self, NetworkBody, Part, RouterBody, SubnetBody};
use super::security_group_plan::{self, GroupBody};
use super::session::{Link, Session, has_next, on};
use crate::model::ids::{
    Incarnation, Key, Kind, ProviderNetworkId, ProviderProjectId, ProviderRouterId, ProviderSubnetId,
};
use crate::model::network::NetworkDetail;
use crate::model::openstack::Isolation;
use crate::providers::call::Fact;
use crate::providers::pool::{Operation, Service};
use crate::providers::{
    Listed, Listing, NetworkFact, Observed, ProviderError, ProviderResult, SecurityGroupFact, Sequence,
};

/// How much is asked for at a time.
const PAGE_MAX: u32 = 1000;

/// How many subnets or routers are asked for at a time. They are small, and are wanted all at once.
const PARTS_MAX: u32 = 10_000;

/// How many names fit into one address: some servers take no more than eight kilobytes of it.
const NAMES_MAX: usize = 100;

/// How long it is believed what the service account may see. An operator who changes the cloud's policy waits this long.
const BELIEVED_FOR: Duration = Duration::from_mins(10);

/// How long what the first page of a sweep learned serves those after it.
const SWEEP_MAX: Duration = Duration::from_mins(2);

/// What the provider remembers between pages.
#[derive(Default)]
pub(super) struct Sweeps {
    sees_everything: Option<(Instant, bool)>,
    projects: Option<(Instant, Arc<Vec<ProviderProjectId>>)>,
    parts: Option<(Instant, Arc<Parts>)>,
}

/// The parts of a sweep's networks, by the network that they are named after.
struct Parts {
    sequence: Sequence,
    subnets: BTreeMap<Uuid, SubnetBody>,
    routers: BTreeMap<Uuid, RouterBody>,
}

/// Where a sweep goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cursor {
    /// In the list of everything, after this object.
    Everything(String),
    /// In this project, after this object; from its beginning if there is none.
    Project(String, String),
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("all", marker) => Some(Self::Everything(marker.to_owned())),
            (project, marker) => Some(Self::Project(project.to_owned(), marker.to_owned())),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Everything(marker) => format!("all:{marker}"),
            Self::Project(project, marker) => format!("{project}:{marker}"),
        }
    }
}

/// A list of Neutron's: by names if there are any, all of them in one read.
struct Search {
    path: &'static str,
    names: Vec<String>,
    after: Option<String>,
    limit: u32,
}

impl RestEndpoint for Search {
    fn method(&self) -> http::Method {
        http::Method::GET
    }
    fn endpoint(&self) -> Cow<'static, str> {
        self.path.into()
    }
    fn service_type(&self) -> ServiceType {
        ServiceType::Network
    }
    fn parameters(&self) -> QueryParams<'_> {
        let mut parameters = QueryParams::default();
        parameters.extend(self.names.iter().map(|name| ("name", name)));
        parameters.push("limit", self.limit.to_string());
        parameters.push_opt("marker", self.after.as_ref());
        parameters
    }
    fn api_version(&self) -> Option<ApiVersion> {
        Some(ApiVersion::new(2, 0))
    }
}

/// A page of one, whatever it is called.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    #[serde(alias = "networks", alias = "subnets", alias = "routers", alias = "security_groups")]
    items: Vec<T>,
    #[serde(
        default,
        alias = "networks_links",
        alias = "subnets_links",
        alias = "routers_links",
        alias = "security_groups_links"
    )]
    links: Vec<Link>,
}

/// What is asked for of a page.
struct Asked<'a> {
    prefix: &'static str,
    path: &'static str,
    operation: &'static str,
    only: Option<&'a [Uuid]>,
    after: Option<&'a str>,
}

/// A page, and where the sweep goes on.
struct Turned<T> {
    sequence: Sequence,
    items: Vec<T>,
    next: Option<Cursor>,
}

#[derive(Clone, Deserialize)]
struct ProjectLine {
    id: String,
    name: String,
}

#[derive(Clone, Deserialize)]
struct OwnedLine {
    project_id: String,
}

impl Session<'_> {
    /// A page of everything of a kind that carries one of our names.
    pub async fn list(
        &self,
        kind: Kind,
        only: Option<&[Uuid]>,
        after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>> {
        match kind {
            Kind::Network => self.list_networks(only, after).await,
            Kind::SecurityGroup => self.list_security_groups(only, after).await,
            Kind::Identity => self.list_identities(only).await,
            _ => Err(ProviderError::Unsupported("lists of this kind")),
        }
    }

    async fn list_networks(
        &self,
        only: Option<&[Uuid]>,
        after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>> {
        let (prefix, path) = (names::NETWORK_PREFIX, "networks");
        let (acting, _) = self.whereabouts(after).await?;
        // Before the networks: a part that is made meanwhile is missed, and looked for.
        let parts = self.parts(&acting, only, after).await?;
        let asked = Asked { prefix, path, operation: "list-networks", only, after };
        let page: Turned<NetworkBody> = self.turn(asked).await?;
        let items = page.items.into_iter().filter_map(|network| listed_network(&network, &parts));
        let fact = Listing { items: items.collect(), next: page.next.map(|cursor| cursor.text()) };
        Ok(Observed { sequence: parts.sequence.min(page.sequence), fact })
    }

    async fn list_security_groups(
        &self,
        only: Option<&[Uuid]>,
        after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>> {
        let (prefix, path) = (names::SECURITY_GROUP_PREFIX, "security-groups");
        let asked = Asked { prefix, path, operation: "list-security-groups", only, after };
        let page: Turned<GroupBody> = self.turn(asked).await?;
        let items = page.items.iter().filter_map(|group| listed_security_group(group, page.sequence));
        let fact = Listing { items: items.collect(), next: page.next.map(|cursor| cursor.text()) };
        Ok(Observed { sequence: page.sequence, fact })
    }

    /// Who lists the page after this one, and after which object. Where we are not shown everything, and have no
    /// project, there is nobody to ask: then it is the observer, who sees nothing either.
    async fn whereabouts(&self, after: Option<&str>) -> ProviderResult<(Acting, Option<String>)> {
        match after.and_then(Cursor::parse) {
            Some(Cursor::Everything(marker)) => Ok((Acting::Observer, Some(marker))),
            Some(Cursor::Project(project, marker)) => {
                let marker = Some(marker).filter(|marker| !marker.is_empty());
                Ok((Acting::Steward(ProviderProjectId(project)), marker))
            }
            None if self.sees_everything().await? => Ok((Acting::Observer, None)),
            None => {
                let first = self.projects().await?.first().cloned();
                Ok((first.map_or(Acting::Observer, Acting::Steward), None))
            }
        }
    }

    async fn turn<T: DeserializeOwned + Send + Part + 'static>(&self, asked: Asked<'_>) -> ProviderResult<Turned<T>> {
        let (acting, marker) = self.whereabouts(asked.after).await?;
        let names = named(asked.only, asked.prefix);
        let search = Search { path: asked.path, names, after: marker.clone(), limit: PAGE_MAX };
        let operation = on(Service::Network, asked.operation, marker.unwrap_or_default());
        let page: Observed<Page<T>> = match self.read_page(&acting, operation, search).await {
            // The project has gone, or its principal is not whole: nothing of ours is seen there.
            Err(ProviderError::PrincipalMissing) => {
                Observed { sequence: Sequence::default(), fact: Page { items: vec![], links: vec![] } }
            }
            other => other?,
        };
        let has_more = !page.fact.items.is_empty() && has_next(&page.fact.links);
        let last = page.fact.items.last().filter(|_| has_more).map(|item| item.id().to_owned());
        let next = match (&acting, last) {
            (Acting::Steward(project), Some(last)) => Some(Cursor::Project(project.0.clone(), last)),
            (Acting::Steward(project), None) => self.project_after(project).await?,
            (_, last) => last.map(Cursor::Everything),
        };
        let mut items = page.fact.items;
        let is_asked_for = |id: Uuid| asked.only.is_none_or(|only| only.contains(&id));
        items.retain(|item| names::id_in(item.name(), asked.prefix).is_some_and(is_asked_for));
        Ok(Turned { sequence: page.sequence, items, next })
    }

    async fn read_page<T: DeserializeOwned + Send + 'static>(
        &self,
        acting: &Acting,
        operation: Operation,
        search: Search,
    ) -> ProviderResult<Observed<Page<T>>> {
        self.read_alone(acting, operation, Ok::<_, String>(search)).await
    }

    async fn project_after(&self, project: &ProviderProjectId) -> ProviderResult<Option<Cursor>> {
        let projects = self.projects().await?;
        let next = projects.iter().find(|other| *other > project);
        Ok(next.map(|next| Cursor::Project(next.0.clone(), String::new())))
    }

    /// The projects of our principals, in order.
    async fn projects(&self) -> ProviderResult<Arc<Vec<ProviderProjectId>>> {
        let held = self.provider.sweeps.lock().unwrap_or_else(PoisonError::into_inner).projects.clone();
        if let Some((_, projects)) = held.filter(|(at, _)| at.elapsed() < SWEEP_MAX) {
            return Ok(projects);
        }
        let domain = self.grant(&Acting::Manager).await?.domain.ok_or(ProviderError::Unauthorized)?;
        let endpoint = list_projects::Request::builder().domain_id(domain).build();
        let operation = on(Service::Identity, "list-projects", "");
        let listed: Vec<ProjectLine> = self.read_alone(&Acting::Manager, operation, endpoint).await?.fact;
        let ours = listed.into_iter().filter(|project| names::id_in(&project.name, names::PRINCIPAL_PREFIX).is_some());
        let mut projects = ours.map(|project| ProviderProjectId(project.id)).collect::<Vec<_>>();
        projects.sort();
        let projects = Arc::new(projects);
        let mut sweeps = self.provider.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
        sweeps.projects = Some((Instant::now(), Arc::clone(&projects)));
        Ok(projects)
    }

    pub(super) async fn sees_everything(&self) -> ProviderResult<bool> {
        // Where all principals share the account's own project, that is everything.
        if self.provider.settings.isolation == Isolation::Project {
            return Ok(true);
        }
        let held = self.provider.sweeps.lock().unwrap_or_else(PoisonError::into_inner).sees_everything;
        if let Some((_, sees)) = held.filter(|(at, _)| at.elapsed() < BELIEVED_FOR) {
            return Ok(sees);
        }
        let search = Search { path: "security-groups", names: vec!["default".to_owned()], after: None, limit: 2 };
        let operation = on(Service::Network, "see-everything", "");
        let page: Observed<Page<OwnedLine>> = self.read_page(&Acting::Observer, operation, search).await?;
        let own = self.grant(&Acting::Observer).await?.project;
        let is_foreign = |line: &OwnedLine| own.as_ref().is_none_or(|own| own.0 != line.project_id);
        let sees = page.fact.items.iter().any(is_foreign);
        let mut sweeps = self.provider.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
        sweeps.sees_everything = Some((Instant::now(), sees));
        Ok(sees)
    }

    /// The parts that the page's networks have: those of the whole sweep, of the project, or of the networks asked for.
    async fn parts(&self, acting: &Acting, only: Option<&[Uuid]>, after: Option<&str>) -> ProviderResult<Arc<Parts>> {
        let is_kept = matches!(acting, Acting::Observer) && only.is_none();
        if is_kept && after.is_some() {
            let held = self.provider.sweeps.lock().unwrap_or_else(PoisonError::into_inner).parts.clone();
            if let Some((_, parts)) = held.filter(|(at, _)| at.elapsed() < SWEEP_MAX) {
                return Ok(parts);
            }
        }
        let (sequence, subnets) = self.all_parts(acting, ("subnets", "list-subnets"), only).await?;
        let (_, routers) = self.all_parts(acting, ("routers", "list-routers"), only).await?;
        let parts = Arc::new(Parts { sequence, subnets, routers });
        if is_kept {
            let mut sweeps = self.provider.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
            sweeps.parts = Some((Instant::now(), Arc::clone(&parts)));
        }
        Ok(parts)
    }

    async fn all_parts<T: DeserializeOwned + Send + Part + 'static>(
        &self,
        acting: &Acting,
        (path, operation): (&'static str, &'static str),
        only: Option<&[Uuid]>,
    ) -> ProviderResult<(Sequence, BTreeMap<Uuid, T>)> {
        let (mut first, mut parts, mut marker) = (None, BTreeMap::new(), None::<String>);
        loop {
            let names = named(only, names::NETWORK_PREFIX);
            let search = Search { path, names, after: marker.clone(), limit: PARTS_MAX };
            let operation = on(Service::Network, operation, marker.take().unwrap_or_default());
            let page: Observed<Page<T>> = match self.read_page(acting, operation, search).await {
                Err(ProviderError::PrincipalMissing) => break,
                other => other?,
            };
            first.get_or_insert(page.sequence);
            marker = page.fact.items.last().filter(|_| has_next(&page.fact.links)).map(|part| part.id().to_owned());
            let items = page.fact.items.into_iter();
            parts.extend(items.filter_map(|one| Some((names::id_in(one.name(), names::NETWORK_PREFIX)?, one))));
            if marker.is_none() {
                break;
            }
        }
        Ok((first.unwrap_or_default(), parts))
    }
}

/// The names to search for; none where there are too many for one read, or all are asked for.
fn named(only: Option<&[Uuid]>, prefix: &str) -> Vec<String> {
    let few = only.filter(|ids| ids.len() <= NAMES_MAX);
    few.into_iter().flatten().map(|id| format!("{prefix}{id}")).collect()
}

/// What says no incarnation is not ours yet: its actor adopts it when it looks.
fn listed_network(network: &NetworkBody, parts: &Parts) -> Option<Listed> {
    let (id, incarnation) = (names::id_in(&network.name, names::NETWORK_PREFIX)?, network.incarnation()?);
    let is_of_it = |marked: Option<Incarnation>| marked.is_none_or(|of| of == incarnation);
    let router = parts.routers.get(&id).filter(|router| is_of_it(router.incarnation()));
    let subnet = parts.subnets.get(&id).filter(|subnet| is_of_it(subnet.incarnation()));
    let fingerprint = network_plan::fingerprint(Some(network), subnet, router);
    let detail = NetworkDetail {
        network: Some(ProviderNetworkId(network.id.clone())),
        subnet: subnet.map(|subnet| ProviderSubnetId(subnet.id.clone())),
        router: router.map(|router| ProviderRouterId(router.id.clone())),
        vlan: network_plan::vlan(network),
        fingerprint: Some(fingerprint),
        ..NetworkDetail::default()
    };
    let fact = NetworkFact { detail, trouble: network_plan::listed_trouble(network, router) };
    let fact = Fact::Network(Observed { sequence: parts.sequence, fact });
    Some(Listed { key: Key::new(Kind::Network, id), incarnation, fingerprint, fact })
}

fn listed_security_group(group: &GroupBody, sequence: Sequence) -> Option<Listed> {
    let id = names::id_in(&group.name, names::SECURITY_GROUP_PREFIX)?;
    let incarnation = group.incarnation()?;
    let fact: SecurityGroupFact = security_group_plan::fact(group);
    let fingerprint = fact.detail.fingerprint.unwrap_or_default();
    let fact = Fact::SecurityGroup(Observed { sequence, fact });
    Some(Listed { key: Key::new(Kind::SecurityGroup, id), incarnation, fingerprint, fact })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_goes_on_where_it_stopped() {
        for cursor in [
            Cursor::Everything("m".to_owned()),
            Cursor::Project("p".to_owned(), "m".to_owned()),
            Cursor::Project("p".to_owned(), String::new()),
        ] {
            assert_eq!(Cursor::parse(&cursor.text()), Some(cursor));
        }
        assert_eq!(Cursor::parse("?"), None);
    }

    #[test]
    fn few_are_asked_for_by_name_and_many_are_looked_for_in_the_whole_list() {
        let ids = (0..=NAMES_MAX as u128).map(Uuid::from_u128).collect::<Vec<_>>();
        assert_eq!(named(Some(&ids[..2]), "network-").len(), 2);
        assert!(named(Some(&ids), "network-").is_empty());
        assert!(named(None, "network-").is_empty());
    }
}
