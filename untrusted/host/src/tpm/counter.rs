//! The monotonic counter in a TPM.
//!
//! A TPM's own counters go up by one, and the enclave's jump at each start. So the TPM has a hash that is only ever extended
//! (`TPM_NT_EXTEND`, Trusted Platform Module Library, part 3: `TPM2_NV_Extend`): each value that the counter comes to goes into it. The value itself is in
//! a file, with the hash before it. A file of another day, or one that was written by hand, does not lead to the hash that the TPM has.

use super::{ended, run};
use crate::counter::{Counter, locked};
use crate::hexadecimal;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

type Hash = [u8; 32];

/// Bits of an index' attributes (part 2: `TPMA_NV`): its type, and whether anything was ever written.
const TYPE: u32 = 0xf0;
const EXTENDED: u32 = 0x40;
const WRITTEN: u32 = 1 << 29;

/// How long to wait for what a host that was killed had begun.
const PATIENCE: Duration = Duration::from_secs(30);

/// The file's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    /// What the TPM had before the value.
    before: Hash,
    value: u64,
    /// What the TPM is to be extended by, or was: a crash may lie between.
    next: Option<u64>,
}

/// A counter in a TPM's index, with a file beside the store. It is not set back by whoever restores the disk, or writes to it. Who may ask
/// the TPM can move the counter on, so that the enclave starts no more; to set it back takes who may remove the index: its owner.
pub struct TpmCounter {
    index: String,
    path: PathBuf,
    directory: PathBuf,
    /// One at a time: the file and the TPM go together. It is locked while this host runs, and while a tool of its runs that moves the TPM on:
    /// one outlives a host that is killed.
    turn: Mutex<File>,
}

impl TpmCounter {
    /// Of an index (`0x1500020`), which is made if it is not there, and a folder that is.
    ///
    /// # Errors
    /// The TPM fails; the index is another's; it and the file are not of one time.
    pub fn open(directory: &Path, index: u32) -> io::Result<Self> {
        let path = directory.join("counter");
        let counter = Self {
            index: format!("{index:#x}"),
            path,
            directory: directory.to_path_buf(),
            turn: Mutex::new(locked(&directory.join("counter.lock"), PATIENCE)?),
        };
        let new = Kept { before: [0; 32], value: 0, next: None };
        let kept = counter.kept()?;
        let there = counter.attributes(index)?;
        match there {
            Some(attributes) if attributes & TYPE != EXTENDED => {
                return Err(counter.error("is not a hash to extend (nt=extend), but something else"));
            }
            Some(attributes) if attributes & WRITTEN != 0 => {}
            _ if kept.is_none_or(|kept| kept == new) => counter.make(there.is_some(), new)?,
            _ => return Err(counter.error(
                "has never been written, but the counter's file has: of another TPM, or this one was cleared",
            )),
        }
        counter.read()?;
        Ok(counter)
    }

    fn make(&self, defined: bool, new: Kept) -> io::Result<()> {
        self.keep(new)?;
        if !defined {
            let attributes = "--attributes=authread|authwrite|nt=extend";
            self.ask("tpm2_nvdefine", &["--hierarchy=o", "--hash-algorithm=sha256", attributes])?;
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.extend(&turn, new.value)
    }

    /// The index' attributes, if it is there.
    fn attributes(&self, index: u32) -> io::Result<Option<u32>> {
        let listed = run("tpm2_getcap", &["handles-nv-index".as_ref()])?;
        let listed = String::from_utf8_lossy(&listed);
        if !listed.lines().any(|line| number(line.trim_start_matches(['-', ' '])) == Some(index)) {
            return Ok(None);
        }
        let public = self.ask("tpm2_nvreadpublic", &[])?;
        let public = String::from_utf8_lossy(&public);
        let value =
            public.lines().filter_map(|line| number(line.trim().strip_prefix("value: ")?)).next_back();
        value.map(Some).ok_or_else(|| self.error("is not described as it should be"))
    }

    fn ask(&self, tool: &str, options: &[&str]) -> io::Result<Vec<u8>> {
        let arguments: Vec<&OsStr> =
            options.iter().copied().chain([self.index.as_str()]).map(OsStr::new).collect();
        run(tool, &arguments)
    }

    fn hash(&self) -> io::Result<Hash> {
        let read = self.ask("tpm2_nvread", &["--size=32"])?;
        read.try_into().map_err(|_| self.error("has not 32 bytes"))
    }

    /// Moves the TPM on, by a tool that keeps the lock until it has ended: its output, of which there is none, is the locked file. What it
    /// reads is whole before it begins: a pipe of a host that is killed would be empty, and the TPM extended by nothing.
    fn extend(&self, turn: &File, value: u64) -> io::Result<()> {
        let step = self.path.with_extension("step");
        fs::write(&step, value.to_be_bytes())?;
        let arguments = ["--input".as_ref(), step.as_os_str(), self.index.as_ref()];
        ended("tpm2_nvextend", &arguments, turn.try_clone()?.into()).map(drop)
    }

    fn error(&self, what: &str) -> io::Error {
        io::Error::other(format!("the TPM's index {} {what}", self.index))
    }

    fn kept(&self) -> io::Result<Option<Kept>> {
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let odd = || io::Error::other(format!("{}: no value of a counter in a TPM", self.path.display()));
        Kept::read(&text).ok_or_else(odd).map(Some)
    }

    fn keep(&self, kept: Kept) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        writeln!(file, "{}", kept.written())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        File::open(&self.directory)?.sync_all()
    }

    /// What the TPM has, and the value that leads to it.
    fn stands(&self) -> io::Result<(Hash, Kept)> {
        let hash = self.hash()?;
        let found = self.kept()?.and_then(|kept| kept.at(&hash));
        let back = "is not where the counter's file says: the file is of an earlier time (restored from a backup?), or another host uses this index";
        found.map(|kept| (hash, kept)).ok_or_else(|| self.error(back))
    }
}

impl Counter for TpmCounter {
    fn read(&self) -> io::Result<u64> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.stands()?.1.value)
    }

    fn raise(&self, from: u64, to: u64) -> io::Result<u64> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (hash, kept) = self.stands()?;
        if kept.value != from || to <= from {
            return Ok(kept.value);
        }
        self.keep(Kept { next: Some(to), ..kept })?;
        self.extend(&turn, to)?;
        // Another's step may lie before it.
        if self.hash()? == extended(&hash, to) { Ok(from) } else { Err(self.error("was moved by another")) }
    }
}

impl Kept {
    /// The value of a hash that the TPM has, if it is one that this leads to, with nothing after it.
    fn at(&self, hash: &Hash) -> Option<Self> {
        let reached = extended(&self.before, self.value);
        if reached == *hash {
            return Some(Self { next: None, ..*self });
        }
        let value = self.next?;
        (extended(&reached, value) == *hash).then_some(Self { before: reached, value, next: None })
    }

    fn written(&self) -> String {
        let next = self.next.map(|next| format!(" {next}")).unwrap_or_default();
        format!("{} {}{next}", hexadecimal::written(&self.before), self.value)
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (digits, value) = (words.next()?, words.next()?.parse().ok()?);
        let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
        let before: Option<Vec<u8>> = (0..32).map(byte).collect();
        let next = words.next().map(|word| word.parse().ok()).map_or(Some(None), |next| next.map(Some))?;
        let before = before
            .filter(|_| digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?
            .try_into()
            .ok()?;
        words.next().is_none().then_some(Self { before, value, next })
    }
}

/// What a TPM makes of a hash and a value.
fn extended(before: &Hash, value: u64) -> Hash {
    Sha256::new().chain_update(before).chain_update(value.to_be_bytes()).finalize().into()
}

/// A number as the tools print it.
fn number(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_leads_to_one_hash_or_the_next() {
        let kept = Kept { before: [7; 32], value: 5, next: Some(9) };
        assert_eq!(Kept::read(&kept.written()), Some(kept));
        let five = extended(&[7; 32], 5);
        let nine = extended(&five, 9);
        assert_eq!(kept.at(&five), Some(Kept { next: None, ..kept }));
        let later = Kept { before: five, value: 9, next: None };
        assert_eq!(kept.at(&nine), Some(later));
        assert_eq!(later.at(&five), None);
        assert_eq!(kept.at(&extended(&nine, 10)), None);
        assert_eq!(Kept::read(&later.written()), Some(later));
    }

    #[test]
    fn what_is_no_such_file_is_none() {
        let good = Kept { before: [7; 32], value: 5, next: None }.written();
        assert!(Kept::read(&good).is_some());
        for odd in
            ["5", "", &good[1..], &format!("{good} x"), &format!("{good} 9 9"), &good.replace("07", "+7")]
        {
            assert_eq!(Kept::read(odd), None, "{odd}");
        }
    }
}
