//! A few connections that only read, and the blocking threads they are used on.
//!
//! Readers see the last commit and never wait for the writer. A read is blocking work, so it runs beside the
//! runtime; when all connections are in use, the next reader waits its turn.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::store::StoreError;

use super::rows::unavailable;
use super::schema;

/// How many reads run at once. Reads are short and mostly answered from memory: more would compete with the writer
/// for the processor, fewer would let one long list hold up every other reader.
const READERS_MAX: usize = 8;

pub(super) struct Readers {
    directory: PathBuf,
    turns: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, turns: Arc::new(Semaphore::new(READERS_MAX)), idle: Arc::default() }
    }

    /// Runs `read` on a connection of its own.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let away = |cause: String| StoreError::Unavailable(cause);
        let turn = self.turns.clone().acquire_owned().await.map_err(|closed| away(closed.to_string()))?;
        let (directory, idle) = (self.directory.clone(), self.idle.clone());
        let work = tokio::task::spawn_blocking(move || {
            // Held here and not by the caller: a read that nobody waits for any longer still uses its connection.
            let _turn = turn;
            let taken = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match taken {
                Some(connection) => connection,
                None => schema::open_reader(&directory).map_err(unavailable)?,
            };
            let answer = read(&connection);
            // After an error of the engine the connection is given up, in case it is what is broken.
            if !matches!(answer, Err(StoreError::Unavailable(_))) {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
            answer
        });
        work.await.map_err(|failed| away(failed.to_string()))?
    }
}
