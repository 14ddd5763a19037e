//! A tree in a transaction: its header, its pages by number, and paths through them.

use super::page::{Layout, Page, damaged};
use crate::backend::storage;
use crate::keyspace::key;
use crate::leftovers;
use arras_protocol::ore::Scheme;
use arras_protocol::{IndexId, Refusal, codec};
use arras_storage::{Read, Table, Write};
use serde::{Deserialize, Serialize};
use std::ops::{Deref, DerefMut};

/// Index id to header.
const HEADERS: Table = Table("bplus_headers");
/// Index id and page number to page.
const PAGES: Table = Table("bplus_pages");
/// Tables that a drop empties of what begins with the index's id.
pub(crate) const EMPTIED: &[Table] = &[PAGES];

/// Highest level of a root: pages hold three entries at least.
const LEVEL_MAX: u8 = 48;

/// What is known of an index beside its pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) scheme: Scheme,
    pub(super) page_bytes: u32,
    /// Page number of the root.
    pub(super) root: u64,
    /// Level of the root; leaves are at 0.
    pub(super) level: u8,
    /// The next new page's number.
    next_page: u64,
    /// Of its ciphertexts, where the client keeps them; else 0.
    pub(super) version: u64,
}

/// A tree over a transaction, which it borrows.
pub(super) struct Tree<T> {
    store: T,
    index: IndexId,
    pub(super) layout: Layout,
    pub(super) header: Header,
    /// The header as stored.
    saved: Header,
}

/// A page on a path, and the position of the child the path goes on with, or, in a leaf, between two entries.
pub(super) struct Step {
    pub(super) number: u64,
    pub(super) page: Page,
    pub(super) position: usize,
}

/// From the root to a leaf.
pub(super) struct Path(pub(super) Vec<Step>);

impl Path {
    /// The leaf.
    pub(super) fn leaf(&self) -> Result<&Step, Refusal> {
        match self.0.last() {
            Some(step) => Ok(step),
            None => damaged("a path without a page"),
        }
    }
}

/// Makes an empty index.
pub(super) fn create(writer: &mut impl Write, index: IndexId, layout: Layout) -> Result<(), Refusal> {
    leftovers::none_of(writer, EMPTIED, index.as_bytes())?;
    let Layout { scheme, page_bytes, .. } = layout;
    let header = Header { scheme, page_bytes, root: 0, level: 0, next_page: 1, version: 0 };
    writer.put(HEADERS, index.as_bytes(), &codec::encode(&header)).map_err(storage)?;
    let root = key(&[index.as_bytes(), &0_u64.to_be_bytes()]);
    writer.put(PAGES, &root, layout.empty_leaf().bytes()).map_err(storage)
}

/// Drops an index.
pub(super) fn drop_index(writer: &mut impl Write, index: IndexId) -> Result<(), Refusal> {
    writer.delete(HEADERS, index.as_bytes()).map_err(storage)?;
    leftovers::remove(writer, PAGES, index.as_bytes())
}

impl<T: Deref<Target: Read>> Tree<T> {
    /// Opens an index.
    pub(super) fn open(store: T, index: IndexId) -> Result<Self, Refusal> {
        let (layout, header) = read_header(&*store, index)?;
        Ok(Self { store, index, layout, saved: header.clone(), header })
    }

    fn name(&self, number: u64) -> Vec<u8> {
        key(&[self.index.as_bytes(), &number.to_be_bytes()])
    }

    /// Reads a page that must be of this level.
    pub(super) fn page(&self, number: u64, level: u8) -> Result<Page, Refusal> {
        match self.store.get(PAGES, &self.name(number)).map_err(storage)? {
            Some(bytes) => Page::open(self.layout, bytes.into(), level),
            None => damaged("a page is missing"),
        }
    }

    /// Walks to the place between the last entry that `before` is true of and the first it is not.
    pub(super) fn seek(
        &self,
        mut before: impl FnMut(&[u8], &[u8]) -> Result<bool, Refusal>,
    ) -> Result<Path, Refusal> {
        let mut path = Vec::with_capacity(usize::from(self.header.level) + 1);
        let mut number = self.header.root;
        for level in (0..=self.header.level).rev() {
            let page = self.page(number, level)?;
            let position = page.partition(&mut before)?;
            let child = if level == 0 { 0 } else { page.child(position)? };
            path.push(Step { number, page, position });
            number = child;
        }
        Ok(Path(path))
    }

    /// Moves the path to the start of the next leaf, or the end of the previous one; false if there is none.
    pub(super) fn turn(&self, path: &mut Path, forward: bool) -> Result<bool, Refusal> {
        let mut below = Vec::new();
        let mut at = loop {
            match path.0.pop() {
                None => {
                    path.0.extend(below.into_iter().rev());
                    return Ok(false);
                }
                Some(step) if step.page.level() > 0 && can_turn(&step, forward) => break step,
                Some(step) => below.push(step),
            }
        };
        at.position = if forward { at.position + 1 } else { at.position.saturating_sub(1) };
        let (mut level, mut number) = (at.page.level(), at.page.child(at.position)?);
        path.0.push(at);
        while level > 0 {
            level -= 1;
            let page = self.page(number, level)?;
            if page.count() == 0 {
                return damaged("an empty page below the root");
            }
            let position = if forward { 0 } else { page.count() };
            let child = if level == 0 { 0 } else { page.child(position)? };
            path.0.push(Step { number, page, position });
            number = child;
        }
        Ok(true)
    }

    /// Whether it has an entry.
    pub(super) fn is_filled(&self) -> Result<bool, Refusal> {
        Ok(self.header.level > 0 || self.page(self.header.root, 0)?.count() > 0)
    }
}

fn can_turn(step: &Step, forward: bool) -> bool {
    if forward { step.position < step.page.count() } else { step.position > 0 }
}

impl<T: DerefMut<Target: Write>> Tree<T> {
    /// Writes a page.
    pub(super) fn put(&mut self, number: u64, page: &Page) -> Result<(), Refusal> {
        let name = self.name(number);
        self.store.put(PAGES, &name, page.bytes()).map_err(storage)
    }

    /// Removes a page.
    pub(super) fn delete(&mut self, number: u64) -> Result<(), Refusal> {
        let name = self.name(number);
        self.store.delete(PAGES, &name).map_err(storage).map(drop)
    }

    /// Writes a new page; its number.
    pub(super) fn add(&mut self, page: &Page) -> Result<u64, Refusal> {
        let number = self.header.next_page;
        self.header.next_page = number.saturating_add(1);
        self.put(number, page)?;
        Ok(number)
    }

    /// Puts a root over the old one, with the page right of it.
    pub(super) fn grow(&mut self, separator: &[u8], right: u64) -> Result<(), Refusal> {
        if self.header.level >= LEVEL_MAX {
            return damaged("a tree too high");
        }
        let level = self.header.level + 1;
        let mut root = self.layout.inner(level, self.header.root);
        root.insert_child(0, separator, right);
        (self.header.root, self.header.level) = (self.add(&root)?, level);
        Ok(())
    }

    /// Puts a root without separators over the old one, in the tree and on the path.
    pub(super) fn raise(&mut self, root: &Page, path: &mut Path) -> Result<(), Refusal> {
        if self.header.level >= LEVEL_MAX {
            return damaged("a tree too high");
        }
        (self.header.root, self.header.level) = (self.add(root)?, root.level());
        path.0.insert(0, Step { number: self.header.root, page: root.clone(), position: 0 });
        Ok(())
    }

    /// Writes the header if it has changed.
    pub(super) fn save(mut self) -> Result<(), Refusal> {
        if self.header != self.saved {
            let header = codec::encode(&self.header);
            self.store.put(HEADERS, self.index.as_bytes(), &header).map_err(storage)?;
        }
        Ok(())
    }
}

/// An index's layout and header.
pub(super) fn read_header(store: &(impl Read + ?Sized), index: IndexId) -> Result<(Layout, Header), Refusal> {
    let bytes = store.get(HEADERS, index.as_bytes()).map_err(storage)?.ok_or(Refusal::UnknownIndex)?;
    let Ok(header) = codec::decode::<Header>(&bytes) else {
        return damaged("a header does not parse");
    };
    if header.level > LEVEL_MAX {
        return damaged("a tree too high");
    }
    match Layout::new(header.scheme, header.page_bytes) {
        Ok(layout) => Ok((layout, header)),
        Err(_) => damaged("a header of no scheme"),
    }
}
