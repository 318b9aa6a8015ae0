//! Making and unmaking a server: its port, its floating address, the machine; and what a machine can be told.
//!
//! Deletion goes the other way and waits: only when the cloud has said that the machine is gone are its address and
//! its port taken away (B6). Everything is found by its marks or by the id on record, never by name (B2).

use super::super::allowed_address::AllowedAddress;
use super::super::call::{Call, Change, Criteria, ServerAction};
use super::super::objects::{
    Body, CloudObject, NewObject, ObjectId, ObjectKind, ObjectState, PortOptions, ServerBody, ServerLife,
};
use super::security_group::removals;
use super::server_plan::{self as planning, Sighting, Step, View, Wanted};
use super::session::{Session, at_most_one};
use crate::model::ids::{FlavorId, NetworkId, ProviderPortId};
use crate::model::record::Document;
use crate::model::server::{ServerDetail, SshInjection};
use crate::providers::{Deletion, Observed, ProviderError, ProviderResult, ServerFact, ServerRequest};

/// How many steps one pass takes: two failed beginnings, a port, its options, an address, a server, its port and its
/// metadata. What is not settled then is left to the next pass, with its back-off.
const STEPS_MAX: usize = 8;

/// The ids that are known by now, on record or from this pass: asked for by id when a search does not show them.
#[derive(Clone, Debug, Default)]
struct Known {
    server: Option<ObjectId>,
    port: Option<ObjectId>,
    floating_ip: Option<ObjectId>,
}

impl Known {
    fn of(detail: &ServerDetail) -> Self {
        Self {
            server: detail.server.as_ref().map(|id| ObjectId(id.0.clone())),
            port: detail.port.as_ref().map(|id| ObjectId(id.0.clone())),
            floating_ip: detail.floating_ip.as_ref().map(|id| ObjectId(id.0.clone())),
        }
    }

    fn learn(&mut self, seen: &Sighting) {
        let learn = |known: &mut Option<ObjectId>, seen: &[CloudObject]| {
            if let Some(object) = seen.first() {
                *known = Some(object.id.clone());
            }
        };
        learn(&mut self.server, &seen.servers);
        learn(&mut self.port, &seen.ports);
        learn(&mut self.floating_ip, &seen.floating_ips);
    }
}

impl Session<'_> {
    pub async fn converge_server(&self, request: &ServerRequest) -> ProviderResult<Observed<ServerFact>> {
        let seen = self.look_at_server(request, &Known::of(&request.detail)).await?;
        let mut view = seen.fact.consistent()?;
        let spec = &request.spec;
        let wanted = Wanted {
            options: PortOptions {
                security_groups: self.security_groups(&spec.security_groups()).await?,
                allowed_addresses: spec.allowed_addresses().map(|(net, mac)| AllowedAddress { net, mac }).collect(),
            },
            public_ip: spec.wants_public_ip(),
            metadata: planning::metadata(request),
            machine: request.may_create,
        };
        for _ in 0..STEPS_MAX {
            let Some(step) = planning::next(&view, &wanted)? else {
                let fact = planning::fact(&view, Some(request.generation));
                return Ok(Observed { sequence: seen.sequence, fact });
            };
            self.take_server_step(request, &wanted, step, &mut view).await?;
        }
        Err(ProviderError::Conflict("the server does not settle".to_owned()))
    }

    /// The sequence is that of the first read: all that is reported is at least as new.
    async fn look_at_server(&self, request: &ServerRequest, known: &Known) -> ProviderResult<Observed<Sighting>> {
        let marks = planning::marks(request);
        let servers = self.find_own(ObjectKind::Server, marks, known.server.as_ref()).await?;
        let ports = self.find_own(ObjectKind::Port, marks, known.port.as_ref()).await?.fact;
        let floating_ips = self.find_own(ObjectKind::FloatingIp, marks, known.floating_ip.as_ref()).await?.fact;
        let fact = Sighting { servers: servers.fact, ports, floating_ips };
        Ok(Observed { sequence: servers.sequence, fact })
    }

    /// Makes one step, and puts what the cloud says is there now in the place of what was seen.
    async fn take_server_step(
        &self,
        request: &ServerRequest,
        wanted: &Wanted,
        step: Step,
        view: &mut View,
    ) -> ProviderResult<()> {
        let update = |kind, id, change| self.change(Call::Update { kind, id, change });
        match step {
            Step::Remove(kind, id) => {
                self.take_away(Call::Delete { kind, id: id.clone() }).await?;
                // What is still there is still being removed, and stops the pass.
                let left = self.get(kind, &id).await?;
                *(if kind == ObjectKind::Port { &mut view.port } else { &mut view.floating_ip }) = left;
            }
            Step::CreatePort => {
                let network = self.network_of(request.network).await?;
                let body = Body::Port { network, options: wanted.options.clone(), address: None };
                view.port = Some(self.change(Call::Create { object: planning::new_part(request, body) }).await?);
            }
            Step::UpdatePort(id) => {
                let change = Change::Port { options: wanted.options.clone() };
                view.port = Some(update(ObjectKind::Port, id, change).await?);
            }
            Step::CreateFloatingIp(port) => {
                let body = Body::FloatingIp { port, external_network: self.way_out().await?, address: None };
                let object = planning::new_part(request, body);
                view.floating_ip = Some(self.change(Call::Create { object }).await?);
            }
            Step::CreateServer(port) => view.server = Some(self.create_server(request, wanted, port).await?),
            Step::Connect { server, port } => {
                view.server = Some(update(ObjectKind::Server, server, Change::Connection { port }).await?);
            }
            Step::UpdateMetadata(id) => {
                let change = Change::Tags { tags: wanted.metadata.clone() };
                view.server = Some(update(ObjectKind::Server, id, change).await?);
            }
        }
        Ok(())
    }

    /// The port is on record before a server is made on it: whatever a search shows later, a second server would be
    /// made on the same port, and refused.
    async fn create_server(
        &self,
        request: &ServerRequest,
        wanted: &Wanted,
        port: ObjectId,
    ) -> ProviderResult<CloudObject> {
        let noted = Some(ProviderPortId(port.0.clone()));
        if request.detail.port != noted {
            let detail = ServerDetail { port: noted, ..request.detail.clone() };
            self.context.ledger.note(Document::of(&detail)).await?;
        }
        let project = self.project_of(request.identity).await?;
        let key_name = match request.spec.resolved_ssh_injection() {
            SshInjection::IdentityKeypair => Some(self.key_name_of(request.identity).await?),
            SshInjection::Ca | SshInjection::None => None,
        };
        let body = Body::Server(Box::new(ServerBody {
            project,
            flavor: request.spec.flavor,
            image: request.spec.image,
            port,
            key_name,
            user_data: request.user_data.as_ref().map(planning::user_data_digest),
            host: request.spec.infrastructure.clone(),
            life: ServerLife::default(),
        }));
        let (name, marks) = (request.name.clone(), Some(planning::marks(request)));
        self.change(Call::Create { object: NewObject { name, marks, tags: wanted.metadata.clone(), body } }).await
    }

    pub async fn network_of(&self, network: NetworkId) -> ProviderResult<ObjectId> {
        let found = self.find(ObjectKind::Network, Criteria::marked(network.0)).await?.fact;
        let missing = || ProviderError::Conflict("the network is not there".to_owned());
        at_most_one(found, "network")?.map(|network| network.id).ok_or_else(missing)
    }

    /// Takes away everything of this incarnation, doubles included, each part whether or not the others are there.
    pub async fn delete_server(&self, request: &ServerRequest) -> ProviderResult<Deletion> {
        let mut known = Known::of(&request.detail);
        let seen = self.look_at_server(request, &known).await?.fact;
        if seen.is_empty() {
            return Ok(Deletion::Absent);
        }
        known.learn(&seen);
        if !seen.servers.is_empty() {
            self.take_all_away(removals(&seen.servers)).await?;
            let left = self.find_own(ObjectKind::Server, planning::marks(request), known.server.as_ref()).await?.fact;
            if !left.is_empty() {
                return Ok(Deletion::Underway);
            }
        }
        self.take_all_away(removals(seen.floating_ips.iter().chain(&seen.ports))).await?;
        let left = self.look_at_server(request, &known).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }

    /// Takes away a server that never started; one that has, or that is well, stays.
    pub async fn discard_server(&self, request: &ServerRequest) -> ProviderResult<Deletion> {
        let known = Known::of(&request.detail);
        let seen = self.look_at_server(request, &known).await?.fact;
        let failed = |server: &CloudObject| {
            let launched = server.server().is_some_and(|server| server.life.launched.is_some());
            !launched && matches!(server.state, ObjectState::Error | ObjectState::Deleting)
        };
        if !seen.servers.iter().all(failed) {
            return Err(ProviderError::Conflict("the server has started after all".to_owned()));
        }
        self.delete_server(request).await
    }

    /// Takes away the machine on record, unless it has the flavor already. Its port and its address stay.
    pub async fn retire_server(&self, request: &ServerRequest, flavor: FlavorId) -> ProviderResult<Deletion> {
        let known = Known::of(&request.detail).server;
        let found = self.find_own(ObjectKind::Server, planning::marks(request), known.as_ref()).await?.fact;
        let Some(server) = at_most_one(found, "server")? else { return Ok(Deletion::Absent) };
        let has_flavor = server.server().is_some_and(|body| body.flavor == flavor);
        if known.as_ref() != Some(&server.id) || has_flavor {
            return Err(ProviderError::Conflict("another machine has come".to_owned()));
        }
        self.take_all_away(removals(std::slice::from_ref(&server))).await?;
        let left = self.find_own(ObjectKind::Server, planning::marks(request), known.as_ref()).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }

    /// The machine that a verb is for.
    pub async fn machine(&self, request: &ServerRequest) -> ProviderResult<ObjectId> {
        let known = Known::of(&request.detail).server;
        let found = self.find_own(ObjectKind::Server, planning::marks(request), known.as_ref()).await?.fact;
        at_most_one(found, "server")?.map(|server| server.id).ok_or(ProviderError::NotFound)
    }

    pub async fn act(&self, request: &ServerRequest, action: ServerAction) -> ProviderResult<()> {
        let server = self.machine(request).await?;
        self.order(Call::Act { server, action }).await
    }

    pub async fn console_session(&self, request: &ServerRequest) -> ProviderResult<String> {
        let server = self.machine(request).await?;
        self.console(Call::OpenConsole { server }).await
    }

    pub async fn console_output(&self, request: &ServerRequest, lines: Option<u32>) -> ProviderResult<String> {
        let server = self.machine(request).await?;
        self.console(Call::ReadConsole { server, lines }).await
    }
}
