//! The development cloud, and what its administrator sees of it.

use std::path::PathBuf;

use regent::model::openstack::{CredentialSource, OpenstackSettings};
use serde_json::{Value, json};

/// What `up` wrote down of the cloud that it made.
#[derive(Clone)]
pub struct Facts {
    folder: PathBuf,
    facts: Value,
}

impl Facts {
    pub fn read() -> Self {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let home = || variable("HOME").map(|home| home.join(".cache"));
        let cache = variable("REGENT_CACHE")
            .or_else(|| variable("XDG_CACHE_HOME").or_else(home).map(|cache| cache.join("regent")));
        let folder = variable("REGENT_OPENSTACK_DIR").or_else(|| cache.map(|cache| cache.join("openstack")));
        let folder = folder.expect("a folder for caches");
        let path = folder.join("facts.json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}\nthere is no development cloud: start it with deploy/dev/openstack/up", path.display())
        });
        Self { folder, facts: serde_json::from_str(&text).expect("facts") }
    }

    pub fn text(&self, name: &str) -> &str {
        self.facts[name].as_str().unwrap_or_else(|| panic!("the facts have no {name}"))
    }

    /// Of what there are several of, by name.
    pub fn within(&self, kind: &str, name: &str) -> &str {
        self.facts[kind][name].as_str().unwrap_or_else(|| panic!("the facts have no {name} among the {kind}"))
    }

    /// A file of credentials, as an operator would write it.
    pub fn credentials(&self) -> String {
        let line = |key: &str, fact: &str| format!("{key} = \"{}\"\n", self.text(fact));
        let lines =
            [("domain-id", "domainId"), ("user-id", "userId"), ("password", "password"), ("project-id", "projectId")];
        lines.iter().map(|(key, fact)| line(key, fact)).collect()
    }

    pub fn settings(&self) -> OpenstackSettings {
        let folder = std::env::temp_dir().join(format!("regent-openstack-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(format!("{}.toml", super::random()));
        std::fs::write(&path, self.credentials()).expect("written");
        let text = format!(
            "endpoint = \"{}\"\nregionName = \"{}\"\ncredentials = {{ file = \"{}\" }}\n",
            self.text("authUrl"),
            self.text("region"),
            path.display()
        );
        toml::from_str(&text).expect("settings")
    }

    /// The file that the credentials of these settings are in.
    pub fn credentials_file(settings: &OpenstackSettings) -> PathBuf {
        match &settings.credentials {
            CredentialSource::File(path) => PathBuf::from(path),
            _ => panic!("settings of a test have a file"),
        }
    }

    /// What the cloud's administrator logs in with.
    fn administrator(&self) -> Value {
        let text = std::fs::read_to_string(self.folder.join("clouds.yaml")).expect("a clouds.yaml");
        // The first entry is the administrator's; the file is ours, and has one value to a line.
        let value = |key: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{key}:"))).expect("a line");
            line.split_once(':').expect("a value").1.trim().trim_matches(['"', '\'']).to_owned()
        };
        let user = json!({ "name": value("username"), "domain": { "id": "default" }, "password": value("password") });
        let project = json!({ "name": value("project_name"), "domain": { "id": "default" } });
        json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": user } },
            "scope": { "project": project },
        }})
    }

    pub async fn admin(&self) -> Admin {
        self.log_in_as(self.administrator()).await
    }

    /// Somebody else, in a project.
    pub async fn log_in(&self, user: &str, password: &str, project: &str) -> Admin {
        let user = json!({ "id": user, "password": password });
        self.log_in_as(json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": user } },
            "scope": { "project": { "id": project } },
        }}))
        .await
    }

    async fn log_in_as(&self, who: Value) -> Admin {
        let http = reqwest::Client::new();
        let url = format!("{}/auth/tokens", self.text("authUrl"));
        let answer = http.post(url).body(who.to_string()).header("content-type", "application/json");
        let answer = answer.send().await.expect("Keystone answers: is the development cloud up?");
        let token = answer.headers().get("x-subject-token").expect("a token").to_str().expect("text").to_owned();
        let body: Value = answer.json().await.expect("a token's body");
        Admin { http, token, catalogue: body["token"]["catalog"].clone(), keystone: self.text("authUrl").to_owned() }
    }
}

/// Somebody who works on the cloud by hand: mostly its administrator, who sees everything and may do anything.
pub struct Admin {
    http: reqwest::Client,
    token: String,
    catalogue: Value,
    keystone: String,
}

impl Admin {
    pub fn url(&self, service: &str, path: &str) -> String {
        if service == "identity" {
            return format!("{}/{path}", self.keystone);
        }
        let services = self.catalogue.as_array().expect("a catalogue");
        let entry = services.iter().find(|entry| entry["type"] == service).expect("a service");
        let endpoints = entry["endpoints"].as_array().expect("endpoints");
        let public = endpoints.iter().find(|endpoint| endpoint["interface"] == "public").expect("a public one");
        let base = public["url"].as_str().expect("a url").trim_end_matches('/');
        let version = if service == "network" && !base.ends_with("v2.0") { "/v2.0" } else { "" };
        format!("{base}{version}/{path}")
    }

    pub async fn call(&self, method: &str, service: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let request = self.http.request(method, self.url(service, path)).header("x-auth-token", &self.token);
        let request = match service {
            "compute" => request.header("openstack-api-version", "compute 2.90"),
            _ => request,
        };
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or(Value::Null))
    }

    /// Ends somebody's token.
    pub async fn revoke(&self, token: &str) {
        let request = self.http.delete(self.url("identity", "auth/tokens")).header("x-auth-token", &self.token);
        let answer = request.header("x-subject-token", token).send().await.expect("an answer");
        // One that has ended by itself cannot be.
        assert!([204, 404].contains(&answer.status().as_u16()), "{}", answer.status());
    }

    /// What a list shows, under its key.
    pub async fn list(&self, service: &str, path: &str, key: &str) -> Vec<Value> {
        let (status, body) = self.call("GET", service, path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body[key].as_array().unwrap_or_else(|| panic!("{path} has no {key}: {body}")).clone()
    }

    /// Fills an image.
    pub async fn upload(&self, path: &str, content: Vec<u8>) {
        let request = self.http.put(self.url("image", path)).header("x-auth-token", &self.token);
        let request = request.header("content-type", "application/octet-stream").body(content);
        assert_eq!(request.send().await.expect("an answer").status().as_u16(), 204);
    }

    /// Makes something by hand.
    pub async fn make(&self, service: &str, path: &str, key: &str, body: Value) -> Value {
        let (status, answer) = self.call("POST", service, path, Some(json!({ key: body }))).await;
        assert!(matches!(status, 200..=202), "{path}: {status} {answer}");
        answer[key].clone()
    }
}

/// The id of an object.
pub fn id(object: &Value) -> &str {
    object["id"].as_str().expect("an id")
}
