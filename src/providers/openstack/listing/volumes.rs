//! Volumes, project by project.

use uuid::Uuid;

use super::super::session::Session;
use super::super::volume_plan::{VOLUME_PREFIX, VolumeBody};
use super::{Line, Look, Source, Turned};
use crate::model::ids::{Key, Kind};
use crate::providers::call::Fact;
use crate::providers::pool::Service;
use crate::providers::{Listed, Listing, Observed, ProviderResult, Sequence};

impl Line for VolumeBody {
    fn id(&self) -> &str {
        &self.id
    }
    fn of(&self) -> Option<Uuid> {
        Self::of(self).map(|id| id.0)
    }
}

impl Session<'_> {
    pub(super) async fn list_volumes(&self, look: Look<'_>) -> ProviderResult<Observed<Listing<Listed>>> {
        let Some(place) = self.place(look, Service::BlockStorage).await? else { return Ok(Listing::nothing()) };
        let source = Source::new(Service::BlockStorage, "volumes/detail", "list-volumes");
        let source = source.with("name", look.name(VOLUME_PREFIX));
        let page: Turned<VolumeBody> = self.turn(look, &place, source).await?;
        let sequence = page.sequence;
        Ok(page.told(|volume| listed_volume(&volume, sequence)))
    }
}

/// Whose server has it is for its actor to find, when it looks.
fn listed_volume(volume: &VolumeBody, sequence: Sequence) -> Option<Listed> {
    let (id, incarnation) = (Line::of(volume)?, volume.incarnation()?);
    let fact = volume.fact(None, None);
    let fingerprint = fact.fingerprint;
    let fact = Fact::Volume(Observed { sequence, fact });
    Some(Listed { key: Key::new(Kind::Volume, id), incarnation, fingerprint, fact })
}
