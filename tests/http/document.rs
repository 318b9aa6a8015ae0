//! The served document, kept as a file: whoever changes the surface sees in the difference what clients will see.

use std::path::Path;

use reqwest::StatusCode;

use super::{World, expect};

const BLESS: &str = "REGENT_BLESS";

#[tokio::test]
async fn the_document_is_the_one_that_was_agreed_to() {
    let world = World::start().await;
    let served = expect(world.get("/openapi.json").await, StatusCode::OK).await;
    let served = serde_json::to_string_pretty(&served).expect("json") + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi/regent.json");
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&file, &served).expect("writes");
    }
    let agreed = std::fs::read_to_string(&file).unwrap_or_default();
    let first = agreed.lines().zip(served.lines()).position(|(old, new)| old != new);
    assert!(
        agreed == served,
        "the surface has changed at line {:?} of docs/openapi/regent.json; if that is meant, run this test with \
         {BLESS}=1 and read the difference",
        first.map(|line| line + 1)
    );
}
