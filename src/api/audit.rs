//! One line for everything that was asked to change, whether or not it did, and for every secret that was asked for.
//!
//! The scope is the resolved one: a creation has no ids in its path, and is audited with those of its body (B29).

use axum::http::{Method, StatusCode};

use super::context::RequestContext;
use crate::model::ids::Kind;

/// The target that a log collector selects by.
pub const TARGET: &str = "audit";

#[must_use]
pub fn is_mutation(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method)
}

/// Must be called inside the request's span, which carries the trace id.
pub fn record(method: &Method, context: &RequestContext, status: StatusCode) {
    let entry = context.trail.entry();
    let text = |id: Option<&dyn std::fmt::Display>| id.map(ToString::to_string);
    tracing::info!(
        target: TARGET,
        component_name = env!("CARGO_PKG_NAME"),
        component_version = env!("CARGO_PKG_VERSION"),
        actor = entry.actor.as_deref().unwrap_or("anonymous"),
        principal = entry.principal,
        verb = %method,
        operation = entry.operation,
        dry_run = entry.dry_run.then_some(true),
        organization_id = text(entry.scope.organization.as_ref().map(|id| id as _)),
        project_id = text(entry.scope.project.as_ref().map(|id| id as _)),
        region_id = text(entry.scope.region.as_ref().map(|id| id as _)),
        resource_type = entry.kind.map(Kind::word),
        resource_id = text(entry.id.as_ref().map(|id| id as _)),
        status = status.as_u16(),
        trace_id = %context.trace_id,
        "audit"
    );
}
