//! File storage.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Answer, Installation, NORTH, last, lists};

const STORAGE: &str = "/api/v2/filestorage";
const CLASSES: &str = "/api/v2/filestorageclasses";
const CLASS: &str = "cccccccc-cccc-4ccc-8ccc-cccccccccccc";

fn policy(name: &str) -> Value {
    json!({"name": name, "schedule": {"interval": "daily", "timeOfDay": "02:30Z"}, "retention": {"keep": 3}})
}

fn common(more: &Value) -> Value {
    let mut spec = json!({"sizeGiB": 10, "storageType": {"NFS": {"rootSquash": true}}});
    spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    spec
}

fn change(more: &Value) -> Value {
    json!({"metadata": {"name": "files"}, "spec": common(more)})
}

impl Installation {
    async fn file_storage(&self, more: &Value) -> String {
        let mut body = change(more);
        body["spec"]["organizationId"] = json!(self.start.organization_id);
        body["spec"]["projectId"] = json!(self.start.project_id);
        body["spec"]["regionId"] = json!(NORTH);
        body["spec"]["storageClassId"] = json!(CLASS);
        self.provisioned(STORAGE, &body).await
    }
}

#[tokio::test]
async fn file_storage_is_made_listed_grown_and_deleted() {
    let installation = Installation::start().await;
    let classes = installation.get(&format!("{CLASSES}?regionID={NORTH}")).await.with(StatusCode::OK);
    assert!(lists(&classes, CLASS), "{classes}");
    let storage = installation.file_storage(&json!({})).await;
    assert!(lists(&installation.get(STORAGE).await.with(StatusCode::OK), &storage));
    installation.put(&storage, &change(&json!({"sizeGiB": 20}))).await.with(StatusCode::ACCEPTED);
    let read = installation.until_provisioned(&storage).await;
    assert_eq!(read["spec"]["sizeGiB"], 20);
    assert!(read["status"].get("attachments").is_none(), "{read}");
    installation.delete_until_gone(&storage).await;
    installation.end().await;
}

#[tokio::test]
async fn an_empty_list_clears_the_snapshot_policies() {
    let installation = Installation::start().await;
    let storage = installation.file_storage(&json!({"snapshotPolicies": [policy("nightly")]})).await;
    let names = |read: &Value| read["spec"]["snapshotPolicies"].as_array().map_or(0, Vec::len);
    assert_eq!(names(&installation.get(&storage).await.with(StatusCode::OK)), 1);
    installation.put(&storage, &change(&json!({}))).await.with(StatusCode::ACCEPTED);
    assert_eq!(names(&installation.until_provisioned(&storage).await), 1, "what is left out stays");
    installation.put(&storage, &change(&json!({"snapshotPolicies": []}))).await.with(StatusCode::ACCEPTED);
    assert_eq!(names(&installation.until_provisioned(&storage).await), 0);
    installation.end().await;
}

#[tokio::test]
async fn the_default_protection_is_toggled_while_policies_are_replaced() {
    let installation = Installation::start().await;
    let storage = installation.file_storage(&json!({"snapshotPolicies": [policy("nightly")]})).await;
    let read = installation.get(&storage).await.with(StatusCode::OK);
    assert_eq!(read["spec"]["defaultSnapshotProtectionEnabled"], true, "omitted means protected");
    for is_protected in [false, true] {
        let name = format!("replaced-{is_protected}");
        let more = json!({"defaultSnapshotProtectionEnabled": is_protected, "snapshotPolicies": [policy(&name)]});
        installation.put(&storage, &change(&more)).await.with(StatusCode::ACCEPTED);
        let read = installation.until_provisioned(&storage).await;
        assert_eq!(read["spec"]["defaultSnapshotProtectionEnabled"], is_protected);
        assert_eq!(read["spec"]["snapshotPolicies"][0]["name"], name);
        assert_eq!(read["spec"]["snapshotPolicies"].as_array().map(Vec::len), Some(1), "{read}");
    }
    installation.end().await;
}

#[tokio::test]
async fn a_network_is_attached_mounted_and_detached() {
    let installation = Installation::start().await;
    let network = installation.network().await;
    let storage = installation.file_storage(&json!({})).await;
    let attached = json!({"attachments": {"networkIds": [last(&network)]}});
    installation.put(&storage, &change(&attached)).await.with(StatusCode::ACCEPTED);
    let mounted = |answer: &Answer| answer.body["status"]["attachments"][0]["mountSource"].is_string();
    let read = installation.until(&storage, mounted).await;
    assert_eq!(read["status"]["attachments"][0]["networkId"], last(&network));
    installation.until_provisioned(&storage).await;
    let detached = json!({"attachments": {"networkIds": []}});
    installation.put(&storage, &change(&detached)).await.with(StatusCode::ACCEPTED);
    let read = installation.until_provisioned(&storage).await;
    assert_eq!(read["spec"]["attachments"], json!({"networkIds": []}));
    assert!(read["status"].get("attachments").is_none(), "{read}");
    installation.delete_until_gone(&storage).await;
    installation.delete_until_gone(&network).await;
    installation.end().await;
}
