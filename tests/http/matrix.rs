//! Every route × everybody: exactly the expected answer, and nothing that tells one tenant of another.
//!
//! A route that is served and not in the [`table`] fails the test, so that nobody forgets to say who may use it.
//!
//! To add a route, add a line: its method, its path as the document has it, its body, and the nine expected codes. An id
//! that its path or body needs goes into [`Ids`], in the order in which things lie in each other.

use std::collections::BTreeSet;
use std::convert::Infallible;

use regent::model::edge::Holder;
use regent::model::ids::{OrganizationId, ProviderServerId, RegionId};
use regent::model::operation::OperationDetail;
use regent::model::server::ServerDetail;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::cloud::{file_storage_class, flavor, image, volume_class};
use super::compute_matrix;
use super::file_storage::available;
use super::server_verbs::{ended, given_key_pair};
use super::servers::seen;
use super::ssh_certificate_authorities::PUBLIC_KEY;
use super::tenants::{Tenant, role};
use super::{
    AUTHORITIES, FILE_STORAGE, LOAD_BALANCERS, SECURITY_GROUPS, SERVERS, VOLUMES, World, envelope, expect, id_of,
};
use super::{v1_cluster_matrix, v1_matrix};

/// Who asks, in the order of the columns.
const ACTORS: [&str; 9] = [
    "no token",
    "expired",
    "other organization",
    "other project",
    "reader",
    "auditor",
    "user",
    "administrator",
    "platform",
];
const OTHER_ORGANIZATION: usize = 2;
const PLATFORM: usize = 8;

/// What a request can name, outermost first.
#[derive(Clone, Debug)]
pub struct Ids(Vec<(&'static str, String)>);

impl Ids {
    pub fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map_or_else(|| panic!("{name} is no id of the matrix"), |(_, id)| id.as_str())
    }

    pub fn set(&mut self, name: &str, made: &Value) {
        let found = self.0.iter_mut().find(|(known, _)| *known == name);
        id_of(made).clone_into(&mut found.expect("an id of the matrix").1);
    }

    /// The first `kept` of ours, the rest of somebody else's.
    fn mixed(&self, kept: usize, others: &Self) -> Self {
        Self(self.0.iter().take(kept).chain(others.0.iter().skip(kept)).cloned().collect())
    }

    pub fn fill(&self, template: &str) -> String {
        let template = &v1_cluster_matrix::own_names(&v1_matrix::own_names(template));
        self.0.iter().fold(template.clone(), |path, (name, id)| path.replace(&format!("{{{name}}}"), id))
    }
}

pub struct Row {
    method: Method,
    path: &'static str,
    body: Option<fn(&Ids) -> Value>,
    expected: [u16; 9],
}

pub fn row(method: Method, path: &'static str, body: Option<fn(&Ids) -> Value>, expected: [u16; 9]) -> Row {
    Row { method, path, body, expected }
}

pub const ALL_MAY_READ: [u16; 9] = [401, 401, 200, 200, 200, 200, 200, 200, 200];

fn network(ids: &Ids) -> Value {
    json!({
        "metadata": {"name": "new"},
        "spec": {
            "organizationId": ids.get("organizationID"), "projectId": ids.get("projectID"),
            "regionId": ids.get("regionID"), "prefix": "10.0.0.0/22", "dnsNameservers": [],
        },
    })
}

fn network_change(_: &Ids) -> Value {
    json!({"metadata": {"name": "changed"}, "spec": {"dnsNameservers": []}})
}

fn security_group(ids: &Ids) -> Value {
    json!({"metadata": {"name": "new"}, "spec": {"networkId": ids.get("networkID"), "rules": []}})
}

fn load_balancer(ids: &Ids) -> Value {
    let listener = json!({"name": "web", "protocol": "tcp", "port": 80, "pool": {"members": []}});
    json!({"metadata": {"name": "new"}, "spec": {"networkId": ids.get("networkID"), "listeners": [listener]}})
}

fn authority(ids: &Ids) -> Value {
    json!({
        "metadata": {"name": "new"},
        "spec": {
            "organizationId": ids.get("organizationID"), "projectId": ids.get("projectID"), "publicKey": PUBLIC_KEY,
        },
    })
}

/// Attached to nothing, so that the network can be deleted.
fn file_storage(ids: &Ids) -> Value {
    json!({
        "metadata": {"name": "new"},
        "spec": {
            "organizationId": ids.get("organizationID"), "projectId": ids.get("projectID"),
            "regionId": ids.get("regionID"), "storageClassId": file_storage_class(1, "").id,
            "sizeGiB": 1, "storageType": {},
        },
    })
}

/// To a network that only whoever may read it can attach to.
fn attached_file_storage(ids: &Ids) -> Value {
    json!({
        "metadata": {"name": "changed"},
        "spec": {"sizeGiB": 1, "storageType": {}, "attachments": {"networkIds": [ids.get("networkID")]}},
    })
}

fn server(ids: &Ids) -> Value {
    let (flavor, image) = (flavor(1, "").id, image(1, "").id);
    json!({
        "metadata": {"name": "new"},
        "spec": {"networkId": ids.get("networkID"), "flavorId": flavor, "imageId": image},
    })
}

fn image_import(_: &Ids) -> Value {
    super::images::body("new")
}

fn snapshot(_: &Ids) -> Value {
    json!({"metadata": {"name": "new"}, "spec": {}})
}

fn volume(ids: &Ids) -> Value {
    json!({
        "metadata": {"name": "new"},
        "spec": {"networkId": ids.get("networkID"), "volumeClassId": volume_class(1, "").id, "sizeGiB": 1},
    })
}

fn organization(_: &Ids) -> Value {
    json!({"metadata": {"name": "new"}, "spec": {"organizationType": "adhoc"}})
}

fn project(_: &Ids) -> Value {
    json!({"metadata": {"name": "new"}, "spec": {"groupIDs": []}})
}

fn group(_: &Ids) -> Value {
    json!({"metadata": {"name": "new"}, "spec": {"roleIDs": [role("reader")], "serviceAccountIDs": []}})
}

fn user(_: &Ids) -> Value {
    json!({"spec": {"subject": "new@example.org", "state": "active", "groupIDs": []}})
}

fn spare_user(_: &Ids) -> Value {
    json!({"spec": {"subject": "spare", "state": "suspended", "groupIDs": []}})
}

fn service_account(_: &Ids) -> Value {
    json!({"metadata": {"name": "new"}, "spec": {"groupIDs": []}})
}

fn quotas(_: &Ids) -> Value {
    json!({"quotas": [{"kind": "networks", "quantity": 9}, {"kind": "volume", "quantity": 9}]})
}

fn allocation(id: &str) -> Value {
    json!({
        "metadata": {"name": "undefined"},
        "spec": {
            "kind": "clusters.example.org", "id": id,
            "allocations": [{"kind": "clusters", "committed": 1, "reserved": 1}],
        },
    })
}

fn region_rows() -> Vec<Row> {
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    let networks = "/api/v2/networks";
    let one = "/api/v2/networks/{networkID}";
    let reference = "/api/v2/networks/{networkID}/references/{reference}";
    let regions = "/api/v1/organizations/{organizationID}/regions";
    let external = "/api/v1/organizations/{organizationID}/regions/{regionID}/externalnetworks";
    vec![
        row(get.clone(), "/api/version", None, ALL_MAY_READ),
        row(get.clone(), "/.well-known/openid-protected-resource", None, [200; 9]),
        row(get.clone(), networks, None, ALL_MAY_READ),
        row(post, networks, Some(network), [401, 401, 403, 403, 403, 403, 201, 201, 201]),
        row(get.clone(), one, None, [401, 401, 404, 404, 200, 200, 200, 200, 200]),
        row(put.clone(), one, Some(network_change), [401, 401, 404, 404, 403, 403, 202, 202, 202]),
        row(delete.clone(), one, None, [401, 401, 404, 404, 403, 403, 202, 202, 202]),
        row(put, reference, None, [401, 401, 404, 404, 403, 403, 403, 403, 201]),
        row(delete, reference, None, [401, 401, 404, 404, 403, 403, 403, 403, 204]),
        row(get.clone(), regions, None, [401, 401, 403, 200, 200, 200, 200, 200, 200]),
        row(get, external, None, [401, 401, 403, 403, 403, 403, 403, 403, 200]),
    ]
}

fn offer_rows() -> Vec<Row> {
    let members = [401, 401, 403, 200, 200, 200, 200, 200, 200];
    let flavors = "/api/v1/organizations/{organizationID}/regions/{regionID}/flavors";
    let images = "/api/v1/organizations/{organizationID}/regions/{regionID}/images";
    vec![
        row(Method::GET, flavors, None, members),
        row(Method::GET, images, None, members),
        row(Method::GET, "/api/v2/regions/{regionID}/images", None, [401, 401, 404, 200, 200, 200, 200, 200, 200]),
    ]
}

fn image_rows() -> Vec<Row> {
    let all = "/api/v1/organizations/{organizationID}/regions/{regionID}/images";
    let one = "/api/v1/organizations/{organizationID}/regions/{regionID}/images/{imageID}";
    vec![
        row(Method::POST, all, Some(image_import), [401, 401, 403, 200, 403, 403, 200, 200, 200]),
        row(Method::DELETE, one, None, [401, 401, 403, 202, 403, 403, 202, 202, 202]),
    ]
}

fn security_group_rows() -> Vec<Row> {
    let all = "/api/v2/securitygroups";
    let one = "/api/v2/securitygroups/{securityGroupID}";
    let users = |code| [401, 401, 404, 404, 403, 403, code, code, code];
    vec![
        row(Method::GET, all, None, ALL_MAY_READ),
        row(Method::POST, all, Some(security_group), [401, 401, 400, 400, 403, 403, 201, 201, 201]),
        row(Method::GET, one, None, [401, 401, 404, 404, 200, 200, 200, 200, 200]),
        row(Method::PUT, one, Some(security_group), users(202)),
        row(Method::DELETE, one, None, users(202)),
    ]
}

fn load_balancer_rows() -> Vec<Row> {
    let all = "/api/v2/loadbalancers";
    let one = "/api/v2/loadbalancers/{loadBalancerID}";
    let users = |code| [401, 401, 404, 404, 403, 403, code, code, code];
    vec![
        row(Method::GET, all, None, ALL_MAY_READ),
        row(Method::POST, all, Some(load_balancer), users(201)),
        row(Method::GET, one, None, [401, 401, 404, 404, 200, 200, 200, 200, 200]),
        row(Method::PUT, one, Some(load_balancer), users(202)),
        row(Method::DELETE, one, None, users(202)),
    ]
}

fn authority_rows() -> Vec<Row> {
    let all = "/api/v2/sshcertificateauthorities";
    let one = "/api/v2/sshcertificateauthorities/{sshCertificateAuthorityID}";
    vec![
        row(Method::GET, all, None, ALL_MAY_READ),
        row(Method::POST, all, Some(authority), [401, 401, 403, 403, 403, 403, 201, 201, 201]),
        row(Method::GET, one, None, [401, 401, 404, 404, 200, 200, 200, 200, 200]),
        row(Method::DELETE, one, None, [401, 401, 404, 404, 403, 403, 202, 202, 202]),
    ]
}

/// End users reach servers through instances: to them there are none.
fn server_rows() -> Vec<Row> {
    let all = "/api/v2/servers";
    let one = "/api/v2/servers/{serverID}";
    let platform = |code| [401, 401, 404, 404, 404, 404, 404, 404, code];
    vec![
        row(Method::GET, all, None, ALL_MAY_READ),
        row(Method::POST, all, Some(server), [401, 401, 404, 404, 403, 403, 403, 403, 201]),
        row(Method::GET, one, None, platform(200)),
        row(Method::PUT, one, Some(server), platform(202)),
        row(Method::DELETE, one, None, platform(202)),
        row(Method::POST, "/api/v2/servers/{serverID}/start", None, platform(202)),
        row(Method::POST, "/api/v2/servers/{serverID}/stop", None, platform(202)),
        row(Method::POST, "/api/v2/servers/{serverID}/softreboot", None, platform(202)),
        row(Method::POST, "/api/v2/servers/{serverID}/hardreboot", None, platform(202)),
        row(Method::GET, "/api/v2/servers/{serverID}/consolesessions", None, platform(200)),
        row(Method::GET, "/api/v2/servers/{serverID}/consoleoutput", None, platform(200)),
        row(Method::GET, "/api/v2/servers/{serverID}/sshkey", None, platform(200)),
        row(Method::POST, "/api/v2/servers/{serverID}/snapshot", Some(snapshot), platform(201)),
    ]
}

fn volume_rows() -> Vec<Row> {
    let all = "/api/v2/volumes";
    let one = "/api/v2/volumes/{volumeID}";
    let classes = "/api/v2/regions/{regionID}/volumeclasses";
    let users = |code| [401, 401, 404, 404, 403, 403, code, code, code];
    vec![
        row(Method::GET, all, None, ALL_MAY_READ),
        row(Method::POST, all, Some(volume), users(201)),
        row(Method::GET, one, None, [401, 401, 404, 404, 200, 200, 200, 200, 200]),
        row(Method::PUT, one, Some(volume), users(202)),
        row(Method::DELETE, one, None, users(202)),
        row(Method::GET, classes, None, [401, 401, 404, 200, 200, 200, 200, 200, 200]),
    ]
}

fn file_storage_rows() -> Vec<Row> {
    let all = "/api/v2/filestorage";
    let one = "/api/v2/filestorage/{filestorageID}";
    let users = |code| [401, 401, 404, 404, 403, 403, code, code, code];
    vec![
        row(Method::GET, all, None, ALL_MAY_READ),
        row(Method::POST, all, Some(file_storage), [401, 401, 403, 403, 403, 403, 201, 201, 201]),
        row(Method::GET, one, None, [401, 401, 404, 404, 200, 200, 200, 200, 200]),
        row(Method::PUT, one, Some(attached_file_storage), users(202)),
        row(Method::DELETE, one, None, users(202)),
        row(Method::GET, "/api/v2/filestorageclasses", None, ALL_MAY_READ),
    ]
}

fn identity_rows() -> Vec<Row> {
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    let organizations = "/api/v1/organizations";
    let one = "/api/v1/organizations/{organizationID}";
    let administrators = |code| [401, 401, 403, 403, 403, 403, 403, code, code];
    let auditors = [401, 401, 403, 403, 403, 200, 403, 200, 200];
    let platform = |code| [401, 401, 403, 403, 403, 403, 403, 403, code];
    let members = [401, 401, 403, 200, 200, 200, 200, 200, 200];
    vec![
        row(get.clone(), "/api/v1/acl", None, ALL_MAY_READ),
        row(get.clone(), "/api/v1/organizations/{organizationID}/acl", None, members),
        row(get.clone(), organizations, None, ALL_MAY_READ),
        row(post.clone(), organizations, Some(organization), platform(202)),
        row(get.clone(), one, None, auditors),
        row(put.clone(), one, Some(organization), administrators(200)),
        row(delete.clone(), one, None, platform(202)),
        row(get.clone(), "/api/v1/organizations/{organizationID}/roles", None, auditors),
        row(get.clone(), "/api/v1/organizations/{organizationID}/groups", None, auditors),
        row(post.clone(), "/api/v1/organizations/{organizationID}/groups", Some(group), administrators(201)),
        row(get.clone(), "/api/v1/organizations/{organizationID}/groups/{groupid}", None, auditors),
        row(put.clone(), "/api/v1/organizations/{organizationID}/groups/{groupid}", Some(group), administrators(200)),
        row(delete.clone(), "/api/v1/organizations/{organizationID}/groups/{groupid}", None, administrators(200)),
        row(get.clone(), "/api/v1/organizations/{organizationID}/users", None, auditors),
        row(post.clone(), "/api/v1/organizations/{organizationID}/users", Some(user), administrators(201)),
        row(
            put.clone(),
            "/api/v1/organizations/{organizationID}/users/{userID}",
            Some(spare_user),
            administrators(200),
        ),
        row(delete.clone(), "/api/v1/organizations/{organizationID}/users/{userID}", None, administrators(200)),
        row(get.clone(), "/api/v1/organizations/{organizationID}/quotas", None, members),
        row(put.clone(), "/api/v1/organizations/{organizationID}/quotas", Some(quotas), platform(200)),
        row(get.clone(), "/api/v1/organizations/{organizationID}/allocations", None, platform(200)),
        row(get, "/api/v1/organizations/{organizationID}/serviceaccounts", None, auditors),
        row(
            post.clone(),
            "/api/v1/organizations/{organizationID}/serviceaccounts",
            Some(service_account),
            administrators(201),
        ),
        row(
            put,
            "/api/v1/organizations/{organizationID}/serviceaccounts/{serviceAccountID}",
            Some(service_account),
            administrators(200),
        ),
        row(
            delete,
            "/api/v1/organizations/{organizationID}/serviceaccounts/{serviceAccountID}",
            None,
            administrators(200),
        ),
        row(
            post,
            "/api/v1/organizations/{organizationID}/serviceaccounts/{serviceAccountID}/rotate",
            None,
            administrators(200),
        ),
    ]
}

fn project_rows() -> Vec<Row> {
    let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
    let all = "/api/v1/organizations/{organizationID}/projects";
    let one = "/api/v1/organizations/{organizationID}/projects/{projectID}";
    let reference = "/api/v1/organizations/{organizationID}/projects/{projectID}/references/{reference}";
    let allocations = "/api/v1/organizations/{organizationID}/projects/{projectID}/allocations";
    let one_allocation = "/api/v1/organizations/{organizationID}/projects/{projectID}/allocations/{allocationID}";
    let administrators = |code| [401, 401, 403, 404, 403, 403, 403, code, code];
    let platform = |code| [401, 401, 403, 404, 403, 403, 403, 403, code];
    vec![
        row(get.clone(), all, None, [401, 401, 403, 200, 200, 200, 200, 200, 200]),
        row(post.clone(), all, Some(project), [401, 401, 403, 403, 403, 403, 403, 202, 202]),
        row(get.clone(), one, None, [401, 401, 403, 404, 200, 200, 200, 200, 200]),
        row(put.clone(), one, Some(project), administrators(200)),
        row(delete.clone(), one, None, administrators(202)),
        row(put.clone(), reference, None, platform(201)),
        row(delete.clone(), reference, None, platform(204)),
        row(post, allocations, Some(|_| allocation("c2")), platform(201)),
        row(get, one_allocation, None, platform(200)),
        row(put, one_allocation, Some(|_| allocation("c1")), platform(200)),
        row(delete, one_allocation, None, platform(202)),
    ]
}

/// Whoever may read a resource may ask what became of it, and who uses it.
fn about_rows() -> Vec<Row> {
    let readers = [401, 401, 404, 404, 200, 200, 200, 200, 200];
    let platform = [401, 401, 404, 404, 404, 404, 404, 404, 200];
    // An image is its organization's, whatever the project.
    let members = [401, 401, 404, 200, 200, 200, 200, 200, 200];
    vec![
        row(Method::GET, "/api/v2/events", None, ALL_MAY_READ),
        row(Method::GET, "/api/v2/networks/{networkID}/events", None, readers),
        row(Method::GET, "/api/v2/networks/{networkID}/references", None, readers),
        row(Method::GET, "/api/v2/securitygroups/{securityGroupID}/events", None, readers),
        row(Method::GET, "/api/v2/securitygroups/{securityGroupID}/references", None, readers),
        row(Method::GET, "/api/v2/sshcertificateauthorities/{sshCertificateAuthorityID}/events", None, readers),
        row(Method::GET, "/api/v2/sshcertificateauthorities/{sshCertificateAuthorityID}/references", None, readers),
        row(Method::GET, "/api/v2/loadbalancers/{loadBalancerID}/events", None, readers),
        row(Method::GET, "/api/v2/loadbalancers/{loadBalancerID}/references", None, readers),
        row(Method::GET, "/api/v2/volumes/{volumeID}/events", None, readers),
        row(Method::GET, "/api/v2/volumes/{volumeID}/references", None, readers),
        row(Method::GET, "/api/v2/filestorage/{filestorageID}/events", None, readers),
        row(Method::GET, "/api/v2/filestorage/{filestorageID}/references", None, readers),
        row(Method::GET, "/api/v2/images/{imageID}/events", None, members),
        row(Method::GET, "/api/v2/images/{imageID}/references", None, members),
        row(Method::GET, "/api/v2/servers/{serverID}/events", None, platform),
        row(Method::GET, "/api/v2/servers/{serverID}/references", None, platform),
    ]
}

fn table() -> Vec<Row> {
    let region = [region_rows(), offer_rows(), security_group_rows(), authority_rows(), server_rows(), volume_rows()];
    let more = [load_balancer_rows(), file_storage_rows(), image_rows(), identity_rows(), project_rows(), about_rows()];
    let compute = [compute_matrix::rows(), v1_cluster_matrix::rows()];
    let region = region.into_iter().chain([v1_matrix::rows()]).chain(compute);
    region.into_iter().chain(more).flatten().collect()
}

/// A tenant with one of everything.
struct Stage {
    tenant: Tenant,
    ids: Ids,
}

async fn private_region(world: &World, organization: OrganizationId) -> RegionId {
    world.region("private", Some(vec![organization]), false).await
}

async fn stage(world: &World) -> Stage {
    let tenant = world.full_tenant().await;
    let region = private_region(world, tenant.organization).await;
    let reference = format!("a.b.c%2F{}", world.ambient.uuid());
    let mut ids = Ids(vec![
        ("organizationID", tenant.organization.to_string()),
        ("projectID", tenant.project.to_string()),
        ("regionID", region.to_string()),
        ("networkID", String::new()),
        ("securityGroupID", String::new()),
        ("loadBalancerID", String::new()),
        ("sshCertificateAuthorityID", String::new()),
        ("serverID", String::new()),
        ("imageID", String::new()),
        ("volumeID", String::new()),
        ("filestorageID", String::new()),
        ("groupid", tenant.group.to_string()),
        ("userID", tenant.spare_user.to_string()),
        ("serviceAccountID", tenant.service_account.to_string()),
        ("allocationID", tenant.allocation.to_string()),
        ("reference", reference),
    ]);
    ids.0.extend(v1_matrix::NAMES.map(|name| (name, String::new())));
    ids.0.extend(compute_matrix::NAMES.map(|name| (name, String::new())));
    ids.0.extend(v1_cluster_matrix::NAMES.map(|name| (name, String::new())));
    // The server and the volume lie in a network of their own, so that the other one can be deleted.
    ids.set("networkID", &world.create(&network(&ids)).await);
    let made = world.made(SERVERS, &server(&ids)).await;
    ids.set("serverID", &made);
    let (id, launched_at) = (Some(ProviderServerId("s".to_owned())), Some(world.ambient.now()));
    let detail = ServerDetail { server: id, launched_at, ..ServerDetail::default() };
    seen(world, &made, &detail).await;
    given_key_pair(world, &made).await;
    let images = ids.fill("/api/v1/organizations/{organizationID}/regions/{regionID}/images");
    let imported = world.send(Method::POST, &images, &image_import(&ids)).await;
    ids.set("imageID", &expect(imported, StatusCode::OK).await);
    ids.set("volumeID", &world.made(VOLUMES, &volume(&ids)).await);
    ids.set("networkID", &world.create(&network(&ids)).await);
    ids.set("securityGroupID", &world.made(SECURITY_GROUPS, &security_group(&ids)).await);
    ids.set("loadBalancerID", &world.made(LOAD_BALANCERS, &load_balancer(&ids)).await);
    ids.set("sshCertificateAuthorityID", &world.made(AUTHORITIES, &authority(&ids)).await);
    available(world, ids.get("networkID")).await;
    ids.set("filestorageID", &world.made(FILE_STORAGE, &file_storage(&ids)).await);
    v1_matrix::furnish(world, &mut ids).await;
    compute_matrix::furnish(world, &mut ids).await;
    v1_cluster_matrix::furnish(world, &mut ids).await;
    Stage { tenant, ids }
}

/// Ids of nothing.
fn unknown(world: &World, like: &Ids) -> Ids {
    let draw = |(name, id): &(&'static str, String)| match *name {
        "reference" => (*name, id.clone()),
        _ => (*name, world.ambient.uuid().to_string()),
    };
    Ids(like.0.iter().map(draw).collect())
}

async fn every_operation_ends(world: &World) -> Infallible {
    let result = envelope().seal(&"https://console.example.org".to_owned()).expect("seals");
    loop {
        ended(world, OperationDetail::Succeeded { result: Some(result.clone()) }).await;
    }
}

async fn ask(world: &World, row: &Row, ids: &Ids, bearer: Option<&str>) -> (StatusCode, String) {
    let mut request = world.anonymous(row.method.clone(), &ids.fill(row.path));
    if let Some(bearer) = bearer {
        request = request.bearer_auth(bearer);
    }
    if let Some(body) = row.body {
        request = request.json(&body(ids));
    }
    // What is asked of a server's actor is done at once.
    tokio::select! {
        biased;
        response = request.send() => {
            let response = response.expect("an answer");
            let status = response.status();
            // A stream has no end, and is tested apart.
            let is_stream = response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
            (status, if is_stream { String::new() } else { response.text().await.expect("a body") })
        }
        never = every_operation_ends(world) => match never {},
    }
}

/// The answer without what differs in every answer.
fn comparable(text: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    if let Some(fields) = value.as_object_mut() {
        fields.remove("trace_id");
    }
    value.to_string()
}

fn bearer<'a>(actor: usize, own: &'a Tenant, foreign: &'a Tenant, platform: &'a str) -> Option<&'a str> {
    match actor {
        0 => None,
        1 => Some(&own.expired),
        OTHER_ORGANIZATION => Some(&foreign.administrator),
        3 => Some(&own.sibling),
        4 => Some(&own.reader),
        5 => Some(&own.auditor),
        6 => Some(&own.user),
        7 => Some(&own.administrator),
        _ => Some(platform),
    }
}

fn tells_of(text: &str, ids: &Ids) -> bool {
    let mut own = ids.0.iter().filter(|(name, _)| *name != "reference");
    own.any(|(_, id)| text.contains(id.as_str()))
}

#[tokio::test]
async fn every_route_that_is_served_is_in_the_table_and_no_other() {
    let world = World::start().await;
    let document = expect(world.get("/openapi.json").await, StatusCode::OK).await;
    let mut served = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for method in operations.as_object().expect("operations").keys() {
            let kinds = ["filestorage", "networks", "servers", "sshcertificateauthorities", "loadbalancers", "volumes"];
            let is_strict = kinds.map(|kind| format!("/api/v2/{kind}"));
            let is_strict = is_strict.iter().any(|start| path.starts_with(start)) || v1_matrix::is_strict(path);
            let is_strict = is_strict || compute_matrix::is_strict(path) || v1_cluster_matrix::is_strict(path);
            let is_strict = is_strict || path.ends_with("/images");
            let promises = |status: &str| {
                let answer = operations[method]["responses"].get(status);
                // What a client gets only if it sends a key is no promise about its body.
                answer.is_some_and(|answer| !answer["description"].to_string().contains("Idempotency-Key"))
            };
            // A body that can contradict itself is one that is read.
            assert_eq!(promises("422"), promises("413") && is_strict, "{method} {path}");
            served.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let tabled = table().iter().map(|row| format!("{} {}", row.method, row.path)).collect::<BTreeSet<_>>();
    assert_eq!(served, tabled, "served is on the left");
}

#[tokio::test]
async fn everybody_gets_exactly_the_expected_answer_on_every_route() {
    let world = World::start().await;
    let mut wrong = Vec::new();
    let foreign = stage(&world).await;
    for row in table() {
        for (actor, name) in ACTORS.iter().enumerate() {
            let own = stage(&world).await;
            let bearer = bearer(actor, &own.tenant, &foreign.tenant, &world.start.token);
            let (status, text) = ask(&world, &row, &own.ids, bearer).await;
            if status.as_u16() != row.expected[actor] {
                wrong.push(format!(
                    "{} {} by {name}: {status}, not {}: {text}",
                    row.method, row.path, row.expected[actor]
                ));
            }
            let hidden = if actor == OTHER_ORGANIZATION { &own.ids } else { &foreign.ids };
            if actor != PLATFORM && tells_of(&text, hidden) {
                wrong.push(format!("{} {} tells {name} of somebody else: {text}", row.method, row.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn what_is_foreign_and_what_is_unknown_get_the_same_answer_on_every_route() {
    let world = World::start().await;
    let mut wrong = Vec::new();
    let (own, foreign) = (stage(&world).await, stage(&world).await);
    let nothing = unknown(&world, &own.ids);
    let rendered = |row: &Row, ids: &Ids| (ids.fill(row.path), row.body.map(|body| body(ids)));
    for row in table() {
        // From everything being somebody else's, to only the innermost: an organization of ours with a project that
        // is not, and so on.
        for kept in 0..own.ids.0.len() {
            let (theirs, nobodys) = (own.ids.mixed(kept, &foreign.ids), own.ids.mixed(kept, &nothing));
            if rendered(&row, &theirs) == rendered(&row, &nobodys) {
                continue;
            }
            for (actor, name) in
                ACTORS.iter().enumerate().take(PLATFORM).filter(|(actor, _)| *actor != OTHER_ORGANIZATION)
            {
                let bearer = bearer(actor, &own.tenant, &foreign.tenant, &world.start.token);
                let (foreign_status, foreign_text) = ask(&world, &row, &theirs, bearer).await;
                let (unknown_status, unknown_text) = ask(&world, &row, &nobodys, bearer).await;
                let alike = foreign_status == unknown_status && comparable(&foreign_text) == comparable(&unknown_text);
                // A list of what may be read is empty where nothing may be.
                if !alike || (foreign_status.is_success() && foreign_text != "[]") {
                    wrong.push(format!(
                        "{} {} (first {kept} own) by {name}: {foreign_status} {foreign_text} / {unknown_status} {unknown_text}",
                        row.method, row.path
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    // Nothing of the foreign tenant was changed on the way.
    let network = foreign.ids.get("networkID").parse::<Uuid>().expect("an id");
    let key = regent::model::ids::NetworkId(network).key();
    assert!(!world.store.get(key).await.expect("reads").expect("it is there").metadata.is_deleting());
    assert_eq!(world.store.references(key).await.expect("reads"), Vec::<Holder>::new());
}
