//! What one client knows of the networks that it asked for, and what it may conclude from what it is shown.
//!
//! Only its own client changes a network or what is on it, one request after the other, so that what was acknowledged is known exactly.
//! What is in doubt is a request whose answer never came: it has happened or it has not, and the next look tells.

use std::collections::{BTreeMap, BTreeSet};

use regent::model::ids::RegionId;
use uuid::Uuid;

use super::machines::{Machines, Use};
use super::wares::Wares;

/// What became of something's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nobody has asked for it, or it was refused. Exits: the others.
    Live,
    /// Asked for, and no answer came. Exits: the others, by a look.
    DeletionInDoubt,
    /// Accepted. Exits: its absence.
    DeletionAccepted,
}

impl Fate {
    /// What is known after a deletion was asked for, if that is anything new. `accepted` is the answer, if one came.
    pub const fn after(accepted: Option<bool>, usage: Use) -> Option<Self> {
        match accepted {
            Some(true) => Some(Self::DeletionAccepted),
            // It would have been refused.
            None if usage.certain => None,
            None => Some(Self::DeletionInDoubt),
            Some(false) => None,
        }
    }

    /// What is known after a look. `deleting` is what is shown of it, if it is shown at all.
    pub fn settled(self, what: &str, deleting: Option<bool>) -> Result<Self, String> {
        match (self, deleting) {
            (Self::Live, None) => Err(format!("{what} was accepted and is lost")),
            (Self::Live, Some(true)) => Err(format!("{what} is being deleted and nobody asked for it")),
            (Self::DeletionAccepted, Some(false)) => Err(format!("the accepted deletion of {what} is lost")),
            (_, Some(false)) => Ok(Self::Live),
            _ => Ok(Self::DeletionAccepted),
        }
    }
}

/// A network that was acknowledged, or seen.
#[derive(Clone, Debug)]
pub struct Known {
    pub name: String,
    pub region: RegionId,
    /// The last acknowledged name servers, and those of later updates that are in doubt.
    pub servers: BTreeSet<Vec<String>>,
    pub fate: Fate,
    /// Acknowledged references.
    pub references: BTreeSet<String>,
    /// References whose addition or removal is in doubt.
    pub doubtful: BTreeSet<String>,
}

/// A creation that may have happened.
#[derive(Clone, Debug)]
pub struct Asked {
    pub region: RegionId,
    pub servers: Vec<String>,
}

/// A network as the server shows it.
#[derive(Clone, Debug)]
pub struct Shown {
    pub name: String,
    pub region: RegionId,
    pub servers: Vec<String>,
    pub status: String,
    pub deleting: bool,
}

#[derive(Debug, Default)]
pub struct Ledger {
    pub networks: BTreeMap<Uuid, Known>,
    pub doubtful: BTreeMap<String, Asked>,
    pub machines: Machines,
    pub wares: Wares,
}

impl Known {
    pub fn new(name: &str, asked: &Asked) -> Self {
        Self {
            name: name.to_owned(),
            region: asked.region,
            servers: BTreeSet::from([asked.servers.clone()]),
            fate: Fate::Live,
            references: BTreeSet::new(),
            doubtful: BTreeSet::new(),
        }
    }

    /// Is it still there, and as it was accepted? What was in doubt is known from here on.
    fn compare(&mut self, id: Uuid, shown: Option<&Shown>) -> Result<(), String> {
        let name = &self.name;
        self.fate = self.fate.settled(&format!("network {id} ({name})"), shown.map(|shown| shown.deleting))?;
        if self.fate == Fate::DeletionAccepted && !self.references.is_empty() {
            return Err(format!("network {id} ({name}) was deleted although {:?} refer to it", self.references));
        }
        if let Some(shown) = shown {
            if !self.servers.contains(&shown.servers) {
                let (servers, shown) = (&self.servers, &shown.servers);
                return Err(format!("an accepted update of {id} ({name}) is lost: one of {servers:?}, not {shown:?}"));
            }
            if (name, self.region) != (&shown.name, shown.region) {
                return Err(format!("network {id} ({name}) became {shown:?}"));
            }
            self.servers = BTreeSet::from([shown.servers.clone()]);
        }
        Ok(())
    }
}

impl Ledger {
    /// Compares with everything that the server shows of this client, and settles what was in doubt.
    pub fn compare(&mut self, shown: &BTreeMap<Uuid, Shown>) -> Result<(), String> {
        for (id, network) in shown.iter().filter(|(id, _)| !self.networks.contains_key(id)).collect::<Vec<_>>() {
            let name = &network.name;
            let asked = self.doubtful.remove(name);
            let asked = asked.ok_or_else(|| format!("network {id} ({name}) is there and nobody asked for it"))?;
            self.networks.insert(*id, Known::new(name, &asked));
        }
        self.doubtful.clear();
        for (id, known) in &mut self.networks {
            known.compare(*id, shown.get(id))?;
        }
        self.networks.retain(|id, _| shown.contains_key(id));
        Ok(())
    }

    /// By what is on it or attached to it.
    pub fn use_of_network(&self, id: Uuid) -> Use {
        self.machines.use_of_network(id).or(self.wares.use_of(id))
    }

    pub fn live(&self) -> Vec<Uuid> {
        self.networks.iter().filter(|(_, known)| known.fate == Fate::Live).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(7);
    const REGION: RegionId = RegionId(Uuid::from_u128(1));

    fn servers(text: &str) -> Vec<String> {
        vec![text.to_owned()]
    }

    fn shown(text: &str, deleting: bool) -> BTreeMap<Uuid, Shown> {
        let network =
            Shown { name: "a".to_owned(), region: REGION, servers: servers(text), status: String::new(), deleting };
        BTreeMap::from([(ID, network)])
    }

    fn ledger(fate: Fate, candidates: &[&str]) -> Ledger {
        let asked = Asked { region: REGION, servers: vec![] };
        let known =
            Known { fate, servers: candidates.iter().map(|text| servers(text)).collect(), ..Known::new("a", &asked) };
        Ledger { networks: BTreeMap::from([(ID, known)]), ..Ledger::default() }
    }

    #[test]
    fn what_was_accepted_and_is_not_there_is_noticed() {
        let nothing = BTreeMap::new();
        assert!(ledger(Fate::Live, &["1"]).compare(&nothing).unwrap_err().contains("is lost"));
        assert!(ledger(Fate::Live, &["2"]).compare(&shown("1", false)).unwrap_err().contains("update"));
        assert!(ledger(Fate::Live, &["1"]).compare(&shown("1", true)).unwrap_err().contains("nobody asked"));
        assert!(ledger(Fate::DeletionAccepted, &["1"]).compare(&shown("1", false)).unwrap_err().contains("deletion"));
        assert!(Ledger::default().compare(&shown("1", false)).unwrap_err().contains("nobody asked"));
        let mut referred = ledger(Fate::DeletionInDoubt, &["1"]);
        referred.networks.get_mut(&ID).unwrap().references.insert("somebody".to_owned());
        assert!(referred.compare(&nothing).unwrap_err().contains("refer to it"));
    }

    #[test]
    fn what_is_in_doubt_may_be_either_way_and_is_settled_by_a_look() {
        let mut updated = ledger(Fate::Live, &["1", "2"]);
        updated.compare(&shown("2", false)).unwrap();
        assert!(updated.compare(&shown("1", false)).is_err(), "it was seen with the other");
        for (after, fate) in [(true, Fate::DeletionAccepted), (false, Fate::Live)] {
            let mut deleted = ledger(Fate::DeletionInDoubt, &["1"]);
            deleted.compare(&shown("1", after)).unwrap();
            assert_eq!(deleted.networks[&ID].fate, fate);
        }
        let asked = Asked { region: REGION, servers: servers("1") };
        let mut created = Ledger { doubtful: BTreeMap::from([("a".to_owned(), asked)]), ..Ledger::default() };
        created.compare(&shown("1", false)).unwrap();
        assert_eq!(created.live(), [ID]);
    }
}
