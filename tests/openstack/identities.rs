//! Principals: made, adopted, mended and unmade.

use std::sync::atomic::Ordering;

use regent::model::ids::Kind;
use regent::providers::openstack::names;
use regent::providers::{Deletion, Provider, ProviderError};
use serde_json::json;

use super::World;
use super::cloud::id;

#[tokio::test]
async fn a_principal_is_made_once_kept_as_it_is_and_unmade() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    let made = world.principal().await;
    let calls = world.calls();
    assert_eq!(world.principal().await, made);
    assert_eq!(world.changes_since(calls), [], "what is as it should be is left alone");

    let name = names::principal(world.identity);
    let (project, user) = (made.project.clone().expect("a project").0, made.user.clone().expect("a user").0);
    let (_, body) = admin.call("GET", "identity", &format!("projects/{project}"), None).await;
    let tags = body["project"]["tags"].as_array().expect("tags").clone();
    for tag in [format!("organization={}", world.organization), format!("project={}", world.project)] {
        assert!(tags.contains(&json!(tag)), "{tag} in {tags:?}");
    }
    assert_eq!(body["project"]["name"], name);
    let credentials = format!("users/{user}/application_credentials");
    let credentials = admin.list("identity", &credentials, "application_credentials").await;
    assert_eq!(credentials.iter().map(|one| one["name"].clone()).collect::<Vec<_>>(), [json!(name)]);
    assert_eq!(credentials[0]["description"], names::CREDENTIAL_DESCRIPTION);
    let (_, quotas) = admin.call("GET", "network", &format!("quotas/{project}"), None).await;
    assert_eq!(quotas["quota"]["network"], -1);
    let (_, quotas) = admin.call("GET", "compute", &format!("os-quota-sets/{project}"), None).await;
    assert_eq!(quotas["quota_set"]["instances"], -1);

    let notes = world.notes();
    let context = world.context(&notes);
    let only = [world.identity.0];
    let listed = async || {
        let page = world.provider.list(&context, Kind::Identity, Some(&only), None).await.expect("a list").fact;
        page.items.into_iter().map(|listed| (listed.key, listed.incarnation)).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, [(world.identity.key(), world.incarnation)], "so that it is missed by nobody unseen");

    world.no_principal().await;
    assert_eq!(listed().await, []);
    for path in [format!("projects/{project}"), format!("users/{user}")] {
        assert_eq!(admin.call("GET", "identity", &path, None).await.0, 404, "{path}");
    }
    let groups = admin.list("compute", "os-server-groups?all_projects=true", "server_groups").await;
    assert!(groups.iter().all(|group| group["name"] != name), "the server group is gone too");
    world.no_principal().await;
}

#[tokio::test]
async fn b4_a_creation_cut_at_any_note_is_finished_without_doubles() {
    for notes in 0..6 {
        let world = World::new().await;
        let admin = world.facts.admin().await;
        world.records.notes_left.store(notes, Ordering::Relaxed);
        let notes_of_pass = world.notes();
        let cut = world.provider.converge_identity(&world.context(&notes_of_pass), &world.identity_request()).await;
        if cut.is_ok() {
            assert_eq!(notes, 5, "a principal is noted five times");
        } else {
            // Keystone may cut it as well: it sometimes refuses a role that it has given a moment ago.
            assert!(matches!(cut, Err(ProviderError::Ledger(_) | ProviderError::Conflict(_))), "{cut:?}");
        }
        world.records.notes_left.store(usize::MAX, Ordering::Relaxed);
        let made = world.principal().await;
        let name = names::principal(world.identity);
        let projects = admin.list("identity", &format!("projects?name={name}"), "projects").await;
        let users = admin.list("identity", &format!("users?name={name}"), "users").await;
        assert_eq!((projects.len(), users.len()), (1, 1));
        let user = made.user.expect("a user").0;
        let credentials = format!("users/{user}/application_credentials");
        let credentials = admin.list("identity", &credentials, "application_credentials").await;
        assert_eq!(credentials.len(), 1, "what nobody has the secret of was revoked");
        assert_eq!(id(&credentials[0]), made.credential.expect("a credential").id);
        let groups = admin.list("compute", "os-server-groups?all_projects=true", "server_groups").await;
        assert_eq!(groups.iter().filter(|group| group["name"] == name).count(), 1);
        world.no_principal().await;
    }
}

#[tokio::test]
async fn b3_a_beginning_without_a_record_is_unmade() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    world.records.notes_left.store(0, Ordering::Relaxed);
    let notes = world.notes();
    let cut = world.provider.converge_identity(&world.context(&notes), &world.identity_request()).await;
    assert!(matches!(cut, Err(ProviderError::Ledger(_))), "{cut:?}");
    let name = names::principal(world.identity);
    assert_eq!(admin.list("identity", &format!("projects?name={name}"), "projects").await.len(), 1);
    world.no_principal().await;
    assert_eq!(admin.list("identity", &format!("projects?name={name}"), "projects").await.len(), 0);
}

#[tokio::test]
async fn what_was_made_by_hand_under_the_names_is_adopted() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    let (name, domain) = (names::principal(world.identity), world.facts.text("domainId"));
    let project = admin.make("identity", "projects", "project", json!({ "name": name, "domain_id": domain })).await;
    let user = json!({ "name": name, "domain_id": domain, "password": "made by hand" });
    let user = admin.make("identity", "users", "user", user).await;
    let calls = world.calls();
    let made = world.principal().await;
    assert_eq!(
        (made.project.expect("a project").0.as_str(), made.user.expect("a user").0.as_str()),
        (id(&project), id(&user))
    );
    let created = world.changes_since(calls).into_iter().map(|call| call.operation).collect::<Vec<_>>();
    assert!(!created.contains(&"create-project") && !created.contains(&"create-user"), "{created:?}");
    assert!(created.contains(&"reset-password"), "only secrets are issued anew");
    world.no_principal().await;
}

#[tokio::test]
async fn a_credential_that_was_revoked_and_a_project_that_vanished_are_replaced() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    let made = world.principal().await;
    let user = made.user.clone().expect("a user").0;
    let credential = made.credential.clone().expect("a credential").id;
    let path = format!("users/{user}/application_credentials/{credential}");
    assert_eq!(admin.call("DELETE", "identity", &path, None).await.0, 204);
    // The token that was issued for it is forgotten with another process, or ends.
    let again = world.restarted().await;
    let mended = again.principal().await;
    assert_ne!(mended.credential, made.credential);
    assert_eq!((&mended.project, &mended.user), (&made.project, &made.user));

    let project = mended.project.clone().expect("a project").0;
    assert_eq!(admin.call("DELETE", "identity", &format!("projects/{project}"), None).await.0, 204);
    let replaced = again.principal().await;
    assert_ne!(replaced.project, mended.project);
    assert_eq!(replaced.user, mended.user);
    again.no_principal().await;
}

#[tokio::test]
async fn the_principal_of_another_life_is_not_touched() {
    let world = World::new().await;
    world.principal().await;
    let mut successor = world.identity_request();
    successor.incarnation = regent::model::ids::Incarnation(super::random());
    successor.detail = regent::model::identity::IdentityDetail::default();
    let notes = world.notes();
    let context = world.context(&notes);
    let deleted = world.provider.delete_identity(&context, &successor).await;
    assert_eq!(deleted, Ok(Deletion::Absent), "nothing is there of that life");
    world.principal().await;
    world.no_principal().await;
}

#[tokio::test]
async fn an_operators_reset_sets_roles_and_quotas_again_and_keeps_the_credential() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    let made = world.principal().await;
    let (project, user) = (made.project.clone().expect("a project").0, made.user.clone().expect("a user").0);
    let quotas = format!("quotas/{project}");
    let limited = json!({ "quota": { "network": 1 } });
    assert_eq!(admin.call("PUT", "network", &quotas, Some(limited)).await.0, 200);
    let roles = admin.list("identity", "roles?name=load-balancer_member", "roles").await;
    let role = format!("projects/{project}/users/{user}/roles/{}", id(&roles[0]));
    let has_role = async || admin.call("HEAD", "identity", &role, None).await.0 == 204;
    let limit = async || admin.call("GET", "network", &quotas, None).await.1["quota"]["network"].clone();

    // What the cloud's own people changed is theirs.
    world.principal().await;
    assert_eq!(limit().await, 1);
    let mut request = world.identity_request();
    request.resets = 1;
    let notes = world.notes();
    let context = world.context(&notes);
    let reset = world.provider.converge_identity(&context, &request).await.expect("reset").fact;
    assert_eq!(limit().await, -1);
    assert!(has_role().await);
    assert_eq!((&reset.credential, reset.resets), (&made.credential, 1));
    let calls = world.calls();
    request.detail = reset;
    world.provider.converge_identity(&context, &request).await.expect("as it was");
    assert_eq!(world.changes_since(calls), [], "once for each reset");
    world.no_principal().await;
}

#[tokio::test]
async fn a_project_that_owns_images_is_not_taken_away() {
    let world = World::new().await;
    let admin = world.facts.admin().await;
    let project = world.principal().await.project.expect("a project").0;
    let body = json!({ "owner": project, "container_format": "bare", "disk_format": "raw", "name": "left" });
    let (status, image) = admin.call("POST", "image", "v2/images", Some(body)).await;
    assert_eq!(status, 201, "{image}");
    let notes = world.notes();
    let context = world.context(&notes);
    let refused = world.provider.delete_identity(&context, &world.identity_request()).await;
    assert!(matches!(&refused, Err(ProviderError::Conflict(words)) if words.contains("1 images")), "{refused:?}");
    assert_eq!(world.principal().await.project.expect("a project").0, project, "nothing of it was taken away");
    assert_eq!(admin.call("DELETE", "image", &format!("v2/images/{}", id(&image)), None).await.0, 204);
    world.no_principal().await;
}
