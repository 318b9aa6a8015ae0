//! What the pool shows to whoever watches the process.
//!
//! Gauges are held, not looked up: the actor sets them on every message. Counters and histograms carry the operation
//! and the outcome, both words of our program, so the number of series is bounded.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Gauge, Label, SharedString, counter, gauge, histogram};

use super::breaker::BreakerState;
use super::gate::{Refusal, ServiceStatus};
use super::record::Outcome;
use super::{Operation, Service};
use crate::model::ids::RegionId;

const CALLS: &str = "regent_provider_calls_total";
const CALL_SECONDS: &str = "regent_provider_call_seconds";
const REFUSED: &str = "regent_provider_refused_total";
const IN_FLIGHT: &str = "regent_provider_in_flight";
const QUEUED: &str = "regent_provider_queued";
const CONCURRENCY_LIMIT: &str = "regent_provider_concurrency_limit";
/// 0 closed, 1 half open, 2 open: higher is worse, so that a maximum over regions makes sense.
const BREAKER: &str = "regent_provider_breaker";

/// What is counted per call, by the tasks that make them.
pub struct CallMeters {
    region: SharedString,
}

impl CallMeters {
    pub fn new(region: RegionId) -> Self {
        Self { region: SharedString::from_shared(Arc::from(region.to_string())) }
    }

    pub fn ended(&self, operation: &Operation, outcome: Outcome, latency: Duration) {
        let region = Label::new("region", self.region.clone());
        let service = Label::from_static_parts("service", operation.service.word());
        let name = Label::from_static_parts("operation", operation.name);
        let outcome = Label::from_static_parts("outcome", outcome.word());
        histogram!(CALL_SECONDS, vec![region.clone(), service.clone(), name.clone()]).record(latency);
        counter!(CALLS, vec![region, service, name, outcome]).increment(1);
    }
}

/// What is shown per service, by the actor.
pub struct GateMeters {
    labels: Vec<Label>,
    in_flight: Gauge,
    queued: Gauge,
    limit: Gauge,
    breaker: Gauge,
}

impl GateMeters {
    pub fn new(region: RegionId, service: Service) -> Self {
        let labels =
            vec![Label::new("region", region.to_string()), Label::from_static_parts("service", service.word())];
        Self {
            in_flight: gauge!(IN_FLIGHT, labels.clone()),
            queued: gauge!(QUEUED, labels.clone()),
            limit: gauge!(CONCURRENCY_LIMIT, labels.clone()),
            breaker: gauge!(BREAKER, labels.clone()),
            labels,
        }
    }

    pub fn show(&self, status: ServiceStatus) {
        self.in_flight.set(as_float(status.in_flight));
        self.queued.set(as_float(status.queued));
        self.limit.set(f64::from(status.limit));
        self.breaker.set(match status.breaker {
            BreakerState::Closed => 0.0,
            BreakerState::HalfOpen => 1.0,
            BreakerState::Open => 2.0,
        });
    }

    pub fn refused(&self, refusal: Refusal) {
        let reason = match refusal {
            Refusal::LineFull { .. } => "line-full",
            Refusal::Paused(_) => "paused",
            Refusal::BreakerOpen(_) => "breaker-open",
        };
        let mut labels = self.labels.clone();
        labels.push(Label::from_static_parts("reason", reason));
        counter!(REFUSED, labels).increment(1);
    }
}

/// Counts here are bounded by the settings, far below what an `f64` holds exactly.
fn as_float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
