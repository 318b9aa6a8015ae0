//! Servers with their ports and floating addresses.
//!
//! ```text
//!   everything ──▶ all of them
//!   a few      ──▶ by their tags                          unsure: whose port is held by a machine without a tag
//!   many       ──▶ what has changed since? ──▶ a few      unsure: all the others
//! ```
//!
//! Many are looked for when much is being made at once, every second, in a cloud that may have many more. Nova tells what
//! has changed since a time, and what is gone by then; whatever is in that list is then looked at as a few are. What is not
//! in it tells nothing, and nothing is concluded from it: not every change moves the time that Nova goes by (that of a tag
//! does not), and the clocks of its parts may differ. What is missed is found by the next look at everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::super::connection::Acting;
use super::super::names;
use super::super::ports::PortBody;
use super::super::server_plan::{self, FlavorNames, ServerBody, TAG_PREFIX, View};
use super::super::session::Session;
use super::standing::{Addresses, Beside, earlier};
use super::{Line, Look, NAMES_MAX, Source, Turned};
use crate::model::ids::{Incarnation, Key, Kind, ServerId};
use crate::providers::call::Fact;
use crate::providers::pool::Service;
use crate::providers::{Listed, Listing, Observed, ProviderResult, Sequence};

/// By how much the clocks of a cloud's hosts are thought to differ. What changed within this time before the newest change
/// is shown again each time; more would only make that list longer.
const CLOCKS_APART_MAX: SignedDuration = SignedDuration::from_mins(1);

/// What we look at of a port, so that nothing else is sent.
const PORT_FIELDS: [&str; 8] =
    ["id", "name", "description", "device_id", "mac_address", "fixed_ips", "security_groups", "allowed_address_pairs"];

/// Which server a machine is, and how it was when it was last looked at.
pub(super) struct Machine {
    of: ServerId,
    fingerprint: u64,
}

/// Ports, by the server that they are named after.
pub(super) struct Ports {
    sequence: Sequence,
    by_server: BTreeMap<Uuid, Vec<PortBody>>,
}

impl Ports {
    /// The one that the machine has, or else the first: that there are more is for its actor to find.
    fn find(&self, server: Uuid, machine: &str) -> Option<&PortBody> {
        let ports = self.by_server.get(&server)?;
        ports.iter().find(|port| port.device_id == machine).or_else(|| ports.first())
    }

    fn ids(&self) -> Vec<String> {
        self.by_server.values().flatten().map(|port| port.id.clone()).collect()
    }

    /// Does some machine have one of them?
    fn are_held(&self, server: Uuid) -> bool {
        self.by_server.get(&server).is_some_and(|ports| ports.iter().any(|port| !port.device_id.is_empty()))
    }
}

impl Line for PortBody {
    fn id(&self) -> &str {
        &self.id
    }
    fn of(&self) -> Option<Uuid> {
        names::id_in(&self.name, names::SERVER_PORT_PREFIX)
    }
}

impl Line for ServerBody {
    fn id(&self) -> &str {
        &self.id
    }
    fn of(&self) -> Option<Uuid> {
        Self::of(self).map(|id| id.0)
    }
}

fn servers(operation: &'static str) -> Source {
    Source::new(Service::Compute, "servers/detail", operation)
}

impl Session<'_> {
    pub(super) async fn list_servers(&self, look: Look<'_>) -> ProviderResult<Observed<Listing<Listed>>> {
        if let Some(only) = look.only
            && only.len() > NAMES_MAX
            && look.after.is_none()
            && let Some(changed) = self.changed_servers(only).await?
        {
            return self.list_changed_servers(only, &changed).await;
        }
        self.list_shown_servers(look).await
    }

    async fn list_shown_servers(&self, look: Look<'_>) -> ProviderResult<Observed<Listing<Listed>>> {
        let Some(place) = self.place(look, Service::Compute).await? else { return Ok(Listing::nothing()) };
        let beside = self.beside(look, &place).await?;
        let ports = self.server_ports(look, &beside).await?;
        let addresses = self.addresses(&beside, ports.ids()).await?;
        let tags = look.names(TAG_PREFIX).join(",");
        let mut source = servers("list-servers").with("tags-any", Some(tags).filter(|tags| !tags.is_empty()));
        if place.project.is_none() {
            source = source.with("all_tenants", ["1".to_owned()]);
            if look.only.is_none() && look.after.is_none() {
                self.sweeps().machines.clear();
            }
        }
        let mut page: Turned<ServerBody> = self.turn(look, &place, source).await?;
        if place.project.is_none() {
            self.note_machines(&page.items);
        }
        page.sequence = earlier(page.sequence, earlier(ports.sequence, addresses.sequence));
        let (sequence, flavors) = (page.sequence, self.flavor_names(&page.items).await?);
        let standing = Standing { ports: &ports, addresses: &addresses, flavors: &flavors };
        let mut told = page.told(|server| standing.listed(server, sequence));
        if beside.is_narrow() {
            let is_held = |id: &Uuid| ports.are_held(*id) && told.fact.items.iter().all(|item| item.key.id != *id);
            told.fact.unsure = look.only.into_iter().flatten().copied().filter(is_held).collect();
        }
        Ok(told)
    }

    async fn server_ports(&self, look: Look<'_>, beside: &Beside) -> ProviderResult<Arc<Ports>> {
        if let Some(held) = beside.held(&self.sweeps().ports) {
            return Ok(held);
        }
        let source = Source::new(Service::Network, "ports", "list-ports");
        let source = source.with("fields", PORT_FIELDS.map(str::to_owned));
        let source = source.with("name", look.names(names::SERVER_PORT_PREFIX));
        let listed: Observed<Vec<PortBody>> = self.all_beside(beside, &source).await?;
        let mut by_server = BTreeMap::<Uuid, Vec<PortBody>>::new();
        for port in listed.fact {
            if let Some(server) = port.of() {
                by_server.entry(server).or_default().push(port);
            }
        }
        let ports = Arc::new(Ports { sequence: listed.sequence, by_server });
        beside.keep(&mut self.sweeps().ports, &ports);
        Ok(ports)
    }

    /// Those of many that have changed since they were last looked at, or are gone: as many as can be looked at as a few.
    /// `None` where there is nothing to compare with, or where not everything is shown.
    async fn changed_servers(&self, only: &[Uuid]) -> ProviderResult<Option<Vec<Uuid>>> {
        let Some(newest) = self.sweeps().newest else { return Ok(None) };
        if !self.sees_everything(Service::Compute).await? {
            return Ok(None);
        }
        let since = newest.checked_sub(CLOCKS_APART_MAX).unwrap_or(newest);
        let source = servers("list-changed-servers").with("all_tenants", ["1".to_owned()]);
        let source = source.with("changes-since", [since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()]);
        let seen: Vec<ServerBody> = self.all(&Acting::Observer, &source).await?.fact;
        let mut sweeps = self.sweeps();
        sweeps.newest = latest(&seen).max(Some(newest));
        let changed = seen.iter().filter_map(|server| {
            let known = sweeps.machines.get(&server.id);
            let is_new = known.is_none_or(|known| known.fingerprint != of_machine(server));
            // One that is gone says nothing of itself.
            let of = known.map(|known| known.of).or_else(|| server.of())?;
            is_new.then_some(of.0)
        });
        let changed = changed.collect::<BTreeSet<_>>().into_iter().filter(|id| only.contains(id));
        Ok(Some(changed.take(NAMES_MAX).collect()))
    }

    async fn list_changed_servers(&self, only: &[Uuid], changed: &[Uuid]) -> ProviderResult<Observed<Listing<Listed>>> {
        let mut told = if changed.is_empty() {
            Listing::nothing()
        } else {
            // What is still there is noted again by the look.
            self.sweeps().machines.retain(|_, machine| !changed.contains(&machine.of.0));
            self.list_shown_servers(Look { kind: Kind::Server, only: Some(changed), after: None }).await?
        };
        told.fact.unsure.extend(only.iter().filter(|id| !changed.contains(id)));
        Ok(told)
    }

    fn note_machines(&self, seen: &[ServerBody]) {
        let mut sweeps = self.sweeps();
        sweeps.newest = latest(seen).max(sweeps.newest);
        let machines = seen.iter().filter_map(|server| {
            let machine = Machine { of: server.of()?, fingerprint: of_machine(server) };
            Some((server.id.clone(), machine))
        });
        sweeps.machines.extend(machines);
    }
}

fn latest(servers: &[ServerBody]) -> Option<Timestamp> {
    servers.iter().filter_map(|server| server.updated).max()
}

/// Of the machine alone.
fn of_machine(server: &ServerBody) -> u64 {
    let view = View { server: Some(server.clone()), ..View::default() };
    server_plan::fact(&view, &FlavorNames::default(), None).fingerprint
}

/// What servers stand on.
struct Standing<'a> {
    ports: &'a Ports,
    addresses: &'a Addresses,
    flavors: &'a FlavorNames,
}

impl Standing<'_> {
    fn listed(&self, server: ServerBody, sequence: Sequence) -> Option<Listed> {
        let id = ServerBody::of(&server)?;
        let port = self.ports.find(id.0, &server.id);
        // A double: another machine has the port that it was made on. That one is told of, and its actor finds this one.
        if port.is_some_and(|port| !port.device_id.is_empty() && port.device_id != server.id) {
            return None;
        }
        let incarnation = incarnation(&server, port)?;
        let is_of_it = |port: &&PortBody| names::incarnation_in(&port.description).is_none_or(|of| of == incarnation);
        let port = port.filter(is_of_it);
        let description = names::described(&names::server_port(id), incarnation);
        let floating_ip = self.addresses.find(&description, port.map(|port| port.id.as_str())).cloned();
        let view = View { server: Some(server), port: port.cloned(), floating_ip, port_is_stale: false };
        let fact = server_plan::fact(&view, self.flavors, None);
        let fingerprint = fact.fingerprint;
        let fact = Fact::Server(Observed { sequence, fact });
        Some(Listed { key: Key::new(Kind::Server, id.0), incarnation, fingerprint, fact })
    }
}

/// Which life of a server it is. One that the cloud does not let us mark, as one that failed, has a port that says it.
fn incarnation(server: &ServerBody, port: Option<&PortBody>) -> Option<Incarnation> {
    let of_port = || names::incarnation_in(&port.filter(|port| port.device_id == server.id)?.description);
    server.incarnation().or_else(of_port)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MARKED: &str =
        "server-00000000-0000-0000-0000-000000000001 (incarnation=00000000-0000-0000-0000-000000000002)";

    fn server(tags: &[&str]) -> ServerBody {
        let body = json!({
            "id": "m", "created": "2026-11-18T15:00:00Z", "updated": "2026-11-18T15:00:01Z", "status": "ERROR",
            "tags": tags, "metadata": {"region:server_id": Uuid::from_u128(1).to_string()},
        });
        serde_json::from_value(body).expect("a server")
    }

    fn port(id: &str, device: &str) -> PortBody {
        let (device_id, description) = (device.to_owned(), MARKED.to_owned());
        PortBody { id: id.to_owned(), device_id, description, ..PortBody::default() }
    }

    #[test]
    fn which_life_a_server_is_of_is_said_by_its_tag_or_by_the_port_that_it_has() {
        let tagged = server(&["incarnation=00000000-0000-0000-0000-000000000009"]);
        let (of_tag, of_port) = (Incarnation(Uuid::from_u128(9)), Incarnation(Uuid::from_u128(2)));
        assert_eq!(incarnation(&tagged, Some(&port("p", "m"))), Some(of_tag));
        assert_eq!(incarnation(&server(&[]), Some(&port("p", "m"))), Some(of_port));
        assert_eq!(incarnation(&server(&[]), Some(&port("p", "another"))), None, "somebody else's port");
        assert_eq!(incarnation(&server(&[]), None), None);
    }

    #[test]
    fn of_several_ports_the_one_that_the_machine_has_is_shown() {
        let id = Uuid::from_u128(1);
        let by_server = BTreeMap::from([(id, vec![port("spare", ""), port("held", "m")])]);
        let ports = Ports { sequence: Sequence(1), by_server };
        assert_eq!(ports.find(id, "m").map(|port| port.id.as_str()), Some("held"));
        assert_eq!(ports.find(id, "another").map(|port| port.id.as_str()), Some("spare"));
        assert!(ports.are_held(id) && !ports.are_held(Uuid::nil()));
    }

    #[test]
    fn a_machine_that_changed_looks_different_and_the_newest_change_is_known() {
        let mut changed = server(&[]);
        assert_eq!(of_machine(&changed), of_machine(&server(&[])));
        changed.status = "ACTIVE".to_owned();
        assert_ne!(of_machine(&changed), of_machine(&server(&[])));
        assert_eq!(latest(&[changed]).map(|at| at.to_string()).as_deref(), Some("2026-11-18T15:00:01Z"));
        assert_eq!(latest(&[]), None);
    }
}
