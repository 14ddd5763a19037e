//! A TPM in software that vouches for the host's machine, and keeps its counter.

use crate::client::Client;
use crate::deployment::Deployment;
use crate::dice::Dice;
use crate::process::{Process, run};
use arras_attestation::channel::ChannelError;
use arras_attestation::evidence::Refusal;
use arras_attestation::policy::ReleasePolicy;
use arras_host::enclave::{measure, written};
use arras_lab::private_tpm::{KEY, PrivateTpm};
use arras_search::link::OpenError;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

const REGISTERS: &str = "sha256:0,1,2,7";
const INDEX: &str = "0x1500020";

/// Kills in the midst of updates.
const KILLS: u64 = 4;

/// A policy that accepts what this TPM measures now.
fn policy(tpm: &PrivateTpm) -> ReleasePolicy {
    let values = tempfile::NamedTempFile::new().unwrap();
    tpm.said("tpm2_pcrread", &[REGISTERS, "-o", values.path().to_str().unwrap()]).unwrap();
    let digest = written(&measure(values.path()).unwrap());
    let text = format!(
        "administrator = \"ada\"\n[[accept]]\nbackend = \"tpm\"\nkey = '''{}'''\nregisters = \"{REGISTERS}\"\n\
         measurements = [\"{digest}\"]\n",
        tpm.key().unwrap()
    );
    ReleasePolicy::read(&text).unwrap()
}

fn vouched(deployment: &Deployment, tpm: &PrivateTpm, enclave_arguments: &[&str]) -> Command {
    let mut host = deployment.unvouched(enclave_arguments);
    host.arg("--authority").arg(deployment.folder.path().join("ca.pem"));
    host.args(["--tpm-key", KEY, "--tpm-registers", REGISTERS]).env("TPM2TOOLS_TCTI", tpm.tcti());
    host
}

#[test]
fn a_machine_is_vouched_for_by_its_tpm() {
    let (deployment, tpm) = (Deployment::new(), PrivateTpm::start().unwrap());
    let (host, address) = deployment.begin(vouched(&deployment, &tpm, &[]));
    let before = policy(&tpm);
    let mut ada = Client::open(&address, &deployment.client("ada", before.clone()).0).unwrap();
    let books = ada.create("books");
    ada.add(&books, &[(7, &["whale"])]);
    assert_eq!(ada.search(&books, &["whale"]), [7]);
    // Another TPM's key.
    let other = PrivateTpm::start().unwrap();
    let refused = |policy| match Client::open(&address, &deployment.client("ada", policy).0) {
        Err(OpenError::Channel(ChannelError::Refused(refusal))) => refusal,
        _ => panic!("not refused"),
    };
    assert_eq!(refused(policy(&other)), Refusal::Signature);
    host.kill();
    // Another boot.
    tpm.said("tpm2_pcrextend", &[&format!("7:sha256={}", "5a".repeat(32))]).unwrap();
    let (_host, address) = deployment.begin(vouched(&deployment, &tpm, &[]));
    match Client::open(&address, &deployment.client("ada", before).0) {
        Err(OpenError::Channel(ChannelError::Refused(Refusal::Measurement(_)))) => {}
        _ => panic!("another boot is not refused"),
    }
    let mut ada = Client::open(&address, &deployment.client("ada", policy(&tpm)).0).unwrap();
    assert_eq!(ada.search(&books, &["whale"]), [7]);
}

/// A quote does not say that the enclave can be looked into: none is made.
#[test]
fn a_tpm_vouches_for_no_enclave_in_debug_mode() {
    let (deployment, tpm) = (Deployment::new(), PrivateTpm::start().unwrap());
    let ended = run(vouched(&deployment, &tpm, &["--debug"]));
    assert!(ended.code != Some(0) && ended.stderr.contains("debug mode"), "{}", ended.stderr);
    let mut unvouched = deployment.unvouched(&[]);
    unvouched.arg("--authority").arg(deployment.folder.path().join("ca.pem"));
    let unvouched = run(unvouched);
    assert!(unvouched.code != Some(0) && unvouched.stderr.contains("--tpm-key"), "{}", unvouched.stderr);
}

/// A folder in place of another.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// A host whose counter is in the TPM.
fn counted(deployment: &Deployment, tpm: &PrivateTpm) -> Command {
    let mut host = deployment.host(&[]);
    host.args(["--tpm-counter", INDEX]).env("TPM2TOOLS_TCTI", tpm.tcti());
    host
}

fn start(deployment: &Deployment, tpm: &PrivateTpm) -> (Process, Client) {
    // What tools leave behind that end with the host, if there is any; with a kernel's TPM, its resource manager does that.
    let _ = tpm.said("tpm2_flushcontext", &["--loaded-session"]);
    let (host, address) = deployment.begin(counted(deployment, tpm));
    (host, deployment.connect(&address, "ada"))
}

#[test]
fn a_disk_that_is_restored_is_noticed() {
    let (deployment, tpm) = (Deployment::new(), PrivateTpm::start().unwrap());
    let [data, old, new] = ["data", "old", "new"].map(|name| deployment.folder.path().join(name));
    let (host, mut ada) = start(&deployment, &tpm);
    let books = ada.create("books");
    ada.add(&books, &[(1, &["whale"])]);
    host.kill();
    copy(&data, &old);
    let (host, mut ada) = start(&deployment, &tpm);
    ada.add(&books, &[(2, &["whale"])]);
    host.kill();
    copy(&data, &new);
    let refused = |what: &str| {
        let ended = run(counted(&deployment, &tpm));
        assert!(ended.code != Some(0) && ended.stderr.contains(what), "{}", ended.stderr);
    };
    // The whole disk, and the new state with the old counter.
    copy(&old, &data);
    refused("of an earlier time");
    copy(&new, &data);
    fs::copy(old.join("counter"), data.join("counter")).unwrap();
    refused("of an earlier time");
    fs::remove_file(data.join("counter")).unwrap();
    refused("the counter's file");
    // The old state under the new counter: the enclave itself says so.
    copy(&old, &data);
    fs::copy(new.join("counter"), data.join("counter")).unwrap();
    refused("set back");
    // Without the TPM the file is not taken for a counter.
    copy(&new, &data);
    let ended = run(deployment.host(&[]));
    assert!(ended.code != Some(0) && ended.stderr.contains("--tpm-counter"), "{}", ended.stderr);
    // With another, neither.
    let ended = run(counted(&deployment, &PrivateTpm::start().unwrap()));
    assert!(ended.code != Some(0) && ended.stderr.contains("another TPM"), "{}", ended.stderr);
    let (_host, mut ada) = start(&deployment, &tpm);
    assert_eq!(ada.search(&books, &["whale"]), [1, 2]);
}

#[test]
fn a_host_that_is_killed_finds_its_counter_in_the_tpm() {
    let (deployment, tpm) = (Deployment::new(), PrivateTpm::start().unwrap());
    let mut dice = Dice::new(7);
    let (mut host, mut ada) = start(&deployment, &tpm);
    let books = ada.create("books");
    let mut acknowledged: Vec<u64> = Vec::new();
    for round in 0..KILLS {
        let killed = thread::spawn({
            let wait = Duration::from_millis(dice.below(400));
            move || {
                thread::sleep(wait);
                host.kill();
            }
        });
        let mut number = round * 1000;
        while ada.ask(crate::client::addition(&books, &[(number, &["whale"])])).is_ok() {
            acknowledged.push(number);
            number += 1;
        }
        killed.join().unwrap();
        (host, ada) = start(&deployment, &tpm);
        let mut found = ada.search(&books, &["whale"]);
        // The one that was under way may be there.
        if found.last() == Some(&number) {
            acknowledged.push(number);
        }
        assert_eq!(found, acknowledged, "round {round}");
        found.clear();
    }
}
