//! An image's life: imported, booted from, protected, saved from a server, failed, lost, and gone with its organization.

use axum::http::StatusCode;
use regent::model::condition::Reason;
use regent::model::ids::{ImageId, Kind, RegionId};
use regent::model::image::{Image, ImageFailure};
use regent::providers::image_schema::ImageEntry;
use regent::providers::simulated::catalogue::{self, IMAGE_GPU, IMAGE_UBUNTU};
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::providers::simulated::engine::faults::{Effect, Fault};
use regent::store::memory::Mode;
use serde_json::{Value, json};

use super::machines::{Estate, estate, get_server, inventory, rebuild, running, server_body};
use super::servers::{cut_everywhere, never_two};
use super::{create, eventually, provisioned, world};
use crate::support::world::{Life, World};

fn images(world: &World, region: RegionId) -> String {
    format!("/api/v1/organizations/{}/regions/{region}/images", world.tenants[0].organization)
}

pub fn import_body(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "uri": "https://images.example.org/golden.raw",
            "architecture": "x86_64",
            "virtualization": "virtualized",
            "os": {"kernel": "linux", "family": "debian", "distro": "ubuntu", "version": "24.04"},
        },
    })
}

fn id_of(answer: &Value) -> ImageId {
    ImageId(answer["metadata"]["id"].as_str().expect("an id").parse().expect("a UUID"))
}

async fn import(world: &World, life: &Life, region: RegionId) -> ImageId {
    let (status, answer) = life.request("POST", &images(world, region), Some(import_body("golden"))).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    id_of(&answer)
}

async fn state(world: &World, life: &Life, region: RegionId, image: ImageId) -> String {
    let path = format!("/api/v2/regions/{region}/images?organizationID={}", world.tenants[0].organization);
    let (_, list) = life.request("GET", &path, None).await;
    let list = list.as_array().expect("a list");
    let found = list.iter().find(|listed| id_of(listed) == image);
    found.map_or("gone", |listed| listed["status"]["state"].as_str().expect("a state")).to_owned()
}

async fn becomes(world: &World, life: &Life, region: RegionId, image: ImageId, wanted: &str) {
    eventually(wanted, async || state(world, life, region, image).await == wanted).await;
}

async fn delete(world: &World, life: &Life, region: RegionId, image: ImageId) -> (StatusCode, Value) {
    life.request("DELETE", &format!("{}/{image}", images(world, region)), None).await
}

async fn snapshot(life: &Life, server: regent::model::ids::ServerId) -> ImageId {
    let body = json!({"metadata": {"name": "saved"}, "spec": {}});
    let (status, answer) = life.request("POST", &format!("/api/v2/servers/{server}/snapshot"), Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(answer["status"]["state"], "creating");
    id_of(&answer)
}

#[tokio::test(start_paused = true)]
async fn an_image_is_imported_booted_from_protected_and_deleted() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let image = import(&world, &life, region).await;
    assert_eq!(state(&world, &life, region, image).await, "pending");
    becomes(&world, &life, region, image, "creating").await;
    let asked = tokio::time::Instant::now();
    becomes(&world, &life, region, image, "ready").await;
    assert!(asked.elapsed().as_secs() < 5, "the monitor notices, not the look at everything");
    let (_, ready) = life.request("GET", &images(&world, region), None).await;
    assert!(ready.as_array().expect("a list").iter().any(|listed| id_of(listed) == image), "{ready}");

    let network = create(&world, &life, "net", region).await;
    provisioned(&life, network).await;
    let mut body = server_body(network, &[], "web");
    body["spec"]["imageId"] = json!(image);
    let (status, answer) = life.request("POST", "/api/v2/servers", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let server = regent::model::ids::ServerId(id_of(&answer).0);
    running(&life, server).await;
    let (status, answer) = delete(&world, &life, region, image).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    let text = answer["error_description"].as_str().expect("text");
    assert!(text.contains("in use by servers") && text.contains(&server.to_string()), "{text}");

    // Once the server is on another image, nothing holds the first one.
    assert_eq!(rebuild(&life, server, IMAGE_UBUNTU).await.0, StatusCode::ACCEPTED);
    assert_eq!(delete(&world, &life, region, image).await.0, StatusCode::FORBIDDEN, "it is still on it");
    running(&life, server).await;
    assert_eq!(life.store.references(image.key()).await.expect("reads"), []);
    assert_eq!(rebuild(&life, server, image).await.0, StatusCode::ACCEPTED);
    running(&life, server).await;
    assert_eq!(delete(&world, &life, region, image).await.0, StatusCode::FORBIDDEN);

    assert_eq!(life.request("DELETE", &format!("/api/v2/servers/{server}"), None).await.0, StatusCode::ACCEPTED);
    eventually("the server is gone", async || get_server(&life, server).await.0 == StatusCode::NOT_FOUND).await;
    assert_eq!(delete(&world, &life, region, image).await.0, StatusCode::ACCEPTED);
    becomes(&world, &life, region, image, "gone").await;
    assert_eq!(delete(&world, &life, region, image).await.0, StatusCode::NOT_FOUND);
    assert!(inventory(&life, region).await.images.is_empty());
    let claims = life.store.claims().await.expect("reads");
    assert!(claims.iter().all(|claim| claim.holder != image.key()), "its place is free again");
}

#[tokio::test(start_paused = true)]
async fn a_server_is_saved_while_it_is_held_and_boots_again_from_what_was_saved() {
    let (world, life) = world().await;
    let Estate { region, network, server, .. } = estate(&world, &life).await;
    let image = snapshot(&life, server).await;
    let (status, answer) = life.request("DELETE", &format!("/api/v2/servers/{server}"), None).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    becomes(&world, &life, region, image, "ready").await;
    assert_eq!(life.store.references(regent::model::ids::ServerId::key(server)).await.expect("reads"), []);
    assert_eq!(life.request("DELETE", &format!("/api/v2/servers/{server}"), None).await.0, StatusCode::ACCEPTED);
    eventually("gone", async || get_server(&life, server).await.0 == StatusCode::NOT_FOUND).await;
    let mut body = server_body(network, &[], "again");
    body["spec"]["imageId"] = json!(image);
    let (status, answer) = life.request("POST", "/api/v2/servers", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    running(&life, regent::model::ids::ServerId(id_of(&answer).0)).await;
}

#[tokio::test(start_paused = true)]
async fn an_import_that_fails_is_shown_parked_and_can_be_deleted() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let handle = life.clouds.handle(region).expect("simulated");
    handle.add_faults(vec![Fault::once("create-image", Effect::FailedImport)]).await.expect("takes faults");
    let image = import(&world, &life, region).await;
    becomes(&world, &life, region, image, "failed").await;
    let record = life.store.get(image.key()).await.expect("reads").expect("there");
    let resource = record.open::<Image>().expect("opens");
    assert_eq!(resource.detail.failure, Some(ImageFailure::NotMade));
    assert_eq!(resource.conditions.available.expect("said").reason, Reason::ProviderCreateFailed);
    assert_eq!(delete(&world, &life, region, image).await.0, StatusCode::ACCEPTED);
    becomes(&world, &life, region, image, "gone").await;
    assert!(inventory(&life, region).await.images.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_cannot_be_made_lets_its_server_go() {
    let (world, life) = world().await;
    let Estate { region, server, .. } = estate(&world, &life).await;
    let handle = life.clouds.handle(region).expect("simulated");
    handle.add_faults(vec![Fault::once("create-image", Effect::FailedImport)]).await.expect("takes faults");
    let image = snapshot(&life, server).await;
    becomes(&world, &life, region, image, "failed").await;
    assert_eq!(life.store.referred_by(&regent::model::edge::Holder::Resource(image.key())).await.expect("reads"), []);
    assert_eq!(life.request("DELETE", &format!("/api/v2/servers/{server}"), None).await.0, StatusCode::ACCEPTED);
    eventually("gone", async || get_server(&life, server).await.0 == StatusCode::NOT_FOUND).await;
}

#[tokio::test(start_paused = true)]
async fn an_image_that_vanished_is_shown_as_lost_and_what_runs_on_it_goes_on() {
    let (world, life) = world().await;
    let Estate { region, server, .. } = estate(&world, &life).await;
    let image = import(&world, &life, region).await;
    becomes(&world, &life, region, image, "ready").await;
    assert_eq!(rebuild(&life, server, image).await.0, StatusCode::ACCEPTED);
    running(&life, server).await;
    let object = inventory(&life, region).await.images.remove(0).id;
    let handle = life.clouds.handle(region).expect("simulated");
    handle.change_directly(BackdoorChange::Delete { id: object }).await.expect("deletes");
    becomes(&world, &life, region, image, "failed").await;
    let record = life.store.get(image.key()).await.expect("reads").expect("there");
    assert_eq!(record.open::<Image>().expect("opens").detail.failure, Some(ImageFailure::Lost));
    assert!(inventory(&life, region).await.images.is_empty(), "it is not made again from something else");
    assert_eq!(rebuild(&life, server, IMAGE_GPU).await.0, StatusCode::ACCEPTED);
    running(&life, server).await;
    assert_eq!(delete(&world, &life, region, image).await.0, StatusCode::ACCEPTED);
    becomes(&world, &life, region, image, "gone").await;
}

#[tokio::test(start_paused = true)]
async fn an_organization_takes_its_images_along_after_the_servers_that_use_them() {
    let (world, life) = world().await;
    let Estate { region, server, .. } = estate(&world, &life).await;
    let image = import(&world, &life, region).await;
    becomes(&world, &life, region, image, "ready").await;
    assert_eq!(rebuild(&life, server, image).await.0, StatusCode::ACCEPTED);
    running(&life, server).await;
    let saving = snapshot(&life, server).await;
    let tenant = world.tenants[0];
    let organization = format!("/api/v1/organizations/{}", tenant.organization);
    // The project of this world is nobody's, so it has to be asked for by itself.
    for path in [organization.clone(), format!("{organization}/projects/{}", tenant.project)] {
        assert_eq!(life.request("DELETE", &path, None).await.0, StatusCode::ACCEPTED, "{path}");
    }
    let there = async |key| life.store.get(key).await.expect("reads").is_some();
    eventually("both images are gone", async || !there(image.key()).await && !there(saving.key()).await).await;
    assert!(inventory(&life, region).await.images.is_empty());
    assert!(life.store.claims().await.expect("reads").iter().all(|claim| !claim.pool.starts_with("image/")));
}

#[tokio::test(start_paused = true)]
async fn b16_a_bad_image_of_the_cloud_is_left_out_of_the_list_and_the_others_serve() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let mut image = ImageEntry::of(&catalogue::images()[1]);
    image.id = ImageId(uuid::Uuid::from_u128(7));
    image.properties.remove("unikorn:gpu_driver_version");
    let handle = life.clouds.handle(region).expect("simulated");
    handle.change_directly(BackdoorChange::OfferImage { image }).await.expect("offers");
    let (status, list) = life.request("GET", &format!("/api/v2/regions/{region}/images"), None).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(list.as_array().expect("a list").len(), catalogue::images().len());
}

#[test]
fn a_snapshot_cut_anywhere_is_made_once_and_lets_its_server_go() {
    let ask = async |world: &World, life: &Life, estate: &Estate| {
        let image = snapshot(life, estate.server).await;
        becomes(world, life, estate.region, image, "ready").await;
    };
    cut_everywhere(&[Mode::Atomic, Mode::Saga], ask, async |world, life, estate| {
        let filter = regent::store::Filter::of(Kind::Image);
        let records = life.store.list(&filter, regent::store::Page::FIRST).await.expect("reads");
        for record in &records {
            becomes(world, life, estate.region, ImageId(record.key.id), "ready").await;
        }
        let free = async || life.store.references(estate.server.key()).await.expect("reads").is_empty();
        eventually("the server is let go", free).await;
        let held = inventory(life, estate.region).await;
        assert_eq!(held.images.len(), records.len(), "one for the one that was asked for, if it was");
        never_two(life, estate).await;
    });
}
