//! What existing clients do, one scenario after the other, against the real binary and its simulated cloud.
//!
//! With `REGENT_PROXY` (the path of the Prism program; `tests/run` sets it) every request goes through a proxy that
//! compares the answer with our own document, and a scenario fails on the first answer that the document does not allow.

mod access;
mod file_storage;
mod images;
mod instances;
mod load_balancers;
mod networks;
mod servers;

use std::sync::Mutex;
use std::time::Duration;

use regent::bootstrap::BootstrapFile;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::http::{Folder, id_of};
use crate::support::process::Process;

const PROXY: &str = "REGENT_PROXY";

/// Where the proxy says what it found.
const VIOLATIONS: &str = "sl-violations";

/// How often something is looked at that changes by itself.
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// Whatever is waited for takes a few seconds.
const PATIENCE: Duration = Duration::from_mins(1);

pub const FLAVORS: [&str; 2] = ["11111111-1111-4111-8111-111111111111", "88888888-8888-4888-8888-888888888888"];
pub const IMAGES: [&str; 2] = ["33333333-3333-4333-8333-333333333333", "44444444-4444-4444-8444-444444444444"];

/// Ids of regions, as their file has them.
pub const NORTH: &str = "11111111-1111-4111-8111-111111111111";
pub const PRIVATE: &str = "22222222-2222-4222-8222-222222222222";

/// The id of nothing.
pub const NOBODY: &str = "ffffffff-ffff-4fff-8fff-ffffffffffff";

/// A running Regent, and the way to it.
pub struct Installation {
    pub start: BootstrapFile,
    base: Mutex<String>,
    client: reqwest::Client,
    /// Is it asked again, and under the same key, when nobody answers? So it is with one that gets killed.
    is_asked_again: bool,
    proxy: Option<Process>,
    server: tokio::sync::Mutex<Option<Process>>,
    // Last, so that it goes after the processes that use it.
    folder: Folder,
}

/// A member of an organization, who may do everything in it.
pub struct Member {
    pub organization: String,
    pub token: String,
}

pub struct Answer {
    pub status: StatusCode,
    pub body: Value,
}

impl Answer {
    /// The body of an answer that must have this status.
    #[track_caller]
    pub fn with(self, status: StatusCode) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

fn configuration(private_to: Option<&str>) -> String {
    let region = |id: &str, name: &str, more: &str| {
        format!("[[regions]]\nid = \"{id}\"\nname = \"{name}\"\n{more}[regions.simulated]\n\n")
    };
    let private = |owner| region(PRIVATE, "private", &format!("organizations = [\"{owner}\"]\n"));
    region(NORTH, "north", "") + &private_to.map(private).unwrap_or_default()
}

/// Starts the binary on what the folder holds, and waits until it takes requests.
async fn serve(folder: &Folder) -> (Process, BootstrapFile) {
    let path = |name: &str| folder.0.join(name).to_str().expect("text").to_owned();
    let listen = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let (data, config) = (path("data"), path("regent.toml"));
    let files = ["--data-dir", &data, "--config", &config];
    let mut server = Process::spawn(&[&listen[..], &files].concat(), "listening", &folder.0.join("server.log"));
    server.announced().await.expect("starts");
    let start = std::fs::read(folder.0.join("data/bootstrap.json")).expect("a file");
    (server, serde_json::from_slice(&start).expect("json"))
}

impl Installation {
    /// With one simulated region, behind the proxy if there is one.
    pub async fn start() -> Self {
        let mut installation = Self::on(&configuration(None)).await;
        if let Ok(program) = std::env::var(PROXY) {
            installation.watch_answers(&program).await;
        }
        installation
    }

    /// With the regions of this configuration file.
    pub async fn on(configuration: &str) -> Self {
        let folder = Folder::new();
        std::fs::write(folder.0.join("regent.toml"), configuration).expect("writes");
        let (server, start) = serve(&folder).await;
        Self {
            base: Mutex::new(start.api_url.clone()),
            start,
            client: reqwest::Client::new(),
            is_asked_again: false,
            proxy: None,
            server: tokio::sync::Mutex::new(Some(server)),
            folder,
        }
    }

    /// The same, and it may be killed.
    #[cfg(feature = "openstack")]
    pub async fn mortal(configuration: &str) -> Self {
        Self { is_asked_again: true, ..Self::on(configuration).await }
    }

    #[cfg(feature = "openstack")]
    pub const fn is_mortal(&self) -> bool {
        self.is_asked_again
    }

    /// Kills the process, and starts another one on what it left.
    #[cfg(feature = "openstack")]
    pub async fn die_and_return(&self) {
        let mut server = self.server.lock().await;
        server.take().expect("it runs").kill().await.expect("it ran");
        let (next, start) = serve(&self.folder).await;
        *server = Some(next);
        *self.base.lock().expect("lock") = start.api_url;
    }

    /// What the admin surface shows.
    #[cfg(feature = "openstack")]
    pub async fn admin(&self, path: &str) -> Value {
        let request = self.client.get(format!("{}{path}", self.start.admin_url)).bearer_auth(&self.start.token);
        request.send().await.expect("an answer").json().await.expect("json")
    }

    /// What the process has said so far.
    #[cfg(feature = "openstack")]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("server.log")).expect("a log")
    }

    async fn watch_answers(&mut self, program: &str) {
        let base = self.start.api_url.clone();
        let document = self.client.get(format!("{base}/openapi.json")).send().await.expect("an answer");
        let path = self.folder.0.join("openapi.json");
        std::fs::write(&path, document.bytes().await.expect("a body")).expect("writes");
        let arguments = ["proxy", path.to_str().expect("text"), &base, "--port", "0", "--validate-request=false"];
        let log = self.folder.0.join("proxy.log");
        let mut process = Process::spawn_program(program, &arguments, "is listening on", &log);
        let line = process.announced().await.expect("starts");
        *self.base.lock().expect("lock") = line.rsplit(' ').next().expect("an address").trim().to_owned();
        self.proxy = Some(process);
    }

    /// Ends it politely, which is part of every scenario.
    pub async fn end(self) {
        drop(self.proxy);
        self.server.into_inner().expect("it runs").terminate().await.expect("ends");
    }

    /// Gives an organization a region of its own.
    pub async fn add_private_region(&self, owner: &str) {
        std::fs::write(self.folder.0.join("regent.toml"), configuration(Some(owner))).expect("writes");
        self.server.lock().await.as_ref().expect("it runs").signal("HUP").await.expect("runs");
        let regions = format!("/api/v1/organizations/{owner}/regions");
        self.until(&regions, |answer| answer.body.as_array().is_some_and(|list| list.len() == 2)).await;
    }

    /// Another organization, and somebody who may do everything in it.
    pub async fn member(&self, name: &str) -> Member {
        let named = |spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let body = named(json!({"organizationType": "adhoc"}));
        let made = self.post("/api/v1/organizations", &body).await.with(StatusCode::ACCEPTED);
        let organization = id_of(&made).to_owned();
        let within = format!("/api/v1/organizations/{organization}");
        let roles = self.get(&format!("{within}/roles")).await.with(StatusCode::OK);
        let role = roles.as_array().expect("a list").iter().find(|role| role["metadata"]["name"] == "administrator");
        let body = named(json!({"roleIDs": [id_of(role.expect("the role"))], "serviceAccountIDs": []}));
        let group = self.post(&format!("{within}/groups"), &body).await.with(StatusCode::CREATED);
        let body = named(json!({"groupIDs": [id_of(&group)]}));
        let account = self.post(&format!("{within}/serviceaccounts"), &body).await.with(StatusCode::CREATED);
        let token = account["status"]["accessToken"].as_str().expect("a token").to_owned();
        Member { organization, token }
    }

    /// A request by whoever has the token, or by nobody.
    pub async fn ask(&self, token: Option<&str>, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let key = regent::model::ambient::Ambient::system().uuid().to_string();
        let mut tries = tokio::time::interval(LOOK_PERIOD);
        let (status, violations, text) = loop {
            tries.tick().await;
            match self.ask_once(token, &method, path, body, &key).await {
                Ok(answer) => break answer,
                Err(error) => assert!(self.is_asked_again, "{method} {path}: {error}"),
            }
        };
        // What is said of requests does not matter here: some of them are wrong on purpose.
        let found = violations.map_or(json!([]), |found| serde_json::from_str(&found).expect("json"));
        let of_answer = |violation: &&Value| violation["location"][0] == "response";
        let found = found.as_array().expect("a list").iter().filter(of_answer).collect::<Vec<_>>();
        assert!(found.is_empty(), "{method} {path} answered {status} {text}, which the document forbids: {found:?}");
        Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::Null) }
    }

    async fn ask_once(
        &self,
        token: Option<&str>,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        key: &str,
    ) -> reqwest::Result<(StatusCode, Option<String>, String)> {
        let base = self.base.lock().expect("lock").clone();
        let mut request = self.client.request(method.clone(), format!("{base}{path}"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        if self.is_asked_again {
            request = request.header("idempotency-key", key);
        }
        let response = request.send().await?;
        let violations = response.headers().get(VIOLATIONS).map(|value| value.to_str().expect("ascii").to_owned());
        Ok((response.status(), violations, response.text().await?))
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Some(&self.start.token), Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Some(&self.start.token), Method::POST, path, Some(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask(Some(&self.start.token), Method::PUT, path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.ask(Some(&self.start.token), Method::DELETE, path, None).await
    }

    /// A verb, which has no body.
    pub async fn verb(&self, path: &str) -> Answer {
        self.ask(Some(&self.start.token), Method::POST, path, None).await
    }

    /// Looks until the answer is the wanted one.
    pub async fn until(&self, path: &str, is_wanted: impl Fn(&Answer) -> bool) -> Value {
        let mut looks = tokio::time::interval(LOOK_PERIOD);
        let began = tokio::time::Instant::now();
        loop {
            looks.tick().await;
            let answer = self.get(path).await;
            if is_wanted(&answer) {
                return answer.body;
            }
            assert!(began.elapsed() < PATIENCE, "{path} stays {} {}", answer.status, answer.body);
        }
    }

    /// Looks as clients do: only the words of a creation may be seen on the way.
    pub async fn until_provisioned(&self, path: &str) -> Value {
        let word =
            |answer: &Answer| answer.body["metadata"]["provisioningStatus"].as_str().unwrap_or_default().to_owned();
        self.until(path, |answer| {
            let word = word(answer);
            assert!(["pending", "provisioning", "provisioned"].contains(&word.as_str()), "{path}: {}", answer.body);
            word == "provisioned"
        })
        .await
    }

    /// Deletes something, again as long as it is there: each answer is 202 until it is 404.
    pub async fn delete_until_gone(&self, path: &str) {
        self.delete(path).await.with(StatusCode::ACCEPTED);
        self.until(path, |answer| {
            assert!(
                answer.status == StatusCode::NOT_FOUND
                    || answer.body["metadata"]["provisioningStatus"] == "deprovisioning",
                "{path}: {}",
                answer.body
            );
            answer.status == StatusCode::NOT_FOUND
        })
        .await;
        self.delete(path).await.with(StatusCode::NOT_FOUND);
    }

    /// Creates something in a collection and waits for it; its path.
    pub async fn provisioned(&self, collection: &str, body: &Value) -> String {
        let made = self.post(collection, body).await.with(StatusCode::CREATED);
        let path = format!("{collection}/{}", id_of(&made));
        self.until_provisioned(&path).await;
        path
    }

    pub fn network_body(&self, name: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "spec": {
                "organizationId": self.start.organization_id, "projectId": self.start.project_id,
                "regionId": NORTH, "prefix": "10.0.0.0/22", "dnsNameservers": ["1.1.1.1"],
            },
        })
    }

    /// The path of a network that is there.
    pub async fn network(&self) -> String {
        self.provisioned("/api/v2/networks", &self.network_body("net")).await
    }
}

/// The last part of a path.
pub fn last(path: &str) -> &str {
    path.rsplit('/').next().expect("a part")
}

/// Is the resource at this path in this list?
pub fn lists(list: &Value, path: &str) -> bool {
    list.as_array().expect("a list").iter().any(|resource| id_of(resource) == last(path))
}
