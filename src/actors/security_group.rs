//! A security group's life.
//!
//! ```text
//!   ──▶ waits for its network, or its principal ──▶ group made, rules as asked for ──▶ Done
//!   deleting ──▶ servers that use it are gone ──▶ group confirmed absent ──▶ gone
//! ```

use super::decision::Step;
use super::kind::{Behaviour, Health};
use crate::model::ids::{IdentityId, Key, NetworkId, SecurityGroupId};
use crate::model::record::{CorruptRecord, Resource};
use crate::model::security_group::{SecurityGroup, SecurityGroupDetail};
use crate::providers::SecurityGroupRequest;
use crate::providers::call::{Fact, ProviderCall};

impl Behaviour for SecurityGroup {
    const IS_MONITORED: bool = true;

    fn gates(resource: &Resource<Self>) -> Vec<Key> {
        let placement = &resource.metadata.placement;
        // One of the first version lies in no network: it is for all those of its principal.
        placement.network.map(NetworkId::key).or(placement.identity.map(IdentityId::key)).into_iter().collect()
    }

    fn step(resource: &Resource<Self>) -> Result<Step, CorruptRecord> {
        let request = request(resource)?;
        let mut steps = Self::gates(resource).into_iter().map(Step::Gate).collect::<Vec<_>>();
        steps.push(Step::Provider {
            make: Box::new(ProviderCall::ConvergeSecurityGroup(request.clone())),
            unmake: Box::new(ProviderCall::DeleteSecurityGroup(request)),
        });
        Ok(Step::Serial(steps))
    }

    fn absorb(detail: &mut SecurityGroupDetail, fact: &Fact) -> Health {
        let Fact::SecurityGroup(seen) = fact else { return Health::Healthy };
        detail.clone_from(&seen.fact.detail);
        Health::unless(seen.fact.trouble.clone())
    }

    fn is_realised(detail: &SecurityGroupDetail) -> bool {
        detail.group.is_some()
    }

    fn fingerprint(detail: &SecurityGroupDetail) -> Option<u64> {
        detail.fingerprint
    }
}

fn request(resource: &Resource<SecurityGroup>) -> Result<SecurityGroupRequest, CorruptRecord> {
    let place = resource.place()?;
    Ok(SecurityGroupRequest {
        id: SecurityGroupId(resource.key.id),
        incarnation: resource.metadata.incarnation,
        identity: resource.identity()?,
        organization: place.organization,
        project: place.project,
        spec: resource.spec.clone(),
        detail: resource.detail.clone(),
    })
}
