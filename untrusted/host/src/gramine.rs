//! Evidence of an enclave that runs in SGX, under Gramine: it has asked for its quote itself, as nobody else could. The host looks whether it is
//! one, about what the enclave says, and puts Intel's collateral beside it.

use crate::attestation::{Attester, DATA_BYTES, Question, fits, report_data};
use crate::brought::{self, FileError, collateral};
use crate::enclave::Measurement;
use arras_protocol::evidence::Evidence;
use std::io;
use std::path::{Path, PathBuf};

/// How a quote of SGX begins: version 3, signed by a key of ECDSA (P-256).
const BEGINS: [u8; 4] = [3, 0, 2, 0];
/// Where a quote of SGX has its report data: behind its header, in the enclave's report.
const DATA: usize = 48 + 320;

/// Bytes of an enclave's signature (SIGSTRUCT; Intel's manual, volume 3D, 40.13), and where it has MRENCLAVE.
const SIGNATURE_BYTES: usize = 1808;
const MRENCLAVE: usize = 960;
/// How a signature begins, and what it has behind vendor and date.
const HEADERS: [(usize, [u8; 16]); 2] = [
    (0, [6, 0, 0, 0, 0xe1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]),
    (24, [1, 1, 0, 0, 0x60, 0, 0, 0, 0x60, 0, 0, 0, 1, 0, 0, 0]),
];

/// MRENCLAVE as the signature beside a program (`.sig`) says it: no other enclave is started by it.
///
/// # Errors
/// [`FileError`].
pub fn measurement(program: &Path) -> Result<Measurement, FileError> {
    let mut path = program.as_os_str().to_owned();
    path.push(".sig");
    let (file, bytes) = brought::read(Path::new(&path))?;
    let has =
        |(at, header): &(usize, [u8; 16])| bytes.get(*at..).is_some_and(|rest| rest.starts_with(header));
    let is_one = bytes.len() == SIGNATURE_BYTES && HEADERS.iter().all(has);
    let found = bytes.get(MRENCLAVE..).and_then(|rest| rest.first_chunk()).filter(|_| is_one);
    found.copied().ok_or(FileError::Content { file, what: "a signature by gramine-sgx-sign is expected" })
}

/// Why there is no evidence.
#[derive(Debug, thiserror::Error)]
pub enum GramineError {
    /// The enclave has no quote.
    #[error(
        "the enclave has no quote of its own: its manifest has to start it with `--gramine /dev/attestation`"
    )]
    NoQuote,
    /// It is none of SGX, or of a version that is not known.
    #[error("the enclave's quote is none of SGX, version 3: it has {0} bytes, or begins otherwise")]
    Quote(usize),
    /// It is about something else.
    #[error("the enclave's quote does not hold what the enclave asked to have bound")]
    OtherBinding,
    /// Intel's collateral is not in its file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Together it is more than clients read.
    #[error(
        "evidence of {0} bytes is longer than clients take: a policy may have the collateral in its place"
    )]
    Long(usize),
}

/// Hands on what the enclave brings.
pub struct GramineQuotes {
    collateral: Option<PathBuf>,
}

impl GramineQuotes {
    /// With the file of Intel's collateral (JSON), where clients' policies have none.
    #[must_use]
    pub fn new(collateral: Option<PathBuf>) -> Self {
        Self { collateral }
    }

    /// A quote as evidence, if it binds this report data.
    ///
    /// # Errors
    /// [`GramineError`].
    pub fn evidence(&self, quote: &[u8], data: &[u8; DATA_BYTES]) -> Result<Evidence, GramineError> {
        if quote.is_empty() {
            return Err(GramineError::NoQuote);
        }
        let bound = quote.get(DATA..).and_then(|rest| rest.first_chunk());
        let bound = bound.filter(|_| quote.starts_with(&BEGINS)).ok_or(GramineError::Quote(quote.len()))?;
        if bound != data {
            return Err(GramineError::OtherBinding);
        }
        let collateral = collateral(self.collateral.as_deref())?;
        fits(Evidence::Dcap { quote: quote.to_vec().into(), collateral: collateral.into() })
            .map_err(GramineError::Long)
    }
}

impl Attester for GramineQuotes {
    /// Whether the enclave can be looked into, its quote says: of walls it has none but the processor's.
    fn attest(&self, question: &Question) -> io::Result<Evidence> {
        self.evidence(&question.quote, &report_data(&question.binding)).map_err(io::Error::other)
    }

    fn source(&self) -> &'static str {
        "Intel's collateral"
    }
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs;

    const SGX: &[u8] = include_bytes!("../../../kat/attestation/sgx_quote.bin");
    const TDX: &[u8] = include_bytes!("../../../kat/attestation/tdx_quote.bin");
    const COLLATERAL: &[u8] = include_bytes!("../../../kat/attestation/sgx_quote_collateral.json");

    /// What the sample binds.
    fn bound() -> [u8; DATA_BYTES] {
        SGX.get(DATA..DATA + DATA_BYTES).unwrap().try_into().unwrap()
    }

    #[test]
    fn a_quote_comes_with_collateral_or_without() {
        let evidence = |collateral: &[u8]| Evidence::Dcap {
            quote: SGX.to_vec().into(),
            collateral: collateral.to_vec().into(),
        };
        assert_eq!(GramineQuotes::new(None).evidence(SGX, &bound()).unwrap(), evidence(b""));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("collateral.json");
        let quotes = GramineQuotes::new(Some(file.clone()));
        let asked = || quotes.evidence(SGX, &bound());
        assert!(matches!(asked(), Err(GramineError::File(FileError::System { .. }))));
        fs::write(&file, "none").unwrap();
        assert!(matches!(asked(), Err(GramineError::File(FileError::Content { .. }))));
        // Whoever brings newer collateral need not start the host again.
        fs::write(&file, COLLATERAL).unwrap();
        assert_eq!(asked().unwrap(), evidence(COLLATERAL));
        fs::write(&file, format!("{{{}", " ".repeat(32 * 1024))).unwrap();
        assert!(matches!(asked(), Err(GramineError::Long(bytes)) if bytes > 32 * 1024 + SGX.len()));
    }

    #[test]
    fn the_measurement_is_that_of_the_signature_beside_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("enclave");
        let file = folder.path().join("enclave.sig");
        assert!(matches!(measurement(&program), Err(FileError::System { .. })));
        let signed = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            measurement(&program).map_err(|error| error.to_string())
        };
        let mut signature: Vec<u8> = (0..SIGNATURE_BYTES).map(|place| (place / 32) as u8).collect();
        for (at, header) in HEADERS {
            signature.splice(at..at + header.len(), header);
        }
        assert_eq!(signed(&signature), Ok([(MRENCLAVE / 32) as u8; 32]));
        for cut in [0, MRENCLAVE + 31, SIGNATURE_BYTES - 1] {
            assert!(signed(signature.get(..cut).unwrap()).is_err(), "{cut} bytes");
        }
        for (at, header) in HEADERS {
            for place in at..at + header.len() {
                let mut other = signature.clone();
                *other.get_mut(place).unwrap() ^= 1;
                assert!(signed(&other).unwrap_err().contains("gramine-sgx-sign"), "byte {place}");
            }
        }
    }

    #[test]
    fn what_is_no_quote_about_this_enclave_goes_nowhere() {
        let quotes = GramineQuotes::new(None);
        let refused = |quote: &[u8], data: &[u8; DATA_BYTES]| quotes.evidence(quote, data).unwrap_err();
        assert!(matches!(refused(b"", &bound()), GramineError::NoQuote));
        for place in 0..DATA_BYTES {
            let mut other = bound();
            *other.get_mut(place).unwrap() ^= 1;
            assert!(matches!(refused(SGX, &other), GramineError::OtherBinding), "byte {place}");
        }
        let cut = SGX.get(..DATA + DATA_BYTES - 1).unwrap();
        let mut newer = SGX.to_vec();
        *newer.first_mut().unwrap() = 4;
        for quote in [cut, TDX, &newer, b"\x03\0\x02\0"] {
            let refused = refused(quote, &bound());
            assert!(matches!(refused, GramineError::Quote(bytes) if bytes == quote.len()), "{refused}");
        }
    }
}
