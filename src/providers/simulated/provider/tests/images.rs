//! Images: imported and saved, cut and faulted, private, and skipped when they make no sense.

use super::super::super::call::CloudError;
use super::super::super::catalogue;
use super::super::super::engine::faults::{Effect, PartialForm};
use super::super::super::engine::settings::EngineSettings;
use super::machines::{Machines, pass};
use super::*;
use crate::model::ids::ImageId;
use crate::model::image::{ImageDetail, ImageSource, ImageSpec, ImageStatus};
use crate::providers::call::Fact;
use crate::providers::image_schema::ImageEntry;
use crate::providers::{ImageFact, ImageRequest, ProviderError, ServerRequest};

const IMAGE: u128 = 50;
const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

/// An image, and what is on record of it.
struct Gallery {
    machines: Machines,
    recorded: Mutex<ImageDetail>,
    server: Option<Box<ServerRequest>>,
}

impl Gallery {
    async fn importing() -> Self {
        Self { machines: Machines::new().await, recorded: Mutex::default(), server: None }
    }

    async fn saving() -> Self {
        let machines = Machines::running().await;
        let server = Some(Box::new(machines.request()));
        Self { machines, recorded: Mutex::default(), server }
    }

    fn request(&self) -> ImageRequest {
        let NetworkRequest { incarnation, organization, .. } = self.machines.rig.network();
        let source = if let Some(server) = &self.server {
            ImageSource::Snapshot { server: server.id, incarnation: server.incarnation }
        } else {
            let key = crate::model::sealed::EnvelopeKey::from_bytes(&[1; 32]).expect("a key");
            ImageSource::Import { uri: key.seal(&"https://example.org/x".to_owned()).expect("seals") }
        };
        ImageRequest {
            id: ImageId(Uuid::from_u128(IMAGE)),
            incarnation,
            organization,
            name: "golden".to_owned(),
            spec: ImageSpec { contents: catalogue::images()[0].contents(), source, size_gib: None },
            server: self.server.clone(),
            detail: self.recorded.lock().expect("lock").clone(),
        }
    }

    /// Puts on record what an actor would.
    async fn converge(&self) -> Option<ProviderResult<ImageFact>> {
        let request = self.request();
        let rig = &self.machines.rig;
        let result = rig.run(async |provider, context| provider.converge_image(context, &request).await).await?;
        if let Ok(seen) = &result {
            self.recorded.lock().expect("lock").status = Some(seen.fact.status);
        }
        Some(result.map(|observed| observed.fact))
    }

    async fn status(&self) -> ImageStatus {
        self.converge().await.expect("alive").expect("converged").status
    }

    async fn delete(&self) -> Option<ProviderResult<Deletion>> {
        let request = self.request();
        self.machines.rig.run(async |provider, context| provider.delete_image(context, &request).await).await
    }

    async fn delete_persistently(&self) {
        retry(async || self.delete().await.expect("alive") == Ok(Deletion::Absent)).await;
    }

    async fn make_persistently(&self) {
        retry(async || self.converge().await.expect("alive").is_ok_and(|fact| fact.status == ImageStatus::Ready)).await;
    }

    async fn count(&self) -> usize {
        self.machines.rig.inventory().await.images.len()
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_is_made_under_our_id_becomes_ready_and_goes() {
    for gallery in [Gallery::importing().await, Gallery::saving().await] {
        assert_eq!(gallery.status().await, ImageStatus::Creating);
        pass(SECOND).await;
        assert_eq!(gallery.status().await, ImageStatus::Ready);
        let images = gallery.machines.rig.inventory().await.images;
        assert_eq!(images[0].id.0, Uuid::from_u128(IMAGE).to_string());
        let size = gallery.converge().await.expect("alive").expect("there").size_gib;
        assert_eq!(size, if gallery.server.is_some() { 100 } else { 10 }, "a copy is as large as the disk");
        let mutations = gallery.machines.rig.mutations().await;
        assert_eq!(gallery.status().await, ImageStatus::Ready);
        assert_eq!(gallery.machines.rig.mutations().await, mutations, "a second convergence changes nothing");
        assert_eq!(gallery.delete().await, Some(Ok(Deletion::Absent)));
        assert_eq!(gallery.count().await, 0);
        assert_eq!(gallery.delete().await, Some(Ok(Deletion::Absent)), "what is gone is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_creation_and_a_deletion_cut_anywhere_leave_one_image_or_none() {
    for saving in [false, true] {
        for point in 1..=12 {
            let mut gallery = if saving { Gallery::saving().await } else { Gallery::importing().await };
            gallery.machines.rig.dies_at(point);
            let _ = gallery.converge().await;
            gallery.machines.rig.cut = Cut::never();
            gallery.make_persistently().await;
            assert_eq!(gallery.count().await, 1, "died at point {point}");
            gallery.machines.rig.assert_no_doubles(&format!("died at point {point}")).await;
            gallery.machines.rig.dies_at(point);
            let _ = gallery.delete().await;
            gallery.machines.rig.cut = Cut::never();
            gallery.delete_persistently().await;
            assert_eq!(gallery.count().await, 0, "died at point {point}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_call_of_an_image_is_overcome_without_doubles() {
    let effects = [
        Effect::Error { error: CloudError::Unavailable },
        Effect::LostAnswer { after_ms: 0 },
        Effect::PartialCreate { form: PartialForm::Errored },
        Effect::PartialCreate { form: PartialForm::Incomplete },
        Effect::StuckCreate { for_ms: Some(3000) },
        Effect::StuckDelete { for_ms: Some(3000) },
        Effect::Stale { age_ms: 60_000 },
        Effect::Throttle { retry_after_ms: Some(100) },
    ];
    for saving in [false, true] {
        for effect in effects.clone() {
            for operation in ["find-own-images", "get-image", "create-image", "delete-image"] {
                let gallery = if saving { Gallery::saving().await } else { Gallery::importing().await };
                gallery.machines.rig.faults(vec![Fault::once(operation, effect.clone())]).await;
                let said = format!("{effect:?} at {operation}");
                gallery.make_persistently().await;
                assert_eq!(gallery.count().await, 1, "{said}");
                gallery.delete_persistently().await;
                assert_eq!(gallery.count().await, 0, "{said}");
                gallery.machines.rig.assert_no_doubles(&said).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_import_that_fails_stays_failed_and_what_was_ready_is_not_made_again() {
    let gallery = Gallery::importing().await;
    gallery.machines.rig.faults(vec![Fault::once("create-image", Effect::FailedImport)]).await;
    assert_eq!(gallery.status().await, ImageStatus::Creating);
    pass(SECOND).await;
    assert_eq!(gallery.status().await, ImageStatus::Failed);
    assert_eq!(gallery.status().await, ImageStatus::Failed);
    gallery.delete_persistently().await;

    let gallery = Gallery::importing().await;
    gallery.make_persistently().await;
    let image = gallery.machines.rig.inventory().await.images[0].id.clone();
    gallery.machines.rig.behind_our_back(BackdoorChange::Delete { id: image }).await;
    assert_eq!(gallery.converge().await, Some(Err(ProviderError::NotFound)));
    assert_eq!(gallery.count().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_server_that_is_not_there_is_not_made_and_one_that_is_busy_is_waited_for() {
    let gallery = Gallery::saving().await;
    gallery.machines.act(crate::providers::PowerAction::Stop).await.expect("stops");
    assert!(matches!(gallery.converge().await, Some(Err(ProviderError::Conflict(_)))));
    pass(SECOND).await;
    assert_eq!(gallery.status().await, ImageStatus::Creating);
    gallery.delete_persistently().await;
    gallery.recorded.lock().expect("lock").status = None;
    gallery.machines.unmake_server_persistently().await;
    assert_eq!(gallery.converge().await, Some(Err(ProviderError::NotFound)));
}

#[tokio::test(start_paused = true)]
async fn b18_servers_of_others_cannot_boot_from_an_image() {
    let mut gallery = Gallery::importing().await;
    gallery.make_persistently().await;
    gallery.machines.spec.image = ImageId(Uuid::from_u128(IMAGE));
    gallery.machines.make().await;
    let fact = gallery.machines.booted().await;
    assert_eq!(fact.server.expect("there").image, Some(ImageId(Uuid::from_u128(IMAGE))));
    let error = gallery.delete().await.expect("alive").expect_err("in use");
    assert!(matches!(error, ProviderError::Conflict(_)), "{error}");

    // The same image in the hands of somebody else: to us it is as if it were not there.
    let foreign = Gallery::importing().await;
    let request = ImageRequest { organization: OrganizationId(Uuid::from_u128(99)), ..foreign.request() };
    let made = foreign.machines.rig.run(async |provider, context| provider.converge_image(context, &request).await);
    made.await.expect("alive").expect("made");
    pass(SECOND).await;
    let mut machines = foreign.machines;
    machines.spec.image = ImageId(Uuid::from_u128(IMAGE));
    machines.converge_group().await.expect("alive").expect("made");
    let there = machines.converge_server().await.expect("alive").expect_err("foreign");
    machines.spec.image = ImageId(Uuid::from_u128(IMAGE + 1));
    let nowhere = machines.converge_server().await.expect("alive").expect_err("unknown");
    assert_eq!(there, nowhere, "and nobody can tell");
    assert!(matches!(there, ProviderError::Rejected(_)), "{there}");
}

#[tokio::test(start_paused = true)]
async fn the_list_shows_what_is_ours_and_only_news_look_different() {
    let gallery = Gallery::importing().await;
    let list = async || {
        let rig = &gallery.machines.rig;
        let listed = rig.run(async |provider, context| provider.list(context, Kind::Image, None, None).await);
        listed.await.expect("alive").expect("listed").fact.items
    };
    assert!(list().await.is_empty(), "the catalogue is not ours");
    gallery.status().await;
    let young = list().await.remove(0);
    assert_eq!(young.key.id, Uuid::from_u128(IMAGE));
    pass(SECOND).await;
    let ready = list().await.remove(0);
    assert_ne!(young.fingerprint, ready.fingerprint);
    let Fact::Image(seen) = &ready.fact else { panic!("not an image") };
    assert_eq!(seen.fact, gallery.converge().await.expect("alive").expect("there"));
    assert_eq!(list().await.remove(0).fingerprint, ready.fingerprint);
}

#[tokio::test(start_paused = true)]
async fn the_clouds_own_quota_is_said_as_such() {
    let gallery = Gallery::importing().await;
    gallery.machines.configure(EngineSettings { images_max: Some(0), ..EngineSettings::default() });
    assert_eq!(gallery.converge().await, Some(Err(ProviderError::Quota)));
}

#[tokio::test(start_paused = true)]
async fn b16_a_bad_image_of_the_catalogue_is_left_out_and_the_others_are_offered() {
    let rig = Rig::new();
    let mut image = ImageEntry::of(&catalogue::images()[1]);
    image.id = ImageId(Uuid::from_u128(7));
    image.properties.remove("unikorn:gpu_driver_version");
    rig.behind_our_back(BackdoorChange::OfferImage { image }).await;
    let images = rig.run(async |provider, context| provider.images(context).await).await.expect("alive").expect("some");
    assert_eq!(images, catalogue::images());
}
