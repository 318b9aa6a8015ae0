//! Every fault at every call about a load balancer: what is wanted comes about all the same, once.

use super::super::super::call::CloudError;
use super::super::super::engine::SimulatedCloud;
use super::super::super::engine::faults::Effect;
use super::balancers::{Balancers, listener};
use super::faults::{assert_met, effects};
use super::*;
use crate::model::load_balancer::LoadBalancerDetail;

const CREATING: [&str; 9] = [
    "find-load-balancers",
    "find-ports",
    "find-networks",
    "find-floating-ips",
    "list-external-networks",
    "get-load-balancer",
    "create-port",
    "create-floating-ip",
    "create-load-balancer",
];
const CHANGING: [&str; 7] =
    ["add-pool", "remove-pool", "replace-members", "set-monitor", "add-listener", "update-listener", "remove-listener"];
const DELETING: [&str; 3] = ["delete-load-balancer", "delete-floating-ip", "delete-port"];

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_call_of_a_balancer_is_overcome_without_doubles() {
    for operation in CREATING {
        for effect in effects().into_iter().chain([Effect::FailedBoot]) {
            let balancers = Balancers::new().await;
            let fault = Fault::once(operation, effect);
            balancers.rig.faults(vec![fault.clone()]).await;
            balancers.make_persistently().await;
            assert_met(&balancers.rig, &fault).await;
            balancers.assert_exactly_what_was_asked_for(&format!("{fault:?}")).await;
            balancers.unmake_persistently().await;
            balancers.assert_nothing_left(&format!("{fault:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_change_of_a_balancer_is_overcome() {
    for operation in CHANGING {
        for effect in effects() {
            let mut balancers = Balancers::made().await;
            // Every change there is: one goes with its pool, one comes whole, one is changed.
            balancers.spec.listeners = vec![listener("tls", 443), listener("plain", 80)];
            balancers.spec.listeners[0].idle_timeout_seconds = Some(7);
            let fault = Fault::once(operation, effect);
            balancers.rig.faults(vec![fault.clone()]).await;
            balancers.make_persistently().await;
            assert_met(&balancers.rig, &fault).await;
            balancers.assert_exactly_what_was_asked_for(&format!("{fault:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_call_of_the_end_of_a_balancer_is_overcome_without_remains() {
    for operation in DELETING.into_iter().chain(["find-load-balancers", "find-ports", "find-floating-ips"]) {
        for effect in effects() {
            let balancers = Balancers::made().await;
            let fault = Fault::once(operation, effect);
            balancers.rig.faults(vec![fault.clone()]).await;
            balancers.unmake_persistently().await;
            assert_met(&balancers.rig, &fault).await;
            balancers.assert_nothing_left(&format!("{fault:?}")).await;
        }
    }
}

/// Seeded: each run has another mixture, and the seed is in the message of a failure.
#[tokio::test(start_paused = true)]
async fn a_cloud_that_fails_at_random_gets_its_balancer_all_the_same() {
    for seed in 0..40 {
        let rig = Rig::new();
        *rig.kept.lock().expect("lock") = Kept { cloud: SimulatedCloud::new(seed), journal: None };
        rig.make().await;
        let balancers = Balancers::on(rig);
        let faults = effects().into_iter().chain([Effect::FailedBoot]).map(|effect| {
            // A look at an id that wrongly says "gone" is a cloud that lies; no client can see through it.
            let lies = effect == Effect::Error { error: CloudError::NotFound };
            let operation = if lies { "find-*" } else { "*" };
            Fault { probability: Some(0.08), times: Some(2), ..Fault::always(operation, effect) }
        });
        balancers.rig.faults(faults.collect()).await;
        let mut tries = 0;
        while balancers.pass().await.expect("alive") != Ok(true) {
            tries += 1;
            assert!(tries < 100, "seed {seed}");
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
        }
        balancers.assert_exactly_what_was_asked_for(&format!("seed {seed}")).await;
        balancers.rig.handle().clear_faults().await.expect("cleared");
        balancers.unmake_persistently().await;
        balancers.assert_nothing_left(&format!("seed {seed}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn b1_a_search_for_a_balancer_that_fails_is_never_taken_for_nothing_found() {
    for error in [CloudError::NotFound, CloudError::Unavailable, CloudError::TimedOut, CloudError::Unauthorized] {
        let balancers = Balancers::made().await;
        balancers.rig.written.lock().expect("lock").balancer = LoadBalancerDetail::default();
        balancers.rig.faults(vec![Fault::always("find-*", Effect::Error { error: error.clone() })]).await;
        let mutations = balancers.rig.mutations().await;
        assert!(balancers.pass().await.expect("alive").is_err());
        assert!(balancers.unpass().await.expect("alive").is_err(), "{error}: not absent, unknown");
        assert_eq!(balancers.rig.mutations().await, mutations);
    }
}
