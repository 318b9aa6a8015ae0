//! Networks: made, adopted, followed and unmade, in whatever state they are found.

use regent::model::ids::{Incarnation, Kind, NetworkId, SecurityGroupId};
use regent::model::network::{NetworkDetail, Prefix, Route};
use regent::model::region::{ProviderNetworks, VlanSegment};
use regent::model::security_group::SecurityGroupDetail;
use regent::providers::openstack::names;
use regent::providers::{Deletion, NetworkFact, NetworkRequest, Provider, ProviderError};
use serde_json::{Value, json};

use super::cloud::{Admin, id};
use super::{World, random};

impl World {
    async fn network(&self, request: &NetworkRequest) -> NetworkFact {
        let notes = self.notes();
        let made = self.provider.converge_network(&self.context(&notes), request).await;
        made.expect("a network").fact
    }

    async fn no_network(&self, request: &NetworkRequest) {
        let notes = self.notes();
        let deleted = self.provider.delete_network(&self.context(&notes), request).await;
        assert_eq!(deleted, Ok(Deletion::Absent));
    }
}

/// Everything of that name, by kind.
async fn parts(admin: &Admin, id: NetworkId) -> [Vec<Value>; 3] {
    let name = names::network(id);
    let list = async |kind: &str| admin.list("network", &format!("{kind}?name={name}"), kind).await;
    [list("networks").await, list("subnets").await, list("routers").await]
}

#[tokio::test]
async fn a_network_is_made_once_followed_and_unmade() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    world.principal().await;
    let mut request = world.network_request(NetworkId(random()), NetworkDetail::default());
    let fact = world.network(&request).await;
    assert_eq!(fact.trouble, None);
    assert!(fact.detail.network.is_some() && fact.detail.subnet.is_some() && fact.detail.router.is_some());
    let calls = world.calls();
    // The record of the first pass may be lost.
    for detail in [NetworkDetail::default(), fact.detail.clone()] {
        request.detail = detail;
        assert_eq!(world.network(&request).await, fact);
    }
    assert_eq!(world.changes_since(calls), []);

    let [networks, subnets, routers] = parts(&admin, request.id).await;
    assert_eq!((networks.len(), subnets.len(), routers.len()), (1, 1, 1));
    let project = world.records.identity(world.identity).project.expect("a project").0;
    assert!([&networks[0], &subnets[0], &routers[0]].iter().all(|part| part["project_id"] == project));
    assert!(networks[0]["description"].as_str().expect("text").starts_with(names::NETWORK_DESCRIPTION));
    assert_eq!(subnets[0]["gateway_ip"], "192.168.0.1");
    assert_eq!(subnets[0]["allocation_pools"], json!([{ "start": "192.168.0.128", "end": "192.168.0.254" }]));
    assert_eq!(routers[0]["external_gateway_info"]["network_id"], world.facts.text("externalNetworkId"));

    request.spec.dns_nameservers = vec![[1, 1, 1, 1].into(), [9, 9, 9, 9].into()];
    let next_hop = [192, 168, 0, 9].into();
    request.spec.routes = Some(vec![Route { prefix: Prefix::parse("10.0.0.0/8").expect("a prefix"), next_hop }]);
    world.network(&request).await;
    let [_, subnets, _] = parts(&admin, request.id).await;
    assert_eq!(subnets[0]["dns_nameservers"], json!(["1.1.1.1", "9.9.9.9"]));
    assert_eq!(subnets[0]["host_routes"], json!([{ "destination": "10.0.0.0/8", "nexthop": "192.168.0.9" }]));
    request.spec.routes = None;
    world.network(&request).await;
    let [_, subnets, _] = parts(&admin, request.id).await;
    assert_eq!(subnets[0]["host_routes"], json!([]), "routes can be cleared");

    world.no_network(&request).await;
    assert!(parts(&admin, request.id).await.iter().all(Vec::is_empty));
    world.no_network(&request).await;
    world.no_principal().await;
}

#[tokio::test]
async fn b15_a_network_on_a_physical_one_has_the_vlan_that_was_claimed() {
    let world = World::with(|settings| {
        settings.network.provider_networks = Some(ProviderNetworks {
            physical_network: "physnet1".to_owned(),
            vlan_segments: vec![VlanSegment { start: 1000, end: 3000 }],
        });
    });
    let world = world.await;
    let admin = world.facts.admin().await;
    world.principal().await;
    let mut request = world.network_request(NetworkId(random()), NetworkDetail::default());
    let fact = world.network(&request).await;
    let claimed = world.records.vlan.lock().expect("lock").expect("a VLAN was claimed");
    assert_eq!(fact.detail.vlan, Some(claimed));
    let [networks, ..] = parts(&admin, request.id).await;
    assert_eq!(networks[0]["provider:segmentation_id"], claimed.0);
    assert_eq!(networks[0]["provider:physical_network"], "physnet1");
    // A network of the service before us has a VLAN that nobody here knows of.
    *world.records.vlan.lock().expect("lock") = None;
    assert_eq!(world.network(&request).await.detail.vlan, Some(claimed));
    assert_eq!(*world.records.vlan.lock().expect("lock"), Some(claimed), "it is taken");
    request.detail = fact.detail;
    world.no_network(&request).await;
    world.no_principal().await;
}

#[tokio::test]
async fn what_was_made_by_hand_is_adopted_and_marked() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    let project = world.principal().await.project.expect("a project").0;
    let request = world.network_request(NetworkId(random()), NetworkDetail::default());
    let name = names::network(request.id);
    let network = json!({ "name": name, "project_id": project, "description": names::NETWORK_DESCRIPTION });
    let network = admin.make("network", "networks", "network", network).await;
    let subnet = json!({ "name": name, "project_id": project, "network_id": id(&network), "ip_version": 4,
        "cidr": "192.168.0.0/24", "dns_nameservers": ["9.9.9.9"] });
    let subnet = admin.make("network", "subnets", "subnet", subnet).await;
    let gateway = json!({ "network_id": world.facts.text("externalNetworkId") });
    let router = json!({ "name": name, "project_id": project, "external_gateway_info": gateway });
    let router = admin.make("network", "routers", "router", router).await;
    let calls = world.calls();
    let fact = world.network(&request).await;
    assert_eq!(fact.detail.network.expect("a network").0, id(&network));
    assert_eq!(fact.detail.subnet.expect("a subnet").0, id(&subnet));
    assert_eq!(fact.detail.router.expect("a router").0, id(&router));
    let mut changes = world.changes_since(calls).into_iter().map(|call| call.operation).collect::<Vec<_>>();
    changes.sort_unstable();
    assert_eq!(changes, ["attach-router", "mark-network", "mark-router", "mark-subnet"]);
    let [networks, ..] = parts(&admin, request.id).await;
    assert!(networks[0]["description"].as_str().expect("text").contains(&world.incarnation.to_string()));
    world.no_network(&request).await;
    world.no_principal().await;
}

#[tokio::test]
async fn b5_whatever_is_missing_the_rest_is_taken_away() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    world.principal().await;
    for lacking in ["interface", "router", "subnet"] {
        let mut request = world.network_request(NetworkId(random()), NetworkDetail::default());
        request.detail = world.network(&request).await.detail;
        let subnet = json!({ "subnet_id": request.detail.subnet.clone().expect("a subnet").0 });
        let router = format!("routers/{}", request.detail.router.clone().expect("a router").0);
        let detach = format!("{router}/remove_router_interface");
        assert_eq!(admin.call("PUT", "network", &detach, Some(subnet.clone())).await.0, 200);
        match lacking {
            "router" => assert_eq!(admin.call("DELETE", "network", &router, None).await.0, 204),
            "subnet" => {
                let path = format!("subnets/{}", subnet["subnet_id"].as_str().expect("an id"));
                assert_eq!(admin.call("DELETE", "network", &path, None).await.0, 204);
            }
            _ => {}
        }
        world.no_network(&request).await;
        assert!(parts(&admin, request.id).await.iter().all(Vec::is_empty), "{lacking}");
    }
    world.no_principal().await;
}

#[tokio::test]
async fn what_was_changed_behind_our_back_is_set_right_and_seen_in_the_fingerprint() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    world.principal().await;
    let mut request = world.network_request(NetworkId(random()), NetworkDetail::default());
    let fact = world.network(&request).await;
    request.detail = fact.detail.clone();
    let subnet = fact.detail.subnet.clone().expect("a subnet").0;
    let changed = json!({ "subnet": { "dns_nameservers": ["8.8.8.8"] } });
    assert_eq!(admin.call("PUT", "network", &format!("subnets/{subnet}"), Some(changed)).await.0, 200);
    let notes = world.notes();
    let only = [request.id.0];
    let listed = world.provider.list(&world.context(&notes), Kind::Network, Some(&only), None).await.expect("a page");
    assert_ne!(Some(listed.fact.items[0].fingerprint), fact.detail.fingerprint, "a change of the subnet counts");
    let mended = world.network(&request).await;
    assert_eq!(mended, fact);
    let router = fact.detail.router.clone().expect("a router").0;
    let detach = format!("routers/{router}/remove_router_interface");
    assert_eq!(admin.call("PUT", "network", &detach, Some(json!({ "subnet_id": subnet }))).await.0, 200);
    let again = world.network(&request).await;
    assert_eq!(again.trouble, None);
    assert_ne!(again.detail.fingerprint, mended.detail.fingerprint, "a change of an interface counts");
    world.no_network(&request).await;
    world.no_principal().await;
}

#[tokio::test]
async fn doubles_stop_a_convergence_and_go_with_a_deletion() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    let project = world.principal().await.project.expect("a project").0;
    let request = world.network_request(NetworkId(random()), NetworkDetail::default());
    for _ in 0..2 {
        let network = json!({ "name": names::network(request.id), "project_id": project });
        admin.make("network", "networks", "network", network).await;
    }
    let notes = world.notes();
    let doubled = world.provider.converge_network(&world.context(&notes), &request).await;
    assert!(matches!(doubled, Err(ProviderError::Inconsistent(_))), "{doubled:?}");
    world.no_network(&request).await;
    assert!(parts(&admin, request.id).await.iter().all(Vec::is_empty));
    // Another life's are nobody's business.
    let mark = names::mark(Incarnation(random()));
    let network = json!({ "name": names::network(request.id), "project_id": project, "description": mark });
    let network = admin.make("network", "networks", "network", network).await;
    world.no_network(&request).await;
    assert_eq!(admin.call("DELETE", "network", &format!("networks/{}", id(&network)), None).await.0, 204);
    world.no_principal().await;
}

#[tokio::test]
async fn what_is_listed_has_the_fingerprint_that_was_told() {
    let world = World::new().await;
    world.principal().await;
    let network = world.network_request(NetworkId(random()), NetworkDetail::default());
    let group = world.group_request(SecurityGroupId(random()), SecurityGroupDetail::default());
    let of_network = world.network(&network).await.detail.fingerprint.expect("a fingerprint");
    let notes = world.notes();
    let context = world.context(&notes);
    let made = world.provider.converge_security_group(&context, &group).await.expect("a group");
    let of_group = made.fact.detail.fingerprint.expect("a fingerprint");
    let wanted = [(Kind::Network, network.id.0, of_network), (Kind::SecurityGroup, group.id.0, of_group)];
    for (kind, id, fingerprint) in wanted {
        for only in [None, Some([id])] {
            let only = only.as_ref().map(<[_; 1]>::as_slice);
            let (mut found, mut after, mut pages) = (Vec::new(), None::<String>, 0);
            loop {
                let page = world.provider.list(&context, kind, only, after.as_deref()).await.expect("a page").fact;
                found.extend(page.items.into_iter().filter(|item| item.key.id == id));
                (after, pages) = (page.next, pages + 1);
                if after.is_none() {
                    break;
                }
            }
            let [listed] = found.as_slice() else { panic!("{kind} is listed once: {found:?}") };
            assert_eq!((listed.fingerprint, listed.incarnation), (fingerprint, world.incarnation));
            assert!(pages < 10, "{pages} pages of one cloud");
        }
    }
    let deleted = world.provider.delete_security_group(&context, &group).await;
    assert_eq!(deleted, Ok(Deletion::Absent));
    world.no_network(&network).await;
    world.no_principal().await;
}
