#![allow(clippy::unwrap_used)]

use super::terminal::read_line;
use super::*;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// What hides the passphrase where it must not be found: each byte is kept with these bits turned.
const TURNED: u8 = 0x55;

/// A passphrase of 96 characters, turned. Long enough that what an allocator writes into freed memory (16 bytes) leaves most
/// of it, and that a buffer which grows would have moved it several times.
fn hidden() -> Vec<u8> {
    (0..96_u8).map(|place| (b'!' + place.wrapping_mul(37) % 90) ^ TURNED).collect()
}

/// Reads like a terminal: one line, of which nothing stays with the reader.
struct Typist {
    hidden: Vec<u8>,
    at: usize,
}

impl std::io::Read for Typist {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        into[0] = self.hidden.get(self.at).map_or(b'\n', |byte| byte ^ TURNED);
        self.at += 1;
        Ok(1)
    }
}

/// Held by who looks through the memory: what one reads there, another would find once more.
static LOOKING: Mutex<()> = Mutex::new(());

/// How often a part of what is hidden is in this process's memory, turned back.
fn copies(hidden: &[u8]) -> usize {
    let memory = File::open("/proc/self/mem").unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut found = 0;
    let mut chunk = vec![0; 1 << 20];
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (range, _) = line.split_once(' ').unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap());
        let own = chunk.as_ptr().addr() as u64..chunk.as_ptr().addr() as u64 + chunk.len() as u64;
        // Chunks overlap by what may begin in the one and end in the next, and by no beginning.
        for at in (from..to).step_by(chunk.len() + 1 - hidden.len()) {
            let length = usize::try_from(to - at).unwrap().min(chunk.len());
            if memory.read_exact_at(&mut chunk[..length], at).is_err() {
                continue;
            }
            for (begin, window) in chunk[..length].windows(hidden.len()).enumerate() {
                let here = at + begin as u64;
                if !own.contains(&here)
                    && window.iter().zip(hidden).all(|(byte, hidden)| *byte == hidden ^ TURNED)
                {
                    found += 1;
                }
            }
        }
    }
    chunk.fill(0);
    found
}

#[test]
fn a_passphrase_typed_twice_is_wiped() {
    let _alone = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    let hidden = hidden();
    let mut typists = [0, 1].map(|_| Typist { hidden: hidden.clone(), at: 0 }).into_iter();
    let ask = |_: &str| read_line(&mut typists.next().unwrap());
    let chosen = black_box(chosen_by(None, "", ask).unwrap());
    // Parts of it: an allocator overwrites the beginning of what is given back.
    let parts = [&hidden[16..32], &hidden[40..64]];
    assert_eq!(parts.map(copies), [1, 1], "held once, by the passphrase itself");
    drop(chosen);
    assert_eq!(parts.map(copies), [0, 0]);
}

#[test]
fn passphrases_that_differ_are_refused_and_wiped() {
    let _alone = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    let hidden = hidden().into_iter().map(|byte| byte ^ 0x08).collect::<Vec<u8>>();
    let mut other = hidden.clone();
    other[95] ^= 1;
    let mut typists = [hidden.clone(), other].map(|hidden| Typist { hidden, at: 0 }).into_iter();
    let ask = |_: &str| read_line(&mut typists.next().unwrap());
    assert!(matches!(chosen_by(None, "", ask), Err(Failure::Unlock(_))));
    assert_eq!(copies(&hidden[40..64]), 0);
}

#[test]
fn an_empty_passphrase_is_refused() {
    assert!(matches!(chosen_by(Some(Zeroizing::default()), "", |_| unreachable!()), Err(Failure::Unlock(_))));
}

#[test]
fn a_line_ends_where_the_input_does_and_must_be_text() {
    assert_eq!(read_line(&mut b"words\nmore".as_slice()).unwrap().as_str(), "words");
    assert_eq!(read_line(&mut b"words".as_slice()).unwrap().as_str(), "words");
    assert!(read_line(&mut b"".as_slice()).is_err());
    assert!(read_line(&mut b"\xff\xfe\n".as_slice()).is_err());
    assert!(read_line(&mut vec![b'a'; 5000].as_slice()).is_err());
}
