//! What all handles of one pool share, and what outlives the lives of its actor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ractor::ActorRef;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Service;
use super::actor::PoolMessage;
use super::flight::Flights;
use super::gate::ServiceStatus;
use super::meters::CallMeters;
use super::permit::{Permit, Slot, Ticket};
use super::record::Recent;
use super::settings::PoolSettings;
use crate::model::ambient::Ambient;
use crate::model::ids::{OrganizationId, RegionId};
use crate::providers::{ProviderError, ProviderResult};

pub struct Shared {
    pub region: RegionId,
    pub settings: PoolSettings,
    pub ambient: Ambient,
    pub slot: Slot,
    pub flights: Flights,
    pub recent: Recent,
    pub meters: CallMeters,
    statuses: Mutex<BTreeMap<Service, ServiceStatus>>,
    tickets: AtomicU64,
}

impl Shared {
    pub fn new(region: RegionId, settings: PoolSettings, ambient: Ambient) -> Self {
        Self {
            region,
            recent: Recent::new(settings.recent_max),
            settings,
            ambient,
            slot: Slot::default(),
            flights: Flights::default(),
            meters: CallMeters::new(region),
            statuses: Mutex::default(),
            tickets: AtomicU64::new(0),
        }
    }

    /// Waits for the right to make one call. Dropping the future gives up the place in the line.
    pub async fn permit(&self, tenant: OrganizationId, service: Service) -> ProviderResult<Permit> {
        let actor = self.slot.actor().ok_or_else(away)?;
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        actor.send_message(PoolMessage::Ask { ticket, service, tenant, reply }).map_err(|_| away())?;
        let mut place = Place { actor, ticket, service, tenant, answered: false };
        match timeout(self.settings.queue_wait_max, answer).await {
            Ok(answer) => {
                place.answered = true;
                answer.unwrap_or_else(|_| Err(away()))
            }
            Err(_) => Err(ProviderError::Throttled { retry_after: None }),
        }
    }

    pub fn publish(&self, service: Service, status: ServiceStatus) {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner).insert(service, status);
    }

    pub fn statuses(&self) -> BTreeMap<Service, ServiceStatus> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The actor is between two lives: it was not started yet, or died with everybody who was waiting in its line.
fn away() -> ProviderError {
    ProviderError::Unavailable("the region's pool is restarting".to_owned())
}

/// A place in the line, given up when it is dropped unanswered. If the answer was on its way already, the permit in
/// it is dropped with the channel and comes back by itself.
struct Place {
    actor: ActorRef<PoolMessage>,
    ticket: Ticket,
    service: Service,
    tenant: OrganizationId,
    answered: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.answered {
            let Self { ticket, service, tenant, .. } = *self;
            drop(self.actor.send_message(PoolMessage::Withdraw { ticket, service, tenant }));
        }
    }
}
