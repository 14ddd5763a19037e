//! Keyless comparison of OPE and ORE ciphertexts: all that an ordered index here knows of its keys.

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
        Scheme::Cloz(width) => cloz::compare(width, query, stored),
        Scheme::Clww(width) => clww::compare(width, query, stored),
        Scheme::LewiWu { width, block_bits } => lewi_wu::compare(width, block_bits, query, stored),
    }
}
