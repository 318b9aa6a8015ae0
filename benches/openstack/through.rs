//! The same through Regent: the real binary, asked by REST.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Facts, SERVERS};

const REGION: &str = "11111111-1111-4111-8111-111111111111";
const LOOK_PERIOD: Duration = Duration::from_millis(100);

pub struct Regent {
    process: Child,
    folder: PathBuf,
    http: reqwest::Client,
    start: Value,
    network: String,
    flavor: String,
    image: String,
}

impl Regent {
    pub async fn start(facts: &Facts) -> Self {
        let folder = std::env::temp_dir().join(format!("regent-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let credentials = folder.join("credentials.toml");
        let line = |key: &str, fact: &str| format!("{key} = \"{}\"\n", facts.text(fact));
        let lines = [
            ("domain-id", "/domainId"),
            ("user-id", "/userId"),
            ("password", "/password"),
            ("project-id", "/projectId"),
        ];
        std::fs::write(&credentials, lines.map(|(key, fact)| line(key, fact)).concat()).unwrap();
        let configuration = format!(
            "[[regions]]\nid = \"{REGION}\"\nname = \"bench\"\n[regions.openstack]\nendpoint = \"{}\"\n\
             regionName = \"{}\"\ncredentials = {{ file = \"{}\" }}\n",
            facts.text("/authUrl"),
            facts.text("/region"),
            credentials.display()
        );
        std::fs::write(folder.join("regent.toml"), configuration).unwrap();
        let log = std::fs::File::create(folder.join("server.log")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_regent"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .arg("--config")
            .arg(folder.join("regent.toml"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let start = announced(&folder).await;
        let (flavor, image) = (facts.text("/flavors/m1.tiny").to_owned(), facts.text("/images/tiny").to_owned());
        let mut regent =
            Self { process, folder, http: reqwest::Client::new(), start, network: String::new(), flavor, image };
        let network = json!({ "metadata": { "name": "bench" }, "spec": {
            "organizationId": regent.start["organizationId"], "projectId": regent.start["projectId"],
            "regionId": REGION, "prefix": "10.0.0.0/22", "dnsNameservers": ["1.1.1.1"],
        }});
        let made = regent.ask(reqwest::Method::POST, "/api/v2/networks", Some(&network)).await;
        regent.network = made["metadata"]["id"].as_str().unwrap().to_owned();
        let path = format!("/api/v2/networks/{}", regent.network);
        regent.until(&path, |network| network["metadata"]["provisioningStatus"] == "provisioned").await;
        regent
    }

    async fn ask(&self, method: reqwest::Method, path: &str, body: Option<&Value>) -> Value {
        let url = format!("{}{path}", self.start["apiUrl"].as_str().unwrap());
        let mut request = self.http.request(method, url).bearer_auth(self.start["token"].as_str().unwrap());
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let body = answer.json().await.unwrap_or(Value::Null);
        assert!(status.is_success() || status == reqwest::StatusCode::NOT_FOUND, "{path}: {status} {body}");
        body
    }

    async fn until(&self, path: &str, is_wanted: impl Fn(&Value) -> bool) {
        let mut looks = tokio::time::interval(LOOK_PERIOD);
        loop {
            looks.tick().await;
            if is_wanted(&self.ask(reqwest::Method::GET, path, None).await) {
                return;
            }
        }
    }

    async fn make(&self, name: String) -> String {
        let server = json!({ "metadata": { "name": name }, "spec": {
            "networkId": self.network, "flavorId": self.flavor, "imageId": self.image,
        }});
        let made = self.ask(reqwest::Method::POST, "/api/v2/servers", Some(&server)).await;
        made["metadata"]["id"].as_str().unwrap().to_owned()
    }

    pub async fn run(&self, run: usize) -> Duration {
        let began = Instant::now();
        let made = join_all((0..SERVERS).map(|number| self.make(format!("through-{run}-{number}")))).await;
        let runs = |server: &&Value| server["status"]["powerState"] == "Running";
        let all_run = |list: &Value| list.as_array().unwrap().iter().filter(runs).count() == SERVERS;
        self.until("/api/v2/servers", all_run).await;
        let took = began.elapsed();
        for server in made {
            self.ask(reqwest::Method::DELETE, &format!("/api/v2/servers/{server}"), None).await;
        }
        self.until("/api/v2/servers", |list| list.as_array().unwrap().is_empty()).await;
        took
    }

    pub async fn end(mut self) {
        let path = format!("/api/v2/networks/{}", self.network);
        self.ask(reqwest::Method::DELETE, &path, None).await;
        self.until(&path, |network| network["metadata"].is_null()).await;
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// What the process says of itself, once it takes requests.
async fn announced(folder: &std::path::Path) -> Value {
    let mut looks = tokio::time::interval(LOOK_PERIOD);
    loop {
        looks.tick().await;
        let log = std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
        if log.contains("listening") {
            let text = std::fs::read_to_string(folder.join("data/bootstrap.json")).unwrap();
            return serde_json::from_str(&text).unwrap();
        }
    }
}
