//! Lists in pieces and in an order.

use std::collections::BTreeSet;

use regent::identity::acl::{Endpoint, Operation};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{NETWORKS, World, expect, expect_error, id_of, may};

fn next(response: &Response) -> Option<String> {
    let link = response.headers().get("link")?.to_str().expect("ascii");
    Some(link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\"")).expect("a link").to_owned())
}

/// Every page from here on: the names on it.
async fn pages(world: &World, bearer: &str, path: &str) -> Vec<Vec<String>> {
    let (mut pages, mut path) = (Vec::new(), Some(path.to_owned()));
    while let Some(address) = path {
        let response = world.send_as(bearer, Method::GET, &address, &Value::Null).await;
        path = next(&response);
        let page = expect(response, StatusCode::OK).await;
        let name = |item: &Value| item["metadata"]["name"].as_str().expect("a name").to_owned();
        pages.push(page.as_array().expect("a list").iter().map(name).collect());
    }
    pages
}

async fn populated(names: &[&str]) -> World {
    let world = World::start().await;
    for name in names {
        let mut body = world.network_body(name);
        body["metadata"]["tags"] = json!([{"name": "odd", "value": (name.len() % 2).to_string()}]);
        world.create(&body).await;
    }
    world
}

#[tokio::test]
async fn pages_together_are_the_whole_list_in_order_of_id() {
    let world = populated(&["a", "b", "c", "d", "e", "f", "g"]).await;
    let token = world.start.token.clone();
    let whole = expect(world.get(NETWORKS).await, StatusCode::OK).await;
    let whole = whole.as_array().expect("a list").iter().map(|item| item["metadata"]["name"].clone());
    let whole = whole.map(|name| name.as_str().expect("a name").to_owned()).collect::<Vec<_>>();
    for limit in [1, 2, 3, 7, 1000] {
        let pages = pages(&world, &token, &format!("{NETWORKS}?limit={limit}")).await;
        assert!(pages.iter().rev().skip(1).all(|page| page.len() == limit), "{pages:?}");
        assert_eq!(pages.concat(), whole, "{limit}");
    }
    let backwards = pages(&world, &token, &format!("{NETWORKS}?limit=3&sort=-id")).await.concat();
    assert_eq!(backwards, whole.into_iter().rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_list_can_be_sorted_and_what_is_equal_is_neither_lost_nor_repeated() {
    let world = populated(&["b", "a", "c", "a", "b", "a"]).await;
    let token = world.start.token.clone();
    for limit in [1, 2, 4, 6] {
        let path = format!("{NETWORKS}?sort=name&limit={limit}");
        assert_eq!(pages(&world, &token, &path).await.concat(), ["a", "a", "a", "b", "b", "c"], "{limit}");
        let path = format!("{NETWORKS}?sort=-name&limit={limit}");
        assert_eq!(pages(&world, &token, &path).await.concat(), ["c", "b", "b", "a", "a", "a"], "{limit}");
    }
    let by_time = pages(&world, &token, &format!("{NETWORKS}?sort=creationTime&limit=4")).await.concat();
    assert_eq!(by_time, ["b", "a", "c", "a", "b", "a"]);
    let newest = pages(&world, &token, &format!("{NETWORKS}?sort=-creationTime&limit=5")).await.concat();
    assert_eq!(newest, ["a", "b", "a", "c", "a", "b"]);
    assert_eq!(pages(&world, &token, &format!("{NETWORKS}?sort=name")).await.len(), 1);
}

#[tokio::test]
async fn filters_and_rights_hold_on_every_page() {
    let world = populated(&["a", "bb", "c", "dd", "e", "ff"]).await;
    let token = world.start.token.clone();
    let path = format!("{NETWORKS}?tag=odd%3D1&sort=name&limit=2");
    assert_eq!(pages(&world, &token, &path).await, [vec!["a", "c"], vec!["e"]]);
    let stranger = world.stranger().await;
    assert_eq!(pages(&world, &stranger, &format!("{NETWORKS}?limit=2")).await, [Vec::<String>::new()]);
    let reader = world.member("reader", may(Endpoint::NetworksV2, &[Operation::Read]));
    assert_eq!(pages(&world, &reader, &format!("{NETWORKS}?limit=4&sort=name")).await.concat().len(), 6);
}

#[tokio::test]
async fn what_comes_and_goes_between_pages_disturbs_nothing_else() {
    let world = populated(&["b", "d", "f"]).await;
    let first = world.get(&format!("{NETWORKS}?sort=name&limit=2")).await;
    let rest = next(&first).expect("more");
    let shown = expect(first, StatusCode::OK).await;
    let second = format!("{NETWORKS}/{}", id_of(&shown[1]));
    for name in ["a", "e"] {
        world.create(&world.network_body(name)).await;
    }
    assert_eq!(world.delete(&second).await.status(), StatusCode::ACCEPTED);
    let names = pages(&world, &world.start.token, &rest).await.concat();
    assert_eq!(names, ["e", "f"]);
}

#[tokio::test]
async fn a_cursor_is_of_one_list_and_cannot_be_made_up() {
    let world = populated(&["a", "b", "c"]).await;
    let first = world.get(&format!("{NETWORKS}?limit=1")).await;
    let rest = next(&first).expect("more");
    let cursor = rest.rsplit_once("cursor=").expect("a cursor").1.to_owned();
    assert!(rest.starts_with(&format!("{NETWORKS}?limit=1&cursor=")), "{rest}");
    let mut changed = cursor.clone().into_bytes();
    changed[20] = if changed[20] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).expect("ascii");
    let region = world.start.region_id.expect("a region");
    for bad in [
        format!("cursor={changed}"),
        "cursor=".to_owned(),
        "cursor=x".to_owned(),
        format!("cursor={}", "A".repeat(4000)),
        format!("cursor={cursor}&cursor={cursor}"),
        format!("cursor={cursor}&sort=name"),
        format!("cursor={cursor}&regionID={region}"),
        "limit=0".to_owned(),
        "limit=1001".to_owned(),
        "limit=-1".to_owned(),
        "limit=1&limit=2".to_owned(),
        "sort=prefix".to_owned(),
        "sort=name&sort=id".to_owned(),
        "sort=".to_owned(),
    ] {
        let response = world.get(&format!("{NETWORKS}?{bad}")).await;
        let text = expect_error(response, StatusCode::BAD_REQUEST, "invalid_request").await;
        assert!(text.contains("invalid path/query element"), "{bad}: {text}");
    }
    let names = pages(&world, &world.start.token, &format!("{NETWORKS}?limit=2&cursor={cursor}")).await;
    assert_eq!(names.concat().into_iter().collect::<BTreeSet<_>>().len(), 2);
}

#[tokio::test]
async fn the_next_page_is_where_the_first_one_was() {
    let world = populated(&["a", "b"]).await;
    let first = world.get("/region/api/v2/networks?limit=1").await;
    assert!(next(&first).expect("more").starts_with("/region/api/v2/networks?"));
    assert_eq!(pages(&world, &world.start.token, "/region/api/v2/networks?limit=1").await.concat().len(), 2);
}
