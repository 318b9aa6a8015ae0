//! Who gets in, and what they see.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{Answer, Installation, NORTH, PRIVATE, lists};

#[tokio::test]
async fn without_a_token_no_list_is_answered() {
    let installation = Installation::start().await;
    for surface in regent::api::surfaces::listed() {
        let list = format!("/api/v2/{}", surface.collection);
        let answer = installation.ask(None, Method::GET, &list, None).await.with(StatusCode::UNAUTHORIZED);
        assert_eq!(answer["error"], "access_denied");
    }
    installation.end().await;
}

#[tokio::test]
async fn the_version_is_a_semantic_one() {
    let installation = Installation::start().await;
    let version = installation.get("/api/version").await.with(StatusCode::OK);
    let parts = version["version"].as_str().expect("a version").split('.').collect::<Vec<_>>();
    assert!(parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok()), "{version}");
    installation.end().await;
}

#[tokio::test]
async fn a_network_of_another_organization_is_not_there() {
    let installation = Installation::start().await;
    let stranger = installation.member("stranger").await;
    let network = installation.network().await;
    for method in [Method::GET, Method::DELETE] {
        installation.ask(Some(&stranger.token), method, &network, None).await.with(StatusCode::NOT_FOUND);
    }
    let list = installation.ask(Some(&stranger.token), Method::GET, "/api/v2/networks", None).await;
    assert_eq!(list.with(StatusCode::OK), json!([]));
    installation.end().await;
}

#[tokio::test]
async fn a_private_region_is_there_for_its_owner_alone() {
    let installation = Installation::start().await;
    let (owner, stranger) = (installation.member("owner").await, installation.member("stranger").await);
    installation.add_private_region(&owner.organization).await;
    for (member, status) in [(&owner, StatusCode::OK), (&stranger, StatusCode::NOT_FOUND)] {
        let ask = async |path: &str| -> Answer { installation.ask(Some(&member.token), Method::GET, path, None).await };
        let within = format!("/api/v1/organizations/{}", member.organization);
        let regions = ask(&format!("{within}/regions")).await.with(StatusCode::OK);
        assert!(lists(&regions, NORTH));
        assert_eq!(lists(&regions, PRIVATE), status == StatusCode::OK);
        for offer in ["flavors", "images"] {
            ask(&format!("{within}/regions/{PRIVATE}/{offer}")).await.with(status);
        }
        ask(&format!("/api/v2/regions/{PRIVATE}/images")).await.with(status);
        let project = json!({"metadata": {"name": "project"}, "spec": {"groupIDs": []}});
        let path = format!("{within}/projects");
        let project = installation.ask(Some(&member.token), Method::POST, &path, Some(&project)).await;
        let project = project.with(StatusCode::ACCEPTED)["metadata"]["id"].clone();
        let mut body = installation.network_body("net");
        body["spec"]["organizationId"] = json!(member.organization);
        body["spec"]["projectId"] = project;
        body["spec"]["regionId"] = json!(PRIVATE);
        let made = installation.ask(Some(&member.token), Method::POST, "/api/v2/networks", Some(&body)).await;
        made.with(if status == StatusCode::OK { StatusCode::CREATED } else { StatusCode::NOT_FOUND });
    }
    installation.end().await;
}
