//! How many may follow what changes, in all and of one organization, and how all of them are told to go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::api::error::{ApiError, RETRY_AFTER_S};
use crate::identity::Account;
use crate::model::ids::OrganizationId;

/// How many streams there are at once. Each holds one of the places that requests have, of which there are four times
/// as many; and each reads the log whenever anything is written.
pub const STREAMS_MAX: usize = 256;

/// How many of them one organization may have: its console and its scripts, and never all there are.
pub const STREAMS_OF_ORGANIZATION_MAX: usize = 32;

/// Those who follow. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Events {
    taken: Arc<Mutex<BTreeMap<Option<OrganizationId>, usize>>>,
    stopping: CancellationToken,
}

/// Somebody's place; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    events: Events,
    of: Option<OrganizationId>,
}

impl Events {
    /// Ends every stream, and every one that is begun from now on.
    pub fn close(&self) {
        self.stopping.cancel();
    }

    pub(super) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Operators and services belong to no organization, and only share what there is in all.
    pub(super) fn enter(&self, account: Account) -> Result<Place, ApiError> {
        let of = match account {
            Account::Member(organization) => Some(organization),
            Account::Platform | Account::Service => None,
        };
        let mut taken = self.taken();
        if taken.values().sum::<usize>() >= STREAMS_MAX {
            return Err(ApiError::unavailable());
        }
        let count = taken.entry(of).or_default();
        if of.is_some() && *count >= STREAMS_OF_ORGANIZATION_MAX {
            return Err(ApiError::too_many_requests(RETRY_AFTER_S));
        }
        *count += 1;
        metrics::gauge!("regent_event_streams").increment(1.0);
        Ok(Place { events: self.clone(), of })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<Option<OrganizationId>, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        metrics::gauge!("regent_event_streams").decrement(1.0);
        let mut taken = self.events.taken();
        if let Some(count) = taken.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::error::Failure;
    use uuid::Uuid;

    fn member(number: u128) -> Account {
        Account::Member(OrganizationId(Uuid::from_u128(number)))
    }

    #[test]
    fn no_organization_takes_every_place_and_what_is_given_back_can_be_taken() {
        let events = Events::default();
        let enter = |account| events.enter(account).map_err(|error| error.failure);
        let mut places = (0..STREAMS_OF_ORGANIZATION_MAX).map(|_| enter(member(1)).expect("room")).collect::<Vec<_>>();
        let refused = enter(member(1)).expect_err("no room of its own");
        assert_eq!(refused, Failure::TooManyRequests { retry_after_s: RETRY_AFTER_S });
        while places.len() < STREAMS_MAX {
            places.push(enter(Account::Platform).expect("room"));
        }
        assert_eq!(enter(member(2)).expect_err("no room at all"), Failure::Unavailable);
        places.remove(0);
        places.push(enter(member(2)).expect("room again"));
        drop(places);
        assert!(events.taken().is_empty());
    }
}
