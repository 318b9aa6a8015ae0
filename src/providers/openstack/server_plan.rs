//! What to do about a server, decided from what was seen of it: no calls here.
//!
//! ```text
//!   look ─▶ next ─▶ (nothing) done
//!             ▲└──▶ one step ─▶ make it, see what the cloud says it is now ─┐
//!             └─────────────────────────────────────────────────────────────┘
//! ```
//!
//! The port comes first, because it takes one server only. A server says whose it is in its metadata, with the keys of
//! the service before us, and which life of it in a tag, which can be searched for. Whatever else has its name is
//! somebody else's (B2). What the cloud does not take now (metadata, of a server that is being built) is left out, and
//! then the convergence does not say that it has reached what was asked for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::doubles::{Chosen, Marked, choose};
use super::names::{self, Claim};
use super::ports::{FloatingIpBody, PortBody, PortOptions, nothing_if_null};
use crate::model::ids::{
    FlavorId, ImageId, Incarnation, ProviderFloatingIpId, ProviderPortId, ProviderServerId, RegionId, ServerId,
};
use crate::model::openstack::flavor_id;
use crate::model::server::{CloudServerStatus, PowerState, ServerSighting, ServerTask};
use crate::providers::fingerprint::Fingerprint;
use crate::providers::{ProviderError, ProviderResult, ServerFact, ServerRequest};

/// Whose a server is: what the service before us writes now, and what it once wrote.
const OWN_KEYS: [&str; 2] = ["region:server_id", "serverID"];

/// Our id of the image and the cloud's own, where they are two: the cloud chooses the id of what it makes of a server's
/// disk. Beside the server because it is there that the question comes up, in every list.
const IMAGE_KEY: &str = "region:image_id";

/// Which server it is, as a tag: several of them can be searched for at once.
pub(super) const TAG_PREFIX: &str = "server=";

/// What Nova takes at most, of a key and of a value.
const METADATA_LEN_MAX: usize = 255;

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ServerBody {
    pub id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub name: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub status: String,
    pub created: Timestamp,
    #[serde(default)]
    pub updated: Option<Timestamp>,
    #[serde(default)]
    image: Value,
    #[serde(default)]
    flavor: FlavorOfServer,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub metadata: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub tags: Vec<String>,
    #[serde(rename = "OS-EXT-STS:task_state", default, deserialize_with = "nothing_if_null")]
    task: String,
    #[serde(rename = "OS-EXT-STS:power_state", default, deserialize_with = "nothing_if_null")]
    power: u8,
    #[serde(rename = "OS-SRV-USG:launched_at", default, deserialize_with = "time_without_zone")]
    pub launched: Option<Timestamp>,
    /// What went wrong, of one that failed.
    #[serde(default)]
    fault: Option<FaultOfServer>,
}

/// For operators: it names hosts and services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct FaultOfServer {
    #[serde(default)]
    message: String,
}

/// Nova says its name, and no longer its id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct FlavorOfServer {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    original_name: Option<String>,
}

/// Nova writes some times without a zone, and means UTC.
fn time_without_zone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Some(time));
    }
    let civil = text.parse::<DateTime>().map_err(serde::de::Error::custom)?;
    civil.to_zoned(TimeZone::UTC).map(|zoned| Some(zoned.timestamp())).map_err(serde::de::Error::custom)
}

/// The cloud's flavors: by name, because that is what a server says of its own; the value is the cloud's id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FlavorNames(pub BTreeMap<String, String>);

impl FlavorNames {
    pub fn id_of(&self, flavor: FlavorId) -> Option<&str> {
        self.0.values().find(|own| flavor_id(own) == flavor).map(String::as_str)
    }

    /// What these have that is not among them.
    pub fn missing(&self, servers: &[ServerBody]) -> BTreeSet<String> {
        let flavors = servers.iter().map(|server| &server.flavor).filter(|flavor| flavor.id.is_none());
        let names = flavors.filter_map(|flavor| flavor.original_name.as_ref());
        names.filter(|name| !self.0.contains_key(*name)).cloned().collect()
    }
}

impl Marked for ServerBody {
    const WORD: &'static str = "server";
    fn id(&self) -> &str {
        &self.id
    }
    fn incarnation(&self) -> Option<Incarnation> {
        Self::incarnation(self)
    }
}

impl ServerBody {
    /// Why it failed, in the cloud's own words.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_ref().map(|fault| fault.message.as_str())
    }

    /// The server that it says it is. Metadata can be changed by whoever may change the server; a tag is ours.
    fn said(&self) -> Option<&str> {
        let by_tag = self.tags.iter().find_map(|tag| tag.strip_prefix(TAG_PREFIX));
        by_tag.or_else(|| OWN_KEYS.iter().find_map(|key| self.metadata.get(*key)).map(String::as_str))
    }

    pub fn of(&self) -> Option<ServerId> {
        self.said()?.parse().ok()
    }

    pub fn incarnation(&self) -> Option<Incarnation> {
        self.tags.iter().find_map(|tag| names::incarnation_in(tag))
    }

    /// Is it this server, in this life of it, or in one that nobody has written down?
    pub fn is_of(&self, id: ServerId, incarnation: Incarnation) -> bool {
        match Claim::of(self.incarnation(), incarnation) {
            Claim::Ours => self.said().is_none_or(|said| said == id.to_string()),
            Claim::Unmarked => self.said().is_some_and(|said| said == id.to_string()),
            Claim::Another => false,
        }
    }

    pub fn is_leaving(&self) -> bool {
        matches!(self.status.as_str(), "DELETED" | "SOFT_DELETED")
            || matches!(self.task.as_str(), "deleting" | "soft-deleting")
    }

    pub fn has_failed(&self) -> bool {
        self.status == "ERROR"
    }

    /// Does the cloud let metadata, tags and interfaces of it be changed?
    fn takes_changes(&self) -> bool {
        matches!(self.status.as_str(), "ACTIVE" | "SHUTOFF" | "PAUSED" | "SUSPENDED") && !self.is_leaving()
    }

    fn own_image(&self) -> Option<&str> {
        self.image.get("id").and_then(Value::as_str)
    }

    /// Our id of what it is on.
    fn image(&self) -> Option<ImageId> {
        let own = self.own_image()?;
        let noted = self.metadata.get(IMAGE_KEY).and_then(|noted| noted.split_once('='));
        let ours = noted.filter(|(_, theirs)| *theirs == own).map_or(own, |(ours, _)| ours);
        ours.parse().ok()
    }

    pub fn flavor(&self, flavors: &FlavorNames) -> Option<FlavorId> {
        let by_name = || flavors.0.get(self.flavor.original_name.as_ref()?);
        self.flavor.id.as_ref().or_else(by_name).map(|own| flavor_id(own))
    }

    pub fn power(&self) -> PowerState {
        match self.power {
            1 => PowerState::Running,
            3 => PowerState::Paused,
            4 => PowerState::Shutdown,
            6 => PowerState::Crashed,
            7 => PowerState::Suspended,
            _ => PowerState::None,
        }
    }

    fn task(&self) -> Option<ServerTask> {
        Some(match self.task.as_str() {
            "" => return None,
            "powering-on" => ServerTask::PoweringOn,
            "powering-off" => ServerTask::PoweringOff,
            task if task.starts_with("reboot") => ServerTask::Rebooting,
            task if task.starts_with("rebuild") => ServerTask::Rebuilding,
            task if task.starts_with("resize") => ServerTask::Resizing,
            _ => ServerTask::Other,
        })
    }

    fn status(&self) -> CloudServerStatus {
        match self.status.as_str() {
            "BUILD" => CloudServerStatus::Build,
            "ACTIVE" | "REBOOT" | "HARD_REBOOT" | "PASSWORD" | "MIGRATING" => CloudServerStatus::Active,
            "SHUTOFF" => CloudServerStatus::Stopped,
            "REBUILD" => CloudServerStatus::Rebuild,
            "RESIZE" | "REVERT_RESIZE" => CloudServerStatus::Resize,
            "VERIFY_RESIZE" => CloudServerStatus::VerifyResize,
            "ERROR" => CloudServerStatus::Error,
            "UNKNOWN" => CloudServerStatus::Unknown,
            _ => CloudServerStatus::Other,
        }
    }

    pub fn sighting(&self, flavors: &FlavorNames) -> ServerSighting {
        let (status, task) = if self.is_leaving() {
            (CloudServerStatus::Other, Some(ServerTask::Other))
        } else {
            (self.status(), self.task())
        };
        ServerSighting {
            id: ProviderServerId(self.id.clone()),
            status,
            power: self.power(),
            task,
            image: self.image(),
            flavor: self.flavor(flavors),
            created: self.created,
            launched: self.launched,
            queued: false,
        }
    }
}

/// What was seen of one server: at most one of each.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub server: Option<ServerBody>,
    pub port: Option<PortBody>,
    pub floating_ip: Option<FloatingIpBody>,
    /// The port says that a machine has it which the cloud says is not there.
    pub port_is_stale: bool,
}

/// What was seen, before anybody has asked whether it makes sense.
#[derive(Clone, Debug, Default)]
pub(super) struct Sighting {
    pub servers: Vec<ServerBody>,
    pub ports: Vec<PortBody>,
    pub floating_ips: Vec<FloatingIpBody>,
    pub port_is_stale: bool,
}

impl Sighting {
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.ports.is_empty() && self.floating_ips.is_empty()
    }

    /// The machine that has the port, and others that were made on it.
    pub fn chosen(&mut self, known: Option<&str>) -> ProviderResult<Chosen<ServerBody>> {
        let ports = &self.ports;
        let has_port = |server: &ServerBody| ports.iter().any(|port| port.device_id == server.id);
        choose(std::mem::take(&mut self.servers), known, has_port)
    }
}

/// What is wanted, in the cloud's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub options: PortOptions,
    pub public_ip: bool,
    pub metadata: BTreeMap<String, String>,
    /// Of the server: what it can be searched for by.
    pub tags: Vec<String>,
    /// Of its port and its floating address.
    pub description: String,
    /// A machine that is not there is to be made.
    pub machine: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// One that failed, or that nobody wants any more.
    RemoveFloatingIp(String),
    CreatePort,
    /// It differs, or nobody has written on it whose it is.
    UpdatePort(String),
    /// The machine that had it went without giving it back.
    FreePort(String),
    CreateFloatingIp {
        port: String,
    },
    UpdateFloatingIp {
        floating_ip: String,
        port: String,
    },
    CreateServer {
        port: String,
    },
    /// The server's own port is gone: it gets the new one.
    Connect {
        server: String,
        port: String,
    },
    Mark {
        server: String,
        tag: String,
    },
    UpdateMetadata {
        server: String,
        metadata: BTreeMap<String, String>,
    },
}

/// The next step from what is to what is wanted; none when it is so already, or when the cloud takes no more now.
pub(super) fn next(view: &View, wanted: &Wanted) -> ProviderResult<Option<Step>> {
    if view.server.as_ref().is_some_and(ServerBody::is_leaving) {
        return Err(ProviderError::Conflict("it is being removed".to_owned()));
    }
    if let Some(floating_ip) = &view.floating_ip
        && (!wanted.public_ip || floating_ip.has_failed())
    {
        return Ok(Some(Step::RemoveFloatingIp(floating_ip.id.clone())));
    }
    let Some(port) = &view.port else { return Ok(Some(Step::CreatePort)) };
    if port.options() != wanted.options.of_port(&port.mac_address) || port.description != wanted.description {
        return Ok(Some(Step::UpdatePort(port.id.clone())));
    }
    match &view.floating_ip {
        None if wanted.public_ip => return Ok(Some(Step::CreateFloatingIp { port: port.id.clone() })),
        Some(seen) if seen.port_id != port.id || seen.description != wanted.description => {
            let (floating_ip, port) = (seen.id.clone(), port.id.clone());
            return Ok(Some(Step::UpdateFloatingIp { floating_ip, port }));
        }
        _ => {}
    }
    let Some(server) = &view.server else {
        return match port.device_id.as_str() {
            "" if wanted.machine => Ok(Some(Step::CreateServer { port: port.id.clone() })),
            "" => Err(ProviderError::NotFound),
            _ if view.port_is_stale => Ok(Some(Step::FreePort(port.id.clone()))),
            // Its machine is on its way out, or a stranger has taken the port: nothing can be made on it.
            _ => Err(ProviderError::Conflict("the port is still in use".to_owned())),
        };
    };
    Ok(next_of_server(server, port, wanted).filter(|_| server.takes_changes()))
}

fn next_of_server(server: &ServerBody, port: &PortBody, wanted: &Wanted) -> Option<Step> {
    if is_astray(server, port) {
        return Some(Step::Connect { server: server.id.clone(), port: port.id.clone() });
    }
    if let Some(tag) = wanted.tags.iter().find(|tag| !server.tags.contains(tag)) {
        return Some(Step::Mark { server: server.id.clone(), tag: tag.clone() });
    }
    let metadata = with_image_of(&wanted.metadata, server);
    (server.metadata != metadata).then(|| Step::UpdateMetadata { server: server.id.clone(), metadata })
}

/// It has booted, and not on this port. Before that the cloud has not put it there yet.
fn is_astray(server: &ServerBody, port: &PortBody) -> bool {
    server.launched.is_some() && port.device_id.is_empty()
}

/// Is everything as wanted, or is there something that the cloud does not take now?
pub(super) fn is_reached(view: &View, wanted: &Wanted) -> bool {
    match (&view.server, &view.port) {
        (Some(server), Some(port)) => next_of_server(server, port, wanted).is_none(),
        _ => false,
    }
}

/// What a server can be searched for by: its life, and which one it is.
pub(super) fn tags(request: &ServerRequest) -> Vec<String> {
    vec![names::mark(request.incarnation), format!("{TAG_PREFIX}{}", request.id)]
}

/// What the guest can read about itself: tags of the form `<service>.<domain>/<key>` as `<service>:<key>`, and whose
/// it is, which no tag can pretend.
pub(super) fn metadata(request: &ServerRequest, region: RegionId) -> BTreeMap<String, String> {
    let visible = request.tags.iter().filter_map(|tag| {
        let (owner, key) = tag.name.split_once('/')?;
        let (service, _) = owner.split_once('.')?;
        Some((format!("{service}:{}", key.replace('-', "_")), tag.value.clone()))
    });
    let is_taken = |(name, value): &(String, String)| {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_:. ".contains(&byte);
        name.len() <= METADATA_LEN_MAX && value.len() <= METADATA_LEN_MAX && name.bytes().all(is_good)
    };
    let (server, region) = (request.id.to_string(), region.to_string());
    let (organization, project) = (request.organization.to_string(), request.project.to_string());
    let own = [
        ("region:server_id", &server),
        ("identity:organization_id", &organization),
        ("identity:project_id", &project),
        ("region:region_id", &region),
        ("serverID", &server),
        ("organizationID", &organization),
        ("projectID", &project),
        ("regionID", &region),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.clone()));
    visible.filter(is_taken).filter(|(name, _)| name != IMAGE_KEY).chain(own).collect()
}

/// With what the server says of its image, which only the order that put it there can know.
fn with_image_of(metadata: &BTreeMap<String, String>, server: &ServerBody) -> BTreeMap<String, String> {
    let noted = server.metadata.get_key_value(IMAGE_KEY).map(|(name, value)| (name.clone(), value.clone()));
    metadata.clone().into_iter().chain(noted).collect()
}

/// With what it is to say of its image.
pub(super) fn with_image(
    mut metadata: BTreeMap<String, String>,
    ours: ImageId,
    theirs: &str,
) -> BTreeMap<String, String> {
    let ours = ours.to_string();
    if ours != theirs {
        metadata.insert(IMAGE_KEY.to_owned(), format!("{ours}={theirs}"));
    }
    metadata
}

/// A server to be made.
pub(super) struct NewServer {
    pub name: String,
    pub image: String,
    pub flavor: String,
    pub port: String,
    pub metadata: BTreeMap<String, String>,
    pub tags: Vec<String>,
    /// As base64.
    pub user_data: Option<String>,
    pub key_name: Option<String>,
    pub host: Option<String>,
    pub group: Option<String>,
}

impl NewServer {
    pub fn body(&self) -> Value {
        let mut server = json!({
            "name": self.name,
            "imageRef": self.image,
            "flavorRef": self.flavor,
            "networks": [{"port": self.port}],
            "metadata": self.metadata,
            "tags": self.tags,
        });
        let optional =
            [("user_data", &self.user_data), ("key_name", &self.key_name), ("hypervisor_hostname", &self.host)];
        for (name, value) in optional {
            if let Some(value) = value {
                server[name] = json!(value);
            }
        }
        let mut body = json!({"server": server});
        if let Some(group) = &self.group {
            body["os:scheduler_hints"] = json!({"group": group});
        }
        body
    }
}

/// What Placement is asked for before a server is pinned: one of the resource that the flavor needs, and its traits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub resources: String,
    pub required: String,
}

/// `None`: the flavor does not say which hardware it needs, in the one way in which it can be asked for.
pub(super) fn need(extra_specs: &BTreeMap<String, String>, required_traits: &[String]) -> Option<Need> {
    let custom = extra_specs.iter().filter_map(|(name, count)| {
        let class = name.strip_prefix("resources:").filter(|class| class.starts_with("CUSTOM_"))?;
        count.parse::<u64>().is_ok_and(|count| count > 0).then_some(class)
    });
    let [class] = custom.collect::<Vec<_>>()[..] else { return None };
    let of_flavor = extra_specs.iter().filter_map(|(name, word)| {
        let name = name.strip_prefix("trait:")?;
        match word.as_str() {
            "required" => Some(name.to_owned()),
            "forbidden" => Some(format!("!{name}")),
            _ => None,
        }
    });
    let mut required = of_flavor.chain(required_traits.iter().cloned()).collect::<Vec<_>>();
    required.sort();
    required.dedup();
    Some(Need { resources: format!("{class}:1"), required: required.join(",") })
}

/// What is to be told of what was seen.
pub(super) fn fact(view: &View, flavors: &FlavorNames, converged: Option<u64>) -> ServerFact {
    let floating_ip = view.floating_ip.as_ref();
    let configuration = configuration(view);
    let sighting = view.server.as_ref().map(|server| server.sighting(flavors));
    ServerFact {
        port: view.port.as_ref().map(|port| ProviderPortId(port.id.clone())),
        private_ip: view.port.as_ref().and_then(PortBody::address),
        mac_address: view.port.as_ref().map(|port| port.mac_address.clone()).filter(|mac| !mac.is_empty()),
        floating_ip: floating_ip.and_then(|seen| Some((ProviderFloatingIpId(seen.id.clone()), seen.address()?))),
        converged,
        configuration,
        fingerprint: everything(configuration, sighting.as_ref()),
        server: sighting,
    }
}

/// Of the port, the addresses, and what of the server itself can be set right without harm. The same before and after a
/// boot.
fn configuration(view: &View) -> u64 {
    let mut digest = Fingerprint::new();
    if let Some(port) = &view.port {
        port.digest(&mut digest);
    }
    // Where one part ends and the next begins.
    digest.number(u8::from(view.port.is_some()));
    if let Some(floating_ip) = &view.floating_ip {
        floating_ip.digest(&mut digest);
    }
    if let Some(server) = &view.server {
        let mut tags = server.tags.iter().collect::<Vec<_>>();
        tags.sort();
        for tag in tags {
            digest.text(tag);
        }
        digest.number(server.metadata.len() as u64);
        for (name, value) in &server.metadata {
            digest.text(name);
            digest.text(value);
        }
        digest.number(view.port.as_ref().is_some_and(|port| is_astray(server, port)));
    }
    digest.value()
}

fn everything(configuration: u64, server: Option<&ServerSighting>) -> u64 {
    let mut digest = Fingerprint::new();
    digest.number(configuration);
    let Some(server) = server else { return digest.value() };
    digest.text(&server.id.0);
    digest.number(server.status as u64);
    digest.number(server.power as u64);
    digest.number(server.task.map_or(0, |task| 1 + task as u64));
    digest.number(server.queued);
    digest.number(server.launched.is_some());
    for id in [server.image.map(|image| image.0), server.flavor.map(|flavor| flavor.0)] {
        let (high, low) = id.unwrap_or_default().as_u64_pair();
        digest.number(high);
        digest.number(low);
    }
    digest.value()
}

#[cfg(test)]
#[path = "server_plan_tests.rs"]
mod tests;
