//! Evidence of confidential machines, from what a kernel hands out to the client that judges it. There is no such machine here: what the
//! kernel would say is said by the samples of `kat/attestation`, which are signed, and so about what they were asked for.

use crate::deployment::Deployment;
use crate::process::run;
use arras_attestation::evidence::{Refusal, report_data};
use arras_attestation::policy::ReleasePolicy;
use arras_host::attestation::{Attester, Question};
use arras_host::tsm::certificates::{ASK, VCEK};
use arras_host::tsm::{Brought, Entry, Interface, TsmError, TsmReports};
use arras_protocol::evidence::Evidence;
use std::cell::Cell;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

const REPORT: &[u8] = include_bytes!("../../../kat/attestation/sev_snp_report_milan.bin");
const CHIP: &[u8] = include_bytes!("../../../kat/attestation/sev_snp_vcek_milan.der");
const BETWEEN: &[u8] = include_bytes!("../../../trusted/attestation/src/sev_snp/milan_ask.der");
const QUOTE: &[u8] = include_bytes!("../../../kat/attestation/tdx_quote.bin");
const COLLATERAL: &str = include_str!("../../../kat/attestation/tdx_quote_collateral.json");

/// When certificates and collateral held: 1 June 2024, 25 June 2025.
const SEV_SNP_NOW: u64 = 1_717_200_000;
const TDX_NOW: u64 = 1_750_809_600;

/// A kernel that hands out one report.
#[derive(Clone)]
struct Kernel {
    provider: &'static str,
    outblob: &'static [u8],
    auxblob: Vec<u8>,
    /// What it was asked to have bound.
    inblob: Arc<Mutex<Vec<u8>>>,
}

struct Played(Kernel, Cell<u64>);

impl Interface for Kernel {
    type Entry = Played;

    fn make(&self) -> Result<Played, TsmError> {
        Ok(Played(self.clone(), Cell::new(0)))
    }
}

impl Entry for Played {
    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        match file {
            "provider" => Ok(self.0.provider.into()),
            "generation" => Ok(self.1.get().to_string().into()),
            "outblob" => Ok(self.0.outblob.to_vec()),
            "auxblob" => Ok(self.0.auxblob.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn write(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        assert_eq!(file, "inblob");
        self.1.set(self.1.get() + 1);
        *self.0.inblob.lock().unwrap() = bytes.to_vec();
        Ok(())
    }
}

/// A table of the chip's certificate and that which signed it, as a hypervisor writes it.
fn table() -> Vec<u8> {
    let entry = |guid: [u8; 16], offset: usize, length: usize| {
        [&guid[..], &(offset as u32).to_le_bytes(), &(length as u32).to_le_bytes()].concat()
    };
    let entries = [entry(VCEK, 72, CHIP.len()), entry(ASK, 72 + CHIP.len(), BETWEEN.len()), vec![0; 24]];
    [&entries.concat()[..], CHIP, BETWEEN].concat()
}

fn sev_snp() -> Kernel {
    Kernel { provider: "sev_guest", outblob: REPORT, auxblob: table(), inblob: Arc::default() }
}

fn tdx() -> Kernel {
    Kernel { provider: "tdx_guest", outblob: QUOTE, auxblob: Vec::new(), inblob: Arc::default() }
}

fn written(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a sample binds.
fn bound(report: &[u8], place: usize) -> [u8; 64] {
    report[place..place + 64].try_into().unwrap()
}

fn policy(backend: &str, measurement: &str, more: &str) -> ReleasePolicy {
    let text = format!(
        "administrator = \"ada\"\n[[accept]]\nbackend = \"{backend}\"\nmeasurements = [\"{measurement}\"]\n{more}"
    );
    ReleasePolicy::read(&text).unwrap()
}

#[test]
fn a_report_of_sev_snp_comes_to_a_client_that_accepts_it() {
    let data = bound(REPORT, 0x50);
    let measured = written(&REPORT[0x90..0xc0]);
    let more = "product = \"milan\"\ntcb_min = { bootloader = 3, tee = 0, snp = 8, microcode = 115 }\nallow_smt = true";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vcek.der");
    fs::write(&file, CHIP).unwrap();
    let bare = Kernel { auxblob: Vec::new(), ..sev_snp() };
    let brought = Brought { vcek: Some(file), collateral: None };
    for reports in [TsmReports::new(sev_snp(), Brought::default()), TsmReports::new(bare, brought)] {
        // As it comes out of the enclave's certificate.
        let evidence = arras_protocol::codec::encode(&reports.evidence(&data).unwrap());
        let evidence = Evidence::decode(&evidence).unwrap();
        let judged = |measurement: &str| {
            policy("sev-snp", measurement, more).judge_room(&evidence, &data, SEV_SNP_NOW)
        };
        assert_eq!(written(&judged(&measured).unwrap().measurement), measured);
        // A refusal says what the policy would have to have.
        assert_eq!(judged(&"00".repeat(48)), Err(Refusal::Measurement(measured.clone())));
    }
}

#[test]
fn a_quote_of_tdx_comes_to_a_client_that_accepts_it() {
    let data = bound(QUOTE, 568);
    let measured = written(&[&QUOTE[184..232], &QUOTE[376..568]].concat());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("collateral.json");
    fs::write(&file, COLLATERAL).unwrap();
    let judged = |brought: Brought, measurement: &str, more: &str| {
        let evidence = TsmReports::new(tdx(), brought).evidence(&data).unwrap();
        let evidence = Evidence::decode(&arras_protocol::codec::encode(&evidence)).unwrap();
        policy("tdx", measurement, more).judge_room(&evidence, &data, TDX_NOW)
    };
    let brought = || Brought { collateral: Some(file.clone()), vcek: None };
    let newest = "evaluation_min = 17";
    assert_eq!(written(&judged(brought(), &measured, newest).unwrap().measurement), measured);
    let other = judged(brought(), &"00".repeat(240), newest);
    assert_eq!(other, Err(Refusal::Measurement(measured.clone())));
    // Collateral that the host does not bring, the policy has.
    assert_eq!(judged(Brought::default(), &measured, newest), Err(Refusal::Collateral));
    let own = format!("collateral = '''{COLLATERAL}'''");
    assert!(judged(Brought::default(), &measured, &own).is_ok());
}

/// An enclave's own binding: written as clients look for it, and missed in samples, which have others.
#[test]
fn a_binding_is_written_as_clients_look_for_it() {
    for kernel in [sev_snp(), tdx()] {
        let question = Question { binding: [5; 32], debug: false, version: 1, quote: Vec::new() };
        let reports = TsmReports::new(kernel.clone(), Brought::default());
        let refused = reports.attest(&question).unwrap_err();
        assert!(refused.to_string().contains("does not hold"), "{refused}");
        assert_eq!(*kernel.inblob.lock().unwrap(), report_data(&[5; 32]));
    }
}

#[test]
fn a_host_that_cannot_vouch_so_says_why_and_ends() {
    let deployment = Deployment::new();
    let ended = |enclave: &[&str], arguments: &[&str]| {
        let mut host = deployment.unvouched(enclave);
        host.arg("--authority").arg(deployment.folder.path().join("ca.pem")).args(arguments);
        run(host)
    };
    let says = |enclave: &[&str], arguments: &[&str], what: &str| {
        let ended = ended(enclave, arguments);
        assert!(ended.code != Some(0) && ended.stderr.contains(what), "{arguments:?}: {}", ended.stderr);
    };
    let plain = tempfile::tempdir().unwrap();
    let [there, missing] = [plain.path().to_owned(), plain.path().join("tsm/report")];
    let [there, missing] = [&there, &missing].map(|path| path.to_str().unwrap());
    says(&[], &["--tsm", "--tsm-folder", missing], "modprobe sev-guest");
    // A folder that is not the kernel's: it puts no files into what is made there.
    says(&[], &["--tsm", "--tsm-folder", there], "configfs-tsm's provider");
    assert_eq!(fs::read_dir(there).unwrap().count(), 0, "the entry is removed");
    says(&["--debug"], &["--tsm", "--tsm-folder", missing], "debug mode");
    // One vouches, and what is of one goes with no other.
    let root = plain.path().join("root");
    let root = ["--development-root", root.to_str().unwrap()];
    let tpm = ["--tpm-key", "1", "--tpm-registers", "sha256:0"];
    for others in [&[][..], &root, &tpm] {
        for of_tsm in [&["--vcek", "file"][..], &["--collateral", "file"], &["--tsm-folder", there]] {
            let ended = ended(&[], &[others, of_tsm].concat());
            assert_eq!(ended.code, Some(2), "{others:?} {of_tsm:?}: {}", ended.stderr);
        }
    }
    for two in [[&["--tsm"][..], &root], [&["--tsm"], &tpm], [&root, &tpm], [&root, &tpm[2..]]] {
        says(&[], &two.concat(), "cannot be used with");
    }
    says(&[], &[], "--tsm");
}
