//! The life of volumes in the cloud in good health, without a provider.

use super::super::call::{Answer, Call, Change, CloudError};
use super::super::catalogue::{FLAVOR_STANDARD, VOLUME_CLASS_STANDARD};
use super::super::objects::{Body, CloudObject, ObjectKind, ObjectState, VolumeBody, VolumeTask};
use super::super::testing::object;
use super::backdoor::BackdoorChange;
use super::server_tests::{Bench, at, is_conflict};
use super::settings::EngineSettings;
use crate::model::ids::VolumeClassId;

/// When everything that was begun at the beginning is over.
const LATER: i64 = 5000;

impl Bench {
    fn volume_body(&self) -> VolumeBody {
        let project = self.project.id.clone();
        VolumeBody { project, class: VOLUME_CLASS_STANDARD, size_gib: 10, attachment: None, task: None }
    }

    fn try_volume(&mut self, now: i64, id: u128, body: VolumeBody) -> Result<Answer, CloudError> {
        self.try_make(now, id, Body::Volume(Box::new(body)))
    }

    fn volume(&mut self, now: i64, id: u128) -> CloudObject {
        let body = self.volume_body();
        object(self.try_volume(now, id, body))
    }

    fn attach(&mut self, now: i64, volume: &CloudObject, server: &CloudObject) -> Result<Answer, CloudError> {
        self.call(now, &Call::AttachVolume { volume: volume.id.clone(), server: server.id.clone() })
    }

    fn detach(&mut self, now: i64, volume: &CloudObject) -> Result<Answer, CloudError> {
        self.call(now, &Call::DetachVolume { volume: volume.id.clone() })
    }

    fn resize(&mut self, now: i64, volume: &CloudObject, size_gib: u32) -> Result<Answer, CloudError> {
        let change = Change::Size { size_gib };
        self.call(now, &Call::Update { kind: ObjectKind::Volume, id: volume.id.clone(), change })
    }

    fn seen(&mut self, now: i64, volume: &CloudObject) -> (ObjectState, VolumeBody) {
        let seen = self.get(now, volume).expect("there");
        (seen.state, seen.volume().expect("a volume").clone())
    }
}

#[test]
fn a_volume_is_made_attached_enlarged_detached_and_deleted_one_thing_at_a_time() {
    let mut bench = Bench::new();
    let server = bench.server(0, 10, FLAVOR_STANDARD);
    let volume = bench.volume(0, 20);
    assert_eq!(bench.seen(100, &volume).0, ObjectState::Building);
    assert!(is_conflict(&bench.attach(100, &volume, &server)), "not before it is made");
    assert_eq!(bench.seen(300, &volume), (ObjectState::Active, bench.volume_body()));
    assert!(is_conflict(&bench.attach(300, &volume, &server)), "not to a server that is still being built");
    assert_eq!(bench.attach(LATER, &volume, &server), Ok(Answer::Done));
    for refused in [
        bench.attach(LATER, &volume, &server),
        bench.detach(LATER, &volume),
        bench.resize(LATER, &volume, 11),
        bench.delete(LATER, &volume),
    ] {
        assert!(is_conflict(&refused), "{refused:?}");
    }
    let attached = bench.seen(LATER + 300, &volume).1;
    assert_eq!((attached.task, attached.attachment.map(|at| at.device)), (None, Some("/dev/vdb".to_owned())));
    assert!(is_conflict(&bench.delete(LATER + 300, &volume)), "a server has it");
    assert!(is_conflict(&bench.attach(LATER + 300, &volume, &server)), "it has one server at a time");

    bench.resize(LATER + 300, &volume, 20).expect("it grows while it is attached");
    let growing = bench.seen(LATER + 301, &volume).1;
    assert_eq!((growing.size_gib, growing.task), (10, Some(VolumeTask::Resizing { size_gib: 20 })));
    assert_eq!(bench.seen(LATER + 600, &volume).1.size_gib, 20);

    assert_eq!(bench.detach(LATER + 600, &volume), Ok(Answer::Done));
    assert!(bench.seen(LATER + 601, &volume).1.attachment.is_some(), "until it is over");
    assert_eq!(bench.seen(LATER + 900, &volume).1.attachment, None);
    assert!(is_conflict(&bench.detach(LATER + 900, &volume)), "nobody has it");
    assert_eq!(bench.delete(LATER + 900, &volume), Ok(Answer::Done));
    assert_eq!(bench.seen(LATER + 901, &volume).0, ObjectState::Deleting);
    assert_eq!(bench.get(LATER + 1200, &volume), Err(CloudError::NotFound));
}

#[test]
fn a_server_that_goes_leaves_its_volumes_to_be_had_by_others() {
    let mut bench = Bench::new();
    let servers = [bench.server(0, 10, FLAVOR_STANDARD), bench.server(0, 11, FLAVOR_STANDARD)];
    let volumes = [bench.volume(0, 20), bench.volume(0, 21), bench.volume(0, 22)];
    bench.attach(LATER, &volumes[0], &servers[0]).expect("attached");
    bench.attach(LATER + 1000, &volumes[1], &servers[0]).expect("attaching");
    bench.attach(LATER, &volumes[2], &servers[1]).expect("attached");
    bench.cloud.change_directly(at(LATER + 1100), &BackdoorChange::Delete { id: servers[0].id.clone() }).expect("gone");
    for volume in &volumes[..2] {
        let (state, body) = bench.seen(LATER + 1101, volume);
        assert_eq!((state, body.attachment, body.task), (ObjectState::Active, None, None));
        bench.attach(LATER + 1101, volume, &servers[1]).expect("the other server takes it");
    }
    let devices = volumes.map(|volume| bench.seen(LATER + 2000, &volume).1.attachment.expect("attached").device);
    assert_eq!(devices, ["/dev/vdc", "/dev/vdd", "/dev/vdb"]);
    // The ordinary end of a server does the same, when it is over.
    bench.delete(LATER + 2000, &servers[1]).expect("going");
    assert!(bench.seen(LATER + 2001, &bench_volume(&bench, 20)).1.attachment.is_some());
    assert_eq!(bench.seen(LATER + 3000, &bench_volume(&bench, 20)).1.attachment, None);
}

fn bench_volume(bench: &Bench, id: u128) -> CloudObject {
    let mut all = bench.cloud.world.table.of_kind(ObjectKind::Volume);
    all.find(|volume| volume.marks.is_some_and(|marks| marks.id.as_u128() == id)).expect("there").clone()
}

#[test]
fn what_cannot_be_is_refused() {
    let mut bench = Bench::new();
    let unknown = VolumeBody { class: VolumeClassId(uuid::Uuid::nil()), ..bench.volume_body() };
    let empty = VolumeBody { size_gib: 0, ..bench.volume_body() };
    for body in [unknown, empty] {
        let refused = bench.try_volume(0, 20, body);
        assert!(matches!(refused, Err(CloudError::Rejected { .. })), "{refused:?}");
    }
    let volume = bench.volume(0, 20);
    for size_gib in [10, 9] {
        let refused = bench.resize(LATER, &volume, size_gib);
        assert!(matches!(refused, Err(CloudError::Rejected { .. })), "{refused:?}");
    }
    let server = bench.server(LATER, 10, FLAVOR_STANDARD);
    assert_eq!(bench.attach(2 * LATER, &server, &server), Err(CloudError::NotFound));
    assert_eq!(bench.attach(2 * LATER, &volume, &volume), Err(CloudError::NotFound));
    let project = bench.project.clone();
    let mut lone = Bench::new();
    lone.volume(0, 20);
    lone.cloud.change_directly(at(1), &BackdoorChange::Delete { id: lone.network.id.clone() }).expect("gone");
    assert!(is_conflict(&lone.delete(LATER, &project)), "a project with a volume stays");
    bench.cloud.configure(EngineSettings { volumes_max: Some(1), ..EngineSettings::default() });
    let body = bench.volume_body();
    assert_eq!(bench.try_volume(LATER, 21, body), Err(CloudError::Quota));
}

#[test]
fn a_server_takes_no_more_volumes_than_it_has_devices() {
    let mut bench = Bench::new();
    let server = bench.server(0, 10, FLAVOR_STANDARD);
    for number in 0..25 {
        let volume = bench.volume(0, 20 + number);
        assert_eq!(bench.attach(LATER, &volume, &server), Ok(Answer::Done), "{number}");
    }
    let one_more = bench.volume(0, 99);
    assert_eq!(bench.attach(LATER, &one_more, &server), Err(CloudError::Quota));
    let first = bench_volume(&bench, 20);
    bench.detach(2 * LATER, &first).expect("detaching");
    assert_eq!(bench.attach(3 * LATER, &one_more, &server), Ok(Answer::Done), "a device is free again");
}
