//! What to do about a server, decided from what was seen of it: no calls here.
//!
//! ```text
//!   look ─▶ next ─▶ (nothing) done
//!             ▲└──▶ one step ─▶ make it, see what the cloud says it is now ─┐
//!             └─────────────────────────────────────────────────────────────┘
//! ```
//!
//! The port comes first, because it takes one server only: that is what makes a doubled create impossible, whatever
//! a search fails to show. A server in its error state is reported and left alone; a failed beginning of a port or of
//! a floating address is taken away and made again.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::super::objects::{
    Body, CloudObject, Marks, NewObject, ObjectId, ObjectKind, ObjectState, PortOptions, UserDataDigest,
};
use super::fingerprint::Fingerprint;
use super::session::at_most_one;
use super::tags;
use crate::model::ids::{ProviderFloatingIpId, ProviderPortId, ProviderServerId};
use crate::model::server::{CloudServerStatus, PowerState, ServerSighting, ServerTask};
use crate::providers::{ProviderError, ProviderResult, ServerFact, ServerRequest, UserDataBytes};

/// What was seen of one server: at most one of each.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub server: Option<CloudObject>,
    pub port: Option<CloudObject>,
    pub floating_ip: Option<CloudObject>,
}

/// What was seen, before anybody has asked whether it makes sense.
#[derive(Clone, Debug, Default)]
pub(super) struct Sighting {
    pub servers: Vec<CloudObject>,
    pub ports: Vec<CloudObject>,
    pub floating_ips: Vec<CloudObject>,
}

impl Sighting {
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.ports.is_empty() && self.floating_ips.is_empty()
    }

    pub fn consistent(self) -> ProviderResult<View> {
        Ok(View {
            server: at_most_one(self.servers, "server")?,
            port: at_most_one(self.ports, "port")?,
            floating_ip: at_most_one(self.floating_ips, "floating address")?,
        })
    }
}

/// What is wanted, in the cloud's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub options: PortOptions,
    pub public_ip: bool,
    pub metadata: BTreeMap<String, String>,
    /// A machine that is not there is to be made.
    pub machine: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Takes a failed beginning away, or a floating address that nobody wants any more.
    Remove(ObjectKind, ObjectId),
    CreatePort,
    UpdatePort(ObjectId),
    CreateFloatingIp(ObjectId),
    CreateServer(ObjectId),
    /// The server's own port is gone: it gets the new one.
    Connect {
        server: ObjectId,
        port: ObjectId,
    },
    UpdateMetadata(ObjectId),
}

/// The next step from what is to what is wanted; none when it is so already.
pub(super) fn next(view: &View, wanted: &Wanted) -> ProviderResult<Option<Step>> {
    let is = |object: &Option<CloudObject>, state| object.as_ref().is_some_and(|object| object.state == state);
    let conflict = |said: &str| Err(ProviderError::Conflict(said.to_owned()));
    let parts = [&view.port, &view.floating_ip];
    if parts.into_iter().chain([&view.server]).any(|part| is(part, ObjectState::Deleting)) {
        return conflict("part of it is being removed");
    }
    if parts.into_iter().any(|part| is(part, ObjectState::Building)) {
        return conflict("part of it is still being built");
    }
    let remove = |object: &CloudObject| Ok(Some(Step::Remove(object.kind(), object.id.clone())));
    if let Some(floating_ip) = &view.floating_ip
        && (!wanted.public_ip || floating_ip.state == ObjectState::Error)
    {
        return remove(floating_ip);
    }
    let port = match (&view.port, &view.server) {
        (None, _) => return Ok(Some(Step::CreatePort)),
        (Some(port), None) if port.state == ObjectState::Error => return remove(port),
        (Some(port), _) => port,
    };
    if port_options(port).is_some_and(|options| *options != wanted.options) {
        return Ok(Some(Step::UpdatePort(port.id.clone())));
    }
    if wanted.public_ip && view.floating_ip.is_none() {
        return Ok(Some(Step::CreateFloatingIp(port.id.clone())));
    }
    let Some(server) = &view.server else {
        let create = Step::CreateServer(port.id.clone());
        return if wanted.machine { Ok(Some(create)) } else { Err(ProviderError::NotFound) };
    };
    if server.server().is_some_and(|body| body.port != port.id) {
        return Ok(Some(Step::Connect { server: server.id.clone(), port: port.id.clone() }));
    }
    Ok((server.tags != wanted.metadata).then(|| Step::UpdateMetadata(server.id.clone())))
}

const fn port_options(object: &CloudObject) -> Option<&PortOptions> {
    match &object.body {
        Body::Port { options, .. } => Some(options),
        _ => None,
    }
}

pub(super) const fn marks(request: &ServerRequest) -> Marks {
    Marks { id: request.id.0, incarnation: request.incarnation }
}

/// A part of the server beside it. The name is for people to read: nothing is found by it.
pub(super) fn new_part(request: &ServerRequest, body: Body) -> NewObject {
    let tags = tags(request.organization, request.project);
    NewObject { name: format!("server-{}", request.id), marks: Some(marks(request)), tags, body }
}

/// What the guest can read about itself: tags of the form `<service>.<domain>/<key>` as `<service>:<key>`, and whose
/// it is, which no tag can pretend.
pub(super) fn metadata(request: &ServerRequest) -> BTreeMap<String, String> {
    let visible = request.tags.iter().filter_map(|tag| {
        let (owner, key) = tag.name.split_once('/')?;
        let (service, _) = owner.split_once('.')?;
        Some((format!("{service}:{}", key.replace('-', "_")), tag.value.clone()))
    });
    let own = [
        ("region:server_id", request.id.to_string()),
        ("identity:organization_id", request.organization.to_string()),
        ("identity:project_id", request.project.to_string()),
    ];
    visible.chain(own.map(|(name, value)| (name.to_owned(), value))).collect()
}

pub(super) fn user_data_digest(data: &UserDataBytes) -> UserDataDigest {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &data.0);
    let hex = |text: String, byte: &u8| text + &format!("{byte:02x}");
    UserDataDigest { length: data.0.len(), sha256: digest.as_ref().iter().fold(String::new(), hex) }
}

/// What is to be told of what was seen.
pub(super) fn fact(view: &View, converged: Option<u64>) -> ServerFact {
    let address = view.port.as_ref().and_then(CloudObject::port_address);
    let floating = view
        .floating_ip
        .as_ref()
        .and_then(|floating| Some((ProviderFloatingIpId(floating.id.0.clone()), floating.floating_address()?)));
    let configuration = configuration(view);
    ServerFact {
        server: view.server.as_ref().and_then(sighting),
        port: view.port.as_ref().map(|port| ProviderPortId(port.id.0.clone())),
        private_ip: address.map(|address| address.ip),
        mac_address: address.map(|address| address.mac.clone()),
        floating_ip: floating,
        converged,
        configuration,
        fingerprint: everything(view, configuration),
    }
}

fn sighting(object: &CloudObject) -> Option<ServerSighting> {
    let server = object.server()?;
    let life = &server.life;
    let status = match (object.state, life.task, life.power) {
        (ObjectState::Building, ..) => CloudServerStatus::Build,
        (ObjectState::Error, ..) => CloudServerStatus::Error,
        (ObjectState::Active, Some(ServerTask::Rebuilding), _) => CloudServerStatus::Rebuild,
        (ObjectState::Active, Some(ServerTask::Resizing), _) => CloudServerStatus::Resize,
        (ObjectState::Active, ..) if life.awaits_confirmation => CloudServerStatus::VerifyResize,
        (ObjectState::Active, _, PowerState::Shutdown) => CloudServerStatus::Stopped,
        (ObjectState::Active, _, PowerState::Paused | PowerState::Suspended) | (ObjectState::Deleting, ..) => {
            CloudServerStatus::Other
        }
        (ObjectState::Active, ..) => CloudServerStatus::Active,
    };
    let leaving = object.state == ObjectState::Deleting;
    Some(ServerSighting {
        id: ProviderServerId(object.id.0.clone()),
        status,
        power: life.power,
        task: if leaving { Some(ServerTask::Other) } else { life.task },
        image: Some(server.image),
        flavor: Some(server.flavor),
        created: life.created,
        launched: life.launched,
        queued: life.queued,
    })
}

/// Of the port, the addresses, and what of the server itself can be set right without harm.
fn configuration(view: &View) -> u64 {
    let mut digest = Fingerprint::new();
    let number = |address: Ipv4Addr| u32::from(address);
    if let Some(port) = &view.port {
        digest.head(port);
        if let Some(address) = port.port_address() {
            digest.number(number(address.ip));
            digest.text(&address.mac);
        }
        if let Some(options) = port_options(port) {
            options.security_groups.iter().for_each(|group| digest.text(&group.0));
            for allowed in &options.allowed_addresses {
                digest.number(number(allowed.net.network()));
                digest.number(allowed.net.prefix_len());
                // Nothing at all for none, so that what was seen before there were any looks as it did.
                allowed.mac.iter().for_each(|mac| digest.text(mac));
            }
        }
    }
    // Where one part ends and the next begins.
    digest.number(u8::from(view.port.is_some()));
    if let Some(floating_ip) = &view.floating_ip {
        digest.head(floating_ip);
        digest.number(floating_ip.floating_address().map_or(0, number));
    }
    if let Some(object) = &view.server {
        for (name, value) in &object.tags {
            digest.text(name);
            digest.text(value);
        }
        digest.text(object.server().map_or("", |server| &server.port.0));
    }
    digest.value()
}

fn everything(view: &View, configuration: u64) -> u64 {
    let mut digest = Fingerprint::new();
    digest.number(configuration);
    let Some(object) = &view.server else { return digest.value() };
    digest.head(object);
    if let Some(server) = object.server() {
        let life = &server.life;
        digest.text(&server.port.0);
        digest.number(life.power as u64);
        digest.number(life.task.map_or(0, |task| 1 + task as u64));
        digest.number(life.queued);
        digest.number(life.launched.is_some());
        digest.number(life.awaits_confirmation);
        for id in [server.image.0, server.flavor.0] {
            let (high, low) = id.as_u64_pair();
            digest.number(high);
            digest.number(low);
        }
    }
    digest.value()
}
