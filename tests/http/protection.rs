//! Deletion protection: what is protected stays until somebody takes the protection away.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{SECURITY_GROUPS, World, expect, expect_error, id_of, network_path};

#[tokio::test]
async fn what_is_protected_is_not_deleted_until_it_no_longer_is_on_every_store() {
    for (name, world) in World::on_each_store().await {
        let mut body = world.network_body("precious");
        body["metadata"]["deletionProtection"] = json!(true);
        let network = world.create(&body).await;
        assert_eq!(network["metadata"]["deletionProtection"], true, "{name}");
        let path = network_path(&network);
        let text = expect_error(world.delete(&path).await, StatusCode::FORBIDDEN, "forbidden").await;
        assert!(text.contains("protected from deletion"), "{name}: {text}");
        let mut update = json!({"metadata": {"name": "renamed"}, "spec": {"dnsNameservers": []}});
        let kept = expect(world.send(Method::PUT, &path, &update).await, StatusCode::ACCEPTED).await;
        assert_eq!(kept["metadata"]["deletionProtection"], true, "{name}: whoever does not know of it keeps it");
        expect_error(world.delete(&path).await, StatusCode::FORBIDDEN, "forbidden").await;
        update["metadata"]["deletionProtection"] = json!(false);
        let lifted = expect(world.send(Method::PUT, &path, &update).await, StatusCode::ACCEPTED).await;
        assert_eq!(lifted["metadata"]["deletionProtection"], false, "{name}");
        assert_eq!(world.delete(&path).await.status(), StatusCode::ACCEPTED, "{name}");
    }
}

#[tokio::test]
async fn what_would_take_something_protected_along_is_not_deleted_either() {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    assert_eq!(network["metadata"].get("deletionProtection"), None, "what was omitted stays omitted");
    let body = json!({
        "metadata": {"name": "group", "deletionProtection": true},
        "spec": {"networkId": id_of(&network), "rules": []},
    });
    let group = world.made(SECURITY_GROUPS, &body).await;
    let path = network_path(&network);
    let text = expect_error(world.delete(&path).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("protected from deletion") && !text.contains(id_of(&group)), "{text}");
    let mut lifted = body.clone();
    lifted["metadata"]["deletionProtection"] = json!(false);
    lifted["spec"] = json!({"rules": []});
    let group_path = format!("{SECURITY_GROUPS}/{}", id_of(&group));
    expect(world.send(Method::PUT, &group_path, &lifted).await, StatusCode::ACCEPTED).await;
    assert_eq!(world.delete(&path).await.status(), StatusCode::ACCEPTED);
}

#[tokio::test]
async fn tenants_and_members_can_be_protected() {
    let world = World::start().await;
    let organization = format!("/api/v1/organizations/{}", world.start.organization_id);
    let project = json!({"metadata": {"name": "p", "deletionProtection": true}, "spec": {"groupIDs": []}});
    let answer = world.send(Method::POST, &format!("{organization}/projects"), &project).await;
    let project = expect(answer, StatusCode::ACCEPTED).await;
    let path = format!("{organization}/projects/{}", id_of(&project));
    expect_error(world.delete(&path).await, StatusCode::FORBIDDEN, "forbidden").await;
    let group = json!({
        "metadata": {"name": "g", "deletionProtection": true}, "spec": {"roleIDs": [], "serviceAccountIDs": []},
    });
    let group = world.made(&format!("{organization}/groups"), &group).await;
    let path = format!("{organization}/groups/{}", id_of(&group));
    expect_error(world.delete(&path).await, StatusCode::FORBIDDEN, "forbidden").await;
}
