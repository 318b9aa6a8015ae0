//! Regions and what is read from their clouds.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{World, expect, expect_error};

#[tokio::test]
async fn regions_list_what_the_organization_can_use() {
    let world = World::start().await;
    let (other, _) = world.tenant().await;
    let private = world.region("private", Some(vec![other]), false).await;
    world.region("withdrawn", None, true).await;
    let list = async |organization: String| {
        expect(world.get(&format!("/api/v1/organizations/{organization}/regions")).await, StatusCode::OK).await
    };
    let mut first = list(world.start.organization_id.to_string()).await;
    assert_eq!(first.as_array().map(Vec::len), Some(2), "{first}");
    let regions = first.as_array_mut().expect("a list");
    regions.sort_by_key(|region| region["metadata"]["name"] == "withdrawn");
    assert_eq!(first[1]["metadata"]["healthStatus"], "error");
    assert_eq!(first[0]["metadata"]["id"], json!(world.start.region_id));
    assert_eq!(first[0]["metadata"]["provisioningStatus"], "provisioned");
    assert_eq!(first[0]["metadata"]["healthStatus"], "healthy");
    assert_eq!(first[0]["spec"], json!({"type": "simulated", "features": {"physicalNetworks": true}}));
    let theirs = list(other.to_string()).await;
    let ids = theirs.as_array().expect("a list").iter().map(|region| &region["metadata"]["id"]);
    assert!(ids.collect::<Vec<_>>().contains(&&json!(private)), "{theirs}");
}

#[tokio::test]
async fn external_networks_come_from_the_cloud_and_may_be_kept() {
    let world = World::start().await;
    let base = format!("/api/v1/organizations/{}/regions", world.start.organization_id);
    let region = world.start.region_id.expect("a region");
    let response = world.get(&format!("{base}/{region}/externalnetworks")).await;
    let cache = response.headers().get("cache-control").cloned();
    assert_eq!(cache.expect("a header"), "max-age=86400, private");
    let list = expect(response, StatusCode::OK).await;
    assert_eq!(list, json!([{"id": "id-one", "name": "one"}, {"id": "id-two", "name": "two"}]));
    let unknown = world.get(&format!("{base}/{}/externalnetworks", world.ambient.uuid())).await;
    expect_error(unknown, StatusCode::NOT_FOUND, "not_found").await;
}

#[tokio::test]
async fn the_document_describes_what_is_served() {
    let world = World::start().await;
    let document =
        expect(world.anonymous(reqwest::Method::GET, "/openapi.json").send().await.expect("an answer"), StatusCode::OK)
            .await;
    let paths = document["paths"].as_object().expect("paths");
    let mut operations = 0;
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            operations += 1;
            assert!(operation["operationId"].is_string(), "{method} {path}");
            let id = world.ambient.uuid().to_string();
            let concrete = path.split('/').map(|part| if part.starts_with('{') { id.as_str() } else { part });
            let concrete = concrete.collect::<Vec<_>>().join("/");
            let method = method.to_uppercase().parse().expect("a method");
            let answer = world.request(method, &concrete).send().await.expect("an answer");
            let status = answer.status();
            assert_ne!(status, StatusCode::METHOD_NOT_ALLOWED, "{path} is documented but not served");
            let answers = operation["responses"].as_object().expect("answers");
            assert!(answers.contains_key(status.as_str()), "{path} answered {status}, which is not documented");
        }
    }
    assert!(operations >= 11, "{operations}");
    let schema: &Value = &document["components"]["schemas"]["networkV2Read"];
    assert!(schema["properties"]["status"].is_object(), "{schema}");
}
