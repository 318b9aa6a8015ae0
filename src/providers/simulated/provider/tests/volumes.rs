//! Volumes: made once, given to one server at a time, lost rather than replaced; cut anywhere, failing anywhere.

use super::super::super::catalogue::{IMAGE_GPU, VOLUME_CLASS_FAST};
use super::super::super::engine::faults::{Effect, PartialForm};
use super::super::super::objects::{CloudObject, NewObject, ObjectState};
use super::faults::{assert_met, effects};
use super::machine_crashes::die_everywhere;
use super::machines::{Machines, SERVER};
use super::*;
use crate::model::ids::{ServerId, VolumeId};
use crate::model::volume::{AttachmentState, CloudVolumeState, VolumeDetail, VolumeSighting, VolumeSpec};
use crate::providers::{ProviderError, VolumeFact, VolumeRequest};

const VOLUME: u128 = 50;

/// A server that runs, and a volume for it.
struct Volumes {
    machines: Machines,
    spec: VolumeSpec,
    recorded: Mutex<VolumeDetail>,
}

fn server() -> ServerId {
    ServerId(Uuid::from_u128(SERVER))
}

impl AsMut<Rig> for Volumes {
    fn as_mut(&mut self) -> &mut Rig {
        &mut self.machines.rig
    }
}

impl Volumes {
    async fn new() -> Self {
        let spec = VolumeSpec { class: VOLUME_CLASS_FAST, size_gib: 10, server: Some(server()) };
        Self { machines: Machines::running().await, spec, recorded: Mutex::default() }
    }

    async fn attached() -> Self {
        let volumes = Self::new().await;
        volumes.make_persistently().await;
        volumes
    }

    fn rig(&self) -> &Rig {
        &self.machines.rig
    }

    fn request(&self) -> VolumeRequest {
        let NetworkRequest { incarnation, identity, organization, project, .. } = self.rig().network();
        VolumeRequest {
            id: VolumeId(Uuid::from_u128(VOLUME)),
            incarnation,
            generation: 3,
            identity,
            organization,
            project,
            spec: self.spec.clone(),
            detail: self.recorded.lock().expect("lock").clone(),
        }
    }

    /// Puts on record what an actor would.
    async fn converge(&self) -> Option<ProviderResult<VolumeFact>> {
        let request = self.request();
        let work = async |provider: &SimulatedProvider, context: &CallContext<'_>| {
            provider.converge_volume(context, &request).await
        };
        let result = self.rig().run_about(Kind::Volume, work).await?;
        if let Ok(VolumeFact { volume: Some(volume), .. }) = result.as_ref().map(|observed| &observed.fact) {
            let mut recorded = self.recorded.lock().expect("lock");
            recorded.volume = Some(volume.id.clone());
            recorded.was_whole |= volume.state == CloudVolumeState::Ready;
        }
        Some(result.map(|observed| observed.fact))
    }

    async fn attach(&self) -> Option<ProviderResult<()>> {
        let request = self.request();
        self.rig().run(async |provider, context| provider.attach_volume(context, &request, server()).await).await
    }

    async fn detach(&self) -> Option<ProviderResult<()>> {
        let request = self.request();
        self.rig().run(async |provider, context| provider.detach_volume(context, &request).await).await
    }

    async fn delete(&self) -> Option<ProviderResult<Deletion>> {
        let request = self.request();
        self.rig().run(async |provider, context| provider.delete_volume(context, &request).await).await
    }

    /// One try, as an actor makes it; tells whether the server has the volume.
    async fn attempt(&self) -> Option<bool> {
        let Ok(fact) = self.converge().await? else { return Some(false) };
        let volume = fact.volume.expect("it was never whole, or is there");
        match (volume.state, &volume.attachment) {
            (CloudVolumeState::Ready, None) => {
                // What came of it is seen when it is looked at again.
                let _ = self.attach().await?;
                Some(false)
            }
            (CloudVolumeState::Ready, Some(attachment)) => {
                Some(attachment.state == AttachmentState::Attached && volume.size_gib == self.spec.size_gib)
            }
            (CloudVolumeState::Error, _) => {
                let _ = self.delete().await?;
                Some(false)
            }
            _ => Some(false),
        }
    }

    async fn make_persistently(&self) {
        retry(async || self.attempt().await.expect("alive")).await;
    }

    async fn unmake_persistently(&self) {
        retry(async || self.delete().await.expect("alive") == Ok(Deletion::Absent)).await;
    }

    async fn volume(&self) -> CloudObject {
        let volumes = self.rig().inventory().await.volumes;
        assert_eq!(volumes.len(), 1, "{volumes:?}");
        volumes.into_iter().next().expect("one")
    }

    async fn assert_exactly_what_was_asked_for(&self, said: &str) {
        let (volume, server) = (self.volume().await, self.machines.server().await);
        assert_eq!(volume.attachment().map(|at| &at.server), Some(&server.id), "{said}");
        let body = volume.volume().expect("a volume");
        assert_eq!((body.size_gib, body.class, volume.tags.len()), (self.spec.size_gib, self.spec.class, 2), "{said}");
        self.rig().assert_no_doubles(said).await;
    }

    async fn assert_nothing_left(&self, said: &str) {
        assert_eq!(self.rig().inventory().await.volumes, [], "{said}");
        assert_eq!(self.rig().inventory().await.servers.len(), 1, "{said}: the server stays");
    }
}

fn seen(fact: VolumeFact) -> VolumeSighting {
    fact.volume.expect("seen")
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_given_to_its_server_enlarged_and_taken_away() {
    let mut volumes = Volumes::new().await;
    let made = volumes.converge().await.expect("alive").expect("made");
    assert_eq!(seen(made).state, CloudVolumeState::Creating);
    volumes.make_persistently().await;
    let fact = volumes.converge().await.expect("alive").expect("seen");
    assert_eq!(fact.converged, Some(3));
    let attachment = seen(fact).attachment.expect("attached");
    assert_eq!((attachment.server, attachment.device.as_deref()), (Some(server()), Some("/dev/vdb")));
    volumes.assert_exactly_what_was_asked_for("made").await;
    volumes.spec.size_gib = 25;
    let growing = volumes.converge().await.expect("alive").expect("ordered");
    assert_eq!(seen(growing).state, CloudVolumeState::Resizing);
    volumes.make_persistently().await;
    let mutations = volumes.rig().mutations().await;
    volumes.make_persistently().await;
    assert_eq!(volumes.rig().mutations().await, mutations, "a second convergence changes nothing");
    volumes.assert_exactly_what_was_asked_for("enlarged while it was attached").await;
    volumes.unmake_persistently().await;
    volumes.assert_nothing_left("deleted").await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_another_server_has_has_not_followed_and_is_left_with_it() {
    let mut volumes = Volumes::attached().await;
    let mutations = volumes.rig().mutations().await;
    for claimed in [None, Some(ServerId(Uuid::from_u128(77)))] {
        volumes.spec.server = claimed;
        let fact = volumes.converge().await.expect("alive").expect("seen");
        assert_eq!(fact.converged, None, "{claimed:?}");
        assert_eq!(seen(fact).attachment.expect("attached").server, Some(server()));
    }
    assert_eq!(volumes.rig().mutations().await, mutations, "whom it is taken from is decided elsewhere");
    assert_eq!(volumes.detach().await, Some(Ok(())));
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let fact = volumes.converge().await.expect("alive").expect("seen");
    assert_eq!((fact.converged, seen(fact).attachment), (Some(3), None));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_vanished_is_lost_and_never_replaced_by_an_empty_one() {
    let volumes = Volumes::attached().await;
    let object = volumes.volume().await;
    volumes.rig().behind_our_back(BackdoorChange::Delete { id: object.id.clone() }).await;
    let mutations = volumes.rig().mutations().await;
    let lost = volumes.converge().await.expect("alive").expect("looked");
    assert_eq!((lost.volume, lost.converged), (None, Some(3)), "no server has it any more");
    assert_eq!(volumes.rig().mutations().await, mutations);
    assert_eq!(volumes.delete().await, Some(Ok(Deletion::Absent)));

    let volumes = Volumes::new().await;
    volumes.converge().await.expect("alive").expect("made");
    let object = volumes.volume().await;
    volumes.rig().behind_our_back(BackdoorChange::Delete { id: object.id }).await;
    volumes.make_persistently().await;
    volumes.assert_exactly_what_was_asked_for("what nobody could have used is made again").await;
}

#[tokio::test(start_paused = true)]
async fn what_changes_behind_our_back_is_noticed_in_the_list() {
    let volumes = Volumes::attached().await;
    let list = async || {
        let listed =
            volumes.rig().run(async |provider, context| provider.list(context, Kind::Volume, None, None).await);
        listed.await.expect("alive").expect("listed").fact.items
    };
    let known = volumes.converge().await.expect("alive").expect("seen").fingerprint;
    let listed = list().await;
    assert_eq!((listed[0].key, listed[0].fingerprint), (VolumeId(Uuid::from_u128(VOLUME)).key(), known));
    let volume = volumes.volume().await.id;
    volumes.rig().behind_our_back(BackdoorChange::DropAttachment { volume: volume.clone() }).await;
    assert_ne!(list().await[0].fingerprint, known);
    volumes.make_persistently().await;
    assert_eq!(list().await[0].fingerprint, known, "it is as it was, on the same device");
    volumes.rig().behind_our_back(BackdoorChange::SetState { id: volume.clone(), state: ObjectState::Error }).await;
    assert_ne!(list().await[0].fingerprint, known);
    volumes.rig().behind_our_back(BackdoorChange::Delete { id: volume }).await;
    assert!(list().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_rebuild_of_its_server_keeps_the_volume_and_its_end_leaves_it() {
    let volumes = Volumes::attached().await;
    let before = volumes.volume().await;
    volumes.machines.rebuild(IMAGE_GPU).await.expect("alive").expect("ordered");
    volumes.machines.booted().await;
    assert_eq!(volumes.volume().await, before);
    volumes.machines.unmake_server_persistently().await;
    assert_eq!(volumes.volume().await.attachment(), None);
    assert!(matches!(volumes.attach().await, Some(Err(ProviderError::Conflict(_)))), "there is no server to have it");
}

#[tokio::test(start_paused = true)]
async fn a_failed_volume_can_be_detached_and_deleted_and_doubles_go_too() {
    let volumes = Volumes::attached().await;
    let object = volumes.volume().await;
    let error = BackdoorChange::SetState { id: object.id.clone(), state: ObjectState::Error };
    volumes.rig().behind_our_back(error).await;
    let CloudObject { name, marks, tags, body, .. } = object;
    volumes.rig().behind_our_back(BackdoorChange::Insert { object: NewObject { name, marks, tags, body } }).await;
    let error = volumes.converge().await.expect("alive").expect_err("two");
    assert!(matches!(error, ProviderError::Inconsistent(_)), "{error}");
    volumes.unmake_persistently().await;
    volumes.assert_nothing_left("deleted").await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_without_its_principal_waits_for_it() {
    let volumes = Volumes::new().await;
    let project = volumes.rig().inventory().await.identities[0].id.clone();
    volumes.rig().behind_our_back(BackdoorChange::Delete { id: project }).await;
    assert_eq!(volumes.converge().await, Some(Err(ProviderError::PrincipalMissing)));
}

const CREATING: [&str; 5] = ["find-volumes", "find-projects", "create-volume", "find-servers", "attach-volume"];

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_call_of_a_volume_is_overcome_without_doubles() {
    for operation in CREATING {
        for effect in effects() {
            let volumes = Volumes::new().await;
            let fault = Fault::once(operation, effect);
            volumes.rig().faults(vec![fault.clone()]).await;
            volumes.make_persistently().await;
            assert_met(volumes.rig(), &fault).await;
            volumes.assert_exactly_what_was_asked_for(&format!("{fault:?}")).await;
            volumes.unmake_persistently().await;
            volumes.assert_nothing_left(&format!("{fault:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_call_of_the_end_of_a_volume_is_overcome_without_remains() {
    for operation in ["find-volumes", "detach-volume", "delete-volume"] {
        for effect in effects() {
            let volumes = Volumes::attached().await;
            let fault = Fault::once(operation, effect);
            volumes.rig().faults(vec![fault.clone()]).await;
            volumes.unmake_persistently().await;
            assert_met(volumes.rig(), &fault).await;
            volumes.assert_nothing_left(&format!("{fault:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_was_made_without_its_tags_gets_them() {
    let volumes = Volumes::new().await;
    let effect = Effect::PartialCreate { form: PartialForm::Incomplete };
    volumes.rig().faults(vec![Fault::once("create-volume", effect)]).await;
    volumes.make_persistently().await;
    volumes.assert_exactly_what_was_asked_for("completed").await;
}

async fn make(volumes: &Volumes) -> Option<()> {
    while !volumes.attempt().await? {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    Some(())
}

async fn unmake(volumes: &Volumes) -> Option<()> {
    while volumes.delete().await?.expect("going") == Deletion::Underway {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    Some(())
}

#[tokio::test(start_paused = true)]
async fn a_volume_cut_short_anywhere_is_completed_without_doubles_and_deleted_without_remains() {
    die_everywhere(Volumes::new, make, async |volumes: &Volumes, said: &str| {
        make(volumes).await.expect("alive");
        volumes.assert_exactly_what_was_asked_for(said).await;
        unmake(volumes).await.expect("alive");
        volumes.assert_nothing_left(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_cut_short_anywhere_can_be_deleted_at_once() {
    die_everywhere(Volumes::new, make, async |volumes: &Volumes, said: &str| {
        unmake(volumes).await.expect("alive");
        volumes.assert_nothing_left(said).await;
        volumes.rig().assert_no_doubles(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_volume_cut_short_anywhere_is_completed() {
    die_everywhere(Volumes::attached, unmake, async |volumes: &Volumes, said: &str| {
        unmake(volumes).await.expect("alive");
        volumes.assert_nothing_left(said).await;
    })
    .await;
}
