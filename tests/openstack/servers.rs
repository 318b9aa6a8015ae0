//! Servers: made once, told what to do, changed in place, adopted, and unmade in order.

use regent::model::ids::SecurityGroupId;
use regent::model::network::Prefix;
use regent::model::server::{CloudServerStatus, Networking, PowerState, ServerDetail};
use regent::providers::openstack::names;
use regent::providers::{Deletion, PowerAction, Provider, ProviderError, ServerRequest, UserDataBytes};
use serde_json::{Value, json};

use super::cloud::{Admin, id};
use super::machines::Place;

/// Everything of a server: machines by what they say of themselves, ports by name, addresses by what they say.
async fn parts(admin: &Admin, place: &Place, request: &ServerRequest) -> [Vec<Value>; 3] {
    let project = place.project();
    let servers = format!("servers/detail?all_tenants=1&project_id={project}");
    let mut servers = admin.list("compute", &servers, "servers").await;
    servers.retain(|server| server["metadata"]["region:server_id"] == request.id.to_string());
    let name = names::server_port(request.id);
    let ports = admin.list("network", &format!("ports?name={name}"), "ports").await;
    let mut addresses = admin.list("network", &format!("floatingips?project_id={project}"), "floatingips").await;
    addresses.retain(|address| address["description"].as_str().is_some_and(|text| text.starts_with(&name)));
    [servers, ports, addresses]
}

fn networking(group: SecurityGroupId) -> Networking {
    Networking {
        security_groups: Some(vec![group]),
        public_ip: Some(true),
        allowed_source_addresses: Some(vec![Prefix::parse("10.9.0.0/24").expect("a prefix")]),
        allowed_address_pairs: None,
    }
}

#[tokio::test]
async fn a_server_is_made_once_changed_in_place_and_unmade() {
    let place = Place::new().await;
    let (admin, group) = (place.admin().await, place.group().await);
    let mut request = place.server_request("web");
    request.spec.networking = Some(networking(group));
    request.user_data = Some(UserDataBytes(b"#cloud-config\n".to_vec()));
    let made = place.server(&mut request).await;
    assert_eq!(made.converged, Some(7));
    assert!(made.private_ip.is_some() && made.floating_ip.is_some() && made.mac_address.is_some());
    let sighting = made.server.clone().expect("a server");
    assert_eq!((sighting.image, sighting.flavor), (Some(request.spec.image), Some(request.spec.flavor)));
    let noted = place.pages.0.lock().expect("lock").first().expect("a note").read::<ServerDetail>().expect("a detail");
    assert_eq!(noted.port, made.port, "the port was on record before the machine was made");

    // The record may be lost: it is found, and nothing is made or changed.
    let calls = place.world.calls();
    for detail in [ServerDetail::default(), request.detail.clone()] {
        let again = place.converge(&ServerRequest { detail, ..request.clone() }).await.expect("found");
        assert_eq!((again.fingerprint, again.port), (made.fingerprint, made.port.clone()));
    }
    assert_eq!(place.changes_since(calls), [""; 0]);
    let [servers, ports, addresses] = parts(&admin, &place, &request).await;
    assert_eq!((servers.len(), ports.len(), addresses.len()), (1, 1, 1));
    assert_eq!(servers[0]["name"], "web");
    for key in ["serverID", "organizationID", "projectID", "regionID", "region:region_id", "identity:project_id"] {
        assert!(servers[0]["metadata"][key].is_string(), "{key}");
    }
    assert_eq!(servers[0]["key_name"], names::KEY_PAIR);
    assert_eq!(ports[0]["allowed_address_pairs"][0]["ip_address"], "10.9.0.0/24");

    // What differs is set right, and nothing else is written (B36).
    let calls = place.world.calls();
    request.spec.networking = Some(Networking { public_ip: None, ..networking(group) });
    assert_eq!(place.converge(&request).await.expect("changed").floating_ip, None);
    assert_eq!(place.changes_since(calls), ["delete-floating-ip"]);
    let calls = place.world.calls();
    request.spec.networking = None;
    place.converge(&request).await.expect("changed");
    assert_eq!(place.changes_since(calls), ["update-port"]);

    place.no_server(&request).await;
    let left = parts(&admin, &place, &request).await;
    assert!(left.iter().all(Vec::is_empty), "{left:?}");
    let provider = &place.world.provider;
    assert_eq!(provider.delete_server(&place.context(), &request).await, Ok(Deletion::Absent));
    place.no_group(group).await;
    place.end().await;
}

#[tokio::test]
async fn a_machine_does_what_it_is_told() {
    let place = Place::new().await;
    let mut request = place.server_request("told");
    place.server(&mut request).await;
    let (provider, context) = (&place.world.provider, place.context());
    let power = async |action| provider.power_server(&context, &request, action).await;
    power(PowerAction::Stop).await.expect("stops");
    let stopped = place.until(&request, |seen| seen.status == CloudServerStatus::Stopped && !seen.is_busy()).await;
    assert_eq!(stopped.server.expect("a server").power, PowerState::Shutdown);
    assert!(matches!(power(PowerAction::Stop).await, Err(ProviderError::Conflict(_))), "it is stopped");
    power(PowerAction::Start).await.expect("starts");
    let is_up = |seen: &regent::model::server::ServerSighting| {
        seen.status == CloudServerStatus::Active && seen.power == PowerState::Running && !seen.is_busy()
    };
    place.until(&request, is_up).await;
    power(PowerAction::SoftReboot).await.expect("reboots");
    place.until(&request, is_up).await;
    power(PowerAction::HardReboot).await.expect("reboots");
    place.until(&request, is_up).await;
    assert!(!provider.console_output(&context, &request, Some(5)).await.expect("shown").is_empty());
    assert!(provider.console_session(&context, &request).await.expect("a session").starts_with("http"));
    place.no_server(&request).await;
    assert_eq!(power(PowerAction::Start).await, Err(ProviderError::NotFound));
    place.end().await;
}

#[tokio::test]
async fn a_rebuild_and_a_resize_keep_the_machine_and_its_addresses() {
    let place = Place::new().await;
    let mut request = place.server_request("changed");
    let before = place.server(&mut request).await;
    let (provider, context) = (&place.world.provider, place.context());
    let next = place.image("tiny-next");
    provider.rebuild_server(&context, &request, next).await.expect("ordered");
    request.spec.image = next;
    let rebuilt = place.until(&request, |seen| seen.image == Some(next) && !seen.is_busy()).await;
    assert_eq!((&rebuilt.port, rebuilt.private_ip), (&before.port, before.private_ip));

    let small = place.flavor("m1.small");
    provider.resize_server(&context, &request, small).await.expect("ordered");
    request.spec.flavor = small;
    place.until(&request, |seen| seen.status == CloudServerStatus::VerifyResize && !seen.is_at_work()).await;
    provider.confirm_resize(&context, &request).await.expect("ordered");
    let resized = place.until(&request, |seen| seen.status == CloudServerStatus::Active && !seen.is_busy()).await;
    let machine = |fact: &regent::providers::ServerFact| fact.server.clone().expect("a server");
    assert_eq!(machine(&resized).flavor, Some(small));
    assert_eq!(machine(&resized).id, machine(&before).id);
    assert!(matches!(provider.confirm_resize(&context, &request).await, Err(ProviderError::Conflict(_))));

    // Another flavor by another machine: this one goes, and its port stays.
    let retired = provider.retire_server(&context, &request, small).await;
    assert!(matches!(retired, Err(ProviderError::Conflict(_))), "it has the flavor already");
    let tiny = place.flavor("m1.tiny");
    place.gone(async || provider.retire_server(&place.context(), &request, tiny).await).await;
    request.spec.flavor = tiny;
    let replaced = place.server(&mut request).await;
    assert_eq!((&replaced.port, replaced.private_ip), (&before.port, before.private_ip));
    assert_ne!(machine(&replaced).id, machine(&before).id);
    place.no_server(&request).await;
    place.end().await;
}

#[tokio::test]
async fn b1_b2_what_the_service_before_us_made_is_adopted_and_a_namesake_is_not() {
    let place = Place::new().await;
    let admin = place.admin().await;
    let mut request = place.server_request("kept");
    let made = place.server(&mut request).await;
    let machine = made.server.expect("a server").id.0;
    // As the service before us left it: no tag, nothing in the port's description, and another name since then.
    assert_eq!(admin.call("DELETE", "compute", &format!("servers/{machine}/tags"), None).await.0, 204);
    let renamed = json!({"server": {"name": "renamed"}});
    assert_eq!(admin.call("PUT", "compute", &format!("servers/{machine}"), Some(renamed)).await.0, 200);
    let port = made.port.expect("a port").0;
    let bare = json!({"port": {"description": ""}});
    assert_eq!(admin.call("PUT", "network", &format!("ports/{port}"), Some(bare)).await.0, 200);
    let calls = place.world.calls();
    let lost = ServerRequest { detail: ServerDetail::default(), ..request.clone() };
    let adopted = place.converge(&lost).await.expect("adopted");
    assert_eq!(adopted.server.expect("a server").id.0, machine);
    assert_eq!(place.changes_since(calls), ["update-port", "tag-server", "tag-server"]);

    // A server of the same name, and of another id, is another server.
    let mut other = place.server_request("other");
    other.name = "kept".to_owned();
    let second = place.server(&mut other).await;
    assert_ne!(second.server.expect("a server").id.0, machine);
    place.no_server(&other).await;
    let [servers, ..] = parts(&admin, &place, &request).await;
    assert_eq!(servers.iter().map(id).collect::<Vec<_>>(), [machine.as_str()]);
    place.no_server(&request).await;
    place.end().await;
}

#[tokio::test]
async fn a_machine_that_cannot_start_is_told_of_and_can_be_thrown_away_and_one_that_runs_cannot() {
    let place = Place::new().await;
    let mut request = place.server_request("impossible");
    request.spec.flavor = place.flavor("m1.impossible");
    let failed = place.until(&request, |seen| seen.status == CloudServerStatus::Error).await;
    assert_eq!(failed.server.expect("a server").launched, None);
    let (provider, context) = (&place.world.provider, place.context());
    place.gone(async || provider.discard_server(&place.context(), &request).await).await;
    request.spec.flavor = place.flavor("m1.tiny");
    place.server(&mut request).await;
    assert!(matches!(provider.discard_server(&context, &request).await, Err(ProviderError::Conflict(_))));
    // One that is only to be missed is not made.
    place.no_server(&request).await;
    let missed = ServerRequest { may_create: false, ..request.clone() };
    assert_eq!(place.converge(&missed).await, Err(ProviderError::NotFound));
    place.no_server(&request).await;
    place.end().await;
}

#[tokio::test]
async fn b6_a_port_goes_after_its_machine_and_one_that_was_taken_away_is_made_again() {
    let place = Place::new().await;
    let admin = place.admin().await;
    let mut request = place.server_request("port");
    let made = place.server(&mut request).await;
    let port = made.port.clone().expect("a port").0;
    assert_eq!(admin.call("DELETE", "network", &format!("ports/{port}"), None).await.0, 204);
    let healed = place
        .eventually("another port", async || place.converge(&request).await.ok().filter(|fact| fact.port != made.port))
        .await;
    assert_eq!(healed.server.expect("a server").id, made.server.expect("a server").id);
    let [_, ports, _] = parts(&admin, &place, &request).await;
    assert_eq!(ports.len(), 1);
    place.no_server(&request).await;
    place.end().await;
}
