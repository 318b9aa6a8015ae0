//! What a change would do, told to whoever asked only that.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::store::StagedStore;
use crate::actors::foresight::{losses, next_effects};
use crate::api::error::ApiError;
use crate::model::ambient::Ambient;
use crate::model::ids::Kind;

/// How many resources' first effects are told. A change touches a handful; a long list would tell nobody more.
const RESOURCES_MAX: usize = 16;

/// The answer to a change with `?dryRun=true` that would be accepted. Nothing was written.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = dryRun)]
pub struct DryRun {
    /// Always true.
    #[serde(rename = "dryRun")]
    is_dry: bool,
    would_answer: WouldAnswer,
    /// What would be written, in order: the kind of write and the kind of resource.
    writes: Vec<String>,
    /// What would be done first to each resource that would be written.
    effects: Vec<ForeseenEffects>,
    /// What would be lost by it, in words.
    losses: Vec<String>,
}

/// The answer that the same request would get without `dryRun`. Ids that are drawn and times will be others.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = dryRunAnswer)]
struct WouldAnswer {
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = dryRunEffects)]
struct ForeseenEffects {
    kind: &'static str,
    /// Not for what users never see.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    first: Vec<String>,
}

pub async fn answer(response: Response, store: &StagedStore, ambient: &Ambient) -> Result<Response, ApiError> {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(|error| ApiError::internal(&error))?.to_bytes();
    // A secret that nobody will ever be let in with is still not shown.
    let carries_secret = parts.headers.get(header::CACHE_CONTROL).is_some_and(|value| value == "no-store");
    let body = if carries_secret { None } else { serde_json::from_slice(&bytes).ok() };
    let staged = store.staged();
    let (mut effects, mut lost) = (Vec::new(), Vec::new());
    for record in staged.last().into_values().flatten().take(RESOURCES_MAX) {
        let first = next_effects(store, &record, ambient.now()).await?;
        let id = (record.key.kind != Kind::Identity).then(|| record.key.id.to_string());
        if let Some(before) = store.base().get(record.key).await? {
            lost.extend(losses(&before, &record)?);
        }
        if !first.is_empty() {
            effects.push(ForeseenEffects { kind: record.key.kind.word(), id, first });
        }
    }
    let answer = DryRun {
        is_dry: true,
        would_answer: WouldAnswer { status: parts.status.as_u16(), body },
        writes: staged.batch.words(),
        effects,
        losses: lost,
    };
    Ok((StatusCode::OK, Json(answer)).into_response())
}
