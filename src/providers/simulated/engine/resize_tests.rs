//! Another flavor for a machine, in the cloud in good health and without a provider.

use super::super::call::{Answer, Call, CloudError, ServerAction};
use super::super::catalogue::{
    FLAVOR_GPU, FLAVOR_LARGE, FLAVOR_METAL, FLAVOR_PINNED, FLAVOR_STANDARD, IMAGE_GPU, IMAGE_UBUNTU, flavor, image,
};
use super::super::objects::{Body, CloudObject, ImageBody, ObjectState, ServerBody};
use super::super::testing::{new_object, request};
use super::SimulatedCloud;
use super::backdoor::BackdoorChange;
use super::faults::Effect;
use super::server_tests::{Bench, at, is_conflict};
use crate::model::ids::{FlavorId, ImageId};
use crate::model::server::{PowerState, ServerTask};
use crate::providers::image_schema::ImageEntry;

fn act(bench: &mut Bench, now: i64, server: &CloudObject, action: ServerAction) -> Result<Answer, CloudError> {
    bench.call(now, &Call::Act { server: server.id.clone(), action })
}

fn body(bench: &mut Bench, now: i64, server: &CloudObject) -> (ObjectState, ServerBody) {
    let object = bench.get(now, server).expect("there");
    (object.state, object.server().expect("a server").clone())
}

const fn to(flavor: FlavorId) -> ServerAction {
    ServerAction::Resize { flavor }
}

fn is_rejected(result: &Result<Answer, CloudError>) -> bool {
    matches!(result, Err(CloudError::Rejected { .. }))
}

#[test]
fn a_resize_takes_its_time_keeps_the_power_and_waits_to_be_confirmed() {
    for stopped in [false, true] {
        let mut bench = Bench::new();
        let server = bench.server(0, 10, FLAVOR_STANDARD);
        if stopped {
            act(&mut bench, 2000, &server, ServerAction::Stop).expect("accepted");
        }
        let power = if stopped { PowerState::Shutdown } else { PowerState::Running };
        act(&mut bench, 3000, &server, to(FLAVOR_LARGE)).expect("accepted");
        let (_, during) = body(&mut bench, 4999, &server);
        assert_eq!((during.flavor, during.life.task), (FLAVOR_LARGE, Some(ServerTask::Resizing)));
        assert!(is_conflict(&act(&mut bench, 4999, &server, ServerAction::ConfirmResize)), "it is not done yet");
        assert!(is_conflict(&act(&mut bench, 4999, &server, to(FLAVOR_LARGE))), "the same order again is in conflict");
        let (state, made) = body(&mut bench, 5000, &server);
        assert_eq!((state, made.life.task, made.life.power), (ObjectState::Active, None, power));
        assert!(made.life.awaits_confirmation);
        act(&mut bench, 9000, &server, ServerAction::ConfirmResize).expect("confirmed");
        let (_, kept) = body(&mut bench, 9000, &server);
        assert_eq!((kept.flavor, kept.life.power, kept.life.awaits_confirmation), (FLAVOR_LARGE, power, false));
        assert!(
            is_conflict(&act(&mut bench, 9000, &server, ServerAction::ConfirmResize)),
            "there is nothing to confirm"
        );
        act(&mut bench, 9000, &server, to(FLAVOR_STANDARD)).expect("and back");
    }
}

#[test]
fn what_waits_to_be_confirmed_takes_nothing_else_and_can_go() {
    let mut bench = Bench::new();
    let server = bench.server(0, 10, FLAVOR_STANDARD);
    act(&mut bench, 2000, &server, to(FLAVOR_LARGE)).expect("accepted");
    let others = [
        ServerAction::Start,
        ServerAction::Stop,
        ServerAction::SoftReboot,
        ServerAction::HardReboot,
        ServerAction::Rebuild { image: IMAGE_GPU },
        to(FLAVOR_STANDARD),
    ];
    for now in [3000, 5000] {
        for other in others {
            assert!(is_conflict(&act(&mut bench, now, &server, other)), "{other:?} at {now}");
        }
        let copy = ImageBody { source: Some(server.id.clone()), ..ImageBody::default() };
        assert!(is_conflict(&bench.call(now, &new_object(20, Body::Image(copy)))), "a copy of its disk");
    }
    bench.delete(5000, &server).expect("accepted");
    assert_eq!(bench.get(5300, &server), Err(CloudError::NotFound));
}

#[test]
fn a_machine_that_is_not_there_yet_or_has_failed_is_not_resized() {
    let mut bench = Bench::new();
    let server = bench.server(0, 10, FLAVOR_STANDARD);
    assert!(is_conflict(&act(&mut bench, 1999, &server, to(FLAVOR_LARGE))), "it is being built");
    let failed = BackdoorChange::SetState { id: server.id.clone(), state: ObjectState::Error };
    bench.cloud.change_directly(at(2000), &failed).expect("changed");
    assert!(is_conflict(&act(&mut bench, 2000, &server, to(FLAVOR_LARGE))), "it has failed");
    act(&mut bench, 2000, &server, ServerAction::HardReboot).expect("the way out");
    act(&mut bench, 2500, &server, to(FLAVOR_LARGE)).expect("accepted");
}

#[test]
fn what_does_not_fit_is_rejected_however_often_it_is_asked_for() {
    let mut bench = Bench::new();
    let server = bench.server(0, 10, FLAVOR_GPU);
    let metal = bench.server(0, 11, FLAVOR_METAL);
    for wrong in [FlavorId(uuid::Uuid::nil()), FLAVOR_GPU, FLAVOR_METAL, FLAVOR_PINNED, FLAVOR_STANDARD] {
        let refused = act(&mut bench, 2000, &server, to(wrong));
        assert!(is_rejected(&refused), "{:?}: {refused:?}", flavor(wrong));
    }
    assert!(is_rejected(&act(&mut bench, 2000, &metal, to(FLAVOR_GPU))), "a physical machine stays what it is");
    assert_eq!(body(&mut bench, 2000, &server).1.flavor, FLAVOR_GPU);
}

#[test]
fn an_image_that_outgrew_the_disk_keeps_its_server_where_it_is() {
    let mut bench = Bench::new();
    let server = bench.server(0, 10, FLAVOR_STANDARD);
    let mut huge = image(IMAGE_UBUNTU).expect("offered").clone();
    (huge.id, huge.size_gib) = (ImageId(uuid::Uuid::from_u128(77)), 150);
    let offer = BackdoorChange::OfferImage { image: ImageEntry::of(&huge) };
    bench.cloud.change_directly(at(0), &offer).expect("offered");
    let set = BackdoorChange::SetImage { server: server.id.clone(), image: huge.id };
    bench.cloud.change_directly(at(0), &set).expect("changed");
    assert!(is_rejected(&act(&mut bench, 2000, &server, to(FLAVOR_LARGE))), "100 GiB are too few");
    act(&mut bench, 2000, &server, to(FLAVOR_GPU)).expect("200 GiB are enough");
}

#[test]
fn a_resize_that_fails_ends_in_error_on_the_flavor_that_was_ordered() {
    let mut bench = Bench::new();
    let server = bench.server(0, 10, FLAVOR_STANDARD);
    let order = request(Call::Act { server: server.id.clone(), action: to(FLAVOR_LARGE) });
    bench.cloud.perform(at(2000), &order, Some(&Effect::FailedResize)).result.expect("the answer is fine");
    let (state, failed) = body(&mut bench, 4000, &server);
    assert_eq!((state, failed.flavor, failed.life.task), (ObjectState::Error, FLAVOR_LARGE, None));
    assert!(!failed.life.awaits_confirmation);
    act(&mut bench, 4000, &server, ServerAction::HardReboot).expect("the way out");
    assert_eq!(body(&mut bench, 5000, &server).0, ObjectState::Active);
}

#[test]
fn a_journal_keeps_what_waits_to_be_confirmed_and_older_ones_are_read() {
    let mut bench = Bench::new();
    let server = bench.server(0, 10, FLAVOR_STANDARD);
    act(&mut bench, 2000, &server, to(FLAVOR_LARGE)).expect("accepted");
    bench.get(4000, &server).expect("there");
    let line = serde_json::to_string(&bench.cloud.whole()).expect("json");
    let mut again = SimulatedCloud::new(9);
    again.restore(at(0), serde_json::from_str(&line).expect("a line")).expect("restored");
    assert_eq!(again.whole(), bench.cloud.whole());
    let older = line.replace(",\"awaitsConfirmation\":true", "");
    assert_ne!(older, line);
    let mut older_cloud = SimulatedCloud::new(9);
    older_cloud.restore(at(0), serde_json::from_str(&older).expect("a line")).expect("restored");
    let servers = older_cloud.inventory(at(4000)).servers;
    assert!(servers[0].server().is_some_and(|body| !body.life.awaits_confirmation));
}
