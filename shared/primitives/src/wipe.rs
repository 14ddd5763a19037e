//! Overwriting what must not stay in memory, a word at a time.
//!
//! `zeroize` overwrites a byte string byte by byte, which profiles show where kilobytes are opened for each reply.

use std::ops::{Deref, DerefMut};
use zeroize::Zeroize;

/// Overwrites with zeros. The compiler does not leave it out.
#[allow(unsafe_code)]
pub fn wipe(bytes: &mut [u8]) {
    // SAFETY: any sixteen bytes are a `u128`, and any `u128` is sixteen bytes.
    let (first, words, last) = unsafe { bytes.align_to_mut::<u128>() };
    first.zeroize();
    words.zeroize();
    last.zeroize();
}

/// Bytes of the stack that [`wipe_stack`] overwrites: more than any primitive here uses.
const STACK_BYTES: usize = 64 * 1024;

/// Overwrites what calls that have returned left on this thread's stack. Safe code cannot wipe a value that was moved:
/// its old place is out of reach, but it is overwritten like anything else.
pub fn wipe_stack() {
    wipe_stack_of::<STACK_BYTES>();
}

/// The same for calls that are known to reach no deeper than so many bytes.
#[inline(never)]
pub fn wipe_stack_of<const BYTES: usize>() {
    let mut room = [0xff_u8; BYTES];
    wipe(&mut room);
    std::hint::black_box(&room);
}

/// Bytes that are wiped when they are dropped. What is cut off before, or left behind where they grow, is not: make room
/// for all of them at first.
#[derive(Default)]
pub struct Wiped(Vec<u8>);

impl Wiped {
    /// Empty, with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }
}

impl From<Vec<u8>> for Wiped {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl std::fmt::Debug for Wiped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wiped(..)")
    }
}

impl Deref for Wiped {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Wiped {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_overwritten_wherever_it_begins() {
        for from in 0..40 {
            for until in from..80 {
                let mut bytes = [0xff; 80];
                wipe(&mut bytes[from..until]);
                let wiped = |at: usize| (from..until).contains(&at);
                assert!(
                    bytes.iter().enumerate().all(|(at, byte)| (*byte == 0) == wiped(at)),
                    "{from}..{until}"
                );
            }
        }
    }

    #[test]
    fn nothing_of_it_is_shown() {
        let mut bytes = Wiped::with_capacity(4);
        bytes.extend_from_slice(b"1234");
        assert_eq!((format!("{bytes:?}").as_str(), bytes.len()), ("Wiped(..)", 4));
    }
}
