//! Every effect of a fault, seen from the caller's side, on virtual time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::api::{CloudApi, SimulatedHandle};
use super::call::{Answer, CALL_DEADLINE, Call, CallRequest, CloudError, Criteria};
use super::engine::backdoor::BackdoorChange;
use super::engine::faults::{CallPattern, Effect, FAULTS_MAX, Fault, PartialForm};
use super::in_process::InProcess;
use super::objects::{Body, ObjectId, ObjectKind, ObjectState};
use super::testing::{Cut, ambient, cloud, face, new_object, object, objects, request, router_body, subnet_body};
use crate::model::ids::OrganizationId;

struct Bench {
    face: InProcess,
}

impl Bench {
    fn new() -> Self {
        Self { face: face(&cloud(), &ambient(), Cut::never()) }
    }

    async fn with(faults: Vec<Fault>) -> Self {
        let bench = Self::new();
        bench.face.add_faults(faults).await.expect("added");
        bench
    }

    async fn call(&self, call: Call) -> Result<Answer, CloudError> {
        self.face.call(request(call)).await
    }

    async fn make(&self, id: u128, body: Body) -> super::objects::CloudObject {
        object(self.call(new_object(id, body)).await)
    }

    async fn projects(&self) -> usize {
        self.face.inventory().await.expect("inventory").identities.len()
    }
}

fn create() -> Call {
    new_object(1, Body::Project)
}

fn find() -> Call {
    Call::Find { kind: ObjectKind::Project, criteria: Criteria::marked(uuid::Uuid::from_u128(1)) }
}

#[tokio::test(start_paused = true)]
async fn each_error_is_answered_and_nothing_is_done() {
    let errors = [
        CloudError::NotFound,
        CloudError::Conflict { reason: "so".to_owned() },
        CloudError::Throttled { retry_after_ms: Some(5) },
        CloudError::Quota,
        CloudError::Unauthorized,
        CloudError::Unavailable,
        CloudError::TimedOut,
        CloudError::Rejected { reason: "so".to_owned() },
        CloudError::Fenced { newest_epoch: 9 },
    ];
    for error in errors {
        let bench = Bench::with(vec![Fault::once("create-project", Effect::Error { error: error.clone() })]).await;
        assert_eq!(bench.call(create()).await, Err(error));
        assert_eq!(bench.projects().await, 0);
        bench.call(create()).await.expect("only once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_out_takes_its_time_and_does_nothing() {
    let bench = Bench::with(vec![Fault::once("create-project", Effect::TimeOut { after_ms: 5000 })]).await;
    let start = Instant::now();
    assert_eq!(bench.call(create()).await, Err(CloudError::TimedOut));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(bench.projects().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_ends_at_the_deadline() {
    let bench = Bench::with(vec![Fault::once("create-project", Effect::Hang)]).await;
    let start = Instant::now();
    assert_eq!(bench.call(create()).await, Err(CloudError::TimedOut));
    assert_eq!(start.elapsed(), CALL_DEADLINE);
    assert_eq!(bench.projects().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_lost_after_the_deed() {
    for (after_ms, told) in [(0, CloudError::Unavailable), (3_600_000, CloudError::TimedOut)] {
        let bench = Bench::with(vec![Fault::once("create-project", Effect::LostAnswer { after_ms })]).await;
        assert_eq!(bench.call(create()).await, Err(told));
        assert_eq!(bench.projects().await, 1);
        let calls = bench.face.calls(0).await.expect("calls");
        assert!(calls[0].applied && calls[0].outcome == "unavailable");
    }
}

#[tokio::test(start_paused = true)]
async fn a_partial_create_leaves_something_behind_and_says_that_it_failed() {
    let forms = [
        (PartialForm::Unfinished, ObjectState::Building),
        (PartialForm::Errored, ObjectState::Error),
        (PartialForm::Incomplete, ObjectState::Active),
    ];
    for (form, state) in forms {
        let bench = Bench::new();
        let project = bench.make(1, Body::Project).await;
        let network = bench.make(2, Body::Network { project: project.id.clone(), segment: None }).await;
        let faults = vec![Fault::always("create-*", Effect::PartialCreate { form })];
        bench.face.add_faults(faults).await.expect("added");
        for body in [subnet_body(&network.id), router_body(&project.id)] {
            assert_eq!(bench.call(new_object(3, body)).await, Err(CloudError::Unavailable));
        }
        let inventory = bench.face.inventory().await.expect("inventory");
        assert_eq!((inventory.subnets[0].state, inventory.routers[0].state), (state, state));
        let Body::Router { external_network, .. } = &inventory.routers[0].body else { panic!("not a router") };
        assert_eq!(external_network.is_none(), form == PartialForm::Incomplete);
        let Body::Subnet { options, .. } = &inventory.subnets[0].body else { panic!("not a subnet") };
        assert_eq!(options.dns_nameservers.is_empty(), form == PartialForm::Incomplete);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_acts_on_what_is_there_when_it_acts() {
    let bench = Bench::with(vec![Fault::once("find-projects", Effect::Slow { delay_ms: 1000 })]).await;
    let start = Instant::now();
    let made_meanwhile = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        bench.make(1, Body::Project).await
    };
    let (found, _) = tokio::join!(bench.call(find()), made_meanwhile);
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    assert_eq!(objects(found).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn throttling_says_when_to_come_back() {
    let bench = Bench::with(vec![Fault::once("*", Effect::Throttle { retry_after_ms: Some(700) })]).await;
    assert_eq!(bench.call(find()).await, Err(CloudError::Throttled { retry_after_ms: Some(700) }));
    assert!(bench.call(find()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn stale_answers_show_what_was_and_a_look_at_an_id_shows_what_is() {
    let bench = Bench::new();
    let old = bench.make(1, Body::Project).await;
    tokio::time::advance(Duration::from_mins(1)).await;
    let id = old.id.clone();
    bench.call(Call::Delete { kind: ObjectKind::Project, id: id.clone() }).await.expect("deleted");
    let new = bench.make(1, Body::Project).await;
    bench.face.add_faults(vec![Fault::always("*", Effect::Stale { age_ms: 10_000 })]).await.expect("added");

    let listed = bench.call(Call::List { kind: ObjectKind::Project, only: None, after: None }).await;
    assert_eq!(objects(bench.call(find()).await), objects(listed.clone()));
    assert_eq!(objects(listed), [old]);
    assert_eq!(bench.call(Call::Get { kind: ObjectKind::Project, id }).await, Err(CloudError::NotFound));
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(objects(bench.call(find()).await), [new]);
}

/// The past is rebuilt by undoing; here it is compared with snapshots that were taken when it was the present.
#[tokio::test(start_paused = true)]
async fn any_moment_of_the_past_is_shown_as_it_was() {
    let bench = Bench::new();
    let mut random = fastrand::Rng::with_seed(5);
    let list = || Call::List { kind: ObjectKind::Project, only: None, after: None };
    let mut snapshots = Vec::new();
    for _ in 0..200 {
        let existing = objects(bench.call(list()).await);
        let call = match existing.get(random.usize(..existing.len() + 3)) {
            Some(object) if random.bool() => Call::Delete { kind: ObjectKind::Project, id: object.id.clone() },
            Some(object) => {
                let tags = [("turn".to_owned(), random.u8(..).to_string())].into();
                let change = super::call::Change::Tags { tags };
                Call::Update { kind: ObjectKind::Project, id: object.id.clone(), change }
            }
            None => create(),
        };
        bench.call(call).await.expect("done");
        snapshots.push((Instant::now(), objects(bench.call(list()).await)));
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    for (moment, snapshot) in snapshots {
        let age_ms = u64::try_from(moment.elapsed().as_millis()).expect("small");
        bench.face.add_faults(vec![Fault::once("list-projects", Effect::Stale { age_ms })]).await.expect("added");
        assert_eq!(objects(bench.call(list()).await), snapshot);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_create_is_building_until_its_time_or_its_release() {
    let faults = vec![
        Fault::once("create-project", Effect::StuckCreate { for_ms: Some(60_000) }),
        Fault::once("create-project", Effect::StuckCreate { for_ms: None }),
    ];
    let bench = Bench::with(faults).await;
    let (timed, endless) = (bench.make(1, Body::Project).await, bench.make(1, Body::Project).await);
    assert_eq!((timed.state, endless.state), (ObjectState::Building, ObjectState::Building));
    tokio::time::advance(Duration::from_mins(1)).await;
    let state =
        async |id: &ObjectId| object(bench.call(Call::Get { kind: ObjectKind::Project, id: id.clone() }).await).state;
    assert_eq!(state(&timed.id).await, ObjectState::Active);
    tokio::time::advance(Duration::from_hours(1)).await;
    assert_eq!(state(&endless.id).await, ObjectState::Building);
    let release = BackdoorChange::Release { id: Some(endless.id.clone()) };
    bench.face.change_directly(release).await.expect("released");
    assert_eq!(state(&endless.id).await, ObjectState::Active);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_delete_is_accepted_and_the_object_stays_until_its_release() {
    let bench = Bench::new();
    let project = bench.make(1, Body::Project).await;
    let faults = vec![Fault::once("delete-project", Effect::StuckDelete { for_ms: None })];
    bench.face.add_faults(faults).await.expect("added");
    let delete = || Call::Delete { kind: ObjectKind::Project, id: project.id.clone() };
    for _ in 0..3 {
        assert_eq!(bench.call(delete()).await, Ok(Answer::Done));
        assert_eq!(objects(bench.call(find()).await)[0].state, ObjectState::Deleting);
    }
    let inside = new_object(2, Body::Network { project: project.id.clone(), segment: None });
    assert!(matches!(bench.call(inside).await, Err(CloudError::Conflict { .. })));
    bench.face.change_directly(BackdoorChange::Release { id: None }).await.expect("released");
    assert_eq!(bench.call(delete()).await, Err(CloudError::NotFound));
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_for_the_calls_it_names_and_waits_for_one_that_it_can_happen_to() {
    let tenant = OrganizationId(uuid::Uuid::from_u128(77));
    let patterns = [
        (CallPattern { mutating: Some(true), ..CallPattern::default() }, true),
        (CallPattern { mutating: Some(false), ..CallPattern::default() }, false),
        (CallPattern { object: Some(uuid::Uuid::from_u128(1).to_string()), ..CallPattern::default() }, true),
        (CallPattern { object: Some(uuid::Uuid::from_u128(2).to_string()), ..CallPattern::default() }, false),
        (CallPattern { tenant: Some(tenant), ..CallPattern::default() }, true),
        (CallPattern { tenant: Some(OrganizationId(uuid::Uuid::nil())), ..CallPattern::default() }, false),
        (CallPattern::operation("create-*"), true),
        (CallPattern::operation("create-project"), true),
        (CallPattern::operation("create-user"), false),
        (CallPattern::default(), true),
    ];
    for (matching, hits) in patterns {
        let effect = Effect::Error { error: CloudError::Quota };
        let said = format!("{matching:?}");
        let bench = Bench::with(vec![Fault { matching, effect, times: None, probability: None }]).await;
        let request = CallRequest { tenant: Some(tenant), ..request(create()) };
        assert_eq!(bench.face.call(request).await.is_err(), hits, "{said}");
    }
    let bench = Bench::with(vec![Fault::once("*", Effect::LostAnswer { after_ms: 0 })]).await;
    bench.call(find()).await.expect("a read has no deed to lose the answer of");
    bench.call(create()).await.expect_err("lost");
    assert!(bench.face.faults().await.expect("faults").is_empty(), "used up");
}

#[tokio::test(start_paused = true)]
async fn the_object_of_a_pattern_may_be_our_id_of_what_the_call_names_by_the_clouds() {
    let bench = Bench::new();
    let project = bench.make(1, Body::Project).await;
    let matching = CallPattern { object: Some(uuid::Uuid::from_u128(1).to_string()), ..CallPattern::default() };
    let effect = Effect::Error { error: CloudError::Quota };
    bench.face.add_faults(vec![Fault { matching, effect, times: None, probability: None }]).await.expect("added");
    assert_eq!(bench.call(Call::Delete { kind: ObjectKind::Project, id: project.id }).await, Err(CloudError::Quota));
}

#[tokio::test(start_paused = true)]
async fn chance_is_drawn_from_the_seed() {
    let run = async || {
        let effect = Effect::Error { error: CloudError::Unavailable };
        let fault = Fault { probability: Some(0.3), ..Fault::always("find-projects", effect) };
        let bench = Bench::with(vec![fault]).await;
        let mut failed = Vec::new();
        for _ in 0..200 {
            failed.push(bench.call(find()).await.is_err());
        }
        failed
    };
    let failed = run().await;
    assert_eq!(failed, run().await);
    assert!((30..90).contains(&failed.iter().filter(|failed| **failed).count()));
}

#[tokio::test(start_paused = true)]
async fn faults_are_bounded_checked_and_cleared() {
    let fault = Fault::always("*", Effect::Hang);
    let bench = Bench::with(vec![fault.clone(); FAULTS_MAX]).await;
    assert!(bench.face.add_faults(vec![fault.clone()]).await.is_err());
    bench.face.clear_faults().await.expect("cleared");
    let impossible = Fault { probability: Some(1.5), ..fault };
    assert!(bench.face.add_faults(vec![impossible]).await.is_err());
    assert!(bench.call(find()).await.is_ok());
}

#[test]
fn faults_are_written_in_kebab_case_words() {
    let json = r#"[
        {"matching": {"operations": ["create-network"], "mutating": true}, "effect": {"kind": "lost-answer"}, "times": 1},
        {"effect": {"kind": "error", "error": {"kind": "throttled", "retryAfterMs": 5}}, "probability": 0.5},
        {"effect": {"kind": "partial-create", "form": "errored"}},
        {"effect": {"kind": "stuck-delete", "forMs": 10}},
        {"effect": {"kind": "hang"}},
        {"effect": {"kind": "failed-boot"}},
        {"effect": {"kind": "failed-rebuild"}},
        {"effect": {"kind": "failed-resize"}}
    ]"#;
    let faults: Vec<Fault> = serde_json::from_str(json).expect("faults");
    assert_eq!(
        faults[0],
        Fault {
            matching: CallPattern { mutating: Some(true), ..CallPattern::operation("create-network") },
            ..Fault::once("", Effect::LostAnswer { after_ms: 0 })
        }
    );
    assert_eq!(faults[3].effect, Effect::StuckDelete { for_ms: Some(10) });
    let failures = faults[5..].iter().map(|fault| &fault.effect).collect::<Vec<_>>();
    assert_eq!(failures, [&Effect::FailedBoot, &Effect::FailedRebuild, &Effect::FailedResize]);
    let again: Vec<Fault> = serde_json::from_str(&serde_json::to_string(&faults).expect("json")).expect("faults");
    assert_eq!(again, faults);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_before_the_deed_has_not_done_it_and_after_it_has() {
    for (point, projects) in [(1, 0), (2, 1)] {
        let kept = cloud();
        let cut = Cut::at(point);
        let dying = face(&kept, &ambient(), Arc::clone(&cut));
        assert!(cut.run(dying.call(request(create()))).await.is_none());
        assert_eq!(
            face(&kept, &ambient(), Cut::never()).inventory().await.expect("inventory").identities.len(),
            projects
        );
    }
}
