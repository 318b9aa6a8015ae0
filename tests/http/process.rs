//! The real binary: from an empty folder to a served request, and down again.

use std::process::Stdio;

use regent::bootstrap::BootstrapFile;
use reqwest::StatusCode;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use super::Folder;

const BINARY: &str = env!("CARGO_BIN_EXE_regent");

struct Process {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Process {
    /// Starts a server and waits until it says that it listens.
    async fn start(folder: &Folder, more: &[&str]) -> Self {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(folder.0.join("data")).args(more).kill_on_drop(true);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
        let log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut process = Self { child, log };
        process.said("listening").await;
        process
    }

    async fn said(&mut self, words: &str) {
        let mut seen = Vec::new();
        while let Some(line) = self.log.next_line().await.expect("reads") {
            if line.contains(words) {
                return;
            }
            seen.push(line);
        }
        panic!("it ended without saying {words}: {seen:#?}");
    }

    async fn signal(&self, name: &str) {
        let id = self.child.id().expect("it runs").to_string();
        let sent = Command::new("kill").args([format!("-{name}"), id]).status().await.expect("kills");
        assert!(sent.success());
    }

    async fn end(mut self) {
        self.signal("TERM").await;
        assert!(self.child.wait().await.expect("ends").success());
    }
}

fn started(folder: &Folder) -> BootstrapFile {
    let bytes = std::fs::read(folder.0.join("data/bootstrap.json")).expect("a file");
    serde_json::from_slice(&bytes).expect("json")
}

async fn status(url: &str, token: &str) -> StatusCode {
    reqwest::Client::new().get(url).bearer_auth(token).send().await.expect("an answer").status()
}

async fn new_token(folder: &Folder, more: &[&str]) -> String {
    let data = folder.0.join("data");
    let mut command = Command::new(BINARY);
    command.args(["token", "new", "--data-dir"]).arg(data).args(more);
    let output = command.output().await.expect("runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[tokio::test]
async fn a_server_serves_takes_tokens_from_the_host_and_comes_back() {
    let folder = Folder::new();
    let process = Process::start(&folder, &[]).await;
    let start = started(&folder);
    let networks = format!("{}/api/v2/networks", start.api_url);
    assert_eq!(status(&networks, &start.token).await, StatusCode::OK);
    assert_eq!(status(&format!("{}/admin/v1/tree", start.admin_url), &start.token).await, StatusCode::OK);
    assert_eq!(status(&format!("{}/metrics", start.admin_url), "").await, StatusCode::OK);
    let token = new_token(&folder, &[]).await;
    assert_eq!(status(&networks, &token).await, StatusCode::OK);
    let organization = start.organization_id.to_string();
    let user = new_token(&folder, &["--user", "user", "--organization", &organization]).await;
    let service = new_token(&folder, &["--service", "compute-service"]).await;
    let reader = new_token(&folder, &["--role", "platform-reader"]).await;
    let (projects, tree) = (
        format!("{}/api/v1/organizations/{organization}/projects", start.api_url),
        format!("{}/admin/v1/tree", start.admin_url),
    );
    let user_token = start.user_token.clone().expect("a user's token");
    for (bearer, operator) in [(&user_token, false), (&user, false), (&service, false), (&reader, true)] {
        assert_eq!(status(&projects, bearer).await, StatusCode::OK);
        let expected = if operator { StatusCode::OK } else { StatusCode::FORBIDDEN };
        assert_eq!(status(&tree, bearer).await, expected);
    }
    process.end().await;
    let process = Process::start(&folder, &[]).await;
    let again = started(&folder);
    assert_eq!((&again.token, again.organization_id), (&start.token, start.organization_id));
    assert_eq!(status(&format!("{}/api/v2/networks", again.api_url), &token).await, StatusCode::OK);
    process.end().await;
}

#[tokio::test]
async fn a_configuration_is_read_again_when_asked_and_ignored_when_bad() {
    let folder = Folder::new();
    let path = folder.0.join("regent.toml");
    let region = |id: u8, name: &str| {
        format!(
            "[[regions]]\nid = \"00000000-0000-4000-8000-0000000000{id:02}\"\nname = \"{name}\"\n[regions.simulated]\n"
        )
    };
    std::fs::write(&path, region(1, "one")).expect("writes");
    let mut process = Process::start(&folder, &["--config", path.to_str().expect("text")]).await;
    let start = started(&folder);
    let names = async || {
        let url = format!("{}/api/v1/organizations/{}/regions", start.api_url, start.organization_id);
        let answer = reqwest::Client::new().get(url).bearer_auth(&start.token).send().await.expect("an answer");
        let list: serde_json::Value = answer.json().await.expect("json");
        let name = |region: &serde_json::Value| {
            let metadata = &region["metadata"];
            let health = if metadata["healthStatus"] == "healthy" { "" } else { ", unavailable" };
            format!("{}{health}", metadata["name"].as_str().expect("a name"))
        };
        list.as_array().expect("a list").iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["one"]);
    std::fs::write(&path, format!("{}{}", region(1, "renamed"), region(2, "two"))).expect("writes");
    process.signal("HUP").await;
    process.said("read again").await;
    assert_eq!(names().await, ["renamed", "two"]);
    std::fs::write(&path, "nonsense").expect("writes");
    process.signal("HUP").await;
    process.said("stays as it was").await;
    assert_eq!(names().await, ["renamed", "two"]);
    std::fs::write(&path, region(2, "two")).expect("writes");
    process.signal("HUP").await;
    process.said("read again").await;
    assert_eq!(names().await, ["renamed, unavailable", "two"]);
    process.end().await;
}

#[tokio::test]
async fn mistakes_on_the_command_line_are_explained_before_anything_is_made() {
    let folder = Folder::new();
    let data = folder.0.join("data");
    let bad = folder.0.join("bad.toml");
    std::fs::write(&bad, "regions = 1\n").expect("writes");
    let bad = bad.to_str().expect("text").to_owned();
    let tries: [(&[&str], &str); 3] = [
        (&["serve", "--listen", "0.0.0.0:0"], "--insecure-listen"),
        (&["serve", "--config", &bad], "bad.toml:1:"),
        (&["token", "new"], "no data folder"),
    ];
    for (arguments, words) in tries {
        let output = Command::new(BINARY).args(arguments).arg("--data-dir").arg(&data).output().await.expect("runs");
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(words), "{text}");
        assert!(!data.exists(), "{arguments:?} left something behind");
    }
}
