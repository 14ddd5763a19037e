//! Evidence of what an enclave is: made on its machine, carried in the certificate of its channel, judged by clients.
//!
//! The certificate is an unsigned one (RFC 9925) that the host makes: nobody but the enclave has the key that it names, and the
//! evidence binds that. It has an extension [`OID`] that has an encoded
//! [`Evidence`]. All that clients believe of it is what its evidence binds: a hash of the channel's public key, of the authority
//! whose certificates the enclave takes, and of the administrator's name.

use crate::bytes::Blob;
use crate::codec::{self, DecodeError};
use serde::{Deserialize, Serialize};

/// Most bytes of evidence.
pub const EVIDENCE_BYTES_MAX: usize = 32 * 1024;

/// The extension's object identifier, as DER has its content: 2.25 and a random UUID (ITU-T X.667).
pub const OID: [u8; 20] = [
    0x69, 0x83, 0xc4, 0xd2, 0xdf, 0xce, 0xec, 0xe7, 0xb2, 0xb0, 0xcf, 0xbb, 0xa7, 0xa8, 0x8c, 0xf2, 0xd0,
    0xf8, 0x8f, 0x62,
];

/// What is put before a [`Statement`] when it is signed.
pub const STATEMENT_PURPOSE: &[u8] = b"arras process evidence 1\0";

/// Most certificates with a report of SEV-SNP: the chip's, and its authority's.
pub const CERTIFICATES_MAX: usize = 2;

/// Evidence, by where it comes from. What it has to bind (32 bytes) stands in the report data of a quote or a report, zeros behind, and in the
/// qualifying data of a TPM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Evidence {
    /// The host has measured a program and started it. It says so itself: this protects from nobody who has the machine.
    Process {
        /// A [`Statement`], encoded.
        statement: Blob,
        /// Ed25519 (RFC 8032), of [`STATEMENT_PURPOSE`] and the statement, by a development root.
        signature: Blob,
    },
    /// A quote of Intel's DCAP: of an enclave (SGX) or of a virtual machine (TDX).
    Dcap {
        /// The quote: version 3 (SGX), 4 or 5 (TDX).
        quote: Blob,
        /// Intel's word on the platform, JSON in UTF-8, or nothing where the clients' policy has it: certificates, lists of revoked
        /// ones, TCB information, identity of the quoting enclave.
        collateral: Blob,
    },
    /// An attestation report of AMD's SEV-SNP (ABI specification 56860): of a virtual machine.
    SevSnp {
        /// The report: 1,184 bytes.
        report: Blob,
        /// The chip's certificate (VCEK), and that which signed it (ASK) if it is another than its product's first: DER.
        certificates: Vec<Blob>,
    },
    /// A quote of a TPM 2.0 (Library specification, parts 2 and 3).
    Tpm {
        /// A `TPMS_ATTEST`.
        attest: Blob,
        /// A `TPMT_SIGNATURE` of it.
        signature: Blob,
    },
}

/// What a host says of a process that it has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// SHA-256 of the program.
    pub measurement: [u8; 32],
    /// What the enclave asked to have attested.
    pub binding: [u8; 32],
    /// When this was said, in seconds since 1970.
    pub made: u64,
    /// Whether the enclave runs without its walls.
    pub debug: bool,
    /// The enclave's security version.
    pub version: u32,
}

impl Evidence {
    /// Reads encoded evidence.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none, or too long.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > EVIDENCE_BYTES_MAX {
            return Err(DecodeError("evidence: it is too long"));
        }
        let evidence = codec::decode(bytes)?;
        match &evidence {
            Self::SevSnp { certificates, .. } if certificates.len() > CERTIFICATES_MAX => {
                Err(DecodeError("evidence: it has too many certificates"))
            }
            Self::Process { .. } | Self::Dcap { .. } | Self::SevSnp { .. } | Self::Tpm { .. } => Ok(evidence),
        }
    }
}

impl Statement {
    /// The bytes that are signed, of an encoded statement.
    #[must_use]
    pub fn signed(statement: &[u8]) -> Vec<u8> {
        [STATEMENT_PURPOSE, statement].concat()
    }
}
