//! Derivation of independent materials from one: HKDF with SHA-256 (RFC 5869).

use crate::wipe::wipe_stack_of;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroize;

/// Bytes of the stack that a derivation may reach down to.
const STACK_BYTES: usize = 16 * 1024;

/// Most bytes one derivation gives: 255 hashes.
pub const OUTPUT_BYTES_MAX: usize = 255 * 32;

/// Fills `out` from `material`. Each string of `info` is preceded by its length as a big-endian 64-bit
/// integer, so different lists derive independently. An empty `salt` is RFC 5869's default.
///
/// # Panics
///
/// If `out` is longer than [`OUTPUT_BYTES_MAX`].
pub fn hkdf_sha256(material: &[u8], salt: &[u8], info: &[&[u8]], out: &mut [u8]) {
    let lengths: Vec<[u8; 8]> = info.iter().map(|part| (part.len() as u64).to_be_bytes()).collect();
    let framed: Vec<&[u8]> =
        lengths.iter().zip(info).flat_map(|(length, part)| [length.as_slice(), part]).collect();
    extract_expand(material, salt, &framed, out);
    wipe_stack_of::<STACK_BYTES>();
}

/// RFC 5869 as written: `info` is the concatenation of its parts.
///
/// The states of hash and MAC wipe themselves where they are dropped, and leave copies where they were moved from: whoever
/// calls this overwrites the stack behind it.
#[inline(never)]
fn extract_expand(material: &[u8], salt: &[u8], info: &[&[u8]], out: &mut [u8]) {
    let (mut prk, hkdf) = Hkdf::<Sha256>::extract(Some(salt), material);
    // The library's copy for its caller.
    prk.as_mut_slice().zeroize();
    hkdf.expand_multi_info(info, out).expect("at most 255 hashes are asked for");
}

#[cfg(test)]
mod tests;
