//! Tasks beside the actors: counted, so that a stop can wait for them, and never silent about a panic.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How many passes are running in this process.
#[derive(Clone)]
pub struct PassCount(Arc<watch::Sender<usize>>);

impl Default for PassCount {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl PassCount {
    #[must_use]
    pub fn now(&self) -> usize {
        *self.0.borrow()
    }

    /// Returns when no pass is running.
    pub async fn drained(&self) {
        let mut count = self.0.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = count.wait_for(|count| *count == 0).await;
    }
}

/// Counts one pass for as long as it lives, however it ends.
struct Counted(PassCount);

impl Counted {
    fn new(count: &PassCount) -> Self {
        count.0.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// Runs `pass` as a task of its own; a panic becomes `on_panic` of its message.
#[expect(clippy::disallowed_methods, reason = "this is the watched spawn that the ban points to")]
pub fn spawn_pass<F, P>(count: &PassCount, pass: F, on_panic: P) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
    P: FnOnce(String) + Send + 'static,
{
    let counted = Counted::new(count);
    tokio::spawn(async move {
        let _counted = counted;
        if let Err(panic) = AssertUnwindSafe(pass).catch_unwind().await {
            on_panic(panic_text(&*panic));
        }
    })
}

/// Runs something small that nobody waits for. It must not fail; should it panic, that is logged.
#[expect(clippy::disallowed_methods, reason = "this is the watched spawn that the ban points to")]
pub fn spawn(what: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
            tracing::error!(task = what, panic = panic_text(&*panic), "a task panicked");
        }
    });
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
