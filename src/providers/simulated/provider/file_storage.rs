//! Making and unmaking a share: the share, its options, then its attachments, one by one.
//!
//! A share is found by its marks or by the id on record. Its attachments carry the same marks, and each says which
//! network it is for. What a lost answer left is adopted; a second share at the same path, and a second attachment to
//! the same network, the storage system refuses by itself.

use async_trait::async_trait;
use uuid::Uuid;

use super::super::call::{Answer, Call, Change, Row};
use super::super::objects::{Body, CloudObject, Marks, NewObject, ObjectId, ObjectKind, ObjectState};
use super::super::shares::{ShareAttachmentBody, ShareBody, ShareOptions};
use super::fingerprint::Fingerprint;
use super::security_group::removals;
use super::session::{Session, at_most_one, unexpected};
use super::{SimulatedProvider, tags};
use crate::model::file_storage::{
    self, Attachment, AttachmentDetail, PartState, PolicyDetail, SnapshotPolicy, has_repeated,
};
use crate::model::ids::{Key, Kind, ProviderAttachmentId, ProviderFileStorageId};
use crate::providers::call::Fact;
use crate::providers::file_storage::{
    FileStorageClass, FileStorageFact, FileStorageProvisioner, FileStorageRequest, Look,
};
use crate::providers::{CallContext, Deletion, Listed, Listing, Observed, ProviderError, ProviderResult, Sequence};

#[async_trait]
impl FileStorageProvisioner for SimulatedProvider {
    async fn classes(&self, context: &CallContext<'_>) -> ProviderResult<Vec<FileStorageClass>> {
        match self.session(context).read(Call::ListShareClasses).await?.fact {
            Answer::ShareClasses { mut classes } => {
                // Whom something is private to is the operator's to say, not the system's.
                for allowed in classes.iter_mut().filter_map(|class| class.organizations.as_mut()) {
                    allowed.clone_from(&self.settings.file_storage_organizations);
                }
                Ok(classes)
            }
            _ => Err(unexpected()),
        }
    }

    async fn converge(
        &self,
        context: &CallContext<'_>,
        request: &FileStorageRequest,
    ) -> ProviderResult<Observed<FileStorageFact>> {
        self.session(context).converge_share(request).await
    }

    async fn delete(&self, context: &CallContext<'_>, request: &FileStorageRequest) -> ProviderResult<Deletion> {
        self.session(context).delete_share(request).await
    }

    async fn list(
        &self,
        context: &CallContext<'_>,
        only: Option<&[Uuid]>,
        after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>> {
        self.session(context).list(Kind::FileStorage, only, after).await
    }
}

const fn marks(request: &FileStorageRequest) -> Marks {
    Marks { id: request.id.0, incarnation: request.incarnation }
}

fn known_share(request: &FileStorageRequest) -> Option<ObjectId> {
    request.detail.share.as_ref().map(|id| ObjectId(id.0.clone()))
}

fn known_attachments(request: &FileStorageRequest) -> Vec<ObjectId> {
    let known = request.detail.attachments.iter().filter_map(|known| known.attachment.as_ref());
    known.map(|id| ObjectId(id.0.clone())).collect()
}

/// Was it never used, as far as is known?
fn is_untouched(request: &FileStorageRequest, share: &CloudObject) -> bool {
    let is_known = known_share(request).as_ref() == Some(&share.id);
    !is_known || (request.detail.converged == 0 && request.detail.attachments.is_empty())
}

/// A part as it is to be made. The name is for people to read; that of a share is also its path.
fn part(request: &FileStorageRequest, body: Body) -> NewObject {
    let tags = tags(request.organization, request.project);
    NewObject { name: format!("share-{}", request.id), marks: Some(marks(request)), tags, body }
}

impl Session<'_> {
    async fn converge_share(&self, request: &FileStorageRequest) -> ProviderResult<Observed<FileStorageFact>> {
        let known = known_share(request);
        let seen = self.find_own(ObjectKind::Share, marks(request), known.as_ref()).await?;
        let found = match at_most_one(seen.fact, "share")? {
            // A failed beginning: never attached, it cannot have been written to.
            Some(share) if share.state == ObjectState::Error && is_untouched(request, &share) => {
                self.discard(&share).await?;
                None
            }
            found => found,
        };
        let share = match found {
            Some(share) => share,
            None => self.create_share(request).await?,
        };
        let told = |share: &CloudObject, attachments: &[CloudObject], look, setback| {
            let fact = FileStorageFact { setback, ..fact(share, attachments, look)? };
            Ok(Observed { sequence: seen.sequence, fact })
        };
        match share.state {
            ObjectState::Building => return told(&share, &[], Look::Converging, None),
            ObjectState::Deleting => return Err(ProviderError::Conflict("it is being removed".to_owned())),
            ObjectState::Active | ObjectState::Error => {}
        }
        let share = self.with_options(request, share).await?;
        let mut attachments = self.attachments(request, &known_attachments(request)).await?;
        let setback = self.converge_attachments(request, &share.id, &mut attachments).await.err();
        let left = attachments.iter().any(|object| !is_wanted(request, object));
        let look = if left || setback.is_some() { Look::Converging } else { Look::Converged(request.generation) };
        let mut told = told(&share, &attachments, look, setback)?;
        note_refusals(request, &mut told.fact);
        Ok(told)
    }

    async fn create_share(&self, request: &FileStorageRequest) -> ProviderResult<CloudObject> {
        let options = wanted_options(request, 0);
        let share = ShareBody { class: request.spec.class, options, mount_path: None, created: None, usage: None };
        let object = part(request, Body::Share { share: Box::new(share) });
        self.change(Call::Create { object }).await
    }

    async fn with_options(&self, request: &FileStorageRequest, share: CloudObject) -> ProviderResult<CloudObject> {
        let Some(body) = share.share() else { return Err(unexpected()) };
        let wanted = wanted_options(request, body.options.size_bytes);
        if body.options == wanted {
            return Ok(share);
        }
        let change = Change::Share { options: wanted };
        self.change(Call::Update { kind: ObjectKind::Share, id: share.id.clone(), change }).await
    }

    /// Every attachment of this incarnation, each looked at by its id: a list of what is left decides what may go.
    async fn attachments(&self, request: &FileStorageRequest, known: &[ObjectId]) -> ProviderResult<Vec<CloudObject>> {
        let marks = marks(request);
        let mut found = self.find_own(ObjectKind::ShareAttachment, marks, None).await?.fact;
        for known in known {
            self.add_known(ObjectKind::ShareAttachment, known, marks, &mut found).await?;
        }
        Ok(found)
    }

    /// Each on its own: what fails for one network is remembered and does not keep the others from being attached,
    /// unless the cloud does not answer at all. The first failure is reported.
    async fn converge_attachments(
        &self,
        request: &FileStorageRequest,
        share: &ObjectId,
        attachments: &mut Vec<CloudObject>,
    ) -> ProviderResult<()> {
        let mut first = Ok(());
        let surplus = attachments.iter().filter(|object| !is_wanted(request, object)).cloned().collect::<Vec<_>>();
        for object in surplus {
            first = keep_first(first, self.detach(&object, attachments).await)?;
        }
        for wanted in request.spec.attachments() {
            let is_there = attachments.iter().any(|object| is_for(object, wanted));
            if !is_there && request.ready.contains(&wanted.network) {
                first = keep_first(first, self.attach_share(request, share, wanted, attachments).await)?;
            }
        }
        first
    }

    /// What the cloud still shows stays on the list until it has been seen to be gone.
    async fn detach(&self, object: &CloudObject, attachments: &mut Vec<CloudObject>) -> ProviderResult<()> {
        if object.state != ObjectState::Deleting {
            self.take_away(Call::Delete { kind: ObjectKind::ShareAttachment, id: object.id.clone() }).await?;
        }
        let left = self.get(ObjectKind::ShareAttachment, &object.id).await?;
        attachments.retain(|known| known.id != object.id);
        attachments.extend(left);
        Ok(())
    }

    async fn attach_share(
        &self,
        request: &FileStorageRequest,
        share: &ObjectId,
        wanted: &Attachment,
        attachments: &mut Vec<CloudObject>,
    ) -> ProviderResult<()> {
        let network = self.network_of(wanted.network).await?;
        let (share, label, addresses) = (share.clone(), wanted.network, wanted.addresses);
        let export = ShareAttachmentBody { share, network, label, addresses };
        let object = part(request, Body::ShareAttachment { export });
        attachments.push(self.change(Call::Create { object }).await?);
        Ok(())
    }

    /// Takes away everything of this incarnation, doubles included.
    async fn delete_share(&self, request: &FileStorageRequest) -> ProviderResult<Deletion> {
        let attachments = self.attachments(request, &known_attachments(request)).await?;
        if !attachments.is_empty() {
            self.take_all_away(removals(&attachments)).await?;
            let known = attachments.iter().map(|object| object.id.clone()).collect::<Vec<_>>();
            if !self.attachments(request, &known).await?.is_empty() {
                return Ok(Deletion::Underway);
            }
        }
        let known = known_share(request);
        let shares = self.find_own(ObjectKind::Share, marks(request), known.as_ref()).await?.fact;
        let Some(first) = shares.first().map(|share| share.id.clone()) else { return Ok(Deletion::Absent) };
        self.take_all_away(removals(&shares)).await?;
        let left = self.find_own(ObjectKind::Share, marks(request), known.as_ref().or(Some(&first))).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }
}

/// The first of two failures; at once, when the cloud does not answer at all.
fn keep_first(first: ProviderResult<()>, next: ProviderResult<()>) -> ProviderResult<ProviderResult<()>> {
    match next {
        Ok(()) => Ok(first),
        Err(
            error @ (ProviderError::Conflict(_)
            | ProviderError::Rejected(_)
            | ProviderError::NotFound
            | ProviderError::Quota),
        ) => Ok(first.and(Err(error))),
        Err(error) => first.and(Err(error)),
    }
}

/// What is on a share would not fit into a smaller one: one that somebody else made larger stays so.
fn wanted_options(request: &FileStorageRequest, size_bytes: u64) -> ShareOptions {
    ShareOptions {
        size_bytes: request.spec.size_bytes().max(size_bytes),
        root_squash: request.spec.root_squash(),
        policies: request.spec.effective_policies(),
    }
}

fn is_for(object: &CloudObject, wanted: &Attachment) -> bool {
    object.share_attachment().is_some_and(|attachment| attachment.label == wanted.network)
}

/// Is it as asked for, or on its way there?
fn is_wanted(request: &FileStorageRequest, object: &CloudObject) -> bool {
    let Some(attachment) = object.share_attachment() else { return false };
    let wanted = request.spec.attachment(attachment.label);
    matches!(object.state, ObjectState::Building | ObjectState::Active)
        && wanted.is_some_and(|wanted| wanted.addresses == attachment.addresses)
}

const fn part_state(state: ObjectState) -> PartState {
    match state {
        ObjectState::Building => PartState::Building,
        ObjectState::Active => PartState::Active,
        ObjectState::Error => PartState::Failed,
        ObjectState::Deleting => PartState::Removing,
    }
}

/// What is to be told of a share that was seen with its attachments.
fn fact(share: &CloudObject, attachments: &[CloudObject], look: Look) -> ProviderResult<FileStorageFact> {
    let Some(body) = share.share() else { return Err(unexpected()) };
    let mut parts = attachments.iter().filter_map(attachment_detail).collect::<Vec<_>>();
    parts.sort_by_key(|part| part.network);
    if has_repeated(&parts.iter().map(|part| part.network).collect::<Vec<_>>()) {
        return Err(ProviderError::Inconsistent("more than one attachment to one network".to_owned()));
    }
    let policy = |policy: &SnapshotPolicy| PolicyDetail { policy: policy.clone(), state: PartState::Active };
    Ok(FileStorageFact {
        look,
        share: ProviderFileStorageId(share.id.0.clone()),
        state: part_state(share.state),
        mount_path: body.mount_path.clone(),
        size_bytes: body.options.size_bytes,
        policies: body.options.policies.iter().map(policy).collect(),
        usage: body.usage,
        configuration: digest(share, body, &parts, false),
        fingerprint: digest(share, body, &parts, true),
        attachments: parts,
        setback: None,
    })
}

fn attachment_detail(object: &CloudObject) -> Option<AttachmentDetail> {
    let attachment = object.share_attachment()?;
    Some(AttachmentDetail {
        network: attachment.label,
        attachment: Some(ProviderAttachmentId(object.id.0.clone())),
        addresses: attachment.addresses,
        state: part_state(object.state),
    })
}

/// A network that the storage system will not be attached to is told of, too: its user has to do something.
fn note_refusals(request: &FileStorageRequest, fact: &mut FileStorageFact) {
    if !matches!(fact.setback, Some(ProviderError::Rejected(_))) {
        return;
    }
    let missing = request.spec.attachments().iter().filter(|wanted| request.ready.contains(&wanted.network));
    let missing = missing.filter(|wanted| fact.attachments.iter().all(|had| had.network != wanted.network));
    let failed = missing.map(|wanted| AttachmentDetail {
        network: wanted.network,
        attachment: None,
        addresses: wanted.addresses,
        state: PartState::Failed,
    });
    let failed = failed.collect::<Vec<_>>();
    fact.attachments.extend(failed);
    fact.attachments.sort_by_key(|attachment| attachment.network);
}

/// Of what a convergence sets right and, if asked for, of how far it has come. What is being removed is no part of the
/// one: its absence is what was asked for.
fn digest(share: &CloudObject, body: &ShareBody, parts: &[AttachmentDetail], with_states: bool) -> u64 {
    let mut digest = Fingerprint::new();
    digest.text(&share.id.0);
    digest.number(body.options.size_bytes);
    digest.number(body.options.root_squash);
    digest.number(body.options.policies.len() as u64);
    for policy in &body.options.policies {
        // A policy is small, has a form that is fixed because it is stored, and cannot fail to have one.
        digest.text(&serde_json::to_string(policy).unwrap_or_default());
    }
    for part in parts.iter().filter(|part| with_states || part.state != PartState::Removing) {
        digest.text(part.attachment.as_ref().map(|id| id.0.as_str()).unwrap_or_default());
        digest.number(u32::from(part.addresses.start));
        digest.number(u32::from(part.addresses.end));
        digest.number(if with_states { part.state as u64 } else { 0 });
    }
    if with_states {
        digest.head(share);
    }
    digest.value()
}

/// A line of a list. What contradicts itself is for its actor to find, when it looks.
pub(super) fn listed(row: Row, sequence: Sequence) -> Option<Listed> {
    let Row { object, related } = row;
    let marks = object.marks?;
    let fact = fact(&object, &related, Look::Listed).or_else(|_| fact(&object, &[], Look::Listed)).ok()?;
    Some(Listed {
        key: Key::new(Kind::FileStorage, marks.id),
        incarnation: marks.incarnation,
        fingerprint: file_storage::fingerprint(fact.fingerprint, fact.usage.as_ref()),
        fact: Fact::FileStorage(Observed { sequence, fact }),
    })
}
