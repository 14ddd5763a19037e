//! Keyless half of POPE: the buffer tree in pages ([`arras_protocol::pope`] says what it is).
//!
//! *Storage.* A header an index; a page an inner node (labels and children); a buffer is a chain of pages, each a
//! value of at most `page_bytes`. An insertion reads the header and the last page of the root's buffer and writes
//! that page or the next.
//!
//! *Trust.* Requests are checked against what is stored: paths link by link, chunks by page and length. What is
//! stored is checked as it is followed. What a client may do wrong at will is the order, which it alone knows.
//!
//! *Durability.* Insertions and removals are durable; pushes and splits may be lost by a crash, together with
//! what followed them, and are then done again by the next search.
//!
//! *Deviations* from the paper. A leaf of `n` elements is split by about `2n/L` labels, not always by `L`: leaves
//! come out half full and not with few elements each, and fewer elements have their order shown. Inner nodes have
//! at most `L` labels at rest, so that each fits its page, where the paper allows `2L`.

mod buffer;
mod collect;
mod node;
mod restructure;
#[cfg(test)]
mod tests;

use crate::backend::storage;
use arras_primitives::prg::Prg;
use arras_protocol::pope::{Located, Node, Request, Response, View, labels_per_node};
use arras_protocol::{Blob, IndexId, Refusal};
use arras_storage::{Durability, Read, Storage, Table, Write};
use buffer::{append, buffer_prefix, chunk, take};
use node::{HEADS, Head, Inner, Tree, malformed, save_head};

/// Index id, node number and page number to elements.
const BUFFERS: Table = Table("pope_buffers");

/// Largest page, in bytes.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Most pages in a chunk.
const CHUNK_PAGES_MAX: u32 = 1 << 12;
/// Most nodes looked at by one request; a search asks for two.
const LOOK_NODES_MAX: usize = 8;

/// Answers a request.
pub(crate) fn answer<S: Storage>(store: &S, request: Request) -> Result<Response, Refusal> {
    match request {
        Request::Look { index, nodes, pages_max, seed } => {
            let reader = store.read().map_err(storage)?;
            look(&Tree::open(&reader, index)?, &nodes, pages_max, &seed)
        }
        Request::Collect { index, lower, upper, resume, seed } => {
            let reader = store.read().map_err(storage)?;
            let tree = Tree::open(&reader, index)?;
            let unsorted =
                if resume.is_none() { unsorted(&tree, [&lower, &upper], &seed)? } else { Vec::new() };
            if unsorted.is_empty() {
                collect::collect(&tree, lower, &upper, resume)
            } else {
                Ok(Response::Looked(unsorted))
            }
        }
        Request::Push { .. } | Request::Split { .. } => {
            let mut writer = store.write().map_err(storage)?;
            let response = reshape(&mut writer, request)?;
            writer.commit(Durability::Relaxed).map_err(storage)?;
            Ok(response)
        }
        update => {
            let mut writer = store.write().map_err(storage)?;
            change(&mut writer, update)?;
            writer.commit(Durability::Durable).map_err(storage)?;
            Ok(Response::Done)
        }
    }
}

/// Requests that move elements down.
fn reshape(writer: &mut impl Write, request: Request) -> Result<Response, Refusal> {
    match request {
        Request::Push { index, path, page, children, pages_max } => {
            push(writer, index, &path, page, children.as_slice(), pages_max)
        }
        Request::Split { index, path, labels, pages_max } => {
            restructure::split_leaf(writer, index, &path, labels.as_slice())?;
            let tree = Tree::open(writer, index)?;
            let node = path.last().copied().ok_or_else(|| malformed("an empty path"))?;
            Ok(Response::Pushed { next: chunk(&tree, node, pages(pages_max))?, restructured: false })
        }
        _ => Err(malformed("not a step of a search")),
    }
}

/// Requests that change the set.
fn change(writer: &mut impl Write, request: Request) -> Result<(), Refusal> {
    match request {
        Request::CreateIndex { index, page_bytes, element_bytes } => {
            create(writer, index, page_bytes, element_bytes)
        }
        Request::DropIndex { index } => drop_index(writer, index),
        Request::Insert { index, elements } => {
            let head = Tree::open(writer, index)?.head;
            if elements.len() % head.element_bytes() != 0 {
                return Err(malformed("not whole elements"));
            }
            append(writer, index, &head, head.root, elements.as_slice())
        }
        Request::Remove { index, elements } => {
            let head = Tree::open(writer, index)?.head;
            elements.iter().try_for_each(|element| remove(writer, index, &head, element))
        }
        _ => Err(malformed("not a change")),
    }
}

fn create(
    writer: &mut impl Write,
    index: IndexId,
    page_bytes: u32,
    element_bytes: u16,
) -> Result<(), Refusal> {
    let (page, element) = (page_bytes as usize, usize::from(element_bytes));
    if page > PAGE_BYTES_MAX || element == 0 || labels_per_node(page, element).is_none() {
        return Err(Refusal::Limit(format!(
            "a page of {page} bytes for elements of {element}: it must hold 3 labels and is at most {PAGE_BYTES_MAX}"
        )));
    }
    let head = Head { page_bytes, element_bytes, root: Node::leaf(0), unused: 1 };
    match Tree::open(writer, index) {
        Ok(tree) if tree.head.page_bytes == page_bytes && tree.head.element_bytes == element_bytes => Ok(()),
        Ok(_) => Err(malformed("the index exists with other parameters")),
        Err(Refusal::UnknownIndex) => save_head(writer, index, &head),
        Err(other) => Err(other),
    }
}

fn drop_index(writer: &mut impl Write, index: IndexId) -> Result<(), Refusal> {
    writer.delete(HEADS, index.as_bytes()).map_err(storage)?;
    writer.delete_prefix(node::NODES, index.as_bytes()).map_err(storage)?;
    writer.delete_prefix(BUFFERS, index.as_bytes()).map_err(storage).map(drop)
}

/// Pages of a chunk, as far as asked for and allowed.
fn pages(asked: u32) -> usize {
    asked.clamp(1, CHUNK_PAGES_MAX) as usize
}

fn look<R: Read>(
    tree: &Tree<'_, R>,
    nodes: &[Node],
    pages_max: u32,
    seed: &[u8; 16],
) -> Result<Response, Refusal> {
    if nodes.len() > LOOK_NODES_MAX {
        return Err(Refusal::Limit("too many nodes to look at".into()));
    }
    let root = [tree.head.root];
    let nodes = if nodes.is_empty() { &root } else { nodes };
    let mut prg = Prg::new(seed);
    let views = nodes.iter().map(|&node| Ok((node, view(tree, node, pages(pages_max), &mut prg)?)));
    views.collect::<Result<_, _>>().map(Response::Looked)
}

fn view<R: Read>(tree: &Tree<'_, R>, node: Node, pages_max: usize, prg: &mut Prg) -> Result<View, Refusal> {
    if node.is_inner() {
        let Inner { labels, children, .. } =
            tree.inner(node)?.ok_or_else(|| malformed("no such inner node"))?;
        let buffered = chunk(tree, node, pages_max)?;
        return Ok(View::Inner { labels: Blob(labels), children, buffered });
    }
    let leaf_max = tree.head.labels()?;
    if buffer::holds_at_most(tree, node, leaf_max)? {
        return Ok(View::Leaf);
    }
    Ok(View::Oversized { sample: Blob(buffer::sample(tree, node, leaf_max, prg)?) })
}

/// The leaves at the ends of two paths that must be split.
fn unsorted<R: Read>(
    tree: &Tree<'_, R>,
    paths: [&[Node]; 2],
    seed: &[u8; 16],
) -> Result<Vec<(Node, View)>, Refusal> {
    let mut leaves: Vec<Node> =
        paths.iter().filter_map(|path| path.last().copied()).filter(|node| !node.is_inner()).collect();
    leaves.dedup();
    let mut prg = Prg::new(seed);
    let mut views = Vec::new();
    for leaf in leaves {
        match view(tree, leaf, 1, &mut prg)? {
            View::Leaf => {}
            unsorted => views.push((leaf, unsorted)),
        }
    }
    Ok(views)
}

fn push(
    writer: &mut impl Write,
    index: IndexId,
    path: &[Node],
    page: u64,
    choices: &[u8],
    pages_max: u32,
) -> Result<Response, Refusal> {
    let tree = Tree::open(writer, index)?;
    tree.check_path(path)?;
    let node = path.last().copied().ok_or_else(|| malformed("an empty path"))?;
    let inner = tree.inner(node)?.ok_or_else(|| malformed("a leaf has nothing to push to"))?;
    let head = tree.head.clone();
    let elements = take(writer, index, &head, node, page, choices.len())?;
    let mut sorted: Vec<Vec<u8>> = vec![Vec::new(); inner.children.len()];
    for (element, &choice) in elements.chunks_exact(head.element_bytes()).zip(choices) {
        sorted
            .get_mut(usize::from(choice))
            .ok_or_else(|| malformed("an element for a child that is not"))?
            .extend_from_slice(element);
    }
    for (&child, elements) in inner.children.iter().zip(&sorted) {
        append(writer, index, &head, child, elements)?;
    }
    let next = chunk(&Tree::open(writer, index)?, node, pages(pages_max))?;
    let restructured = next.is_none() && inner.splitting && restructure::dissolve(writer, index, path)?;
    Ok(Response::Pushed { next, restructured })
}

fn remove(writer: &mut impl Write, index: IndexId, head: &Head, located: &Located) -> Result<(), Refusal> {
    if located.element.len() != head.element_bytes() {
        return Err(malformed("not an element"));
    }
    let mut name = buffer_prefix(index, located.node);
    name.extend_from_slice(&located.page.to_be_bytes());
    let Some(page) = writer.get(BUFFERS, &name).map_err(storage)? else { return Ok(()) };
    let mut page = Vec::from(page);
    let Some(place) =
        page.chunks_exact(head.element_bytes()).position(|element| element == located.element.as_slice())
    else {
        return Ok(());
    };
    let start = place.saturating_mul(head.element_bytes());
    page.drain(start..start.saturating_add(head.element_bytes()).min(page.len()));
    if page.is_empty() {
        writer.delete(BUFFERS, &name).map_err(storage).map(drop)
    } else {
        writer.put(BUFFERS, &name, &page).map_err(storage)
    }
}
