//! What is decided about a server, from what was seen of it.

use uuid::Uuid;

use super::*;
use crate::model::ids::{IdentityId, NetworkId, OrganizationId, ProjectId};
use crate::model::metadata::Tag;
use crate::model::server::{ServerDetail, ServerSpec};

const GLANCE: &str = "00000000-0000-4000-8000-0000000000aa";

fn request() -> ServerRequest {
    ServerRequest {
        id: ServerId(Uuid::from_u128(1)),
        incarnation: Incarnation(Uuid::from_u128(2)),
        generation: 7,
        identity: IdentityId(Uuid::from_u128(3)),
        network: NetworkId(Uuid::from_u128(4)),
        organization: OrganizationId(Uuid::from_u128(5)),
        project: ProjectId(Uuid::from_u128(6)),
        name: "web".to_owned(),
        tags: Vec::new(),
        spec: ServerSpec {
            flavor: FlavorId(Uuid::from_u128(7)),
            image: ImageId(Uuid::from_u128(8)),
            networking: None,
            user_data: None,
            ssh_certificate_authority: None,
            ssh_injection: None,
            infrastructure: None,
            own_images: Vec::new(),
            governed: None,
        },
        user_data: None,
        may_create: true,
        detail: ServerDetail::default(),
    }
}

const REGION: RegionId = RegionId(Uuid::from_u128(9));

fn wanted() -> Wanted {
    Wanted {
        options: PortOptions::default(),
        public_ip: false,
        metadata: metadata(&request(), REGION),
        tags: tags(&request()),
        description: "ours".to_owned(),
        machine: true,
    }
}

fn port(device: &str) -> PortBody {
    PortBody {
        id: "p".to_owned(),
        description: "ours".to_owned(),
        device_id: device.to_owned(),
        mac_address: "fa:16:3e:00:00:01".to_owned(),
        ..PortBody::default()
    }
}

fn floating_ip(port: &str) -> FloatingIpBody {
    FloatingIpBody {
        id: "f".to_owned(),
        floating_ip_address: "203.0.113.7".to_owned(),
        port_id: port.to_owned(),
        description: "ours".to_owned(),
        status: "DOWN".to_owned(),
    }
}

fn server(status: &str, said: &Value) -> ServerBody {
    let mut body = json!({
        "id": "s", "name": "web", "status": status, "created": "2026-11-18T12:00:00Z",
        "image": {"id": GLANCE}, "flavor": {"original_name": "m1.tiny"},
        "metadata": wanted().metadata, "tags": wanted().tags,
        "OS-EXT-STS:task_state": null, "OS-EXT-STS:power_state": 1,
        "OS-SRV-USG:launched_at": "2026-11-18T12:00:05.000000",
    });
    for (name, value) in said.as_object().expect("an object") {
        body[name] = value.clone();
    }
    serde_json::from_value(body).expect("a server")
}

fn running() -> ServerBody {
    server("ACTIVE", &json!({}))
}

fn view(server: Option<ServerBody>, port: Option<PortBody>) -> View {
    View { server, port, floating_ip: None, port_is_stale: false }
}

fn step(view: &View) -> Option<Step> {
    next(view, &wanted()).expect("a way")
}

#[test]
fn the_way_up_is_port_address_machine() {
    let public = Wanted { public_ip: true, ..wanted() };
    let mut seen = View::default();
    assert_eq!(next(&seen, &public), Ok(Some(Step::CreatePort)));
    seen.port = Some(port(""));
    assert_eq!(next(&seen, &public), Ok(Some(Step::CreateFloatingIp { port: "p".to_owned() })));
    seen.floating_ip = Some(floating_ip("p"));
    assert_eq!(next(&seen, &public), Ok(Some(Step::CreateServer { port: "p".to_owned() })));
    seen.server = Some(server("BUILD", &json!({"OS-SRV-USG:launched_at": null})));
    assert_eq!(next(&seen, &public), Ok(None));
    assert!(is_reached(&seen, &public));
}

#[test]
fn b36_nothing_is_written_that_is_so_already_and_what_differs_is_set_right() {
    assert_eq!(step(&view(Some(running()), Some(port("s")))), None);
    let options = PortOptions { security_groups: ["g".to_owned()].into(), ..PortOptions::default() };
    let other = Wanted { options, ..wanted() };
    let seen = view(Some(running()), Some(port("s")));
    assert_eq!(next(&seen, &other), Ok(Some(Step::UpdatePort("p".to_owned()))));
    let unmarked = PortBody { description: String::new(), ..port("s") };
    assert_eq!(step(&view(Some(running()), Some(unmarked))), Some(Step::UpdatePort("p".to_owned())));
}

#[test]
fn an_address_that_nobody_wants_goes_one_that_failed_too_and_one_that_lost_its_port_is_led_back() {
    let remove = Some(Step::RemoveFloatingIp("f".to_owned()));
    let with = |floating_ip| View { floating_ip: Some(floating_ip), ..view(Some(running()), Some(port("s"))) };
    assert_eq!(step(&with(floating_ip("p"))), remove);
    let public = Wanted { public_ip: true, ..wanted() };
    let failed = FloatingIpBody { status: "ERROR".to_owned(), ..floating_ip("p") };
    assert_eq!(next(&with(failed), &public), Ok(remove));
    let back = Step::UpdateFloatingIp { floating_ip: "f".to_owned(), port: "p".to_owned() };
    assert_eq!(next(&with(floating_ip("")), &public), Ok(Some(back)));
}

#[test]
fn b1_nothing_is_made_on_a_port_that_somebody_has() {
    assert!(matches!(next(&view(None, Some(port("x"))), &wanted()), Err(ProviderError::Conflict(_))));
    let stale = View { port_is_stale: true, ..view(None, Some(port("x"))) };
    assert_eq!(step(&stale), Some(Step::FreePort("p".to_owned())));
    let missed = Wanted { machine: false, ..wanted() };
    assert_eq!(next(&view(None, Some(port(""))), &missed), Err(ProviderError::NotFound));
    let leaving = server("ACTIVE", &json!({"OS-EXT-STS:task_state": "deleting"}));
    assert!(matches!(next(&view(Some(leaving), Some(port("s"))), &wanted()), Err(ProviderError::Conflict(_))));
}

#[test]
fn a_machine_without_its_port_gets_the_new_one_but_not_before_it_has_booted() {
    let connect = Step::Connect { server: "s".to_owned(), port: "p".to_owned() };
    assert_eq!(step(&view(Some(running()), Some(port("")))), Some(connect));
    let building = server("BUILD", &json!({"OS-SRV-USG:launched_at": null}));
    assert_eq!(step(&view(Some(building), Some(port("")))), None);
}

#[test]
fn what_the_cloud_does_not_take_now_is_left_and_the_convergence_says_so() {
    let other = json!({"metadata": {"serverID": request().id.to_string()}});
    let seen = view(Some(server("ACTIVE", &other)), Some(port("s")));
    let expected = Step::UpdateMetadata { server: "s".to_owned(), metadata: wanted().metadata };
    assert_eq!(step(&seen), Some(expected));
    for status in ["BUILD", "ERROR", "REBUILD", "VERIFY_RESIZE"] {
        let seen = view(Some(server(status, &other)), Some(port("s")));
        assert_eq!(step(&seen), None, "{status}");
        assert!(!is_reached(&seen, &wanted()), "{status}");
    }
}

#[test]
fn b2_a_server_is_whose_its_metadata_says_and_never_whose_its_name_says() {
    let (id, ours) = (request().id, request().incarnation);
    let said = |metadata: Value, tags: Value| server("ACTIVE", &json!({"metadata": metadata, "tags": tags}));
    let own = id.to_string();
    assert!(said(json!({"region:server_id": own}), json!([])).is_of(id, ours), "of the service before us");
    assert!(said(json!({"serverID": own}), json!([])).is_of(id, ours), "of long ago");
    assert!(said(json!({}), json!([names::mark(ours)])).is_of(id, ours), "its tag is enough");
    assert!(
        !said(json!({"serverID": "x"}), json!([names::mark(ours)])).is_of(id, ours),
        "but it must not say otherwise"
    );
    let other = names::mark(Incarnation(Uuid::from_u128(99)));
    assert!(!said(json!({"region:server_id": own}), json!([other])).is_of(id, ours), "of another life");
    assert!(!said(json!({"region:server_id": "x"}), json!([])).is_of(id, ours), "another's");
    assert!(!said(json!({}), json!([])).is_of(id, ours), "a namesake");
    for (seen, missing) in [(json!([]), 0), (json!([wanted().tags[0]]), 1)] {
        let adopted = said(json!(wanted().metadata), seen);
        let mark = Step::Mark { server: "s".to_owned(), tag: wanted().tags[missing].clone() };
        assert_eq!(step(&view(Some(adopted), Some(port("s")))), Some(mark));
    }
}

#[test]
fn metadata_has_the_tags_that_are_meant_for_it_and_whose_it_is_which_no_tag_can_pretend() {
    let tag = |name: &str, value: &str| Tag { name: name.to_owned(), value: value.to_owned() };
    let mut request = request();
    request.tags = vec![
        tag("compute.example.org/cluster-id", "c"),
        tag("region.example.org/server-id", "mine"),
        tag("region.example.org/image_id", "mine"),
        tag("plain", "p"),
        tag("compute.example.org/long", &"x".repeat(256)),
        tag("compute.example.org/odd!", "p"),
    ];
    let metadata = metadata(&request, REGION);
    assert_eq!(metadata["compute:cluster_id"], "c");
    for name in ["region:server_id", "serverID"] {
        assert_eq!(metadata[name], request.id.to_string());
    }
    for (name, value) in [("regionID", REGION.to_string()), ("organizationID", request.organization.to_string())] {
        assert_eq!(metadata[name], value);
    }
    assert_eq!(metadata.len(), 9, "{metadata:?}");
}

#[test]
fn an_image_whose_id_the_cloud_chose_is_known_by_ours() {
    let ours = request().spec.image;
    let noted = with_image(wanted().metadata, ours, GLANCE);
    let on_it = server("ACTIVE", &json!({"metadata": noted}));
    assert_eq!(on_it.sighting(&FlavorNames::default()).image, Some(ours));
    assert_eq!(step(&view(Some(on_it.clone()), Some(port("s")))), None, "and that is kept");
    let rebuilt = server("ACTIVE", &json!({"metadata": noted, "image": {"id": Uuid::from_u128(77)}}));
    assert_eq!(rebuilt.sighting(&FlavorNames::default()).image, Some(ImageId(Uuid::from_u128(77))));
    let volume = server("ACTIVE", &json!({"image": ""}));
    assert_eq!(volume.sighting(&FlavorNames::default()).image, None);
    let same = with_image(wanted().metadata, ours, &ours.to_string());
    assert_eq!(same, wanted().metadata, "two that are one are not told apart");
}

#[test]
fn a_flavor_is_known_by_its_name() {
    let flavors = FlavorNames([("m1.tiny".to_owned(), "1".to_owned())].into());
    assert_eq!(running().flavor(&flavors), Some(flavor_id("1")));
    assert_eq!(flavors.id_of(flavor_id("1")), Some("1"));
    assert!(flavors.missing(&[running()]).is_empty() && !FlavorNames::default().missing(&[running()]).is_empty());
    assert_eq!(running().flavor(&FlavorNames::default()), None);
}

#[test]
fn every_word_of_the_cloud_is_told_for_what_it_means() {
    use {CloudServerStatus as S, ServerTask as T};
    let table = [
        ("BUILD", "spawning", S::Build, Some(T::Other)),
        ("ACTIVE", "", S::Active, None),
        ("ACTIVE", "powering-off", S::Active, Some(T::PoweringOff)),
        ("SHUTOFF", "powering-on", S::Stopped, Some(T::PoweringOn)),
        ("REBOOT", "reboot_started", S::Active, Some(T::Rebooting)),
        ("HARD_REBOOT", "rebooting_hard", S::Active, Some(T::Rebooting)),
        ("REBUILD", "rebuild_spawning", S::Rebuild, Some(T::Rebuilding)),
        ("RESIZE", "resize_finish", S::Resize, Some(T::Resizing)),
        ("VERIFY_RESIZE", "", S::VerifyResize, None),
        ("ERROR", "", S::Error, None),
        ("UNKNOWN", "", S::Unknown, None),
        ("PAUSED", "", S::Other, None),
        ("ACTIVE", "image_snapshot", S::Active, Some(T::Other)),
        ("ACTIVE", "deleting", S::Other, Some(T::Other)),
        ("SOFT_DELETED", "", S::Other, Some(T::Other)),
    ];
    for (status, task, expected, doing) in table {
        let seen = server(status, &json!({"OS-EXT-STS:task_state": task})).sighting(&FlavorNames::default());
        assert_eq!((seen.status, seen.task), (expected, doing), "{status} {task}");
    }
    let power = [(0, PowerState::None), (1, PowerState::Running), (3, PowerState::Paused), (4, PowerState::Shutdown)];
    for (number, expected) in power.into_iter().chain([(6, PowerState::Crashed), (7, PowerState::Suspended)]) {
        assert_eq!(server("ACTIVE", &json!({"OS-EXT-STS:power_state": number})).power(), expected);
    }
}

#[test]
fn a_boot_changes_what_is_seen_and_not_what_was_configured() {
    let flavors = FlavorNames::default();
    let building = server("BUILD", &json!({"OS-SRV-USG:launched_at": null, "OS-EXT-STS:power_state": 0}));
    let before = fact(&view(Some(building), Some(port(""))), &flavors, Some(7));
    let after = fact(&view(Some(running()), Some(port("s"))), &flavors, None);
    assert_eq!(before.configuration, after.configuration);
    assert_ne!(before.fingerprint, after.fingerprint);
    let astray = fact(&view(Some(running()), Some(port(""))), &flavors, None);
    assert_ne!(astray.configuration, after.configuration);
}

#[test]
fn a_server_is_made_with_what_was_asked_for_and_nothing_else() {
    let new = NewServer {
        name: "web".to_owned(),
        image: "i".to_owned(),
        flavor: "f".to_owned(),
        port: "p".to_owned(),
        metadata: BTreeMap::new(),
        tags: vec!["t".to_owned()],
        user_data: None,
        key_name: None,
        host: None,
        group: Some("g".to_owned()),
    };
    let small = json!({"name": "web", "imageRef": "i", "flavorRef": "f", "networks": [{"port": "p"}],
        "metadata": {}, "tags": ["t"]});
    assert_eq!(new.body(), json!({"server": small, "os:scheduler_hints": {"group": "g"}}));
    let pinned = NewServer { host: Some("h".to_owned()), key_name: Some("k".to_owned()), group: None, ..new };
    assert_eq!(pinned.body()["server"]["hypervisor_hostname"], "h");
    assert_eq!(pinned.body()["server"]["key_name"], "k");
    assert_eq!(pinned.body().get("os:scheduler_hints"), None);
}

#[test]
fn a_pinned_server_needs_one_kind_of_hardware_with_its_traits() {
    let specs = |specs: &[(&str, &str)]| {
        specs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
    };
    let good = specs(&[
        ("resources:CUSTOM_GOLD", "1"),
        ("resources:VCPU", "0"),
        ("trait:CUSTOM_FAST", "required"),
        ("trait:CUSTOM_OLD", "forbidden"),
        ("trait:CUSTOM_ODD", "perhaps"),
    ]);
    let expected =
        Need { resources: "CUSTOM_GOLD:1".to_owned(), required: "!CUSTOM_OLD,CUSTOM_FAST,CUSTOM_HERE".to_owned() };
    assert_eq!(need(&good, &["CUSTOM_HERE".to_owned(), "CUSTOM_FAST".to_owned()]), Some(expected));
    for bad in [
        specs(&[]),
        specs(&[("resources:CUSTOM_A", "0")]),
        specs(&[("resources:CUSTOM_A", "1"), ("resources:CUSTOM_B", "1")]),
    ] {
        assert_eq!(need(&bad, &[]), None, "{bad:?}");
    }
}
