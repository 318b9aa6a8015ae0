//! Shares and their attachments: what is made, what is survived, what is never doubled.

use std::net::Ipv4Addr;

use super::super::super::call::CloudError;
use super::super::super::catalogue::{FILES_PRIVATE, FILES_STANDARD};
use super::super::super::engine::faults::Effect;
use super::super::super::objects::{CloudObject, NewObject, ObjectState};
use super::faults::{assert_met, effects};
use super::*;
use crate::model::file_storage::{
    Attachment, FileStorageDetail, FileStorageSpec, GIB, NfsOptions, PartState, fingerprint, system_policy,
};
use crate::model::ids::FileStorageId;
use crate::model::network::AddressRange;
use crate::providers::file_storage::{FileStorageFact, FileStorageProvisioner, FileStorageRequest, Look};
use crate::providers::{Listed, ProviderError, call::Fact};

const STORAGE: u128 = 50;

/// A rig whose network is made; the share is what is tested.
struct Shares {
    rig: Rig,
    spec: FileStorageSpec,
    recorded: Mutex<FileStorageDetail>,
    generation: u64,
}

fn attachment(last: u8) -> Attachment {
    let start = Ipv4Addr::new(192, 168, 0, 16);
    let addresses = AddressRange { start, end: Ipv4Addr::new(192, 168, 0, last) };
    Attachment { network: NetworkId(Uuid::from_u128(NETWORK)), addresses, vlan: None }
}

impl Shares {
    async fn new() -> Self {
        let spec = FileStorageSpec {
            class: FILES_STANDARD,
            size_gib: 10,
            nfs: Some(NfsOptions { root_squash: false }),
            attachments: Some(vec![attachment(19)]),
            default_snapshot_protection: true,
            snapshot_policies: None,
        };
        Self { rig: Rig::made().await, spec, recorded: Mutex::default(), generation: 1 }
    }

    async fn made() -> Self {
        let shares = Self::new().await;
        shares.make_persistently().await;
        shares
    }

    fn request(&self) -> FileStorageRequest {
        FileStorageRequest {
            id: FileStorageId(Uuid::from_u128(STORAGE)),
            incarnation: self.rig.incarnation,
            generation: self.generation,
            organization: OrganizationId(Uuid::from_u128(3)),
            project: ProjectId(Uuid::from_u128(4)),
            ready: self.spec.attachments().iter().map(|attachment| attachment.network).collect(),
            spec: self.spec.clone(),
            detail: self.recorded.lock().expect("lock").clone(),
        }
    }

    /// Puts on record what an actor would.
    async fn converge(&self) -> Option<ProviderResult<FileStorageFact>> {
        let request = self.request();
        let work =
            async |provider: &SimulatedProvider, context: &CallContext<'_>| provider.converge(context, &request).await;
        let result = self.rig.run_about(Kind::FileStorage, work).await?.map(|observed| observed.fact);
        if let Ok(fact) = &result {
            let mut recorded = self.recorded.lock().expect("lock");
            recorded.share = Some(fact.share.clone());
            recorded.attachments.clone_from(&fact.attachments);
            if let Look::Converged(generation) = fact.look {
                recorded.converged = generation;
            }
        }
        Some(result)
    }

    /// One try, as an actor makes it; tells whether everything is there and nothing else.
    async fn attempt(&self) -> Option<bool> {
        let Ok(fact) = self.converge().await? else { return Some(false) };
        let active = fact.attachments.iter().all(|attachment| attachment.state == PartState::Active);
        let complete = fact.attachments.len() == self.spec.attachments().len();
        Some(fact.look == Look::Converged(self.generation) && active && complete)
    }

    async fn make_persistently(&self) {
        retry(async || self.attempt().await.expect("alive")).await;
    }

    async fn delete(&self) -> Option<ProviderResult<Deletion>> {
        let request = self.request();
        let work = async |provider: &SimulatedProvider, context: &CallContext<'_>| {
            FileStorageProvisioner::delete(provider, context, &request).await
        };
        self.rig.run_about(Kind::FileStorage, work).await
    }

    async fn unmake_persistently(&self) {
        retry(async || self.delete().await.expect("alive") == Ok(Deletion::Absent)).await;
    }

    async fn listed(&self) -> Vec<Listed> {
        let work = async |provider: &SimulatedProvider, context: &CallContext<'_>| {
            FileStorageProvisioner::list(provider, context, None, None).await
        };
        self.rig.run(work).await.expect("alive").expect("listed").fact.items
    }

    async fn share(&self) -> CloudObject {
        self.rig.inventory().await.shares.first().expect("a share").clone()
    }

    async fn assert_exactly_what_was_asked_for(&self, said: &str) {
        let inventory = self.rig.inventory().await;
        assert_eq!((inventory.shares.len(), inventory.share_attachments.len()), (1, 1), "{said}");
        let options = &inventory.shares[0].share().expect("a share").options;
        assert_eq!((options.size_bytes, options.root_squash), (10 * GIB, false), "{said}");
        assert_eq!(options.policies, [system_policy()], "{said}");
        let attachment = inventory.share_attachments[0].share_attachment().expect("an attachment");
        assert_eq!(attachment.addresses, self.spec.attachments()[0].addresses, "{said}");
        assert_eq!(attachment.network, inventory.networks[0].id, "{said}");
        self.rig.assert_no_doubles(said).await;
    }

    async fn assert_nothing_left(&self, said: &str) {
        let inventory = self.rig.inventory().await;
        assert!(inventory.shares.is_empty() && inventory.share_attachments.is_empty(), "{said}");
        assert_eq!(inventory.networks.len(), 1, "{said}");
    }
}

const CREATING: [&str; 5] =
    ["find-shares", "find-share-attachments", "find-networks", "create-share", "create-share-attachment"];
const DELETING: [&str; 4] = ["find-shares", "find-share-attachments", "delete-share", "delete-share-attachment"];

#[tokio::test(start_paused = true)]
async fn a_share_is_made_attached_changed_and_unmade() {
    let mut shares = Shares::new().await;
    let fact = shares.converge().await.expect("alive").expect("converged");
    assert_eq!((fact.state, fact.look), (PartState::Building, Look::Converging));
    shares.make_persistently().await;
    shares.assert_exactly_what_was_asked_for("made").await;
    let mutations = shares.rig.mutations().await;
    let fact = shares.converge().await.expect("alive").expect("converged");
    assert_eq!(shares.rig.mutations().await, mutations, "a second convergence changes nothing");
    assert_eq!(fact.mount_path, Some(format!("/exports/share-{}", Uuid::from_u128(STORAGE))));

    let before = shares.share().await.id;
    shares.spec.size_gib = 20;
    shares.spec.nfs = None;
    shares.spec.default_snapshot_protection = false;
    shares.make_persistently().await;
    let share = shares.share().await;
    let options = &share.share().expect("a share").options;
    assert_eq!((options.size_bytes, options.root_squash, options.policies.len()), (20 * GIB, true, 0));
    assert_eq!(share.id, before);
    shares.unmake_persistently().await;
    shares.assert_nothing_left("unmade").await;
}

#[tokio::test(start_paused = true)]
async fn an_attachment_to_other_addresses_takes_the_place_of_the_first_and_one_that_is_not_wanted_goes() {
    let mut shares = Shares::made().await;
    shares.spec.attachments = Some(vec![attachment(17)]);
    shares.generation = 2;
    let fact = shares.converge().await.expect("alive").expect("converged");
    assert_eq!(fact.look, Look::Converging, "the first is still there");
    assert_eq!(fact.attachments[0].state, PartState::Removing);
    shares.make_persistently().await;
    shares.assert_exactly_what_was_asked_for("moved").await;
    shares.spec.attachments = None;
    shares.generation = 3;
    shares.make_persistently().await;
    assert!(shares.rig.inventory().await.share_attachments.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_not_ready_is_neither_attached_nor_detached() {
    let shares = Shares::new().await;
    let work = async |ready: bool| {
        let mut request = shares.request();
        if !ready {
            request.ready.clear();
        }
        let work =
            async |provider: &SimulatedProvider, context: &CallContext<'_>| provider.converge(context, &request).await;
        shares.rig.run_about(Kind::FileStorage, work).await.expect("alive").expect("converged").fact
    };
    work(false).await;
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let fact = work(false).await;
    assert_eq!((fact.look, fact.attachments.len()), (Look::Converged(1), 0));
    work(true).await;
    assert_eq!(work(false).await.attachments.len(), 1, "it stays");
}

#[tokio::test(start_paused = true)]
async fn b43_a_share_that_somebody_made_larger_is_not_made_smaller() {
    let mut shares = Shares::made().await;
    shares.spec.size_gib = 30;
    shares.make_persistently().await;
    shares.spec.size_gib = 10;
    let fact = shares.converge().await.expect("alive").expect("converged");
    assert_eq!(fact.size_bytes, 30 * GIB);
}

#[tokio::test(start_paused = true)]
async fn the_network_of_an_attachment_cannot_be_deleted_in_the_cloud_either() {
    let shares = Shares::made().await;
    let error = shares.rig.delete_network().await.expect("alive").expect_err("in use");
    assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    shares.unmake_persistently().await;
    shares.rig.unmake_persistently().await;
    assert!(shares.rig.inventory().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_storage_system_will_not_attach_is_told_of_that_network_and_the_share_stands() {
    let mut shares = Shares::new().await;
    let elsewhere = Ipv4Addr::new(10, 9, 9, 9);
    let wrong = Attachment { addresses: AddressRange { start: elsewhere, end: elsewhere }, ..attachment(19) };
    shares.spec.attachments = Some(vec![wrong]);
    shares.converge().await.expect("alive").expect("converged");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let fact = shares.converge().await.expect("alive").expect("the share is well");
    assert!(matches!(fact.setback, Some(ProviderError::Rejected(_))), "{:?}", fact.setback);
    assert_eq!((fact.state, fact.attachments[0].state), (PartState::Active, PartState::Failed));
}

#[tokio::test(start_paused = true)]
async fn a_list_says_what_a_look_says_and_how_full_the_share_is() {
    let shares = Shares::made().await;
    let looked = shares.converge().await.expect("alive").expect("converged");
    let listed = async || shares.listed().await.remove(0);
    let first = listed().await;
    let Fact::FileStorage(seen) = &first.fact else { panic!("not a share") };
    assert_eq!(seen.fact.look, Look::Listed);
    assert_eq!((seen.fact.configuration, seen.fact.fingerprint), (looked.configuration, looked.fingerprint));
    assert_eq!(first.fingerprint, fingerprint(looked.fingerprint, seen.fact.usage.as_ref()));
    assert_eq!(listed().await.fingerprint, first.fingerprint, "nothing is new until it is measured again");
    tokio::time::advance(std::time::Duration::from_mins(20)).await;
    let later = listed().await;
    let Fact::FileStorage(fuller) = &later.fact else { panic!("not a share") };
    assert!(fuller.fact.usage.expect("measured").used_bytes > seen.fact.usage.expect("measured").used_bytes);
    assert_eq!(fuller.fact.fingerprint, seen.fact.fingerprint);
    assert_ne!(later.fingerprint, first.fingerprint);
    tokio::time::advance(std::time::Duration::from_hours(1000)).await;
    let Fact::FileStorage(full) = listed().await.fact else { panic!("not a share") };
    assert_eq!(full.fact.usage.expect("measured").used_bytes, 10 * GIB, "never more than fits");
    let share = shares.share().await;
    shares.rig.behind_our_back(BackdoorChange::SetState { id: share.id, state: ObjectState::Error }).await;
    let Fact::FileStorage(failed) = listed().await.fact else { panic!("not a share") };
    assert_eq!(failed.fact.state, PartState::Failed);
    assert_eq!(failed.fact.configuration, looked.configuration, "how far it is is no configuration");
}

#[tokio::test(start_paused = true)]
async fn a_share_that_failed_before_anybody_used_it_is_made_again_and_one_that_was_used_is_left_alone() {
    let shares = Shares::new().await;
    shares.rig.faults(vec![Fault::once("create-share", Effect::FailedBoot)]).await;
    shares.make_persistently().await;
    assert!(shares.rig.handle().faults().await.expect("faults").is_empty(), "it failed");
    shares.assert_exactly_what_was_asked_for("made again").await;
    let share = shares.share().await;
    shares.rig.behind_our_back(BackdoorChange::SetState { id: share.id.clone(), state: ObjectState::Error }).await;
    let fact = shares.converge().await.expect("alive").expect("reported");
    assert_eq!(fact.state, PartState::Failed);
    assert_eq!(shares.share().await.id, share.id, "what is on it is not ours to throw away");
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_call_of_a_share_is_overcome_without_doubles() {
    for operation in CREATING {
        for effect in effects() {
            let shares = Shares::new().await;
            let fault = Fault::once(operation, effect);
            shares.rig.faults(vec![fault.clone()]).await;
            shares.make_persistently().await;
            assert_met(&shares.rig, &fault).await;
            shares.assert_exactly_what_was_asked_for(&format!("{fault:?}")).await;
            shares.unmake_persistently().await;
            shares.assert_nothing_left(&format!("{fault:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_call_of_the_end_of_a_share_is_overcome_without_remains() {
    for operation in DELETING {
        for effect in effects() {
            let shares = Shares::made().await;
            let fault = Fault::once(operation, effect);
            shares.rig.faults(vec![fault.clone()]).await;
            shares.unmake_persistently().await;
            assert_met(&shares.rig, &fault).await;
            shares.assert_nothing_left(&format!("{fault:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn b1_a_search_for_a_share_that_fails_is_never_taken_for_nothing_found() {
    for error in [CloudError::NotFound, CloudError::Unavailable, CloudError::TimedOut, CloudError::Unauthorized] {
        let shares = Shares::made().await;
        *shares.recorded.lock().expect("lock") = FileStorageDetail::default();
        shares.rig.faults(vec![Fault::always("find-*", Effect::Error { error: error.clone() })]).await;
        let mutations = shares.rig.mutations().await;
        assert!(shares.converge().await.expect("alive").is_err(), "{error}");
        assert!(shares.delete().await.expect("alive").is_err(), "{error}: not absent, unknown");
        assert_eq!(shares.rig.mutations().await, mutations);
    }
}

#[tokio::test(start_paused = true)]
async fn searches_that_lag_behind_make_no_second_share_and_hide_no_attachment() {
    let stale = |operation: &str| Fault::always(operation, Effect::Stale { age_ms: 3_600_000 });
    let shares = Shares::new().await;
    tokio::time::advance(std::time::Duration::from_hours(2)).await;
    shares.rig.faults(vec![Fault::once("create-share", Effect::LostAnswer { after_ms: 0 })]).await;
    shares.converge().await.expect("alive").expect_err("the answer was lost");
    shares.rig.faults(vec![stale("find-shares"), stale("find-share-attachments")]).await;
    for _ in 0..3 {
        let error = shares.converge().await.expect("alive").expect_err("its path is taken");
        assert!(matches!(error, ProviderError::Conflict(_)), "{error}");
    }
    shares.rig.handle().clear_faults().await.expect("cleared");
    shares.make_persistently().await;
    shares.assert_exactly_what_was_asked_for("adopted").await;
    shares.rig.faults(vec![stale("find-shares"), stale("find-share-attachments")]).await;
    shares.make_persistently().await;
    shares.assert_exactly_what_was_asked_for("what is on record is asked for by its id").await;
    shares.unmake_persistently().await;
    shares.assert_nothing_left("deleted").await;
}

/// Does the work in processes that die at ever later points, until one gets through. Each begins in a fresh world.
async fn die_everywhere<P, W>(prepare: P, work: W, then: impl AsyncFn(&Shares, &str))
where
    P: AsyncFn() -> Shares,
    W: AsyncFn(&Shares) -> Option<()>,
{
    for point in 1.. {
        let mut shares = prepare().await;
        shares.rig.dies_at(point);
        if work(&shares).await.is_some() {
            assert_eq!(points(&shares.rig), point - 1, "every point but the last was died at");
            assert!(point > 10, "there are points to die at");
            return;
        }
        shares.rig.cut = Cut::never();
        then(&shares, &format!("died at point {point}")).await;
    }
}

async fn make(shares: &Shares) -> Option<()> {
    while !shares.attempt().await? {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    Some(())
}

async fn unmake(shares: &Shares) -> Option<()> {
    while shares.delete().await?.expect("going") == Deletion::Underway {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    Some(())
}

#[tokio::test(start_paused = true)]
async fn a_share_cut_short_anywhere_is_completed_without_doubles_and_deleted_without_remains() {
    die_everywhere(Shares::new, make, async |shares, said| {
        make(shares).await.expect("alive");
        shares.assert_exactly_what_was_asked_for(said).await;
        unmake(shares).await.expect("alive");
        shares.assert_nothing_left(said).await;
    })
    .await;
    die_everywhere(Shares::new, make, async |shares, said| {
        unmake(shares).await.expect("alive");
        shares.assert_nothing_left(said).await;
    })
    .await;
    die_everywhere(Shares::made, unmake, async |shares, said| {
        unmake(shares).await.expect("alive");
        shares.assert_nothing_left(said).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_attachments_to_one_network_are_a_contradiction_and_both_go_at_the_end() {
    let shares = Shares::made().await;
    let CloudObject { name, marks, tags, mut body, .. } = shares.rig.inventory().await.share_attachments[0].clone();
    // Made for the same network of ours, in another one of the cloud's.
    let network = shares.rig.inventory().await.networks[0].clone();
    let other = NewObject { name: network.name, marks: None, tags: network.tags, body: without_segment(network.body) };
    shares.rig.behind_our_back(BackdoorChange::Insert { object: other }).await;
    let inventory = shares.rig.inventory().await;
    let other = inventory.networks.iter().find(|object| object.marks.is_none()).expect("inserted").id.clone();
    let Body::Subnet { cidr, options, .. } = inventory.subnets[0].body.clone() else { panic!("not a subnet") };
    let subnet = Body::Subnet { network: other.clone(), cidr, options };
    let subnet = NewObject { name: "subnet".to_owned(), marks: None, tags: tags.clone(), body: subnet };
    shares.rig.behind_our_back(BackdoorChange::Insert { object: subnet }).await;
    if let Body::ShareAttachment { export } = &mut body {
        export.network = other;
    }
    shares.rig.behind_our_back(BackdoorChange::Insert { object: NewObject { name, marks, tags, body } }).await;
    let error = shares.converge().await.expect("alive").expect_err("two");
    assert!(matches!(error, ProviderError::Inconsistent(_)), "{error}");
    shares.unmake_persistently().await;
    assert!(shares.rig.inventory().await.share_attachments.is_empty(), "doubles go too");
}

fn without_segment(body: Body) -> Body {
    match body {
        Body::Network { project, .. } => Body::Network { project, segment: None },
        other => other,
    }
}

#[tokio::test(start_paused = true)]
async fn the_private_class_is_there_for_those_whom_the_settings_name() {
    let classes = async |rig: &Rig| {
        let offered = rig.run(async |provider, context| provider.classes(context).await);
        offered.await.expect("alive").expect("offered")
    };
    let (ours, theirs) = (OrganizationId(Uuid::from_u128(1)), OrganizationId(Uuid::from_u128(2)));
    let mut rig = Rig::new();
    let private = classes(&rig).await.into_iter().find(|class| class.id == FILES_PRIVATE).expect("offered");
    assert!(!private.is_visible_to(ours));
    rig.settings.file_storage_organizations = vec![ours];
    let offered = classes(&rig).await;
    let private = offered.iter().find(|class| class.id == FILES_PRIVATE).expect("offered");
    assert!(private.is_visible_to(ours) && !private.is_visible_to(theirs));
    let standard = offered.iter().find(|class| class.id == FILES_STANDARD).expect("offered");
    assert!(standard.is_visible_to(theirs) && standard.parallelism == 4);
}
