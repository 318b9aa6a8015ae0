//! One clock for all: a single delay queue in place of a task per timer.
//!
//! Each key has at most one timer. Setting it again replaces it; a timer that fires names the token it was set
//! with, so that an actor can tell one it no longer cares about.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::poll_fn;
use tokio::sync::mpsc;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key as Slot;

use crate::model::ids::Key;

/// Names one setting of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerToken(pub u64);

enum Request {
    Set { key: Key, token: TimerToken, after: Duration },
    Cancel { key: Key },
}

/// The shared timers. Unbounded on purpose: there is at most one live timer per actor, and the requests are
/// consumed by a task that never waits for anything else.
#[derive(Clone)]
pub struct Timers {
    requests: mpsc::UnboundedSender<Request>,
}

impl Timers {
    /// `fire` is called on the timers' task and must not block.
    pub fn start(fire: impl Fn(Key, TimerToken) + Send + 'static) -> Self {
        let (requests, inbox) = mpsc::unbounded_channel();
        spawn_clock(run(inbox, fire));
        Self { requests }
    }

    pub fn set(&self, key: Key, token: TimerToken, after: Duration) {
        let _ = self.requests.send(Request::Set { key, token, after });
    }

    pub fn cancel(&self, key: Key) {
        let _ = self.requests.send(Request::Cancel { key });
    }
}

#[expect(clippy::disallowed_methods, reason = "the one clock of the process; it ends with the last handle to it")]
fn spawn_clock(clock: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(clock);
}

async fn run(mut inbox: mpsc::UnboundedReceiver<Request>, fire: impl Fn(Key, TimerToken)) {
    let mut queue: DelayQueue<(Key, TimerToken)> = DelayQueue::new();
    let mut slots: HashMap<Key, Slot> = HashMap::new();
    loop {
        tokio::select! {
            biased;
            request = inbox.recv() => match request {
                None => return,
                Some(Request::Set { key, token, after }) => {
                    if let Some(old) = slots.remove(&key) {
                        queue.try_remove(&old);
                    }
                    slots.insert(key, queue.insert((key, token), after));
                }
                Some(Request::Cancel { key }) => {
                    if let Some(old) = slots.remove(&key) {
                        queue.try_remove(&old);
                    }
                }
            },
            Some(expired) = poll_fn(|context| queue.poll_expired(context)), if !queue.is_empty() => {
                let (key, token) = expired.into_inner();
                slots.remove(&key);
                fire(key, token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::ids::Kind;

    fn key(number: u128) -> Key {
        Key::new(Kind::Network, Uuid::from_u128(number))
    }

    #[tokio::test(start_paused = true)]
    async fn timers_fire_in_order_and_a_reset_replaces() {
        let (fired, mut heard) = mpsc::unbounded_channel();
        let timers = Timers::start(move |key, token| fired.send((key, token)).expect("heard"));
        timers.set(key(1), TimerToken(1), Duration::from_secs(9));
        timers.set(key(2), TimerToken(2), Duration::from_secs(5));
        timers.set(key(1), TimerToken(3), Duration::from_secs(1));
        timers.set(key(3), TimerToken(4), Duration::from_secs(2));
        timers.cancel(key(3));
        assert_eq!(heard.recv().await, Some((key(1), TimerToken(3))));
        assert_eq!(heard.recv().await, Some((key(2), TimerToken(2))));
        timers.set(key(4), TimerToken(5), Duration::from_mins(1));
        assert_eq!(heard.recv().await, Some((key(4), TimerToken(5))));
    }
}
