//! Networks and what guards them.

use reqwest::StatusCode;
use serde_json::json;

use super::{Installation, NOBODY, last, lists};

const NETWORKS: &str = "/api/v2/networks";
const GROUPS: &str = "/api/v2/securitygroups";

#[tokio::test]
async fn a_network_is_made_listed_changed_and_deleted() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    assert!(lists(&installation.get(NETWORKS).await.with(StatusCode::OK), &network));
    let change = json!({
        "metadata": {"name": "renamed", "description": "with words"}, "spec": {"dnsNameservers": ["9.9.9.9"]},
    });
    let changed = installation.put(&network, &change).await.with(StatusCode::ACCEPTED);
    assert_eq!(changed["status"]["prefix"], "10.0.0.0/22");
    let read = installation.until_provisioned(&network).await;
    assert_eq!(read["metadata"]["name"], "renamed");
    assert_eq!(read["metadata"]["description"], "with words");
    assert_eq!(read["status"]["prefix"], "10.0.0.0/22");
    installation.delete_until_gone(&network).await;
    assert!(!lists(&installation.get(NETWORKS).await.with(StatusCode::OK), &network));
    installation.end().await;
}

#[tokio::test]
async fn an_unknown_network_is_not_found_and_an_empty_body_is_refused() {
    let installation = Installation::start().await;
    let unknown = format!("{NETWORKS}/{NOBODY}");
    installation.get(&unknown).await.with(StatusCode::NOT_FOUND);
    installation.delete(&unknown).await.with(StatusCode::NOT_FOUND);
    installation.verb(NETWORKS).await.with(StatusCode::BAD_REQUEST);
    installation.end().await;
}

#[tokio::test]
async fn a_security_group_is_made_filtered_changed_and_deleted() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    let rule = |port: u16| json!([{"direction": "ingress", "protocol": "tcp", "port": port}]);
    let body = json!({"metadata": {"name": "web"}, "spec": {"networkId": last(&network), "rules": rule(443)}});
    let group = installation.provisioned(GROUPS, &body).await;
    let start = &installation.start;
    let (organization, project, region) = (start.organization_id, start.project_id, super::NORTH);
    let filters = [
        (format!("organizationID={organization}&projectID={project}&regionID={region}"), true),
        (format!("networkID={}", last(&network)), true),
        (format!("organizationID={NOBODY}"), false),
        (format!("projectID={NOBODY}"), false),
        (format!("regionID={NOBODY}"), false),
    ];
    for (filter, is_listed) in filters {
        let list = installation.get(&format!("{GROUPS}?{filter}")).await.with(StatusCode::OK);
        assert_eq!(lists(&list, &group), is_listed, "{filter}");
    }
    let change = json!({"metadata": {"name": "web"}, "spec": {"rules": rule(8443)}});
    installation.put(&group, &change).await.with(StatusCode::ACCEPTED);
    let read = installation.until_provisioned(&group).await;
    assert_eq!(read["spec"]["rules"], rule(8443));
    installation.delete_until_gone(&group).await;
    // Whoever sees the group gone may delete its network at once.
    installation.delete_until_gone(&network).await;
    installation.end().await;
}
