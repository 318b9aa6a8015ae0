//! The file that a simulated cloud of its own process survives its restarts by.
//!
//! Lines of JSON, each what one step changed, written before the step is answered. Not synced: what is survived is
//! the end of the process, not of the machine, and the file system keeps what a killed process has written. A last
//! line that was cut short was never answered for, and is dropped.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::engine::{JournalLine, SimulatedCloud};

/// After how many lines the journal is written anew. Small enough that a start reads at most some megabytes beyond
/// the cloud itself; large enough that the rewriting is not felt.
const LINES_MAX: usize = 50_000;

const PRIVATE_FILE: u32 = 0o600;

/// A cloud's journal, open at its end.
pub struct Journal {
    path: PathBuf,
    file: File,
    lines: usize,
    lines_max: usize,
}

impl Journal {
    /// Reads a cloud back from its file, or begins a new one with this seed.
    pub fn open(path: &Path, seed: u64, now: Timestamp) -> io::Result<(SimulatedCloud, Self)> {
        Self::open_bounded(path, seed, now, LINES_MAX)
    }

    fn open_bounded(path: &Path, seed: u64, now: Timestamp, lines_max: usize) -> io::Result<(SimulatedCloud, Self)> {
        let mut cloud = SimulatedCloud::new(seed);
        match File::open(path) {
            Ok(file) => read_back(&mut cloud, file, now)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let journal = Self::begin(path, &cloud, lines_max)?;
        Ok((cloud, journal))
    }

    /// Writes the cloud into a new file and puts it in the place of the old one.
    fn begin(path: &Path, cloud: &SimulatedCloud, lines_max: usize) -> io::Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        // It holds what guests are started with: its owner's alone, whatever an earlier version left there.
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(PRIVATE_FILE).open(&beside)?;
        file.set_permissions(Permissions::from_mode(PRIVATE_FILE))?;
        file.write_all(&line(&cloud.whole())?)?;
        std::fs::rename(&beside, path)?;
        Ok(Self { path: path.to_owned(), file, lines: 1, lines_max })
    }

    /// Writes what has changed since the last time, if anything has.
    pub fn write(&mut self, cloud: &mut SimulatedCloud) -> io::Result<()> {
        let Some(changed) = cloud.take_journal_line() else { return Ok(()) };
        if self.lines >= self.lines_max {
            *self = Self::begin(&self.path, cloud, self.lines_max)?;
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

#[cfg(test)]
mod tests {
    use super::super::call::{Call, Caller};
    use super::super::engine::faults::{Effect, Fault};
    use super::super::objects::Body;
    use super::super::testing::{TemporaryFile, new_object, object, request};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    /// Some calls of every outcome, with their journal written as the faces do it.
    fn live(cloud: &mut SimulatedCloud, journal: &mut Journal, random: &mut fastrand::Rng, turns: i64) {
        let mut made = Vec::new();
        for turn in 0..turns {
            let call = match made.pop() {
                Some((kind, id)) if random.bool() => Call::Delete { kind, id },
                _ => new_object(random.u128(0..9), Body::Project),
            };
            let stuck = Effect::StuckDelete { for_ms: None };
            let effect = matches!(call, Call::Delete { .. }).then_some(&stuck).filter(|_| random.u8(..) < 30);
            let mut request = request(call);
            request.caller = Caller { name: format!("shard-{}", turn % 3), epoch: 5 };
            let result = cloud.perform(at(turn), &request, effect).result;
            if matches!(request.call, Call::Create { .. }) {
                let object = object(result);
                made.push((object.kind(), object.id));
            }
            journal.write(cloud).expect("written");
        }
    }

    #[test]
    fn a_cloud_is_read_back_as_it_was_and_goes_on_without_repeating_an_id() {
        let file = TemporaryFile::new("journal");
        let mut random = fastrand::Rng::with_seed(3);
        let (mut cloud, mut journal) = Journal::open(file.path(), 1, at(0)).expect("opened");
        cloud.add_faults(vec![Fault::once("create-user", Effect::Hang)]).expect("added");
        live(&mut cloud, &mut journal, &mut random, 200);
        let (mut again, mut journal) = Journal::open(file.path(), 99, at(0)).expect("opened");
        assert_eq!(again.whole(), cloud.whole());
        live(&mut again, &mut journal, &mut random, 50);
        let creates = |cloud: &SimulatedCloud| cloud.creations().creations.iter().map(|c| c.count.created).sum::<u64>();
        let calls = |cloud: &SimulatedCloud| cloud.calls_after(0).len();
        assert_eq!(calls(&again), calls(&cloud) + 50, "the log goes on");
        assert!(creates(&again) > creates(&cloud), "so does the book of creations");
        let sequences: Vec<u64> = again.calls_after(0).iter().map(|call| call.sequence).collect();
        assert!(sequences.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn a_line_that_was_cut_short_is_dropped_and_the_rest_stands() {
        let file = TemporaryFile::new("torn");
        let (mut cloud, mut journal) = Journal::open(file.path(), 1, at(0)).expect("opened");
        live(&mut cloud, &mut journal, &mut fastrand::Rng::with_seed(3), 20);
        let before = cloud.whole();
        live(&mut cloud, &mut journal, &mut fastrand::Rng::with_seed(4), 1);
        let bytes = std::fs::read(file.path()).expect("read");
        std::fs::write(file.path(), &bytes[..bytes.len() - 5]).expect("written");
        let (again, _) = Journal::open(file.path(), 1, at(0)).expect("opened");
        assert_eq!(again.whole(), before);
        let mode = std::fs::metadata(file.path()).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, PRIVATE_FILE);
    }

    #[test]
    fn a_file_that_is_not_a_journal_is_refused() {
        let file = TemporaryFile::new("foreign");
        std::fs::write(file.path(), "hello\n").expect("written");
        assert!(Journal::open(file.path(), 1, at(0)).is_err());
    }

    #[test]
    fn the_file_is_written_anew_before_it_grows_without_end() {
        let file = TemporaryFile::new("bounded");
        let (mut cloud, mut journal) = Journal::open_bounded(file.path(), 1, at(0), 10).expect("opened");
        for turn in 0..100 {
            live(&mut cloud, &mut journal, &mut fastrand::Rng::with_seed(turn), 1);
            let lines = std::fs::read_to_string(file.path()).expect("read").lines().count();
            assert!(lines <= 10, "{lines} lines");
        }
        let (again, _) = Journal::open(file.path(), 1, at(0)).expect("opened");
        assert_eq!(again.whole(), cloud.whole());
    }
}
