//! What is said of clouds of every kind, without one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::facts::{Answer, Facts, Offers, ServiceFact, Sights, Standing, Trial};
use super::{Grade, Line, isolation, lines, region_text};
use crate::config::Configuration;
use crate::model::ids::{ProviderExternalNetworkId, RegionId};
use crate::model::openstack::{CloudsYaml, Interface, Isolation};
use crate::model::region::ProviderSettings;

const ID: RegionId = RegionId(uuid::Uuid::from_u128(1));

fn standing(place: &str) -> Standing {
    let roles = ["manager", "member"].map(str::to_owned).to_vec();
    Standing { user: "u".to_owned(), place: place.to_owned(), home: Some("d".to_owned()), roles }
}

/// A cloud that has everything.
fn good() -> Facts {
    let yes = || Answer::Yes(());
    let roles = ["manager", "member", "load-balancer_member"].map(str::to_owned);
    let service = |range| ServiceFact { is_here: true, elsewhere: BTreeSet::new(), versions: range };
    let plain = ["identity", "network", "image", "load-balancer"].map(|name| (name, service(Answer::NotAsked)));
    let versioned = [
        ("compute", service(Answer::Yes(((2, 1), (2, 104))))),
        ("block-storage", service(Answer::Yes(((3, 0), (3, 71))))),
        ("placement", service(Answer::Yes(((1, 0), (1, 39))))),
    ];
    let volume_type = ("11111111-1111-4111-8111-111111111111".to_owned(), "fast".to_owned());
    Facts {
        entry: CloudsYaml { file: "/etc/clouds.yaml".to_owned(), cloud: "north".to_owned() },
        region: Some("RegionOne".to_owned()),
        interface: Interface::Public,
        names_domain: true,
        keystone: Answer::Yes("v3.14".to_owned()),
        account: Answer::Yes(standing("p")),
        manager: Answer::Yes(standing("d")),
        services: plain.into_iter().chain(versioned).collect(),
        roles: Answer::Yes(roles.iter().cloned().collect()),
        trial: Trial {
            project: yes(),
            user: yes(),
            grants: roles.into_iter().map(|role| (role, yes())).collect(),
            entry: yes(),
            quotas: ["compute", "network", "block-storage"].map(|service| (service, yes())).into(),
            left: Vec::new(),
        },
        sights: Sights { servers: yes(), networks: yes(), load_balancers: yes(), hosts: yes(), vlans: yes() },
        offers: Offers {
            external_networks: Answer::Yes(vec![(ProviderExternalNetworkId("e".to_owned()), "public".to_owned())]),
            volume_types: Answer::Yes(vec![volume_type]),
            flavors: Answer::Yes(3),
            images: Answer::Yes(2),
        },
    }
}

/// The lines that are not well, each with what mends it.
fn shortfalls(facts: &Facts) -> Vec<Line> {
    let short = lines(facts).into_iter().filter(|line| line.grade != Grade::Ok).collect::<Vec<_>>();
    assert!(short.iter().all(|line| line.mend.is_some()), "each has something that mends it: {short:?}");
    short
}

fn only(facts: &Facts) -> Line {
    let [only] = shortfalls(facts).try_into().expect("one");
    only
}

fn settings(facts: &Facts) -> crate::model::openstack::OpenstackSettings {
    let text = region_text(facts, ID);
    let read = Configuration::parse(&text, Path::new("f")).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let [region] = read.regions.try_into().expect("one");
    match region.spec.provider {
        ProviderSettings::Openstack(settings) => *settings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cloud_that_has_everything_is_a_region_that_can_be_pasted() {
    assert_eq!(shortfalls(&good()), []);
    let settings = settings(&good());
    assert_eq!(settings.isolation, Isolation::Principal);
    assert_eq!(settings.region_name.as_deref(), Some("RegionOne"));
    assert_eq!(settings.identity.domain, None, "the entry says it");
    assert_eq!(settings.network.external_networks.ids, [ProviderExternalNetworkId("e".to_owned())]);
    assert_eq!(settings.block_storage.volume_classes.ids.len(), 1);
    assert!(settings.network.provider_networks.is_none(), "which VLANs are free only people know");
}

#[test]
fn a_domain_that_the_entry_does_not_name_is_named_by_the_region() {
    let facts = Facts { names_domain: false, ..good() };
    assert_eq!(settings(&facts).identity.domain.as_deref(), Some("d"));
}

#[test]
fn without_rights_in_a_domain_everything_lies_in_one_project_and_that_is_said() {
    let facts = Facts { manager: Answer::Refused, roles: Answer::NotAsked, trial: Trial::default(), ..good() };
    assert_eq!(isolation(&facts), Isolation::Project);
    assert_eq!(settings(&facts).isolation, Isolation::Project);
    let short = shortfalls(&facts);
    assert!(short.iter().all(|line| line.grade == Grade::Weaker), "it can be a region all the same: {short:?}");
    let mut mends = short.iter().filter_map(|line| line.mend.as_deref());
    assert!(mends.any(|mend| mend.starts_with("openstack role add --user u --domain d manager")), "{short:?}");
}

#[test]
fn a_quota_or_a_role_that_we_may_not_set_costs_the_isolation() {
    let mut facts = good();
    facts.trial.quotas.insert("network", Answer::Refused);
    assert_eq!(isolation(&facts), Isolation::Project);
    assert!(shortfalls(&facts)[0].mend.as_deref().expect("a mend").contains("policy/neutron.yaml"));
    let mut facts = good();
    facts.trial.grants.insert("load-balancer_member".to_owned(), Answer::Refused);
    assert_eq!(isolation(&facts), Isolation::Project);
    assert!(shortfalls(&facts)[0].mend.as_deref().expect("a mend").contains("policy/keystone.yaml"));
}

#[test]
fn a_role_that_the_cloud_does_not_have_is_not_given() {
    let mut facts = good();
    facts.trial.grants.remove("load-balancer_member");
    facts.roles = Answer::Yes(["manager", "member"].map(str::to_owned).into());
    assert_eq!(only(&facts).mend.as_deref(), Some("openstack role create load-balancer_member"));
    assert_eq!(isolation(&facts), Isolation::Principal);
    assert_eq!(settings(&facts).identity.cluster_roles, ["member"]);
}

#[test]
fn a_cloud_that_lets_nobody_in_is_asked_no_further() {
    let facts = Facts { account: Answer::Refused, ..good() };
    let line = only(&facts);
    assert_eq!((line.grade, line.subject.as_str()), (Grade::Missing, "log-in"));
    let away = Facts { keystone: Answer::Failed("no connection".to_owned()), ..good() };
    assert_eq!(lines(&away).len(), 1);
    assert_eq!(only(&away).grade, Grade::Missing);
}

#[test]
fn a_service_that_is_needed_is_missed_more_than_one_that_is_not() {
    let mut facts = good();
    facts.services.remove("load-balancer");
    let line = only(&facts);
    assert_eq!(line.grade, Grade::Weaker);
    assert_eq!(line.mend.as_deref(), Some("openstack endpoint create --region RegionOne load-balancer public <url>"));
    let elsewhere = ServiceFact { elsewhere: ["RegionTwo public".to_owned()].into(), ..ServiceFact::default() };
    let facts = Facts { services: BTreeMap::from([("network", elsewhere)]), ..good() };
    let missing = shortfalls(&facts).into_iter().filter(|line| line.grade == Grade::Missing).collect::<Vec<_>>();
    let subjects = missing.iter().map(|line| line.subject.as_str()).collect::<Vec<_>>();
    assert_eq!(subjects, ["service identity", "service compute", "service network", "service image"]);
    assert!(missing[2].found.contains("RegionTwo public"), "{}", missing[2]);
}

#[test]
fn a_service_that_is_too_old_is_told_from_one_that_is_old() {
    let with = |max| {
        let mut facts = good();
        let versions = Answer::Yes(((2, 1), max));
        facts.services.insert("compute", ServiceFact { is_here: true, versions, ..ServiceFact::default() });
        only(&facts)
    };
    assert_eq!(with((2, 79)).grade, Grade::Weaker);
    assert!(with((2, 79)).found.contains("we speak 2.79"));
    assert_eq!(with((2, 60)).grade, Grade::Missing);
}

#[test]
fn what_could_not_be_taken_away_is_named_with_the_command_that_does() {
    let mut facts = good();
    facts.trial.left.push("openstack project delete x".to_owned());
    assert_eq!(only(&facts).mend.as_deref(), Some("openstack project delete x"));
}

#[test]
fn whatever_a_cloud_calls_its_things_the_region_can_be_read() {
    let mut facts = good();
    facts.entry.cloud = "\"north\"\n[[regions]] ü".to_owned();
    facts.region = Some("a \"region\"\\".to_owned());
    let name = "x\n[regions]\u{7}\u{2028}#".to_owned();
    facts.offers.external_networks = Answer::Yes(vec![(ProviderExternalNetworkId(name.clone()), name.clone())]);
    facts.offers.volume_types = Answer::Yes(vec![("no uuid".to_owned(), name)]);
    assert_eq!(settings(&facts).region_name, facts.region);
    assert!(settings(&facts).block_storage.volume_classes.ids.is_empty());
    let nameless = Facts { entry: CloudsYaml { file: "f".to_owned(), cloud: "…".to_owned() }, ..good() };
    assert!(region_text(&nameless, ID).contains("name = \"openstack\""));
}
