//! Keyless half of: B+ tree over any OPE or ORE scheme.
//!
//! Pages are values of the store of at most `page_bytes`; a header beside them names the root. There are no links
//! between leaves: a scan goes on through its stack of parents, so that a split or merge writes no third leaf.

mod insert;
mod load;
mod page;
mod remove;
mod replace;
mod revise;
mod search;
mod tie;
mod tree;

use crate::backend::storage;
use arras_protocol::bplus::{Change, ENTRIES_MAX, PAGE_BYTES_MAX, Request, Response};
use arras_protocol::ore::Scheme;
use arras_protocol::{IndexId, Refusal};
use arras_storage::{Durability, Storage, Write};
use page::Layout;
use std::ops::DerefMut;
pub(crate) use tree::EMPTIED;
use tree::Tree;

/// True for what changes the entries of an index, or which there are.
pub(crate) fn is_change(request: &Request) -> bool {
    match request {
        Request::Change(_) | Request::Load { .. } => true,
        Request::Locate { .. } | Request::Search { .. } => false,
    }
}

/// Answers a request.
pub(crate) fn answer<S: Storage>(store: &S, request: Request) -> Result<Response, Refusal> {
    match request {
        Request::Search { index, version, lower, upper, order, limit } => {
            let reader = store.read().map_err(storage)?;
            let tree = Tree::open(&reader, index)?;
            revise::check_version(&tree, version)?;
            search::answer(&tree, &lower, &upper, order, limit)
        }
        Request::Locate { index, version, wanted } => {
            let reader = store.read().map_err(storage)?;
            let tree = Tree::open(&reader, index)?;
            revise::check_version(&tree, version)?;
            Ok(Response::Located { stored: revise::locate(&tree, &wanted)? })
        }
        Request::Change(change) => {
            let mut writer = store.write().map_err(storage)?;
            let response = change_index(&mut writer, &change)?;
            writer.commit(Durability::Durable).map_err(storage)?;
            Ok(response)
        }
        Request::Load { index, entries } => {
            let mut writer = store.write().map_err(storage)?;
            let mut tree = Tree::open(&mut writer, index)?;
            check_listed(&tree, entries.len())?;
            load::apply(&mut tree, &entries)?;
            tree.save()?;
            writer.commit(Durability::Durable).map_err(storage)?;
            Ok(Response::Done)
        }
    }
}

/// Applies a step of a write.
pub(crate) fn apply(writer: &mut impl Write, change: &Change) -> Result<(), Refusal> {
    change_index(writer, change).map(drop)
}

fn malformed<T>(what: &str) -> Result<T, Refusal> {
    Err(Refusal::Malformed(what.to_owned()))
}

fn change_index(writer: &mut impl Write, change: &Change) -> Result<Response, Refusal> {
    match change {
        Change::CreateIndex { index, scheme, page_bytes } => {
            return create(writer, *index, *scheme, *page_bytes);
        }
        Change::DropIndex { index } => tree::drop_index(writer, *index)?,
        Change::Insert { index, entries } => {
            changed(writer, *index, |tree| {
                check_listed(tree, entries.len())?;
                insert::apply(tree, entries)
            })?;
        }
        Change::Remove { index, targets } => {
            changed(writer, *index, |tree| {
                check_listed(tree, targets.len())?;
                remove::apply(tree, targets)
            })?;
        }
        Change::Revise { index, revision } => {
            changed(writer, *index, |tree| revise::apply(tree, revision))?;
        }
    }
    Ok(Response::Done)
}

/// Opens a tree, changes it, and writes its header.
fn changed<W: Write>(
    writer: &mut W,
    index: IndexId,
    change: impl FnOnce(&mut Tree<&mut W>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut tree = Tree::open(writer, index)?;
    change(&mut tree)?;
    tree.save()
}

fn check_count(count: usize) -> Result<(), Refusal> {
    if count > ENTRIES_MAX {
        return Err(Refusal::Limit(format!("{count} entries, at most {ENTRIES_MAX}")));
    }
    Ok(())
}

/// Lists of entries are for schemes whose ciphertexts the client does not keep: there is no version to them.
fn check_listed<T: DerefMut<Target: Write>>(tree: &Tree<T>, count: usize) -> Result<(), Refusal> {
    if tree.layout.scheme.hides_equality() {
        return malformed("an index whose ciphertexts the client keeps changes by revisions");
    }
    check_count(count)
}

fn create(
    writer: &mut impl Write,
    index: IndexId,
    scheme: Scheme,
    page_bytes: u32,
) -> Result<Response, Refusal> {
    if page_bytes > PAGE_BYTES_MAX {
        return malformed(&format!("a page of {page_bytes} bytes, at most {PAGE_BYTES_MAX}"));
    }
    if let Some(why) = crate::ore::not_served(scheme) {
        return malformed(why);
    }
    let layout = Layout::new(scheme, page_bytes)?;
    match tree::read_header(writer, index) {
        Ok((_, header)) if header.scheme == scheme && header.page_bytes == page_bytes => {
            let filled = Tree::open(writer, index)?.is_filled()?;
            Ok(Response::Created { filled })
        }
        Ok(_) => malformed("the index is there, with another scheme or page size"),
        Err(Refusal::UnknownIndex) => {
            tree::create(writer, index, layout)?;
            Ok(Response::Created { filled: false })
        }
        Err(other) => Err(other),
    }
}
