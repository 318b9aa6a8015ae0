//! What creates are compared with: the disk's own sync, and a loop that commits the same rows and does nothing else.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::Sample;

/// How long the disk takes to make a small write durable.
pub fn syncs(folder: &Path) -> Sample {
    let mut file = File::create(folder.join("sync")).unwrap();
    let durations = (0..500).map(|_| {
        let began = Instant::now();
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
        began.elapsed()
    });
    Sample::of(durations.collect())
}

/// The rows that one accepted create leaves, table by table, and the one counter that it moves.
struct Rows {
    inserts: Vec<(String, Vec<Value>)>,
}

const TABLES: [&str; 4] = ["record", "reference", "charge", "change"];

/// Reads what a create wrote: every row that was not there before it.
fn rows_of_one_create(before: &Connection, after: &Connection) -> Rows {
    let mut inserts = Vec::new();
    for table in TABLES {
        let all = |connection: &Connection| {
            let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns = statement.column_count();
            let rows = statement.query_map([], |row| (0..columns).map(|index| row.get(index)).collect()).unwrap();
            rows.collect::<Result<Vec<Vec<Value>>, _>>().unwrap()
        };
        let old = all(before);
        for row in all(after).into_iter().filter(|row| !old.contains(row)) {
            let marks = vec!["?"; row.len()].join(",");
            inserts.push((format!("INSERT INTO {table} VALUES ({marks})"), row));
        }
    }
    Rows { inserts }
}

impl Rows {
    /// The same rows for another resource: every id that the create made is another one, and rowids are the table's.
    fn again(&self, statement: usize, fresh: &Fresh) -> Vec<Value> {
        let (sql, row) = &self.inserts[statement];
        let numbered = sql.starts_with("INSERT INTO record") || sql.starts_with("INSERT INTO change");
        let mut row = row.clone();
        if numbered {
            row[0] = Value::Null;
        }
        for value in &mut row {
            match value {
                Value::Blob(bytes) => {
                    if let Some(other) = fresh.of(bytes) {
                        *bytes = other;
                    }
                }
                Value::Text(text) if text.starts_with("identities.") => {
                    let at = text.len() - 36;
                    text.replace_range(at.., &uuid::Uuid::from_slice(&fresh.identity).unwrap().to_string());
                }
                _ => {}
            }
        }
        row
    }
}

/// New ids for one more create.
struct Fresh {
    old_identity: Vec<u8>,
    old_network: Vec<u8>,
    identity: Vec<u8>,
    network: Vec<u8>,
}

impl Fresh {
    fn of(&self, id: &[u8]) -> Option<Vec<u8>> {
        if id == self.old_identity {
            Some(self.identity.clone())
        } else if id == self.old_network {
            Some(self.network.clone())
        } else {
            None
        }
    }
}

/// What the loop came to.
pub struct Outcome {
    pub latencies: Sample,
    pub per_second: f64,
}

/// `writers` threads hand creates to one that commits all that wait together, with the settings of the store.
/// `before` and `after` are copies of a store's database from before and after one create.
pub fn group_commit(before: &Path, after: &Path, writers: usize, total: usize) -> Outcome {
    let (old, connection) = (Connection::open(before).unwrap(), Connection::open(after).unwrap());
    let rows = rows_of_one_create(&old, &connection);
    let ids = |kind: &str| {
        let of_kind =
            rows.inserts.iter().find(|(sql, row)| sql.contains("record") && row[1] == Value::Text(kind.to_owned()));
        let Value::Blob(id) = &of_kind.expect("a create makes one of each").1[2] else { panic!("ids are blobs") };
        id.clone()
    };
    let (old_identity, old_network) = (ids("identity"), ids("network"));
    for (name, value) in
        [("synchronous", "full"), ("temp_store", "memory"), ("cache_size", "-65536"), ("wal_autocheckpoint", "16384")]
    {
        connection.pragma_update(None, name, value).unwrap();
    }
    connection.set_prepared_statement_cache_capacity(64);
    let (queue, inbox) = mpsc::sync_channel::<mpsc::SyncSender<()>>(1024);
    let began = Instant::now();
    let latencies = std::thread::scope(|scope| {
        let clients = (0..writers).map(|_| {
            let queue = queue.clone();
            scope.spawn(move || {
                let (answer, answered) = mpsc::sync_channel(1);
                let one = || {
                    let sent = Instant::now();
                    queue.send(answer.clone()).unwrap();
                    answered.recv().unwrap();
                    sent.elapsed()
                };
                (0..total / writers).map(|_| one()).collect::<Vec<Duration>>()
            })
        });
        let clients = clients.collect::<Vec<_>>();
        drop(queue);
        let mut random = fastrand::Rng::with_seed(1);
        while let Ok(first) = inbox.recv() {
            let group = std::iter::once(first).chain(inbox.try_iter().take(255)).collect::<Vec<_>>();
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            for _ in &group {
                let id = |random: &mut fastrand::Rng| random.u128(..).to_be_bytes().to_vec();
                let fresh = Fresh {
                    old_identity: old_identity.clone(),
                    old_network: old_network.clone(),
                    identity: id(&mut random),
                    network: id(&mut random),
                };
                for (number, (sql, _)) in rows.inserts.iter().enumerate() {
                    let row = rows.again(number, &fresh);
                    connection.prepare_cached(sql).unwrap().execute(params_from_iter(row)).unwrap();
                }
                connection.prepare_cached("UPDATE usage SET used = used + 1").unwrap().execute([]).unwrap();
            }
            connection.execute_batch("COMMIT").unwrap();
            for answer in &group {
                answer.send(()).unwrap();
            }
        }
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let elapsed = began.elapsed();
    let per_second = latencies.len() as f64 / elapsed.as_secs_f64();
    Outcome { latencies: Sample::of(latencies), per_second }
}
