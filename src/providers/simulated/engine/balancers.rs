//! The life of a load balancer: busy with its creation, busy with each change, and immutable meanwhile.
//!
//! ```text
//!   create ─▶ building ─▶ active ◀──▶ active and pending: one change     delete ─▶ deleting ─▶ gone
//!                └──▶ error: nothing but a deletion is accepted any more
//! ```

use jiff::Timestamp;

use super::super::call::{Answer, CloudError};
use super::super::objects::{Becomes, Body, CloudObject, ObjectId, ObjectKind, ObjectState, Pending};
use super::rules::{Outcome, World};
use super::servers::until;
use crate::model::load_balancer_topology::{BalancerChange, ChangeRefused, Topology};

/// Listeners, pools, members and allowed ranges of one balancer at most: well beyond what any client may ask for.
const PARTS_MAX: usize = 50_000;

impl World {
    pub(super) fn admit_balancer(&self, port: &ObjectId, topology: &Topology) -> Outcome<()> {
        self.free_port(port)?;
        acceptable(topology)
    }

    /// How long it is busy from now.
    pub(super) fn busy(&self, now: Timestamp) -> Pending {
        until(now, self.settings.balancer_delay, Becomes::Active)
    }

    pub(super) fn configure(&mut self, now: Timestamp, id: &ObjectId, change: &BalancerChange) -> Outcome {
        let mut object = self.existing(ObjectKind::LoadBalancer, id)?.clone();
        changeable(&object)?;
        alter(&mut object, change)?;
        object.pending = Some(self.busy(now));
        self.table.put(now, object.clone());
        Ok(Answer::Object { object: Box::new(object) })
    }

    /// The same without a call: nobody is busy with it.
    pub(super) fn reconfigure(&mut self, now: Timestamp, id: &ObjectId, change: &BalancerChange) -> Outcome<()> {
        let mut object = self.existing(ObjectKind::LoadBalancer, id)?.clone();
        alter(&mut object, change)?;
        self.table.put(now, object);
        Ok(())
    }
}

fn alter(object: &mut CloudObject, change: &BalancerChange) -> Outcome<()> {
    let Body::LoadBalancer { topology, .. } = &mut object.body else { return Err(CloudError::NotFound) };
    topology.apply(change).map_err(|refused| match refused {
        ChangeRefused::Missing => CloudError::NotFound,
        ChangeRefused::Conflict => CloudError::conflict("another part of the load balancer is in the way"),
    })?;
    acceptable(topology)
}

fn acceptable(topology: &Topology) -> Outcome<()> {
    if topology.size() > PARTS_MAX {
        return Err(CloudError::rejected("too many parts"));
    }
    if topology.is_consistent() { Ok(()) } else { Err(CloudError::rejected("the listeners are in each other's way")) }
}

/// Only a balancer that is active and not busy takes a change.
pub(super) fn changeable(object: &CloudObject) -> Outcome<()> {
    match (object.state, object.pending) {
        (ObjectState::Active, None) => Ok(()),
        _ => Err(CloudError::conflict("the load balancer is immutable in this state")),
    }
}
