//! The file that a simulated cloud of its own process survives its restarts by.
//!
//! Lines of JSON, each what one step changed, written before the step is answered. Not synced: what is survived is
//! the end of the process, not of the machine, and the file system keeps what a killed process has written. A last
//! line that was cut short was never answered for, and is dropped.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::engine::{JournalLine, SimulatedCloud};

/// After how many lines the journal is written anew. Small enough that a start reads at most some megabytes beyond
/// the cloud itself; large enough that the rewriting is not felt.
const LINES_MAX: usize = 50_000;

/// A cloud's journal, open at its end.
pub struct Journal {
    path: PathBuf,
    file: File,
    lines: usize,
}

impl Journal {
    /// Reads a cloud back from its file, or begins a new one with this seed.
    pub fn open(path: &Path, seed: u64, now: Timestamp) -> io::Result<(SimulatedCloud, Self)> {
        let mut cloud = SimulatedCloud::new(seed);
        match File::open(path) {
            Ok(file) => read_back(&mut cloud, file, now)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let journal = Self::begin(path, &cloud)?;
        Ok((cloud, journal))
    }

    /// Writes the cloud into a new file and puts it in the place of the old one.
    fn begin(path: &Path, cloud: &SimulatedCloud) -> io::Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(&beside)?;
        file.write_all(&line(&cloud.whole())?)?;
        std::fs::rename(&beside, path)?;
        Ok(Self { path: path.to_owned(), file, lines: 1 })
    }

    /// Writes what has changed since the last time, if anything has.
    pub fn write(&mut self, cloud: &mut SimulatedCloud) -> io::Result<()> {
        let Some(changed) = cloud.take_journal_line() else { return Ok(()) };
        if self.lines >= LINES_MAX {
            *self = Self::begin(&self.path, cloud)?;
            return Ok(());
        }
        self.file.write_all(&line(&changed)?)?;
        self.lines += 1;
        Ok(())
    }
}

fn line(line: &JournalLine) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn read_back(cloud: &mut SimulatedCloud, file: File, now: Timestamp) -> io::Result<()> {
    let mut reader = BufReader::new(file);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        reader.read_until(b'\n', &mut bytes)?;
        if bytes.last() != Some(&b'\n') {
            return Ok(());
        }
        let line: JournalLine = serde_json::from_slice(&bytes)?;
        cloud.restore(now, line).map_err(io::Error::other)?;
    }
}
