//! A load balancer's life.
//!
//! ```text
//!   ──▶ waits for its network ──▶ virtual address, balancer ─┬▶ public address, or none ─┬──▶ Done
//!                                                            └▶ listeners, pools ────────┘
//!                                                                 ▲        │ one change
//!                                                                 └─ busy ◀┘
//!   deleting ──▶ no public address ──▶ balancer, with all in it, confirmed absent ──▶ virtual address ──▶ gone
//! ```
//!
//! A cloud takes one change of a balancer, is busy with it, and refuses every other meanwhile. So a pass makes one
//! change and waits for the cloud; the next one looks at what is there and makes the next. The public address belongs
//! to the virtual one and waits for nothing of this.

use super::decision::Step;
use super::kind::{Behaviour, Health};
use crate::model::ids::{Key, LoadBalancerId, NetworkId};
use crate::model::load_balancer::{LoadBalancer, LoadBalancerDetail, joint_fingerprint};
use crate::model::record::{CorruptRecord, Resource};
use crate::providers::call::{Fact, ProviderCall};
use crate::providers::{AddressSighting, LoadBalancerFact, LoadBalancerRequest};

impl Behaviour for LoadBalancer {
    const IS_MONITORED: bool = true;

    fn gates(resource: &Resource<Self>) -> Vec<Key> {
        resource.metadata.placement.network.map(NetworkId::key).into_iter().collect()
    }

    fn step(resource: &Resource<Self>) -> Result<Step, CorruptRecord> {
        let request = request(resource)?;
        let call = |call: fn(LoadBalancerRequest) -> ProviderCall| Box::new(call(request.clone()));
        let balancer = Step::Provider {
            make: call(ProviderCall::ConvergeLoadBalancer),
            unmake: call(ProviderCall::DeleteLoadBalancer),
        };
        let public_address = Step::Provider {
            make: call(ProviderCall::ConvergePublicAddress),
            unmake: call(ProviderCall::ReleasePublicAddress),
        };
        let parts = Step::Concurrent(vec![
            Step::Conditional { wanted: resource.spec.wants_public_ip(), step: Box::new(public_address) },
            Step::Within(call(ProviderCall::ConvergeListeners)),
        ]);
        let gates = Self::gates(resource).into_iter().map(Step::Gate);
        Ok(Step::Serial(gates.chain([balancer, parts]).collect()))
    }

    fn absorb(detail: &mut LoadBalancerDetail, fact: &Fact) -> Health {
        match fact {
            Fact::LoadBalancer(seen) => absorb(detail, &seen.fact),
            Fact::PublicAddress(seen) => absorb_address(detail, &seen.fact),
            _ => {}
        }
        Health::unless(detail.trouble.clone())
    }

    fn is_realised(detail: &LoadBalancerDetail) -> bool {
        detail.balancer.is_some()
    }

    fn fingerprint(detail: &LoadBalancerDetail) -> Option<u64> {
        detail.balancer_fingerprint.map(|balancer| joint_fingerprint(balancer, detail.address_fingerprint))
    }
}

fn absorb(detail: &mut LoadBalancerDetail, fact: &LoadBalancerFact) {
    let is_the_same = detail.balancer.as_ref() == Some(&fact.balancer);
    detail.built = fact.built || (detail.built && is_the_same);
    detail.balancer = Some(fact.balancer.clone());
    detail.port = Some(fact.port.clone());
    detail.vip_address = fact.vip_address.or(detail.vip_address);
    detail.trouble.clone_from(&fact.trouble);
    detail.balancer_fingerprint = Some(fact.fingerprint);
    absorb_address(detail, &fact.address);
}

fn absorb_address(detail: &mut LoadBalancerDetail, seen: &AddressSighting) {
    let address = match seen {
        AddressSighting::NotLookedAt => return,
        AddressSighting::Absent => None,
        AddressSighting::Present(address) => Some(address),
    };
    detail.floating_ip = address.map(|address| address.id.clone());
    detail.public_ip = address.map(|address| address.address);
    detail.address_fingerprint = address.map(|address| address.fingerprint);
}

fn request(resource: &Resource<LoadBalancer>) -> Result<LoadBalancerRequest, CorruptRecord> {
    let place = resource.place()?;
    Ok(LoadBalancerRequest {
        id: LoadBalancerId(resource.key.id),
        incarnation: resource.metadata.incarnation,
        identity: resource.identity()?,
        network: resource.network()?,
        organization: place.organization,
        project: place.project,
        spec: resource.spec.clone(),
        detail: resource.detail.clone(),
    })
}
