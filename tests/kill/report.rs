//! What a campaign did, in one line.

use std::collections::BTreeMap;
use std::time::Duration;

use super::wares::Ware;

/// How many kills it takes until everything that can happen must have happened.
const LONG_CAMPAIGN: u64 = 100;

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    CreateNetwork,
    UpdateNetwork,
    DeleteNetwork,
    Refer,
    CreateGroup,
    UpdateGroup,
    DeleteGroup,
    CreateAuthority,
    DeleteAuthority,
    CreateServer,
    UpdateServer,
    DeleteServer,
    Start,
    Stop,
    Reboot,
    Make(Ware),
    Change(Ware),
    Delete(Ware),
    Snapshot,
}

impl Deed {
    const ALL: [(Self, &'static str); 30] = [
        (Self::CreateNetwork, "networks made"),
        (Self::UpdateNetwork, "changed"),
        (Self::DeleteNetwork, "deleted"),
        (Self::Refer, "referred to"),
        (Self::CreateGroup, "groups made"),
        (Self::UpdateGroup, "changed"),
        (Self::DeleteGroup, "deleted"),
        (Self::CreateAuthority, "authorities made"),
        (Self::DeleteAuthority, "deleted"),
        (Self::CreateServer, "servers made"),
        (Self::UpdateServer, "changed"),
        (Self::DeleteServer, "deleted"),
        (Self::Start, "started"),
        (Self::Stop, "stopped"),
        (Self::Reboot, "rebooted"),
        (Self::Make(Ware::Balancer), "load balancers made"),
        (Self::Change(Ware::Balancer), "changed"),
        (Self::Delete(Ware::Balancer), "deleted"),
        (Self::Make(Ware::Volume), "volumes made"),
        (Self::Change(Ware::Volume), "changed"),
        (Self::Delete(Ware::Volume), "deleted"),
        (Self::Make(Ware::Storage), "file storages made"),
        (Self::Change(Ware::Storage), "changed"),
        (Self::Delete(Ware::Storage), "deleted"),
        (Self::Make(Ware::Image), "images imported"),
        (Self::Snapshot, "copied"),
        (Self::Delete(Ware::Image), "deleted"),
        (Self::Make(Ware::Instance), "instances made"),
        (Self::Change(Ware::Instance), "changed"),
        (Self::Delete(Ware::Instance), "deleted"),
    ];

    /// What chance may leave out of a short campaign: it needs something else to have happened before.
    const fn may_be_missed(self) -> bool {
        let late =
            matches!(self, Self::Start | Self::Stop | Self::UpdateGroup | Self::DeleteGroup | Self::DeleteAuthority);
        late || matches!(self, Self::Change(_) | Self::Delete(_) | Self::Snapshot)
    }
}

/// What all clients were told, together.
#[derive(Debug, Default)]
pub struct Tally {
    acknowledged: BTreeMap<Deed, u64>,
    pub refused: u64,
    pub doubts: u64,
    pub unavailable: u64,
    pub looks: u64,
}

impl Tally {
    pub fn count(&mut self, deed: Deed) {
        *self.acknowledged.entry(deed).or_default() += 1;
    }

    fn of(&self, deed: Deed) -> u64 {
        self.acknowledged.get(&deed).copied().unwrap_or_default()
    }

    pub fn add(&mut self, other: &Self) {
        for (deed, count) in &other.acknowledged {
            *self.acknowledged.entry(*deed).or_default() += count;
        }
        self.refused += other.refused;
        self.doubts += other.doubts;
        self.unavailable += other.unavailable;
        self.looks += other.looks;
    }
}

#[derive(Default)]
pub struct Report {
    /// Under load; those during start-up are counted apart.
    pub kills: u64,
    /// Kills that left something half done in a cloud.
    pub half_done: u64,
    pub start_up_kills: u64,
    pub polite_ends: u64,
    /// From the signal until everything was at rest again, where that was waited for.
    pub converged: Vec<Duration>,
    pub tally: Tally,
    pub objects_made: u64,
    /// Reboots that reached the clouds.
    pub reboots_sent: u64,
}

impl Report {
    /// A campaign whose kills hit nothing has shown nothing.
    pub fn has_tried_something(&self) -> Result<(), String> {
        let is_long = self.kills >= LONG_CAMPAIGN;
        let done = Deed::ALL.into_iter().filter(|(deed, _)| is_long || !deed.may_be_missed());
        let done = done.map(|(deed, _)| self.tally.of(deed)).chain([self.tally.refused, self.tally.looks]);
        let hit = [self.tally.doubts, self.half_done, self.objects_made, self.converged.len() as u64];
        if done.chain(hit).all(|count| count > 0) { Ok(()) } else { Err("too little happened".to_owned()) }
    }

    /// The same of a campaign with instances alone.
    pub fn has_tried_instances(&self) -> Result<(), String> {
        let done = [Deed::Make(Ware::Instance), Deed::Change(Ware::Instance), Deed::Delete(Ware::Instance)];
        let done = done.map(|deed| self.tally.of(deed));
        let hit = [self.tally.looks, self.tally.doubts, self.objects_made, self.converged.len() as u64];
        if done.into_iter().chain(hit).all(|count| count > 0) { Ok(()) } else { Err("too little happened".to_owned()) }
    }

    pub fn line(&mut self, seed: u64, elapsed: Duration) -> String {
        self.converged.sort();
        let median = self.converged.get(self.converged.len() / 2).copied().unwrap_or_default().as_secs_f64();
        let longest = self.converged.last().copied().unwrap_or_default().as_secs_f64();
        let (rests, elapsed) = (self.converged.len(), elapsed.as_secs_f64());
        let Self { kills, half_done, start_up_kills, polite_ends, objects_made, tally, reboots_sent, .. } = self;
        let Tally { refused, doubts, unavailable, looks, .. } = &*tally;
        let done = Deed::ALL.map(|(deed, word)| format!("{} {word}", tally.of(deed))).join(", ");
        [
            format!("seed {seed}: {kills} SIGKILLs under load ({half_done} of them amid cloud work)"),
            format!(" and {start_up_kills} during start-up, {polite_ends} polite ends, in {elapsed:.0} s;"),
            format!(" acknowledged: {done};"),
            format!(" {refused} refused, {doubts} in doubt, {unavailable} answered 503; {looks} looks by clients;"),
            format!(" {objects_made} objects made in the clouds, {reboots_sent} reboots sent to them;"),
            format!(" at rest after a kill: p50 {median:.2} s, max {longest:.2} s, of {rests}"),
        ]
        .concat()
    }
}
