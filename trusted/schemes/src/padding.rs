//! Padding of plaintexts before they are sealed, so that a ciphertext's length shows a step and not a size.

use crate::error::OpenFailed;

/// Marks where the plaintext ends; what follows is zeros.
const END: u8 = 0x80;

/// Pads a plaintext to a multiple of `step` bytes. At least one byte is added, so that padding can always be told from
/// content.
#[must_use]
pub fn pad(mut plaintext: Vec<u8>, step: usize) -> Vec<u8> {
    plaintext.push(END);
    plaintext.resize(plaintext.len().next_multiple_of(step.max(1)), 0);
    plaintext
}

/// Pads like [`pad`], in a step that grows with the length beyond eight steps: to a power of two that is an eighth of
/// the length at most. Long plaintexts show as little of their lengths, in proportion, as short ones. `step` is a
/// power of two.
#[must_use]
pub fn pad_in_proportion(plaintext: Vec<u8>, step: usize) -> Vec<u8> {
    let eighth = 1_usize << (plaintext.len().saturating_add(1) / 8).max(1).ilog2();
    pad(plaintext, step.max(eighth))
}

/// The plaintext without its padding.
///
/// # Errors
/// [`OpenFailed`] if it was not padded.
pub fn unpad(padded: &[u8]) -> Result<&[u8], OpenFailed> {
    let end = padded.iter().rposition(|byte| *byte != 0).ok_or(OpenFailed)?;
    match padded.split_at_checked(end) {
        Some((plaintext, [END, ..])) => Ok(plaintext),
        _ => Err(OpenFailed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_padded_comes_back_at_a_length_of_its_step() {
        for bytes in 0..3000 {
            for fill in [0, END, 7] {
                let plaintext = vec![fill; bytes];
                let padded = pad(plaintext.clone(), 64);
                assert_eq!(padded.len(), bytes / 64 * 64 + 64);
                assert_eq!(unpad(&padded).expect("padded"), plaintext);
                let padded = pad_in_proportion(plaintext.clone(), 64);
                assert!(padded.len() > bytes && padded.len() <= bytes + 64.max(bytes / 8 + 1), "{bytes}");
                assert_eq!(unpad(&padded).expect("padded"), plaintext);
            }
        }
        let lengths: std::collections::BTreeSet<usize> =
            (0..100_000).map(|bytes| pad_in_proportion(vec![0; bytes], 64).len()).collect();
        assert!(lengths.len() < 8 + 8 * 9, "{} lengths", lengths.len());
    }

    #[test]
    fn what_was_never_padded_is_refused() {
        for bytes in [&[][..], &[0, 0], &[1], &[END, 1, 0]] {
            assert!(unpad(bytes).is_err());
        }
    }
}
