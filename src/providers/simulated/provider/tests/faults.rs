//! Every fault at every call: what is wanted comes about all the same, once.

use super::super::super::call::CloudError;
use super::super::super::engine::faults::{Effect, PartialForm};
use super::*;
use crate::providers::ProviderError;

const CREATING: [&str; 15] = [
    "find-projects",
    "find-users",
    "find-credentials",
    "get-key-pair",
    "find-networks",
    "find-subnets",
    "find-routers",
    "list-external-networks",
    "create-project",
    "create-user",
    "create-credential",
    "create-key-pair",
    "create-network",
    "create-subnet",
    "create-router",
];
const CONNECTING: &str = "attach-interface";
const DELETING: [&str; 8] = [
    "detach-interface",
    "delete-router",
    "delete-subnet",
    "delete-network",
    "delete-credential",
    "delete-key-pair",
    "delete-user",
    "delete-project",
];

pub fn effects() -> Vec<Effect> {
    let errors = [
        CloudError::NotFound,
        CloudError::Conflict { reason: "so".to_owned() },
        CloudError::Throttled { retry_after_ms: None },
        CloudError::Quota,
        CloudError::Unauthorized,
        CloudError::Unavailable,
        CloudError::TimedOut,
        CloudError::Rejected { reason: "so".to_owned() },
    ];
    let mut effects: Vec<Effect> = errors.into_iter().map(|error| Effect::Error { error }).collect();
    effects.extend([
        Effect::TimeOut { after_ms: 5000 },
        Effect::Hang,
        Effect::Slow { delay_ms: 5000 },
        Effect::Throttle { retry_after_ms: Some(1000) },
        Effect::LostAnswer { after_ms: 0 },
        Effect::LostAnswer { after_ms: 3_600_000 },
        Effect::PartialCreate { form: PartialForm::Errored },
        Effect::PartialCreate { form: PartialForm::Incomplete },
        Effect::StuckCreate { for_ms: Some(3000) },
        Effect::StuckDelete { for_ms: Some(3000) },
    ]);
    effects
}

/// A fault that no call could meet is no test: it must have been used up, unless the call is one that it cannot
/// happen to.
pub async fn assert_met(rig: &Rig, fault: &Fault) {
    let verb = fault.matching.operations[0].split('-').next().expect("a verb");
    let can_be_met = match &fault.effect {
        Effect::PartialCreate { .. } | Effect::StuckCreate { .. } => verb == "create",
        Effect::StuckDelete { .. } => verb == "delete",
        Effect::FailedBoot => {
            ["create-server", "create-load-balancer"].contains(&fault.matching.operations[0].as_str())
        }
        Effect::LostAnswer { .. } => !matches!(verb, "find" | "list" | "get"),
        _ => true,
    };
    assert_eq!(rig.handle().faults().await.expect("faults").is_empty(), can_be_met, "{fault:?}");
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_call_of_a_creation_is_overcome_without_doubles() {
    for operation in CREATING.into_iter().chain([CONNECTING]) {
        for effect in effects() {
            let rig = Rig::new();
            let fault = Fault::once(operation, effect);
            rig.faults(vec![fault.clone()]).await;
            rig.make_persistently().await;
            // Credentials are searched for only once there is a user.
            rig.make_persistently().await;
            assert_met(&rig, &fault).await;
            rig.assert_exactly_what_was_asked_for(&format!("{fault:?}")).await;
            rig.unmake_persistently().await;
            assert!(rig.inventory().await.is_empty(), "{fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_call_of_a_deletion_is_overcome_without_remains() {
    let looking = CREATING.into_iter().filter(|operation| operation.starts_with("find-"));
    for operation in DELETING.into_iter().chain(looking) {
        for effect in effects() {
            let rig = Rig::made().await;
            let fault = Fault::once(operation, effect);
            rig.faults(vec![fault.clone()]).await;
            rig.unmake_persistently().await;
            assert_met(&rig, &fault).await;
            assert!(rig.inventory().await.is_empty(), "{fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn b1_a_search_that_fails_is_never_taken_for_nothing_found() {
    for error in [CloudError::NotFound, CloudError::Unavailable, CloudError::TimedOut, CloudError::Unauthorized] {
        let rig = Rig::made().await;
        // Without a record only the search can show that everything is there.
        *rig.recorded.lock().expect("lock") = NetworkDetail::default();
        rig.faults(vec![Fault::always("find-*", Effect::Error { error: error.clone() })]).await;
        let mutations = rig.mutations().await;
        assert!(rig.converge_identity().await.expect("alive").is_err());
        assert!(rig.converge_network().await.expect("alive").is_err());
        assert!(rig.delete_network().await.expect("alive").is_err(), "{error}: not absent, unknown");
        assert!(rig.delete_identity().await.expect("alive").is_err());
        assert_eq!(rig.mutations().await, mutations);
    }
}

#[tokio::test(start_paused = true)]
async fn something_that_never_finishes_building_is_waited_for_and_not_made_again() {
    for operation in ["create-project", "create-user", "create-network", "create-subnet", "create-router"] {
        let rig = Rig::new();
        let unfinished = Effect::PartialCreate { form: PartialForm::Unfinished };
        rig.faults(vec![Fault::once(operation, unfinished)]).await;
        let attempt = async || match rig.converge_identity().await.expect("alive") {
            Ok(_) => rig.converge_network().await.expect("alive").map(|_| ()),
            Err(error) => Err(error),
        };
        attempt().await.expect_err("the cloud said that it failed");
        let mutations = rig.mutations().await;
        for _ in 0..3 {
            let error = attempt().await.expect_err("still being built");
            assert!(matches!(error, ProviderError::Conflict(_)), "{operation}: {error}");
        }
        assert_eq!(rig.mutations().await, mutations, "{operation}");
        rig.behind_our_back(BackdoorChange::Release { id: None }).await;
        rig.make_persistently().await;
        rig.assert_exactly_what_was_asked_for(operation).await;
    }
}

/// Seeded: each run has another mixture, and the seed is in the message of a failure.
#[tokio::test(start_paused = true)]
async fn a_cloud_that_fails_at_random_gets_there_all_the_same() {
    for seed in 0..60 {
        let rig = Rig::new();
        *rig.kept.lock().expect("lock") =
            Kept { cloud: super::super::super::engine::SimulatedCloud::new(seed), journal: None };
        let chance = |operation: &str, effect| Fault { probability: Some(0.08), ..Fault::always(operation, effect) };
        let faults = effects().into_iter().map(|effect| match effect {
            // A look at an id that wrongly says "gone" is a cloud that lies; no client can see through it.
            Effect::Error { error: CloudError::NotFound } => chance("find-*", effect),
            other => chance("*", other),
        });
        rig.faults(faults.map(|fault| Fault { times: Some(2), ..fault }).collect()).await;
        let settled = async || {
            for _ in 0..100 {
                let made = rig.converge_identity().await.expect("alive").is_ok()
                    && rig.converge_network().await.expect("alive").is_ok();
                if made {
                    return true;
                }
                tokio::time::advance(std::time::Duration::from_secs(1)).await;
            }
            false
        };
        assert!(settled().await, "seed {seed}");
        rig.assert_exactly_what_was_asked_for(&format!("seed {seed}")).await;
        rig.handle().clear_faults().await.expect("cleared");
        rig.unmake_persistently().await;
        assert!(rig.inventory().await.is_empty(), "seed {seed}");
    }
}

/// The proof that the tests above can fail.
#[cfg(feature = "sabotage")]
#[tokio::test(start_paused = true)]
async fn a_provider_that_takes_errors_for_nothing_found_is_caught_by_the_books() {
    use crate::sabotage::{self, Defect};

    let rig = Rig::made().await;
    sabotage::set(Some(Defect::CreateOnAnyLookupError));
    *rig.recorded.lock().expect("lock") = NetworkDetail::default();
    rig.faults(vec![Fault::once("find-routers", Effect::Error { error: CloudError::Unavailable })]).await;
    // What comes of it is beside the point: the double is.
    let _ = rig.converge_network().await;
    sabotage::set(None);
    let creations = rig.handle().creations().await.expect("creations").creations;
    assert!(creations.iter().any(|creation| creation.count.at_once_max == 2));
}
