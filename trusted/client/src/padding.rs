//! Padding of plaintexts before they are sealed, so that a ciphertext's length shows a step and not a size.

use crate::error::OpenFailed;

/// Marks where the plaintext ends; what follows is zeros.
const END: u8 = 0x80;

/// Length of a plaintext of `bytes` bytes, padded to a multiple of `step` bytes. Beyond eight steps the step grows
/// with the length, to a power of two that is an eighth of it at most: long plaintexts show as little of their
/// lengths, in proportion, as short ones.
///
/// At least one byte is added, so that padding can always be told from content.
#[must_use]
pub fn padded_bytes(bytes: usize, step: usize) -> usize {
    let least = bytes.saturating_add(1);
    let eighth = 1_usize << (least / 8).max(1).ilog2();
    least.next_multiple_of(step.max(1)).next_multiple_of(step.max(1).max(eighth))
}

/// Pads a plaintext to [`padded_bytes`].
#[must_use]
pub fn pad(mut plaintext: Vec<u8>, step: usize) -> Vec<u8> {
    let bytes = padded_bytes(plaintext.len(), step);
    plaintext.push(END);
    plaintext.resize(bytes, 0);
    plaintext
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
                assert_eq!(padded.len(), padded_bytes(bytes, 64));
                assert_eq!(padded.len() % 64, 0);
                assert!(padded.len() > bytes && padded.len() <= bytes + 64 + bytes / 8, "{bytes}");
                assert_eq!(unpad(&padded).expect("padded"), plaintext);
            }
        }
        assert!([0, 1, 62, 63].iter().all(|bytes| padded_bytes(*bytes, 64) == 64));
        assert_eq!(padded_bytes(64, 64), 128);
    }

    #[test]
    fn what_was_never_padded_is_refused() {
        for bytes in [&[][..], &[0, 0], &[1], &[END, 1, 0]] {
            assert!(unpad(bytes).is_err());
        }
    }
}
