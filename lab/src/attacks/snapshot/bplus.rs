//! The leaves of a B+ tree from left to right. The layout is that of `arras_server::bplus`.

use super::Ranks;
use crate::attacks::observed::Observer;
use crate::attacks::watched::WatchedRun;
use crate::attacks::{AttackFailure, Symmetry};
use arras_protocol::bplus::SealedEntry;
use arras_protocol::codec;
use arras_protocol::ore::Scheme;
use arras_server::ore::compare;
use arras_storage::Table;
use serde::Deserialize;
use std::cmp::Ordering;
use std::collections::HashMap;

const HEADERS: Table = Table("bplus_headers");
const PAGES: Table = Table("bplus_pages");
const HEAD_BYTES: usize = 3;
const CHILD_BYTES: usize = 8;

#[derive(Deserialize)]
#[allow(dead_code, reason = "the stored form has these fields")]
struct Header {
    scheme: Scheme,
    page_bytes: u32,
    root: u64,
    level: u8,
    next_page: u64,
    version: u64,
}

/// A column of ciphertexts, ascending as the tree has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Their scheme.
    pub(crate) scheme: Scheme,
    /// Ciphertext, and the record whose it is.
    pub(crate) entries: Vec<(Vec<u8>, usize)>,
}

const UNREADABLE: AttackFailure = AttackFailure::Unreadable("a B+ tree's pages");

impl Column {
    /// Reads the leaves.
    pub(crate) fn read(run: &WatchedRun) -> Result<Self, AttackFailure> {
        let header = run.table(HEADERS)?.pop().ok_or(UNREADABLE)?.1;
        let header: Header = codec::decode(&header).map_err(|_| UNREADABLE)?;
        let pages: HashMap<u64, Vec<u8>> = run
            .table(PAGES)?
            .into_iter()
            .filter_map(|(key, page)| Some((u64::from_be_bytes(key.try_into().ok()?), page)))
            .collect();
        // For scoring alone: a copy says nothing of which record an entry belongs to.
        let records = run.insertions.iter().enumerate();
        let records =
            records.filter_map(|(record, exchanges)| Some((Observer::inserted(exchanges)?, record)));
        let records = records.collect();
        let mut column = Self { scheme: header.scheme, entries: Vec::new() };
        column.walk(&pages, &records, header.root).ok_or(UNREADABLE)?;
        Ok(column)
    }

    fn walk(
        &mut self,
        pages: &HashMap<u64, Vec<u8>>,
        records: &HashMap<Vec<u8>, usize>,
        number: u64,
    ) -> Option<()> {
        let (head, body) = pages.get(&number)?.split_first_chunk::<HEAD_BYTES>()?;
        let stored_bytes = self.scheme.stored_bytes()?;
        let entry_bytes = stored_bytes + SealedEntry::BYTES;
        if head[0] == 0 {
            for entry in body.chunks_exact(entry_bytes) {
                let (ciphertext, name) = entry.split_at(stored_bytes);
                self.entries.push((ciphertext.to_vec(), *records.get(name)?));
            }
            return Some(());
        }
        let (first, rest) = body.split_at_checked(CHILD_BYTES)?;
        let children = rest.chunks_exact(entry_bytes + CHILD_BYTES).map(|part| &part[entry_bytes..]);
        for child in std::iter::once(first).chain(children) {
            self.walk(pages, records, u64::from_be_bytes(child.try_into().ok()?))?;
        }
        Some(())
    }

    /// A place each.
    pub(crate) fn ranks(&self) -> Result<Ranks, AttackFailure> {
        let count = self.entries.len() as f64;
        let mut intervals = vec![(0.0, 1.0); self.entries.len()];
        for (place, (_, record)) in self.entries.iter().enumerate() {
            intervals[*record] = (place as f64 / count, (place + 1) as f64 / count);
        }
        let groups = if self.shows_equality() { Some(self.groups()?) } else { None };
        Ok(Ranks { intervals, symmetry: Symmetry::None, groups })
    }

    /// Whether stored ciphertexts alone show which are equal.
    fn shows_equality(&self) -> bool {
        matches!(self.scheme, Scheme::Bclo(_) | Scheme::Clww(_) | Scheme::Plain(_))
    }

    /// The records of equal values, ascending. Where stored ciphertexts show nothing of equality (Lewi-Wu, CLOZ, FH-OPE),
    /// a record each.
    pub(crate) fn groups(&self) -> Result<Vec<Vec<usize>>, AttackFailure> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut before: Option<&(Vec<u8>, usize)> = None;
        for entry in &self.entries {
            let same = match before {
                None => false,
                Some(before) if self.shows_equality() => {
                    let order = compare(self.scheme, &before.0, &entry.0);
                    order.map_err(|_| AttackFailure::Unreadable("a ciphertext"))? == Ordering::Equal
                }
                Some(_) => false,
            };
            match groups.last_mut() {
                Some(group) if same => group.push(entry.1),
                _ => groups.push(vec![entry.1]),
            }
            before = Some(entry);
        }
        Ok(groups)
    }

    /// The ciphertext of a record.
    pub(crate) fn ciphertexts(&self) -> HashMap<usize, &[u8]> {
        self.entries.iter().map(|(ciphertext, record)| (*record, ciphertext.as_slice())).collect()
    }
}
