//! Lists: filters, pages, order.

use uuid::Uuid;

use super::conform;
use super::rig::{Rig, identity, insert, network, organization, project, record};
use crate::model::ids::{IdentityId, Kind, NetworkId, OrganizationId, RegionId};
use crate::model::record::Record;
use crate::store::{Filter, PAGE_MAX, Page, Write};

conform!(
    a_list_is_of_one_kind_and_in_order_of_id,
    pages_follow_each_other_without_gap_or_overlap,
    each_filter_narrows_to_what_it_names,
    alternatives_are_any_and_fields_are_all,
    a_change_of_placement_or_name_moves_the_record_in_every_list,
);

async fn numbers(rig: &Rig, filter: &Filter, page: Page) -> Vec<u128> {
    let found = rig.store().list(filter, page).await.expect("readable");
    found.iter().map(|record| record.key.id.as_u128()).collect()
}

async fn a_list_is_of_one_kind_and_in_order_of_id(rig: Rig) {
    for number in [3, 1 << 120, 2] {
        rig.commit(vec![insert(network(number)), insert(identity(number + 7))]).await;
    }
    assert_eq!(numbers(&rig, &Filter::of(Kind::Network), Page::FIRST).await, [2, 3, 1 << 120]);
    assert!(numbers(&rig, &Filter::of(Kind::Region), Page::FIRST).await.is_empty());
}

async fn pages_follow_each_other_without_gap_or_overlap(rig: Rig) {
    let count = PAGE_MAX as u128 + 3;
    rig.commit((1..=count).map(|number| insert(network(number))).collect()).await;
    let filter = Filter { organizations: Some(vec![organization(1)]), ..Filter::of(Kind::Network) };
    let first = numbers(&rig, &filter, Page { after: None, limit: usize::MAX }).await;
    assert_eq!(first.len(), PAGE_MAX, "a page has a bound");
    let second = numbers(&rig, &filter, Page::after(Uuid::from_u128(first[PAGE_MAX - 1]))).await;
    assert_eq!([first, second].concat(), (1..=count).collect::<Vec<_>>());
    assert_eq!(numbers(&rig, &filter, Page { after: Some(Uuid::from_u128(7)), limit: 2 }).await, [8, 9]);
    assert!(numbers(&rig, &filter, Page { after: None, limit: 0 }).await.is_empty());
}

fn placed(number: u128, place: impl FnOnce(&mut Record)) -> Write {
    let mut record = record(network(number));
    place(&mut record);
    Write::Insert(Box::new(record))
}

async fn each_filter_narrows_to_what_it_names(rig: Rig) {
    let id = Uuid::from_u128(77);
    rig.commit(vec![
        insert(network(1)),
        placed(2, |record| record.metadata.placement.organization = Some(organization(2))),
        placed(3, |record| record.metadata.placement.project = Some(project(2))),
        placed(4, |record| record.metadata.placement.region = Some(RegionId(id))),
        placed(5, |record| record.metadata.placement.network = Some(NetworkId(id))),
        placed(6, |record| record.metadata.placement.identity = Some(IdentityId(id))),
        placed(7, |record| record.metadata.owner = Some(identity(77))),
        placed(8, |record| record.metadata.name = "named".to_owned()),
        placed(9, |record| record.metadata.owner = Some(network(77))),
        placed(10, |record| record.metadata.placement.organization = None),
    ])
    .await;
    let all = Filter::of(Kind::Network);
    let of = async |filter: Filter| numbers(&rig, &filter, Page::FIRST).await;
    assert_eq!(of(Filter { organizations: Some(vec![organization(2)]), ..all.clone() }).await, [2]);
    assert_eq!(of(Filter { projects: Some(vec![project(2)]), ..all.clone() }).await, [3]);
    assert_eq!(of(Filter { regions: Some(vec![RegionId(id)]), ..all.clone() }).await, [4]);
    assert_eq!(of(Filter { networks: Some(vec![NetworkId(id)]), ..all.clone() }).await, [5]);
    assert_eq!(of(Filter { identity: Some(IdentityId(id)), ..all.clone() }).await, [6]);
    assert_eq!(of(Filter { owner: Some(identity(77)), ..all.clone() }).await, [7]);
    assert_eq!(of(Filter { name: Some("named".to_owned()), ..all.clone() }).await, [8]);
    assert_eq!(of(Filter { owner: Some(network(77)), ..all }).await, [9]);
}

async fn alternatives_are_any_and_fields_are_all(rig: Rig) {
    rig.commit(vec![
        insert(network(1)),
        placed(2, |record| record.metadata.placement.organization = Some(organization(2))),
        placed(3, |record| record.metadata.placement.organization = Some(organization(3))),
        placed(4, |record| record.metadata.placement.project = None),
    ])
    .await;
    let all = Filter::of(Kind::Network);
    let of = async |filter: Filter| numbers(&rig, &filter, Page::FIRST).await;
    let both = Some(vec![organization(3), organization(1)]);
    assert_eq!(of(Filter { organizations: both.clone(), ..all.clone() }).await, [1, 3, 4]);
    let in_project = Filter { organizations: both, projects: Some(vec![project(1)]), ..all.clone() };
    assert_eq!(of(in_project).await, [1, 3]);
    assert!(of(Filter { organizations: Some(Vec::new()), ..all.clone() }).await.is_empty(), "none of nothing");
    let many = (3..5000).map(organization).collect::<Vec<OrganizationId>>();
    assert_eq!(of(Filter { organizations: Some(many), ..all }).await, [3]);
}

async fn a_change_of_placement_or_name_moves_the_record_in_every_list(rig: Rig) {
    rig.commit(vec![insert(network(1))]).await;
    let mut metadata = record(network(1)).metadata;
    metadata.name = "renamed".to_owned();
    metadata.placement.project = Some(project(2));
    metadata.owner = Some(identity(1));
    let stored = rig.get(network(1)).await.expect("there");
    let intent = Write::Intent {
        key: network(1),
        expected: stored.revision,
        metadata: Box::new(metadata),
        spec: stored.spec.clone(),
    };
    rig.commit(vec![intent]).await;
    let all = Filter::of(Kind::Network);
    let of = async |filter: Filter| numbers(&rig, &filter, Page::FIRST).await;
    assert_eq!(of(Filter { name: Some("renamed".to_owned()), ..all.clone() }).await, [1]);
    assert_eq!(of(Filter { projects: Some(vec![project(2)]), ..all.clone() }).await, [1]);
    assert!(of(Filter { projects: Some(vec![project(1)]), ..all }).await.is_empty());
    assert_eq!(rig.store().children(identity(1)).await.expect("readable"), [network(1)]);
}
