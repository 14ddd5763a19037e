//! The record of what was indexed, in a file: sealed pieces, each bound to its place, behind one another.
//!
//! The file begins with an identity drawn at random; the first piece is the salt of the collection it belongs to. A piece is its
//! sealed length as `u32`, little endian, and its sealed bytes. A piece that a crash cut off is dropped: its update is made again.

use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_schemes::bisen::Salt;
use arras_search::corpus::{Journal, Ledger};
use arras_storage::private::file_options;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Begins the file.
const MAGIC: &[u8; 8] = b"arrasjn2";
/// Bytes of a file's identity.
const IDENTITY_BYTES: usize = 16;
/// What it may grow to beside what it would be anew, in pieces, before it is written anew.
const GROWN: u64 = 1000;

/// An open journal.
pub(crate) struct JournalFile<'a> {
    aead: &'a Aead,
    file: File,
    path: PathBuf,
    identity: [u8; IDENTITY_BYTES],
    pieces: u64,
}

/// What a journal is opened for.
pub(crate) enum Opened<'a> {
    /// A collection's, with what it says.
    Known(JournalFile<'a>, Ledger),
    /// There was none.
    New(JournalFile<'a>),
}

fn damaged(what: &str) -> io::Error {
    let what = format!(
        "the record of what was indexed is damaged ({what}); restore it from a backup, or index anew into another store"
    );
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<'a> JournalFile<'a> {
    /// Opens the journal of a collection, or makes it.
    pub(crate) fn open(path: &Path, aead: &'a Aead, salt: &Salt) -> io::Result<Opened<'a>> {
        let file = file_options().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut journal = Self { aead, file, path: path.into(), identity: [0; IDENTITY_BYTES], pieces: 0 };
        match journal.read(salt)? {
            Some(ledger) => {
                if journal.pieces > GROWN + 2 * ledger.len() as u64 {
                    journal.rewrite(salt, &ledger)?;
                }
                Ok(Opened::Known(journal, ledger))
            }
            None => {
                journal.rewrite(salt, &Ledger::default())?;
                Ok(Opened::New(journal))
            }
        }
    }

    /// Reads it, and drops a piece that was cut off; nothing if there is none yet.
    fn read(&mut self, salt: &Salt) -> io::Result<Option<Ledger>> {
        let length = self.file.metadata()?.len();
        let mut reader = BufReader::new(&self.file);
        let mut magic = [0; MAGIC.len()];
        if length < (MAGIC.len() + IDENTITY_BYTES) as u64 {
            return Ok(None);
        }
        reader.read_exact(&mut magic)?;
        reader.read_exact(&mut self.identity)?;
        if &magic != MAGIC {
            return Err(damaged("it is another kind of file"));
        }
        let mut ledger = Ledger::default();
        let mut end = (MAGIC.len() + IDENTITY_BYTES) as u64;
        let mut prefix = [0; 4];
        while end + 4 <= length {
            reader.read_exact(&mut prefix)?;
            let bytes = u64::from(u32::from_le_bytes(prefix));
            if end + 4 + bytes > length {
                break;
            }
            let mut sealed = vec![0; bytes as usize];
            reader.read_exact(&mut sealed)?;
            let piece = self.aead.open(&self.associated(), &sealed);
            let piece = piece.map_err(|_| damaged("a piece does not open"))?;
            if self.pieces > 0 {
                ledger.replay(&piece).map_err(|_| damaged("a piece cannot be read"))?;
            } else if piece != salt.0 {
                let what = "what was indexed is in another enclave's collection, and this one is empty: put the store's folders \
                            back from one backup, or index anew into another store";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            self.pieces += 1;
            end += 4 + bytes;
        }
        drop(reader);
        self.file.set_len(end)?;
        self.file.seek(SeekFrom::Start(end))?;
        Ok((self.pieces > 0).then_some(ledger))
    }

    /// Writes it anew, in place of what is there.
    fn rewrite(&mut self, salt: &Salt, ledger: &Ledger) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = file_options().read(true).write(true).create(true).truncate(true).open(&new)?;
        self.identity = random()?;
        self.pieces = 0;
        let mut bytes = [&MAGIC[..], &self.identity].concat();
        let mut add = |piece: &[u8], bytes: &mut Vec<u8>| -> io::Result<()> {
            bytes.extend(self.sealed(piece)?);
            self.pieces += 1;
            Ok(())
        };
        add(&salt.0, &mut bytes)?;
        for piece in ledger.pieces() {
            add(&piece, &mut bytes)?;
        }
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        self.file = file;
        Ok(())
    }

    fn associated(&self) -> Vec<u8> {
        [&b"arras search journal"[..], &self.identity, &self.pieces.to_le_bytes()].concat()
    }

    fn sealed(&self, piece: &[u8]) -> io::Result<Vec<u8>> {
        let sealed = self.aead.seal(&random::<NONCE_BYTES>()?, &self.associated(), piece);
        let length = u32::try_from(sealed.len()).map_err(io::Error::other)?;
        Ok([&length.to_le_bytes()[..], &sealed].concat())
    }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

impl Journal for JournalFile<'_> {
    fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        let sealed = self.sealed(piece)?;
        self.file.write_all(&sealed)?;
        self.file.sync_data()?;
        self.pieces += 1;
        Ok(())
    }
}
