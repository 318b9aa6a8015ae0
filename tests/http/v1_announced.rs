//! How the first version says that it is going, and how an operator ends it.

use axum::body::Body;
use axum::http::Request;
use metrics_exporter_prometheus::PrometheusBuilder;
use regent::api::ApiSettings;
use regent::api::v1::deprecation::Availability;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::v1_clusters::clusters;
use super::v1_resources::{identities, identity_body};
use super::{World, expect, expect_error, id_of};

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).map(|value| value.to_str().expect("ascii").to_owned())
}

async fn with(v1: Availability) -> World {
    World::set(ApiSettings { v1, ..ApiSettings::default() }).await
}

fn regions(world: &World) -> String {
    format!("/api/v1/organizations/{}/regions", world.start.organization_id)
}

#[tokio::test]
async fn every_answer_of_the_first_version_says_that_it_is_deprecated_and_what_follows() {
    let world = World::start().await;
    let organization = world.start.organization_id;
    let region = world.start.region_id.expect("a region");
    let lists = format!("/api/v1/organizations/{organization}");
    let images = format!("</api/v2/regions/{region}/images>; rel=\"successor-version\"");
    for (path, link) in [
        (format!("{lists}/networks"), Some("</api/v2/networks>; rel=\"successor-version\"")),
        (format!("{lists}/securitygroups"), Some("</api/v2/securitygroups>; rel=\"successor-version\"")),
        (format!("{lists}/servers"), Some("</api/v2/servers>; rel=\"successor-version\"")),
        (format!("{lists}/clusters"), Some("</api/v2/clusters>; rel=\"successor-version\"")),
        (format!("/compute{lists}/clusters"), Some("</compute/api/v2/clusters>; rel=\"successor-version\"")),
        (format!("{lists}/identities"), None),
        (format!("{lists}/regions"), None),
        (format!("{lists}/regions/{region}/flavors"), None),
        (format!("{lists}/regions/{region}/images"), Some(images.as_str())),
        (format!("/region{lists}/networks"), Some("</region/api/v2/networks>; rel=\"successor-version\"")),
    ] {
        for (bearer, status) in [(true, StatusCode::OK), (false, StatusCode::UNAUTHORIZED)] {
            let request = world.anonymous(Method::GET, &path);
            let request = if bearer { request.bearer_auth(&world.start.token) } else { request };
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), status, "{path}");
            assert_eq!(header(&answer, "deprecation").as_deref(), Some("@1767225600"), "{path}");
            assert_eq!(header(&answer, "link").as_deref(), link, "{path}");
        }
    }
    for path in ["/api/v2/networks".to_owned(), format!("{lists}/projects"), lists.clone(), "/api/v1/acl".to_owned()] {
        let answer = world.get(&path).await;
        assert_eq!((header(&answer, "deprecation"), header(&answer, "link")), (None, None), "{path}");
    }
}

#[tokio::test]
async fn read_only_refuses_every_change_and_shows_what_is_there() {
    let world = with(Availability::ReadOnly).await;
    let identities = identities(&world);
    let some = format!("{identities}/{}", world.ambient.uuid());
    let list = format!("/api/v1/organizations/{}/identities", world.start.organization_id);
    assert_eq!(expect(world.get(&list).await, StatusCode::OK).await, json!([]));
    expect_error(world.get(&some).await, StatusCode::NOT_FOUND, "not_found").await;
    for (method, path, allowed) in [
        (Method::POST, identities.clone(), ""),
        (Method::DELETE, some.clone(), "GET,HEAD"),
        (Method::PUT, format!("{some}/servers/{}", world.ambient.uuid()), "GET,HEAD"),
        (Method::POST, format!("{some}/servers/{}/start", world.ambient.uuid()), ""),
        (Method::POST, clusters(&world), ""),
        (Method::PUT, format!("{}/{}", clusters(&world), world.ambient.uuid()), "GET,HEAD"),
        (Method::PATCH, list, "GET,HEAD"),
    ] {
        let answer = world.send(method.clone(), &path, &identity_body(&world, "new")).await;
        assert_eq!(header(&answer, "allow").as_deref(), Some(allowed), "{method} {path}");
        assert!(header(&answer, "deprecation").is_some(), "{method} {path}");
        expect_error(answer, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed").await;
    }
    let answer = world.get(&regions(&world)).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn off_takes_its_paths_away_but_for_what_has_no_successor() {
    let world = with(Availability::Off).await;
    let list = format!("/api/v1/organizations/{}/identities", world.start.organization_id);
    let region = world.start.region_id.expect("a region");
    for (method, path) in [
        (Method::GET, list.clone()),
        (Method::GET, format!("/region{list}")),
        (Method::POST, identities(&world)),
        (Method::POST, clusters(&world)),
        (Method::GET, format!("/compute{}/{}", clusters(&world), world.ambient.uuid())),
        (Method::DELETE, format!("{}/{}", identities(&world), world.ambient.uuid())),
        (Method::PATCH, list),
    ] {
        let answer = world.send(method, &path, &identity_body(&world, "new")).await;
        expect_error(answer, StatusCode::NOT_FOUND, "not_found").await;
    }
    for tail in ["", "/detail", "/flavors", "/images", "/externalnetworks"] {
        let path = regions(&world);
        let path = if tail.is_empty() { path } else { format!("{path}/{region}{tail}") };
        assert_eq!(world.get(&path).await.status(), StatusCode::OK, "{path}");
    }
    let projects = format!("/api/v1/organizations/{}/projects", world.start.organization_id);
    assert_eq!(world.get(&projects).await.status(), StatusCode::OK, "the identity service is not deprecated");
}

#[tokio::test]
async fn requests_are_counted_by_their_route() {
    let world = World::start().await;
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    // In the test's own thread, whose recorder this is.
    let _recording = metrics::set_default_local_recorder(&recorder);
    let router = regent::api::router(&world.api);
    let servers = format!("/api/v1/organizations/{}/servers", world.start.organization_id);
    for (path, times) in [(servers.clone(), 2), (format!("/region{servers}"), 1), ("/api/v2/servers".to_owned(), 1)] {
        for _ in 0..times {
            let request =
                Request::builder().uri(&path).header("authorization", format!("Bearer {}", world.start.token));
            let answer = router.clone().oneshot(request.body(Body::empty()).expect("a request")).await;
            assert_eq!(answer.expect("infallible").status(), StatusCode::OK, "{path}");
        }
    }
    let text = handle.render();
    let line = "regent_v1_requests_total{route=\"/api/v1/organizations/{organizationID}/servers\"} 3";
    assert!(text.lines().any(|known| known == line), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("regent_v1_requests_total{")).count(), 1, "{text}");
}

#[tokio::test]
async fn the_document_marks_what_off_takes_away_and_nothing_else() {
    let world = World::start().await;
    let document = expect(world.get("/openapi.json").await, StatusCode::OK).await;
    let is_deprecated = |path: &str, method: &str| document["paths"][path][method]["deprecated"] == json!(true);
    let base = "/api/v1/organizations/{organizationID}";
    assert!(is_deprecated(&format!("{base}/networks"), "get"));
    assert!(is_deprecated(&format!("{base}/projects/{{projectID}}/identities"), "post"));
    for path in [format!("{base}/regions"), format!("{base}/projects"), "/api/v2/networks".to_owned()] {
        assert!(document["paths"][&path]["get"].is_object() && !is_deprecated(&path, "get"), "{path}");
    }
}

#[tokio::test]
async fn the_detail_of_a_region_is_there_for_every_region() {
    let world = World::start().await;
    let (other, _) = world.tenant().await;
    let private = world.region("private", Some(vec![other]), false).await;
    let withdrawn = world.region("withdrawn", None, true).await;
    let own = world.start.region_id.expect("a region");
    let detail = async |region: String| world.get(&format!("{}/{region}/detail", regions(&world))).await;
    let shown: Value = expect(detail(own.to_string()).await, StatusCode::OK).await;
    assert_eq!(id_of(&shown), own.to_string());
    assert_eq!(shown["spec"], json!({"type": "simulated", "features": {"physicalNetworks": true}}));
    let shown = expect(detail(withdrawn.to_string()).await, StatusCode::OK).await;
    assert_eq!(shown["metadata"]["healthStatus"], "error");
    let shown = expect(detail(private.to_string()).await, StatusCode::OK).await;
    assert_eq!(shown["spec"]["type"], "simulated", "an operator sees every region");
    expect_error(detail(world.ambient.uuid().to_string()).await, StatusCode::NOT_FOUND, "not_found").await;
    let token = world.token_of("kubernetes", regent::model::token::Role::KubernetesService).await;
    let path = format!("{}/{own}/detail", regions(&world));
    let answer = world.send_as(&token, Method::GET, &path, &json!(null)).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let reader = world.token_of("reader", regent::model::token::Role::PlatformReader).await;
    let answer = world.send_as(&reader, Method::GET, &path, &json!(null)).await;
    expect_error(answer, StatusCode::FORBIDDEN, "forbidden").await;
}
