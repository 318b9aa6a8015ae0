//! Making and unmaking an image. The cloud has it under our id, so a look by that id never misses it and an order that
//! is given twice is refused: there are no doubles to look for.

use super::super::call::Call;
use super::super::objects::{
    Body, CloudObject, ImageBody, Marks, NewObject, ObjectId, ObjectKind, ObjectState, TENANT_TAG,
};
use super::fingerprint::Fingerprint;
use super::session::{Session, at_most_one};
use crate::model::image::ImageStatus;
use crate::providers::{Deletion, ImageFact, ImageRequest, Observed, ProviderError, ProviderResult};

const fn marks(request: &ImageRequest) -> Marks {
    Marks { id: request.id.0, incarnation: request.incarnation }
}

impl Session<'_> {
    pub async fn converge_image(&self, request: &ImageRequest) -> ProviderResult<Observed<ImageFact>> {
        let seen = self.look_at_image(request).await?;
        let image = match seen.fact {
            Some(image) if image.state == ObjectState::Deleting => {
                return Err(ProviderError::Conflict("it is being removed".to_owned()));
            }
            // A failed beginning, which nobody has heard of yet.
            Some(image) if image.state == ObjectState::Error && request.detail.status.is_none() => {
                self.discard(&image).await?;
                self.create_image(request).await?
            }
            Some(image) => image,
            None if request.detail.is_settled() => return Err(ProviderError::NotFound),
            None => self.create_image(request).await?,
        };
        Ok(Observed { sequence: seen.sequence, fact: fact(&image) })
    }

    /// By its marks and by its id, which we know before the cloud has ever answered.
    async fn look_at_image(&self, request: &ImageRequest) -> ProviderResult<Observed<Option<CloudObject>>> {
        let id = ObjectId(request.id.to_string());
        let seen = self.find_own(ObjectKind::Image, marks(request), Some(&id)).await?;
        Ok(Observed { sequence: seen.sequence, fact: at_most_one(seen.fact, "image")? })
    }

    async fn create_image(&self, request: &ImageRequest) -> ProviderResult<CloudObject> {
        let source = match &request.server {
            Some(server) => Some(self.machine(server).await?),
            None => None,
        };
        let body = Body::Image(ImageBody { owner: Some(request.organization), source, size_gib: 0 });
        let tags = [(TENANT_TAG.to_owned(), request.organization.to_string())].into();
        let object = NewObject { name: request.name.clone(), marks: Some(marks(request)), tags, body };
        self.change(Call::Create { object }).await
    }

    pub async fn delete_image(&self, request: &ImageRequest) -> ProviderResult<Deletion> {
        let Some(image) = self.look_at_image(request).await?.fact else { return Ok(Deletion::Absent) };
        if image.state != ObjectState::Deleting {
            self.take_away(Call::Delete { kind: ObjectKind::Image, id: image.id }).await?;
        }
        let left = self.look_at_image(request).await?.fact;
        Ok(if left.is_none() { Deletion::Absent } else { Deletion::Underway })
    }
}

pub(super) fn fact(image: &CloudObject) -> ImageFact {
    let (status, trouble) = match image.state {
        ObjectState::Building => (ImageStatus::Creating, None),
        ObjectState::Active => (ImageStatus::Ready, None),
        ObjectState::Error => (ImageStatus::Failed, Some("the cloud could not make the image")),
        ObjectState::Deleting => (ImageStatus::Failed, Some("the image is being removed")),
    };
    let size_gib = image.image().map_or(0, |image| image.size_gib);
    let mut digest = Fingerprint::new();
    digest.head(image);
    digest.number(size_gib);
    ImageFact { status, size_gib, trouble: trouble.map(str::to_owned), fingerprint: digest.value() }
}
