//! The life of machines in the cloud in good health, without a provider.

use std::time::Duration;

use jiff::Timestamp;

use super::super::call::{Answer, Call, Change, CloudError, Criteria, ServerAction};
use super::super::catalogue::{FLAVOR_METAL, FLAVOR_STANDARD, IMAGE_UBUNTU};
use super::super::objects::{
    Becomes, Body, CloudObject, ObjectId, ObjectKind, ObjectState, PortOptions, ServerBody, ServerLife,
};
use super::super::testing::{new_object, object, objects, request, router_body, subnet_body};
use super::SimulatedCloud;
use super::faults::Effect;
use super::settings::EngineSettings;
use crate::model::ids::{FlavorId, ImageId};
use crate::model::security_group::implicit_rules;
use crate::model::server::PowerState;

pub(super) fn at(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + millisecond).expect("a time")
}

/// A cloud with a network of its own.
pub(super) struct Bench {
    pub cloud: SimulatedCloud,
    pub project: CloudObject,
    pub network: CloudObject,
    subnet: CloudObject,
}

impl Bench {
    pub fn new() -> Self {
        let mut cloud = SimulatedCloud::new(1);
        let mut make = |id, body| object(cloud.apply(at(0), &new_object(id, body)));
        let project = make(1, Body::Project);
        let network = make(2, Body::Network { project: project.id.clone(), segment: None });
        let subnet = make(3, subnet_body(&network.id));
        Self { cloud, project, network, subnet }
    }

    pub fn call(&mut self, now: i64, call: &Call) -> Result<Answer, CloudError> {
        self.cloud.apply(at(now), call)
    }

    pub fn try_make(&mut self, now: i64, id: u128, body: Body) -> Result<Answer, CloudError> {
        self.call(now, &new_object(id, body))
    }

    fn port(&mut self, id: u128) -> CloudObject {
        let body = self.port_body();
        object(self.try_make(0, id, body))
    }

    fn port_body(&self) -> Body {
        Body::Port { network: self.network.id.clone(), options: PortOptions::default(), address: None }
    }

    fn server_body(&self, port: &CloudObject, flavor: FlavorId) -> ServerBody {
        ServerBody {
            project: self.project.id.clone(),
            flavor,
            image: IMAGE_UBUNTU,
            port: port.id.clone(),
            key_name: None,
            user_data: None,
            host: None,
            life: ServerLife::default(),
        }
    }

    pub fn server(&mut self, now: i64, id: u128, flavor: FlavorId) -> CloudObject {
        let port = self.port(id);
        let body = self.server_body(&port, flavor);
        object(self.try_make(now, id, Body::Server(Box::new(body))))
    }

    pub fn get(&mut self, now: i64, of: &CloudObject) -> Result<CloudObject, CloudError> {
        self.call(now, &Call::Get { kind: of.kind(), id: of.id.clone() }).map(|answer| object(Ok(answer)))
    }

    pub fn delete(&mut self, now: i64, of: &CloudObject) -> Result<Answer, CloudError> {
        self.call(now, &Call::Delete { kind: of.kind(), id: of.id.clone() })
    }
}

pub(super) fn is_conflict(result: &Result<Answer, CloudError>) -> bool {
    matches!(result, Err(CloudError::Conflict { .. }))
}

#[test]
fn a_server_boots_when_its_time_has_come_whoever_looks_and_whenever() {
    let mut bench = Bench::new();
    let server = bench.server(0, 10, FLAVOR_STANDARD);
    assert_eq!(server.state, ObjectState::Building);
    assert_eq!(bench.get(1999, &server).expect("there").state, ObjectState::Building);
    let running = bench.get(60_000, &server).expect("there");
    let life = &running.server().expect("a server").life;
    assert_eq!((running.state, life.power, life.launched), (ObjectState::Active, PowerState::Running, Some(at(2000))));
}

#[test]
fn a_port_takes_one_server_and_one_floating_address() {
    let mut bench = Bench::new();
    let port = bench.port(10);
    let body = bench.server_body(&port, FLAVOR_STANDARD);
    let first = object(bench.try_make(0, 11, Body::Server(Box::new(body.clone()))));
    assert!(is_conflict(&bench.try_make(0, 12, Body::Server(Box::new(body.clone())))));
    let external_network = ObjectId("55555555-5555-4555-8555-555555555555".to_owned());
    let floating = Body::FloatingIp { port: port.id.clone(), external_network, address: None };
    object(bench.try_make(0, 13, floating.clone()));
    assert!(is_conflict(&bench.try_make(0, 14, floating)));
    // Also while the first one is on its way out.
    bench.delete(0, &first).expect("accepted");
    assert!(is_conflict(&bench.try_make(100, 15, Body::Server(Box::new(body.clone())))));
    bench.try_make(300, 16, Body::Server(Box::new(body))).expect("the port is free again");
}

#[test]
fn machines_keep_what_they_need_from_being_deleted() {
    let mut bench = Bench::new();
    let rules = Body::SecurityGroup { project: bench.project.id.clone(), rules: std::collections::BTreeSet::new() };
    let group = object(bench.try_make(0, 10, rules));
    let port = bench.port(11);
    let security_groups = std::collections::BTreeSet::from([group.id.clone()]);
    let change = Change::Port { options: PortOptions { security_groups, ..PortOptions::default() } };
    bench.call(0, &Call::Update { kind: ObjectKind::Port, id: port.id.clone(), change }).expect("changed");
    let body = bench.server_body(&port, FLAVOR_STANDARD);
    let server = object(bench.try_make(0, 12, Body::Server(Box::new(body))));
    let (project, network, subnet) = (bench.project.clone(), bench.network.clone(), bench.subnet.clone());
    for refused in [&project, &network, &subnet, &group, &port] {
        assert!(is_conflict(&bench.delete(0, refused)), "{:?} is in use", refused.kind());
    }
    bench.delete(0, &server).expect("accepted");
    bench.delete(0, &server).expect("asking again is fine");
    assert!(is_conflict(&bench.delete(299, &port)), "not before the server is gone");
    assert_eq!(bench.get(300, &server), Err(CloudError::NotFound));
    for deleted in [&port, &group, &subnet, &network, &project] {
        bench.delete(300, deleted).expect("deleted");
    }
    assert!(bench.cloud.inventory(at(300)).is_empty());
}

#[test]
fn addresses_are_never_given_out_twice_and_come_to_an_end() {
    let mut bench = Bench::new();
    let ip = |port: &CloudObject| port.port_address().expect("an address").ip;
    let ports: Vec<CloudObject> = (0..253).map(|id| bench.port(100 + id)).collect();
    let different: std::collections::BTreeSet<_> = ports.iter().map(ip).collect();
    assert_eq!(different.len(), 253, "10.0.0.2 to 10.0.0.254");
    assert!(!different.contains(&"10.0.0.1".parse().expect("the gateway")));
    let body = bench.port_body();
    assert!(is_conflict(&bench.try_make(0, 1, body.clone())));
    for again in [&ports[0], &ports[100], &ports[252]] {
        bench.delete(0, again).expect("deleted");
        assert_eq!(ip(&object(bench.try_make(0, 1, body.clone()))), ip(again), "the gap is used");
    }
    assert!(is_conflict(&bench.try_make(0, 1, body)));
}

#[test]
fn a_group_is_made_with_the_rules_that_let_everything_out() {
    let mut bench = Bench::new();
    let empty = Body::SecurityGroup { project: bench.project.id.clone(), rules: std::collections::BTreeSet::new() };
    let group = object(bench.try_make(0, 10, empty)).id;
    let Body::SecurityGroup { rules, .. } = bench.cloud.inventory(at(0)).security_groups[0].body.clone() else {
        panic!("not a group")
    };
    assert_eq!(rules, std::collections::BTreeSet::from(implicit_rules()));
    let rule = implicit_rules()[0];
    assert!(is_conflict(&bench.call(0, &Call::AddRule { group: group.clone(), rule })));
    let remove = Call::RemoveRule { group, rule };
    bench.call(0, &remove).expect("removed");
    assert_eq!(bench.call(0, &remove), Err(CloudError::NotFound));
}

#[test]
fn what_is_not_in_the_catalogue_is_rejected() {
    let mut bench = Bench::new();
    let port = bench.port(10);
    let body = bench.server_body(&port, FLAVOR_STANDARD);
    let nothing = uuid::Uuid::nil();
    for wrong in [
        ServerBody { flavor: FlavorId(nothing), ..body.clone() },
        ServerBody { image: ImageId(nothing), ..body.clone() },
        ServerBody { key_name: Some("nobody's".to_owned()), ..body.clone() },
    ] {
        let refused = bench.try_make(0, 11, Body::Server(Box::new(wrong)));
        assert!(matches!(refused, Err(CloudError::Rejected { .. })), "{refused:?}");
    }
    bench.try_make(0, 11, Body::Server(Box::new(body))).expect("made");
}

#[test]
fn a_machine_that_becomes_free_while_nobody_looks_is_taken_at_that_moment() {
    let mut bench = Bench::new();
    let first = bench.server(0, 10, FLAVOR_METAL);
    bench.server(1, 11, FLAVOR_METAL);
    let waiting = bench.server(2, 12, FLAVOR_METAL);
    assert!(waiting.server().expect("a server").life.queued && waiting.pending.is_none());
    bench.delete(10_000, &first).expect("accepted");
    let life = bench.get(60_000, &waiting).expect("there").server().expect("a server").life.clone();
    assert_eq!((life.queued, life.launched), (false, Some(at(10_000 + 300 + 2000))));
}

#[test]
fn one_that_is_leaving_gets_no_machine_and_a_new_machine_is_taken_at_once() {
    let mut bench = Bench::new();
    let metal: Vec<CloudObject> =
        (0_u8..5).map(|id| bench.server(i64::from(id), 10 + u128::from(id), FLAVOR_METAL)).collect();
    bench.delete(5000, &metal[2]).expect("accepted");
    bench.delete(5000, &metal[0]).expect("accepted");
    bench.get(10_000, &metal[2]).expect_err("it is gone, and was never built");
    let queued = |bench: &mut Bench, now| {
        let servers = bench.cloud.inventory(at(now)).servers;
        servers.iter().filter(|server| server.server().is_some_and(|body| body.life.queued)).count()
    };
    assert_eq!(queued(&mut bench, 10_000), 1);
    bench.cloud.configure(EngineSettings { bare_metal_hosts: 3, ..EngineSettings::default() });
    assert_eq!(queued(&mut bench, 10_001), 0);
}

#[test]
fn an_interrupted_life_goes_on_where_the_journal_left_it() {
    let mut bench = Bench::new();
    let (building, queued) = (bench.server(0, 10, FLAVOR_STANDARD), bench.server(0, 11, FLAVOR_METAL));
    let going = bench.server(0, 12, FLAVOR_METAL);
    let last = bench.server(0, 13, FLAVOR_METAL);
    bench.delete(1000, &going).expect("accepted");
    let line = serde_json::to_string(&bench.cloud.whole()).expect("json");
    let mut again = SimulatedCloud::new(9);
    again.restore(at(0), serde_json::from_str(&line).expect("a line")).expect("restored");
    assert_eq!(again.whole(), bench.cloud.whole());
    for cloud in [&mut bench.cloud, &mut again] {
        let servers = cloud.inventory(at(10_000)).servers;
        assert!(servers.iter().all(|server| server.id != going.id));
        for id in [&building.id, &queued.id, &last.id] {
            let server = servers.iter().find(|server| server.id == *id).expect("there");
            assert_eq!(server.state, ObjectState::Active);
        }
    }
    assert_eq!(again.whole().changes, bench.cloud.whole().changes);
}

#[test]
fn builds_stick_until_released_and_failed_boots_end_in_error_after_their_time() {
    let mut bench = Bench::new();
    let stuck = Effect::StuckCreate { for_ms: None };
    for (id, effect) in [(10, &stuck), (11, &Effect::FailedBoot)] {
        let port = bench.port(id);
        let body = Body::Server(Box::new(bench.server_body(&port, FLAVOR_STANDARD)));
        bench.cloud.perform(at(0), &request(new_object(id, body)), Some(effect)).result.expect("the answer is fine");
    }
    let mut states = |now| {
        let criteria = |id| Criteria::marked(uuid::Uuid::from_u128(id));
        [10, 11].map(|id| {
            let found = bench.call(now, &Call::Find { kind: ObjectKind::Server, criteria: criteria(id) });
            objects(found)[0].state
        })
    };
    assert_eq!(states(1999), [ObjectState::Building, ObjectState::Building]);
    assert_eq!(states(2000), [ObjectState::Building, ObjectState::Error]);
    assert_eq!(states(3_600_000), [ObjectState::Building, ObjectState::Error]);
    let release = super::backdoor::BackdoorChange::Release { id: None };
    bench.cloud.change_directly(at(3_600_000), &release).expect("released");
    let servers = bench.cloud.inventory(at(3_600_000)).servers;
    assert!(servers.iter().any(|server| server.state == ObjectState::Active));
}

#[test]
fn a_project_that_goes_behind_our_back_takes_everything_along() {
    let mut bench = Bench::new();
    bench.server(0, 10, FLAVOR_METAL);
    let project = bench.project.id.clone();
    object(bench.try_make(0, 11, router_body(&project)));
    let delete = super::backdoor::BackdoorChange::Delete { id: project };
    bench.cloud.change_directly(at(0), &delete).expect("deleted");
    assert!(bench.cloud.inventory(at(0)).is_empty());
}

#[test]
fn settings_say_how_long_things_take() {
    let mut bench = Bench::new();
    let settings = EngineSettings {
        boot_delay: Duration::from_millis(10),
        deletion_delay: Duration::ZERO,
        ..EngineSettings::default()
    };
    bench.cloud.configure(settings);
    let server = bench.server(0, 10, FLAVOR_STANDARD);
    assert_eq!(bench.get(10, &server).expect("there").state, ObjectState::Active);
    let stop = Call::Act { server: server.id.clone(), action: ServerAction::Stop };
    bench.call(10, &stop).expect("accepted");
    assert_eq!(bench.get(11, &server).expect("there").pending.map(|pending| pending.becomes), Some(Becomes::Active));
    bench.delete(20, &server).expect("accepted");
    assert_eq!(bench.get(20, &server), Err(CloudError::NotFound));
}

/// A region of the size that we measure: what one call costs must not grow with what is there.
#[test]
fn forty_thousand_servers_fit_and_are_listed_in_forty_one_reads() {
    let mut bench = Bench::new();
    let wide = Body::Subnet {
        network: bench.network.id.clone(),
        cidr: "10.0.0.0/8".parse().expect("a prefix"),
        options: match subnet_body(&bench.network.id) {
            Body::Subnet { options, .. } => options,
            _ => panic!("not a subnet"),
        },
    };
    let subnet = bench.subnet.clone();
    bench.delete(0, &subnet).expect("deleted");
    object(bench.try_make(0, 3, wide));
    for id in 0..40_001 {
        bench.server(0, 1000 + id, FLAVOR_STANDARD);
        bench.cloud.discard_journal_line();
    }
    let (mut after, mut reads, mut seen) = (None, 0, 0);
    loop {
        let page = bench.call(5000, &Call::List { kind: ObjectKind::Server, only: None, after });
        let Ok(Answer::Page { rows, next }) = page else { panic!("not a page") };
        (reads, seen, after) = (reads + 1, seen + rows.len(), next);
        assert!(rows.iter().all(|row| row.related.len() == 1 && row.object.state == ObjectState::Active));
        if after.is_none() {
            break;
        }
    }
    assert_eq!((reads, seen), (41, 40_001));
}
