//! One of the clients that work while the server is killed: it asks, notes what it was told, and after every restart
//! looks whether all of it is still so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use regent::model::ids::RegionId;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use uuid::Uuid;

use super::ledger::{Asked, Fate, Known, Ledger};
use super::machines::{Shown, Use};
use super::reboots::Reboots;
use super::report::{Deed, Tally};
use super::rig::Life;
use super::wares::Around;
use super::wire::{self, id_of};

/// How many live networks one client has at most. All clients' together are what a restart has to go through, and a
/// quiet point has to be reached from; more would test the same for longer.
const LIVE_MAX: usize = 5;

/// Beyond this many, those on their way out included, a client looks instead of asking for more: otherwise a server
/// that accepts faster than its clouds work would never be done.
const KNOWN_MAX: usize = 12;

/// How many deeds are about groups, authorities and servers, which take several deeds to become interesting; and how
/// many about what is on, beside and in them.
const MACHINE_DEEDS_PERCENT: u32 = 40;
const WARE_DEEDS_PERCENT: u32 = 30;

/// How long a living server may take for an answer. Far beyond what even a busy machine needs.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// What a client works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A few of everything.
    Everything,
    /// Instances on one network, and many of them.
    Instances,
}

impl Load {
    /// How many of each kind of ware one client knows at most, those on their way out included. Of everything:
    /// enough that two of them meet at one server or one network, and few enough that everything comes to rest soon.
    pub const fn wares_max(self) -> usize {
        match self {
            Self::Everything => 3,
            Self::Instances => 25,
        }
    }
}

/// What came back.
pub enum Heard {
    Answer(StatusCode, Value),
    /// The server was killed before it answered, or could not say: it has happened, or it has not.
    Doubt,
}

pub struct Client {
    pub load: Load,
    pub label: String,
    pub random: fastrand::Rng,
    http: reqwest::Client,
    life: watch::Receiver<Option<Life>>,
    pub regions: Vec<RegionId>,
    pub ledger: Ledger,
    pub tally: Tally,
    /// What was asked of each server, for as long as the campaign lasts.
    pub reboots: BTreeMap<Uuid, Reboots>,
    /// The life in which nothing is in doubt; none when something is.
    pub looked_in: u64,
    named: u64,
}

/// Asks until told to stop. A deed is done under the lock, so that whoever has all locks has a quiet server.
pub async fn work(client: Arc<Mutex<Client>>, stop: watch::Receiver<bool>) -> Result<(), String> {
    let mut life = client.lock().await.life.clone();
    while !*stop.borrow() {
        // An error means that the rig is gone, and so is the work.
        if life.wait_for(Option::is_some).await.is_err() {
            return Ok(());
        }
        client.lock().await.deed().await?;
    }
    Ok(())
}

pub fn unexpected(what: &str, status: StatusCode, answer: &Value) -> String {
    format!("{what} was answered {status}: {answer}")
}

impl Client {
    pub fn new(
        load: Load,
        (number, seed): (u64, u64),
        regions: Vec<RegionId>,
        life: watch::Receiver<Option<Life>>,
    ) -> Self {
        let http = reqwest::Client::builder().timeout(ANSWER_PATIENCE).no_proxy().build().expect("a client");
        Self {
            load,
            label: format!("client-{number}"),
            random: fastrand::Rng::with_seed(seed.wrapping_mul(1000) + number),
            http,
            life,
            regions,
            ledger: Ledger::default(),
            tally: Tally::default(),
            reboots: BTreeMap::new(),
            looked_in: 0,
            named: 0,
        }
    }

    pub async fn ask(
        &mut self,
        life: &Life,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Heard, String> {
        let mut request = self.http.request(method.clone(), format!("{}{path}", life.start.api_url));
        request = request.bearer_auth(&life.start.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = async {
            let response = request.send().await?;
            let status = response.status();
            let bytes = response.bytes().await?;
            Ok::<_, reqwest::Error>((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
        };
        match answer.await {
            Ok((StatusCode::SERVICE_UNAVAILABLE, _)) => {
                self.tally.unavailable += 1;
                Ok(Heard::Doubt)
            }
            Ok((status, answer)) if status.is_server_error() => {
                Err(unexpected(&format!("{method} {path}"), status, &answer))
            }
            Ok((status, answer)) => Ok(Heard::Answer(status, answer)),
            Err(error) => {
                let same = self.life.borrow().as_ref().is_some_and(|now| now.number == life.number);
                if same {
                    return Err(format!("{method} {path}: the server lived and did not answer: {error:?}"));
                }
                if method != Method::GET {
                    self.tally.doubts += 1;
                }
                Ok(Heard::Doubt)
            }
        }
    }

    /// Does one thing, whatever may be done now.
    pub async fn deed(&mut self) -> Result<(), String> {
        let Some(life) = self.life.borrow().clone() else { return Ok(()) };
        if self.looked_in != life.number || self.ledger.networks.len() >= KNOWN_MAX {
            return self.look(&life).await.map(drop);
        }
        let mine = self.ledger.live();
        if mine.is_empty() {
            return self.create(&life).await;
        }
        let id = mine[self.random.usize(0..mine.len())];
        if self.load == Load::Instances {
            return self.ware_deed(&life, id).await;
        }
        match self.random.u32(0..100) {
            0..MACHINE_DEEDS_PERCENT => return self.machine_deed(&life, id).await,
            chance if chance < MACHINE_DEEDS_PERCENT + WARE_DEEDS_PERCENT => return self.ware_deed(&life, id).await,
            _ => {}
        }
        match self.random.u32(0..100) {
            0..34 if mine.len() < LIVE_MAX => self.create(&life).await,
            0..54 => self.update(&life, id).await,
            54..76 => self.delete(&life, id).await,
            76..84 => self.add_reference(&life, id).await,
            84..94 => self.remove_a_reference(&life).await,
            _ => self.race(&life, id).await,
        }
    }

    /// A list; `None` when the server was killed meanwhile.
    pub async fn list(&mut self, life: &Life, path: &str) -> Result<Option<Value>, String> {
        match self.ask(life, Method::GET, path, None).await? {
            Heard::Doubt => Ok(None),
            Heard::Answer(StatusCode::OK, list) => Ok(Some(list)),
            Heard::Answer(status, answer) => Err(unexpected("a list", status, &answer)),
        }
    }

    /// Networks first: what is gone with its network is not shown after it.
    async fn lists(&mut self, life: &Life) -> Result<Option<[Value; 4]>, String> {
        let mut lists = [Value::Null, Value::Null, Value::Null, Value::Null];
        let plurals = ["networks", "securitygroups", "sshcertificateauthorities", "servers"];
        for (list, plural) in lists.iter_mut().zip(plurals) {
            let path = format!("/api/v2/{plural}?tag=client%3D{}", self.label);
            let Some(answer) = self.list(life, &path).await? else { return Ok(None) };
            *list = answer;
        }
        Ok(Some(lists))
    }

    /// Looks at everything of this client and compares. `None` when the server was killed meanwhile.
    pub async fn look(&mut self, life: &Life) -> Result<Option<Shown>, String> {
        let Some([networks, groups, authorities, servers]) = self.lists(life).await? else { return Ok(None) };
        let Some(wares) = self.wares(life).await? else { return Ok(None) };
        self.tally.looks += 1;
        let mut machines = wire::machines([&groups, &authorities, &servers])?;
        // What works for an instance is nobody's to ask for.
        machines.servers.retain(|_, server| server.instance.is_none());
        let networks = wire::networks(&networks)?;
        let compared = self.ledger.compare(&networks).and_then(|()| {
            let Ledger { networks, machines: known, wares: known_wares, .. } = &mut self.ledger;
            known.compare(&machines, networks)?;
            known_wares.compare(&wares, Around { networks, servers: &known.servers, groups: &known.groups })
        });
        compared.map_err(|text| format!("{}, life {}: {text}", self.label, life.number))?;
        for id in self.ledger.live() {
            let doubtful = self.ledger.networks[&id].doubtful.iter().cloned().collect::<Vec<_>>();
            for holder in doubtful {
                if !self.remove_reference(life, id, &holder).await? {
                    return Ok(None);
                }
            }
        }
        self.looked_in = life.number;
        Ok(Some(machines))
    }

    fn known(&mut self, id: Uuid) -> &mut Known {
        self.ledger.networks.get_mut(&id).expect("known")
    }

    fn servers(&mut self) -> Vec<String> {
        (0..self.random.usize(0..3)).map(|_| Ipv4Addr::from(self.random.u32(..)).to_string()).collect()
    }

    pub fn new_name(&mut self) -> String {
        self.named += 1;
        format!("{}-{}", self.label, self.named)
    }

    /// By its tag a client finds what is its own.
    pub fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "tags": [{"name": "client", "value": self.label}]})
    }

    async fn create(&mut self, life: &Life) -> Result<(), String> {
        let name = self.new_name();
        let region = self.regions[self.random.usize(0..self.regions.len())];
        let asked = Asked { region, servers: self.servers() };
        let body = json!({
            "metadata": self.metadata(&name),
            "spec": {
                "organizationId": life.start.organization_id,
                "projectId": life.start.project_id,
                "regionId": region,
                "prefix": "10.1.0.0/24",
                "dnsNameservers": asked.servers,
            },
        });
        self.ledger.doubtful.insert(name.clone(), asked.clone());
        match self.ask(life, Method::POST, "/api/v2/networks", Some(&body)).await? {
            Heard::Doubt => Ok(()),
            Heard::Answer(StatusCode::CREATED, answer) => {
                self.ledger.doubtful.remove(&name);
                let id = id_of(&answer)?;
                self.ledger.networks.insert(id, Known::new(&name, &asked));
                self.tally.count(Deed::CreateNetwork);
                Ok(())
            }
            Heard::Answer(status, answer) => Err(unexpected("a create", status, &answer)),
        }
    }

    async fn update(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let servers = self.servers();
        let name = self.known(id).name.clone();
        let metadata = self.metadata(&name);
        let body = json!({"metadata": metadata, "spec": {"dnsNameservers": servers}});
        self.known(id).servers.insert(servers.clone());
        match self.ask(life, Method::PUT, &format!("/api/v2/networks/{id}"), Some(&body)).await? {
            Heard::Doubt => Ok(()),
            Heard::Answer(StatusCode::ACCEPTED, answer) => {
                self.known(id).servers = BTreeSet::from([servers.clone()]);
                self.tally.count(Deed::UpdateNetwork);
                let read = &answer["spec"]["dnsNameservers"];
                if *read == json!(servers) { Ok(()) } else { Err(format!("{servers:?} was read back as {read}")) }
            }
            Heard::Answer(status, answer) => Err(unexpected("an update", status, &answer)),
        }
    }

    /// Asks for a deletion, which must be refused exactly when something is in use. `None` when no answer came.
    pub async fn ask_deletion(&mut self, life: &Life, path: &str, usage: Use) -> Result<Option<bool>, String> {
        match self.ask(life, Method::DELETE, path, None).await? {
            Heard::Doubt => {
                self.looked_in = 0;
                Ok(None)
            }
            Heard::Answer(StatusCode::ACCEPTED, _) if !usage.certain => Ok(Some(true)),
            Heard::Answer(StatusCode::FORBIDDEN, answer) if usage.possible && says_in_use(&answer) => {
                self.tally.refused += 1;
                Ok(Some(false))
            }
            Heard::Answer(status, answer) => Err(unexpected(&format!("DELETE {path} ({usage:?})"), status, &answer)),
        }
    }

    pub async fn delete(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let referred = !self.known(id).references.is_empty();
        let usage = self.ledger.use_of_network(id).or(Use { certain: referred, possible: referred });
        let accepted = self.ask_deletion(life, &format!("/api/v2/networks/{id}"), usage).await?;
        if let Some(fate) = Fate::after(accepted, usage) {
            self.known(id).fate = fate;
        }
        if accepted == Some(true) {
            self.tally.count(Deed::DeleteNetwork);
        }
        Ok(())
    }

    fn new_reference(&mut self, id: Uuid) -> (String, String) {
        let holder = format!("instances.compute.example.org/{}", Uuid::from_u128(self.random.u128(..) | 1));
        let path = reference_path(id, &holder);
        self.known(id).doubtful.insert(holder.clone());
        (holder, path)
    }

    async fn add_reference(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let (holder, path) = self.new_reference(id);
        match self.ask(life, Method::PUT, &path, None).await? {
            Heard::Doubt => {
                // Whether it counts is not known, and cannot be read: it is taken back before anything else is done.
                self.looked_in = 0;
                Ok(())
            }
            Heard::Answer(StatusCode::CREATED, _) => {
                self.referred(id, &holder);
                Ok(())
            }
            Heard::Answer(status, answer) => Err(unexpected("a reference", status, &answer)),
        }
    }

    fn referred(&mut self, id: Uuid, holder: &str) {
        self.known(id).doubtful.remove(holder);
        self.known(id).references.insert(holder.to_owned());
        self.tally.count(Deed::Refer);
    }

    async fn remove_a_reference(&mut self, life: &Life) -> Result<(), String> {
        let held = self.ledger.networks.iter().filter_map(|(id, known)| Some((*id, known.references.first()?.clone())));
        let held = held.collect::<Vec<_>>();
        if held.is_empty() {
            return Ok(());
        }
        let (id, holder) = &held[self.random.usize(0..held.len())];
        self.remove_reference(life, *id, holder).await.map(|_| ())
    }

    /// False when no answer came.
    pub async fn remove_reference(&mut self, life: &Life, id: Uuid, holder: &str) -> Result<bool, String> {
        self.known(id).references.remove(holder);
        self.known(id).doubtful.insert(holder.to_owned());
        match self.ask(life, Method::DELETE, &reference_path(id, holder), None).await? {
            Heard::Doubt => {
                self.looked_in = 0;
                Ok(false)
            }
            Heard::Answer(StatusCode::NO_CONTENT, _) => {
                self.known(id).doubtful.remove(holder);
                Ok(true)
            }
            Heard::Answer(status, answer) => Err(unexpected("the removal of a reference", status, &answer)),
        }
    }

    /// A reference and a deletion at the same time: one of them must win, and stay the winner.
    async fn race(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        if !self.known(id).references.is_empty() || self.ledger.use_of_network(id).possible {
            return Ok(());
        }
        let (holder, path) = self.new_reference(id);
        let mut other = Self::new(self.load, (0, 0), vec![], self.life.clone());
        let own_path = format!("/api/v2/networks/{id}");
        let (added, deleted) =
            tokio::join!(other.ask(life, Method::PUT, &path, None), self.ask(life, Method::DELETE, &own_path, None));
        self.tally.add(&other.tally);
        match (added?, deleted?) {
            (Heard::Answer(StatusCode::CREATED, _), Heard::Answer(StatusCode::FORBIDDEN, _) | Heard::Doubt) => {
                self.referred(id, &holder);
            }
            (Heard::Answer(lost, _), Heard::Answer(StatusCode::ACCEPTED, _)) if lost.is_client_error() => {
                self.known(id).fate = Fate::DeletionAccepted;
                self.tally.count(Deed::DeleteNetwork);
            }
            (Heard::Doubt, Heard::Answer(StatusCode::ACCEPTED, _)) => {
                self.known(id).fate = Fate::DeletionAccepted;
                self.tally.count(Deed::DeleteNetwork);
            }
            // A refusal means that the deletion was accepted, or the network was gone by then.
            (Heard::Answer(lost, _), Heard::Doubt) if lost.is_client_error() => {
                self.known(id).fate = Fate::DeletionInDoubt;
            }
            (Heard::Doubt, Heard::Answer(StatusCode::FORBIDDEN, _)) => self.looked_in = 0,
            (Heard::Doubt, Heard::Doubt) => {
                self.known(id).fate = Fate::DeletionInDoubt;
                self.looked_in = 0;
            }
            (Heard::Answer(added, one), Heard::Answer(deleted, other)) => {
                return Err(format!("a reference was answered {added} ({one}) and a deletion {deleted} ({other})"));
            }
            (Heard::Doubt, Heard::Answer(status, answer)) | (Heard::Answer(status, answer), Heard::Doubt) => {
                return Err(unexpected("a race", status, &answer));
            }
        }
        Ok(())
    }
}

fn reference_path(id: Uuid, holder: &str) -> String {
    format!("/api/v2/networks/{id}/references/{}", holder.replace('/', "%2F"))
}

fn says_in_use(answer: &Value) -> bool {
    answer["error_description"].as_str().is_some_and(|text| text.contains("in use"))
}
