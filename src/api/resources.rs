//! What handlers do alike, whatever kind they serve: list, show, create, replace, delete.
//!
//! A kind says how it is shown ([`Surface`]) and what a request means for the store; finding the resource, asking for
//! permission, leaving a trail, trying again against other writers and naming who stands in the way are here.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::access::{UPDATE_TRIES_MAX, endpoint_in, permitted, read_modify_write, readable_in, scope_of};
use super::context::Trail;
use super::error::{ApiError, Failure, deleting_text};
use super::etag::{EntityTag, Tagged};
use super::extract::QueryElements;
use super::paging::{self, Paging};
use super::wire::{has_tags, tag_filter};
use super::{Api, intent, list};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation};
use crate::model::edge::Holder;
use crate::model::ids::{Key, OrganizationId};
use crate::model::metadata::ApiVersion;
use crate::model::record::{CorruptRecord, Record, Resource, ResourceKind};
use crate::store::{Batch, Committed, Filter, Precondition, Refusal, StoreError};

/// How many users a refusal names: enough to know where to look, not a list to page through.
const HOLDERS_NAMED_MAX: usize = 3;

/// A kind as clients read it.
pub trait Surface: Serialize + Sized + Send + 'static {
    type Kind: ResourceKind;
    const ENDPOINT: Endpoint;
    /// What the contract calls an update of something that is being deleted.
    const LATE_UPDATE: Failure = Failure::InvalidRequest;
    /// Which version of the surface it is shown on.
    const VERSION: ApiVersion = ApiVersion::V2;

    fn of(record: &Record) -> Result<Self, CorruptRecord>;

    /// Who has it, so that it cannot be deleted, besides those that refer to it.
    fn held_by(_record: &Record) -> Result<Option<Key>, CorruptRecord> {
        Ok(None)
    }

    /// What must not be referred to either, for it to be deleted: somebody who works for it alone.
    fn also_unreferenced(_record: &Record) -> Result<Option<Key>, CorruptRecord> {
        Ok(None)
    }

    /// What goes when it has gone, although it does not own it: that must not be protected either.
    fn goes_along(_record: &Record) -> Result<Option<Key>, CorruptRecord> {
        Ok(None)
    }
}

/// A full replacement that follows the rules of its form.
#[async_trait]
pub trait Replacement: Sync {
    type Surface: Surface;

    /// What it means for what is stored, or why it cannot be.
    async fn batch(
        &self,
        asked: Asked<'_>,
        stored: &Resource<<Self::Surface as Surface>::Kind>,
    ) -> Result<Batch, ApiError>;
}

/// Everything that matches the query and may be read. `filters` are the parameters that the kind knows.
pub async fn listed<R: Surface>(
    api: &Api,
    caller: Caller,
    query: &QueryElements,
    filters: &[&str],
) -> Result<Response, ApiError> {
    query.only(&[filters, &paging::PARAMETERS].concat())?;
    let paging = Paging::of(api, query)?;
    let tags = query.texts("tag").map(tag_filter).collect::<Result<Vec<_>, _>>()?;
    let asked = query.values::<OrganizationId>("organizationID")?;
    let filter = Filter {
        organizations: within(asked, caller.acl().organizations_readable(R::ENDPOINT)),
        projects: query.values("projectID")?,
        regions: query.values("regionID")?,
        networks: query.values("networkID")?,
        ..Filter::of(R::Kind::KIND)
    };
    if filter.organizations.as_ref().is_some_and(Vec::is_empty) {
        return Ok(list::empty());
    }
    let wanted = move |record: &Record| {
        let scope = scope_of(&record.metadata.placement);
        record.metadata.api_version == R::VERSION
            && has_tags(record, &tags)
            && caller.allows(R::ENDPOINT, Operation::Read, scope)
    };
    // One damaged record does not cost the others their list; the store reports it as quarantined.
    let show = |record: &Record| R::of(record).inspect_err(|error| tracing::error!(%error, "left out of a list")).ok();
    if let Some(paging) = paging {
        return paging.answer(api, &filter, query, wanted, show).await;
    }
    let show = move |record: &Record| wanted(record).then(|| show(record)).flatten();
    list::streamed(Arc::clone(&api.store), filter, show).await
}

/// What was asked for, within what may be read. `None` is everything.
fn within(asked: Option<Vec<OrganizationId>>, readable: Option<Vec<OrganizationId>>) -> Option<Vec<OrganizationId>> {
    match (asked, readable) {
        (Some(asked), Some(readable)) => Some(asked.into_iter().filter(|id| readable.contains(id)).collect()),
        (asked, readable) => asked.or(readable),
    }
}

/// One resource, with the tag of the state that it was read in.
pub type Shown<R> = Tagged<Json<R>>;

pub async fn shown<R: Surface>(api: &Api, caller: &Caller, key: Key) -> Result<Shown<R>, ApiError> {
    let record = readable_in(api, caller, (R::ENDPOINT, R::VERSION), key).await?;
    Ok(Tagged(EntityTag::of(&record), Json(R::of(&record)?)))
}

/// An answer that carries a secret: nobody on its way may keep it, and it is not given a second time.
pub fn secret<T: Serialize>(status: StatusCode, body: T) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// A change that somebody asks for.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub api: &'a Api,
    pub caller: &'a Caller,
    pub trail: &'a Trail,
}

impl Asked<'_> {
    /// The resource that a change is about, audited with its scope, if the caller may read it and may do this.
    pub async fn resolved<R: Surface>(
        &self,
        key: Key,
        (endpoint, operation): (Endpoint, Operation),
    ) -> Result<Arc<Record>, ApiError> {
        let record = readable_in(self.api, self.caller, (R::ENDPOINT, R::VERSION), key).await?;
        self.trail.scope(record.metadata.placement);
        permitted(self.caller, endpoint, operation, scope_of(&record.metadata.placement))?;
        Ok(record)
    }

    /// Answers a creation that was committed.
    pub fn created<R: Surface>(&self, committed: &Committed, key: Key) -> Result<Response, ApiError> {
        self.trail.resource(key);
        Ok((StatusCode::CREATED, written::<R>(committed, key)?).into_response())
    }

    /// Replaces what is stored, again when another writer came in between.
    pub async fn updated<U: Replacement>(self, key: Key, replacement: &U) -> Result<Response, ApiError> {
        self.trail.resource(key);
        let planned = || async {
            let record = self.resolved::<U::Surface>(key, (U::Surface::ENDPOINT, Operation::Update)).await?;
            if record.metadata.is_deleting() {
                return Err(ApiError::new(U::Surface::LATE_UPDATE, deleting_text(key.kind)));
            }
            replacement.batch(self, &record.open()?).await
        };
        let committed = read_modify_write(self.api, planned).await?;
        Ok((StatusCode::ACCEPTED, written::<U::Surface>(&committed, key)?).into_response())
    }

    /// Asks for the end of something that nobody uses. Asked already, or gone in the meantime, is fine.
    pub async fn deleted<R: Surface>(&self, key: Key) -> Result<StatusCode, ApiError> {
        self.deleted_provided::<R>(key, Vec::new()).await
    }

    /// The same, if this holds as well.
    pub async fn deleted_provided<R: Surface>(
        &self,
        key: Key,
        provided: Vec<Precondition>,
    ) -> Result<StatusCode, ApiError> {
        self.trail.resource(key);
        for _ in 0..UPDATE_TRIES_MAX {
            let record = self.resolved::<R>(key, (R::ENDPOINT, Operation::Delete)).await?;
            if record.metadata.is_deleting() {
                return Ok(StatusCode::ACCEPTED);
            }
            if let Some(holder) = R::held_by(&record)? {
                return Err(self.in_use(&record, &[Holder::Resource(holder)]).await);
            }
            // Whoever takes hold of it in between has written it.
            let unchanged = Precondition::Unchanged { key, revision: record.revision };
            let batch = intent::deletion(key, self.api.ambient.now()).provided(unchanged);
            let also = R::also_unreferenced(&record)?.map(Precondition::Unreferenced);
            let along = R::goes_along(&record)?.map(Precondition::Unprotected);
            let more = also.into_iter().chain(along).chain(provided.iter().cloned());
            let batch = more.fold(batch, Batch::provided);
            return match self.api.store.commit(batch).await {
                Ok(_) | Err(StoreError::Refused(Refusal::Missing(_) | Refusal::Deleting(_))) => {
                    Ok(StatusCode::ACCEPTED)
                }
                Err(StoreError::Refused(Refusal::InUse { holders, .. })) => Err(self.in_use(&record, &holders).await),
                Err(StoreError::Refused(Refusal::Conflict(_))) => continue,
                Err(error) => Err(error.into()),
            };
        }
        Err(ApiError::unavailable())
    }

    /// Says who stands in the way, as far as the caller may know them.
    async fn in_use(&self, record: &Record, holders: &[Holder]) -> ApiError {
        let (mut named, mut more) = (Vec::new(), "");
        for holder in holders {
            if self.may_know(record, holder).await {
                if named.len() == HOLDERS_NAMED_MAX {
                    more = " and others";
                    break;
                }
                named.push(holder.to_string());
            }
        }
        let by = if named.is_empty() { String::new() } else { format!(" by {}{more}", named.join(", ")) };
        ApiError::forbidden(format!("the {} is in use{by} and cannot be deleted", record.key.kind.noun()))
    }

    /// May the caller be told who uses the record? A resource of ours may be named to whoever may read it; one of
    /// another service to whoever may read references.
    pub async fn may_know(&self, target: &Record, holder: &Holder) -> bool {
        let (scope, version) = (scope_of(&target.metadata.placement), target.metadata.api_version);
        let may_read_references = || self.caller.allows(Endpoint::NetworksV2References, Operation::Read, scope);
        match holder {
            Holder::External(_) => may_read_references(),
            // Another service's, where we have none of that id.
            Holder::Resource(key)
                if key.kind.may_be_elsewhere() && matches!(self.api.store.get(*key).await, Ok(None)) =>
            {
                may_read_references()
            }
            Holder::Resource(key) => match endpoint_in(key.kind, version) {
                Some(endpoint) => readable_in(self.api, self.caller, (endpoint, version), *key).await.is_ok(),
                None => false,
            },
        }
    }
}

/// The resource as the commit left it: a read-your-writes answer without a read.
pub fn written<R: Surface>(committed: &Committed, key: Key) -> Result<Shown<R>, ApiError> {
    let record = committed.records.iter().find(|record| record.key == key);
    let record = record.ok_or_else(|| ApiError::internal(&"a commit did not return what it wrote"))?;
    Ok(Tagged(EntityTag::of(record), Json(R::of(record)?)))
}
