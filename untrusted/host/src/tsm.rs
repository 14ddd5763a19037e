//! Evidence of a confidential machine (SEV-SNP, TDX) that the host runs in, by the kernel's configfs-tsm (`Documentation/ABI/testing/configfs-tsm`).
//!
//! For each report an entry of its own is made: a folder in which the kernel has files. What is to be bound is written to `inblob`, and
//! `outblob` is the report, made as it is read; with SEV-SNP, `auxblob` has the certificates that the hypervisor hands on. `generation`
//! counts what was written: configfs does not tell a writer of a binary file that the driver refused it, and somebody else may write
//! between, so a report counts only if the number has moved by the host's own writes. The report itself is looked at, too: it must hold
//! what was written.

mod entry;
mod report;

pub mod certificates;

pub use entry::{Entry, FOLDER, Folder, Interface};

use crate::attestation::{Attester, DATA_BYTES, Question, fits, report_data};
use crate::brought::{self, FileError};
use arras_protocol::evidence::{CERTIFICATES_MAX, Evidence};
use rustix::io::Errno;
use std::cmp::Ordering;
use std::io;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

/// How often a report is asked for while others come between, and the pause before the next time.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum TsmError {
    /// The kernel's interface is not there.
    #[error(
        "{}: no configfs-tsm: `modprobe sev-guest` or `modprobe tdx-guest`, and `mount -t configfs none /sys/kernel/config`",
        .0.display()
    )]
    NoInterface(PathBuf),
    /// It is there, with no driver behind it.
    #[error("no driver is behind configfs-tsm: `modprobe sev-guest` or `modprobe tdx-guest`")]
    NoDriver,
    /// Others than root may not make entries.
    #[error("{}: {error}: configfs-tsm is root's", .path.display())]
    NotPermitted {
        /// Where.
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// There is no randomness for an entry's name.
    #[error("the operating system gives no randomness")]
    Random,
    /// Its reports are of another kind.
    #[error("configfs-tsm's provider is {0:?}: known are sev_guest and tdx_guest")]
    Provider(String),
    /// It makes others' reports, or is still at an earlier one (EBUSY, EWOULDBLOCK).
    #[error("configfs-tsm is busy with another report")]
    Busy,
    /// It did not take what was written.
    #[error("configfs-tsm did not take what was written: its generation says so")]
    NotTaken,
    /// Somebody else has written to the entry.
    #[error(
        "somebody else wrote to the host's entry of configfs-tsm: {found} writes where {expected} were its own"
    )]
    Changed {
        /// The host's writes.
        expected: u64,
        /// All.
        found: u64,
    },
    /// The report is too large for the kernel, or for the host (EFBIG).
    #[error("configfs-tsm's {0} is too large")]
    TooLarge(&'static str),
    /// Whoever signs quotes does not answer the hypervisor (ETIMEDOUT).
    #[error("configfs-tsm's report does not come: what signs quotes does not answer the hypervisor")]
    Late,
    /// A file that was named says nothing of such a machine.
    #[error("{option} is for a machine under {of}, and this one runs under {under}: leave it out")]
    OtherMachine {
        /// The option that names it.
        option: &'static str,
        /// What it is for.
        of: &'static str,
        /// What runs here.
        under: &'static str,
    },
    /// A file of an entry, or one that was named, says nothing of use.
    #[error(transparent)]
    File(#[from] FileError),
    /// A report of another length.
    #[error("{kind} cannot have {bytes} bytes")]
    Length {
        /// What it should be.
        kind: &'static str,
        /// What it has.
        bytes: usize,
    },
    /// A quote that is none of TDX, or of a version that is not known.
    #[error("configfs-tsm's report is no quote of TDX, version 4 or 5: it begins as version {0}")]
    Quote(u16),
    /// The report is about something else.
    #[error("configfs-tsm's report does not hold what was written to be bound")]
    OtherBinding,
    /// A cloud's key signed the report.
    #[error(
        "the report is signed by a cloud's key (VLEK), which clients do not accept: the hypervisor has to sign by the chip's (VCEK)"
    )]
    CloudKey,
    /// Nobody has signed the report.
    #[error("the report is not signed: the hypervisor hides the chip's key")]
    NoKey,
    /// The hypervisor's table of certificates is none.
    #[error(
        "auxblob, the hypervisor's table of certificates: {0}; --vcek names the certificate in its place"
    )]
    Table(#[from] certificates::TableError),
    /// There is no certificate of the chip.
    #[error(
        "the hypervisor hands on no certificate of its chip (VCEK): name its file with --vcek; AMD's service \
         (kdsintf.amd.com) has it, for the chip {chip} with the TCB {tcb}"
    )]
    NoVcek {
        /// The chip's identity, in hexadecimal.
        chip: String,
        /// `REPORTED_TCB`, in hexadecimal.
        tcb: String,
    },
    /// Together it is more than clients read.
    #[error(
        "evidence of {0} bytes is longer than clients take: a policy may have the collateral in its place"
    )]
    Long(usize),
    /// The enclave is in debug mode.
    #[error("a report cannot say that the enclave is in debug mode: a development root can")]
    Debug,
}

impl TsmError {
    /// Whether it may be otherwise the next time.
    fn passes(&self) -> bool {
        matches!(self, Self::Busy | Self::NotTaken | Self::Changed { .. })
    }

    /// What the kernel says at a file of an entry.
    fn at(file: &'static str, error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::BUSY | Errno::AGAIN) => Self::Busy,
            Some(Errno::FBIG) => Self::TooLarge(file),
            Some(Errno::TIMEDOUT) => Self::Late,
            Some(Errno::NXIO | Errno::NOTTY) => Self::NoDriver,
            _ => FileError::System { file: format!("configfs-tsm's {file}"), error }.into(),
        }
    }
}

/// Files that bring what the kernel does not. They are read anew for each report.
#[derive(Clone, Debug, Default)]
pub struct Brought {
    /// The chip's certificate (SEV-SNP): DER, or PEM, with that which signed it behind it or without. It goes before the hypervisor's.
    pub vcek: Option<PathBuf>,
    /// Intel's collateral (TDX): JSON.
    pub collateral: Option<PathBuf>,
}

/// Vouches by reports: for what the machine was started with, and for an enclave as far as that measures it.
pub struct TsmReports<I> {
    interface: I,
    brought: Brought,
    pause: Duration,
}

impl<I: Interface> TsmReports<I> {
    /// By an interface, and files beside it.
    #[must_use]
    pub fn new(interface: I, brought: Brought) -> Self {
        Self { interface, brought, pause: PAUSE }
    }

    /// Evidence that binds this report data. What comes between is waited for, some times.
    ///
    /// # Errors
    /// [`TsmError`].
    pub fn evidence(&self, data: &[u8; DATA_BYTES]) -> Result<Evidence, TsmError> {
        let mut tries = 1;
        loop {
            match self.asked(data) {
                Err(error) if error.passes() && tries < TRIES => {
                    tries += 1;
                    sleep(self.pause);
                }
                ended => return ended,
            }
        }
    }

    /// By one entry.
    fn asked(&self, data: &[u8; DATA_BYTES]) -> Result<Evidence, TsmError> {
        let entry = self.interface.make()?;
        let provider = text(&entry, "provider")?;
        let other = |given: &Option<PathBuf>, option, of, under| match given {
            Some(_) => Err(TsmError::OtherMachine { option, of, under }),
            None => Ok(()),
        };
        let evidence = match provider.as_str() {
            "sev_guest" => {
                other(&self.brought.collateral, "--collateral", "TDX", "SEV-SNP")?;
                let (outblob, auxblob) = blobs(&entry, data, true)?;
                report::sev_snp(&outblob, data)?;
                let certificates = self.certificates(&outblob, &auxblob)?;
                let certificates = certificates.into_iter().map(Into::into).collect();
                Evidence::SevSnp { report: outblob.into(), certificates }
            }
            "tdx_guest" => {
                other(&self.brought.vcek, "--vcek", "SEV-SNP", "TDX")?;
                let (outblob, _) = blobs(&entry, data, false)?;
                report::tdx(&outblob, data)?;
                let collateral = brought::collateral(self.brought.collateral.as_deref())?;
                Evidence::Dcap { quote: outblob.into(), collateral: collateral.into() }
            }
            _ => return Err(TsmError::Provider(provider)),
        };
        fits(evidence).map_err(TsmError::Long)
    }

    /// The chip's certificate and, if it is there, that which signed it.
    fn certificates(&self, report: &[u8], auxblob: &[u8]) -> Result<Vec<Vec<u8>>, TsmError> {
        if let Some(path) = &self.brought.vcek {
            let (file, bytes) = brought::read(path)?;
            let all = ders(&bytes).filter(|all| (1..=CERTIFICATES_MAX).contains(&all.len()));
            let what = "the chip's certificate is expected, DER or PEM, with that which signed it behind it or without";
            return Ok(all.ok_or(FileError::Content { file, what })?);
        }
        let table = certificates::read(auxblob)?;
        let chip = table.vcek.ok_or_else(|| report::chip(report))?;
        let mut all = Vec::new();
        for (file, bytes) in [("VCEK", Some(chip)), ("ASK", table.ask)] {
            let Some(bytes) = bytes else { continue };
            let one: Option<[Vec<u8>; 1]> = ders(bytes).and_then(|all| all.try_into().ok());
            let what = "no certificate, DER or PEM";
            let [one] = one.ok_or(FileError::Content { file: format!("auxblob's {file}"), what })?;
            all.push(one);
        }
        Ok(all)
    }
}

impl<I: Interface> Attester for TsmReports<I> {
    /// A report whose data begin with the binding, zeros behind.
    fn attest(&self, question: &Question) -> io::Result<Evidence> {
        if question.debug {
            return Err(io::Error::other(TsmError::Debug));
        }
        self.evidence(&report_data(&question.binding)).map_err(io::Error::other)
    }

    fn source(&self) -> &'static str {
        "the kernel's report (configfs-tsm)"
    }
}

/// Certificates as DER: one, or PEM's. Nothing if it is something else.
fn ders(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let all: Vec<Vec<u8>> = if bytes.trim_ascii_start().starts_with(b"-----BEGIN") {
        let all = pem::parse_many(bytes).ok()?;
        let all = all.into_iter().map(|one| (one.tag() == "CERTIFICATE").then(|| one.into_contents()));
        all.collect::<Option<_>>()?
    } else {
        vec![bytes.to_vec()]
    };
    all.iter().all(|one| is_certificate(one)).then_some(all)
}

/// Whether bytes are one SEQUENCE of DER with a length of two bytes, as every certificate is; what is in it is for clients to judge.
fn is_certificate(bytes: &[u8]) -> bool {
    matches!(bytes, [0x30, 0x82, high, low, inner @ ..] if inner.len() == usize::from(u16::from_be_bytes([*high, *low])))
}

/// A file that is text.
fn text(entry: &impl Entry, file: &'static str) -> Result<String, TsmError> {
    let bytes = entry.read(file).map_err(|error| TsmError::at(file, error))?;
    Ok(String::from_utf8_lossy(bytes.trim_ascii()).into_owned())
}

/// A file that is a number.
fn number(entry: &impl Entry, file: &'static str) -> Result<u64, TsmError> {
    let what = "a number is expected";
    let unread = |_| FileError::Content { file: format!("configfs-tsm's {file}"), what };
    Ok(text(entry, file)?.parse().map_err(unread)?)
}

/// The report about this data, and certificates, if an entry may have them.
fn blobs(
    entry: &impl Entry,
    data: &[u8; DATA_BYTES],
    certified: bool,
) -> Result<(Vec<u8>, Vec<u8>), TsmError> {
    let write = |file, bytes: &[u8]| entry.write(file, bytes).map_err(|error| TsmError::at(file, error));
    let read = |file| entry.read(file).map_err(|error| TsmError::at(file, error));
    let absent = |error: &TsmError| match error {
        TsmError::File(FileError::System { error, .. }) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    };
    let before = number(entry, "generation")?;
    let mut writes = 1;
    // A machine below a service module may not ask in the module's name, which it would if it did not say.
    match number(entry, "privlevel_floor") {
        Ok(0) => {}
        Ok(floor) => {
            write("privlevel", floor.to_string().as_bytes())?;
            writes += 1;
        }
        Err(error) if absent(&error) => {}
        Err(error) => return Err(error),
    }
    write("inblob", data)?;
    // Asked for before what was written is there, there would be another error, or another's report.
    unchanged(entry, before, writes)?;
    let outblob = read("outblob")?;
    let auxblob = match certified.then(|| read("auxblob")).transpose() {
        Ok(blob) => blob.unwrap_or_default(),
        Err(error) if absent(&error) => Vec::new(),
        Err(error) => return Err(error),
    };
    unchanged(entry, before, writes)?;
    Ok((outblob, auxblob))
}

/// Whether the host's writes, and no others, have come since a generation.
fn unchanged(entry: &impl Entry, before: u64, expected: u64) -> Result<(), TsmError> {
    // It wraps around as the kernel's does.
    let found = number(entry, "generation")?.wrapping_sub(before);
    match found.cmp(&expected) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(TsmError::NotTaken),
        Ordering::Greater => Err(TsmError::Changed { expected, found }),
    }
}

#[cfg(test)]
mod tests;
