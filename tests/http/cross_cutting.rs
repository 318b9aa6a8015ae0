//! What holds for every path.

use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{NETWORKS, World, expect, expect_error};

fn method(name: &str) -> Method {
    name.parse().expect("a method")
}

#[tokio::test]
async fn unknown_paths_are_not_found_for_everybody_and_every_method() {
    let world = World::start().await;
    for path in ["/", "/api", "/api/v2/nothing", "/api/v2/networks/", "/region", "/region/api/v9", "//", "/%00"] {
        for verb in ["GET", "POST", "PATCH", "TRACE", "QUERY"] {
            let response = world.anonymous(method(verb), path).send().await.expect("an answer");
            expect_error(response, StatusCode::NOT_FOUND, "not_found").await;
        }
    }
}

#[tokio::test]
async fn wrong_methods_say_which_are_right() {
    let world = World::start().await;
    let id = world.ambient.uuid();
    let matrix: [(String, &[&str], &[&str]); 5] = [
        (NETWORKS.to_owned(), &["GET", "POST"], &["PUT", "DELETE"]),
        (format!("{NETWORKS}/{id}"), &["GET", "PUT", "DELETE"], &["POST"]),
        (format!("{NETWORKS}/{id}/references/a.b.c%2F{id}"), &["PUT", "DELETE"], &["GET", "POST"]),
        ("/api/version".to_owned(), &["GET"], &["POST", "PUT", "DELETE"]),
        ("/region/api/version".to_owned(), &["GET"], &["POST", "PUT", "DELETE"]),
    ];
    for (path, right, wrong) in matrix {
        for verb in wrong.iter().copied().chain(["PATCH", "TRACE", "QUERY", "PROPFIND", "OPTIONS"]) {
            let response = world.request(method(verb), &path).send().await.expect("an answer");
            let allow = response.headers().get("allow").map(|value| value.to_str().expect("ascii").to_owned());
            let allow = allow.unwrap_or_else(|| panic!("{verb} {path} names no right method"));
            for right in right {
                assert!(allow.split(',').any(|allowed| allowed.trim() == *right), "{verb} {path}: {allow}");
            }
            expect_error(response, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed").await;
        }
    }
}

#[tokio::test]
async fn without_a_good_token_nothing_is_answered_but_where_to_get_one() {
    let world = World::start().await;
    let id = world.ambient.uuid();
    let paths = [
        NETWORKS.to_owned(),
        format!("{NETWORKS}/{id}"),
        format!("{NETWORKS}/not-a-uuid"),
        "/api/version".to_owned(),
        format!("/api/v1/organizations/{id}/regions"),
    ];
    let mut forged = world.start.token.clone();
    forged.pop();
    let headers = [
        None,
        Some(String::new()),
        Some("Bearer".to_owned()),
        Some("Bearer x".to_owned()),
        Some(format!("Bearer {forged}")),
        Some(format!("Basic {}", world.start.token)),
        Some(format!("Bearer {}", "x".repeat(5000))),
    ];
    for path in &paths {
        for header in &headers {
            let mut request = world.anonymous(Method::GET, path);
            if let Some(header) = header {
                request = request.header("authorization", header);
            }
            let response = request.send().await.expect("an answer");
            let challenge = response.headers().get("www-authenticate").expect("a challenge");
            let challenge = challenge.to_str().expect("ascii").to_owned();
            let text = expect_error(response, StatusCode::UNAUTHORIZED, "access_denied").await;
            let expected = format!(
                "Bearer error=\"access_denied\",error_description=\"{text}\",resource_metadata=\"https://{}/.well-known/openid-protected-resource\"",
                world.address
            );
            assert_eq!(challenge, expected);
        }
    }
    let lower = world.anonymous(Method::GET, NETWORKS).header("authorization", format!("bearer {}", world.start.token));
    assert_eq!(lower.send().await.expect("an answer").status(), StatusCode::OK, "schemes have no case");
}

#[tokio::test]
async fn malformed_ids_in_a_path_are_invalid_elements() {
    let world = World::start().await;
    let simple = world.ambient.uuid().simple().to_string();
    for id in ["x", "1", "%00", "%FF", "..%2F..", simple.as_str(), "00000000-0000-0000-0000-00000000000g"] {
        for path in [format!("{NETWORKS}/{id}"), format!("/region{NETWORKS}/{id}")] {
            let response = world.get(&path).await;
            let text = expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
            assert!(text.contains("invalid path/query element"), "{path}: {text}");
        }
    }
    let regions = world.get("/api/v1/organizations/x/regions").await;
    expect_error(regions, StatusCode::BAD_REQUEST, "invalid_request").await;
}

#[tokio::test]
async fn bodies_that_are_not_the_right_json_are_refused() {
    let world = World::start().await;
    let bodies =
        ["", "{", "null", "[]", "\"text\"", "{}", r#"{"metadata":{}}"#, r#"{"metadata":{"name":1},"spec":{}}"#];
    for body in bodies {
        let request = world.request(Method::POST, NETWORKS).header("content-type", "application/json").body(body);
        let response = request.send().await.expect("an answer");
        expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
    }
    let invalid_text = world.request(Method::POST, NETWORKS).header("content-type", "application/json");
    let response = invalid_text.body(b"{\"metadata\":{\"name\":\"\xff\"}}".to_vec()).send().await.expect("an answer");
    expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json-patch+json"] {
        let body = world.network_body("x").to_string();
        let request = world.request(Method::POST, NETWORKS).header("content-type", kind).body(body);
        let response = request.send().await.expect("an answer");
        expect_error(response, StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type").await;
    }
}

#[tokio::test]
async fn a_trace_is_continued_and_a_request_id_returned() {
    let world = World::start().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = world.anonymous(Method::GET, "/nothing");
    let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    let response = request.header("x-request-id", "mine-1").send().await.expect("an answer");
    assert_eq!(response.headers().get("x-request-id").expect("a header"), "mine-1");
    assert_eq!(expect(response, StatusCode::NOT_FOUND).await["trace_id"], trace);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..2 {
        let request = world.anonymous(Method::GET, "/nothing").header("x-request-id", "not plain!");
        let response = request.send().await.expect("an answer");
        assert_ne!(response.headers().get("x-request-id").expect("a header"), "not plain!");
        seen.insert(expect(response, StatusCode::NOT_FOUND).await["trace_id"].to_string());
    }
    assert_eq!(seen.len(), 2, "every request has a trace of its own");
}

#[tokio::test]
async fn a_preflight_is_answered_for_any_route_with_its_methods() {
    let world = World::start().await;
    let preflight = async |path: &str, asked: Option<&str>| {
        let mut request = world.anonymous(Method::OPTIONS, path).header("origin", "https://console.example");
        if let Some(asked) = asked {
            request = request.header("access-control-request-method", asked);
        }
        request.send().await.expect("an answer")
    };
    let text = |headers: &HeaderMap, name: &str| headers.get(name).expect(name).to_str().expect("ascii").to_owned();
    let response = preflight(NETWORKS, Some("POST")).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    let methods = text(response.headers(), "access-control-allow-methods");
    for method in ["GET", "POST", "OPTIONS"] {
        assert!(methods.split(", ").any(|allowed| allowed == method), "{methods}");
    }
    assert!(!methods.contains("DELETE"), "{methods}");
    assert_eq!(text(response.headers(), "access-control-allow-origin"), "*");
    assert_eq!(text(response.headers(), "access-control-max-age"), "86400");
    let allowed = text(response.headers(), "access-control-allow-headers");
    for header in ["Authorization", "Content-Type", "traceparent", "tracestate", "If-Match", "Idempotency-Key"] {
        assert!(allowed.contains(header), "{allowed}");
    }
    expect_error(preflight(NETWORKS, None).await, StatusCode::BAD_REQUEST, "invalid_request").await;
    expect_error(preflight("/nothing", Some("GET")).await, StatusCode::NOT_FOUND, "not_found").await;
    let plain = world.request(Method::GET, NETWORKS).header("origin", "https://console.example");
    let plain = plain.send().await.expect("an answer");
    assert_eq!(text(plain.headers(), "access-control-allow-origin"), "*");
}

#[tokio::test]
async fn each_service_is_also_mounted_under_its_name() {
    let world = World::start().await;
    let network = world.create(&world.network_body("both")).await;
    let list = expect(world.get("/region/api/v2/networks").await, StatusCode::OK).await;
    assert_eq!(list, json!([network]));
    for path in ["/api/version", "/region/api/version"] {
        let version = expect(world.get(path).await, StatusCode::OK).await;
        assert_eq!(version, json!({"name": "regent", "version": env!("CARGO_PKG_VERSION")}));
    }
}

#[tokio::test]
async fn b12_a_list_of_nothing_is_an_empty_list() {
    let world = World::start().await;
    let (stranger, nowhere) = (world.stranger().await, world.ambient.uuid());
    for surface in regent::api::surfaces::listed() {
        let all = format!("/api/v2/{}", surface.collection);
        for path in [all.clone(), format!("{all}?organizationID={nowhere}")] {
            let list = world.send_as(&stranger, Method::GET, &path, &json!(null)).await;
            assert_eq!(expect(list, StatusCode::OK).await, json!([]), "{path}");
        }
    }
}

#[tokio::test]
async fn health_and_discovery_need_no_token() {
    let world = World::start().await;
    for path in ["/healthz", "/readyz"] {
        let response = world.anonymous(Method::GET, path).send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK, "{path}");
    }
    let path = "/.well-known/openid-protected-resource";
    let body = expect(world.anonymous(Method::GET, path).send().await.expect("an answer"), StatusCode::OK).await;
    assert_eq!(body["resource"], format!("https://{}", world.address));
    assert_eq!(body["bearer_methods_supported"], json!(["header"]));
}
