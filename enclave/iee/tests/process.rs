//! The program: frames in, frames out, and an end with a reason.
#![allow(clippy::unwrap_used)]

use arras_protocol::codec::encode;
use arras_protocol::iee::{AskId, FRAME_BYTES_MAX, Incoming, Outgoing, StateName, counter_value};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use std::fs::{Permissions, metadata, read, set_permissions, write};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

struct Process {
    child: Child,
    folder: TempDir,
}

impl Process {
    fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    fn start_in(folder: TempDir) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arras-enclave"));
        command.arg("--sealing-key").arg(folder.path().join("key"));
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: piped.spawn().unwrap(), folder }
    }

    fn send(&mut self, body: &[u8]) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(&u32::try_from(body.len()).unwrap().to_le_bytes()).unwrap();
        input.write_all(body).unwrap();
        input.flush().unwrap();
    }

    fn next(&mut self) -> Outgoing {
        let output = self.child.stdout.as_mut().unwrap();
        let mut length = [0; 4];
        output.read_exact(&mut length).unwrap();
        let mut body = vec![0; u32::from_le_bytes(length) as usize];
        output.read_exact(&mut body).unwrap();
        Outgoing::decode(&body).unwrap()
    }

    /// Launches it and gives it a certificate; what it reads the counter under.
    fn launch(&mut self) -> AskId {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec().into();
        self.send(&encode(&Incoming::Launch {
            memory_bytes: 32 << 20,
            administrator: "ada".into(),
            authority,
        }));
        let Outgoing::Attest { debug: false, .. } = self.next() else { panic!() };
        self.send(&encode(&Incoming::Certificate(vec![1; 300].into())));
        let Outgoing::ReadCounter(ask) = self.next() else { panic!() };
        ask
    }

    /// Ends its input: whether it ends well, and what it said.
    fn end(mut self) -> (bool, String) {
        drop(self.child.stdin.take());
        let ended = self.child.wait_with_output().unwrap();
        (ended.status.success(), String::from_utf8(ended.stderr).unwrap())
    }
}

#[test]
fn it_starts_says_so_and_ends_with_its_input() {
    let mut process = Process::start();
    let ask = process.launch();
    process.send(&encode(&Incoming::Answer { ask, bytes: counter_value(0) }));
    for expected in [StateName::Head, StateName::Log(1)] {
        let Outgoing::Load { ask, name } = process.next() else { panic!() };
        assert_eq!(name, expected);
        process.send(&encode(&Incoming::Answer { ask, bytes: None }));
    }
    let Outgoing::Save { ask, name: StateName::Log(1), .. } = process.next() else { panic!() };
    process.send(&encode(&Incoming::Answer { ask, bytes: None }));
    let Outgoing::RaiseCounter { ask, from: 0, .. } = process.next() else { panic!() };
    process.send(&encode(&Incoming::Answer { ask, bytes: counter_value(0) }));
    assert_eq!(process.next(), Outgoing::Ready);
    let (well, said) = process.end();
    assert!(well && said.starts_with("Warning"), "{said}");
}

/// What of its status the operating system shows.
fn status(process: &Process, of: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap();
    line.trim_start_matches(':').trim().to_owned()
}

#[test]
fn it_runs_behind_its_walls() {
    let mut process = Process::start();
    process.launch();
    // A filter, and no way to gain rights by a program.
    assert_eq!((status(&process, "Seccomp").as_str(), status(&process, "NoNewPrivs").as_str()), ("2", "1"));
    assert!(!status(&process, "Uid").split_whitespace().any(|user| user == "0"));
    assert!(process.end().0);
}

#[test]
fn what_is_no_frame_or_a_lie_ends_it_with_the_reason() {
    let mut process = Process::start();
    process.send(&[0xff; 9]);
    let (well, said) = process.end();
    assert!(!well && said.contains("not a message"), "{said}");
    let mut process = Process::start();
    process.child.stdin.as_mut().unwrap().write_all(&(FRAME_BYTES_MAX as u32 + 1).to_le_bytes()).unwrap();
    let (well, said) = process.end();
    assert!(!well && said.contains("not a message"), "{said}");
    let mut process = Process::start();
    let ask = process.launch();
    process.send(&encode(&Incoming::Answer { ask, bytes: None }));
    let (well, said) = process.end();
    assert!(!well && said.contains("was not asked"), "{said}");
}

#[test]
fn without_the_option_it_takes_no_client() {
    let ended = Command::new(env!("CARGO_BIN_EXE_arras-enclave")).output().unwrap();
    assert!(!ended.status.success());
}

#[test]
fn its_sealing_key_is_made_once_and_is_its_owners() {
    let key = |process: &Process| process.folder.path().join("key");
    let process = Process::start();
    let path = key(&process);
    while !path.exists() || metadata(&path).unwrap().len() < 32 {
        std::thread::yield_now();
    }
    assert_eq!(metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let first = read(&path).unwrap();
    let Process { mut child, folder } = process;
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let again = Process::start_in(folder);
    assert_eq!(read(&path).unwrap(), first);
    let Process { mut child, folder } = again;
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let (well, said) = Process::start_in(folder).end();
    assert!(!well && said.contains("others than its owner"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    write(folder.path().join("key"), "short").unwrap();
    set_permissions(folder.path().join("key"), Permissions::from_mode(0o600)).unwrap();
    assert!(!Process::start_in(folder).end().0);
}
