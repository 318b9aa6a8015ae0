//! The questions. Every one goes through a pool, whose deadlines are those of every other call.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use openstack_sdk_core::types::ServiceType;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::facts::{Answer, Facts, Offers, ServiceFact, Sights, Standing, Trial};
use crate::model::ids::{ProviderProjectId, ProviderUserId};
use crate::model::openstack::CredentialSource;
use crate::providers::openstack::asking::Ask;
use crate::providers::openstack::connection::Acting;
use crate::providers::openstack::identity::STEWARD_ROLE;
use crate::providers::openstack::session::{Session, on};
use crate::providers::openstack::transport::{CallError, CatalogueEntry, Client, Grant, canonical};
use crate::providers::openstack::{OpenstackProvider, connection};
use crate::providers::pool::Service;
use crate::providers::{CallContext, Observed, ProviderError, ProviderResult};

/// The services whose microversions we ask for.
const VERSIONED: [&str; 3] = ["compute", "block-storage", "placement"];

/// What Cinder makes for itself, and offers to nobody who does not ask for it.
const DEFAULT_VOLUME_TYPE: &str = "__DEFAULT__";

/// Keystone remembers for a moment who has which role: a log-in with one that was given just now is tried again.
const ENTRIES_MAX: u32 = 4;
const ENTRY_PAUSE: Duration = Duration::from_secs(1);

/// A VLAN that there is not, on a physical network that there is not: whoever may choose is told so, and nothing is made.
const NO_VLAN: u16 = 4095;
const NO_PHYSICAL_NETWORK: &str = "regent-region-check";

#[derive(Clone, Deserialize)]
struct Identified {
    id: String,
    #[serde(default)]
    name: String,
}

/// Finds out what there is to know. Only an entry that cannot be read is an error.
pub(super) async fn gather(
    mut provider: OpenstackProvider,
    context: &CallContext<'_>,
    number: Uuid,
) -> Result<Facts, CallError> {
    let said = provider.connection.said()?;
    let CredentialSource::CloudsYaml(entry) = provider.settings.credentials.clone() else {
        return Err(CallError::Credentials("a check reads a clouds.yaml".to_owned()));
    };
    let keystone = provider.session(context).greeting().await;
    let own = provider.session(context).standing(&Acting::Observer, |grant| grant.project.clone().map(|id| id.0)).await;
    if let Some(home) = own.yes().and_then(|own| own.home.clone()).filter(|_| !said.names_domain) {
        provider.settings.identity.domain = Some(home);
        provider.connection = connection::Connection::new(provider.settings.clone());
    }
    let session = provider.session(context);
    let manager = session.standing(&Acting::Manager, |grant| grant.domain.clone()).await;
    let services = session.services(&own).await;
    let roles = session.known_roles(&manager).await;
    let trial = session.trial(&manager, &roles, &services, number).await;
    let sights = session.sights(&own, &services).await;
    let offers = session.offers(&own, &services).await;
    Ok(Facts {
        entry,
        region: said.region,
        interface: said.interface,
        names_domain: said.names_domain,
        keystone,
        account: own,
        manager,
        services,
        roles,
        trial,
        sights,
        offers,
    })
}

fn is_here(services: &BTreeMap<&'static str, ServiceFact>, name: &str) -> bool {
    services.get(name).is_some_and(|service| service.is_here)
}

impl Session<'_> {
    async fn greeting(&self) -> Answer<String> {
        let greeting = async |client: Client| client.greeting().await;
        self.ask_client(self.provider.connection.nowhere(), "greet-keystone", "", greeting).await.into()
    }

    /// Something that is asked of the transport itself.
    async fn ask_client<T, Fut>(
        &self,
        client: Result<Client, CallError>,
        operation: &'static str,
        subject: &str,
        question: impl FnOnce(Client) -> Fut,
    ) -> ProviderResult<T>
    where
        T: Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<T, CallError>> + Send + 'static,
    {
        let asked = question(client?);
        let making = async move { asked.await.map_err(ProviderError::from) };
        let operation = on(Service::Identity, operation, subject);
        Ok(self.provider.pool.read(self.context, operation, move || making.boxed()).await?.fact)
    }

    async fn standing(&self, acting: &Acting, place: impl Fn(&Grant) -> Option<String>) -> Answer<Standing> {
        let grant = self.grant(acting).await;
        let nowhere = || ProviderError::Unavailable("the token is for nowhere".to_owned());
        let stood = grant.and_then(|grant| {
            let place = place(&grant).ok_or_else(nowhere)?;
            Ok(Standing { user: grant.user, place, home: grant.home, roles: grant.roles })
        });
        stood.into()
    }

    async fn services(&self, own: &Answer<Standing>) -> BTreeMap<&'static str, ServiceFact> {
        let mut services = BTreeMap::new();
        if !own.is_yes() {
            return services;
        }
        let ask = Ask::get(ServiceType::Identity, "auth/catalog".to_owned()).within("catalog");
        let operation = on(Service::Identity, "read-catalogue", "");
        let read = self.read(&Acting::Observer, operation, ask.build()).await;
        let catalogue: Vec<CatalogueEntry> = read.map(|seen| seen.fact).unwrap_or_default();
        let grant = self.grant(&Acting::Observer).await.ok();
        for entry in catalogue {
            let Some(name) = canonical(&entry.service) else { continue };
            let fact: &mut ServiceFact = services.entry(name).or_default();
            fact.is_here = grant.as_ref().is_some_and(|grant| grant.has(name));
            let place = |region: Option<String>, interface: &str| format!("{} {interface}", region.unwrap_or_default());
            let places = entry.endpoints.into_iter();
            fact.elsewhere.extend(places.map(|at| place(at.region_id.or(at.region), &at.interface)));
        }
        for name in VERSIONED {
            if let Some(fact) = services.get_mut(name).filter(|fact| fact.is_here) {
                fact.versions = self.versions(name).await;
            }
        }
        services
    }

    async fn versions(&self, service: &'static str) -> Answer<((u8, u8), (u8, u8))> {
        let range = async move |client: Client| client.version_range(service).await;
        let client = self.provider.connection.client(&Acting::Observer);
        let range = self.ask_client(client, "read-versions", service, range).await;
        let silent = || ProviderError::Unavailable("it says nothing of its versions".to_owned());
        range.and_then(|range| range.ok_or_else(silent)).into()
    }

    async fn known_roles(&self, manager: &Answer<Standing>) -> Answer<BTreeSet<String>> {
        if !manager.is_yes() {
            return Answer::NotAsked;
        }
        self.roles().await.map(|roles| roles.into_keys().collect()).into()
    }

    /// Makes a project and a user, does with them what is done with a principal's, and takes them away.
    async fn trial(
        &self,
        manager: &Answer<Standing>,
        roles: &Answer<BTreeSet<String>>,
        services: &BTreeMap<&'static str, ServiceFact>,
        number: Uuid,
    ) -> Trial {
        let (Some(manager), Some(roles)) = (manager.yes(), roles.yes()) else { return Trial::default() };
        let mut trial = Trial::default();
        let body = json!({ "name": format!("regent-region-check-{number}"), "domain_id": manager.place });
        let project = self.make(("projects", "project", "create-project"), &body).await;
        if let Some(id) = project.yes().map(|made| ProviderProjectId(made.id.clone())) {
            self.try_project(&id, manager, roles, services, &mut trial).await;
            let gone = self.unmake("projects", "delete-project", &id.0).await;
            trial.left.extend((!gone).then(|| format!("openstack project delete {id}")));
        }
        let user = self.make(("users", "user", "create-user"), &body).await;
        if let Some(made) = user.yes() {
            let gone = self.unmake("users", "delete-user", &made.id).await;
            trial.left.extend((!gone).then(|| format!("openstack user delete {}", made.id)));
        }
        trial.project = without_value(project);
        trial.user = without_value(user);
        trial
    }

    async fn make(
        &self,
        (path, key, operation): (&str, &'static str, &'static str),
        body: &Value,
    ) -> Answer<Identified> {
        let ask = Ask::post(ServiceType::Identity, path.to_owned(), json!({ key: body })).within(key);
        self.change(&Acting::Manager, on(Service::Identity, operation, "check"), ask.build()).await.into()
    }

    async fn unmake(&self, path: &str, operation: &'static str, id: &str) -> bool {
        let ask = Ask::delete(ServiceType::Identity, format!("{path}/{id}"));
        self.take_away(&Acting::Manager, on(Service::Identity, operation, id), ask.build()).await.is_ok()
    }

    async fn try_project(
        &self,
        project: &ProviderProjectId,
        manager: &Standing,
        roles: &BTreeSet<String>,
        services: &BTreeMap<&'static str, ServiceFact>,
        trial: &mut Trial,
    ) {
        let user = ProviderUserId(manager.user.clone());
        let known = self.roles().await.unwrap_or_default();
        let cluster_roles = self.provider.settings.identity.cluster_roles.iter().map(String::as_str);
        for role in std::iter::once(STEWARD_ROLE).chain(cluster_roles).filter(|role| roles.contains(*role)) {
            let given = self.assign(&known, project, &user, [role]).await;
            trial.grants.insert(role.to_owned(), given.into());
        }
        trial.entry = self.enter(project).await;
        if !trial.entry.is_yes() {
            return;
        }
        let steward = Acting::Steward(project.clone());
        if is_here(services, "compute") {
            let path = format!("os-quota-sets/{project}");
            trial.quotas.insert("compute", self.lift_compute_quota(&steward, project).await.into());
            self.forget_quota(&steward, (ServiceType::Compute, Service::Compute), path).await;
        }
        if is_here(services, "network") {
            let path = format!("quotas/{project}");
            trial.quotas.insert("network", self.lift_network_quota(&steward, project).await.into());
            self.forget_quota(&steward, (ServiceType::Network, Service::Network), path).await;
        }
        if is_here(services, "block-storage") {
            let path = format!("os-quota-sets/{project}");
            trial.quotas.insert("block-storage", self.lift_storage_quota(&steward, project).await.into());
            self.forget_quota(&steward, (ServiceType::BlockStorage, Service::BlockStorage), path).await;
        }
    }

    /// Quotas outlive their project in the services' books. That they cannot be taken back is no harm: nobody has the
    /// project any more.
    async fn forget_quota(&self, steward: &Acting, (kind, service): (ServiceType, Service), path: String) {
        let operation = on(service, "forget-quotas", &path);
        if let Err(error) = self.take_away(steward, operation, Ask::delete(kind, path).build()).await {
            tracing::debug!(%error, "the quotas of a project that is gone stay in the books");
        }
    }

    async fn enter(&self, project: &ProviderProjectId) -> Answer {
        let steward = Acting::Steward(project.clone());
        for _ in 1..ENTRIES_MAX {
            if self.is_let_in(&steward).await == Ok(true) {
                return Answer::Yes(());
            }
            tokio::time::sleep(ENTRY_PAUSE).await;
        }
        self.grant(&steward).await.map(|_| ()).into()
    }

    async fn sights(&self, own: &Answer<Standing>, services: &BTreeMap<&'static str, ServiceFact>) -> Sights {
        let mut sights = Sights::default();
        if !own.is_yes() {
            return sights;
        }
        if is_here(services, "compute") {
            sights.servers = self.sees(Service::Compute).await;
        }
        if is_here(services, "load-balancer") {
            sights.load_balancers = self.sees(Service::LoadBalancer).await;
        }
        if is_here(services, "placement") {
            sights.hosts = self.sees_hosts().await;
        }
        if is_here(services, "network") {
            sights.networks = self.sees(Service::Network).await;
            sights.vlans = self.may_choose_vlans().await;
        }
        sights
    }

    /// Is the account shown what is everybody's?
    async fn sees(&self, service: Service) -> Answer {
        match self.sees_everything(service).await {
            Ok(true) => Answer::Yes(()),
            Ok(false) => Answer::Refused,
            Err(error) => Err(error).into(),
        }
    }

    async fn sees_hosts(&self) -> Answer {
        let ask = Ask::get(ServiceType::Placement, "resource_providers".to_owned()).with("name", NO_PHYSICAL_NETWORK);
        let operation = on(Service::Compute, "see-hosts", "");
        let read: ProviderResult<Observed<Value>> = self.read(&Acting::Observer, operation, ask.build()).await;
        read.map(|_| ()).into()
    }

    /// Asks for what cannot be made, to be told whether it is for that or for want of a right.
    async fn may_choose_vlans(&self) -> Answer {
        let network = json!({
            "name": NO_PHYSICAL_NETWORK,
            "provider:network_type": "vlan",
            "provider:physical_network": NO_PHYSICAL_NETWORK,
            "provider:segmentation_id": NO_VLAN,
        });
        let ask = Ask::post(ServiceType::Network, "networks".to_owned(), json!({ "network": network }));
        let operation = on(Service::Network, "try-vlan", "");
        let made: ProviderResult<Identified> =
            self.change(&Acting::Observer, operation, ask.within("network").build()).await;
        match made {
            Ok(made) => {
                let away = Ask::delete(ServiceType::Network, format!("networks/{}", made.id));
                let operation = on(Service::Network, "delete-network", &made.id);
                self.take_away(&Acting::Observer, operation, away.build()).await.into()
            }
            Err(ProviderError::Rejected(words)) if words.contains("nrecognized") => Answer::Failed(words),
            Err(ProviderError::Rejected(_) | ProviderError::Conflict(_) | ProviderError::Quota) => Answer::Yes(()),
            Err(error) => Err(error).into(),
        }
    }

    async fn offers(&self, own: &Answer<Standing>, services: &BTreeMap<&'static str, ServiceFact>) -> Offers {
        let mut offers = Offers::default();
        if !own.is_yes() {
            return offers;
        }
        if is_here(services, "network") {
            let networks = self.external_networks().await;
            let shown = networks.map(|all| all.into_iter().map(|network| (network.id, network.name)).collect());
            offers.external_networks = shown.into();
        }
        if is_here(services, "compute") {
            offers.flavors = self.flavors().await.map(|all| all.len()).into();
        }
        if is_here(services, "image") {
            offers.images = self.images().await.map(|all| all.len()).into();
        }
        if is_here(services, "block-storage") {
            offers.volume_types = self.volume_types().await.into();
        }
        offers
    }

    async fn volume_types(&self) -> ProviderResult<Vec<(String, String)>> {
        let ask = Ask::get(ServiceType::BlockStorage, "types".to_owned()).within("volume_types");
        let operation = on(Service::BlockStorage, "list-types", "check");
        let listed: Vec<Identified> = self.read(&Acting::Observer, operation, ask.build()).await?.fact;
        let shown = listed.into_iter().filter(|kind| kind.name != DEFAULT_VOLUME_TYPE);
        Ok(shown.map(|kind| (kind.id, kind.name)).collect())
    }
}

fn without_value<T>(answer: Answer<T>) -> Answer {
    match answer {
        Answer::NotAsked => Answer::NotAsked,
        Answer::Yes(_) => Answer::Yes(()),
        Answer::Refused => Answer::Refused,
        Answer::Failed(words) => Answer::Failed(words),
    }
}
