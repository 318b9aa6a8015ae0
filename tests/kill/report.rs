//! What a campaign did, in one line.

use std::time::Duration;

use super::client::Tally;

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
}

impl Report {
    /// A campaign whose kills hit nothing has shown nothing.
    pub fn has_tried_something(&self) -> Result<(), String> {
        let tally = &self.tally;
        let done = [tally.creates, tally.updates, tally.deletes, tally.references, tally.refused, tally.looks];
        let hit = [tally.doubts, self.half_done, self.objects_made, self.converged.len() as u64];
        if done.into_iter().chain(hit).all(|count| count > 0) { Ok(()) } else { Err("too little happened".to_owned()) }
    }

    pub fn line(&mut self, seed: u64, elapsed: Duration) -> String {
        self.converged.sort();
        let median = self.converged.get(self.converged.len() / 2).copied().unwrap_or_default().as_secs_f64();
        let longest = self.converged.last().copied().unwrap_or_default().as_secs_f64();
        let (rests, elapsed) = (self.converged.len(), elapsed.as_secs_f64());
        let Self { kills, half_done, start_up_kills, polite_ends, objects_made, tally, .. } = self;
        let Tally { creates, updates, deletes, references, refused, doubts, unavailable, looks } = tally;
        [
            format!("seed {seed}: {kills} SIGKILLs under load ({half_done} of them amid cloud work)"),
            format!(" and {start_up_kills} during start-up, {polite_ends} polite ends, in {elapsed:.0} s;"),
            format!(" acknowledged {creates} creates, {updates} updates, {deletes} deletes, {references} references;"),
            format!(" {refused} refused, {doubts} in doubt, {unavailable} answered 503; {looks} looks by clients;"),
            format!(" {objects_made} objects made in the clouds;"),
            format!(" at rest after a kill: p50 {median:.2} s, max {longest:.2} s, of {rests}"),
        ]
        .concat()
    }
}
