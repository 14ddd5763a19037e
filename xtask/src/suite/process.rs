//! Child processes that never outlive their use: each leads a process group, which is stopped when its handle
//! is dropped and when this process is told to stop.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Leaders of the groups that run.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Set once this process was told to stop: nothing is started any more.
static STOPPING: AtomicBool = AtomicBool::new(false);

/// How long a process may take to stop before it is killed.
const STOP: Duration = Duration::from_secs(10);

/// How long a server may take to say where it listens.
const START: Duration = Duration::from_secs(300);

/// How often a long step says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// A command that has printed nothing for so long is stuck, on a machine of any speed: what it started is killed, it says
/// so and goes on with the rest.
const STUCK: Duration = Duration::from_secs(15 * 60);

/// On ctrl-C and on a polite kill, stops what was started and ends.
///
/// # Errors
/// If the handler cannot be set.
pub(super) fn stop_children_on_signals() -> Result<(), String> {
    let stop = || {
        STOPPING.store(true, Ordering::SeqCst);
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            for leader in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                // A group that is gone is what is wanted.
                let _ = killpg(Pid::from_raw(*leader), signal);
            }
            std::thread::sleep(Duration::from_secs(2));
        }
        std::process::exit(130);
    };
    ctrlc::set_handler(stop).map_err(|error| format!("cannot catch ctrl-C: {error}"))
}

/// A running process and its children.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
}

impl Group {
    /// Starts `command` as the leader of a group of its own.
    pub(super) fn start(command: &mut Command) -> Result<Self, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        // Held while starting, so that a stop either sees the new group or prevents it.
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if STOPPING.load(Ordering::SeqCst) {
            return Err("stopped".into());
        }
        let child =
            command.process_group(0).spawn().map_err(|error| format!("cannot run {name}: {error}"))?;
        running.insert(leader(&child));
        Ok(Self { child })
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| format!("cannot wait: {error}"))
    }

    /// Kills what the leader started, and nothing else.
    fn kill_children(&self) {
        let id = leader(&self.child);
        // One list for each of its threads.
        let threads = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
                // One that is gone is what is wanted.
                let _ = kill(Pid::from_raw(child), Signal::SIGKILL);
            }
        }
    }

    fn signal(&self, signal: Signal) {
        // A group that is gone is what is wanted.
        let _ = killpg(Pid::from_raw(leader(&self.child)), signal);
    }
}

fn leader(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap_or(i32::MAX)
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut ended = self.ended();
        if let Ok(None) = ended {
            self.signal(Signal::SIGTERM);
            let deadline = Instant::now() + STOP;
            while matches!(ended, Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
                ended = self.ended();
            }
        }
        // Whatever the leader left behind, or the leader itself.
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&leader(&self.child));
    }
}

/// How a command ended, and everything it printed.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) success: bool,
    pub(super) output: String,
}

impl Finished {
    /// The last lines printed.
    pub(super) fn tail(&self, lines: usize) -> String {
        let all: Vec<&str> = self.output.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// Runs a command to its end without input, its output into the file `log`.
pub(super) fn finish(command: &mut Command, log: &Path) -> Result<Finished, String> {
    let file = create(log)?;
    let errors = file.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    let mut group = Group::start(command.stdin(Stdio::null()).stdout(file).stderr(errors))?;
    let begun = Instant::now();
    let mut spoken = begun;
    let mut silent = (0, begun);
    let status = loop {
        if let Some(status) = group.ended()? {
            break status;
        }
        let printed = std::fs::metadata(log).map_or(0, |file| file.len());
        if printed != silent.0 {
            silent = (printed, Instant::now());
        } else if silent.1.elapsed() >= STUCK {
            println!("    silent for {} s: killed", STUCK.as_secs());
            group.kill_children();
            silent.1 = Instant::now();
        }
        if spoken.elapsed() >= HEARTBEAT {
            spoken = Instant::now();
            let output = read(log)?;
            let last = output.lines().next_back().unwrap_or_default().trim();
            println!("    {} s: {last}", begun.elapsed().as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    Ok(Finished { success: status.success(), output: read(log)? })
}

fn create(log: &Path) -> Result<File, String> {
    let folder = log.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    File::create(log).map_err(|error| format!("{}: {error}", log.display()))
}

fn read(log: &Path) -> Result<String, String> {
    let bytes = std::fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A server that said where it listens; stopped when dropped.
#[derive(Debug)]
pub(super) struct Server {
    /// What followed `announcement` on the line.
    pub(super) address: String,
    _group: Group,
}

impl Server {
    /// Starts `command` and waits for a line on its standard output that contains `announcement`. Its output
    /// goes to `log`. Its standard input stays open as long as the server is held.
    pub(super) fn start(
        command: &mut Command,
        announcement: &'static str,
        log: &Path,
    ) -> Result<Self, String> {
        let mut file = create(log)?;
        let errors = file.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        let mut group = Group::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors))?;
        let output = group.child.stdout.take().ok_or("the server has no output")?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // A log that cannot be written must not stop the server's output from being read.
                let _ = writeln!(file, "{line}");
                if let Some((_, address)) = line.split_once(announcement) {
                    let _ = sender.send(address.trim().to_owned());
                }
            }
        });
        match receiver.recv_timeout(START) {
            Ok(address) => Ok(Self { address, _group: group }),
            Err(_) => {
                drop(group);
                let output = Finished { success: false, output: read(log)? };
                Err(format!(
                    "the server did not say where it listens:\n{}\nlog: {}",
                    output.tail(20),
                    log.display()
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_a_stuck_command_runs_is_killed_and_the_command_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 100000; echo went on"]).stdout(create(&log).unwrap());
        let mut group = Group::start(&mut command).unwrap();
        let status = loop {
            group.kill_children();
            match group.ended().unwrap() {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        assert!(status.success());
        assert_eq!(read(&log).unwrap().lines().next_back(), Some("went on"));
    }
}
