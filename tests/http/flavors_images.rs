//! What regions offer.

use regent::identity::acl::{Endpoint, Operation};
use regent::providers::types::{Flavor, Image, ImageStatus};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::cloud::{flavor, image};
use super::{World, expect, expect_error, may};

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|item| item["metadata"]["name"].as_str().expect("a name")).collect()
}

fn offers(world: &World, what: &str) -> String {
    let region = world.start.region_id.expect("a region");
    format!("/api/v1/organizations/{}/regions/{region}/{what}", world.start.organization_id)
}

#[tokio::test]
async fn flavors_are_sorted_by_what_they_have() {
    let world = World::start().await;
    world.cloud.offer_flavor(Flavor { baremetal: true, pinned_only: true, cpus: 64, ..flavor(4, "metal") });
    let list = expect(world.get(&offers(&world, "flavors")).await, StatusCode::OK).await;
    assert_eq!(names(&list), ["small", "large", "metal", "fast"]);
    assert_eq!(list[0]["spec"], json!({"cpus": 2, "memory": 4, "disk": 21, "architecture": "x86_64"}));
    assert_eq!((&list[2]["spec"]["baremetal"], &list[2]["spec"]["pinnedOnly"]), (&json!(true), &json!(true)));
    let gpu = json!({"vendor": "NVIDIA", "model": "H100", "memory": 80, "physicalCount": 1, "logicalCount": 2});
    assert_eq!(list[3]["spec"]["gpu"], gpu);
    assert!(list[0]["metadata"]["creationTime"].is_string());
}

#[tokio::test]
async fn b37_an_unchanged_catalogue_is_not_sent_again_and_not_asked_for_again() {
    let world = World::start().await;
    for what in ["flavors", "images"] {
        let before = world.cloud.calls();
        let first = world.get(&offers(&world, what)).await;
        let header = |name: &str| first.headers().get(name).expect("a header").to_str().expect("ascii").to_owned();
        assert_eq!(header("cache-control"), "max-age=60, private");
        let tag = header("etag");
        let again = world.request(Method::GET, &offers(&world, what)).header("if-none-match", &tag).send().await;
        assert_eq!(again.expect("an answer").status(), StatusCode::NOT_MODIFIED);
        let other = world.request(Method::GET, &offers(&world, what)).header("if-none-match", "\"x\"").send().await;
        assert_eq!(other.expect("an answer").status(), StatusCode::OK);
        assert_eq!(world.cloud.calls(), before + 1, "{what}");
    }
}

#[tokio::test]
async fn an_image_reads_as_it_is() {
    let world = World::start().await;
    let list = expect(world.get(&offers(&world, "images")).await, StatusCode::OK).await;
    assert_eq!(names(&list), ["debian", "ubuntu"]);
    let spec = json!({
        "architecture": "x86_64", "sizeGiB": 10, "virtualization": "virtualized",
        "os": {"kernel": "linux", "family": "debian", "distro": "debian", "codename": "noble", "version": "24.04"},
        "softwareVersions": {"kubernetes": "v1.33.0"},
        "gpu": {"vendor": "NVIDIA", "driver": "570", "models": ["H100"]},
    });
    assert_eq!(list[0]["spec"], spec);
    assert_eq!(list[0]["status"], json!({"state": "ready"}));
    assert_eq!(list[0]["metadata"]["tags"], json!([{"name": "purpose", "value": "test"}]));
}

#[tokio::test]
async fn images_of_others_are_seen_by_those_who_may_read_them() {
    let world = World::start().await;
    let (other, _) = world.tenant().await;
    let ours = world.start.organization_id;
    world.cloud.offer(Image { organization: Some(ours), ..image(3, "ours") });
    world.cloud.offer(Image { organization: Some(ours), status: ImageStatus::Creating, ..image(4, "ours-new") });
    world.cloud.offer(Image { organization: Some(other), ..image(5, "theirs") });
    let member = world.member("member", may(Endpoint::Images, &[Operation::Read]));
    let region = world.start.region_id.expect("a region");
    let list = async |query: String| {
        let path = format!("/api/v2/regions/{region}/images?{query}");
        let list = expect(world.send_as(&member, Method::GET, &path, &json!(null)).await, StatusCode::OK).await;
        names(&list).join(" ")
    };
    assert_eq!(list(String::new()).await, "debian ubuntu");
    assert_eq!(list("scope=owned".to_owned()).await, "debian ubuntu", "nothing is owned by nobody");
    assert_eq!(list(format!("organizationID={ours}")).await, "debian ours ours-new ubuntu");
    assert_eq!(list(format!("organizationID={ours}&scope=owned")).await, "ours ours-new");
    assert_eq!(list(format!("organizationID={ours}&scope=owned&status=ready&status=failed")).await, "ours");
    assert_eq!(list(format!("organizationID={other}&scope=owned")).await, "");
    assert_eq!(list(format!("organizationID={other}&organizationID={ours}&scope=owned")).await, "ours ours-new");
    let path = offers(&world, "images");
    let ready = expect(world.send_as(&member, Method::GET, &path, &json!(null)).await, StatusCode::OK).await;
    assert_eq!(names(&ready), ["debian", "ours", "ubuntu"]);
    for bad in ["scope=mine", "status=gone", "organizationID=x", "nonsense=1", "scope=owned&scope=owned"] {
        let response = world.get(&format!("/api/v2/regions/{region}/images?{bad}")).await;
        expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
}

#[tokio::test]
async fn a_private_region_offers_nothing_to_others_and_an_unknown_one_nothing_to_anybody() {
    let world = World::start().await;
    let (other, _) = world.tenant().await;
    let private = world.region("private", Some(vec![other]), false).await;
    let grants = [Endpoint::Flavors, Endpoint::Images].into_iter().flat_map(|endpoint| may(endpoint, &Operation::ALL));
    let member = world.member("member", grants.collect());
    let organization = world.start.organization_id;
    let mut texts = Vec::new();
    for region in [private.to_string(), world.ambient.uuid().to_string()] {
        for path in [
            format!("/api/v1/organizations/{organization}/regions/{region}/flavors"),
            format!("/api/v1/organizations/{organization}/regions/{region}/images"),
            format!("/api/v2/regions/{region}/images"),
        ] {
            let response = world.send_as(&member, Method::GET, &path, &json!(null)).await;
            texts.push(expect_error(response, StatusCode::NOT_FOUND, "not_found").await);
        }
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    let theirs = expect(world.get(&format!("/api/v2/regions/{private}/images")).await, StatusCode::OK).await;
    assert_eq!(names(&theirs), ["debian", "ubuntu"], "an operator sees every region");
    let nobody = world.member("nobody", may(Endpoint::NetworksV2, &Operation::ALL));
    for what in ["flavors", "images"] {
        let refused = world.send_as(&nobody, Method::GET, &offers(&world, what), &json!(null)).await;
        expect_error(refused, StatusCode::FORBIDDEN, "forbidden").await;
    }
}
