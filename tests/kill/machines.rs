//! What one client knows of its security groups, certificate authorities and servers, and what it may conclude from
//! what it is shown. The rules are those of [`super::ledger`]: only its own client changes anything, and after a doubt
//! nothing is asked before a look has settled it.

use std::collections::{BTreeMap, BTreeSet};

use regent::model::ids::RegionId;
use uuid::Uuid;

use super::ledger::{Fate, Known};
use super::wire::Head;

/// What a server was asked to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    pub groups: BTreeSet<Uuid>,
    pub image: Uuid,
    pub public: bool,
}

impl Asked {
    /// What it refers to, if that is anything of the client's own: groups, and the image.
    pub fn uses(&self) -> impl Iterator<Item = Uuid> {
        self.groups.iter().copied().chain([self.image])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Power {
    Running,
    Stopped,
}

impl Power {
    /// As it is said on the wire; other words are of servers that are on their way.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Stopped => "Stopped",
        }
    }
}

#[derive(Clone, Debug)]
pub struct KnownGroup {
    pub name: String,
    pub network: Uuid,
    /// The port that it lets in: the last acknowledged one, and those of later updates that are in doubt.
    pub ports: BTreeSet<u16>,
    pub fate: Fate,
}

#[derive(Clone, Debug)]
pub struct KnownAuthority {
    pub name: String,
    pub fate: Fate,
}

#[derive(Clone, Debug)]
pub struct KnownServer {
    pub name: String,
    pub network: Uuid,
    pub authority: Option<Uuid>,
    /// What was last acknowledged, and later updates that are in doubt.
    pub asked: BTreeSet<Asked>,
    /// Every group and image that it may still refer to: it gives them back when the cloud has followed.
    pub used: BTreeSet<Uuid>,
    /// What acknowledged verbs have made of it; more than one while a verb is in doubt.
    pub power: BTreeSet<Power>,
    pub fate: Fate,
}

impl KnownServer {
    /// Is it to have this group, or to boot from this image?
    pub fn uses(&self, id: Uuid) -> bool {
        self.asked.iter().flat_map(Asked::uses).any(|used| used == id)
    }
}

/// Is something in use? Between the two lies what is on its way out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Use {
    pub certain: bool,
    pub possible: bool,
}

impl Use {
    pub const fn or(self, other: Self) -> Self {
        Self { certain: self.certain || other.certain, possible: self.possible || other.possible }
    }
}

#[derive(Clone, Debug)]
pub struct ShownGroup {
    pub head: Head,
    pub network: Uuid,
    pub region: RegionId,
    pub port: u16,
}

#[derive(Clone, Debug)]
pub struct ShownServer {
    pub head: Head,
    pub network: Uuid,
    pub region: RegionId,
    pub authority: Option<Uuid>,
    pub asked: Asked,
    pub power: String,
    /// The instance that it works for.
    pub instance: Option<Uuid>,
}

/// Everything of these kinds that the server shows.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    pub groups: BTreeMap<Uuid, ShownGroup>,
    pub authorities: BTreeMap<Uuid, Head>,
    pub servers: BTreeMap<Uuid, ShownServer>,
}

impl Shown {
    /// What is in a cloud, and in which: authorities are in none.
    pub fn within(&self, region: RegionId) -> Self {
        let groups = self.groups.iter().filter(|(_, group)| group.region == region);
        let servers = self.servers.iter().filter(|(_, server)| server.region == region);
        Self {
            groups: groups.map(|(id, group)| (*id, group.clone())).collect(),
            authorities: BTreeMap::new(),
            servers: servers.map(|(id, server)| (*id, server.clone())).collect(),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Machines {
    pub groups: BTreeMap<Uuid, KnownGroup>,
    pub authorities: BTreeMap<Uuid, KnownAuthority>,
    pub servers: BTreeMap<Uuid, KnownServer>,
    /// Creations that may have happened. A server's id is known beforehand: a name gives it.
    pub doubtful_groups: BTreeMap<String, KnownGroup>,
    pub doubtful_authorities: BTreeSet<String>,
    pub doubtful_servers: BTreeMap<Uuid, KnownServer>,
}

impl Machines {
    pub fn extend(&mut self, other: Self) {
        self.groups.extend(other.groups);
        self.authorities.extend(other.authorities);
        self.servers.extend(other.servers);
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.authorities.is_empty() && self.servers.is_empty()
    }

    pub fn live_groups(&self, network: Uuid) -> Vec<Uuid> {
        let live = self.groups.iter().filter(|(_, known)| known.fate == Fate::Live && known.network == network);
        live.map(|(id, _)| *id).collect()
    }

    pub fn live_authorities(&self) -> Vec<Uuid> {
        self.authorities.iter().filter(|(_, known)| known.fate == Fate::Live).map(|(id, _)| *id).collect()
    }

    pub fn live_servers(&self) -> Vec<Uuid> {
        self.servers.iter().filter(|(_, known)| known.fate == Fate::Live).map(|(id, _)| *id).collect()
    }

    fn used(&self, now: impl Fn(&KnownServer) -> bool, ever: impl Fn(&KnownServer) -> bool) -> Use {
        let certain = self.servers.values().any(|known| known.fate == Fate::Live && now(known));
        Use { certain, possible: certain || self.servers.values().any(ever) }
    }

    pub fn use_of_network(&self, id: Uuid) -> Use {
        self.used(|server| server.network == id, |server| server.network == id)
    }

    /// Of a group, or of an image.
    pub fn use_of_part(&self, id: Uuid) -> Use {
        self.used(|server| server.uses(id), |server| server.used.contains(&id))
    }

    pub fn use_of_authority(&self, id: Uuid) -> Use {
        self.used(|server| server.authority == Some(id), |server| server.authority == Some(id))
    }

    /// Compares with everything that the server shows of this client, and settles what was in doubt. The networks
    /// were looked at before, and are known.
    pub fn compare(&mut self, shown: &Shown, networks: &BTreeMap<Uuid, Known>) -> Result<(), String> {
        self.compare_groups(shown, networks)?;
        self.compare_authorities(shown)?;
        self.compare_servers(shown, networks)
    }

    fn compare_groups(&mut self, shown: &Shown, networks: &BTreeMap<Uuid, Known>) -> Result<(), String> {
        for (id, group) in &shown.groups {
            let name = &group.head.name;
            if !self.groups.contains_key(id) {
                let known = self.doubtful_groups.remove(name);
                let known = known.ok_or_else(|| format!("group {id} ({name}) is there and nobody asked for it"))?;
                self.groups.insert(*id, known);
            }
        }
        self.doubtful_groups.clear();
        for (id, known) in &mut self.groups {
            let (what, shown) = (format!("group {id} ({})", known.name), shown.groups.get(id));
            match networks.get(&known.network) {
                None if shown.is_some() => return Err(format!("{what} has outlived its network")),
                // It goes with its network, and nobody knows when.
                Some(network) if network.fate != Fate::Live => known.fate = Fate::DeletionAccepted,
                None => {}
                Some(_) => known.fate = known.fate.settled(&what, shown.map(|shown| shown.head.deleting))?,
            }
            if let Some(shown) = shown {
                if !known.ports.contains(&shown.port) {
                    return Err(format!("an accepted update of {what} is lost: {:?}, not {}", known.ports, shown.port));
                }
                if (&known.name, known.network) != (&shown.head.name, shown.network) {
                    return Err(format!("{what} became {shown:?}"));
                }
                known.ports = BTreeSet::from([shown.port]);
            }
        }
        self.groups.retain(|id, _| shown.groups.contains_key(id));
        Ok(())
    }

    fn compare_authorities(&mut self, shown: &Shown) -> Result<(), String> {
        for (id, head) in &shown.authorities {
            if !self.authorities.contains_key(id) {
                if !self.doubtful_authorities.remove(&head.name) {
                    return Err(format!("authority {id} ({}) is there and nobody asked for it", head.name));
                }
                self.authorities.insert(*id, KnownAuthority { name: head.name.clone(), fate: Fate::Live });
            }
        }
        self.doubtful_authorities.clear();
        for (id, known) in &mut self.authorities {
            let shown = shown.authorities.get(id).map(|head| head.deleting);
            known.fate = known.fate.settled(&format!("authority {id} ({})", known.name), shown)?;
        }
        self.authorities.retain(|id, _| shown.authorities.contains_key(id));
        Ok(())
    }

    fn compare_servers(&mut self, shown: &Shown, networks: &BTreeMap<Uuid, Known>) -> Result<(), String> {
        for (id, doubtful) in std::mem::take(&mut self.doubtful_servers) {
            // One that is being deleted is its predecessor of the same name.
            if shown.servers.get(&id).is_some_and(|shown| !shown.head.deleting) {
                self.servers.insert(id, doubtful);
            }
        }
        if let Some(id) = shown.servers.keys().find(|id| !self.servers.contains_key(id)) {
            return Err(format!("server {id} is there and nobody asked for it"));
        }
        for (id, known) in &mut self.servers {
            let (what, shown) = (format!("server {id} ({})", known.name), shown.servers.get(id));
            known.fate = known.fate.settled(&what, shown.map(|shown| shown.head.deleting))?;
            let Some(shown) = shown else { continue };
            if networks.get(&known.network).is_none_or(|network| network.fate != Fate::Live) {
                return Err(format!("the network of {what} was deleted although the server uses it"));
            }
            if !known.asked.contains(&shown.asked) {
                let asked = &known.asked;
                return Err(format!("an accepted update of {what} is lost: one of {asked:?}, not {:?}", shown.asked));
            }
            if (&known.name, known.network, known.authority) != (&shown.head.name, shown.network, shown.authority) {
                return Err(format!("{what} became {shown:?}"));
            }
            known.asked = BTreeSet::from([shown.asked.clone()]);
        }
        self.servers.retain(|id, _| shown.servers.contains_key(id));
        Ok(())
    }

    /// Everything is at rest: references are given back, and verbs have had their effect.
    pub fn rested(&mut self, shown: &Shown) -> Result<(), String> {
        for (id, known) in &mut self.servers {
            known.used = known.asked.iter().flat_map(Asked::uses).collect();
            let word = &shown.servers[id].power;
            let power = known.power.iter().copied().find(|power| power.word() == word);
            let power = power
                .ok_or_else(|| format!("server {id} is {word}, and not {:?} as verbs have left it", known.power))?;
            known.power = BTreeSet::from([power]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger;
    use super::*;

    const NETWORK: Uuid = Uuid::from_u128(1);
    const GROUP: Uuid = Uuid::from_u128(2);
    const AUTHORITY: Uuid = Uuid::from_u128(3);
    const SERVER: Uuid = Uuid::from_u128(4);
    const REGION: RegionId = RegionId(Uuid::from_u128(5));

    fn wanted(public: bool) -> Asked {
        Asked { groups: BTreeSet::from([GROUP]), image: Uuid::nil(), public }
    }

    fn known_server() -> KnownServer {
        KnownServer {
            name: "s".to_owned(),
            network: NETWORK,
            authority: Some(AUTHORITY),
            asked: BTreeSet::from([wanted(false)]),
            used: BTreeSet::from([GROUP]),
            power: BTreeSet::from([Power::Running]),
            fate: Fate::Live,
        }
    }

    fn known() -> Machines {
        let group =
            KnownGroup { name: "g".to_owned(), network: NETWORK, ports: BTreeSet::from([22]), fate: Fate::Live };
        Machines {
            groups: BTreeMap::from([(GROUP, group)]),
            authorities: BTreeMap::from([(AUTHORITY, KnownAuthority { name: "a".to_owned(), fate: Fate::Live })]),
            servers: BTreeMap::from([(SERVER, known_server())]),
            ..Machines::default()
        }
    }

    fn shown() -> Shown {
        let head = |name: &str| Head { name: name.to_owned(), status: "provisioned".to_owned(), deleting: false };
        let server = ShownServer {
            head: head("s"),
            network: NETWORK,
            region: REGION,
            authority: Some(AUTHORITY),
            asked: wanted(false),
            power: "Running".to_owned(),
            instance: None,
        };
        Shown {
            groups: BTreeMap::from([(
                GROUP,
                ShownGroup { head: head("g"), network: NETWORK, region: REGION, port: 22 },
            )]),
            authorities: BTreeMap::from([(AUTHORITY, head("a"))]),
            servers: BTreeMap::from([(SERVER, server)]),
        }
    }

    fn networks(fate: Fate) -> BTreeMap<Uuid, Known> {
        let known = Known::new("n", &ledger::Asked { region: REGION, servers: vec![] });
        BTreeMap::from([(NETWORK, Known { fate, ..known })])
    }

    fn complaint(mut known: Machines, change: impl FnOnce(&mut Shown)) -> String {
        let mut shown = shown();
        change(&mut shown);
        known.compare(&shown, &networks(Fate::Live)).expect_err("it is not as it was accepted")
    }

    #[test]
    fn what_was_accepted_and_is_not_so_is_noticed() {
        known().compare(&shown(), &networks(Fate::Live)).expect("it is as it was accepted");
        assert!(complaint(known(), |shown| shown.groups.clear()).contains("group"));
        assert!(complaint(known(), |shown| shown.authorities.clear()).contains("authority"));
        assert!(complaint(known(), |shown| shown.servers.clear()).contains("is lost"));
        assert!(complaint(Machines::default(), |_| ()).contains("nobody asked"));
        let port = |shown: &mut Shown| shown.groups.get_mut(&GROUP).expect("a group").port = 23;
        assert!(complaint(known(), port).contains("update of group"));
        let public = |shown: &mut Shown| shown.servers.get_mut(&SERVER).expect("a server").asked = wanted(true);
        assert!(complaint(known(), public).contains("update of server"));
        let deleting = |shown: &mut Shown| shown.servers.get_mut(&SERVER).expect("a server").head.deleting = true;
        assert!(complaint(known(), deleting).contains("nobody asked"));
        let gone = known().compare(&shown(), &networks(Fate::DeletionAccepted));
        assert!(gone.expect_err("a network goes last").contains("uses it"));
    }

    #[test]
    fn a_successor_of_the_same_name_is_told_from_its_predecessor() {
        for deleting in [false, true] {
            let mut known = known();
            known.servers.get_mut(&SERVER).expect("known").fate = Fate::DeletionAccepted;
            known.doubtful_servers.insert(SERVER, known_server());
            let mut shown = shown();
            shown.servers.get_mut(&SERVER).expect("a server").head.deleting = deleting;
            known.compare(&shown, &networks(Fate::Live)).expect("either is right");
            let fate = if deleting { Fate::DeletionAccepted } else { Fate::Live };
            assert_eq!(known.servers[&SERVER].fate, fate);
        }
    }

    #[test]
    fn a_verb_that_was_acknowledged_and_not_done_is_noticed() {
        let mut stopped = known();
        stopped.servers.get_mut(&SERVER).expect("known").power = BTreeSet::from([Power::Stopped]);
        assert!(stopped.rested(&shown()).expect_err("it runs").contains("Running"));
        let mut doubtful = known();
        doubtful.servers.get_mut(&SERVER).expect("known").power.insert(Power::Stopped);
        doubtful.rested(&shown()).expect("either is right");
        assert_eq!(doubtful.servers[&SERVER].power, BTreeSet::from([Power::Running]));
    }

    #[test]
    fn what_is_used_is_in_use_until_its_server_has_let_go_of_it() {
        let mut machines = known();
        let uses = |machines: &Machines| {
            [machines.use_of_network(NETWORK), machines.use_of_part(GROUP), machines.use_of_authority(AUTHORITY)]
        };
        assert!(uses(&machines).iter().all(|usage| usage.certain && usage.possible));
        machines.servers.get_mut(&SERVER).expect("known").fate = Fate::DeletionAccepted;
        assert!(uses(&machines).iter().all(|usage| !usage.certain && usage.possible));
        machines.servers.clear();
        assert!(uses(&machines).iter().all(|usage| !usage.certain && !usage.possible));
    }
}
