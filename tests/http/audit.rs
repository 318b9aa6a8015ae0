//! The line that every mutation leaves, whether or not it succeeded, and everybody who asks for a secret.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::body::Body;
use futures_util::FutureExt;
use regent::api::router;
use regent::model::ambient::Ambient;
use regent::model::token::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::identity_callers::principal;
use super::moody_store::{Mood, MoodyStore};
use super::{NETWORKS, SERVERS, World, expect, memory_store, network_path};

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
async fn b29_every_mutation_leaves_a_line_with_its_resolved_scope() {
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
    for secret in ["sshkey", "consolesessions"] {
        send(Method::GET, &format!("{SERVERS}/{}/{secret}", world.ambient.uuid()), None, None).await;
        send(Method::GET, &format!("{SERVERS}/{}/{secret}", world.ambient.uuid()), token, None).await;
    }
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
    assert_eq!(seen.take(5).collect::<Vec<_>>(), expected);
    let secrets = audits[5..].iter().map(|line| (&line["operation"], &line["verb"], &line["status"]));
    let asked = ["sshkey", "consolesession"].map(|word| (json!(word), json!("GET"), json!(404)));
    assert_eq!(secrets.collect::<Vec<_>>(), asked.iter().map(|(a, b, c)| (a, b, c)).collect::<Vec<_>>());
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

#[tokio::test]
async fn a_change_whose_client_hangs_up_is_made_and_audited() {
    let log = &*LOG;
    let ambient = Ambient::system();
    let store = MoodyStore::over(memory_store(&ambient));
    let world = World::over(Arc::clone(&store) as _, ambient).await;
    let trace = world.ambient.uuid().simple().to_string();
    let request = axum::http::Request::post(NETWORKS)
        .header("authorization", format!("Bearer {}", world.start.token))
        .header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"))
        .header("content-type", "application/json")
        .body(Body::from(world.network_body("orphan").to_string()))
        .expect("a request");
    store.set(Mood::Hanging);
    let mut answer = Box::pin(router(&world.api).oneshot(request));
    while store.hanging.load(Ordering::SeqCst) == 0 {
        assert!((&mut answer).now_or_never().is_none(), "it waits for the store");
        tokio::task::yield_now().await;
    }
    // What a server does with a request whose connection is closed.
    drop(answer);
    store.set(Mood::Good);
    let line = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            match log.audits(&trace).pop() {
                Some(line) => break line,
                None => tokio::task::yield_now().await,
            }
        }
    });
    let line = line.await.expect("a line");
    assert_eq!((&line["verb"], &line["status"]), (&json!("POST"), &json!(201)), "{line}");
}

#[tokio::test]
async fn whom_a_service_speaks_for_is_audited_with_it() {
    let log = &*LOG;
    let world = World::start().await;
    let tenant = world.full_tenant().await;
    let service = world.token_of("compute", Role::ComputeService).await;
    let trace = world.ambient.uuid().simple().to_string();
    let request = world.anonymous(Method::DELETE, &format!("{NETWORKS}/{}", world.ambient.uuid()));
    let request = request.bearer_auth(service).header("X-Principal", principal(&tenant, "user"));
    request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01")).send().await.expect("an answer");
    let audits = log.audits(&trace);
    let seen = audits.iter().map(|line| (&line["actor"], &line["principal"])).collect::<Vec<_>>();
    assert_eq!(seen, [(&json!("compute"), &json!("user"))]);
}
