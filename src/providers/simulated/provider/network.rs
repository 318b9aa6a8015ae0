//! Making and unmaking a network: the network, its subnet, its router and the interface between the two.
//!
//! Everything is found by the marks written into it (id and incarnation). An object of another incarnation of the
//! same id is not ours: a successor must not live on its predecessor's remains, and a late deletion of the
//! predecessor must not reach its successor. Such remains are left to the sweep for orphans.

use super::super::call::{Call, Change};
use super::super::objects::{Body, CloudObject, ObjectId, ObjectKind, Segment};
use super::network_plan::{self as planning, Sighting, Step};
use super::security_group::removals;
use super::session::Session;
use crate::model::region::ProviderNetworks;
use crate::providers::{Deletion, NetworkFact, NetworkRequest, Observed, ProviderError, ProviderResult};

/// How often one pass looks, plans and acts: once to take failed beginnings away, once to make what is missing, once
/// to see that it is so, and one more. What is not settled then is left to the next pass, with its back-off.
const ROUNDS_MAX: usize = 4;

/// The ids that are known by now, on record or from this pass: asked for by id when a search does not show them.
#[derive(Clone, Debug, Default)]
struct Known {
    network: Option<ObjectId>,
    subnet: Option<ObjectId>,
    router: Option<ObjectId>,
}

impl Known {
    fn of(request: &NetworkRequest) -> Self {
        let detail = &request.detail;
        Self {
            network: detail.network.as_ref().map(|id| ObjectId(id.0.clone())),
            subnet: detail.subnet.as_ref().map(|id| ObjectId(id.0.clone())),
            router: detail.router.as_ref().map(|id| ObjectId(id.0.clone())),
        }
    }

    fn learn(&mut self, sighting: &Sighting) {
        let learn = |known: &mut Option<ObjectId>, seen: &[CloudObject]| {
            if let Some(object) = seen.first() {
                *known = Some(object.id.clone());
            }
        };
        learn(&mut self.network, &sighting.networks);
        learn(&mut self.subnet, &sighting.subnets);
        learn(&mut self.router, &sighting.routers);
    }
}

impl Session<'_> {
    pub async fn converge_network(
        &self,
        request: &NetworkRequest,
        provider_networks: Option<&ProviderNetworks>,
    ) -> ProviderResult<Observed<NetworkFact>> {
        let mut known = Known::of(request);
        for _ in 0..ROUNDS_MAX {
            let seen = self.look_at_network(request, &known).await?;
            known.learn(&seen.fact);
            let view = seen.fact.consistent()?;
            let steps = planning::plan(&view, &request.spec, provider_networks.is_some())?;
            if steps.is_empty() {
                let fact = planning::fact(&view, Some(&request.spec));
                return Ok(Observed { sequence: seen.sequence, fact });
            }
            for step in steps {
                self.take_step(request, provider_networks, step, &mut known).await?;
            }
        }
        Err(ProviderError::Conflict("the network does not settle".to_owned()))
    }

    /// The sequence is that of the first read: all that is reported is at least as new.
    async fn look_at_network(&self, request: &NetworkRequest, known: &Known) -> ProviderResult<Observed<Sighting>> {
        let marks = planning::marks(request);
        let networks = self.find_own(ObjectKind::Network, marks, known.network.as_ref()).await?;
        let subnets = self.find_own(ObjectKind::Subnet, marks, known.subnet.as_ref()).await?.fact;
        let routers = self.find_own(ObjectKind::Router, marks, known.router.as_ref()).await?.fact;
        let fact = Sighting { networks: networks.fact, subnets, routers };
        Ok(Observed { sequence: networks.sequence, fact })
    }

    async fn take_step(
        &self,
        request: &NetworkRequest,
        provider_networks: Option<&ProviderNetworks>,
        step: Step,
        known: &mut Known,
    ) -> ProviderResult<()> {
        match step {
            Step::Discard(kind, id) => self.take_away(Call::Delete { kind, id }).await,
            Step::CreateNetwork => {
                let project = self.project_of(request.identity).await?;
                let segment = match provider_networks {
                    Some(networks) => Some(self.claim_segment(networks).await?),
                    None => None,
                };
                let body = Body::Network { project, segment };
                known.network = Some(self.create(request, body).await?);
                Ok(())
            }
            Step::CreateSubnet => {
                let network = required(known.network.clone())?;
                let options = planning::wanted_options(&request.spec);
                let body = Body::Subnet { network, cidr: request.spec.prefix.net(), options };
                known.subnet = Some(self.create(request, body).await?);
                Ok(())
            }
            Step::UpdateSubnet(id) => {
                let change = Change::Subnet { options: planning::wanted_options(&request.spec) };
                self.change(Call::Update { kind: ObjectKind::Subnet, id, change }).await.map(|_| ())
            }
            Step::CreateRouter => {
                let project = self.project_of(request.identity).await?;
                let external_network = Some(self.way_out().await?);
                let body = Body::Router { project, external_network, interfaces: std::collections::BTreeSet::new() };
                known.router = Some(self.create(request, body).await?);
                Ok(())
            }
            Step::SetGateway(id) => {
                let change = Change::Gateway { external_network: self.way_out().await? };
                self.change(Call::Update { kind: ObjectKind::Router, id, change }).await.map(|_| ())
            }
            Step::Attach => self.attach(required(known.router.clone())?, required(known.subnet.clone())?).await,
        }
    }

    async fn create(&self, request: &NetworkRequest, body: Body) -> ProviderResult<ObjectId> {
        let object = planning::new_object(request, body);
        self.change(Call::Create { object }).await.map(|object| object.id)
    }

    /// The claim stands whatever becomes of the create: a VLAN that a cloud stumbled over is not handed to the next.
    async fn claim_segment(&self, networks: &ProviderNetworks) -> ProviderResult<Segment> {
        let ranges: Vec<(u16, u16)> =
            networks.allocatable().into_iter().map(|segment| (segment.start, segment.end)).collect();
        let vlan = self.context.ledger.claim_vlan(&ranges).await?;
        Ok(Segment { physical_network: networks.physical_network.clone(), vlan })
    }

    /// Takes away everything of this incarnation, doubles included, each part whether or not the others are there (B5).
    pub async fn delete_network(&self, request: &NetworkRequest) -> ProviderResult<Deletion> {
        let mut known = Known::of(request);
        let seen = self.look_at_network(request, &known).await?.fact;
        if seen.is_empty() {
            return Ok(Deletion::Absent);
        }
        known.learn(&seen);
        self.take_all_away(all_removals(&seen)).await?;
        let left = self.look_at_network(request, &known).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }
}

/// Interfaces first, then routers, subnets and networks.
fn all_removals(seen: &Sighting) -> Vec<Call> {
    let interfaces = seen.routers.iter().flat_map(|router| {
        let detach = |subnet: &ObjectId| Call::DetachInterface { router: router.id.clone(), subnet: subnet.clone() };
        router.interfaces().map(detach).collect::<Vec<Call>>()
    });
    let parts = seen.routers.iter().chain(&seen.subnets).chain(&seen.networks);
    interfaces.chain(removals(parts)).collect()
}

/// A plan makes parts in the order in which they need each other, so what a step needs is known.
fn required(id: Option<ObjectId>) -> ProviderResult<ObjectId> {
    id.ok_or_else(|| ProviderError::Inconsistent("a part that should have been made is not known".to_owned()))
}
