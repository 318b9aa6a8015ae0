//! What changes in the cloud behind our back is noticed, shown and healed, at a cost that grows with pages.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use regent::model::condition::{Axis, Reason, Truth};
use regent::model::identity::IdentityDetail;
use regent::model::ids::{Kind, RegionId};
use regent::model::region::RegionSpec;
use regent::providers::simulated::engine::backdoor::BackdoorChange;
use regent::providers::types::ExternalNetwork;
use regent::providers::{
    CallContext, Deletion, IdentityRequest, Listed, Listing, NetworkFact, NetworkRequest, Observed, Provider,
    ProviderResult,
};
use regent::store::memory::{MemoryDisk, Mode};
use regent::supervision::inspection::{Inspection, OrphanPage};
use regent::supervision::regions::{CloudFactory, Equipment};
use uuid::Uuid;

use super::{create, eventually, key, provisioned, world};
use crate::support::world::World;

#[tokio::test(start_paused = true)]
async fn an_object_that_vanished_is_reported_within_one_poll_and_made_again() {
    let (world, life) = world().await;
    let region = world.regions()[0];
    let handle = life.clouds.handle(region).expect("simulated");
    let id = create(&world, &life, "vanishing", region).await;
    provisioned(&life, id).await;
    // The monitor has seen it at least once.
    tokio::time::sleep(world.options.poll_settled * 2).await;

    let object = handle.inventory().await.expect("books").networks[0].id.clone();
    handle.change_directly(BackdoorChange::Delete { id: object }).await.expect("deletes");
    let vanished = tokio::time::Instant::now();
    let mut reported = None;
    eventually("reported", async || {
        let history = life.store.history(key(id)).await.expect("reads");
        let is_report =
            |axis, status, reason| (axis, status, reason) == (Axis::Healthy, Truth::False, Reason::Degraded);
        if history.iter().any(|entry| is_report(entry.axis, entry.status, entry.reason)) {
            reported = Some(vanished.elapsed());
        }
        reported.is_some()
    })
    .await;
    let after = reported.expect("reported");
    assert!(after <= world.options.poll_settled + Duration::from_secs(1), "reported only after {after:?}");
    eventually("made again", async || handle.inventory().await.expect("books").networks.len() == 1).await;
    provisioned(&life, id).await;
}

#[tokio::test(start_paused = true)]
async fn b26_a_poll_of_n_networks_costs_one_read_per_thousand() {
    const NETWORKS: usize = 2100;
    let (world, life) = world().await;
    // The region without VLANs: there are only four thousand of those.
    let region = world.regions()[1];
    let handle = life.clouds.handle(region).expect("simulated");
    let mut ids = Vec::new();
    for number in 0..NETWORKS {
        ids.push(create(&world, &life, &format!("n{number}"), region).await);
    }
    for id in &ids {
        provisioned(&life, *id).await;
    }
    let listed = async || *handle.counters().await.expect("books").operations.get("list-networks").unwrap_or(&0);
    tokio::time::sleep(world.options.poll_settled * 2).await;
    let before = listed().await;
    tokio::time::sleep(world.options.poll_settled * 10).await;
    let polls_and_pages = listed().await - before;
    let per_poll = NETWORKS.div_ceil(1000) as u64;
    // Ten periods hold nine to ten polls, depending on where in a period they begin.
    assert!((9 * per_poll..=10 * per_poll).contains(&polls_and_pages), "{polls_and_pages} reads in ten polls");

    let victim = handle.inventory().await.expect("books").networks[NETWORKS / 2].clone();
    let id = victim.marks.expect("ours").id;
    handle.change_directly(BackdoorChange::Delete { id: victim.id }).await.expect("deletes");
    eventually("reported", async || {
        let history = life.store.history(key(id)).await.expect("reads");
        history.iter().any(|entry| entry.reason == Reason::Degraded)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_no_record_owns_is_shown_after_two_looks_and_left_alone() {
    let (mut world, life) = world().await;
    // The region without VLANs: those of the lost network would be claimed again, and be taken.
    let region = world.regions()[1];
    let lost = create(&world, &life, "lost", region).await;
    provisioned(&life, lost).await;
    life.supervision.stop(Duration::from_secs(1)).await;
    // A backup from before is restored.
    world.disk = MemoryDisk::new();
    world.furnish().await;
    let life = world.begin_life().await;
    let kept = create(&world, &life, "kept", region).await;
    provisioned(&life, kept).await;
    let inspector = life.supervision.inspector();
    let orphans = async || inspector.orphans(OrphanPage { region: None, after: None, limit: 10 }).await;
    let began = tokio::time::Instant::now();
    eventually("shown", async || !orphans().await.is_empty()).await;
    assert!(began.elapsed() > world.options.poll_settled / 2, "one look proves nothing");
    let [orphan] = orphans().await.try_into().expect("one");
    assert_eq!((orphan.region, orphan.kind, orphan.id), (region, Kind::Network, lost));
    assert_eq!(orphan.why, "no-record");

    let handle = life.clouds.handle(region).expect("simulated");
    tokio::time::sleep(world.options.poll_settled * 5).await;
    let networks = handle.inventory().await.expect("books").networks;
    assert_eq!(networks.len(), 2, "it is left alone");
    let is_lost = |id: Option<Uuid>| id == Some(lost);
    let object = networks.into_iter().find(|network| is_lost(network.marks.map(|marks| marks.id))).expect("there");
    handle.change_directly(BackdoorChange::Delete { id: object.id }).await.expect("deletes");
    eventually("forgotten", async || orphans().await.is_empty()).await;
    provisioned(&life, kept).await;
}

/// Clouds whose lists show nothing, and say that this means nothing.
struct Discreet(Arc<dyn CloudFactory>);

struct DiscreetProvider(Arc<dyn Provider>);

impl CloudFactory for Discreet {
    fn equip(&self, region: RegionId, spec: &RegionSpec) -> Result<Equipment, String> {
        let equipment = self.0.equip(region, spec)?;
        Ok(Equipment { provider: Arc::new(DiscreetProvider(equipment.provider)), services: equipment.services })
    }
}

#[async_trait]
impl Provider for DiscreetProvider {
    fn region(&self) -> RegionId {
        self.0.region()
    }

    async fn external_networks(&self, context: &CallContext<'_>) -> ProviderResult<Vec<ExternalNetwork>> {
        self.0.external_networks(context).await
    }

    async fn converge_identity(
        &self,
        context: &CallContext<'_>,
        request: &IdentityRequest,
    ) -> ProviderResult<Observed<IdentityDetail>> {
        self.0.converge_identity(context, request).await
    }

    async fn delete_identity(&self, context: &CallContext<'_>, request: &IdentityRequest) -> ProviderResult<Deletion> {
        self.0.delete_identity(context, request).await
    }

    async fn converge_network(
        &self,
        context: &CallContext<'_>,
        request: &NetworkRequest,
    ) -> ProviderResult<Observed<NetworkFact>> {
        self.0.converge_network(context, request).await
    }

    async fn delete_network(&self, context: &CallContext<'_>, request: &NetworkRequest) -> ProviderResult<Deletion> {
        self.0.delete_network(context, request).await
    }

    async fn list(
        &self,
        context: &CallContext<'_>,
        kind: Kind,
        only: Option<&[Uuid]>,
        after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>> {
        let mut page = self.0.list(context, kind, only, after).await?;
        page.fact.unsure.extend(page.fact.items.drain(..).map(|listed| listed.key.id));
        Ok(page)
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_list_says_nothing_of_is_not_missed() {
    let mut world = World::new(1, Mode::Atomic);
    world.furnish().await;
    let life = world.begin_life_with(|clouds| Arc::new(Discreet(clouds))).await;
    let id = create(&world, &life, "quiet", world.regions()[0]).await;
    provisioned(&life, id).await;
    let passes = life.store.history(key(id)).await.expect("reads").len();
    tokio::time::sleep(world.options.poll_settled * 3).await;
    let history = life.store.history(key(id)).await.expect("reads");
    assert_eq!(history.len(), passes, "nothing was said: {history:?}");
}
