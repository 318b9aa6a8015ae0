//! How much an organization may use, and does.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::access::{entered, in_live};
use crate::api::context::Trail;
use crate::api::error::ApiError;
use crate::api::extract::{Authenticated, JsonBody, PathElements};
use crate::api::openapi::{BodyErrors, CommonErrors};
use crate::api::{Api, Shared};
use crate::identity::acl::{Endpoint, Operation};
use crate::model::ids::OrganizationId;
use crate::model::quota::{QuotaFormat, QuotaKind};
use crate::store::{Precondition, Usage, Write};

const ENDPOINT: Endpoint = Endpoint::Quotas;

/// What clients with signed numbers can read.
const QUANTITY_MAX: u64 = i64::MAX as u64;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(get_quotas, set_quotas))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = quotaRead)]
struct QuotaRead {
    kind: &'static str,
    quantity: u64,
    used: u64,
    free: u64,
    committed: u64,
    reserved: u64,
    display_name: &'static str,
    description: &'static str,
    default: u64,
    format: QuotaFormat,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = quotasRead)]
struct QuotasRead {
    quotas: Vec<QuotaRead>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = quotaWrite)]
struct QuotaWrite {
    kind: String,
    #[schema(maximum = 9_223_372_036_854_775_807_i64)]
    quantity: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = quotasWrite)]
struct QuotasWrite {
    quotas: Vec<QuotaWrite>,
}

impl QuotaRead {
    fn of(usage: &Usage) -> Self {
        let (kind, used) = (usage.kind, usage.used);
        Self {
            kind: kind.word(),
            quantity: usage.limit,
            used: used.total(),
            free: usage.limit.saturating_sub(used.total()),
            committed: used.committed,
            reserved: used.reserved,
            display_name: kind.display_name(),
            description: kind.description(),
            default: kind.default_limit(),
            format: kind.format(),
        }
    }
}

impl QuotasWrite {
    /// A kind that is left out has its default again.
    fn accept(self) -> Result<BTreeMap<QuotaKind, u64>, ApiError> {
        let mut wanted = BTreeMap::new();
        for quota in self.quotas {
            let kind = QuotaKind::from_word(&quota.kind)
                .ok_or_else(|| ApiError::invalid("quotas names a kind that does not exist"))?;
            if quota.quantity > QUANTITY_MAX || wanted.insert(kind, quota.quantity).is_some() {
                return Err(ApiError::invalid("quotas must name each kind once, with a quantity below 2^63"));
            }
        }
        Ok(QuotaKind::ALL.map(|kind| (kind, wanted.get(&kind).copied().unwrap_or(kind.default_limit()))).into())
    }
}

async fn read(api: &Api, organization: OrganizationId) -> Result<Json<QuotasRead>, ApiError> {
    let usage = api.store.usage(organization).await?;
    Ok(Json(QuotasRead { quotas: usage.iter().map(QuotaRead::of).collect() }))
}

/// List quotas.
#[utoipa::path(
    get, path = "/api/v1/organizations/{organizationID}/quotas", operation_id = "getQuotas", tag = "Quotas",
    params(("organizationID" = uuid::Uuid, Path)),
    responses((status = 200, body = QuotasRead), CommonErrors),
    security(("bearer" = []))
)]
async fn get_quotas(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
) -> Result<Json<QuotasRead>, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Read)).await?;
    read(&api, organization).await
}

/// Set quotas. None can be set below what is used.
#[utoipa::path(
    put, path = "/api/v1/organizations/{organizationID}/quotas", operation_id = "setQuotas", tag = "Quotas",
    params(("organizationID" = uuid::Uuid, Path)), request_body = QuotasWrite,
    responses((status = 200, body = QuotasRead), CommonErrors, BodyErrors),
    security(("bearer" = []))
)]
async fn set_quotas(
    State(api): State<Shared>,
    Authenticated(caller): Authenticated,
    trail: Trail,
    path: PathElements,
    JsonBody(request): JsonBody<QuotasWrite>,
) -> Result<Json<QuotasRead>, ApiError> {
    let organization = entered(&api, &caller, &trail, &path, (ENDPOINT, Operation::Update)).await?;
    trail.operation("quotas");
    trail.resource(organization.key());
    let wanted = request.accept()?;
    let writes = wanted.iter().map(|(&kind, &limit)| Write::Limit { organization, kind, limit }).collect();
    let mut batch = in_live(organization, writes);
    for (&kind, &limit) in &wanted {
        batch = batch.provided(Precondition::UsesAtMost { organization, kind, limit });
    }
    api.store.commit(batch).await?;
    read(&api, organization).await
}
