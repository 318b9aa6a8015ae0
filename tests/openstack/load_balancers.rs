//! Load balancers: made whole, changed a step at a time, reached from outside, and unmade.

use regent::model::ids::LoadBalancerId;
use regent::model::load_balancer::{
    BalancedProtocol, HealthCheck, Listener, ListenerName, LoadBalancerDetail, LoadBalancerSpec, Member, Pool,
};
use regent::model::network::Prefix;
use regent::providers::openstack::names;
use regent::providers::{Deletion, LoadBalancerFact, LoadBalancerRequest, Provider, ProviderError};
use serde_json::Value;

use super::cloud::{Admin, id};
use super::machines::Place;
use super::random;

fn listener(name: &str, port: u16) -> Listener {
    Listener {
        name: ListenerName::try_from(name.to_owned()).expect("a name"),
        protocol: BalancedProtocol::Tcp,
        port,
        allowed_cidrs: None,
        idle_timeout_seconds: None,
        pool: Pool {
            proxy_protocol_v2: None,
            members: vec![Member { address: [192, 168, 0, 200].into(), port: 8080 }],
            health_check: Some(HealthCheck::default()),
        },
    }
}

impl Place {
    pub fn balancer_request(&self) -> LoadBalancerRequest {
        LoadBalancerRequest {
            id: LoadBalancerId(random()),
            incarnation: self.world.incarnation,
            identity: self.world.identity,
            network: self.network.id,
            organization: self.world.organization,
            project: self.world.project,
            spec: LoadBalancerSpec { vip_address: None, public_ip: None, listeners: vec![listener("web", 80)] },
            detail: LoadBalancerDetail::default(),
        }
    }

    /// Until it is whole and has followed, as its actor would do it.
    pub async fn balancer(&self, request: &mut LoadBalancerRequest) -> LoadBalancerFact {
        let provider = &self.world.provider;
        let made = provider.converge_load_balancer(&self.context(), request).await.expect("a balancer").fact;
        request.detail.balancer = Some(made.balancer.clone());
        request.detail.port = Some(made.port.clone());
        request.detail.vip_address = made.vip_address;
        let request = &*request;
        self.eventually("a balancer", async || match provider.converge_listeners(&self.context(), request).await {
            Ok(seen) => Some(seen.fact).filter(|fact| fact.built && !fact.unfinished),
            Err(ProviderError::Conflict(_)) => None,
            Err(error) => panic!("{error}"),
        })
        .await
    }
}

async fn listed(admin: &Admin, kind: &str, key: &str, prefix: &str) -> Vec<Value> {
    let mut all = admin.list("load-balancer", &format!("v2.0/lbaas/{kind}"), key).await;
    all.retain(|part| part["name"].as_str().is_some_and(|name| name.starts_with(prefix)));
    all
}

#[tokio::test]
async fn a_load_balancer_is_made_whole_changed_a_step_at_a_time_and_unmade() {
    let place = Place::new().await;
    let (admin, provider) = (place.admin().await, &place.world.provider);
    let mut request = place.balancer_request();
    request.spec.vip_address = Some([192, 168, 0, 130].into());
    let made = place.balancer(&mut request).await;
    assert_eq!(made.vip_address, request.spec.vip_address);
    let changes = place.changes_since(0);
    let made_here = changes.iter().filter(|name| name.contains("balancer")).collect::<Vec<_>>();
    assert_eq!(made_here, [&"create-balancer"], "everything in one call: {changes:?}");
    // The record may be lost: it is found, and nothing is made or changed.
    let calls = place.world.calls();
    let mut lost = LoadBalancerRequest { detail: LoadBalancerDetail::default(), ..request.clone() };
    assert_eq!(place.balancer(&mut lost).await.fingerprint, made.fingerprint);
    assert_eq!(place.changes_since(calls), [""; 0]);

    let prefix = names::load_balancer(request.id);
    let names_of = |parts: &[Value]| parts.iter().map(|part| part["name"].clone()).collect::<Vec<_>>();
    let listeners = listed(&admin, "listeners", "listeners", &prefix).await;
    assert_eq!(names_of(&listeners), [format!("{prefix}-web-listener")]);
    assert_eq!(listeners[0]["timeout_client_data"], 60_000);
    let pools = listed(&admin, "pools", "pools", &prefix).await;
    assert_eq!(names_of(&pools), [format!("{prefix}-web-pool")]);
    let monitors = listed(&admin, "healthmonitors", "healthmonitors", &prefix).await;
    assert_eq!(names_of(&monitors), [format!("{prefix}-web-monitor")]);

    // Another listener, other members, another check, somebody less let in; then the first listener goes.
    let mut dns = listener("dns", 53);
    dns.protocol = BalancedProtocol::Udp;
    request.spec.listeners.push(dns);
    let web = &mut request.spec.listeners[0];
    web.allowed_cidrs = Some(vec![Prefix::parse("10.0.0.0/8").expect("a prefix")]);
    web.pool.members.push(Member { address: [192, 168, 0, 201].into(), port: 8080 });
    web.pool.health_check = Some(HealthCheck { unhealthy_threshold: Some(5), ..HealthCheck::default() });
    place.balancer(&mut request).await;
    let listeners = listed(&admin, "listeners", "listeners", &prefix).await;
    assert_eq!(listeners.len(), 2);
    let web = listeners.iter().find(|listener| listener["protocol"] == "TCP").expect("the first");
    assert_eq!(web["allowed_cidrs"][0], "10.0.0.0/8");
    request.spec.listeners[0].allowed_cidrs = None;
    request.spec.listeners[0].pool.health_check = None;
    place.balancer(&mut request).await;
    let listeners = listed(&admin, "listeners", "listeners", &prefix).await;
    let web = listeners.iter().find(|listener| listener["protocol"] == "TCP").expect("the first");
    assert!(web["allowed_cidrs"].as_array().is_none_or(Vec::is_empty), "everybody may come again: {web}");
    request.spec.listeners.remove(0);
    place.balancer(&mut request).await;
    let listeners = listed(&admin, "listeners", "listeners", &prefix).await;
    assert_eq!(names_of(&listeners), [format!("{prefix}-dns-listener")]);
    assert_eq!(listed(&admin, "pools", "pools", &prefix).await.len(), 1);

    // Somebody takes a part away behind our back.
    let pool = listed(&admin, "pools", "pools", &prefix).await;
    let path = format!("v2.0/lbaas/listeners/{}", id(&listeners[0]));
    assert_eq!(admin.call("DELETE", "load-balancer", &path, None).await.0, 204);
    place.balancer(&mut request).await;
    assert_eq!(listed(&admin, "listeners", "listeners", &prefix).await.len(), 1);
    let kept = listed(&admin, "pools", "pools", &prefix).await;
    assert_eq!(kept.iter().map(id).collect::<Vec<_>>(), pool.iter().map(id).collect::<Vec<_>>());

    let address = provider.converge_public_address(&place.context(), &request).await.expect("an address").fact;
    request.detail.floating_ip = Some(address.id.clone());
    let again = provider.converge_public_address(&place.context(), &request).await.expect("the same").fact;
    assert_eq!(again, address);
    let released = provider.release_public_address(&place.context(), &request).await.expect("released").fact;
    assert_eq!(released, Deletion::Absent);
    place.gone(async || provider.delete_load_balancer(&place.context(), &request).await).await;
    for (kind, key) in [("loadbalancers", "loadbalancers"), ("listeners", "listeners"), ("pools", "pools")] {
        assert_eq!(listed(&admin, kind, key, &prefix).await, [Value::Null; 0]);
    }
    let ports = admin.list("network", &format!("ports?name={prefix}"), "ports").await;
    assert_eq!(ports, [Value::Null; 0]);
    place.end().await;
}
