//! The rules of the cloud in good health, and its books.

use jiff::Timestamp;

use super::super::call::{Answer, Call, CallRequest, Change, CloudError, Criteria};
use super::super::objects::{Body, CloudObject, ObjectId, ObjectKind, Segment};
use super::super::testing::{caller, new_object, object, objects, request, router_body, subnet_body};
use super::SimulatedCloud;
use crate::model::network::VlanId;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a time")
}

struct Bench {
    cloud: SimulatedCloud,
}

impl Bench {
    fn new() -> Self {
        Self { cloud: SimulatedCloud::new(1) }
    }

    fn call(&mut self, call: &Call) -> Result<Answer, CloudError> {
        self.cloud.apply(at(0), call)
    }

    fn make(&mut self, id: u128, body: Body) -> CloudObject {
        object(self.call(&new_object(id, body)))
    }

    fn delete(&mut self, object: &CloudObject) -> Result<Answer, CloudError> {
        self.call(&Call::Delete { kind: object.kind(), id: object.id.clone() })
    }

    fn find(&mut self, kind: ObjectKind, criteria: Criteria) -> Vec<CloudObject> {
        objects(self.call(&Call::Find { kind, criteria }))
    }
}

fn on_vlan(project: &CloudObject, physical: &str, vlan: u16) -> Body {
    let segment = Some(Segment { physical_network: physical.to_owned(), vlan: VlanId(vlan) });
    Body::Network { project: project.id.clone(), segment }
}

fn plain(project: &CloudObject) -> Body {
    Body::Network { project: project.id.clone(), segment: None }
}

fn is_conflict(result: &Result<Answer, CloudError>) -> bool {
    matches!(result, Err(CloudError::Conflict { .. }))
}

#[test]
fn names_are_not_unique_so_two_creates_make_two_objects() {
    let mut bench = Bench::new();
    let (first, second) = (bench.make(1, Body::Project), bench.make(1, Body::Project));
    assert_ne!(first.id, second.id);
    let by_name = Criteria { name: Some(first.name), ..Criteria::default() };
    assert_eq!(bench.find(ObjectKind::Project, by_name).len(), 2);
    let count = bench.cloud.creations().creations[0].count;
    assert_eq!((count.created, count.at_once_max), (2, 2));
}

#[test]
fn a_vlan_is_used_once_on_a_physical_network_and_is_free_again_after_deletion() {
    let mut bench = Bench::new();
    let project = bench.make(1, Body::Project);
    let network = bench.make(2, on_vlan(&project, "one", 7));
    assert!(is_conflict(&bench.call(&new_object(3, on_vlan(&project, "one", 7)))));
    bench.make(4, on_vlan(&project, "two", 7));
    assert_eq!(bench.cloud.inventory(at(0)).vlans.len(), 2);
    bench.delete(&network).expect("deleted");
    bench.make(5, on_vlan(&project, "one", 7));
}

#[test]
fn what_is_in_use_cannot_be_deleted_until_its_users_are_gone() {
    let mut bench = Bench::new();
    let project = bench.make(1, Body::Project);
    let network = bench.make(2, plain(&project));
    let subnet = bench.make(3, subnet_body(&network.id));
    let router = bench.make(4, router_body(&project.id));
    let (router_id, subnet_id) = (router.id.clone(), subnet.id.clone());
    bench.call(&Call::AttachInterface { router: router_id.clone(), subnet: subnet_id.clone() }).expect("attached");
    for refused in [&project, &network, &subnet, &router] {
        assert!(is_conflict(&bench.delete(refused)), "{:?} is in use", refused.kind());
    }
    bench.call(&Call::DetachInterface { router: router_id.clone(), subnet: subnet_id.clone() }).expect("detached");
    let again = bench.call(&Call::DetachInterface { router: router_id, subnet: subnet_id });
    assert_eq!(again, Err(CloudError::NotFound));
    for deleted in [&router, &subnet, &network, &project] {
        bench.delete(deleted).expect("deleted");
        assert_eq!(bench.delete(deleted), Err(CloudError::NotFound));
    }
    assert!(bench.cloud.inventory(at(0)).is_empty());
}

#[test]
fn a_network_takes_its_unused_subnets_along_and_a_user_its_credentials() {
    let mut bench = Bench::new();
    let project = bench.make(1, Body::Project);
    let network = bench.make(2, plain(&project));
    bench.make(3, subnet_body(&network.id));
    let user = bench.make(4, Body::User);
    bench.make(5, Body::Credential { user: user.id.clone() });
    bench.delete(&network).expect("deleted");
    bench.delete(&user).expect("deleted");
    bench.delete(&project).expect("deleted");
    assert!(bench.cloud.inventory(at(0)).is_empty());
}

#[test]
fn nothing_is_made_inside_what_does_not_exist() {
    let mut bench = Bench::new();
    let nowhere = ObjectId("nowhere".to_owned());
    for body in [
        Body::Credential { user: nowhere.clone() },
        Body::Network { project: nowhere.clone(), segment: None },
        subnet_body(&nowhere),
        router_body(&nowhere),
    ] {
        assert!(is_conflict(&bench.call(&new_object(1, body))));
    }
}

#[test]
fn what_is_unknown_is_not_found_whatever_its_kind() {
    let mut bench = Bench::new();
    for kind in ObjectKind::ALL {
        let id = ObjectId("nowhere".to_owned());
        let change = Change::Tags { tags: std::collections::BTreeMap::new() };
        assert_eq!(bench.call(&Call::Get { kind, id: id.clone() }), Err(CloudError::NotFound));
        assert_eq!(bench.call(&Call::Delete { kind, id: id.clone() }), Err(CloudError::NotFound));
        assert_eq!(bench.call(&Call::Update { kind, id, change }), Err(CloudError::NotFound));
    }
}

#[test]
fn a_secret_is_shown_when_it_is_issued_and_never_again() {
    let mut bench = Bench::new();
    let user = bench.make(1, Body::User);
    let body = Body::Credential { user: user.id.clone() };
    let issued = bench.cloud.perform(at(0), &request(new_object(2, body)), None).result;
    let Ok(Answer::Issued { secret, credential }) = issued else { panic!("not issued: {issued:?}") };
    assert!(!format!("{:?}", Answer::Issued { secret: secret.clone(), credential }).contains(&secret.0));
    let found = bench.find(ObjectKind::Credential, Criteria::inside(user.id));
    assert_eq!(found.len(), 1);
    let shown = [
        serde_json::to_string(&found).expect("json"),
        serde_json::to_string(&bench.cloud.inventory(at(0))).expect("json"),
        serde_json::to_string(&bench.cloud.calls_after(0)).expect("json"),
        serde_json::to_string(&bench.cloud.whole()).expect("json"),
    ];
    assert!(shown.iter().all(|text| !text.contains(&secret.0)));
}

fn pages(bench: &mut Bench) -> Vec<usize> {
    let (mut sizes, mut after) = (Vec::new(), None);
    loop {
        let answer = bench.call(&Call::List { kind: ObjectKind::Network, only: None, after });
        let Ok(Answer::Page { rows, next }) = answer else { panic!("not a page: {answer:?}") };
        sizes.push(rows.len());
        after = next;
        if after.is_none() {
            return sizes;
        }
    }
}

#[test]
fn a_list_takes_as_many_reads_as_it_has_thousands() {
    let mut bench = Bench::new();
    let project = bench.make(1, Body::Project);
    for id in 0..1000 {
        bench.make(id, plain(&project));
    }
    assert_eq!(pages(&mut bench), [1000]);
    bench.make(1000, plain(&project));
    assert_eq!(pages(&mut bench), [1000, 1]);
}

#[test]
fn an_older_epoch_changes_nothing_but_may_look() {
    let mut bench = Bench::new();
    let from = |epoch, call| CallRequest { caller: caller(epoch), tenant: None, call };
    let look = Call::Find { kind: ObjectKind::Project, criteria: Criteria::marked(uuid::Uuid::nil()) };
    let make = new_object(1, Body::Project);
    let perform = |bench: &mut Bench, request: &CallRequest| bench.cloud.perform(at(0), request, None).result;

    assert!(perform(&mut bench, &from(1, make.clone())).is_ok());
    assert!(perform(&mut bench, &from(2, look.clone())).is_ok(), "the successor has only looked, and that is enough");
    assert_eq!(perform(&mut bench, &from(1, make.clone())), Err(CloudError::Fenced { newest_epoch: 2 }));
    assert!(perform(&mut bench, &from(1, look)).is_ok());
    let mut other = from(1, make.clone());
    other.caller.name = "other".to_owned();
    assert!(perform(&mut bench, &other).is_ok());
    assert!(perform(&mut bench, &from(2, make)).is_ok());
    assert_eq!(bench.cloud.inventory(at(0)).identities.len(), 3);
}

#[test]
fn the_same_seed_draws_the_same_ids() {
    let ids = |seed| {
        let mut bench = Bench { cloud: SimulatedCloud::new(seed) };
        (0..5).map(|id| bench.make(id, Body::Project).id).collect::<Vec<_>>()
    };
    assert_eq!(ids(3), ids(3));
    assert_ne!(ids(3), ids(4));
}

#[test]
fn the_log_says_who_did_what_and_is_read_in_pages() {
    let mut bench = Bench::new();
    bench.cloud.perform(at(3), &request(new_object(1, Body::Project)), None);
    for _ in 0..1500 {
        let look = Call::Find { kind: ObjectKind::User, criteria: Criteria::marked(uuid::Uuid::nil()) };
        bench.cloud.perform(at(4), &request(look), None);
    }
    let first = bench.cloud.calls_after(0);
    assert_eq!(first.len(), 1000);
    let made = &first[0];
    assert_eq!((made.operation.as_str(), made.outcome.as_str()), ("create-project", "ok"));
    assert_eq!((made.time, made.epoch, made.mutating, made.applied), (at(3), 1, true, true));
    assert_eq!(made.object, uuid::Uuid::from_u128(1).to_string());
    assert_eq!(bench.cloud.calls_after(first[999].sequence).len(), 501);
    let counters = bench.cloud.counters();
    assert_eq!((counters.reads, counters.mutations), (1500, 1));
    assert_eq!(counters.operations["find-users"], 1500);
}

#[test]
fn the_inventory_speaks_the_words_that_were_agreed() {
    let mut bench = Bench::new();
    let project = bench.make(1, Body::Project);
    bench.make(2, on_vlan(&project, "physical", 7));
    let json = serde_json::to_value(bench.cloud.inventory(at(0))).expect("json");
    let lists = [
        ("identities", 1),
        ("networks", 1),
        ("subnets", 0),
        ("routers", 0),
        ("users", 0),
        ("credentials", 0),
        ("vlans", 1),
        ("securityGroups", 0),
        ("servers", 0),
        ("ports", 0),
        ("floatingIps", 0),
        ("loadBalancers", 0),
        ("volumes", 0),
    ];
    for (word, length) in lists {
        assert_eq!(json[word].as_array().map(Vec::len), Some(length), "{word}");
    }
    assert_eq!(json["networks"][0]["marks"]["id"], uuid::Uuid::from_u128(2).to_string());
    assert_eq!(json["vlans"][0]["vlan"], 7);
    assert_eq!(json["catalogue"]["externalNetworks"][0]["name"], "sim-public");
}
