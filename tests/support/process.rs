//! Processes of the real binary, for tests that end them without asking.
//!
//! What a process says is read all the time, because a pipe that nobody reads stops its writer, and is kept in a file,
//! because what a process said before it failed is all that is left of it. Whatever becomes of the test, the process
//! is ended with it: by its own handle, never by its name.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

const BINARY: &str = env!("CARGO_BIN_EXE_regent");

/// How long a start or a polite end may take. Both take a second; on a machine that builds at the same time, several.
/// A minute means that it will never come.
const PATIENCE: Duration = Duration::from_mins(1);

/// How much of the log a failure shows: enough to see what led to it.
const TAIL_LINES: usize = 40;

const SIGKILL: i32 = 9;

/// A running process.
pub struct Process {
    child: Child,
    log: PathBuf,
    announced: watch::Receiver<Option<String>>,
    readers: JoinSet<()>,
}

impl Process {
    /// Starts the binary. `announcement` is in the line by which it says that it is ready; what it says is added to
    /// the file `log`.
    pub fn spawn(arguments: &[&str], announcement: &'static str, log: &Path) -> Self {
        Self::spawn_program(BINARY, arguments, announcement, log)
    }

    /// Starts another program in the same way.
    pub fn spawn_program(program: &str, arguments: &[&str], announcement: &'static str, log: &Path) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).env("NO_COLOR", "1").kill_on_drop(true);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let file = OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        let file = Arc::new(Mutex::new(file));
        let (announce, announced) = watch::channel(None);
        let announce = Arc::new(announce);
        let mut readers = JoinSet::new();
        let output = child.stdout.take().expect("piped");
        readers.spawn(read(output, announcement, Arc::clone(&file), Arc::clone(&announce)));
        let errors = child.stderr.take().expect("piped");
        readers.spawn(read(errors, announcement, file, announce));
        Self { child, log: log.to_owned(), announced, readers }
    }

    /// Waits for the announcement and returns its line.
    pub async fn announced(&mut self) -> Result<String, String> {
        let line = tokio::time::timeout(PATIENCE, self.announced.wait_for(Option::is_some)).await;
        match line {
            Ok(Ok(line)) => Ok(line.clone().expect("waited for")),
            Ok(Err(_)) => Err(format!("the process ended before it was ready\n{}", tail(&self.log))),
            Err(_) => Err(format!("the process was not ready in {PATIENCE:?}\n{}", tail(&self.log))),
        }
    }

    /// Ends it at once. It is an error if it had ended by itself.
    pub async fn kill(mut self) -> Result<(), String> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!("the process ended by itself with {status}\n{}", tail(&self.log)));
        }
        self.child.start_kill().map_err(|error| error.to_string())?;
        let status = self.ended().await?;
        if status.signal() == Some(SIGKILL) { Ok(()) } else { Err(format!("it was to be killed, but: {status}")) }
    }

    pub async fn signal(&self, name: &str) -> Result<(), String> {
        let id = self.child.id().ok_or_else(|| format!("the process has ended\n{}", tail(&self.log)))?;
        let sent = Command::new("kill").args([format!("-{name}"), id.to_string()]).status().await;
        sent.map(drop).map_err(|error| error.to_string())
    }

    /// Asks it to end, and waits until it has.
    pub async fn terminate(mut self) -> Result<(), String> {
        self.signal("TERM").await?;
        let status = self.ended().await?;
        if status.success() { Ok(()) } else { Err(format!("it ended with {status}\n{}", tail(&self.log))) }
    }

    async fn ended(&mut self) -> Result<ExitStatus, String> {
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let status = status.map_err(|_| format!("the process did not end in {PATIENCE:?}\n{}", tail(&self.log)))?;
        // The last words too, so that the next process' words come after them.
        while self.readers.join_next().await.is_some() {}
        status.map_err(|error| error.to_string())
    }
}

async fn read(
    from: impl AsyncRead + Unpin,
    announcement: &'static str,
    log: Arc<Mutex<File>>,
    announce: Arc<watch::Sender<Option<String>>>,
) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        writeln!(log.lock().expect("not poisoned"), "{line}").expect("the log can be written");
        if line.contains(announcement) {
            announce.send_replace(Some(line));
        }
    }
}

/// The end of a log, for a failure's text.
pub fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines = text.lines().collect::<Vec<_>>();
    let last = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    format!("the end of {}:\n{last}", log.display())
}
