//! An image's life.
//!
//! ```text
//!   import   ──▶ made in the cloud, under our id ──▶ the cloud fetches it ──▶ Done
//!   snapshot ──▶ the server's disk is copied ──▶ Done, and the server is let go
//!                                └── failed, refused, lost ──▶ parked until it is deleted; the server is let go
//!   deleting ──▶ servers that were made from it are gone ──▶ confirmed absent ──▶ gone
//! ```
//!
//! A snapshot holds on to its server until the disk is saved, so that nobody deletes it under it. A server that is to go
//! all the same (with its project) waits; a snapshot that the cloud refuses then gives up, so that it can.

use super::decision::{Decision, Effect, Step, View, decide, dispose};
use super::kind::{Behaviour, Health};
use crate::graph::outcome::Outcome;
use crate::model::condition::Reason;
use crate::model::ids::{ImageId, Key, ServerId};
use crate::model::image::{Image, ImageDetail, ImageFailure, ImageSource, ImageStatus};
use crate::model::record::{CorruptRecord, Document, Record, Resource};
use crate::model::server::{Server, ServerDetail, ServerPhase};
use crate::providers::call::{CallName, Fact, ProviderCall};
use crate::providers::{ImageRequest, ProviderError, ServerRequest};

impl Behaviour for Image {
    const IS_MONITORED: bool = true;

    /// Told when the server moves, so that one that goes does not wait in vain.
    fn gates(resource: &Resource<Self>) -> Vec<Key> {
        source(resource).map(ServerId::key).into_iter().collect()
    }

    fn references(resource: &Resource<Self>) -> Option<Vec<Key>> {
        Some(Self::gates(resource))
    }

    /// Only the way down: the way up is [`Making`].
    fn step(resource: &Resource<Self>) -> Result<Step, CorruptRecord> {
        let request = request(resource, None)?;
        Ok(Step::Provider {
            make: Box::new(ProviderCall::ConvergeImage(request.clone())),
            unmake: Box::new(ProviderCall::DeleteImage(request)),
        })
    }

    fn decide(resource: &Resource<Self>, view: &View<'_>) -> Result<Decision, CorruptRecord> {
        if resource.metadata.is_deleting() || resource.metadata.paused {
            return Ok(decide(&Self::step(resource)?, view));
        }
        Making { resource, detail: &resource.detail, view }.next()
    }

    fn absorb(detail: &mut ImageDetail, fact: &Fact) -> Health {
        let Fact::Image(seen) = fact else { return Health::Healthy };
        // What has failed, for whatever reason, stays so.
        if detail.failure.is_none() {
            detail.status = Some(seen.fact.status);
        }
        detail.size_gib = Some(seen.fact.size_gib);
        detail.fingerprint = Some(seen.fact.fingerprint);
        Health::unless(seen.fact.trouble.clone())
    }

    fn is_realised(detail: &ImageDetail) -> bool {
        detail.status.is_some()
    }

    fn has_followed(detail: &ImageDetail, _generation: u64) -> bool {
        detail.is_settled()
    }

    fn fingerprint(detail: &ImageDetail) -> Option<u64> {
        detail.fingerprint
    }
}

/// The server that is still needed.
fn source(resource: &Resource<Image>) -> Option<ServerId> {
    match resource.spec.source {
        ImageSource::Snapshot { server, .. } if !resource.detail.is_settled() => Some(server),
        _ => None,
    }
}

type Decided = Result<Decision, CorruptRecord>;

#[expect(clippy::unnecessary_wraps, reason = "reads as what it stands beside")]
const fn conclude(outcome: Outcome) -> Decided {
    Ok(Decision::Conclude(outcome))
}

struct Making<'a> {
    resource: &'a Resource<Image>,
    detail: &'a ImageDetail,
    view: &'a View<'a>,
}

impl Making<'_> {
    fn next(&self) -> Decided {
        if let Some(failure) = self.detail.failure {
            let (reason, message) = (Reason::ProviderCreateFailed, failure.text().to_owned());
            return conclude(Outcome::Terminal { reason, message });
        }
        let source = source(self.resource).map(|server| self.server(server));
        match self.view.results.get(&CallName::ConvergeImage) {
            None => match source {
                Some(None) => self.fail(ImageFailure::SourceGone),
                Some(Some(server)) => self.make(Some(server)),
                None => self.make(None),
            },
            Some(Err(error)) => self.after_error(error, source.flatten()),
            Some(Ok(_)) => self.after_look(),
        }
    }

    fn make(&self, server: Option<&Record>) -> Decided {
        let server = server.map(|record| ServerRequest::of(&record.open::<Server>()?, None)).transpose()?;
        let call = ProviderCall::ConvergeImage(request(self.resource, server)?);
        Ok(Decision::Run(vec![Effect::Call(Box::new(call))]))
    }

    /// The very server that was asked for: one that came after it, with its id, is another one.
    fn server(&self, server: ServerId) -> Option<&Record> {
        let ImageSource::Snapshot { incarnation, .. } = &self.resource.spec.source else { return None };
        let record = self.view.dependencies.get(&server.key())?;
        (record.metadata.incarnation == *incarnation).then_some(&**record)
    }

    fn after_error(&self, error: &ProviderError, server: Option<&Record>) -> Decided {
        let has_failed = |server: &Record| {
            let detail = server.detail.read::<ServerDetail>().unwrap_or_default();
            server.metadata.is_deleting() || detail.phase == ServerPhase::Error
        };
        match error {
            ProviderError::NotFound if self.detail.is_settled() => self.fail(ImageFailure::Lost),
            ProviderError::NotFound if server.is_some() => self.fail(ImageFailure::SourceGone),
            // What is busy is waited for; what has failed, or is to go, will not become otherwise.
            ProviderError::Conflict(_) if server.is_some_and(has_failed) => self.fail(ImageFailure::SourceGone),
            ProviderError::Rejected(_) => self.fail(ImageFailure::Refused),
            error => conclude(dispose(error)),
        }
    }

    fn after_look(&self) -> Decided {
        match self.detail.status {
            // Written down first: what is still held follows from what is on record.
            Some(ImageStatus::Ready) if self.view.record.detail != *self.view.detail => Ok(note(self.detail)),
            Some(ImageStatus::Ready) => conclude(Outcome::Done),
            Some(ImageStatus::Failed) => self.fail(ImageFailure::NotMade),
            _ => conclude(Outcome::on_cloud("the cloud is making the image", Reason::Provisioning)),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "reads as what it stands beside")]
    fn fail(&self, failure: ImageFailure) -> Decided {
        let status = Some(ImageStatus::Failed);
        Ok(note(&ImageDetail { status, failure: Some(failure), ..self.detail.clone() }))
    }
}

fn note(detail: &ImageDetail) -> Decision {
    Decision::Run(vec![Effect::Note { detail: Document::of(detail), statement: None }])
}

fn request(resource: &Resource<Image>, server: Option<ServerRequest>) -> Result<ImageRequest, CorruptRecord> {
    let organization = resource.metadata.placement.organization;
    Ok(ImageRequest {
        id: ImageId(resource.key.id),
        incarnation: resource.metadata.incarnation,
        organization: organization.ok_or_else(|| CorruptRecord {
            key: resource.key,
            part: "placement",
            cause: "the organization is missing".to_owned(),
        })?,
        name: resource.metadata.name.clone(),
        spec: resource.spec.clone(),
        server: server.map(Box::new),
        detail: resource.detail.clone(),
    })
}
