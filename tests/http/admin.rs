//! The operator's surface over a fixed tree.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use regent::api::admin;
use regent::identity::acl::{Acl, Endpoint, Operation, Permission};
use regent::model::condition::Conditions;
use regent::model::ids::{Key, Kind, RegionId};
use regent::supervision::inspection::{
    ActorDetail, ActorPage, ActorSummary, EdgeType, EdgeView, Inspection, InvalidFault, OperatorVerb, OrphanPage,
    OrphanView, QuarantinedActor, SimulatedAdmin, TreeNode, VerbError,
};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{World, expect, expect_error, serve};

const KNOWN: Key = Key::new(Kind::Network, Uuid::from_u128(1));
const PARKED: Key = Key::new(Kind::Network, Uuid::from_u128(2));
const SIMULATED: RegionId = RegionId(Uuid::from_u128(3));

/// What a page of actors was asked for with: the kind, after whom, how many.
type Asked = (Option<Kind>, Option<Key>, usize);

#[derive(Default)]
struct Fixed {
    asked: Mutex<Vec<Asked>>,
    verbs: Mutex<Vec<(Key, OperatorVerb)>>,
    cloud: Arc<FixedCloud>,
}

#[derive(Default)]
struct FixedCloud(Mutex<Vec<Value>>);

#[async_trait]
impl SimulatedAdmin for FixedCloud {
    async fn inventory(&self) -> Value {
        json!({"networks": []})
    }
    async fn calls(&self, after: u64) -> Value {
        json!([{"sequence": after + 1}])
    }
    async fn inject(&self, fault: Value) -> Result<(), InvalidFault> {
        if fault.get("fault").is_none() {
            return Err(InvalidFault("a fault names itself".to_owned()));
        }
        self.0.lock().expect("not poisoned").push(fault);
        Ok(())
    }
    async fn clear(&self) {
        self.0.lock().expect("not poisoned").clear();
    }
}

fn summary() -> ActorSummary {
    let (kind, id) = (KNOWN.kind, KNOWN.id);
    ActorSummary { kind, id, name: "net".to_owned(), state: "settled".to_owned(), restarts: 0, next_wake: None }
}

#[async_trait]
impl Inspection for Fixed {
    async fn actors(&self, kind: Option<Kind>, page: ActorPage) -> Vec<ActorSummary> {
        self.asked.lock().expect("not poisoned").push((kind, page.after, page.limit));
        vec![summary()]
    }
    async fn actor(&self, key: Key) -> Option<ActorDetail> {
        (key == KNOWN).then(|| ActorDetail {
            summary: summary(),
            generation: 1,
            paused: false,
            conditions: Conditions::default(),
            waiting_for: None,
            last_message: None,
            mailbox_depth: 0,
            events: vec![],
            history: vec![],
        })
    }
    async fn tree(&self) -> TreeNode {
        let (name, state) = ("root".to_owned(), "supervising".to_owned());
        TreeNode { name, key: None, state, restarts: 0, omitted: 0, children: vec![] }
    }
    async fn edges(&self, of: Option<Key>) -> Vec<EdgeView> {
        let from = of.map_or_else(|| "all".to_owned(), |key| key.to_string());
        vec![EdgeView { edge_type: EdgeType::Owner, from, to: "b".to_owned(), responsible: "c".to_owned() }]
    }
    async fn verb(&self, key: Key, verb: OperatorVerb) -> Result<(), VerbError> {
        match key {
            KNOWN => {
                self.verbs.lock().expect("not poisoned").push((key, verb));
                Ok(())
            }
            PARKED => Err(VerbError::Refused("it is not paused".to_owned())),
            _ => Err(VerbError::NotFound),
        }
    }
    async fn quarantine(&self) -> Vec<QuarantinedActor> {
        vec![]
    }
    async fn orphans(&self, page: OrphanPage) -> Vec<OrphanView> {
        let shown = |(region, key): (RegionId, Key)| OrphanView {
            region,
            kind: key.kind,
            id: key.id,
            incarnation: Uuid::nil(),
            why: "no-record".to_owned(),
            since: jiff::Timestamp::UNIX_EPOCH,
            removal: page.region.map(|region| format!("{} of {region}", page.limit)),
        };
        page.after.into_iter().map(shown).collect()
    }
    async fn simulated(&self, region: RegionId) -> Option<Arc<dyn SimulatedAdmin>> {
        (region == SIMULATED).then(|| Arc::clone(&self.cloud) as _)
    }
}

struct Operator {
    world: World,
    tree: Arc<Fixed>,
    address: SocketAddr,
}

impl Operator {
    async fn start() -> Self {
        let world = World::start().await;
        let tree = Arc::new(Fixed::default());
        let address = serve(admin::router(&world.api, Arc::clone(&tree) as _, None)).await;
        Self { world, tree, address }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        self.send_as(&self.world.start.token, method, path, body).await
    }

    async fn send_as(&self, bearer: &str, method: Method, path: &str, body: Option<Value>) -> Response {
        let request = self.world.client.request(method, format!("http://{}/admin/v1{path}", self.address));
        let request = request.bearer_auth(bearer);
        let request = if let Some(body) = body { request.json(&body) } else { request };
        request.send().await.expect("an answer")
    }
}

#[tokio::test]
async fn operators_see_actors_tree_edges_and_quarantine() {
    let operator = Operator::start().await;
    let get = async |path: &str| expect(operator.send(Method::GET, path, None).await, StatusCode::OK).await;
    let listed = get(&format!("/actors?kind=network&after={PARKED}&limit=7")).await;
    assert_eq!(listed[0]["state"], "settled");
    assert_eq!(*operator.tree.asked.lock().expect("not poisoned"), [(Some(Kind::Network), Some(PARKED), 7)]);
    assert_eq!(get(&format!("/actors/{KNOWN}")).await["name"], "net");
    assert_eq!(get("/tree").await["name"], "root");
    assert_eq!(get("/edges").await[0]["from"], "all");
    assert_eq!(
        get(&format!("/edges?of={KNOWN}")).await,
        json!([
            {"type": "owner", "from": KNOWN.to_string(), "to": "b", "responsible": "c"}
        ])
    );
    assert_eq!(get("/quarantine").await, json!({"actors": [], "records": []}));
    for path in ["/actors?kind=nothing", "/actors?limit=0", "/actors?limit=501", "/actors?after=x", "/edges?of=x"] {
        let response = operator.send(Method::GET, path, None).await;
        expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    for path in [format!("/actors/{PARKED}"), "/nothing".to_owned()] {
        let response = operator.send(Method::GET, &path, None).await;
        expect_error(response, StatusCode::NOT_FOUND, "not_found").await;
    }
}

#[tokio::test]
async fn operators_see_what_no_record_owns() {
    let operator = Operator::start().await;
    let get = async |path: &str| expect(operator.send(Method::GET, path, None).await, StatusCode::OK).await;
    assert_eq!(get("/orphans").await, json!([]));
    let asked = format!("/orphans?region={SIMULATED}&after={SIMULATED}/{KNOWN}&limit=7");
    let orphan = json!({
        "region": SIMULATED, "kind": "network", "id": KNOWN.id, "incarnation": Uuid::nil(), "why": "no-record",
        "since": "1970-01-01T00:00:00Z", "removal": format!("7 of {SIMULATED}"),
    });
    assert_eq!(get(&asked).await, json!([orphan]));
    for path in
        ["/orphans?region=x", "/orphans?limit=0", "/orphans?limit=501", "/orphans?after=network/x", "/orphans?x=1"]
    {
        let response = operator.send(Method::GET, path, None).await;
        expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
}

#[tokio::test]
async fn every_verb_reaches_its_actor() {
    let operator = Operator::start().await;
    for verb in OperatorVerb::ALL {
        let response = operator.send(Method::POST, &format!("/actors/{KNOWN}/{}", verb.word()), None).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
    }
    assert_eq!(*operator.tree.verbs.lock().expect("not poisoned"), OperatorVerb::ALL.map(|verb| (KNOWN, verb)));
    let refused = operator.send(Method::POST, &format!("/actors/{PARKED}/resume"), None).await;
    assert_eq!(expect_error(refused, StatusCode::CONFLICT, "conflict").await, "it is not paused");
    for path in [format!("/actors/{KNOWN}/explode"), format!("/actors/region/{}/pause", KNOWN.id)] {
        let response = operator.send(Method::POST, &path, None).await;
        expect_error(response, StatusCode::NOT_FOUND, "not_found").await;
    }
}

#[tokio::test]
async fn a_simulated_cloud_can_be_looked_into_and_broken() {
    let operator = Operator::start().await;
    let base = format!("/simulated/{SIMULATED}");
    let get = async |path: &str| expect(operator.send(Method::GET, path, None).await, StatusCode::OK).await;
    assert_eq!(get(&format!("{base}/inventory")).await, json!({"networks": []}));
    assert_eq!(get(&format!("{base}/calls?after=41")).await, json!([{"sequence": 42}]));
    let faults = format!("{base}/faults");
    let injected = operator.send(Method::POST, &faults, Some(json!({"fault": "timeout"}))).await;
    assert_eq!(injected.status(), StatusCode::NO_CONTENT);
    assert_eq!(operator.tree.cloud.0.lock().expect("not poisoned").len(), 1);
    let refused = operator.send(Method::POST, &faults, Some(json!({}))).await;
    expect_error(refused, StatusCode::BAD_REQUEST, "invalid_request").await;
    assert_eq!(operator.send(Method::DELETE, &faults, None).await.status(), StatusCode::NO_CONTENT);
    assert!(operator.tree.cloud.0.lock().expect("not poisoned").is_empty());
    let other = operator.send(Method::GET, &format!("/simulated/{}/inventory", Uuid::nil()), None).await;
    expect_error(other, StatusCode::NOT_FOUND, "not_found").await;
}

#[tokio::test]
async fn only_operators_are_answered_and_readers_only_read() {
    let operator = Operator::start().await;
    let nobody = operator.world.bearer_of("nobody", Acl::default());
    let mut acl = Acl::default();
    acl.global.insert(Permission { endpoint: Endpoint::Admin, operation: Operation::Read });
    let reader = operator.world.bearer_of("reader", acl);
    let reads = ["/actors", "/tree", "/edges", "/quarantine", "/orphans"].map(str::to_owned);
    let region = format!("/simulated/{SIMULATED}");
    let reads =
        reads.into_iter().chain([format!("/actors/{KNOWN}"), format!("{region}/inventory"), format!("{region}/calls")]);
    for path in reads {
        let refused = operator.send_as(&nobody, Method::GET, &path, None).await;
        expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
        let anonymous = operator.send_as("", Method::GET, &path, None).await;
        expect_error(anonymous, StatusCode::UNAUTHORIZED, "access_denied").await;
        assert_eq!(operator.send_as(&reader, Method::GET, &path, None).await.status(), StatusCode::OK, "{path}");
    }
    let acts = [
        (Method::POST, format!("/actors/{KNOWN}/restart")),
        (Method::POST, format!("{region}/faults")),
        (Method::DELETE, format!("{region}/faults")),
    ];
    for (method, path) in acts {
        for bearer in [&nobody, &reader] {
            let body = Some(json!({"fault": "x"}));
            let refused = operator.send_as(bearer, method.clone(), &path, body).await;
            expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
        }
    }
    assert!(operator.tree.verbs.lock().expect("not poisoned").is_empty());
}
