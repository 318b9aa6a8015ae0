//! What a server can be told to do, and when it cannot.

use super::super::super::catalogue::{IMAGE_GPU, IMAGE_UBUNTU, IMAGE_UNFINISHED};
use super::super::super::engine::faults::Effect;
use super::machines::Machines;
use super::*;
use crate::model::ids::ImageId;
use crate::model::server::{CloudServerStatus, PowerState, ServerTask};
use crate::providers::{PowerAction, ProviderError};

#[tokio::test(start_paused = true)]
async fn power_goes_by_way_of_its_tasks_and_wrong_moments_are_conflicts() {
    let machines = Machines::made().await;
    let is_conflict = |result: ProviderResult<()>| matches!(result, Err(ProviderError::Conflict(_)));
    let all = [PowerAction::Start, PowerAction::Stop, PowerAction::SoftReboot, PowerAction::HardReboot];
    for action in all {
        assert!(is_conflict(machines.act(action).await), "{action:?} of a server that is being built");
    }
    assert!(is_conflict(machines.rebuild(IMAGE_GPU).await.expect("alive")));
    machines.booted().await;
    assert!(is_conflict(machines.act(PowerAction::Start).await), "it runs");
    let table = [
        (PowerAction::Stop, ServerTask::PoweringOff, PowerState::Shutdown, CloudServerStatus::Stopped),
        (PowerAction::Start, ServerTask::PoweringOn, PowerState::Running, CloudServerStatus::Active),
        (PowerAction::SoftReboot, ServerTask::Rebooting, PowerState::Running, CloudServerStatus::Active),
        (PowerAction::HardReboot, ServerTask::Rebooting, PowerState::Running, CloudServerStatus::Active),
        (PowerAction::Stop, ServerTask::PoweringOff, PowerState::Shutdown, CloudServerStatus::Stopped),
    ];
    for (action, task, power, status) in table {
        machines.act(action).await.expect("accepted");
        assert_eq!(machines.task().await, Some(task));
        for other in all {
            assert!(is_conflict(machines.act(other).await), "{other:?} during {task:?}");
        }
        let after = machines.booted().await.server.expect("a server");
        assert_eq!((after.power, after.status, after.task), (power, status, None), "{action:?}");
    }
    assert!(is_conflict(machines.act(PowerAction::Stop).await), "it is stopped");
    assert!(is_conflict(machines.act(PowerAction::SoftReboot).await), "it is stopped");
    machines.unmake_persistently().await;
    assert_eq!(machines.act(PowerAction::Start).await, Err(ProviderError::NotFound));
}

#[tokio::test(start_paused = true)]
async fn a_rebuild_changes_the_image_at_once_and_leaves_the_power_as_it_was() {
    for stopped in [false, true] {
        let machines = Machines::running().await;
        if stopped {
            machines.act(PowerAction::Stop).await.expect("accepted");
            machines.booted().await;
        }
        let before = machines.make().await;
        machines.rebuild(IMAGE_GPU).await.expect("alive").expect("accepted");
        let during = machines.make().await.server.expect("a server");
        assert_eq!((during.status, during.image), (CloudServerStatus::Rebuild, Some(IMAGE_GPU)));
        assert!(machines.rebuild(IMAGE_UBUNTU).await.expect("alive").is_err(), "one at a time");
        let after = machines.booted().await;
        let sighting = after.server.expect("a server");
        assert_eq!(sighting.id, before.server.expect("a server").id);
        assert_eq!(sighting.power == PowerState::Shutdown, stopped);
        assert_eq!(after.configuration, before.configuration);
        for (image, said) in [(IMAGE_UNFINISHED, "not ready"), (ImageId(Uuid::nil()), "no such image")] {
            let error = machines.rebuild(image).await.expect("alive").expect_err(said);
            assert!(matches!(&error, ProviderError::Rejected(reason) if reason.contains(said)), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rebuild_that_fails_ends_in_error_and_another_is_the_way_out() {
    let machines = Machines::running().await;
    machines.rig.faults(vec![Fault::once("rebuild-server", Effect::FailedRebuild)]).await;
    machines.rebuild(IMAGE_GPU).await.expect("alive").expect("accepted");
    let failed = machines.booted().await.server.expect("a server");
    assert_eq!((failed.status, failed.image), (CloudServerStatus::Error, Some(IMAGE_GPU)));
    machines.rebuild(IMAGE_UBUNTU).await.expect("alive").expect("accepted");
    assert_eq!(machines.booted().await.server.expect("a server").status, CloudServerStatus::Active);
}

#[tokio::test(start_paused = true)]
async fn a_console_has_an_address_of_its_own_each_time_and_as_many_lines_as_are_asked_for() {
    let machines = Machines::made().await;
    let request = machines.request();
    let session =
        async || machines.rig.run(async |provider, context| provider.console_session(context, &request).await).await;
    let output = async |lines| {
        let read = machines.rig.run(async |provider, context| provider.console_output(context, &request, lines).await);
        read.await.expect("alive")
    };
    assert!(matches!(session().await, Some(Err(ProviderError::Conflict(_)))), "it is being built");
    assert!(matches!(output(None).await, Err(ProviderError::Conflict(_))));
    machines.booted().await;
    let (one, other) = (session().await.expect("alive").expect("one"), session().await.expect("alive").expect("two"));
    assert!(one.starts_with("https://") && one.contains("token=") && one != other);
    let all = output(None).await.expect("shown");
    assert!(all.lines().count() >= 10 && all.contains("login:"));
    for lines in [0, 1, 3, 10_000] {
        let shown = output(Some(lines)).await.expect("shown");
        assert_eq!(shown.lines().count(), all.lines().count().min(lines as usize));
        assert!(all.ends_with(&shown));
    }
}
