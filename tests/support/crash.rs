//! Where a simulated process dies: a point is passed before and after everything it does to its store and its cloud.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use regent::model::ambient::Interrupt;
use tokio::sync::Notify;

/// How often a point was passed, and how often a process died there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    pub passed: u64,
    pub died: u64,
}

/// By the name of the point.
pub type Table = BTreeMap<String, Visits>;

/// When to die next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// Only at a point of this name; any point if absent.
    pub name: Option<String>,
    /// At the so-many-th such point from now.
    pub countdown: u64,
}

#[derive(Default)]
struct State {
    table: Table,
    arms: Vec<Arm>,
    dead: bool,
    trace: u64,
}

/// The points of one history, through all lives of its process.
#[derive(Default)]
pub struct CrashPoints {
    state: Mutex<State>,
    died: Notify,
}

impl CrashPoints {
    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn arm(&self, arm: Arm) {
        self.locked().arms.push(arm);
    }

    pub fn disarm(&self) {
        self.locked().arms.clear();
    }

    /// A new life begins.
    pub fn revive(&self) {
        self.locked().dead = false;
    }

    /// Kills the process where it stands.
    pub fn kill(&self) {
        self.locked().dead = true;
        self.died.notify_one();
    }

    /// Returns when the process has died.
    pub async fn death(&self) {
        self.died.notified().await;
    }

    pub fn table(&self) -> Table {
        self.locked().table.clone()
    }

    /// Changes with every point passed, in order: equal traces are equal histories.
    pub fn trace(&self) -> u64 {
        self.locked().trace
    }

    /// Passes a point; tells whether the process goes on.
    fn pass(&self, name: &str) -> bool {
        let mut state = self.locked();
        if state.dead {
            return false;
        }
        for byte in name.bytes() {
            state.trace = (state.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        for arm in state.arms.iter_mut().filter(|arm| arm.name.as_deref().is_none_or(|wanted| wanted == name)) {
            arm.countdown = arm.countdown.saturating_sub(1);
        }
        let due = state.arms.iter().position(|arm| arm.countdown == 0);
        let dies = due.is_some();
        if let Some(due) = due {
            state.arms.remove(due);
        }
        let visits = state.table.entry(name.to_owned()).or_default();
        visits.passed += 1;
        if dies {
            visits.died += 1;
            state.dead = true;
            self.died.notify_one();
        }
        !dies
    }
}

#[async_trait]
impl Interrupt for CrashPoints {
    async fn point(&self, name: &str) {
        if !self.pass(name) {
            std::future::pending::<()>().await;
        }
    }
}
