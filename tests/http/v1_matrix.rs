//! The lines of the matrix for the first version. No role of an organization holds its permissions: to its users there is
//! nothing there.

use regent::model::ids::ProviderServerId;
use regent::model::server::ServerDetail;
use reqwest::Method;
use serde_json::{Value, json};

use super::World;
use super::cloud::{flavor, image};
use super::matrix::{ALL_MAY_READ, Ids, Row, row};
use super::servers::seen;

/// What its paths name, outermost first. What the second version names too is another object here.
pub const NAMES: [&str; 5] = ["identityID", "v1:networkID", "v1:serverNetworkID", "v1:securityGroupID", "v1:serverID"];

/// The template, with names that mean an object of the first version.
pub fn own_names(template: &str) -> String {
    if !template.contains("{identityID}") {
        return template.to_owned();
    }
    let own = ["networkID", "securityGroupID", "serverID"];
    own.iter().fold(template.to_owned(), |path, name| path.replace(&format!("{{{name}}}"), &format!("{{v1:{name}}}")))
}

/// Can a body be well formed there and still not be meant?
pub fn is_strict(path: &str) -> bool {
    let inside = path.split_once("/identities/{identityID}/").map(|(_, inside)| inside);
    inside.is_some_and(|inside| !inside.starts_with("securitygroups"))
}

fn identity(ids: &Ids) -> Value {
    json!({"metadata": {"name": "new"}, "spec": {"regionId": ids.get("regionID")}})
}

fn network(_: &Ids) -> Value {
    json!({"metadata": {"name": "new"}, "spec": {"prefix": "10.0.0.0/22", "dnsNameservers": []}})
}

fn security_group(_: &Ids) -> Value {
    json!({"metadata": {"name": "new"}, "spec": {"rules": []}})
}

fn server(ids: &Ids) -> Value {
    let (flavor, image) = (flavor(1, "").id, image(1, "").id);
    let networks = json!([{"id": ids.get("v1:serverNetworkID")}]);
    json!({"metadata": {"name": "new"}, "spec": {"flavorId": flavor, "imageId": image, "networks": networks}})
}

const IDENTITIES: &str = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities";
const NETWORKS: &str = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/networks";
const SECURITY_GROUPS: &str =
    "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/securitygroups";
const SERVERS: &str = "/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}/servers";

/// Makes one of everything in the project. The server lies in a network of its own, so that the other can be deleted.
pub async fn furnish(world: &World, ids: &mut Ids) {
    let made = world.made(&ids.fill(IDENTITIES), &identity(ids)).await;
    ids.set("identityID", &made);
    for name in ["v1:networkID", "v1:serverNetworkID"] {
        let made = world.made(&ids.fill(NETWORKS), &network(ids)).await;
        ids.set(name, &made);
    }
    let made = world.made(&ids.fill(SECURITY_GROUPS), &security_group(ids)).await;
    ids.set("v1:securityGroupID", &made);
    let made = world.made(&ids.fill(SERVERS), &server(ids)).await;
    ids.set("v1:serverID", &made);
    let detail = ServerDetail { server: Some(ProviderServerId("s".to_owned())), ..ServerDetail::default() };
    seen(world, &made, &detail).await;
}

/// A path inside a principal, as the document has it.
macro_rules! inside {
    ($tail:literal) => {
        concat!("/api/v1/organizations/{organizationID}/projects/{projectID}/identities/{identityID}", $tail)
    };
}

pub fn rows() -> Vec<Row> {
    let (get, post, put, delete) = (|| Method::GET, || Method::POST, || Method::PUT, || Method::DELETE);
    let creators = [401, 401, 403, 403, 403, 403, 403, 403, 201];
    let platform = |code| [401, 401, 404, 404, 404, 404, 404, 404, code];
    let detail = [401, 401, 403, 403, 403, 403, 403, 403, 200];
    let (one_network, one_group) = (inside!("/networks/{networkID}"), inside!("/securitygroups/{securityGroupID}"));
    let one_server = inside!("/servers/{serverID}");
    vec![
        row(get(), "/api/v1/organizations/{organizationID}/regions/{regionID}/detail", None, detail),
        row(get(), "/api/v1/organizations/{organizationID}/identities", None, ALL_MAY_READ),
        row(post(), IDENTITIES, Some(identity), creators),
        row(get(), inside!(""), None, platform(200)),
        row(delete(), inside!(""), None, platform(202)),
        row(get(), "/api/v1/organizations/{organizationID}/networks", None, ALL_MAY_READ),
        row(post(), NETWORKS, Some(network), creators),
        row(get(), one_network, None, platform(200)),
        row(delete(), one_network, None, platform(202)),
        row(get(), "/api/v1/organizations/{organizationID}/securitygroups", None, ALL_MAY_READ),
        row(post(), SECURITY_GROUPS, Some(security_group), creators),
        row(get(), one_group, None, platform(200)),
        row(put(), one_group, Some(security_group), platform(202)),
        row(delete(), one_group, None, platform(202)),
        row(get(), "/api/v1/organizations/{organizationID}/servers", None, ALL_MAY_READ),
        row(post(), SERVERS, Some(server), creators),
        row(get(), one_server, None, platform(200)),
        row(put(), one_server, Some(server), platform(202)),
        row(delete(), one_server, None, platform(202)),
        row(post(), inside!("/servers/{serverID}/start"), None, platform(202)),
        row(post(), inside!("/servers/{serverID}/stop"), None, platform(202)),
        row(post(), inside!("/servers/{serverID}/softreboot"), None, platform(202)),
        row(post(), inside!("/servers/{serverID}/hardreboot"), None, platform(202)),
        row(get(), inside!("/servers/{serverID}/consolesessions"), None, platform(200)),
        row(get(), inside!("/servers/{serverID}/consoleoutput"), None, platform(200)),
    ]
}
