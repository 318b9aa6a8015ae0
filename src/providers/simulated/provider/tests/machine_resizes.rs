//! Another flavor for a server: what the provider orders, what is seen of it, and what it survives.

use std::time::Duration;

use super::super::super::catalogue::{FLAVOR_LARGE, FLAVOR_METAL, FLAVOR_STANDARD, IMAGE_GPU};
use super::super::super::engine::faults::Effect;
use super::super::super::objects::ServerBody;
use super::faults::{assert_met, effects};
use super::machine_crashes::die_everywhere;
use super::machines::{Machines, pass};
use super::*;
use crate::model::ids::FlavorId;
use crate::model::resize::{self, Resize, ResizeState, ResizeStep, ResizeView};
use crate::model::server::{CloudServerStatus, PowerState, ServerPhase, ServerSighting};
use crate::providers::{PowerAction, ProviderError, ServerFact};

const ORDERS: [&str; 2] = ["resize-server", "confirm-resize"];

async fn body(machines: &Machines) -> ServerBody {
    machines.server().await.server().expect("a server").clone()
}

/// What the cloud has done, whatever was told of it.
async fn done(machines: &Machines, operation: &str) -> usize {
    let calls = machines.rig.handle().calls(0).await.expect("a log");
    calls.iter().filter(|call| call.operation == operation && call.applied).count()
}

/// Resized, and waiting to be confirmed.
async fn resized() -> Machines {
    let machines = Machines::running().await;
    machines.resize(FLAVOR_LARGE).await.expect("alive").expect("accepted");
    pass(Duration::from_secs(2)).await;
    machines
}

#[tokio::test(start_paused = true)]
async fn a_resize_is_seen_at_work_then_waiting_then_done_and_changes_nothing_else() {
    for stopped in [false, true] {
        let machines = Machines::running().await;
        if stopped {
            machines.act(PowerAction::Stop).await.expect("accepted");
            machines.booted().await;
        }
        let before = machines.make().await;
        assert!(matches!(machines.confirm_resize().await, Some(Err(ProviderError::Conflict(_)))), "nothing waits");
        machines.resize(FLAVOR_LARGE).await.expect("alive").expect("accepted");
        let mut prints = vec![before.fingerprint];
        let mut see = async |status| {
            let seen: ServerFact = machines.make().await;
            assert!(!prints.contains(&seen.fingerprint), "{status:?} is news");
            prints.push(seen.fingerprint);
            assert_eq!(seen.configuration, before.configuration);
            let server: ServerSighting = seen.server.expect("a server");
            assert_eq!((server.status, server.flavor), (status, Some(FLAVOR_LARGE)));
            server
        };
        let during = see(CloudServerStatus::Resize).await;
        assert_eq!(during.phase(ServerPhase::Running), ServerPhase::Resizing);
        assert!(matches!(machines.resize(FLAVOR_STANDARD).await, Some(Err(ProviderError::Conflict(_)))));
        pass(Duration::from_secs(2)).await;
        let waiting = see(CloudServerStatus::VerifyResize).await;
        assert!(waiting.is_busy() && !waiting.is_at_work());
        assert!(matches!(machines.rebuild(IMAGE_GPU).await, Some(Err(ProviderError::Conflict(_)))), "it waits");
        machines.confirm_resize().await.expect("alive").expect("confirmed");
        let (status, power) = if stopped {
            (CloudServerStatus::Stopped, PowerState::Shutdown)
        } else {
            (CloudServerStatus::Active, PowerState::Running)
        };
        let after = see(status).await;
        let made = before.server.expect("a server");
        assert_eq!((after.id, after.image, after.power), (made.id, made.image, power));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_will_not_says_so() {
    let machines = Machines::made().await;
    assert!(matches!(machines.resize(FLAVOR_LARGE).await, Some(Err(ProviderError::Conflict(_)))), "it is being built");
    machines.booted().await;
    for wrong in [FLAVOR_STANDARD, FLAVOR_METAL, FlavorId(Uuid::nil())] {
        let error = machines.resize(wrong).await.expect("alive").expect_err("refused");
        assert!(matches!(error, ProviderError::Rejected(_)), "{error}");
    }
    machines.unmake_persistently().await;
    assert_eq!(machines.resize(FLAVOR_LARGE).await, Some(Err(ProviderError::NotFound)));
    assert_eq!(machines.confirm_resize().await, Some(Err(ProviderError::NotFound)));
}

#[tokio::test(start_paused = true)]
async fn a_resize_cut_short_anywhere_has_happened_once_or_not_at_all() {
    let order = async |machines: &Machines| machines.resize(FLAVOR_LARGE).await.map(|result| result.expect("ordered"));
    die_everywhere(Machines::running, order, async |machines: &Machines, said: &str| {
        let accepted = machines.task().await.is_some();
        assert_eq!(body(machines).await.flavor == FLAVOR_LARGE, accepted, "{said}");
        // What is under way refuses a second order.
        assert_eq!(machines.resize(FLAVOR_LARGE).await.expect("alive").is_err(), accepted, "{said}");
        assert_eq!(done(machines, "resize-server").await, 1, "{said}");
        machines.assert_exactly_what_was_asked_for(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_cut_short_anywhere_has_happened_once_or_not_at_all() {
    let order = async |machines: &Machines| machines.confirm_resize().await.map(|result| result.expect("ordered"));
    die_everywhere(resized, order, async |machines: &Machines, said: &str| {
        let accepted = !body(machines).await.life.awaits_confirmation;
        assert_eq!(machines.confirm_resize().await.expect("alive").is_err(), accepted, "{said}");
        assert_eq!(done(machines, "confirm-resize").await, 1, "{said}");
        assert_eq!(body(machines).await.flavor, FLAVOR_LARGE, "{said}");
        machines.assert_exactly_what_was_asked_for(said).await;
    })
    .await;
}

/// An actor in little: looks, decides, notes, orders.
struct Follower<'a> {
    machines: &'a Machines,
    marker: Option<Resize>,
    desired: FlavorId,
    realised: FlavorId,
}

impl Follower<'_> {
    async fn attempt(&mut self) -> bool {
        let Ok(ServerFact { server: Some(server), .. }) = self.machines.converge_server().await.expect("alive") else {
            return false;
        };
        let step = resize::next(&ResizeView {
            marker: self.marker,
            desired: self.desired,
            realised: Some(self.realised),
            seen: server.flavor,
            launched: server.launched.is_some(),
            errored: server.status == CloudServerStatus::Error,
            busy: server.is_at_work(),
            unconfirmed: server.status == CloudServerStatus::VerifyResize,
        });
        match step {
            ResizeStep::Nothing => return true,
            ResizeStep::Note(noted) => self.marker = Some(noted),
            ResizeStep::Submit => {
                let state = match self.machines.resize(self.desired).await.expect("alive") {
                    Ok(()) => ResizeState::Resizing,
                    Err(ProviderError::Rejected(_)) => ResizeState::Failed,
                    Err(_) => return false,
                };
                self.marker = Some(Resize { target: self.desired, state });
            }
            // What came of it is seen at the next look.
            ResizeStep::Confirm => drop(self.machines.confirm_resize().await.expect("alive")),
            ResizeStep::Wait => {}
            ResizeStep::Settled(flavor) => (self.marker, self.realised) = (None, flavor),
            // Its user asks for what it is on, and then for the other flavor again.
            ResizeStep::Failed => {
                let marker = self.marker;
                let parked = ResizeView { marker, ..view_of(&server, self.realised) };
                assert_eq!(resize::next(&parked), ResizeStep::Settled(self.realised));
                self.marker = None;
            }
        }
        false
    }
}

/// Of a quiet server whose user asks for `flavor`.
fn view_of(server: &ServerSighting, flavor: FlavorId) -> ResizeView {
    ResizeView {
        marker: None,
        desired: flavor,
        realised: Some(flavor),
        seen: server.flavor,
        launched: true,
        errored: false,
        busy: false,
        unconfirmed: false,
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_call_of_a_resize_is_overcome_and_no_order_is_carried_out_twice() {
    let looks = ["find-servers", "find-ports", "find-floating-ips"];
    for operation in ORDERS.into_iter().chain(looks) {
        for effect in effects() {
            let machines = Machines::running().await;
            let fault = Fault::once(operation, effect);
            machines.rig.faults(vec![fault.clone()]).await;
            let (desired, realised) = (FLAVOR_LARGE, FLAVOR_STANDARD);
            let mut follower = Follower { machines: &machines, marker: None, desired, realised };
            retry(async || follower.attempt().await).await;
            assert_met(&machines.rig, &fault).await;
            assert_eq!(body(&machines).await.flavor, FLAVOR_LARGE, "{fault:?}");
            for order in ORDERS {
                assert_eq!(done(&machines, order).await, 1, "{order} with {fault:?}");
            }
            machines.assert_exactly_what_was_asked_for(&format!("{fault:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_fails_ends_in_error_on_the_flavor_that_was_ordered() {
    let machines = Machines::running().await;
    machines.rig.faults(vec![Fault::once("resize-server", Effect::FailedResize)]).await;
    machines.resize(FLAVOR_LARGE).await.expect("alive").expect("accepted");
    let failed = machines.booted().await.server.expect("a server");
    assert_eq!((failed.status, failed.flavor), (CloudServerStatus::Error, Some(FLAVOR_LARGE)));
    assert!(matches!(machines.resize(FLAVOR_STANDARD).await, Some(Err(ProviderError::Conflict(_)))), "it has failed");
    machines.act(PowerAction::HardReboot).await.expect("accepted");
    machines.booted().await;
    machines.resize(FLAVOR_STANDARD).await.expect("alive").expect("accepted");
}

#[tokio::test(start_paused = true)]
async fn a_flavor_changed_behind_our_back_is_seen_and_left_as_it_is() {
    let machines = Machines::running().await;
    let (before, mutations) = (machines.make().await, machines.rig.mutations().await);
    let server = machines.server().await.id;
    machines.rig.behind_our_back(BackdoorChange::SetFlavor { server, flavor: FLAVOR_LARGE }).await;
    let seen = machines.make().await;
    assert_ne!(seen.fingerprint, before.fingerprint);
    assert_eq!(seen.server.expect("a server").flavor, Some(FLAVOR_LARGE));
    assert_eq!(machines.rig.mutations().await, mutations);
}
