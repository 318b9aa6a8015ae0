//! The cloud as a server on the loopback: the same provider, the same outcome, and restarts of the cloud.
//!
//! The server has a runtime of its own, so that dropping it ends every connection, as the end of its process would.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use super::super::super::api::Doors;
use super::super::super::call::{Call, CloudError};
use super::super::super::engine::faults::{CallPattern, Effect};
use super::super::super::engine::settings::EngineSettings;
use super::super::super::objects::ObjectId;
use super::super::super::remote::Remote;
use super::super::super::server::{self, ServerSettings};
use super::super::super::testing::{TemporaryFile, request};
use super::machines::Machines;
use super::*;

struct Server {
    runtime: Runtime,
    address: SocketAddr,
}

impl Server {
    fn start(file: &TemporaryFile, address: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind(address)).expect("a listener");
        let address = listener.local_addr().expect("an address");
        // On the real clock nobody waits for machines.
        let engine =
            EngineSettings { boot_delay: Duration::ZERO, deletion_delay: Duration::ZERO, ..EngineSettings::default() };
        let settings = ServerSettings { engine, ..ServerSettings::default() };
        let cloud = server::open(file.path(), settings).expect("opened");
        let serving = server::serve(listener, cloud, std::future::pending());
        runtime.handle().spawn(serving);
        Self { runtime, address }
    }

    fn remote(&self) -> Remote {
        Remote::new(&format!("http://{}", self.address)).expect("a client")
    }

    fn end(self) {
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

fn client() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn rig(remote: &Remote) -> Rig {
    Rig { remote: Some(Arc::new(remote.clone())), ..Rig::new() }
}

#[test]
fn a_network_made_over_the_wire_outlives_the_restart_of_its_cloud() {
    let file = TemporaryFile::new("server");
    let server = Server::start(&file, "127.0.0.1:0");
    let remote = server.remote();
    let client = client();
    let _entered = client.enter();
    let rig = rig(&remote);
    client.block_on(rig.make());
    let fault = Fault {
        matching: CallPattern::operation("delete-user"),
        ..Fault::once("", Effect::LostAnswer { after_ms: 0 })
    };
    client.block_on(remote.add_faults(vec![fault.clone()])).expect("added");
    let before = client.block_on(remote.inventory()).expect("inventory");
    let creations = client.block_on(remote.creations()).expect("creations");
    assert_eq!(before.networks.len(), 1);
    let address = server.address.to_string();
    server.end();

    let unreachable = client.block_on(rig.converge_network()).expect("alive");
    assert!(matches!(unreachable, Err(crate::providers::ProviderError::Unavailable(_))), "{unreachable:?}");

    let server = Server::start(&file, &address);
    assert_eq!(client.block_on(remote.inventory()), Ok(before));
    assert_eq!(client.block_on(remote.creations()), Ok(creations));
    assert_eq!(client.block_on(remote.faults()), Ok(vec![fault]));
    let mutations = client.block_on(remote.counters()).expect("counters").mutations;
    client.block_on(rig.make());
    assert_eq!(client.block_on(remote.counters()).expect("counters").mutations, mutations);

    client.block_on(async {
        retry_now(async || rig.delete_network().await == Some(Ok(Deletion::Absent))).await;
        retry_now(async || rig.delete_identity().await == Some(Ok(Deletion::Absent))).await;
    });
    assert!(client.block_on(remote.inventory()).expect("inventory").is_empty());
    assert!(client.block_on(remote.faults()).expect("faults").is_empty(), "the kept fault was met");
    server.end();
}

#[test]
fn a_server_made_over_the_wire_outlives_the_restart_of_its_cloud() {
    let file = TemporaryFile::new("machines");
    let server = Server::start(&file, "127.0.0.1:0");
    let remote = server.remote();
    let client = client();
    let _entered = client.enter();
    let machines = Machines::on(rig(&remote));
    client.block_on(machines.rig.make());
    client.block_on(machines.make());
    let running = client.block_on(machines.make()).server.expect("a server");
    assert_eq!(running.power, crate::model::server::PowerState::Running);
    let before = client.block_on(remote.inventory()).expect("inventory");
    let address = server.address.to_string();
    server.end();
    assert_eq!(client.block_on(remote.inventory()), Err(CloudError::Unavailable));

    let server = Server::start(&file, &address);
    assert_eq!(client.block_on(remote.inventory()), Ok(before));
    client.block_on(async {
        let mutations = remote.counters().await.expect("counters").mutations;
        assert_eq!(machines.make().await.server, Some(running));
        assert_eq!(remote.counters().await.expect("counters").mutations, mutations);
        let other = super::super::super::catalogue::IMAGE_GPU;
        machines.rebuild(other).await.expect("alive").expect("accepted");
        assert_eq!(machines.make().await.server.expect("a server").image, Some(other));
        let listed = machines.rig.run(async |provider, context| provider.list(context, Kind::Server, None, None).await);
        assert_eq!(listed.await.expect("alive").expect("listed").fact.items.len(), 1);
        retry_now(async || machines.delete_server().await == Some(Ok(Deletion::Absent))).await;
        retry_now(async || machines.delete_group().await == Some(Ok(Deletion::Absent))).await;
        retry_now(async || machines.rig.delete_network().await == Some(Ok(Deletion::Absent))).await;
        retry_now(async || machines.rig.delete_identity().await == Some(Ok(Deletion::Absent))).await;
    });
    assert!(client.block_on(remote.inventory()).expect("inventory").is_empty());
    server.end();
}

/// On the real clock there is nothing to advance: the fault was used up by the first try.
async fn retry_now(mut attempt: impl AsyncFnMut() -> bool) {
    for _ in 0..3 {
        if attempt().await {
            return;
        }
    }
    panic!("did not come to an end");
}

#[test]
fn the_machine_room_is_reached_over_the_wire() {
    let file = TemporaryFile::new("room");
    let server = Server::start(&file, "127.0.0.1:0");
    let remote = server.remote();
    let client = client();
    let _entered = client.enter();
    client.block_on(async {
        let create =
            || request(super::super::super::testing::new_object(1, super::super::super::objects::Body::Project));
        let fault = |effect| vec![Fault::once("create-project", effect)];
        remote.add_faults(fault(Effect::TimeOut { after_ms: 20 })).await.expect("added");
        assert_eq!(remote.call(create()).await, Err(CloudError::TimedOut));
        remote.add_faults(fault(Effect::Error { error: CloudError::Quota })).await.expect("added");
        assert_eq!(remote.call(create()).await, Err(CloudError::Quota));
        remote.add_faults(fault(Effect::Hang)).await.expect("added");
        remote.clear_faults().await.expect("cleared");
        remote.call(create()).await.expect("created");

        let calls = remote.calls(0).await.expect("calls");
        let outcomes: Vec<&str> = calls.iter().map(|call| call.outcome.as_str()).collect();
        assert_eq!(outcomes, ["timed-out", "quota", "ok"]);
        assert_eq!(remote.calls(calls[1].sequence).await.expect("calls").len(), 1);

        let id = remote.inventory().await.expect("inventory").identities[0].id.clone();
        let delete = |id: &ObjectId| BackdoorChange::Delete { id: id.clone() };
        remote.change_directly(delete(&id)).await.expect("deleted");
        assert_eq!(remote.change_directly(delete(&id)).await, Err(CloudError::NotFound));
        let get = request(Call::Get { kind: ObjectKind::Project, id });
        assert_eq!(remote.call(get).await, Err(CloudError::NotFound));
    });
    server.end();
}

#[test]
fn a_cloud_that_is_not_there_is_unavailable() {
    let client = client();
    let _entered = client.enter();
    let closed = client.block_on(TcpListener::bind("127.0.0.1:0")).expect("bound").local_addr().expect("an address");
    let remote = Remote::new(&format!("http://{closed}/")).expect("a client");
    assert_eq!(client.block_on(remote.call(request(Call::ListExternalNetworks))), Err(CloudError::Unavailable));
    assert_eq!(client.block_on(remote.inventory()), Err(CloudError::Unavailable));
}

#[test]
fn a_server_ends_when_it_is_told_to_and_refuses_a_file_that_is_not_its_own() {
    let client = client();
    let file = TemporaryFile::new("ending");
    client.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let cloud = server::open(file.path(), ServerSettings::default()).expect("opened");
        server::serve(listener, cloud, std::future::ready(())).await.expect("ended");
        std::fs::write(file.path(), "hello\n").expect("written");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        server::run(any, file.path(), ServerSettings::default()).await.expect_err("refused");
    });
}

#[test]
fn the_settings_decide_which_cloud_is_reached() {
    let file = TemporaryFile::new("doors");
    let server = Server::start(&file, "127.0.0.1:0");
    let client = client();
    let _entered = client.enter();
    let local = cloud();
    let uninterrupted: Arc<dyn crate::model::ambient::Interrupt> = Arc::new(crate::model::ambient::Uninterrupted);
    for endpoint in [None, Some(format!("http://{}", server.address))] {
        let settings = SimulatedSettings { endpoint: endpoint.clone(), ..SimulatedSettings::default() };
        let doors = Doors::of(&settings, &local, &ambient(), &uninterrupted).expect("doors");
        let create = super::super::super::testing::new_object(1, super::super::super::objects::Body::Project);
        client.block_on(doors.api.call(request(create))).expect("created");
        let seen = client.block_on(doors.handle.inventory()).expect("inventory").identities.len();
        assert_eq!(seen, 1, "{endpoint:?}");
    }
    assert_eq!(client.block_on(server.remote().inventory()).expect("inventory").identities.len(), 1);
    server.end();
}
