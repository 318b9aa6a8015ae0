//! What a principal gets into its cloud with: for whoever has the permission, where the operator allows it, and nobody
//! else.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use regent::api::ApiSettings;
use regent::identity::acl::{Endpoint, Operation};
use regent::model::identity::{Credential, IdentityDetail, KeyPair};
use regent::model::ids::{IdentityId, ProviderProjectId, ProviderUserId};
use regent::model::record::Document;
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::v1_resources::{identities, identity_body};
use super::{World, envelope, expect, id_of, may};

/// A principal that has been made, and its path.
async fn principal(world: &World) -> String {
    let made = world.made(&identities(world), &identity_body(world, "id")).await;
    let key = IdentityId(id_of(&made).parse().expect("an id")).key();
    let record = world.store.get(key).await.expect("reads").expect("there");
    let seal = |text: &str| envelope().seal(&text.to_owned()).expect("seals");
    let detail = IdentityDetail {
        project: Some(ProviderProjectId("cloud-project".to_owned())),
        user: Some(ProviderUserId("cloud-user".to_owned())),
        credential: Some(Credential { id: "credential".to_owned(), secret: seal("hunter2: \"x\"") }),
        key_pair: Some(KeyPair { public_key: "ssh-ed25519 x".to_owned(), private_key: seal("hunter3") }),
        server_group: None,
        resets: 0,
    };
    let status = Write::Status {
        key,
        incarnation: record.metadata.incarnation,
        conditions: Box::default(),
        detail: Document::of(&detail),
        transitions: vec![],
    };
    world.store.commit(Batch::of(vec![status])).await.expect("commits");
    format!("{}/{}", identities(world), id_of(&made))
}

async fn allowing() -> World {
    World::set(ApiSettings { v1_identity_secrets: true, ..ApiSettings::default() }).await
}

#[tokio::test]
async fn secrets_are_absent_unless_the_operator_has_switched_them_on() {
    let world = World::start().await;
    let path = principal(&world).await;
    let read = expect(world.get(&path).await, StatusCode::OK).await;
    assert_eq!(read["spec"], json!({"regionId": world.start.region_id, "type": "simulated"}));
}

#[tokio::test]
async fn secrets_are_absent_without_the_permission_that_is_theirs_alone() {
    let world = allowing().await;
    let path = principal(&world).await;
    let mut grants = may(Endpoint::Identities, &Operation::ALL);
    let reader = world.member("reader", grants.clone());
    let read = expect(world.send_as(&reader, Method::GET, &path, &json!(null)).await, StatusCode::OK).await;
    assert_eq!(read["spec"], json!({"regionId": world.start.region_id, "type": "simulated"}));
    grants.extend(may(Endpoint::IdentitySecrets, &[Operation::Read]));
    let trusted = world.member("trusted", grants);
    let read = expect(world.send_as(&trusted, Method::GET, &path, &json!(null)).await, StatusCode::OK).await;
    assert!(read["spec"]["openstack"].is_object(), "{read}");
}

#[tokio::test]
async fn with_both_they_are_handed_out_to_be_kept_by_nobody_on_the_way() {
    let world = allowing().await;
    let path = principal(&world).await;
    let answer = world.get(&path).await;
    assert_eq!(answer.headers().get("cache-control").expect("a header"), "no-store");
    let read = expect(answer, StatusCode::OK).await;
    let access = &read["spec"]["openstack"];
    assert_eq!(access["sshPrivateKey"], "hunter3");
    assert_eq!((&access["userId"], &access["projectId"]), (&json!("cloud-user"), &json!("cloud-project")));
    assert_eq!(access["applicationCredentialSecret"], "hunter2: \"x\"");
    let configuration = URL_SAFE.decode(access["cloudConfig"].as_str().expect("text")).expect("base64url");
    let configuration: Value = serde_json::from_slice(&configuration).expect("JSON, which is YAML");
    let auth = &configuration["clouds"][access["cloud"].as_str().expect("a name")]["auth"];
    assert_eq!(auth["application_credential_secret"], "hunter2: \"x\"");
    // A list never has them.
    let list = format!("/api/v1/organizations/{}/identities", world.start.organization_id);
    let list = expect(world.get(&list).await, StatusCode::OK).await.to_string();
    assert!(!list.contains("hunter") && !list.contains("openstack"), "{list}");
}

#[tokio::test]
async fn one_that_is_not_made_yet_has_nothing_to_hand_out() {
    let world = allowing().await;
    let made = world.made(&identities(&world), &identity_body(&world, "new")).await;
    let read = expect(world.get(&format!("{}/{}", identities(&world), id_of(&made))).await, StatusCode::OK).await;
    assert_eq!(read["spec"]["openstack"], json!({}));
}
