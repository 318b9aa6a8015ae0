//! What is killed, and what outlives it: a server on one folder, and two clouds in processes of their own.
//!
//! Every start listens on a port of the system's choosing and says where. A fixed port would be free for anybody
//! while nobody listens on it, our own clients' connections included.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use regent::bootstrap::BootstrapFile;
use regent::model::ids::RegionId;
use regent::providers::simulated::{Remote, SimulatedHandle};
use tokio::sync::watch;
use uuid::Uuid;

use super::reboots::RebootBook;
use crate::http::Folder;
use crate::support::process::{Process, tail};

/// How long every call to a cloud takes: long enough that a kill finds some of them on the way.
const CALL_DELAY_MS: &str = "4";

/// How long a server takes to boot: some boot between two kills, and some are caught at it.
const BOOT_DELAY_MS: &str = "200";

/// More than all clients together ever have networks for, those on their way out included, so that nobody waits for a
/// number; few enough that each is used many times.
const VLANS: (u16, u16) = (100, 499);

/// One of the clouds.
pub struct Cloud {
    pub region: RegionId,
    /// Do its networks get VLANs?
    pub physical: bool,
    /// Its machine room.
    pub room: Remote,
    _process: Process,
}

fn configured(number: u64, region: RegionId, endpoint: &str, physical: bool) -> String {
    let (start, end) = VLANS;
    let wires = format!(
        "providerNetworks = {{ physicalNetwork = \"physical\", vlanSegments = [{{ start = {start}, end = {end} }}] }}\n"
    );
    let wires = if physical { wires } else { String::new() };
    let head = format!("[[regions]]\nid = \"{region}\"\nname = \"region-{number}\"\n");
    format!("{head}[regions.simulated]\nendpoint = \"{endpoint}\"\n{wires}\n")
}

/// One run of the server: how to reach it.
#[derive(Clone, Debug)]
pub struct Life {
    pub number: u64,
    pub start: BootstrapFile,
}

pub struct Rig {
    pub clouds: Vec<Cloud>,
    /// The life that can be spoken to. `None` is said before the signal is sent, so that whoever hears nothing and
    /// finds the same life here has found a fault.
    pub life: watch::Sender<Option<Life>>,
    pub lives: u64,
    /// How long the last start took.
    pub start_duration: Duration,
    pub reboots: RebootBook,
    server: Option<Process>,
    // Last, so that it goes after the processes that use it.
    folder: Folder,
}

impl Rig {
    /// Starts the clouds; the server is still to be started.
    pub async fn open(seed: u64) -> Result<Self, String> {
        let folder = Folder::new();
        let mut clouds = Vec::new();
        let mut configuration = String::new();
        for (number, physical) in [(1, true), (2, false)] {
            let file = folder.0.join(format!("cloud-{number}.journal"));
            let (file, seed) = (file.to_str().expect("text"), (seed ^ number).to_string());
            let delay = ["--call-delay", CALL_DELAY_MS, "--boot-delay", BOOT_DELAY_MS, "--seed", &seed];
            let arguments = [&["simulated-cloud", "--listen", "127.0.0.1:0", "--file", file], &delay[..]].concat();
            let log = folder.0.join(format!("cloud-{number}.log"));
            let mut process = Process::spawn(&arguments, "simulated cloud listening on", &log);
            let line = process.announced().await?;
            let url = line.rsplit(' ').next().unwrap_or_default().to_owned();
            let region = RegionId(Uuid::from_u128(0x0000_5eed_0000_4000_8000_0000_0000_0000 | u128::from(number)));
            configuration.push_str(&configured(number, region, &url, physical));
            let room = Remote::new(&url).map_err(|error| error.to_string())?;
            clouds.push(Cloud { region, physical, room, _process: process });
        }
        std::fs::write(folder.0.join("regent.toml"), configuration).map_err(|error| error.to_string())?;
        let life = watch::Sender::new(None);
        Ok(Self {
            clouds,
            life,
            lives: 0,
            start_duration: Duration::ZERO,
            reboots: RebootBook::default(),
            server: None,
            folder,
        })
    }

    pub fn data(&self) -> PathBuf {
        self.folder.0.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.0.join("server.log")
    }

    fn spawn(&mut self) -> Process {
        self.lives += 1;
        let (data, configuration) = (self.data(), self.folder.0.join("regent.toml"));
        let listen = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let files = ["--data-dir", data.to_str().expect("text"), "--config", configuration.to_str().expect("text")];
        Process::spawn(&[&listen[..], &files].concat(), "listening", &self.log())
    }

    /// Starts the server and waits until it takes requests.
    pub async fn start(&mut self) -> Result<Life, String> {
        let began = Instant::now();
        let mut server = self.spawn();
        server.announced().await?;
        self.start_duration = began.elapsed();
        self.server = Some(server);
        let file = std::fs::read(self.data().join("bootstrap.json")).map_err(|error| error.to_string())?;
        let start = serde_json::from_slice(&file).map_err(|error| error.to_string())?;
        let life = Life { number: self.lives, start };
        self.life.send_replace(Some(life.clone()));
        Ok(life)
    }

    /// Starts the server and kills it before long, ready or not.
    pub async fn start_and_kill(&mut self, after: Duration) -> Result<(), String> {
        let server = self.spawn();
        tokio::time::sleep(after).await;
        server.kill().await
    }

    pub async fn kill(&mut self) -> Result<(), String> {
        self.life.send_replace(None);
        self.server.take().expect("it runs").kill().await
    }

    pub async fn stop(&mut self) -> Result<(), String> {
        self.life.send_replace(None);
        self.server.take().expect("it runs").terminate().await
    }

    /// What the server has said last.
    pub fn tail(&self) -> String {
        tail(&self.log())
    }

    /// A panic that was caught is still one: the first line that speaks of one.
    pub fn panics(&self) -> Result<(), String> {
        let log = std::fs::read_to_string(self.log()).map_err(|error| error.to_string())?;
        let mut lines = log.lines().filter(|line| line.contains("panicked at"));
        lines.next().map_or(Ok(()), |line| Err(format!("the server panicked: {line}")))
    }

    /// Reads the clouds' logs on. Is something in the clouds that was begun and not finished, or half taken away?
    pub async fn is_half_done(&mut self) -> Result<bool, String> {
        let mut half_done = false;
        for cloud in &self.clouds {
            let inventory = cloud.room.inventory().await.map_err(|error| error.to_string())?;
            self.reboots.read(cloud).await?;
            let networks = inventory.networks.len();
            let principals = [inventory.identities.len(), inventory.users.len(), inventory.credentials.len()];
            let parts = [inventory.key_pairs.len(), inventory.subnets.len(), inventory.routers.len()];
            half_done |= principals.into_iter().chain(parts).any(|count| count != networks);
            half_done |= inventory.servers.len() + inventory.load_balancers.len() != inventory.ports.len();
            let wares = [&inventory.load_balancers, &inventory.volumes, &inventory.images];
            let shares = [&inventory.shares, &inventory.share_attachments, &inventory.servers];
            half_done |= wares.into_iter().chain(shares).flatten().any(|object| object.pending.is_some());
        }
        Ok(half_done)
    }

    pub fn regions(&self) -> Vec<RegionId> {
        self.clouds.iter().map(|cloud| cloud.region).collect()
    }

    /// Changes that were ever asked of the clouds.
    pub async fn mutations(&self) -> Result<u64, String> {
        let mut total = 0;
        for cloud in &self.clouds {
            total += cloud.room.counters().await.map_err(|error| error.to_string())?.mutations;
        }
        Ok(total)
    }
}
