//! Load balancers with their public addresses.

use uuid::Uuid;

use super::super::load_balancer_plan::BalancerBody;
use super::super::names;
use super::super::ports::FloatingIpBody;
use super::super::session::Session;
use super::standing::{Addresses, earlier};
use super::{Line, Look, Source, Turned};
use crate::model::ids::{Key, Kind};
use crate::model::load_balancer::joint_fingerprint;
use crate::providers::call::Fact;
use crate::providers::pool::Service;
use crate::providers::{AddressSighting, Listed, Listing, Observed, ProviderResult, Sequence};

impl Line for BalancerBody {
    fn id(&self) -> &str {
        &self.id
    }
    fn of(&self) -> Option<Uuid> {
        Self::of(self).map(|id| id.0)
    }
}

impl Session<'_> {
    pub(super) async fn list_load_balancers(&self, look: Look<'_>) -> ProviderResult<Observed<Listing<Listed>>> {
        let Some(place) = self.place(look, Service::LoadBalancer).await? else { return Ok(Listing::nothing()) };
        let beside = self.beside(look, &place).await?;
        let source = Source::new(Service::LoadBalancer, "lbaas/loadbalancers", "list-balancers");
        let source = source.with("name", look.name(names::LOAD_BALANCER_PREFIX));
        let mut page: Turned<BalancerBody> = self.turn(look, &place, source).await?;
        let ports = page.items.iter().map(|balancer| balancer.vip_port_id.clone()).filter(|port| !port.is_empty());
        // Read after the balancers, and told as if they were not newer.
        let addresses = self.addresses(&beside, ports.collect()).await?;
        page.sequence = earlier(page.sequence, addresses.sequence);
        let sequence = page.sequence;
        Ok(page.told(|balancer| listed_load_balancer(&balancer, &addresses, sequence)))
    }
}

/// The balancer speaks for itself, and its public address beside it: that is all that can drift.
fn listed_load_balancer(balancer: &BalancerBody, addresses: &Addresses, sequence: Sequence) -> Option<Listed> {
    let (id, incarnation) = (BalancerBody::of(balancer)?, balancer.incarnation()?);
    let description = names::described(&names::load_balancer(id), incarnation);
    let address = addresses.find(&description, Some(&balancer.vip_port_id)).and_then(FloatingIpBody::public_address);
    let mut fact = balancer.fact();
    let fingerprint = joint_fingerprint(fact.fingerprint, address.as_ref().map(|address| address.fingerprint));
    fact.address = address.map_or(AddressSighting::Absent, AddressSighting::Present);
    let fact = Fact::LoadBalancer(Observed { sequence, fact });
    Some(Listed { key: Key::new(Kind::LoadBalancer, id.0), incarnation, fingerprint, fact })
}
