//! What the cloud will not do: quotas that are used up, and hosts that cannot take a server.

use regent::model::ids::{NetworkId, SecurityGroupId};
use regent::model::network::NetworkDetail;
use regent::model::openstack::PlacementPreflight;
use regent::model::security_group::SecurityGroupDetail;
use regent::model::server::SshInjection;
use regent::providers::{Provider, ProviderError, ServerRequest};
use serde_json::{Value, json};

use super::cloud::Admin;
use super::machines::Place;
use super::{World, random};

/// The cloud's own limit of a project.
async fn limit(admin: &Admin, service: &str, project: &str, quota: Value) {
    let (path, key) = match service {
        "network" => (format!("quotas/{project}"), "quota"),
        "load-balancer" => (format!("v2.0/lbaas/quotas/{project}"), "quota"),
        _ => (format!("os-quota-sets/{project}"), "quota_set"),
    };
    let (status, said) = admin.call("PUT", service, &path, Some(json!({ key: quota }))).await;
    assert!(matches!(status, 200 | 202), "{service}: {status} {said}");
}

#[tokio::test]
async fn a_quota_of_the_cloud_that_is_used_up_is_told_in_our_own_words() {
    let place = Place::new().await;
    let (admin, project, provider) = (place.admin().await, place.project(), &place.world.provider);
    let is_used_up = |what: &str, error: Option<ProviderError>| {
        assert_eq!(error, Some(ProviderError::Quota), "{what}");
        let said = error.map(|error| error.to_string());
        assert_eq!(said.as_deref(), Some("the cloud's own quota is used up"), "nothing of what the cloud said");
    };
    // Nova says 403, Cinder 413, Neutron 409, Octavia 403 in other words.
    let server = place.server_request("too many");
    limit(&admin, "compute", &project, json!({"instances": 0})).await;
    is_used_up("servers", place.converge(&server).await.err());
    limit(&admin, "compute", &project, json!({"instances": 10, "cores": 0})).await;
    is_used_up("cores", place.converge(&server).await.err());

    let volume = place.volume_request();
    limit(&admin, "block-storage", &project, json!({"volumes": 0})).await;
    is_used_up("volumes", provider.converge_volume(&place.context(), &volume).await.err());
    limit(&admin, "block-storage", &project, json!({"volumes": 10, "gigabytes": 0})).await;
    is_used_up("gigabytes", provider.converge_volume(&place.context(), &volume).await.err());

    let balancer = place.balancer_request();
    limit(&admin, "load-balancer", &project, json!({"loadbalancer": 0})).await;
    is_used_up("balancers", provider.converge_load_balancer(&place.context(), &balancer).await.err());

    // One of each is there: the place's network, and the group that every project has of itself.
    limit(&admin, "network", &project, json!({"network": 1, "security_group": 1})).await;
    let network = place.world.network_request(NetworkId(random()), NetworkDetail::default());
    is_used_up("networks", provider.converge_network(&place.context(), &network).await.err());
    let group = place.world.group_request(SecurityGroupId(random()), SecurityGroupDetail::default());
    is_used_up("groups", provider.converge_security_group(&place.context(), &group).await.err());

    // What was begun goes all the same.
    place.no_server(&server).await;
    place.gone(async || provider.delete_load_balancer(&place.context(), &balancer).await).await;
    place.end().await;
}

#[tokio::test]
async fn a_pinned_server_is_made_on_its_host_if_that_can_take_it() {
    let world = World::with(|settings| {
        let preflight = PlacementPreflight { enabled: true, required_traits: Vec::new() };
        settings.compute.placement_preflight = Some(preflight);
    });
    let place = Place::on(world.await).await;
    let admin = place.admin().await;
    let host = place.world.facts.text("host").to_owned();
    let mut request = place.server_request("pinned");
    request.spec.flavor = place.flavor("m1.pinned");
    let on = |host: &str, request: &ServerRequest| {
        let mut request = request.clone();
        request.spec.infrastructure = Some(host.to_owned());
        // Its principal's key pair is not the service account's: such servers are refused before they come here.
        request.spec.ssh_injection = Some(SshInjection::None);
        request
    };
    let elsewhere = place.converge(&on("nowhere", &request)).await;
    assert!(matches!(elsewhere, Err(ProviderError::Conflict(_))), "{elsewhere:?}");
    let mut unfit = on(&host, &request);
    unfit.spec.flavor = place.flavor("m1.tiny");
    let unfit = place.converge(&unfit).await;
    assert!(matches!(unfit, Err(ProviderError::Rejected(_))), "{unfit:?}");
    let made = place.changes_since(0).into_iter().filter(|name| *name == "create-server").count();
    assert_eq!(made, 0, "it is known before it is tried");

    request = on(&host, &request);
    let pinned = place.server(&mut request).await;
    let machine = pinned.server.expect("a server").id.0;
    let (_, seen) = admin.call("GET", "compute", &format!("servers/{machine}"), None).await;
    assert_eq!(seen["server"]["OS-EXT-SRV-ATTR:hypervisor_hostname"], host);
    assert_eq!(seen["server"]["tenant_id"], place.project());
    // It is its principal's as any other is.
    let calls = place.world.calls();
    assert_eq!(place.converge(&request).await.expect("found").fingerprint, pinned.fingerprint);
    assert_eq!(place.changes_since(calls), [""; 0]);
    place.no_server(&request).await;
    place.end().await;
}

#[tokio::test]
async fn a_host_without_a_trait_that_the_region_asks_for_takes_no_pinned_server() {
    let world = World::with(|settings| {
        let required_traits = vec!["HW_CPU_X86_AVX512F".to_owned()];
        settings.compute.placement_preflight = Some(PlacementPreflight { enabled: true, required_traits });
    });
    let place = Place::on(world.await).await;
    let mut request = place.server_request("picky");
    request.spec.flavor = place.flavor("m1.pinned");
    request.spec.infrastructure = Some(place.world.facts.text("host").to_owned());
    let refused = place.converge(&request).await;
    assert!(matches!(refused, Err(ProviderError::Conflict(_))), "{refused:?}");
    place.no_server(&request).await;
    place.end().await;
}
