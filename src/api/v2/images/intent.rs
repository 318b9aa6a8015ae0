//! What accepting a request about an image means for the store. Pure: times and ids are handed in.

use crate::api::intent::{Author, insert};
use crate::api::wire::AcceptedMetadata;
use crate::model::edge::Holder;
use crate::model::ids::{ImageId, Incarnation, OrganizationId, RegionId, ServerId};
use crate::model::image::{IMAGES_MAX, Image, ImageSource, ImageSpec};
use crate::model::metadata::{Metadata, Placement, Tag};
use crate::store::{Batch, Precondition, Write};

/// Tags that begin so say where an image comes from. Only we say that.
const OWN_TAGS: &str = "images.unikorn-cloud.org:";

/// Where an image is to be: an organization's own, in a region, beside all projects.
#[derive(Clone, Copy, Debug)]
pub struct Where {
    pub organization: OrganizationId,
    pub region: RegionId,
}

impl Where {
    #[must_use]
    pub fn placement(self) -> Placement {
        Placement { organization: Some(self.organization), region: Some(self.region), ..Placement::default() }
    }
}

/// A new image of an organization, which owns it. It takes one of the places that the organization has for images; a
/// snapshot refers to its server, so that this cannot be deleted before its disk is saved.
#[must_use]
pub fn creation(
    (accepted, spec): (&AcceptedMetadata, &ImageSpec),
    author: &Author,
    place: Where,
    (id, incarnation): (ImageId, Incarnation),
) -> Batch {
    let accepted = AcceptedMetadata { tags: Some(tags(accepted, spec, place.organization)), ..accepted.clone() };
    let owner = place.organization.key();
    let metadata = Metadata { owner: Some(owner), ..author.metadata(&accepted, incarnation, place.placement()) };
    let pool = format!("image/{}", place.organization);
    let batch = Batch::of(vec![
        insert::<Image>(id.0, metadata, spec),
        Write::Claim { pool, ranges: vec![(1, IMAGES_MAX)], holder: id.key() },
    ]);
    let mut batch = batch.provided(Precondition::Live(owner)).provided(Precondition::Live(place.region.key()));
    if let ImageSource::Snapshot { server, .. } = spec.source {
        let target = ServerId::key(server);
        batch.writes.push(Write::AddReference { target, holder: Holder::Resource(id.key()) });
        batch = batch.provided(Precondition::Live(target));
    }
    batch
}

/// What the client said, and where the image comes from.
fn tags(accepted: &AcceptedMetadata, spec: &ImageSpec, organization: OrganizationId) -> Vec<Tag> {
    let source = match spec.source {
        ImageSource::Import { .. } => "import",
        ImageSource::Snapshot { .. } => "snapshot",
    };
    let said = accepted.tags.iter().flatten().filter(|tag| !tag.name.starts_with(OWN_TAGS)).cloned();
    let own = [("source", source.to_owned()), ("organization-id", organization.to_string())];
    said.chain(own.map(|(name, value)| Tag { name: format!("{OWN_TAGS}{name}"), value })).collect()
}
