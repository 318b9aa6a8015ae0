//! What accepting a request about a server means for the store. Pure: times and ids are handed in.

use jiff::Timestamp;

use super::wire::{AcceptedCreate, AcceptedUpdate};
use crate::api::intent::{Author, Revision, insert};
use crate::model::edge::Holder;
use crate::model::ids::{ImageId, Incarnation, Key, OperationId, SecurityGroupId, ServerId, SshCertificateAuthorityId};
use crate::model::metadata::{Metadata, Placement};
use crate::model::operation::{Operation, OperationSpec, Verb};
use crate::model::record::Resource;
use crate::model::server::{Server, ServerSpec};
use crate::store::{Batch, Precondition, Write};

/// A new server in the place of its network, which owns it. It refers to everything that it uses, the network
/// included, so that none of it can be deleted before the server is.
#[must_use]
pub fn creation(
    accepted: &AcceptedCreate,
    author: &Author,
    placement: Placement,
    (id, incarnation): (ServerId, Incarnation),
) -> Batch {
    let network = accepted.network.key();
    let metadata = Metadata { owner: Some(network), ..author.metadata(&accepted.metadata, incarnation, placement) };
    let groups = accepted.spec.security_groups().into_iter().map(SecurityGroupId::key);
    let authority = accepted.spec.ssh_certificate_authority.map(SshCertificateAuthorityId::key);
    let images = accepted.spec.own_images.iter().copied().map(ImageId::key);
    let used = std::iter::once(network).chain(groups).chain(authority).chain(images).collect::<Vec<_>>();
    let mut batch = Batch::of(vec![insert::<Server>(id.0, metadata, &accepted.spec)]);
    batch.writes.extend(used.iter().map(|target| refer(*target, id.key())));
    used.into_iter().fold(batch, |batch, target| batch.provided(Precondition::Live(target)))
}

fn refer(target: Key, server: Key) -> Write {
    Write::AddReference { target, holder: Holder::Resource(server) }
}

/// What the server would be. What was fixed at creation is carried over; what it may still be on stays held.
#[must_use]
pub fn updated_spec(stored: &Resource<Server>, accepted: &AcceptedUpdate, is_own_image: bool) -> ServerSpec {
    let mut own_images = stored.spec.own_images.clone();
    if accepted.image != stored.spec.image {
        own_images = stored.spec.images_held(&stored.detail);
        if is_own_image && !own_images.contains(&accepted.image) {
            own_images.push(accepted.image);
        }
    }
    ServerSpec {
        image: accepted.image,
        networking: accepted.networking.clone(),
        user_data: accepted.user_data.clone(),
        own_images,
        ..stored.spec.clone()
    }
}

/// Refers to what is newly used before it is used. References on what is used no longer are the actor's to drop, when
/// the cloud's server has let go of it.
#[must_use]
pub fn update(
    stored: &Resource<Server>,
    (accepted, spec): (&AcceptedUpdate, &ServerSpec),
    subject: &str,
    now: Timestamp,
) -> Batch {
    // Tags go to the cloud with a server.
    let is_news = *spec != stored.spec || accepted.metadata.tags != stored.metadata.tags;
    let before = stored.spec.security_groups();
    let added = spec.security_groups().into_iter().filter(|group| !before.contains(group)).map(SecurityGroupId::key);
    let image = Some(spec.image).filter(|image| *image != stored.spec.image && spec.own_images.contains(image));
    let added = added.chain(image.map(ImageId::key)).collect::<Vec<_>>();
    let mut writes = added.iter().map(|target| refer(*target, stored.key)).collect::<Vec<_>>();
    writes.push(Revision { metadata: &accepted.metadata, subject, now, is_news }.write(stored, spec));
    let batch = Batch::of(writes).provided(Precondition::Live(stored.key));
    added.into_iter().fold(batch, |batch, target| batch.provided(Precondition::Live(target)))
}

/// A verb, written down where the server's actor finds it.
#[must_use]
pub fn operation(
    server: &Resource<Server>,
    (verb, expires): (Verb, Timestamp),
    author: &Author,
    (id, incarnation): (OperationId, Incarnation),
) -> Batch {
    let metadata = Metadata {
        owner: Some(server.key),
        principal: author.principal.clone(),
        ..Metadata::new(incarnation, "operation", server.metadata.placement, &author.subject, author.now)
    };
    let spec = OperationSpec { target: server.key, verb, expires };
    Batch::of(vec![insert::<Operation>(id.0, metadata, &spec)]).provided(Precondition::Live(server.key))
}
