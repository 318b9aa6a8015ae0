//! What a page of the cloud's list says of what is ours.

use uuid::Uuid;

use super::super::call::{Answer, Call, Row};
use super::super::objects::{ObjectId, ObjectKind};
use super::network_plan::{Sighting, fact};
use super::session::{Session, unexpected};
use crate::model::ids::{Key, Kind};
use crate::model::network::NetworkDetail;
use crate::providers::call::Fact;
use crate::providers::{Listed, Listing, NetworkFact, Observed, ProviderError, ProviderResult, Sequence};

impl Session<'_> {
    /// A page of everything of a kind. What carries no marks is not ours and is left out.
    pub async fn list(
        &self,
        kind: Kind,
        only: Option<&[Uuid]>,
        after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>> {
        let (object, listed): (_, fn(Row, Sequence) -> Option<Listed>) = match kind {
            Kind::Network => (ObjectKind::Network, listed_network),
            _ => return Err(ProviderError::Unsupported("lists of this kind")),
        };
        let only = only.map(|ids| ids.iter().copied().collect());
        let after = after.map(|id| ObjectId(id.to_owned()));
        let answer = self.read(Call::List { kind: object, only, after }).await?;
        let Answer::Page { rows, next } = answer.fact else { return Err(unexpected()) };
        let items = rows.into_iter().filter_map(|row| listed(row, answer.sequence)).collect();
        Ok(Observed { sequence: answer.sequence, fact: Listing { items, next: next.map(|id| id.0) } })
    }
}

fn listed_network(row: Row, sequence: Sequence) -> Option<Listed> {
    let marks = row.object.marks?;
    let (subnets, routers) = row.related.into_iter().partition(|object| object.kind() == ObjectKind::Subnet);
    let sighting = Sighting { networks: vec![row.object], subnets, routers };
    let fact = match sighting.consistent() {
        Ok(view) => fact(&view, None),
        Err(error) => NetworkFact { detail: NetworkDetail::default(), trouble: Some(error.to_string()) },
    };
    Some(Listed {
        key: Key::new(Kind::Network, marks.id),
        incarnation: marks.incarnation,
        fingerprint: fact.detail.fingerprint.unwrap_or_default(),
        fact: Fact::Network(Observed { sequence, fact }),
    })
}
