//! Buffers: chains of pages of elements.

use super::BUFFERS;
use super::node::{Head, Tree, damaged, malformed};
use crate::backend::storage;
use crate::keyspace::{borrow, key, prefix_range};
use arras_primitives::prg::Prg;
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::pope::{Chunk, Node};
use arras_protocol::{Blob, IndexId, Refusal};
use arras_storage::{Direction, Read, Write};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

/// What all page names of a node's buffer start with.
pub(super) fn buffer_prefix(index: IndexId, node: u64) -> Vec<u8> {
    key(&[index.as_bytes(), &node.to_be_bytes()])
}

fn page_key(index: IndexId, node: Node, page: u64) -> Vec<u8> {
    key(&[index.as_bytes(), &node.number().to_be_bytes(), &page.to_be_bytes()])
}

/// The numbers of node and page that a page's name ends with.
fn page_name(name: &[u8]) -> Option<(u64, u64)> {
    let (name, page) = name.split_last_chunk::<8>()?;
    let node = name.last_chunk::<8>()?;
    Some((u64::from_be_bytes(*node), u64::from_be_bytes(*page)))
}

/// Visits the pages of a node's buffer from page number `from` on, each checked to hold whole elements.
pub(super) fn visit<R: Read>(
    tree: &Tree<'_, R>,
    node: Node,
    from: u64,
    mut visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> Result<(), Refusal> {
    visit_row(tree, node, node, from, |_, number, page| visit(number, page))
}

/// Visits, as node number, page number and page, the buffers of nodes with numbers in a row; the first one's from
/// page number `from` on.
pub(super) fn visit_row<R: Read>(
    tree: &Tree<'_, R>,
    first: Node,
    last: Node,
    from: u64,
    mut visit: impl FnMut(u64, u64, &[u8]) -> ControlFlow<()>,
) -> Result<(), Refusal> {
    let element_bytes = tree.head.element_bytes();
    let (_, end) = prefix_range(&buffer_prefix(tree.index, last.number()), None);
    let start = page_key(tree.index, first, from);
    let range = (Bound::Included(start), end);
    let mut sound = true;
    tree.reader
        .scan(BUFFERS, borrow(&range), Direction::Ascending, &mut |name, page| match page_name(name) {
            Some((node, number)) if !page.is_empty() && page.len().is_multiple_of(element_bytes) => {
                visit(node, number, page)
            }
            _ => {
                sound = false;
                ControlFlow::Break(())
            }
        })
        .map_err(storage)?;
    if sound { Ok(()) } else { Err(damaged("a page of a buffer")) }
}

/// Appends elements: to the last page while it has room, then to new ones, whose numbers are not below the version: a
/// buffer that was emptied does not begin again with numbers that it had.
pub(super) fn append(
    writer: &mut impl Write,
    index: IndexId,
    head: &Head,
    node: Node,
    mut elements: &[u8],
) -> Result<(), Refusal> {
    if elements.is_empty() {
        return Ok(());
    }
    let full = head.page_elements().saturating_mul(head.element_bytes());
    let range = prefix_range(&buffer_prefix(index, node.number()), None);
    let mut last = None;
    writer
        .scan(BUFFERS, borrow(&range), Direction::Descending, &mut |name, page| {
            last = page_name(name).map(|(_, number)| (number, page.to_vec()));
            ControlFlow::Break(())
        })
        .map_err(storage)?;
    let (mut number, mut page) = last.unwrap_or((head.version, Vec::new()));
    loop {
        let (fits, rest) = elements.split_at(full.saturating_sub(page.len()).min(elements.len()));
        page.extend_from_slice(fits);
        if !fits.is_empty() {
            writer.put(BUFFERS, &page_key(index, node, number), &page).map_err(storage)?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        elements = rest;
        number = number.checked_add(1).ok_or_else(|| damaged("page numbers have run out"))?.max(head.version);
        page.clear();
    }
}

/// Bytes of a chunk that no further page is added to, so that replies with as many as may be asked for fit a frame.
const CHUNK_BYTES_SOFT: usize = REPLY_BYTES_SOFT / 4;

/// The first pages of a node's buffer; `None` if it is empty.
pub(super) fn chunk<R: Read>(
    tree: &Tree<'_, R>,
    node: Node,
    pages_max: usize,
) -> Result<Option<Chunk>, Refusal> {
    let mut elements = Vec::new();
    let mut left = pages_max;
    let mut is_last = true;
    visit(tree, node, 0, |_, page| {
        elements.extend_from_slice(page);
        left = left.saturating_sub(1);
        // Whether a page follows is not looked up: the next chunk, or that there is none, says it.
        is_last = left > 0 && elements.len() < CHUNK_BYTES_SOFT;
        if is_last { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok((!elements.is_empty()).then_some(Chunk { is_last, elements: Blob(elements) }))
}

/// Takes the first `count` elements and says how many pages are gone. A page that has grown since these were shown is split:
/// what came later stays in it.
pub(super) fn take(
    writer: &mut impl Write,
    index: IndexId,
    head: &Head,
    node: Node,
    count: usize,
) -> Result<(Vec<u8>, u64), Refusal> {
    let bytes = count.saturating_mul(head.element_bytes());
    let mut elements = Vec::new();
    let mut numbers = Vec::new();
    let tree = Tree { reader: &*writer, index, head: head.clone() };
    visit(&tree, node, 0, |number, page| {
        numbers.push(number);
        elements.extend_from_slice(page);
        if elements.len() < bytes { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if count == 0 || elements.len() < bytes {
        return Err(malformed("the buffer has fewer elements"));
    }
    let later = elements.split_off(bytes);
    if let Some(grown) = numbers.pop_if(|_| !later.is_empty()) {
        writer.put(BUFFERS, &page_key(index, node, grown), &later).map_err(storage)?;
    }
    for number in &numbers {
        writer.delete(BUFFERS, &page_key(index, node, *number)).map_err(storage)?;
    }
    Ok((elements, numbers.len() as u64))
}

/// Takes elements out of a node's buffer, a copy for each time that one is named, and says how many pages the buffer had.
pub(super) fn take_out(
    writer: &mut impl Write,
    index: IndexId,
    head: &Head,
    node: Node,
    mut named: BTreeMap<&[u8], usize>,
) -> Result<u64, Refusal> {
    let mut pages = 0_u64;
    let mut changed: Vec<(u64, Vec<u8>)> = Vec::new();
    let tree = Tree { reader: &*writer, index, head: head.clone() };
    visit(&tree, node, 0, |number, page| {
        pages = pages.saturating_add(1);
        let mut rest = Vec::with_capacity(page.len());
        for element in page.chunks_exact(head.element_bytes()) {
            match named.get_mut(element) {
                Some(copies) if *copies > 0 => *copies = copies.saturating_sub(1),
                _ => rest.extend_from_slice(element),
            }
        }
        if rest.len() < page.len() {
            changed.push((number, rest));
        }
        ControlFlow::Continue(())
    })?;
    if named.values().any(|copies| *copies > 0) {
        return Err(malformed("an element that is not there"));
    }
    for (number, rest) in changed {
        let name = page_key(index, node, number);
        if rest.is_empty() {
            writer.delete(BUFFERS, &name).map_err(storage)?;
        } else {
            writer.put(BUFFERS, &name, &rest).map_err(storage)?;
        }
    }
    Ok(pages)
}

/// Whether a node's buffer has at most so many elements.
pub(super) fn holds_at_most<R: Read>(
    tree: &Tree<'_, R>,
    node: Node,
    elements_max: usize,
) -> Result<bool, Refusal> {
    let mut bytes_left = Some(elements_max.saturating_mul(tree.head.element_bytes()));
    visit(tree, node, 0, |_, page| {
        bytes_left = bytes_left.and_then(|left| left.checked_sub(page.len()));
        if bytes_left.is_some() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(bytes_left.is_some())
}

/// Whether a node's buffer is empty.
pub(super) fn is_empty<R: Read>(tree: &Tree<'_, R>, node: Node) -> Result<bool, Refusal> {
    holds_at_most(tree, node, 0)
}

/// Draws labels among the elements of a leaf, without replacement: enough for leaves of about `leaf_max / 2`
/// elements, `leaf_max` at most. One pass (Li's reservoir would skip elements; pages are read whole anyway).
pub(super) fn sample<R: Read>(
    tree: &Tree<'_, R>,
    node: Node,
    leaf_max: usize,
    prg: &mut Prg,
) -> Result<Vec<u8>, Refusal> {
    let element_bytes = tree.head.element_bytes();
    let mut drawn: Vec<u8> = Vec::with_capacity(leaf_max.saturating_mul(element_bytes));
    let mut seen = 0_usize;
    visit(tree, node, 0, |_, page| {
        for element in page.chunks_exact(element_bytes) {
            seen = seen.saturating_add(1);
            if seen <= leaf_max {
                drawn.extend_from_slice(element);
                continue;
            }
            let place = below(prg, seen).saturating_mul(element_bytes);
            if let Some(slot) = drawn.get_mut(place..place.saturating_add(element_bytes)) {
                slot.copy_from_slice(element);
            }
        }
        ControlFlow::Continue(())
    })?;
    let labels = seen.saturating_mul(2).div_ceil(leaf_max.max(1)).saturating_sub(1).clamp(1, leaf_max.max(1));
    // The reservoir is in no random order: its first places hold what came first. A random part of it is drawn.
    let held = drawn.len().checked_div(element_bytes).unwrap_or_default();
    for place in 0..labels.min(held) {
        let other = place.saturating_add(below(prg, held.saturating_sub(place)));
        swap(&mut drawn, place, other, element_bytes);
    }
    drawn.truncate(labels.saturating_mul(element_bytes));
    Ok(drawn)
}

/// A number below `bound`, uniform but for a bias of `bound` / 2^64; 0 for a bound of 0.
fn below(prg: &mut Prg, bound: usize) -> usize {
    let wide = u128::from(prg.next_u64()).saturating_mul(bound as u128) >> 64;
    usize::try_from(wide).unwrap_or_default()
}

/// Swaps two elements.
fn swap(elements: &mut [u8], place: usize, other: usize, element_bytes: usize) {
    let (first, second) = (place.min(other), place.max(other));
    if first == second {
        return;
    }
    let Some((head, tail)) = elements.split_at_mut_checked(second.saturating_mul(element_bytes)) else {
        return;
    };
    let start = first.saturating_mul(element_bytes);
    let one = head.get_mut(start..start.saturating_add(element_bytes));
    if let (Some(one), Some(two)) = (one, tail.get_mut(..element_bytes)) {
        one.swap_with_slice(two);
    }
}
