//! A network's life.
//!
//! ```text
//!   ──▶ waits for its principal ──▶ network, subnet, router made ──▶ Done
//!   deleting ──▶ references drained ──▶ children gone ──▶ router, subnet, network confirmed absent
//!            ──▶ VLAN and quota released, principal told to follow ──▶ gone
//! ```

use super::decision::Step;
use super::kind::{Behaviour, Health};
use crate::model::ids::{IdentityId, Key, Kind, NetworkId};
use crate::model::metadata::ApiVersion;
use crate::model::network::{Network, NetworkDetail};
use crate::model::record::{CorruptRecord, Resource};
use crate::providers::NetworkRequest;
use crate::providers::call::{Fact, ProviderCall};

impl Behaviour for Network {
    const IS_MONITORED: bool = true;

    /// Whatever works on a network goes with it, wherever in the tree it hangs.
    fn is_bridge_to(kind: Kind) -> bool {
        matches!(kind, Kind::Instance | Kind::Cluster)
    }

    fn gates(resource: &Resource<Self>) -> Vec<Key> {
        resource.metadata.placement.identity.map(IdentityId::key).into_iter().collect()
    }

    fn step(resource: &Resource<Self>) -> Result<Step, CorruptRecord> {
        let request = request(resource)?;
        let mut steps = Self::gates(resource).into_iter().map(Step::Gate).collect::<Vec<_>>();
        steps.push(Step::Provider {
            make: Box::new(ProviderCall::ConvergeNetwork(request.clone())),
            unmake: Box::new(ProviderCall::DeleteNetwork(request)),
        });
        Ok(Step::Serial(steps))
    }

    fn absorb(detail: &mut NetworkDetail, fact: &Fact) -> Health {
        let Fact::Network(seen) = fact else { return Health::Healthy };
        // A list does not know the specification that the storage range follows from.
        let storage_range = seen.fact.detail.storage_range.or(detail.storage_range);
        *detail = NetworkDetail { storage_range, ..seen.fact.detail.clone() };
        Health::unless(seen.fact.trouble.clone())
    }

    fn is_realised(detail: &NetworkDetail) -> bool {
        detail.network.is_some()
    }

    fn fingerprint(detail: &NetworkDetail) -> Option<u64> {
        detail.fingerprint
    }

    /// A principal that a user made for itself stays, and may own other networks.
    fn followed_by(resource: &Resource<Self>) -> Option<Key> {
        resource.metadata.owner.filter(|_| resource.metadata.api_version == ApiVersion::V2)
    }
}

fn request(resource: &Resource<Network>) -> Result<NetworkRequest, CorruptRecord> {
    let place = resource.place()?;
    Ok(NetworkRequest {
        id: NetworkId(resource.key.id),
        incarnation: resource.metadata.incarnation,
        identity: resource.identity()?,
        organization: place.organization,
        project: place.project,
        spec: resource.spec.clone(),
        detail: resource.detail.clone(),
    })
}
