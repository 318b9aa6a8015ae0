//! A network with a load balancer on it: what the tests of load balancers share.

use super::super::super::objects::CloudObject;
use super::*;
use crate::actors::kind::Behaviour;
use crate::model::ids::LoadBalancerId;
use crate::model::load_balancer::{
    BalancedProtocol, HealthCheck, Listener, ListenerName, LoadBalancer, LoadBalancerDetail, LoadBalancerSpec, Member,
    Pool,
};
use crate::model::load_balancer_topology::Topology;
use crate::providers::LoadBalancerRequest;
use crate::providers::call::{Fact, ProviderCall};

pub const BALANCER: u128 = 50;

/// A rig whose principal and network are made; the balancer is what is tested.
pub struct Balancers {
    pub rig: Rig,
    pub spec: LoadBalancerSpec,
}

impl AsMut<Rig> for Balancers {
    fn as_mut(&mut self) -> &mut Rig {
        &mut self.rig
    }
}

pub fn name(text: &str) -> ListenerName {
    ListenerName::try_from(text.to_owned()).expect("a name")
}

pub fn listener(text: &str, port: u16) -> Listener {
    let address = "192.168.0.200".parse().expect("an address");
    Listener {
        name: name(text),
        protocol: BalancedProtocol::Tcp,
        port,
        allowed_cidrs: Some(vec![Prefix::parse("10.9.0.0/24").expect("a prefix")]),
        idle_timeout_seconds: None,
        pool: Pool {
            proxy_protocol_v2: None,
            members: vec![Member { address, port }],
            health_check: Some(HealthCheck::default()),
        },
    }
}

impl Balancers {
    /// The network is there, nothing else.
    pub async fn new() -> Self {
        Self::on(Rig::made().await)
    }

    pub fn on(rig: Rig) -> Self {
        let listeners = vec![listener("web", 80), listener("tls", 443)];
        Self { rig, spec: LoadBalancerSpec { vip_address: None, public_ip: Some(true), listeners } }
    }

    pub async fn made() -> Self {
        let balancers = Self::new().await;
        balancers.make().await;
        balancers
    }

    pub fn request(&self) -> LoadBalancerRequest {
        let NetworkRequest { id: network, incarnation, identity, organization, project, .. } = self.rig.network();
        LoadBalancerRequest {
            id: LoadBalancerId(Uuid::from_u128(BALANCER)),
            incarnation,
            identity,
            network,
            organization,
            project,
            spec: self.spec.clone(),
            detail: self.recorded(),
        }
    }

    pub fn recorded(&self) -> LoadBalancerDetail {
        self.rig.written.lock().expect("lock").balancer.clone()
    }

    /// Makes a call, and puts on record what an actor would.
    pub async fn call(&self, call: fn(LoadBalancerRequest) -> ProviderCall) -> Option<ProviderResult<Fact>> {
        let call = call(self.request());
        let work = async |provider: &SimulatedProvider, context: &CallContext<'_>| call.make(provider, context).await;
        let result = self.rig.run_about(Kind::LoadBalancer, work).await?;
        if let Ok(fact) = &result {
            LoadBalancer::absorb(&mut self.rig.written.lock().expect("lock").balancer, fact);
        }
        Some(result)
    }

    /// One pass upwards, as the actor's steps have it: is everything as asked for?
    pub async fn pass(&self) -> Option<ProviderResult<bool>> {
        let public = if self.spec.wants_public_ip() {
            ProviderCall::ConvergePublicAddress
        } else {
            ProviderCall::ReleasePublicAddress
        };
        let mut finished = true;
        for call in [ProviderCall::ConvergeLoadBalancer, public, ProviderCall::ConvergeListeners] {
            match self.call(call).await? {
                Err(error) => return Some(Err(error)),
                Ok(fact) => finished &= !fact.is_unfinished() && fact != Fact::Deletion(Deletion::Underway),
            }
        }
        Some(Ok(finished))
    }

    /// One pass downwards: is everything gone?
    pub async fn unpass(&self) -> Option<ProviderResult<bool>> {
        for call in [ProviderCall::ReleasePublicAddress, ProviderCall::DeleteLoadBalancer] {
            match self.call(call).await? {
                Err(error) => return Some(Err(error)),
                Ok(Fact::Deletion(Deletion::Underway)) => return Some(Ok(false)),
                Ok(_) => {}
            }
        }
        Some(Ok(true))
    }

    /// Passes without trouble until everything is as asked for; `None` when the process died in one.
    pub async fn try_to_make(&self) -> Option<()> {
        while !self.pass().await?.expect("converges") {
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
        }
        Some(())
    }

    pub async fn try_to_unmake(&self) -> Option<()> {
        while !self.unpass().await?.expect("goes") {
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
        }
        Some(())
    }

    pub async fn make(&self) {
        self.try_to_make().await.expect("alive");
    }

    /// Again until it is so, with a pause in between, whatever goes wrong.
    pub async fn make_persistently(&self) {
        retry(async || self.pass().await.expect("alive") == Ok(true)).await;
    }

    pub async fn unmake_persistently(&self) {
        retry(async || self.unpass().await.expect("alive") == Ok(true)).await;
    }

    pub async fn balancer(&self) -> CloudObject {
        self.rig.inventory().await.load_balancers.first().expect("a balancer").clone()
    }

    pub async fn topology(&self) -> Topology {
        self.balancer().await.topology().expect("a balancer").clone()
    }

    /// One of each, as asked for, on record, and never two of anything.
    pub async fn assert_exactly_what_was_asked_for(&self, said: &str) {
        let inventory = self.rig.inventory().await;
        let public = usize::from(self.spec.wants_public_ip());
        let counts = (inventory.load_balancers.len(), inventory.ports.len(), inventory.floating_ips.len());
        assert_eq!(counts, (1, 1, public), "{said}");
        let balancer = &inventory.load_balancers[0];
        assert_eq!(balancer.topology(), Some(&self.spec.topology()), "{said}");
        assert_eq!(balancer.body.parent().map(|(_, port)| port), Some(&inventory.ports[0].id), "{said}");
        let recorded = self.recorded();
        assert_eq!(recorded.balancer.map(|id| id.0), Some(balancer.id.0.clone()), "{said}");
        let vip = inventory.ports[0].port_address().map(|address| address.ip);
        assert_eq!((recorded.vip_address, recorded.built), (vip, true), "{said}");
        assert_eq!(
            recorded.public_ip,
            inventory.floating_ips.first().and_then(CloudObject::floating_address),
            "{said}"
        );
        self.rig.assert_no_doubles(said).await;
    }

    /// Nothing of the balancer is left; the network is.
    pub async fn assert_nothing_left(&self, said: &str) {
        let inventory = self.rig.inventory().await;
        let lists = [&inventory.load_balancers, &inventory.ports, &inventory.floating_ips];
        assert!(lists.iter().all(|list| list.is_empty()), "{said}: {lists:?}");
        assert_eq!(inventory.networks.len(), 1, "{said}");
    }
}
