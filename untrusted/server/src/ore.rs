//! Keyless comparison of OPE and ORE ciphertexts: all that an ordered index here knows of its keys.

#[cfg(feature = "cloz")]
mod cloz;
pub mod clww;
pub mod lewi_wu;

use arras_primitives::meter::{self, Primitive};
use arras_protocol::ore::{MalformedCiphertext, Scheme};
use std::cmp::Ordering;

/// Compares a query ciphertext with a stored one.
///
/// Variable time: both are public here.
///
/// # Errors
/// [`MalformedCiphertext`] if either is not of the scheme.
pub fn compare(scheme: Scheme, query: &[u8], stored: &[u8]) -> Result<Ordering, MalformedCiphertext> {
    meter::count(Primitive::Comparison, 1);
    if scheme.query_bytes() != Some(query.len()) || scheme.stored_bytes() != Some(stored.len()) {
        return Err(MalformedCiphertext("its length"));
    }
    match scheme {
        Scheme::Bclo(_) | Scheme::FhOpe(_) | Scheme::Plain(_) => Ok(query.cmp(stored)),
        #[cfg(feature = "cloz")]
        Scheme::Cloz(width) => cloz::compare(width, query, stored),
        #[cfg(not(feature = "cloz"))]
        Scheme::Cloz(_) => Err(MalformedCiphertext("none that this server compares")),
        Scheme::Clww(width) => clww::compare(width, query, stored),
        Scheme::LewiWu { width, block_bits } => lewi_wu::compare(width, block_bits, query, stored),
    }
}

/// Why this server keeps no index of a scheme's ciphertexts, if so.
pub(crate) fn not_served(scheme: Scheme) -> Option<&'static str> {
    match scheme {
        Scheme::Cloz(_) if !cfg!(feature = "cloz") => {
            Some("this server compares no CLOZ ciphertexts: that takes one built with `--features cloz`")
        }
        Scheme::Plain(_) if !cfg!(feature = "lab") => {
            Some("an index of plain values is the laboratory's baseline: this server was built without it")
        }
        Scheme::Bclo(_)
        | Scheme::Cloz(_)
        | Scheme::Clww(_)
        | Scheme::FhOpe(_)
        | Scheme::LewiWu { .. }
        | Scheme::Plain(_) => None,
    }
}
