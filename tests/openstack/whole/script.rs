//! What is asked for in these tests, and what the cloud holds because of it.

use regent::providers::openstack::names;
use serde_json::{Value, json};

use super::Stage;
use crate::scenarios::{NORTH, last};

pub const NETWORKS: &str = "/api/v2/networks";
pub const GROUPS: &str = "/api/v2/securitygroups";
pub const AUTHORITIES: &str = "/api/v2/sshcertificateauthorities";
pub const INSTANCES: &str = "/api/v2/instances";
pub const VOLUMES: &str = "/api/v2/volumes";
pub const BALANCERS: &str = "/api/v2/loadbalancers";

const AUTHORITY_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH0zCbWkRDLXxDXo2YXcaMSHOUOO6Xn7YFq1GHcSGQvE authority";

impl Stage {
    pub fn network(&self, name: &str) -> Value {
        let spec = json!({ "regionId": NORTH, "prefix": "10.0.0.0/22", "dnsNameservers": ["1.1.1.1"] });
        self.placed(name, spec)
    }

    pub fn group(&self, network: &str) -> Value {
        let rule = json!({ "direction": "ingress", "protocol": "tcp", "port": 22, "prefix": "0.0.0.0/0" });
        self.body("group", json!({ "networkId": last(network), "rules": [rule] }))
    }

    pub fn authority(&self) -> Value {
        self.placed("authority", json!({ "publicKey": AUTHORITY_KEY }))
    }

    pub fn instance(&self, name: &str, network: &str, image: &str) -> Value {
        let flavor = self.facts.within("flavors", "m1.tiny");
        self.placed(name, json!({ "networkId": last(network), "flavorId": flavor, "imageId": image }))
    }

    pub fn volume(&self, network: &str, server: Option<&str>) -> Value {
        let class = self.facts.within("volumeTypes", "standard");
        let mut spec = json!({ "regionId": NORTH, "networkId": last(network), "sizeGiB": 1, "volumeClassId": class });
        if let Some(server) = server {
            spec["serverId"] = json!(server);
        }
        self.placed("volume", spec)
    }

    pub fn balancer(&self, network: &str, member: &str) -> Value {
        let pool = json!({ "members": [{ "address": member, "port": 8080 }], "healthCheck": {
            "intervalSeconds": 5, "timeoutSeconds": 3, "healthyThreshold": 3, "unhealthyThreshold": 3 } });
        let listener = json!({ "name": "web", "protocol": "tcp", "port": 80, "pool": pool });
        self.body("balancer", json!({ "networkId": last(network), "publicIP": true, "listeners": [listener] }))
    }
}

/// A network has a principal of its own.
pub fn of_network(network: &str) -> Vec<String> {
    let principal = ["projects", "users", "server_groups"].map(|kind| format!("{kind} {}", names::PRINCIPAL_PREFIX));
    let parts = ["networks", "subnets", "routers"].map(|kind| format!("{kind} network-{}", last(network)));
    [principal, parts].concat()
}

pub fn of_group(group: &str) -> Vec<String> {
    vec![format!("security_groups securitygroup-{}", last(group))]
}

pub fn of_server(name: &str, server: &str) -> Vec<String> {
    vec![format!("servers {name}"), format!("ports server-{server}")]
}

pub fn of_public_server(name: &str, server: &str) -> Vec<String> {
    [of_server(name, server), vec![format!("floatingips server-{server}")]].concat()
}

pub fn of_volume(volume: &str) -> Vec<String> {
    vec![format!("volumes volume-{}", last(volume))]
}

/// A public one with one listener, `web`, whose members are looked after.
pub fn of_balancer(balancer: &str) -> Vec<String> {
    let name = format!("lb-{}", last(balancer));
    let parts = [("listeners", "listener"), ("pools", "pool"), ("healthmonitors", "monitor")];
    let parts = parts.map(|(kind, part)| format!("{kind} {name}-web-{part}"));
    let own = [format!("loadbalancers {name}"), format!("floatingips {name}"), format!("ports {name}")];
    [own, parts].concat()
}

pub fn of_image(name: &str) -> Vec<String> {
    vec![format!("images {name}")]
}
