//! What accepting a request about a network means for the store. Pure: times and ids are handed in.

use jiff::Timestamp;

use super::wire::{AcceptedCreate, AcceptedUpdate};
use crate::api::intent::{Author, Revision, charge, insert, payers};
use crate::api::wire::AcceptedMetadata;
use crate::model::ambient::Ambient;
use crate::model::edge::Holder;
use crate::model::identity::{HIDDEN_NAME, Identity, IdentitySpec};
use crate::model::ids::{IdentityId, Incarnation, NetworkId, OrganizationId, ProjectId, RegionId};
use crate::model::metadata::{Metadata, Placement};
use crate::model::network::{Network, NetworkSpec};
use crate::model::quota::{Amount, Amounts, QuotaKind};
use crate::model::record::Resource;
use crate::store::{Batch, Precondition, Write};

/// The ids that a creation will use.
#[derive(Clone, Copy, Debug)]
pub struct NewIds {
    pub network: NetworkId,
    pub network_incarnation: Incarnation,
    pub identity: IdentityId,
    pub identity_incarnation: Incarnation,
}

impl NewIds {
    #[must_use]
    pub fn draw(ambient: &Ambient) -> Self {
        Self {
            network: NetworkId(ambient.uuid()),
            network_incarnation: Incarnation(ambient.uuid()),
            identity: IdentityId(ambient.uuid()),
            identity_incarnation: Incarnation(ambient.uuid()),
        }
    }
}

/// Everything that a new network brings into the world, in an order that a saga can follow: the principal first,
/// then what protects the project, then what it owns, then what it costs.
#[must_use]
pub fn creation(accepted: &AcceptedCreate, author: &Author, ids: NewIds) -> Batch {
    let hidden =
        AcceptedMetadata { name: HIDDEN_NAME.to_owned(), description: None, tags: None, deletion_protection: None };
    let principal = (ids.identity, ids.identity_incarnation);
    let place = (accepted.organization, accepted.project, accepted.region);
    let mut batch = principal_creation(&hidden, &IdentitySpec { hidden: true }, author, place, principal);
    let network = network_creation(accepted, author, ids.identity, (ids.network, ids.network_incarnation));
    batch.writes.extend(network.writes);
    batch.preconditions.extend(network.preconditions);
    batch
}

/// A principal in its project, which it keeps from going.
#[must_use]
pub fn principal_creation(
    accepted: &AcceptedMetadata,
    spec: &IdentitySpec,
    author: &Author,
    (organization, project, region): (OrganizationId, ProjectId, RegionId),
    (id, incarnation): (IdentityId, Incarnation),
) -> Batch {
    let placement = Placement {
        organization: Some(organization),
        project: Some(project),
        region: Some(region),
        ..Placement::default()
    };
    Batch::of(vec![
        insert::<Identity>(id.0, author.metadata(accepted, incarnation, placement), spec),
        Write::AddReference { target: project.key(), holder: Holder::Resource(id.key()) },
    ])
    .provided(Precondition::Live(project.key()))
    .provided(Precondition::Live(region.key()))
}

/// A network of this principal, which must be live with the place that it lies in. The network is charged to whom it
/// exists for, who need not be there.
#[must_use]
pub fn network_creation(
    accepted: &AcceptedCreate,
    author: &Author,
    identity: IdentityId,
    (id, incarnation): (NetworkId, Incarnation),
) -> Batch {
    let placement = Placement {
        organization: Some(accepted.organization),
        project: Some(accepted.project),
        region: Some(accepted.region),
        identity: Some(identity),
        network: None,
    };
    let network = Metadata {
        owner: Some(identity.key()),
        charged: true,
        ..author.metadata(&accepted.metadata, incarnation, placement)
    };
    let amounts = Amounts::from([(QuotaKind::Networks, Amount::of(1))]);
    let charge = charge(id.key(), &network, accepted.organization, amounts);
    let payers = payers(&network);
    let batch = Batch::of(vec![insert::<Network>(id.0, network, &accepted.spec), charge]);
    payers.into_iter().fold(batch, |batch, payer| batch.provided(Precondition::Live(payer)))
}

/// A full replacement of what may change. What was fixed at creation is carried over.
#[must_use]
pub fn update(stored: &Resource<Network>, accepted: &AcceptedUpdate, subject: &str, now: Timestamp) -> Batch {
    let spec = NetworkSpec {
        dns_nameservers: accepted.dns_nameservers.clone(),
        routes: accepted.routes.clone(),
        ..stored.spec.clone()
    };
    let revision = Revision { metadata: &accepted.metadata, subject, now, is_news: spec != stored.spec };
    Batch::of(vec![revision.write(stored, &spec)]).provided(Precondition::Live(stored.key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::metadata::{ApiVersion, Principal};
    use crate::model::network::Prefix;
    use crate::model::record::Record;
    use uuid::Uuid;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn metadata(name: &str) -> AcceptedMetadata {
        AcceptedMetadata { name: name.to_owned(), description: None, tags: None, deletion_protection: None }
    }

    fn accepted() -> AcceptedCreate {
        let prefix = Prefix::parse("10.0.0.0/22").expect("a prefix");
        AcceptedCreate {
            metadata: metadata("net"),
            organization: OrganizationId(Uuid::from_u128(1)),
            project: ProjectId(Uuid::from_u128(2)),
            region: RegionId(Uuid::from_u128(3)),
            spec: NetworkSpec { prefix, reservations: None, dns_nameservers: vec![], routes: None },
        }
    }

    fn ids() -> NewIds {
        NewIds {
            network: NetworkId(Uuid::from_u128(4)),
            network_incarnation: Incarnation(Uuid::from_u128(5)),
            identity: IdentityId(Uuid::from_u128(6)),
            identity_incarnation: Incarnation(Uuid::from_u128(7)),
        }
    }

    fn alice() -> Author {
        let accepted = accepted();
        let (organization, project) = (Some(accepted.organization), Some(accepted.project));
        let principal = Principal { organization, project, actor: "alice".to_owned() };
        Author { subject: "alice".to_owned(), principal, now: NOW, version: ApiVersion::V2 }
    }

    fn created() -> Record {
        let batch = creation(&accepted(), &alice(), ids());
        match batch.writes.into_iter().nth(2) {
            Some(Write::Insert(record)) => *record,
            other => panic!("the third write makes the network, not {other:?}"),
        }
    }

    #[test]
    fn a_network_belongs_to_its_hidden_principal_and_is_charged_to_its_organization() {
        let record = created();
        assert_eq!(record.metadata.owner, Some(ids().identity.key()));
        assert_eq!(record.metadata.placement.identity, Some(ids().identity));
        assert!(record.metadata.charged);
        let batch = creation(&accepted(), &alice(), ids());
        let charged = batch.writes.iter().any(|write| {
            matches!(write, Write::Charge { holder, incarnation, .. }
                if *holder == record.key && *incarnation == record.metadata.incarnation)
        });
        assert!(charged, "{batch:?}");
    }

    #[test]
    fn a_network_is_charged_to_whom_it_exists_for() {
        let (organization, project) = (OrganizationId(Uuid::from_u128(91)), ProjectId(Uuid::from_u128(92)));
        let principal = Principal { organization: Some(organization), project: Some(project), actor: "bob".to_owned() };
        let batch = creation(
            &accepted(),
            &Author { subject: "compute".to_owned(), principal: principal.clone(), now: NOW, version: ApiVersion::V2 },
            ids(),
        );
        let payer = batch.writes.iter().find_map(|write| match write {
            Write::Charge { organization, project, .. } => Some((*organization, *project)),
            _ => None,
        });
        assert_eq!(payer, Some((organization, Some(project))));
        let Some(Write::Insert(network)) = batch.writes.get(2) else { panic!("{batch:?}") };
        assert_eq!(network.metadata.principal, principal);
        assert_eq!(network.metadata.placement.organization, Some(accepted().organization));
        let must_live = |key| {
            batch.preconditions.iter().any(|condition| matches!(condition, Precondition::Live(live) if *live == key))
        };
        assert!(must_live(project.key()) && must_live(accepted().project.key()));
    }

    #[test]
    fn b10_an_update_keeps_the_creator_and_names_the_modifier() {
        let stored = created().open::<Network>().expect("opens");
        let change = AcceptedUpdate { metadata: metadata("new"), dns_nameservers: vec![], routes: None };
        let batch = update(&stored, &change, "bob", NOW);
        let [Write::Intent { metadata, .. }] = batch.writes.as_slice() else { panic!("{batch:?}") };
        assert_eq!((metadata.creator.as_str(), metadata.modifier.as_deref()), ("alice", Some("bob")));
        assert_eq!(metadata.modified, Some(NOW));
        assert_eq!(metadata.generation, 1, "a new name has nothing to realise");
    }

    #[test]
    fn a_changed_specification_is_a_new_generation_and_keeps_the_prefix() {
        let stored = created().open::<Network>().expect("opens");
        let dns_nameservers = vec!["1.1.1.1".parse().expect("an address")];
        let change = AcceptedUpdate { metadata: metadata("net"), dns_nameservers, routes: None };
        let batch = update(&stored, &change, "bob", NOW);
        let [Write::Intent { metadata, spec, .. }] = batch.writes.as_slice() else { panic!("{batch:?}") };
        assert_eq!(metadata.generation, 2);
        assert_eq!(spec.read::<NetworkSpec>().expect("reads").prefix, stored.spec.prefix);
    }
}
