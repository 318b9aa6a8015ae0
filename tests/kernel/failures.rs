//! A failure is local: one actor restarts, or is given up on in plain sight, and nobody else notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use regent::graph::snapshot::Phase;
use regent::model::identity::IdentityDetail;
use regent::model::ids::{Kind, RegionId};
use regent::model::region::RegionSpec;
use regent::providers::types::ExternalNetwork;
use regent::providers::{
    CallContext, Deletion, IdentityRequest, Listed, Listing, NetworkFact, NetworkRequest, Observed, Provider,
    ProviderResult,
};
use regent::store::memory::Mode;
use regent::supervision::inspection::{Inspection, OperatorVerb};
use regent::supervision::regions::{CloudFactory, Equipment};

use super::{create, eventually, identity_of, key, provisioned, provisioning_status};
use crate::support::world::{Life, World};

/// Clouds whose principals can be made to panic.
struct Explosive {
    clouds: Arc<dyn CloudFactory>,
    /// How many passes over principals will panic.
    charges: Arc<AtomicU32>,
}

struct ExplosiveProvider {
    provider: Arc<dyn Provider>,
    charges: Arc<AtomicU32>,
}

impl CloudFactory for Explosive {
    fn equip(&self, region: RegionId, spec: &RegionSpec) -> Result<Equipment, String> {
        let equipment = self.clouds.equip(region, spec)?;
        let provider = ExplosiveProvider { provider: equipment.provider, charges: Arc::clone(&self.charges) };
        Ok(Equipment { provider: Arc::new(provider), services: equipment.services })
    }
}

#[async_trait]
impl Provider for ExplosiveProvider {
    fn region(&self) -> RegionId {
        self.provider.region()
    }

    async fn external_networks(&self, context: &CallContext<'_>) -> ProviderResult<Vec<ExternalNetwork>> {
        self.provider.external_networks(context).await
    }

    async fn converge_identity(
        &self,
        context: &CallContext<'_>,
        request: &IdentityRequest,
    ) -> ProviderResult<Observed<IdentityDetail>> {
        let lit = self.charges.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |charges| charges.checked_sub(1));
        assert!(lit.is_err(), "a charge went off");
        self.provider.converge_identity(context, request).await
    }

    async fn delete_identity(&self, context: &CallContext<'_>, request: &IdentityRequest) -> ProviderResult<Deletion> {
        self.provider.delete_identity(context, request).await
    }

    async fn converge_network(
        &self,
        context: &CallContext<'_>,
        request: &NetworkRequest,
    ) -> ProviderResult<Observed<NetworkFact>> {
        self.provider.converge_network(context, request).await
    }

    async fn delete_network(&self, context: &CallContext<'_>, request: &NetworkRequest) -> ProviderResult<Deletion> {
        self.provider.delete_network(context, request).await
    }

    async fn list(
        &self,
        context: &CallContext<'_>,
        kind: Kind,
        only: Option<&[uuid::Uuid]>,
        after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>> {
        self.provider.list(context, kind, only, after).await
    }
}

async fn explosive(charges: u32) -> (World, Life, Arc<AtomicU32>) {
    let charges = Arc::new(AtomicU32::new(charges));
    let mut world = World::new(1, Mode::Atomic);
    world.furnish().await;
    let lit = Arc::clone(&charges);
    let life = world.begin_life_with(|clouds| Arc::new(Explosive { clouds, charges: lit })).await;
    (world, life, charges)
}

#[tokio::test(start_paused = true)]
async fn a_panic_restarts_that_one_actor_and_no_other() {
    let (world, life, charges) = explosive(0).await;
    let graph = life.supervision.environment().graph.clone();
    let id = create(&world, &life, "bystander", world.regions()[0]).await;
    provisioned(&life, id).await;
    let identity = identity_of(&life, id).await;
    let lives = |key| graph.node(key).and_then(|node| node.actor()).expect("alive").get_id();
    let (principal, network) = (lives(identity), lives(key(id)));

    charges.store(1, Ordering::SeqCst);
    life.supervision.inspector().verb(identity, OperatorVerb::Reconcile).await.expect("wakes it");
    eventually("restarted", async || graph.node(identity).expect("known").restarts() == 1).await;
    eventually("settled again", async || graph.node(identity).expect("known").snapshot().phase == Phase::Settled).await;
    assert_ne!(lives(identity), principal, "the principal has a new actor");
    assert_eq!(lives(key(id)), network, "its network's actor stayed");
    assert_eq!(provisioning_status(&life, id).await, "provisioned");
}

#[tokio::test(start_paused = true)]
async fn five_panics_in_a_row_quarantine_the_actor_in_plain_sight() {
    let (world, life, charges) = explosive(5).await;
    let graph = life.supervision.environment().graph.clone();
    let id = create(&world, &life, "patient", world.regions()[0]).await;
    let identity = identity_of(&life, id).await;
    eventually("quarantined", async || {
        graph.node(identity).is_some_and(|node| node.snapshot().phase == Phase::Quarantined)
    })
    .await;
    assert_eq!(charges.load(Ordering::SeqCst), 0, "it was tried five times and no more");
    let inspector = life.supervision.inspector();
    let quarantined = inspector.quarantine().await;
    assert_eq!(quarantined.iter().map(|actor| actor.id).collect::<Vec<_>>(), [identity.id]);
    assert!(quarantined[0].reason.contains("a charge went off"), "{quarantined:?}");
    let network = graph.node(key(id)).expect("known");
    assert!(network.actor().is_some() && network.restarts() == 0, "its network's actor stayed");

    inspector.verb(identity, OperatorVerb::Restart).await.expect("restarts");
    provisioned(&life, id).await;
    assert!(inspector.quarantine().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_corrupt_record_is_shown_and_all_others_converge() {
    let mut world = World::new(1, Mode::Atomic);
    world.furnish().await;
    let region = world.regions()[0];
    let (bad, good) = {
        let life = world.begin_life().await;
        let (bad, good) = (create(&world, &life, "bad", region).await, create(&world, &life, "good", region).await);
        provisioned(&life, bad).await;
        life.supervision.stop(std::time::Duration::from_secs(5)).await;
        (bad, good)
    };
    world.disk.corrupt(key(bad));
    let life = world.begin_life().await;
    provisioned(&life, good).await;
    let other = create(&world, &life, "another", region).await;
    provisioned(&life, other).await;
    let quarantined = life.store.quarantined().await.expect("reads");
    assert_eq!(quarantined.iter().map(|record| record.key.id).collect::<Vec<_>>(), [bad]);
}
#[tokio::test(start_paused = true)]
async fn a_principal_that_fails_before_its_network_is_placed_leaves_one_actor_each() {
    let (mut world, life, charges) = explosive(1000).await;
    let id = create(&world, &life, "early", world.regions()[0]).await;
    let identity = identity_of(&life, id).await;
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    life.supervision.stop(std::time::Duration::from_secs(5)).await;
    charges.store(1, Ordering::SeqCst);
    let lit = Arc::clone(&charges);
    let life = world.begin_life_with(|clouds| Arc::new(Explosive { clouds, charges: lit })).await;
    let graph = life.supervision.environment().graph.clone();
    provisioned(&life, id).await;
    let before = graph.node(key(id)).and_then(|node| node.actor()).expect("alive");
    charges.store(1, Ordering::SeqCst);
    life.supervision.inspector().verb(identity, OperatorVerb::Reconcile).await.expect("wakes it");
    eventually("settled again", async || {
        charges.load(Ordering::SeqCst) == 0 && graph.node(identity).expect("known").snapshot().phase == Phase::Settled
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let after = graph.node(key(id)).and_then(|node| node.actor()).expect("alive");
    assert_eq!(before.get_id(), after.get_id(), "old actor is now {:?}", before.get_status());
}

#[tokio::test(start_paused = true)]
async fn restarts_upon_restarts_leave_every_actor_alive_and_able() {
    let (world, life, _) = explosive(0).await;
    let graph = life.supervision.environment().graph.clone();
    let inspector = life.supervision.inspector();
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(create(&world, &life, &format!("n{number}"), world.regions()[0]).await);
    }
    for round in 0..60_u64 {
        for node in graph.nodes() {
            inspector.verb(node.key(), OperatorVerb::Restart).await.expect("restarts");
            let _ = inspector.verb(node.key(), OperatorVerb::Reconcile).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(round % 7)).await;
    }
    for id in &ids {
        provisioned(&life, *id).await;
        let (status, _) = life.request("DELETE", &format!("/api/v2/networks/{id}"), None).await;
        assert_eq!(status, axum::http::StatusCode::ACCEPTED);
    }
    let of_networks = |kind| matches!(kind, Kind::Identity | Kind::Network);
    eventually("all are gone", async || !graph.nodes().iter().any(|node| of_networks(node.key().kind))).await;
}
