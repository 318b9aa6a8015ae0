//! The suite that every provider keeps to, on a real OpenStack.

use super::machines::Place;
use crate::conformance::Subject;

#[tokio::test]
async fn openstack_conforms() {
    let place = Place::new().await;
    let class = place.world.facts.within("volumeTypes", "standard").parse().expect("a class");
    let subject = Subject {
        provider: &place.world.provider,
        ledger: &place.pages,
        organization: place.world.organization,
        project: place.world.project,
        identity: place.world.identity,
        incarnation: place.world.incarnation,
        network: place.network.id,
        flavor: place.flavor("m1.tiny"),
        image: place.image("tiny"),
        class,
    };
    subject.conforms().await;
    place.end().await;
}
