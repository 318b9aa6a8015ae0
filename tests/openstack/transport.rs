//! The way to the cloud: tokens that end, regions that are not there, passwords that change.

use regent::model::ids::NetworkId;
use regent::model::network::NetworkDetail;
use regent::providers::pool::Outcome;
use regent::providers::{Provider, ProviderError};

use super::cloud::Facts;
use super::{World, random};

#[tokio::test]
async fn what_the_cloud_offers_is_read_with_what_the_region_says_of_it() {
    let world = World::new().await;
    let notes = world.notes();
    let context = world.context(&notes);
    let flavors = world.provider.flavors(&context).await.expect("flavors");
    assert!(flavors.iter().any(|flavor| flavor.name == "m1.tiny" && flavor.cpus > 0), "{flavors:?}");
    assert!(flavors.iter().any(|flavor| flavor.name == "m1.numbered"), "a flavor whose id is no UUID is offered too");
    let networks = world.provider.external_networks(&context).await.expect("external networks");
    assert_eq!(networks[0].id.0, world.facts.text("externalNetworkId"));
    assert!(!world.provider.images(&context).await.expect("images").is_empty());
    assert_eq!(world.provider.volume_classes(&context).await, Ok(vec![]), "nothing is offered unless it is named");
}

#[tokio::test]
async fn a_service_account_that_lost_its_role_in_a_project_gets_it_back() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    let project = world.principal().await.project.expect("a project").0;
    let user = world.facts.text("userId");
    let roles = admin.list("identity", &format!("projects/{project}/users/{user}/roles"), "roles").await;
    let role = format!("projects/{project}/users/{user}/roles/{}", super::cloud::id(&roles[0]));
    assert_eq!(admin.call("DELETE", "identity", &role, None).await.0, 204);
    // Services believe a token for some time after that. Who has none is not let in.
    let world = world.restarted().await;
    let request = world.network_request(NetworkId(random()), NetworkDetail::default());
    let notes = world.notes();
    let context = world.context(&notes);
    let refused = world.provider.converge_network(&context, &request).await;
    assert_eq!(refused.map(|seen| seen.fact), Err(ProviderError::PrincipalMissing));
    let calls = world.calls();
    world.principal().await;
    let mended = world.changes_since(calls).into_iter().map(|call| call.operation).collect::<Vec<_>>();
    assert!(mended.contains(&"assign-role"), "{mended:?}");
    assert_eq!(world.provider.converge_network(&context, &request).await.expect("a network").fact.trouble, None);
    let deleted = world.provider.delete_network(&context, &request).await;
    assert_eq!(deleted, Ok(regent::providers::Deletion::Absent));
    world.no_principal().await;
}

#[tokio::test]
async fn b46_a_region_that_the_catalogue_does_not_have_has_no_endpoints() {
    let world = World::with(|settings| settings.region_name = Some("Elsewhere".to_owned())).await;
    let notes = world.notes();
    let refused = world.provider.flavors(&world.context(&notes)).await;
    let Err(ProviderError::Unavailable(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("Elsewhere") && reason.contains("compute"), "{reason}");
}

#[tokio::test]
async fn nobody_at_home_is_unavailable_and_a_wrong_password_is_unauthorized() {
    let away = World::with(|settings| settings.endpoint = Some("http://127.0.0.1:9/v3".to_owned())).await;
    let notes = away.notes();
    let refused = away.provider.external_networks(&away.context(&notes)).await;
    assert!(matches!(refused, Err(ProviderError::Unavailable(_))), "{refused:?}");

    let mut file = None;
    let world = World::with(|settings| {
        let path = Facts::credentials_file(settings);
        let wrong = std::fs::read_to_string(&path).expect("written").replace("password = \"", "password = \"x");
        std::fs::write(&path, wrong).expect("written");
        file = Some(path);
    });
    let world = world.await;
    let notes = world.notes();
    let context = world.context(&notes);
    assert_eq!(world.provider.external_networks(&context).await, Err(ProviderError::Unauthorized));
    // The operator mends the file: nothing is restarted.
    std::fs::write(file.expect("a file"), world.facts.credentials()).expect("written");
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    assert!(world.provider.external_networks(&context).await.is_ok());
    let outcomes = world.pool.recent().into_iter().filter_map(|call| call.end.map(|end| end.outcome));
    assert_eq!(outcomes.collect::<Vec<_>>(), [Outcome::Unauthorized, Outcome::Succeeded]);
}
