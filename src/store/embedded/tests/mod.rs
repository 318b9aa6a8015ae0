//! What only the store on SQLite has to show: its folder, its group commit, its log on disk, its damage and backups.

mod backups;
mod crash;
mod damage;
mod folder;
mod groups;
mod trimming;

use std::path::Path;

use rusqlite::Connection;

use crate::store::conformance::rig::ManualClock;

use super::EmbeddedStore;
use super::writer::Request;

fn open(directory: &Path) -> EmbeddedStore {
    EmbeddedStore::open(directory, ManualClock::new().ambient()).expect("opens")
}

impl EmbeddedStore {
    /// Does something on the writing connection, and waits until it is done.
    async fn meddle(&self, meddle: impl FnOnce(&Connection) + Send + 'static) {
        let (done, waiting) = tokio::sync::oneshot::channel();
        let work = move |connection: &Connection| {
            meddle(connection);
            done.send(()).expect("the test waits");
        };
        self.send(Request::Meddle(Box::new(work))).expect("the queue has room");
        waiting.await.expect("done");
    }

    /// Holds the writer up until the returned sender is used, so that what is sent meanwhile becomes one group.
    async fn hold_writer(&self) -> std::sync::mpsc::Sender<()> {
        let (release, held) = std::sync::mpsc::channel();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let wait = move |_: &Connection| {
            begun.send(()).expect("the test waits");
            held.recv().expect("the test releases the writer");
        };
        self.send(Request::Meddle(Box::new(wait))).expect("the queue has room");
        begins.await.expect("held");
        release
    }
}
