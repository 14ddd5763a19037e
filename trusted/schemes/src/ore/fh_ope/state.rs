//! The tree as bytes: what a client keeps between runs.
//!
//! ```text
//! version 1 (a byte), bits of a plaintext (a byte), number of ciphertexts
//! for each plaintext, ascending: its distance from the one before, how many ciphertexts it has
//! the shape of the tree, in bits, lowest first: for each subtree, root before left before right,
//!     0 if nothing is in it, or 1 and then, unless its root is a leaf, whether a value is at its root
//! ```
//! Numbers take seven bits a byte, lowest first. About three bits a ciphertext, and the plaintexts.

use super::FhOpe;
use super::list::List;
use crate::bplus::Present;
use crate::contract::State;
use crate::error::IndexError;
use crate::ore::StatefulScheme;
use arras_protocol::IndexId;
use arras_protocol::ore::Width;
use zeroize::Zeroizing;

const VERSION: u8 = 1;

/// The root of all places.
const ROOT: u64 = 1 << 63;

/// Bytes are not a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a state of FH-OPE: {0}")]
pub struct MalformedState(&'static str);

impl FhOpe {
    /// The state, to be sealed by whoever stores it: it holds the plaintexts.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // Room for all, so that no copy is left behind by growing.
        let runs = self.list.runs().count();
        let mut bytes = Zeroizing::new(Vec::with_capacity(12 + runs * 20 + self.len() * 16));
        bytes.extend([VERSION, if self.width == Width::Bits32 { 32 } else { 64 }]);
        put_number(&mut bytes, self.len() as u64);
        let mut last = 0;
        for (plaintext, count) in self.list.runs() {
            put_number(&mut bytes, plaintext - last);
            put_number(&mut bytes, count as u64);
            last = plaintext;
        }
        let ciphertexts: Vec<u64> = self.list.ciphertexts().collect();
        let mut bits = BitWriter { bytes: &mut bytes, used: 8 };
        put_subtree(&mut bits, ROOT, &ciphertexts);
        bytes
    }

    /// Reads what [`FhOpe::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`MalformedState`]: nothing that it writes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedState> {
        let (head, mut rest) = bytes.split_at_checked(2).ok_or(MalformedState("too short"))?;
        let width = match head {
            [VERSION, 32] => Width::Bits32,
            [VERSION, 64] => Width::Bits64,
            _ => return Err(MalformedState("its version or width")),
        };
        let len = take_number(&mut rest)?;
        // The shape alone takes two bits a ciphertext.
        if len > rest.len() as u64 * 4 {
            return Err(MalformedState("more values than bytes can tell"));
        }
        let runs = take_runs(&mut rest, len, width)?;
        let mut bits = BitReader { bytes: rest, at: 0 };
        let mut ciphertexts = Vec::new();
        take_subtree(&mut bits, ROOT, len, &mut ciphertexts)?;
        if ciphertexts.len() as u64 != len || ciphertexts.last() == Some(&u64::MAX) || !bits.is_used_up() {
            return Err(MalformedState("the tree's shape"));
        }
        let mut list = List::new();
        let plaintexts = runs.iter().flat_map(|(plaintext, count)| (0..*count).map(|_| *plaintext));
        for (plaintext, ciphertext) in plaintexts.zip(ciphertexts) {
            list.push(plaintext, ciphertext);
        }
        Ok(Self { list, ..Self::new(width) })
    }
}

impl FhOpe {
    /// This tree, an empty one, with what an index's changes left of it in the caller's state, the index's version and its
    /// entries: for [`crate::bplus::StatefulBPlus::taken_up`].
    ///
    /// # Errors
    /// [`IndexError::State`] if the records cannot be read or are not those of one tree.
    pub fn saved(self, index: IndexId, state: &dyn State) -> Result<(Self, u64, Present), IndexError> {
        let mut records = Vec::new();
        let prefix = index.as_bytes();
        // Not all records of the index: what its documents are like is among them.
        let ciphertexts = [prefix.as_slice(), &[crate::bplus::CIPHERTEXT_RECORD]].concat();
        state.each(&ciphertexts, &mut |name, value| {
            records.push((name.strip_prefix(prefix).unwrap_or(name).to_vec(), Zeroizing::new(value)));
        })?;
        let version = state.read(&[prefix.as_slice(), crate::bplus::VERSION_RECORD].concat())?;
        records
            .extend(version.map(|version| (crate::bplus::VERSION_RECORD.to_vec(), Zeroizing::new(version))));
        let entries = [prefix.as_slice(), &[crate::bplus::ENTRY_RECORD]].concat();
        let (mut present, mut named) = (Present::default(), true);
        state.each(&entries, &mut |name, _| {
            named &= name.strip_prefix(entries.as_slice()).is_some_and(|name| present.restore(name));
        })?;
        let records = records.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        let saved = self.from_records(records).and_then(|(tree, version)| match named {
            true => Ok((tree, version, present)),
            false => Err(MalformedState("a record of another name")),
        });
        saved.map_err(|error| IndexError::State(error.to_string()))
    }

    /// Takes up the records that an index's changes left ([`crate::contract::StateChange`]), their names without the
    /// index's, in this tree, an empty one; the tree, and the index's version. None at all: an empty tree, at version 0.
    ///
    /// # Errors
    /// [`MalformedState`] if they are not those of one tree.
    pub fn from_records<'r>(
        self,
        records: impl Iterator<Item = (&'r [u8], &'r [u8])>,
    ) -> Result<(Self, u64), MalformedState> {
        let (mut tree, mut version) = (self, None);
        let number = |bytes: &[u8]| {
            bytes.try_into().map(u64::from_be_bytes).map_err(|_| MalformedState("a record's length"))
        };
        for (name, value) in records {
            match name.split_first() {
                Some((&crate::bplus::CIPHERTEXT_RECORD, _)) => {
                    let (ciphertext, value) =
                        value.split_at_checked(8).ok_or(MalformedState("a record's length"))?;
                    if !tree.restore(number(value)?, number(ciphertext)?) {
                        return Err(MalformedState("records that are not of one tree"));
                    }
                }
                _ if name == crate::bplus::VERSION_RECORD => version = Some(number(value)?),
                _ => return Err(MalformedState("a record of another name")),
            }
        }
        match version {
            None if !tree.is_empty() => Err(MalformedState("no version")),
            version => Ok((tree, version.unwrap_or(0))),
        }
    }
}

/// Plaintexts and how many ciphertexts each has, `len` together.
fn take_runs(rest: &mut &[u8], len: u64, width: Width) -> Result<Zeroizing<Vec<(u64, u64)>>, MalformedState> {
    let mut runs = Zeroizing::new(Vec::new());
    let (mut taken, mut last) = (0, 0_u64);
    while taken < len {
        let distance = take_number(rest)?;
        let plaintext = last.checked_add(distance).ok_or(MalformedState("a plaintext"))?;
        let ascending = runs.is_empty() || distance > 0;
        if !ascending || plaintext > width.greatest() {
            return Err(MalformedState("a plaintext"));
        }
        let count = take_number(rest)?;
        if count == 0 || count > len - taken {
            return Err(MalformedState("a count"));
        }
        taken += count;
        last = plaintext;
        runs.push((plaintext, count));
    }
    Ok(runs)
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Result<u64, MalformedState> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(MalformedState("too short"))?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        if part << shift >> shift != part || (shift > 0 && *first == 0) {
            return Err(MalformedState("a number"));
        }
        number |= part << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(MalformedState("a number"))
}

struct BitWriter<'a> {
    bytes: &'a mut Vec<u8>,
    /// Bits used of the last byte.
    used: u32,
}

impl BitWriter<'_> {
    fn put(&mut self, bit: bool) {
        if self.used == 8 {
            self.bytes.push(0);
            self.used = 0;
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << self.used;
        }
        self.used += 1;
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits read.
    at: usize,
}

impl BitReader<'_> {
    fn take(&mut self) -> Result<bool, MalformedState> {
        let byte = self.bytes.get(self.at / 8).ok_or(MalformedState("too short"))?;
        let bit = byte >> (self.at % 8) & 1;
        self.at += 1;
        Ok(bit == 1)
    }

    /// Whether nothing but the last byte's padding of zeros is left.
    fn is_used_up(&self) -> bool {
        self.at.div_ceil(8) == self.bytes.len()
            && (self.at.is_multiple_of(8) || self.bytes.last().is_some_and(|last| last >> (self.at % 8) == 0))
    }
}

/// Writes the subtree at `root`, which holds `ciphertexts`.
fn put_subtree(bits: &mut BitWriter<'_>, root: u64, ciphertexts: &[u64]) {
    bits.put(!ciphertexts.is_empty());
    let half = 1 << root.trailing_zeros() >> 1;
    if ciphertexts.is_empty() || half == 0 {
        return;
    }
    let (left, rest) = ciphertexts.split_at(ciphertexts.partition_point(|ciphertext| *ciphertext < root));
    let here = rest.first() == Some(&root);
    bits.put(here);
    put_subtree(bits, root - half, left);
    put_subtree(bits, root + half, &rest[usize::from(here)..]);
}

/// Reads the subtree at `root`: at most `limit` ciphertexts in all, and in each subtree at least one if it says so.
fn take_subtree(
    bits: &mut BitReader<'_>,
    root: u64,
    limit: u64,
    ciphertexts: &mut Vec<u64>,
) -> Result<(), MalformedState> {
    if !bits.take()? {
        return Ok(());
    }
    let before = ciphertexts.len();
    let half = 1 << root.trailing_zeros() >> 1;
    let here = half == 0 || bits.take()?;
    if half > 0 {
        take_subtree(bits, root - half, limit, ciphertexts)?;
    }
    if here {
        ciphertexts.push(root);
    }
    if half > 0 {
        take_subtree(bits, root + half, limit, ciphertexts)?;
    }
    if ciphertexts.len() == before || ciphertexts.len() as u64 > limit {
        return Err(MalformedState("the tree's shape"));
    }
    Ok(())
}
