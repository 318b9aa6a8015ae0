//! References of other services, which keep a network from being deleted.

use regent::model::token::Role;
use reqwest::{Method, StatusCode};

use super::{NETWORKS, World, expect_error, network_path};

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
