//! References of other services, which keep a network from being deleted.

use regent::model::edge::Holder;
use regent::model::ids::{Key, Kind};
use regent::model::token::Role;
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use uuid::Uuid;

use super::{NETWORKS, World, expect_error, id_of, network_path};

const GROUP: &str = "computeinstances.compute.example.org";

#[tokio::test]
async fn a_referenced_network_is_in_use_until_every_reference_is_gone() {
    let world = World::start().await;
    let path = network_path(&world.create(&world.network_body("held")).await);
    let holders = (0..4).map(|_| world.ambient.uuid()).collect::<Vec<_>>();
    for (number, id) in holders.iter().enumerate() {
        // Clients escape the slash; some do not. Both name the same reference, and adding one twice is fine.
        let slash = if number % 2 == 0 { "%2F" } else { "/" };
        for _ in 0..2 {
            let added = world.request(Method::PUT, &format!("{path}/references/{GROUP}{slash}{id}")).send().await;
            assert_eq!(added.expect("an answer").status(), StatusCode::CREATED);
        }
    }
    let refused = world.request(Method::DELETE, &path).send().await.expect("an answer");
    let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use"), "{text}");
    assert_eq!(text.matches(GROUP).count(), 3, "{text}");
    for id in &holders {
        for slash in ["/", "%2F"] {
            let removed = world.request(Method::DELETE, &format!("{path}/references/{GROUP}{slash}{id}")).send().await;
            assert_eq!(removed.expect("an answer").status(), StatusCode::NO_CONTENT);
        }
    }
    let deleted = world.request(Method::DELETE, &path).send().await.expect("an answer");
    assert_eq!(deleted.status(), StatusCode::ACCEPTED);
    let late = world.request(Method::PUT, &format!("{path}/references/{GROUP}%2F{}", holders[0])).send().await;
    expect_error(late.expect("an answer"), StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn a_malformed_reference_or_an_unknown_network_is_refused() {
    let world = World::start().await;
    let path = network_path(&world.create(&world.network_body("net")).await);
    let ours = "networks.region.unikorn-cloud.org%2F00000000-0000-4000-8000-000000000001";
    for reference in ["unikorn", "a.b.c%2Fnot-a-uuid", "a.b.c/not-a-uuid", "%FF", ours] {
        for method in [Method::PUT, Method::DELETE] {
            let response = world.request(method, &format!("{path}/references/{reference}")).send().await;
            let response = response.expect("an answer");
            let text = expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
            assert!(text.contains("invalid path/query element"), "{text}");
        }
    }
    let id = world.ambient.uuid();
    let unknown = format!("{NETWORKS}/{id}/references/{GROUP}%2F{id}");
    for method in [Method::PUT, Method::DELETE] {
        let response = world.request(method, &unknown).send().await.expect("an answer");
        expect_error(response, StatusCode::NOT_FOUND, "not_found").await;
    }
}

#[tokio::test]
async fn a_service_may_refer_to_a_network_that_it_cannot_read() {
    let world = World::start().await;
    let path = network_path(&world.create(&world.network_body("shared")).await);
    let reference = format!("{path}/references/{GROUP}%2F{}", world.ambient.uuid());
    let storage = world.token_of("storage", Role::StorageService).await;
    let region = world.token_of("region", Role::RegionService).await;
    let sent = async |method: Method, path: &str, bearer: &str| {
        world.anonymous(method, path).bearer_auth(bearer).send().await.expect("an answer").status()
    };
    assert_eq!(sent(Method::GET, &path, &storage).await, StatusCode::NOT_FOUND);
    assert_eq!(sent(Method::PUT, &reference, &region).await, StatusCode::NOT_FOUND);
    assert_eq!(sent(Method::PUT, &reference, &storage).await, StatusCode::CREATED);
    assert_eq!(sent(Method::DELETE, &reference, &region).await, StatusCode::NOT_FOUND);
    assert_eq!(sent(Method::DELETE, &reference, &storage).await, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn b41_a_reference_is_typed_and_validated_and_means_the_same_however_it_is_written() {
    let world = World::start().await;
    let path = network_path(&world.create(&world.network_body("typed")).await);
    let id = world.ambient.uuid();
    let sent = async |method: Method, reference: String| {
        world.request(method, &format!("{path}/references/{reference}")).send().await.expect("an answer")
    };
    for bad in [
        "unikorn".to_owned(),
        "foregroundDeletion".to_owned(),
        format!("unikorn%2F{id}"),
        format!("instances.compute%2F{id}"),
        format!("Instances.compute.example.org%2F{id}"),
        format!("instances..example.org%2F{id}"),
        format!("-a.b.c%2F{id}"),
        format!("{}.b.c%2F{id}", "a".repeat(64)),
        format!("{GROUP}%2F{}", id.simple()),
        format!("{GROUP}%2F{id}%2F{id}"),
        format!("{GROUP}%2F"),
        GROUP.to_owned(),
    ] {
        for method in [Method::PUT, Method::DELETE] {
            let text = expect_error(sent(method, bad.clone()).await, StatusCode::BAD_REQUEST, "invalid_request").await;
            assert!(text.contains("invalid path/query element") && !text.contains(&id.to_string()), "{bad}: {text}");
        }
    }
    // One holder: taken under a former name, with its slash escaped and not, in capitals; given back once.
    for one in [
        format!("instances.compute.unikorn-cloud.org%2F{id}"),
        format!("computeinstances.compute.unikorn-cloud.org%2f{id}"),
        format!("computeinstances.compute.unikorn-cloud.org/{}", id.to_string().to_uppercase()),
    ] {
        assert_eq!(sent(Method::PUT, one).await.status(), StatusCode::CREATED);
    }
    let refused = world.delete(&path).await;
    let text = expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    assert_eq!(text.matches(&format!("computeinstances.compute.unikorn-cloud.org/{id}")).count(), 1, "{text}");
    let given_back = sent(Method::DELETE, format!("instances.compute.unikorn-cloud.org%2F{id}")).await;
    assert_eq!(given_back.status(), StatusCode::NO_CONTENT);
    assert_eq!(world.delete(&path).await.status(), StatusCode::ACCEPTED);
}

#[tokio::test]
async fn b41_references_are_bounded_and_taking_one_again_takes_no_room() {
    let world = World::start().await;
    let network = world.create(&world.network_body("full")).await;
    let target = Key::new(Kind::Network, id_of(&network).parse().expect("an id"));
    let holder = |number: u128| format!("{GROUP}/{}", Uuid::from_u128(number)).parse::<Holder>().expect("a holder");
    let add = |number| Write::AddReference { target, holder: holder(number) };
    world.store.commit(Batch::of((0..1024).map(add).collect())).await.expect("commits");
    let put = async |number: u128| {
        let path = format!("{}/references/{GROUP}%2F{}", network_path(&network), Uuid::from_u128(number));
        world.request(Method::PUT, &path).send().await.expect("an answer")
    };
    assert_eq!(put(7).await.status(), StatusCode::CREATED);
    let text = expect_error(put(1024).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("as many references"), "{text}");
}
