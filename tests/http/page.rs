//! The page that explains the API.

use std::collections::BTreeSet;

use reqwest::{Method, Response, StatusCode};

use super::{World, expect};

async fn fetched(world: &World, path: &str, kind: &str) -> String {
    let response: Response = world.anonymous(Method::GET, path).send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    assert_eq!(response.headers()["content-type"], kind, "{path}");
    let policy = response.headers()["content-security-policy"].to_str().expect("ascii");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    response.text().await.expect("text")
}

#[tokio::test]
async fn the_page_needs_no_token_and_nothing_from_anywhere_else() {
    let world = World::start().await;
    let page = fetched(&world, "/docs", "text/html; charset=utf-8").await;
    let style = fetched(&world, "/docs/page.css", "text/css; charset=utf-8").await;
    let script = fetched(&world, "/docs/page.js", "text/javascript; charset=utf-8").await;
    for (name, text) in [("page", &page), ("style", &style), ("script", &script)] {
        let foreign = text.match_indices("://").filter(|(place, _)| !text[..*place].ends_with("API=http")).count();
        assert_eq!(foreign, 0, "{name} names another address");
    }
    for asset in ["docs/page.css", "docs/page.js", "openapi.json"] {
        assert!(page.contains(&format!("\"{asset}\"")), "{asset}");
    }
    // A policy without 'unsafe-inline' would make both of these silently do nothing.
    assert!(!page.contains("style=") && !page.contains("onclick="));
}

#[tokio::test]
async fn the_walk_through_uses_paths_that_are_served() {
    let world = World::start().await;
    let page = fetched(&world, "/docs", "text/html; charset=utf-8").await;
    let document = expect(world.get("/openapi.json").await, StatusCode::OK).await;
    let served = document["paths"].as_object().expect("paths").keys().map(|path| shape(path)).collect::<BTreeSet<_>>();
    let begins = page.match_indices("$API/api/").map(|(place, _)| &page[place + "$API".len()..]);
    let mut seen = 0;
    for text in begins {
        let path = text.split(['"', '?', ' ', '\n', '<']).next().expect("a path");
        if path.ends_with("$RESOURCE") {
            continue;
        }
        seen += 1;
        assert!(served.contains(&shape(path)), "{path}");
    }
    assert!(seen > 15, "{seen}");
}

/// A path without the names of what varies in it.
fn shape(path: &str) -> String {
    path.split('/').map(|part| if part.starts_with(['{', '$']) { "*" } else { part }).collect::<Vec<_>>().join("/")
}
