//! Host and enclave as child processes.

use crate::failure::Failure;
use crate::storage::Storage;
use arras_attestation::folder::AUTHORITY;
use serde::Deserialize;
use std::collections::VecDeque;
use std::env;
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::ops::Sub;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Who asks the enclave: it may make collections.
pub(crate) const ADMINISTRATOR: &str = "administrator";

/// How long the host of a run that was killed may take to end.
const ENDING: Duration = Duration::from_secs(30);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);
/// The host's exit codes if another host has its folder, and if the folder cannot be used.
const IN_USE: i32 = 6;
const UNUSABLE: i32 = 4;
/// How long a host that has closed its connections may take to end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The file in the store's folder with the key by which the host vouches for the enclave.
const ROOT: &str = "development-root";

/// A running host, which runs the enclave. It ends with this process, however that ends: its standard input is closed then.
pub(crate) struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    said: Said,
    /// The enclave's program.
    pub(crate) enclave: PathBuf,
    /// The file with the public key by which the host vouches for the enclave.
    pub(crate) root: PathBuf,
    /// Where it listens.
    pub(crate) address: String,
}

impl Host {
    /// Starts host and enclave on a folder, with entries where `storage` says, and waits until clients are listened to.
    pub(crate) fn start(folder: &Path, storage: &Storage) -> Result<Self, Failure> {
        let (program, enclave) = (find("arras-host")?, find("arras-enclave")?);
        let end = Instant::now() + ENDING;
        loop {
            match Self::try_start(&program, &enclave, folder, storage) {
                // The host of a run that was killed is about to end: nobody else uses this store, whose lock is ours.
                Ok(Err((IN_USE, _))) if Instant::now() < end => thread::sleep(PAUSE),
                Ok(Ok(host)) => return Ok(host),
                Ok(Err((code, why))) => return Err(ended(code, "did not start", why)),
                Err(error) => return Err(Failure::Process(format!("{}: {error}", program.display()))),
            }
        }
    }

    /// Starts them; the exit code if the host ends instead, and why.
    fn try_start(
        program: &Path,
        enclave: &Path,
        folder: &Path,
        storage: &Storage,
    ) -> io::Result<Result<Self, (i32, Why)>> {
        let mut command = Command::new(program);
        command.args(["--stop-with-stdin", "--listen", "127.0.0.1:0"]);
        // Beside it the host writes the public key, by which the client then knows the enclave's evidence.
        command.arg("--development-root").arg(folder.with_file_name(ROOT));
        command.arg("--authority").arg(folder.with_file_name("client").join(AUTHORITY));
        command.arg("--enclave-argument=--sealing-key");
        // The host keeps no key: this file is the enclave's own.
        command.arg("--enclave-argument").arg(folder.with_file_name("enclave-key"));
        command.args(["--administrator", ADMINISTRATOR]).arg("--enclave").arg(enclave);
        command.arg("--data-dir").arg(folder);
        storage.tell(&mut command);
        if env::var_os("RUST_LOG").is_none() {
            command.env("RUST_LOG", "warn");
        }
        // A ctrl-C at the terminal is for this process, which lets what is under way come to its end.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let said = Said::of(child.stderr.take().ok_or_else(|| io::Error::other("it has no errors"))?);
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
        let mut stdout = BufReader::new(stdout).lines();
        for line in &mut stdout {
            if let Some(address) = line?.strip_prefix("listening on ") {
                let root = folder.with_file_name(ROOT).with_extension("public");
                let address = address.trim().to_owned();
                return Ok(Ok(Self { child, stdin, stdout, said, enclave: enclave.into(), root, address }));
            }
        }
        let code = child.wait()?.code().unwrap_or(1);
        Ok(Err((code, said.last())))
    }

    /// Why a command failed: if the host has ended, for that reason.
    pub(crate) fn explained(&mut self, failure: Failure) -> Failure {
        if !failure.is_of_the_connection() {
            return failure;
        }
        let end = Instant::now() + LAST_WORDS;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    let mut why = self.said.last();
                    if let Some(signal) = status.signal() {
                        why.text = format!("killed by signal {signal}");
                    }
                    return ended(status.code().unwrap_or(1), "has ended", why);
                }
                Ok(None) => thread::sleep(PAUSE / 10),
                Err(_) => break,
            }
        }
        failure
    }

    /// What the host has seen since it was started, by its own counts.
    pub(crate) fn seen(&mut self) -> io::Result<Seen> {
        let ended = || io::Error::other("the host has ended");
        writeln!(self.stdin.as_mut().ok_or_else(ended)?, "seen")?;
        for line in &mut self.stdout {
            if let Some(counts) = line?.strip_prefix("seen ") {
                return Ok(serde_json::from_str(counts)?);
            }
        }
        Err(ended())
    }
}

/// What host and enclave say on standard error: passed on, and the last of it kept.
struct Said {
    lines: Arc<Mutex<VecDeque<String>>>,
    reading: Mutex<Option<JoinHandle<()>>>,
}

impl Said {
    fn of(stderr: ChildStderr) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&lines);
        let reading = thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                // A terminal that is gone is no reason to stop reading.
                let _ = writeln!(io::stderr(), "{line}");
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_back(line);
                if kept.len() > LINES_KEPT {
                    kept.pop_front();
                }
            }
        });
        Self { lines, reading: Mutex::new(Some(reading)) }
    }

    /// Of a host that has ended, why: what the enclave said as it ended, or else the last error in the host's log, or the host's own words.
    fn last(&self) -> Why {
        let reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner).take();
        reading.into_iter().for_each(|reading| drop(reading.join()));
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let of_log = |line: &&String| line.contains(" ERROR ");
        let enclave = lines.iter().rev().find_map(|line| line.strip_prefix("The enclave ends: "));
        let logged = || lines.iter().rev().find(of_log).and_then(|line| Some(line.split_once(" ERROR ")?.1));
        let host = || lines.iter().rev().find_map(|line| line.strip_prefix("arras-host: "));
        let why = enclave.or_else(logged).or_else(host).unwrap_or("its own message is above");
        Why { is_of_the_enclave: enclave.is_some(), text: why.trim_end_matches('.').to_owned() }
    }
}

/// Lines that are kept of what a host says.
const LINES_KEPT: usize = 20;

/// Why a host has ended.
struct Why {
    text: String,
    /// The enclave ended first: what it was given to begin with is not what it has kept.
    is_of_the_enclave: bool,
}

/// The failure that a host has ended.
fn ended(code: i32, what: &'static str, why: Why) -> Failure {
    let is_of_the_store = why.is_of_the_enclave || matches!(code, IN_USE | UNUSABLE);
    let advice = if why.is_of_the_enclave { RESTORED } else { "" };
    Failure::Host { what, why: why.text, advice, is_of_the_store }
}

/// What to do where an enclave does not go on from what is kept.
const RESTORED: &str = "; if the store's folder was restored or changed, put all of it back from one backup, or index anew into \
                        another store";

/// Counts of what has passed through a host's hands.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Messages to the enclave, and their bytes.
    pub(crate) requests: u64,
    pub(crate) request_bytes: u64,
    /// Messages from it: each is a page of results.
    pub(crate) replies: u64,
    pub(crate) reply_bytes: u64,
    /// Batches of entries that were asked for.
    pub(crate) questions: u64,
    /// Entries that were read.
    pub(crate) entries_read: u64,
    pub(crate) entry_bytes_read: u64,
    /// Pieces of the enclave's sealed state that were read, and their bytes.
    pub(crate) states_read: u64,
    pub(crate) state_bytes_read: u64,
}

impl Sub for Seen {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            request_bytes: self.request_bytes.saturating_sub(before.request_bytes),
            replies: self.replies.saturating_sub(before.replies),
            reply_bytes: self.reply_bytes.saturating_sub(before.reply_bytes),
            questions: self.questions.saturating_sub(before.questions),
            entries_read: self.entries_read.saturating_sub(before.entries_read),
            entry_bytes_read: self.entry_bytes_read.saturating_sub(before.entry_bytes_read),
            states_read: self.states_read.saturating_sub(before.states_read),
            state_bytes_read: self.state_bytes_read.saturating_sub(before.state_bytes_read),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // A child of one's own can be waited for.
        let _ = self.child.wait();
    }
}

/// An executable beside this one, or on the path.
fn find(name: &str) -> Result<PathBuf, Failure> {
    let own = env::current_exe().map_err(|error| Failure::Process(error.to_string()))?;
    let beside = own.with_file_name(name);
    if beside.is_file() {
        return Ok(beside);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| {
        let own = own.display();
        Failure::Process(format!(
            "{name} is neither beside {own} nor on the path; build it with: cargo build --release -p arras-host -p arras-iee"
        ))
    })
}
