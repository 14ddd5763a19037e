//! The kernel, played: an entry's files as `drivers/virt/coco` has them, about the samples of `kat/attestation`.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use super::certificates::tests::table;
use super::certificates::{ARK, ASK, TableError, VCEK, VLEK};
use super::*;
use arras_protocol::evidence::EVIDENCE_BYTES_MAX;
use proptest::prelude::*;
use std::cell::RefCell;
use std::fs;
use std::sync::{Arc, Mutex};

const REPORT: &[u8] = include_bytes!("../../../../kat/attestation/sev_snp_report_milan.bin");
const CHIP: &[u8] = include_bytes!("../../../../kat/attestation/sev_snp_vcek_milan.der");
const QUOTE: &[u8] = include_bytes!("../../../../kat/attestation/tdx_quote.bin");
const QUOTE_5: &[u8] = include_bytes!("../../../../kat/attestation/tdx_quote_outdated.bin");
const COLLATERAL: &[u8] = include_bytes!("../../../../kat/attestation/tdx_quote_collateral.json");

fn data(report: &[u8], place: usize) -> [u8; DATA_BYTES] {
    report[place..place + DATA_BYTES].try_into().unwrap()
}

/// A kernel: what its files hold, what it was asked, and what goes wrong.
#[derive(Clone)]
struct Kernel {
    provider: &'static str,
    outblob: Vec<u8>,
    /// The place at which reports take over what was written, if they do; the samples have their own.
    bound: Option<usize>,
    auxblob: Option<Vec<u8>>,
    floor: Option<u32>,
    /// The file at which something goes wrong, what, and how often.
    fault: (&'static str, Fault, u32),
    asked: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone, Copy)]
enum Fault {
    /// The kernel says so.
    Says(Errno),
    /// It says nothing, and does not take what is written.
    Drops,
    /// Somebody else writes as this file is read or written.
    Meddles,
}

struct Played {
    kernel: Kernel,
    /// Faults that are left.
    faults: Arc<Mutex<u32>>,
    generation: RefCell<u64>,
    inblob: RefCell<Vec<u8>>,
}

struct Playing {
    kernel: Kernel,
    /// Faults that are left.
    faults: Arc<Mutex<u32>>,
}

impl Interface for Playing {
    type Entry = Played;

    fn make(&self) -> Result<Played, TsmError> {
        self.kernel.asked.lock().unwrap().push("make".into());
        let (kernel, faults) = (self.kernel.clone(), Arc::clone(&self.faults));
        Ok(Played { kernel, faults, generation: RefCell::new(u64::MAX), inblob: RefCell::default() })
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.kernel.asked.lock().unwrap().push("remove".into());
    }
}

impl Played {
    fn step(&self) {
        let next = self.generation.borrow().wrapping_add(1);
        self.generation.replace(next);
    }

    /// What goes wrong with a file, if something does now.
    fn fault(&self, asked: &str, file: &str) -> Option<Fault> {
        self.kernel.asked.lock().unwrap().push(format!("{asked} {file}"));
        let (at, fault, _) = self.kernel.fault;
        let mut left = self.faults.lock().unwrap();
        if at != file || *left == 0 {
            return None;
        }
        *left -= 1;
        Some(fault)
    }
}

impl Entry for Played {
    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        match self.fault("read", file) {
            Some(Fault::Says(errno)) => return Err(errno.into()),
            Some(Fault::Meddles) => self.step(),
            Some(Fault::Drops) | None => {}
        }
        let absent = || io::Error::from(Errno::NOENT);
        match file {
            "provider" => Ok(format!("{}\n", self.kernel.provider).into()),
            "generation" => Ok(format!("{}\n", self.generation.borrow()).into()),
            "privlevel_floor" => {
                self.kernel.floor.map(|floor| format!("{floor}\n").into()).ok_or_else(absent)
            }
            "outblob" if self.inblob.borrow().len() != DATA_BYTES => Err(Errno::INVAL.into()),
            "outblob" => {
                let mut report = self.kernel.outblob.clone();
                if let Some(place) = self.kernel.bound {
                    report[place..place + DATA_BYTES].copy_from_slice(&self.inblob.borrow());
                }
                Ok(report)
            }
            "auxblob" => self.kernel.auxblob.clone().ok_or_else(absent),
            file => panic!("{file}"),
        }
    }

    fn write(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        match self.fault("write", file) {
            Some(Fault::Says(errno)) => return Err(errno.into()),
            Some(Fault::Meddles) => self.step(),
            Some(Fault::Drops) => return Ok(()),
            None => {}
        }
        match file {
            "inblob" => drop(self.inblob.replace(bytes.to_vec())),
            "privlevel" => assert_eq!(bytes, self.kernel.floor.unwrap().to_string().as_bytes()),
            file => panic!("{file}"),
        }
        self.step();
        Ok(())
    }
}

fn sev_snp() -> Kernel {
    let fault = ("", Fault::Drops, 0);
    let auxblob = Some(table(&[(ARK, b"root"), (VCEK, CHIP)]));
    let outblob = REPORT.to_vec();
    Kernel {
        provider: "sev_guest",
        outblob,
        bound: None,
        auxblob,
        floor: Some(0),
        fault,
        asked: Arc::default(),
    }
}

fn tdx() -> Kernel {
    Kernel { provider: "tdx_guest", outblob: QUOTE.to_vec(), auxblob: None, floor: None, ..sev_snp() }
}

fn reports(kernel: Kernel, brought: Brought) -> TsmReports<Playing> {
    let faults = Arc::new(Mutex::new(kernel.fault.2));
    TsmReports { interface: Playing { kernel, faults }, brought, pause: Duration::ZERO }
}

/// With the samples' own data to be bound.
fn asked(kernel: Kernel) -> Result<Evidence, TsmError> {
    let place = if kernel.provider == "sev_guest" { 0x50 } else { 568 };
    let data = data(if place == 0x50 { REPORT } else { QUOTE }, place);
    reports(kernel, Brought::default()).evidence(&data)
}

fn refused(kernel: Kernel) -> TsmError {
    asked(kernel).err().unwrap_or_else(|| panic!("accepted"))
}

fn certified(certificates: &[&[u8]]) -> Evidence {
    let certificates = certificates.iter().map(|one| one.to_vec().into()).collect();
    Evidence::SevSnp { report: REPORT.to_vec().into(), certificates }
}

#[test]
fn a_report_of_sev_snp_comes_with_the_chip_s_certificate() {
    assert_eq!(asked(sev_snp()).unwrap(), certified(&[CHIP]));
    // That which signed it goes along; the root does not.
    let whole = table(&[(ARK, b"root"), (ASK, CHIP), (VLEK, b"cloud"), (VCEK, CHIP)]);
    assert_eq!(asked(Kernel { auxblob: Some(whole), ..sev_snp() }).unwrap(), certified(&[CHIP, CHIP]));
    let text = pem::encode(&pem::Pem::new("CERTIFICATE", CHIP));
    let text = table(&[(VCEK, text.as_bytes())]);
    assert_eq!(asked(Kernel { auxblob: Some(text), ..sev_snp() }).unwrap(), certified(&[CHIP]));
}

#[test]
fn a_quote_of_tdx_comes_with_collateral_or_without() {
    let quote = |quote: &[u8], collateral: &[u8]| Evidence::Dcap {
        quote: quote.to_vec().into(),
        collateral: collateral.to_vec().into(),
    };
    assert_eq!(asked(tdx()).unwrap(), quote(QUOTE, b""));
    let newer = Kernel { outblob: QUOTE_5.to_vec(), ..tdx() };
    let found = reports(newer, Brought::default()).evidence(&data(QUOTE_5, 574)).unwrap();
    assert_eq!(found, quote(QUOTE_5, b""));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("collateral.json");
    let brought = Brought { collateral: Some(file.clone()), vcek: None };
    let reports = reports(tdx(), brought);
    let asked = || reports.evidence(&data(QUOTE, 568));
    assert!(matches!(asked(), Err(TsmError::File(FileError::System { .. }))));
    fs::write(&file, "-----BEGIN").unwrap();
    assert!(matches!(asked(), Err(TsmError::File(FileError::Content { .. }))));
    // Whoever brings newer collateral need not start the host again.
    fs::write(&file, COLLATERAL).unwrap();
    assert_eq!(asked().unwrap(), quote(QUOTE, COLLATERAL));
    fs::write(&file, [b"{", &[b' '; EVIDENCE_BYTES_MAX][..]].concat()).unwrap();
    assert!(matches!(asked(), Err(TsmError::Long(_))));
}

#[test]
fn a_file_for_another_machine_is_refused_by_its_option() {
    let file = Some(PathBuf::from("nowhere"));
    let [vcek, collateral] =
        [Brought { vcek: file.clone(), collateral: None }, Brought { vcek: None, collateral: file }];
    for (kernel, place, brought, said) in [
        (sev_snp(), 0x50, collateral, "--collateral is for a machine under TDX"),
        (tdx(), 568, vcek, "--vcek is for a machine under SEV-SNP"),
    ] {
        let data = data(&kernel.outblob, place);
        let refused = reports(kernel, brought).evidence(&data).unwrap_err();
        assert!(refused.to_string().starts_with(said), "{refused}");
    }
}

#[test]
fn the_binding_is_written_with_zeros_behind_it() {
    for (kernel, place) in [(sev_snp(), 0x50), (tdx(), 568)] {
        let kernel = Kernel { bound: Some(place), ..kernel };
        let question = Question { binding: [5; 32], debug: false, version: 1, quote: Vec::new() };
        let evidence = reports(kernel.clone(), Brought::default()).attest(&question).unwrap();
        let (Evidence::SevSnp { report: said, .. } | Evidence::Dcap { quote: said, .. }) = evidence else {
            panic!("of another kind")
        };
        assert_eq!(data(said.as_slice(), place), [[5; 32], [0; 32]].concat().as_slice());
        // What cannot say that it is in debug mode says nothing: the kernel is not even asked.
        kernel.asked.lock().unwrap().clear();
        let refused =
            reports(kernel.clone(), Brought::default()).attest(&Question { debug: true, ..question });
        assert!(refused.unwrap_err().to_string().contains("debug mode"));
        assert!(kernel.asked.lock().unwrap().is_empty());
    }
}

/// The samples hold other data than an enclave's binding.
#[test]
fn a_report_about_something_else_goes_nowhere() {
    for kernel in [sev_snp(), tdx()] {
        let question = Question { binding: [5; 32], debug: false, version: 1, quote: Vec::new() };
        let refused = reports(kernel, Brought::default()).attest(&question).unwrap_err();
        assert!(refused.to_string().contains("does not hold"), "{refused}");
    }
    let changed = |place: usize| {
        let mut outblob = REPORT.to_vec();
        outblob[place] ^= 1;
        asked(Kernel { outblob, ..sev_snp() })
    };
    assert!(matches!(changed(0x50), Err(TsmError::OtherBinding)));
    assert!(matches!(changed(0x8f), Err(TsmError::OtherBinding)));
    assert!(changed(0x4f).is_ok() && changed(0x90).is_ok(), "what else it says is for clients to judge");
}

#[test]
fn one_conversation_has_one_entry_and_its_steps_in_order() {
    let steps = |kernel: Kernel| {
        let asked = Arc::clone(&kernel.asked);
        self::asked(kernel).unwrap();
        asked.lock().unwrap().join(", ")
    };
    let begin = "make, read provider, read generation, read privlevel_floor";
    let written = "write inblob, read generation, read outblob";
    assert_eq!(steps(sev_snp()), format!("{begin}, {written}, read auxblob, read generation, remove"));
    assert_eq!(steps(tdx()), format!("{begin}, {written}, read generation, remove"));
    let below = Kernel { floor: Some(2), ..sev_snp() };
    assert_eq!(
        steps(below),
        format!("{begin}, write privlevel, {written}, read auxblob, read generation, remove")
    );
}

fn faulty(file: &'static str, fault: Fault, times: u32) -> Kernel {
    Kernel { fault: (file, fault, times), ..sev_snp() }
}

#[test]
fn what_passes_is_waited_for_some_times_by_new_entries() {
    let faults = [
        ("inblob", Fault::Drops),
        ("inblob", Fault::Meddles),
        ("outblob", Fault::Meddles),
        ("auxblob", Fault::Meddles),
        ("inblob", Fault::Says(Errno::BUSY)),
        ("outblob", Fault::Says(Errno::BUSY)),
        ("outblob", Fault::Says(Errno::AGAIN)),
    ];
    for (file, fault) in faults {
        for (times, entries) in [(TRIES - 1, TRIES), (TRIES, TRIES)] {
            let kernel = faulty(file, fault, times);
            let steps = Arc::clone(&kernel.asked);
            let ended = asked(kernel);
            let count = |what: &str| steps.lock().unwrap().iter().filter(|step| *step == what).count();
            assert_eq!([count("make"), count("remove")], [entries as usize; 2], "{file}");
            match (ended, fault) {
                (Ok(evidence), _) => assert!(times < TRIES && evidence == certified(&[CHIP]), "{file}"),
                (Err(TsmError::NotTaken), Fault::Drops) => assert_eq!(times, TRIES),
                (Err(TsmError::Changed { expected: 1, found: 2 }), Fault::Meddles) => {
                    assert_eq!(times, TRIES);
                }
                (Err(TsmError::Busy), Fault::Says(_)) => assert_eq!(times, TRIES),
                (Err(error), _) => panic!("{file}: {error}"),
            }
        }
    }
}

#[test]
fn what_the_kernel_says_has_a_name_and_is_not_asked_again() {
    let said = |file, errno| {
        let kernel = faulty(file, Fault::Says(errno), 1);
        let steps = Arc::clone(&kernel.asked);
        let error = refused(kernel);
        assert_eq!(steps.lock().unwrap().iter().filter(|step| *step == "make").count(), 1);
        assert_eq!(steps.lock().unwrap().last().unwrap(), "remove");
        error
    };
    assert!(matches!(said("outblob", Errno::FBIG), TsmError::TooLarge("outblob")));
    assert!(matches!(said("auxblob", Errno::FBIG), TsmError::TooLarge("auxblob")));
    assert!(matches!(said("outblob", Errno::TIMEDOUT), TsmError::Late));
    assert!(matches!(said("outblob", Errno::NXIO), TsmError::NoDriver));
    assert!(matches!(said("outblob", Errno::NOTTY), TsmError::NoDriver));
    for (file, errno) in [("provider", Errno::IO), ("inblob", Errno::INVAL), ("privlevel_floor", Errno::IO)] {
        let error = said(file, errno);
        assert!(
            matches!(&error, TsmError::File(FileError::System { file: at, .. }) if at.contains(file)),
            "{error}"
        );
    }
}

#[test]
fn reports_that_are_none_are_refused() {
    let provider = |provider| refused(Kernel { provider, ..sev_snp() });
    assert!(matches!(provider("arm_cca_guest"), TsmError::Provider(name) if name == "arm_cca_guest"));
    let outblob = |kernel: Kernel, bytes: &[u8]| refused(Kernel { outblob: bytes.to_vec(), ..kernel });
    for length in [0, 0x8f, REPORT.len() - 1] {
        let short = outblob(sev_snp(), &REPORT[..length]);
        assert!(matches!(short, TsmError::Length { bytes, .. } if bytes == length), "{length}: {short}");
    }
    let long = outblob(sev_snp(), &[REPORT, &[0]].concat());
    assert!(matches!(long, TsmError::Length { bytes: 1185, .. }), "{long}");
    for length in [0, 7, 8, 631] {
        let short = outblob(tdx(), &QUOTE[..length]);
        assert!(matches!(short, TsmError::Length { bytes, .. } if bytes == length), "{length}: {short}");
    }
    for (place, byte, version) in [(0, 3, 3), (0, 6, 6), (1, 1, 0x104), (4, 0, 4)] {
        let mut other = QUOTE.to_vec();
        other[place] = byte;
        let error = outblob(tdx(), &other);
        assert!(matches!(error, TsmError::Quote(found) if found == version), "{place}: {error}");
    }
    // Each provider's reports are its own kind.
    assert!(matches!(outblob(tdx(), REPORT), TsmError::Quote(2)));
    assert!(matches!(outblob(sev_snp(), QUOTE), TsmError::Length { .. }));
}

#[test]
fn a_report_that_clients_refuse_by_its_key_is_not_handed_on() {
    let signed = |keys| {
        let mut outblob = REPORT.to_vec();
        outblob[0x48] = keys;
        refused(Kernel { outblob, ..sev_snp() })
    };
    assert!(matches!(signed(1 << 2), TsmError::CloudKey));
    assert!(matches!(signed(7 << 2), TsmError::NoKey));
}

#[test]
fn without_the_chip_s_certificate_an_error_says_where_it_is() {
    for auxblob in [None, Some(Vec::new()), Some(table(&[(ARK, b"root"), (ASK, CHIP)]))] {
        let error = refused(Kernel { auxblob, ..sev_snp() });
        let said = error.to_string();
        assert!(matches!(error, TsmError::NoVcek { .. }), "{said}");
        let chip = crate::hexadecimal::written(&REPORT[0x1a0..0x1e0]);
        let tcb = crate::hexadecimal::written(&REPORT[0x180..0x188]);
        assert!(said.contains("--vcek") && said.contains(&chip) && said.contains(&tcb), "{said}");
    }
    let broken = refused(Kernel { auxblob: Some(vec![7; 30]), ..sev_snp() });
    assert!(matches!(broken, TsmError::Table(TableError::Outside)), "{broken}");
    for (name, entries) in
        [("VCEK", [(VCEK, &b"chip"[..]), (ASK, CHIP)]), ("ASK", [(VCEK, CHIP), (ASK, &CHIP[1..])])]
    {
        let error = refused(Kernel { auxblob: Some(table(&entries)), ..sev_snp() });
        assert!(
            matches!(&error, TsmError::File(FileError::Content { file, .. }) if file.contains(name)),
            "{error}"
        );
    }
}

#[test]
fn a_file_s_certificate_goes_before_the_hypervisor_s() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vcek");
    let kernel = Kernel { auxblob: Some(vec![7; 30]), ..sev_snp() };
    let reports = reports(kernel, Brought { vcek: Some(file.clone()), collateral: None });
    let asked = || reports.evidence(&data(REPORT, 0x50));
    assert!(matches!(asked(), Err(TsmError::File(FileError::System { .. }))));
    let text = |tag: &str| pem::encode(&pem::Pem::new(tag, CHIP));
    let one = text("CERTIFICATE");
    for (bytes, count) in
        [(CHIP.to_vec(), 1), (one.clone().into_bytes(), 1), (format!("\n{one}{one}").into_bytes(), 2)]
    {
        fs::write(&file, bytes).unwrap();
        assert_eq!(asked().unwrap(), certified(&vec![CHIP; count]));
    }
    let none = [
        Vec::new(),
        CHIP[1..].to_vec(),
        CHIP[..CHIP.len() - 1].to_vec(),
        [CHIP, CHIP].concat(),
        one.repeat(3).into_bytes(),
        text("PUBLIC KEY").into_bytes(),
        b"-----BEGIN".to_vec(),
    ];
    for bytes in none {
        fs::write(&file, &bytes).unwrap();
        assert!(matches!(asked(), Err(TsmError::File(FileError::Content { .. }))), "{} bytes", bytes.len());
    }
}

proptest! {
    /// Whatever the kernel hands out: it is refused, or it holds what is to be bound.
    #[test]
    fn no_report_is_handed_on_that_does_not_bind(
        sample in 0..2_usize, place in 0..1300_usize, byte in any::<u8>(), cut in 0..1300_usize,
        auxblob in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let (kernel, bound) = if sample == 0 { (sev_snp(), 0x50) } else { (tdx(), 568) };
        let (mut outblob, whole) = (kernel.outblob.clone(), kernel.outblob.clone());
        if let Some(at) = outblob.get_mut(place) {
            *at = byte;
        }
        outblob.truncate(whole.len() - cut.saturating_sub(1200));
        let auxblob = if auxblob.len() < 50 { kernel.auxblob.clone() } else { Some(auxblob) };
        if let Ok(evidence) = asked(Kernel { outblob, auxblob, ..kernel }) {
            let (Evidence::SevSnp { report: said, .. } | Evidence::Dcap { quote: said, .. }) = evidence else {
                panic!("of another kind")
            };
            prop_assert_eq!(data(said.as_slice(), bound), data(&whole, bound));
        }
    }
}
