//! What to do about a network, from what was seen of it: no calls here.
//!
//! ```text
//!   look ─▶ plan ─▶ (nothing) done
//!     ▲       └──▶ steps ─▶ make them ─┐
//!     └────────────────────────────────┘
//! ```
//!
//! Objects are found by name. One that says no incarnation was made by the service before us, or by hand: it is adopted,
//! and marked. What was adopted keeps its prefix, its gateway and its pools; only DNS and routes are followed.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::Deserialize;

use super::doubles::{Chosen, Marked, choose};
use super::names::{self, Claim};
use crate::model::ids::{Incarnation, ProviderNetworkId, ProviderRouterId, ProviderSubnetId};
use crate::model::network::{NetworkDetail, NetworkSpec, VlanId};
use crate::providers::fingerprint::Fingerprint;
use crate::providers::{NetworkFact, NetworkRequest, ProviderError, ProviderResult};

/// A Neutron network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct NetworkBody {
    pub id: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub status: String,
    #[serde(default = "yes")]
    pub admin_state_up: bool,
    /// Grows with every change.
    #[serde(default)]
    pub revision_number: u64,
    #[serde(rename = "provider:network_type", default)]
    pub network_type: Option<String>,
    #[serde(rename = "provider:segmentation_id", default)]
    pub segmentation: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct SubnetBody {
    pub id: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    pub network_id: String,
    #[serde(default)]
    pub cidr: Option<Ipv4Net>,
    #[serde(default)]
    pub dns_nameservers: Vec<String>,
    #[serde(default)]
    pub host_routes: Vec<HostRoute>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct HostRoute {
    pub destination: String,
    pub nexthop: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct RouterBody {
    pub id: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub status: String,
    #[serde(default = "yes")]
    pub admin_state_up: bool,
    /// Grows with every change, of its interfaces too.
    #[serde(default)]
    pub revision_number: u64,
    #[serde(default)]
    pub external_gateway_info: Option<Gateway>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Gateway {
    pub network_id: String,
}

/// A port by which a router is in a subnet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct InterfaceBody {
    pub id: String,
    #[serde(default)]
    pub device_id: String,
    #[serde(default)]
    pub device_owner: String,
    #[serde(default)]
    pub fixed_ips: Vec<FixedIp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct FixedIp {
    pub subnet_id: String,
}

impl InterfaceBody {
    /// Plain, distributed or highly available; not the gateway's port.
    pub fn is_interface(&self) -> bool {
        let owners = ["network:router_interface", "network:ha_router_replicated_interface"];
        owners.iter().any(|owner| self.device_owner.starts_with(owner))
    }
}

const fn yes() -> bool {
    true
}

/// What every part has: by what it is known to be ours.
pub(super) trait Part: Marked {
    fn name(&self) -> &str;

    /// Is it for this network, and not of another life of it?
    fn is_for(&self, name: &str, incarnation: Incarnation) -> bool {
        self.name() == name && Claim::of(self.incarnation(), incarnation) != Claim::Another
    }
}

macro_rules! parts {
    ($($body:ident => $word:literal;)*) => {$(
        impl Marked for $body {
            const WORD: &'static str = $word;
            fn id(&self) -> &str {
                &self.id
            }
            fn incarnation(&self) -> Option<Incarnation> {
                self.description.as_deref().and_then(names::incarnation_in)
            }
        }
        impl Part for $body {
            fn name(&self) -> &str {
                &self.name
            }
        }
    )*};
}

parts! {
    NetworkBody => "network";
    SubnetBody => "subnet";
    RouterBody => "router";
}

/// What was seen, before anybody has asked whether it makes sense.
#[derive(Clone, Debug, Default)]
pub(super) struct Sighting {
    pub networks: Vec<NetworkBody>,
    pub subnets: Vec<SubnetBody>,
    pub routers: Vec<RouterBody>,
    /// Of these routers, or in these networks.
    pub interfaces: Vec<InterfaceBody>,
}

/// What was seen of one network: at most one of each.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub network: Option<NetworkBody>,
    pub subnet: Option<SubnetBody>,
    pub router: Option<RouterBody>,
    pub interfaces: Vec<InterfaceBody>,
}

/// The ids that are known by now, on record or from this pass: asked for by id when a search does not show them.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub network: Option<String>,
    pub subnet: Option<String>,
    pub router: Option<String>,
}

impl Known {
    pub fn of(request: &NetworkRequest) -> Self {
        let detail = &request.detail;
        Self {
            network: detail.network.as_ref().map(|id| id.0.clone()),
            subnet: detail.subnet.as_ref().map(|id| id.0.clone()),
            router: detail.router.as_ref().map(|id| id.0.clone()),
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.network.is_none() && self.subnet.is_none() && self.router.is_none()
    }

    /// Those that the cloud shows.
    pub fn learn(&mut self, view: &View) {
        let learn = |known: &mut Option<String>, seen: Option<&String>| {
            if let Some(id) = seen {
                *known = Some(id.clone());
            }
        };
        learn(&mut self.network, view.network.as_ref().map(|part| &part.id));
        learn(&mut self.subnet, view.subnet.as_ref().map(|part| &part.id));
        learn(&mut self.router, view.router.as_ref().map(|part| &part.id));
    }
}

impl Sighting {
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.subnets.is_empty() && self.routers.is_empty()
    }

    /// What there can be one of each of, and what is too much.
    pub fn settled(self, known: &Known) -> ProviderResult<(View, Self)> {
        let Self { networks, subnets, routers, interfaces } = self;
        let has_subnet = |network: &NetworkBody| subnets.iter().any(|subnet| subnet.network_id == network.id);
        let network = choose(networks, known.network.as_deref(), has_subnet)?;
        let in_subnet = |subnet: &SubnetBody| {
            interfaces.iter().flat_map(|port| &port.fixed_ips).any(|address| address.subnet_id == subnet.id)
        };
        let subnet = choose(subnets, known.subnet.as_deref(), in_subnet)?;
        let has_interface = |router: &RouterBody| interfaces.iter().any(|port| port.device_id == router.id);
        let router = choose(routers, known.router.as_deref(), has_interface)?;
        match (&network.first, &subnet.first) {
            (Some(network), Some(subnet)) if subnet.network_id != network.id => {
                Err(ProviderError::Inconsistent("the subnet is of another network".to_owned()))
            }
            _ => Ok(Self::split(network, subnet, router, interfaces)),
        }
    }

    fn split(
        network: Chosen<NetworkBody>,
        subnet: Chosen<SubnetBody>,
        router: Chosen<RouterBody>,
        interfaces: Vec<InterfaceBody>,
    ) -> (View, Self) {
        let doubles = Self {
            networks: network.doubles,
            subnets: subnet.doubles,
            routers: router.doubles,
            interfaces: Vec::new(),
        };
        (View { network: network.first, subnet: subnet.first, router: router.first, interfaces }, doubles)
    }
}

/// One change. Steps name parts by their role: the id of what an earlier step makes is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    CreateNetwork,
    MarkNetwork(String),
    CreateSubnet,
    UpdateSubnet(String),
    MarkSubnet(String),
    CreateRouter,
    MarkRouter(String),
    SetGateway(String),
    Attach,
}

/// The steps from what is to what is wanted; none when it is so already.
pub(super) fn plan(view: &View, spec: &NetworkSpec) -> Vec<Step> {
    let mut steps = Vec::new();
    match &view.network {
        None => steps.push(Step::CreateNetwork),
        Some(network) if network.incarnation().is_none() => steps.push(Step::MarkNetwork(network.id.clone())),
        Some(_) => {}
    }
    match &view.subnet {
        None => steps.push(Step::CreateSubnet),
        Some(subnet) => {
            if subnet.incarnation().is_none() {
                steps.push(Step::MarkSubnet(subnet.id.clone()));
            }
            if !has_options(subnet, spec) {
                steps.push(Step::UpdateSubnet(subnet.id.clone()));
            }
        }
    }
    match &view.router {
        None => steps.push(Step::CreateRouter),
        Some(router) => {
            if router.incarnation().is_none() {
                steps.push(Step::MarkRouter(router.id.clone()));
            }
            if router.external_gateway_info.is_none() {
                steps.push(Step::SetGateway(router.id.clone()));
            }
        }
    }
    if !is_attached(view) {
        steps.push(Step::Attach);
    }
    steps
}

fn is_attached(view: &View) -> bool {
    let (Some(router), Some(subnet)) = (&view.router, &view.subnet) else { return false };
    let joins = |port: &InterfaceBody| {
        port.device_id == router.id && port.is_interface() && port.fixed_ips.iter().any(|ip| ip.subnet_id == subnet.id)
    };
    view.interfaces.iter().any(joins)
}

/// The name servers in their order, as Neutron has them.
pub(super) fn wanted_dns(spec: &NetworkSpec) -> Vec<String> {
    spec.dns_nameservers.iter().map(Ipv4Addr::to_string).collect()
}

/// No routes asked for means none: they are cleared, too (B13).
pub(super) fn wanted_routes(spec: &NetworkSpec) -> BTreeSet<HostRoute> {
    let routes = spec.routes.iter().flatten();
    routes
        .map(|route| HostRoute { destination: route.prefix.net().to_string(), nexthop: route.next_hop.to_string() })
        .collect()
}

fn has_options(subnet: &SubnetBody, spec: &NetworkSpec) -> bool {
    subnet.dns_nameservers == wanted_dns(spec)
        && subnet.host_routes.iter().cloned().collect::<BTreeSet<_>>() == wanted_routes(spec)
}

/// The VLAN that a network has in the cloud.
pub(super) fn vlan(network: &NetworkBody) -> Option<VlanId> {
    let is_vlan = network.network_type.as_deref() == Some("vlan");
    network.segmentation.filter(|_| is_vlan).and_then(|id| u16::try_from(id).ok()).map(VlanId)
}

/// What is to be told of a network that was seen. The storage range follows from the specification alone.
pub(super) fn fact(view: &View, spec: &NetworkSpec, recorded: &NetworkDetail) -> NetworkFact {
    let detail = NetworkDetail {
        network: view.network.as_ref().map(|network| ProviderNetworkId(network.id.clone())),
        subnet: view.subnet.as_ref().map(|subnet| ProviderSubnetId(subnet.id.clone())),
        router: view.router.as_ref().map(|router| ProviderRouterId(router.id.clone())),
        // Not everybody is shown it.
        vlan: view.network.as_ref().and_then(vlan).or(recorded.vlan),
        storage_range: spec.address_plan().storage,
        fingerprint: Some(fingerprint(view.network.as_ref(), view.subnet.as_ref(), view.router.as_ref())),
    };
    NetworkFact { detail, trouble: trouble(view, spec) }
}

/// Of what bulk lists show. Network and router count their changes, and the router those of its interfaces.
pub(super) fn fingerprint(
    network: Option<&NetworkBody>,
    subnet: Option<&SubnetBody>,
    router: Option<&RouterBody>,
) -> u64 {
    let mut digest = Fingerprint::new();
    digest.number(network.is_some());
    if let Some(network) = network {
        digest.text(&network.id);
        digest.text(&network.status);
        digest.number(network.admin_state_up);
        digest.number(network.revision_number);
    }
    digest.number(subnet.is_some());
    if let Some(subnet) = subnet {
        digest.text(&subnet.id);
        // Neutron does not count changes of these two as changes of the subnet.
        for text in &subnet.dns_nameservers {
            digest.text(text);
        }
        let mut by_destination = subnet.host_routes.iter().collect::<Vec<_>>();
        by_destination.sort();
        for route in by_destination {
            digest.text(&route.destination);
            digest.text(&route.nexthop);
        }
    }
    digest.number(router.is_some());
    if let Some(router) = router {
        digest.text(&router.id);
        digest.text(&router.status);
        digest.number(router.admin_state_up);
        digest.number(router.revision_number);
    }
    digest.value()
}

/// What is wrong with one that was listed, as far as a list shows it.
pub(super) fn listed_trouble(network: &NetworkBody, router: Option<&RouterBody>) -> Option<String> {
    let Some(router) = router else { return Some("the router is missing".to_owned()) };
    let parts =
        [("network", &network.status, network.admin_state_up), ("router", &router.status, router.admin_state_up)];
    parts.into_iter().find_map(|(word, status, is_up)| match status.as_str() {
        "ERROR" => Some(format!("the {word} is in an error state")),
        _ if !is_up => Some(format!("the {word} is switched off in the cloud")),
        _ => None,
    })
}

fn trouble(view: &View, spec: &NetworkSpec) -> Option<String> {
    let missing = |word: &str| Some(format!("the {word} is missing"));
    let Some(network) = &view.network else { return missing(NetworkBody::WORD) };
    let Some(subnet) = &view.subnet else { return missing(SubnetBody::WORD) };
    if let Some(trouble) = listed_trouble(network, view.router.as_ref()) {
        return Some(trouble);
    }
    if !is_attached(view) {
        return Some("the router is not connected to the subnet".to_owned());
    }
    let differs = subnet.cidr.is_some_and(|cidr| cidr != spec.prefix.net());
    differs.then(|| "the subnet has another prefix than was asked for".to_owned())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::network::{Prefix, Route};

    const OURS: Incarnation = Incarnation(Uuid::from_u128(1));

    fn spec() -> NetworkSpec {
        let prefix = Prefix::parse("192.168.0.0/24").expect("a prefix");
        let dns_nameservers = vec![Ipv4Addr::new(9, 9, 9, 9), Ipv4Addr::new(1, 1, 1, 1)];
        NetworkSpec { prefix, reservations: None, dns_nameservers, routes: None }
    }

    fn description(text: &str) -> String {
        names::described(text, OURS)
    }

    fn settled() -> View {
        let network = NetworkBody {
            id: "n".to_owned(),
            name: "network-x".to_owned(),
            description: Some(description("n")),
            status: "ACTIVE".to_owned(),
            admin_state_up: true,
            network_type: Some("vlan".to_owned()),
            segmentation: Some(100),
            ..NetworkBody::default()
        };
        let subnet = SubnetBody {
            id: "s".to_owned(),
            name: "network-x".to_owned(),
            description: Some(description("s")),
            network_id: "n".to_owned(),
            cidr: Some(spec().prefix.net()),
            dns_nameservers: wanted_dns(&spec()),
            host_routes: Vec::new(),
        };
        let router = RouterBody {
            id: "r".to_owned(),
            name: "network-x".to_owned(),
            description: Some(description("r")),
            status: "ACTIVE".to_owned(),
            admin_state_up: true,
            external_gateway_info: Some(Gateway { network_id: "e".to_owned() }),
            ..RouterBody::default()
        };
        let interface = InterfaceBody {
            id: "p".to_owned(),
            device_id: "r".to_owned(),
            device_owner: "network:router_interface".to_owned(),
            fixed_ips: vec![FixedIp { subnet_id: "s".to_owned() }],
        };
        View { network: Some(network), subnet: Some(subnet), router: Some(router), interfaces: vec![interface] }
    }

    #[test]
    fn what_is_as_asked_for_is_left_alone() {
        assert_eq!(plan(&settled(), &spec()), []);
        let fact = fact(&settled(), &spec(), &NetworkDetail::default());
        assert_eq!((fact.trouble, fact.detail.vlan), (None, Some(VlanId(100))));
    }

    #[test]
    fn everything_is_made_in_the_order_in_which_it_is_needed() {
        let all = [Step::CreateNetwork, Step::CreateSubnet, Step::CreateRouter, Step::Attach];
        assert_eq!(plan(&View::default(), &spec()), all);
    }

    #[test]
    fn what_has_only_the_name_is_adopted_and_marked() {
        let mut view = settled();
        view.network.as_mut().expect("there").description = Some(names::NETWORK_DESCRIPTION.to_owned());
        view.subnet.as_mut().expect("there").description = None;
        view.router.as_mut().expect("there").description = Some(String::new());
        let marks =
            [Step::MarkNetwork("n".to_owned()), Step::MarkSubnet("s".to_owned()), Step::MarkRouter("r".to_owned())];
        assert_eq!(plan(&view, &spec()), marks);
        let network = view.network.expect("there");
        assert!(network.is_for("network-x", OURS) && !network.is_for("network-y", OURS));
    }

    #[test]
    fn what_another_life_made_is_not_ours() {
        let mut network = settled().network.expect("there");
        assert!(network.is_for("network-x", OURS));
        network.description = Some(names::mark(Incarnation(Uuid::from_u128(2))));
        assert!(!network.is_for("network-x", OURS));
    }

    #[test]
    fn b13_routes_and_name_servers_are_followed_and_cleared() {
        let mut view = settled();
        let route = HostRoute { destination: "10.0.0.0/8".to_owned(), nexthop: "192.168.0.9".to_owned() };
        view.subnet.as_mut().expect("there").host_routes = vec![route];
        assert_eq!(plan(&view, &spec()), [Step::UpdateSubnet("s".to_owned())]);
        let wanted =
            Route { prefix: Prefix::parse("10.0.0.0/8").expect("a prefix"), next_hop: Ipv4Addr::new(192, 168, 0, 9) };
        assert_eq!(plan(&view, &NetworkSpec { routes: Some(vec![wanted]), ..spec() }), []);
        let mut view = settled();
        view.subnet.as_mut().expect("there").dns_nameservers.reverse();
        assert_eq!(plan(&view, &spec()), [Step::UpdateSubnet("s".to_owned())], "their order matters");
    }

    #[test]
    fn a_router_that_lost_its_way_out_or_its_interface_gets_them_back() {
        let mut view = settled();
        view.router.as_mut().expect("there").external_gateway_info = None;
        view.interfaces[0].device_owner = "network:router_gateway".to_owned();
        assert_eq!(plan(&view, &spec()), [Step::SetGateway("r".to_owned()), Step::Attach]);
        for owner in ["network:router_interface_distributed", "network:ha_router_replicated_interface"] {
            let mut view = settled();
            view.interfaces[0].device_owner = owner.to_owned();
            assert_eq!(plan(&view, &spec()), [], "{owner}");
        }
    }

    #[test]
    fn doubles_of_ours_are_told_apart_and_those_of_others_and_strangers_stop_everything() {
        let view = settled();
        let known = Known::default();
        let network = view.network.clone().expect("there");
        let double = NetworkBody { id: "double".to_owned(), ..network.clone() };
        let subnets = view.subnet.clone().into_iter().collect::<Vec<_>>();
        let seen = Sighting { networks: vec![double.clone(), network.clone()], subnets, ..Sighting::default() };
        let (first, rest) = seen.settled(&known).expect("chosen");
        assert_eq!((first.network, rest.networks), (Some(network.clone()), vec![double.clone()]));
        let unmarked = NetworkBody { description: None, ..double };
        let double = Sighting { networks: vec![network.clone(), unmarked], ..Sighting::default() };
        assert!(matches!(double.settled(&known), Err(ProviderError::Inconsistent(_))));
        let mut subnet = view.subnet.expect("there");
        subnet.network_id = "another".to_owned();
        let stranger = Sighting { networks: vec![network], subnets: vec![subnet], ..Sighting::default() };
        assert!(matches!(stranger.settled(&known), Err(ProviderError::Inconsistent(_))));
    }

    #[test]
    fn what_is_wrong_is_said_and_changes_the_fingerprint() {
        let said = |change: fn(&mut View)| {
            let mut view = settled();
            change(&mut view);
            let fact = fact(&view, &spec(), &NetworkDetail::default());
            (fact.trouble.unwrap_or_default(), fact.detail.fingerprint)
        };
        let (nothing, usual) = said(|_| {});
        assert_eq!(nothing, "");
        let (text, fingerprint) = said(|view| view.network.as_mut().expect("there").status = "ERROR".to_owned());
        assert!(text.contains("error state") && fingerprint != usual);
        let (text, _) = said(|view| view.subnet.as_mut().expect("there").cidr = "10.0.0.0/24".parse().ok());
        assert!(text.contains("another prefix"));
        let (text, fingerprint) = said(|view| view.router.as_mut().expect("there").admin_state_up = false);
        assert!(text.contains("switched off") && fingerprint != usual);
        let (_, fingerprint) = said(|view| view.network.as_mut().expect("there").revision_number = 7);
        assert_ne!(fingerprint, usual);
        let (_, fingerprint) = said(|view| view.subnet.as_mut().expect("there").dns_nameservers.reverse());
        assert_ne!(fingerprint, usual);
    }
}
