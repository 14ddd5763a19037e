//! Evidence by quotes.

use super::run;
use crate::attestation::{Attester, Question};
use crate::hexadecimal;
use arras_protocol::evidence::Evidence;
use std::fs;
use std::io;

/// Vouches by quotes of registers: for what the machine has booted, and for an enclave as far as that measures it.
pub struct TpmQuotes {
    key: String,
    registers: String,
}

impl TpmQuotes {
    /// By a key that signs quotes (a persistent handle or a context's file, as `tpm2_quote --key-context` takes it), of registers as in
    /// `sha256:0,1,2,7`.
    #[must_use]
    pub fn new(key: String, registers: String) -> Self {
        Self { key, registers }
    }
}

impl Attester for TpmQuotes {
    /// A quote whose qualifying data are the binding.
    fn attest(&self, question: &Question) -> io::Result<Evidence> {
        if question.debug {
            return Err(io::Error::other(
                "a quote cannot say that the enclave is in debug mode: a development root can",
            ));
        }
        let folder = tempfile::tempdir()?;
        let (attest, signature) = (folder.path().join("attest"), folder.path().join("signature"));
        let binding = hexadecimal::written(&question.binding);
        let arguments = [
            "--key-context".as_ref(),
            self.key.as_ref(),
            "--pcr-list".as_ref(),
            self.registers.as_ref(),
            "--qualification".as_ref(),
            binding.as_ref(),
            "--hash-algorithm=sha256".as_ref(),
            "--message".as_ref(),
            attest.as_os_str(),
            "--signature".as_ref(),
            signature.as_os_str(),
        ];
        run("tpm2_quote", &arguments)?;
        Ok(Evidence::Tpm { attest: fs::read(attest)?.into(), signature: fs::read(signature)?.into() })
    }

    fn source(&self) -> &'static str {
        "the TPM's quote (tpm2_quote)"
    }
}
