//! What a page of the cloud's list says of our networks.

use super::super::call::{Answer, Row};
use super::super::objects::ObjectKind;
use super::network_plan::{Sighting, fact};
use super::session::unexpected;
use crate::model::ids::NetworkId;
use crate::model::network::NetworkDetail;
use crate::providers::{ListedNetwork, Listing, NetworkFact, ProviderResult};

pub(super) type Page = Listing<ListedNetwork>;

/// Networks that carry no marks are not ours and are left out.
pub(super) fn page(answer: Answer) -> ProviderResult<Page> {
    let Answer::Page { rows, next } = answer else { return Err(unexpected()) };
    let items = rows.into_iter().filter_map(listed).collect();
    Ok(Listing { items, next: next.map(|id| id.0) })
}

fn listed(row: Row) -> Option<ListedNetwork> {
    let marks = row.object.marks?;
    let (subnets, routers) = row.related.into_iter().partition(|object| object.kind() == ObjectKind::Subnet);
    let sighting = Sighting { networks: vec![row.object], subnets, routers };
    let fact = match sighting.consistent() {
        Ok(view) => fact(&view, None),
        Err(error) => NetworkFact { detail: NetworkDetail::default(), trouble: Some(error.to_string()) },
    };
    Some(ListedNetwork { id: NetworkId(marks.id), incarnation: marks.incarnation, fact })
}
