//! Keyless half of Kerschbaum-Tueno: an array of entries in pages, rewritten whole at each change.
//!
//! *Storage.* A header an array (page size and length), and pages full of entries but for the last.
//!
//! *Cost.* A probe reads the header and a page; a range its pages. A change reads and writes every page: an offset
//! kept beside an array that stays in place would rotate it for free, and show where it begins to whoever compares
//! two copies of the store.

use crate::backend::storage;
use crate::keyspace::{borrow, key, prefix_range};
use arras_protocol::kerschbaum_tueno::{ENTRY_BYTES, HEAD_BYTES, LENGTH_MAX, Request, Response};
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::{Blob, IndexId, Refusal, codec};
use arras_storage::{Direction, Durability, Read, Storage, Table, Write};
use serde::{Deserialize, Serialize};
use std::ops::{Bound, ControlFlow};

#[cfg(test)]
mod tests;

/// Index id to [`Header`].
const HEADERS: Table = Table("kerschbaum_tueno_headers");
/// Index id and page number to entries.
const PAGES: Table = Table("kerschbaum_tueno_pages");

/// Largest page, in bytes.
const PAGE_BYTES_MAX: u32 = 1 << 20;

/// Facts about an array.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Header {
    page_bytes: u32,
    length: u32,
    /// Raised by every change, which all are durable: no version comes twice.
    version: u64,
}

impl Header {
    fn page_entries(self) -> usize {
        (self.page_bytes as usize / ENTRY_BYTES).max(1)
    }
}

/// What a change does to the array before it is rotated.
#[derive(Clone, Copy)]
enum Edit {
    Insert([u8; ENTRY_BYTES]),
    Remove,
}

fn malformed(what: &str) -> Refusal {
    Refusal::Malformed(what.into())
}

fn damaged(what: &str) -> Refusal {
    Refusal::Damaged(what.into())
}

fn page_key(index: IndexId, number: usize) -> Vec<u8> {
    key(&[index.as_bytes(), &(number as u64).to_be_bytes()])
}

/// Whether a name is [`page_key`]'s.
fn is_page(name: &[u8], index: IndexId, number: usize) -> bool {
    name.split_last_chunk::<8>()
        .is_some_and(|(rest, page)| rest == index.as_bytes() && u64::from_be_bytes(*page) == number as u64)
}

fn header(reader: &impl Read, index: IndexId) -> Result<Header, Refusal> {
    let bytes = reader.get(HEADERS, index.as_bytes()).map_err(storage)?.ok_or(Refusal::UnknownIndex)?;
    codec::decode(&bytes).map_err(|_| damaged("a header"))
}

/// Answers a request.
pub(crate) fn answer<S: Storage>(store: &S, request: Request) -> Result<Response, Refusal> {
    match request {
        Request::Begin { index } => {
            let reader = store.read().map_err(storage)?;
            let Header { version, length, .. } = header(&reader, index)?;
            let head = if length > 0 { Some(head(&reader, index, 0)?) } else { None };
            Ok(Response::Begun { version, length, head })
        }
        Request::Head { index, version, position } => {
            let reader = store.read().map_err(storage)?;
            if header(&reader, index)?.version != version {
                return Ok(Response::Changed);
            }
            head(&reader, index, position).map(Response::Head)
        }
        Request::Entries { index, version, position, count } => {
            let reader = store.read().map_err(storage)?;
            if header(&reader, index)?.version != version {
                return Ok(Response::Changed);
            }
            entries(&reader, index, position, count)
        }
        Request::CreateIndex { index, page_bytes } => {
            let mut writer = store.write().map_err(storage)?;
            create(&mut writer, index, page_bytes)?;
            writer.commit(Durability::Durable).map_err(storage)?;
            Ok(Response::Done)
        }
        Request::DropIndex { index } => {
            let mut writer = store.write().map_err(storage)?;
            writer.delete(HEADERS, index.as_bytes()).map_err(storage)?;
            writer.delete_prefix(PAGES, index.as_bytes(), usize::MAX).map_err(storage)?;
            writer.commit(Durability::Durable).map_err(storage)?;
            Ok(Response::Done)
        }
        Request::Insert { index, version, position, entry, rotation } => {
            change(store, (index, version), position, Edit::Insert(entry), rotation)
        }
        Request::Remove { index, version, position, rotation } => {
            change(store, (index, version), position, Edit::Remove, rotation)
        }
    }
}

fn create(writer: &mut impl Write, index: IndexId, page_bytes: u32) -> Result<(), Refusal> {
    if page_bytes > PAGE_BYTES_MAX || (page_bytes as usize) < ENTRY_BYTES {
        return Err(Refusal::Limit(format!(
            "a page of {page_bytes} bytes: {ENTRY_BYTES} to {PAGE_BYTES_MAX}"
        )));
    }
    match header(writer, index) {
        Ok(header) if header.page_bytes == page_bytes => Ok(()),
        Ok(_) => Err(malformed("the index exists with other parameters")),
        Err(Refusal::UnknownIndex) => {
            let header = Header { page_bytes, length: 0, version: 0 };
            writer.put(HEADERS, index.as_bytes(), &codec::encode(&header)).map_err(storage)
        }
        Err(other) => Err(other),
    }
}

/// The first block of an entry.
fn head(reader: &impl Read, index: IndexId, position: u32) -> Result<[u8; HEAD_BYTES], Refusal> {
    let header = header(reader, index)?;
    if position >= header.length {
        return Err(malformed("an entry that is not there"));
    }
    let (number, place) =
        (position as usize / header.page_entries(), position as usize % header.page_entries());
    let page = reader.get(PAGES, &page_key(index, number)).map_err(storage)?;
    let start = place.saturating_mul(ENTRY_BYTES);
    let head = page.as_deref().and_then(|page| page.get(start..)?.first_chunk::<HEAD_BYTES>().copied());
    head.ok_or_else(|| damaged("a page is short"))
}

/// Visits the entries from one position to another, as slices of pages.
fn visit(
    reader: &impl Read,
    index: IndexId,
    header: Header,
    (from, until): (usize, usize),
    mut visit: impl FnMut(&[u8]) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    if from >= until {
        return Ok(());
    }
    let page_entries = header.page_entries();
    let mut number = from / page_entries;
    let mut skip = (from % page_entries).saturating_mul(ENTRY_BYTES);
    let mut left = until.saturating_sub(from).saturating_mul(ENTRY_BYTES);
    let (_, end) = prefix_range(index.as_bytes(), None);
    let range = (Bound::Included(page_key(index, number)), end);
    let mut outcome = Ok(());
    reader
        .scan(PAGES, borrow(&range), Direction::Ascending, &mut |name, page| {
            let expected = is_page(name, index, number);
            let whole = page.len() == page_entries.saturating_mul(ENTRY_BYTES);
            let part = page.get(skip..).filter(|part| expected && (whole || part.len() >= left));
            outcome = match part {
                Some(part) => {
                    let part = part.get(..left).unwrap_or(part);
                    left = left.saturating_sub(part.len());
                    visit(part)
                }
                None => Err(damaged("a page is missing or short")),
            };
            (number, skip) = (number.saturating_add(1), 0);
            if outcome.is_ok() && left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .map_err(storage)?;
    outcome?;
    if left == 0 { Ok(()) } else { Err(damaged("the array ends early")) }
}

fn entries(reader: &impl Read, index: IndexId, position: u32, count: u32) -> Result<Response, Refusal> {
    let header = header(reader, index)?;
    let length = header.length as usize;
    if position >= header.length || count > header.length.saturating_add(2) {
        return Err(malformed("entries that are not there"));
    }
    let mut left = (count as usize).min((REPLY_BYTES_SOFT / ENTRY_BYTES).max(1));
    let mut found = Vec::with_capacity(left.saturating_mul(ENTRY_BYTES));
    let mut from = position as usize;
    while left > 0 {
        let until = length.min(from.saturating_add(left));
        visit(reader, index, header, (from, until), |part| {
            found.extend_from_slice(part);
            Ok(())
        })?;
        left = left.saturating_sub(until.saturating_sub(from));
        from = 0;
    }
    Ok(Response::Entries(Blob(found)))
}

/// Edits the array and writes it anew, rotated.
fn change<S: Storage>(
    store: &S,
    (index, version): (IndexId, u64),
    position: u32,
    edit: Edit,
    rotation: u32,
) -> Result<Response, Refusal> {
    let mut writer = store.write().map_err(storage)?;
    // Pages are read from a snapshot, in which the writer, who has the turn, changes nothing.
    let reader = store.read().map_err(storage)?;
    let old = header(&reader, index)?;
    if old.version != version {
        return Ok(Response::Changed);
    }
    let length = old.length;
    let (new_length, positions) = match edit {
        Edit::Insert(_) => (length.saturating_add(1), length.saturating_add(1)),
        Edit::Remove => (length.saturating_sub(1), length),
    };
    if position >= positions || rotation >= new_length.max(1) {
        return Err(malformed("a change of an array that is not so long"));
    }
    if new_length > LENGTH_MAX {
        return Err(Refusal::Limit("the array is full".into()));
    }
    let new = Header { length: new_length, version: version.saturating_add(1), ..old };
    let mut pages = Pages {
        writer: &mut writer,
        index,
        page_bytes: new.page_entries() * ENTRY_BYTES,
        number: 0,
        page: Vec::with_capacity(new.page_entries() * ENTRY_BYTES),
    };
    rotate(&reader, old, position as usize, edit, (new_length as usize, rotation as usize), &mut pages)?;
    let written = pages.finish()?;
    if (length as usize).div_ceil(old.page_entries()) > written {
        writer.delete(PAGES, &page_key(index, written)).map_err(storage)?;
    }
    writer.put(HEADERS, index.as_bytes(), &codec::encode(&new)).map_err(storage)?;
    // An open snapshot would make the store copy what the change replaces.
    drop(reader);
    writer.commit(Durability::Durable).map_err(storage)?;
    Ok(Response::Done)
}

/// Streams the edited array into `pages`, from the entry that the rotation brings to position 0.
fn rotate<W: Write>(
    reader: &impl Read,
    old: Header,
    position: usize,
    edit: Edit,
    (length, rotation): (usize, usize),
    pages: &mut Pages<'_, W>,
) -> Result<(), Refusal> {
    let index = pages.index;
    // The edited array is what lies before the position, the new entry if any, and what lies after.
    let (added, after) = match edit {
        Edit::Insert(_) => (1, position),
        Edit::Remove => (0, position.saturating_add(1)),
    };
    let begin = if rotation == 0 { 0 } else { length.saturating_sub(rotation) };
    for (from, until) in [(begin, length), (0, begin)] {
        visit(reader, index, old, (from.min(position), until.min(position)), |part| pages.add(part))?;
        if let Edit::Insert(entry) = &edit
            && (from..until).contains(&position)
        {
            pages.add(entry)?;
        }
        let edited = position.saturating_add(added);
        let old_place = |place: usize| place.max(edited).saturating_sub(edited).saturating_add(after);
        visit(reader, index, old, (old_place(from), old_place(until)), |part| pages.add(part))?;
    }
    Ok(())
}

/// Writes entries as pages.
struct Pages<'a, W> {
    writer: &'a mut W,
    index: IndexId,
    page_bytes: usize,
    number: usize,
    page: Vec<u8>,
}

impl<W: Write> Pages<'_, W> {
    fn add(&mut self, mut entries: &[u8]) -> Result<(), Refusal> {
        while !entries.is_empty() {
            let room = self.page_bytes.saturating_sub(self.page.len());
            let (fits, rest) = entries.split_at(room.min(entries.len()));
            self.page.extend_from_slice(fits);
            if self.page.len() >= self.page_bytes {
                self.write()?;
            }
            entries = rest;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Refusal> {
        let page = std::mem::replace(&mut self.page, Vec::with_capacity(self.page_bytes));
        self.writer.put_owned(PAGES, &page_key(self.index, self.number), page.into()).map_err(storage)?;
        self.number = self.number.saturating_add(1);
        Ok(())
    }

    /// Writes what is left; how many pages there are.
    fn finish(mut self) -> Result<usize, Refusal> {
        if !self.page.is_empty() {
            self.write()?;
        }
        Ok(self.number)
    }
}
