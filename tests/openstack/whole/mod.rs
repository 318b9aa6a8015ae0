//! Regent as a whole on a real OpenStack: the real binary, asked by REST only, and what the cloud's administrator then
//! sees of it.

mod adoption;
mod faults;
mod kills;
mod life;
mod refusals;
mod script;
mod weather;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use regent::providers::openstack::names;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::cloud::{Admin, Facts, id};
use crate::scenarios::{Answer, Installation, NORTH};

/// How often the cloud is looked at, and how long until it is given up on. A cloud that everybody works on at once takes
/// its time.
const LOOK_PERIOD: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_mins(3);

/// A running Regent with the development cloud as its region, and that cloud's administrator.
pub struct Stage {
    pub regent: Installation,
    pub facts: Facts,
    pub admin: Admin,
    /// The projects that were ever seen to be its principals': what is left in them is looked for when they are gone.
    projects: Mutex<BTreeSet<String>>,
}

/// A region on the cloud, whose Keystone is at this address.
pub fn configuration(facts: &Facts, keystone: &str) -> String {
    let settings = facts.settings();
    format!(
        "[[regions]]\nid = \"{NORTH}\"\nname = \"north\"\n[regions.openstack]\nendpoint = \"{keystone}\"\n\
         regionName = \"{}\"\ncredentials = {{ file = \"{}\" }}\n\
         [regions.openstack.blockStorage.volumeClasses]\nids = [\"{}\"]\n",
        facts.text("region"),
        Facts::credentials_file(&settings).display(),
        facts.within("volumeTypes", "standard"),
    )
}

/// What is listed in a project: service, path, key, and what tells what is ours from what every project has.
const LISTS: [(&str, &str, &str); 13] = [
    ("network", "networks?project_id=", "networks"),
    ("network", "subnets?project_id=", "subnets"),
    ("network", "routers?project_id=", "routers"),
    ("network", "security-groups?project_id=", "security_groups"),
    ("network", "ports?project_id=", "ports"),
    ("network", "floatingips?project_id=", "floatingips"),
    ("compute", "servers/detail?all_tenants=1&project_id=", "servers"),
    ("block-storage", "volumes/detail?all_tenants=1&project_id=", "volumes"),
    ("image", "v2/images?owner=", "images"),
    ("load-balancer", "v2.0/lbaas/loadbalancers?project_id=", "loadbalancers"),
    ("load-balancer", "v2.0/lbaas/listeners?project_id=", "listeners"),
    ("load-balancer", "v2.0/lbaas/pools?project_id=", "pools"),
    ("load-balancer", "v2.0/lbaas/healthmonitors?project_id=", "healthmonitors"),
];

/// Every project has a group of this name of its own.
const EVERYBODYS: &str = "default";

fn is_ours(key: &str, object: &Value) -> bool {
    match key {
        // Those that routers and address services make for themselves go with them.
        "ports" => !object["device_owner"].as_str().is_some_and(|owner| owner.starts_with("network:")),
        "security_groups" => object["name"] != EVERYBODYS,
        _ => true,
    }
}

/// What an object is for. Principals have names that REST does not show.
fn shown_as(key: &str, object: &Value) -> String {
    let field = if key == "floatingips" { "description" } else { "name" };
    let name = object[field].as_str().unwrap_or_default();
    let name = name.split_once(" (").map_or(name, |(name, _)| name);
    let name = if name.starts_with(names::PRINCIPAL_PREFIX) { names::PRINCIPAL_PREFIX } else { name };
    format!("{key} {name}")
}

impl Stage {
    pub async fn on(regent: Installation, facts: Facts) -> Self {
        let admin = facts.admin().await;
        Self { regent, facts, admin, projects: Mutex::default() }
    }

    pub async fn open() -> Self {
        let facts = Facts::read();
        let regent = Installation::on(&configuration(&facts, facts.text("authUrl"))).await;
        Self::on(regent, facts).await
    }

    /// Everything that Regent has in the cloud, doubles as often as they are there: `kind name`, in order.
    pub async fn holdings(&self) -> Vec<String> {
        let tag = format!("organization={}", self.regent.start.organization_id);
        let projects = self.admin.list("identity", &format!("projects?tags={tag}"), "projects").await;
        let mut held = projects.iter().map(|project| shown_as("projects", project)).collect::<Vec<_>>();
        let known = {
            let mut known = self.projects.lock().expect("lock");
            known.extend(projects.iter().map(|project| id(project).to_owned()));
            known.clone()
        };
        for project in &projects {
            let name = project["name"].as_str().expect("a name");
            let users = self.admin.list("identity", &format!("users?name={name}"), "users").await;
            held.extend(users.iter().map(|user| shown_as("users", user)));
        }
        let groups = self.admin.list("compute", "os-server-groups?all_projects=true", "server_groups").await;
        let is_known = |group: &&Value| group["project_id"].as_str().is_some_and(|project| known.contains(project));
        held.extend(groups.iter().filter(is_known).map(|group| shown_as("server_groups", group)));
        for project in &known {
            for (service, path, key) in LISTS {
                let listed = self.admin.list(service, &format!("{path}{project}"), key).await;
                held.extend(listed.iter().filter(|one| is_ours(key, one)).map(|one| shown_as(key, one)));
            }
        }
        held.sort();
        held
    }

    /// The cloud's project of its only principal.
    pub async fn project(&self) -> String {
        self.holdings().await;
        self.projects.lock().expect("lock").first().expect("a principal").clone()
    }

    /// Looks until the cloud holds this and nothing else.
    pub async fn holds(&self, wanted: &[Vec<String>]) {
        let mut wanted = wanted.concat();
        wanted.sort();
        let mut looks = tokio::time::interval(LOOK_PERIOD);
        let began = tokio::time::Instant::now();
        loop {
            looks.tick().await;
            let held = self.holdings().await;
            if held == wanted {
                return;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "the cloud holds\n  {}\ninstead of\n  {}",
                held.join("\n  "),
                wanted.join("\n  ")
            );
        }
    }

    /// Looks until the answer is the wanted one.
    pub async fn until(&self, path: &str, is_wanted: impl Fn(&Answer) -> bool) -> Value {
        let mut looks = tokio::time::interval(LOOK_PERIOD);
        let began = tokio::time::Instant::now();
        loop {
            looks.tick().await;
            let answer = self.regent.get(path).await;
            if is_wanted(&answer) {
                return answer.body;
            }
            assert!(began.elapsed() < PATIENCE, "{path} stays {} {}", answer.status, answer.body);
        }
    }

    pub async fn until_provisioned(&self, path: &str) -> Value {
        self.until(path, |answer| answer.body["metadata"]["provisioningStatus"] == "provisioned").await
    }

    pub async fn until_power(&self, instance: &str, word: &str) -> Value {
        self.until(instance, |answer| answer.body["status"]["powerState"] == word).await
    }

    pub async fn until_gone(&self, path: &str) {
        self.until(path, |answer| answer.status == StatusCode::NOT_FOUND).await;
    }

    /// Asks for something, and does not wait for it; its path.
    pub async fn asked(&self, collection: &str, body: &Value) -> String {
        let made = self.regent.post(collection, body).await.with(StatusCode::CREATED);
        format!("{collection}/{}", crate::http::id_of(&made))
    }

    pub async fn made(&self, collection: &str, body: &Value) -> String {
        let path = self.asked(collection, body).await;
        self.until_provisioned(&path).await;
        path
    }

    /// Deletes what others may still hold, as soon as they do not.
    pub async fn delete_when_free(&self, path: &str) {
        let mut tries = tokio::time::interval(LOOK_PERIOD);
        loop {
            tries.tick().await;
            let answer = self.regent.delete(path).await;
            match answer.status {
                StatusCode::ACCEPTED | StatusCode::NOT_FOUND => return,
                _ => answer.with(StatusCode::FORBIDDEN),
            };
        }
    }

    pub async fn removed(&self, path: &str) {
        let answer = self.regent.delete(path).await;
        // One that is asked again may have heard it before, from a process that died with its answer.
        let is_heard = answer.status == StatusCode::NOT_FOUND && self.regent.is_mortal();
        assert!(answer.status == StatusCode::ACCEPTED || is_heard, "{path}: {} {}", answer.status, answer.body);
        self.until_gone(path).await;
    }

    /// Takes a volume from its server.
    pub async fn detached(&self, volume: &str) {
        let read = self.regent.get(volume).await.with(StatusCode::OK);
        let mut spec = read["spec"].clone();
        spec.as_object_mut().expect("an object").remove("serverId");
        let body = json!({ "metadata": { "name": read["metadata"]["name"] }, "spec": spec });
        self.regent.put(volume, &body).await.with(StatusCode::ACCEPTED);
        self.until(volume, |answer| answer.body["status"].get("attachment").is_none()).await;
    }

    /// A body with a name, of the region and the project if it says so.
    pub fn body(&self, name: &str, spec: Value) -> Value {
        json!({ "metadata": { "name": name }, "spec": spec })
    }

    pub fn placed(&self, name: &str, mut spec: Value) -> Value {
        let start = &self.regent.start;
        spec["organizationId"] = json!(start.organization_id);
        spec["projectId"] = json!(start.project_id);
        self.body(name, spec)
    }
}
