//! The line that every mutation leaves, whether or not it succeeded.

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::{NETWORKS, World, expect, network_path};

/// What the whole binary logs of its API. One subscriber for all tests: one per thread would race with the others
/// for the interest that call sites remember.
static LOG: LazyLock<Captured> = LazyLock::new(|| {
    let captured = Captured::default();
    let filter = EnvFilter::new("off,audit=info,regent::api=debug");
    let subscriber = tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(captured.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).expect("no other test sets one");
    captured
});

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Captured {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Captured {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text")
    }

    /// The audit lines of one trace.
    fn audits(&self, trace: &str) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("json"));
        let audits = lines.filter(|line| line["target"] == "audit").map(|line| line["fields"].clone());
        audits.filter(|line| line["trace_id"] == trace).collect()
    }
}

#[tokio::test]
async fn every_mutation_leaves_a_line_with_its_resolved_scope() {
    let log = &*LOG;
    let world = World::start().await;
    let trace = world.ambient.uuid().simple().to_string();
    let send = async |method: Method, path: &str, token: Option<&str>, body: Option<&Value>| {
        let request = world.anonymous(method, path).header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
        let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
        let request = if let Some(body) = body { request.json(body) } else { request };
        request.send().await.expect("an answer")
    };
    let token = Some(world.start.token.as_str());
    let created = send(Method::POST, NETWORKS, token, Some(&world.network_body("audited"))).await;
    let network = expect(created, StatusCode::CREATED).await;
    let path = network_path(&network);
    let change = json!({"metadata": {"name": "x"}, "spec": {"dnsNameservers": []}});
    let mut bad = world.network_body("refused");
    bad["spec"]["regionId"] = json!(world.ambient.uuid());
    send(Method::PUT, &path, token, Some(&change)).await;
    send(Method::DELETE, &path, token, None).await;
    send(Method::POST, NETWORKS, token, Some(&bad)).await;
    send(Method::DELETE, &path, None, None).await;
    send(Method::GET, &path, token, None).await;
    send(Method::POST, "/nothing", token, None).await;
    let audits = log.audits(&trace);
    let seen = audits.iter().map(|line| {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        (text("verb"), text("actor"), line["status"].as_u64(), text("resource_id"))
    });
    let id = network["metadata"]["id"].as_str().map(str::to_owned);
    let some = |text: &str| Some(text.to_owned());
    let expected = [
        (some("POST"), some("bootstrap"), Some(201), id.clone()),
        (some("PUT"), some("bootstrap"), Some(202), id.clone()),
        (some("DELETE"), some("bootstrap"), Some(202), id.clone()),
        (some("POST"), some("bootstrap"), Some(404), None),
        (some("DELETE"), some("anonymous"), Some(401), None),
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    for line in &audits[..4] {
        assert_eq!(line["organization_id"], json!(world.start.organization_id), "{line}");
        assert_eq!(line["project_id"], json!(world.start.project_id), "{line}");
        assert_eq!(line["resource_type"], "network", "{line}");
        assert_eq!(line["component_name"], "regent");
    }
    assert_eq!(audits[3]["region_id"], bad["spec"]["regionId"]);
    let secret = world.start.token.rsplit('_').next().expect("a part");
    assert!(!log.text().contains(secret), "tokens are not logged");
}
