//! SSH certificate authorities as clients use them.

use regent::identity::acl::{Endpoint, Operation};
use regent::model::edge::Holder;
use regent::model::ids::{Key, Kind, ServerId};
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{AUTHORITIES, World, expect, expect_error, id_of, may};

pub const PUBLIC_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

pub fn body(world: &World, name: &str) -> Value {
    let start = &world.start;
    json!({
        "metadata": {"name": name},
        "spec": {"organizationId": start.organization_id, "projectId": start.project_id, "publicKey": PUBLIC_KEY},
    })
}

fn path(authority: &Value) -> String {
    format!("{AUTHORITIES}/{}", id_of(authority))
}

#[tokio::test]
async fn an_authority_is_provisioned_as_soon_as_it_is_made_on_every_store() {
    for (store, world) in World::on_each_store().await {
        let mut body = body(&world, "ca");
        body["metadata"]["description"] = json!("people");
        body["spec"]["publicKey"] = json!(format!("\n {PUBLIC_KEY}  the ca \n"));
        let authority = world.made(AUTHORITIES, &body).await;
        assert_eq!(authority["spec"], json!({"publicKey": format!("{PUBLIC_KEY}  the ca")}), "{store}");
        assert_eq!(authority["metadata"]["provisioningStatus"], "provisioned", "{store}");
        assert_eq!(authority["metadata"]["healthStatus"], "healthy", "{store}");
        assert_eq!(authority["metadata"]["projectId"], json!(world.start.project_id), "{store}");
        assert_eq!(authority["metadata"]["description"], "people", "{store}");
        assert_eq!(authority.get("status"), None, "{store}");
        assert_eq!(expect(world.get(&path(&authority)).await, StatusCode::OK).await, authority, "{store}");
        assert_eq!(expect(world.get(AUTHORITIES).await, StatusCode::OK).await, json!([authority]), "{store}");
        for _ in 0..2 {
            assert_eq!(world.delete(&path(&authority)).await.status(), StatusCode::ACCEPTED, "{store}");
        }
        let going = expect(world.get(&path(&authority)).await, StatusCode::OK).await;
        assert_eq!(going["metadata"]["provisioningStatus"], "deprovisioning", "{store}");
    }
}

#[tokio::test]
async fn a_bad_key_is_422_and_its_text_is_not_repeated() {
    let world = World::start().await;
    for key in
        ["", "hunter2", "ssh-ed25519 hunter2", &format!("no-pty {PUBLIC_KEY}"), &format!("{PUBLIC_KEY}\n{PUBLIC_KEY}")]
    {
        let mut body = body(&world, "ca");
        body["spec"]["publicKey"] = json!(key);
        let response = world.send(Method::POST, AUTHORITIES, &body).await;
        let text = expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert_eq!(expect(world.get(AUTHORITIES).await, StatusCode::OK).await, json!([]));
}

#[tokio::test]
async fn a_missing_project_and_a_foreign_one_are_the_same_422() {
    let world = World::start().await;
    let (other, other_project) = world.tenant().await;
    let mut texts = Vec::new();
    for (field, value) in [
        ("projectId", json!(world.ambient.uuid())),
        ("projectId", json!(other_project)),
        ("organizationId", json!(other)),
    ] {
        let mut body = body(&world, "ca");
        body["spec"][field] = value;
        let response = world.send(Method::POST, AUTHORITIES, &body).await;
        texts.push(expect_error(response, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await);
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    let mut malformed = body(&world, "ca");
    malformed["spec"]["projectId"] = json!("x");
    let response = world.send(Method::POST, AUTHORITIES, &malformed).await;
    expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn an_authority_is_hidden_from_strangers_and_kept_from_readers() {
    let world = World::start().await;
    let authority = world.made(AUTHORITIES, &body(&world, "ca")).await;
    let stranger = world.stranger().await;
    let tries = [(Method::GET, ""), (Method::DELETE, "")];
    world.assert_hidden_from(&stranger, AUTHORITIES, id_of(&authority), &tries, &json!({})).await;
    let reader = world.member("reader", may(Endpoint::SshCertificateAuthoritiesV2, &[Operation::Read]));
    for (method, path) in [(Method::POST, AUTHORITIES.to_owned()), (Method::DELETE, path(&authority))] {
        let refused = world.send_as(&reader, method, &path, &body(&world, "new")).await;
        expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    }
    let update = world.send(Method::PUT, &path(&authority), &body(&world, "new")).await;
    expect_error(update, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed").await;
}

#[tokio::test]
async fn b7_an_authority_in_use_stays() {
    let world = World::start().await;
    let authority = world.made(AUTHORITIES, &body(&world, "ca")).await;
    let target = Key::new(Kind::SshCertificateAuthority, id_of(&authority).parse().expect("an id"));
    let holder = Holder::Resource(ServerId(world.ambient.uuid()).key());
    world.store.commit(Batch::of(vec![Write::AddReference { target, holder }])).await.expect("commits");
    let text = expect_error(world.delete(&path(&authority)).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use"), "{text}");
}
