//! Keyless half of: B+ tree over any OPE or ORE scheme.
//!
//! Pages are values of the store of at most `page_bytes`; a header beside them names the root. There are no links
//! between leaves: a scan goes on through its stack of parents, so that a split or merge writes no third leaf.

mod insert;
mod load;
mod page;
mod remove;
mod replace;
mod search;
mod tie;
mod tree;

use crate::backend::storage;
use arras_protocol::bplus::{ENTRIES_MAX, PAGE_BYTES_MAX, Request, Response};
use arras_protocol::ore::Scheme;
use arras_protocol::{IndexId, Refusal};
use arras_storage::{Durability, Storage, Write};
use page::Layout;
use tree::{Header, Tree};

/// Answers a request.
pub(crate) fn answer<S: Storage>(store: &S, request: Request) -> Result<Response, Refusal> {
    if let Request::Search { index, lower, upper, order, limit } = request {
        let tree = Tree::open(store.read().map_err(storage)?, index)?;
        return search::answer(&tree, &lower, &upper, order, limit);
    }
    let (writer, response) = apply(store.write().map_err(storage)?, request)?;
    writer.commit(Durability::Durable).map_err(storage)?;
    Ok(response)
}

fn malformed<T>(what: &str) -> Result<T, Refusal> {
    Err(Refusal::Malformed(what.to_owned()))
}

fn apply<W: Write>(mut writer: W, request: Request) -> Result<(W, Response), Refusal> {
    match request {
        Request::CreateIndex { index, scheme, page_bytes } => create(writer, index, scheme, page_bytes),
        Request::DropIndex { index } => {
            tree::drop_index(&mut writer, index)?;
            Ok((writer, Response::Done))
        }
        Request::Insert { index, version, replacement, entries } => {
            let mut tree = Tree::open(writer, index)?;
            if let Some(replacement) = replacement {
                replace::apply(&mut tree, &replacement)?;
            }
            check(&tree.header, version, entries.len())?;
            let present = insert::apply(&mut tree, &entries)?;
            Ok((tree.save()?, Response::Inserted { present }))
        }
        Request::Load { index, version, entries } => {
            let mut tree = Tree::open(writer, index)?;
            check(&tree.header, version, entries.len())?;
            load::apply(&mut tree, &entries)?;
            Ok((tree.save()?, Response::Done))
        }
        Request::Remove { index, version, targets } => {
            let mut tree = Tree::open(writer, index)?;
            check(&tree.header, version, targets.len())?;
            let stored = remove::apply(&mut tree, &targets)?;
            Ok((tree.save()?, Response::Removed { stored }))
        }
        Request::Replace { index, replacement } => {
            let mut tree = Tree::open(writer, index)?;
            replace::apply(&mut tree, &replacement)?;
            Ok((tree.save()?, Response::Done))
        }
        Request::Search { .. } => malformed("a search changes nothing"),
    }
}

/// A change must be of the index's version of ciphertexts: one that comes late, after a replacement, is refused.
fn check(header: &Header, version: u64, count: usize) -> Result<(), Refusal> {
    if header.version != version {
        return malformed("ciphertexts of another version");
    }
    if count > ENTRIES_MAX {
        return Err(Refusal::Limit(format!("{count} entries, at most {ENTRIES_MAX}")));
    }
    Ok(())
}

fn create<W: Write>(
    mut writer: W,
    index: IndexId,
    scheme: Scheme,
    page_bytes: u32,
) -> Result<(W, Response), Refusal> {
    if page_bytes > PAGE_BYTES_MAX {
        return malformed(&format!("a page of {page_bytes} bytes, at most {PAGE_BYTES_MAX}"));
    }
    let layout = Layout::new(scheme, page_bytes)?;
    match tree::read_header(&writer, index) {
        Ok((_, header)) if header.scheme == scheme && header.page_bytes == page_bytes => {
            let tree = Tree::open(writer, index)?;
            let filled = tree.is_filled()?;
            Ok((tree.save()?, Response::Created { filled }))
        }
        Ok(_) => malformed("the index is there, with another scheme or page size"),
        Err(Refusal::UnknownIndex) => {
            tree::create(&mut writer, index, layout)?;
            Ok((writer, Response::Created { filled: false }))
        }
        Err(other) => Err(other),
    }
}
