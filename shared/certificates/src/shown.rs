//! What is in a certificate, for people.

use crate::DAY_SECONDS;
use arras_primitives::hash::sha256;
use arras_transport::tls::{self, FileError};
use std::fmt::Write;
use std::path::Path;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

/// Longest name that is printed, in characters.
const NAME_CHARACTERS_MAX: usize = 80;

/// One certificate (RFC 5280), as far as an administrator looks at it. Text in it is its maker's, cut and without
/// control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Common name of its owner.
    pub subject: String,
    /// Common name of who signed it.
    pub issuer: String,
    /// Serial number, hexadecimal.
    pub serial: String,
    /// SHA-256 of the whole, hexadecimal.
    pub fingerprint: String,
    /// Valid from, in seconds since 1970.
    pub from: u64,
    /// Valid until, in seconds since 1970.
    pub until: u64,
    /// The issuer's whole name as it is encoded, to be compared with an authority's.
    pub issuer_name: Vec<u8>,
    /// The owner's whole name as it is encoded.
    pub subject_name: Vec<u8>,
    /// The owner's public key as it is encoded (`SubjectPublicKeyInfo`).
    pub public: Vec<u8>,
}

impl Certificate {
    /// Reads one from its encoding.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn from_der(der: &[u8]) -> Result<Self, String> {
        let (rest, parsed) =
            X509Certificate::from_der(der).map_err(|error| format!("not a certificate: {error}"))?;
        if !rest.is_empty() {
            return Err("not a certificate: something follows it".into());
        }
        let validity = parsed.validity();
        Ok(Self {
            subject: common_name(parsed.subject()),
            issuer: common_name(parsed.issuer()),
            serial: hexadecimal(parsed.raw_serial()),
            fingerprint: hexadecimal(&sha256(&[der])),
            from: seconds(validity.not_before),
            until: seconds(validity.not_after),
            issuer_name: parsed.issuer().as_raw().to_vec(),
            subject_name: parsed.subject().as_raw().to_vec(),
            public: parsed.public_key().raw.to_vec(),
        })
    }

    /// Reads all certificates of a PEM file, at least one, in their order.
    ///
    /// # Errors
    /// [`FileError`], naming the file.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, FileError> {
        let read = tls::certificates(path)?;
        read.iter().map(|der| Self::from_der(der).map_err(|what| FileError::of(path, &what))).collect()
    }

    /// Whole days that are left at `now` (seconds since 1970); 0 on the last day and afterwards.
    #[must_use]
    pub fn days_left(&self, now: u64) -> u64 {
        self.until.saturating_sub(now) / DAY_SECONDS
    }

    /// True if it has ended at `now` (seconds since 1970).
    #[must_use]
    pub fn has_ended(&self, now: u64) -> bool {
        self.until < now
    }
}

/// A day and a minute, UTC.
#[must_use]
pub fn date(seconds: u64) -> String {
    let Some(time) = i64::try_from(seconds).ok().and_then(|seconds| ASN1Time::from_timestamp(seconds).ok())
    else {
        return "beyond all dates".into();
    };
    let time = time.to_datetime();
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", time.hour(), time.minute())
}

fn seconds(time: ASN1Time) -> u64 {
    u64::try_from(time.timestamp()).unwrap_or(0)
}

fn common_name(name: &X509Name<'_>) -> String {
    let text = name.iter_common_name().find_map(|part| part.as_str().ok()).unwrap_or_default();
    text.chars()
        .take(NAME_CHARACTERS_MAX)
        .map(|character| if character.is_control() { '?' } else { character })
        .collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
