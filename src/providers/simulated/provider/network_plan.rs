//! What to do about a network, decided from what was seen of it: no calls here.
//!
//! ```text
//!   look ─▶ plan ─▶ (nothing) done
//!     ▲       └──▶ steps ─▶ make them ─┐
//!     └────────────────────────────────┘
//! ```
//!
//! A failed beginning (an object in its error state, or a network without its VLAN) is taken away and made again, but
//! only while nothing is built on it: from then on it is reported as trouble and left alone.

use aws_lc_rs::digest::{SHA256, digest};

use super::super::objects::{
    Body, CloudObject, Marks, NewObject, ObjectId, ObjectKind, ObjectState, Segment, SubnetOptions, SubnetRoute,
};
use super::session::at_most_one;
use super::tags;
use crate::model::ids::{ProviderNetworkId, ProviderRouterId, ProviderSubnetId};
use crate::model::network::{NetworkDetail, NetworkSpec};
use crate::providers::{NetworkFact, NetworkRequest, ProviderError, ProviderResult};

/// What was seen of one network: at most one of each.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub network: Option<CloudObject>,
    pub subnet: Option<CloudObject>,
    pub router: Option<CloudObject>,
}

/// What was seen, before anybody has asked whether it makes sense.
#[derive(Clone, Debug, Default)]
pub(super) struct Sighting {
    pub networks: Vec<CloudObject>,
    pub subnets: Vec<CloudObject>,
    pub routers: Vec<CloudObject>,
}

impl Sighting {
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.subnets.is_empty() && self.routers.is_empty()
    }

    pub fn consistent(self) -> ProviderResult<View> {
        Ok(View {
            network: at_most_one(self.networks, "network")?,
            subnet: at_most_one(self.subnets, "subnet")?,
            router: at_most_one(self.routers, "router")?,
        })
    }
}

/// One change. Steps name parts by their role: the id of what an earlier step makes is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Takes a failed beginning away.
    Discard(ObjectKind, ObjectId),
    CreateNetwork,
    CreateSubnet,
    UpdateSubnet(ObjectId),
    CreateRouter,
    SetGateway(ObjectId),
    Attach,
}

/// The steps from what is to what is wanted; none when it is so already.
pub(super) fn plan(view: &View, spec: &NetworkSpec, wants_vlan: bool) -> ProviderResult<Vec<Step>> {
    for part in [&view.network, &view.subnet, &view.router].into_iter().flatten() {
        match part.state {
            ObjectState::Building => return Err(ProviderError::Conflict("part of it is still being built".to_owned())),
            ObjectState::Deleting => return Err(ProviderError::Conflict("part of it is being removed".to_owned())),
            ObjectState::Active | ObjectState::Error => {}
        }
    }
    let discards = discards(view, wants_vlan);
    if !discards.is_empty() {
        return Ok(discards);
    }
    let mut steps = Vec::new();
    if view.network.is_none() {
        steps.push(Step::CreateNetwork);
    }
    match &view.subnet {
        None => steps.push(Step::CreateSubnet),
        Some(subnet) if subnet_options(subnet).is_some_and(|options| *options != wanted_options(spec)) => {
            steps.push(Step::UpdateSubnet(subnet.id.clone()));
        }
        Some(_) => {}
    }
    match &view.router {
        None => steps.push(Step::CreateRouter),
        Some(router) if gateway(router).is_none() => steps.push(Step::SetGateway(router.id.clone())),
        Some(_) => {}
    }
    if !is_attached(view) {
        steps.push(Step::Attach);
    }
    Ok(steps)
}

/// Failed beginnings that nothing is built on.
fn discards(view: &View, wants_vlan: bool) -> Vec<Step> {
    let discard = |object: &CloudObject| Step::Discard(object.kind(), object.id.clone());
    let unused_router = |router: &&CloudObject| is_errored(router) && router.interfaces().next().is_none();
    let unused_subnet = |subnet: &&CloudObject| is_errored(subnet) && !is_attached(view);
    let unused_network = |network: &&CloudObject| {
        let lacks_vlan = wants_vlan && network.segment().is_none();
        (is_errored(network) || lacks_vlan) && view.subnet.is_none()
    };
    let router = view.router.as_ref().filter(unused_router);
    let subnet = view.subnet.as_ref().filter(unused_subnet);
    let network = view.network.as_ref().filter(unused_network);
    [router, subnet, network].into_iter().flatten().map(discard).collect()
}

fn is_errored(object: &CloudObject) -> bool {
    object.state == ObjectState::Error
}

fn is_attached(view: &View) -> bool {
    match (&view.router, &view.subnet) {
        (Some(router), Some(subnet)) => router.interfaces().any(|attached| *attached == subnet.id),
        _ => false,
    }
}

const fn subnet_options(object: &CloudObject) -> Option<&SubnetOptions> {
    match &object.body {
        Body::Subnet { options, .. } => Some(options),
        _ => None,
    }
}

const fn gateway(object: &CloudObject) -> Option<&ObjectId> {
    match &object.body {
        Body::Router { external_network, .. } => external_network.as_ref(),
        _ => None,
    }
}

/// The subnet as the specification has it. No routes asked for means none: they are cleared, too (B13).
pub(super) fn wanted_options(spec: &NetworkSpec) -> SubnetOptions {
    let plan = spec.address_plan();
    let routes = spec.routes.iter().flatten();
    SubnetOptions {
        gateway: plan.gateway,
        pool: Some(plan.dhcp),
        dns_nameservers: spec.dns_nameservers.clone(),
        routes: routes.map(|route| SubnetRoute { destination: route.prefix.net(), next_hop: route.next_hop }).collect(),
    }
}

pub(super) const fn marks(request: &NetworkRequest) -> Marks {
    Marks { id: request.id.0, incarnation: request.incarnation }
}

/// A part of the network. The name is for people to read: nothing is found by it.
pub(super) fn new_object(request: &NetworkRequest, body: Body) -> NewObject {
    let tags = tags(request.organization, request.project);
    NewObject { name: format!("network-{}", request.id), marks: Some(marks(request)), tags, body }
}

/// What is to be told of a network that was seen. The storage range follows from the specification alone.
pub(super) fn fact(view: &View, spec: Option<&NetworkSpec>) -> NetworkFact {
    let segment: Option<&Segment> = view.network.as_ref().and_then(CloudObject::segment);
    let detail = NetworkDetail {
        network: view.network.as_ref().map(|object| ProviderNetworkId(object.id.0.clone())),
        subnet: view.subnet.as_ref().map(|object| ProviderSubnetId(object.id.0.clone())),
        router: view.router.as_ref().map(|object| ProviderRouterId(object.id.0.clone())),
        vlan: segment.map(|segment| segment.vlan),
        storage_range: spec.and_then(|spec| spec.address_plan().storage),
        fingerprint: Some(fingerprint(view)),
    };
    NetworkFact { detail, trouble: trouble(view, spec) }
}

/// Changes when and only when one of the parts does. Serialised, because the text has everything of them and nothing
/// else; it cannot fail, because they came as JSON or could have. A digest whose form is fixed, because it is stored.
fn fingerprint(view: &View) -> u64 {
    let parts = serde_json::to_vec(&[&view.network, &view.subnet, &view.router]).unwrap_or_default();
    let digest = digest(&SHA256, &parts);
    digest.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn trouble(view: &View, spec: Option<&NetworkSpec>) -> Option<String> {
    let parts = [("network", &view.network), ("subnet", &view.subnet), ("router", &view.router)];
    for (word, part) in parts {
        let said = match part.as_ref().map(|object| object.state) {
            None => format!("the {word} is missing"),
            Some(ObjectState::Active) => continue,
            Some(ObjectState::Building) => format!("the {word} is still being built"),
            Some(ObjectState::Error) => format!("the {word} is in an error state"),
            Some(ObjectState::Deleting) => format!("the {word} is being removed"),
        };
        return Some(said);
    }
    if !is_attached(view) {
        return Some("the router is not connected to the subnet".to_owned());
    }
    if view.router.as_ref().is_some_and(|router| gateway(router).is_none()) {
        return Some("the router is not connected to the outside".to_owned());
    }
    let differs = match (view.subnet.as_ref().map(|subnet| &subnet.body), spec) {
        (Some(Body::Subnet { cidr, .. }), Some(spec)) => *cidr != spec.prefix.net(),
        _ => false,
    };
    differs.then(|| "the subnet has another prefix than was asked for".to_owned())
}
