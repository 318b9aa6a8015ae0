//! The routes of the compute service in the table of who may do what.

use regent::model::ids::ProviderServerId;
use regent::model::server::ServerDetail;
use reqwest::Method;
use serde_json::{Value, json};

use super::cloud::{flavor, image};
use super::matrix::{ALL_MAY_READ, Ids, Row, row};
use super::server_verbs::given_key_pair;
use super::servers::seen;
use super::{World, id_of};

const INSTANCES: &str = "/api/v2/instances";
const CLUSTERS: &str = "/api/v2/clusters";

/// What its requests can name beside what those of the region can.
pub const NAMES: [&str; 3] = ["ownNetworkID", "instanceID", "clusterID"];

/// Whether what its bodies say can contradict itself. The contract has no code for a snapshot that does.
pub fn is_strict(path: &str) -> bool {
    (path.starts_with(INSTANCES) || path.starts_with(CLUSTERS)) && !path.ends_with("/snapshot")
}

fn tenancy(ids: &Ids) -> Value {
    json!({
        "organizationId": ids.get("organizationID"), "projectId": ids.get("projectID"),
        "networkId": ids.get("ownNetworkID"),
    })
}

fn with(mut spec: Value, more: &Value) -> Value {
    spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    spec
}

fn machine() -> Value {
    json!({"flavorId": flavor(1, "").id, "imageId": image(1, "").id})
}

fn instance(ids: &Ids) -> Value {
    json!({"metadata": {"name": "new"}, "spec": with(tenancy(ids), &machine())})
}

fn pinned_instance(ids: &Ids) -> Value {
    json!({"metadata": {"name": "box"}, "spec": with(tenancy(ids), &machine())})
}

fn cluster(ids: &Ids) -> Value {
    let pool = with(json!({"name": "web", "replicas": 1}), &machine());
    json!({"metadata": {"name": "new"}, "spec": with(tenancy(ids), &json!({"pools": [pool]}))})
}

fn eviction(ids: &Ids) -> Value {
    json!({"machineIDs": [ids.get("instanceID")]})
}

fn snapshot(_: &Ids) -> Value {
    json!({"metadata": {"name": "new"}})
}

/// In a network of their own, so that the other one can be deleted.
pub async fn furnish(world: &World, ids: &mut Ids) {
    let network = json!({
        "metadata": {"name": "own"},
        "spec": {
            "organizationId": ids.get("organizationID"), "projectId": ids.get("projectID"),
            "regionId": ids.get("regionID"), "prefix": "10.0.0.0/22", "dnsNameservers": [],
        },
    });
    ids.set("ownNetworkID", &world.create(&network).await);
    let made = world.made(INSTANCES, &pinned_instance(ids)).await;
    ids.set("instanceID", &made);
    let server = json!({"metadata": {"id": made["status"]["serverId"]}});
    assert!(!id_of(&server).is_empty());
    let (id, launched_at) = (Some(ProviderServerId("s".to_owned())), Some(world.ambient.now()));
    seen(world, &server, &ServerDetail { server: id, launched_at, ..ServerDetail::default() }).await;
    given_key_pair(world, &server).await;
    ids.set("clusterID", &world.made(CLUSTERS, &cluster(ids)).await);
}

pub fn rows() -> Vec<Row> {
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    let makers = |code| [401, 401, 403, 403, 403, 403, code, code, code];
    let users = |code| [401, 401, 404, 404, 403, 403, code, code, code];
    let readers = [401, 401, 404, 404, 200, 200, 200, 200, 200];
    let instance_path = "/api/v2/instances/{instanceID}";
    let cluster_path = "/api/v2/clusters/{clusterID}";
    vec![
        row(get.clone(), INSTANCES, None, ALL_MAY_READ),
        row(post.clone(), INSTANCES, Some(instance), makers(201)),
        row(get.clone(), instance_path, None, readers),
        row(put.clone(), instance_path, Some(pinned_instance), users(202)),
        row(delete.clone(), instance_path, None, users(202)),
        row(post.clone(), "/api/v2/instances/{instanceID}/start", None, users(202)),
        row(post.clone(), "/api/v2/instances/{instanceID}/stop", None, users(202)),
        row(post.clone(), "/api/v2/instances/{instanceID}/reboot", None, users(202)),
        row(get.clone(), "/api/v2/instances/{instanceID}/sshkey", None, users(200)),
        row(get.clone(), "/api/v2/instances/{instanceID}/consolesession", None, users(200)),
        row(get.clone(), "/api/v2/instances/{instanceID}/consoleoutput", None, readers),
        row(post.clone(), "/api/v2/instances/{instanceID}/snapshot", Some(snapshot), users(201)),
        row(get.clone(), "/api/v2/instances/{instanceID}/events", None, readers),
        row(get.clone(), "/api/v2/instances/{instanceID}/references", None, readers),
        row(get.clone(), CLUSTERS, None, ALL_MAY_READ),
        row(post.clone(), CLUSTERS, Some(cluster), makers(201)),
        row(get.clone(), cluster_path, None, readers),
        row(put, cluster_path, Some(cluster), users(202)),
        row(delete, cluster_path, None, users(202)),
        // Its members are its actor's to make, and there is none here.
        row(post, "/api/v2/clusters/{clusterID}/evict", Some(eviction), users(422)),
        row(get.clone(), "/api/v2/clusters/{clusterID}/events", None, readers),
        row(get, "/api/v2/clusters/{clusterID}/references", None, readers),
    ]
}
