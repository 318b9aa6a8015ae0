//! What handlers do alike, whatever kind they serve: list, show, create, replace, delete.
//!
//! A kind says how it is shown ([`Surface`]) and what a request means for the store; finding the resource, asking for
//! permission, leaving a trail, trying again against other writers and naming who stands in the way are here.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::access::{endpoint_of, permitted, read_modify_write, readable, scope_of};
use super::context::Trail;
use super::error::{ApiError, deleting_text};
use super::extract::QueryElements;
use super::wire::{has_tags, tag_filter};
use super::{Api, intent, list};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::edge::Holder;
use crate::model::ids::{Key, OrganizationId};
use crate::model::record::{CorruptRecord, Record, Resource, ResourceKind};
use crate::store::{Batch, Committed, Filter, Refusal, StoreError};

/// How many users a refusal names: enough to know where to look, not a list to page through.
const HOLDERS_NAMED_MAX: usize = 3;

/// A kind as clients read it.
pub trait Surface: Serialize + Sized + Send + 'static {
    type Kind: ResourceKind;
    const ENDPOINT: Endpoint;

    fn of(record: &Record) -> Result<Self, CorruptRecord>;
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
    query.only(filters)?;
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
    let show = move |record: &Record| {
        let scope = scope_of(&record.metadata.placement);
        let wanted = has_tags(record, &tags) && caller.allows(R::ENDPOINT, Operation::Read, scope);
        if !wanted {
            return None;
        }
        // One damaged record does not cost the others their list; the store reports it as quarantined.
        R::of(record).inspect_err(|error| tracing::error!(%error, "left out of a list")).ok()
    };
    list::streamed(Arc::clone(&api.store), filter, show).await
}

/// What was asked for, within what may be read. `None` is everything.
fn within(asked: Option<Vec<OrganizationId>>, readable: Option<Vec<OrganizationId>>) -> Option<Vec<OrganizationId>> {
    match (asked, readable) {
        (Some(asked), Some(readable)) => Some(asked.into_iter().filter(|id| readable.contains(id)).collect()),
        (asked, readable) => asked.or(readable),
    }
}

pub async fn shown<R: Surface>(api: &Api, caller: &Caller, key: Key) -> Result<Json<R>, ApiError> {
    let record = readable(api, caller, R::ENDPOINT, key).await?;
    Ok(Json(R::of(&record)?))
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
        let record = readable(self.api, self.caller, R::ENDPOINT, key).await?;
        self.trail.scope(record.metadata.placement);
        permitted(self.caller, endpoint, operation, scope_of(&record.metadata.placement))?;
        Ok(record)
    }

    /// Answers a creation that was committed.
    pub fn created<R: Surface>(&self, committed: &Committed, key: Key) -> Result<Response, ApiError> {
        self.trail.resource(key);
        Ok((StatusCode::CREATED, Json(written::<R>(committed, key)?)).into_response())
    }

    /// Replaces what is stored, again when another writer came in between.
    pub async fn updated<U: Replacement>(self, key: Key, replacement: &U) -> Result<Response, ApiError> {
        self.trail.resource(key);
        let planned = || async {
            let record = self.resolved::<U::Surface>(key, (U::Surface::ENDPOINT, Operation::Update)).await?;
            if record.metadata.is_deleting() {
                return Err(ApiError::invalid(deleting_text(key.kind)));
            }
            replacement.batch(self, &record.open()?).await
        };
        let committed = read_modify_write(self.api, planned).await?;
        Ok((StatusCode::ACCEPTED, Json(written::<U::Surface>(&committed, key)?)).into_response())
    }

    /// Asks for the end of something that nobody uses. Asked already, or gone in the meantime, is fine.
    pub async fn deleted<R: Surface>(&self, key: Key) -> Result<StatusCode, ApiError> {
        self.trail.resource(key);
        let record = self.resolved::<R>(key, (R::ENDPOINT, Operation::Delete)).await?;
        if record.metadata.is_deleting() {
            return Ok(StatusCode::ACCEPTED);
        }
        match self.api.store.commit(intent::deletion(key, self.api.ambient.now())).await {
            Ok(_) | Err(StoreError::Refused(Refusal::Missing(_) | Refusal::Deleting(_))) => Ok(StatusCode::ACCEPTED),
            Err(StoreError::Refused(Refusal::InUse { holders, .. })) => Err(self.in_use(&record, &holders).await),
            Err(error) => Err(error.into()),
        }
    }

    /// Says who stands in the way, as far as the caller may know them.
    async fn in_use(&self, record: &Record, holders: &[Holder]) -> ApiError {
        let mut named = Vec::new();
        for holder in holders {
            if named.len() == HOLDERS_NAMED_MAX {
                break;
            }
            if self.may_know(scope_of(&record.metadata.placement), holder).await {
                named.push(holder.to_string());
            }
        }
        let by = if named.is_empty() { String::new() } else { format!(" by {}", named.join(", ")) };
        ApiError::forbidden(format!("the {} is in use{by} and cannot be deleted", record.key.kind.noun()))
    }

    /// A resource of ours may be named to whoever may read it; one of another service to whoever may read references.
    async fn may_know(&self, scope: Scope, holder: &Holder) -> bool {
        match holder {
            Holder::External(_) => self.caller.allows(Endpoint::NetworksV2References, Operation::Read, scope),
            Holder::Resource(key) => match endpoint_of(key.kind) {
                Some(endpoint) => readable(self.api, self.caller, endpoint, *key).await.is_ok(),
                None => false,
            },
        }
    }
}

/// The resource as the commit left it: a read-your-writes answer without a read.
fn written<R: Surface>(committed: &Committed, key: Key) -> Result<R, ApiError> {
    let record = committed.records.iter().find(|record| record.key == key);
    let record = record.ok_or_else(|| ApiError::internal(&"a commit did not return what it wrote"))?;
    Ok(R::of(record)?)
}
