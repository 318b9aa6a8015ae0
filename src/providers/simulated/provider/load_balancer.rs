//! Making and unmaking a load balancer: the port that holds its virtual address, the balancer, its public address.
//!
//! The port comes first and is on record before a balancer is made on it. It takes one balancer only: that is what makes
//! a doubled create impossible, whatever a search fails to show; and it keeps the virtual address when a balancer has to
//! be made again. Listeners are looked at by the balancer's id, which never lags behind.

use super::super::call::Call;
use super::super::objects::{
    Body, CloudObject, Marks, NewObject, ObjectId, ObjectKind, ObjectState, PortAddress, PortOptions,
};
use super::fingerprint::Fingerprint;
use super::security_group::removals;
use super::session::{Session, at_most_one};
use super::tags;
use crate::model::ids::{ProviderFloatingIpId, ProviderLoadBalancerId, ProviderPortId};
use crate::model::load_balancer::LoadBalancerDetail;
use crate::model::load_balancer_topology::{CloudListener, CloudPool};
use crate::model::record::Document;
use crate::providers::{
    AddressSighting, Deletion, LoadBalancerFact, LoadBalancerRequest, Observed, ProviderError, ProviderResult,
    PublicAddress,
};

const fn marks(request: &LoadBalancerRequest) -> Marks {
    Marks { id: request.id.0, incarnation: request.incarnation }
}

fn known_balancer(request: &LoadBalancerRequest) -> Option<ObjectId> {
    request.detail.balancer.as_ref().map(|id| ObjectId(id.0.clone()))
}

fn known_port(request: &LoadBalancerRequest) -> Option<ObjectId> {
    request.detail.port.as_ref().map(|id| ObjectId(id.0.clone()))
}

fn known_address(request: &LoadBalancerRequest) -> Option<ObjectId> {
    request.detail.floating_ip.as_ref().map(|id| ObjectId(id.0.clone()))
}

/// The name is for people to read: nothing is found by it.
fn creation(request: &LoadBalancerRequest, body: Body) -> Call {
    let tags = tags(request.organization, request.project);
    let object = NewObject { name: format!("load-balancer-{}", request.id), marks: Some(marks(request)), tags, body };
    Call::Create { object }
}

fn conflict<T>(said: &str) -> ProviderResult<T> {
    Err(ProviderError::Conflict(said.to_owned()))
}

impl Session<'_> {
    pub async fn converge_load_balancer(
        &self,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<LoadBalancerFact>> {
        let known = known_balancer(request);
        let seen = self.find_own(ObjectKind::LoadBalancer, marks(request), known.as_ref()).await?;
        let mut found = at_most_one(seen.fact, "load balancer")?;
        let has_worked = |balancer: &CloudObject| request.detail.built && known.as_ref() == Some(&balancer.id);
        if let Some(balancer) = found.take_if(|found| found.state == ObjectState::Error && !has_worked(found)) {
            // A failed beginning, which nobody can have used.
            self.discard(&balancer).await?;
        }
        let port = self.vip_port(request, found.as_ref()).await?;
        let balancer = match found {
            Some(balancer) => balancer,
            None => self.create_load_balancer(request, &port).await?,
        };
        if balancer.state == ObjectState::Deleting {
            return conflict("the load balancer is being removed");
        }
        let vip_address = port.port_address().map(|address| address.ip);
        let fact = LoadBalancerFact { vip_address, unfinished: false, ..fact(&balancer, &port.id) };
        Ok(Observed { sequence: seen.sequence, fact })
    }

    /// The port of the balancer, if there is one, or the port that it will be made on.
    async fn vip_port(
        &self,
        request: &LoadBalancerRequest,
        balancer: Option<&CloudObject>,
    ) -> ProviderResult<CloudObject> {
        let found = match balancer.and_then(|balancer| balancer.body.parent()) {
            Some((kind, id)) => self.get(kind, id).await?.into_iter().collect(),
            None => self.find_own(ObjectKind::Port, marks(request), known_port(request).as_ref()).await?.fact,
        };
        let mut found = at_most_one(found, "port")?;
        if let Some(port) = found.take_if(|port| port.state == ObjectState::Error && balancer.is_none()) {
            self.discard(&port).await?;
        }
        let port = match found {
            Some(port) => port,
            None if balancer.is_some() => return conflict("the load balancer is going with its port"),
            None => self.create_vip_port(request).await?,
        };
        if matches!(port.state, ObjectState::Building | ObjectState::Deleting) {
            return conflict("the port of the virtual address is changing");
        }
        let given = port.port_address().map(|address| address.ip);
        if request.spec.vip_address.is_some_and(|asked| given != Some(asked)) {
            return Err(ProviderError::Inconsistent("another virtual address than was asked for".to_owned()));
        }
        Ok(port)
    }

    async fn create_vip_port(&self, request: &LoadBalancerRequest) -> ProviderResult<CloudObject> {
        let network = self.network_of(request.network).await?;
        // The cloud gives it its hardware address.
        let address = request.spec.vip_address.map(|ip| PortAddress { ip, mac: String::new() });
        self.change(creation(request, Body::Port { network, options: PortOptions::default(), address })).await
    }

    async fn create_load_balancer(
        &self,
        request: &LoadBalancerRequest,
        port: &CloudObject,
    ) -> ProviderResult<CloudObject> {
        let noted = Some(ProviderPortId(port.id.0.clone()));
        if request.detail.port != noted {
            let detail = LoadBalancerDetail { port: noted, ..request.detail.clone() };
            self.context.ledger.note(Document::of(&detail)).await?;
        }
        let body = Body::LoadBalancer { port: port.id.clone(), topology: request.spec.topology() };
        self.change(creation(request, body)).await
    }

    /// Makes the next change, if the balancer takes one now.
    pub async fn converge_listeners(
        &self,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<LoadBalancerFact>> {
        let Some(known) = known_balancer(request) else { return conflict("the load balancer is not there") };
        let Some(seen) = self.look_at(ObjectKind::LoadBalancer, &known).await? else {
            return conflict("the load balancer is not there");
        };
        let mut balancer = seen.fact;
        let Body::LoadBalancer { port, topology } = &balancer.body else { return Err(super::session::unexpected()) };
        let port = port.clone();
        let is_free = balancer.state == ObjectState::Active && balancer.pending.is_none();
        if let Some(change) = topology.next_change(&request.spec.topology()).filter(|_| is_free) {
            balancer = self.change(Call::Configure { balancer: known, change }).await?;
        }
        let fact = LoadBalancerFact { vip_address: request.detail.vip_address, ..fact(&balancer, &port) };
        Ok(Observed { sequence: seen.sequence, fact })
    }

    /// Takes away everything of this incarnation, doubles included. What is busy is waited for: the cloud would refuse.
    pub async fn delete_load_balancer(&self, request: &LoadBalancerRequest) -> ProviderResult<Deletion> {
        let marks = marks(request);
        let known = known_balancer(request);
        let seen = self.find_own(ObjectKind::LoadBalancer, marks, known.as_ref()).await?.fact;
        if let Some(first) = seen.first().map(|balancer| balancer.id.clone()) {
            let idle = seen.iter().filter(|balancer| balancer.pending.is_none());
            self.take_all_away(removals(idle)).await?;
            let known = known.or(Some(first));
            let left = self.find_own(ObjectKind::LoadBalancer, marks, known.as_ref()).await?.fact;
            if !left.is_empty() {
                return Ok(Deletion::Underway);
            }
        }
        self.confirm_absent(ObjectKind::Port, marks, known_port(request)).await.map(|seen| seen.fact)
    }

    /// Takes away all of a kind that was made for one incarnation, and looks whether it is gone.
    async fn confirm_absent(
        &self,
        kind: ObjectKind,
        marks: Marks,
        known: Option<ObjectId>,
    ) -> ProviderResult<Observed<Deletion>> {
        let seen = self.find_own(kind, marks, known.as_ref()).await?;
        let Some(first) = seen.fact.first().map(|object| object.id.clone()) else {
            return Ok(Observed { sequence: seen.sequence, fact: Deletion::Absent });
        };
        self.take_all_away(removals(&seen.fact)).await?;
        let left = self.find_own(kind, marks, known.or(Some(first)).as_ref()).await?;
        let fact = if left.fact.is_empty() { Deletion::Absent } else { Deletion::Underway };
        Ok(Observed { sequence: left.sequence, fact })
    }

    pub async fn converge_public_address(
        &self,
        request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<PublicAddress>> {
        let Some(port) = known_port(request) else { return conflict("there is no virtual address") };
        let known = known_address(request);
        let seen = self.find_own(ObjectKind::FloatingIp, marks(request), known.as_ref()).await?;
        let mut found = at_most_one(seen.fact, "floating address")?;
        if let Some(failed) = found.take_if(|found| found.state == ObjectState::Error) {
            self.discard(&failed).await?;
        }
        let floating_ip = if let Some(floating_ip) = found {
            floating_ip
        } else {
            let body = Body::FloatingIp { port, external_network: self.way_out().await?, address: None };
            self.change(creation(request, body)).await?
        };
        match public_address(&floating_ip).filter(|_| floating_ip.state == ObjectState::Active) {
            Some(fact) => Ok(Observed { sequence: seen.sequence, fact }),
            None => conflict("the public address is changing"),
        }
    }

    pub async fn release_public_address(&self, request: &LoadBalancerRequest) -> ProviderResult<Observed<Deletion>> {
        self.confirm_absent(ObjectKind::FloatingIp, marks(request), known_address(request)).await
    }
}

pub(super) fn public_address(floating_ip: &CloudObject) -> Option<PublicAddress> {
    let address = floating_ip.floating_address()?;
    let mut digest = Fingerprint::new();
    digest.head(floating_ip);
    digest.number(u32::from(address));
    Some(PublicAddress { id: ProviderFloatingIpId(floating_ip.id.0.clone()), address, fingerprint: digest.value() })
}

/// What was seen of a balancer, without its addresses.
pub(super) fn fact(balancer: &CloudObject, port: &ObjectId) -> LoadBalancerFact {
    let built = balancer.state == ObjectState::Active;
    LoadBalancerFact {
        balancer: ProviderLoadBalancerId(balancer.id.0.clone()),
        port: ProviderPortId(port.0.clone()),
        vip_address: None,
        built,
        unfinished: balancer.state == ObjectState::Building || (built && balancer.pending.is_some()),
        trouble: match balancer.state {
            ObjectState::Active | ObjectState::Building => None,
            ObjectState::Error => Some("the load balancer is in an error state".to_owned()),
            ObjectState::Deleting => Some("the load balancer is being removed".to_owned()),
        },
        fingerprint: fingerprint(balancer),
        address: AddressSighting::NotLookedAt,
    }
}

fn fingerprint(balancer: &CloudObject) -> u64 {
    let mut digest = Fingerprint::new();
    digest.head(balancer);
    digest.number(balancer.pending.is_some());
    let Some(topology) = balancer.topology() else { return digest.value() };
    digest.number(topology.listeners.len() as u64);
    for (name, listener) in &topology.listeners {
        digest.text(&name.to_string());
        digest_listener(&mut digest, listener);
    }
    for (name, pool) in &topology.pools {
        digest.text(&name.to_string());
        digest_pool(&mut digest, pool);
    }
    digest.value()
}

fn digest_listener(digest: &mut Fingerprint, listener: &CloudListener) {
    digest.number(listener.protocol as u64);
    digest.number(listener.port);
    // Never zero where there is one.
    digest.number(listener.idle_timeout_seconds.unwrap_or_default());
    digest.number(listener.allowed.len() as u64);
    for allowed in &listener.allowed {
        digest.number(u32::from(allowed.network()));
        digest.number(allowed.prefix_len());
    }
}

fn digest_pool(digest: &mut Fingerprint, pool: &CloudPool) {
    digest.number(pool.protocol as u64);
    digest.number(pool.members.len() as u64);
    for member in &pool.members {
        digest.number(u32::from(member.address));
        digest.number(member.port);
    }
    digest.number(pool.monitor.is_some());
    if let Some(monitor) = pool.monitor {
        digest.number(monitor.interval_seconds);
        digest.number(monitor.timeout_seconds);
        digest.number(monitor.healthy_threshold);
        digest.number(monitor.unhealthy_threshold);
    }
}
