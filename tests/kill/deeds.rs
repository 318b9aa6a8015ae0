//! What a client does with security groups, certificate authorities and servers: in order, out of order, and again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use regent::model::ids::{ImageId, NetworkId, ServerId};
use regent::providers::simulated::catalogue::{FLAVOR_STANDARD, IMAGE_GPU, IMAGE_UBUNTU};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::{Client, Heard, unexpected};
use super::ledger::Fate;
use super::machines::{Asked, KnownAuthority, KnownGroup, KnownServer, Power};
use super::report::Deed;
use super::rig::Life;
use super::wire::{asked, id_of};

/// A public key that nobody has the private part of.
const AUTHORITY_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

/// What servers are rebuilt between.
pub const IMAGES: [ImageId; 2] = [IMAGE_UBUNTU, IMAGE_GPU];

/// So few names that some are used again: a recreated server has its predecessor's id.
const SERVER_NAMES: usize = 3;

/// How many of each one client knows at most, those on their way out included, so that everything comes to rest soon.
const GROUPS_MAX: usize = 8;
const AUTHORITIES_MAX: usize = 4;
const SERVERS_MAX: usize = 6;

/// A verb that is acknowledged sooner than this was carried out; the server acknowledges one that is still open, and
/// will be carried out later, after ten seconds.
pub const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(9);

/// The verbs, and what a server is after each.
const VERBS: [(&str, Deed, Power); 4] = [
    ("start", Deed::Start, Power::Running),
    ("stop", Deed::Stop, Power::Stopped),
    ("softreboot", Deed::Reboot, Power::Running),
    ("hardreboot", Deed::Reboot, Power::Running),
];

fn rules(port: u16) -> Value {
    json!([{"direction": "ingress", "protocol": "tcp", "port": port}])
}

fn networking(asked: &Asked) -> Value {
    json!({"securityGroups": asked.groups, "publicIP": asked.public})
}

impl Client {
    pub fn pick(&mut self, ids: &[Uuid]) -> Option<Uuid> {
        if ids.is_empty() { None } else { Some(ids[self.random.usize(0..ids.len())]) }
    }

    /// Does one thing, on this network if it is about one.
    pub async fn machine_deed(&mut self, life: &Life, network: Uuid) -> Result<(), String> {
        let machines = &self.ledger.machines;
        let (groups, servers) = (machines.live_groups(network), machines.live_servers());
        let (group, server) = (self.pick(&groups), self.pick(&servers));
        match (self.random.u32(0..100), group, server) {
            (0..14, ..) => self.create_group(life, network).await,
            (14..20, Some(group), _) => self.update_group(life, group).await,
            (20..28, Some(group), _) => self.delete_group(life, group).await,
            (28..33, ..) => self.create_authority(life).await,
            (33..38, ..) => self.delete_an_authority(life).await,
            (38..56, ..) => self.create_server(life, network).await,
            (56..66, _, Some(server)) => self.update_server(life, server).await,
            (66..73, _, Some(server)) => self.delete_server(life, server).await,
            (73.., _, Some(server)) => self.verb(life, server).await,
            _ => Ok(()),
        }
    }

    async fn create_group(&mut self, life: &Life, network: Uuid) -> Result<(), String> {
        if self.ledger.machines.groups.len() >= GROUPS_MAX {
            return self.look(life).await.map(drop);
        }
        let (name, port) = (self.new_name(), self.random.u16(1..1000));
        let known = KnownGroup { name: name.clone(), network, ports: BTreeSet::from([port]), fate: Fate::Live };
        let body = json!({"metadata": self.metadata(&name), "spec": {"networkId": network, "rules": rules(port)}});
        self.ledger.machines.doubtful_groups.insert(name.clone(), known.clone());
        match self.ask(life, Method::POST, "/api/v2/securitygroups", Some(&body)).await? {
            Heard::Doubt => self.looked_in = 0,
            Heard::Answer(StatusCode::CREATED, answer) => {
                self.ledger.machines.doubtful_groups.remove(&name);
                self.ledger.machines.groups.insert(id_of(&answer)?, known);
                self.tally.count(Deed::CreateGroup);
            }
            Heard::Answer(status, answer) => return Err(unexpected("a group", status, &answer)),
        }
        Ok(())
    }

    async fn update_group(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let port = self.random.u16(1..1000);
        let known = self.ledger.machines.groups.get_mut(&id).expect("known");
        known.ports.insert(port);
        let name = known.name.clone();
        let body = json!({"metadata": self.metadata(&name), "spec": {"rules": rules(port)}});
        match self.ask(life, Method::PUT, &format!("/api/v2/securitygroups/{id}"), Some(&body)).await? {
            Heard::Doubt => self.looked_in = 0,
            Heard::Answer(StatusCode::ACCEPTED, answer) => {
                self.ledger.machines.groups.get_mut(&id).expect("known").ports = BTreeSet::from([port]);
                self.tally.count(Deed::UpdateGroup);
                if answer["spec"]["rules"] != rules(port) {
                    return Err(format!("port {port} was read back as {answer}"));
                }
            }
            Heard::Answer(status, answer) => return Err(unexpected("a change of a group", status, &answer)),
        }
        Ok(())
    }

    async fn delete_group(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let usage = self.ledger.machines.use_of_part(id).or(self.ledger.wares.use_of(id));
        let accepted = self.ask_deletion(life, &format!("/api/v2/securitygroups/{id}"), usage).await?;
        if let Some(fate) = Fate::after(accepted, usage) {
            self.ledger.machines.groups.get_mut(&id).expect("known").fate = fate;
        }
        if accepted == Some(true) {
            self.tally.count(Deed::DeleteGroup);
        }
        Ok(())
    }

    async fn create_authority(&mut self, life: &Life) -> Result<(), String> {
        if self.ledger.machines.authorities.len() >= AUTHORITIES_MAX {
            return self.look(life).await.map(drop);
        }
        let name = self.new_name();
        let body = json!({
            "metadata": self.metadata(&name),
            "spec": {
                "organizationId": life.start.organization_id,
                "projectId": life.start.project_id,
                "publicKey": AUTHORITY_KEY,
            },
        });
        self.ledger.machines.doubtful_authorities.insert(name.clone());
        match self.ask(life, Method::POST, "/api/v2/sshcertificateauthorities", Some(&body)).await? {
            Heard::Doubt => self.looked_in = 0,
            Heard::Answer(StatusCode::CREATED, answer) => {
                self.ledger.machines.doubtful_authorities.remove(&name);
                let known = KnownAuthority { name, fate: Fate::Live };
                self.ledger.machines.authorities.insert(id_of(&answer)?, known);
                self.tally.count(Deed::CreateAuthority);
            }
            Heard::Answer(status, answer) => return Err(unexpected("an authority", status, &answer)),
        }
        Ok(())
    }

    async fn delete_an_authority(&mut self, life: &Life) -> Result<(), String> {
        let authorities = self.ledger.machines.live_authorities();
        match self.pick(&authorities) {
            Some(id) => self.delete_authority(life, id).await,
            None => Ok(()),
        }
    }

    pub async fn delete_authority(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let usage = self.ledger.machines.use_of_authority(id);
        let accepted = self.ask_deletion(life, &format!("/api/v2/sshcertificateauthorities/{id}"), usage).await?;
        if let Some(fate) = Fate::after(accepted, usage) {
            self.ledger.machines.authorities.get_mut(&id).expect("known").fate = fate;
        }
        if accepted == Some(true) {
            self.tally.count(Deed::DeleteAuthority);
        }
        Ok(())
    }

    pub fn new_ask(&mut self, network: Uuid) -> Asked {
        let groups = self.ledger.machines.live_groups(network).into_iter().filter(|_| self.random.bool()).collect();
        let own = self.ledger.wares.bootable(self.ledger.networks[&network].region);
        let own = self.pick(&own).filter(|_| self.random.bool());
        let image = own.unwrap_or_else(|| IMAGES[self.random.usize(0..IMAGES.len())].0);
        Asked { groups, image, public: self.random.u8(0..3) == 0 }
    }

    async fn create_server(&mut self, life: &Life, network: Uuid) -> Result<(), String> {
        let name = format!("server-{}", self.random.usize(0..SERVER_NAMES));
        let id = ServerId::named(NetworkId(network), &name).0;
        if self.ledger.machines.servers.len() >= SERVERS_MAX {
            return self.look(life).await.map(drop);
        }
        let before = self.ledger.machines.servers.get(&id).map(|known| known.fate);
        let authorities = self.ledger.machines.live_authorities();
        let authority = if self.random.u8(0..3) == 0 { self.pick(&authorities) } else { None };
        let ask = self.new_ask(network);
        let mut spec = json!({
            "networkId": network, "flavorId": FLAVOR_STANDARD, "imageId": ask.image, "networking": networking(&ask),
        });
        if let Some(authority) = authority {
            spec["sshCertificateAuthorityId"] = json!(authority);
        }
        let known = KnownServer {
            name: name.clone(),
            network,
            authority,
            used: ask.uses().collect(),
            asked: BTreeSet::from([ask]),
            power: BTreeSet::from([Power::Running]),
            fate: Fate::Live,
        };
        let body = json!({"metadata": self.metadata(&name), "spec": spec});
        let heard = self.ask(life, Method::POST, "/api/v2/servers", Some(&body)).await?;
        match heard {
            // Of one that is there a second is refused, answered or not.
            Heard::Doubt if before == Some(Fate::Live) => {}
            Heard::Doubt => {
                self.ledger.machines.doubtful_servers.insert(id, known);
                self.looked_in = 0;
            }
            Heard::Answer(StatusCode::CREATED, answer) if before != Some(Fate::Live) && id_of(&answer)? == id => {
                self.ledger.machines.servers.insert(id, known);
                self.tally.count(Deed::CreateServer);
            }
            Heard::Answer(StatusCode::CONFLICT, _) if before.is_some() => self.tally.refused += 1,
            Heard::Answer(status, answer) => {
                return Err(unexpected(&format!("a server {name} after one that is {before:?}"), status, &answer));
            }
        }
        Ok(())
    }

    fn server(&mut self, id: Uuid) -> &mut KnownServer {
        self.ledger.machines.servers.get_mut(&id).expect("known")
    }

    async fn update_server(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let network = self.server(id).network;
        let ask = self.new_ask(network);
        let known = self.server(id);
        known.used.extend(ask.uses());
        known.asked.insert(ask.clone());
        let name = known.name.clone();
        let spec = json!({"flavorId": FLAVOR_STANDARD, "imageId": ask.image, "networking": networking(&ask)});
        let body = json!({"metadata": self.metadata(&name), "spec": spec});
        match self.ask(life, Method::PUT, &format!("/api/v2/servers/{id}"), Some(&body)).await? {
            Heard::Doubt => self.looked_in = 0,
            Heard::Answer(StatusCode::ACCEPTED, answer) => {
                if asked(&answer["spec"]).as_ref() != Some(&ask) {
                    return Err(format!("{ask:?} was read back as {answer}"));
                }
                self.server(id).asked = BTreeSet::from([ask]);
                self.tally.count(Deed::UpdateServer);
            }
            Heard::Answer(status, answer) => return Err(unexpected("a change of a server", status, &answer)),
        }
        Ok(())
    }

    pub async fn delete_server(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let usage = self.ledger.wares.use_of(id);
        let accepted = self.ask_deletion(life, &format!("/api/v2/servers/{id}"), usage).await?;
        if let Some(fate) = Fate::after(accepted, usage) {
            self.server(id).fate = fate;
        }
        if accepted == Some(true) {
            self.tally.count(Deed::DeleteServer);
        }
        Ok(())
    }

    /// A verb is done, or refused by the state of the server; without an answer it may be done, now or later.
    async fn verb(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        // What was stopped is started again more often than chance would have it.
        let stopped = self.server(id).power.contains(&Power::Stopped);
        let verb = if stopped && self.random.bool() { 0 } else { self.random.usize(0..VERBS.len()) };
        let (word, deed, power) = VERBS[verb];
        let is_reboot = deed == Deed::Reboot;
        self.reboots.entry(id).or_default().tried += u64::from(is_reboot);
        let began = Instant::now();
        let heard = self.ask(life, Method::POST, &format!("/api/v2/servers/{id}/{word}"), None).await?;
        match heard {
            Heard::Answer(StatusCode::ACCEPTED, _) if began.elapsed() < CARRIED_OUT_WITHIN => {
                self.server(id).power = BTreeSet::from([power]);
                self.reboots.entry(id).or_default().done += u64::from(is_reboot);
                self.tally.count(deed);
            }
            Heard::Doubt | Heard::Answer(StatusCode::ACCEPTED, _) => drop(self.server(id).power.insert(power)),
            Heard::Answer(StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND, _) => self.tally.refused += 1,
            Heard::Answer(status, answer) => return Err(unexpected(word, status, &answer)),
        }
        Ok(())
    }
}
