//! Instances and clusters as clients use them.

use regent::model::edge::Holder;
use regent::model::ids::{FlavorId, Kind, ServerId};
use regent::model::quota::QuotaKind;
use regent::store::{Batch, Write};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::cloud::{flavor, image};
use super::servers::key;
use super::ssh_certificate_authorities::body as authority_body;
use super::{AUTHORITIES, SECURITY_GROUPS, World, expect, expect_error, id_of, network_path};

const INSTANCES: &str = "/api/v2/instances";
const CLUSTERS: &str = "/api/v2/clusters";

fn with(world: &World, network: &Value, more: &Value) -> Value {
    let mut spec = json!({
        "organizationId": world.start.organization_id, "projectId": world.start.project_id,
        "networkId": id_of(network), "flavorId": flavor(1, "").id, "imageId": image(1, "").id,
    });
    spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({"metadata": {"name": "web-1"}, "spec": spec})
}

async fn furnished() -> (World, Value, Value) {
    let world = World::start().await;
    let network = world.create(&world.network_body("net")).await;
    let body = with(&world, &network, &json!({}));
    (world, network, body)
}

fn path(instance: &Value) -> String {
    format!("{INSTANCES}/{}", id_of(instance))
}

async fn refused(world: &World, method: Method, path: &str, body: &Value, status: StatusCode) -> String {
    let code = match status {
        StatusCode::BAD_REQUEST => "invalid_request",
        StatusCode::CONFLICT => "conflict",
        StatusCode::FORBIDDEN => "forbidden",
        _ => "unprocessable_content",
    };
    expect_error(world.send(method, path, body).await, status, code).await
}

async fn used(world: &World, kind: QuotaKind) -> u64 {
    let usage = world.store.usage(world.start.organization_id).await.expect("reads");
    usage.iter().find(|usage| usage.kind == kind).map_or(0, |usage| usage.used.total())
}

#[tokio::test]
async fn an_instance_reads_back_as_it_was_written_with_networking_always() {
    let (world, network, plain) = furnished().await;
    let made = world.made(INSTANCES, &plain).await;
    assert_eq!(made["spec"]["networking"], json!({}), "always there");
    for omitted in ["userData", "sshCertificateAuthorityId", "policy"] {
        assert!(made["spec"].get(omitted).is_none(), "{omitted} in {made}");
    }
    assert_eq!(made["metadata"]["provisioningStatus"], "pending");
    assert_eq!(made["status"]["powerState"], "Pending");
    assert_eq!(made["status"]["networkId"], *id_of(&network));

    let group = json!({"metadata": {"name": "group"}, "spec": {"networkId": id_of(&network), "rules": []}});
    let group = world.made(SECURITY_GROUPS, &group).await;
    let authority = world.made(AUTHORITIES, &authority_body(&world, "people")).await;
    let more = json!({
        "networking": {
            "securityGroups": [id_of(&group)], "publicIP": true, "allowedSourceAddresses": ["10.200.0.0/16"],
        },
        "userData": "I2Nsb3VkLWNvbmZpZwo=", "sshCertificateAuthorityId": id_of(&authority),
        "policy": {"flavorChange": "resize", "recovery": "report"},
    });
    let mut rich = with(&world, &network, &more);
    rich["metadata"]["name"] = json!("web-2");
    let made = world.made(INSTANCES, &rich).await;
    for (field, value) in more.as_object().expect("an object") {
        assert_eq!(made["spec"][field], *value, "{field}");
    }
    let instance = key(&made, Kind::Instance);
    let server: ServerId = made["status"]["serverId"].as_str().expect("an id").parse().expect("a UUID");
    for target in
        [key(&network, Kind::Network), key(&group, Kind::SecurityGroup), key(&authority, Kind::SshCertificateAuthority)]
    {
        let holders = world.store.references(target).await.expect("reads");
        for holder in [instance, server.key()] {
            assert!(holders.contains(&Holder::Resource(holder)), "{target} is held by {holder}");
        }
    }
    assert_eq!((used(&world, QuotaKind::Servers).await, used(&world, QuotaKind::PublicIps).await), (2, 1));
}

#[tokio::test]
async fn what_a_body_names_and_is_not_there_is_unprocessable_and_what_is_malformed_is_bad() {
    let (world, network, body) = furnished().await;
    let nobody = "ffffffff-ffff-4fff-8fff-ffffffffffff";
    for field in ["networkId", "flavorId", "imageId", "sshCertificateAuthorityId", "projectId"] {
        for (value, status) in [(nobody, StatusCode::UNPROCESSABLE_ENTITY), ("x", StatusCode::BAD_REQUEST)] {
            let mut bad = body.clone();
            bad["spec"][field] = json!(value);
            let text = refused(&world, Method::POST, INSTANCES, &bad, status).await;
            assert!(text.contains(&format!("spec.{field}")), "{text}");
        }
    }
    let groups = with(&world, &network, &json!({"networking": {"securityGroups": [nobody]}}));
    refused(&world, Method::POST, INSTANCES, &groups, StatusCode::UNPROCESSABLE_ENTITY).await;
    let policy = with(&world, &network, &json!({"policy": {"flavorChange": "sometimes"}}));
    refused(&world, Method::POST, INSTANCES, &policy, StatusCode::BAD_REQUEST).await;
    assert_eq!(used(&world, QuotaKind::Servers).await, 0, "nothing was charged");
}

#[tokio::test]
async fn b21_an_update_checks_only_what_it_changes() {
    let (world, _, body) = furnished().await;
    let made = world.made(INSTANCES, &body).await;
    world.cloud.flavors.lock().expect("not poisoned").clear();
    world.cloud.images.lock().expect("not poisoned").clear();
    let mut same = json!({"metadata": {"name": "web-1"}, "spec": made["spec"]});
    same["spec"]["networking"] = json!({"publicIP": true});
    expect(world.send(Method::PUT, &path(&made), &same).await, StatusCode::ACCEPTED).await;
    assert_eq!(used(&world, QuotaKind::PublicIps).await, 1, "charged with the change");
    same["spec"]["flavorId"] = json!(FlavorId(uuid::Uuid::from_u128(0xf00f)));
    refused(&world, Method::PUT, &path(&made), &same, StatusCode::UNPROCESSABLE_ENTITY).await;
}

#[tokio::test]
async fn names_and_authorities_do_not_change_and_policies_stay_until_they_are_said_again() {
    let (world, network, _) = furnished().await;
    let authority = world.made(AUTHORITIES, &authority_body(&world, "people")).await;
    let more = json!({"sshCertificateAuthorityId": id_of(&authority), "policy": {"imageChange": "forbid"}});
    let made = world.made(INSTANCES, &with(&world, &network, &more)).await;
    let update = |name: &str, more: &Value| {
        let mut spec = json!({"flavorId": flavor(1, "").id, "imageId": image(1, "").id});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    refused(&world, Method::PUT, &path(&made), &update("web-2", &json!({})), unprocessable).await;
    let other = json!({"sshCertificateAuthorityId": "ffffffff-ffff-4fff-8fff-ffffffffffff"});
    refused(&world, Method::PUT, &path(&made), &update("web-1", &other), unprocessable).await;
    let image = json!({"imageId": image(2, "").id});
    refused(&world, Method::PUT, &path(&made), &update("web-1", &image), unprocessable).await;
    let kept =
        expect(world.send(Method::PUT, &path(&made), &update("web-1", &json!({}))).await, StatusCode::ACCEPTED).await;
    assert_eq!(kept["spec"]["policy"], json!({"imageChange": "forbid"}));
    assert_eq!(kept["spec"]["sshCertificateAuthorityId"], *id_of(&authority));
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_lost() {
    let (world, _, body) = furnished().await;
    let made = world.made(INSTANCES, &body).await;
    let mut change = json!({"metadata": {"name": "web-1"}, "spec": made["spec"]});
    change["spec"]["imageId"] = json!(image(2, "").id);
    change["spec"]["flavorId"] = json!(flavor(2, "").id);
    let told = world.send(Method::PUT, &format!("{}?dryRun=true", path(&made)), &change).await;
    let told = expect(told, StatusCode::OK).await;
    let losses = told["losses"].to_string();
    assert!(losses.contains("root disk") && losses.contains("resized"), "{told}");
    let read = expect(world.get(&path(&made)).await, StatusCode::OK).await;
    assert_eq!(read["spec"]["imageId"], made["spec"]["imageId"], "nothing was written");
}

#[tokio::test]
async fn b19_instances_and_balancers_share_one_quota_of_addresses() {
    let (world, network, _) = furnished().await;
    let limit = |kind, limit| Write::Limit { organization: world.start.organization_id, kind, limit };
    let limits = vec![limit(QuotaKind::PublicIps, 1), limit(QuotaKind::Gpus, 1)];
    world.store.commit(Batch::of(limits)).await.expect("commits");
    let addressed = with(&world, &network, &json!({"networking": {"publicIP": true}}));
    world.made(INSTANCES, &addressed).await;
    let listener = json!({"name": "web", "protocol": "tcp", "port": 80, "pool": {"members": []}});
    let balancer = json!({
        "metadata": {"name": "edge"},
        "spec": {"networkId": id_of(&network), "publicIP": true, "listeners": [listener]},
    });
    let text = refused(&world, Method::POST, "/api/v2/loadbalancers", &balancer, StatusCode::FORBIDDEN).await;
    assert!(text.contains("publicips"), "{text}");
    let mut gpu = with(&world, &network, &json!({"flavorId": flavor(3, "").id}));
    gpu["metadata"]["name"] = json!("gpu-1");
    world.made(INSTANCES, &gpu).await;
    gpu["metadata"]["name"] = json!("gpu-2");
    let text = refused(&world, Method::POST, INSTANCES, &gpu, StatusCode::FORBIDDEN).await;
    assert!(text.contains("gpus"), "physical ones are counted: {text}");
}

#[tokio::test]
async fn an_instance_in_use_is_not_deleted_and_names_who_uses_it() {
    let (world, network, body) = furnished().await;
    let made = world.made(INSTANCES, &body).await;
    let limit = Write::Limit { organization: world.start.organization_id, kind: QuotaKind::Volume, limit: 10 };
    world.store.commit(Batch::of(vec![limit])).await.expect("commits");
    let volume = json!({
        "metadata": {"name": "data"},
        "spec": {
            "networkId": id_of(&network), "volumeClassId": super::cloud::volume_class(1, "").id, "sizeGiB": 1,
            "serverId": made["status"]["serverId"],
        },
    });
    let volume = world.made("/api/v2/volumes", &volume).await;
    let text = expect_error(world.delete(&path(&made)).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use") && text.contains(id_of(&volume)), "{text}");
    let text = expect_error(world.delete(&network_path(&network)).await, StatusCode::FORBIDDEN, "forbidden").await;
    assert!(text.contains("in use"), "{text}");
}

#[tokio::test]
async fn compute_has_a_view_of_its_own_of_what_regions_offer() {
    let (world, _, _) = furnished().await;
    let (organization, region) = (world.start.organization_id, world.start.region_id.expect("a region"));
    let within = format!("/api/v1/organizations/{organization}/regions");
    let images = format!("{within}/{region}/images");
    let all = expect(world.get(&images).await, StatusCode::OK).await;
    assert_eq!(all.as_array().map(Vec::len), Some(2));
    let general = expect(world.get(&format!("/compute{images}")).await, StatusCode::OK).await;
    assert_eq!(general, json!([]), "what was made for another service is not shown");
    let mut plain = image(3, "plain");
    plain.packages.clear();
    world.cloud.offer(plain);
    let flavors = format!("/compute{within}/{region}/flavors");
    let flavors = expect(world.get(&flavors).await, StatusCode::OK).await;
    assert_eq!(flavors.as_array().map(Vec::len), Some(3));
    let regions = expect(world.get(&format!("/compute{within}")).await, StatusCode::OK).await;
    assert!(regions.to_string().contains(&region.to_string()), "{regions}");
    expect(world.get("/compute/api/version").await, StatusCode::OK).await;
    expect(world.get(&format!("/compute{INSTANCES}")).await, StatusCode::OK).await;
    assert_eq!(world.get("/compute/api/v2/networks").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(world.get(&format!("/region{INSTANCES}")).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_cluster_follows_the_rules_of_its_form_and_charges_the_sum() {
    let (world, network, _) = furnished().await;
    let pool = |name: &str, replicas: u32| json!({"name": name, "replicas": replicas, "flavorId": flavor(1, "").id, "imageId": image(1, "").id});
    let body = |pools: &Value| {
        json!({
            "metadata": {"name": "pack"},
            "spec": {
                "organizationId": world.start.organization_id, "projectId": world.start.project_id,
                "networkId": id_of(&network), "pools": pools,
            },
        })
    };
    let two = json!([pool("web", 2), pool("db", 3)]);
    let made = world.made(CLUSTERS, &body(&two)).await;
    assert_eq!(made["spec"], json!({"pools": two}), "as it was written");
    let waiting = json!([
        {"name": "web", "replicas": 0, "readyReplicas": 0}, {"name": "db", "replicas": 0, "readyReplicas": 0},
    ]);
    assert_eq!(made["status"]["pools"], waiting);
    assert_eq!((used(&world, QuotaKind::Servers).await, used(&world, QuotaKind::Clusters).await), (5, 1));
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    for (pools, status) in [
        (json!([pool("web", 1), pool("web", 1)]), unprocessable),
        (json!([pool("a", 200), pool("b", 200)]), unprocessable),
        (json!([pool("-", 1)]), StatusCode::BAD_REQUEST),
        (json!([pool("a", 257)]), StatusCode::BAD_REQUEST),
        (json!((0..17).map(|number| pool(&format!("p{number}"), 0)).collect::<Vec<_>>()), StatusCode::BAD_REQUEST),
    ] {
        refused(&world, Method::POST, CLUSTERS, &body(&pools), status).await;
    }
    let one = format!("{CLUSTERS}/{}", id_of(&made));
    let evict = json!({"machineIDs": ["ffffffff-ffff-4fff-8fff-ffffffffffff"]});
    refused(&world, Method::POST, &format!("{one}/evict"), &evict, unprocessable).await;
    refused(&world, Method::POST, &format!("{one}/evict"), &json!({"machineIDs": []}), StatusCode::BAD_REQUEST).await;
    let smaller = json!({"metadata": {"name": "pack"}, "spec": {"pools": [pool("web", 1)]}});
    expect(world.send(Method::PUT, &one, &smaller).await, StatusCode::ACCEPTED).await;
    assert_eq!(used(&world, QuotaKind::Servers).await, 5, "held until what was there is gone");
}
