//! A server's life: made, switched, rebuilt, lost and found, and gone with its project.

use axum::http::StatusCode;
use regent::model::condition::Reason;
use regent::model::ids::Kind;
use regent::model::quota::Amount;
use regent::model::server::Server;
use regent::providers::simulated::catalogue::IMAGE_GPU;
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::providers::simulated::engine::faults::{Effect, Fault};
use regent::store::memory::Mode;

use super::machines::{
    Estate, create_server, estate, get_server, inventory, power_state, rebuild, running, server_status,
};
use super::{create, eventually, get, provisioned, world};
use crate::support::crash::Arm;
use crate::support::world::{Life, World};

#[tokio::test(start_paused = true)]
async fn a_server_is_made_protects_what_it_uses_and_is_unmade() {
    let (world, life) = world().await;
    let Estate { region, network, group, server, .. } = estate(&world, &life).await;
    let (_, shown) = get_server(&life, server).await;
    for address in ["privateIP", "publicIP", "macAddress"] {
        assert!(shown["status"][address].is_string(), "{address} in {shown}");
    }
    assert_eq!(shown["metadata"]["healthStatus"], "healthy");

    for path in [format!("/api/v2/networks/{network}"), format!("/api/v2/securitygroups/{group}")] {
        let (status, answer) = life.request("DELETE", &path, None).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {answer}");
        let text = answer["error_description"].as_str().expect("text");
        assert!(text.contains("in use") && text.contains(&server.to_string()), "{text}");
    }
    let (status, _) = life.request("DELETE", &format!("/api/v2/servers/{server}"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    eventually("the server is gone", async || get_server(&life, server).await.0 == StatusCode::NOT_FOUND).await;
    let held = inventory(&life, region).await;
    assert!(held.servers.is_empty() && held.ports.is_empty() && held.floating_ips.is_empty(), "{held:?}");

    let (status, _) = life.request("DELETE", &format!("/api/v2/securitygroups/{group}"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "the server's 404 frees what it used");
    let gone = async || life.request("GET", &format!("/api/v2/securitygroups/{group}"), None).await.0;
    eventually("the group is gone", async || gone().await == StatusCode::NOT_FOUND).await;
    let (status, _) = life.request("DELETE", &format!("/api/v2/networks/{network}"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "the group's 404 frees the network");
    eventually("the network is gone", async || get(&life, network).await.0 == StatusCode::NOT_FOUND).await;
    eventually("nothing is left", async || inventory(&life, region).await.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_network_takes_its_groups_along() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let network = create(&world, &life, "short", region).await;
    provisioned(&life, network).await;
    super::machines::create_group(&life, network, "doors").await;
    eventually("made", async || inventory(&life, region).await.security_groups.len() == 1).await;
    assert_eq!(life.request("DELETE", &format!("/api/v2/networks/{network}"), None).await.0, StatusCode::ACCEPTED);
    eventually("nothing is left", async || inventory(&life, region).await.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn b31_deleting_a_project_takes_everything_down_in_order() {
    let (world, life) = world().await;
    let Estate { region, network, server, .. } = estate(&world, &life).await;
    let tenant = world.tenants[0];
    let path = format!("/api/v1/organizations/{}/projects/{}", tenant.organization, tenant.project);
    let (status, answer) = life.request("DELETE", &path, None).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    eventually("the project is gone", async || life.store.get(tenant.project.key()).await.expect("reads").is_none())
        .await;
    assert_eq!(get(&life, network).await.0, StatusCode::NOT_FOUND);
    assert_eq!(get_server(&life, server).await.0, StatusCode::NOT_FOUND);
    assert!(inventory(&life, region).await.is_empty());
    let usage = life.store.usage(tenant.organization).await.expect("reads");
    assert!(usage.iter().all(|usage| usage.used == Amount::default()), "{usage:?}");
    assert!(life.store.allocations().await.expect("reads").is_empty());
    assert!(life.store.claims().await.expect("reads").is_empty());
}

pub async fn verb(life: &Life, estate: &Estate, verb: &str) -> StatusCode {
    life.request("POST", &format!("/api/v2/servers/{}/{verb}", estate.server), None).await.0
}

#[tokio::test(start_paused = true)]
async fn verbs_are_carried_out_and_refused_by_the_state_of_the_server() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    assert_eq!(verb(&life, &estate, "stop").await, StatusCode::ACCEPTED);
    assert_eq!(power_state(&life, estate.server).await, "Stopping");
    eventually("stopped", async || power_state(&life, estate.server).await == "Stopped").await;
    assert_eq!(
        server_status(&life, estate.server).await,
        "provisioned",
        "a stopped server is still what was asked for"
    );
    assert_eq!(verb(&life, &estate, "softreboot").await, StatusCode::BAD_REQUEST);
    assert_eq!(verb(&life, &estate, "start").await, StatusCode::ACCEPTED);
    running(&life, estate.server).await;
    assert_eq!(verb(&life, &estate, "hardreboot").await, StatusCode::ACCEPTED);
    running(&life, estate.server).await;
    let (status, console) =
        life.request("GET", &format!("/api/v2/servers/{}/consolesessions", estate.server), None).await;
    assert_eq!(status, StatusCode::OK, "{console}");
    let url = console["url"].as_str().expect("an address");
    let filter = regent::store::Filter::of(Kind::Operation);
    for record in life.store.list(&filter, regent::store::Page::FIRST).await.expect("reads") {
        assert!(!record.detail.text().contains(url), "a console's address rests sealed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reboot_of_a_stopped_server_is_watched_until_it_runs() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    assert_eq!(verb(&life, &estate, "stop").await, StatusCode::ACCEPTED);
    eventually("stopped", async || power_state(&life, estate.server).await == "Stopped").await;
    assert_eq!(verb(&life, &estate, "hardreboot").await, StatusCode::ACCEPTED);
    let asked = tokio::time::Instant::now();
    running(&life, estate.server).await;
    assert!(asked.elapsed().as_secs() < 10, "it did not take the look at everything, once a minute");
}

#[tokio::test(start_paused = true)]
async fn b26_a_server_that_vanished_is_shown_and_made_again() {
    let (world, life) = world().await;
    let Estate { region, server, .. } = estate(&world, &life).await;
    let object = inventory(&life, region).await.servers.remove(0).id;
    let handle = life.clouds.handle(region).expect("simulated");
    handle.change_directly(BackdoorChange::Delete { id: object.clone() }).await.expect("deletes");
    let mut shown = false;
    eventually("made again", async || {
        let (_, answer) = get_server(&life, server).await;
        shown |= answer["metadata"]["healthStatus"] == "degraded";
        inventory(&life, region).await.servers.first().is_some_and(|other| other.id != object)
    })
    .await;
    running(&life, server).await;
    let history = life.store.history(server.key()).await.expect("reads");
    let told = history.iter().any(|transition| transition.reason == Reason::Degraded);
    assert!(shown || told, "that it was missing was said");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_boots_do_not_cost_a_look_each() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let network = create(&world, &life, "crowd", region).await;
    provisioned(&life, network).await;
    let mut servers = Vec::new();
    for number in 0..60 {
        servers.push(create_server(&life, network, &[], &format!("one-of-many-{number}")).await);
    }
    for server in &servers {
        running(&life, *server).await;
    }
    let counters = life.clouds.handle(region).expect("simulated").counters().await.expect("books");
    let looks = counters.operations.get("find-servers").copied().unwrap_or(0);
    // One when it is made, and no more than a few for timers and coincidences: the boots came by list.
    assert!(looks <= 60 * 2, "{looks} looks for 60 servers");
}

/// Runs a life until it ends or dies at its so-many-th point after `act` began; tells whether it died.
fn live_and_die(world: &mut World, cut: u64, act: &impl AsyncFn(&World, &Life, &Estate)) -> (bool, Estate) {
    let runtime = runtime();
    let (died, estate) = runtime.block_on(async {
        let life = world.begin_life().await;
        let estate = estate(world, &life).await;
        let points = std::sync::Arc::clone(&world.points);
        points.arm(Arm { name: None, countdown: cut });
        let died = tokio::select! {
            biased;
            () = points.death() => true,
            () = act(world, &life, &estate) => false,
        };
        world.points.disarm();
        world.clock.life_ends();
        (died, estate)
    });
    (died, estate)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

/// Cuts `act` at every point; after each cut a new life must bring about what `settled` waits for.
pub fn cut_everywhere(
    modes: &[Mode],
    act: impl AsyncFn(&World, &Life, &Estate) + Copy,
    settled: impl AsyncFn(&World, &Life, &Estate) + Copy,
) {
    for &mode in modes {
        for cut in 1.. {
            let mut world = World::new(cut, mode);
            runtime().block_on(world.furnish());
            let (died, estate) = live_and_die(&mut world, cut, &act);
            if !died {
                assert!(cut > 20, "only {cut} points were passed");
                break;
            }
            runtime().block_on(async {
                let life = world.begin_life().await;
                settled(&world, &life, &estate).await;
                world.clock.life_ends();
            });
        }
    }
}

/// Of each server that was ever made, there was never more than one at a time.
pub async fn never_two(life: &Life, estate: &Estate) {
    let books = life.clouds.handle(estate.region).expect("simulated").creations().await.expect("books");
    for creation in &books.creations {
        assert!(creation.count.at_once_max <= 1, "{creation:?}");
    }
}

#[test]
fn a_rebuild_cut_anywhere_is_finished_and_done_once() {
    let ask = async |_: &World, life: &Life, estate: &Estate| {
        let (status, answer) = rebuild(life, estate.server, IMAGE_GPU).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        running(life, estate.server).await;
    };
    cut_everywhere(&[Mode::Atomic, Mode::Saga], ask, async |_, life, estate| {
        // The request may have died with the process: then nothing was asked for, and nothing may have been rebuilt.
        let record = life.store.get(estate.server.key()).await.expect("reads").expect("stored");
        let asked = record.open::<Server>().expect("opens").spec.image;
        running(life, estate.server).await;
        let held = inventory(life, estate.region).await;
        assert_eq!(held.servers.len(), 1);
        let runs_on = serde_json::to_value(&held.servers[0]).expect("json");
        assert!(runs_on.to_string().contains(&asked.to_string()), "it runs on {asked}: {runs_on}");
        let counters = life.clouds.handle(estate.region).expect("simulated").counters().await.expect("books");
        let orders = counters.operations.get("rebuild-server").copied().unwrap_or(0);
        assert_eq!(orders, u64::from(asked == IMAGE_GPU), "a rebuild is ordered once, and when asked for");
        never_two(life, estate).await;
    });
}

#[test]
fn a_creation_that_fails_to_boot_and_is_cut_anywhere_never_makes_two() {
    let ask = async |_: &World, life: &Life, estate: &Estate| {
        let fault = Fault { times: Some(1), ..Fault::always("create-server", Effect::FailedBoot) };
        let handle = life.clouds.handle(estate.region).expect("simulated");
        handle.add_faults(vec![fault]).await.expect("takes faults");
        let server = create_server(life, estate.network, &[estate.group], "unlucky").await;
        running(life, server).await;
    };
    cut_everywhere(&[Mode::Atomic, Mode::Saga], ask, async |world, life, estate| {
        let server = regent::model::ids::ServerId::named(regent::model::ids::NetworkId(estate.network), "unlucky");
        let handle = life.clouds.handle(estate.region).expect("simulated");
        if life.store.get(server.key()).await.expect("reads").is_some() {
            running(life, server).await;
            assert_eq!(inventory(life, estate.region).await.servers.len(), 2);
        }
        handle.clear_faults().await.expect("clears");
        never_two(life, estate).await;
        let _ = world;
    });
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_boots_is_given_up_on_after_three_tries_and_tried_again_when_reset() {
    use regent::supervision::inspection::{Inspection, OperatorVerb};
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let handle = life.clouds.handle(estate.region).expect("simulated");
    handle.add_faults(vec![Fault::always("create-server", Effect::FailedBoot)]).await.expect("takes faults");
    let server = create_server(&life, estate.network, &[estate.group], "doomed").await;
    eventually("given up on", async || server_status(&life, server).await == "error").await;
    let creations = async || {
        let books = handle.creations().await.expect("books");
        let of_server = books.creations.into_iter().filter(|creation| creation.marks.id == server.0);
        of_server.map(|creation| creation.count.created).max().unwrap_or(0)
    };
    assert_eq!(creations().await, 3);
    let history = life.store.history(server.key()).await.expect("reads");
    let retries = history.iter().filter(|transition| transition.reason == Reason::ProviderCreateRetrying).count();
    assert!(retries >= 2, "{history:?}");
    handle.clear_faults().await.expect("clears");
    life.supervision.inspector().verb(server.key(), OperatorVerb::Reset).await.expect("resets");
    running(&life, server).await;
    assert_eq!(creations().await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_never_on_record_is_gone_as_soon_as_the_cloud_says_so() {
    let (world, life) = world().await;
    let estate = estate(&world, &life).await;
    let handle = life.clouds.handle(estate.region).expect("simulated");
    let lost = Fault::always("create-server", Effect::LostAnswer { after_ms: 0 });
    handle.add_faults(vec![lost]).await.expect("takes faults");
    let server = create_server(&life, estate.network, &[], "unnoted").await;
    eventually("made", async || inventory(&life, estate.region).await.servers.len() == 2).await;
    let (status, _) = life.request("DELETE", &format!("/api/v2/servers/{server}"), None).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let asked = tokio::time::Instant::now();
    eventually("gone", async || get_server(&life, server).await.0 == StatusCode::NOT_FOUND).await;
    assert!(asked.elapsed() < regent::actors::Options::default().safety_net / 2, "{:?}", asked.elapsed());
}

#[test]
fn a_reboot_of_unknown_outcome_is_not_repeated() {
    for cut in 1.. {
        let mut world = World::new(cut, Mode::Atomic);
        runtime().block_on(world.furnish());
        let (died, estate) = live_and_die(&mut world, cut, &async |_: &World, life: &Life, estate: &Estate| {
            let path = format!("/api/v2/servers/{}/hardreboot", estate.server);
            assert_eq!(life.request("POST", &path, None).await.0, StatusCode::ACCEPTED);
        });
        runtime().block_on(async {
            let life = world.begin_life().await;
            let open = async || {
                let filter = regent::store::Filter::of(Kind::Operation);
                let records = life.store.list(&filter, regent::store::Page::FIRST).await.expect("reads");
                let detail = |record: &std::sync::Arc<regent::model::record::Record>| {
                    record.detail.read::<regent::model::operation::OperationDetail>().expect("reads")
                };
                records.iter().filter(|record| detail(record).is_open()).count()
            };
            eventually("no verb is left open", async || open().await == 0).await;
            let counters = life.clouds.handle(estate.region).expect("simulated").counters().await.expect("books");
            let reboots = counters.operations.iter().filter(|(word, _)| word.contains("reboot"));
            assert!(reboots.map(|(_, count)| count).sum::<u64>() <= 1, "cut at {cut}");
            world.clock.life_ends();
        });
        if !died {
            assert!(cut > 3);
            break;
        }
    }
}
