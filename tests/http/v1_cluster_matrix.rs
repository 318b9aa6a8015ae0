//! The lines of the matrix for clusters of the first version. Unlike the rest of it, users hold its permissions.

use regent::model::cluster::{Cluster, member};
use regent::model::ids::{ClusterId, InstanceId, OrganizationId, ProviderServerId};
use regent::model::instance::{Instance, server_record};
use regent::model::quota::QuotaKind;
use regent::model::record::{Document, Record};
use regent::model::server::ServerDetail;
use regent::store::{Batch, Write};
use reqwest::Method;
use serde_json::{Value, json};

use super::cloud::{flavor, image};
use super::matrix::{ALL_MAY_READ, Ids, Row, row};
use super::{World, id_of};

/// What its paths name, outermost first.
pub const NAMES: [&str; 2] = ["v1:clusterID", "v1:machineID"];

const CLUSTERS: &str = "/api/v1/organizations/{organizationID}/projects/{projectID}/clusters";

/// The template, with names that mean an object of the first version.
pub fn own_names(template: &str) -> String {
    if !template.starts_with(CLUSTERS) {
        return template.to_owned();
    }
    template.replace("{clusterID}", "{v1:clusterID}").replace("{machineID}", "{v1:machineID}")
}

/// Can a body be well formed there and still not be meant?
pub fn is_strict(path: &str) -> bool {
    path.starts_with(CLUSTERS)
}

fn cluster(ids: &Ids) -> Value {
    let (flavor, image) = (flavor(1, "").id, image(1, "").id);
    let pool = json!({"name": "web", "replicas": 1, "flavorId": flavor, "imageId": image});
    json!({"metadata": {"name": "new"}, "spec": {"regionId": ids.get("regionID"), "workloadPools": {"pools": [pool]}}})
}

fn eviction(ids: &Ids) -> Value {
    json!({"machineIDs": [ids.get("v1:machineID")]})
}

/// Makes a machine of the cluster's first pool, as its actor would, with a server that the cloud has.
pub async fn given_machine(world: &World, cluster: &Value) -> InstanceId {
    let key = ClusterId(id_of(cluster).parse().expect("an id")).key();
    let record = world.store.get(key).await.expect("reads").expect("there");
    let stored = record.open::<Cluster>().expect("opens");
    let (id, metadata, spec) = member(&stored, &stored.spec.pools[0], 1, world.ambient.now());
    let mut server = server_record(id, &metadata, &spec, 0);
    let detail = ServerDetail { server: Some(ProviderServerId("s".to_owned())), ..ServerDetail::default() };
    server.detail = Document::of(&detail);
    let instance = Record::new::<Instance>(id.0, metadata, &spec);
    let writes = [server, instance].map(|record| Write::Insert(Box::new(record)));
    world.store.commit(Batch::of(writes.to_vec())).await.expect("commits");
    id
}

/// Makes a cluster with a machine. Its network is one more than a tenant may usually have.
pub async fn furnish(world: &World, ids: &mut Ids) {
    let organization = OrganizationId(ids.get("organizationID").parse().expect("an id"));
    let room = Write::Limit { organization, kind: QuotaKind::Networks, limit: 10 };
    world.store.commit(Batch::of(vec![room])).await.expect("commits");
    let made = world.made(&ids.fill(CLUSTERS), &cluster(ids)).await;
    ids.set("v1:clusterID", &made);
    let machine = given_machine(world, &made).await;
    ids.set("v1:machineID", &json!({"metadata": {"id": machine}}));
}

/// A path of one cluster, as the document has it.
macro_rules! inside {
    ($tail:literal) => {
        concat!("/api/v1/organizations/{organizationID}/projects/{projectID}/clusters/{clusterID}", $tail)
    };
}

pub fn rows() -> Vec<Row> {
    let readers = [401, 401, 404, 404, 200, 200, 200, 200, 200];
    let writers = |code| [401, 401, 404, 404, 403, 403, code, code, code];
    let creators = [401, 401, 403, 403, 403, 403, 201, 201, 201];
    let post = |path, code| row(Method::POST, path, None, writers(code));
    vec![
        row(Method::GET, "/api/v1/organizations/{organizationID}/clusters", None, ALL_MAY_READ),
        row(Method::POST, CLUSTERS, Some(cluster), creators),
        row(Method::GET, inside!(""), None, readers),
        row(Method::PUT, inside!(""), Some(cluster), writers(202)),
        row(Method::DELETE, inside!(""), None, writers(202)),
        row(Method::POST, inside!("/evict"), Some(eviction), writers(202)),
        post(inside!("/machines/{machineID}/start"), 202),
        post(inside!("/machines/{machineID}/stop"), 202),
        post(inside!("/machines/{machineID}/softreboot"), 202),
        post(inside!("/machines/{machineID}/hardreboot"), 202),
        row(Method::GET, inside!("/machines/{machineID}/consolesessions"), None, writers(200)),
        row(Method::GET, inside!("/machines/{machineID}/consoleoutput"), None, readers),
    ]
}
