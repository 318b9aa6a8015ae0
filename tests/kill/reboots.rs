//! A reboot is sent at most once, however often the server is killed meanwhile: whoever repeats it destroys work.
//!
//! The clouds' logs are read as the campaign goes, because a log forgets its oldest lines.

use std::collections::BTreeMap;

use regent::model::ids::RegionId;
use regent::providers::simulated::SimulatedHandle;
use uuid::Uuid;

use super::rig::Cloud;

/// The word by which the clouds' logs know it.
const OPERATION: &str = "reboot-server";

/// What is known of the reboots of one server: from its client, or from the log of its cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reboots {
    /// Asked for, whatever became of it; or sent.
    pub tried: u64,
    /// Acknowledged after it was carried out; or carried out.
    pub done: u64,
}

#[derive(Default)]
pub struct RebootBook {
    /// How far each log was read.
    read: BTreeMap<RegionId, u64>,
    reboots: BTreeMap<Uuid, Reboots>,
}

impl RebootBook {
    pub async fn read(&mut self, cloud: &Cloud) -> Result<(), String> {
        let read = self.read.entry(cloud.region).or_default();
        loop {
            let calls = cloud.room.calls(*read).await.map_err(|error| error.to_string())?;
            let Some(last) = calls.last() else { return Ok(()) };
            *read = last.sequence;
            for call in calls.iter().filter(|call| call.operation == OPERATION) {
                // Of a machine that was gone before the call came nobody knows whose it was, and nothing was done to it.
                let Some(server) = call.marked else { continue };
                let reboots = self.reboots.entry(server).or_default();
                reboots.tried += 1;
                reboots.done += u64::from(call.applied);
            }
        }
    }

    pub fn sent(&self) -> u64 {
        self.reboots.values().map(|reboots| reboots.tried).sum()
    }

    /// Every server was rebooted as often as was acknowledged, and no more often than was asked for.
    pub fn is_as_asked(&self, asked: &BTreeMap<Uuid, Reboots>) -> Result<(), String> {
        for id in self.reboots.keys().chain(asked.keys()) {
            let of = |book: &BTreeMap<Uuid, Reboots>| book.get(id).copied().unwrap_or_default();
            let (seen, asked) = (of(&self.reboots), of(asked));
            if seen.tried > asked.tried || seen.done < asked.done {
                return Err(format!(
                    "the reboots of server {id} were {seen:?} in its cloud, and {asked:?} by its client"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reboot_too_many_or_too_few_is_noticed() {
        let server = Uuid::from_u128(1);
        let check = |sent, carried_out| {
            let book = RebootBook {
                reboots: BTreeMap::from([(server, Reboots { tried: sent, done: carried_out })]),
                ..RebootBook::default()
            };
            book.is_as_asked(&BTreeMap::from([(server, Reboots { tried: 3, done: 2 })]))
        };
        assert!(check(3, 2).is_ok() && check(2, 2).is_ok() && check(3, 3).is_ok());
        assert!(check(4, 2).is_err(), "one was sent twice");
        assert!(check(3, 1).is_err(), "one was acknowledged and not done");
    }
}
