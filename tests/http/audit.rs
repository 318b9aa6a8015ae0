//! The line that every mutation leaves, whether or not it succeeded.

use std::io::Write;
use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

use super::{NETWORKS, World, network_path};

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
    fn audits(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("json"));
        lines.filter(|line| line["target"] == "audit").map(|line| line["fields"].clone()).collect()
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text")
    }
}

#[tokio::test]
async fn every_mutation_leaves_a_line_with_its_resolved_scope() {
    let captured = Captured::default();
    let subscriber = tracing_subscriber::fmt().json().with_writer(captured.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = World::start().await;
    let network = world.create(&world.network_body("audited")).await;
    let path = network_path(&network);
    let change = json!({"metadata": {"name": "x"}, "spec": {"dnsNameservers": []}});
    world.send(Method::PUT, &path, &change).await;
    world.request(Method::DELETE, &path).send().await.expect("an answer");
    let mut bad = world.network_body("refused");
    bad["spec"]["regionId"] = json!(world.ambient.uuid());
    world.send(Method::POST, NETWORKS, &bad).await;
    world.anonymous(Method::DELETE, &path).send().await.expect("an answer");
    world.get(&path).await;
    world.request(Method::POST, "/nothing").send().await.expect("an answer");
    let audits = captured.audits();
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
        assert_eq!(line["trace_id"].as_str().map(str::len), Some(32));
    }
    assert_eq!(audits[3]["region_id"], bad["spec"]["regionId"]);
    let secret = world.start.token.rsplit('_').next().expect("a part");
    assert!(!captured.text().contains(secret), "tokens are not logged");
}
