//! Keyless half of POPE: the buffer tree in pages ([`arras_protocol::pope`] says what it is).
//!
//! *Storage.* A header an index; a page an inner node (labels and children); a buffer is a chain of pages, each a
//! value of at most `page_bytes`. An insertion reads the header and the last page of the root's buffer and writes
//! that page or the next.
//!
//! *Trust.* Requests are checked against what is stored: versions, paths link by link, numbers of elements. What is
//! stored is checked as it is followed. What a client may do wrong at will is the order, which it alone knows.
//!
//! *Writes.* As the index of a field it changes in the document's write ([`apply`]); pushes, splits and purges are requests of
//! their own, which change nothing if they are late or repeated.
//!
//! *Durability.* Changes of the set are durable; pushes, splits and purges may be lost by a crash, together with
//! what followed them, and are then done again by the next search. No version comes twice for it: see [`node::Head`].
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
use crate::leftovers;
use arras_primitives::prg::Prg;
use arras_protocol::pope::{Change, Chunk, Located, Node, Request, Response, View, labels_per_node};
use arras_protocol::{Blob, IndexId, Refusal};
use arras_storage::{Durability, Read, Storage, Table, Write};
use buffer::{append, chunk, take};
use node::{HEADS, Head, Inner, Tree, malformed, save_head};
use std::collections::BTreeMap;

/// Index id, node number and page number to elements.
const BUFFERS: Table = Table("pope_buffers");
/// Tables that a drop empties of what begins with the index's id.
pub(crate) const EMPTIED: &[Table] = &[node::NODES, BUFFERS];

/// Largest page, in bytes.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Most pages in a chunk.
const CHUNK_PAGES_MAX: u32 = 1 << 12;
/// Most nodes looked at by one request; a search asks for two.
const LOOK_NODES_MAX: usize = 8;

/// True for what changes the elements of an index, or which there are; what changes its shape alone is no such change.
pub(crate) fn is_change(request: &Request) -> bool {
    match request {
        Request::CreateIndex { .. } | Request::DropIndex { .. } | Request::Insert { .. } => true,
        Request::Look { .. }
        | Request::Push { .. }
        | Request::Split { .. }
        | Request::Collect { .. }
        | Request::Purge { .. } => false,
    }
}

/// Answers a request. `incarnation` counts the starts of the server.
pub(crate) fn answer<S: Storage>(store: &S, incarnation: u64, request: Request) -> Result<Response, Refusal> {
    match request {
        Request::Look { index, nodes, pages_max, seed } => {
            let reader = store.read().map_err(storage)?;
            look(&Tree::open(&reader, index)?, nodes, pages_max, &seed)
        }
        Request::Collect { index, version, lower, upper, resume, seed } => {
            let reader = store.read().map_err(storage)?;
            let tree = Tree::open(&reader, index)?;
            if tree.head.version != version {
                return Ok(Response::Changed);
            }
            let views = if resume.is_none() { unsorted(&tree, [&lower, &upper], &seed)? } else { Vec::new() };
            if views.is_empty() {
                collect::collect(&tree, lower, &upper, resume)
            } else {
                Ok(Response::Looked { version, views })
            }
        }
        Request::Push { index, version, path, children, pages_max } => {
            reshape(store, incarnation, (index, version), |writer, head| {
                push(writer, index, head, (&path, children.as_slice()), pages_max)
            })
        }
        Request::Split { index, version, path, labels, pages_max } => {
            reshape(store, incarnation, (index, version), |writer, head| {
                let node = path.last().copied().ok_or_else(|| malformed("an empty path"))?;
                restructure::split_leaf(writer, index, head, &path, labels.as_slice())?;
                let tree = Tree { reader: &*writer, index, head: head.clone() };
                Ok(Reshaped { pages: 0, next: chunk(&tree, node, pages(pages_max))?, restructured: false })
            })
        }
        Request::Purge { index, version, elements } => {
            let purged = reshape(store, incarnation, (index, version), |writer, head| {
                purge(writer, index, head, &elements)
            })?;
            Ok(if purged == Response::Changed { purged } else { Response::Done })
        }
        Request::CreateIndex { index, page_bytes, element_bytes, supersede } => {
            let mut writer = store.write().map_err(storage)?;
            let mut head = created(&writer, index, page_bytes, element_bytes)?;
            head.epoch = head.epoch.saturating_add(1);
            if supersede {
                head.superseded_below = head.epoch;
            }
            save_head(&mut writer, index, &head)?;
            writer.commit(Durability::Durable).map_err(storage)?;
            Ok(Response::Epoch(head.epoch))
        }
        Request::DropIndex { index } => {
            let mut writer = store.write().map_err(storage)?;
            drop_index(&mut writer, index)?;
            writer.commit(Durability::Durable).map_err(storage)?;
            Ok(Response::Done)
        }
        Request::Insert { index, epoch, elements } => {
            let mut writer = store.write().map_err(storage)?;
            let head = Tree::open(&writer, index)?.head;
            if epoch < head.superseded_below {
                return Ok(Response::Superseded);
            }
            insert(&mut writer, index, &head, &elements)?;
            writer.commit(Durability::Durable).map_err(storage)?;
            Ok(Response::Epoch(head.epoch))
        }
    }
}

/// Applies a step of a write.
pub(crate) fn apply(writer: &mut impl Write, change: &Change) -> Result<(), Refusal> {
    match change {
        Change::CreateIndex { index, page_bytes, element_bytes } => {
            let head = created(writer, *index, *page_bytes, *element_bytes)?;
            save_head(writer, *index, &head)
        }
        Change::DropIndex { index } => drop_index(writer, *index),
        Change::Append { index, elements } => {
            let head = Tree::open(writer, *index)?.head;
            insert(writer, *index, &head, elements)
        }
    }
}

/// What a change of shape has done.
struct Reshaped {
    /// Pages of buffers that it took.
    pages: u64,
    next: Option<Chunk>,
    restructured: bool,
}

/// Does what changes the tree's shape, if its version is the one named, and raises that.
fn reshape<S: Storage>(
    store: &S,
    incarnation: u64,
    (index, version): (IndexId, u64),
    change: impl FnOnce(&mut S::Writer<'_>, &mut Head) -> Result<Reshaped, Refusal>,
) -> Result<Response, Refusal> {
    let mut writer = store.write().map_err(storage)?;
    let mut head = Tree::open(&writer, index)?.head;
    if head.version != version {
        return Ok(Response::Changed);
    }
    let Reshaped { pages, next, restructured } = change(&mut writer, &mut head)?;
    head.raise(incarnation, pages);
    save_head(&mut writer, index, &head)?;
    writer.commit(Durability::Relaxed).map_err(storage)?;
    Ok(Response::Pushed { version: head.version, next, restructured })
}

/// The header of an index of these parameters: the one that is there, or one to be made.
fn created(reader: &impl Read, index: IndexId, page_bytes: u32, element_bytes: u16) -> Result<Head, Refusal> {
    let (page, element) = (page_bytes as usize, usize::from(element_bytes));
    if page > PAGE_BYTES_MAX || element == 0 || labels_per_node(page, element).is_none() {
        return Err(Refusal::Limit(format!(
            "a page of {page} bytes for elements of {element}: it must hold 3 labels and is at most {PAGE_BYTES_MAX}"
        )));
    }
    match Tree::open(reader, index) {
        Ok(tree) if tree.head.page_bytes == page_bytes && tree.head.element_bytes == element_bytes => {
            Ok(tree.head)
        }
        Ok(_) => Err(malformed("the index exists with other parameters")),
        Err(Refusal::UnknownIndex) => {
            leftovers::none_of(reader, EMPTIED, index.as_bytes())?;
            Ok(Head::new(page_bytes, element_bytes))
        }
        Err(other) => Err(other),
    }
}

/// Appends elements to the root's buffer.
fn insert(writer: &mut impl Write, index: IndexId, head: &Head, elements: &Blob) -> Result<(), Refusal> {
    if !elements.len().is_multiple_of(head.element_bytes()) {
        return Err(malformed("not whole elements"));
    }
    append(writer, index, head, head.root, elements.as_slice())
}

fn drop_index(writer: &mut impl Write, index: IndexId) -> Result<(), Refusal> {
    writer.delete(HEADS, index.as_bytes()).map_err(storage)?;
    EMPTIED.iter().try_for_each(|table| leftovers::remove(writer, *table, index.as_bytes()))
}

/// Pages of a chunk, as far as asked for and allowed.
fn pages(asked: u32) -> usize {
    asked.clamp(1, CHUNK_PAGES_MAX) as usize
}

fn look<R: Read>(
    tree: &Tree<'_, R>,
    nodes: Option<(u64, Vec<Node>)>,
    pages_max: u32,
    seed: &[u8; 16],
) -> Result<Response, Refusal> {
    let version = tree.head.version;
    let nodes = match nodes {
        None => vec![tree.head.root],
        Some((seen, _)) if seen != version => return Ok(Response::Changed),
        Some((_, nodes)) => nodes,
    };
    if nodes.len() > LOOK_NODES_MAX {
        return Err(Refusal::Limit("too many nodes to look at".into()));
    }
    let mut prg = Prg::new(seed);
    let views = nodes.iter().map(|&node| Ok((node, view(tree, node, pages(pages_max), &mut prg)?)));
    Ok(Response::Looked { version, views: views.collect::<Result<_, Refusal>>()? })
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
    head: &mut Head,
    (path, choices): (&[Node], &[u8]),
    pages_max: u32,
) -> Result<Reshaped, Refusal> {
    let tree = Tree { reader: &*writer, index, head: head.clone() };
    tree.check_path(path)?;
    let node = path.last().copied().ok_or_else(|| malformed("an empty path"))?;
    let inner = tree.inner(node)?.ok_or_else(|| malformed("a leaf has nothing to push to"))?;
    let (elements, taken) = take(writer, index, head, node, choices.len())?;
    let mut sorted: Vec<Vec<u8>> = vec![Vec::new(); inner.children.len()];
    for (element, &choice) in elements.chunks_exact(head.element_bytes()).zip(choices) {
        sorted
            .get_mut(usize::from(choice))
            .ok_or_else(|| malformed("an element for a child that is not"))?
            .extend_from_slice(element);
    }
    for (&child, elements) in inner.children.iter().zip(&sorted) {
        append(writer, index, head, child, elements)?;
    }
    let tree = Tree { reader: &*writer, index, head: head.clone() };
    let next = if pages_max == 0 { None } else { chunk(&tree, node, pages(pages_max))? };
    let is_done = inner.splitting && next.is_none() && (pages_max > 0 || buffer::is_empty(&tree, node)?);
    let restructured = is_done && restructure::dissolve(writer, index, head, path)?;
    Ok(Reshaped { pages: taken, next, restructured })
}

/// Takes elements out, all of them.
fn purge(
    writer: &mut impl Write,
    index: IndexId,
    head: &Head,
    located: &[Located],
) -> Result<Reshaped, Refusal> {
    let mut nodes: BTreeMap<u64, BTreeMap<&[u8], usize>> = BTreeMap::new();
    for Located { node, element } in located {
        let copies = nodes.entry(*node).or_default().entry(element.as_slice()).or_default();
        *copies = copies.saturating_add(1);
    }
    let mut pages = 0_u64;
    for (node, named) in nodes {
        // Buffers go by number alone, those of leaves and of inner nodes.
        let node = Node::leaf(node);
        pages = pages.saturating_add(buffer::take_out(writer, index, head, node, named)?);
    }
    Ok(Reshaped { pages, next: None, restructured: false })
}
