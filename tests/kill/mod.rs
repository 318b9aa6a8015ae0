//! The real binary, killed again and again while clients work: nothing that was accepted is lost, nothing in the
//! clouds is leaked or doubled, and everything converges without help.
//!
//! ```text
//!   clients ──▶ server ──▶ clouds          the clouds and the clients go on; the server dies, at any moment,
//!                 ✕                        and starts on the same folder
//! ```
//!
//! After every restart every client compares all it was told with all it is shown. After about half of the restarts
//! the clients pause until all is quiet, and the clouds' own books are compared too. The other restarts are killed
//! before they are done. The seed gives what is asked and when it is killed; the machine decides what that hits, so
//! a seed cannot be replayed exactly: what a failure leaves behind is its folder.

mod books;
mod checks;
mod client;
mod deeds;
mod ledger;
mod machines;
mod quota;
mod reboots;
mod report;
mod rig;
mod ware_checks;
mod ware_deeds;
mod wares;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use client::{Client, Load, work};
use ledger::Ledger;
use reboots::Reboots;
use report::Report;
use rig::{Life, Rig};
use wares::Ware;

/// How often CI kills: a fraction of a minute. The campaign kills more often.
const CI_KILLS: u64 = 12;

const CLIENTS: u64 = 8;

/// When the server is killed, counted from when it was ready: from amid its recovery to well into its work.
const KILL_AFTER_MS: std::ops::Range<u64> = 50..600;

/// The same where there are many instances, of which a start has much to do.
const KILL_MANY_AFTER_MS: std::ops::Range<u64> = 200..3000;

/// How often CI kills a server with many instances.
const CI_KILLS_OF_MANY: u64 = 2;

/// How many instances there are, of all clients together, before the first kill: half of what there may be.
const MANY: usize = 100;

/// One start in so many is killed before it is ready.
const START_UP_KILL_ONE_IN: u64 = 6;

/// One end in so many is a polite one, under the same load: what it hands over must be as whole as what a kill leaves.
const POLITE_END_ONE_IN: u64 = 8;

/// One rest in so many is followed by a polite end, so that the store can be looked into.
const BOOKS_ONE_IN: u64 = 4;

/// Everything of one campaign.
struct Campaign {
    rig: Rig,
    load: Load,
    random: fastrand::Rng,
    clients: Vec<Arc<Mutex<Client>>>,
    working: JoinSet<Result<(), String>>,
    stop: watch::Sender<bool>,
    report: Report,
}

impl Campaign {
    async fn open(load: Load, seed: u64) -> Result<Self, String> {
        let rig = Rig::open(seed).await?;
        let regions = rig.regions();
        let clients = (1..=CLIENTS)
            .map(|number| Client::new(load, (number, seed), regions.clone(), rig.life.subscribe()))
            .map(|client| Arc::new(Mutex::new(client)));
        let clients = clients.collect::<Vec<_>>();
        let stop = watch::Sender::new(false);
        let mut working = JoinSet::new();
        for client in &clients {
            working.spawn(work(Arc::clone(client), stop.subscribe()));
        }
        let random = fastrand::Rng::with_seed(seed);
        Ok(Self { rig, load, random, clients, working, stop, report: Report::default() })
    }

    /// Waits until there are so many that a kill finds most of them on their way.
    async fn grown(&mut self) -> Result<(), String> {
        let mut looks = tokio::time::interval(checks::LOOK_PERIOD);
        loop {
            looks.tick().await;
            self.nobody_failed()?;
            let known = self.known().await.wares.of(Ware::Instance).count();
            if known >= MANY {
                return Ok(());
            }
        }
    }

    async fn run(&mut self, kills: u64) -> Result<(), String> {
        // The very first start is cut short too, at several places: what it leaves is somebody's first impression.
        for after_ms in [5, 20, 60] {
            self.kill_start(Duration::from_millis(after_ms)).await?;
        }
        self.rig.start().await?;
        let kill_after_ms = match self.load {
            Load::Everything => KILL_AFTER_MS,
            Load::Instances => {
                self.grown().await?;
                KILL_MANY_AFTER_MS
            }
        };
        while self.report.kills < kills {
            let after = Duration::from_millis(self.random.u64(kill_after_ms.clone()));
            tokio::time::sleep(after).await;
            if self.random.u64(0..POLITE_END_ONE_IN) == 0 {
                self.rig.stop().await?;
                self.report.polite_ends += 1;
                self.rig.is_half_done().await?;
                self.rig.start().await?;
                continue;
            }
            let killed = Instant::now();
            self.rig.kill().await?;
            self.report.kills += 1;
            self.report.half_done += u64::from(self.rig.is_half_done().await?);
            while self.random.u64(0..START_UP_KILL_ONE_IN) == 0 {
                let whole = u64::try_from(self.rig.start_duration.as_millis()).expect("short");
                let after = Duration::from_millis(self.random.u64(0..=whole));
                self.kill_start(after).await?;
            }
            let rests = self.random.bool() || self.report.kills == kills;
            // The locks are taken while the server is down: what it has to do when it comes back is what it left.
            let clients = self.clients.clone();
            let mut held = Vec::new();
            if rests {
                for client in &clients {
                    held.push(client.lock().await);
                }
            }
            let life = self.rig.start().await?;
            if rests {
                let view = checks::converged(&self.rig, &life).await?;
                self.report.converged.push(killed.elapsed());
                for client in &mut held {
                    look(client, &life).await?;
                }
                checks::clouds_are_as_shown(&self.rig, &view).await?;
                if self.random.u64(0..BOOKS_ONE_IN) == 0 {
                    self.rig.stop().await?;
                    self.report.polite_ends += 1;
                    books::are_even(&self.rig, &life, &all(held.iter().map(|client| &client.ledger))).await?;
                    self.rig.start().await?;
                }
            }
            drop(held);
            self.nobody_failed()?;
        }
        self.finish().await
    }

    async fn kill_start(&mut self, after: Duration) -> Result<(), String> {
        self.report.start_up_kills += 1;
        self.rig.start_and_kill(after).await
    }

    fn nobody_failed(&mut self) -> Result<(), String> {
        match self.working.try_join_next() {
            None => Ok(()),
            Some(ended) => ended.map_err(|error| error.to_string())?.and(Err("a client went home".to_owned())),
        }
    }

    /// Stops the load, checks everything there is, deletes everything, and checks that nothing is left.
    async fn finish(&mut self) -> Result<(), String> {
        self.stop.send_replace(true);
        while let Some(ended) = self.working.join_next().await {
            ended.map_err(|error| error.to_string())??;
        }
        let life = self.rig.life.borrow().clone().expect("it runs");
        let view = checks::converged(&self.rig, &life).await?;
        self.look(&life).await?;
        checks::clouds_are_as_shown(&self.rig, &view).await?;
        self.rig.stop().await?;
        books::are_even(&self.rig, &life, &self.known().await).await?;
        let before = self.rig.mutations().await?;
        let life = self.rig.start().await?;
        checks::converged(&self.rig, &life).await?;
        let changes = self.rig.mutations().await? - before;
        if changes > 0 {
            return Err(format!("a start with nothing to do made {changes} changes in the clouds"));
        }
        self.dismantle(&life).await?;
        checks::clouds_are_empty(&self.rig).await?;
        self.rig.is_half_done().await?;
        self.rig.stop().await?;
        let left = self.known().await;
        if !(left.networks.is_empty() && left.machines.is_empty() && left.wares.known.is_empty()) {
            return Err(format!("something is left: {left:?}"));
        }
        books::are_even(&self.rig, &life, &left).await?;
        self.report.objects_made = checks::nothing_was_doubled(&self.rig).await?;
        self.rig.reboots.is_as_asked(&self.reboots().await)?;
        self.report.reboots_sent = self.rig.reboots.sent();
        self.rig.panics()
    }

    async fn add_up(&mut self) {
        for client in &self.clients {
            self.report.tally.add(&client.lock().await.tally);
        }
    }

    async fn look(&self, life: &Life) -> Result<(), String> {
        for client in &self.clients {
            look(&mut *client.lock().await, life).await?;
        }
        Ok(())
    }

    async fn known(&self) -> Ledger {
        let mut known = Vec::new();
        for client in &self.clients {
            known.push(client.lock().await);
        }
        all(known.iter().map(|client| &client.ledger))
    }

    async fn reboots(&self) -> BTreeMap<Uuid, Reboots> {
        let mut all = BTreeMap::new();
        for client in &self.clients {
            all.extend(client.lock().await.reboots.clone());
        }
        all
    }

    /// Volumes and file storages first, because nothing uses them; then instances and servers, which use all the others. Groups and
    /// load balancers go with their networks.
    async fn dismantle(&self, life: &Life) -> Result<(), String> {
        for client in &self.clients {
            for ware in [Ware::Volume, Ware::Storage] {
                client.lock().await.clear(life, ware).await?;
            }
        }
        checks::converged(&self.rig, life).await?;
        self.look(life).await?;
        for client in &self.clients {
            let mut client = client.lock().await;
            client.clear(life, Ware::Instance).await?;
            for id in client.ledger.machines.live_servers() {
                client.delete_server(life, id).await?;
            }
        }
        checks::converged(&self.rig, life).await?;
        self.look(life).await?;
        for client in &self.clients {
            let mut client = client.lock().await;
            client.clear(life, Ware::Image).await?;
            for id in client.ledger.machines.live_authorities() {
                client.delete_authority(life, id).await?;
            }
            for id in client.ledger.live() {
                for holder in client.ledger.networks[&id].references.clone() {
                    client.remove_reference(life, id, &holder).await?;
                }
                client.delete(life, id).await?;
            }
        }
        checks::converged(&self.rig, life).await?;
        self.look(life).await
    }
}

/// What all clients know.
fn all<'a>(ledgers: impl Iterator<Item = &'a Ledger>) -> Ledger {
    let mut all = Ledger::default();
    for ledger in ledgers {
        all.networks.extend(ledger.networks.clone());
        all.machines.extend(ledger.machines.clone());
        all.wares.known.extend(ledger.wares.known.clone());
    }
    all
}

/// A look at rest: what was on its way has arrived.
async fn look(client: &mut Client, life: &Life) -> Result<(), String> {
    let shown = client.look(life).await?.ok_or("a server that nobody killed did not answer")?;
    client.ledger.wares.rested()?;
    client.ledger.machines.rested(&shown)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// REGENT_KILLS and REGENT_SEED make a campaign of it: see `tests/kill-campaign`.
#[tokio::test]
async fn a_server_that_is_killed_again_and_again_loses_nothing_and_leaks_nothing() {
    campaign(Load::Everything, CI_KILLS).await;
}

/// The same with up to two hundred instances, made, changed, switched and deleted without a pause.
#[tokio::test]
async fn a_server_of_many_instances_that_is_killed_loses_none_and_leaves_nothing_of_them() {
    campaign(Load::Instances, CI_KILLS_OF_MANY).await;
}

async fn campaign(load: Load, kills: u64) {
    let (kills, seed) = (number("REGENT_KILLS").unwrap_or(kills), number("REGENT_SEED").unwrap_or(1));
    let began = Instant::now();
    let mut campaign = Campaign::open(load, seed).await.unwrap_or_else(|text| panic!("{text}"));
    let mut outcome = campaign.run(kills).await;
    campaign.add_up().await;
    if outcome.is_ok() {
        outcome = match load {
            Load::Everything => campaign.report.has_tried_something(),
            Load::Instances => campaign.report.has_tried_instances(),
        };
    }
    let line = campaign.report.line(seed, began.elapsed());
    match outcome {
        Ok(()) => println!("kill test: {line}: passed"),
        Err(text) => panic!(
            "kill test: {line}: FAILED after kill {}: {text}\nserver: {}",
            campaign.report.kills,
            campaign.rig.tail()
        ),
    }
}
