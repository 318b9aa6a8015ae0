//! Making and unmaking a network: the network, its subnet, its router and the interface between the two.
//!
//! All of it is the service account's work in the project of the principal: tenants may neither choose a VLAN nor lead
//! a router outside.

use openstack_sdk_network::v2::network::{
    create as create_network, delete as delete_network, get as get_network, list as list_networks, set as set_network,
};
use openstack_sdk_network::v2::port::list as list_ports;
use openstack_sdk_network::v2::router::{
    add_router_interface, create as create_router, delete as delete_router, get as get_router, list as list_routers,
    remove_router_interface, set as set_router,
};
use openstack_sdk_network::v2::subnet::{
    create as create_subnet, delete as delete_subnet, get as get_subnet, list as list_subnets, set as set_subnet,
};
use serde::Deserialize;

use super::connection::Acting;
use super::doubles::taken_away;
use super::names;
use super::network_plan::{
    self as planning, InterfaceBody, Known, NetworkBody, Part, RouterBody, Sighting, Step, SubnetBody, View,
};
use super::session::{Removals, Session, flat, incomplete, on};
use crate::model::ids::IdentityId;
use crate::model::network::NetworkSpec;
use crate::providers::pool::Service;
use crate::providers::{Deletion, NetworkFact, NetworkRequest, Observed, ProviderError, ProviderResult};

/// How often one pass looks, plans and acts: once to make what is missing, once to see that it is so, and one more. What
/// is not settled then is left to the next pass, with its back-off.
const ROUNDS_MAX: usize = 3;

/// What an answer to a change is read for.
#[derive(Deserialize)]
struct Made {
    id: String,
}

impl Session<'_> {
    pub async fn converge_network(&self, request: &NetworkRequest) -> ProviderResult<Observed<NetworkFact>> {
        let acting = self.steward_of(request.identity).await?;
        let mut known = Known::of(request);
        for _ in 0..ROUNDS_MAX {
            let seen = self.look_at_network(&acting, request, &known).await?;
            let (view, doubles) = seen.fact.settled(&known)?;
            known.learn(&view);
            if !doubles.is_empty() {
                self.take_network_away(&acting, &doubles).await?;
                return Err(taken_away(&request.id));
            }
            self.claim_adopted_vlan(request, &view).await?;
            let steps = planning::plan(&view, &request.spec);
            if steps.is_empty() {
                let fact = planning::fact(&view, &request.spec, &request.detail);
                return Ok(Observed { sequence: seen.sequence, fact });
            }
            for step in steps {
                self.take_step(&acting, request, step, &mut known).await?;
            }
        }
        Err(ProviderError::Conflict("the network does not settle".to_owned()))
    }

    /// The sequence is that of the first read: all that is reported is at least as new.
    async fn look_at_network(
        &self,
        acting: &Acting,
        request: &NetworkRequest,
        known: &Known,
    ) -> ProviderResult<Observed<Sighting>> {
        let name = names::network(request.id);
        let operation = |what| on(Service::Network, what, &name);
        let endpoint = list_networks::Request::builder().name(name.clone()).build();
        let mut networks: Observed<Vec<NetworkBody>> = self.read(acting, operation("find-networks"), endpoint).await?;
        let endpoint = list_subnets::Request::builder().name(name.clone()).build();
        let mut subnets: Vec<SubnetBody> = self.read(acting, operation("find-subnets"), endpoint).await?.fact;
        let endpoint = list_routers::Request::builder().name(name.clone()).build();
        let mut routers: Vec<RouterBody> = self.read(acting, operation("find-routers"), endpoint).await?.fact;

        if let Some(id) = unseen(known.network.as_ref(), &networks.fact) {
            let endpoint = get_network::Request::builder().id(id.clone()).build();
            let seen = self.look(acting, on(Service::Network, "get-network", id), endpoint).await?;
            networks.fact.extend(seen.map(|seen| seen.fact));
        }
        if let Some(id) = unseen(known.subnet.as_ref(), &subnets) {
            let endpoint = get_subnet::Request::builder().id(id.clone()).build();
            let seen = self.look(acting, on(Service::Network, "get-subnet", id), endpoint).await?;
            subnets.extend(seen.map(|seen| seen.fact));
        }
        if let Some(id) = unseen(known.router.as_ref(), &routers) {
            let endpoint = get_router::Request::builder().id(id.clone()).build();
            let seen = self.look(acting, on(Service::Network, "get-router", id), endpoint).await?;
            routers.extend(seen.map(|seen| seen.fact));
        }
        // A record can be of another cloud than this one, as after a restore: the id alone proves nothing.
        networks.fact.retain(|network| network.is_for(&name, request.incarnation));
        subnets.retain(|subnet| subnet.is_for(&name, request.incarnation));
        routers.retain(|router| router.is_for(&name, request.incarnation));
        let mut interfaces = Vec::new();
        for router in &routers {
            let endpoint = list_ports::Request::builder().device_id(router.id.clone()).build();
            let ports: Vec<InterfaceBody> =
                self.read(acting, on(Service::Network, "find-interfaces", &router.id), endpoint).await?.fact;
            interfaces.extend(ports.into_iter().filter(InterfaceBody::is_interface));
        }
        let fact = Sighting { networks: networks.fact, subnets, routers, interfaces };
        Ok(Observed { sequence: networks.sequence, fact })
    }

    /// A network that was adopted has a VLAN that nobody here has handed out: it is taken, so that nobody else gets it.
    async fn claim_adopted_vlan(&self, request: &NetworkRequest, view: &View) -> ProviderResult<()> {
        let Some(vlan) = view.network.as_ref().and_then(planning::vlan) else { return Ok(()) };
        if self.provider.settings.network.provider_networks.is_none() || request.detail.vlan == Some(vlan) {
            return Ok(());
        }
        let claimed = self.context.ledger.claim_vlan(&[(vlan.0, vlan.0)]).await?;
        if claimed == vlan {
            return Ok(());
        }
        Err(ProviderError::Inconsistent(format!("the network is on VLAN {}, and {} is on record", vlan.0, claimed.0)))
    }

    async fn take_step(
        &self,
        acting: &Acting,
        request: &NetworkRequest,
        step: Step,
        known: &mut Known,
    ) -> ProviderResult<()> {
        match step {
            Step::CreateNetwork => {
                known.network = Some(self.create_network(acting, request).await?);
                Ok(())
            }
            Step::MarkNetwork(id) => {
                let description = names::described(names::NETWORK_DESCRIPTION, request.incarnation);
                let body = set_network::NetworkBuilder::default().description(description).build();
                let request = |body| set_network::Request::builder().id(id.clone()).network(body).build();
                self.order(acting, on(Service::Network, "mark-network", &id), flat(body.map(request))).await
            }
            Step::CreateSubnet => {
                known.subnet = Some(self.create_subnet(acting, request, required(known.network.as_ref())?).await?);
                Ok(())
            }
            Step::MarkSubnet(id) => {
                let mark = names::mark(request.incarnation);
                let body = set_subnet::SubnetBuilder::default().description(mark).build();
                let request = |body| set_subnet::Request::builder().id(id.clone()).subnet(body).build();
                self.order(acting, on(Service::Network, "mark-subnet", &id), flat(body.map(request))).await
            }
            Step::UpdateSubnet(id) => self.update_subnet(acting, &request.spec, id).await,
            Step::CreateRouter => {
                known.router = Some(self.create_router(acting, request).await?);
                Ok(())
            }
            Step::MarkRouter(id) => {
                let mark = names::mark(request.incarnation);
                let body = set_router::RouterBuilder::default().description(mark).build();
                let request = |body| set_router::Request::builder().id(id.clone()).router(body).build();
                self.order(acting, on(Service::Network, "mark-router", &id), flat(body.map(request))).await
            }
            Step::SetGateway(id) => {
                let external = self.way_out().await?;
                let gateway = set_router::ExternalGatewayInfoBuilder::default().network_id(external.0).build();
                let gateway = gateway.map_err(incomplete)?;
                let body = set_router::RouterBuilder::default().external_gateway_info(Some(gateway)).build();
                let request = |body| set_router::Request::builder().id(id.clone()).router(body).build();
                self.order(acting, on(Service::Network, "set-gateway", &id), flat(body.map(request))).await
            }
            Step::Attach => {
                let (router, subnet) = (required(known.router.as_ref())?, required(known.subnet.as_ref())?);
                let endpoint =
                    add_router_interface::Request::builder().id(router.clone()).subnet_id(subnet.clone()).build();
                let attached = self.order(acting, on(Service::Network, "attach-router", router), endpoint).await;
                attached.map_err(unless_done)
            }
        }
    }

    /// The claim of a VLAN stands whatever becomes of the create: one that a cloud stumbled over is not handed to the
    /// next.
    async fn create_network(&self, acting: &Acting, request: &NetworkRequest) -> ProviderResult<String> {
        let name = names::network(request.id);
        let mut body = create_network::NetworkBuilder::default();
        body.name(name.clone()).description(names::described(names::NETWORK_DESCRIPTION, request.incarnation));
        if let Some(networks) = &self.provider.settings.network.provider_networks {
            let ranges = networks.allocatable().into_iter().map(|segment| (segment.start, segment.end));
            let vlan = self.context.ledger.claim_vlan(&ranges.collect::<Vec<_>>()).await?;
            let segment = create_network::SegmentsBuilder::default()
                .provider_network_type("vlan")
                .provider_physical_network(networks.physical_network.clone())
                .provider_segmentation_id(i32::from(vlan.0))
                .build();
            body.segments(vec![segment.map_err(incomplete)?]);
        }
        let endpoint = flat(body.build().map(|body| create_network::Request::builder().network(body).build()));
        let made: Made = self.change(acting, on(Service::Network, "create-network", &name), endpoint).await?;
        Ok(made.id)
    }

    async fn create_subnet(&self, acting: &Acting, request: &NetworkRequest, network: &str) -> ProviderResult<String> {
        let (name, spec) = (names::network(request.id), &request.spec);
        let plan = spec.address_plan();
        let pool = create_subnet::AllocationPoolsBuilder::default()
            .start(plan.dhcp.start.to_string())
            .end(plan.dhcp.end.to_string())
            .build();
        let route = |route: planning::HostRoute| {
            create_subnet::HostRoutesBuilder::default().destination(route.destination).nexthop(route.nexthop).build()
        };
        let routes = planning::wanted_routes(spec).into_iter().map(route).collect::<Result<Vec<_>, _>>();
        let body = create_subnet::SubnetBuilder::default()
            .name(name.clone())
            .description(names::mark(request.incarnation))
            .network_id(network.to_owned())
            .ip_version(4)
            .cidr(Some(spec.prefix.net().to_string().into()))
            .gateway_ip(Some(plan.gateway.to_string().into()))
            .dns_nameservers(planning::wanted_dns(spec).into_iter().map(Into::into).collect::<Vec<_>>())
            .allocation_pools(vec![pool.map_err(incomplete)?])
            .host_routes(routes.map_err(incomplete)?)
            .build();
        let endpoint = flat(body.map(|body| create_subnet::Request::builder().subnet(body).build()));
        let made = self.change(acting, on(Service::Network, "create-subnet", &name), endpoint).await;
        made.map(|made: Made| made.id).map_err(unless_done)
    }

    /// Both lists, whole: what is not in them is cleared (B13).
    async fn update_subnet(&self, acting: &Acting, spec: &NetworkSpec, id: String) -> ProviderResult<()> {
        let route = |route: planning::HostRoute| {
            set_subnet::HostRoutesBuilder::default().destination(route.destination).nexthop(route.nexthop).build()
        };
        let routes = planning::wanted_routes(spec).into_iter().map(route).collect::<Result<Vec<_>, _>>();
        let body = set_subnet::SubnetBuilder::default()
            .dns_nameservers(planning::wanted_dns(spec).into_iter().map(Into::into).collect::<Vec<_>>())
            .host_routes(routes.map_err(incomplete)?)
            .build();
        let operation = on(Service::Network, "update-subnet", &id);
        let endpoint = flat(body.map(|body| set_subnet::Request::builder().id(id).subnet(body).build()));
        self.order(acting, operation, endpoint).await
    }

    async fn create_router(&self, acting: &Acting, request: &NetworkRequest) -> ProviderResult<String> {
        let name = names::network(request.id);
        let external = self.way_out().await?;
        let gateway = create_router::ExternalGatewayInfoBuilder::default().network_id(external.0).build();
        let body = create_router::RouterBuilder::default()
            .name(name.clone())
            .description(names::mark(request.incarnation))
            .external_gateway_info(Some(gateway.map_err(incomplete)?))
            .build();
        let endpoint = flat(body.map(|body| create_router::Request::builder().router(body).build()));
        let made: Made = self.change(acting, on(Service::Network, "create-router", &name), endpoint).await?;
        Ok(made.id)
    }

    /// Who takes things away in a principal's project; nobody, if nothing can ever have been made there.
    pub(super) async fn remover(&self, identity: IdentityId, is_on_record: bool) -> ProviderResult<Option<Acting>> {
        match self.steward_of(identity).await {
            Ok(acting) => Ok(Some(acting)),
            Err(ProviderError::PrincipalMissing) if !is_on_record => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes away everything of this incarnation, doubles included, each part whether or not the others are there (B5).
    pub async fn delete_network(&self, request: &NetworkRequest) -> ProviderResult<Deletion> {
        let mut known = Known::of(request);
        let Some(acting) = self.remover(request.identity, !known.is_empty()).await? else {
            return Ok(Deletion::Absent);
        };
        let seen = self.look_at_network(&acting, request, &known).await?.fact;
        if seen.is_empty() {
            return Ok(Deletion::Absent);
        }
        if let Ok((view, _)) = seen.clone().settled(&known) {
            known.learn(&view);
        }
        self.take_network_away(&acting, &seen).await?;
        let left = self.look_at_network(&acting, request, &known).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }

    /// Interfaces first, by their ports, whatever router they are of; then routers, subnets and networks.
    async fn take_network_away(&self, acting: &Acting, seen: &Sighting) -> ProviderResult<()> {
        let mut removals = Removals::default();
        let mut interfaces = seen.interfaces.clone();
        for network in &seen.networks {
            let endpoint = list_ports::Request::builder().network_id(network.id.clone()).build();
            let ports: Vec<InterfaceBody> =
                self.read(acting, on(Service::Network, "find-ports-of-network", &network.id), endpoint).await?.fact;
            let is_new = |port: &InterfaceBody| interfaces.iter().all(|known| known.id != port.id);
            let others = ports.into_iter().filter(InterfaceBody::is_interface).filter(is_new).collect::<Vec<_>>();
            interfaces.extend(others);
        }
        for port in &interfaces {
            let endpoint =
                remove_router_interface::Request::builder().id(port.device_id.clone()).port_id(port.id.clone()).build();
            removals.add(self.take_away(acting, on(Service::Network, "detach-router", &port.id), endpoint).await)?;
        }
        for router in &seen.routers {
            let endpoint = delete_router::Request::builder().id(router.id.clone()).build();
            removals.add(self.take_away(acting, on(Service::Network, "delete-router", &router.id), endpoint).await)?;
        }
        for subnet in &seen.subnets {
            let endpoint = delete_subnet::Request::builder().id(subnet.id.clone()).build();
            removals.add(self.take_away(acting, on(Service::Network, "delete-subnet", &subnet.id), endpoint).await)?;
        }
        for network in &seen.networks {
            let endpoint = delete_network::Request::builder().id(network.id.clone()).build();
            removals
                .add(self.take_away(acting, on(Service::Network, "delete-network", &network.id), endpoint).await)?;
        }
        removals.end()
    }
}

/// Neutron has one word for what makes no sense and for what an order has done already whose answer was lost. Whoever looks
/// again finds it done.
fn unless_done(error: ProviderError) -> ProviderError {
    match error {
        ProviderError::Rejected(said) if said.contains("overlaps") || said.contains("already has a port") => {
            ProviderError::Conflict(said)
        }
        error => error,
    }
}

/// The id that is known and was not shown.
fn unseen<'a, T: Part>(known: Option<&'a String>, seen: &[T]) -> Option<&'a String> {
    known.filter(|id| seen.iter().all(|part| part.id() != id.as_str()))
}

/// A plan makes parts in the order in which they need each other, so what a step needs is known.
fn required(id: Option<&String>) -> ProviderResult<&String> {
    id.ok_or_else(|| ProviderError::Inconsistent("a part that should have been made is not known".to_owned()))
}
