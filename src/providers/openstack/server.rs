//! Making and unmaking a server: its port, its floating address, the machine; and what a machine can be told.
//!
//! A machine is found by the id on record and by its port, which says who has it. Only where neither shows one is it
//! searched for, by the tag of its life, and by its name for one that the service before us made; and only when all of
//! that was answered with nothing is one made (B1). Deletion goes the other way and waits: only when the cloud has said
//! that the machine is gone are its address and its port taken away (B6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use openstack_sdk_compute::v2::server::remote_console::create_28 as open_console;
use openstack_sdk_compute::v2::server::{
    confirm_resize, delete as delete_server, get_20 as get_server, list_detailed_21 as list_servers,
    os_get_console_output, os_start, os_stop, reboot, resize,
};
use openstack_sdk_core::types::ServiceType;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::asking::Ask;
use super::connection::Acting;
use super::doubles::taken_away;
use super::names;
use super::ports::{NewPort, PortOptions};
use super::server_plan::{self as planning, FlavorNames, NewServer, ServerBody, Sighting, Step, View, Wanted};
use super::session::{Removals, Session, at_most_one, on};
use crate::model::ids::{FlavorId, IdentityId, ImageId, ProviderPortId};
use crate::model::record::Document;
use crate::model::server::{ServerDetail, SshInjection};
use crate::providers::pool::Service;
use crate::providers::{Deletion, Observed, PowerAction, ProviderError, ProviderResult, ServerFact, ServerRequest};

/// How many steps one pass takes: an address that goes, a port, its options, an address, a server, its port, its tag and
/// its metadata. What is not settled then is left to the next pass, with its back-off.
const STEPS_MAX: usize = 10;

/// How long the names of flavors are believed. A name that is not among them is asked for at once; one that means
/// another flavor since then is an operator's doing, and can wait.
const FLAVORS_FRESH_FOR: Duration = Duration::from_mins(5);

/// The names of the cloud's flavors, and when they were read.
#[derive(Clone)]
pub(super) struct KeptFlavors {
    read_at: Instant,
    names: Arc<FlavorNames>,
    /// What servers have and was looked for in vain: flavors that are gone.
    gone: BTreeSet<String>,
}

/// How hard a machine is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    /// Until one is found.
    UntilFound,
    /// Everywhere: there may be more than one.
    Everywhere,
}

#[derive(Clone, Deserialize)]
struct Created {
    id: String,
}

#[derive(Clone, Deserialize)]
struct ConsoleBody {
    url: String,
}

#[derive(Clone, Deserialize)]
struct OutputBody {
    output: String,
}

#[derive(Clone, Deserialize)]
struct HostBody {
    uuid: String,
    name: String,
}

fn description(request: &ServerRequest) -> String {
    names::described(&names::server_port(request.id), request.incarnation)
}

/// A name as a pattern that fits nothing else.
fn pattern(name: &str) -> String {
    let escaped = name.chars().flat_map(|letter| {
        let is_plain = letter.is_alphanumeric() || matches!(letter, '-' | '_' | ' ') || !letter.is_ascii();
        (!is_plain).then_some('\\').into_iter().chain([letter])
    });
    format!("^{}$", escaped.collect::<String>())
}

impl Session<'_> {
    pub async fn converge_server(&self, request: &ServerRequest) -> ProviderResult<Observed<ServerFact>> {
        let acting = self.principal_of(request.identity).await?;
        // A double comes of an order that was given when there was none yet: once it has started, there are no more.
        let has_started = request.detail.launched_at.is_some();
        let search = if has_started { Search::UntilFound } else { Search::Everywhere };
        let seen = self.look_at_server(&acting, request, search).await?;
        let mut view = self.only_view(&acting, request, seen.fact).await?;
        if let Some(fault) = view.server.as_ref().and_then(ServerBody::fault) {
            tracing::warn!(server = %request.id, fault, "the cloud says that a server has failed");
        }
        let wanted = self.wanted_server(&acting, request).await?;
        for _ in 0..STEPS_MAX {
            let Some(step) = planning::next(&view, &wanted)? else {
                let converged = planning::is_reached(&view, &wanted).then_some(request.generation);
                let flavors = self.flavor_names(view.server.as_slice()).await?;
                let fact = planning::fact(&view, &flavors, converged);
                return Ok(Observed { sequence: seen.sequence, fact });
            };
            self.take_server_step(&acting, request, &wanted, step, &mut view).await?;
        }
        Err(ProviderError::Conflict("the server does not settle".to_owned()))
    }

    /// What there can be one of each of. Doubles are taken away, and the next pass looks again.
    async fn only_view(&self, acting: &Acting, request: &ServerRequest, mut seen: Sighting) -> ProviderResult<View> {
        let detail = &request.detail;
        let mut servers = seen.chosen(detail.server.as_ref().map(|id| id.0.as_str()))?;
        // Those that go already are not waited for.
        servers.doubles.retain(|double| !double.is_leaving());
        if !servers.doubles.is_empty() {
            self.take_servers_away(acting, &servers.doubles).await?;
            return Err(taken_away(&request.id));
        }
        let port = self.only_port(acting, seen.ports, detail.port.as_ref().map(|id| id.0.as_str())).await?;
        let floating_ip = at_most_one(seen.floating_ips, "floating address")?;
        Ok(View { server: servers.first, port, floating_ip, port_is_stale: seen.port_is_stale })
    }

    async fn wanted_server(&self, acting: &Acting, request: &ServerRequest) -> ProviderResult<Wanted> {
        let spec = &request.spec;
        let groups = self.security_groups(acting, &spec.security_groups()).await?;
        Ok(Wanted {
            options: PortOptions {
                security_groups: groups.into_iter().map(|group| group.0).collect(),
                allowed: spec.allowed_addresses().map(|(net, mac)| (net.to_string(), mac)).collect(),
            },
            public_ip: spec.wants_public_ip(),
            metadata: planning::metadata(request, self.provider.region),
            tags: planning::tags(request),
            description: description(request),
            machine: request.may_create,
        })
    }

    /// The sequence is that of the first read: all that is reported is at least as new.
    async fn look_at_server(
        &self,
        acting: &Acting,
        request: &ServerRequest,
        search: Search,
    ) -> ProviderResult<Observed<Sighting>> {
        let (name, incarnation, detail) = (names::server_port(request.id), request.incarnation, &request.detail);
        let known = detail.port.as_ref().map(|port| port.0.as_str());
        let ports = self.find_ports(acting, &name, incarnation, known).await?;
        let holders = ports.fact.iter().map(|port| port.device_id.as_str()).filter(|id| !id.is_empty());
        let (servers, port_is_stale) = self.machines(acting, request, holders.collect(), search).await?;
        let (port, known) = (ports.fact.first(), detail.floating_ip.as_ref().map(|id| id.0.as_str()));
        let port = port.map(|port| port.id.as_str());
        let floating_ips = self.find_floating_ips(acting, port, &description(request), incarnation, known).await?.fact;
        let fact = Sighting { servers, ports: ports.fact, floating_ips, port_is_stale };
        Ok(Observed { sequence: ports.sequence, fact })
    }

    /// The machines of this life of a server; and whether a port says that one has it which is not there.
    async fn machines(
        &self,
        acting: &Acting,
        request: &ServerRequest,
        holders: Vec<&str>,
        search: Search,
    ) -> ProviderResult<(Vec<ServerBody>, bool)> {
        let (mut found, mut is_stale) = (Vec::<ServerBody>::new(), false);
        let add = |found: &mut Vec<ServerBody>, server: ServerBody| {
            let is_new = found.iter().all(|other| other.id != server.id);
            if is_new && server.is_of(request.id, request.incarnation) {
                found.push(server);
            }
        };
        let known = request.detail.server.as_ref().map(|id| id.0.as_str());
        for id in known.into_iter().filter(|id| !holders.contains(id)).chain(holders.iter().copied()) {
            match self.server(acting, id).await? {
                Some(server) => add(&mut found, server),
                None => is_stale |= holders.contains(&id),
            }
        }
        if search == Search::Everywhere || found.is_empty() {
            let tag = names::mark(request.incarnation);
            let by_tag = list_servers::Request::builder().tags(tag.clone()).build();
            let by_tag: Vec<ServerBody> =
                self.read(acting, on(Service::Compute, "find-servers-by-tag", tag), by_tag).await?.fact;
            let by_name = list_servers::Request::builder().name(pattern(&request.name)).build();
            let operation = on(Service::Compute, "find-servers-by-name", &request.name);
            let by_name: Vec<ServerBody> = self.read(acting, operation, by_name).await?.fact;
            by_tag.into_iter().chain(by_name).for_each(|server| add(&mut found, server));
        }
        Ok((found, is_stale))
    }

    pub(super) async fn server(&self, acting: &Acting, id: &str) -> ProviderResult<Option<ServerBody>> {
        let endpoint = get_server::Request::builder().id(id.to_owned()).build();
        let seen: Option<Observed<ServerBody>> =
            self.look(acting, on(Service::Compute, "get-server", id), endpoint).await?;
        Ok(seen.map(|seen| seen.fact))
    }

    /// Makes one step, and puts what the cloud says is there now in the place of what was seen.
    async fn take_server_step(
        &self,
        acting: &Acting,
        request: &ServerRequest,
        wanted: &Wanted,
        step: Step,
        view: &mut View,
    ) -> ProviderResult<()> {
        let description = &wanted.description;
        match step {
            Step::RemoveFloatingIp(id) => {
                self.delete_floating_ip(acting, &id).await?;
                // What is still there is still being removed, and is removed again until the pass is over.
                view.floating_ip = self.floating_ip(acting, &id).await?;
            }
            Step::CreatePort => {
                let new = NewPort {
                    name: names::server_port(request.id),
                    network: self.network_of(acting, request.network).await?,
                    description: description.clone(),
                    options: Some(wanted.options.clone()),
                    address: None,
                };
                view.port = Some(self.create_port(acting, &new).await?);
            }
            Step::UpdatePort(id) => {
                view.port = Some(self.update_port(acting, &id, &wanted.options, description).await?);
            }
            Step::FreePort(id) => {
                view.port = Some(self.free_port(acting, &id).await?);
                view.port_is_stale = false;
            }
            Step::CreateFloatingIp { port } => {
                view.floating_ip = Some(self.create_floating_ip(acting, &port, description).await?);
            }
            Step::UpdateFloatingIp { floating_ip, port } => {
                let updated = self.update_floating_ip(acting, &floating_ip, &port, description).await?;
                view.floating_ip = Some(updated);
            }
            Step::CreateServer { port } => view.server = Some(self.create_server(request, wanted, port).await?),
            Step::Connect { server, port } => self.connect(acting, &server, &port, view).await?,
            Step::Mark { server, tag } => {
                let path = format!("servers/{server}/tags/{tag}");
                let ask = Ask::put(ServiceType::Compute, path, Value::Null);
                self.order(acting, on(Service::Compute, "tag-server", &server), ask.build()).await?;
                view.server = self.server(acting, &server).await?;
            }
            Step::UpdateMetadata { server, metadata } => {
                let body = json!({"metadata": metadata});
                let ask = Ask::put(ServiceType::Compute, format!("servers/{server}/metadata"), body);
                self.order(acting, on(Service::Compute, "set-server-metadata", &server), ask.build()).await?;
                view.server = self.server(acting, &server).await?;
            }
        }
        Ok(())
    }

    async fn connect(&self, acting: &Acting, server: &str, port: &str, view: &mut View) -> ProviderResult<()> {
        let body = json!({"interfaceAttachment": {"port_id": port}});
        let ask = Ask::post(ServiceType::Compute, format!("servers/{server}/os-interface"), body);
        self.order(acting, on(Service::Compute, "connect-server", server), ask.build()).await?;
        view.port = self.port(acting, port).await?;
        Ok(())
    }

    /// The port is on record before a server is made on it: whatever a search shows later, a second server would be
    /// made on the same port, and refused.
    async fn create_server(
        &self,
        request: &ServerRequest,
        wanted: &Wanted,
        port: String,
    ) -> ProviderResult<ServerBody> {
        let noted = Some(ProviderPortId(port.clone()));
        if request.detail.port != noted {
            let detail = ServerDetail { port: noted, ..request.detail.clone() };
            self.context.ledger.note(Document::of(&detail)).await?;
        }
        let principal = self.principal(request.identity).await?;
        let spec = &request.spec;
        let (acting, group) = match &spec.infrastructure {
            // Only the service account may choose a host.
            Some(host) => {
                self.check_host(request.identity, spec.flavor, host).await?;
                (Acting::Steward(principal.project.clone()), None)
            }
            None => (Acting::Principal(Arc::clone(&principal)), principal.server_group.clone()),
        };
        let image = self.image_to_boot(request, spec.image, &principal.project).await?;
        let new = NewServer {
            name: request.name.clone(),
            flavor: self.own_flavor_id(spec.flavor).await?,
            port,
            metadata: planning::with_image(wanted.metadata.clone(), spec.image, &image),
            image,
            tags: wanted.tags.clone(),
            user_data: request.user_data.as_ref().map(|data| STANDARD.encode(&data.0)),
            key_name: match spec.resolved_ssh_injection() {
                SshInjection::IdentityKeypair => Some(self.key_pair_name(request.identity)),
                SshInjection::Ca | SshInjection::None => None,
            },
            host: spec.infrastructure.clone(),
            group: group.map(|group| group.0),
        };
        let ask = Ask::post(ServiceType::Compute, "servers".to_owned(), new.body()).within("server");
        let created: Created =
            self.change(&acting, on(Service::Compute, "create-server", request.id), ask.build()).await?;
        let gone = || ProviderError::Conflict("the server was taken away as soon as it was made".to_owned());
        self.server(&acting, &created.id).await?.ok_or_else(gone)
    }

    /// Could the host that a server is pinned to take it?
    async fn check_host(&self, identity: IdentityId, flavor: FlavorId, host: &str) -> ProviderResult<()> {
        let settings = &self.provider.settings.compute.placement_preflight;
        let Some(settings) = settings.as_ref().filter(|settings| settings.enabled) else { return Ok(()) };
        let flavor = self.own_flavor(flavor).await?;
        let unfit = || ProviderError::Rejected("the flavor does not say which hardware it needs".to_owned());
        let need = planning::need(&flavor.extra_specs, &settings.required_traits).ok_or_else(unfit)?;
        let subject = format!("{} {}", need.resources, need.required);
        let mut ask =
            Ask::get(ServiceType::Placement, "resource_providers".to_owned()).with("resources", need.resources);
        if !need.required.is_empty() {
            ask = ask.with("required", need.required);
        }
        let acting = self.steward_of(identity).await?;
        let operation = on(Service::Compute, "find-hosts", subject);
        let hosts: Vec<HostBody> = self.read(&acting, operation, ask.within("resource_providers").build()).await?.fact;
        if hosts.iter().any(|found| found.uuid == host || found.name == host) {
            Ok(())
        } else {
            Err(ProviderError::Conflict("the host that the server is pinned to cannot take it now".to_owned()))
        }
    }

    /// Takes away everything of this incarnation, doubles included, each part whether or not the others are there.
    pub async fn delete_server(&self, request: &ServerRequest) -> ProviderResult<Deletion> {
        let Some(acting) = self.remover(request.identity, request.detail.port.is_some()).await? else {
            return Ok(Deletion::Absent);
        };
        let seen = self.look_at_server(&acting, request, Search::Everywhere).await?.fact;
        if seen.is_empty() {
            return Ok(Deletion::Absent);
        }
        if self.take_servers_away(&acting, &seen.servers).await? == Deletion::Underway {
            return Ok(Deletion::Underway);
        }
        let mut removals = Removals::default();
        for floating_ip in &seen.floating_ips {
            removals.add(self.delete_floating_ip(&acting, &floating_ip.id).await)?;
        }
        for port in &seen.ports {
            removals.add(self.delete_port(&acting, &port.id).await)?;
        }
        removals.end()?;
        let left = self.look_at_server(&acting, request, Search::Everywhere).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }

    /// Each by its id, and looked for by its id: the cloud takes its time.
    async fn take_servers_away(&self, acting: &Acting, servers: &[ServerBody]) -> ProviderResult<Deletion> {
        let mut removals = Removals::default();
        for server in servers.iter().filter(|server| !server.is_leaving()) {
            let endpoint = delete_server::Request::builder().id(server.id.clone()).build();
            let operation = on(Service::Compute, "delete-server", &server.id);
            removals.add(self.take_away(acting, operation, endpoint).await)?;
        }
        removals.end()?;
        for server in servers {
            if self.server(acting, &server.id).await?.is_some() {
                return Ok(Deletion::Underway);
            }
        }
        Ok(Deletion::Absent)
    }

    /// Takes away a server that never started; one that has, or that is well, stays.
    pub async fn discard_server(&self, request: &ServerRequest) -> ProviderResult<Deletion> {
        let acting = self.principal_of(request.identity).await?;
        let seen = self.look_at_server(&acting, request, Search::Everywhere).await?.fact;
        let failed = |server: &ServerBody| server.launched.is_none() && (server.has_failed() || server.is_leaving());
        if !seen.servers.iter().all(failed) {
            return Err(ProviderError::Conflict("the server has started after all".to_owned()));
        }
        self.delete_server(request).await
    }

    /// Takes away the machine on record, unless it has the flavor already. Its port and its address stay.
    pub async fn retire_server(&self, request: &ServerRequest, flavor: FlavorId) -> ProviderResult<Deletion> {
        let acting = self.principal_of(request.identity).await?;
        let (found, _) = self.machines(&acting, request, Vec::new(), Search::Everywhere).await?;
        let Some(server) = at_most_one(found, "server")? else { return Ok(Deletion::Absent) };
        let flavors = self.flavor_names(std::slice::from_ref(&server)).await?;
        let is_on_record = request.detail.server.as_ref().is_some_and(|known| known.0 == server.id);
        if !is_on_record || server.flavor(&flavors) == Some(flavor) {
            return Err(ProviderError::Conflict("another machine has come".to_owned()));
        }
        self.take_servers_away(&acting, std::slice::from_ref(&server)).await
    }

    /// The machine that an order is for.
    pub(super) async fn machine(&self, acting: &Acting, request: &ServerRequest) -> ProviderResult<ServerBody> {
        let (found, _) = self.machines(acting, request, Vec::new(), Search::UntilFound).await?;
        at_most_one(found, "server")?.ok_or(ProviderError::NotFound)
    }

    pub async fn rebuild_server(&self, request: &ServerRequest, image: ImageId) -> ProviderResult<()> {
        let principal = self.principal(request.identity).await?;
        let acting = Acting::Principal(Arc::clone(&principal));
        let server = self.machine(&acting, request).await?.id;
        let theirs = self.image_to_boot(request, image, &principal.project).await?;
        let metadata = planning::metadata(request, self.provider.region);
        let metadata = planning::with_image(metadata, image, &theirs);
        let order = json!({"rebuild": {"imageRef": theirs, "metadata": metadata}});
        self.act(&acting, &server, "rebuild-server", order).await
    }

    pub async fn resize_server(&self, request: &ServerRequest, flavor: FlavorId) -> ProviderResult<()> {
        let acting = self.principal_of(request.identity).await?;
        let server = self.machine(&acting, request).await?.id;
        let flavor = self.own_flavor_id(flavor).await?;
        let order = resize::ResizeBuilder::default().flavor_ref(flavor).build();
        let order = order.map_err(|error| ProviderError::Rejected(error.to_string()))?;
        let endpoint = resize::Request::builder().id(server.clone()).resize(order).build();
        self.order(&acting, on(Service::Compute, "resize-server", server), endpoint).await
    }

    pub async fn confirm_resize(&self, request: &ServerRequest) -> ProviderResult<()> {
        let acting = self.principal_of(request.identity).await?;
        let server = self.machine(&acting, request).await?.id;
        let endpoint = confirm_resize::Request::builder().id(server.clone()).confirm_resize(Value::Null).build();
        self.order(&acting, on(Service::Compute, "confirm-resize", server), endpoint).await
    }

    pub async fn power_server(&self, request: &ServerRequest, action: PowerAction) -> ProviderResult<()> {
        let acting = self.principal_of(request.identity).await?;
        let server = self.machine(&acting, request).await?.id;
        let operation = |name| on(Service::Compute, name, &server);
        let reboot = |kind| {
            let order = reboot::RebootBuilder::default()._type(kind).build();
            order.map_err(|error| ProviderError::Rejected(error.to_string()))
        };
        let rebooting = |order| reboot::Request::builder().id(server.clone()).reboot(order).build();
        match action {
            PowerAction::Start => {
                let endpoint = os_start::Request::builder().id(server.clone()).os_start(Value::Null).build();
                self.order(&acting, operation("start-server"), endpoint).await
            }
            PowerAction::Stop => {
                let endpoint = os_stop::Request::builder().id(server.clone()).os_stop(Value::Null).build();
                self.order(&acting, operation("stop-server"), endpoint).await
            }
            PowerAction::SoftReboot => {
                let endpoint = rebooting(reboot(reboot::Type::Soft)?);
                self.order(&acting, operation("reboot-server"), endpoint).await
            }
            PowerAction::HardReboot => {
                let endpoint = rebooting(reboot(reboot::Type::Hard)?);
                self.order(&acting, operation("reboot-server-hard"), endpoint).await
            }
        }
    }

    /// Gives an order whose form does not change with the microversion.
    pub(super) async fn act(
        &self,
        acting: &Acting,
        server: &str,
        name: &'static str,
        order: Value,
    ) -> ProviderResult<()> {
        let ask = Ask::post(ServiceType::Compute, format!("servers/{server}/action"), order);
        self.order(acting, on(Service::Compute, name, server), ask.build()).await
    }

    pub async fn console_session(&self, request: &ServerRequest) -> ProviderResult<String> {
        let acting = self.principal_of(request.identity).await?;
        let server = self.machine(&acting, request).await?.id;
        let console = open_console::RemoteConsoleBuilder::default()
            .protocol(open_console::Protocol::Vnc)
            ._type(open_console::Type::Novnc)
            .build();
        let console = console.map_err(|error| ProviderError::Rejected(error.to_string()))?;
        let endpoint = open_console::Request::builder().server_id(server.clone()).remote_console(console).build();
        let opened: ConsoleBody = self.change(&acting, on(Service::Compute, "open-console", server), endpoint).await?;
        Ok(opened.url)
    }

    pub async fn console_output(&self, request: &ServerRequest, lines: Option<u32>) -> ProviderResult<String> {
        let acting = self.principal_of(request.identity).await?;
        let server = self.machine(&acting, request).await?.id;
        let mut asked = os_get_console_output::OsGetConsoleOutputBuilder::default();
        if let Some(lines) = lines {
            asked.length(Some(i32::try_from(lines).unwrap_or(i32::MAX)));
        }
        let asked = asked.build().map_err(|error| ProviderError::Rejected(error.to_string()))?;
        let subject = format!("{server} {}", lines.unwrap_or_default());
        let endpoint = os_get_console_output::Request::builder().id(server).os_get_console_output(asked).build();
        let shown: Observed<OutputBody> =
            self.read(&acting, on(Service::Compute, "read-console", subject), endpoint).await?;
        Ok(shown.fact.output)
    }

    /// The names of the cloud's flavors: those that are kept, unless one of these servers has another.
    pub(super) async fn flavor_names(&self, servers: &[ServerBody]) -> ProviderResult<Arc<FlavorNames>> {
        let kept = self.provider.flavors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kept = kept.filter(|kept| kept.read_at.elapsed() < FLAVORS_FRESH_FOR);
        if let Some(kept) = &kept
            && kept.names.missing(servers).is_subset(&kept.gone)
        {
            return Ok(Arc::clone(&kept.names));
        }
        let listed = self.all_flavors().await?.into_iter().map(|flavor| (flavor.name, flavor.id));
        let names = Arc::new(FlavorNames(listed.collect::<BTreeMap<_, _>>()));
        let mut gone = kept.map(|kept| kept.gone).unwrap_or_default();
        gone.extend(names.missing(servers));
        let kept = KeptFlavors { read_at: Instant::now(), names: Arc::clone(&names), gone };
        *self.provider.flavors.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        Ok(names)
    }

    async fn own_flavor_id(&self, flavor: FlavorId) -> ProviderResult<String> {
        if let Some(own) = self.flavor_names(&[]).await?.id_of(flavor) {
            return Ok(own.to_owned());
        }
        Ok(self.own_flavor(flavor).await?.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_searched_for_as_it_is_and_not_as_a_pattern() {
        assert_eq!(pattern("web-1"), "^web-1$");
        assert_eq!(pattern("a.b (c)*"), "^a\\.b \\(c\\)\\*$");
    }
}
