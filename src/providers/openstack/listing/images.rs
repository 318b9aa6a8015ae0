//! Images of organizations' own: what lies in the service account's project, and what was shared with it.

use uuid::Uuid;

use super::super::image_plan::{IMAGE_KEY, ImageBody};
use super::super::session::Session;
use super::{Line, Look, Source, Turned};
use crate::model::ids::{Key, Kind};
use crate::providers::call::Fact;
use crate::providers::pool::Service;
use crate::providers::{Listed, Listing, Observed, ProviderResult, Sequence};

impl Line for ImageBody {
    fn id(&self) -> &str {
        &self.id
    }
    fn of(&self) -> Option<Uuid> {
        Self::of(self).map(|id| id.0)
    }
}

impl Session<'_> {
    pub(super) async fn list_images(&self, look: Look<'_>) -> ProviderResult<Observed<Listing<Listed>>> {
        let Some(place) = self.place(look, Service::Image).await? else { return Ok(Listing::nothing()) };
        let source = Source::new(Service::Image, "images", "list-own-images").with("visibility", ["shared".to_owned()]);
        let source = source.with(IMAGE_KEY, look.name(""));
        let page: Turned<ImageBody> = self.turn(look, &place, source).await?;
        let sequence = page.sequence;
        Ok(page.told(|image| listed_image(&image, sequence)))
    }
}

fn listed_image(image: &ImageBody, sequence: Sequence) -> Option<Listed> {
    let (id, incarnation) = (Line::of(image)?, image.incarnation()?);
    let fact = image.fact();
    let fingerprint = fact.fingerprint;
    let fact = Fact::Image(Observed { sequence, fact });
    Some(Listed { key: Key::new(Kind::Image, id), incarnation, fingerprint, fact })
}
