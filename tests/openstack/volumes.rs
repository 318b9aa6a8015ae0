//! Volumes: made once, enlarged, given to a server and taken back, and unmade.

use regent::model::ids::{VolumeClassId, VolumeId};
use regent::model::volume::{AttachmentState, CloudVolumeState, VolumeDetail, VolumeSighting, VolumeSpec};
use regent::providers::{Deletion, Provider, ProviderError, VolumeFact, VolumeRequest};

use super::machines::Place;
use super::random;

impl Place {
    pub fn volume_request(&self) -> VolumeRequest {
        let class: VolumeClassId = self.world.facts.within("volumeTypes", "standard").parse().expect("a class");
        VolumeRequest {
            id: VolumeId(random()),
            incarnation: self.world.incarnation,
            generation: 3,
            identity: self.world.identity,
            organization: self.world.organization,
            project: self.world.project,
            spec: VolumeSpec { class, size_gib: 1, server: None },
            detail: VolumeDetail::default(),
        }
    }

    pub async fn volume(&self, request: &VolumeRequest, is_so: impl Fn(&VolumeSighting) -> bool) -> VolumeFact {
        self.eventually("a volume", async || {
            let seen = self.world.provider.converge_volume(&self.context(), request).await.expect("a volume").fact;
            seen.volume.as_ref().is_some_and(&is_so).then_some(seen)
        })
        .await
    }
}

pub fn is_held(volume: &VolumeSighting) -> bool {
    volume.attachment.as_ref().is_some_and(|attachment| attachment.state == AttachmentState::Attached)
}

pub fn is_ready(volume: &VolumeSighting) -> bool {
    volume.state == CloudVolumeState::Ready && volume.attachment.is_none()
}

#[tokio::test]
async fn a_volume_is_made_once_grows_is_given_and_taken_back_and_goes() {
    let place = Place::new().await;
    let provider = &place.world.provider;
    let mut server = place.server_request("holder");
    place.server(&mut server).await;
    let mut request = place.volume_request();
    let made = place.volume(&request, is_ready).await;
    assert_eq!(made.converged, Some(3));
    let calls = place.world.calls();
    assert_eq!(place.volume(&request, is_ready).await.fingerprint, made.fingerprint, "found without a record");
    assert_eq!(place.changes_since(calls), [""; 0]);
    request.detail.volume = made.volume.map(|volume| volume.id);
    request.detail.was_whole = true;

    request.spec.size_gib = 2;
    place.volume(&request, |volume| is_ready(volume) && volume.size_gib == 2).await;

    request.spec.server = Some(server.id);
    provider.attach_volume(&place.context(), &request, server.id).await.expect("ordered");
    let again = provider.attach_volume(&place.context(), &request, server.id).await;
    assert!(matches!(again, Err(ProviderError::Conflict(_))), "{again:?}");
    let held = place.volume(&request, is_held).await;
    let attachment = held.volume.and_then(|volume| volume.attachment).expect("an attachment");
    assert_eq!(attachment.server, Some(server.id));
    assert!(attachment.device.is_some());
    assert_eq!(held.converged, Some(3));
    request.spec.server = None;
    assert_eq!(place.volume(&request, is_held).await.converged, None, "it has not followed");

    provider.detach_volume(&place.context(), &request).await.expect("ordered");
    place.volume(&request, is_ready).await;
    // Deleted while it is held: it is taken from whoever has it first.
    provider.attach_volume(&place.context(), &request, server.id).await.expect("ordered");
    place.volume(&request, is_held).await;
    place.gone(async || provider.delete_volume(&place.context(), &request).await).await;
    assert_eq!(provider.delete_volume(&place.context(), &request).await, Ok(Deletion::Absent));
    // What was whole is not made again.
    let lost = provider.converge_volume(&place.context(), &request).await.expect("told").fact;
    assert_eq!(lost.volume, None);
    place.no_server(&server).await;
    place.end().await;
}
