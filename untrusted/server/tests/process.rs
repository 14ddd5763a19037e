//! The server as a process: what it prints, what it exits with, how it stops.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A directory with certificates in `c`; the data goes to `d`.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let certificates = directory.path().join("c");
        fs::create_dir(&certificates).unwrap();
        let authority_private = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "test authority");
        let authority_pem = authority.self_signed(&authority_private).unwrap().pem();
        let issuer = Issuer::new(authority, authority_private);
        let private = KeyPair::generate().unwrap();
        let mut server = CertificateParams::new(vec!["arras-server".to_owned()]).unwrap();
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_pem = server.signed_by(&private, &issuer).unwrap().pem();
        for (name, text) in
            [("ca.pem", authority_pem), ("server.pem", server_pem), ("server.key", private.serialize_pem())]
        {
            let path = certificates.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The command with everything it needs, on a free port.
    fn command(&self) -> Command {
        let mut command = server();
        command.args(["--listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(self.path("d")).arg("--certificates").arg(self.path("c"));
        command
    }
}

fn server() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arras-server"));
    command.env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running server, killed if a test fails.
struct Running {
    child: Child,
    address: SocketAddr,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").map(str::parse);
        let Some(Ok(address)) = address else {
            let _ = child.kill();
            let mut log = String::new();
            child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
            panic!("{line:?}: {log}");
        };
        Self { child, address }
    }

    /// Sends a signal by name; returns the exit code and the log.
    fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a server that must not start: its exit code and the one line it says.
fn fails(mut command: Command) -> (i32, String) {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let last = said.lines().last().unwrap_or_default().to_owned();
    assert!(output.stdout.is_empty());
    (output.status.code().unwrap(), last)
}

#[test]
fn it_says_where_it_listens_and_stops_cleanly_on_either_signal() {
    let place = Place::new();
    for signal in ["TERM", "INT"] {
        let running = Running::start(place.command());
        assert_ne!(running.address.port(), 0);
        // A connection that says nothing does not hold the stop up.
        let _silent = TcpStream::connect(running.address).unwrap();
        let (code, log) = running.stop(signal);
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("listening on") && log.trim_end().ends_with("stopped"), "{log}");
    }
}

#[test]
fn a_killed_server_starts_again() {
    let place = Place::new();
    for _ in 0..3 {
        let (code, _) = Running::start(place.command()).stop("KILL");
        assert_eq!(code, None);
    }
    assert_eq!(Running::start(place.command()).stop("TERM").0, Some(0));
}

#[test]
fn the_log_can_be_json() {
    let place = Place::new();
    let mut command = place.command();
    command.args(["--log-format", "json"]);
    let (_, log) = Running::start(command).stop("TERM");
    assert!(!log.is_empty());
    for line in log.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(event.get("level").is_some(), "{line}");
    }
}

#[test]
fn a_configuration_file_does_as_well() {
    let place = Place::new();
    let path = place.path("server.toml");
    fs::write(&path, "listen = '127.0.0.1:0'\ndata_dir = 'd'\ncertificates = 'c'\n").unwrap();
    let mut command = server();
    command.arg("--config").arg(&path);
    assert_eq!(Running::start(command).stop("TERM").0, Some(0));
    assert!(place.path("d").is_dir());
}

#[test]
fn two_servers_do_not_share_a_data_directory() {
    let place = Place::new();
    let running = Running::start(place.command());
    let (code, said) = fails(place.command());
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("another arras-server uses this data directory"), "{said}");
    assert_eq!(running.stop("TERM").0, Some(0));
}

#[test]
fn a_key_or_a_directory_that_others_may_use_is_refused_with_the_command_to_run() {
    let place = Place::new();
    let (key, data) = (place.path("c/server.key"), place.path("d"));
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(&key, 0o644);
    let (code, said) = fails(place.command());
    assert_eq!(code, 3, "{said}");
    assert!(said.ends_with(&format!("chmod 600 {}", key.display())), "{said}");
    open(&key, 0o600);
    fs::create_dir(&data).unwrap();
    fs::write(data.join("somebody's"), "").unwrap();
    open(&data, 0o777);
    let (code, said) = fails(place.command());
    assert_eq!(code, 4, "{said}");
    assert!(said.contains(&format!("chmod 700 {}", data.display())), "{said}");
}

#[test]
fn what_is_wrong_is_said_in_one_line_with_its_exit_code() {
    let place = Place::new();
    let missing: &Path = &place.path("nowhere");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();

    let (code, said) = fails(server());
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--"), "{said}");

    let mut no_certificates = server();
    no_certificates.arg("--data-dir").arg(place.path("d")).arg("--certificates").arg(missing);
    let (code, said) = fails(no_certificates);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("ca.pem") && said.contains("arras init"), "{said}");

    fs::write(place.path("file"), "").unwrap();
    let mut no_directory = server();
    no_directory.arg("--certificates").arg(place.path("c")).arg("--data-dir").arg(place.path("file"));
    let (code, said) = fails(no_directory);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("file"), "{said}");

    let mut address_taken = place.command();
    address_taken.args(["--listen", &taken.local_addr().unwrap().to_string()]);
    let (code, said) = fails(address_taken);
    assert_eq!(code, 2, "given twice: {said}");

    let mut address_taken = server();
    address_taken.arg("--data-dir").arg(place.path("d")).arg("--certificates").arg(place.path("c"));
    address_taken.args(["--listen", &taken.local_addr().unwrap().to_string()]);
    let (code, said) = fails(address_taken);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("cannot listen on"), "{said}");
}

#[test]
fn help_names_every_flag_and_the_exit_codes() {
    let output = server().arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for word in ["--data-dir", "--listen", "--certificates", "--ca", "--config", "--log-format", "Exit codes"]
    {
        assert!(help.contains(word), "{word}");
    }
}

/// Flips a bit in the middle of the `nth` block from the end that holds something; false if there are not so many.
fn flip_bit_from_end(file: &Path, nth: usize) -> bool {
    let mut bytes = fs::read(file).unwrap();
    let used = |block: &usize| bytes[block * 4096..][..4096].iter().any(|byte| *byte != 0);
    let Some(block) = (1..bytes.len() / 4096).rev().filter(used).nth(nth) else { return false };
    bytes[block * 4096 + 2048] ^= 1;
    fs::write(file, bytes).unwrap();
    true
}

fn verify(place: &Place) -> Command {
    let mut command = server();
    command.arg("verify").arg("--data-dir").arg(place.path("d"));
    command
}

#[test]
fn verify_names_damage_and_exits_with_it() {
    let place = Place::new();
    let (code, said) = fails(verify(&place));
    assert!(code == 4 && said.contains("no database"), "{code} {said}");
    assert_eq!(Running::start(place.command()).stop("TERM").0, Some(0));
    let output = verify(&place).output().unwrap();
    let counts = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && counts.contains("ok    meta: 2 entries"), "{counts}");
    let file = place.path("d").join("arras.redb");
    assert!(flip_bit_from_end(&file, 0));
    let (code, said) = fails(verify(&place));
    assert!(
        code == 4 && said.contains("checksum") && said.contains("restore it from a backup"),
        "{code} {said}"
    );
}

#[test]
fn a_running_server_finds_damage_that_nothing_asked_for() {
    let place = Place::new();
    for _ in 0..3 {
        assert_eq!(Running::start(place.command()).stop("TERM").0, Some(0));
    }
    let file = place.path("d").join("arras.redb");
    let kept: Vec<_> =
        ["arras.redb", "arras.sums"].map(|name| fs::read(place.path("d").join(name)).unwrap()).into();
    let mut found = false;
    for nth in 0.. {
        fs::write(&file, &kept[0]).unwrap();
        fs::write(place.path("d").join("arras.sums"), &kept[1]).unwrap();
        if !flip_bit_from_end(&file, nth) {
            break;
        }
        // Damage of what an opening needs is refused there; of what it does not, the server looks for it.
        let mut child = place.command().args(["--scrub-rate", "1000"]).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        found = log.map_while(Result::ok).any(|line| line.contains("the store's file is damaged"));
        let _ = child.kill();
        let _ = child.wait();
        if found {
            break;
        }
    }
    assert!(found, "no damage was found by a running server");
}
