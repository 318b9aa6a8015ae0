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

use super::ledger::{Asked, Fate, Known, Ledger, Shown};
use super::rig::Life;

/// How many live networks one client has at most. All clients' together are what a restart has to go through, and a
/// quiet point has to be reached from; more would test the same for longer.
const LIVE_MAX: usize = 8;

/// Beyond this many, those on their way out included, a client looks instead of asking for more: otherwise a server
/// that accepts faster than its clouds work would never be done.
const KNOWN_MAX: usize = 16;

/// How long a living server may take for an answer. Far beyond what even a busy machine needs.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// What came back.
pub enum Heard {
    Answer(StatusCode, Value),
    /// The server was killed before it answered, or could not say: it has happened, or it has not.
    Doubt,
}

/// What all clients were told, together.
#[derive(Debug, Default)]
pub struct Tally {
    pub creates: u64,
    pub updates: u64,
    pub deletes: u64,
    pub references: u64,
    pub refused: u64,
    pub doubts: u64,
    pub unavailable: u64,
    pub looks: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.creates += other.creates;
        self.updates += other.updates;
        self.deletes += other.deletes;
        self.references += other.references;
        self.refused += other.refused;
        self.doubts += other.doubts;
        self.unavailable += other.unavailable;
        self.looks += other.looks;
    }
}

pub struct Client {
    label: String,
    random: fastrand::Rng,
    http: reqwest::Client,
    life: watch::Receiver<Option<Life>>,
    regions: Vec<RegionId>,
    pub ledger: Ledger,
    pub tally: Tally,
    looked_in: u64,
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

fn unexpected(what: &str, status: StatusCode, answer: &Value) -> String {
    format!("{what} was answered {status}: {answer}")
}

impl Client {
    pub fn new(number: u64, seed: u64, regions: Vec<RegionId>, life: watch::Receiver<Option<Life>>) -> Self {
        let http = reqwest::Client::builder().timeout(ANSWER_PATIENCE).no_proxy().build().expect("a client");
        Self {
            label: format!("client-{number}"),
            random: fastrand::Rng::with_seed(seed.wrapping_mul(1000) + number),
            http,
            life,
            regions,
            ledger: Ledger::default(),
            tally: Tally::default(),
            looked_in: 0,
            named: 0,
        }
    }

    async fn ask(&mut self, life: &Life, method: Method, path: &str, body: Option<&Value>) -> Result<Heard, String> {
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
            return self.look(&life).await.map(|_| ());
        }
        let mine = self.ledger.live();
        if mine.is_empty() {
            return self.create(&life).await;
        }
        let id = mine[self.random.usize(0..mine.len())];
        match self.random.u32(0..100) {
            0..34 if mine.len() < LIVE_MAX => self.create(&life).await,
            0..54 => self.update(&life, id).await,
            54..76 => self.delete(&life, id).await.map(|_| ()),
            76..84 => self.add_reference(&life, id).await,
            84..94 => self.remove_a_reference(&life).await,
            _ => self.race(&life, id).await,
        }
    }

    /// Looks at everything of this client and compares. False when the server was killed meanwhile.
    pub async fn look(&mut self, life: &Life) -> Result<bool, String> {
        let path = format!("/api/v2/networks?tag=client%3D{}", self.label);
        let Heard::Answer(status, answer) = self.ask(life, Method::GET, &path, None).await? else { return Ok(false) };
        if status != StatusCode::OK {
            return Err(unexpected("a list", status, &answer));
        }
        self.tally.looks += 1;
        self.ledger
            .compare(&shown(&answer)?)
            .map_err(|text| format!("{}, life {}: {text}", self.label, life.number))?;
        for id in self.ledger.live() {
            let doubtful = self.ledger.networks[&id].doubtful.iter().cloned().collect::<Vec<_>>();
            for holder in doubtful {
                if !self.remove_reference(life, id, &holder).await? {
                    return Ok(false);
                }
            }
        }
        self.looked_in = life.number;
        Ok(true)
    }

    fn known(&mut self, id: Uuid) -> &mut Known {
        self.ledger.networks.get_mut(&id).expect("known")
    }

    fn servers(&mut self) -> Vec<String> {
        (0..self.random.usize(0..3)).map(|_| Ipv4Addr::from(self.random.u32(..)).to_string()).collect()
    }

    async fn create(&mut self, life: &Life) -> Result<(), String> {
        self.named += 1;
        let name = format!("{}-{}", self.label, self.named);
        let region = self.regions[self.random.usize(0..self.regions.len())];
        let asked = Asked { region, servers: self.servers() };
        let body = json!({
            "metadata": {"name": name, "tags": [{"name": "client", "value": self.label}]},
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
                self.tally.creates += 1;
                Ok(())
            }
            Heard::Answer(status, answer) => Err(unexpected("a create", status, &answer)),
        }
    }

    async fn update(&mut self, life: &Life, id: Uuid) -> Result<(), String> {
        let servers = self.servers();
        let metadata = json!({"name": self.known(id).name, "tags": [{"name": "client", "value": self.label}]});
        let body = json!({"metadata": metadata, "spec": {"dnsNameservers": servers}});
        self.known(id).servers.insert(servers.clone());
        match self.ask(life, Method::PUT, &format!("/api/v2/networks/{id}"), Some(&body)).await? {
            Heard::Doubt => Ok(()),
            Heard::Answer(StatusCode::ACCEPTED, answer) => {
                self.known(id).servers = BTreeSet::from([servers.clone()]);
                self.tally.updates += 1;
                let read = &answer["spec"]["dnsNameservers"];
                if *read == json!(servers) { Ok(()) } else { Err(format!("{servers:?} was read back as {read}")) }
            }
            Heard::Answer(status, answer) => Err(unexpected("an update", status, &answer)),
        }
    }

    /// False when no answer came.
    pub async fn delete(&mut self, life: &Life, id: Uuid) -> Result<bool, String> {
        let referred = !self.known(id).references.is_empty();
        let heard = self.ask(life, Method::DELETE, &format!("/api/v2/networks/{id}"), None).await?;
        match heard {
            Heard::Doubt if referred => return Ok(false),
            Heard::Doubt => {
                self.known(id).fate = Fate::DeletionInDoubt;
                return Ok(false);
            }
            Heard::Answer(StatusCode::ACCEPTED, _) if !referred => {
                self.known(id).fate = Fate::DeletionAccepted;
                self.tally.deletes += 1;
            }
            Heard::Answer(StatusCode::FORBIDDEN, _) if referred => self.tally.refused += 1,
            Heard::Answer(status, answer) => {
                let what = format!("the deletion of {id}, to which {:?} refer,", self.known(id).references);
                return Err(unexpected(&what, status, &answer));
            }
        }
        Ok(true)
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
        self.tally.references += 1;
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
        if !self.known(id).references.is_empty() {
            return Ok(());
        }
        let (holder, path) = self.new_reference(id);
        let mut other = Self::new(0, 0, vec![], self.life.clone());
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
                self.tally.deletes += 1;
            }
            (Heard::Doubt, Heard::Answer(StatusCode::ACCEPTED, _)) => {
                self.known(id).fate = Fate::DeletionAccepted;
                self.tally.deletes += 1;
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

fn id_of(network: &Value) -> Result<Uuid, String> {
    let id = network["metadata"]["id"].as_str().and_then(|id| id.parse().ok());
    id.ok_or_else(|| format!("no id in {network}"))
}

/// A list of networks.
pub fn shown(list: &Value) -> Result<BTreeMap<Uuid, Shown>, String> {
    let networks = list.as_array().ok_or_else(|| format!("not a list: {list}"))?;
    let mut all = BTreeMap::new();
    for network in networks {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let servers = network["spec"]["dnsNameservers"].as_array().into_iter().flatten().map(text).collect();
        let region = network["status"]["regionId"].as_str().and_then(|id| id.parse().ok());
        let shown = Shown {
            name: text(&network["metadata"]["name"]),
            region: region.ok_or_else(|| format!("no region in {network}"))?,
            servers,
            status: text(&network["metadata"]["provisioningStatus"]),
            deleting: !network["metadata"]["deletionTime"].is_null(),
        };
        if all.insert(id_of(network)?, shown).is_some() {
            return Err(format!("{network} is listed twice"));
        }
    }
    Ok(all)
}
