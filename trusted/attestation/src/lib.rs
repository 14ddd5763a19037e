//! What a client of an enclave goes by: evidence of what runs at the other end, a policy of what may be told secrets, and the
//! channel that opens only if the two agree (RA-TLS).
//!
//! An enclave's certificate has evidence ([`arras_protocol::evidence`]) that binds the channel's key, the administrator's authority and
//! the administrator's name. [`evidence`] verifies where it comes from and what it says, [`policy`] whether that is accepted, [`channel`]
//! does both before anything of the client's leaves it. [`authority`] makes the certificates by which the enclave knows its
//! clients, [`folder`] reads them.
//!
//! *Backends.* `process`: the host measures the program and signs with a development root. It protects against nobody who has the
//! host's machine. [`dcap`]: quotes of Intel's SGX and TDX. [`sev_snp`]: reports of AMD's SEV-SNP. [`tpm`]: quotes of a TPM 2.0. These
//! are verified here, on samples of real platforms; `arras-host` makes them, but for those of SGX, which the enclave makes.
#![forbid(unsafe_code)]

pub mod authority;
pub mod channel;
#[cfg(feature = "dcap")]
pub mod dcap;
pub mod evidence;
pub mod folder;
pub mod policy;
pub mod sev_snp;
pub mod tpm;

mod hexadecimal;
