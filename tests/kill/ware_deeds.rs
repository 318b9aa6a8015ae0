//! What a client does with load balancers, volumes, file storages, images and instances.

use std::collections::BTreeSet;
use std::time::Instant;

use regent::model::ids::FlavorId;
use regent::providers::simulated::catalogue::{FLAVOR_GPU, FLAVOR_LARGE, FLAVOR_STANDARD};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::{Client, Heard, Load, unexpected};
use super::deeds::CARRIED_OUT_WITHIN;
use super::ledger::Fate;
use super::machines::{self, Power, Use};
use super::report::Deed;
use super::rig::Life;
use super::wares::{Asked, DOORS, KnownWare, Shown, Ware, fixed};
use super::wire::{self, id_of};

/// What instances are resized between. From the one with the larger disk there is no way back but another machine.
const FLAVORS: [FlavorId; 3] = [FLAVOR_STANDARD, FLAVOR_LARGE, FLAVOR_GPU];

/// The verbs, and what an instance is after each.
const VERBS: [(&str, Deed, Power); 4] = [
    ("start", Deed::Start, Power::Running),
    ("stop", Deed::Stop, Power::Stopped),
    ("reboot", Deed::Reboot, Power::Running),
    ("reboot?hard=true", Deed::Reboot, Power::Running),
];

/// What is understood and refused because of how far something else is; nothing was accepted.
fn is_too_early(ware: Ware, status: StatusCode, answer: &Value) -> bool {
    let text = answer["error_description"].as_str().unwrap_or_default();
    let rule = match ware {
        Ware::Storage => "that are provisioned",
        Ware::Image => "has not been started",
        _ => return false,
    };
    status == StatusCode::UNPROCESSABLE_ENTITY && text.contains(rule)
}

impl Client {
    /// Everything of these kinds that is this client's own; `None` when the server was killed meanwhile.
    pub async fn wares(&mut self, life: &Life) -> Result<Option<Shown>, String> {
        let mut shown = Shown::new();
        for list in Ware::lists(life.start.organization_id, &self.regions) {
            let path = match list.ware {
                Ware::Image => list.path.clone(),
                _ => format!("{}?tag=client%3D{}", list.path, self.label),
            };
            let Some(answer) = self.list(life, &path).await? else { return Ok(None) };
            shown.extend(wire::wares(&list, &answer, Some(&self.label))?);
        }
        Ok(Some(shown))
    }

    /// Does one thing, on this network if it is about one.
    pub async fn ware_deed(&mut self, life: &Life, network: Uuid) -> Result<(), String> {
        let ware = match self.load {
            Load::Everything => Ware::ALL[self.random.usize(0..Ware::ALL.len())],
            Load::Instances => Ware::Instance,
        };
        let networks = self.ledger.live();
        let mut mine = self.ledger.wares.live(ware);
        // What goes with its network may be gone at any moment.
        mine.retain(|id| self.ledger.wares.known[id].network.is_none_or(|network| networks.contains(&network)));
        match (self.random.u32(0..100), self.pick(&mine)) {
            (0..40, _) | (_, None) => self.make_ware(life, ware, network).await,
            (40..75, Some(id)) if ware != Ware::Image => {
                let ask = self.next_ask(id);
                self.change_ware(life, id, ask).await
            }
            (75..88, Some(id)) if ware == Ware::Instance => self.instance_verb(life, id).await,
            (_, Some(id)) => self.delete_ware(life, id).await,
        }
    }

    /// What one on this network, which may be attached to any of its region, might be asked to be.
    fn ware_ask(&mut self, ware: Ware, network: Uuid) -> Asked {
        let region = self.ledger.networks[&network].region;
        let mut ask = Asked::default();
        match ware {
            Ware::Balancer => {
                ask.public = self.random.u8(0..3) == 0;
                let first = self.random.usize(0..DOORS.len());
                let doors = DOORS.into_iter().enumerate();
                let doors = doors.filter(|(at, _)| *at == first || self.random.bool()).map(|(_, (name, _))| name);
                let doors = doors.collect::<Vec<_>>();
                ask.doors = doors.into_iter().map(|name| (name.to_owned(), self.random.u16(1..1000))).collect();
            }
            Ware::Volume => {
                ask.size_gib = self.random.u64(1..20);
                let mut servers = self.ledger.machines.live_servers();
                servers.retain(|id| self.ledger.machines.servers[id].network == network);
                ask.server = self.pick(&servers).filter(|_| self.random.u8(0..3) > 0);
            }
            Ware::Storage => {
                ask.size_gib = self.random.u64(1..20);
                let mut networks = self.ledger.live();
                networks.retain(|id| self.ledger.networks[id].region == region && self.random.bool());
                ask.networks = networks.into_iter().collect();
            }
            Ware::Instance => {
                let machines::Asked { groups, image, public } = self.new_ask(network);
                (ask.groups, ask.image, ask.public) = (groups, Some(image), public);
                ask.flavor = Some(FLAVORS[self.random.usize(0..FLAVORS.len())].0);
            }
            Ware::Image => {}
        }
        ask
    }

    /// What one might become: nothing shrinks.
    fn next_ask(&mut self, id: Uuid) -> Asked {
        let known = self.ledger.wares.known[&id].clone();
        let here = self.ledger.live().into_iter().find(|id| self.ledger.networks[id].region == known.region);
        let Some(network) = known.network.or(here) else { return known.settled().clone() };
        let growth = if self.random.bool() { self.random.u64(1..5) } else { 0 };
        let mut ask = self.ware_ask(known.ware, network);
        if ask.size_gib > 0 {
            ask.size_gib = known.settled().size_gib + growth;
        }
        ask
    }

    async fn make_ware(&mut self, life: &Life, ware: Ware, network: Uuid) -> Result<(), String> {
        if self.ledger.wares.of(ware).count() >= self.load.wares_max() {
            return self.look(life).await.map(drop);
        }
        let organization = life.start.organization_id;
        let name = self.new_name();
        let region = self.ledger.networks[&network].region;
        let home = matches!(ware, Ware::Balancer | Ware::Volume | Ware::Instance).then_some(network);
        let mut known = KnownWare::new(ware, &name, region, home, self.ware_ask(ware, network));
        let mut body = json!({"metadata": self.metadata(&name), "spec": known.settled().spec(ware)});
        let fixed = fixed(&known, organization, life.start.project_id);
        let said = body["spec"].as_object_mut().expect("an object");
        said.extend(fixed.as_object().expect("an object").clone());
        let (mut path, mut deed) = (ware.path(organization, region), Deed::Make(ware));
        let servers = self.ledger.machines.live_servers();
        let server = self.pick(&servers).filter(|_| ware == Ware::Image && self.random.bool());
        if let Some(server) = server {
            known.region = self.ledger.networks[&self.ledger.machines.servers[&server].network].region;
            known.used.insert(server);
            (path, deed) = (format!("/api/v2/servers/{server}/snapshot"), Deed::Snapshot);
            body["spec"] = json!({});
        }
        self.ledger.wares.doubtful.insert(name.clone(), known.clone());
        match self.ask(life, Method::POST, &path, Some(&body)).await? {
            Heard::Doubt => self.looked_in = 0,
            Heard::Answer(StatusCode::OK | StatusCode::CREATED, answer) => {
                self.ledger.wares.doubtful.remove(&name);
                self.ledger.wares.known.insert(id_of(&answer)?, known);
                self.tally.count(deed);
            }
            Heard::Answer(status, answer) if is_too_early(ware, status, &answer) => {
                self.ledger.wares.doubtful.remove(&name);
                self.tally.refused += 1;
            }
            Heard::Answer(status, answer) => return Err(unexpected(&format!("{deed:?}"), status, &answer)),
        }
        Ok(())
    }

    fn ware(&mut self, id: Uuid) -> &mut KnownWare {
        self.ledger.wares.known.get_mut(&id).expect("known")
    }

    async fn change_ware(&mut self, life: &Life, id: Uuid, ask: Asked) -> Result<(), String> {
        let known = self.ware(id);
        let (ware, before, name) = (known.ware, known.asked.clone(), known.name.clone());
        let path = format!("{}/{id}", ware.path(life.start.organization_id, known.region));
        if known.settled().flavor != ask.flavor {
            known.is_reshaped = true;
            known.power.insert(Power::Running);
        }
        known.asked.insert(ask.clone());
        known.used.extend(known.needs());
        let body = json!({"metadata": self.metadata(&name), "spec": ask.spec(ware)});
        match self.ask(life, Method::PUT, &path, Some(&body)).await? {
            Heard::Doubt => self.looked_in = 0,
            Heard::Answer(StatusCode::ACCEPTED, answer) => {
                if wire::ware_asked(ware, &answer["spec"]).as_ref() != Some(&ask) {
                    return Err(format!("{ask:?} was read back as {answer}"));
                }
                self.ware(id).asked = BTreeSet::from([ask]);
                self.tally.count(Deed::Change(ware));
            }
            Heard::Answer(status, answer) if is_too_early(ware, status, &answer) => {
                self.ware(id).asked = before;
                self.tally.refused += 1;
            }
            Heard::Answer(status, answer) => {
                return Err(unexpected(&format!("a change of {ware:?} {id}"), status, &answer));
            }
        }
        Ok(())
    }

    pub async fn delete_ware(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let known = self.ware(id);
        let (ware, claimed) = (known.ware, known.settled().server.is_some());
        let path = format!("{}/{id}", ware.path(life.start.organization_id, known.region));
        let usage = match ware {
            Ware::Volume => Use { certain: claimed, possible: claimed },
            Ware::Image => self.ledger.machines.use_of_part(id).or(self.ledger.wares.use_of(id)),
            Ware::Balancer | Ware::Storage | Ware::Instance => Use::default(),
        };
        let accepted = self.ask_deletion(life, &path, usage).await?;
        if let Some(fate) = Fate::after(accepted, usage) {
            self.ware(id).fate = fate;
        }
        if accepted == Some(true) {
            self.tally.count(Deed::Delete(ware));
        }
        Ok(())
    }

    /// A verb is done, or refused by the state of the server; without an answer it may be done, now or later.
    async fn instance_verb(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let stopped = self.ware(id).power.contains(&Power::Stopped);
        let verb = if stopped && self.random.bool() { 0 } else { self.random.usize(0..VERBS.len()) };
        let (word, deed, power) = VERBS[verb];
        let (is_reboot, server) = (deed == Deed::Reboot, self.ware(id).server().expect("an instance"));
        self.reboots.entry(server).or_default().tried += u64::from(is_reboot);
        let began = Instant::now();
        let heard = self.ask(life, Method::POST, &format!("/api/v2/instances/{id}/{word}"), None).await?;
        match heard {
            Heard::Answer(StatusCode::ACCEPTED, _) if began.elapsed() < CARRIED_OUT_WITHIN => {
                self.ware(id).switched(power);
                self.reboots.entry(server).or_default().done += u64::from(is_reboot);
                self.tally.count(deed);
            }
            Heard::Doubt | Heard::Answer(StatusCode::ACCEPTED, _) => drop(self.ware(id).power.insert(power)),
            Heard::Answer(StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND, _) => self.tally.refused += 1,
            Heard::Answer(status, answer) => return Err(unexpected(word, status, &answer)),
        }
        Ok(())
    }

    /// Takes every volume from its server, and deletes everything of these kinds.
    pub async fn clear(&mut self, life: &Life, ware: Ware) -> Result<(), String> {
        for id in self.ledger.wares.live(ware) {
            if self.ware(id).settled().server.is_some() {
                let ask = Asked { server: None, ..self.ware(id).settled().clone() };
                self.change_ware(life, id, ask).await?;
            }
            self.delete_ware(life, id).await?;
        }
        Ok(())
    }
}
