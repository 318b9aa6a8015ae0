//! `regent region check` against clouds that are good, closed, and half open.

use std::path::PathBuf;

use regent::model::ambient::Ambient;
use regent::model::openstack::CloudsYaml;
use regent::providers::openstack::check::{Grade, Outcome, check};
use serde_json::json;

use super::cloud::{Facts, id};
use super::random;

/// A `clouds.yaml` with one entry.
fn entry(facts: &Facts, auth: &[(&str, &str)]) -> CloudsYaml {
    let folder: PathBuf = std::env::temp_dir().join(format!("regent-region-check-{}", random()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("clouds.yaml");
    let lines = auth.iter().map(|(key, value)| format!("      {key}: \"{value}\"")).collect::<Vec<_>>().join("\n");
    let (url, region) = (facts.text("authUrl"), facts.text("region"));
    let text = format!("clouds:\n  it:\n    region_name: {region}\n    auth:\n      auth_url: {url}\n{lines}\n");
    std::fs::write(&file, text).expect("written");
    CloudsYaml { file: file.display().to_string(), cloud: "it".to_owned() }
}

async fn checked(facts: &Facts, auth: &[(&str, &str)]) -> Outcome {
    check(entry(facts, auth), Ambient::system()).await.expect("asked")
}

fn account(facts: &Facts) -> Vec<(&'static str, &str)> {
    [("user_id", "userId"), ("password", "password"), ("project_id", "projectId")]
        .map(|(key, fact)| (key, facts.text(fact)))
        .to_vec()
}

fn short(outcome: &Outcome) -> Vec<String> {
    outcome.lines.iter().filter(|line| line.grade != Grade::Ok).map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_good_cloud_is_a_region_and_nothing_of_the_check_stays() {
    let facts = Facts::read();
    let admin = facts.admin().await;
    let outcome = checked(&facts, &account(&facts)).await;
    assert_eq!(short(&outcome), [""; 0]);
    let region = outcome.region.expect("a region");
    assert!(region.contains(facts.text("externalNetworkId")), "{region}");
    assert!(!region.contains("isolation"), "{region}");
    let said = outcome.lines.iter().map(ToString::to_string).collect::<String>();
    assert!(!said.contains(facts.text("password")) && !region.contains(facts.text("password")));
    for (path, key) in [("projects", "projects"), ("users", "users")] {
        let path = format!("{path}?domain_id={}", facts.text("domainId"));
        let listed = admin.list("identity", &path, key).await;
        // Other checks may be under way: what this one made has the region's id in its name.
        let id = region.split('"').nth(1).expect("an id");
        let mine = listed.iter().filter(|one| one["name"].as_str().is_some_and(|name| name.contains(id)));
        assert_eq!(mine.count(), 0);
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_and_there_is_no_region() {
    let facts = Facts::read();
    let mut account = account(&facts);
    account[1].1 = "not the password";
    let outcome = checked(&facts, &account).await;
    assert!(outcome.region.is_none());
    let [line] = short(&outcome).try_into().expect("one");
    assert!(line.contains("log-in") && line.contains("token issue"), "{line}");
}

#[tokio::test]
async fn a_cloud_that_is_not_there_is_told_and_an_entry_that_names_no_project_too() {
    let facts = Facts::read();
    let nowhere = [("auth_url", "http://127.0.0.1:9/v3"), ("user_id", "u"), ("password", "p"), ("project_id", "p")];
    let mut entry = entry(&facts, &nowhere[1..]);
    let text = std::fs::read_to_string(&entry.file).expect("read").replace(facts.text("authUrl"), nowhere[0].1);
    std::fs::write(&entry.file, text).expect("written");
    let outcome = check(entry.clone(), Ambient::system()).await.expect("asked");
    assert!(outcome.region.is_none() && short(&outcome)[0].contains("Keystone"), "{:?}", short(&outcome));
    "another".clone_into(&mut entry.cloud);
    assert!(check(entry, Ambient::system()).await.is_err());
    let outcome = checked(&facts, &account(&facts)[..2]).await;
    assert!(outcome.region.is_none() && short(&outcome)[0].contains("project_id"), "{:?}", short(&outcome));
}

#[tokio::test]
async fn a_user_without_a_domain_gets_a_region_of_one_project() {
    let facts = Facts::read();
    let admin = facts.admin().await;
    let (name, password) = (format!("regent-check-test-{}", random()), "hunter2hunter2");
    let project = admin.make("identity", "projects", "project", json!({ "name": name, "domain_id": "default" })).await;
    let user = json!({ "name": name, "domain_id": "default", "password": password });
    let user = admin.make("identity", "users", "user", user).await;
    let roles = admin.list("identity", "roles?name=member", "roles").await;
    let path = format!("projects/{}/users/{}/roles/{}", id(&project), id(&user), id(&roles[0]));
    assert_eq!(admin.call("PUT", "identity", &path, None).await.0, 204);

    let outcome =
        checked(&facts, &[("user_id", id(&user)), ("password", password), ("project_id", id(&project))]).await;
    for path in [format!("users/{}", id(&user)), format!("projects/{}", id(&project))] {
        assert_eq!(admin.call("DELETE", "identity", &path, None).await.0, 204);
    }
    let region = outcome.region.as_ref().expect("a region all the same");
    assert!(region.contains("isolation = \"project\""), "{region}");
    let short = short(&outcome);
    let has = |words: &str| short.iter().any(|line| line.starts_with("weaker") && line.contains(words));
    for words in [
        "roles, own project",
        &format!("openstack role add --user {} --domain default manager", id(&user)),
        "nothing but names keeps them apart",
        "policy/nova.yaml",
        "policy/neutron.yaml",
        "policy/placement.yaml",
    ] {
        assert!(has(words), "{words}: {short:#?}");
    }
}
