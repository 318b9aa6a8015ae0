//! What a page of the cloud's lists says of what is ours.
//!
//! ```text
//!   may the service account see everything? ──yes──▶ one list of all projects, a thousand to a read
//!          (asked now and then, of each service)  └─no─▶ the projects of our principals, one after the other
//! ```
//!
//! What is listed has the fingerprint that a convergence told: an actor that has the same on record has no news. What an
//! object stands on (subnets and routers, ports, floating addresses) is a list of its own, read once for a whole sweep and
//! never object by object.
//!
//! # How many calls a look takes
//! A list is read in `objects / 1000` calls where the service shows everything, and in `projects + objects / 1000` where it
//! does not; what may be seen ([`reach`]) costs three more at most, every few minutes. Lists that a kind is made of:
//!
//! | kind | lists |
//! |---|---|
//! | security group, volume, image | itself |
//! | load balancer | itself, floating addresses |
//! | network | itself, subnets, routers |
//! | server | itself, ports, floating addresses |
//!
//! Where a few are asked for, they are asked for by name, in the projects of their principals alone.

mod balancers;
mod images;
mod networks;
mod reach;
mod servers;
mod standing;
mod volumes;

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use openstack_sdk_core::types::ServiceType;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use uuid::Uuid;

use super::asking::Ask;
use super::connection::Acting;
use super::session::{Link, Session, has_next, on};
use crate::model::ids::Kind;
use crate::model::openstack::Isolation;
use crate::providers::pool::Service;
use crate::providers::{Listed, Listing, Observed, ProviderError, ProviderResult, Sequence};
use networks::NetworkParts;
use reach::{OwnProject, Place, ProjectsOfLook};
use standing::Addresses;

/// How much is asked for at a time: what most services allow at most.
const PAGE_MAX: u32 = 1000;

/// How many pages of one list are read: a million objects. A service that goes on after that shows the same ones again.
const PAGES_MAX: usize = 1000;

/// How many names fit into one address: some servers take no more than eight kilobytes of it.
const NAMES_MAX: usize = 100;

/// How long what the first page of a sweep learned serves those after it.
const SWEEP_MAX: Duration = Duration::from_mins(2);

/// What the provider remembers between pages.
#[derive(Default)]
pub(super) struct Sweeps {
    /// Which services show everything.
    sights: BTreeMap<Service, (Instant, bool)>,
    projects: Option<(Instant, Arc<Vec<OwnProject>>)>,
    /// Those of the look at a few that is under way.
    of_look: Option<ProjectsOfLook>,
    /// What belongs to the objects of a sweep, by where it was read.
    network_parts: Kept<NetworkParts>,
    ports: Kept<servers::Ports>,
    addresses: Kept<Addresses>,
    /// The machines that were seen, and which servers they are: one that is gone does not say it any more.
    machines: BTreeMap<String, servers::Machine>,
    /// When the newest change of a server was made that has been seen, by the cloud's own clock.
    newest: Option<Timestamp>,
}

/// What one place showed, and when.
struct Kept<T>(Option<(Instant, String, Arc<T>)>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Kept<T> {
    fn get(&self, place: &str) -> Option<Arc<T>> {
        let (at, of, held) = self.0.as_ref()?;
        (of == place && at.elapsed() < SWEEP_MAX).then(|| Arc::clone(held))
    }

    fn put(&mut self, place: &str, held: &Arc<T>) {
        self.0 = Some((Instant::now(), place.to_owned(), Arc::clone(held)));
    }
}

/// What is looked for, and where the look goes on.
#[derive(Clone, Copy)]
struct Look<'a> {
    kind: Kind,
    only: Option<&'a [Uuid]>,
    after: Option<&'a str>,
}

impl Look<'_> {
    /// The names to ask for; none where there are too many for one read, or all are looked for.
    fn names(&self, prefix: &str) -> Vec<String> {
        let few = self.only.filter(|ids| ids.len() <= NAMES_MAX);
        few.into_iter().flatten().map(|id| format!("{prefix}{id}")).collect()
    }

    /// The name to ask for, of a service that looks for one at a time.
    fn name(&self, prefix: &str) -> Option<String> {
        let [id] = self.only? else { return None };
        Some(format!("{prefix}{id}"))
    }

    fn is_for(&self, id: Uuid) -> bool {
        self.only.is_none_or(|only| only.contains(&id))
    }
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

/// A list of the cloud's, and what it is narrowed to.
#[derive(Clone)]
struct Source {
    service: Service,
    path: &'static str,
    operation: &'static str,
    filters: Vec<(&'static str, String)>,
}

impl Source {
    const fn new(service: Service, path: &'static str, operation: &'static str) -> Self {
        Self { service, path, operation, filters: Vec::new() }
    }

    fn with(mut self, name: &'static str, values: impl IntoIterator<Item = String>) -> Self {
        self.filters.extend(values.into_iter().map(|value| (name, value)));
        self
    }

    fn ask(&self, after: Option<&str>) -> Ask {
        let api = match self.service {
            Service::Compute => ServiceType::Compute,
            Service::Image => ServiceType::Image,
            Service::LoadBalancer => ServiceType::LoadBalancer,
            Service::BlockStorage => ServiceType::BlockStorage,
            _ => ServiceType::Network,
        };
        let mut ask = Ask::get(api, self.path.to_owned());
        for (name, value) in &self.filters {
            ask = ask.with(name, value.clone());
        }
        ask = ask.with("limit", PAGE_MAX.to_string());
        match after {
            Some(after) => ask.with("marker", after),
            None => ask,
        }
    }
}

/// A line of a list.
trait Line {
    /// The cloud's own id of it.
    fn id(&self) -> &str;
    /// Which of ours it is for, if it is.
    fn of(&self) -> Option<Uuid>;
}

/// A page of a list, whatever it is called.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    #[serde(
        alias = "networks",
        alias = "subnets",
        alias = "routers",
        alias = "security_groups",
        alias = "ports",
        alias = "floatingips",
        alias = "servers",
        alias = "volumes",
        alias = "loadbalancers",
        alias = "images"
    )]
    items: Vec<T>,
    #[serde(
        default,
        alias = "networks_links",
        alias = "subnets_links",
        alias = "routers_links",
        alias = "security_groups_links",
        alias = "ports_links",
        alias = "floatingips_links",
        alias = "servers_links",
        alias = "volumes_links",
        alias = "loadbalancers_links"
    )]
    links: Vec<Link>,
    /// How Glance says it.
    #[serde(default)]
    next: Option<String>,
}

impl<T: Line> Page<T> {
    /// Nobody was asked.
    const fn missing() -> Observed<Self> {
        Observed { sequence: Sequence(0), fact: Self { items: Vec::new(), links: Vec::new(), next: None } }
    }

    /// Where the next page begins, if there is one.
    fn last(&self) -> Option<String> {
        let has_more = has_next(&self.links) || self.next.is_some();
        self.items.last().filter(|_| has_more).map(|item| item.id().to_owned())
    }
}

/// A page, and where the sweep goes on.
struct Turned<T> {
    sequence: Sequence,
    items: Vec<T>,
    next: Option<Cursor>,
}

impl<T> Turned<T> {
    /// As it is told. What is not in it is not there.
    fn told(self, listed: impl FnMut(T) -> Option<Listed>) -> Observed<Listing<Listed>> {
        let items = self.items.into_iter().filter_map(listed).collect();
        let fact = Listing { items, next: self.next.map(|cursor| cursor.text()), unsure: Vec::new() };
        Observed { sequence: self.sequence, fact }
    }
}

impl Session<'_> {
    /// A page of everything of a kind that carries one of our names.
    pub async fn list(
        &self,
        kind: Kind,
        only: Option<&[Uuid]>,
        after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>> {
        let look = Look { kind, only, after };
        match kind {
            Kind::Network => self.list_networks(look).await,
            Kind::SecurityGroup => self.list_security_groups(look).await,
            Kind::LoadBalancer => self.list_load_balancers(look).await,
            Kind::Server => self.list_servers(look).await,
            Kind::Identity => self.list_identities(only).await,
            Kind::Volume => self.list_volumes(look).await,
            Kind::Image => self.list_images(look).await,
            _ => Err(ProviderError::Unsupported("lists of this kind")),
        }
    }

    /// A page of a list.
    async fn turn<T>(&self, look: Look<'_>, place: &Place, source: Source) -> ProviderResult<Turned<T>>
    where
        T: DeserializeOwned + Send + Line + 'static,
    {
        let page: Observed<Page<T>> = match &place.acting {
            Some(acting) => self.page(acting, &source, place.marker.as_deref()).await?,
            None => Page::missing(),
        };
        let next = match (&place.project, page.fact.last()) {
            (None, last) => last.map(Cursor::Everything),
            (Some(project), Some(last)) => Some(Cursor::Project(project.0.clone(), last)),
            (Some(project), None) => self.project_after(look, project).await?,
        };
        let mut items = page.fact.items;
        items.retain(|item| item.of().is_some_and(|id| look.is_for(id)));
        Ok(Turned { sequence: page.sequence, items, next })
    }

    /// All of a list at one place.
    async fn all<T>(&self, acting: &Acting, source: &Source) -> ProviderResult<Observed<Vec<T>>>
    where
        T: DeserializeOwned + Send + Line + 'static,
    {
        let (mut first, mut all, mut marker) = (None, Vec::new(), None::<String>);
        for _ in 0..PAGES_MAX {
            let page: Observed<Page<T>> = self.page(acting, source, marker.as_deref()).await?;
            first.get_or_insert(page.sequence);
            marker = page.fact.last();
            all.extend(page.fact.items);
            if marker.is_none() {
                return Ok(Observed { sequence: first.unwrap_or_default(), fact: all });
            }
        }
        Err(ProviderError::Inconsistent("a list that does not end".to_owned()))
    }

    async fn page<T>(&self, acting: &Acting, source: &Source, after: Option<&str>) -> ProviderResult<Observed<Page<T>>>
    where
        T: DeserializeOwned + Send + Line + 'static,
    {
        let operation = on(source.service, source.operation, after.unwrap_or_default());
        match self.read_alone(acting, operation, source.ask(after).build()).await {
            Err(ProviderError::PrincipalMissing) => {
                self.prove_account().await?;
                // The project has gone, or its principal is not whole: nothing of ours is seen there.
                Ok(Page::missing())
            }
            read => read,
        }
    }

    /// It is the account that is not let in while its password is being changed, and not its projects that are gone.
    async fn prove_account(&self) -> ProviderResult<()> {
        if self.provider.settings.isolation == Isolation::Project {
            return Err(ProviderError::Unauthorized);
        }
        self.sweeps().projects = None;
        self.projects().await.map(drop)
    }

    fn sweeps(&self) -> MutexGuard<'_, Sweeps> {
        self.provider.sweeps.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

    #[derive(Deserialize)]
    struct Numbered {
        id: String,
    }

    impl Line for Numbered {
        fn id(&self) -> &str {
            &self.id
        }
        fn of(&self) -> Option<Uuid> {
            None
        }
    }

    #[test]
    fn the_next_page_begins_after_the_last_line_if_the_service_says_that_there_is_one() {
        let last = |text: &str| serde_json::from_str::<Page<Numbered>>(text).expect("a page").last();
        let more = r#"[{"rel": "previous"}, {"rel": "next"}]"#;
        assert_eq!(
            last(&format!(r#"{{"servers": [{{"id": "a"}}, {{"id": "b"}}], "servers_links": {more}}}"#)),
            Some("b".into())
        );
        assert_eq!(last(r#"{"ports": [{"id": "a"}], "ports_links": [{"rel": "previous"}]}"#), None);
        assert_eq!(last(r#"{"volumes": [{"id": "a"}]}"#), None);
        assert_eq!(last(r#"{"images": [{"id": "a"}], "next": "/v2/images?marker=a"}"#), Some("a".into()));
        assert_eq!(
            last(&format!(r#"{{"loadbalancers": [], "loadbalancers_links": {more}}}"#)),
            None,
            "nothing to go on from"
        );
    }

    #[test]
    fn one_is_asked_for_by_name_of_services_that_look_for_one_at_a_time() {
        let ids = [Uuid::from_u128(1), Uuid::from_u128(2)];
        let name = |only| Look { kind: Kind::Volume, only, after: None }.name("volume-");
        assert_eq!(name(Some(&ids[..1])), Some(format!("volume-{}", ids[0])));
        assert_eq!((name(Some(&ids)), name(None)), (None, None));
    }

    #[test]
    fn few_are_asked_for_by_name_and_many_are_looked_for_in_the_whole_list() {
        let ids = (0..=NAMES_MAX as u128).map(Uuid::from_u128).collect::<Vec<_>>();
        let names = |only| Look { kind: Kind::Network, only, after: None }.names("network-").len();
        assert_eq!(names(Some(&ids[..2])), 2);
        assert_eq!(names(Some(&ids)), 0);
        assert_eq!(names(None), 0);
    }
}
