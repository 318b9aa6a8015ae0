//! Making and unmaking a load balancer: the port that holds its virtual address, the balancer, its public address.
//!
//! The port comes first and is on record before a balancer is made on it. It takes one balancer only: that is what makes
//! a doubled create impossible, whatever a search fails to show; and it keeps the virtual address when a balancer has to
//! be made again. A balancer that the service before us made has a port of the cloud's own, and keeps it.

use std::collections::BTreeMap;

use openstack_sdk_core::types::ServiceType;
use openstack_sdk_load_balancer::v2::healthmonitor::list as list_monitors;
use openstack_sdk_load_balancer::v2::listener::list as list_listeners;
use openstack_sdk_load_balancer::v2::loadbalancer::{
    delete as delete_balancer, get as get_balancer, list as list_balancers,
};
use openstack_sdk_load_balancer::v2::pool::list as list_pools;
use openstack_sdk_load_balancer::v2::pool::member::list as list_members;
use serde_json::json;

use super::asking::Ask;
use super::connection::Acting;
use super::doubles::{choose, taken_away};
use super::load_balancer_plan::{
    self as planning, BalancerBody, BalancerState, ListenerBody, MemberBody, MonitorBody, Order, Parts, PoolBody,
};
use super::names::{self, Claim};
use super::ports::{NewPort, PortBody};
use super::session::{Removals, Session, at_most_one, on};
use crate::model::ids::ProviderPortId;
use crate::model::load_balancer::LoadBalancerDetail;
use crate::model::record::Document;
use crate::providers::pool::Service;
use crate::providers::{
    Deletion, LoadBalancerFact, LoadBalancerRequest, Observed, ProviderError, ProviderResult, PublicAddress,
};

fn conflict<T>(said: &str) -> ProviderResult<T> {
    Err(ProviderError::Conflict(said.to_owned()))
}

/// Of its port and of its public address.
fn description(request: &LoadBalancerRequest) -> String {
    names::described(&names::load_balancer(request.id), request.incarnation)
}

fn known_port(request: &LoadBalancerRequest) -> Option<&str> {
    request.detail.port.as_ref().map(|port| port.0.as_str())
}

impl Session<'_> {
    pub async fn converge_load_balancer(
        &self,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<LoadBalancerFact>> {
        let acting = self.principal_of(request.identity).await?;
        let seen = self.find_balancers(&acting, request).await?;
        let known = request.detail.balancer.as_ref().map(|id| id.0.as_str());
        let balancers = choose(seen.fact, known, |_| false)?;
        for double in &balancers.doubles {
            self.take_balancer_away(&acting, &double.id).await?;
        }
        if !balancers.doubles.is_empty() {
            return Err(taken_away(&request.id));
        }
        let mut found = balancers.first;
        let has_worked = |balancer: &BalancerBody| request.detail.built && known == Some(balancer.id.as_str());
        let is_failed = |found: &mut BalancerBody| found.state() == BalancerState::Error && !has_worked(found);
        if let Some(balancer) = found.take_if(is_failed) {
            // A failed beginning, which nobody can have used.
            self.take_balancer_away(&acting, &balancer.id).await?;
            if self.balancer(&acting, &balancer.id).await?.is_some() {
                return conflict("a failed beginning is being removed");
            }
        }
        let balancer = match found {
            Some(balancer) => self.marked(&acting, request, balancer).await?,
            None => self.create_load_balancer(&acting, request).await?,
        };
        if balancer.state() == BalancerState::Leaving {
            return conflict("the load balancer is being removed");
        }
        if request.spec.vip_address.is_some_and(|asked| balancer.vip() != Some(asked)) {
            return Err(ProviderError::Inconsistent("another virtual address than was asked for".to_owned()));
        }
        let fact = LoadBalancerFact { unfinished: false, ..balancer.fact() };
        Ok(Observed { sequence: seen.sequence, fact })
    }

    /// The balancers of this name that are nobody else's, and the one on record if it is not among them.
    async fn find_balancers(
        &self,
        acting: &Acting,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<Vec<BalancerBody>>> {
        let name = names::load_balancer(request.id);
        let endpoint = list_balancers::Request::builder().name(name.clone()).build();
        let operation = on(Service::LoadBalancer, "find-balancers", name);
        let mut found: Observed<Vec<BalancerBody>> = self.read(acting, operation, endpoint).await?;
        let is_ours = |balancer: &BalancerBody| balancer.is_of(request.id, request.incarnation);
        found.fact.retain(is_ours);
        let known = request.detail.balancer.as_ref().map(|id| id.0.as_str());
        if let Some(known) = known.filter(|known| found.fact.iter().all(|balancer| balancer.id != *known)) {
            found.fact.extend(self.balancer(acting, known).await?.map(|seen| seen.fact).filter(is_ours));
        }
        Ok(found)
    }

    async fn balancer(&self, acting: &Acting, id: &str) -> ProviderResult<Option<Observed<BalancerBody>>> {
        let endpoint = get_balancer::Request::builder().id(id.to_owned()).build();
        let seen: Option<Observed<BalancerBody>> =
            self.look(acting, on(Service::LoadBalancer, "get-balancer", id), endpoint).await?;
        // It keeps a record of those that are gone.
        Ok(seen.filter(|seen| seen.fact.provisioning_status != "DELETED"))
    }

    /// One that the service before us made does not say which life of it this is.
    async fn marked(
        &self,
        acting: &Acting,
        request: &LoadBalancerRequest,
        balancer: BalancerBody,
    ) -> ProviderResult<BalancerBody> {
        if balancer.claim(request.incarnation) != Claim::Unmarked || balancer.state() != BalancerState::Active {
            return Ok(balancer);
        }
        let tags = balancer.tags.iter().cloned().chain([names::mark(request.incarnation)]).collect::<Vec<_>>();
        let path = format!("lbaas/loadbalancers/{}", balancer.id);
        let ask = Ask::put(ServiceType::LoadBalancer, path, json!({"loadbalancer": {"tags": tags}}));
        let operation = on(Service::LoadBalancer, "mark-balancer", &balancer.id);
        self.change(acting, operation, ask.within("loadbalancer").build()).await
    }

    async fn create_load_balancer(
        &self,
        acting: &Acting,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<BalancerBody> {
        let port = self.vip_port(acting, request).await?;
        let noted = Some(ProviderPortId(port.id.clone()));
        if request.detail.port != noted {
            let detail = LoadBalancerDetail { port: noted, ..request.detail.clone() };
            self.context.ledger.note(Document::of(&detail)).await?;
        }
        let body = planning::new_balancer(request, &port.id);
        let ask = Ask::post(ServiceType::LoadBalancer, "lbaas/loadbalancers".to_owned(), body);
        let operation = on(Service::LoadBalancer, "create-balancer", request.id);
        match self.change(acting, operation, ask.within("loadbalancer").build()).await {
            Err(ProviderError::Rejected(said)) => {
                // Octavia has one word for what is wrong and for what came too late: is there a balancer on it by now?
                let port = self.port(acting, &port.id).await?;
                let is_taken = port.is_none_or(|port| !port.device_id.is_empty());
                Err(if is_taken { ProviderError::Conflict(said) } else { ProviderError::Rejected(said) })
            }
            made => made,
        }
    }

    /// The port that a balancer is made on.
    async fn vip_port(&self, acting: &Acting, request: &LoadBalancerRequest) -> ProviderResult<PortBody> {
        let (name, known) = (names::load_balancer(request.id), known_port(request));
        let found = self.find_ports(acting, &name, request.incarnation, known).await?.fact;
        let port = match self.only_port(acting, found, known).await? {
            // What had it is gone: the cloud has said that there is no balancer.
            Some(port) if !port.device_id.is_empty() => self.free_port(acting, &port.id).await?,
            Some(port) => port,
            None => {
                let new = NewPort {
                    name,
                    network: self.network_of(acting, request.network).await?,
                    description: description(request),
                    options: None,
                    address: request.spec.vip_address,
                };
                self.create_port(acting, &new).await?
            }
        };
        if request.spec.vip_address.is_some_and(|asked| port.address() != Some(asked)) {
            return Err(ProviderError::Inconsistent("another virtual address than was asked for".to_owned()));
        }
        Ok(port)
    }

    /// Makes the next change, if the balancer takes one now.
    pub async fn converge_listeners(
        &self,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<LoadBalancerFact>> {
        let acting = self.principal_of(request.identity).await?;
        let Some(known) = &request.detail.balancer else { return conflict("the load balancer is not there") };
        let Some(seen) = self.balancer(&acting, &known.0).await? else {
            return conflict("the load balancer is not there");
        };
        let Observed { sequence, fact: balancer } = seen;
        if balancer.state() != BalancerState::Active {
            return Ok(Observed { sequence, fact: balancer.fact() });
        }
        let parts = self.balancer_parts(&acting, request, &balancer).await?;
        let Some(change) = parts.topology.next_change(&request.spec.topology()) else {
            return Ok(Observed { sequence, fact: balancer.fact() });
        };
        let Some(order) = planning::order(request.id, &balancer.id, &parts, &change) else {
            return conflict("a part of the load balancer has just gone");
        };
        self.configure(&acting, &balancer.id, order).await?;
        let Some(after) = self.balancer(&acting, &balancer.id).await? else {
            return conflict("the load balancer has just gone");
        };
        // However quick the cloud was: there may be more to be done.
        let fact = LoadBalancerFact { unfinished: true, ..after.fact.fact() };
        Ok(Observed { sequence: after.sequence, fact })
    }

    async fn configure(&self, acting: &Acting, balancer: &str, order: Order) -> ProviderResult<()> {
        let operation = |name| on(Service::LoadBalancer, name, balancer);
        match order {
            Order::Post { path, body } => {
                let ask = Ask::post(ServiceType::LoadBalancer, path, body);
                self.order(acting, operation("add-balancer-part"), ask.build()).await
            }
            Order::Put { path, body } => {
                let ask = Ask::put(ServiceType::LoadBalancer, path, body);
                self.order(acting, operation("set-balancer-part"), ask.build()).await
            }
            Order::Delete { path } => {
                let ask = Ask::delete(ServiceType::LoadBalancer, path);
                self.take_away(acting, operation("remove-balancer-part"), ask.build()).await
            }
        }
    }

    /// Everything that a balancer is made of. Nothing changes meanwhile but by our hand, or the balancer would be busy.
    async fn balancer_parts(
        &self,
        acting: &Acting,
        request: &LoadBalancerRequest,
        balancer: &BalancerBody,
    ) -> ProviderResult<Parts> {
        let id = &balancer.id;
        let on_parts = |name| on(Service::LoadBalancer, name, id);
        let endpoint = list_listeners::Request::builder().load_balancer_id(id.clone()).build();
        let listeners: Vec<ListenerBody> = self.read(acting, on_parts("list-listeners"), endpoint).await?.fact;
        let endpoint = list_pools::Request::builder().loadbalancer_id(id.clone()).build();
        let pools: Vec<PoolBody> = self.read(acting, on_parts("list-pools"), endpoint).await?.fact;
        let mut members = BTreeMap::new();
        for (_, pool) in planning::own_pools(request.id, &pools) {
            let endpoint = list_members::Request::builder().pool_id(pool.clone()).build();
            let operation = on(Service::LoadBalancer, "list-members", &pool);
            let listed: Vec<MemberBody> = self.read(acting, operation, endpoint).await?.fact;
            members.insert(pool, listed);
        }
        let monitors = if pools.is_empty() {
            Vec::<MonitorBody>::new()
        } else {
            let endpoint = list_monitors::Request::builder().build();
            self.read(acting, on(Service::LoadBalancer, "list-monitors", ""), endpoint).await?.fact
        };
        Ok(Parts::of(request.id, listeners, &pools, &members, &monitors))
    }

    async fn take_balancer_away(&self, acting: &Acting, id: &str) -> ProviderResult<()> {
        let endpoint = delete_balancer::Request::builder().id(id.to_owned()).cascade(true).build();
        self.take_away(acting, on(Service::LoadBalancer, "delete-balancer", id), endpoint).await
    }

    /// Takes away everything of this incarnation, doubles included. What is busy is waited for: the cloud would refuse.
    pub async fn delete_load_balancer(&self, request: &LoadBalancerRequest) -> ProviderResult<Deletion> {
        let acting = match self.principal_of(request.identity).await {
            // Nothing was ever made for it: there was nobody to make it.
            Err(ProviderError::PrincipalMissing) if request.detail.port.is_none() => return Ok(Deletion::Absent),
            acting => acting?,
        };
        let seen = self.find_balancers(&acting, request).await?.fact;
        if !seen.is_empty() {
            let mut removals = Removals::default();
            let is_idle =
                |balancer: &&BalancerBody| matches!(balancer.state(), BalancerState::Active | BalancerState::Error);
            for balancer in seen.iter().filter(is_idle) {
                removals.add(self.take_balancer_away(&acting, &balancer.id).await)?;
            }
            removals.end()?;
            if !self.find_balancers(&acting, request).await?.fact.is_empty() {
                return Ok(Deletion::Underway);
            }
        }
        let (name, known) = (names::load_balancer(request.id), known_port(request));
        let ports = self.find_ports(&acting, &name, request.incarnation, known).await?.fact;
        if ports.is_empty() {
            return Ok(Deletion::Absent);
        }
        let mut removals = Removals::default();
        for port in &ports {
            removals.add(self.delete_port(&acting, &port.id).await)?;
        }
        removals.end()?;
        let left = self.find_ports(&acting, &name, request.incarnation, known).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }

    pub async fn converge_public_address(
        &self,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<PublicAddress>> {
        let acting = self.principal_of(request.identity).await?;
        let Some(port) = known_port(request) else { return conflict("there is no virtual address") };
        let description = description(request);
        let known = request.detail.floating_ip.as_ref().map(|id| id.0.as_str());
        let seen = self.find_floating_ips(&acting, Some(port), &description, request.incarnation, known).await?;
        let mut found = at_most_one(seen.fact, "floating address")?;
        if let Some(failed) = found.take_if(|found| found.has_failed()) {
            self.delete_floating_ip(&acting, &failed.id).await?;
            if self.floating_ip(&acting, &failed.id).await?.is_some() {
                return conflict("a failed beginning is being removed");
            }
        }
        let floating_ip = match found {
            Some(found) if found.port_id == port && found.description == description => found,
            Some(found) => self.update_floating_ip(&acting, &found.id, port, &description).await?,
            None => self.create_floating_ip(&acting, port, &description).await?,
        };
        match floating_ip.public_address() {
            Some(fact) => Ok(Observed { sequence: seen.sequence, fact }),
            None => conflict("the public address is changing"),
        }
    }

    pub async fn release_public_address(&self, request: &LoadBalancerRequest) -> ProviderResult<Observed<Deletion>> {
        let acting = self.principal_of(request.identity).await?;
        let (port, description) = (known_port(request), description(request));
        let known = request.detail.floating_ip.as_ref().map(|id| id.0.as_str());
        let look = || self.find_floating_ips(&acting, port, &description, request.incarnation, known);
        let seen = look().await?;
        if seen.fact.is_empty() {
            return Ok(Observed { sequence: seen.sequence, fact: Deletion::Absent });
        }
        for floating_ip in &seen.fact {
            self.delete_floating_ip(&acting, &floating_ip.id).await?;
        }
        let left = look().await?;
        let fact = if left.fact.is_empty() { Deletion::Absent } else { Deletion::Underway };
        Ok(Observed { sequence: left.sequence, fact })
    }
}
