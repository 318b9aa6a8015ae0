//! What a page of the cloud's list says of what is ours.

use uuid::Uuid;

use super::super::call::{Answer, Call, Row};
use super::super::objects::{ObjectId, ObjectKind};
use super::network_plan::{Sighting, fact};
use super::server_plan::View;
use super::session::{Session, unexpected};
use super::{file_storage, image, load_balancer, security_group, server_plan, volume};
use crate::model::ids::{Key, Kind};
use crate::model::load_balancer::joint_fingerprint;
use crate::model::network::NetworkDetail;
use crate::providers::call::Fact;
use crate::providers::{
    AddressSighting, Listed, Listing, NetworkFact, Observed, ProviderError, ProviderResult, Sequence,
};

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
            Kind::SecurityGroup => (ObjectKind::SecurityGroup, listed_security_group),
            Kind::LoadBalancer => (ObjectKind::LoadBalancer, listed_load_balancer),
            Kind::Server => (ObjectKind::Server, listed_server),
            Kind::Volume => (ObjectKind::Volume, listed_volume),
            Kind::Image => (ObjectKind::Image, listed_image),
            Kind::FileStorage => (ObjectKind::Share, file_storage::listed),
            _ => return Err(ProviderError::Unsupported("lists of this kind")),
        };
        let only = only.map(|ids| ids.iter().copied().collect());
        let after = after.map(|id| ObjectId(id.to_owned()));
        let answer = self.read_alone(Call::List { kind: object, only, after }).await?;
        let Answer::Page { rows, next } = answer.fact else { return Err(unexpected()) };
        let items = rows.into_iter().filter_map(|row| listed(row, answer.sequence)).collect();
        Ok(Observed {
            sequence: answer.sequence,
            fact: Listing { items, next: next.map(|id| id.0), unsure: Vec::new() },
        })
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

fn listed_security_group(row: Row, sequence: Sequence) -> Option<Listed> {
    let Row { object, .. } = row;
    let marks = object.marks?;
    let fact = security_group::fact(&object);
    Some(Listed {
        key: Key::new(Kind::SecurityGroup, marks.id),
        incarnation: marks.incarnation,
        fingerprint: fact.detail.fingerprint.unwrap_or_default(),
        fact: Fact::SecurityGroup(Observed { sequence, fact }),
    })
}

fn listed_image(row: Row, sequence: Sequence) -> Option<Listed> {
    let Row { object, .. } = row;
    let marks = object.marks?;
    let fact = image::fact(&object);
    Some(Listed {
        key: Key::new(Kind::Image, marks.id),
        incarnation: marks.incarnation,
        fingerprint: fact.fingerprint,
        fact: Fact::Image(Observed { sequence, fact }),
    })
}

/// Whose server has it is for its actor to find, when it looks.
fn listed_volume(row: Row, sequence: Sequence) -> Option<Listed> {
    let Row { object, .. } = row;
    let marks = object.marks?;
    let fact = volume::fact(&object, None, None);
    Some(Listed {
        key: Key::new(Kind::Volume, marks.id),
        incarnation: marks.incarnation,
        fingerprint: fact.fingerprint,
        fact: Fact::Volume(Observed { sequence, fact }),
    })
}

/// The balancer speaks for itself, and its public address beside it: that is all that can drift.
fn listed_load_balancer(row: Row, sequence: Sequence) -> Option<Listed> {
    let Row { object, related } = row;
    let marks = object.marks?;
    let (_, port) = object.body.parent()?;
    let mut fact = load_balancer::fact(&object, port);
    let address = related.iter().find_map(load_balancer::public_address);
    let fingerprint = joint_fingerprint(fact.fingerprint, address.as_ref().map(|address| address.fingerprint));
    fact.address = address.map_or(AddressSighting::Absent, AddressSighting::Present);
    Some(Listed {
        key: Key::new(Kind::LoadBalancer, marks.id),
        incarnation: marks.incarnation,
        fingerprint,
        fact: Fact::LoadBalancer(Observed { sequence, fact }),
    })
}

/// Of several ports the server's own is shown: that there are more is for its actor to find, when it looks.
fn listed_server(row: Row, sequence: Sequence) -> Option<Listed> {
    let marks = row.object.marks?;
    let own = row.object.server()?.port.clone();
    let (mut ports, mut floating_ips): (Vec<_>, Vec<_>) =
        row.related.into_iter().partition(|object| object.kind() == ObjectKind::Port);
    ports.sort_by_key(|port| port.id == own);
    let view = View { port: ports.pop(), floating_ip: floating_ips.pop(), server: Some(row.object) };
    let fact = server_plan::fact(&view, None);
    Some(Listed {
        key: Key::new(Kind::Server, marks.id),
        incarnation: marks.incarnation,
        fingerprint: fact.fingerprint,
        fact: Fact::Server(Observed { sequence, fact }),
    })
}
