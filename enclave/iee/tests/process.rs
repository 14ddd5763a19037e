//! The program: frames in, frames out, and an end with a reason.
#![allow(clippy::unwrap_used)]

use arras_primitives::aead::Aead;
use arras_protocol::Blob;
use arras_protocol::codec::encode;
use arras_protocol::iee::{AskId, FRAME_BYTES_MAX, Fault, Incoming, Outgoing, StateName, counter_value};
use arras_schemes::bisen::channel::binding;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use std::ffi::OsStr;
use std::fs::{
    File, Permissions, create_dir, metadata, read, read_to_string, remove_file, set_permissions, write,
};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, spawn};
use tempfile::TempDir;

fn authority() -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

struct Process {
    child: Child,
    folder: TempDir,
}

impl Process {
    fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    fn start_in(folder: TempDir) -> Self {
        let key = folder.path().join("key");
        Self::start_with(&[OsStr::new("--sealing-key"), key.as_ref()], folder)
    }

    fn start_with(arguments: &[&OsStr], folder: TempDir) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arras-enclave"));
        command.args(arguments);
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
        self.begin(&authority());
        let Outgoing::Attest { debug: false, quote, .. } = self.next() else { panic!() };
        assert!(quote.is_empty(), "a process has no quote");
        self.certify()
    }

    /// The first record of one that has no state, whose counter it reads.
    fn first(&mut self, ask: AskId) -> Vec<u8> {
        self.send(&encode(&Incoming::Answer { ask, bytes: counter_value(0) }));
        for _ in [StateName::Head, StateName::Log(1)] {
            let Outgoing::Load { ask, .. } = self.next() else { panic!() };
            self.send(&encode(&Incoming::Answer { ask, bytes: None }));
        }
        let Outgoing::Save { state, .. } = self.next() else { panic!() };
        state.0
    }

    /// Launches it.
    fn begin(&mut self, authority: &[u8]) {
        self.send(&encode(&Incoming::Launch {
            memory_bytes: 32 << 20,
            administrator: "ada".into(),
            authority: authority.to_vec().into(),
        }));
    }

    /// Gives it a certificate; what it reads the counter under.
    fn certify(&mut self) -> AskId {
        self.send(&encode(&Incoming::Certificate(vec![1; 300].into())));
        let Outgoing::ReadCounter(ask) = self.next() else { panic!() };
        ask
    }

    /// Ends its input: the code that it ends with, without a word.
    fn code(mut self) -> i32 {
        drop(self.child.stdin.take());
        let ended = self.child.wait_with_output().unwrap();
        assert_eq!((ended.stdout, ended.stderr), (Vec::new(), Vec::new()));
        ended.status.code().unwrap()
    }

    /// The same: whether it ends well, and what it said.
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
    status_of(process.child.id(), of)
}

fn status_of(process: u32, of: &str) -> String {
    let status = read_to_string(format!("/proc/{process}/status")).unwrap();
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

/// Gramine's files, played by those of a folder: a processor's sealing key, what was to be bound at another time, and a pipe as the quote, which is opened
/// when both its ends are.
fn gramine(processor: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |file: &str| folder.path().join(file);
    create_dir(at("keys")).unwrap();
    write(at("keys/_sgx_mrenclave"), processor).unwrap();
    write(at("user_report_data"), [0xff; 64]).unwrap();
    assert!(Command::new("mkfifo").arg(at("quote")).status().unwrap().success());
    folder
}

/// Gives one quote, once it is asked for; what was to be bound then.
fn quoted(folder: &Path, quote: &'static [u8]) -> JoinHandle<Vec<u8>> {
    let [pipe, data] = ["quote", "user_report_data"].map(|file| folder.join(file));
    spawn(move || {
        let mut pipe = File::options().write(true).open(pipe).unwrap();
        let data = read(data).unwrap();
        pipe.write_all(quote).unwrap();
        data
    })
}

fn under_gramine(folder: TempDir) -> Process {
    let path = folder.path().to_owned();
    Process::start_with(&[OsStr::new("--gramine"), path.as_ref()], folder)
}

/// One that has its quote and a certificate; what it reads the counter under.
fn certified(processor: &[u8], authority: &[u8]) -> (Process, AskId) {
    let folder = gramine(processor);
    let asked = quoted(folder.path(), b"a quote");
    let mut process = under_gramine(folder);
    process.begin(authority);
    let Outgoing::Attest { quote, .. } = process.next() else { panic!() };
    assert_eq!(quote.as_slice(), b"a quote");
    asked.join().unwrap();
    let ask = process.certify();
    (process, ask)
}

#[test]
fn under_gramine_it_asks_for_a_quote_of_what_it_has_written() {
    let folder = gramine(&[7; 16]);
    let asked = quoted(folder.path(), b"a quote");
    let (mut process, authority) = (under_gramine(folder), authority());
    process.begin(&authority);
    // It has no walls, which nobody else's evidence may leave unsaid.
    let Outgoing::Attest { public, binding: bound, debug: true, quote, .. } = process.next() else {
        panic!()
    };
    assert_eq!(quote.as_slice(), b"a quote");
    assert_eq!(asked.join().unwrap(), [bound, [0; 32]].concat());
    assert_eq!(bound, binding(public.as_slice(), &authority, "ada"));
    // Gramine has no call for them: it has the filters of who started it.
    assert_eq!(status(&process, "Seccomp_filters"), status_of(std::process::id(), "Seccomp_filters"));
    process.certify();
    assert_eq!(process.code(), 0);
}

#[test]
fn under_gramine_its_sealing_key_is_the_processor_s() {
    let authority = authority();
    let (mut process, ask) = certified(&[7; 16], &authority);
    let state = Blob(process.first(ask));
    let again = |processor: u8| {
        let (mut process, ask) = certified(&[processor; 16], &authority);
        process.send(&encode(&Incoming::Answer { ask, bytes: counter_value(0) }));
        for bytes in [None, Some(state.clone())] {
            let Outgoing::Load { ask, .. } = process.next() else { panic!() };
            process.send(&encode(&Incoming::Answer { ask, bytes }));
        }
        process
    };
    let mut same = again(7);
    let Outgoing::Load { name: StateName::Log(2), .. } = same.next() else { panic!() };
    assert_eq!(same.code(), 0);
    assert_eq!(again(8).code(), i32::from(Fault::StateAltered.code()));
}

/// Known answers of a second implementation: the key of the state, from what the processor gives and from what a file has. With another
/// derivation an enclave could not open what it has sealed before.
#[test]
fn its_state_is_sealed_by_keys_of_a_second_implementation() {
    let text = read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kat/sealing_keys.txt")).unwrap();
    let cases: Vec<_> = text.split("\n\n").filter(|case| case.contains("processor: ")).collect();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let field = |name: &str| {
            let line = case.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let digits = line.unwrap().as_bytes().chunks(2);
            digits
                .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect::<Vec<u8>>()
        };
        let state = Aead::new(&field("state").try_into().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        write(&key, field("sealing")).unwrap();
        set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let mut process = Process::start_in(folder);
        let ask = process.launch();
        for (mut process, ask) in [certified(&field("processor"), &authority()), (process, ask)] {
            let sealed = process.first(ask);
            let format = sealed.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            let (format, sealed) = sealed.split_at(format);
            // The first record, behind none.
            let place = [&1_u64.to_be_bytes()[..], &[0; 16]].concat();
            state.open(&[format, b"log", &place].concat(), sealed).unwrap();
            assert!(process.end().0);
        }
    }
}

#[test]
fn under_gramine_what_is_missing_has_its_name_and_ends_it() {
    let ended = |change: &dyn Fn(&Path)| {
        let folder = gramine(&[7; 16]);
        change(folder.path());
        let mut process = under_gramine(folder);
        // It may have ended before it hears of this.
        let launch = encode(&Incoming::Launch {
            memory_bytes: 32 << 20,
            administrator: "ada".into(),
            authority: authority().into(),
        });
        let input = process.child.stdin.as_mut().unwrap();
        let _ = input.write_all(&[&(launch.len() as u32).to_le_bytes()[..], &launch].concat());
        Fault::of_code(process.code())
    };
    assert_eq!(ended(&|folder| std::fs::remove_dir_all(folder).unwrap()), Some(Fault::NoSealingKey));
    let short = |folder: &Path| write(folder.join("keys/_sgx_mrenclave"), [7; 15]).unwrap();
    assert_eq!(ended(&short), Some(Fault::NoSealingKey));
    let without = |file: &str| ended(&|folder| remove_file(folder.join(file)).unwrap());
    assert_eq!(without("quote"), Some(Fault::NoQuote));
    // Nor does it make a file: what would be a quote is offered.
    let nowhere = |folder: &Path| {
        remove_file(folder.join("user_report_data")).unwrap();
        drop(quoted(folder, b"a quote"));
    };
    assert_eq!(ended(&nowhere), Some(Fault::NoQuote));
}

#[test]
fn under_gramine_there_are_no_walls_to_leave_out() {
    let folder = gramine(&[7; 16]);
    let path = folder.path().to_owned();
    let (well, said) =
        Process::start_with(&[OsStr::new("--gramine"), path.as_ref(), OsStr::new("--debug")], folder).end();
    assert!(!well && said.starts_with("Expected"), "{said}");
}
