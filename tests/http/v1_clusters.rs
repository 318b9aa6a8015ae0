//! Clusters of the first version as their clients use them, and what they are on the second.

use jiff::Timestamp;
use regent::identity::acl::{Endpoint, Operation};
use regent::model::cluster::Cluster;
use regent::model::ids::{Key, Kind, NetworkId};
use regent::model::operation::OperationDetail;
use regent::model::quota::QuotaKind;
use regent::model::record::Resource;
use regent::providers::types::Image;
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::cloud::{GIB, flavor, image};
use super::server_verbs::ended;
use super::tenants::used;
use super::v1_cluster_matrix::given_machine;
use super::{NETWORKS, SECURITY_GROUPS, World, expect, expect_error, id_of, may};

/// Where clusters of the first project are made.
pub fn clusters(world: &World) -> String {
    let (organization, project) = (world.start.organization_id, world.start.project_id);
    format!("/api/v1/organizations/{organization}/projects/{project}/clusters")
}

fn everywhere(world: &World) -> String {
    format!("/api/v1/organizations/{}/clusters", world.start.organization_id)
}

fn path(world: &World, cluster: &Value) -> String {
    format!("{}/{}", clusters(world), id_of(cluster))
}

fn firewall(port: u16) -> Value {
    json!([
        {"direction": "ingress", "protocol": "tcp", "port": port, "portMax": port, "prefixes": ["10.1.2.3/8", "0.0.0.0/0"]},
        {"direction": "ingress", "protocol": "tcp", "port": port, "portMax": port, "prefixes": ["172.16.0.0/12"]},
    ])
}

fn pool(name: &str) -> Value {
    json!({"name": name, "replicas": 2, "flavorId": flavor(1, "").id, "imageId": image(1, "").id})
}

fn with(mut pool: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().expect("an object") {
        pool[name] = value.clone();
    }
    pool.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    pool
}

fn body(world: &World, pools: &[Value]) -> Value {
    json!({
        "metadata": {"name": "pack", "description": "two of them", "tags": [{"name": "a", "value": "b"}]},
        "spec": {
            "regionId": world.start.region_id,
            "network": {"nodeNetwork": "10.20.0.1/22", "dnsNameservers": ["8.8.8.8", "1.1.1.1"]},
            "workloadPools": {"pools": pools},
        },
    })
}

fn full(name: &str) -> Value {
    with(
        pool(name),
        &json!({
            "publicIpAllocation": {"enabled": true}, "firewall": firewall(22), "userData": "I2Nsb3VkLWNvbmZpZwo=",
            "allowedAddressPairs": [{"cidr": "10.9.0.1/24", "macAddress": "FA:16:3e:00:00:01"}, {"cidr": "10.8.0.0/24"}],
        }),
    )
}

async fn list(world: &World, path: &str) -> Vec<Value> {
    let list = expect(world.get(path).await, StatusCode::OK).await;
    list.as_array().expect("a list").clone()
}

async fn stored(world: &World, cluster: &Value) -> Resource<Cluster> {
    let key = Key::new(Kind::Cluster, id_of(cluster).parse().expect("an id"));
    world.store.get(key).await.expect("reads").expect("there").open().expect("opens")
}

async fn limit(world: &World, kind: QuotaKind, limit: u64) {
    let write = Write::Limit { organization: world.start.organization_id, kind, limit };
    world.store.commit(Batch::of(vec![write])).await.expect("commits");
}

async fn refused(world: &World, body: &Value, status: StatusCode) -> String {
    let error = match status {
        StatusCode::BAD_REQUEST => "invalid_request",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not_found",
        _ => "unprocessable_content",
    };
    expect_error(world.send(Method::POST, &clusters(world), body).await, status, error).await
}

#[tokio::test]
async fn a_cluster_reads_as_it_was_written_and_brings_a_network_and_groups_of_the_second_version() {
    for (store, world) in World::on_each_store().await {
        let body = body(&world, &[full("web"), pool("db")]);
        let made = world.made(&clusters(&world), &body).await;
        assert_eq!(made["spec"], body["spec"], "{store}");
        assert_eq!(made["metadata"]["tags"], body["metadata"]["tags"], "{store}");
        let empty = |name: &str| json!({"name": name, "replicas": 0, "machines": []});
        assert_eq!(made["status"], json!({"workloadPools": [empty("web"), empty("db")]}), "{store}");
        assert_eq!(expect(world.get(&path(&world, &made)).await, StatusCode::OK).await, made, "{store}");
        assert_eq!(list(&world, &everywhere(&world)).await, std::slice::from_ref(&made), "{store}");
        // The second version shows all of it but the cluster.
        assert_eq!(list(&world, "/api/v2/clusters").await, Vec::<Value>::new(), "{store}");
        let other = world.get(&format!("/api/v2/clusters/{}", id_of(&made))).await;
        expect_error(other, StatusCode::NOT_FOUND, "not_found").await;
        let networks = list(&world, NETWORKS).await;
        assert_eq!(networks.len(), 1, "{store}");
        let network = &networks[0];
        assert_eq!(
            (&network["metadata"]["name"], &network["status"]["prefix"]),
            (&json!("pack"), &json!("10.20.0.1/22"))
        );
        assert_eq!(network["spec"]["dnsNameservers"], json!(["8.8.8.8", "1.1.1.1"]), "{store}");
        let tag = json!([{"name": "compute.unikorn-cloud.org/cluster-id", "value": id_of(&made)}]);
        assert_eq!(network["metadata"]["tags"], tag, "{store}");
        let groups = list(&world, SECURITY_GROUPS).await;
        assert_eq!(groups.len(), 1, "a pool without a firewall has none");
        assert_eq!((&groups[0]["metadata"]["name"], &groups[0]["metadata"]["tags"]), (&json!("web"), &tag));
        assert_eq!(groups[0]["status"]["networkId"], network["metadata"]["id"], "{store}");
        let rule = |prefix: &str| json!({"direction": "ingress", "protocol": "tcp", "port": 22, "prefix": prefix});
        let rules = json!([rule("10.1.2.3/8"), rule("0.0.0.0/0"), rule("172.16.0.0/12")]);
        assert_eq!(groups[0]["spec"]["rules"], rules, "{store}");
        let pools = stored(&world, &made).await.spec.pools;
        let groups_of = |number: usize| pools[number].machine.networking.clone().and_then(|said| said.security_groups);
        assert_eq!(groups_of(0).expect("groups")[0].to_string(), id_of(&groups[0]), "{store}");
        assert_eq!(groups_of(1), None, "{store}");
        for (kind, amount) in
            [(QuotaKind::Networks, 1), (QuotaKind::Clusters, 1), (QuotaKind::Servers, 4), (QuotaKind::PublicIps, 2)]
        {
            assert_eq!(used(&world.store, world.start.organization_id, kind).await.total(), amount, "{store} {kind:?}");
        }
    }
}

#[tokio::test]
async fn a_cluster_that_does_not_fit_leaves_nothing_behind() {
    for (store, world) in World::on_each_store().await {
        limit(&world, QuotaKind::Servers, 10).await;
        let many = with(full("web"), &json!({"replicas": 11}));
        let text = refused(&world, &body(&world, &[many]), StatusCode::FORBIDDEN).await;
        assert!(text.contains("quota"), "{store}: {text}");
        limit(&world, QuotaKind::Networks, 0).await;
        refused(&world, &body(&world, &[full("web")]), StatusCode::FORBIDDEN).await;
        for collection in [NETWORKS, SECURITY_GROUPS, &everywhere(&world)] {
            assert_eq!(list(&world, collection).await, Vec::<Value>::new(), "{store} {collection}");
        }
        let usage = world.store.usage(world.start.organization_id).await.expect("reads");
        assert!(usage.iter().all(|usage| usage.used.total() == 0), "{store}: {usage:?}");
        let project = world.store.references(world.start.project_id.key()).await.expect("reads");
        assert!(project.is_empty(), "{store}: {project:?}");
    }
}

#[tokio::test]
async fn what_was_left_out_stays_left_out() {
    let world = World::start().await;
    let mut body = body(&world, &[pool("web")]);
    body["spec"].as_object_mut().expect("a spec").remove("network");
    let made = world.made(&clusters(&world), &body).await;
    assert_eq!(made["spec"], body["spec"]);
    let network = &list(&world, NETWORKS).await[0];
    assert_eq!(network["status"]["prefix"], "192.168.0.0/24");
    assert_eq!(network["spec"]["dnsNameservers"], json!([]));
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let world = World::start().await;
    let one = |changes: &Value| body(&world, &[with(pool("web"), changes)]);
    let selector = json!({"distro": "solaris", "version": "10"});
    for changes in [
        json!({"name": "a b"}),
        json!({"name": "n".repeat(57)}),
        json!({"replicas": 257}),
        json!({"flavorId": "small"}),
        json!({"imageId": null}),
        json!({"imageSelector": selector}),
        json!({"userData": "%"}),
        json!({"allowedAddressPairs": [{"cidr": "10.0.0.0"}]}),
        json!({"firewall": [{"direction": "ingress", "protocol": "icmp", "port": 1, "prefixes": ["10.0.0.0/8"]}]}),
        json!({"firewall": [{"direction": "ingress", "protocol": "tcp", "port": 1, "prefixes": []}]}),
    ] {
        refused(&world, &one(&changes), StatusCode::BAD_REQUEST).await;
    }
    for changes in [
        json!({"diskSize": "50Gi"}),
        json!({"imageId": world.ambient.uuid()}),
        json!({"flavorId": world.ambient.uuid()}),
        json!({"imageId": null, "imageSelector": selector}),
    ] {
        refused(&world, &one(&changes), StatusCode::UNPROCESSABLE_ENTITY).await;
    }
    refused(&world, &body(&world, &[pool("web"), pool("web")]), StatusCode::UNPROCESSABLE_ENTITY).await;
    let with_network = |network: Value| {
        let mut body = body(&world, &[pool("web")]);
        body["spec"]["network"] = network;
        body
    };
    for network in [
        json!({"nodeNetwork": "10.0.0.0/25", "dnsNameservers": []}),
        json!({"nodeNetwork": "10.0.0.0", "dnsNameservers": []}),
        json!({"nodeNetwork": "10.0.0.0/24", "dnsNameservers": ["one"]}),
        json!({"nodeNetwork": "10.0.0.0/24"}),
    ] {
        refused(&world, &with_network(network), StatusCode::BAD_REQUEST).await;
    }
    let withdrawn = world.region("withdrawn", None, true).await;
    for region in [world.ambient.uuid(), withdrawn.0] {
        let mut body = body(&world, &[pool("web")]);
        body["spec"]["regionId"] = json!(region);
        let text = refused(&world, &body, StatusCode::UNPROCESSABLE_ENTITY).await;
        assert_eq!(text, "spec.regionId names no region");
    }
    let nowhere =
        format!("/api/v1/organizations/{}/projects/{}/clusters", world.start.organization_id, world.ambient.uuid());
    let answer = world.send(Method::POST, &nowhere, &body(&world, &[pool("web")])).await;
    expect_error(answer, StatusCode::NOT_FOUND, "not_found").await;
    assert_eq!(list(&world, NETWORKS).await, Vec::<Value>::new());
}

/// An image for machines in general, made on this day.
fn general(number: u128, day: i64, version: &str) -> Image {
    let mut image = image(number, "rocky");
    image.packages = BTreeMap::new();
    image.created = Timestamp::from_second(day * 86_400).expect("a time");
    version.clone_into(&mut image.os.version);
    image
}

#[tokio::test]
async fn a_selector_chooses_the_newest_that_fits_once() {
    let world = World::start().await;
    let (large, own) = (Image { size_gib: 40, ..general(13, 4, "9") }, Some(world.start.organization_id));
    let special = Image { packages: image(1, "").packages, ..general(14, 5, "9") };
    for image in [
        general(11, 1, "9"),
        general(12, 3, "9"),
        large,
        special,
        Image { organization: own, ..general(15, 6, "9") },
        general(16, 7, "8"),
    ] {
        world.cloud.offer(image);
    }
    world.cloud.offer_flavor(regent::providers::types::Flavor { disk_bytes: 100 * GIB, ..flavor(9, "roomy") });
    let chosen = async |pool: Value| {
        let body = body(&world, &[pool]);
        let made = world.made(&clusters(&world), &body).await;
        assert_eq!(made["spec"], body["spec"]);
        (stored(&world, &made).await.spec.pools[0].machine.image, made)
    };
    let selected = with(pool("web"), &json!({"imageId": null, "imageSelector": {"distro": "rocky", "version": "9"}}));
    let roomy = with(selected.clone(), &json!({"flavorId": flavor(9, "").id}));
    assert_eq!(chosen(roomy.clone()).await.0, general(13, 0, "").id, "the newest that its flavor can boot");
    let (image, made) = chosen(selected.clone()).await;
    assert_eq!(image, general(12, 0, "").id);
    // Said again, it does not choose again, although there is a newer one for the new flavor.
    let put = async |pool: &Value| {
        let answer = world.send(Method::PUT, &path(&world, &made), &body(&world, std::slice::from_ref(pool))).await;
        expect(answer, StatusCode::ACCEPTED).await;
        stored(&world, &made).await.spec.pools[0].machine.image
    };
    assert_eq!(put(&roomy).await, general(12, 0, "").id);
    let other = with(selected, &json!({"imageSelector": {"distro": "rocky", "version": "8"}}));
    assert_eq!(put(&other).await, general(16, 0, "").id);
    let variant = json!({"imageSelector": {"distro": "rocky", "version": "8", "variant": "desktop"}});
    refused(&world, &body(&world, &[with(other, &variant)]), StatusCode::UNPROCESSABLE_ENTITY).await;
}

#[tokio::test]
async fn an_update_changes_pools_groups_and_name_servers_in_one_commit() {
    for (store, world) in World::on_each_store().await {
        let made = world.made(&clusters(&world), &body(&world, &[full("web"), pool("db")])).await;
        let put = async |body: &Value| world.send(Method::PUT, &path(&world, &made), body).await;
        let web = with(full("web"), &json!({"firewall": firewall(443)}));
        let db = with(pool("db"), &json!({"firewall": firewall(5432), "replicas": 1}));
        let mut wanted = body(&world, &[web, db]);
        wanted["spec"]["network"]["dnsNameservers"] = json!(["9.9.9.9"]);
        let shown = expect(put(&wanted).await, StatusCode::ACCEPTED).await;
        assert_eq!(shown["spec"], wanted["spec"], "{store}");
        assert_eq!(list(&world, NETWORKS).await[0]["spec"]["dnsNameservers"], json!(["9.9.9.9"]), "{store}");
        let ports = async || {
            let groups = list(&world, SECURITY_GROUPS).await;
            let port = |group: &Value| {
                (
                    group["metadata"]["name"].as_str().expect("a name").to_owned(),
                    group["spec"]["rules"][0]["port"].clone(),
                )
            };
            groups.iter().map(port).collect::<BTreeMap<_, _>>()
        };
        let expected = |web: Value, db: Value| BTreeMap::from([("db".to_owned(), db), ("web".to_owned(), web)]);
        assert_eq!(ports().await, expected(json!(443), json!(5432)), "{store}");
        let references = stored(&world, &made).await.spec.uses();
        assert_eq!(references.len(), 2, "{store}");

        limit(&world, QuotaKind::Servers, 10).await;
        // A refusal changes nothing, and least of all who is let in.
        let many = with(full("web"), &json!({"firewall": firewall(1), "replicas": 100}));
        let answer = put(&body(&world, &[many])).await;
        expect_error(answer, StatusCode::FORBIDDEN, "forbidden").await;
        assert_eq!(ports().await, expected(json!(443), json!(5432)), "{store}");

        // A pool that goes leaves its group to the network; one that loses its rules keeps an empty one.
        let mut fewer = body(&world, &[with(full("web"), &json!({"firewall": null}))]);
        fewer["spec"].as_object_mut().expect("a spec").remove("network");
        let shown = expect(put(&fewer).await, StatusCode::ACCEPTED).await;
        assert_eq!(shown["spec"]["network"], wanted["spec"]["network"], "{store}: left out, it is as it was");
        assert_eq!(ports().await, expected(json!(null), json!(5432)), "{store}");

        for (place, value) in [
            ("regionId", json!(world.ambient.uuid())),
            ("network", json!({"nodeNetwork": "10.21.0.0/22", "dnsNameservers": []})),
        ] {
            let mut other = body(&world, &[full("web")]);
            other["spec"][place] = value;
            let answer = put(&other).await;
            expect_error(answer, StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content").await;
        }
    }
}

#[tokio::test]
async fn machines_are_evicted_switched_and_watched_by_whoever_may() {
    let world = World::start().await;
    let made = world.made(&clusters(&world), &body(&world, &[pool("web")])).await;
    let machine = given_machine(&world, &made).await;
    let base = format!("{}/machines/{machine}", path(&world, &made));
    let nothing = json!({});
    let read = may(Endpoint::ComputeClusters, &[Operation::Read]);
    let reader = world.member("reader", read.clone());
    let mut grants = read;
    grants.extend(may(Endpoint::ComputeClusters, &[Operation::Update]));
    let operator = world.member("operator", grants.clone());
    grants.extend(may(Endpoint::InstanceSecrets, &[Operation::Read]));
    let keeper = world.member("keeper", grants);
    for word in ["start", "stop", "softreboot", "hardreboot"] {
        let verb = format!("{base}/{word}");
        let denied = world.send_as(&reader, Method::POST, &verb, &nothing).await;
        expect_error(denied, StatusCode::FORBIDDEN, "forbidden").await;
        let asked = world.send_as(&operator, Method::POST, &verb, &nothing);
        let (answer, _) = tokio::join!(asked, ended(&world, OperationDetail::Succeeded { result: None }));
        assert_eq!(answer.status(), StatusCode::ACCEPTED, "{word}");
    }
    let console = format!("{base}/consolesessions");
    let denied = world.send_as(&operator, Method::GET, &console, &nothing).await;
    expect_error(denied, StatusCode::FORBIDDEN, "forbidden").await;
    let result = super::envelope().seal(&"https://console.example.org".to_owned()).expect("seals");
    let asked = world.send_as(&keeper, Method::GET, &console, &nothing);
    let (answer, _) = tokio::join!(asked, ended(&world, OperationDetail::Succeeded { result: Some(result) }));
    assert_eq!(expect(answer, StatusCode::OK).await["url"], "https://console.example.org");
    let output = world.send_as(&reader, Method::GET, &format!("{base}/consoleoutput?length=2"), &nothing).await;
    assert_eq!(expect(output, StatusCode::OK).await["contents"], "the last 2 of booted\n");

    // A machine is only where it is.
    let other = world.made(&clusters(&world), &body(&world, &[pool("web")])).await;
    let elsewhere = format!("{}/machines/{machine}/stop", path(&world, &other));
    let answer = world.send(Method::POST, &elsewhere, &nothing).await;
    expect_error(answer, StatusCode::NOT_FOUND, "not_found").await;

    let evict = format!("{}/evict", path(&world, &made));
    for (body, status, word) in [
        (json!({"machineIDs": []}), StatusCode::BAD_REQUEST, "invalid_request"),
        (json!({"machineIDs": ["one"]}), StatusCode::BAD_REQUEST, "invalid_request"),
        (json!({"machineIDs": [world.ambient.uuid()]}), StatusCode::UNPROCESSABLE_ENTITY, "unprocessable_content"),
    ] {
        expect_error(world.send(Method::POST, &evict, &body).await, status, word).await;
    }
    let body = json!({"machineIDs": [machine]});
    let denied = world.send_as(&reader, Method::POST, &evict, &body).await;
    expect_error(denied, StatusCode::FORBIDDEN, "forbidden").await;
    for _ in 0..2 {
        let shown = expect(world.send(Method::POST, &evict, &body).await, StatusCode::ACCEPTED).await;
        assert_eq!(shown["spec"]["workloadPools"]["pools"][0]["replicas"], 1, "once, however often it is asked");
    }
    assert_eq!(stored(&world, &made).await.spec.evictions, [machine]);
}

#[tokio::test]
async fn a_cluster_is_hidden_from_strangers_and_from_other_paths() {
    let world = World::start().await;
    let made = world.made(&clusters(&world), &body(&world, &[pool("web")])).await;
    let stranger = world.stranger().await;
    let (_, project) = world.tenant().await;
    let elsewhere =
        format!("/api/v1/organizations/{}/projects/{project}/clusters/{}", world.start.organization_id, id_of(&made));
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let hidden = world.send_as(&stranger, method.clone(), &path(&world, &made), &body(&world, &[])).await;
        expect_error(hidden, StatusCode::NOT_FOUND, "not_found").await;
        let wrong = world.send(method, &elsewhere, &body(&world, &[])).await;
        expect_error(wrong, StatusCode::NOT_FOUND, "not_found").await;
    }
    let compute = format!("/compute{}", path(&world, &made));
    assert_eq!(expect(world.get(&compute).await, StatusCode::OK).await, made);
    let region = world.get(&format!("/region{}", path(&world, &made))).await;
    expect_error(region, StatusCode::NOT_FOUND, "not_found").await;
}

#[tokio::test]
async fn a_cluster_whose_network_is_protected_or_used_by_others_is_not_deleted() {
    let world = World::start().await;
    let made = world.made(&clusters(&world), &body(&world, &[full("web")])).await;
    let network = list(&world, NETWORKS).await[0].clone();
    let protect = async |protection: bool| {
        let body = json!({
            "metadata": {"name": "pack", "deletionProtection": protection}, "spec": {"dnsNameservers": []},
        });
        let answer = world.send(Method::PUT, &format!("{NETWORKS}/{}", id_of(&network)), &body).await;
        expect(answer, StatusCode::ACCEPTED).await;
    };
    protect(true).await;
    let text = expect_error(world.delete(&path(&world, &made)).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("protected"), "{text}");
    protect(false).await;
    let reference = format!("{NETWORKS}/{}/references/a.b.c%2F{}", id_of(&network), world.ambient.uuid());
    assert!(world.request(Method::PUT, &reference).send().await.expect("an answer").status().is_success());
    let text = expect_error(world.delete(&path(&world, &made)).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use"), "{text}");
    assert!(world.delete(&reference).await.status().is_success());
    for _ in 0..2 {
        assert_eq!(world.delete(&path(&world, &made)).await.status(), StatusCode::ACCEPTED);
    }
    let key = NetworkId(id_of(&network).parse().expect("an id")).key();
    let record = world.store.get(key).await.expect("reads").expect("there");
    assert!(!record.metadata.is_deleting(), "it goes when the cluster has gone, and not before");
    let late = world.send(Method::PUT, &path(&world, &made), &body(&world, &[full("web")])).await;
    expect_error(late, StatusCode::BAD_REQUEST, "invalid_request").await;
}
