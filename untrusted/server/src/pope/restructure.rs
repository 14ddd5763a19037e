//! Leaves become parts of their parents, and nodes with too many labels become two. Needs no client.

use super::buffer::is_empty;
use super::node::{Head, Inner, Tree, damaged, forget, malformed};
use arras_protocol::pope::Node;
use arras_protocol::{IndexId, Refusal};
use arras_storage::Write;

/// Makes the leaf at the end of `path` an inner node with these labels and empty leaves; its elements stay in its
/// buffer. The root stays what it is then; another node is splitting. The caller saves the header.
pub(super) fn split_leaf(
    writer: &mut impl Write,
    index: IndexId,
    head: &mut Head,
    path: &[Node],
    labels: &[u8],
) -> Result<(), Refusal> {
    let tree = Tree { reader: &*writer, index, head: head.clone() };
    tree.check_path(path)?;
    let count = labels.len().checked_div(head.element_bytes()).unwrap_or_default();
    if labels.is_empty() || !labels.len().is_multiple_of(head.element_bytes()) || count > head.labels()? {
        return Err(malformed("not 1 to L labels"));
    }
    let (&leaf, ancestors) = path.split_last().ok_or_else(|| malformed("an empty path"))?;
    if leaf.is_inner() {
        return Err(malformed("only leaves are split by labels"));
    }
    match ancestors.last() {
        None => head.root = leaf.inner(),
        Some(&parent) => {
            let mut page = tree.child(parent)?;
            let pointer = page.children.iter_mut().find(|child| **child == leaf);
            *pointer.ok_or_else(|| damaged("a path that was checked"))? = leaf.inner();
            page.save(writer, index, head, parent)?;
        }
    }
    let children = (0..=count).map(|_| head.fresh()).collect();
    let inner = Inner { splitting: !ancestors.is_empty(), labels: labels.to_vec(), children };
    inner.save(writer, index, head, leaf)
}

/// What to write once all is known to fit.
struct Plan {
    head: Head,
    pages: Vec<(Node, Inner)>,
}

/// Replaces the splitting node at the end of `path`, whose buffer is empty, by its children. False if an
/// ancestor that would have to be split has a buffer: then the node stays for now. The caller saves the header.
pub(super) fn dissolve(
    writer: &mut impl Write,
    index: IndexId,
    head: &mut Head,
    path: &[Node],
) -> Result<bool, Refusal> {
    let Some((&node, ancestors)) = path.split_last() else { return Ok(false) };
    if ancestors.is_empty() {
        return Ok(false);
    }
    let tree = Tree { reader: &*writer, index, head: head.clone() };
    let Inner { labels, children, .. } = tree.child(node)?;
    let Some(plan) = plan(&tree, node, ancestors, labels, children)? else { return Ok(false) };
    for (node, page) in &plan.pages {
        page.save(writer, index, &plan.head, *node)?;
    }
    forget(writer, index, node)?;
    *head = plan.head;
    Ok(true)
}

/// Puts `labels` and `children` in the place of `node` in its parent, and splits upwards.
fn plan<R: arras_storage::Read>(
    tree: &Tree<'_, R>,
    node: Node,
    ancestors: &[Node],
    mut labels: Vec<u8>,
    mut children: Vec<Node>,
) -> Result<Option<Plan>, Refusal> {
    let element_bytes = tree.head.element_bytes();
    let full_bytes = tree.head.labels()?.saturating_mul(element_bytes);
    let mut plan = Plan { head: tree.head.clone(), pages: Vec::new() };
    let mut replaced = node;
    for &ancestor in ancestors.iter().rev() {
        let mut page = tree.child(ancestor)?;
        let place = page.place(replaced).ok_or_else(|| damaged("a path that was checked"))?;
        let start = place.saturating_mul(element_bytes).min(page.labels.len());
        page.labels.splice(start..start, labels);
        page.children.splice(place..=place, children);
        if page.labels.len() <= full_bytes {
            plan.pages.push((ancestor, page));
            return Ok(Some(plan));
        }
        if !is_empty(tree, ancestor)? {
            return Ok(None);
        }
        let (left, middle, right) = halve(page, element_bytes)?;
        let sibling = plan.head.fresh().inner();
        plan.pages.extend([(ancestor, left), (sibling, right)]);
        replaced = ancestor;
        (labels, children) = (middle, vec![ancestor, sibling]);
    }
    let root = plan.head.fresh().inner();
    plan.head.root = root;
    plan.pages.push((root, Inner { splitting: false, labels, children }));
    Ok(Some(plan))
}

/// A node with too many labels as two, and the label between.
fn halve(mut left: Inner, element_bytes: usize) -> Result<(Inner, Vec<u8>, Inner), Refusal> {
    let at_left = left.labels.len().checked_div(element_bytes).unwrap_or_default() / 2;
    let (cut, end) = (at_left.saturating_mul(element_bytes), at_left.saturating_add(1));
    let upper = end.saturating_mul(element_bytes);
    if upper > left.labels.len() || end > left.children.len() {
        return Err(damaged("a node of few labels is too full"));
    }
    let right = Inner {
        splitting: left.splitting,
        labels: left.labels.split_off(upper),
        children: left.children.split_off(end),
    };
    let middle = left.labels.split_off(cut);
    Ok((left, middle, right))
}
