//! What one client knows of its load balancers, volumes, file storages, images and instances, and what it may conclude
//! from what it is shown. The rules are those of [`super::ledger`]. The kinds differ in what can be said of one, in what one
//! keeps from being deleted, and in little else: so one ledger serves them all.

use std::collections::{BTreeMap, BTreeSet};

use regent::model::ids::{ImageId, Kind, NetworkId, OrganizationId, RegionId, ServerId};
use regent::providers::simulated::catalogue::{FILES_STANDARD, VOLUME_CLASS_STANDARD};
use serde_json::{Value, json};
use uuid::Uuid;

use super::deeds::IMAGES;
use super::ledger::{Fate, Known};
use super::machines::{KnownGroup, KnownServer, Power, Use};
use super::wire::Head;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ware {
    /// Goes with its network.
    Balancer,
    /// Keeps its network, and the server that claims it.
    Volume,
    /// Keeps the networks that it is attached to.
    Storage,
    /// Keeps the server that it is a copy of until it is made. Servers that boot from it keep it.
    Image,
    /// Keeps its network, its groups and its image, and so does the server that works for it.
    Instance,
}

/// One of the lists that there are of them.
pub struct List {
    pub ware: Ware,
    /// The region of everything in it, where that is not said of each.
    pub region: Option<RegionId>,
    pub path: String,
}

impl Ware {
    pub const ALL: [Self; 5] = [Self::Balancer, Self::Volume, Self::Storage, Self::Image, Self::Instance];

    pub const fn kind(self) -> Kind {
        match self {
            Self::Balancer => Kind::LoadBalancer,
            Self::Volume => Kind::Volume,
            Self::Storage => Kind::FileStorage,
            Self::Image => Kind::Image,
            Self::Instance => Kind::Instance,
        }
    }

    /// Where one is made, changed and deleted.
    pub fn path(self, organization: OrganizationId, region: RegionId) -> String {
        match self {
            Self::Balancer => "/api/v2/loadbalancers".to_owned(),
            Self::Volume => "/api/v2/volumes".to_owned(),
            Self::Storage => "/api/v2/filestorage".to_owned(),
            Self::Instance => "/api/v2/instances".to_owned(),
            Self::Image => format!("/api/v1/organizations/{organization}/regions/{region}/images"),
        }
    }

    /// Everything that can be listed. Images are listed by region.
    pub fn lists(organization: OrganizationId, regions: &[RegionId]) -> Vec<List> {
        let whole = [Self::Balancer, Self::Volume, Self::Storage, Self::Instance];
        let whole = whole.map(|ware| List { ware, region: None, path: ware.path(organization, regions[0]) });
        let images = regions.iter().map(|region| List {
            ware: Self::Image,
            region: Some(*region),
            path: format!("/api/v2/regions/{region}/images?scope=owned&organizationID={organization}"),
        });
        whole.into_iter().chain(images).collect()
    }
}

/// What one was asked to be, as far as it is read back. What its kind does not have is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    pub size_gib: u64,
    /// The server that claims it.
    pub server: Option<Uuid>,
    /// The networks that it is attached to.
    pub networks: BTreeSet<Uuid>,
    pub public: bool,
    /// Its listeners, and the port of the one member of each.
    pub doors: BTreeMap<String, u16>,
    pub groups: BTreeSet<Uuid>,
    pub image: Option<Uuid>,
    pub flavor: Option<Uuid>,
}

/// A listener's name gives its port, which never changes.
pub const DOORS: [(&str, u16); 2] = [("web", 80), ("tls", 443)];

impl Asked {
    /// As it is said on the wire, at first and later.
    pub fn spec(&self, ware: Ware) -> Value {
        match ware {
            Ware::Balancer => {
                let listener = |(name, port): (&str, u16)| {
                    let members = json!([{"address": "10.1.0.200", "port": self.doors.get(name)?}]);
                    Some(json!({"name": name, "protocol": "tcp", "port": port, "pool": {"members": members}}))
                };
                json!({"publicIP": self.public, "listeners": DOORS.into_iter().filter_map(listener).collect::<Vec<_>>()})
            }
            Ware::Volume => match self.server {
                Some(server) => json!({"sizeGiB": self.size_gib, "serverId": server}),
                None => json!({"sizeGiB": self.size_gib}),
            },
            Ware::Storage => {
                json!({"sizeGiB": self.size_gib, "storageType": {}, "attachments": {"networkIds": self.networks}})
            }
            Ware::Image => json!({
                "uri": "https://images.example.org/disk.raw", "architecture": "x86_64", "virtualization": "any",
                "os": {"kernel": "linux", "family": "debian", "distro": "debian", "version": "13"},
            }),
            Ware::Instance => json!({
                "flavorId": self.flavor, "imageId": self.image,
                "networking": {"securityGroups": self.groups, "publicIP": self.public},
            }),
        }
    }
}

/// One that was acknowledged, or seen.
#[derive(Clone, Debug)]
pub struct KnownWare {
    pub ware: Ware,
    pub name: String,
    pub region: RegionId,
    /// The network that it is in, if its kind is in one.
    pub network: Option<Uuid>,
    /// What was last acknowledged, and later updates that are in doubt.
    pub asked: BTreeSet<Asked>,
    /// Everything that it may still refer to: it gives it back when the cloud has followed.
    pub used: BTreeSet<Uuid>,
    /// It was seen whole; nobody spoils it after that.
    pub is_ready: bool,
    /// What acknowledged verbs have made of it; more than one while a verb is in doubt, or a flavor on its way: who gets
    /// another machine for it gets one that runs.
    pub power: BTreeSet<Power>,
    /// The word for its power that was seen last.
    seen_power: String,
    /// Another flavor was asked for since everything was at rest.
    pub is_reshaped: bool,
    pub fate: Fate,
}

impl KnownWare {
    pub fn new(ware: Ware, name: &str, region: RegionId, network: Option<Uuid>, asked: Asked) -> Self {
        let mut known = Self {
            ware,
            name: name.to_owned(),
            region,
            network,
            asked: BTreeSet::from([asked]),
            used: BTreeSet::new(),
            is_ready: false,
            power: BTreeSet::from([Power::Running]),
            seen_power: String::new(),
            is_reshaped: false,
            fate: Fate::Live,
        };
        known.used = known.needs();
        known
    }

    /// What cannot be deleted as long as this is not, and stays as it is.
    pub fn needs(&self) -> BTreeSet<Uuid> {
        let claimed = self.asked.iter().flat_map(|asked| asked.networks.iter().chain(&asked.server));
        let claimed = claimed.chain(self.asked.iter().flat_map(|asked| &asked.groups)).copied();
        let images = self.asked.iter().filter_map(|asked| asked.image);
        let images = images.filter(|image| !IMAGES.contains(&ImageId(*image)));
        let home = self.network.filter(|_| matches!(self.ware, Ware::Volume | Ware::Instance));
        claimed.chain(images).chain(home).collect()
    }

    /// The server that works for an instance: its name gives it.
    pub fn server(&self) -> Option<Uuid> {
        let network = self.network.filter(|_| self.ware == Ware::Instance)?;
        Some(ServerId::named(NetworkId(network), &self.name).0)
    }

    /// What a verb that was carried out leads to, as far as that is known.
    pub fn switched(&mut self, power: Power) {
        if !self.is_reshaped {
            self.power.clear();
        }
        self.power.insert(power);
    }

    /// Its specification. Nothing is asked before doubts are settled, so there is one.
    pub fn settled(&self) -> &Asked {
        self.asked.last().expect("asked for")
    }

    fn compare(
        &mut self,
        id: Uuid,
        shown: Option<&ShownWare>,
        around: Around<'_>,
        images: &BTreeSet<Uuid>,
    ) -> Result<(), String> {
        let what = format!("{:?} {id} ({})", self.ware, self.name);
        let home = self.network.map(|id| around.networks.get(&id).map(|network| network.fate));
        match home {
            Some(None) if shown.is_some() => return Err(format!("{what} has outlived its network")),
            // It goes with its network, and nobody knows when.
            Some(fate) if self.ware == Ware::Balancer && fate != Some(Fate::Live) => self.fate = Fate::DeletionAccepted,
            _ => self.fate = self.fate.settled(&what, shown.map(|shown| shown.head.deleting))?,
        }
        let Some(shown) = shown else { return Ok(()) };
        if !self.asked.contains(&shown.asked) {
            let asked = &self.asked;
            return Err(format!("an accepted update of {what} is lost: one of {asked:?}, not {:?}", shown.asked));
        }
        if (&self.name, self.region, self.network) != (&shown.head.name, shown.region, shown.network) {
            return Err(format!("{what} became {shown:?}"));
        }
        self.asked = BTreeSet::from([shown.asked.clone()]);
        self.is_ready |= shown.is_whole();
        self.seen_power.clone_from(&shown.power);
        let missing = self.needs().into_iter().find(|id| !around.is_live(*id) && !images.contains(id));
        match missing.filter(|_| self.fate == Fate::Live) {
            Some(missing) => Err(format!("{missing} was deleted although {what} uses it")),
            None => Ok(()),
        }
    }
}

/// What wares may use.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    pub networks: &'a BTreeMap<Uuid, Known>,
    pub servers: &'a BTreeMap<Uuid, KnownServer>,
    pub groups: &'a BTreeMap<Uuid, KnownGroup>,
}

impl Around<'_> {
    fn is_live(self, id: Uuid) -> bool {
        let fates = [
            self.networks.get(&id).map(|network| network.fate),
            self.servers.get(&id).map(|server| server.fate),
            self.groups.get(&id).map(|group| group.fate),
        ];
        fates.into_iter().flatten().next() == Some(Fate::Live)
    }
}

/// One as the server shows it.
#[derive(Clone, Debug)]
pub struct ShownWare {
    pub ware: Ware,
    pub head: Head,
    pub region: RegionId,
    pub network: Option<Uuid>,
    pub asked: Asked,
    /// How its machine is, if it has one.
    pub power: String,
}

impl ShownWare {
    /// The server that works for an instance.
    pub fn server(&self) -> Option<Uuid> {
        let network = self.network.filter(|_| self.ware == Ware::Instance)?;
        Some(ServerId::named(NetworkId(network), &self.head.name).0)
    }

    /// Images have words of their own.
    pub fn is_whole(&self) -> bool {
        self.head.status == if self.ware == Ware::Image { "ready" } else { "provisioned" }
    }
}

pub type Shown = BTreeMap<Uuid, ShownWare>;

#[derive(Clone, Debug, Default)]
pub struct Wares {
    pub known: BTreeMap<Uuid, KnownWare>,
    /// Creations that may have happened, by name.
    pub doubtful: BTreeMap<String, KnownWare>,
}

impl Wares {
    pub fn of(&self, ware: Ware) -> impl Iterator<Item = (Uuid, &KnownWare)> {
        self.known.iter().filter(move |(_, known)| known.ware == ware).map(|(id, known)| (*id, known))
    }

    pub fn live(&self, ware: Ware) -> Vec<Uuid> {
        self.of(ware).filter(|(_, known)| known.fate == Fate::Live).map(|(id, _)| id).collect()
    }

    /// Images that servers of a region can boot from.
    pub fn bootable(&self, region: RegionId) -> Vec<Uuid> {
        let live = self.live(Ware::Image).into_iter();
        live.filter(|id| self.known[id].is_ready && self.known[id].region == region).collect()
    }

    /// Is this network or this server in use by any of them?
    pub fn use_of(&self, id: Uuid) -> Use {
        let certain = self.known.values().any(|known| known.fate == Fate::Live && known.needs().contains(&id));
        Use { certain, possible: certain || self.known.values().any(|known| known.used.contains(&id)) }
    }

    /// Compares with everything that the server shows of this client, and settles what was in doubt. What is around
    /// was looked at before, and is known.
    pub fn compare(&mut self, shown: &Shown, around: Around<'_>) -> Result<(), String> {
        for (id, ware) in shown {
            let (kind, name) = (ware.ware, &ware.head.name);
            if !self.known.contains_key(id) {
                let known = self.doubtful.remove(name).filter(|known| known.ware == kind);
                let known = known.ok_or_else(|| format!("{kind:?} {id} ({name}) is there and nobody asked for it"))?;
                self.known.insert(*id, known);
            }
        }
        self.doubtful.clear();
        let images = shown.iter().filter(|(_, shown)| shown.ware == Ware::Image && !shown.head.deleting);
        let images = images.map(|(id, _)| *id).collect::<BTreeSet<_>>();
        for (id, known) in &mut self.known {
            known.compare(*id, shown.get(id), around, &images)?;
        }
        self.known.retain(|id, _| shown.contains_key(id));
        Ok(())
    }

    /// Everything is at rest: references are given back, copies are made, and verbs have had their effect.
    pub fn rested(&mut self) -> Result<(), String> {
        for (id, known) in &mut self.known {
            known.used = known.needs();
            known.is_reshaped = false;
            if known.ware == Ware::Instance {
                let word = &known.seen_power;
                let power = known.power.iter().copied().find(|power| power.word() == word);
                let power = power.ok_or_else(|| {
                    format!("instance {id} is {word}, and not {:?} as verbs have left it", known.power)
                })?;
                known.power = BTreeSet::from([power]);
            }
        }
        Ok(())
    }
}

/// What is said once, when one is made.
pub fn fixed(known: &KnownWare, organization: OrganizationId, project: impl serde::Serialize) -> Value {
    match known.ware {
        Ware::Balancer => json!({"networkId": known.network}),
        Ware::Volume => json!({"networkId": known.network, "volumeClassId": VOLUME_CLASS_STANDARD}),
        Ware::Storage => json!({
            "organizationId": organization, "projectId": project, "regionId": known.region,
            "storageClassId": FILES_STANDARD,
        }),
        Ware::Image => json!({}),
        Ware::Instance => json!({"organizationId": organization, "projectId": project, "networkId": known.network}),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger;
    use super::super::wire;
    use super::*;

    const NETWORK: Uuid = Uuid::from_u128(1);
    const SERVER: Uuid = Uuid::from_u128(2);
    const WARE: Uuid = Uuid::from_u128(3);
    const GROUP: Uuid = Uuid::from_u128(4);
    const REGION: RegionId = RegionId(Uuid::from_u128(5));

    fn asked(ware: Ware) -> Asked {
        match ware {
            Ware::Balancer => Asked { doors: BTreeMap::from([("web".to_owned(), 1)]), ..Asked::default() },
            Ware::Volume => Asked { size_gib: 1, server: Some(SERVER), ..Asked::default() },
            Ware::Storage => Asked { size_gib: 1, networks: BTreeSet::from([NETWORK]), ..Asked::default() },
            Ware::Image => Asked::default(),
            Ware::Instance => Asked {
                groups: BTreeSet::from([GROUP]),
                image: Some(IMAGES[0].0),
                flavor: Some(Uuid::from_u128(6)),
                ..Asked::default()
            },
        }
    }

    fn changed(ware: Ware) -> Asked {
        Asked { size_gib: 2, public: true, ..asked(ware) }
    }

    fn network_of(ware: Ware) -> Option<Uuid> {
        matches!(ware, Ware::Balancer | Ware::Volume | Ware::Instance).then_some(NETWORK)
    }

    fn known(ware: Ware) -> Wares {
        let known = KnownWare::new(ware, "w", REGION, network_of(ware), asked(ware));
        Wares { known: BTreeMap::from([(WARE, known)]), ..Wares::default() }
    }

    fn shown(ware: Ware) -> ShownWare {
        let head = Head { name: "w".to_owned(), status: String::new(), deleting: false };
        let power = Power::Running.word().to_owned();
        ShownWare { ware, head, region: REGION, network: network_of(ware), asked: asked(ware), power }
    }

    fn compared(
        wares: &mut Wares,
        shown: Option<ShownWare>,
        network: Option<Fate>,
        server: Fate,
    ) -> Result<(), String> {
        let of = |fate| Known { fate, ..Known::new("n", &ledger::Asked { region: REGION, servers: vec![] }) };
        let networks = network.map(|fate| (NETWORK, of(fate))).into_iter().collect();
        let server = KnownServer {
            name: "s".to_owned(),
            network: NETWORK,
            authority: None,
            asked: BTreeSet::new(),
            used: BTreeSet::new(),
            power: BTreeSet::from([Power::Running]),
            fate: server,
        };
        let group = KnownGroup { name: "g".to_owned(), network: NETWORK, ports: BTreeSet::new(), fate: Fate::Live };
        let (servers, groups) = (BTreeMap::from([(SERVER, server)]), BTreeMap::from([(GROUP, group)]));
        let around = Around { networks: &networks, servers: &servers, groups: &groups };
        wares.compare(&shown.map(|shown| (WARE, shown)).into_iter().collect(), around)
    }

    fn complaint(mut wares: Wares, shown: Option<ShownWare>) -> String {
        compared(&mut wares, shown, Some(Fate::Live), Fate::Live).expect_err("it is not as it was accepted")
    }

    #[test]
    fn a_ware_that_was_accepted_and_is_not_so_is_noticed() {
        for ware in Ware::ALL {
            compared(&mut known(ware), Some(shown(ware)), Some(Fate::Live), Fate::Live).expect("it is as accepted");
            assert!(complaint(known(ware), None).contains("is lost"));
            assert!(complaint(Wares::default(), Some(shown(ware))).contains("nobody asked"));
            let update = ShownWare { asked: changed(ware), ..shown(ware) };
            assert!(complaint(known(ware), Some(update)).contains("update"));
            let moved = ShownWare { region: RegionId(Uuid::nil()), ..shown(ware) };
            assert!(complaint(known(ware), Some(moved)).contains("became"));
            let going = ShownWare { head: Head { deleting: true, ..shown(ware).head }, ..shown(ware) };
            assert!(complaint(known(ware), Some(going)).contains("nobody asked"));
        }
    }

    #[test]
    fn a_ware_in_doubt_may_be_either_way_and_is_settled_by_a_look() {
        for ware in Ware::ALL {
            let mut doubtful = known(ware);
            doubtful.known.get_mut(&WARE).expect("known").asked.insert(changed(ware));
            compared(&mut doubtful, Some(shown(ware)), Some(Fate::Live), Fate::Live).expect("either is right");
            assert_eq!(doubtful.known[&WARE].settled(), &asked(ware));
            let created = known(ware).known.remove(&WARE).expect("known");
            for there in [true, false] {
                let doubtful = BTreeMap::from([("w".to_owned(), created.clone())]);
                let mut wares = Wares { doubtful, ..Wares::default() };
                let shown = there.then(|| shown(ware));
                compared(&mut wares, shown, Some(Fate::Live), Fate::Live).expect("either is right");
                assert_eq!(wares.live(ware).len(), usize::from(there));
            }
        }
    }

    #[test]
    fn whatever_goes_under_a_ware_is_noticed_except_where_it_goes_along() {
        let going = Some(Fate::DeletionAccepted);
        for ware in [Ware::Volume, Ware::Storage, Ware::Instance] {
            let gone = compared(&mut known(ware), Some(shown(ware)), going, Fate::Live);
            assert!(gone.expect_err("it is in use").contains("uses it"));
        }
        let gone =
            compared(&mut known(Ware::Volume), Some(shown(Ware::Volume)), Some(Fate::Live), Fate::DeletionAccepted);
        assert!(gone.expect_err("it is in use").contains("uses it"));
        for shown in [Some(shown(Ware::Balancer)), None] {
            compared(&mut known(Ware::Balancer), shown, going, Fate::Live).expect("it goes along");
        }
        let outlived = compared(&mut known(Ware::Balancer), Some(shown(Ware::Balancer)), None, Fate::Live);
        assert!(outlived.expect_err("its network is gone").contains("outlived"));
    }

    #[test]
    fn what_a_ware_uses_is_in_use_until_it_has_let_go_of_it() {
        let uses =
            |wares: &Wares| [NETWORK, SERVER].map(|id| wares.use_of(id)).map(|usage| (usage.certain, usage.possible));
        let (free, late, held) = ((false, false), (false, true), (true, true));
        assert_eq!(uses(&known(Ware::Balancer)), [free, free]);
        assert_eq!(uses(&known(Ware::Storage)), [held, free]);
        assert_eq!(uses(&known(Ware::Instance)), [held, free]);
        let group = known(Ware::Instance).use_of(GROUP);
        assert!(group.certain && group.possible);
        let mut volume = known(Ware::Volume);
        assert_eq!(uses(&volume), [held, held]);
        let one = volume.known.get_mut(&WARE).expect("known");
        one.asked = BTreeSet::from([Asked { size_gib: 1, ..Asked::default() }]);
        assert_eq!(uses(&volume), [held, late], "the cloud has yet to follow");
        volume.rested().expect("nothing is switched");
        assert_eq!(uses(&volume), [held, free]);
        let mut snapshot = known(Ware::Image);
        snapshot.known.get_mut(&WARE).expect("known").used.insert(SERVER);
        assert_eq!(uses(&snapshot), [free, late], "it may be made already");
    }

    #[test]
    fn an_instance_that_is_not_as_its_verbs_have_left_it_is_noticed() {
        let mut stopped = known(Ware::Instance);
        stopped.known.get_mut(&WARE).expect("known").switched(Power::Stopped);
        compared(&mut stopped, Some(shown(Ware::Instance)), Some(Fate::Live), Fate::Live).expect("it is as accepted");
        let mut reshaped = stopped.clone();
        assert!(stopped.rested().expect_err("it runs").contains("Running"));
        let one = reshaped.known.get_mut(&WARE).expect("known");
        (one.is_reshaped, one.power) = (true, BTreeSet::from([Power::Running]));
        one.switched(Power::Stopped);
        reshaped.rested().expect("its machine is another one");
    }

    #[test]
    fn what_is_asked_for_is_read_back_as_it_was_said() {
        for ware in [Ware::Balancer, Ware::Volume, Ware::Storage, Ware::Instance] {
            let spec = asked(ware).spec(ware);
            assert_eq!(wire::ware_asked(ware, &spec), Some(asked(ware)), "{spec}");
        }
    }
}
