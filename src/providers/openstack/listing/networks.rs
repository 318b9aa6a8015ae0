//! Networks with their subnets and routers, and security groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::super::doubles::Marked as _;
use super::super::names;
use super::super::network_plan::{self, NetworkBody, RouterBody, SubnetBody};
use super::super::security_group_plan::{self, GroupBody};
use super::super::session::Session;
use super::reach::Place;
use super::standing::{Beside, earlier};
use super::{Line, Look, Source, Turned};
use crate::model::ids::{Incarnation, Key, Kind, ProviderNetworkId, ProviderRouterId, ProviderSubnetId};
use crate::model::network::NetworkDetail;
use crate::providers::call::Fact;
use crate::providers::pool::Service;
use crate::providers::{Listed, Listing, NetworkFact, Observed, ProviderResult, SecurityGroupFact, Sequence};

/// The parts of networks, by the network that they are named after.
pub(super) struct NetworkParts {
    sequence: Sequence,
    subnets: BTreeMap<Uuid, SubnetBody>,
    routers: BTreeMap<Uuid, RouterBody>,
}

macro_rules! lines {
    ($($body:ident => $prefix:ident;)*) => {$(
        impl Line for $body {
            fn id(&self) -> &str {
                &self.id
            }
            fn of(&self) -> Option<Uuid> {
                names::id_in(&self.name, names::$prefix)
            }
        }
    )*};
}

lines! {
    NetworkBody => NETWORK_PREFIX;
    SubnetBody => NETWORK_PREFIX;
    RouterBody => NETWORK_PREFIX;
    GroupBody => SECURITY_GROUP_PREFIX;
}

impl Session<'_> {
    pub(super) async fn list_networks(&self, look: Look<'_>) -> ProviderResult<Observed<Listing<Listed>>> {
        let Some(place) = self.place(look, Service::Network).await? else { return Ok(Listing::nothing()) };
        // Before the networks: a part that is made meanwhile is missed, and looked for.
        let parts = self.network_parts(look, &place).await?;
        let source = Source::new(Service::Network, "networks", "list-networks");
        let source = source.with("name", look.names(names::NETWORK_PREFIX));
        let mut page: Turned<NetworkBody> = self.turn(look, &place, source).await?;
        page.sequence = earlier(parts.sequence, page.sequence);
        let sequence = page.sequence;
        Ok(page.told(|network| listed_network(&network, &parts, sequence)))
    }

    pub(super) async fn list_security_groups(&self, look: Look<'_>) -> ProviderResult<Observed<Listing<Listed>>> {
        let Some(place) = self.place(look, Service::Network).await? else { return Ok(Listing::nothing()) };
        let source = Source::new(Service::Network, "security-groups", "list-security-groups");
        let source = source.with("name", look.names(names::SECURITY_GROUP_PREFIX));
        let page: Turned<GroupBody> = self.turn(look, &place, source).await?;
        let sequence = page.sequence;
        Ok(page.told(|group| listed_security_group(&group, sequence)))
    }

    async fn network_parts(&self, look: Look<'_>, place: &Place) -> ProviderResult<Arc<NetworkParts>> {
        let beside = self.beside(look, place).await?;
        if let Some(held) = beside.held(&self.sweeps().network_parts) {
            return Ok(held);
        }
        let (sequence, subnets) = self.parts_by_network(look, &beside, "subnets", "list-subnets").await?;
        let (_, routers) = self.parts_by_network(look, &beside, "routers", "list-routers").await?;
        let parts = Arc::new(NetworkParts { sequence, subnets, routers });
        beside.keep(&mut self.sweeps().network_parts, &parts);
        Ok(parts)
    }

    async fn parts_by_network<T: DeserializeOwned + Send + Line + 'static>(
        &self,
        look: Look<'_>,
        beside: &Beside,
        path: &'static str,
        operation: &'static str,
    ) -> ProviderResult<(Sequence, BTreeMap<Uuid, T>)> {
        let source = Source::new(Service::Network, path, operation).with("name", look.names(names::NETWORK_PREFIX));
        let listed: Observed<Vec<T>> = self.all_beside(beside, &source).await?;
        let parts = listed.fact.into_iter().filter_map(|part| Some((part.of()?, part)));
        Ok((listed.sequence, parts.collect()))
    }
}

/// What says no incarnation is not ours yet: its actor adopts it when it looks.
fn listed_network(network: &NetworkBody, parts: &NetworkParts, sequence: Sequence) -> Option<Listed> {
    let (id, incarnation) = (network.of()?, network.incarnation()?);
    let is_of_it = |marked: Option<Incarnation>| marked.is_none_or(|of| of == incarnation);
    let router = parts.routers.get(&id).filter(|router| is_of_it(router.incarnation()));
    let subnet = parts.subnets.get(&id).filter(|subnet| is_of_it(subnet.incarnation()));
    let fingerprint = network_plan::fingerprint(Some(network), subnet, router);
    let detail = NetworkDetail {
        network: Some(ProviderNetworkId(network.id.clone())),
        subnet: subnet.map(|subnet| ProviderSubnetId(subnet.id.clone())),
        router: router.map(|router| ProviderRouterId(router.id.clone())),
        vlan: network_plan::vlan(network),
        fingerprint: Some(fingerprint),
        ..NetworkDetail::default()
    };
    let fact = NetworkFact { detail, trouble: network_plan::listed_trouble(network, router) };
    let fact = Fact::Network(Observed { sequence, fact });
    Some(Listed { key: Key::new(Kind::Network, id), incarnation, fingerprint, fact })
}

fn listed_security_group(group: &GroupBody, sequence: Sequence) -> Option<Listed> {
    let (id, incarnation) = (group.of()?, group.incarnation()?);
    let fact: SecurityGroupFact = security_group_plan::fact(group);
    let fingerprint = fact.detail.fingerprint.unwrap_or_default();
    let fact = Fact::SecurityGroup(Observed { sequence, fact });
    Some(Listed { key: Key::new(Kind::SecurityGroup, id), incarnation, fingerprint, fact })
}
