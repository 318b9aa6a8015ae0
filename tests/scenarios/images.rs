//! Images.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Installation, NOBODY, NORTH, lists};

fn collection(organization: impl std::fmt::Display, region: &str) -> String {
    format!("/api/v1/organizations/{organization}/regions/{region}/images")
}

fn body() -> Value {
    json!({
        "metadata": {"name": "golden"},
        "spec": {
            "uri": "https://images.example.org/golden.raw", "architecture": "x86_64", "virtualization": "virtualized",
            "os": {"kernel": "linux", "family": "debian", "distro": "ubuntu", "version": "24.04"},
        },
    })
}

#[tokio::test]
async fn images_of_an_unknown_organization_or_region_are_refused() {
    let installation = Installation::start().await;
    let member = installation.member("member").await;
    let unknown = NOBODY;
    let tries = [
        (collection(unknown, NORTH), StatusCode::FORBIDDEN),
        (collection(&member.organization, unknown), StatusCode::NOT_FOUND),
        (collection("x", NORTH), StatusCode::BAD_REQUEST),
        (collection(&member.organization, "x"), StatusCode::BAD_REQUEST),
        (collection(&member.organization, NORTH), StatusCode::OK),
    ];
    for (path, status) in tries {
        installation.ask(Some(&member.token), Method::GET, &path, None).await.with(status);
    }
    let list = installation.get(&format!("/api/v2/regions/{NORTH}/images")).await.with(StatusCode::OK);
    assert!(!list.as_array().expect("a list").is_empty());
    installation.end().await;
}

#[tokio::test]
async fn an_image_is_imported_ready_listed_and_deleted_once() {
    let installation = Installation::start().await;
    let own = installation.start.organization_id;
    let images = collection(own, NORTH);
    let made = installation.post(&images, &body()).await.with(StatusCode::OK);
    let image = format!("{images}/{}", made["metadata"]["id"].as_str().expect("an id"));
    let ready = format!("/api/v2/regions/{NORTH}/images?organizationID={own}&scope=owned&status=ready");
    installation.until(&ready, |answer| lists(&answer.body, &image)).await;
    assert!(lists(&installation.get(&images).await.with(StatusCode::OK), &image));
    installation.delete(&image).await.with(StatusCode::ACCEPTED);
    let all = format!("/api/v2/regions/{NORTH}/images?organizationID={own}&scope=owned");
    installation.until(&all, |answer| !lists(&answer.body, &image)).await;
    installation.delete(&image).await.with(StatusCode::NOT_FOUND);
    installation.delete(&format!("{images}/{NOBODY}")).await.with(StatusCode::NOT_FOUND);
    installation.end().await;
}
